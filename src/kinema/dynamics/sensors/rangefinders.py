"""Rangefinder and lidar sensors: distance along rays to the nearest visible geom of another link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinema import ir
from kinema.ir import ArenaOffset, RowContext, TableRow, Value

from ..pipeline import compute
from ..rigid.kinematics import Pose
from ..step import StepData
from ..tree.kinematic_tree import frame_ref
from ..tree.node_tables import NodeRow
from ..tree.node_values import NodeValues
from ..vector_math import add, dot, matmul, rotate, scale, sub
from .ray_intersection import (
    HIT_THRESHOLD,
    NO_HIT,
    PRIMITIVE_INTERSECTIONS,
    HeightFieldIntersection,
    Ray,
    intersect_mesh,
)
from .sensor_outputs import (
    OBJECT_FRAME,
    SENSOR_OUTPUT_ARRAY,
    SensorOutputs,
    SensorOutputVariant,
    apply_cutoff,
    attachment_pose,
)

RANGEFINDER_KINDS = ("rays",)
RAY_DATA = "ray_data"
"""Array of ray directions and of the data of meshes and height fields (`RayGeomsInfo.data`)."""


@dataclass(frozen=True, slots=True)
class RayGeomVariant:
    """Specialisation key of a geom in the loop over geoms: its type."""

    geom_type: str


def measure_ranges(data: StepData, outputs: SensorOutputs, output_indices: list[int]) -> None:
    """Trace rangefinder sensors and lidars: distance [m] along each ray to the nearest geom that the sensor can see.

    Geom poses, relative to the floating origin (position of the first free body), are computed once; then each sensor
    loops over its rays and the visible geoms.
    """
    compute(data, "floating_origin_poses")
    ctx, poses = data.ctx, data.floating_origin_poses
    with ctx.keeping_loops():
        pose_offsets = _compute_geom_poses(data, poses)
        rows = []
        for i in output_indices:
            geoms = _visible_geoms(data, outputs, i)
            geom_rows = [_geom_table_row(data, geom, pose_offsets[geom]) for geom in geoms]
            ray_data = {RAY_DATA: ctx.array_offsets[RAY_DATA]}
            row = outputs.frame_row(i, ray_data, None, None, bool(geom_rows))
            rows.append(NodeRow(row.variant, row.offsets, row.constants, {"geoms": geom_rows}, row.bindings))
        ctx.table_loop("rangefinder sensors", rows, lambda code: _cast_sensor_rays(code, poses))


def _visible_geoms(data: StepData, outputs: SensorOutputs, output: int) -> list[int]:
    """Indices of the geoms that a sensor's rays can hit: visual, collision or both; not those of its own link."""
    geoms, info = data.ctx.model.sensors.ray_geoms, outputs.info
    link, options = int(info.target_idx[output]), info.options[output]
    visible = geoms.visual | geoms.collision
    if len(options) > 1:
        visible = geoms.visual if options[1] == "visual" else geoms.collision
    on_link = (geoms.link_idx == link) & (link >= 0)
    return [int(x) for x in np.flatnonzero(visible & ~on_link)]


def _compute_geom_poses(data: StepData, floating_origin_poses: NodeValues[Pose]) -> list[ArenaOffset]:
    """Trace the poses of all geoms that rays can hit into scratch memory: position (3), then rotation matrix (9).

    Returns the memory offset of each pose.
    """
    ctx, geoms = data.ctx, data.ctx.model.sensors.ray_geoms
    pose_offsets = [ctx.allocate(12) for _ in geoms.types]
    rows = []
    for i, offset in enumerate(pose_offsets):
        constants = {"position": geoms.pos[i].tolist(), "rotation": geoms.rot[i].ravel().tolist()}
        rows.append(
            ctx.node_row("geom", {"frame ": frame_ref(int(geoms.frame_idx[i]))}, {"geom pose": offset}, constants)
        )

    def body(code: RowContext) -> None:
        pose, flat = floating_origin_poses[frame_ref("frame ")], code.constants("rotation")
        rotation = matmul(pose.rotation, [flat[3 * i : 3 * i + 3] for i in range(3)])
        code.write("geom pose", add(pose.position, rotate(pose.rotation, code.constants("position"))))
        code.write("geom pose", [x for row in rotation for x in row], 3)

    ctx.table_loop("poses of ray geoms", rows, body)
    return pose_offsets


