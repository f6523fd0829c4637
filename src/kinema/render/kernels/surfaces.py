"""What is seen where a ray met something: the material, its images, and the normal that light is shaded with."""

from __future__ import annotations

from functools import cache

import warp as wp

from ..traits import Traits
from .primitives import uv_at
from .rays import instance_of, place_of, turn_of
from .records import (
    COAT_MAP,
    COLOR_MAP,
    EMISSION_MAP,
    METALLIC_MAP,
    NORMAL_MAP,
    OCCLUSION_MAP,
    OPACITY_MAP,
    ROUGHNESS_MAP,
    SPECULAR_MAP,
    Hit,
    Looks,
    Spot,
    World,
    turn,
)


@wp.func
def to_light(c: float) -> float:
    """The amount of light of a number that a display takes (sRGB)."""
    result = c / 12.92
    if c > 0.04045:
        result = wp.pow((c + 0.055) / 1.055, 2.4)
    return result


@wp.func
def light_of(c: wp.vec3) -> wp.vec3:
    return wp.vec3(to_light(c[0]), to_light(c[1]), to_light(c[2]))


@wp.func
def wrapped(i: int, n: int, how: int) -> int:
    """A pixel beyond the edge: repeated (0), the last one (1), mirrored (2), or none (3, as -1)."""
    result = i
    if how == 0:
        result = i % n
        if result < 0:
            result += n
    elif how == 2:
        result = i % (2 * n)
        if result < 0:
            result += 2 * n
        if result >= n:
            result = 2 * n - 1 - result
    elif how == 1:
        result = wp.clamp(i, 0, n - 1)
    elif i < 0 or i >= n:
        result = -1
    return result


@wp.func
def texel(looks: Looks, slot: int, x: int, y: int, as_light: int) -> wp.vec4:
    """One pixel; colours as amounts of light, where asked for, because only these may be averaged."""
    width = looks.slot_image[slot, 1]
    column = wrapped(x, width, looks.slot_image[slot, 3])
    row = wrapped(y, looks.slot_image[slot, 2], looks.slot_image[slot, 4])
    value = wp.vec4(0.0, 0.0, 0.0, 0.0)
    if column >= 0 and row >= 0:
        bits = looks.pixels[looks.slot_image[slot, 0] + row * width + column]
        red = int(bits & wp.uint32(255))
        green = int((bits >> wp.uint32(8)) & wp.uint32(255))
        blue = int((bits >> wp.uint32(16)) & wp.uint32(255))
        opacity = float(bits >> wp.uint32(24)) / 255.0
        if as_light == 1:
            value = wp.vec4(looks.light_of_byte[red], looks.light_of_byte[green], looks.light_of_byte[blue], opacity)
        else:
            value = wp.vec4(float(red) / 255.0, float(green) / 255.0, float(blue) / 255.0, opacity)
    return value


@wp.func
def image_at(looks: Looks, slot: int, uv: wp.vec2, as_light: int) -> wp.vec4:
    """The image's four numbers at texture coordinates; v counts upwards, rows downwards."""
    u = looks.slot_place[slot, 0] * uv[0] + looks.slot_place[slot, 1] * uv[1] + looks.slot_place[slot, 2]
    v = looks.slot_place[slot, 3] * uv[0] + looks.slot_place[slot, 4] * uv[1] + looks.slot_place[slot, 5]
    x = u * float(looks.slot_image[slot, 1]) - 0.5
    y = (1.0 - v) * float(looks.slot_image[slot, 2]) - 0.5
    column = int(wp.floor(x))
    row = int(wp.floor(y))
    result = wp.vec4(0.0, 0.0, 0.0, 0.0)
    for k in range(looks.taps):
        a = k % 2
        b = k // 2
        share = (1.0 - wp.abs(x - float(column + a))) * (1.0 - wp.abs(y - float(row + b)))
        result += share * texel(looks, slot, column + a, row + b, as_light)
    return result


@wp.func
def mapped_normal(
    w: World, looks: Looks, env: int, time: float, hit: Hit, m: wp.vec4, strength: float, n: wp.vec3
) -> wp.vec3:
    """The normal that a normal map asks for, in the world."""
    q = turn_of(w, hit.body, env, time)
    mesh = w.mesh[hit.body]
    face = w.part_face[w.part_start[hit.body] + hit.face]
    a = wp.mesh_get_point(mesh, hit.face * 3)
    e1 = wp.quat_rotate(q, wp.mesh_get_point(mesh, hit.face * 3 + 1) - a)
    e2 = wp.quat_rotate(q, wp.mesh_get_point(mesh, hit.face * 3 + 2) - a)
    t0 = looks.uvs[looks.faces[face, 0]]
    d1 = looks.uvs[looks.faces[face, 1]] - t0
    d2 = looks.uvs[looks.faces[face, 2]] - t0
    area = d1[0] * d2[1] - d1[1] * d2[0]
    result = n
    if wp.abs(area) > 1.0e-12:
        tangent = (d2[1] * e1 - d1[1] * e2) / area
        tangent = wp.normalize(tangent - wp.dot(tangent, n) * n)
        bitangent = wp.cross(n, tangent) * wp.sign(area)
        x = strength * (2.0 * m[0] - 1.0)
        y = strength * (2.0 * m[1] - 1.0)
        result = wp.normalize(x * tangent + y * bitangent + wp.max(2.0 * m[2] - 1.0, 0.01) * n)
    return result


