"""The command `kinema convert` and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .choices import Layout, Meshes
from .commands import app
from .options import (
    Cluster,
    Command,
    Format,
    Jobs,
    Json,
    OfActuators,
    OfBase,
    OfLayout,
    OfMeshes,
    OfMeshFormat,
    OfReport,
    Resume,
    SearchPath,
    To,
    Variant,
    XacroArguments,
)


@app.command(cls=Command)
def convert(  # noqa: PLR0913, PLR0917  one for each option of the command
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
    arguments: XacroArguments = None,
    to: To = None,
    layout: OfLayout = Layout.NESTED,
    meshes: OfMeshes = Meshes.EMBED,
    mesh_format: OfMeshFormat = None,
    layered: Annotated[
        bool, typer.Option("--layered", help="Of USD: a small file that loads geometry and physics from others.")
    ] = False,
    exact: Annotated[
        bool, typer.Option("--exact/--no-exact", help="Of USD: keep in full what single precision would cut off.")
    ] = True,
    base: OfBase = None,
    actuators: OfActuators = None,
    frames: Annotated[bool, typer.Option("--frames", help="Of URDF: frames become links without mass.")] = False,
    package: Annotated[
        str,
        typer.Option(
            "--package",
            metavar="NAME",
            help="Of URDF: the ROS package that meshes are referred to in; relative to the file when not given.",
        ),
    ] = "",
    format_version: Annotated[
        str,
        typer.Option("--format-version", metavar="VERSION", help="Of URDF: 1.0 to 1.2; of SDFormat: 1.9 to 1.12."),
    ] = "",
    robot: Annotated[
        str,
        typer.Option("--robot", metavar="NAME", help="Of URDF, which holds one robot: the one of several to write."),
    ] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Replace even the file that is read, or one that it is made of.")
    ] = False,
    report: OfReport = None,
    json: Json = False,
    format: Format = None,
    search_path: SearchPath = None,
    variant: Variant = None,
    jobs: Jobs = None,
    cluster: Cluster = None,
    resume: Resume = None,
) -> None:
    """Convert a robot file to another format or layout, and list what could not be carried over.

    Of a folder, every robot in it and below is converted; a failure does not stop the others, and one table at the end
    has them all. Several formats go to folders of their names in OUT. Files appear whole or not at all. Folders may be
    addresses of object stores, such as s3://bucket/robots, and a Ray cluster may do the work (docs/scale.md).

    Exit status: 0 fine, also where something was lost, 1 the input has errors (all listed; the output was written), 2
    it could not be read or the output not be written.
    """
    from . import convert as single, convert_batch as batch, reading
    from .library import Doing, is_library

    written = single.WriteSettings(
        layout=layout.value,
        meshes=meshes.value,
        mesh_format="" if mesh_format is None else mesh_format.value,
        layered=layered,
        robot=robot,
        exact=exact,
        version=format_version,
        base="auto" if base is None else base.value,
        frames=frames,
        package=package,
        actuators="" if actuators is None else actuators.value,
        force=force,
    )
    how = reading.settings(format, search_path, variant, arguments)
    showing = single.Showing(report, json)
    if is_library(source) or (to is not None and ("," in to or to.strip().lower() == single.ALL)):
        raise typer.Exit(
            batch.run(source, target, batch.Options(to, Doing(jobs, cluster, resume), how, showing, written))
        )
    raise typer.Exit(single.run(source, target, how, settings=written, to=to, showing=showing))
