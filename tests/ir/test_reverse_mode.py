"""Reverse-mode differentiation of programs with all kinds of statements: dot products with forward mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema.core import KinemaError
from kinema.ir import (
    SCRATCH,
    UNIFORM,
    ArenaOffset,
    BasicBlock,
    CountedLoop,
    If,
    IterationContext,
    LoopIteration,
    MemoryLocation,
    Program,
    Store,
    Tracer,
    Value,
    attach,
    detach,
    interpret,
    interpret_in_place,
    jvp,
    select,
    sin,
    sqrt,
    trace_for_each_loop,
    unroll,
    unroll_program,
    vjp,
)
from kinema.ir.program import map_basic_blocks

from .arenas import ARENAS, Memory, Numbers, kernel, launched
from .random_programs import MEMORY, PLACES, random_numbers, recorded, some_tree, trees
from .test_gpu_text import on_host

N_ENVS = 3
INPUTS = [("state", 4), ("state", 5), ("state", 6), ("controls", 3), ("controls", 4)]
"""Cells of real numbers that programs read."""
OUTPUTS = [("state", 4), ("state", 5), ("state", 6), ("out", 4), ("out", 5), *(("out", row) for row in range(16, 24))]
ROWS = {arena: MEMORY.n_rows(arena) for arena in ARENAS}
FLAG = ("out", 2 * ROWS["out"])
"""Cell of the overflow flag, behind the adjoints."""
BOUND = 1e-12


def doubled(prefix: str) -> Memory:
    """The same arrays, each arena followed by the tangents or adjoints of its arrays; and the overflow flag."""
    arrays = {a: [*getattr(MEMORY, a), *((prefix + name, n) for name, n in getattr(MEMORY, a))] for a in ARENAS}
    return Memory(**{**arrays, "out": [*arrays["out"], ("overflow", 1)]})


ADJOINTS = doubled("d ")
ALL_PLACES = {**PLACES, "overflow": ArenaOffset(*FLAG)}


def arenas_of(memory: Memory, numbers: Numbers, cells: Sequence[tuple[str, int]], values: np.ndarray) -> Numbers:
    """Arenas with the given numbers, and values of the tangents or adjoints of some cells."""
    arenas = {a: np.zeros((memory.n_rows(a), 1 if a == UNIFORM else values.shape[1])) for a in ARENAS}
    for arena, rows in numbers.items():
        arenas[arena][: ROWS[arena]] = rows
    for (arena, row), value in zip(cells, values, strict=True):
        arenas[arena][ROWS[arena] + row] = value
    return arenas


def derivatives(arenas: Numbers, cells: Sequence[tuple[str, int]]) -> np.ndarray:
    return np.array([arenas[arena][ROWS[arena] + row] for arena, row in cells])


def adjoint_program(program: Program, capacity: int = 1024, *, keep_outputs: bool = False) -> Program:
    return vjp(
        program,
        INPUTS,
        OUTPUTS,
        ALL_PLACES,
        ROWS,
        stack_capacity=capacity,
        overflow_flag=MemoryLocation("overflow", 0),
        keep_outputs=keep_outputs,
    )


def check_dot_product(tree: tuple[Any, ...], seed: int, capacity: int = 1024) -> None:
    """<dy, J dx> = <Jᵀ dy, dx>, unless the overflow flag is set; and results are as without derivative."""
    program, numbers, rng = recorded(tree), random_numbers(seed, N_ENVS, 1), np.random.default_rng(seed)
    dx, dy = rng.normal(size=(len(INPUTS), N_ENVS)), rng.normal(size=(len(OUTPUTS), N_ENVS))
    with np.errstate(all="ignore"):  # environments that take no part may compute anything
        forward = arenas_of(ADJOINTS, numbers, INPUTS, dx)
        interpret_in_place(jvp(program, INPUTS, PLACES, ROWS), forward, doubled("t ").places())
        backward = arenas_of(ADJOINTS, numbers, OUTPUTS, dy)
        keeps = seed % 2 == 0
        interpret_in_place(adjoint_program(program, capacity, keep_outputs=keeps), backward, ADJOINTS.places())
    left, right = dy * derivatives(forward, OUTPUTS), dx * derivatives(backward, INPUTS)
    error = np.abs(left.sum(axis=0) - right.sum(axis=0)) / (1.0 + np.abs(left).sum(axis=0))
    assert (error <= BOUND)[backward["out"][FLAG[1]] == 0.0].all()
    if keeps:
        for arena, values in backward.items():
            np.testing.assert_array_equal(values[: ROWS[arena]], forward[arena][: ROWS[arena]])


@settings(max_examples=200)
@given(tree=trees(), seed=st.integers(0, 5))
def test_random_programs(tree: tuple[Any, ...], seed: int) -> None:
    check_dot_product(tree, seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(0, 10_000, 200))
def test_many_random_programs(first: int) -> None:
    """Every fifth one with short stacks."""
    for number in range(first, first + 200):
        check_dot_product(some_tree(number), number % 6, 16 if number % 5 == 0 else 1024)


@settings(max_examples=50)
@given(tree=trees(), seed=st.integers(0, 5), capacity=st.sampled_from([1, 4, 16]))
def test_short_stacks(tree: tuple[Any, ...], seed: int, capacity: int) -> None:
    """Adjoints are right wherever the overflow flag is not set, and the flag is all that tells."""
    check_dot_product(tree, seed, capacity)


@settings(max_examples=10)
@given(tree=trees(), seed=st.integers(0, 5), lanes=st.sampled_from([1, 4]), capacity=st.sampled_from([2, 1024]))
def test_compiled_code_equals_the_interpreter(tree: tuple[Any, ...], seed: int, lanes: int, capacity: int) -> None:
    n_envs, rng = 5, np.random.default_rng(seed)
    program = adjoint_program(recorded(tree), capacity)
    numbers = random_numbers(seed, n_envs, 1)
    arenas = arenas_of(ADJOINTS, numbers, OUTPUTS, rng.normal(size=(len(OUTPUTS), n_envs)))
    found = launched(kernel(program, ADJOINTS, lanes), ADJOINTS, arenas, n_envs)
    with np.errstate(all="ignore"):
        interpret_in_place(program, arenas, ADJOINTS.places())
    np.testing.assert_array_equal(found["out"][FLAG[1]], arenas["out"][FLAG[1]])
    valid = arenas["out"][FLAG[1]] == 0.0
    difference = derivatives(found, INPUTS)[:, valid] - derivatives(arenas, INPUTS)[:, valid]
    assert np.abs(difference).max(initial=0.0) <= 1e-11


@settings(max_examples=3)
@given(tree=trees(), seed=st.integers(0, 5))
def test_gpu_code_equals_the_interpreter(tree: tuple[Any, ...], seed: int) -> None:
    n_envs, rng = 3, np.random.default_rng(seed)
    program = adjoint_program(recorded(tree))
    numbers = random_numbers(seed, n_envs, 1)
    arenas = arenas_of(ADJOINTS, numbers, OUTPUTS, rng.normal(size=(len(OUTPUTS), n_envs)))
    found = on_host((program,), ADJOINTS, arenas, n_envs)
    with np.errstate(all="ignore"):
        interpret_in_place(program, arenas, ADJOINTS.places())
    valid = arenas["out"][FLAG[1]] == 0.0
    difference = derivatives(found, INPUTS)[:, valid] - derivatives(arenas, INPUTS)[:, valid]
    assert np.abs(difference).max(initial=0.0) <= 1e-11


def by_arena(program: Program) -> Program:
    """The same program, which names arenas where it has named arrays."""

    def location(x: MemoryLocation | None) -> MemoryLocation | None:
        if x is None or x.array not in ALL_PLACES:
            return x
        arena, row = ALL_PLACES[x.array]
        return MemoryLocation(arena, row + x.element, x.index)

    def block(old: BasicBlock) -> BasicBlock:
        return BasicBlock(
            tuple(i._replace(location=location(i.location)) for i in old.instructions),
            tuple(s._replace(location=location(s.location)) for s in old.stores),
        )

    return replace(program, body=map_basic_blocks(program.body, block))


@settings(max_examples=20)
@given(tree=trees(), seed=st.integers(0, 5))
def test_unrolling_on_plain_numbers(tree: tuple[Any, ...], seed: int) -> None:
    program, rng = by_arena(recorded(tree)), np.random.default_rng(seed)
    adjoint = vjp(program, INPUTS, OUTPUTS, {}, ROWS, overflow_flag=MemoryLocation(*FLAG))
    arenas = arenas_of(ADJOINTS, random_numbers(seed, 1, 1), OUTPUTS, rng.normal(size=(len(OUTPUTS), 1)))
    before = {arena: values.copy() for arena, values in arenas.items()}
    with np.errstate(all="ignore"):
        interpret_in_place(adjoint, arenas, {})
    values = unroll(adjoint, lambda array, element: float(before[array][element, 0]))
    for arena, row in INPUTS:
        cell = (arena, ROWS[arena] + row)
        found: Any = values.get(cell, before[arena][cell[1], 0])
        np.testing.assert_allclose(found, arenas[arena][cell[1], 0], rtol=1e-11, atol=1e-11)


# ---------------------------------------------------------------------------------------------------- handwritten cases


def check(
    program: Program,
    arrays: Mapping[str, Sequence[float] | np.ndarray],
    sizes: Mapping[str, int],
    capacity: int = 1024,
    *,
    unrolls: bool = True,
) -> dict[str, np.ndarray]:
    """Dot products at the given inputs, with all arrays as inputs and outputs; returns the adjoints."""
    rng = np.random.default_rng(1)
    values = {name: np.array(x, float).reshape(len(x), -1) for name, x in arrays.items()}
    n_envs = next(iter(values.values())).shape[1]
    sizes = {**{name: len(x) for name, x in values.items()}, **sizes}
    values |= {name: np.zeros((n, n_envs)) for name, n in sizes.items() if name not in values}
    cells = [(name, i) for name, n in sizes.items() for i in range(n)]
    tangents = {f"t {name}": rng.normal(size=(n, n_envs)) for name, n in sizes.items()}
    seeds = {f"d {name}": rng.normal(size=(n, n_envs)) for name, n in sizes.items()}
    forward = {**tangents, **interpret(jvp(program, cells), {**values, **tangents})}
    adjoint = vjp(program, cells, cells, stack_capacity=capacity, overflow_flag=MemoryLocation("overflow", 0))
    backward = seeds
    for other in (adjoint, *((unroll_program(adjoint),) if unrolls else ())):
        found = interpret(other, {**values, **seeds, "overflow": np.zeros((1, n_envs))})
        backward = {**seeds, **found}
        left = sum((seeds[f"d {name}"] * forward[f"t {name}"]).sum(axis=0) for name in sizes)
        right = sum((tangents[f"t {name}"] * backward[f"d {name}"]).sum(axis=0) for name in sizes)
        np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-12)
        assert not found.get("overflow", np.zeros(1)).any()
    return backward


def adjoints(program: Program, arrays: Mapping[str, Sequence[float]], **seeds: Sequence[float]) -> dict[str, Any]:
    """Adjoints of the first elements of all arrays for given adjoints of outputs, in one environment."""
    cells = [(name, i) for name, x in arrays.items() for i in range(len(x))]
    outputs = [(name, i) for name, x in seeds.items() for i in range(len(x))]
    values = {name: np.array(x, float)[:, None] for name, x in arrays.items()}
    values |= {f"d {name}": np.zeros((len(x), 1)) for name, x in arrays.items()}
    values |= {f"d {name}": np.array(x, float)[:, None] for name, x in seeds.items()}
    found = interpret(vjp(program, cells, outputs), values)
    return {name: x[:, 0].tolist() for name, x in found.items()}


def test_adjoints_of_cells_that_are_only_read_are_added_to() -> None:
    tracer = Tracer()
    tracer.write("y", [3.0 * tracer.read("x")])
    arrays = {"x": [2.0], "d x": [10.0], "y": [0.0], "d y": [1.0]}
    found = interpret(vjp(tracer.build(), [("x", 0)], [("y", 0)]), {k: np.array([v]) for k, v in arrays.items()})
    assert found["d x"][0, 0] == 13.0
    assert found["d y"][0, 0] == 0.0


def test_arrays_that_are_updated_in_place() -> None:
    """Afterwards their adjoints are those of their contents before."""
    tracer = Tracer()
    x, v = tracer.read("x"), tracer.read("v")
    tracer.write("x", [x + 0.5 * v])
    tracer.write("v", [v - x * x])
    assert adjoints(tracer.build(), {"x": [3.0], "v": [1.0]}, x=[1.0], v=[2.0]) == {"d x": [-11.0], "d v": [2.5]}


def test_of_two_values_for_one_cell_only_the_last_counts() -> None:
    tracer = Tracer()
    x = tracer.read("x")
    tracer.write("y", [2.0 * x])
    tracer.write("y", [3.0 * x])
    assert adjoints(tracer.build(), {"x": [1.0]}, y=[1.0])["d x"] == [3.0]


def test_operands_that_are_overwritten_later() -> None:
    """The chain a -> a² -> sin(a²) a² -> ... in a single cell of memory."""
    tracer = Tracer()
    tracer.write(SCRATCH, [tracer.read("x")])
    for _ in range(3):
        tracer.new_basic_block()
        a = tracer.read(SCRATCH)
        tracer.write(SCRATCH, [a * a])
        tracer.new_basic_block()
        a = tracer.read(SCRATCH)
        tracer.write(SCRATCH, [sin(a) * a])
    tracer.new_basic_block()
    tracer.write("y", [tracer.read(SCRATCH)])
    check(tracer.build(n_scratch=1), {"x": [1.3]}, {"y": 1})


def test_dynamic_indices_that_may_be_equal() -> None:
    """Loads, stores and both: in environments with equal and with different indices."""
    tracer = Tracer()
    state = tracer.allocate_local(3)
    tracer.write(state, [tracer.read("x", i) for i in range(3)])
    i, j = tracer.read("i"), tracer.read("j")
    tracer.new_basic_block()
    tracer.write("y", [tracer.read(state, 0, i) * tracer.read(state, 0, j) * tracer.read(state, 1)])
    tracer.new_basic_block()
    a, b = tracer.read(state, 0, i), tracer.read(state, 0, j)
    tracer.write(state, [a * b], 0, i)
    tracer.write(state, [sin(b)], 0, j)
    tracer.write(state, [a + tracer.read(state, 2)], 1)
    tracer.new_basic_block()
    tracer.write("z", [tracer.read(state, k) * tracer.read(state, k) for k in range(3)])
    x = np.array([[0.3, 0.7, 1.1]] * 9).T
    indices = {"i": [[0.0, 1.0, 2.0] * 3], "j": [[0.0] * 3 + [1.0] * 3 + [2.0] * 3]}
    program = tracer.build()
    cells = [("x", k) for k in range(3)]
    outputs = [("y", 0), *(("z", k) for k in range(3))]
    rng = np.random.default_rng(0)
    dx, dy = rng.normal(size=(3, 9)), {"d y": rng.normal(size=(1, 9)), "d z": rng.normal(size=(3, 9))}
    arrays = {"x": x, **{name: np.array(v) for name, v in indices.items()}}
    forward = interpret(jvp(program, cells), {**arrays, "t x": dx})
    left = sum((dy[f"d {name}"] * forward[f"t {name}"]).sum(axis=0) for name in "yz")
    for adjoint in (vjp(program, cells, outputs), unroll_program(vjp(program, cells, outputs))):
        found = interpret(adjoint, {**arrays, **dy, "d x": np.zeros((3, 9))})
        np.testing.assert_allclose((found["d x"] * dx).sum(axis=0), left, rtol=1e-13)


def nested(tracer: Tracer, how: str) -> None:
    """Products of numbers of the rows of two tables in memory.

    Of the rows that belong together (`ranges`), several times (`repeated`), or of all rows (`all rows`).
    """
    rows = []
    for i in range(3):
        own = [
            LoopIteration(
                "inner" if k else "first",
                {"to": ArenaOffset(SCRATCH, i), "of": ArenaOffset(SCRATCH, 3 + k)},
                {"f": [0.5 + i + 3 * k]},
            )
            for k in range(i + 1)
        ]
        offsets = {"a": ArenaOffset(SCRATCH, i), "b": ArenaOffset(SCRATCH, 3 + i)}
        rows.append(LoopIteration("outer", offsets, {"c": [float(i) - 0.5]}, {"own": own}))

    def product(row: IterationContext) -> None:
        tracer = row.tracer
        value = tracer.read("to") * sin(tracer.read("of")) + row.constant("f") * tracer.read("b")
        tracer.write("to", [value])

    def body(row: IterationContext) -> None:
        row.write("b", [row.read("b") * row.constant("c") * row.read("a")])
        if how == "ranges":
            row.nested_loop("own", product)
        elif how == "repeated":
            count = 1.0 + row.constant("c") + row.constant("c")
            row.tracer.counted_loop("repeat rows", count, lambda _: row.nested_loop("own", product), max_iterations=4)
        else:
            all_rows = [x for outer in rows for x in outer.nested_iterations["own"]]
            trace_for_each_loop(row.tracer, "all", all_rows, product)
        row.write("a", [row.read("a") * row.read("b")])

    tracer.write(SCRATCH, [tracer.read("x", i) for i in range(6)])
    trace_for_each_loop(tracer, "outer", rows, body)
    tracer.write("y", [tracer.read(SCRATCH, i) for i in range(6)])


X6 = [0.3, -0.4, 1.2, 0.8, -1.1, 0.6]


HOW_NESTED = ("ranges", "repeated", "all rows")


@pytest.mark.parametrize("how", HOW_NESTED)
def test_nested_loops_over_tables(how: str) -> None:
    tracer = Tracer()
    nested(tracer, how)
    check(tracer.build(n_scratch=6), {"x": X6}, {"y": 6})


@pytest.mark.parametrize("capacity", [1024, 36], ids=["indexed", "stack"])
@pytest.mark.parametrize("how", HOW_NESTED)
def test_nested_loops_over_tables_in_a_loop(how: str, capacity: int) -> None:
    """What is recorded in an iteration has a place for each row and each iteration."""
    tracer = Tracer()

    def body(_: Value) -> None:
        nested(tracer, how)
        tracer.new_basic_block()
        tracer.write("x", [0.1 * sin(tracer.read("y", i)) + sin(tracer.read("x", i)) for i in range(6)])

    tracer.counted_loop("repeat", tracer.read("n"), body, max_iterations=10 if capacity > 100 else None)
    counts = np.array([[3.0, 1.0, 0.0, 2.0]])
    program = tracer.build(n_scratch=6)
    check(program, {"x": np.array([X6] * 4).T, "n": counts}, {"y": 6}, capacity)


def newton_step(state: Sequence[Value], a: Value) -> tuple[list[Value], Value, Value]:
    new = 0.5 * (state[0] + a / state[0])
    change = new - state[0]
    return [new], 1e-14, change * change


def newton_square_root(max_iterations: int = 50) -> Program:
    """Square root by Newton's method, until two iterates agree."""
    tracer = Tracer()
    a = tracer.read("x")

    (root,) = tracer.while_loop("newton", lambda x: newton_step(x, a), [a], max_iterations)
    tracer.write("y", [root])
    return tracer.build()


