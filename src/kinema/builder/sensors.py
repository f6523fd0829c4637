"""Tables of sensors and of their outputs, in the order of the files (MuJoCo's `sensordata`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kinema.core import Array, KinemaError, Pose, unique_name
from kinema.description import OPTION_DEFAULTS, Sensor, is_flag_enabled
from kinema.model import SENSOR_KINDS, ActuatorsInfo, SensorOutputsInfo, SensorsInfo
from kinema.tokens import mjcf

from .added_sensors import ADDED_OUTPUT_FACTORIES, AddedSensor
from .context import AttachmentFrame, BuildContext, LinkRecord, all_elements
from .distance_geoms import DistanceGeoms
from .options import merged_options
from .ray_geoms import pack_ray_geoms
from .sdf_sensors import SDF_OUTPUT_FACTORIES, world_magnetic_field
from .sensor_outputs import (
    MJCF_OUTPUT_FACTORIES,
    NoiseModel,
    SensorContext,
    SensorOutputFactory,
    SensorOutputRecord,
    UnsupportedSensorError,
    declared_output,
)


@dataclass(slots=True, eq=False)
class _SensorRow:
    """One row of the table of sensors, with its outputs."""

    context: SensorContext
    outputs: list[SensorOutputRecord]

    @property
    def sensor(self) -> Sensor:
        return self.context.sensor

    @property
    def entity(self) -> int:
        return self.context.entity

    @property
    def dim(self) -> int:
        return sum(r.dim for r in self.outputs)


def pack_sensors(
    ctx: BuildContext, actuators: ActuatorsInfo, actuator_entities: list[int], added: Sequence[AddedSensor] = ()
) -> SensorsInfo:
    """Table of all sensors of all entities: their outputs (measured quantities), error models, rates and delays.

    Values follow in the order of the files, then those of added sensors. Sensors of files that cannot be simulated, or
    are disabled by flag, return zeros and are reported; `KinemaError` for added ones. `actuators` and
    `actuator_entities` resolve actuator sensors.
    """
    directions: list[Array] = []
    distance_geoms = DistanceGeoms()
    rows: list[_SensorRow] = []
    for entity, spec in enumerate(ctx.entities):
        sensors: list[Sensor] = all_elements(spec.description, "sensors")
        is_enabled = is_flag_enabled(merged_options(spec.description), mjcf.SENSOR)
        if sensors and not is_enabled:
            message = f'the sensors of "{spec.name}" return zeros, as its file disables them (flag sensor)'
            ctx.diagnostics.note("sim.sensors-off", message, origin=spec.description.origin)
        for sensor in sensors:
            sensor_ctx = SensorContext(ctx, entity, sensor, actuators, actuator_entities, directions, distance_geoms)
            rows.append(_SensorRow(sensor_ctx, _make_outputs(sensor_ctx) if is_enabled else [_zero_output(sensor)]))
    n_of_files = len(rows)
    for item in added:
        sensor_ctx = SensorContext(
            ctx,
            item.entity,
            Sensor(kind=item.kind, name=item.name),
            actuators,
            actuator_entities,
            directions,
            distance_geoms,
        )
        rows.append(_SensorRow(sensor_ctx, _make_added_outputs(sensor_ctx, item)))
    outputs = [output for row in rows for output in row.outputs]
    noise_models = [
        noise_model
        for row in rows
        for output in row.outputs
        for noise_model in _noise_models_of_values(row.sensor, output)
    ]
    _note_ideal_sensors(ctx, rows, noise_models)
    for row in rows:
        _warn_of_ignored_tendon_forces(ctx, row)
        if (*row.sensor.settings.get(mjcf.HISTORY, ()), 0, 0)[1]:
            message = f'sensor "{row.sensor.name}" returns its last measurement: interpolation is not simulated'
            ctx.diagnostics.warning("sim.sensor-part", message, origin=row.sensor.origin)
    ends = np.cumsum([0, *(row.dim for row in rows)])
    return SensorsInfo(
        names=_unique_sensor_names(ctx, rows, n_of_files),
        kinds=[row.sensor.kind for row in rows],
        entity_idx=_int_array([row.entity for row in rows]),
        start=_int_array(ends[:-1]),
        end=_int_array(ends[1:]),
        channels=[tuple(_channel_ranges(row.outputs).items()) for row in rows],
        rate=np.array([row.sensor.update_rate for row in rows], np.float64),
        delay=np.array([_delay(row.sensor) for row in rows], np.float64),
        noise=np.array([model.noise for model in noise_models], np.float64),
        bias_mean=np.array([model.bias_mean for model in noise_models], np.float64),
        bias_std=np.array([model.bias_std for model in noise_models], np.float64),
        resolution=np.array([model.resolution for model in noise_models], np.float64),
        outputs=_pack_outputs(rows, outputs),
        ray_geoms=pack_ray_geoms(ctx, directions),
        distance_geoms=distance_geoms.pack(),
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
    link = next((r.target_idx for r in row.outputs if r.kind in ("force", "torque")), -1)
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


def _make_outputs(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Outputs (measured quantities) of a sensor; zeros of the same size, with a warning, if it cannot be simulated."""
    sensor, factory = sensor_ctx.sensor, output_factory(sensor_ctx.sensor)
    try:
        if factory is None:
            raise UnsupportedSensorError(f"sensors of kind {sensor.kind!r} are not supported")
        return factory(sensor_ctx)
    except UnsupportedSensorError as error:
        dim = int(sensor.settings.get(mjcf.DIM, 0))
        consequence = f"it returns {dim} zero{'s' * (dim != 1)}" if dim else "it returns no values"
        message = f'sensor "{sensor.name}" ({sensor.kind}) is not simulated: {error}; {consequence}'
        sensor_ctx.build.diagnostics.warning("sim.sensor", message, origin=sensor.origin)
        return [_zero_output(sensor)]


