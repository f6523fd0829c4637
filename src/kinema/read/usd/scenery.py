"""Cameras, lights and simulation options."""

from __future__ import annotations

import math
from typing import Any

from kinema.description import Camera, Light
from kinema.words import mjc, newton, ours, usd

from . import pxr
from .gf_values import floats
from .own_kinds import fitting_options
from .own_names import kept_table, own_order
from .own_settings import own
from .polar import rigid
from .scenes import GRAVITY_SWITCHES
from .stage_index import StageIndex

_LIGHT_KINDS = {
    usd.DISTANT_LIGHT: "directional",
    usd.SPHERE_LIGHT: "point",
    usd.DISK_LIGHT: "spot",
    usd.RECT_LIGHT: "spot",
}
_AS = {"token": str, "int": int, "double": float}
_OPTIONS = {
    newton.TIME_STEPS_PER_SECOND: ("timestep", lambda v: 1.0 / float(v)),
    newton.MAX_SOLVER_ITERATIONS: ("iterations", int),
    mjc.TIMESTEP: ("timestep", float),
    **{mjc.option(name): (name, _AS[kind]) for name, kind in mjc.OPTIONS.items()},
}
"""Attribute of a scene -> name among the options, and how its value is read. Later rows win over earlier ones."""
OPTION_SETTINGS = (*_OPTIONS, *GRAVITY_SWITCHES, mjc.COMPILER_ANGLE, newton.JOINTS_ADD_MOBILITY)
"""What is known of scenes."""


def read_options(index: StageIndex) -> dict[str, Any]:
    """Simulation settings that the first scene asks for, under the names all formats share."""
    options: dict[str, Any] = {}
    for scene in index.scenes[:1]:
        for attribute, (name, convert) in _OPTIONS.items():
            value = index.authored(scene, attribute)
            # -1 asks the solver to choose, and a frequency of zero says nothing
            if value is not None and not (name in ("iterations", "timestep") and value <= 0):
                options[name] = convert(value)
        options |= fitting_options(kept_table(index, scene, ours.SETTINGS))
    return options


def read_cameras(index: StageIndex) -> list[Camera]:
    """The stage's cameras; a USD camera looks along -z with +y up, as ours do."""
    result = []
    for prim in own_order(index, index.cameras, index.cameras):
        camera = pxr.UsdGeom.Camera(prim).GetCamera(index.time)
        body = index.owner(prim)
        pose = rigid(index.world(prim))
        near, far = camera.clippingRange.min, camera.clippingRange.max
        says_clip = index.authored(prim, usd.CLIPPING_RANGE) is not None
        resolution = own(index, prim, ours.RESOLUTION)
        result.append(
            Camera(
                name=own(index, prim, ours.NAME) or prim.GetName(),
                origin=index.origin(prim),
                link=None if body is None else body.name,
                pose=pose if body is None else body.pose.inverse() @ pose,
                vertical_fov=_field_of_view(index, prim, camera),
                resolution=None if resolution is None else (round(resolution[0]), round(resolution[1])),
                clip=(near * index.units.length, far * index.units.length) if says_clip else None,
                settings=kept_table(index, prim, ours.SETTINGS),
            )
        )
    return result


def _field_of_view(index: StageIndex, prim: pxr.Prim, camera: Any) -> float:
    """The vertical field of view; exactly, where it is kept so and nobody changed the lens."""
    lens = math.radians(camera.GetFieldOfView(pxr.Gf.Camera.FOVVertical))
    kept = own(index, prim, ours.VERTICAL_FOV)
    return float(kept) if kept is not None and math.isclose(kept, lens, rel_tol=1e-5) else lens


def read_lights(index: StageIndex) -> list[Light]:
    """The stage's lights; a USD light shines along -z, as ours do."""
    result = []
    for prim in own_order(index, index.lights, index.lights):
        body = index.owner(prim)
        pose = rigid(index.world(prim))
        color = index.value(prim, usd.LIGHT_COLOR)
        kind = str(prim.GetTypeName())
        settings: dict[str, Any] = {usd.KEPT_TYPE: kind, **kept_table(index, prim, ours.SETTINGS)}
        for name in usd.LIGHT_INPUTS:
            value = index.authored(prim, usd.input_of(name))
            if value is not None:
                settings[usd.KEPT + name] = float(value)
        result.append(
            Light(
                name=own(index, prim, ours.NAME) or prim.GetName(),
                origin=index.origin(prim),
                kind=_LIGHT_KINDS.get(kind, "point"),
                link=None if body is None else body.name,
                pose=pose if body is None else body.pose.inverse() @ pose,
                color=(1.0, 1.0, 1.0) if color is None else tuple(floats(color)),  # type: ignore[arg-type]
                settings=settings,
            )
        )
    return result
