"""Table of the sensor kinds with one output of a frame, of a link or of the whole system.

The builder makes the output of such a sensor from its entry, and `dynamics` traces the function that the entry names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class SensorTarget(StrEnum):
    """Object that a sensor measures."""

    FRAME = "frame"
    """A frame attached to a link or to the world: site, camera, shape or link frame."""
    LINK = "link"
    """A link, given by itself or by a frame on it."""
    SYSTEM = "system"
    """All moving bodies; the sensor names no object."""


@dataclass(frozen=True, slots=True)
class SensorKind:
    """Declaration of a sensor kind with one output."""

    target: SensorTarget
    dim: int
    """Number of values."""
    measure: Callable[..., None] | str
    """Function that traces all outputs of the kind (`SensorFamily`), or its `module:name` in `dynamics.sensors`."""
    positive: bool = False
    """Whether values are never negative."""

    def load(self, resolve: Callable[[str], Any]) -> Callable[..., None]:
        """The measuring function; `resolve` imports it by name."""
        return resolve(self.measure) if isinstance(self.measure, str) else self.measure


SENSOR_KINDS: dict[str, SensorKind] = {
    "magnetometer": SensorKind(SensorTarget.FRAME, 3, "frame_sensors:measure_positions"),
    "gyro": SensorKind(SensorTarget.FRAME, 3, "frame_sensors:measure_velocities"),
    "velocimeter": SensorKind(SensorTarget.FRAME, 3, "frame_sensors:measure_velocities"),
    "accelerometer": SensorKind(SensorTarget.FRAME, 3, "frame_sensors:measure_accelerations"),
    "force": SensorKind(SensorTarget.FRAME, 3, "force_torque_sensors:measure_force_torque"),
    "torque": SensorKind(SensorTarget.FRAME, 3, "force_torque_sensors:measure_force_torque"),
    "subtreecom": SensorKind(SensorTarget.LINK, 3, "system_sensors:measure_subtrees"),
    "subtreelinvel": SensorKind(SensorTarget.LINK, 3, "system_sensors:measure_subtrees"),
    "subtreeangmom": SensorKind(SensorTarget.LINK, 3, "system_sensors:measure_subtrees"),
    "clock": SensorKind(SensorTarget.SYSTEM, 1, "system_sensors:measure_clock_and_energy", positive=True),
    "e_potential": SensorKind(SensorTarget.SYSTEM, 1, "system_sensors:measure_clock_and_energy"),
    "e_kinetic": SensorKind(SensorTarget.SYSTEM, 1, "system_sensors:measure_clock_and_energy", positive=True),
}
"""Sensor kinds by name, MuJoCo's sensor type where MuJoCo has the sensor. Other sensors have output factories in the
builder and measuring functions in `dynamics/sensors/registry.py`."""
