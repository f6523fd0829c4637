"""Traced intersections of a ray with a geom of each type: distance and outward normal of the surface.

Rays are in the axes of the geom. Meshes are convex hulls, as in the simulation.
"""

from __future__ import annotations

from collections.abc import Sequence

from kinema import ir
from kinema.ir import Program, Tracer, Value

from ..collision.collision_types import PackedHull, SdfData
from ..collision.sdf import SdfGrid
from ..collision.support_mapping import face_normal, face_vertex_list, hull_vertex
from ..collision.vector_math import select_vector
from ..sensors.ray_intersection import (
    EPSILON,
    NO_HIT,
    PRIMITIVE_INTERSECTIONS,
    HeightFieldIntersection,
    Ray,
    primitive_normal,
)
from ..vector_math import Vector, dot, sub
from .lane_program import GEOM_DATA, LANE_INPUT, LANE_OUTPUT, RAY_INPUT_SIZE, RAY_RANGE

# -------------------------------------------------------------------------------------------------------- intersections

MAX_MARCH_STEPS = 512
"""Largest number of steps along a ray through a signed distance field."""


def trace_ray_intersection(geom_type: str) -> Program:
    """Trace the distance along a ray to a geom of a type, and the outward normal of the surface there, in its axes.

    The distance is `NO_HIT` for a miss.
    """
    tracer = Tracer()
    flat = [tracer.read(LANE_INPUT, i) for i in range(RAY_INPUT_SIZE)]
    ray, size, data = Ray(flat[:3], flat[3:6]), flat[6:9], flat[9:]
    if geom_type == "mesh":
        result = _intersect_hull(tracer, ray, data)
    elif geom_type == "height field":
        result = _intersect_height_field(tracer, ray, size, data)
    elif geom_type == "distance field":
        result = _intersect_distance_field(tracer, ray, data)
    else:
        distance = PRIMITIVE_INTERSECTIONS[geom_type](ray, size)
        result = [distance, *primitive_normal(geom_type, ray.point_at(distance), size)]
    tracer.write(LANE_OUTPUT, result)
    return tracer.build()


def _read_data(tracer: Tracer, index: Value) -> Value:
    return tracer.read(GEOM_DATA, 0, index)


def _intersect_hull(tracer: Tracer, ray: Ray, data: Sequence[Value]) -> list[Value]:
    """Distance and normal of a ray and a convex hull, clipped by the planes of all faces (Cyrus and Beck)."""
    start, n_vertices, n_faces, radius = data
    hull = PackedHull(lambda index: _read_data(tracer, index), start, n_vertices, n_faces, radius)
    state = tracer.allocate_local(8)
    tracer.write(state, [-NO_HIT, 0.0, 0.0, 1.0, NO_HIT, 0.0, 0.0, 1.0])  # entry and exit, each with its normal

    def clip(face: Value) -> None:
        normal = face_normal(hull, face)
        _, first = face_vertex_list(hull, face)
        height = dot(normal, sub(ray.origin, hull_vertex(hull, hull.read(first))))
        approach = -dot(normal, ray.direction)
        is_parallel = ir.select(ir.absolute(approach), EPSILON, 1.0, 0.0)
        distance = height / ir.select(0.5, is_parallel, 1.0, approach)
        old = [tracer.read(state, i) for i in range(8)]
        outside = ir.select(0.0, height, NO_HIT, -NO_HIT)  # of a parallel ray: outside of the face everywhere, or never
        enter = ir.select(0.5, is_parallel, outside, ir.select(0.0, approach, distance, -NO_HIT))
        leave = ir.select(0.5, is_parallel, NO_HIT, ir.select(approach, 0.0, distance, NO_HIT))
        entry = select_vector(old[0], enter, [enter, *normal], old[:4])
        tracer.write(state, [*entry, *select_vector(leave, old[4], [leave, *normal], old[4:])])

    tracer.counted_loop("faces", n_faces, clip)
    values = [tracer.read(state, i) for i in range(8)]
    first = select_vector(values[0], 0.0, values[4:], values[:4])  # from inside, the exit
    misses = ir.maximum(ir.select(values[4], values[0], 1.0, 0.0), ir.select(first[0], 0.0, 1.0, 0.0))
    return [ir.select(0.5, misses, NO_HIT, first[0]), *first[1:]]


def _intersect_height_field(tracer: Tracer, ray: Ray, size: Vector, data: Sequence[Value]) -> list[Value]:
    """Distance and normal of a ray and the solid below a height field: surface, side walls or base."""
    best = tracer.allocate_local(1)
    tracer.write(best, [NO_HIT])
    tracer.new_basic_block()
    field = HeightFieldIntersection(tracer, lambda index: _read_data(tracer, index), data[:3], size, ray, best)
    field.intersect()
    distance = tracer.read(best)
    return [distance, *field.normal_at(ray.point_at(ir.minimum(distance, RAY_RANGE)))]


def _intersect_distance_field(tracer: Tracer, ray: Ray, data: Sequence[Value]) -> list[Value]:
    """Distance and normal of a ray and a signed distance field, by marching to the first change of sign.

    Steps are a lower bound of the distance, at least half a cell; the surface is interpolated within the last step.
    """
    start, n_points, _, radius = data
    grid = SdfGrid(SdfData(lambda index: _read_data(tracer, index), start, n_points, radius))
    at_start, _ = grid.distance_and_normal(ray.origin)
    sign = ir.select(at_start, 0.0, -1.0, 1.0)

    def march(state: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        distance, value, _, _ = state
        point = ray.point_at(distance)
        bound = ir.select(sign, 0.0, 0.0, grid.distance_lower_bound(point))
        step = ir.maximum(bound, 0.5 * grid.cell_size)
        following, _ = grid.distance_and_normal(ray.point_at(distance + step))
        following = sign * following
        is_hit = ir.select(following, 0.0, 1.0, 0.0)
        fraction = value / ir.maximum(value - following, 1e-30)
        end = ir.select(0.5, is_hit, distance + fraction * step, distance + step)
        is_beyond = ir.select(4.0 * radius, end, 1.0, 0.0)
        return [end, following, is_hit, is_beyond], is_hit + is_beyond, 0.5

    end = tracer.while_loop("march", march, [0.0, sign * at_start, 0.0, 0.0], MAX_MARCH_STEPS)
    distance = ir.select(0.5, end[2], end[0], NO_HIT)
    _, normal = grid.distance_and_normal(ray.point_at(end[0]))
    return [distance, *normal]
