"""The file that says how the parts of a STEP assembly move (`docs/cad-step.md`)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kinema.description import AxisMotion, Extra
from kinema.foundation import NOWHERE, Array, Diagnostics, Origin, Pose, vector
from kinema.read.cad.elements import JointElement, MotionElement, MotionLinkElement, RigidGroupElement, Snapshot
from kinema.read.cad.json_text import JsonCursor
from kinema.read.cad.schema import LENGTH_UNITS, MOTIONS, ROOT
from kinema.read.cad.solids import DENSITY, SolidOptions
from kinema.read.source import read_bytes

from .part_names import PartNames
from .yaml_text import MAX_BYTES, YamlError, parse_yaml

_TYPES = tuple(t for t in MOTIONS if t != "inferred")
_ANGLES = {"deg": math.radians(1.0), "rad": 1.0}
_DIRECTIONS = {
    "pin_slot": {"slide": "x", "rotation": "z"},
    "planar": {"primary_slide": "x", "secondary_slide": "y", "rotation": "z"},
    "ball": {"pitch": "x", "yaw": "y", "roll": "z"},
}
"""Which axis of the joint's frame each motion goes along, where it is not z."""


@dataclass(slots=True, eq=False)
class _Follower:
    place: Origin
    joint: JointElement
    leader: str
    ratio: float


@dataclass(slots=True, eq=False)
class Sidecar:
    """What the file says; the ends of joints and the members of groups are still names."""

    name: str = ""
    density: float | None = None
    densities: dict[str, float] = field(default_factory=dict)
    ground: list[str] = field(default_factory=list)
    joints: list[JointElement] = field(default_factory=list)
    groups: list[RigidGroupElement] = field(default_factory=list)
    followers: list[_Follower] = field(default_factory=list)
    place: Origin = NOWHERE
    angle: float = _ANGLES["deg"]
    """Radians in the file's unit."""
    length: float = LENGTH_UNITS["mm"]
    extras: list[Extra] = field(default_factory=list)

    def solid_options(self, density: float | None, tolerance: float, angular_tolerance: float) -> SolidOptions:
        """How to make bodies of the solids; what the file says comes first."""
        stated = self.density if self.density is not None else density
        return SolidOptions(
            density=DENSITY if stated is None else stated,
            densities=self.densities,
            tolerance=tolerance,
            angular_tolerance=angular_tolerance,
        )

    def add_to(self, snapshot: Snapshot, diagnostics: Diagnostics) -> None:
        """Put joints, groups and ground into a snapshot that has the parts."""
        names = PartNames(snapshot.occurrences, diagnostics)
        snapshot.name = self.name or snapshot.name
        snapshot.extras += self.extras
        for name in self.ground:
            part = names.find(name, self.place, "ground")
            if part is not None:
                part.grounded = True
        for group in self.groups:
            found = [names.find(name, group.place, "a group") for name in group.occurrences]
            group.occurrences = [part.path for part in found if part is not None]
            snapshot.rigid_groups.append(group)
        for joint in self.joints:
            what = f'joint "{joint.name}"'
            ends = [names.path_of(end, joint.place, what) for end in (joint.one, joint.two)]
            if None not in ends:
                joint.one, joint.two = (end or ROOT for end in ends)
                snapshot.joints.append(joint)
        snapshot.motion_links = [link for f in self.followers if (link := self._link(f, snapshot, diagnostics))]

    def _link(self, follower: _Follower, snapshot: Snapshot, diagnostics: Diagnostics) -> MotionLinkElement | None:
        leader = next((j for j in snapshot.joints if j.name == follower.leader), None)
        if leader is None or len(leader.motions) != 1 or len(follower.joint.motions) != 1:
            message = (
                f'joint "{follower.joint.name}" cannot follow {follower.leader!r:.80}: '
                f"{'there is no such joint' if leader is None else 'both must have one motion'}"
            )
            diagnostics.error("step.bad-follower", message, origin=follower.place)
            return None
        (motion1,), (motion2,) = leader.motions, follower.joint.motions
        return MotionLinkElement(
            place=follower.place,
            joint1=leader,
            motion1=motion1,
            joint2=follower.joint,
            motion2=motion2,
            value1=self.unit(leader.type, motion1),
            value2=follower.ratio * self.unit(follower.joint.type, motion2),
        )

    def unit(self, type: str, motion: str) -> float:
        """SI units in the file's unit."""
        return self.angle if MOTIONS[type][motion] is AxisMotion.ROTATION else self.length


def read_sidecar(file: Path, diagnostics: Diagnostics) -> Sidecar:
    """What the file says, as far as it can be used; a `ReadError` only where it cannot be opened."""
    try:
        text = parse_yaml(read_bytes(file, limit=MAX_BYTES))
    except YamlError as error:
        message = f"{error}; the assembly has no joints"
        diagnostics.error("step.bad-joints-file", message, origin=Origin(str(file), error.line))
        return Sidecar()
    if not isinstance(text.value, dict):
        message = "the file has no fields such as 'joints:'; the assembly has no joints"
        diagnostics.error("step.bad-joints-file", message, origin=Origin(str(file), text.lines.get("")))
        return Sidecar()
    return _sidecar(JsonCursor(text.value, str(file), "", diagnostics, lines=text.lines))


