"""What only teams do: turns that threads share, and equations that they solve at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kinema.codegen import BlockArrowhead, HessianTerm, LdlSolve, Target, WarpRegionConfig, emit_warp_kernel
from kinema.ir import (
    SCRATCH,
    IntrinsicCall,
    MemoryLocation,
    Program,
    SharedMemoryStaging,
    Tracer,
    Value,
    interpret_in_place,
    round_up_to_4,
    split_into_kernels,
)
from kinema.runtime.cuda_driver import compile_ptx
from kit.choosing import combinations

from .arenas import Memory
from .test_teams import N_ENVS, SIZE, on_host, scheduled

N_SUMMED = 11
MANY = float(N_SUMMED)


def summed() -> Program:
    """The squares of as many numbers as the first says, where they were, and their sum; of many also half of it."""
    recorder = Tracer()
    with recorder.warp_region("all"):

        def square(turn: Value) -> list[Value]:
            x = recorder.read("x", 1, turn)
            recorder.write("x", [x * x], 1, turn)
            return [x * x]

        (total,) = recorder.parallel_loop("squares", recorder.read("x"), square, 1)
        recorder.write("x", [total], N_SUMMED + 1)

        def half(turn: Value) -> list[Value]:
            return [0.5 * recorder.read("x", 1, turn)]

        halves = recorder.if_less(
            "many", 6.5, recorder.read("x"), lambda: recorder.parallel_loop("halves", MANY, half, 1), [0.0]
        )
        recorder.write("x", halves, N_SUMMED + 2)
    return recorder.build(n_scratch=1)


def test_threads_share_turns() -> None:
    program = summed()
    memory = Memory(state=[("x", N_SUMMED + 3)])
    x = np.random.default_rng(0).normal(size=(N_SUMMED + 3, N_ENVS))
    x[0] = [N_SUMMED, 5]
    expected = x.copy()
    interpret_in_place(program, {"state": expected}, memory.places())
    found = on_host(
        [scheduled(p) for p in split_into_kernels(program, SIZE)], memory, memory.whole({"state": x}, N_ENVS)
    )["state"]
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    sums = [np.sum(x[1:-2, 0] ** 2), np.sum(x[1:6, 1] ** 2)]
    np.testing.assert_allclose(expected[-2:], [sums, [0.5 * sums[0], 0.0]])


STARTS = (8, 8 + N_SUMMED)
"""Where two lists are."""


def reversed_lists(few: int, order: Sequence[int]) -> Program:
    """As many numbers as the first says, in two lists and back in another order; few of them may be near at hand."""
    recorder = Tracer()
    with recorder.warp_region("all"):
        count = recorder.read("x")
        for number in order:
            used = recorder.allocate_local(1)
            recorder.write(used, [count])
            first = MemoryLocation(SCRATCH, STARTS[number])
            recorder.add_statement(
                SharedMemoryStaging("list", first, N_SUMMED, 1, MemoryLocation(used, 0), few + number), {}
            )

        def put(turn: Value) -> list[Value]:
            for number, first in enumerate(STARTS):
                recorder.write(SCRATCH, [(1.0 + number) * recorder.read("x", 1, turn)], first, turn)
            return []

        def get(turn: Value) -> list[Value]:
            found = [recorder.read(SCRATCH, first, count - 1.0 - turn) for first in STARTS]
            recorder.write("x", [found[0] + found[1]], 1, turn)
            return []

        recorder.parallel_loop("into the lists", count, put)
        recorder.parallel_loop("out of them", count, get)
    return recorder.build(n_scratch=STARTS[1] + N_SUMMED, allocation_starts=[0, *STARTS], oversized_lists=STARTS)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_few_of_lists_are_near(order: Sequence[int]) -> None:
    program = reversed_lists(4, order)
    (part,) = split_into_kernels(program, SIZE)
    assert (part.n_global, part.program.n_scratch) >= (2 * N_SUMMED, 9)
    memory = Memory(state=[("x", N_SUMMED + 1)])
    for counts in ((4, 9), (5, 5)):
        x = np.random.default_rng(0).normal(size=(N_SUMMED + 1, N_ENVS))
        x[0] = counts
        expected = x.copy()
        interpret_in_place(program, {"state": expected}, memory.places())
        np.testing.assert_array_equal(expected[1 : counts[0] + 1, 0], 3.0 * x[counts[0] : 0 : -1, 0])
        found = on_host([scheduled(part)], memory, memory.whole({"state": x}, N_ENVS))["state"]
        np.testing.assert_array_equal(found, expected)


class System:
    """A system of so many unknowns, with as many records of two dimensions as the numbers say, or of five of a cone."""

    def __init__(
        self, n: int, *, lower: bool, cone: bool = False, limbs: BlockArrowhead | None = None, threads: int = SIZE
    ) -> None:
        self.n, self.pitch, self.cone = n, n | 1, cone
        self.limbs, n_work = (
            limbs,
            2 * round_up_to_4(n) if limbs is None else max(2 * round_up_to_4(n), limbs.workspace_size(threads)),
        )
        self.dimension = 5 if cone else 2
        self.rows, self.curve, self.jacobian = 0, 4, 16
        self.width = self.jacobian + self.dimension * round_up_to_4(n)
        sizes = {"matrix": n * self.pitch, "diagonal": n, "most": n, "right": n, "records": 3 * self.width, "count": 1}
        sizes |= {"apart": 1, "work": n_work}
        self.places: dict[str, int] = {}
        end = 0
        for name, size in (*sizes.items(), ("result", n)):
            self.places[name], end = end, round_up_to_4(end + size)
        self.end = end
        self.memory = Memory(state=[("x", self.places["result"] + n)])
        recorder = Tracer()
        with recorder.warp_region("all"):
            read = range(self.places["result"])
            recorder.write(SCRATCH, [recorder.read("x", i) for i in read])
            at = {name: MemoryLocation(SCRATCH, row) for name, row in self.places.items()}
            places = (self.rows, self.curve, self.jacobian, round_up_to_4(n))
            term = HessianTerm(at["records"], self.width, at["count"], self.dimension, *places, cone)
            own: dict[str, Any] = {
                "diagonal": at["diagonal"],
                "max_inverse_pivot": at["most"],
                "rhs": at["right"],
                "result": at["result"],
                "workspace": at["work"],
            }
            if limbs is not None and limbs.decoupled is not None:
                limbs = replace(limbs, decoupled=at["apart"])
            solution = LdlSolve(n, at["matrix"], self.pitch, terms=(term,), **own)
            solution = replace(solution, lower_only=lower, arrowhead=limbs, workspace_size=n_work)
            recorder.add_statement(IntrinsicCall("test", solution), {})
            first = self.places["result"]
            recorder.write("x", [recorder.read(SCRATCH, first + i) for i in range(n)], first)
        taken = sorted(self.places.values())
        self.program = recorder.build(n_scratch=end, allocation_starts=taken)

    def _curve(self, rng: np.random.Generator, d: int) -> tuple[np.ndarray, np.ndarray]:
        """W, and the numbers it is told by."""
        if self.cone:
            first, others, soft, bound = rng.uniform(0.5, 2.0, size=4)
            outward = rng.normal(size=4)
            outward /= np.linalg.norm(outward)
            less = 0.5 * others
            along = np.array([0.0, *outward])
            steep = np.array([1.0, *(-bound * outward)])
            w = np.diag([first, *[others] * 4]) + soft * np.outer(steep, steep) - less * np.outer(along, along)
            return w, np.array([first, others, soft, less, bound, *outward])
        half = rng.normal(size=(2, 2))
        w = half @ half.T
        w[d or 2 :], w[:, d or 2 :] = 0.0, 0.0
        return w, np.array([*w[0], 0.0, 0.0, *w[1]])

    def _in_touch(self, e: int) -> np.ndarray:
        """Which unknowns have to do with each other: in the second environment all, where that is said."""
        apart = self.limbs is not None and (self.limbs.decoupled is None or e == 0)
        return self.limbs.sparsity_mask(self.n) if self.limbs is not None and apart else np.ones((self.n, self.n), bool)

    def _seen(self, rng: np.random.Generator, e: int) -> np.ndarray:
        """The unknowns that a record looks at: those of the trunk and of one limb, or all."""
        if self.limbs is None:
            return np.ones(self.n, bool)
        return self._in_touch(e)[rng.choice(self.limbs.diagonal_blocks)[0]]

    def numbers(self, rng: np.random.Generator, *, lower: bool) -> tuple[np.ndarray, np.ndarray]:
        """What memory holds, and the solution."""
        n, x, found = self.n, np.zeros((self.places["result"] + self.n, N_ENVS)), []
        if self.limbs is not None:
            x[self.places["work"] : self.places["result"]] = np.nan
        for e in range(N_ENVS):
            half = rng.normal(size=(n, n))
            a, diagonal, right = half @ half.T, rng.uniform(size=n), rng.normal(size=n)
            a = np.where(self._in_touch(e), a, 0.0)
            a += (1.0 - min(0.0, float(np.linalg.eigvalsh(a)[0]))) * np.eye(n)
            x[self.places["apart"], e] = not self._in_touch(e).all()
            shown = np.tril(a) + np.triu(rng.normal(size=(n, n)), 1) if lower else a
            total = a + np.diag(diagonal)
            for i in range(n):
                x[self.places["matrix"] + i * self.pitch :, e][:n] = shown[i]
            for c in range(count := 1 + 2 * e):
                d = ((3, 5, 0) if self.cone else (1, 2, 0))[c % 3]  # rows that matter
                w, packed = self._curve(rng, d)
                j = rng.normal(size=(self.dimension, n)) * self._seen(rng, e)
                j[d or self.dimension :] = 0.0
                at = self.places["records"] + c * self.width
                x[at + self.rows, e] = d
                x[at + self.curve :, e][: len(packed)] = packed
                for k in range(self.dimension):
                    x[at + self.jacobian + k * round_up_to_4(n) :, e][:n] = j[k]
                total += j.T @ w @ j * (d > 0)
            x[self.places["count"], e] = count
            for name, values in (("diagonal", diagonal), ("most", np.full(n, 1e9)), ("right", right)):
                x[self.places[name] :, e][:n] = values
            found.append(np.linalg.solve(total, right))
        return x, np.array(found).T


@pytest.mark.parametrize(
    ("n", "lower", "cone"), [(3, False, False), (4, True, False), (9, False, False), (9, False, True)]
)  # more unknowns than threads, too
def test_a_team_solves_equations(n: int, lower: bool, cone: bool) -> None:
    system = System(n, lower=lower, cone=cone)
    x, expected = system.numbers(np.random.default_rng(n), lower=lower)
    plain = x.copy()
    interpret_in_place(system.program, {"state": plain}, system.memory.places())
    np.testing.assert_allclose(plain[-n:], expected, rtol=1e-10)
    parts = [scheduled(p) for p in split_into_kernels(system.program, SIZE)]
    found = on_host(parts, system.memory, system.memory.whole({"state": x}, N_ENVS))["state"]
    np.testing.assert_allclose(found[-n:], expected, rtol=1e-10)


LIMBS = [
    (4, ((0, 1), (1, 2)), 4),  # a thread for each
    (9, ((0, 1), (1, 2), (8, 1)), 5),  # rows of the trunk beside those of limbs
    (13, ((2, 3), (6, 3), (10, 3)), 9),
    (14, ((1, 4), (5, 2), (9, 5)), 16),
]
"""Unknowns, limbs, and threads."""


@pytest.mark.parametrize(("limbs", "always", "cone"), combinations(LIMBS, [False, True], [False, True], strength=1))
def test_limbs_are_eliminated_at_once(
    limbs: tuple[int, tuple[tuple[int, int], ...], int], always: bool, cone: bool
) -> None:
    """What limbs do to each other is found where they do; nothing is read that was not written before."""
    n, parts, threads = limbs
    trunk = tuple(i for i in range(n) if not any(first <= i < first + size for first, size in parts))
    limbs = BlockArrowhead(parts, trunk, None if always else MemoryLocation(SCRATCH, 0))
    assert limbs.fits(threads)
    for lower in (False, True):
        system = System(n, lower=lower, cone=cone, limbs=limbs, threads=threads)
        x, expected = system.numbers(np.random.default_rng(n), lower=lower)
        plain = x.copy()
        interpret_in_place(system.program, {"state": plain}, system.memory.places())
        np.testing.assert_allclose(plain[-n:], expected, rtol=1e-9)
        cut_up = [scheduled(p) for p in split_into_kernels(system.program, threads)]
        numbers = system.memory.whole({"state": x}, N_ENVS)
        found = on_host(cut_up, system.memory, numbers, threads)["state"]
        np.testing.assert_allclose(found[-n:], expected, rtol=1e-9)


def test_no_pivot_is_below_what_is_known() -> None:
    """Where rounding has left nothing of a pivot, the inverse is no larger than that of what it cannot be below."""
    system = System(3, lower=False)
    x, _ = system.numbers(np.random.default_rng(0), lower=False)
    x[system.places["matrix"] : system.places["matrix"] + 3 * system.pitch] = 0.0
    x[system.places["diagonal"] : system.places["diagonal"] + 3] = 0.0
    x[system.places["most"] : system.places["most"] + 3] = 0.5
    x[system.places["count"]] = 0.0
    right = x[system.places["right"] : system.places["right"] + 3]
    parts = [scheduled(p) for p in split_into_kernels(system.program, SIZE)]
    found = on_host(parts, system.memory, system.memory.whole({"state": x}, N_ENVS))["state"]
    np.testing.assert_allclose(found[-3:], 0.5 * right, rtol=1e-14)


@pytest.mark.parametrize("precision", ["single", "double"])
def test_the_compiler_takes_them(precision: str) -> None:
    system = System(27, lower=False)
    (part,) = split_into_kernels(system.program, 32)
    room = WarpRegionConfig(
        32, round_up_to_4(part.program.n_scratch), round_up_to_4(part.n_global), uses_shared_memory=True
    )
    code = compile_ptx(
        emit_warp_kernel(scheduled(part), system.memory.places(), Target(precision, is_gpu=True), room), 32
    ).decode()
    assert "shfl.sync.idx" in code
    assert ("ld.shared.v4" if precision == "single" else "ld.shared.v2") in code
