"""URDF before check_urdf, Pinocchio, MuJoCo and yourdfpy."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from kinema.core import Array, collect
from kinema.description import JointKind, Robot
from kinema.read import read

from ..mujoco_models import full_mass_matrix, quiet
from ..oracles import OracleMissing, OracleRefused, check_urdf
from ..written.urdf import Written, mujoco_coordinates, pinocchio_configuration
from .cases import Verdict, anchors, configurations, mass_matrix, matrix_error, pose_error, verdict, worse

_MASSLESS = "MuJoCo has no moving bodies without mass"
_IMPOSSIBLE = "MuJoCo rejects physically impossible inertias"
_UNREADABLE_MESH = "MuJoCo does not read this mesh of the robot"
_NO_MASS = "2e-15"
"""The least that MuJoCo lets a moving body have; links that have shapes only get theirs from those otherwise."""
_MIXED_UP = "yourdfpy counts a floating joint as one coordinate when looking up the leader of a mimic joint"
_FOLLOWERS = "yourdfpy has no mimic joints of mimic joints"
_FREE = "MuJoCo has free joints of the world only"


def judge_urdf(written: Written) -> list[Verdict]:
    """The verdicts on a written file."""
    question = _Question(written)
    return [_check_urdf(written), _pinocchio(question), _mujoco(question), _yourdfpy(question)]


class _Question:
    """Configurations of the description's joints, the same of the file's joints, and what follows from them."""

    def __init__(self, written: Written) -> None:
        self.written = written
        robot = written.robot
        self.anchors = anchors(robot)
        self.description = configurations(robot, seed=5)
        self.file = [written.in_file(q) for q in self.description]
        self.expected = [written.expected(q) for q in self.description]
        again = read(written.file, policy=collect)
        assert isinstance(again, Robot)
        changed = any("it is added" in loss.how and "no mass" not in loss.how for loss in written.report)
        # what was added has a little mass: then it is our reading of the file that counts
        self.reference, self.reference_at = (again, self.file) if changed else (robot, self.description)
        self.rows: dict[tuple[str, int], str] = {}
        for joint in self.reference.joints:
            own = {0: joint.name} if changed else written.lowered.coordinates.get(joint.name, {})
            self.rows |= {(joint.name, number): name for number, name in own.items()}

    def poses(self, number: int, theirs: Mapping[str, Array]) -> tuple[float, str]:
        """How far a judge has a link from its place."""
        return pose_error(theirs, self.expected[number], self.anchors)

    def matrix(self, number: int, theirs: Array, row_of: Mapping[str, int]) -> tuple[float, str]:
        """How far a judge's mass matrix is off, whose rows are given by the file's joints."""
        at = {j.name: j.rest for j in self.reference.joints} | self.reference_at[number]
        names, ours = mass_matrix(self.reference, at, armature=False)
        chosen = [i for i, name in enumerate(names) if self.rows.get(name) in row_of]
        rows = [row_of[self.rows[names[i]]] for i in chosen]
        return matrix_error(theirs[np.ix_(rows, rows)], ours[np.ix_(chosen, chosen)], [names[i] for i in chosen])


def _check_urdf(written: Written) -> Verdict:
    try:
        check_urdf(written.file, strict=True)
    except OracleMissing as missing:
        return Verdict("check_urdf", "absent", str(missing))
    except OracleRefused as refused:
        return Verdict("check_urdf", "wrong", str(refused))
    return Verdict("check_urdf", "agrees")


def _pinocchio(question: _Question) -> Verdict:
    try:
        import pinocchio
    except ImportError:
        return Verdict("Pinocchio", "absent", "the package pin is not installed")
    pin: Any = pinocchio
    try:
        model = pin.buildModelFromUrdf(str(question.written.file))
    except Exception as error:  # whatever it throws is its verdict
        return Verdict("Pinocchio", "wrong", str(error))
    data = model.createData()
    poses = matrix = (0.0, "")
    row_of = {model.names[i]: model.joints[i].idx_v for i in range(1, model.njoints) if model.joints[i].nv == 1}
    for number, coordinates in enumerate(question.file):
        q = pinocchio_configuration(model, question.written, coordinates)
        pin.framesForwardKinematics(model, data, q)
        seen = {
            link.name: data.oMf[model.getFrameId(link.name, pin.FrameType.BODY)].homogeneous.copy()
            for link in question.written.robot.links
        }
        poses = worse(poses, question.poses(number, seen))
        pin.crba(model, data, q)
        full = np.triu(data.M) + np.triu(data.M, 1).T
        matrix = worse(matrix, question.matrix(number, full, row_of))
    return verdict("Pinocchio", poses, matrix)


# -- MuJoCo -----------------------------------------------------------------------------------------------------------


def _mujoco(question: _Question) -> Verdict:
    import mujoco

    written = question.written
    try:
        with quiet():
            mujoco.MjModel.from_xml_path(str(written.file))
    except ValueError as error:
        reason = _why_mujoco_refuses(written, str(error))
        return Verdict("MuJoCo", "limited" if reason else "wrong", reason or str(error))
    if any(j.kind is JointKind.FREE and j.parent != "world" for j in written.joints.values()):
        return Verdict("MuJoCo", "limited", _FREE)
    # the links that a fixed joint holds are one body for MuJoCo otherwise, and have no pose
    text = re.sub(r"<(visual|collision)\b[^>]*?(/>|>.*?</\1>)", "", written.text, flags=re.DOTALL)
    text = re.sub(r"<mujoco>.*?</mujoco>", "", text, flags=re.DOTALL)
    compiler = f'<compiler fusestatic="false" boundmass="{_NO_MASS}" boundinertia="{_NO_MASS}"/>'
    text = text.replace("</robot>", f"<mujoco>{compiler}</mujoco></robot>")
    with quiet():
        model = mujoco.MjModel.from_xml_string(text)
        return _mujoco_agrees(question, model)


def _mujoco_agrees(question: _Question, model: Any) -> Verdict:
    import mujoco

    data: Any = mujoco.MjData(model)
    poses = matrix = (0.0, "")
    joints = [model.joint(i) for i in range(model.njnt)]
    row_of = {j.name: int(j.dofadr[0]) for j in joints}
    for number, coordinates in enumerate(question.file):
        data.qpos[:] = mujoco_coordinates(model, question.written, coordinates)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_crb(model, data)
        seen: dict[str, Array] = {}
        for link in question.written.robot.links:
            body, pose = data.body(link.name), np.eye(4)
            pose[:3, :3], pose[:3, 3] = body.xmat.reshape(3, 3), body.xpos
            seen[link.name] = pose
        poses = worse(poses, question.poses(number, seen))
        matrix = worse(matrix, question.matrix(number, full_mass_matrix(model, data), row_of))
    return verdict("MuJoCo", poses, matrix)


def _why_mujoco_refuses(written: Written, said: str) -> str:
    """The limit of MuJoCo or fault of the robot that is why; empty where there is none."""
    moving = {j.child for j in written.lowered.robot.joints if j.axes}
    for link in written.lowered.robot.links:
        inertial = link.inertial
        if inertial is None or not inertial.mass:
            if link.name in moving and "mass and inertia of moving bodies" in said:
                return _MASSLESS
            continue
        moments = np.sort(np.linalg.eigvalsh(inertial.inertia))
        if moments[0] <= 1e-14 or moments[0] + moments[1] < moments[2]:
            return _IMPOSSIBLE
    return _UNREADABLE_MESH if "mesh" in said.lower() else ""


# -- yourdfpy ---------------------------------------------------------------------------------------------------------


def _yourdfpy(question: _Question) -> Verdict:
    try:
        import yourdfpy
    except ImportError:
        return Verdict("yourdfpy", "absent", "the package yourdfpy is not installed")
    logging.getLogger("yourdfpy").setLevel(logging.ERROR)
    written = question.written
    loaded: Any = yourdfpy.URDF.load(str(written.file), load_meshes=False)
    if not loaded.validate():
        return Verdict("yourdfpy", "wrong", "; ".join(map(str, loaded.errors)))
    poses = (0.0, "")
    kinds = {j.kind for j in written.joints.values()}
    simple = {n for n, j in written.joints.items() if j.kind not in (JointKind.FREE, JointKind.PLANAR)}
    given = simple & set(loaded.actuated_joint_names)
    follows = any(a.mimic for j in written.joints.values() for a in j.axes)
    if follows and kinds & {JointKind.FREE, JointKind.PLANAR}:
        return Verdict("yourdfpy", "limited", _MIXED_UP)
    followers = {j.name for j in written.joints.values() for a in j.axes if a.mimic}
    if any(a.mimic and a.mimic.joint in followers for j in written.joints.values() for a in j.axes):
        return Verdict("yourdfpy", "limited", _FOLLOWERS)
    for number, coordinates in enumerate(question.file):
        if number and JointKind.PLANAR in kinds:
            break  # it has no planar joints: they stay at zero
        if not number and follows:
            continue  # followers with an offset are not at zero
        loaded.update_cfg({n: float(q[0]) for n, q in coordinates.items() if n in given})
        seen = {link.name: loaded.get_transform(link.name) for link in written.robot.links}
        poses = worse(poses, question.poses(number, seen))
    return verdict("yourdfpy", poses, (0.0, ""))
