"""Actuators and tendons in loops: lengths gathered from joints, forces along them, and these spread over joints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kinema.trace import SCRATCH, Place, Row, RowCode, Value

from ..arrays import Owner
from .loops import Loops
from .tree import WORLD, Node, Ref, frame_ref


@dataclass(frozen=True, slots=True)
class Pull:
    """A force, and its derivative by the velocity that it acts along."""

    force: Value
    slope: Value


@dataclass(frozen=True, slots=True, eq=False)
class Cord:
    """An actuator or tendon: what pulls along a length."""

    kind: str
    length: Value
    speed: Value
    of: Callable[[str], list[Value]]
    """Its numbers, by the name of an array."""
    frame: Ref | None = None
    """The frame that it pushes beside."""
    turns: bool = False
    """Whether it is a servo of an angle."""
    dynamics: str = "none"
    """How its activation follows its control."""
    early: bool = False
    """Whether it already pulls with the activation of the next step."""
    samples: int = 0
    """How many controls of earlier steps it remembers, because it hears them late."""
    interpolation: str = ""
    """How it finds one between two of them."""


@dataclass(frozen=True, slots=True)
class CordKind:
    """What decides which code a cord runs."""

    kind: str
    on_frame: bool
    levers: bool
    """Whether degrees of freedom change its length."""
    turns: bool = False
    dynamics: str = "none"
    early: bool = False
    samples: int = 0
    interpolation: str = ""
    breaks: bool = False
    """Whether it goes with a tie that may break."""


@dataclass(frozen=True, slots=True, eq=False)
class Lengths:
    """Of each path where its length is, and its moment over each degree of freedom that changes it."""

    lengths: Mapping[int, Place]
    moments: Mapping[int, Mapping[int, Place]]
    pulls: Mapping[int, Mapping[str, Place]] = field(default_factory=dict)
    """Of each piece of a path what its ends feel at unit force: torque about a place, and force; and that place."""


NO_LENGTHS = Lengths({}, {})


class Cords:
    """Some actuators or tendons of a model: of each a pair of numbers, length and speed, then force and slope."""

    def __init__(
        self,
        loops: Loops,
        kind: str,
        which: Sequence[int],
        body: Callable[[Cord], Pull],
        along: Lengths = NO_LENGTHS,
        name: str = "",
        together: Callable[[Cords], None] | None = None,
    ) -> None:
        """The kind is a table of the model; the name tells apart what is found out about the same parts.

        `together` may change the pulls before they act.
        """
        self.loops = loops
        self.along = along
        self.name = name or kind
        table = getattr(loops.model, kind)
        own_dofs = {d for node in loops.nodes for d in node.dofs}
        self.moments: dict[int, dict[int, float]] = {}
        for i in which:
            moment = {int(d): float(table.moment[i, d]) for d in table.moment[i].nonzero()[0]}
            frame = int(table.frame_idx[i]) if hasattr(table, "frame_idx") else WORLD
            if own_dofs.issuperset(moment) and (moment or any(n.index == frame for n in loops.nodes)):
                self.moments[i] = moment
        self.paths = {i: int(table.path_idx[i]) for i in self.moments if table.path_idx[i] >= 0 and self.moments[i]}
        self.pairs = {i: loops.take(2) for i in self.moments}
        pulled = {d for moment in self.moments.values() for d in moment}
        self._on: dict[int, Place] = {}
        for node in loops.nodes:
            if pulled.intersection(node.dofs):
                start = loops.take(2 * len(node.dofs)).row
                self._on |= {dof: Place(SCRATCH, start + 2 * k) for k, dof in enumerate(node.dofs)}
        self._compute(table, body, together)

    def _compute(self, table: Any, body: Callable[[Cord], Pull], together: Callable[[Cords], None] | None) -> None:
        loops = self.loops
        clear = [Row("pair", {"pair": place}) for place in (*self.pairs.values(), *self._on.values())]
        loops.loop(f"no {self.name}", clear, lambda code: code.write("pair", [0.0, 0.0]))
        loops.loop(f"paths of {self.name}", [self._path_row(i) for i in self.paths], self._begin)
        levers = [(i, dof, lever) for i, moment in self.moments.items() for dof, lever in moment.items()]
        loops.loop(f"lengths of {self.name}", [self._lever_row(*x) for x in levers], self._gather)
        loops.loop(f"forces of {self.name}", [self._cord_row(table, i) for i in self.moments], self._pull(body))
        if together is not None:
            together(self)
        loops.loop(f"{self.name} on joints", [self._lever_row(*x) for x in levers], self._spread)

    def _path_row(self, i: int) -> Row:
        scale = next(iter(self.moments[i].values()))
        return Row("path", {"pair": self.pairs[i], "length": self.along.lengths[self.paths[i]]}, {"scale": [scale]})

    @staticmethod
    def _begin(code: RowCode) -> None:
        code.write("pair", [code.number("scale") * code.read("length"), 0.0])

    def _lever_row(self, i: int, dof: int, lever: float) -> Row:
        dofs, arrays = self.loops.model.dofs, self.loops.arrays_of(Owner.DOF, dof)
        places = {"pair": self.pairs[i], "vel": arrays["vel"], "on": self._on[dof]}
        if i in self.paths:
            places["moment"] = self.along.moments[self.paths[i]][dof]
            return Row("path", places, {"lever": [lever]})
        if dofs.q_idx[dof] < 0:
            return Row("turning", places, {"lever": [lever]})
        places["qpos"] = self.loops.arrays_of(Owner.COORDINATE, int(dofs.q_idx[dof]))["qpos"]
        return Row("along", places, {"lever": [lever]})

    @staticmethod
    def _lever(code: RowCode) -> Value:
        return code.number("lever") * (code.read("moment") if code.kind == "path" else 1.0)

    @classmethod
    def _gather(cls, code: RowCode) -> None:
        lever = cls._lever(code)
        length, speed = code.array("pair", 2)
        if code.kind == "along":
            length = length + lever * code.read("qpos")
        code.write("pair", [length, speed + lever * code.read("vel")])

    @classmethod
    def _spread(cls, code: RowCode) -> None:
        lever = cls._lever(code)
        (force, slope), (push, hold) = code.array("pair", 2), code.array("on", 2)
        code.write("on", [push + lever * force, hold + (lever * lever) * slope])

    def _cord_row(self, table: Any, i: int) -> Row:
        frame = int(table.frame_idx[i]) if hasattr(table, "frame_idx") else WORLD
        turns = hasattr(table, "turn") and bool(table.turn[i])
        kind = CordKind(table.kinds[i], frame != WORLD, bool(self.moments[i]), turns)
        own: dict[str, Place] = {"pair": self.pairs[i]}
        if self.name == "actuators":
            late = {"samples": int(table.samples[i]), "interpolation": table.interpolation[i]}
            kind = replace(kind, dynamics=table.dynamics[i], early=bool(table.early[i]), **late)
            own |= self.loops.arrays_of(Owner.ACTUATOR, i)
            if table.samples[i]:
                own |= self.loops.arrays_of(Owner.SAMPLE, int(table.samples[:i].sum()))
        elif hasattr(table, "spring_yield") and np.isfinite(table.spring_yield[i]):
            own |= self.loops.arrays_of(Owner.TENDON, i)
        holder = int(table.tie_idx[i]) if hasattr(table, "tie_idx") else -1
        if holder >= 0 and "broken" in self.loops.places:
            kind = replace(kind, breaks=True)
            own["broken"] = self.loops.arrays_of(Owner.TIE, holder)["broken"]
        constants: dict[str, list[float]] = {}
        for name in type(table).__dataclass_fields__:
            values = getattr(table, name)
            if isinstance(values, np.ndarray) and values.dtype == np.float64 and name != "moment":
                constants[name] = values[i].reshape(-1).tolist()
        targets = {"frame ": frame_ref(frame)} if frame != WORLD else {}
        return self.loops.row(kind, targets, own, constants)

    def _pull(self, body: Callable[[Cord], Pull]) -> Callable[[RowCode], None]:
        def run(code: RowCode) -> None:
            kind = code.kind
            assert isinstance(kind, CordKind)
            length, speed = code.array("pair", 2) if kind.levers else (0.0, 0.0)
            pull = body(_cord(code, length, speed))
            held = 1.0 - code.read("broken") if kind.breaks else 1.0
            code.write("pair", [held * pull.force, held * pull.slope])

        return run

    def each(self, name: str, body: Callable[[Cord], None], only: Callable[[CordKind], bool]) -> None:
        """Do something to each of them by itself, or only to some; of their lengths nothing is known any more."""
        table = getattr(self.loops.model, self.name)
        rows = [self._cord_row(table, i) for i in self.moments]
        rows = [row for row in rows if isinstance(row.kind, CordKind) and only(row.kind)]
        self.loops.loop(name, rows, lambda code: body(_cord(code, 0.0, 0.0)))

    def touches(self, node: Node) -> bool:
        """Whether any of them acts on a frame's degrees of freedom."""
        return node.dofs.start in self._on

    def places_of(self, node: Node) -> Mapping[str, Place]:
        """Where a frame finds what they do to it."""
        return {f"pulls of {self.name}": self._on[node.dofs.start]} if self.touches(node) else {}

    def on(self, node: Node) -> list[Pull]:
        """What all of them together do to a frame's degrees of freedom."""
        code = self.loops.code
        if self.name not in code.kind.pulled_by:  # type: ignore[attr-defined]
            return [Pull(0.0, 0.0)] * len(node.dofs)
        flat = code.array(f"pulls of {self.name}", 2 * len(node.dofs))
        return [Pull(flat[2 * k], flat[2 * k + 1]) for k in range(len(node.dofs))]

    def total_force(self) -> Value:
        """The sum of their forces along their lengths."""
        place = self.loops.take_fixed(1)
        self.loops.recorder.write(SCRATCH, [0.0], place.row)
        rows = [Row("pair", {"pair": pair, "total": place}) for pair in self.pairs.values()]

        def body(code: RowCode) -> None:
            code.write("total", [code.read("total") + code.read("pair")])

        self.loops.loop(f"total of {self.name}", rows, body)
        return self.loops.recorder.read(SCRATCH, place.row)

    def couplings(self, entry: Callable[[int, int], Place]) -> list[Row]:
        """A row for each two degrees of freedom that share one and move each other; see `lever_product`."""
        rows: list[Row] = []
        for i, moment in self.moments.items():
            known = self.along.moments[self.paths[i]] if i in self.paths else {}
            for dof, lever in moment.items():
                movers = set(self.loops.tree.ancestors(dof))
                for mover in (m for m in moment if m in movers):
                    places = {"entry": entry(dof, mover), "pair": self.pairs[i]}
                    places |= {"a": known[dof], "b": known[mover]} if known else {}
                    kind = "path" if known else "constant"
                    rows.append(self.loops.row(kind, {}, places, {"levers": [lever * moment[mover]]}))
        return rows


def lever_product(code: RowCode) -> Value:
    """Of two degrees of freedom that share a cord: the product of their levers."""
    levers = code.number("levers")
    return levers * code.read("a") * code.read("b") if code.kind == "path" else levers


def _cord(code: RowCode, length: Value, speed: Value) -> Cord:
    """The actuator or tendon of a row, in symbols."""
    kind = code.kind
    assert isinstance(kind, CordKind)

    def of(array: str) -> list[Value]:
        held = code.holds(array)
        return code.array(array, kind.samples if array == "history" else 1) if held else code.numbers(array)

    frame = frame_ref("frame ") if kind.on_frame else None
    late = kind.samples, kind.interpolation
    return Cord(kind.kind, length, speed, of, frame, kind.turns, kind.dynamics, kind.early, *late)
