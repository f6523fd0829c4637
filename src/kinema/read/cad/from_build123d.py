"""Assemblies that a build123d program makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kinema.description import Robot
from kinema.foundation import Diagnostics, KinemaError, require
from kinema.read.resolve import Resolver

from .convert import convert_snapshot
from .elements import Snapshot
from .schema import FORMAT
from .solid_joints import joint_elements
from .solids import ANGULAR_TOLERANCE, DENSITY, TOLERANCE, PartList, SolidOptions


def from_build123d(
    assembly: Any,
    *,
    name: str = "",
    density: float = DENSITY,
    densities: Mapping[str, float] | None = None,
    tolerance: float = TOLERANCE,
    angular_tolerance: float = ANGULAR_TOLERANCE,
    ground: str | Sequence[str] = (),
    diagnostics: Diagnostics | None = None,
) -> Robot:
    """A robot from an assembly of build123d parts that are connected by build123d's joints.

    The part whose joint's `connect_to` was called is the parent. Values and ranges of the joints become `Joint.state`
    and limits; a range of a full turn or more is no limit. A linear joint that is connected to a revolute one slides
    and turns. Parts that no joint mentions go with those beside them.

    Args:
        assembly: a build123d `Compound` with children, a single part, or a `BuildPart`. It is not changed.
        name: the robot's name; the assembly's label when not given.
        density: density [kg/m3] of parts that have no material.
        densities: label or path of a part, or name of a material -> density [kg/m3].
        tolerance: how far [m] triangles may be from the surface.
        angular_tolerance: how far [rad] neighbouring triangles may be turned against each other.
        ground: labels or paths of the parts that are fixed in the world; where there are none, the robot may stand
            anywhere.
        diagnostics: where to report; `robot.diagnostics` is this collector.

    Returns:
        The robot, in SI units. Its base frame is build123d's world.

    Raises:
        KinemaError: build123d is not installed, or `assembly` is nothing of build123d's.
    """
    build123d = require("build123d", extra="cad", purpose="reading a build123d assembly")
    assembly = getattr(assembly, "part", assembly)
    if not isinstance(assembly, build123d.Shape):
        raise KinemaError(f"a build123d Compound or Part is expected, not {type(assembly).__name__}")
    diagnostics = Diagnostics() if diagnostics is None else diagnostics
    options = SolidOptions(
        density=density, densities=densities or {}, tolerance=tolerance, angular_tolerance=angular_tolerance
    )
    found = PartList(options, diagnostics)
    found.add_all(assembly)
    snapshot = Snapshot(
        name=name or assembly.label,
        source={"program": "build123d", "program_version": build123d.__version__},
        occurrences=[part.occurrence for part in found.parts],
        joints=joint_elements(found.parts, diagnostics),
    )
    ground_parts(snapshot, [ground] if isinstance(ground, str) else ground, diagnostics)
    note_missing_joints(snapshot, diagnostics)
    return convert_snapshot(snapshot, diagnostics, resolve=Resolver(), file="")


def ground_parts(snapshot: Snapshot, names: Sequence[str], diagnostics: Diagnostics) -> None:
    """Fix the parts with these labels or paths in the world."""
    for name in names:
        parts = [o for o in snapshot.occurrences if name in (o.path, o.name)]
        for part in parts:
            part.grounded = True
        if not parts:
            diagnostics.error(f"{FORMAT}.unknown-part", f"there is no part {name!r:.80}, which should be the ground")


def note_missing_joints(snapshot: Snapshot, diagnostics: Diagnostics, hint: str = "") -> None:
    """Say that an assembly without joints is one link."""
    if len(snapshot.occurrences) > 1 and not snapshot.joints:
        message = "the assembly has no joints: all of its parts are one link"
        diagnostics.note(f"{FORMAT}.no-joints", message, hint=hint or "connect its parts")
