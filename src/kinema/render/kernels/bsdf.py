"""BSDF evaluation and importance sampling: diffuse base, GGX specular, metal, clearcoat and smooth glass.

GGX microfacets with alpha = roughness squared, Smith masking and Schlick's Fresnel approximation. Energy is conserved
by tabulated directional albedos: the diffuse base receives what the specular layer transmits, and multiple scattering
between the microfacets of metal is compensated.
"""

from __future__ import annotations

import warp as wp

from .structs import ShadingPoint

CLEARCOAT_F0 = wp.constant(0.04)
"""Reflectance of the clearcoat at normal incidence."""


@wp.struct
class AlbedoTables:
    """Tabulated albedo of GGX reflection, as coefficients (a, b) of a F0 + b."""

    directional: wp.array2d[wp.vec2]
    """Directional albedo by roughness and cosine, shape (n, n)."""
    mean: wp.array[wp.vec2]
    """Cosine-weighted hemispherical mean of the directional albedo by roughness, shape (n,)."""


@wp.struct
class GuidingCone:
    """A cone of directions sampled in addition to the cosine distribution of the diffuse base (path guiding)."""

    axis: wp.vec3
    """Axis in the shading frame."""
    one_minus_cosine: float
    """One minus the cosine of the half angle."""
    probability: float
    """Probability of sampling the cone; 0 for none."""


@wp.struct
class BsdfSample:
    """A sampled incident direction."""

    direction: wp.vec3
    weight: wp.vec3
    """BSDF times cosine over the probability density."""
    pdf: float
    """Probability density per solid angle; 0 for a delta distribution (smooth glass)."""
    valid: int
    """0 if no direction was found."""


@wp.func
def orthonormal_basis(normal: wp.vec3) -> wp.mat33:
    """Rotation matrix that maps z to the unit vector `normal` (Duff et al.)."""
    sign = wp.where(normal[2] >= 0.0, 1.0, -1.0)
    a = -1.0 / (sign + normal[2])
    b = normal[0] * normal[1] * a
    x = wp.vec3(1.0 + sign * normal[0] * normal[0] * a, sign * b, -sign * normal[0])
    y = wp.vec3(b, sign + normal[1] * normal[1] * a, -normal[1])
    return wp.matrix_from_cols(x, y, normal)


@wp.func
def luminance(color: wp.vec3) -> float:
    return 0.2126 * color[0] + 0.7152 * color[1] + 0.0722 * color[2]


@wp.func
def directional_albedo(albedo: AlbedoTables, roughness: float, cosine: float) -> wp.vec2:
    """Coefficients (a, b) of the GGX directional albedo a F0 + b, bilinearly interpolated in roughness and cosine."""
    n = albedo.directional.shape[0]
    x = wp.clamp(roughness, 0.0, 1.0) * float(n - 1)
    y = wp.clamp(cosine, 0.0, 1.0) * float(n - 1)
    i = wp.min(int(x), n - 2)
    j = wp.min(int(y), n - 2)
    a = x - float(i)
    b = y - float(j)
    low = wp.lerp(albedo.directional[i, j], albedo.directional[i, j + 1], b)
    high = wp.lerp(albedo.directional[i + 1, j], albedo.directional[i + 1, j + 1], b)
    return wp.lerp(low, high, a)


@wp.func
def mean_albedo(albedo: AlbedoTables, roughness: float) -> wp.vec2:
    n = albedo.mean.shape[0]
    x = wp.clamp(roughness, 0.0, 1.0) * float(n - 1)
    i = wp.min(int(x), n - 2)
    return wp.lerp(albedo.mean[i], albedo.mean[i + 1], x - float(i))


@wp.func
def ggx_alpha(roughness: float) -> float:
    return wp.max(roughness * roughness, 0.001)


@wp.func
def ggx_distribution(alpha: float, h: wp.vec3) -> float:
    """GGX normal distribution D(h) with h in the shading frame."""
    a2 = alpha * alpha
    t = h[2] * h[2] * (a2 - 1.0) + 1.0
    return a2 / (wp.pi * t * t)


@wp.func
def smith_masking(alpha: float, cosine: float) -> float:
    """Smith masking function G1 of GGX for a direction with the given cosine."""
    c2 = cosine * cosine
    return 2.0 * cosine / (cosine + wp.sqrt(alpha * alpha * (1.0 - c2) + c2))


