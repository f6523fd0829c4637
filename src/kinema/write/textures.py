"""Texture images beside the written file, texture mappings baked into texture coordinates, and mean image colours."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from kinema import geometry
from kinema.core import cache_dir, to_identifier, unique_name
from kinema.description import VisualMaterial
from kinema.geometry import Appearance, Color, CornerAttribute, MeshError, PbrMaterial, TextureMapping, mean_image_color
from kinema.tokens import mjcf

# -------------------------------------------------------------------------------------------------------- texture store

TEXTURE_FOLDER = "textures"
_PNG = ".png"
"""Suffix of the format to which images are converted that a target cannot read."""


LossEntries = list[tuple[str, str, str]]
"""Material or mesh, property that a mesh file cannot represent, and reason."""


class ImageUnavailableError(Exception):
    """Image that cannot be placed beside the file; the message is the reason."""


TEXTURE_REPEAT_KEYS = frozenset(map(mjcf.attribute_key, (mjcf.TEXREPEAT, mjcf.TEXUNIFORM)))
"""Attributes of MuJoCo's texture repetition; on meshes, texture mapping or coordinates express the repetition."""


def without_written_textures(material: VisualMaterial, *, is_on_mesh: bool) -> VisualMaterial:
    """Copy of a material without the MJCF texture attributes that are represented by its image.

    Args:
        material: the material.
        is_on_mesh: whether the shape is a mesh, whose texture coordinates express the repetition of the image.
    """
    if not material.texture:
        return material
    carried = {mjcf.attribute_key(mjcf.TEXTURES), *(TEXTURE_REPEAT_KEYS if is_on_mesh else ())}
    return replace(material, attributes={k: v for k, v in material.attributes.items() if k not in carried})


@dataclass(slots=True, eq=False)
class TextureStore:
    """Copies the images that a written file refers to, each content once; embedded images are extracted."""

    staging_folder: Path
    """Folder in which the files are created (see `files.stage_files`)."""
    references_originals: bool = False
    """Whether original image files are referenced instead of copied."""
    _content_keys: dict[tuple[str, frozenset[str]], bytes] = field(default_factory=dict)
    """Image and readable suffixes -> digest of the written content."""
    _files_by_content: dict[bytes, dict[str, str]] = field(default_factory=dict)
    """Digest of the content -> folder -> file in the folder."""
    _taken_names: set[str] = field(default_factory=set)

    def place_image(self, image: str, suffixes: Collection[str] = (), folder: str = "") -> str:
        """Path of an image relative to the written file, after copying it if necessary.

        Args:
            image: a file, or `file[part]` for an embedded image.
            suffixes: suffixes that the target can read; empty for all.
            folder: required folder; empty for any.

        Raises:
            ImageUnavailableError: the image cannot be read, or not in a readable format.
        """
        if self.references_originals and Path(image).is_file() and not Path(image).is_relative_to(cache_dir()):
            place = image
        else:
            places = self._files_by_content.get(self._content_keys.get((image, frozenset(suffixes)), b""), {})
            found = places.get(folder) if folder else next(iter(places.values()), None)
            place = self._write_image(image, folder or TEXTURE_FOLDER, suffixes) if found is None else found
        if suffixes and Path(place).suffix.lower() not in suffixes:
            raise ImageUnavailableError(f"{Path(place).suffix.lower() or 'such'} files cannot be read there")
        return place

    def _write_image(self, image: str, folder: str, suffixes: Collection[str]) -> str:
        """Write an image to a folder once, converted to PNG if necessary, and return its relative path."""
        try:
            data, suffix = geometry.read_image(image)
            if suffixes and suffix not in suffixes and _PNG in suffixes:
                data, suffix = geometry.convert_to_png(data), _PNG
        except geometry.MeshError as error:
            reason = error.reason[:1].lower() + error.reason[1:].rstrip(".")
            raise ImageUnavailableError(f"{image!r}: {reason}") from None
        key = self._content_keys[image, frozenset(suffixes)] = hashlib.sha256(data).digest()
        places = self._files_by_content.setdefault(key, {})
        if folder not in places:
            suffix = suffix or Path(image.rstrip("]")).suffix.lower()
            name = unique_name(to_identifier(geometry.image_name(image)), self._taken_names)
            while (self.staging_folder / folder / f"{name}{suffix}").exists():  # put there with a mesh
                name = unique_name(name, self._taken_names)
            place = self.staging_folder / folder / f"{name}{suffix}"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
            places[folder] = f"{folder}/{name}{suffix}"
        return places[folder]


