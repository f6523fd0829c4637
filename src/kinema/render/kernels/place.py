"""Where instances, cameras and lights are, from where links are."""

from __future__ import annotations

import warp as wp

from .records import World, turn


@wp.struct
class Mounts:
    """Things on links, one of them each."""

    link: wp.array[int]
    """-1 for the world."""
    position: wp.array2d[wp.vec3]
    """(environments or 1, n): in the link."""
    rotation: wp.array2d[wp.vec4]


@wp.func
def product(a: wp.vec4, b: wp.vec4) -> wp.vec4:
    q = turn(a) * turn(b)
    return wp.vec4(q[3], q[0], q[1], q[2])


@wp.kernel(enable_backward=False, module="kinema_images")
def place_mounts(
    mounts: Mounts,
    link_position: wp.array2d[float],
    link_rotation: wp.array2d[float],
    position: wp.array2d[wp.vec3],
    rotation: wp.array2d[wp.vec4],
) -> None:
    """Into the world; the numbers of links lie in rows, environments side by side."""
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
        p = base + wp.quat_rotate(turn(r), p)
        q = product(r, q)
    position[i, env] = p
    rotation[i, env] = q


@wp.struct
class Boxes:
    """What bodies are within: in their own frames, and in the world."""

    middle: wp.array[wp.vec3]
    extent: wp.array[wp.vec3]
    radius: wp.array[float]
    lower: wp.array[wp.vec3]
    """Of the boxes of the tree, all those of an environment after each other; empty where there is none."""
    upper: wp.array[wp.vec3]


@wp.kernel(enable_backward=False, module="kinema_images")
def bound_bodies(w: World, boxes: Boxes) -> None:
    """The balls and boxes around bodies, over all of their motion where the shutter is open."""
    b, env = wp.tid()
    p = w.position[b, env]
    m = wp.quat_to_matrix(turn(w.rotation[b, env]))
    center = p + m * boxes.middle[b]
    radius = boxes.radius[b]
    e = boxes.extent[b]
    # a turned box is as wide as its sides together
    half = wp.vec3(
        wp.abs(m[0, 0]) * e[0] + wp.abs(m[0, 1]) * e[1] + wp.abs(m[0, 2]) * e[2],
        wp.abs(m[1, 0]) * e[0] + wp.abs(m[1, 1]) * e[1] + wp.abs(m[1, 2]) * e[2],
        wp.abs(m[2, 0]) * e[0] + wp.abs(m[2, 1]) * e[1] + wp.abs(m[2, 2]) * e[2],
    )
    if w.moving == 1:  # wherever it is and however it turns in between
        last = w.last_position[b, env]
        center = 0.5 * (p + last)
        radius = radius + wp.length(boxes.middle[b]) + 0.5 * wp.length(p - last)
        half = wp.vec3(radius, radius, radius)
    w.ball[env, b] = wp.vec4(center[0], center[1], center[2], radius)
    if boxes.lower.shape[0] > 0:
        margin = wp.vec3(1.0e-5, 1.0e-5, 1.0e-5)
        boxes.lower[env * w.n_bounded + b] = center - half - margin
        boxes.upper[env * w.n_bounded + b] = center + half + margin


@wp.kernel(enable_backward=False, module="kinema_images")
def aim_lamps(rotation: wp.array2d[wp.vec4], direction: wp.array2d[wp.vec3]) -> None:
    """Lights shine along -z."""
    i, env = wp.tid()
    direction[i, env] = wp.quat_rotate(turn(rotation[i, env]), wp.vec3(0.0, 0.0, -1.0))
