"""Joints, rigid groups and motion links."""

from __future__ import annotations

from typing import Any

from .api import attribute, items, native, point, same
from .assembly import Assembly, Context
from .frames import joint_frames, lift_axis, lift_frame, parameter

TYPES = ["rigid", "revolute", "slider", "cylindrical", "pin_slot", "planar", "ball", "inferred"]
"""The names of adsk.fusion.JointTypes, by their numbers."""

MOTIONS: dict[str, dict[str, tuple[str, str, str]]] = {
    "rigid": {},
    "revolute": {"rotation": ("rotationAxisVector", "rotationValue", "rotationLimits")},
    "slider": {"slide": ("slideDirectionVector", "slideValue", "slideLimits")},
    "cylindrical": {
        "rotation": ("rotationAxisVector", "rotationValue", "rotationLimits"),
        "slide": ("rotationAxisVector", "slideValue", "slideLimits"),
    },
    "pin_slot": {
        "slide": ("slideDirectionVector", "slideValue", "slideLimits"),
        "rotation": ("rotationAxisVector", "rotationValue", "rotationLimits"),
    },
    "planar": {
        "primary_slide": ("primarySlideDirectionVector", "primarySlideValue", "primarySlideLimits"),
        "secondary_slide": ("secondarySlideDirectionVector", "secondarySlideValue", "secondarySlideLimits"),
        "rotation": ("normalDirectionVector", "rotationValue", "rotationLimits"),
    },
    "ball": {
        "pitch": ("pitchDirectionVector", "pitchValue", "pitchLimits"),
        "yaw": ("yawDirectionVector", "yawValue", "yawLimits"),
        "roll": ("rollDirectionVector", "rollValue", "rollLimits"),
    },
    "inferred": {},
}
"""For each motion of a joint type the properties of JointMotion that hold its direction, value and limits."""

LINKED_MOTIONS = [
    "pitch",
    "roll",
    "yaw",
    "rotation",
    "slide",
    "rotation",
    "slide",
    "rotation",
    "primary_slide",
    "secondary_slide",
    "rotation",
    "slide",
]
"""What adsk.fusion.JointMotionTypes means, by their numbers."""


class JointRecord:
    """A joint at one place of the assembly."""

    def __init__(self, context: Context, kind: str, own: Any) -> None:
        self.context = context
        self.kind = kind
        self.own = own
        """The joint in its component."""
        self.proxy = context.proxy(own)
        """The joint seen from the root component; None where the API cannot give it."""
        self.joint = own if self.proxy is None else self.proxy
        self.name: str = own.name
        self.type = _type(self.joint)
        self.one = context.path_of(attribute(self.joint, "occurrenceOne"))
        self.two = context.path_of(attribute(self.joint, "occurrenceTwo"))

    @property
    def suppressed(self) -> bool:
        """Whether the design leaves it out."""
        return bool(attribute(self.joint, "isSuppressed", False))

    @property
    def locked(self) -> bool:
        """Whether it is held where it is."""
        return bool(attribute(self.joint, "isLocked", False))

    def motion(self) -> Any:
        """The JointMotion, asked for anew: what it says changes when the joint is driven."""
        return attribute(self.joint, "jointMotion")


def find_joints(assembly: Assembly) -> list[JointRecord]:
    """All joints of the design, each as often as its component stands in the assembly."""
    records = []
    for context in assembly.contexts():
        records += [JointRecord(context, "joint", j) for j in items(attribute(context.component, "joints"))]
        records += [JointRecord(context, "as_built", j) for j in items(attribute(context.component, "asBuiltJoints"))]
    return records


def _type(joint: Any) -> str:
    motion = attribute(joint, "jointMotion")
    number = attribute(motion, "jointType") if motion is not None else attribute(joint, "jointType", 7)
    return TYPES[number] if number is not None and 0 <= number < len(TYPES) else "inferred"


def describe_joint(record: JointRecord) -> dict[str, Any]:
    """A joint as the snapshot has it."""
    joint = record.joint
    frames = _lifted_frames(record)
    healthy = attribute(joint, "healthState", 0) == 0
    return {
        "name": record.name,
        "kind": record.kind,
        "type": record.type,
        "context": record.context.path or None,
        "one": record.one,
        "two": record.two,
        "frame1": frames[0],
        "frame2": frames[1],
        "motions": {name: _describe_motion(record, *names) for name, names in MOTIONS[record.type].items()},
        "offset": parameter(joint, "offset"),
        "angle": parameter(joint, "angle"),
        "flipped": bool(attribute(joint, "isFlipped", False)),
        "locked": record.locked,
        "suppressed": record.suppressed,
        "problem": "" if healthy else str(attribute(joint, "errorOrWarningMessage", "")),
    }


