"""YAML sidecar file that defines the joints, groups and densities of a STEP assembly (`docs/cad-step.md`).

Contains a safe YAML parser with line numbers and the lookup of parts by name.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kinema.core import UNKNOWN_ORIGIN, Array, Diagnostics, Origin, Pose, float64_array, import_optional
from kinema.description import AxisMotion, Extra

from ..cad.build123d_assembly import DEFAULT_DENSITY, SolidOptions
from ..cad.elements import (
    JOINT_MOTIONS,
    LENGTH_UNITS,
    ROOT_PATH,
    JointElement,
    MotionElement,
    MotionLinkElement,
    OccurrenceElement,
    RigidGroupElement,
    Snapshot,
)
from ..cad.json_cursor import JsonCursor
from ..resolve import read_bytes

# -- YAML parser -------------------------------------------------------------------------------------------------------

MAX_YAML_BYTES = 256 * 1024
_MAX_YAML_DEPTH = 50
_YAML_TAG = "tag:yaml.org,2002:"
_SCIENTIFIC_NOTATION = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")
"""Numbers such as 1e-3, which YAML 1.1 treats as text."""


class YamlError(ValueError):
    """Malformed or oversized YAML; `line` (from 1) is None if unknown."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(slots=True, eq=False)
class YamlDocument:
    """Parsed YAML value (dict, list, str, number, bool or None) with line numbers."""

    value: Any
    lines: dict[str, int] = field(default_factory=dict)
    """Path such as `joints[2].axis` -> line, from 1."""


