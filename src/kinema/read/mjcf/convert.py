"""Converts a compiled MuJoCo model to a robot or a world.

Connected components of bodies become robots; keyframes are split by joint, actuator and mocap body.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinema.core import Array, Diagnostics, Origin, float64_array, unique_name
from kinema.description import Assembly, CollisionRules, Keyframe, Robot, World
from kinema.tokens import mjcf

from .actuators import actuator_bodies, control_address, n_controls, read_actuators, read_tendons, tendon_bodies
from .bodies import read_joints, read_link
from .constraints import (
    convert_mimic_constraints,
    equality_bodies,
    flex_bodies,
    parent_child_collide,
    read_constraints,
    read_contact_pairs,
)
from .extras import bodies_with_unspecified_base, collect_extras, remove_implicit_base_joints
from .geoms import GeomConverter, MeshAssets
from .inertials import scale_to_total_mass
from .model_reader import ModelReader, n_actuators, to_floats, to_pose
from .mujoco_compiler import CompiledModel, mujoco
from .placements import normalize
from .repeated_bodies import NotRepeatableError, RepeatedBodies
from .scene_elements import read_cameras, read_gravity, read_lights, read_options, read_sites
from .sensors import read_sensors

# -- connected components ----------------------------------------------------------------------------------------------

WORLD_BODY = 0


@dataclass(frozen=True, slots=True)
class RobotComponents:
    """Connected components of bodies, one per robot."""

    bodies: list[list[int]]
    """Bodies of each robot in file order; robots are ordered by their first body."""
    robot_of: dict[int, int]
    """Body -> index of its robot; without the world body."""

    def owning_robot(self, bodies: Iterable[int]) -> int | None:
        """The robot that contains all given bodies; None if there are several, or only the world body."""
        robots = {self.robot_of[b] for b in bodies if b != WORLD_BODY}
        return robots.pop() if len(robots) == 1 else None


def connected_components(model: Any) -> RobotComponents:
    """Connected components of the graph of bodies (union-find); the world body connects nothing."""
    parent = list(range(model.nbody))

    def find(body: int) -> int:
        while parent[body] != body:
            parent[body] = parent[parent[body]]
            body = parent[body]
        return body

    for group in _connected_body_sets(model):
        members = sorted(b for b in group if b != WORLD_BODY)
        for other in members[1:]:
            first, second = sorted((find(members[0]), find(other)))
            parent[second] = first
    robots: dict[int, list[int]] = {}
    for body in range(1, model.nbody):
        robots.setdefault(find(body), []).append(body)
    bodies = list(robots.values())
    return RobotComponents(bodies, {body: i for i, members in enumerate(bodies) for body in members})


def _connected_body_sets(model: Any) -> Iterable[set[int]]:
    """Sets of bodies connected by the tree, tendons, actuators, equalities and flexes."""
    for body in range(1, model.nbody):
        yield {body, int(model.body_parentid[body])}
    for tendon in range(model.ntendon):
        yield tendon_bodies(model, tendon)
    for actuator in range(n_actuators(model)):
        yield actuator_bodies(model, actuator)
    for equality in range(model.neq):
        yield equality_bodies(model, equality)
    for flex in range(model.nflex):
        yield flex_bodies(model, flex)


# -- keyframes ---------------------------------------------------------------------------------------------------------

_QUATERNION_TOLERANCE = 1e-9
"""Largest difference of a quaternion in a keyframe from MuJoCo's."""
_JOINT_COORDINATE_COUNTS = {"mjJNT_FREE": (7, 6), "mjJNT_BALL": (4, 3), "mjJNT_SLIDE": (1, 1), "mjJNT_HINGE": (1, 1)}


def read_keyframes(reader: ModelReader) -> list[Keyframe]:
    """Keyframes of the file, without the unnamed ones that `<size nkey>` adds."""
    return [_read_keyframe(reader, k) for k in range(min(reader.model.nkey, len(reader.compiled.spec.keys)))]


