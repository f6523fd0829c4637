"""What tests share is found by one path, set in pyproject.toml."""

from __future__ import annotations

import re

from kit.assets import ROOT

_CHANGED = re.compile(r"\bsys\.path\b|\bsyspath_prepend\b")


def test_nobody_changes_the_search_path() -> None:
    """Neither a test nor a tool does: `kit` is there, and a folder's own helpers are imported relatively."""
    files = [f for folder in ("tests", "tools") for f in (ROOT / folder).rglob("*.py") if f.name != "test_kit.py"]
    assert len(files) > 100
    assert [str(f.relative_to(ROOT)) for f in files if _CHANGED.search(f.read_text(encoding="utf-8"))] == []
