"""Contacts in lists of an environment, in any order: as all threads of a GPU find them, and a team takes them along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kinema import trace
from kinema.trace import SCRATCH, Place, Value

from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import WORLD
from .planned import PlannedSet, SetKind, planned_sets, room_for_all
from .touches import Layout

MOST_SPARE = 192
"""More than there is room for that are listed at most, for the deepest to be chosen from; else twice as many."""


class Listed(Layout):
    """Where the numbers of a listed contact are: with its frames, numbered by `preorder`, and nothing of a solution.

    Of its axes one follows from the others, and without friction nobody asks for any across the normal.
    """

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self.n_axes = 2 if dimension > 1 else 1
        self.frames = self.residual
        self.width = self.place(self.frames + 2)

    def place(self, item: int) -> int:
        """Where a number is: behind fewer axes."""
        return item if item < Layout.DISTANCE else item - self.n_left_out

    @property
    def n_left_out(self) -> int:
        """Numbers of a contact that are not listed."""
        return 3 * (Layout.n_axes - self.n_axes)

    def shortened(self, record: Sequence[Value]) -> list[Value]:
        """All numbers of a contact, without those that are not listed."""
        return [*record[: Layout.DISTANCE - self.n_left_out], *record[Layout.DISTANCE :]]


@dataclass(frozen=True, slots=True, eq=False)
class ContactList:
    """Contacts of one kind."""

    kind: SetKind
    capacity: int
    count: Place
    """How many were found: there may be more than there is room for."""
    contacts: Place


@dataclass(frozen=True, slots=True, eq=False)
class Lawful:
    """Lists of contacts that obey one law, and are kept together."""

    lists: Sequence[ContactList]
    capacity: int

    def numbers(self, s: Sweeps) -> list[Value]:
        """How many contacts of each list there was room for in it."""
        found = [s.recorder.read(SCRATCH, x.count.row) for x in self.lists]
        return [trace.minimum(count, float(x.capacity)) for count, x in zip(found, self.lists, strict=True)]


class Lists:
    """All contacts of some frames, in the scratch memory."""

    def __init__(self, s: Sweeps) -> None:
        self.order = preorder(s)
        self.most = room_for_all(s.model, sum(len(node.dofs) for node in s.nodes))
        self.plans = planned_sets(s.model, [node.index for node in s.nodes])
        rooms: dict[tuple[int, bool], int] = {}
        for plan in self.plans:
            key = plan.kind.dimension, plan.kind.elliptic
            rooms[key] = rooms.get(key, 0) + plan.n_points
        self.of_kind: dict[tuple[int, bool], ContactList] = {}
        for (dimension, elliptic), room in sorted(rooms.items()):
            capacity = min(room, self.most + min(self.most, MOST_SPARE))
            kind = SetKind(dimension, elliptic, on_world=False, lively=False)
            contacts = s.take(capacity * Listed(dimension).width, distant=True)
            self.of_kind[dimension, elliptic] = ContactList(kind, capacity, s.take_fixed(1), contacts)
            s.recorder.write(SCRATCH, [0.0], self.of_kind[dimension, elliptic].count.row)

    @property
    def laws(self) -> list[Lawful]:
        """All lists: where there are cones, all contacts in these and those without friction obey one law."""
        every = list(self.of_kind.values())
        cones = any(x.kind.elliptic for x in every)
        first = [x for x in every if cones and (x.kind.elliptic or x.kind.dimension == 1)]
        groups = [*([first] if first else []), *([x] for x in every if x not in first)]
        return [Lawful(own, min(sum(x.capacity for x in own), self.most)) for own in groups]

    def places(self, plan: PlannedSet) -> Mapping[str, Place]:
        """Where what touches between two frames goes."""
        own = self.of_kind[plan.kind.dimension, plan.kind.elliptic]
        return {"contacts": own.contacts, "count": own.count}

    def numbers(self, plan: PlannedSet) -> Mapping[str, list[float]]:
        """What is to be known of the two frames."""
        own = self.of_kind[plan.kind.dimension, plan.kind.elliptic]
        return {"frames": [float(self.order[f]) for f in plan.frames], "capacity": [float(own.capacity)]}


def preorder(s: Sweeps) -> dict[int, int]:
    """Numbers for frames, so that what a frame carries has those that follow its own."""
    children: dict[int, list[int]] = {}
    for node in s.nodes:
        children.setdefault(node.parent, []).append(node.index)
    order, waiting = {WORLD: -1}, list(reversed(children.get(WORLD, [])))
    while waiting:
        frame = waiting.pop()
        order[frame] = len(order) - 1
        waiting += reversed(children.get(frame, []))
    return order


def last_carried(s: Sweeps) -> dict[int, int]:
    """Of each frame the last number among those that it carries, or its own."""
    order = preorder(s)
    last = {node.index: order[node.index] for node in s.nodes}
    for node in reversed(s.nodes):
        if node.parent != WORLD:
            last[node.parent] = max(last[node.parent], last[node.index])
    return last
