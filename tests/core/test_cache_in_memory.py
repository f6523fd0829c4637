"""Entries of the cache that stay in memory, and packages that import their larger part when it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kinema.core import CACHE_ENV_VARIABLE, cache, clear_cache, load_or_compute, record_entries, store_recorded_entries
from kinema.core.cache import LruCache


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_ENV_VARIABLE, str(tmp_path))
    cache._memory_cache.clear()


def test_the_least_recently_used_results_are_forgotten_first() -> None:
    made: list[str] = []

    def use(recent: LruCache[str], key: str) -> None:
        def make() -> str:
            made.append(key)
            return key

        assert recent.get_or_compute(key, make, lambda _: 4) == key

    recent = LruCache[str](8)
    for key in "ababacab":  # the third one pushes out b, and b in turn c
        use(recent, key)
    assert made == ["a", "b", "c", "b"]
    recent.clear()
    use(recent, "a")
    assert made[-1] == "a"


def test_a_result_that_is_too_large_is_not_kept() -> None:
    recent = LruCache[int](8)
    assert [recent.get_or_compute("x", lambda i=i: i, lambda _: 9) for i in range(2)] == [0, 1]


def test_entries_that_are_kept_are_read_once() -> None:
    """Until the cache is cleared; who records entries still gets their files."""
    made: list[int] = []

    def make() -> dict[str, np.ndarray]:
        made.append(len(made))
        return {"x": np.arange(3)}

    def load() -> np.ndarray:
        return load_or_compute("geometry", "key", make, keep_in_memory=True)["x"]

    first = load()
    file = cache.cache_dir() / "geometry" / "key.entry"
    content = file.read_bytes()
    file.unlink()
    assert load() is first
    store_recorded_entries({"geometry/key.entry": content})
    with record_entries() as found:
        np.testing.assert_array_equal(load(), first)
    assert found == {"geometry/key.entry": content}
    clear_cache()
    load()
    assert made == [0, 1]


def test_an_exported_function_wins_over_a_module_of_its_name() -> None:
    """Whichever is imported first: `kinema.ir.unroll` is a function, and a module."""
    code = "import sys, kinema.ir.unroll; import kinema.ir as t; print(callable(t.unroll), callable(t.memory))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["True", "False"]
    code = "from kinema.ir import unroll; import kinema.ir.unroll as s; print(callable(unroll), callable(s))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["True", "True"]


def test_lazy_packages_know_their_names() -> None:
    import kinema.dynamics
    import kinema.ir

    assert {"interpret", "SCRATCH", "Program"} <= set(dir(kinema.ir))
    assert kinema.dynamics.trace_unrolled_step.__module__ == "kinema.dynamics.lowering.program_tracing"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = kinema.ir.nothing  # type: ignore[attr-defined]


def test_digests_of_large_arrays_follow_their_content() -> None:
    """Also of read-only arrays, whose digest is computed once, and of others at the same address after their end."""
    size = cache.LARGE_ARRAY // 8
    seen, array = set(), np.zeros(0)
    for i in range(5):
        array = np.zeros(size)
        array[i] = 1.0
        plain = cache.content_digest(array)
        array.flags.writeable = False
        assert cache.content_digest(array) == cache.content_digest(array) == plain
        assert cache.content_digest(array[:-1]) != plain
        seen.add(plain)
    assert len(seen) == 5
    del array
    assert len(cache._digest_by_id) == len(cache._array_digests)
