"""Where contacts are kept: for each two frames that may touch, room for as many points as their shapes can make.

A *set* is what touches between two frames, with one dimension of force. That it has its own place, known when the
program is made, lets code for all of its contacts name the two frames once, and lets environments that run side by side
find their contacts in the same places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kinema.model import Model
from kinema.trace import SCRATCH, Place, Recorder, Row, RowCode, Value

from ..settings import Settings
from ..sweeps.loops import PartRow
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import WORLD, frame_ref
from .pairs import PAIRS

MOST = 64
"""Contacts to a set at most."""


class Layout:
    """Where the numbers of a contact are, from its start."""

    POINT, FRAME, DISTANCE, PAIR, STIFFNESS, BOUND, BACK, DAMPING, SLIDING, SCALE = 0, 3, 12, 13, 14, 15, 16, 17, 18, 19

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.residual = self.SCALE + dimension
        self.change = self.residual + dimension
        self.width = self.change + dimension


@dataclass(frozen=True, slots=True)
class SetKind:
    """What decides which code a set runs."""

    dimension: int
    elliptic: bool
    on_world: bool


@dataclass(frozen=True, slots=True, eq=False)
class TouchSet:
    """What may touch between two frames, the first of which may be the world."""

    frames: tuple[int, int]
    kind: SetKind
    pairs: list[int]
    capacity: int
    contacts: Place
    count: Place
    near: Place
    """Whether the frames are near enough to look closer."""


class Touches:
    """All sets of some frames, in the scratch memory."""

    def __init__(self, s: Sweeps) -> None:
        self.s = s
        self.sets: list[TouchSet] = []
        geoms, pairs = s.model.geoms, s.model.pairs
        own = {WORLD, *(node.index for node in s.nodes)}
        grouped: dict[tuple[int, int, int], list[int]] = {}
        for number, (a, b) in enumerate(zip(pairs.geom_a.tolist(), pairs.geom_b.tolist(), strict=True)):
            frames = sorted((int(geoms.frame_idx[a]), int(geoms.frame_idx[b])))
            known = (geoms.kinds[a], geoms.kinds[b]) in PAIRS
            if own.issuperset(frames) and known:
                grouped.setdefault((*frames, int(pairs.dimension[number])), []).append(number)
        for (first, second, dimension), chosen in sorted(grouped.items()):
            kind = SetKind(dimension, bool(s.model.options.elliptic and dimension > 1), first == WORLD)
            most = sum(PAIRS[geoms.kinds[pairs.geom_a[p]], geoms.kinds[pairs.geom_b[p]]].most for p in chosen)
            capacity = min(most, MOST)
            width = Layout(dimension).width
            self.sets.append(
                TouchSet((first, second), kind, chosen, capacity, s.take(capacity * width), s.take(1), s.take(1))
            )

    def number(self, *, between_frames: bool = False) -> Value:
        """How many contacts there are, of all or only between moving frames."""
        s, total = self.s, self.s.take_fixed(1)
        s.recorder.write(SCRATCH, [0.0], total.row)
        rows = [
            Row("set", {"count": x.count, "total": total})
            for x in self.sets
            if not (between_frames and x.kind.on_world)
        ]
        with s.staying():
            s.loop("number of contacts", rows, lambda c: c.write("total", [c.read("total") + c.read("count")]))
        return s.recorder.read(SCRATCH, total.row)

    def row(self, touch: TouchSet, more: Mapping[str, Place] | None = None) -> PartRow:
        """A row of a set, whose code knows its frames as `a ` and `b `."""
        places = {"contacts": touch.contacts, "count": touch.count, "near": touch.near, **(more or {})}
        targets = {"a ": frame_ref(touch.frames[0]), "b ": frame_ref(touch.frames[1])}
        return self.s.row(touch.kind, targets, places, {})

    def each(self, name: str, body: Callable[[RowCode, SetKind], None], rows: Sequence[PartRow] | None = None) -> None:
        """Each set that has contacts, by itself; a loop that stays."""

        def run(code: RowCode) -> None:
            kind = code.kind
            assert isinstance(kind, SetKind)
            where(code.recorder, "touching", 0.5, code.read("count"), lambda: body(code, kind))

        with self.s.staying():
            self.s.loop(name, [self.row(x) for x in self.sets] if rows is None else rows, run)


class Contact:
    """One contact of a set, in code for all."""

    def __init__(self, code: RowCode, dimension: int, turn: Value) -> None:
        self.layout = Layout(dimension)
        self.recorder = code.recorder
        self._at = turn * float(self.layout.width)

    def read(self, item: int, count: int = 1) -> list[Value]:
        """Some of its numbers."""
        return [self.recorder.read("contacts", item + i, self._at) for i in range(count)]

    def write(self, item: int, values: Sequence[Value]) -> None:
        """Set some of them."""
        self.recorder.write("contacts", values, item, self._at)

    @property
    def residual(self) -> list[Value]:
        """What is missing in each of its directions."""
        return self.read(self.layout.residual, self.layout.dimension)

    @property
    def change(self) -> list[Value]:
        """How that changes along a search."""
        return self.read(self.layout.change, self.layout.dimension)

    @property
    def law(self) -> tuple[Value, Value]:
        """Stiffness, and the bound of friction."""
        return self.read(Layout.STIFFNESS)[0], self.read(Layout.BOUND)[0]


def each_contact(code: RowCode, dimension: int, body: Callable[[Contact], None]) -> None:
    """Each contact of a set that has any."""
    code.recorder.count("contacts", code.read("count"), lambda turn: body(Contact(code, dimension, turn)))


def where(recorder: Recorder, name: str, a: Value, b: Value, then: Callable[[], object]) -> None:
    """Do something where a < b."""

    def run() -> list[Value]:
        then()
        return []

    recorder.where(name, a, b, run, [])


def anything_touches(model: Model, settings: Settings) -> bool:
    """Whether there is anything to look for."""
    return settings.contacts and bool(len(model.pairs.geom_a))
