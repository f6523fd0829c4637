"""The options that several commands share, and how commands are shown in the help."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from .choices import BaseName, Drives, Layout, Meshes, MeshFormat

CLUSTER = "--cluster"
_ADDRESS = re.compile(r"^(auto|local|ray://.+|[\w.-]+:\d+)$")

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="The robot: .urdf, .xacro, .sdf, .world, MJCF .xml, .usda, .usdc, .usd, .usdz, a CAD snapshot or .step; - "
        "for the standard input.",
    ),
]
FileOrFolder = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="The robot: .urdf, .xacro, .sdf, .world, MJCF .xml, .usda, .usdc, .usd, .usdz, a CAD snapshot or .step; - "
        "for the standard input; or a folder of robots, which may be the address of an object store.",
    ),
]
XacroArguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME:=VALUE", help="Arguments of a xacro file.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="urdf, sdf, mjcf, usd, cad or step; found out from the file when not given.",
        show_default=False,
    ),
]
SearchPath = Annotated[
    list[Path] | None,
    typer.Option(
        "--search-path",
        "--package-path",
        "-p",
        metavar="DIR",
        help="A folder that is, or holds, packages or models the file refers to. May be given several times.",
        show_default=False,
    ),
]
Variant = Annotated[
    list[str] | None,
    typer.Option(
        "--variant",
        metavar="/PRIM:SET=VARIANT",
        help="Choose a variant of a USD stage instead of the one it selects. May be given several times.",
        show_default=False,
    ),
]
OfBase = Annotated[
    BaseName | None,
    typer.Option(
        "--base",
        metavar="HOLD",
        help="What holds the robot's base: fixed, free or unspecified; as the file says when not given.",
        show_default=False,
    ),
]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="FORMAT,...",
        help="What to write: usda, usdc, usdz, urdf, sdf, mjcf; several with commas between, or all. By the suffix of "
        "OUT when not given.",
        show_default=False,
    ),
]
OfLayout = Annotated[
    Layout,
    typer.Option(
        "--layout",
        metavar="LAYOUT",
        help="Of USD: every link inside the link that carries it (nested), or all side by side (flat).",
    ),
]
OfMeshes = Annotated[
    Meshes,
    typer.Option(
        "--meshes",
        metavar="HOW",
        help="copy: mesh files beside the output, as they are. bake: new OBJ files beside it, scale applied. "
        "reference: the files where they lie; of USD, a file of triangles beside it. embed: inside the USD file, "
        "else copied; package:// references of URDF stay in URDF.",
    ),
]
OfMeshFormat = Annotated[
    MeshFormat | None,
    typer.Option(
        "--mesh-format",
        metavar="KIND",
        help="Of URDF and SDFormat: the kind of mesh file for what is seen: obj, dae or glb; when not given, files "
        "stay as they are where they can be read.",
        show_default=False,
    ),
]
OfActuators = Annotated[
    Drives | None,
    typer.Option(
        "--actuators",
        metavar="KIND",
        help="Of MJCF and USD: make actuators for joints that have none, by the transmissions, ros2_control blocks or "
        "limits of effort of a URDF file: position, velocity or effort.",
        show_default=False,
    ),
]

OfReport = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="FILE", help="Write all that was found or lost to this file, as JSON.", show_default=False
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        min=1,
        metavar="N",
        help="Of a folder: how many files to work on at once; else one per CPU.",
        show_default=False,
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        CLUSTER,
        metavar="[ADDRESS]",
        help="Of a folder: let a Ray cluster do it, at host:port or ray://host:port; without an address the one that "
        "runs here, or a new one on this machine.",
        show_default=False,
    ),
]
Resume = Annotated[
    bool | None,
    typer.Option(
        "--resume/--no-resume",
        help="Of a folder: whether what is done already, by content, is not done again; on a cluster so when not "
        "given.",
        show_default=False,
    ),
]


def with_address(arguments: list[str]) -> list[str]:
    """Arguments in which `--cluster` has a value, also where nothing that looks like an address follows it."""
    result: list[str] = []
    for i, word in enumerate(arguments):
        result.append(word)
        if word == CLUSTER and not _ADDRESS.match("".join(arguments[i + 1 : i + 2])):
            result.append("auto")
    return result


def _in_plain_words(parameters: list[Any]) -> list[Any]:
    """Parameters of which the help names no types of Python: a flag takes no value, an argument's name says enough."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
        if isinstance(parameter, TyperArgument):
            parameter.display_type_rich = _nothing
    return parameters


def _nothing(ctx: Any) -> None:
    """What the help says of an argument's type."""


class Command(TyperCommand):
    """A command whose help names no types of Python, and whose `--cluster` need not have a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the arguments apart."""
        return super().parse_args(ctx, with_address(args))

    def get_params(self, ctx: Any) -> list[Any]:
        """All options and arguments."""
        return _in_plain_words(super().get_params(ctx))


class Group(TyperGroup):
    """The command of commands, likewise."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All options and arguments."""
        return _in_plain_words(super().get_params(ctx))
