"""Visual materials with textures, cube maps and texture projections, and contact materials of MuJoCo geoms and pairs.

MuJoCo's renderer projects a 2D texture on a mesh without texture coordinates along z of the mesh's centred frame, with
`(u, v) = (x, y) * texrepeat / (2 * half size) + 1/2`, or without the half sizes if the material is `texuniform`. Cube
maps are looked up by the direction from the origin of that frame, each coordinate multiplied by the half size if the
material is `texuniform`. Texture coordinates of a mesh are multiplied by `texrepeat`, and by the half sizes if the
material is `texuniform`; v counts from the top of the image.
"""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import numpy as np

from kinema import geometry as geo
from kinema.core import Array, Pose, cache_dir, content_digest, to_identifier, write_atomically
from kinema.description import Mesh, PhysicsMaterial, VisualMaterial
from kinema.geometry import (
    CubeMapProjection,
    MapRole,
    MeshError,
    PlanarProjection,
    Texture,
    TextureMapping,
    cube_map_atlas,
)
from kinema.tokens import mjcf

from ..cursor import parse_float
from ..observations import observed
from .model_reader import ModelReader, float32_to_floats, solver_parameters, store_nonempty_settings, to_floats, to_rgba
from .mujoco_compiler import mujoco, quote_attribute

# -- cube maps ---------------------------------------------------------------------------------------------------------

_CACHE_VERSION = 1
"""Version of the cached atlas images."""
_TEXTURE_ATTRIBUTES = (
    *("type", "builtin", "rgb1", "rgb2", "mark", "markrgb", "random", "width", "height"),
    *("gridsize", "gridlayout", "hflip", "vflip"),
)
"""Attributes, besides files, that determine the pixels of a texture."""
_MAX_PIXELS = 4096 * 3072
_MAX_FACE_WIDTH = 1024
"""Maximum width [pixels] of procedurally generated cube map faces."""


def cube_map_mean_color(reader: ModelReader, texture: int) -> tuple[float, float, float] | None:
    """Mean RGB colour of a cube map; None if its pixels are unavailable."""
    if texture not in reader.cube_map_mean_colors:
        sides = cube_map_faces(reader, texture)
        reader.cube_map_mean_colors[texture] = None if sides is None else _mean_color(sides)
    return reader.cube_map_mean_colors[texture]


def _mean_color(faces: np.ndarray) -> tuple[float, float, float]:
    red, green, blue = (faces[..., :3].mean(axis=(0, 1, 2), dtype=np.float64) / 255.0).tolist()
    return red, green, blue


def unfolded_cube_map(reader: ModelReader, texture: int) -> str:
    """Path of an atlas image (cached by content) with the six faces of a cube map; empty if unavailable."""
    sides = cube_map_faces(reader, texture)
    if sides is None:
        return ""
    name = to_identifier(reader.name(mjcf.TEXTURE, texture)) or "cube"
    file = cache_dir() / "images" / content_digest(_CACHE_VERSION, sides) / f"{name}.png"
    if not file.is_file():
        write_atomically(file, geo.encode_png(cube_map_atlas(np.broadcast_to(sides, (6, *sides.shape[1:])))))
    return str(file) if observed(file).is_file() else ""


def cube_map_faces(reader: ModelReader, texture: int) -> np.ndarray | None:
    """Pixels of a cube map, shape (1 or 6, width, width, channels); None if unavailable.

    MuJoCo generates the pixels in a separate model from colours and from images validated here.
    """
    if texture not in reader.cube_map_pixels:
        reader.cube_map_pixels[texture] = _compile_texture(reader, texture)
    return reader.cube_map_pixels[texture]


def _compile_texture(reader: ModelReader, texture: int) -> np.ndarray | None:
    """Pixels of a texture element, compiled by MuJoCo in a separate model; None if unavailable."""
    element = reader.xml_element("textures", texture)
    if element is None:
        return None
    given, images = _texture_inputs(reader, element.attributes)
    if given is None:
        return None
    text = "".join(f" {name}={quote_attribute(value)}" for name, value in given.items())
    try:
        model = mujoco().MjModel.from_xml_string(f'<mujoco><asset><texture name="t"{text}/></asset></mujoco>', images)
    except ValueError:
        return None
    width, height, channels = int(model.tex_width[0]), int(model.tex_height[0]), int(model.tex_nchannel[0])
    if height not in (width, 6 * width) or channels not in (3, 4):
        return None
    return np.array(model.tex_data[: width * height * channels]).reshape(-1, width, width, channels)