@pytest.mark.parametrize("capacity", [1024, 20], ids=["indexed", "stack"])
def test_a_while_loop_whose_length_depends_on_the_data(capacity: int) -> None:
    x = np.array([[0.01, 1.0, 4.0, 9e4]])
    seeds = {"d x": np.zeros((1, 4)), "d y": np.ones((1, 4)), "overflow": np.zeros((1, 4))}
    adjoint = vjp(
        newton_square_root(),
        [("x", 0)],
        [("y", 0)],
        stack_capacity=capacity,
        overflow_flag=MemoryLocation("overflow", 0),
    )
    for program in (adjoint, unroll_program(adjoint)):
        found = interpret(program, {"x": x, **seeds})
        np.testing.assert_allclose(found["d x"], 0.5 / np.sqrt(x), rtol=1e-6)
        assert not found.get("overflow", np.zeros(1)).any()


def test_the_overflow_flag_is_set_where_a_loop_has_too_many_iterations() -> None:
    x = np.array([[0.01, 1.0, 4.0, 9e4]])
    adjoint = vjp(
        newton_square_root(),
        [("x", 0)],
        [("y", 0)],
        stack_capacity=10,
        overflow_flag=MemoryLocation("overflow", 0),
    )
    arrays = {"x": x, "d x": np.zeros((1, 4)), "d y": np.ones((1, 4)), "overflow": np.array([[0.0, 0.0, 1.0, 0.0]])}
    for program in (adjoint, unroll_program(adjoint)):
        found = interpret(program, arrays)
        np.testing.assert_array_equal(found["overflow"][0], [0.0, 0.0, 1.0, 1.0])
        np.testing.assert_allclose(found["d x"][0, :3], 0.5 / np.sqrt(x[0, :3]), rtol=1e-6)


