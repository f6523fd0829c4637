"""Ray intersection on the device: primitives, meshes, and closest-hit and any-hit queries.

Primitive intersections work in the frame of the primitive and return the smallest non-negative ray parameter (the
origin may be inside), or a negative number for a miss. Scene queries test all bodies sorted by their bounding spheres
if there are few, and traverse a BVH otherwise. Kernels are specialized for the features of the scene
(`KernelFeatures`).
"""

from __future__ import annotations

from functools import cache

import warp as wp

from ..kernel_launch import KernelFeatures
from .structs import (
    BOX,
    CAPSULE,
    CONE,
    CYLINDER,
    ELLIPSOID,
    MESH,
    PLANE,
    RAY_INFINITY,
    SPHERE,
    Bodies,
    RayHit,
    to_warp_quat,
)

# Primitives -----------------------------------------------------------------------------------------------------------


@wp.func
def nearest_non_negative(near: float, far: float) -> float:
    """`near` unless it is negative, else `far`: first intersection of an interval in front of the origin."""
    t = near
    if near < 0.0:
        t = far
    return t


@wp.func
def intersect_sphere(origin: wp.vec3, direction: wp.vec3, radius: float) -> float:
    """Smallest non-negative ray parameter of a sphere at the origin; negative for a miss."""
    # from the point of the ray closest to the centre, which is accurate for distant origins
    squared_length = wp.dot(direction, direction)
    t_closest = -wp.dot(origin, direction) / squared_length
    closest = origin + t_closest * direction
    discriminant = radius * radius - wp.dot(closest, closest)
    t = float(-1.0)
    if discriminant >= 0.0:
        half_chord = wp.sqrt(discriminant / squared_length)
        t = nearest_non_negative(t_closest - half_chord, t_closest + half_chord)
    return t


@wp.func
def intersect_box(origin: wp.vec3, direction: wp.vec3, half: wp.vec3) -> float:
    """Smallest non-negative ray parameter of a box with half extents `half` (slab method); negative for a miss."""
    near = float(-1.0e30)
    far = float(1.0e30)
    for i in range(3):
        if wp.abs(direction[i]) > 1.0e-12:
            a = (-half[i] - origin[i]) / direction[i]
            b = (half[i] - origin[i]) / direction[i]
            near = wp.max(near, wp.min(a, b))
            far = wp.min(far, wp.max(a, b))
        elif wp.abs(origin[i]) > half[i]:
            far = -1.0e30
    t = float(-1.0)
    if near <= far:
        t = nearest_non_negative(near, far)
    return t


@wp.func
def intersect_plane(origin: wp.vec3, direction: wp.vec3, half: wp.vec3) -> float:
    """Ray parameter of the plane z = 0, or of a rectangle with positive half extents `half`; negative for a miss."""
    t = float(-1.0)
    if wp.abs(direction[2]) > 1.0e-12:
        t = -origin[2] / direction[2]
        if half[0] > 0.0 and (
            wp.abs(origin[0] + t * direction[0]) > half[0] or wp.abs(origin[1] + t * direction[1]) > half[1]
        ):
            t = -1.0
    return t


@wp.func
def intersect_infinite_cylinder(origin: wp.vec3, direction: wp.vec3, radius: float) -> wp.vec2:
    """Entry and exit ray parameter of an infinite cylinder about z; the first exceeds the second for a miss."""
    a = direction[0] * direction[0] + direction[1] * direction[1]
    interval = wp.vec2(1.0, -1.0)
    if a > 1.0e-12:
        t_closest = -(origin[0] * direction[0] + origin[1] * direction[1]) / a
        x = origin[0] + t_closest * direction[0]
        y = origin[1] + t_closest * direction[1]
        discriminant = radius * radius - x * x - y * y
        if discriminant >= 0.0:
            half_chord = wp.sqrt(discriminant / a)
            interval = wp.vec2(t_closest - half_chord, t_closest + half_chord)
    elif origin[0] * origin[0] + origin[1] * origin[1] <= radius * radius:
        interval = wp.vec2(-1.0e30, 1.0e30)
    return interval


