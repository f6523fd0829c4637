"""One launch for all pixels of all cameras of all environments: colour, depth, normal, what is seen, how it moved."""

from __future__ import annotations

import warp as wp

from .rays import is_blocked, nearest
from .records import DIRECTIONAL, NEARBY, SPOT, Lamps, Looks, Spot, View, World, turn
from .surfaces import spot_at
from .views import last_pixel, pixel_ray

EVEN = wp.constant(0.02)
"""Where two samples of a pixel differ by less, there is no edge in it."""


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


@wp.func
def lamp_color(w: World, lamps: Lamps, k: int, env: int, spot: Spot, n: wp.vec3, d: wp.vec3, shadows: int) -> wp.vec3:
    """What one light adds to a surface with normal n that is seen along d."""
    result = wp.vec3(0.0, 0.0, 0.0)
    to_lamp = -lamps.direction[k, env]
    reach = float(1.0e30)
    share = float(1.0)
    if lamps.kind[k] != DIRECTIONAL:
        offset = lamps.position[k, env] - spot.point
        reach = wp.length(offset)
        to_lamp = offset / wp.max(reach, 1.0e-9)
        fall = lamps.falloff[k]
        share = 1.0 / wp.max(fall[0] + reach * (fall[1] + reach * fall[2]), 1.0e-6)
        if lamps.kind[k] == SPOT:
            cosine = -wp.dot(to_lamp, lamps.direction[k, env])
            if cosine < lamps.cone[k][0]:
                share = 0.0
            else:
                share = share * wp.pow(wp.max(cosine, 0.0), lamps.cone[k][1])
    facing = wp.dot(n, to_lamp)
    if facing > 0.0 and share > 0.0:
        start = spot.point + n * NEARBY * (1.0 + wp.length(spot.point))
        if shadows == 0 or lamps.shadow[k] == 0 or not is_blocked(w, env, 1.0, start, to_lamp, reach):
            half = wp.normalize(to_lamp - d)
            alpha = wp.max(spot.roughness * spot.roughness, 0.03)
            sharp = wp.min(2.0 / (alpha * alpha) - 2.0, 500.0)
            shine = spot.specular * (1.0 - spot.roughness) * wp.pow(wp.max(wp.dot(n, half), 0.0), wp.max(sharp, 1.0))
            light = lamps.color[env % lamps.color.shape[0], k] * share
            result = wp.cw_mul(light, spot.color * facing + wp.vec3(shine, shine, shine))
    return result


@wp.func
def seen_color(
    w: World, looks: Looks, lamps: Lamps, env: int, o: wp.vec3, d: wp.vec3, clip: wp.vec2, shadows: int
) -> wp.vec3:
    """The colour along a ray; through what is not opaque, the colour behind it shines."""
    result = wp.vec3(0.0, 0.0, 0.0)
    left = float(1.0)
    start = o + clip[0] * d
    reach = clip[1] - clip[0]
    for _layer in range(4):
        if left > 0.01:
            hit = nearest(w, env, 1.0, start, d, reach)
            if hit.instance < 0:
                result += left * sky_color(lamps, d)
                left = 0.0
            else:
                spot = spot_at(w, looks, env, 1.0, start, d, hit)
                n = spot.shading
                if wp.dot(spot.normal, d) > 0.0:
                    n = -n
                above = 0.5 + 0.5 * n[2]
                color = spot.emission + lamps.ambient * wp.cw_mul(
                    spot.color, wp.lerp(lamps.ground, lamps.zenith, above)
                )
                for k in range(lamps.kind.shape[0]):
                    color += lamp_color(w, lamps, k, env, spot, n, d, shadows)
                result += left * spot.opacity * color
                left = left * (1.0 - spot.opacity)
                step = hit.t + NEARBY * (1.0 + hit.t)
                start = start + step * d
                reach = reach - step
    return result


@wp.kernel(enable_backward=False, module="kinema_images")
def cast_rays(first: int, view: View, w: World, looks: Looks, lamps: Lamps, wanted: Wanted) -> None:
    """One pixel."""
    i = first + wp.tid()
    column = i % view.width
    row = (i // view.width) % view.height
    camera = (i // (view.width * view.height)) % view.n_cameras
    env = view.first_env + i // (view.width * view.height * view.n_cameras)
    clip = view.clip[env % view.clip.shape[0], camera]
    ray = pixel_ray(view, env, camera, float(column) + 0.5, float(row) + 0.5)
    o = ray.origin + clip[0] * ray.direction
    more = wanted.depth.shape[0] + wanted.normal.shape[0] + wanted.segmentation.shape[0] + wanted.flow.shape[0]
    if more > 0:
        hit = nearest(w, env, 1.0, o, ray.direction, (clip[1] - clip[0]) * float(ray.seen))
        found = hit.instance >= 0
        k = wp.max(hit.instance, 0)
        if wanted.depth.shape[0] > 0:
            wanted.depth[i] = wp.where(found, (hit.t + clip[0]) * ray.depth, wp.inf)
        if wanted.normal.shape[0] > 0:
            n = wp.quat_rotate(turn(w.rotation[k, env]), hit.normal)
            if wp.dot(n, ray.direction) > 0.0:
                n = -n
            wanted.normal[i] = wp.where(found, n, wp.vec3(0.0, 0.0, 0.0))
        if wanted.segmentation.shape[0] > 0:
            wanted.segmentation[i] = wp.where(found, wanted.labels[k], wp.vec3i(-1, -1, -1))
        if wanted.flow.shape[0] > 0:
            point = ray.origin + 1.0e6 * ray.direction
            if found:
                here = wp.quat_rotate_inv(turn(w.rotation[k, env]), o + hit.t * ray.direction - w.position[k, env])
                point = w.last_position[k, env] + wp.quat_rotate(turn(w.last_rotation[k, env]), here)
            now = wp.vec2(float(column) + 0.5, float(row) + 0.5)
            wanted.flow[i] = now - last_pixel(view, env, camera, point)
    if wanted.rgb.shape[0] > 0:
        color = wp.vec3(0.0, 0.0, 0.0)
        first_color = wp.vec3(0.0, 0.0, 0.0)
        edge = wanted.samples
        taken = float(0.0)
        even = bool(False)
        for s in range(edge * edge):
            if not even:
                cell = s
                if s == 1:
                    cell = edge * edge - 1  # opposite to the first: if both agree, the pixel is even and done
                elif s == edge * edge - 1:
                    cell = wp.min(1, edge * edge - 1)
                x = float(column) + (float(cell % edge) + 0.5) / float(edge)
                y = float(row) + (float(cell // edge) + 0.5) / float(edge)
                each = pixel_ray(view, env, camera, x, y)
                if each.seen == 1:
                    got = seen_color(w, looks, lamps, env, each.origin, each.direction, clip, wanted.shadows)
                    color += got
                    if s == 0:
                        first_color = got
                    elif s == 1:
                        even = wp.max(wp.abs(got - first_color)) < EVEN
                taken += 1.0
        color = color / taken
        wanted.rgb[i] = wp.vec3ub(byte_of(color[0]), byte_of(color[1]), byte_of(color[2]))
