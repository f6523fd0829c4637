"""Every URDF robot, with its base fixed and free: inverse dynamics, mass matrix and forward dynamics of Pinocchio."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinema.builder import EntitySpec, build_model
from kinema.core import Array, Diagnostics, quaternion_to_matrix
from kinema.description import JointKind, Robot
from kinema.dynamics import Settings
from kinema.dynamics.pipeline import compute
from kinema.dynamics.step import StepData
from kinema.dynamics.tree.kinematic_tree import FrameNode
from kinema.dynamics.tree.sparse_matrix import ldl_factorize
from kinema.dynamics.tree.trace_context import TraceContext
from kinema.model import Model
from kinema.read.urdf import read_urdf
from kit.assets import EXAMPLES, SHARED_ASSETS, all_assets, asset_id
from kit.robots.configurations import model_coordinates
from kit.urdf_oracles import Refused, without_declaration

from .arrays_for_tests import Found, computed_in_all, input_quantity

pinocchio: Any = pytest.importorskip("pinocchio")

URDFS = [EXAMPLES / "arm" / "arm.urdf", *all_assets("urdf/**/*.urdf")]
N_STATES = 20
TOLERANCE = 1e-9


def test_there_are_robots_to_compare() -> None:
    assert len(URDFS) > (10 if SHARED_ASSETS.exists() else 0)


@cache
def robot_of(file: Path) -> Robot:
    robot = read_urdf(file, diagnostics=Diagnostics())
    assert isinstance(robot, Robot)
    return robot


SINGULAR = {
    ("cartpole.urdf", True),
    ("link_first_ghost_link_floating.urdf", False),
    ("link_first_ghost_link_floating.urdf", True),
    ("multiple_visuals_collisions_in_link.urdf", True),
    ("fanuc.urdf", False),
    ("fanuc.urdf", True),
    ("fixed_joint_reduction.urdf", True),
}
"""Robots, and whether their base is free, some of which moves without mass or inertia."""


def dynamics(model: Model, arrays: dict[str, Array], solve: bool) -> list[dict[str, Array]]:
    """M, bias, and the accelerations under the joint forces `tau` of each state: no springs, no control, no rotors."""
    model = model.with_columns("dofs", armature=np.zeros(model.n_dofs))

    def run(ctx: TraceContext) -> Found:
        step = StepData(ctx)
        compute(step, "mass_matrix", "qfrc_bias")
        if not solve:
            return {"mass": step.mass_matrix, "bias": step.qfrc_bias}
        driving, taken = ctx.new_values("driving"), step.qfrc_bias
        tau = input_quantity(ctx, "tau")

        def body(node: FrameNode) -> None:
            driving.put(node.ref, [a - b for a, b in zip(tau[node.ref], taken[node.ref], strict=True)])

        ctx.for_each_frame("driving", body)
        return {
            "mass": step.mass_matrix,
            "bias": step.qfrc_bias,
            "acc": ldl_factorize(step.mass_matrix).solve("accelerations", driving),
        }

    state = {name: arrays[name] for name in ("qpos", "vel")}
    return computed_in_all(model, Settings(), state, run, given={"tau": arrays["tau"]})


class Judge:
    """Pinocchio's model of a file, and how its coordinates and velocities follow from ours."""

    def __init__(self, file: Path, ours: Model, free: bool) -> None:
        text = without_declaration(file)
        try:
            root = (pinocchio.JointModelFreeFlyer(),) if free else ()
            self.model = pinocchio.buildModelFromXML(text, *root)
        except (ValueError, RuntimeError) as error:
            raise Refused(str(error)) from error
        self.data = self.model.createData()
        self.ours = ours

    def joint(self, number: int) -> Any:
        """Its joint that is this one of ours; the base is the one with another name."""
        name = self.ours.joints.names[number]
        index = self.model.getJointId(name)
        return self.model.joints[index if index < self.model.njoints else 1]

    def state(self, q: Array, v: Array) -> tuple[Array, Array, Array, Array]:
        """Its q and v, the T of v' = T v, and the a' of its own when our a is zero."""
        joints = self.ours.joints
        its_q, turn = pinocchio.neutral(self.model), np.zeros((self.model.nv, self.ours.n_dofs))
        rate = np.zeros(self.model.nv)
        for i, kind in enumerate(joints.kinds):
            own = q[joints.q_start[i] : joints.q_end[i]]
            dofs = slice(joints.dof_start[i], joints.dof_end[i])
            its = self.joint(i)
            place, at = slice(its.idx_q, its.idx_q + its.nq), slice(its.idx_v, its.idx_v + its.nv)
            block = np.eye(its.nv)
            if kind == JointKind.FREE.value:
                its_q[place] = [*own[:3], *own[4:], own[3]]
                block[:3, :3] = quaternion_to_matrix(own[3:]).T
                local = block @ v[dofs]
                rate[at.start : at.start + 3] = -np.cross(local[3:], local[:3])
            elif kind == JointKind.PLANAR.value:
                c, s = np.cos(own[2]), np.sin(own[2])
                its_q[place] = [*own[:2], c, s]
                block[:2, :2] = [[c, s], [-s, c]]
                local = block @ v[dofs]
                rate[at.start : at.start + 2] = [local[2] * local[1], -local[2] * local[0]]
            else:
                its_q[place] = own if its.nq == len(own) else [np.cos(own[0]), np.sin(own[0])]
            turn[at, dofs] = block
        return its_q, turn @ v, turn, rate


