"""Random programs of every kind of blocks: plain Python, the interpreter and compiled code of any width agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema.ir import optimise
from kinema.runtime import CACHE_ENV_VARIABLE

from .arenas import Numbers, interpreted, kernel, launched, same_bits
from .random_programs import GLOBAL, MEMORY, plainly, random_numbers, recorded, trees

N_ENVS = 11  # no whole number of vectors
STEPS = 3
WIDTHS = (1, 2, 4, 8)
seeds = st.integers(0, 5)


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What random programs leave behind is of no use to anybody."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_ENV_VARIABLE, str(tmp_path_factory.mktemp("cache")))
        yield


def agree(found: Numbers, expected: Numbers, bound: float = 1e-12) -> None:
    """Whole numbers are the same; real ones are as far apart as two ways to round a sum."""
    for arena, values in expected.items():
        rows = [array for array, count in getattr(MEMORY, arena) for _ in range(count)]
        for row in range(len(values)):
            name = rows[row % len(rows)]
            whole = next(a for a in GLOBAL if a.name == name).whole
            atol = 0.0 if whole else bound
            np.testing.assert_allclose(found[arena][row], values[row], rtol=0, atol=atol, err_msg=name)


@settings(max_examples=100)
@given(tree=trees(), seed=seeds)
def test_the_interpreter_does_what_plain_python_does(tree: tuple[Any, ...], seed: int) -> None:
    numbers = random_numbers(seed, N_ENVS, STEPS)
    program = recorded(tree)
    expected = plainly(tree, numbers, N_ENVS, STEPS)
    agree(interpreted(program, MEMORY, numbers, N_ENVS, STEPS), expected)
    agree(interpreted(optimise(program), MEMORY, numbers, N_ENVS, STEPS), expected)


@settings(max_examples=20)
@given(tree=trees(), seed=seeds)
def test_compiled_code_of_every_width_does_what_the_interpreter_does(tree: tuple[Any, ...], seed: int) -> None:
    """Over several steps, each told something else; between widths not one bit differs."""
    numbers = random_numbers(seed, N_ENVS, STEPS)
    program = recorded(tree)
    found = [launched(kernel(program, MEMORY, width), MEMORY, numbers, N_ENVS, STEPS) for width in WIDTHS]
    agree(found[0], interpreted(program, MEMORY, numbers, N_ENVS, STEPS))
    for other in found[1:]:
        same_bits(found[0], other)


@settings(max_examples=15)
@given(tree=trees(), seed=seeds, order=st.permutations(range(N_ENVS)))
def test_neighbours_do_not_matter(tree: tuple[Any, ...], seed: int, order: list[int]) -> None:
    """An environment's result is the same alone, among others, and in another place of a vector."""
    numbers = random_numbers(seed, N_ENVS, STEPS)
    made = kernel(recorded(tree), MEMORY, 4)
    together = launched(made, MEMORY, numbers, N_ENVS, STEPS)

    def only(envs: list[int], values: Numbers) -> Numbers:
        return {arena: v if v.shape[1] == 1 else v[:, envs] for arena, v in values.items()}

    for chosen in (order, order[:6], order[:1]):
        some = launched(made, MEMORY, only(chosen, numbers), len(chosen), STEPS)
        same_bits(only(chosen, together), some)


@settings(max_examples=10)
@given(tree=trees(), seed=seeds)
def test_one_launch_of_some_steps_is_as_many_launches_of_one(tree: tuple[Any, ...], seed: int) -> None:
    """The state is carried over, and nothing else is: neither locals nor scratch memory."""
    numbers = random_numbers(seed, N_ENVS, STEPS)
    made = kernel(recorded(tree), MEMORY, 4)
    at_once = launched(made, MEMORY, numbers, N_ENVS, STEPS)
    advance = MEMORY.n_rows("controls")
    own = dict(numbers)
    for step in range(STEPS):
        own["controls"] = numbers["controls"][step * advance : (step + 1) * advance]
        own = launched(made, MEMORY, own, N_ENVS)
    own["controls"] = numbers["controls"]
    same_bits(own, at_once)


@settings(max_examples=15)
@given(tree=trees(), seed=seeds)
def test_single_precision(tree: tuple[Any, ...], seed: int) -> None:
    """Whole numbers are small enough to be exact there, too; real ones are as good as their digits."""
    numbers = random_numbers(seed, N_ENVS, 1)
    program = recorded(tree)
    found = [launched(kernel(program, MEMORY, width, "single"), MEMORY, numbers, N_ENVS) for width in (1, 4, 8)]
    agree(found[0], interpreted(program, MEMORY, numbers, N_ENVS), 1e-5)
    for other in found[1:]:
        same_bits(found[0], other)
