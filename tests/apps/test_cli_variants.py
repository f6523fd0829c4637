"""`--variant` of `kinema info`, `check` and `convert`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kinema.read.usd import read_usd
from kit.command_line import run

STAGE = """#usda 1.0
(
    defaultPrim = "robot"
    metersPerUnit = 1
    upAxis = "Z"
)
def Xform "robot" (
    variants = {
        string tool = "none"
    }
    prepend variantSets = "tool"
)
{
    variantSet "tool" = {
        "none" {
        }
        "hand" {
            def Sphere "hand" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"])
            {
            }
        }
    }
}
"""


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    file = tmp_path / "stage.usda"
    file.write_text(STAGE)
    return file


def test_info_and_check_read_the_chosen_variant(stage: Path) -> None:
    """Without a choice there is no link, with it there is one."""
    chosen = ("--variant", "/robot:tool=hand")
    assert "1 link" in run("info", stage, *chosen)[1]
    assert "1 link" not in run("info", stage)[1]
    for how in ((), ("--openusd",)):
        code, out, _ = run("check", stage, *chosen, *how, "--json")
        assert code == 0
        assert "graph.empty" not in out
    assert "graph.empty" in {d["code"] for d in json.loads(run("check", stage, "--json")[1])["diagnostics"]}


def test_convert_writes_the_chosen_variant(stage: Path, tmp_path: Path) -> None:
    """The output holds that variant alone."""
    out = tmp_path / "out.usda"
    assert run("convert", stage, out, "--variant", "/robot:tool=hand")[0] == 0
    assert [link.name for link in read_usd(out).links] == ["hand"]


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("tool=hand", "/prim/path:set=variant"),
        ("/robot:tool", "/prim/path:set=variant"),
        ("/robot:tool=saw", "there are: hand, none"),
        ("/robot:colour=red", "there are: tool"),
        ("/nobody:tool=hand", "no prim '/nobody'"),
    ],
)
@pytest.mark.parametrize("command", ["info", "check", "convert"])
def test_a_choice_that_cannot_be_made(stage: Path, tmp_path: Path, command: str, word: str, says: str) -> None:
    """One line that says what there is, and exit status 2."""
    to = (tmp_path / "out.usda",) if command == "convert" else ()
    code, _, err = run(command, stage, *to, "--variant", word)
    assert code == 2
    assert says in err.replace("\n", " ")
