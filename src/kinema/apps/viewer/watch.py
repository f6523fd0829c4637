"""Watching files: something is called when one of them changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from kinema.description import Mesh, Robot, World

EVERY = 0.5
"""Seconds between looks."""


def files_of(described: Robot | World) -> set[Path]:
    """The file of a description, and those that it takes meshes and images from."""
    shapes = [shape for link in described.links for shape in link.shapes]
    shapes += described.shapes if isinstance(described, World) else []
    names = [described.source, described.origin.file]
    names += [shape.geometry.path for shape in shapes if isinstance(shape.geometry, Mesh)]
    names += [image for shape in shapes if shape.material is not None for image in shape.material.images]
    return {Path(name) for name in names if name and Path(name).is_file()}


class Watch:
    """A thread that looks at files."""

    def __init__(self, files: Iterable[Path], changed: Callable[[], None]) -> None:
        self._end = threading.Event()
        self._files = set(files)
        self._changed = changed
        self._seen = self._look()
        self._thread = threading.Thread(target=self._run, name="kinema-watch", daemon=True)
        self._thread.start()

    def add(self, files: Iterable[Path]) -> None:
        """Look at these, too."""
        self._files |= set(files)
        self._seen = self._look()

    def close(self) -> None:
        """Look no more."""
        self._end.set()

    def _look(self) -> dict[Path, tuple[int, int]]:
        result = {}
        for file in self._files:
            try:
                found = file.stat()
            except OSError:  # it is being written
                continue
            result[file] = (found.st_mtime_ns, found.st_size)
        return result

    def _run(self) -> None:
        while not self._end.wait(EVERY):
            now = self._look()
            if now != self._seen and len(now) >= len(self._seen):
                self._seen = now
                self._changed()
