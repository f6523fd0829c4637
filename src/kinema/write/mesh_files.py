"""Mesh files beside the written file: copied with sidecar files, referenced, or written as OBJ, COLLADA or GLB."""

from __future__ import annotations

import dataclasses
import hashlib
import posixpath
import re
import shutil
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from kinema import geometry
from kinema.core import to_identifier, unique_name
from kinema.description import Mesh, Shape, effective_appearance, load_textured_mesh, mesh_data
from kinema.geometry import IMAGE_SUFFIXES, Appearance, LoadedMesh, MeshData, glb_chunks

from .collada_file import collada_text
from .loss_report import LossReporter
from .obj_file import material_names, mtl_text, obj_text, textured_obj_text
from .textures import (
    LossEntries,
    TextureStore,
    bake_texture_mappings,
    is_default_mapping,
    with_mean_color,
    without_images,
)

# ----------------------------------------------------------------------------------------------------------- mesh cache

_MAX_CACHED_BYTES = 16 * 2**20
"""Memory limit of the mesh cache [bytes]; the most recently loaded mesh is always kept."""


@dataclass(slots=True, eq=False)
class MeshCache:
    """Least-recently-used cache of loaded mesh files with their appearance."""

    load: Callable[[Mesh], LoadedMesh | None] = load_textured_mesh
    _entries: OrderedDict[tuple[object, ...], tuple[LoadedMesh | None, int]] = field(default_factory=OrderedDict)
    _cached_bytes: int = 0

    def get(self, mesh: Mesh) -> LoadedMesh | None:
        """Unscaled triangles and appearance of a mesh, or None. Meshes given in place are not cached."""
        if mesh.vertices is not None:
            return self.load(mesh)
        key = (mesh.path, mesh.submesh, mesh.center_submesh, mesh.projection)
        if key in self._entries:
            self._entries.move_to_end(key)
            return self._entries[key][0]
        loaded = self.load(mesh)
        self._entries[key] = (loaded, _mesh_bytes(loaded))
        self._cached_bytes += self._entries[key][1]
        while self._cached_bytes > _MAX_CACHED_BYTES and len(self._entries) > 1:
            self._cached_bytes -= self._entries.popitem(last=False)[1][1]
        return loaded


def _mesh_bytes(loaded: LoadedMesh | None) -> int:
    """Approximate memory of a loaded mesh and its vertex attributes [bytes]."""
    if loaded is None:
        return 0
    size = loaded.mesh.vertices.nbytes + loaded.mesh.faces.nbytes
    looks = loaded.appearance
    if looks is not None:
        layers = [layer for layer in (looks.normals, *looks.texture_coordinates, looks.colors) if layer is not None]
        size += sum(layer.values.nbytes + layer.indices.nbytes for layer in layers)
    return size


# ---------------------------------------------------------------------------------------------------- mesh file writers

ImagePlacer = Callable[[str], str]
"""Places an image beside a mesh file and returns its reference; raises `ImageUnavailableError` if impossible."""


def _write_obj(
    mesh: MeshData, appearance: Appearance | None, file: Path, place_image: ImagePlacer, losses: LossEntries
) -> None:
    """Write an OBJ file and, if the appearance has materials, an MTL library of the same stem beside it.

    Texture mappings are baked into the texture coordinates. A second set of texture coordinates and vertex opacity are
    appended to the losses.
    """
    if appearance is None:
        file.write_text(obj_text(mesh), encoding="utf-8")
        return
    looks = bake_texture_mappings(appearance)
    names = material_names(looks.materials)
    library = f"{file.stem}.mtl" if looks.materials else ""
    if library:
        text = mtl_text(looks.materials, names, place_image, losses)
        file.with_suffix(".mtl").write_text(text, encoding="utf-8")
    if len(looks.texture_coordinates) > 1:
        losses.append((file.stem, "its second set of texture coordinates", "OBJ files have one"))
    if looks.colors is not None and (looks.colors.values[:, 3] != 1.0).any():
        losses.append((file.stem, "the opacity of its vertices", "OBJ files have none"))
    file.write_text(textured_obj_text(mesh, looks, library, names), encoding="utf-8")


def _write_dae(
    mesh: MeshData, appearance: Appearance | None, file: Path, place_image: ImagePlacer, losses: LossEntries
) -> None:
    """Write a COLLADA file with texture mappings baked into the texture coordinates."""
    looks = None if appearance is None else bake_texture_mappings(appearance)
    file.write_text(collada_text(mesh, looks, file.stem, place_image, losses), encoding="utf-8")


