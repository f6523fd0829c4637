"""Registry of sensor families by output kind, and the evaluation of all outputs of a model."""

from __future__ import annotations

from collections.abc import Callable

from kinema.core import InternalError

from ..step import StepData
from . import (
    contact_sensors,
    distance_sensors,
    force_torque_sensors,
    frame_sensors,
    joint_tendon_sensors,
    rangefinders,
    system_sensors,
)
from .sensor_outputs import SensorOutputs

SensorFamily = Callable[[StepData, SensorOutputs, list[int]], None]

UNMEASURED_KINDS = ("nothing", "user")
"""Kinds of outputs that are never written."""

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
    (system_sensors.SUBTREE_KINDS, system_sensors.measure_subtrees),
    (force_torque_sensors.KINDS, force_torque_sensors.measure_force_torque),
    (("touch",), contact_sensors.measure_touch),
    (contact_sensors.CONTACT_KINDS, contact_sensors.measure_contacts),
    (("insidesite",), frame_sensors.measure_inside_site),
    (rangefinders.RANGEFINDER_KINDS, rangefinders.measure_ranges),
    (distance_sensors.DISTANCE_KINDS, distance_sensors.measure_distances),
    (system_sensors.SYSTEM_KINDS, system_sensors.measure_clock_and_energy),
]
"""Kinds of outputs -> function that traces all outputs of these kinds."""


def evaluate_sensors(data: StepData) -> None:
    """Trace the evaluation of all sensor outputs of the model; each family writes the outputs of its kinds."""
    outputs = SensorOutputs(data.ctx)
    known = {kind for kinds, _ in SENSOR_FAMILIES for kind in kinds} | set(UNMEASURED_KINDS)
    unknown = sorted(set(outputs.info.kinds) - known)
    if unknown:
        raise InternalError(
            f"no function in `SENSOR_FAMILIES` measures outputs of kind {', '.join(map(repr, unknown))}"
        )
    for kinds, family in SENSOR_FAMILIES:
        output_indices = outputs.indices_of(*kinds)
        if output_indices:
            family(data, outputs, output_indices)
