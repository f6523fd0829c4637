"""Programs divided among threads: the same numbers, and less for each."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema import ir
from kinema.codegen import Target, emit_thread_kernel
from kinema.ir import (
    EXCHANGE,
    LIVE_ACROSS_BARRIER,
    SCRATCH,
    ArenaOffset,
    BasicBlock,
    MemoryLocation,
    Program,
    Tape,
    Tracer,
    Value,
    basic_blocks,
    exchange_size,
    interpret,
    optimise,
    partition_basic_block,
    partitions_of_scratch,
    program_from_tape,
)


def limbs_program(n_limbs: int, rng: np.random.Generator, *, leaves: bool = False) -> Program:
    """A trunk of two numbers and limbs of three: a sum over limbs, and something of each limb that needs the sum.

    If it leaves something to others, that is a number of each limb alone, and one that depends on all.
    """
    tape = Tape()
    trunk, late = tape.inputs("trunk", 2)
    total: Value = trunk
    own: list[list[Value]] = []
    for limb in range(n_limbs):
        values: list[Value] = list(tape.inputs("state", 3 * n_limbs)[3 * limb : 3 * limb + 3])
        mixed = [v * float(rng.uniform(0.5, 2)) + trunk for v in values]
        own.append(mixed)
        total = total + mixed[0] * mixed[1] + mixed[2]
    outputs = [a * total + late * b for limb in own for a, b in zip(limb, reversed(limb), strict=True)]
    left = [x for limb in own for x in (limb[0] * limb[1], limb[2] + total)] if leaves else []
    return program_from_tape(
        tape, {"state": outputs, "trunk": [total, late * total]} | ({SCRATCH: left} if leaves else {})
    )


def role_of(location: MemoryLocation) -> int | None:
    return location.element // 3 if location.array == "state" else None


def seen(program: Program) -> Program:
    """The same, with what it leaves in the scratch memory in an array of its own."""

    def line(old: BasicBlock) -> BasicBlock:
        moved = [
            s._replace(location=MemoryLocation("left", s.location.element)) if s.location.array == SCRATCH else s
            for s in old.stores
        ]
        return replace(old, stores=tuple(moved))

    return replace(program, body=tuple(line(x) for x in program.body if isinstance(x, BasicBlock)))


def meeting(roles: tuple[Program, ...], arrays: dict[str, np.ndarray]) -> dict[tuple[str, int], np.ndarray]:
    """Every role runs its first line, then every role its second: what they have written, and nobody wrote twice."""
    found: dict[tuple[str, int], np.ndarray] = {}
    own: list[dict[str, np.ndarray]] = [dict(arrays) for _ in roles]
    for both in zip(*(role.body for role in roles), strict=True):
        exchanged = np.zeros((exchange_size(roles), next(iter(arrays.values())).shape[1]))
        for role, memory, line in zip(roles, own, both, strict=True):
            assert isinstance(line, BasicBlock)
            results = interpret(Program((line,)), memory)  # so that what is kept is an array like others
            memory.update({name: results[name] for name in role.locals if name in results})
            for location in (store.location for store in line.stores):
                if location.array == EXCHANGE:
                    exchanged[location.element] = results[EXCHANGE][location.element]
                elif location.array not in role.locals:
                    assert (location.array, location.element) not in found
                    found[location.array, location.element] = results[location.array][location.element]
        for memory in own:
            memory[EXCHANGE] = exchanged
    return found


def late_reads(roles: tuple[Program, ...]) -> set[MemoryLocation]:
    """What a role reads after the exchange while another one may have written it already."""
    found: set[MemoryLocation] = set()
    for role in roles:
        last = role.body[1]
        assert isinstance(last, BasicBlock)
        written = {s.location for other in roles if other is not role for s in other.body[1].stores}  # type: ignore[union-attr]
        found |= {i.location for i in last.instructions if i.location in written and i.location is not None}
        first = role.body[0]
        assert isinstance(first, BasicBlock)
        early = {s.location for s in first.stores if s.location.array not in (EXCHANGE, *role.locals)}
        read = (i.location for x in roles for line in basic_blocks(x.body) for i in line.instructions)
        found |= {location for location in read if location is not None and location in early}
    return found


@pytest.mark.parametrize("n_limbs", [2, 4])
def test_nobody_reads_what_another_may_have_written(n_limbs: int) -> None:
    for leaves in (False, True):
        program = limbs_program(n_limbs, np.random.default_rng(0), leaves=leaves)
        assert not late_reads(partition_basic_block(program.basic_block, role_of, n_limbs))


def test_a_role_that_would_wait_for_another_does_more_before() -> None:
    """One limb has much to give, the other much that it leaves: that is done while it would wait."""
    recorder = Tracer()
    a, b = recorder.read("state", 0), recorder.read("state", 3)
    for _ in range(20):
        a = ir.sin(a)
    left = [b]
    for _ in range(12):
        left.append(ir.cos(left[-1]))
    recorder.write(SCRATCH, left)
    recorder.write("state", [a + b], 3)
    roles = partition_basic_block(recorder.build(n_scratch=len(left)).basic_block, role_of, 2)
    before, after = (block for block in roles[1].body if isinstance(block, BasicBlock))
    assert {s.location.element for s in before.stores if s.location.array == SCRATCH} == set(range(len(left)))
    assert not [s for s in after.stores if s.location.array == SCRATCH]
    assert len(before.instructions) > 12


@settings(deadline=None, max_examples=20)
@given(n_limbs=st.integers(2, 5), seed=st.integers(0, 99), leaves=st.booleans())
def test_a_divided_program_computes_the_same(n_limbs: int, seed: int, leaves: bool) -> None:
    rng = np.random.default_rng(seed)
    program = limbs_program(n_limbs, rng, leaves=leaves)
    arrays = {"state": rng.uniform(-1, 1, (3 * n_limbs, 4)), "trunk": rng.uniform(-1, 1, (2, 4))}
    whole = interpret(optimise(seen(program)), arrays)
    parts = meeting(tuple(map(seen, partition_basic_block(program.basic_block, role_of, n_limbs))), arrays)
    assert set(parts) == {(a, i) for a, rows in whole.items() for i in range(len(rows))}
    for (array, element), values in parts.items():
        assert values == pytest.approx(whole[array][element], rel=1e-14)


def test_what_follows_from_one_limb_is_left_by_its_role() -> None:
    line = limbs_program(3, np.random.default_rng(0), leaves=True).basic_block
    known = partitions_of_scratch(line, role_of)
    assert known == {0: 0, 1: None, 2: 1, 3: None, 4: 2, 5: None}
    stored = [
        {s.location.element for x in basic_blocks(role.body) for s in x.stores if s.location.array == SCRATCH}
        for role in partition_basic_block(line, role_of, 3)
    ]
    assert [items & {0, 2, 4} for items in stored] == [{0}, {2}, {4}]
    assert set().union(*stored) == set(range(6))


def test_a_role_takes_only_what_others_computed_alone() -> None:
    """Nothing is exchanged that depends on several limbs, and nothing that a role has itself."""
    whole = limbs_program(3, np.random.default_rng(0))
    divided = partition_basic_block(whole.basic_block, role_of, 3)
    given_by: dict[MemoryLocation, int] = {}
    for number, role in enumerate(divided):
        before, after = role.body
        assert isinstance(before, BasicBlock)
        assert isinstance(after, BasicBlock)
        read = [i.location for i in before.instructions if i.location is not None]
        assert not [location for location in read if location.array == EXCHANGE], "it runs before anything can be taken"
        assert {role_of(location) for location in read} <= {None, number}, "what it gives depends on itself alone"
        gives = {s.location for s in before.stores if s.location.array == EXCHANGE}
        takes = {i.location for i in after.instructions if i.location is not None and i.location.array == EXCHANGE}
        assert takes
        assert not gives & takes
        assert not gives & set(given_by), "each value is given by one"
        given_by.update(dict.fromkeys(gives, number))
    assert set(given_by) == {MemoryLocation(EXCHANGE, i) for i in range(exchange_size(divided))}
    assert max(role.n_instructions - role.locals[LIVE_ACROSS_BARRIER] for role in divided) < whole.n_instructions
    assert max(role.n_operations for role in divided) < optimise(whole).n_operations


def test_the_text_has_a_branch_for_each_role_and_two_meetings_in_each() -> None:
    divided = partition_basic_block(limbs_program(3, np.random.default_rng(0)).basic_block, role_of, 3)
    text = emit_thread_kernel(
        divided, {"state": ArenaOffset("state", 0), "trunk": ArenaOffset("state", 9)}, Target(is_gpu=True)
    )
    (cases,) = re.findall(r"switch i32 %role, .*\[(.*)\]", text)
    assert cases.count("label") == 3
    assert text.count("call void @llvm.nvvm.barrier0()") == 6
    assert f"global [{exchange_size(divided) * 32} x float]" in text


def test_lines_hold_as_few_values_as_some_order_needs() -> None:
    """What others find somewhere is stored at once, and what was found is read shortly before it is needed."""
    n_limbs, rng = 2, np.random.default_rng(1)
    program = limbs_program(n_limbs, rng, leaves=True)
    whole = program.basic_block.max_live()
    for role in partition_basic_block(program.basic_block, role_of, n_limbs):
        for line in role.body:
            assert isinstance(line, BasicBlock)
            assert line.max_live(eager_arrays=(SCRATCH, EXCHANGE, LIVE_ACROSS_BARRIER)) <= line.max_live() <= whole
        rest = role.body[1]
        assert isinstance(rest, BasicBlock)
        found = [
            i
            for i, x in enumerate(rest.instructions)
            if x.location is not None and x.location.array in (EXCHANGE, LIVE_ACROSS_BARRIER)
        ]
        assert found != list(range(len(found))), "all are read first"
