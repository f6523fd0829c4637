"""Pinocchio and MuJoCo as judges of what a URDF file means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinema.core import Array, Pose, skew
from kinema.description import Inertial, Joint, JointKind, Robot, joint_transform

from .mujoco_models import quiet

Coordinates = Mapping[str, Array]
"""The coordinates of every joint of ours that moves."""


class Refused(Exception):
    """The judge does not read this file."""


# -- Pinocchio --------------------------------------------------------------------------------------------------------


@dataclass
class Pinocchio:
    """A URDF file as Pinocchio sees it, every mimic joint a joint of its own."""

    model: Any

    @classmethod
    def load(cls, text: str) -> Pinocchio:
        pinocchio: Any = pytest.importorskip("pinocchio")
        try:
            return cls(pinocchio.buildModelFromXML(text))
        except (ValueError, RuntimeError) as error:
            raise Refused(str(error)) from error

    def configuration(self, robot: Robot, coordinates: Coordinates) -> Array:
        """Our coordinates in Pinocchio's layout."""
        pinocchio: Any = pytest.importorskip("pinocchio")
        model = self.model
        q = pinocchio.neutral(model)
        for joint in robot.joints:
            if joint.n_qs and joint.name in coordinates:
                index = model.getJointId(joint.name)
                assert index < model.njoints, f"Pinocchio has no joint {joint.name}"
                start, size = model.joints[index].idx_q, model.joints[index].nq
                q[start : start + size] = _pinocchio_coordinates(joint, coordinates[joint.name], size)
        return q

    def poses(self, robot: Robot, coordinates: Coordinates) -> dict[str, Array]:
        """World poses of the links."""
        pinocchio: Any = pytest.importorskip("pinocchio")
        model = self.model
        q = self.configuration(robot, coordinates)
        data = model.createData()
        pinocchio.framesForwardKinematics(model, data, q)
        return {
            link.name: data.oMf[model.getFrameId(link.name, pinocchio.FrameType.BODY)].homogeneous
            for link in robot.links
        }

    def check_inertias(self, robot: Robot, tolerance: float) -> None:
        """The mass, centre and inertia of each group of links that cannot move against each other."""
        pinocchio: Any = pytest.importorskip("pinocchio")
        model = self.model
        ours = [np.zeros((6, 6)) for _ in range(model.njoints)]
        at_root = np.zeros((6, 6))
        for link in robot.links:
            frame = model.frames[model.getFrameId(link.name, pinocchio.FrameType.BODY)]
            if link.inertial is not None:
                placement = Pose.from_matrix(frame.placement.homogeneous)
                ours[frame.parentJoint] += spatial_inertia(_moved(link.inertial, placement))
        for frame in model.frames:
            if frame.parentJoint == 0:
                at_root += (frame.placement * frame.inertia).matrix()
        theirs = [at_root, *(model.inertias[i].matrix() for i in range(1, model.njoints))]
        for mine, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(mine, other, rtol=0, atol=tolerance * max(1e-6, float(np.abs(other).max())))


def _pinocchio_coordinates(joint: Joint, q: Array, size: int) -> Array:
    """Our coordinates in Pinocchio's layout: cosine and sine of unlimited angles, quaternions x y z w."""
    if joint.kind is JointKind.FREE:
        return np.concatenate([q[:3], q[4:7], q[3:4]])
    if joint.kind is JointKind.PLANAR:
        return np.array([q[0], q[1], np.cos(q[2]), np.sin(q[2])])
    return np.array([np.cos(q[0]), np.sin(q[0])]) if size == 2 else q


def _moved(inertial: Inertial, pose: Pose) -> Inertial:
    turn = pose.rotation
    return Inertial(inertial.mass, pose.apply(inertial.center), turn @ inertial.inertia @ turn.T)


