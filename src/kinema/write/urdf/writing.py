"""What all parts of the writer share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kinema.description import Joint, Robot
from kinema.words import urdf

from .. import checks
from ..losing import Losing
from ..meshes import MeshStore
from ..names import NameTable
from ..report import LossReport
from ..text import xml_name

VERSIONS = ("1.0", "1.1", "1.2")
NO_LIMIT = 1e16
"""What is written where a limit is absent but URDF wants a number: readers refuse infinity."""


@dataclass(frozen=True, slots=True)
class UrdfOptions:
    """How a URDF file is written."""

    meshes: str = "copy"
    """`copy` mesh files beside the file, `bake` their scale into new ones, `reference` them where they lie, or `keep`
    references to packages and copy the others."""
    robot: str = ""
    """Which robot of a world; needed where it has several that move."""
    base: str = "auto"
    """`auto` lets the robot begin with its own root link where it can; `world` always hangs it on a link `world`, by
    fixed or floating joints."""
    frames: bool = False
    """Whether named frames become links without mass."""
    package: str = ""
    """Name of the ROS package that the file is going to lie in: meshes are `package://...` then, else relative."""
    version: str = ""
    """`1.0`, `1.1` (with capsules) or `1.2` (with limits of acceleration); that of the file that was read if empty."""
    mesh_format: str = ""
    """The kind of mesh file for what is seen: `obj`, `dae` or `glb`; any that can be read if empty."""

    @property
    def files(self) -> str:
        """What becomes of mesh files that are put beside the file."""
        return "copy" if self.meshes == "keep" else self.meshes


@dataclass(slots=True, eq=False)
class Writing(Losing):
    """One run of the writer."""

    robot: Robot
    options: UrdfOptions
    report: LossReport
    meshes: MeshStore
    links: NameTable = field(default_factory=lambda: NameTable(clean=xml_name))
    joints: NameTable = field(default_factory=lambda: NameTable(clean=xml_name))
    source_of: dict[str, Joint] = field(default_factory=dict)
    """Joint of the file -> the joint of the description that it is, or is a part of."""

    @property
    def version(self) -> str:
        """The version that is written."""
        own = str(self.robot.attributes.get(urdf.VERSION, ""))
        return self.options.version or (own if own in VERSIONS else VERSIONS[0])

    def keeps(self, uri: str) -> bool:
        """Whether a reference to a package stays as it is."""
        wanted = self.options.meshes == "keep" and not self.options.package and self.robot.format == urdf.FORMAT
        return wanted and uri.startswith("package://")

    def reference(self, place: str) -> str:
        """How to refer to a file beside the one that is written, or to one elsewhere."""
        is_beside = not Path(place).is_absolute()
        return f"package://{self.options.package}/{place}" if self.options.package and is_beside else place


def finite(value: float, owner: str, what: str) -> float:
    """The value, or a `WriteError` that names its owner."""
    return checks.finite(value, owner, what, "URDF")


def check_options(options: UrdfOptions, file: Path) -> None:
    """A `WriteError` that lists what is allowed where an option is not."""
    allowed = {"meshes": ("copy", "bake", "reference", "keep"), "base": ("auto", "world"), "version": ("", *VERSIONS)}
    checks.check_choices(options, allowed, file)
