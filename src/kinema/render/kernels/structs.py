"""Warp structs passed to kernels: ray-traced bodies, surfaces, lights, cameras, ray hits, shading points.

Quaternions are (w, x, y, z). Arrays that may differ between environments have the environment as first index; if all
environments share the values there is one row, addressed as `env % n_rows`.
"""

from __future__ import annotations

import warp as wp

PLANE, SPHERE, BOX, CAPSULE, CYLINDER, ELLIPSOID, CONE, MESH = (wp.constant(i) for i in range(8))
DIRECTIONAL_LIGHT, POINT_LIGHT, SPOT_LIGHT = (wp.constant(i) for i in range(3))
PINHOLE, FISHEYE, ORTHOGRAPHIC = (wp.constant(i) for i in range(3))
COLOR_MAP, OPACITY_MAP, METALLIC_MAP, ROUGHNESS_MAP, EMISSION_MAP, NORMAL_MAP = (wp.constant(i) for i in range(6))
OCCLUSION_MAP, SPECULAR_MAP, CLEARCOAT_MAP = (wp.constant(i) for i in range(6, 9))
RAY_INFINITY = wp.constant(1.0e30)
RAY_OFFSET = wp.constant(1.0e-4)
"""Offset of ray origins from the surface they leave, relative to 1 m plus the distance from the world origin."""


@wp.struct
class Bodies:
    """Ray-traced bodies of all environments. A body is one primitive, or all meshes of a link merged."""

    bvh: wp.uint64
    """Warp BVH over the bounded bodies of all environments, one group per environment; used for many bodies."""
    n_bounded: int
    """Number of bodies of finite extent, which come first."""
    n_bodies: int
    kind: wp.array[int]
    """Geometry type (`PLANE` to `MESH`), shape (n_bodies,)."""
    size: wp.array[wp.vec3]
    """Dimensions of primitives [m], as in `Geometry.size`."""
    mesh: wp.array[wp.uint64]
    """Warp mesh id; 0 for primitives."""
    first_instance: wp.array[int]
    """First (or only) instance of each body."""
    face_start: wp.array[int]
    """Start of the faces of each body in `face_instance` and `face_index`."""
    face_instance: wp.array[int]
    """Instance of each body face."""
    face_index: wp.array[int]
    """Index of each body face in `Surfaces.faces`."""
    instance_rotation: wp.array[wp.vec4]
    """Rotation of each instance relative to its body."""
    position: wp.array2d[wp.vec3]
    """World positions [m], shape (n_bodies, n_envs)."""
    rotation: wp.array2d[wp.vec4]
    """World orientations, shape (n_bodies, n_envs)."""
    previous_position: wp.array2d[wp.vec3]
    """World positions of the previous image, or at shutter opening [m]."""
    previous_rotation: wp.array2d[wp.vec4]
    """World orientations of the previous image, or at shutter opening."""
    bounding_sphere: wp.array2d[wp.vec4]
    """World bounding spheres (centre, radius) [m] over the whole motion, shape (n_envs, n_bounded)."""
    motion_blur: int
    """1 if rays have times between the previous and the current pose."""


@wp.struct
class Surfaces:
    """Vertex attributes, materials and textures of all surfaces."""

    faces: wp.array2d[int]
    """Vertex indices of all mesh faces, shape (n_faces, 3)."""
    normals: wp.array[wp.vec3]
    uvs: wp.array[wp.vec2]
    vertex_colors: wp.array[wp.vec4]
    """Vertex RGBA, multiplied by the base colour."""
    face_surface: wp.array[int]
    """Surface index of each mesh face."""
    instance_surface: wp.array[int]
    """Surface index of each instance; -1 for per-face surfaces."""
    color: wp.array2d[wp.vec4]
    """Base colour (sRGB) and opacity, shape (n_envs or 1, n_surfaces)."""
    finish: wp.array2d[wp.vec4]
    """Metallic, roughness, specular and index of refraction (0 if not glass), shape (n_envs or 1, n_surfaces)."""
    clearcoat: wp.array[wp.vec2]
    """Clearcoat weight and clearcoat roughness."""
    emission: wp.array2d[wp.vec3]
    """Emitted radiance, shape (n_envs or 1, n_surfaces)."""
    alpha_cutoff: wp.array[float]
    """Opacity below which the surface is invisible; negative for alpha blending."""
    texture_slots: wp.array2d[int]
    """Texture slot by surface and map role; -1 for none."""
    slot_layout: wp.array2d[int]
    """Per slot: first texel, width, height, wrap mode in u, wrap mode in v, channel."""
    slot_transform: wp.array2d[float]
    """Per slot: two rows of the affine texture coordinate transform, and the strength."""
    texels: wp.array[wp.uint32]
    """Texels of all images, 8-bit RGBA packed in 32 bits."""
    srgb_to_linear_table: wp.array[float]
    """Linear value of each of the 256 sRGB values."""
    taps: int
    """Texels per bilinear texture lookup: 4."""
    max_layers: int
    """Maximum number of transparent surfaces along a camera ray."""
    linear_colors: int
    """1 if shading uses linear colours, 0 for sRGB."""


