"""Geoms to shapes.

A geom of MuJoCo's is seen and collides at once. Here a shape is for collision if its bit masks or an explicit pair
let it touch anything, and for the eye unless it is entirely transparent or in a display group that MuJoCo's viewers do
not show; the group is kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kinema.description import (
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
from kinema.foundation import Pose
from kinema.shapes import CubeProjection
from kinema.words import mjcf

from .cube_textures import unfolded
from .engine import mujoco
from .joints import class_of
from .leftovers import plugins_of
from .materials import differs_from_default, surface_of, visual_material
from .meshes import MeshAssets, collision_mesh, height_field
from .projections import has_coordinates, image_of, projection_of, repeated
from .reading import Reading, floats, pose_of, set_given

HIDDEN_GROUP = 3
"""Groups from here on are not shown unless the user asks for them: by convention, they hold collision shapes."""


@dataclass(slots=True, eq=False)
class Geoms:
    """Converts the geoms of one model."""

    reading: Reading
    meshes: MeshAssets
    paired: set[int] = field(init=False)
    """Geoms that are named in an explicit contact pair."""
    mesh_numbers: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        model = self.reading.model
        self.mesh_numbers = {name.text: i for i, name in enumerate(self.reading.names[mjcf.MESH])}
        self.paired = {int(g) for g in [*model.pair_geom1, *model.pair_geom2]}

    def shapes_of(self, body: int) -> list[Shape]:
        """The shapes on a body, in the order of the file."""
        model = self.reading.model
        first = int(model.body_geomadr[body])
        return [self.shape(g) for g in range(first, first + int(model.body_geomnum[body]))]

    def shape(self, geom: int) -> Shape:
        """One geom."""
        model = self.reading.model
        contype, conaffinity = int(model.geom_contype[geom]), int(model.geom_conaffinity[geom])
        collides = bool(contype or conaffinity or geom in self.paired)
        geometry, pose, readable = self._geometry(geom, collides)
        material = visual_material(self.reading, int(model.geom_matid[geom]), model.geom_rgba[geom])
        if isinstance(geometry, Mesh):
            geometry = self._lay(geom, geometry, material)
        shape = Shape(
            **self.reading.node(mjcf.GEOM, "geoms", geom),
            geometry=geometry,
            pose=pose,
            visual=(material.color is None or material.color[3] > 0.0) and int(model.geom_group[geom]) < HIDDEN_GROUP,
            collision=collides,
            material=material,
            surface=surface_of(model, geom) if collides else None,
            contype=contype,
            conaffinity=conaffinity,
            group=int(model.geom_group[geom]),
            extras=plugins_of(self.reading, "geoms", geom),
        )
        self._mass(geom, shape)
        self._settings(geom, shape)
        if not readable:
            shape.attributes[mjcf.key(mjcf.UNREADABLE)] = True
        return shape

    def _lay(self, geom: int, mesh: Mesh, material: VisualMaterial) -> Mesh:
        """Put the images of a material as they lie on a mesh; the mesh, without a rule for those that cannot be had."""
        material.placement = repeated(self.reading, geom, material.placement)
        for role, image in material.maps.items():
            material.maps[role] = replace(image, placement=repeated(self.reading, geom, image.placement))
        if has_coordinates(self.reading, geom):
            material.image_color = None  # MuJoCo shows no cube of images on what has coordinates of its own
        if isinstance(mesh.projection, CubeProjection):
            material.texture = unfolded(self.reading, image_of(self.reading, geom))
            return mesh if material.texture else replace(mesh, projection=None)
        return mesh

    def _geometry(self, geom: int, collides: bool) -> tuple[Geometry, Pose, bool]:
        """Geometry, pose in the body, and whether the geometry could be read."""
        mj, model = mujoco(), self.reading.model
        pose = pose_of(model.geom_pos[geom], model.geom_quat[geom])
        kind = int(model.geom_type[geom])
        if kind in (mj.mjtGeom.mjGEOM_MESH, mj.mjtGeom.mjGEOM_SDF):
            placed = self.meshes.placed(int(model.geom_dataid[geom]))
            mesh = placed.mesh
            if collides:
                mesh = collision_mesh(mesh, signed_distance=kind == mj.mjtGeom.mjGEOM_SDF)
            laid = projection_of(self.reading, geom, mesh, placed.pose)
            mesh = mesh if laid is None else replace(mesh, projection=laid)
            return mesh, pose @ placed.pose, placed.readable
        if kind == mj.mjtGeom.mjGEOM_HFIELD:
            number = int(model.geom_dataid[geom])
            asset = self.reading.asset(self.reading.element("hfields", number))
            return height_field(self.reading, number), pose, asset is None or asset.usable
        fitted_to = self._fitted_mesh(geom)
        if fitted_to >= 0 and not self.meshes.is_readable(fitted_to):
            placed = self.meshes.placed(fitted_to)
            return placed.mesh, pose @ placed.pose, False
        return primitive(kind, model.geom_size[geom]), pose, True

    def _fitted_mesh(self, geom: int) -> int:
        """The mesh that a primitive was fitted to, or -1."""
        spec = self.reading.spec("geoms", geom)
        return -1 if spec is None else self.mesh_numbers.get(spec.meshname, -1)

    def _mass(self, geom: int, shape: Shape) -> None:
        """What the geom brings where its body's inertia is computed."""
        spec = self.reading.spec("geoms", geom)
        if spec is None:
            return
        first, last = self.reading.compiled.spec.compiler.inertiagrouprange
        if not first <= shape.group <= last:
            shape.mass = 0.0
        elif not math.isnan(spec.mass):
            shape.mass = float(spec.mass)
        else:
            shape.density = float(spec.density)

    def _settings(self, geom: int, shape: Shape) -> None:
        """What only MuJoCo has."""
        model = self.reading.model
        spec = self.reading.spec("geoms", geom)
        shell = spec is not None and int(spec.typeinertia) == int(mujoco().mjtGeomInertia.mjINERTIA_SHELL)
        set_given(
            shape.attributes,
            {
                mjcf.FLUID: model.geom_fluid[geom],
                mjcf.SURFACEVEL: _row(model, "geom_surfacevel", geom),
                mjcf.ADHESION: _row(model, "geom_adhesion", geom),
                mjcf.SHELLINERTIA: shell,
                mjcf.USER: model.geom_user[geom] if model.nuser_geom else (),
                mjcf.MESH_INERTIA: self._mesh_inertia(shape.geometry, geom),
                mjcf.MESH_PLUGIN: self._mesh_plugin(shape.geometry, geom),
                mjcf.FITTED_MESH: "" if isinstance(shape.geometry, Mesh) or spec is None else spec.meshname,
                mjcf.CLASS: class_of(self.reading, "geoms", geom),
                mjcf.ASSET_NAME: self._asset_name(shape.geometry, geom),
            },
        )
        if not shape.collision:
            surface = surface_of(model, geom)
            if differs_from_default(surface):
                shape.attributes[mjcf.key(mjcf.UNUSED_SURFACE)] = surface
        if hasattr(model, "geom_castshadow") and not model.geom_castshadow[geom]:
            shape.attributes[mjcf.key(mjcf.CASTSHADOW)] = False
        if not shape.attributes.keys().isdisjoint((mjcf.key(mjcf.SURFACEVEL), mjcf.key(mjcf.ADHESION))):
            message = f'geom "{shape.name}": its surface velocity and adhesion are kept, but mean nothing elsewhere'
            self.reading.warning("contact-feature", message, shape.origin)
        if isinstance(shape.geometry, Plane) and floats(model.geom_size[geom]) != (0.0, 0.0, 1.0):
            shape.attributes[mjcf.key(mjcf.SIZE)] = floats(model.geom_size[geom])
        if isinstance(shape.geometry, HeightField) and not shape.geometry.heights.any():
            # the heights do not tell how high they could be
            shape.attributes[mjcf.key(mjcf.SIZE)] = floats(model.hfield_size[int(model.geom_dataid[geom])])

    def _asset_name(self, geometry: Geometry, geom: int) -> str:
        kind = {Mesh: mjcf.MESH, HeightField: mjcf.HFIELD}.get(type(geometry), "")
        number = int(self.reading.model.geom_dataid[geom])
        return self.reading.names[kind][number].text if kind and number >= 0 else ""

    def _mesh_inertia(self, geometry: Geometry, geom: int) -> str:
        """How MuJoCo makes a mesh's inertia, where that is not its default way."""
        if not isinstance(geometry, Mesh):
            return ""
        spec = self.reading.spec("meshes", int(self.reading.model.geom_dataid[geom]))
        way = "legacy" if spec is None else mujoco().mjtMeshInertia(int(spec.inertia)).name.rpartition("_")[2].lower()
        return "" if way == "legacy" else way

    def _mesh_plugin(self, geometry: Geometry, geom: int) -> str:
        """The plugin that computes a mesh: MuJoCo looks for contacts in its frame, which a file would change."""
        number = int(self.reading.model.geom_dataid[geom])
        return self.meshes.plugin(number) if isinstance(geometry, Mesh) and number >= 0 else ""


def primitive(kind: int, size: Any) -> Geometry:
    """A geometry that its type and MuJoCo's half sizes describe."""
    kinds = mujoco().mjtGeom
    x, y, z = floats(size)
    if kind == kinds.mjGEOM_PLANE:
        return Plane((2 * x, 2 * y) if x > 0 and y > 0 else None)
    if kind == kinds.mjGEOM_SPHERE:
        return Sphere(x)
    if kind == kinds.mjGEOM_CAPSULE:
        return Capsule(x, 2 * y)
    if kind == kinds.mjGEOM_ELLIPSOID:
        return Ellipsoid(np.array([x, y, z]))
    if kind == kinds.mjGEOM_CYLINDER:
        return Cylinder(x, 2 * y)
    return Box(np.array([2 * x, 2 * y, 2 * z]))


def _row(model: Any, name: str, number: int) -> Any:
    """A row of a table that older versions of MuJoCo do not have."""
    table = getattr(model, name, None)
    if table is None:
        return ()
    return floats(table[number])
