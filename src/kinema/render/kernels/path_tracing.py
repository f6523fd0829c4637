"""Path-tracing kernel and its quasi-Monte Carlo sample sequence (randomly shifted rank-1 lattice).

The sample dimensions of the pixel, the lens, the time and the first scattering events come from an extensible rank-1
lattice with a random shift per pixel (Cranley-Patterson rotation), which gives less noise than independent samples. All
later dimensions are pseudo-random. Every random number has a fixed dimension, whether earlier ones are used or not.
"""

from __future__ import annotations

from functools import cache

import warp as wp

from ..kernel_launch import KernelFeatures
from .bsdf import (
    AlbedoTables,
    BsdfSample,
    GuidingCone,
    clearcoat_probability,
    orthonormal_basis,
    sample_bsdf,
    sample_glass,
    specular_probability,
)
from .camera_rays import CameraRay, Pixel, pixel_of_thread, ray_through_pixel, sample_lens, specialised_kernel
from .intersection import hit_instance, ray_query_functions
from .light_sampling import (
    MAX_GUIDED_SCATTERS,
    direct_lighting_function,
    emitted_radiance_mis,
    environment_radiance,
    glass_guiding_cone,
    offset_ray_origin,
)
from .shading_points import shading_point_function
from .structs import RAY_OFFSET, Bodies, CameraArrays, Lights, ShadingPoint, Surfaces

# Sample sequence ------------------------------------------------------------------------------------------------------

DIM_PIXEL = wp.constant(0)
DIM_SCATTERS = wp.constant(2)
"""First dimension of scattering events; `DIMS_PER_SCATTER` for each of the first `N_LATTICE_SCATTERS`."""
N_LATTICE_SCATTERS, DIMS_PER_SCATTER = wp.constant(4), wp.constant(10)
DIM_BSDF, DIM_EMITTER, DIM_LIGHT, DIM_GUIDING = wp.constant(0), wp.constant(3), wp.constant(6), wp.constant(9)
"""Dimensions within a scattering event."""
DIM_GLASS, N_LATTICE_GLASS = wp.constant(42), wp.constant(8)
"""First dimension of glass interfaces, and the number of interfaces with lattice dimensions."""
DIM_LENS, DIM_TIME = wp.constant(50), wp.constant(52)
DIM_RANDOM = wp.constant(1 << 16)
"""First pseudo-random dimension: later scattering events, and Russian roulette in every step."""


@wp.struct
class SampleSequence:
    """State of the sample sequence of one path."""

    pixel_hash: wp.uint32
    """Hash of pixel and seed."""
    reversed_index: wp.uint32
    """Bit-reversed index of the path, so that every prefix of 2^n paths is a lattice."""


@wp.func
def hash_bits(bits: wp.uint32) -> wp.uint32:
    """Integer hash (bit mixer) of 32 bits."""
    x = bits
    x = (x ^ (x >> wp.uint32(16))) * wp.uint32(0x7FEB352D)
    x = (x ^ (x >> wp.uint32(15))) * wp.uint32(0x3C6EF373)
    return x ^ (x >> wp.uint32(16))


@wp.func
def reverse_bits(bits: wp.uint32) -> wp.uint32:
    """Reverse the order of 32 bits."""
    x = (bits << wp.uint32(16)) | (bits >> wp.uint32(16))
    x = ((x & wp.uint32(0x00FF00FF)) << wp.uint32(8)) | ((x >> wp.uint32(8)) & wp.uint32(0x00FF00FF))
    x = ((x & wp.uint32(0x0F0F0F0F)) << wp.uint32(4)) | ((x >> wp.uint32(4)) & wp.uint32(0x0F0F0F0F))
    x = ((x & wp.uint32(0x33333333)) << wp.uint32(2)) | ((x >> wp.uint32(2)) & wp.uint32(0x33333333))
    return ((x & wp.uint32(0x55555555)) << wp.uint32(1)) | ((x >> wp.uint32(1)) & wp.uint32(0x55555555))


