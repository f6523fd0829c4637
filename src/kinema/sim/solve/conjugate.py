"""The forces of constraints by conjugate gradients: Newton's method without the curvature of what pushes.

The slope is eased by the inertia, whose factors are there already, and each direction keeps what it can of the one
before (Polak and Ribiere's share, none where that would lead uphill). No matrix is made or factorised. The search along
a direction, and where it ends, are those of Newton's method.
"""

from __future__ import annotations

from kinema import trace
from kinema.trace import SCRATCH, Value

from ..sweeps.maths import dot
from ..sweeps.tree import Forest, Node
from .newton import LARGE, Newton
from .ready import OfDofs
from .search import SMALLEST


class ConjugateGradients(Newton):
    """One solution, likewise."""

    exact = False

    def solve(self) -> OfDofs:
        """What constraints and contacts do to joints."""
        s = self.s
        self.steepness = s.take_fixed(1)
        """The slope times the eased slope, a step before."""
        s.recorder.write(SCRATCH, [LARGE], self.steepness.row)
        self.eased: OfDofs = s.quantity("eased slope before")
        self.along: OfDofs = s.quantity("direction before")
        for quantity in (self.eased, self.along):
            s.each_frame("no direction yet", lambda node, q=quantity: q.put(node.here, [0.0] * len(node.dofs)))
        return super().solve()

    def _direction(self) -> OfDofs:
        """The eased slope, and a share of the direction before."""
        s, recorder = self.s, self.s.recorder
        eased = self.factors.solve("eased slope", self.downhill)

        def products(node: Node) -> tuple[Value, Value, Value]:
            others = (eased, self.eased, self.along)
            return tuple(dot(self.downhill[node.here], x[node.here]) for x in others)  # type: ignore[return-value]  # ty: ignore[invalid-explicit-return]

        now, mixed, kept = s.total("share of the direction before", Forest.FRAMES, (0.0, 0.0, 0.0), products)
        before = trace.maximum(recorder.read(SCRATCH, self.steepness.row), SMALLEST)
        share = trace.maximum((now - mixed) / before, 0.0)
        recorder.write(SCRATCH, [trace.select(0.0, now + share * kept, share, 0.0)], self.length.row)
        recorder.write(SCRATCH, [now], self.steepness.row)
        s.each_frame("eased slope, kept", lambda node: self.eased.put(node.here, eased[node.here]))
        self._advance(eased, self.along)
        s.each_frame("direction, kept", lambda node: self.along.put(node.here, eased[node.here]))
        return self.along
