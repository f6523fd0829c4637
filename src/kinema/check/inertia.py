"""Rules about mass, centre of mass and inertia tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from kinema.core import Array, Severity
from kinema.description import Inertial, Link
from kinema.tokens import sdf

from .context import CheckContext, RigidBody
from .messages import format_length, format_number, format_vector, label
from .rule import Finding, rule

_ROUNDING_TOLERANCE = 1e-6
"""Relative error of a moment of inertia that is nothing but rounding."""
_WARNING_TOLERANCE = 1e-2
"""Relative error that rounding to a few digits may well give: worth a warning, not an error."""


def _links_with_mass(context: CheckContext) -> Iterator[tuple[Link, Inertial]]:
    """Links with finite mass properties and a positive mass."""
    for link in context.links:
        own = link.inertial
        if own is None or not (0 < own.mass < math.inf):
            continue
        if np.isfinite(own.center).all() and np.isfinite(own.inertia).all():
            yield link, own


def _links_with_authored_inertia(context: CheckContext) -> Iterator[tuple[Link, Inertial]]:
    """Movable links with mass whose inertia is given in the file."""
    for link, own in _links_with_mass(context):
        body = context.body_by_link.get(link.name)
        if not link.inertial_is_computed and not (body is not None and body.is_fixed_or_kinematic):
            yield link, own


def _principal_moments(inertia: Array) -> Array:
    """Principal moments of inertia in ascending order [kg m2]."""
    return np.asarray(np.linalg.eigvalsh((inertia + inertia.T) / 2), dtype=np.float64)


def _triangle_inequality_excess(principal_moments: Array) -> float:
    """Relative excess of the largest principal moment over the sum of the other two."""
    return (
        float((principal_moments[2] - principal_moments[1] - principal_moments[0]) / principal_moments[2])
        if principal_moments[2] > 0
        else 0.0
    )


def _is_harmless(context: CheckContext, link: Link) -> bool:
    """Whether a wrong inertia has no effect: the link is fixed or kinematic, or its composite body is valid."""
    body = context.body_by_link.get(link.name)
    if body is None:
        return False
    if body.is_fixed_or_kinematic:
        return True
    whole = context.composite_mass_properties(body) if len(body.links) > 1 else None
    if whole is None:
        return False
    moments = _principal_moments(whole.inertia)
    return bool(moments[0] > 0 and _triangle_inequality_excess(moments) <= _ROUNDING_TOLERANCE)


@rule("inertia.negative-mass", Severity.ERROR)
def negative_mass(context: CheckContext) -> Iterable[Finding]:
    """A link has a negative mass."""
    for link in context.links:
        if link.inertial is not None and link.inertial.mass < 0:
            yield Finding(
                link, f"{label(link)} has a mass of {format_number(link.inertial.mass)} kg", "make it positive"
            )


@rule("inertia.massless-robot", Severity.WARNING)
def massless_robot(context: CheckContext) -> Iterable[Finding]:
    """Nothing of a robot that moves has any mass: it describes kinematics only, and cannot be simulated."""
    robot = context.robot
    if robot is not None and _is_massless(context) and any(body.is_movable for body in context.rigid_bodies):
        message = f"{label(robot)} has no mass at all: it can be posed and planned with, but not simulated"
        yield Finding(robot, message, "give its links mass and inertia")


def _is_massless(context: CheckContext) -> bool:
    return all(link.inertial is None for link in context.links)


@rule("inertia.no-mass", Severity.ERROR)
def massless_moving_link(context: CheckContext) -> Iterable[Finding]:
    """A link that moves has no mass, and nothing that is fixed to it has any.

    A force would accelerate it without bound; simulators refuse it, invent a mass, or drop the link. Where the file
    gives no mass (rather than zero) and the links beyond it have some, as in a ball joint made of three hinges, it is a
    warning; where the joint has an armature, a note. Frames without mass that are fixed to a link with mass are fine.
    """
    if _is_massless(context):
        return  # inertia.massless-robot says it
    for body in context.rigid_bodies:
        masses = [link.inertial.mass for link in body.links if link.inertial is not None]
        if not body.is_movable or any(m != 0 for m in masses):
            continue
        severity = None
        if not masses and any(other.mass > 0 for other in body.descendants()):
            severity = Severity.WARNING
        if _has_armature(body):
            severity = Severity.NOTE
        link = body.links[0]
        fixed = f", and neither does what is fixed to it ({len(body.links) - 1} more)" if len(body.links) > 1 else ""
        yield Finding(link, f"{label(link)} moves but has no mass{fixed}", "give it mass and inertia", severity)


def _has_armature(body: RigidBody) -> bool:
    axes = [a for j in body.parent_edge.joints for a in j.moving_axes] if body.parent_edge is not None else []
    return bool(axes) and all(a.armature > 0 for a in axes)


@rule("inertia.zero", Severity.ERROR)
def zero_inertia(context: CheckContext) -> Iterable[Finding]:
    """A link has mass but its inertia is zero, as if all of it were in one point.

    It is a warning where other links that are fixed to it bring inertia.
    """
    for link, own in _links_with_mass(context):
        body = context.body_by_link.get(link.name)
        if not own.inertia.any() and not (body is not None and body.is_fixed_or_kinematic):
            severity = Severity.WARNING if _is_harmless(context, link) else None
            message = f"{label(link)} has a mass of {format_number(own.mass)} kg but no inertia"
            yield Finding(link, message, "give its inertia, or let it be computed from its shapes", severity)


@rule("inertia.not-symmetric", Severity.ERROR)
def asymmetric_inertia(context: CheckContext) -> Iterable[Finding]:
    """An inertia matrix is not symmetric."""
    for link, own in _links_with_mass(context):
        largest = float(np.abs(own.inertia).max())
        if float(np.abs(own.inertia - own.inertia.T).max()) > 1e-9 * largest:
            yield Finding(link, f"the inertia of {label(link)} is not symmetric", "make ixy equal to iyx, and so on")


@rule("inertia.not-positive", Severity.ERROR)
def non_positive_definite_inertia(context: CheckContext) -> Iterable[Finding]:
    """A principal moment of inertia is negative, or zero while others are not.

    Nothing that has mass is like that. A moment of zero, that of an infinitely thin rod, is a warning, and so is a
    negative one on a link that never moves or is fixed to others that outweigh it.
    """
    for link, own in _links_with_mass(context):
        if not own.inertia.any():
            continue  # inertia.zero says it
        moments = _principal_moments(own.inertia)
        size = float(np.abs(moments).max())
        if moments[0] > 1e-9 * size:
            continue
        mild = moments[0] >= -1e-9 * size or _is_harmless(context, link)
        message = f"the inertia of {label(link)} has the principal moments {format_vector(moments)} kg m2"
        hint = "all must be positive: check the signs of the products of inertia"
        yield Finding(link, message, hint, Severity.WARNING if mild else None)


@rule("inertia.triangle", Severity.ERROR)
def triangle_inequality_violation(context: CheckContext) -> Iterable[Finding]:
    """The largest principal moment of inertia exceeds the sum of the other two.

    No distribution of mass does that; simulators refuse it or become unstable. Up to one percent is put down to
    rounding and is a warning, and so is any excess on a link that never moves or is fixed to others that outweigh it.
    """
    for link, own in _links_with_mass(context):
        moments = _principal_moments(own.inertia)
        excess = _triangle_inequality_excess(moments)
        if moments[0] <= 0 or excess <= _ROUNDING_TOLERANCE:
            continue  # a moment that is not positive has a rule of its own
        mild = excess <= _WARNING_TOLERANCE or _is_harmless(context, link)
        message = (
            f"the inertia of {label(link)} is impossible: of its principal moments {format_vector(moments)} kg m2 "
            f"the largest exceeds the sum of the others by {excess:.2g} of itself"
        )
        hint = "compute it again from the shape; rounding or a wrong unit in one entry does this"
        yield Finding(link, message, hint, Severity.WARNING if mild else None)


def _is_placeholder(context: CheckContext, link: Link, inertial: Inertial) -> bool:
    value = float(inertial.inertia[0, 0])
    if value not in (1.0, 10.0, 100.0, 1000.0) or not np.array_equal(inertial.inertia, value * np.eye(3)):
        return False
    reach = _max_distance_from_center(context, link, inertial)
    return inertial.mass <= 10 * value if reach is None else math.sqrt(value / inertial.mass) > reach


def _max_distance_from_center(context: CheckContext, link: Link, inertial: Inertial) -> float | None:
    """Maximum distance of the shapes of a link's rigid body from its centre of mass [m]; None if unknown."""
    body = context.body_by_link.get(link.name)
    links = body.links if body is not None else [link]
    if not context.extents_are_known(links):
        return None
    points = context.hull_points_in_link(link, links)
    return float(np.linalg.norm(points - inertial.center, axis=1).max()) if len(points) else None


