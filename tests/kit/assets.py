"""Where the robots of the tests lie: the examples, and the shared ones beside the checkout."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
SHARED_ASSETS = ROOT.parent / "shared" / "assets"
EXAMPLES = ROOT / "examples" / "robots"


def assets(relative: str) -> Path:
    """A file among the shared robots; the test is skipped where they are not there."""
    path = SHARED_ASSETS / relative
    if not path.exists():
        import pytest  # tools use this file where it is not installed

        pytest.skip(f"the shared robots are not beside this checkout ({relative})")
    return path


def all_assets(*patterns: str) -> list[Path]:
    """The shared robots that match any of the patterns, for parametrised tests; empty where they are not there."""
    return sorted({p for pattern in patterns for p in SHARED_ASSETS.glob(pattern)})


def asset_id(path: Path) -> str:
    """A short test id for a shared robot."""
    return str(path.relative_to(SHARED_ASSETS)) if path.is_relative_to(SHARED_ASSETS) else path.name
