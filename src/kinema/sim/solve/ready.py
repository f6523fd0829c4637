"""What a solution begins with."""

from __future__ import annotations

from dataclasses import dataclass

from kinema.trace import SCRATCH, Place, Value

from ..constrain.contacts import Axes
from ..constrain.rows import Rows
from ..rigid.kinematics import Pose
from ..sweeps.factors import Factors
from ..sweeps.maths import dot
from ..sweeps.matrix import TreeMatrix
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Forest

OfDofs = Quantity[list[Value]]


@dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """All that is known before anything pushes."""

    rows: Rows
    inertia: TreeMatrix
    factors: Factors
    free: OfDofs
    """The accelerations without constraints."""
    work: Place | None
    """That of the forces which make these, if they are known."""
    axes: Quantity[Axes] | None
    """Of joints, where anything may touch."""
    frames: Quantity[Pose] | None = None
    """Likewise where frames are, about the origin of all contacts."""


def work_of(s: Sweeps, free: OfDofs, force: OfDofs | None) -> Place | None:
    """The work of forces with the accelerations that they make."""
    if force is None:
        return None
    (found,) = s.total("work", Forest.FRAMES, [0.0], lambda node: [dot(free[node.here], force[node.here])])
    place = s.take_fixed(1)
    s.recorder.write(SCRATCH, [found], place.row)
    return place
