"""Rangefinder and lidar sensors: distance along rays to the nearest visible geom of another link."""

from __future__ import annotations

import numpy as np

from kinema import ir
from kinema.ir import IterationContext, Value

from ..pipeline import compute
from ..rigid.kinematics import Pose
from ..step import StepData
from ..tree.node_tables import NodeIteration
from ..tree.node_values import NodeValues
from ..vector_math import rotate
from .ray_casting import RAY_DATA, compute_geom_poses, geom_table_row, intersect_geom
from .ray_intersection import HIT_THRESHOLD, NO_HIT
from .sensor_outputs import (
    OBJECT_FRAME,
    SENSOR_OUTPUT_ARRAY,
    SensorOutputs,
    SensorOutputSpecialization,
    apply_cutoff,
    attachment_pose,
)

RANGEFINDER_KINDS = ("rays",)


def measure_ranges(data: StepData, outputs: SensorOutputs, output_indices: list[int]) -> None:
    """Trace rangefinder sensors and lidars: distance [m] along each ray to the nearest geom that the sensor can see.

    Geom poses, relative to the shifted world origin (position of the first free body), are computed once; then each
    sensor loops over its rays and the visible geoms.
    """
    compute(data, "shifted_world_poses")
    ctx, poses = data.ctx, data.shifted_world_poses
    with ctx.keeping_loops():
        pose_offsets = compute_geom_poses(ctx, poses, range(len(ctx.model.sensors.ray_geoms.types)))
        rows = []
        for i in output_indices:
            geoms = _visible_geoms(data, outputs, i)
            geom_rows = [geom_table_row(ctx, geom, pose_offsets[geom]) for geom in geoms]
            ray_data = {RAY_DATA: ctx.array_offsets[RAY_DATA]}
            row = outputs.frame_iteration(i, ray_data, None, None, bool(geom_rows))
            rows.append(
                NodeIteration(row.specialization, row.offsets, row.constants, {"geoms": geom_rows}, row.bindings)
            )
        ctx.for_each("rangefinder sensors", rows, lambda iteration: _cast_sensor_rays(iteration, poses))


def _visible_geoms(data: StepData, outputs: SensorOutputs, output: int) -> list[int]:
    """Indices of the geoms that a sensor's rays can hit: visual, collision or both; not those of its own link."""
    geoms, info = data.ctx.model.sensors.ray_geoms, outputs.info
    link, options = int(info.target_idx[output]), info.options[output]
    visible = geoms.visual | geoms.collision
    if len(options) > 1:
        visible = geoms.visual if options[1] == "visual" else geoms.collision
    on_link = (geoms.link_idx == link) & (link >= 0)
    return [int(x) for x in np.flatnonzero(visible & ~on_link)]


def _cast_sensor_rays(iteration: IterationContext, shifted_world_poses: NodeValues[Pose]) -> None:
    """Traced loop body: cast the rays of one sensor one after the other and write their distances to `sensordata`.

    The output's parameters are the index of the first direction in the ray data, the number of rays, and range bounds
    if any.
    """
    specialization, tracer = iteration.specialization, iteration.tracer
    assert isinstance(specialization, SensorOutputSpecialization)
    mounting = attachment_pose(iteration, shifted_world_poses, OBJECT_FRAME)
    first, count, *bounds = iteration.constants("params")
    best_distance, ray = tracer.allocate_local(1), tracer.allocate_local(6)
    has_geoms = bool(specialization.options[-1])

    def cast(index: Value) -> None:
        direction = [tracer.read(RAY_DATA, i, first + 3.0 * index) for i in range(3)]
        tracer.write(ray, [*mounting.position, *rotate(mounting.rotation, direction)])
        tracer.write(best_distance, [NO_HIT])
        tracer.new_basic_block()
        if has_geoms:
            iteration.nested_loop("geoms", lambda inner: intersect_geom(inner, ray, best_distance))
        tracer.write(
            SENSOR_OUTPUT_ARRAY, [_range_value(iteration, specialization, tracer.read(best_distance), bounds)], 0, index
        )

    tracer.counted_loop("rays", count, cast, uniform=True)


def _range_value(
    iteration: IterationContext, specialization: SensorOutputSpecialization, distance: Value, bounds: list[Value]
) -> Value:
    """Value of a ray for its hit distance, clamped to the cutoff of the sensor.

    With the option `inf`, distances below the lower bound give -inf and distances above the upper bound +inf; otherwise
    a miss gives -1.
    """
    if specialization.options[0] == "inf":
        low, high = bounds
        value = ir.select(distance, low, -np.inf, ir.select(high, distance, np.inf, distance))
    else:
        value = ir.select(HIT_THRESHOLD, distance, -1.0, distance)
    (clamped,) = apply_cutoff(iteration, specialization, [value])
    return clamped
