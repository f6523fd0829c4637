"""The elements `<visual>`, `<collision>` and `<material>` of shapes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kinema import geometry as geo
from kinema.core import Pose, unique_name
from kinema.description import (
    Approximation,
    Box,
    Capsule,
    Cylinder,
    Ellipsoid,
    Geometry,
    Link,
    Mesh,
    Plane,
    Shape,
    Sphere,
    VisualMaterial,
    submesh_data,
    tessellate,
)
from kinema.geometry import TextureMapping
from kinema.tokens import urdf

from ..loss_report import Action, with_report_name
from ..mesh_files import has_face_materials
from ..textures import ImageUnavailableError, cube_map_loss_text, with_mean_color, without_written_textures
from ..xml_document import Element, format_number, format_numbers, xml_safe_name
from .context import UrdfContext, add_origin, names_in_extras, require_finite, write_preserved

# ------------------------------------------------------------------------------------------------------------ materials

_UNSUPPORTED_PROPERTIES = (
    *("emission", "specular", "metallic", "roughness", "reflectance"),
    *("clearcoat", "clearcoat_roughness", "opacity_threshold", "double_sided"),
)


@dataclass(slots=True, eq=False)
class UrdfMaterials:
    """Materials of a URDF file, each defined once at the top level."""

    ctx: UrdfContext
    root: Element
    taken_names: set[str] = field(init=False)
    _names_by_content: dict[tuple[object, ...], str] = field(default_factory=dict)
    """Material content -> name in the file."""
    _names_by_id: dict[int, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.taken_names = names_in_extras(self.ctx.robot.extras, "material")

    def add_material(self, visual: Element, material: VisualMaterial, *, mesh_has_material: bool = False) -> None:
        """Add a material reference to a visual; defines the material on first use.

        Args:
            visual: the visual element.
            material: the material.
            mesh_has_material: whether the visual's mesh file contains the complete material.
        """
        if not material.name and self.ctx.robot.format == urdf.FORMAT:
            self._write_inline(visual, material)
            return
        if id(material) not in self._names_by_id:
            self._names_by_id[id(material)] = self._define_material(material, mesh_has_material=mesh_has_material)
        name = self._names_by_id[id(material)]
        if name is not None:
            visual.add_child("material", name=name)

    def _write_inline(self, visual: Element, material: VisualMaterial) -> None:
        """Write a nameless material into a visual."""
        if self._write_color_and_texture(Element("material"), material):
            element = visual.add_child("material", name="")
            self._write_color_and_texture(element, material)
            write_preserved(self.ctx, material, element, self.root)

    def _define_material(self, material: VisualMaterial, *, mesh_has_material: bool) -> str | None:
        """Define a material at the top level and return its name; None, with a report, without colour and texture."""
        self._report_unsupported(material, mesh_has_material=mesh_has_material)
        element = Element("material")
        if not self._write_color_and_texture(element, material):
            how = "it has neither colour nor texture, which URDF takes as a mistake"
            self.ctx.report_dropped(_with_report_name(material), "the material", how)
            return None
        content = (material.name, *(tuple(c.attributes.items()) for c in element.children if isinstance(c, Element)))
        if content in self._names_by_content:
            return self._names_by_content[content]
        name = unique_name(xml_safe_name(material.name) or "material", self.taken_names)
        self._names_by_content[content] = name
        if material.name and name != material.name:
            self.ctx.report_approximated(
                _with_report_name(material), "its name", f'it is called "{name}": the other one is taken'
            )
        element.set_attributes({"name": name})
        self.root.children.append(element)
        write_preserved(self.ctx, without_written_textures(material, is_on_mesh=mesh_has_material), element, self.root)
        return name

    def _write_color_and_texture(self, element: Element, material: VisualMaterial) -> bool:
        """Write colour and texture into a material element; returns whether there are any."""
        color, texture = self._clamped_color(material), self._texture_reference(material)
        if color is not None:
            element.add_child("color", rgba=format_numbers(color))
        if texture:
            element.add_child("texture", filename=texture)
        return bool(element.children)

    def _clamped_color(self, material: VisualMaterial) -> tuple[float, ...] | None:
        """RGBA colour clamped to [0, 1], as readers require; reports changes."""
        given = with_mean_color(material).color
        if given is None:
            return None
        color = tuple(require_finite(c, f'material "{material.name}"', "colour") for c in given)
        clamped = tuple(min(max(c, 0.0), 1.0) for c in color)
        if clamped != color:
            how = f"{format_numbers(color)} is not from 0 to 1, and is {format_numbers(clamped)} here"
            self.ctx.report_approximated(_with_report_name(material), "its colour", how)
        return clamped

    def _texture_reference(self, material: VisualMaterial) -> str:
        """Reference to a material's texture, copied beside the file; the original reference if it was not found."""
        if not material.texture:
            missing = str(material.attributes.get(urdf.MISSING_TEXTURE, ""))
            if missing:
                how = f"the file {missing!r} was not found; the reference is written as it was"
                self.ctx.report_approximated(_with_report_name(material), "its texture", how)
            return missing
        try:
            return self.ctx.file_reference(self.ctx.meshes.textures.place_image(material.texture))
        except ImageUnavailableError as error:
            self.ctx.report_dropped(_with_report_name(material), "its texture", str(error))
            return ""

    def _report_unsupported(self, material: VisualMaterial, *, mesh_has_material: bool) -> None:
        """Report material properties beyond colour and texture; as extensions if the mesh file contains them."""
        if material.mean_texture_color is not None:
            self.ctx.report_approximated(
                _with_report_name(material), "the texture around it", cube_map_loss_text(material)
            )
        unsaid = [name for name in _UNSUPPORTED_PROPERTIES if getattr(material, name) is not None]
        unsaid += [f"{role} map" for role in material.maps]
        unsaid += ["the placement of its texture"] if material.texture_mapping != TextureMapping() else []
        if not unsaid:
            return
        if mesh_has_material:
            how = "it is in the file of the mesh, which URDF's own colour hides in many programs"
            self.ctx.report_loss(Action.EXTENSION, _with_report_name(material), ", ".join(unsaid), how)
        else:
            self.ctx.report_dropped(
                _with_report_name(material), ", ".join(unsaid), "URDF's materials are a colour and a texture"
            )


