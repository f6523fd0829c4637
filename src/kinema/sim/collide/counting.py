"""How many contacts there are, and whether there was room for all of them."""

from __future__ import annotations

from dataclasses import dataclass

from kinema import trace
from kinema.trace import SCRATCH, Value

from ..sweeps.maths import sum_of
from ..sweeps.sweeps import Sweeps
from .listing import Lists
from .touches import Touches


@dataclass(frozen=True, slots=True)
class Counted:
    """How many contacts there are."""

    found: Value
    lost: Value
    """For which there was no room."""
    wanted: Value
    """The most that were to be kept in one place, where there was not enough room; else 0."""


def counted(s: Sweeps, touches: Touches | Lists) -> Counted:
    """All of them."""
    if isinstance(touches, Touches):
        places = (touches.lost, touches.wanted)
        return Counted(touches.number(), *(s.recorder.read(SCRATCH, place.row) for place in places))
    wanted: Value = 0.0
    kept: list[Value] = []
    lost: list[Value] = []
    for law in touches.laws:
        found = sum_of([s.recorder.read(SCRATCH, x.count.row) for x in law.lists])
        kept.append(trace.minimum(sum_of(law.numbers(s)), float(law.capacity)))
        lost.append(found - kept[-1])
        wanted = trace.maximum(wanted, trace.select(0.5, lost[-1], found, 0.0))
    return Counted(sum_of(kept), sum_of(lost), wanted)


def count_contacts(s: Sweeps, counts: Counted) -> None:
    """Note how many were found, how many were lost, and the most that there ever were since the last reset."""
    if not s.keeps("n_contacts"):
        return
    found, lost, wanted = counts.found, counts.lost, counts.wanted
    s.write("n_contacts", None, [found])
    s.write("n_lost_contacts", None, [lost])
    s.write("n_iterations", None, [0.0])
    s.write("most_contacts", None, [trace.maximum(s.read("most_contacts"), found + lost)])
    s.write("most_wanted", None, [trace.maximum(s.read("most_wanted"), wanted)])
