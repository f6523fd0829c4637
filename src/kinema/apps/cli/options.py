"""Choices and options shared by several commands, and Typer command classes with a plain help text."""

from __future__ import annotations

import enum
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

# -------------------------------------------------------------------------------------------------------------- choices


class UsdLayout(enum.StrEnum):
    """Arrangement of links in a USD stage."""

    NESTED = "nested"
    FLAT = "flat"


class IntegratorName(enum.StrEnum):
    """Integrator."""

    IMPLICIT = "implicitfast"
    EULER = "euler"
    RK4 = "rk4"


class ContactSceneName(enum.StrEnum):
    """Scene of a benchmark with contacts."""

    FLOOR = "floor"
    TERRAIN = "terrain"
    CUBE = "cube"
    TOWER = "tower"
    CLUTTER = "clutter"


class Precision(enum.StrEnum):
    """Floating-point precision."""

    SINGLE = "single"
    DOUBLE = "double"


class ControlStrategy(enum.StrEnum):
    """Joint control during `kinema simulate`."""

    ZERO = "zero"
    HOLD = "hold"
    RANDOM = "random"


class MeshHandling(enum.StrEnum):
    """Treatment of mesh files."""

    EMBED = "embed"
    COPY = "copy"
    BAKE = "bake"
    REFERENCE = "reference"


class MeshFormat(enum.StrEnum):
    """Format of mesh files that are written."""

    OBJ = "obj"
    DAE = "dae"
    GLB = "glb"


class BaseName(enum.StrEnum):
    """Fixation of a robot's base."""

    FIXED = "fixed"
    FREE = "free"
    UNSPECIFIED = "unspecified"


class ActuatorKind(enum.StrEnum):
    """Controlled quantity of actuators that are created for joints."""

    POSITION = "position"
    VELOCITY = "velocity"
    EFFORT = "effort"


class Lighting(enum.StrEnum):
    """Lights of an image."""

    STUDIO = "studio"
    FILE = "file"


class VideoMotion(enum.StrEnum):
    """Motion in a video."""

    SWEEP = "sweep"
    SIMULATE = "simulate"
    STILL = "still"


# ----------------------------------------------------------------------------------- shared options and help formatting

CLUSTER_OPTION = "--cluster"
_CLUSTER_ADDRESS = re.compile(r"^(auto|local|ray://.+|[\w.-]+:\d+)$")

FileArgument = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="The robot: .urdf, .xacro, .sdf, .world, MJCF .xml, .usda, .usdc, .usd, .usdz, a CAD snapshot or .step; - "
        "for the standard input.",
    ),
]
FileOrFolderArgument = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="The robot: .urdf, .xacro, .sdf, .world, MJCF .xml, .usda, .usdc, .usd, .usdz, a CAD snapshot or .step; - "
        "for the standard input; or a folder of robots, which may be the address of an object store.",
    ),
]
XacroArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME:=VALUE", help="Arguments of a xacro file.", show_default=False),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="urdf, sdf, mjcf, usd, cad or step; found out from the file when not given.",
        show_default=False,
    ),
]
SearchPathOption = Annotated[
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
VariantOption = Annotated[
    list[str] | None,
    typer.Option(
        "--variant",
        metavar="/PRIM:SET=VARIANT",
        help="Choose a variant of a USD stage instead of the one it selects. May be given several times.",
        show_default=False,
    ),
]
BaseOption = Annotated[
    BaseName | None,
    typer.Option(
        "--base",
        metavar="HOLD",
        help="What holds the robot's base: fixed, free or unspecified; as the file says when not given.",
        show_default=False,
    ),
]
TargetFormatOption = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="FORMAT,...",
        help="What to write: usda, usdc, usdz, urdf, sdf, mjcf; several with commas between, or all. By the suffix of "
        "OUT when not given.",
        show_default=False,
    ),
]
LayoutOption = Annotated[
    UsdLayout,
    typer.Option(
        "--layout",
        metavar="LAYOUT",
        help="Of USD: every link inside the link that carries it (nested), or all side by side (flat).",
    ),
]
MeshesOption = Annotated[
    MeshHandling,
    typer.Option(
        "--meshes",
        metavar="HOW",
        help="copy: mesh files beside the output, as they are. bake: new OBJ files beside it, scale applied. "
        "reference: the files where they lie; of USD, a file of triangles beside it. embed: inside the USD file, "
        "else copied; package:// references of URDF stay in URDF.",
    ),
]
MeshFormatOption = Annotated[
    MeshFormat | None,
    typer.Option(
        "--mesh-format",
        metavar="KIND",
        help="Of URDF and SDFormat: the kind of mesh file for what is seen: obj, dae or glb; when not given, files "
        "stay as they are where they can be read.",
        show_default=False,
    ),
]
ActuatorsOption = Annotated[
    ActuatorKind | None,
    typer.Option(
        "--actuators",
        metavar="KIND",
        help="Of MJCF and USD: make actuators for joints that have none, by the transmissions, ros2_control blocks or "
        "limits of effort of a URDF file: position, velocity or effort.",
        show_default=False,
    ),
]

ReportOption = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="FILE", help="Write all that was found or lost to this file, as JSON.", show_default=False
    ),
]
JobsOption = Annotated[
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
ClusterOption = Annotated[
    str | None,
    typer.Option(
        CLUSTER_OPTION,
        metavar="[ADDRESS]",
        help="Of a folder: let a Ray cluster do it, at host:port or ray://host:port; without an address the one that "
        "runs here, or a new one on this machine.",
        show_default=False,
    ),
]
ResumeOption = Annotated[
    bool | None,
    typer.Option(
        "--resume/--no-resume",
        help="Of a folder: whether what is done already, by content, is not done again; on a cluster so when not "
        "given.",
        show_default=False,
    ),
]


def insert_default_cluster_address(arguments: list[str]) -> list[str]:
    """Insert the default value after `--cluster` if no address follows."""
    result: list[str] = []
    for i, word in enumerate(arguments):
        result.append(word)
        if word == CLUSTER_OPTION and not _CLUSTER_ADDRESS.match("".join(arguments[i + 1 : i + 2])):
            result.append("auto")
    return result


def _without_python_types(parameters: list[Any]) -> list[Any]:
    """Parameters whose help text does not show Python types."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
        if isinstance(parameter, TyperArgument):
            parameter.display_type_rich = _no_type_text
    return parameters


def _no_type_text(ctx: Any) -> None:
    """What the help says of an argument's type."""


class KinemaCommand(TyperCommand):
    """Command whose help text shows no Python types, and whose `--cluster` may have no value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments."""
        return super().parse_args(ctx, insert_default_cluster_address(args))

    def get_params(self, ctx: Any) -> list[Any]:
        """All options and arguments."""
        return _without_python_types(super().get_params(ctx))


class KinemaGroup(TyperGroup):
    """Command group whose help text shows no Python types."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All options and arguments."""
        return _without_python_types(super().get_params(ctx))
