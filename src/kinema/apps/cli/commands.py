"""Typer declarations of the commands for single robots: info, check, convert, simulate, compile, publish, ..."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Annotated

import typer

from kinema.tokens import WriteOptions

from .options import (
    BaseName,
    ContactSceneName,
    ControlStrategy,
    ExecutionOptions,
    FileArgument,
    FileOrFolderArgument,
    HeapKindName,
    IntegratorName,
    JsonOption,
    KinemaCommand,
    KinemaGroup,
    Lighting,
    Precision,
    ReadSettings,
    ReportOption,
    TargetFormatOption,
    VideoMotion,
    command_with_records,
)

# --------------------------------------------------------------------------------- info, check, simulate, doctor, rules

app = typer.Typer(
    name="kinema",
    help="The robot compiler: read, check, convert and simulate robots from URDF, SDFormat, MJCF and USD files.",
    no_args_is_help=True,
    rich_markup_mode="markdown",  # which lets paragraphs flow
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    cls=KinemaGroup,
)


@app.command(cls=KinemaCommand)
@command_with_records
def info(
    *,
    file: FileOrFolderArgument,
    json: JsonOption = False,
    read_settings: ReadSettings,
    report: ReportOption = None,
    execution: ExecutionOptions,
) -> None:
    """Show what is in a robot file: a tree of links and joints with masses, limits and shapes; of a folder, a table.

    Exit status: 0 fine, 1 the file has errors (all listed), 2 it could not be read at all.
    """
    from . import check as batch, info as single
    from .batch import is_folder_or_url

    if is_folder_or_url(file):
        raise typer.Exit(
            batch.inspect_folder(file, batch.InspectOptions("info", read_settings, json, report), execution)
        )
    raise typer.Exit(single.show_info(file, read_settings, json=json))


@app.command(cls=KinemaCommand)
@command_with_records
def check(
    *,
    file: FileOrFolderArgument,
    json: JsonOption = False,
    openusd: Annotated[
        bool, typer.Option("--openusd", help="Also run OpenUSD's own physics validators on a USD stage.")
    ] = False,
    read_settings: ReadSettings,
    report: ReportOption = None,
    execution: ExecutionOptions,
) -> None:
    """Check a robot file and list every problem with its place and how to repair it; of a folder, count them.

    Exit status: 0 fine, 1 the file has errors (all listed), 2 it could not be read at all.
    """
    from .batch import is_folder_or_url
    from .check import InspectOptions, check_file, inspect_folder

    if is_folder_or_url(file):
        asked = InspectOptions("check", read_settings, json, report, openusd=openusd)
        raise typer.Exit(inspect_folder(file, asked, execution))
    raise typer.Exit(check_file(file, read_settings, json=json, openusd=openusd))


@app.command(cls=KinemaCommand)
@command_with_records
def simulate(  # noqa: PLR0913  one for each option of the command
    *,
    file: FileArgument,
    envs: Annotated[
        int, typer.Option("--envs", "-n", min=1, metavar="N", help="How many copies to simulate at once.")
    ] = 1,
    steps: Annotated[int, typer.Option("--steps", "-s", min=1, metavar="N", help="How many steps to take.")] = 1000,
    dt: Annotated[
        float | None,
        typer.Option("--dt", metavar="SECONDS", help="Time of a step; default: that of an MJCF file, else 0.002."),
    ] = None,
    device: Annotated[
        str,
        typer.Option("--device", "-d", metavar="NAME", help="cpu, cuda:0, ..., or auto: a GPU where there is one."),
    ] = "cpu",
    integrator: Annotated[
        IntegratorName | None,
        typer.Option(
            "--integrator",
            metavar="NAME",
            help="implicitfast: implicit in velocity. implicit: in Coriolis forces too. euler: semi-implicit. rk4: "
            "Runge and Kutta's, of fourth order. Default: that of an MJCF file, else implicitfast.",
        ),
    ] = None,
    precision: Annotated[
        Precision, typer.Option("--precision", metavar="NAME", help="Numbers of 32 (single) or 64 (double) bits.")
    ] = Precision.SINGLE,
    control: Annotated[
        ControlStrategy,
        typer.Option(
            "--control",
            metavar="HOW",
            help="zero: no forces in joints, so that the robot falls or swings. hold: every joint stays where it "
            "starts. random: new targets within the limits every half second, different ones in each copy.",
        ),
    ] = ControlStrategy.ZERO,
    seed: Annotated[
        int, typer.Option("--seed", min=0, metavar="N", help="Of the random targets; the same seed, the same run.")
    ] = 0,
    contacts: Annotated[bool, typer.Option("--contacts/--no-contacts", help="Whether shapes touch.")] = True,
    limits: Annotated[bool, typer.Option("--limits/--no-limits", help="Whether joints keep their limits.")] = True,
    fixed: Annotated[bool, typer.Option("--fixed", help="Bolt the base down: the same as --base fixed.")] = False,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile",
            help="Also show the time of each stage of the start and, on a CPU, of each phase of a step. The run is "
            "repeated for that, with code that has a clock in it.",
        ),
    ] = False,
    json: JsonOption = False,
    read_settings: ReadSettings,
) -> None:
    """Simulate many copies of a robot, and show how fast that was and where the joints ended up.

    The robot is compiled for the device first, which takes some seconds once; the result is cached on disk. On a CPU
    steps begin with baseline code, which compiles quickly, and go on with optimised code when that is compiled in the
    background. Results are the same to the last bit.

    Exit status: 0 fine, 1 the file has errors (all listed), it cannot be simulated, or a copy went wrong, 2 it could
    not be read at all, or the device is not there.
    """
    from .simulate import SimulateOptions, simulate_file

    if fixed:
        if read_settings.base not in (None, BaseName.FIXED):
            raise typer.BadParameter(
                f"--fixed and --base {read_settings.base} contradict each other", param_hint="--fixed"
            )
        read_settings = dataclasses.replace(read_settings, base=BaseName.FIXED)
    options = SimulateOptions(
        envs=envs,
        steps=steps,
        dt=dt,
        device=device,
        integrator=None if integrator is None else integrator.value,
        precision=precision.value,
        control=control.value,
        seed=seed,
        contacts=contacts,
        limits=limits,
        json=json,
        profile=profile,
    )
    raise typer.Exit(simulate_file(file, options, read_settings))


@app.command(cls=KinemaCommand)
def doctor(json: JsonOption = False) -> None:
    """Look at this machine: Python, packages, devices, the cache; test each device; say what is missing.

    Exit status: 0 everything that simulation needs is there and works, 1 something is not.
    """
    from .doctor import run_doctor

    raise typer.Exit(run_doctor(json=json))


@app.command(cls=KinemaCommand)
def rules(json: JsonOption = False) -> None:
    """List the rules that `kinema check` applies, with their codes."""
    from .check import list_rules

    raise typer.Exit(list_rules(json=json))


def _print_version(requested: bool) -> None:
    if requested:
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


# -------------------------------------------------------------------------------------------------------------- compile


@app.command(cls=KinemaCommand)
@command_with_records
def compile(  # noqa: PLR0913  the name of the command; one for each of its options
    *,
    files: Annotated[
        list[Path], typer.Argument(metavar="ROBOT...", help="The robots, in any format; each becomes a library.")
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="DIR", help="The folder for the files, or for one folder each."),
    ],
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="The name of the library, with which its functions begin; else that of the robot.",
            show_default=False,
        ),
    ] = None,
    functions: Annotated[
        str | None,
        typer.Option(
            "--functions",
            "-f",
            metavar="NAME,...",
            help="Of fk, jacobian, rnea, crba, aba, ik and step, which also gives observe; all when not given.",
            show_default=False,
        ),
    ] = None,
    precision: Annotated[
        Precision | None,
        typer.Option(
            "--precision",
            metavar="NAME",
            help="Numbers of 32 (single) or 64 (double) bits; else double, where the target has it.",
            show_default=False,
        ),
    ] = None,
    ik_links: Annotated[
        list[str] | None,
        typer.Option(
            "--ik-link",
            metavar="LINK",
            help="A link for inverse kinematics; else the ends of up to four chains. May be given several times.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str,
        typer.Option(
            "--target",
            "-t",
            metavar="NAME",
            help="native, x86-64-v3, aarch64, riscv64, thumbv7em or wasm32.",
        ),
    ] = "native",
    contacts: Annotated[bool, typer.Option("--contacts/--no-contacts", help="Whether shapes touch.")] = True,
    json: JsonOption = False,
    read_settings: Annotated[ReadSettings, ("arguments",)],
) -> None:
    """Compile robots to C libraries: object file, static and shared library, headers for C and C++, Python loader.

    The libraries need neither Python nor Kinema, allocate nothing and give the same bits as a scene with one
    environment. A scene of several things is compiled by `kinema.compile_library`.

    Exit status: 0 fine, 1 a file has errors (all listed), or it cannot be compiled, 2 it could not be read at all.
    """
    from .compile import CompileOptions, compile_files

    if name is not None and len(files) > 1:
        raise typer.BadParameter("one name for several robots", param_hint="--name")
    options = CompileOptions(
        out=out,
        name=name,
        functions=functions,
        precision=None if precision is None else precision.value,
        target=target,
        contacts=contacts,
        ik_links=ik_links,
        json=json,
    )
    raise typer.Exit(compile_files(files, options, read_settings))


@app.command(cls=KinemaCommand)
@command_with_records
def publish(
    *,
    robot: Annotated[
        Path | None,
        typer.Argument(metavar="ROBOT", help="The robot, in any format; not given with --task.", show_default=False),
    ] = None,
    scene: Annotated[
        Path | None,
        typer.Argument(
            metavar="SCENE.py",
            help="A Python file with a function make_scene(robot) that returns a kinema.Scene.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The folder for the files.")],
    title: Annotated[
        str | None,
        typer.Option("--title", metavar="TEXT", help="The title; else the name of the robot.", show_default=False),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            metavar="NAME",
            help="The task of a policy, whose scene is published: cartpole, walk or walk-rough.",
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="A policy (.npz) for the task.", show_default=False),
    ] = None,
    json: JsonOption = False,
    read_settings: Annotated[ReadSettings, ("arguments",)],
) -> None:
    """Write a static web page that simulates a robot in the browser, with contacts: no server, no installation.

    The folder has one page, the simulation as a WebAssembly module, and the shapes of the robot. It is opened from the
    disk or put on any web server. Parts are pulled with the mouse, joints are moved by sliders.

    Exit status: 0 fine, 1 a file has errors (all listed), or it cannot be published, 2 it could not be read at all.
    """
    from .publish import PublishOptions, publish_robot

    options = PublishOptions(robot=robot, scene=scene, out=out, title=title, task=task, policy=policy, json=json)
    raise typer.Exit(publish_robot(options, read_settings))


# -------------------------------------------------------------------------------------------------------------- convert


@app.command(cls=KinemaCommand)
@command_with_records
def convert(
    *,
    source: Annotated[
        Path,
        typer.Argument(
            metavar="IN", help="The robot to read, in any format; - for the standard input; or a folder of robots."
        ),
    ],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="The file to write: .usda, .usdc, .usd, .usdz, .urdf, .sdf or MJCF .xml; - for the standard output. "
            "Or a folder, with --to.",
        ),
    ],
    to: TargetFormatOption = None,
    writing: WriteOptions,
    report: ReportOption = None,
    json: JsonOption = False,
    read_settings: Annotated[ReadSettings, ("base",)],
    execution: ExecutionOptions,
) -> None:
    """Convert a robot file to another format or layout, and list what could not be carried over.

    Of a folder, every robot in it and below is converted; a failure does not stop the others, and one table at the end
    has them all. Several formats go to folders of their names in OUT. Files appear whole or not at all. Folders may be
    addresses of object stores, such as s3://bucket/robots, and a Ray cluster may do the work (docs/scale.md).

    Exit status: 0 fine, also where something was lost, 1 the input has errors (all listed; the output was written), 2
    it could not be read or the output not be written.
    """
    from .batch import is_folder_or_url
    from .convert import ALL_FORMATS, BatchOptions, ReportOptions, convert_file, convert_many

    reports = ReportOptions(report, json)
    if is_folder_or_url(source) or (to is not None and ("," in to or to.strip().lower() == ALL_FORMATS)):
        raise typer.Exit(convert_many(source, target, BatchOptions(to, execution, read_settings, reports, writing)))
    raise typer.Exit(convert_file(source, target, read_settings, write_options=writing, to=to, report_options=reports))


# --------------------------------------------------------------------------------------------------------------- render


def _parse_image_size(text: str) -> tuple[int, int]:
    """Parse `960x720` as width and height."""
    width, _, height = text.lower().partition("x")
    if not (width.isdecimal() and height.isdecimal() and 0 < int(width) <= 16384 and 0 < int(height) <= 16384):
        raise typer.BadParameter(f"{text!r} is not a size such as 960x720", param_hint="--size")
    return int(width), int(height)


def _require_finite(value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value!r} is not a finite number")
    return value


@app.command(cls=KinemaCommand)
@command_with_records
def render(  # noqa: PLR0913  one for each option of the command
    *,
    file: FileArgument,
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
        VideoMotion | None,
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
            "--budget",
            callback=_require_finite,
            metavar="S",
            help="Begin no more paths after this time.",
            show_default=False,
        ),
    ] = None,
    lights: Annotated[
        Lighting, typer.Option("--lights", metavar="WHICH", help="studio: ours. file: those of the file.")
    ] = Lighting.STUDIO,
    azimuth: Annotated[
        float,
        typer.Option("--azimuth", callback=_require_finite, metavar="DEG", help="Where the camera stands, from +x."),
    ] = -50.0,
    elevation: Annotated[
        float, typer.Option("--elevation", min=-89.0, max=89.0, metavar="DEG", help="How high it stands.")
    ] = 19.0,
    collision: Annotated[bool, typer.Option("--collision", help="Show the shapes that touch.")] = False,
    device: Annotated[str, typer.Option("--device", "-d", metavar="NAME", help="cpu, cuda:0, ..., or auto.")] = "auto",
    json: JsonOption = False,
    read_settings: ReadSettings,
) -> None:
    """Make a picture of a robot, or a video, without a window or a graphics driver.

    Exit status: 0 fine, 1 the file has errors (all listed; the picture was made), 2 it could not be read, or nothing
    could be written.
    """
    from .render import RenderOptions, render_file

    if out is None and video is None:
        raise typer.BadParameter("say what to write: --out image.png, or --video film.mp4", param_hint="--out")
    options = RenderOptions(
        out=out,
        video=video,
        pathtrace=pathtrace,
        camera=camera,
        keyframe=keyframe,
        seconds=seconds,
        fps=fps,
        turntable=turntable,
        motion="" if motion is None else motion.value,
        size=_parse_image_size(size),
        samples=samples,
        budget=budget,
        lights=lights.value,
        azimuth=math.radians(azimuth),
        elevation=math.radians(elevation),
        collision=collision,
        device=device,
    )
    raise typer.Exit(render_file(file, options, read_settings, json=json))


# ----------------------------------------------------------------------------------------------------------------- view


@app.command(cls=KinemaCommand)
@command_with_records
def view(  # noqa: PLR0913  one for each option of the command
    *,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Robots of any format, side by side; two are compared."),
    ],
    envs: Annotated[
        int, typer.Option("--envs", "-n", min=1, max=4096, metavar="N", help="Copies that are simulated when it plays.")
    ] = 1,
    port: Annotated[
        int,
        typer.Option(min=0, max=65535, metavar="N", help="Where to listen; one of the next if it is taken."),
    ] = 8080,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="The address to listen at: this machine alone, or 0.0.0.0 for all of its addresses; others than "
            "this machine need the token that is printed.",
        ),
    ] = "127.0.0.1",
    token: Annotated[
        str,
        typer.Option(metavar="WORD", help="What others have to bring; random when not given.", show_default=False),
    ] = "",
    watch: Annotated[bool, typer.Option("--watch/--no-watch", help="Read files again when they change.")] = True,
    plain: Annotated[bool, typer.Option("--plain", help="Begin without shadows and mirrored light.")] = False,
    browser: Annotated[bool, typer.Option("--open", help="Open a browser here.")] = False,
    read_settings: Annotated[ReadSettings, ("arguments",)],
    json: JsonOption = False,
) -> None:
    """Show robots in the browser: look, move joints, simulate, drag, plot, check, compare. Ends with Ctrl-C.

    Exit status: 0 fine, 2 a file could not be read, or there is no viewer (pip install 'kinema[viewer]').
    """
    from .view import view_files

    address = {"host": host, "port": port, "token": token}
    shown = {"envs": envs, "watch": watch, "simple_shading": plain, "open_browser": browser, "json": json}
    raise typer.Exit(view_files(files, read_settings, address, **shown))


# ---------------------------------------------------------------------------------------------------------------- bench


def _positive_seconds(value: float) -> float:
    """Validate a positive duration."""
    if not (math.isfinite(value) and value > 0.0):
        raise typer.BadParameter(f"{value!r} is not a time in seconds of more than 0")
    return value


@app.command(cls=KinemaCommand)
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
        float, typer.Option(callback=_positive_seconds, metavar="SECONDS", help="How long each measurement takes.")
    ] = 1.0,
    json: JsonOption = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Also draw a chart.", show_default=False)
    ] = None,
    startup: Annotated[bool, typer.Option(help="Also measure the first step of a new process.")] = True,
    free: Annotated[bool, typer.Option("--free", help="Without limits, dry friction, mimics and loops.")] = False,
    contact: Annotated[
        ContactSceneName | None,
        typer.Option(
            metavar="PLACE",
            help="With contact. floor, terrain: robots on that. cube: hands with one. tower, clutter: without files, "
            "20 boxes on each other, or 50 objects. heap: --bodies objects in a bin.",
            show_default=False,
        ),
    ] = None,
    bodies: Annotated[
        str, typer.Option(metavar="N,...", help="heap: numbers of objects, separated by commas.")
    ] = "100",
    kind: Annotated[
        HeapKindName, typer.Option(metavar="KIND", help="heap: boxes, spheres, capsules, mixed or hulls.")
    ] = HeapKindName.BOXES,
    layers: Annotated[int, typer.Option(min=1, metavar="N", help="heap: how many objects lie on each other.")] = 4,
) -> None:
    """Measure environment-steps a second beside MuJoCo C and, where it is installed, MuJoCo Warp, in one run.

    Every simulator gets the same robot, the same integrator, and random commands at every step. Without `--contact`
    robots have no shapes. With it, all start from the same states of a wild run, in which robots have fallen over, and
    contacts, steps of the solver, errors and overflows are counted for all alike. Ratios are to the peer on as many
    cores. Results are checked against MuJoCo C in double precision. Measure on an otherwise idle machine.

    `--contact heap` measures one environment of a large scene: time to the first step, steps while objects fall, rest
    and sleep, and memory, each simulator in a process of its own.

    Exit status: 0 fine, 1 something did not stay finite, 2 a file could not be read or simulated.
    """
    counts = _parse_counts(envs, "--envs")
    named = files or []
    robotless = contact in (ContactSceneName.TOWER, ContactSceneName.CLUTTER, ContactSceneName.HEAP)
    if robotless and named:
        raise typer.BadParameter(f"--contact {contact} has no robot in it", param_hint="FILE...")
    if not robotless and not named:
        raise typer.BadParameter("which robots?", param_hint="FILE...")
    if contact is not None and free:
        raise typer.BadParameter("with contact nothing is free", param_hint="--free")
    if contact is ContactSceneName.HEAP:
        from ..bench import HeapKind
        from .bench_heap import run_heap_bench

        counts = _parse_counts(bodies, "--bodies")
        raise typer.Exit(run_heap_bench(counts, HeapKind(kind), layers, json=json, plot=plot))
    from ..bench import ContactScene
    from .bench import run_bench

    raise typer.Exit(
        run_bench(
            named,
            counts,
            device,
            scene=None if contact is None else ContactScene(contact),
            seconds=seconds,
            json=json,
            plot=plot,
            startup=startup,
            unconstrained=free,
        )
    )


def _parse_counts(text: str, option: str) -> list[int]:
    """Parse numbers of environments or objects from `1024,4096`."""
    try:
        counts = [int(n) for n in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        message = f"{text!r} is not a list of numbers of at least 1, such as 1024,4096"
        raise typer.BadParameter(message, param_hint=option)
    return counts
