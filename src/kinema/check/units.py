"""Rules that smell a wrong unit. See also `limits.absurd`, `meshes.size` and `inertia.implausible`."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from kinema.description import World
from kinema.foundation import Severity

from .context import Body, Context
from .rule import Finding, rule
from .words import label, length, number, plural

_LIGHTEST, _HEAVIEST = 1e-6, 1e5
"""Masses of a link [kg]."""
_THINNEST, _DENSEST = 1.0, 30000.0
"""Densities [kg/m3]: air, and more than the heaviest metals."""


@rule("units.robot-size", Severity.WARNING)
def robot_size(context: Context) -> Iterable[Finding]:
    """A robot is larger than 100 m or smaller than 1 mm, at rest."""
    if context.robot is None or context.is_scenery:
        return
    corners = [np.zeros((0, 3))]
    for shape, link in context.shapes:
        solid = context.solid(shape)
        pose = context.rest.get(link.name) if link is not None else None
        if solid is not None and pose is not None and shape.pose.is_finite:
            corners.append((pose @ shape.pose).apply(solid.points))
    # a robot without shapes has at least its joints
    points = np.concatenate(corners)
    if not len(points):
        points = np.array([pose.position for pose in context.rest.values()]).reshape(-1, 3)
    if len(points) < 2 or not np.isfinite(points).all():
        return
    size = float(np.ptp(points, axis=0).max())
    if size > 100:
        message = f"{label(context.robot)} is {length(size)} large"
        yield Finding(context.robot, message, "if it is in millimetres, divide all lengths by 1000")
    elif 0 < size < 1e-3:
        yield Finding(context.robot, f"{label(context.robot)} is only {length(size)} large", "give lengths in metres")


@rule("units.mass", Severity.WARNING)
def mass(context: Context) -> Iterable[Finding]:
    """A link weighs less than a milligram or more than a hundred tonnes."""
    for link in context.links:
        value = link.inertial.mass if link.inertial is not None else 0.0
        if 0 < value < _LIGHTEST:
            message = f"{label(link)} has a mass of {number(value)} kg; some simulators drop links that light"
            yield Finding(link, message, "give the mass in kilograms; make a link without mass a frame")
        elif _HEAVIEST < value < math.inf:
            message = f"{label(link)} has a mass of {number(value)} kg"
            yield Finding(link, message, "give the mass in kilograms, not in grams")


@rule("units.density", Severity.WARNING)
def density(context: Context) -> Iterable[Finding]:
    """Mass and shapes of a link, with what is fixed to it, give a density that no solid has.

    Below 1 or above 30000 kg/m3 the mass or the lengths are probably in another unit. The volume is that of the convex
    hulls of the shapes, seen or colliding, whichever speaks for the robot.
    """
    for body in context.bodies:
        if body.held or not 0 < body.mass < math.inf or any(link.inertial_is_computed for link in body.links):
            continue
        if not context.shapes_are_known(body.links):
            continue
        volumes = [v for v in (_volume(context, body, k) for k in ("collisions", "visuals")) if v > 0]
        if not volumes or (body.mass / min(volumes) >= _THINNEST and body.mass / max(volumes) <= _DENSEST):
            continue
        volume = max(volumes) if body.mass / max(volumes) > _DENSEST else min(volumes)
        link = max(body.links, key=lambda x: x.inertial.mass if x.inertial is not None else 0.0)
        fixed = f" (with {plural(len(body.links) - 1, 'link')} fixed to it)" if len(body.links) > 1 else ""
        value = number(body.mass / volume)
        message = f"{label(link)}{fixed} has a density of {value} kg/m3: {number(body.mass)} kg in {number(volume)} m3"
        yield Finding(link, message, "check the units of its mass and of its shapes")


def _volume(context: Context, body: Body, kind: str) -> float:
    solids = (context.solid(shape) for link in body.links for shape in getattr(link, kind))
    return sum(solid.volume for solid in solids if solid is not None)


@rule("units.gravity", Severity.WARNING)
def gravity(context: Context) -> Iterable[Finding]:
    """Gravity is stronger than on any planet: probably it is in cm/s2 or mm/s2."""
    value = context.assembly.gravity
    if value is None or not np.isfinite(value).all():
        return
    strength = float(np.linalg.norm(value))
    if strength > 100:
        where = "the world" if isinstance(context.assembly, World) else label(context.assembly)
        yield Finding(context.assembly, f"gravity in {where} is {number(strength)} m/s2", "write 9.81 for the Earth's")
