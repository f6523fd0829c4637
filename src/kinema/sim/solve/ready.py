"""What a solution begins with."""

from __future__ import annotations

from dataclasses import dataclass

from kinema.trace import Value

from ..constrain.contacts import Axes
from ..constrain.rows import Rows
from ..rigid.kinematics import Pose
from ..sweeps.factors import Factors
from ..sweeps.matrix import TreeMatrix
from ..sweeps.quantities import Quantity

OfDofs = Quantity[list[Value]]


@dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """All that is known before anything pushes."""

    rows: Rows
    inertia: TreeMatrix
    factors: Factors
    free: OfDofs
    """The accelerations without constraints."""
    axes: Quantity[Axes] | None
    """Of joints, where anything may touch."""
    frames: Quantity[Pose] | None = None
    """Likewise where frames are, about the origin of all contacts."""
