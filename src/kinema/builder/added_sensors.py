"""Outputs of sensors that users add to a scene."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from kinema.description import Sensor

from .sdf_sensors import make_navsat_outputs
from .sensor_outputs import (
    MAX_RANGE,
    SensorContext,
    SensorOutputFactory,
    SensorOutputRecord,
    make_ray_output,
    require_frame,
)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class AddedSensor:
    """A sensor that was added to a scene; its values follow those of the sensors of all files."""

    kind: str
    """Sensor type, such as `imu`."""
    name: str
    """Name of the sensor, unless a sensor of a file has the name: then a number is appended."""
    entity: int
    """Entity in which the names of targets are looked up."""
    reference_entity: int
    """Entity in which the names of references are looked up."""
    components: Mapping[str, Sensor] = field(default_factory=dict)
    """Measured quantities, as sensors of MJCF or SDFormat or of a kind of `ADDED_OUTPUT_FACTORIES`, by component name;
    an empty name for a sensor with a single quantity."""


def _range_outputs(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Output of the distances along the rays of the setting `directions`: `inf` beyond the range, `-inf` below it."""
    sensor, frame = (
        sensor_ctx.sensor,
        require_frame(sensor_ctx.target_frame(), f'its link "{sensor_ctx.sensor.target}"'),
    )
    lower, upper = sensor.settings["range"]
    output = SensorOutputRecord(
        "rays", 0, frame.attachment, target_idx=frame.link_idx, params=(lower, min(upper, MAX_RANGE))
    )
    directions = np.asarray(sensor.settings["directions"], np.float64)
    return [make_ray_output(sensor_ctx, output, directions, ("inf", *sensor.settings.get("hits", ())))]


def _navsat_outputs(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Outputs of a satellite navigation receiver with the origin of the setting `origin`."""
    return make_navsat_outputs(sensor_ctx, sensor_ctx.sensor.settings["origin"])


ADDED_OUTPUT_FACTORIES: dict[str, SensorOutputFactory] = {"ranges": _range_outputs, "navsat of scene": _navsat_outputs}
"""Functions that make the outputs of measured quantities that no file format has in this form, by kind."""
