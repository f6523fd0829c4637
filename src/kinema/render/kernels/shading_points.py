"""Shading points of ray hits: interpolated normals and colours, texture sampling, normal mapping."""

from __future__ import annotations

from functools import cache

import warp as wp

from ..kernel_launch import KernelFeatures
from .intersection import body_position, body_rotation, hit_instance, primitive_uv
from .structs import (
    CLEARCOAT_MAP,
    COLOR_MAP,
    EMISSION_MAP,
    METALLIC_MAP,
    NORMAL_MAP,
    OCCLUSION_MAP,
    OPACITY_MAP,
    ROUGHNESS_MAP,
    SPECULAR_MAP,
    Bodies,
    RayHit,
    ShadingPoint,
    Surfaces,
    to_warp_quat,
)


@wp.func
def srgb_to_linear(value: float) -> float:
    """Linear value of an sRGB value in [0, 1]."""
    result = value / 12.92
    if value > 0.04045:
        result = wp.pow((value + 0.055) / 1.055, 2.4)
    return result


@wp.func
def srgb_to_linear_rgb(color: wp.vec3) -> wp.vec3:
    return wp.vec3(srgb_to_linear(color[0]), srgb_to_linear(color[1]), srgb_to_linear(color[2]))


@wp.func
def wrap_texel_index(index: int, size: int, mode: int) -> int:
    """Texel index after wrapping by `mode`: repeat (0), clamp (1), mirror (2), or -1 outside of the image (3)."""
    result = index
    if mode == 0:
        result = index % size
        if result < 0:
            result += size
    elif mode == 2:
        result = index % (2 * size)
        if result < 0:
            result += 2 * size
        if result >= size:
            result = 2 * size - 1 - result
    elif mode == 1:
        result = wp.clamp(index, 0, size - 1)
    elif index < 0 or index >= size:
        result = -1
    return result


@wp.func
def fetch_texel(surfaces: Surfaces, slot: int, x: int, y: int, to_linear: int) -> wp.vec4:
    """RGBA of one texel of a texture slot after wrapping, each 0 to 1; zero outside of an unwrapped image.

    With `to_linear` 1, colours are converted from sRGB to linear before filtering.
    """
    width = surfaces.slot_layout[slot, 1]
    column = wrap_texel_index(x, width, surfaces.slot_layout[slot, 3])
    row = wrap_texel_index(y, surfaces.slot_layout[slot, 2], surfaces.slot_layout[slot, 4])
    value = wp.vec4(0.0, 0.0, 0.0, 0.0)
    if column >= 0 and row >= 0:
        bits = surfaces.texels[surfaces.slot_layout[slot, 0] + row * width + column]
        red = int(bits & wp.uint32(255))
        green = int((bits >> wp.uint32(8)) & wp.uint32(255))
        blue = int((bits >> wp.uint32(16)) & wp.uint32(255))
        opacity = float(bits >> wp.uint32(24)) / 255.0
        if to_linear == 1:
            value = wp.vec4(
                surfaces.srgb_to_linear_table[red],
                surfaces.srgb_to_linear_table[green],
                surfaces.srgb_to_linear_table[blue],
                opacity,
            )
        else:
            value = wp.vec4(float(red) / 255.0, float(green) / 255.0, float(blue) / 255.0, opacity)
    return value


@wp.func
def sample_texture(surfaces: Surfaces, slot: int, uv: wp.vec2, to_linear: int) -> wp.vec4:
    """Bilinear texture lookup: RGBA of a texture slot at texture coordinates `uv` (v upwards).

    Applies the coordinate transform of the slot. With `to_linear` 1, colours are converted from sRGB to linear.
    """
    u = (
        surfaces.slot_transform[slot, 0] * uv[0]
        + surfaces.slot_transform[slot, 1] * uv[1]
        + surfaces.slot_transform[slot, 2]
    )
    v = (
        surfaces.slot_transform[slot, 3] * uv[0]
        + surfaces.slot_transform[slot, 4] * uv[1]
        + surfaces.slot_transform[slot, 5]
    )
    x = u * float(surfaces.slot_layout[slot, 1]) - 0.5
    y = (1.0 - v) * float(surfaces.slot_layout[slot, 2]) - 0.5
    column = int(wp.floor(x))
    row = int(wp.floor(y))
    result = wp.vec4(0.0, 0.0, 0.0, 0.0)
    for k in range(surfaces.taps):
        dx = k % 2
        dy = k // 2
        weight = (1.0 - wp.abs(x - float(column + dx))) * (1.0 - wp.abs(y - float(row + dy)))
        result += weight * fetch_texel(surfaces, slot, column + dx, row + dy, to_linear)
    return result


