"""Keyframes: the states of joints, actuators and kinematic bodies in MuJoCo's long vectors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kinema.description import Assembly, Keyframe, Node
from kinema.foundation import Array, Pose
from kinema.words import mjcf

from ..chains import NO_START
from ..report import Action
from ..text import Element, numbers
from .bodies import all_bodies
from .body_plan import BodyPlan
from .joint_parts import JointPart
from .names import Entry
from .numbers import text_or_none, vector_text
from .writing import Writing

INITIAL = "initial"
"""The keyframe that holds what the description starts from and MuJoCo does not."""


def write_keyframes(writing: Writing, targets: Mapping[str, float]) -> None:
    """The description's keyframes, and one for states and drive targets that have no other place.

    Args:
        writing: the run of the writer.
        targets: controls by actuator that hold the targets of drives.
    """
    bodies = list(all_bodies(writing))
    for home, keyframe in writing.parts("keyframes"):
        _keyframe(writing, home, keyframe, bodies)
    _initial(writing, bodies, targets)


def _keyframe(writing: Writing, home: Assembly, keyframe: Keyframe, bodies: list[BodyPlan]) -> None:
    element = Element(mjcf.KEY)
    entry = writing.names.add(mjcf.KEY, keyframe, home, shown=not keyframe.name_is_generated)
    entry.element = element
    joints = {name: writing.names.find(mjcf.JOINT, name, home) for name in {*keyframe.positions, *keyframe.velocities}}
    for name, found in joints.items():
        missing = found is None or not writing.parts_of.get(id(found.node))
        if missing and np.any(keyframe.positions.get(name, 0.0)):
            writing.drop(keyframe, f"the state of joint {name!r}", "there is no such joint in the file")
    positions = _by_joint(joints, keyframe.positions)
    velocities = _by_joint(joints, keyframe.velocities)
    element.set({"time": text_or_none(keyframe.time)})
    _state(element, bodies, positions, velocities)
    _controls(writing, home, keyframe, element)
    _mocap(writing, home, keyframe, bodies, element)
    plastic = writing.take(keyframe, mjcf.PLASTIC)
    element.set({"plastic": None if not plastic else numbers(plastic)})
    writing.section(mjcf.KEYFRAME).children.append(element)


def _by_joint(joints: Mapping[str, Entry | None], values: Mapping[str, Array]) -> dict[int, Array]:
    """Values by the `id` of the joint."""
    return {id(found.node): values[name] for name, found in joints.items() if found is not None and name in values}


def _state(
    element: Element,
    bodies: list[BodyPlan],
    positions: Mapping[int, Array],
    velocities: Mapping[int, Array],
    speeds: Mapping[int, list[float]] | None = None,
) -> None:
    """`qpos` and `qvel`, from coordinates and velocities by the `id` of joints; `speeds` are MuJoCo's own already."""
    q: list[float] = []
    v: list[float] = []
    for part in (p for body in bodies for p in body.parts):
        key = id(part.joint)
        here = np.atleast_1d(positions.get(key, part.joint.start))
        q += part.positions(here) if key in positions else _at_reference(part)
        if speeds is not None and key in speeds:
            v += speeds[key]
        else:
            v += part.velocities(here, np.atleast_1d(velocities[key])) if key in velocities else [0.0] * part.n_dofs
    element.set({"qpos": vector_text(q) if q else None, "qvel": vector_text(v) if any(v) else None})


def _at_reference(part: JointPart) -> list[float]:
    """MuJoCo's coordinates of a part at its reference configuration."""
    if part.kind == "ball":
        return [1.0, 0.0, 0.0, 0.0]
    return part.positions(part.joint.start) if part.kind == "free" else [part.reference]


