"""Converts SDFormat collisions and visuals to shapes with materials."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from kinema.core import Array, Diagnostics, Pose, reproducible_norm, rotation_aligning_z
from kinema.description import (
    Approximation,
    Extra,
    Geometry,
    Mesh,
    PhysicsMaterial,
    Plane,
    Shape,
    VisualMaterial,
    submesh_data,
)
from kinema.geometry import GeometryError, Texture
from kinema.tokens import sdf

from ..resolve import Resolver, warn_about_substitute_package
from .elements import (
    CollisionElement,
    MaterialElement,
    MeshShape,
    PlaneShape,
    PolylineShape,
    ShapeElement,
    SurfaceElement,
    UnsupportedShape,
    VisualElement,
)
from .generated_geometry import HeightmapShape, extrude_polygon, load_height_field

_APPROXIMATIONS = {
    "convex_hull": Approximation.CONVEX_HULL,
    "convex_decomposition": Approximation.CONVEX_DECOMPOSITION,
}
_UNSUPPORTED_REASONS = {
    "image": "walls drawn in an image are not read",
    "polyline": "it is no simple polygon",
}
_MAX_POLYGON_POINTS = 300
"""Maximum number of polyline corners; ear clipping takes cubic time."""


@dataclass(slots=True, eq=False)
class ShapeConverter:
    """Converts collisions and visuals to shapes, and resolves meshes and textures."""

    diagnostics: Diagnostics
    resolver: Resolver
    default_bitmask: int = 1
    """Bit mask of collisions without one."""

    def convert_collision(self, element: CollisionElement, pose: Pose, link: str) -> Shape | Extra | None:
        """Shape of a `<collision>`; its text if it is not convertible."""
        shape = self._shape(element, pose, f'collision "{element.name}" of link "{link}"', is_collision=True)
        if shape is None:
            return Extra(sdf.FORMAT, "collision", element.verbatim, element.origin)
        shape.density = element.density
        shape.contype = shape.conaffinity = self.default_bitmask
        if element.surface is not None:
            shape.surface = _physics_material(element.surface)
            shape.attributes |= to_attributes(element.surface.settings)
            self._set_bitmasks(element.surface, shape)
        return shape

    def convert_visual(self, element: VisualElement, pose: Pose, link: str) -> Shape | Extra | None:
        """Shape of a `<visual>`; its text if it is not convertible."""
        shape = self._shape(element, pose, f'visual "{element.name}" of link "{link}"', is_collision=False)
        if shape is None:
            return Extra(sdf.FORMAT, "visual", element.verbatim, element.origin)
        if element.material is not None:
            shape.material = self._material(element.material, element.transparency)
        if element.transparency:
            shape.attributes[sdf.attribute_key(sdf.TRANSPARENCY)] = element.transparency
        return shape

    def _shape(
        self, element: CollisionElement | VisualElement, pose: Pose, label: str, *, is_collision: bool
    ) -> Shape | None:
        """Shape with the fields that collisions and visuals have in common; None if it is not convertible."""
        result = self._geometry(element.shape, label, is_collision=is_collision)
        if result is None:
            return None
        geometry, offset = result
        shape = Shape(
            name=element.name,
            name_is_generated=element.name_is_generated,
            origin=element.origin,
            geometry=geometry,
            pose=pose if offset is None else pose @ offset,
            visual=not is_collision,
            collision=is_collision,
            extras=list(element.extras),
            attributes=to_attributes(element.settings),
        )
        if isinstance(element.shape, HeightmapShape):
            shape.extras += element.shape.extras
        if isinstance(element.shape, MeshShape) and element.shape.max_convex_hulls is not None:
            shape.attributes[sdf.attribute_key(sdf.MAX_CONVEX_HULLS)] = element.shape.max_convex_hulls
        return shape

    # -- geometry -------------------------------------------------------------------------------------------------

    def _geometry(
        self, shape: ShapeElement | None, label: str, *, is_collision: bool
    ) -> tuple[Geometry, Pose | None] | None:
        """Geometry and its pose in the shape (None for identity); None if it is not convertible."""
        match shape:
            case None:
                return None
            case PlaneShape():
                rotation = _rotation_from_z(shape.normal)
                return Plane(size=shape.size), None if rotation is None else Pose(rotation=rotation)
            case MeshShape():
                return self._mesh(shape, label, is_collision=is_collision), None
            case PolylineShape():
                return self._polyline(shape, label)
            case HeightmapShape():
                return self._height_field(shape, label)
            case UnsupportedShape():
                self._report_unsupported(shape, label)
                return None
            case _:
                return shape, None

    def _report_unsupported(self, shape: UnsupportedShape, label: str) -> None:
        """Report a geometry that is not convertible."""
        if shape.tag == "empty":
            self.diagnostics.note(f"{sdf.FORMAT}.empty-geometry", f"{label} is empty on purpose", origin=shape.origin)
            return
        problem = f"{label} is left out: {_UNSUPPORTED_REASONS[shape.tag]}"
        self.diagnostics.warning(f"{sdf.FORMAT}.{shape.tag}", problem, hint="use a mesh", origin=shape.origin)

    def _height_field(self, shape: HeightmapShape, label: str) -> tuple[Geometry, Pose | None] | None:
        """Height field of a `<heightmap>`; None with a warning if unreadable."""
        warn_about_substitute_package(
            self.resolver.resolve(shape.uri, shape.origin.file), self.diagnostics, sdf.FORMAT, shape.origin
        )
        made = load_height_field(shape, self.resolver)
        if isinstance(made, str):
            problem = f"{label} is left out: its height map {made}"
            hint = "give its folder as a search path, or use a mesh"
            self.diagnostics.warning(f"{sdf.FORMAT}.heightmap", problem, hint=hint, origin=shape.origin)
            return None
        return made, Pose(shape.position) if shape.position.any() else None

    def _polyline(self, shape: PolylineShape, label: str) -> tuple[Geometry, Pose | None] | None:
        made = extrude_polygon(shape.points, shape.height) if len(shape.points) <= _MAX_POLYGON_POINTS else None
        if made is None:
            self._report_unsupported(UnsupportedShape(tag="polyline", origin=shape.origin), label)
            return None
        vertices, faces = made
        return Mesh(vertices=vertices, faces=faces), None

    def _mesh(self, shape: MeshShape, label: str, *, is_collision: bool) -> Mesh:
        """Mesh of a `<mesh>`; a missing file is an error for collisions, a warning for visuals."""
        found = self.resolver.resolve(shape.uri, shape.origin.file)
        path, reason = found.path, found.reason
        if path is not None and not path.is_file():
            path, reason = None, "it is not a file"
        if path is None:
            report = self.diagnostics.error if is_collision else self.diagnostics.warning
            problem = f"the mesh {shape.uri!r} of {label} was not found: {reason}"
            report(f"{sdf.FORMAT}.missing-mesh", problem, hint="give its folder as a search path", origin=shape.origin)
        warn_about_substitute_package(found, self.diagnostics, sdf.FORMAT, shape.origin)
        if shape.submesh and path is not None:
            self._check_submesh(shape, path, label)
        approximation = _APPROXIMATIONS.get(shape.optimization)
        if shape.optimization and approximation is None:
            problem = f"{label}: {shape.optimization[:40]!r} is not a mesh optimization"
            self.diagnostics.error(
                f"{sdf.FORMAT}.mesh-optimization", problem, hint="it is ignored", origin=shape.origin
            )
        return Mesh(
            uri=shape.uri,
            path="" if path is None else str(path),
            scale=shape.scale,
            submesh=shape.submesh,
            center_submesh=shape.center_submesh,
            approximation=approximation,
        )

    def _check_submesh(self, shape: MeshShape, path: Path, label: str) -> None:
        """Warn if the file has no submesh of the given name."""
        try:
            part, why = submesh_data(Mesh(path=str(path), submesh=shape.submesh)), "the file has no part of that name"
        except GeometryError as error:
            part, why = None, str(error)
        if part is None:
            problem = (
                f"{label} is only the part {shape.submesh!r} of its mesh, but {why.rstrip('.')}; all of it is used"
            )
            self.diagnostics.warning(
                f"{sdf.FORMAT}.submesh", problem, hint="put it into its own file", origin=shape.origin
            )

    # -- materials -------------------------------------------------------------------------------------------------

    def _material(self, element: MaterialElement, transparency: float) -> VisualMaterial:
        """Visual material with colours, textures and maps."""
        material = VisualMaterial(
            origin=element.origin,
            metallic=element.metalness,
            roughness=element.roughness,
            extras=element.extras[:],
            attributes=to_attributes(element.settings),
        )
        if element.diffuse is not None:
            red, green, blue, alpha = element.diffuse
            material.color = (red, green, blue, alpha * (1.0 - min(max(transparency, 0.0), 1.0)))
        if element.emissive is not None:
            material.emission = element.emissive[:3]
        if element.specular is not None:
            material.specular = sum(element.specular[:3]) / 3.0
            material.attributes[sdf.attribute_key(sdf.SPECULAR)] = element.specular
        if element.albedo_map:
            material.texture = self._texture_file(element.albedo_map, element)
        for role, reference in element.maps.items():
            if file := self._texture_file(reference, element):
                material.maps[role] = Texture(file=file)
        material.double_sided = element.settings.get(sdf.DOUBLE_SIDED)
        return material

    def _texture_file(self, reference: str, element: MaterialElement) -> str:
        """File of a texture; empty with a warning if not found."""
        found = self.resolver.resolve(reference, element.origin.file)
        if found.path is None:
            problem = f"the texture {reference!r} was not found: {found.reason}"
            self.diagnostics.warning(f"{sdf.FORMAT}.missing-texture", problem, origin=element.origin)
        warn_about_substitute_package(found, self.diagnostics, sdf.FORMAT, element.origin)
        return "" if found.path is None else str(found.path)

    def _set_bitmasks(self, surface: SurfaceElement, shape: Shape) -> None:
        """Set contype and conaffinity: shapes collide if a category bit matches a collide bit of the other."""
        collide = surface.collide_bitmask
        category = surface.category_bitmask
        if collide is not None:
            shape.contype = shape.conaffinity = collide
        if category is not None:
            shape.contype = category


def _physics_material(element: SurfaceElement) -> PhysicsMaterial:
    """Contact parameters of a `<surface>`."""
    torsional = element.torsional_coefficient
    return PhysicsMaterial(
        origin=element.origin,
        static_friction=element.friction,
        dynamic_friction=element.friction,
        dynamic_friction2=element.friction2,
        torsional_friction=_torsional_friction_radius(element),
        restitution=element.restitution,
        contact_stiffness=element.stiffness,
        contact_damping=element.damping,
        extras=element.extras[:],
        attributes={} if torsional is None else {sdf.attribute_key(sdf.TORSIONAL): (torsional, element.patch_radius)},
    )


def _torsional_friction_radius(element: SurfaceElement) -> float | None:
    """Moment arm of torsional friction [m] of a circular patch with Hertzian pressure."""
    if element.torsional_coefficient is None or not element.use_patch_radius:
        return None
    return 3.0 * math.pi / 16.0 * element.torsional_coefficient * element.patch_radius


def _rotation_from_z(normal: Array) -> Array | None:
    """Rotation that maps z to the normal; None for identity."""
    length = reproducible_norm(normal)
    if length == 0.0:
        return None
    unit = normal / length
    return None if unit[0] == unit[1] == 0.0 and unit[2] > 0.0 else rotation_aligning_z(unit)


def to_attributes(settings: dict[str, object]) -> dict[str, object]:
    """Settings as node attributes with the SDFormat prefix."""
    return {sdf.attribute_key(name): value for name, value in settings.items()}
