"""Tables of collision geoms and of the geom pairs that may collide, with combined contact parameters of each pair.

Parameters of two geoms are combined by MuJoCo's rules (priority, element-wise maximum of friction, solmix-weighted mean
of solref and solimp); an explicit pair of the file brings its own parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from kinema.core import Array, KinemaError, LruCache, Pose, reproducible_product
from kinema.description import (
    Collider,
    PhysicsMaterial,
    Robot,
    Shape,
    SolverParameters,
    World,
    colliding_pairs,
)
from kinema.model import GEOM_TYPES, GeomsInfo, PairsInfo, empty_geoms, empty_pairs, pack_sdf
from kinema.tokens import mjcf, sdf

from .collision_shapes import CollisionShape, make_collision_shapes
from .context import BuildContext, LinkRecord, shape_label
from .kinematic_tables import DEFAULT_SOLIMP, DEFAULT_SOLREF
from .options import option_flags
from .overlapping_links import overlapping_links

# --------------------------------------------------------------------------------------------------- contact parameters

DEFAULT_SLIDING_FRICTION, DEFAULT_TORSIONAL_FRICTION, DEFAULT_ROLLING_FRICTION = 1.0, 0.005, 0.0001
"""Default friction coefficients; torsional and rolling friction are lengths [m]."""
MIN_FRICTION = 1e-5
"""Lower bound of friction coefficients: a friction dimension needs a nonzero scale."""
MINVAL = 1e-15
"""MuJoCo's mjMINVAL: lower bound of solmix weights."""


@dataclass(frozen=True, slots=True)
class ContactParameters:
    """Contact parameters of one geom, or the combined parameters of a geom pair."""

    condim: int = 3
    """Contact dimension: 1, 3, 4 or 6."""
    friction: tuple[float, ...] = (
        DEFAULT_SLIDING_FRICTION,
        DEFAULT_SLIDING_FRICTION,
        DEFAULT_TORSIONAL_FRICTION,
        DEFAULT_ROLLING_FRICTION,
        DEFAULT_ROLLING_FRICTION,
    )
    """Sliding (2), torsional (1) and rolling (2) friction."""
    solref: tuple[float, ...] = DEFAULT_SOLREF
    solref_friction: tuple[float, ...] = (0.0, 0.0)
    """`solref` of the friction dimensions; zeros for that of the normal."""
    solimp: tuple[float, ...] = DEFAULT_SOLIMP
    margin: float = 0.0
    """Distance below which contacts are created [m]."""
    gap: float = 0.0
    """Part of the margin in which contacts exert no force [m]."""
    priority: int = 0
    """The geom of higher priority determines the parameters of a pair."""
    solmix: float = 1.0
    """Weight when solref and solimp of two geoms are averaged."""
    static_friction: float = 0.0
    """Coefficient of static friction, where it exceeds `friction`; 0 for none."""
    restitution: float = 0.0
    """Coefficient of restitution, 0 to 1."""
    bounce_speed: float = 0.0
    """Approach speed below which there is no restitution [m/s]."""

    @property
    def stiction_ratio(self) -> float:
        """Ratio of static to dynamic friction, at least 1."""
        return max(1.0, self.static_friction / self.friction[0])


def contact_parameters_of_shape(shape: Shape) -> ContactParameters:
    """Contact parameters of a shape: of its surface material, or defaults without one.

    The SDFormat bounce threshold gives the minimum approach speed of restitution.
    """
    if shape.surface is None:
        return ContactParameters()
    threshold = shape.attributes.get(sdf.attribute_key(sdf.THRESHOLD)) or 0.0
    return replace(_contact_parameters_of_material(shape.surface), bounce_speed=max(float(threshold), 0.0))


