"""Tactile sensors: those of files beside MuJoCo, and added ones beside closed forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import kinema as km
from kit.choosing import representatives
from kit.mujoco_models import load
from kit.sensor_side import converging, side

HERE = Path(__file__).parent
PAD = """<mujoco><asset><mesh name="skin" builtin="plate" params="6 5" scale=".05 .04 .01" inertia="shell"/></asset>
<worldbody><geom type="sphere" size=".1"/><body name="pad" pos="0 0 .105" euler="0 85 0"><freejoint/>
<geom name="pad" type="box" size=".03 .04 .05" euler="0 0 30"/></body></worldbody>
<sensor><tactile name="t" geom="pad" mesh="skin"/></sensor></mujoco>"""
TOUCHABLE = ("plane", "sphere", "box", "capsule", "ellipsoid", "cylinder")


def moved(theirs: Any, seed: int) -> Any:
    """A state in which things lie in each other, at random velocities."""
    rng, data = np.random.default_rng(seed), mujoco.MjData(theirs)
    data.qpos[:2] = rng.uniform((-0.4, -0.1), (0.4, 0.02))
    for start in range(2, theirs.nq, 7):
        data.qpos[start : start + 3] += rng.normal(size=3) * 0.02
        turn = rng.normal(size=4)
        data.qpos[start + 3 : start + 7] = turn / np.linalg.norm(turn)
    data.qvel[:] = rng.normal(size=theirs.nv)
    mujoco.mj_forward(theirs, data)
    return data


def felt(theirs: Any, data: Any) -> set[str]:
    """Types of the geoms that touch the finger, whose nail is fixed to it."""
    own = {theirs.body("finger").id, theirs.body("nail").id}
    pairs = [(c.geom1, c.geom2) for c in data.contact]
    others = {b for a, b in [*pairs, *((b, a) for a, b in pairs)] if int(theirs.geom_bodyid[a]) in own}
    return {mujoco.mjtGeom(int(theirs.geom_type[g])).name.removeprefix("mjGEOM_").lower() for g in others}


def test_taxels_of_a_file() -> None:
    """On a finger with a nail that is fixed to it: depths in all shapes that are felt, speeds on several at once."""
    theirs = converging(load(HERE / "tactile.xml"))
    states = [moved(theirs, seed) for seed in range(12)]
    found = side(HERE / "tactile.xml", states)
    assert [d.message for d in found.scene.diagnostics if d.code.startswith("sim.sensor")] == []
    np.testing.assert_allclose(found.ours, found.expected, rtol=1e-9, atol=1e-12)
    assert set(TOUCHABLE) | {"mesh"} <= set.union(*(felt(theirs, data) for data in states))
    skin, bump = found.scene.sensors["skin"], found.scene.sensors["bump"]
    assert list(skin.components) == ["depth", "slip_1", "slip_2"]
    assert skin.read("depth").shape == (12, 42)
    assert (skin.read("depth") > 0.0).sum() > 40
    assert (skin.read("slip_2") > 0.0).sum() > 40
    assert bump.read("depth").max() > 0.01
    assert not bump.read("slip_1").any(), "its mesh has no tangents"
    assert found.scene.sensors["clamped"].read().max() == 0.01


def test_a_tactile_sensor_survives_conversions(tmp_path: Path) -> None:
    """Through MJCF its mesh comes back, which no geom shows; through USD its taxels."""
    (tmp_path / "pad.xml").write_text(PAD)
    readings = []
    for name in ("pad.xml", "again.xml", "again.usda"):
        if name != "pad.xml":
            losses = km.write(km.read(tmp_path / "pad.xml"), tmp_path / name)
            assert not [loss for loss in losses if loss.action == "dropped"]
        scene = km.Scene(precision="double", quiet=True, codegen="loops")
        entity = scene.add(tmp_path / name)
        scene.build()
        entity.set_qvel([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
        readings.append(scene.sensors["t"].read())
    assert (readings[0] > 0.0).sum() > 10
    for reading in readings[1:]:
        np.testing.assert_allclose(reading, readings[0], atol=1e-9)
    with pytest.raises(km.KinemaError, match="has tactile sensors, which cannot be scaled"):
        km.Scene(quiet=True).add(tmp_path / "pad.xml", scale=2.0)


@pytest.mark.parametrize("codegen", representatives(["unrolled", "loops"], 1))
def test_added_taxels(codegen: str) -> None:
    """A plate on the ground, pushed into it and sliding: depth and speed of each point, and variants of a ball."""
    scene = km.Scene(precision="double", quiet=True, codegen=codegen, gravity=(0, 0, 0))
    scene.add(km.Plane())
    plate = scene.add(km.Box((0.2, 0.2, 0.02)), pos=(0, 0, 0.009))
    balls = scene.add([km.Sphere(0.05), km.Sphere(0.03)], pos=(0.05, 0, 0.06))
    points = [(x, y, -0.01 - z) for x in (-0.05, 0.05) for y in (-0.05, 0.05) for z in (0.0, -0.005)]
    below = scene.add_sensor(km.TactileSensor(entity=plate, points=points, normals=(0, 0, -1), name="below"))
    above = scene.add_sensor(km.TactileSensor(entity=plate, points=[(0.05, 0, 0.01), (0.05, 0.02, 0.01)], name="above"))
    scene.build(2)
    plate.set_dofs_velocity([0.3, 0.4, 0.0, 0.0, 0.0, 0.0])
    depths = np.tile([0.001, 0.0], 4)
    np.testing.assert_allclose(below.read("depth"), np.tile(depths, (2, 1)), atol=1e-12)
    slips = np.stack([below.read("slip_1"), below.read("slip_2")], axis=-1)
    expected = np.where(depths[:, None] > 0.0, [0.3, 0.4], 0.0)
    np.testing.assert_allclose(np.sort(slips, axis=-1), np.stack([expected] * 2), atol=1e-12)
    touching = np.array([0.05 - 0.041, 0.05 - np.hypot(0.041, 0.02)])
    np.testing.assert_allclose(above.read("depth"), np.array([touching, np.zeros(2)]), atol=1e-12)
    assert not above.read("slip_1").any()
    balls.set_pos((0.05, 0, 0.04), envs_idx=[1])
    np.testing.assert_allclose(
        above.read("depth", envs_idx=1), [[0.03 - 0.021, 0.03 - np.hypot(0.021, 0.02)]], atol=1e-12
    )
    for sensor, message in (
        (km.TactileSensor(points=points), "the link that carries the sensor is missing"),
        (km.TactileSensor(entity=plate), "points: expected finite vectors"),
        (km.TactileSensor(entity=plate, points=points, normals=(0, 0, 0)), "not zero"),
    ):
        with pytest.raises(km.KinemaError, match=message):
            scene.add_sensor(sensor)
