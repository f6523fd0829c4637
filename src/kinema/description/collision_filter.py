"""Collision filtering: groups, explicit pairs, bit masks and adjacent bodies, combined by `may_collide`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kinema.core import UNKNOWN_ORIGIN, Origin

from .material import PhysicsMaterial
from .node import Node
from .shape import Shape


@dataclass(kw_only=True, slots=True, eq=False)
class CollisionGroup(Node):
    """A set of links or shapes, and the groups that its members do not collide with (USD collision groups)."""

    members: list[str] = field(default_factory=list)
    """Names of links or shapes."""
    between: str = ""
    """Type of the members: `links`, `shapes`, or empty for either."""
    filtered: list[str] = field(default_factory=list)
    """Names of the groups that the members do not collide with."""
    invert: bool = False
    """Whether the members collide only with `filtered` groups, and with nothing else."""
    merge: str = ""
    """Groups with the same nonempty merge name act as one group."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CollisionPair:
    """Two links or shapes that never collide, or (MJCF `pair`) always collide, with contact parameters of their own."""

    a: str
    b: str
    name: str = ""
    collide: bool = False
    """Whether the pair always collides; else never."""
    between: str = "links"
    """`links` or `shapes`."""
    surface: PhysicsMaterial | None = None
    """Contact parameters of the pair; None for those of the shapes."""
    origin: Origin = UNKNOWN_ORIGIN


@dataclass(kw_only=True, slots=True, eq=False)
class CollisionRules:
    """Collision filters of a robot or world."""

    groups: list[CollisionGroup] = field(default_factory=list)
    pairs: list[CollisionPair] = field(default_factory=list)
    self_collide: bool = True
    """Whether links of one robot may collide with each other."""
    neighbours_collide: bool = False
    """Whether two links connected by a joint may collide if the joint does not specify it."""

    @property
    def is_default(self) -> bool:
        """Whether the rules filter nothing beyond the defaults."""
        return not (self.groups or self.pairs) and self.self_collide and not self.neighbours_collide


@dataclass(frozen=True, slots=True, eq=False)
class Collider:
    """A collision shape with the properties that the filters need."""

    shape: Shape
    link: str | None
    """Name of the link; None for static shapes of the world."""
    robot: str = ""
    body: int = -1
    """Index of the rigid body: links without relative motion share one; -1 for everything that never moves."""
    self_collide: bool = True
    """Whether the shape may collide with other links of its robot."""
    movable: bool = True
    """False if forces do not move the body: static or kinematic."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names that rules may refer to the collider by: of the shape and of the link."""
        return tuple(n for n in (self.shape.name, self.link) if n)


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """Pairs of bodies connected by joints, and whether they may collide."""

    joined: dict[frozenset[int], bool]
    """Whether a pair of connected bodies may collide, by the set of their indices."""

    def may_collide(self, a: int, b: int) -> bool:
        """Whether the joints between two bodies allow collision; bodies without a joint between them may collide."""
        return self.joined.get(frozenset((a, b)), True)


@dataclass(slots=True, eq=False)
class ScopedRules:
    """Collision rules with their scope, and lookup tables of their explicit pairs."""

    rules: CollisionRules
    robot: str | None = None
    """Name of the robot between whose links the rules apply; None for everywhere."""
    _between_links: dict[frozenset[str], bool] = field(default_factory=dict)
    _between_shapes: dict[frozenset[str], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for pair in self.rules.pairs:
            table = self._between_shapes if pair.between == "shapes" else self._between_links
            key = frozenset((pair.a, pair.b))
            table[key] = table.get(key, False) or pair.collide  # an explicit colliding pair overrides exclusions

    def apply_to(self, a: Collider, b: Collider) -> bool:
        """Whether the rules apply to two colliders: no scope, or both belong to the robot of the scope."""
        return self.robot is None or a.robot == b.robot == self.robot

    def explicit_pair_result(self, a: Collider, b: Collider) -> bool | None:
        """Whether an explicit pair lets two colliders collide: True or False; None if there is no such pair.

        Pairs of shapes and of links are considered; a colliding one overrides an excluding one. The link name of static
        shapes is `world`.
        """
        links = self._between_links.get(frozenset((a.link or "world", b.link or "world")))
        shapes = self._between_shapes.get(frozenset((a.shape.name, b.shape.name)))
        return links if shapes is None else bool(links) or shapes


def may_collide(a: Collider, b: Collider, rules: Iterable[ScopedRules], neighbours: Neighbours) -> bool:
    """Whether two collision shapes may collide, so that the narrow phase has to test them.

    Both must be enabled collision shapes of different bodies, at least one of which is movable. Explicit pairs decide;
    without one, bit masks (contype, conaffinity), self-collision, adjacency and groups must all allow the collision.

    Args:
        a: first collider.
        b: second collider.
        rules: collision rules with their scopes.
        neighbours: bodies connected by joints.
    """
    if not (_is_enabled(a) and _is_enabled(b)) or a.body == b.body or not (a.movable or b.movable):
        return False
    applicable = [r for r in rules if r.apply_to(a, b)]
    pair_results = [result for result in (r.explicit_pair_result(a, b) for r in applicable) if result is not None]
    if pair_results:
        return any(pair_results)
    if not (a.shape.contype & b.shape.conaffinity or b.shape.contype & a.shape.conaffinity):
        return False
    if _are_in_one_robot(a, b) and not (a.self_collide or b.self_collide):
        return False
    if not neighbours.may_collide(a.body, b.body):
        return False
    return not any(_filtered_by_groups(a, b, r.rules.groups) for r in applicable)


def _are_in_one_robot(a: Collider, b: Collider) -> bool:
    return a.robot == b.robot and a.link is not None and b.link is not None


def _is_enabled(collider: Collider) -> bool:
    return collider.shape.collision and collider.shape.enabled


def _filtered_by_groups(a: Collider, b: Collider, groups: list[CollisionGroup]) -> bool:
    groups_a = _groups_of(a, groups)
    groups_b = _groups_of(b, groups)
    return any(_group_forbids(x, groups_b, groups) for x in groups_a) or any(
        _group_forbids(x, groups_a, groups) for x in groups_b
    )


def _groups_of(collider: Collider, groups: list[CollisionGroup]) -> list[CollisionGroup]:
    return [g for g in groups if any(name in g.members for name in _names_in_group(collider, g))]


def _names_in_group(collider: Collider, group: CollisionGroup) -> tuple[str | None, ...]:
    """Names by which a group may list a collider as a member, according to the type of its members."""
    if group.between == "shapes":
        return (collider.shape.name,)
    return (collider.link,) if group.between == "links" else collider.names


def _group_forbids(group: CollisionGroup, others: list[CollisionGroup], groups: list[CollisionGroup]) -> bool:
    """Whether a group, or a group merged with it, forbids collisions with a collider that is a member of all `others`.

    Each merged group filters independently: a collision that one of them forbids is forbidden.
    """
    merged = [g for g in groups if g is group or (group.merge and g.merge == group.merge)]
    return any(_contains_group(g.filtered, others, groups) != g.invert for g in merged)


def _contains_group(group_names: list[str], others: list[CollisionGroup], groups: list[CollisionGroup]) -> bool:
    """Whether one of the groups `others` is among the names, directly or through a group merged with it."""
    merge_names = {g.merge for g in groups if g.merge and g.name in group_names}
    return any(g.name in group_names or g.merge in merge_names for g in others)
