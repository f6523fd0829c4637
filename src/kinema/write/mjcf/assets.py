"""Mesh, height field and material assets of an MJCF file, each written once.

MuJoCo reads binary STL, OBJ and MSH meshes; other mesh files are converted to OBJ. MuJoCo refuses meshes without
volume: visual ones get shell inertia, colliding ones are given a negligible thickness.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kinema import geometry
from kinema.core import Pose
from kinema.description import HeightField, Mesh, mesh_data
from kinema.tokens import mjcf

from ..mesh_files import MESH_FOLDER, MeshCache, MeshStore, appearance_digest
from ..textures import TextureStore
from ..xml_document import Element, format_number, format_numbers
from .attributes import NameRegistry, vector_text

# ----------------------------------------------------------------------------------------- mesh and height field assets

MESH_SUFFIXES = (".stl", ".obj", ".msh")
"""Mesh file suffixes that MuJoCo reads."""
MAX_STL_FACES = 200_000
"""Maximum number of faces of an STL file in MuJoCo."""
_MIN_VOLUME = 1e-13
"""Volume [m3] below which MuJoCo refuses a solid mesh, with a margin."""
_MIN_AREA = 1e-13
"""Area [m2] below which MuJoCo refuses a mesh, with a margin."""


@dataclass(frozen=True, slots=True)
class MeshAsset:
    """Name of a mesh asset, and whether the mesh was thickened."""

    name: str
    thickened: bool = False


@dataclass(slots=True, eq=False)
class MeshAssets:
    """The mesh and height field assets of a file, each written once."""

    store: MeshStore
    asset_section: Element
    names: NameRegistry
    _assets: dict[object, MeshAsset | None] = field(default_factory=dict)
    _mesh_data: dict[object, geometry.MeshData | None] = field(default_factory=dict)
    textured_meshes: MeshCache = field(default_factory=MeshCache)
    """Cache of mesh files with their appearance."""

    def mesh_asset(
        self,
        mesh: Mesh,
        name: str,
        *,
        collides: bool,
        inertia: str = "",
        original_name: str = "",
        plugin: Element | None = None,
    ) -> MeshAsset | None:
        """Mesh asset of a mesh, written on first use; None if the mesh is unavailable.

        Args:
            mesh: the mesh.
            name: preferred name for meshes without a file.
            collides: whether MuJoCo needs the convex hull.
            inertia: MuJoCo's `inertia` attribute; empty for the default.
            original_name: asset name in the MJCF source; generated if empty.
            plugin: plugin element that generates the mesh instead of a file.
        """
        if plugin is not None and original_name:
            if (original_name, mjcf.PLUGIN) not in self._assets:
                self._assets[original_name, mjcf.PLUGIN] = self._write_plugin_asset(
                    original_name, plugin, inertia, mesh.max_hull_vertices
                )
            return self._assets[original_name, mjcf.PLUGIN]
        data = self._usable_triangles(mesh)
        if data is None:
            return None
        flat = geometry.is_planar(data)
        thickened = flat and (collides or len(np.unique(data.vertices, axis=0)) < 4)
        key = (*_mesh_key(mesh), mesh.max_hull_vertices, inertia, thickened, original_name)
        if key not in self._assets:
            self._assets[key] = self._write_asset(
                mesh, original_name or name, data, inertia, original_name, thickened=thickened
            )
        return self._assets[key]

    def _usable_triangles(self, mesh: Mesh) -> geometry.MeshData | None:
        key = _mesh_key(mesh)
        if key not in self._mesh_data:
            self._mesh_data[key] = _load_usable_mesh(mesh)
        return self._mesh_data[key]

    def _write_asset(
        self, mesh: Mesh, name: str, data: geometry.MeshData, inertia: str, original_name: str, *, thickened: bool
    ) -> MeshAsset | None:
        """Write the file and the asset element of a mesh, thickened or converted to OBJ if MuJoCo needs it."""
        if thickened:
            thicker = geometry.thicken_planar_mesh(data)
            if thicker is None:
                return None
            data = thicker
            mesh = dataclasses.replace(
                mesh, path="", vertices=data.vertices, faces=data.faces, appearance=None, scale=np.ones(3)
            )
        elif not _is_readable_by_mujoco(mesh, data):
            name = Path(mesh.path).stem or name
            mesh = dataclasses.replace(mesh, path="", vertices=data.vertices, faces=data.faces, scale=np.ones(3))
        placed = self.store.place_mesh(mesh, name)
        if placed is None:
            return None
        file, scale = placed
        if not inertia and _unsigned_volume(data) < _MIN_VOLUME:
            inertia = "shell"
        stem = Path(file).stem
        asset_name = self.names.new_name(mjcf.MESH, original_name or stem)
        self.asset_section.add_child(
            mjcf.MESH,
            name=asset_name if asset_name != stem else None,
            file=file.removeprefix(f"{MESH_FOLDER}/"),
            scale=None if (scale == 1).all() else vector_text(scale),
            inertia=inertia or None,
            maxhullvert=None if mesh.max_hull_vertices is None else str(max(4, mesh.max_hull_vertices)),
        )
        return MeshAsset(asset_name, thickened)

    def _write_plugin_asset(
        self, original_name: str, plugin: Element, inertia: str, max_hull_vertices: int | None
    ) -> MeshAsset:
        """Write the asset element of a mesh that a MuJoCo plugin generates."""
        name = self.names.new_name(mjcf.MESH, original_name)
        element = self.asset_section.add_child(
            mjcf.MESH,
            name=name,
            inertia=inertia or None,
            maxhullvert=None if max_hull_vertices is None else str(max_hull_vertices),
        )
        element.children.append(plugin)
        return MeshAsset(name)

    # -- height fields ------------------------------------------------------------------------------------------------

    def height_field_asset(
        self, height_field: HeightField, name: str, original_size: Sequence[float] | None = None
    ) -> tuple[str, Pose] | None:
        """Write a height field asset and return its name and the pose offset of its geom; None for invalid heights.

        MuJoCo counts heights from the lowest point, which the offset along z compensates. `original_size` is the size
        in the MJCF source; it gives the elevation of flat height fields.
        """
        heights = np.asarray(height_field.heights, dtype=np.float64)
        if heights.ndim != 2 or min(heights.shape) < 2 or not np.isfinite(heights).all():
            return None
        lowest, highest = float(heights.min()), float(heights.max())
        # a plain terrain begins at zero already, and stays where it is
        base = height_field.base + lowest
        rows = [format_numbers((row - lowest).tolist()) for row in heights[::-1]]  # the first row in the file is at +y
        asset_name = self.names.new_name(mjcf.HFIELD, name)
        flat = original_size[2] if original_size is not None and original_size[2] > 0 else 1.0
        size = (
            height_field.size[0] / 2,
            height_field.size[1] / 2,
            highest - lowest or flat,
            base if base > 0 else 1e-3,
        )
        self.asset_section.add_child(
            mjcf.HFIELD,
            name=asset_name,
            nrow=str(heights.shape[0]),
            ncol=str(heights.shape[1]),
            size=format_numbers(size),
            elevation="  ".join(rows),
        )
        return asset_name, Pose.translation((0.0, 0.0, lowest))


def _mesh_key(mesh: Mesh) -> tuple[object, ...]:
    """Hashable key of a mesh's content, part and scale for deduplication."""
    content: object = mesh.path
    if mesh.vertices is not None and mesh.faces is not None:
        layers = b"" if mesh.appearance is None else appearance_digest(mesh.appearance)
        content = hashlib.sha256(mesh.vertices.tobytes() + np.asarray(mesh.faces).tobytes() + layers).digest()
    return (content, mesh.submesh, mesh.center_submesh, tuple(mesh.scale.tolist()))


