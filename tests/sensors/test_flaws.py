"""What is wrong with sensors when it is asked for: noise, bias, resolution, rate and delay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinema as km

PENDULUM = """<mujoco><option timestep="0.01"/><worldbody><body><joint name="j" axis="0 1 0"/>
<geom size=".05" pos="0.3 0 0" mass="1" contype="0" conaffinity="0"/></body></worldbody>
<sensor><jointpos name="angle" joint="j" noise="0.1"/><jointvel name="speed" joint="j"/><clock name="clock"/>
</sensor></mujoco>"""
N_ENVS = 400


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> km.Scene:
    file = tmp_path_factory.mktemp("flaws") / "pendulum.xml"
    file.write_text(PENDULUM, encoding="utf-8")
    scene = km.Scene(dt=0.01, precision="double", contacts=False, quiet=True)
    scene.add(file)
    scene.build(n_envs=N_ENVS)
    return scene


@pytest.fixture
def scene(built: km.Scene) -> km.Scene:
    """At its start, with ideal sensors."""
    built.sensors.use_file_error_model(enabled=False)
    built.reset()
    return built


def test_noise_is_off_until_it_is_asked_for_and_said(scene: km.Scene) -> None:
    assert "sim.ideal-sensors" in {d.code for d in scene.diagnostics}
    assert not scene.sensors["angle"].read().any()
    scene.sensors.use_file_error_model(seed=3)
    drawn = scene.sensors["angle"].read()[:, 0]
    assert abs(drawn.std() - 0.1) < 0.02
    assert abs(drawn.mean()) < 0.02
    assert not scene.sensors["speed"].read().any(), "only what the file says"
    np.testing.assert_array_equal(drawn, scene.sensors["angle"].read()[:, 0], "read twice, it is the same")
    np.testing.assert_array_equal(drawn, scene.sensors.data[:, 0])
    scene.sensors.use_file_error_model(seed=3)
    np.testing.assert_array_equal(drawn, scene.sensors["angle"].read()[:, 0], "a seed decides")
    scene.step()
    assert np.abs(drawn - scene.sensors["angle"].read()[:, 0]).max() > 0.05, "each step draws anew"


def test_bias_and_resolution(scene: km.Scene) -> None:
    speed = scene.sensors["speed"]
    speed.set_error_model(bias=0.5, bias_std=0.2)
    first = speed.read()[:, 0]
    assert abs(first.mean() - 0.5) < 0.05
    assert abs(first.std() - 0.2) < 0.03
    scene.step()
    fell = speed.read()[:, 0] - first
    np.testing.assert_allclose(fell, fell[0], atol=1e-12, err_msg="a bias stays what it is")
    speed.set_error_model(bias=0.0, bias_std=0.0, resolution=0.25)
    scene.step(7)
    ideal = scene.built.engine.fields.sensors.sensordata.numpy()[1]
    np.testing.assert_allclose(speed.read()[:, 0], np.round(ideal / 0.25) * 0.25)


@pytest.mark.parametrize(("rate", "delay"), [(25.0, 0.0), (0.0, 0.03), (20.0, 0.04), (30.0, 0.025)])
def test_rate_and_delay(scene: km.Scene, rate: float, delay: float) -> None:
    """A clock tells when it measured: the last multiple of the period that is not too young."""
    clock, start = scene.sensors["clock"], scene.time
    clock.set_error_model(rate=rate, delay=delay)
    for n in (1, 1, 3, 1, 1, 5, 1, 2):
        scene.step(n)
        reading, since = float(clock.read()[0, 0]) - start, scene.time - start
        due = max(0.0, since - delay)
        if rate:
            due = np.floor(due * rate + 1e-6) / rate
        due = np.ceil(due / scene.dt - 1e-6) * scene.dt  # it is measured at the first step that reaches its time
        np.testing.assert_allclose(reading, due, atol=1e-9)


def test_reset_forgets_what_was_measured(scene: km.Scene) -> None:
    angle = scene.sensors["angle"]
    angle.set_error_model(delay=0.05)
    scene.step(20)
    assert (angle.read() != 0.0).all()
    scene.reset(envs_idx=[3, 5])
    reading = angle.read()[:, 0]
    assert not reading[[3, 5]].any()
    assert np.delete(reading, [3, 5]).all()


def test_going_back_forgets_what_was_measured_since(scene: km.Scene) -> None:
    angle = scene.sensors["angle"]
    angle.set_error_model(delay=0.05)
    scene.step(10)
    state = scene.get_state()
    ideal = scene.entities[0].get_qpos()
    scene.step(10)
    scene.set_state(state)
    np.testing.assert_array_equal(angle.read(), ideal)


def test_errors(scene: km.Scene) -> None:
    for wrong, said in (
        (lambda: scene.sensors["nobody"], "no sensor 'nobody'; there are: angle, speed, clock"),
        (lambda: scene.sensors["angle"].set_error_model(noise=-1.0), "at least 0"),
        (lambda: scene.sensors["angle"].set_error_model(hum=1.0), "no hum"),
        (lambda: scene.sensors["angle"].set_error_model(noise=[1.0, 2.0]), "one number or 1"),
        (
            lambda: scene.sensors["angle"].set_error_model(noise="loud"),
            'the noise of sensor "angle": the values are not numeric',
        ),
        (lambda: scene.sensors["angle"].read("yaw"), "no component 'yaw'"),
        (lambda: scene.sensors["angle"].read([0, 1]), "for environments use envs_idx="),  # type: ignore[arg-type]
        (lambda: scene.sensors["angle"].write(1.0), "only readings of user sensors"),
        (lambda: km.Scene(quiet=True).sensors, "not built"),
    ):
        with pytest.raises(km.KinemaError, match=said):
            wrong()
    assert scene.sensors["angle"].read(envs_idx=[1, 2]).shape == (2, 1)


def test_what_cannot_be_simulated_is_said_and_keeps_its_place(tmp_path: Path) -> None:
    file = tmp_path / "odd.xml"
    file.write_text(
        PENDULUM.replace("<clock", '<camprojection name="seen" site="s" camera="flat"/><clock').replace(
            "<worldbody>",
            '<worldbody><site name="s"/><camera name="flat" projection="orthographic" resolution="8 8"/>',
        ),
        encoding="utf-8",
    )
    scene = km.Scene(dt=0.01, contacts=False, quiet=True)
    scene.add(file)
    scene.build()
    (reading,) = [d for d in scene.diagnostics if d.code == "sim.sensor"]
    assert 'sensor "seen" (camprojection) is not simulated' in reading.message
    assert str(reading.origin).endswith(":3")
    assert scene.sensors.data.shape == (1, 5)
    assert not scene.sensors["seen"].read().any()


def test_sensors_that_are_switched_off_tell_zeros(tmp_path: Path) -> None:
    file = tmp_path / "off.xml"
    file.write_text(PENDULUM.replace("/><worldbody>", '><flag sensor="disable"/></option><worldbody>', 1), "utf-8")
    scene = km.Scene(dt=0.01, contacts=False, quiet=True)
    scene.add(file)
    scene.build()
    assert "sim.sensors-off" in {d.code for d in scene.diagnostics}
    assert scene.sensors.names == ["angle", "speed", "clock"]
    assert scene.built.model.sensors.outputs.kinds == ("nothing",) * 3
