"""Loops and conditions: every environment of a vector goes its own way, and none disturbs another."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

from kinema.core import KinemaError
from kinema.ir import (
    SCRATCH,
    UNIFORM,
    ArenaOffset,
    LoopIteration,
    MemoryLocation,
    Program,
    Tape,
    Tracer,
    Value,
    absolute,
    interpret,
    minimum,
    optimise,
    program_from_tape,
    select,
    sqrt,
    trace_for_each_loop,
    while_loop,
)
from kinema.ir.program import basic_blocks
from kinema.runtime import Partitioning

from .arenas import Memory, compiled, interpreted, kernel, launched, same_bits
from .random_programs import MEMORY, recorded, trees

WIDTHS = (1, 2, 4, 8)
N_ENVS = 11
NAN = float("nan")
SMALL = Memory(state=[("x", 4)], controls=[("u", 1)], out=[("y", 6)], uniform=[("g", 4)])
REFUSED = (AssertionError, KinemaError, TypeError, ValueError)


def everywhere(program: Program, expected: np.ndarray, x: np.ndarray, shared: tuple[float, ...] = (0.0,) * 4) -> None:
    """The rows of y from the rows of x: interpreted, and compiled for every width."""
    n_envs = x.shape[1]
    state = np.zeros((4, n_envs))
    state[: len(x)] = x
    numbers = {"state": state, UNIFORM: np.array(shared)[:, None]}
    found = {"interpreted": interpreted(program, SMALL, numbers, n_envs)}
    found |= {f"{w} at a time": compiled(program, SMALL, numbers, n_envs, lanes=w) for w in WIDTHS}
    for how, arenas in found.items():
        np.testing.assert_allclose(arenas["out"][: len(expected)], expected, rtol=0, atol=1e-12, err_msg=how)


COUNTS = np.array([[0.0, 3.0, 1.0, 5.0, -2.0, 2.0, 0.5, 4.0, 0.0, 5.0, NAN]])
"""None, some, all, fewer than none, a broken one and one that is none at all: the first of each vector has few."""


def test_counts_of_their_own() -> None:
    """Each environment takes its own number of turns, at least those that its number is above."""
    recorder = Tracer()
    total = recorder.allocate_local(1)
    recorder.write(total, [0.0])
    recorder.counted_loop(
        "n", recorder.read("x"), lambda turn: recorder.write(total, [recorder.read(total) + 10.0 + turn]), uniform=False
    )
    program = recorder.build({"y": [recorder.read(total)]})
    turns = np.ceil(np.nan_to_num(np.maximum(COUNTS[0], 0.0)))
    everywhere(program, np.array([10.0 * turns + turns * (turns - 1) / 2]), COUNTS)


@pytest.mark.parametrize("uniform", [False, True])
def test_reversed_loops(uniform: bool) -> None:
    """The index counts down to 0, in each environment from its own trip count; also of nested and unrolled loops."""
    recorder = Tracer()
    digits = recorder.allocate_local(2)
    recorder.write(digits, [7.0, 7.0])
    limit = 4.0 if uniform else recorder.read("x")

    def append(i: int, digit: Value) -> None:
        recorder.write(digits, [10.0 * recorder.read(digits, i) + digit], i)

    def outer(index: Value) -> None:
        append(0, index)
        inner = 2.0 if uniform else index
        recorder.counted_loop("inner", inner, lambda own: append(1, own), uniform=uniform, reverse=True)

    recorder.counted_loop("outer", limit, outer, uniform=uniform, reverse=True)
    program = recorder.build({"y": [recorder.read(digits, i) for i in range(2)]})
    counts = np.array([[0.0, 3.0, 1.0, 5.0, -2.0, 2.0, 4.0, 0.0, 5.0, NAN, 1.0]])
    expected = []
    for count in [4] * counts.size if uniform else np.nan_to_num(counts[0]).astype(int):
        order = list(reversed(range(count)))
        inner = [own for index in order for own in reversed(range(2 if uniform else index))]
        expected.append([float("7" + "".join(map(str, x))) for x in (order, inner)])
    everywhere(program, np.array(expected).T, counts)


@pytest.mark.parametrize("array", ["local", SCRATCH, "y"])
def test_a_turn_as_an_index(array: str) -> None:
    """All that still take part are at the same element, those that do not leave theirs alone."""
    recorder = Tracer()
    name = recorder.allocate_local(6) if array == "local" else array
    recorder.write(name, [-1.0] * 6)
    recorder.counted_loop("n", recorder.read("x"), lambda turn: recorder.write(name, [turn], 0, turn))
    sums = recorder.allocate_local(1)
    recorder.write(sums, [0.0])
    recorder.counted_loop(
        "again",
        recorder.read("x"),
        lambda turn: recorder.write(sums, [recorder.read(sums) + recorder.read(name, 0, turn)]),
    )
    program = recorder.build(
        {"y": [*(recorder.read(name, i) for i in range(5)), recorder.read(sums)]},
        n_scratch=6 if array == SCRATCH else 0,
    )
    turns = np.ceil(np.nan_to_num(np.maximum(COUNTS[0], 0.0)))
    items = [np.where(i < turns, float(i), -1.0) for i in range(5)]
    everywhere(program, np.array([*items, turns * (turns - 1) / 2]), COUNTS)


def test_steps_until_something_is_reached() -> None:
    """Halved until below one, at most four times: some stop at once, some before, some are stopped."""
    x = np.array([[0.5, 100.0, 3.0, 1.0, -7.0, 9.0, NAN, 1.5, 16.0, 8.0, 4.0]])
    recorder = Tracer()

    def step(state: object) -> tuple[list[Value], Value, Value]:
        value, turns = state  # type: ignore[misc]
        return [0.5 * value, turns + 1.0], 1.0, 0.5 * value

    found = recorder.while_loop("halve", step, [recorder.read("x"), 0.0], 4)
    program = recorder.build({"y": found})
    plain = [while_loop(None, "halve", step, [float(value), 0.0], 4) for value in x[0]]
    assert {turns for _, turns in plain} == {1.0, 2.0, 3.0, 4.0}
    everywhere(program, np.array(plain).T, x)


@pytest.mark.parametrize("most", [0, 1, 2, 7])
def test_most(most: int) -> None:
    """A step that always asks for another is taken so often, with symbols or without."""
    recorder = Tracer()

    def step(state: object) -> tuple[list[Value], Value, Value]:
        return [state[0] + 1.0], 0.0, 1.0  # type: ignore[index]

    program = recorder.build({"y": recorder.while_loop("on", step, [recorder.read("x")], most)})
    assert while_loop(None, "on", step, [3.0], most) == [3.0 + most]
    everywhere(program, np.full((1, 3), 3.0 + most), np.full((1, 3), 3.0))


def newton(recorder: Tracer | None, x: Value) -> list[Value]:
    """A square root by Newton's method, as an algorithm is written that runs with and without symbols."""

    def step(state: object) -> tuple[list[Value], Value, Value]:
        (y,) = state  # type: ignore[misc]
        new = 0.5 * (y + x / y)
        return [new], 1e-9, absolute(new * new - x)

    return while_loop(recorder, "newton", step, [x + 1.0], 30)


