"""Looks as networks of UsdPreviewSurface: a surface, textures, and what tells these where they lie."""

from __future__ import annotations

import math

from kinema.description import VisualMaterial
from kinema.shapes import Look, MapRole, Placement, Texture, Wrap, roughness_of_shininess
from kinema.words import mjcf, ours, usd

from ..report import Action
from ..stand_ins import color_without_image, how_around
from ..textures import REPEATS, NoImage, TextureStore
from .draft import Draft, PrimDraft
from .record_values import keep_table

_INPUTS = {
    MapRole.OPACITY: (usd.OPACITY, "float"),
    MapRole.METALLIC: (usd.METALLIC, "float"),
    MapRole.ROUGHNESS: (usd.ROUGHNESS, "float"),
    MapRole.EMISSION: (usd.EMISSIVE_COLOR, "color3f"),
    MapRole.NORMAL: (usd.NORMAL, "normal3f"),
    MapRole.OCCLUSION: (usd.OCCLUSION, "float"),
    MapRole.CLEARCOAT: (usd.CLEARCOAT, "float"),
}
_COLOR = "color"
"""What the prim of the base colour's texture is called."""
_KEPT = frozenset(map(mjcf.key, (mjcf.TEXTURES, mjcf.TEXREPEAT, mjcf.TEXUNIFORM)))
"""What MuJoCo says of textures that USD has no word for."""
_SUFFIXES = (".png", ".jpg", ".jpeg", ".exr", ".bmp", ".tga", ".hdr", ".tif", ".tiff", ".webp", ".ktx", ".ktx2")


