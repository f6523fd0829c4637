"""Image files beside the file that is written, each content once."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

from kinema import shapes
from kinema.description import VisualMaterial
from kinema.foundation import cache_dir, clean_name, unique_name
from kinema.words import mjcf

FOLDER = "textures"
_PNG = ".png"
"""What images become that a target cannot read."""


Losses = list[tuple[str, str, str]]
"""Material or mesh, what of it a mesh file cannot say, and why."""


class NoImage(Exception):
    """An image that cannot be put beside the file; the text says why."""


REPEATS = frozenset(map(mjcf.key, (mjcf.TEXREPEAT, mjcf.TEXUNIFORM)))
"""How often MuJoCo lays an image on a shape; on meshes, the placement or the coordinates say so."""


def without_carried(material: VisualMaterial, *, is_laid: bool) -> VisualMaterial:
    """A material without the names of its textures in MJCF, where their images are carried.

    Args:
        material: the material.
        is_laid: whether it is on a mesh, whose texture coordinates say how often an image is repeated.
    """
    if not material.texture:
        return material
    carried = {mjcf.key(mjcf.TEXTURES), *(REPEATS if is_laid else ())}
    return replace(material, attributes={k: v for k, v in material.attributes.items() if k not in carried})


@dataclass(slots=True, eq=False)
class TextureStore:
    """Copies the images that a written file refers to; what is inside of other files is taken out."""

    draft: Path
    """The folder in which the files are made (see `files.staging`)."""
    reference: bool = False
    """Whether files are referred to where they lie."""
    _keys: dict[tuple[str, frozenset[str]], bytes] = field(default_factory=dict)
    """Image and the kinds of files that are wanted -> the key of its content."""
    _places: dict[bytes, dict[str, str]] = field(default_factory=dict)
    """Key of a content -> folder -> its file there."""
    _taken: set[str] = field(default_factory=set)

    def place(self, image: str, suffixes: Collection[str] = (), folder: str = "") -> str:
        """The file of an image relative to the one that is written; `NoImage` where there is none.

        Args:
            image: a file, or `file[part]`.
            suffixes: of files that the target can read; all where empty.
            folder: where it has to lie; wherever it lies already where empty.
        """
        if self.reference and Path(image).is_file() and not Path(image).is_relative_to(cache_dir()):
            place = image
        else:
            places = self._places.get(self._keys.get((image, frozenset(suffixes)), b""), {})
            found = places.get(folder) if folder else next(iter(places.values()), None)
            place = self._made(image, folder or FOLDER, suffixes) if found is None else found
        if suffixes and Path(place).suffix.lower() not in suffixes:
            raise NoImage(f"{Path(place).suffix.lower() or 'such'} files cannot be read there")
        return place

    def _made(self, image: str, folder: str, suffixes: Collection[str]) -> str:
        try:
            data, suffix = shapes.read_image(image)
            if suffixes and suffix not in suffixes and _PNG in suffixes:
                data, suffix = shapes.to_png(data), _PNG
        except shapes.MeshError as error:
            reason = error.reason[:1].lower() + error.reason[1:].rstrip(".")
            raise NoImage(f"{image!r}: {reason}") from None
        key = self._keys[image, frozenset(suffixes)] = hashlib.sha256(data).digest()
        places = self._places.setdefault(key, {})
        if folder not in places:
            suffix = suffix or Path(image.rstrip("]")).suffix.lower()
            name = unique_name(clean_name(shapes.image_name(image)), self._taken)
            while (self.draft / folder / f"{name}{suffix}").exists():  # put there with a mesh
                name = unique_name(name, self._taken)
            place = self.draft / folder / f"{name}{suffix}"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
            places[folder] = f"{folder}/{name}{suffix}"
        return places[folder]
