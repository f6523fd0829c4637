"""Pairs of links of one robot whose collision geoms overlap in the initial configuration, which do not collide.

Formats without collision filters (URDF, CAD assemblies) describe robots whose links are partly inside each other:
rotors in the trunk, convex hulls of concave links. Contacts of such links push the robot apart wherever it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from kinema import geometry
from kinema.core import Array, Pose, content_digest, load_or_compute, source_digest
from kinema.description import Configuration, Robot, joint_coordinates
from kinema.geometry import ConvexBody, penetration_depth
from kinema.model import HULL_FACE_SIZE
from kinema.tokens import urdf

from .collision_shapes import CACHE_SOURCES, CollisionShape
from .context import BuildContext, LinkRecord

FORMATS_WITHOUT_FILTERS = (urdf.FORMAT, "cad", "step")
"""Formats that cannot say which links do not collide with each other."""
OVERLAP_TOLERANCE = 1e-3
"""Penetration depth up to which links count as touching [m]; the check `overlap.at-rest` has the same."""
CONVEX_TYPES = ("sphere", "capsule", "ellipsoid", "cylinder", "cone", "box", "mesh")
"""Types of geoms that are tested; signed distance fields have the cavities of their meshes."""
LISTED_PAIRS = 4
"""Pairs of links that the note names."""

LinkPair = frozenset[str]
"""Names of two links."""


class LinkGeom(Protocol):
    """Interface of the geoms of links (`GeomRecord`)."""

    collision_shape: CollisionShape
    link: LinkRecord | None
    pose_in_link: Pose

    @property
    def dynamic_frame_idx(self) -> int:
        """Frame that forces move; -1 for the world and kinematic bodies."""
        ...


def overlapping_links(
    ctx: BuildContext, entity: int, pairs: Iterable[tuple[Sequence[LinkGeom], Sequence[LinkGeom]]]
) -> frozenset[LinkPair]:
    """Pairs of links of a robot that do not collide because they overlap in the initial configuration.

    Empty unless the format of the robot has no collision filters. Joints whose initial coordinate is beyond a limit are
    at the limit. Variants of an entity have the pairs of the first one. A note lists the pairs.

    Args:
        ctx: the context.
        entity: index of the entity.
        pairs: collision geoms of pairs of shapes that may collide.
    """
    cache, spec = ctx.geometry_cache, ctx.entities[entity]
    if entity not in cache.overlapping_links:
        key = id(spec.description), spec.nonconvex, spec.self_collision
        if key not in cache.overlapping_links_by_description:
            cache.overlapping_links_by_description[key] = _find_overlapping_links(ctx, entity, pairs)
        cache.overlapping_links[entity] = cache.overlapping_links_by_description[key]
    return cache.overlapping_links[entity]


def _find_overlapping_links(
    ctx: BuildContext, entity: int, pairs: Iterable[tuple[Sequence[LinkGeom], Sequence[LinkGeom]]]
) -> frozenset[LinkPair]:
    """Pairs of links of a robot that overlap, with a note; arguments as of `overlapping_links`."""
    spec = ctx.entities[entity]
    robot = spec.description
    if not isinstance(robot, Robot) or robot.format not in FORMATS_WITHOUT_FILTERS or spec.self_collision is not None:
        return frozenset()
    candidates = [
        (a, b)
        for first, second in pairs
        for a in first
        for b in second
        if a.link is not None and b.link is not None and a.dynamic_frame_idx != b.dynamic_frame_idx
        if a.collision_shape.type in CONVEX_TYPES and b.collision_shape.type in CONVEX_TYPES
    ]
    depths = _depths(robot, candidates)
    deepest: dict[LinkPair, float] = {}
    for (a, b), depth in zip(candidates, depths.tolist(), strict=True):
        assert a.link is not None
        assert b.link is not None
        key = frozenset((a.link.name, b.link.name))
        deepest[key] = max(depth, deepest.get(key, 0.0))
    found = {key: depth for key, depth in deepest.items() if depth > OVERLAP_TOLERANCE}
    if found:
        _report(ctx, robot, found)
    return frozenset(found)


def _report(ctx: BuildContext, robot: Robot, found: dict[LinkPair, float]) -> None:
    """Note that the given pairs of links do not collide, with their depths [m]."""
    ordered = sorted(found, key=lambda key: -found[key])
    listed = ", ".join(f"{' and '.join(sorted(key))} ({1000.0 * found[key]:.3g} mm)" for key in ordered[:LISTED_PAIRS])
    more = f" and {len(found) - LISTED_PAIRS} more" if len(found) > LISTED_PAIRS else ""
    count = "1 pair of links" if len(found) == 1 else f"{len(found)} pairs of links"
    ctx.diagnostics.note(
        "sim.overlapping-links",
        f'{count} of robot "{robot.name}" overlap in the initial configuration and do not collide: {listed}{more}',
        hint="use scene.add(..., self_collision=True) to let them collide",
        origin=robot.origin,
    )


def _initial_link_poses(robot: Robot) -> dict[str, Pose]:
    """World poses of the links at the initial coordinates, clamped to the joint limits."""
    values: Configuration = {
        joint.name: float(np.clip(initial[0], axis.lower, axis.upper))
        for joint, initial in ((j, joint_coordinates(robot.joints, {})[j.name]) for j in robot.joints)
        for axis in joint.moving_axes[:1]
        if joint.n_qs == 1 and axis.mimic is None and axis.lower <= axis.upper
    }
    return robot.link_poses(values)


def _depths(robot: Robot, candidates: Sequence[tuple[LinkGeom, LinkGeom]]) -> Array:
    """Penetration depths of pairs of geoms in the initial configuration [m], (n,); from the disk cache or computed."""
    link_poses = _initial_link_poses(robot)
    geoms = {id(geom): geom for pair in candidates for geom in pair}
    rows = {key: i for i, key in enumerate(geoms)}
    poses = [
        link_poses[geom.link.name] @ geom.pose_in_link for geom in geoms.values() if geom.link is not None
    ]  # of all: static geoms are no candidates
    shapes = [geom.collision_shape for geom in geoms.values()]
    index = np.array([(rows[id(a)], rows[id(b)]) for a, b in candidates], np.int64).reshape(-1, 2)
    content = [
        (shape.type, shape.size, None if shape.hull is None else shape.hull.data, pose.matrix)
        for shape, pose in zip(shapes, poses, strict=True)
    ]
    key = content_digest("overlapping geoms", source_digest(*CACHE_SOURCES), index, content)
    return load_or_compute(
        "geometry", key, lambda: {"depths": _compute_depths(shapes, poses, index)}, keep_in_memory=True
    )["depths"]


def _compute_depths(shapes: Sequence[CollisionShape], poses: Sequence[Pose], index: np.ndarray) -> Array:
    """Penetration depths of the pairs of collision shapes of an index array (n, 2) at world poses [m], (n,)."""
    bodies: dict[int, ConvexBody] = {}

    def body(i: int) -> ConvexBody:
        if i not in bodies:
            bodies[i] = _convex_body(shapes[i]).transformed(poses[i])
        return bodies[i]

    centers = np.array([pose.apply(shape.center) for shape, pose in zip(shapes, poses, strict=True)]).reshape(-1, 3)
    radii = np.array([shape.radius for shape in shapes])
    apart = np.linalg.norm(centers[index[:, 0]] - centers[index[:, 1]], axis=1) - radii[index].sum(axis=1)
    depths = np.zeros(len(index))
    for k in np.flatnonzero(apart < -OVERLAP_TOLERANCE):
        depths[k] = penetration_depth(*(body(i) for i in index[k].tolist()))
    return depths


def _convex_body(shape: CollisionShape) -> ConvexBody:
    """Convex body of a primitive or convex hull in its frame; round primitives but spheres and capsules as meshes."""
    if shape.hull is not None:
        start, n_vertices, n_faces = shape.hull.starts[0], shape.hull.n_vertices[0], shape.hull.n_faces[0]
        end = start + 3 * n_vertices
        faces = shape.hull.data[end : end + HULL_FACE_SIZE * n_faces].reshape(-1, HULL_FACE_SIZE)
        return ConvexBody(shape.hull.data[start:end].reshape(-1, 3), faces[:, :3])
    radius, half = shape.size[0], shape.size[1]
    if shape.type in ("sphere", "capsule"):
        ends = np.array([[0.0, 0.0, half], [0.0, 0.0, -half]])
        return ConvexBody(ends if shape.type == "capsule" else np.zeros((1, 3)), np.zeros((0, 3)), radius)
    mesh = {
        "box": lambda: geometry.box(2.0 * np.array(shape.size)),
        "cylinder": lambda: geometry.cylinder(radius, 2.0 * half),
        "cone": lambda: geometry.cone(radius, 2.0 * half),
        "ellipsoid": lambda: geometry.ellipsoid(shape.size),
    }[shape.type]()
    corners = mesh.triangles()
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    return ConvexBody(mesh.vertices, (normals / lengths)[lengths[:, 0] > 0.0])
