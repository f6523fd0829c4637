"""Rays against a world: the nearest meeting, and whether there is any.

Where there are few bodies a ray is held against the ball around each, nearest first; where there are many, against a
tree of boxes. Which of the two, and what kinds of bodies there are, is known before kernels are compiled (`Traits`), so
that none carries what it does not need.
"""

from __future__ import annotations

from functools import cache

import warp as wp

from ..traits import Traits
from .primitives import meet_plane, meet_solid, normal_at
from .records import FAR, MESH, PLANE, Hit, World, turn


@wp.func
def place_of(w: World, b: int, env: int, time: float) -> wp.vec3:
    p = w.position[b, env]
    if w.moving == 1:
        p = wp.lerp(w.last_position[b, env], p, time)
    return p


@wp.func
def turn_of(w: World, b: int, env: int, time: float) -> wp.quat:
    q = w.rotation[b, env]
    if w.moving == 1:
        last = w.last_rotation[b, env]
        if wp.dot(last, q) < 0.0:
            last = -last
        q = wp.normalize(wp.lerp(last, q, time))
    return turn(q)


@wp.func
def instance_of(w: World, hit: Hit) -> int:
    """The instance that was met."""
    i = w.instance[hit.body]
    if hit.face >= 0:
        i = w.part_instance[w.part_start[hit.body] + hit.face]
    return i


@wp.func
def entry(ball: wp.vec4, origin: wp.vec3, direction: wp.vec3) -> float:
    """How far along a ray it enters a ball, 0 from within; FAR where it never does."""
    offset = wp.vec3(ball[0], ball[1], ball[2]) - origin
    along = wp.dot(offset, direction)
    off = offset - along * direction
    rest = ball[3] * ball[3] - wp.dot(off, off)
    t = float(FAR)
    if rest >= 0.0:
        half = wp.sqrt(rest)
        if along + half >= 0.0:
            t = wp.max(along - half, 0.0)
    return t


@cache
def flat_or_solid(solids: bool) -> tuple[wp.Function, wp.Function]:
    """The functions that find where a ray meets a primitive shape, and the normal there."""

    @wp.func
    def meet(kind: int, size: wp.vec3, o: wp.vec3, d: wp.vec3) -> float:
        t = float(-1.0)
        if kind == PLANE:
            t = meet_plane(o, d, size)
        elif wp.static(solids):
            t = meet_solid(kind, size, o, d)
        return t

    @wp.func
    def normal_of(kind: int, size: wp.vec3, p: wp.vec3) -> wp.vec3:
        n = wp.vec3(0.0, 0.0, 1.0)
        if wp.static(solids):
            n = normal_at(kind, size, p)
        return n

    return meet, normal_of


@cache
def meetings(meshes: bool, solids: bool) -> tuple[wp.Function, wp.Function]:
    """The functions that hold a ray against one body: the better of its hit and another, and whether there is any."""
    meet, normal_of = flat_or_solid(solids)

    @wp.func
    def try_body(w: World, b: int, env: int, time: float, origin: wp.vec3, direction: wp.vec3, best: Hit) -> Hit:
        q = wp.quat_inverse(turn_of(w, b, env, time))
        o = wp.quat_rotate(q, origin - place_of(w, b, env, time))
        d = wp.quat_rotate(q, direction)
        found = best
        kind = w.kind[b]
        if kind != MESH:
            t = meet(kind, w.size[b], o, d)
            if t >= 0.0 and t < best.t:
                found.t = t
                found.body = b
                found.face = -1
                found.normal = normal_of(kind, w.size[b], o + t * d)
        elif wp.static(meshes):
            query = wp.mesh_query_ray(w.mesh[b], o, d, best.t)
            if query.result:
                found.t = query.t
                found.body = b
                found.face = query.face
                found.u = query.u
                found.v = query.v
                found.normal = query.normal
        return found

    @wp.func
    def blocks(w: World, b: int, env: int, time: float, origin: wp.vec3, direction: wp.vec3, reach: float) -> bool:
        q = wp.quat_inverse(turn_of(w, b, env, time))
        o = wp.quat_rotate(q, origin - place_of(w, b, env, time))
        d = wp.quat_rotate(q, direction)
        found = bool(False)
        if w.kind[b] != MESH:
            t = meet(w.kind[b], w.size[b], o, d)
            found = t >= 0.0 and t < reach
        elif wp.static(meshes):
            found = wp.mesh_query_ray_anyhit(w.mesh[b], o, d, reach)
        return found

    return try_body, blocks