def test_the_tape_of_loops_that_are_not_unrolled() -> None:
    """Their stack positions start at zero, whatever memory holds, and their overflow sets the flag."""
    tracer = Tracer()

    def body(iteration: IterationContext) -> None:
        step = partial(newton_step, a=iteration.read("x"))
        (root,) = iteration.tracer.while_loop("newton", step, [iteration.read("x")], 40)
        iteration.write("y", [root])

    rows = [LoopIteration("row", {"x": ArenaOffset("x", i), "y": ArenaOffset("y", i)}) for i in range(2)]
    trace_for_each_loop(tracer, "rows", rows, body, no_unroll=True)
    cells = [("x", 0), ("x", 1)], [("y", 0), ("y", 1)]
    adjoint = unroll_program(vjp(tracer.build(), *cells, stack_capacity=24, overflow_flag=MemoryLocation("over", 0)))
    stored = {s.location[:2] for block in adjoint.body if isinstance(block, BasicBlock) for s in block.stores}
    assert any(array.startswith("tape loop") for array, _ in stored)
    x = np.array([[0.01, 1.0, 9e4], [4.0, 2.0, 1e6]])
    memory = {"x": x, "y": np.zeros((2, 3)), "d x": np.zeros((2, 3)), "d y": np.ones((2, 3)), "over": np.zeros((1, 3))}
    interpret_in_place(adjoint, memory, {})
    np.testing.assert_array_equal(memory["over"][0], [0.0, 0.0, 1.0])
    np.testing.assert_allclose(memory["d x"][:, :2], 0.5 / np.sqrt(x[:, :2]), rtol=1e-6)


