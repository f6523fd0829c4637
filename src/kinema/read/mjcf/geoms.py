"""Converts MuJoCo geoms to shapes, and mesh and height field assets to geometry in the coordinates of their files.

MuJoCo's compiler moves the vertices of a mesh into the frame of its centre of mass and principal axes and compensates
in the geoms that use the mesh. Both transforms are inverted here, so the pose of a shape refers to the vertices in the
file. A geom becomes a collision shape if its contype/conaffinity bit masks or an explicit pair allow contacts, and a
visual shape unless it is fully transparent or in a display group that MuJoCo's viewers hide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kinema.core import Array, Pose, float64_array, quaternion_to_matrix, reproducible_product
from kinema.description import (
    Approximation,
    Box,
    Capsule,
    Cylinder,
    Ellipsoid,
    Geometry,
    HeightField,
    Mesh,
    Plane,
    Shape,
    Sphere,
    VisualMaterial,
)
from kinema.geometry import Appearance, CubeMapProjection, normalize_normals, validated_corner_attribute
from kinema.tokens import mjcf

from ..cursor import parse_float
from .bodies import default_class
from .extras import plugin_extras
from .materials import (
    apply_texrepeat,
    differs_from_default_material,
    displayed_texture,
    geom_physics_material,
    has_texture_coordinates,
    read_visual_material,
    texture_projection,
    unfolded_cube_map,
)
from .model_reader import ModelReader, store_nonempty_settings, to_floats, to_pose
from .mujoco_compiler import mujoco
from .placements import Placement

# -- mesh and height field assets --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MeshInFileFrame:
    """A mesh in file coordinates, and the pose of its frame in MuJoCo's centred mesh frame."""

    mesh: Mesh
    pose_in_centred_frame: Pose
    reference: Pose = field(default_factory=Pose)
    """Its pose in the file: MuJoCo's reference transform."""
    readable: bool = True


