"""One line for several threads: each computes a part, and they exchange what they need of each other once.

A robot's limbs meet only in its trunk. What depends on the state of one limb alone belongs to that limb's role; what
depends on the trunk's state alone is computed by every role that needs it; what depends on several limbs comes after
the exchange, again in every role that needs it. So a role is a program of two lines, its own part and the rest, with
the exchange between them. A thread then holds one limb's values instead of all, and one environment keeps several
threads busy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from .blocks import Instruction, Line, Store
from .passes import depth_first, fuse_multiply_add
from .program import Program
from .slots import SCRATCH, Operand, Slot

EXCHANGE = "exchange"
"""The array through which roles give values to each other: all have written before any reads."""
KEPT = "kept"
"""The local array of what a role keeps from its first line for its second."""
RoleOf = Callable[[Slot], "int | None"]
"""The role that an input or output belongs to; None for those of the trunk."""


def split(line: Line, role_of: RoleOf, n_roles: int) -> tuple[Program, ...]:
    """Divide a line; outputs of the trunk are written by role 0, scratch memory by whoever has least to do for it.

    It comes as it was traced, before products and sums were fused: a fused one ties two limbs together.
    """
    line = sums_by_role(line, role_of)
    needs = {i.target: i.needs for i in line.instructions}
    owners = _owners(line, role_of)
    stores = _shared_out(line, role_of, needs, owners, n_roles)
    wanted = [_wanted(needs, owners, role, [s.value for s in own]) for role, own in enumerate(stores)]
    exchanged = sorted(set().union(*(takes for _, takes in wanted)))
    place = {value: Slot(EXCHANGE, i) for i, value in enumerate(exchanged)}
    parts = [_part(line, role, stores, wanted[role], exchanged, needs, owners) for role in range(len(wanted))]
    most = max(len(part.before) for part in parts)
    return tuple(_program(_filled(part, most), place) for part in parts)


class _Part(NamedTuple):
    """What one role does."""

    line: Line
    gives: Sequence[int]
    takes: Sequence[int]
    before: Sequence[Instruction]
    """What it does before the exchange."""
    hasty: Sequence[Store]
    """What it may store before: nobody reads that."""
    early: Sequence[Store] = ()
    """Of that, what it does store then."""


def _part(
    line: Line,
    role: int,
    stores: Sequence[Sequence[Store]],
    wanted: tuple[set[int], set[int]],
    exchanged: Sequence[int],
    needs: Mapping[int, list[int]],
    owners: Mapping[int, frozenset[int]],
) -> _Part:
    needed, takes = wanted
    gives = [v for v in exchanged if owners[v] == frozenset({role})]
    first, _ = _wanted(needs, owners, role, gives)
    computed = needed | first
    own = Line(tuple(i for i in line.instructions if i.target in computed), tuple(stores[role]))
    own = fuse_multiply_add(own, kept=gives)
    others = {s.slot for other, theirs in enumerate(stores) if other != role for s in theirs}
    soon = [i.target for i in own.instructions if i.slot in others]  # read before another role writes them
    read = {i.slot for i in line.instructions if i.slot is not None}
    hasty = [s for s in own.stores if s.slot.array == SCRATCH and s.slot.index is None and s.slot not in read]
    return _Part(own, gives, sorted(takes), depth_first(own.instructions, [*gives, *soon]), hasty)


def _filled(part: _Part, most: int) -> _Part:
    """With more before the exchange, up to so many instructions: another role would keep this one waiting there.

    What is stored then takes no register after it: of a G1's line a sixth spills of what did.
    """
    needs_of = {i.target: i.needs for i in part.line.instructions}
    done, early = {i.target for i in part.before}, list[Store]()
    for store in part.hasty:
        more, waiting = set[int](), [store.value] if isinstance(store.value, int) else []
        while waiting:
            value = waiting.pop()
            if value in needs_of and value not in done and value not in more:
                more.add(value)
                waiting += needs_of[value]
        needs = {v for value in more for v in needs_of[value]} | {store.value}
        if needs.isdisjoint(part.takes) and len(done) + len(more) <= most:
            done |= more
            early.append(store)
    before = tuple(i for i in part.line.instructions if i.target in done)
    return part._replace(before=before, early=early)


def _program(part: _Part, place: Mapping[int, Slot]) -> Program:
    """What a role does before and after the exchange."""
    own, done = part.line, {i.target for i in part.before}
    after = tuple(i for i in own.instructions if i.target not in done)
    later = tuple(store for store in own.stores if store not in part.early)
    used = {v for i in after for v in i.needs} | set(Line((), later).roots)
    kept = {v: Slot(KEPT, i) for i, v in enumerate(sorted(used & done))}
    taken = [*((v, place[v]) for v in part.takes), *kept.items()]
    found = [Instruction(v, "input", (), slot) for v, slot in taken]
    given, for_later = ([Store(s, v) for v, s in x] for x in (((v, place[v]) for v in part.gives), kept.items()))
    begin = Line(tuple(part.before), (*given, *part.early, *for_later))
    deep = depth_first(begin.instructions, [*begin.roots, *(i.target for i in begin.instructions)])
    begin = _with_fewest_values([replace(begin, instructions=deep), begin])
    rest = Line(_when_needed(found, after), later)
    rest = _with_fewest_values([rest, replace(rest, instructions=depth_first([*found, *after], rest.roots))])
    return Program((begin, rest), {KEPT: len(kept)})


def _with_fewest_values(lines: Sequence[Line]) -> Line:
    """Of some orders of the same instructions the one for which registers suffice longest."""
    return min(lines, key=lambda line: line.max_live(soon=(SCRATCH, EXCHANGE, KEPT)))


def _when_needed(found: Sequence[Instruction], after: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Instructions, each behind what it takes of what was found; what none takes comes last, as it is only stored."""
    waiting, order = {i.target: i for i in found}, list[Instruction]()
    for instruction in after:
        order += [waiting.pop(v) for v in instruction.needs if v in waiting]
        order.append(instruction)
    return (*order, *waiting.values())


