"""The element `<link>`: inertial, collisions and visuals."""

from __future__ import annotations

import copy

import numpy as np

from kinema.core import Pose, unique_name
from kinema.description import Inertial, Link, Shape
from kinema.tokens import sdf

from ..joint_chains import SMALL_MASS, minimal_inertial
from ..loss_report import with_report_name
from ..mesh_files import has_face_materials
from ..xml_document import Element, format_number
from .context import (
    MIMIC_VERSION,
    SdfContext,
    add_pose,
    bool_text,
    names_in_extras,
    require_finite,
    sdf_setting,
    setting_text,
    to_sdf_name,
    write_preserved,
)
from .shapes import SURFACE_SETTINGS, add_material, add_surface, geometry_element

_SIMPLE_SHAPE_SETTINGS = (sdf.LASER_RETRO, sdf.MAX_CONTACTS, sdf.CAST_SHADOWS, sdf.VISIBILITY_FLAGS, sdf.TRANSPARENCY)
_WRITTEN_SHAPE_SETTINGS = (*SURFACE_SETTINGS, sdf.MAX_CONVEX_HULLS, sdf.META)


def add_link(ctx: SdfContext, model: Element, link: Link, name: str, *, with_masks: bool) -> Element:
    """Append the `<link>` of a lowered link with inertial, collisions and visuals, without sensors and lights."""
    element = model.add_child("link", name=name)
    add_pose(element, link.pose or Pose(), f'link "{link.name}"', computed=True)
    if link.gravity_scale != 1:
        element.add_child("gravity", bool_text(link.gravity_scale))
        if link.gravity_scale:
            ctx.report_approximated(link, "its share of gravity", f"it is {link.gravity_scale:g}, and here it is all")
    if link.self_collide is not None:
        element.add_child("self_collide", bool_text(link.self_collide))
    if link.kinematic:
        element.add_child("kinematic", "true")
    decay = sdf_setting(link, sdf.VELOCITY_DECAY)
    if isinstance(decay, tuple):
        made = element.add_child(sdf.VELOCITY_DECAY)
        made.add_child("linear", setting_text(decay[0]))
        made.add_child("angular", setting_text(decay[1]))
    _write_inertial(ctx, element, link)
    _write_shapes(ctx, element, link, with_masks=with_masks)
    inside = ("auto_inertia_params",)
    said = (sdf.VELOCITY_DECAY, sdf.FLUID_ADDED_MASS)
    write_preserved(ctx, link, element, already_written=said, skipped_tags=inside, simple_settings=sdf.LINK_FLAGS)
    return element


# ------------------------------------------------------------------------------------------------------------ inertials


def _write_inertial(ctx: SdfContext, element: Element, link: Link) -> None:
    """Write mass, centre and inertia of a link; massless links get a minimal mass, with a report."""
    inertial = link.inertial
    if inertial is None or inertial.mass == 0:
        how = f"it has {SMALL_MASS:g} kg: without a mass it would have 1 kg, and none is refused"
        ctx.report_approximated(link, "that it has no mass", how)
        inertial = _with_minimal_mass(inertial)
    elif not is_physical_inertial(inertial):
        how = "no body can have them; they are written as they are, and many programs refuse such a file"
        ctx.report_approximated(link, "its mass and inertia", how)
    owner = f'link "{link.name}"'
    made = element.add_child("inertial")
    add_pose(made, Pose(inertial.center), owner)
    made.add_child("mass", format_number(require_finite(inertial.mass, owner, "mass")))
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = ((inertial.inertia + inertial.inertia.T) / 2).tolist()
    tensor = made.add_child("inertia")
    moments = {"ixx": xx, "ixy": xy, "ixz": xz, "iyy": yy, "iyz": yz, "izz": zz}
    for name, value in moments.items():
        tensor.add_child(name, format_number(require_finite(value, owner, "inertia")))
    added = sdf_setting(link, sdf.FLUID_ADDED_MASS)
    if isinstance(added, dict):
        if ctx.supports("1.10"):
            fluid = made.add_child("fluid_added_mass")
            for tag, value in added.items():
                fluid.add_child(tag, setting_text(value))
        else:
            ctx.report_dropped(link, "the fluid that it adds", "SDFormat has it since 1.10")
    for extra in link.extras:
        if extra.format == sdf.FORMAT and extra.tag == "auto_inertia_params":
            made.add_verbatim(extra.text)


