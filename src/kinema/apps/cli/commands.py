"""The commands and their options."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from .choices import Driving, IntegratorName, Layout, Meshes, Precision

app = typer.Typer(
    name="kinema",
    help="The robot compiler: read, check, convert and simulate robots from URDF, SDFormat, MJCF and USD files.",
    no_args_is_help=True,
    rich_markup_mode="markdown",  # which lets paragraphs flow
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="The robot: .urdf, .xacro, .sdf, .world, MJCF .xml, .usda, .usdc, .usd, .usdz, a CAD snapshot or .step.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Format = Annotated[
    str | None, typer.Option("--format", help="urdf, sdf, mjcf or usd; found out from the file when not given.")
]
SearchPath = Annotated[
    list[Path] | None,
    typer.Option(
        "--package-path",
        "-p",
        metavar="DIR",
        help="A folder that is, or holds, packages or models the file refers to. May be given several times.",
    ),
]
Variant = Annotated[
    list[str] | None,
    typer.Option(
        "--variant",
        metavar="/PRIM:SET=VARIANT",
        help="Choose a variant of a USD stage instead of the one it selects. May be given several times.",
    ),
]


def _some_time(value: float) -> float:
    """A time that is more than none."""
    if not (math.isfinite(value) and value > 0.0):
        raise typer.BadParameter(f"{value!r} is not a time in seconds of more than 0")
    return value


@app.command()
def info(
    file: File, json: Json = False, format: Format = None, package_path: SearchPath = None, variant: Variant = None
) -> None:
    """Show what is in a robot file: a tree of links and joints with masses, limits and shapes.

    Exit status: 0 fine, 1 the file has errors (all listed), 2 it could not be read at all.
    """
    from .info import run

    raise typer.Exit(run(file, json=json, format=format, search_paths=package_path or [], variants=variant or []))


@app.command()
def check(
    file: File,
    json: Json = False,
    format: Format = None,
    package_path: SearchPath = None,
    openusd: Annotated[
        bool, typer.Option("--openusd", help="Also run OpenUSD's own physics validators on a USD stage.")
    ] = False,
    variant: Variant = None,
) -> None:
    """Check a robot file and list every problem with its place and how to repair it.

    Exit status: 0 fine, 1 the file has errors (all listed), 2 it could not be read at all.
    """
    from .check import run

    paths, variants = package_path or [], variant or []
    raise typer.Exit(run(file, json=json, format=format, search_paths=paths, openusd=openusd, variants=variants))


@app.command()
def convert(  # noqa: PLR0913, PLR0917  one for each option of the command
    source: Annotated[
        Path, typer.Argument(metavar="IN", help="The robot to read, in any format; or a folder of them.")
    ],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="The file to write: .usda, .usdc, .usd, .usdz, .urdf, .sdf or MJCF .xml. A folder where IN is one, or "
            "where several formats are written.",
        ),
    ],
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="FORMAT,...",
            help="What to write: usda, usdc, usdz, urdf, sdf, mjcf; several with commas between, or all. By the suffix "
            "of OUT when not given.",
        ),
    ] = None,
    layout: Annotated[
        Layout,
        typer.Option("--layout", help="Of USD: every link inside the link that carries it, or all side by side."),
    ] = Layout.NESTED,
    meshes: Annotated[
        Meshes,
        typer.Option(
            "--meshes",
            help="copy: mesh files beside the output, as they are. bake: new OBJ files beside it, scale applied. "
            "reference: the files where they lie; of USD, a file of triangles beside it. embed: inside the USD file, "
            "else copied.",
        ),
    ] = Meshes.EMBED,
    layered: Annotated[
        bool, typer.Option("--layered", help="Of USD: a small file that loads geometry and physics from others.")
    ] = False,
    robot: Annotated[
        str,
        typer.Option("--robot", metavar="NAME", help="Of URDF, which holds one robot: the one of several to write."),
    ] = "",
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write all that was lost to this file, as JSON.")
    ] = None,
    format: Format = None,
    package_path: SearchPath = None,
    variant: Variant = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", min=1, help="How many files of a folder to convert at once; else one per CPU."),
    ] = None,
) -> None:
    """Convert a robot file to another format or layout, and list what could not be carried over.

    Of a folder, every robot in it and below is converted; a failure does not stop the others, and one table at the end
    has them all. Several formats go to folders of their names in OUT. Files appear whole or not at all.

    Exit status: 0 fine, also where something was lost, 1 the input has errors (all listed; the output was written), 2
    it could not be read or the output not be written.
    """
    from . import convert as single, convert_batch as batch

    settings = single.WriteSettings(layout.value, meshes.value, layered, robot)
    how = single.ReadSettings(format, tuple(package_path or ()), tuple(variant or ()))
    if source.is_dir() or (to is not None and ("," in to or to.strip().lower() == single.ALL)):
        raise typer.Exit(batch.run(source, target, batch.Options(to, jobs, how, report, settings)))
    raise typer.Exit(single.run(source, target, how, report=report, settings=settings, to=to))


@app.command()
def simulate(  # noqa: PLR0913, PLR0917  one for each option of the command
    file: File,
    envs: Annotated[int, typer.Option("--envs", "-n", min=1, help="How many copies to simulate at once.")] = 1,
    steps: Annotated[int, typer.Option("--steps", "-s", min=1, help="How many steps to take.")] = 1000,
    dt: Annotated[float, typer.Option("--dt", help="Time of a step [s].")] = 0.002,
    device: Annotated[
        str, typer.Option("--device", "-d", help="cpu, cuda:0, ..., or auto: a GPU where there is one.")
    ] = "cpu",
    integrator: Annotated[
        IntegratorName,
        typer.Option(
            "--integrator",
            help="implicitfast: implicit in velocity. euler: semi-implicit. rk4: Runge and Kutta's, of fourth order.",
        ),
    ] = IntegratorName.IMPLICIT,
    precision: Annotated[
        Precision, typer.Option("--precision", help="Numbers of 32 (single) or 64 (double) bits.")
    ] = Precision.SINGLE,
    control: Annotated[
        Driving,
        typer.Option(
            "--control",
            help="zero: no forces in joints, so that the robot falls or swings. hold: every joint stays where it "
            "starts. random: new targets within the limits every half second, different ones in each copy.",
        ),
    ] = Driving.ZERO,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the random targets; the same seed, the same run.")] = 0,
    json: Json = False,
    format: Format = None,
    package_path: SearchPath = None,
    variant: Variant = None,
) -> None:
    """Simulate many copies of a robot, and show how fast that was and where the joints ended up.

    The robot is compiled for the device first, which takes some seconds once; the result is kept on disk.

    Exit status: 0 fine, 1 the file has errors (all listed), it cannot be simulated, or a copy went wrong, 2 it could
    not be read at all, or the device is not there.
    """
    from .simulate import Options, run

    options = Options(
        envs=envs,
        steps=steps,
        dt=dt,
        device=device,
        integrator=integrator.value,
        precision=precision.value,
        control=control.value,
        seed=seed,
        json=json,
    )
    paths, variants = package_path or [], variant or []
    raise typer.Exit(run(file, options, format=format, search_paths=paths, variants=variants))


@app.command()
def doctor(json: Json = False) -> None:
    """Look at this machine: Python, packages, devices, the cache; test each device; say what is missing.

    Exit status: 0 everything that simulation needs is there and works, 1 something is not.
    """
    from .doctor import run

    raise typer.Exit(run(json=json))


@app.command()
def bench(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Robots to measure with, of any format.")],
    envs: Annotated[str, typer.Option(help="Numbers of environments, separated by commas.")] = "4096",
    device: Annotated[str, typer.Option(help="cpu, cuda:0, or auto for a GPU where there is one.")] = "auto",
    seconds: Annotated[float, typer.Option(callback=_some_time, help="How long each measurement takes.")] = 1.0,
    json: Json = False,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Also draw a chart.")] = None,
    startup: Annotated[bool, typer.Option(help="Also measure the first step of a new process.")] = True,
    free: Annotated[bool, typer.Option("--free", help="Without limits, dry friction, mimics and loops.")] = False,
) -> None:
    """Measure environment-steps a second beside MuJoCo C and, where it is installed, MuJoCo Warp, in one run.

    Every simulator gets the same robot (without its shapes: there is no contact), the same integrator, and random
    commands at every step. Ratios are to the peer on as many cores. Results are checked against MuJoCo C in double
    precision. Measure on an otherwise idle machine.

    Exit status: 0 fine, 1 something did not stay finite, 2 a file could not be read or simulated.
    """
    from .bench import bench as run

    counts = _counts(envs)
    raise typer.Exit(run(files, counts, device, seconds=seconds, json=json, plot=plot, startup=startup, free=free))


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


@app.command()
def rules() -> None:
    """List the rules that `kinema check` applies, with their codes."""
    from .check import list_rules

    raise typer.Exit(list_rules())


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