class LookAuthor:
    """Writes the prims of materials."""

    def __init__(self, draft: Draft, textures: TextureStore) -> None:
        self._draft = draft
        self._textures = textures

    def author(self, path: str, look: Look, *, has_coordinates: bool, has_colors: bool) -> None:
        """A material prim.

        Args:
            path: its path.
            look: what it looks like.
            has_coordinates: whether what it is on has texture coordinates. Without, a connected texture would paint
                everything in the colour of one texel.
            has_colors: whether what it is on has colours of its own, and the material none.
        """
        material = self._draft.prim(path, usd.MATERIAL)
        shader = self._shader(f"{path}/Surface", usd.PREVIEW_SURFACE)
        connected = self._base(material, shader, look, has_coordinates=has_coordinates, has_colors=has_colors)
        self._numbers(shader, look)
        for role, texture in look.maps.items():
            self._map(material, shader, look, MapRole(role), texture, has_coordinates=has_coordinates)
        if look.color is not None and look.color[3] != 1.0 and MapRole.OPACITY not in look.maps:
            shader.set(usd.input_of(usd.OPACITY), "float", look.color[3])
        if look.texture and not connected:
            self._keep_texture(material, look)
        shader.declare(usd.SURFACE_OUTPUT, "token")
        material.declare(usd.SURFACE_OUTPUT, "token", source=f"{path}/Surface.{usd.SURFACE_OUTPUT}")
        self._keep(material, look, connected=connected)

    def _shader(self, path: str, kind: str) -> PrimDraft:
        shader = self._draft.prim(path, usd.SHADER)
        shader.set(usd.SHADER_ID, "token", kind, uniform=True)
        return shader

    # -- values --

    def _numbers(self, shader: PrimDraft, look: Look) -> None:
        if look.emission is not None and MapRole.EMISSION not in look.maps:
            shader.set(usd.input_of(usd.EMISSIVE_COLOR), "color3f", look.emission)
        for role, name, value in (
            (MapRole.METALLIC, usd.METALLIC, look.metallic),
            (MapRole.ROUGHNESS, usd.ROUGHNESS, _roughness(look)),
            (MapRole.CLEARCOAT, usd.CLEARCOAT, look.clearcoat),
            (None, usd.CLEARCOAT_ROUGHNESS, look.clearcoat_roughness),
            (None, usd.OPACITY_THRESHOLD, look.opacity_threshold),
        ):
            if value is not None and role not in look.maps:
                shader.set(usd.input_of(name), "float", value)

    def _keep(self, material: PrimDraft, look: Look, *, connected: bool) -> None:
        for setting, value in ((ours.SPECULAR, look.specular), (ours.REFLECTANCE, look.reflectance)):
            if value is not None:
                material.keep(setting, value)
                what = setting.name.rpartition(":")[2]
                how = f"UsdPreviewSurface has metallic and roughness instead; it is in {setting.name}"
                self._draft.lose(Action.EXTENSION, ("material", look.name), what, how)
        if look.name != material.name:
            material.keep(ours.NAME, look.name)
        if isinstance(look, VisualMaterial):
            self._keep_settings(material, look, connected=connected)

    def _keep_settings(self, material: PrimDraft, look: VisualMaterial, *, connected: bool) -> None:
        """What a material has of its own format; how its image lies is told already where that is connected."""
        shininess = look.attributes.get(mjcf.key(mjcf.SHININESS))
        if isinstance(shininess, float):
            material.keep(ours.SHININESS, shininess)
        is_told = look.texture and look.image_color is None  # six images are told of by names of MJCF alone
        carried = {mjcf.key(mjcf.SHININESS), *((mjcf.key(mjcf.TEXTURES),) if is_told else ())}
        carried |= set(REPEATS) if connected and is_told else set()
        own = {key: value for key, value in look.attributes.items() if key in _KEPT and key not in carried}
        kept = keep_table(material, ours.ATTRIBUTES, own)
        if kept:
            what = f"settings of its own format: {', '.join(kept)}"
            self._draft.lose(Action.EXTENSION, look, what, "they are kept for Kinema alone")
        lost = [key for key in look.attributes if key not in carried and key not in kept]
        lost += [f"{extra.format} {extra.tag}" for extra in look.extras]
        if lost:
            what = f"settings of its own format: {', '.join(dict.fromkeys(lost))}"
            self._draft.lose(Action.DROPPED, look, what, "USD has no place for them")

    # -- textures --

    def _base(
        self, material: PrimDraft, shader: PrimDraft, look: Look, *, has_coordinates: bool, has_colors: bool
    ) -> bool:
        """The base colour; whether its texture is connected."""
        color = look.color
        if look.texture and has_coordinates:
            image = Texture(file=look.texture, placement=look.placement)
            source = self._texture(material, look, _COLOR, image, scale=color)
            if source:
                shader.declare(usd.input_of(usd.DIFFUSE_COLOR), "color3f", source=f"{source}.{usd.output_of('rgb')}")
                self._keep_around(material, look)
                return True
        if has_colors and color is None:
            reader = self._shader(f"{material.path}/colors", usd.PRIMVAR_READER_3)
            reader.set(usd.input_of(usd.VARNAME), "string", usd.DISPLAY_COLOR.removeprefix(usd.PRIMVARS))
            reader.declare(usd.output_of(usd.RESULT), "float3")
            source = f"{reader.path}.{usd.output_of(usd.RESULT)}"
            shader.declare(usd.input_of(usd.DIFFUSE_COLOR), "color3f", source=source)
            return False
        shown = color_without_image(look)
        if shown is not None:
            shader.set(usd.input_of(usd.DIFFUSE_COLOR), "color3f", shown[:3])
            if shown != color:
                material.keep(ours.COLOR, [] if color is None else color[:3])
                material.keep(ours.COLOR_SHOWN, shown[:3])
        self._keep_around(material, look)
        return False

    def _keep_around(self, material: PrimDraft, look: Look) -> None:
        """That six images of MuJoCo's are around the shape."""
        if look.image_color is not None:
            material.keep(ours.IMAGE_COLOR, look.image_color)
            self._draft.lose(Action.APPROXIMATED, ("material", look.name), "the texture around it", how_around(look))

    def _map(
        self,
        material: PrimDraft,
        shader: PrimDraft,
        look: Look,
        role: MapRole,
        image: Texture,
        *,
        has_coordinates: bool,
    ) -> None:
        """One of the other images."""
        if role not in _INPUTS or not has_coordinates:
            how = "UsdPreviewSurface has no such input" if has_coordinates else "the shapes have no texture coordinates"
            self._draft.lose(Action.DROPPED, ("material", look.name), f"its {role.value} map", how)
            return
        scale = self._factor(look, role, image)
        source = self._texture(material, look, role.value, image, scale=scale)
        if source:
            name, kind = _INPUTS[role]
            usual = "rgb" if kind != "float" else ("a" if role is MapRole.OPACITY else "r")
            shader.declare(usd.input_of(name), kind, source=f"{source}.{usd.output_of(image.channel or usual)}")

    def _factor(self, look: Look, role: MapRole, image: Texture) -> tuple[float, float, float, float] | None:
        value = {
            MapRole.METALLIC: look.metallic,
            MapRole.ROUGHNESS: look.roughness,
            MapRole.CLEARCOAT: look.clearcoat,
        }.get(role)
        if value is not None:
            return value, value, value, value
        if role is MapRole.EMISSION and look.emission is not None:
            return (*look.emission, 1.0)
        if role is MapRole.NORMAL:
            return 2.0, 2.0, 2.0, 1.0
        if role is MapRole.OCCLUSION and image.strength != 1.0:
            return image.strength, image.strength, image.strength, image.strength
        return None

    def _texture(
        self, material: PrimDraft, look: Look, name: str, image: Texture, *, scale: tuple[float, ...] | None
    ) -> str:
        """The path of a shader that reads an image; empty, with a loss on record, where there is no image."""
        try:
            file = self._textures.place(image.file, _SUFFIXES)
        except NoImage as error:
            self._draft.lose(Action.DROPPED, ("material", look.name), f"its {name} texture", str(error))
            return ""
        shader = self._shader(f"{material.path}/{name}_texture", usd.UV_TEXTURE)
        shader.set(usd.input_of(usd.FILE), "asset", f"./{file}")
        is_color = name in (_COLOR, MapRole.EMISSION.value)
        shader.set(usd.input_of(usd.SOURCE_COLOR_SPACE), "token", "sRGB" if is_color else "raw")
        for word, wrap in zip((usd.WRAP_S, usd.WRAP_T), image.placement.wrap, strict=True):
            shader.set(usd.input_of(word), "token", Wrap(wrap).value)
        if scale is not None:
            shader.set(usd.input_of(usd.TEXTURE_SCALE), "float4", scale)
        if name == MapRole.NORMAL.value:
            shader.set(usd.input_of(usd.TEXTURE_BIAS), "float4", (-1.0, -1.0, -1.0, 0.0))
            if image.strength != 1.0:  # validators want normal maps to be stretched from -1 to 1, no less
                shader.keep(ours.STRENGTH, image.strength)
                how = f"it is in {ours.STRENGTH.name}, which only Kinema knows"
                self._draft.lose(Action.EXTENSION, ("material", look.name), "the strength of its normal map", how)
        elif name == MapRole.OCCLUSION.value and image.strength != 1.0:
            shader.set(usd.input_of(usd.TEXTURE_BIAS), "float4", (1.0 - image.strength,) * 4)
        source = self._coordinates(material, name, image.placement)
        shader.declare(usd.input_of(usd.COORDINATES_INPUT), "float2", source=source)
        for output, kind in (("rgb", "float3"), ("r", "float"), ("g", "float"), ("b", "float"), ("a", "float")):
            shader.declare(usd.output_of(output), kind)
        return shader.path

    def _coordinates(self, material: PrimDraft, name: str, placement: Placement) -> str:
        """The output that gives a texture its coordinates."""
        number = placement.coordinates
        path = f"{material.path}/coordinates{number or ''}"
        if path not in self._draft.prims:
            reader = self._shader(path, usd.PRIMVAR_READER_2)
            varname = f"{usd.TEXTURE_COORDINATES.removeprefix(usd.PRIMVARS)}{number or ''}"
            reader.set(usd.input_of(usd.VARNAME), "string", varname)
            reader.declare(usd.output_of(usd.RESULT), "float2")
        output = f"{path}.{usd.output_of(usd.RESULT)}"
        if (placement.scale, placement.offset, placement.rotation) == ((1.0, 1.0), (0.0, 0.0), 0.0):
            return output
        transform = self._shader(f"{material.path}/{name}_place", usd.TRANSFORM_2D)
        transform.declare(usd.input_of(usd.TRANSFORM_IN), "float2", source=output)
        transform.set(usd.input_of(usd.TEXTURE_SCALE), "float2", placement.scale)
        transform.set(usd.input_of(usd.TRANSFORM_ROTATION), "float", math.degrees(placement.rotation))
        transform.set(usd.input_of(usd.TRANSFORM_TRANSLATION), "float2", placement.offset)
        transform.declare(usd.output_of(usd.RESULT), "float2")
        return f"{transform.path}.{usd.output_of(usd.RESULT)}"

    def _keep_texture(self, material: PrimDraft, look: Look) -> None:
        try:
            file = self._textures.place(look.texture)
        except NoImage as error:
            self._draft.lose(Action.DROPPED, ("material", look.name), "the texture", str(error))
            return
        material.keep(ours.TEXTURE, f"./{file}")
        how = "the shape has no texture coordinates; its colour is the image's mean, the file is in kinema:texture"
        self._draft.lose(Action.APPROXIMATED, ("material", look.name), "the texture", how)


def _roughness(look: Look) -> float | None:
    """The roughness, or what MuJoCo's shininess comes to."""
    shininess = look.attributes.get(mjcf.key(mjcf.SHININESS)) if isinstance(look, VisualMaterial) else None
    if look.roughness is None and isinstance(shininess, float):
        return roughness_of_shininess(shininess)
    return look.roughness