def test_an_algorithm_with_a_loop_runs_without_symbols() -> None:
    x = np.array([[0.01, 4.0, 1e4, 2.0, 9.0, 1.0, 1e-3, 300.0, 5.0]])
    recorder = Tracer()
    program = recorder.build({"y": newton(recorder, recorder.read("x"))})
    plain = np.array([newton(None, float(value)) for value in x[0]]).T
    np.testing.assert_allclose(plain, np.sqrt(x), rtol=1e-6)
    everywhere(program, plain, x)


def test_a_condition() -> None:
    """What is not computed for an environment does not touch it: neither what is given back nor memory."""
    x = np.array([[1.0, -1.0, 4.0, -9.0, 0.0, 16.0, NAN], [5.0] * 7])
    recorder = Tracer()
    recorder.write("y", [recorder.read("x", 1)], 1)

    def then() -> list[Value]:
        root = sqrt(recorder.read("x"))
        recorder.write("y", [root * 10.0], 1)
        return [root]

    found = recorder.if_less("positive", 0.0, recorder.read("x"), then, [recorder.read("x", 1)])
    program = recorder.build({"y": found})
    positive = x[0] > 0
    with np.errstate(invalid="ignore"):
        root = np.sqrt(x[0])
    everywhere(program, np.where(positive, [root, 10.0 * root], 5.0), x)


