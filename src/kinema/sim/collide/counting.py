"""How many contacts there are, and whether there was room for all of them."""

from __future__ import annotations

from kinema import trace
from kinema.trace import SCRATCH, Value

from ..sweeps.sweeps import Sweeps
from .touches import Touches


def count_contacts(s: Sweeps, touches: Touches, found: Value) -> None:
    """Note how many were found, how many were lost, and the most that there ever were since the last reset."""
    if not s.keeps("n_contacts"):
        return
    lost, wanted = (s.recorder.read(SCRATCH, place.row) for place in (touches.lost, touches.wanted))
    s.write("n_contacts", None, [found])
    s.write("n_lost_contacts", None, [lost])
    s.write("n_iterations", None, [0.0])
    s.write("most_contacts", None, [trace.maximum(s.read("most_contacts"), found + lost)])
    s.write("most_wanted", None, [trace.maximum(s.read("most_wanted"), wanted)])