@rule("inertia.placeholder", Severity.WARNING)
def placeholder_inertia(context: CheckContext) -> Iterable[Finding]:
    """The inertia is a round number times the identity, and far too large for the link.

    That is what is written when nobody knows it. The link would turn as sluggishly as one of metres in size. In
    SDFormat, 1 kg and 1 kg m2 are what a link without an inertia has, and this is a note.
    """
    for link, own in _links_with_authored_inertia(context):
        if _is_placeholder(context, link, own):
            value = format_number(own.inertia[0, 0])
            message = f"{label(link)}, of {format_number(own.mass)} kg, has an inertia of {value} kg m2 about each axis"
            is_default = context.format == sdf.FORMAT and own.mass == 1 and own.inertia[0, 0] == 1
            hint = "it looks like a placeholder: compute the inertia from the shape"
            yield Finding(link, message, hint, Severity.NOTE if is_default else None)


@rule("inertia.implausible", Severity.WARNING)
def implausible_inertia(context: CheckContext) -> Iterable[Finding]:
    """The inertia does not suit the size of the link's shapes.

    The radius of gyration is how far from the centre all mass would have to be to give that inertia. It cannot be more
    than the shapes reach, and is hardly ever less than a twentieth of that. A wrong unit (g mm2, kg cm2) does this.
    """
    for link, own in _links_with_authored_inertia(context):
        if not own.inertia.any() or _is_placeholder(context, link, own):
            continue
        moments = _principal_moments(own.inertia)
        reach = _max_distance_from_center(context, link, own)
        if reach is None or reach <= 0 or moments[0] < 0:
            continue
        gyration = math.sqrt(moments[2] / own.mass)
        own_points = context.hull_points_in_link(link, [link])
        half = float(np.ptp(own_points, axis=0).max()) / 2 if len(own_points) else 0.0
        what = f"the inertia of {label(link)} has a radius of gyration of {format_length(gyration)}"
        if gyration > 1.5 * reach:
            message = f"{what}, but its shapes reach only {format_length(reach)} from its centre of mass"
            yield Finding(link, message, "check the unit of the inertia and of the mass")
        elif gyration < 0.05 * half:
            message = f"{what}, but its shapes are {format_length(2 * half)} long"
            yield Finding(link, message, "check the unit of the inertia and of the mass")


@rule("inertia.center-outside", Severity.WARNING)
def center_of_mass_outside_shapes(context: CheckContext) -> Iterable[Finding]:
    """The centre of mass is far outside the shapes of the link and of what is fixed to it.

    Mostly it was written in another unit, or in another frame.
    """
    for link, own in _links_with_authored_inertia(context):
        body = context.body_by_link.get(link.name)
        links = body.links if body is not None else [link]
        points = context.hull_points_in_link(link, links)
        if not context.extents_are_known(links) or not len(points):
            continue
        low, high = points.min(axis=0), points.max(axis=0)
        outside = float(np.linalg.norm(np.maximum(0, np.maximum(low - own.center, own.center - high))))
        if outside > 0.5 * float(np.linalg.norm(high - low)):
            message = (
                f"the centre of mass of {label(link)}, {format_vector(own.center)} m, is "
                f"{format_length(outside)} outside its shapes"
            )
            yield Finding(link, message, "check its unit, and that it is given in the link's frame")
