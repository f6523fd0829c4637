"""What is measured of the whole: the time, and energies."""

from __future__ import annotations

from kinema.trace import SCRATCH

from ..fields.situation import Situation
from ..fields.sums import kinetic_energy, potential_energy, sums_of
from .readings import Readings, tell

KINDS = ("clock", "e_potential", "e_kinetic")


def whole(now: Situation, readings: Readings, which: list[int]) -> None:
    """The time since the scene was built [s]; energies [J], with the weight that links are spared, as MuJoCo has it."""
    s, info = now.s, readings.info
    asked = {info.kinds[i] for i in which}
    found = {}
    if "clock" in asked:
        found["clock"] = s.read("clock")
    if asked - {"clock"}:
        sums = sums_of(now)
        found["e_kinetic"] = kinetic_energy(now, sums)
        found["e_potential"] = potential_energy(now, sums, spared=False)
    places = {kind: s.take_fixed(1) for kind in sorted(found)}
    for kind, place in places.items():
        s.recorder.write(SCRATCH, [found[kind]], place.row)
    rows = [readings.plain(i, {"value": places[info.kinds[i]]}) for i in which]
    s.loop("the whole, measured", rows, lambda code: tell(code, [code.read("value")]))
