"""Programs as a uniform part, executed once, and a varying part, executed for all lanes: the same adjoints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema.ir import (
    PRECOMPUTED,
    SCRATCH,
    UNIFORM,
    ArenaOffset,
    MemoryLocation,
    NotSplittableError,
    Program,
    SplitProgram,
    split_uniform,
    vjp,
)
from kinema.ir.interpreter import interpret_kernel_part

from .random_programs import random_numbers, recorded, some_tree, trees
from .test_reverse_mode import ADJOINTS, ALL_PLACES, FLAG, INPUTS, OUTPUTS, ROWS, arenas_of, derivatives

N_LANES = 4
OFFSETS = ADJOINTS.places()


def random_adjoint(tree: tuple[Any, ...]) -> Program:
    return vjp(
        recorded(tree),
        INPUTS,
        OUTPUTS,
        ALL_PLACES,
        ROWS,
        overflow_flag=MemoryLocation("overflow", 0),
        clears_lists_in_reverse=True,
    )


def adjoint_cells() -> list[tuple[str, int]]:
    return [(arena, n + row) for arena, n in ROWS.items() if arena != UNIFORM for row in range(n)]


def run(split: SplitProgram, arenas: dict[str, np.ndarray]) -> None:
    """Run both parts: the uniform one on the first lane; other memory that the varying one must not read is NaN."""
    first = {name: values[:, :1].copy() for name, values in arenas.items()}
    memory = first[SCRATCH] = np.zeros((split.uniform.n_scratch, 1))
    interpret_kernel_part(split.uniform, first, OFFSETS)
    for arena, n in ROWS.items():
        if arena != UNIFORM:
            arenas[arena][:n] = np.nan
    lanes = {**arenas, SCRATCH: np.zeros((split.varying.n_scratch, N_LANES))}
    lanes[PRECOMPUTED] = np.repeat(memory, N_LANES, axis=1)
    interpret_kernel_part(split.varying, lanes, {**OFFSETS, PRECOMPUTED: ArenaOffset(PRECOMPUTED, 0)})
    arenas[FLAG[0]][FLAG[1]] = first[FLAG[0]][FLAG[1]]


def check_split(tree: tuple[Any, ...], seed: int) -> bool:
    """Compare a random program with its parts; returns whether it can be split."""
    program, rng = random_adjoint(tree), np.random.default_rng(seed)
    try:
        split = split_uniform(program, OFFSETS, adjoint_cells())
    except NotSplittableError:
        return False
    numbers = {a: np.repeat(x, 1 if a == UNIFORM else N_LANES, axis=1) for a, x in random_numbers(seed, 1, 1).items()}
    expected = arenas_of(ADJOINTS, numbers, OUTPUTS, rng.normal(size=(len(OUTPUTS), N_LANES)))
    found = {name: values.copy() for name, values in expected.items()}
    with np.errstate(all="ignore"):
        interpret_kernel_part(program, {**expected, SCRATCH: np.zeros((program.n_scratch, N_LANES))}, OFFSETS)
        run(split, found)
    np.testing.assert_array_equal(found[FLAG[0]][FLAG[1]], expected[FLAG[0]][FLAG[1]])
    if not expected[FLAG[0]][FLAG[1]].any():
        np.testing.assert_allclose(derivatives(found, INPUTS), derivatives(expected, INPUTS), rtol=1e-12, atol=1e-12)
    return True


@settings(max_examples=30)
@given(tree=trees(), seed=st.integers(0, 5))
def test_random_programs(tree: tuple[Any, ...], seed: int) -> None:
    check_split(tree, seed)


def test_random_programs_without_dynamic_indices_in_arenas_can_be_split() -> None:
    assert sum(check_split(some_tree(number), number) for number in range(30)) >= 8


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(0, 4_000, 200))
def test_many_random_programs(first: int) -> None:
    assert sum(check_split(some_tree(number), number % 6) for number in range(first, first + 200)) >= 40
