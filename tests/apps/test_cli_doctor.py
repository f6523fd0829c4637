"""`kinema doctor`: it looks, tests, and says what is missing; it never shows a traceback."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kinema.apps.cli import doctor, doctor as doctor_module
from kit import command_line


def run(*arguments: str) -> tuple[int, str]:
    return command_line.run("doctor", *arguments)[:2]


def test_a_machine_that_runs_the_tests_is_fit() -> None:
    """The pendulum agrees with its elliptic functions on every device there is."""
    code, out = run("--json")
    data = json.loads(out)
    assert (code, data["problems"]) == (0, [])
    assert data["system"]["cores"] >= 1
    assert "cpu" in [d["name"] for d in data["devices"]]
    assert all(test["ok"] and test["error"] < 1e-8 for test in data["tests"])
    assert data["cache"]["bytes"] > 0
    assert data["cache"]["entries"] > 0
    assert data["cache"]["limit"] > data["cache"]["bytes"]
    assert next(p for p in data["packages"] if p["name"] == "numpy")["version"]


def untested(device: str) -> dict[str, Any]:
    return {"device": device, "ok": True, "error": 1e-12, "seconds": 0.0, "problem": ""}


def test_the_findings_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "pendulum_self_test", untested)
    code, out = run()
    assert code == 0
    for words in ("python", "processor", "cores", "memory", "cache", "test on cpu", "warp-lang", "ready"):
        assert words in out


def test_a_missing_package_is_named_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = [
        doctor_module.Package("warp-lang", None, "simulation", True, "pip install warp-lang"),
        doctor_module.Package("torch", None, "tensors", False, "pip install torch"),
    ]
    monkeypatch.setattr(doctor, "find_packages", lambda: missing)
    code, out = run()
    assert code == 1
    assert "✗ warp-lang is missing (simulation): pip install warp-lang" in out
    assert "· torch is not installed (tensors): pip install torch" in out
    assert "ready" not in out


def test_a_device_that_fails_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_module, "_simulate_pendulum", lambda device: 1 / 0)
    code, out = run("--json")
    assert code == 1
    assert any("the test on cpu failed: division by zero" in p for p in json.loads(out)["problems"])


def test_a_cache_that_cannot_be_kept_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "pendulum_self_test", untested)
    found = {"folder": "/cache", "entries": 0, "bytes": 0, "limit": 10**9, "writable": False, "disk_free": 10}
    monkeypatch.setattr(doctor, "cache_info", lambda: found)
    code, out = run()
    assert code == 1
    assert "/cache cannot be written" in out
    assert "set KINEMA_CACHE" in out
    assert "0 entries, 0 B of 1.0 GB" in out
    assert "has only 0 MiB left" in out
