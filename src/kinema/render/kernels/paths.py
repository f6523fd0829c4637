"""Paths of light, from the camera to whatever shines: each launch adds some samples to every pixel."""

from __future__ import annotations

import warp as wp

from .bsdf import Energy, Scatter, brightness, density, frame, sample, scattered, shine_share, through_glass
from .rays import is_blocked, nearest, place_of, turn_of
from .records import DIRECTIONAL, NEARBY, SPOT, Lamps, Looks, Spot, View, World
from .surfaces import spot_at
from .views import pixel_ray, through_lens


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


@wp.func
def lit_by_lamp(
    w: World, lamps: Lamps, e: Energy, env: int, time: float, spot: Spot, basis: wp.mat33, o: wp.vec3, r: wp.vec3
) -> wp.vec3:
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
    result = wp.vec3(0.0, 0.0, 0.0)
    if i[2] > 0.0 and share > 0.0 and wp.dot(d, spot.normal) * wp.dot(basis * o, spot.normal) > 0.0:
        blocked = bool(False)
        if lamps.shadow[k] == 1:
            blocked = is_blocked(w, env, time, start_of(spot, d), d, reach)
        if not blocked:
            light = wp.pi * share * float(n_lamps) * lamps.color[env % lamps.color.shape[0], k]
            result = wp.cw_mul(light, scattered(spot, e, o, i))
    return result


@wp.func
def lit_by_glow(
    w: World, lamps: Lamps, e: Energy, env: int, time: float, spot: Spot, basis: wp.mat33, o: wp.vec3, r: wp.vec3
) -> wp.vec3:
    """Light from a point of a surface that shines, weighed against meeting it by chance."""
    k = wp.lower_bound(lamps.glow_share, r[0])
    k = wp.min(k, lamps.glow_share.shape[0] - 1)
    i = lamps.glow_instance[k]
    s = wp.sqrt(r[1])
    a = 1.0 - s
    b = r[2] * s
    local = lamps.glow_corner[k] + a * lamps.glow_first[k] + b * lamps.glow_second[k]
    q = turn_of(w, i, env, time)
    point = place_of(w, i, env, time) + wp.quat_rotate(q, local)
    normal = wp.normalize(wp.quat_rotate(q, wp.cross(lamps.glow_first[k], lamps.glow_second[k])))
    offset = point - spot.point
    distance = wp.length(offset)
    d = offset / wp.max(distance, 1.0e-9)
    facing = -wp.dot(normal, d)  # it shines to its outer side only
    into = wp.transpose(basis) * d
    result = wp.vec3(0.0, 0.0, 0.0)
    if into[2] > 0.0 and facing > 1.0e-6 and wp.dot(d, spot.normal) * wp.dot(basis * o, spot.normal) > 0.0:
        start = start_of(spot, d)
        short = wp.length(point - start) * (1.0 - 1.0e-3)
        if not is_blocked(w, env, time, start, d, short):
            emitted = lamps.glow_emission[k]
            pdf = brightness(emitted) / lamps.glow_total * distance * distance / facing
            other = density(spot, shine_share(spot, e, o[2]), o, into)
            weight = pdf * pdf / (pdf * pdf + other * other)
            result = wp.cw_mul(emitted, scattered(spot, e, o, into)) * (weight / pdf)
    return result


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


@wp.kernel(enable_backward=False, module="kinema_paths")
def trace_paths(
    start: int, view: View, w: World, looks: Looks, lamps: Lamps, e: Energy, course: Course, film: Film
) -> None:
    """One pixel."""
    pixel = start + wp.tid()
    column = pixel % view.width
    row = (pixel // view.width) % view.height
    camera = (pixel // (view.width * view.height)) % view.n_cameras
    env = view.first_env + pixel // (view.width * view.height * view.n_cameras)
    clip = view.clip[env % view.clip.shape[0], camera]
    for s in range(course.count):
        rng = wp.rand_init(course.seed + 7919 * (course.first + s), pixel)
        x = float(column) + wp.randf(rng)
        y = float(row) + wp.randf(rng)
        ray = pixel_ray(view, env, camera, x, y)
        if course.lens_open == 1:
            ray = through_lens(view, env, camera, ray, wp.randf(rng), wp.randf(rng))
        time = float(1.0)
        if w.moving == 1:
            time = wp.randf(rng)
        d = ray.direction
        origin = ray.origin + clip[0] * d
        light = wp.vec3(0.0, 0.0, 0.0)
        carried = wp.vec3(1.0, 1.0, 1.0) * float(ray.seen)
        pdf = float(0.0)
        bounce = int(0)
        noted = int(0)
        seen = wp.vec3(1.0, 1.0, 1.0)
        for _step in range(course.bounces + 16):
            if bounce <= course.bounces and wp.max(carried) > 0.0:
                hit = nearest(w, env, time, origin, d, 1.0e30)
                if hit.instance < 0:
                    sky = sky_light(lamps, d)
                    light += calmed(wp.cw_mul(carried, sky), bounce, course.brightest)
                    noted = 1
                    carried = wp.vec3(0.0, 0.0, 0.0)
                else:
                    spot = spot_at(w, looks, env, time, origin, d, hit)
                    next_ray = Scatter()
                    if wp.randf(rng) >= spot.opacity:  # there is nothing here
                        origin = spot.point + (NEARBY * (1.0 + wp.length(spot.point))) * d
                    else:
                        glow = met_glow(lamps, spot, d, hit.t, hit.instance, pdf)
                        light += calmed(wp.cw_mul(carried, glow), bounce, course.brightest)
                        if noted == 0 and spot.glass == 0.0:
                            noted = 1
                            seen = spot.color
                            film.normal[pixel] = film.normal[pixel] + spot.shading
                            film.depth[pixel] = film.depth[pixel] + hit.t
                            film.covered[pixel] = film.covered[pixel] + 1.0
                        if spot.glass > 0.0:
                            next_ray = through_glass(spot, d, wp.randf(rng))
                        else:
                            spot = towards_viewer(spot, d)
                            basis = frame(spot.shading)
                            o = wp.transpose(basis) * (-d)
                            got = wp.vec3(0.0, 0.0, 0.0)
                            if lamps.kind.shape[0] > 0:
                                r = wp.vec3(wp.randf(rng), wp.randf(rng), wp.randf(rng))
                                got += lit_by_lamp(w, lamps, e, env, time, spot, basis, o, r)
                            if lamps.glow_total > 0.0:
                                r = wp.vec3(wp.randf(rng), wp.randf(rng), wp.randf(rng))
                                got += lit_by_glow(w, lamps, e, env, time, spot, basis, o, r)
                            if bounce < course.bounces:
                                light += calmed(wp.cw_mul(carried, got), bounce, course.brightest)
                            share = shine_share(spot, e, o[2])
                            next_ray = sample(spot, e, share, o, wp.randf(rng), wp.randf(rng), wp.randf(rng))
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
                                carried = wp.vec3(0.0, 0.0, 0.0)
        film.light[pixel] = film.light[pixel] + light
        film.color[pixel] = film.color[pixel] + seen
        on_white = brightness(wp.cw_div(light, wp.max(seen, wp.vec3(0.25, 0.25, 0.25))))
        film.bright[pixel] = film.bright[pixel] + on_white
        film.square[pixel] = film.square[pixel] + on_white * on_white