def _contact_parameters_of_material(material: PhysicsMaterial) -> ContactParameters:
    """Contact parameters (condim, friction, solref, ...) of a physics material, with defaults for missing values.

    Dynamic friction takes precedence over static friction as the sliding coefficient; five explicit MJCF friction
    values take precedence over both. Friction is bounded below, restitution clipped to 0 ... 1.
    """
    sliding = material.dynamic_friction if material.dynamic_friction is not None else material.static_friction
    sliding_1 = DEFAULT_SLIDING_FRICTION if sliding is None else sliding
    sliding_2 = sliding_1 if material.dynamic_friction2 is None else material.dynamic_friction2
    torsional = DEFAULT_TORSIONAL_FRICTION if material.torsional_friction is None else material.torsional_friction
    rolling = DEFAULT_ROLLING_FRICTION if material.rolling_friction is None else material.rolling_friction
    friction = material.attributes.get(mjcf.attribute_key(mjcf.FRICTION)) or (
        sliding_1,
        sliding_2,
        torsional,
        rolling,
        rolling,
    )
    solver: SolverParameters = material.solver
    return ContactParameters(
        condim=material.contact_dimension or 3,
        friction=tuple(max(float(value), MIN_FRICTION) for value in friction),
        solref=solver.solref or DEFAULT_SOLREF,
        solref_friction=tuple(material.attributes.get(mjcf.attribute_key(mjcf.SOLREFFRICTION)) or (0.0, 0.0)),
        solimp=solver.solimp or DEFAULT_SOLIMP,
        margin=solver.margin,
        gap=material.gap,
        priority=material.priority,
        solmix=material.solmix,
        static_friction=0.0 if material.dynamic_friction is None else material.static_friction or 0.0,
        restitution=min(max(material.restitution or 0.0, 0.0), 1.0),
    )


def contact_parameters_of_pair(description: Robot | World, a: Collider, b: Collider) -> list[ContactParameters]:
    """Contact parameters of the explicit pairs (MJCF `<pair>`) of two shapes; empty if there are none.

    Explicit parameters are not combined with those of the shapes; as in MuJoCo, each explicit pair makes contacts of
    its own.
    """
    names = {a.shape.name, b.shape.name}
    owners = [description, *(description.robots if isinstance(description, World) else ())]
    return [
        _contact_parameters_of_material(pair.surface)
        for owner in owners
        for pair in owner.collision.pairs
        if pair.collide and pair.surface is not None and pair.between == "shapes" and {pair.a, pair.b} == names
    ]


@lru_cache(4096)
def combine_contact_parameters(a: ContactParameters, b: ContactParameters) -> ContactParameters:
    """Combined contact parameters of two geoms, by MuJoCo's rules.

    The geom of higher priority determines all parameters but margin and gap, which add up. With equal priority: maximum
    of condim, friction and restitution, solmix-weighted mean of solref and solimp; element-wise minimum of direct
    (non-positive) solref.
    """
    margin, gap = a.margin + b.margin, a.gap + b.gap
    if a.priority != b.priority:
        return replace(a if a.priority > b.priority else b, margin=margin, gap=gap)
    weight = solmix_weight(a, b)
    is_direct = a.solref[0] <= 0.0 or b.solref[0] <= 0.0
    return ContactParameters(
        condim=max(a.condim, b.condim),
        friction=tuple(max(x, y) for x, y in zip(a.friction, b.friction, strict=True)),
        solref=tuple(map(min, a.solref, b.solref)) if is_direct else _weighted_mean(weight, a.solref, b.solref),
        solimp=_weighted_mean(weight, a.solimp, b.solimp),
        margin=margin,
        gap=gap,
        static_friction=max(a.static_friction, b.static_friction),
        restitution=max(a.restitution, b.restitution),
        bounce_speed=max(a.bounce_speed, b.bounce_speed),
    )


def surface_source(a: ContactParameters, b: ContactParameters) -> int:
    """Index (0 or 1) of the geom whose priority determines the parameters of a pair; -1 if both are combined."""
    return -1 if a.priority == b.priority else int(b.priority > a.priority)


