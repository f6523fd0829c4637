"""Surfaces that move in contacts (conveyor belts, turntables, tracks): beside MuJoCo C, and by closed forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import kinema as km
from kinema.core import KinemaError, Pose

TEXT = """<mujoco><option integrator="Euler" cone="elliptic" impratio="3"/>
<asset><mesh name="slab" vertex="0 0 0 2 0 0 2 1 0 0 1 0 0 0 -.2 2 0 -.2 2 1 -.2 0 1 -.3"/></asset><worldbody>
<geom name="belt" type="box" size="1 .5 .1" pos="0 0 -.1" euler="0 0 30" surfacevel=".5 0 0 0 0 .4" condim="4"/>
<geom name="slab" type="mesh" mesh="slab" pos="5 0 0" euler="0 0 20" surfacevel="0 .3 .2 0 .1 -.5" friction=".4"/>
<body name="box" pos=".2 0 .049"><freejoint/><geom type="box" size=".05 .05 .05"/></body>
<body name="ball" pos="-.2 .1 .049"><freejoint/>
<geom name="ball" size=".05" condim="6" friction=".3 .01 .01" surfacevel="0 0 0 3 0 2"/></body>
<body name="brick" pos="5.6 .5 .029"><freejoint/><geom type="box" size=".1 .05 .03" friction=".4"/></body>
<body name="tank" pos="-.4 -.2 .05"><freejoint/>
<geom name="track" type="capsule" size=".03 .1" pos="0 0 -.021" euler="0 90 0" surfacevel="0 0 .3 0 0 0"/></body>
</worldbody></mujoco>"""
CHANGED = {"belt": [-0.3, 0.1, 0.0, 0.0, 0.0, 0.0], "track": np.zeros(6)}
"""Surface velocities of the second environment after 20 steps."""


def test_surfaces_move_as_in_mujoco(tmp_path: Path) -> None:
    """Boxes, a rolling ball with a surface of its own, a mesh, a moving track; then others per environment."""
    path = tmp_path / "belts.xml"
    path.write_text(TEXT)
    scene = km.Scene(precision="double", quiet=True, iterations=100, ls_iterations=50)
    entity = scene.add(path)
    scene.build(n_envs=2)
    model = mujoco.MjModel.from_xml_string(TEXT)
    model.opt.tolerance, model.opt.iterations = 1e-15, 200
    data = [mujoco.MjData(model) for _ in range(2)]
    built = scene.built
    for env in range(2):
        mujoco.mj_step(model, data[env], nstep=20)
    scene.step(20)
    for geom, velocity in CHANGED.items():
        scene.set_surface_velocity(entity, velocity[:3], velocity[3:], geom=geom, envs_idx=1)
    mujoco.mj_step(model, data[0], nstep=20)
    for geom, velocity in CHANGED.items():
        model.geom_surfacevel[model.geom(geom).id] = velocity
    mujoco.mj_step(model, data[1], nstep=20)
    scene.step(20)
    assert scene.built is built, "a surface velocity of the file needs no other program"
    for env in range(2):
        np.testing.assert_allclose(entity.get_qvel()[env], data[env].qvel, atol=2e-6)
        np.testing.assert_allclose(entity.get_qpos()[env], data[env].qpos, atol=1e-7)
    assert np.abs(data[0].qvel - data[1].qvel).max() > 0.1


@pytest.fixture(scope="module")
def works() -> Any:
    """A belt, a turntable and boxes on both, with friction 0.5, single precision, with sleep."""
    scene = km.Scene(quiet=True, cone="elliptic", impratio=100, dt=0.001, sleep=True)
    belt = scene.add(km.Box((4, 1, 0.1)), fixed=True, pos=(0, 0, -0.05), euler=(0, 0, np.pi / 2), friction=0.5)
    table = scene.add(km.Cylinder(0.8, 0.1), fixed=True, pos=(3, 0, -0.05), friction=0.5)
    box = scene.add(km.Box((0.2, 0.2, 0.02)), pos=(0, -1, 0.01), friction=0.5)
    rider = scene.add(km.Box((0.06, 0.06, 0.02)), pos=(3.3, 0, 0.01), friction=0.5)
    scene.set_surface_velocity(belt, (1.0, 0.0, 0.0))
    scene.build(n_envs=2)
    return scene, belt, table, box, rider


def settle(scene: km.Scene, belt: Any) -> None:
    """The initial state at rest on the belt, which stands still."""
    scene.reset()
    scene.set_surface_velocity(belt)
    scene.step(200)


def test_a_box_reaches_the_speed_of_the_belt(works: Any) -> None:
    """Friction accelerates by mu g until the box has the speed of the belt; axes are those of the link, here turned."""
    scene, belt, _, box, _ = works
    settle(scene, belt)
    scene.set_surface_velocity(belt, (1.0, 0.0, 0.0))
    scene.step(100)
    np.testing.assert_allclose(box.get_vel(), [[0.0, 0.5 * 9.81 * 0.1, 0.0]] * 2, atol=0.01)
    scene.step(300)
    np.testing.assert_allclose(box.get_vel(), [[0.0, 1.0, 0.0]] * 2, atol=2e-3)
    y = -1.0 + 1.0 * 0.4 - 1.0**2 / (2 * 0.5 * 9.81)
    np.testing.assert_allclose(box.get_pos()[:, 1], y, atol=3e-3)
    scene.set_surface_velocity(belt, 0.0, envs_idx=[1])
    scene.step(300)
    np.testing.assert_allclose(box.get_vel()[:, 1], [1.0, 0.0], atol=2e-3)
    scene.set_surface_velocity(belt, [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])


def test_a_box_stays_on_a_turntable_while_friction_holds_it(works: Any) -> None:
    """At radius r it turns with the table while omega^2 r < mu g, else it slides off."""
    scene, belt, table, _, rider = works
    settle(scene, belt)
    radius, slow, fast = 0.3, 1.0, 6.0  # omega^2 r: 0.3 and 10.8 m/s2, mu g: 4.9 m/s2
    scene.set_surface_velocity(table, angular=[[0.0, 0.0, slow], [0.0, 0.0, fast]], link=0)
    rider.set_dofs_velocity([[0, radius * slow, 0, 0, 0, slow], [0, radius * fast, 0, 0, 0, fast]])
    scene.step(500)
    offset = rider.get_pos()[:, :2] - [3.0, 0.0]
    assert np.linalg.norm(offset[1]) > 0.6
    angle = slow * 0.5
    np.testing.assert_allclose(offset[0], [radius * np.cos(angle), radius * np.sin(angle)], atol=4e-3)
    scene.set_surface_velocity(table)


def test_a_belt_that_starts_wakes_the_box_on_it(works: Any) -> None:
    scene, belt, _, box, _ = works
    settle(scene, belt)
    scene.step(200)
    assert box.get_links_asleep().all()
    scene.set_surface_velocity(belt, (0.5, 0.0, 0.0), envs_idx=0)
    scene.step(200)
    np.testing.assert_allclose(box.get_vel()[:, 1], [0.5, 0.0], atol=2e-3)


def test_what_cannot_be_set(works: Any) -> None:
    scene, belt, *_ = works
    with pytest.raises(KinemaError, match="a link or a geom, not both"):
        scene.set_surface_velocity(belt, link=0, geom=0)
    with pytest.raises(KinemaError, match="geoms"):
        scene.set_surface_velocity(belt, geom="lid")
    with pytest.raises(KinemaError, match="finite"):
        scene.set_surface_velocity(belt, (np.nan, 0.0, 0.0))
    with pytest.raises(KinemaError, match="of this scene"):
        scene.set_surface_velocity("belt")  # ty: ignore[invalid-argument-type]
    scene = km.Scene()
    with pytest.raises(KinemaError, match=r"after scene\.build"):
        scene.set_surface_velocity(scene.add(km.Plane()), envs_idx=0)


def test_the_first_call_after_build_adds_the_array() -> None:
    """The step is compiled once more, which is reported, and the state is kept."""
    scene = km.Scene(quiet=True)
    floor, box = scene.add(km.Plane()), scene.add(km.Box((0.1, 0.1, 0.1)), pos=(0, 0, 0.05))
    scene.build(n_envs=2)
    assert not scene.built.arrays.has("surface_velocity")
    box.set_pos((1.0, 0.0, 0.05))
    scene.set_surface_velocity(floor, (0.0, 0.2, 0.0))
    assert "scene.recompiled" in {d.code for d in scene.diagnostics}
    scene.step(100)
    np.testing.assert_allclose(box.get_vel()[:, 1], 0.2, atol=5e-3)
    np.testing.assert_allclose(box.get_pos()[:, 0], 1.0, atol=1e-3)


def test_a_surface_velocity_survives_conversions(tmp_path: Path) -> None:
    """MJCF and USD keep it, for a mesh at the origin and along the axes of the file's mesh."""
    path = tmp_path / "belts.xml"
    path.write_text(TEXT)
    robot = km.read(path)
    km.write(robot, tmp_path / "belts.usda")
    km.write(km.read(tmp_path / "belts.usda"), tmp_path / "again.xml")
    models = [mujoco.MjModel.from_xml_path(str(tmp_path / name)) for name in ("belts.xml", "again.xml")]
    for geom in ("belt", "slab", "ball", "track"):
        a, b = (m.geom_surfacevel[m.geom(geom).id].reshape(2, 3) for m in models)
        rotations = [Pose.from_quaternion(np.zeros(3), m.geom_quat[m.geom(geom).id]).rotation for m in models]
        np.testing.assert_allclose(rotations[0] @ a.T, rotations[1] @ b.T, atol=1e-6)