@pytest.mark.parametrize("array", ["local", SCRATCH, "y"])
def test_indices_of_those_that_take_no_part(array: str) -> None:
    """They may be anything, and reach nothing."""
    x = np.array([[2.0, NAN, 0.0, 1e30, -1e30, 1.0, math.inf, -3.0, 3.0, -math.inf, 7.0], np.arange(11) + 10.0])
    recorder = Tracer()
    name = recorder.allocate_local(4) if array == "local" else array
    recorder.write(name, [1.0, 2.0, 3.0, 4.0])
    index = recorder.read("x")
    valid = select(index, -0.5, 0.0, select(index, 3.5, 1.0, 0.0))

    def then() -> list[Value]:
        recorder.write(name, [recorder.read("x", 1)], 0, index)
        return [recorder.read(name, 0, index)]

    found = recorder.if_less("valid", 0.5, valid, then, [-1.0])
    after = [recorder.read(name, i) for i in range(4)]
    program = recorder.build({"y": [*after, *found]}, n_scratch=4 if array == SCRATCH else 0)
    inside = (x[0] > -0.5) & (x[0] < 3.5)
    expected = np.array([[1.0, 2.0, 3.0, 4.0, -1.0]] * 11).T
    for e in np.flatnonzero(inside):
        expected[4, e] = x[0, e] + 1.0
        expected[int(x[0, e]), e] = x[1, e]
    everywhere(program, expected, x)


def test_the_same_number_of_turns_for_those_that_take_part() -> None:
    """A count that all share is also right where the first environment takes no part in the loop, or what follows."""
    x = np.array([[0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0]])
    recorder = Tracer()

    def then() -> list[Value]:
        total = recorder.allocate_local(1)
        recorder.write(total, [0.0])
        recorder.counted_loop(
            "n", recorder.read("g", 1), lambda turn: recorder.write(total, [recorder.read(total) + turn]), uniform=True
        )
        return [recorder.read(total)]

    program = recorder.build({"y": recorder.if_less("some", 0.5, recorder.read("x"), then, [-1.0])})
    everywhere(program, np.where(x > 0.5, 6.0, -1.0), x, (0.0, 4.0, 0.0, 0.0))


def test_an_index_of_each_into_what_all_share() -> None:
    x = np.array([[2.0, 0.0, 3.0, 1.0, 1.9, 0.0, 3.0, 2.0, 2.0]])
    recorder = Tracer()
    program = recorder.build({"y": [recorder.read("g", 0, recorder.read("x"))]})
    shared = (10.0, 20.0, 30.0, 40.0)
    everywhere(program, np.array(shared)[x.astype(int)], x, shared)


def test_a_line_reads_everything_before_it_writes() -> None:
    """Also the numbers that say where it writes."""
    recorder = Tracer()
    index = recorder.read("x")
    recorder.write("x", [3.0])
    recorder.write("y", [7.0], 0, index)
    program = recorder.build()
    everywhere(program, np.array([[0.0, 7.0, 0.0], [7.0, 0.0, 0.0], [0.0, 0.0, 7.0]]), np.array([[1.0, 0.0, 2.0]]))


