"""What OpenUSD's `ComputeMassProperties` says of a body, with exact volumes of its colliders supplied to it."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kinema.core import Array, quaternion_to_matrix


class StageMass(NamedTuple):
    """Mass properties in SI, in the body's rigid frame."""

    mass: float
    center: Array
    inertia: Array | None
    """None where OpenUSD has no valid one."""


class _NoVolume(Exception):
    """A collider that encloses nothing."""


class _Solid(NamedTuple):
    """A solid of density one."""

    volume: float
    center: Array
    second: Array
    """Its second moment about the centre: the integral of x x^T."""


@functools.cache
def openusd_mass(file: Path, path: str) -> StageMass | None:
    """Mass properties of a body; None where OpenUSD has no valid answer: see `_has_answer`."""
    from pxr import Gf, Usd, UsdGeom, UsdPhysics

    stage = Usd.Stage.Open(str(file))
    unit, weight = UsdGeom.GetStageMetersPerUnit(stage), UsdPhysics.GetStageKilogramsPerUnit(stage)
    body = stage.GetPrimAtPath(path)
    cache = UsdGeom.XformCache(Usd.TimeCode.Default())
    frame, place = _linear(cache.GetLocalToWorldTransform(body))
    turn = _rotation(Gf.Transform(cache.GetLocalToWorldTransform(body)).GetRotation().GetQuat())
    asked: list[Any] = []

    def information(prim: Any) -> Any:
        asked.append(prim)
        linear, offset = _linear(cache.GetLocalToWorldTransform(prim))
        try:
            solid = _mapped(_solid(prim), turn.T @ linear, turn.T @ (offset - place))
        except _NoVolume:
            solid = _Solid(0.0, np.zeros(3), np.zeros((3, 3)))
        result = UsdPhysics.RigidBodyAPI.MassInformation()
        inertia = np.trace(solid.second) * np.eye(3) - solid.second
        result.volume = solid.volume
        result.inertia = Gf.Matrix3f(*inertia.ravel().tolist())
        result.centerOfMass = Gf.Vec3f(*solid.center.tolist())
        result.localPos, result.localRot = Gf.Vec3f(0), Gf.Quatf(1)
        return result

    mass, diagonal, center, axes = UsdPhysics.RigidBodyAPI(body).ComputeMassProperties(information)
    if mass <= 0 or not _has_answer(body, asked, turn.T @ frame):
        return None
    principal = _rotation(axes)
    inertia = (principal * np.array(diagonal, dtype=np.float64)) @ principal.T * weight * unit**2
    center_of_mass = np.array(center, dtype=np.float64) * unit
    return StageMass(mass * weight, center_of_mass, inertia if _knows_inertia(body, asked) else None)


def _has_answer(body: Any, asked: list[Any], stretch: Array) -> bool:
    """Whether OpenUSD's mass and centre are right: facts 8 to 10 of what is known about it."""
    if np.abs(stretch - np.diag(np.diag(stretch))).max() > 1e-6 * np.abs(stretch).max():
        return False  # it decomposes sheared bodies wrongly
    prims = [body, *asked, *(m for m in map(_material, asked) if m)]
    if any(str(p.GetAttribute(f"physics:{n}").GetTypeName()) != _typed(p, n) for p in prims for n in _NUMBERS):
        return False
    return bool(asked) or _says(body, "mass")


_NUMBERS = ("mass", "density")


def _material(prim: Any) -> Any:
    from pxr import UsdShade

    return UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial("physics")[0].GetPrim()


def _typed(prim: Any, name: str) -> str:
    """The type that the layer gives an attribute: OpenUSD reads nothing from a double where the schema has a float."""
    stack = prim.GetAttribute(f"physics:{name}").GetPropertyStack()
    return str(stack[0].typeName) if stack else str(prim.GetAttribute(f"physics:{name}").GetTypeName())


