"""How surfaces scatter light: a diffuse base under a clear rough coat, rough metal, blends of both, varnish on top.

Roughness squared is the width of the microfacets (GGX); Fresnel's law is Schlick's. What the coat of the base reflects
does not reach the base, and what facets of metal throw at each other comes back out, so that energy is conserved: a
table holds how much light facets reflect of a direction.
"""

from __future__ import annotations

import warp as wp

from .records import Spot

VARNISH = wp.constant(0.04)
"""What varnish reflects straight on."""


@wp.struct
class Energy:
    """What facets reflect in all directions together."""

    table: wp.array2d[wp.vec2]
    """By roughness and cosine: the part that is multiplied by what is reflected straight on, and the rest."""
    mean: wp.array[wp.vec2]
    """On average over all directions, by roughness."""


@wp.struct
class Aim:
    """A cone of directions that the base also samples, in the frame of the normal."""

    axis: wp.vec3
    opening: float
    """One less the cosine of its half angle."""
    share: float
    """How often it is sampled rather than the cosine; 0 for never."""


@wp.struct
class Scatter:
    """One direction that light is taken from."""

    direction: wp.vec3
    weight: wp.vec3
    """How much of it arrives, over its density."""
    pdf: float
    """By solid angle; 0 where there is one direction only, or none."""
    valid: int


@wp.func
def frame(n: wp.vec3) -> wp.mat33:
    """A matrix that takes z to n."""
    sign = wp.where(n[2] >= 0.0, 1.0, -1.0)
    a = -1.0 / (sign + n[2])
    b = n[0] * n[1] * a
    x = wp.vec3(1.0 + sign * n[0] * n[0] * a, sign * b, -sign * n[0])
    y = wp.vec3(b, sign + n[1] * n[1] * a, -n[1])
    return wp.matrix_from_cols(x, y, n)


@wp.func
def brightness(c: wp.vec3) -> float:
    return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]


@wp.func
def reflected_energy(e: Energy, roughness: float, cosine: float) -> wp.vec2:
    n = e.table.shape[0]
    x = wp.clamp(roughness, 0.0, 1.0) * float(n - 1)
    y = wp.clamp(cosine, 0.0, 1.0) * float(n - 1)
    i = wp.min(int(x), n - 2)
    j = wp.min(int(y), n - 2)
    a = x - float(i)
    b = y - float(j)
    low = wp.lerp(e.table[i, j], e.table[i, j + 1], b)
    high = wp.lerp(e.table[i + 1, j], e.table[i + 1, j + 1], b)
    return wp.lerp(low, high, a)


@wp.func
def mean_energy(e: Energy, roughness: float) -> wp.vec2:
    n = e.mean.shape[0]
    x = wp.clamp(roughness, 0.0, 1.0) * float(n - 1)
    i = wp.min(int(x), n - 2)
    return wp.lerp(e.mean[i], e.mean[i + 1], x - float(i))


@wp.func
def width_of(roughness: float) -> float:
    return wp.max(roughness * roughness, 0.001)


@wp.func
def facets(alpha: float, h: wp.vec3) -> float:
    """GGX's density of facets."""
    a2 = alpha * alpha
    t = h[2] * h[2] * (a2 - 1.0) + 1.0
    return a2 / (wp.pi * t * t)


@wp.func
def unshadowed(alpha: float, cosine: float) -> float:
    """Smith's share of facets that are seen from a direction."""
    c2 = cosine * cosine
    return 2.0 * cosine / (cosine + wp.sqrt(alpha * alpha * (1.0 - c2) + c2))


@wp.func
def grazing(cosine: float) -> float:
    """Schlick's fifth power. The quick `pow` of a GPU gives no number where rounding makes its base negative."""
    x = wp.max(1.0 - cosine, 0.0)
    x2 = x * x
    return x2 * x2 * x


@wp.func
def coat_of(spot: Spot) -> float:
    """What the clear coat reflects straight on."""
    return 0.08 * spot.specular