def test_loops_that_may_exceed_the_tape_need_an_overflow_flag() -> None:
    with pytest.raises(KinemaError, match=r"loop 'newton' holds 10 iterations.*overflow flag"):
        vjp(newton_square_root(), [("x", 0)], [("y", 0)], stack_capacity=10)


def test_loops_inside_rows_with_trip_counts_from_the_table() -> None:
    """Neither the trip counts nor the positions on the tape are recorded: the table says them."""
    tracer = Tracer()
    rows = [
        LoopIteration("row", {"a": ArenaOffset(SCRATCH, i), "b": ArenaOffset(SCRATCH, i + 1)}, {"n": [float(i)]})
        for i in range(4)
    ]

    def body(row: IterationContext) -> None:
        def update(index: Value) -> None:
            row.write("b", [row.tracer.read("b") * sin(row.tracer.read("a")) + 0.1 * index])

        row.tracer.counted_loop("times", row.constant("n"), update, uniform=True)

    tracer.write(SCRATCH, [tracer.read("x", i) for i in range(5)])
    trace_for_each_loop(tracer, "rows", rows, body)
    tracer.write("y", [tracer.read(SCRATCH, i) for i in range(5)])
    program = tracer.build(n_scratch=5)
    check(program, {"x": X6[:5]}, {"y": 5})
    adjoint = vjp(program, [("x", i) for i in range(5)], [("y", i) for i in range(5)])
    assert unroll_program(adjoint).is_straight_line