@wp.struct
class Lights:
    """Light sources, sky and emissive triangles."""

    kind: wp.array[int]
    """Light type (`DIRECTIONAL_LIGHT`, `POINT_LIGHT`, `SPOT_LIGHT`)."""
    position: wp.array2d[wp.vec3]
    """World positions [m], shape (n_lights, n_envs)."""
    direction: wp.array2d[wp.vec3]
    """World directions of emission, shape (n_lights, n_envs)."""
    color: wp.array2d[wp.vec3]
    """Intensity, shape (n_envs or 1, n_lights)."""
    falloff: wp.array[wp.vec3]
    """Attenuation coefficients (a, b, c) of 1 / (a + b r + c r^2)."""
    cone: wp.array[wp.vec2]
    """Cosine of the half angle of a spot, and the exponent of its falloff."""
    radius: wp.array[float]
    """Radius of the source [m]; for directional lights, angular radius [rad]."""
    casts_shadow: wp.array[int]
    """1 if the light casts shadows."""
    zenith: wp.vec3
    horizon: wp.vec3
    ground: wp.vec3
    ambient: float
    """Fraction of the sky light that reaches surfaces in ray-cast images."""
    environment_map: wp.array2d[wp.vec3]
    """Equirectangular radiance map that replaces the sky gradient; empty for none."""
    emitter_body: wp.array[int]
    """Body of each emissive triangle."""
    emitter_corner: wp.array[wp.vec3]
    """First corner in the body frame [m]."""
    emitter_edge1: wp.array[wp.vec3]
    """Edge from the first to the second corner in the body frame [m]."""
    emitter_edge2: wp.array[wp.vec3]
    """Edge from the first to the third corner in the body frame [m]."""
    emitter_emission: wp.array[wp.vec3]
    """Emitted radiance."""
    emitter_cdf: wp.array[float]
    """Cumulative distribution of the sampling probabilities; the last entry is 1."""
    emitter_power: float
    """Sum of luminance times area over all emissive triangles; 0 without emitters."""
    is_emitter: wp.array[int]
    """By instance, 1 if its triangles are sampled as emitters."""
    glass_bodies: wp.array[int]
    """Bounded glass bodies through which emitters may be visible (targets of path guiding)."""


@wp.struct
class CameraArrays:
    """Cameras of all environments, with images of equal size."""

    width: int
    height: int
    n_cameras: int
    n_envs: int
    first_env: int
    kind: wp.array[int]
    """Projection (`PINHOLE`, `FISHEYE`, `ORTHOGRAPHIC`)."""
    position: wp.array2d[wp.vec3]
    """World positions [m], shape (n_cameras, n_envs)."""
    rotation: wp.array2d[wp.vec4]
    previous_position: wp.array2d[wp.vec3]
    """World positions of the previous image [m]."""
    previous_rotation: wp.array2d[wp.vec4]
    """World orientations of the previous image."""
    intrinsics: wp.array2d[wp.vec4]
    """Focal lengths in x and y, and principal point [pixels]; orthographic: scale [pixels/m]. Shape (n_envs or 1,
    n_cameras)."""
    aperture: wp.array2d[wp.vec2]
    """Lens radius and focus distance [m]."""
    clip_range: wp.array2d[wp.vec2]
    """Near and far clipping distance along the ray [m]."""


@wp.struct
class RayHit:
    """Result of a ray intersection query."""

    t: float
    """Distance along the ray [m]."""
    body: int
    """Index of the hit body; -1 for a miss."""
    face: int
    """Face of the mesh of the body; -1 for primitives."""
    u: float
    """Barycentric coordinate of the first corner."""
    v: float
    """Barycentric coordinate of the second corner."""
    normal: wp.vec3
    """Geometric normal in the body frame."""


@wp.struct
class ShadingPoint:
    """A surface point with its normals and material parameters."""

    position: wp.vec3
    """World position [m]."""
    normal: wp.vec3
    """Geometric outward normal in the world frame."""
    shading_normal: wp.vec3
    """Interpolated (and normal-mapped) normal in the world frame."""
    color: wp.vec3
    opacity: float
    metallic: float
    roughness: float
    specular: float
    clearcoat: float
    clearcoat_roughness: float
    ambient_occlusion: float
    """Fraction of ambient light that reaches the point, from the occlusion map."""
    ior: float
    """Index of refraction of smooth glass; 0 for other materials."""
    emission: wp.vec3
    surface_index: int


@wp.func
def to_warp_quat(q: wp.vec4) -> wp.quat:
    """Convert a quaternion (w, x, y, z) to the (x, y, z, w) order of Warp."""
    return wp.quat(q[1], q[2], q[3], q[0])
