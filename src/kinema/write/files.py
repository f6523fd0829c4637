"""Atomic writing of output files by a staging folder, and protection of the files that a description was read from."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from kinema.core import WriteError, make_parent_folder
from kinema.description import HeightField, Mesh, Node, Robot, Shape, World
from kinema.tokens import usd

# ------------------------------------------------------------------------------------------------------- atomic writing

_PROTECTED_FILES: ContextVar[frozenset[Path]] = ContextVar("files that may not be replaced", default=frozenset())


@contextmanager
def protect_files(files: frozenset[Path]) -> Iterator[None]:
    """Context in which `stage_files` refuses to replace any of the given files by different content."""
    token = _PROTECTED_FILES.set(files)
    try:
        yield
    finally:
        _PROTECTED_FILES.reset(token)


@contextmanager
def stage_files(target: Path) -> Iterator[Path]:
    """Context manager for atomic writing: yields a staging folder and moves its files into place at the end.

    The files move to the folder of the target, which is created if necessary, the target last. The staging folder is
    removed in any case.

    Args:
        target: the main file. Other files may be created beside it, also in subfolders.

    Raises:
        WriteError: the target's folder cannot be made or is not writable, or the target is a folder or protected.
    """
    if target.is_dir():
        raise WriteError(f"{target}: this is a folder, not a file")
    if _is_protected(target):
        raise WriteError(f"{target}: {_PROTECTED_TEXT}")
    make_parent_folder(target)
    try:
        draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise WriteError(f"{target}: {error.strerror or error}") from None
    try:
        yield draft
        _move_into_place(draft, target)
    except OSError as error:
        raise WriteError(f"{target}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def remove_staging_folders(target: Path, *, one_per_robot: bool = False) -> None:
    """Remove staging folders left by killed writers of a file; no process may be writing the file.

    Args:
        target: the main file.
        one_per_robot: also those of the files `STEM_ROBOT.SUFFIX` of a description with several robots.
    """
    names = [glob.escape(target.name)]
    if one_per_robot:
        names.append(f"{glob.escape(target.stem)}_*{glob.escape(target.suffix)}")
    for name in names:
        for draft in target.parent.glob(f".{name}.*"):
            if draft.is_dir():
                shutil.rmtree(draft, ignore_errors=True)


_PROTECTED_TEXT = "this is one of the files that the robot is made of; it is replaced with force (--force) only"


@contextmanager
def errors_with_path(target: Path) -> Iterator[None]:
    """Context that prefixes the message of every `WriteError` with the path of the target."""
    try:
        yield
    except WriteError as error:
        message = str(error)
        raise error if message.startswith(str(target)) else WriteError(f"{target}: {message}") from None


def _move_into_place(staging_folder: Path, target: Path) -> None:
    """Move all files of a staging folder to the folder of the target, the main file last.

    Existing permissions are preserved; new files get the default mode. Protected files with other content are an error.
    """
    main = staging_folder / target.name
    made = sorted(Path(folder, name) for folder, _, names in os.walk(staging_folder) for name in names)
    if main not in made:
        raise WriteError(f"{target}: nothing was written")
    made.sort(key=lambda p: p == main)  # the main file last: until then, the old one holds
    places = [target.parent / source.relative_to(staging_folder) for source in made]
    for source, place in zip(made, places, strict=True):
        if _is_protected(place) and place.read_bytes() != source.read_bytes():
            raise WriteError(f"{place}: {_PROTECTED_TEXT}")
    for folder in {place.parent for place in places} - {target.parent}:
        folder.mkdir(parents=True, exist_ok=True)
    mode = _default_mode()
    for source, place in zip(made, places, strict=True):
        kept = _existing_mode(place)
        source.chmod(mode if kept is None else kept)
        os.replace(source, place)  # noqa: PTH105  the name says that an old file is replaced, in one step


def _is_protected(path: Path) -> bool:
    protected = _PROTECTED_FILES.get()
    return bool(protected) and path.resolve() in protected


def _existing_mode(path: Path) -> int | None:
    """Permission bits of an existing file; None if the file does not exist."""
    try:
        return path.stat().st_mode & 0o7777
    except FileNotFoundError:
        return None


def _default_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


# ---------------------------------------------------------------------------------------- source files of a description


def source_files(description: Robot | World) -> frozenset[Path]:
    """Resolved paths of all source files of a description: main file, includes, USD layers, meshes and textures."""
    return frozenset(Path(name).resolve() for name in _source_paths(description) if name)


def _source_paths(description: Robot | World) -> Iterator[str]:
    """Paths of the source files of a description and its elements; may contain duplicates and empty strings."""
    robots = description.robots if isinstance(description, World) else [description]
    scenery = description.shapes if isinstance(description, World) else []
    yield description.source
    if description.format == usd.FORMAT:
        yield from _usd_layers(description.source)
    nodes: list[Node] = [description, *robots]
    for home in (description, *robots):
        nodes += [*home.actuators, *home.sensors, *home.frames]
        yield from (extra.origin.file for extra in home.extras)
    for robot in robots:
        nodes += [*robot.links, *robot.joints]
    yield from (node.origin.file for node in nodes)
    yield from _shape_files([*scenery, *(shape for robot in robots for link in robot.links for shape in link.shapes)])


def _shape_files(shapes: Iterable[Shape]) -> Iterator[str]:
    for shape in shapes:
        yield shape.origin.file
        if isinstance(shape.geometry, Mesh | HeightField):
            yield shape.geometry.path
        if shape.material is not None:
            yield shape.material.texture


def _usd_layers(stage_file: str) -> Iterator[str]:
    """Paths of a USD stage's root layer and, transitively, of all layers that it references; empty without OpenUSD."""
    try:
        from pxr import Sdf, Tf
    except ImportError:
        return
    waiting, seen = [stage_file], {stage_file}
    while waiting:
        name = waiting.pop()
        yield name
        try:
            layer = Sdf.Layer.FindOrOpen(name)
            loaded = [] if layer is None else [layer.ComputeAbsolutePath(x) for x in layer.GetExternalReferences() if x]
        except Tf.ErrorException:
            continue
        waiting += [x for x in loaded if x not in seen]
        seen.update(loaded)
