"""What tests share is found by one path, set in pyproject.toml; what a run selects, and says at its end."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kit.assets import ROOT
from kit.choosing import alternating, combinations, covering, representative_tuples, representatives

_CHANGED = re.compile(r"\bsys\.path\b|\bsyspath_prepend\b")


def test_nobody_changes_the_search_path() -> None:
    """Neither a test nor a tool does: `kit` is there, and a folder's own helpers are imported relatively."""
    files = [f for folder in ("tests", "tools") for f in (ROOT / folder).rglob("*.py") if f.name != "test_kit.py"]
    assert len(files) > 100
    assert [str(f.relative_to(ROOT)) for f in files if _CHANGED.search(f.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(("sizes", "strength"), [((3, 3), 1), ((4, 2), 1), ((2, 3, 3), 2), ((3, 2, 4, 2), 2)])
def test_any_values_meet_in_a_covering_array(sizes: tuple[int, ...], strength: int) -> None:
    axes = [[f"{name}{i}" for i in range(size)] for name, size in zip("abcd", sizes, strict=False)]
    found = covering(axes, strength)
    for group in itertools.combinations(range(len(axes)), strength):
        wanted = set(itertools.product(*(axes[i] for i in group)))
        assert {tuple(case[i] for i in group) for case in found} == wanted
    assert len(found) < len(list(itertools.product(*axes)))


def test_names_are_those_of_functions() -> None:
    """Not their addresses, which differ between the workers of a run."""
    assert [case.id for case in alternating([max, min], [1, 2])] == ["max-1", "max-2", "min-1", "min-2"]


def test_what_is_not_chosen_is_exhaustive() -> None:
    cases = combinations("ab", (1, 2, 3), strength=1)
    assert [case.id for case in cases] == ["a-1", "a-2", "a-3", "b-1", "b-2", "b-3"]
    assert sum(not case.marks for case in cases) == 3
    assert [hasattr(case, "marks") for case in representatives("abc", 1)] == [False, True, True]
    assert [hasattr(case, "marks") for case in representatives("abc", lambda case: case > "a")] == [True, False, False]
    pairs = representative_tuples([("a", 1), ("b", 2)], lambda case: case == ("b", 2))
    assert [(case.id, case.values, len(case.marks)) for case in pairs] == [("a-1", ("a", 1), 1), ("b-2", ("b", 2), 0)]


INNER = """
import pytest
from kit.choosing import alternating, representatives

@pytest.mark.parametrize("case", representatives("abc", 1))
def test_some(case): pass

@pytest.mark.parametrize("why", ["no oracle (run it)", "no oracle (run that)", "no GPU: none"])
def test_skips(why): pytest.skip(why)
"""


def run_inside(folder: Path, text: str, *options: str) -> str:
    """The end of a run of tests with the options and fixtures of this folder's."""
    (folder / "test_inner.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}", "-c"]
    command += [str(ROOT / "pyproject.toml"), "--confcutdir", str(ROOT), "-p", "conftest", *options, str(folder)]
    done = subprocess.run(command, cwd=ROOT / "tests", capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_a_run_is_summarised(tmp_path: Path) -> None:
    """Skips by reason in one line; exhaustive cases are run with --all."""
    said = run_inside(tmp_path, INNER)
    assert "Skipped 3: no oracle (2), no GPU (1)" in said
    assert "1 passed, 3 skipped, 2 deselected" in said
    assert "SKIPPED" not in said
    assert "3 passed, 3 skipped" in run_inside(tmp_path, INNER, "--all")


def test_who_is_slow_says_why(tmp_path: Path) -> None:
    said = run_inside(tmp_path, "import pytest\n@pytest.mark.slow\ndef test_long(): pass\n")
    assert '@pytest.mark.slow("reason") says why it takes long' in said
