"""Every kind of sensor beside MuJoCo's `sensordata`, noise off: to 1e-8 in double precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from kit.assets import assets
from kit.mujoco_models import load
from kit.sensor_side import Side, converging, put, random_state, side

HERE = Path(__file__).parent
SMALL_ASSETS = ("mjcf/mujoco_car/car.xml", "mjcf/skydio_x2/x2.xml")
"""Those that compile in no time; `tools/sensors.py` looks at all."""


@pytest.fixture(scope="module")
def everything() -> Side:
    """A robot with every kind of sensor, in the air, as it hits the ground, and on its foot."""
    theirs = converging(load(HERE / "everything.xml"))
    states = [random_state(theirs, np.random.default_rng(seed), settle=160) for seed in range(3)]
    standing = random_state(theirs, np.random.default_rng(3))
    standing.qpos[:] = theirs.qpos0
    standing.qpos[2] = 0.395
    mujoco.mj_forward(theirs, standing)
    return side(HERE / "everything.xml", [*states, standing])


def compared(found: Side, *, but: tuple[str, ...] = ()) -> None:
    ours, expected = found.ours, found.expected
    for k in range(found.theirs.nsensor):
        sensor = found.theirs.sensor(k)
        where = slice(int(sensor.adr[0]), int(sensor.adr[0] + sensor.dim[0]))
        if sensor.name not in but:
            np.testing.assert_allclose(
                ours[:, where], expected[:, where], rtol=1e-8, atol=1e-8, err_msg=f"sensor {sensor.name}"
            )


def test_every_kind(everything: Side) -> None:
    assert everything.scene.sensors.names == [
        everything.theirs.sensor(k).name for k in range(everything.theirs.nsensor)
    ]
    assert [d.message for d in everything.scene.diagnostics if d.code.startswith("sim.sensor")] == []
    compared(everything, but=("clock",))


def test_states_that_matter_are_among_them(everything: Side) -> None:
    """Contacts, limits and rays that hit and miss, or the comparison would say little."""
    data = {name: everything.scene.sensors[name].read() for name in everything.scene.sensors}
    assert data["touch"].max() > 1.0
    assert data["touch"].min() == 0.0
    assert data["contact_net"][:, 0].max() == 2.0, "both toes at once"
    for name in ("limit_frc", "ball_limit_frc", "tendon_limit_frc", "limit_pos", "strand_frc"):
        assert np.abs(data[name]).max() > 1e-3, name
    assert np.abs(data["accelerometer"]).max() == 30.0, "a cutoff acts"


def test_rays_hit_every_kind_of_shape(everything: Side) -> None:
    """Rays that are aimed at each shape from somewhere, and past it."""
    theirs, hits, before = everything.theirs, set(), everything.states
    where = int(theirs.sensor("range_out").adr[0])
    rng = np.random.default_rng(0)
    sky = np.array([0.0, 0.0, 9.0])
    for target in (sky, *before[0].geom_xpos[:8]):
        for spread in (0.0, 0.3):
            states = [_aimed(theirs, target, spread, rng) for _ in before]
            put(everything.scene, theirs, states)
            expected = [d.sensordata[where] for d in states]
            np.testing.assert_allclose(everything.scene.sensors["range_out"].read()[:, 0], expected, rtol=0, atol=2e-7)
            hits |= {_hit(theirs, d, "range_out") for d in states}
    put(everything.scene, theirs, before)
    assert hits >= {"plane", "hfield", "mesh", "sphere", "capsule", "ellipsoid", "cylinder", "box", "nothing"}


def _aimed(theirs: Any, target: np.ndarray, spread: float, rng: np.random.Generator) -> Any:
    """A state in which the ray that looks out points at a place, or somewhere beside it."""
    data = mujoco.MjData(theirs)
    data.qpos[:3] = np.minimum(target, 1.0) + rng.uniform((-1, -1, 0.3), (1, 1, 1.2))
    mujoco.mj_kinematics(theirs, data)
    site = theirs.site("lookout").id
    along = target + spread * rng.uniform(-1, 1, 3) - data.site_xpos[site]
    own, turn = data.site_xmat[site].reshape(3, 3)[:, 2], np.zeros(4)
    axis = np.cross(own, along)
    angle = np.arctan2(np.linalg.norm(axis), own @ along)
    mujoco.mju_axisAngle2Quat(turn, axis / np.linalg.norm(axis), angle)
    data.qpos[3:7] = turn
    mujoco.mj_forward(theirs, data)
    return data


def _hit(theirs: Any, data: Any, name: str) -> str:
    """The kind of shape that MuJoCo's ray hits."""
    site = int(theirs.sensor(name).objid[0])
    found = np.zeros(1, np.int32)
    axis = data.site_xmat[site].reshape(3, 3)[:, 2].copy()
    body = int(theirs.site_bodyid[site])
    mujoco.mj_ray(theirs, data, data.site_xpos[site], axis, None, 1, body, found)
    if found[0] < 0:
        return "nothing"
    return mujoco.mjtGeom(int(theirs.geom_type[found[0]])).name.removeprefix("mjGEOM_").lower()