@wp.func
def intersect_cylinder(origin: wp.vec3, direction: wp.vec3, radius: float, half: float) -> float:
    """Smallest non-negative ray parameter of a solid cylinder about z with half length `half`; negative for a miss."""
    interval = intersect_infinite_cylinder(origin, direction, radius)
    near = interval[0]
    far = interval[1]
    t = float(-1.0)
    if near <= far:
        if wp.abs(direction[2]) > 1.0e-12:
            a = (-half - origin[2]) / direction[2]
            b = (half - origin[2]) / direction[2]
            near = wp.max(near, wp.min(a, b))
            far = wp.min(far, wp.max(a, b))
        elif wp.abs(origin[2]) > half:
            far = -1.0e30
        if near <= far:
            t = nearest_non_negative(near, far)
    return t


@wp.func
def min_valid_distance(best: float, t: float, valid: bool) -> float:
    """Smaller of two ray parameters, ignoring `t` if it is negative or not `valid`, and a negative `best`."""
    result = best
    if valid and t >= 0.0 and (best < 0.0 or t < best):
        result = t
    return result


@wp.func
def intersect_capsule(origin: wp.vec3, direction: wp.vec3, radius: float, half: float) -> float:
    """Smallest non-negative ray parameter of a capsule about z; negative for a miss.

    `half` is the half length of the cylindrical part.
    """
    interval = intersect_infinite_cylinder(origin, direction, radius)
    t = float(-1.0)
    if interval[0] <= interval[1]:
        for i in range(2):
            t = min_valid_distance(t, interval[i], wp.abs(origin[2] + interval[i] * direction[2]) <= half)
    for i in range(2):
        side = float(1 - 2 * i)
        center = wp.vec3(0.0, 0.0, side * half)
        squared_length = wp.dot(direction, direction)
        t_closest = wp.dot(center - origin, direction) / squared_length
        closest = origin + t_closest * direction - center
        discriminant = radius * radius - wp.dot(closest, closest)
        if discriminant >= 0.0:
            half_chord = wp.sqrt(discriminant / squared_length)
            t = min_valid_distance(
                t, t_closest - half_chord, side * (origin[2] + (t_closest - half_chord) * direction[2]) >= half
            )
            t = min_valid_distance(
                t, t_closest + half_chord, side * (origin[2] + (t_closest + half_chord) * direction[2]) >= half
            )
    return t


@wp.func
def intersect_cone(origin: wp.vec3, direction: wp.vec3, radius: float, half: float) -> float:
    """Smallest non-negative ray parameter of a solid cone about z; negative for a miss.

    The apex is at z = +half, the base of `radius` at z = -half.
    """
    slope = radius / (2.0 * half)
    k = slope * slope
    below_apex = half - origin[2]
    a = direction[0] * direction[0] + direction[1] * direction[1] - k * direction[2] * direction[2]
    b = origin[0] * direction[0] + origin[1] * direction[1] + k * below_apex * direction[2]
    c = origin[0] * origin[0] + origin[1] * origin[1] - k * below_apex * below_apex
    t = float(-1.0)
    discriminant = b * b - a * c
    if discriminant >= 0.0 and wp.abs(a) > 1.0e-12:
        root = wp.sqrt(discriminant)
        for i in range(2):
            candidate = (-b + float(2 * i - 1) * root) / a
            z = origin[2] + candidate * direction[2]
            t = min_valid_distance(t, candidate, z >= -half and z <= half)
    if wp.abs(direction[2]) > 1.0e-12:
        candidate = (-half - origin[2]) / direction[2]
        x = origin[0] + candidate * direction[0]
        y = origin[1] + candidate * direction[1]
        t = min_valid_distance(t, candidate, x * x + y * y <= radius * radius)
    return t


@wp.func
def intersect_primitive(kind: int, size: wp.vec3, origin: wp.vec3, direction: wp.vec3) -> float:
    """Ray parameter of a primitive of type `kind` other than plane and mesh, in its frame; negative for a miss."""
    t = float(-1.0)
    if kind == SPHERE:
        t = intersect_sphere(origin, direction, size[0])
    elif kind == BOX:
        t = intersect_box(origin, direction, size)
    elif kind == CAPSULE:
        t = intersect_capsule(origin, direction, size[0], size[1])
    elif kind == CYLINDER:
        t = intersect_cylinder(origin, direction, size[0], size[1])
    elif kind == ELLIPSOID:
        t = intersect_sphere(wp.cw_div(origin, size), wp.cw_div(direction, size), 1.0)
    elif kind == CONE:
        t = intersect_cone(origin, direction, size[0], size[1])
    return t


