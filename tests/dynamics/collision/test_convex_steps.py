"""Round shapes that overlap a little: points, and how many steps searches take: on a GPU all wait for the slowest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
import pytest

from kinema.core import Array
from kinema.dynamics.collision.collision_table import convex_collision_table
from kinema.dynamics.collision.collision_types import CollisionGeom, CollisionTableEntry, ContactQuery
from kinema.dynamics.collision.convex_distance import convex_pair_distance, emit_closest_point
from kinema.ir import Tracer, Value
from kit.choosing import representatives

from .convex_driver import Compiled, depth_along
from .driver import Poses
from .poses import somewhere
from .surfaces import beyond_surface

CONVEX_PAIRS = convex_collision_table(multiccd=True)
COUNT = 800
POLYTOPE = ("shallowest", "deepest")
"""Loops whose every step makes a polytope grow, which costs the most."""
CHEAP = ("nearest", "settle", "slide")
Flat = Sequence[Value]
Step = Callable[[Flat], tuple[Flat, Value, Value]]


@cache
def alone(kinds: tuple[str, str]) -> Compiled:
    """The deepest point, in double precision."""
    return Compiled(convex_collision_table(multiccd=False)[kinds])


@cache
def touching(kinds: tuple[str, str]) -> Poses:
    """Anywhere, moved along the way between them until they overlap by up to a tenth of the smaller; as in float32."""
    poses, generator = somewhere(61, COUNT), np.random.default_rng(61)
    poses = replace(poses, reach=np.full(COUNT, 100.0))
    depths = 10.0 ** generator.uniform(-4.0, -1.0, COUNT) * np.minimum(poses.a[2], poses.b[2])[:, :2].min(axis=1)
    for _ in range(2):  # the second time along the way that is right when they are near
        found = np.array([p[0] for p in alone(kinds).points(poses)])
        moved = poses.b[0] - (found[:, :1] + depths[:, None]) * found[:, 4:7]
        poses = replace(poses, b=(moved, *poses.b[1:]))
    # about zero, where places are as exact as the shapes
    poses = replace(poses, b=(poses.b[0] - poses.a[0], *poses.b[1:]), a=(0.0 * poses.a[0], *poses.a[1:]))
    rounded = [tuple(part.astype(np.float32).astype(float) for part in solid) for solid in (poses.a, poses.b)]
    return Poses(rounded[0], rounded[1], poses.reach)  # type: ignore[arg-type]


def counting(kinds: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> CollisionTableEntry:
    """Tells a point, and as the place of a second one how many steps were taken: of polytopes, and others."""
    plain: Callable[..., list[Value]] = Tracer.while_loop
    counts: list[str] = []

    def repeat(self: Tracer, name: str, step: Step, start: Flat, most: int) -> list[Value]:
        if name not in POLYTOPE + CHEAP:
            return plain(self, name, step, start, most)

        def counted(flat: Flat) -> tuple[Flat, Value, Value]:
            after, a, b = step(flat[:-1])
            return [*after, flat[-1] + 1.0], a, b

        *end, taken = plain(self, name, counted, [*start, 0.0], most)
        which = int(name in CHEAP)
        self.write(counts[0], [self.read(counts[0], which) + taken], which)
        self.new_basic_block()
        return end

    monkeypatch.setattr(Tracer, "while_loop", repeat)

    def touch(work: ContactQuery, a: CollisionGeom, b: CollisionGeom) -> None:
        recorder = work.tracer
        counts.append(recorder.allocate_local(2))
        recorder.write(counts[0], [0.0, 0.0])
        recorder.new_basic_block()
        emit_closest_point(work, convex_pair_distance(work, kinds, a, b), b)
        work.emit_contact(0.0, [recorder.read(counts[0]), recorder.read(counts[0], 1), 0.0], (0.0, 0.0, 1.0))

    return CollisionTableEntry(touch, 2)


@pytest.mark.parametrize("kinds", representatives([("cylinder", "box"), ("cylinder", "cylinder")], 1), ids="-".join)
def test_few_steps_in_single_precision(kinds: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Few polytopes grow much; depths are those of double precision, and points are on both surfaces."""
    poses = touching(kinds)
    double = np.array([p[0, 0] for p in alone(kinds).points(poses)])
    found = Compiled(counting(kinds, monkeypatch), "single").points(poses)
    polytope, cheap = np.array([p[1, 1:3] for p in found]).T
    assert np.median(polytope) <= 6
    assert np.percentile(polytope, 90) <= 12
    assert np.percentile(polytope, 99) <= 26
    assert np.percentile(cheap, 99) <= 70
    nearest = np.array([p[0] for p in found])
    off = np.abs(nearest[:, 0] - double)
    assert np.percentile(off, 99) < 1e-6
    assert np.percentile(surface_gaps(kinds, poses, nearest), 99) < 1e-4
    for i, point in enumerate(nearest):
        if off[i] < 1e-6:
            assert depth_along(kinds, poses, i, point[4:7]) == pytest.approx(-point[0], abs=2e-6)


@pytest.mark.parametrize(
    "kinds",
    representatives([("cylinder", "box"), ("cylinder", "cylinder"), ("capsule", "cylinder")], 1),
    ids="-".join,
)
def test_no_point_twice(kinds: tuple[str, str]) -> None:
    """Points that are one but for rounding would be as stiff as two, in one precision and not in the other."""
    poses = replace(touching(kinds), reach=np.zeros(COUNT))
    sizes = np.minimum(poses.a[2].max(axis=1), poses.b[2].max(axis=1))
    counts = []
    for precision in ("double", "single"):
        found = Compiled(CONVEX_PAIRS[kinds], precision).points(poses)
        for points, size in zip(found, sizes, strict=True):
            apart = [np.linalg.norm(a[1:4] - b[1:4]) for a, b in combinations(points, 2)]
            assert min(apart, default=size) > 5e-4 * size
        counts.append([len(points) for points in found])
    differ = np.not_equal(*counts)
    assert differ.mean() < 0.025  # before it was 0.08 to 0.17


def surface_gaps(kinds: tuple[str, str], poses: Poses, points: Array) -> Array:
    """How far the ends of the stretch at each point are from the surfaces that they should be on."""
    gaps = []
    for side, (position, rotation, size), kind in ((-0.5, poses.a, kinds[0]), (0.5, poses.b, kinds[1])):
        ends = points[:, 1:4] + side * points[:, :1] * points[:, 4:7]
        inner = np.einsum("nji,nj->ni", rotation, ends - position)
        gaps.append([float(beyond_surface(kind, s, p[None])[0]) for s, p in zip(size, inner, strict=True)])
    return np.abs(gaps).max(axis=0)
