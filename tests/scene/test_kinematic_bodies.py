"""Kinematic bodies: beside MuJoCo's mocap bodies, and closed forms where contacts see their velocity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import kinema as km
from kinema.core import KinemaError, quaternions_from_rotation_vectors

TEXT = """<mujoco><option integrator="Euler" cone="elliptic" impratio="2"/><worldbody>
<geom type="plane" size="5 5 .1"/>
<body name="tray" mocap="true" pos="0 0 .5"><geom type="box" size=".3 .3 .02" condim="4"/>
<site name="rim" pos=".3 0 0"/></body>
<body name="box" pos="0 0 .549"><freejoint/><geom name="box" type="box" size=".05 .05 .03" condim="4"/></body>
<body name="hand" mocap="true" pos="1 0 .4"><site name="palm"/></body>
<body name="held" pos="1 0 .3"><freejoint/><geom type="capsule" size=".03 .05"/><site name="hook" pos="0 .1 0"/></body>
<body name="base" mocap="true" pos="-1 0 .3"><geom type="cylinder" size=".1 .02"/>
<body pos="0 0 .05"><joint axis="0 1 0" damping=".1"/><geom type="capsule" size=".03" fromto="0 0 0 .25 0 0"/>
<body pos=".25 0 0"><joint axis="0 0 1"/><geom type="sphere" size=".04"/></body></body></body>
<body pos="-.75 0 .0495"><freejoint/><geom type="sphere" size=".05"/></body></worldbody>
<equality><weld body1="hand" body2="held" solref=".05 1"/></equality>
<tendon><spatial stiffness="30" springlength=".2" damping="1"><site site="rim"/><site site="hook"/></spatial></tendon>
<sensor><framepos objtype="site" objname="rim"/><framequat objtype="body" objname="base"/>
<framelinvel objtype="site" objname="hook" reftype="body" refname="hand"/></sensor></mujoco>"""
BODIES = ("tray", "hand", "base")


def test_placed_bodies_are_mocap_bodies(tmp_path: Path) -> None:
    """Bodies placed before each step carry joints, welds, tendons and sensors as MuJoCo's mocap bodies do."""
    path = tmp_path / "mocap.xml"
    path.write_text(TEXT)
    scene = km.Scene(precision="double", quiet=True, iterations=100, ls_iterations=50, codegen="loops")
    world = scene.add(path)
    scene.build(n_envs=2)
    model = mujoco.MjModel.from_xml_string(TEXT)
    model.opt.tolerance, model.opt.iterations = 1e-15, 200
    data = mujoco.MjData(model)
    start = np.array([model.body(name).pos for name in BODIES])
    for k in range(40):
        offsets = 0.002 * k * np.array([[1.0, 0.5, 0.1], [0.0, 1.0, 0.5], [0.3, 0.0, -0.5]])
        turn = quaternions_from_rotation_vectors(0.01 * k * np.array([[0.0, 0.3, 1.0]]))[0]
        data.mocap_pos[:], data.mocap_quat[:] = start + offsets, turn
        poses = np.concatenate([data.mocap_pos, data.mocap_quat], axis=1)
        scene.built.arrays.write("kinematic_pose", slice(None), poses.reshape(1, -1))
        mujoco.mj_step(model, data)
        scene.step()
    np.testing.assert_allclose(world.get_qvel()[1], data.qvel, atol=2e-6)
    np.testing.assert_allclose(world.get_qpos()[0], data.qpos, atol=1e-7)
    mujoco.mj_forward(model, data)
    np.testing.assert_allclose(scene.sensors.data[0], data.sensordata, atol=1e-4)


TRAY = """<mujoco><option integrator="Euler" cone="elliptic"/><worldbody>
<body name="tray" mocap="true" pos="0 0 .5"><geom name="tray" type="box" size=".4 .4 .02"/></body>
<body pos="0 .1 .5395"><freejoint/><geom type="box" size=".05 .05 .02" condim="4"/></body>
<body pos="-.1 -.1 .5495"><freejoint/><geom size=".03" condim="6" friction="1 .01 .01"/></body></worldbody></mujoco>"""


