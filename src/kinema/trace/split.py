"""One line for several threads: each computes a part, and they exchange what they need of each other once.

A robot's limbs meet only in its trunk. What depends on the state of one limb alone belongs to that limb's role; what
depends on the trunk's state alone is computed by every role that needs it; what depends on several limbs comes after
the exchange, again in every role that needs it. So a role is a program of two lines, its own part and the rest, with
the exchange between them. A thread then holds one limb's values instead of all, and one environment keeps several
threads busy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .blocks import Instruction, Line, Slot, Store
from .passes import depth_first, fuse_multiply_add
from .program import Program

EXCHANGE = "exchange"
"""The array through which roles give values to each other: all have written before any reads."""
KEPT = "kept"
"""The local array of what a role keeps from its first line for its second."""
RoleOf = Callable[[Slot], "int | None"]
"""The role that an input or output belongs to; None for those of the trunk."""


def split(line: Line, role_of: RoleOf, n_roles: int) -> tuple[Program, ...]:
    """Divide a line; outputs of the trunk are written by role 0.

    It comes as it was traced, before products and sums were fused: a fused one ties two limbs together.
    """
    made_by = {i.target: i for i in line.instructions}
    owners = _owners(line, role_of)
    stores: list[list[Store]] = [[] for _ in range(n_roles)]
    for store in line.stores:
        stores[role_of(store.slot) or 0].append(store)
    wanted = [_wanted(made_by, owners, role, [s.value for s in own]) for role, own in enumerate(stores)]
    exchanged = sorted(set().union(*(takes for _, takes in wanted)))
    place = {value: Slot(EXCHANGE, i) for i, value in enumerate(exchanged)}
    roles = []
    for role, (needed, takes) in enumerate(wanted):
        gives = [v for v in exchanged if owners[v] == frozenset({role})]
        first, _ = _wanted(made_by, owners, role, gives)
        own = Line(tuple(i for i in line.instructions if i.target in needed | first), tuple(stores[role]))
        own = fuse_multiply_add(own, kept=gives)
        before = depth_first(own.instructions, gives)
        done = {i.target for i in before}
        after = tuple(i for i in own.instructions if i.target not in done)
        used = {v for i in after for v in i.needs} | set(own.roots)
        kept = {v: Slot(KEPT, i) for i, v in enumerate(sorted(used & done))}
        taken = [*((v, place[v]) for v in sorted(takes)), *kept.items()]
        found = (Instruction(v, "input", (), slot) for v, slot in taken)
        given = [*((v, place[v]) for v in gives), *kept.items()]
        roles.append(
            Program(
                (Line(before, tuple(Store(slot, v) for v, slot in given)), Line((*found, *after), tuple(stores[role]))),
                {KEPT: len(kept)},
            )
        )
    return tuple(roles)


def n_exchanged(roles: tuple[Program, ...]) -> int:
    """How many values the roles of a line give to each other."""
    return max(role.outputs.get(EXCHANGE, 0) for role in roles)


def _owners(line: Line, role_of: RoleOf) -> dict[int, frozenset[int]]:
    """Of each value the roles on whose state it depends."""
    known: dict[int, frozenset[int]] = {}
    nobody: frozenset[int] = frozenset()
    for instruction in line.instructions:
        if instruction.slot is not None:
            role = role_of(instruction.slot)
            known[instruction.target] = nobody if role is None else frozenset({role})
        else:
            known[instruction.target] = nobody.union(*(known[a] for a in instruction.needs))
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
        waiting.extend(made_by[value].needs)
    return needed, takes
