"""Helpers shared by the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinema.foundation import Diagnostic, Diagnostics, Severity

ROOT = Path(__file__).parent.parent
SHARED_ASSETS = ROOT.parent / "shared" / "assets"
EXAMPLES = ROOT / "examples" / "robots"
HANG = 60.0
"""Seconds after which something hangs; tests measure no speed, machines differ."""


def assets(relative: str) -> Path:
    """A file among the shared robots; the test is skipped where they are not there."""
    path = SHARED_ASSETS / relative
    if not path.exists():
        pytest.skip(f"the shared robots are not beside this checkout ({relative})")
    return path


def all_assets(*patterns: str) -> list[Path]:
    """The shared robots that match any of the patterns, for parametrised tests; empty where they are not there."""
    return sorted({p for pattern in patterns for p in SHARED_ASSETS.glob(pattern)})


def asset_id(path: Path) -> str:
    """A short test id for a shared robot."""
    return str(path.relative_to(SHARED_ASSETS)) if path.is_relative_to(SHARED_ASSETS) else path.name


class ClaimedDiagnostics(Diagnostics):
    """A collector that knows which of its warnings and errors the test expected."""

    def __init__(self) -> None:
        super().__init__()
        self.claimed: set[int] = set()

    def claim(self, code: str) -> Diagnostic:
        """Expect one diagnostic with this code: the first that was not claimed yet."""
        for item in self.items:
            if item.code == code and id(item) not in self.claimed:
                self.claimed.add(id(item))
                return item
        raise AssertionError(f"no unclaimed diagnostic {code!r} among: {[str(d) for d in self.items]}")

    def claim_all(self, code: str) -> list[Diagnostic]:
        """Expect one or more diagnostics with this code."""
        found = [d for d in self.items if d.code == code]
        if not found:
            raise AssertionError(f"no diagnostic {code!r} among: {[str(d) for d in self.items]}")
        self.claimed.update(id(d) for d in found)
        return found

    def unclaimed(self) -> list[Diagnostic]:
        """Warnings and errors that nobody expected."""
        return [d for d in self.items if d.severity is not Severity.NOTE and id(d) not in self.claimed]
