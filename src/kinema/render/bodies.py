"""What rays are tested against: primitive shapes each by itself, and all meshes of a link as one.

The meshes of a link lie around and within each other (files have one for each material), so that a ray that comes near
the link would search the tree of each of them. In one tree it finds the nearest face of all at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kinema.foundation import Array, Pose

from .geometry import Geometry, Kind
from .stage import Instance, Stage

LARGE = 200_000
"""Faces from which on a mesh is not copied into another, but stays a body of its own."""
_SLACK = 1.0e-4
"""By how much bounding balls are larger than they need be, for single precision."""


@dataclass(frozen=True, eq=False, slots=True)
class Soup:
    """Triangles of one or several meshes, in the frame of a body."""

    vertices: Array
    faces: np.ndarray


@dataclass(frozen=True, eq=False, slots=True)
class Body:
    """One thing that rays are tested against."""

    members: tuple[int, ...]
    """Numbers of its instances: several only where all are meshes."""
    geometry: Geometry
    """Of the first of them."""
    link: int
    pose: Pose
    """In its link."""
    soup: Soup | None
    middle: Array
    extent: Array
    """The box around it in its own frame: its centre and half its edges [m]."""
    radius: float
    """Of the ball around that centre [m]."""


@dataclass(frozen=True, eq=False, slots=True)
class BodyTable:
    """All bodies, those that have an end first."""

    bodies: list[Body]
    n_bounded: int
    body_of_instance: np.ndarray
    instance_poses: list[Pose]
    """Of instances in their bodies."""
    part_start: np.ndarray
    """Where the faces of each body start in the next two."""
    part_instance: np.ndarray
    part_face: np.ndarray
    """The number of a face among those of all meshes."""


def body_table(stage: Stage, face_starts: dict[int, tuple[int, int]]) -> BodyTable:
    """The bodies of a stage.

    Args:
        stage: whose instances are joined.
        face_starts: by the identity of triangles, their first vertex and face among all.
    """
    soups: dict[tuple[object, ...], Soup] = {}
    made = [_body(stage, group, soups) for group in _groups(stage)]
    bodies = sorted(made, key=lambda body: body.geometry.is_endless)
    body_of_instance = np.zeros(max(len(stage.instances), 1), np.int32)
    poses = [Pose()] * max(len(stage.instances), 1)
    starts, instances, faces = [], [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    for number, body in enumerate(bodies):
        starts.append(sum(len(part) for part in faces))
        body_of_instance[list(body.members)] = number
        for member in body.members:
            instance = stage.instances[member]
            poses[member] = body.pose.inverse() @ instance.pose
            mesh = instance.geometry.triangles
            if mesh is not None:
                faces.append(face_starts[id(mesh)][1] + np.arange(len(mesh.faces), dtype=np.int32))
                instances.append(np.full(len(mesh.faces), member, np.int32))
    return BodyTable(
        bodies,
        sum(not body.geometry.is_endless for body in bodies),
        body_of_instance,
        poses,
        np.array(starts or [0], np.int32),
        np.concatenate(instances) if len(instances) > 1 else np.zeros(1, np.int32),
        np.concatenate(faces) if len(faces) > 1 else np.zeros(1, np.int32),
    )


def _groups(stage: Stage) -> list[list[int]]:
    """The numbers of instances that become one body each."""
    joined: dict[int, list[int]] = {}
    alone: list[list[int]] = []
    for number, instance in enumerate(stage.instances):
        mesh = instance.geometry.triangles
        if mesh is not None and len(mesh.faces) < LARGE:
            joined.setdefault(instance.link, []).append(number)
        else:
            alone.append([number])
    return [*joined.values(), *alone]


def _body(stage: Stage, group: Sequence[int], soups: dict[tuple[object, ...], Soup]) -> Body:
    members = [stage.instances[number] for number in group]
    first = members[0]
    pose = first.pose if len(members) == 1 else Pose()
    soup = None
    if first.geometry.triangles is not None:
        key = _key(members) if len(members) > 1 else (id(first.geometry.triangles),)
        if key not in soups:
            soups[key] = _soup(members, pose)
        soup = soups[key]
    low, high = (
        (np.zeros(3), np.zeros(3))
        if first.geometry.is_endless
        else first.geometry.bounds()
        if soup is None
        else (soup.vertices.min(axis=0), soup.vertices.max(axis=0))
    )
    middle, extent = 0.5 * (low + high), 0.5 * (high - low)
    radius = _radius(first.geometry, extent) if soup is None else _reach(soup.vertices - middle)
    return Body(tuple(group), first.geometry, first.link, pose, soup, middle, extent, radius * (1.0 + _SLACK) + 1.0e-5)


def _key(members: Sequence[Instance]) -> tuple[object, ...]:
    """Links with the same meshes at the same places share one tree."""
    return tuple((id(m.geometry.triangles), m.pose.matrix.tobytes()) for m in members)


def _soup(members: Sequence[Instance], pose: Pose) -> Soup:
    vertices, faces, count = [], [], 0
    for member in members:
        mesh = member.geometry.triangles
        assert mesh is not None
        vertices.append((pose.inverse() @ member.pose).apply(mesh.vertices) if len(members) > 1 else mesh.vertices)
        faces.append(mesh.faces + count)
        count += len(mesh.vertices)
    return Soup(np.concatenate(vertices), np.concatenate(faces))


def _radius(geometry: Geometry, extent: Array) -> float:
    if geometry.kind in (Kind.SPHERE, Kind.CAPSULE, Kind.ELLIPSOID):
        return float(extent.max())
    if geometry.kind in (Kind.CYLINDER, Kind.CONE):
        return float(np.hypot(extent[0], extent[2]))
    return float(np.linalg.norm(extent))


def _reach(offsets: Array) -> float:
    return float(np.sqrt((offsets**2).sum(axis=1).max()))