def tree_searches(try_body: wp.Function, blocks: wp.Function) -> tuple[wp.Function, wp.Function]:
    """The nearest thing on a ray, and whether there is any: through a tree of boxes."""

    @wp.func
    def nearest(w: World, env: int, time: float, origin: wp.vec3, direction: wp.vec3, reach: float) -> Hit:
        """The nearest thing on a ray; its direction is of length one."""
        best = Hit()
        best.t = reach
        best.body = -1
        for b in range(w.n_bounded, w.n_bodies):
            best = try_body(w, b, env, time, origin, direction, best)
        if w.n_bounded > 0:
            query = wp.bvh_query_ray(w.bvh, origin, direction, wp.bvh_get_group_root(w.bvh, env))
            item = int(0)
            while wp.bvh_query_next(query, item, best.t):
                best = try_body(w, item - env * w.n_bounded, env, time, origin, direction, best)
        return best

    @wp.func
    def is_blocked(w: World, env: int, time: float, origin: wp.vec3, direction: wp.vec3, reach: float) -> bool:
        """Whether anything is on the ray before that distance; infinite planes are taken to be solid below."""
        found = bool(False)
        for b in range(w.n_bounded, w.n_bodies):
            if not found:
                found = blocks(w, b, env, time, origin, direction, reach)
        if w.n_bounded > 0 and not found:
            query = wp.bvh_query_ray(w.bvh, origin, direction, wp.bvh_get_group_root(w.bvh, env))
            item = int(0)
            while not found and wp.bvh_query_next(query, item, reach):
                found = blocks(w, item - env * w.n_bounded, env, time, origin, direction, reach)
        return found

    return nearest, is_blocked


def list_searches(try_body: wp.Function, blocks: wp.Function) -> tuple[wp.Function, wp.Function]:
    """The nearest thing on a ray, and whether there is any: against all, one after the other."""

    @wp.func
    def nearest(w: World, env: int, time: float, origin: wp.vec3, direction: wp.vec3, reach: float) -> Hit:
        """First what has no end, then what has, by where the ray comes to it."""
        best = Hit()
        best.t = reach
        best.body = -1
        step = w.n_bounded
        last = float(-1.0)
        last_body = int(-1)
        searching = bool(True)
        while searching:
            pick = int(-1)
            if step < w.n_bodies:
                pick = step
                step += 1
            else:
                soonest = best.t
                for b in range(w.n_bounded):
                    t = entry(w.ball[env, b], origin, direction)
                    if t < soonest and (t > last or (t == last and b > last_body)):
                        soonest = t
                        pick = b
                last = soonest
                last_body = pick
            if pick < 0:
                searching = False
            else:
                best = try_body(w, pick, env, time, origin, direction, best)
        return best

    @wp.func
    def is_blocked(w: World, env: int, time: float, origin: wp.vec3, direction: wp.vec3, reach: float) -> bool:
        """In whatever order they are listed."""
        found = bool(False)
        b = int(0)
        while b < w.n_bodies and not found:
            # all threads look for what they may meet before any looks closer, so that they do so together
            while b < w.n_bounded and entry(w.ball[env, wp.min(b, w.n_bounded - 1)], origin, direction) >= reach:
                b += 1
            if b < w.n_bodies:
                found = blocks(w, b, env, time, origin, direction, reach)
            b += 1
        return found

    return nearest, is_blocked


@cache
def searches(traits: Traits) -> tuple[wp.Function, wp.Function]:
    """The functions that find the nearest meeting, and whether there is any."""
    find = tree_searches if traits.tree else list_searches
    return find(*meetings(traits.meshes, traits.solids))
