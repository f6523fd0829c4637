"""From pixels to rays and back."""

from __future__ import annotations

import warp as wp

from .records import FISHEYE, ORTHOGRAPHIC, PINHOLE, View, turn


@wp.struct
class Ray:
    """A ray in the world, and how deep along the view a length of one on it goes."""

    origin: wp.vec3
    direction: wp.vec3
    depth: float
    seen: int
    """0 for pixels of a fisheye that see nothing."""


@wp.struct
class Pixel:
    """Which pixel of which image."""

    column: int
    row: int
    camera: int
    env: int
    index: int
    """Among the pixels of all images."""


@wp.func
def pixel_of(view: View, i: int) -> Pixel:
    """The pixel of thread i. Threads that run together get patches of 8 x 4, whose rays go nearly the same way."""
    size = view.width * view.height
    place = i % size
    image = i // size
    p = Pixel()
    p.column = place % view.width
    p.row = place // view.width
    if view.width % 8 == 0 and view.height % 4 == 0:
        patch = place // 32
        lane = place % 32
        across = view.width // 8
        p.column = 8 * (patch % across) + lane % 8
        p.row = 4 * (patch // across) + lane // 8
    p.camera = image % view.n_cameras
    p.env = view.first_env + image // view.n_cameras
    p.index = image * size + p.row * view.width + p.column
    return p


@wp.func
def pixel_ray(view: View, env: int, camera: int, x: float, y: float) -> Ray:
    """Through a point of the image [pixels], x to the right and y down; cameras look along -z with +y up."""
    lens = view.lens[env % view.lens.shape[0], camera]
    u = (x - lens[2]) / lens[0]
    v = -(y - lens[3]) / lens[1]
    origin = wp.vec3(0.0, 0.0, 0.0)
    d = wp.vec3(0.0, 0.0, -1.0)
    ray = Ray()
    ray.seen = 1
    ray.depth = 1.0
    kind = view.kind[camera]
    if kind == PINHOLE:
        d = wp.normalize(wp.vec3(u, v, -1.0))
        ray.depth = -d[2]
    elif kind == ORTHOGRAPHIC:
        origin = wp.vec3(u, v, 0.0)
    else:
        angle = wp.sqrt(u * u + v * v)
        if angle > wp.pi:
            ray.seen = 0
        elif angle > 0.0:
            s = wp.sin(angle) / angle
            d = wp.vec3(u * s, v * s, -wp.cos(angle))
    q = turn(view.rotation[camera, env])
    ray.origin = view.position[camera, env] + wp.quat_rotate(q, origin)
    ray.direction = wp.quat_rotate(q, d)
    return ray


@wp.func
def through_lens(view: View, env: int, camera: int, ray: Ray, r1: float, r2: float) -> Ray:
    """The ray from another point of the lens through the same point in focus."""
    result = ray
    aperture = view.aperture[env % view.aperture.shape[0], camera]
    if aperture[0] > 0.0 and ray.depth > 0.0:
        radius = aperture[0] * wp.sqrt(r1)
        angle = 2.0 * wp.pi * r2
        q = turn(view.rotation[camera, env])
        offset = wp.quat_rotate(q, wp.vec3(radius * wp.cos(angle), radius * wp.sin(angle), 0.0))
        focus = ray.origin + (aperture[1] / ray.depth) * ray.direction
        result.origin = ray.origin + offset
        result.direction = wp.normalize(focus - result.origin)
    return result


@wp.func
def last_pixel(view: View, env: int, camera: int, point: wp.vec3) -> wp.vec2:
    """Where a point of the world was in the image before [pixels]."""
    lens = view.lens[env % view.lens.shape[0], camera]
    q = turn(view.last_rotation[camera, env])
    p = wp.quat_rotate_inv(q, point - view.last_position[camera, env])
    u = p[0]
    v = p[1]
    kind = view.kind[camera]
    if kind == PINHOLE:
        u = -p[0] / p[2]
        v = -p[1] / p[2]
    elif kind == FISHEYE:
        across = wp.sqrt(p[0] * p[0] + p[1] * p[1])
        angle = wp.atan2(across, -p[2])
        if across > 0.0:
            u = p[0] * angle / across
            v = p[1] * angle / across
    return wp.vec2(lens[2] + lens[0] * u, lens[3] - lens[1] * v)
