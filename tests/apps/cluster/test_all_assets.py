"""All shared robots, converted on Ray nodes of this machine: as without them, whoever dies (`make cluster`)."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from kit.assets import SHARED_ASSETS
from kit.command_line import run
from kit.ray_nodes import contents, killed_driver, meanwhile, nodes

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore"),  # of Ray's own
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray: kinema[cluster]"),
    pytest.mark.skipif(not SHARED_ASSETS.exists(), reason="the shared robots are not beside this checkout"),
]
CONVERT = ("convert", str(SHARED_ASSETS))


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], list[object]]:
    """What conversion without a cluster gives: files, and what the report says of each."""
    out = tmp_path_factory.mktemp("local")
    run(*CONVERT, out, "--to", "usda", "--report", out.parent / "local.json")
    return contents(out), reported(out.parent / "local.json", out)


def reported(file: Path, out: Path) -> list[object]:
    """A report, whatever the folder that was written to is called."""
    return json.loads(file.read_text().replace(str(out), "OUT"))


def test_two_nodes_one_of_which_is_killed(local: tuple[dict[str, bytes], list[object]], tmp_path: Path) -> None:
    """File by file, and line by line of the report."""
    out, files = tmp_path / "out", local[0]
    with (
        nodes(2) as (cluster, added),
        meanwhile(
            lambda: len(list(out.rglob("*.usda"))) >= len(files) // 4,
            lambda: cluster.remove_node(added[0], allow_graceful=False),
        ) as killed,
    ):
        run(*CONVERT, out, "--to", "usda", "--report", tmp_path / "there.json", "--cluster")
    assert killed
    assert contents(out) == files
    assert reported(tmp_path / "there.json", out) == local[1]


def test_four_nodes_whose_driver_is_killed(local: tuple[dict[str, bytes], list[object]], tmp_path: Path) -> None:
    """What is done stays as it was, file by file; the rest is done, once."""
    out = tmp_path / "out"
    records = out / ".kinema" / "ledger"
    with nodes(4) as (cluster, _):
        words = [*CONVERT, str(out), "--to", "usda"]
        killed_driver([*words, "--cluster", cluster.address], lambda: len(list(records.glob("*.json"))) >= 30)
        before = {p: p.stat().st_mtime_ns for p in records.glob("*.json")}
        _, _, said = run(*words, "--report", tmp_path / "there.json", "--cluster")
    assert 30 <= len(before) < len(local[1])
    assert f"{len(before)} of {len(local[1])} files are done already" in " ".join(said.split())
    assert {p: p.stat().st_mtime_ns for p in before} == before
    assert contents(out) == local[0]
    assert reported(tmp_path / "there.json", out) == local[1]
