"""The public function `write`: option checks, choice of the format, and dispatch to the writer of the format."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kinema.core import KinemaError, WriteError
from kinema.description import Robot, World

from .files import protect_files, source_files
from .generated_actuators import add_actuators
from .loss_report import LossReport, unnamed_shape_labels
from .mesh_files import MESH_WRITERS
from .validation import with_base_option

FORMATS = {"usd": (".usda", ".usdc", ".usd", ".usdz"), "mjcf": (".xml", ".mjcf"), "urdf": (".urdf",), "sdf": (".sdf",)}
"""Output formats and the file suffixes of each."""
MESH_MODES = ("embed", "copy", "bake", "reference")
"""Values of the `meshes` option of `write`."""
MESH_FORMATS = ("", *MESH_WRITERS)
"""Values of the `mesh_format` option of `write`; empty for no conversion."""


@dataclass(frozen=True, slots=True)
class _WriteOptions:
    """Options of one call of `write`, before they are translated to the options of a format's writer."""

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
    def file_mesh_mode(self) -> str:
        """Mesh mode of formats that refer to mesh files (MJCF, SDFormat): `embed` becomes `copy`."""
        return "copy" if self.meshes == "embed" else self.meshes

    @property
    def urdf_mesh_mode(self) -> str:
        """Mesh mode of URDF: `keep` (package references are preserved) for plain `embed`, else `file_mesh_mode`."""
        is_kept = self.meshes == "embed" and not self.mesh_format
        return "keep" if is_kept else self.file_mesh_mode

    @property
    def usd_mesh_mode(self) -> str:
        """Mesh mode of USD, which cannot refer to other mesh formats: `reference` (a mesh layer) or `embed`."""
        return "reference" if self.meshes == "reference" else "embed"


def _write_usd(description: Robot | World, file: Path, report: LossReport, write_options: _WriteOptions) -> None:
    from .usd import UsdOptions, write_usd

    options = UsdOptions(
        write_options.layout,
        write_options.usd_mesh_mode,
        write_options.layered,
        write_options.exact,
        write_options.base,
    )
    write_usd(description, file, report, options)


def _write_mjcf(description: Robot | World, file: Path, report: LossReport, write_options: _WriteOptions) -> None:
    from .mjcf import MjcfOptions, write_mjcf

    write_mjcf(description, file, report, MjcfOptions(write_options.file_mesh_mode))


def _write_urdf(description: Robot | World, file: Path, report: LossReport, write_options: _WriteOptions) -> None:
    from .urdf import UrdfOptions, write_urdf

    options = UrdfOptions(
        write_options.urdf_mesh_mode,
        write_options.robot,
        write_options.base,
        write_options.frames,
        write_options.package,
        write_options.version,
        write_options.mesh_format,
    )
    write_urdf(description, file, report, options)


def _write_sdf(description: Robot | World, file: Path, report: LossReport, write_options: _WriteOptions) -> None:
    from .sdf import SdfOptions, write_sdf

    options = SdfOptions(
        write_options.file_mesh_mode, write_options.base, write_options.version, write_options.mesh_format
    )
    write_sdf(description, file, report, options)


_WRITERS: dict[str, Callable[[Robot | World, Path, LossReport, _WriteOptions], None]] = {
    "usd": _write_usd,
    "mjcf": _write_mjcf,
    "urdf": _write_urdf,
    "sdf": _write_sdf,
}


def resolve_format(path: str | os.PathLike[str], format: str | None = None) -> str:
    """Output format of a file: the given format, or the format of the path's suffix.

    Raises:
        WriteError: the format or the suffix is unknown; the message lists the formats.
    """
    file = Path(path)
    if format is None:
        format = next((f for f, suffixes in FORMATS.items() if file.suffix.lower() in suffixes), None)
        if format is None:
            raise WriteError(
                f"{file}: files with the suffix {file.suffix!r} cannot be written; {_supported_formats_text()}"
            )
    if format not in FORMATS:
        raise WriteError(f"{file}: {format!r} cannot be written; {_supported_formats_text()}")
    return format


