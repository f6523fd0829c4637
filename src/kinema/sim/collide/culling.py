"""Which frames are near enough to each other for their shapes to be looked at."""

from __future__ import annotations

from collections.abc import Callable

from kinema import trace
from kinema.trace import Place, Row, RowCode, Value

from ..arrays import Owner
from ..rigid.kinematics import Pose
from ..sweeps.columns import PartRow
from ..sweeps.idle import trees_of_frames
from ..sweeps.maths import add, dot, rotate, sub
from ..sweeps.own import with_own
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import WORLD, frame_ref
from .broad import wants_list
from .numbers import set_numbers
from .planned import set_name
from .touch_sets import TouchSet
from .touches import Touches


def look_at_frames(s: Sweeps, touches: Touches, frames: Quantity[Pose]) -> None:
    """Which frames are near each other, by spheres around all of their shapes.

    All of them where a list is made of pairs whose boxes overlap: it says more, and pays for each pair already.
    """
    is_listed = wants_list(s.model, s.settings, sum(len(touch.plan.pairs) for touch in touches.sets))
    if is_listed and not s.sleeps:
        _look_at_all(s, touches)
        return
    rows = _rows(s, touches, is_listed=is_listed)

    def body(code: RowCode) -> None:
        code.write("count", [0.0])
        code.write("own lost", [0.0])
        how, on_world = code.kind  # type: ignore[misc]
        awake = _awake(code) if s.sleeps else 1.0
        if how == "always":
            code.write("near", [awake])
            return
        ends = []
        for word in ("a ", "b "):
            at, center = frames[frame_ref(word)], code.numbers(f"{word}center")
            ends.append(add(at.position, center if on_world and word == "a " else rotate(at.rotation, center)))
        apart = sub(ends[1], ends[0])
        reach = code.number("a radius") + code.number("b radius") + code.number("margin")
        code.write("near", [trace.select(dot(apart, apart), reach * trace.absolute(reach), awake, 0.0)])

    s.loop("frames that are near each other", rows, body)


def _rows(s: Sweeps, touches: Touches, *, is_listed: bool) -> list[PartRow]:
    """A row for each set, with the spheres around its frames where they are looked at."""
    rows = []
    for touch in touches.sets:
        with s.everybody():
            row = touches.row(touch, _ends(s, touch))
        numbers = {} if is_listed or "geom_size" in s.settings.per_env else set_numbers(s.model, touch.plan)
        numbers = with_own(s, "set", set_name(touch.plan), numbers)
        rows.append(
            PartRow(("culled" if numbers else "always", touch.kind.on_world), row.places, numbers, targets=row.targets)
        )
    return rows


def _look_at_all(s: Sweeps, touches: Touches) -> None:
    """All of them are to be looked at: the numbers of all sets lie one behind the other."""
    first = touches.sets[0]
    places = {"count": first.count, "near": first.near, "own lost": first.lost}

    def body(code: RowCode) -> None:
        for name, value in (("count", 0.0), ("near", 1.0), ("own lost", 0.0)):
            code.recorder.count(name, code.number("sets"), _filled(code, name, value), uniform=True)

    s.loop("all frames are near", [Row("sets", places, {"sets": [float(len(touches.sets))]})], body)


def _filled(code: RowCode, array: str, value: float) -> Callable[[Value], None]:
    return lambda turn: code.recorder.write(array, [value], 0, turn)


def _ends(s: Sweeps, touch: TouchSet) -> dict[str, Place]:
    """Where it says whether the trees of a set sleep; the world is in nobody's way then."""
    if not s.sleeps:
        return {}
    trees = trees_of_frames(s.model)
    own = [s.arrays_of(Owner.TREE, trees[f])["asleep"] for f in touch.plan.frames if f != WORLD]
    return {"one": own[0], "other": own[-1]}


def _awake(code: RowCode) -> Value:
    """Whether any of them is awake: what sleeps touches as it did."""
    return trace.select(trace.minimum(code.read("one"), code.read("other")), 0.5, 1.0, 0.0)
