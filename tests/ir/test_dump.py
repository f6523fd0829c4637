"""`KINEMA_DUMP` and `KINEMA_PERF`: what is written about compiled programs, and what profilers call them."""

from __future__ import annotations

import platform
import re
import sys
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from kinema.core import KinemaError
from kinema.ir import outline
from kinema.runtime import CACHE_ENV_VARIABLE
from kinema.runtime.host_jit import compile_host
from kinema.runtime.llvm_compiler import FOREGROUND, OptLevel
from kinema.runtime.perf_map import elf_functions, profile_name
from kinema.scene import Scene

BOXES = """<mujoco model="two boxes"><worldbody><geom type="plane" size="1 1 .1"/>
<body name="a" pos="0 0 .1"><freejoint/><geom type="box" size=".1 .1 .1"/></body>
<body name="b" pos="0 0 .31"><joint type="slide" axis="0 0 1" range="-1 1" limited="true"/>
<geom type="box" size=".1 .1 .1"/></body>
</worldbody></mujoco>"""
TEXT = """define void @kinema_loop_narrowphase() {
  ret void
}
define void @kinema_run(ptr %a, ptr %b, ptr %c, ptr %d, ptr %e, ptr %f, ptr %g, i64 %h, i64 %i, i64 %j, i64 %k, i64 %l,
                        i64 %m) {
  call void @kinema_loop_narrowphase()
  ret void
}
"""


@pytest.fixture
def boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A scene whose code is not cached, and whose long loops are functions of their own."""
    monkeypatch.setenv(CACHE_ENV_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(outline, "MIN_LOOP_INSTRUCTIONS", 300)
    file = tmp_path / "boxes.xml"
    file.write_text(BOXES)
    scene = Scene(quiet=True)
    scene.add(file)
    return scene


def test_everything_is_dumped_under_readable_names(
    boxes: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a" / "dump"
    monkeypatch.setenv("KINEMA_DUMP", str(folder))
    boxes.build()
    boxes.step()
    names = {re.sub("-[0-9a-f]{8}", "", file.name): file for file in folder.iterdir()}
    step = {f"two_boxes_step.{suffix}" for suffix in ("ir", "ll", "s", "narrowphase.ll", "narrowphase.s")}
    assert step | {"two_boxes.model.npz", "two_boxes.model.txt"} <= names.keys()
    for name, file in names.items():
        if name.endswith(".ll"):
            llvm.parse_assembly(file.read_text()).verify()
    assert re.search("^_?kinema_run:", names["two_boxes_step.s"].read_text(), re.MULTILINE)
    assert re.search("^_?kinema_loop_narrowphase:", names["two_boxes_step.narrowphase.s"].read_text(), re.MULTILINE)
    assert "rows of narrowphase" in names["two_boxes_step.ir"].read_text()


def test_all_arrays_of_the_model_are_dumped(boxes: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINEMA_DUMP", str(tmp_path / "dump"))
    boxes.build()
    (archive,) = (tmp_path / "dump").glob("*.npz")
    (text,) = (tmp_path / "dump").glob("*.txt")
    model, found = boxes.built.model, np.load(archive)  # nothing in it is pickled
    np.testing.assert_array_equal(found["qpos0"], model.qpos0)
    np.testing.assert_array_equal(found["derived.pair_invweight"], model.derived.pair_invweight)
    assert found["links.names"].tolist() == list(model.links.names)
    assert found["entities.0.name"] == "two boxes"
    heads = [line.partition(":")[0] for line in text.read_text().splitlines() if line[:1].strip()]
    assert heads == found.files
    assert f"qpos0: float64 {len(model.qpos0)}\n" in text.read_text()


def test_nothing_is_dumped_unasked(boxes: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KINEMA_DUMP", raising=False)
    boxes.build()
    boxes.prepare()
    assert not list(tmp_path.rglob("*.ll"))


def test_a_folder_that_cannot_be_written_is_one_sentence(
    boxes: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("KINEMA_DUMP", str(tmp_path / "file"))
    with pytest.raises(KinemaError, match=r"KINEMA_DUMP: .* cannot be written"):
        boxes.build()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ELF objects")
@pytest.mark.parametrize("level", list(OptLevel))
def test_functions_of_an_object_are_found_with_their_sizes(level: OptLevel) -> None:
    found = dict(elf_functions(FOREGROUND.compile(TEXT, level)))
    assert set(found) == {"kinema_run", "kinema_loop_narrowphase"}
    assert 0 < found["kinema_loop_narrowphase"] <= found["kinema_run"] < 1000


def test_other_files_have_no_functions() -> None:
    assert list(elf_functions(b"not an object file")) == []


def test_profilers_see_programs_and_their_loops() -> None:
    assert profile_name("kinema_run", "go2_step") == "go2_step"
    assert profile_name("kinema_loop_narrowphase", "go2_step") == "go2_step_narrowphase"


@pytest.mark.skipif(platform.system() != "Linux", reason="perf is of Linux")
def test_the_map_for_perf_has_addresses_sizes_and_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_ENV_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("KINEMA_PERF", "1")
    monkeypatch.setattr("kinema.runtime.perf_map.PERF_MAP_FOLDER", tmp_path)
    code = compile_host(TEXT, name="go2_step")
    (file,) = tmp_path.glob("perf-*.map")
    rows = {line.split()[2]: line.split() for line in file.read_text().splitlines()}
    assert rows.keys() == {"go2_step", "go2_step_narrowphase"}
    assert all(int(row[0], 16) > 0 and int(row[1], 16) > 0 and row[3] == "[baseline]" for row in rows.values())
    assert code.level is OptLevel.BASELINE
