"""Opens a viewer for files, descriptions or a built scene, and reloads files when they change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kinema.check import check
from kinema.core import KinemaError, Pose, unique_name
from kinema.description import Mesh, Robot, World
from kinema.read import read
from kinema.scene import Scene

from .displayed_model import DisplayedModel, bounding_box, to_numpy
from .server import start_server
from .viewer import Viewer

# --------------------------------------------------------------------------------------------------------- file watcher

POLL_INTERVAL = 0.5
"""Seconds between looks."""


def watched_files(description: Robot | World) -> set[Path]:
    """File of a description, and the mesh and image files that it refers to."""
    shapes = [shape for link in description.links for shape in link.shapes]
    shapes += description.shapes if isinstance(description, World) else []
    names = [description.source, description.origin.file]
    names += [shape.geometry.path for shape in shapes if isinstance(shape.geometry, Mesh)]
    names += [image for shape in shapes if shape.material is not None for image in shape.material.image_references]
    return {Path(name) for name in names if name and Path(name).is_file()}


class FileWatcher:
    """Thread that polls files for changes and calls a function."""

    def __init__(self, files: Iterable[Path], on_change: Callable[[], None]) -> None:
        self._end = threading.Event()
        self._files = set(files)
        self._on_change = on_change
        self._last_snapshot = self._snapshot()
        self._thread = threading.Thread(target=self._run, name="kinema-watch", daemon=True)
        self._thread.start()

    def add(self, files: Iterable[Path]) -> None:
        """Watch additional files."""
        self._files |= set(files)
        self._last_snapshot = self._snapshot()

    def close(self) -> None:
        """Stop watching."""
        self._end.set()

    def _snapshot(self) -> dict[Path, tuple[int, int]]:
        result = {}
        for file in self._files:
            try:
                found = file.stat()
            except OSError:  # it is being written
                continue
            result[file] = (found.st_mtime_ns, found.st_size)
        return result

    def _run(self) -> None:
        while not self._end.wait(POLL_INTERVAL):
            now = self._snapshot()
            if now != self._last_snapshot and len(now) >= len(self._last_snapshot):
                self._last_snapshot = now
                self._on_change()


# ----------------------------------------------------------------------------------------------------- opening a viewer

Reader = Callable[[Path], Robot | World]


def make_displayed_models(descriptions: Sequence[Robot | World], titles: Sequence[str] = ()) -> list[DisplayedModel]:
    """Displayed models of descriptions side by side, each with the diagnostics of reading and checking."""
    taken: set[str] = set()
    result: list[DisplayedModel] = []
    edge = 0.0
    for i, one in enumerate(descriptions):
        title = unique_name((titles[i] if i < len(titles) else "") or one.name or "robot", taken)
        exhibit = DisplayedModel(i, title, one, diagnostics=[*one.diagnostics.items, *check(one)])
        box = bounding_box(exhibit)
        if i and box is not None:
            exhibit.world_pose = Pose.translation((0.0, edge - box[0][1], 0.0))
        if box is not None:
            span = box[1] - box[0]
            edge = float(box[1][1] + exhibit.world_pose.position[1] + 0.3 * max(span[0], span[1], 0.3 * span[2]))
        result.append(exhibit)
    return result


def view(
    *sources: Robot | World | str | Path,
    n_envs: int = 1,
    watch: bool = True,
    simple_shading: bool = False,
    reader: Reader = read,
    **address: Any,
) -> Viewer:
    """Show files or descriptions in a browser, side by side; two are compared. The viewer runs until it is closed.

    Args:
        sources: files, or descriptions.
        n_envs: number of copies that are simulated.
        watch: whether changed files are read again.
        simple_shading: no shadows and reflections, even for browsers with a GPU; browsers without a GPU never get them.
        reader: function that reads files.
        address: `host`, `port` and `token`: see `start_server`. Bound to the local host by default.
    """
    if not sources:
        raise KinemaError("view: there is nothing to show")

    def read_all() -> list[Robot | World]:
        return [one if isinstance(one, Robot | World) else reader(Path(one)) for one in sources]

    titles = ["" if isinstance(one, Robot | World) else Path(one).name for one in sources]
    titles = titles if len(sources) > 1 else []
    described = read_all()
    exhibits = make_displayed_models(described, titles)
    viewer = Viewer(start_server("Kinema", **address), exhibits, n_envs, simple_shading=simple_shading)
    from_files = [d for one, d in zip(sources, described, strict=True) if not isinstance(one, Robot | World)]
    files = [file for one in from_files for file in watched_files(one)]
    if watch and files:

        def changed() -> None:
            try:
                again = read_all()
                viewer.replace_models(make_displayed_models(again, titles))
            except KinemaError as error:  # half of a file was saved, or it is wrong now: the last good one stays
                viewer.notify(f"The file has changed and cannot be read: {error}")
                return
            viewer.notify("The file has changed and was read again.")
            watcher.add(f for d in again for f in watched_files(d))

        watcher = FileWatcher(files, changed)
        viewer.close_callbacks.append(watcher.close)
    return viewer


def show(scene: Scene, *, block: bool = False, **address: Any) -> Viewer:
    """Show a built scene; see `Scene.show`."""
    scene.built  # noqa: B018  an error where it is not built
    exhibits = [
        DisplayedModel(
            i,
            entity.name,
            entity.description_for_env(0),
            entity=entity,
            diagnostics=list(entity.description.diagnostics),
        )
        for i, entity in enumerate(scene.entities)
    ]
    for exhibit in exhibits:
        exhibit.read_joints_from_simulation(0)
        exhibit.world_pose = _entity_world_pose(exhibit)
    viewer = Viewer(start_server("Kinema", **address), exhibits, scene=scene)
    if block:
        viewer.wait(f"Viewer at {viewer.address}; Ctrl-C ends it.\n")
    return viewer


def _entity_world_pose(model: DisplayedModel) -> Pose:
    """World pose of an entity in its scene, from the first link with a finite simulated pose."""
    assert model.entity is not None
    posed = model.link_poses()
    for link in model.entity.links:
        position, quaternion = to_numpy(link.get_pos([0]))[0], to_numpy(link.get_quat([0]))[0]
        if link.name in posed and np.isfinite(position).all():
            return Pose.from_quaternion(position, quaternion) @ posed[link.name].inverse()
    return Pose()
