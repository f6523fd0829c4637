"""Rules about shapes that are inside each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

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
from kinema.foundation import Pose, Severity

from .context import Context
from .interior import HollowMesh, PlacedMesh, share_volume
from .rule import Finding, rule
from .separation import PlacedSolid, depth_below_plane, penetration
from .words import label, length, plural, shape_label

_NEGLIGIBLE = 1e-3
"""Overlaps [m] up to this are not reported: parts that touch are drawn touching."""
_MOST_CANDIDATES = 50_000
_MOST_TESTS = 3_000
"""How many pairs of shapes are looked at, so that a world of thousands takes seconds and not hours."""
_CONVEX = {Approximation.CONVEX_HULL, Approximation.BOUNDING_CUBE, Approximation.BOUNDING_SPHERE}
_FULL = 0.98
"""A mesh that fills this much of its hull counts as convex."""


class _Placed(NamedTuple):
    """A collision shape in the world."""

    collider: Collider
    link: Link | None
    solid: PlacedSolid | None
    """None for a plane."""
    pose: Pose

    @property
    def shape(self) -> Shape:
        return self.collider.shape

    def key(self, other: _Placed) -> tuple[str, str]:
        """What overlaps are collected by: the link, the whole robot over a plane, or the world's own shape."""
        if self.link is None:
            return ("", f"shape {id(self.shape)}")
        return (self.collider.robot, self.link.name if other.solid is not None else "")

    def label(self, context: Context) -> str:
        """The link, with its robot where there are several, or the world's own shape."""
        if self.link is None:
            return shape_label(self.shape, None)
        of_robot = f' of robot "{self.collider.robot}"' if len(context.robots) > 1 else ""
        return label(self.link) + of_robot


@rule("overlap.at-rest", Severity.WARNING)
def at_rest(context: Context) -> Iterable[Finding]:
    """Collision shapes of links that may collide are more than 1 mm inside each other at rest.

    A simulation that starts there starts with an explosion. Links joined by a joint, and pairs excluded by collision
    rules, do not count. Where only the convex hulls of meshes overlap and not the meshes, it is a note: many simulators
    collide hulls. So is a robot that is partly below a floor and has keyframes to start from instead.
    """
    if not context.is_top:
        return
    placed = _placed(context)
    worst: dict[tuple[tuple[str, str], ...], tuple[float, _Placed, _Placed]] = {}
    tests = _Tests()
    for a, b in tests.pairs(placed, context):
        depth = _depth(a, b)
        key = tuple(sorted((a.key(b), b.key(a))))
        if depth > _NEGLIGIBLE and depth > worst.get(key, (0.0,))[0]:
            worst[key] = (depth, a, b)
    for depth, a, b in worst.values():
        yield _finding(depth, a, b, context)
    if tests.stopped:
        message = f"only {plural(tests.done, 'pair')} of collision shapes were compared, there are too many"
        yield Finding(context.assembly, message, "exclude pairs that never meet", Severity.NOTE)


def _finding(depth: float, a: _Placed, b: _Placed, context: Context) -> Finding:
    if a.solid is None or b.solid is None:
        return _finding_below(depth, *((a, b) if a.solid is None else (b, a)), context)
    hollow = not _really_meet(a, b, context)
    what = "the convex hulls of " if hollow else ""
    names = f"{a.label(context)} and {b.label(context)}"
    message = f"{what}{names} are about {length(depth)} inside each other at rest"
    if a.link is not None and b.link is not None and (a.shape.name or b.shape.name):
        message += f' ("{a.shape.name or a.shape.kind}" and "{b.shape.name or b.shape.kind}")'
    hint = "exclude the pair from collision, make the shapes smaller, or start from another configuration"
    return Finding(a.shape if a.link is not None else b.shape, message, hint, Severity.NOTE if hollow else None)


def _finding_below(depth: float, plane: _Placed, other: _Placed, context: Context) -> Finding:
    """The deepest of a robot's links below a plane stands for all."""
    has_keyframes = any(c.assembly.keyframes for c in (context, *context.robots))
    message = f"{other.label(context)} reaches {length(depth)} below {plane.label(context)} at rest"
    hint = "lift the robot, or start from another configuration"
    return Finding(other.shape, message, hint, Severity.NOTE if has_keyframes else None)


