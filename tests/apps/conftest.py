"""How wide a terminal is counts for what is printed: tests are without one."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests, and how wide their screen is."""
    monkeypatch.delenv("COLUMNS", raising=False)
