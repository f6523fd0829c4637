"""Sensors of MuJoCo, and the MuJoCo sensors that measure the same as sensors of other formats."""

from __future__ import annotations

from kinema.core import Pose
from kinema.description import TAXELS, Assembly, Joint, Sensor
from kinema.tokens import mjcf, sdf

from ..xml_document import Element, format_number, format_numbers
from .actuation import delay_attributes, find_mjcf_joint
from .attributes import text_unless_default, trimmed_text
from .bodies import joint_name
from .context import MjcfBody, MjcfContext
from .equalities import add_site
from .extras import first_plugin_element

_SITE_SENSORS = ("touch", "accelerometer", "velocimeter", "gyro", "force", "torque", "magnetometer")
_JOINT_SENSORS = (
    *("jointpos", "jointvel", "jointactuatorfrc", "ballquat", "ballangvel"),
    *("jointlimitpos", "jointlimitvel", "jointlimitfrc"),
)
_TENDON_SENSORS = ("tendonpos", "tendonvel", "tendonactuatorfrc", "tendonlimitpos", "tendonlimitvel", "tendonlimitfrc")
_ACTUATOR_SENSORS = ("actuatorpos", "actuatorvel", "actuatorfrc")
_FRAME_SENSORS = (
    *("framepos", "framequat", "framexaxis", "frameyaxis", "framezaxis"),
    *("framelinvel", "frameangvel", "framelinacc", "frameangacc"),
)
_SUBTREE_SENSORS = ("subtreecom", "subtreelinvel", "subtreeangmom")
_GEOM_PAIR_SENSORS = ("distance", "normal", "fromto")
_GLOBAL_SENSORS = ("e_potential", "e_kinetic", "clock")
_OBJECT_ATTRIBUTES = {
    **dict.fromkeys(_SITE_SENSORS, mjcf.SITE),
    **dict.fromkeys(_JOINT_SENSORS, mjcf.JOINT),
    **dict.fromkeys(_TENDON_SENSORS, mjcf.TENDON),
    **dict.fromkeys(_ACTUATOR_SENSORS, mjcf.ACTUATOR),
    **dict.fromkeys(_SUBTREE_SENSORS, mjcf.BODY),
}
"""Sensor type -> attribute that names its only object."""
_OBJECT_TYPES = {
    "frame": mjcf.SITE,
    "link": mjcf.BODY,
    "shape": mjcf.GEOM,
    "camera": mjcf.CAMERA,
    "tendon": mjcf.TENDON,
}
"""Target kind of the description -> MuJoCo object type."""
_EQUIVALENT_SENSORS = {
    "imu": ("accelerometer", "gyro"),
    "magnetometer": ("magnetometer",),
    "force_torque": ("force", "torque"),
}
"""Sensor types of other formats -> equivalent MuJoCo sensors."""


def write_sensors(ctx: MjcfContext) -> None:
    """Write all sensors, in the order of the description."""
    for home, sensor in ctx.ordered_items("sensors"):
        if home.format == mjcf.FORMAT or _is_mujoco_sensor(sensor):
            _write_mujoco_sensor(ctx, home, sensor)
        else:
            _write_equivalent_sensors(ctx, home, sensor)


def _is_mujoco_sensor(sensor: Sensor) -> bool:
    """Whether a sensor of another format has a MuJoCo sensor type with a suitable target."""
    if sensor.kind in _FRAME_SENSORS or sensor.kind in _GLOBAL_SENSORS:
        return True
    attribute = _OBJECT_ATTRIBUTES.get(sensor.kind)
    if attribute is None:
        return False
    return sensor.target_kind in (attribute, {mjcf.SITE: "frame", mjcf.BODY: "link"}.get(attribute))