def _is_readable_by_mujoco(mesh: Mesh, data: geometry.MeshData) -> bool:
    """Whether MuJoCo can read a mesh's file; False for text STL and STL with too many faces."""
    path = Path(mesh.path) if mesh.path else None
    if path is None or path.suffix.lower() != ".stl":
        return True  # the store knows by the suffix
    size = path.stat().st_size
    with path.open("rb") as file:
        header = file.read(84)
    is_binary = len(header) == 84 and size == 84 + 50 * int.from_bytes(header[80:84], "little")
    return is_binary and data.n_faces <= MAX_STL_FACES


def _load_usable_mesh(mesh: Mesh) -> geometry.MeshData | None:
    """Triangles of a mesh; None if it cannot be loaded, is invalid or has a negligible area."""
    try:
        data = mesh_data(mesh)
        if data is None or _surface_area(geometry.validate_mesh(data)) < _MIN_AREA:
            return None
    except geometry.GeometryError:
        return None
    return data


def _surface_area(data: geometry.MeshData) -> float:
    a, b, c = (data.triangles()[:, corner] for corner in range(3))
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2)


def _unsigned_volume(data: geometry.MeshData) -> float:
    """Sum of the unsigned volumes [m3] of the pyramids from the centroid over all triangles, as MuJoCo's default."""
    center = data.vertices.mean(axis=0)
    a, b, c = (data.triangles()[:, corner] - center for corner in range(3))
    return float(np.abs(np.einsum("ij,ij->i", a, np.cross(b, c))).sum() / 6)


def thickened_mesh_text() -> str:
    """Report text for a thickened planar mesh."""
    thickness = format_number(geometry.PLANAR_MESH_THICKNESS)
    return f"MuJoCo takes no flat mesh for collision; it is given a thickness of {thickness} of its size"


# ------------------------------------------------------------------------------------------ material and texture assets


@dataclass(slots=True, eq=False)
class MaterialAssets:
    """Material and texture assets of a file, each written once."""

    texture_store: TextureStore
    written_materials: dict[tuple[object, ...], tuple[str, tuple[float, ...]]] = field(default_factory=dict)
    """Material properties except the colour -> name in the file and colour of the asset."""
    texture_names: dict[str, str] = field(default_factory=dict)
    """Texture file -> name of the texture asset."""

    def material_color(self, name: str) -> tuple[float, ...] | None:
        """Colour of a written material by its name in the file; None if there is none."""
        return next((own for written, own in self.written_materials.values() if written == name), None)
