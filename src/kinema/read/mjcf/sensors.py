"""Converts MuJoCo sensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.core import quaternion_to_matrix, reproducible_product
from kinema.description import TAXELS, Sensor
from kinema.tokens import mjcf

from .actuators import actuator_bodies, tendon_bodies
from .extras import plugin_extras
from .model_reader import ModelReader, ObjectName, enum_name, nonempty_settings, to_floats
from .mujoco_compiler import mujoco

_TARGET_KINDS = {
    # MuJoCo object type -> (target kind of the description, kind of name)
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


def read_sensors(reader: ModelReader) -> list[tuple[set[int], Sensor]]:
    """All sensors, each with the set of bodies of its object and reference."""
    return [_read_sensor(reader, s) for s in range(reader.model.nsensor)]


def _read_sensor(reader: ModelReader, index: int) -> tuple[set[int], Sensor]:
    """Convert one sensor with target, reference, noise and cutoff."""
    model = reader.model
    element = reader.xml_element("sensors", index)
    kind = element.tag if element is not None else enum_name(model.sensor_type[index], "mjtSensor")
    target_kind, target = _target_object(reader, model.sensor_objtype[index], model.sensor_objid[index])
    reference_kind, reference = _target_object(reader, model.sensor_reftype[index], model.sensor_refid[index])
    sensor = Sensor(
        **reader.node_arguments(mjcf.SENSOR, "sensors", index),
        kind=kind,
        target_kind=target_kind,
        target=target,
        reference_kind=reference_kind,
        reference=reference,
        noise=float(model.sensor_noise[index]),
        cutoff=float(model.sensor_cutoff[index]),
    )
    sensor.extras = plugin_extras(reader, "sensors", index)
    _store_sensor_settings(reader, index, sensor)
    bodies = _object_bodies(model, int(model.sensor_objtype[index]), int(model.sensor_objid[index]))
    bodies |= _object_bodies(model, int(model.sensor_reftype[index]), int(model.sensor_refid[index]))
    return bodies, sensor


def _target_object(reader: ModelReader, kind: Any, index: Any) -> tuple[str, str]:
    if index < 0:
        return "", ""
    mujoco_kind = enum_name(kind, "mjtObj")
    if mujoco_kind not in _TARGET_KINDS:
        return "", ""
    target_kind, names = _TARGET_KINDS[mujoco_kind]
    object_names: list[ObjectName] = reader.names[names]
    return target_kind, object_names[int(index)].text


def _store_sensor_settings(reader: ModelReader, index: int, sensor: Sensor) -> None:
    """Store the remaining MuJoCo attributes of a sensor in its settings."""
    model = reader.model
    interval = to_floats(model.sensor_interval[index]) if hasattr(model, "sensor_interval") else ()
    if interval and interval[0] > 0:
        sensor.update_rate = 1.0 / interval[0]
    history = tuple(int(n) for n in model.sensor_history[index]) if hasattr(model, "sensor_history") else ()
    object_type = enum_name(model.sensor_objtype[index], "mjtObj")
    reference_type = enum_name(model.sensor_reftype[index], "mjtObj")
    element = reader.xml_element("sensors", index)
    sensor.settings = nonempty_settings(
        {
            mjcf.OBJTYPE: "" if object_type == "unknown" else object_type,
            mjcf.REFTYPE: "" if reference_type == "unknown" else reference_type,
            mjcf.DIM: int(model.sensor_dim[index]),
            mjcf.DATATYPE: enum_name(model.sensor_datatype[index], "mjtDataType"),
            mjcf.INTPRM: _integer_parameters(model, index),
            mjcf.DELAY: float(getattr(model, "sensor_delay", (0.0,) * model.nsensor)[index]),
            mjcf.INTERVAL: interval,
            mjcf.HISTORY: history,
            mjcf.DATA: "" if element is None else element.attributes.get("data", ""),
            mjcf.REDUCE: "" if element is None else element.attributes.get("reduce", ""),
            mjcf.NEEDSTAGE: enum_name(model.sensor_needstage[index], "mjtStage") if sensor.kind == "user" else "",
            mjcf.PLUGIN: int(model.sensor_plugin[index]) >= 0,
            mjcf.USER: model.sensor_user[index] if model.nuser_sensor else (),
            TAXELS: _taxels(model, index) if sensor.kind == "tactile" else (),
        }
    )


def _taxels(model: Any, index: int) -> tuple[float, ...]:
    """Vertices of the mesh of a tactile sensor in the frame of the body of its geom, flat.

    Position, or position and the two tangents of the vertex if the mesh has them.
    """
    mesh, geom = int(model.sensor_objid[index]), int(model.sensor_refid[index])
    count, start, normal = (int(x[mesh]) for x in (model.mesh_vertnum, model.mesh_vertadr, model.mesh_normaladr))
    rotation = quaternion_to_matrix(model.geom_quat[geom])
    vertices = np.asarray(model.mesh_vert[start : start + count], np.float64)
    columns = [reproducible_product(vertices, rotation.T) + model.geom_pos[geom]]
    if int(model.mesh_normalnum[mesh]) == 3 * count:  # normal and two tangents for each vertex
        axes = np.asarray(model.mesh_normal[normal : normal + 3 * count], np.float64).reshape(count, 3, 3)
        columns += [reproducible_product(axes[:, i], rotation.T) for i in (1, 2)]
    return to_floats(np.concatenate(columns, axis=1).ravel())


def _integer_parameters(model: Any, index: int) -> tuple[int, ...]:
    table = getattr(model, "sensor_intprm", None)
    return () if table is None else tuple(int(v) for v in table[index])


def _object_bodies(model: Any, kind: int, index: int) -> set[int]:
    """Bodies to which a MuJoCo object belongs."""
    if index < 0:
        return set()
    objects = mujoco().mjtObj
    match kind:
        case objects.mjOBJ_BODY | objects.mjOBJ_XBODY:
            return {index}
        case objects.mjOBJ_JOINT:
            return {int(model.jnt_bodyid[index])}
        case objects.mjOBJ_GEOM:
            return {int(model.geom_bodyid[index])}
        case objects.mjOBJ_SITE:
            return {int(model.site_bodyid[index])}
        case objects.mjOBJ_CAMERA:
            return {int(model.cam_bodyid[index])}
        case objects.mjOBJ_TENDON:
            return tendon_bodies(model, index)
        case objects.mjOBJ_ACTUATOR:
            return actuator_bodies(model, index)
    return set()
