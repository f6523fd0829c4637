"""Sensors: MuJoCo's own in its own words, and what it can measure of other formats' sensors."""

from __future__ import annotations

from kinema.description import Assembly, Joint, Sensor
from kinema.foundation import Pose
from kinema.words import mjcf, sdf

from ..text import Element, number, numbers
from .actuators import delay_attributes
from .bodies import part_name
from .body_plan import BodyPlan
from .equalities import new_site
from .extras import plugin_element
from .numbers import text_or_none, trimmed
from .tendons import joint_part
from .writing import Writing

_SITE = ("touch", "accelerometer", "velocimeter", "gyro", "force", "torque", "magnetometer")
_JOINT = (
    *("jointpos", "jointvel", "jointactuatorfrc", "ballquat", "ballangvel"),
    *("jointlimitpos", "jointlimitvel", "jointlimitfrc"),
)
_TENDON = ("tendonpos", "tendonvel", "tendonactuatorfrc", "tendonlimitpos", "tendonlimitvel", "tendonlimitfrc")
_ACTUATOR = ("actuatorpos", "actuatorvel", "actuatorfrc")
_FRAME = (
    *("framepos", "framequat", "framexaxis", "frameyaxis", "framezaxis"),
    *("framelinvel", "frameangvel", "framelinacc", "frameangacc"),
)
_SUBTREE = ("subtreecom", "subtreelinvel", "subtreeangmom")
_PAIRS = ("distance", "normal", "fromto")
_ALONE = ("e_potential", "e_kinetic", "clock")
_ATTRIBUTE = {
    **dict.fromkeys(_SITE, mjcf.SITE),
    **dict.fromkeys(_JOINT, mjcf.JOINT),
    **dict.fromkeys(_TENDON, mjcf.TENDON),
    **dict.fromkeys(_ACTUATOR, mjcf.ACTUATOR),
    **dict.fromkeys(_SUBTREE, mjcf.BODY),
}
"""Kind of sensor -> the attribute that names its only object."""
_OBJECTS = {
    "frame": mjcf.SITE,
    "link": mjcf.BODY,
    "shape": mjcf.GEOM,
    "camera": mjcf.CAMERA,
    "tendon": mjcf.TENDON,
}
"""The description's word for a target -> MuJoCo's kind of name."""
_ELSEWHERE = {
    "imu": ("accelerometer", "gyro"),
    "magnetometer": ("magnetometer",),
    "force_torque": ("force", "torque"),
}
"""Kinds of other formats -> what measures the same."""


def write_sensors(writing: Writing) -> None:
    """All sensors of the description, in order."""
    for home, sensor in writing.parts("sensors"):
        if home.format == mjcf.FORMAT or _is_own(sensor):
            _own(writing, home, sensor)
        else:
            _foreign(writing, home, sensor)


def _is_own(sensor: Sensor) -> bool:
    """Whether a sensor that was not read from MJCF is one of MuJoCo's all the same."""
    if sensor.kind in _FRAME or sensor.kind in _ALONE:
        return True
    attribute = _ATTRIBUTE.get(sensor.kind)
    if attribute is None:
        return False
    return sensor.target_kind in (attribute, {mjcf.SITE: "frame", mjcf.BODY: "link"}.get(attribute))


def _own(writing: Writing, home: Assembly, sensor: Sensor) -> None:
    entry = writing.names.add(mjcf.SENSOR, sensor, home, shown=not sensor.name_is_generated)
    verbatim = plugin_element(writing, sensor)
    if verbatim is not None:
        verbatim.attributes.pop("name", None)
        for name in list(sensor.settings):
            writing.take_from(sensor.settings, name)
        element = verbatim
    else:
        objects = _objects(writing, home, sensor)
        if objects is None:
            how = f"MuJoCo has no sensor {sensor.kind!r} of what it looks at, or that is not in the file"
            writing.drop(sensor, "the sensor", how)
            return
        element = Element(sensor.kind)
        element.set(objects)
        _settings(writing, sensor, element)
    entry.element = element
    writing.section(mjcf.SENSOR).children.append(element)
    if any(sensor.pose.distance(Pose())):
        writing.drop(sensor, "its pose", "MuJoCo's sensors are where their objects are")


# -- what it looks at -------------------------------------------------------------------------------------------------


def _objects(writing: Writing, home: Assembly, sensor: Sensor) -> dict[str, str | None] | None:
    """The attributes that name a sensor's objects; None where there are none such."""
    settings = sensor.settings
    kinds = [writing.take_from(settings, name, "") for name in (mjcf.OBJTYPE, mjcf.REFTYPE)]
    target = _name(writing, home, sensor.target_kind, sensor.target)
    reference = _name(writing, home, sensor.reference_kind, sensor.reference)
    if (sensor.target and target is None) or (sensor.reference and reference is None):
        return None
    kinds = [k or _OBJECTS.get(w, "") for k, w in zip(kinds, (sensor.target_kind, sensor.reference_kind), strict=True)]
    if sensor.kind in _ATTRIBUTE:
        return None if target is None else {_ATTRIBUTE[sensor.kind]: target}
    if sensor.kind in _ALONE:
        return {}
    if sensor.kind in _FRAME or sensor.kind == "user":
        given: dict[str, str | None] = {} if target is None else {"objtype": kinds[0], "objname": target}
        return given | ({} if reference is None else {"reftype": kinds[1], "refname": reference})
    match sensor.kind:
        case "rangefinder":
            return None if target is None else {kinds[0]: target}
        case "camprojection":
            return {"site": target, "camera": reference}
        case "insidesite":
            return {"site": reference, "objtype": kinds[0], "objname": target}
        case "tactile":
            return {"geom": reference, "mesh": target}
        case "contact":
            return _numbered(kinds[0], target, 1) | _numbered(kinds[1], reference, 2)
    if sensor.kind in _PAIRS:
        return _numbered(kinds[0], target, 1) | _numbered(kinds[1], reference, 2)
    return None


