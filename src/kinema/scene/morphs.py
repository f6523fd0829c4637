"""Bodies of one shape (box, sphere, mesh, terrain, ...) for `Scene.add`, and overrides of material, mass and color.

Example: `scene.add(km.Box((0.1, 0.1, 0.1)), pos=(0, 0, 1))`. Lengths are in metres.
"""

from __future__ import annotations

import copy
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kinema import description, geometry
from kinema.core import Array, ArrayLike, Diagnostics, KinemaError, Pose, reproducible_norm, rotation_aligning_z
from kinema.description import (
    Approximation,
    Base,
    Geometry,
    Inertial,
    Link,
    PhysicsMaterial,
    Robot,
    Shape,
    VisualMaterial,
    World,
    geometry_mass_properties,
    scale_description,
    terrain_world,
)
from kinema.tokens import mjcf

from .arguments import (
    as_array,
    axis_scales,
    boolean,
    finite_vector,
    index_of_name,
    nonnegative_float,
    one_of,
    positive_int,
)

# ------------------------------------------------------------------------------------------------ bodies


class Morph(ABC):
    """Base class of bodies with a single shape."""

    is_dynamic = True
    """Whether the body moves freely unless it is fixed."""

    @property
    def kind(self) -> str:
        """Class name in lower case; name of robot, link and shape."""
        return type(self).__name__.lower()

    @property
    def pose(self) -> Pose:
        """Pose of the shape in its link."""
        return Pose()

    @abstractmethod
    def geometry(self, scale: Array) -> Geometry:
        """Geometry in the description, scaled along each axis by `scale`, (3,).

        Raises `KinemaError` for invalid sizes.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Box(Morph):
    """A box centred at its origin."""

    size: ArrayLike
    """Full edge lengths along x, y, z [m], (3,)."""

    def geometry(self, scale: Array) -> Geometry:
        """Scaled box; raises `KinemaError` unless `size` has three positive lengths."""
        size = finite_vector(self.size, "Box: size", "three")
        return description.Box(_positive_lengths(size, "Box: size", self.size) * scale)


@dataclass(frozen=True, slots=True, eq=False)
class Sphere(Morph):
    """A sphere centred at its origin."""

    radius: float
    """Radius [m]."""

    def geometry(self, scale: Array) -> Geometry:
        """Scaled sphere; an ellipsoid if the scale is not uniform."""
        radius = _positive_length(self.radius, "Sphere: radius")
        return description.Sphere(radius * scale[0]) if _is_uniform(scale) else description.Ellipsoid(radius * scale)


@dataclass(frozen=True, slots=True, eq=False)
class Ellipsoid(Morph):
    """An ellipsoid centred at its origin."""

    radii: ArrayLike
    """Semi-axes along x, y, z [m], (3,)."""

    def geometry(self, scale: Array) -> Geometry:
        """Scaled ellipsoid; raises `KinemaError` unless `radii` has three positive lengths."""
        radii = finite_vector(self.radii, "Ellipsoid: radii", "three")
        return description.Ellipsoid(_positive_lengths(radii, "Ellipsoid: radii", self.radii) * scale)


@dataclass(frozen=True, slots=True, eq=False)
class Capsule(Morph):
    """A capsule along z, centred at its origin."""

    radius: float
    """Radius [m]."""
    length: float
    """Length of the cylindrical part, without the hemispheres [m]."""

    def geometry(self, scale: Array) -> Geometry:
        """Scaled capsule; raises `KinemaError` unless the scale is uniform and both lengths are positive."""
        if not _is_uniform(scale):
            raise KinemaError("scale: the scale of a capsule must be uniform, one number")
        radius, length = (_positive_length(getattr(self, x), f"Capsule: {x}") for x in ("radius", "length"))
        return description.Capsule(radius * float(scale[0]), length * float(scale[2]))


@dataclass(frozen=True, slots=True, eq=False)
class Cylinder(Morph):
    """A cylinder along z, centred at its origin."""

    radius: float
    """Radius [m]."""
    length: float
    """Length [m]."""

    def geometry(self, scale: Array) -> Geometry:
        """Scaled cylinder; raises `KinemaError` unless x and y have the same scale and both lengths are positive."""
        if scale[0] != scale[1]:
            raise KinemaError("scale: the scale of a cylinder must be the same for x and y")
        radius, length = (_positive_length(getattr(self, x), f"Cylinder: {x}") for x in ("radius", "length"))
        return description.Cylinder(radius * float(scale[0]), length * float(scale[2]))


@dataclass(frozen=True, slots=True, eq=False)
class Plane(Morph):
    """The ground: an infinite half space below a plane through its origin; always fixed."""

    normal: ArrayLike = (0.0, 0.0, 1.0)
    """Normal vector, not necessarily normalised, (3,); default +z."""
    is_dynamic = False

    @property
    def pose(self) -> Pose:
        """Pose whose z axis is the normal."""
        normal = finite_vector(self.normal, "Plane: normal", "three")
        if not normal.any():
            raise KinemaError("Plane: normal: expected a direction, not zeros")
        unit = normal / reproducible_norm(normal)
        return Pose() if unit[2] == 1.0 else Pose(rotation=rotation_aligning_z(unit))

    def geometry(self, scale: Array) -> Geometry:
        """Infinite plane; the scale has no effect."""
        return description.Plane()


@dataclass(frozen=True, slots=True, eq=False)
class Mesh(Morph):
    """A body with the shape of a triangle mesh: STL, OBJ, PLY, glTF, COLLADA or MSH file, or arrays."""

    file: str | os.PathLike[str] = ""
    """Path of the mesh file, in metres; empty if `vertices` are given."""
    vertices: ArrayLike | None = None
    """Vertices [m], (n, 3), instead of a file."""
    faces: Any = None
    """Triangles as vertex indices, (m, 3)."""
    approximation: str = "convexHull"
    """Collision geometry: `convexHull`, `convexDecomposition`, `boundingCube`, `boundingSphere`, `sdf` (signed distance
    field, exact for concave meshes), `none` (a signed distance field if the mesh is not convex) or `meshSimplification`
    (the same with fewer triangles)."""
    resolution: int | None = None
    """Cells of a signed distance field along its longest side, 2 to 500; None for 64."""

    def geometry(self, scale: Array) -> Geometry:
        """Scaled mesh of the file or arrays; raises `KinemaError` if the file is missing or the mesh is invalid."""
        approximation = one_of(self.approximation, "Mesh: approximation", [a.value for a in Approximation])
        fields: dict[str, Any] = {"scale": scale, "approximation": Approximation(approximation)}
        if self.resolution is not None:
            fields["sdf_resolution"] = positive_int(self.resolution, "Mesh: resolution", "cell")
        if self.vertices is None:
            path = Path(self.file)
            if not self.file or not path.is_file():
                raise KinemaError(f"Mesh: there is no file {str(self.file)!r}")
            mesh = description.Mesh(uri=str(path), path=str(path), **fields)
        else:
            vertices, faces = np.asarray(self.vertices, np.float64), np.asarray(self.faces, np.int64)
            mesh = description.Mesh(vertices=vertices, faces=faces, **fields)
        try:
            geometry.validate_mesh(
                description.mesh_data(mesh) or geometry.MeshData(np.zeros((0, 3)), np.zeros((0, 3), int))
            )
        except (geometry.GeometryError, TypeError, ValueError) as error:
            raise KinemaError(f"Mesh: {self.file or 'the mesh given as arrays'} cannot be used: {error}") from None
        return mesh


@dataclass(frozen=True, slots=True, eq=False)
class Terrain(Morph):
    """A height field over a rectangle centred at its origin; always fixed. `kinema.geometry` generates terrain."""

    heights: Any
    """Heights [m], (rows, columns): row 0 is at -y, column 0 at -x; or a `kinema.geometry.Terrain`, which includes size
    and base."""
    size: tuple[float, float] | None = None
    """Full extent in x and y [m]."""
    base: float = 1.0
    """Depth of the solid below height zero [m]."""
    is_dynamic = False

    def geometry(self, scale: Array) -> Geometry:
        """Scaled height field; raises `KinemaError` for invalid heights or size."""
        try:
            heights = self.heights
            terrain = heights
            if not isinstance(terrain, geometry.Terrain):
                terrain = geometry.Terrain(terrain, self.size or (), self.base)  # type: ignore[arg-type]
            x, y = terrain.size
        except (geometry.GeometryError, TypeError, ValueError) as error:
            raise KinemaError(f"Terrain: {error}") from None
        extent = (float(x * scale[0]), float(y * scale[1]))
        return description.HeightField(heights=terrain.heights * scale[2], size=extent, base=terrain.base * scale[2])


def _is_uniform(scale: Array) -> bool:
    return bool((scale == scale[0]).all())


def _positive_length(value: Any, label: str) -> float:
    if isinstance(value, bool | str) or not np.isscalar(value) or not 0.0 < float(value) < math.inf:  # type: ignore[arg-type]
        raise KinemaError(f"{label}: expected a positive finite length in metres, not {value!r}")
    return float(value)  # type: ignore[arg-type]


def _positive_lengths(values: Array, label: str, given: Any) -> Array:
    if not (values > 0.0).all():
        raise KinemaError(f"{label}: expected three positive lengths, not {given!r}")
    return values


# ---------------------------------------------------------------------------- overrides of material, mass and color

DEFAULT_DENSITY = 1000.0
"""Density of bodies without mass or density [kg/m3]: water, the default of MuJoCo."""


@dataclass(frozen=True, slots=True, eq=False)
class MaterialOverrides:
    """Material, mass, color and collision arguments of `Scene.add`; None keeps the value of the file or the default."""

    friction: Any = None
    """Sliding coefficient, or sliding, torsional [m] and rolling [m]."""
    density: Any = None
    """[kg/m3]; bodies only."""
    mass: Any = None
    """[kg]; bodies only."""
    material: PhysicsMaterial | None = None
    color: Any = None
    """RGB or RGBA, 0 to 1."""
    collision: bool | None = None
    """False disables collision."""

    def physics_material(self, original: PhysicsMaterial | None) -> PhysicsMaterial | None:
        """Contact material of a shape: the user's material, else the original one, with the user's friction applied.

        Raises `KinemaError` for invalid friction. The friction attribute preserved from MJCF is dropped if friction is
        set.
        """
        if self.material is not None and not isinstance(self.material, PhysicsMaterial):
            raise KinemaError(f"material: expected a kinema.description.PhysicsMaterial, not {self.material!r}")
        base = original if self.material is None else self.material
        if self.friction is None:
            return base
        coefficients = as_array(self.friction, np.float64, "friction")
        if (
            coefficients.shape not in ((), (1,), (2,), (3,))
            or not (np.isfinite(coefficients) & (coefficients >= 0.0)).all()
        ):
            raise KinemaError(
                "friction: expected the sliding coefficient, or up to three: sliding, torsional [m], rolling [m], "
                f"not {self.friction!r}"
            )
        sliding, *rest = (float(x) for x in np.atleast_1d(coefficients))
        extra = dict(zip(("torsional_friction", "rolling_friction"), rest, strict=False))
        result = replace(base or PhysicsMaterial(), static_friction=sliding, dynamic_friction=sliding, **extra)
        result.dynamic_friction2 = None
        result.attributes = {k: v for k, v in result.attributes.items() if k != mjcf.attribute_key(mjcf.FRICTION)}
        return result

    def apply_to_shape(self, shape: Shape) -> Shape:
        """Copy of a shape with contact material, color and collision flag overridden."""
        visual_material = shape.material
        if self.color is not None:
            visual_material = VisualMaterial(name="color", color=_parse_color(self.color))
        collides = shape.collision and (self.collision is None or boolean(self.collision, "collision"))
        return replace(
            shape, surface=self.physics_material(shape.surface), material=visual_material, collision=collides
        )

    @property
    def is_empty(self) -> bool:
        """Whether friction, material, color and collision are all None."""
        return all(x is None for x in (self.friction, self.material, self.color, self.collision))

    def inertial_of(self, geometry: Geometry) -> Inertial:
        """Mass, centre of mass and inertia of a solid body of a geometry, from the user's mass or density.

        The density is the user's, else that of the material, else 1000 kg/m3. Raises `KinemaError` if the geometry has
        no volume or if both mass and density are given.
        """
        if self.mass is not None and self.density is not None:
            raise KinemaError("mass, density: give one of the two, not both")
        density = DEFAULT_DENSITY
        if self.density is not None:
            density = nonnegative_float(self.density, "density")
        elif self.material is not None and self.material.density is not None:
            density = self.material.density
        unit_density = geometry_mass_properties(geometry, 1.0)
        if unit_density is None or unit_density.mass <= 0.0:
            raise KinemaError("mass: this shape has no volume and so no mass: use fixed=True")
        scale = density if self.mass is None else nonnegative_float(self.mass, "mass") / unit_density.mass
        return Inertial(unit_density.mass * scale, unit_density.center, unit_density.inertia * scale)


def robot_from_morph(morph: Morph, overrides: MaterialOverrides, scale: Array, fixed: bool | None) -> Robot:
    """Description of a body: a robot with one link and one shape.

    The base is floating, or fixed if the morph is static; a body that is to be fixed gets no inertial properties.

    Args:
        morph: the body.
        overrides: material, mass, color and collision of the user.
        scale: scale along x, y, z, (3,).
        fixed: whether the base is fixed; False raises `KinemaError` for planes and terrain.
    """
    if not morph.is_dynamic and fixed is False:
        raise KinemaError(f"fixed: a {morph.kind} is always fixed")
    geometry = morph.geometry(scale)
    shape = overrides.apply_to_shape(Shape(name=morph.kind, geometry=geometry, pose=morph.pose))
    inertial = overrides.inertial_of(geometry) if morph.is_dynamic and not fixed else None
    link = Link(name=morph.kind, inertial=inertial, shapes=[shape])
    base = Base.FREE if morph.is_dynamic else Base.FIXED
    return Robot(name=morph.kind, links=[link], base=base, static=not morph.is_dynamic)


def with_overrides(description: Robot | World, overrides: MaterialOverrides) -> Robot | World:
    """Copy of a description with material, color and collision of all shapes overridden; itself if nothing is set."""
    for name in ("density", "mass"):
        if getattr(overrides, name) is not None:
            raise KinemaError(f"{name}: only for bodies such as km.Box; files and robots have their own masses")
    return description if overrides.is_empty else map_shapes(description, overrides.apply_to_shape)


def map_shapes(description: Robot | World, function: Callable[[Shape], Shape]) -> Robot | World:
    """Copy of a description with `function` applied to every shape; the original is not changed."""
    result = copy.copy(description)
    if isinstance(result, World):
        result.shapes = [function(s) for s in result.shapes]
        result.robots = [_map_robot_shapes(r, function) for r in result.robots]
        return result
    return _map_robot_shapes(result, function)


def _map_robot_shapes(robot: Robot, function: Callable[[Shape], Shape]) -> Robot:
    result = copy.copy(robot)
    result.links = [replace(link, shapes=[function(s) for s in link.shapes]) for link in robot.links]
    return result


def _parse_color(value: Any) -> tuple[float, float, float, float]:
    """Validate an RGB or RGBA color with components 0 to 1 and return it as RGBA; alpha defaults to 1."""
    array = as_array(value, np.float64, "color")
    if array.shape not in ((3,), (4,)) or not ((array >= 0.0) & (array <= 1.0)).all():
        raise KinemaError(f"color: expected red, green, blue and optionally alpha, each 0 to 1, not {value!r}")
    red, green, blue, alpha = (*(float(x) for x in array), 1.0)[:4]
    return red, green, blue, alpha


# ------------------------------------------------------------------------------------ descriptions of added objects

Addable = Robot | World | Morph | geometry.Terrain | str | os.PathLike[str]
"""Types that `Scene.add` accepts."""


def description_to_add(
    source: Any, overrides: MaterialOverrides, scale: ArrayLike, fixed: bool | None, diagnostics: Diagnostics
) -> Robot | World:
    """Description of an object to add to a scene, with the user's overrides and scale applied; reads files.

    Args:
        source: description, path of a robot, world or mesh file, body (`km.Box`, `km.Sphere`, ...), or terrain.
        overrides: material, mass, color and collision of the user.
        scale: scale factor, or one per axis for bodies.
        fixed: whether a body is to be fixed.
        diagnostics: receives the messages about a file.
    """
    if isinstance(source, str | os.PathLike) and Path(source).suffix.lower() in geometry.MESH_SUFFIXES:
        source = Mesh(source)
    if isinstance(source, geometry.Terrain):
        source = terrain_world(source)
    if isinstance(source, Morph):
        return robot_from_morph(source, overrides, axis_scales(scale, "scale"), fixed)
    if not isinstance(source, Robot | World):
        source = _read_file(source, diagnostics)
    result = with_overrides(source, overrides)
    x, y, z = axis_scales(scale, "scale")
    if not x == y == z:
        raise KinemaError(
            "scale: the scale of a robot must be uniform, one number; only bodies such as km.Box have one per axis"
        )
    return result if x == 1.0 else scale_description(result, float(x))


def with_kinematic_base(description: Robot | World) -> Robot | World:
    """Copy of a description whose root links are kinematic; static robots become movable."""
    result = copy.copy(description)
    if isinstance(result, World):
        result.robots = [_with_kinematic_roots(robot) for robot in result.robots]
        return result
    return _with_kinematic_roots(result)


def _with_kinematic_roots(robot: Robot) -> Robot:
    result, roots = copy.copy(robot), set(robot.tree().roots)
    roots |= {edge.child for edge in robot.tree().edges if edge.parent is None}
    result.static = False
    result.links = [replace(link, kinematic=link.kinematic or link.name in roots) for link in robot.links]
    return result


def with_fast_links(description: Robot | World, fast: bool | str | Sequence[str] | None) -> Robot | World:
    """Copy of a description in which contacts of all, no, or the named links are found along their motion in a step.

    The description itself if `fast` is None.
    """
    if fast is None:
        return description
    robots = description.robots if isinstance(description, World) else [description]
    named = (
        [(name, robot, link) for name, robot, link in description.named_links()]
        if isinstance(description, World)
        else [(link.name, description, link) for link in description.links]
    )
    names = [name for name, _, _ in named]
    given = names if fast is True else [] if fast is False else [fast] if isinstance(fast, str) else fast
    if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
        raise KinemaError(f"fast: expected True, False or names of links, not {fast!r}")
    chosen = {id(named[index_of_name(name, names, "fast", "links")][2]) for name in given}
    copies = [
        replace(
            robot,
            links=[replace(link, continuous_collision=id(link) in chosen) for link in robot.links],
            options=_without_speculative_flag(robot.options),
        )
        for robot in robots
    ]
    if not isinstance(description, World):
        return copies[0]
    result = copy.copy(description)
    result.robots, result.options = copies, _without_speculative_flag(description.options)
    return result


def _without_speculative_flag(options: dict[str, Any]) -> dict[str, Any]:
    """Options in which the flag `speculative` has no effect."""
    if mjcf.FLAGS not in options:
        return options
    return {**options, mjcf.FLAGS: {name: on for name, on in options[mjcf.FLAGS].items() if name != "speculative"}}


ON_DESCRIPTION_ERROR = ("raise", "keep")
"""Reactions of `Scene.add` to errors of a description: raise, or keep the rest."""
MAX_LISTED_ERRORS = 5


def raise_description_errors(diagnostics: Sequence[Diagnostics]) -> None:
    """Raise `KinemaError` that lists the errors among the diagnostics of a description, if there are any."""
    by_text = {str(error): error for group in diagnostics for error in group.errors()}
    errors = list(by_text.values())
    if errors:
        listed = "\n".join(f"  {text}" for text in list(by_text)[:MAX_LISTED_ERRORS])
        more = f"\n  and {len(errors) - MAX_LISTED_ERRORS} more" if len(errors) > MAX_LISTED_ERRORS else ""
        count = "an error" if len(errors) == 1 else f"{len(errors)} errors"
        raise KinemaError(
            f'add: the description has {count}; correct the file, or use scene.add(..., errors="keep") to simulate the '
            f"rest:\n{listed}{more}",
            errors,
        )


def _read_file(path: Any, diagnostics: Diagnostics) -> Robot | World:
    """Read a robot or world file; its diagnostics are appended to those of the scene."""
    from kinema.read import read_again

    if not isinstance(path, str | os.PathLike):
        raise KinemaError(f"add: expected a robot, a world, a body or the path of a file, not {path!r}")
    result = read_again(Path(path))
    diagnostics.items += result.diagnostics.items
    return result
