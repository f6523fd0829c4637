"""Rangefinder and lidar sensors: distance along rays to the nearest visible geom of another link."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kinema import ir
from kinema.ir import SCRATCH, IterationContext, Value

from ..pipeline import compute
from ..rigid.kinematics import Pose, shifted_world_origin
from ..step import StepData
from ..tree.node_tables import NodeIteration
from ..tree.node_values import NodeValues
from ..vector_math import add, dot, rotate, scale, sub
from .ray_casting import RAY_DATA, compute_geom_poses, intersect_geom, ray_geom_iteration
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
    with ctx.without_unrolling():
        pose_offsets = compute_geom_poses(ctx, poses, range(len(ctx.model.sensors.ray_geoms.types)))
        rows = []
        origin = {}
        if any(len(outputs.info.options[i]) > 2 for i in output_indices):
            origin = {"origin": ctx.allocate_fixed(3)}
            ctx.tracer.write(SCRATCH, shifted_world_origin(ctx), origin["origin"].row)
        for i in output_indices:
            geoms = _visible_geoms(data, outputs, i)
            geom_rows = [ray_geom_iteration(ctx, geom, pose_offsets[geom]) for geom in geoms]
            ray_data = {RAY_DATA: ctx.array_offsets[RAY_DATA], **origin}
            row = outputs.frame_iteration(i, ray_data, None, None, bool(geom_rows))
            rows.append(
                NodeIteration(row.specialization, row.offsets, row.constants, {"geoms": geom_rows}, row.bindings)
            )
        ctx.for_each("rangefinder sensors", rows, lambda iteration: _cast_sensor_rays(iteration, poses))


def _visible_geoms(data: StepData, outputs: SensorOutputs, output: int) -> list[int]:
    """Indices of the geoms that a sensor's rays can hit: visual, collision or both; without those of its link."""
    geoms, info = data.ctx.model.sensors.ray_geoms, outputs.info
    link, options = int(info.target_idx[output]), info.options[output]
    visible = geoms.visual | geoms.collision
    if len(options) > 1 and options[1]:
        visible = geoms.visual if options[1] == "visual" else geoms.collision
    on_link = (geoms.link_idx == link) & (link >= 0)
    return [int(x) for x in np.flatnonzero(visible & ~on_link)]


def _cast_sensor_rays(iteration: IterationContext, shifted_world_poses: NodeValues[Pose]) -> None:
    """Traced loop body: cast the rays of one sensor one after the other and write their distances to `sensordata`.

    The output's parameters are the index of the first direction in the ray data, the number of rays, and range bounds
    if any. Its options after the value of a miss: shapes that are hit, data fields, whether origins follow the
    directions in the ray data, whether depths are along the optical axis of a camera.
    """
    specialization, tracer = iteration.specialization, iteration.tracer
    assert isinstance(specialization, SensorOutputSpecialization)
    mounting = attachment_pose(iteration, shifted_world_poses, OBJECT_FRAME)
    first, count, *bounds = iteration.constants("params")
    best_distance, ray = tracer.allocate_local(1), tracer.allocate_local(6)
    has_geoms, options = bool(specialization.options[-1]), list(specialization.options[:-1])
    fields, has_origins = (str(options[2]).split(), bool(options[3])) if len(options) > 2 else ([], False)
    normal = tracer.allocate_local(3) if "normal" in fields else ""
    width = sum(RANGE_FIELDS[name] for name in fields) or 1

    def cast(index: Value) -> None:
        direction = [tracer.read(RAY_DATA, i, first + 3.0 * index) for i in range(3)]
        start = mounting.position
        if has_origins:
            offset = [tracer.read(RAY_DATA, i, first + 3.0 * (count + index)) for i in range(3)]
            start = add(start, rotate(mounting.rotation, offset))
        tracer.write(ray, [*start, *rotate(mounting.rotation, direction)])
        tracer.write(best_distance, [NO_HIT])
        if normal:
            tracer.write(normal, [0.0, 0.0, 0.0])
        tracer.new_basic_block()
        if has_geoms:
            iteration.nested_loop("geoms", lambda inner: intersect_geom(inner, ray, best_distance, normal))
        distance = tracer.read(best_distance)
        if not fields:
            values: Sequence[Value] = [_range_value(iteration, specialization, distance, bounds)]
        else:
            hit = [tracer.read(ray, i) for i in range(6)], [tracer.read(normal, i) for i in range(3)] if normal else []
            depth_axis = [-row[2] for row in mounting.rotation] if options[4] else hit[0][3:]
            values = _ray_fields(iteration, fields, distance, *hit, depth_axis, mounting.position)
            values = apply_cutoff(iteration, specialization, values)
        tracer.write(SENSOR_OUTPUT_ARRAY, values, 0, index * float(width) if fields else index)

    tracer.counted_loop("rays", count, cast, uniform=True)


RANGE_FIELDS = {"dist": 1, "dir": 3, "origin": 3, "point": 3, "normal": 3, "depth": 1}
"""Data fields of a rangefinder -> number of values, in output order."""


def _ray_fields(
    iteration: IterationContext,
    fields: Sequence[str],
    distance: Value,
    ray: Sequence[Value],
    normal: Sequence[Value],
    depth_axis: Sequence[Value],
    position: Sequence[Value],
) -> list[Value]:
    """Data fields of one ray, as in MuJoCo: without a hit distance and depth are -1, direction, point and normal 0.

    Args:
        iteration: loop iteration of the sensor, with the shifted world origin in the array `origin`.
        fields: names of the requested fields (`RANGE_FIELDS`).
        distance: distance along the ray [m].
        ray: origin and direction, (6,).
        normal: outward normal of the surface; empty if it is not requested.
        depth_axis: direction along which the depth is measured from `position`.
        position: position of the sensor.
    """
    miss = ir.select(HIT_THRESHOLD, distance, 1.0, 0.0)
    start, direction, origin = ray[:3], ray[3:], iteration.read_array("origin", 3)
    point = add(start, scale(ir.select(0.5, miss, 0.0, distance), direction))

    def if_hit(values: Sequence[Value], otherwise: float = 0.0) -> list[Value]:
        return [ir.select(0.5, miss, otherwise, x) for x in values]

    values = {
        "dist": if_hit([distance], -1.0),
        "dir": if_hit(direction),
        "origin": add(start, origin),
        "point": if_hit(add(point, origin)),
        "normal": if_hit(normal),
        "depth": if_hit([dot(sub(point, position), depth_axis)], -1.0),
    }
    return [x for name in fields for x in values[name]]


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
