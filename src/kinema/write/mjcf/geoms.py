"""Geoms: geometry, mass, material, groups and contact parameters of shapes."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np

from kinema.core import Pose
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
    PhysicsMaterial,
    Plane,
    Shape,
    Sphere,
    mesh_data,
    tessellate,
)
from kinema.geometry import GeometryError
from kinema.tokens import mjcf

from ..xml_document import Element, format_number, format_numbers
from .assets import thickened_mesh_text
from .attributes import pose_attributes, text_unless_default, trimmed_text
from .context import MjcfBody, MjcfContext
from .extras import parse_fragment, plugin_elements
from .joints import solver_attributes
from .materials import set_material, split_by_material

# --------------------------------------------------------------------------------------------------- contact parameters

_DEFAULT_FRICTION = (1.0, 0.005, 0.0001)
"""MuJoCo's default sliding, torsional and rolling friction."""


def surface_attributes(ctx: MjcfContext, owner: Node, surface: PhysicsMaterial | None) -> dict[str, str | None]:
    """Contact attributes of a geom from a physics material; losses are reported for `owner`."""
    if surface is None:
        return {}
    friction = _friction_coefficients(surface)
    condim = surface.contact_dimension
    given: dict[str, str | None] = {
        "condim": None if condim is None or condim == 3 else str(condim),
        "friction": None if friction == _DEFAULT_FRICTION else format_numbers(friction),
        "priority": str(surface.priority) if surface.priority else None,
        "solmix": text_unless_default(surface.solmix, 1.0),
        **solver_attributes(surface.solver, with_margin=True),
        "gap": text_unless_default(surface.gap),
    }
    report_contact_losses(ctx, owner, surface)
    if surface.dynamic_friction2 not in (None, friction[0]):
        how = "a geom of MuJoCo's has one sliding friction for all directions; that of the first is written"
        ctx.report_approximated(owner, "friction in the second direction", how)
    return given


def pair_attributes(ctx: MjcfContext, owner: Node, surface: PhysicsMaterial | None) -> dict[str, str | None]:
    """Contact attributes of an explicit contact pair from a physics material; losses are reported for `owner`."""
    if surface is None:
        return {}
    sliding, torsional, rolling = _friction_coefficients(surface)
    second = sliding if surface.dynamic_friction2 is None else surface.dynamic_friction2
    friction = ctx.use_attribute(surface, mjcf.FRICTION) or (sliding, second, torsional, rolling, rolling)
    one_each = (sliding, sliding, torsional, rolling, rolling)
    solref = ctx.use_attribute(surface, mjcf.SOLREFFRICTION)
    condim = surface.contact_dimension
    report_contact_losses(ctx, owner, surface)
    return {
        "condim": None if condim is None else str(condim),
        "friction": format_numbers(
            (sliding, sliding, torsional) if tuple(friction) == one_each and not rolling else friction
        ),
        **_explicit_solver_attributes(surface),
        "solreffriction": None if not solref else format_numbers(solref),
        "gap": text_unless_default(surface.gap),
        "adhesion": text_unless_default(ctx.use_attribute(surface, mjcf.ADHESION, 0.0)),
    }


def _explicit_solver_attributes(surface: PhysicsMaterial) -> dict[str, str | None]:
    """Solver attributes of a contact pair, always written because MuJoCo would otherwise derive them from the geoms."""
    solver = surface.solver
    return {
        "solref": format_numbers(solver.solref or (0.02, 1.0)),
        "solimp": format_numbers(solver.solimp or (0.9, 0.95, 0.001, 0.5, 2.0)),
        "margin": format_numbers([solver.margin]),
    }


def _friction_coefficients(surface: PhysicsMaterial) -> tuple[float, float, float]:
    sliding = surface.dynamic_friction if surface.dynamic_friction is not None else surface.static_friction
    given = (sliding, surface.torsional_friction, surface.rolling_friction)
    first, second, third = (d if g is None else g for g, d in zip(given, _DEFAULT_FRICTION, strict=True))
    return first, second, third


