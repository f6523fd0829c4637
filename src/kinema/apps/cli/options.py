"""Choices, options and records of options shared by several commands; Typer command classes with a plain help text."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

if TYPE_CHECKING:
    from ..cluster import Executor

# -------------------------------------------------------------------------------------------------------------- choices


class IntegratorName(enum.StrEnum):
    """Integrator."""

    IMPLICITFAST = "implicitfast"
    IMPLICIT = "implicit"
    EULER = "euler"
    RK4 = "rk4"


class ContactSceneName(enum.StrEnum):
    """Scene of a benchmark with contacts."""

    FLOOR = "floor"
    TERRAIN = "terrain"
    CUBE = "cube"
    TOWER = "tower"
    CLUTTER = "clutter"
    HEAP = "heap"


class HeapKindName(enum.StrEnum):
    """Objects of the heap of a benchmark."""

    BOXES = "boxes"
    SPHERES = "spheres"
    CAPSULES = "capsules"
    MIXED = "mixed"
    HULLS = "hulls"


class Precision(enum.StrEnum):
    """Floating-point precision."""

    SINGLE = "single"
    DOUBLE = "double"


class ControlStrategy(enum.StrEnum):
    """Joint control during `kinema simulate`."""

    ZERO = "zero"
    HOLD = "hold"
    RANDOM = "random"


class BaseName(enum.StrEnum):
    """Fixation of a robot's base."""

    FIXED = "fixed"
    FREE = "free"
    UNSPECIFIED = "unspecified"


class Lighting(enum.StrEnum):
    """Lights of an image."""

    STUDIO = "studio"
    FILE = "file"


class VideoMotion(enum.StrEnum):
    """Motion in a video."""

    SWEEP = "sweep"
    SIMULATE = "simulate"
    STILL = "still"


# ------------------------------------------------------------------------------------------------------- shared options

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


# ------------------------------------------------------------------------------------------------- records of options


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """Settings of the reader; see `kinema.read`."""

    arguments: XacroArgument = None
    """Arguments of a xacro file, as `parse_xacro_arguments` takes them."""
    format: FormatOption = None
    search_paths: SearchPathOption = None
    variants: VariantOption = None
    """Variants of a USD stage, as `parse_variants` takes them."""
    base: BaseOption = None


@dataclass(frozen=True, slots=True)
class ExecutionOptions:
    """Options for parallel execution from the command line."""

    jobs: JobsOption = None
    """Number of local processes; None for one per CPU."""
    cluster: ClusterOption = None
    """Address of a Ray cluster; None for none."""
    resume: ResumeOption = None
    """Whether completed files are skipped; None for on a cluster only."""

    @property
    def keeps_records(self) -> bool:
        """Whether completion records are kept."""
        return self.cluster is not None if self.resume is None else self.resume

    def absolute_path(self, path: Path) -> Path:
        """Absolute path for execution on a cluster, whose nodes have other working directories; otherwise unchanged."""
        from ..cluster import remote_url

        return path.absolute() if self.cluster is not None and not remote_url(path) else path

    def make_executor(self, preload: Sequence[str]) -> Executor:
        """Executor on local processes or on a Ray cluster."""
        from ..cluster import LocalProcessExecutor, RayExecutor

        return LocalProcessExecutor(self.jobs, preload) if self.cluster is None else RayExecutor(self.cluster)


def command_with_records(function: Callable[..., None]) -> Callable[..., None]:
    """Command with one option per field of each parameter that is a record of options (a dataclass).

    `Annotated[Record, ("name", ...)]` leaves out the fields named. Fields have Typer annotations, or the metadata of
    `WriteOptions`.
    """
    signature = inspect.signature(function, eval_str=True)
    records: dict[str, tuple[type[Any], list[inspect.Parameter]]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        is_annotated = get_origin(parameter.annotation) is Annotated
        kind, *notes = get_args(parameter.annotation) if is_annotated else (parameter.annotation,)
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            records[parameter.name] = kind, _record_parameters(kind, *notes)
            parameters += records[parameter.name][1]
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(function)
    def command(**values: Any) -> None:
        for name, (kind, fields) in records.items():
            given = {field.name: values.pop(field.name) for field in fields}
            values[name] = kind(**{field: _plain(value) for field, value in given.items() if value is not None})
        function(**values)

    vars(command)["__signature__"] = signature.replace(parameters=parameters)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _record_parameters(kind: type[Any], omitted: Sequence[str] = ()) -> list[inspect.Parameter]:
    """Parameters of a command for the fields of a record of options."""
    hints = get_type_hints(kind, include_extras=True)
    made = []
    for field in dataclasses.fields(kind):
        if field.name not in omitted:
            default, annotation = field.default, hints[field.name]
            if field.metadata:
                default, annotation = _option_from_metadata(field, annotation)
            made.append(
                inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            )
    return made


def _option_from_metadata(field: dataclasses.Field[Any], kind: Any) -> tuple[Any, Any]:
    """Default and annotation of the command-line option of a field of `WriteOptions`."""
    metadata = field.metadata
    default = metadata.get("cli_default", field.default)
    flag = metadata.get("flag", "--" + field.name.replace("_", "-"))
    choices = [c for c in metadata.get("choices", ()) if c not in metadata.get("api_choices", ())]
    if choices:
        make_enumeration: Any = enum.StrEnum
        kind = make_enumeration(field.name, {choice.upper(): choice for choice in choices})
        default = kind(default) if default in choices else None
    elif kind is bool and default:
        flag = f"{flag}/--no-{flag.removeprefix('--')}"
    option = typer.Option(
        flag, metavar=metadata["metavar"] or None, help=metadata["help"], show_default=default is not None
    )
    annotated: Any = Annotated
    return default, annotated[kind if default is not None else kind | None, option]


def _plain(value: Any) -> Any:
    """Value of an option without the enumeration of its choices."""
    return value.value if isinstance(value, enum.Enum) else value


# ------------------------------------------------------------------------------------------------------ help formatting


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
    """Return None, for help texts without types of arguments."""


MIN_TABLE_COLUMNS = 110
"""Least width of a terminal for help of commands as tables, which at 80 leave 20 columns to the descriptions."""


class KinemaCommand(TyperCommand):
    """Command whose help text shows no Python types, and whose `--cluster` may have no value."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, without tables if the terminal has fewer than `MIN_TABLE_COLUMNS` columns."""
        if shutil.get_terminal_size().columns < MIN_TABLE_COLUMNS:
            self.rich_markup_mode = None
        super().format_help(ctx, formatter)

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
