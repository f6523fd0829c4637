"""Rules about values that suggest a wrong unit: robot size, mass, density, gravity."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from kinema.core import Severity
from kinema.description import World

from .context import CheckContext, RigidBody
from .messages import format_length, format_number, label, pluralize
from .rule import Finding, rule

_MIN_MASS, _MAX_MASS = 1e-6, 1e5
"""Masses of a link [kg]."""
_MIN_DENSITY, _MAX_DENSITY = 1.0, 30000.0
"""Densities [kg/m3]: air, and more than the heaviest metals."""


@rule("units.robot-size", Severity.WARNING)
def implausible_robot_size(context: CheckContext) -> Iterable[Finding]:
    """A robot is larger than 100 m or smaller than 1 mm, at rest."""
    if context.robot is None or context.is_static:
        return
    corners = [np.zeros((0, 3))]
    for shape, link in context.shapes:
        solid = context.convex_hull(shape)
        pose = context.initial_poses.get(link.name) if link is not None else None
        if solid is not None and pose is not None and shape.pose.is_finite:
            corners.append((pose @ shape.pose).apply(solid.points))
    # a robot without shapes has at least its joints
    points = np.concatenate(corners)
    if not len(points):
        points = np.array([pose.position for pose in context.initial_poses.values()]).reshape(-1, 3)
    if len(points) < 2 or not np.isfinite(points).all():
        return
    size = float(np.ptp(points, axis=0).max())
    if size > 100:
        message = f"{label(context.robot)} is {format_length(size)} large"
        yield Finding(context.robot, message, "if it is in millimetres, divide all lengths by 1000")
    elif 0 < size < 1e-3:
        yield Finding(
            context.robot, f"{label(context.robot)} is only {format_length(size)} large", "give lengths in metres"
        )


@rule("units.mass", Severity.WARNING)
def implausible_mass(context: CheckContext) -> Iterable[Finding]:
    """A link weighs less than a milligram or more than a hundred tonnes."""
    for link in context.links:
        value = link.inertial.mass if link.inertial is not None else 0.0
        if 0 < value < _MIN_MASS:
            message = f"{label(link)} has a mass of {format_number(value)} kg; some simulators drop links that light"
            yield Finding(link, message, "give the mass in kilograms; make a link without mass a frame")
        elif _MAX_MASS < value < math.inf:
            message = f"{label(link)} has a mass of {format_number(value)} kg"
            yield Finding(link, message, "give the mass in kilograms, not in grams")


@rule("units.density", Severity.WARNING)
def implausible_density(context: CheckContext) -> Iterable[Finding]:
    """Mass and shapes of a link, with what is fixed to it, give a density that no solid has.

    Below 1 or above 30000 kg/m3 the mass or the lengths are probably in another unit. The volume is that of the convex
    hulls of the shapes, seen or colliding, whichever speaks for the robot.
    """
    for body in context.rigid_bodies:
        if (
            body.is_fixed_or_kinematic
            or not 0 < body.mass < math.inf
            or any(link.inertial_is_computed for link in body.links)
        ):
            continue
        if not context.extents_are_known(body.links):
            continue
        volumes = [v for v in (_hull_volume(context, body, k) for k in ("collisions", "visuals")) if v > 0]
        if not volumes or (body.mass / min(volumes) >= _MIN_DENSITY and body.mass / max(volumes) <= _MAX_DENSITY):
            continue
        volume = max(volumes) if body.mass / max(volumes) > _MAX_DENSITY else min(volumes)
        link = max(body.links, key=lambda x: x.inertial.mass if x.inertial is not None else 0.0)
        fixed = f" (with {pluralize(len(body.links) - 1, 'link')} fixed to it)" if len(body.links) > 1 else ""
        value = format_number(body.mass / volume)
        message = (
            f"{label(link)}{fixed} has a density of {value} kg/m3: {format_number(body.mass)} kg in "
            f"{format_number(volume)} m3"
        )
        yield Finding(link, message, "check the units of its mass and of its shapes")


def _hull_volume(context: CheckContext, body: RigidBody, shapes_field: str) -> float:
    solids = (context.convex_hull(shape) for link in body.links for shape in getattr(link, shapes_field))
    return sum(solid.volume for solid in solids if solid is not None)


@rule("units.gravity", Severity.WARNING)
def implausible_gravity(context: CheckContext) -> Iterable[Finding]:
    """Gravity is stronger than on any planet: probably it is in cm/s2 or mm/s2."""
    value = context.assembly.gravity
    if value is None or not np.isfinite(value).all():
        return
    strength = float(np.linalg.norm(value))
    if strength > 100:
        where = "the world" if isinstance(context.assembly, World) else label(context.assembly)
        yield Finding(
            context.assembly, f"gravity in {where} is {format_number(strength)} m/s2", "write 9.81 for the Earth's"
        )