def _controls(writing: Writing, home: Assembly, keyframe: Keyframe, element: Element) -> None:
    """Controls and activations in the order of the actuators in the file; others than the description's are zero."""
    entries = [e for e in writing.names.entries if e.kind == mjcf.ACTUATOR and e.element is not None]
    by_element = {id(e.element): e for e in entries}
    several = writing.take(keyframe, mjcf.CONTROLS, {})
    controls: list[float] = []
    activations: list[float] = []
    for child in writing.section(mjcf.ACTUATOR).children:
        entry = by_element.get(id(child))
        name = "" if entry is None else entry.node.name
        controls += several[name] if name in several else [keyframe.controls.get(name, 0.0)]
        activations += np.atleast_1d(keyframe.activations.get(name, np.zeros(0))).tolist()
    element.set({"ctrl": numbers(controls) if any(controls) else None})
    element.set({"act": numbers(activations) if any(activations) else None})
    known = {e.node.name for e in entries}
    for name in {*keyframe.controls, *keyframe.activations} - known:
        writing.drop(keyframe, f"the control of {name!r}", "there is no such actuator in the file")


def _mocap(writing: Writing, home: Assembly, keyframe: Keyframe, bodies: list[BodyPlan], element: Element) -> None:
    if not keyframe.kinematic_poses:
        return
    found = {name: writing.names.find(mjcf.BODY, name, home) for name in keyframe.kinematic_poses}
    poses = {id(e.node): keyframe.kinematic_poses[name] for name, e in found.items() if e is not None}
    moved = [body for body in bodies if body.mocap]
    placed: list[Pose] = [poses.get(id(body.link), body.pose) for body in moved]
    if placed:
        element.set({"mpos": vector_text(x for p in placed for x in p.position)})
        element.set({"mquat": vector_text(x for p in placed for x in p.quaternion)})
    known = {id(body.link) for body in moved}
    for name, entry in found.items():
        if entry is None or id(entry.node) not in known:
            writing.drop(keyframe, f"the pose of {name!r}", "it is no body in the file that the user moves")


# -- what the description starts from ---------------------------------------------------------------------------------


def _initial(writing: Writing, bodies: list[BodyPlan], targets: Mapping[str, float]) -> None:
    """A keyframe for initial coordinates, velocities and drive targets, where MuJoCo starts from others."""
    positions: dict[int, Array] = {}
    speeds: dict[int, list[float]] = {}
    for body in bodies:
        for part in body.parts:
            start = _start(part)
            if start is not None:
                positions[id(part.joint)] = start
                _report(writing, part.joint, "the coordinates that it starts from")
        _speed(writing, body, speeds)
    if not (positions or speeds or targets):
        return
    element = Element(mjcf.KEY, {"name": writing.names.new(mjcf.KEY, INITIAL)})
    _state(element, bodies, positions, {}, speeds)
    if targets:
        names = [getattr(child, "attributes", {}).get("name", "") for child in writing.section(mjcf.ACTUATOR).children]
        element.set({"ctrl": numbers(targets.get(name, 0.0) for name in names)})
        for name in targets:
            _report(writing, ("actuator", name), "the target of the drive")
    writing.section(mjcf.KEYFRAME).children.append(element)


def _report(writing: Writing, node: Node | tuple[str, str], what: str) -> None:
    how = f"it is in the keyframe {INITIAL!r}; MuJoCo starts from its reference configuration unless told otherwise"
    writing.lose(Action.EXTENSION, node, what, how)


def _start(part: JointPart) -> Array | None:
    """Where a joint starts, if MuJoCo starts it elsewhere: a ball, whose reference is no choice."""
    start = part.joint.start
    if part.kind != "ball" or not np.isfinite(start).all():
        return None
    q = part.positions(start)
    return start if max(abs(x) for x in q[1:]) > NO_START else None


def _speed(writing: Writing, body: BodyPlan, speeds: dict[int, list[float]]) -> None:
    link = body.link
    if link is None or not (link.linear_velocity.any() or link.angular_velocity.any()):
        return
    if len(body.parts) == 1 and body.parts[0].kind == "free":
        # MuJoCo's spin is about the body's own axes
        spin = body.pose.rotation.T @ link.angular_velocity
        speeds[id(body.parts[0].joint)] = [*link.linear_velocity.tolist(), *spin.tolist()]
        _report(writing, link, "the velocity that it starts with")
    else:
        writing.drop(link, "the velocity that it starts with", "it has no free joint")
