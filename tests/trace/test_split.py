"""Programs divided among threads: the same numbers, and less for each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema.trace import (
    Place,
    Program,
    Slot,
    Tape,
    Target,
    Value,
    emit,
    finish,
    interpret,
    interpret_split,
    optimise,
    split,
)


def limbs_program(n_limbs: int, rng: np.random.Generator) -> Program:
    """A trunk of one number and limbs of three: a sum over limbs, and something of each limb that needs the sum."""
    tape = Tape()
    trunk = tape.input("trunk", 0)
    total: Value = trunk
    own: list[list[Value]] = []
    for limb in range(n_limbs):
        values: list[Value] = list(tape.inputs("state", 3 * n_limbs)[3 * limb : 3 * limb + 3])
        mixed = [v * float(rng.uniform(0.5, 2)) + trunk for v in values]
        own.append(mixed)
        total = total + mixed[0] * mixed[1] + mixed[2]
    outputs = [a * total + b for limb in own for a, b in zip(limb, reversed(limb), strict=True)]
    return finish(tape, {"state": outputs, "trunk": [total]})


def role_of(slot: Slot) -> int | None:
    return slot.item // 3 if slot.array == "state" else None


@settings(deadline=None, max_examples=20)
@given(n_limbs=st.integers(2, 5), seed=st.integers(0, 99))
def test_a_divided_program_computes_the_same(n_limbs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = limbs_program(n_limbs, rng)
    arrays = {"state": rng.uniform(-1, 1, (3 * n_limbs, 4)), "trunk": rng.uniform(-1, 1, (1, 4))}
    whole = interpret(optimise(program), arrays)
    parts = interpret_split(split(program, role_of, n_limbs), arrays)
    assert set(parts) == {(a, i) for a, rows in whole.items() for i in range(len(rows))}
    for (array, item), values in parts.items():
        assert values == pytest.approx(whole[array][item], rel=1e-14)


def test_a_role_takes_only_what_others_computed_alone() -> None:
    """Nothing is exchanged that depends on several limbs, and nothing that a role has itself."""
    divided = split(limbs_program(3, np.random.default_rng(0)), role_of, 3)
    for role in divided.roles:
        assert not set(role.gives) & set(role.takes)
        known = {i.target for i in role.before}
        assert set(role.gives) <= known
        for instruction in role.before:  # which runs before anything can be taken
            assert not {a for a in instruction.args if isinstance(a, int)} & set(role.takes)
    assert divided.longest < limbs_program(3, np.random.default_rng(0)).n_instructions


def test_the_text_has_a_branch_for_each_role_and_two_meetings_in_each() -> None:
    divided = split(limbs_program(3, np.random.default_rng(0)), role_of, 3)
    text = emit(divided, {"state": Place("state", 0), "trunk": Place("state", 9)}, Target())
    assert text.count("if (role ==") == 3
    assert text.count("bar.sync") == 6
    assert f"exchange[{divided.n_exchanged}][32]" in text
