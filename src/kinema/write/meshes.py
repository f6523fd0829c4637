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
from kinema.description import Mesh, Shape, mesh_data, worn_appearance
from kinema.foundation import clean_name, unique_name

from .loaded_meshes import LoadedMeshes
from .mesh_files import MESH_WRITERS
from .sidecars import sidecars
from .stand_ins import with_mean_color, without_images
from .texture_placement import lies_plainly
from .textures import Losses, TextureStore

FOLDER = "meshes"
_OBJ = "obj"
_NO_COORDINATES = "the mesh has no texture coordinates; in its file the mean colour stands for the texture"


@dataclass(slots=True, eq=False)
class MeshStore:
    """Copies or makes the mesh files that a written file refers to, each once.

    Meshes that come from a file the target can read are copied as they are, and their scale is left to the target;
    all others, and all where scale is to be baked, are written as OBJ with full precision. Where another kind of file
    is wanted, all that is seen is of that kind; what collides only is not touched by it.
    """

    draft: Path
    """The folder in which the files are made (see `files.staging`)."""
    suffixes: Collection[str]
    """Suffixes of files that the target can read."""
    mode: str = "copy"
    """`copy` files as they are; `bake` scale into new ones; `reference` the original files where they lie."""
    keeps_layers: bool = False
    """Whether normals and texture coordinates of meshes given in place are written, though no materials."""
    kind: str = ""
    """The kind of mesh file that is wanted for what is seen (see `MESH_WRITERS`); empty for any that can be read."""
    textures: TextureStore = field(init=False)
    dressed: set[str] = field(default_factory=set)
    """Files that were made with the materials of what they show."""
    unsaid: Losses = field(default_factory=list)
    """What made mesh files cannot say of their materials."""
    approximated: Losses = field(default_factory=list)
    """What they say nearly."""
    _made: dict[object, str] = field(default_factory=dict)
    _loaded: LoadedMeshes = field(default_factory=LoadedMeshes)
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
        is_kept = self.keeps_file(mesh, suffixes, seen_on=seen_on)
        if is_kept and self.mode == "reference":
            return mesh.path, mesh.scale
        if is_kept and self.mode == "copy":
            return self._copied(Path(mesh.path)), mesh.scale
        return self._baked(mesh, name, seen_on)

    def keeps_file(self, mesh: Mesh, suffixes: Collection[str] | None = None, *, seen_on: Shape | None = None) -> bool:
        """Whether the mesh's own file is referred to, or copied as it is, and no new one made; see `place`."""
        if self.mode == "bake" or not mesh.path or mesh.vertices is not None or mesh.submesh:
            return False
        if seen_on is not None and _is_laid_anew(mesh, seen_on):
            return False  # only a new file has the texture coordinates
        readable = self.suffixes if suffixes is None else suffixes
        return Path(mesh.path).suffix.lower() in ((f".{self.kind}",) if self.kind and seen_on is not None else readable)

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
            data, appearance = self._layers_of(mesh) if self.keeps_layers else self._with_looks(mesh, seen_on)
        except shapes.MeshError:
            data, appearance = None, None
        if data is None:
            return None
        kind = self.kind if self.kind and seen_on is not None else _OBJ
        plain = kind.encode() + data.vertices.tobytes() + data.faces.tobytes()
        key = hashlib.sha256(plain + (b"" if appearance is None else appearance_key(appearance))).hexdigest()
        if key not in self._made:
            stem = unique_name(clean_name(Path(mesh.path).stem if mesh.path else name or "mesh"), self._taken)
            self._made[key] = f"{FOLDER}/{stem}.{kind}"
            place = self.draft / self._made[key]
            place.parent.mkdir(parents=True, exist_ok=True)
            MESH_WRITERS[kind](data, appearance, place, self._texture, self.unsaid)
            if appearance is not None and appearance.materials:
                self.dressed.add(self._made[key])
        return self._made[key], np.ones(3)

    def _layers_of(self, mesh: Mesh) -> tuple[shapes.MeshData | None, shapes.Appearance | None]:
        """The triangles with their scale, their normals and their texture coordinates."""
        if mesh.appearance is None or mesh.vertices is None:
            return mesh_data(mesh), None
        layers = dataclasses.replace(mesh.appearance, materials=(), material_of_face=None, colors=None)
        return mesh_data(mesh), None if layers.is_empty else layers.under(np.diag(mesh.scale))

    def _with_looks(self, mesh: Mesh, seen_on: Shape | None) -> tuple[shapes.MeshData | None, shapes.Appearance | None]:
        """The triangles with their scale, and what is seen on them where that is wanted."""
        if seen_on is None:
            return mesh_data(mesh), None
        dressed = self._loaded.get(mesh)
        if dressed is None:
            return None, None
        scale = np.diag(mesh.scale)
        appearance = worn_appearance(seen_on, dressed).under(scale)
        # faces that have nothing on them but one plain material are as the robot's file says
        is_told = not self.kind and all(look is seen_on.material for look in appearance.materials)
        says_nothing = appearance.is_empty or (_is_plain(appearance) and is_told)
        triangles = shapes.apply_linear(dressed.mesh, scale)
        return triangles, None if says_nothing else self._with_seen_images(appearance)

    def _with_seen_images(self, appearance: shapes.Appearance) -> shapes.Appearance:
        """The same without the images of what has no texture coordinates: their mean colour stands for them."""
        looks = tuple(with_mean_color(look) for look in appearance.materials)
        if not appearance.coordinates:
            self.approximated += [(look.name, "its images", _NO_COORDINATES) for look in looks if look.images]
            looks = tuple(without_images(look) if look.images else look for look in looks)
        return dataclasses.replace(appearance, materials=looks)

    def _texture(self, image: str) -> str:
        """The reference to an image from the folder of meshes, where it has to lie: not all readers look elsewhere."""
        place = self.textures.place(image, folder=FOLDER)
        return place.removeprefix(f"{FOLDER}/")


def _is_laid_anew(mesh: Mesh, seen_on: Shape) -> bool:
    """Whether images lie on the mesh in another way than the texture coordinates in its file say."""
    material = seen_on.material
    return mesh.projection is not None or (
        material is not None and bool(material.texture) and not lies_plainly(material.placement)
    )


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