@wp.func
def apply_normal_map(
    bodies: Bodies,
    surfaces: Surfaces,
    env: int,
    time: float,
    hit: RayHit,
    texel_value: wp.vec4,
    strength: float,
    shading_normal: wp.vec3,
) -> wp.vec3:
    """Perturb the shading normal by a tangent-space normal map; returns the world normal.

    The tangent frame is derived from the positions and texture coordinates of the hit face. Degenerate texture
    coordinates return `shading_normal` unchanged.
    """
    q = body_rotation(bodies, hit.body, env, time)
    mesh = bodies.mesh[hit.body]
    face = bodies.face_index[bodies.face_start[hit.body] + hit.face]
    a = wp.mesh_get_point(mesh, hit.face * 3)
    e1 = wp.quat_rotate(q, wp.mesh_get_point(mesh, hit.face * 3 + 1) - a)
    e2 = wp.quat_rotate(q, wp.mesh_get_point(mesh, hit.face * 3 + 2) - a)
    t0 = surfaces.uvs[surfaces.faces[face, 0]]
    d1 = surfaces.uvs[surfaces.faces[face, 1]] - t0
    d2 = surfaces.uvs[surfaces.faces[face, 2]] - t0
    area = d1[0] * d2[1] - d1[1] * d2[0]
    result = shading_normal
    if wp.abs(area) > 1.0e-12:
        tangent = (d2[1] * e1 - d1[1] * e2) / area
        tangent = wp.normalize(tangent - wp.dot(tangent, shading_normal) * shading_normal)
        bitangent = wp.cross(shading_normal, tangent) * wp.sign(area)
        x = strength * (2.0 * texel_value[0] - 1.0)
        y = strength * (2.0 * texel_value[1] - 1.0)
        result = wp.normalize(x * tangent + y * bitangent + wp.max(2.0 * texel_value[2] - 1.0, 0.01) * shading_normal)
    return result


@wp.func
def interpolate_surface(
    bodies: Bodies, surfaces: Surfaces, env: int, time: float, origin: wp.vec3, direction: wp.vec3, hit: RayHit
) -> ShadingPoint:
    """Shading point of a ray hit without textures: position, normals and material parameters.

    Vertex normals and colours are interpolated barycentrically; colours are converted to linear if requested.
    """
    q = body_rotation(bodies, hit.body, env, time)
    shading_point = ShadingPoint()
    shading_point.position = origin + hit.t * direction
    instance = hit_instance(bodies, hit)
    shading_point.surface_index = surfaces.instance_surface[instance]
    normal = hit.normal
    color = wp.vec4(1.0, 1.0, 1.0, 1.0)
    if hit.face >= 0:
        face = bodies.face_index[bodies.face_start[hit.body] + hit.face]
        if shading_point.surface_index < 0:
            shading_point.surface_index = surfaces.face_surface[face]
        a = surfaces.faces[face, 0]
        b = surfaces.faces[face, 1]
        c = surfaces.faces[face, 2]
        w = 1.0 - hit.u - hit.v
        normal = wp.normalize(hit.u * surfaces.normals[a] + hit.v * surfaces.normals[b] + w * surfaces.normals[c])
        normal = wp.quat_rotate(to_warp_quat(bodies.instance_rotation[instance]), normal)
        color = hit.u * surfaces.vertex_colors[a] + hit.v * surfaces.vertex_colors[b] + w * surfaces.vertex_colors[c]
    color = wp.cw_mul(color, surfaces.color[env % surfaces.color.shape[0], shading_point.surface_index])
    shading_point.opacity = color[3]
    shading_point.color = wp.vec3(color[0], color[1], color[2])
    finish = surfaces.finish[env % surfaces.finish.shape[0], shading_point.surface_index]
    shading_point.metallic = finish[0]
    shading_point.roughness = finish[1]
    shading_point.specular = finish[2]
    clearcoat = surfaces.clearcoat[shading_point.surface_index]
    shading_point.clearcoat = clearcoat[0]
    shading_point.clearcoat_roughness = clearcoat[1]
    shading_point.ambient_occlusion = 1.0
    shading_point.ior = finish[3]
    shading_point.emission = surfaces.emission[env % surfaces.emission.shape[0], shading_point.surface_index]
    if surfaces.linear_colors == 1:
        shading_point.color = srgb_to_linear_rgb(shading_point.color)
    shading_point.normal = wp.quat_rotate(q, hit.normal)
    shading_point.shading_normal = wp.quat_rotate(q, normal)
    return shading_point


