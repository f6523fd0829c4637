"""Paths of light, from the camera to whatever shines: each launch adds some samples to every pixel."""

from __future__ import annotations

from functools import cache

import warp as wp

from .bsdf import (
    Energy,
    Scatter,
    brightness,
    density,
    frame,
    sample,
    scattered,
    shine_share,
    through_glass,
    varnish_share,
)
from .rays import instance_of, place_of, searches, turn_of
from .records import DIRECTIONAL, NEARBY, SPOT, Lamps, Looks, Spot, View, World
from .surfaces import spots
from .views import Pixel, pixel_of, pixel_ray, through_lens


@wp.struct
class Film:
    """What has been gathered of all pixels: sums over samples."""

    light: wp.array[wp.vec3]
    bright: wp.array[float]
    """The brightness of the light on what is seen first, without its colour; and its square."""
    square: wp.array[float]
    color: wp.array[wp.vec3]
    """Of what is seen first, for the denoiser; like the next two."""
    normal: wp.array[wp.vec3]
    depth: wp.array[float]
    covered: wp.array[float]
    """How many samples met anything."""


@wp.struct
class Course:
    """How paths are followed."""

    seed: int
    first: int
    count: int
    bounces: int
    brightest: float
    """Light that comes by more than one bounce is cut off here: rare bright paths make specks. 0 for never."""
    lens_open: int


@wp.func
def sky_light(lamps: Lamps, d: wp.vec3) -> wp.vec3:
    result = wp.lerp(lamps.horizon, lamps.zenith, wp.sqrt(wp.max(d[2], 0.0)))
    if d[2] < 0.0:
        result = wp.lerp(lamps.horizon, lamps.ground, wp.min(1.0, -4.0 * d[2]))
    if lamps.panorama.shape[0] > 0:
        rows = lamps.panorama.shape[0]
        columns = lamps.panorama.shape[1]
        x = int((0.5 - wp.atan2(d[1], d[0]) / (2.0 * wp.pi)) * float(columns))
        y = int(wp.acos(wp.clamp(d[2], -1.0, 1.0)) / wp.pi * float(rows))
        result = lamps.panorama[wp.clamp(y, 0, rows - 1), wp.clamp(x, 0, columns - 1)]
    return result


@wp.func
def start_of(spot: Spot, d: wp.vec3) -> wp.vec3:
    """Where a ray starts that leaves a surface: a little to the side that it goes to."""
    side = wp.where(wp.dot(spot.normal, d) >= 0.0, 1.0, -1.0)
    return spot.point + side * NEARBY * (1.0 + wp.length(spot.point)) * spot.normal


@wp.struct
class Sent:
    """Light from a point of a lamp or of a surface that shines, on its way to where it is seen."""

    towards: wp.vec3
    start: wp.vec3
    reach: float
    """What lies nearer than this is in its way."""
    light: wp.vec3
    """What of it goes on to the viewer; zero for nothing."""
    shadow: int
    """Whether anything can be in its way."""


@wp.func
def from_lamp(lamps: Lamps, e: Energy, env: int, spot: Spot, basis: wp.mat33, o: wp.vec3, r: wp.vec3) -> Sent:
    """Light from one of the lamps, which r chooses, and a point of it."""
    n_lamps = lamps.kind.shape[0]
    k = wp.min(int(r[0] * float(n_lamps)), n_lamps - 1)
    # a point of a disc: of the bulb, or of what is seen of something far away
    radius = lamps.radius[k] * wp.sqrt(r[1])
    angle = 2.0 * wp.pi * r[2]
    disc = wp.vec3(radius * wp.cos(angle), radius * wp.sin(angle), 0.0)
    reach = float(1.0e30)
    share = float(1.0)
    d = -lamps.direction[k, env]
    if lamps.kind[k] == DIRECTIONAL:
        d = wp.normalize(d + frame(d) * disc)
    else:
        offset = lamps.position[k, env] - spot.point
        d = wp.normalize(offset)
        offset = offset + frame(d) * disc
        reach = wp.length(offset)
        d = offset / wp.max(reach, 1.0e-9)
        fall = lamps.falloff[k]
        share = 1.0 / wp.max(fall[0] + reach * (fall[1] + reach * fall[2]), 1.0e-6)
        if lamps.kind[k] == SPOT:
            cosine = -wp.dot(d, lamps.direction[k, env])
            share = wp.where(cosine < lamps.cone[k][0], 0.0, share * wp.pow(wp.max(cosine, 0.0), lamps.cone[k][1]))
    i = wp.transpose(basis) * d
    sent = Sent()
    if i[2] > 0.0 and share > 0.0 and wp.dot(d, spot.normal) * wp.dot(basis * o, spot.normal) > 0.0:
        light = wp.pi * share * float(n_lamps) * lamps.color[env % lamps.color.shape[0], k]
        sent.light = wp.cw_mul(light, scattered(spot, e, o, i))
        sent.towards = d
        sent.start = start_of(spot, d)
        sent.reach = reach
        sent.shadow = lamps.shadow[k]
    return sent


