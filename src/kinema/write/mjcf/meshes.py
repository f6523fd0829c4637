"""Mesh and height field assets.

MuJoCo reads binary STL, OBJ and its own MSH; other files become OBJ. It refuses meshes without a volume: those get a
shell's inertia, or, to collide, a thickness that is hardly there.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kinema import shapes
from kinema.description import HeightField, Mesh, mesh_data
from kinema.foundation import Pose
from kinema.words import mjcf

from ..loaded_meshes import LoadedMeshes
from ..meshes import FOLDER, MeshStore, appearance_key
from ..text import Element, number, numbers
from .names import Names
from .numbers import vector_text

SUFFIXES = (".stl", ".obj", ".msh")
"""Files that MuJoCo reads."""
MAX_STL_FACES = 200_000
"""Of a file that MuJoCo takes."""
_MIN_VOLUME = 1e-13
"""Below this [m3] MuJoCo refuses a solid mesh, with some distance."""
_MIN_AREA = 1e-13
"""Below this [m2] MuJoCo refuses any mesh, with some distance."""


@dataclass(frozen=True, slots=True)
class PlacedAsset:
    """An asset's name, and what had to be done to the mesh."""

    name: str
    thickened: bool = False


@dataclass(slots=True, eq=False)
class MeshAssets:
    """The mesh and height field assets of a file, each written once."""

    store: MeshStore
    section: Element
    names: Names
    _known: dict[object, PlacedAsset | None] = field(default_factory=dict)
    _data: dict[object, shapes.MeshData | None] = field(default_factory=dict)
    dressed: LoadedMeshes = field(default_factory=LoadedMeshes)
    """Mesh files with what is on them."""

    def asset(
        self,
        mesh: Mesh,
        name: str,
        *,
        collides: bool,
        inertia: str = "",
        called: str = "",
        plugin: Element | None = None,
    ) -> PlacedAsset | None:
        """The asset of a mesh, made when it is first asked for; None where the mesh cannot be had.

        Args:
            mesh: the mesh.
            name: what to call it, where it has no file.
            collides: whether its convex hull is needed.
            inertia: MuJoCo's way to find its inertia.
            called: its name in the file it was read from; made up where empty.
            plugin: the plugin of MuJoCo's that computes it, and needs no file.
        """
        if plugin is not None and called:
            if (called, mjcf.PLUGIN) not in self._known:
                self._known[called, mjcf.PLUGIN] = self._computed(called, plugin, inertia, mesh.max_hull_vertices)
            return self._known[called, mjcf.PLUGIN]
        data = self._triangles(mesh)
        if data is None:
            return None
        flat = shapes.is_flat(data)
        thickened = flat and (collides or len(np.unique(data.vertices, axis=0)) < 4)
        key = (*_identity(mesh), mesh.max_hull_vertices, inertia, thickened, called)
        if key not in self._known:
            self._known[key] = self._make(mesh, called or name, data, inertia, called, thickened=thickened)
        return self._known[key]

    def _triangles(self, mesh: Mesh) -> shapes.MeshData | None:
        key = _identity(mesh)
        if key not in self._data:
            self._data[key] = _usable(mesh)
        return self._data[key]

    def _make(
        self, mesh: Mesh, name: str, data: shapes.MeshData, inertia: str, called: str, *, thickened: bool
    ) -> PlacedAsset | None:
        if thickened:
            thicker = shapes.thickened(data)
            if thicker is None:
                return None
            data = thicker
            mesh = dataclasses.replace(
                mesh, path="", vertices=data.vertices, faces=data.faces, appearance=None, scale=np.ones(3)
            )
        elif not _mujoco_reads(mesh, data):
            name = Path(mesh.path).stem or name
            mesh = dataclasses.replace(mesh, path="", vertices=data.vertices, faces=data.faces, scale=np.ones(3))
        placed = self.store.place(mesh, name)
        if placed is None:
            return None
        file, scale = placed
        if not inertia and _volume(data) < _MIN_VOLUME:
            inertia = "shell"
        stem = Path(file).stem
        asset_name = self.names.new(mjcf.MESH, called or stem)
        self.section.child(
            mjcf.MESH,
            name=asset_name if asset_name != stem else None,
            file=file.removeprefix(f"{FOLDER}/"),
            scale=None if (scale == 1).all() else vector_text(scale),
            inertia=inertia or None,
            maxhullvert=None if mesh.max_hull_vertices is None else str(max(4, mesh.max_hull_vertices)),
        )
        return PlacedAsset(asset_name, thickened)

    def _computed(self, called: str, plugin: Element, inertia: str, most: int | None) -> PlacedAsset:
        name = self.names.new(mjcf.MESH, called)
        element = self.section.child(
            mjcf.MESH, name=name, inertia=inertia or None, maxhullvert=None if most is None else str(most)
        )
        element.children.append(plugin)
        return PlacedAsset(name)

    # -- height fields ------------------------------------------------------------------------------------------------

    def height_field(
        self, terrain: HeightField, name: str, own_size: Sequence[float] | None = None
    ) -> tuple[str, Pose] | None:
        """The asset of a terrain and how far its geom is to be moved: MuJoCo counts heights from the lowest point.

        `own_size` is what MuJoCo says of one that is flat, so that its heights do not tell how high it may be.
        """
        heights = np.asarray(terrain.heights, dtype=np.float64)
        if heights.ndim != 2 or min(heights.shape) < 2 or not np.isfinite(heights).all():
            return None
        lowest, highest = float(heights.min()), float(heights.max())
        # a plain terrain begins at zero already, and stays where it is
        base = terrain.base + lowest
        rows = [numbers((row - lowest).tolist()) for row in heights[::-1]]  # the first row in the file is at +y
        asset_name = self.names.new(mjcf.HFIELD, name)
        flat = own_size[2] if own_size is not None and own_size[2] > 0 else 1.0
        size = (terrain.size[0] / 2, terrain.size[1] / 2, highest - lowest or flat, base if base > 0 else 1e-3)
        self.section.child(
            mjcf.HFIELD,
            name=asset_name,
            nrow=str(heights.shape[0]),
            ncol=str(heights.shape[1]),
            size=numbers(size),
            elevation="  ".join(rows),
        )
        return asset_name, Pose.translation((0.0, 0.0, lowest))


