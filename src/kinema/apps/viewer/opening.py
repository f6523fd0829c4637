"""Opening a viewer: of files, of descriptions, or of a scene."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kinema.check import check
from kinema.description import Robot, World
from kinema.foundation import KinemaError, Pose, unique_name
from kinema.read import read
from kinema.scene import Scene

from .exhibit import Exhibit, bounds
from .server import open_page
from .viewer import Viewer
from .watch import Watch, files_of

Reader = Callable[[Path], Robot | World]


def exhibits_of(described: Sequence[Robot | World], titles: Sequence[str] = ()) -> list[Exhibit]:
    """Descriptions side by side, each with what reading and checking had to say of it."""
    taken: set[str] = set()
    result: list[Exhibit] = []
    edge = 0.0
    for i, one in enumerate(described):
        title = unique_name((titles[i] if i < len(titles) else "") or one.name or "robot", taken)
        exhibit = Exhibit(i, title, one, diagnostics=[*one.diagnostics.items, *check(one)])
        box = bounds(exhibit)
        if i and box is not None:
            exhibit.offset = Pose.translation((0.0, edge - box[0][1], 0.0))
        if box is not None:
            span = box[1] - box[0]
            edge = float(box[1][1] + exhibit.offset.position[1] + 0.3 * max(span[0], span[1], 0.3 * span[2]))
        result.append(exhibit)
    return result


def view(
    *shown: Robot | World | str | Path,
    n_envs: int = 1,
    watch: bool = True,
    plain: bool = False,
    reader: Reader = read,
    **address: Any,
) -> Viewer:
    """Show files or descriptions in a browser, side by side; two are compared. The viewer runs until it is closed.

    Args:
        shown: files, or descriptions.
        n_envs: how many copies are simulated when it plays.
        watch: whether files that change are read again.
        plain: without shadows and mirrored light, even for browsers with a GPU; those without never get them.
        reader: what reads files.
        address: `host`, `port` and `token`: see `open_page`. On this machine alone unless told otherwise.
    """
    if not shown:
        raise KinemaError("view: there is nothing to show")

    def read_all() -> list[Robot | World]:
        return [one if isinstance(one, Robot | World) else reader(Path(one)) for one in shown]

    titles = ["" if isinstance(one, Robot | World) else Path(one).name for one in shown]
    titles = titles if len(shown) > 1 else []
    described = read_all()
    exhibits = exhibits_of(described, titles)
    viewer = Viewer(open_page("Kinema", **address), exhibits, n_envs, plain=plain)
    from_files = [d for one, d in zip(shown, described, strict=True) if not isinstance(one, Robot | World)]
    files = [file for one in from_files for file in files_of(one)]
    if watch and files:

        def changed() -> None:
            try:
                again = read_all()
                viewer.show_again(exhibits_of(again, titles))
            except KinemaError as error:  # half of a file was saved, or it is wrong now: the last good one stays
                viewer.notify(f"The file has changed and cannot be read: {error}")
                return
            viewer.notify("The file has changed and was read again.")
            watcher.add(f for d in again for f in files_of(d))

        watcher = Watch(files, changed)
        viewer.closers.append(watcher.close)
    return viewer


def show(scene: Scene, *, block: bool = False, **address: Any) -> Viewer:
    """Show a scene that is built; see `Scene.show`."""
    scene.running  # noqa: B018  an error where it is not built
    exhibits = [
        Exhibit(
            i, entity.name, entity.description_in(0), entity=entity, diagnostics=list(entity.description.diagnostics)
        )
        for i, entity in enumerate(scene.entities)
    ]
    for exhibit in exhibits:
        exhibit.take_from(0)
        exhibit.offset = _offset(exhibit)
    viewer = Viewer(open_page("Kinema", **address), exhibits, scene=scene)
    if block:
        viewer.wait()
    return viewer


def _offset(exhibit: Exhibit) -> Pose:
    """Where the scene has put an entity: by the first link that is where its joints say."""
    assert exhibit.entity is not None
    posed = exhibit.poses()
    for link in exhibit.entity.links:
        position, quaternion = link.get_pos([0])[0], link.get_quat([0])[0]
        if link.name in posed and np.isfinite(position).all():
            return Pose.from_quaternion(position, quaternion) @ posed[link.name].inverse()
    return Pose()
