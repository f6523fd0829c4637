"""The commands and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="kinema",
    help="The robot compiler: read, check, describe and convert robots from URDF, SDFormat, MJCF and USD files.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="The robot: .urdf, .xacro, .sdf, .world, MJCF .xml, .usda, .usdc, .usd or .usdz."
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


@app.command()
def info(file: File, json: Json = False, format: Format = None, package_path: SearchPath = None) -> None:
    """Show what is in a robot file: a tree of links and joints with masses, limits and shapes.

    Exit status: 0 fine, 1 the file has errors (all listed), 2 it could not be read at all.
    """
    from .info import run

    raise typer.Exit(run(file, json=json, format=format, search_paths=package_path or []))


@app.command()
def check(
    file: File,
    json: Json = False,
    format: Format = None,
    package_path: SearchPath = None,
    openusd: Annotated[
        bool, typer.Option("--openusd", help="Also run OpenUSD's own physics validators on a USD stage.")
    ] = False,
) -> None:
    """Check a robot file and list every problem with its place and how to repair it.

    Exit status: 0 fine, 1 the file has errors (all listed), 2 it could not be read at all.
    """
    from .check import run

    raise typer.Exit(run(file, json=json, format=format, search_paths=package_path or [], openusd=openusd))


@app.command()
def convert(  # noqa: PLR0913, PLR0917  one for each option of the command
    source: Annotated[Path, typer.Argument(metavar="IN", help="The robot to read, in any format, or a folder.")],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="OUT", help="The file to write: .usda, .usdc, .usd, .usdz, .urdf, .sdf or MJCF .xml; or a folder."
        ),
    ],
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="FORMAT", help="usda, usdc, usdz, urdf, sdf or mjcf; by the suffix of OUT when not given."
        ),
    ] = None,
    layout: Annotated[
        str, typer.Option("--layout", metavar="nested|flat", help="Links inside each other, or side by side (USD).")
    ] = "nested",
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write what was lost to this file, as JSON.")
    ] = None,
    format: Format = None,
    package_path: SearchPath = None,
    meshes: Annotated[
        str, typer.Option("--meshes", metavar="embed|reference", help="Triangles inside the file, or beside it (USD).")
    ] = "embed",
    layered: Annotated[
        bool, typer.Option("--layered", help="A small file that loads geometry and physics from others (USD).")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", min=1, help="How many files of a folder to convert at once; else one per CPU."),
    ] = None,
) -> None:
    """Convert a robot file to another format or layout, and list what could not be carried over.

    Of a folder, every robot in it and below is converted; a failure does not stop the others.

    Exit status: 0 fine, also where something was lost, 1 the input has errors (all listed; the output was written), 2
    it could not be read or the output not be written.
    """
    from . import convert as single, convert_batch as batch

    settings, paths = single.WriteSettings(layout, meshes, layered), package_path or []
    if source.is_dir():
        options = batch.Options(to, jobs, format, paths, report, settings)
        raise typer.Exit(batch.run(source, target, options))
    raise typer.Exit(
        single.run(source, target, format=format, search_paths=paths, report=report, settings=settings, to=to)
    )


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
