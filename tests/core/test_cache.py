"""The cache on disk: what is read is what was stored, or nothing."""

from __future__ import annotations

import enum
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays

from kinema.core import (
    CACHE_ENV_VARIABLE,
    cache as cache_module,
    cache_usage,
    clear_cache,
    content_digest,
    load_entry,
    load_or_compute,
    process_lock,
    record_entries,
    set_cache_limit,
    source_digest,
    store_entry,
    store_recorded_entries,
)
from kinema.core.cache import _MAGIC, cache_dir, cache_limit, evict, write_atomically

VALUES: dict[str, Any] = {
    "numbers": np.linspace(0.0, 1.0, 7).reshape(7, 1),
    "flags": np.array([True, False]),
    "nothing": np.zeros((0, 3), np.int32),
    "one": np.array(2.5),
    "single": np.array([[1, 2], [3, 4]], np.float32).T,
    "code": b"\x00\xffcode",
    "empty": b"",
    "text": "Grüße",
    "tree": {"a": [1, 2.5, None, True, {"b": "c"}]},
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv(CACHE_ENV_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(cache_module._StoreStatistics, "bytes_since_eviction", 0)
    monkeypatch.setattr(cache_module._StoreStatistics, "has_evicted", False)
    return tmp_path / "cache"


def same(found: Any, expected: Any) -> None:
    """The same names, types, shapes and bits."""
    assert found is not None
    assert set(found) == set(expected)
    for name, value in expected.items():
        if isinstance(value, np.ndarray):
            assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape)
            assert found[name].tobytes() == value.tobytes()
        else:
            assert found[name] == value
            assert type(found[name]) is type(value)


def entry_file(folder: Path, kind: str = "derived") -> Path:
    (file,) = (folder / kind).iterdir()
    return file


# ------------------------------------------------------------------------------------------------------------- entries


def test_values_come_back() -> None:
    store_entry("derived", "key", VALUES)
    same(load_entry("derived", "key"), VALUES)


@settings(max_examples=30)
@given(
    values=st.dictionaries(
        st.text(max_size=5),
        st.one_of(
            arrays.arrays(arrays.scalar_dtypes(), arrays.array_shapes(min_dims=0, min_side=0, max_side=3)),
            st.binary(max_size=200),
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
                lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
                max_leaves=5,
            ),
        ),
        max_size=4,
    )
)
def test_any_values_come_back(values: dict[str, Any]) -> None:
    store_entry("derived", "any", values)
    same(load_entry("derived", "any"), values)


def test_arrays_are_read_only() -> None:
    """Several users of one entry do not disturb each other."""
    store_entry("derived", "key", VALUES)
    found = load_entry("derived", "key")
    assert found is not None
    with pytest.raises(ValueError, match="read-only"):
        found["numbers"][0] = 1.0


def test_what_is_not_there_is_nothing() -> None:
    assert load_entry("derived", "key") is None
    store_entry("derived", "key", VALUES)
    assert load_entry("derived", "another") is None
    assert load_entry("code", "key") is None


def test_it_is_made_once() -> None:
    made: list[int] = []

    def make() -> dict[str, Any]:
        made.append(1)
        return VALUES

    for _ in range(3):
        same(load_or_compute("derived", "key", make), VALUES)
    assert len(made) == 1


# -------------------------------------------------------------------------------------------------------------- damage

SMALL: dict[str, Any] = {"x": np.arange(3.0), "text": "t"}


def test_truncated_anywhere_it_is_nothing(folder: Path) -> None:
    store_entry("derived", "key", SMALL)
    file = entry_file(folder)
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        assert load_entry("derived", "key") is None, length
    file.write_bytes(whole + b"\0")
    assert load_entry("derived", "key") is None
    file.write_bytes(whole)
    same(load_entry("derived", "key"), SMALL)


def test_with_any_bit_flipped_it_is_nothing(folder: Path) -> None:
    store_entry("derived", "key", SMALL)
    file = entry_file(folder)
    whole = file.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        file.write_bytes(damaged)
        assert load_entry("derived", "key") is None, place


@pytest.mark.parametrize(
    "content", [b"", b"<html>not here</html>", bytes(500), os.urandom(500), _MAGIC, _MAGIC + bytes(36)]
)
def test_other_files_are_nothing(content: bytes, folder: Path) -> None:
    store_entry("derived", "key", SMALL)
    entry_file(folder).write_bytes(content)
    assert load_entry("derived", "key") is None