@wp.func
def primitive_normal(kind: int, size: wp.vec3, point: wp.vec3) -> wp.vec3:
    """Outward unit normal of a primitive at a surface point, in its frame."""
    n = wp.vec3(0.0, 0.0, 1.0)
    radial = wp.vec3(point[0], point[1], 0.0)
    side = wp.sign(point[2])
    if kind == SPHERE:
        n = point
    elif kind == BOX:
        outside = wp.vec3(wp.abs(point[0]) - size[0], wp.abs(point[1]) - size[1], wp.abs(point[2]) - size[2])
        if outside[0] >= outside[1] and outside[0] >= outside[2]:
            n = wp.vec3(wp.sign(point[0]), 0.0, 0.0)
        elif outside[1] >= outside[2]:
            n = wp.vec3(0.0, wp.sign(point[1]), 0.0)
        else:
            n = wp.vec3(0.0, 0.0, side)
    elif kind == CAPSULE:
        n = point - wp.vec3(0.0, 0.0, wp.clamp(point[2], -size[1], size[1]))
    elif kind == CYLINDER:
        if wp.length(radial) - size[0] > wp.abs(point[2]) - size[1]:
            n = radial
        else:
            n = wp.vec3(0.0, 0.0, side)
    elif kind == ELLIPSOID:
        n = wp.cw_div(wp.cw_div(point, size), size)
    elif kind == CONE:
        slope = size[0] / (2.0 * size[1])
        if wp.length(radial) - slope * (size[1] - point[2]) >= -(point[2] + size[1]):
            n = wp.normalize(radial) + wp.vec3(0.0, 0.0, slope)
        else:
            n = wp.vec3(0.0, 0.0, -1.0)
    return wp.normalize(n)


@wp.func
def primitive_uv(kind: int, size: wp.vec3, point: wp.vec3) -> wp.vec2:
    """Texture coordinates of a primitive at a surface point.

    Metres on an infinite plane, 0 to 1 over a rectangle or each side of a box, and cylindrical coordinates (azimuth, z)
    on round shapes.
    """
    uv = wp.vec2(point[0], point[1])
    if kind == PLANE:
        if size[0] > 0.0:
            uv = wp.vec2(0.5 + 0.5 * point[0] / size[0], 0.5 + 0.5 * point[1] / size[1])
    elif kind == BOX:
        n = primitive_normal(kind, size, point)
        if wp.abs(n[0]) > 0.5:
            uv = wp.vec2(0.5 + 0.5 * point[1] / size[1], 0.5 + 0.5 * point[2] / size[2])
        elif wp.abs(n[1]) > 0.5:
            uv = wp.vec2(0.5 + 0.5 * point[0] / size[0], 0.5 + 0.5 * point[2] / size[2])
        else:
            uv = wp.vec2(0.5 + 0.5 * point[0] / size[0], 0.5 + 0.5 * point[1] / size[1])
    else:
        top = size[0]
        if kind == CAPSULE:
            top = size[0] + size[1]
        elif kind == CYLINDER or kind == CONE:
            top = size[1]
        elif kind == ELLIPSOID:
            top = size[2]
        uv = wp.vec2(0.5 + wp.atan2(point[1], point[0]) / (2.0 * wp.pi), 0.5 + 0.5 * point[2] / top)
    return uv


# Scene queries --------------------------------------------------------------------------------------------------------


@wp.func
def body_position(bodies: Bodies, body: int, env: int, time: float) -> wp.vec3:
    """World position of a body at `time` in [0, 1], interpolated for motion blur."""
    p = bodies.position[body, env]
    if bodies.motion_blur == 1:
        p = wp.lerp(bodies.previous_position[body, env], p, time)
    return p


@wp.func
def body_rotation(bodies: Bodies, body: int, env: int, time: float) -> wp.quat:
    """World orientation of a body at `time` in [0, 1], interpolated (nlerp) for motion blur."""
    q = bodies.rotation[body, env]
    if bodies.motion_blur == 1:
        previous = bodies.previous_rotation[body, env]
        if wp.dot(previous, q) < 0.0:
            previous = -previous
        q = wp.normalize(wp.lerp(previous, q, time))
    return to_warp_quat(q)


@wp.func
def hit_instance(bodies: Bodies, hit: RayHit) -> int:
    """Index of the instance that was hit."""
    i = bodies.first_instance[hit.body]
    if hit.face >= 0:
        i = bodies.face_instance[bodies.face_start[hit.body] + hit.face]
    return i


