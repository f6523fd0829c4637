"""Sensors: what they measure, in the order of their files; what cannot be simulated is reported and tells zeros."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinema.description import OPTION_DEFAULTS, Sensor, is_switched_on
from kinema.foundation import Array, Pose, unique_name
from kinema.model import ActuatorsInfo, ReadingsInfo, SensorsInfo
from kinema.words import mjcf

from .draft import Body, Draft, Spot
from .find import all_of
from .options import all_options
from .ray_shapes import pack_ray_shapes
from .sensor_draft import DraftReading, Flaw, Looking
from .sensor_kinds import MJCF, Maker, Unable
from .sensors_sdf import SDF, field_of_world


@dataclass(slots=True, eq=False)
class _Row:
    looking: Looking
    readings: list[DraftReading]

    @property
    def sensor(self) -> Sensor:
        return self.looking.sensor

    @property
    def entity(self) -> int:
        return self.looking.entity

    @property
    def width(self) -> int:
        return sum(r.width for r in self.readings)


def pack_sensors(draft: Draft, actuators: ActuatorsInfo, owners: list[int]) -> SensorsInfo:
    """All sensors of all parts."""
    directions: list[Array] = []
    rows: list[_Row] = []
    for entity, part in enumerate(draft.parts):
        own: list[Sensor] = all_of(part.description, "sensors")
        is_on = is_switched_on(all_options(part.description), mjcf.SENSOR)
        if own and not is_on:
            message = f'the sensors of "{part.name}" tell zeros, as its file asks for (the flag sensor)'
            draft.diagnostics.note("sim.sensors-off", message, origin=part.description.origin)
        for sensor in sorted(own, key=lambda s: math.inf if s.order is None else s.order):
            looking = Looking(draft, entity, sensor, actuators, owners, directions)
            rows.append(_Row(looking, _readings(looking) if is_on else [_nothing(sensor)]))
    readings = [r for row in rows for r in row.readings]
    flaws = [flaw for row in rows for r in row.readings for flaw in _flaws(row.sensor, r)]
    _say_that_they_are_ideal(draft, rows, flaws)
    for row in rows:
        _warn_of_pulls(draft, row)
        if (*row.sensor.settings.get(mjcf.HISTORY, ()), 0, 0)[1]:
            message = f'sensor "{row.sensor.name}" tells what it measured last, not what would have been in between'
            draft.diagnostics.warning("sim.sensor-part", message, origin=row.sensor.origin)
    ends = np.cumsum([0, *(row.width for row in rows)])
    return SensorsInfo(
        names=_names(draft, rows),
        kinds=[row.sensor.kind for row in rows],
        entity_idx=_ints([row.entity for row in rows]),
        start=_ints(ends[:-1]),
        end=_ints(ends[1:]),
        parts=[_parts(row.readings) for row in rows],
        rate=np.array([row.sensor.update_rate for row in rows], np.float64),
        delay=np.array([_delay(row.sensor) for row in rows], np.float64),
        noise=np.array([f.noise for f in flaws], np.float64),
        bias_mean=np.array([f.bias_mean for f in flaws], np.float64),
        bias_std=np.array([f.bias_std for f in flaws], np.float64),
        resolution=np.array([f.resolution for f in flaws], np.float64),
        readings=_packed(rows, readings),
        rays=pack_ray_shapes(draft, directions),
        magnetic_field=_magnetic_field(draft),
    )


def _delay(sensor: Sensor) -> float:
    return float(sensor.settings.get(mjcf.DELAY, 0.0))


def _say_that_they_are_ideal(draft: Draft, rows: list[_Row], flaws: list[Flaw]) -> None:
    """Files may ask for noise, and for sensors that measure seldom or tell late: that is there when it is asked for."""
    noisy = any(f.noise or f.bias_mean or f.bias_std or f.resolution for f in flaws)
    if noisy or any(row.sensor.update_rate or _delay(row.sensor) for row in rows):
        message = "sensors tell what is, at every step, without the noise, rate and delay that files give them"
        draft.diagnostics.note("sim.ideal-sensors", message, hint="scene.sensors.as_files_say() for these")


def _warn_of_pulls(draft: Draft, row: _Row) -> None:
    """Say where a sensor of forces does not know of all that pulls on what it carries, on a link that is fixed."""
    link = next((r.item for r in row.readings if r.kind in ("force", "torque")), -1)
    if link < 0:
        return
    body = draft.bodies[link]
    if body.parent is None or body.frame != body.parent.frame:
        return
    own = {body.index for body in draft.bodies if _hangs_on(body, link)}
    if any(len({link in own for link in links}) > 1 for links in row.looking.links_of_tendons()):
        message = f'sensor "{row.sensor.name}" does not know what tendons pull between what it carries and the rest'
        draft.diagnostics.warning("sim.sensor-part", message, origin=row.sensor.origin)


def _hangs_on(body: Body, link: int) -> bool:
    above: Body | None = body
    while above is not None and above.index != link:
        above = above.parent
    return above is not None


def _ints(values: object) -> npt.NDArray[np.int32]:
    return np.array(values, dtype=np.int32)


def _readings(looking: Looking) -> list[DraftReading]:
    """What a sensor measures; where that cannot be simulated, zeros in the places that it has."""
    sensor, maker = looking.sensor, maker_of(looking.sensor)
    try:
        if maker is None:
            raise Unable(f"there is no sensor of kind {sensor.kind!r} in this simulation")
        return maker(looking)
    except Unable as reason:
        width = int(sensor.settings.get(mjcf.DIM, 0))
        told = f"it tells {width} zero{'s' * (width != 1)}" if width else "it tells nothing"
        message = f'sensor "{sensor.name}" ({sensor.kind}) is not simulated: {reason}; {told}'
        looking.draft.diagnostics.warning("sim.sensor", message, origin=sensor.origin)
        return [_nothing(sensor)]


def _nothing(sensor: Sensor) -> DraftReading:
    """Zeros, in the place that a sensor has."""
    return DraftReading("nothing", int(sensor.settings.get(mjcf.DIM, 0)))


def maker_of(sensor: Sensor) -> Maker | None:
    """What finds out what a sensor measures; some words mean something else in SDFormat, where links hold sensors."""
    held = sensor.target_kind in ("link", "joint") and mjcf.DIM not in sensor.settings
    if sensor.kind in SDF and (held or sensor.kind not in MJCF):
        return SDF[sensor.kind]
    return MJCF.get(sensor.kind)


def _names(draft: Draft, rows: list[_Row]) -> list[str]:
    """As in the files; after its entity where several entities have the same, and made unique."""
    said = [row.sensor.name or row.sensor.kind for row in rows]
    homes: dict[str, set[int]] = {}
    for name, row in zip(said, rows, strict=True):
        homes.setdefault(name, set()).add(row.entity)
    taken: set[str] = set()
    return [
        unique_name(f"{draft.parts[row.entity].name}/{name}" if len(homes[name]) > 1 else name, taken)
        for name, row in zip(said, rows, strict=True)
    ]


def _parts(readings: list[DraftReading]) -> dict[str, tuple[int, int]]:
    result, start = {}, 0
    for reading in readings:
        if reading.part:
            result[reading.part] = (start, start + reading.width)
        start += reading.width
    return result


def _flaws(sensor: Sensor, reading: DraftReading) -> list[Flaw]:
    """Of each number of a reading."""
    own = list(reading.flaws) or [Flaw(noise=sensor.noise)]
    return own * reading.width if len(own) == 1 else own


def _packed(rows: list[_Row], readings: list[DraftReading]) -> ReadingsInfo:
    n = len(readings)
    starts = np.cumsum([0, *(r.width for r in readings)])[:-1]
    spots: list[tuple[Spot, Spot]] = [(r.at, r.seen_from or Spot(-1, Pose())) for r in readings]
    owners = [row.sensor for row in rows for _ in row.readings]
    return ReadingsInfo(
        kinds=[r.kind for r in readings],
        start=_ints(starts),
        width=_ints([r.width for r in readings]),
        frame_idx=_ints([[s.frame for s in pair] for pair in spots]).reshape(n, 2),
        pos=np.array([[s.pose.position for s in pair] for pair in spots], np.float64).reshape(n, 2, 3),
        rot=np.array([[s.pose.rotation for s in pair] for pair in spots], np.float64).reshape(n, 2, 3, 3),
        relative=np.array([r.seen_from is not None for r in readings], np.bool_),
        item=_ints([r.item for r in readings]),
        numbers=[r.numbers for r in readings],
        words=[r.words for r in readings],
        about=[r.about for r in readings],
        cutoff=np.array([_cutoff(s) for s in owners], np.float64),
        positive=np.array([_is_positive(s, r) for s, r in zip(owners, readings, strict=True)], np.bool_),
    )


def _cutoff(sensor: Sensor) -> float:
    """Directions and rotations are never cut off."""
    return 0.0 if sensor.settings.get(mjcf.DATATYPE) in ("axis", "quaternion") else sensor.cutoff


def _is_positive(sensor: Sensor, reading: DraftReading) -> bool:
    """As its file says, else as its kind is."""
    said = sensor.settings.get(mjcf.DATATYPE)
    return reading.positive if said is None else said == "positive"


def _magnetic_field(draft: Draft) -> Array:
    """As the first file says that says it, else MuJoCo's own."""
    for part in draft.parts:
        said = all_options(part.description).get("magnetic", field_of_world(part.description))
        if said is not None:
            return np.array(said, np.float64)
    return np.array(OPTION_DEFAULTS["magnetic"], np.float64)
