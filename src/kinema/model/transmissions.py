"""Tables of transmissions: actuators, tendons, and the transmission path segments whose lengths they act along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from kinema.core import Array

from .kinematic_tree import Ints
from .table import Table

CONTROL_INPUTS = ("pos", "vel", "ff", "voltage")
"""Control inputs of PID controllers and DC motors, in the order of their rows."""
SERVO_STATES = ("setpoint", "integral", "temperature", "bristle", "current")
"""State variables of PID controllers and DC motors: setpoint behind the slew-rate limit, integral of the position
error, temperature above ambient [K], bristle deflection of the friction model, current [A]."""
SERVO_PARAMETERS = (
    *("kp", "ki", "kv", "integral_limit", "slew_rate", "max_voltage", "constant"),
    *("resistance", "motor_constant", "time_constant", "max_current_rate"),
    *("temperature_coefficient", "reference_temperature", "ambient_temperature"),
    *("thermal_resistance", "thermal_capacitance"),
    *("cogging_amplitude", "cogging_poles", "cogging_phase"),
    *("coulomb_friction", "static_friction", "stribeck_velocity", "bristle_stiffness", "bristle_damping"),
)
"""Names of the columns of `ActuatorsInfo.servo_params`."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ActuatorsInfo(Table):
    """One row for each actuator: force = gain(l, l') u + bias(l, l') along its transmission length l.

    u is the control, or the activation if the actuator has activation dynamics; activations are state variables. The
    transmission acts on dofs with constant moment arms (joints, fixed tendons: l = moment . q), along a transmission
    path, or on one moving frame with a wrench that is constant in the frame (site transmission: l = 0).
    """

    names: Sequence[str]
    kinds: Sequence[str]
    """Force law: `affine`, `muscle`; `muscle gain` or `muscle bias` if only gain or bias is a muscle's; `orientation`
    for the rows of an orientation servo; `pid` and `dcmotor`, of which further controls have rows of kind `input`."""
    moment: Array
    """Moment arms, derivatives of the length by the coordinates, (n, n_dofs)."""
    on_joint: npt.NDArray[np.bool_]
    """Whether the transmission is a single joint (MJCF `joint`, `jointinparent`)."""
    frame_idx: Ints
    """Moving frame on which an actuator with site transmission acts; -1 for none."""
    link_idx: Ints
    """Link of an adhesion actuator; -1 for none."""
    frame_torque: Array
    frame_force: Array
    """Wrench on the frame about its origin at unit force, in frame axes, (n, 3) each."""
    gain: Array
    """Gain parameters: constant, length and velocity terms, (n, 3)."""
    bias: Array
    """Bias parameters: constant, length and velocity terms, (n, 3)."""
    ctrl_lower: Array
    ctrl_upper: Array
    """Control range."""
    force_lower: Array
    force_upper: Array
    """Force range [N or N m]."""
    force_group_idx: Ints
    """Group of actuators on the same tendon whose total force is bounded; -1 for none."""
    force_group_lower: Array
    force_group_upper: Array
    """Bounds of the total force of the group [N]."""
    orientation_servo_idx: Ints
    """Orientation servo to which the row belongs (several rows form one servo); -1 for none."""
    path_idx: Ints
    """Transmission path whose length is the actuator length; -1 for none. Then `moment` is the factor of the path's
    length and moment arms, for each dof that changes the length."""
    length_per_radian: Array
    """For position servos of an angle: actuator length per radian, so that the servo takes the shorter way round; zero
    for all others."""
    dynamics: Sequence[str]
    """Activation dynamics: `none`, `integrator`, `filter`, `filterexact`, `muscle` or `smooth muscle` (time constants
    blended smoothly)."""
    act_early: npt.NDArray[np.bool_]
    """Whether the force uses the activation of the next step (MuJoCo's actearly)."""
    time_constants: Array
    """Of a filter [s]; of a muscle, activation and deactivation [s] and smoothing width, (n, 3)."""
    delay: Array
    """Delay of the control [s]."""
    n_delay_samples: Ints
    """Number of stored controls of earlier steps; 0 without delay."""
    interpolation: Sequence[str]
    """Interpolation between stored controls: `zoh` (zero-order hold), `linear` or `cubic`."""
    act_lower: Array
    act_upper: Array
    """Range of the activation."""
    muscle_gain_params: Array
    """Parameters of the active muscle force: shortest length; the same in optimal lengths; 1 / optimal length; 1 /
    maximum velocity; 2 / width of the force-length curve below and above the optimum; force at fast lengthening fvmax;
    fvmax - 1; 1 / (fvmax - 1), (n, 9)."""
    muscle_bias_params: Array
    """Parameters of the passive muscle force: shortest length; the same in optimal lengths; 1 / optimal length; 2 /
    width of the curve; its height, (n, 5)."""
    peak_force: Array
    """Peak force of the active and the passive muscle force [N], (n, 2)."""
    peak_force_needs_acc0: npt.NDArray[np.bool_]
    """Whether the peak force is still to be divided by acc0, the acceleration of a unit force at qpos0, (n, 2)."""

    control_inputs: Sequence[tuple[str, ...]]
    """Names of the controls of a PID controller or DC motor (`CONTROL_INPUTS`), which its own and the following rows
    have; empty for other rows."""
    servo_states: Sequence[tuple[str, ...]]
    """Names of the states of a PID controller or DC motor (`SERVO_STATES`); empty for other rows."""
    servo_params: Array
    """Parameters of PID controllers and DC motors (`SERVO_PARAMETERS`), (n, 24), 0 for other rows; (n, 0) if there are
    none of these."""

    @property
    def force_row(self) -> Ints:
        """Row with the force law of the actuator that each row is a control of, (n,)."""
        rows = np.arange(len(self.names), dtype=np.int32)
        for i, inputs in enumerate(self.control_inputs):
            rows[i : i + len(inputs)] = i
        return rows

    @property
    def control_moment(self) -> Array:
        """Moment arms of the actuator that each row is a control of, (n, n_dofs)."""
        return self.moment[self.force_row]

    @property
    def has_activation(self) -> npt.NDArray[np.bool_]:
        """Mask of the actuators with an activation, (n,)."""
        return np.array([kind != "none" for kind in self.dynamics], dtype=np.bool_)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TendonsInfo(Table):
    """One row for each tendon with a spring, damper, limit or friction."""

    names: Sequence[str]
    kinds: Sequence[str]
    """`fixed` (weighted sum of coordinates) or `spatial` (along a path), with suffix ` yielding` for plastic springs;
    `drive` for a drive with a target along a path, `brake` for the damper of a loop joint."""
    moment: Array
    """Moment arms, derivatives of the length by the coordinates, (n, n_dofs)."""
    stiffness: Array
    stiffness_poly: Array
    damping: Array
    damping_poly: Array
    spring_yield: Array
    """Spring and damper parameters as in `DofsInfo`."""
    equality_idx: Ints
    """Equality constraint (breakable joint) whose breaking disables the tendon; -1 for none."""
    acceleration_drive: npt.NDArray[np.bool_]
    """Whether stiffness and damping are still to be multiplied by the effective inertia at qpos0."""
    target_vel: Array
    """Target velocity of a drive [m/s or rad/s]."""
    max_force: Array
    """Maximum force of a drive [N or N m]."""
    rest_lower: Array
    rest_upper: Array
    """Dead band of the spring: no force between these lengths [m or rad]; NaN for the length at which joint springs
    rest."""
    path_idx: Ints
    """Transmission path whose length is the tendon length; -1 for none (see `ActuatorsInfo.path_idx`)."""
    armature: Array
    """Inertia of changes of the length [kg or kg m2]."""
    lower: Array
    upper: Array
    limit_margin: Array
    limit_solref: Array
    limit_solimp: Array
    limit_spring: Array
    limits_correction_speed: npt.NDArray[np.bool_]
    """Whether limits correct large violations with bounded velocity: for files without stiffness parameters of
    limits."""
    frictionloss: Array
    friction_solref: Array
    friction_solimp: Array
    """Limit and friction parameters as in `DofsInfo`."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PathSegmentsInfo(Table):
    """One row for each segment of a transmission path, a length between sites with configuration-dependent moment arms.

    Transmission paths are spatial tendons, and actuator lengths that are neither coordinates nor sums of coordinates.
    """

    path_idx: Ints
    """Transmission path of the segment; its length is the sum over the segments."""
    kinds: Sequence[str]
    """`straight`, `sphere` or `cylinder` (wrapping, optionally with a side site), `crank`, and between two frames
    `pose`, `pose_child_axes`, `wrench` and `wrench_child_axes`: see `dynamics/forces/transmission_paths.py`."""
    frame_idx: Ints
    """Moving frames, -1 for the world: of the start, the end, the wrapping geom and the side site, (n, 4)."""
    pos: Array
    """Positions of the four sites in their frames [m], (n, 4, 3)."""
    rot: Array
    """Orientations of the four sites in their frames, (n, 4, 3, 3)."""
    scale: Array
    """Factor of the segment's length: the inverse of the pulley divisor."""
    params: Array
    """Wrapping radius; rod length of a slider-crank; or gear (three translational, three rotational), (n, 6)."""
    dof_mask: npt.NDArray[np.bool_]
    """Dofs that change the length, (n, n_dofs)."""


@cache
def empty_path_segments() -> PathSegmentsInfo:
    """Table of transmission path segments without rows."""
    return PathSegmentsInfo(
        path_idx=np.zeros(0, np.int32),
        kinds=[],
        frame_idx=np.zeros((0, 4), np.int32),
        pos=np.zeros((0, 4, 3)),
        rot=np.zeros((0, 4, 3, 3)),
        scale=np.zeros(0),
        params=np.zeros((0, 6)),
        dof_mask=np.zeros((0, 0), np.bool_),
    )
