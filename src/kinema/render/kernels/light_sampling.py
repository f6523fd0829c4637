"""Direct lighting: sampling of lights and emissive triangles with multiple importance sampling, and the environment.

Emissive triangles are found both by light sampling and by BSDF sampling, combined with the power heuristic. Diffuse
scattering may be guided towards glass bodies, through which emitters are visible (caustics).
"""

from __future__ import annotations

from functools import cache

import warp as wp

from ..kernel_launch import KernelFeatures
from .bsdf import (
    AlbedoTables,
    GuidingCone,
    bsdf_pdf,
    clearcoat_probability,
    evaluate_bsdf,
    luminance,
    orthonormal_basis,
    specular_probability,
)
from .intersection import body_position, body_rotation, ray_query_functions
from .structs import DIRECTIONAL_LIGHT, RAY_OFFSET, SPOT_LIGHT, Bodies, Lights, ShadingPoint

GUIDING_PROBABILITY = wp.constant(0.35)
"""Probability of sampling the guiding cone of a glass body."""
MAX_GUIDED_SCATTERS = wp.constant(1)
"""Number of scattering events of a path that are guided; guiding later ones costs more time than it saves."""


@wp.func
def environment_radiance(lights: Lights, direction: wp.vec3) -> wp.vec3:
    """Radiance of the environment map, or of the sky gradient without a map, in a world direction."""
    result = wp.lerp(lights.horizon, lights.zenith, wp.sqrt(wp.max(direction[2], 0.0)))
    if direction[2] < 0.0:
        result = wp.lerp(lights.horizon, lights.ground, wp.min(1.0, -4.0 * direction[2]))
    if lights.environment_map.shape[0] > 0:
        rows = lights.environment_map.shape[0]
        columns = lights.environment_map.shape[1]
        x = int((0.5 - wp.atan2(direction[1], direction[0]) / (2.0 * wp.pi)) * float(columns))
        y = int(wp.acos(wp.clamp(direction[2], -1.0, 1.0)) / wp.pi * float(rows))
        result = lights.environment_map[wp.clamp(y, 0, rows - 1), wp.clamp(x, 0, columns - 1)]
    return result


@wp.func
def offset_ray_origin(shading_point: ShadingPoint, direction: wp.vec3) -> wp.vec3:
    """Origin of a ray leaving a surface, offset along the geometric normal to avoid self-intersection."""
    side = wp.where(wp.dot(shading_point.normal, direction) >= 0.0, 1.0, -1.0)
    return shading_point.position + side * RAY_OFFSET * (1.0 + wp.length(shading_point.position)) * shading_point.normal


@wp.func
def glass_guiding_cone(
    bodies: Bodies, lights: Lights, env: int, shading_point: ShadingPoint, basis: wp.mat33, r: float
) -> GuidingCone:
    """Guiding cone (in the shading frame) around the bounding sphere of a glass body chosen by `r` in [0, 1).

    The probability is 0 if the sphere subtends a very small or large solid angle or lies behind the surface.
    """
    cone = GuidingCone()
    n = lights.glass_bodies.shape[0]
    if n > 0:
        sphere = bodies.bounding_sphere[env, lights.glass_bodies[wp.min(int(r * float(n)), n - 1)]]
        offset = wp.vec3(sphere[0], sphere[1], sphere[2]) - shading_point.position
        sine2 = sphere[3] * sphere[3] / wp.max(wp.dot(offset, offset), 1.0e-12)
        if sine2 > 1.0e-4 and sine2 < 0.75:
            cone.axis = wp.transpose(basis) * wp.normalize(offset)
            cone.one_minus_cosine = sine2 / (1.0 + wp.sqrt(1.0 - sine2))
            if cone.axis[2] > -wp.sqrt(sine2):  # at least partly in front of the surface
                cone.probability = GUIDING_PROBABILITY
    return cone


@wp.struct
class ShadowRay:
    """A light sample with the shadow ray that tests its visibility."""

    direction: wp.vec3
    origin: wp.vec3
    max_distance: float
    """Distance to the light; only nearer hits occlude."""
    radiance: wp.vec3
    """Reflected radiance if unoccluded, over the sampling density; zero for no contribution."""
    casts_shadow: int
    """0 to skip the occlusion test."""


