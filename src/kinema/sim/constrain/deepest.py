"""The order of a team's contacts: by pair, and of more than there is room for the deepest, whoever found them first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kinema import trace
from kinema.trace import SCRATCH, Place, Value

from ..collide.listing import ContactList, Listed
from ..collide.touches import Contact, Layout
from ..sweeps.maths import sum_of
from ..sweeps.sweeps import Sweeps

LEFT_OUT = 1e9
"""Instead of the number of its pair, where there is no room for a contact."""


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A list that contacts come from."""

    list: ContactList
    before: Place
    """How many of other lists come before those of this one."""
    keys: Place
    """Of each contact what it is put in order by."""

    def count(self, s: Sweeps) -> Value:
        """How many contacts are in it."""
        return trace.minimum(s.recorder.read(SCRATCH, self.list.count.row), float(self.list.capacity))

    def contact(self, s: Sweeps, turn: Value) -> Contact:
        """One of them, as it was found."""
        found = Contact(s.recorder, Listed(self.list.kind.dimension), turn)
        found.array, found.first = SCRATCH, self.list.contacts.row
        return found

    def key(self, s: Sweeps, turn: Value) -> Value:
        """What it is put in order by."""
        return s.recorder.read(SCRATCH, self.keys.row, turn)


def put_in_order(s: Sweeps, sources: Sequence[Source], capacity: int) -> None:
    """Find the keys of all contacts, and how many come before those of each list."""
    for source in sources:
        s.recorder.share("pairs of contacts", source.count(s), lambda turn, own=source: _by_pair(s, own, turn))
    if sum(source.list.capacity for source in sources) > capacity:
        total = sum_of([source.count(s) for source in sources])
        s.recorder.where(
            "no room for all", capacity + 0.5, total, lambda: _leave_out_shallow(s, sources, float(capacity)), []
        )


def _by_pair(s: Sweeps, source: Source, turn: Value) -> list[Value]:
    pair = trace.absolute(source.contact(s, turn).read(Layout.PAIR)[0])
    s.recorder.write(SCRATCH, [pair], source.keys.row, turn)
    return []


def _leave_out_shallow(s: Sweeps, sources: Sequence[Source], capacity: float) -> list[Value]:
    """Keep as many contacts as there is room for."""
    before: Value = 0.0
    for number, source in enumerate(sources):

        def one(turn: Value, number: int = number, source: Source = source) -> list[Value]:
            kept = trace.select(_deeper(s, sources, number, turn), capacity - 0.5, 1.0, 0.0)
            pair = trace.absolute(source.contact(s, turn).read(Layout.PAIR)[0])
            s.recorder.write(SCRATCH, [trace.select(0.5, kept, pair, LEFT_OUT)], source.keys.row, turn)
            return [kept]

        s.recorder.write(SCRATCH, [before], source.before.row)
        (kept,) = s.recorder.share("the deepest contacts", source.count(s), one, 1)
        before = before + kept
    return []


def _deeper(s: Sweeps, sources: Sequence[Source], number: int, turn: Value) -> Value:
    """How many contacts are deeper than one; of those as deep, how many come before it."""
    recorder, total = s.recorder, s.recorder.local(1)
    recorder.write(total, [0.0])
    own = sources[number].contact(s, turn)
    depth, pair = own.read(Layout.DISTANCE)[0], trace.absolute(own.read(Layout.PAIR)[0])
    for other, source in enumerate(sources):

        def one(its_turn: Value, other: int = other, source: Source = source) -> None:
            its = source.contact(s, its_turn)
            its_depth, its_pair = its.read(Layout.DISTANCE)[0], trace.absolute(its.read(Layout.PAIR)[0])
            sooner: Value = float(other < number)
            if other == number:
                sooner = trace.select(its_turn, turn, 1.0, 0.0)  # of one pair, in the order that it found them in
                sooner = trace.select(its_pair, pair, 1.0, trace.select(pair, its_pair, 0.0, sooner))
            more = trace.select(its_depth, depth, 1.0, trace.select(depth, its_depth, 0.0, sooner))
            recorder.write(total, [recorder.read(total) + more])

        recorder.count("others", source.count(s), one)
    return recorder.read(total)
