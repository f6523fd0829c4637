"""Gravity and options, cameras and lights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kinema.description import Assembly, Camera, Light
from kinema.words import mjc, mjcf, newton, ours, physics, usd

from ..bookkeeping import missed_options
from ..report import Action
from .draft import PrimDraft
from .names import give_back
from .placing import place_on_link
from .record_values import keep_table
from .writing import Writing

_FOCAL_LENGTH = 50.0
"""[tenths of a unit]; with the aperture it makes the field of view, alone it means nothing here."""
_LIGHT_TYPES = {"directional": usd.DISTANT_LIGHT, "point": usd.SPHERE_LIGHT, "spot": usd.DISK_LIGHT}


def author_scene(writing: Writing) -> None:
    """The physics scene: beside a robot, so that whoever references the robot keeps their own; inside a world."""
    described = writing.described
    if described.format == usd.FORMAT and described.gravity is None:
        return
    parent = writing.plan.root if writing.plan.is_world else ""
    prim = writing.draft.prim(writing.plan.names.child(parent, physics.SCENE, physics.SCENE), physics.SCENE)
    writing.scene = prim
    gravity = described.gravity
    if gravity is not None:
        strength = float(np.linalg.norm(gravity))
        direction = gravity / strength if strength > 0 else np.array([0.0, 0.0, -1.0])
        prim.number(physics.GRAVITY_DIRECTION, "vector3f", direction)
        prim.number(physics.GRAVITY_MAGNITUDE, "float", strength)
    _options(writing, described, prim)


def _options(writing: Writing, described: Assembly, prim: PrimDraft) -> None:
    own: dict[str, Any] = {}
    for name, value in described.options.items():
        if name == "timestep" and isinstance(value, float) and value > 0:
            _time_step(prim, value)
        elif name in mjc.OPTIONS:
            prim.apply(mjc.SCENE_API)
            prim.set(mjc.option(name), mjc.OPTIONS[name], value, uniform=True)
        else:
            own[name] = value
    kept = keep_table(prim, ours.SETTINGS, own)
    for name, value in missed_options(described.options).items():
        if name in own or name.startswith("flag "):
            action = Action.EXTENSION if (name if name in own else mjcf.FLAGS) in kept else Action.DROPPED
            how = "USD has no place for it" + (
                ", and it is kept for Kinema alone" if action is Action.EXTENSION else ""
            )
        else:
            action, how = Action.EXTENSION, "it is in a setting of Newton or MuJoCo"
        writing.lose(action, ("option", name), f"the value {value}", how)


def _time_step(prim: PrimDraft, step: float) -> None:
    rate = 1.0 / step
    if rate == round(rate) and 1.0 / round(rate) == step:
        prim.apply(newton.SCENE_API)
        prim.set(newton.TIME_STEPS_PER_SECOND, "int", round(rate), uniform=True)
    else:
        prim.apply(mjc.SCENE_API)
        prim.set(mjc.TIMESTEP, "double", step, uniform=True)


# -- cameras and lights -----------------------------------------------------------------------------------------------


def author_onlookers(writing: Writing, assembly: Assembly) -> None:
    """The cameras and lights of a robot or world."""
    for camera in assembly.cameras:
        _camera(writing, place_on_link(writing, assembly, camera, usd.CAMERA), camera)
    for light in assembly.lights:
        kind = str(light.settings.get(usd.KEPT_TYPE) or _LIGHT_TYPES.get(light.kind, usd.SPHERE_LIGHT))
        _light(writing, place_on_link(writing, assembly, light, kind), light)


def _camera(writing: Writing, prim: PrimDraft, camera: Camera) -> None:
    prim.keep(ours.VERTICAL_FOV, camera.vertical_fov)
    aperture = 2 * _FOCAL_LENGTH * math.tan(camera.vertical_fov / 2)
    width, height = camera.resolution or (4, 3)
    prim.set(usd.FOCAL_LENGTH, "float", _FOCAL_LENGTH)
    prim.set(usd.VERTICAL_APERTURE, "float", aperture)
    prim.set(usd.HORIZONTAL_APERTURE, "float", aperture * width / height)
    if camera.clip is not None:
        prim.set(usd.CLIPPING_RANGE, "float2", camera.clip)
    if camera.resolution is not None:
        prim.keep(ours.RESOLUTION, camera.resolution)
    _keep_settings(writing, prim, camera, "USD's camera has none of them")
    give_back(writing, prim, camera)


def _keep_settings(writing: Writing, prim: PrimDraft, node: Camera | Light, why: str) -> None:
    own = {key: value for key, value in node.settings.items() if not key.startswith(usd.KEPT)}
    kept = keep_table(prim, ours.SETTINGS, own)
    lost = [key for key in own if key not in kept]
    if lost:
        writing.lose(Action.DROPPED, node, f"settings: {', '.join(lost)}", why)
    if kept:
        writing.lose(Action.EXTENSION, node, f"settings: {', '.join(kept)}", f"{why}; they are kept for Kinema alone")


def _light(writing: Writing, prim: PrimDraft, light: Light) -> None:
    prim.set(usd.LIGHT_COLOR, "color3f", light.color)
    for key, value in light.settings.items():
        name = key.removeprefix(usd.KEPT)
        if name != key and name in usd.LIGHT_INPUTS:
            prim.set(usd.input_of(name), "float", value)
    if not light.casts_shadow:
        prim.apply(usd.SHADOW_API)
        prim.set(usd.SHADOW_ENABLE, "bool", False)
    _keep_settings(writing, prim, light, "USD's lights have none of them")
    give_back(writing, prim, light)