def report_contact_losses(ctx: MjcfContext, owner: Node, surface: PhysicsMaterial) -> None:
    """Report static friction, restitution, contact stiffness and surface names, which MuJoCo lacks."""
    static, dynamic = surface.static_friction, surface.dynamic_friction
    if static is not None and dynamic is not None and static != dynamic:
        ctx.report_approximated(owner, "static friction", f"MuJoCo has one for rest and motion; {dynamic:g} is written")
    if surface.restitution:
        ctx.report_dropped(owner, "restitution", "MuJoCo's contacts bounce by 'solref' only, which is not made from it")
    if surface.contact_stiffness is not None or surface.contact_damping is not None:
        how = "MuJoCo's contacts are soft by 'solref', in units of acceleration"
        ctx.report_dropped(owner, "contact stiffness and damping", how)
    if surface.name and not surface.name_is_generated:
        ctx.report_dropped(owner, f"the name of its surface, {surface.name!r}", "MuJoCo's surfaces have none")


# ------------------------------------------------------------------------------------------------------ geoms of shapes

VISUAL_GROUP = 2
"""Group of visual geoms; MuJoCo's viewer shows groups 0, 1 and 2."""
COLLISION_GROUP = 3
_DEFAULT_DENSITY = 1000.0
_BOUNDING_APPROXIMATIONS = (Approximation.BOUNDING_CUBE, Approximation.BOUNDING_SPHERE)


def write_geoms(
    ctx: MjcfContext, shapes: Sequence[Shape], body: MjcfBody | None, assembly: Assembly, parent_element: Element
) -> None:
    """Write the geoms of the shapes of a link, or of the world, into its element."""
    for shape in shapes:
        shown = not shape.name_is_generated and bool(shape.name)
        link = None if body is None else body.link
        # shapes of many formats are called alike on every link
        scope = link.name if link is not None and shape.name in ctx.duplicate_shape_names else ""
        entry = ctx.names.register(mjcf.GEOM, shape, assembly, always_named=shown, scope=scope)
        elements = list(_shape_geoms(ctx, shape, body, assembly))
        if not elements:
            continue
        entry.element = elements[0]
        ctx.geoms[id(shape)], ctx.geom_counts[id(shape)] = elements[0], len(elements)
        parent_element.children += elements


def _shape_geoms(ctx: MjcfContext, shape: Shape, body: MjcfBody | None, assembly: Assembly) -> Iterator[Element]:
    """Geoms of a shape: one, or one per material of its mesh and a hidden one for collision and mass."""
    parts = split_by_material(ctx, shape)
    if len(parts) <= 1:
        if parts:
            shown = copy.copy(shape)
            shown.geometry, shown.material = parts[0].mesh, parts[0].material
            shape = shown
        element = _geom_element(ctx, shape, body, assembly)
        if element is not None:
            yield element
        return
    how = f"a geom of MuJoCo's has one material; the mesh is written as {len(parts)} geoms"
    ctx.report_approximated(shape, "that it is one shape", how)
    if shape.collision or shape.mass is not None or shape.density is not None:
        yield from _collision_only_geom(ctx, shape, body, assembly)
    for part in parts:
        seen = copy.copy(shape)
        seen.geometry, seen.material, seen.collision, seen.surface = part.mesh, part.material, False, None
        seen.mass, seen.density = None, None
        element = _geom_element(ctx, seen, body, assembly)
        if element is not None:
            element.set_attributes({"contype": "0", "conaffinity": "0", "mass": "0"})
            yield element


def _collision_only_geom(
    ctx: MjcfContext, shape: Shape, body: MjcfBody | None, assembly: Assembly
) -> Iterator[Element]:
    """Hidden collision geom of a shape that is shown by several visual geoms."""
    hidden = copy.copy(shape)
    hidden.visual, hidden.material = False, None
    assert isinstance(shape.geometry, Mesh)
    hidden.geometry = dataclasses.replace(shape.geometry, appearance=None)
    hidden.group = COLLISION_GROUP
    element = _geom_element(ctx, hidden, body, assembly)
    if element is not None:
        yield element


