"""Gravity and options, cameras, lights and frames."""

from __future__ import annotations

import math

import numpy as np

from kinema.description import Assembly, Camera, Frame, Light, Robot
from kinema.foundation import Pose

from ..report import Action
from .draft import PrimDraft
from .names import author_name, give_back
from .writing import Writing

_FOCAL_LENGTH = 50.0
"""[tenths of a unit]; with the aperture it makes the field of view, alone it means nothing here."""
_LIGHT_TYPES = {"directional": "DistantLight", "point": "SphereLight", "spot": "DiskLight"}
_OPTIONS = {
    "integrator": ("mjc:option:integrator", "token"),
    "cone": ("mjc:option:cone", "token"),
    "impratio": ("mjc:option:impratio", "double"),
}


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
            attribute, kind = _OPTIONS[name]
            prim.apply("MjcSceneAPI")
            prim.set(attribute, kind, value, uniform=True)
        else:
            writing.lose(Action.DROPPED, ("option", name), f"{value}", "USD has no place for it")
            continue
        writing.lose(Action.EXTENSION, ("option", name), f"{value}", "it is in a setting of Newton or MuJoCo")


def _time_step(prim: PrimDraft, step: float) -> None:
    rate = 1.0 / step
    if rate == round(rate) and 1.0 / round(rate) == step:
        prim.apply("NewtonSceneAPI")
        prim.set("newton:timeStepsPerSecond", "int", round(rate), uniform=True)
    else:
        prim.apply("MjcSceneAPI")
        prim.set("mjc:option:timestep", "double", step, uniform=True)


# -- cameras, lights, frames ------------------------------------------------------------------------------------------


def author_onlookers(writing: Writing, assembly: Assembly) -> None:
    """The cameras, lights and frames of a robot or world."""
    for camera in assembly.cameras:
        _camera(writing, _new(writing, assembly, camera, "Camera", camera.link, camera.pose), camera)
    for light in assembly.lights:
        kind = str(light.settings.get("usd:type") or _LIGHT_TYPES.get(light.kind, "SphereLight"))
        _light(writing, _new(writing, assembly, light, kind, light.link, light.pose), light)
    for frame in assembly.frames:
        prim = _new(writing, assembly, frame, "Xform", frame.link, frame.pose)
        prim.keep("isFrame", "bool", True)
        how = "it is an Xform marked with kinema:isFrame, which other tools do not know"
        writing.lose(Action.EXTENSION, frame, "the frame", how)
        give_back(writing, prim, frame)


def _new(
    writing: Writing, assembly: Assembly, node: Camera | Light | Frame, kind: str, link: str | None, pose: Pose
) -> PrimDraft:
    """A prim on a link, or where the robot or world is."""
    parent, base = writing.plan.root, Pose()
    for parts in writing.plan.robots:
        if link is not None and link in parts.links and (assembly is parts.robot or not isinstance(assembly, Robot)):
            parent = parts.links[link]
        elif link is None and assembly is parts.robot:
            # what is in the world is posed there; the robot's prim may be elsewhere
            parent, base = parts.path, parts.robot.pose.inverse()
    prim = writing.draft.prim(writing.plan.names.child(parent, node.name, kind.lower()), kind)
    author_name(writing, prim, node)
    prim.place(base @ pose)
    return prim


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