def test_a_trip_count_that_only_some_environments_have() -> None:
    """A number that is stored in a branch is no constant."""
    tracer = Tracer()
    count = tracer.allocate_local(1)

    def enable() -> list[Value]:
        tracer.write(count, [3.0])
        return []

    def square(_: Value) -> None:
        tracer.write(SCRATCH, [tracer.read(SCRATCH) * tracer.read(SCRATCH)])

    tracer.if_less("enabled", 0.0, tracer.read("c"), enable, [])
    tracer.write(SCRATCH, [tracer.read("x")])
    tracer.counted_loop("squares", 1.0, square)
    tracer.write("y", [tracer.read(SCRATCH)])
    program = tracer.build(n_scratch=1)
    at = MemoryLocation(count, 0)
    body = [replace(x, count=at, max_iterations=3) if isinstance(x, CountedLoop) else x for x in program.body]
    check(replace(program, body=tuple(body)), {"x": np.array([[0.9, 0.8]]), "c": np.array([[1.0, -1.0]])}, {"y": 1})


def test_parallel_loops() -> None:
    """Sums over independent iterations."""
    tracer = Tracer()
    state = tracer.allocate_local(4)
    tracer.write(state, [tracer.read("x", i) for i in range(4)])

    def summands(index: Value) -> list[Value]:
        a = tracer.read(state, 0, index)
        return [a * a, sin(a)]

    a, b = tracer.parallel_loop("sums", 4.0, summands, 2)
    tracer.write("y", [a * b])
    check(tracer.build(), {"x": X6[:4]}, {"y": 1})


