"""Tests that documents name are there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
DOCUMENTS = sorted((TESTS.parent / "docs").rglob("*.md"))
NAMED = re.compile(r"`(?:tests/)?([\w/]+\.py)::(test_\w+)`")


def test_defects_have_tests() -> None:
    """Each row of the table of regressions names at least one test."""
    text = (TESTS.parent / "docs" / "internals" / "conversion.md").read_text(encoding="utf-8")
    section = text.partition("## Regressions and their tests")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 30
    assert [row for row in rows if not NAMED.search(row)] == []


def test_named_tests_exist() -> None:
    missing = []
    for document in DOCUMENTS:
        for place, name in NAMED.findall(document.read_text(encoding="utf-8")):
            files = list(TESTS.rglob(place)) if "/" not in place else [TESTS / place]
            if not any(f.is_file() and f"def {name}(" in f.read_text(encoding="utf-8") for f in files):
                missing.append(f"{document.name}: {place}::{name}")
    assert missing == []