def _identity(mesh: Mesh) -> tuple[object, ...]:
    """Meshes that are equal by this are the same mesh."""
    content: object = mesh.path
    if mesh.vertices is not None and mesh.faces is not None:
        layers = b"" if mesh.appearance is None else appearance_key(mesh.appearance)
        content = hashlib.sha256(mesh.vertices.tobytes() + np.asarray(mesh.faces).tobytes() + layers).digest()
    return (content, mesh.submesh, mesh.center_submesh, tuple(mesh.scale.tolist()))


def _mujoco_reads(mesh: Mesh, data: shapes.MeshData) -> bool:
    """Whether the mesh's own file is one that MuJoCo takes."""
    path = Path(mesh.path) if mesh.path else None
    if path is None or path.suffix.lower() != ".stl":
        return True  # the store knows by the suffix
    size = path.stat().st_size
    with path.open("rb") as file:
        header = file.read(84)
    is_binary = len(header) == 84 and size == 84 + 50 * int.from_bytes(header[80:84], "little")
    return is_binary and data.n_faces <= MAX_STL_FACES


def _usable(mesh: Mesh) -> shapes.MeshData | None:
    """The triangles of a mesh, if there are any that MuJoCo can take for some."""
    try:
        data = mesh_data(mesh)
        if data is None or _area(shapes.check_mesh(data)) < _MIN_AREA:
            return None
    except shapes.ShapeError:
        return None
    return data


def _area(data: shapes.MeshData) -> float:
    a, b, c = (data.triangles()[:, corner] for corner in range(3))
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2)


def _volume(data: shapes.MeshData) -> float:
    """As MuJoCo counts it by default: of the pyramids over all triangles, whichever way they face."""
    center = data.vertices.mean(axis=0)
    a, b, c = (data.triangles()[:, corner] - center for corner in range(3))
    return float(np.abs(np.einsum("ij,ij->i", a, np.cross(b, c))).sum() / 6)


def thickness_text() -> str:
    """What was done to a flat mesh, for the report."""
    return f"MuJoCo takes no flat mesh for collision; it is given a thickness of {number(shapes.THICKNESS)} of its size"
