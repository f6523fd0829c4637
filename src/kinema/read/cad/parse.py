"""Parses the JSON of a CAD snapshot into its data classes, in SI units.

Covers occurrences, bodies, joints with measured pose samples, rigid groups and motion links.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from kinema.core import Array, Diagnostics, Pose, ReadError
from kinema.description import AxisMotion

from .elements import (
    JOINT_KINDS,
    JOINT_MOTIONS,
    LENGTH_UNITS,
    ROOT_PATH,
    SNAPSHOT_MARKER,
    SNAPSHOT_MARKER_KEY,
    SNAPSHOT_VERSION,
    UNIT_SYSTEMS,
    BodyElement,
    JointElement,
    MeshElement,
    MotionElement,
    MotionLinkElement,
    OccurrenceElement,
    PhysicalElement,
    PoseSampleElement,
    RigidGroupElement,
    Snapshot,
)
from .json_cursor import JsonCursor, parse_json

# -- occurrences and bodies --------------------------------------------------------------------------------------------

_FRAMES = ("root", "component")


def parse_root_component(cursor: JsonCursor) -> OccurrenceElement:
    """Parse the root component, whose pose is the identity."""
    return OccurrenceElement(
        origin=cursor.origin_at(),
        path=ROOT_PATH,
        name=cursor.text("name"),
        component=cursor.text("component"),
        physical=_parse_physical(cursor),
        bounding_box=_parse_bounding_box(cursor),
        bodies=[_parse_body(c) for c in cursor.objects("bodies")],
        extras=cursor.collect_unread(),
    )


def parse_occurrence(cursor: JsonCursor) -> OccurrenceElement | None:
    """Parse an occurrence; None with an error if it has no path."""
    path = cursor.text("path")
    if not path:
        cursor.report_missing("path")
        return None
    pose = cursor.pose("pose")
    if pose is None and cursor.value.get("pose") is None:
        cursor.report_missing("pose")
    parent, separator, last = path.rpartition("+")
    return OccurrenceElement(
        origin=cursor.origin_at(),
        path=path,
        name=cursor.text("name", last or path),
        # names may contain plus signs, so an explicit parent takes precedence
        parent=cursor.text("parent") if "parent" in cursor.value else (parent if separator else ROOT_PATH),
        component=cursor.text("component"),
        pose=Pose() if pose is None else pose,
        grounded=cursor.flag("grounded"),
        grounded_to_parent=cursor.flag("grounded_to_parent"),
        visible=cursor.flag("visible", default=True),
        physical=_parse_physical(cursor),
        bounding_box=_parse_bounding_box(cursor),
        bodies=[_parse_body(c) for c in cursor.objects("bodies")],
        extras=cursor.collect_unread(),
    )


def _parse_bounding_box(cursor: JsonCursor) -> tuple[Array, Array] | None:
    corners = cursor.numbers("box", 6, cursor.length_unit)
    return None if corners is None else (corners[:3], corners[3:])


def _parse_physical(owner: JsonCursor) -> PhysicalElement | None:
    """Parse mass, centre of mass and inertia tensor to SI units; None if incomplete or negative."""
    cursor = owner.object("physical")
    if cursor is None:
        return None
    mass = cursor.optional_number("mass")
    center = cursor.numbers("center", 3, cursor.length_unit)
    moments = cursor.numbers("inertia", 6, cursor.length_unit**2)
    for key, value in (("mass", mass), ("center", center), ("inertia", moments)):
        if value is None and cursor.value.get(key) is None:
            cursor.report_missing(key)
    principal = cursor.numbers("principal", 3, cursor.length_unit**2)
    frame = cursor.choice("frame", _FRAMES, "root")
    cursor.text("accuracy")
    cursor.collect_unread()
    if mass is None or center is None or moments is None:
        return None
    if mass < 0:
        cursor.error("negative-mass", f"{cursor.origin_at('mass').path} is {mass:g} kg; the mass is left out", "mass")
        return None
    xx, yy, zz, xy, yz, xz = moments.tolist()
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return PhysicalElement(
        origin=cursor.origin_at(), mass=mass, center=center, inertia=tensor, principal=principal, frame=frame
    )


def _parse_body(cursor: JsonCursor) -> BodyElement:
    """Parse a body with colour, material, mass properties and mesh."""
    color = cursor.numbers("color", 4)
    if color is not None and not ((color >= 0) & (color <= 1)).all():
        message = f"{cursor.origin_at('color').path} is not a colour: each of its numbers is from 0 to 1"
        cursor.error("not-a-color", message, "color")
        color = None
    return BodyElement(
        origin=cursor.origin_at(),
        name=cursor.text("name"),
        visible=cursor.flag("visible", default=True),
        color=None if color is None else (float(color[0]), float(color[1]), float(color[2]), float(color[3])),
        material=cursor.text("material"),
        physical=_parse_physical(cursor),
        mesh=_parse_mesh(cursor),
        extras=cursor.collect_unread(),
    )


def _parse_mesh(owner: JsonCursor) -> MeshElement | None:
    """Parse the mesh reference of a body; None if absent."""
    cursor = owner.object("mesh")
    if cursor is None:
        return None
    file = cursor.text("file")
    if not file:
        cursor.report_missing("file")
    unit = cursor.choice("unit", tuple(LENGTH_UNITS), "m")
    if "unit" not in cursor.value:
        cursor.report_missing("unit")
    frame = cursor.choice("frame", _FRAMES, "component")
    cursor.collect_unread()
    return MeshElement(origin=cursor.origin_at(), file=file, scale=LENGTH_UNITS[unit], frame=frame) if file else None


# -- joints, rigid groups and motion links -----------------------------------------------------------------------------


def parse_joint(cursor: JsonCursor) -> JointElement:
    """Parse a joint with its motions, frames and pose samples."""
    if cursor.get("type") is None:
        cursor.report_missing("type")
    type_ = cursor.choice("type", tuple(JOINT_MOTIONS), "rigid")
    return JointElement(
        origin=cursor.origin_at(),
        name=cursor.text("name"),
        type=type_,
        kind=cursor.choice("kind", JOINT_KINDS, "joint"),
        context=cursor.text("context"),
        occurrence_one=_parse_end(cursor, "one"),
        occurrence_two=_parse_end(cursor, "two"),
        frame1=cursor.pose("frame1"),
        frame2=cursor.pose("frame2"),
        motions=_parse_motions(cursor, type_),
        offset=cursor.number("offset", scale=cursor.length_unit),
        angle=cursor.number("angle"),
        flipped=cursor.flag("flipped"),
        locked=cursor.flag("locked"),
        suppressed=cursor.flag("suppressed"),
        problem=cursor.text("problem"),
        pose_samples=_parse_pose_samples(cursor, type_),
        extras=cursor.collect_unread(),
    )


def _parse_end(cursor: JsonCursor, key: str) -> str:
    """Path of the occurrence at one end of a joint; an explicit null is the root component."""
    if key not in cursor.value:
        cursor.report_missing(key)
    return cursor.text(key, ROOT_PATH)


def _parse_motions(owner: JsonCursor, type_: str) -> dict[str, MotionElement]:
    """Parse the motions expected for the joint type; missing ones are reported."""
    cursor = owner.object("motions")
    expected = JOINT_MOTIONS[type_]
    if cursor is None:
        if expected:
            owner.report_missing("motions")
        return {}
    motions: dict[str, MotionElement] = {}
    for name, motion in expected.items():
        inside = cursor.object(name)
        if inside is None:
            if cursor.value.get(name) is None:
                cursor.report_missing(name)
            continue
        motions[name] = _parse_motion(inside, 1.0 if motion is AxisMotion.ROTATION else cursor.length_unit)
    cursor.collect_unread()
    return motions


def _parse_motion(cursor: JsonCursor, scale: float) -> MotionElement:
    """Parse axis, value, limits and rest value of one motion; crossed limits are discarded with an error."""
    element = MotionElement(
        origin=cursor.origin_at(),
        axis=_parse_direction(cursor),
        value=cursor.number("value", scale=scale),
        lower=cursor.optional_number("lower", scale),
        upper=cursor.optional_number("upper", scale),
        rest=cursor.optional_number("rest", scale),
    )
    if element.lower is not None and element.upper is not None and element.lower > element.upper:
        path = cursor.origin_at().path
        cursor.error("limits-crossed", f"{path}: the lower limit is above the upper one; neither is used")
        element.lower = element.upper = None
    cursor.collect_unread()
    return element


def _parse_direction(cursor: JsonCursor) -> Array | None:
    """Parse the axis of a motion as a unit vector; None if absent or zero."""
    axis = cursor.numbers("axis", 3)
    if axis is None:
        return None
    length = float(np.linalg.norm(axis))
    if length < 1e-9:
        cursor.error("zero-axis", f"{cursor.origin_at('axis').path} has no direction", "axis")
        return None
    return axis / length if abs(length - 1.0) > 1e-15 else axis


def _parse_pose_samples(owner: JsonCursor, type_: str) -> list[PoseSampleElement]:
    """Parse the poses measured with the joint driven to given values."""
    pose_samples: list[PoseSampleElement] = []
    for cursor in owner.objects("probe"):
        values = cursor.object("values")
        measured: dict[str, float] = {}
        if values is None:
            cursor.report_missing("values")
        else:
            for name, motion in JOINT_MOTIONS[type_].items():
                value = values.optional_number(name, 1.0 if motion is AxisMotion.ROTATION else cursor.length_unit)
                if value is not None:
                    measured[name] = value
            values.collect_unread()
        pose1, pose2 = cursor.pose("pose1"), cursor.pose("pose2")
        owner.unread_extras += cursor.collect_unread()
        if measured:
            # the root component has no pose
            pose_samples.append(
                PoseSampleElement(
                    origin=cursor.origin_at(), values=measured, pose1=pose1 or Pose(), pose2=pose2 or Pose()
                )
            )
    return pose_samples


def parse_rigid_group(cursor: JsonCursor) -> RigidGroupElement:
    """Parse a group of rigidly connected occurrences."""
    return RigidGroupElement(
        origin=cursor.origin_at(),
        name=cursor.text("name"),
        occurrences=cursor.texts("occurrences"),
        suppressed=cursor.flag("suppressed"),
        extras=cursor.collect_unread(),
    )


def parse_motion_link(cursor: JsonCursor, joints: Mapping[int, JointElement]) -> MotionLinkElement | None:
    """Parse a motion link between two of the given `joints` (by index); None with an error if invalid."""
    first = _linked_joint(cursor, 1, joints)
    second = first if cursor.get("joint2") is None else _linked_joint(cursor, 2, joints)
    if first is None or second is None:
        return None
    element = MotionLinkElement(
        origin=cursor.origin_at(),
        name=cursor.text("name"),
        joint1=first,
        motion1=cursor.text("motion1"),
        joint2=second,
        motion2=cursor.text("motion2"),
        value1=cursor.number("value1", 1.0),
        value2=cursor.number("value2", 1.0),
        reversed=cursor.flag("reversed"),
        suppressed=cursor.flag("suppressed"),
        extras=cursor.collect_unread(),
    )
    for n, joint, motion in ((1, first, element.motion1), (2, second, element.motion2)):
        if motion not in JOINT_MOTIONS[joint.type]:
            known = ", ".join(JOINT_MOTIONS[joint.type]) or "none"
            message = f'joint "{joint.name}" has no motion {motion!r:.40}; its motions are: {known}'
            cursor.error("unknown-motion", message, f"motion{n}")
            return None
    if element.value1 == 0 or not math.isfinite(element.value2 / element.value1):
        cursor.error(
            "zero-motion-link", f"{cursor.origin_at('value1').path} is zero; the motion link is left out", "value1"
        )
        return None
    element.value1 *= _motion_unit(first, element.motion1, cursor.length_unit)
    element.value2 *= _motion_unit(second, element.motion2, cursor.length_unit)
    return element


def _linked_joint(cursor: JsonCursor, end_number: int, joints: Mapping[int, JointElement]) -> JointElement | None:
    """Joint at one end of a motion link; None with an error if the index is invalid."""
    index = cursor.optional_index(f"joint{end_number}")
    if index is None:
        return None
    if index not in joints:
        message = f"{cursor.origin_at(f'joint{end_number}').path} is {index}, which is none of the {len(joints)} joints"
        cursor.error("unknown-joint", message, f"joint{end_number}")
        return None
    return joints[index]


def _motion_unit(joint: JointElement, motion: str, scale: float) -> float:
    return 1.0 if JOINT_MOTIONS[joint.type][motion] is AxisMotion.ROTATION else scale


# -- snapshot ----------------------------------------------------------------------------------------------------------


def parse_snapshot(data: bytes, file: str, diagnostics: Diagnostics) -> Snapshot:
    """Parse a CAD snapshot; raises `ReadError` if the file is no snapshot or of a newer version."""
    value, repeated = parse_json(data, file)
    if not isinstance(value, dict) or value.get(SNAPSHOT_MARKER_KEY) != SNAPSHOT_MARKER:
        raise ReadError(
            f'{file}: this is no CAD snapshot: it does not begin with {{"{SNAPSHOT_MARKER_KEY}": "{SNAPSHOT_MARKER}"}}'
        )
    cursor = JsonCursor(value, file, "", diagnostics)
    if repeated:
        cursor.error("repeated-field", f"the field {repeated!r:.60} stands twice in one object; the last one counts")
    _check_version(cursor)
    cursor.length_unit = LENGTH_UNITS[UNIT_SYSTEMS[_parse_units(cursor)]]
    snapshot = Snapshot(
        origin=cursor.origin_at(),
        name=cursor.text("name"),
        up=cursor.choice("up", ("z", "y"), "z"),
        notes=cursor.texts("notes"),
    )
    source = cursor.object("source")
    snapshot.source = {} if source is None else source.value
    root = cursor.object("root")
    if root is not None:
        snapshot.root = parse_root_component(root)
    snapshot.occurrences = [o for o in map(parse_occurrence, cursor.objects("occurrences")) if o is not None]
    joints = {c.index_in_list: parse_joint(c) for c in cursor.objects("joints")}
    snapshot.joints = list(joints.values())
    snapshot.rigid_groups = [parse_rigid_group(c) for c in cursor.objects("rigid_groups")]
    links = (parse_motion_link(c, joints) for c in cursor.objects("motion_links"))
    snapshot.motion_links = [link for link in links if link is not None]
    snapshot.extras = cursor.collect_unread()
    return snapshot


def _check_version(cursor: JsonCursor) -> None:
    """Raise `ReadError` if the version field is absent, malformed or newer than supported."""
    cursor.accessed.add(SNAPSHOT_MARKER_KEY)
    version = cursor.get("version")
    if version is None:
        raise ReadError(f'{cursor.file}: the snapshot has no "version"')
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ReadError(f"{cursor.file}: version is {version!r:.40}; a whole number is expected")
    if version > SNAPSHOT_VERSION:
        raise ReadError(
            f"{cursor.file}: the snapshot is of version {version}, newer than the {SNAPSHOT_VERSION} that "
            "is read; update kinema"
        )


def _parse_units(cursor: JsonCursor) -> str:
    """Unit system of the snapshot; raises `ReadError` if it is absent or unknown."""
    text = "".join(cursor.text("units").split())
    if text not in UNIT_SYSTEMS:
        expected = " or ".join(f'"{u}"' for u in UNIT_SYSTEMS)
        raise ReadError(f"{cursor.file}: units: {text!r:.40} is not known; {expected} is expected")
    return text