VEHICLE = """<sdf version="1.9"><model name="tank">
<link name="hull"><pose>0 0 .16 0 0 0</pose><inertial><mass>10</mass><inertia><ixx>.5</ixx><iyy>.5</iyy><izz>.5</izz>
</inertia></inertial></link>{tracks}</model></sdf>"""
TRACK = """<link name="{name}"><pose>0 {y} .1 0 0 {yaw}</pose>
<inertial><mass>2</mass><inertia><ixx>.1</ixx><iyy>.1</iyy><izz>.1</izz></inertia></inertial>
<collision name="c"><geometry><box><size>{size} .1</size></box></geometry></collision></link>
<joint name="{name}_joint" type="fixed"><parent>hull</parent><child>{name}</child></joint>
<plugin name="gz::sim::systems::TrackController" filename="gz-sim-track-controller-system"><link>{name}</link>
<track_orientation>0 0 {turn}</track_orientation></plugin>"""


def test_tracks_drive_a_vehicle(tmp_path: Path) -> None:
    """Forwards at the speed of the tracks, on the spot with opposite ones, and nowhere without; one track is turned."""
    file = tmp_path / "tank.sdf"
    left = TRACK.format(name="left", y=0.3, yaw=0, size=".8 .1", turn=0)
    right = TRACK.format(name="right", y=-0.3, yaw=np.pi / 2, size=".1 .8", turn=-np.pi / 2)
    file.write_text(VEHICLE.format(tracks=left + right))
    description = km.read(file)
    assert [d.code for d in description.diagnostics].count("sdf.track") == 2
    scene = km.Scene(quiet=True, codegen="loops")
    scene.add(km.Plane())
    tank = scene.add(description, pos=(0, 0, -0.05))
    scene.build(3)
    scene.set_track_velocity(tank, [[0.5, 0.5], [-0.5, 0.5], [0.0, 0.0]])
    scene.step(500)
    np.testing.assert_allclose(tank.get_vel()[:, :2], [[0.5, 0], [0, 0], [0, 0]], atol=0.02)
    assert tank.get_ang()[1, 2] > 0.3
    assert np.abs(tank.get_ang()[[0, 2]]).max() < 0.01
    scene.set_track_velocity(tank, -0.2, ["left", "right"], envs_idx=[2])
    scene.set_track_velocity(tank, 0.0, "l.*", envs_idx=[0])
    scene.step(200)
    np.testing.assert_allclose(tank.get_vel()[2], [-0.2, 0, 0], atol=0.01)
    assert tank.get_ang()[0, 2] > 0.1
    assert not [d for d in scene.diagnostics if d.code == "scene.recompiled"]
    with pytest.raises(km.KinemaError, match="there is no 'middle'; the tracks are: left, right"):
        scene.set_track_velocity(tank, 1.0, "middle")
    with pytest.raises(km.KinemaError, match='"plane" has no tracks'):
        scene.set_track_velocity(scene.entities[0], 1.0)
    km.write(description, tmp_path / "again.sdf")
    assert [d.code for d in km.read(tmp_path / "again.sdf").diagnostics].count("sdf.track") == 2