def _texture_inputs(reader: ModelReader, attributes: dict[str, str]) -> tuple[dict[str, str] | None, dict[str, bytes]]:
    """Attributes and image files of a texture for MuJoCo; None if an image is unreadable or too large."""
    given, images = (
        {name: text for name, text in attributes.items() if name in _TEXTURE_ATTRIBUTES and text.strip()},
        {},
    )
    for name in mjcf.TEXTURE_FILES:
        if attributes.get(name):
            try:
                pixels = geo.read_image_pixels(
                    reader.compiled.prepared.resolved_paths.get(attributes[name], ""), _MAX_PIXELS
                )
            except MeshError:
                return None, {}
            images[f"{name}.png"] = geo.encode_png(pixels[..., :3])
            given[name] = f"{name}.png"
    width = parse_float(attributes.get("width", "0"))
    if not images and (width is None or not 1 <= width <= _MAX_FACE_WIDTH):
        return None, {}
    return given, images


# -- texture projection on meshes without texture coordinates ----------------------------------------------------------

_MIN_HALF_SIZE = 1e-15
"""Lower bound of divisors in MuJoCo's renderer."""


def texture_projection(
    reader: ModelReader, geom: int, mesh: Mesh, pose: Pose
) -> PlanarProjection | CubeMapProjection | None:
    """Projection of a geom's texture on its mesh; None without texture or if the mesh has texture coordinates.

    Args:
        reader: access to the compiled model.
        geom: index of the geom.
        mesh: mesh of the geom, before scaling.
        pose: pose of the scaled mesh in MuJoCo's centred frame.
    """
    model = reader.model
    material, mesh_index = int(model.geom_matid[geom]), int(model.geom_dataid[geom])
    if material < 0 or mesh_index < 0 or has_texture_coordinates(reader, geom):
        return None
    texture = displayed_texture(reader, geom)
    if texture < 0:
        return None
    if int(model.tex_type[texture]) != int(mujoco().mjtTexture.mjTEXTURE_2D):
        sides = cube_map_faces(reader, texture)
        if sides is None:
            return None
        sizes = np.asarray(model.geom_size[geom], dtype=np.float64)
        factors_3d = np.where(model.mat_texuniform[material] & (sizes > 0), sizes, 1.0)
        linear_3d = factors_3d[:, None] * (pose.rotation @ np.diag(mesh.scale))
        x, y, z = map(_projection_row, linear_3d, factors_3d * pose.position)
        return CubeMapProjection(x, y, z, sides.shape[1])
    factors = 0.5 * np.asarray(model.mat_texrepeat[material], dtype=np.float64)
    if not model.mat_texuniform[material]:
        sizes = np.asarray(model.geom_size[geom][:2], dtype=np.float64)
        factors = factors / np.where(sizes > 0, np.maximum(sizes, _MIN_HALF_SIZE), 1.0)
    linear = factors[:, None] * (pose.rotation @ np.diag(mesh.scale))[:2]
    offset = factors * pose.position[:2] + 0.5
    return PlanarProjection(_projection_row(linear[0], offset[0]), _projection_row(linear[1], offset[1]))


def displayed_texture(reader: ModelReader, geom: int) -> int:
    """Index of the texture that MuJoCo's renderer shows on a geom; -1 for none."""
    material = int(reader.model.geom_matid[geom])
    return -1 if material < 0 else int(reader.model.mat_texid[material][mujoco().mjtTextureRole.mjTEXROLE_RGB])


def has_texture_coordinates(reader: ModelReader, geom: int) -> bool:
    """Whether a geom is a mesh with texture coordinates."""
    number = int(reader.model.geom_dataid[geom])
    return number >= 0 and int(reader.model.mesh_texcoordadr[number]) >= 0


def apply_texrepeat(reader: ModelReader, geom: int, mapping: TextureMapping) -> TextureMapping:
    """Texture mapping with `texrepeat` applied, for a geom whose mesh has texture coordinates.

    Args:
        reader: access to the compiled model.
        geom: index of the geom.
        mapping: mapping of the image (flips).
    """
    model = reader.model
    material = int(model.geom_matid[geom])
    if material < 0 or not has_texture_coordinates(reader, geom):
        return mapping
    repeat = np.asarray(model.mat_texrepeat[material], dtype=np.float64)
    if model.mat_texuniform[material]:
        repeat = repeat * np.asarray(model.geom_size[geom][:2], dtype=np.float64)
    across, down = repeat.tolist()
    if (across, down) == (1.0, 1.0):
        return mapping
    (flip_u, flip_v), (u, v) = mapping.scale, mapping.offset
    scale, offset = (across * flip_u, down * flip_v), (u, v + flip_v * (1.0 - down))
    return replace(mapping, scale=scale, offset=offset)


