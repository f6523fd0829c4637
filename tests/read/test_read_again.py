"""A file that is read again in one process: the same description without reading it, until a file of it changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kinema.builder import EntitySpec, build_model
from kinema.core import Diagnostics, KinemaError, collect, content_digest, raise_on_error
from kinema.description import Mesh, Robot, World
from kinema.read import cached_read, observations, read, read_again
from kit.assets import EXAMPLES

MJCF = """<mujoco><include file="more.xml"/><asset><mesh name="m" file="m.obj"/></asset><worldbody>
<body name="a"><joint name="j"/><geom type="mesh" mesh="m"/><geom size=".1"/></body></worldbody></mujoco>"""
OBJ = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n"
URDF = """<robot name="r"><link name="a"><visual><geometry><mesh filename="package://parts/m.obj"/></geometry></visual>
</link></robot>"""


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_read, "_kept", type(cached_read._kept)())


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were really read."""
    seen: list[str] = []

    def counted(source: Any, **how: Any) -> Any:
        seen.append(Path(source).name)
        return read(source, **how)

    monkeypatch.setattr(cached_read, "read", counted)
    return seen


def model(folder: Path) -> Path:
    (folder / "model.xml").write_text(MJCF, encoding="utf-8")
    (folder / "more.xml").write_text('<mujoco><option gravity="0 0 -1"/></mujoco>', encoding="utf-8")
    (folder / "m.obj").write_text(OBJ, encoding="utf-8")
    return folder / "model.xml"


def digest(description: Robot | World) -> str:
    """Digest of the model of a description."""
    return content_digest(build_model([EntitySpec(name="it", description=description)], with_contacts=True))


def aged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as old at once: only time stamps, sizes and inodes are compared."""
    monkeypatch.setattr(observations, "RECENT_NS", 0)


def test_a_copy_of_its_own(tmp_path: Path, reads: list[str]) -> None:
    """Equal to what reading gives, and changing it changes no other."""
    for file in (model(tmp_path), EXAMPLES / "arm" / "arm.urdf", EXAMPLES / "quadruped" / "scene.xml"):
        reads.clear()
        first, second = read_again(file, collect), read_again(file, collect)
        assert reads == [file.name]
        fresh = read(file, policy=collect)
        assert digest(second) == digest(fresh)
        assert [str(d) for d in second.diagnostics] == [str(d) for d in fresh.diagnostics]
        assert second.diagnostics is not first.diagnostics
        second.name = "other"
        second.links[0].name = "changed"
        third = read_again(file, collect)
        assert third.name == first.name
        assert third.links[0].name == first.links[0].name
        assert reads == [file.name]


def replace_mesh(folder: Path) -> None:
    """Another mesh of the same name, size and time of modification."""
    mesh, other = folder / "m.obj", folder / "other.obj"
    other.write_text(OBJ.replace("v 1", "v 3"), encoding="utf-8")
    os.utime(other, ns=(mesh.stat().st_atime_ns, mesh.stat().st_mtime_ns))
    other.replace(mesh)


CHANGES: dict[str, Callable[[Path], object]] = {
    "the file": lambda f: (f / "model.xml").write_text(MJCF.replace('"j"', '"k"'), encoding="utf-8"),
    "an included file": lambda f: (f / "more.xml").write_text(
        '<mujoco><option gravity="0 0 -2"/></mujoco>', encoding="utf-8"
    ),
    "a mesh of equal size": lambda f: (f / "m.obj").write_text(OBJ.replace("v 1", "v 3"), encoding="utf-8"),
    "a mesh that is gone": lambda f: (f / "m.obj").unlink(),
    "another file in its place": replace_mesh,
}


@pytest.mark.parametrize("old", [False, True], ids=["just written", "old"])
@pytest.mark.parametrize("change", CHANGES)
def test_changed_files_are_noticed(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch, change: str, old: bool
) -> None:
    """Of the file, of an included one, of a mesh: also without another size, in the moment after reading it."""
    file = model(tmp_path)
    if old:
        aged(monkeypatch)
        time.sleep(0.02)  # beyond the resolution of time stamps
    before = digest(read_again(file, collect))
    CHANGES[change](tmp_path)
    try:
        after = digest(read_again(file, collect))
    except KinemaError:
        after = ""
    assert reads == ["model.xml"] * 2
    assert after != before


def test_restored_time_stamps_do_not_hide_a_change(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of the change of the inode is compared as well."""
    file = model(tmp_path)
    aged(monkeypatch)
    time.sleep(0.02)
    read_again(file, collect)
    times = file.stat()
    file.write_text(MJCF.replace('"j"', '"k"'), encoding="utf-8")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    read_again(file, collect)
    assert len(reads) == 2


def test_a_file_that_appears_is_found(tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """References that led nowhere, or elsewhere, are resolved again: in the folders around, on search paths."""
    file = tmp_path / "robot" / "r.urdf"
    file.parent.mkdir()
    file.write_text(URDF, encoding="utf-8")
    missing = read_again(file, collect)
    assert missing.diagnostics.errors() or missing.diagnostics.items
    (tmp_path / "robot" / "parts").mkdir()
    (tmp_path / "robot" / "parts" / "m.obj").write_text(OBJ, encoding="utf-8")
    found = read_again(file, collect)
    assert len(reads) == 2
    assert isinstance(found, Robot)
    mesh = found.links[0].shapes[0].geometry
    assert isinstance(mesh, Mesh)
    assert Path(str(mesh.path)).parent.name == "parts"
    monkeypatch.setenv("ROS_PACKAGE_PATH", str(tmp_path / "elsewhere"))
    read_again(file, collect)
    assert len(reads) == 3


def test_diagnostics_are_reported_again(tmp_path: Path, reads: list[str]) -> None:
    """To the policy of each caller, which may raise."""
    file = tmp_path / "r.urdf"
    file.write_text(URDF, encoding="utf-8")
    said: list[str] = []
    first = read_again(file, lambda d: said.append(d.code))
    assert said
    again: list[str] = []
    second = read_again(file, lambda d: again.append(d.code))
    assert again == said == [d.code for d in second.diagnostics] == [d.code for d in first.diagnostics]
    assert isinstance(second.diagnostics, Diagnostics)
    if first.diagnostics.errors():
        with pytest.raises(KinemaError):
            read_again(file, raise_on_error)
    assert len(reads) == 1


def test_what_is_not_kept(tmp_path: Path, reads: list[str]) -> None:
    """Files of which not all dependencies are known: those of other formats, and xacro."""
    xacro = tmp_path / "r.urdf.xacro"
    xacro.write_text(
        '<robot name="r" xmlns:xacro="http://ros.org/wiki/xacro"><link name="${1 + 1}"/></robot>', encoding="utf-8"
    )
    for file in (xacro, EXAMPLES / "gripper" / "gripper.sdf"):
        reads.clear()
        read_again(file, collect)
        read_again(file, collect)
        assert len(reads) == 2


def test_kept_descriptions_are_bounded(tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Those read least recently are dropped."""
    files = [
        EXAMPLES / "arm" / "arm.urdf",
        EXAMPLES / "quadruped" / "scene.xml",
        EXAMPLES / "cartpole" / "cartpole.xml",
    ]
    for file in files:
        read_again(file, collect)
    sizes = [len(kept.content) for kept in cached_read._kept.values()]
    monkeypatch.setattr(cached_read, "MEMORY_LIMIT", sum(sizes[1:]))
    monkeypatch.setattr(cached_read, "_kept", type(cached_read._kept)())
    for file in (*files, *files[1:]):
        read_again(file, collect)
    assert len(cached_read._kept) == 2
    assert len(reads) == 6
