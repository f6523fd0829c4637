"""Programs split into short kernels: the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from kinema.ir import (
    SCRATCH,
    BasicBlock,
    Instruction,
    MemoryLocation,
    Program,
    Store,
    optimise,
    split_basic_block,
    split_into_kernels,
)
from kinema.ir.interpreter import interpret_in_place, interpret_kernel_part

from .random_programs import MEMORY, random_numbers, recorded, trees

N_ENVS = 5
OPS = ("add", "sub", "mul", "min", "max")


@st.composite
def blocks(draw: st.DrawFn) -> BasicBlock:
    """A basic block that loads and stores eight elements, some of which it both loads and overwrites."""
    instructions = [Instruction(i, "input", (), MemoryLocation("x", i)) for i in range(draw(st.integers(1, 8)))]
    for result in range(len(instructions), len(instructions) + draw(st.integers(2, 40))):
        operands = st.one_of(st.integers(0, result - 1), st.floats(-2, 2))
        instructions.append(Instruction(result, draw(st.sampled_from(OPS)), (draw(operands), draw(operands))))
    values = st.one_of(st.integers(0, len(instructions) - 1), st.floats(-2, 2))
    stored = draw(st.dictionaries(st.integers(0, 7), values, min_size=1))
    return BasicBlock(
        tuple(instructions), tuple(Store(MemoryLocation("x", element), value) for element, value in stored.items())
    )


LOADED_LATE = BasicBlock(
    (
        *(Instruction(i, "input", (), MemoryLocation("x", i)) for i in range(5)),
        Instruction(5, "add", (0, 0)),
        Instruction(6, "add", (1, 1)),
    ),
    (Store(MemoryLocation("x", 0), 4), *(Store(MemoryLocation("x", i), 0) for i in range(1, 5))),
)
"""The store of x[0] moves to the second piece with its group, and with it the load of x[4], which another stores."""


@settings(max_examples=300)
@example(block=LOADED_LATE, longest=1, seed=0, grouped=True)
@given(block=blocks(), longest=st.integers(1, 15), seed=st.integers(0, 3), grouped=st.booleans())
def test_pieces_of_a_block_are_the_block(block: BasicBlock, longest: int, seed: int, grouped: bool) -> None:
    """Also where a store overwrites what a later piece loads, and where stores are kept together."""
    x = np.random.default_rng(seed).normal(size=(8, N_ENVS))
    group = (lambda location: location.element // 4) if grouped else (lambda location: location)
    pieces, end = split_basic_block(block, longest, 0, group)
    computed = sum(i.op != "input" for i in block.instructions)
    assert len(pieces) == max(-(-computed // longest), 1)
    arrays = {"x": x.copy(), SCRATCH: np.full((end, N_ENVS), np.nan)}
    for piece in pieces:
        interpret_kernel_part(Program((piece,)), arrays, {})
    interpret_kernel_part(Program((block,)), {"x": x, SCRATCH: np.zeros((0, N_ENVS))}, {})
    np.testing.assert_array_equal(arrays["x"], x)
    if grouped:
        placed = {
            (store.location.element // 4, i)
            for i, x in enumerate(pieces)
            for store in x.stores
            if store.location.array == "x"
        }
        assert len(placed) == len({vector for vector, _ in placed})


def test_pieces_are_short_and_exchange_what_crosses_a_cut() -> None:
    """A chain has one value live everywhere."""
    chain = [Instruction(0, "input", (), MemoryLocation("x", 0))] + [
        Instruction(i, "mul", (i - 1, 1.5)) for i in range(1, 101)
    ]
    pieces, end = split_basic_block(BasicBlock(tuple(chain), (Store(MemoryLocation("x", 0), 100),)), 30, 7)
    assert len(pieces) == 4
    assert end == 7 + 3
    assert max(len(piece.instructions) for piece in pieces) <= 30 * 1.5 + 1


def test_a_block_with_dynamic_addresses_stays_whole() -> None:
    """Which element is loaded is known at run time only, and a piece may have overwritten it."""
    load = [Instruction(0, "input", (), MemoryLocation("x", 0)), Instruction(1, "input", (), MemoryLocation("x", 0, 0))]
    block = BasicBlock(
        (*load, *(Instruction(i, "add", (1, 1.0)) for i in range(2, 50))), (Store(MemoryLocation("x", 0), 49),)
    )
    assert split_basic_block(block, 5, 0) == ([block], 0)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=100)
@given(tree=trees(), seed=st.integers(0, 5), longest=st.integers(1, 20))
def test_kernels_split_between_statements_are_the_program(tree: tuple[Any, ...], seed: int, longest: int) -> None:
    """Local arrays that several kernels use become scratch memory."""
    program = optimise(recorded(tree))
    numbers = MEMORY.whole(random_numbers(seed, N_ENVS, 1), N_ENVS)
    whole, split = ({name: x.copy() for name, x in numbers.items()} for _ in range(2))
    interpret_in_place(program, whole, MEMORY.places())
    parts = split_into_kernels(program, 32, longest)
    split[SCRATCH] = np.full((max(part.program.n_scratch for part in parts), N_ENVS), 0.0)
    for part in parts:
        interpret_kernel_part(part.program, split, MEMORY.places())
    for arena, values in whole.items():
        np.testing.assert_array_equal(split[arena], values)