def _geom_element(ctx: MjcfContext, shape: Shape, body: MjcfBody | None, assembly: Assembly) -> Element | None:
    """Element of a geom with geometry, pose, material, contact and mass attributes; None, with a report, if invalid."""
    element = Element(mjcf.GEOM)
    geometry, pose = shape.geometry, shape.pose
    if not pose.is_finite:
        ctx.report_dropped(shape, "the shape", "its pose has numbers that are none")
        return None
    if isinstance(geometry, Plane) and body is not None and body.weld_body is not None:
        ctx.report_dropped(shape, "the shape", "a plane of MuJoCo's cannot be on a body that moves")
        return None
    if isinstance(geometry, Mesh) and shape.collision:
        geometry, pose = _collision_geometry(ctx, shape, geometry, pose)
    attributes = _geometry_attributes(ctx, shape, geometry)
    if attributes is None:
        return None
    if isinstance(geometry, HeightField):
        size, name = ctx.use_attribute(shape, mjcf.SIZE), ctx.use_attribute(shape, mjcf.ASSET_NAME)
        placed = ctx.meshes.height_field_asset(geometry, name or shape.name or "terrain", size)
        if placed is None:
            ctx.report_dropped(shape, "the shape", "a height field of MuJoCo's has at least 2 x 2 finite heights")
            return None
        attributes["hfield"], pose = placed[0], pose @ placed[1]
    element.set_attributes({**attributes, **pose_attributes(pose)})
    set_material(ctx, shape.material, element, assembly.format)
    _set_group_and_class(ctx, shape, assembly, element)
    unused = ctx.use_attribute(shape, mjcf.UNUSED_CONTACT_PARAMETERS)
    if shape.collision:
        element.set_attributes(surface_attributes(ctx, shape, shape.surface))
    elif shape.surface is not None:
        ctx.report_dropped(shape, "its surface", "it does not collide")
    elif unused is not None:
        element.set_attributes(surface_attributes(ctx, shape, unused))
    _set_mass(shape, element)
    _set_mujoco_attributes(ctx, shape, element)
    element.children += plugin_elements(ctx, shape)
    return element


# ------------------------------------------------------------------------------------------------------------- geometry


def _geometry_attributes(ctx: MjcfContext, shape: Shape, geometry: Geometry) -> dict[str, str | None] | None:
    """Attributes for type, size and asset of a geometry; None, with a report, if MuJoCo cannot represent it."""
    if isinstance(geometry, HeightField):
        return {"type": "hfield"}
    if isinstance(geometry, Cone):
        made = _tessellate_shape(ctx, shape, geometry)
        return None if made is None else _mesh_attributes(ctx, shape, made)
    if isinstance(geometry, Mesh):
        return _mesh_attributes(ctx, shape, geometry)
    if isinstance(geometry, Plane):
        return {"type": "plane", "size": format_numbers(_plane_size(ctx, shape, geometry))}
    given = primitive_attributes(geometry)
    if given is None:
        ctx.report_dropped(shape, "the shape", "MuJoCo takes no size that is not positive")
    return given


def _plane_size(ctx: MjcfContext, shape: Shape, plane: Plane) -> tuple[float, float, float]:
    """MuJoCo's plane size: half sizes (0 for infinite) and grid spacing."""
    x, y = (s / 2 for s in plane.size or (0.0, 0.0))
    own = ctx.use_attribute(shape, mjcf.SIZE)
    if own is not None and (own[:2] == (x, y) or (plane.size is None and 0.0 in own[:2])):
        return own
    return x, y, 1.0


def primitive_attributes(geometry: Geometry) -> dict[str, str | None] | None:
    """Type and half sizes of a primitive; None unless all sizes are positive and finite."""
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
    return {"type": None if kind == "sphere" else kind, "size": format_numbers(sizes)}