@dataclass(slots=True, eq=False)
class MeshAssets:
    """The meshes of a model, each converted once."""

    reader: ModelReader
    _converted: dict[int, MeshInFileFrame] = field(default_factory=dict)

    def mesh_in_file_frame(self, index: int) -> MeshInFileFrame:
        """The mesh with MuJoCo's index, in the coordinates of its file (cached)."""
        if index not in self._converted:
            self._converted[index] = self._convert(index)
        return self._converted[index]

    def is_readable(self, index: int) -> bool:
        """Whether MuJoCo compiled the actual mesh, not a placeholder."""
        asset = self.reader.asset_file(self.reader.xml_element("meshes", index))
        return asset is None or asset.usable

    def plugin(self, index: int) -> str:
        """XML text of the plugin that computes the mesh; empty if there is none, or the mesh is moved or scaled."""
        element, spec = self.reader.xml_element("meshes", index), self.reader.spec_element("meshes", index)
        found = [] if element is None else element.find_all(mjcf.PLUGIN)
        given = (*float64_array(spec.scale), *float64_array(spec.refpos), *float64_array(spec.refquat)) if found else ()
        return found[0].verbatim if given == (1, 1, 1, 0, 0, 0, 1, 0, 0, 0) else ""

    def centred_mesh(self, index: int) -> Mesh:
        """The mesh in MuJoCo's centred frame."""
        vertices, faces = self._compiled_mesh(index)
        return Mesh(vertices=vertices, faces=faces)

    def _convert(self, index: int) -> MeshInFileFrame:
        """Convert a mesh to a file reference, inline vertices or baked vertices.

        Vertices are baked if scale and reference rotation do not commute, or if a plugin makes the mesh.
        """
        model = self.reader.model
        spec = self.reader.spec_element("meshes", index)
        asset = self.reader.asset_file(self.reader.xml_element("meshes", index))
        to_file = to_pose(model.mesh_pos[index], model.mesh_quat[index]).inverse()
        if not self.is_readable(index):
            return MeshInFileFrame(self._missing_mesh(index), to_file, readable=False)
        limit = int(spec.maxhullvert) if spec.maxhullvert > 0 else None
        reference = _reference_pose(float64_array(spec.refpos), float64_array(spec.refquat), float64_array(spec.scale))
        if reference is None or (asset is None and not len(spec.uservert)):
            # rotated, then scaled non-uniformly, or made by a plugin: bake the vertices
            vertices, faces = self._compiled_mesh(index)
            placed = to_file.inverse().apply(vertices)
            mesh = Mesh(
                uri="" if asset is None else asset.uri,
                vertices=placed,
                faces=faces,
                appearance=self._compiled_appearance(index, to_file.inverse()),
                max_hull_vertices=limit,
            )
            return MeshInFileFrame(mesh, to_file)
        if asset is not None:
            mesh = Mesh(uri=asset.uri, path=asset.path, scale=float64_array(spec.scale), max_hull_vertices=limit)
            return MeshInFileFrame(mesh, to_file @ reference, reference)
        vertices, faces = self._inline_mesh(index)
        mesh = Mesh(
            vertices=vertices,
            faces=faces,
            appearance=_inline_appearance(spec, faces),
            scale=float64_array(spec.scale),
            max_hull_vertices=limit,
        )
        return MeshInFileFrame(mesh, to_file @ reference, reference)

    def _missing_mesh(self, index: int) -> Mesh:
        """Substitute for an unreadable mesh, with only its reference and scale."""
        element = self.reader.xml_element("meshes", index)
        asset = self.reader.asset_file(element)
        written = [] if element is None else [parse_float(t) for t in element.attributes.get("scale", "").split()]
        scale = [s for s in written if s is not None]
        return Mesh(
            uri="" if asset is None else asset.uri, scale=float64_array(scale if len(scale) == 3 else (1.0, 1.0, 1.0))
        )

    def _inline_mesh(self, index: int) -> tuple[Array, np.ndarray]:
        """Vertices and faces of an inline mesh as written; faces of MuJoCo's convex hull if none are given."""
        spec = self.reader.spec_element("meshes", index)
        vertices = float64_array(spec.uservert).reshape(-1, 3)
        if len(spec.userface):
            return vertices, np.array(spec.userface, dtype=np.int64).reshape(-1, 3)
        _, faces = self._compiled_mesh(index)
        # a mirroring scale reverses the winding of the hull, which was computed after scaling
        return vertices, faces[:, ::-1].copy() if np.prod(spec.scale) < 0 else faces

    def _compiled_mesh(self, index: int) -> tuple[Array, np.ndarray]:
        """Vertices, shape (n, 3), and faces, shape (m, 3), of the compiled mesh in the centred frame."""
        model = self.reader.model
        start, count = int(model.mesh_vertadr[index]), int(model.mesh_vertnum[index])
        first, faces = int(model.mesh_faceadr[index]), int(model.mesh_facenum[index])
        vertices = np.array(model.mesh_vert[start : start + count], dtype=np.float64)
        return vertices, np.array(model.mesh_face[first : first + faces], dtype=np.int64)

    def _compiled_appearance(self, index: int, to_file: Pose) -> Appearance | None:
        """Texture coordinates and normals of the compiled mesh, per face corner; None if empty."""
        model = self.reader.model
        first, count = int(model.mesh_faceadr[index]), int(model.mesh_facenum[index])
        rows = slice(first, first + count)
        normals, coordinates = None, None
        if int(model.mesh_texcoordadr[index]) >= 0:
            start = int(model.mesh_texcoordadr[index])
            values = model.mesh_texcoord[start : start + int(model.mesh_texcoordnum[index])]
            coordinates = validated_corner_attribute(
                _flip_v(values), np.array(model.mesh_facetexcoord[rows], dtype=np.int64), 2
            )
        start = int(model.mesh_normaladr[index])
        values = np.array(model.mesh_normal[start : start + int(model.mesh_normalnum[index])], dtype=np.float64)
        corners = np.array(model.mesh_facenormal[rows], dtype=np.int64)
        normals = normalize_normals(validated_corner_attribute(values @ to_file.rotation.T, corners, 3))
        appearance = Appearance(normals=normals, texture_coordinates=() if coordinates is None else (coordinates,))
        return None if appearance.is_empty else appearance


def _inline_appearance(spec: Any, faces: np.ndarray) -> Appearance | None:
    """Texture coordinates and normals of an inline mesh, given per vertex; None if empty."""
    normals = float64_array(spec.usernormal).reshape(-1, 3)
    coordinates = validated_corner_attribute(_flip_v(float64_array(spec.usertexcoord).reshape(-1, 2)), faces, 2)
    directions = normalize_normals(validated_corner_attribute(normals, faces, 3))
    appearance = Appearance(normals=directions, texture_coordinates=() if coordinates is None else (coordinates,))
    return None if appearance.is_empty else appearance


