"""How a shape touches others: `<surface>`."""

from __future__ import annotations

import math
from collections.abc import Iterable

from kinema.description import PhysicsMaterial, Shape
from kinema.words import sdf

from ..text import Element, number
from .extras import give_back, setting
from .writing import Writing, finite, flag, plain_text

_BITS = 0xFFFFFFFF
_BULLET_FRICTION = (*sdf.BULLET_FRICTION[:2], sdf.FDIR1, *sdf.BULLET_FRICTION[2:])
_ODE_FRICTION = (sdf.FDIR1, *sdf.SLIPS)
_CONTACT = (sdf.COLLIDE_WITHOUT_CONTACT, sdf.COLLIDE_WITHOUT_CONTACT_BITMASK, *sdf.CONTACT_NUMBERS)
SETTINGS = (
    *(sdf.THRESHOLD, sdf.SURFACE_RADIUS, sdf.TORSIONAL_SLIP),
    *_ODE_FRICTION,
    *_CONTACT,
    *(sdf.of_engine(sdf.BULLET, tag) for tag in (*_BULLET_FRICTION, *sdf.ENGINE_SETTINGS)),
    *(sdf.of_engine(sdf.ODE, tag) for tag in sdf.ENGINE_SETTINGS),
)
"""The settings of a shape that belong to its surface."""
_UNSAID = {
    "rolling_friction": (None, "rolling friction"),
    "density": (None, "density"),
    "contact_dimension": (None, "contact dimension"),
    "gap": (0.0, "gap"),
    "priority": (0, "priority"),
    "solmix": (1.0, "solmix"),
}
_LEVER = 3.0 * math.pi / 16.0
"""Of a round patch with the pressure of a Hertzian contact: torsional friction is that times coefficient and radius."""


def add_surface(writing: Writing, element: Element, shape: Shape, *, with_masks: bool) -> None:
    """The `<surface>` of a collision, where there is something to say."""
    surface = shape.surface or PhysicsMaterial()
    made = Element("surface")
    friction, bounce, contact = _friction(writing, shape, surface), Element("bounce"), Element("contact")
    if surface.restitution is not None:
        bounce.child("restitution_coefficient", number(finite(surface.restitution, shape.name, "restitution")))
    _settings(bounce, shape, (sdf.THRESHOLD,))
    if with_masks:
        contact.child("collide_bitmask", str(shape.conaffinity & _BITS))
        if shape.contype != shape.conaffinity:
            contact.child("category_bitmask", str(shape.contype & _BITS))
    _settings(contact, shape, _CONTACT)
    _engines(contact, shape, surface)
    for part in (bounce, friction, contact):
        if part.children:
            made.children.append(part)
    if shape.surface is not None:
        _report(writing, shape, shape.surface)
        called = PhysicsMaterial(
            name=surface.name or f"of {shape.name}", extras=surface.extras, attributes=surface.attributes
        )
        give_back(writing, called, made, said=(sdf.TORSIONAL,))
    if made.children or made.attributes:
        element.children.append(made)


def _settings(element: Element, shape: Shape, tags: Iterable[str], engine: str = "") -> None:
    for tag in tags:
        value = setting(shape, sdf.of_engine(engine, tag) if engine else tag)
        if value is not None and not any(isinstance(c, Element) and c.tag == tag for c in element.children):
            element.child(tag, plain_text(value))


def _friction(writing: Writing, shape: Shape, surface: PhysicsMaterial) -> Element:
    element = Element("friction")
    ode, bullet, torsional = Element(sdf.ODE), Element(sdf.BULLET), Element("torsional")
    mu, mu2 = surface.dynamic_friction, surface.dynamic_friction2
    if mu is None:
        mu = surface.static_friction
    if mu2 is None and not writing.is_same_format:
        mu2 = mu  # the format would take 1
    if mu is not None:
        ode.child("mu", number(finite(mu, shape.name, "friction")))
    if mu2 is not None:
        ode.child("mu2", number(finite(mu2, shape.name, "friction")))
    if surface.dynamic_friction is not None and surface.static_friction not in (None, surface.dynamic_friction):
        how = f"the one coefficient, {surface.dynamic_friction:g}, is that of sliding"
        writing.approximate(shape, "its static friction", how)
    elif surface.dynamic_friction is None and surface.static_friction is not None:
        writing.approximate(shape, "its static friction", "it is that of sliding, too")
    _settings(ode, shape, _ODE_FRICTION)
    _settings(bullet, shape, _BULLET_FRICTION, sdf.BULLET)
    _torsional(torsional, shape, surface)
    for part in (ode, bullet, torsional):
        if part.children:
            element.children.append(part)
    return element


def _torsional(element: Element, shape: Shape, surface: PhysicsMaterial) -> None:
    given = surface.attributes.get(sdf.key(sdf.TORSIONAL))
    if isinstance(given, tuple):
        coefficient, radius = given
    elif surface.torsional_friction is not None:
        coefficient, radius = 1.0, surface.torsional_friction / _LEVER
    else:
        coefficient = radius = None
    if coefficient is not None and radius is not None:
        element.child("coefficient", number(finite(coefficient, shape.name, "torsional friction")))
        element.child("use_patch_radius", flag(surface.torsional_friction is not None))
        element.child("patch_radius", number(finite(radius, shape.name, "torsional friction")))
    _settings(element, shape, (sdf.SURFACE_RADIUS,))
    slip = setting(shape, sdf.TORSIONAL_SLIP)
    if slip is not None:
        element.child(sdf.ODE).child("slip", plain_text(slip))


def _engines(contact: Element, shape: Shape, surface: PhysicsMaterial) -> None:
    """Stiffness and damping for ODE, unless the file gave them for an engine of its own."""
    bullet, ode = Element(sdf.BULLET), Element(sdf.ODE)
    _settings(bullet, shape, sdf.ENGINE_SETTINGS, sdf.BULLET)
    for tag, value in (("kp", surface.contact_stiffness), ("kd", surface.contact_damping)):
        own = setting(shape, sdf.of_engine(sdf.ODE, tag))
        if own is None and setting(shape, sdf.of_engine(sdf.BULLET, tag)) == value:
            continue
        if value is not None:
            ode.child(tag, number(finite(value, shape.name, tag)))
    _settings(ode, shape, sdf.ENGINE_SETTINGS, sdf.ODE)
    for part in (bullet, ode):
        if part.children:
            contact.children.append(part)


def _report(writing: Writing, shape: Shape, surface: PhysicsMaterial) -> None:
    unsaid = [words for name, (default, words) in _UNSAID.items() if getattr(surface, name) != default]
    if surface.solver != PhysicsMaterial().solver:
        unsaid.append("solver parameters")
    if surface.name and not surface.name_is_generated:
        unsaid.append(f"the name {surface.name!r}")
    if unsaid:
        writing.drop(shape, f"of its surface: {', '.join(unsaid)}")
