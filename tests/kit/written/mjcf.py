"""MuJoCo's own opinion of a written file: where bodies are, what they weigh, and what may collide."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from kinema.core import Array, Pose
from kinema.description import Collider, Inertial, Joint, Robot, Shape, World, colliding_pairs
from kinema.write import WriteOptions
from kinema.write.files import stage_files
from kinema.write.loss_report import LossReport
from kinema.write.mjcf.bodies import iterate_bodies
from kinema.write.mjcf.context import MjcfBody, MjcfContext
from kinema.write.mjcf.writer import compose_document
from kinema.write.xml_document import to_xml

from ..mass_matrix import mass_matrix
from ..mujoco_models import full_mass_matrix, load, movable, mujoco_pairs, quiet
from ..robots.configurations import random_coordinates as robot_coordinates


@dataclass(repr=False)
class Written:
    """A description, its file, and the file as MuJoCo has it."""

    described: Robot | World
    path: Path
    report: LossReport
    writing: MjcfContext
    model: Any
    bodies: list[MjcfBody]
    """In MuJoCo's order; the world is not among them."""
    geoms: list[Shape]
    """In MuJoCo's order."""

    @property
    def robots(self) -> list[Robot]:
        return self.described.robots if isinstance(self.described, World) else [self.described]

    def lost(self, what: str) -> list[str]:
        """Names of the elements of which something of these words is reported."""
        return [loss.name for loss in self.report if what in loss.what]


def write(described: Robot | World, folder: Path, *, meshes: str = "copy") -> Written:
    """Write a description and have MuJoCo compile the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.xml"
    report = LossReport("mjcf", str(path))
    with stage_files(path) as draft:
        writing = compose_document(described, report, WriteOptions(meshes=meshes), draft)
        text = to_xml(writing.document.root(described.name), declaration=False)
        (draft / path.name).write_text(text, encoding="utf-8")
    model = load(path)
    bodies = list(iterate_bodies(writing))
    assert model.nbody == len(bodies) + 1
    shapes = [*writing.static_shapes, *(s for b in bodies if b.link is not None for s in b.link.shapes)]
    geoms = [s for s in shapes for _ in range(writing.geom_counts.get(id(s), 0))]
    assert model.ngeom == len(geoms)
    return Written(described, path, report, writing, model, bodies, geoms)


# -- configurations ---------------------------------------------------------------------------------------------------


def random_coordinates(written: Written, generator: np.random.Generator) -> list[dict[str, Array]]:
    """For each robot, coordinates of all its joints; those that follow others do so."""
    return [robot_coordinates(robot, generator, 1.5) for robot in written.robots]


def positions(written: Written, values: list[dict[str, Array]]) -> Array:
    """MuJoCo's coordinates."""
    by_robot = {id(robot): table for robot, table in zip(written.robots, values, strict=True)}
    q: list[float] = []
    for body in written.bodies:
        for part in body.joints:
            own = by_robot[id(body.robot)].get(part.joint.name)
            q += part.to_qpos(part.joint.rest if own is None else own)
    return np.array(q)


def at(written: Written, values: list[dict[str, Array]]) -> Any:
    """MuJoCo's state there, with everything computed that follows."""
    data = mujoco.MjData(written.model)
    data.qpos[:] = positions(written, values)
    with quiet():
        mujoco.mj_kinematics(written.model, data)
        mujoco.mj_comPos(written.model, data)
        mujoco.mj_crb(written.model, data)
    return data


def assert_poses(written: Written, values: list[dict[str, Array]], tolerance: float = 1e-9) -> None:
    """Every link is where the description has it."""
    data = at(written, values)
    ours: dict[int, Pose] = {}
    for robot, table in zip(written.robots, values, strict=True):
        poses = robot.link_poses({} if robot.static else table)
        ours |= {id(link): poses[link.name] for link in robot.links}
    for number, body in enumerate(written.bodies, start=1):
        if body.link is not None:
            theirs = Pose.from_quaternion(data.xpos[number], data.xquat[number])
            scale = 1.0 + float(np.abs(theirs.position).max())
            assert max(theirs.distance(ours[id(body.link)])) < tolerance * scale, body.link.name


def assert_start(written: Written, tolerance: float = 1e-6) -> None:
    """MuJoCo starts with every link where the description starts; but for what hangs on balls, in their keyframe."""
    data = mujoco.MjData(written.model)
    keys = [mujoco.mj_id2name(written.model, mujoco.mjtObj.mjOBJ_KEY, k) for k in range(written.model.nkey)]
    if any(part.kind == "ball" for body in written.bodies for part in body.joints) and "initial" in keys:
        mujoco.mj_resetDataKeyframe(written.model, data, keys.index("initial"))
    mujoco.mj_kinematics(written.model, data)
    ours = {id(link): pose for r in written.robots for link, pose in zip(r.links, _in_order(r), strict=True)}
    for number, body in enumerate(written.bodies, start=1):
        if body.link is not None:
            theirs = Pose.from_quaternion(data.xpos[number], data.xquat[number])
            scale = 1.0 + float(np.abs(theirs.position).max())
            assert max(theirs.distance(ours[id(body.link)])) < tolerance * scale, body.link.name


def _in_order(robot: Robot) -> list[Pose]:
    poses = robot.link_poses({})
    return [poses[link.name] for link in robot.links]


# -- masses -----------------------------------------------------------------------------------------------------------