@wp.func
def schlick_weight(cosine: float) -> float:
    """Schlick's Fresnel weight (1 - cosine)^5, clamped to avoid a negative base by rounding."""
    x = wp.max(1.0 - cosine, 0.0)
    x2 = x * x
    return x2 * x2 * x


@wp.func
def dielectric_f0(shading_point: ShadingPoint) -> float:
    """Reflectance of the dielectric specular layer at normal incidence."""
    return 0.08 * shading_point.specular


@wp.func
def specular_probability(shading_point: ShadingPoint, albedo: AlbedoTables, cosine: float) -> float:
    """Probability of sampling the specular lobe rather than the diffuse base, by their estimated albedos.

    0 without specular reflection; otherwise clamped to 0.1 to 0.9, or up to 1 without a diffuse base.
    """
    energy = directional_albedo(albedo, shading_point.roughness, cosine)
    f0 = dielectric_f0(shading_point)
    specular = 0.0
    if f0 > 0.0:
        specular = f0 * energy[0] + energy[1]
    specular = shading_point.metallic + (1.0 - shading_point.metallic) * specular
    base = (1.0 - shading_point.metallic) * luminance(shading_point.color)
    probability = float(0.0)
    if specular > 0.0:
        probability = wp.clamp(specular / (specular + base), 0.1, 1.0)
        if base > 0.0:
            probability = wp.min(probability, 0.9)
    return probability


@wp.func
def clearcoat_albedo(shading_point: ShadingPoint, albedo: AlbedoTables, cosine: float) -> float:
    """Directional albedo of the clearcoat, i.e. the fraction of light that does not reach the layers below."""
    energy = directional_albedo(albedo, shading_point.clearcoat_roughness, cosine)
    return shading_point.clearcoat * (CLEARCOAT_F0 * energy[0] + energy[1])


@wp.func
def clearcoat_probability(shading_point: ShadingPoint, albedo: AlbedoTables, cosine: float) -> float:
    """Probability of sampling the clearcoat lobe; 0 without clearcoat, else clamped to 0.1 to 0.9."""
    probability = float(0.0)
    if shading_point.clearcoat > 0.0:
        probability = wp.clamp(clearcoat_albedo(shading_point, albedo, cosine), 0.1, 0.9)
    return probability


@wp.func
def evaluate_bsdf(shading_point: ShadingPoint, albedo: AlbedoTables, wo: wp.vec3, wi: wp.vec3) -> wp.vec3:
    """BSDF times cosine of `wi` including clearcoat; `wo` and `wi` are in the upper hemisphere of the shading frame."""
    result = evaluate_base_bsdf(shading_point, albedo, wo, wi)
    if shading_point.clearcoat > 0.0:
        alpha = ggx_alpha(shading_point.clearcoat_roughness)
        h = wp.normalize(wo + wi)
        fresnel = CLEARCOAT_F0 + (1.0 - CLEARCOAT_F0) * schlick_weight(wp.max(wp.dot(wo, h), 0.0))
        specular = (
            ggx_distribution(alpha, h) * smith_masking(alpha, wo[2]) * smith_masking(alpha, wi[2]) / (4.0 * wo[2])
        )
        coat = shading_point.clearcoat * fresnel * specular
        result = (1.0 - clearcoat_albedo(shading_point, albedo, wo[2])) * result + wp.vec3(coat, coat, coat)
    return result


