"""Kernels that update world poses of bodies, cameras and lights, and body bounds, from link poses."""

from __future__ import annotations

import warp as wp

from .structs import Bodies, to_warp_quat


@wp.struct
class Mounts:
    """Objects attached to links."""

    link: wp.array[int]
    """Link index; -1 for the world."""
    position: wp.array2d[wp.vec3]
    """Position in the link frame [m], shape (n_envs or 1, n)."""
    rotation: wp.array2d[wp.vec4]
    """Orientation in the link frame, shape (n_envs or 1, n)."""


@wp.func
def multiply_quaternions(a: wp.vec4, b: wp.vec4) -> wp.vec4:
    q = to_warp_quat(a) * to_warp_quat(b)
    return wp.vec4(q[3], q[0], q[1], q[2])


@wp.kernel(enable_backward=False, module="kinema_images")
def compute_mount_poses(
    mounts: Mounts,
    link_position: wp.array2d[float],
    link_rotation: wp.array2d[float],
    position: wp.array2d[wp.vec3],
    rotation: wp.array2d[wp.vec4],
) -> None:
    """World poses of objects attached to links (cameras, lights), from link poses; writes `position` and `rotation`.

    Objects without a link keep their pose. Outputs are (n, n_envs); link poses are arrays of rows, `link_position` (3
    n_links, n_envs) and `link_rotation` (4 n_links, n_envs). One thread per object and environment.
    """
    i, env = wp.tid()
    row = env % mounts.position.shape[0]
    p = mounts.position[row, i]
    q = mounts.rotation[row, i]
    link = mounts.link[i]
    if link >= 0:
        base = wp.vec3(link_position[3 * link, env], link_position[3 * link + 1, env], link_position[3 * link + 2, env])
        r = wp.vec4(
            link_rotation[4 * link, env],
            link_rotation[4 * link + 1, env],
            link_rotation[4 * link + 2, env],
            link_rotation[4 * link + 3, env],
        )
        p = base + wp.quat_rotate(to_warp_quat(r), p)
        q = multiply_quaternions(r, q)
    position[i, env] = p
    rotation[i, env] = q


@wp.struct
class BodyBounds:
    """Bounds of bodies in their own frames, and world bounding boxes for the BVH."""

    center: wp.array[wp.vec3]
    """Centre of the bounding box in the body frame [m]."""
    half_extent: wp.array[wp.vec3]
    """Half extents of the bounding box [m]."""
    radius: wp.array[float]
    """Radius of the bounding sphere about the centre [m]."""
    lower: wp.array[wp.vec3]
    """Lower corners of the world boxes [m], environment by environment; empty without BVH."""
    upper: wp.array[wp.vec3]
    """Upper corners of the world boxes [m]."""


@wp.kernel(enable_backward=False, module="kinema_images")
def update_body_bounds(bodies: Bodies, bounds: BodyBounds) -> None:
    """World bounding spheres of bodies, and world AABBs if the BVH is used.

    With motion blur, both enclose the motion between the previous and the current pose. Writes
    `bodies.bounding_sphere`, `bounds.lower` and `bounds.upper`. One thread per bounded body and environment.
    """
    b, env = wp.tid()
    p = bodies.position[b, env]
    rotation = wp.quat_to_matrix(to_warp_quat(bodies.rotation[b, env]))
    center = p + rotation * bounds.center[b]
    radius = bounds.radius[b]
    extent = bounds.half_extent[b]
    # half extents of the AABB of a rotated box
    half = wp.vec3(
        wp.abs(rotation[0, 0]) * extent[0] + wp.abs(rotation[0, 1]) * extent[1] + wp.abs(rotation[0, 2]) * extent[2],
        wp.abs(rotation[1, 0]) * extent[0] + wp.abs(rotation[1, 1]) * extent[1] + wp.abs(rotation[1, 2]) * extent[2],
        wp.abs(rotation[2, 0]) * extent[0] + wp.abs(rotation[2, 1]) * extent[1] + wp.abs(rotation[2, 2]) * extent[2],
    )
    if bodies.motion_blur == 1:  # encloses any rotation in between
        previous = bodies.previous_position[b, env]
        center = 0.5 * (p + previous)
        radius = radius + wp.length(bounds.center[b]) + 0.5 * wp.length(p - previous)
        half = wp.vec3(radius, radius, radius)
    bodies.bounding_sphere[env, b] = wp.vec4(center[0], center[1], center[2], radius)
    if bounds.lower.shape[0] > 0:
        margin = wp.vec3(1.0e-5, 1.0e-5, 1.0e-5)
        bounds.lower[env * bodies.n_bounded + b] = center - half - margin
        bounds.upper[env * bodies.n_bounded + b] = center + half + margin


@wp.kernel(enable_backward=False, module="kinema_images")
def update_light_directions(rotation: wp.array2d[wp.vec4], direction: wp.array2d[wp.vec3]) -> None:
    """Write the world direction of each light, -z of its frame, to `direction` (n_lights, n_envs)."""
    i, env = wp.tid()
    direction[i, env] = wp.quat_rotate(to_warp_quat(rotation[i, env]), wp.vec3(0.0, 0.0, -1.0))