@wp.func
def texture_coordinates(
    bodies: Bodies, surfaces: Surfaces, env: int, time: float, shading_point: ShadingPoint, hit: RayHit
) -> wp.vec2:
    """Texture coordinates (u, v) of a hit: interpolated on meshes, analytic on primitives."""
    b = hit.body
    uv = wp.vec2(0.0, 0.0)
    if hit.face >= 0:
        face = bodies.face_index[bodies.face_start[b] + hit.face]
        w = 1.0 - hit.u - hit.v
        uv = hit.u * surfaces.uvs[surfaces.faces[face, 0]] + hit.v * surfaces.uvs[surfaces.faces[face, 1]]
        uv = uv + w * surfaces.uvs[surfaces.faces[face, 2]]
    else:
        local_point = wp.quat_rotate_inv(
            body_rotation(bodies, b, env, time), shading_point.position - body_position(bodies, b, env, time)
        )
        uv = primitive_uv(bodies.kind[b], bodies.size[b], local_point)
    return uv


@wp.func
def apply_textures(
    bodies: Bodies, surfaces: Surfaces, env: int, time: float, untextured: ShadingPoint, hit: RayHit
) -> ShadingPoint:
    """Shading point with all texture maps of its surface applied (colour, opacity, normal, ...)."""
    shading_point = untextured
    uv = texture_coordinates(bodies, surfaces, env, time, shading_point, hit)
    for role in range(surfaces.texture_slots.shape[1]):
        slot = surfaces.texture_slots[shading_point.surface_index, role]
        if slot >= 0:
            to_linear = int(0)
            if role == EMISSION_MAP or (role == COLOR_MAP and surfaces.linear_colors == 1):
                to_linear = 1
            texel = sample_texture(surfaces, slot, uv, to_linear)
            value = texel[surfaces.slot_layout[slot, 5]]
            if role == COLOR_MAP:
                shading_point.color = wp.cw_mul(shading_point.color, wp.vec3(texel[0], texel[1], texel[2]))
                shading_point.opacity = shading_point.opacity * texel[3]
            elif role == OPACITY_MAP:
                shading_point.opacity = shading_point.opacity * value
            elif role == METALLIC_MAP:
                shading_point.metallic = shading_point.metallic * value
            elif role == ROUGHNESS_MAP:
                shading_point.roughness = shading_point.roughness * value
            elif role == SPECULAR_MAP:
                shading_point.specular = shading_point.specular * value
            elif role == CLEARCOAT_MAP:
                shading_point.clearcoat = shading_point.clearcoat * value
            elif role == OCCLUSION_MAP:
                shading_point.ambient_occlusion = value
            elif role == EMISSION_MAP:
                shading_point.emission = wp.cw_mul(shading_point.emission, wp.vec3(texel[0], texel[1], texel[2]))
            elif role == NORMAL_MAP and hit.face >= 0:
                shading_point.shading_normal = apply_normal_map(
                    bodies,
                    surfaces,
                    env,
                    time,
                    hit,
                    texel,
                    surfaces.slot_transform[slot, 6],
                    shading_point.shading_normal,
                )
    return shading_point


@cache
def shading_point_function(features: KernelFeatures) -> wp.Function:
    """Return the Warp function that computes the shading point (position, normals, textured material) of a ray hit.

    Features that do not occur in the scene (textures, glass, clearcoat) are compiled as constants, which eliminates
    dependent code.
    """

    @wp.func
    def evaluate_shading_point(
        bodies: Bodies, surfaces: Surfaces, env: int, time: float, origin: wp.vec3, direction: wp.vec3, hit: RayHit
    ) -> ShadingPoint:
        """Shading point of `hit` on the ray from `origin` along `direction`, with textures and alpha cutoff applied."""
        shading_point = interpolate_surface(bodies, surfaces, env, time, origin, direction, hit)
        if wp.static(not features.glass):
            shading_point.ior = 0.0
        if wp.static(not features.clearcoat):
            shading_point.clearcoat = 0.0
        if wp.static(features.textures):
            shading_point = apply_textures(bodies, surfaces, env, time, shading_point, hit)
        if surfaces.alpha_cutoff[shading_point.surface_index] >= 0.0:
            shading_point.opacity = wp.where(
                shading_point.opacity >= surfaces.alpha_cutoff[shading_point.surface_index], 1.0, 0.0
            )
        return shading_point

    return evaluate_shading_point
