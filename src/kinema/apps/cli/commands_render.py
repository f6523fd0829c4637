"""The command that makes pictures, and its options."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from .choices import Lighting, Motion
from .commands import app
from .options import Command, File, Format, Json, OfBase, SearchPath, Variant, XacroArguments


def _edges(text: str) -> tuple[int, int]:
    """`960x720` as two numbers."""
    width, _, height = text.lower().partition("x")
    if not (width.isdecimal() and height.isdecimal() and 0 < int(width) <= 16384 and 0 < int(height) <= 16384):
        raise typer.BadParameter(f"{text!r} is not a size such as 960x720", param_hint="--size")
    return int(width), int(height)


def _finite(value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value!r} is not a finite number")
    return value


@app.command(cls=Command)
def render(  # noqa: PLR0913, PLR0917  one for each option of the command
    file: File,
    arguments: XacroArguments = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="IMG.png", help="The picture to write.", show_default=False)
    ] = None,
    pathtrace: Annotated[
        bool, typer.Option("--pathtrace", help="Follow all light: soft shadows, reflections, glass. Takes longer.")
    ] = False,
    camera: Annotated[
        str, typer.Option("--camera", metavar="NAME", help="A camera of the file; else one that sees everything.")
    ] = "",
    keyframe: Annotated[
        str, typer.Option("--keyframe", metavar="NAME", help="A state of the file, by its name or number.")
    ] = "",
    video: Annotated[
        Path | None,
        typer.Option("--video", metavar="OUT.mp4", help="A video to write: .mp4, or .apng.", show_default=False),
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, max=600.0, metavar="S", help="How long the video is.")
    ] = 5.0,
    fps: Annotated[float, typer.Option("--fps", min=1.0, max=120.0, metavar="N", help="Its pictures a second.")] = 24.0,
    turntable: Annotated[bool, typer.Option("--turntable", help="The camera goes around once.")] = False,
    motion: Annotated[
        Motion | None,
        typer.Option(
            "--motion",
            metavar="HOW",
            help="What moves in the video. sweep: joints go through their ranges. simulate: the robot is simulated, "
            "its joints held. still: nothing. Else still on a turntable, simulate where loops are closed, and sweep.",
            show_default=False,
        ),
    ] = None,
    size: Annotated[str, typer.Option("--size", metavar="WxH", help="Pixels.")] = "960x720",
    samples: Annotated[
        int | None,
        typer.Option(
            "--samples",
            min=1,
            max=65536,
            metavar="N",
            help="Rays for each pixel; else 9, or 64 paths.",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget", callback=_finite, metavar="S", help="Begin no more paths after this time.", show_default=False
        ),
    ] = None,
    lights: Annotated[
        Lighting, typer.Option("--lights", metavar="WHICH", help="studio: ours. file: those of the file.")
    ] = Lighting.STUDIO,
    azimuth: Annotated[
        float, typer.Option("--azimuth", callback=_finite, metavar="DEG", help="Where the camera stands, from +x.")
    ] = -50.0,
    elevation: Annotated[
        float, typer.Option("--elevation", min=-89.0, max=89.0, metavar="DEG", help="How high it stands.")
    ] = 19.0,
    collision: Annotated[bool, typer.Option("--collision", help="Show the shapes that touch.")] = False,
    device: Annotated[str, typer.Option("--device", "-d", metavar="NAME", help="cpu, cuda:0, ..., or auto.")] = "auto",
    base: OfBase = None,
    json: Json = False,
    format: Format = None,
    search_path: SearchPath = None,
    variant: Variant = None,
) -> None:
    """Make a picture of a robot, or a video, without a window or a graphics driver.

    Exit status: 0 fine, 1 the file has errors (all listed; the picture was made), 2 it could not be read, or nothing
    could be written.
    """
    from .reading import settings
    from .render import Options, run

    if out is None and video is None:
        raise typer.BadParameter("say what to write: --out image.png, or --video film.mp4", param_hint="--out")
    options = Options(
        out=out,
        video=video,
        pathtrace=pathtrace,
        camera=camera,
        keyframe=keyframe,
        seconds=seconds,
        fps=fps,
        turntable=turntable,
        motion="" if motion is None else motion.value,
        size=_edges(size),
        samples=samples,
        budget=budget,
        lights=lights.value,
        azimuth=math.radians(azimuth),
        elevation=math.radians(elevation),
        collision=collision,
        device=device,
    )
    raise typer.Exit(run(file, options, settings(format, search_path, variant, arguments, base), json=json))