@wp.func
def bare_spot(w: World, looks: Looks, env: int, time: float, origin: wp.vec3, direction: wp.vec3, hit: Hit) -> Spot:
    """Everything about the place that a ray met, but for what images say."""
    q = turn_of(w, hit.body, env, time)
    spot = Spot()
    spot.point = origin + hit.t * direction
    i = instance_of(w, hit)
    spot.surface = looks.instance_surface[i]
    n = hit.normal
    own = wp.vec4(1.0, 1.0, 1.0, 1.0)
    if hit.face >= 0:
        face = w.part_face[w.part_start[hit.body] + hit.face]
        if spot.surface < 0:
            spot.surface = looks.face_surface[face]
        a = looks.faces[face, 0]
        b = looks.faces[face, 1]
        c = looks.faces[face, 2]
        rest = 1.0 - hit.u - hit.v
        n = wp.normalize(hit.u * looks.normals[a] + hit.v * looks.normals[b] + rest * looks.normals[c])
        n = wp.quat_rotate(turn(w.instance_turn[i]), n)
        own = hit.u * looks.colors[a] + hit.v * looks.colors[b] + rest * looks.colors[c]
    own = wp.cw_mul(own, looks.color[env % looks.color.shape[0], spot.surface])
    spot.opacity = own[3]
    spot.color = wp.vec3(own[0], own[1], own[2])
    finish = looks.finish[env % looks.finish.shape[0], spot.surface]
    spot.metallic = finish[0]
    spot.roughness = finish[1]
    spot.specular = finish[2]
    coat = looks.coat[spot.surface]
    spot.coat = coat[0]
    spot.coat_roughness = coat[1]
    spot.openness = 1.0
    spot.glass = finish[3]
    spot.emission = looks.emission[env % looks.emission.shape[0], spot.surface]
    if looks.linear == 1:
        spot.color = light_of(spot.color)
    spot.normal = wp.quat_rotate(q, hit.normal)
    spot.shading = wp.quat_rotate(q, n)
    return spot


@wp.func
def coordinates_at(w: World, looks: Looks, env: int, time: float, spot: Spot, hit: Hit) -> wp.vec2:
    """Texture coordinates of a place."""
    b = hit.body
    uv = wp.vec2(0.0, 0.0)
    if hit.face >= 0:
        face = w.part_face[w.part_start[b] + hit.face]
        rest = 1.0 - hit.u - hit.v
        uv = hit.u * looks.uvs[looks.faces[face, 0]] + hit.v * looks.uvs[looks.faces[face, 1]]
        uv = uv + rest * looks.uvs[looks.faces[face, 2]]
    else:
        here = wp.quat_rotate_inv(turn_of(w, b, env, time), spot.point - place_of(w, b, env, time))
        uv = uv_at(w.kind[b], w.size[b], here)
    return uv


@wp.func
def dressed(w: World, looks: Looks, env: int, time: float, bare: Spot, hit: Hit) -> Spot:
    """With what images say."""
    spot = bare
    uv = coordinates_at(w, looks, env, time, spot, hit)
    for role in range(looks.maps.shape[1]):
        slot = looks.maps[spot.surface, role]
        if slot >= 0:
            as_light = int(0)
            if role == EMISSION_MAP or (role == COLOR_MAP and looks.linear == 1):
                as_light = 1
            m = image_at(looks, slot, uv, as_light)
            number = m[looks.slot_image[slot, 5]]
            if role == COLOR_MAP:
                spot.color = wp.cw_mul(spot.color, wp.vec3(m[0], m[1], m[2]))
                spot.opacity = spot.opacity * m[3]
            elif role == OPACITY_MAP:
                spot.opacity = spot.opacity * number
            elif role == METALLIC_MAP:
                spot.metallic = spot.metallic * number
            elif role == ROUGHNESS_MAP:
                spot.roughness = spot.roughness * number
            elif role == SPECULAR_MAP:
                spot.specular = spot.specular * number
            elif role == COAT_MAP:
                spot.coat = spot.coat * number
            elif role == OCCLUSION_MAP:
                spot.openness = number
            elif role == EMISSION_MAP:
                spot.emission = wp.cw_mul(spot.emission, wp.vec3(m[0], m[1], m[2]))
            elif role == NORMAL_MAP and hit.face >= 0:
                spot.shading = mapped_normal(w, looks, env, time, hit, m, looks.slot_place[slot, 6], spot.shading)
    return spot


@cache
def spots(traits: Traits) -> wp.Function:
    """The function that finds everything about the place that a ray met; without images it need not look for any.

    That nothing is glass or varnished is said here by a constant, and compilers follow it to all that depends on it.
    """

    @wp.func
    def spot_at(w: World, looks: Looks, env: int, time: float, origin: wp.vec3, direction: wp.vec3, hit: Hit) -> Spot:
        spot = bare_spot(w, looks, env, time, origin, direction, hit)
        if wp.static(not traits.glass):
            spot.glass = 0.0
        if wp.static(not traits.varnish):
            spot.coat = 0.0
        if wp.static(traits.images):
            spot = dressed(w, looks, env, time, spot, hit)
        if looks.cutoff[spot.surface] >= 0.0:
            spot.opacity = wp.where(spot.opacity >= looks.cutoff[spot.surface], 1.0, 0.0)
        return spot

    return spot_at
