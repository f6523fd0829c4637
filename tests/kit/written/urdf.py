"""Written URDF files before Pinocchio, MuJoCo and yourdfpy, and where the description has every link."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinema.core import Array, Pose
from kinema.description import Joint, JointKind, Robot, World, joint_transform
from kinema.write import WriteOptions
from kinema.write.loss_report import LossReport
from kinema.write.urdf import LoweredUrdfRobot, preview_lowering, write_urdf

from .. import oracles
from ..mujoco_models import quiet

Coordinates = Mapping[str, Array]


@dataclass
class Written:
    """A robot, its file, and how the two correspond."""

    robot: Robot
    file: Path
    report: LossReport
    lowered: LoweredUrdfRobot

    @classmethod
    def make(cls, described: Robot | World, folder: Path, **options: Any) -> Written:
        """Write a robot, or the only one of a world that moves."""
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "robot.urdf"
        report = LossReport("urdf", str(file))
        chosen = WriteOptions(**{"meshes": "copy", **options})
        write_urdf(described, file, report, chosen)
        robots = described.robots if isinstance(described, World) else [described]
        moving = [r for r in robots if not r.static] or robots
        robot = next((r for r in robots if chosen.robot and r.name == chosen.robot), moving[0])
        return cls(robot, file, report, preview_lowering(robot, chosen))

    @property
    def text(self) -> str:
        """The file without its declaration."""
        return re.sub(r"^\s*<\?xml.*?\?>\s*", "", self.file.read_text(encoding="utf-8"))

    def losses(self, name: str) -> list[str]:
        """What the report says of an element."""
        return [str(x) for x in self.report if x.name == name]

    @property
    def joints(self) -> dict[str, Joint]:
        """The joints of the file, in its own terms."""
        return {j.name: j for j in self.lowered.robot.joints}

    def root_pose(self, poses: Mapping[str, Pose]) -> Pose:
        """Where the description has the link that the file begins with."""
        children = {j.child for j in self.lowered.robot.joints}
        (root,) = (link.name for link in self.lowered.robot.links if link.name not in children)
        return poses.get(root, Pose())  # the link that stands for the world is there

    def expected(self, coordinates: Coordinates) -> dict[str, Array]:
        """Where the file must have the links: as the description, but seen from the root link."""
        poses = self.robot.link_poses(coordinates)
        base = self.root_pose(poses).inverse()
        return {name: (base @ pose).matrix for name, pose in poses.items()}

    def in_file(self, coordinates: Coordinates) -> dict[str, Array]:
        """Coordinates of the description's joints as those of the file's; all joints must be given."""
        result: dict[str, Array] = {}
        poses = self.robot.link_poses(coordinates)
        for joint in self.robot.joints:
            parts = self.lowered.joint_chains.get(joint.name, [])
            known = self.lowered.coordinates.get(joint.name, {})
            if joint.kind is JointKind.SPHERICAL and parts:
                result |= _euler(joint, coordinates[joint.name])
                continue
            for number, name in known.items():
                result[name] = coordinates[joint.name][number : number + 1]
            travel = [p for p in parts if p not in known.values()]
            if joint.kind is JointKind.SCREW and travel:
                result[travel[0]] = coordinates[joint.name] * joint.pitch / (2 * np.pi)
            if joint.kind is JointKind.PLANAR and parts == [joint.name]:
                result[joint.name] = coordinates[joint.name]
        for name, joint in self.joints.items():
            if joint.kind is JointKind.FREE:  # nothing is held: it goes wherever the description has the link
                parent = poses.get(joint.parent or "", Pose())
                there = joint.parent_pose.inverse() @ parent.inverse() @ poses[joint.child or ""]
                result[name] = np.concatenate([there.position, there.quaternion])
        return result


def _euler(joint: Joint, q: Array) -> dict[str, Array]:
    """The rotation of a spherical joint as those about x, y, z, one after the other."""
    m = (joint_transform(joint, joint.rest).inverse() @ joint_transform(joint, q)).rotation
    y = np.arctan2(m[0, 2], np.hypot(m[0, 0], m[0, 1]))
    x, z = np.arctan2(-m[1, 2], m[2, 2]), np.arctan2(-m[0, 1], m[0, 0])
    return {f"{joint.name}_rotation_{a}": np.array([v]) for a, v in zip("xyz", (x, y, z), strict=True)}


# -- judges -----------------------------------------------------------------------------------------------------------


def check_urdf(file: Path) -> None:
    """The library of ROS has nothing to say against the file, not even a warning."""
    try:
        oracles.check_urdf(file, strict=True)
    except oracles.OracleMissing as missing:
        pytest.skip(str(missing))


def pinocchio_poses(written: Written, configurations: list[dict[str, Array]]) -> list[dict[str, Array]]:
    """World poses of the description's links as Pinocchio has them, at coordinates of the file's joints."""
    pin: Any = pytest.importorskip("pinocchio")
    model = pin.buildModelFromUrdf(str(written.file))
    data = model.createData()
    result = []
    for coordinates in configurations:
        pin.framesForwardKinematics(model, data, pinocchio_configuration(model, written, coordinates))
        result.append(
            {
                link.name: data.oMf[model.getFrameId(link.name, pin.FrameType.BODY)].homogeneous.copy()
                for link in written.robot.links
            }
        )
    return result


def pinocchio_configuration(model: Any, written: Written, coordinates: Coordinates) -> Array:
    """Coordinates of the file's joints in Pinocchio's layout."""
    pin: Any = pytest.importorskip("pinocchio")
    q = pin.neutral(model)
    for name, values in coordinates.items():
        index = model.getJointId(name)
        assert index < model.njoints, f"Pinocchio has no joint {name}"
        start, size = model.joints[index].idx_q, model.joints[index].nq
        q[start : start + size] = _pinocchio_layout(written.joints[name].kind, values, size)
    return q


def _pinocchio_layout(kind: JointKind, q: Array, size: int) -> Array:
    if kind is JointKind.FREE:
        return np.concatenate([q[:3], q[4:7], q[3:4]])
    if kind is JointKind.PLANAR:
        return np.array([q[0], q[1], np.cos(q[2]), np.sin(q[2])])
    return np.array([np.cos(q[0]), np.sin(q[0])]) if size == 2 else q


def mujoco_poses(written: Written, configurations: list[dict[str, Array]]) -> list[dict[str, Array]]:
    """The same by MuJoCo, which is told to keep links apart that a fixed joint holds together."""
    mujoco: Any = pytest.importorskip("mujoco")
    text = re.sub(r"<(visual|collision)\b[^>]*?(/>|>.*?</\1>)", "", written.text, flags=re.DOTALL)
    text = re.sub(r"<mujoco>.*?</mujoco>", "", text, flags=re.DOTALL)
    compiler = '<mujoco><compiler fusestatic="false" boundmass="1e-12" boundinertia="1e-14" balanceinertia="true"/>'
    with quiet():
        model = mujoco.MjModel.from_xml_string(text.replace("</robot>", f"{compiler}</mujoco></robot>"))
    data = mujoco.MjData(model)
    result = []
    for coordinates in configurations:
        data.qpos[:] = mujoco_coordinates(model, written, coordinates)
        mujoco.mj_kinematics(model, data)
        poses: dict[str, Array] = {}
        for link in written.robot.links:
            body, pose = data.body(link.name), np.eye(4)
            pose[:3, :3], pose[:3, 3] = body.xmat.reshape(3, 3), body.xpos
            poses[link.name] = pose
        result.append(poses)
    return result


def mujoco_coordinates(model: Any, written: Written, coordinates: Coordinates) -> Array:
    """Coordinates of the file's joints in MuJoCo's layout."""
    qpos = model.qpos0.copy()
    for name, values in coordinates.items():
        joint = written.joints[name]
        q = values
        if joint.kind is JointKind.FREE:  # MuJoCo's free joints start at the world, not at the joint's origin
            pose = joint.parent_pose @ Pose.from_quaternion(q[:3], q[3:7])
            q = np.concatenate([pose.position, pose.quaternion])
        names = [f"{name}_{s}" for s in ("TX", "TY", "RZ")] if joint.kind is JointKind.PLANAR else [name]
        for one, part in zip(names, q.reshape(len(names), -1), strict=True):
            start = model.joint(one).qposadr[0]
            qpos[start : start + part.size] = part
    return qpos


def yourdfpy_poses(written: Written) -> dict[str, Array]:
    """World poses of the description's links as yourdfpy has them at zero; it must find nothing wrong."""
    yourdfpy: Any = pytest.importorskip("yourdfpy")
    loaded = yourdfpy.URDF.load(str(written.file), load_meshes=False)
    assert loaded.validate(), loaded.errors
    return {link.name: loaded.get_transform(link.name) for link in written.robot.links}