def solmix_weight(a: ContactParameters, b: ContactParameters) -> float:
    """Weight (0 to 1) of the first geom in the solmix-weighted mean of solref and solimp."""
    if a.solmix >= MINVAL and b.solmix >= MINVAL:
        return a.solmix / (a.solmix + b.solmix)
    if a.solmix < MINVAL and b.solmix < MINVAL:
        return 0.5
    return 0.0 if a.solmix < MINVAL else 1.0


def _weighted_mean(weight: float, a: Sequence[float], b: Sequence[float]) -> tuple[float, ...]:
    return tuple(weight * x + (1.0 - weight) * y for x, y in zip(a, b, strict=True))


# ------------------------------------------------------------------------------------------------------ geoms and pairs

MAX_DATA_SIZE = 2**24
"""Largest length of the array of mesh, height field and SDF data: integers up to this one are exact in float32."""


@dataclass(slots=True, eq=False)
class GeomRecord:
    """A collision geom: a shape, or a convex piece of one, on a link or in the world."""

    name: str
    collision_shape: CollisionShape
    link: LinkRecord | None
    """Link of the geom; None for the world."""
    pose: Pose
    """Pose in the moving frame of the link, or in the world."""
    contact_parameters: ContactParameters
    surface_velocity: Array
    """Velocity of the surface at the geom's origin, linear and angular, along the axes of the moving frame, (6,)."""
    entity: int
    shape: Shape
    """Described shape that the geom is, or is a piece of."""
    pose_in_link: Pose
    """Pose in the link, or in the world."""
    is_fast: bool = False
    """Whether contacts are found along the motion in a step."""
    index: int = -1
    """Row in the table of geoms; -1 before it is numbered."""

    @property
    def frame_idx(self) -> int:
        """Moving frame of the geom; -1 for the world."""
        return -1 if self.link is None else self.link.frame_idx

    @property
    def dynamic_frame_idx(self) -> int:
        """Frame that forces move; -1 for the world and kinematic bodies."""
        return -1 if self.link is None or self.link.is_on_kinematic_body else self.link.frame_idx


@dataclass(frozen=True, slots=True, eq=False)
class _PlacedPart:
    """A collision shape of a described shape, placed in a moving frame."""

    shape: CollisionShape
    pose: Pose
    """Pose in the moving frame, or in the world."""
    pose_in_link: Pose
    """Pose in the link, or in the world."""
    surface_velocity: Array


ORIGIN = Pose()
"""Pose of entities without a base pose."""


