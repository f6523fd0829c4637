"""When a solution has arrived, though its slope is not nothing: what is left is rounding."""

from __future__ import annotations

from collections.abc import Sequence

from kinema import trace
from kinema.trace import Value

ROUGH = 1e-2
"""A step that leaves all rows as they were has arrived, unless so much of the slope is left against the forces: where
friction is low, pyramids are so steep that single precision loses most of a step, and the next one makes up for it."""
FEWER, LITTLE = 4.0, 20.0
"""A step gains so many times less than the one before, unless what it gains is rounding; so many tolerances are little.
Without this, every third step of 16,384 go2s waited for one in which a row let go and pushed in turn."""


def gains(last: Sequence[Value], moved: Value, tolerance: float) -> Value:
    """1 if the last step gained anything against all that is moved; nor is little, if no less than the one before.

    Stiff contacts round their slopes coarsely, and rows at their limits let go and push in turn.
    """
    gain, before = last
    share = trace.select(FEWER * gain, before, tolerance**2, (LITTLE * tolerance) ** 2)
    return trace.select(share * moved, gain, 1.0, 0.0)
