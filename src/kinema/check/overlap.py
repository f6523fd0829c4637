"""Rule about collision shapes that interpenetrate in the initial configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from kinema.core import Pose, Severity
from kinema.description import (
    Approximation,
    Collider,
    Link,
    Mesh,
    Plane,
    Shape,
    colliders,
    collision_rules,
    may_collide,
)

from .context import CheckContext
from .hulls import NonconvexMesh, PlacedHull, PlacedMesh, depth_below_plane, penetration_depth, volumes_intersect
from .messages import format_length, label, pluralize, shape_label
from .rule import Finding, rule

_OVERLAP_TOLERANCE = 1e-3
"""Overlaps [m] up to this are not reported: parts that touch are drawn touching."""
_MAX_CANDIDATE_PAIRS = 50_000
_MAX_TESTED_PAIRS = 3_000
"""How many pairs of shapes are looked at, so that a world of thousands takes seconds and not hours."""
_CONVEX_APPROXIMATIONS = {Approximation.CONVEX_HULL, Approximation.BOUNDING_CUBE, Approximation.BOUNDING_SPHERE}
_CONVEX_VOLUME_RATIO = 0.98
"""A mesh that fills this much of its hull counts as convex."""


class _PlacedCollider(NamedTuple):
    """Collision shape at a world pose."""

    collider: Collider
    link: Link | None
    hull: PlacedHull | None
    """None for a plane."""
    pose: Pose

    @property
    def shape(self) -> Shape:
        return self.collider.shape

    def group_key(self, other: _PlacedCollider) -> tuple[str, str]:
        """Key by which overlaps are grouped: the link, the whole robot for a plane, or the shape of the world."""
        if self.link is None:
            return ("", f"shape {id(self.shape)}")
        return (self.collider.robot, self.link.name if other.hull is not None else "")

    def label(self, context: CheckContext) -> str:
        """Label of the link, with its robot if there are several, or of the shape of the world."""
        if self.link is None:
            return shape_label(self.shape, None)
        of_robot = f' of robot "{self.collider.robot}"' if len(context.robot_contexts) > 1 else ""
        return label(self.link) + of_robot


@rule("overlap.at-rest", Severity.WARNING)
def initial_overlap(context: CheckContext) -> Iterable[Finding]:
    """Collision shapes of links that may collide are more than 1 mm inside each other at rest.

    A simulation that starts there starts with an explosion. Links joined by a joint, and pairs excluded by collision
    rules, do not count. Where only the convex hulls of meshes overlap and not the meshes, it is a note: many simulators
    collide hulls. So is a robot that is partly below a floor and has keyframes to start from instead.
    """
    if not context.is_outermost:
        return
    placed = _placed_colliders(context)
    worst: dict[tuple[tuple[str, str], ...], tuple[float, _PlacedCollider, _PlacedCollider]] = {}
    tests = _PairSelection()
    for a, b in tests.pairs(placed, context):
        depth = _overlap_depth(a, b)
        key = tuple(sorted((a.group_key(b), b.group_key(a))))
        if depth > _OVERLAP_TOLERANCE and depth > worst.get(key, (0.0,))[0]:
            worst[key] = (depth, a, b)
    for depth, a, b in worst.values():
        yield _overlap_finding(depth, a, b, context)
    if tests.is_truncated:
        message = f"only {pluralize(tests.n_tested, 'pair')} of collision shapes were compared, there are too many"
        yield Finding(context.assembly, message, "exclude pairs that never meet", Severity.NOTE)


def _overlap_finding(depth: float, a: _PlacedCollider, b: _PlacedCollider, context: CheckContext) -> Finding:
    if a.hull is None or b.hull is None:
        return _below_plane_finding(depth, *((a, b) if a.hull is None else (b, a)), context)
    hollow = not _shapes_intersect(a, b, context)
    what = "the convex hulls of " if hollow else ""
    names = f"{a.label(context)} and {b.label(context)}"
    message = f"{what}{names} are about {format_length(depth)} inside each other at rest"
    if a.link is not None and b.link is not None and (a.shape.name or b.shape.name):
        message += f' ("{a.shape.name or a.shape.kind}" and "{b.shape.name or b.shape.kind}")'
    hint = "exclude the pair from collision, make the shapes smaller, or start from another configuration"
    return Finding(a.shape if a.link is not None else b.shape, message, hint, Severity.NOTE if hollow else None)


def _below_plane_finding(
    depth: float, plane: _PlacedCollider, other: _PlacedCollider, context: CheckContext
) -> Finding:
    """Finding for a robot below a plane, reported for its deepest link."""
    has_keyframes = any(c.assembly.keyframes for c in (context, *context.robot_contexts))
    message = f"{other.label(context)} reaches {format_length(depth)} below {plane.label(context)} at rest"
    hint = "lift the robot, or start from another configuration"
    return Finding(other.shape, message, hint, Severity.NOTE if has_keyframes else None)


def _shapes_intersect(a: _PlacedCollider, b: _PlacedCollider, context: CheckContext) -> bool:
    """Whether two shapes whose hulls overlap intersect themselves."""
    if a.hull is None or b.hull is None:
        return True
    meshes = [_nonconvex_mesh(x, context) for x in (a, b)]
    if meshes == [None, None]:
        return True
    first, second = (PlacedMesh(mesh, x.hull, x.pose) for x, mesh in zip((a, b), meshes, strict=True) if x.hull)
    return volumes_intersect(first, second, _OVERLAP_TOLERANCE / 2)


def _nonconvex_mesh(item: _PlacedCollider, context: CheckContext) -> NonconvexMesh | None:
    """Triangles of a non-convex mesh that does not collide as its convex hull; None otherwise."""
    mesh = item.shape.geometry
    if not isinstance(mesh, Mesh) or mesh.approximation in _CONVEX_APPROXIMATIONS:
        return None
    if mesh.approximation is None and context.format == "mjcf":
        return None  # MuJoCo collides the hulls of meshes
    loaded, hull = context.hulls.analyze_mesh(mesh), context.hulls.convex_hull(mesh)
    if loaded.quality is None or loaded.data is None or hull is None:
        return None
    is_full = loaded.quality.encloses_volume and abs(loaded.quality.volume) >= _CONVEX_VOLUME_RATIO * hull.volume
    return None if is_full else NonconvexMesh(loaded.data, context.hulls.winding_number(mesh))


def _placed_colliders(context: CheckContext) -> list[_PlacedCollider]:
    """All collision shapes with a known pose, in the order of `colliders`."""
    items, _ = colliders(context.assembly)
    result: list[_PlacedCollider] = []
    for collider, (link, pose) in zip(items, _collider_poses(context), strict=True):
        geometry = collider.shape.geometry
        if pose is None or not collider.shape.pose.is_finite:
            continue
        whole = pose @ collider.shape.pose
        if isinstance(geometry, Plane):
            result.append(_PlacedCollider(collider, link, None, whole))
            continue
        hull = context.hulls.convex_hull(geometry)
        if hull is None or hull.is_planar:
            continue
        solid = PlacedHull(hull, whole)
        if solid.is_valid:
            result.append(_PlacedCollider(collider, link, solid, whole))
    return result


def _collider_poses(context: CheckContext) -> Iterator[tuple[Link | None, Pose | None]]:
    """Link and pose of every collision shape: those of the world, then robot by robot, in the order of `colliders`."""
    if context.robot is None:
        yield from ((None, Pose()) for shape, _ in context.shapes if shape.collision)
    for inner in [context] if context.robot is not None else context.robot_contexts:
        for link in inner.links:
            for _ in link.collisions:
                yield link, inner.initial_poses.get(link.name)


class _PairSelection:
    """Selects candidate pairs for overlap tests, and counts them."""

    def __init__(self) -> None:
        self.n_tested = 0
        self.is_truncated = False

    def pairs(
        self, placed: list[_PlacedCollider], context: CheckContext
    ) -> Iterator[tuple[_PlacedCollider, _PlacedCollider]]:
        _, neighbours = colliders(context.assembly)
        rules = collision_rules(context.assembly)
        for seen, (a, b) in enumerate(_sweep_and_prune_pairs(placed)):
            if self.n_tested >= _MAX_TESTED_PAIRS or seen >= _MAX_CANDIDATE_PAIRS:
                self.is_truncated = True
                return
            if may_collide(a.collider, b.collider, rules, neighbours):
                self.n_tested += 1
                yield a, b


def _sweep_and_prune_pairs(placed: list[_PlacedCollider]) -> Iterator[tuple[_PlacedCollider, _PlacedCollider]]:
    """Sweep and prune: pairs on different bodies with overlapping AABBs; planes are paired with everything."""
    planes = [p for p in placed if p.hull is None]
    solids = [p for p in placed if p.hull is not None]
    yield from ((plane, other) for plane in planes for other in solids if plane.collider.body != other.collider.body)
    if not solids:
        return
    low = np.array([p.hull.lower for p in solids if p.hull is not None])
    high = np.array([p.hull.upper for p in solids if p.hull is not None])
    body = np.array([p.collider.body for p in solids])
    order = np.argsort(low[:, 0], kind="stable")
    low, high, body = low[order], high[order], body[order]
    ends = np.searchsorted(low[:, 0], high[:, 0])
    for i, end in enumerate(ends):
        later = slice(i + 1, int(end))
        meet = (low[later] < high[i]).all(axis=1) & (high[later] > low[i]).all(axis=1) & (body[later] != body[i])
        for j in np.flatnonzero(meet):
            yield solids[order[i]], solids[order[i + 1 + int(j)]]


def _overlap_depth(a: _PlacedCollider, b: _PlacedCollider) -> float:
    if a.hull is not None and b.hull is not None:
        return penetration_depth(a.hull, b.hull, _OVERLAP_TOLERANCE)
    plane, other = (a, b) if a.hull is None else (b, a)
    return depth_below_plane(other.hull, plane.pose) if other.hull is not None else 0.0
