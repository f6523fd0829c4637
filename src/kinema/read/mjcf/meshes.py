"""Mesh and height field assets.

MuJoCo moves the vertices of a mesh so that its centre of mass is the origin and its principal axes are the
coordinate axes, and moves the geoms that use it back. Both are undone here, so that a shape's pose refers to the
vertices in the file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.description import Approximation, HeightField, Mesh
from kinema.foundation import Array, Pose, quaternion_to_matrix, vector
from kinema.read.cursor import parse_float
from kinema.shapes import Appearance, corner_values, unit_normals
from kinema.words import mjcf

from .reading import Reading, pose_of


@dataclass(frozen=True, slots=True)
class PlacedMesh:
    """A mesh, and where its own frame lies in MuJoCo's centred one."""

    mesh: Mesh
    pose: Pose
    readable: bool = True


@dataclass(slots=True, eq=False)
class MeshAssets:
    """The meshes of a model, each converted once."""

    reading: Reading
    _known: dict[int, PlacedMesh] = field(default_factory=dict)

    def placed(self, number: int) -> PlacedMesh:
        """A mesh by MuJoCo's number."""
        if number not in self._known:
            self._known[number] = self._convert(number)
        return self._known[number]

    def is_readable(self, number: int) -> bool:
        """Whether MuJoCo had the mesh itself, not something in its place."""
        asset = self.reading.asset(self.reading.element("meshes", number))
        return asset is None or asset.usable

    def plugin(self, number: int) -> str:
        """The text of the plugin that computes the mesh; empty where none does, or the result is moved or scaled."""
        element, spec = self.reading.element("meshes", number), self.reading.spec("meshes", number)
        found = [] if element is None else element.find_all(mjcf.PLUGIN)
        given = (*vector(spec.scale), *vector(spec.refpos), *vector(spec.refquat)) if found else ()
        return found[0].verbatim if given == (1, 1, 1, 0, 0, 0, 1, 0, 0, 0) else ""

    def centred(self, number: int) -> Mesh:
        """The mesh as MuJoCo keeps it."""
        vertices, faces = self._compiled(number)
        return Mesh(vertices=vertices, faces=faces)

    def _convert(self, number: int) -> PlacedMesh:
        model = self.reading.model
        spec = self.reading.spec("meshes", number)
        asset = self.reading.asset(self.reading.element("meshes", number))
        to_file = pose_of(model.mesh_pos[number], model.mesh_quat[number]).inverse()
        if not self.is_readable(number):
            return PlacedMesh(self._unread(number), to_file, readable=False)
        limit = int(spec.maxhullvert) if spec.maxhullvert > 0 else None
        reference = _reference(vector(spec.refpos), vector(spec.refquat), vector(spec.scale))
        if reference is None or (asset is None and not len(spec.uservert)):
            # turned, then scaled unevenly: no pose and scale can say that. Or made by a plugin. Bake it.
            vertices, faces = self._compiled(number)
            placed = to_file.inverse().apply(vertices)
            mesh = Mesh(
                uri="" if asset is None else asset.uri,
                vertices=placed,
                faces=faces,
                appearance=self._compiled_appearance(number, to_file.inverse()),
                max_hull_vertices=limit,
            )
            return PlacedMesh(mesh, to_file)
        if asset is not None:
            mesh = Mesh(uri=asset.uri, path=asset.path, scale=vector(spec.scale), max_hull_vertices=limit)
            return PlacedMesh(mesh, to_file @ reference)
        vertices, faces = self._given_in_place(number)
        mesh = Mesh(
            vertices=vertices,
            faces=faces,
            appearance=_given_appearance(spec, faces),
            scale=vector(spec.scale),
            max_hull_vertices=limit,
        )
        return PlacedMesh(mesh, to_file @ reference)

    def _unread(self, number: int) -> Mesh:
        """A mesh that is not there: what the file calls it, and its scale."""
        element = self.reading.element("meshes", number)
        asset = self.reading.asset(element)
        written = [] if element is None else [parse_float(t) for t in element.attributes.get("scale", "").split()]
        scale = [s for s in written if s is not None]
        return Mesh(uri="" if asset is None else asset.uri, scale=vector(scale if len(scale) == 3 else (1.0, 1.0, 1.0)))

    def _given_in_place(self, number: int) -> tuple[Array, np.ndarray]:
        """Vertices as written; MuJoCo's convex hull where the file gives no faces."""
        spec = self.reading.spec("meshes", number)
        vertices = vector(spec.uservert).reshape(-1, 3)
        if len(spec.userface):
            return vertices, np.array(spec.userface, dtype=np.int64).reshape(-1, 3)
        _, faces = self._compiled(number)
        # a mirroring scale turns the triangles of the hull, which was made after it
        return vertices, faces[:, ::-1].copy() if np.prod(spec.scale) < 0 else faces

    def _compiled(self, number: int) -> tuple[Array, np.ndarray]:
        model = self.reading.model
        start, count = int(model.mesh_vertadr[number]), int(model.mesh_vertnum[number])
        first, faces = int(model.mesh_faceadr[number]), int(model.mesh_facenum[number])
        vertices = np.array(model.mesh_vert[start : start + count], dtype=np.float64)
        return vertices, np.array(model.mesh_face[first : first + faces], dtype=np.int64)

    def _compiled_appearance(self, number: int, to_file: Pose) -> Appearance | None:
        """Texture coordinates and normals as MuJoCo keeps them."""
        model = self.reading.model
        first, count = int(model.mesh_faceadr[number]), int(model.mesh_facenum[number])
        rows = slice(first, first + count)
        normals, coordinates = None, None
        if int(model.mesh_texcoordadr[number]) >= 0:
            start = int(model.mesh_texcoordadr[number])
            values = model.mesh_texcoord[start : start + int(model.mesh_texcoordnum[number])]
            coordinates = corner_values(_upwards(values), np.array(model.mesh_facetexcoord[rows], dtype=np.int64), 2)
        start = int(model.mesh_normaladr[number])
        values = np.array(model.mesh_normal[start : start + int(model.mesh_normalnum[number])], dtype=np.float64)
        corners = np.array(model.mesh_facenormal[rows], dtype=np.int64)
        normals = unit_normals(corner_values(values @ to_file.rotation.T, corners, 3))
        found = Appearance(normals=normals, coordinates=() if coordinates is None else (coordinates,))
        return None if found.is_empty else found


