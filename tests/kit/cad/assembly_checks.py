"""Whether a robot stands and moves as a fake design does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from kinema.core import Pose
from kinema.description import JointKind, Robot

from .addin import assembly_state
from .fake_fusion import FakeDesign
from .fake_joints import DIRECTIONS, JointData, X, Y, Z
from .fake_math import Matrix, turn


def pose_of(robot: Robot, configuration: dict[str, Any], path: str) -> Pose:
    """Where an occurrence is: a link, or a frame on one."""
    poses = robot.link_poses(configuration)
    for link in robot.links:
        if link.attributes["cad:occurrences"][0] == path:
            return poses[link.name]
    frame = next(f for f in robot.frames if f.name == path)
    assert frame.link is not None
    return poses[frame.link] @ frame.pose


def metres(matrix: Matrix) -> Pose:
    """A pose of the design in metres."""
    pose = Pose.from_matrix(matrix)
    return Pose(pose.position / 100, pose.rotation)


def assert_as_in_design(robot: Robot, design: FakeDesign, configuration: dict[str, Any]) -> None:
    """Every occurrence that has a link or a frame is where the design has it."""
    listed = {link.attributes["cad:occurrences"][0] for link in robot.links} | {f.name for f in robot.frames}
    for path in design.paths():
        if "+".join(path) in listed:
            found = robot.pose.inverse() @ pose_of(robot, configuration, "+".join(path))
            distance = found.distance(metres(design.pose(path)))
            assert max(distance) < 1e-9, f"{path}: {distance}"


def coordinates(robot: Robot, name: str, values: dict[str, float], data: JointData) -> dict[str, Any]:
    """The configuration in which a joint has the design's values and all others stand as in the snapshot."""
    si = {m: v / 100 if "slide" in m else v for m, v in values.items()}
    configuration = assembly_state(robot)
    if name not in {j.name for j in robot.joints}:
        configuration.update({f"{name}_{m}": v for m, v in si.items()})
    elif robot.joint(name).kind is JointKind.SPHERICAL:
        # the quaternion at zero is one: the frame of the joint has pitch, yaw and roll as x, y and z
        turned = Pose.from_matrix(turn(X, si["pitch"]) @ turn(Y, si["yaw"]) @ turn(Z, si["roll"]))
        configuration[name] = turned.quaternion
    else:
        configuration[name] = [si[m] for m in DIRECTIONS[data.type]]
    return configuration


def moved_along_each_joint(robot: Robot, design: FakeDesign, data: st.DataObject) -> Iterator[dict[str, Any]]:
    """Drive one joint of the design after the other to a random place, and back: the robot's configuration there."""
    names = {j.name for j in robot.joints}
    for context, component in design.contexts():
        for joint in component.joints:
            if not DIRECTIONS[joint.type]:
                continue
            slides, turns = st.floats(-5, 5), st.floats(-3, 3)
            target = {m: data.draw(slides if "slide" in m else turns) for m in DIRECTIONS[joint.type]}
            before = dict(design.values_of(joint, context))
            drive(design, joint, target, context)
            # where its component stands twice, its name comes with the place
            alone = any(n == joint.name or n.startswith(f"{joint.name}_") for n in names)
            name = joint.name if alone else f"{'+'.join(context)}+{joint.name}"
            yield coordinates(robot, name, target, joint)
            drive(design, joint, before, context)


def drive(design: FakeDesign, data: JointData, values: dict[str, float], context: tuple[str, ...] = ()) -> None:
    """Set all values of a joint."""
    for motion, value in values.items():
        design.drive(data, context, motion, value)
