"""Folders for results, here and elsewhere: files are whole or not there, whoever keeps them."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kinema.apps.cluster import Store, stores
from kinema.core import KinemaError, ReadError, WriteError
from kit.failing_stores import FULL

KINDS = ("folder", "local", "memory", "arrow")
NEEDS = {"local": "fsspec", "memory": "fsspec", "arrow": "pyarrow"}


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A folder; one that goes by an address; `fsspec`'s memory; a file system of Apache Arrow's."""
    pytest.importorskip(NEEDS.get(request.param, "os"), reason="needs kinema[cluster]")
    if request.param == "arrow":
        pytest.importorskip("fsspec", reason="needs kinema[cluster]")
        arrow: Any = importlib.import_module("pyarrow.fs")
        wrapper: Any = importlib.import_module("fsspec.implementations.arrow")
        below = arrow.SubTreeFileSystem(str(tmp_path), arrow.LocalFileSystem())
        monkeypatch.setattr(stores, "_arrow_file_system", lambda url: (wrapper.ArrowFSWrapper(below), "root"))
    places = {"folder": tmp_path / "a", "local": f"local://{tmp_path}/a", "memory": "memory://a", "arrow": "arrow9://a"}
    found = Store(places[request.param])
    yield found
    if request.param == "memory":
        found._fs.rm("/a", recursive=True)


def test_files_and_folders(store: Store) -> None:
    assert store.read("x") is None
    assert store.size("b/x") == -1
    assert store.list_files("b") == []
    store.write("b/x", b"123")
    store.write("b/x", b"1234")
    store.write("b/deep/y", b"")
    assert (store.read("b/x"), store.size("b/x"), store.list_files("b")) == (b"1234", 4, ["x"])
    assert store.read("b/deep/y") == b""


def half_written(pipe: Callable[[str, bytes], None]) -> Callable[[str, bytes], None]:
    def pipe_file(path: str, content: bytes) -> None:
        pipe(path, content[: len(content) // 2])
        raise FULL

    return pipe_file


def full(*_: Any) -> None:
    raise FULL


def test_a_full_disk_leaves_what_was_there(store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One sentence, and no draft. Object stores keep nothing of what did not come whole."""
    store.write("b/x", b"old")
    if store._fs is None:
        monkeypatch.setattr(stores.os, "fsync", full)
    else:
        is_memory = store.location.startswith("memory")
        monkeypatch.setattr(store._fs, "pipe_file", full if is_memory else half_written(store._fs.pipe_file))
    with pytest.raises(WriteError) as caught:
        store.write("b/x", b"new content")
    assert str(caught.value).endswith("b/x: No space left on device")
    assert "\n" not in str(caught.value)
    assert store.read("b/x") == b"old"
    assert store.list_files("b") == ["x"]
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] in (["x"], [])


def test_a_folder_goes_with_its_main_file_last(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    (source / "meshes").mkdir(parents=True)
    for name in ("a.urdf", "meshes/a.stl", "z.png"):
        (source / name).write_bytes(name.encode())
    written: list[str] = []
    write = Store.write
    monkeypatch.setattr(Store, "write", lambda self, name, data: (written.append(name), write(self, name, data))[1])
    store.upload_folder(source, last=source / "a.urdf")
    assert written == ["meshes/a.stl", "z.png", "a.urdf"]
    assert store.read("meshes/a.stl") == b"meshes/a.stl"


@pytest.mark.skipif(importlib.util.find_spec("fsspec") is None, reason="needs fsspec: kinema[cluster]")
def test_what_libraries_raise_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials, no network: their errors are no errors of files."""

    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("no credentials\n  were found")

    found = Store("memory://a")
    for name in ("cat_file", "pipe_file", "size", "ls"):
        monkeypatch.setattr(found._fs, name, refuse)
    for call in (lambda: found.read("x"), lambda: found.size("x"), found.list_files):
        with pytest.raises(ReadError, match=r"memory://a.*no credentials were found"):
            call()
    with pytest.raises(WriteError, match="memory://a/x: no credentials were found"):
        found.write("x", b"")
    with pytest.raises(KinemaError, match="nowhere9://a: nobody knows how to get there"):
        Store("nowhere9://a")
