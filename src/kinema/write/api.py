"""The one function most people need: a description to any file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kinema.description import Robot, World
from kinema.foundation import KinemaError, WriteError

from .bases import decided
from .files import protecting
from .losing import nameless_shapes
from .made_actuators import with_actuators
from .mesh_files import MESH_WRITERS
from .report import LossReport
from .sources import sources_of

FORMATS = {"usd": (".usda", ".usdc", ".usd", ".usdz"), "mjcf": (".xml", ".mjcf"), "urdf": (".urdf",), "sdf": (".sdf",)}
"""What can be written, and the suffixes of its files."""
MESHES = ("embed", "copy", "bake", "reference")
"""What can become of meshes; see `write`."""
MESH_FORMATS = ("", *MESH_WRITERS)
"""The kinds of mesh files that can be asked for; see `write`."""


@dataclass(frozen=True, slots=True)
class _Settings:
    """How a file is written; see `write`."""

    layout: str
    meshes: str
    layered: bool
    exact: bool
    version: str = ""
    robot: str = ""
    base: str = "auto"
    frames: bool = False
    package: str = ""
    mesh_format: str = ""

    @property
    def mesh_files(self) -> str:
        """What becomes of meshes in formats that cannot hold triangles themselves."""
        return "copy" if self.meshes == "embed" else self.meshes

    @property
    def urdf_meshes(self) -> str:
        """The same for URDF, whose references to packages stay unless something else is asked for."""
        is_kept = self.meshes == "embed" and not self.mesh_format
        return "keep" if is_kept else self.mesh_files

    @property
    def triangles(self) -> str:
        """What becomes of meshes in USD, which cannot refer to mesh files of other formats."""
        return "reference" if self.meshes == "reference" else "embed"


def _write_usd(described: Robot | World, file: Path, report: LossReport, settings: _Settings) -> None:
    from .usd import UsdOptions, write_usd

    options = UsdOptions(settings.layout, settings.triangles, settings.layered, settings.exact, settings.base)
    write_usd(described, file, report, options)


def _write_mjcf(described: Robot | World, file: Path, report: LossReport, settings: _Settings) -> None:
    from .mjcf import MjcfOptions, write_mjcf

    write_mjcf(described, file, report, MjcfOptions(settings.mesh_files))


def _write_urdf(described: Robot | World, file: Path, report: LossReport, settings: _Settings) -> None:
    from .urdf import UrdfOptions, write_urdf

    options = UrdfOptions(
        settings.urdf_meshes,
        settings.robot,
        settings.base,
        settings.frames,
        settings.package,
        settings.version,
        settings.mesh_format,
    )
    write_urdf(described, file, report, options)


def _write_sdf(described: Robot | World, file: Path, report: LossReport, settings: _Settings) -> None:
    from .sdf import SdfOptions, write_sdf

    options = SdfOptions(settings.mesh_files, settings.base, settings.version, settings.mesh_format)
    write_sdf(described, file, report, options)


_WRITERS: dict[str, Callable[[Robot | World, Path, LossReport, _Settings], None]] = {
    "usd": _write_usd,
    "mjcf": _write_mjcf,
    "urdf": _write_urdf,
    "sdf": _write_sdf,
}


def format_of(path: str | os.PathLike[str], format: str | None = None) -> str:
    """The format to write, given or by the suffix; a `WriteError` that lists them where there is none."""
    file = Path(path)
    if format is None:
        format = next((f for f, suffixes in FORMATS.items() if file.suffix.lower() in suffixes), None)
        if format is None:
            raise WriteError(f"{file}: files with the suffix {file.suffix!r} cannot be written; {_can_be()}")
    if format not in FORMATS:
        raise WriteError(f"{file}: {format!r} cannot be written; {_can_be()}")
    return format


def _can_be() -> str:
    return "these can: " + ", ".join(f"{f} ({' '.join(suffixes)})" for f, suffixes in FORMATS.items())


def write(  # noqa: PLR0913  one keyword for each thing a user can ask for
    described: Robot | World,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    layout: str = "nested",
    meshes: str = "embed",
    layered: bool = False,
    exact: bool = True,
    version: str = "",
    robot: str = "",
    base: str = "auto",
    frames: bool = False,
    package: str = "",
    mesh_format: str = "",
    actuators: str = "",
    force: bool = True,
) -> LossReport:
    """Write a robot or a world to a file.

    The file appears whole or not at all, and replaces an older one of its name.

    Args:
        described: what to write.
        path: the file; its folder must exist.
        format: `usd`, `mjcf`, `urdf` or `sdf`; found out from the suffix when not given.
        layout: `nested` puts every link inside the link that carries it, `flat` puts links side by side (USD).
        meshes: what becomes of meshes. In USD, triangles are in the file; `reference` puts them into a file of their
            own beside it. Other formats refer to mesh files: `copy` (and `embed`) puts them beside the file as they
            are where they can be read, `bake` makes new ones with their scale applied, `reference` refers to them
            where they are. From URDF to URDF, `embed` leaves `package://` references as they are, unless `package`
            names another one.
        layered: make a small main file that loads geometry and physics from files of their own (USD).
        exact: also keep in double precision what the format stores in single precision.
        version: the version of the format; the one that most programs read when not given (URDF: 1.0 to 1.2,
            SDFormat: 1.9 to 1.12).
        robot: the robot of a world to write, where the format can hold one only (URDF).
        base: what holds the bases of robots that no joint with freedom holds to the world: `fixed`, `free` or
            `unspecified`; `auto` for what the description says. Where that is nothing, the file says nothing either,
            and the report tells what its format takes that for. In URDF `fixed` and `world` hang the robot on a link
            `world`; elsewhere `world` fixes a base of which nothing is said.
        frames: write named frames as links without mass (URDF).
        package: the ROS package that meshes are referred to in; relative to the file when not given (URDF).
        mesh_format: the kind of mesh file for what is seen, `obj` (with a library of materials beside it), `dae` or
            `glb` (images inside); when not given, files that can be read stay as they are and others become OBJ (URDF,
            SDFormat).
        actuators: `position`, `velocity` or `effort`: make actuators of that kind for joints that have none, by the
            transmissions, `ros2_control` blocks or limits of effort of a URDF file (`kinema.write.made_actuators`).
        force: whether files may be replaced that the description was made of.

    Returns:
        What the format cannot say, element by element; empty where nothing was lost.

    Raises:
        WriteError: nothing was written: no such folder, not a format that is written, not a description.
    """
    file = Path(path)
    if not isinstance(described, Robot | World):
        raise WriteError(f"{file}: a Robot or a World can be written, not {type(described).__name__}")
    if meshes not in MESHES:
        raise WriteError(f"{file}: meshes are {meshes!r}; they can be {', '.join(map(repr, MESHES))}")
    if mesh_format not in MESH_FORMATS:
        listed = ", ".join(map(repr, MESH_FORMATS[1:]))
        raise WriteError(f"{file}: mesh files are to be {mesh_format!r}; they can be {listed}")
    chosen = format_of(file, format)
    report = LossReport(chosen, str(file))
    described = decided(described, base)
    if actuators:
        described = with_actuators(described, actuators, report)
    report.nameless = nameless_shapes(described)
    base = "world" if base in ("fixed", "world") else "auto"
    settings = _Settings(layout, meshes, layered, exact, version, robot, base, frames, package, mesh_format)
    try:
        with protecting(frozenset() if force else sources_of(described)):
            _WRITERS[chosen](described, file, report, settings)
        report.nameless = {}  # identities mean nothing later
    except KinemaError:
        raise
    except Exception as error:  # a defect of ours must still not be a traceback in a user's face
        raise WriteError(
            f"{file}: Kinema failed to write this description ({type(error).__name__}: {error}); this is a defect of "
            "Kinema, please report it with the file it was read from"
        ) from error
    return report
