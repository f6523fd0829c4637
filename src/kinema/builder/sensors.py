"""Tables of sensors and of their readings, in the order of the files (MuJoCo's `sensordata`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinema.core import Array, Pose, unique_name
from kinema.description import OPTION_DEFAULTS, Sensor, is_flag_enabled
from kinema.model import ActuatorsInfo, ReadingsInfo, SensorsInfo
from kinema.tokens import mjcf

from .context import AttachmentFrame, BuildContext, LinkRecord, all_elements
from .options import merged_options
from .ray_geoms import pack_ray_geoms
from .sdf_sensors import SDF_READING_FACTORIES, world_magnetic_field
from .sensor_readings import (
    MJCF_READING_FACTORIES,
    NoiseModel,
    ReadingFactory,
    ReadingRecord,
    SensorContext,
    UnsupportedSensorError,
)


@dataclass(slots=True, eq=False)
class _SensorRow:
    """One row of the table of sensors, with its readings."""

    context: SensorContext
    readings: list[ReadingRecord]

    @property
    def sensor(self) -> Sensor:
        return self.context.sensor

    @property
    def entity(self) -> int:
        return self.context.entity

    @property
    def dim(self) -> int:
        return sum(r.dim for r in self.readings)


def pack_sensors(ctx: BuildContext, actuators: ActuatorsInfo, actuator_entities: list[int]) -> SensorsInfo:
    """Table of all sensors of all entities, with their readings, error models, rates and delays.

    Values follow in the order of the files. Sensors that cannot be simulated, or are disabled by flag, return zeros and
    are reported. `actuators` and `actuator_entities` resolve actuator sensors.
    """
    directions: list[Array] = []
    rows: list[_SensorRow] = []
    for entity, spec in enumerate(ctx.entities):
        sensors: list[Sensor] = all_elements(spec.description, "sensors")
        is_enabled = is_flag_enabled(merged_options(spec.description), mjcf.SENSOR)
        if sensors and not is_enabled:
            message = f'the sensors of "{spec.name}" return zeros, as its file disables them (flag sensor)'
            ctx.diagnostics.note("sim.sensors-off", message, origin=spec.description.origin)
        for sensor in sensors:
            sensor_ctx = SensorContext(ctx, entity, sensor, actuators, actuator_entities, directions)
            rows.append(_SensorRow(sensor_ctx, _make_readings(sensor_ctx) if is_enabled else [_zero_reading(sensor)]))
    readings = [reading for row in rows for reading in row.readings]
    noise_models = [
        noise_model
        for row in rows
        for reading in row.readings
        for noise_model in _noise_models_of_values(row.sensor, reading)
    ]
    _note_ideal_sensors(ctx, rows, noise_models)
    for row in rows:
        _warn_of_ignored_tendon_forces(ctx, row)
        if (*row.sensor.settings.get(mjcf.HISTORY, ()), 0, 0)[1]:
            message = f'sensor "{row.sensor.name}" returns its last measurement: interpolation is not simulated'
            ctx.diagnostics.warning("sim.sensor-part", message, origin=row.sensor.origin)
    ends = np.cumsum([0, *(row.dim for row in rows)])
    return SensorsInfo(
        names=_unique_sensor_names(ctx, rows),
        kinds=[row.sensor.kind for row in rows],
        entity_idx=_int_array([row.entity for row in rows]),
        start=_int_array(ends[:-1]),
        end=_int_array(ends[1:]),
        channels=[tuple(_channel_ranges(row.readings).items()) for row in rows],
        rate=np.array([row.sensor.update_rate for row in rows], np.float64),
        delay=np.array([_delay(row.sensor) for row in rows], np.float64),
        noise=np.array([model.noise for model in noise_models], np.float64),
        bias_mean=np.array([model.bias_mean for model in noise_models], np.float64),
        bias_std=np.array([model.bias_std for model in noise_models], np.float64),
        resolution=np.array([model.resolution for model in noise_models], np.float64),
        readings=_pack_readings(rows, readings),
        ray_geoms=pack_ray_geoms(ctx, directions),
        magnetic_field=_magnetic_field(ctx),
    )


def _delay(sensor: Sensor) -> float:
    return float(sensor.settings.get(mjcf.DELAY, 0.0))


def _note_ideal_sensors(ctx: BuildContext, rows: list[_SensorRow], noise_models: list[NoiseModel]) -> None:
    """Note that sensors are ideal by default, if a file gives any noise, bias, resolution, update rate or delay."""
    has_noise = any(model.noise or model.bias_mean or model.bias_std or model.resolution for model in noise_models)
    if has_noise or any(row.sensor.update_rate or _delay(row.sensor) for row in rows):
        message = "sensors are ideal: they ignore the noise, update rate and delay given by the files"
        ctx.diagnostics.note("sim.ideal-sensors", message, hint="scene.sensors.use_file_error_model() applies them")


def _warn_of_ignored_tendon_forces(ctx: BuildContext, row: _SensorRow) -> None:
    """Warn if a force-torque sensor on a fixed link ignores tendon forces between its subtree and the rest.

    Only applies to links that are rigidly attached to their parent.
    """
    link = next((r.target_idx for r in row.readings if r.kind in ("force", "torque")), -1)
    if link < 0:
        return
    record = ctx.links[link]
    if record.parent is None or record.frame_idx != record.parent.frame_idx:
        return
    subtree = {record.index for record in ctx.links if _is_descendant_of(record, link)}
    if any(len({link in subtree for link in links}) > 1 for links in row.context.links_of_spatial_tendons()):
        message = f'sensor "{row.sensor.name}" ignores the forces of tendons between its subtree and other links'
        ctx.diagnostics.warning("sim.sensor-part", message, origin=row.sensor.origin)


def _is_descendant_of(link: LinkRecord, ancestor_idx: int) -> bool:
    current: LinkRecord | None = link
    while current is not None and current.index != ancestor_idx:
        current = current.parent
    return current is not None


def _int_array(values: object) -> npt.NDArray[np.int32]:
    return np.array(values, dtype=np.int32)


def _make_readings(sensor_ctx: SensorContext) -> list[ReadingRecord]:
    """Readings of a sensor; zeros of the same dimension, with a warning, if it cannot be simulated."""
    sensor, factory = sensor_ctx.sensor, reading_factory(sensor_ctx.sensor)
    try:
        if factory is None:
            raise UnsupportedSensorError(f"sensors of kind {sensor.kind!r} are not supported")
        return factory(sensor_ctx)
    except UnsupportedSensorError as error:
        dim = int(sensor.settings.get(mjcf.DIM, 0))
        consequence = f"it returns {dim} zero{'s' * (dim != 1)}" if dim else "it returns no values"
        message = f'sensor "{sensor.name}" ({sensor.kind}) is not simulated: {error}; {consequence}'
        sensor_ctx.build.diagnostics.warning("sim.sensor", message, origin=sensor.origin)
        return [_zero_reading(sensor)]


def _zero_reading(sensor: Sensor) -> ReadingRecord:
    """Reading of zeros with the dimension of a sensor."""
    return ReadingRecord("nothing", int(sensor.settings.get(mjcf.DIM, 0)))


def reading_factory(sensor: Sensor) -> ReadingFactory | None:
    """Function that makes the readings of a sensor, of MJCF or SDFormat by its kind; None for unknown kinds.

    Kinds that both formats have (contact, magnetometer, ...) are SDFormat's if the sensor is on a link or joint without
    an MJCF dimension.
    """
    is_sdf = sensor.target_kind in ("link", "joint") and mjcf.DIM not in sensor.settings
    if sensor.kind in SDF_READING_FACTORIES and (is_sdf or sensor.kind not in MJCF_READING_FACTORIES):
        return SDF_READING_FACTORIES[sensor.kind]
    return MJCF_READING_FACTORIES.get(sensor.kind)


def _unique_sensor_names(ctx: BuildContext, rows: list[_SensorRow]) -> list[str]:
    """Names of the sensors, prefixed by the entity if several entities use the same name, and made unique."""
    names = [row.sensor.name or row.sensor.kind for row in rows]
    entities_of_name: dict[str, set[int]] = {}
    for name, row in zip(names, rows, strict=True):
        entities_of_name.setdefault(name, set()).add(row.entity)
    used: set[str] = set()
    return [
        unique_name(f"{ctx.entities[row.entity].name}/{name}" if len(entities_of_name[name]) > 1 else name, used)
        for name, row in zip(names, rows, strict=True)
    ]


def _channel_ranges(readings: list[ReadingRecord]) -> dict[str, tuple[int, int]]:
    """Range (start, end) of the values of each named channel within a sensor."""
    result, start = {}, 0
    for reading in readings:
        if reading.channel:
            result[reading.channel] = (start, start + reading.dim)
        start += reading.dim
    return result


def _noise_models_of_values(sensor: Sensor, reading: ReadingRecord) -> list[NoiseModel]:
    """Error model of each value of a reading; by default Gaussian noise of the sensor's standard deviation."""
    models = list(reading.noise_models) or [NoiseModel(noise=sensor.noise)]
    return models * reading.dim if len(models) == 1 else models


