"""What can touch what: the shapes of all parts, and the pairs of them that the rules leave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinema.description import (
    Box,
    Capsule,
    Collider,
    Cone,
    Cylinder,
    Ellipsoid,
    Plane,
    Shape,
    Sphere,
    World,
    colliders,
    colliding_pairs,
)
from kinema.foundation import Array, Pose
from kinema.model import GeomsInfo, PairsInfo, no_geoms, no_pairs

from .draft import Body, Draft
from .options import switches_of
from .surfaces import Surface, mixed, of_pair, of_shape

ORDER = ("plane", "height field", "sphere", "capsule", "ellipsoid", "cylinder", "cone", "box", "mesh")
"""Kinds in the order in which they stand in a pair."""


@dataclass(slots=True, eq=False)
class Geom:
    """A shape on its way into the model."""

    name: str
    kind: str
    body: Body | None
    pose: Pose
    """In the moving frame, or the world."""
    size: tuple[float, float, float]
    center: Array
    radius: float
    surface: Surface
    index: int = -1

    @property
    def frame(self) -> int:
        """The moving frame it sits in."""
        return -1 if self.body is None else self.body.frame


def pack_geoms(draft: Draft) -> tuple[GeomsInfo, PairsInfo]:
    """All shapes that may touch another, and the pairs."""
    made: dict[tuple[int, int], Geom | None] = {}
    parts: list[list[tuple[Collider, Geom]]] = []
    pairs: list[tuple[Geom, Geom, Surface]] = []
    for entity, part in enumerate(draft.parts):
        if not switches_of(part.description).contact:
            continue
        bodies = {(id(b.robot), b.link.name): b for b in draft.bodies if b.entity == entity}
        robots = part.description.robots if isinstance(part.description, World) else [part.description]
        named = {robot.name: robot for robot in robots}

        def geom(collider: Collider, entity: int = entity, named: dict = named, bodies: dict = bodies) -> Geom | None:
            key = entity, id(collider.shape)
            if key not in made:
                body = None if collider.link is None else bodies[id(named[collider.robot]), collider.link]
                made[key] = _geom(draft, entity, collider.shape, body)
            return made[key]

        own = [(c, g) for c in colliders(part.description)[0] if c.shape.enabled and (g := geom(c)) is not None]
        for a, b in colliding_pairs(part.description):
            if (x := geom(a)) is not None and (y := geom(b)) is not None and x.frame != y.frame:
                pairs.append((x, y, of_pair(part.description, a, b) or mixed(x.surface, y.surface)))
        for (a, x), (b, y) in ((p, q) for other in parts for p in other for q in own):
            alike = a.shape.contype & b.shape.conaffinity or b.shape.contype & a.shape.conaffinity
            if alike and x.frame != y.frame:
                pairs.append((x, y, mixed(x.surface, y.surface)))
        parts.append(own)
    return _packed(pairs)


def _geom(draft: Draft, entity: int, shape: Shape, body: Body | None) -> Geom | None:
    """A shape in its moving frame; None for one that nothing can touch here."""
    part = draft.parts[entity]
    base = (Pose() if part.pose is None else part.pose) if body is None else body.place
    pose = base @ shape.pose
    form = shape.geometry
    match form:
        case Sphere():
            kind, size, radius = "sphere", (form.radius, 0.0, 0.0), form.radius
        case Capsule():
            kind, size, radius = "capsule", (form.radius, form.length / 2, 0.0), form.radius + form.length / 2
        case Cylinder() | Cone():
            kind = "cylinder" if isinstance(form, Cylinder) else "cone"
            size, radius = (form.radius, form.length / 2, 0.0), float(np.hypot(form.radius, form.length / 2))
        case Ellipsoid():
            kind, size, radius = "ellipsoid", tuple(form.radii.tolist()), float(form.radii.max())
        case Box():
            kind, size, radius = "box", tuple((form.size / 2).tolist()), float(np.linalg.norm(form.size / 2))
        case Plane():
            kind, size, radius = "plane", (0.0, 0.0, 0.0), np.inf
        case _:
            draft.diagnostics.warning(
                "sim.no-contact", f'shape "{shape.name}" ({shape.kind}) touches nothing yet', origin=shape.origin
            )
            return None
    return Geom(shape.name, kind, body, pose, size, np.zeros(3), radius, of_shape(shape))


def _packed(pairs: list[tuple[Geom, Geom, Surface]]) -> tuple[GeomsInfo, PairsInfo]:
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
        first, second = sorted((a, b), key=lambda g: (ORDER.index(g.kind), g.index))
        rows.append((first, second, surface))
    rows.sort(key=lambda r: (sorted((r[0].frame, r[1].frame)), r[2].dimension, r[0].index, r[1].index))
    surfaces = [s for _, _, s in rows]
    return (
        GeomsInfo(
            names=[g.name for g in geoms],
            kinds=[g.kind for g in geoms],
            link_idx=np.array([-1 if g.body is None else g.body.index for g in geoms], np.int32),
            frame_idx=np.array([g.frame for g in geoms], np.int32),
            pos=np.array([g.pose.position for g in geoms]),
            rot=np.array([g.pose.rotation for g in geoms]),
            size=np.array([g.size for g in geoms]),
            center=np.array([g.center for g in geoms]),
            radius=np.array([g.radius for g in geoms]),
            first_corner=np.zeros(len(geoms), np.int32),
            n_corners=np.zeros(len(geoms), np.int32),
            corners=np.zeros(0),
        ),
        PairsInfo(
            geom_a=np.array([a.index for a, _, _ in rows], np.int32),
            geom_b=np.array([b.index for _, b, _ in rows], np.int32),
            dimension=np.array([s.dimension for s in surfaces], np.int32),
            friction=np.array([s.friction for s in surfaces]),
            solref=np.array([s.solref for s in surfaces]),
            solref_friction=np.array([s.solref_friction for s in surfaces]),
            solimp=np.array([s.solimp for s in surfaces]),
            margin=np.array([s.margin + s.gap for s in surfaces]),
            gap=np.array([s.gap for s in surfaces]),
            weight=np.ones((len(rows), 2)),
        ),
    )
