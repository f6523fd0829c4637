"""Tables of equality constraints between links (connect, weld, loop joints) and of couplings of joints and tendons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinema.core import Array

from .kinematic_tree import Ints
from .table import Table


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class EqualitiesInfo(Table):
    """One row for each equality constraint between two links: connects, welds and loop joints."""

    names: Sequence[str]
    components: Sequence[tuple[str, ...]]
    """Constrained components: `point`, `line x`, `plane x`, `rotation`, `axis x`, `cross xy`, `screw`, see
    `dynamics/constraints/equalities.py`."""
    link_a: Ints
    link_b: Ints
    """The two links; -1 for the world."""
    frame_a: Ints
    frame_b: Ints
    """Moving frames of the two links; -1 for the world."""
    pos_a: Array
    pos_b: Array
    """Positions of the two constraint frames in their moving frames [m], (n, 3)."""
    rot_a: Array
    rot_b: Array
    """Orientations of the two constraint frames in their moving frames, (n, 3, 3)."""
    torque_scale: Array
    """Weight of rotation relative to translation [m]."""
    pitch: Array
    """Pitch of screw components [m/rad]."""
    solref: Array
    """MuJoCo's solref: time constant [s] and damping ratio, or negative stiffness and damping, (n, 2)."""
    solimp: Array
    """MuJoCo's solimp (impedance), (n, 5)."""
    is_rigid: npt.NDArray[np.bool_]
    """Whether the constraint is rigid: the file gives no solref or solimp, so it is enforced as exactly as a step
    can."""
    active: npt.NDArray[np.bool_]
    """Whether the constraint is initially enabled; disabled constraints are kept only if they can be switched."""
    break_force: Array
    break_torque: Array
    """Force [N] and torque [N m] above which the constraint breaks; infinite if unbreakable."""

    @property
    def breakable(self) -> npt.NDArray[np.bool_]:
        """Mask of the constraints that can break, (n,)."""
        return np.isfinite(self.break_force) | np.isfinite(self.break_torque)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CouplingsInfo(Table):
    """One row for each joint or tendon that is coupled to another one by a polynomial (mimic joints among them)."""

    names: Sequence[str]
    moment_a: Array
    moment_b: Array
    """Moment arms of follower (a) and leader (b): length = moment . q, (n, n_dofs); of a path, 1 for dofs that change
    its length."""
    path_a: Ints
    path_b: Ints
    """Transmission paths whose lengths are coupled; -1 for weighted sums of coordinates."""
    reference_a: Array
    reference_b: Array
    """Reference lengths, subtracted from the lengths; NaN for the length of the path at qpos0."""
    polynomial: Array
    """Coefficients of follower length = polynomial(leader length), ascending powers, (n, 5)."""
    solref: Array
    solimp: Array
    is_rigid: npt.NDArray[np.bool_]
    """Whether the coupling is rigid: the file gives no solref or solimp."""
    active: npt.NDArray[np.bool_]
    """Whether the coupling is initially enabled."""
    equality_idx: Ints
    """Equality constraint (breakable joint) whose breaking disables the coupling; -1 for none."""
