"""The mass matrix that follows from our frames and inertias, against Pinocchio and MuJoCo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinema.core import Array, Diagnostics, collect
from kinema.description import JointKind, Robot
from kinema.read import read
from kinema.read.urdf import read_urdf
from kit.assets import EXAMPLES, SHARED_ASSETS, all_assets, asset_id
from kit.mass_matrix import mass_matrix
from kit.mujoco_models import full_mass_matrix
from kit.oracles import OracleMissing, drake
from kit.robots.configurations import random_coordinates
from kit.urdf_oracles import Pinocchio, Refused, without_declaration

TOLERANCE = 1e-8
"""Relative to the largest entry."""

URDFS = [EXAMPLES / "arm" / "arm.urdf", *all_assets("urdf/**/*.urdf")]
MJCFS = [EXAMPLES / "quadruped" / "quadruped.xml", *all_assets("mjcf/**/*.xml")]
FRAGMENTS = {"talos.xml"}
"""Files that are only meant to be included."""


def compare(ours: Array, theirs: Array) -> None:
    scale = float(np.abs(theirs).max(initial=1e-12))
    np.testing.assert_allclose(ours / scale, theirs / scale, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("file", URDFS, ids=asset_id)
def test_urdf_against_pinocchio(file: Path) -> None:
    pinocchio: Any = pytest.importorskip("pinocchio")
    robot = read_urdf(file, diagnostics=Diagnostics())
    assert isinstance(robot, Robot)
    try:
        judge = Pinocchio.load(without_declaration(file))
    except Refused as reason:
        pytest.skip(f"Pinocchio refuses it: {reason}")
    moving = [j.name for j in robot.joints if j.n_dofs and j.kind is not JointKind.FREE]
    coordinates = random_coordinates(robot, np.random.default_rng(3), follow=False)
    q = judge.configuration(robot, coordinates)
    data = judge.model.createData()
    theirs = pinocchio.crba(judge.model, data, q)
    theirs = np.triu(theirs) + np.triu(theirs, 1).T
    order = [judge.model.joints[judge.model.getJointId(name)].idx_v for name in moving]
    compare(mass_matrix(robot, moving, coordinates), theirs[np.ix_(order, order)])


@pytest.mark.wide
@pytest.mark.parametrize("file", [f for f in MJCFS if f.name not in FRAGMENTS], ids=asset_id)
def test_mjcf_against_mujoco(file: Path) -> None:
    mujoco: Any = pytest.importorskip("mujoco")
    described = read(file, policy=collect)
    model = mujoco.MjModel.from_xml_path(str(file))
    data = mujoco.MjData(model)
    random = np.random.default_rng(5)
    joints = [j for j in described.joints if not j.implicit]
    assert len(joints) == model.njnt
    coordinates: dict[str, Array] = {}
    for joint, address in zip(sorted_as_mujoco(joints, model), model.jnt_qposadr, strict=True):
        q = random.uniform(-1, 1, joint.n_qs)
        if joint.kind in (JointKind.FREE, JointKind.SPHERICAL):
            q[-4:] /= np.linalg.norm(q[-4:])
        coordinates[joint.name] = q
        data.qpos[address : address + joint.n_qs] = q
    mujoco.mj_forward(model, data)
    compare(mass_matrix(described, list(coordinates), coordinates), full_mass_matrix(model, data))


def sorted_as_mujoco(joints: list[Any], model: Any) -> list[Any]:
    """Our joints in MuJoCo's order: by name, and unnamed ones in the order they come."""
    by_name = {j.name: j for j in joints if not j.name_is_generated}
    unnamed = iter([j for j in joints if j.name_is_generated])
    return [by_name[model.joint(i).name] if model.joint(i).name else next(unnamed) for i in range(model.njnt)]


def test_there_are_robots_to_compare() -> None:
    """Without the shared robots only the examples are compared; with them, many."""
    assert len(URDFS) > (10 if SHARED_ASSETS.exists() else 0)


SIMPLE = {JointKind.REVOLUTE, JointKind.CONTINUOUS, JointKind.PRISMATIC}
DRAKE_SDFS = ("sdf/double_pendulum/*.sdf", "sdf/gz_cart_soft_suspension/*/*.sdf", "sdf/gz_pioneer3at/*/*.sdf")


@pytest.mark.parametrize("file", all_assets(*DRAKE_SDFS), ids=asset_id)
def test_sdf_against_drake(file: Path) -> None:
    """The block of the moving joints: what a base that floats adds to the matrix stands beside it."""
    robot = read(file, policy=collect)
    moving = [j.name for j in robot.joints if j.kind in SIMPLE]
    random = np.random.default_rng(7)
    coordinates = {name: random.uniform(-1, 1, 1) for name in moving}
    try:
        theirs = drake(file, [{name: q.tolist() for name, q in coordinates.items()}], [file.parents[1]])
    except OracleMissing as reason:
        pytest.skip(str(reason))
    assert "error" not in theirs, theirs
    order = [next(i for i, v in enumerate(theirs["velocities"]) if _is_of(v, name)) for name in moving]
    matrix = theirs["configurations"][0]["mass_matrix"]
    compare(mass_matrix(robot, moving, coordinates), matrix[np.ix_(order, order)])


def _is_of(velocity: Any, joint: str) -> bool:
    """Whether one of Drake's velocities is that of a joint, which it calls by its scoped name."""
    return str(velocity).split("::")[-1] == joint