@wp.func
def make_sample_sequence(seed: int, pixel: int, path: int) -> SampleSequence:
    """Sample sequence of path number `path` through a pixel."""
    result = SampleSequence()
    result.pixel_hash = hash_bits(hash_bits(wp.uint32(seed) + wp.uint32(1)) + wp.uint32(pixel))
    result.reversed_index = reverse_bits(wp.uint32(path))
    return result


@wp.func
def scatter_dimension(number: int) -> int:
    """First sample dimension of the scattering event with the given number, starting at 0."""
    return wp.where(number < N_LATTICE_SCATTERS, DIM_SCATTERS, DIM_RANDOM) + DIMS_PER_SCATTER * number


@wp.func
def glass_dimension(number: int) -> int:
    """Sample dimension of the glass interface with the given number."""
    return wp.where(number < N_LATTICE_GLASS, DIM_GLASS, 2 * DIM_RANDOM) + number


@wp.func
def roulette_dimension(number: int) -> int:
    """Pseudo-random dimension with the given number, for Russian roulette and stochastic transparency."""
    return 3 * DIM_RANDOM + number


@wp.func
def sample_1d(generator: wp.array[wp.uint32], sequence: SampleSequence, dimension: int) -> float:
    """Sample in [0, 1) of one dimension of a path.

    A shifted lattice point for the dimensions of `generator` (the generating vector), a pseudo-random number beyond.
    """
    bits = hash_bits(sequence.pixel_hash + wp.uint32(dimension) * wp.uint32(0x1E3779B9))
    if dimension < generator.shape[0]:
        bits = bits + sequence.reversed_index * generator[dimension]
    else:
        bits = hash_bits(bits ^ sequence.reversed_index)
    return float(bits >> wp.uint32(8)) * 5.9604644775390625e-8  # 2^-24


@wp.func
def sample_3d(generator: wp.array[wp.uint32], sequence: SampleSequence, first_dimension: int) -> wp.vec3:
    """Samples in [0, 1) of three consecutive dimensions of a path."""
    return wp.vec3(
        sample_1d(generator, sequence, first_dimension),
        sample_1d(generator, sequence, first_dimension + 1),
        sample_1d(generator, sequence, first_dimension + 2),
    )


# Path tracing ---------------------------------------------------------------------------------------------------------


@wp.struct
class Film:
    """Accumulated sums over samples of all pixels."""

    radiance: wp.array[wp.vec3]
    """Radiance."""
    color: wp.array[wp.vec3]
    """Albedo of the first hit."""
    normal: wp.array[wp.vec3]
    """Shading normal of the first hit."""
    depth: wp.array[float]
    """Distance of the first hit [m]."""
    n_hits: wp.array[float]
    """Number of samples with a recorded first hit."""


@wp.struct
class PathSettings:
    """Settings of one launch of the path tracer."""

    seed: int
    first_sample: int
    """Index of the first sample of this launch."""
    n_samples: int
    """Samples per pixel of this launch."""
    max_bounces: int
    indirect_clamp: float
    """Upper bound of indirect contributions, against fireflies; 0 for none."""
    roulette_start: int
    """Number of bounces after which Russian roulette is applied."""
    depth_of_field: int
    """1 if a camera has an aperture."""
    generator: wp.array[wp.uint32]
    """Generating vector of the lattice."""


@wp.func
def clamp_indirect(radiance: wp.vec3, bounce: int, indirect_clamp: float) -> wp.vec3:
    """Radiance scaled down to a maximum component of `indirect_clamp` if `bounce` > 0 (firefly suppression)."""
    result = radiance
    if indirect_clamp > 0.0 and bounce > 0:
        peak = wp.max(radiance)
        if peak > indirect_clamp:
            result = radiance * (indirect_clamp / peak)
    return result


