"""Constraints as rows: J a = aref, softly, where a are the accelerations of the degrees of freedom.

A *block* is what belongs together: the three rows that hold two points together, the one that stops a joint. Which
degrees of freedom it acts on is known when the program is made, so its Jacobian has a place for each of them and no
other. The kinds of constraints fill in the Jacobian and how far off they are; what follows from that (how hard a row
is, and the acceleration it wants) is the same for all, and is MuJoCo's soft-constraint model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kinema import trace
from kinema.trace import SCRATCH, Place, Row, RowCode, Value

from ..arrays import Owner
from ..rigid.kinematics import Moving, Pose, Twist
from ..sweeps.cords import Lengths
from ..sweeps.idle import trees_of_frames
from ..sweeps.maths import dot
from ..sweeps.matrix import Entries
from ..sweeps.own import with_own
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.trees import Places, places_in
from .blocks import Block, Law, block_name, block_numbers
from .impedance import FASTEST, MOST, NO_TIME, bound_of_return, impedance, reference, sound, whole_power


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """What constraints may look at: where frames are, how they move, and accelerate while no coordinate does."""

    s: Sweeps
    where: Quantity[Pose]
    """In their parents."""
    frames: Quantity[Pose]
    """In the world."""
    velocity: Quantity[Twist]
    motion: Quantity[Moving]
    lengths: Lengths
    """Of paths."""


OWN_NUMBERS = {
    "limit": {"solref": "limit_solref", "solimp": "limit_solimp"},
    "friction": {"solref": "friction_solref", "solimp": "friction_solimp", "bound": "frictionloss"},
    "tie": {"solref": "tie_solref", "solimp": "tie_solimp", "on": "tie_on"},
    "coupling": {"solref": "coupling_solref", "solimp": "coupling_solimp", "on": "coupling_on"},
}
"""What blocks may have for each environment, and the arrays that hold it."""


@dataclass(frozen=True, slots=True)
class BlockKind:
    """What decides which code a block runs, whatever it holds."""

    law: Law
    n_rows: int
    power: int
    drifts: bool
    sprung: bool
    """Whether it is a spring and a damper itself."""
    own: tuple[str, ...]
    """What of it differs between environments."""
    patient: bool
    """Whether it comes back from afar no faster than `FASTEST`."""
    held: bool
    """Whether it pushes as it did, unless it is friction: that is a spring about what it did."""
    hopes: bool
    """Whether friction gives way as if it would hold."""


OF_ROWS = ("position", "speed", "wanted", "stiffness", "residual", "change", "force")
"""What each row has: how far off it is, how fast that changes, the acceleration it wants, how hard it is; then, at a
guess of the accelerations, what is missing (J a - aref), how that changes along a search, and its force."""


class Rows:
    """Some blocks, in the scratch memory."""

    def __init__(self, s: Sweeps, blocks: Sequence[Block], places: list[dict[str, Place]] | None = None) -> None:
        self.s = s
        self.blocks = blocks
        self.held = False
        """Whether all but friction pushes as it did (`solve/noslip.py`)."""
        self.hopes = False
        """Whether steps are taken as if all friction would hold, also where it cannot yet."""
        self.places: list[dict[str, Place]] = places or []
        for block in blocks[len(self.places) :]:
            own = {name: s.take(block.n_rows) for name in OF_ROWS}
            own |= {"drift": s.take(block.n_rows)} if block.drifts else {}
            own |= {f"jacobian {r}": s.take(len(block.dofs)) for r in range(block.n_rows)}
            self.places.append(own)

    def hard(self) -> Rows | None:
        """Those that are to hold at the end of a step; None where there are none."""
        chosen = [(b, p) for b, p in zip(self.blocks, self.places, strict=True) if b.hard]
        return Rows(self.s, [b for b, _ in chosen], [p for _, p in chosen]) if chosen else None

    def entry(self, number: int, row: int, dof: int) -> Place:
        """Where an entry of a block's Jacobian is."""
        column = list(self.blocks[number].dofs).index(dof)
        return Place(SCRATCH, self.places[number][f"jacobian {row}"].row + column)

    def each(self, name: str, body: Callable[[RowCode], None], more: Places | None = None) -> None:
        """Each block by itself, with the numbers that it has."""
        rows, trees, marks = [], trees_of_frames(self.s.model), self.s.marks_of_dofs()
        for block, places in zip(self.blocks, self.places, strict=True):
            own = self.own_places(block)
            patient = block.patient or 0.0 < block.solref[0] < NO_TIME
            kind = BlockKind(
                law=block.law,
                n_rows=block.n_rows,
                power=whole_power(block.solimp),
                drifts=block.drifts,
                sprung=block.spring[0] > 0.0,
                own=tuple(sorted(own)),
                patient=patient,
                held=self.held,
                hopes=self.hopes,
            )
            numbers = with_own(self.s, "block", block_name(block), block_numbers(block))
            tree = trees[int(self.s.model.dofs.frame_idx[block.dofs[0]])]
            given = {**places_in(tree, more or {}), **marks[block.dofs[0]]}
            rows.append(self.s.row(kind, {}, {**places, **own, **given}, numbers))
        self.s.loop(name, rows, body)

    def own_places(self, block: Block) -> dict[str, Place]:
        """Where a block finds what differs between environments."""
        arrays = {} if block.of is None else self.s.arrays_of(*block.of)
        own = {word: arrays[array] for word, array in OWN_NUMBERS.get(block.called, {}).items() if array in arrays}
        if block.holder >= 0 and "broken" in self.s.places:
            own["broken"] = self.s.arrays_of(Owner.TIE, block.holder)["broken"]
        return own

    def total(self, name: str, body: Callable[[RowCode], Sequence[Value]], more: Mapping[str, Place]) -> list[Value]:
        """Sums over all blocks of two numbers each."""
        place = self.s.take_fixed(2)
        self.s.recorder.write(SCRATCH, [0.0, 0.0], place.row)

        def add(code: RowCode) -> None:
            found = body(code)
            code.write("total", [a + b for a, b in zip(code.array("total", 2), found, strict=True)])

        self.each(name, add, {**more, "total": place})
        return [self.s.recorder.read(SCRATCH, place.row + i) for i in range(2)]

    def set_targets(self) -> None:
        """How hard rows are and what they want, once the Jacobian and how far off they are is known."""
        of = {dof: self.s.arrays_of_dof(dof)["vel"] for block in self.blocks for dof in block.dofs}
        self._multiply("speeds of constraints", of, "speed")

        def body(code: RowCode) -> None:
            kind: BlockKind = code.kind  # type: ignore[assignment]
            if kind.sprung:
                _stretch(code)
                return
            n, margin = kind.n_rows, code.number("margin")
            solimp = [*_numbers(code, "solimp", 5)[:4], code.numbers("solimp")[4]]
            positions = [x - margin for x in code.array("position", n)]
            off = positions[0] if n == 1 else trace.sqrt(dot(positions, positions))
            hard = impedance(solimp, kind.power, off)
            safe = kind.patient or self.s.model.options.refsafe
            spring, damper = reference(sound(_numbers(code, "solref", 2)), solimp[1], code.read("dt"), safe=safe)
            stiff = [hard / ((1.0 - hard) * weight) for weight in code.numbers("weights")]
            if kind.law is Law.LIMIT:
                stiff = [trace.select(x, 0.0, y, 0.0) for x, y in zip(positions, stiff, strict=True)]
            if "on" in kind.own:
                stiff = [trace.select(0.5, code.read("on"), x, 0.0) for x in stiff]
            if "broken" in kind.own:
                stiff = [trace.select(code.read("broken"), 0.5, x, 0.0) for x in stiff]
            drifts: list[Value] = code.array("drift", n) if kind.drifts else [0.0] * n
            back = [spring * hard * x for x in positions]
            if kind.patient or "solref" in kind.own:
                most = damper * FASTEST if kind.patient else bound_of_return(code.read("solref"), damper)
                back = [trace.clamp(x, -most, most) for x in back]
            rows_ = zip(code.array("speed", n), back, drifts, strict=True)
            code.write("stiffness", stiff)
            code.write("wanted", [-(damper * v) - x - drift for v, x, drift in rows_])

        self.each("targets of constraints", body)

    def product(self, x: Quantity[list[Value]], to: str) -> None:
        """J x, as an array of rows."""
        self._multiply(f"constraints, {to}", self.s.places_of_dofs(x), to)

    def _multiply(self, name: str, of: Mapping[int, Place], to: str) -> None:
        marks, rows = self.s.marks_of_dofs(), []
        for number, block in enumerate(self.blocks):
            for r in range(block.n_rows):
                for k, dof in enumerate(block.dofs):
                    places = {"to": self._of_row(number, to, r), "entry": self.entry(number, r, dof), "of": of[dof]}
                    places |= marks[block.dofs[0]]
                    rows.append(Row("next" if k else "first", places))
        self.s.loop(name, rows, _product)

    def joint_forces(self, name: str) -> Quantity[list[Value]]:
        """J^T f."""
        result = self.s.vector(name)
        self.s.each_frame(f"{name}, none yet", lambda node: result.put(node.here, [0.0] * len(node.dofs)))
        to, marks, rows = self.s.places_of_dofs(result), self.s.marks_of_dofs(), []
        for number, block in enumerate(self.blocks):
            for r in range(block.n_rows):
                for dof in block.dofs:
                    places = {"to": to[dof], "entry": self.entry(number, r, dof), **marks[block.dofs[0]]}
                    rows.append(Row("next", {**places, "of": self._of_row(number, "force", r)}))
        self.s.loop(name, rows, _product)
        return result

    def springs(self, name: str) -> Quantity[list[Value]]:
        """What is missing in the joints if rows are springs of the implicit step, instead of the forces they have."""

        def body(code: RowCode) -> None:
            n = code.kind.n_rows  # type: ignore[attr-defined]
            parts = zip(*(code.array(name, n) for name in ("stiffness", "wanted", "force")), strict=True)
            code.write("force", [d * wanted - force for d, wanted, force in parts])

        self.each(name, body)
        return self.joint_forces(name)

    def missing_forces(self, name: str, found: Quantity[list[Value]]) -> Quantity[list[Value]]:
        """What rows that are springs of the implicit step still lack in the joints, at accelerations found with them.

        Springs give way to a load. With the force that they have then as one that is there (the method of multipliers),
        they give way to what is left of it, which is nothing; where they contradict each other, it cancels out.
        """
        self.product(found, "residual")

        def body(code: RowCode) -> None:
            n = code.kind.n_rows  # type: ignore[attr-defined]
            parts = zip(*(code.array(name, n) for name in ("stiffness", "wanted", "residual")), strict=True)
            code.write("force", [d * (wanted - missed) for d, wanted, missed in parts])

        self.each(name, body)
        return self.joint_forces(name)

    def add_stiffness(self, matrix: Entries) -> None:
        """J^T D J, of the rows that give way where they are."""
        self.each("slopes of constraints", _slopes)
        rows, marks = [], self.s.marks_of_dofs()
        for number, block in enumerate(self.blocks):
            for r in range(block.n_rows):
                for i, a in enumerate(block.dofs):
                    for b in block.dofs[: i + 1]:
                        places = {"a": self.entry(number, r, a), "b": self.entry(number, r, b)}
                        places |= {"to": matrix.between(a, b), "slope": self._of_row(number, "change", r)}
                        places |= marks[block.dofs[0]]
                        rows.append(Row("entry", places))

        def body(code: RowCode) -> None:
            code.write("to", [code.read("to") + code.read("a") * code.read("b") * code.read("slope")])

        self.s.loop("stiffness of constraints", rows, body)

    def _of_row(self, number: int, array: str, row: int) -> Place:
        return Place(SCRATCH, self.places[number][array].row + row)


