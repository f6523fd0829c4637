"""Gravity and options, cameras and lights."""

from __future__ import annotations

import math

import numpy as np

from kinema.description import Assembly, Camera, Light

from ..report import Action
from .draft import PrimDraft
from .names import give_back
from .placing import place_on_link
from .writing import Writing

_FOCAL_LENGTH = 50.0
"""[tenths of a unit]; with the aperture it makes the field of view, alone it means nothing here."""
_LIGHT_TYPES = {"directional": "DistantLight", "point": "SphereLight", "spot": "DiskLight"}
_OPTIONS = {
    **dict.fromkeys(("integrator", "cone", "jacobian", "solver"), "token"),
    **dict.fromkeys(("iterations", "ls_iterations", "noslip_iterations"), "int"),
    **dict.fromkeys(("impratio", "tolerance", "ls_tolerance", "noslip_tolerance"), "double"),
}
"""Options that MuJoCo's schema for scenes has under the same names, and their types."""


def author_scene(writing: Writing) -> None:
    """The physics scene: beside a robot, so that whoever references the robot keeps their own; inside a world."""
    described = writing.described
    if described.format == "usd" and described.gravity is None:
        return
    parent = writing.plan.root if writing.plan.is_world else ""
    prim = writing.draft.prim(writing.plan.names.child(parent, "PhysicsScene", "PhysicsScene"), "PhysicsScene")
    writing.scene = prim
    gravity = described.gravity
    if gravity is not None:
        strength = float(np.linalg.norm(gravity))
        direction = gravity / strength if strength > 0 else np.array([0.0, 0.0, -1.0])
        prim.number("physics:gravityDirection", "vector3f", direction)
        prim.number("physics:gravityMagnitude", "float", strength)
    _options(writing, described, prim)


def _options(writing: Writing, described: Assembly, prim: PrimDraft) -> None:
    for name, value in described.options.items():
        if name == "timestep" and isinstance(value, float) and value > 0:
            _time_step(prim, value)
        elif name in _OPTIONS:
            prim.apply("MjcSceneAPI")
            prim.set(f"mjc:option:{name}", _OPTIONS[name], value, uniform=True)
        else:
            writing.lose(Action.DROPPED, ("option", name), f"the value {value}", "USD has no place for it")
            continue
        how = "it is in a setting of Newton or MuJoCo"
        writing.lose(Action.EXTENSION, ("option", name), f"the value {value}", how)


def _time_step(prim: PrimDraft, step: float) -> None:
    rate = 1.0 / step
    if rate == round(rate) and 1.0 / round(rate) == step:
        prim.apply("NewtonSceneAPI")
        prim.set("newton:timeStepsPerSecond", "int", round(rate), uniform=True)
    else:
        prim.apply("MjcSceneAPI")
        prim.set("mjc:option:timestep", "double", step, uniform=True)


# -- cameras and lights -----------------------------------------------------------------------------------------------


def author_onlookers(writing: Writing, assembly: Assembly) -> None:
    """The cameras and lights of a robot or world."""
    for camera in assembly.cameras:
        _camera(writing, place_on_link(writing, assembly, camera, "Camera"), camera)
    for light in assembly.lights:
        kind = str(light.settings.get("usd:type") or _LIGHT_TYPES.get(light.kind, "SphereLight"))
        _light(writing, place_on_link(writing, assembly, light, kind), light)


def _camera(writing: Writing, prim: PrimDraft, camera: Camera) -> None:
    prim.keep("verticalFov", "double", camera.vertical_fov)
    aperture = 2 * _FOCAL_LENGTH * math.tan(camera.vertical_fov / 2)
    width, height = camera.resolution or (4, 3)
    prim.set("focalLength", "float", _FOCAL_LENGTH)
    prim.set("verticalAperture", "float", aperture)
    prim.set("horizontalAperture", "float", aperture * width / height)
    if camera.clip is not None:
        prim.set("clippingRange", "float2", camera.clip)
    if camera.resolution is not None:
        prim.keep("resolution", "double2", camera.resolution)
    lost = [key for key in camera.settings if not key.startswith("usd:")]
    if lost:
        writing.lose(Action.DROPPED, camera, f"settings: {', '.join(lost)}", "USD's camera has none of them")
    give_back(writing, prim, camera)


def _light(writing: Writing, prim: PrimDraft, light: Light) -> None:
    prim.set("inputs:color", "color3f", light.color)
    for key, value in light.settings.items():
        if key in ("usd:intensity", "usd:exposure", "usd:radius", "usd:angle"):
            prim.set(f"inputs:{key.removeprefix('usd:')}", "float", value)
    if not light.casts_shadow:
        prim.apply("ShadowAPI")
        prim.set("inputs:shadow:enable", "bool", False)
    lost = [key for key in light.settings if not key.startswith("usd:")]
    if lost:
        writing.lose(Action.DROPPED, light, f"settings: {', '.join(lost)}", "USD's lights have none of them")
    give_back(writing, prim, light)
