"""From gprims to the shapes of links and of the world."""

from __future__ import annotations

import dataclasses
from typing import Any

from kinema.description import Mesh, PhysicsMaterial, Plane, Shape, SolverParameters, VisualMaterial

from . import pxr
from .geometry import GeometryError, Placed, approximation, place_geometry
from .polar import Affine, is_singular
from .stage_index import Body, StageIndex

_SEEN_PURPOSES = ("default", "render")
"""Purposes that are meant to be looked at; `proxy` stands in for `render`, `guide` helps the author."""


@dataclasses.dataclass(slots=True, eq=False)
class StageShape:
    """A shape with the prim it comes from and the body it belongs to."""

    shape: Shape
    prim: pxr.Prim
    body: Body | None
    into_link: Affine
    """From the prim's own coordinates into its link's frame (the world's, for scenery)."""


def read_shapes(index: StageIndex) -> list[StageShape]:
    """Every shape of the stage."""
    result: list[StageShape] = []
    for prim in index.gprims:
        found = read_shape(index, prim, index.owner(prim), index.world(prim))
        if found is not None:
            result.append(found)
    return result


def read_shape(index: StageIndex, prim: pxr.Prim, body: Body | None, world: Affine) -> StageShape | None:
    """One shape; None, with a diagnostic where that is worth one, for what cannot be one."""
    schemas = prim.GetAppliedSchemas()
    is_collider = "PhysicsCollisionAPI" in schemas
    seen = _is_seen(index, prim)
    if not is_collider and not seen:
        return None
    into_link = _into_link(world, body)
    placed = _place(index, prim, into_link, is_collider)
    if placed is None:
        return None
    geometry = placed.geometry
    wanted = approximation(index, prim)
    if isinstance(geometry, Mesh) and wanted is not None:
        geometry = dataclasses.replace(geometry, approximation=wanted)
    enabled = is_collider and index.value(prim, "physics:collisionEnabled") is not False
    shape = Shape(
        name=prim.GetName(),
        origin=index.origin(prim),
        geometry=geometry,
        pose=placed.pose,
        visual=seen,
        collision=is_collider,
        enabled=enabled or not is_collider,
        material=visual_material(index, prim),
        surface=physics_material(index, prim) if is_collider else None,
    )
    if isinstance(geometry, Plane) and body is not None and is_collider:
        index.diagnostics.warning(
            "usd.plane-on-body",
            f"collider {prim.GetName()!r} is an infinite plane on a moving body",
            origin=index.origin(prim),
        )
    return StageShape(shape, prim, body, into_link)


def _into_link(world: Affine, body: Body | None) -> Affine:
    """From the prim's coordinates into its link's frame (the world's, for scenery)."""
    if body is None:
        return world
    back = body.pose.inverse()
    return Affine(back.rotation, back.position) @ world


def _place(index: StageIndex, prim: pxr.Prim, into_link: Affine, is_collider: bool) -> Placed | None:
    name, kind = prim.GetName(), str(prim.GetTypeName())
    if not into_link.is_finite:
        _complain(index, prim, "usd.transform-not-finite", f"the transform of shape {name!r} holds NaN or infinity")
        return None
    if is_singular(into_link.linear):
        _complain(index, prim, "usd.zero-scale", f"shape {name!r} is scaled to nothing in some direction")
        return None
    try:
        placed = place_geometry(index, prim, into_link)
    except GeometryError as error:
        _complain(index, prim, "usd.bad-geometry", f"shape {name!r} ({kind}) is left out: {error}")
        return None
    if placed is None:
        report = index.diagnostics.warning if is_collider else index.diagnostics.note
        message = f"{name!r} is a {kind}, which has no place in the description; it is left out"
        report("usd.unsupported-geometry", message, origin=index.origin(prim))
    elif placed.became_mesh:
        message = f"{placed.became_mesh} {name!r} is scaled so that it is none any more; it becomes a mesh"
        index.diagnostics.note("usd.primitive-to-mesh", message, origin=index.origin(prim))
    return placed


def _complain(index: StageIndex, prim: pxr.Prim, code: str, message: str) -> None:
    index.diagnostics.error(code, message, origin=index.origin(prim))


def _is_seen(index: StageIndex, prim: pxr.Prim) -> bool:
    imageable = pxr.UsdGeom.Imageable(prim)
    if str(imageable.ComputePurpose()) not in _SEEN_PURPOSES:
        return False
    return str(imageable.ComputeVisibility(index.time)) != "invisible"


# -- materials --------------------------------------------------------------------------------------------------------


