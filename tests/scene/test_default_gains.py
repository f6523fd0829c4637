"""Gains of joints for which neither file nor user gives any: what they hold, how they step, which speed they reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.model import Model, PrimitiveJointType
from kit.assets import EXAMPLES, all_assets, asset_id
from kit.choosing import alternating, representatives
from kit.robots.small_robots import SERVO, from_text, pendulum

N_ENVS = 8
URDF_FILES = [
    EXAMPLES / "arm" / "arm.urdf",
    *(f for f in all_assets("urdf/**/*.urdf") if f.stem != "fanuc" and "edge_cases" not in f.parts),
]
"""All but robots without masses (fanuc) and those without joints."""


class Held:
    """A robot with a fixed base, without contacts unless asked for, and what is known of its joints."""

    def __init__(self, file: Path, *, contacts: bool = False, **how: Any) -> None:
        self.scene = km.Scene(contacts=contacts, quiet=True, **how)
        self.robot = self.scene.add(file, fixed=True)
        self.scene.build(N_ENVS)
        self.model: Model = self.scene.built.model
        dofs = self.model.dofs
        is_slide = self.model.frames.joint_type[dofs.frame_idx] == PrimitiveJointType.SLIDE
        self.tolerance, self.speed = np.where(is_slide, 0.001, 0.02), np.where(is_slide, 0.05, 1.0)
        self.lower = np.where(np.isfinite(dofs.lower), dofs.lower, -np.pi)
        self.upper = np.where(np.isfinite(dofs.upper), dofs.upper, np.pi)
        couplings = self.model.couplings
        self.mimics = [
            (int(np.flatnonzero(a)[0]), int(np.flatnonzero(b)[0]), polynomial[0], polynomial[1])
            for a, b, polynomial in zip(couplings.moment_a, couplings.moment_b, couplings.polynomial, strict=True)
        ]
        followers = {follower for follower, *_ in self.mimics}
        span = self.upper - self.lower
        self.movable = [d for d in range(self.model.n_dofs) if d not in followers and span[d] > 1e-6]

    def follow(self, values: np.ndarray, *, speeds: bool = False) -> np.ndarray:
        """The same with mimic joints where their leaders say."""
        for follower, leader, offset, ratio in self.mimics:
            values[:, follower] = (0.0 if speeds else offset) + ratio * values[:, leader]
        return values

    def poses(self, seed: int = 0) -> np.ndarray:
        """The first pose of the file and random ones, within the limits."""
        rng, span = np.random.default_rng(seed), self.upper - self.lower
        q = rng.uniform(self.lower + 0.05 * span, self.upper - 0.05 * span, (N_ENVS, self.model.n_dofs))
        q[0] = np.clip(self.model.qpos0[self.model.dofs.q_idx], self.lower, self.upper)
        return self.follow(q)

    def supportable(self, q: np.ndarray) -> np.ndarray:
        """Whether the effort can support each joint in each pose, and no mimic joint is driven beyond its limits."""
        self.robot.set_qpos(q)
        weight = np.abs(self.robot.get_dofs_bias_force())
        within = np.all((q >= self.lower - 1e-9) & (q <= self.upper + 1e-9), axis=1)
        return (weight <= 0.98 * self.model.dofs.force_upper) & within[:, None]

    def stand(self, q: np.ndarray, seconds: float) -> np.ndarray:
        """Positions after a time of holding."""
        self.robot.set_qpos(q)
        self.robot.set_qvel(0.0)
        self.robot.control_dofs_position(q)
        self.scene.step(round(seconds / self.scene.dt))
        return self.robot.get_dofs_position()


@pytest.mark.wide("file")
@pytest.mark.parametrize("file", URDF_FILES, ids=asset_id)
def test_every_pose_that_the_effort_supports_is_held(file: Path) -> None:
    """All joints of it, by those that can; one that cannot is a load of which nothing is known to the others."""
    it = Held(file)
    q = it.poses()
    whole = it.supportable(q).all(axis=1)
    error = np.abs(it.stand(q, 2.0) - q) / it.tolerance
    assert (error[whole] <= 1.0).all(), (error[whole].max(axis=0), it.model.dofs.names)
    assert whole.any() or file.stem == "pr2"  # its shoulders are weaker than its arms are heavy


@pytest.mark.wide("file")
@pytest.mark.parametrize("file", URDF_FILES, ids=asset_id)
def test_the_first_pose_is_held_with_contacts(file: Path) -> None:
    """Links that are inside each other in the file do not push the robot away."""
    it = Held(file, contacts=True)
    q = np.tile(it.poses()[:1], (N_ENVS, 1))
    error = np.abs(it.stand(q, 1.0) - q)[0] / it.tolerance
    supported = it.supportable(q)[0]
    assert (error <= 1.0)[supported].all(), (error, it.model.dofs.names)
    assert supported.all() or file.stem == "pr2"  # its shoulders are weaker than its arms are heavy


@pytest.mark.wide("file")
@pytest.mark.parametrize("file", URDF_FILES, ids=asset_id)
def test_a_step_overshoots_by_a_twentieth_at_most(file: Path) -> None:
    """Each joint alone, while the others hold."""
    it = Held(file)
    span, n = it.upper - it.lower, it.model.n_dofs
    middle = it.follow(np.tile(0.5 * (it.lower + it.upper) - 0.2 * np.minimum(span, 1.0), (N_ENVS, 1)))
    strong = it.supportable(middle)[0] & (np.abs(it.robot.get_dofs_bias_force()[0]) < 0.8 * it.model.dofs.force_upper)
    size = np.minimum(0.5 * it.speed, 0.5 * span)
    for start in range(0, n, N_ENVS):
        rows = [d for d in range(start, min(start + N_ENVS, n)) if d in it.movable and strong[d]]
        it.stand(middle, 0.6)
        target = middle.copy()
        for env, d in enumerate(rows):
            target[env, d] += size[d]
        it.robot.control_dofs_position(it.follow(target))
        highest = np.full(len(rows), -np.inf)
        for _ in range(150):
            it.scene.step(5)
            highest = np.maximum(highest, [it.robot.get_dofs_position()[env, d] for env, d in enumerate(rows)])
        for env, d in enumerate(rows):
            assert highest[env] - target[env, d] <= 0.05 * size[d], it.model.dofs.names[d]
            left = abs(it.robot.get_dofs_position()[env, d] - target[env, d])
            assert left <= it.tolerance[d], (it.model.dofs.names[d], left)


@pytest.mark.wide("file")
@pytest.mark.parametrize("file", URDF_FILES, ids=asset_id)
def test_a_speed_is_reached_within_two_percent(file: Path) -> None:
    """One joint of each copy, at 1 rad/s or 5 cm/s, against gravity, damping and dry friction."""
    it = Held(file)
    span, n = it.upper - it.lower, it.model.n_dofs
    middle = it.follow(np.tile(0.5 * (it.lower + it.upper) - 0.2 * np.minimum(span, 1.0), (N_ENVS, 1)))
    strong = it.supportable(middle)[0] & (np.abs(it.robot.get_dofs_bias_force()[0]) < 0.8 * it.model.dofs.force_upper)
    for start in range(0, n, N_ENVS):
        rows = [d for d in range(start, min(start + N_ENVS, n)) if d in it.movable and strong[d] and span[d] > 0.03]
        it.robot.set_qpos(middle)
        it.robot.set_qvel(0.0)
        command = np.zeros((N_ENVS, n))
        for env, d in enumerate(rows):
            command[env, d] = it.speed[d]
        it.robot.control_dofs_velocity(it.follow(command, speeds=True))
        it.scene.step(60)
        for env, d in enumerate(rows):
            velocity = it.robot.get_dofs_velocity()[env, d]
            assert velocity == pytest.approx(it.speed[d], rel=0.02), it.model.dofs.names[d]


@pytest.mark.parametrize(
    "how", representatives([{"dt": 0.001}, {"dt": 0.02}, {"precision": "double"}, {"dt": 0.005}], 3), ids=str
)
def test_they_are_stable_at_any_time_step(how: dict[str, Any]) -> None:
    it = Held(EXAMPLES / "arm" / "arm.urdf", **how)
    q = it.poses()
    assert it.supportable(q).all()
    assert (np.abs(it.stand(q, 2.0) - q) <= it.tolerance).all()
    assert np.abs(it.robot.get_dofs_velocity()).max() < 1e-3


def test_the_time_step_may_change_later() -> None:
    """Kv holds dt kp, with which the position term is implicit."""
    it = Held(EXAMPLES / "arm" / "arm.urdf")
    before, kp = it.robot.get_dofs_kv(), it.robot.get_dofs_kp()
    it.scene.dt = 0.01
    np.testing.assert_allclose(it.robot.get_dofs_kv() - before, 0.008 * kp, rtol=1e-4)


CART = """<robot name="cart">
<link name="base"><inertial><origin xyz="0 0 0.05"/><mass value="5"/>
  <inertia ixx=".05" iyy=".05" izz=".08" ixy="0" ixz="0" iyz="0"/></inertial>
  <collision><origin xyz="0 0 .06"/><geometry><box size=".3 .2 .06"/></geometry></collision></link>
{wheels}
<link name="caster"><inertial><mass value=".1"/>
  <inertia ixx=".0001" iyy=".0001" izz=".0001" ixy="0" ixz="0" iyz="0"/></inertial>
  <collision><geometry><sphere radius=".03"/></geometry></collision></link>
