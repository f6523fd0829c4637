"""What of descriptions can be seen, as a stage to make images of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kinema import shapes
from kinema.description import (
    Box,
    Capsule,
    Cone,
    Cylinder,
    Ellipsoid,
    Link,
    Mesh,
    Plane,
    Robot,
    Shape,
    Sphere,
    VisualMaterial,
    World,
    dressed_mesh,
    tessellate,
    worn_appearance,
)
from kinema.foundation import Diagnostics, KinemaError, Pose
from kinema.render import Geometry, Instance, Kind, Stage, Surface, surface_of, triangles, unused_maps
from kinema.shapes import ShapeError, roughness_of_shininess
from kinema.words import mjcf

from .visual_lights import default_lamps, lamps_of

_LINEAR_FILES = (".gltf", ".glb")
"""Mesh files that give colours in proportion to light."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Shown:
    """A description, where it stands, and which rows its links have."""

    description: Robot | World
    pose: Pose | None = None
    """Where its base frame is put; None for where its file puts it."""
    links: Mapping[str, int]
    """By the names that are unique in it."""

    @property
    def base(self) -> Pose:
        """What a shape, camera or light without a link stands in."""
        own = self.description.pose if isinstance(self.description, Robot) else Pose()
        return own if self.pose is None else self.pose

    def robots(self) -> list[Robot]:
        """All of its robots."""
        return self.description.robots if isinstance(self.description, World) else [self.description]


def stage_of(shown: Sequence[Shown], *, kind: str = "visual") -> Stage:
    """The stage of some descriptions.

    Args:
        shown: what to see.
        kind: `visual`, or `collision` for the shapes that touch. A link whose visual meshes are missing is shown by
            those, and so is all of what has nothing to be seen.
    """
    if kind not in ("visual", "collision"):
        raise KinemaError(f"kind is 'visual' or 'collision', not {kind!r}")
    stage = Stage(n_links=sum(len(one.links) for one in shown))
    dressing = _Dressing(stage.diagnostics)
    for entity, one in enumerate(shown):
        dressing.told = [d.message for d in one.description.diagnostics]
        stage.instances += _instances(one, entity, kind, dressing)
        stage.lamps += lamps_of(one.description, one.links, one.base, stage.diagnostics)
    for number, instance in enumerate(stage.instances):
        instance.shape = number
    if not stage.lamps:
        stage.lamps = default_lamps()
    return stage


def _instances(one: Shown, entity: int, kind: str, dressing: _Dressing) -> Iterator[Instance]:
    whole = one.description
    linear = whole.format == "usd"
    if isinstance(whole, World):
        for shape in _chosen(whole.shapes, kind):
            yield from dressing.dress(shape, -1, one.base @ shape.pose, entity, linear)
        named = [(name, link) for name, _, link in whole.named_links()]
    else:
        named = [(link.name, link) for link in whole.links]

    def dressed(name: str, link: Link, kind: str) -> list[Instance]:
        chosen = _chosen(link.shapes, kind)
        return [i for s in chosen for i in dressing.dress(s, one.links[name], s.pose, entity, linear)]

    found = [dressed(name, link, kind) for name, link in named]
    bare = not any(found)
    for (name, link), own in zip(named, found, strict=True):
        missing = not own and kind == "visual" and (bare or link.visuals)
        yield from dressed(name, link, "collision") if missing else own


def _chosen(of_link: Sequence[Shape], kind: str) -> list[Shape]:
    return [s for s in of_link if (s.visual if kind == "visual" else s.collision)]