def _given_appearance(spec: Any, faces: np.ndarray) -> Appearance | None:
    """Texture coordinates and normals of a mesh that stands in the file: one for each vertex."""
    normals = vector(spec.usernormal).reshape(-1, 3)
    coordinates = corner_values(_upwards(vector(spec.usertexcoord).reshape(-1, 2)), faces, 2)
    directions = unit_normals(corner_values(normals, faces, 3))
    found = Appearance(normals=directions, coordinates=() if coordinates is None else (coordinates,))
    return None if found.is_empty else found


def _upwards(coordinates: Any) -> Array:
    """MuJoCo counts v downwards from the upper edge of the image."""
    return np.asarray(coordinates, dtype=np.float64) * (1.0, -1.0) + (0.0, 1.0)


def _reference(position: Array, quaternion: Array, scale: Array) -> Pose | None:
    """The pose that takes scaled vertices of the file to those MuJoCo starts from, or None where there is none.

    MuJoCo subtracts the reference position, turns back by the reference rotation, then scales.
    """
    turn = quaternion_to_matrix(quaternion).T
    if np.allclose(turn, np.eye(3), rtol=0.0, atol=1e-12):
        return Pose.translation(-scale * position)
    if scale[0] == scale[1] == scale[2]:
        return Pose(-scale[0] * (turn @ position), turn)
    return None


def collision_mesh(mesh: Mesh, *, signed_distance: bool) -> Mesh:
    """The mesh with what MuJoCo replaces it by for collision: its convex hull, or a signed distance field."""
    return Mesh(
        uri=mesh.uri,
        path=mesh.path,
        scale=mesh.scale,
        vertices=mesh.vertices,
        faces=mesh.faces,
        appearance=mesh.appearance,
        approximation=Approximation.SDF if signed_distance else Approximation.CONVEX_HULL,
        max_hull_vertices=mesh.max_hull_vertices,
    )


def height_field(reading: Reading, number: int) -> HeightField:
    """A height field by MuJoCo's number; its heights are normalised there."""
    model = reading.model
    rows, columns = int(model.hfield_nrow[number]), int(model.hfield_ncol[number])
    start = int(model.hfield_adr[number])
    normalised = np.array(model.hfield_data[start : start + rows * columns], dtype=np.float64)
    half_x, half_y, top, base = (float(s) for s in model.hfield_size[number])
    asset = reading.asset(reading.element("hfields", number))
    return HeightField(
        heights=top * normalised.reshape(rows, columns),
        size=(2 * half_x, 2 * half_y),
        base=base,
        path="" if asset is None else asset.path,
    )
