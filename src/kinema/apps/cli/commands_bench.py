"""The command that measures, and its options."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from .choices import PlaceName
from .commands import app
from .options import Command, Json


def _some_time(value: float) -> float:
    """A time that is more than none."""
    if not (math.isfinite(value) and value > 0.0):
        raise typer.BadParameter(f"{value!r} is not a time in seconds of more than 0")
    return value


@app.command(cls=Command)
def bench(  # noqa: PLR0913, PLR0917  one for each option of the command
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Robots to measure with, of any format.", show_default=False),
    ] = None,
    envs: Annotated[str, typer.Option(metavar="N,...", help="Numbers of environments, separated by commas.")] = "4096",
    device: Annotated[
        str, typer.Option(metavar="NAME", help="cpu, cuda:0, or auto for a GPU where there is one.")
    ] = "auto",
    seconds: Annotated[
        float, typer.Option(callback=_some_time, metavar="SECONDS", help="How long each measurement takes.")
    ] = 1.0,
    json: Json = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Also draw a chart.", show_default=False)
    ] = None,
    startup: Annotated[bool, typer.Option(help="Also measure the first step of a new process.")] = True,
    free: Annotated[bool, typer.Option("--free", help="Without limits, dry friction, mimics and loops.")] = False,
    contact: Annotated[
        PlaceName | None,
        typer.Option(
            metavar="PLACE",
            help="With contact. floor, terrain: robots on that. cube: hands with one. tower, clutter: without files, "
            "20 boxes on each other, or 50 objects.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Measure environment-steps a second beside MuJoCo C and, where it is installed, MuJoCo Warp, in one run.

    Every simulator gets the same robot, the same integrator, and random commands at every step. Without `--contact`
    robots have no shapes. With it, all start from the same states of a wild run, in which robots have fallen over, and
    contacts, steps of the solver, errors and overflows are counted for all alike. Ratios are to the peer on as many
    cores. Results are checked against MuJoCo C in double precision. Measure on an otherwise idle machine.

    Exit status: 0 fine, 1 something did not stay finite, 2 a file could not be read or simulated.
    """
    counts = _counts(envs)
    named = files or []
    robotless = contact in (PlaceName.TOWER, PlaceName.CLUTTER)
    if robotless and named:
        raise typer.BadParameter(f"--contact {contact} has no robot in it", param_hint="FILE...")
    if not robotless and not named:
        raise typer.BadParameter("which robots?", param_hint="FILE...")
    if contact is not None:
        if free:
            raise typer.BadParameter("with contact nothing is free", param_hint="--free")
        from .bench_contact import bench_contact

        raise typer.Exit(
            bench_contact(contact, named, counts, device, seconds=seconds, json=json, plot=plot, startup=startup)
        )
    from .bench import bench as run

    raise typer.Exit(run(named, counts, device, seconds=seconds, json=json, plot=plot, startup=startup, free=free))


def _counts(envs: str) -> list[int]:
    """Numbers of environments from `1024,4096`."""
    try:
        counts = [int(n) for n in envs.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        message = f"{envs!r} is not a list of numbers of at least 1, such as 1024,4096"
        raise typer.BadParameter(message, param_hint="--envs")
    return counts