def test_turns_within_turns() -> None:
    """A turn is that of the innermost loop, and that of an outer one is carried along; also into rows of a table."""
    recorder = Tracer()
    recorder.write("y", [0.0] * 6)

    def outer(turn: Value) -> None:
        recorder.counted_loop("inner", 3.0, lambda own: recorder.write("y", [10.0 * turn + own], 0, own), uniform=True)
        rows = [LoopIteration("row", {"a": ArenaOffset("out", 4)})]
        trace_for_each_loop(
            recorder, "rows", rows, lambda code: code.write("a", [code.read("a") + code.tracer.loop_index()])
        )

    recorder.counted_loop("outer", recorder.read("x"), outer)
    x = np.array([[0.0, 1.0, 4.0, 2.0, 3.0]])
    last = np.maximum(x[0] - 1, 0)
    expected = [np.where(x[0] > 0, 10 * last + i, 0.0) for i in range(3)]
    everywhere(recorder.build(), np.array([*expected, 0 * last, x[0] * (x[0] - 1) / 2]), x)


# ------------------------------------------------------------------------------------------------------------ recording


def carried(program: Program) -> tuple[set[MemoryLocation], set[MemoryLocation]]:
    """What is left to later lines, and what later lines take."""
    left: set[MemoryLocation] = set()
    taken: set[MemoryLocation] = set()
    for line in basic_blocks(program.body):
        left |= {s.location for s in line.stores if s.location.array.endswith("live out")}
        taken |= {
            i.location for i in line.instructions if i.location is not None and i.location.array.endswith("live out")
        }
    return left, taken


def test_what_no_later_line_needs_is_not_carried() -> None:
    """A value that only feeds something that nobody wants is not kept either, however many lines it went through."""
    recorder = Tracer()
    x, z = recorder.read("x", 0), recorder.read("x", 1)
    wanted, in_vain = sqrt(x), sqrt(z)
    recorder.counted_loop("nothing", 1.0, lambda turn: None)
    more = in_vain * 2.0
    recorder.counted_loop("nothing", 1.0, lambda turn: None)
    _ = more + wanted
    program = recorder.build({"y": [wanted]})
    left, taken = carried(program)
    assert len(left) == len(taken) == 1
    assert program.op_counts()["sqrt"] == 1
    assert "mul" not in program.op_counts()


@settings(max_examples=60)
@given(tree=trees())
def test_nothing_is_carried_or_computed_in_vain(tree: tuple) -> None:
    program = recorded(tree)
    left, taken = carried(program)
    assert left == taken
    assert all(location.element < program.locals[location.array] for location in left)
    for line in basic_blocks(program.body):
        needed = {value for i in line.instructions for value in i.uses} | set(line.roots)
        assert {i.result for i in line.instructions} == needed
        assert line.stores


def test_values_of_another_recorder_are_refused() -> None:
    """The code of rows reads what rows have: a value from around the loop is not there."""
    recorder = Tracer()
    value = recorder.read("x") + 1.0
    rows = [LoopIteration("row", {"a": ArenaOffset("out", 0)})]
    for body in (lambda code: code.write("a", [value]), lambda code: code.write("a", [value * code.read("a")])):
        with pytest.raises(REFUSED):
            trace_for_each_loop(recorder, "rows", rows, body)


def test_states_keep_their_length() -> None:
    recorder = Tracer()
    with pytest.raises(REFUSED):
        recorder.while_loop("longer", lambda state: ([*state, 1.0], 0.0, 1.0), [recorder.read("x")], 3)
    recorder = Tracer()
    with pytest.raises(REFUSED):
        recorder.if_less("longer", 0.0, recorder.read("x"), lambda: [1.0, 2.0], [3.0])


# ------------------------------------------------------------------------------------------------------------ launching


def test_what_is_told_moves_on_from_step_to_step_not_from_run_to_run() -> None:
    recorder = Tracer()
    program = recorder.build({"x": [10.0 * recorder.read("x") + recorder.read("u")]})
    for width in WIDTHS:
        made = kernel(program, SMALL, width, runs_per_step=2)
        numbers = SMALL.whole({"controls": np.array([[1.0] * 5, [2.0] * 5, [3.0] * 5])}, 5, 3)
        np.testing.assert_array_equal(launched(made, SMALL, numbers, 5, 3)["state"][0], [112233.0] * 5)


