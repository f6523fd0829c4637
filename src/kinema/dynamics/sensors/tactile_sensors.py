"""Tactile sensors: penetration depth and sliding speeds at points of a link (taxels), as MuJoCo's `tactile`.

A taxel measures the geoms of other bodies that are in contact with the body of the sensor, by their signed distance
functions: planes and primitives, in closed form. The depth is that in the deepest of these geoms; sliding speeds add up
over the geoms that the taxel is inside of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinema import ir
from kinema.ir import ArenaOffset, IterationContext, LoopIteration, Value

from ..collision.contact_records import Contact
from ..collision.vector_math import if_less
from ..pipeline import compute
from ..rigid.kinematics import Pose, twist_at_point
from ..step import StepData
from ..tree.kinematic_tree import frame_ref
from ..tree.node_constants import with_per_env_parameters
from ..tree.node_values import NodeValues
from ..vector_math import Vector, add, dot, matmul, rotate, sub
from .contact_sensors import SensedOutput, allocate_zero_sums, visit_contacts
from .contact_weights import TACTILE_GEOM, TACTILE_KINDS, tactile_geom_constants, tactile_geoms
from .frame_sensors import to_local_point
from .ray_casting import RAY_DATA
from .sensor_outputs import (
    OBJECT_FRAME,
    SENSOR_OUTPUT_ARRAY,
    SensorOutputs,
    SensorOutputSpecialization,
    apply_cutoff,
    attachment_pose,
)

__all__ = ["TACTILE_KINDS", "measure_tactile"]

N_CHANNELS = 3
"""Depth, and sliding speeds along the two tangents of a taxel."""
GEOM_FRAME = frame_ref("geom ")
"""Symbolic reference to the moving frame of the other geom."""
TINY = 1e-12
"""Lower bound of divisors."""


def measure_tactile(data: StepData, outputs: SensorOutputs, output_indices: list[int]) -> None:
    """Trace tactile sensors: depths [m] of all taxels, then sliding speeds along their first and second tangents [m/s].

    Contacts mark the geoms that touch the body of the sensor; then each marked geom is tested against all taxels.
    """
    compute(data, "shifted_world_poses", "velocities")
    ctx, poses = data.ctx, data.shifted_world_poses
    geoms = {i: tactile_geoms(ctx.model, i) for i in output_indices}
    marks = allocate_zero_sums(data, output_indices, max(1, *(len(x) for x in geoms.values())))
    visit_contacts(data, outputs, output_indices, marks, _mark_geom)
    values = {i: ctx.allocate(int(outputs.info.dim[i])) for i in output_indices}
    with ctx.without_unrolling():
        copies = [outputs.frame_iteration(i, {"values": values[i]}) for i in output_indices]
        ctx.for_each("clear tactile sensors", copies, _clear_values)
        rows = [
            _geom_iteration(data, outputs, i, geom, ArenaOffset(marks[i].arena, marks[i].row + slot), values[i])
            for i in output_indices
            for slot, geom in enumerate(geoms[i])
        ]
        ctx.for_each("geoms on tactile sensors", rows, lambda iteration: _measure_geom(data, iteration, poses))
        ctx.for_each("tactile sensors", copies, _write_values)


def _mark_geom(iteration: IterationContext, _contact: Contact, weight: Value, _output: SensedOutput) -> None:
    """Traced code: mark the geom of a contact; the weight is the index of its mark, from 1."""
    iteration.tracer.write("sum", [1.0], 0, weight - 1.0)


def _clear_values(iteration: IterationContext) -> None:
    """Traced loop body: set all values of a sensor to zero."""
    _, count = iteration.constants("params")
    tracer = iteration.tracer
    tracer.counted_loop(
        "taxel values", float(N_CHANNELS) * count, lambda k: tracer.write("values", [0.0], 0, k), uniform=True
    )


def _write_values(iteration: IterationContext) -> None:
    """Traced loop body: copy the values of a sensor to its output, clamped to its cutoff."""
    _, count = iteration.constants("params")
    tracer, specialization = iteration.tracer, iteration.specialization
    assert isinstance(specialization, SensorOutputSpecialization)

    def copy(index: Value) -> None:
        value = tracer.read("values", 0, index)
        tracer.write(SENSOR_OUTPUT_ARRAY, apply_cutoff(iteration, specialization, [value]), 0, index)

    tracer.counted_loop("taxel values", float(N_CHANNELS) * count, copy, uniform=True)


def _geom_iteration(
    data: StepData, outputs: SensorOutputs, output: int, geom: int, mark: ArenaOffset, values: ArenaOffset
) -> LoopIteration:
    """Loop iteration of a tactile sensor and a geom that it can detect, whose type selects the code."""
    ctx, geoms = data.ctx, data.ctx.model.geoms
    constants = with_per_env_parameters(ctx, TACTILE_GEOM, geom, tactile_geom_constants(ctx.model, geom))
    return outputs.frame_iteration(
        output,
        {"mark": mark, "values": values, RAY_DATA: ctx.array_offsets[RAY_DATA]},
        {str(GEOM_FRAME.index): frame_ref(int(geoms.frame_idx[geom]))},
        {f"geom {name}": values for name, values in constants.items()},
        geoms.types[geom],
    )


def _measure_geom(data: StepData, iteration: IterationContext, shifted_world_poses: NodeValues[Pose]) -> None:
    """Traced loop body: depths of all taxels in one geom that is in contact, and sliding speeds on it."""
    specialization, tracer = iteration.specialization, iteration.tracer
    assert isinstance(specialization, SensorOutputSpecialization)
    distance = SIGNED_DISTANCES[str(specialization.options[-1])]
    has_tangents = specialization.options[0] == "tangents"

    def measure() -> None:
        first, count = iteration.constants("params")
        mounting = attachment_pose(iteration, shifted_world_poses, OBJECT_FRAME)
        frame, flat = shifted_world_poses[GEOM_FRAME], iteration.constants("geom rotation")
        rotation = matmul(frame.rotation, [flat[3 * i : 3 * i + 3] for i in range(3)])
        position = add(frame.position, rotate(frame.rotation, iteration.constants("geom position")))

        def taxel_vector(row: int, index: Value) -> Vector:
            return [tracer.read(RAY_DATA, i, first + 3.0 * (float(row) * count + index)) for i in range(3)]

        def measure_taxel(index: Value) -> None:
            point = add(mounting.position, rotate(mounting.rotation, taxel_vector(0, index)))
            local = to_local_point(Pose(rotation, position), point)
            depth = -distance(local, iteration.constants("geom size"))

            def store() -> None:
                tracer.write("values", [ir.maximum(tracer.read("values", 0, index), depth)], 0, index)
                if not has_tangents:
                    return
                velocities = [
                    twist_at_point(shifted_world_poses[ref], data.velocities[ref], point).linear
                    for ref in (OBJECT_FRAME, GEOM_FRAME)
                ]
                relative = sub(*velocities)
                for channel in (1, 2):
                    tangent = rotate(mounting.rotation, taxel_vector(channel, index))
                    offset = float(channel) * count + index
                    speed = ir.absolute(dot(relative, tangent))
                    tracer.write("values", [tracer.read("values", 0, offset) + speed], 0, offset)

            if_less(tracer, "taxel inside", 0.0, depth, store)

        tracer.counted_loop("taxels", count, measure_taxel, uniform=True)

    if_less(tracer, "geom in contact", 0.5, iteration.read("mark"), measure)


# -------------------------------------------------------------------------------------------- signed distance functions


def _norm(vector: Sequence[Value]) -> Value:
    return ir.sqrt(dot(list(vector), list(vector)))


def _plane(point: Vector, _size: Sequence[Value]) -> Value:
    return point[2]


def _sphere(point: Vector, size: Sequence[Value]) -> Value:
    return _norm(point) - size[0]


def _capsule(point: Vector, size: Sequence[Value]) -> Value:
    along = ir.minimum(ir.maximum(point[2], -size[1]), size[1])
    return _norm([point[0], point[1], point[2] - along]) - size[0]


def _ellipsoid(point: Vector, size: Sequence[Value]) -> Value:
    """Distance k (k - 1) / |grad k| with k = |x / size|, exact to first order at the surface."""
    scaled = [x / s for x, s in zip(point, size, strict=True)]
    level = _norm(scaled)
    return level * (level - 1.0) / ir.maximum(_norm([x / s for x, s in zip(scaled, size, strict=True)]), TINY)


def _cylinder(point: Vector, size: Sequence[Value]) -> Value:
    """Negative distance to the surface inside; outside the larger excess of radius and half length."""
    return ir.maximum(_norm(point[:2]) - size[0], ir.absolute(point[2]) - size[1])


def _box(point: Vector, size: Sequence[Value]) -> Value:
    """Inside, the distance to the surface along the direction s_i / d_i, with distances d_i to the faces, negated.

    s_i are the half lengths. Outside the largest excess.
    """
    gaps = [s - ir.absolute(x) for x, s in zip(point, size, strict=True)]
    shares = [ir.maximum(gap / s, TINY) for gap, s in zip(gaps, size, strict=True)]
    along = [gap * share for gap, share in zip(gaps, shares, strict=True)]
    depth = ir.minimum(ir.minimum(along[0], along[1]), along[2]) * _norm([1.0 / share for share in shares])
    smallest = ir.minimum(ir.minimum(gaps[0], gaps[1]), gaps[2])
    return ir.select(0.0, smallest, -depth, -smallest)


SIGNED_DISTANCES: dict[str, Callable[[Vector, Sequence[Value]], Value]] = {
    "plane": _plane,
    "sphere": _sphere,
    "capsule": _capsule,
    "ellipsoid": _ellipsoid,
    "cylinder": _cylinder,
    "box": _box,
}
"""Signed distance functions of a point in the frame of a geom [m] by geom type, those of MuJoCo inside the geoms."""
