"""From JSON values to the objects of a CAD snapshot, in SI units."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from kinema.description import AxisMotion
from kinema.foundation import Array, Diagnostics, Pose, ReadError

from .elements import (
    BodyElement,
    JointElement,
    MeshElement,
    MotionElement,
    MotionLinkElement,
    OccurrenceElement,
    PhysicalElement,
    ProbeElement,
    RigidGroupElement,
    Snapshot,
)
from .json_text import JsonCursor, parse_json
from .schema import KINDS, LENGTH_UNITS, MARKER, MARKER_KEY, MOTIONS, ROOT, UNITS, VERSION

_FRAMES = ("root", "component")


def parse_snapshot(data: bytes, file: str, diagnostics: Diagnostics) -> Snapshot:
    """The snapshot in a file; a `ReadError` where it is none, or of a version to come."""
    value, repeated = parse_json(data, file)
    if not isinstance(value, dict) or value.get(MARKER_KEY) != MARKER:
        raise ReadError(f'{file}: this is no CAD snapshot: it does not begin with {{"{MARKER_KEY}": "{MARKER}"}}')
    cursor = JsonCursor(value, file, "", diagnostics)
    if repeated:
        cursor.error("repeated-field", f"the field {repeated!r:.60} stands twice in one object; the last one counts")
    _check_version(cursor)
    cursor.scale = LENGTH_UNITS[UNITS[_units(cursor)]]
    snapshot = Snapshot(
        place=cursor.place(),
        name=cursor.text("name"),
        up=cursor.choice("up", ("z", "y"), "z"),
        notes=cursor.texts("notes"),
    )
    source = cursor.object("source")
    snapshot.source = {} if source is None else source.value
    root = cursor.object("root")
    if root is not None:
        snapshot.root = _root(root)
    snapshot.occurrences = [o for o in map(_occurrence, cursor.objects("occurrences")) if o is not None]
    joints = {c.number_in_list: _joint(c) for c in cursor.objects("joints")}
    snapshot.joints = list(joints.values())
    snapshot.rigid_groups = [_rigid_group(c) for c in cursor.objects("rigid_groups")]
    links = (_motion_link(c, joints) for c in cursor.objects("motion_links"))
    snapshot.motion_links = [link for link in links if link is not None]
    snapshot.extras = cursor.finish()
    return snapshot


def _check_version(cursor: JsonCursor) -> None:
    cursor.seen.add(MARKER_KEY)
    version = cursor.get("version")
    if version is None:
        raise ReadError(f'{cursor.file}: the snapshot has no "version"')
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ReadError(f"{cursor.file}: version is {version!r:.40}; a whole number is expected")
    if version > VERSION:
        raise ReadError(
            f"{cursor.file}: the snapshot is of version {version}, newer than the {VERSION} that is read; update kinema"
        )


def _units(cursor: JsonCursor) -> str:
    """The units; a snapshot without them is not guessed at."""
    text = "".join(cursor.text("units").split())
    if text not in UNITS:
        expected = " or ".join(f'"{u}"' for u in UNITS)
        raise ReadError(f"{cursor.file}: units: {text!r:.40} is not known; {expected} is expected")
    return text


# -- occurrences ------------------------------------------------------------------------------------------------------


def _root(cursor: JsonCursor) -> OccurrenceElement:
    return OccurrenceElement(
        place=cursor.place(),
        path=ROOT,
        name=cursor.text("name"),
        component=cursor.text("component"),
        physical=_physical(cursor),
        box=_box(cursor),
        bodies=[_body(c) for c in cursor.objects("bodies")],
        extras=cursor.finish(),
    )


def _occurrence(cursor: JsonCursor) -> OccurrenceElement | None:
    path = cursor.text("path")
    if not path:
        cursor.missing("path")
        return None
    pose = cursor.pose("pose")
    if pose is None and cursor.value.get("pose") is None:
        cursor.missing("pose")
    parent, separator, last = path.rpartition("+")
    return OccurrenceElement(
        place=cursor.place(),
        path=path,
        name=cursor.text("name", last or path),
        # a name may itself hold a plus sign, so that the file should say it
        parent=cursor.text("parent") if "parent" in cursor.value else (parent if separator else ROOT),
        component=cursor.text("component"),
        pose=Pose() if pose is None else pose,
        grounded=cursor.flag("grounded"),
        grounded_to_parent=cursor.flag("grounded_to_parent"),
        visible=cursor.flag("visible", default=True),
        physical=_physical(cursor),
        box=_box(cursor),
        bodies=[_body(c) for c in cursor.objects("bodies")],
        extras=cursor.finish(),
    )


def _box(cursor: JsonCursor) -> tuple[Array, Array] | None:
    corners = cursor.numbers("box", 6, cursor.scale)
    return None if corners is None else (corners[:3], corners[3:])


def _physical(owner: JsonCursor) -> PhysicalElement | None:
    cursor = owner.object("physical")
    if cursor is None:
        return None
    mass = cursor.optional_number("mass")
    center = cursor.numbers("center", 3, cursor.scale)
    moments = cursor.numbers("inertia", 6, cursor.scale**2)
    for key, value in (("mass", mass), ("center", center), ("inertia", moments)):
        if value is None and cursor.value.get(key) is None:
            cursor.missing(key)
    principal = cursor.numbers("principal", 3, cursor.scale**2)
    frame = cursor.choice("frame", _FRAMES, "root")
    cursor.text("accuracy")
    cursor.finish()
    if mass is None or center is None or moments is None:
        return None
    if mass < 0:
        cursor.error("negative-mass", f"{cursor.place('mass').path} is {mass:g} kg; the mass is left out", "mass")
        return None
    xx, yy, zz, xy, yz, xz = moments.tolist()
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return PhysicalElement(
        place=cursor.place(), mass=mass, center=center, inertia=tensor, principal=principal, frame=frame
    )


def _body(cursor: JsonCursor) -> BodyElement:
    color = cursor.numbers("color", 4)
    if color is not None and not ((color >= 0) & (color <= 1)).all():
        message = f"{cursor.place('color').path} is not a colour: each of its numbers is from 0 to 1"
        cursor.error("not-a-color", message, "color")
        color = None
    return BodyElement(
        place=cursor.place(),
        name=cursor.text("name"),
        visible=cursor.flag("visible", default=True),
        color=None if color is None else (float(color[0]), float(color[1]), float(color[2]), float(color[3])),
        material=cursor.text("material"),
        physical=_physical(cursor),
        mesh=_mesh(cursor),
        extras=cursor.finish(),
    )


def _mesh(owner: JsonCursor) -> MeshElement | None:
    cursor = owner.object("mesh")
    if cursor is None:
        return None
    file = cursor.text("file")
    if not file:
        cursor.missing("file")
    unit = cursor.choice("unit", tuple(LENGTH_UNITS), "m")
    if "unit" not in cursor.value:
        cursor.missing("unit")
    frame = cursor.choice("frame", _FRAMES, "component")
    cursor.finish()
    return MeshElement(place=cursor.place(), file=file, scale=LENGTH_UNITS[unit], frame=frame) if file else None


# -- joints -----------------------------------------------------------------------------------------------------------


def _joint(cursor: JsonCursor) -> JointElement:
    if cursor.get("type") is None:
        cursor.missing("type")
    type_ = cursor.choice("type", tuple(MOTIONS), "rigid")
    return JointElement(
        place=cursor.place(),
        name=cursor.text("name"),
        type=type_,
        kind=cursor.choice("kind", KINDS, "joint"),
        context=cursor.text("context"),
        one=_end(cursor, "one"),
        two=_end(cursor, "two"),
        frame1=cursor.pose("frame1"),
        frame2=cursor.pose("frame2"),
        motions=_motions(cursor, type_),
        offset=cursor.number("offset", scale=cursor.scale),
        angle=cursor.number("angle"),
        flipped=cursor.flag("flipped"),
        locked=cursor.flag("locked"),
        suppressed=cursor.flag("suppressed"),
        problem=cursor.text("problem"),
        probes=_probes(cursor, type_),
        extras=cursor.finish(),
    )


def _end(cursor: JsonCursor, key: str) -> str:
    """The path of an occurrence; null, which must be said, is the root component."""
    if key not in cursor.value:
        cursor.missing(key)
    return cursor.text(key, ROOT)


def _motions(owner: JsonCursor, type_: str) -> dict[str, MotionElement]:
    cursor = owner.object("motions")
    expected = MOTIONS[type_]
    if cursor is None:
        if expected:
            owner.missing("motions")
        return {}
    motions: dict[str, MotionElement] = {}
    for name, motion in expected.items():
        inside = cursor.object(name)
        if inside is None:
            if cursor.value.get(name) is None:
                cursor.missing(name)
            continue
        motions[name] = _motion(inside, 1.0 if motion is AxisMotion.ROTATION else cursor.scale)
    cursor.finish()
    return motions


def _motion(cursor: JsonCursor, scale: float) -> MotionElement:
    element = MotionElement(
        place=cursor.place(),
        axis=_direction(cursor),
        value=cursor.number("value", scale=scale),
        lower=cursor.optional_number("lower", scale),
        upper=cursor.optional_number("upper", scale),
        rest=cursor.optional_number("rest", scale),
    )
    if element.lower is not None and element.upper is not None and element.lower > element.upper:
        path = cursor.place().path
        cursor.error("limits-crossed", f"{path}: the lower limit is above the upper one; neither is used")
        element.lower = element.upper = None
    cursor.finish()
    return element


def _direction(cursor: JsonCursor) -> Array | None:
    axis = cursor.numbers("axis", 3)
    if axis is None:
        return None
    length = float(np.linalg.norm(axis))
    if length < 1e-9:
        cursor.error("zero-axis", f"{cursor.place('axis').path} has no direction", "axis")
        return None
    return axis / length if abs(length - 1.0) > 1e-15 else axis


def _probes(owner: JsonCursor, type_: str) -> list[ProbeElement]:
    probes: list[ProbeElement] = []
    for cursor in owner.objects("probe"):
        values = cursor.object("values")
        measured: dict[str, float] = {}
        if values is None:
            cursor.missing("values")
        else:
            for name, motion in MOTIONS[type_].items():
                value = values.optional_number(name, 1.0 if motion is AxisMotion.ROTATION else cursor.scale)
                if value is not None:
                    measured[name] = value
            values.finish()
        pose1, pose2 = cursor.pose("pose1"), cursor.pose("pose2")
        owner.kept += cursor.finish()
        if measured:
            # the root component, which has no pose, stays where it is
            probes.append(
                ProbeElement(place=cursor.place(), values=measured, pose1=pose1 or Pose(), pose2=pose2 or Pose())
            )
    return probes


def _rigid_group(cursor: JsonCursor) -> RigidGroupElement:
    return RigidGroupElement(
        place=cursor.place(),
        name=cursor.text("name"),
        occurrences=cursor.texts("occurrences"),
        suppressed=cursor.flag("suppressed"),
        extras=cursor.finish(),
    )


def _motion_link(cursor: JsonCursor, joints: Mapping[int, JointElement]) -> MotionLinkElement | None:
    first = _linked(cursor, 1, joints)
    second = first if cursor.get("joint2") is None else _linked(cursor, 2, joints)
    if first is None or second is None:
        return None
    element = MotionLinkElement(
        place=cursor.place(),
        name=cursor.text("name"),
        joint1=first,
        motion1=cursor.text("motion1"),
        joint2=second,
        motion2=cursor.text("motion2"),
        value1=cursor.number("value1", 1.0),
        value2=cursor.number("value2", 1.0),
        reversed=cursor.flag("reversed"),
        suppressed=cursor.flag("suppressed"),
        extras=cursor.finish(),
    )
    for n, joint, motion in ((1, first, element.motion1), (2, second, element.motion2)):
        if motion not in MOTIONS[joint.type]:
            known = ", ".join(MOTIONS[joint.type]) or "none"
            message = f'joint "{joint.name}" has no motion {motion!r:.40}; its motions are: {known}'
            cursor.error("unknown-motion", message, f"motion{n}")
            return None
    if element.value1 == 0 or not math.isfinite(element.value2 / element.value1):
        cursor.error(
            "zero-motion-link", f"{cursor.place('value1').path} is zero; the motion link is left out", "value1"
        )
        return None
    element.value1 *= _length_scale(first, element.motion1, cursor.scale)
    element.value2 *= _length_scale(second, element.motion2, cursor.scale)
    return element


def _linked(cursor: JsonCursor, number: int, joints: Mapping[int, JointElement]) -> JointElement | None:
    index = cursor.index(f"joint{number}")
    if index is None:
        return None
    if index not in joints:
        message = f"{cursor.place(f'joint{number}').path} is {index}, which is none of the {len(joints)} joints"
        cursor.error("unknown-joint", message, f"joint{number}")
        return None
    return joints[index]


def _length_scale(joint: JointElement, motion: str, scale: float) -> float:
    return 1.0 if MOTIONS[joint.type][motion] is AxisMotion.ROTATION else scale
