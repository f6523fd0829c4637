"""The commands and their options."""

from __future__ import annotations

from typing import Annotated

import typer

from .choices import BaseName, Driving, IntegratorName, Precision
from .options import (
    Cluster,
    Command,
    File,
    FileOrFolder,
    Format,
    Group,
    Jobs,
    Json,
    OfBase,
    OfReport,
    Resume,
    SearchPath,
    Variant,
    XacroArguments,
)

app = typer.Typer(
    name="kinema",
    help="The robot compiler: read, check, convert and simulate robots from URDF, SDFormat, MJCF and USD files.",
    no_args_is_help=True,
    rich_markup_mode="markdown",  # which lets paragraphs flow
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    cls=Group,
)


@app.command(cls=Command)
def info(  # noqa: PLR0913, PLR0917  one for each option of the command
    file: FileOrFolder,
    arguments: XacroArguments = None,
    json: Json = False,
    format: Format = None,
    search_path: SearchPath = None,
    variant: Variant = None,
    base: OfBase = None,
    report: OfReport = None,
    jobs: Jobs = None,
    cluster: Cluster = None,
    resume: Resume = None,
) -> None:
    """Show what is in a robot file: a tree of links and joints with masses, limits and shapes; of a folder, a table.

    Exit status: 0 fine, 1 the file has errors (all listed), 2 it could not be read at all.
    """
    from . import info as single, inspect_batch as batch
    from .library import Doing, is_library
    from .reading import settings

    how = settings(format, search_path, variant, arguments, base)
    if is_library(file):
        raise typer.Exit(batch.run(file, batch.Asked("info", how, json, report), Doing(jobs, cluster, resume)))
    raise typer.Exit(single.run(file, how, json=json))


@app.command(cls=Command)
def check(  # noqa: PLR0913, PLR0917  one for each option of the command
    file: FileOrFolder,
    arguments: XacroArguments = None,
    json: Json = False,
    format: Format = None,
    search_path: SearchPath = None,
    openusd: Annotated[
        bool, typer.Option("--openusd", help="Also run OpenUSD's own physics validators on a USD stage.")
    ] = False,
    variant: Variant = None,
    base: OfBase = None,
    report: OfReport = None,
    jobs: Jobs = None,
    cluster: Cluster = None,
    resume: Resume = None,
) -> None:
    """Check a robot file and list every problem with its place and how to repair it; of a folder, count them.

    Exit status: 0 fine, 1 the file has errors (all listed), 2 it could not be read at all.
    """
    from . import check as single, inspect_batch as batch
    from .library import Doing, is_library
    from .reading import settings

    how = settings(format, search_path, variant, arguments, base)
    if is_library(file):
        asked = batch.Asked("check", how, json, report, openusd=openusd)
        raise typer.Exit(batch.run(file, asked, Doing(jobs, cluster, resume)))
    raise typer.Exit(single.run(file, how, json=json, openusd=openusd))


@app.command(cls=Command)
def simulate(  # noqa: PLR0913, PLR0917  one for each option of the command
    file: File,
    arguments: XacroArguments = None,
    envs: Annotated[
        int, typer.Option("--envs", "-n", min=1, metavar="N", help="How many copies to simulate at once.")
    ] = 1,
    steps: Annotated[int, typer.Option("--steps", "-s", min=1, metavar="N", help="How many steps to take.")] = 1000,
    dt: Annotated[float, typer.Option("--dt", metavar="SECONDS", help="Time of a step.")] = 0.002,
    device: Annotated[
        str,
        typer.Option("--device", "-d", metavar="NAME", help="cpu, cuda:0, ..., or auto: a GPU where there is one."),
    ] = "cpu",
    integrator: Annotated[
        IntegratorName,
        typer.Option(
            "--integrator",
            metavar="NAME",
            help="implicitfast: implicit in velocity. euler: semi-implicit. rk4: Runge and Kutta's, of fourth order.",
        ),
    ] = IntegratorName.IMPLICIT,
    precision: Annotated[
        Precision, typer.Option("--precision", metavar="NAME", help="Numbers of 32 (single) or 64 (double) bits.")
    ] = Precision.SINGLE,
    control: Annotated[
        Driving,
        typer.Option(
            "--control",
            metavar="HOW",
            help="zero: no forces in joints, so that the robot falls or swings. hold: every joint stays where it "
            "starts. random: new targets within the limits every half second, different ones in each copy.",
        ),
    ] = Driving.ZERO,
    seed: Annotated[
        int, typer.Option("--seed", min=0, metavar="N", help="Of the random targets; the same seed, the same run.")
    ] = 0,
    contacts: Annotated[bool, typer.Option("--contacts/--no-contacts", help="Whether shapes touch.")] = True,
    limits: Annotated[bool, typer.Option("--limits/--no-limits", help="Whether joints keep their limits.")] = True,
    base: OfBase = None,
    fixed: Annotated[bool, typer.Option("--fixed", help="Bolt the base down: the same as --base fixed.")] = False,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile",
            help="Also show the time of each stage of the start and, on a CPU, of each phase of a step. The run is "
            "repeated for that, with code that has a clock in it.",
        ),
    ] = False,
    json: Json = False,
    format: Format = None,
    search_path: SearchPath = None,
    variant: Variant = None,
) -> None:
    """Simulate many copies of a robot, and show how fast that was and where the joints ended up.

    The robot is compiled for the device first, which takes some seconds once; the result is cached on disk. On a CPU
    steps begin with baseline code, which compiles quickly, and go on with optimised code when that is compiled in the
    background. Results are the same to the last bit.

    Exit status: 0 fine, 1 the file has errors (all listed), it cannot be simulated, or a copy went wrong, 2 it could
    not be read at all, or the device is not there.
    """
    from .reading import settings
    from .simulate import run
    from .simulate_result import Options

    if fixed and base not in (None, BaseName.FIXED):
        raise typer.BadParameter(f"--fixed and --base {base.value} contradict each other", param_hint="--fixed")
    options = Options(
        envs=envs,
        steps=steps,
        dt=dt,
        device=device,
        integrator=integrator.value,
        precision=precision.value,
        control=control.value,
        seed=seed,
        contacts=contacts,
        limits=limits,
        json=json,
        profile=profile,
    )
    how = settings(format, search_path, variant, arguments, BaseName.FIXED if fixed else base)
    raise typer.Exit(run(file, options, how))


@app.command(cls=Command)
def doctor(json: Json = False) -> None:
    """Look at this machine: Python, packages, devices, the cache; test each device; say what is missing.

    Exit status: 0 everything that simulation needs is there and works, 1 something is not.
    """
    from .doctor import run

    raise typer.Exit(run(json=json))


@app.command(cls=Command)
def rules(json: Json = False) -> None:
    """List the rules that `kinema check` applies, with their codes."""
    from .check import list_rules

    raise typer.Exit(list_rules(json=json))


def _print_version(wanted: bool) -> None:
    if wanted:
        from kinema import __version__

        typer.echo(f"kinema {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of the command itself."""