def _mesh_attributes(ctx: MjcfContext, shape: Shape, mesh: Mesh) -> dict[str, str | None] | None:
    """Type and asset name of a mesh geom; None, with a report, if the mesh is unavailable."""
    signed = _uses_sdf(shape, mesh)
    own = ctx.use_attribute(shape, mjcf.MESH_INERTIA, "")
    name = ctx.use_attribute(shape, mjcf.ASSET_NAME, "")
    plugin = _mesh_plugin(ctx, shape)
    asset = ctx.meshes.mesh_asset(
        mesh, shape.name or "mesh", collides=shape.collision, inertia=own, original_name=name, plugin=plugin
    )
    ctx.use_attribute(shape, mjcf.UNREADABLE_MESH)
    if asset is None:
        reason = f"the file {mesh.uri!r} was not found" if mesh.uri and not mesh.path else "its triangles are unusable"
        ctx.report_dropped(shape, "the shape", f"MuJoCo refuses a file without its meshes, and {reason}")
        return None
    if asset.thickened:
        ctx.report_approximated(shape, "its mesh", thickened_mesh_text())
    return {"type": "sdf" if signed else "mesh", "mesh": asset.name}


def _mesh_plugin(ctx: MjcfContext, shape: Shape) -> Element | None:
    """Preserved plugin element that generates the mesh, if the output has the extension section; else None."""
    text = str(ctx.use_attribute(shape, mjcf.MESH_PLUGIN, ""))
    declared = any(extra.tag == mjcf.EXTENSION for home in ctx.assemblies for extra in home.extras)
    return parse_fragment(text) if declared else None


def _uses_sdf(shape: Shape, mesh: Mesh) -> bool:
    """Whether a mesh of an MJCF source collides as a signed distance field.

    Meshes of other formats never do: MuJoCo takes seconds for the field of a fine mesh and fails for some open meshes.
    """
    from_mjcf = mjcf.attribute_key(mjcf.ASSET_NAME) in shape.attributes or any(
        e.tag == mjcf.PLUGIN for e in shape.extras
    )
    return mesh.approximation is Approximation.SDF and from_mjcf


def _tessellate_shape(ctx: MjcfContext, shape: Shape, geometry: Geometry) -> Mesh | None:
    """Triangle mesh of a primitive that MuJoCo lacks; None, with a report, if tessellation fails."""
    try:
        data = tessellate(geometry)
    except GeometryError as error:
        ctx.report_dropped(shape, "the shape", str(error))
        return None
    assert data is not None  # primitives have triangles
    ctx.report_approximated(shape, f"a {shape.kind}", f"MuJoCo has none; it is a mesh of {data.n_faces} triangles")
    return Mesh(vertices=data.vertices, faces=data.faces)


def _collision_geometry(ctx: MjcfContext, shape: Shape, mesh: Mesh, pose: Pose) -> tuple[Geometry, Pose]:
    """Collision geometry and pose of a mesh: a bounding box or sphere if requested, else its convex hull."""
    wanted = mesh.approximation
    if wanted in _BOUNDING_APPROXIMATIONS and wanted is not None and not shape.visual:
        bound = _bounding_primitive(mesh, wanted)
        if bound is not None:
            geometry, center = bound
            what = "the mesh that it bounds"
            ctx.report_approximated(shape, what, f"the {type(geometry).__name__.lower()} that stands for it is written")
            return geometry, pose @ Pose.translation(center)
    if wanted not in (None, Approximation.CONVEX_HULL) and not _uses_sdf(shape, mesh):
        how = "meshes of MuJoCo's collide as their convex hulls"
        ctx.report_approximated(shape, f"the collision approximation {wanted.value!r}", how)
    return mesh, pose


def _bounding_primitive(mesh: Mesh, approximation: Approximation) -> tuple[Geometry, np.ndarray] | None:
    """Axis-aligned box or sphere around a mesh and its centre (3,); None if the mesh cannot be loaded."""
    try:
        data = mesh_data(mesh)
    except GeometryError:
        return None
    if data is None:
        return None
    low, high = data.vertices.min(axis=0), data.vertices.max(axis=0)
    center = (low + high) / 2
    if approximation is Approximation.BOUNDING_CUBE:
        return Box(high - low), center
    return Sphere(float(np.linalg.norm(data.vertices - center, axis=1).max())), center


