"""Distance sensors: signed distance, normal and segment between the geoms of two links or shapes."""

from __future__ import annotations

from dataclasses import dataclass

from kinema import ir
from kinema.ir import SCRATCH, ArenaOffset, IterationContext, LoopIteration, Value
from kinema.model import GEOM_TYPES, PLANAR_GEOM_TYPES

from ..arrays import MAX_RADIUS
from ..collision.closest_points import CLOSEST_POINTS_SIZE, geom_with_packed_data, keep_closest_points
from ..collision.collision_types import CollisionGeom
from ..pipeline import compute
from ..rigid.kinematics import Pose, shifted_world_origin
from ..step import StepData
from ..topology import WORLD, dynamic_frames
from ..tree.kinematic_tree import frame_ref
from ..tree.node_values import NodeValues
from ..tree.presence import both_present, presence_of_frames
from ..vector_math import add, dot, matmul, rotate, scale, sub
from .sensor_outputs import SENSOR_OUTPUT_ARRAY, SensorOutputs, SensorOutputSpecialization, write_sensor_output

DISTANCE_KINDS = ("distance", "normal", "fromto")
DISTANCE_GEOM_DATA = "distance_geom_data"
"""Array of the packed data of meshes, height fields and signed distance fields (`DistanceGeomsInfo.data`)."""
GEOM_FRAMES = (frame_ref("first "), frame_ref("second "))
"""Symbolic references to the moving frames of the two geoms of a pair."""


@dataclass(frozen=True, slots=True)
class DistancePairSpecialization:
    """Specialization key of a pair of geoms: their types, ordered as in `GEOM_TYPES`, and whether they are swapped.

    And whether one of them can be absent.
    """

    geom_types: tuple[str, str]
    swapped: bool
    can_be_absent: bool


def measure_distances(data: StepData, outputs: SensorOutputs, output_indices: list[int]) -> None:
    """Trace distance sensors, as in MuJoCo: distance [m], unit normal, and segment from the first to the second object.

    The closest pair of geoms counts, if it is closer than the cutoff; otherwise the distance is the cutoff and normal
    and segment are zero. The distance is negative for penetration, where the normal points from the second to the first
    object.
    """
    compute(data, "shifted_world_poses")
    ctx, info = data.ctx, outputs.info
    results: dict[tuple[float, ...], ArenaOffset] = {}
    for i in output_indices:  # params: cutoff, rows of the geoms of each pair
        results.setdefault(info.params[i], ctx.allocate(CLOSEST_POINTS_SIZE))
    with ctx.without_unrolling():
        for params, offset in results.items():
            ctx.tracer.write(SCRATCH, [params[0], *[0.0] * (CLOSEST_POINTS_SIZE - 1)], offset.row)
        poses = data.shifted_world_poses
        rows = [row for params, offset in results.items() for row in _pair_iterations(data, params, offset)]
        ctx.for_each("pairs of distance sensors", rows, lambda iteration: _measure_pair(iteration, poses))
    origin = ctx.allocate_fixed(3)
    ctx.tracer.write(SCRATCH, shifted_world_origin(ctx), origin.row)
    values = [outputs.value_iteration(i, {"result": results[info.params[i]], "origin": origin}) for i in output_indices]
    ctx.for_each("distance sensors", values, _write_distance_output)


