"""Mesh files beside the file that is written."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kinema import shapes
from kinema.description import Mesh, Shape, dressed_mesh, mesh_data, worn_appearance
from kinema.foundation import clean_name, unique_name

from .dressed_obj import Losses, dressed_obj, material_library, material_names, rows
from .sidecars import sidecars
from .text import number
from .texture_placement import with_laid_textures
from .textures import TextureStore

FOLDER = "meshes"


@dataclass(slots=True, eq=False)
class MeshStore:
    """Copies or makes the mesh files that a written file refers to, each once.

    Meshes that come from a file the target can read are copied as they are, and their scale is left to the target;
    all others, and all where scale is to be baked, are written as OBJ with full precision.
    """

    draft: Path
    """The folder in which the files are made (see `files.staging`)."""
    suffixes: Collection[str]
    """Suffixes of files that the target can read."""
    mode: str = "copy"
    """`copy` files as they are; `bake` scale into new ones; `reference` the original files where they lie."""
    keeps_layers: bool = False
    """Whether normals and texture coordinates of meshes given in place are written, though no materials."""
    textures: TextureStore = field(init=False)
    unsaid: Losses = field(default_factory=list)
    """Of materials in the libraries of written meshes, what these cannot say."""
    _made: dict[object, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    left_behind: list[tuple[str, str, str]] = field(default_factory=list)
    """Mesh files, the textures and material libraries they refer to that could not be put beside them, and why."""

    def __post_init__(self) -> None:
        self.textures = TextureStore(self.draft, self.mode == "reference")

    def place(
        self, mesh: Mesh, name: str, suffixes: Collection[str] | None = None, *, seen_on: Shape | None = None
    ) -> tuple[str, np.ndarray] | None:
        """The reference to write for a mesh and the scale to write with it; None where there is nothing to refer to.

        Args:
            mesh: the mesh.
            name: what to call the file, where the mesh has none of its own.
            suffixes: suffixes of files that the target can read, where they depend on what the mesh is for.
            seen_on: the shape that it is the look of: a new file then has its materials, normals and so on.
        """
        readable = bool(mesh.path) and mesh.vertices is None and not mesh.submesh
        readable &= Path(mesh.path).suffix.lower() in (self.suffixes if suffixes is None else suffixes)
        if readable and self.mode == "reference":
            return mesh.path, mesh.scale
        if readable and self.mode == "copy":
            return self._copied(Path(mesh.path)), mesh.scale
        return self._baked(mesh, name, seen_on)

    def _copied(self, source: Path) -> str:
        key = str(source)
        if key not in self._made:
            stem = unique_name(clean_name(source.stem), self._taken)
            self._made[key] = f"{FOLDER}/{stem}{source.suffix.lower()}"
            place = self.draft / self._made[key]
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, place)
            along, away = sidecars(source)
            for name in along:
                self._copy_sidecar(source, name)
            for name in away:
                self.left_behind.append((str(source), name, "it lies too far from the mesh to be put beside it"))
        return self._made[key]

    def _copy_sidecar(self, mesh: Path, name: str) -> None:
        """Put a file that a mesh refers to beside its copy, under the name that the mesh calls it by."""
        place = self.draft / FOLDER / name
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(mesh.parent / name, place)
        elif place.read_bytes() != (mesh.parent / name).read_bytes():
            self.left_behind.append((str(mesh), name, "another mesh has one of that name"))

    def _baked(self, mesh: Mesh, name: str, seen_on: Shape | None) -> tuple[str, np.ndarray] | None:
        try:
            data, appearance = self._layers_of(mesh) if self.keeps_layers else _with_looks(mesh, seen_on)
        except shapes.MeshError:
            data, appearance = None, None
        if data is None:
            return None
        plain = data.vertices.tobytes() + data.faces.tobytes()
        key = hashlib.sha256(plain + (b"" if appearance is None else appearance_key(appearance))).hexdigest()
        if key not in self._made:
            stem = unique_name(clean_name(Path(mesh.path).stem if mesh.path else name or "mesh"), self._taken)
            self._made[key] = f"{FOLDER}/{stem}.obj"
            place = self.draft / self._made[key]
            place.parent.mkdir(parents=True, exist_ok=True)
            text = obj_text(data) if appearance is None else self._dressed(data, appearance, place)
            place.write_text(text, encoding="utf-8")
        return self._made[key], np.ones(3)

    def _layers_of(self, mesh: Mesh) -> tuple[shapes.MeshData | None, shapes.Appearance | None]:
        """The triangles with their scale, their normals and their texture coordinates."""
        if mesh.appearance is None or mesh.vertices is None:
            return mesh_data(mesh), None
        layers = dataclasses.replace(mesh.appearance, materials=(), material_of_face=None, colors=None)
        return mesh_data(mesh), None if layers.is_empty else layers.under(np.diag(mesh.scale))

    def _dressed(self, data: shapes.MeshData, appearance: shapes.Appearance, place: Path) -> str:
        """The text of an OBJ file; its library is written beside it."""
        names = material_names(appearance.materials)
        library = f"{place.stem}.mtl" if appearance.materials else ""
        if library:
            text = material_library(appearance.materials, names, self._texture, self.unsaid)
            place.with_suffix(".mtl").write_text(text, encoding="utf-8")
        if len(appearance.coordinates) > 1:
            self.unsaid.append((place.stem, "its second set of texture coordinates", "OBJ files have one"))
        if appearance.colors is not None and (appearance.colors.values[:, 3] != 1.0).any():
            self.unsaid.append((place.stem, "the opacity of its vertices", "OBJ files have none"))
        return dressed_obj(data, appearance, library, names)

    def _texture(self, image: str) -> str:
        """The reference to an image from the folder of meshes, where it has to lie: not all readers look elsewhere."""
        place = self.textures.place(image, folder=FOLDER)
        return place.removeprefix(f"{FOLDER}/")


def _with_looks(mesh: Mesh, seen_on: Shape | None) -> tuple[shapes.MeshData | None, shapes.Appearance | None]:
    """The triangles with their scale, and what is seen on them where that is wanted."""
    if seen_on is None:
        return mesh_data(mesh), None
    dressed = dressed_mesh(mesh)
    if dressed is None:
        return None, None
    scale = np.diag(mesh.scale)
    appearance = worn_appearance(seen_on, dressed).under(scale)
    # faces that have nothing on them but one plain material are as the robot's file says
    is_told = all(look is seen_on.material for look in appearance.materials)
    says_nothing = appearance.is_empty or (_is_plain(appearance) and is_told)
    return shapes.apply_linear(dressed.mesh, scale), None if says_nothing else with_laid_textures(appearance)


def _is_plain(appearance: shapes.Appearance) -> bool:
    return appearance.normals is None and not appearance.coordinates and appearance.colors is None


def has_parts(shape: Shape) -> bool:
    """Whether the faces of a mesh given in place have materials of their own: one for the whole would hide them."""
    mesh = shape.geometry
    return isinstance(mesh, Mesh) and mesh.appearance is not None and bool(mesh.appearance.materials)


def appearance_key(appearance: shapes.Appearance) -> bytes:
    """Appearances that are equal by this are the same."""
    digest = hashlib.sha256()
    for layer in (appearance.normals, *appearance.coordinates, appearance.colors):
        if layer is not None:
            digest.update(layer.values.tobytes() + layer.corners.tobytes())
        digest.update(b"|")
    if appearance.material_of_face is not None:
        digest.update(appearance.material_of_face.tobytes())
    for look in appearance.materials:
        digest.update(repr(look_key(look)).encode())
    return digest.digest()


def look_key(look: shapes.Look) -> tuple[object, ...]:
    """Looks that are equal by this are the same."""
    return tuple((f.name, repr(getattr(look, f.name))) for f in dataclasses.fields(shapes.Look))


def obj_text(mesh: shapes.MeshData) -> str:
    """The mesh as a Wavefront OBJ file; numbers read back exactly."""
    lines = [f"v {number(x)} {number(y)} {number(z)}\n" for x, y, z in mesh.vertices.tolist()]
    return "".join(lines) + rows("f %d %d %d\n", mesh.faces + 1)