def _supported_formats_text() -> str:
    return "these can: " + ", ".join(f"{f} ({' '.join(suffixes)})" for f, suffixes in FORMATS.items())


def write(  # noqa: PLR0913  one keyword for each thing a user can ask for
    description: Robot | World,
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
    """Write a robot or a world to a USD, MJCF, URDF or SDFormat file and report the losses.

    Writing is atomic: the file appears complete or not at all, and replaces an existing file.

    Args:
        description: the robot or world.
        path: the output file; its folder must exist.
        format: `usd`, `mjcf`, `urdf` or `sdf`; by default selected by the suffix.
        layout: `nested` makes the prim of a link a child of its parent link's prim, `flat` makes links siblings (USD).
        meshes: treatment of meshes. USD stores triangles in the stage; `reference` stores them in a mesh layer beside
            it. Other formats refer to mesh files: `copy` (and `embed`) copies readable files beside the output,
            `bake` writes new files with the scale applied, `reference` refers to the original files. From URDF to
            URDF, `embed` preserves `package://` references unless `package` is given.
        layered: write a small interface layer that loads geometry and physics from separate layers (USD).
        exact: also store double-precision values of attributes that the format stores in single precision (USD).
        version: version of the format; by default the most widely supported one (URDF: 1.0 to 1.2,
            SDFormat: 1.9 to 1.12).
        robot: name of the robot of a world to write, for formats with one robot per file (URDF).
        base: base of robots whose root is not jointed to the world: `fixed`, `free` or `unspecified`; `auto` for the
            base of the description. An unspecified base stays unspecified in the file, and the report states what the
            format assumes. In URDF `fixed` and `world` attach the robot to a link `world`; in other formats `world`
            fixes only unspecified bases.
        frames: write named frames as massless links (URDF).
        package: ROS package of the mesh references; by default references are relative to the file (URDF).
        mesh_format: file format of visual meshes: `obj` (with an MTL library), `dae` or `glb` (embedded images); by
            default readable files are copied and others become OBJ (URDF, SDFormat).
        actuators: `position`, `velocity` or `effort`: generate actuators of this mode for joints without actuators,
            from the transmissions, `ros2_control` blocks or effort limits of a URDF file
            (`kinema.write.generated_actuators`).
        force: whether source files of the description may be overwritten.

    Returns:
        Loss report: everything that the format cannot represent, element by element; empty if nothing was lost.

    Raises:
        WriteError: nothing was written because the folder does not exist, the format is unknown, or the argument is
            not a description.
    """
    file = Path(path)
    if not isinstance(description, Robot | World):
        raise WriteError(f"{file}: a Robot or a World can be written, not {type(description).__name__}")
    if meshes not in MESH_MODES:
        raise WriteError(f"{file}: meshes are {meshes!r}; they can be {', '.join(map(repr, MESH_MODES))}")
    if mesh_format not in MESH_FORMATS:
        listed = ", ".join(map(repr, MESH_FORMATS[1:]))
        raise WriteError(f"{file}: mesh files are to be {mesh_format!r}; they can be {listed}")
    chosen = resolve_format(file, format)
    report = LossReport(chosen, str(file))
    description = with_base_option(description, base)
    if actuators:
        description = add_actuators(description, actuators, report)
    report.unnamed_elements = unnamed_shape_labels(description)
    base = "world" if base in ("fixed", "world") else "auto"
    settings = _WriteOptions(layout, meshes, layered, exact, version, robot, base, frames, package, mesh_format)
    try:
        with protect_files(frozenset() if force else source_files(description)):
            _WRITERS[chosen](description, file, report, settings)
        report.unnamed_elements = {}  # identities mean nothing later
    except KinemaError:
        raise
    except Exception as error:  # a defect of ours must still not be a traceback in a user's face
        raise WriteError(
            f"{file}: Kinema failed to write this description ({type(error).__name__}: {error}); this is a defect of "
            "Kinema, please report it with the file it was read from"
        ) from error
    return report