def _sidecar(cursor: JsonCursor) -> Sidecar:
    sidecar = Sidecar(place=cursor.place("ground"), name=cursor.text("name"))
    sidecar.length = LENGTH_UNITS[cursor.choice("length", tuple(LENGTH_UNITS), "mm")]
    sidecar.angle = _ANGLES[cursor.choice("angle", tuple(_ANGLES), "deg")]
    cursor.scale = sidecar.length
    sidecar.density = _positive(cursor, "density")
    densities = cursor.object("densities")
    if densities is not None:
        found = {name: _positive(densities, name) for name in densities.value}
        sidecar.densities = {name: value for name, value in found.items() if value is not None}
    sidecar.ground = [cursor.text("ground")] if isinstance(cursor.get("ground"), str) else cursor.texts("ground")
    sidecar.groups = _groups(cursor)
    for inside in cursor.objects("joints"):
        joint = _joint(inside, sidecar)
        sidecar.joints.append(joint)
        follows = inside.object("follows")
        if follows is not None:
            leader, ratio = follows.text("joint"), follows.number("ratio", 1.0)
            sidecar.followers.append(_Follower(follows.place(), joint, leader, ratio))
            follows.finish()
        joint.extras = inside.finish()
    sidecar.extras = cursor.finish()
    return sidecar


def _positive(cursor: JsonCursor, key: str) -> float | None:
    value = cursor.optional_number(key)
    if value is not None and not value > 0:
        cursor.error("wrong-type", f"{cursor.place(key).path} is {value:g}; a number above zero is expected", key)
        return None
    return value


def _groups(cursor: JsonCursor) -> list[RigidGroupElement]:
    """Lists of names; each list is one link."""
    value = cursor.get("groups") or []
    if not isinstance(value, list) or not all(
        isinstance(group, list) and all(isinstance(name, str) for name in group) for group in value
    ):
        cursor.error("wrong-type", "groups is not a list of lists of parts", "groups")
        return []
    return [
        RigidGroupElement(place=cursor.place("groups", i), name=f"group {i + 1}", occurrences=list(group))
        for i, group in enumerate(value)
    ]


# -- joints -----------------------------------------------------------------------------------------------------------


def _joint(cursor: JsonCursor, sidecar: Sidecar) -> JointElement:
    if cursor.get("type") is None:
        cursor.missing("type")
    type = cursor.choice("type", _TYPES, "rigid")
    for key in ("parent", "child"):
        if key not in cursor.value:
            cursor.missing(key)
    joint = JointElement(
        place=cursor.place(),
        name=cursor.text("name"),
        type=type,
        one=cursor.text("child", ROOT),
        two=cursor.text("parent", ROOT),
    )
    axes = _axes(cursor)
    origin = cursor.numbers("origin", 3, cursor.scale)
    if origin is not None:
        joint.frame1 = Pose(origin, np.column_stack([axes["x"], axes["y"], axes["z"]]))
    elif type not in ("rigid", "slider") and cursor.value.get("origin") is None:
        cursor.missing("origin")
    for motion in MOTIONS[type]:
        joint.motions[motion] = _motion(cursor, type, motion, sidecar.unit(type, motion))
        joint.motions[motion].axis = axes[_DIRECTIONS.get(type, {}).get(motion, "z")]
    return joint


def _axes(cursor: JsonCursor) -> dict[str, Array]:
    """The joint's frame: z along its axis, x as near as can be to `x_axis`."""
    z = _direction(cursor, "axis", np.array([0.0, 0.0, 1.0]))
    x: Array = _direction(cursor, "x_axis", np.eye(3)[int(np.argmin(np.abs(z)))])
    x = x - (x @ z) * z
    if float(np.linalg.norm(x)) < 1e-6:
        cursor.error("zero-axis", f"{cursor.place('x_axis').path} points along the axis", "x_axis")
        x = vector(np.cross(z, np.eye(3)[int(np.argmin(np.abs(z)))]))
    x = x / np.linalg.norm(x)
    return {"x": x, "y": vector(np.cross(z, x)), "z": z}


def _direction(cursor: JsonCursor, key: str, default: Array) -> Array:
    direction = cursor.numbers(key, 3)
    if direction is None:
        return default
    length = float(np.linalg.norm(direction))
    if length < 1e-9:
        cursor.error("zero-axis", f"{cursor.place(key).path} has no direction", key)
        return default
    return direction / length


def _motion(cursor: JsonCursor, type: str, name: str, unit: float) -> MotionElement:
    """Value and limits: of a joint with one motion themselves, of others by the motion's name."""
    single = len(MOTIONS[type]) == 1
    values = cursor if single else cursor.object("value")
    limits = cursor if single else cursor.object("limits")
    value = 0.0 if values is None else values.number("value" if single else name, scale=unit)
    lower, upper = (None, None) if limits is None else _limits(limits, "limits" if single else name, unit)
    return MotionElement(place=cursor.place(), axis=None, value=value, lower=lower, upper=upper)


def _limits(cursor: JsonCursor, key: str, unit: float) -> tuple[float | None, float | None]:
    value = cursor.get(key)
    if value is None:
        return None, None
    if not isinstance(value, list) or len(value) != 2:
        cursor.error("wrong-type", f"{cursor.place(key).path} is not a list of two limits, such as [-90, 90]", key)
        return None, None
    pair = JsonCursor({"0": value[0], "1": value[1]}, cursor.file, cursor.place(key).path, cursor.diagnostics)
    pair.lines = cursor.lines
    lower, upper = (pair.optional_number(end, unit) for end in ("0", "1"))
    if lower is not None and upper is not None and lower > upper:
        cursor.error("limits-crossed", f"{cursor.place(key).path}: the lower limit is above the upper one", key)
        return None, None
    return lower, upper
