"""Fixtures for all tests."""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from kit.diagnostics import ClaimedDiagnostics

settings.register_profile(
    "kinema", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("kinema")
os.environ.setdefault("KINEMA_TIER", "baseline")  # optimised code takes ten times as long to compile


_SHARE, _LEAST = 4, 8
"""Of the robots of a wide test one in so many is looked at, and at least about so many."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say what there is."""
    parser.addoption("--all", action="store_true", help="run wide tests for all robots, not for a share of them")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out most robots of wide tests: others for each test, and always the same ones."""
    if config.getoption("--all") or any("::" in str(argument) for argument in config.args):
        return
    counts = Counter(_function(item) for item in items if item.get_closest_marker("wide"))
    left_out = [item for item in items if (count := counts[_function(item)]) and not _is_in_share(item, count)]
    config.hook.pytest_deselected(items=left_out)
    unwanted = set(left_out)
    items[:] = [item for item in items if item not in unwanted]


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _is_in_share(item: pytest.Item, count: int) -> bool:
    number = zlib.crc32(item.nodeid.encode())
    return number % max(min(_SHARE, count // _LEAST), 1) == 0


@pytest.fixture
def diagnostics() -> Iterator[ClaimedDiagnostics]:
    """A collector; the test fails if a warning or error is reported that it did not claim."""
    collector = ClaimedDiagnostics()
    yield collector
    left = collector.unclaimed()
    assert not left, "diagnostics that the test did not claim:\n" + "\n".join(str(d) for d in left)


@pytest.fixture
def no_program_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every program is traced: for tests that change constants of the code generator, which the cache cannot know."""
    monkeypatch.setattr("kinema.backend.executables.program_key", lambda *_: None)
