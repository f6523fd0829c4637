"""When a solution has arrived, though its slope is not nothing: what is left is rounding."""

from __future__ import annotations

from collections.abc import Sequence

from kinema import trace
from kinema.trace import SCRATCH, Place, Row, RowCode, Value

from ..sweeps.factors import Factors
from ..sweeps.sweeps import Sweeps
from .ready import OfDofs

ROUGH = 1e-2
"""A step that leaves all rows as they were has arrived, unless so much of the slope is left against the forces: where
friction is low, pyramids are so steep that single precision loses most of a step, and the next one makes up for it."""
FEWER, LITTLE = 4.0, 20.0
"""A step gains so many times less than the one before, unless what it gains is rounding; so many tolerances are little.
Without this, every third step of 16,384 go2s waited for one in which a row let go and pushed in turn."""


def note_work(s: Sweeps, factors: Factors, free: OfDofs, to: Place) -> None:
    """The work of what accelerates joints, as if each moved by itself: what they round by does not cancel."""
    s.recorder.write(SCRATCH, [0.0], to.row)
    of_dof = s.places_of_dofs(free)
    rows = [
        Row("dof", {"free": of_dof[dof], "inverse": own, "work": to, **factors.marks[dof]})
        for dof, own in factors.inverses.items()
    ]

    def add(code: RowCode) -> None:
        x = code.read("free")
        code.write("work", [code.read("work") + x * x / code.read("inverse")])

    s.loop("work of free motion", rows, add)


def gains(last: Sequence[Value], moved: Value, tolerance: float) -> Value:
    """1 if the last step gained something against all that moves; little is nothing if it is no less than before.

    Stiff contacts round their slopes coarsely, and rows at their limits let go and push in turn.
    """
    gain, before = last
    share = trace.select(FEWER * gain, before, tolerance**2, (LITTLE * tolerance) ** 2)
    return trace.select(share * moved, gain, 1.0, 0.0)