@pytest.mark.parametrize("lanes", [1, 4])
def test_rows_that_are_skipped_as_they_have_no_effect(lanes: int) -> None:
    """A CPU skips rows that are not listed; in the derivative all rows run, so that nothing recorded is missing."""
    memory = Memory(state=[("x", 4), ("y", 1), ("d x", 4), ("d y", 1)])
    y = ArenaOffset("state", 4)
    rows = [
        LoopIteration("k", {"x": ArenaOffset("state", i), "y": y, "w": ArenaOffset(SCRATCH, 3 + i)}) for i in range(4)
    ]
    tracer = Tracer()
    tracer.write(SCRATCH, [2.0, 1.0, 3.0, 0.0, 2.0, 0.0, 5.0])  # two rows, 1 and 3; weights of the rows
    trace_for_each_loop(
        tracer,
        "listed",
        rows,
        lambda row: row.write("y", [row.read("y") * (1.0 + row.read("w") * row.read("x"))]),
        active_iterations=ArenaOffset(SCRATCH, 0),
    )
    program = tracer.build(n_scratch=7)
    x, start = [0.3, 0.5, 0.7, 0.9], 1.5
    numbers = memory.whole({"state": np.array([[*x, start, *[0.0] * 4, 1.0]]).T.repeat(6, axis=1)}, 6)
    adjoint = vjp(program, [("state", i) for i in range(4)], [("state", 4)], memory.places(), {"state": 5})
    found = launched(kernel(adjoint, memory, lanes), memory, numbers, 6)
    factors = [1.0 + 2.0 * x[1], 1.0 + 5.0 * x[3]]
    expected = [0.0, 2.0 * start * factors[1], 0.0, 5.0 * start * factors[0]]
    np.testing.assert_allclose(found["state"][5:9], np.array([expected] * 6).T, rtol=1e-14)
    assert (
        launched(kernel(program, memory, lanes), memory, numbers, 6)["state"][4, 0] == start * factors[0] * factors[1]
    )


