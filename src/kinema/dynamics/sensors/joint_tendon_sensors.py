"""Sensors of joints, tendons and actuators: positions, velocities, forces, and limit violations."""

from __future__ import annotations

from kinema import ir
from kinema.ir import ArenaOffset, IterationContext, LoopIteration, Value

from ..arrays import ElementKind
from ..constraints.joint_constraints import fill_joint_limits, joint_limit_blocks
from ..constraints.rows import ConstraintBlock, ConstraintRows
from ..constraints.tendon_constraints import fill_tendon_limits, tendon_limit_blocks
from ..forces import transmission_forces
from ..forces.external_wrenches import zero_wrenches
from ..pipeline import compute
from ..rigid.rnea import generalized_forces
from ..step import KINEMATIC_STATE_QUANTITIES, StepData
from ..tree.kinematic_tree import FrameNode
from ..tree.node_values import NodeValues
from ..tree.transmissions import ForceTerm, Transmission
from ..vector_math import dot, scale
from .force_torque_sensors import compute_row_forces
from .sensor_outputs import SensorOutputs, SensorOutputSpecialization, write_sensor_output

# --------------------------------------------------------------------------------------------------------------- joints

JOINT_POSITION_KINDS = ("jointpos", "ballquat")
JOINT_VELOCITY_KINDS = ("jointvel", "ballangvel")


def measure_joint_positions(data: StepData, outputs: SensorOutputs, output_indices: list[int]) -> None:
    """Trace joint position sensors `jointpos` [rad or m] and `ballquat` (normalised quaternion (w, x, y, z))."""
    ctx, info = data.ctx, outputs.info
    rows = [
        outputs.value_iteration(i, ctx.element_arrays(ElementKind.COORDINATE, int(info.target_idx[i])))
        for i in output_indices
    ]

    def body(iteration: IterationContext) -> None:
        specialization = iteration.specialization
        assert isinstance(specialization, SensorOutputSpecialization)
        q = iteration.read_array("qpos", 4 if specialization.name == "ballquat" else 1)
        write_sensor_output(iteration, q if len(q) == 1 else scale(1.0 / ir.sqrt(dot(q, q)), q))

    ctx.for_each("joint position sensors", rows, body)


def measure_joint_velocities(data: StepData, outputs: SensorOutputs, output_indices: list[int]) -> None:
    """Trace joint velocity sensors `jointvel` [rad/s or m/s] and `ballangvel` (angular velocity in child axes)."""
    ctx, info = data.ctx, outputs.info
    rows = [
        outputs.value_iteration(i, ctx.element_arrays(ElementKind.DOF, int(info.target_idx[i]))) for i in output_indices
    ]

    def body(iteration: IterationContext) -> None:
        specialization = iteration.specialization
        assert isinstance(specialization, SensorOutputSpecialization)
        write_sensor_output(iteration, iteration.read_array("vel", 3 if specialization.name == "ballangvel" else 1))

    ctx.for_each("joint velocity sensors", rows, body)


def measure_joint_actuator_forces(data: StepData, outputs: SensorOutputs, output_indices: list[int]) -> None:
    """Sensor `jointactuatorfrc`: actuation force on a dof [N or N m], actuators on sites included."""
    ctx, info = data.ctx, outputs.info
    force_offsets = ctx.dof_offsets(joint_actuation_forces(data))
    rows = [outputs.value_iteration(i, {"force": force_offsets[int(info.target_idx[i])]}) for i in output_indices]
    ctx.for_each(
        "joint force sensors", rows, lambda iteration: write_sensor_output(iteration, [iteration.read("force")])
    )


def joint_actuation_forces(data: StepData) -> NodeValues[list[Value]]:
    """Trace the actuation force on each dof [N or N m]: user commands, actuators, and J^T of wrenches on sites."""
    compute(data, "joint_force_terms")
    ctx, force_terms, site_actuator_forces = data.ctx, data.joint_force_terms, site_actuator_joint_forces(data)
    result: NodeValues[list[Value]] = ctx.new_values("actuation forces")

    def body(node: FrameNode) -> None:
        _, _, control, actuators, *_ = force_terms[node.ref]
        wrench_forces = site_actuator_forces[node.ref]
        result.put(node.ref, [a.force + b.force + c for a, b, c in zip(control, actuators, wrench_forces, strict=True)])

    ctx.for_each_frame("actuation forces", body)
    return result


def site_actuator_joint_forces(data: StepData) -> NodeValues[list[Value]]:
    """Generalised forces J^T w on each dof of the actuators with site transmission."""
    compute(data, "local_poses", "path_lengths")
    wrenches = zero_wrenches(data.ctx, "site actuator wrenches")
    transmission_forces.actuator_forces(data, wrenches)
    return generalized_forces(data.ctx, "site actuator wrenches", data.local_poses, lambda node: wrenches[node.ref])


# ------------------------------------------------------------------------------------------------ actuators and tendons