def _pair_iterations(data: StepData, params: tuple[float, ...], result: ArenaOffset) -> list[LoopIteration]:
    """Loop iterations over the geom pairs of a distance sensor, without pairs of planes and height fields."""
    ctx, geoms, rows = data.ctx, data.ctx.model.sensors.distance_geoms, []
    for pair in zip(map(int, params[1::2]), map(int, params[2::2]), strict=True):
        swapped = GEOM_TYPES.index(geoms.types[pair[0]]) > GEOM_TYPES.index(geoms.types[pair[1]])
        first, second = reversed(pair) if swapped else pair
        types = geoms.types[first], geoms.types[second]
        if all(geom_type in PLANAR_GEOM_TYPES for geom_type in types):
            continue
        constants = {"max distance": [params[0]]}
        for name, geom in (("first", first), ("second", second)):
            radius = min(float(geoms.radius[geom]), MAX_RADIUS)
            header = [float(geoms.data_start[geom]), *map(float, geoms.data_counts[geom]), radius]
            constants |= {
                f"{name} pos": geoms.pos[geom].tolist(),
                f"{name} rot": geoms.rot[geom].ravel().tolist(),
                f"{name} size": geoms.size[geom].tolist(),
                f"{name} data": header,
            }
        frames = {
            str(ref.index): frame_ref(int(geoms.frame_idx[g]))
            for ref, g in zip(GEOM_FRAMES, (first, second), strict=True)
        }
        offsets = {"result": result, DISTANCE_GEOM_DATA: ctx.array_offsets[DISTANCE_GEOM_DATA]}
        moving = dynamic_frames(ctx.model, geoms.frame_idx[[first, second]])
        presence = presence_of_frames(ctx, moving.tolist()) if (moving != WORLD).any() else {}
        specialization = DistancePairSpecialization(types, swapped, bool(presence))
        rows.append(ctx.node_iteration(specialization, frames, {**offsets, **presence}, constants))
    return rows


def _measure_pair(iteration: IterationContext, shifted_world_poses: NodeValues[Pose]) -> None:
    """Traced loop body: closest points of one pair of geoms, stored if the distance is the smallest so far.

    Positions are relative to the second geom, which keeps precision.
    """
    specialization, tracer = iteration.specialization, iteration.tracer
    assert isinstance(specialization, DistancePairSpecialization)
    geoms = []
    for name, frame in zip(("first", "second"), GEOM_FRAMES, strict=True):
        pose, flat = shifted_world_poses[frame], iteration.constants(f"{name} rot")
        rotation = matmul(pose.rotation, [flat[3 * i : 3 * i + 3] for i in range(3)])
        position = add(pose.position, rotate(pose.rotation, iteration.constants(f"{name} pos")))
        geoms.append(CollisionGeom(position, rotation, iteration.constants(f"{name} size")))
    origin = geoms[1].position
    first, second = (
        geom_with_packed_data(
            CollisionGeom(sub(geom.position, origin), geom.rotation, geom.size),
            geom_type,
            tracer,
            DISTANCE_GEOM_DATA,
            iteration.constants(f"{name} data"),
        )
        for name, geom, geom_type in zip(("first", "second"), geoms, specialization.geom_types, strict=True)
    )
    local = tracer.allocate_local(CLOSEST_POINTS_SIZE)
    tracer.write(local, [iteration.read("result"), *[0.0] * (CLOSEST_POINTS_SIZE - 1)])
    tracer.new_basic_block()
    keep_closest_points(
        tracer,
        specialization.geom_types,
        (first, second),
        local,
        iteration.constant("max distance"),
        swapped=specialization.swapped,
    )
    found = [tracer.read(local, i) for i in range(CLOSEST_POINTS_SIZE)]

    def store() -> list[Value]:
        iteration.write("result", [found[0], *add(found[1:4], origin), *add(found[4:7], origin)])
        return []

    distance = found[0]
    if specialization.can_be_absent:
        distance = ir.select(0.5, both_present(iteration), distance, MAX_RADIUS)
    tracer.if_less("closer pair", distance, iteration.read("result"), store, [])


def _write_distance_output(iteration: IterationContext) -> None:
    """Traced loop body: write the distance, the normal or the segment of a sensor output."""
    specialization = iteration.specialization
    assert isinstance(specialization, SensorOutputSpecialization)
    distance, *points = iteration.read_array("result", CLOSEST_POINTS_SIZE)
    if specialization.name == "distance":
        write_sensor_output(iteration, [distance])
        return
    segment = sub(points[3:], points[:3])
    squared = dot(segment, segment)
    if specialization.name == "normal":
        length = ir.sqrt(ir.select(0.0, squared, squared, 1.0))
        iteration.write(SENSOR_OUTPUT_ARRAY, scale(1.0 / length, segment))
        return
    origin = iteration.read_array("origin", 3)
    is_found = ir.select(0.0, squared, 1.0, 0.0)
    iteration.write(SENSOR_OUTPUT_ARRAY, [is_found * (x + o) for x, o in zip(points, [*origin, *origin], strict=True)])
