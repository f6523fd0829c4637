"""Sensors of subtrees and of the whole system: centre of mass, momentum, clock, energies."""

from __future__ import annotations

from dataclasses import dataclass

from kinema import ir
from kinema.ir import SCRATCH, IterationContext, Value

from ..pipeline import compute
from ..queries.body_quantities import frame_twist, kinetic_energy, potential_energy, system_totals
from ..rigid.kinematics import Twist
from ..step import StepData
from ..tree.kinematic_tree import LinkNode, NodeType, link_ref
from ..tree.node_values import flatten, unflatten
from ..tree.presence import zero_if_absent
from ..vector_math import ZERO, Vector, add, cross, rotate, scale, sub
from .sensor_outputs import SensorOutputs, SensorOutputSpecialization, write_sensor_output

# ------------------------------------------------------------------------------------------------------------- subtrees

ALL_LINKS = -1
"""Target index of an output of the whole system."""
SUBTREE_LINK = link_ref("subtree ")


@dataclass(frozen=True, slots=True)
class SubtreeMomentum:
    """Mass, first moment, and linear and angular momentum about the world origin of a subtree, in world axes."""

    mass: Value
    first_moment: Vector
    linear_momentum: Vector
    angular_momentum: Vector


def measure_subtrees(data: StepData, outputs: SensorOutputs, output_indices: list[int]) -> None:
    """Trace subtree sensors: `subtreecom` [m], `subtreelinvel` [m/s] and `subtreeangmom` about the centre of mass.

    Sums mass and momenta over the subtree of the output's link, or over all links. The centre of mass of a massless
    subtree is that of its root link, and its velocity zero.
    """
    compute(data, "link_bodies", "velocities")
    ctx, info, bodies = data.ctx, outputs.info, data.link_bodies
    links = {int(info.target_idx[i]) for i in output_indices} - {ALL_LINKS}

    def link_momentum(link: LinkNode) -> SubtreeMomentum:
        body = bodies[link.ref]
        twist: Twist = frame_twist(data, link.frame_ref, body.com)
        linear = scale(body.mass, twist.linear)
        angular = add(rotate(body.inertia, twist.angular), cross(body.com, linear))
        return SubtreeMomentum(body.mass, scale(body.mass, body.com), linear, angular)

    def momentum_if_present(link: LinkNode) -> SubtreeMomentum:
        momentum = link_momentum(link)
        return unflatten(momentum, zero_if_absent(ctx, flatten(momentum))) if link.in_moving_frame else momentum

    def body(iteration: IterationContext) -> None:
        specialization = iteration.specialization
        assert isinstance(specialization, SensorOutputSpecialization)
        subtree = subtrees[SUBTREE_LINK] if specialization.options == () else _read_system_momentum(iteration)
        divisor = ir.select(0.0, subtree.mass, subtree.mass, 1.0)
        fallback = bodies[SUBTREE_LINK].com if specialization.options == () else ZERO
        com = [
            ir.select(0.0, subtree.mass, m / divisor, x) for m, x in zip(subtree.first_moment, fallback, strict=True)
        ]
        match specialization.name:
            case "subtreecom":
                write_sensor_output(iteration, com)
            case "subtreelinvel":
                write_sensor_output(iteration, scale(1.0 / divisor, subtree.linear_momentum))
            case _:
                write_sensor_output(iteration, sub(subtree.angular_momentum, cross(com, subtree.linear_momentum)))

    rows = []
    if links:
        subtrees = ctx.sum_over_subtrees("subtree momenta", link_momentum)
    if len(links) < len({int(info.target_idx[i]) for i in output_indices}):
        total = ctx.sum_over_nodes(
            "system momentum", NodeType.LINKS, SubtreeMomentum(0.0, ZERO, ZERO, ZERO), momentum_if_present
        )
        total_offset = ctx.allocate_fixed(len(flatten(total)))
        ctx.tracer.write(SCRATCH, flatten(total), total_offset.row)
        rows += [
            outputs.frame_iteration(i, {"total": total_offset}, {}, None, "all")
            for i in output_indices
            if info.target_idx[i] == ALL_LINKS
        ]
    rows += [
        outputs.frame_iteration(i, bindings={"subtree ": link_ref(int(info.target_idx[i]))})
        for i in output_indices
        if info.target_idx[i] != ALL_LINKS
    ]
    ctx.for_each("subtree sensors", rows, body)


def _read_system_momentum(iteration: IterationContext) -> SubtreeMomentum:
    flat = iteration.read_array("total", 10)
    return SubtreeMomentum(flat[0], flat[1:4], flat[4:7], flat[7:10])


# --------------------------------------------------------------------------------------------------- clock and energies


def measure_clock_and_energy(data: StepData, outputs: SensorOutputs, output_indices: list[int]) -> None:
    """Trace sensors `clock` (simulation time since the scene was built [s]), `e_potential` and `e_kinetic` [J].

    As in MuJoCo, the potential energy ignores gravity compensation: the full weight of all links counts.
    """
    ctx, info = data.ctx, outputs.info
    kinds = {info.kinds[i] for i in output_indices}
    values = {}
    if "clock" in kinds:
        values["clock"] = ctx.read("clock")
    if kinds - {"clock"}:
        totals = system_totals(data)
        values["e_kinetic"] = kinetic_energy(data, totals)
        values["e_potential"] = potential_energy(data, totals, apply_gravity_scale=False)
    offsets = {kind: ctx.allocate_fixed(1) for kind in sorted(values)}
    for kind, offset in offsets.items():
        ctx.tracer.write(SCRATCH, [values[kind]], offset.row)
    rows = [outputs.value_iteration(i, {"value": offsets[info.kinds[i]]}) for i in output_indices]
    ctx.for_each(
        "clock and energy sensors", rows, lambda iteration: write_sensor_output(iteration, [iteration.read("value")])
    )
