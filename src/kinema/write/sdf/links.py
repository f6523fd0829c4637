"""Links to `<link>`: inertia, collisions, visuals."""

from __future__ import annotations

import copy

import numpy as np

from kinema.description import Inertial, Link, Shape
from kinema.foundation import Pose, unique_name
from kinema.words import sdf

from ..chains import SMALL_MASS, small_inertial
from ..losing import named_shape
from ..meshes import has_parts
from ..text import Element, number
from .extras import give_back, names_of, setting
from .geometry import geometry_of
from .materials import add_material
from .surfaces import SETTINGS, add_surface
from .writing import WITH_MIMIC, Writing, add_pose, finite, flag, plain_text, sdf_name

_SHAPE_SIMPLE = (sdf.LASER_RETRO, sdf.MAX_CONTACTS, sdf.CAST_SHADOWS, sdf.VISIBILITY_FLAGS, sdf.TRANSPARENCY)
_SHAPE_SAID = (*SETTINGS, sdf.MAX_CONVEX_HULLS, sdf.META)


def add_link(writing: Writing, model: Element, link: Link, name: str, *, with_masks: bool) -> Element:
    """The `<link>` of a link of the lowered robot, without what is mounted on it."""
    element = model.child("link", name=name)
    add_pose(element, link.pose or Pose(), f'link "{link.name}"', computed=True)
    if link.gravity_scale != 1:
        element.child("gravity", flag(link.gravity_scale))
        if link.gravity_scale:
            writing.approximate(link, "its share of gravity", f"it is {link.gravity_scale:g}, and here it is all")
    if link.self_collide is not None:
        element.child("self_collide", flag(link.self_collide))
    if link.kinematic:
        element.child("kinematic", "true")
    decay = setting(link, sdf.VELOCITY_DECAY)
    if isinstance(decay, tuple):
        made = element.child(sdf.VELOCITY_DECAY)
        made.child("linear", plain_text(decay[0]))
        made.child("angular", plain_text(decay[1]))
    _inertial(writing, element, link)
    _shapes(writing, element, link, with_masks=with_masks)
    inside = ("auto_inertia_params",)
    said = (sdf.VELOCITY_DECAY, sdf.FLUID_ADDED_MASS)
    give_back(writing, link, element, said=said, skip=inside, simple=sdf.LINK_FLAGS)
    return element


# -- inertia ----------------------------------------------------------------------------------------------------------


def _inertial(writing: Writing, element: Element, link: Link) -> None:
    inertial = link.inertial
    if inertial is None or inertial.mass == 0:
        how = f"it has {SMALL_MASS:g} kg: without a mass it would have 1 kg, and none is refused"
        writing.approximate(link, "that it has no mass", how)
        inertial = _smallest(inertial)
    elif not is_possible(inertial):
        how = "no body can have them; they are written as they are, and many programs refuse such a file"
        writing.approximate(link, "its mass and inertia", how)
    owner = f'link "{link.name}"'
    made = element.child("inertial")
    add_pose(made, Pose(inertial.center), owner)
    made.child("mass", number(finite(inertial.mass, owner, "mass")))
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = ((inertial.inertia + inertial.inertia.T) / 2).tolist()
    tensor = made.child("inertia")
    moments = {"ixx": xx, "ixy": xy, "ixz": xz, "iyy": yy, "iyz": yz, "izz": zz}
    for name, value in moments.items():
        tensor.child(name, number(finite(value, owner, "inertia")))
    added = setting(link, sdf.FLUID_ADDED_MASS)
    if isinstance(added, dict):
        if writing.has("1.10"):
            fluid = made.child("fluid_added_mass")
            for tag, value in added.items():
                fluid.child(tag, plain_text(value))
        else:
            writing.drop(link, "the fluid that it adds", "SDFormat has it since 1.10")
    for extra in link.extras:
        if extra.format == sdf.FORMAT and extra.tag == "auto_inertia_params":
            made.verbatim(extra.text)


def _smallest(inertial: Inertial | None) -> Inertial:
    """Next to no mass; moments of inertia that a body can have are kept."""
    kept = None if inertial is None else Inertial(SMALL_MASS, inertial.center, inertial.inertia)
    return kept if kept and is_possible(kept) else small_inertial()


def is_possible(inertial: Inertial) -> bool:
    """Whether a body can have such a mass and inertia."""
    if not (inertial.mass > 0 and np.isfinite(inertial.inertia).all()):
        return False
    moments = np.sort(np.linalg.eigvalsh((inertial.inertia + inertial.inertia.T) / 2))
    return bool(moments[0] > 0 and moments[0] + moments[1] >= moments[2] * (1 - 1e-9))


# -- shapes -----------------------------------------------------------------------------------------------------------


def _shapes(writing: Writing, element: Element, link: Link, *, with_masks: bool) -> None:
    given: set[int] = set()
    for use in ("collision", "visual"):
        taken = names_of(link.extras, use)
        for shape in link.shapes:
            if not getattr(shape, use) or not shape.enabled:
                continue
            called = named_shape(link, shape)
            geometry = geometry_of(writing, called, seen=use == "visual")
            if geometry is None:
                continue
            name = unique_name(sdf_name(shape.name) or use, taken)
            if shape.name and name != shape.name:
                writing.approximate(called, "its name", f'it is called "{name}"')
            made = element.child(use, name=name)
            _fill(writing, made, called, use, geometry, with_masks=with_masks)
            # of a shape that is both seen and collides, the kept settings go with the first
            plain = called if id(shape) not in given else copy.copy(called)
            if plain is not called:
                plain.extras, plain.attributes = [], {}
            give_back(writing, plain, made, said=_SHAPE_SAID, simple=_SHAPE_SIMPLE)
            given.add(id(shape))
    _report(writing, link)


def _fill(writing: Writing, made: Element, shape: Shape, use: str, geometry: Element, *, with_masks: bool) -> None:
    add_pose(made, shape.pose, f'shape "{shape.name}"')
    made.children.append(geometry)
    if use == "collision":
        add_surface(writing, made, shape, with_masks=with_masks)
        if shape.density is not None:
            if writing.has(WITH_MIMIC):
                made.child("density", number(finite(shape.density, shape.name, "density")))
            else:
                writing.drop(shape, "its density", f"SDFormat has it since {WITH_MIMIC}")
        return
    if shape.material is not None and not has_parts(shape):
        add_material(writing, made, shape, shape.material)
    meta = setting(shape, sdf.META)
    if isinstance(meta, dict):
        layer = meta.get("layer")
        if isinstance(layer, str) and set(meta) == {"layer"}:
            made.child("meta").child("layer", layer)
        else:
            writing.drop(shape, "its meta data")


def _report(writing: Writing, link: Link) -> None:
    """What of the shapes is not in the file."""
    for shape in link.shapes:
        called = named_shape(link, shape)
        if not shape.enabled:
            writing.drop(called, "the shape", "it is disabled, and there is no word for that")
            continue
        if not (shape.visual or shape.collision):
            writing.drop(called, "the shape", "it is neither seen nor does it collide")
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
            writing.drop(called, ", ".join(unsaid))
