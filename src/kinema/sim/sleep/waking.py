"""Waking: by what someone does to a tree that sleeps, or by what touches it. All that fell asleep with it wake too."""

from __future__ import annotations

from collections.abc import Iterator

from kinema import trace
from kinema.trace import SCRATCH, Place, Row, RowCode, Value

from ..arrays import Owner
from ..collide.find import find_contacts
from ..collide.planned import SetKind
from ..collide.touches import Among, Touches
from ..rigid.kinematics import Pose
from ..sweeps.idle import trees_of_frames
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import WORLD
from ..sweeps.trees import each_tree
from .islands import trees_of


class Sleepers:
    """Who sleeps, in the course of a step."""

    def __init__(self, s: Sweeps) -> None:
        self.s = s
        self.count = s.take_fixed(1)
        """How many do."""
        self.woken = s.take(len(set(trees_of_frames(s.model))) + 1)
        """Of each island whether it is to wake, from the place after the first on."""

    def asleep(self, tree: int) -> Place:
        """Where it says whether a tree sleeps, and since when with whom."""
        return self.s.arrays_of(Owner.TREE, tree)["asleep"]

    def begin(self) -> None:
        """What sleeps is idle, unless something was done to it."""
        s, recorder = self.s, self.s.recorder
        assert s.idle is not None
        recorder.write(SCRATCH, [0.0], self.count.row)

        def look(code: RowCode) -> None:
            asleep = trace.select(0.5, code.read("asleep"), 1.0, 0.0)
            code.write("mark", [asleep])
            code.write("count", [code.read("count") + asleep])

        idle = s.idle
        each_tree(s, "who sleeps", lambda t: {"asleep": self.asleep(t), "mark": idle.of(t), "count": self.count}, look)
        s.where("anything sleeps", recorder.read(SCRATCH, self.count.row), self._look_for_changes)

    def _look_for_changes(self) -> None:
        self._nobody_wakes()

        def compare(code: RowCode) -> None:
            def note() -> list[Value]:
                other: Value = 0.0 if "nothing" in str(code.kind) else code.read("before")
                index = trace.select(0.0, trace.absolute(code.read("now") - other), code.read("asleep"), 0.0)
                code.recorder.write("woken", [1.0], 0, index)
                return []

            code.recorder.where("asleep", 0.5, code.read("asleep"), note, [])

        with self.s.staying():
            self.s.loop("what was done to those that sleep", list(self._compared()), compare)
        self._wake()

    def _compared(self) -> Iterator[Row]:
        """What must not change: coordinates, commands, gravity; and what must be nothing: speeds, the user's forces."""
        s, trees = self.s, trees_of_frames(self.s.model)

        def row(tree: int, now: Place, before: Place | None = None) -> Row:
            places = {"asleep": self.asleep(tree), "woken": self.woken, "now": now}
            if before is None:
                return Row(("nothing", now.arena), places)
            return Row(("pair", now.arena), {**places, "before": before})

        for node in s.nodes:
            tree = trees[node.index]
            for q in node.qs:
                own = s.arrays_of(Owner.COORDINATE, q)
                yield row(tree, own["qpos"], own["slept_qpos"])
            for dof in node.dofs:
                own = s.arrays_of(Owner.DOF, dof)
                yield row(tree, own["vel"])
                yield row(tree, own["command"], own["slept_command"])
                if s.settings.external_forces:
                    yield row(tree, own["dof_force_applied"])
        for actuator, moment in enumerate(s.model.actuators.moment):
            own = s.arrays_of(Owner.ACTUATOR, actuator)
            for tree in {trees[int(s.model.dofs.frame_idx[d])] for d in moment.nonzero()[0]}:
                yield row(tree, own["ctrl"], own["slept_ctrl"])
        for tree in s.trees:
            own = s.arrays_of(Owner.ENVIRONMENT, 0)
            for i in range(3):
                yield row(tree, _later(own["gravity"], i), _later(own["slept_gravity"], i))
        for link in s.links if s.settings.external_forces else ():
            frame = int(s.model.links.frame_idx[link])
            own = s.arrays_of(Owner.LINK, link)
            for name in ("cfrc_applied_ang", "cfrc_applied_vel"):
                for i in range(3 if frame != WORLD else 0):
                    yield row(trees[frame], _later(own[name], i))

    def wake_touched(self, touches: Touches) -> Value:
        """Wake what is touched by what is awake: how many did."""
        s, total = self.s, self.s.take_fixed(1)

        def note(code: RowCode, _: SetKind) -> None:
            a, b = code.read("one"), code.read("other")
            mixed = trace.select(trace.minimum(a, b), 0.5, trace.maximum(a, b), 0.0)
            code.recorder.write("woken", [1.0], 0, mixed)

        rows = []
        for touch in touches.among(Among.FRAMES):
            one, other = (self.asleep(tree) for tree in trees_of(s, touch.plan.frames))
            with s.everybody():
                rows.append(touches.row(touch, {"one": one, "other": other, "woken": self.woken}))

        def look() -> None:
            self._nobody_wakes()
            touches.each("who touches those that sleep", note, rows, Among.FRAMES)
            self._wake(total)

        s.recorder.write(SCRATCH, [0.0], total.row)
        s.where("anything sleeps", s.recorder.read(SCRATCH, self.count.row), look)
        return s.recorder.read(SCRATCH, total.row)

    def _nobody_wakes(self) -> None:
        each_tree(self.s, "nobody wakes", lambda t: {"woken": _later(self.woken, t + 1)}, _clear)

    def _wake(self, total: Place | None = None) -> None:
        """Wake the islands that are marked."""
        s = self.s
        assert s.idle is not None
        idle = s.idle

        def places(tree: int) -> dict[str, Place]:
            own = {"asleep": self.asleep(tree), "still": s.arrays_of(Owner.TREE, tree)["still"], "mark": idle.of(tree)}
            return {**own, "woken": self.woken, "count": self.count, "total": total or self.count}

        def wake(code: RowCode) -> None:
            def up() -> list[Value]:
                for name in ("asleep", "still", "mark"):
                    code.write(name, [0.0])
                code.write("count", [code.read("count") - 1.0])
                if total is not None:
                    code.write("total", [code.read("total") + 1.0])
                return []

            asleep = code.read("asleep")
            called = trace.select(0.5, asleep, code.recorder.read("woken", 0, asleep), 0.0)
            code.recorder.where("called", 0.5, called, up, [])

        each_tree(s, "who wakes", places, wake)


def find_and_wake(s: Sweeps, touches: Touches, frames: Quantity[Pose], sleepers: Sleepers | None) -> None:
    """Find what touches, and wake what is touched by what is awake; who wakes may touch others that sleep."""

    def look() -> tuple[Value, Value]:
        assert sleepers is not None
        find_contacts(s, touches, frames)
        return 0.5, sleepers.wake_touched(touches)

    if sleepers is None:
        touches.list_touching(find_contacts(s, touches, frames))
        return
    s.repeat("what touches", look, len(s.trees) + 1)
    touches.list_touching()


def all_awake(s: Sweeps) -> None:
    """No tree is idle."""
    assert s.idle is not None
    idle = s.idle
    each_tree(s, "nobody is idle", lambda t: {"mark": idle.of(t)}, lambda code: code.write("mark", [0.0]))


def _later(place: Place, rows: int) -> Place:
    return Place(place.arena, place.row + rows)


def _clear(code: RowCode) -> None:
    code.write("woken", [0.0])
