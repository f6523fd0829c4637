"""Collisions and visuals to shapes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kinema.description import (
    Approximation,
    Extra,
    Geometry,
    Mesh,
    PhysicsMaterial,
    Plane,
    Shape,
    VisualMaterial,
    mesh_part,
)
from kinema.foundation import Array, Diagnostics, Pose, rotation_aligning
from kinema.shapes import ShapeError, Texture
from kinema.words import sdf

from ..resolve import Resolver, warn_of_stand_in
from .elements import (
    CollisionElement,
    MaterialElement,
    MeshShape,
    PlaneShape,
    PolylineShape,
    ShapeElement,
    SurfaceElement,
    UnreadShape,
    VisualElement,
)
from .heightmap import HeightmapShape, height_field_of
from .polygon import extrude

_OPTIMIZATION = {
    "convex_hull": Approximation.CONVEX_HULL,
    "convex_decomposition": Approximation.CONVEX_DECOMPOSITION,
}
_WHY_UNREAD = {
    "image": "walls drawn in an image are not read",
    "polyline": "it is no simple polygon",
}
_MAX_POLYGON = 300
"""Corners of a polyline; cutting off ears takes the cube of that."""


@dataclass(slots=True, eq=False)
class ShapeConverter:
    """Makes shapes, finds their meshes, and says what could not be made."""

    diagnostics: Diagnostics
    resolver: Resolver
    default_bitmask: int = 1
    """What a collision without a bit mask gets."""

    def collision(self, element: CollisionElement, pose: Pose, link: str) -> Shape | Extra | None:
        """The shape of a `<collision>`; where it cannot be made, its text."""
        what = f'collision "{element.name}" of link "{link}"'
        made = self._geometry(element.shape, what, is_collision=True)
        if made is None:
            return _text_of(element, "collision")
        geometry, place = made
        shape = Shape(
            name=element.name,
            name_is_generated=element.name_is_generated,
            origin=element.origin,
            geometry=geometry,
            pose=pose if place is None else pose @ place,
            visual=False,
            collision=True,
            density=element.density,
            contype=self.default_bitmask,
            conaffinity=self.default_bitmask,
            extras=[*element.extras, *_more(element.shape)],
            attributes=prefixed(element.settings),
        )
        if element.surface is not None:
            shape.surface = _surface(element.surface)
            shape.attributes |= prefixed(element.surface.settings)
            self._masks(element.surface, shape)
        _remember_hulls(element.shape, shape)
        return shape

    def visual(self, element: VisualElement, pose: Pose, link: str) -> Shape | Extra | None:
        """The shape of a `<visual>`; where it cannot be made, its text."""
        what = f'visual "{element.name}" of link "{link}"'
        made = self._geometry(element.shape, what, is_collision=False)
        if made is None:
            return _text_of(element, "visual")
        geometry, place = made
        shape = Shape(
            name=element.name,
            name_is_generated=element.name_is_generated,
            origin=element.origin,
            geometry=geometry,
            pose=pose if place is None else pose @ place,
            visual=True,
            collision=False,
            extras=[*element.extras, *_more(element.shape)],
            attributes=prefixed(element.settings),
        )
        if element.material is not None:
            shape.material = self._material(element.material, element.transparency)
        if element.transparency:
            shape.attributes[sdf.key(sdf.TRANSPARENCY)] = element.transparency
        _remember_hulls(element.shape, shape)
        return shape

    # -- geometry -------------------------------------------------------------------------------------------------

    def _geometry(
        self, shape: ShapeElement | None, what: str, *, is_collision: bool
    ) -> tuple[Geometry, Pose | None] | None:
        """The geometry and, where that is not the shape's own, its place; None where there is nothing to make."""
        match shape:
            case None:
                return None
            case PlaneShape():
                turn = _towards(shape.normal)
                return Plane(size=shape.size), None if turn is None else Pose(rotation=turn)
            case MeshShape():
                return self._mesh(shape, what, is_collision=is_collision), None
            case PolylineShape():
                return self._polyline(shape, what)
            case HeightmapShape():
                return self._heightmap(shape, what)
            case UnreadShape():
                self._unread(shape, what)
                return None
            case _:
                return shape, None

    def _unread(self, shape: UnreadShape, what: str) -> None:
        if shape.tag == "empty":
            self.diagnostics.note(f"{sdf.FORMAT}.empty-geometry", f"{what} is empty on purpose", origin=shape.origin)
            return
        problem = f"{what} is left out: {_WHY_UNREAD[shape.tag]}"
        self.diagnostics.warning(f"{sdf.FORMAT}.{shape.tag}", problem, hint="use a mesh", origin=shape.origin)

    def _heightmap(self, shape: HeightmapShape, what: str) -> tuple[Geometry, Pose | None] | None:
        warn_of_stand_in(
            self.resolver.resolve(shape.uri, shape.origin.file), self.diagnostics, sdf.FORMAT, shape.origin
        )
        made = height_field_of(shape, self.resolver)
        if isinstance(made, str):
            problem = f"{what} is left out: its height map {made}"
            hint = "give its folder as a search path, or use a mesh"
            self.diagnostics.warning(f"{sdf.FORMAT}.heightmap", problem, hint=hint, origin=shape.origin)
            return None
        return made, Pose(shape.position) if shape.position.any() else None

    def _polyline(self, shape: PolylineShape, what: str) -> tuple[Geometry, Pose | None] | None:
        made = extrude(shape.points, shape.height) if len(shape.points) <= _MAX_POLYGON else None
        if made is None:
            self._unread(UnreadShape(tag="polyline", origin=shape.origin), what)
            return None
        vertices, faces = made
        return Mesh(vertices=vertices, faces=faces), None

    def _mesh(self, shape: MeshShape, what: str, *, is_collision: bool) -> Mesh:
        """A mesh; a file that is not there is a pity for a visual and an error for a collision."""
        found = self.resolver.resolve(shape.uri, shape.origin.file)
        path, reason = found.path, found.reason
        if path is not None and not path.is_file():
            path, reason = None, "it is not a file"
        if path is None:
            report = self.diagnostics.error if is_collision else self.diagnostics.warning
            problem = f"the mesh {shape.uri!r} of {what} was not found: {reason}"
            report(f"{sdf.FORMAT}.missing-mesh", problem, hint="give its folder as a search path", origin=shape.origin)
        warn_of_stand_in(found, self.diagnostics, sdf.FORMAT, shape.origin)
        if shape.submesh and path is not None:
            self._check_part(shape, path, what)
        approximation = _OPTIMIZATION.get(shape.optimization)
        if shape.optimization and approximation is None:
            problem = f"{what}: {shape.optimization[:40]!r} is not a mesh optimization"
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

    def _check_part(self, shape: MeshShape, path: Path, what: str) -> None:
        """Whether the part that a shape is of its file is there."""
        try:
            part, why = mesh_part(Mesh(path=str(path), submesh=shape.submesh)), "the file has no part of that name"
        except ShapeError as error:
            part, why = None, str(error)
        if part is None:
            problem = f"{what} is only the part {shape.submesh!r} of its mesh, but {why.rstrip('.')}; all of it is used"
            self.diagnostics.warning(
                f"{sdf.FORMAT}.submesh", problem, hint="put it into its own file", origin=shape.origin
            )

    # -- look and feel --------------------------------------------------------------------------------------------

    def _material(self, element: MaterialElement, transparency: float) -> VisualMaterial:
        material = VisualMaterial(
            origin=element.origin,
            metallic=element.metalness,
            roughness=element.roughness,
            extras=element.extras[:],
            attributes=prefixed(element.settings),
        )
        if element.diffuse is not None:
            red, green, blue, alpha = element.diffuse
            material.color = (red, green, blue, alpha * (1.0 - min(max(transparency, 0.0), 1.0)))
        if element.emissive is not None:
            material.emission = element.emissive[:3]
        if element.specular is not None:
            material.specular = sum(element.specular[:3]) / 3.0
            material.attributes[sdf.key(sdf.SPECULAR)] = element.specular
        if element.albedo_map:
            material.texture = self._image(element.albedo_map, element)
        for role, reference in element.maps.items():
            if file := self._image(reference, element):
                material.maps[role] = Texture(file=file)
        material.double_sided = element.settings.get(sdf.DOUBLE_SIDED)
        return material

    def _image(self, reference: str, element: MaterialElement) -> str:
        """The file of a texture; empty, and a warning, where it is not there."""
        found = self.resolver.resolve(reference, element.origin.file)
        if found.path is None:
            problem = f"the texture {reference!r} was not found: {found.reason}"
            self.diagnostics.warning(f"{sdf.FORMAT}.missing-texture", problem, origin=element.origin)
        warn_of_stand_in(found, self.diagnostics, sdf.FORMAT, element.origin)
        return "" if found.path is None else str(found.path)

    def _masks(self, surface: SurfaceElement, shape: Shape) -> None:
        """Two collide if the category of one shares a bit with the collide mask of the other."""
        collide = surface.collide_bitmask
        category = surface.category_bitmask
        if collide is not None:
            shape.contype = shape.conaffinity = collide
        if category is not None:
            shape.contype = category


