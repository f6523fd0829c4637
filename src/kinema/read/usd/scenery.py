"""Cameras, lights and simulation options."""

from __future__ import annotations

import math
from typing import Any

from kinema.description import Camera, Light

from . import pxr
from .polar import rigid
from .stage_index import StageIndex

_LIGHT_KINDS = {"DistantLight": "directional", "SphereLight": "point", "DiskLight": "spot", "RectLight": "spot"}
_SCENE_OPTIONS = {
    "newton:timeStepsPerSecond": ("timestep", lambda v: 1.0 / float(v)),
    "mjc:option:timestep": ("timestep", float),
    "mjc:option:integrator": ("integrator", str),
    "mjc:option:cone": ("cone", str),
    "mjc:option:impratio": ("impratio", float),
}


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