def _read_keyframe(reader: ModelReader, index: int) -> Keyframe:
    """Convert one keyframe: qpos and qvel split by joint, controls, activations and mocap poses."""
    mj, model = mujoco(), reader.model
    name = reader.names[mjcf.KEY][index]
    keyframe = Keyframe(
        name=name.text,
        name_is_generated=name.generated,
        origin=_keyframe_origin(reader, index),
        time=float(model.key_time[index]),
    )
    for joint in range(model.njnt):
        n_positions, n_velocities = _JOINT_COORDINATE_COUNTS[mj.mjtJoint(int(model.jnt_type[joint])).name]
        q, v = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
        joint_name = reader.name(mjcf.JOINT, joint)
        keyframe.positions[joint_name] = _key_position(reader, index, joint, q, n_positions)
        velocities: Array = float64_array(model.key_qvel[index][v : v + n_velocities])
        if velocities.any():
            keyframe.velocities[joint_name] = velocities
    _read_controls(reader, index, keyframe)
    for body in range(model.nbody):
        mocap = int(model.body_mocapid[body])
        if mocap >= 0:
            position = model.key_mpos[index][3 * mocap : 3 * mocap + 3]
            quaternion = _key_quaternion(reader, index, "mquat", 4 * mocap, body)
            keyframe.kinematic_poses[reader.name(mjcf.BODY, body)] = to_pose(position, quaternion)
    if getattr(model, "nplastic", 0):
        keyframe.attributes[mjcf.attribute_key(mjcf.PLASTIC)] = to_floats(model.key_plastic[index])
    return keyframe


def _key_position(reader: ModelReader, key: int, joint: int, start: int, count: int) -> Array:
    """Coordinates of a joint in a keyframe."""
    result: Array = float64_array(reader.model.key_qpos[key][start : start + count])
    if count >= 4:
        body = int(reader.model.jnt_bodyid[joint])
        result[-4:] = _key_quaternion(reader, key, "qpos", start + count - 4, body)
    return result


def _key_quaternion(reader: ModelReader, key: int, field: str, start: int, body: int) -> Array:
    """Unit quaternion in a keyframe from the numbers in the file; that of the body where it gives none."""
    compiled = float64_array(getattr(reader.model, f"key_{field}")[key][start : start + 4])
    written = list(getattr(reader.spec_element("keys", key), field, ()))
    candidates = [written[start : start + 4]] if len(written) >= start + 4 else []
    for own in (*map(normalize, candidates), reader.placements.placement("bodies", body).quaternion):
        if np.abs(own - compiled).max() <= _QUATERNION_TOLERANCE:
            return np.array(own)
    return compiled


def _read_controls(reader: ModelReader, index: int, keyframe: Keyframe) -> None:
    """Split `key_ctrl` and `key_act` of a keyframe by actuator."""
    model = reader.model
    for actuator in range(n_actuators(model)):
        name = reader.name(mjcf.ACTUATOR, actuator)
        first, count = control_address(model, actuator), n_controls(model, actuator)
        values = to_floats(model.key_ctrl[index][first : first + count])
        if count == 1:
            keyframe.controls[name] = values[0]
        elif count > 1:
            keyframe.attributes.setdefault(mjcf.attribute_key(mjcf.CONTROLS), {})[name] = values
        address, states = int(model.actuator_actadr[actuator]), int(model.actuator_actnum[actuator])
        if states > 0:
            keyframe.activations[name] = float64_array(model.key_act[index][address : address + states])