def _write_glb(
    mesh: MeshData, appearance: Appearance | None, file: Path, place_image: ImagePlacer, losses: LossEntries
) -> None:
    """Write a GLB file with embedded images and texture mappings baked into the texture coordinates."""
    del place_image
    # the robot's file may name the same image, and has no word for how it lies
    looks = None if appearance is None else bake_texture_mappings(appearance)
    with file.open("wb") as output:
        output.writelines(glb_chunks(mesh, looks, file.stem, losses))


MESH_WRITERS: dict[str, Callable[[MeshData, Appearance | None, Path, ImagePlacer, LossEntries], None]] = {
    "obj": _write_obj,
    "dae": _write_dae,
    "glb": _write_glb,
}
"""Mesh file writers by suffix."""


# ---------------------------------------------------------------------------------------------- sidecar files of meshes

_MTL_OPTIONS = rb"(?:-\w+(?:[ \t]+(?:on|off|[rgbmlz]|[-+]?[\d.]+(?:[eE][-+]?\d+)?))*[ \t]+)*"
_REFERENCE_PATTERNS = {
    ".obj": (rb"^[ \t]*mtllib[ \t]+(.+?)[ \t]*\r?$",),
    ".mtl": (rb"^[ \t]*(?:map_\w+|bump|disp|decal|refl|norm)[ \t]+" + _MTL_OPTIONS + rb"(.+?)[ \t]*\r?$",),
    ".gltf": (rb'"uri"\s*:\s*"((?!data:)[^"]+)"',),
    ".dae": (rb"<init_from>\s*([^<#]+?)\s*</init_from>", rb"<ref>\s*([^<#]+?)\s*</ref>"),
}


def find_sidecar_files(mesh_file: Path) -> tuple[list[str], list[str]]:
    """Files referenced by a mesh file (material libraries, textures), as paths relative to it, in a fixed order.

    Returns:
        Files that can be copied with the mesh at the same relative path (in its folder or below, and images below the
        parent folder such as `../textures/a.png`), and existing images that are too far away.
    """
    along, away = [], []
    for name in _referenced_files(mesh_file):
        if _keeps_relative_path(mesh_file, name):
            along.append(name)
        elif Path(name).suffix.lower() in IMAGE_SUFFIXES and (mesh_file.parent / name).is_file():
            away.append(name)
    return along, away


def _referenced_files(mesh_file: Path) -> list[str]:
    """Transitive references of a mesh file, relative to it; only files with copyable relative paths are followed."""
    found: list[str] = []
    waiting = [mesh_file]
    while waiting:
        for name in _direct_references(waiting.pop()):
            if name not in found:
                found.append(name)
                if _keeps_relative_path(mesh_file, name):
                    waiting.append(mesh_file.parent / name)
    return found


def _keeps_relative_path(mesh_file: Path, name: str) -> bool:
    """Whether a referenced file lies below the mesh's folder, or is an image below the folder's parent."""
    path = mesh_file.parent / name
    if _is_below(path, mesh_file.parent):
        return True
    is_near = posixpath.normpath(name).count("..") == 1 and not posixpath.isabs(name)
    return is_near and path.suffix.lower() in IMAGE_SUFFIXES and _is_below(path, mesh_file.parent.parent)


def _direct_references(file: Path) -> list[str]:
    """References in an OBJ, MTL, glTF or COLLADA file, by regular expressions; empty for other files."""
    patterns = _REFERENCE_PATTERNS.get(file.suffix.lower(), ())
    try:
        data = file.read_bytes() if patterns else b""
    except OSError:
        return []
    return [
        unquote(m.decode("utf-8", "replace")).replace("\\", "/")
        for p in patterns
        for m in re.findall(p, data, re.MULTILINE)
    ]


def _is_below(path: Path, folder: Path) -> bool:
    try:
        return path.is_file() and path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError):
        return False


# ----------------------------------------------------------------------------------------------------------- mesh store

MESH_FOLDER = "meshes"
_OBJ = "obj"
_NO_TEXCOORDS_TEXT = "the mesh has no texture coordinates; in its file the mean colour stands for the texture"


