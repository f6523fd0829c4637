"""What all parts of the writer share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kinema.description import Robot, World
from kinema.foundation import Pose
from kinema.words import sdf

from .. import checks
from ..losing import Losing
from ..meshes import MeshStore
from ..names import NameTable
from ..report import LossReport
from ..text import Element, number, numbers, xml_name

VERSIONS = ("1.9", "1.10", "1.11", "1.12")
PLAIN, WITH_MIMIC = "1.9", "1.11"
"""The version that is written where nothing needs a newer one, and the first that has mimics and cones."""
SCOPE = "::"
NOISE = 1e-15
"""Positions [m] and angles [rad] below are zero."""


@dataclass(frozen=True, slots=True)
class SdfOptions:
    """How an SDFormat file is written."""

    meshes: str = "copy"
    """`copy` mesh files beside the file, `bake` their scale into new ones, or `reference` them where they lie."""
    base: str = "auto"
    """`auto` lets a robot stand free where its file does not say; `world` joins its root links to the world then."""
    version: str = ""
    """`1.9` to `1.12`; where empty, 1.9 or the oldest that can say what is to be said."""
    mesh_format: str = ""
    """The kind of mesh file for what is seen: `obj`, `dae` or `glb`; any that can be read if empty."""


@dataclass(slots=True, eq=False)
class Names:
    """The names of one model: links, joints and frames share them."""

    taken: set[str] = field(default_factory=set)
    links: NameTable = field(init=False)
    joints: NameTable = field(init=False)
    frames: NameTable = field(init=False)
    constraints: NameTable = field(init=False)

    def __post_init__(self) -> None:
        self.links, self.joints, self.frames, self.constraints = (
            NameTable(clean=sdf_name, taken=self.taken) for _ in range(4)
        )


@dataclass(slots=True, eq=False)
class Writing(Losing):
    """One run of the writer."""

    options: SdfOptions
    report: LossReport
    meshes: MeshStore
    version: str = PLAIN
    source: str = ""
    """The format that the description was read from."""

    def has(self, version: str) -> bool:
        """Whether what came with a version can be said."""
        return VERSIONS.index(self.version) >= VERSIONS.index(version)

    @property
    def is_same_format(self) -> bool:
        """Whether the description was read from SDFormat, so that what it does not say is meant to be left out."""
        return self.source == sdf.FORMAT

    def renamed(self, kind: str, table: NameTable) -> None:
        """Put on record which names had to change."""
        for name, written in table.changed.items():
            self.approximate((kind, name), "its name", f'it is called "{written}"')


def sdf_name(name: str) -> str:
    """The name by the format's rules: no `::`, none of the reserved names, no blanks around it."""
    plain = xml_name(name).strip().replace(SCOPE, "_")
    plain = " ".join(plain.split()) if any(c in plain for c in "\t\r\n") else plain
    is_reserved = plain == "world" or (len(plain) >= 4 and plain.startswith("__") and plain.endswith("__"))
    return f"{plain}_1" if is_reserved else plain


def finite(value: float, owner: str, what: str) -> float:
    """The value, or a `WriteError` that names its owner."""
    return checks.finite(value, owner, what, "SDFormat")


def add_pose(element: Element, pose: Pose, owner: str, *, computed: bool = False) -> None:
    """A `<pose>`, left out where it is the identity; of a computed one the dust of the last digits is swept away."""
    angles = [0.0 if abs(v) < NOISE else v for v in pose.rpy.tolist()]
    position = [0.0 if computed and abs(v) < NOISE else v for v in pose.position.tolist()]
    values = [*position, *angles]
    if any(values):
        element.child("pose", numbers(finite(v, owner, "pose") for v in values))


def flag(value: object) -> str:
    """True or false as the format writes it."""
    return "true" if value else "false"


def plain_text(value: object) -> str:
    """A kept setting as text: a flag, a number, several numbers, or text."""
    if isinstance(value, bool):
        return flag(value)
    if isinstance(value, int | float):
        return number(value)
    return numbers(value) if isinstance(value, tuple | list) else str(value)


def checked(options: SdfOptions, file: Path) -> SdfOptions:
    """The options, or a `WriteError` that lists what is allowed."""
    allowed = {"meshes": ("copy", "bake", "reference"), "base": ("auto", "world"), "version": ("", *VERSIONS)}
    checks.check_choices(options, allowed, file)
    return options


def choose_version(described: Robot | World, options: SdfOptions, needs_new: Callable[[], bool]) -> str:
    """The version to write: as asked for, that of the file that was read, or the oldest that is enough."""
    if options.version:
        return options.version
    read = str(described.attributes.get(sdf.key(sdf.VERSION), ""))
    oldest = WITH_MIMIC if needs_new() else PLAIN
    return max(oldest, read if read in VERSIONS else PLAIN, key=VERSIONS.index)