def _keyframe_origin(reader: ModelReader, index: int) -> Origin:
    """Origin of a keyframe, found by name or by order, because MuJoCo does not report its line."""
    document = reader.compiled.prepared.document
    removed = reader.compiled.prepared.removed
    sections = (s for part in document.all_documents() for s in part.root.find_all(mjcf.KEYFRAME))
    elements = [e for section in sections for e in section.find_all(mjcf.KEY) if id(e) not in removed]
    name = reader.names[mjcf.KEY][index]
    if not name.generated:
        # names of keyframes of attached models have a prefix
        elements = [e for e in elements if e.attributes.get("name") and name.text.endswith(e.attributes["name"])]
        elements.sort(key=lambda e: len(e.attributes["name"]), reverse=True)
        index = 0
    return elements[index].origin if index < len(elements) else reader.main_origin


# -- conversion of the model -------------------------------------------------------------------------------------------


def convert_model(
    compiled: CompiledModel, diagnostics: Diagnostics, repeated: RepeatedBodies | None = None
) -> Robot | World:
    """Convert a compiled model to a robot if it is a single mechanism without scenery, otherwise to a world.

    Copies of the bodies that are not compiled are added (`repeated`); raises `NotRepeatableError` if there can be none.
    """
    reader = ModelReader(compiled, diagnostics, repeated)
    model = reader.model
    meshes = MeshAssets(reader)
    geoms = GeomConverter(reader, meshes)
    components = connected_components(model)
    joint_names = {name.text for name in reader.names[mjcf.JOINT]}
    if reader.copies is not None:
        joint_names |= {name for name, _ in reader.copies.names.values()}
    robots = [_read_robot(reader, geoms, bodies, joint_names) for bodies in components.bodies]
    numbered = zip(robots, components.bodies, strict=True)
    scale_to_total_mass(reader, {b: x for robot, bodies in numbered for b, x in zip(bodies, robot.links, strict=True)})
    scenery = geoms.body_shapes(WORLD_BODY)
    if len(robots) == 1 and not scenery:
        whole: Robot | World = robots[0]
        whole.name, whole.name_is_generated = _model_name(reader)
        assemblies: list[Assembly] = [whole]
    else:
        whole = World(robots=robots, shapes=scenery, collision=_collision_rules(reader))
        whole.name, whole.name_is_generated = _model_name(reader)
        _name_robots(reader, whole, components)
        _store_body_order(robots, components)
        assemblies = [*robots]
    _distribute_elements(reader, whole, assemblies, components, meshes)
    if reader.copies is not None:
        if not isinstance(whole, World):
            raise NotRepeatableError
        elements = [reader.xml_element("bodies", members[0]) for members in components.bodies]
        whole.robots = reader.copies.add_robots(robots, components.bodies, elements)
    _set_model_fields(reader, whole)
    return whole


def _read_robot(reader: ModelReader, geoms: GeomConverter, bodies: list[int], joint_names: set[str]) -> Robot:
    """Links and joints of one connected component."""
    links = [read_link(reader, body, geoms.body_shapes(body)) for body in bodies]
    joints = [joint for body in bodies for joint in read_joints(reader, body, joint_names)]
    return Robot(
        links=links,
        joints=remove_implicit_base_joints(links, joints, bodies_with_unspecified_base(reader)),
        origin=reader.origin("bodies", bodies[0]),
        collision=_collision_rules(reader),
    )


def _store_body_order(robots: Iterable[Robot], components: RobotComponents) -> None:
    """Store body indices as order of links and joints if the bodies of several robots are interleaved in the file."""
    listed = [body for bodies in components.bodies for body in bodies]
    if listed != sorted(listed):
        for robot, bodies in zip(robots, components.bodies, strict=True):
            for link, body in zip(robot.links, bodies, strict=True):
                link.order = body
            order = {link.name: link.order for link in robot.links}
            for joint in robot.joints:
                joint.order = order[str(joint.child)]


def _collision_rules(reader: ModelReader) -> CollisionRules:
    return CollisionRules(neighbours_collide=parent_child_collide(reader.model))