def _zero_output(sensor: Sensor) -> SensorOutputRecord:
    """Output of zeros with the dimension of a sensor."""
    return SensorOutputRecord("nothing", int(sensor.settings.get(mjcf.DIM, 0)))


def output_factory(sensor: Sensor) -> SensorOutputFactory | None:
    """Function that makes the outputs of a sensor, of MJCF or SDFormat by its kind; None for unknown kinds.

    Kinds that both formats have (contact, magnetometer, ...) are SDFormat's if the sensor is on a link or joint without
    an MJCF dimension.
    """
    is_sdf = sensor.target_kind in ("link", "joint") and mjcf.DIM not in sensor.settings
    mjcf_factory = declared_output if sensor.kind in SENSOR_KINDS else MJCF_OUTPUT_FACTORIES.get(sensor.kind)
    if sensor.kind in SDF_OUTPUT_FACTORIES and (is_sdf or mjcf_factory is None):
        return SDF_OUTPUT_FACTORIES[sensor.kind]
    return mjcf_factory


def _make_added_outputs(sensor_ctx: SensorContext, item: AddedSensor) -> list[SensorOutputRecord]:
    """Outputs of all components of an added sensor; `KinemaError` if it cannot be simulated."""
    outputs: list[SensorOutputRecord] = []
    for channel, sensor in item.components.items():
        part_ctx = replace(sensor_ctx, sensor=sensor, reference_entity=item.reference_entity)
        factory = ADDED_OUTPUT_FACTORIES.get(sensor.kind) or output_factory(sensor)
        try:
            parts = [] if factory is None else factory(part_ctx)
        except UnsupportedSensorError as error:
            raise KinemaError(f'add_sensor: sensor "{item.name}": {error}') from None
        for output in parts:
            output.channel = channel or output.channel
        outputs += parts
    return outputs


