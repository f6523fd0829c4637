"""The material and texture assets that were made so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..textures import TextureStore


@dataclass(slots=True, eq=False)
class MaterialAssets:
    """The materials and textures of a file, each written once."""

    files: TextureStore
    made: dict[tuple[object, ...], tuple[str, tuple[float, ...]]] = field(default_factory=dict)
    """What a material is like but for its colour -> its name in the file and its own colour."""
    textures: dict[str, str] = field(default_factory=dict)
    """Texture file beside the file -> the name of the texture."""

    def color_of(self, name: str) -> tuple[float, ...] | None:
        """The colour of a material by its name in the file; None where there is none."""
        return next((own for written, own in self.made.values() if written == name), None)
