"""Rays cast at the geoms of a scene: poses and loop iterations of the geoms, nearest intersection of a ray."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kinema import ir
from kinema.ir import ArenaOffset, IterationContext, LoopIteration, Value
from kinema.model import Model

from ..arrays import PRESENT_ARRAY
from ..collision.vector_math import select_vector
from ..rigid.kinematics import Pose
from ..topology import WORLD, dynamic_frames
from ..tree.kinematic_tree import frame_ref
from ..tree.node_constants import with_per_env_parameters
from ..tree.node_values import NodeValues
from ..tree.trace_context import TraceContext
from ..vector_math import Vector, add, dot, matmul, rotate, scale, sub
from .ray_intersection import (
    NO_HIT,
    PRIMITIVE_INTERSECTIONS,
    HeightFieldIntersection,
    Ray,
    intersect_mesh,
    primitive_normal,
)

RAY_DATA = "ray_data"
"""Array of ray directions and of the data of meshes and height fields (`RayGeomsInfo.data`)."""


MAX_NORMAL_DISTANCE = 1e6
"""Distance to which that of a miss is clamped before the normal at its point is computed [m]."""


@dataclass(frozen=True, slots=True)
class RayGeomSpecialization:
    """Specialization key of a geom in the loop over geoms: its type, and whether it is absent in some environments."""

    geom_type: str
    can_be_absent: bool = False


RAY_GEOM = "ray geom"
"""Table name of ray geoms in the per-environment parameters."""


def ray_geom_constants(model: Model, geom: int) -> dict[str, list[float]]:
    """Constants of a ray geom that may differ between model variants: pose in its frame, size and bounding sphere."""
    geoms = model.sensors.ray_geoms
    return {
        "position": geoms.pos[geom].tolist(),
        "rotation": geoms.rot[geom].ravel().tolist(),
        "size": np.minimum(geoms.size[geom], NO_HIT).tolist(),
        "center": geoms.center[geom].tolist(),
        "radius": [min(float(geoms.radius[geom]), NO_HIT)],
    }


def compute_geom_poses(
    ctx: TraceContext, frame_poses: NodeValues[Pose], indices: Iterable[int]
) -> dict[int, ArenaOffset]:
    """Trace the poses of some geoms that rays can hit into scratch memory: position (3), then rotation matrix (9).

    Returns the memory offset of each pose; `frame_poses` are the poses of the moving frames.
    """
    geoms = ctx.model.sensors.ray_geoms
    pose_offsets = {i: ctx.allocate(12) for i in indices}
    rows = []
    for i, offset in pose_offsets.items():
        constants = with_per_env_parameters(ctx, RAY_GEOM, i, ray_geom_constants(ctx.model, i))
        constants = {name: constants[name] for name in ("position", "rotation")}
        rows.append(
            ctx.node_iteration("geom", {"frame ": frame_ref(int(geoms.frame_idx[i]))}, {"geom pose": offset}, constants)
        )

    def body(iteration: IterationContext) -> None:
        pose, flat = frame_poses[frame_ref("frame ")], iteration.constants("rotation")
        rotation = matmul(pose.rotation, [flat[3 * i : 3 * i + 3] for i in range(3)])
        iteration.write("geom pose", add(pose.position, rotate(pose.rotation, iteration.constants("position"))))
        iteration.write("geom pose", [x for row in rotation for x in row], 3)

    ctx.for_each("poses of ray geoms", rows, body)
    return pose_offsets


def ray_geom_iteration(ctx: TraceContext, geom: int, pose_offset: ArenaOffset) -> LoopIteration:
    """Loop iteration of a geom that rays can hit: type, pose, size, bounding sphere, range of its mesh data."""
    geoms = ctx.model.sensors.ray_geoms
    constants = with_per_env_parameters(ctx, RAY_GEOM, geom, ray_geom_constants(ctx.model, geom))
    constants = {name: constants[name] for name in ("size", "center", "radius")}
    constants["header"] = [float(geoms.data_start[geom]), *(float(x) for x in geoms.data_counts[geom])]
    frame = int(dynamic_frames(ctx.model, geoms.frame_idx[[geom]])[0])
    presence = {} if frame == WORLD else ctx.presence_of_frame(frame)
    return LoopIteration(
        RayGeomSpecialization(geoms.types[geom], bool(presence)),
        {"geom pose": pose_offset, RAY_DATA: ctx.array_offsets[RAY_DATA], **presence},
        constants,
    )


def intersect_geom(iteration: IterationContext, ray: str, best_distance: str, normal: str = "") -> None:
    """Traced loop body: intersect a ray with one geom and update the smallest distance found so far.

    The exact test runs only if the ray hits the geom's bounding sphere nearer than the best distance; planes are always
    tested.

    Args:
        iteration: loop iteration of the geom.
        ray: local array with origin (3) and direction (3) of the ray.
        best_distance: local array with the smallest distance, updated.
        normal: local array of the outward unit normal of the nearest surface in world axes, updated; empty for none.
    """
    specialization, tracer = iteration.specialization, iteration.tracer
    assert isinstance(specialization, RayGeomSpecialization)
    flat, pose_values = [tracer.read(ray, i) for i in range(6)], iteration.read_array("geom pose", 12)
    pose = Pose([pose_values[3 * i : 3 * i + 3] for i in range(1, 4)], pose_values[:3])

    def intersect() -> list[Value]:
        local_ray = Ray.in_frame(pose, flat[:3], flat[3:])
        size, header = iteration.constants("size"), iteration.constants("header")

        def read(index: Value) -> Value:
            return tracer.read(RAY_DATA, 0, index)

        previous, geom_type = tracer.read(best_distance), specialization.geom_type
        mesh_normal, field = "", None
        if geom_type == "mesh":
            mesh_normal = tracer.allocate_local(3) if normal else ""
            intersect_mesh(tracer, read, header, local_ray, best_distance, mesh_normal)
        elif geom_type == "height field":
            field = HeightFieldIntersection(tracer, read, header, size, local_ray, best_distance)
            field.intersect()
        else:
            tracer.write(best_distance, [ir.minimum(previous, PRIMITIVE_INTERSECTIONS[geom_type](local_ray, size))])
        if normal:
            tracer.new_basic_block()
            distance = tracer.read(best_distance)
            point = local_ray.point_at(ir.minimum(distance, MAX_NORMAL_DISTANCE))
            if geom_type == "mesh":
                outward: Vector = [tracer.read(mesh_normal, i) for i in range(3)]
            elif field is not None:
                outward = field.normal_at(point)
            else:
                outward = primitive_normal(geom_type, point, size)
            kept = [tracer.read(normal, i) for i in range(3)]
            tracer.write(normal, select_vector(distance, previous, rotate(pose.rotation, outward), kept))
        return []

    if specialization.geom_type == "plane":
        intersect()
        return
    radius = iteration.constant("radius")
    to_center = sub(add(pose.position, rotate(pose.rotation, iteration.constants("center"))), flat[:3])
    center_distance = dot(to_center, flat[3:])
    perpendicular = sub(to_center, scale(center_distance, flat[3:]))
    sphere_miss = ir.maximum(
        ir.maximum(dot(perpendicular, perpendicular) - radius * radius, -center_distance - radius), 0.0
    )
    farther_than_best = ir.select(tracer.read(best_distance), center_distance - radius, 1.0, 0.0)
    if specialization.can_be_absent:
        sphere_miss = ir.select(0.5, iteration.read(PRESENT_ARRAY), sphere_miss, 1.0)
    tracer.if_less("bounding sphere hit", sphere_miss + farther_than_best, 1e-9, intersect, [])
