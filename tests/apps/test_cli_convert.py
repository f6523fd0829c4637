"""`kinema convert`, and OpenUSD's validators beside ours in `kinema check`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kinema.read import openusd_validation, read
from kit.assets import EXAMPLES, assets
from kit.command_line import run

ARM = EXAMPLES / "arm" / "arm.urdf"

BAD_STAGE = """#usda 1.0
(
    defaultPrim = "world"
    upAxis = "Z"
    metersPerUnit = 1
    kilogramsPerUnit = 1
)
def Xform "world"
{
    def Xform "body" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"])
    {
        float physics:mass = 1
        def Sphere "ball" (prepend apiSchemas = ["PhysicsCollisionAPI"])
        {
            double3 xformOp:scale = (1, 2, 3)
            uniform token[] xformOpOrder = ["xformOp:scale"]
        }
        def Xform "inner" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"])
        {
            float physics:mass = 1
            def Cube "box" (prepend apiSchemas = ["PhysicsCollisionAPI"])
            {
            }
        }
    }
    def PhysicsRevoluteJoint "hinge"
    {
        rel physics:body0 = </world/body>
        rel physics:body1 = </world/nowhere>
    }
}
"""


@pytest.mark.parametrize("layout", ["nested", "flat"])
def test_a_robot_is_converted(tmp_path: Path, layout: str) -> None:
    """The file is there, in the layout that was asked for, and losses do not make it a failure."""
    out = tmp_path / "arm.usda"
    code, text, _ = run("convert", ARM, out, "--layout", layout)
    assert code == 0
    assert "11 links" in text
    nested = any(link.nested_in for link in read(out).links)
    assert nested == (layout == "nested")


def test_the_report_has_every_loss(tmp_path: Path) -> None:
    """`--report` writes JSON; the table sums it up."""
    report = tmp_path / "losses.json"
    code, text, _ = run("convert", ARM, tmp_path / "arm.usdc", "--report", report)
    data = json.loads(report.read_text())
    assert code == 0
    assert data["format"] == "usd"
    assert sum(data["counts"].values()) == len(data["losses"])
    assert "extension" in text


def test_the_layout_of_a_stage_is_changed(tmp_path: Path) -> None:
    """Nested to flat and back."""
    nested, flat = tmp_path / "nested.usda", tmp_path / "flat.usda"
    assert run("convert", ARM, nested)[0] == 0
    assert run("convert", nested, flat, "--layout", "flat")[0] == 0
    assert run("convert", flat, nested, "--layout", "nested")[0] == 0
    assert [link.name for link in read(nested).links] == [link.name for link in read(flat).links]


def test_errors_of_the_input_are_listed_and_the_rest_is_written(tmp_path: Path) -> None:
    """Status 1, with the output there."""
    (tmp_path / "bad.usda").write_text(BAD_STAGE)
    code, text, _ = run("convert", tmp_path / "bad.usda", tmp_path / "out.usda")
    assert code == 1
    assert "usd.joint-target" in text
    assert (tmp_path / "out.usda").exists()


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("nowhere.urdf", "out.usda", "no such file"),
        (str(ARM), "out.step", ".usda"),
    ],
)
def test_what_cannot_be_done_is_one_line(tmp_path: Path, source: str, target: str, words: str) -> None:
    """Status 2, a sentence on stderr, and no file."""
    code, _, err = run("convert", tmp_path / source if source.startswith("no") else source, tmp_path / target)
    assert code == 2
    assert words in " ".join(err.split())
    assert list(tmp_path.iterdir()) == []


def test_folders_of_outputs_are_made(tmp_path: Path) -> None:
    """Those of the file and of the report."""
    out, report = tmp_path / "new" / "er" / "arm.usda", tmp_path / "reports" / "arm.json"
    code, _, err = run("convert", ARM, out, "--report", report)
    assert (code, err) == (0, "")
    assert out.is_file()
    assert json.loads(report.read_text())["path"] == str(out)
    code, _, err = run("convert", ARM, out / "arm.usda")
    assert code == 2
    assert "cannot be made: it is a file" in " ".join(err.split())


def test_openusds_validators_speak_beside_ours(tmp_path: Path) -> None:
    """Each row says who speaks; the two lists are one."""
    file = tmp_path / "bad.usda"
    file.write_text(BAD_STAGE)
    code, text, _ = run("check", file, "--openusd")
    assert code == 1
    for words in ("Kinema", "OpenUSD", "openusd.JointInvalidPrimRel", "usd.joint-target", "articulation.nesting"):
        assert words in text
    _, data, _ = run("check", file, "--openusd", "--json")
    speakers = {d["by"] for d in json.loads(data)["diagnostics"]}
    assert speakers == {"Kinema", "OpenUSD"}
    assert "OpenUSD" not in run("check", file)[1].replace("OpenUSD's", "")


def test_validators_are_for_stages_only() -> None:
    """Asked about another format they say so, in a note."""
    code, text, _ = run("check", ARM, "--openusd")
    assert code == 0
    assert "openusd.not-a-stage" in text


def test_validation_gives_diagnostics_with_places(tmp_path: Path) -> None:
    """Codes are OpenUSD's names; the place is the prim."""
    file = tmp_path / "bad.usda"
    file.write_text(BAD_STAGE)
    found = {d.code: d for d in openusd_validation(file)}
    assert {"openusd.ColliderNonUniformScale", "openusd.JointInvalidPrimRel"} <= set(found)
    assert found["openusd.ColliderNonUniformScale"].origin.path == "/world/body/ball"


def test_a_shared_stage_is_valid() -> None:
    """OpenUSD finds nothing wrong with a stage that a converter made."""
    assert openusd_validation(assets("usd/conv_mjcf_panda/panda.usdc")) == []