def test_values_that_a_loop_does_not_change_are_recorded_once() -> None:
    tracer = Tracer()
    tracer.write(SCRATCH, [tracer.read("x"), 0.0])

    def body(_: Value) -> None:
        tracer.write(SCRATCH, [tracer.read(SCRATCH, 1) + tracer.read(SCRATCH, 0) * tracer.read("x", 1)], 1)

    tracer.counted_loop("sum", 100.0, body)
    tracer.write(SCRATCH, [0.0])  # so that the factor has to be recorded
    tracer.new_basic_block()
    tracer.write("y", [tracer.read(SCRATCH, 1)])
    program = tracer.build(n_scratch=2)
    check(program, {"x": [0.3, 0.4]}, {"y": 1})
    adjoint = vjp(program, [("x", 0), ("x", 1)], [("y", 0)])
    assert adjoint.n_scratch + sum(adjoint.locals.values()) < 20


def test_nothing_is_recorded_that_memory_still_holds() -> None:
    """A pass over a chain in which each row writes memory of its own."""
    tracer, n = Tracer(), 20
    tracer.write(SCRATCH, [tracer.read("x")])
    rows = [LoopIteration("k", {"a": ArenaOffset(SCRATCH, i), "b": ArenaOffset(SCRATCH, i + 1)}) for i in range(n)]
    trace_for_each_loop(tracer, "chain", rows, lambda row: row.write("b", [row.read("a") * row.read("a")]))
    tracer.write("y", [tracer.read(SCRATCH, n)])
    program = tracer.build(n_scratch=n + 1)
    check(program, {"x": [0.99]}, {"y": 1})
    assert vjp(program, [("x", 0)], [("y", 0)]).n_scratch == 2 * (n + 1)


@pytest.mark.parametrize("denominator", [0.0, 0.5])
def test_unused_quotients_by_zero_have_no_adjoint(denominator: float) -> None:
    """0 times infinity is no number, but what a selection discards has no derivative."""
    tracer = Tracer()
    x, a = tracer.read("x"), tracer.read("x", 1)
    tracer.write("y", [select(0.1, x, a / x, 7.0 * a), select(0.1, x, sqrt(x) * a, a), sqrt(x)])
    expected = [-3.0 / 0.25 + 3.0 * 0.5 / np.sqrt(0.5) + 0.5 / np.sqrt(0.5), 2.0 + np.sqrt(0.5)]
    with np.errstate(all="ignore"):
        found = adjoints(tracer.build(), {"x": [denominator, 3.0]}, y=[1.0, 1.0, 1.0])["d x"]
    np.testing.assert_allclose(found, expected if denominator else [0.0, 8.0])


