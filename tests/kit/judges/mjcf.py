"""MJCF before MuJoCo."""

from __future__ import annotations

import mujoco
import numpy as np

from kinema.core import Array, Pose
from kinema.description import Inertial, Robot

from ..mujoco_models import full_mass_matrix
from ..written.mjcf import Written, at, inertial_of
from .cases import Verdict, configurations, mass_matrix, matrix_error, pose_error, verdict, worse


def judge_mjcf(written: Written) -> list[Verdict]:
    """The verdicts on a written file, which MuJoCo has compiled."""
    plans = [configurations(robot, seed=7) for robot in written.robots]
    poses = matrix = (0.0, "")
    for number in range(max([1, *map(len, plans)])):
        tables = [plan[min(number, len(plan) - 1)] for plan in plans]
        data = at(written, tables)
        full = full_mass_matrix(written.model, data)
        for robot, table in zip(written.robots, tables, strict=True):
            seen = {
                body.link.name: Pose.from_quaternion(data.xpos[i], data.xquat[i]).matrix
                for i, body in enumerate(written.bodies, start=1)
                if body.link is not None and body.robot is robot
            }
            poses = worse(poses, pose_error(seen, robot.forward_kinematics(table), {}))
            if not robot.static:
                matrix = worse(matrix, _matrix(written, robot, table, full))
    return [verdict("MuJoCo", poses, matrix)]


def _matrix(written: Written, robot: Robot, table: dict[str, Array], full: Array) -> tuple[float, str]:
    names, ours = mass_matrix(robot, table, _mended(written, robot), armature=True)
    columns = []
    for joint, number in names:
        column: list[float] = []
        for body in written.bodies:
            for part in body.joints:
                if body.robot is robot and part.joint.name == joint and body.joints:
                    column += part.to_qvel(table[joint], np.eye(part.joint.n_dofs)[number])
                else:
                    column += [0.0] * part.n_dofs
        columns.append(column)
    to_file = np.array(columns).reshape(len(columns), full.shape[0]).T
    carriers = [i for i, body in enumerate(written.bodies, start=1) if body.link is None and body.robot is robot]
    extra = _carried(written, carriers, to_file, table)
    return matrix_error(to_file.T @ full @ to_file - extra, ours, names)


def _mended(written: Written, robot: Robot) -> dict[str, Inertial | None]:
    """The inertias of the file where the report says that they are others than the robot's."""
    reported = {x.name for x in written.report if x.kind == "link" and ("inertia" in x.what or "mass" in x.what)}
    result: dict[str, Inertial | None] = {}
    for number, body in enumerate(written.bodies, start=1):
        if body.robot is robot and body.link is not None and body.link.name in reported:
            given = inertial_of(written.model, number)
            result[body.link.name] = given if given.mass else None
    return result


def _carried(written: Written, carriers: list[int], to_file: Array, table: dict[str, Array]) -> Array:
    """What bodies that only carry joints, and have a little mass, add to the mass matrix."""
    model = written.model
    result = np.zeros((to_file.shape[1], to_file.shape[1]))
    if not carriers:
        return result
    data = at(written, [table if r is written.robots[0] else {} for r in written.robots])
    for body in carriers:
        linear, angular = np.zeros((3, model.nv)), np.zeros((3, model.nv))
        mujoco.mj_jacBodyCom(model, data, linear, angular, body)
        turned = data.ximat[body].reshape(3, 3)
        tensor = turned @ np.diag(model.body_inertia[body]) @ turned.T
        own = model.body_mass[body] * linear.T @ linear + angular.T @ tensor @ angular
        result += to_file.T @ own @ to_file
    return result
