"""Tables of sensors, of the outputs that each consists of, and of the geoms that ray sensors can hit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import numpy.typing as npt

from kinema.core import Array

from .kinematic_tree import Ints
from .table import Table

BVH_NODE_SIZE = 9
"""Values of a BVH node: lower and upper corner (6), skip index, first triangle, number of triangles."""
BVH_LEAF_TRIANGLES = 4
"""Maximum number of triangles of a BVH leaf."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SensorOutputsInfo(Table):
    """One row for each measured quantity (output); a sensor has one output, or several (an IMU)."""

    kinds: Sequence[str]
    """Kind of the output, as listed in `dynamics/sensors/registry.py`."""
    start: Ints
    """Index of the first value among the values of all sensors."""
    dim: Ints
    """Number of values."""
    frame_idx: Ints
    """Moving frames of the object and of the reference; -1 for the world, (n, 2)."""
    pos: Array
    """Positions of object and reference in their moving frames [m], (n, 2, 3)."""
    rot: Array
    """Orientations of object and reference in their moving frames, (n, 2, 3, 3)."""
    has_reference: npt.NDArray[np.bool_]
    """Whether the quantity is relative to the reference, not to the world."""
    target_idx: Ints
    """Coordinate, dof, actuator, tendon or link that is measured; -1 for none."""
    params: Sequence[tuple[float, ...]]
    """Numeric parameters of the kind."""
    options: Sequence[tuple[str, ...]]
    """Text options of the kind, which select code."""
    contact_filters: Sequence[tuple[str, ...]]
    """Filters of the two sides of a contact sensor: scope (`any`, `link`, `tree`, `shape`), link index and geom
    name."""
    cutoff: Array
    """Values are clamped to at most the cutoff, and at least its negative unless `positive`; 0 for no cutoff."""
    positive: npt.NDArray[np.bool_]
    """Whether values are never negative."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RayGeomsInfo(Table):
    """One row for each geom that rays can hit; empty if no sensor casts rays."""

    types: Sequence[str]
    """One of `GEOM_TYPES` each; a mesh consists of its triangles."""
    visual: npt.NDArray[np.bool_]
    collision: npt.NDArray[np.bool_]
    """Whether the geom is a visual geom, and whether it is a collision geom."""
    link_idx: Ints
    """-1 for the world."""
    frame_idx: Ints
    """Moving frame; -1 for the world."""
    pos: Array
    """Position in the moving frame [m], (n, 3)."""
    rot: Array
    """Orientation in the moving frame, (n, 3, 3)."""
    size: Array
    """As `GeomsInfo.size`; of a plane the half extents as rendered, infinite if unbounded [m], (n, 3)."""
    center: Array
    """Centre of the bounding sphere in geom coordinates [m], (n, 3)."""
    radius: Array
    """Radius of the bounding sphere [m]."""
    data_start: Ints
    """Offset of the mesh or height field in `data`."""
    data_counts: Ints
    """BVH nodes and triangles of a mesh; rows and columns of a height field, (n, 2)."""
    data: Array
    """Packed data of meshes (BVH nodes, triangles), height fields and ray directions."""


@cache
def empty_ray_geoms() -> RayGeomsInfo:
    """Table, without rows, of the geoms that rays of rangefinders and lidars can hit."""
    none = np.zeros(0, np.int32)
    return RayGeomsInfo(
        types=[],
        visual=np.zeros(0, np.bool_),
        collision=np.zeros(0, np.bool_),
        link_idx=none,
        frame_idx=none,
        pos=np.zeros((0, 3)),
        rot=np.zeros((0, 3, 3)),
        size=np.zeros((0, 3)),
        center=np.zeros((0, 3)),
        radius=np.zeros(0),
        data_start=none,
        data_counts=np.zeros((0, 2), np.int32),
        data=np.zeros(0),
    )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DistanceGeomsInfo(Table):
    """One row for each geom between which distance sensors measure; empty if there are none."""

    types: Sequence[str]
    """One of `GEOM_TYPES` each."""
    frame_idx: Ints
    """Moving frame; -1 for the world."""
    pos: Array
    """Position in the moving frame [m], (n, 3)."""
    rot: Array
    """Orientation in the moving frame, (n, 3, 3)."""
    size: Array
    """As `GeomsInfo.size` [m], (n, 3)."""
    radius: Array
    """Radius of a sphere about the origin of the geom that contains it [m]."""
    data_start: Ints
    """Offset of the packed data in `data`."""
    data_counts: Ints
    """As `GeomsInfo.data_counts`, (n, 2)."""
    data: Array
    """Packed data of meshes, height fields and signed distance fields."""


@cache
def empty_distance_geoms() -> DistanceGeomsInfo:
    """Table, without rows, of the geoms between which distance sensors measure."""
    none = np.zeros(0, np.int32)
    return DistanceGeomsInfo(
        types=[],
        frame_idx=none,
        pos=np.zeros((0, 3)),
        rot=np.zeros((0, 3, 3)),
        size=np.zeros((0, 3)),
        radius=np.zeros(0),
        data_start=none,
        data_counts=np.zeros((0, 2), np.int32),
        data=np.zeros(0),
    )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SensorsInfo(Table):
    """One row for each sensor, in the order of the files (that of MuJoCo's `sensordata`)."""

    names: Sequence[str]
    kinds: Sequence[str]
    """Sensor types as named by the file format."""
    entity_idx: Ints
    start: Ints
    end: Ints
    """Range of the sensor's values among the values of all sensors."""
    channels: Sequence[Sequence[tuple[str, tuple[int, int]]]]
    """Channels of a sensor with several outputs: name and range of values, relative to the sensor's first value."""
    rate: Array
    """Update rate [Hz]; 0 for every step."""
    delay: Array
    """Delay of the output [s]."""
    noise: Array
    """Standard deviation of the white noise of each value, (n_values,)."""
    bias_mean: Array
    bias_std: Array
    """Mean and standard deviation of the constant bias of each value, drawn once per environment, (n_values,)."""
    resolution: Array
    """Quantisation step of each value; 0 for none, (n_values,)."""
    outputs: SensorOutputsInfo
    ray_geoms: RayGeomsInfo = field(default_factory=empty_ray_geoms)
    distance_geoms: DistanceGeomsInfo = field(default_factory=empty_distance_geoms)
    magnetic_field: Array = field(default_factory=lambda: np.zeros(3))
    """Magnetic field in world axes [T], (3,)."""

    @property
    def n_values(self) -> int:
        """Number of values of all sensors."""
        return len(self.noise)


@cache
def empty_sensors() -> SensorsInfo:
    """Table of a model without sensors."""
    no_indices, no_values = np.zeros(0, np.int32), np.zeros(0)
    return SensorsInfo(
        names=[],
        kinds=[],
        entity_idx=no_indices,
        start=no_indices,
        end=no_indices,
        channels=[],
        rate=no_values,
        delay=no_values,
        noise=no_values,
        bias_mean=no_values,
        bias_std=no_values,
        resolution=no_values,
        outputs=SensorOutputsInfo(
            kinds=[],
            start=no_indices,
            dim=no_indices,
            frame_idx=np.zeros((0, 2), np.int32),
            pos=np.zeros((0, 2, 3)),
            rot=np.zeros((0, 2, 3, 3)),
            has_reference=np.zeros(0, np.bool_),
            target_idx=no_indices,
            params=[],
            options=[],
            contact_filters=[],
            cutoff=no_values,
            positive=np.zeros(0, np.bool_),
        ),
    )