def random_states(model: Model, generator: np.random.Generator) -> dict[str, Array]:
    q = model_coordinates(model, generator, N_STATES, reach=2.0)
    v, tau = generator.uniform(-2, 2, (2, model.n_dofs, N_STATES))
    return {"qpos": q, "vel": v, "tau": tau}


def close(ours: Array, theirs: Array, what: str, floor: float = 1e-9) -> None:
    error = np.abs(ours - theirs).max(initial=0.0) / np.abs(theirs).max(initial=floor)
    assert error < TOLERANCE, f"{what} is {error:.1e} off"


@pytest.mark.wide
@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("file", URDFS, ids=asset_id)
def test_dynamics(file: Path, free: bool) -> None:
    """RNEA, CRBA and ABA at random states, to 1e-9."""
    ours = build_model([EntitySpec(name="it", description=robot_of(file), fixed=not free)], diagnostics=Diagnostics())
    try:
        judge = Judge(file, ours, free)
    except Refused as reason:
        pytest.skip(f"Pinocchio refuses it: {reason}")
    if ours.n_dofs == 0:
        pytest.skip("nothing moves")
    assert ours.n_dofs == judge.model.nv
    arrays = random_states(ours, np.random.default_rng(11))
    singular = (file.name, free) in SINGULAR
    for e, found in enumerate(dynamics(ours, arrays, not singular)):
        q, v, tau = (arrays[name][:, e] for name in ("qpos", "vel", "tau"))
        its_q, its_v, turn, rate = judge.state(q, v)
        its_mass = pinocchio.crba(judge.model, judge.data, its_q)
        its_mass = np.triu(its_mass) + np.triu(its_mass, 1).T
        close(found["mass"], turn.T @ its_mass @ turn, "the mass matrix")
        its_bias = pinocchio.rnea(judge.model, judge.data, its_q, its_v, rate)
        close(found["bias"], turn.T @ its_bias, "the bias force", floor=1e-9 + float(np.abs(its_mass).max()))
        moments = np.linalg.eigvalsh(its_mass)
        assert (moments[0] <= 1e-12 * moments[-1]) == singular
        if singular:
            continue
        its_tau = np.linalg.solve(turn.T, tau)
        its_acc = pinocchio.aba(judge.model, judge.data, its_q, its_v, its_tau)
        close(found["acc"], np.linalg.solve(turn, its_acc - rate), "the acceleration")