def _surface(element: SurfaceElement) -> PhysicsMaterial:
    torsional = element.torsional_coefficient
    return PhysicsMaterial(
        origin=element.origin,
        static_friction=element.friction,
        dynamic_friction=element.friction,
        dynamic_friction2=element.friction2,
        torsional_friction=_torsional(element),
        restitution=element.restitution,
        contact_stiffness=element.stiffness,
        contact_damping=element.damping,
        extras=element.extras[:],
        attributes={} if torsional is None else {sdf.key(sdf.TORSIONAL): (torsional, element.patch_radius)},
    )


def _torsional(element: SurfaceElement) -> float | None:
    """The lever of torsional friction [m]: that of a round patch with the pressure of a Hertzian contact."""
    if element.torsional_coefficient is None or not element.use_patch_radius:
        return None
    return 3.0 * math.pi / 16.0 * element.torsional_coefficient * element.patch_radius


def _towards(normal: Array) -> Array | None:
    """A rotation that takes z to the normal; None where nothing has to turn."""
    length = float(np.linalg.norm(normal))
    if length == 0.0:
        return None
    unit = normal / length
    return None if unit[0] == unit[1] == 0.0 and unit[2] > 0.0 else rotation_aligning(unit)


def _remember_hulls(element: ShapeElement | None, shape: Shape) -> None:
    if isinstance(element, MeshShape) and element.max_convex_hulls is not None:
        shape.attributes[sdf.key(sdf.MAX_CONVEX_HULLS)] = element.max_convex_hulls


def _more(shape: ShapeElement | None) -> list[Extra]:
    """What a shape has beside its form."""
    return shape.extras if isinstance(shape, HeightmapShape) else []


def _text_of(element: CollisionElement | VisualElement, tag: str) -> Extra:
    return Extra(sdf.FORMAT, tag, element.verbatim, element.origin)


def prefixed(settings: dict[str, object]) -> dict[str, object]:
    """Settings as attributes of a node."""
    return {sdf.key(name): value for name, value in settings.items()}
