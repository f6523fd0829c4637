"""Edge-avoiding a-trous wavelet filter kernel guided by albedo, normal and depth (Dammertz et al., SVGF weights).

Images of all cameras are stored one after the other.
"""

from __future__ import annotations

import warp as wp

from .bsdf import luminance


@wp.func
def atrous_filter_pixel(
    pixel: int,
    width: int,
    height: int,
    stride: int,
    luminance_sigmas: float,
    radiance: wp.array[wp.vec3],
    variance: wp.array[float],
    albedo: wp.array[wp.vec3],
    normal: wp.array[wp.vec3],
    depth: wp.array[float],
    new_radiance: wp.array[wp.vec3],
    new_variance: wp.array[float],
) -> None:
    """One 5x5 a-trous filter tap sum at one pixel; writes `new_radiance` and `new_variance`.

    Neighbours at distance `stride` are weighted by a Gaussian and by similarity of luminance (relative to
    `luminance_sigmas` standard deviations, from the 3x3 mean variance), albedo, normal and depth.
    """
    x = pixel % width
    y = (pixel // width) % height
    image_start = pixel - x - y * width
    center_radiance = radiance[pixel]
    # the variance estimate of few samples is noisy itself: average it over 3x3 pixels
    mean_variance = float(0.0)
    for k in range(9):
        column = wp.clamp(x + k % 3 - 1, 0, width - 1)
        row = wp.clamp(y + k // 3 - 1, 0, height - 1)
        mean_variance += variance[image_start + row * width + column] / 9.0
    luminance_scale = luminance_sigmas * wp.sqrt(mean_variance) + 1.0e-4
    radiance_sum = wp.vec3(0.0, 0.0, 0.0)
    variance_sum = float(0.0)
    weight_sum = float(0.0)
    for k in range(25):
        dx = k % 5 - 2
        dy = k // 5 - 2
        column = x + stride * dx
        row = y + stride * dy
        if column >= 0 and column < width and row >= 0 and row < height:
            j = image_start + row * width + column
            weight = wp.exp(-0.5 * float(dx * dx + dy * dy))
            luminance_difference = luminance(center_radiance - radiance[j])
            albedo_difference = albedo[pixel] - albedo[j]
            normal_difference = normal[pixel] - normal[j]
            depth_difference = wp.abs(depth[pixel] - depth[j]) / (
                0.02 * float(stride) * (depth[pixel] + depth[j]) + 1.0e-3
            )
            weight = weight * wp.exp(
                -wp.abs(luminance_difference) / luminance_scale
                - 100.0 * wp.dot(albedo_difference, albedo_difference)
                - 8.0 * wp.dot(normal_difference, normal_difference)
                - depth_difference
            )
            weight_sum += weight
            radiance_sum += weight * radiance[j]
            variance_sum += weight * weight * variance[j]
    new_radiance[pixel] = radiance_sum / weight_sum
    new_variance[pixel] = variance_sum / (weight_sum * weight_sum)


@wp.kernel(enable_backward=False, module="kinema_denoiser")
def atrous_filter_pass(
    begin: int,
    end: int,
    items_per_thread: int,
    width: int,
    height: int,
    stride: int,
    luminance_sigmas: float,
    radiance: wp.array[wp.vec3],
    variance: wp.array[float],
    albedo: wp.array[wp.vec3],
    normal: wp.array[wp.vec3],
    depth: wp.array[float],
    new_radiance: wp.array[wp.vec3],
    new_variance: wp.array[float],
) -> None:
    """One pass of the a-trous filter over pixels `begin` to `end`, `items_per_thread` per thread."""
    start = begin + items_per_thread * wp.tid()
    for i in range(start, wp.min(start + items_per_thread, end)):
        atrous_filter_pixel(
            i,
            width,
            height,
            stride,
            luminance_sigmas,
            radiance,
            variance,
            albedo,
            normal,
            depth,
            new_radiance,
            new_variance,
        )
