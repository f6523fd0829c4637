"""What is measured of actuators and tendons: how long they are, how fast that changes, how hard they pull."""

from __future__ import annotations

from kinema.trace import Place, Row, RowCode

from ..arrays import Owner
from ..fields.situation import Situation
from ..force.paths import lengths_of
from ..sweeps.cords import Cord, Pull
from .readings import ReadingKind, Readings, tell

LENGTHS = ("actuatorpos", "actuatorvel")
FORCES = ("actuatorfrc", "tendonactuatorfrc")
TENDONS = ("tendonpos", "tendonvel")


def _tell_pair(code: RowCode) -> None:
    """A length, or how fast it changes."""
    kind = code.kind
    assert isinstance(kind, ReadingKind)
    tell(code, [code.read("pair", 1 if kind.name.endswith("vel") else 0)])


def lengths(now: Situation, readings: Readings, which: list[int]) -> None:
    """Of actuators."""
    s, info = now.s, readings.info
    own = sorted({int(info.item[i]) for i in which})

    def as_it_is(cord: Cord) -> Pull:
        return Pull(cord.length, cord.speed)

    found = s.cords("actuators", own, as_it_is, lengths_of(now), name="lengths of actuators")
    rows = [readings.plain(i, {"pair": found.pairs[int(info.item[i])]}) for i in which if info.item[i] in found.pairs]
    s.loop("lengths that are measured", rows, _tell_pair)


def forces(now: Situation, readings: Readings, which: list[int]) -> None:
    """Of actuators along their lengths, and of all that pull along a tendon."""
    s, info, pairs = now.s, readings.info, now.actuators.pairs
    single = [i for i in which if info.kinds[i] == "actuatorfrc" and info.item[i] in pairs]
    rows = [readings.plain(i, {"pair": pairs[int(info.item[i])]}) for i in single]
    s.loop("forces of actuators, measured", rows, _tell_pair)
    several = [i for i in which if info.kinds[i] != "actuatorfrc"]
    sums = {i: s.take(1) for i in several}
    _clear(now, list(sums.values()))
    pulls = [(i, int(a)) for i in several for a in info.numbers[i] if int(a) in pairs]
    table = [Row("pull", {"pair": pairs[a], "sum": sums[i]}) for i, a in pulls]
    s.loop("pulls along tendons", table, lambda code: code.write("sum", [code.read("sum") + code.read("pair")]))
    own = [readings.plain(i, {"sum": sums[i]}) for i in several]
    s.loop("forces along tendons, measured", own, lambda code: tell(code, [code.read("sum")]))


def _clear(now: Situation, places: list[Place], count: int = 1) -> None:
    rows = [Row("sum", {"sum": place}) for place in places]
    now.s.loop("nothing yet", rows, lambda code: code.write("sum", [0.0] * count))


def tendons(now: Situation, readings: Readings, which: list[int]) -> None:
    """How long tendons are, whether anything pulls along them or not."""
    s, info, along = now.s, readings.info, lengths_of(now)
    pairs = {i: s.take(2) for i in which}
    _clear(now, list(pairs.values()), 2)
    on_paths = [i for i in which if info.item[i] in along.lengths]
    table = [Row("path", {"pair": pairs[i], "length": along.lengths[int(info.item[i])]}) for i in on_paths]
    s.loop("lengths of paths, measured", table, lambda code: code.write("pair", [code.read("length"), 0.0]))
    levers = [
        Row("path", {"pair": pairs[i], "moment": place, "vel": s.arrays_of(Owner.DOF, dof)["vel"]})
        for i in on_paths
        for dof, place in along.moments[int(info.item[i])].items()
    ]
    for i in which:
        for dof, lever in enumerate(info.numbers[i]):
            if lever:
                arrays = s.arrays_of_dof(dof)
                places = {"pair": pairs[i], "qpos": arrays["qpos"], "vel": arrays["vel"]}
                levers.append(Row("sum", places, {"lever": [lever]}))

    def body(code: RowCode) -> None:
        length, speed = code.array("pair", 2)
        if code.kind == "path":
            code.write("pair", [length, speed + code.read("moment") * code.read("vel")])
        else:
            lever = code.number("lever")
            code.write("pair", [length + lever * code.read("qpos"), speed + lever * code.read("vel")])

    s.loop("levers of tendons, measured", levers, body)
    rows = [readings.plain(i, {"pair": pairs[i]}) for i in which]
    s.loop("tendons that are measured", rows, _tell_pair)
