"""What is measured: sensors as users name them, the readings they are made of, and what rays can hit."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kinema.foundation import Array

from .bodies import Ints

RAY_BOX = 9
"""Numbers of a box of a mesh that rays walk: two corners, where to go on past it, its first triangle, how many."""
RAY_LEAF = 4
"""Triangles in the last boxes, at most."""


@dataclass(kw_only=True, slots=True, eq=False)
class ReadingsInfo:
    """One row for each thing that is measured; a sensor is one of them, or several (an IMU)."""

    kinds: list[str]
    """What is measured: a name of `sim/sense/kinds.py`."""
    start: Ints
    """Where its numbers begin among those of all sensors."""
    width: Ints
    """How many there are."""
    frame_idx: Ints
    """The moving frames of what is looked at, and of what it is seen from; -1 for the world, (n, 2)."""
    pos: Array
    """Where these are there [m], (n, 2, 3)."""
    rot: Array
    """Their axes there, (n, 2, 3, 3)."""
    relative: npt.NDArray[np.bool_]
    """Whether it is seen from the second of the two, and not from the world."""
    item: Ints
    """The joint, degree of freedom, actuator, tendon or link that it is about; -1 for none."""
    numbers: list[tuple[float, ...]]
    """What else its kind wants to know."""
    words: list[tuple[str, ...]]
    """Likewise, in words: what decides which code it runs."""
    about: list[tuple[str, ...]]
    """What contacts it is about: `any`, or `link`, `tree` or `shape`, the number of a link, and a name."""
    cutoff: Array
    """Numbers are not above it, and where they may be negative not below its negative; 0 for no such bound."""
    positive: npt.NDArray[np.bool_]
    """Whether its numbers are never negative."""


@dataclass(kw_only=True, slots=True, eq=False)
class RayShapes:
    """One row for each shape that rays can hit; none where nothing casts any."""

    kinds: list[str]
    """One of `SHAPE_KINDS` each; a mesh is its triangles."""
    visual: npt.NDArray[np.bool_]
    collision: npt.NDArray[np.bool_]
    """Whether it is there to be seen, and to be touched."""
    link_idx: Ints
    """-1 for the world."""
    frame_idx: Ints
    pos: Array
    rot: Array
    size: Array
    """As of the shapes that touch; of a plane half the edges of what is drawn, infinite where it has no end."""
    center: Array
    radius: Array
    first_number: Ints
    counts: Ints
    """Boxes and triangles of a mesh; rows and columns of a height field, (n, 2)."""
    numbers: Array
    """What meshes and height fields are made of, and the directions of rays: one array for all."""


def no_ray_shapes() -> RayShapes:
    """Nothing to hit."""
    none = np.zeros(0, np.int32)
    return RayShapes(
        kinds=[],
        visual=np.zeros(0, np.bool_),
        collision=np.zeros(0, np.bool_),
        link_idx=none,
        frame_idx=none,
        pos=np.zeros((0, 3)),
        rot=np.zeros((0, 3, 3)),
        size=np.zeros((0, 3)),
        center=np.zeros((0, 3)),
        radius=np.zeros(0),
        first_number=none,
        counts=np.zeros((0, 2), np.int32),
        numbers=np.zeros(0),
    )


@dataclass(kw_only=True, slots=True, eq=False)
class SensorsInfo:
    """One row for each sensor, in the order of the files: that of MuJoCo's `sensordata`."""

    names: list[str]
    kinds: list[str]
    """The format's own words."""
    entity_idx: Ints
    start: Ints
    end: Ints
    """Its numbers among those of all."""
    parts: list[dict[str, tuple[int, int]]]
    """What these are, where a sensor measures several things: name -> first and last, counted from its own first."""
    rate: Array
    """How often it measures [Hz]; 0 for at every step."""
    delay: Array
    """How late it tells [s]."""
    noise: Array
    """Standard deviation of each number of all sensors, (n_numbers,)."""
    bias_mean: Array
    bias_std: Array
    """Of what is added to each number for good, drawn once for each environment, (n_numbers,)."""
    resolution: Array
    """What each number is a multiple of; 0 for any number, (n_numbers,)."""
    readings: ReadingsInfo
    rays: RayShapes = field(default_factory=no_ray_shapes)
    magnetic_field: Array = field(default_factory=lambda: np.zeros(3))
    """In the world [T], (3,)."""

    @property
    def n_numbers(self) -> int:
        """Of all sensors together."""
        return len(self.noise)


def no_sensors() -> SensorsInfo:
    """The table of a model without any."""
    none, nothing = np.zeros(0, np.int32), np.zeros(0)
    return SensorsInfo(
        names=[],
        kinds=[],
        entity_idx=none,
        start=none,
        end=none,
        parts=[],
        rate=nothing,
        delay=nothing,
        noise=nothing,
        bias_mean=nothing,
        bias_std=nothing,
        resolution=nothing,
        readings=ReadingsInfo(
            kinds=[],
            start=none,
            width=none,
            frame_idx=np.zeros((0, 2), np.int32),
            pos=np.zeros((0, 2, 3)),
            rot=np.zeros((0, 2, 3, 3)),
            relative=np.zeros(0, np.bool_),
            item=none,
            numbers=[],
            words=[],
            about=[],
            cutoff=nothing,
            positive=np.zeros(0, np.bool_),
        ),
    )
