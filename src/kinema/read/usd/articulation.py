"""Which body an articulation says is its root."""

from __future__ import annotations

from collections.abc import Sequence

from kinema.description import Joint

from . import pxr
from .stage_index import StageIndex


def declared_roots(index: StageIndex, joints: Sequence[Joint]) -> list[str]:
    """Names of the links that articulation roots declare.

    The schema on a body names that body. On a joint it names the body the joint holds to the world. On any other prim
    it names the top-most body below it where the bodies are nested in each other; where they stand side by side the
    spanning tree's own rule decides.
    """
    roots: list[str] = []
    for prim in index.articulations:
        path = str(prim.GetPath())
        if path in index.bodies:
            roots.append(index.bodies[path].name)
        elif prim.IsA(pxr.UsdPhysics.Joint):
            roots += _held_by(index, prim, joints)
        else:
            roots += _topmost(index, prim)
    return roots


def _held_by(index: StageIndex, prim: pxr.Prim, joints: Sequence[Joint]) -> list[str]:
    joint = next((j for j in joints if j.origin.path == str(prim.GetPath())), None)
    if joint is None:
        return []
    ends = [end for end in (joint.parent, joint.child) if end is not None]
    if len(ends) == 1:
        return ends
    index.diagnostics.warning(
        "usd.articulation-on-inner-joint",
        f"joint {joint.name!r} is marked as an articulation's root, but neither of its sides is the world",
        hint="mark the root body, or a joint that fixes it to the world",
        origin=joint.origin,
    )
    return []


def _topmost(index: StageIndex, prim: pxr.Prim) -> list[str]:
    prefix = str(prim.GetPath()) + "/"
    inside = {path for path in index.bodies if path.startswith(prefix)}
    if not inside:
        index.diagnostics.warning(
            "usd.empty-articulation",
            f"{prim.GetPath()} is marked as an articulation's root, but holds no enabled body",
            origin=index.origin(prim),
        )
        return []
    tops = [path for path in inside if index.bodies[path].parent not in inside]
    return [index.bodies[tops[0]].name] if len(tops) == 1 else []