def _knows_inertia(body: Any, asked: list[Any]) -> bool:
    """Whether OpenUSD's inertia is right as well."""
    if body.HasAttribute("newton:inertia"):
        return False  # a full tensor, which it does not know of
    if _says(body, "diagonalInertia"):
        moments = np.array(body.GetAttribute("physics:diagonalInertia").Get())
        # it takes small ones for unset, and looks for axes in the colliders where none are given
        return float(np.linalg.norm(moments)) > 1e-4 and _says(body, "principalAxes")
    return bool(asked)


def _says(prim: Any, name: str) -> bool:
    return bool(prim.GetAttribute(f"physics:{name}").HasAuthoredValue())


def _rotation(quaternion: Any) -> Array:
    return quaternion_to_matrix([quaternion.GetReal(), *np.array(quaternion.GetImaginary()).tolist()])


def _linear(matrix: Any) -> tuple[Array, Array]:
    m = np.array(matrix, dtype=np.float64)
    return m[:3, :3].T, m[3, :3]


def _mapped(solid: _Solid, linear: Array, offset: Array) -> _Solid:
    """The solid under a linear map: exact for every shape."""
    growth = abs(float(np.linalg.det(linear)))
    return _Solid(growth * solid.volume, linear @ solid.center + offset, growth * linear @ solid.second @ linear.T)


def _solid(prim: Any) -> _Solid:
    """A shape in its own coordinates."""

    def get(name: str) -> float:
        return float(prim.GetAttribute(name).Get())

    kind = str(prim.GetTypeName())
    if kind == "Mesh":
        return _mesh(prim)
    if kind == "Cube":
        a = get("size")
        return _Solid(a**3, np.zeros(3), np.eye(3) * a**5 / 12)
    if kind == "Sphere":
        r = get("radius")
        volume = 4 / 3 * math.pi * r**3
        return _Solid(volume, np.zeros(3), np.eye(3) * volume * r * r / 5)
    if kind not in ("Capsule", "Cylinder", "Cone"):
        raise _NoVolume
    return _round(kind, get("radius"), get("height"), "XYZ".index(str(prim.GetAttribute("axis").Get())))


def _round(kind: str, r: float, h: float, axis: int) -> _Solid:
    cylinder = math.pi * r * r * h
    center = np.zeros(3)
    if kind == "Cone":
        volume, across, along = cylinder / 3, cylinder / 3 * 3 / 20 * r * r, cylinder / 3 * 3 / 80 * h * h
        center[axis] = -h / 4
    else:
        volume, across, along = cylinder, cylinder * r * r / 4, cylinder * h * h / 12
    if kind == "Capsule":
        ball = 4 / 3 * math.pi * r**3
        volume += ball
        across += ball * r * r / 5
        along += ball * (r * r / 5 + h * h / 4 + 3 * h * r / 8)
    second = np.full(3, across)
    second[axis] = along
    return _Solid(volume, center, np.diag(second))


def _mesh(prim: Any) -> _Solid:
    """By trimesh: the mesh where it is closed and right side out, else its convex hull."""
    import trimesh

    points = np.array(prim.GetAttribute("points").Get(), dtype=np.float64)
    counts, indices = (list(prim.GetAttribute(f"faceVertex{n}").Get()) for n in ("Counts", "Indices"))
    faces, start = [], 0
    for count in counts:
        corners = indices[start : start + count]
        faces += [(corners[0], corners[i], corners[i + 1]) for i in range(1, count - 1)]
        start += count
    mesh = trimesh.Trimesh(points, faces, process=True)
    if str(prim.GetAttribute("orientation").Get()) == "leftHanded":
        mesh.invert()
    if not (mesh.is_watertight and mesh.is_winding_consistent and mesh.volume > 0):
        try:
            mesh = mesh.convex_hull
        except Exception as error:  # flat, says qhull
            raise _NoVolume from error
    inertia = np.array(mesh.moment_inertia) / float(mesh.density)
    return _Solid(float(mesh.volume), np.array(mesh.center_mass), np.trace(inertia) / 2 * np.eye(3) - inertia)
