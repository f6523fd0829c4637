"""Paths of light, from the camera to whatever shines: each launch adds some samples to every pixel."""

from __future__ import annotations

from functools import cache

import warp as wp

from ..traits import Traits
from .bsdf import Aim, Energy, Scatter, brightness, frame, sample, shine_share, through_glass, varnish_share
from .draws import AIM, GLOW, LAMP, LENS, PIXEL, SCATTER, TIME, Draws, draw, draw3, draws_of, of_matt, of_pane, of_step
from .rays import instance_of, searches
from .records import NEARBY, Lamps, Looks, Spot, View, World
from .sources import AIMS, lighting, met_glow, sky_light, start_of, towards_glass
from .surfaces import spots
from .views import Pixel, Ray, pixel_of, pixel_ray, through_lens


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
    roulette: int
    """After so many bounces dim paths may end."""
    lens_open: int
    strides: wp.array[wp.uint32]
    """Of the lattice that paths are drawn from."""


@wp.func
def calmed(light: wp.vec3, bounce: int, brightest: float) -> wp.vec3:
    result = light
    if brightest > 0.0 and bounce > 0:
        peak = wp.max(light)
        if peak > brightest:
            result = light * (brightest / peak)
    return result


@wp.func
def camera_ray(view: View, course: Course, draws: Draws, p: Pixel) -> Ray:
    """Where a path starts."""
    x = float(p.column) + draw(course.strides, draws, PIXEL)
    y = float(p.row) + draw(course.strides, draws, PIXEL + 1)
    ray = pixel_ray(view, p.env, p.camera, x, y)
    if course.lens_open == 1:
        radius = draw(course.strides, draws, LENS)
        ray = through_lens(view, p.env, p.camera, ray, radius, draw(course.strides, draws, LENS + 1))
    return ray


@wp.func
def drawn_if(wanted: bool, course: Course, draws: Draws, first: int) -> wp.vec3:
    """Three numbers; zeros where nobody asks for them."""
    result = wp.vec3(0.0, 0.0, 0.0)
    if wanted:
        result = draw3(course.strides, draws, first)
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
def off_surface(spot: Spot, e: Energy, basis: wp.mat33, aim: Aim, o: wp.vec3, r: wp.vec3) -> Scatter:
    """Where a path goes on from a surface that is no glass, in the world."""
    next_ray = sample(spot, e, shine_share(spot, e, o[2]), varnish_share(spot, e, o[2]), aim, o, r)
    next_ray.direction = basis * next_ray.direction
    if wp.dot(next_ray.direction, spot.normal) <= 0.0:
        next_ray.valid = 0
    return next_ray


@wp.func
def thinned(carried: wp.vec3, r: float) -> wp.vec3:
    """Most dim paths end here, and the others stand for them."""
    stays = wp.clamp(wp.max(carried), 0.05, 0.95)
    return wp.where(r > stays, wp.vec3(0.0, 0.0, 0.0), carried / stays)


@wp.func
def note_seen(film: Film, i: int, spot: Spot, t: float) -> None:
    """What a path came upon first."""
    film.normal[i] = film.normal[i] + spot.shading
    film.depth[i] = film.depth[i] + t
    film.covered[i] = film.covered[i] + 1.0


@wp.func
def deposit(film: Film, i: int, light: wp.vec3, seen: wp.vec3) -> None:
    """A path has ended."""
    film.light[i] = film.light[i] + light
    film.color[i] = film.color[i] + seen
    on_white = brightness(wp.cw_div(light, wp.max(seen, wp.vec3(0.25, 0.25, 0.25))))
    film.bright[i] = film.bright[i] + on_white
    film.square[i] = film.square[i] + on_white * on_white


