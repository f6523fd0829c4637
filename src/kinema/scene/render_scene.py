"""Render scene of descriptions: geometry instances with surfaces, lights and cameras."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinema import geometry as geo
from kinema.core import Diagnostics, KinemaError, Pose
from kinema.description import (
    Box,
    Camera,
    Capsule,
    Cone,
    Cylinder,
    Ellipsoid,
    Light,
    Link,
    Mesh,
    Plane,
    Robot,
    Shape,
    Sphere,
    VisualMaterial,
    World,
    effective_appearance,
    load_textured_mesh,
    tessellate,
)
from kinema.geometry import GeometryError, roughness_from_shininess
from kinema.render import (
    Camera as RenderCamera,
    Geometry,
    GeometryKind,
    Instance,
    LightSource,
    Projection,
    RenderScene,
    Surface,
    look_at,
    make_surface,
    mesh_geometry,
    unsupported_features,
)
from kinema.tokens import mjcf, usd

# ----------------------------------------------------------------------------------------- lights and cameras

DEFAULT_SUN_RADIUS = 0.03
"""Angular radius of a directional light if its file gives none [rad]; slightly larger than the sun for softer
shadows."""
_TARGET_MODES = ("targetbody", "targetbodycom")


def default_lights() -> list[LightSource]:
    """Default lights if the files have none: a key light from the front left above, a fill light from the right."""
    return [
        LightSource(pose=look_at((2.0, -3.0, 5.0), (0.0, 0.0, 0.0)), color=(0.72, 0.70, 0.66), radius=0.06),
        LightSource(
            pose=look_at((1.0, 5.0, 3.0), (0.0, 0.0, 0.0)), color=(0.16, 0.18, 0.22), radius=0.2, casts_shadow=False
        ),
    ]


def lights_of_description(
    description: Robot | World, link_rows: Mapping[str, int], base: Pose, diagnostics: Diagnostics
) -> list[LightSource]:
    """Render lights of the active lights of a description and its robots.

    Args:
        description: robot or world.
        link_rows: row of each link in the pose arrays, by link name.
        base: world pose of lights without a link.
        diagnostics: receives notes about unsupported features.
    """
    robots = description.robots if isinstance(description, World) else []
    lights = [*description.lights, *(light for robot in robots for light in robot.lights)]
    lit = [x for x in lights if x.settings.get(mjcf.ACTIVE, True)]
    return [_light_source(light, link_rows, base, diagnostics) for light in lit]


def _light_source(light: Light, link_rows: Mapping[str, int], base: Pose, diagnostics: Diagnostics) -> LightSource:
    """Convert a light of a description to a light of the renderer: link, pose, color, radius, attenuation, spot cone.

    The radius is a length [m] for point and spot lights, and an angle [rad] for directional lights. Lights that follow
    a target body are reported as unsupported.
    """
    settings = light.settings
    link = -1 if light.link is None else link_rows.get(light.link, -1)
    if settings.get(mjcf.MODE) in _TARGET_MODES:
        diagnostics.note("render.light", f'light "{light.name}" does not follow its target', origin=light.origin)
    bulb_radius = _first_value(settings, mjcf.BULBRADIUS, usd.PRESERVED_PREFIX + "radius", default=DEFAULT_SUN_RADIUS)
    angular_radius = (
        math.radians(0.5 * float(settings[usd.PRESERVED_PREFIX + "angle"]))
        if usd.PRESERVED_PREFIX + "angle" in settings
        else DEFAULT_SUN_RADIUS
    )
    return LightSource(
        kind=light.kind,
        link=link,
        pose=light.pose if link >= 0 else base @ light.pose,
        color=light.color,
        radius=angular_radius if light.kind == "directional" else bulb_radius,
        falloff=_falloff(settings),
        cone=(
            math.radians(_first_value(settings, mjcf.CUTOFF, default=45.0)),
            _first_value(settings, mjcf.EXPONENT, default=0.0),
        ),
        casts_shadow=light.casts_shadow,
    )


def _falloff(settings: Mapping[str, Any]) -> tuple[float, float, float]:
    """Attenuation coefficients (constant, linear, quadratic) of a light; (1, 0, 0) if the file gives none."""
    attenuation = settings.get(mjcf.ATTENUATION)
    if attenuation is None or np.size(attenuation) != 3 or not np.any(attenuation):
        return 1.0, 0.0, 0.0
    a, b, c = (float(x) for x in attenuation)
    return a, b, c


def _first_value(settings: Mapping[str, Any], *names: str, default: float) -> float:
    """First setting with one of the names that is not None, as float; else the default."""
    return next((float(settings[name]) for name in names if settings.get(name) is not None), default)


def cameras_of_description(description: Robot | World, link_rows: Mapping[str, int], base: Pose) -> list[RenderCamera]:
    """Render cameras of the cameras of a description and its robots, under their names in the file.

    Args:
        description: robot or world.
        link_rows: row of each link in the pose arrays, by link name.
        base: world pose of cameras without a link.
    """
    robots = description.robots if isinstance(description, World) else []
    cameras = [*description.cameras, *(camera for robot in robots for camera in robot.cameras)]
    return [_render_camera(camera, link_rows, base) for camera in cameras]


def _render_camera(camera: Camera, link_rows: Mapping[str, int], base: Pose) -> RenderCamera:
    """Convert a camera of a description to a camera of the renderer: link, pose, field of view, clip range."""
    link = -1 if camera.link is None else link_rows.get(camera.link, -1)
    is_orthographic = camera.settings.get(mjcf.PROJECTION) == mjcf.ORTHOGRAPHIC
    return RenderCamera(
        name=camera.name,
        link=link,
        pose=camera.pose if link >= 0 else base @ camera.pose,
        projection=Projection.ORTHOGRAPHIC if is_orthographic else Projection.PINHOLE,
        fov=camera.vertical_fov,
        orthographic_height=float(camera.settings.get(mjcf.HEIGHT, 1.0)),
        clip_range=camera.clip or (1e-3, 1e4),
    )


# ---------------------------------------------------------------------------------------------- render scene

_LINEAR_COLOR_SUFFIXES = (".gltf", ".glb")
"""Suffixes of mesh files whose colors are linear (not sRGB encoded)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class VisualEntity:
    """A description to be rendered, its base pose, and the rows of its links in the pose arrays."""

    description: Robot | World
    pose: Pose | None = None
    """World pose of the base frame; None for the authored pose."""
    link_rows: Mapping[str, int]
    """Row of each link in the pose arrays, by the link name unique in the description."""
    entity_idx: int | None = None
    """Index of the entity for segmentation images; None for the position in the list of visual entities."""

    @property
    def base(self) -> Pose:
        """World pose of shapes, cameras and lights that have no link."""
        authored = self.description.pose if isinstance(self.description, Robot) else Pose()
        return authored if self.pose is None else self.pose

    def robots(self) -> list[Robot]:
        """Robots of the description."""
        return self.description.robots if isinstance(self.description, World) else [self.description]


