"""Gravity, cameras and lights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kinema.description import Camera, Light
from kinema.foundation import Array, vector

from . import pxr
from .polar import rigid
from .stage_index import StageIndex

STANDARD_GRAVITY = 9.81
"""[m/s2]"""
_LIGHT_KINDS = {"DistantLight": "directional", "SphereLight": "point", "DiskLight": "spot", "RectLight": "spot"}
_SCENE_OPTIONS = {
    "newton:timeStepsPerSecond": ("timestep", lambda v: 1.0 / float(v)),
    "mjc:option:timestep": ("timestep", float),
    "mjc:option:integrator": ("integrator", str),
    "mjc:option:cone": ("cone", str),
    "mjc:option:impratio": ("impratio", float),
}


def read_gravity(index: StageIndex) -> Array | None:
    """Gravity [m/s2], Z up, of the first scene; None where the stage has no scene."""
    if not index.scenes:
        return None
    if len(index.scenes) > 1:
        index.diagnostics.warning(
            "usd.several-scenes",
            f"the stage has {len(index.scenes)} physics scenes; gravity is that of {index.scenes[0].GetPath()}",
            origin=index.origin(index.scenes[1]),
        )
    return scene_gravity(index, index.scenes[0])


def scene_gravity(index: StageIndex, scene: pxr.Prim) -> Array:
    """A scene's gravity: a zero direction means down, a negative magnitude means that of the Earth."""
    direction = vector(index.value(scene, "physics:gravityDirection") or (0, 0, 0))
    magnitude = index.value(scene, "physics:gravityMagnitude")
    length = float(np.linalg.norm(direction))
    down = np.array([0.0, 0.0, -1.0])
    unit = index.units.up @ direction / length if math.isfinite(length) and length > 0 else down
    if magnitude is None or magnitude < 0:
        return STANDARD_GRAVITY * unit
    return float(magnitude) * index.units.length * unit


def read_options(index: StageIndex) -> dict[str, Any]:
    """Simulation settings that scenes ask for, under the names all formats share."""
    options: dict[str, Any] = {}
    for scene in index.scenes[:1]:
        for attribute, (name, convert) in _SCENE_OPTIONS.items():
            value = index.authored(scene, attribute)
            if value is not None:
                options[name] = convert(value)
    return options


def read_cameras(index: StageIndex) -> list[Camera]:
    """The stage's cameras; a USD camera looks along -z with +y up, as ours do."""
    result = []
    for prim in index.cameras:
        camera = pxr.UsdGeom.Camera(prim).GetCamera(index.time)
        body = index.owner(prim)
        pose = rigid(index.world(prim))
        near, far = camera.clippingRange.min, camera.clippingRange.max
        result.append(
            Camera(
                name=prim.GetName(),
                origin=index.origin(prim),
                link=None if body is None else body.name,
                pose=pose if body is None else body.pose.inverse() @ pose,
                vertical_fov=math.radians(camera.GetFieldOfView(pxr.Gf.Camera.FOVVertical)),
                clip=(near * index.units.length, far * index.units.length),
            )
        )
    return result


def read_lights(index: StageIndex) -> list[Light]:
    """The stage's lights; a USD light shines along -z, as ours do."""
    result = []
    for prim in index.lights:
        body = index.owner(prim)
        pose = rigid(index.world(prim))
        color = index.value(prim, "inputs:color")
        kind = str(prim.GetTypeName())
        settings = {"usd:type": kind}
        for name in ("intensity", "exposure", "radius", "angle"):
            value = index.authored(prim, f"inputs:{name}")
            if value is not None:
                settings[f"usd:{name}"] = float(value)  # type: ignore[assignment]
        result.append(
            Light(
                name=prim.GetName(),
                origin=index.origin(prim),
                kind=_LIGHT_KINDS.get(kind, "point"),
                link=None if body is None else body.name,
                pose=pose if body is None else body.pose.inverse() @ pose,
                color=(1.0, 1.0, 1.0) if color is None else tuple(float(c) for c in color),  # type: ignore[arg-type]
                settings=settings,
            )
        )
    return result