def _with_report_name(material: VisualMaterial) -> VisualMaterial:
    """The material itself if it has a name, else a copy with a placeholder name for loss reports."""
    if material.name:
        return material
    named = copy.copy(material)
    named.name = "(without a name)"
    return named


# ----------------------------------------------------------------------------------------------- visuals and collisions

VISUAL_SUFFIXES = (".stl", ".obj", ".dae")
"""Suffixes of visual mesh files that readers of URDF can load."""
COLLISION_SUFFIXES = (".stl", ".obj")
"""Suffixes of collision mesh files that all readers of URDF can load."""
_PLANE_BOX_SIZE = (100.0, 1.0)
"""Edge length and thickness [m] of the box that approximates an infinite plane."""


@dataclass(slots=True, eq=False)
class ShapeWriter:
    """Writer of `<visual>` and `<collision>` elements."""

    ctx: UrdfContext
    materials: UrdfMaterials
    root: Element
    has_relative_meshes: bool = False
    """Whether the file contains relative mesh references."""
    uses_drake: bool = False

    def add_shape(self, element: Element, link: Link, shape: Shape) -> None:
        """Append the visual and collision elements of a shape to its link element."""
        called = with_report_name(link, shape)
        uses = [use for use, is_wanted in (("visual", shape.visual), ("collision", shape.collision)) if is_wanted]
        if not shape.enabled:
            self.ctx.report_dropped(called, "the shape", "it is disabled, and URDF has no disabled shapes")
            uses = []
        elif not uses:
            self.ctx.report_dropped(called, "the shape", "it is neither seen nor does it collide")
        first: Element | None = None
        for use in uses:
            for part in self._decompose_shape(called, shape, use):
                made = self._write_element(element, shape, use, part)
                first = first or made
        if xml_safe_name(shape.name) != shape.name:
            self.ctx.report_approximated(called, "its name", f'it is called "{xml_safe_name(shape.name)}"')
        write_preserved(self.ctx, called, first, self.root)

    def _write_element(self, element: Element, shape: Shape, use: str, urdf_geometry: _UrdfGeometry) -> Element:
        """Append a visual or collision element with origin, geometry and material."""
        name = f"{xml_safe_name(shape.name)}{urdf_geometry.suffix}" if shape.name else None
        made = element.add_child(use, name=name)
        add_origin(made, shape.pose @ urdf_geometry.pose, f'shape "{shape.name}"', computed=urdf_geometry.suffix != "")
        self._write_geometry(made.add_child("geometry"), urdf_geometry.geometry, urdf_geometry.file, shape)
        if use == "visual" and shape.material is not None and not has_face_materials(shape):
            self.materials.add_material(made, shape.material, mesh_has_material=urdf_geometry.has_material)
        return made

    # -- geometry -------------------------------------------------------------------------------------------------

    def _decompose_shape(self, reported_shape: Shape, shape: Shape, use: str) -> Iterator[_UrdfGeometry]:
        """URDF geometries of a shape; none, with a report, if it cannot be represented."""
        match shape.geometry:
            case Box() | Sphere() | Cylinder():
                yield _UrdfGeometry(shape.geometry)
            case Capsule(radius=radius, length=length):
                yield from self._capsule_geometries(radius, length)
            case Ellipsoid(radii=radii) if radii[0] == radii[1] == radii[2]:
                yield _UrdfGeometry(Sphere(float(radii[0])))
            case Plane() if use == "collision":
                yield self._plane_as_box(reported_shape, shape.geometry)
            case Mesh():
                yield from self._mesh_geometry(reported_shape, shape, shape.geometry, use)
            case _:
                yield from self._tessellated_geometry(reported_shape, shape.geometry)

    def _capsule_geometries(self, radius: float, length: float) -> Iterator[_UrdfGeometry]:
        """Capsule, or for version 1.0 an equivalent cylinder with two spheres."""
        if self.ctx.version != "1.0":
            yield _UrdfGeometry(Capsule(radius, length))
            return
        if length == 0:
            yield _UrdfGeometry(Sphere(radius))
            return
        yield _UrdfGeometry(Cylinder(radius, length))
        for i, side in enumerate((0.5, -0.5)):
            yield _UrdfGeometry(Sphere(radius), Pose.translation((0, 0, side * length)), suffix=f"_end_{i + 1}")

    def _plane_as_box(self, reported_shape: Shape, plane: Plane) -> _UrdfGeometry:
        """Box whose top face is a plane; reports the approximation."""
        width, thickness = _PLANE_BOX_SIZE
        x, y = plane.size or (width, width)
        how = f"it is the top of a box of {x:g} x {y:g} x {thickness:g} m"
        self.ctx.report_approximated(reported_shape, "the plane", how)
        return _UrdfGeometry(Box(np.array([x, y, thickness])), Pose.translation((0, 0, -thickness / 2)))

    def _tessellated_geometry(self, reported_shape: Shape, geometry: Geometry) -> Iterator[_UrdfGeometry]:
        """Mesh file of a tessellated primitive; none, with a report, if tessellation fails."""
        kind = type(geometry).__name__.lower()
        try:
            data = tessellate(geometry)
        except geo.GeometryError as error:
            self.ctx.report_dropped(reported_shape, f"the {kind}", f"it cannot be made into triangles: {error}")
            return
        if data is not None:
            self.ctx.report_approximated(reported_shape, f"the {kind}", f"it is a mesh of {len(data.faces)} triangles")
            yield from self._mesh_file_geometry(
                Mesh(vertices=data.vertices, faces=data.faces), reported_shape.name, "collision"
            )

    def _mesh_geometry(self, reported_shape: Shape, shape: Shape, mesh: Mesh, use: str) -> Iterator[_UrdfGeometry]:
        """Mesh of a shape; the original reference if its file was not found, none if there is no reference."""
        self._report_mesh_losses(reported_shape, mesh)
        made = list(self._mesh_file_geometry(mesh, reported_shape.name, use, shape))
        if made:
            yield from made
        elif mesh.uri:
            how = f"the file {mesh.uri!r} was not found; the reference is written as it was"
            self.ctx.report_approximated(reported_shape, "the mesh", how)
            yield _UrdfGeometry(mesh, file=(xml_safe_name(mesh.uri), mesh.scale))
        else:
            self.ctx.report_dropped(
                reported_shape, "the mesh", "there is no file with its triangles, or it cannot be read"
            )

    def _mesh_file_geometry(
        self, mesh: Mesh, name: str, use: str, shape: Shape | None = None
    ) -> Iterator[_UrdfGeometry]:
        """Mesh with its placed file; none if the mesh is unavailable. Package references may be kept."""
        if self.ctx.keeps_package_uri(mesh.uri):
            yield _UrdfGeometry(mesh, file=(xml_safe_name(mesh.uri), mesh.scale))
            return
        suffixes = VISUAL_SUFFIXES if use == "visual" else COLLISION_SUFFIXES
        if use != "visual" and _is_ascii_stl(mesh):
            suffixes = ()  # MuJoCo reads the binary form only
        placed = self.ctx.meshes.place_mesh(mesh, name, suffixes, visual_shape=shape if use == "visual" else None)
        if placed is not None:
            reference = self.ctx.file_reference(placed[0])
            self.has_relative_meshes |= reference == placed[0] and not Path(reference).is_absolute()
            is_dressed = placed[0] in self.ctx.meshes.textured_files
            yield _UrdfGeometry(mesh, file=(reference, placed[1]), has_material=is_dressed)

    def _report_mesh_losses(self, reported_shape: Shape, mesh: Mesh) -> None:
        """Report collision approximation, hull vertex limit and missing submesh of a mesh."""
        if mesh.approximation is Approximation.CONVEX_HULL:
            how = "it is in <drake:declare_convex>, which only some readers know"
            self.ctx.report_loss(Action.EXTENSION, reported_shape, "that it collides as its convex hull", how)
        elif mesh.approximation is not None:
            self.ctx.report_dropped(
                reported_shape, f"the approximation {mesh.approximation.value}", "URDF leaves it to the reader"
            )
        if mesh.max_hull_vertices is not None:
            self.ctx.report_dropped(reported_shape, "the bound on its hull's vertices", "URDF leaves it to the reader")
        if mesh.submesh and submesh_data(mesh) is None:
            self.ctx.report_approximated(
                reported_shape, f"the part {mesh.submesh!r} of its mesh", "the whole mesh is written"
            )

    def _write_geometry(
        self, element: Element, geometry: Geometry, file: tuple[str, np.ndarray] | None, shape: Shape
    ) -> None:
        """Write the geometry element of a box, sphere, cylinder, capsule or mesh."""
        owner = f'shape "{shape.name}"'
        match geometry:
            case Box(size=size):
                element.add_child("box", size=format_numbers(require_finite(x, owner, "size") for x in size.tolist()))
            case Sphere(radius=radius):
                element.add_child("sphere", radius=format_number(require_finite(radius, owner, "radius")))
            case Cylinder(radius=radius, length=length) | Capsule(radius=radius, length=length):
                sizes = {
                    "radius": format_number(require_finite(radius, owner, "radius")),
                    "length": format_number(require_finite(length, owner, "length")),
                }
                element.add_child(type(geometry).__name__.lower(), **sizes)
            case Mesh() if file is not None:
                filename, scale = file
                given = (
                    None
                    if (scale == 1).all()
                    else format_numbers(require_finite(x, owner, "scale") for x in scale.tolist())
                )
                made = element.add_child("mesh", filename=filename, scale=given)
                if geometry.approximation is Approximation.CONVEX_HULL:
                    made.add_child("drake:declare_convex")
                    self.uses_drake = True
            case _:
                raise AssertionError(type(geometry))  # the parts are of no other kind


@dataclass(frozen=True, slots=True, eq=False)
class _UrdfGeometry:
    """One URDF geometry of a shape, with its pose in the shape."""

    geometry: Geometry
    pose: Pose = field(default_factory=Pose)
    suffix: str = ""
    file: tuple[str, np.ndarray] | None = None
    """Reference and scale (3,) of a mesh."""
    has_material: bool = False
    """Whether the mesh file contains the material of the shape."""


def _is_ascii_stl(mesh: Mesh) -> bool:
    """Whether a mesh is a text STL file (a binary STL has 84 bytes plus 50 per triangle)."""
    path = Path(mesh.path)
    if not mesh.path or path.suffix.lower() != ".stl":
        return False
    with path.open("rb") as file:
        head = file.read(84)
    return len(head) < 84 or path.stat().st_size != 84 + 50 * int.from_bytes(head[80:], "little")