@wp.func
def shine_share(spot: Spot, e: Energy, cosine: float) -> float:
    """How often facets are sampled rather than the base."""
    energy = reflected_energy(e, spot.roughness, cosine)
    coat = coat_of(spot)
    shine = 0.0
    if coat > 0.0:
        shine = coat * energy[0] + energy[1]
    shine = spot.metallic + (1.0 - spot.metallic) * shine
    base = (1.0 - spot.metallic) * brightness(spot.color)
    share = float(0.0)
    if shine > 0.0:
        share = wp.clamp(shine / (shine + base), 0.1, 1.0)
        if base > 0.0:
            share = wp.min(share, 0.9)
    return share


@wp.func
def varnish_reflects(spot: Spot, e: Energy, cosine: float) -> float:
    """What the varnish keeps from what is under it, in a direction."""
    energy = reflected_energy(e, spot.coat_roughness, cosine)
    return spot.coat * (VARNISH * energy[0] + energy[1])


@wp.func
def varnish_share(spot: Spot, e: Energy, cosine: float) -> float:
    """How often the facets of the varnish are sampled."""
    share = float(0.0)
    if spot.coat > 0.0:
        share = wp.clamp(varnish_reflects(spot, e, cosine), 0.1, 0.9)
    return share


@wp.func
def scattered(spot: Spot, e: Energy, o: wp.vec3, i: wp.vec3) -> wp.vec3:
    """What of the light from i goes to o, times the cosine; both in the frame of the normal and above it."""
    result = scattered_below(spot, e, o, i)
    if spot.coat > 0.0:
        alpha = width_of(spot.coat_roughness)
        h = wp.normalize(o + i)
        reflects = VARNISH + (1.0 - VARNISH) * grazing(wp.max(wp.dot(o, h), 0.0))
        mirror = facets(alpha, h) * unshadowed(alpha, o[2]) * unshadowed(alpha, i[2]) / (4.0 * o[2])
        top = spot.coat * reflects * mirror
        result = (1.0 - varnish_reflects(spot, e, o[2])) * result + wp.vec3(top, top, top)
    return result


@wp.func
def scattered_below(spot: Spot, e: Energy, o: wp.vec3, i: wp.vec3) -> wp.vec3:
    """Likewise, without varnish."""
    alpha = width_of(spot.roughness)
    h = wp.normalize(o + i)
    both = wp.max(wp.dot(o, h), 0.0)
    s = grazing(both)
    mirror = facets(alpha, h) * unshadowed(alpha, o[2]) * unshadowed(alpha, i[2]) / (4.0 * o[2] * i[2])
    out = reflected_energy(e, spot.roughness, o[2])
    white = wp.vec3(1.0, 1.0, 1.0)
    metal = spot.color + (white - spot.color) * s
    metal = wp.cw_mul(metal, white + spot.color * (1.0 / wp.max(out[0] + out[1], 0.1) - 1.0))
    coat = coat_of(spot)
    gloss = float(0.0)
    base = spot.color / wp.pi
    if coat > 0.0:
        gloss = coat + (1.0 - coat) * s
        into = reflected_energy(e, spot.roughness, i[2])
        mean = mean_energy(e, spot.roughness)
        passes = (1.0 - coat * out[0] - out[1]) * (1.0 - coat * into[0] - into[1]) / (1.0 - coat * mean[0] - mean[1])
        base = base * passes
    m = spot.metallic
    return i[2] * (mirror * (m * metal + (1.0 - m) * gloss * white) + (1.0 - m) * base)


@wp.func
def base_density(aim: Aim, i: wp.vec3) -> float:
    """Of the base alone: by the cosine, and within the cone."""
    result = (1.0 - aim.share) * i[2] / wp.pi
    if aim.share > 0.0 and wp.dot(aim.axis, i) >= 1.0 - aim.opening:
        result += aim.share / (2.0 * wp.pi * aim.opening)
    return result


@wp.func
def density(spot: Spot, share: float, varnish: float, aim: Aim, o: wp.vec3, i: wp.vec3) -> float:
    """How likely `sample` takes i, by solid angle."""
    alpha = width_of(spot.roughness)
    h = wp.normalize(o + i)
    mirror = facets(alpha, h) * unshadowed(alpha, o[2]) / (4.0 * o[2])
    result = share * mirror + (1.0 - share) * base_density(aim, i)
    if varnish > 0.0:
        alpha = width_of(spot.coat_roughness)
        mirror = facets(alpha, h) * unshadowed(alpha, o[2]) / (4.0 * o[2])
        result = varnish * mirror + (1.0 - varnish) * result
    return result


