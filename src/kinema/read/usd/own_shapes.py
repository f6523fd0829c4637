"""Shapes and surfaces as they were before USD had to be told them."""

from __future__ import annotations

import dataclasses

import numpy as np

from kinema.description import Ellipsoid, Geometry, HeightField, PhysicsMaterial, Plane
from kinema.foundation import Array, Pose
from kinema.words import ours, usd

from . import pxr
from .own_settings import own
from .polar import Affine, polar
from .stage_index import StageIndex

_CLOSE = 1e-5
"""Relative difference of extents up to which a stand-in is taken for what it stands for."""


def stood_for(index: StageIndex, prim: pxr.Prim, into_link: Affine) -> tuple[Geometry, Pose] | None:
    """What a mesh or a slab stands for; None where it is itself, was changed, or is scaled."""
    if index.values.stamp is None:
        return None
    kind = own(index, prim, ours.SOLID)
    numbers = own(index, prim, ours.SOLID_NUMBERS)
    if kind is None or numbers is None:
        return None
    values = np.array(numbers, dtype=np.float64)
    if str(kind) == ours.SOLID_PLANE:
        return _plane(values, into_link)
    turn, scale = polar(into_link.linear)
    size = float(np.trace(scale)) / 3
    extent = _extent(index, prim)
    if size <= 0 or np.abs(scale - size * np.eye(3)).max() > _CLOSE * size or extent is None:
        return None
    pose = Pose(into_link.offset, turn)
    size = 1.0 if abs(size - 1.0) < 1e-12 else size  # the rounding of transforms inside each other
    if str(kind) == ours.SOLID_ELLIPSOID and len(values) == 3 and np.allclose(extent, 2 * values, rtol=0.05):
        return Ellipsoid(values * size), pose
    if str(kind) == ours.SOLID_HEIGHT_FIELD and len(values) > 5:
        return _terrain(values, extent, size, pose)
    return None


def _extent(index: StageIndex, prim: pxr.Prim) -> Array | None:
    points = np.asarray(index.value(prim, usd.POINTS) or (), dtype=np.float64).reshape(-1, 3)
    return points.max(axis=0) - points.min(axis=0) if len(points) else None


def _plane(values: Array, into_link: Affine) -> tuple[Geometry, Pose] | None:
    """A slab whose upper face is the plane."""
    lengths = np.linalg.norm(into_link.linear, axis=0)
    if not lengths.all():
        return None
    turn = into_link.linear / lengths
    if np.linalg.det(turn) < 0 or np.abs(turn.T @ turn - np.eye(3)).max() > _CLOSE:
        return None
    surface = Pose(into_link.offset, turn) @ Pose.translation([0.0, 0.0, lengths[2] / 2])
    size = (float(lengths[0]), float(lengths[1])) if len(values) == 2 else None
    return Plane(size), surface


def _terrain(values: Array, extent: Array, size: float, pose: Pose) -> tuple[Geometry, Pose] | None:
    width, length, base = (float(v) for v in values[:3])
    rows, columns = (int(v) for v in values[3:5])
    if len(values) != 5 + rows * columns or not np.allclose(extent[:2], (width, length), rtol=_CLOSE):
        return None
    heights = values[5:].reshape(rows, columns)
    return HeightField(heights=heights * size, size=(width * size, length * size), base=base * size), pose


def restore_surface(index: StageIndex, prim: pxr.Prim, surface: PhysicsMaterial) -> PhysicsMaterial:
    """A physics material without what only USD needed to be told."""
    if index.values.stamp is None:
        return surface
    fields = ours.UNSET_FIELDS
    unset = {fields[str(t)]: None for t in own(index, prim, ours.UNSET) or () if str(t) in fields}
    second = own(index, prim, ours.DYNAMIC_FRICTION_2)
    name = own(index, prim, ours.NAME)
    return dataclasses.replace(
        surface,
        **unset,
        name=surface.name if name is None else str(name),
        dynamic_friction2=None if second is None else float(second),
    )
