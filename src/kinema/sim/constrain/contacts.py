"""Contacts as constraints: what they miss, what they do to frames, and how stiff that makes the joints.

There is no Jacobian. What contacts see of accelerations is how the two frames move at the point; what they do is a
wrench on each frame, which joints feel by their axes. Contacts with the world make each frame stiffer against it, and
what a frame carries adds up on the way inwards as masses do, so that stiffness is as sparse as inertia. Only contacts
between two moving frames couple others: the joints that move one of them and not the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kinema import trace
from kinema.trace import SCRATCH, Place, Row, RowCode, Value

from ..collide.planned import SetKind
from ..collide.touch_sets import TouchSet
from ..collide.touches import Among, Contact, Layout, Touches, each_contact
from ..rigid.kinematics import RESTING, Pose, Twist, twists
from ..rigid.rnea import Wrench, power
from ..sweeps.columns import PartRow
from ..sweeps.maths import ZERO, add, dot, scale
from ..sweeps.matrix import TreeMatrix
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.tiles import root_frame
from ..sweeps.tree import WORLD, Node, frame_ref
from ..sweeps.trees import PerTree, Places
from .cones import cost
from .laws import Law
from .levers import (
    N_STIFFNESS,
    Axes,
    about_origin,
    between,
    first_point,
    levers_of,
    read_all,
    resistance,
    resistance_about,
    seen_by,
    stiffness_of_set,
    twist_of,
)
from .middles import axes_about, middles_of_trees
from .surfaces import enliven

OfContact = Callable[[Contact, SetKind, RowCode], list[Value]]
"""Numbers that are added up over contacts."""


def axes_of(s: Sweeps, where: Quantity[Pose], frames: Quantity[Pose]) -> Quantity[Axes]:
    """The axes of all joints; `frames` are about the origin of all contacts."""
    axes: Quantity[Axes] = s.quantity("axes")
    if s.settings.team:
        nothing = Twist(ZERO, ZERO)
        axes.make_rooms({node.here: Axes([nothing] * len(node.dofs)) for node in s.nodes})

    def body(node: Node) -> None:
        at = frames[node.here]
        axes.put(node.here, Axes([about_origin(at, x) for x in twists(node, where[node.here])]))

    s.each_frame("axes of joints", body)
    return axes


class Contacts:
    """All contacts of a state."""

    def __init__(self, s: Sweeps, touches: Touches, axes: Quantity[Axes], frames: Quantity[Pose]) -> None:
        self.s = s
        self.touches = touches
        self.axes = axes
        self.law = Law()
        self.middle = middles_of_trees(s, touches.among(Among.WORLD), frames)
        self.axes_about_middle = axes_about(s, axes, self.middle)

    # ------------------------------------------------------------------------------------------- motion to contacts

    def moved(self, name: str, x: Quantity[list[Value]] | None = None) -> Quantity[Twist]:
        """How frames move, or accelerate, with their coordinates; without any given, with their velocities."""
        s = self.s

        def body(node: Node, above: Twist) -> Twist:
            angular, linear = above.angular, above.linear
            numbers = s.of("vel", node) if x is None else x[node.here]
            for number, axis in zip(numbers, self.axes[node.here].twists, strict=True):
                angular = add(angular, scale(number, axis.angular))
                linear = add(linear, scale(number, axis.linear))
            return Twist(angular, linear)

        return s.outward(name, RESTING, body)

    def set_targets(self, velocity: Quantity[Twist], free: Quantity[Twist]) -> None:
        """What is missing while nothing pushes."""

        def body(code: RowCode, kind: SetKind) -> None:
            speed, gained = between(velocity, kind), between(free, kind)

            def one(contact: Contact) -> None:
                bounce = enliven(contact, kind, speed, code) if kind.lively else None
                damping = [*contact.read(Layout.DAMPING), *contact.read(Layout.SLIDING) * (kind.dimension - 1)]
                free = seen_by(contact, gained)
                first, *rest = [a + d * v for a, v, d in zip(free, seen_by(contact, speed), damping, strict=True)]
                first = first + contact.read(Layout.BACK)[0]
                if bounce is not None:
                    first = trace.minimum(first, free[0] - contact.read(Layout.SCALE)[0] * bounce)
                contact.write(contact.layout.residual, [first, *rest])

            each_contact(code, kind.dimension, one)

        self.touches.each("what contacts miss", body)

    def product(self, motion: Quantity[Twist]) -> None:
        """How what is missing changes with a motion."""

        def body(code: RowCode, kind: SetKind) -> None:
            moving = between(motion, kind)

            def one(contact: Contact) -> None:
                contact.write(contact.layout.change, seen_by(contact, moving))

            each_contact(code, kind.dimension, one)

        self.touches.each("what contacts see of a motion", body)

    def advance(self, length: Place | PerTree) -> None:
        """Go along the direction."""

        def body(code: RowCode, kind: SetKind) -> None:
            far = code.read("length")

            def one(contact: Contact) -> None:
                pairs = zip(contact.residual, contact.change, strict=True)
                contact.write(contact.layout.residual, [x + far * v for x, v in pairs])

            each_contact(code, kind.dimension, one)

        self._each("what contacts miss then", body, {"length": length})

    # -------------------------------------------------------------------------------------------------------- sums

    def slopes(self, length: Place | PerTree, total: Place | PerTree) -> None:
        """Add the slope and the curvature of the cost along the direction."""

        def one(contact: Contact, kind: SetKind, code: RowCode) -> list[Value]:
            change = contact.change
            moved = [x + code.read("length") * v for x, v in zip(contact.residual, change, strict=True)]
            return list(self.law.along(contact, kind, moved, change))

        self._total("slopes of contacts", one, total, 2, {"length": length})

    def changed(self, length: Place | PerTree, total: Place | PerTree) -> None:
        """Add how many contacts would be on another part of their law."""

        def one(contact: Contact, kind: SetKind, code: RowCode) -> list[Value]:
            before = contact.residual
            after = [x + code.read("length") * v for x, v in zip(before, contact.change, strict=True)]
            return [self.law.differs(contact, kind, before, after)]

        self._total("contacts that change", one, total, 1, {"length": length})

    def costs(self, length: Place | PerTree, total: Place | PerTree) -> None:
        """Add what contacts cost somewhere along the direction."""

        def one(contact: Contact, kind: SetKind, code: RowCode) -> list[Value]:
            moved = [x + code.read("length") * v for x, v in zip(contact.residual, contact.change, strict=True)]
            return [cost(moved, *contact.law, elliptic=kind.elliptic)]

        self._total("costs of contacts", one, total, 1, {"length": length})

    def _total(self, name: str, one: OfContact, total: Place | PerTree, n: int, more: Places) -> None:
        def body(code: RowCode, kind: SetKind) -> None:
            sums = code.recorder.local(n)
            code.recorder.write(sums, [0.0] * n)

            def add_up(contact: Contact) -> None:
                found = one(contact, kind, code)
                before = [code.recorder.read(sums, i) for i in range(n)]
                code.recorder.write(sums, [a + b for a, b in zip(before, found, strict=True)])

            each_contact(code, kind.dimension, add_up)
            pairs = zip(code.array("total", n), (code.recorder.read(sums, i) for i in range(n)), strict=True)
            code.write("total", [a + b for a, b in pairs])

        self._each(name, body, {**more, "total": total})

    def _each(self, name: str, body: Callable[[RowCode, SetKind], None], more: Places) -> None:
        self.touches.each(name, body, self.touches.rows(Among.ALL, more))

    # ------------------------------------------------------------------------------------------- contacts to joints

    def joint_forces(self, name: str) -> Quantity[list[Value]]:
        """What contacts do to joints."""
        s = self.s
        wrenches: Quantity[Wrench] = s.quantity(f"{name}, on frames")
        s.each_frame(f"{name}, none yet", lambda node: wrenches.put(node.here, Wrench(ZERO, ZERO)))

        def body(code: RowCode, kind: SetKind) -> None:
            sums = code.recorder.local(6)
            code.recorder.write(sums, [0.0] * 6)

            def one(contact: Contact) -> None:
                slope = self.law.push(contact, kind, contact.residual).slope
                for i, own in enumerate(zip(*levers_of(contact), strict=True)):
                    code.recorder.write(sums, [code.recorder.read(sums, i) - dot(slope, own)], i)

            each_contact(code, kind.dimension, one)
            total = [code.recorder.read(sums, i) for i in range(6)]
            if alone:
                pass_on(total, kind)
            else:
                code.write("wrench", total)

        def pass_on(total: Sequence[Value], kind: SetKind) -> None:
            wrenches.add(frame_ref("b "), Wrench(total[:3], total[3:]))
            if not kind.on_world:
                wrenches.add(frame_ref("a "), Wrench([-x for x in total[:3]], [-x for x in total[3:]]))

        alone = not s.recorder.in_team  # others would wait for each other at the frames: these come after all else
        if alone:
            self.touches.each(f"{name}, of contacts", body)
        else:
            own = [{"wrench": s.take(6)} for _ in self.touches.sets]

            def rows() -> list[PartRow]:
                return [self.touches.row(x, more) for x, more in zip(self.touches.sets, own, strict=True)]

            s.loop(f"{name}, of none", rows(), lambda code: code.write("wrench", [0.0] * 6))
            self.touches.each(f"{name}, of contacts", body, rows())
            self.touches.each(f"{name}, on frames", lambda code, kind: pass_on(code.array("wrench", 6), kind), rows())
        s.add_up(f"{name}, carried", wrenches)
        result: Quantity[list[Value]] = s.quantity(name)

        def felt(node: Node) -> None:
            result.put(node.here, [power(axis, wrenches[node.here]) for axis in self.axes[node.here].twists])

        s.each_frame(name, felt)
        return result

    # ------------------------------------------------------------------------------------------------------ stiffness

    def add_stiffness_on_world(
        self, matrix: TreeMatrix, more: Callable[[Quantity[list[Value]]], None] | None = None
    ) -> None:
        """What contacts with the world add to a matrix over degrees of freedom; `more` adds to that of frames."""
        s = self.s
        stiff: Quantity[list[Value]] = s.quantity("stiffness of frames")
        s.each_frame("no stiffness yet", lambda node: stiff.put(node.here, [0.0] * N_STIFFNESS))

        def body(code: RowCode, kind: SetKind) -> None:
            made = stiffness_of_set(code, kind, self.law, lambda: code.array("middle", 3))
            stiff.add(frame_ref("b "), read_all(code, made))

        on_world = self.touches.rows(Among.WORLD, {"middle": self.middle})
        self.touches.each("stiffness of contacts with the world", body, on_world, Among.WORLD)
        if more is not None:
            more(stiff)
        s.add_up("stiffness carried", stiff)

        def own(node: Node) -> tuple[list[Wrench], list[list[Value]]]:
            axes = self.axes_about_middle[node.here].twists
            wrenches = [resistance(stiff[node.here], axis) for axis in axes]
            return wrenches, [[power(x, w) for x in axes[: k + 1]] for k, w in enumerate(wrenches)]

        def up(below: Node, above: Node, wrenches: list[Wrench]) -> tuple[list[Wrench], list[list[Value]]]:
            return wrenches, [[power(x, w) for x in self.axes_about_middle[above.here].twists] for w in wrenches]

        matrix.fill(own, up, adding=True)

    def couplings(self) -> list[list[int]]:
        """Degrees of freedom that contacts between frames couple: those that move one of two and not the other."""
        return [[d for d, _ in self.apart(x)] for x in self.between_frames()]

    def between_frames(self) -> list[TouchSet]:
        """What may touch but for the world."""
        return self.touches.among(Among.FRAMES)

    def trees_of(self, touch: TouchSet) -> list[int]:
        """The first frames of the trees that a set is between."""
        return [root_frame(self.s, frame) for frame in touch.plan.frames if frame != WORLD]

    def apart(self, touch: TouchSet) -> list[tuple[int, float]]:
        """The degrees of freedom that move one of a set's frames and not the other, and in which direction."""
        first, second = (set(self.path(frame)) for frame in touch.plan.frames)
        return sorted([(d, -1.0) for d in first - second] + [(d, 1.0) for d in second - first])

    def path(self, frame: int) -> list[int]:
        """The degrees of freedom that move a frame."""
        nodes, path = self.s.tree.nodes, []
        while frame != WORLD:
            path += nodes[frame].dofs
            frame = nodes[frame].parent
        return path

    def add_stiffness_between(self, matrix: TreeMatrix) -> None:
        """What contacts between moving frames add."""
        axes = self.places_of_axes()
        rows = []
        for touch in self.between_frames():
            row = self.touches.row(touch)
            inside = []
            apart = self.apart(touch)
            for i, (dof, sign) in enumerate(apart):
                own = [
                    Row("entry", {"other": axes[d], "entry": matrix.between(dof, d)}, {"other sign": [x]})
                    for d, x in apart[: i + 1]
                ]
                inside.append(Row("dof", {"axis": axes[dof]}, {"sign": [sign]}, {"with": own}))
            rows.append(replace(row, inside={"dofs": inside}))

        def body(code: RowCode, kind: SetKind) -> None:
            about = first_point(code, kind)
            made = stiffness_of_set(code, kind, self.law, lambda: read_all(code, about, 3))

            def of_dof(inner: RowCode) -> None:
                axis = twist_of(inner.array("axis", 6))
                wrench = resistance_about(read_all(inner, made), read_all(inner, about, 3), axis)
                passed = inner.recorder.local(6)
                inner.recorder.write(passed, scale(inner.number("sign"), [*wrench.torque, *wrench.force]))

                def of_entry(entry: RowCode) -> None:
                    felt = dot(entry.array("other", 6), [entry.recorder.read(passed, i) for i in range(6)])
                    entry.write("entry", [entry.read("entry") + entry.number("other sign") * felt])

                inner.each("with", of_entry)

            code.each("dofs", of_dof)

        self.touches.each("stiffness of contacts between frames", body, rows, Among.FRAMES)

    def places_of_axes(self) -> dict[int, Place]:
        """Where the axis of each degree of freedom is: six numbers."""
        starts = {node.index: self.axes.places[node.here].row for node in self.s.nodes}
        return {d: Place(SCRATCH, starts[n.index] + 6 * k) for n in self.s.nodes for k, d in enumerate(n.dofs)}