def roles_of_scratch(line: Line, role_of: RoleOf) -> dict[int, int | None]:
    """On whose state what a line leaves in the scratch memory depends, where that is one role; by where it is."""
    owners, found = _owners(line, role_of), {}
    for store in line.stores:
        if store.slot.array == SCRATCH and store.slot.index is None:
            own = owners[store.value] if isinstance(store.value, int) else frozenset[int]()
            found[store.slot.item] = next(iter(own)) if len(own) == 1 else None
    return found


def _shared_out(
    line: Line,
    role_of: RoleOf,
    needs: Mapping[int, list[int]],
    owners: Mapping[int, frozenset[int]],
    n_roles: int,
) -> list[list[Store]]:
    """Who stores what.

    Scratch memory is nobody's own: what follows from one role is that role's; of the rest each goes to the role that
    has least to do then, and least on top of what it does already.
    """
    stores: list[list[Store]] = [[] for _ in range(n_roles)]
    open_: list[Store] = []
    for store in line.stores:
        own = owners[store.value] if isinstance(store.value, int) else frozenset[int]()
        if store.slot.array != SCRATCH:
            stores[role_of(store.slot) or 0].append(store)
        elif len(own) == 1:
            stores[next(iter(own))].append(store)
        else:
            open_.append(store)
    needed = [_wanted(needs, owners, role, [s.value for s in own])[0] for role, own in enumerate(stores)]
    for store in open_:
        more = [_wanted(needs, owners, r, [store.value], needed[r])[0] for r in range(n_roles)]
        chosen = min(range(n_roles), key=lambda r: len(needed[r]) + 2 * len(more[r]))
        needed[chosen] |= more[chosen]
        stores[chosen].append(store)
    return stores


