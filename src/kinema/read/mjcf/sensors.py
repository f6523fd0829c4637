"""Sensors, kept in MuJoCo's words."""

from __future__ import annotations

from typing import Any

from kinema.description import Sensor
from kinema.words import mjcf

from .actuators import bodies_of_actuator
from .engine import mujoco
from .leftovers import plugins_of
from .reading import Name, Reading, floats, given, word
from .tendons import bodies_of_tendon

_TARGETS = {
    # MuJoCo's object -> (the description's word, the kind of name)
    mjcf.BODY: ("link", mjcf.BODY),
    mjcf.XBODY: ("link", mjcf.BODY),
    mjcf.JOINT: ("joint", mjcf.JOINT),
    mjcf.GEOM: ("shape", mjcf.GEOM),
    mjcf.SITE: ("frame", mjcf.SITE),
    mjcf.CAMERA: ("camera", mjcf.CAMERA),
    mjcf.TENDON: ("tendon", mjcf.TENDON),
    mjcf.ACTUATOR: ("actuator", mjcf.ACTUATOR),
    mjcf.MESH: ("mesh", mjcf.MESH),
}


def sensors(reading: Reading) -> list[tuple[set[int], Sensor]]:
    """Every sensor with the bodies it looks at."""
    return [_sensor(reading, s) for s in range(reading.model.nsensor)]


def _sensor(reading: Reading, number: int) -> tuple[set[int], Sensor]:
    model = reading.model
    element = reading.element("sensors", number)
    kind = element.tag if element is not None else word(model.sensor_type[number], "mjtSensor")
    target_kind, target = _object(reading, model.sensor_objtype[number], model.sensor_objid[number])
    reference_kind, reference = _object(reading, model.sensor_reftype[number], model.sensor_refid[number])
    sensor = Sensor(
        **reading.node(mjcf.SENSOR, "sensors", number),
        kind=kind,
        target_kind=target_kind,
        target=target,
        reference_kind=reference_kind,
        reference=reference,
        noise=float(model.sensor_noise[number]),
        cutoff=float(model.sensor_cutoff[number]),
    )
    sensor.extras = plugins_of(reading, "sensors", number)
    _settings(reading, number, sensor)
    bodies = _bodies(model, int(model.sensor_objtype[number]), int(model.sensor_objid[number]))
    bodies |= _bodies(model, int(model.sensor_reftype[number]), int(model.sensor_refid[number]))
    return bodies, sensor


def _object(reading: Reading, kind: Any, number: Any) -> tuple[str, str]:
    if number < 0:
        return "", ""
    mujoco_kind = word(kind, "mjtObj")
    if mujoco_kind not in _TARGETS:
        return "", ""
    target_kind, names = _TARGETS[mujoco_kind]
    known: list[Name] = reading.names[names]
    return target_kind, known[int(number)].text


def _settings(reading: Reading, number: int, sensor: Sensor) -> None:
    """Everything else that MuJoCo has."""
    model = reading.model
    interval = floats(model.sensor_interval[number]) if hasattr(model, "sensor_interval") else ()
    if interval and interval[0] > 0:
        sensor.update_rate = 1.0 / interval[0]
    samples = tuple(int(n) for n in model.sensor_history[number]) if hasattr(model, "sensor_history") else ()
    object_type = word(model.sensor_objtype[number], "mjtObj")
    reference_type = word(model.sensor_reftype[number], "mjtObj")
    element = reading.element("sensors", number)
    sensor.settings = given(
        {
            mjcf.OBJTYPE: "" if object_type == "unknown" else object_type,
            mjcf.REFTYPE: "" if reference_type == "unknown" else reference_type,
            mjcf.DIM: int(model.sensor_dim[number]),
            mjcf.DATATYPE: word(model.sensor_datatype[number], "mjtDataType"),
            mjcf.INTPRM: _integers(model, number),
            mjcf.DELAY: float(getattr(model, "sensor_delay", (0.0,) * model.nsensor)[number]),
            mjcf.INTERVAL: interval,
            mjcf.HISTORY: samples,
            mjcf.DATA: "" if element is None else element.attributes.get("data", ""),
            mjcf.REDUCE: "" if element is None else element.attributes.get("reduce", ""),
            mjcf.NEEDSTAGE: word(model.sensor_needstage[number], "mjtStage") if sensor.kind == "user" else "",
            mjcf.PLUGIN: int(model.sensor_plugin[number]) >= 0,
            mjcf.USER: model.sensor_user[number] if model.nuser_sensor else (),
        }
    )


def _integers(model: Any, number: int) -> tuple[int, ...]:
    table = getattr(model, "sensor_intprm", None)
    return () if table is None else tuple(int(v) for v in table[number])


def _bodies(model: Any, kind: int, number: int) -> set[int]:
    """The bodies that an object belongs to."""
    if number < 0:
        return set()
    objects = mujoco().mjtObj
    match kind:
        case objects.mjOBJ_BODY | objects.mjOBJ_XBODY:
            return {number}
        case objects.mjOBJ_JOINT:
            return {int(model.jnt_bodyid[number])}
        case objects.mjOBJ_GEOM:
            return {int(model.geom_bodyid[number])}
        case objects.mjOBJ_SITE:
            return {int(model.site_bodyid[number])}
        case objects.mjOBJ_CAMERA:
            return {int(model.cam_bodyid[number])}
        case objects.mjOBJ_TENDON:
            return bodies_of_tendon(model, number)
        case objects.mjOBJ_ACTUATOR:
            return bodies_of_actuator(model, number)
    return set()
