"""Which physics scene simulates what: its gravity, and what never touches because it is simulated elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from kinema.description import CollisionGroup, Link, Node
from kinema.foundation import Array, Origin, vector
from kinema.words import mjc, newton, physics, usd

from . import pxr
from .shapes_on_links import StageShape
from .stage_index import StageIndex

STANDARD_GRAVITY = 9.81
"""[m/s2]"""
GRAVITY_SWITCHES = (newton.GRAVITY_ENABLED, mjc.FLAG_GRAVITY)
"""Vendor attributes of a scene that may switch gravity off."""


def read_scenes(
    index: StageIndex, links: Mapping[str, Link], parts: Sequence[StageShape]
) -> tuple[Array | None, list[CollisionGroup]]:
    """The world's gravity [m/s2], and groups that keep what different scenes simulate from touching.

    The world has the gravity of the first scene that simulates a body. Links of another scene get a share of it, where
    the two are parallel. Without `simulationOwner` the first scene of the stage simulates everything.

    Args:
        index: the stage.
        links: by name; what their scene says is put on them.
        parts: all shapes.
    """
    first = str(index.scenes[0].GetPath()) if index.scenes else ""
    scene_of = {path: _owner(index, body.prim, links[body.name]) or first for path, body in index.bodies.items()}
    members: dict[str, list[str]] = {}
    for part in parts:
        if part.shape.collision:
            scene = _of_collider(index, part, scene_of, first)
            members.setdefault(scene, []).append(part.shape.name)
    if not index.scenes:
        return None, []
    used = [s for s in map(_path, index.scenes) if s in scene_of.values()]
    main = used[0] if used else first
    gravity = _gravity(index, main)
    for path, scene in scene_of.items():
        if scene != main:
            _share_gravity(index, links[index.bodies[path].name], gravity, _gravity(index, scene))
    return gravity, _kept_apart(index, members)


def _path(prim: pxr.Prim) -> str:
    return str(prim.GetPath())


def _owner(index: StageIndex, prim: pxr.Prim, node: Node) -> str:
    """The scene that a body or collider names, which is kept on its node; empty where it names none."""
    targets = [str(t) for t in index.targets(prim, physics.SIMULATION_OWNER)]
    if not targets:
        return ""
    node.attributes[usd.KEPT_SCENE] = targets[0]
    if targets[0] in {_path(s) for s in index.scenes}:
        return targets[0]
    index.diagnostics.warning(
        "usd.simulation-owner",
        f"the simulation owner of {prim.GetName()!r} is {targets[0]}, which is no physics scene; the first one has it",
        hint="point physics:simulationOwner at a PhysicsScene",
        origin=index.origin(prim),
    )
    return ""


def _of_collider(index: StageIndex, part: StageShape, scene_of: Mapping[str, str], first: str) -> str:
    """A collider's scene: its body's, whatever it says itself; a static one's own."""
    own = _owner(index, part.prim, part.shape) if part.body is None or part.prim != part.body.prim else ""
    if part.body is None:
        return own or first
    scene = scene_of[part.body.path]
    if own and own != scene:
        index.diagnostics.warning(
            "usd.simulation-owner",
            f"collider {part.shape.name!r} names {own} as its simulation owner; that of its body, {scene}, counts",
            origin=index.origin(part.prim),
        )
    return scene


def _gravity(index: StageIndex, path: str) -> Array:
    """A scene's gravity: a zero direction means down, a negative magnitude means that of the Earth."""
    scene = index.stage.GetPrimAtPath(path)
    if any(index.authored(scene, name) is False for name in GRAVITY_SWITCHES):
        return np.zeros(3)
    direction = vector(index.value(scene, physics.GRAVITY_DIRECTION) or (0, 0, 0))
    magnitude = index.value(scene, physics.GRAVITY_MAGNITUDE)
    length = float(np.linalg.norm(direction))
    down = np.array([0.0, 0.0, -1.0])
    if not math.isfinite(length) or (magnitude is not None and (math.isnan(magnitude) or magnitude == math.inf)):
        message = f"the gravity of scene {scene.GetName()!r} holds NaN or infinity, in whose place the fallback counts"
        index.complain_once(scene, "usd.gravity-not-finite", message)
    unit = index.units.up @ direction / length if math.isfinite(length) and length > 0 else down
    if magnitude is None or not math.isfinite(magnitude) or magnitude < 0:
        return STANDARD_GRAVITY * unit
    return float(magnitude) * index.units.length * unit


def _share_gravity(index: StageIndex, link: Link, world: Array, own: Array) -> None:
    """Give a link of another scene its own gravity, as a multiple of the world's."""
    square = float(world @ world)
    share = float(world @ own) / square if square > 0 else 1.0
    if np.linalg.norm(own - share * world) <= 1e-6 * np.linalg.norm(own):
        link.gravity_scale = share
        return
    index.diagnostics.warning(
        "usd.scene-gravity",
        f"link {link.name!r} is in a physics scene whose gravity is {_numbers(own)} m/s2; it gets {_numbers(world)}",
        hint="read the scenes from files of their own",
        origin=link.origin,
    )


def _numbers(values: Array) -> str:
    return "(" + ", ".join(f"{v:g}" for v in values) + ")"


def _kept_apart(index: StageIndex, members: Mapping[str, Sequence[str]]) -> list[CollisionGroup]:
    """A group for each scene that simulates something, filtering all others; none where there is but one."""
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
