"""The material and texture assets that were made so far, and the texture files beside the file."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from kinema.foundation import clean_name, unique_name

TEXTURES = "textures"
"""The folder of texture files, beside the file."""


@dataclass(slots=True, eq=False)
class MaterialAssets:
    """The materials and textures of a file, each written once."""

    draft: Path
    made: dict[tuple[object, ...], tuple[str, tuple[float, ...]]] = field(default_factory=dict)
    """What a material is like but for its colour -> its name in the file and its own colour."""
    textures: dict[str, str] = field(default_factory=dict)
    """Texture file beside the file -> the name of the texture."""
    _files: dict[str, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)

    def color_of(self, name: str) -> tuple[float, ...] | None:
        """The colour of a material by its name in the file; None where there is none."""
        return next((own for written, own in self.made.values() if written == name), None)

    def copy(self, path: Path) -> str | None:
        """The name of a texture file beside the file; None where there is none to copy."""
        key = str(path)
        if key not in self._files:
            if not path.is_file():
                return None
            name = unique_name(clean_name(path.stem), self._taken) + path.suffix.lower()
            place = self.draft / TEXTURES / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
            self._files[key] = f"{TEXTURES}/{name}"
        return self._files[key]
