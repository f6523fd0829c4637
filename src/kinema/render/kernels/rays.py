"""Rays against a world: the nearest meeting, and whether there is any."""

from __future__ import annotations

import warp as wp

from .primitives import meet, normal_at
from .records import FAR, MESH, Hit, World, turn


@wp.func
def place_of(w: World, i: int, env: int, time: float) -> wp.vec3:
    p = w.position[i, env]
    if w.moving == 1:
        p = wp.lerp(w.last_position[i, env], p, time)
    return p


@wp.func
def turn_of(w: World, i: int, env: int, time: float) -> wp.quat:
    q = w.rotation[i, env]
    if w.moving == 1:
        last = w.last_rotation[i, env]
        if wp.dot(last, q) < 0.0:
            last = -last
        q = wp.normalize(wp.lerp(last, q, time))
    return turn(q)


@wp.func
def try_instance(w: World, i: int, env: int, time: float, origin: wp.vec3, direction: wp.vec3, best: Hit) -> Hit:
    """The better one of a hit and that of one instance."""
    q = wp.quat_inverse(turn_of(w, i, env, time))
    o = wp.quat_rotate(q, origin - place_of(w, i, env, time))
    d = wp.quat_rotate(q, direction)
    found = best
    kind = w.kind[i]
    if kind == MESH:
        query = wp.mesh_query_ray(w.mesh[i], o, d, best.t)
        if query.result:
            found.t = query.t
            found.instance = i
            found.face = query.face
            found.u = query.u
            found.v = query.v
            found.normal = query.normal
    else:
        t = meet(kind, w.size[i], o, d)
        if t >= 0.0 and t < best.t:
            found.t = t
            found.instance = i
            found.face = -1
            found.normal = normal_at(kind, w.size[i], o + t * d)
    return found


@wp.func
def nearest(w: World, env: int, time: float, origin: wp.vec3, direction: wp.vec3, reach: float) -> Hit:
    """The nearest thing on a ray; its direction is of length one."""
    best = Hit()
    best.t = reach
    best.instance = -1
    for k in range(w.endless.shape[0]):
        best = try_instance(w, w.endless[k], env, time, origin, direction, best)
    if w.n_boxed > 0:
        query = wp.bvh_query_ray(w.bvh, origin, direction, wp.bvh_get_group_root(w.bvh, env))
        item = int(0)
        while wp.bvh_query_next(query, item, best.t):
            best = try_instance(w, w.boxed[item - env * w.n_boxed], env, time, origin, direction, best)
    return best


@wp.func
def blocks(w: World, i: int, env: int, time: float, origin: wp.vec3, direction: wp.vec3, reach: float) -> bool:
    q = wp.quat_inverse(turn_of(w, i, env, time))
    o = wp.quat_rotate(q, origin - place_of(w, i, env, time))
    d = wp.quat_rotate(q, direction)
    found = bool(False)
    if w.kind[i] == MESH:
        found = wp.mesh_query_ray_anyhit(w.mesh[i], o, d, reach)
    else:
        t = meet(w.kind[i], w.size[i], o, d)
        found = t >= 0.0 and t < reach
    return found


@wp.func
def is_blocked(w: World, env: int, time: float, origin: wp.vec3, direction: wp.vec3, reach: float) -> bool:
    """Whether anything is on the ray before that distance; infinite planes are taken to be solid below."""
    found = bool(False)
    for k in range(w.endless.shape[0]):
        if not found:
            found = blocks(w, w.endless[k], env, time, origin, direction, reach)
    if w.n_boxed > 0 and not found:
        query = wp.bvh_query_ray(w.bvh, origin, direction, wp.bvh_get_group_root(w.bvh, env))
        item = int(0)
        while not found and wp.bvh_query_next(query, item, reach):
            found = blocks(w, w.boxed[item - env * w.n_boxed], env, time, origin, direction, reach)
    return found


@wp.func
def far_away() -> float:
    return float(FAR)