@wp.func
def sphere_entry_distance(sphere: wp.vec4, origin: wp.vec3, direction: wp.vec3) -> float:
    """Distance at which a ray enters a sphere (centre, radius), 0 from inside; `RAY_INFINITY` for a miss."""
    offset = wp.vec3(sphere[0], sphere[1], sphere[2]) - origin
    along = wp.dot(offset, direction)
    perpendicular = offset - along * direction
    discriminant = sphere[3] * sphere[3] - wp.dot(perpendicular, perpendicular)
    t = float(RAY_INFINITY)
    if discriminant >= 0.0:
        half_chord = wp.sqrt(discriminant)
        if along + half_chord >= 0.0:
            t = wp.max(along - half_chord, 0.0)
    return t


@cache
def primitive_intersection_functions(primitives: bool) -> tuple[wp.Function, wp.Function]:
    """Warp functions for the ray parameter and the normal of a primitive or plane.

    Without `primitives` in the scene, only planes are compiled.
    """

    @wp.func
    def intersect(kind: int, size: wp.vec3, origin: wp.vec3, direction: wp.vec3) -> float:
        t = float(-1.0)
        if kind == PLANE:
            t = intersect_plane(origin, direction, size)
        elif wp.static(primitives):
            t = intersect_primitive(kind, size, origin, direction)
        return t

    @wp.func
    def surface_normal(kind: int, size: wp.vec3, point: wp.vec3) -> wp.vec3:
        normal = wp.vec3(0.0, 0.0, 1.0)
        if wp.static(primitives):
            normal = primitive_normal(kind, size, point)
        return normal

    return intersect, surface_normal


@cache
def body_intersection_functions(meshes: bool, primitives: bool) -> tuple[wp.Function, wp.Function]:
    """Warp functions that intersect a ray with one body: closest hit and any hit.

    `meshes` and `primitives` tell which geometry types occur in the scene. The closest-hit function returns the nearer
    of its hit and a given hit; the any-hit function returns whether the body is hit within a distance.
    """
    intersect, surface_normal = primitive_intersection_functions(primitives)

    @wp.func
    def body_closest_hit(
        bodies: Bodies, body: int, env: int, time: float, origin: wp.vec3, direction: wp.vec3, best: RayHit
    ) -> RayHit:
        """The nearer of `best` and the hit of the ray with one body."""
        inverse_rotation = wp.quat_inverse(body_rotation(bodies, body, env, time))
        local_origin = wp.quat_rotate(inverse_rotation, origin - body_position(bodies, body, env, time))
        local_direction = wp.quat_rotate(inverse_rotation, direction)
        result = best
        kind = bodies.kind[body]
        if kind != MESH:
            t = intersect(kind, bodies.size[body], local_origin, local_direction)
            if t >= 0.0 and t < best.t:
                result.t = t
                result.body = body
                result.face = -1
                result.normal = surface_normal(kind, bodies.size[body], local_origin + t * local_direction)
        elif wp.static(meshes):
            query = wp.mesh_query_ray(bodies.mesh[body], local_origin, local_direction, best.t)
            if query.result:
                result.t = query.t
                result.body = body
                result.face = query.face
                result.u = query.u
                result.v = query.v
                result.normal = query.normal
        return result

    @wp.func
    def body_any_hit(
        bodies: Bodies, body: int, env: int, time: float, origin: wp.vec3, direction: wp.vec3, max_distance: float
    ) -> bool:
        """Whether the ray hits one body within `max_distance`."""
        inverse_rotation = wp.quat_inverse(body_rotation(bodies, body, env, time))
        local_origin = wp.quat_rotate(inverse_rotation, origin - body_position(bodies, body, env, time))
        local_direction = wp.quat_rotate(inverse_rotation, direction)
        result = bool(False)
        if bodies.kind[body] != MESH:
            t = intersect(bodies.kind[body], bodies.size[body], local_origin, local_direction)
            result = t >= 0.0 and t < max_distance
        elif wp.static(meshes):
            result = wp.mesh_query_ray_anyhit(bodies.mesh[body], local_origin, local_direction, max_distance)
        return result

    return body_closest_hit, body_any_hit


