"""What holds links and joints together beside the tree: ties and couplings, one table each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinema.foundation import Array

from .bodies import Ints


@dataclass(kw_only=True, slots=True, eq=False)
class TiesInfo:
    """One row for each pair of links that are held together: connects, welds, joints that close loops."""

    names: list[str]
    parts: list[tuple[str, ...]]
    """What is held: `point`, `line x`, `plane x`, `rotation`, `axis x`, `cross xy`, `screw`, as
    `sim/constrain/ties.py` has them."""
    link_a: Ints
    link_b: Ints
    """-1 for the world."""
    frame_a: Ints
    frame_b: Ints
    """The moving frames these sit in; -1 for the world."""
    pos_a: Array
    pos_b: Array
    """The tied frames in those [m], (n, 3)."""
    rot_a: Array
    rot_b: Array
    """Their axes there, (n, 3, 3)."""
    torque_scale: Array
    """Weight of rotation against translation [m]."""
    pitch: Array
    """Of screws [m/rad]."""
    solref: Array
    solimp: Array
    hard: npt.NDArray[np.bool_]
    """Whether nobody asked for softness: then it holds as well as a step can make it."""
    weight: Array
    """About the inverse inertia that it moves at the start: of translation and of rotation, (n, 2)."""
    active: npt.NDArray[np.bool_]
    """Whether it holds; those that do not are there only where that may be switched."""
    break_force: Array
    break_torque: Array
    """It lets go when it bears more than either [N, N m]; infinite where it never does."""

    @property
    def breakable(self) -> npt.NDArray[np.bool_]:
        """Which of them may break."""
        return np.isfinite(self.break_force) | np.isfinite(self.break_torque)


@dataclass(kw_only=True, slots=True, eq=False)
class CouplingsInfo:
    """One row for each joint or tendon that follows a polynomial of another."""

    names: list[str]
    moment_a: Array
    moment_b: Array
    """Of the follower and the leader, (n, n_dofs); where that is a path, ones for what changes its length."""
    path_a: Ints
    path_b: Ints
    """The paths whose lengths these are; -1 where they are sums of coordinates."""
    reference_a: Array
    reference_b: Array
    """Lengths that count as zero; NaN for that of the path at the start."""
    polynomial: Array
    """(n, 5)"""
    solref: Array
    solimp: Array
    hard: npt.NDArray[np.bool_]
    weight: Array
    """(n,)"""
    active: npt.NDArray[np.bool_]
    """As for ties."""
    tie_idx: Ints
    """The tie that it goes with when that breaks; -1 for none."""