@wp.func
def sample_camera_ray(
    cameras: CameraArrays, settings: PathSettings, sequence: SampleSequence, pixel: Pixel
) -> CameraRay:
    """Camera ray through a random position within the pixel, and through a random lens point if enabled."""
    x = float(pixel.column) + sample_1d(settings.generator, sequence, DIM_PIXEL)
    y = float(pixel.row) + sample_1d(settings.generator, sequence, DIM_PIXEL + 1)
    ray = ray_through_pixel(cameras, pixel.env, pixel.camera, x, y)
    if settings.depth_of_field == 1:
        radius = sample_1d(settings.generator, sequence, DIM_LENS)
        ray = sample_lens(
            cameras, pixel.env, pixel.camera, ray, radius, sample_1d(settings.generator, sequence, DIM_LENS + 1)
        )
    return ray


@wp.func
def sample_3d_if(condition: bool, settings: PathSettings, sequence: SampleSequence, first_dimension: int) -> wp.vec3:
    """Samples of three consecutive dimensions if `condition` holds, else zeros."""
    result = wp.vec3(0.0, 0.0, 0.0)
    if condition:
        result = sample_3d(settings.generator, sequence, first_dimension)
    return result


@wp.func
def flip_normals_to_viewer(shading_point: ShadingPoint, direction: wp.vec3) -> ShadingPoint:
    """Shading point with both normals flipped to the side of the incoming ray `direction`.

    A shading normal that still points away from the viewer is tilted until it is just visible.
    """
    result = shading_point
    if wp.dot(shading_point.normal, direction) > 0.0:
        result.normal = -shading_point.normal
        result.shading_normal = -shading_point.shading_normal
    if wp.dot(result.shading_normal, direction) > -0.01:  # points away from the viewer
        result.shading_normal = wp.normalize(
            result.shading_normal - (wp.dot(result.shading_normal, direction) + 0.02) * direction
        )
    return result


@wp.func
def sample_scattering(
    shading_point: ShadingPoint, albedo: AlbedoTables, basis: wp.mat33, cone: GuidingCone, wo: wp.vec3, r: wp.vec3
) -> BsdfSample:
    """Sample the continuation of a path by the BSDF of a surface other than glass, in the world frame.

    Directions below the geometric surface are marked invalid.

    Args:
        shading_point: the surface point with normals facing the viewer.
        albedo: GGX albedo tables.
        basis: rotation from the shading frame to the world.
        cone: guiding cone of the diffuse lobe.
        wo: outgoing direction in the shading frame.
        r: three uniform random numbers.
    """
    sample = sample_bsdf(
        shading_point,
        albedo,
        specular_probability(shading_point, albedo, wo[2]),
        clearcoat_probability(shading_point, albedo, wo[2]),
        cone,
        wo,
        r,
    )
    sample.direction = basis * sample.direction
    if wp.dot(sample.direction, shading_point.normal) <= 0.0:
        sample.valid = 0
    return sample


@wp.func
def russian_roulette(throughput: wp.vec3, r: float) -> wp.vec3:
    """Throughput after Russian roulette: zero, or divided by the survival probability (its maximum, 0.05 to 0.95)."""
    survival = wp.clamp(wp.max(throughput), 0.05, 0.95)
    return wp.where(r > survival, wp.vec3(0.0, 0.0, 0.0), throughput / survival)


@wp.func
def record_first_hit(film: Film, pixel: int, shading_point: ShadingPoint, distance: float) -> None:
    """Add normal, distance and count of the first hit of a path to the film."""
    film.normal[pixel] = film.normal[pixel] + shading_point.shading_normal
    film.depth[pixel] = film.depth[pixel] + distance
    film.n_hits[pixel] = film.n_hits[pixel] + 1.0


