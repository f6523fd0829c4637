"""Mesh files that are made: the kinds there are, and how each is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kinema.shapes import Appearance, MeshData

from .dressed_dae import dressed_dae
from .dressed_glb import dressed_glb
from .dressed_obj import dressed_obj, material_library, material_names, obj_text
from .texture_placement import with_laid_textures
from .textures import Losses

Place = Callable[[str], str]
"""Puts an image beside a mesh file and says where; `NoImage` where it cannot."""


def _write_obj(mesh: MeshData, appearance: Appearance | None, file: Path, place: Place, losses: Losses) -> None:
    """An OBJ, with its library of materials beside it."""
    if appearance is None:
        file.write_text(obj_text(mesh), encoding="utf-8")
        return
    looks = with_laid_textures(appearance)
    names = material_names(looks.materials)
    library = f"{file.stem}.mtl" if looks.materials else ""
    if library:
        text = material_library(looks.materials, names, place, losses)
        file.with_suffix(".mtl").write_text(text, encoding="utf-8")
    if len(looks.coordinates) > 1:
        losses.append((file.stem, "its second set of texture coordinates", "OBJ files have one"))
    if looks.colors is not None and (looks.colors.values[:, 3] != 1.0).any():
        losses.append((file.stem, "the opacity of its vertices", "OBJ files have none"))
    file.write_text(dressed_obj(mesh, looks, library, names), encoding="utf-8")


def _write_dae(mesh: MeshData, appearance: Appearance | None, file: Path, place: Place, losses: Losses) -> None:
    """A COLLADA file."""
    looks = None if appearance is None else with_laid_textures(appearance)
    file.write_text(dressed_dae(mesh, looks, file.stem, place, losses), encoding="utf-8")


def _write_glb(mesh: MeshData, appearance: Appearance | None, file: Path, place: Place, losses: Losses) -> None:
    """A binary glTF, which has its images inside."""
    del place
    # the robot's file may name the same image, and has no word for how it lies
    looks = None if appearance is None else with_laid_textures(appearance)
    with file.open("wb") as output:
        output.writelines(dressed_glb(mesh, looks, file.stem, losses))


MESH_WRITERS: dict[str, Callable[[MeshData, Appearance | None, Path, Place, Losses], None]] = {
    "obj": _write_obj,
    "dae": _write_dae,
    "glb": _write_glb,
}
"""The kinds of mesh files that can be made, by their suffixes."""