class _Dressing:
    """Geometries and surfaces, each made once."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        self._surfaces: dict[tuple[int, bool], Surface] = {}
        self._meshes: dict[tuple[object, ...], Geometry | None] = {}
        self._noted: set[str] = set()
        self.told: Sequence[str] = ()
        """What is known of the description already: a mesh that is missing is told once."""

    def dress(self, shape: Shape, link: int, pose: Pose, entity: int, linear: bool) -> list[Instance]:
        """The shape as an instance; none where its mesh is not there."""
        geometry = self._geometry(shape, linear)
        if geometry is None:
            return []
        surface = None
        if geometry.kind is not Kind.MESH or not isinstance(shape.geometry, Mesh):
            surface = self._surface(shape.material, shape, linear)
        return [Instance(geometry=geometry, surface=surface, link=link, pose=pose, entity=entity, name=shape.name)]

    def _geometry(self, shape: Shape, linear: bool) -> Geometry | None:
        solid = primitive(shape)
        if solid is not None:
            return solid
        own = shape.geometry
        if not isinstance(own, Mesh):
            mesh = tessellate(own)
            return None if mesh is None else triangles(mesh)
        key = (
            id(own.vertices) if own.vertices is not None else own.path,
            own.submesh,
            tuple(own.scale),
            own.projection,
            id(shape.material),
        )
        if key not in self._meshes:
            self._meshes[key] = self._mesh(shape, own, linear)
        return self._meshes[key]

    def _mesh(self, shape: Shape, own: Mesh, linear: bool) -> Geometry | None:
        try:
            dressed = dressed_mesh(own)
            if dressed is None:
                if not any(own.uri in message for message in self.told):
                    self._note(f'the mesh of "{shape.name}" ({own.uri}) was not found', shape)
                return None
            scale = np.diag(own.scale)
            worn = worn_appearance(shape, dressed)
            for look in worn.materials:
                self._note_unused(look)
            bright = linear or own.path.lower().endswith(_LINEAR_FILES)
            made = triangles(shapes.apply_linear(dressed.mesh, scale), worn.under(scale), linear=bright)
            if made.triangles is not None:
                for surface, look in zip(made.triangles.surfaces, worn.materials, strict=True):
                    _polish(surface, look)
        except (ShapeError, KinemaError) as error:
            self._note(f'the mesh of "{shape.name}" is not shown: {error}', shape)
            return None
        return made

    def _surface(self, material: VisualMaterial | None, shape: Shape, linear: bool) -> Surface:
        if material is None:
            return self._surfaces.setdefault((0, False), Surface())
        self._note_unused(material)
        surface = surface_of(material, linear=linear)
        _polish(surface, material)
        _repeat(surface, material, shape)
        return self._surfaces.setdefault((id(material) if not surface.maps else id(shape), linear), surface)

    def _note_unused(self, look: shapes.Look) -> None:
        left = unused_maps(look)
        if left and look.name not in self._noted:
            self._noted.add(look.name)
            message = f'of the material "{look.name}" does not show: {", ".join(left)}'
            self.diagnostics.note("render.material", message)

    def _note(self, message: str, shape: Shape) -> None:
        self.diagnostics.warning("render.mesh", message, origin=shape.origin)


def _polish(surface: Surface, look: shapes.Look) -> None:
    """MuJoCo says how shiny a surface is instead of how rough."""
    shininess = look.attributes.get(mjcf.key(mjcf.SHININESS)) if isinstance(look, VisualMaterial) else None
    if look.roughness is None and shininess is not None:
        surface.roughness = roughness_of_shininess(float(shininess))


def _repeat(surface: Surface, material: VisualMaterial, shape: Shape) -> None:
    """How often MuJoCo lays a texture on a shape: over all of it, or for each metre."""
    repeat = material.attributes.get(mjcf.key(mjcf.TEXREPEAT))
    uniform = bool(material.attributes.get(mjcf.key(mjcf.TEXUNIFORM)))
    across, up = (float(x) for x in repeat) if repeat is not None else (1.0, 1.0)
    if uniform and isinstance(shape.geometry, Plane) and shape.geometry.size is not None:
        across, up = across * shape.geometry.size[0], up * shape.geometry.size[1]
    if (across, up) != (1.0, 1.0):
        for role, image in surface.maps.items():
            a, b, x, c, d, y = image.place
            surface.maps[role] = replace(image, place=(a * across, b * up, x, c * across, d * up, y))


def primitive(shape: Shape) -> Geometry | None:
    """The geometry of a shape that is no mesh and no terrain."""
    match shape.geometry:
        case Box(size):
            return Geometry(Kind.BOX, _three(*(0.5 * np.asarray(size))))
        case Sphere(radius):
            return Geometry(Kind.SPHERE, _three(radius))
        case Ellipsoid(radii):
            return Geometry(Kind.ELLIPSOID, _three(*radii))
        case Capsule(radius, length):
            return Geometry(Kind.CAPSULE, _three(radius, 0.5 * length))
        case Cylinder(radius, length):
            return Geometry(Kind.CYLINDER, _three(radius, 0.5 * length))
        case Cone(radius, length):
            return Geometry(Kind.CONE, _three(radius, 0.5 * length))
        case Plane(size):
            return Geometry(Kind.PLANE, _three(*(0.5 * np.asarray(size))) if size is not None else (0.0, 0.0, 0.0))
        case _:
            return None


def _three(x: float, y: float = 0.0, z: float = 0.0) -> tuple[float, float, float]:
    return float(x), float(y), float(z)
