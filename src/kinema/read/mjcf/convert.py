"""From a compiled model to the description: one robot, or a world of robots and scenery."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kinema.description import Assembly, CollisionRules, Robot, World
from kinema.foundation import Diagnostics, unique_name
from kinema.words import mjcf

from .actuators import actuators
from .bases import let_go, loose_bodies
from .bodies import link_of
from .components import WORLD_BODY, Components, components
from .constraints import constraints
from .contacts import contact_pairs, parents_collide
from .geoms import Geoms
from .joints import joints_of
from .keyframes import keyframes
from .leftovers import leftovers
from .load import Compiled
from .meshes import MeshAssets
from .mimics import mimics
from .reading import Reading
from .scenery import cameras, frames, gravity, lights, options
from .sensors import sensors
from .tendons import tendons


def describe(compiled: Compiled, diagnostics: Diagnostics) -> Robot | World:
    """The robot of a model that is one mechanism and nothing else; otherwise a world."""
    reading = Reading(compiled, diagnostics)
    model = reading.model
    meshes = MeshAssets(reading)
    geoms = Geoms(reading, meshes)
    parts = components(model)
    joint_names = {name.text for name in reading.names[mjcf.JOINT]}
    robots = [_robot(reading, geoms, bodies, joint_names) for bodies in parts.bodies]
    scenery = geoms.shapes_of(WORLD_BODY)
    if len(robots) == 1 and not scenery:
        whole: Robot | World = robots[0]
        whole.name, whole.name_is_generated = _model_name(reading)
        homes: list[Assembly] = [whole]
    else:
        whole = World(robots=robots, shapes=scenery, collision=_rules(reading))
        whole.name, whole.name_is_generated = _model_name(reading)
        _name_robots(reading, whole, parts)
        _keep_order(robots, parts)
        homes = [*robots]
    _fill(reading, whole, homes, parts, meshes)
    _finish(reading, whole)
    return whole


def _robot(reading: Reading, geoms: Geoms, bodies: list[int], joint_names: set[str]) -> Robot:
    """The links and joints of one mechanism."""
    links = [link_of(reading, body, geoms.shapes_of(body)) for body in bodies]
    joints = [joint for body in bodies for joint in joints_of(reading, body, joint_names)]
    return Robot(
        links=links,
        joints=let_go(links, joints, loose_bodies(reading)),
        origin=reading.origin("bodies", bodies[0]),
        collision=_rules(reading),
    )


def _keep_order(robots: Iterable[Robot], parts: Components) -> None:
    """Where the bodies of robots are mixed in the file, what is tied to each other being one, their places in it."""
    listed = [body for bodies in parts.bodies for body in bodies]
    if listed != sorted(listed):
        for robot, bodies in zip(robots, parts.bodies, strict=True):
            for link, body in zip(robot.links, bodies, strict=True):
                link.order = body


def _rules(reading: Reading) -> CollisionRules:
    return CollisionRules(neighbours_collide=parents_collide(reading.model))


def _name_robots(reading: Reading, world: World, parts: Components) -> None:
    """One robot has the model's name, several are called by their first bodies; what never moves is scenery."""
    taken: set[str] = set()
    for robot, bodies in zip(world.robots, parts.bodies, strict=True):
        first = reading.names[mjcf.BODY][bodies[0]]
        robot.name, robot.name_is_generated = unique_name(first.text, taken), first.generated
        robot.static = not any(joint.n_dofs for joint in robot.joints) and not any(x.kinematic for x in robot.links)
    if len(world.robots) == 1:
        world.robots[0].name, world.robots[0].name_is_generated = world.name, world.name_is_generated


def _model_name(reading: Reading) -> tuple[str, bool]:
    document = reading.compiled.prepared.document
    given = document.root.attributes.get("model")
    return (given, False) if given else (document.file.stem, True)


def _fill(reading: Reading, whole: Robot | World, homes: list[Assembly], parts: Components, meshes: MeshAssets) -> None:
    """Everything else goes to the robot that it is about, and to the world where it is about several or none."""

    def share(items: Iterable[tuple[set[int], Any]], place: str) -> None:
        for number, (bodies, item) in enumerate(items):
            item.order = number if isinstance(whole, World) else None
            owner = parts.owner(bodies)
            home = whole if owner is None else homes[owner]
            getattr(home, place).append(item)

    share(constraints(reading), "constraints")
    mimics(homes)
    share(tendons(reading), "tendons")
    share(actuators(reading), "actuators")
    share(sensors(reading), "sensors")
    share(frames(reading, meshes), "frames")
    share(cameras(reading), "cameras")
    share(lights(reading), "lights")
    for bodies, pair in contact_pairs(reading):
        owner = None if WORLD_BODY in bodies else parts.owner(bodies)
        (whole if owner is None else homes[owner]).collision.pairs.append(pair)
    model = reading.model
    stateful = {int(b) for b in model.jnt_bodyid} | {b for b in range(model.nbody) if model.body_mocapid[b] >= 0}
    share(((stateful, keyframe) for keyframe in keyframes(reading)), "keyframes")


_COMPILER_NOTES = {
    "fusestatic": "bodies without joints are merged into their parents",
    "discardvisual": "geoms that do not collide, and materials, are left out",
}


def _finish(reading: Reading, whole: Robot | World) -> None:
    document = reading.compiled.prepared.document
    every: list[Assembly] = [whole, *(whole.robots if isinstance(whole, World) else [])]
    for assembly in every:
        assembly.format = mjcf.FORMAT
        assembly.source = str(document.file)
        assembly.diagnostics = reading.diagnostics
    whole.origin = document.root.origin
    whole.gravity = gravity(reading.model)
    whole.options = options(reading.model)
    whole.extras += leftovers(reading)
    whole.attributes[mjcf.key(mjcf.ASSETS)] = {
        kind: ["" if name.generated else name.text for name in reading.names[kind]]
        for kind in mjcf.ASSET_ORDER
        if reading.names[kind]
    }
    paths = reading.compiled.prepared.paths
    kept = {uri: path for uri, path in paths.items() if any(uri in extra.text for extra in whole.extras)}
    if kept:
        whole.attributes[mjcf.key(mjcf.FILES)] = kept  # what the kept texts refer to
    for compiler in document.root.find_all(mjcf.COMPILER):
        for flag, meaning in _COMPILER_NOTES.items():
            if compiler.attributes.get(flag) == "true":
                reading.note(flag, f"{meaning}, as the file asks for ({flag})", compiler.origin)