def test_contacts_see_the_velocity_of_the_body(tmp_path: Path) -> None:
    """A tray that moves and turns horizontally is MuJoCo's mocap body with a surface velocity of the same motion."""
    path = tmp_path / "tray.xml"
    path.write_text(TRAY)
    scene = km.Scene(precision="double", quiet=True, iterations=100, ls_iterations=50)
    world = scene.add(path)
    scene.build()
    model = mujoco.MjModel.from_xml_string(TRAY)
    model.opt.tolerance, model.opt.iterations = 1e-15, 200
    data, dt, n = mujoco.MjData(model), model.opt.timestep, 50
    velocity, spin, start = np.array([0.8, -0.3, 0.0]), 1.5, np.array([0.0, 0.0, 0.5])
    quaternion = [np.cos(0.5 * spin * n * dt), 0.0, 0.0, np.sin(0.5 * spin * n * dt)]
    world.set_target_pose(start + n * dt * velocity, quaternion, duration=n * dt)
    for k in range(n):
        angle = spin * k * dt
        data.mocap_pos[0] = start + k * dt * velocity
        data.mocap_quat[0] = [np.cos(0.5 * angle), 0.0, 0.0, np.sin(0.5 * angle)]
        x, y, _ = velocity
        c, s = np.cos(angle), np.sin(angle)
        model.geom_surfacevel[0] = [c * x + s * y, c * y - s * x, 0.0, 0.0, 0.0, spin]
        model.flg_surfacevel = True
        mujoco.mj_step(model, data)
    scene.step(n)
    np.testing.assert_allclose(world.get_qvel()[0], data.qvel, atol=2e-6)
    np.testing.assert_allclose(world.get_links_pos("tray")[0, 0], start + n * dt * velocity, atol=1e-12)
    assert not np.any(world.get_links_vel("tray")), "the body stops at its target"


DOOR = """<mujoco><worldbody><body name="door" pos="0 2 .5"><joint name="hinge" axis="0 0 1" damping=".2"/>
<geom type="box" size=".3 .02 .4" pos=".3 0 0" mass="2" contype="2" conaffinity="2"/></body>
<body name="rod" mocap="true" pos=".5 1.9 .5"><geom size=".05" contype="2" conaffinity="2"/></body>
</worldbody><keyframe><key name="open" qpos=".5" mpos=".5 2.5 .5" mquat="0 0 0 1"/></keyframe></mujoco>"""


