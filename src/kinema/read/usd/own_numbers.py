"""Numbers of stages that Kinema wrote, in double precision although the schema has single.

Beside an attribute whose number does not fit, the writer puts `kinema:exact:<attribute>`. It counts as long as it
rounds to what the attribute says: whoever edits the attribute has the last word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinema.foundation import shortest_decimals
from kinema.words import ours

from . import pxr
from .gf_values import floats


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a stage says of Kinema having written it."""

    decimals: bool
    """Whether numbers in single precision stand for the shortest decimal number that rounds to them."""
    world: bool = False
    """Whether the stage as a whole is a world, however few robots there are in it."""


def read_stamp(stage: pxr.Stage) -> Stamp | None:
    """The stamp of the stage or of a layer that it is composed of; None where Kinema had no part in it."""
    stamps = [layer.customLayerData.get(ours.STAMP) for layer in stage.GetUsedLayers(True)]
    found = [s for s in stamps if isinstance(s, dict)]
    if not found:
        return None
    root = stage.GetRootLayer().customLayerData.get(ours.STAMP)
    is_world = isinstance(root, dict) and bool(root.get(ours.STAMP_WORLD))
    return Stamp(any(bool(s.get(ours.STAMP_DECIMALS)) for s in found), is_world)


def exact_number(stamp: Stamp, attribute: Any, value: Any, twin: Any, decimals: bool) -> Any:
    """The number that an attribute stands for.

    Args:
        stamp: what the stage says.
        attribute: the attribute, for its type.
        value: what it says.
        twin: what the exact attribute beside it says; None where there is none.
        decimals: whether the prim says that lists of numbers in single precision stand for decimals.
    """
    if twin is not None and _rounds_to(twin, value):
        return twin
    if decimals and isinstance(value, pxr.Vt.Vec3fArray):
        return pxr.Vt.Vec3dArray.FromNumpy(shortest_decimals(np.array(value, dtype=np.float32)))
    return _shortest(value) if stamp.decimals and str(attribute.GetTypeName()) in ours.TWINS else value


def _rounds_to(twin: Any, value: Any) -> bool:
    gf, vt = pxr.Gf, pxr.Vt
    doubles = {float: float, gf.Vec3f: gf.Vec3d, gf.Quatf: gf.Quatd, vt.Vec3fArray: vt.Vec3dArray}
    if type(twin) is not doubles.get(type(value)):
        return False
    given, exact = _flat(value), _flat(twin)
    with np.errstate(all="ignore"):
        return given.shape == exact.shape and np.array_equal(exact.astype(np.float32), given.astype(np.float32))


def _flat(value: Any) -> np.ndarray:
    if hasattr(value, "GetReal"):
        return np.array([value.GetReal(), *floats(value.GetImaginary())], dtype=np.float64)
    return np.array(value, dtype=np.float64)


def _shortest(value: Any) -> Any:
    gf = pxr.Gf
    if isinstance(value, float):
        return _decimal(value)
    if isinstance(value, gf.Quatf):
        return gf.Quatd(_decimal(value.GetReal()), gf.Vec3d(*map(_decimal, floats(value.GetImaginary()))))
    return gf.Vec3d(*map(_decimal, floats(value))) if isinstance(value, gf.Vec3f) else value


def _decimal(value: float) -> float:
    if value == 0.0 or value in (1.0, -1.0):
        return value
    return float(str(np.float32(value)))
