"""One program for several threads: each computes a part, they exchange what they need of each other once.

A robot's limbs meet only in its trunk. What depends on the state of one limb alone belongs to that limb's role; what
depends on the trunk's state alone is computed by every role that needs it; what depends on several limbs comes after
the exchange, again in every role that needs it. So a role runs a straight line: its own part, the exchange, the rest.
A thread then holds one limb's values instead of all, and one environment keeps several threads busy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from .interpret import evaluate
from .passes import fuse_instructions, schedule_instructions
from .program import Instruction, Program, Store
from .tape import Slot

RoleOf = Callable[[Slot], "int | None"]
"""The role that an input or output belongs to; None for those of the trunk."""


@dataclass(frozen=True, slots=True, eq=False)
class Role:
    """What one thread does."""

    before: tuple[Instruction, ...]
    gives: dict[int, int]
    """Value -> the place of the exchange it is put in."""
    takes: dict[int, int]
    """Value of another role -> where it is found."""
    after: tuple[Instruction, ...]
    stores: tuple[Store, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """A program for several threads."""

    roles: tuple[Role, ...]
    n_exchanged: int

    @property
    def n_operations(self) -> int:
        """Floating-point operations of all roles together, roughly."""
        return sum(Program((*r.before, *r.after), ()).n_operations for r in self.roles)

    @property
    def n_instructions(self) -> int:
        """Instructions of all roles together."""
        return sum(len(r.before) + len(r.after) for r in self.roles)

    @property
    def longest(self) -> int:
        """Instructions of the role that has most."""
        return max(len(r.before) + len(r.after) for r in self.roles)


def split(program: Program, role_of: RoleOf, n_roles: int) -> Split:
    """Divide a program; outputs of the trunk are written by role 0.

    The program comes as it was traced, before products and sums were fused: a fused one ties two limbs together.
    """
    made_by = {i.target: i for i in program.instructions}
    owners = _owners(program, role_of)
    stores: list[list[Store]] = [[] for _ in range(n_roles)]
    for store in program.stores:
        stores[role_of(store.slot) or 0].append(store)
    wanted = [_wanted(made_by, owners, role, [s.value for s in own]) for role, own in enumerate(stores)]
    exchanged = sorted(set().union(*(takes for _, takes in wanted)))
    place = {value: i for i, value in enumerate(exchanged)}
    roles = []
    for role, (needed, takes) in enumerate(wanted):
        gives = {v: place[v] for v in exchanged if owners[v] == frozenset({role})}
        first, _ = _wanted(made_by, owners, role, list(gives))
        own = [i for i in program.instructions if i.target in needed | first]
        kept = [*gives, *(s.value for s in stores[role] if isinstance(s.value, int))]
        own = fuse_instructions(own, kept)
        before = schedule_instructions(own, list(gives))
        done = {i.target for i in before}
        roles.append(
            Role(
                before=before,
                gives=gives,
                takes={v: place[v] for v in takes},
                after=tuple(i for i in own if i.target not in done),
                stores=tuple(stores[role]),
            )
        )
    return Split(tuple(roles), len(exchanged))


def _owners(program: Program, role_of: RoleOf) -> dict[int, frozenset[int]]:
    """Of each value the roles on whose state it depends."""
    known: dict[int, frozenset[int]] = {}
    nobody: frozenset[int] = frozenset()
    for instruction in program.instructions:
        if instruction.slot is not None:
            role = role_of(instruction.slot)
            known[instruction.target] = nobody if role is None else frozenset({role})
        else:
            known[instruction.target] = nobody.union(*(known[a] for a in instruction.args if isinstance(a, int)))
    return known


def _wanted(
    made_by: Mapping[int, Instruction], owners: Mapping[int, frozenset[int]], role: int, roots: list
) -> tuple[set[int], set[int]]:
    """What a role has to compute for some values, and what it takes from others for that."""
    needed: set[int] = set()
    takes: set[int] = set()
    waiting = [r for r in roots if isinstance(r, int)]
    while waiting:
        value = waiting.pop()
        if value in needed or value in takes:
            continue
        if len(owners[value]) == 1 and role not in owners[value]:
            takes.add(value)
            continue
        needed.add(value)
        waiting.extend(a for a in made_by[value].args if isinstance(a, int))
    return needed, takes


def interpret_split(split_program: Split, arrays: Mapping[str, np.ndarray]) -> dict[tuple[str, int], np.ndarray]:
    """The outputs by array and item, as threads would compute them; for tests."""
    exchange: dict[int, np.ndarray] = {}
    held: list[dict] = []
    for role in split_program.roles:
        values: dict = {}
        evaluate(role.before, arrays, values)
        exchange.update({place: values[v] for v, place in role.gives.items()})
        held.append(values)
    results: dict[tuple[str, int], np.ndarray] = {}
    for role, values in zip(split_program.roles, held, strict=True):
        values.update({v: exchange[place] for v, place in role.takes.items()})
        evaluate(role.after, arrays, values)
        for store in role.stores:
            value = values[store.value] if isinstance(store.value, int) else store.value
            results[store.slot.array, store.slot.item] = np.asarray(value)
    return results
