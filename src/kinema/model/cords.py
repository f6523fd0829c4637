"""What pulls along a length: actuators and tendons, one table each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinema.foundation import Array

from .bodies import Ints


@dataclass(kw_only=True, slots=True, eq=False)
class ActuatorsInfo:
    """One row for each actuator: force = gain(l, l') drive + bias(l, l'), along its length l.

    What drives it is its control, or an activation that follows the control by dynamics of its own and is state.

    It pulls on degrees of freedom with constant moments (joints, fixed tendons: l = moment . q), or on one moving frame
    with a wrench that is constant there (a thruster: l stays zero).
    """

    names: list[str]
    kinds: list[str]
    """How force follows from what drives it: `affine`, `muscle`; `muscle gain`, `muscle bias` where only one of the two
    is a muscle's; `orientation` where several rows find it together."""
    moment: Array
    """Length over coordinates, (n, n_dofs)."""
    frame_idx: Ints
    """The frame it pulls on; -1 for none."""
    link_idx: Ints
    """The link that it pulls to whatever touches it (adhesion); -1 for none."""
    frame_torque: Array
    frame_force: Array
    """The wrench on that frame, about its origin, at unit force, (n, 3) each."""
    gain: Array
    """Constant, length and velocity terms, (n, 3)."""
    bias: Array
    """Likewise, (n, 3)."""
    ctrl_lower: Array
    ctrl_upper: Array
    force_lower: Array
    force_upper: Array
    shared_idx: Ints
    """Equal for actuators whose forces are bounded together, because they pull along the same tendon; -1 for others."""
    shared_lower: Array
    shared_upper: Array
    """The bounds of the sum of these."""
    servo_idx: Ints
    """Equal for rows that turn something together to where they say (an orientation servo); -1 for others."""
    path_idx: Ints
    """The path that its length comes from; -1 for none. Then `moment` is what the path's own length and moment are
    multiplied by, for each degree of freedom that changes it."""
    turn: Array
    """Of a position servo whose length is an angle: what its length counts for a radian. It goes the shorter way round.
    Zero for others."""
    dynamics: list[str]
    """How its activation follows its control: `none`, `integrator`, `filter`, `filterexact`, `muscle`, and `smooth
    muscle`, whose time constants change smoothly."""
    early: npt.NDArray[np.bool_]
    """Whether it already pulls with the activation of the next step."""
    time_constants: Array
    """Of a filter [s]; of a muscle, activation and deactivation [s] and the width of the change between, (n, 3)."""
    delay: Array
    """How late it hears its control [s]."""
    samples: Ints
    """How many controls of earlier steps it remembers for that; none where it hears the present one."""
    interpolation: list[str]
    """What it hears between two of them: `zoh` (the older), `linear`, `cubic`."""
    act_lower: Array
    act_upper: Array
    """Bounds of its activation."""
    muscle_gain: Array
    """Of a muscle's active force: its shortest length, that in optimal lengths, one over the optimal length, one over
    the greatest speed; two over the widths of the curve below and above the optimum; the force at fast lengthening,
    how much of that is above one, and one over it, (n, 9)."""
    muscle_bias: Array
    """Of a muscle's passive force: the first three likewise, two over the width of the curve, its height, (n, 5)."""
    peak_force: Array
    """Of a muscle's active and passive force [N], (n, 2)."""
    per_acceleration: npt.NDArray[np.bool_]
    """Where that is still to be divided by the acceleration that a unit force makes at the start, (n, 2)."""

    @property
    def has_activation(self) -> npt.NDArray[np.bool_]:
        """Which of them have an activation."""
        return np.array([kind != "none" for kind in self.dynamics], dtype=np.bool_)


@dataclass(kw_only=True, slots=True, eq=False)
class TendonsInfo:
    """One row for each tendon with a spring or damper in it, a limit or friction."""

    names: list[str]
    kinds: list[str]
    """How the length follows from coordinates: `fixed`, a weighted sum of them, or `spatial`, along a path; both are
    `... yielding` where the spring may give way for good. Or that of a `drive` with a target, along a path as well; or
    of a `brake`, the damper of a joint that closes a loop."""
    moment: Array
    """Length over coordinates, (n, n_dofs)."""
    stiffness: Array
    stiffness_poly: Array
    damping: Array
    damping_poly: Array
    spring_yield: Array
    """As for degrees of freedom."""
    tie_idx: Ints
    """The tie that it goes with when that breaks; -1 for none."""
    per_inertia: npt.NDArray[np.bool_]
    """Whether stiffness and damping are still to be multiplied by the inertia that its length moves at the start."""
    target_speed: Array
    """That the damper of a drive keeps to [m/s or rad/s]."""
    most_force: Array
    """Of a drive [N or N m]."""
    rest_lower: Array
    rest_upper: Array
    """The spring pulls below and above these lengths [m or rad]; NaN for the length where joints' springs rest."""
    path_idx: Ints
    """As for actuators."""
    armature: Array
    """Inertia against changes of its length [kg or kg m2]."""
    lower: Array
    upper: Array
    limit_margin: Array
    limit_solref: Array
    limit_solimp: Array
    limit_spring: Array
    patient: npt.NDArray[np.bool_]
    """Whether limits push back gently from afar: where files know nothing of how hard they are."""
    frictionloss: Array
    friction_solref: Array
    friction_solimp: Array
    """As for degrees of freedom."""
    weight: Array
    """About the inverse of the inertia that it moves at the start."""
