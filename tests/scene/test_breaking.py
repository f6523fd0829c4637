"""Joints that break: where their load says so, in that environment alone, until it is reset."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinema as km
from kinema.core import Pose
from kinema.description import Base, Joint, JointKind, Robot, rotation, translation
from kit.robots.each_joint import simple_body

WEIGHT = 9.81


def hung(kind: JointKind, **settings: object) -> Robot:
    """A kilogram that hangs half a metre below the world's origin."""
    link = simple_body(1.0, (0.01, 0.01, 0.01))
    own: dict[str, object] = {"parent": None, "child": link.name, "child_pose": Pose.translation((0.0, 0.0, 0.5))}
    joint = Joint(name="hook", kind=kind, **{**own, **settings})  # type: ignore[arg-type]
    return Robot(name="hung", links=[link], joints=[joint], base=Base.FREE)


def built(robot: Robot, n_envs: int = 3, **settings: object) -> tuple[km.Scene, km.Entity]:
    scene = km.Scene(contacts=False, quiet=True, precision="double", **settings)  # type: ignore[arg-type]
    entity = scene.add(robot)
    scene.build(n_envs, external_forces=True)
    return scene, entity


@pytest.mark.parametrize("codegen", ["unrolled", "loops"])
def test_a_joint_lets_go_where_it_bears_too_much(codegen: str) -> None:
    """Pulled by 0, 8 and 12 N beside its weight, a joint that bears 20 N breaks in the last environment alone."""
    scene, entity = built(hung(JointKind.FIXED, break_force=20.0), codegen=codegen)
    assert scene.link_equality_names == ["hook"]
    pull = np.zeros((3, 1, 3))
    pull[:, 0, 2] = (0.0, -8.0, -12.0)
    entity.apply_links_external_force(pull)
    scene.step(200)
    np.testing.assert_array_equal(scene.link_equalities.broken.numpy(), [[0, 0, 1]])
    z = entity.get_pos()[:, 2]
    assert z[:2] == pytest.approx(-0.5, abs=1e-4)
    fallen = 0.5 * (WEIGHT + 12.0) * 0.4**2
    assert z[2] == pytest.approx(-0.5 - fallen, rel=0.02)
    scene.reset([2])
    entity.apply_links_external_force(np.zeros((3, 1, 3)))
    scene.step(50)
    assert scene.link_equalities.broken.numpy().max() == 0.0
    assert entity.get_pos()[:, 2] == pytest.approx(-0.5, abs=1e-4)


TORQUE = WEIGHT * 0.3
"""Of a kilogram at the end of an arm of 0.3 m."""
CASES: dict[str, tuple[dict[str, object], bool]] = {
    "too weak": ({"kind": JointKind.FIXED, "break_torque": 0.9 * TORQUE}, True),
    "strong enough": ({"kind": JointKind.FIXED, "break_torque": 1.1 * TORQUE, "break_force": 1.1 * WEIGHT}, False),
    "about its axis it bears nothing": (
        {"kind": JointKind.REVOLUTE, "axes": [rotation((0, 1, 0))], "break_torque": 0.1 * TORQUE},
        False,
    ),
    "a rope": ({"kind": JointKind.DISTANCE, "distance": (0.0, 0.3), "break_force": 0.5 * WEIGHT}, True),
    "a rod": ({"kind": JointKind.DISTANCE, "distance": (0.3, 0.3), "break_force": 100.0}, False),
    "as strong as numbers go": ({"kind": JointKind.FIXED, "break_force": 3.4e38}, False),
}


@pytest.mark.parametrize("case", CASES)
def test_what_breaks(case: str) -> None:
    settings, breaks = CASES[case]
    settings = {"child_pose": Pose.translation((-0.3, 0.0, 0.0)), **settings}
    if settings["kind"] is JointKind.DISTANCE:
        settings["child_pose"] = Pose.translation((0.0, 0.0, 0.3))
    robot = hung(**settings)  # type: ignore[arg-type]
    if settings["kind"] is JointKind.DISTANCE:
        robot.links[0].pose = Pose.translation((0.0, 0.0, -0.6))
    scene, _ = built(robot, 1, codegen="loops")
    scene.step(100)
    if case == "as strong as numbers go":
        assert scene.link_equality_names == []
    else:
        assert bool(scene.link_equalities.broken.numpy()[0, 0]) is breaks


def test_what_acts_along_a_broken_joint_is_gone() -> None:
    """A slide with a spring and a stop: once it breaks, the body falls as if neither had been there."""
    slide = translation((0, 0, -1), stiffness=50.0, damping=5.0, upper=0.1)
    scene, entity = built(hung(JointKind.PRISMATIC, axes=[slide], break_force=5.0), 2)
    assert any(d.code == "sim.breaking" for d in scene.diagnostics)
    scene.step(50)
    pull = np.zeros((2, 1, 3))
    pull[1, 0, 0] = 30.0
    entity.apply_links_external_force(pull)
    scene.step(10)
    np.testing.assert_array_equal(scene.link_equalities.broken.numpy(), [[0, 1]])
    before = entity.get_vel()[1, 2]
    scene.step(100)
    assert entity.get_vel()[1, 2] - before == pytest.approx(-WEIGHT * 0.2, rel=1e-6)
    assert entity.get_pos()[0, 2] > -0.7


def test_usd_says_when_joints_break(tmp_path: Path) -> None:
    """The same from a stage, in its units."""
    text = """#usda 1.0
(
    metersPerUnit = 0.01
    upAxis = "Z"
    defaultPrim = "w"
)
def Xform "w"
{
    def PhysicsScene "s"
    {
    }
    def Cube "a" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"])
    {
        float physics:mass = 1
        double size = 10
    }
    def PhysicsFixedJoint "hook"
    {
        rel physics:body1 = </w/a>
        float physics:breakForce = 900
    }
}
"""
    file = tmp_path / "hung.usda"
    file.write_text(text, encoding="utf-8")
    scene = km.Scene(contacts=False, quiet=True, codegen="loops")
    scene.add(file)
    scene.build(1)
    scene.step(20)
    assert scene.built.model.equalities.break_force.tolist() == [pytest.approx(9.0)]
    assert scene.link_equalities.broken.numpy()[0, 0] == 1.0