def _pack_readings(rows: list[_SensorRow], readings: list[ReadingRecord]) -> ReadingsInfo:
    """Table of all readings: frames, targets, parameters, cutoffs, and the start of their values."""
    n = len(readings)
    starts = np.cumsum([0, *(reading.dim for reading in readings)])[:-1]
    frames: list[tuple[AttachmentFrame, AttachmentFrame]] = [
        (reading.frame, reading.reference_frame or AttachmentFrame(-1, Pose())) for reading in readings
    ]
    sensors = [row.sensor for row in rows for _ in row.readings]
    return ReadingsInfo(
        kinds=[reading.kind for reading in readings],
        start=_int_array(starts),
        dim=_int_array([reading.dim for reading in readings]),
        frame_idx=_int_array([[frame.frame_idx for frame in frame_pair] for frame_pair in frames]).reshape(n, 2),
        pos=np.array([[frame.pose.position for frame in frame_pair] for frame_pair in frames], np.float64).reshape(
            n, 2, 3
        ),
        rot=np.array([[frame.pose.rotation for frame in frame_pair] for frame_pair in frames], np.float64).reshape(
            n, 2, 3, 3
        ),
        has_reference=np.array([reading.reference_frame is not None for reading in readings], np.bool_),
        target_idx=_int_array([reading.target_idx for reading in readings]),
        params=[reading.params for reading in readings],
        options=[reading.options for reading in readings],
        contact_filters=[reading.contact_filters for reading in readings],
        cutoff=np.array([_cutoff(frame) for frame in sensors], np.float64),
        positive=np.array(
            [_is_positive(frame, reading) for frame, reading in zip(sensors, readings, strict=True)], np.bool_
        ),
    )


def _cutoff(sensor: Sensor) -> float:
    """Cutoff of a sensor; 0 (none) for unit vectors and quaternions."""
    return 0.0 if sensor.settings.get(mjcf.DATATYPE) in ("axis", "quaternion") else sensor.cutoff


def _is_positive(sensor: Sensor, reading: ReadingRecord) -> bool:
    """Whether the values of a reading are never negative, by MJCF `datatype` or else by its kind."""
    datatype = sensor.settings.get(mjcf.DATATYPE)
    return reading.positive if datatype is None else datatype == "positive"


def _magnetic_field(ctx: BuildContext) -> Array:
    """Magnetic field of the world [T], shape (3,): of the first file that has one, else MuJoCo's default."""
    for spec in ctx.entities:
        value = merged_options(spec.description).get("magnetic", world_magnetic_field(spec.description))
        if value is not None:
            return np.array(value, np.float64)
    return np.array(OPTION_DEFAULTS["magnetic"], np.float64)
