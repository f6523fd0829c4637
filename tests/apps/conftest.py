"""How wide a terminal is counts for what is printed: tests are without one."""

from __future__ import annotations

import multiprocessing

import pytest

PRELOADED = ["kinema.apps.cli.convert", "kinema.apps.cli.check", "kinema.apps.cluster.sweeps"]


@pytest.fixture(autouse=True, scope="session")
def preloaded() -> None:
    """What processes of tests need is loaded once for all of them: whoever starts the first process decides."""
    if "forkserver" in multiprocessing.get_all_start_methods():
        multiprocessing.get_context("forkserver").set_forkserver_preload([*PRELOADED, "mujoco", "pxr.UsdPhysics"])


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests, and how wide their screen is."""
    monkeypatch.delenv("COLUMNS", raising=False)