@dataclass(slots=True, eq=False)
class MeshStore:
    """Copies or writes the mesh files that a written file refers to, each content once.

    Meshes from a file that the target can read are copied, and their scale is left to the target. All other meshes, and
    all meshes in mode `bake`, are written as OBJ in full precision. If `visual_format` is given, visual meshes are
    written in this format; meshes that only collide are unaffected.
    """

    staging_folder: Path
    """Folder in which the files are created (see `files.stage_files`)."""
    suffixes: Collection[str]
    """File suffixes that the target can read."""
    mode: str = "copy"
    """`copy`: copy files; `bake`: write new files with the scale applied; `reference`: refer to original files."""
    keeps_vertex_attributes: bool = False
    """Whether normals and texture coordinates (without materials) of meshes given in place are written."""
    visual_format: str = ""
    """File format of visual meshes (key of `MESH_WRITERS`); empty for any readable format."""
    textures: TextureStore = field(init=False)
    textured_files: set[str] = field(default_factory=set)
    """Written files that contain materials."""
    unsupported: LossEntries = field(default_factory=list)
    """Material properties that the written mesh files cannot represent."""
    approximated: LossEntries = field(default_factory=list)
    """Material properties that the written mesh files approximate."""
    _written_files: dict[object, str] = field(default_factory=dict)
    _mesh_cache: MeshCache = field(default_factory=MeshCache)
    _taken_names: set[str] = field(default_factory=set)
    missing_sidecars: list[tuple[str, str, str]] = field(default_factory=list)
    """Mesh file, referenced texture or material library that could not be placed beside it, and the reason."""

    def __post_init__(self) -> None:
        self.textures = TextureStore(self.staging_folder, self.mode == "reference")

    def report_losses(self, reporter: LossReporter) -> None:
        """Report missing files beside meshes, and materials that mesh files do not or only approximately represent."""
        for mesh, name, why in self.missing_sidecars:
            reporter.report_dropped(("mesh", mesh), f"the file {name!r} that it refers to", why)
        for material, what, why in self.unsupported:
            reporter.report_dropped(("material", material), what, why)
        for material, what, how in self.approximated:
            reporter.report_approximated(("material", material), what, how)

    def place_mesh(
        self, mesh: Mesh, name: str, suffixes: Collection[str] | None = None, *, visual_shape: Shape | None = None
    ) -> tuple[str, np.ndarray] | None:
        """Copy, reference or write the file of a mesh.

        Args:
            mesh: the mesh.
            name: file stem for meshes without a file.
            suffixes: suffixes that the target can read, if they depend on the use of the mesh.
            visual_shape: the visual shape of the mesh; a new file then contains its materials, normals and so on.

        Returns:
            Reference to the file and scale (3,) to write with it; None if the mesh cannot be loaded.
        """
        is_kept = self.uses_original_file(mesh, suffixes, visual_shape=visual_shape)
        if is_kept and self.mode == "reference":
            return mesh.path, mesh.scale
        if is_kept and self.mode == "copy":
            return self._copy_mesh(Path(mesh.path)), mesh.scale
        return self._write_mesh(mesh, name, visual_shape)

    def uses_original_file(
        self, mesh: Mesh, suffixes: Collection[str] | None = None, *, visual_shape: Shape | None = None
    ) -> bool:
        """Whether `place_mesh` references or copies the original file of a mesh instead of writing a new one."""
        if self.mode == "bake" or not mesh.path or mesh.vertices is not None or mesh.submesh:
            return False
        if visual_shape is not None and _needs_new_texcoords(mesh, visual_shape):
            return False  # only a new file has the texture coordinates
        readable = self.suffixes if suffixes is None else suffixes
        return Path(mesh.path).suffix.lower() in (
            (f".{self.visual_format}",) if self.visual_format and visual_shape is not None else readable
        )

    def _copy_mesh(self, source: Path) -> str:
        """Copy a mesh file with its sidecar files into the staging folder, once, and return its relative path."""
        key = str(source)
        if key not in self._written_files:
            stem = unique_name(to_identifier(source.stem), self._taken_names)
            self._written_files[key] = f"{MESH_FOLDER}/{stem}{source.suffix.lower()}"
            place = self.staging_folder / self._written_files[key]
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, place)
            along, away = find_sidecar_files(source)
            for name in along:
                self._copy_sidecar(source, name)
            for name in away:
                self.missing_sidecars.append((str(source), name, "it lies too far from the mesh to be put beside it"))
        return self._written_files[key]

    def _copy_sidecar(self, mesh: Path, name: str) -> None:
        """Copy a file referenced by a mesh to the same relative path; report a name clash with different content."""
        place = self.staging_folder / MESH_FOLDER / name
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(mesh.parent / name, place)
        elif place.read_bytes() != (mesh.parent / name).read_bytes():
            self.missing_sidecars.append((str(mesh), name, "another mesh has one of that name"))

    def _write_mesh(self, mesh: Mesh, name: str, visual_shape: Shape | None) -> tuple[str, np.ndarray] | None:
        """Write the scaled triangles of a mesh, with appearance if visual, to a new file; equal contents share a file.

        Returns:
            Relative path and unit scale; None if the mesh cannot be loaded.
        """
        try:
            data, appearance = (
                self._with_vertex_attributes(mesh)
                if self.keeps_vertex_attributes
                else self._with_appearance(mesh, visual_shape)
            )
        except geometry.MeshError:
            data, appearance = None, None
        if data is None:
            return None
        kind = self.visual_format if self.visual_format and visual_shape is not None else _OBJ
        plain = kind.encode() + data.vertices.tobytes() + data.faces.tobytes()
        key = hashlib.sha256(plain + (b"" if appearance is None else appearance_digest(appearance))).hexdigest()
        if key not in self._written_files:
            stem = unique_name(to_identifier(Path(mesh.path).stem if mesh.path else name or "mesh"), self._taken_names)
            self._written_files[key] = f"{MESH_FOLDER}/{stem}.{kind}"
            place = self.staging_folder / self._written_files[key]
            place.parent.mkdir(parents=True, exist_ok=True)
            MESH_WRITERS[kind](data, appearance, place, self._place_texture, self.unsupported)
            if appearance is not None and appearance.materials:
                self.textured_files.add(self._written_files[key])
        return self._written_files[key], np.ones(3)

    def _with_vertex_attributes(self, mesh: Mesh) -> tuple[geometry.MeshData | None, geometry.Appearance | None]:
        """Scaled triangles of a mesh, with normals and texture coordinates if the mesh is given in place."""
        if mesh.appearance is None or mesh.vertices is None:
            return mesh_data(mesh), None
        layers = dataclasses.replace(mesh.appearance, materials=(), face_material_indices=None, colors=None)
        return mesh_data(mesh), None if layers.is_empty else layers.transformed(np.diag(mesh.scale))

    def _with_appearance(
        self, mesh: Mesh, visual_shape: Shape | None
    ) -> tuple[geometry.MeshData | None, geometry.Appearance | None]:
        """Scaled triangles of a mesh and, for a visual shape, their appearance.

        The appearance is None if the faces have only the shape's own material, which the target file states itself.
        """
        if visual_shape is None:
            return mesh_data(mesh), None
        dressed = self._mesh_cache.get(mesh)
        if dressed is None:
            return None, None
        scale = np.diag(mesh.scale)
        appearance = effective_appearance(visual_shape, dressed).transformed(scale)
        # faces that have nothing on them but one plain material are as the robot's file says
        is_told = not self.visual_format and all(look is visual_shape.material for look in appearance.materials)
        says_nothing = appearance.is_empty or (_has_no_vertex_attributes(appearance) and is_told)
        triangles = geometry.apply_affine(dressed.mesh, scale)
        return triangles, None if says_nothing else self._replace_unmapped_images(appearance)

    def _replace_unmapped_images(self, appearance: geometry.Appearance) -> geometry.Appearance:
        """The appearance with images replaced by their mean colour if there are no texture coordinates; adds losses."""
        looks = tuple(with_mean_color(look) for look in appearance.materials)
        if not appearance.texture_coordinates:
            self.approximated += [
                (look.name, "its images", _NO_TEXCOORDS_TEXT) for look in looks if look.image_references
            ]
            looks = tuple(without_images(look) if look.image_references else look for look in looks)
        return dataclasses.replace(appearance, materials=looks)

    def _place_texture(self, image: str) -> str:
        """Place an image in the mesh folder, where all readers find it, and return its path relative to the folder."""
        place = self.textures.place_image(image, folder=MESH_FOLDER)
        return place.removeprefix(f"{MESH_FOLDER}/")


