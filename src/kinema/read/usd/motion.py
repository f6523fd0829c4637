"""Motion of bodies that forces do not cause: surface velocity (PhysX), and time samples of kinematic bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kinema.core import Array, reproducible_product
from kinema.description import Link
from kinema.tokens import mjcf, physx, usd

from . import pxr
from .stage_index import Body, StageIndex
from .transforms import DEGREE, affine_from_gf, polar_decomposition
from .world_transforms import WorldTransforms

if TYPE_CHECKING:
    from collections.abc import Iterator


def apply_surface_velocity(index: StageIndex, body: Body, link: Link) -> None:
    """Store PhysX's surface velocity of a body as surface velocities of its collision shapes (MJCF `surfacevel`).

    Linear velocities are in stage units per second, angular ones in degrees per second about the origin of the body.
    The preserved attribute is scaled to metres. Shapes that have a surface velocity of their own keep it.
    """
    if physx.SURFACE_VELOCITY_API not in index.schemas(body.prim):
        return
    names = (physx.SURFACE_VELOCITY, physx.SURFACE_ANGULAR_VELOCITY)
    given = [index.authored(body.prim, name) for name in names]
    if any(x is not None and np.shape(x) != (3,) for x in given):
        return
    linear, angular = (np.zeros(3) if x is None else np.array(x, np.float64) for x in given)
    linear, angular = index.units.length * linear, DEGREE * angular
    if index.authored(body.prim, physx.SURFACE_VELOCITY_LOCAL_SPACE) is False:
        into_body = reproducible_product(body.pose.rotation.T, index.units.up)
        linear, angular = (reproducible_product(into_body, x) for x in (linear, angular))
    key = usd.PRESERVED_PREFIX + physx.SURFACE_VELOCITY
    if key in link.attributes:
        type_name, value = link.attributes[key]
        link.attributes[key] = (type_name, tuple(index.units.length * x for x in value))
    is_enabled = index.authored(body.prim, physx.SURFACE_VELOCITY_ENABLED) is not False
    if not is_enabled or not (np.isfinite([linear, angular]).all() and np.any([linear, angular])):
        return
    for shape in link.collisions:
        at_shape = linear + np.cross(angular, shape.pose.position)
        velocity = np.concatenate([reproducible_product(shape.pose.rotation.T, x) for x in (at_shape, angular)])
        shape.attributes.setdefault(mjcf.attribute_key(mjcf.SURFACEVEL), tuple(velocity.tolist()))


def read_motion(index: StageIndex, body: Body, link: Link) -> None:
    """Store the animated transform of a kinematic body in the attribute `usd.MOTION`.

    Rows of time since the start [s], position and quaternion relative to the pose at the start (8 values), one per time
    sample of the body or of a prim above.
    """
    xformables = [pxr.UsdGeom.Xformable(prim) for prim in _transforming_prims(body.prim)]
    samples = sorted({time for xformable in xformables for time in xformable.GetTimeSamples()})
    if len(samples) < 2:
        return
    start = samples[0] if index.time.IsEarliestTime() else index.time.GetValue()
    rows = []
    for sample in [start, *(x for x in samples if x > start)]:
        try:
            position, quaternion = _relative_pose(index, body, sample)
        except pxr.Tf.ErrorException:  # an operation holds a value of the wrong type
            return
        rows.append([(sample - start) / index.stage.GetTimeCodesPerSecond(), *position.tolist(), *quaternion.tolist()])
    if np.isfinite(rows).all():
        link.attributes[usd.MOTION] = rows
        index.values.animated.pop(body.path, None)


def _transforming_prims(prim: pxr.Prim) -> Iterator[pxr.Prim]:
    """A prim and the prims above that transform it."""
    while prim and not prim.IsPseudoRoot():
        if pxr.UsdGeom.Xformable(prim):
            yield prim
            if pxr.UsdGeom.Xformable(prim).GetResetXformStack():
                return
        prim = prim.GetParent()


def _relative_pose(index: StageIndex, body: Body, time: float) -> tuple[Array, Array]:
    """Position and quaternion of a body at a time code relative to its pose at the start."""
    matrix = WorldTransforms(pxr.Usd.TimeCode(time), index.values).matrix(body.prim)
    affine = affine_from_gf(reproducible_product(matrix, index.to_si))
    pose = body.pose.inverse() @ type(body.pose)(affine.offset, polar_decomposition(affine.linear)[0])
    return pose.position, pose.quaternion
