"""Keyframes: qpos, qvel, act, ctrl and mocap poses, and the initial state that MuJoCo has no other place for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kinema.core import Array, Pose
from kinema.description import Assembly, Keyframe, Node
from kinema.tokens import mjcf

from ..joint_chains import START_TOLERANCE
from ..loss_report import Action
from ..xml_document import Element, format_numbers
from .attributes import NamedElement, text_unless_default, vector_text
from .bodies import iterate_bodies
from .context import MjcfBody, MjcfContext
from .joint_decomposition import MjcfJoint

INITIAL_KEYFRAME = "initial"
"""Name of the keyframe with the parts of the initial state that differ from MuJoCo's initial state."""


def write_keyframes(ctx: MjcfContext, drive_targets: Mapping[str, float]) -> None:
    """Write the keyframes of the description, and one for initial state and drive targets if necessary.

    Args:
        ctx: the writer context.
        drive_targets: controls that realize the drive targets, by actuator name.
    """
    bodies = list(iterate_bodies(ctx))
    for home, keyframe in ctx.ordered_items("keyframes"):
        _write_keyframe(ctx, home, keyframe, bodies)
    _write_initial_keyframe(ctx, bodies, drive_targets)


def _write_keyframe(ctx: MjcfContext, assembly: Assembly, keyframe: Keyframe, bodies: list[MjcfBody]) -> None:
    """Write one keyframe: time, qpos, qvel, act, ctrl and mocap poses; reports states of missing joints."""
    element = Element(mjcf.KEY)
    entry = ctx.names.register(mjcf.KEY, keyframe, assembly, always_named=not keyframe.name_is_generated)
    entry.element = element
    joints = {name: ctx.names.find(mjcf.JOINT, name, assembly) for name in {*keyframe.positions, *keyframe.velocities}}
    for name, found in joints.items():
        missing = found is None or not ctx.joints_by_source.get(id(found.node))
        if missing and np.any(keyframe.positions.get(name, 0.0)):
            ctx.report_dropped(keyframe, f"the state of joint {name!r}", "there is no such joint in the file")
    positions = _values_by_joint(joints, keyframe.positions)
    velocities = _values_by_joint(joints, keyframe.velocities)
    element.set_attributes({"time": text_unless_default(keyframe.time)})
    _set_qpos_qvel(element, bodies, positions, velocities)
    _set_controls(ctx, assembly, keyframe, element)
    _set_mocap_poses(ctx, assembly, keyframe, bodies, element)
    plastic = ctx.use_attribute(keyframe, mjcf.PLASTIC)
    element.set_attributes({"plastic": None if not plastic else format_numbers(plastic)})
    ctx.section(mjcf.KEYFRAME).children.append(element)


def _values_by_joint(joints: Mapping[str, NamedElement | None], values: Mapping[str, Array]) -> dict[int, Array]:
    """Values by the `id` of the joint."""
    return {id(found.node): values[name] for name, found in joints.items() if found is not None and name in values}


def _set_qpos_qvel(
    element: Element,
    bodies: list[MjcfBody],
    positions: Mapping[int, Array],
    velocities: Mapping[int, Array],
    mujoco_velocities: Mapping[int, list[float]] | None = None,
) -> None:
    """Set `qpos` and `qvel` from joint coordinates and velocities, keyed by `id` of the joint.

    Joints without coordinates are at the reference configuration. `mujoco_velocities` contains qvel values that need no
    conversion.
    """
    q: list[float] = []
    v: list[float] = []
    for part in (p for body in bodies for p in body.joints):
        key = id(part.joint)
        here = np.atleast_1d(positions.get(key, part.joint.start))
        q += part.to_qpos(here) if key in positions else _reference_qpos(part)
        if mujoco_velocities is not None and key in mujoco_velocities:
            v += mujoco_velocities[key]
        else:
            v += part.to_qvel(here, np.atleast_1d(velocities[key])) if key in velocities else [0.0] * part.n_dofs
    element.set_attributes({"qpos": vector_text(q) if q else None, "qvel": vector_text(v) if any(v) else None})


def _reference_qpos(mjcf_joint: MjcfJoint) -> list[float]:
    """MuJoCo's qpos of a joint at the reference configuration."""
    if mjcf_joint.kind == "ball":
        return [1.0, 0.0, 0.0, 0.0]
    return mjcf_joint.to_qpos(mjcf_joint.joint.start) if mjcf_joint.kind == "free" else [mjcf_joint.reference]


