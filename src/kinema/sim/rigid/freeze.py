"""Environments that stay where they were last made of numbers.

Whoever asks for nothing gets the cheap way: a frame whose next velocity is no number stays where it is, and from the
next step on so does all of its environment, which is flagged by then. What had to be exact waits for the sum over all
frames instead, and leaves the whole state as it was (`Kept`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kinema import trace
from kinema.trace import SCRATCH, RowCode, Value

from ..settings import Integrator
from ..sweeps.maths import sum_of
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Node

LARGEST = 1e8
"""A speed or a place [SI units] beyond this is no longer one: what is made of their squares is to be a number still."""


def before_step(s: Sweeps, node: Node) -> tuple[list[Value], list[Value]]:
    """Coordinates and velocities of a frame that the step started from."""
    q, v = s.of("qpos", node), s.of("vel", node)
    if s.settings.integrator is not Integrator.RK4:
        return q, v
    phase = s.read("phase")

    def first(now: list[Value], kept: str) -> list[Value]:
        return [trace.select(phase, 0.5, x, y) for x, y in zip(now, s.of(kept, node), strict=True)]

    return first(q, "stage_qpos"), first(v, "stage_vel")


def or_stay(
    flagged: Value, old: tuple[list[Value], list[Value]], q: Sequence[Value], v: Sequence[Value]
) -> tuple[list[Value], list[Value]]:
    """The next state of a frame, or the old one where that is no number or the environment is flagged already."""
    wrong = trace.select(trace.absolute(sum_of(list(v))), LARGEST, flagged, 1.0)

    def kept(new: Sequence[Value], before: list[Value]) -> list[Value]:
        return [trace.select(wrong, 0.5, x, y) for x, y in zip(new, before, strict=True)]

    return kept(q, old[0]), kept(v, old[1])


class Kept:
    """The next state, kept back until it is known whether all of it is made of numbers."""

    def __init__(self, s: Sweeps) -> None:
        self.s = s
        self.stopped = s.take_fixed(1)
        self.q: Quantity[list[Value]] = s.quantity("next coordinates")
        self.v: Quantity[list[Value]] = s.quantity("next velocities")

    def note(self, node: Node, q: Sequence[Value], v: Sequence[Value]) -> None:
        """What a frame would have next."""
        self.q.put(node.here, list(q))
        self.v.put(node.here, list(v))

    def write(self, error: Value) -> None:
        """The next state, or where there is an error the one that the step started from."""
        s = self.s
        s.recorder.write(SCRATCH, [error], self.stopped.row)
        before = "stage_" if s.settings.integrator is Integrator.RK4 else ""
        rows = []
        for node in s.nodes:
            rows.append(s.frame_row(node))
            rows[-1].places["stopped"] = self.stopped

        def body(code: RowCode) -> None:
            node, stopped = s.node(code), code.read("stopped")
            for name, found in (("qpos", self.q), ("vel", self.v)):
                pairs = zip(found[node.here], s.of(before + name, node), strict=True)
                s.write(name, node, [trace.select(stopped, 0.5, new, old) for new, old in pairs])

        s.loop("the next state, where it is made of numbers", rows, body)
