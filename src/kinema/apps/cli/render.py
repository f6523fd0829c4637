"""`kinema render`: a PNG image or a video of a robot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from kinema.core import KinemaError
from kinema.description import Robot, World
from kinema.render import VIDEO_SUFFIXES, write_png, write_video
from kinema.runtime import find_device
from kinema.scene import DescriptionRenderer, PictureOptions

from ..animation import keyframe_coordinates, simulate_link_poses, sweep_link_poses
from .input_output import (
    exit_status,
    open_input,
    output_console,
    print_diagnostics,
    print_json,
    read_file,
    report_error,
)
from .options import ReadSettings

ProgressCallback = Callable[[int, int], None]
"""Called with the amount done and the total amount."""
DEFAULT_RAYS, DEFAULT_PATHS = 9, 64
"""Default number of rays (ray casting) and of paths (path tracing) per pixel."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderOptions:
    """Options of `kinema render`; angles in radians."""

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

    def picture_options(self) -> PictureOptions:
        """Options of the renderer."""
        return PictureOptions(
            resolution=self.size,
            pathtrace=self.pathtrace,
            samples=self.samples or (DEFAULT_PATHS if self.pathtrace else DEFAULT_RAYS),
            seconds=self.budget,
            lights=self.lights,
            camera=self.camera,
            azimuth=self.azimuth,
            elevation=self.elevation,
            kind="collision" if self.collision else "visual",
            device=find_device(self.device).name,
        )


def render_file(file: Path, options: RenderOptions, read_settings: ReadSettings, *, json: bool = False) -> int:
    """Render an image or a video; returns the exit status."""
    try:
        _check_targets(options)
        with open_input(file, read_settings) as (source, settings):
            described = read_file(source, settings)
            read_diagnostics = [*described.diagnostics.items]
            written = _render_outputs(described, options)
    except KinemaError as error:
        return report_error(error, json)
    found = [*read_diagnostics, *(d for made in written for d in made.renderer.render_scene.diagnostics)]
    if json:
        files = [{"file": str(made.file), "width": options.size[0], "height": options.size[1]} for made in written]
        pictures = [{**one, "pictures": made.n_frames} for one, made in zip(files, written, strict=True)]
        print_json({"file": str(file), "written": pictures, "diagnostics": [d.to_json() for d in found]})
        return exit_status(read_diagnostics)
    console = output_console()
    print_diagnostics(console, found, brief=True)
    for made in written:
        console.print(Text.assemble(("✓ ", "bold green"), made.summary))
    return exit_status(read_diagnostics)


class WrittenFile(NamedTuple):
    """Output file."""

    renderer: DescriptionRenderer
    file: Path
    n_frames: int
    summary: str


def _check_targets(options: RenderOptions) -> None:
    """Validate output file names before rendering."""
    if options.out is not None and options.out.suffix.lower() != ".png":
        raise KinemaError(f"{options.out}: pictures are written as .png")
    if options.video is not None and options.video.suffix.lower() not in VIDEO_SUFFIXES:
        raise KinemaError(f"{options.video}: a video is {', '.join(VIDEO_SUFFIXES)}")


def _render_outputs(description: Robot | World, options: RenderOptions) -> list[WrittenFile]:
    """Render the requested image and video."""
    start = keyframe_coordinates(description, options.keyframe)
    style, (width, height), made = options.picture_options(), options.size, []
    if options.out is not None:
        portrait = DescriptionRenderer(description, [description.link_poses(start)], style)
        with _ProgressBar("tracing" if options.pathtrace else "drawing", style.samples) as progress:
            image = next(portrait.render_frames(progress))
        write_png(options.out, image)
        made.append(WrittenFile(portrait, options.out, 1, f"{options.out}: {width} x {height} pixels"))
    if options.video is not None:
        count = max(1, round(options.seconds * options.fps))
        poses = _video_link_poses(description, start, options, count)
        portrait = DescriptionRenderer(description, poses, style, turntable=options.turntable)
        with _ProgressBar("filming", count) as progress:
            frames = _report_progress(portrait.render_frames(), progress, count)
            n = write_video(options.video, frames, options.fps)
        made.append(WrittenFile(portrait, options.video, n, f"{options.video}: {n} pictures, {n / options.fps:.3g} s"))
    return made


def _video_link_poses(
    description: Robot | World, initial_coordinates: dict[str, np.ndarray], options: RenderOptions, n_frames: int
) -> list[dict]:
    motion = options.motion
    if not motion:
        robots = description.robots if isinstance(description, World) else [description]
        loops = any(robot.tree().loops for robot in robots)
        motion = "still" if options.turntable else "simulate" if loops else "sweep"
    match motion:
        case "still":
            return [description.link_poses(initial_coordinates)] * n_frames
        case "simulate":
            return simulate_link_poses(description, options.keyframe, n_frames, 1.0 / options.fps)
        case _:
            return sweep_link_poses(description, initial_coordinates, n_frames)


def _report_progress(frames: Iterator[np.ndarray], progress: ProgressCallback, total: int) -> Iterator[np.ndarray]:
    for number, frame in enumerate(frames, 1):
        progress(number, total)
        yield frame


class _ProgressBar:
    """Progress bar on a terminal; no output elsewhere."""

    def __init__(self, label: str, total: int) -> None:
        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(label, total=total)

    def __enter__(self) -> ProgressCallback:
        self._bar.start()
        return lambda done, total: self._bar.update(self._task, completed=done, total=total)

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