def sums_by_role(line: Line, role_of: RoleOf) -> Line:
    """Long sums in another order: first what each role has of the terms, then the roles' sums together.

    What one limb adds to the trunk then depends on that limb alone, and is one value to exchange.
    """
    uses = Counter(a for i in line.instructions for a in i.needs)
    uses.update(line.roots)
    made_by = {i.target: i for i in line.instructions}
    owners = _owners(line, role_of)
    inside = {
        a
        for i in line.instructions
        if i.op in SUMS
        for a in i.needs
        if uses[a] == 1 and made_by[a].op in SUMS and len(owners[a] | owners[i.target]) > 1
    }
    fresh = count(max(made_by, default=0) + 1)
    result: list[Instruction] = []
    for i in line.instructions:
        if i.op in SUMS and i.target not in inside and len(owners[i.target]) > 1:
            result += _regrouped(i.target, _terms(i, made_by, inside), owners, fresh)
        elif i.target not in inside:
            result.append(i)
    return Line(tuple(result), line.stores)


SUMS = ("add", "sub")
Term = tuple[Operand, bool]
"""A value, and whether it is taken away."""


def _terms(instruction: Instruction, made_by: Mapping[int, Instruction], inside: set[int]) -> list[Term]:
    """What a sum of sums adds up, in order."""
    found: list[Term] = []
    waiting: list[Term] = [(instruction.target, False)]
    while waiting:
        value, minus = waiting.pop()
        if value == instruction.target or (isinstance(value, int) and value in inside):
            maker = made_by[value]  # type: ignore[index]
            waiting += [(maker.args[1], minus != (maker.op == "sub")), (maker.args[0], minus)]
        else:
            found.append((value, minus))
    return found


def _regrouped(
    target: int, terms: list[Term], owners: dict[int, frozenset[int]], fresh: Iterator[int]
) -> list[Instruction]:
    """The same sum, role by role; what several roles have a part in comes last."""
    groups: dict[frozenset[int], list[Term]] = {}
    for value, minus in terms:
        groups.setdefault(owners[value] if isinstance(value, int) else frozenset(), []).append((value, minus))
    made: list[Instruction] = []
    sums = []
    for owner in sorted(groups, key=lambda group: (len(group), sorted(group))):
        sums.append(_added(groups[owner], fresh, made))
        owners.update({i.target: owner for i in made if i.target not in owners})
    value, minus = _added(sums, fresh, made)
    return [*made, Instruction(target, "neg", (value,))] if minus else [*made[:-1], made[-1]._replace(target=target)]


def _added(terms: list[Term], fresh: Iterator[int], made: list[Instruction]) -> Term:
    """Instructions that add terms up, one that is added first, where there is any; and their sum."""
    (value, minus), *rest = sorted(terms, key=lambda term: term[1])
    for other, taken in rest:
        made.append(Instruction(next(fresh), "add" if taken == minus else "sub", (value, other)))
        value = made[-1].target
    return value, minus


def n_exchanged(roles: tuple[Program, ...]) -> int:
    """How many values the roles of a line give to each other."""
    return max(role.outputs.get(EXCHANGE, 0) for role in roles)


def _owners(line: Line, role_of: RoleOf) -> dict[int, frozenset[int]]:
    """Of each value the roles on whose state it depends."""
    known: dict[int, frozenset[int]] = {}
    nobody: frozenset[int] = frozenset()
    for target, _, arguments, slot in line.instructions:
        found = nobody
        if slot is not None:
            role = role_of(slot)
            found = nobody if role is None else frozenset({role})
        else:
            for argument in arguments:
                own = known[argument] if type(argument) is int else nobody
                if own and own is not found:
                    found = found | own if found else own
        known[target] = found
    return known


def _wanted(
    needs: Mapping[int, list[int]],
    owners: Mapping[int, frozenset[int]],
    role: int,
    roots: list,
    known: Collection[int] = (),
) -> tuple[set[int], set[int]]:
    """What a role has to compute for some values beside what it knows, and what it takes from others for that."""
    needed: set[int] = set()
    takes: set[int] = set()
    waiting = [r for r in roots if isinstance(r, int)]
    while waiting:
        value = waiting.pop()
        if value in needed or value in takes or value in known:
            continue
        own = owners[value]
        if len(own) == 1 and role not in own:
            takes.add(value)
            continue
        needed.add(value)
        waiting += needs[value]
    return needed, takes