@wp.func
def from_glow(
    w: World, lamps: Lamps, e: Energy, env: int, time: float, spot: Spot, basis: wp.mat33, o: wp.vec3, r: wp.vec3
) -> Sent:
    """Light from a point of a surface that shines, weighed against meeting it by chance."""
    k = wp.lower_bound(lamps.glow_share, r[0])
    k = wp.min(k, lamps.glow_share.shape[0] - 1)
    b = lamps.glow_body[k]
    s = wp.sqrt(r[1])
    local = lamps.glow_corner[k] + (1.0 - s) * lamps.glow_first[k] + (r[2] * s) * lamps.glow_second[k]
    q = turn_of(w, b, env, time)
    point = place_of(w, b, env, time) + wp.quat_rotate(q, local)
    normal = wp.normalize(wp.quat_rotate(q, wp.cross(lamps.glow_first[k], lamps.glow_second[k])))
    offset = point - spot.point
    distance = wp.length(offset)
    d = offset / wp.max(distance, 1.0e-9)
    facing = -wp.dot(normal, d)  # it shines to its outer side only
    into = wp.transpose(basis) * d
    sent = Sent()
    if into[2] > 0.0 and facing > 1.0e-6 and wp.dot(d, spot.normal) * wp.dot(basis * o, spot.normal) > 0.0:
        emitted = lamps.glow_emission[k]
        pdf = brightness(emitted) / lamps.glow_total * distance * distance / facing
        other = density(spot, shine_share(spot, e, o[2]), varnish_share(spot, e, o[2]), o, into)
        weight = pdf * pdf / (pdf * pdf + other * other)
        sent.light = wp.cw_mul(emitted, scattered(spot, e, o, into)) * (weight / pdf)
        sent.towards = d
        sent.start = start_of(spot, d)
        sent.reach = wp.length(point - sent.start) * (1.0 - 1.0e-3)
        sent.shadow = 1
    return sent


@wp.func
def met_glow(lamps: Lamps, spot: Spot, d: wp.vec3, t: float, instance: int, pdf: float) -> wp.vec3:
    """Light of a surface that a path came upon, weighed against having been sampled there."""
    weight = float(1.0)
    facing = -wp.dot(spot.normal, d)
    if facing <= 0.0:
        weight = 0.0
    elif pdf > 0.0 and lamps.glows[instance] == 1:
        sampled = brightness(spot.emission) / lamps.glow_total * t * t / wp.max(facing, 1.0e-6)
        weight = pdf * pdf / (pdf * pdf + sampled * sampled)
    return weight * spot.emission


@wp.func
def calmed(light: wp.vec3, bounce: int, brightest: float) -> wp.vec3:
    result = light
    if brightest > 0.0 and bounce > 0:
        peak = wp.max(light)
        if peak > brightest:
            result = light * (brightest / peak)
    return result


@wp.func
def towards_viewer(spot: Spot, d: wp.vec3) -> Spot:
    """The same surface with its normals on the side that it is seen from."""
    result = spot
    if wp.dot(spot.normal, d) > 0.0:
        result.normal = -spot.normal
        result.shading = -spot.shading
    if wp.dot(result.shading, d) > -0.01:  # bent away from the viewer: as far as it can be
        result.shading = wp.normalize(result.shading - (wp.dot(result.shading, d) + 0.02) * d)
    return result


@wp.func
def deposit(film: Film, i: int, light: wp.vec3, seen: wp.vec3) -> None:
    """A path has ended."""
    film.light[i] = film.light[i] + light
    film.color[i] = film.color[i] + seen
    on_white = brightness(wp.cw_div(light, wp.max(seen, wp.vec3(0.25, 0.25, 0.25))))
    film.bright[i] = film.bright[i] + on_white
    film.square[i] = film.square[i] + on_white * on_white


