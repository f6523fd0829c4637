"""Ray-casting kernel: one launch renders colour, depth, normal, segmentation and flow of all cameras.

Colours are shaded in sRGB space with ambient light, one shadow ray per light and a Blinn-Phong highlight.
"""

from __future__ import annotations

from functools import cache

import warp as wp

from ..kernel_launch import KernelFeatures
from .camera_rays import (
    CameraRay,
    Pixel,
    pixel_of_thread,
    previous_pixel_position,
    ray_through_pixel,
    specialised_kernel,
)
from .intersection import hit_instance, ray_query_functions
from .shading_points import shading_point_function
from .structs import (
    DIRECTIONAL_LIGHT,
    RAY_OFFSET,
    SPOT_LIGHT,
    Bodies,
    CameraArrays,
    Lights,
    RayHit,
    ShadingPoint,
    Surfaces,
    to_warp_quat,
)

UNIFORM_PIXEL_TOLERANCE = wp.constant(0.02)
"""Colour difference of the first two samples of a pixel below which no more samples are taken."""
MAX_REGISTERS = 64
"""Registers per GPU thread. Without the limit the kernel needs 218, and occupancy is too low to hide memory latency."""


@wp.struct
class ImageBuffers:
    """Output images and options; arrays of images that are not requested are empty."""

    rgb: wp.array[wp.vec3ub]
    depth: wp.array[float]
    normal: wp.array[wp.vec3]
    segmentation: wp.array[wp.vec3i]
    flow: wp.array[wp.vec2]
    labels: wp.array[wp.vec3i]
    """Segmentation labels of each instance: entity, link, shape."""
    has_auxiliary: int
    """1 if any image other than colour is requested."""
    shadows: int
    """1 if lights cast shadows."""
    samples: int
    """Rays along each edge of a pixel for colours; the square is the number of samples."""


@wp.func
def to_uint8(value: float) -> wp.uint8:
    return wp.uint8(int(255.0 * wp.clamp(value, 0.0, 1.0) + 0.5))


@wp.func
def sky_gradient(lights: Lights, direction: wp.vec3) -> wp.vec3:
    """Colour of the sky gradient (zenith, horizon, ground) in a world direction."""
    result = wp.lerp(lights.horizon, lights.zenith, wp.sqrt(wp.max(direction[2], 0.0)))
    if direction[2] < 0.0:
        result = wp.lerp(lights.horizon, lights.ground, wp.min(1.0, -4.0 * direction[2]))
    return result


@wp.struct
class IncidentLight:
    """Light arriving at a point from one light source, without occlusion."""

    direction: wp.vec3
    """Unit direction to the light."""
    max_distance: float
    """Distance to the light [m]."""
    color: wp.vec3
    """Attenuated intensity; zero outside of a spot cone."""


@wp.func
def incident_light(lights: Lights, light: int, env: int, point: wp.vec3) -> IncidentLight:
    """Direction, distance and attenuated intensity of one light at a point, ignoring occlusion."""
    result = IncidentLight()
    result.direction = -lights.direction[light, env]
    result.max_distance = float(1.0e30)
    attenuation = float(1.0)
    if lights.kind[light] != DIRECTIONAL_LIGHT:
        offset = lights.position[light, env] - point
        result.max_distance = wp.length(offset)
        result.direction = offset / wp.max(result.max_distance, 1.0e-9)
        falloff = lights.falloff[light]
        attenuation = 1.0 / wp.max(
            falloff[0] + result.max_distance * (falloff[1] + result.max_distance * falloff[2]), 1.0e-6
        )
        if lights.kind[light] == SPOT_LIGHT:
            cosine = -wp.dot(result.direction, lights.direction[light, env])
            if cosine < lights.cone[light][0]:
                attenuation = 0.0
            else:
                attenuation = attenuation * wp.pow(wp.max(cosine, 1.0e-6), lights.cone[light][1])
    result.color = lights.color[env % lights.color.shape[0], light] * attenuation
    return result


@wp.func
def specular_highlight(roughness: float, n_dot_h: float) -> float:
    """Blinn-Phong highlight for the cosine between normal and half vector, scaled by 1 - roughness."""
    alpha = wp.max(roughness * roughness, 0.03)
    exponent = wp.min(2.0 / (alpha * alpha) - 2.0, 500.0)
    return (1.0 - roughness) * wp.pow(n_dot_h, wp.max(exponent, 1.0))