@wp.func
def accumulate_sample(film: Film, pixel: int, radiance: wp.vec3, albedo: wp.vec3) -> None:
    """Add the radiance of a finished path and the albedo of its first hit to the film."""
    film.radiance[pixel] = film.radiance[pixel] + radiance
    film.color[pixel] = film.color[pixel] + albedo


@cache
def path_tracing_function(features: KernelFeatures) -> wp.Function:
    """Return the Warp function that path-traces one pixel and accumulates radiance, albedo and normal on the film.

    Unidirectional path tracing with direct lighting, BSDF sampling, guiding towards glass and Russian roulette;
    compiled for the features that occur in the scene.
    """
    closest_hit, _ = ray_query_functions(features)
    evaluate_shading_point, direct_lighting = shading_point_function(features), direct_lighting_function(features)

    @wp.func
    def trace_pixel(
        cameras: CameraArrays,
        bodies: Bodies,
        surfaces: Surfaces,
        lights: Lights,
        albedo: AlbedoTables,
        settings: PathSettings,
        film: Film,
        pixel: Pixel,
    ) -> None:
        """Trace `settings.n_samples` paths through one pixel and accumulate them on the film.

        A new path starts in the iteration after the previous one ends (path regeneration), so that the threads of a
        warp stay busy. Transparent surfaces are passed through stochastically; glass is refracted; other surfaces
        collect direct lighting and scatter by BSDF sampling, with Russian roulette after `settings.roulette_start`
        bounces.
        """
        clip = cameras.clip_range[pixel.env % cameras.clip_range.shape[0], pixel.camera]
        black = wp.vec3(0.0, 0.0, 0.0)
        white = wp.vec3(1.0, 1.0, 1.0)
        sequence = SampleSequence()
        time = float(1.0)
        origin = wp.vec3(0.0, 0.0, 0.0)
        direction = wp.vec3(0.0, 0.0, 0.0)
        radiance = wp.vec3(0.0, 0.0, 0.0)
        throughput = wp.vec3(0.0, 0.0, 0.0)
        first_albedo = wp.vec3(1.0, 1.0, 1.0)
        pdf = float(0.0)
        bounce = int(0)
        n_segments = int(0)
        recorded = int(0)
        n_scatters = int(0)
        n_interfaces = int(0)
        sample = int(0)
        while sample < settings.n_samples:
            if n_segments == 0:
                sequence = make_sample_sequence(settings.seed, pixel.index, settings.first_sample + sample)
                ray = sample_camera_ray(cameras, settings, sequence, pixel)
                if bodies.motion_blur == 1:
                    time = sample_1d(settings.generator, sequence, DIM_TIME)
                direction = ray.direction
                origin = ray.origin + clip[0] * direction
                radiance = black
                first_albedo = white
                throughput = white * float(ray.valid)
                pdf = 0.0
                bounce = 0
                recorded = 0
                n_scatters = 0
                n_interfaces = 0
            n_segments += 1
            if wp.max(throughput) > 0.0:
                hit = closest_hit(bodies, pixel.env, time, origin, direction, 1.0e30)
                if hit.body < 0:
                    radiance += clamp_indirect(
                        wp.cw_mul(throughput, environment_radiance(lights, direction)), bounce, settings.indirect_clamp
                    )
                    recorded = 1
                    throughput = black
                else:
                    shading_point = evaluate_shading_point(bodies, surfaces, pixel.env, time, origin, direction, hit)
                    scattered = BsdfSample()
                    r_transparency = float(0.0)
                    if shading_point.opacity < 1.0:
                        r_transparency = sample_1d(settings.generator, sequence, roulette_dimension(2 * n_segments))
                    if r_transparency >= shading_point.opacity:  # transparent: continue the ray
                        origin = (
                            shading_point.position
                            + (RAY_OFFSET * (1.0 + wp.length(shading_point.position))) * direction
                        )
                    else:
                        emitted = emitted_radiance_mis(
                            lights, shading_point, direction, hit.t, hit_instance(bodies, hit), pdf
                        )
                        radiance += clamp_indirect(wp.cw_mul(throughput, emitted), bounce, settings.indirect_clamp)
                        if recorded == 0 and shading_point.ior == 0.0:
                            recorded = 1
                            first_albedo = shading_point.color
                            record_first_hit(film, pixel.index, shading_point, hit.t)
                        if shading_point.ior > 0.0:
                            scattered = sample_glass(
                                shading_point,
                                direction,
                                sample_1d(settings.generator, sequence, glass_dimension(n_interfaces)),
                            )
                            n_interfaces += 1
                        else:
                            shading_point = flip_normals_to_viewer(shading_point, direction)
                            basis = orthonormal_basis(shading_point.shading_normal)
                            wo = wp.transpose(basis) * (-direction)
                            dimension = scatter_dimension(n_scatters)
                            cone = GuidingCone()
                            if n_scatters < MAX_GUIDED_SCATTERS and lights.glass_bodies.shape[0] > 0:
                                r_cone = sample_1d(settings.generator, sequence, dimension + DIM_GUIDING)
                                cone = glass_guiding_cone(bodies, lights, pixel.env, shading_point, basis, r_cone)
                            if bounce < settings.max_bounces:
                                r_light = sample_3d_if(
                                    lights.kind.shape[0] > 0, settings, sequence, dimension + DIM_LIGHT
                                )
                                r_emitter = sample_3d_if(
                                    lights.emitter_power > 0.0, settings, sequence, dimension + DIM_EMITTER
                                )
                                direct = direct_lighting(
                                    bodies,
                                    lights,
                                    albedo,
                                    pixel.env,
                                    time,
                                    shading_point,
                                    basis,
                                    cone,
                                    wo,
                                    r_light,
                                    r_emitter,
                                )
                                radiance += clamp_indirect(
                                    wp.cw_mul(throughput, direct), bounce, settings.indirect_clamp
                                )
                            r = sample_3d(settings.generator, sequence, dimension + DIM_BSDF)
                            scattered = sample_scattering(shading_point, albedo, basis, cone, wo, r)
                            n_scatters += 1
                        bounce += 1
                        throughput = wp.cw_mul(throughput, scattered.weight) * float(scattered.valid)
                        pdf = scattered.pdf
                        direction = scattered.direction
                        origin = offset_ray_origin(shading_point, direction)
                        if bounce > settings.roulette_start:
                            throughput = russian_roulette(
                                throughput,
                                sample_1d(settings.generator, sequence, roulette_dimension(2 * n_segments + 1)),
                            )
            if wp.max(throughput) <= 0.0 or bounce > settings.max_bounces or n_segments >= settings.max_bounces + 16:
                accumulate_sample(film, pixel.index, radiance, first_albedo)
                sample += 1
                n_segments = 0

    return trace_pixel


@cache
def path_tracing_kernel(features: KernelFeatures, *, max_registers: int = 128, fast_math: bool = True) -> wp.Kernel:
    """Warp kernel that path-traces a range of pixels, compiled for the features that occur in the scene.

    Arguments as for `specialized_kernel`.
    """
    trace_pixel = path_tracing_function(features)

    @specialised_kernel(max_registers, fast_math=fast_math)
    def trace_paths(
        begin: int,
        end: int,
        items_per_thread: int,
        cameras: CameraArrays,
        bodies: Bodies,
        surfaces: Surfaces,
        lights: Lights,
        albedo: AlbedoTables,
        settings: PathSettings,
        film: Film,
    ) -> None:
        """Trace the paths of pixels `begin` to `end`, `items_per_thread` per thread."""
        start = begin + items_per_thread * wp.tid()
        for i in range(start, wp.min(start + items_per_thread, end)):
            trace_pixel(cameras, bodies, surfaces, lights, albedo, settings, film, pixel_of_thread(cameras, i))

    return trace_paths