def _unique_sensor_names(ctx: BuildContext, rows: list[_SensorRow], n_of_files: int) -> list[str]:
    """Unique names of the sensors; for files with the entity's name as prefix if several entities use a name."""
    names = [row.sensor.name or row.sensor.kind for row in rows]
    entities_of_name: dict[str, set[int]] = {}
    for name, row in zip(names[:n_of_files], rows, strict=False):
        entities_of_name.setdefault(name, set()).add(row.entity)
    used: set[str] = set()
    return [
        unique_name(f"{ctx.entities[row.entity].name}/{name}" if needs_prefix else name, used)
        for i, (name, row) in enumerate(zip(names, rows, strict=True))
        for needs_prefix in [i < n_of_files and len(entities_of_name[name]) > 1]
    ]


def _channel_ranges(outputs: list[SensorOutputRecord]) -> dict[str, tuple[int, int]]:
    """Range (start, end) of the values of each named channel or field within a sensor."""
    result, start = {}, 0
    for output in outputs:
        if output.channel:
            result[output.channel] = (start, start + output.dim)
        ends = start + np.cumsum([0, *(width for _, width in output.fields)])
        result |= {name: (int(a), int(b)) for (name, _), a, b in zip(output.fields, ends, ends[1:], strict=False)}
        start += output.dim
    return result


def _noise_models_of_values(sensor: Sensor, output: SensorOutputRecord) -> list[NoiseModel]:
    """Error model of each value of an output; by default Gaussian noise of the sensor's standard deviation."""
    models = list(output.noise_models) or [NoiseModel(noise=sensor.noise)]
    return models * output.dim if len(models) == 1 else models


def _pack_outputs(rows: list[_SensorRow], outputs: list[SensorOutputRecord]) -> SensorOutputsInfo:
    """Table of all sensor outputs: kinds, frames, targets, parameters, cutoffs, and index of their first value."""
    n = len(outputs)
    starts = np.cumsum([0, *(output.dim for output in outputs)])[:-1]
    frames: list[tuple[AttachmentFrame, AttachmentFrame]] = [
        (output.frame, output.reference_frame or AttachmentFrame(-1, Pose())) for output in outputs
    ]
    sensors = [row.sensor for row in rows for _ in row.outputs]
    return SensorOutputsInfo(
        kinds=[output.kind for output in outputs],
        start=_int_array(starts),
        dim=_int_array([output.dim for output in outputs]),
        frame_idx=_int_array([[frame.frame_idx for frame in frame_pair] for frame_pair in frames]).reshape(n, 2),
        pos=np.array([[frame.pose.position for frame in frame_pair] for frame_pair in frames], np.float64).reshape(
            n, 2, 3
        ),
        rot=np.array([[frame.pose.rotation for frame in frame_pair] for frame_pair in frames], np.float64).reshape(
            n, 2, 3, 3
        ),
        has_reference=np.array([output.reference_frame is not None for output in outputs], np.bool_),
        target_idx=_int_array([output.target_idx for output in outputs]),
        params=[output.params for output in outputs],
        options=[output.options for output in outputs],
        contact_filters=[output.contact_filters for output in outputs],
        cutoff=np.array([_cutoff(frame) for frame in sensors], np.float64),
        positive=np.array(
            [_is_positive(frame, output) for frame, output in zip(sensors, outputs, strict=True)], np.bool_
        ),
    )


def _cutoff(sensor: Sensor) -> float:
    """Cutoff of a sensor; 0 (none) for unit vectors and quaternions."""
    return 0.0 if sensor.settings.get(mjcf.DATATYPE) in ("axis", "quaternion") else sensor.cutoff


def _is_positive(sensor: Sensor, output: SensorOutputRecord) -> bool:
    """Whether the values of an output are never negative, by MJCF `datatype` or else by its kind."""
    datatype = sensor.settings.get(mjcf.DATATYPE)
    return output.positive if datatype is None else datatype == "positive"


def _magnetic_field(ctx: BuildContext) -> Array:
    """Magnetic field of the world [T], shape (3,): of the first file that has one, else MuJoCo's default."""
    for spec in ctx.entities:
        value = merged_options(spec.description).get("magnetic", world_magnetic_field(spec.description))
        if value is not None:
            return np.array(value, np.float64)
    return np.array(OPTION_DEFAULTS["magnetic"], np.float64)
