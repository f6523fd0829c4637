"""A description as plain JSON values: the contract of `kinema info --json`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from kinema.description import Joint, JointKind, Link, Mesh, Robot, Shape, World
from kinema.foundation import Pose


def describe(described: Robot | World) -> dict[str, Any]:
    """One object with everything that `kinema info` shows."""
    world = described if isinstance(described, World) else World(robots=[described])
    poses = world.link_poses()
    unique = {(id(robot), link.name): name for name, robot, link in world.named_links()}
    parents = _parents(world, unique)
    joints = [(name, robot, joint) for name, robot, joint in world.named_joints() if not joint.implicit]
    return {
        "format": described.format,
        "kind": "world" if isinstance(described, World) else "robot",
        "name": described.name,
        "source": described.source,
        "n_links": len(world.links),
        "n_joints": len(joints),
        "n_dofs": world.n_dofs,
        "n_qs": world.n_qs,
        "total_mass": _number(world.total_mass),
        "robots": [_robot(r) for r in world.robots],
        "links": [_link(n, link, parents[n], poses.get(n)) for n, _, link in world.named_links()],
        "joints": [_joint(name, robot, joint, unique) for name, robot, joint in joints],
        "geoms": list(_geoms(world)),
        "diagnostics": [d.to_json() for d in described.diagnostics],
    }


UniqueNames = dict[tuple[int, str], str]
"""Robot (its `id`) and link name -> the link's name that is unique in the world."""


def _parents(world: World, unique: UniqueNames) -> dict[str, str | None]:
    """For each link the link it hangs on, by unique names."""
    parents: dict[str, str | None] = dict.fromkeys(unique.values())
    for robot in world.robots:
        for edge in robot.tree().edges:
            if edge.parent is not None:
                parents[unique[id(robot), edge.child]] = unique[id(robot), edge.parent]
    return parents


def _robot(robot: Robot) -> dict[str, Any]:
    tree = robot.tree()
    return {
        "name": robot.name,
        "base": robot.base.value,
        "static": robot.static,
        "pose": _matrix(robot.pose),
        "roots": list(tree.roots),
        "loop_joints": [j.name for j in tree.loops],
        "n_constraints": len(robot.constraints),
        "n_actuators": len(robot.actuators),
        "n_tendons": len(robot.tendons),
        "n_sensors": len(robot.sensors),
    }


def _link(name: str, link: Link, parent: str | None, pose: Pose | None) -> dict[str, Any]:
    inertial = link.inertial
    return {
        "name": name,
        "parent": parent,
        "mass": 0.0 if inertial is None else _number(inertial.mass),
        "com": None if inertial is None else _numbers(inertial.center),
        "inertia": None if inertial is None else _numbers(inertial.inertia),
        "pose": None if pose is None else _matrix(pose),
        "origin": str(link.origin) if not link.origin.path else link.origin.path,
    }


def _joint(name: str, robot: Robot, joint: Joint, unique: UniqueNames) -> dict[str, Any]:
    parent, child = (None if end is None else unique.get((id(robot), end), end) for end in (joint.parent, joint.child))
    single = joint.axes[0] if len(joint.axes) == 1 else None
    return {
        "name": name,
        "type": joint.kind.value,
        "parent": parent,
        "child": child,
        "axis": None if single is None else _numbers(single.direction),
        "origin": _matrix(joint.parent_pose),
        "lower": None if single is None else _number(single.lower),
        "upper": None if single is None else _number(single.upper),
        "effort": None if single is None else _number(single.effort),
        "velocity": None if single is None else _number(single.velocity),
        "robot": robot.name,
        "enabled": joint.enabled,
        "axes": [
            {
                "motion": axis.motion.value,
                "state": axis.state.value,
                "direction": _numbers(axis.direction),
                "lower": _number(axis.lower),
                "upper": _number(axis.upper),
                "effort": _number(axis.effort),
                "velocity": _number(axis.velocity),
                "damping": _number(axis.damping),
                "friction": _number(axis.friction),
                "armature": _number(axis.armature),
                "stiffness": _number(axis.stiffness),
                "mimic": None if axis.mimic is None else _mimic(axis.mimic),
            }
            for axis in joint.axes
        ],
        "pitch": _number(joint.pitch) if joint.kind is JointKind.SCREW else None,
        "child_origin": _matrix(joint.child_pose),
        "source": str(joint.origin),
    }


def _mimic(mimic: Any) -> dict[str, Any]:
    return {
        "joint": mimic.joint,
        "axis": mimic.axis,
        "multiplier": _number(mimic.multiplier),
        "offset": _number(mimic.offset),
        "reference": _number(mimic.reference),
    }


def _geoms(world: World) -> Iterable[dict[str, Any]]:
    for shape in world.shapes:
        yield _geom(shape, "world")
    for name, _, link in world.named_links():
        for shape in link.shapes:
            yield _geom(shape, name)


def _geom(shape: Shape, link: str) -> dict[str, Any]:
    geometry = shape.geometry
    sizes: dict[str, Any] = {}
    for key in ("size", "radius", "length", "radii", "scale"):
        value = getattr(geometry, key, None)
        if value is not None:
            sizes[key] = _numbers(np.asarray(value, dtype=np.float64))
    if isinstance(geometry, Mesh):
        sizes["uri"] = geometry.uri
        sizes["file"] = geometry.path or None
    return {
        "name": shape.name,
        "link": link,
        "type": shape.kind,
        "visual": shape.visual,
        "collision": shape.collision,
        "pose": _matrix(shape.pose),
        **sizes,
        "source": str(shape.origin),
    }


def _matrix(pose: Pose) -> Any:
    return _numbers(pose.matrix)


def _numbers(array: np.ndarray) -> Any:
    """Nested lists of numbers; JSON has neither NaN nor infinity, they become null."""
    if array.ndim == 0:
        return _number(float(array))
    return [_numbers(a) for a in array] if array.ndim > 1 else [_number(float(a)) for a in array]


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
