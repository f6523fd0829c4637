"""Shapes to geoms."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np

from kinema.description import (
    Approximation,
    Assembly,
    Box,
    Capsule,
    Cone,
    Cylinder,
    Ellipsoid,
    Geometry,
    HeightField,
    Mesh,
    Node,
    Plane,
    Shape,
    Sphere,
    mesh_data,
    tessellate,
)
from kinema.foundation import Pose
from kinema.shapes import ShapeError
from kinema.words import mjcf

from ..text import Element, number, numbers
from .body_plan import BodyPlan
from .extras import parse_fragment, plugins
from .materials import apply_material
from .meshes import thickness_text
from .numbers import pose_attributes, text_or_none, trimmed
from .parts import parts_of
from .surfaces import surface_attributes
from .writing import Writing

VISUAL_GROUP = 2
"""MuJoCo's viewer shows groups 0, 1 and 2."""
COLLISION_GROUP = 3
_DEFAULT_DENSITY = 1000.0
_BOUNDS = (Approximation.BOUNDING_CUBE, Approximation.BOUNDING_SPHERE)


def write_geoms(writing: Writing, shapes: Sequence[Shape], body: BodyPlan | None, home: Assembly, to: Element) -> None:
    """The shapes of a link, or of the world, into its element."""
    for shape in shapes:
        shown = not shape.name_is_generated and bool(shape.name)
        link = None if body is None else body.link
        # shapes of many formats are called alike on every link
        scope = link.name if link is not None and shape.name in writing.repeated_shapes else ""
        entry = writing.names.add(mjcf.GEOM, shape, home, shown=shown, scope=scope)
        elements = list(_geoms(writing, shape, body, home))
        if not elements:
            continue
        entry.element = elements[0]
        writing.geoms[id(shape)], writing.geom_counts[id(shape)] = elements[0], len(elements)
        to.children += elements


def _geoms(writing: Writing, shape: Shape, body: BodyPlan | None, home: Assembly) -> Iterator[Element]:
    """The geoms of a shape: one, or one for each of the materials on its mesh."""
    parts = parts_of(writing, shape)
    if len(parts) <= 1:
        if parts:
            shown = copy.copy(shape)
            shown.geometry, shown.material = parts[0].mesh, parts[0].material
            shape = shown
        element = _geom(writing, shape, body, home)
        if element is not None:
            yield element
        return
    how = f"a geom of MuJoCo's has one material; the mesh is written as {len(parts)} geoms"
    writing.approximate(shape, "that it is one shape", how)
    if shape.collision or shape.mass is not None or shape.density is not None:
        yield from _hidden_part(writing, shape, body, home)
    for part in parts:
        seen = copy.copy(shape)
        seen.geometry, seen.material, seen.collision, seen.surface = part.mesh, part.material, False, None
        seen.mass, seen.density = None, None
        element = _geom(writing, seen, body, home)
        if element is not None:
            element.set({"contype": "0", "conaffinity": "0", "mass": "0"})
            yield element


def _hidden_part(writing: Writing, shape: Shape, body: BodyPlan | None, home: Assembly) -> Iterator[Element]:
    """What is not seen of a shape whose parts are."""
    hidden = copy.copy(shape)
    hidden.visual, hidden.material = False, None
    assert isinstance(shape.geometry, Mesh)
    hidden.geometry = dataclasses.replace(shape.geometry, appearance=None)
    hidden.group = COLLISION_GROUP
    element = _geom(writing, hidden, body, home)
    if element is not None:
        yield element


def _geom(writing: Writing, shape: Shape, body: BodyPlan | None, home: Assembly) -> Element | None:
    element = Element(mjcf.GEOM)
    geometry, pose = shape.geometry, shape.pose
    if not pose.is_finite:
        writing.drop(shape, "the shape", "its pose has numbers that are none")
        return None
    if isinstance(geometry, Plane) and body is not None and body.weld is not None:
        writing.drop(shape, "the shape", "a plane of MuJoCo's cannot be on a body that moves")
        return None
    if isinstance(geometry, Mesh) and shape.collision:
        geometry, pose = _approximated(writing, shape, geometry, pose)
    attributes = _geometry_attributes(writing, shape, geometry)
    if attributes is None:
        return None
    if isinstance(geometry, HeightField):
        size, name = writing.take(shape, mjcf.SIZE), writing.take(shape, mjcf.ASSET_NAME)
        placed = writing.meshes.height_field(geometry, name or shape.name or "terrain", size)
        if placed is None:
            writing.drop(shape, "the shape", "a height field of MuJoCo's has at least 2 x 2 finite heights")
            return None
        attributes["hfield"], pose = placed[0], pose @ placed[1]
    element.set({**attributes, **pose_attributes(pose)})
    apply_material(writing, shape.material, element, home.format)
    _group_and_class(writing, shape, home, element)
    unused = writing.take(shape, mjcf.UNUSED_SURFACE)
    if shape.collision:
        element.set(surface_attributes(writing, shape, shape.surface))
    elif shape.surface is not None:
        writing.drop(shape, "its surface", "it does not collide")
    elif unused is not None:
        element.set(surface_attributes(writing, shape, unused))
    _masses(shape, element)
    _own_settings(writing, shape, element)
    element.children += plugins(writing, shape)
    return element


