"""What can touch what: the shapes of all parts, and the pairs of them that the rules leave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinema.description import Collider, Shape, colliders, colliding_pairs
from kinema.foundation import Array, KinemaError, Pose
from kinema.model import SHAPE_KINDS, GeomsInfo, PairsInfo, no_geoms, no_pairs, pack_field

from .draft import Body, Draft
from .labels import shape_label
from .options import switches_of
from .pieces import Piece
from .solids import pieces_of
from .surfaces import Surface, mixed, of_pairs, of_shape, share_of, who_decides

MOST_NUMBERS = 2**24
"""Places in the array of meshes and fields: whole numbers up to here have a float of their own."""


@dataclass(slots=True, eq=False)
class Geom:
    """A shape, or a piece of one, on its way into the model."""

    name: str
    piece: Piece
    body: Body | None
    pose: Pose
    """In the moving frame, or the world."""
    surface: Surface
    entity: int
    index: int = -1

    @property
    def frame(self) -> int:
        """The moving frame it sits in."""
        return -1 if self.body is None else self.body.frame


class _Gathering:
    """The shapes of a scene, each taken in once."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.made: dict[tuple[int, int], list[Geom]] = {}
        self.pairs: list[tuple[Geom, Geom, Surface | None]] = []
        """With what the pair itself says, if it does."""

    def geoms(self, entity: int, collider: Collider) -> list[Geom]:
        """What stands for a shape."""
        key = entity, id(collider.shape)
        if key not in self.made:
            body = self._body(entity, collider)
            base = (self.draft.parts[entity].pose or Pose()) if body is None else body.place
            shape = collider.shape
            self.made[key] = [
                Geom(shape.name, piece, body, base @ shape.pose @ piece.pose, of_shape(shape), entity)
                for piece in self._pieces(entity, shape, body)
            ]
        return self.made[key]

    def _pieces(self, entity: int, shape: Shape, body: Body | None) -> list[Piece]:
        nonconvex = self.draft.parts[entity].nonconvex
        known, key = self.draft.solids, (id(shape), nonconvex)
        if key not in known:
            known[key] = pieces_of(shape, shape_label(self.draft, shape, body), self.draft.diagnostics, nonconvex)
        return known[key]

    def _body(self, entity: int, collider: Collider) -> Body | None:
        own = (b for b in self.draft.bodies if b.entity == entity and b.robot.name == collider.robot)
        return None if collider.link is None else next(b for b in own if b.link.name == collider.link)

    def join(self, first: list[Geom], second: list[Geom], surface: Surface | None) -> None:
        """Two shapes that may touch."""
        for a in first:
            for b in second:
                if a.frame != b.frame:
                    self.pairs.append((a, b, surface))


def pack_geoms(draft: Draft) -> tuple[GeomsInfo, PairsInfo]:
    """All shapes that may touch another, and the pairs."""
    gathering = _Gathering(draft)
    earlier: list[tuple[int, Collider]] = []
    for entity, part in enumerate(draft.parts):
        description = part.description
        if not switches_of(description).contact:
            continue
        for a, b in colliding_pairs(description):
            for known in of_pairs(description, a, b) or (None,):
                gathering.join(gathering.geoms(entity, a), gathering.geoms(entity, b), known)
        own = [(entity, c) for c in colliders(description)[0] if c.shape.enabled]
        for number, a in earlier:
            for _, b in own:
                if a.shape.contype & b.shape.conaffinity or b.shape.contype & a.shape.conaffinity:
                    gathering.join(gathering.geoms(number, a), gathering.geoms(entity, b), None)
        earlier += own
    return _packed(gathering.pairs)


def _packed(pairs: list[tuple[Geom, Geom, Surface | None]]) -> tuple[GeomsInfo, PairsInfo]:
    if not pairs:
        return no_geoms(), no_pairs()
    geoms: list[Geom] = []
    for a, b, _ in pairs:
        for geom in (a, b):
            if geom.index < 0:
                geom.index = len(geoms)
                geoms.append(geom)
    rows = []
    for a, b, surface in pairs:
        first, second = sorted((a, b), key=lambda g: (SHAPE_KINDS.index(g.piece.kind), g.index))
        decides = 2 if surface is not None else who_decides(first.surface, second.surface)
        rows.append((first, second, surface or mixed(a.surface, b.surface), decides))
    rows.sort(key=lambda r: (sorted((r[0].frame, r[1].frame)), r[2].dimension, r[0].index, r[1].index))
    surfaces = [row[2] for row in rows]
    pieces = [g.piece for g in geoms]
    starts, counts, numbers = _numbers(pieces)
    return (
        GeomsInfo(
            names=[g.name for g in geoms],
            kinds=[p.kind for p in pieces],
            link_idx=np.array([-1 if g.body is None else g.body.index for g in geoms], np.int32),
            frame_idx=np.array([g.frame for g in geoms], np.int32),
            pos=np.array([g.pose.position for g in geoms]),
            rot=np.array([g.pose.rotation for g in geoms]),
            size=np.array([p.size for p in pieces]),
            center=np.array([p.center for p in pieces]),
            radius=np.array([p.radius for p in pieces]),
            first_number=np.array(starts, np.int32),
            counts=np.array(counts, np.int32),
            numbers=numbers,
            entity_idx=np.array([g.entity for g in geoms], np.int32),
            friction=np.array([g.surface.friction for g in geoms]),
            solref=np.array([g.surface.solref for g in geoms]),
            solimp=np.array([g.surface.solimp for g in geoms]),
            fields=[p.distances for p in pieces] if any(p.distances for p in pieces) else [],
        ),
        PairsInfo(
            geom_a=np.array([row[0].index for row in rows], np.int32),
            geom_b=np.array([row[1].index for row in rows], np.int32),
            dimension=np.array([s.dimension for s in surfaces], np.int32),
            friction=np.array([s.friction for s in surfaces]),
            solref=np.array([s.solref for s in surfaces]),
            solref_friction=np.array([s.solref_friction for s in surfaces]),
            solimp=np.array([s.solimp for s in surfaces]),
            margin=np.array([s.margin + s.gap for s in surfaces]),
            gap=np.array([s.gap for s in surfaces]),
            decides=np.array([row[3] for row in rows], np.int32),
            share=np.array([share_of(a.surface, b.surface) for a, b, _, _ in rows]),
            restitution=np.array([s.restitution for s in surfaces]),
            bounce_speed=np.array([s.bounce_speed for s in surfaces]),
            stick=np.array([s.stick for s in surfaces]),
            weight=np.ones((len(rows), 2)),
        ),
    )


def _numbers(pieces: list[Piece]) -> tuple[list[int], list[tuple[int, int]], Array]:
    """Meshes and height fields in one array: where each begins, and its two counts."""
    starts, counts, parts, length = [], [], [np.zeros(0)], 0
    for piece in pieces:
        own, count = np.zeros(0), (0, 0)
        if piece.hull is not None:
            own, count = piece.hull.numbers, (piece.hull.n_corners[0], piece.hull.n_faces[0])
        elif piece.heights is not None:
            own, count = piece.heights.ravel(), piece.heights.shape
        elif piece.distances is not None:
            own, count = pack_field(piece.distances), (len(piece.distances.points), 0)
        starts.append(length)
        counts.append(count)
        parts.append(own)
        length += len(own)
    if length > MOST_NUMBERS:
        raise KinemaError(
            f"meshes and distance fields of this scene are {length:,} numbers, and {MOST_NUMBERS:,} can be told apart "
            "in single precision: lower the resolution of distance fields (km.Mesh(resolution=...))"
        )
    return starts, counts, np.concatenate(parts)
