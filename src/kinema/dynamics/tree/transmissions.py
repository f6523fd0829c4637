"""Transmissions of actuators and tendons: lengths and velocities, and forces mapped to joints by moment arms.

The length of a transmission is a linear combination of joint coordinates, or the length of a transmission path through
sites. With the moment arm r = d length / d q, the velocity is r v and a scalar force f gives the joint force r^T f.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kinema import ir
from kinema.core import Array
from kinema.ir import SCRATCH, ArenaOffset, IterationContext, LoopIteration, Value
from kinema.model import SERVO_STATES, Model

from ..arrays import PRESENT_ARRAY, ElementKind
from .kinematic_tree import WORLD, FrameNode, NodeRef, frame_ref
from .loop_context import LoopContext
from .node_constants import with_per_env_parameters


@dataclass(frozen=True, slots=True)
class ForceTerm:
    """A force and its derivative by the velocity along which it acts."""

    force: Value
    dforce_dvel: Value


@dataclass(frozen=True, slots=True, eq=False)
class Transmission:
    """One actuator or tendon as seen by a force law: length, velocity and access to its parameters."""

    kind: str
    """Kind of actuator or tendon, as in the table of the model."""
    length: Value
    """Length l [m or rad]."""
    velocity: Value
    """Rate of change of the length [m/s or rad/s]."""
    read: Callable[[str], list[Value]]
    """Reads the values of an array or constant of this transmission by name."""
    frame_ref: NodeRef | None = None
    """The frame on which the actuator also exerts a wrench; None for others."""
    is_angle_servo: bool = False
    """Whether the actuator is a position servo of an angle that wraps around."""
    dynamics: str = "none"
    """Activation dynamics (dyntype); "none" if the control acts directly."""
    act_early: bool = False
    """Whether the force uses the activation of the next step (actearly)."""
    n_delay_samples: int = 0
    """Number of past controls stored for a control delay."""
    interpolation: str = ""
    """Interpolation of past controls: "zoh", "linear" or "cubic"."""
    control_inputs: tuple[str, ...] = ()
    """Control inputs of a PID controller or DC motor; control k is in the array "ctrl k", its range in "range k"."""
    servo_states: tuple[str, ...] = ()
    """State variables of a PID controller or DC motor."""


@dataclass(frozen=True, slots=True)
class TransmissionSpecialization:
    """Specialization key of a transmission: everything that changes the code traced for the transmission."""

    kind: str
    on_frame: bool
    has_moment_arms: bool
    """Whether the length depends on degrees of freedom."""
    is_angle_servo: bool = False
    dynamics: str = "none"
    act_early: bool = False
    n_delay_samples: int = 0
    interpolation: str = ""
    control_inputs: tuple[str, ...] = ()
    servo_states: tuple[str, ...] = ()
    is_breakable: bool = False
    """Whether the transmission belongs to a breakable equality constraint."""


@dataclass(frozen=True, slots=True, eq=False)
class PathLengths:
    """Scratch offsets of the lengths and moment arms of transmission paths."""

    lengths: Mapping[int, ArenaOffset]
    """For each path the offset of its length."""
    moments: Mapping[int, Mapping[int, ArenaOffset]]
    """For each path and each dof that changes its length the offset of the moment arm."""
    end_wrenches: Mapping[int, Mapping[str, ArenaOffset]] = field(default_factory=dict)
    """For each transmission path segment the wrench on each of its ends at unit force (torque about a reference point,
    force), and that point."""


NO_PATH_LENGTHS = PathLengths({}, {})
SERVO_RATES_SIZE = len(SERVO_STATES) + 1
"""Scalars of the rates of a PID controller or DC motor: of its state variables, and its velocity."""
_ARRAY_WIDTHS = {
    **dict.fromkeys(("servo_state", "stage_servo_state", "stage_sum_servo_state"), len(SERVO_STATES)),
    "servo rates": SERVO_RATES_SIZE,
}
"""Scalars of the arrays of actuators that have several."""


class Transmissions:
    """Lengths, velocities and forces of some actuators or tendons, traced on construction.

    Each transmission has a pair of scalars in scratch memory: first (length, velocity), then overwritten by (force,
    derivative of force by velocity). Each dof with a moment arm has a pair (joint force, derivative of joint force by
    its velocity). Transmissions of frames outside the context are ignored.
    """

    def __init__(
        self,
        ctx: LoopContext,
        table_name: str,
        indices: Sequence[int],
        force_law: Callable[[Transmission], ForceTerm],
        path_lengths: PathLengths = NO_PATH_LENGTHS,
        name: str = "",
        adjust_forces: Callable[[Transmissions], None] | None = None,
    ) -> None:
        """Trace all loops.

        Args:
            ctx: tracing context.
            table_name: table of the model, "actuators" or "tendons".
            indices: rows of the table.
            force_law: scalar force along a transmission and its derivative by velocity.
            path_lengths: lengths and moment arms of transmissions along paths.
            name: label, if other quantities of the same table are computed elsewhere.
            adjust_forces: called after the forces are traced and before they are mapped to joints.
        """
        self.ctx = ctx
        self.path_lengths = path_lengths
        self.name = name or table_name
        self.table_name = table_name
        table, self._columns = getattr(ctx.model, table_name), transmission_columns(ctx.model, table_name)
        context_dofs = {d for node in ctx.nodes for d in node.dofs}
        self.moments: dict[int, dict[int, float]] = {}
        for i in indices:
            moment = {int(d): float(table.moment[i, d]) for d in table.moment[i].nonzero()[0]}
            frame = int(table.frame_idx[i]) if hasattr(table, "frame_idx") else WORLD
            if context_dofs.issuperset(moment) and (moment or any(n.index == frame for n in ctx.nodes)):
                self.moments[i] = moment
        self.path_of_transmission = {
            i: int(table.path_idx[i]) for i in self.moments if table.path_idx[i] >= 0 and self.moments[i]
        }
        self.in_matrix_only = matrix_derivative_actuators(ctx.model) if table_name == "actuators" else frozenset()
        self.pair_offsets = {i: ctx.allocate(2) for i in self.moments}
        servos = [i for i in self.moments if table_name == "actuators" and table.servo_states[i]]
        self.servo_rate_offsets = {i: ctx.allocate(SERVO_RATES_SIZE) for i in servos}
        """Scratch offset of the rates of the state variables of each PID controller and DC motor, and its velocity."""
        actuated_dofs = {d for moment in self.moments.values() for d in moment}
        self._joint_force_offsets: dict[int, ArenaOffset] = {}
        for node in ctx.nodes:
            if actuated_dofs.intersection(node.dofs):
                start = ctx.allocate(2 * len(node.dofs)).row
                self._joint_force_offsets |= {
                    dof: ArenaOffset(SCRATCH, start + 2 * k) for k, dof in enumerate(node.dofs)
                }
        self._trace_loops(table, force_law, adjust_forces)

    def _trace_loops(
        self,
        table: Any,
        force_law: Callable[[Transmission], ForceTerm],
        adjust_forces: Callable[[Transmissions], None] | None,
    ) -> None:
        """Trace the loops that compute lengths and velocities, forces along transmissions, and joint forces."""
        ctx = self.ctx
        clear = [
            LoopIteration("pair", {"pair": offset})
            for offset in (*self.pair_offsets.values(), *self._joint_force_offsets.values())
        ]
        ctx.for_each(f"clear {self.name}", clear, lambda iteration: iteration.write("pair", [0.0, 0.0]))
        ctx.for_each(
            f"path lengths of {self.name}",
            [self._path_iteration(i) for i in self.path_of_transmission],
            self._init_from_path,
        )
        moment_arms = [(i, dof, arm) for i, moment in self.moments.items() for dof, arm in moment.items()]
        ctx.for_each(
            f"lengths of {self.name}", [self._moment_arm_iteration(*x) for x in moment_arms], self._accumulate_length
        )
        ctx.for_each(
            f"forces of {self.name}",
            [self._transmission_iteration(table, i) for i in self.moments],
            self._force_code(force_law),
        )
        if adjust_forces is not None:
            adjust_forces(self)
        ctx.for_each(
            f"joint forces of {self.name}",
            [self._moment_arm_iteration(*x) for x in moment_arms],
            self._accumulate_joint_force,
        )

    def _path_iteration(self, index: int) -> LoopIteration:
        dof, scale = next(iter(self.moments[index].items()))
        return LoopIteration(
            "path",
            {"pair": self.pair_offsets[index], "length": self.path_lengths.lengths[self.path_of_transmission[index]]},
            self._moment_constants(f"{index} {dof}", [scale]),
        )

    @staticmethod
    def _init_from_path(iteration: IterationContext) -> None:
        iteration.write("pair", [iteration.constant(MOMENT_ARM) * iteration.read("length"), 0.0])

    def _moment_arm_iteration(self, index: int, dof: int, moment_arm: float) -> LoopIteration:
        """Loop iteration of one moment arm: a transmission, one of its dofs, and the constant factor of the moment arm.

        Specializations: "linear" adds moment arm times coordinate to the length; "angular" (a dof without coordinate of
        its own) and "path" (the length is computed from the tendon path) contribute to the velocity only.
        """
        dofs, arrays = self.ctx.model.dofs, self.ctx.element_arrays(ElementKind.DOF, dof)
        offsets = {"pair": self.pair_offsets[index], "vel": arrays["vel"], "joint": self._joint_force_offsets[dof]}
        if index in self.path_of_transmission:
            offsets["moment"] = self.path_lengths.moments[self.path_of_transmission[index]][dof]
            specialization = "path"
        elif dofs.q_idx[dof] < 0:
            specialization = "angular"
        else:
            offsets["qpos"] = self.ctx.element_arrays(ElementKind.COORDINATE, int(dofs.q_idx[dof]))["qpos"]
            specialization = "linear"
        suffix = MATRIX_DERIVATIVE if index in self.in_matrix_only else ""
        return LoopIteration(specialization + suffix, offsets, self._moment_constants(f"{index} {dof}", [moment_arm]))

    def _moment_constants(self, element: str, values: Sequence[float]) -> dict[str, Any]:
        """Moment arm of a transmission and dof, or product of two, as a constant or per-environment parameter."""
        return with_per_env_parameters(self.ctx, _moment_kind(self.table_name), element, {MOMENT_ARM: values})

    @staticmethod
    def _moment_arm(iteration: IterationContext) -> Value:
        return iteration.constant(MOMENT_ARM) * (iteration.read("moment") if iteration.has_array("moment") else 1.0)

    @classmethod
    def _accumulate_length(cls, iteration: IterationContext) -> None:
        moment_arm = cls._moment_arm(iteration)
        length, velocity = iteration.read_array("pair", 2)
        if iteration.has_array("qpos"):
            length = length + moment_arm * iteration.read("qpos")
        iteration.write("pair", [length, velocity + moment_arm * iteration.read("vel")])

    @classmethod
    def _accumulate_joint_force(cls, iteration: IterationContext) -> None:
        """Add moment arm times transmission force to the joint force of a dof, and its velocity derivative likewise.

        The derivative is left out for actuators whose derivative enters the matrix separately.
        """
        moment_arm = cls._moment_arm(iteration)
        if str(iteration.specialization).endswith(MATRIX_DERIVATIVE):
            iteration.write("joint", [iteration.read("joint") + moment_arm * iteration.read("pair")])
            return
        (force, derivative), (joint_force, joint_derivative) = (
            iteration.read_array("pair", 2),
            iteration.read_array("joint", 2),
        )
        iteration.write(
            "joint", [joint_force + moment_arm * force, joint_derivative + (moment_arm * moment_arm) * derivative]
        )

    def _transmission_iteration(self, table: Any, index: int) -> LoopIteration:
        """Iteration of an actuator or tendon for its force law: specialization, pair (length, velocity), parameters."""
        frame = int(table.frame_idx[index]) if hasattr(table, "frame_idx") else WORLD
        is_angle_servo = hasattr(table, "length_per_radian") and bool(table.length_per_radian[index])
        specialization = TransmissionSpecialization(
            table.kinds[index], frame != WORLD, bool(self.moments[index]), is_angle_servo
        )
        offsets: dict[str, ArenaOffset] = {"pair": self.pair_offsets[index]}
        if self.name == "actuators":
            delay = {"n_delay_samples": int(table.n_delay_samples[index]), "interpolation": table.interpolation[index]}
            specialization = replace(
                specialization, dynamics=table.dynamics[index], act_early=bool(table.act_early[index]), **delay
            )
            offsets |= self._control_offsets(index)
            inputs, states = table.control_inputs[index], table.servo_states[index]
            specialization = replace(specialization, control_inputs=inputs, servo_states=states)
            for k in range(len(inputs)):
                offsets |= {f"{name} {k}": offset for name, offset in self._control_offsets(index + k).items()}
            if index in self.servo_rate_offsets:
                offsets["servo rates"] = self.servo_rate_offsets[index]
        elif hasattr(table, "spring_yield") and np.isfinite(table.spring_yield[index]):
            offsets |= self.ctx.element_arrays(ElementKind.TENDON, index)
        equality = int(table.equality_idx[index]) if hasattr(table, "equality_idx") else -1
        if equality >= 0 and "broken" in self.ctx.array_offsets:
            specialization = replace(specialization, is_breakable=True)
            offsets["broken"] = self.ctx.element_arrays(ElementKind.EQUALITY, equality)["broken"]
        constants = with_per_env_parameters(
            self.ctx, self.table_name, index, _row_constants(table, self._columns, index)
        )
        bindings = {"frame ": frame_ref(frame)} if frame != WORLD else {}
        return self.ctx.node_iteration(specialization, bindings, offsets, constants)

    def _control_offsets(self, index: int) -> dict[str, ArenaOffset]:
        """Arrays of an actuator: its control, states, and the past controls if they are delayed."""
        n_samples = self.ctx.model.actuators.n_delay_samples
        offsets = dict(self.ctx.element_arrays(ElementKind.ACTUATOR, index))
        if n_samples[index]:
            offsets |= self.ctx.element_arrays(ElementKind.DELAY_SAMPLE, int(n_samples[:index].sum()))
        return offsets

    def _force_code(self, force_law: Callable[[Transmission], ForceTerm]) -> Callable[[IterationContext], None]:
        """Loop body that applies the force law: (length, velocity) in memory becomes (force, derivative by velocity).

        Broken transmissions give zero.
        """

        def run(iteration: IterationContext) -> None:
            specialization = iteration.specialization
            assert isinstance(specialization, TransmissionSpecialization)
            length, velocity = iteration.read_array("pair", 2) if specialization.has_moment_arms else (0.0, 0.0)
            term = force_law(_transmission_of_iteration(iteration, length, velocity))
            intact = 1.0 - iteration.read("broken") if specialization.is_breakable else 1.0
            iteration.write("pair", [intact * term.force, intact * term.dforce_dvel])

        return run

    def for_each(
        self, name: str, body: Callable[[Transmission], None], only: Callable[[TransmissionSpecialization], bool]
    ) -> None:
        """Trace a loop over the transmissions whose specialization satisfies `only`, without length and velocity.

        Used after the force law, which overwrites (length, velocity) by forces.
        """
        table = getattr(self.ctx.model, self.name)
        rows = [self._transmission_iteration(table, i) for i in self.moments]
        rows = [
            row
            for row in rows
            if isinstance(row.specialization, TransmissionSpecialization) and only(row.specialization)
        ]
        self.ctx.for_each(name, rows, lambda iteration: body(_transmission_of_iteration(iteration, 0.0, 0.0)))

    def acts_on(self, node: FrameNode) -> bool:
        """Whether a transmission acts on the joint of a frame."""
        return node.dofs.start in self._joint_force_offsets

    def frame_offsets(self, node: FrameNode) -> Mapping[str, ArenaOffset]:
        """Arena offset of the joint forces of a frame, by the name that its loop iteration binds."""
        return {f"forces of {self.name}": self._joint_force_offsets[node.dofs.start]} if self.acts_on(node) else {}

    def forces_on_joint(self, node: FrameNode) -> list[ForceTerm]:
        """Joint force of all transmissions on each dof of a frame, with the derivative by the dof's velocity.

        Read in the loop body being traced; zero if no transmission acts on the joint.
        """
        iteration = self.ctx.iteration
        if self.name not in iteration.specialization.transmissions:  # type: ignore[attr-defined]
            return [ForceTerm(0.0, 0.0)] * len(node.dofs)
        flat = iteration.read_array(f"forces of {self.name}", 2 * len(node.dofs))
        return [ForceTerm(flat[2 * k], flat[2 * k + 1]) for k in range(len(node.dofs))]

    def total_force(self) -> Value:
        """Trace the sum of the scalar forces of the transmissions of trees that are present; returns the sum."""
        offset = self.ctx.allocate_fixed(1)
        self.ctx.tracer.write(SCRATCH, [0.0], offset.row)
        rows = []
        for index, pair in self.pair_offsets.items():
            frames = [int(self.ctx.model.dofs.frame_idx[dof]) for dof in self.moments[index]]
            presence = self.ctx.presence_of_frame(frames[0]) if frames else {}
            rows.append(
                LoopIteration("can be absent" if presence else "pair", {"pair": pair, "total": offset, **presence})
            )

        def body(iteration: IterationContext) -> None:
            force = iteration.read("pair")
            if iteration.has_array(PRESENT_ARRAY):
                force = ir.select(0.5, iteration.read(PRESENT_ARRAY), force, 0.0)
            iteration.write("total", [iteration.read("total") + force])

        self.ctx.for_each(f"total of {self.name}", rows, body)
        return self.ctx.tracer.read(SCRATCH, offset.row)

    def dof_pair_iterations(self, entry: Callable[[int, int], ArenaOffset]) -> list[LoopIteration]:
        """Iterations of the pairs (dof, ancestor dof) that share a transmission, to add force derivatives to a matrix.

        Pairs of a dof with itself are included for transmissions in `matrix_derivative_actuators`. Iterations have the
        arrays `entry` (the matrix entry at `entry(dof, ancestor)`) and `pair` (force, derivative), and the product of
        moment arms (`moment_arm_product`).
        """
        rows: list[LoopIteration] = []
        for i, moment in self.moments.items():
            moments = self.path_lengths.moments[self.path_of_transmission[i]] if i in self.path_of_transmission else {}
            for dof, arm in moment.items():
                ancestors = set(self.ctx.tree.ancestor_dofs(dof)) | ({dof} if i in self.in_matrix_only else set())
                for ancestor in (other for other in moment if other in ancestors):
                    offsets = {"entry": entry(dof, ancestor), "pair": self.pair_offsets[i]}
                    offsets |= {"a": moments[dof], "b": moments[ancestor]} if moments else {}
                    specialization = "path" if moments else "constant"
                    constants = self._moment_constants(f"{i} {dof} {ancestor}", [arm * moment[ancestor]])
                    rows.append(self.ctx.node_iteration(specialization, {}, offsets, constants))
        return rows


MATRIX_DERIVATIVE = ", derivative in the matrix"
"""Suffix of the specialization of moment arms of the actuators in `matrix_derivative_actuators`."""


def matrix_derivative_actuators(model: Model) -> frozenset[int]:
    """Actuators whose velocity derivative enters the implicit matrix even where the effort limit of a joint is reached.

    As in MuJoCo, a reached limit (`actuatorfrcrange`) zeroes the derivatives of the actuators of that joint, but not of
    actuators of tendons, sites and slider-cranks. Returns the indices of the latter that act on a dof with a limit.
    """
    limited = np.isfinite(model.dofs.effort_lower) | np.isfinite(model.dofs.effort_upper)
    acts_on_limited = (model.actuators.moment[:, limited] != 0).any(axis=1)
    return frozenset(np.flatnonzero(acts_on_limited & ~model.actuators.on_joint).tolist())


def transmission_columns(model: Model, table_name: str) -> dict[str, Array]:
    """Float parameters of all actuators or tendons by name, except moment arms, including derived constants."""
    table = getattr(model, table_name)
    columns = {name: getattr(table, name) for name in type(table).__dataclass_fields__ if name != "moment"}
    columns |= model.derived.columns(table_name.removesuffix("s"))
    return {
        name: values
        for name, values in columns.items()
        if isinstance(values, np.ndarray) and values.dtype == np.float64
    }


MOMENT_ARM = "moment arm"
"""Constant of loop iterations: moment arm of a transmission and dof, or product of those of two dofs."""
TRANSMISSION_TABLES = ("actuators", "tendons")


def _moment_kind(table_name: str) -> str:
    """Kind of element of the moment arms of actuators or tendons."""
    return f"moment arm of {table_name}"


def transmission_element_kinds(table_name: str) -> tuple[str, str]:
    """Kinds of the elements of `transmission_constants`."""
    return table_name, _moment_kind(table_name)


def transmission_constants(
    model: Model, table_name: str
) -> Iterator[tuple[str, int | str, Mapping[str, Sequence[float]]]]:
    """Yield the constants of all actuators or tendons and of their moment arms: kind, element, constants by name.

    Moment arms are those of a dof, and the products of two dofs.
    """
    table, columns = getattr(model, table_name), transmission_columns(model, table_name)
    for i in range(len(table.names)):
        yield table_name, i, _row_constants(table, columns, i)
        moment = {int(d): float(table.moment[i, d]) for d in table.moment[i].nonzero()[0]}
        for dof, arm in moment.items():
            yield _moment_kind(table_name), f"{i} {dof}", {MOMENT_ARM: [arm]}
            for other, other_arm in moment.items():
                yield _moment_kind(table_name), f"{i} {dof} {other}", {MOMENT_ARM: [arm * other_arm]}


def _row_constants(table: Any, columns: Mapping[str, Array], index: int) -> dict[str, list[float]]:
    """Constants of one actuator or tendon: parameters, and the ranges of all controls of a servo."""
    constants = {name: values[index].reshape(-1).tolist() for name, values in columns.items()}
    for k in range(len(table.control_inputs[index]) if hasattr(table, "control_inputs") else 0):
        constants[f"range {k}"] = [float(table.ctrl_lower[index + k]), float(table.ctrl_upper[index + k])]
    return constants


def moment_arm_product(iteration: IterationContext) -> Value:
    """Product of the moment arms of two dofs on a common transmission, from an iteration of `dof_pair_iterations`."""
    product = iteration.constant(MOMENT_ARM)
    return product * iteration.read("a") * iteration.read("b") if iteration.specialization == "path" else product


def _transmission_of_iteration(iteration: IterationContext, length: Value, velocity: Value) -> Transmission:
    """Symbolic transmission (actuator or tendon) of the loop iteration being traced, with given length and velocity.

    Parameters and arrays are read by name.
    """
    specialization = iteration.specialization
    assert isinstance(specialization, TransmissionSpecialization)

    def read(array: str) -> list[Value]:
        if not iteration.has_array(array):
            return iteration.constants(array)
        width = _ARRAY_WIDTHS.get(array, 1)
        return iteration.read_array(array, specialization.n_delay_samples if array.startswith("history") else width)

    frame = frame_ref("frame ") if specialization.on_frame else None
    delay = specialization.n_delay_samples, specialization.interpolation
    servo = specialization.control_inputs, specialization.servo_states
    return Transmission(
        specialization.kind,
        length,
        velocity,
        read,
        frame,
        specialization.is_angle_servo,
        specialization.dynamics,
        specialization.act_early,
        *delay,
        *servo,
    )
