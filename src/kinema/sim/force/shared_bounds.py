"""What actuators may do to one tendon together (MJCF `actuatorfrcrange` of tendons): beyond it, all pull less."""

from __future__ import annotations

from kinema import trace
from kinema.trace import Row, RowCode

from ..sweeps.cords import Cords


def bound_together(actuators: Cords) -> None:
    """Scale the forces of actuators that share a tendon, where their sum is beyond what it takes."""
    loops, info = actuators.loops, actuators.loops.model.actuators
    group_of = {i: int(info.shared_idx[i]) for i in actuators.pairs if info.shared_idx[i] >= 0}
    totals = {group: loops.take(1) for group in sorted(set(group_of.values()))}
    rows = [
        Row(
            "actuator",
            {"pair": actuators.pairs[i], "total": totals[group]},
            {name: [float(getattr(info, name)[i])] for name in ("shared_lower", "shared_upper")},
        )
        for i, group in group_of.items()
    ]
    nothing = [Row("tendon", {"total": place}) for place in totals.values()]
    loops.loop("no forces on bounded tendons", nothing, lambda code: code.write("total", [0.0]))
    loops.loop("forces on bounded tendons", rows, _add)
    loops.loop("forces within the bounds of tendons", rows, _scale)


def _add(code: RowCode) -> None:
    code.write("total", [code.read("total") + code.read("pair")])


def _scale(code: RowCode) -> None:
    """Beyond a bound a force no longer changes with speed."""
    total, lower, upper = code.read("total"), code.number("shared_lower"), code.number("shared_upper")
    force, slope = code.array("pair", 2)
    beyond = trace.select(upper, total, 1.0, trace.select(total, lower, 1.0, 0.0))
    share = trace.clamp(total, lower, upper) / trace.select(0.5, beyond, total, 1.0)
    code.write("pair", [trace.select(0.5, beyond, share * force, force), trace.select(0.5, beyond, 0.0, slope)])