@wp.func
def shade_incident_light(
    shading_point: ShadingPoint, normal: wp.vec3, direction: wp.vec3, incident: IncidentLight
) -> wp.vec3:
    """Colour reflected towards the viewer (-`direction`) from one light: Lambert diffuse plus specular highlights."""
    n_dot_h = wp.max(wp.dot(normal, wp.normalize(incident.direction - direction)), 0.0)
    specular = shading_point.specular * specular_highlight(shading_point.roughness, n_dot_h)
    if shading_point.clearcoat > 0.0:
        specular += 0.5 * shading_point.clearcoat * specular_highlight(shading_point.clearcoat_roughness, n_dot_h)
    return wp.cw_mul(
        incident.color, shading_point.color * wp.dot(normal, incident.direction) + wp.vec3(specular, specular, specular)
    )


@wp.func
def write_auxiliary_images(
    bodies: Bodies,
    cameras: CameraArrays,
    buffers: ImageBuffers,
    pixel: Pixel,
    ray: CameraRay,
    near_clip: float,
    hit: RayHit,
) -> None:
    """Write depth, normal, segmentation and optical flow of one pixel from the hit of its central ray.

    Args:
        bodies: poses of the bodies.
        cameras: the cameras.
        buffers: output images; empty arrays are skipped.
        pixel: the pixel.
        ray: the camera ray.
        near_clip: near clipping distance, from which `hit.t` is measured [m].
        hit: closest hit, with body -1 for a miss.
    """
    is_hit = hit.body >= 0
    body = wp.max(hit.body, 0)
    if buffers.depth.shape[0] > 0:
        buffers.depth[pixel.index] = wp.where(is_hit, (hit.t + near_clip) * ray.depth, wp.inf)
    if buffers.normal.shape[0] > 0:
        normal = wp.quat_rotate(to_warp_quat(bodies.rotation[body, pixel.env]), hit.normal)
        if wp.dot(normal, ray.direction) > 0.0:
            normal = -normal
        buffers.normal[pixel.index] = wp.where(is_hit, normal, wp.vec3(0.0, 0.0, 0.0))
    if buffers.segmentation.shape[0] > 0:
        label = wp.vec3i(-1, -1, -1)
        if is_hit:
            label = buffers.labels[hit_instance(bodies, hit)]
        buffers.segmentation[pixel.index] = label
    if buffers.flow.shape[0] > 0:
        point = ray.origin + 1.0e6 * ray.direction
        if is_hit:
            world_point = ray.origin + (near_clip + hit.t) * ray.direction
            local_point = wp.quat_rotate_inv(
                to_warp_quat(bodies.rotation[body, pixel.env]), world_point - bodies.position[body, pixel.env]
            )
            point = bodies.previous_position[body, pixel.env] + wp.quat_rotate(
                to_warp_quat(bodies.previous_rotation[body, pixel.env]), local_point
            )
        center = wp.vec2(float(pixel.column) + 0.5, float(pixel.row) + 0.5)
        buffers.flow[pixel.index] = center - previous_pixel_position(cameras, pixel.env, pixel.camera, point)


