"""Noise is averaged away along surfaces: over wider and wider neighbourhoods, never across edges of what is seen."""

from __future__ import annotations

import warp as wp

from .bsdf import brightness


@wp.func
def smooth_pixel(
    i: int,
    width: int,
    height: int,
    step: int,
    strength: float,
    light: wp.array[wp.vec3],
    variance: wp.array[float],
    color: wp.array[wp.vec3],
    normal: wp.array[wp.vec3],
    depth: wp.array[float],
    new_light: wp.array[wp.vec3],
    new_variance: wp.array[float],
) -> None:
    x = i % width
    y = (i // width) % height
    corner = i - x - y * width
    own = light[i]
    # the variance of a few samples is a guess itself: that of the neighbours counts as well
    around = float(0.0)
    for k in range(9):
        column = wp.clamp(x + k % 3 - 1, 0, width - 1)
        line = wp.clamp(y + k // 3 - 1, 0, height - 1)
        around += variance[corner + line * width + column] / 9.0
    reach = strength * wp.sqrt(around) + 1.0e-4
    total = wp.vec3(0.0, 0.0, 0.0)
    spread = float(0.0)
    weights = float(0.0)
    for k in range(25):
        dx = k % 5 - 2
        dy = k // 5 - 2
        column = x + step * dx
        line = y + step * dy
        if column >= 0 and column < width and line >= 0 and line < height:
            j = corner + line * width + column
            tap = wp.exp(-0.5 * float(dx * dx + dy * dy))
            off = brightness(own - light[j])
            tone = color[i] - color[j]
            bend = normal[i] - normal[j]
            away = wp.abs(depth[i] - depth[j]) / (0.02 * float(step) * (depth[i] + depth[j]) + 1.0e-3)
            tap = tap * wp.exp(-wp.abs(off) / reach - 100.0 * wp.dot(tone, tone) - 8.0 * wp.dot(bend, bend) - away)
            weights += tap
            total += tap * light[j]
            spread += tap * tap * variance[j]
    new_light[i] = total / weights
    new_variance[i] = spread / (weights * weights)


@wp.kernel(enable_backward=False, module="kinema_denoiser")
def smooth(
    first: int,
    last: int,
    each: int,
    width: int,
    height: int,
    step: int,
    strength: float,
    light: wp.array[wp.vec3],
    variance: wp.array[float],
    color: wp.array[wp.vec3],
    normal: wp.array[wp.vec3],
    depth: wp.array[float],
    new_light: wp.array[wp.vec3],
    new_variance: wp.array[float],
) -> None:
    """One pass; images one after the other."""
    start = first + each * wp.tid()
    for i in range(start, wp.min(start + each, last)):
        smooth_pixel(i, width, height, step, strength, light, variance, color, normal, depth, new_light, new_variance)