def _numbers(code: RowCode, word: str, count: int) -> Sequence[Value]:
    """Those of this environment, or of all of them."""
    kind: BlockKind = code.kind  # type: ignore[assignment]
    return code.array(word, count) if word in kind.own else code.numbers(word)


def _stretch(code: RowCode) -> None:
    """A limit that is a spring and a damper, as they are at the end of the step: stable however hard they are.

    From f = -k (x + dt v') - c v' with v' = v + dt a follow how hard a row is, and what it wants.
    """
    kind: BlockKind = code.kind  # type: ignore[assignment]
    position, dt = code.read("position") - code.number("margin"), code.read("dt")
    stiffness, damping = code.numbers("spring")
    (weight,) = code.numbers("weights")
    hard = dt * (stiffness * dt + damping)
    most = trace.minimum(hard, MOST / ((1.0 - MOST) * weight))
    if "broken" in kind.own:
        most = trace.select(code.read("broken"), 0.5, most, 0.0)
    code.write("stiffness", [trace.select(position, 0.0, most, 0.0)])
    code.write("wanted", [-(code.read("speed") / dt) - stiffness * position / hard])


def _product(code: RowCode) -> None:
    term = code.read("entry") * code.read("of")
    code.write("to", [term if code.kind == "first" else code.read("to") + term])