def _really_meet(a: _Placed, b: _Placed, context: Context) -> bool:
    """Whether two shapes whose hulls overlap do so themselves."""
    if a.solid is None or b.solid is None:
        return True
    meshes = [_hollow_mesh(x, context) for x in (a, b)]
    if meshes == [None, None]:
        return True
    first, second = (PlacedMesh(mesh, x.solid, x.pose) for x, mesh in zip((a, b), meshes, strict=True) if x.solid)
    return share_volume(first, second, _NEGLIGIBLE / 2)


def _hollow_mesh(item: _Placed, context: Context) -> HollowMesh | None:
    """The triangles of a mesh that differs from its hull and is not asked, or known, to collide as its hull."""
    mesh = item.shape.geometry
    if not isinstance(mesh, Mesh) or mesh.approximation in _CONVEX:
        return None
    if mesh.approximation is None and context.format == "mjcf":
        return None  # MuJoCo collides the hulls of meshes
    loaded, hull = context.solids.mesh(mesh), context.solids.solid(mesh)
    if loaded.quality is None or loaded.data is None or hull is None:
        return None
    is_full = loaded.quality.is_balanced and abs(loaded.quality.volume) >= _FULL * hull.volume
    return None if is_full else HollowMesh(loaded.data, context.solids.winding(mesh))


def _placed(context: Context) -> list[_Placed]:
    """All collision shapes that can be placed, in the order of `colliders`."""
    items, _ = colliders(context.assembly)
    result: list[_Placed] = []
    for collider, (link, pose) in zip(items, _places(context), strict=True):
        geometry = collider.shape.geometry
        if pose is None or not collider.shape.pose.is_finite:
            continue
        whole = pose @ collider.shape.pose
        if isinstance(geometry, Plane):
            result.append(_Placed(collider, link, None, whole))
            continue
        hull = context.solids.solid(geometry)
        if hull is None or hull.is_flat:
            continue
        solid = PlacedSolid(hull, whole)
        if solid.is_usable:
            result.append(_Placed(collider, link, solid, whole))
    return result


def _places(context: Context) -> Iterator[tuple[Link | None, Pose | None]]:
    """Link and pose of every collision shape: the world's own first, then robot by robot, as `colliders` has them."""
    if context.robot is None:
        yield from ((None, Pose()) for shape, _ in context.shapes if shape.collision)
    for inner in [context] if context.robot is not None else context.robots:
        for link in inner.links:
            for _ in link.collisions:
                yield link, inner.rest.get(link.name)


class _Tests:
    """Finds the pairs that are worth a test, and counts them."""

    def __init__(self) -> None:
        self.done = 0
        self.stopped = False

    def pairs(self, placed: list[_Placed], context: Context) -> Iterator[tuple[_Placed, _Placed]]:
        _, neighbours = colliders(context.assembly)
        rules = collision_rules(context.assembly)
        for seen, (a, b) in enumerate(_near(placed)):
            if self.done >= _MOST_TESTS or seen >= _MOST_CANDIDATES:
                self.stopped = True
                return
            if may_collide(a.collider, b.collider, rules, neighbours):
                self.done += 1
                yield a, b


def _near(placed: list[_Placed]) -> Iterator[tuple[_Placed, _Placed]]:
    """Pairs whose bounding boxes overlap, on different bodies; planes with everything."""
    planes = [p for p in placed if p.solid is None]
    solids = [p for p in placed if p.solid is not None]
    yield from ((plane, other) for plane in planes for other in solids if plane.collider.body != other.collider.body)
    if not solids:
        return
    low = np.array([p.solid.low for p in solids if p.solid is not None])
    high = np.array([p.solid.high for p in solids if p.solid is not None])
    body = np.array([p.collider.body for p in solids])
    order = np.argsort(low[:, 0], kind="stable")
    low, high, body = low[order], high[order], body[order]
    ends = np.searchsorted(low[:, 0], high[:, 0])
    for i, end in enumerate(ends):
        later = slice(i + 1, int(end))
        meet = (low[later] < high[i]).all(axis=1) & (high[later] > low[i]).all(axis=1) & (body[later] != body[i])
        for j in np.flatnonzero(meet):
            yield solids[order[i]], solids[order[i + 1 + int(j)]]


def _depth(a: _Placed, b: _Placed) -> float:
    if a.solid is not None and b.solid is not None:
        return penetration(a.solid, b.solid, _NEGLIGIBLE)
    plane, other = (a, b) if a.solid is None else (b, a)
    return depth_below_plane(other.solid, plane.pose) if other.solid is not None else 0.0