def build_render_scene(visuals: Sequence[VisualEntity], *, kind: str = "visual") -> RenderScene:
    """Build the render scene of descriptions: instances of all shapes, and their lights (or default lights).

    Args:
        visuals: descriptions with base poses and link rows.
        kind: `visual` (default) or `collision` shapes. With `visual`, collision shapes replace visual meshes that are
            missing, and are used for entities without visual shapes.
    """
    if kind not in ("visual", "collision"):
        raise KinemaError(f"kind is 'visual' or 'collision', not {kind!r}")
    render_scene = RenderScene(n_links=sum(len(visual.link_rows) for visual in visuals))
    factory = _InstanceFactory(render_scene.diagnostics)
    for i, visual in enumerate(visuals):
        factory.known_messages = [d.message for d in visual.description.diagnostics]
        first_row = min(visual.link_rows.values(), default=0)
        for instance in _entity_instances(visual, i if visual.entity_idx is None else visual.entity_idx, kind, factory):
            instance.entity_link = instance.link - first_row if instance.link >= 0 else -1
            render_scene.instances.append(instance)
        render_scene.lights += lights_of_description(
            visual.description, visual.link_rows, visual.base, render_scene.diagnostics
        )
    for shape_idx, instance in enumerate(render_scene.instances):
        instance.shape = shape_idx
    if not render_scene.lights:
        render_scene.lights = default_lights()
    return render_scene