class GeomCollector:
    """Collects the geoms of all colliding shapes of a scene, each shape once, and the pairs of geoms."""

    def __init__(self, ctx: BuildContext) -> None:
        self.ctx = ctx
        self.geoms_of_shape: dict[tuple[int, str, str | None, int], list[GeomRecord]] = {}
        self._speculative: dict[int, bool] = {}
        self._parts: dict[tuple[int, str | None, int], list[_PlacedPart]] = {}
        self._contact_parameters_of_shape: dict[int, ContactParameters] = {}
        self._distinct_parameters: dict[ContactParameters, ContactParameters] = {}
        self._links = {(x.entity, x.robot.name, x.description.name): x for x in reversed(ctx.links)}
        self.pairs: list[tuple[GeomRecord, GeomRecord, ContactParameters | None]] = []
        """Geoms of each pair, with the contact parameters of an explicit pair, else None."""

    def geoms_of_collider(self, entity: int, collider: Collider) -> list[GeomRecord]:
        """Collision geoms of a shape of an entity (several for a decomposed mesh); created once per link and shape."""
        key = entity, collider.robot, collider.link, id(collider.shape)
        if key not in self.geoms_of_shape:
            link = self._link_of_collider(entity, collider)
            base = (self.ctx.entities[entity].pose or ORIGIN) if link is None else link.pose_in_frame
            shape = collider.shape
            name = shape.name or self._generated_geom_name(entity, shape, link)
            is_fast = link is not None and (self._is_speculative(entity) or link.description.continuous_collision)
            contact_parameters = self._contact_parameters(shape)
            self.geoms_of_shape[key] = [
                GeomRecord(
                    name,
                    part.shape,
                    link,
                    part.pose,
                    contact_parameters,
                    part.surface_velocity,
                    entity,
                    shape,
                    part.pose if link is None else part.pose_in_link,
                    is_fast,
                )
                for part in self._placed_parts(entity, shape, link, base)
            ]
        return self.geoms_of_shape[key]

    def _contact_parameters(self, shape: Shape) -> ContactParameters:
        """Contact parameters of a shape; one object for all shapes with equal parameters."""
        if id(shape) not in self._contact_parameters_of_shape:
            parameters = contact_parameters_of_shape(shape)
            self._contact_parameters_of_shape[id(shape)] = self._distinct_parameters.setdefault(parameters, parameters)
        return self._contact_parameters_of_shape[id(shape)]

    def _placed_parts(self, entity: int, shape: Shape, link: LinkRecord | None, base: Pose) -> list[_PlacedPart]:
        """Collision shapes of a described shape at a pose of its link; the same for bodies of equal description."""
        key = id(shape), self.ctx.entities[entity].nonconvex, id(base)
        if key not in self._parts:
            pose = base @ shape.pose
            self._parts[key] = [
                _PlacedPart(
                    part,
                    pose @ part.pose,
                    shape.pose @ part.pose,
                    _surface_velocity_of_part(shape, pose, part.pose),
                )
                for part in self._collision_shapes(entity, shape, link)
            ]
        return self._parts[key]

    def _is_speculative(self, entity: int) -> bool:
        """Whether the file of an entity requests contacts along the motion in a step for all its shapes."""
        if entity not in self._speculative:
            self._speculative[entity] = option_flags(self.ctx.entities[entity].description).speculative
        return self._speculative[entity]

    def _generated_geom_name(self, entity: int, shape: Shape, link: LinkRecord | None) -> str:
        """Name of the geoms of an unnamed shape: `<link>_collision`, with its index if the link has several."""
        if link is not None:
            owner, shapes = link.name, link.description.shapes
        else:
            description = self.ctx.entities[entity].description
            owner, shapes = "world", description.shapes if isinstance(description, World) else []
        colliding = [other for other in shapes if other.collision]
        if len(colliding) == 1:
            return f"{owner}_collision"
        return f"{owner}_collision_{next(i for i, other in enumerate(colliding) if other is shape)}"

    def _collision_shapes(self, entity: int, shape: Shape, link: LinkRecord | None) -> list[CollisionShape]:
        """Collision shapes (primitive, hulls, SDF or height field) of a description shape, cached in the context.

        Non-convex meshes are approximated as the entity specifies.
        """
        nonconvex = self.ctx.entities[entity].nonconvex
        cache, key = self.ctx.geometry_cache.collision_shapes, (id(shape), nonconvex)
        if key not in cache:
            cache[key] = make_collision_shapes(
                shape, shape_label(self.ctx, shape, link), self.ctx.diagnostics, nonconvex
            )
        return cache[key]

    def _link_of_collider(self, entity: int, collider: Collider) -> LinkRecord | None:
        """Link record of a collider; None for a static shape."""
        return None if collider.link is None else self._links[entity, collider.robot, collider.link]

    def add_pairs_of_entity(self, entity: int) -> None:
        """Add the pairs of geoms within an entity that may collide, by the rules of its description.

        Links that overlap in the initial configuration are left out where `overlapping_links` says so, and the links of
        each robot with `EntitySpec.self_collision` False.
        """
        spec = self.ctx.entities[entity]
        pairs = [
            (a, b)
            for a, b in colliding_pairs(spec.description)
            if spec.self_collision is not False or a.robot != b.robot or a.link is None or b.link is None
        ]
        geoms = [(self.geoms_of_collider(entity, a), self.geoms_of_collider(entity, b)) for a, b in pairs]
        overlapping = overlapping_links(self.ctx, entity, geoms)
        for (a, b), (first, second) in zip(pairs, geoms, strict=True):
            if a.link is not None and b.link is not None and frozenset((a.link, b.link)) in overlapping:
                continue
            for contact_parameters in contact_parameters_of_pair(spec.description, a, b) or (None,):
                self.add_pairs(first, second, contact_parameters)

    def add_pairs(
        self, first: list[GeomRecord], second: list[GeomRecord], contact_parameters: ContactParameters | None
    ) -> None:
        """Add all pairs of geoms of two shapes, except pairs within one moving frame."""
        for a in first:
            for b in second:
                if a.dynamic_frame_idx != b.dynamic_frame_idx:
                    self.pairs.append((a, b, contact_parameters))