def _write_mujoco_sensor(ctx: MjcfContext, assembly: Assembly, sensor: Sensor) -> None:
    """Write a MuJoCo sensor, or its preserved plugin element; reports sensors with missing objects."""
    entry = ctx.names.register(mjcf.SENSOR, sensor, assembly, always_named=not sensor.name_is_generated)
    verbatim = first_plugin_element(ctx, sensor)
    if verbatim is not None:
        verbatim.attributes.pop("name", None)
        for name in list(sensor.settings):
            ctx.use_setting(sensor.settings, name)
        element = verbatim
    else:
        objects = _object_attributes(ctx, assembly, sensor)
        if objects is None:
            how = f"MuJoCo has no sensor {sensor.kind!r} of what it looks at, or that is not in the file"
            ctx.report_dropped(sensor, "the sensor", how)
            return
        element = Element(sensor.kind)
        element.set_attributes(objects)
        _set_sensor_attributes(ctx, sensor, element)
    entry.element = element
    ctx.section(mjcf.SENSOR).children.append(element)
    if any(sensor.pose.distance(Pose())):
        ctx.report_dropped(sensor, "its pose", "MuJoCo's sensors are where their objects are")


# ---------------------------------------------------------------------------------- sensed objects and reference frames


def _object_attributes(ctx: MjcfContext, assembly: Assembly, sensor: Sensor) -> dict[str, str | None] | None:
    """Attributes naming the object and reference of a sensor; None if they are missing or the type is unknown."""
    settings = sensor.settings
    kinds = [ctx.use_setting(settings, name, "") for name in (mjcf.OBJTYPE, mjcf.REFTYPE)]
    target = _object_name(ctx, assembly, sensor.target_kind, sensor.target)
    reference = _object_name(ctx, assembly, sensor.reference_kind, sensor.reference)
    if (sensor.target and target is None) or (sensor.reference and reference is None):
        return None
    kinds = [
        k or _OBJECT_TYPES.get(w, "") for k, w in zip(kinds, (sensor.target_kind, sensor.reference_kind), strict=True)
    ]
    if sensor.kind in _OBJECT_ATTRIBUTES:
        return None if target is None else {_OBJECT_ATTRIBUTES[sensor.kind]: target}
    if sensor.kind in _GLOBAL_SENSORS:
        return {}
    if sensor.kind in _FRAME_SENSORS or sensor.kind == "user":
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
            return _numbered_object_attribute(kinds[0], target, 1) | _numbered_object_attribute(kinds[1], reference, 2)
    if sensor.kind in _GEOM_PAIR_SENSORS:
        return _numbered_object_attribute(kinds[0], target, 1) | _numbered_object_attribute(kinds[1], reference, 2)
    return None


def _numbered_object_attribute(kind: str, name: str | None, side: int) -> dict[str, str | None]:
    if name is None:
        return {}
    if kind == mjcf.SITE:
        return {mjcf.SITE: name}
    return {f"{'subtree' if kind == mjcf.XBODY else kind}{side}": name}


def _object_name(ctx: MjcfContext, assembly: Assembly, kind: str, name: str) -> str | None:
    """Name in the file of a sensor's object; None if missing."""
    if not name:
        return None
    if kind == "joint":
        part = find_mjcf_joint(ctx, name, assembly)
        return None if part is None else joint_name(ctx, part)
    if kind == "link" and name == "world" and ctx.names.find(mjcf.BODY, name, assembly) is None:
        return name
    if kind == "shape":
        entry = ctx.names.find(mjcf.GEOM, name, assembly)
        return (
            None if entry is None or entry.element is None else ctx.names.resolve_reference(mjcf.GEOM, name, assembly)
        )
    if kind == "mesh":
        return name if name in ctx.names.taken_names.get(mjcf.MESH, ()) else None
    return ctx.names.resolve_reference(_OBJECT_TYPES.get(kind, kind), name, assembly)


# ----------------------------------------------------------------------------------------------- measurement attributes