def physics_material(index: StageIndex, prim: pxr.Prim) -> PhysicsMaterial | None:
    """The physics material bound to a collider, directly, by inheritance or by a collection."""
    bound = _bound_material(prim, "physics")
    if bound is None or "PhysicsMaterialAPI" not in bound.GetAppliedSchemas():
        return None
    get = index.value
    density = get(bound, "physics:density")
    return PhysicsMaterial(
        name=bound.GetName(),
        origin=index.origin(bound),
        static_friction=_float(get(bound, "physics:staticFriction")),
        dynamic_friction=_float(get(bound, "physics:dynamicFriction")),
        restitution=_float(get(bound, "physics:restitution")),
        density=density * index.units.density if density else None,
        torsional_friction=_float(index.authored(bound, "newton:torsionalFriction")),
        rolling_friction=_float(index.authored(bound, "newton:rollingFriction")),
        contact_stiffness=_float(index.authored(bound, "newton:contactStiffness")),
        contact_damping=_float(index.authored(bound, "newton:contactDamping")),
        **_mjc_contact(index, prim),
    )


def _mjc_contact(index: StageIndex, prim: pxr.Prim) -> dict[str, Any]:
    """MuJoCo's contact settings, which its schema puts on the collider."""
    solref, solimp = index.authored(prim, "mjc:solref"), index.authored(prim, "mjc:solimp")
    result: dict[str, Any] = {}
    if solref is not None or solimp is not None:
        result["solver"] = SolverParameters(
            solref=None if solref is None else tuple(float(v) for v in solref),  # type: ignore[arg-type]
            solimp=None if solimp is None else tuple(float(v) for v in solimp),  # type: ignore[arg-type]
        )
    condim, priority = index.authored(prim, "mjc:condim"), index.authored(prim, "mjc:priority")
    if condim is not None:
        result["contact_dimension"] = int(condim)
    if priority is not None:
        result["priority"] = int(priority)
    return result


def visual_material(index: StageIndex, prim: pxr.Prim) -> VisualMaterial | None:
    """The look: a preview surface's constants, or the display colour."""
    bound = _bound_material(prim, "")
    if bound is not None:
        shader = pxr.UsdShade.Material(bound).ComputeSurfaceSource()[0]
        if shader and shader.GetIdAttr().Get() == "UsdPreviewSurface":
            return _preview_surface(index, bound, shader)
    color = _display_color(index, prim)
    if color is None and bound is None:
        return None
    name = bound.GetName() if bound is not None else ""
    return VisualMaterial(name=name, color=color, origin=index.origin(bound if bound is not None else prim))


def _preview_surface(index: StageIndex, material: pxr.Prim, shader: Any) -> VisualMaterial:
    def constant(name: str) -> Any:
        shader_input = shader.GetInput(name)
        return shader_input.Get(index.time) if shader_input and not shader_input.HasConnectedSource() else None

    diffuse, opacity = constant("diffuseColor"), constant("opacity")
    emissive = constant("emissiveColor")
    return VisualMaterial(
        name=material.GetName(),
        origin=index.origin(material),
        color=None if diffuse is None else (*(float(c) for c in diffuse), 1.0 if opacity is None else float(opacity)),  # type: ignore[arg-type]
        emission=None if emissive is None else tuple(float(c) for c in emissive),  # type: ignore[arg-type]
        metallic=_float(constant("metallic")),
        roughness=_float(constant("roughness")),
        texture=_texture(shader),
    )


def _texture(shader: Any) -> str:
    """The file of the texture that the diffuse colour is connected to."""
    diffuse = shader.GetInput("diffuseColor")
    if not diffuse or not diffuse.HasConnectedSource():
        return ""
    sources = diffuse.GetConnectedSources()[0]
    if not sources:
        return ""
    source = pxr.UsdShade.Shader(sources[0].source.GetPrim())
    file = source.GetInput("file") if source else None
    asset = file.Get() if file else None
    return "" if asset is None else str(asset.resolvedPath or asset.path)


def _display_color(index: StageIndex, prim: pxr.Prim) -> tuple[float, float, float, float] | None:
    colors = pxr.UsdGeom.Gprim(prim).GetDisplayColorAttr().Get(index.time)
    if not colors:
        return None
    opacities = pxr.UsdGeom.Gprim(prim).GetDisplayOpacityAttr().Get(index.time)
    r, g, b = (float(c) for c in colors[0])
    return (r, g, b, float(opacities[0]) if opacities else 1.0)


def _bound_material(prim: pxr.Prim, purpose: str) -> pxr.Prim | None:
    api = pxr.UsdShade.MaterialBindingAPI(prim)
    material, _ = api.ComputeBoundMaterial(purpose) if purpose else api.ComputeBoundMaterial()
    return material.GetPrim() if material else None


def _float(value: Any) -> float | None:
    return None if value is None else float(value)