def assert_masses(written: Written, tolerance: float = 1e-9) -> None:
    """Masses, centres and inertias, but for those that are reported."""
    reported = {
        loss.name for loss in written.report if loss.kind == "link" and ("inertia" in loss.what or "mass" in loss.what)
    }
    for number, body in enumerate(written.bodies, start=1):
        model, link = written.model, body.link
        if link is None or link.name in reported:
            continue
        if link.inertial is None:
            assert model.body_mass[number] == 0.0, link.name
            continue
        theirs = inertial_of(model, number)
        scale = float(np.abs(link.inertial.inertia).max())
        np.testing.assert_allclose(theirs.mass, link.inertial.mass, rtol=tolerance, err_msg=link.name)
        np.testing.assert_allclose(theirs.center, link.inertial.center, rtol=0, atol=tolerance, err_msg=link.name)
        np.testing.assert_allclose(theirs.inertia / scale, link.inertial.inertia / scale, rtol=0, atol=tolerance)


def inertial_of(model: Any, body: int) -> Inertial:
    """What MuJoCo has, in the body's frame."""
    axes = Pose.from_quaternion((0, 0, 0), model.body_iquat[body]).rotation
    inertia = axes @ np.diag(model.body_inertia[body]) @ axes.T
    return Inertial(float(model.body_mass[body]), np.array(model.body_ipos[body]), inertia)


def assert_mass_matrix(written: Written, values: list[dict[str, Array]], tolerance: float = 1e-8) -> None:
    """M(q) of every robot's tree, in the description's own velocities."""
    if any(body.link is None for body in written.bodies):
        tolerance = 1e-3  # bodies that carry joints have a little mass
    theirs = full_mass_matrix(written.model, at(written, values))
    for robot, table in zip(written.robots, values, strict=True):
        joints = [j for e in robot.tree().edges for j in e.joints if j.n_dofs and not robot.static]
        if not joints:
            continue
        kept = {link.name: link.inertial for link in robot.links}
        for number, body in enumerate(written.bodies, start=1):
            # what was mended is reported elsewhere; here the file's own numbers count
            if body.robot is robot and body.link is not None:
                given = inertial_of(written.model, number)
                body.link.inertial = given if given.mass else None
        try:
            ours = mass_matrix(robot, [j.name for j in joints], table)
        finally:
            for link in robot.links:
                link.inertial = kept[link.name]
        map_to_mujoco = _velocities(written, robot, joints, table)
        seen = map_to_mujoco.T @ theirs @ map_to_mujoco
        scale = float(np.abs(ours).max(initial=1e-12))
        np.testing.assert_allclose(seen / scale, ours / scale, rtol=0, atol=tolerance)


def _velocities(written: Written, robot: Robot, joints: list[Joint], table: dict[str, Array]) -> Array:
    """The matrix that takes velocities of the description's joints to MuJoCo's."""
    columns = []
    for joint in joints:
        for unit in np.eye(joint.n_dofs):
            column: list[float] = []
            for body in written.bodies:
                for part in body.joints:
                    if body.robot is robot and part.joint is joint:
                        column += part.to_qvel(table[joint.name], unit)
                    else:
                        column += [0.0] * part.n_dofs
            columns.append(column)
    return np.array(columns).T


# -- joints -----------------------------------------------------------------------------------------------------------


def assert_joints(written: Written) -> None:
    """Limits and passive dynamics of every hinge and slide."""
    model = written.model
    parts = [part for body in written.bodies for part in body.joints]
    assert model.njnt == len(parts)
    for number, part in enumerate(parts):
        axis = part.axis
        if axis is None:
            continue
        what, dof, q = part.joint.name, int(model.jnt_dofadr[number]), int(model.jnt_qposadr[number])
        limited = bool(np.isfinite([axis.lower, axis.upper]).any()) and axis.lower <= axis.upper
        assert bool(model.jnt_limited[number]) == limited, what
        if limited:
            np.testing.assert_allclose(model.jnt_range[number], (axis.lower, axis.upper), rtol=1e-15, atol=1e-12)
        assert model.qpos0[q] == part.reference
        assert model.qpos_spring[q] == axis.spring_reference
        assert model.jnt_stiffness[number] == axis.stiffness
        assert model.dof_damping[dof] == axis.damping
        assert model.dof_armature[dof] == axis.armature
        assert model.dof_frictionloss[dof] == axis.friction
        if np.isfinite(axis.effort) and axis.effort > 0:
            assert model.jnt_actfrcrange[number][1] == axis.effort


# -- collisions -------------------------------------------------------------------------------------------------------


def assert_collisions(written: Written) -> None:
    """The same pairs of geoms as the description's, but for those that are both fixed to the world in the file."""
    model = written.model
    number = {id(shape): i for i, shape in reversed(list(enumerate(written.geoms)))}

    def both(a: Collider, b: Collider) -> tuple[int, int] | None:
        found = number.get(id(a.shape)), number.get(id(b.shape))
        return None if None in found else found  # type: ignore[return-value]

    wanted = {frozenset(p) for a, b in colliding_pairs(written.described) if (p := both(a, b)) is not None}
    wanted = {p for p in wanted if any(movable(model, int(model.geom_bodyid[g])) for g in p)}
    theirs = mujoco_pairs(model)
    names = [s.name for s in written.geoms]
    assert theirs == wanted, [sorted(names[g] for g in p) for p in theirs ^ wanted][:5]
