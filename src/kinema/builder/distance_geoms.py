"""Geoms between which distance sensors measure: shapes of links or of the world, whether they collide or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kinema.core import Pose, reproducible_norm
from kinema.description import Shape
from kinema.model import DistanceGeomsInfo, empty_distance_geoms

from .collision_geoms import pack_shape_data
from .collision_shapes import CollisionShape, make_collision_shapes
from .context import AttachmentFrame, BuildContext, shape_label


@dataclass(slots=True, eq=False)
class DistanceGeoms:
    """Geoms of all distance sensors of a build; a shape that several sensors measure is stored once."""

    records: list[tuple[CollisionShape, AttachmentFrame]] = field(default_factory=list)
    """Collision shape and attachment of each geom."""
    _rows: dict[tuple[int, int, int], list[int]] = field(default_factory=dict)

    def add(self, ctx: BuildContext, entity: int, shape: Shape, attachment: AttachmentFrame) -> list[int]:
        """Rows of the geoms of a shape (several for a decomposed mesh), which is attached to a moving frame."""
        key = entity, attachment.frame_idx, id(shape)
        if key not in self._rows:
            nonconvex = ctx.entities[entity].nonconvex
            cache_key = id(shape), nonconvex
            if cache_key not in ctx.geometry_cache.collision_shapes:
                label = shape_label(ctx, shape, None)
                ctx.geometry_cache.collision_shapes[cache_key] = make_collision_shapes(
                    shape, label, ctx.diagnostics, nonconvex
                )
            first = len(self.records)
            self.records += [
                (part, AttachmentFrame(attachment.frame_idx, attachment.pose @ part.pose))
                for part in ctx.geometry_cache.collision_shapes[cache_key]
            ]
            self._rows[key] = list(range(first, len(self.records)))
        return self._rows[key]

    def pack(self) -> DistanceGeomsInfo:
        """Table of all geoms; an empty one if no sensor measures distances."""
        if not self.records:
            return empty_distance_geoms()
        shapes: Sequence[CollisionShape] = [shape for shape, _ in self.records]
        frames = [frame for _, frame in self.records]
        poses: list[Pose] = [frame.pose for frame in frames]
        starts, counts, data = pack_shape_data(list(shapes))
        return DistanceGeomsInfo(
            types=[shape.type for shape in shapes],
            frame_idx=np.array([frame.frame_idx for frame in frames], np.int32),
            pos=np.array([pose.position for pose in poses], np.float64),
            rot=np.array([pose.rotation for pose in poses], np.float64),
            size=np.array([shape.size for shape in shapes], np.float64),
            radius=np.array([shape.radius + reproducible_norm(shape.center) for shape in shapes], np.float64),
            data_start=np.array(starts, np.int32),
            data_counts=np.array(counts, np.int32).reshape(-1, 2),
            data=data,
        )
