"""Reading and compiling do not look for garbage, and leave what others set as it was."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import numpy as np
import pytest

from kinema.core import CyclicObjects, KinemaError, pause_garbage_collection
from kinema.dynamics.engine.engine import check_memory
from kinema.runtime import ArenaLayout, Device, devices


def test_what_others_froze_stays_frozen() -> None:
    gc.freeze()
    with pause_garbage_collection():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0  # not their exact number: frozen objects may still be freed by reference counting


def test_frozen_objects_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting goes through all of them: 40 ms for half a million, at each of a dozen pauses per scene."""
    gc.freeze()
    with pause_garbage_collection():
        pass
    monkeypatch.setattr(gc, "get_freeze_count", lambda: pytest.fail("counted again"))
    with pause_garbage_collection():
        pass
    assert gc.isenabled()


def test_dropped_scenes_are_collected_before_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, by the check of all arenas and by an allocation on a GPU."""
    collected: list[int] = []
    monkeypatch.setattr(gc, "collect", lambda: collected.append(1))
    layout, n_envs = ArenaLayout.from_sizes("state", [("qpos", 10)]), 32
    free = iter([0, 10 * 4 * n_envs])
    monkeypatch.setattr(Device, "free_memory", lambda self: next(free, 0))
    check_memory(n_envs, Device("cpu"), "single", [layout])
    assert len(collected) == 1
    with pytest.raises(KinemaError, match="need 0 MiB"):
        check_memory(n_envs, Device("cpu"), "single", [layout])
    assert len(collected) == 2
    n_failures = 1

    def zeros(shape: tuple[int, ...], **_: object) -> np.ndarray:
        if len(collected) - 2 < n_failures:
            raise RuntimeError("out of memory")
        return np.zeros(shape)

    monkeypatch.setattr(devices, "warp", lambda: SimpleNamespace(zeros=zeros, float32=0, float64=1))
    assert Device("cuda:0").zeros((3, 2), "single", "test").shape == (3, 2)
    assert len(collected) == 3
    n_failures = 9
    with pytest.raises(KinemaError, match="test: 0 MiB are needed"):
        Device("cuda:0").zeros((3, 2), "single", "test")


class Ring:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.me = self


def test_dropped_objects_are_freed_when_their_number_has_doubled() -> None:
    """As many as are in use and a few more are kept, however many are made, while Python collects nothing."""
    registry, used = CyclicObjects(max_dropped=4), list[Ring]()
    gc.disable()
    try:
        counts, ring = [], None
        for i in range(100):
            ring = Ring()
            registry.register(ring)
            used += [ring] if i % 10 == 0 else []
            counts.append(len(registry) - len(used))
            assert counts[-1] <= len(used) + 4
        del ring
        gc.collect()
    finally:
        gc.enable()
    assert max(counts) > 4
    assert len(registry) == len(used) == 10