@wp.func
def sample_light(
    lights: Lights,
    albedo: AlbedoTables,
    env: int,
    shading_point: ShadingPoint,
    basis: wp.mat33,
    wo: wp.vec3,
    r: wp.vec3,
) -> ShadowRay:
    """Sample a point on one light source; returns the shadow ray with the reflected radiance over the probability.

    The light is chosen uniformly. Lights are discs of `lights.radius`, so that shadows are soft.

    Args:
        lights: all lights.
        albedo: GGX albedo tables.
        env: environment.
        shading_point: the lit surface point.
        basis: rotation from the shading frame to the world.
        wo: outgoing direction in the shading frame.
        r: three uniform random numbers.
    """
    n_lights = lights.kind.shape[0]
    k = wp.min(int(r[0] * float(n_lights)), n_lights - 1)
    # a point on the disc of the source; for directional lights, of its angular disc
    radius = lights.radius[k] * wp.sqrt(r[1])
    angle = 2.0 * wp.pi * r[2]
    disc = wp.vec3(radius * wp.cos(angle), radius * wp.sin(angle), 0.0)
    distance = float(1.0e30)
    attenuation = float(1.0)
    direction = -lights.direction[k, env]
    if lights.kind[k] == DIRECTIONAL_LIGHT:
        direction = wp.normalize(direction + orthonormal_basis(direction) * disc)
    else:
        offset = lights.position[k, env] - shading_point.position
        direction = wp.normalize(offset)
        offset = offset + orthonormal_basis(direction) * disc
        distance = wp.length(offset)
        direction = offset / wp.max(distance, 1.0e-9)
        falloff = lights.falloff[k]
        attenuation = 1.0 / wp.max(falloff[0] + distance * (falloff[1] + distance * falloff[2]), 1.0e-6)
        if lights.kind[k] == SPOT_LIGHT:
            cosine = -wp.dot(direction, lights.direction[k, env])
            attenuation = wp.where(
                cosine < lights.cone[k][0], 0.0, attenuation * wp.pow(wp.max(cosine, 1.0e-6), lights.cone[k][1])
            )
    wi = wp.transpose(basis) * direction
    shadow_ray = ShadowRay()
    if (
        wi[2] > 0.0
        and attenuation > 0.0
        and wp.dot(direction, shading_point.normal) * wp.dot(basis * wo, shading_point.normal) > 0.0
    ):
        incident = wp.pi * attenuation * float(n_lights) * lights.color[env % lights.color.shape[0], k]
        shadow_ray.radiance = wp.cw_mul(incident, evaluate_bsdf(shading_point, albedo, wo, wi))
        shadow_ray.direction = direction
        shadow_ray.origin = offset_ray_origin(shading_point, direction)
        shadow_ray.max_distance = distance
        shadow_ray.casts_shadow = lights.casts_shadow[k]
    return shadow_ray


@wp.func
def sample_emitter(
    bodies: Bodies,
    lights: Lights,
    albedo: AlbedoTables,
    env: int,
    time: float,
    shading_point: ShadingPoint,
    basis: wp.mat33,
    cone: GuidingCone,
    wo: wp.vec3,
    r: wp.vec3,
) -> ShadowRay:
    """Sample a point on an emissive triangle; returns the shadow ray with the MIS-weighted reflected radiance.

    The triangle is chosen by power, the point uniformly. Emission is one-sided. The power heuristic weighs the density
    against that of BSDF sampling (`emitted_radiance_mis`).

    Args:
        bodies: poses of the emitting bodies.
        lights: emissive triangles.
        albedo: GGX albedo tables.
        env: environment.
        time: time within the shutter interval.
        shading_point: the lit surface point.
        basis: rotation from the shading frame to the world.
        cone: guiding cone of the diffuse lobe.
        wo: outgoing direction in the shading frame.
        r: three uniform random numbers.
    """
    k = wp.lower_bound(lights.emitter_cdf, r[0])
    k = wp.min(k, lights.emitter_cdf.shape[0] - 1)
    b = lights.emitter_body[k]
    s = wp.sqrt(r[1])
    local = lights.emitter_corner[k] + (1.0 - s) * lights.emitter_edge1[k] + (r[2] * s) * lights.emitter_edge2[k]
    q = body_rotation(bodies, b, env, time)
    point = body_position(bodies, b, env, time) + wp.quat_rotate(q, local)
    normal = wp.normalize(wp.quat_rotate(q, wp.cross(lights.emitter_edge1[k], lights.emitter_edge2[k])))
    offset = point - shading_point.position
    distance = wp.length(offset)
    direction = offset / wp.max(distance, 1.0e-9)
    cos_emitter = -wp.dot(normal, direction)  # one-sided emission
    wi = wp.transpose(basis) * direction
    shadow_ray = ShadowRay()
    if (
        wi[2] > 0.0
        and cos_emitter > 1.0e-6
        and wp.dot(direction, shading_point.normal) * wp.dot(basis * wo, shading_point.normal) > 0.0
    ):
        emitted = lights.emitter_emission[k]
        pdf = luminance(emitted) / lights.emitter_power * distance * distance / cos_emitter
        bsdf_density = bsdf_pdf(
            shading_point,
            specular_probability(shading_point, albedo, wo[2]),
            clearcoat_probability(shading_point, albedo, wo[2]),
            cone,
            wo,
            wi,
        )
        weight = pdf * pdf / (pdf * pdf + bsdf_density * bsdf_density)
        shadow_ray.radiance = wp.cw_mul(emitted, evaluate_bsdf(shading_point, albedo, wo, wi)) * (weight / pdf)
        shadow_ray.direction = direction
        shadow_ray.origin = offset_ray_origin(shading_point, direction)
        shadow_ray.max_distance = wp.length(point - shadow_ray.origin) * (1.0 - 1.0e-3)
        shadow_ray.casts_shadow = 1
    return shadow_ray