def _flip_v(coordinates: Any) -> Array:
    """Convert texture coordinates with v counted from the top of the image to v from the bottom."""
    return np.asarray(coordinates, dtype=np.float64) * (1.0, -1.0) + (0.0, 1.0)


def _reference_pose(position: Array, quaternion: Array, scale: Array) -> Pose | None:
    """Pose from the scaled vertices in the file to the vertices after MuJoCo's reference transform.

    MuJoCo subtracts `refpos`, rotates by the inverse of `refquat`, then scales. None if no rigid pose represents this
    (rotation with non-uniform scale).
    """
    turn = quaternion_to_matrix(quaternion).T
    if np.allclose(turn, np.eye(3), rtol=0.0, atol=1e-12):
        return Pose.translation(-scale * position)
    if scale[0] == scale[1] == scale[2]:
        return Pose(-scale[0] * reproducible_product(turn, position), turn)
    return None


def read_height_field(reader: ModelReader, index: int) -> HeightField:
    """The height field with MuJoCo's index; heights are scaled from MuJoCo's normalised values to metres."""
    model = reader.model
    rows, columns = int(model.hfield_nrow[index]), int(model.hfield_ncol[index])
    start = int(model.hfield_adr[index])
    normalised = np.array(model.hfield_data[start : start + rows * columns], dtype=np.float64)
    half_x, half_y, top, base = (float(s) for s in model.hfield_size[index])
    asset = reader.asset_file(reader.xml_element("hfields", index))
    return HeightField(
        heights=top * normalised.reshape(rows, columns),
        size=(2 * half_x, 2 * half_y),
        base=base,
        path="" if asset is None else asset.path,
    )


# -- geoms -------------------------------------------------------------------------------------------------------------

FIRST_HIDDEN_GROUP = 3
"""First geom group that MuJoCo's viewers hide by default; by convention these groups hold collision geoms."""