def _slopes(code: RowCode) -> None:
    kind: BlockKind = code.kind  # type: ignore[assignment]
    code.write("change", [slope for _, slope in pushes(code, code.array("residual", kind.n_rows))])


def pushes(code: RowCode, residuals: Sequence[Value]) -> list[tuple[Value, Value]]:
    """Of each row of a block its force, and how much that falls as the residual grows."""
    kind: BlockKind = code.kind  # type: ignore[assignment]
    kept: list[Value] = code.array("kept", kind.n_rows) if kind.held else [0.0] * kind.n_rows
    if kind.held and kind.law is not Law.FRICTION:
        return [(force, 0.0) for force in kept]
    result: list[tuple[Value, Value]] = []
    for x, d, before in zip(residuals, code.array("stiffness", kind.n_rows), kept, strict=True):
        force: Value = before - d * x
        slope: Value = d
        if kind.law is Law.LIMIT:
            force, slope = trace.select(x, 0.0, force, 0.0), trace.select(x, 0.0, d, 0.0)
        elif kind.law is Law.FRICTION:
            (bound,) = _numbers(code, "bound", 1)
            slope = d if kind.hopes else trace.select(trace.absolute(force), bound, d, 0.0)
            force = trace.clamp(force, -bound, bound)
        result.append((force, slope))
    return result
