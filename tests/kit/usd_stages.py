"""Small USD stages written by tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SI = 'metersPerUnit = 1\n    kilogramsPerUnit = 1\n    upAxis = "Z"'
OTHER = 'metersPerUnit = 0.01\n    kilogramsPerUnit = 0.001\n    upAxis = "Y"'
"""Centimetres, grams, Y up: forces are in 1e-5 N, torques in 1e-7 N m, the stage's (x, y, z) is our (x, -z, y)."""

BODY, MASS, COLLIDER = "PhysicsRigidBodyAPI", "PhysicsMassAPI", "PhysicsCollisionAPI"
ROOT = "PhysicsArticulationRootAPI"
WEIGHT = """float physics:mass = 1
float3 physics:diagonalInertia = (1, 1, 1)
quatf physics:principalAxes = (1, 0, 0, 0)
point3f physics:centerOfMass = (0, 0, 0)"""
EIGHTH_Z = (math.cos(math.pi / 8), 0.0, 0.0, math.sin(math.pi / 8))
"""An eighth of a turn about z."""


def prim(kind_and_name: str, *lines: str, apis: Sequence[str] = ()) -> str:
    """The text of a prim, from its type and name, what stands in it, and the schemas applied to it."""
    names = ", ".join(f'"{api}"' for api in apis)
    head = f" (\n    prepend apiSchemas = [{names}]\n)" if apis else ""
    return f"def {kind_and_name}{head}\n{{\n" + "\n".join(lines) + "\n}"


def body(name: str, *lines: str, apis: Sequence[str] = ()) -> str:
    """A body of one kilogram."""
    return prim(f'Xform "{name}"', WEIGHT, *lines, apis=[BODY, MASS, *apis])


def placed(
    translate: Sequence[float] | None = None,
    orient: Sequence[float] | None = None,
    scale: Sequence[float] | None = None,
    *,
    reset: bool = False,
) -> str:
    """Transform operations: first scaled, then turned by a quaternion (w, x, y, z), then moved."""
    values = {"translate": ("double3", translate), "orient": ("quatd", orient), "scale": ("double3", scale)}
    lines = [f"{kind} xformOp:{op} = ({_numbers(v)})" for op, (kind, v) in values.items() if v is not None]
    order = [f'"xformOp:{op}"' for op, (_, v) in values.items() if v is not None]
    if reset:
        order.insert(0, '"!resetXformStack!"')
    return "\n".join([*lines, f"uniform token[] xformOpOrder = [{', '.join(order)}]"])


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(repr(float(v)) for v in values)


def write_stage(folder: Path, *prims: str, units: str = SI, name: str = "stage.usda", default: str = "") -> Path:
    """A stage of prims in a file."""
    head = f'{units}\n    defaultPrim = "{default}"' if default else units
    file = folder / name
    file.write_text(f"#usda 1.0\n(\n    {head}\n)\n" + "\n".join(prims) + "\n")
    return file


def open_fresh(file: Path) -> Any:
    """The stage of a file as it is now on disk, for OpenUSD's own utilities."""
    from pxr import Sdf, Usd

    layer = Sdf.Layer.FindOrOpen(str(file))
    layer.Reload(True)
    return Usd.Stage.Open(layer)