def bvh_query_functions(body_closest_hit: wp.Function, body_any_hit: wp.Function) -> tuple[wp.Function, wp.Function]:
    """Warp functions for the closest hit and any hit of a ray in the scene, by BVH traversal.

    Unbounded bodies (planes) are tested first. The arguments are the functions of `body_intersection_functions`.
    """

    @wp.func
    def closest_hit(
        bodies: Bodies, env: int, time: float, origin: wp.vec3, direction: wp.vec3, max_distance: float
    ) -> RayHit:
        """Closest hit of a ray with unit direction within `max_distance`; body -1 for a miss."""
        best = RayHit()
        best.t = max_distance
        best.body = -1
        for body in range(bodies.n_bounded, bodies.n_bodies):
            best = body_closest_hit(bodies, body, env, time, origin, direction, best)
        if bodies.n_bounded > 0:
            query = wp.bvh_query_ray(bodies.bvh, origin, direction, wp.bvh_get_group_root(bodies.bvh, env))
            item = int(0)
            while wp.bvh_query_next(query, item, best.t):
                best = body_closest_hit(bodies, item - env * bodies.n_bounded, env, time, origin, direction, best)
        return best

    @wp.func
    def any_hit(
        bodies: Bodies, env: int, time: float, origin: wp.vec3, direction: wp.vec3, max_distance: float
    ) -> bool:
        """Whether a ray with unit direction hits anything within `max_distance` (shadow ray)."""
        hit = bool(False)
        for body in range(bodies.n_bounded, bodies.n_bodies):
            if not hit:
                hit = body_any_hit(bodies, body, env, time, origin, direction, max_distance)
        if bodies.n_bounded > 0 and not hit:
            query = wp.bvh_query_ray(bodies.bvh, origin, direction, wp.bvh_get_group_root(bodies.bvh, env))
            item = int(0)
            while not hit and wp.bvh_query_next(query, item, max_distance):
                hit = body_any_hit(bodies, item - env * bodies.n_bounded, env, time, origin, direction, max_distance)
        return hit

    return closest_hit, any_hit


def linear_query_functions(body_closest_hit: wp.Function, body_any_hit: wp.Function) -> tuple[wp.Function, wp.Function]:
    """Warp functions for the closest hit and any hit of a ray in the scene, by linear search over all bodies.

    The arguments are the functions of `body_intersection_functions`.
    """

    @wp.func
    def closest_hit(
        bodies: Bodies, env: int, time: float, origin: wp.vec3, direction: wp.vec3, max_distance: float
    ) -> RayHit:
        """Closest hit of a ray with unit direction within `max_distance`, testing bodies in order of sphere entry."""
        best = RayHit()
        best.t = max_distance
        best.body = -1
        next_unbounded = bodies.n_bounded
        last_distance = float(-1.0)
        last_body = int(-1)
        searching = bool(True)
        while searching:
            candidate = int(-1)
            if next_unbounded < bodies.n_bodies:
                candidate = next_unbounded
                next_unbounded += 1
            else:
                entry = best.t
                for body in range(bodies.n_bounded):
                    t = sphere_entry_distance(bodies.bounding_sphere[env, body], origin, direction)
                    if t < entry and (t > last_distance or (t == last_distance and body > last_body)):
                        entry = t
                        candidate = body
                last_distance = entry
                last_body = candidate
            if candidate < 0:
                searching = False
            else:
                best = body_closest_hit(bodies, candidate, env, time, origin, direction, best)
        return best

    @wp.func
    def any_hit(
        bodies: Bodies, env: int, time: float, origin: wp.vec3, direction: wp.vec3, max_distance: float
    ) -> bool:
        """Whether a ray with unit direction hits anything within `max_distance`, testing bodies in index order."""
        hit = bool(False)
        body = int(0)
        while body < bodies.n_bodies and not hit:
            # skip bodies whose bounding sphere is missed first, so that the threads of a warp test bodies together
            while (
                body < bodies.n_bounded
                and sphere_entry_distance(
                    bodies.bounding_sphere[env, wp.min(body, bodies.n_bounded - 1)], origin, direction
                )
                >= max_distance
            ):
                body += 1
            if body < bodies.n_bodies:
                hit = body_any_hit(bodies, body, env, time, origin, direction, max_distance)
            body += 1
        return hit

    return closest_hit, any_hit


@cache
def ray_query_functions(features: KernelFeatures) -> tuple[wp.Function, wp.Function]:
    """Warp functions (closest hit, any hit) of a ray in the scene, specialized for the features of the scene."""
    make_functions = bvh_query_functions if features.bvh else linear_query_functions
    return make_functions(*body_intersection_functions(features.meshes, features.primitives))