@wp.func
def seen_facet(alpha: float, o: wp.vec3, r1: float, r2: float) -> wp.vec3:
    """The normal of a facet, as likely as it is seen from o (Heitz)."""
    v = wp.normalize(wp.vec3(alpha * o[0], alpha * o[1], o[2]))
    across = wp.vec3(1.0, 0.0, 0.0)
    length = v[0] * v[0] + v[1] * v[1]
    if length > 1.0e-12:
        across = wp.vec3(-v[1], v[0], 0.0) / wp.sqrt(length)
    up = wp.cross(v, across)
    radius = wp.sqrt(r1)
    angle = 2.0 * wp.pi * r2
    a = radius * wp.cos(angle)
    b = radius * wp.sin(angle)
    s = 0.5 * (1.0 + v[2])
    b = (1.0 - s) * wp.sqrt(wp.max(1.0 - a * a, 0.0)) + s * b
    n = a * across + b * up + wp.sqrt(wp.max(1.0 - a * a - b * b, 0.0)) * v
    return wp.normalize(wp.vec3(alpha * n[0], alpha * n[1], wp.max(n[2], 1.0e-6)))


@wp.func
def base_direction(aim: Aim, r0: float, r1: float, r2: float) -> wp.vec3:
    """A direction that the base takes light from."""
    inside = r0 < aim.share
    height = wp.where(inside, 1.0 - r1 * aim.opening, wp.sqrt(wp.max(1.0 - r1, 0.0)))
    radius = wp.sqrt(wp.max(1.0 - height * height, 0.0))
    angle = 2.0 * wp.pi * r2
    i = wp.vec3(radius * wp.cos(angle), radius * wp.sin(angle), height)
    if inside:
        i = frame(aim.axis) * i
    return i


@wp.func
def sample(spot: Spot, e: Energy, share: float, varnish: float, aim: Aim, o: wp.vec3, r: wp.vec3) -> Scatter:
    """A direction to take light from, in the frame of the normal."""
    i = wp.vec3(0.0, 0.0, 0.0)
    facet = varnish + (1.0 - varnish) * share
    if r[0] < facet:
        roughness = spot.roughness
        if r[0] < varnish:
            roughness = spot.coat_roughness
        h = seen_facet(width_of(roughness), o, r[1], r[2])
        i = 2.0 * wp.dot(o, h) * h - o
    else:
        i = base_direction(aim, (r[0] - facet) / (1.0 - facet), r[1], r[2])
    result = Scatter()
    result.valid = 0
    if i[2] > 1.0e-6:
        result.pdf = density(spot, share, varnish, aim, o, i)
        if result.pdf > 1.0e-12:
            result.valid = 1
            result.direction = i
            result.weight = scattered(spot, e, o, i) / result.pdf
    return result


@wp.func
def fresnel(cosine: float, ratio: float) -> float:
    """What clear glass reflects; the ratio is the index behind over that before the surface. 1 beyond the limit."""
    s2 = (1.0 - cosine * cosine) / (ratio * ratio)
    result = float(1.0)
    if s2 < 1.0:
        inside = wp.sqrt(1.0 - s2)
        a = (cosine - ratio * inside) / (cosine + ratio * inside)
        b = (ratio * cosine - inside) / (ratio * cosine + inside)
        result = 0.5 * (a * a + b * b)
    return result


@wp.func
def through_glass(spot: Spot, d: wp.vec3, r0: float) -> Scatter:
    """Smooth glass: reflected, or refracted into it or out of it, as likely as the light is split; in the world."""
    n = spot.shading
    ratio = spot.glass
    if wp.dot(spot.normal, d) > 0.0:
        n = -n
        ratio = 1.0 / ratio
    cosine = wp.clamp(-wp.dot(n, d), 0.0, 1.0)
    result = Scatter()
    result.valid = 1
    result.pdf = 0.0
    result.weight = wp.vec3(1.0, 1.0, 1.0)
    if r0 < fresnel(cosine, ratio):
        result.direction = wp.normalize(d + 2.0 * cosine * n)
    else:
        inside = wp.sqrt(wp.max(1.0 - (1.0 - cosine * cosine) / (ratio * ratio), 0.0))
        result.direction = wp.normalize(d / ratio + (cosine / ratio - inside) * n)
        result.weight = spot.color
    return result
