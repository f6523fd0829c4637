"""Teams take environments with most to do first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kinema.backend.gpu_code import ptx
from kinema.trace import (
    N_HEAD,
    SCRATCH,
    UNIFORM,
    Part,
    Recorder,
    Room,
    Slot,
    Target,
    cut,
    emit_order,
    emit_team,
    n_ordered,
    optimise,
    team_tables,
)
from kinema.trace.llvm_order import N_LISTS, STEPS

from .arenas import Memory
from .gpu_on_host import WARP, run_spread_on_host, run_team_on_host

N_ENVS, STRIDE = 41, 64
MEMORY = Memory(state=[("x", 2), ("turn", 1), ("y", 1)])
COUNTS = (0, 1)
"""Rows of the scratch memory that say how much there is to do."""


def parts() -> list[Part]:
    """A team that adds one to a number, for as many contacts as two counters say."""
    recorder = Recorder()
    recorder.write(SCRATCH, [recorder.read("x", i) for i in range(2)])
    with recorder.team("turns", [Slot(SCRATCH, row) for row in COUNTS]):
        recorder.write("y", [recorder.read(SCRATCH, 0) + recorder.read(SCRATCH, 1) + 1.0])
    return cut(recorder.finish(n_scratch=2), 4)


def on_host(numbers: np.ndarray) -> tuple[dict[str, Any], Part, Target]:
    """The order that is found, in the memory of teams."""
    _, team = parts()
    assert len(team.weights) == len(COUNTS)
    target = Target("double", gpu=True, n_scratch=2)
    common = np.full((STRIDE // WARP, 2, WARP), np.nan)
    common[:, team.weights, :] = np.pad(numbers, ((0, 0), (0, STRIDE - N_ENVS))).reshape(2, -1, WARP).swapaxes(0, 1)
    arrays: dict[str, Any] = {name: np.zeros((5, STRIDE)) for name in ("state", "told_start", "out")}
    arrays |= {SCRATCH: common, UNIFORM: np.zeros(1)}
    arrays["ints"], arrays["floats"] = team_tables(team, target, 4)
    arrays["memory"] = np.zeros(N_HEAD + n_ordered(STRIDE) + 4 * Room(4, 8, 0).n_memory)
    run_spread_on_host(emit_order(team, target), arrays, (STRIDE, 1, 0, N_ENVS), 1, STRIDE // WARP)
    return arrays, team, target


def lists_of(memory: np.ndarray) -> list[list[int]]:
    whole = memory.view(np.int32)[N_HEAD:]
    lists = whole[N_LISTS : N_LISTS * (1 + STRIDE)].reshape(N_LISTS, STRIDE)
    return [own[:count].tolist() for own, count in zip(lists, whole[:N_LISTS], strict=True)]


@pytest.mark.parametrize("most", [1, 4, 30])
def test_each_environment_is_in_the_list_for_what_it_has_to_do(most: int) -> None:
    numbers = np.random.default_rng(0).integers(0, most, (2, N_ENVS)).astype(float)
    arrays, _, _ = on_host(numbers)
    wanted = np.searchsorted(STEPS, numbers.sum(0), side="right")
    found = lists_of(arrays["memory"])
    assert [sorted(own) for own in found] == [np.flatnonzero(wanted == i).tolist() for i in range(N_LISTS)]


def test_teams_go_through_the_lists_and_leave_them_empty() -> None:
    numbers = np.random.default_rng(0).integers(0, 12, (2, N_ENVS)).astype(float)
    arrays, team, target = on_host(numbers)
    own = replace(team, program=optimise(team.program))
    text = emit_team(own, MEMORY.places(), target, Room(4, 8, 0), ordered=True)
    run_team_on_host(text, arrays, (STRIDE, 1, 0, N_ENVS), 4)
    np.testing.assert_array_equal(arrays["state"][3, :N_ENVS], numbers.sum(0) + 1.0)
    assert lists_of(arrays["memory"]) == [[]] * N_LISTS
    assert "atom" in ptx(emit_order(team, target), 64).decode()


def test_lists_are_emptied_once_all_is_found() -> None:
    _, team = parts()
    arrays, _, target = on_host(np.zeros((2, N_ENVS)))
    arrays["told_start"] = np.arange(1, 6, dtype=np.int32)
    run_spread_on_host(emit_order(team, target, 3), arrays, (STRIDE, 1, 0, N_ENVS), 1, STRIDE // WARP)
    assert arrays["told_start"].tolist() == [0, 0, 0, 4, 5]
