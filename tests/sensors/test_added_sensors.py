"""Sensors that are added to a scene: equal readings to those of files, before and after build, noise, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kit.assets import EXAMPLES

ARM = """<mujoco><option magnetic="0.3 -0.2 0.5"/><worldbody><geom name="floor" type="plane" size="5 5 0.1"/>
<body name="arm" pos="0 0 1"><joint name="hinge" axis="0 1 0"/><joint name="slide" type="slide" axis="1 0 0"/>
<geom name="rod" type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/>
<site name="tip" pos="0.2 0.01 0.03" quat="0.9 0.1 0.2 0.3"/></body>
<body name="foot" pos="1 0.2 0.049"><freejoint/><geom name="sole" type="box" size="0.1 0.1 0.05"/>
<site name="pad" type="sphere" size="0.2"/></body></worldbody>
<actuator><motor name="drive" joint="hinge" gear="2"/></actuator>
<sensor><framequat name="orientation" objtype="site" objname="tip"/><gyro name="gyro" site="tip"/>
<accelerometer name="acc" site="tip"/><force name="force" site="tip"/><torque name="torque" site="tip"/>
<framepos name="pos" objtype="site" objname="tip" reftype="xbody" refname="foot"/>
<framelinvel name="vel" objtype="site" objname="tip" reftype="xbody" refname="foot"/>
<frameangacc name="acc_ang" objtype="site" objname="tip"/>
<jointpos name="q" joint="hinge"/><jointvel name="v" joint="hinge"/><jointactuatorfrc name="f" joint="hinge"/>
<distance name="gap" body1="arm" geom2="sole" cutoff="5"/>
<normal name="gap_normal" body1="arm" geom2="sole" cutoff="5"/>
<fromto name="gap_segment" body1="arm" geom2="sole" cutoff="5"/>
<touch name="touch" site="pad"/><magnetometer name="field" site="tip"/>
<contact name="contact" body1="foot" body2="world" reduce="netforce" data="found force pos"/></sensor></mujoco>"""
TIP = {"pos": (0.2, 0.01, 0.03), "quat": (0.9, 0.1, 0.2, 0.3)}
ADDED: dict[str, tuple[Any, tuple[str, ...]]] = {
    "imu": (lambda: km.Imu(link="arm", **TIP), ("orientation", "gyro", "acc")),
    "force_torque": (lambda: km.ForceTorque(link="arm", **TIP), ("force", "torque")),
    "frame": (
        lambda: km.FrameSensor(link="arm", **TIP, quantities=("pos", "vel", "acc_ang"), relative_to=("it", "foot")),
        ("pos", "vel", "acc_ang"),
    ),
    "joint": (lambda: km.JointSensor(joint="hinge"), ("q", "v", "f")),
    "touch_1": (lambda: km.TouchSensor(link="foot", volume=km.Sphere(0.2)), ("touch",)),
    "magnetometer": (lambda: km.Magnetometer(link=("it", "arm"), **TIP), ("field",)),
    "distance": (
        lambda: km.DistanceSensor(link="arm", other_shape="sole", max_distance=5.0),
        ("gap", "gap_normal", "gap_segment"),
    ),
    "contact_1": (lambda: km.ContactSensor(shape="sole", other=-1, fields=("found", "force", "pos")), ("contact",)),
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> km.Scene:
    """An arm and a foot on the ground; all added sensors but the IMU were added before build."""
    file = tmp_path_factory.mktemp("added") / "arm.xml"
    file.write_text(ARM, encoding="utf-8")
    made = km.Scene(precision="double", codegen="loops", quiet=True)
    entity = made.add(file, name="it")
    for name, (sensor, _) in ADDED.items():
        if name != "imu":
            made.add_sensor(sensor())
    made.add_sensor(km.Altimeter(link="arm", pos=(0.3, 0.0, 0.0)))
    made.add_sensor(km.RayFan(link="arm", pos=(0.3, 0.0, 0.0), n_rays=3, angle=1.0, euler=(0.0, np.pi / 2, 0.0)))
    made.add_sensor(km.RayFan(name="up", pos=(1.0, 0.2, 3.0), directions=((0.0, 0.0, -2.0), (0.0, 0.0, 1.0))))
    made.add_sensor(km.Lidar(name="high", pos=(0.0, 0.0, 2.0), n_rays=2, n_rows=2, rows_angle=1.0, range=(0.1, 4.3)))
    made.add_sensor(km.Gps(entity=entity, origin=(48.0, 11.0, 500.0), heading=np.pi / 2))
    made.build(n_envs=2)
    entity.control([[0.3], [-0.4]])
    made.step(30)
    made.add_sensor(km.Imu(link=entity.get_link("arm"), **TIP, noise={"angular_velocity": 0.1}, bias_std=0.2))
    return made


@pytest.mark.parametrize("name", ADDED)
def test_added_sensors_equal_those_of_the_file(scene: km.Scene, name: str) -> None:
    """Sensors of files are compared with MuJoCo elsewhere."""
    scene.sensors[name].set_error_model(noise=0.0, bias_std=0.0)
    parts = [scene.sensors[part].read() for part in ADDED[name][1]]
    np.testing.assert_allclose(scene.sensors[name].read(), np.concatenate(parts, axis=1), rtol=1e-12, atol=1e-14)
    assert np.abs(np.concatenate(parts, axis=1)).max() > 0.01
    scene.sensors.use_file_error_model(enabled=False)


def test_rays_heights_and_positions(scene: km.Scene) -> None:
    """Closed forms: rays down to the ground and past it, the height of a tip, geodetic coordinates."""
    arm, foot = (scene.entities[0].get_link(name) for name in ("arm", "foot"))
    height = arm.get_pos()[:, 2] - 0.3 * np.sin(scene.sensors["q"].read()[:, 0])
    np.testing.assert_allclose(scene.sensors["altimeter"].read("vertical_position")[:, 0], height, atol=1e-12)
    top = foot.get_pos()[:, 2] + 0.05
    np.testing.assert_allclose(scene.sensors["up"].read(), np.stack([3.0 - top, [np.inf] * 2], axis=1), atol=1e-6)
    ranges = 2.0 / np.sin(0.5)
    np.testing.assert_allclose(scene.sensors["high"].read()[0], [ranges, ranges, np.inf, np.inf], atol=1e-12)
    assert np.isfinite(scene.sensors["ray_fan"].read()).all()
    position = arm.get_pos()
    expected = np.stack([-position[:, 1], position[:, 0], position[:, 2]], axis=1)
    np.testing.assert_allclose(scene.sensors["gps"].read("position"), expected, atol=1e-12)
    geodetic = scene.sensors["gps"].read_geodetic()
    np.testing.assert_allclose(geodetic[:, 2], 500.0 + position[:, 2], atol=1e-6)
    np.testing.assert_allclose(geodetic[:, 0] - 48.0, expected[:, 1] / 111200.0, atol=1e-8)


def test_sensor_added_after_build_keeps_the_state_and_is_reported(scene: km.Scene) -> None:
    notes = [d.message for d in scene.diagnostics if d.code == "scene.recompiled"]
    assert notes == ["sensor imu added: the scene is compiled once more"]
    assert scene.time == pytest.approx(0.06)
    before = scene.sensors["gyro"].read()
    late = scene.add_sensor(km.FrameSensor(name="late", link="arm", quantities=("ang",)))
    np.testing.assert_array_equal(scene.sensors["gyro"].read(), before)
    assert late.name == scene.sensors.names[-1] == "late"
    np.testing.assert_allclose(late.read(envs_idx=1)[0, 1], scene.sensors["v"].read()[1, 0], rtol=1e-12)


def test_noise_of_an_added_sensor_is_reproducible_and_its_own(scene: km.Scene) -> None:
    imu = scene.sensors["imu"]
    scene.sensors.use_file_error_model(enabled=False, seed=4)
    first = imu.read()
    gyro = first[:, 4:7] - scene.sensors["gyro"].read()
    assert 0.0 < np.abs(gyro).max() < 1.5
    assert (first[0] != first[1]).any()
    scene.sensors.use_file_error_model(enabled=False, seed=5)
    assert (imu.read() != first).all()
    scene.sensors.use_file_error_model(enabled=False, seed=4)
    np.testing.assert_array_equal(imu.read(), first)
    np.testing.assert_array_equal(imu.read("angular_velocity", envs_idx=[1]), first[1:, 4:7])


def test_errors(scene: km.Scene) -> None:
    count = len(scene.sensors)
    sensor: Any
    for sensor, message in (
        (km.Imu(link="hand"), "Imu: link: expected a link of an entity of this scene"),
        (km.JointSensor(joint=("it", "elbow")), "elbow"),
        (km.ForceTorque(), "the link that carries the sensor is missing"),
        (km.TouchSensor(link="arm"), "volume: expected a body"),
        (km.TouchSensor(link="arm", volume=km.Plane()), "its frame has no volume"),
        (km.RayFan(range=(2.0, 1.0)), "0 <= lower < upper"),
        (km.RayFan(directions=(0.0, 0.0, 0.0)), "not zero"),
        (km.RayFan(range=5.0), "RayFan: range: expected 0 <= lower < upper, not 5.0"),  # type: ignore[arg-type]
        (km.RayFan(n_rays=3, angle="wide"), "RayFan: angle: expected a finite number, not 'wide'"),  # type: ignore[arg-type]
        (km.Lidar(angle=np.nan), "Lidar: angle: expected a finite number, not nan"),
        (km.TactileSensor(link="arm", points=[[0, 0, 0]], normals=np.eye(3)), "normals: expected .3,. or .1, 3., not"),
        (km.Gps(origin=(100.0, 8.0, 0.0)), "the latitude is between -90 and 90 degrees, not 100"),
        (km.FrameSensor(link="arm", quantities=("speed",)), "quantities"),
        (km.ContactSensor(link="arm", reduce="all"), "reduce"),
        (km.ContactSensor(shape="wing"), "expected a shape of an entity"),
        (km.Imu(link="arm", quat=(0, 0, 0, 0)), "not all zero"),
        (km.Imu(entity="nobody"), "Imu: entity: there is no 'nobody'; the entities are: "),
        (km.Imu(link="arm", noise=-0.1), "Imu: noise is not -0.1: it is at least 0"),
        (km.Imu(link="arm", bias=np.nan), "Imu: bias is not nan: it is finite"),
        (km.Imu(link="arm", noise={"gyro": 0.1}), "no component 'gyro'; there are: orientation, angular_velocity"),
        (km.Altimeter, "expected a sensor such as km.Imu"),
    ):
        with pytest.raises(km.KinemaError, match=message):
            scene.add_sensor(sensor)
    assert len(scene.sensors) == count
    with pytest.raises(km.KinemaError, match="not a GPS"):
        scene.sensors["imu"].read_geodetic()
    assert scene.sensors.get("nothing") is None
    other = km.Scene(quiet=True)
    other.add(km.Box((1, 1, 1)))
    altimeter = other.add_sensor(km.Altimeter(noise=(0.1, 0.1, 0.1)))
    assert repr(altimeter) == "<Sensor: readable after scene.build()>"
    with pytest.raises(km.KinemaError, match="not built"):
        _ = altimeter.name
    with pytest.raises(km.KinemaError, match='noise of sensor "altimeter" is one number or 2'):
        other.build()


def test_an_entity_stands_for_its_only_link() -> None:
    """An entity with several links does not: the message says so."""
    scene = km.Scene(quiet=True, contacts=False)
    arm = scene.add(EXAMPLES / "arm" / "arm.urdf", fixed=True)
    box = scene.add(km.Box((0.1, 0.1, 0.1)), pos=(1.0, 0.0, 0.0), fixed=True)
    frame = scene.add_sensor(km.FrameSensor(link=box, quantities=("pos",)))
    with pytest.raises(km.KinemaError, match=r"Imu: link: arm has 11 links: name one, such as entity.get_link\(name\)"):
        scene.add_sensor(km.Imu(link=arm))
    scene.build()
    np.testing.assert_allclose(frame.read("pos"), [[1.0, 0.0, 0.0]])


def test_names_of_sensors_added_twice() -> None:
    """The note about the compilation has the name under which the sensor is found."""
    scene = km.Scene(quiet=True)
    scene.add(km.Box((1, 1, 1)))
    scene.add_sensor(km.Altimeter())
    scene.build()
    late = scene.add_sensor(km.Altimeter())
    assert late.name == "altimeter_1"
    assert [d.message for d in scene.diagnostics if d.code == "scene.recompiled"] == [
        "sensor altimeter_1 added: the scene is compiled once more"
    ]


def test_navsat_of_a_file(tmp_path: Path) -> None:
    """SDFormat's satellite navigation: origin and heading of the world, noise of the sensor."""
    file = tmp_path / "world.sdf"
    file.write_text(
        """<sdf version="1.9"><world name="w"><spherical_coordinates><latitude_deg>-33.5</latitude_deg>
<longitude_deg>151</longitude_deg><elevation>20</elevation><heading_deg>180</heading_deg></spherical_coordinates>
<model name="m"><pose>100 0 5 0 0 0</pose><link name="a"><inertial><mass>1</mass></inertial>
<sensor name="gps" type="navsat"><navsat><position_sensing><vertical><noise type="gaussian"><stddev>2</stddev></noise>
</vertical></position_sensing></navsat></sensor></link></model></world></sdf>""",
        encoding="utf-8",
    )
    scene = km.Scene(precision="double", codegen="loops", contacts=False, quiet=True)
    scene.add(file)
    scene.build()
    gps = scene.sensors["gps"]
    np.testing.assert_allclose(gps.read("position"), [[-100.0, 0.0, 5.0]], atol=1e-9)
    np.testing.assert_allclose(gps.read_geodetic(), [[-33.5, 151.0 - 100.0 / 92_900.0, 25.0]], atol=1e-3)
    scene.sensors.use_file_error_model()
    off = gps.read()[0] - [-100.0, 0.0, 5.0, 0.0, 0.0, 0.0]
    assert off[2] != 0.0
    assert np.abs(off[[0, 1, 3, 4, 5]]).max() < 1e-9