def parse_yaml(data: bytes) -> YamlDocument:
    """Parse YAML safely with bounded size and depth; raises `YamlError` with the line."""
    yaml = import_optional("yaml", extra="cad", purpose="reading a file of joints")
    if len(data) > MAX_YAML_BYTES:
        raise YamlError(f"the file has {len(data)} bytes; at most {MAX_YAML_BYTES} are read")
    try:
        node = yaml.compose(data.decode("utf-8-sig"), Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise YamlError(f"the file is not UTF-8 text (byte {error.start})") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(f"this is not valid YAML: {error.problem or error}", mark and mark.line + 1) from None
    except yaml.YAMLError as error:
        raise YamlError(f"this is not valid YAML: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise YamlError("the values are nested too deeply") from None
    text = YamlDocument(None)
    text.value = (
        None if node is None else _NodeConverter(yaml.constructor.SafeConstructor(), text.lines).convert(node, "", 0)
    )
    return text


@dataclass(slots=True, eq=False)
class _NodeConverter:
    """Converts YAML nodes to plain Python values and records their lines."""

    constructor: Any
    lines: dict[str, int]

    def convert(self, node: Any, path: str, depth: int) -> Any:
        """Value of a node; bounds depth and the expansion of aliases."""
        self.lines[path] = line = node.start_mark.line + 1
        if len(self.lines) > MAX_YAML_BYTES:
            raise YamlError("aliases make the file larger than it may be", line)
        if depth > _MAX_YAML_DEPTH:
            raise YamlError("the values are nested too deeply", line)
        if node.id == "sequence":
            return [self.convert(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(node.value)]
        if node.id == "mapping":
            return self._mapping(node, path, depth)
        return self._scalar(node)

    def _mapping(self, node: Any, path: str, depth: int) -> dict[str, Any]:
        """Dict of a mapping node; rejects repeated and non-scalar keys."""
        result: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.id != "scalar":
                raise YamlError("the name of a field is not a text", line)
            if key.value in result:
                raise YamlError(f"the field {key.value!r:.60} stands there twice", line)
            result[key.value] = self.convert(value, f"{path}.{key.value}" if path else key.value, depth + 1)
        return result

    def _scalar(self, node: Any) -> Any:
        """Value of a scalar node; unknown tags become text."""
        kind = node.tag.removeprefix(_YAML_TAG)
        if kind == "str" and node.style is None and _SCIENTIFIC_NOTATION.fullmatch(node.value):
            return float(node.value)
        if kind in ("null", "bool", "int", "float"):
            try:
                return getattr(self.constructor, f"construct_yaml_{kind}")(node)
            except (ValueError, KeyError, IndexError):  # too many digits, or an inconsistent tag
                return node.value
        return node.value


# -- lookup of parts ---------------------------------------------------------------------------------------------------

_KERNEL_NAME_SUBSTITUTIONS = str.maketrans(" .()", "____")
"""Substitution of characters in names by the STEP reader of the CAD kernel."""


@dataclass(slots=True, eq=False)
class PartNames:
    """Lookup of the parts of an assembly by path or name."""

    parts: Sequence[OccurrenceElement]
    diagnostics: Diagnostics

    def find(self, name: str, origin: Origin, purpose: str) -> OccurrenceElement | None:
        """The unique part with a path or name; None with an error if there is none or it is ambiguous."""
        plain = name.translate(_KERNEL_NAME_SUBSTITUTIONS)
        found = [p for p in self.parts if p.path.translate(_KERNEL_NAME_SUBSTITUTIONS) == plain]
        found = found or [p for p in self.parts if p.name.translate(_KERNEL_NAME_SUBSTITUTIONS) == plain]
        if len(found) == 1:
            return found[0]
        if found:
            paths = ", ".join(f'"{p.path}"' for p in found[:5]) + (", ..." if len(found) > 5 else "")
            message = f"{purpose}: {name!r:.80} is the name of {len(found)} parts; say which: {paths}"
            self.diagnostics.error("step.ambiguous-part", message, origin=origin)
            return None
        near = difflib.get_close_matches(name, [p.name for p in self.parts], 3, 0.5)
        hint = f"did you mean: {', '.join(near)}" if near else "`kinema info` without the joints' file lists the parts"
        self.diagnostics.error(
            "step.unknown-part", f"{purpose}: there is no part {name!r:.80}", hint=hint, origin=origin
        )
        return None

    def path_of(self, name: str, origin: Origin, purpose: str) -> str | None:
        """Path of a part; the root path for an empty name."""
        if name == ROOT_PATH:
            return ROOT_PATH
        part = self.find(name, origin, purpose)
        return None if part is None else part.path


# -- contents of the sidecar file --------------------------------------------------------------------------------------

_JOINT_TYPES = tuple(t for t in JOINT_MOTIONS if t != "inferred")
_ANGLE_UNITS = {"deg": math.radians(1.0), "rad": 1.0}
_MOTION_AXES = {
    "pin_slot": {"slide": "x", "rotation": "z"},
    "planar": {"primary_slide": "x", "secondary_slide": "y", "rotation": "z"},
    "ball": {"pitch": "x", "yaw": "y", "roll": "z"},
}
"""Joint type -> motion -> axis of the joint frame; z if not listed."""


@dataclass(slots=True, eq=False)
class _MimicSpec:
    origin: Origin
    joint: JointElement
    leader: str
    ratio: float


@dataclass(slots=True, eq=False)
class Sidecar:
    """Contents of the sidecar file; joint ends and group members are still unresolved names."""

    name: str = ""
    density: float | None = None
    densities: dict[str, float] = field(default_factory=dict)
    ground: list[str] = field(default_factory=list)
    joints: list[JointElement] = field(default_factory=list)
    groups: list[RigidGroupElement] = field(default_factory=list)
    followers: list[_MimicSpec] = field(default_factory=list)
    origin: Origin = UNKNOWN_ORIGIN
    angle_unit: float = _ANGLE_UNITS["deg"]
    """Unit of angles in the file [rad]."""
    length_unit: float = LENGTH_UNITS["mm"]
    extras: list[Extra] = field(default_factory=list)

    def solid_options(self, density: float | None, tolerance: float, angular_tolerance: float) -> SolidOptions:
        """Options for converting solids; a density in the file takes precedence over the argument."""
        stated = self.density if self.density is not None else density
        return SolidOptions(
            density=DEFAULT_DENSITY if stated is None else stated,
            densities=self.densities,
            tolerance=tolerance,
            angular_tolerance=angular_tolerance,
        )

    def apply_to(self, snapshot: Snapshot, diagnostics: Diagnostics) -> None:
        """Resolve part names and add joints, groups, ground and motion links to a snapshot."""
        names = PartNames(snapshot.occurrences, diagnostics)
        snapshot.name = self.name or snapshot.name
        snapshot.extras += self.extras
        for name in self.ground:
            part = names.find(name, self.origin, "ground")
            if part is not None:
                part.grounded = True
        for group in self.groups:
            found = [names.find(name, group.origin, "a group") for name in group.occurrences]
            group.occurrences = [part.path for part in found if part is not None]
            snapshot.rigid_groups.append(group)
        for joint in self.joints:
            what = f'joint "{joint.name}"'
            ends = [names.path_of(end, joint.origin, what) for end in (joint.occurrence_one, joint.occurrence_two)]
            if None not in ends:
                joint.occurrence_one, joint.occurrence_two = (end or ROOT_PATH for end in ends)
                snapshot.joints.append(joint)
        snapshot.motion_links = [link for f in self.followers if (link := self._motion_link(f, snapshot, diagnostics))]

    def _motion_link(
        self, follower: _MimicSpec, snapshot: Snapshot, diagnostics: Diagnostics
    ) -> MotionLinkElement | None:
        """Motion link for a `follows` entry; None with an error if a joint is missing or has several motions."""
        leader = next((j for j in snapshot.joints if j.name == follower.leader), None)
        if leader is None or len(leader.motions) != 1 or len(follower.joint.motions) != 1:
            message = (
                f'joint "{follower.joint.name}" cannot follow {follower.leader!r:.80}: '
                f"{'there is no such joint' if leader is None else 'both must have one motion'}"
            )
            diagnostics.error("step.bad-follower", message, origin=follower.origin)
            return None
        (motion1,), (motion2,) = leader.motions, follower.joint.motions
        return MotionLinkElement(
            origin=follower.origin,
            joint1=leader,
            motion1=motion1,
            joint2=follower.joint,
            motion2=motion2,
            value1=self.motion_unit(leader.type, motion1),
            value2=follower.ratio * self.motion_unit(follower.joint.type, motion2),
        )

    def motion_unit(self, type: str, motion: str) -> float:
        """Unit of a motion in the file [rad or m]."""
        return self.angle_unit if JOINT_MOTIONS[type][motion] is AxisMotion.ROTATION else self.length_unit


def read_sidecar(file: Path, diagnostics: Diagnostics) -> Sidecar:
    """Read a sidecar file; malformed content is reported, `ReadError` only if the file cannot be opened."""
    try:
        text = parse_yaml(read_bytes(file, limit=MAX_YAML_BYTES))
    except YamlError as error:
        message = f"{error}; the assembly has no joints"
        diagnostics.error("step.bad-joints-file", message, origin=Origin(str(file), error.line))
        return Sidecar()
    if not isinstance(text.value, dict):
        message = "the file has no fields such as 'joints:'; the assembly has no joints"
        diagnostics.error("step.bad-joints-file", message, origin=Origin(str(file), text.lines.get("")))
        return Sidecar()
    return _parse_sidecar(JsonCursor(text.value, str(file), "", diagnostics, lines=text.lines))


def _parse_sidecar(cursor: JsonCursor) -> Sidecar:
    """Parse units, densities, ground, groups, joints and mimic relations."""
    sidecar = Sidecar(origin=cursor.origin_at("ground"), name=cursor.text("name"))
    sidecar.length_unit = LENGTH_UNITS[cursor.choice("length", tuple(LENGTH_UNITS), "mm")]
    sidecar.angle_unit = _ANGLE_UNITS[cursor.choice("angle", tuple(_ANGLE_UNITS), "deg")]
    cursor.length_unit = sidecar.length_unit
    sidecar.density = _positive_number(cursor, "density")
    densities = cursor.object("densities")
    if densities is not None:
        found = {name: _positive_number(densities, name) for name in densities.value}
        sidecar.densities = {name: value for name, value in found.items() if value is not None}
    sidecar.ground = [cursor.text("ground")] if isinstance(cursor.get("ground"), str) else cursor.texts("ground")
    sidecar.groups = _parse_groups(cursor)
    for inside in cursor.objects("joints"):
        joint = _parse_joint(inside, sidecar)
        sidecar.joints.append(joint)
        follows = inside.object("follows")
        if follows is not None:
            leader, ratio = follows.text("joint"), follows.number("ratio", 1.0)
            sidecar.followers.append(_MimicSpec(follows.origin_at(), joint, leader, ratio))
            follows.collect_unread()
        joint.extras = inside.collect_unread()
    sidecar.extras = cursor.collect_unread()
    return sidecar


def _positive_number(cursor: JsonCursor, key: str) -> float | None:
    value = cursor.optional_number(key)
    if value is not None and not value > 0:
        cursor.error("wrong-type", f"{cursor.origin_at(key).path} is {value:g}; a number above zero is expected", key)
        return None
    return value


def _parse_groups(cursor: JsonCursor) -> list[RigidGroupElement]:
    """Parse rigid groups, a list of lists of part names."""
    value = cursor.get("groups") or []
    if not isinstance(value, list) or not all(
        isinstance(group, list) and all(isinstance(name, str) for name in group) for group in value
    ):
        cursor.error("wrong-type", "groups is not a list of lists of parts", "groups")
        return []
    return [
        RigidGroupElement(origin=cursor.origin_at("groups", i), name=f"group {i + 1}", occurrences=list(group))
        for i, group in enumerate(value)
    ]


# -- joints ------------------------------------------------------------------------------------------------------------


def _parse_joint(cursor: JsonCursor, sidecar: Sidecar) -> JointElement:
    """Parse a joint with frame, motions and limits in SI units."""
    if cursor.get("type") is None:
        cursor.report_missing("type")
    type = cursor.choice("type", _JOINT_TYPES, "rigid")
    for key in ("parent", "child"):
        if key not in cursor.value:
            cursor.report_missing(key)
    joint = JointElement(
        origin=cursor.origin_at(),
        name=cursor.text("name"),
        type=type,
        occurrence_one=cursor.text("child", ROOT_PATH),
        occurrence_two=cursor.text("parent", ROOT_PATH),
    )
    axes = _joint_axes(cursor)
    origin = cursor.numbers("origin", 3, cursor.length_unit)
    if origin is not None:
        joint.frame1 = Pose(origin, np.column_stack([axes["x"], axes["y"], axes["z"]]))
    elif type not in ("rigid", "slider") and cursor.value.get("origin") is None:
        cursor.report_missing("origin")
    for motion in JOINT_MOTIONS[type]:
        joint.motions[motion] = _parse_motion(cursor, type, motion, sidecar.motion_unit(type, motion))
        joint.motions[motion].axis = axes[_MOTION_AXES.get(type, {}).get(motion, "z")]
    return joint


def _joint_axes(cursor: JsonCursor) -> dict[str, Array]:
    """Axes of the joint frame: z along `axis`, x as close as possible to `x_axis`."""
    z = _parse_direction(cursor, "axis", np.array([0.0, 0.0, 1.0]))
    x: Array = _parse_direction(cursor, "x_axis", np.eye(3)[int(np.argmin(np.abs(z)))])
    x = x - (x @ z) * z
    if float(np.linalg.norm(x)) < 1e-6:
        cursor.error("zero-axis", f"{cursor.origin_at('x_axis').path} points along the axis", "x_axis")
        x = float64_array(np.cross(z, np.eye(3)[int(np.argmin(np.abs(z)))]))
    x = x / np.linalg.norm(x)
    return {"x": x, "y": float64_array(np.cross(z, x)), "z": z}


def _parse_direction(cursor: JsonCursor, key: str, default: Array) -> Array:
    """Unit vector of a field, or the default if absent or zero."""
    direction = cursor.numbers(key, 3)
    if direction is None:
        return default
    length = float(np.linalg.norm(direction))
    if length < 1e-9:
        cursor.error("zero-axis", f"{cursor.origin_at(key).path} has no direction", key)
        return default
    return direction / length


def _parse_motion(cursor: JsonCursor, type: str, name: str, unit: float) -> MotionElement:
    """Value and limits of one motion; keyed by the motion name if the joint has several motions."""
    single = len(JOINT_MOTIONS[type]) == 1
    values = cursor if single else cursor.object("value")
    limits = cursor if single else cursor.object("limits")
    value = 0.0 if values is None else values.number("value" if single else name, scale=unit)
    lower, upper = (None, None) if limits is None else _parse_limits(limits, "limits" if single else name, unit)
    return MotionElement(origin=cursor.origin_at(), axis=None, value=value, lower=lower, upper=upper)


def _parse_limits(cursor: JsonCursor, key: str, unit: float) -> tuple[float | None, float | None]:
    """Pair of limits in SI units; None for absent, malformed or crossed limits."""
    value = cursor.get(key)
    if value is None:
        return None, None
    if not isinstance(value, list) or len(value) != 2:
        cursor.error("wrong-type", f"{cursor.origin_at(key).path} is not a list of two limits, such as [-90, 90]", key)
        return None, None
    pair = JsonCursor({"0": value[0], "1": value[1]}, cursor.file, cursor.origin_at(key).path, cursor.diagnostics)
    pair.lines = cursor.lines
    lower, upper = (pair.optional_number(end, unit) for end in ("0", "1"))
    if lower is not None and upper is not None and lower > upper:
        cursor.error("limits-crossed", f"{cursor.origin_at(key).path}: the lower limit is above the upper one", key)
        return None, None
    return lower, upper