def test_detached_values_are_constants_and_attached_ones_have_the_derivative_of_their_carrier() -> None:
    """The iteration whose result is attached is not differentiated."""
    tracer = Tracer()
    x = tracer.read("x")

    def step(state: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        return [state[0] * x], 0.0, 1.0

    (result,) = tracer.while_loop("iteration", step, [1.0], 3)
    tracer.write("y", [x * detach(x), attach(detach(result), 5.0 * x), detach(x)])
    adjoint = vjp(tracer.build(), [("x", 0)], [("y", i) for i in range(3)])
    arrays = {"x": np.array([[2.0]]), "d x": np.zeros((1, 1)), "d y": np.ones((3, 1))}
    assert interpret(adjoint, arrays)["d x"][0, 0] == 2.0 + 5.0
    assert all(isinstance(statement, BasicBlock) for statement in adjoint.body)


def test_results_are_kept_on_request() -> None:
    tracer = Tracer()
    tracer.write("y", [sin(tracer.read("x"))])
    program = tracer.build()
    arrays = {"x": np.array([[0.5]]), "d y": np.ones((1, 1)), "d x": np.zeros((1, 1))}
    kept = interpret(vjp(program, [("x", 0)], [("y", 0)], keep_outputs=True), arrays)
    assert kept["y"][0, 0] == np.sin(0.5)
    assert "y" not in vjp(program, [("x", 0)], [("y", 0)]).outputs


def test_programs_without_a_dependency_have_no_adjoint() -> None:
    tracer = Tracer()
    tracer.write("y", [sin(tracer.read("a"))])
    assert not vjp(tracer.build(), [("x", 0)], [("y", 0)]).body


def test_second_derivatives() -> None:
    """The Hessian of sin(x y) + x³: reverse mode of forward mode, and the reverse, but not twice reverse mode."""
    tracer = Tracer()
    x, y = tracer.read("x"), tracer.read("x", 1)
    tracer.write(SCRATCH, [x * y])
    tracer.new_basic_block()
    tracer.write("c", [sin(tracer.read(SCRATCH)) + x * x * x])
    program, cells = tracer.build(n_scratch=1), [("x", 0), ("x", 1)]
    point, direction = np.array([[0.4], [0.9]]), np.array([[0.7], [-0.2]])
    (a,), (b,) = point
    s, c = np.sin(a * b), np.cos(a * b)
    hessian = np.array([[-b * b * s + 6 * a, c - a * b * s], [c - a * b * s, -a * a * s]])
    zero, one = np.zeros((2, 1)), np.ones((1, 1))
    outer = vjp(jvp(program, cells), cells, [("t c", 0)])
    found = interpret(outer, {"x": point, "t x": direction, "d t c": one, "d x": zero})["d x"]
    np.testing.assert_allclose(found, hessian @ direction, rtol=1e-12)
    gradient = vjp(program, cells, [("c", 0)])
    found = interpret(jvp(gradient, cells), {"x": point, "t x": direction, "d c": one, "d x": zero, "t d x": zero})
    np.testing.assert_allclose(found["t d x"], hessian @ direction, rtol=1e-12)
    with pytest.raises(KinemaError, match="the program has adjoints already"):
        vjp(gradient, cells, [("d x", 0)])


@pytest.mark.parametrize(("x", "expected", "runs"), [(0.05, -1200.0, True), (0.5, 3.0, False), (2.0, 3.0, False)])
def test_branches_without_effect_have_no_adjoint(x: float, expected: float, runs: bool) -> None:
    """The adjoint of a branch runs if the branch inside, which alone has an effect, was taken."""
    tracer = Tracer()
    tracer.write("z", [3.0 * tracer.read("x")])

    def outer() -> list[Value]:
        def body(_: Value) -> None:
            quotient = 1.0 / tracer.read("x")

            def inner() -> list[Value]:
                tracer.write("z", [3.0 * quotient])
                return []

            tracer.if_less("inner", 10.0, quotient, inner, [])

        tracer.counted_loop("once", 1.0, body)
        return []

    tracer.if_less("outer", tracer.read("x"), 1.0, outer, [])
    program = vjp(tracer.build(), [("x", 0)], [("z", 0)])
    branches = [s for s in program.body if isinstance(s, If) and s.name == "outer"]
    counted = BasicBlock((), (Store(MemoryLocation("count", 0), 1.0),))
    adjoint = replace(branches[-1], body=(counted, *branches[-1].body))
    marked = replace(program, body=tuple(adjoint if s is branches[-1] else s for s in program.body))
    arrays = {"x": np.array([[x]]), "d x": np.zeros((1, 1)), "d z": np.ones((1, 1)), "count": np.zeros((1, 1))}
    found = interpret(marked, arrays)
    assert found["d x"][0, 0] == pytest.approx(expected)
    assert bool(found["count"][0, 0]) is runs


def _atomic(tracer: Tracer) -> None:
    tracer.atomic_increment("counter")


def _region(tracer: Tracer) -> None:
    with tracer.warp_region("region"):
        tracer.write("y", [tracer.read("x")])


@pytest.mark.parametrize(("trace", "name"), [(_atomic, "AtomicIncrement"), (_region, "WarpRegion 'region'")])
def test_cooperative_statements_have_no_derivative(trace: Callable[[Tracer], None], name: str) -> None:
    tracer = Tracer()
    trace(tracer)
    with pytest.raises(KinemaError, match=f"no derivative of {name}"):
        vjp(tracer.build(), [("x", 0)], [("y", 0)])


def test_adjoints_of_memory_that_environments_share_have_an_arena_of_their_own() -> None:
    with pytest.raises(KinemaError, match="'uniform' need an arena with a column for each environment"):
        vjp(Tracer().build(), [(UNIFORM, 0)], [("out", 0)], {}, {UNIFORM: 3})