@wp.func
def subpixel_position(sample: int, edge: int) -> wp.vec2:
    """Position of a sample within its pixel, in [0, 1]^2, on an `edge` x `edge` grid.

    The second sample is diagonally opposite to the first, so that equal colours indicate a uniform pixel. A negative
    sample is the pixel centre.
    """
    cell = sample
    if sample == 1:
        cell = edge * edge - 1
    elif sample == edge * edge - 1:
        cell = wp.min(1, edge * edge - 1)
    position = wp.vec2(0.5, 0.5)
    if sample >= 0:
        position = wp.vec2(float(cell % edge) + 0.5, float(cell // edge) + 0.5) / float(edge)
    return position


def surface_shading_function(features: KernelFeatures) -> wp.Function:
    """Return the Warp function for the radiance of a surface point: emission, ambient and direct light with shadows."""
    _, any_hit = ray_query_functions(features)

    @wp.func
    def shade_point(
        bodies: Bodies, lights: Lights, shadows: int, env: int, direction: wp.vec3, shading_point: ShadingPoint
    ) -> wp.vec3:
        """Radiance towards a ray of the given direction: emission + ambient term + shaded light sources.

        With `shadows` = 1, light sources that cast shadows are tested for occlusion.
        """
        normal = shading_point.shading_normal
        if wp.dot(shading_point.normal, direction) > 0.0:
            normal = -normal
        ambient = wp.lerp(lights.ground, lights.zenith, 0.5 + 0.5 * normal[2])
        shaded = shading_point.emission + (lights.ambient * shading_point.ambient_occlusion) * wp.cw_mul(
            shading_point.color, ambient
        )
        shadow_origin = shading_point.position + normal * RAY_OFFSET * (1.0 + wp.length(shading_point.position))
        light = int(0)
        while light < lights.kind.shape[0]:
            incident = incident_light(lights, light, env, shading_point.position)
            if wp.dot(normal, incident.direction) > 0.0 and wp.max(incident.color) > 0.0:
                lit = bool(True)
                if shadows * lights.casts_shadow[light] == 1:
                    lit = not any_hit(bodies, env, 1.0, shadow_origin, incident.direction, incident.max_distance)
                if lit:
                    shaded += shade_incident_light(shading_point, normal, direction, incident)
            light += 1
        return shaded

    return shade_point


@cache
def ray_casting_kernel(
    features: KernelFeatures, *, single_opaque_ray: bool, max_registers: int = MAX_REGISTERS, fast_math: bool = True
) -> wp.Kernel:
    """Warp kernel that renders colour, depth, normal, segmentation and optical flow by ray casting, without bounces.

    Args:
        features: features of the scene for which the kernel is compiled.
        single_opaque_ray: whether there is one sample per pixel and no transparency.
        max_registers: registers per GPU thread; 0 for no limit.
        fast_math: use fast approximate division and square roots on a GPU.
    """
    closest_hit, _ = ray_query_functions(features)
    evaluate_shading_point, shade_point = shading_point_function(features), surface_shading_function(features)

    @wp.func
    def render_pixel(
        cameras: CameraArrays, bodies: Bodies, surfaces: Surfaces, lights: Lights, buffers: ImageBuffers, pixel: Pixel
    ) -> None:
        """Render one pixel: auxiliary images of the central ray, and the mean colour of all samples.

        Each sample composites up to `surfaces.max_layers` transparent surfaces front to back. Sampling stops after two
        samples if their colours agree.
        """
        clip = cameras.clip_range[pixel.env % cameras.clip_range.shape[0], pixel.camera]
        edge = buffers.samples
        layers = surfaces.max_layers
        if wp.static(single_opaque_ray):
            edge = 1
            layers = 1
        sample = int(0)
        if edge > 1 and buffers.has_auxiliary == 1:
            sample = -1  # central ray for the auxiliary images
        n_samples = edge * edge
        color_sum = wp.vec3(0.0, 0.0, 0.0)
        first_color = wp.vec3(0.0, 0.0, 0.0)
        n_taken = float(0.0)
        while sample < n_samples:
            position = subpixel_position(sample, edge)
            ray = ray_through_pixel(
                cameras, pixel.env, pixel.camera, float(pixel.column) + position[0], float(pixel.row) + position[1]
            )
            start = ray.origin + clip[0] * ray.direction
            max_distance = (clip[1] - clip[0]) * float(ray.valid)
            color = wp.vec3(0.0, 0.0, 0.0)
            transmittance = float(1.0)
            layer = int(0)
            while layer < layers and transmittance > 0.01:
                hit = closest_hit(bodies, pixel.env, 1.0, start, ray.direction, max_distance)
                if layer == 0 and buffers.has_auxiliary == 1 and (sample < 0 or edge == 1):
                    write_auxiliary_images(bodies, cameras, buffers, pixel, ray, clip[0], hit)
                layer += 1
                if sample < 0 or ray.valid * buffers.rgb.shape[0] == 0:
                    transmittance = 0.0
                elif hit.body < 0:
                    color += transmittance * sky_gradient(lights, ray.direction)
                    transmittance = 0.0
                else:
                    shading_point = evaluate_shading_point(bodies, surfaces, pixel.env, 1.0, start, ray.direction, hit)
                    shaded = shade_point(bodies, lights, buffers.shadows, pixel.env, ray.direction, shading_point)
                    color += transmittance * shading_point.opacity * shaded
                    transmittance = transmittance * (1.0 - shading_point.opacity)
                    step = hit.t + RAY_OFFSET * (1.0 + hit.t)
                    start = start + step * ray.direction
                    max_distance = max_distance - step
            if sample >= 0:
                color_sum += color
                n_taken += 1.0
                if sample == 0:
                    first_color = color
                elif sample == 1 and wp.max(wp.abs(color - first_color)) < UNIFORM_PIXEL_TOLERANCE:
                    sample = n_samples
            sample += 1
        if buffers.rgb.shape[0] > 0:
            color_sum = color_sum / n_taken
            buffers.rgb[pixel.index] = wp.vec3ub(to_uint8(color_sum[0]), to_uint8(color_sum[1]), to_uint8(color_sum[2]))

    @specialised_kernel(max_registers, fast_math=fast_math)
    def cast_rays(
        begin: int,
        end: int,
        items_per_thread: int,
        cameras: CameraArrays,
        bodies: Bodies,
        surfaces: Surfaces,
        lights: Lights,
        buffers: ImageBuffers,
    ) -> None:
        """Render pixels `begin` to `end`, `items_per_thread` per thread."""
        start = begin + items_per_thread * wp.tid()
        for i in range(start, wp.min(start + items_per_thread, end)):
            render_pixel(cameras, bodies, surfaces, lights, buffers, pixel_of_thread(cameras, i))

    return cast_rays
