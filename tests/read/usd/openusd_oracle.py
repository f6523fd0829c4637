"""What OpenUSD's own utilities say of a stage: its physics parser, its mass computation, its validators."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kinema.core import Array, quaternion_to_matrix
from kit.usd_stages import open_fresh


def parse(file: Path, root: str = "/World") -> dict[str, dict[str, Any]]:
    """OpenUSD's descriptors below a prim: type name -> prim path -> descriptor."""
    from pxr import UsdPhysics

    found = UsdPhysics.UsdPhysicsLoadStageFromPrimRange(open_fresh(file), [root])
    return {
        str(kind): {str(p): d for p, d in zip(paths, descriptors, strict=True)}
        for kind, (paths, descriptors) in found.items()
    }


class Mass(NamedTuple):
    """Mass properties in the body's frame, in the stage's units."""

    mass: float
    center: Array
    inertia: Array
    asked: list[str]
    """The colliders that were asked for their volume."""


def mass_properties(file: Path, path: str) -> Mass:
    """What `ComputeMassProperties` says of a body; volumes and inertias of its colliders are supplied here."""
    from pxr import Usd, UsdGeom, UsdPhysics

    stage = open_fresh(file)
    body = stage.GetPrimAtPath(path)
    cache = UsdGeom.XformCache(Usd.TimeCode.Default())
    asked: list[str] = []

    def information(prim: Any) -> Any:
        asked.append(str(prim.GetPath()))
        return _information(prim, cache, body)

    mass, diagonal, center, axes = UsdPhysics.RigidBodyAPI(body).ComputeMassProperties(information)
    with np.errstate(all="ignore"):
        turn = quaternion_to_matrix([axes.GetReal(), *axes.GetImaginary()])
        inertia = turn @ np.diag(np.array(diagonal, dtype=np.float64)) @ turn.T
    return Mass(mass, np.array(center, dtype=np.float64), inertia, asked)


def _information(prim: Any, cache: Any, body: Any) -> Any:
    from pxr import Gf, UsdPhysics

    linear, offset = _matrix(cache.GetLocalToWorldTransform(prim))
    body_linear, body_offset = _matrix(cache.GetLocalToWorldTransform(body))
    body_turn = body_linear / np.linalg.norm(body_linear, axis=0)
    scale = np.linalg.norm(linear, axis=0)
    turn = body_turn.T @ (linear / scale)
    volume, inertia = _solid(prim, scale)
    result = UsdPhysics.RigidBodyAPI.MassInformation()
    result.volume = volume
    result.inertia = Gf.Matrix3f(*inertia.ravel().tolist())
    result.centerOfMass = Gf.Vec3f(0)
    result.localPos = Gf.Vec3f(*(body_turn.T @ (offset - body_offset)).tolist())
    result.localRot = Gf.Quatf(Gf.Matrix3d(*turn.T.ravel().tolist()).ExtractRotation().GetQuat())
    return result


def _matrix(matrix: Any) -> tuple[Array, Array]:
    m = np.array(matrix, dtype=np.float64)
    return m[:3, :3].T, m[3, :3]


def _solid(prim: Any, scale: Array) -> tuple[float, Array]:
    """Volume, and inertia at density one, of a centred primitive along its own axes."""

    def get(name: str) -> float:
        return float(prim.GetAttribute(name).Get())

    kind = prim.GetTypeName()
    if kind == "Cube":
        a, b, c = get("size") * scale
        volume = a * b * c
        return volume, volume / 12 * np.diag([b * b + c * c, a * a + c * c, a * a + b * b])
    if kind == "Sphere":
        r = get("radius") * scale[0]
        volume = 4 / 3 * math.pi * r**3
        return volume, 0.4 * volume * r * r * np.eye(3)
    axis = "XYZ".index(str(prim.GetAttribute("axis").Get()))
    r, h = get("radius") * scale[(axis + 1) % 3], get("height") * scale[axis]
    along, across, volume = _round(kind, r, h)
    moments = np.full(3, across)
    moments[axis] = along
    return volume, np.diag(moments)


def _round(kind: str, r: float, h: float) -> tuple[float, float, float]:
    """Moments of inertia about the axis and across it, and volume, of a cylinder or capsule."""
    cylinder = math.pi * r * r * h
    along, across = cylinder * r * r / 2, cylinder * (3 * r * r + h * h) / 12
    if kind == "Cylinder":
        return along, across, cylinder
    ball = 4 / 3 * math.pi * r**3
    # two half balls, each with its centre 3/8 r beyond the cylinder's end
    return along + 0.4 * ball * r * r, across + ball * (0.4 * r * r + h * h / 4 + 3 * h * r / 8), cylinder + ball


def validate(file: Path) -> set[str]:
    """The names of the errors that OpenUSD's physics validators find."""
    from pxr import UsdValidation

    names = ("RigidBodyChecker", "ColliderChecker", "PhysicsJointChecker", "ArticulationChecker")
    registry = UsdValidation.ValidationRegistry()
    validators = [registry.GetOrLoadValidatorByName(f"usdPhysicsValidators:{name}") for name in names]
    return {str(e.GetName()) for e in UsdValidation.ValidationContext(validators).Validate(open_fresh(file))}
