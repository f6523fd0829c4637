"""Fixtures for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from kit.diagnostics import ClaimedDiagnostics

settings.register_profile(
    "kinema", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("kinema")


@pytest.fixture
def diagnostics() -> Iterator[ClaimedDiagnostics]:
    """A collector; the test fails if a warning or error is reported that it did not claim."""
    collector = ClaimedDiagnostics()
    yield collector
    left = collector.unclaimed()
    assert not left, "diagnostics that the test did not claim:\n" + "\n".join(str(d) for d in left)
