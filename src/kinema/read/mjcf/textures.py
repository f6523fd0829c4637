"""The images of materials: files, or what MuJoCo draws by itself."""

from __future__ import annotations

from kinema.description import VisualMaterial
from kinema.read.cursor import parse_float
from kinema.shapes import MapRole, Placement, Texture, builtin_reference
from kinema.words import mjcf

from .cube_textures import mean_of_cube
from .engine import mujoco
from .reading import Reading

_COLORED = ("rgb", "rgba", "user")
"""Roles of a texture that is the colour of the surface, the one that counts first."""
_MAPS = {
    "normal": ((MapRole.NORMAL, ""),),
    "occlusion": ((MapRole.OCCLUSION, ""),),
    "roughness": ((MapRole.ROUGHNESS, ""),),
    "metallic": ((MapRole.METALLIC, ""),),
    "opacity": ((MapRole.OPACITY, "r"),),
    "emissive": ((MapRole.EMISSION, ""),),
    "orm": ((MapRole.OCCLUSION, "r"), (MapRole.ROUGHNESS, "g"), (MapRole.METALLIC, "b")),
}
"""Role of a texture in MuJoCo -> what it says, and by which channel."""


def add_textures(reading: Reading, material: int, result: VisualMaterial) -> None:
    """The images of a material; of cubes of images, which no surface can have elsewhere, the mean colour is told."""
    mj = mujoco()
    layers: dict[str, int] = {}
    for role, texture in enumerate(reading.model.mat_texid[material]):
        if texture >= 0:
            layers[mj.mjtTextureRole(role).name.split("_", 1)[1].lower()] = int(texture)
    if not layers:
        return
    result.attributes[mjcf.key(mjcf.TEXTURES)] = {role: reading.name(mjcf.TEXTURE, t) for role, t in layers.items()}
    images = {role: _image(reading, texture) for role, texture in layers.items()}
    colored = next((images[role] for role in _COLORED if role in images), None)
    if colored is not None:
        result.texture, result.placement = colored
        shown = next(layers[role] for role in _COLORED if role in layers)
        if not _is_flat(reading, shown):
            result.image_color = mean_of_cube(reading, shown)
        if result.texture and "rgba" in images and "rgb" not in images:
            result.maps[MapRole.OPACITY] = Texture(file=colored[0], channel="a", placement=colored[1])
    for role, meanings in _MAPS.items():
        file, placement = images.get(role, ("", Placement()))
        for meaning, channel in meanings if file else ():
            result.maps[meaning] = Texture(file=file, channel=channel, placement=placement)


def _is_flat(reading: Reading, texture: int) -> bool:
    return int(reading.model.tex_type[texture]) == int(mujoco().mjtTexture.mjTEXTURE_2D)


def _image(reading: Reading, texture: int) -> tuple[str, Placement]:
    """The image of a flat texture, and how it is flipped; nothing for those of other kinds."""
    element = reading.element("textures", texture)
    if element is None or not _is_flat(reading, texture):
        return "", Placement()
    given = element.attributes
    asset = reading.asset(element)
    if asset is None:  # MuJoCo does not flip what it draws
        kind = given.get("builtin", "none")
        return "" if kind == "none" else _drawn(kind, given), Placement()
    flips = [given.get(name) == "true" for name in ("hflip", "vflip")]
    if not any(flips):
        return asset.path, Placement()
    scale, offset = (-1.0 if flips[0] else 1.0, -1.0 if flips[1] else 1.0), (float(flips[0]), float(flips[1]))
    return asset.path, Placement(scale=scale, offset=offset)


def _drawn(kind: str, given: dict[str, str]) -> str:
    def color(name: str, default: tuple[float, float, float]) -> tuple[float, ...]:
        values = [v for v in map(parse_float, given.get(name, "").split()) if v is not None]
        return tuple(values) if len(values) == 3 else default

    def pixels(name: str) -> int:
        value = parse_float(given.get(name, "0"))
        return int(value) if value is not None and 0 < value < 1e6 else 1

    first, second = color("rgb1", (0.8, 0.8, 0.8)), color("rgb2", (0.5, 0.5, 0.5))
    mark = given.get("mark", "none")
    size = (pixels("width"), pixels("height"))
    return builtin_reference(kind, size, first, second, mark, color("markrgb", (0.0, 0.0, 0.0)))