def _set_sensor_attributes(ctx: MjcfContext, sensor: Sensor, element: Element) -> None:
    """Set type-specific data, cutoff, noise, delay, interval and user attributes."""

    def take(name: str, default: object = None) -> object:
        return ctx.use_setting(sensor.settings, name, default)

    integers = take(mjcf.INTPRM)
    user, interval = take(mjcf.USER), take(mjcf.INTERVAL)
    if sensor.kind in ("contact", "rangefinder"):
        element.set_attributes({"data": str(take(mjcf.DATA, "")) or None, "reduce": str(take(mjcf.REDUCE, "")) or None})
    if sensor.kind == "contact" and integers and integers[2] != 1:  # type: ignore[index]  # ty: ignore[not-subscriptable]
        element.set_attributes({"num": str(integers[2])})  # type: ignore[index]  # ty: ignore[not-subscriptable]
    if sensor.kind == "insidesite" and integers and integers[0]:  # type: ignore[index]  # ty: ignore[not-subscriptable]
        element.set_attributes({"enclosed": "true"})
    take(TAXELS)  # those of the mesh
    for name in (mjcf.DATA, mjcf.REDUCE, mjcf.DIM, mjcf.DATATYPE, mjcf.NEEDSTAGE, mjcf.PLUGIN):
        value = take(name)
        if sensor.kind == "user" and name in (mjcf.DIM, mjcf.DATATYPE, mjcf.NEEDSTAGE) and value:
            element.set_attributes({name: str(value)})
    if not interval and sensor.update_rate > 0:
        interval = (1.0 / sensor.update_rate, 0.0)
    element.set_attributes(
        {
            **_cutoff_and_noise(sensor),
            **delay_attributes(take(mjcf.DELAY, 0.0), take(mjcf.HISTORY)),
            "interval": None if not interval else _interval_text(interval),
            "user": None if user is None else trimmed_text(user),  # type: ignore[arg-type]
        }
    )


def _cutoff_and_noise(sensor: Sensor) -> dict[str, str | None]:
    """Attributes `cutoff` and `noise`, clamped to be nonnegative as MuJoCo requires."""
    return {
        "cutoff": text_unless_default(max(sensor.cutoff, 0.0)),
        "noise": text_unless_default(max(sensor.noise, 0.0)),
    }


def _interval_text(interval: object) -> str:
    period, phase = (*interval, 0.0)[:2]  # type: ignore[misc]  # ty: ignore[not-iterable]
    return format_numbers((period, phase)) if phase else format_number(period)


# --------------------------------------------------------------------------------------------- sensors of other formats


def _write_equivalent_sensors(ctx: MjcfContext, assembly: Assembly, sensor: Sensor) -> None:
    """Write a sensor of another format as equivalent MuJoCo sensors on an added site; else report it as dropped."""
    measures = _EQUIVALENT_SENSORS.get(sensor.kind)
    if sensor.kind == "camera" and any(c.settings.get(sdf.SENSOR) == sensor.name for c in assembly.cameras):
        ctx.report_approximated(
            sensor, "a camera sensor", "it is a camera; what else the sensor says is not in the file"
        )
        return
    place = None if measures is None else _sensor_frame(ctx, assembly, sensor)
    if measures is None or place is None:
        ctx.report_dropped(sensor, "the sensor", f"MuJoCo has no sensor {sensor.kind!r}")
        return
    body, pose = place
    site = add_site(ctx, body, pose, sensor.name or sensor.kind)
    for kind in measures:
        name = ctx.names.new_name(mjcf.SENSOR, f"{sensor.name or sensor.kind}_{kind}", assembly)
        element = ctx.section(mjcf.SENSOR).add_child(kind, name=name, site=site)
        element.set_attributes(_cutoff_and_noise(sensor))
        if sensor.update_rate > 0:
            element.set_attributes({"interval": format_number(1.0 / sensor.update_rate)})
    how = f"it is {' and '.join(measures)} at the site {site!r}; its other settings are not in the file"
    ctx.report_approximated(sensor, f"a sensor of the kind {sensor.kind!r}", how)
    for name in list(sensor.settings):
        ctx.use_setting(sensor.settings, name)


def _sensor_frame(ctx: MjcfContext, assembly: Assembly, sensor: Sensor) -> tuple[MjcfBody, Pose] | None:
    """Body and pose of a sensor on a link or joint; None for other targets."""
    if sensor.target_kind == "link":
        entry = ctx.names.find(mjcf.BODY, sensor.target, assembly)
        return None if entry is None else (ctx.bodies_by_link[id(entry.node)], sensor.pose)
    if sensor.target_kind != "joint":
        return None
    entry = ctx.names.find(mjcf.JOINT, sensor.target, assembly)
    joint = None if entry is None else entry.node
    if not isinstance(joint, Joint) or joint.child is None:
        return None
    child = ctx.names.find(mjcf.BODY, joint.child, assembly)
    return None if child is None else (ctx.bodies_by_link[id(child.node)], joint.child_pose @ sensor.pose)
