"""Entries of the cache that stay in memory, and packages that import their larger part when it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kinema.foundation import CACHE_VARIABLE, add_entries, cache, clear_cache, load_or_make, recorded_entries
from kinema.foundation.recent import Recent


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    cache._RECENT.clear()


def test_the_least_recently_used_results_are_forgotten_first() -> None:
    made: list[str] = []

    def use(recent: Recent[str], key: str) -> None:
        def make() -> str:
            made.append(key)
            return key

        assert recent.get_or_make(key, make, lambda _: 4) == key

    recent = Recent[str](8)
    for key in "ababacab":  # the third one pushes out b, and b in turn c
        use(recent, key)
    assert made == ["a", "b", "c", "b"]
    recent.clear()
    use(recent, "a")
    assert made[-1] == "a"


def test_a_result_that_is_too_large_is_not_kept() -> None:
    recent = Recent[int](8)
    assert [recent.get_or_make("x", lambda i=i: i, lambda _: 9) for i in range(2)] == [0, 1]


def test_entries_that_are_kept_are_read_once() -> None:
    """Until the cache is cleared; who records entries still gets their files."""
    made: list[int] = []

    def make() -> dict[str, np.ndarray]:
        made.append(len(made))
        return {"x": np.arange(3)}

    def load() -> np.ndarray:
        return load_or_make("geometry", "key", make, keep=True)["x"]

    first = load()
    file = cache.cache_dir() / "geometry" / "key.entry"
    content = file.read_bytes()
    file.unlink()
    assert load() is first
    add_entries({"geometry/key.entry": content})
    with recorded_entries() as found:
        np.testing.assert_array_equal(load(), first)
    assert found == {"geometry/key.entry": content}
    clear_cache()
    load()
    assert made == [0, 1]


def test_an_exported_function_wins_over_a_module_of_its_name() -> None:
    """Whichever is imported first: `kinema.trace.split` is a function, and a module."""
    code = "import sys, kinema.trace.split; import kinema.trace as t; print(callable(t.split), callable(t.slots))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["True", "False"]
    code = "from kinema.trace import split; import kinema.trace.split as s; print(callable(split), callable(s))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["True", "True"]


def test_lazy_packages_know_their_names() -> None:
    import kinema.sim
    import kinema.trace

    assert {"emit_llvm", "SCRATCH", "Program"} <= set(dir(kinema.trace))
    assert kinema.sim.step_program.__module__ == "kinema.sim.lower.programs"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = kinema.trace.nothing  # type: ignore[attr-defined]