def _surface_velocity_of_part(shape: Shape, pose: Pose, part_pose: Pose) -> Array:
    """Surface velocity of a part of a shape at the part's origin, along the axes of the moving frame, (6,).

    Args:
        shape: shape whose surface velocity is at its own origin, along its axes.
        pose: pose of the shape in the moving frame.
        part_pose: pose of the part in the shape.
    """
    velocity = shape.attributes.get(mjcf.attribute_key(mjcf.SURFACEVEL))
    if not velocity:
        return np.zeros(6)
    linear, angular = np.reshape(velocity, (2, 3))
    linear = linear + np.cross(angular, part_pose.position)
    return np.concatenate([reproducible_product(pose.rotation, x) for x in (linear, angular)])


def pack_geoms(ctx: BuildContext, *, movable_surfaces: bool = False) -> tuple[GeomsInfo, PairsInfo]:
    """Tables of all collision geoms that can collide with another, and of the colliding geom pairs.

    Pairs within an entity come from the collision rules of its description, pairs of different entities from contype
    and conaffinity. Entities with contacts disabled are skipped. With `movable_surfaces`, or if any shape has a surface
    velocity, all geoms have one.
    """
    collector = GeomCollector(ctx)
    previous: list[tuple[int, Collider]] = []
    for entity, spec in enumerate(ctx.entities):
        description = spec.description
        if not option_flags(description).contact:
            continue
        collector.add_pairs_of_entity(entity)
        entity_colliders = [(entity, c) for c in ctx.colliders(entity)[0] if c.shape.enabled]
        for other_entity, a in previous:
            for _, b in entity_colliders:
                if a.shape.contype & b.shape.conaffinity or b.shape.contype & a.shape.conaffinity:
                    collector.add_pairs(
                        collector.geoms_of_collider(other_entity, a), collector.geoms_of_collider(entity, b), None
                    )
        previous += entity_colliders
    return _pack_geoms_and_pairs(ctx, collector.pairs, movable_surfaces=movable_surfaces)


def list_geoms(ctx: BuildContext) -> list[GeomRecord]:
    """Geoms of all enabled collision shapes in the order of entities, also geoms that collide with no other.

    Geoms of an entity are sorted by link, static ones first; those of a link are in file order.
    """
    collector, geoms = GeomCollector(ctx), list[GeomRecord]()
    for entity in range(len(ctx.entities)):
        enabled = [c for c in ctx.colliders(entity)[0] if c.shape.enabled]
        own = [geom for c in enabled for geom in collector.geoms_of_collider(entity, c)]
        geoms += sorted(own, key=lambda geom: -1 if geom.link is None else geom.link.index)
    return geoms


