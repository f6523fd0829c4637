"""One launch for all pixels of all cameras of all environments: colour, depth, normal, what is seen, how it moved."""

from __future__ import annotations

from functools import cache

import warp as wp

from ..traits import Traits
from .rays import instance_of, searches
from .records import DIRECTIONAL, NEARBY, SPOT, Hit, Lamps, Looks, Spot, View, World, turn
from .surfaces import spots
from .views import Pixel, Ray, last_pixel, pixel_of, pixel_ray

EVEN = wp.constant(0.02)
"""Where two samples of a pixel differ by less, there is no edge in it."""
REGISTERS = 64
"""Of a thread on a GPU. With the 218 that it would take, too few threads wait for memory at a time."""


@wp.struct
class Wanted:
    """What is made; arrays of what is not are empty."""

    rgb: wp.array[wp.vec3ub]
    depth: wp.array[float]
    normal: wp.array[wp.vec3]
    segmentation: wp.array[wp.vec3i]
    flow: wp.array[wp.vec2]
    labels: wp.array[wp.vec3i]
    """Of instances: entity, link, shape."""
    more: int
    """Whether anything but colours is wanted."""
    shadows: int
    samples: int
    """Rays for each pixel of the colours are this squared."""


@wp.func
def byte_of(c: float) -> wp.uint8:
    return wp.uint8(int(255.0 * wp.clamp(c, 0.0, 1.0) + 0.5))


@wp.func
def sky_color(lamps: Lamps, d: wp.vec3) -> wp.vec3:
    """What is seen where there is nothing."""
    result = wp.lerp(lamps.horizon, lamps.zenith, wp.sqrt(wp.max(d[2], 0.0)))
    if d[2] < 0.0:
        result = wp.lerp(lamps.horizon, lamps.ground, wp.min(1.0, -4.0 * d[2]))
    return result


@wp.struct
class Shine:
    """Light of a lamp on its way to a point."""

    towards: wp.vec3
    reach: float
    """How far away it is."""
    color: wp.vec3
    """Zero where there is none."""


@wp.func
def shine_of(lamps: Lamps, k: int, env: int, point: wp.vec3) -> Shine:
    """What a lamp sends to a point, were nothing in between."""
    result = Shine()
    result.towards = -lamps.direction[k, env]
    result.reach = float(1.0e30)
    share = float(1.0)
    if lamps.kind[k] != DIRECTIONAL:
        offset = lamps.position[k, env] - point
        result.reach = wp.length(offset)
        result.towards = offset / wp.max(result.reach, 1.0e-9)
        fall = lamps.falloff[k]
        share = 1.0 / wp.max(fall[0] + result.reach * (fall[1] + result.reach * fall[2]), 1.0e-6)
        if lamps.kind[k] == SPOT:
            cosine = -wp.dot(result.towards, lamps.direction[k, env])
            if cosine < lamps.cone[k][0]:
                share = 0.0
            else:
                share = share * wp.pow(wp.max(cosine, 1.0e-6), lamps.cone[k][1])
    result.color = lamps.color[env % lamps.color.shape[0], k] * share
    return result


@wp.func
def highlight(roughness: float, facing: float) -> float:
    """How bright a lamp is seen in a surface whose normal is nearly halfway to it."""
    alpha = wp.max(roughness * roughness, 0.03)
    sharp = wp.min(2.0 / (alpha * alpha) - 2.0, 500.0)
    return (1.0 - roughness) * wp.pow(facing, wp.max(sharp, 1.0))


@wp.func
def reflected(spot: Spot, n: wp.vec3, d: wp.vec3, shine: Shine) -> wp.vec3:
    """What of a lamp's light a surface with normal n throws back along -d."""
    facing = wp.max(wp.dot(n, wp.normalize(shine.towards - d)), 0.0)
    gloss = spot.specular * highlight(spot.roughness, facing)
    if spot.coat > 0.0:
        gloss += 0.5 * spot.coat * highlight(spot.coat_roughness, facing)
    return wp.cw_mul(shine.color, spot.color * wp.dot(n, shine.towards) + wp.vec3(gloss, gloss, gloss))


@wp.func
def note(w: World, view: View, wanted: Wanted, p: Pixel, ray: Ray, near: float, hit: Hit) -> None:
    """Everything that is known of what the middle of a pixel sees, but for its colour."""
    found = hit.body >= 0
    b = wp.max(hit.body, 0)
    if wanted.depth.shape[0] > 0:
        wanted.depth[p.index] = wp.where(found, (hit.t + near) * ray.depth, wp.inf)
    if wanted.normal.shape[0] > 0:
        n = wp.quat_rotate(turn(w.rotation[b, p.env]), hit.normal)
        if wp.dot(n, ray.direction) > 0.0:
            n = -n
        wanted.normal[p.index] = wp.where(found, n, wp.vec3(0.0, 0.0, 0.0))
    if wanted.segmentation.shape[0] > 0:
        label = wp.vec3i(-1, -1, -1)
        if found:
            label = wanted.labels[instance_of(w, hit)]
        wanted.segmentation[p.index] = label
    if wanted.flow.shape[0] > 0:
        point = ray.origin + 1.0e6 * ray.direction
        if found:
            now = ray.origin + (near + hit.t) * ray.direction
            here = wp.quat_rotate_inv(turn(w.rotation[b, p.env]), now - w.position[b, p.env])
            point = w.last_position[b, p.env] + wp.quat_rotate(turn(w.last_rotation[b, p.env]), here)
        middle = wp.vec2(float(p.column) + 0.5, float(p.row) + 0.5)
        wanted.flow[p.index] = middle - last_pixel(view, p.env, p.camera, point)