@cache
def follower(traits: Traits) -> wp.Function:
    """The function that follows some paths of one pixel."""
    nearest, _ = searches(traits)
    spot_at, direct_light = spots(traits), lighting(traits)

    @wp.func
    def follow(
        view: View, w: World, looks: Looks, lamps: Lamps, e: Energy, course: Course, film: Film, p: Pixel
    ) -> None:
        """Where one path ends the next begins at once, so that no thread waits for longer ones."""
        clip = view.clip[p.env % view.clip.shape[0], p.camera]
        black = wp.vec3(0.0, 0.0, 0.0)
        white = wp.vec3(1.0, 1.0, 1.0)
        draws = Draws()
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
        matts = int(0)
        panes = int(0)
        s = int(0)
        while s < course.count:
            if steps == 0:
                draws = draws_of(course.seed, p.index, course.first + s)
                ray = camera_ray(view, course, draws, p)
                if w.moving == 1:
                    time = draw(course.strides, draws, TIME)
                d = ray.direction
                origin = ray.origin + clip[0] * d
                light = black
                seen = white
                carried = white * float(ray.seen)
                pdf = 0.0
                bounce = 0
                noted = 0
                matts = 0
                panes = 0
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
                    veil = float(0.0)
                    if spot.opacity < 1.0:
                        veil = draw(course.strides, draws, of_step(2 * steps))
                    if veil >= spot.opacity:  # there is nothing here
                        origin = spot.point + (NEARBY * (1.0 + wp.length(spot.point))) * d
                    else:
                        glow = met_glow(lamps, spot, d, hit.t, instance_of(w, hit), pdf)
                        light += calmed(wp.cw_mul(carried, glow), bounce, course.brightest)
                        if noted == 0 and spot.glass == 0.0:
                            noted = 1
                            seen = spot.color
                            note_seen(film, p.index, spot, hit.t)
                        if spot.glass > 0.0:
                            next_ray = through_glass(spot, d, draw(course.strides, draws, of_pane(panes)))
                            panes += 1
                        else:
                            spot = towards_viewer(spot, d)
                            basis = frame(spot.shading)
                            o = wp.transpose(basis) * (-d)
                            own = of_matt(matts)
                            aim = Aim()
                            if matts < AIMS and lamps.glass_body.shape[0] > 0:
                                r_aim = draw(course.strides, draws, own + AIM)
                                aim = towards_glass(w, lamps, p.env, spot, basis, r_aim)
                            if bounce < course.bounces:
                                r_lamp = drawn_if(lamps.kind.shape[0] > 0, course, draws, own + LAMP)
                                r_glow = drawn_if(lamps.glow_total > 0.0, course, draws, own + GLOW)
                                got = direct_light(w, lamps, e, p.env, time, spot, basis, aim, o, r_lamp, r_glow)
                                light += calmed(wp.cw_mul(carried, got), bounce, course.brightest)
                            r = draw3(course.strides, draws, own + SCATTER)
                            next_ray = off_surface(spot, e, basis, aim, o, r)
                            matts += 1
                        bounce += 1
                        carried = wp.cw_mul(carried, next_ray.weight) * float(next_ray.valid)
                        pdf = next_ray.pdf
                        d = next_ray.direction
                        origin = start_of(spot, d)
                        if bounce > course.roulette:
                            carried = thinned(carried, draw(course.strides, draws, of_step(2 * steps + 1)))
            if wp.max(carried) <= 0.0 or bounce > course.bounces or steps >= course.bounces + 16:
                deposit(film, p.index, light, seen)
                s += 1
                steps = 0

    return follow


@cache
def path_kernel(traits: Traits, *, registers: int = 128, fast: bool = True) -> wp.Kernel:
    """The kernel that follows paths.

    Args:
        traits: what there is.
        registers: of a thread on a GPU; 0 for as many as the compiler likes.
        fast: whether a GPU may divide, take roots and sines by its quick instructions.
    """
    follow = follower(traits)

    @wp.kernel(
        enable_backward=False, module="unique", cuda_max_registers=registers or None, module_options={"fast_math": fast}
    )
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
