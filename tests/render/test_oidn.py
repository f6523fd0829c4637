"""Open Image Denoise, played by a module of its name: what it is given, and that one that cannot run is not used."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from kinema.render import denoising

STANDS_IN = """
import numpy as np
calls = []
def denoise(color, albedo=None, normal=None, *, hdr=False):
    calls.append((color, albedo, normal, hdr))
    return np.full_like(color, color.mean())
"""
SHAPE = (2, 1, 3, 4)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Puts a module where the library would be, for this process and for those that it starts."""

    def put(text: str) -> None:
        (tmp_path / "mitsuba_oidn.py").write_text(text)
        importlib.invalidate_caches()

    def find_spec(name: str, *_: object) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [str(tmp_path)]) if name == "mitsuba_oidn" else None

    monkeypatch.setattr(sys, "meta_path", [SimpleNamespace(find_spec=find_spec), *sys.meta_path])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.delitem(sys.modules, "mitsuba_oidn", raising=False)
    denoising.oidn_available.cache_clear()
    yield put
    denoising.oidn_available.cache_clear()
    sys.modules.pop("mitsuba_oidn", None)


def test_it_is_given_images_with_their_guides(installed: Callable[[str], None]) -> None:
    installed(STANDS_IN)
    assert denoising.oidn_available()
    light = np.arange(2 * 3 * 4 * 3, dtype=float).reshape(-1, 3) - 1.0
    color, normal = np.full_like(light, 1.5), np.full_like(light, -2.0)
    clean = denoising.denoise_oidn(light, color, normal, SHAPE)
    import mitsuba_oidn  # pyright: ignore[reportMissingImports]

    assert len(mitsuba_oidn.calls) == 2
    for given, albedo, turned, hdr in mitsuba_oidn.calls:
        assert given.shape == albedo.shape == turned.shape == (3, 4, 3)
        assert given.dtype == albedo.dtype == turned.dtype == np.float32
        assert hdr
        assert given.min() >= 0.0
        assert (albedo.max(), turned.min()) == (1.0, -1.0)
    first, second = np.split(clean, 2)
    assert first == pytest.approx(np.maximum(light[:12], 0.0).mean())
    assert second == pytest.approx(light[12:].mean())


def test_one_that_cannot_run_here_is_not_used(installed: Callable[[str], None]) -> None:
    """Its wheels have instructions that some processors do not know; the process that tries it is not this one."""
    installed("import os\nos.abort()\n")
    with pytest.warns(UserWarning, match="does not run on this machine"):
        assert not denoising.oidn_available()