def _geom_table_row(data: StepData, geom: int, pose_offset: ArenaOffset) -> TableRow:
    """Loop iteration data of a geom hit by rays: type, pose, size, bounding sphere, range of its mesh data."""
    geoms = data.ctx.model.sensors.ray_geoms
    constants = {
        "size": np.minimum(geoms.size[geom], NO_HIT).tolist(),
        "center": geoms.center[geom].tolist(),
        "radius": [min(float(geoms.radius[geom]), NO_HIT)],
        "header": [float(geoms.data_start[geom]), *(float(x) for x in geoms.data_counts[geom])],
    }
    return TableRow(
        RayGeomVariant(geoms.types[geom]),
        {"geom pose": pose_offset, RAY_DATA: data.ctx.array_offsets[RAY_DATA]},
        constants,
    )


def _cast_sensor_rays(code: RowContext, floating_origin_poses: NodeValues[Pose]) -> None:
    """Traced loop body: cast the rays of one sensor one after the other and write their distances to `sensordata`.

    The output's parameters are the index of the first direction in the ray data, the number of rays, and range bounds
    if any.
    """
    variant, tracer = code.variant, code.tracer
    assert isinstance(variant, SensorOutputVariant)
    mounting = attachment_pose(code, floating_origin_poses, OBJECT_FRAME)
    first, count, *bounds = code.constants("params")
    best_distance, ray = tracer.allocate_local(1), tracer.allocate_local(6)
    has_geoms = bool(variant.options[-1])

    def cast(index: Value) -> None:
        direction = [tracer.read(RAY_DATA, i, first + 3.0 * index) for i in range(3)]
        tracer.write(ray, [*mounting.position, *rotate(mounting.rotation, direction)])
        tracer.write(best_distance, [NO_HIT])
        tracer.new_basic_block()
        if has_geoms:
            code.nested_loop("geoms", lambda inner: _intersect_geom(inner, ray, best_distance))
        tracer.write(SENSOR_OUTPUT_ARRAY, [_range_value(code, variant, tracer.read(best_distance), bounds)], 0, index)

    tracer.counted_loop("rays", count, cast, uniform=True)


def _range_value(code: RowContext, variant: SensorOutputVariant, distance: Value, bounds: list[Value]) -> Value:
    """Value of a ray for its hit distance, clamped to the cutoff of the sensor.

    With the option `inf`, distances below the lower bound give -inf and distances above the upper bound +inf; otherwise
    a miss gives -1.
    """
    if variant.options[0] == "inf":
        low, high = bounds
        value = ir.select(distance, low, -np.inf, ir.select(high, distance, np.inf, distance))
    else:
        value = ir.select(HIT_THRESHOLD, distance, -1.0, distance)
    (clamped,) = apply_cutoff(code, variant, [value])
    return clamped


def _intersect_geom(code: RowContext, ray: str, best_distance: str) -> None:
    """Traced loop body: intersect a ray with one geom and update the smallest distance found so far.

    The exact test runs only if the ray hits the geom's bounding sphere nearer than the best distance; planes are always
    tested.

    Args:
        code: loop iteration of the geom.
        ray: local array with origin (3) and direction (3) of the ray.
        best_distance: local array with the smallest distance, updated.
    """
    variant, tracer = code.variant, code.tracer
    assert isinstance(variant, RayGeomVariant)
    flat, pose_values = [tracer.read(ray, i) for i in range(6)], code.read_array("geom pose", 12)
    pose = Pose([pose_values[3 * i : 3 * i + 3] for i in range(1, 4)], pose_values[:3])

    def intersect() -> list[Value]:
        local_ray = Ray.in_frame(pose, flat[:3], flat[3:])
        size, header = code.constants("size"), code.constants("header")

        def read(index: Value) -> Value:
            return tracer.read(RAY_DATA, 0, index)

        if variant.geom_type == "mesh":
            intersect_mesh(tracer, read, header, local_ray, best_distance)
        elif variant.geom_type == "height field":
            HeightFieldIntersection(tracer, read, header, size, local_ray, best_distance).intersect()
        else:
            tracer.write(
                best_distance,
                [ir.minimum(tracer.read(best_distance), PRIMITIVE_INTERSECTIONS[variant.geom_type](local_ray, size))],
            )
        return []

    if variant.geom_type == "plane":
        intersect()
        return
    radius = code.constant("radius")
    to_center = sub(add(pose.position, rotate(pose.rotation, code.constants("center"))), flat[:3])
    center_distance = dot(to_center, flat[3:])
    perpendicular = sub(to_center, scale(center_distance, flat[3:]))
    sphere_miss = ir.maximum(
        ir.maximum(dot(perpendicular, perpendicular) - radius * radius, -center_distance - radius), 0.0
    )
    farther_than_best = ir.select(tracer.read(best_distance), center_distance - radius, 1.0, 0.0)
    tracer.if_less("bounding sphere hit", sphere_miss + farther_than_best, 1e-9, intersect, [])