def _numbered(kind: str, name: str | None, number_of_side: int) -> dict[str, str | None]:
    if name is None:
        return {}
    if kind == mjcf.SITE:
        return {mjcf.SITE: name}
    return {f"{'subtree' if kind == mjcf.XBODY else kind}{number_of_side}": name}


def _name(writing: Writing, home: Assembly, kind: str, name: str) -> str | None:
    if not name:
        return None
    if kind == "joint":
        part = joint_part(writing, name, home)
        return None if part is None else part_name(writing, part)
    if kind == "link" and name == "world" and writing.names.find(mjcf.BODY, name, home) is None:
        return name
    if kind == "shape":
        entry = writing.names.find(mjcf.GEOM, name, home)
        return None if entry is None or entry.element is None else writing.names.refer(mjcf.GEOM, name, home)
    if kind == "mesh":
        return name if name in writing.names.taken.get(mjcf.MESH, ()) else None
    return writing.names.refer(_OBJECTS.get(kind, kind), name, home)


# -- how it measures --------------------------------------------------------------------------------------------------


def _settings(writing: Writing, sensor: Sensor, element: Element) -> None:
    def take(name: str, default: object = None) -> object:
        return writing.take_from(sensor.settings, name, default)

    integers = take(mjcf.INTPRM)
    user, interval = take(mjcf.USER), take(mjcf.INTERVAL)
    if sensor.kind in ("contact", "rangefinder"):
        element.set({"data": str(take(mjcf.DATA, "")) or None, "reduce": str(take(mjcf.REDUCE, "")) or None})
    if sensor.kind == "contact" and integers and integers[2] != 1:  # type: ignore[index]  # ty: ignore[not-subscriptable]
        element.set({"num": str(integers[2])})  # type: ignore[index]  # ty: ignore[not-subscriptable]
    if sensor.kind == "insidesite" and integers and integers[0]:  # type: ignore[index]  # ty: ignore[not-subscriptable]
        element.set({"enclosed": "true"})
    for name in (mjcf.DATA, mjcf.REDUCE, mjcf.DIM, mjcf.DATATYPE, mjcf.NEEDSTAGE, mjcf.PLUGIN):
        value = take(name)
        if sensor.kind == "user" and name in (mjcf.DIM, mjcf.DATATYPE, mjcf.NEEDSTAGE) and value:
            element.set({name: str(value)})
    if not interval and sensor.update_rate > 0:
        interval = (1.0 / sensor.update_rate, 0.0)
    element.set(
        {
            **_quality(sensor),
            **delay_attributes(take(mjcf.DELAY, 0.0), take(mjcf.HISTORY)),
            "interval": None if not interval else _interval_text(interval),
            "user": None if user is None else trimmed(user),  # type: ignore[arg-type]
        }
    )


def _quality(sensor: Sensor) -> dict[str, str | None]:
    """What MuJoCo takes no negative numbers for."""
    return {"cutoff": text_or_none(max(sensor.cutoff, 0.0)), "noise": text_or_none(max(sensor.noise, 0.0))}


def _interval_text(interval: object) -> str:
    period, phase = (*interval, 0.0)[:2]  # type: ignore[misc]  # ty: ignore[not-iterable]
    return numbers((period, phase)) if phase else number(period)


# -- sensors of other formats -----------------------------------------------------------------------------------------


def _foreign(writing: Writing, home: Assembly, sensor: Sensor) -> None:
    measures = _ELSEWHERE.get(sensor.kind)
    if sensor.kind == "camera" and any(c.settings.get(sdf.SENSOR) == sensor.name for c in home.cameras):
        writing.approximate(sensor, "a camera sensor", "it is a camera; what else the sensor says is not in the file")
        return
    place = None if measures is None else _place(writing, home, sensor)
    if measures is None or place is None:
        writing.drop(sensor, "the sensor", f"MuJoCo has no sensor {sensor.kind!r}")
        return
    body, pose = place
    site = new_site(writing, body, pose, sensor.name or sensor.kind)
    for kind in measures:
        name = writing.names.new(mjcf.SENSOR, f"{sensor.name or sensor.kind}_{kind}", home)
        element = writing.section(mjcf.SENSOR).child(kind, name=name, site=site)
        element.set(_quality(sensor))
        if sensor.update_rate > 0:
            element.set({"interval": number(1.0 / sensor.update_rate)})
    how = f"it is {' and '.join(measures)} at the site {site!r}; its other settings are not in the file"
    writing.approximate(sensor, f"a sensor of the kind {sensor.kind!r}", how)
    for name in list(sensor.settings):
        writing.take_from(sensor.settings, name)


def _place(writing: Writing, home: Assembly, sensor: Sensor) -> tuple[BodyPlan, Pose] | None:
    """The body that a sensor is on, and its pose there."""
    if sensor.target_kind == "link":
        entry = writing.names.find(mjcf.BODY, sensor.target, home)
        return None if entry is None else (writing.body_of[id(entry.node)], sensor.pose)
    if sensor.target_kind != "joint":
        return None
    entry = writing.names.find(mjcf.JOINT, sensor.target, home)
    joint = None if entry is None else entry.node
    if not isinstance(joint, Joint) or joint.child is None:
        return None
    child = writing.names.find(mjcf.BODY, joint.child, home)
    return None if child is None else (writing.body_of[id(child.node)], joint.child_pose @ sensor.pose)