def _name_robots(reader: ModelReader, world: World, components: RobotComponents) -> None:
    """Name the robots of a world after their first bodies, and mark robots without dofs as static.

    A single robot gets the name of the model.
    """
    taken: set[str] = set()
    for robot, bodies in zip(world.robots, components.bodies, strict=True):
        first = reader.names[mjcf.BODY][bodies[0]]
        robot.name, robot.name_is_generated = unique_name(first.text, taken), first.generated
        robot.static = not any(joint.n_dofs for joint in robot.joints) and not any(x.kinematic for x in robot.links)
    if len(world.robots) == 1:
        world.robots[0].name, world.robots[0].name_is_generated = world.name, world.name_is_generated


def _model_name(reader: ModelReader) -> tuple[str, bool]:
    document = reader.compiled.prepared.document
    given = document.root.attributes.get("model")
    return (given, False) if given else (document.file.stem, True)


def _distribute_elements(
    reader: ModelReader,
    whole: Robot | World,
    assemblies: list[Assembly],
    components: RobotComponents,
    meshes: MeshAssets,
) -> None:
    """Assign constraints, tendons, actuators, sensors, sites, cameras, lights, pairs and keyframes to robots.

    An element that concerns several robots or none goes to the world.
    """

    def distribute(items: Iterable[tuple[set[int], Any]], field: str) -> None:
        for number, (bodies, item) in enumerate(items):
            item.order = number if isinstance(whole, World) else None
            owner = components.owning_robot(bodies)
            assembly = whole if owner is None else assemblies[owner]
            getattr(assembly, field).append(item)

    distribute(read_constraints(reader), "constraints")
    convert_mimic_constraints(assemblies)
    distribute(read_tendons(reader), "tendons")
    distribute(read_actuators(reader), "actuators")
    distribute(read_sensors(reader), "sensors")
    distribute(read_sites(reader, meshes), "frames")
    distribute(read_cameras(reader), "cameras")
    distribute(read_lights(reader), "lights")
    for bodies, pair in read_contact_pairs(reader):
        owner = None if WORLD_BODY in bodies else components.owning_robot(bodies)
        (whole if owner is None else assemblies[owner]).collision.pairs.append(pair)
    model = reader.model
    stateful = {int(b) for b in model.jnt_bodyid} | {b for b in range(model.nbody) if model.body_mocapid[b] >= 0}
    distribute(((stateful, keyframe) for keyframe in read_keyframes(reader)), "keyframes")


_COMPILER_FLAG_NOTES = {
    "fusestatic": "bodies without joints are merged into their parents",
    "discardvisual": "geoms that do not collide, and materials, are left out",
}


def _set_model_fields(reader: ModelReader, whole: Robot | World) -> None:
    """Set format, source, gravity, options, extras and asset names of the result."""
    document = reader.compiled.prepared.document
    assemblies: list[Assembly] = [whole, *(whole.robots if isinstance(whole, World) else [])]
    for assembly in assemblies:
        assembly.format = mjcf.FORMAT
        assembly.source = str(document.file)
        assembly.diagnostics = reader.diagnostics
    whole.origin = document.root.origin
    whole.gravity = read_gravity(reader.model)
    whole.options = read_options(reader)
    whole.extras += collect_extras(reader)
    whole.attributes[mjcf.attribute_key(mjcf.ASSETS)] = {
        kind: ["" if name.generated else name.text for name in reader.names[kind]]
        for kind in mjcf.ASSET_ORDER
        if reader.names[kind]
    }
    paths = reader.compiled.prepared.resolved_paths
    referenced = {uri: path for uri, path in paths.items() if any(uri in extra.text for extra in whole.extras)}
    if referenced:
        whole.attributes[mjcf.attribute_key(mjcf.FILES)] = referenced  # files referenced in preserved elements
    for compiler in document.root.find_all(mjcf.COMPILER):
        for flag, meaning in _COMPILER_FLAG_NOTES.items():
            if compiler.attributes.get(flag) == "true":
                reader.note(flag, f"{meaning}, as the file asks for ({flag})", compiler.origin)