def test_threads_share_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many threads as you like give the same bits, in scratch memory of their own."""
    from kinema.runtime import kernels

    monkeypatch.setattr(kernels, "OPERATIONS_PER_THREAD", 1)
    recorder = Tracer()
    recorder.write(SCRATCH, [recorder.read("x")])
    recorder.counted_loop(
        "n", 200.0, lambda turn: recorder.write(SCRATCH, [0.5 * recorder.read(SCRATCH) + 1.0]), uniform=True
    )
    program = recorder.build({"y": [recorder.read(SCRATCH)]}, n_scratch=1)
    n_envs = 203
    numbers = SMALL.whole({"state": np.random.default_rng(0).uniform(-1, 1, (4, n_envs))}, n_envs)
    made = kernel(program, SMALL, 2)
    alone = launched(made, SMALL, numbers, n_envs, threads=1)
    for threads in (2, 3, 7, None):
        same_bits(alone, launched(made, SMALL, numbers, n_envs, threads=threads))
    np.testing.assert_allclose(alone["out"][0], 2.0, atol=1e-12)


def test_roles_on_a_cpu() -> None:
    """How many threads share an environment is a matter of the device: a CPU gives the whole result all the same."""
    tape = Tape()
    a, b = tape.inputs("x", 2)
    program = program_from_tape(tape, {"y": [a * b, a + b]})
    made = kernel(program, SMALL, 2, partitioning=Partitioning(2, lambda location: location.element % 2))
    numbers = SMALL.whole({"state": np.array([[2.0], [3.0], [0.0], [0.0]])}, 1)
    np.testing.assert_array_equal(launched(made, SMALL, numbers, 1)["out"][:2, 0], [6.0, 5.0])


@settings(max_examples=10)
@given(tree=trees())
def test_arrays_by_name(tree: tuple) -> None:
    """Programs without tables run on named arrays as they run in arenas."""
    program = recorded(tree)
    if program.for_each_loops:
        return
    rng = np.random.default_rng(0)
    names = {array: count for arena in ("state", "controls", "out", UNIFORM) for array, count in getattr(MEMORY, arena)}
    arrays = {name: rng.integers(-4, 4, (count, N_ENVS)).astype(float) for name, count in names.items()}
    numbers = {
        arena: np.concatenate([arrays[name] for name, _ in getattr(MEMORY, arena)])
        for arena in ("state", "controls", "out")
    }
    for name, _ in MEMORY.uniform:
        arrays[name] = np.repeat(arrays[name][:, :1], N_ENVS, axis=1)
    numbers[UNIFORM] = np.concatenate([arrays[name][:, :1] for name, _ in MEMORY.uniform])
    before = {name: values.copy() for name, values in arrays.items()}
    expected = interpreted(program, MEMORY, numbers, N_ENVS)
    with np.errstate(all="ignore"):
        found = interpret(optimise(program), arrays)
    for name, values in found.items():
        place = MEMORY.places()[name]
        np.testing.assert_allclose(values, expected[place.arena][place.row : place.row + len(values)], atol=1e-12)
    for name, values in before.items():
        np.testing.assert_array_equal(arrays[name], values, "what is given stays as it is")


def test_the_smaller_of_infinity_and_no_number() -> None:
    """Folding a bound away does not change what becomes of a NaN."""
    x = np.array([[NAN, 1.0]])
    for a, b in ((lambda v: math.inf, lambda v: v), (lambda v: v, lambda v: math.inf)):
        tape = Tape()
        symbol = tape.input("x", 0)
        found = interpret(program_from_tape(tape, {"y": [minimum(a(symbol), b(symbol))]}), {"x": x})["y"]
        np.testing.assert_array_equal(found[0], [minimum(a(v), b(v)) for v in x[0].tolist()])


def test_scratch_memory_is_as_wide_as_a_launch() -> None:
    """On a GPU all environments have a column each: also of a single row, and when a later launch has more of them."""
    recorder = Tracer()
    recorder.write(SCRATCH, [recorder.read("x")])
    recorder.counted_loop("nothing", 1.0, lambda turn: None)
    made = kernel(recorder.build({"y": [recorder.read(SCRATCH)]}, n_scratch=1), SMALL, 1)
    for stride in (32, 64, 96):
        assert made._scratch_memory(0, stride).shape[1] >= stride