# ----------------------------------------------------------------------------------------------------- texture mappings


def is_default_mapping(mapping: TextureMapping) -> bool:
    """Whether a texture mapping is the identity on the first texture coordinate set; wrap modes are ignored."""
    return replace(mapping, wrap=TextureMapping().wrap) == TextureMapping()


def mapped_coordinates(
    coordinate_sets: tuple[CornerAttribute, ...], material: PbrMaterial | None
) -> CornerAttribute | None:
    """Texture coordinates of a material's texture with scale, rotation and offset applied; None without sets."""
    if not coordinate_sets:
        return None
    placement = TextureMapping() if material is None or not material.texture else material.texture_mapping
    chosen = coordinate_sets[min(placement.texcoord_set, len(coordinate_sets) - 1)]
    if is_default_mapping(replace(placement, texcoord_set=0)):
        return chosen
    cosine, sine = math.cos(placement.rotation), math.sin(placement.rotation)
    turn = np.array([[cosine, -sine], [sine, cosine]])
    return CornerAttribute((chosen.values * placement.scale) @ turn.T + placement.offset, chosen.indices)


def bake_texture_mappings(appearance: Appearance) -> Appearance:
    """Appearance with texture mappings baked into a single set of per-corner texture coordinates.

    Unchanged if all mappings are the identity or if the images of one material have different mappings.
    """
    sets, materials = appearance.texture_coordinates, appearance.materials
    textured = [look for look in materials if look.image_references]
    if (
        not sets
        or all(is_default_mapping(look.texture_mapping) for look in textured)
        or not all(map(_has_uniform_mapping, textured))
    ):
        return appearance
    of_corner = np.zeros((len(sets[0].indices), 3, 2))
    for look, faces in appearance.faces_by_material(len(of_corner)):
        laid = mapped_coordinates(sets, look)
        assert laid is not None  # there are sets
        of_corner[faces] = laid.expanded()[faces]
    corners = np.arange(3 * len(of_corner)).reshape(-1, 3)
    plain = tuple(_with_default_mapping(look) if look in textured else look for look in materials)
    return replace(
        appearance, texture_coordinates=(CornerAttribute(of_corner.reshape(-1, 2), corners),), materials=plain
    )


def _has_uniform_mapping(material: PbrMaterial) -> bool:
    return bool(material.texture) and all(image.mapping == material.texture_mapping for image in material.maps.values())


def _with_default_mapping(material: PbrMaterial) -> PbrMaterial:
    placement = TextureMapping(wrap=material.texture_mapping.wrap)
    given = {field.name: getattr(material, field.name) for field in fields(PbrMaterial)}
    maps = {role: replace(image, mapping=placement) for role, image in material.maps.items()}
    return PbrMaterial(**{**given, "texture_mapping": placement, "maps": maps})


# -------------------------------------------------------------------------------------- mean colours in place of images

PbrMaterialT = TypeVar("PbrMaterialT", bound=PbrMaterial)
_CUBE_MAP_AS_COLOR_TEXT = "no other format has cubes of images; its colour is the mean of them"
_CUBE_MAP_UNFOLDED_TEXT = "no other format has cubes of images; they are in one image, laid by texture coordinates"
_WHITE = (1.0, 1.0, 1.0, 1.0)


def cube_map_loss_text(material: PbrMaterial) -> str:
    """Report text for a cube map, which is either unfolded to one image or replaced by its mean colour."""
    return _CUBE_MAP_UNFOLDED_TEXT if material.texture else _CUBE_MAP_AS_COLOR_TEXT


def mean_surface_color(material: PbrMaterial) -> Color | None:
    """Base colour times mean texture colour (RGBA); the base colour if there is no readable texture."""
    try:
        mean = mean_image_color(material.texture) if material.texture else material.mean_texture_color
    except MeshError:
        mean = None
    if mean is None:
        return material.color
    red, green, blue, alpha = material.color or _WHITE
    return red * mean[0], green * mean[1], blue * mean[2], alpha


def with_mean_color(material: PbrMaterialT) -> PbrMaterialT:
    """Material with `mean_texture_color` merged into the colour, for formats that cannot show the cube map."""
    if material.mean_texture_color is None or material.texture:
        return material
    return replace(material, color=mean_surface_color(material), mean_texture_color=None)


def without_images(material: PbrMaterial) -> PbrMaterial:
    """Material with all images replaced by the mean colour, for triangles without texture coordinates."""
    return replace(material, color=mean_surface_color(material), texture="", maps={}, mean_texture_color=None)
