"""What OpenUSD's `ComputeMassProperties` says of a body, with exact volumes of its colliders supplied to it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kinema.foundation import Array, quaternion_to_matrix


class StageMass(NamedTuple):
    """Mass properties in SI, in the body's rigid frame."""

    mass: float
    center: Array
    inertia: Array


class _NoVolume(Exception):
    """A collider that encloses nothing."""


class _Solid(NamedTuple):
    """A solid of density one."""

    volume: float
    center: Array
    second: Array
    """Its second moment about the centre: the integral of x x^T."""


def openusd_mass(file: Path, path: str) -> StageMass | None:
    """Mass properties of a body; None where OpenUSD has no valid answer (no collider, no mass, a sheared body)."""
    from pxr import Gf, Usd, UsdGeom, UsdPhysics

    stage = Usd.Stage.Open(str(file))
    unit, weight = UsdGeom.GetStageMetersPerUnit(stage), UsdPhysics.GetStageKilogramsPerUnit(stage)
    body = stage.GetPrimAtPath(path)
    if body.HasAttribute("newton:inertia"):
        return None  # a full tensor, which OpenUSD does not know of
    cache = UsdGeom.XformCache(Usd.TimeCode.Default())
    frame = _linear(cache.GetLocalToWorldTransform(body))
    upright = np.array(Gf.Transform(cache.GetLocalToWorldTransform(body)).GetRotation().GetQuat().GetNormalized().GetImaginary())
    real = Gf.Transform(cache.GetLocalToWorldTransform(body)).GetRotation().GetQuat().GetNormalized().GetReal()
    turn = quaternion_to_matrix([real, *upright.tolist()])
    if np.abs(np.linalg.norm(frame[0], axis=0)[:, None] * np.eye(3) - np.abs(turn.T @ frame[0])).max() > 1e-6:
        return None  # sheared: fact 9 of what OpenUSD gets wrong
    asked: list[str] = []

    def information(prim: Any) -> Any:
        asked.append(str(prim.GetPath()))
        linear, offset = _linear(cache.GetLocalToWorldTransform(prim))
        try:
            solid = _mapped(_solid(prim), turn.T @ linear, turn.T @ (offset - frame[1]))
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
    authored = UsdPhysics.MassAPI(body)
    complete = bool(authored) and all(
        authored.GetPrim().GetAttribute(f"physics:{n}").HasAuthoredValue() for n in ("mass", "diagonalInertia")
    )
    if mass <= 0 or not (asked or complete):
        return None
    q = [axes.GetReal(), *np.array(axes.GetImaginary()).tolist()]
    principal = quaternion_to_matrix(q)
    inertia = (principal * np.array(diagonal, dtype=np.float64)) @ principal.T
    return StageMass(mass * weight, np.array(center, dtype=np.float64) * unit, inertia * weight * unit**2)


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
