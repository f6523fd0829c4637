"""`kinema render`: a picture of a robot, or a video."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from kinema.backend import find_device
from kinema.description import Robot, World
from kinema.foundation import KinemaError
from kinema.render import VIDEO_SUFFIXES, write_png, write_video
from kinema.scene import Portrait, Style

from ..motions import keyframe_coordinates, simulated, swept
from .diagnostics_table import output_console, print_diagnostics
from .reading import ReadSettings, named_input, print_json, read_file, report_error, status

Told = Callable[[int, int], None]
"""Is told how much is done, and of how much."""
RAYS, PATHS = 9, 64
"""For each pixel, when the user does not say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What is asked for; angles in radians."""

    out: Path | None
    video: Path | None
    pathtrace: bool
    camera: str
    keyframe: str
    seconds: float
    fps: float
    turntable: bool
    motion: str
    size: tuple[int, int]
    samples: int | None
    budget: float | None
    lights: str
    azimuth: float
    elevation: float
    collision: bool
    device: str

    def style(self) -> Style:
        """How pictures are taken."""
        return Style(
            resolution=self.size,
            pathtrace=self.pathtrace,
            samples=self.samples or (PATHS if self.pathtrace else RAYS),
            seconds=self.budget,
            lights=self.lights,
            camera=self.camera,
            azimuth=self.azimuth,
            elevation=self.elevation,
            kind="collision" if self.collision else "visual",
            device=find_device(self.device).name,
        )


def run(file: Path, options: Options, how: ReadSettings, *, json: bool = False) -> int:
    """Make what is asked for; the exit status."""
    try:
        _check_targets(options)
        with named_input(file, how) as (source, settings):
            described = read_file(source, settings)
            told = [*described.diagnostics.items]
            written = _make(described, options)
    except KinemaError as error:
        return report_error(error, json)
    found = [*told, *(d for made in written for d in made.portrait.stage.diagnostics)]
    if json:
        files = [{"file": str(made.file), "width": options.size[0], "height": options.size[1]} for made in written]
        pictures = [{**one, "pictures": made.pictures} for one, made in zip(files, written, strict=True)]
        print_json({"file": str(file), "written": pictures, "diagnostics": [d.to_json() for d in found]})
        return status(told)
    console = output_console()
    print_diagnostics(console, found, brief=True)
    for made in written:
        console.print(Text.assemble(("✓ ", "bold green"), made.sentence))
    return status(told)


class Made(NamedTuple):
    """A file that was written."""

    portrait: Portrait
    file: Path
    pictures: int
    sentence: str


def _check_targets(options: Options) -> None:
    """Before anything takes time."""
    if options.out is not None and options.out.suffix.lower() != ".png":
        raise KinemaError(f"{options.out}: pictures are written as .png")
    if options.video is not None and options.video.suffix.lower() not in VIDEO_SUFFIXES:
        raise KinemaError(f"{options.video}: a video is {', '.join(VIDEO_SUFFIXES)}")


def _make(described: Robot | World, options: Options) -> list[Made]:
    """The pictures that were asked for."""
    start = keyframe_coordinates(described, options.keyframe)
    style, (width, height), made = options.style(), options.size, []
    if options.out is not None:
        portrait = Portrait(described, [described.link_poses(start)], style)
        with _progress("tracing" if options.pathtrace else "drawing", style.samples) as told:
            image = next(portrait.pictures(told))
        write_png(options.out, image)
        made.append(Made(portrait, options.out, 1, f"{options.out}: {width} x {height} pixels"))
    if options.video is not None:
        count = max(1, round(options.seconds * options.fps))
        poses = _film(described, start, options, count)
        portrait = Portrait(described, poses, style, turntable=options.turntable)
        with _progress("filming", count) as told:
            frames = _counted(portrait.pictures(), told, count)
            n = write_video(options.video, frames, options.fps)
        made.append(Made(portrait, options.video, n, f"{options.video}: {n} pictures, {n / options.fps:.3g} s"))
    return made


def _film(described: Robot | World, start: dict[str, np.ndarray], options: Options, count: int) -> list[dict]:
    motion = options.motion
    if not motion:
        robots = described.robots if isinstance(described, World) else [described]
        loops = any(robot.tree().loops for robot in robots)
        motion = "still" if options.turntable else "simulate" if loops else "sweep"
    match motion:
        case "still":
            return [described.link_poses(start)] * count
        case "simulate":
            return simulated(described, options.keyframe, count, 1.0 / options.fps)
        case _:
            return swept(described, start, count)


def _counted(frames: Iterator[np.ndarray], told: Told, total: int) -> Iterator[np.ndarray]:
    for number, frame in enumerate(frames, 1):
        told(number, total)
        yield frame


class _progress:
    """A bar on a terminal, nothing elsewhere."""

    def __init__(self, what: str, total: int) -> None:
        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(what, total=total)

    def __enter__(self) -> Told:
        self._bar.start()
        return lambda done, total: self._bar.update(self._task, completed=done, total=total)

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