@wp.func
def emitted_radiance_mis(
    lights: Lights, shading_point: ShadingPoint, direction: wp.vec3, distance: float, instance: int, pdf: float
) -> wp.vec3:
    """Radiance emitted by a surface hit by BSDF sampling, weighted by the power heuristic against light sampling.

    Args:
        lights: emissive triangles.
        shading_point: the emitting surface point.
        direction: direction of the ray.
        distance: length of the ray [m].
        instance: instance of the surface.
        pdf: BSDF sampling density of the ray; 0 for camera rays and delta lobes, which get the full weight.
    """
    weight = float(1.0)
    cos_emitter = -wp.dot(shading_point.normal, direction)
    if cos_emitter <= 0.0:
        weight = 0.0
    elif pdf > 0.0 and lights.is_emitter[instance] == 1:
        light_density = (
            luminance(shading_point.emission) / lights.emitter_power * distance * distance / wp.max(cos_emitter, 1.0e-6)
        )
        weight = pdf * pdf / (pdf * pdf + light_density * light_density)
    return weight * shading_point.emission


@cache
def direct_lighting_function(features: KernelFeatures) -> wp.Function:
    """Return the Warp function of direct lighting: sampled radiance of one light and one emissive triangle.

    Visibility is tested by shadow rays. Compiled for the features that occur in the scene.
    """
    _, any_hit = ray_query_functions(features)

    @wp.func
    def direct_lighting(
        bodies: Bodies,
        lights: Lights,
        albedo: AlbedoTables,
        env: int,
        time: float,
        shading_point: ShadingPoint,
        basis: wp.mat33,
        cone: GuidingCone,
        wo: wp.vec3,
        r_light: wp.vec3,
        r_emitter: wp.vec3,
    ) -> wp.vec3:
        """Reflected radiance from one sampled light and one sampled emissive triangle, with shadow rays.

        `r_light` and `r_emitter` are three uniform random numbers each; other arguments as in `sample_emitter`.
        """
        result = wp.vec3(0.0, 0.0, 0.0)
        source = int(0)
        while source < 2:  # a single call site of the shadow-ray query for both
            shadow_ray = ShadowRay()
            if source == 0 and lights.kind.shape[0] > 0:
                shadow_ray = sample_light(lights, albedo, env, shading_point, basis, wo, r_light)
            elif source == 1 and lights.emitter_power > 0.0:  # noqa: SIM102  # the inner condition is static
                if wp.static(features.emitters):
                    shadow_ray = sample_emitter(
                        bodies, lights, albedo, env, time, shading_point, basis, cone, wo, r_emitter
                    )
            if wp.max(shadow_ray.radiance) > 0.0:
                occluded = bool(False)
                if shadow_ray.casts_shadow == 1:
                    occluded = any_hit(
                        bodies, env, time, shadow_ray.origin, shadow_ray.direction, shadow_ray.max_distance
                    )
                if not occluded:
                    result += shadow_ray.radiance
            source += 1
        return result

    return direct_lighting