def _lifted_frames(record: JointRecord) -> tuple[list[float] | None, list[float] | None]:
    if not record.context.path:
        return joint_frames(record.own, record.kind)
    proxies = (None, None) if record.proxy is None else joint_frames(record.proxy, record.kind)
    natives = joint_frames(record.own, record.kind)
    pose = record.context.pose()
    return lift_frame(proxies[0], natives[0], pose), lift_frame(proxies[1], natives[1], pose)


def _describe_motion(record: JointRecord, axis: str, value: str, limits: str) -> dict[str, Any]:
    motion = record.motion()
    bounds = attribute(motion, limits)
    return {
        "axis": _lifted_axis(record, axis),
        "value": float(getattr(motion, value)),
        "lower": _bound(bounds, "Minimum"),
        "upper": _bound(bounds, "Maximum"),
        "rest": _bound(bounds, "Rest"),
    }


def _lifted_axis(record: JointRecord, name: str) -> list[float] | None:
    if not record.context.path:
        return _vector(record.motion(), name)
    proxy = None if record.proxy is None else _vector(record.motion(), name)
    own = _vector(attribute(record.own, "jointMotion"), name)
    return lift_axis(proxy, own, record.context.pose())


def _vector(motion: Any, name: str) -> list[float] | None:
    found = attribute(motion, name)
    return None if found is None else point(found)


def _bound(limits: Any, which: str) -> float | None:
    """A limit, where it is switched on; limits may be one-sided."""
    if limits is None or not attribute(limits, f"is{which}ValueEnabled", False):
        return None
    return float(getattr(limits, f"{which.lower()}Value"))


# -- what ties occurrences and joints together -------------------------------------------------------------------------


def describe_rigid_groups(assembly: Assembly) -> list[dict[str, Any]]:
    """All rigid groups, each as often as its component stands in the assembly."""
    found = []
    for context in assembly.contexts():
        for own in items(attribute(context.component, "rigidGroups")):
            group = context.proxy(own)
            group = own if group is None else group
            members = [context.path_of(o) for o in items(group.occurrences)]
            found.append(
                {
                    "name": own.name,
                    "occurrences": [m for m in members if m is not None],
                    "suppressed": bool(attribute(group, "isSuppressed", False)),
                }
            )
    return found


def describe_motion_links(assembly: Assembly, joints: list[JointRecord], notes: list[str]) -> list[dict[str, Any]]:
    """All motion links; versions of Fusion before November 2025 do not tell."""
    found = []
    for context in assembly.contexts():
        for link in items(attribute(context.component, "motionLinks")):
            first = _index(attribute(link, "jointOne"), context, joints)
            other = attribute(link, "jointTwo")
            second = first if other is None else _index(other, context, joints)
            if first is None or second is None:
                notes.append(f"motion link {attribute(link, 'name', '')!r}: its joints were not found; it is left out")
                continue
            found.append(
                {
                    "name": str(attribute(link, "name", "")),
                    "joint1": first,
                    "motion1": LINKED_MOTIONS[link.motionOne],
                    "value1": parameter(link, "valueOne"),
                    "joint2": second,
                    "motion2": LINKED_MOTIONS[link.motionTwo],
                    "value2": parameter(link, "valueTwo"),
                    "reversed": bool(attribute(link, "isReversed", False)),
                    "suppressed": bool(attribute(link, "isSuppressed", False)),
                }
            )
    return found


def _index(joint: Any, context: Context, joints: list[JointRecord]) -> int | None:
    """Which of the records a joint is that a motion link of a component names."""
    if joint is None:
        return None
    for i, record in enumerate(joints):
        if record.context.path == context.path and same(native(joint), record.own):
            return i
    # it may belong to a component inside this one
    for i, record in enumerate(joints):
        inside = record.context.path.startswith(context.path)
        if inside and same(native(joint), record.own) and same(joint, record.joint):
            return i
    return None
