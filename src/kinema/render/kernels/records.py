"""The records that kernels are given: arrays by name instead of long lists of arguments.

Quaternions lie in memory as everywhere in Kinema, (w, x, y, z). The first index of what may differ between environments
is the environment; where all share it there is one row, and `row % rows` finds it.
"""

from __future__ import annotations

import warp as wp

PLANE, SPHERE, BOX, CAPSULE, CYLINDER, ELLIPSOID, CONE, MESH = (wp.constant(i) for i in range(8))
DIRECTIONAL, POINT, SPOT = (wp.constant(i) for i in range(3))
PINHOLE, FISHEYE, ORTHOGRAPHIC = (wp.constant(i) for i in range(3))
COLOR_MAP, OPACITY_MAP, METALLIC_MAP, ROUGHNESS_MAP, EMISSION_MAP, NORMAL_MAP = (wp.constant(i) for i in range(6))
OCCLUSION_MAP, SPECULAR_MAP, COAT_MAP = (wp.constant(i) for i in range(6, 9))
FAR = wp.constant(1.0e30)
NEARBY = wp.constant(1.0e-4)
"""How far rays start from the surface that they leave, for each metre from the origin."""


@wp.struct
class World:
    """What rays meet: bodies in each environment. A body is a primitive shape, or all meshes of a link together."""

    bvh: wp.uint64
    """The tree of boxes around bodies, where there are many."""
    n_bounded: int
    """Bodies that have an end, which come first."""
    n_bodies: int
    kind: wp.array[int]
    size: wp.array[wp.vec3]
    mesh: wp.array[wp.uint64]
    instance: wp.array[int]
    """Of a body that is one."""
    part_start: wp.array[int]
    """Where the faces of a body start in the next two."""
    part_instance: wp.array[int]
    part_face: wp.array[int]
    """The number of a face among those of all meshes."""
    instance_turn: wp.array[wp.vec4]
    """How instances are turned in their bodies."""
    position: wp.array2d[wp.vec3]
    """(n_bodies, n_envs)"""
    rotation: wp.array2d[wp.vec4]
    last_position: wp.array2d[wp.vec3]
    """At the image before, or when the shutter opened."""
    last_rotation: wp.array2d[wp.vec4]
    ball: wp.array2d[wp.vec4]
    """(n_envs, n_bounded): centre and radius of the balls around bodies, over all of their motion."""
    moving: int
    """Whether rays have times between the two."""


@wp.struct
class Looks:
    """What surfaces look like."""

    faces: wp.array2d[int]
    """Corners of all faces, among the vertices."""
    normals: wp.array[wp.vec3]
    uvs: wp.array[wp.vec2]
    colors: wp.array[wp.vec4]
    """Of vertices, by which the material's is multiplied."""
    face_surface: wp.array[int]
    instance_surface: wp.array[int]
    """-1 where faces have their own."""
    color: wp.array2d[wp.vec4]
    """(environments or 1, n_surfaces); the fourth number is the opacity."""
    finish: wp.array2d[wp.vec4]
    """Metallic, roughness, specular, and the index of refraction of glass (0 for what is none)."""
    coat: wp.array[wp.vec2]
    """How much of a surface is varnished, and how rough the varnish is."""
    emission: wp.array2d[wp.vec3]
    cutoff: wp.array[float]
    """Opacity below which there is nothing; negative where it blends."""
    maps: wp.array2d[int]
    """Slots by surface and kind of map; -1 for none."""
    slot_image: wp.array2d[int]
    """First pixel, width, height, wrap in u, wrap in v, channel."""
    slot_place: wp.array2d[float]
    """Two rows of a linear map with offsets, and the strength."""
    pixels: wp.array[wp.uint32]
    light_of_byte: wp.array[float]
    """The amount of light of each of the 256 numbers that a display takes."""
    taps: int
    """Pixels of an image that a colour is made of: 4."""
    layers: int
    """How many surfaces a ray may see, one through the other."""
    linear: int
    """Whether colours are wanted in proportion to light, else as a display takes them."""


@wp.struct
class Lamps:
    """Lights and the sky."""

    kind: wp.array[int]
    position: wp.array2d[wp.vec3]
    """(n_lamps, n_envs)"""
    direction: wp.array2d[wp.vec3]
    color: wp.array2d[wp.vec3]
    """(environments or 1, n_lamps)"""
    falloff: wp.array[wp.vec3]
    cone: wp.array[wp.vec2]
    """Cosine of the half angle, and the exponent of the fall towards it."""
    radius: wp.array[float]
    """Of the bulb [m]; of a directional one, of the disc that is seen [rad]."""
    shadow: wp.array[int]
    zenith: wp.vec3
    horizon: wp.vec3
    ground: wp.vec3
    ambient: float
    """How much of the sky's light reaches surfaces where it is not traced."""
    panorama: wp.array2d[wp.vec3]
    """The surroundings as an image over longitude and latitude, instead of the three colours; empty for none."""
    glow_body: wp.array[int]
    """Triangles that give off light: the body of each, a corner and two edges in its frame."""
    glow_corner: wp.array[wp.vec3]
    glow_first: wp.array[wp.vec3]
    glow_second: wp.array[wp.vec3]
    glow_emission: wp.array[wp.vec3]
    glow_share: wp.array[float]
    """Sums of the shares of all up to each, the last 1."""
    glow_total: float
    """The sum over all of brightness times area."""
    glows: wp.array[int]
    """By instance, whether its triangles are among them."""
    glass_body: wp.array[int]
    """Bodies of glass that what shines may be seen through."""


@wp.struct
class View:
    """Cameras, which all have the same number of pixels."""

    width: int
    height: int
    n_cameras: int
    n_envs: int
    first_env: int
    kind: wp.array[int]
    position: wp.array2d[wp.vec3]
    """(n_cameras, n_envs)"""
    rotation: wp.array2d[wp.vec4]
    last_position: wp.array2d[wp.vec3]
    last_rotation: wp.array2d[wp.vec4]
    lens: wp.array2d[wp.vec4]
    """(environments or 1, n_cameras): focal lengths in x and y, and the centre [pixels]; orthographic: pixels/m."""
    aperture: wp.array2d[wp.vec2]
    """Radius of the lens and distance in focus [m]."""
    clip: wp.array2d[wp.vec2]
    """Nearest and farthest that is seen [m]."""


@wp.struct
class Hit:
    """Where a ray met something."""

    t: float
    body: int
    """-1 for nothing."""
    face: int
    """Of the body's mesh; -1 where it has none."""
    u: float
    v: float
    normal: wp.vec3
    """Of the geometry, in the body's frame."""


@wp.struct
class Spot:
    """A point of a surface and what it looks like."""

    point: wp.vec3
    normal: wp.vec3
    """Of the geometry, outwards, in the world."""
    shading: wp.vec3
    """The one that light is shaded with."""
    color: wp.vec3
    opacity: float
    metallic: float
    roughness: float
    specular: float
    coat: float
    coat_roughness: float
    openness: float
    """How much of the light from all around gets there, where it is not traced."""
    glass: float
    """Its index of refraction; 0 for what is no glass."""
    emission: wp.vec3
    surface: int


@wp.func
def turn(q: wp.vec4) -> wp.quat:
    """A quaternion of ours as Warp has it."""
    return wp.quat(q[1], q[2], q[3], q[0])