@wp.func
def sample_place(s: int, edge: int) -> wp.vec2:
    """Where in its pixel a sample is; the second lies opposite to the first: if both agree, the pixel is even."""
    cell = s
    if s == 1:
        cell = edge * edge - 1
    elif s == edge * edge - 1:
        cell = wp.min(1, edge * edge - 1)
    place = wp.vec2(0.5, 0.5)
    if s >= 0:
        place = wp.vec2(float(cell % edge) + 0.5, float(cell // edge) + 0.5) / float(edge)
    return place


@cache
def cast_kernel(traits: Traits, *, plain: bool, registers: int = REGISTERS, fast: bool = True) -> wp.Kernel:
    """The kernel that makes images.

    Args:
        traits: what there is.
        plain: whether a pixel is one ray, and what it meets is opaque.
        registers: of a thread on a GPU; 0 for as many as the compiler likes.
        fast: whether a GPU may divide and take roots by its quick instructions.
    """
    nearest, is_blocked = searches(traits)
    spot_at = spots(traits)

    @wp.func
    def see(view: View, w: World, looks: Looks, lamps: Lamps, wanted: Wanted, p: Pixel) -> None:
        """One pixel: its colour is the mean of some rays, each through what is not opaque."""
        clip = view.clip[p.env % view.clip.shape[0], p.camera]
        edge = wanted.samples
        layers = looks.layers
        if wp.static(plain):
            edge = 1
            layers = 1
        s = int(0)
        if edge > 1 and wanted.more == 1:
            s = -1  # a ray through the middle, for all but the colour
        n_samples = edge * edge
        sum = wp.vec3(0.0, 0.0, 0.0)
        first_color = wp.vec3(0.0, 0.0, 0.0)
        taken = float(0.0)
        while s < n_samples:
            place = sample_place(s, edge)
            ray = pixel_ray(view, p.env, p.camera, float(p.column) + place[0], float(p.row) + place[1])
            start = ray.origin + clip[0] * ray.direction
            reach = (clip[1] - clip[0]) * float(ray.seen)
            color = wp.vec3(0.0, 0.0, 0.0)
            left = float(1.0)
            layer = int(0)
            while layer < layers and left > 0.01:
                hit = nearest(w, p.env, 1.0, start, ray.direction, reach)
                if layer == 0 and wanted.more == 1 and (s < 0 or edge == 1):
                    note(w, view, wanted, p, ray, clip[0], hit)
                layer += 1
                if s < 0 or ray.seen * wanted.rgb.shape[0] == 0:
                    left = 0.0
                elif hit.body < 0:
                    color += left * sky_color(lamps, ray.direction)
                    left = 0.0
                else:
                    spot = spot_at(w, looks, p.env, 1.0, start, ray.direction, hit)
                    n = spot.shading
                    if wp.dot(spot.normal, ray.direction) > 0.0:
                        n = -n
                    around = wp.lerp(lamps.ground, lamps.zenith, 0.5 + 0.5 * n[2])
                    got = spot.emission + (lamps.ambient * spot.openness) * wp.cw_mul(spot.color, around)
                    above = spot.point + n * NEARBY * (1.0 + wp.length(spot.point))
                    k = int(0)
                    while k < lamps.kind.shape[0]:
                        shine = shine_of(lamps, k, p.env, spot.point)
                        if wp.dot(n, shine.towards) > 0.0 and wp.max(shine.color) > 0.0:
                            lit = bool(True)
                            if wanted.shadows * lamps.shadow[k] == 1:
                                lit = not is_blocked(w, p.env, 1.0, above, shine.towards, shine.reach)
                            if lit:
                                got += reflected(spot, n, ray.direction, shine)
                        k += 1
                    color += left * spot.opacity * got
                    left = left * (1.0 - spot.opacity)
                    step = hit.t + NEARBY * (1.0 + hit.t)
                    start = start + step * ray.direction
                    reach = reach - step
            if s >= 0:
                sum += color
                taken += 1.0
                if s == 0:
                    first_color = color
                elif s == 1 and wp.max(wp.abs(color - first_color)) < EVEN:
                    s = n_samples
            s += 1
        if wanted.rgb.shape[0] > 0:
            sum = sum / taken
            wanted.rgb[p.index] = wp.vec3ub(byte_of(sum[0]), byte_of(sum[1]), byte_of(sum[2]))

    @wp.kernel(
        enable_backward=False, module="unique", cuda_max_registers=registers or None, module_options={"fast_math": fast}
    )
    def cast_rays(
        first: int, last: int, each: int, view: View, w: World, looks: Looks, lamps: Lamps, wanted: Wanted
    ) -> None:
        start = first + each * wp.tid()
        for i in range(start, wp.min(start + each, last)):
            see(view, w, looks, lamps, wanted, pixel_of(view, i))

    return cast_rays