def test_an_entry_under_another_name_is_nothing(folder: Path) -> None:
    """Of another key, or another kind."""
    store_entry("derived", "key", SMALL)
    file = entry_file(folder)
    file.with_stem("other").write_bytes(file.read_bytes())
    assert load_entry("derived", "other") is None
    (folder / "code").mkdir()
    (folder / "code" / file.name).write_bytes(file.read_bytes())
    assert load_entry("code", "key") is None


def test_an_entry_of_another_version_is_made_again(folder: Path) -> None:
    store_entry("derived", "key", SMALL)
    file = entry_file(folder)
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"CACHE-1", b"CACHE-2", 1))
    assert load_entry("derived", "key") is None
    same(load_or_compute("derived", "key", lambda: SMALL), SMALL)
    assert file.read_bytes() == whole


@pytest.mark.parametrize("damage", [lambda whole: whole[:-1], lambda whole: b"", lambda whole: whole[::-1]])
def test_what_is_damaged_is_made_again(damage: Callable[[bytes], bytes], folder: Path) -> None:
    store_entry("derived", "key", SMALL)
    file = entry_file(folder)
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    same(load_or_compute("derived", "key", lambda: SMALL), SMALL)
    assert file.read_bytes() == whole


# ------------------------------------------------------------------------------------------------------------- writing

WRITER = """
import sys
import numpy as np
from kinema.core import load_entry, load_or_compute, store_entry
number = int(sys.argv[1])
sys.stdin.read()
for turn in range(30):
    for key in range(4):
        values = load_or_compute("derived", f"key{key}", lambda: {"x": np.full(20000, float(key))})
        assert (values["x"] == key).all()
        store_entry("derived", f"key{key}", {"x": np.full(20000, float(key))})
        found = load_entry("derived", f"key{key}")
        assert found is None or (found["x"] == key).all()
"""


def test_several_processes_may_write_at_once(folder: Path) -> None:
    """Nobody reads half of an entry; at the end there is one file for each key, and no other."""
    started = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(i)], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        for i in range(3)
    ]
    for writer in started:  # all at once
        assert writer.stdin is not None
        writer.stdin.close()
        writer.stdin = None
    for writer in started:
        _, errors = writer.communicate(timeout=300)
        assert writer.returncode == 0, errors.decode()
    assert sorted(file.name for file in folder.rglob("*") if file.is_file()) == [f"key{i}.entry" for i in range(4)]


class FullDisk:
    """A stream that takes some bytes and no more."""

    def __init__(self, handle: int, *_: object) -> None:
        self.handle = handle

    def __enter__(self) -> FullDisk:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.handle)

    def write(self, content: bytes) -> int:
        os.write(self.handle, content[:10])
        raise OSError(28, "No space left on device")


def test_a_full_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are there, files are not, and nothing is left of them."""
    monkeypatch.setattr(cache_module.os, "fdopen", FullDisk)
    for _ in range(2):
        same(load_or_compute("derived", "key", lambda: SMALL), SMALL)
    assert not [file for file in folder.rglob("*") if file.is_file()]
    assert not write_atomically(folder / "file", b"content")


def refuse(*_: object, **__: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_a_process_waits_for_another_one(folder: Path) -> None:
    """The lock is free once its holder leaves; nobody waits for longer than the time limit, or for other names."""
    order = []

    def wait() -> None:
        with process_lock("warp/a.lock"):
            order.append("second")

    with process_lock("warp/a.lock"), process_lock("warp/b.lock"):
        waiting = threading.Thread(target=wait)
        waiting.start()
        with process_lock("warp/a.lock", timeout=0.1):
            order.append("first")
    waiting.join(10.0)
    assert order == ["first", "second"]


def test_nobody_waits_where_nothing_can_be_locked(folder: Path) -> None:
    folder.write_text("a file where the folder should be")
    with process_lock("warp/a.lock"), process_lock("warp/a.lock"):
        pass


@pytest.mark.parametrize("why", ["a file in its place", "nothing may be made", "nothing may be written"])
def test_a_folder_that_cannot_be_written(why: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for root, whom permissions do not stop, what they would do."""
    if why == "a file in its place":
        folder.write_text("in the way", encoding="utf-8")
    elif why == "nothing may be made":
        monkeypatch.setattr(Path, "mkdir", refuse)
    else:
        monkeypatch.setattr(cache_module.tempfile, "mkstemp", refuse)
    for _ in range(2):
        same(load_or_compute("derived", "key", lambda: SMALL), SMALL)
    store_recorded_entries({"derived/key.entry": b"content"})
    with pytest.raises(OSError, match="limit"):
        set_cache_limit(100)
    assert cache_usage() == []