ACTUATOR_LENGTH_KINDS = ("actuatorpos", "actuatorvel")
ACTUATOR_FORCE_KINDS = ("actuatorfrc", "tendonactuatorfrc")
TENDON_LENGTH_KINDS = ("tendonpos", "tendonvel")


def _write_pair_component(iteration: IterationContext) -> None:
    """Traced loop body: write the first value of `pair` (length or force), or the second for kinds ending in `vel`."""
    specialization = iteration.specialization
    assert isinstance(specialization, SensorOutputSpecialization)
    write_sensor_output(iteration, [iteration.read("pair", 1 if specialization.name.endswith("vel") else 0)])


def measure_actuator_lengths(data: StepData, outputs: SensorOutputs, output_indices: list[int]) -> None:
    """Trace actuator sensors `actuatorpos` and `actuatorvel`: transmission length [m or rad] and its velocity."""
    compute(data, "path_lengths")
    ctx, info = data.ctx, outputs.info
    actuators = sorted({int(info.target_idx[i]) for i in output_indices})

    def length_and_velocity(transmission: Transmission) -> ForceTerm:
        return ForceTerm(transmission.length, transmission.velocity)

    transmissions = ctx.transmissions(
        "actuators", actuators, length_and_velocity, data.path_lengths, name="actuator lengths"
    )
    rows = [
        outputs.value_iteration(i, {"pair": transmissions.pair_offsets[int(info.target_idx[i])]})
        for i in output_indices
        if info.target_idx[i] in transmissions.pair_offsets
    ]
    ctx.for_each("actuator length sensors", rows, _write_pair_component)


def measure_actuator_forces(data: StepData, outputs: SensorOutputs, output_indices: list[int]) -> None:
    """Trace force sensors `actuatorfrc` of actuators, and `tendonactuatorfrc`: sum over the actuators of a tendon [N].

    The parameters of a `tendonactuatorfrc` output are the indices of the tendon's actuators.
    """
    compute(data, "actuators")
    ctx, info, pairs = data.ctx, outputs.info, data.actuators.pair_offsets
    actuator_outputs = [i for i in output_indices if info.kinds[i] == "actuatorfrc" and info.target_idx[i] in pairs]
    rows = [outputs.value_iteration(i, {"pair": pairs[int(info.target_idx[i])]}) for i in actuator_outputs]
    ctx.for_each("actuator force sensors", rows, _write_pair_component)
    tendon_outputs = [i for i in output_indices if info.kinds[i] != "actuatorfrc"]
    sums = {i: ctx.allocate(1) for i in tendon_outputs}
    _clear_sums(data, list(sums.values()))
    terms = [(i, int(a)) for i in tendon_outputs for a in info.params[i] if int(a) in pairs]
    table = [LoopIteration("actuator", {"pair": pairs[a], "sum": sums[i]}) for i, a in terms]
    ctx.for_each(
        "actuator forces of tendons",
        table,
        lambda iteration: iteration.write("sum", [iteration.read("sum") + iteration.read("pair")]),
    )
    tendon_rows = [outputs.value_iteration(i, {"sum": sums[i]}) for i in tendon_outputs]
    ctx.for_each(
        "tendon force sensors", tendon_rows, lambda iteration: write_sensor_output(iteration, [iteration.read("sum")])
    )


def _clear_sums(data: StepData, offsets: list[ArenaOffset], width: int = 1) -> None:
    """Trace code that sets accumulators of `width` values in scratch memory to zero."""
    rows = [LoopIteration("sum", {"sum": offset}) for offset in offsets]
    data.ctx.for_each("clear sensor sums", rows, lambda iteration: iteration.write("sum", [0.0] * width))


def measure_tendon_lengths(data: StepData, outputs: SensorOutputs, output_indices: list[int]) -> None:
    """Trace tendon sensors `tendonpos` and `tendonvel`: length [m or rad] and velocity of tendons.

    A spatial tendon uses the length of its path and the sum of moment arm times joint velocity. A fixed tendon sums
    coefficient times coordinate and velocity over its dofs; the coefficients are the output's parameters.
    """
    compute(data, "path_lengths")
    ctx, info, lengths = data.ctx, outputs.info, data.path_lengths
    pairs = {i: ctx.allocate(2) for i in output_indices}
    _clear_sums(data, list(pairs.values()), 2)
    path_outputs = [i for i in output_indices if info.target_idx[i] in lengths.lengths]
    table = [
        LoopIteration("path", {"pair": pairs[i], "length": lengths.lengths[int(info.target_idx[i])]})
        for i in path_outputs
    ]
    ctx.for_each(
        "path lengths of sensors", table, lambda iteration: iteration.write("pair", [iteration.read("length"), 0.0])
    )
    terms = [
        LoopIteration(
            "path", {"pair": pairs[i], "moment": offset, "vel": ctx.element_arrays(ElementKind.DOF, dof)["vel"]}
        )
        for i in path_outputs
        for dof, offset in lengths.moments[int(info.target_idx[i])].items()
    ]
    for i in output_indices:
        for dof, coefficient in enumerate(info.params[i]):
            if coefficient:
                arrays = ctx.dof_arrays(dof)
                offsets = {"pair": pairs[i], "qpos": arrays["qpos"], "vel": arrays["vel"]}
                terms.append(LoopIteration("coordinate", offsets, {"coefficient": [coefficient]}))

    def body(iteration: IterationContext) -> None:
        length, velocity = iteration.read_array("pair", 2)
        if iteration.specialization == "path":
            iteration.write("pair", [length, velocity + iteration.read("moment") * iteration.read("vel")])
        else:
            coefficient = iteration.constant("coefficient")
            iteration.write(
                "pair", [length + coefficient * iteration.read("qpos"), velocity + coefficient * iteration.read("vel")]
            )

    ctx.for_each("tendon lengths and velocities", terms, body)
    rows = [outputs.value_iteration(i, {"pair": pairs[i]}) for i in output_indices]
    ctx.for_each("tendon sensors", rows, _write_pair_component)