def _pack_geoms_and_pairs(
    ctx: BuildContext, pairs: list[tuple[GeomRecord, GeomRecord, ContactParameters | None]], *, movable_surfaces: bool
) -> tuple[GeomsInfo, PairsInfo]:
    """Number the geoms of a list of geom pairs and pack both into tables.

    Within a pair, geoms are ordered by geom type; rows are sorted by moving frames, condim and geom indices. Contact
    parameters of pairs without explicit ones are combined from both geoms.
    """
    if not pairs:
        return empty_geoms(), empty_pairs()
    geoms: list[GeomRecord] = []
    for a, b, _ in pairs:
        for geom in (a, b):
            if geom.index < 0:
                geom.index = len(geoms)
                geoms.append(geom)
    rows = []
    for a, b, explicit in pairs:
        first, second = sorted((a, b), key=lambda g: (GEOM_TYPES.index(g.collision_shape.type), g.index))
        source = 2 if explicit is not None else surface_source(first.contact_parameters, second.contact_parameters)
        rows.append(
            (first, second, explicit or combine_contact_parameters(a.contact_parameters, b.contact_parameters), source)
        )
    rows.sort(
        key=lambda r: (sorted((r[0].dynamic_frame_idx, r[1].dynamic_frame_idx)), r[2].condim, r[0].index, r[1].index)
    )
    return (
        pack_geom_table(geoms, movable_surfaces=movable_surfaces),
        PairsInfo(
            geom_a=np.array([row[0].index for row in rows], np.int32),
            geom_b=np.array([row[1].index for row in rows], np.int32),
            surface_source=np.array([row[3] for row in rows], np.int32),
            solmix_weight=np.array([solmix_weight(a.contact_parameters, b.contact_parameters) for a, b, _, _ in rows]),
            rank=_contact_ranks(ctx, [row[:2] for row in rows]),
            **pack_pair_parameters([row[2] for row in rows]),
        ),
    )


def pack_pair_parameters(contact_parameters: Sequence[ContactParameters]) -> dict[str, np.ndarray]:
    """Columns of the table of geom pairs that are combined contact parameters."""
    return {
        "condim": np.array([parameters.condim for parameters in contact_parameters], np.int32),
        "friction": np.array([parameters.friction for parameters in contact_parameters]).reshape(-1, 5),
        "solref": np.array([parameters.solref for parameters in contact_parameters]).reshape(-1, 2),
        "solref_friction": np.array([parameters.solref_friction for parameters in contact_parameters]).reshape(-1, 2),
        "solimp": np.array([parameters.solimp for parameters in contact_parameters]).reshape(-1, 5),
        "margin": np.array([parameters.margin + parameters.gap for parameters in contact_parameters]),
        "gap": np.array([parameters.gap for parameters in contact_parameters]),
        "restitution": np.array([parameters.restitution for parameters in contact_parameters]),
        "bounce_speed": np.array([parameters.bounce_speed for parameters in contact_parameters]),
        "stiction_ratio": np.array([parameters.stiction_ratio for parameters in contact_parameters]),
    }


def pack_geom_table(geoms: Sequence[GeomRecord], *, movable_surfaces: bool = False) -> GeomsInfo:
    """Table of geoms, with the packed data of meshes, height fields and signed distance fields.

    With `movable_surfaces`, or if any geom has a surface velocity, all geoms have one.
    """
    if not geoms:
        return empty_geoms()
    collision_shapes = [g.collision_shape for g in geoms]
    starts, counts, data = pack_shape_data(collision_shapes)
    surface_velocity = np.array([g.surface_velocity for g in geoms])
    if not movable_surfaces and not surface_velocity.any():
        surface_velocity = np.zeros((0, 6))
    return GeomsInfo(
        names=[g.name for g in geoms],
        types=[shape.type for shape in collision_shapes],
        link_idx=np.array([-1 if g.link is None else g.link.index for g in geoms], np.int32),
        frame_idx=np.array([g.frame_idx for g in geoms], np.int32),
        pos=np.array([g.pose.position for g in geoms]),
        rot=np.array([g.pose.rotation for g in geoms]),
        size=np.array([shape.size for shape in collision_shapes]),
        center=np.array([shape.center for shape in collision_shapes]),
        radius=np.array([shape.radius for shape in collision_shapes]),
        data_start=np.array(starts, np.int32),
        data_counts=np.array(counts, np.int32),
        data=data,
        entity_idx=np.array([g.entity for g in geoms], np.int32),
        friction=np.array([g.contact_parameters.friction for g in geoms]),
        solref=np.array([g.contact_parameters.solref for g in geoms]),
        solimp=np.array([g.contact_parameters.solimp for g in geoms]),
        surface_velocity=surface_velocity,
        fast=np.array([g.is_fast for g in geoms]) if any(g.is_fast for g in geoms) else np.zeros(0, np.bool_),
        sdfs=[shape.sdf for shape in collision_shapes] if any(shape.sdf for shape in collision_shapes) else [],
    )


