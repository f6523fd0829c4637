"""SDFormat's sensors: what they tell, beside closed forms and MuJoCo's rays, and the noise of their blocks."""

from __future__ import annotations

import numpy as np
import pytest

import kinema as km

G, B = 9.81, (5.5e-6, 2.3e-5, -4.2e-5)
NOISE = '<noise type="gaussian"><mean>0.1</mean><stddev>{}</stddev><bias_mean>0.2</bias_mean></noise>'
TEXT = f"""<sdf version="1.9"><world name="w"><gravity>0 0 -{G}</gravity>
<magnetic_field>{B[0]} {B[1]} {B[2]}</magnetic_field>
<model name="room"><static>true</static><link name="walls">
<collision name="wall"><pose>3 0 1 0 0 0</pose><geometry><box><size>1 8 4</size></box></geometry></collision>
<visual name="seen"><pose>2 0 1 0 0 0</pose><geometry><box><size>0.1 1 1</size></box></geometry></visual>
</link></model>
<model name="arm"><pose>0 0 1 0 0 0</pose>
<joint name="fixed" type="fixed"><parent>world</parent><child>base</child></joint>
<link name="base"><inertial><mass>1</mass></inertial>
<sensor name="scan" type="lidar"><pose>0.1 0 0 0 0 0</pose><update_rate>10</update_rate><lidar><scan><horizontal>
<samples>5</samples><min_angle>-0.4</min_angle><max_angle>0.4</max_angle></horizontal><vertical><samples>2</samples>
<min_angle>0</min_angle><max_angle>0.3</max_angle></vertical></scan><range><min>0.2</min><max>2.8</max></range></lidar>
</sensor>
<sensor name="gpu" type="gpu_lidar"><lidar><scan><horizontal><samples>1</samples><min_angle>0</min_angle>
<max_angle>0</max_angle></horizontal></scan><range><min>0.1</min><max>9</max></range></lidar></sensor>
<sensor name="eye" type="camera"><camera><image><width>8</width><height>8</height></image></camera></sensor></link>
<link name="fore"><inertial><pose>0.5 0 0 0 0 0</pose><mass>2</mass></inertial>
<sensor name="imu" type="imu"><pose>0.25 0 0 0 0 0</pose><imu>
<angular_velocity><x>{NOISE.format(0.01)}</x></angular_velocity>
<linear_acceleration><z>{NOISE.format(0.5)}</z></linear_acceleration></imu></sensor>
<sensor name="compass" type="magnetometer"/>
<sensor name="height" type="altimeter"><pose>0.25 0 0 0 0 0</pose></sensor></link>
<joint name="elbow" type="revolute"><parent>base</parent><child>fore</child><axis><xyz>0 1 0</xyz></axis>
<sensor name="wrist" type="force_torque"><force_torque><frame>child</frame>
<measure_direction>parent_to_child</measure_direction></force_torque></sensor>
<sensor name="other" type="force_torque"><force_torque><frame>parent</frame></force_torque></sensor></joint>
</model></world></sdf>"""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> km.Scene:
    file = tmp_path_factory.mktemp("sdf") / "room.sdf"
    file.write_text(TEXT, encoding="utf-8")
    made = km.Scene(dt=0.001, precision="double", contacts=False, quiet=True)
    made.add(file)
    made.build(n_envs=2)
    return made


def swing(scene: km.Scene, angle: float, speed: float) -> None:
    scene.sensors.use_file_error_model(enabled=False)
    scene.built.arrays.write("qpos", slice(None), np.full((2, 1), angle))
    scene.built.arrays.write("vel", slice(None), np.full((2, 1), speed))


def test_an_imu_on_a_pendulum(scene: km.Scene) -> None:
    """A point at r of a pendulum: it turns with w, feels -w^2 r along it, and across it g's share less the fall's."""
    angle, speed, r = 0.4, 1.7, 0.25
    swing(scene, angle, speed)
    imu = scene.sensors["imu"]
    assert list(imu.components) == ["orientation", "angular_velocity", "linear_acceleration"]
    np.testing.assert_allclose(imu.read("orientation")[0], [np.cos(angle / 2), 0, np.sin(angle / 2), 0], atol=1e-12)
    np.testing.assert_allclose(imu.read("angular_velocity")[0], [0, speed, 0], atol=1e-12)
    inertia = 1.0 + 2 * 0.5**2  # SDFormat's own, and that of its mass
    fall = 2 * G * 0.5 * np.cos(angle) / inertia
    expected = [-r * speed**2 - G * np.sin(angle), 0, G * np.cos(angle) - r * fall]
    np.testing.assert_allclose(imu.read("linear_acceleration")[0], expected, rtol=1e-9, atol=1e-9)
    turned = np.array([[np.cos(angle), 0, -np.sin(angle)], [0, 1, 0], [np.sin(angle), 0, np.cos(angle)]])
    np.testing.assert_allclose(scene.sensors["compass"].read()[0], turned @ B, atol=1e-12)
    height = [1.0 - r * np.sin(angle), -r * speed * np.cos(angle)]
    np.testing.assert_allclose(scene.sensors["height"].read()[0], height, atol=1e-12)


def test_force_and_torque_of_a_joint(scene: km.Scene) -> None:
    """What holds a pendulum: its weight, less what accelerates it; seen from the other side it is the opposite."""
    angle, speed = 0.4, 1.7
    swing(scene, angle, speed)
    fall = 2 * G * 0.5 * np.cos(angle) / 1.5
    expected = [-2 * (0.5 * speed**2 + G * np.sin(angle)), 0, 2 * (G * np.cos(angle) - 0.5 * fall)]
    np.testing.assert_allclose(scene.sensors["wrist"].read("force")[0], expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(scene.sensors["wrist"].read("torque")[0], 0.0, atol=1e-9)
    back = np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])
    np.testing.assert_allclose(scene.sensors["other"].read("force")[0], -back @ expected, rtol=1e-9, atol=1e-9)


def test_a_lidar_sees_a_wall(scene: km.Scene) -> None:
    swing(scene, 0.0, 0.0)
    across, up = np.linspace(-0.4, 0.4, 5), np.array([[0.0], [0.3]])
    distance = 2.4 / (np.cos(across) * np.cos(up))
    np.testing.assert_allclose(
        scene.sensors["scan"].read()[1].reshape(2, 5), np.where(distance > 2.8, np.inf, distance), rtol=1e-12
    )
    assert scene.sensors["gpu"].read()[0, 0] == pytest.approx(1.95), "it sees what is there to be seen"


def test_noise_blocks_and_rates(scene: km.Scene) -> None:
    swing(scene, 0.0, 0.0)
    ideal = scene.sensors["imu"].read()
    scene.sensors.use_file_error_model(seed=1)
    off = scene.sensors["imu"].read() - ideal
    assert (np.abs(off[:, [4, 9]] - 0.3) < [0.05, 2.5]).all()
    assert (off[:, [4, 9]] != 0.3).all()
    assert not off[:, [0, 1, 2, 3, 5, 6, 7, 8]].any()
    assert scene.sensors.has_rate_or_delay, "a lidar measures ten times a second"
    scene.sensors.use_file_error_model(enabled=False)


def test_pictures_are_not_taken(scene: km.Scene) -> None:
    note = [d.message for d in scene.diagnostics if d.code == "sim.sensor"]
    assert note == ['sensor "eye" (camera) is not simulated: images are read by scene.add_camera; it returns no values']
    assert scene.sensors["eye"].read().shape == (2, 0)