@dataclass(slots=True, eq=False)
class GeomConverter:
    """Converts the geoms of one model to shapes."""

    reader: ModelReader
    meshes: MeshAssets
    paired_geoms: set[int] = field(init=False)
    """Geoms in explicit contact pairs."""
    mesh_ids: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        model = self.reader.model
        self.mesh_ids = {name.text: i for i, name in enumerate(self.reader.names[mjcf.MESH])}
        self.paired_geoms = {int(g) for g in [*model.pair_geom1, *model.pair_geom2]}

    def body_shapes(self, body: int) -> list[Shape]:
        """Shapes of a body, in file order."""
        model = self.reader.model
        first = int(model.body_geomadr[body])
        return [self.geom_shape(g) for g in range(first, first + int(model.body_geomnum[body]))]

    def geom_shape(self, geom: int) -> Shape:
        """Convert one geom to a shape with geometry, materials, collision masks and mass."""
        model = self.reader.model
        contype, conaffinity = int(model.geom_contype[geom]), int(model.geom_conaffinity[geom])
        collides = bool(contype or conaffinity or geom in self.paired_geoms)
        geometry, pose, readable = self._geometry(geom, collides)
        material = read_visual_material(self.reader, int(model.geom_matid[geom]), model.geom_rgba[geom])
        if isinstance(geometry, Mesh):
            geometry = self._apply_textures(geom, geometry, material)
        shape = Shape(
            **self.reader.node_arguments(mjcf.GEOM, "geoms", geom),
            geometry=geometry,
            pose=pose,
            visual=(material.color is None or material.color[3] > 0.0)
            and int(model.geom_group[geom]) < FIRST_HIDDEN_GROUP,
            collision=collides,
            material=material,
            surface=geom_physics_material(model, geom) if collides else None,
            contype=contype,
            conaffinity=conaffinity,
            group=int(model.geom_group[geom]),
            extras=plugin_extras(self.reader, "geoms", geom),
        )
        self._set_mass(geom, shape)
        self._store_attributes(geom, shape)
        if not readable:
            shape.attributes[mjcf.attribute_key(mjcf.UNREADABLE_MESH)] = True
        return shape

    def _apply_textures(self, geom: int, mesh: Mesh, material: VisualMaterial) -> Mesh:
        """Adapt the textures of a material to a mesh, in place.

        Returns the mesh, without projection if the image is unavailable.
        """
        material.texture_mapping = apply_texrepeat(self.reader, geom, material.texture_mapping)
        for role, image in material.maps.items():
            material.maps[role] = replace(image, mapping=apply_texrepeat(self.reader, geom, image.mapping))
        if has_texture_coordinates(self.reader, geom):
            material.mean_texture_color = None  # MuJoCo shows no cube map on meshes with texture coordinates
        if isinstance(mesh.projection, CubeMapProjection):
            material.texture = unfolded_cube_map(self.reader, displayed_texture(self.reader, geom))
            return mesh if material.texture else replace(mesh, projection=None)
        return mesh

    def _geometry(self, geom: int, collides: bool) -> tuple[Geometry, Pose, bool]:
        """Geometry of a geom, its pose in the body frame, and whether the asset was readable."""
        mj, model = mujoco(), self.reader.model
        geom_type = int(model.geom_type[geom])
        if geom_type in (mj.mjtGeom.mjGEOM_MESH, mj.mjtGeom.mjGEOM_SDF):
            placed = self.meshes.mesh_in_file_frame(int(model.geom_dataid[geom]))
            mesh = placed.mesh
            if collides:
                is_field = geom_type == mj.mjtGeom.mjGEOM_SDF
                mesh = replace(mesh, approximation=Approximation.SDF if is_field else Approximation.CONVEX_HULL)
            projection = texture_projection(self.reader, geom, mesh, placed.pose_in_centred_frame)
            mesh = mesh if projection is None else replace(mesh, projection=projection)
            return mesh, self._mesh_pose(geom, placed), placed.readable
        pose = self.reader.placements.pose("geoms", geom)
        if geom_type == mj.mjtGeom.mjGEOM_HFIELD:
            index = int(model.geom_dataid[geom])
            asset = self.reader.asset_file(self.reader.xml_element("hfields", index))
            return read_height_field(self.reader, index), pose, asset is None or asset.usable
        fitted_to = self._fitted_mesh(geom)
        if fitted_to >= 0 and not self.meshes.is_readable(fitted_to):
            placed = self.meshes.mesh_in_file_frame(fitted_to)
            return placed.mesh, pose @ placed.pose_in_centred_frame, False
        return primitive_geometry(geom_type, self.reader.placements.sizes("geoms", geom)), pose, True

    def _mesh_pose(self, geom: int, placed: MeshInFileFrame) -> Pose:
        """Pose of a mesh in the body frame of a geom."""
        x, y, z = self.reader.model.mesh_pos[int(self.reader.model.geom_dataid[geom])].tolist()
        quaternion = self.reader.model.mesh_quat[int(self.reader.model.geom_dataid[geom])].tolist()
        return self.reader.placements.mesh_geom(geom, Placement((x, y, z), tuple(quaternion))).pose @ placed.reference

    def _fitted_mesh(self, geom: int) -> int:
        """Index of the mesh to which a primitive geom was fitted, or -1."""
        spec = self.reader.spec_element("geoms", geom)
        return -1 if spec is None else self.mesh_ids.get(spec.meshname, -1)

    def _set_mass(self, geom: int, shape: Shape) -> None:
        """Set mass or density of a shape, used if the inertia of the body is computed from its geoms."""
        spec = self.reader.spec_element("geoms", geom)
        if spec is None:
            return
        first, last = self.reader.compiled.spec.compiler.inertiagrouprange
        if not first <= shape.group <= last:
            shape.mass = 0.0
        elif not math.isnan(spec.mass):
            shape.mass = float(spec.mass)
        else:
            shape.density = float(spec.density)

    def _store_attributes(self, geom: int, shape: Shape) -> None:
        """Store the MuJoCo attributes of a geom that the description has no field for."""
        model = self.reader.model
        spec = self.reader.spec_element("geoms", geom)
        shell = spec is not None and int(spec.typeinertia) == int(mujoco().mjtGeomInertia.mjINERTIA_SHELL)
        store_nonempty_settings(
            shape.attributes,
            {
                mjcf.FLUID: model.geom_fluid[geom],
                mjcf.SURFACEVEL: self._surface_velocity(geom, shape),
                mjcf.ADHESION: _optional_row(model, "geom_adhesion", geom),
                mjcf.SHELLINERTIA: shell,
                mjcf.USER: model.geom_user[geom] if model.nuser_geom else (),
                mjcf.MESH_INERTIA: self._mesh_inertia(shape.geometry, geom),
                mjcf.MESH_PLUGIN: self._mesh_plugin(shape.geometry, geom),
                mjcf.FITTED_MESH: "" if isinstance(shape.geometry, Mesh) or spec is None else spec.meshname,
                mjcf.CLASS: default_class(self.reader, "geoms", geom),
                mjcf.ASSET_NAME: self._asset_name(shape.geometry, geom),
            },
        )
        if not shape.collision:
            surface = geom_physics_material(model, geom)
            if differs_from_default_material(surface):
                shape.attributes[mjcf.attribute_key(mjcf.UNUSED_CONTACT_PARAMETERS)] = surface
        if hasattr(model, "geom_castshadow") and not model.geom_castshadow[geom]:
            shape.attributes[mjcf.attribute_key(mjcf.CASTSHADOW)] = False
        if mjcf.attribute_key(mjcf.ADHESION) in shape.attributes:
            message = f'geom "{shape.name}": its adhesion is kept, but means nothing elsewhere'
            self.reader.warning("contact-feature", message, shape.origin)
        if isinstance(shape.geometry, Plane) and to_floats(model.geom_size[geom]) != (0.0, 0.0, 1.0):
            shape.attributes[mjcf.attribute_key(mjcf.SIZE)] = to_floats(model.geom_size[geom])
        if isinstance(shape.geometry, HeightField) and not shape.geometry.heights.any():
            # the maximum height does not follow from flat heights
            shape.attributes[mjcf.attribute_key(mjcf.SIZE)] = to_floats(model.hfield_size[int(model.geom_dataid[geom])])

    def _surface_velocity(self, geom: int, shape: Shape) -> tuple[float, ...]:
        """Surface velocity of a geom (linear, angular) at the origin and along the axes of its shape."""
        model = self.reader.model
        velocity = _optional_row(model, "geom_surfacevel", geom)
        if not any(velocity) or not isinstance(shape.geometry, Mesh):
            return velocity
        linear, angular = np.reshape(velocity, (2, 3))
        placed = to_pose(model.geom_pos[geom], model.geom_quat[geom]).inverse() @ shape.pose
        linear = linear + np.cross(angular, placed.position)
        return to_floats(np.concatenate([reproducible_product(placed.rotation.T, v) for v in (linear, angular)]))

    def _asset_name(self, geometry: Geometry, geom: int) -> str:
        kind = {Mesh: mjcf.MESH, HeightField: mjcf.HFIELD}.get(type(geometry), "")
        index = int(self.reader.model.geom_dataid[geom])
        return self.reader.names[kind][index].text if kind and index >= 0 else ""

    def _mesh_inertia(self, geometry: Geometry, geom: int) -> str:
        """MuJoCo's method for the inertia of a mesh; empty for the default (legacy)."""
        if not isinstance(geometry, Mesh):
            return ""
        spec = self.reader.spec_element("meshes", int(self.reader.model.geom_dataid[geom]))
        name = "legacy" if spec is None else mujoco().mjtMeshInertia(int(spec.inertia)).name.rpartition("_")[2].lower()
        return "" if name == "legacy" else name

    def _mesh_plugin(self, geometry: Geometry, geom: int) -> str:
        """XML text of the plugin that computes a mesh; preserved because contacts are computed in its frame."""
        index = int(self.reader.model.geom_dataid[geom])
        return self.meshes.plugin(index) if isinstance(geometry, Mesh) and index >= 0 else ""


def primitive_geometry(geom_type: int, size: Any) -> Geometry:
    """Primitive geometry of a MuJoCo geom type with half sizes."""
    kinds = mujoco().mjtGeom
    x, y, z = to_floats(size)
    if geom_type == kinds.mjGEOM_PLANE:
        return Plane((2 * x, 2 * y) if x > 0 and y > 0 else None)
    if geom_type == kinds.mjGEOM_SPHERE:
        return Sphere(x)
    if geom_type == kinds.mjGEOM_CAPSULE:
        return Capsule(x, 2 * y)
    if geom_type == kinds.mjGEOM_ELLIPSOID:
        return Ellipsoid(np.array([x, y, z]))
    if geom_type == kinds.mjGEOM_CYLINDER:
        return Cylinder(x, 2 * y)
    return Box(np.array([2 * x, 2 * y, 2 * z]))


def _optional_row(model: Any, name: str, index: int) -> Any:
    """Row of a model table as floats; empty if the installed MuJoCo does not have the table."""
    table = getattr(model, name, None)
    if table is None:
        return ()
    return to_floats(table[index])