def _set_controls(ctx: MjcfContext, assembly: Assembly, keyframe: Keyframe, element: Element) -> None:
    """Set `ctrl` and `act` in the order of the actuators in the file; actuators without values get zeros."""
    entries = [e for e in ctx.names.entries if e.kind == mjcf.ACTUATOR and e.element is not None]
    by_element = {id(e.element): e for e in entries}
    several = ctx.use_attribute(keyframe, mjcf.CONTROLS, {})
    controls: list[float] = []
    activations: list[float] = []
    for child in ctx.section(mjcf.ACTUATOR).children:
        entry = by_element.get(id(child))
        name = "" if entry is None else entry.node.name
        controls += several[name] if name in several else [keyframe.controls.get(name, 0.0)]
        activations += np.atleast_1d(keyframe.activations.get(name, np.zeros(0))).tolist()
    element.set_attributes({"ctrl": format_numbers(controls) if any(controls) else None})
    element.set_attributes({"act": format_numbers(activations) if any(activations) else None})
    known = {e.node.name for e in entries}
    for name in {*keyframe.controls, *keyframe.activations} - known:
        ctx.report_dropped(keyframe, f"the control of {name!r}", "there is no such actuator in the file")


def _set_mocap_poses(
    ctx: MjcfContext, assembly: Assembly, keyframe: Keyframe, bodies: list[MjcfBody], element: Element
) -> None:
    """Set `mpos` and `mquat` of all mocap bodies; reports poses of other bodies as dropped."""
    if not keyframe.kinematic_poses:
        return
    found = {name: ctx.names.find(mjcf.BODY, name, assembly) for name in keyframe.kinematic_poses}
    poses = {id(e.node): keyframe.kinematic_poses[name] for name, e in found.items() if e is not None}
    moved = [body for body in bodies if body.mocap]
    placed: list[Pose] = [poses.get(id(body.link), body.pose) for body in moved]
    if placed:
        element.set_attributes({"mpos": vector_text(x for p in placed for x in p.position)})
        element.set_attributes({"mquat": vector_text(x for p in placed for x in p.quaternion)})
    known = {id(body.link) for body in moved}
    for name, entry in found.items():
        if entry is None or id(entry.node) not in known:
            ctx.report_dropped(keyframe, f"the pose of {name!r}", "it is no body in the file that the user moves")


# ------------------------------------------------------------------------------------- initial state of the description


def _write_initial_keyframe(ctx: MjcfContext, bodies: list[MjcfBody], drive_targets: Mapping[str, float]) -> None:
    """Write a keyframe with initial coordinates, velocities and drive targets unlike MuJoCo's initial state."""
    positions: dict[int, Array] = {}
    speeds: dict[int, list[float]] = {}
    for body in bodies:
        for part in body.joints:
            start = _initial_ball_coordinates(part)
            if start is not None:
                positions[id(part.joint)] = start
                _report_in_keyframe(ctx, part.joint, "the coordinates that it starts from")
        _collect_initial_velocity(ctx, body, speeds)
    if not (positions or speeds or drive_targets):
        return
    element = Element(mjcf.KEY, {"name": ctx.names.new_name(mjcf.KEY, INITIAL_KEYFRAME)})
    _set_qpos_qvel(element, bodies, positions, {}, speeds)
    if drive_targets:
        names = [getattr(child, "attributes", {}).get("name", "") for child in ctx.section(mjcf.ACTUATOR).children]
        element.set_attributes({"ctrl": format_numbers(drive_targets.get(name, 0.0) for name in names)})
        for name in drive_targets:
            _report_in_keyframe(ctx, ("actuator", name), "the target of the drive")
    ctx.section(mjcf.KEYFRAME).children.append(element)


def _report_in_keyframe(ctx: MjcfContext, node: Node | tuple[str, str], what: str) -> None:
    how = (
        f"it is in the keyframe {INITIAL_KEYFRAME!r}; MuJoCo starts from its reference configuration unless told "
        "otherwise"
    )
    ctx.report_loss(Action.EXTENSION, node, what, how)


def _initial_ball_coordinates(mjcf_joint: MjcfJoint) -> Array | None:
    """Initial coordinates of a ball joint that is not at the identity, where MuJoCo starts; None for other joints."""
    start = mjcf_joint.joint.start
    if mjcf_joint.kind != "ball" or not np.isfinite(start).all():
        return None
    q = mjcf_joint.to_qpos(start)
    return start if max(abs(x) for x in q[1:]) > START_TOLERANCE else None


def _collect_initial_velocity(ctx: MjcfContext, body: MjcfBody, mujoco_velocities: dict[int, list[float]]) -> None:
    """Add the qvel of a link's initial velocity for its free joint to a table; dropped for other links."""
    link = body.link
    if link is None or not (link.linear_velocity.any() or link.angular_velocity.any()):
        return
    if len(body.joints) == 1 and body.joints[0].kind == "free":
        # MuJoCo's spin is about the body's own axes
        spin = body.pose.rotation.T @ link.angular_velocity
        mujoco_velocities[id(body.joints[0].joint)] = [*link.linear_velocity.tolist(), *spin.tolist()]
        _report_in_keyframe(ctx, link, "the velocity that it starts with")
    else:
        ctx.report_dropped(link, "the velocity that it starts with", "it has no free joint")