def spatial_inertia(inertial: Inertial) -> Array:
    """The 6x6 inertia about the frame's origin, linear part first."""
    m, c = inertial.mass, skew(inertial.center)
    return np.block([[m * np.eye(3), -m * c], [m * c, inertial.inertia - m * c @ c]])


# -- MuJoCo -----------------------------------------------------------------------------------------------------------


@dataclass
class Mujoco:
    """A URDF file as MuJoCo sees it, without its shapes."""

    model: Any
    is_balanced: bool
    """Whether impossible inertias were changed."""

    @classmethod
    def load(cls, text: str) -> Mujoco:
        mujoco: Any = pytest.importorskip("mujoco")
        text = re.sub(r"<(visual|collision)\b[^>]*?(/>|>.*?</\1>)", "", text, flags=re.DOTALL)
        last = ""
        for is_balanced in (False, True):
            # the bounds only lift the masses of links that have none
            more = ' balanceinertia="true" boundmass="1e-12" boundinertia="1e-14"' if is_balanced else ""
            compiler = f'<mujoco><compiler fusestatic="false" discardvisual="false"{more}/></mujoco></robot>'
            try:
                with quiet():
                    spec = mujoco.MjSpec.from_string(text.replace("</robot>", compiler))
                    return cls(spec.compile(), is_balanced)
            except ValueError as error:
                last = str(error)
        raise Refused(last)

    def poses(self, robot: Robot, coordinates: Coordinates) -> dict[str, Array]:
        """World poses of the links."""
        mujoco: Any = pytest.importorskip("mujoco")
        model = self.model
        data = mujoco.MjData(model)
        for joint in robot.joints:
            if not joint.n_qs or joint.name not in coordinates:
                continue
            q = coordinates[joint.name]
            names = (
                [f"{joint.name}_{s}" for s in ("TX", "TY", "RZ")] if joint.kind is JointKind.PLANAR else [joint.name]
            )
            if joint.kind is JointKind.FREE:  # MuJoCo's free joints start at the world, not at the joint's origin
                pose = joint.parent_pose @ joint_transform(joint, q)
                q = np.concatenate([pose.position, pose.quaternion])
            per_joint = q.reshape(len(names), -1)
            for name, values in zip(names, per_joint, strict=True):
                start = model.joint(name).qposadr[0]
                data.qpos[start : start + values.size] = values
        mujoco.mj_kinematics(model, data)
        result: dict[str, Array] = {}
        for link in robot.links:
            pose = np.eye(4)
            body = data.body(link.name)
            pose[:3, :3], pose[:3, 3] = body.xmat.reshape(3, 3), body.xpos
            result[link.name] = pose
        return result

    def check_inertias(self, robot: Robot, tolerance: float) -> None:
        """Mass, centre and inertia of each link that has them."""
        model = self.model
        for link in robot.links:
            if link.inertial is None:
                continue
            body = model.body(link.name)
            ours = link.inertial
            np.testing.assert_allclose(ours.mass, body.mass[0], rtol=tolerance, atol=1e-11, err_msg=link.name)
            np.testing.assert_allclose(ours.center, body.ipos, rtol=0, atol=tolerance, err_msg=link.name)
            if self.is_balanced and not _is_possible(ours.inertia):
                continue
            turn = Pose.from_quaternion((0, 0, 0), body.iquat).rotation
            theirs = turn @ np.diag(body.inertia) @ turn.T
            scale = max(1e-3, float(np.abs(theirs).max()))
            np.testing.assert_allclose(ours.inertia, theirs, rtol=0, atol=tolerance * scale, err_msg=link.name)


def _is_possible(inertia: Array) -> bool:
    moments = np.sort(np.linalg.eigvalsh(inertia))
    return bool(moments[0] > 1e-14 and moments[0] + moments[1] >= moments[2])


def without_declaration(file: Path) -> str:
    """The text of a file; its encoding declaration would no longer be true of it."""
    return re.sub(r"^\s*<\?xml.*?\?>", "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