<joint name="fork" type="fixed"><parent link="base"/><child link="caster"/><origin xyz="-.12 0 .03"/></joint>
</robot>"""
WHEEL = """<link name="{name}"><inertial><mass value=".3"/>
  <inertia ixx=".0004" iyy=".0006" izz=".0004" ixy="0" ixz="0" iyz="0"/></inertial>
  <collision><origin rpy="1.5707963 0 0"/><geometry><cylinder radius=".06" length=".03"/></geometry></collision></link>
<joint name="{name}" type="continuous"><parent link="base"/><child link="{name}"/><origin xyz="0 {y} .06"/>
  <axis xyz="0 1 0"/><limit effort="{effort}" velocity="20"/><dynamics damping="{damping}" friction="{friction}"/>
</joint>"""


@pytest.mark.parametrize(
    ("joint", "on_floor"), alternating([(10, 0.0, 0.0), (2, 0.01, 0.05), (10, 0.1, 0.1)], [True, False])
)
def test_a_differential_drive_drives(tmp_path: Path, joint: tuple[float, float, float], on_floor: bool) -> None:
    """Its wheels are light, but carry the cart; in the air they turn as fast, and without chatter."""
    effort, damping, friction = joint
    wheels = [
        WHEEL.format(name=name, y=y, effort=effort, damping=damping, friction=friction)
        for name, y in (("left", 0.13), ("right", -0.13))
    ]
    file = tmp_path / "cart.urdf"
    file.write_text(CART.format(wheels="".join(wheels)))
    scene = km.Scene(quiet=True)
    if on_floor:
        scene.add(km.Plane())
    cart = scene.add(file, fixed=False)
    scene.build()
    cart.control_dofs_velocity(5.0, ["left", "right"])
    scene.step(500)
    for _ in range(5):
        scene.step(100)
        np.testing.assert_allclose(cart.get_dofs_velocity(["left", "right"])[0], 5.0, rtol=0.02)
    if on_floor:
        assert cart.get_pos()[0, 0] == pytest.approx(2 * 5.0 * 0.06, rel=0.05)


def test_a_quadruped_stands() -> None:
    """Its joints are where they should be; where the base ends depends on how it lands."""
    file = next((f for f in URDF_FILES if f.stem == "go2"), None)
    if file is None:
        pytest.skip("the URDF of the go2 is not among the assets")
    scene = km.Scene(quiet=True)
    scene.add(km.Plane())
    dog = scene.add(file, fixed=False, pos=(0, 0, 0.36))
    scene.build()
    joints, q = np.arange(6, 18), np.array([0.0, 0.8, -1.5] * 4)
    dog.set_dofs_position(q, joints)
    dog.control_dofs_position(q, joints)
    scene.step(1000)
    assert np.abs(dog.get_dofs_position()[0, joints] - q).max() < 0.02
    assert dog.get_pos()[0, 2] > 0.3


def test_the_fingers_of_the_arm_open() -> None:
    it = Held(EXAMPLES / "arm" / "arm.urdf")
    target = [0.3, -0.5, 0.4, 0.0, 0.2, 0.0, 0.02, 0.02]
    it.robot.control_dofs_position(target)
    it.scene.step(500)
    np.testing.assert_array_less(np.abs(it.robot.get_dofs_position() - target), np.tile(it.tolerance, (N_ENVS, 1)))


def test_they_are_there_from_the_start_and_named_in_the_summary(tmp_path: Path) -> None:
    """Whatever has gains of its own is left alone, and no joint is driven before it is told."""
    scene = km.Scene(quiet=True, contacts=False)
    arm, servo = scene.add(EXAMPLES / "arm" / "arm.urdf", fixed=True), scene.add(from_text(tmp_path, SERVO))
    scene.build()
    assert (arm.get_dofs_kp() > 0.0).all()
    assert (arm.get_dofs_kv() > 0.0).all()
    assert servo.get_dofs_kp("turn") == 20.0
    assert "  gains derived from inertia, load and effort limits: arm (8 dofs)" in scene.summary().splitlines()
    position_kv = arm.get_dofs_kv()
    scene.step(20)
    assert not arm.get_dofs_control_force().any()
    arm.control_dofs_velocity(0.0)
    assert (arm.get_dofs_kv() >= position_kv).all()
    assert (arm.get_dofs_kv() > position_kv).any()
    arm.control_dofs_position(0.0)
    np.testing.assert_array_equal(arm.get_dofs_kv(), position_kv)


def test_one_gain_of_the_user_adapts_the_other() -> None:
    """To critical damping of the point mass; gains of both kinds are kept."""
    scene = km.Scene(precision="double", quiet=True, contacts=False)
    swing = scene.add(pendulum(mass=2.0, length=0.5))
    scene.build()
    kp = float(swing.get_dofs_kp()[0])
    assert kp == pytest.approx(2.0 * 9.81 * 0.5 / 0.01)
    swing.set_dofs_kp(30.0)
    np.testing.assert_allclose(swing.get_dofs_kv(), 2 * np.sqrt(30.0 * 0.5) + 0.002 * 30.0)
    swing.set_dofs_kv(1.5)
    np.testing.assert_array_equal([swing.get_dofs_kp()[0], swing.get_dofs_kv()[0]], [30.0, 1.5])
    other = km.Scene(precision="double", quiet=True, contacts=False)
    twin = other.add(pendulum(mass=2.0, length=0.5))
    twin.set_dofs_kv(1.5)
    other.build()
    np.testing.assert_allclose(twin.get_dofs_kp(), 1.5**2 / (4 * 0.5))


def test_copies_in_position_and_velocity_mode_keep_their_time_constant() -> None:
    """They share kv, which is that of velocity mode; kp is larger by as much."""
    scene = km.Scene(quiet=True, contacts=False)
    arm = scene.add(EXAMPLES / "arm" / "arm.urdf", fixed=True)
    scene.build(2)
    kp, kv = arm.get_dofs_kp(), arm.get_dofs_kv()
    arm.control_dofs_velocity(0.5, ["elbow_joint"], envs_idx=[0])
    np.testing.assert_allclose(arm.get_dofs_kp() / kp, arm.get_dofs_kv() / kv, rtol=1e-4)
    arm.control_dofs_position(0.3, ["elbow_joint"], envs_idx=[1])
    scene.step(400)
    assert arm.get_dofs_velocity(["elbow_joint"])[0, 0] == pytest.approx(0.5, rel=0.02)
    assert arm.get_dofs_position(["elbow_joint"])[1, 0] == pytest.approx(0.3, abs=0.02)
    arm.control_dofs_position(0.0)
    np.testing.assert_allclose(arm.get_dofs_kp(), kp)
    np.testing.assert_allclose(arm.get_dofs_kv(), kv)


def test_effort_limits_of_zero_are_reported(tmp_path: Path) -> None:
    """A placeholder of many files: the joint cannot be held until it has a force range, and the diagnostics say so."""
    file = tmp_path / "swing.urdf"
    wheel = WHEEL.format(name="wheel", y=0.2, effort=0, damping=0, friction=0)
    file.write_text(f'<robot name="swing"><link name="base"/>{wheel}</robot>')
    scene = km.Scene(quiet=True, contacts=False)
    scene.add(file, fixed=True)
    scene.build()
    (found,) = (d for d in scene.diagnostics if d.code == "sim.no-effort")
    assert found.message.endswith(" of swing has an effort limit of 0: commands have no effect")
    assert "urdf" in str(found.origin)


@pytest.mark.parametrize("integrator", ["euler", "rk4"])
def test_integrators_of_other_files(tmp_path: Path, integrator: str) -> None:
    """With Euler's method, which a floor of MJCF may bring along, poses are held too; that RK4 cannot is reported."""
    floor = tmp_path / "floor.xml"
    name = {"euler": "Euler", "rk4": "RK4"}[integrator]
    floor.write_text(f"""<mujoco><option integrator="{name}"/><worldbody><geom type="plane" size="5 5 0.1"/></worldbody>
        </mujoco>""")
    scene = km.Scene(quiet=True, contacts=False)
    scene.add(floor)
    arm = scene.add(EXAMPLES / "arm" / "arm.urdf", fixed=True)
    scene.build()
    pose = np.array([0.3, 0.8, -0.6, 0.2, 0.5, 0.1, 0.02, 0.02])
    arm.set_qpos(pose)
    arm.control_dofs_position(pose)
    scene.step(1000)
    off = np.abs(arm.get_qpos()[0] - pose)
    found = [d.message for d in scene.diagnostics if d.code == "scene.limited-gains"]
    if integrator == "euler":
        assert (off < np.where(np.arange(8) < 6, 0.02, 0.001)).all()
        assert not found
    else:
        assert off.max() > 0.1
        assert len(found) == 1
        assert found[0].startswith("the integrator rk4 limits default gains: gravity may move ")
