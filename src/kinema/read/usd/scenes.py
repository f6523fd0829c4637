"""Physics scenes: gravity, simulation owners and options; cameras and lights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kinema.core import Array, Origin, float64_array, reproducible_norm, reproducible_product
from kinema.description import Camera, CollisionGroup, Light, Link, Node
from kinema.tokens import kinema_usd, mjc, newton, usd, usd_physics

from . import pxr
from .kinema_attributes import preserved_table, read_kinema_attributes, restored_order, valid_options
from .prim_values import to_floats
from .shapes import StageShape
from .stage_index import StageIndex
from .transforms import rigid_part

# -- physics scenes and simulation owners ------------------------------------------------------------------------------

STANDARD_GRAVITY = 9.81
"""Default gravity [m/s2]."""
GRAVITY_SWITCHES = (newton.GRAVITY_ENABLED, mjc.FLAG_GRAVITY)
"""Vendor attributes of a scene that disable gravity."""


def read_scenes(
    index: StageIndex, links: Mapping[str, Link], stage_shapes: Sequence[StageShape]
) -> tuple[Array | None, list[CollisionGroup]]:
    """Gravity [m/s2], and collision groups that separate the contents of different physics scenes.

    The gravity is that of the first scene that simulates a body. Links of another scene get a gravity scale if
    the two are parallel. Without `simulationOwner` the first scene simulates everything.

    Args:
        index: the stage.
        links: links by name; modified in place.
        stage_shapes: all shapes.
    """
    first = str(index.scenes[0].GetPath()) if index.scenes else ""
    scene_of = {
        path: _simulation_owner(index, body.prim, links[body.name]) or first for path, body in index.bodies.items()
    }
    members: dict[str, list[str]] = {}
    for part in stage_shapes:
        if part.shape.collision:
            scene = _collider_scene(index, part, scene_of, first)
            members.setdefault(scene, []).append(part.shape.name)
    if not index.scenes:
        return None, []
    used = [s for s in map(_prim_path, index.scenes) if s in scene_of.values()]
    main = used[0] if used else first
    gravity = _scene_gravity(index, main)
    for path, scene in scene_of.items():
        if scene != main:
            _set_gravity_scale(index, links[index.bodies[path].name], gravity, _scene_gravity(index, scene))
    return gravity, _scene_collision_groups(index, members)


def _prim_path(prim: pxr.Prim) -> str:
    return str(prim.GetPath())


def _simulation_owner(index: StageIndex, prim: pxr.Prim, node: Node) -> str:
    """Scene path of the simulation owner, stored on the node; empty if unset or invalid."""
    targets = [str(t) for t in index.targets(prim, usd_physics.SIMULATION_OWNER)]
    if not targets:
        return ""
    node.attributes[usd.PRESERVED_SIMULATION_OWNER] = targets[0]
    if targets[0] in {_prim_path(s) for s in index.scenes}:
        return targets[0]
    index.diagnostics.warning(
        "usd.simulation-owner",
        f"the simulation owner of {prim.GetName()!r} is {targets[0]}, which is no physics scene; the first one has it",
        hint="point physics:simulationOwner at a PhysicsScene",
        origin=index.origin(prim),
    )
    return ""


def _collider_scene(index: StageIndex, stage_shape: StageShape, scene_of: Mapping[str, str], first: str) -> str:
    """Scene of a collider: that of its body, or its own if static."""
    owner = (
        _simulation_owner(index, stage_shape.prim, stage_shape.shape)
        if stage_shape.body is None or stage_shape.prim != stage_shape.body.prim
        else ""
    )
    if stage_shape.body is None:
        return owner or first
    scene = scene_of[stage_shape.body.path]
    if owner and owner != scene:
        index.diagnostics.warning(
            "usd.simulation-owner",
            f"collider {stage_shape.shape.name!r} names {owner} as its simulation owner; that of its body, "
            f"{scene}, counts",
            origin=index.origin(stage_shape.prim),
        )
    return scene


def _scene_gravity(index: StageIndex, path: str) -> Array:
    """Gravity vector of a scene [m/s2]; zero direction means down, negative magnitude standard gravity."""
    scene = index.stage.GetPrimAtPath(path)
    if any(index.authored(scene, name) is False for name in GRAVITY_SWITCHES):
        return np.zeros(3)
    direction = float64_array(index.value(scene, usd_physics.GRAVITY_DIRECTION) or (0, 0, 0))
    magnitude = index.value(scene, usd_physics.GRAVITY_MAGNITUDE)
    length = reproducible_norm(direction)
    down = np.array([0.0, 0.0, -1.0])
    if not math.isfinite(length) or (magnitude is not None and (math.isnan(magnitude) or magnitude == math.inf)):
        message = f"the gravity of scene {scene.GetName()!r} holds NaN or infinity, in whose place the fallback counts"
        index.report_once(scene, "usd.gravity-not-finite", message)
    unit = reproducible_product(index.units.up, direction) / length if math.isfinite(length) and length > 0 else down
    if magnitude is None or not math.isfinite(magnitude) or magnitude < 0:
        return STANDARD_GRAVITY * unit
    return float(magnitude) * index.units.length * unit


def _set_gravity_scale(index: StageIndex, link: Link, world_gravity: Array, scene_gravity: Array) -> None:
    """Set the gravity scale of a link in another scene; warns if the gravities are not parallel."""
    norm2 = float((world_gravity * world_gravity).sum())
    scale = float((world_gravity * scene_gravity).sum()) / norm2 if norm2 > 0 else 1.0
    if np.linalg.norm(scene_gravity - scale * world_gravity) <= 1e-6 * np.linalg.norm(scene_gravity):
        link.gravity_scale = scale
        return
    index.diagnostics.warning(
        "usd.scene-gravity",
        f"link {link.name!r} is in a physics scene whose gravity is {_format_vector(scene_gravity)} m/s2; "
        f"it gets {_format_vector(world_gravity)}",
        hint="read the scenes from files of their own",
        origin=link.origin,
    )


def _format_vector(values: Array) -> str:
    return "(" + ", ".join(f"{v:g}" for v in values) + ")"


def _scene_collision_groups(index: StageIndex, members: Mapping[str, Sequence[str]]) -> list[CollisionGroup]:
    """One collision group per scene, filtering all others; none for a single scene."""
    if len(members) < 2:
        return []
    message = f"{len(members)} physics scenes simulate something; what is in different ones never touches"
    index.diagnostics.note("usd.several-scenes", message, origin=Origin(index.file))
    return [
        CollisionGroup(
            name=scene,
            origin=Origin(index.file, None, scene),
            members=list(names),
            between="shapes",
            filtered=[s for s in members if s != scene],
        )
        for scene, names in members.items()
    ]


# -- cameras, lights and simulation options ----------------------------------------------------------------------------

_LIGHT_KINDS = {
    usd.DISTANT_LIGHT: "directional",
    usd.SPHERE_LIGHT: "point",
    usd.DISK_LIGHT: "spot",
    usd.RECT_LIGHT: "spot",
}
_OPTION_TYPES = {"token": str, "int": int, "double": float}
_OPTION_ATTRIBUTES = {
    newton.TIME_STEPS_PER_SECOND: ("timestep", lambda v: 1.0 / float(v)),
    newton.MAX_SOLVER_ITERATIONS: ("iterations", int),
    mjc.TIMESTEP: ("timestep", float),
    **{mjc.option_attribute(name): (name, _OPTION_TYPES[kind]) for name, kind in mjc.OPTIONS.items()},
}
"""Scene attribute -> option name and conversion; later rows take precedence."""
KNOWN_SCENE_ATTRIBUTES = (*_OPTION_ATTRIBUTES, *GRAVITY_SWITCHES, mjc.COMPILER_ANGLE, newton.JOINTS_ADD_MOBILITY)
"""Scene attributes that are interpreted."""


def read_options(index: StageIndex) -> dict[str, Any]:
    """Simulation options of the first scene, under common names."""
    options: dict[str, Any] = {}
    for scene in index.scenes[:1]:
        for attribute, (name, convert) in _OPTION_ATTRIBUTES.items():
            value = index.authored(scene, attribute)
            # -1 means automatic, a frequency of zero unset
            if value is not None and not (name in ("iterations", "timestep") and value <= 0):
                options[name] = convert(value)
        options |= valid_options(preserved_table(index, scene, kinema_usd.SETTINGS))
    return options


def read_cameras(index: StageIndex) -> list[Camera]:
    """Cameras of the stage; they look along -z with +y up, as in the description."""
    result = []
    for prim in restored_order(index, index.cameras, index.cameras):
        camera = pxr.UsdGeom.Camera(prim).GetCamera(index.time)
        body = index.owner_body(prim)
        pose = rigid_part(index.world_transform(prim))
        near, far = camera.clippingRange.min, camera.clippingRange.max
        has_clip = index.authored(prim, usd.CLIPPING_RANGE) is not None
        resolution = index.custom_value(prim, kinema_usd.RESOLUTION)
        node = Camera(
            name=index.custom_value(prim, kinema_usd.NAME) or prim.GetName(),
            origin=index.origin(prim),
            link=None if body is None else body.name,
            pose=pose if body is None else body.pose.inverse() @ pose,
            vertical_fov=_field_of_view(index, prim, camera),
            resolution=None if resolution is None else (round(resolution[0]), round(resolution[1])),
            clip=(near * index.units.length, far * index.units.length) if has_clip else None,
            settings=preserved_table(index, prim, kinema_usd.SETTINGS),
        )
        read_kinema_attributes(index, prim, node)
        result.append(node)
    return result


def _field_of_view(index: StageIndex, prim: pxr.Prim, camera: Any) -> float:
    """Vertical field of view [rad]; the stored exact value if the lens is unmodified."""
    lens = math.radians(camera.GetFieldOfView(pxr.Gf.Camera.FOVVertical))
    stored = index.custom_value(prim, kinema_usd.VERTICAL_FOV)
    return float(stored) if stored is not None and math.isclose(stored, lens, rel_tol=1e-5) else lens


def read_lights(index: StageIndex) -> list[Light]:
    """Lights of the stage; they shine along -z, as in the description."""
    result = []
    for prim in restored_order(index, index.lights, index.lights):
        body = index.owner_body(prim)
        pose = rigid_part(index.world_transform(prim))
        color = index.value(prim, usd.LIGHT_COLOR)
        kind = str(prim.GetTypeName())
        settings: dict[str, Any] = {usd.PRESERVED_TYPE: kind, **preserved_table(index, prim, kinema_usd.SETTINGS)}
        for name in usd.LIGHT_INPUTS:
            value = index.authored(prim, usd.input_attribute(name))
            if value is not None:
                settings[usd.PRESERVED_PREFIX + name] = float(value)
        node = Light(
            name=index.custom_value(prim, kinema_usd.NAME) or prim.GetName(),
            origin=index.origin(prim),
            kind=_LIGHT_KINDS.get(kind, "point"),
            link=None if body is None else body.name,
            pose=pose if body is None else body.pose.inverse() @ pose,
            color=(1.0, 1.0, 1.0) if color is None else tuple(to_floats(color)),  # type: ignore[arg-type]
            settings=settings,
        )
        read_kinema_attributes(index, prim, node)
        result.append(node)
    return result