# --------------------------------------------------------------------------------------------------------------- limits

JOINT_LIMIT_KINDS = ("jointlimitpos", "jointlimitvel", "jointlimitfrc")
TENDON_LIMIT_KINDS = ("tendonlimitpos", "tendonlimitvel", "tendonlimitfrc")


def measure_joint_limits(data: StepData, outputs: SensorOutputs, output_indices: list[int]) -> None:
    """Joint limit sensors: `jointlimitpos`, `jointlimitvel` and `jointlimitfrc`; nothing if limits are disabled."""
    if data.ctx.settings.limits:
        blocks = joint_limit_blocks(data.ctx.model, data.ctx.nodes)
        blocks_of_output = {i: [b for b in blocks if outputs.info.target_idx[i] in b.dofs] for i in output_indices}
        _measure_limits(data, outputs, blocks_of_output, joints=True)


def measure_tendon_limits(data: StepData, outputs: SensorOutputs, output_indices: list[int]) -> None:
    """Tendon limit sensors: `tendonlimitpos`, `tendonlimitvel` and `tendonlimitfrc`; nothing if limits are disabled."""
    if data.ctx.settings.limits:
        blocks = tendon_limit_blocks(data.ctx.model, data.ctx.nodes)
        blocks_of_output = {
            i: [b for b in blocks if b.source["tendon limit"] == outputs.info.target_idx[i]] for i in output_indices
        }
        _measure_limits(data, outputs, blocks_of_output, joints=False)


def _measure_limits(
    data: StepData, outputs: SensorOutputs, blocks_of_output: dict[int, list[ConstraintBlock]], *, joints: bool
) -> None:
    """Trace limit sensors: position minus margin, velocity or force of the first active limit, or 0 if none is active.

    Evaluates the constraint rows of the limits at the constrained acceleration.

    Args:
        data: the state.
        outputs: all sensor outputs of the model.
        blocks_of_output: output index -> constraints of its lower and upper limit.
        joints: whether the limits are those of joints; otherwise of tendons.
    """
    ctx = data.ctx
    blocks = list({id(b): b for output_blocks in blocks_of_output.values() for b in output_blocks}.values())
    if not blocks:
        return
    compute(data, "constrained_acceleration", *KINEMATIC_STATE_QUANTITIES)
    acceleration = data.constrained_acceleration
    rows = ConstraintRows(ctx, blocks)
    (fill_joint_limits if joints else fill_tendon_limits)(data.kinematic_state, rows)
    rows.compute_stiffness_and_aref()
    rows.multiply_jacobian(acceleration, "residual")
    rows.for_each_block("limit forces of sensors", compute_row_forces)
    block_index = {id(b): i for i, b in enumerate(blocks)}
    table = []
    for i, output_blocks in blocks_of_output.items():
        if not output_blocks:
            continue
        side_arrays = [rows.block_arrays[block_index[id(b)]] for b in output_blocks]
        offsets = {f"{name} {k}": arrays[name] for k, arrays in enumerate(side_arrays) for name in _LIMIT_QUANTITIES}
        row = outputs.value_iteration(i, offsets)
        margins = {"margin": [output_blocks[0].margin]}
        table.append(LoopIteration((row.specialization, len(side_arrays)), row.offsets, {**row.constants, **margins}))
    ctx.for_each("limit sensors", table, _write_first_active_limit)


_LIMIT_QUANTITIES = ("position", "velocity", "force")


def _write_first_active_limit(iteration: IterationContext) -> None:
    """Traced loop body: write the output of the first limit whose position is below its margin, else 0.

    The output is position minus margin, velocity or force.
    """
    specialization, n_sides = iteration.specialization  # type: ignore[misc]
    margin = iteration.constant("margin")
    quantity = {"pos": "position", "vel": "velocity", "frc": "force"}[specialization.name[-3:]]
    result: Value = 0.0
    for k in reversed(range(n_sides)):
        position = iteration.read(f"position {k}")
        value = position - margin if quantity == "position" else iteration.read(f"{quantity} {k}")
        result = ir.select(position, margin, value, result)
    write_sensor_output(iteration, [result], specialization)