def _needs_new_texcoords(mesh: Mesh, visual_shape: Shape) -> bool:
    """Whether the texture mapping of a visual shape differs from the texture coordinates in the mesh file."""
    material = visual_shape.material
    return mesh.projection is not None or (
        material is not None and bool(material.texture) and not is_default_mapping(material.texture_mapping)
    )


def _has_no_vertex_attributes(appearance: geometry.Appearance) -> bool:
    return appearance.normals is None and not appearance.texture_coordinates and appearance.colors is None


def has_face_materials(shape: Shape) -> bool:
    """Whether a mesh given in place has per-face materials, which a single material would hide."""
    mesh = shape.geometry
    return isinstance(mesh, Mesh) and mesh.appearance is not None and bool(mesh.appearance.materials)


def appearance_digest(appearance: geometry.Appearance) -> bytes:
    """SHA-256 digest of an appearance (vertex attributes, face materials, materials) for deduplication."""
    digest = hashlib.sha256()
    for layer in (appearance.normals, *appearance.texture_coordinates, appearance.colors):
        if layer is not None:
            digest.update(layer.values.tobytes() + layer.indices.tobytes())
        digest.update(b"|")
    if appearance.face_material_indices is not None:
        digest.update(appearance.face_material_indices.tobytes())
    for look in appearance.materials:
        digest.update(repr(material_key(look)).encode())
    return digest.digest()


def material_key(material: geometry.PbrMaterial) -> tuple[object, ...]:
    """Hashable key of a material's properties for deduplication."""
    return tuple((f.name, repr(getattr(material, f.name))) for f in dataclasses.fields(geometry.PbrMaterial))