def _entity_instances(
    visual: VisualEntity, entity_idx: int, kind: str, factory: _InstanceFactory
) -> Iterator[Instance]:
    """Render instances of all shapes of an entity, link by link; falls back to collision shapes.

    A link whose visual shapes give no instance uses its collision shapes if it has visual shapes at all, or if no link
    of the entity has any.

    Args:
        visual: the entity.
        entity_idx: index of the entity for segmentation images.
        kind: `visual` or `collision`.
        factory: creates instances, geometries and surfaces.
    """
    description = visual.description
    linear_color = description.format == "usd"
    if isinstance(description, World):
        for shape in _shapes_of_kind(description.shapes, kind):
            yield from factory.make_instances(shape, -1, visual.base @ shape.pose, entity_idx, linear_color)
        named_links = [(name, link) for name, _, link in description.named_links()]
    else:
        named_links = [(link.name, link) for link in description.links]

    def link_instances(name: str, link: Link, kind: str) -> list[Instance]:
        shapes = _shapes_of_kind(link.shapes, kind)
        return [
            i
            for s in shapes
            for i in factory.make_instances(s, visual.link_rows[name], s.pose, entity_idx, linear_color)
        ]

    instances = [link_instances(name, link, kind) for name, link in named_links]
    no_visuals = not any(instances)
    for (name, link), link_result in zip(named_links, instances, strict=True):
        missing = not link_result and kind == "visual" and (no_visuals or link.visuals)
        yield from link_instances(name, link, "collision") if missing else link_result


def _shapes_of_kind(shapes_of_link: Sequence[Shape], kind: str) -> list[Shape]:
    return [s for s in shapes_of_link if (s.visual if kind == "visual" else s.collision)]


class _InstanceFactory:
    """Creates render instances of shapes; meshes and surfaces are shared between instances."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        self._surfaces: dict[tuple[int, bool], Surface] = {}
        self._meshes: dict[tuple[object, ...], Geometry | None] = {}
        self._reported_materials: set[str] = set()
        self.known_messages: Sequence[str] = ()
        """Diagnostics of the description; missing meshes that they mention are not reported again."""

    def make_instances(
        self, shape: Shape, link_row: int, pose: Pose, entity_idx: int, linear_color: bool
    ) -> list[Instance]:
        """Instance of a shape in the render scene, as a list of one; empty if its mesh is missing or invalid.

        Args:
            shape: the shape.
            link_row: row of its link in the pose arrays; -1 for the world.
            pose: pose in the link, or in the world.
            entity_idx: index of the entity.
            linear_color: whether colors of the material are linear instead of sRGB encoded.
        """
        geometry = self._shape_geometry(shape, linear_color)
        if geometry is None:
            return []
        surface = None
        if geometry.kind is not GeometryKind.MESH or not isinstance(shape.geometry, Mesh):
            surface = self._surface(shape.material, shape, linear_color)
        return [
            Instance(geometry=geometry, surface=surface, link=link_row, pose=pose, entity=entity_idx, name=shape.name)
        ]

    def _shape_geometry(self, shape: Shape, linear_color: bool) -> Geometry | None:
        """Convert a shape to a geometry of the renderer: primitive, tessellated height field or cached mesh.

        None if the mesh is missing.
        """
        primitive = primitive_geometry(shape)
        if primitive is not None:
            return primitive
        geometry = shape.geometry
        if not isinstance(geometry, Mesh):
            mesh = tessellate(geometry)
            return None if mesh is None else mesh_geometry(mesh)
        key = (
            id(geometry.vertices) if geometry.vertices is not None else geometry.path,
            geometry.submesh,
            tuple(geometry.scale),
            geometry.projection,
            id(shape.material),
        )
        if key not in self._meshes:
            self._meshes[key] = self._mesh_geometry(shape, geometry, linear_color)
        return self._meshes[key]

    def _mesh_geometry(self, shape: Shape, mesh: Mesh, linear_color: bool) -> Geometry | None:
        """Load a mesh with its materials and texture coordinates as a render geometry.

        None, with a warning, if it is missing or invalid. The material of the shape takes precedence over those of the
        mesh file (`effective_appearance`).
        """
        try:
            loaded = load_textured_mesh(mesh)
            if loaded is None:
                if not any(mesh.uri in message for message in self.known_messages):
                    self._warn_mesh(f'the mesh of "{shape.name}" ({mesh.uri}) was not found', shape)
                return None
            scale = np.diag(mesh.scale)
            appearance = effective_appearance(shape, loaded)
            for material in appearance.materials:
                self._report_unused_maps(material)
            linear = linear_color or mesh.path.lower().endswith(_LINEAR_COLOR_SUFFIXES)
            result = mesh_geometry(
                geo.apply_affine(loaded.mesh, scale), appearance.transformed(scale), linear_colors=linear
            )
            if result.triangles is not None:
                for surface, material in zip(result.triangles.surfaces, appearance.materials, strict=True):
                    _apply_shininess(surface, material)
        except (GeometryError, KinemaError) as error:
            self._warn_mesh(f'the mesh of "{shape.name}" is not shown: {error}', shape)
            return None
        return result

    def _surface(self, material: VisualMaterial | None, shape: Shape, linear_color: bool) -> Surface:
        """Render surface of a visual material, with MuJoCo's shininess and texture repetition; a default for None."""
        if material is None:
            return self._surfaces.setdefault((0, False), Surface())
        self._report_unused_maps(material)
        surface = make_surface(material, linear_colors=linear_color)
        _apply_shininess(surface, material)
        _apply_texture_repeat(surface, material, shape)
        return self._surfaces.setdefault((id(material) if not surface.maps else id(shape), linear_color), surface)

    def _report_unused_maps(self, material: geo.PbrMaterial) -> None:
        """Note the features of a material that the renderer does not support, once per material name."""
        unsupported = unsupported_features(material)
        if unsupported and material.name not in self._reported_materials:
            self._reported_materials.add(material.name)
            message = (
                f'the renderer does not support these features of material "{material.name}": {", ".join(unsupported)}'
            )
            self.diagnostics.note("render.material", message)

    def _warn_mesh(self, message: str, shape: Shape) -> None:
        self.diagnostics.warning("render.mesh", message, origin=shape.origin)


