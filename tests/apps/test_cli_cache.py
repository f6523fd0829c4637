"""`kinema cache`: what it shows, deletes and refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from kinema.apps.cli.cache import format_age, format_bytes
from kinema.apps.cli.command_groups import parse_size
from kinema.core import cache_limit, load_entry, store_entry
from kinema.runtime import executables
from kit import command_line


def run(*arguments: object) -> tuple[int, str, str]:
    return command_line.run("cache", *arguments)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with three entries, the first of which was used a while ago."""
    cache = tmp_path / "cache"
    executables.finish_storing()  # of tests before, or their programs end up in this cache
    monkeypatch.setenv("KINEMA_CACHE", str(cache))
    for number in range(2):
        store_entry("programs", f"p{number}", {"numbers": np.arange(25_000.0)})
    store_entry("code", "c", {"code": b"x" * 1000})
    two_days_ago = time.time() - 2 * 86400
    os.utime(cache / "programs" / "p0.entry", (two_days_ago, two_days_ago))
    return cache


def test_entries_are_listed_by_kind(folder: Path) -> None:
    code, out, err = run()
    assert (code, err) == (0, "")
    assert str(folder) in out
    assert "4.0 GB, of which 401.5 kB are used" in out
    rows = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert rows["programs"].split()[1:4] == ["2", "400.4", "kB"]
    assert "2 days ago" in rows["programs"]
    assert "just now" in rows["programs"]
    assert rows["code"].split()[1:4] == ["1", "1.2", "kB"]
    assert rows["total"].split()[1:4] == ["3", "401.5", "kB"]


def test_json_has_the_same(folder: Path) -> None:
    data = json.loads(run("--json")[1])
    assert (data["folder"], data["limit"], data["entries"]) == (str(folder), 4 * 10**9, 3)
    assert data["bytes"] == sum(f.stat().st_size for f in folder.rglob("*.entry"))
    programs, code = data["kinds"]
    assert (programs["kind"], programs["entries"], code["kind"], code["entries"]) == ("programs", 2, "code", 1)
    assert programs["oldest_use"] < programs["newest_use"]


@pytest.mark.usefixtures("folder")
def test_a_cache_without_entries_is_empty() -> None:
    assert "401.5 kB deleted" in run("clear")[1]
    assert "the cache is empty" in run()[1]
    assert json.loads(run("--json")[1])["kinds"] == []
    assert json.loads(run("clear", "--json")[1])["freed"] == 0
    assert load_entry("programs", "p1") is None


def test_a_lower_limit_deletes_the_least_recently_used_at_once(folder: Path) -> None:
    code, out, _ = run("limit", "300kB")
    assert (code, cache_limit()) == (0, 300_000)
    assert "limit: 300.0 kB, of which 201.3 kB are used; 200.2 kB deleted" in out
    assert not (folder / "programs" / "p0.entry").exists()
    assert load_entry("programs", "p1") is not None
    assert run("limit")[1].strip() == "300.0 kB"
    assert json.loads(run("limit", "--json")[1]) == {"limit": 300_000}
    run("clear")
    assert cache_limit() == 300_000


def test_path_is_the_folder_alone(folder: Path) -> None:
    assert run("path") == (0, f"{folder}\n", "")
    assert json.loads(run("path", "--json")[1]) == {"folder": str(folder)}


@pytest.mark.parametrize("size", ["much", "-1GB", "3 apples", "1e9", "", "9999999999TB"])
def test_what_is_no_size_is_refused_in_one_sentence(folder: Path, size: str) -> None:
    code, _, err = run("limit", "--", size)
    assert code == 2
    assert "SIZE" in err
    assert not (folder / "limit").exists()


@pytest.mark.parametrize(
    ("text", "count"),
    [("2GB", 2 * 10**9), ("500 MB", 5 * 10**8), ("1.5GiB", 3 * 2**29), ("10k", 10**4), ("0", 0), ("17", 17)],
)
def test_sizes_have_the_usual_units(text: str, count: int) -> None:
    assert parse_size(text) == count


def test_sizes_and_ages_are_readable() -> None:
    assert [format_bytes(n) for n in (0, 999, 1000, 2_500_000)] == ["0 B", "999 B", "1.0 kB", "2.5 MB"]
    assert [format_age(s) for s in (3, 61, 7300, 90_000)] == ["just now", "1 minute ago", "2 hours ago", "1 day ago"]


def test_a_limit_that_cannot_be_stored_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("KINEMA_CACHE", str(tmp_path / "file"))
    code, out, err = run("limit", "1GB")
    assert (code, out) == (2, "")
    assert err.startswith("error: the limit is not changed: ")
    assert len(err.strip().splitlines()) == 1


def test_the_help_needs_none_of_the_heavy_packages() -> None:
    program = (
        "import sys\nfrom typer.testing import CliRunner\nimport kinema.apps.cli as cli\n"
        "out = CliRunner().invoke(cli.app, ['cache', '--help']).stdout\nassert 'limit' in out and 'clear' in out\n"
        "print([m for m in ('warp', 'numpy', 'scipy', 'mujoco', 'pxr') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