def _with_minimal_mass(inertial: Inertial | None) -> Inertial:
    """Inertial with `SMALL_MASS`; moments of inertia are kept if physically valid."""
    kept = None if inertial is None else Inertial(SMALL_MASS, inertial.center, inertial.inertia)
    return kept if kept and is_physical_inertial(kept) else minimal_inertial()


def is_physical_inertial(inertial: Inertial) -> bool:
    """Whether mass and principal moments are positive and satisfy the triangle inequality."""
    if not (inertial.mass > 0 and np.isfinite(inertial.inertia).all()):
        return False
    moments = np.sort(np.linalg.eigvalsh((inertial.inertia + inertial.inertia.T) / 2))
    return bool(moments[0] > 0 and moments[0] + moments[1] >= moments[2] * (1 - 1e-9))


# --------------------------------------------------------------------------------------------------------------- shapes


def _write_shapes(ctx: SdfContext, element: Element, link: Link, *, with_masks: bool) -> None:
    """Write all collisions and visuals of a link; preserved settings go to the first element of a shape."""
    given: set[int] = set()
    for use in ("collision", "visual"):
        taken = names_in_extras(link.extras, use)
        for shape in link.shapes:
            if not getattr(shape, use) or not shape.enabled:
                continue
            called = with_report_name(link, shape)
            geometry = geometry_element(ctx, called, is_visual=use == "visual")
            if geometry is None:
                continue
            name = unique_name(to_sdf_name(shape.name) or use, taken)
            if shape.name and name != shape.name:
                ctx.report_approximated(called, "its name", f'it is called "{name}"')
            made = element.add_child(use, name=name)
            _write_shape(ctx, made, called, use, geometry, with_masks=with_masks)
            # of a shape that is both seen and collides, the kept settings go with the first
            plain = called if id(shape) not in given else copy.copy(called)
            if plain is not called:
                plain.extras, plain.attributes = [], {}
            write_preserved(
                ctx, plain, made, already_written=_WRITTEN_SHAPE_SETTINGS, simple_settings=_SIMPLE_SHAPE_SETTINGS
            )
            given.add(id(shape))
    _report_shape_losses(ctx, link)


def _write_shape(
    ctx: SdfContext, element: Element, shape: Shape, use: str, geometry: Element, *, with_masks: bool
) -> None:
    """Write pose, geometry and the surface of a collision, or the material of a visual."""
    add_pose(element, shape.pose, f'shape "{shape.name}"')
    element.children.append(geometry)
    if use == "collision":
        add_surface(ctx, element, shape, with_masks=with_masks)
        if shape.density is not None:
            if ctx.supports(MIMIC_VERSION):
                element.add_child("density", format_number(require_finite(shape.density, shape.name, "density")))
            else:
                ctx.report_dropped(shape, "its density", f"SDFormat has it since {MIMIC_VERSION}")
        return
    if shape.material is not None and not has_face_materials(shape):
        add_material(ctx, element, shape, shape.material)
    meta = sdf_setting(shape, sdf.META)
    if isinstance(meta, dict):
        layer = meta.get("layer")
        if isinstance(layer, str) and set(meta) == {"layer"}:
            element.add_child("meta").add_child("layer", layer)
        else:
            ctx.report_dropped(shape, "its meta data")


def _report_shape_losses(ctx: SdfContext, link: Link) -> None:
    """Report disabled shapes and shape properties that are not in the file."""
    for shape in link.shapes:
        called = with_report_name(link, shape)
        if not shape.enabled:
            ctx.report_dropped(called, "the shape", "it is disabled, and there is no word for that")
            continue
        if not (shape.visual or shape.collision):
            ctx.report_dropped(called, "the shape", "it is neither seen nor does it collide")
        unsaid = [words for words, there in (("its mass", shape.mass is not None), ("its group", shape.group)) if there]
        if shape.density is not None and not shape.collision:
            unsaid.append("its density")
        if shape.surface is not None and not shape.collision:
            unsaid.append("its surface")
        if shape.material is not None and not shape.visual:
            unsaid.append("its material")
        if not shape.collision and (shape.contype, shape.conaffinity) not in ((1, 1), (0, 0)):
            unsaid.append("its contype and conaffinity")
        if unsaid:
            ctx.report_dropped(called, ", ".join(unsaid))