# -- geometry ---------------------------------------------------------------------------------------------------------


def _geometry_attributes(writing: Writing, shape: Shape, geometry: Geometry) -> dict[str, str | None] | None:
    """Type, size and asset; None where MuJoCo cannot have the geometry."""
    if isinstance(geometry, HeightField):
        return {"type": "hfield"}
    if isinstance(geometry, Cone):
        made = _as_mesh(writing, shape, geometry)
        return None if made is None else _mesh_attributes(writing, shape, made)
    if isinstance(geometry, Mesh):
        return _mesh_attributes(writing, shape, geometry)
    if isinstance(geometry, Plane):
        return {"type": "plane", "size": numbers(_plane_size(writing, shape, geometry))}
    given = primitive_attributes(geometry)
    if given is None:
        writing.drop(shape, "the shape", "MuJoCo takes no size that is not positive")
    return given


def _plane_size(writing: Writing, shape: Shape, plane: Plane) -> tuple[float, float, float]:
    """Half sizes, and the spacing of the grid that MuJoCo draws."""
    x, y = (s / 2 for s in plane.size or (0.0, 0.0))
    own = writing.take(shape, mjcf.SIZE)
    if own is not None and (own[:2] == (x, y) or (plane.size is None and 0.0 in own[:2])):
        return own
    return x, y, 1.0


def primitive_attributes(geometry: Geometry) -> dict[str, str | None] | None:
    """Type and half sizes of a primitive; None where they are not positive numbers."""
    match geometry:
        case Sphere():
            kind, sizes = "sphere", [geometry.radius]
        case Box():
            kind, sizes = "box", (geometry.size / 2).tolist()
        case Ellipsoid():
            kind, sizes = "ellipsoid", geometry.radii.tolist()
        case Capsule():
            kind, sizes = "capsule", [geometry.radius, geometry.length / 2]
        case Cylinder():
            kind, sizes = "cylinder", [geometry.radius, geometry.length / 2]
        case _:
            return None
    if not all(np.isfinite(s) and s > 0 for s in sizes):
        return None
    return {"type": None if kind == "sphere" else kind, "size": numbers(sizes)}


def _mesh_attributes(writing: Writing, shape: Shape, mesh: Mesh) -> dict[str, str | None] | None:
    signed = _is_signed(shape, mesh)
    own = writing.take(shape, mjcf.MESH_INERTIA, "")
    name = writing.take(shape, mjcf.ASSET_NAME, "")
    plugin = _mesh_plugin(writing, shape)
    asset = writing.meshes.asset(
        mesh, shape.name or "mesh", collides=shape.collision, inertia=own, called=name, plugin=plugin
    )
    writing.take(shape, mjcf.UNREADABLE)
    if asset is None:
        reason = f"the file {mesh.uri!r} was not found" if mesh.uri and not mesh.path else "its triangles are unusable"
        writing.drop(shape, "the shape", f"MuJoCo refuses a file without its meshes, and {reason}")
        return None
    if asset.thickened:
        writing.approximate(shape, "its mesh", thickness_text())
    return {"type": "sdf" if signed else "mesh", "mesh": asset.name}


def _mesh_plugin(writing: Writing, shape: Shape) -> Element | None:
    """The plugin that computes the mesh, where the file has the section that plugins are declared in."""
    text = str(writing.take(shape, mjcf.MESH_PLUGIN, ""))
    declared = any(extra.tag == mjcf.EXTENSION for home in writing.homes for extra in home.extras)
    return parse_fragment(text) if declared else None


def _is_signed(shape: Shape, mesh: Mesh) -> bool:
    """Whether MuJoCo looks for contacts in a field of distances: as it did in the file that the shape comes from.

    It takes seconds to make one of a fine mesh, and fails for some that are not closed: nobody else is given one.
    """
    from_mjcf = mjcf.key(mjcf.ASSET_NAME) in shape.attributes or any(e.tag == mjcf.PLUGIN for e in shape.extras)
    return mesh.approximation is Approximation.SDF and from_mjcf


def _as_mesh(writing: Writing, shape: Shape, geometry: Geometry) -> Mesh | None:
    """A primitive that MuJoCo does not have."""
    try:
        data = tessellate(geometry)
    except ShapeError as error:
        writing.drop(shape, "the shape", str(error))
        return None
    assert data is not None  # primitives have triangles
    writing.approximate(shape, f"a {shape.kind}", f"MuJoCo has none; it is a mesh of {data.n_faces} triangles")
    return Mesh(vertices=data.vertices, faces=data.faces)