def _projection_row(linear: Array, offset: float) -> tuple[float, float, float, float]:
    x, y, z = linear.tolist()
    return x, y, z, float(offset)


# -- images ------------------------------------------------------------------------------------------------------------

_COLOR_ROLES = ("rgb", "rgba", "user")
"""Texture roles that give the base colour, in order of precedence."""
_TEXTURE_MAP_ROLES = {
    "normal": ((MapRole.NORMAL, ""),),
    "occlusion": ((MapRole.OCCLUSION, ""),),
    "roughness": ((MapRole.ROUGHNESS, ""),),
    "metallic": ((MapRole.METALLIC, ""),),
    "opacity": ((MapRole.OPACITY, "r"),),
    "emissive": ((MapRole.EMISSION, ""),),
    "orm": ((MapRole.OCCLUSION, "r"), (MapRole.ROUGHNESS, "g"), (MapRole.METALLIC, "b")),
}
"""Texture role in MuJoCo -> (map role, channel) in the description."""


def add_textures(reader: ModelReader, material: int, result: VisualMaterial) -> None:
    """Set the images of a material; for a cube map, the mean colour is set instead."""
    mj = mujoco()
    layers: dict[str, int] = {}
    for role, texture in enumerate(reader.model.mat_texid[material]):
        if texture >= 0:
            layers[mj.mjtTextureRole(role).name.split("_", 1)[1].lower()] = int(texture)
    if not layers:
        return
    result.attributes[mjcf.attribute_key(mjcf.TEXTURES)] = {
        role: reader.name(mjcf.TEXTURE, t) for role, t in layers.items()
    }
    images = {role: _texture_image(reader, texture) for role, texture in layers.items()}
    colored = next((images[role] for role in _COLOR_ROLES if role in images), None)
    if colored is not None:
        result.texture, result.texture_mapping = colored
        shown = next(layers[role] for role in _COLOR_ROLES if role in layers)
        if not _is_2d_texture(reader, shown):
            result.mean_texture_color = cube_map_mean_color(reader, shown)
        if result.texture and "rgba" in images and "rgb" not in images:
            result.maps[MapRole.OPACITY] = Texture(file=colored[0], channel="a", mapping=colored[1])
    for role, meanings in _TEXTURE_MAP_ROLES.items():
        file, placement = images.get(role, ("", TextureMapping()))
        for meaning, channel in meanings if file else ():
            result.maps[meaning] = Texture(file=file, channel=channel, mapping=placement)


def _is_2d_texture(reader: ModelReader, texture: int) -> bool:
    return int(reader.model.tex_type[texture]) == int(mujoco().mjtTexture.mjTEXTURE_2D)


def _texture_image(reader: ModelReader, texture: int) -> tuple[str, TextureMapping]:
    """Image file of a 2D texture and its mapping (flips); empty for other texture types."""
    element = reader.xml_element("textures", texture)
    if element is None or not _is_2d_texture(reader, texture):
        return "", TextureMapping()
    given = element.attributes
    asset = reader.asset_file(element)
    if asset is None:  # MuJoCo does not flip procedural textures
        kind = given.get("builtin", "none")
        return "" if kind == "none" else _builtin_texture(kind, given), TextureMapping()
    flips = [given.get(name) == "true" for name in ("hflip", "vflip")]
    if not any(flips):
        return asset.path, TextureMapping()
    scale, offset = (-1.0 if flips[0] else 1.0, -1.0 if flips[1] else 1.0), (float(flips[0]), float(flips[1]))
    return asset.path, TextureMapping(scale=scale, offset=offset)


def _builtin_texture(builtin_type: str, attributes: dict[str, str]) -> str:
    """Reference to a procedural texture (gradient, checker, flat) with the attributes of its element."""

    def color(name: str, default: tuple[float, float, float]) -> tuple[float, ...]:
        values = [v for v in map(parse_float, attributes.get(name, "").split()) if v is not None]
        return tuple(values) if len(values) == 3 else default

    def pixels(name: str) -> int:
        value = parse_float(attributes.get(name, "0"))
        return int(value) if value is not None and 0 < value < 1e6 else 1

    first, second = color("rgb1", (0.8, 0.8, 0.8)), color("rgb2", (0.5, 0.5, 0.5))
    mark = attributes.get("mark", "none")
    size = (pixels("width"), pixels("height"))
    return geo.builtin_texture_reference(builtin_type, size, first, second, mark, color("markrgb", (0.0, 0.0, 0.0)))


# -- visual and contact materials --------------------------------------------------------------------------------------