@pytest.fixture(scope="module")
def works(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A tray with a box, and a rod before a door; single precision, two environments, with sleep."""
    path = tmp_path_factory.mktemp("kinematic") / "door.xml"
    path.write_text(DOOR)
    scene = km.Scene(quiet=True, cone="elliptic", impratio=20, dt=0.001, sleep=True)
    tray = scene.add(km.Box((0.6, 0.6, 0.04)), kinematic=True, pos=(0, 0, 0.5), friction=0.4)
    box = scene.add(km.Box((0.2, 0.2, 0.02)), pos=(0, 0, 0.53), friction=0.4)
    door = scene.add(path)
    scene.build(n_envs=2)
    return scene, tray, box, door


def test_a_box_keeps_up_with_a_tray_while_friction_can_accelerate_it(works: Any) -> None:
    """The tray accelerates by a; the box moves with it for a < mu g, else it is accelerated by mu g."""
    scene, tray, box, _ = works
    scene.reset()
    scene.step(100)
    mu_g, times, accelerations = 0.4 * 9.81, np.arange(1, 41) * 0.01, np.array([2.0, 8.0])
    start = tray.get_pos()
    for t in times:
        x = np.stack([0.5 * accelerations * t**2, 0 * accelerations, 0 * accelerations], axis=1)
        tray.set_target_pose(start + x, duration=0.01)
        scene.step(10)
    np.testing.assert_allclose(box.get_vel()[:, 0], [2.0 * 0.395, mu_g * 0.4], rtol=0.04)
    np.testing.assert_allclose(tray.get_pos()[:, 0], 0.5 * accelerations * 0.4**2, rtol=1e-5)


def test_a_turning_tray_turns_what_lies_on_it_and_wakes_it(works: Any) -> None:
    """A box asleep in the middle of the tray has its angular velocity, in the environment where the tray turns."""
    scene, tray, box, _ = works
    scene.reset()
    scene.step(600)
    assert box.get_links_asleep().all()
    half_turn = [np.cos(0.4), 0.0, 0.0, np.sin(0.4)]
    tray.set_target_pose(quat=half_turn, duration=0.4, envs_idx=[1])
    scene.step(200)
    np.testing.assert_allclose(tray.get_ang(), [[0, 0, 0], [0, 0, 2.0]], atol=1e-5)
    np.testing.assert_allclose(box.get_ang()[:, 2], [0.0, 2.0], atol=0.05)
    scene.step(300)
    np.testing.assert_allclose(tray.get_quat()[1], half_turn, atol=1e-6)
    np.testing.assert_allclose(tray.get_ang(), 0.0)


def test_a_rod_opens_a_door(works: Any) -> None:
    """The rod pushes the door with its velocity, in the environment where it moves: to the angle of the geometry."""
    scene, _, _, door = works
    scene.reset()
    door.set_target_pose((0.5, 2.2, 0.5), duration=0.3, link="rod", envs_idx=0)
    scene.step(150)
    assert door.get_dofs_velocity("hinge")[0, 0] == pytest.approx(1.0 / 0.5, rel=0.2)
    scene.step(150)
    angle = door.get_dofs_position("hinge")[:, 0]
    touching = np.arctan2(0.2, 0.5) + np.arcsin(0.07 / np.hypot(0.2, 0.5))
    assert touching - 0.01 < angle[0] < touching + 0.4  # the door may fly ahead of the rod
    assert angle[1] == 0.0


def test_placing_and_resetting(works: Any) -> None:
    scene, tray, _, door = works
    scene.reset()
    tray.set_pos([[0.0, 0.0, 1.0], [0.0, 0.0, 2.0]])
    tray.set_quat((0.0, 1.0, 0.0, 0.0), envs_idx=[1])
    scene.step(2)
    np.testing.assert_allclose(tray.get_pos()[:, 2], [1.0, 2.0])
    np.testing.assert_allclose(tray.get_quat(), [[1, 0, 0, 0], [0, 1, 0, 0]], atol=1e-7)
    assert not np.any(tray.get_vel())
    tray.set_pos((0.0, 0.0, 0.1), relative=True)
    np.testing.assert_allclose(tray.get_pos()[:, 2], 0.6)
    scene.reset([1], keyframe="open")
    np.testing.assert_allclose(door.get_links_pos("rod")[:, 0], [[0.5, 1.9, 0.5], [0.5, 2.5, 0.5]])
    np.testing.assert_allclose(np.abs(door.get_links_quat("rod")[1, 0]), [0, 0, 0, 1])
    tray.set_pos((0.0, 0.0, 0.1), relative=True)
    state = scene.get_state()
    scene.reset([0])
    np.testing.assert_allclose(tray.get_pos()[:, 2], [0.5, 0.6])
    scene.set_state(state)
    np.testing.assert_allclose(tray.get_pos()[:, 2], 0.6)
    assert door.n_dofs == 1
    assert tray.n_dofs == tray.n_qs == 0


def test_what_is_not_kinematic(works: Any) -> None:
    _, tray, box, door = works
    with pytest.raises(KinemaError, match=r'link "box" of "box_1" is not kinematic'):
        box.set_target_pose((0.0, 0.0, 1.0))
    with pytest.raises(KinemaError, match='link "door"'):
        door.set_target_pose((0.0, 0.0, 1.0), link="door")
    with pytest.raises(KinemaError, match="a position, an orientation or both"):
        tray.set_target_pose()
    with pytest.raises(KinemaError, match="length 0"):
        tray.set_target_pose(quat=(0.0, 0.0, 0.0, 0.0))
    with pytest.raises(KinemaError, match="finite"):
        tray.set_target_pose((np.nan, 0.0, 0.0))
    with pytest.raises(KinemaError, match="fixed or kinematic, not both"):
        km.Scene().add(km.Box((1, 1, 1)), fixed=True, kinematic=True)


def test_a_kinematic_link_of_a_moving_one_moves_with_it(tmp_path: Path) -> None:
    path = tmp_path / "door.xml"
    path.write_text(DOOR)
    world = km.read(path)
    assert isinstance(world, km.World)
    rod = next(link for link in world.links if link.name == "rod")
    robot = next(x for x in world.robots if x.links[0].name == "door")
    rod.pose = None
    robot.links.append(rod)
    robot.joints.append(
        km.description.Joint(name="mount", kind=km.description.JointKind.FIXED, parent="door", child="rod")
    )
    scene = km.Scene(quiet=True)
    scene.add(robot)
    scene.build()
    (note,) = [d.message for d in scene.diagnostics if d.code == "sim.kinematic"]
    assert 'moves with "door"' in note


def test_a_scene_of_kinematic_bodies_only(tmp_path: Path) -> None:
    """They move, are recorded and reset, although nothing in the scene has degrees of freedom."""
    scene = km.Scene(quiet=True)
    box = scene.add(km.Box((0.1, 0.1, 0.1)), kinematic=True)
    scene.build(n_envs=2)
    box.set_target_pose((1.0, 0.0, 0.0), duration=0.02, envs_idx=0)
    scene.step(5)
    np.testing.assert_allclose(box.get_pos()[:, 0], [0.5, 0.0], atol=1e-6)
    scene.step(10)
    np.testing.assert_allclose(box.get_pos()[:, 0], [1.0, 0.0])
    with scene.record(tmp_path / "motion.npz"):
        box.set_target_pose((1.0, 2.0, 0.0), duration=0.02)
        scene.step(5)
    scene.reset()
    assert not np.any(box.get_pos())
    scene.replay(tmp_path / "motion.npz").set_frame(-1)
    np.testing.assert_allclose(box.get_pos(), [[1.0, 1.0, 0.0], [0.5, 1.0, 0.0]], atol=1e-6)


USD = """#usda 1.0
(defaultPrim = "World"
metersPerUnit = 0.01
kilogramsPerUnit = 1
upAxis = "Y"
startTimeCode = 10
timeCodesPerSecond = 100)
def Xform "World" {
def Cube "plate" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "PhysxSurfaceVelocityAPI"]) {
bool physics:kinematicEnabled = true
vector3f physxSurfaceVelocity:surfaceVelocity = (30, 0, 0)
vector3f physxSurfaceVelocity:surfaceAngularVelocity = (0, 90, 0)
double size = 20
double3 xformOp:translate.timeSamples = { 10: (0, 10, 0), 20: (20, 10, 0), 30: (20, 30, 0) }
float xformOp:rotateY.timeSamples = { 10: 0, 20: 0, 30: 90 }
uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:rotateY"]
}
}
"""


def test_time_samples_and_surface_velocities_of_usd(tmp_path: Path) -> None:
    """A kinematic body passes the poses of its time samples (cm, y up), until it is moved; belts move things."""
    path = tmp_path / "plate.usda"
    path.write_text(USD)
    scene = km.Scene(quiet=True, dt=0.01)
    plate = scene.add(path, pos=(0, 0, 1))
    box = scene.add(km.Box((0.05, 0.05, 0.05)), pos=(0.0, 0.0, 1.224))
    scene.build(n_envs=2)
    assert not [d for d in scene.diagnostics if d.code == "usd.time-samples"]
    np.testing.assert_allclose(plate.get_pos()[0], [0, 0, 1.1], atol=1e-6)
    velocity = scene.built.arrays.read("surface_velocity", slice(0, 6))[0]
    np.testing.assert_allclose(velocity, [0.3, 0, 0, 0, np.pi / 2, 0], atol=1e-6)  # axes of the link, y up
    scene.step(5)
    np.testing.assert_allclose(plate.get_pos()[1], [0.1, 0, 1.1], atol=1e-6)
    np.testing.assert_allclose(plate.get_vel()[0], [2.0, 0, 0], atol=1e-5)
    scene.step(10)
    np.testing.assert_allclose(plate.get_pos()[0], [0.2, 0, 1.2], atol=1e-6)
    assert plate.get_ang()[0] == pytest.approx([0, 0, np.pi / 2 / 0.1], abs=1e-4)
    scene.reset()
    scene.step(30)
    np.testing.assert_allclose(plate.get_pos()[0], [0.2, 0, 1.3], atol=1e-6)
    scene.reset()
    plate.set_pos((0.0, 0.0, 2.0))
    scene.step(10)
    np.testing.assert_allclose(plate.get_pos()[0], [0, 0, 2.0])
    assert box.n_dofs == 6
    km.write(km.read(path), tmp_path / "again.usda")
    again, before = km.read(tmp_path / "again.usda").links[0], km.read(path).links[0]
    np.testing.assert_allclose(again.attributes["kinema:motion"], before.attributes["kinema:motion"], atol=1e-9)
    key = "mjcf:surfacevel"
    np.testing.assert_allclose(again.shapes[0].attributes[key], before.shapes[0].attributes[key])


CAROUSEL = """<mujoco><worldbody><body name="base" mocap="true"><geom size=".1" contype="0" conaffinity="0"/>
<body pos=".2 0 .1"><joint name="x" type="slide" axis="1 0 0"/><geom size=".02" contype="0" conaffinity="0"/></body>
</body></worldbody></mujoco>"""


def test_joints_on_a_turning_body_feel_its_rotation(tmp_path: Path) -> None:
    """A slider on a carousel is driven outwards by the centrifugal force: x = x0 cosh(omega t)."""
    path = tmp_path / "carousel.xml"
    path.write_text(CAROUSEL)
    scene = km.Scene(quiet=True, dt=0.001, precision="double", integrator="rk4", codegen="unrolled")
    carousel = scene.add(path)
    scene.build(per_env=("mass_shift", "com_shift"))
    carousel.set_target_pose(quat=[np.cos(0.5), 0.0, 0.0, np.sin(0.5)], duration=0.5)  # 1 rad in half a second
    scene.step(500)
    assert carousel.get_dofs_position("x")[0, 0] == pytest.approx(0.2 * np.cosh(1.0) - 0.2, abs=1e-8)
    assert carousel.get_dofs_velocity("x")[0, 0] == pytest.approx(0.2 * 2.0 * np.sinh(1.0), abs=1e-6)