@cache
def path_kernel(*, tree: bool, images: bool, registers: int = 128) -> wp.Kernel:
    """The kernel that follows paths.

    Args:
        tree: whether bodies are many.
        images: whether surfaces have any.
        registers: of a thread on a GPU; 0 for as many as the compiler likes.
    """
    nearest, is_blocked = searches(tree)
    spot_at = spots(images)

    @wp.func
    def follow(
        view: View, w: World, looks: Looks, lamps: Lamps, e: Energy, course: Course, film: Film, p: Pixel
    ) -> None:
        """Some paths of one pixel. Where one ends the next begins at once, so that no thread waits for longer ones."""
        clip = view.clip[p.env % view.clip.shape[0], p.camera]
        black = wp.vec3(0.0, 0.0, 0.0)
        white = wp.vec3(1.0, 1.0, 1.0)
        rng = wp.rand_init(course.seed, p.index)
        time = float(1.0)
        origin = wp.vec3(0.0, 0.0, 0.0)
        d = wp.vec3(0.0, 0.0, 0.0)
        light = wp.vec3(0.0, 0.0, 0.0)
        carried = wp.vec3(0.0, 0.0, 0.0)
        seen = wp.vec3(1.0, 1.0, 1.0)
        pdf = float(0.0)
        bounce = int(0)
        steps = int(0)
        noted = int(0)
        s = int(0)
        while s < course.count:
            if steps == 0:
                rng = wp.rand_init(course.seed + 7919 * (course.first + s), p.index)
                x = float(p.column) + wp.randf(rng)
                y = float(p.row) + wp.randf(rng)
                ray = pixel_ray(view, p.env, p.camera, x, y)
                if course.lens_open == 1:
                    ray = through_lens(view, p.env, p.camera, ray, wp.randf(rng), wp.randf(rng))
                if w.moving == 1:
                    time = wp.randf(rng)
                d = ray.direction
                origin = ray.origin + clip[0] * d
                light = black
                seen = white
                carried = white * float(ray.seen)
                pdf = 0.0
                bounce = 0
                noted = 0
            steps += 1
            if wp.max(carried) > 0.0:
                hit = nearest(w, p.env, time, origin, d, 1.0e30)
                if hit.body < 0:
                    light += calmed(wp.cw_mul(carried, sky_light(lamps, d)), bounce, course.brightest)
                    noted = 1
                    carried = black
                else:
                    spot = spot_at(w, looks, p.env, time, origin, d, hit)
                    next_ray = Scatter()
                    if wp.randf(rng) >= spot.opacity:  # there is nothing here
                        origin = spot.point + (NEARBY * (1.0 + wp.length(spot.point))) * d
                    else:
                        glow = met_glow(lamps, spot, d, hit.t, instance_of(w, hit), pdf)
                        light += calmed(wp.cw_mul(carried, glow), bounce, course.brightest)
                        if noted == 0 and spot.glass == 0.0:
                            noted = 1
                            seen = spot.color
                            film.normal[p.index] = film.normal[p.index] + spot.shading
                            film.depth[p.index] = film.depth[p.index] + hit.t
                            film.covered[p.index] = film.covered[p.index] + 1.0
                        if spot.glass > 0.0:
                            next_ray = through_glass(spot, d, wp.randf(rng))
                        else:
                            spot = towards_viewer(spot, d)
                            basis = frame(spot.shading)
                            o = wp.transpose(basis) * (-d)
                            source = int(0)
                            while source < 2 and bounce < course.bounces:
                                sent = Sent()
                                if source == 0 and lamps.kind.shape[0] > 0:
                                    r = wp.vec3(wp.randf(rng), wp.randf(rng), wp.randf(rng))
                                    sent = from_lamp(lamps, e, p.env, spot, basis, o, r)
                                elif source == 1 and lamps.glow_total > 0.0:
                                    r = wp.vec3(wp.randf(rng), wp.randf(rng), wp.randf(rng))
                                    sent = from_glow(w, lamps, e, p.env, time, spot, basis, o, r)
                                if wp.max(sent.light) > 0.0:
                                    hidden = bool(False)
                                    if sent.shadow == 1:
                                        hidden = is_blocked(w, p.env, time, sent.start, sent.towards, sent.reach)
                                    if not hidden:
                                        light += calmed(wp.cw_mul(carried, sent.light), bounce, course.brightest)
                                source += 1
                            share = shine_share(spot, e, o[2])
                            varnish = varnish_share(spot, e, o[2])
                            r = wp.vec3(wp.randf(rng), wp.randf(rng), wp.randf(rng))
                            next_ray = sample(spot, e, share, varnish, o, r[0], r[1], r[2])
                            next_ray.direction = basis * next_ray.direction
                            if wp.dot(next_ray.direction, spot.normal) <= 0.0:
                                next_ray.valid = 0
                        bounce += 1
                        carried = wp.cw_mul(carried, next_ray.weight) * float(next_ray.valid)
                        pdf = next_ray.pdf
                        d = next_ray.direction
                        origin = start_of(spot, d)
                        if bounce > 3:  # most dim paths end here, and the others stand for them
                            stays = wp.clamp(wp.max(carried), 0.05, 0.95)
                            carried = carried / stays
                            if wp.randf(rng) > stays:
                                carried = black
            if wp.max(carried) <= 0.0 or bounce > course.bounces or steps >= course.bounces + 16:
                deposit(film, p.index, light, seen)
                s += 1
                steps = 0

    @wp.kernel(enable_backward=False, module="unique", cuda_max_registers=registers or None)
    def trace_paths(
        first: int,
        last: int,
        each: int,
        view: View,
        w: World,
        looks: Looks,
        lamps: Lamps,
        e: Energy,
        course: Course,
        film: Film,
    ) -> None:
        start = first + each * wp.tid()
        for i in range(start, wp.min(start + each, last)):
            follow(view, w, looks, lamps, e, course, film, pixel_of(view, i))

    return trace_paths
