"""Environments that stay where they were last made of numbers."""

from __future__ import annotations

from collections.abc import Sequence

from kinema import trace
from kinema.trace import SCRATCH, RowCode, Value

from ..settings import Integrator
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Node


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