def _approximated(writing: Writing, shape: Shape, mesh: Mesh, pose: Pose) -> tuple[Geometry, Pose]:
    """What stands for a mesh in collision; MuJoCo's meshes collide as their convex hulls."""
    wanted = mesh.approximation
    if wanted in _BOUNDS and wanted is not None and not shape.visual:
        bound = _bound(mesh, wanted)
        if bound is not None:
            geometry, center = bound
            what = "the mesh that it bounds"
            writing.approximate(shape, what, f"the {type(geometry).__name__.lower()} that stands for it is written")
            return geometry, pose @ Pose.translation(center)
    if wanted not in (None, Approximation.CONVEX_HULL) and not _is_signed(shape, mesh):
        how = "meshes of MuJoCo's collide as their convex hulls"
        writing.approximate(shape, f"the collision approximation {wanted.value!r}", how)
    return mesh, pose


def _bound(mesh: Mesh, wanted: Approximation) -> tuple[Geometry, np.ndarray] | None:
    try:
        data = mesh_data(mesh)
    except ShapeError:
        return None
    if data is None:
        return None
    low, high = data.vertices.min(axis=0), data.vertices.max(axis=0)
    center = (low + high) / 2
    if wanted is Approximation.BOUNDING_CUBE:
        return Box(high - low), center
    return Sphere(float(np.linalg.norm(data.vertices - center, axis=1).max())), center


# -- what else a geom says --------------------------------------------------------------------------------------------


def _group_and_class(writing: Writing, shape: Shape, home: Assembly, element: Element) -> None:
    group, label = shape.group, writing.take(shape, mjcf.CLASS, "")
    if home.format != mjcf.FORMAT:
        if shape.collision != shape.visual:
            label = label or ("visual" if shape.visual else "collision")
            group = group or (VISUAL_GROUP if shape.visual else COLLISION_GROUP)
        elif not shape.visual:
            group = group or COLLISION_GROUP
    # which geoms collide is decided when all are known; the two places are kept for that
    element.set({"contype": "", "conaffinity": "", "group": str(group) if group else None, "class": label or None})
    if not shape.enabled:
        writing.approximate(
            shape, "that its collision is switched off", "it is written as one that collides with nothing"
        )


def _masses(shape: Shape, element: Element) -> None:
    density = shape.density
    if density is None and shape.surface is not None:
        density = shape.surface.density
    if shape.mass is not None:
        element.set({"mass": number(shape.mass) if 0 <= shape.mass < math.inf else None})
    elif density is not None and density != _DEFAULT_DENSITY:
        element.set({"density": number(density) if 0 <= density < math.inf else None})


def _own_settings(writing: Writing, shape: Shape, element: Element) -> None:
    """What only MuJoCo has."""
    user = writing.take(shape, mjcf.USER)
    writing.take(shape, mjcf.FITTED_MESH)  # the primitive that was fitted is what is written
    surface_velocity, adhesion = writing.take(shape, mjcf.SURFACEVEL), writing.take(shape, mjcf.ADHESION)
    element.set(
        {
            "shellinertia": "true" if writing.take(shape, mjcf.SHELLINERTIA) else None,
            "castshadow": "false" if writing.take(shape, mjcf.CASTSHADOW) is False else None,
            "surfacevel": None if not surface_velocity else numbers(surface_velocity),
            "adhesion": None if not adhesion else trimmed(adhesion),
            "user": None if user is None else trimmed(user),
        }
    )
    fluid = writing.take(shape, mjcf.FLUID)
    if fluid:
        element.set(_fluid_attributes(fluid))


def _fluid_attributes(fluid: Sequence[float]) -> dict[str, str | None]:
    """MuJoCo keeps the shape of the flow, five coefficients and what follows from them."""
    if not fluid[0]:
        return {}
    return {"fluidshape": "ellipsoid", "fluidcoef": numbers(fluid[1:6])}


def marker_attributes(writing: Writing, owner: Node, geometry: Geometry | None) -> dict[str, str | None]:
    """Type and size of a site."""
    if geometry is None:
        return {}
    if isinstance(geometry, Mesh):
        asset = writing.meshes.asset(geometry, owner.name or "marker", collides=False)
        return {} if asset is None else {"type": "mesh", "mesh": asset.name}
    given = primitive_attributes(geometry)
    if given is None:
        writing.drop(owner, "what it is drawn as", "MuJoCo draws sites as spheres, capsules, ellipsoids and boxes")
        return {}
    default = {"type": None, "size": text_or_none(0.005)}
    return {} if given == default else given