def _contact_ranks(ctx: BuildContext, pairs: Sequence[tuple[GeomRecord, GeomRecord]]) -> np.ndarray:
    """Rank of each geom pair in MuJoCo's order of contacts, (n,): by the links of the pair, then by its geoms.

    Links and geoms are in file order; within a pair the lower one comes first.
    """
    order_of_shape: dict[tuple[int, int], int] = {}
    for entity in range(len(ctx.entities)):
        for i, collider in enumerate(ctx.colliders(entity)[0]):
            order_of_shape[entity, id(collider.shape)] = i

    def key(pair: tuple[GeomRecord, GeomRecord]) -> list[tuple[int, ...]]:
        sides = sorted(
            (-1 if geom.link is None else geom.link.index, geom.entity, order_of_shape[geom.entity, id(geom.shape)])
            for geom in pair
        )
        return [(sides[0][0], sides[1][0]), sides[0], sides[1]]

    order = sorted(range(len(pairs)), key=lambda i: key(pairs[i]))
    ranks = np.zeros(len(pairs), np.int32)
    ranks[order] = np.arange(len(pairs))
    return ranks


_packed_hulls: LruCache[tuple[list[Array], Array]] = LruCache(64 * 2**20)
"""Concatenated hulls of earlier builds, and the hulls, by the identity of the hulls; equal scenes share the memory."""


def pack_shape_data(collision_shapes: list[CollisionShape]) -> tuple[list[int], list[tuple[int, int]], Array]:
    """Concatenate the data of distinct hulls, height fields and SDFs of all geoms into one float array.

    Returns the start of each geom, two counts per geom (hull: vertices and faces; height field: rows and columns; SDF:
    contact sample points and 0), and the array. Raises KinemaError if the array exceeds `MAX_DATA_SIZE`.
    """
    starts, counts, arrays, length = [], [], [np.zeros(0)], 0
    blocks: dict[int, tuple[int, tuple[int, int]]] = {}  # start and counts by `id` of the source
    for shape in collision_shapes:
        source = shape.hull.data if shape.hull is not None else shape.heights if shape.sdf is None else shape.sdf
        if source is None:
            starts.append(length)
            counts.append((0, 0))
            continue
        if id(source) not in blocks:
            if shape.hull is not None:
                values, count = shape.hull.data, (shape.hull.n_vertices[0], shape.hull.n_faces[0])
            elif shape.heights is not None:
                values, count = shape.heights.ravel(), shape.heights.shape
            else:
                assert shape.sdf is not None
                values, count = pack_sdf(shape.sdf), (len(shape.sdf.contact_sample_points), 0)
            blocks[id(source)] = length, count
            arrays.append(values)
            length += len(values)
        start, count = blocks[id(source)]
        starts.append(start)
        counts.append(count)
    if length > MAX_DATA_SIZE:
        raise KinemaError(
            f"the meshes and distance fields of this scene take {length:,} values, more than the {MAX_DATA_SIZE:,} "
            "that can be indexed in single precision: lower the resolution of distance fields (km.Mesh(resolution=...))"
        )
    if any(shape.heights is not None or shape.sdf is not None for shape in collision_shapes):
        return starts, counts, np.concatenate(arrays)
    by_id = {id(shape.hull.data): shape.hull.data for shape in collision_shapes if shape.hull is not None}
    hulls = list(by_id.values())  # the same in each build
    key = " ".join(str(id(data)) for data in hulls)
    _, packed = _packed_hulls.get_or_compute(key, lambda: (hulls, np.concatenate(arrays)), lambda x: x[1].nbytes)
    return starts, counts, packed