def test_an_entry_that_may_be_read_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that somebody else has filled: the time of its last use is not noted, and that is all."""
    store_entry("derived", "key", SMALL)
    monkeypatch.setattr(cache_module.os, "utime", refuse)
    same(load_entry("derived", "key"), SMALL)


# ------------------------------------------------------------------------------------------------------------ eviction


def used_at(folder: Path, key: str, age: float) -> None:
    """Set when an entry was last used [s before now]."""
    then = time.time() - age
    os.utime(folder / "derived" / f"{key}.entry", (then, then))


def keys(folder: Path) -> set[str]:
    return {file.stem for file in (folder / "derived").glob("*.entry")}


def test_the_least_recently_used_entries_go(folder: Path) -> None:
    """Reading is using; what is left takes less than the limit."""
    for i in range(10):
        store_entry("derived", f"k{i}", {"x": np.zeros(1000)})
        used_at(folder, f"k{i}", 1000.0 - i)
    size = (folder / "derived" / "k0.entry").stat().st_size
    assert load_entry("derived", "k0") is not None
    set_cache_limit(5 * size)
    assert keys(folder) == {"k0", "k7", "k8", "k9"}
    assert cache_limit() == 5 * size
    store_entry("derived", "new", {"x": np.zeros(1000)})
    assert {"new", "k9"} <= keys(folder)
    assert sum(usage.n_bytes for usage in cache_usage()) <= 5 * size


def test_the_limit_is_honoured_while_entries_are_stored(folder: Path) -> None:
    set_cache_limit(20_000)
    for i in range(40):
        store_entry("derived", f"k{i}", {"x": np.full(100, float(i))})
        used_at(folder, f"k{i}", 1000.0 - i)
    assert sum(usage.n_bytes for usage in cache_usage()) <= 20_000 + 2 * 2000
    assert "k39" in keys(folder)
    assert "k0" not in keys(folder)


def test_abandoned_temporary_files_go(folder: Path) -> None:
    """Those of writers that were killed; not those that are being written."""
    store_entry("derived", "key", SMALL)
    old, new = folder / "derived" / "old.tmp", folder / "derived" / "new.tmp"
    for file in (old, new):
        file.write_bytes(b"half")
    then = time.time() - 7200.0
    os.utime(old, (then, then))
    evict(cache_limit())
    assert not old.exists()
    assert new.exists()
    assert keys(folder) == {"key"}


def test_all_of_it_can_be_deleted(folder: Path) -> None:
    store_entry("derived", "key", SMALL)
    store_entry("code", "key", {"code": bytes(1000)})
    set_cache_limit(10**6)
    about = {usage.kind: (usage.n_files, usage.n_bytes) for usage in cache_usage()}
    assert set(about) == {"code", "derived"}
    assert about["code"][0] == 1
    assert clear_cache() == sum(size for _, size in about.values())
    assert cache_usage() == []
    assert cache_limit() == 10**6, "what the user has said stays"


def test_entries_go_to_other_machines(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are read as well as those that are written; what is there already stays."""
    store_entry("derived", "before", SMALL)
    store_entry("derived", "unused", SMALL)
    with record_entries() as found:
        load_entry("derived", "before")
        store_entry("code", "new", VALUES)
    store_entry("derived", "after", SMALL)
    assert set(found) == {"derived/before.entry", "code/new.entry"}
    monkeypatch.setenv(CACHE_ENV_VARIABLE, str(tmp_path / "there"))
    store_entry("code", "new", SMALL)
    store_recorded_entries(found)
    same(load_entry("derived", "before"), SMALL)
    same(load_entry("code", "new"), SMALL)


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_dir() == tmp_path / "cache"
    monkeypatch.delenv(CACHE_ENV_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache_dir() == tmp_path / "xdg" / "kinema"


# ------------------------------------------------------------------------------------------------------------- digests


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


class Shade(enum.Enum):
    RED = 1


@dataclass(frozen=True)
class Point:
    x: object
    y: object = 0.0


@dataclass(frozen=True)
class Spot:
    x: object
    y: object = 0.0


DIFFERENT: dict[str, Any] = {
    "int": 1,
    "float": 1.0,
    "bool": True,
    "text": "1",
    "bytes": b"1",
    "none": None,
    "zero": 0.0,
    "negative zero": -0.0,
    "not a number": float("nan"),
    "next": float(np.nextafter(1.0, 2.0)),
    "numpy float": np.float64(1.0),
    "numpy single": np.float32(1.0),
    "array": np.array([1.0]),
    "array without dimensions": np.array(1.0),
    "array of two dimensions": np.array([[1.0]]),
    "integers": np.array([1]),
    "short integers": np.array([1], np.int32),
    "bytes of the same": np.array([1.0]).view(np.int64),
    "booleans": np.array([True]),
    "other byte order": np.array([1.0], ">f8"),
    "a row": np.array([[1.0, 2.0]]),
    "a column": np.array([[1.0], [2.0]]),
    "matrix": np.array([[1.0, 2.0], [3.0, 4.0]]),
    "transposed": np.array([[1.0, 2.0], [3.0, 4.0]]).T,
    "empty array": np.zeros(0),
    "empty rows": np.zeros((0, 3)),
    "empty list": [],
    "empty mapping": {},
    "list": [1],
    "lists": [[1]],
    "two": [1, 2],
    "other order": [2, 1],
    "list of one list": [[1, 2]],
    "split": [[1], [2]],
    "texts": ["a", "b"],
    "one text": ["ab"],
    "text with a comma": ["a', 'b"],
    "mapping": {"a": 1},
    "mapping of another": {"a": 2},
    "mapping of another name": {"b": 1},
    "enumeration": Colour.RED,
    "another member": Colour.GREEN,
    "another enumeration": Shade.RED,
    "record": Point(1.0),
    "another record": Spot(1.0),
    "other content": Point(1.0, 1.0),
    "content of content": Point(Point(1.0)),
}


def test_different_values_have_different_digests() -> None:
    """Types, shapes, order and structure count."""
    found: dict[str, str] = {}
    for name, value in DIFFERENT.items():
        digest = content_digest(value)
        assert digest not in found, f"{name} and {found[digest]}"
        found[digest] = name
    assert content_digest("a", "b") != content_digest("ab")
    assert content_digest(1, 2) != content_digest([1, 2])


def test_equal_values_have_one_digest() -> None:
    matrix = np.arange(12.0).reshape(3, 4)
    same_values = (matrix, matrix.copy(order="F"), np.repeat(matrix, 2, axis=1)[:, ::2], matrix[::-1][::-1])
    assert len({content_digest(x) for x in same_values}) == 1
    assert content_digest({"b", "a", "c"}) == content_digest({"c", "b", "a"})
    assert content_digest(Point(matrix)) == content_digest(replace(Point(0.0), x=matrix.copy()))
    assert content_digest((1, 2)) == content_digest([1, 2]), "records that came from JSON have lists"


@pytest.mark.parametrize(
    "value", [object(), lambda: 0, 1j, np.array([object()]), Point], ids=lambda v: type(v).__name__
)
def test_what_has_no_digest_says_so(value: object) -> None:
    """Rather than one that differs from process to process."""
    with pytest.raises(TypeError, match="digest"):
        content_digest({"inside": [value]})


def test_digests_are_the_same_in_every_process() -> None:
    script = (
        "from kinema.core import content_digest, source_digest; import numpy as np\n"
        "value = {'set': {'a', 'bc', 'd'}, 'frozen': frozenset('kinema'), 'x': np.arange(5.0), 'y': (1, 2.5, None)}\n"
        "print(content_digest(value), source_digest('core'))"
    )
    found = set()
    for seed in ("0", "1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True)
        found.add(done.stdout.split()[1])
        found.add(done.stdout.split()[0])
    assert len(found) == 2
    assert source_digest("core").encode() in found
