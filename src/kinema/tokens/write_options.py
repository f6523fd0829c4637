"""Options of the writers: names, defaults, allowed values and descriptions, for `kinema.write` and `kinema convert`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypedDict


def _option(default: Any, metavar: str, help: str, **metadata: Any) -> Any:
    return field(default=default, metadata={"metavar": metavar, "help": help, **metadata})


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Options of `kinema.write`; formats ignore the options of other formats.

    The metadata of a field are `metavar` and `help`; `choices`, the allowed values; `api_choices`, those of them that
    only Python offers; and `flag` and `cli_default`, the name and default of the command-line option if they differ.
    """

    layout: str = _option(
        "nested",
        "LAYOUT",
        "USD: prims of links are children of the prims of their parent links (nested) or siblings (flat).",
        choices=("nested", "flat"),
    )
    meshes: str = _option(
        "embed",
        "HOW",
        "copy: mesh files beside the output, unchanged. bake: new OBJ files beside it, scale applied. reference: the "
        "original files; for USD, a mesh layer beside it. embed: triangles inside the USD file, else as copy; from "
        "URDF to URDF, package:// references are preserved.",
        choices=("embed", "copy", "bake", "reference"),
    )
    mesh_format: str = _option(
        "",
        "KIND",
        "URDF and SDFormat: file format of visual meshes: obj (with an MTL library), dae or glb (embedded images); by "
        "default readable files are copied and others become OBJ.",
        choices=("", "obj", "dae", "glb"),
        api_choices=("",),
    )
    layered: bool = _option(
        False, "", "USD: a small interface layer that loads geometry and physics from separate layers."
    )
    exact: bool = _option(
        True, "", "USD: also store double-precision values of attributes that the format stores in single precision."
    )
    base: str = _option(
        "auto",
        "HOLD",
        "Base of robots whose root is not jointed to the world: fixed, free or unspecified; by default as in the "
        "description. world (Python only) fixes unspecified bases. In URDF, fixed and world attach the robot to a "
        "link world.",
        choices=("auto", "fixed", "free", "unspecified", "world"),
        api_choices=("auto", "world"),
    )
    actuators: str = _option(
        "",
        "KIND",
        "Generate actuators for joints without actuators, from the transmissions, ros2_control blocks or effort "
        "limits of a URDF file: position, velocity or effort.",
        choices=("", "position", "velocity", "effort"),
        api_choices=("",),
    )
    frames: bool = _option(False, "", "URDF: write named frames as massless links.")
    package: str = _option(
        "", "NAME", "URDF: ROS package of the mesh references; by default references are relative to the file."
    )
    version: str = _option(
        "",
        "VERSION",
        "Version of the format, by default the most widely supported one. URDF: 1.0 to 1.2; SDFormat: 1.9 to 1.12.",
        flag="--format-version",
    )
    robot: str = _option("", "NAME", "URDF, which has one robot per file: name of the robot of a world to write.")
    force: bool = _option(True, "", "Overwrite even source files of the description.", cli_default=False)

    @property
    def file_mesh_mode(self) -> str:
        """Treatment of meshes in formats that refer to mesh files: `embed` becomes `copy`."""
        return "copy" if self.meshes == "embed" else self.meshes

    @property
    def keeps_package_references(self) -> bool:
        """Whether URDF keeps the `package://` references of a URDF source."""
        return self.meshes == "embed" and not self.mesh_format and not self.package

    @property
    def fixes_base(self) -> bool:
        """Whether a base that the description does not hold is fixed to the world."""
        return self.base in ("fixed", "world")


class WriteKeywords(TypedDict, total=False):
    """Keyword arguments of `kinema.write` that replace fields of `WriteOptions`, for type checkers."""

    layout: str
    meshes: str
    mesh_format: str
    layered: bool
    exact: bool
    base: str
    actuators: str
    frames: bool
    package: str
    version: str
    robot: str
    force: bool
