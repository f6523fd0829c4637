"""Registry of sensor families by output kind, and the evaluation of all outputs of a model."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from kinema.core import InternalError
from kinema.model import SENSOR_KINDS

from ..step import StepData
from . import (
    contact_sensors,
    distance_sensors,
    frame_sensors,
    joint_tendon_sensors,
    rangefinders,
    tactile_sensors,
)
from .sensor_outputs import SensorOutputs

SensorFamily = Callable[[StepData, SensorOutputs, list[int]], None]

UNMEASURED_KINDS = ("nothing", "user")
"""Kinds of outputs that are never written."""

KINEMATIC_KINDS = {
    *UNMEASURED_KINDS,
    *(*frame_sensors.POSITION_KINDS, *frame_sensors.ORIENTATION_KINDS, *frame_sensors.VELOCITY_KINDS, "insidesite"),
    *(*joint_tendon_sensors.JOINT_POSITION_KINDS, *joint_tendon_sensors.JOINT_VELOCITY_KINDS),
    *(*joint_tendon_sensors.ACTUATOR_LENGTH_KINDS, *joint_tendon_sensors.TENDON_LENGTH_KINDS),
    *(*rangefinders.RANGEFINDER_KINDS, *distance_sensors.DISTANCE_KINDS),
}
"""Kinds of outputs that are functions of positions and velocities only."""

SENSOR_FAMILIES: list[tuple[tuple[str, ...], SensorFamily]] = [
    (frame_sensors.POSITION_KINDS, frame_sensors.measure_positions),
    (frame_sensors.ORIENTATION_KINDS, frame_sensors.measure_orientations),
    (frame_sensors.VELOCITY_KINDS, frame_sensors.measure_velocities),
    (frame_sensors.ACCELERATION_KINDS, frame_sensors.measure_accelerations),
    (joint_tendon_sensors.JOINT_POSITION_KINDS, joint_tendon_sensors.measure_joint_positions),
    (joint_tendon_sensors.JOINT_VELOCITY_KINDS, joint_tendon_sensors.measure_joint_velocities),
    (("jointactuatorfrc",), joint_tendon_sensors.measure_joint_actuator_forces),
    (joint_tendon_sensors.ACTUATOR_LENGTH_KINDS, joint_tendon_sensors.measure_actuator_lengths),
    (joint_tendon_sensors.ACTUATOR_FORCE_KINDS, joint_tendon_sensors.measure_actuator_forces),
    (joint_tendon_sensors.TENDON_LENGTH_KINDS, joint_tendon_sensors.measure_tendon_lengths),
    (joint_tendon_sensors.JOINT_LIMIT_KINDS, joint_tendon_sensors.measure_joint_limits),
    (joint_tendon_sensors.TENDON_LIMIT_KINDS, joint_tendon_sensors.measure_tendon_limits),
    (("touch",), contact_sensors.measure_touch),
    (contact_sensors.CONTACT_KINDS, contact_sensors.measure_contacts),
    (("insidesite",), frame_sensors.measure_inside_site),
    (rangefinders.RANGEFINDER_KINDS, rangefinders.measure_ranges),
    (distance_sensors.DISTANCE_KINDS, distance_sensors.measure_distances),
    (tactile_sensors.TACTILE_KINDS, tactile_sensors.measure_tactile),
]
"""Kinds of outputs -> function that traces all outputs of these kinds, besides the kinds of `SENSOR_KINDS`."""


def evaluate_sensors(data: StepData) -> None:
    """Trace the evaluation of all sensor outputs of the model; each family writes the outputs of its kinds."""
    outputs, kinds_of_family = SensorOutputs(data.ctx), _kinds_of_families()
    known = {kind for kinds in kinds_of_family.values() for kind in kinds} | set(UNMEASURED_KINDS)
    unknown = sorted(set(outputs.info.kinds) - known)
    if unknown:
        raise InternalError(
            "no function in `SENSOR_KINDS` or `SENSOR_FAMILIES` measures outputs of kind "
            + ", ".join(map(repr, unknown))
        )
    for family, kinds in kinds_of_family.items():
        output_indices = outputs.indices_of(*kinds)
        if output_indices:
            family(data, outputs, output_indices)


def _kinds_of_families() -> dict[SensorFamily, list[str]]:
    """Kinds of outputs that each measuring function traces, from `SENSOR_FAMILIES` and `SENSOR_KINDS`."""
    kinds_of_family: dict[SensorFamily, list[str]] = {family: [*kinds] for kinds, family in SENSOR_FAMILIES}
    for kind, declaration in SENSOR_KINDS.items():
        kinds_of_family.setdefault(declaration.load(_import_family), []).append(kind)
    return kinds_of_family


def _import_family(name: str) -> SensorFamily:
    """Measuring function by its `module:name` in this package."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(f".{module}", __package__), function)
