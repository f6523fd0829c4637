"""The add-in itself: its button, its output that is whole or none, and that it leaves the design as it was."""

from __future__ import annotations

import ast
import json
import struct
import sys
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinema.read.cad import read_cad
from kit.assets import ROOT
from kit.cad.addin import export, module
from kit.cad.fake_adsk import FakeFusion
from kit.cad.fake_fusion import FakeDesign
from kit.cad.fake_math import Matrix3D, shift
from kit.diagnostics import ClaimedDiagnostics

from .test_cad_fusion import A_POSE, part, two_parts

ADDIN = ROOT / "integrations" / "fusion360" / "KinemaExport"


@pytest.fixture
def fusion(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeFusion:
    """Fusion with a design of two parts, and the add-in running."""
    design, _ = two_parts("ball", values={"pitch": 0.4})
    app = FakeFusion(design, str(tmp_path))
    app.install(monkeypatch)
    module("exporter.run")
    for name in ("command", "KinemaExport"):  # they were imported with the application of another test
        monkeypatch.delitem(sys.modules, f"KinemaExport.{name}", raising=False)
        monkeypatch.delattr(sys.modules["KinemaExport"], name, raising=False)
    module("KinemaExport").run({})
    return app


def button(app: FakeFusion) -> str:
    return next(iter(app.commandDefinitions.known))


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_button_comes_and_goes(fusion: FakeFusion) -> None:
    """Starting twice, as after a crash, is no trouble; stopping leaves nothing behind."""
    assert list(fusion.panel.controls.known) == list(fusion.commandDefinitions.known)
    icons = Path(fusion.commandDefinitions.itemById(button(fusion)).folder)
    assert {"16x16.png", "32x32.png"} <= {f.name for f in icons.iterdir()}
    module("KinemaExport").run({})
    assert len(fusion.commandDefinitions.known) == 1
    module("KinemaExport").stop({})
    assert fusion.panel.controls.known == fusion.commandDefinitions.known == {}
    assert fusion.messages == []


def test_the_command_writes_a_snapshot(fusion: FakeFusion, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """With a progress bar that can be cancelled, and a message at the end."""
    fusion.press(button(fusion))
    assert fusion.progress.isCancelButtonShown
    assert not fusion.progress.showing
    assert [t.split()[0] for t in fusion.progress.titles] == ["Part", "Checking"]
    assert len(fusion.messages) == 1
    assert "2 parts, 1 joints, 2 meshes" in fusion.messages[0]
    robot = read_cad(tmp_path / "robot_v1" / "snapshot.json", diagnostics=diagnostics)
    assert robot.attributes["cad:source"]["program_version"] == "2.0.1"
    assert robot.attributes["cad:up"] == "y", "the user's preference"


def test_cancelling_leaves_nothing(fusion: FakeFusion, tmp_path: Path) -> None:
    """Neither files nor a joint that is not where it was."""
    design = fusion.activeProduct
    before = {p: design.pose(p).copy() for p in design.paths()}
    for steps in range(4):
        fusion.progress.cancel_after, fusion.progress.steps = steps, 0
        fusion.press(button(fusion))
        assert list(tmp_path.iterdir()) == [] or steps == 3
        assert all(np.abs(design.pose(p) - m).max() < 1e-9 for p, m in before.items())
    assert ["Cancelled" in m for m in fusion.messages] == [True, True, True, False]


def test_changing_ones_mind(fusion: FakeFusion) -> None:
    """Closing the folder dialog writes nothing and says nothing; without a design there is a message."""
    fusion.folder = ""
    fusion.press(button(fusion))
    assert fusion.messages == []
    fusion.activeProduct = None
    fusion.press(button(fusion))
    assert fusion.messages == ["Open a design first."]


def test_an_error_is_shown(fusion: FakeFusion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a message box, with its traceback; nothing is left on the disk."""

    def broken(self: Any) -> None:
        raise KeyError("surprise")

    monkeypatch.setattr(type(fusion.activeProduct.rootComponent), "rigidGroups", property(broken))
    fusion.press(button(fusion))
    assert "surprise" in fusion.messages[0]
    assert "Nothing was written" in fusion.messages[0]
    assert list(tmp_path.iterdir()) == []
    fusion.folder = str(tmp_path / "nowhere")
    fusion.press(button(fusion))
    assert "no folder" in fusion.messages[1]


# -- output -----------------------------------------------------------------------------------------------------------


def test_an_earlier_snapshot_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    """A folder of that name which is no snapshot is left alone."""
    design, _ = two_parts("rigid")
    first = export(design, tmp_path)
    (first.parent / "old.txt").write_text("from the earlier export")
    assert export(design, tmp_path) == first
    assert not (first.parent / "old.txt").exists()
    mine = tmp_path / "robot_v1"
    (mine / "snapshot.json").write_text("{}")
    assert export(design, tmp_path).parent.name == "robot_v1_2"
    assert (mine / "snapshot.json").read_text() == "{}"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["robot_v1", "robot_v1_2"]


def test_a_failing_rename_brings_the_old_one_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when another program has a file of it open."""
    design, _ = two_parts("rigid")
    text = export(design, tmp_path).read_text()
    output = module("exporter.output")
    rename = output.os.rename

    def fails(old: str, new: str) -> None:
        if new.endswith("robot_v1") and "old" not in old:
            raise PermissionError("in use")
        rename(old, new)

    monkeypatch.setattr(output.os, "rename", fails)
    with pytest.raises(PermissionError):
        export(design, tmp_path)
    assert (tmp_path / "robot_v1" / "snapshot.json").read_text() == text
    assert [p.name for p in tmp_path.iterdir()] == ["robot_v1"]


def test_names_become_file_names(tmp_path: Path) -> None:
    """Components and designs may be called anything."""
    design = FakeDesign('a/b: "c" \U0001f9be')
    for name in ("Ünï", "part", "PART"):
        design.root.add(part(design, name), A_POSE)
    folder = export(design, tmp_path).parent
    assert folder.name == "a_b_c"
    assert sorted(p.name for p in (folder / "meshes").iterdir()) == [
        "PART_PART_body_2.stl",
        "Uni_Uni_body.stl",
        "part_part_body.stl",
    ]


def test_numbers_keep_all_their_digits(tmp_path: Path) -> None:
    """What the snapshot says of a pose is what the API said, bit for bit; and NaN is refused."""
    design, data = two_parts("revolute", values={"rotation": 0.1 + 1e-16})
    snapshot = json.loads(export(design, tmp_path).read_text(encoding="utf-8"))
    assert snapshot["occurrences"][0]["pose"] == design.pose(("A:1",)).ravel().tolist()
    assert snapshot["joints"][0]["motions"]["rotation"]["value"] == data.values["rotation"]
    design.values_of(data, ())["rotation"] = np.nan
    with pytest.raises(module("exporter.errors").ExportError, match="number"):
        export(design, tmp_path, probe=False)


def test_stl_files() -> None:
    """Binary STL: a header, a count, and for each triangle its normal and corners."""
    data = module("exporter.meshes").stl_bytes([0, 0, 0, 1, 0, 0, 0, 1, 0], [0, 1, 2, 0, 0, 1])
    assert len(data) == 84 + 2 * 50
    assert struct.unpack("<I", data[80:84]) == (2,)
    assert struct.unpack("<12f", data[84:132]) == (0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0)
    assert not data.startswith(b"solid"), "which would pass for a text file"


# -- the design is left as it was -------------------------------------------------------------------------------------


@pytest.mark.parametrize("pending", [False, True])
def test_moves_that_were_not_captured_are_not_reverted(tmp_path: Path, pending: bool) -> None:
    """Only what the check itself left pending is reverted."""
    design, _ = two_parts("revolute")
    design.snapshots.hasPendingSnapshot = pending
    export(design, tmp_path)
    assert design.snapshots.reverts == (0 if pending else 1)


def test_joints_are_put_back_whatever_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where something goes wrong that is no fault of the API."""
    design, data = two_parts("planar", values={"rotation": 0.3})
    probe = module("exporter.probe")

    def breaks(*args: Any) -> None:
        design.drive(data, (), "rotation", 2.0)
        raise KeyError("surprise")

    monkeypatch.setattr(probe, "_measure", breaks)
    with pytest.raises(KeyError):
        export(design, tmp_path)
    assert design.values_of(data, ()) == {"primary_slide": 0.0, "secondary_slide": 0.0, "rotation": 0.3}


def test_steps_stay_within_limits(tmp_path: Path) -> None:
    """Towards the side with more room; a joint with no room is not driven."""
    for value, limits, expected in (
        (0.0, (None, None), 0.1),
        (1.0, (0.0, 1.0), 0.9),
        (0.0, (0.0, 0.04), 0.04),
        (0.5, (0.5, 0.5), None),
    ):
        design, _ = two_parts("revolute", values={"rotation": value}, limits={"rotation": limits})
        joint = json.loads(export(design, tmp_path).read_text(encoding="utf-8"))["joints"][0]
        found = [s["values"]["rotation"] for s in joint["probe"]]
        assert found == ([] if expected is None else [pytest.approx(expected)])


# -- the package ------------------------------------------------------------------------------------------------------


def test_the_manifest() -> None:
    """What Fusion wants to know."""
    manifest = json.loads((ADDIN / "KinemaExport.manifest").read_text(encoding="utf-8"))
    assert manifest["autodeskProduct"] == "Fusion360"
    assert manifest["type"] == "addin"
    uuid.UUID(manifest["id"])
    assert (ADDIN / manifest["iconFilename"]).is_file()
    assert manifest["version"] in module("exporter.run").EXPORTER


@pytest.mark.parametrize("size", [16, 32, 64])
def test_the_icons(size: int) -> None:
    """PNG files of the right size."""
    data = (ADDIN / "resources" / f"{size}x{size}.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", data[16:24]) == (size, size)


def test_it_runs_in_the_python_of_fusion() -> None:
    """Python 3.9 reads every file, and nothing is imported but the standard library and, in one file, `adsk`."""
    for file in sorted(ADDIN.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file), feature_version=(3, 9))
        for node in ast.walk(tree):
            assert not isinstance(node, ast.Match), file
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            for name in names:
                top = name.split(".")[0]
                assert top in sys.stdlib_module_names or (top == "adsk" and file.name == "command.py"), (file, name)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "zip":
                assert not [k for k in node.keywords if k.arg == "strict"], (file, node.lineno)


def test_the_fake_inverts_in_place() -> None:
    """As the API does: what was asked for once must not be inverted and used again."""
    matrix = Matrix3D(shift([1, 2, 3]))
    assert matrix.invert() is True
    assert matrix.translation.x == -1