def test_forces_where_ties_and_tendons_pull() -> None:
    """Connects, welds, and tendons around drums and over pulleys, with springs, limits, friction and motors."""
    found = side(HERE / "held.xml", settle=5)
    assert [d.message for d in found.scene.diagnostics if d.code.startswith("sim.sensor")] == []
    compared(found)


@pytest.mark.parametrize("file", SMALL_ASSETS)
def test_assets(file: str) -> None:
    found = side(assets(file), settle=20)
    assert len(found.scene.sensors) == found.theirs.nsensor
    compared(found)


def test_what_the_user_tells(everything: Side) -> None:
    sensors = everything.scene.sensors
    assert not sensors["mine"].read().any()
    sensors["mine"].write([1.5, -2.0])
    np.testing.assert_array_equal(sensors["mine"].read(), [[1.5, -2.0]] * everything.scene.n_envs)
    sensors["mine"].write(0.0)


def test_distances_of_geoms() -> None:
    """Separate and overlapping geoms, to the tolerance of GJK and EPA on curved shapes."""
    theirs = load(HERE / "distances.xml")
    states = [random_state(theirs, np.random.default_rng(seed)) for seed in range(4)]
    for k, (egg, pill) in enumerate(((0.25, 0.31), (0.12, 0.3))):  # an egg in a ball, and a pill in a box
        states[k].qpos[21:24] = states[k].qpos[:3] + np.array([egg, 0.0, 0.1])
        states[k].qpos[7:10] = states[k].qpos[:3] + np.array([0.0, pill, 0.02])
        mujoco.mj_forward(theirs, states[k])
    found = side(HERE / "distances.xml", states, contacts=False)
    assert [d.message for d in found.scene.diagnostics if d.code.startswith("sim.sensor")] == []
    np.testing.assert_allclose(found.ours, found.expected, rtol=0, atol=2e-5)
    assert found.pick("pierced")[0].min() < -0.01, "some overlap"
    assert found.pick("near")[0].max() == 0.7, "some are too far away"


def test_contacts_in_the_order_of_mujoco() -> None:
    """All contacts, those of smallest distance and of largest force, several each, and net forces, as a stack settles.

    A net force is a single record; its position is zero while no contact, in the gap, has a force.
    """
    theirs = converging(load(HERE / "contacts.xml"))
    states = []
    for steps in (20, 60, 150):
        states.append(mujoco.MjData(theirs))
        mujoco.mj_step(theirs, states[-1], steps)
        mujoco.mj_forward(theirs, states[-1])
    found = side(HERE / "contacts.xml", states)
    assert [d.message for d in found.scene.diagnostics if d.code.startswith("sim.sensor")] == []
    compared(found)
    assert sorted(d.ncon for d in states) == [8, 10, 10]
    net, gap = found.scene.sensors["net"].read().reshape(3, 3, 17), found.scene.sensors["net_gap"].read()
    assert (net[:, 0, 0] > 1).all()
    assert not net[:, 1:].any()
    assert (gap[:, 0] > 0).all()
    assert not gap[0, 1:7].any()


def test_data_fields_of_rangefinders() -> None:
    """Distances, directions, origins, points, normals and depths of rays of a site and of pixels of cameras."""
    found = side(HERE / "rangefinders.xml", n=3)
    assert [d.message for d in found.scene.diagnostics if d.code.startswith("sim.sensor")] == []
    np.testing.assert_allclose(found.ours, found.expected, rtol=0, atol=1e-6)
    site = found.scene.sensors["site"]
    assert list(site.components) == ["dist", "dir", "origin", "point", "normal", "depth"]
    normals = found.scene.sensors["wide"].read().reshape(3, -1, 14)[..., 10:13]
    assert len(np.unique(normals.round(3).reshape(-1, 3), axis=0)) > 20, "many surfaces are hit"
