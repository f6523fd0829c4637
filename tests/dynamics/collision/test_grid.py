"""The grid of the broad phase lists the pairs of geoms that tests of all pairs of AABBs give, for all sizes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kinema.dynamics.collision import grid_plan
from kinema.dynamics.collision.grid import CANDIDATE_SIZE, CANDIDATES_PER_GEOM, GridBroadPhase
from kinema.dynamics.collision.grid_plan import GridLevel, excluded_values, plan_levels
from kinema.dynamics.collision.pair_kinds import find_pair_kinds, geom_values
from kinema.dynamics.settings import Settings
from kinema.dynamics.tree.loop_context import ScratchAllocator
from kinema.ir import SCRATCH, ArenaOffset, Program, Tracer, trace_for_each_loop, verify
from kinema.model import PairRulesInfo, empty_pairs
from kit.choosing import representatives

from ...ir.arenas import Memory, compiled, interpreted

N_GEOMS, N_SCENES = 48, 100
"""Geoms of a scene, and scenes of equal sizes that are searched side by side."""


class SearchContext(ScratchAllocator):
    """What the broad phase needs of a tracing context."""

    def __init__(self, model: Any, array_offsets: dict[str, ArenaOffset]) -> None:
        super().__init__()
        self.model, self.settings, self.array_offsets, self.tracer = model, Settings(), array_offsets, Tracer()

    @contextmanager
    def without_unrolling(self) -> Iterator[None]:
        """Loops are kept anyway."""
        yield

    def for_each(self, name: str, rows: Any, body: Any) -> None:
        """Trace a loop."""
        trace_for_each_loop(self.tracer, name, rows, body)


def random_rules(rng: np.random.Generator) -> PairRulesInfo:
    """Three classes, one of which does not collide with itself, and some excluded pairs."""
    parameters = empty_pairs()
    row = np.ones(1, np.int32)
    columns = {name: np.zeros((1, *getattr(parameters, name).shape[1:])) for name in ("friction", "solimp", "margin")}
    columns |= {"solref_friction": np.zeros((1, 2)), "condim": 3 * row}
    excluded = np.sort(rng.choice(N_GEOMS, (12, 2)), axis=1)
    return PairRulesInfo(
        class_of_geom=rng.integers(0, 3, N_GEOMS).astype(np.int32),
        row_of_classes=np.array([[0, 0, -1], [0, -1, 0], [-1, 0, 0]], np.int32),
        parameters=SimpleNamespace(**columns),  # type: ignore[arg-type]
        excluded=np.unique(excluded[excluded[:, 0] < excluded[:, 1]], axis=0).astype(np.int32),
        explicit=np.zeros((0, 3), np.int32),
    )


def searching_program(model: Any, levels: list[GridLevel], memory: Memory) -> tuple[Program, int]:
    """Program that searches pairs among AABBs in the array `aabbs` and copies its list to `found`; its length."""
    ctx: Any = SearchContext(model, memory.places())
    search = GridBroadPhase(ctx, memory.places()["aabbs"], levels, N_GEOMS, memory.places().get("awake"))
    search.list_candidates()
    length = 1 + CANDIDATE_SIZE * search.capacity

    def copy(index: Any) -> None:
        value = ctx.tracer.read(SCRATCH, search.candidates[0].offset.row, index)
        ctx.tracer.write("found", [value], 0, index)

    ctx.tracer.counted_loop("copy", float(length), copy)
    return ctx.tracer.build(n_scratch=ctx.n_scratch, allocation_starts=ctx.allocation_starts), length


def expected_pairs(model: Any, centres: np.ndarray, halves: np.ndarray) -> set[tuple[int, int]]:
    """Pairs of geoms with overlapping AABBs that the rules let collide, by testing all pairs."""
    rules, frames = model.pair_rules, model.geoms.frame_idx
    separation = (np.abs(centres[:, None] - centres) - (halves[:, None] + halves)).max(axis=2)
    classes = rules.class_of_geom
    collides = (separation < 0.0) & (rules.row_of_classes[classes[:, None], classes] >= 0)
    collides &= frames[:, None] != frames
    collides[rules.excluded[:, 0], rules.excluded[:, 1]] = False
    return {(int(a), int(b)) for a, b in np.argwhere(np.triu(collides, 1))}


@pytest.mark.parametrize("has_sleep", [False, True])
@pytest.mark.parametrize("seed", representatives(range(100), 1))
def test_pairs_are_those_of_all_pairs_tests(monkeypatch: pytest.MonkeyPatch, seed: int, *, has_sleep: bool) -> None:
    """Random scenes with sizes from 1e-3 to 1e3 m, close together or apart, some geoms without bounds.

    With sleep, of pairs of which at least one body is awake.
    """
    monkeypatch.setattr(grid_plan, "MIN_GEOMS_OF_LEVEL", 3)
    rng = np.random.default_rng(seed)
    spread = rng.uniform(0.0, 3.0)
    halves = 10.0 ** rng.uniform(-spread, spread, N_GEOMS)
    order, levels = plan_levels([float("inf") if i % 23 == 22 else x for i, x in enumerate(halves)])
    assert sorted(order) == list(range(N_GEOMS))
    rules = random_rules(rng)
    model: Any = SimpleNamespace(
        pair_rules=rules,
        kinematic_frames=[],
        geoms=SimpleNamespace(
            names=("",) * N_GEOMS,
            types=("sphere",) * N_GEOMS,
            frame_idx=np.repeat(np.arange(N_GEOMS // 2), 2) - (not has_sleep),  # the interpreter clips indices of -1
        ),
        frames=SimpleNamespace(),
        options=SimpleNamespace(elliptic=False, multiccd=True),
    )
    uniform = {
        "broad_phase_geoms": geom_values(model, order),
        "broad_phase_classes": find_pair_kinds(model).classes.ravel(),
        "broad_phase_excluded": excluded_values(model),
    }
    memory = Memory(
        state=[("aabbs", 6 * N_GEOMS), *([("awake", 1 + N_GEOMS // 2)] if has_sleep else [])],
        out=[("found", 1 + CANDIDATE_SIZE * 16 * N_GEOMS)],
        uniform=[(name, len(values)) for name, values in uniform.items()],
    )
    program, _ = searching_program(model, levels, memory)
    verify(program, {name: memory.n_rows(name) for name in ("state", "out", "uniform")})
    scale = 10.0 ** rng.uniform(-spread, spread + 0.5, N_SCENES)
    centres = rng.uniform(-1.0, 1.0, (N_GEOMS, 3, N_SCENES)) * scale
    half_extents = np.repeat((halves[:, None] * rng.uniform(0.3, 1.0, (N_GEOMS, 3)))[..., None], N_SCENES, axis=2)
    half_extents[22::23] = 1e15
    aabbs = np.concatenate([centres, half_extents], axis=1)[order].reshape(-1, N_SCENES)
    tables = np.concatenate(list(uniform.values()))[:, None]
    awake = (rng.random((1 + N_GEOMS // 2, N_SCENES)) < rng.random(N_SCENES)).astype(float)
    state = np.vstack([aabbs, awake]) if has_sleep else aabbs
    found = compiled(program, memory, {"state": state, "uniform": tables}, N_SCENES, lanes=1)["out"]
    n_found = 0
    for scene in range(N_SCENES):
        records = found[1 : 1 + CANDIDATE_SIZE * int(found[0, scene]), scene].reshape(-1, CANDIDATE_SIZE).astype(int)
        pairs = [(a, b) for a, b, _ in records.tolist()]
        expected = expected_pairs(model, centres[..., scene], half_extents[..., scene])
        if has_sleep:
            is_awake = awake[1 + model.geoms.frame_idx, scene] > 0.5
            expected = {(a, b) for a, b in expected if is_awake[a] or is_awake[b]}
        assert len(pairs) == len(set(pairs))
        if len(expected) > CANDIDATES_PER_GEOM * N_GEOMS:  # more than fit in the list
            assert len(pairs) == CANDIDATES_PER_GEOM * N_GEOMS
            assert set(pairs) < expected
            continue
        assert set(pairs) == expected
        n_found += len(pairs)
    assert n_found > N_SCENES
    few = interpreted(program, memory, {"state": state[:, :2], "uniform": tables}, 2)["out"]
    for scene in range(2):
        length = 1 + CANDIDATE_SIZE * int(few[0, scene])
        np.testing.assert_array_equal(few[:length, scene], found[:length, scene])