# -------------------------------------------------------------------------------------------- mass, material and groups


def _set_group_and_class(ctx: MjcfContext, shape: Shape, assembly: Assembly, element: Element) -> None:
    """Set group and default class; reserves the mask attributes, which are set when all geoms are known."""
    group, label = shape.group, ctx.use_attribute(shape, mjcf.CLASS, "")
    if assembly.format != mjcf.FORMAT:
        if shape.collision != shape.visual:
            label = label or ("visual" if shape.visual else "collision")
            group = group or (VISUAL_GROUP if shape.visual else COLLISION_GROUP)
        elif not shape.visual:
            group = group or COLLISION_GROUP
    # which geoms collide is decided when all are known; the two places are kept for that
    element.set_attributes(
        {"contype": "", "conaffinity": "", "group": str(group) if group else None, "class": label or None}
    )
    if not shape.enabled:
        ctx.report_approximated(
            shape, "that its collision is switched off", "it is written as one that collides with nothing"
        )


def _set_mass(shape: Shape, element: Element) -> None:
    density = shape.density
    if density is None and shape.surface is not None:
        density = shape.surface.density
    if shape.mass is not None:
        element.set_attributes({"mass": format_number(shape.mass) if 0 <= shape.mass < math.inf else None})
    elif density is not None and density != _DEFAULT_DENSITY:
        element.set_attributes({"density": format_number(density) if 0 <= density < math.inf else None})


def _set_mujoco_attributes(ctx: MjcfContext, shape: Shape, element: Element) -> None:
    """Set attributes that only MuJoCo has: shell inertia, shadows, surface velocity, adhesion, fluid, user data."""
    user = ctx.use_attribute(shape, mjcf.USER)
    ctx.use_attribute(shape, mjcf.FITTED_MESH)  # the primitive that was fitted is what is written
    surface_velocity, adhesion = ctx.use_attribute(shape, mjcf.SURFACEVEL), ctx.use_attribute(shape, mjcf.ADHESION)
    element.set_attributes(
        {
            "shellinertia": "true" if ctx.use_attribute(shape, mjcf.SHELLINERTIA) else None,
            "castshadow": "false" if ctx.use_attribute(shape, mjcf.CASTSHADOW) is False else None,
            "surfacevel": None if not surface_velocity else format_numbers(surface_velocity),
            "adhesion": None if not adhesion else trimmed_text(adhesion),
            "user": None if user is None else trimmed_text(user),
        }
    )
    fluid = ctx.use_attribute(shape, mjcf.FLUID)
    if fluid:
        element.set_attributes(_fluid_attributes(fluid))


def _fluid_attributes(fluid: Sequence[float]) -> dict[str, str | None]:
    """Attributes of the ellipsoid fluid model: the five coefficients of MuJoCo's fluid parameters."""
    if not fluid[0]:
        return {}
    return {"fluidshape": "ellipsoid", "fluidcoef": format_numbers(fluid[1:6])}


def marker_attributes(ctx: MjcfContext, owner: Node, geometry: Geometry | None) -> dict[str, str | None]:
    """Type and size of a site from its marker geometry; empty, with a report, for unsupported geometries."""
    if geometry is None:
        return {}
    if isinstance(geometry, Mesh):
        asset = ctx.meshes.mesh_asset(geometry, owner.name or "marker", collides=False)
        return {} if asset is None else {"type": "mesh", "mesh": asset.name}
    given = primitive_attributes(geometry)
    if given is None:
        ctx.report_dropped(
            owner, "what it is drawn as", "MuJoCo draws sites as spheres, capsules, ellipsoids and boxes"
        )
        return {}
    default = {"type": None, "size": text_unless_default(0.005)}
    return {} if given == default else given
