"""Pixel indexing, camera rays for each projection, thin-lens sampling, and reprojection to the previous image."""

from __future__ import annotations

from collections.abc import Callable

import warp as wp

from .structs import FISHEYE, ORTHOGRAPHIC, PINHOLE, CameraArrays, to_warp_quat


def specialised_kernel(max_registers: int, *, fast_math: bool) -> Callable[[Callable[..., None]], wp.Kernel]:
    """Decorator of kernels that are specialized for the features of a scene, each a Warp module of its own.

    Args:
        max_registers: registers per GPU thread; 0 for no limit.
        fast_math: use fast approximate division, square roots and sines on a GPU.
    """
    return wp.kernel(
        enable_backward=False,
        module="unique",
        cuda_max_registers=max_registers or None,
        module_options={"fast_math": fast_math},
    )


@wp.struct
class CameraRay:
    """A camera ray in the world frame."""

    origin: wp.vec3
    direction: wp.vec3
    depth: float
    """Depth along the optical axis per unit distance along the ray."""
    valid: int
    """0 for pixels outside of the image circle of a fisheye camera."""


@wp.struct
class Pixel:
    """Coordinates of a pixel among the images of all cameras and environments."""

    column: int
    row: int
    camera: int
    env: int
    index: int
    """Flat index among the pixels of all images."""


@wp.func
def pixel_of_thread(cameras: CameraArrays, thread: int) -> Pixel:
    """Pixel assigned to a thread, in 8 x 4 tiles per warp if the image size allows.

    Tiles make the rays of a warp coherent.
    """
    size = cameras.width * cameras.height
    offset = thread % size
    image = thread // size
    pixel = Pixel()
    pixel.column = offset % cameras.width
    pixel.row = offset // cameras.width
    if cameras.width % 8 == 0 and cameras.height % 4 == 0:
        tile = offset // 32
        lane = offset % 32
        tiles_per_row = cameras.width // 8
        pixel.column = 8 * (tile % tiles_per_row) + lane % 8
        pixel.row = 4 * (tile // tiles_per_row) + lane // 8
    pixel.camera = image % cameras.n_cameras
    pixel.env = cameras.first_env + image // cameras.n_cameras
    pixel.index = image * size + pixel.row * cameras.width + pixel.column
    return pixel


@wp.func
def ray_through_pixel(cameras: CameraArrays, env: int, camera: int, x: float, y: float) -> CameraRay:
    """Camera ray through image coordinates (x right, y down) [pixels], in the world frame.

    Pinhole, fisheye (equidistant) or orthographic projection. Cameras look along -z with +y up.
    """
    intrinsics = cameras.intrinsics[env % cameras.intrinsics.shape[0], camera]
    u = (x - intrinsics[2]) / intrinsics[0]
    v = -(y - intrinsics[3]) / intrinsics[1]
    origin = wp.vec3(0.0, 0.0, 0.0)
    direction = wp.vec3(0.0, 0.0, -1.0)
    ray = CameraRay()
    ray.valid = 1
    ray.depth = 1.0
    kind = cameras.kind[camera]
    if kind == PINHOLE:
        direction = wp.normalize(wp.vec3(u, v, -1.0))
        ray.depth = -direction[2]
    elif kind == ORTHOGRAPHIC:
        origin = wp.vec3(u, v, 0.0)
    else:
        angle = wp.sqrt(u * u + v * v)
        if angle > wp.pi:
            ray.valid = 0
        elif angle > 0.0:
            s = wp.sin(angle) / angle
            direction = wp.vec3(u * s, v * s, -wp.cos(angle))
    q = to_warp_quat(cameras.rotation[camera, env])
    ray.origin = cameras.position[camera, env] + wp.quat_rotate(q, origin)
    ray.direction = wp.quat_rotate(q, direction)
    return ray


@wp.func
def sample_lens(cameras: CameraArrays, env: int, camera: int, ray: CameraRay, r1: float, r2: float) -> CameraRay:
    """Thin-lens model: ray from a random lens point (`r1`, `r2` in [0, 1)) through the same point in focus."""
    result = ray
    aperture = cameras.aperture[env % cameras.aperture.shape[0], camera]
    if aperture[0] > 0.0 and ray.depth > 0.0:
        radius = aperture[0] * wp.sqrt(r1)
        angle = 2.0 * wp.pi * r2
        q = to_warp_quat(cameras.rotation[camera, env])
        offset = wp.quat_rotate(q, wp.vec3(radius * wp.cos(angle), radius * wp.sin(angle), 0.0))
        focus = ray.origin + (aperture[1] / ray.depth) * ray.direction
        result.origin = ray.origin + offset
        result.direction = wp.normalize(focus - result.origin)
    return result


@wp.func
def previous_pixel_position(cameras: CameraArrays, env: int, camera: int, point: wp.vec3) -> wp.vec2:
    """Reprojection: image coordinates [pixels] of a world `point` in the previous image, for optical flow."""
    intrinsics = cameras.intrinsics[env % cameras.intrinsics.shape[0], camera]
    q = to_warp_quat(cameras.previous_rotation[camera, env])
    p = wp.quat_rotate_inv(q, point - cameras.previous_position[camera, env])
    u = p[0]
    v = p[1]
    kind = cameras.kind[camera]
    if kind == PINHOLE:
        u = -p[0] / p[2]
        v = -p[1] / p[2]
    elif kind == FISHEYE:
        radius = wp.sqrt(p[0] * p[0] + p[1] * p[1])
        angle = wp.atan2(radius, -p[2])
        if radius > 0.0:
            u = p[0] * angle / radius
            v = p[1] * angle / radius
    return wp.vec2(intrinsics[2] + intrinsics[0] * u, intrinsics[3] - intrinsics[1] * v)