def _apply_shininess(surface: Surface, material: geo.PbrMaterial) -> None:
    """Set the roughness of a surface from MuJoCo's shininess, unless the material gives a roughness."""
    shininess = (
        material.attributes.get(mjcf.attribute_key(mjcf.SHININESS)) if isinstance(material, VisualMaterial) else None
    )
    if material.roughness is None and shininess is not None:
        surface.roughness = roughness_from_shininess(float(shininess))


def _apply_texture_repeat(surface: Surface, material: VisualMaterial, shape: Shape) -> None:
    """Scale the texture coordinates of a surface by MuJoCo's `texrepeat`.

    With `texuniform` the repetition is per metre, which is supported for finite planes; else it is per shape.
    """
    repeat = material.attributes.get(mjcf.attribute_key(mjcf.TEXREPEAT))
    uniform = bool(material.attributes.get(mjcf.attribute_key(mjcf.TEXUNIFORM)))
    repeat_u, repeat_v = (float(x) for x in repeat) if repeat is not None else (1.0, 1.0)
    if uniform and isinstance(shape.geometry, Plane) and shape.geometry.size is not None:
        repeat_u, repeat_v = repeat_u * shape.geometry.size[0], repeat_v * shape.geometry.size[1]
    if (repeat_u, repeat_v) != (1.0, 1.0):
        for role, image in surface.maps.items():
            a, b, x, c, d, y = image.uv_transform
            surface.maps[role] = replace(
                image, uv_transform=(a * repeat_u, b * repeat_v, x, c * repeat_u, d * repeat_v, y)
            )


def primitive_geometry(shape: Shape) -> Geometry | None:
    """Convert a primitive shape to a geometry of the renderer (half sizes [m]); None for meshes, height fields."""
    match shape.geometry:
        case Box(size):
            return Geometry(GeometryKind.BOX, _float3(*(0.5 * np.asarray(size))))
        case Sphere(radius):
            return Geometry(GeometryKind.SPHERE, _float3(radius))
        case Ellipsoid(radii):
            return Geometry(GeometryKind.ELLIPSOID, _float3(*radii))
        case Capsule(radius, length):
            return Geometry(GeometryKind.CAPSULE, _float3(radius, 0.5 * length))
        case Cylinder(radius, length):
            return Geometry(GeometryKind.CYLINDER, _float3(radius, 0.5 * length))
        case Cone(radius, length):
            return Geometry(GeometryKind.CONE, _float3(radius, 0.5 * length))
        case Plane(size):
            return Geometry(
                GeometryKind.PLANE, _float3(*(0.5 * np.asarray(size))) if size is not None else (0.0, 0.0, 0.0)
            )
        case _:
            return None


def _float3(x: float, y: float = 0.0, z: float = 0.0) -> tuple[float, float, float]:
    return float(x), float(y), float(z)
