"""`kinema bench --contact heap`: equal scenes for both simulators, and checks that see what is wrong."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

from kinema.apps.bench import HeapKind, HeapMeasurement, growth_exponents, scaling_chart_svg
from kinema.apps.bench.heap import heap_mjcf, inside_bin, residual_force
from kinema.apps.bench.heap_process import PROGRESS_PREFIX, run_scene
from kinema.apps.bench.scenes import load_mujoco_model
from kinema.apps.cli import app
from kinema.apps.cli.options import HeapKindName
from kinema.description import World
from kinema.read import read


@pytest.mark.parametrize("kind", list(HeapKind))
def test_heap_mjcf_is_read_alike_by_both(kind: HeapKind, tmp_path: Path) -> None:
    file = tmp_path / "heap.xml"
    file.write_text(heap_mjcf(10, kind), encoding="utf-8")
    model, world = load_mujoco_model(file), read(file)
    assert isinstance(world, World)
    assert model.nv == 6 * len([link for r in world.robots for link in r.links]) == 60
    assert inside_bin(model.qpos0.reshape(-1, 7)[:, :3], 4)
    if kind is HeapKind.HULLS:
        assert set(model.mesh_vertnum) == {20}


def test_residual_force_sees_a_wrong_velocity(tmp_path: Path) -> None:
    import mujoco

    file = tmp_path / "heap.xml"
    file.write_text(heap_mjcf(4, HeapKind.BOXES, layers=2), encoding="utf-8")
    model = load_mujoco_model(file)
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 200)
    qpos, qvel = data.qpos.copy(), data.qvel.copy()
    mujoco.mj_step(model, data)
    assert max(residual_force(file, qpos, qvel, data.qvel)) < 1e-6
    assert min(residual_force(file, qpos, qvel, data.qvel + 0.01)) > 1e-2
    one_wrong = data.qvel.copy()
    one_wrong[:6] += 0.01
    total, median = residual_force(file, qpos, qvel, one_wrong)
    assert median < 1e-6
    assert total > 1e-2


def test_a_kept_model_is_not_compiled_again(tmp_path: Path) -> None:
    """Later processes and the residual use MuJoCo's compiled model: the same states also if the file is gone."""
    file, states = tmp_path / "heap.xml", tmp_path / "states.npz"
    file.write_text(heap_mjcf(4, HeapKind.BOXES, layers=2), encoding="utf-8")
    figures = run_scene("MuJoCo C", str(file), str(states), "steps", 60.0)
    assert figures["contacts"] > 8
    file.unlink()
    loaded = np.load(states)
    assert max(residual_force(file, loaded["qpos"], loaded["qvel"], loaded["next_qvel"])) < 1e-6
    assert run_scene("MuJoCo C", str(file), str(states), "sleep", 60.0)["asleep"] == 1.0


def test_a_simulator_starts_from_resting_states(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Objects that start at rest have their contacts after some steps, at the same places; progress is reported."""
    file, settled, resumed = (tmp_path / name for name in ("heap.xml", "settled.npz", "resumed.npz"))
    file.write_text(heap_mjcf(4, HeapKind.BOXES, layers=2), encoding="utf-8")
    figures = run_scene("MuJoCo C", str(file), str(settled), "steps", 60.0)
    again = run_scene("MuJoCo C", str(file), str(resumed), "steps", 60.0, str(settled))
    assert again["contacts"] == figures["contacts"] > 8
    assert again["settled_s"] == pytest.approx(figures["settled_s"] + 0.32)
    assert np.abs(np.load(resumed)["qpos"] - np.load(settled)["qpos"]).max() < 1e-3
    assert f"{PROGRESS_PREFIX}settles, 4.0 of 4 s\n" in capsys.readouterr().err


def test_large_heaps_bound_the_memory_of_mujoco() -> None:
    assert "<size" not in heap_mjcf(100, HeapKind.SPHERES)
    assert '<size memory="768000K"/>' in heap_mjcf(3000, HeapKind.SPHERES)


def test_inside_bin_sees_lost_objects() -> None:
    positions = np.full((16, 3), 0.1)
    assert inside_bin(positions, 4)
    for lost in ((0.1, 0.1, -0.1), (0.9, 0.1, 0.1)):
        positions[3] = lost
        assert not inside_bin(positions, 4)


def test_growth_exponents_of_power_laws() -> None:
    def measured(n: int) -> HeapMeasurement:
        values = {name: float(n) ** 1.5 for name in ("build", "first_step", "falling", "resting", "memory")}
        return HeapMeasurement(
            simulator="Kinema",
            kind="boxes",
            n_bodies=n,
            first_step_cached=0.0,
            sleeping=math.nan,
            asleep=math.nan,
            contacts=0,
            moving=0,
            settled_s=0.0,
            residual=0.0,
            residual_median=0.0,
            is_sound=True,
            **values,
        )

    assert growth_exponents([measured(10)], "Kinema") == {}
    fitted = growth_exponents([measured(n) for n in (10, 100, 1000)], "Kinema")
    assert all(value == pytest.approx(1.5) for value in fitted.values())
    chart = ElementTree.fromstring(scaling_chart_svg([measured(n) for n in (10, 100, 1000)], "heaps & piles"))
    lines = chart.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 2  # a step at rest, and the time to the first step
    places = [[float(x) for x in point.split(",")] for point in lines[0].attrib["points"].split()]
    slopes = [(a[1] - b[1]) / (b[0] - a[0]) for a, b in pairwise(places)]
    assert slopes[0] == pytest.approx(slopes[1], rel=0.02)  # a power law is a straight line


def test_kinds_of_the_command_line_are_all_there_are() -> None:
    assert [k.value for k in HeapKindName] == [k.value for k in HeapKind]


@pytest.mark.exhaustive
def test_bench_measures_a_heap() -> None:
    result = CliRunner().invoke(app, ["bench", "--contact", "heap", "--bodies", "4", "--layers", "2", "--json"])
    assert result.exit_code == 0, result.output
    theirs, ours = json.loads(result.output.splitlines()[-1])["results"]
    assert (theirs["simulator"], ours["simulator"]) == ("MuJoCo C", "Kinema")
    for figures in (theirs, ours):
        assert figures["is_sound"]
        assert figures["moving"] == 0
        assert figures["asleep"] == 1.0
        assert figures["contacts"] > 8
        assert figures["residual"] < 1e-3
        assert 0 < figures["build"] <= figures["first_step"]
        assert figures["memory"] > 10