_DEFAULT_RGBA = (0.5, 0.5, 0.5, 1.0)
_DEFAULT_SOLREF = (0.02, 1.0)
_DEFAULT_SOLIMP = (0.9, 0.95, 0.001, 0.5, 2.0)
_GAP_BEYOND_MARGIN = (3, 9)
"""First MuJoCo version in which the gap lies beyond the margin instead of inside it."""


def read_visual_material(reader: ModelReader, material: int, rgba: Any) -> VisualMaterial:
    """Visual material of a geom: its material, with the colour of the geom unless it is MuJoCo's default grey."""
    color = to_rgba(rgba)
    if material < 0:
        return VisualMaterial(color=color)
    model = reader.model
    result = VisualMaterial(**reader.node_arguments(mjcf.MATERIAL, "materials", material))
    result.color = to_rgba(model.mat_rgba[material]) if color == _DEFAULT_RGBA else color
    emission = float32_to_floats(model.mat_emission[material])[0]
    if emission:
        red, green, blue, _ = result.color
        result.emission = (emission * red, emission * green, emission * blue)
    result.specular = float32_to_floats(model.mat_specular[material])[0]
    result.reflectance = float32_to_floats(model.mat_reflectance[material])[0]
    # -1 means unspecified
    result.metallic = _nonnegative_or_none(model.mat_metallic[material])
    result.roughness = _nonnegative_or_none(model.mat_roughness[material])
    repeat = model.mat_texrepeat[material]
    store_nonempty_settings(
        result.attributes,
        {
            mjcf.SHININESS: model.mat_shininess[material],
            mjcf.TEXUNIFORM: bool(model.mat_texuniform[material]),
            mjcf.TEXREPEAT: () if to_floats(repeat) == (1.0, 1.0) else repeat,
        },
    )
    add_textures(reader, material, result)
    return result


def _nonnegative_or_none(value: Any) -> float | None:
    return None if value < 0 else float32_to_floats(value)[0]


def geom_physics_material(model: Any, geom: int) -> PhysicsMaterial:
    """Contact parameters of a geom."""
    sliding, torsional, rolling = to_floats(model.geom_friction[geom])
    gap = float(model.geom_gap[geom])
    margin = force_margin(float(model.geom_margin[geom]), gap)
    return PhysicsMaterial(
        static_friction=sliding,
        dynamic_friction=sliding,
        torsional_friction=torsional,
        rolling_friction=rolling,
        contact_dimension=int(model.geom_condim[geom]),
        gap=gap,
        priority=int(model.geom_priority[geom]),
        solmix=float(model.geom_solmix[geom]),
        solver=solver_parameters(model.geom_solref[geom], model.geom_solimp[geom], margin),
    )


def differs_from_default_material(material: PhysicsMaterial) -> bool:
    """Whether contact parameters differ from MuJoCo's defaults of a geom."""
    default = PhysicsMaterial(
        static_friction=1.0,
        dynamic_friction=1.0,
        torsional_friction=0.005,
        rolling_friction=0.0001,
        contact_dimension=3,
        solver=solver_parameters(_DEFAULT_SOLREF, _DEFAULT_SOLIMP, 0.0),
    )
    return any(getattr(material, f.name) != getattr(default, f.name) for f in dataclasses.fields(material))


def pair_physics_material(model: Any, pair: int) -> PhysicsMaterial:
    """Contact parameters of an explicit contact pair."""
    first, second, spin, roll, roll2 = to_floats(model.pair_friction[pair])
    gap = float(model.pair_gap[pair])
    margin = force_margin(float(model.pair_margin[pair]), gap)
    surface = PhysicsMaterial(
        static_friction=first,
        dynamic_friction=first,
        dynamic_friction2=None if second == first else second,
        torsional_friction=spin,
        rolling_friction=roll,
        contact_dimension=int(model.pair_dim[pair]),
        gap=gap,
        solver=solver_parameters(model.pair_solref[pair], model.pair_solimp[pair], margin),
    )
    store_nonempty_settings(
        surface.attributes,
        {
            mjcf.FRICTION: () if (second, roll2) == (first, roll) else model.pair_friction[pair],
            mjcf.SOLREFFRICTION: model.pair_solreffriction[pair],
            mjcf.ADHESION: float(getattr(model, "pair_adhesion", (0.0,) * model.npair)[pair]),
        },
    )
    return surface


def force_margin(margin: float, gap: float) -> float:
    """Distance at which contact forces begin [m]."""
    version = tuple(int(part) for part in mujoco().__version__.split(".")[:2])
    return margin if version >= _GAP_BEYOND_MARGIN else margin - gap