@wp.func
def evaluate_base_bsdf(shading_point: ShadingPoint, albedo: AlbedoTables, wo: wp.vec3, wi: wp.vec3) -> wp.vec3:
    """BSDF times cosine of `wi` without clearcoat: GGX metal or dielectric specular over a diffuse base.

    Metal has multiple-scattering compensation; the diffuse base is scaled by the transmission of the specular layer in
    both directions. `wo` and `wi` are in the upper hemisphere of the shading frame.
    """
    alpha = ggx_alpha(shading_point.roughness)
    h = wp.normalize(wo + wi)
    cos_half = wp.max(wp.dot(wo, h), 0.0)
    fresnel = schlick_weight(cos_half)
    specular = (
        ggx_distribution(alpha, h) * smith_masking(alpha, wo[2]) * smith_masking(alpha, wi[2]) / (4.0 * wo[2] * wi[2])
    )
    albedo_out = directional_albedo(albedo, shading_point.roughness, wo[2])
    white = wp.vec3(1.0, 1.0, 1.0)
    metal = shading_point.color + (white - shading_point.color) * fresnel
    metal = wp.cw_mul(metal, white + shading_point.color * (1.0 / wp.max(albedo_out[0] + albedo_out[1], 0.1) - 1.0))
    f0 = dielectric_f0(shading_point)
    dielectric = float(0.0)
    base = shading_point.color / wp.pi
    if f0 > 0.0:
        dielectric = f0 + (1.0 - f0) * fresnel
        albedo_in = directional_albedo(albedo, shading_point.roughness, wi[2])
        mean = mean_albedo(albedo, shading_point.roughness)
        transmission = (
            (1.0 - f0 * albedo_out[0] - albedo_out[1])
            * (1.0 - f0 * albedo_in[0] - albedo_in[1])
            / (1.0 - f0 * mean[0] - mean[1])
        )
        base = base * transmission
    metallic = shading_point.metallic
    return wi[2] * (specular * (metallic * metal + (1.0 - metallic) * dielectric * white) + (1.0 - metallic) * base)


@wp.func
def diffuse_pdf(cone: GuidingCone, wi: wp.vec3) -> float:
    """Probability density per solid angle of `sample_diffuse_direction`: mixture of cosine and guiding cone."""
    result = (1.0 - cone.probability) * wi[2] / wp.pi
    if cone.probability > 0.0 and wp.dot(cone.axis, wi) >= 1.0 - cone.one_minus_cosine:
        result += cone.probability / (2.0 * wp.pi * cone.one_minus_cosine)
    return result


@wp.func
def bsdf_pdf(
    shading_point: ShadingPoint,
    prob_specular: float,
    prob_clearcoat: float,
    cone: GuidingCone,
    wo: wp.vec3,
    wi: wp.vec3,
) -> float:
    """Probability density per solid angle of `sample_bsdf` for the direction `wi`: mixture of all lobes."""
    alpha = ggx_alpha(shading_point.roughness)
    h = wp.normalize(wo + wi)
    specular_pdf = ggx_distribution(alpha, h) * smith_masking(alpha, wo[2]) / (4.0 * wo[2])
    result = prob_specular * specular_pdf + (1.0 - prob_specular) * diffuse_pdf(cone, wi)
    if prob_clearcoat > 0.0:
        alpha = ggx_alpha(shading_point.clearcoat_roughness)
        specular_pdf = ggx_distribution(alpha, h) * smith_masking(alpha, wo[2]) / (4.0 * wo[2])
        result = prob_clearcoat * specular_pdf + (1.0 - prob_clearcoat) * result
    return result


@wp.func
def sample_visible_normal(alpha: float, wo: wp.vec3, r1: float, r2: float) -> wp.vec3:
    """Sample a microfacet normal from the GGX distribution of visible normals for `wo` (Heitz 2018)."""
    v = wp.normalize(wp.vec3(alpha * wo[0], alpha * wo[1], wo[2]))
    t1 = wp.vec3(1.0, 0.0, 0.0)
    length = v[0] * v[0] + v[1] * v[1]
    if length > 1.0e-12:
        t1 = wp.vec3(-v[1], v[0], 0.0) / wp.sqrt(length)
    t2 = wp.cross(v, t1)
    radius = wp.sqrt(r1)
    angle = 2.0 * wp.pi * r2
    a = radius * wp.cos(angle)
    b = radius * wp.sin(angle)
    s = 0.5 * (1.0 + v[2])
    b = (1.0 - s) * wp.sqrt(wp.max(1.0 - a * a, 0.0)) + s * b
    n = a * t1 + b * t2 + wp.sqrt(wp.max(1.0 - a * a - b * b, 0.0)) * v
    return wp.normalize(wp.vec3(alpha * n[0], alpha * n[1], wp.max(n[2], 1.0e-6)))


@wp.func
def sample_diffuse_direction(cone: GuidingCone, r0: float, r1: float, r2: float) -> wp.vec3:
    """Sample a direction from the guiding cone (with its probability) or else from the cosine distribution."""
    in_cone = r0 < cone.probability
    height = wp.where(in_cone, 1.0 - r1 * cone.one_minus_cosine, wp.sqrt(wp.max(1.0 - r1, 0.0)))
    radius = wp.sqrt(wp.max(1.0 - height * height, 0.0))
    angle = 2.0 * wp.pi * r2
    wi = wp.vec3(radius * wp.cos(angle), radius * wp.sin(angle), height)
    if in_cone:
        wi = orthonormal_basis(cone.axis) * wi
    return wi


