"""The physics scene with gravity and simulation options, cameras and lights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kinema.description import Assembly, Camera, Light
from kinema.tokens import kinema_usd, mjc, mjcf, newton, usd, usd_physics

from ..loss_report import Action, non_default_options
from .context import UsdContext, define_placed_prim, write_preserved
from .layer_builder import PrimBuilder, set_custom_json

_FOCAL_LENGTH = 50.0
"""Focal length [tenths of a unit]; only its ratio to the aperture matters."""
_LIGHT_TYPES = {"directional": usd.DISTANT_LIGHT, "point": usd.SPHERE_LIGHT, "spot": usd.DISK_LIGHT}


def author_physics_scene(ctx: UsdContext) -> None:
    """Write the physics scene with gravity and options: inside a world, but beside a robot.

    A scene beside the robot's prim is not part of references to the robot.
    """
    described = ctx.description
    if described.format == usd.FORMAT and described.gravity is None:
        return
    parent = ctx.paths.root if ctx.paths.is_world else ""
    prim = ctx.builder.define_prim(
        ctx.paths.names.child_path(parent, usd_physics.SCENE, usd_physics.SCENE), usd_physics.SCENE
    )
    ctx.scene = prim
    gravity = described.gravity
    if gravity is not None:
        strength = float(np.linalg.norm(gravity))
        direction = gravity / strength if strength > 0 else np.array([0.0, 0.0, -1.0])
        prim.set_single_precision(usd_physics.GRAVITY_DIRECTION, "vector3f", direction)
        prim.set_single_precision(usd_physics.GRAVITY_MAGNITUDE, "float", strength)
    _author_options(ctx, described, prim)


def _author_options(ctx: UsdContext, description: Assembly, prim: PrimBuilder) -> None:
    """Write simulation options in Newton or MuJoCo attributes, store others as JSON, and report them."""
    own: dict[str, Any] = {}
    for name, value in description.options.items():
        if name == "timestep" and isinstance(value, float) and value > 0:
            _author_time_step(prim, value)
        elif name in mjc.OPTIONS:
            prim.apply_schemas(mjc.SCENE_API)
            prim.set_attribute(mjc.option_attribute(name), mjc.OPTIONS[name], value, uniform=True)
        else:
            own[name] = value
    kept = set_custom_json(prim, kinema_usd.SETTINGS, own)
    for name, value in non_default_options(description.options).items():
        if name in own or name.startswith("flag "):
            action = Action.EXTENSION if (name if name in own else mjcf.FLAGS) in kept else Action.DROPPED
            how = "USD has no place for it" + (
                ", and it is kept for Kinema alone" if action is Action.EXTENSION else ""
            )
        else:
            action, how = Action.EXTENSION, "it is in a setting of Newton or MuJoCo"
        ctx.report_loss(action, ("option", name), f"the value {value}", how)


def _author_time_step(prim: PrimBuilder, step: float) -> None:
    """Write the time step [s] as Newton's integer rate if exact, else as MuJoCo's time step."""
    rate = 1.0 / step
    if rate == round(rate) and 1.0 / round(rate) == step:
        prim.apply_schemas(newton.SCENE_API)
        prim.set_attribute(newton.TIME_STEPS_PER_SECOND, "int", round(rate), uniform=True)
    else:
        prim.apply_schemas(mjc.SCENE_API)
        prim.set_attribute(mjc.TIMESTEP, "double", step, uniform=True)


# --------------------------------------------------------------------------------------------------- cameras and lights


def author_cameras_and_lights(ctx: UsdContext, assembly: Assembly) -> None:
    """Write the cameras and lights of a robot or world."""
    for camera in assembly.cameras:
        _author_camera(ctx, define_placed_prim(ctx, assembly, camera, usd.CAMERA), camera)
    for light in assembly.lights:
        kind = str(light.settings.get(usd.PRESERVED_TYPE) or _LIGHT_TYPES.get(light.kind, usd.SPHERE_LIGHT))
        _author_light(ctx, define_placed_prim(ctx, assembly, light, kind), light)


def _author_camera(ctx: UsdContext, prim: PrimBuilder, camera: Camera) -> None:
    """Write focal length and apertures from the vertical field of view, clipping range and settings."""
    prim.set_custom(kinema_usd.VERTICAL_FOV, camera.vertical_fov)
    aperture = 2 * _FOCAL_LENGTH * math.tan(camera.vertical_fov / 2)
    width, height = camera.resolution or (4, 3)
    prim.set_attribute(usd.FOCAL_LENGTH, "float", _FOCAL_LENGTH)
    prim.set_attribute(usd.VERTICAL_APERTURE, "float", aperture)
    prim.set_attribute(usd.HORIZONTAL_APERTURE, "float", aperture * width / height)
    if camera.clip is not None:
        prim.set_attribute(usd.CLIPPING_RANGE, "float2", camera.clip)
    if camera.resolution is not None:
        prim.set_custom(kinema_usd.RESOLUTION, camera.resolution)
    _preserve_settings(ctx, prim, camera, "USD's camera has none of them")
    write_preserved(ctx, prim, camera)


def _preserve_settings(ctx: UsdContext, prim: PrimBuilder, node: Camera | Light, reason: str) -> None:
    """Store the settings of a camera or light as JSON and report them."""
    own = {key: value for key, value in node.settings.items() if not key.startswith(usd.PRESERVED_PREFIX)}
    kept = set_custom_json(prim, kinema_usd.SETTINGS, own)
    lost = [key for key in own if key not in kept]
    if lost:
        ctx.report_loss(Action.DROPPED, node, f"settings: {', '.join(lost)}", reason)
    if kept:
        ctx.report_loss(
            Action.EXTENSION, node, f"settings: {', '.join(kept)}", f"{reason}; they are kept for Kinema alone"
        )


def _author_light(ctx: UsdContext, prim: PrimBuilder, light: Light) -> None:
    """Write colour, preserved inputs and shadow flag of a light."""
    prim.set_attribute(usd.LIGHT_COLOR, "color3f", light.color)
    for key, value in light.settings.items():
        name = key.removeprefix(usd.PRESERVED_PREFIX)
        if name != key and name in usd.LIGHT_INPUTS:
            prim.set_attribute(usd.input_attribute(name), "float", value)
    if not light.casts_shadow:
        prim.apply_schemas(usd.SHADOW_API)
        prim.set_attribute(usd.SHADOW_ENABLE, "bool", False)
    _preserve_settings(ctx, prim, light, "USD's lights have none of them")
    write_preserved(ctx, prim, light)
