"""Joints that follow others: Newton's and PhysX's schemas."""

from __future__ import annotations

from collections.abc import Mapping

from kinema.description import Joint, Mimic
from kinema.words import newton, physx

from . import pxr
from .stage_index import StageIndex
from .vendor import COORDINATE

NEWTON_MIMIC = (newton.MIMIC_OFFSET, newton.MIMIC_FACTOR, newton.MIMIC_ENABLED)
"""Attributes that mean something together with `newton:mimicJoint`."""


def apply_mimic(index: StageIndex, prim: pxr.Prim, joint: Joint, name_of: Mapping[str, str]) -> None:
    """Who is followed, and how.

    Args:
        index: the stage.
        prim: the joint's.
        joint: gets the mimic on its first axis.
        name_of: prim path -> name, of all joints.
    """
    leaders = index.targets(prim, newton.MIMIC_JOINT)
    if leaders and joint.axes and index.value(prim, newton.MIMIC_ENABLED) is not False:
        offset, multiplier = (index.authored(prim, name) for name in (newton.MIMIC_OFFSET, newton.MIMIC_FACTOR))
        axis = joint.axes[0]
        axis.mimic = Mimic(
            joint=_leader(index, prim, joint, str(leaders[0]), name_of),
            multiplier=1.0 if multiplier is None else float(multiplier),
            offset=0.0 if offset is None else float(offset) * COORDINATE.on(index, axis),
        )
    _physx_mimic(index, prim, joint, name_of)


def _physx_mimic(index: StageIndex, prim: pxr.Prim, joint: Joint, name_of: Mapping[str, str]) -> None:
    """PhysX says q + gearing * leader + offset = 0."""
    for name in sorted(index.values.facts(prim).authored):
        parts = name.split(":")
        if parts[0] != physx.MIMIC_NAMESPACE or parts[-1] != physx.MIMIC_REFERENCE:
            continue
        leaders = index.targets(prim, name)
        if not leaders or not joint.axes:
            continue
        prefix = ":".join(parts[:-1])
        gearing, offset = (index.authored(prim, f"{prefix}:{n}") for n in (physx.MIMIC_GEARING, physx.MIMIC_OFFSET))
        axis = joint.axes[0]
        axis.mimic = Mimic(
            joint=_leader(index, prim, joint, str(leaders[0]), name_of),
            multiplier=-float(1.0 if gearing is None else gearing),
            offset=-float(offset or 0.0) * COORDINATE.on(index, axis),
        )


def _leader(index: StageIndex, prim: pxr.Prim, joint: Joint, path: str, name_of: Mapping[str, str]) -> str:
    if path not in name_of:
        index.diagnostics.warning(
            "usd.mimic-target",
            f"joint {joint.name!r} follows {path}, which is no joint",
            origin=index.origin(prim),
        )
    return name_of.get(path, path)