@wp.func
def sample_bsdf(
    shading_point: ShadingPoint,
    albedo: AlbedoTables,
    prob_specular: float,
    prob_clearcoat: float,
    cone: GuidingCone,
    wo: wp.vec3,
    r: wp.vec3,
) -> BsdfSample:
    """Sample an incident direction from the clearcoat, specular or diffuse lobe, in the shading frame.

    Args:
        shading_point: material parameters.
        albedo: GGX albedo tables.
        prob_specular: probability of the specular lobe below the clearcoat.
        prob_clearcoat: probability of the clearcoat lobe.
        cone: guiding cone of the diffuse lobe.
        wo: outgoing direction in the shading frame.
        r: three uniform random numbers; the first selects the lobe.
    """
    wi = wp.vec3(0.0, 0.0, 0.0)
    facet_fraction = prob_clearcoat + (1.0 - prob_clearcoat) * prob_specular
    if r[0] < facet_fraction:
        roughness = shading_point.roughness
        if r[0] < prob_clearcoat:
            roughness = shading_point.clearcoat_roughness
        h = sample_visible_normal(ggx_alpha(roughness), wo, r[1], r[2])
        wi = 2.0 * wp.dot(wo, h) * h - wo
    else:
        wi = sample_diffuse_direction(cone, (r[0] - facet_fraction) / (1.0 - facet_fraction), r[1], r[2])
    result = BsdfSample()
    result.valid = 0
    if wi[2] > 1.0e-6:
        result.pdf = bsdf_pdf(shading_point, prob_specular, prob_clearcoat, cone, wo, wi)
        if result.pdf > 1.0e-12:
            result.valid = 1
            result.direction = wi
            result.weight = evaluate_bsdf(shading_point, albedo, wo, wi) / result.pdf
    return result


@wp.func
def fresnel_dielectric(cosine: float, ior_ratio: float) -> float:
    """Fresnel reflectance of a dielectric interface; 1 for total internal reflection.

    Args:
        cosine: cosine of the angle of incidence.
        ior_ratio: index of refraction behind over in front of the surface.
    """
    s2 = (1.0 - cosine * cosine) / (ior_ratio * ior_ratio)
    result = float(1.0)
    if s2 < 1.0:
        cos_transmitted = wp.sqrt(1.0 - s2)
        a = (cosine - ior_ratio * cos_transmitted) / (cosine + ior_ratio * cos_transmitted)
        b = (ior_ratio * cosine - cos_transmitted) / (ior_ratio * cosine + cos_transmitted)
        result = 0.5 * (a * a + b * b)
    return result


@wp.func
def sample_glass(shading_point: ShadingPoint, direction: wp.vec3, uniform: float) -> BsdfSample:
    """Sample reflection or refraction of a ray at smooth glass (delta lobes), in the world frame.

    The ray is reflected if a uniform random number is below the Fresnel reflectance, else refracted with the colour as
    throughput weight.

    Args:
        shading_point: normals, colour and index of refraction at the hit.
        direction: unit direction of the incoming ray, towards the surface.
        uniform: uniform random number in [0, 1).
    """
    n = shading_point.shading_normal
    ratio = shading_point.ior
    if wp.dot(shading_point.normal, direction) > 0.0:
        n = -n
        ratio = 1.0 / ratio
    cosine = wp.clamp(-wp.dot(n, direction), 0.0, 1.0)
    result = BsdfSample()
    result.valid = 1
    result.pdf = 0.0
    result.weight = wp.vec3(1.0, 1.0, 1.0)
    if uniform < fresnel_dielectric(cosine, ratio):
        result.direction = wp.normalize(direction + 2.0 * cosine * n)
    else:
        cos_transmitted = wp.sqrt(wp.max(1.0 - (1.0 - cosine * cosine) / (ratio * ratio), 0.0))
        result.direction = wp.normalize(direction / ratio + (cosine / ratio - cos_transmitted) * n)
        result.weight = shading_point.color
    return result
