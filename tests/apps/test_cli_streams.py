"""Commands that were started without a standard stream, or with one that cannot take what they print."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROBOT = '<robot name="r"><link name="a"/></robot>'
KINEMA = f"exec {shlex.quote(sys.executable)} -m kinema"


def started(tmp_path: Path, command: str, redirected: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    """A command in a script: shells may leave the script open under the number of a closed stream."""
    (tmp_path / "r.urdf").write_text(ROBOT, encoding="utf-8")
    script = tmp_path / "script.sh"
    script.write_text(f"{KINEMA} {command}\n", encoding="utf-8")
    return subprocess.run(
        ["sh", "-c", f"sh {script} {redirected}"],
        cwd=tmp_path,
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(os.name != "posix", reason="shells of Unix")
def test_closed_streams_do_not_end_a_command(tmp_path: Path) -> None:
    """It once ended without a word as soon as there was something to say to a closed stream."""
    done = started(tmp_path, "info r.urdf", "2>&- <&-")
    assert done.returncode == 0
    assert "1 link" in done.stdout


@pytest.mark.skipif(os.name != "posix", reason="shells of Unix")
def test_streams_with_few_letters(tmp_path: Path) -> None:
    done = started(tmp_path, "check r.urdf", PYTHONIOENCODING="ascii")
    assert "Traceback" not in done.stderr
    assert done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_one_error(tmp_path: Path) -> None:
    done = started(tmp_path, "rules", "> /dev/full")
    assert done.returncode == 2
    assert done.stderr.startswith("kinema: error: what is printed cannot be written")
    assert len(done.stderr.splitlines()) == 1
