"""What start-up is measured with: the models are sound, processes are fresh, and the page has all figures."""

from __future__ import annotations

from pathlib import Path

import compile_time
import pytest
import startup
import startup_models

import kinema as km
from kit.assets import EXAMPLES


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return startup_models.write_robot(tmp_path_factory.mktemp("robot"))


def test_the_robot_with_meshes_is_sound_and_always_the_same(robot: Path, tmp_path: Path) -> None:
    described = km.read(robot)
    assert isinstance(described, km.Robot)
    assert sum(joint.n_dofs for joint in described.joints) == 42
    assert [d for d in described.diagnostics if d.severity.value != "note"] == []
    assert len(list(robot.parent.glob("*.stl"))) == 43
    again = startup_models.write_robot(tmp_path)
    assert {f.name: f.read_bytes() for f in robot.parent.iterdir()} == {
        f.name: f.read_bytes() for f in tmp_path.iterdir()
    }
    assert again.name == robot.name


def test_its_meshes_are_closed() -> None:
    """Every edge belongs to two triangles that run along it in opposite directions."""
    triangles = startup_models.bumpy(5, 0.1)
    assert 2000 < len(triangles) < 5000
    corners = [[tuple(p) for p in triangle] for triangle in triangles.tolist()]
    edges = [(t[i], t[(i + 1) % 3]) for t in corners for i in range(3)]
    assert len(set(edges)) == len(edges)
    assert {(b, a) for a, b in edges} == set(edges)


def test_processes_are_fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("KINEMA_TIER", "baseline")
    own = startup.environment(tmp_path)
    assert own["KINEMA_CACHE"] == str(tmp_path)
    assert not {"PYTHONDONTWRITEBYTECODE", "KINEMA_TIER"} & own.keys()


def test_a_cached_start_runs_the_same_steps_sooner(tmp_path: Path) -> None:
    file = EXAMPLES / "cartpole" / "cartpole.xml"
    cold = startup.measured(file, tmp_path, "--wait", "--rebuild", "--steps", "20")
    cached = startup.measured(file, tmp_path, "--steps", "20")
    assert (cold["tier"], cached["tier"]) == ("baseline", "optimised")
    assert cold["state"] == cached["state"]
    assert cached["first step"] < cold["first step"] < cold["total"] < cold["optimised"] + 1.0
    assert cold["rebuild"] < cold["total"]
    parts = ("import", "read", "build", "first step")
    assert sum(cached[part] for part in parts) == pytest.approx(cached["total"])


def test_the_page_has_all_figures() -> None:
    own = {
        "import": 0.4,
        "read": 0.1,
        "build": 0.2,
        "first step": 0.3,
        "total": 1.0,
        "rss": 99.0,
        "peak": 120.0,
        "dofs": 8,
    }
    cold = {**own, "total": 3.5, "optimised": 9.0, "rebuild": 0.05}
    found = [startup.Starts("arm", cold, own, None), startup.Starts("go2", cold, own, {"total": 0.25, "rss": 44.0})]
    text = compile_time.page(found, [], 3, 64, 0.1)
    assert "| arm | 8 | **1.00** | 0.40 | 0.10 | 0.20 | 0.30 | 3.50 | 9.0 | 0.05 | 99 |  |  |" in text
    assert "| go2 | 8 | **1.00** | 0.40 | 0.10 | 0.20 | 0.30 | 3.50 | 9.0 | 0.05 | 99 | 0.25 | 44 |" in text
    assert "not idle" not in text
    assert "load average 2.0" in compile_time.page(found, [], 3, 64, 2.0)


def test_medians_leave_out_what_is_no_number() -> None:
    runs = [{"total": 3.0, "tier": "baseline", "optimised": 9.0}, {"total": 1.0, "tier": "baseline"}, {"total": 2.0}]
    assert startup.median(runs) == {"total": 2.0, "optimised": 9.0}
