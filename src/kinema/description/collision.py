"""Which shapes may collide: groups, pairs, bit masks, neighbours, and the one function that puts them together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kinema.foundation import NOWHERE, Origin

from .material import PhysicsMaterial
from .node import Node
from .shape import Shape


@dataclass(kw_only=True, slots=True, eq=False)
class CollisionGroup(Node):
    """A set of links or shapes, and the groups it does not collide with."""

    members: list[str] = field(default_factory=list)
    """Names of links or shapes."""
    between: str = ""
    """What the members are: `links`, `shapes`, or either where empty."""
    filtered: list[str] = field(default_factory=list)
    """Names of the groups its members do not collide with."""
    invert: bool = False
    """True where its members collide only with `filtered` groups and nothing else, grouped or not."""
    merge: str = ""
    """Groups of one merge name act as one."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CollisionPair:
    """Two links or shapes that never collide, or (MJCF `pair`) always do, with their own contact parameters."""

    a: str
    b: str
    name: str = ""
    collide: bool = False
    between: str = "links"
    """`links` or `shapes`."""
    surface: PhysicsMaterial | None = None
    origin: Origin = NOWHERE


@dataclass(kw_only=True, slots=True, eq=False)
class CollisionRules:
    """How the shapes of a robot or world are filtered."""

    groups: list[CollisionGroup] = field(default_factory=list)
    pairs: list[CollisionPair] = field(default_factory=list)
    self_collide: bool = True
    """Whether links of one robot may collide with each other at all."""
    neighbours_collide: bool = False
    """Whether two links joined by a joint may collide, where the joint does not say."""

    @property
    def is_default(self) -> bool:
        """Whether nothing is filtered beyond the defaults."""
        return not (self.groups or self.pairs) and self.self_collide and not self.neighbours_collide


@dataclass(frozen=True, slots=True, eq=False)
class Collider:
    """A shape that may collide, with what the filter has to know of its place."""

    shape: Shape
    link: str | None
    """None for the world's own static shapes."""
    robot: str = ""
    body: int = -1
    """Links that cannot move against each other share a body; -1 is everything that never moves."""
    self_collide: bool = True
    movable: bool = True
    """False where no force moves it: it is static, or kinematic."""

    @property
    def names(self) -> tuple[str, ...]:
        """What rules may call it by."""
        return tuple(n for n in (self.shape.name, self.link) if n)


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """Which bodies are joined, and whether a joint lets them collide."""

    joined: dict[frozenset[int], bool]
    """A pair of bodies -> whether they may collide."""

    def may_collide(self, a: int, b: int) -> bool:
        """Whether nothing that joins the two bodies forbids it."""
        return self.joined.get(frozenset((a, b)), True)


@dataclass(slots=True, eq=False)
class ScopedRules:
    """Rules and where they hold, with their pairs ready to be looked up."""

    rules: CollisionRules
    robot: str | None = None
    """Only between links of this robot; None for everywhere."""
    _between_links: dict[frozenset[str], bool] = field(default_factory=dict)
    _between_shapes: dict[frozenset[str], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for pair in self.rules.pairs:
            table = self._between_shapes if pair.between == "shapes" else self._between_links
            key = frozenset((pair.a, pair.b))
            table[key] = table.get(key, False) or pair.collide  # a pair asked for by name beats every exclusion

    def hold_for(self, a: Collider, b: Collider) -> bool:
        """Whether the rules have a say about two shapes."""
        return self.robot is None or a.robot == b.robot == self.robot

    def pair_verdict(self, a: Collider, b: Collider) -> bool | None:
        """What an explicit pair says of two shapes; None where there is none. The world is called `world`."""
        links = self._between_links.get(frozenset((a.link or "world", b.link or "world")))
        shapes = self._between_shapes.get(frozenset((a.shape.name, b.shape.name)))
        return links if shapes is None else bool(links) or shapes


def may_collide(a: Collider, b: Collider, rules: Iterable[ScopedRules], neighbours: Neighbours) -> bool:
    """Whether the narrow phase has to look at two shapes.

    Both must be enabled collision shapes on different bodies, one of which a force can move. An explicit pair decides;
    without one, bit masks, groups, self-collision and neighbourhood must all allow it.
    """
    if not (_active(a) and _active(b)) or a.body == b.body or not (a.movable or b.movable):
        return False
    holding = [r for r in rules if r.hold_for(a, b)]
    verdicts = [v for v in (r.pair_verdict(a, b) for r in holding) if v is not None]
    if verdicts:
        return any(verdicts)
    if not (a.shape.contype & b.shape.conaffinity or b.shape.contype & a.shape.conaffinity):
        return False
    if _in_one_robot(a, b) and not (a.self_collide or b.self_collide):
        return False
    if not neighbours.may_collide(a.body, b.body):
        return False
    return not any(_filtered_by_groups(a, b, r.rules.groups) for r in holding)


def _in_one_robot(a: Collider, b: Collider) -> bool:
    return a.robot == b.robot and a.link is not None and b.link is not None


def _active(collider: Collider) -> bool:
    return collider.shape.collision and collider.shape.enabled


def _filtered_by_groups(a: Collider, b: Collider, groups: list[CollisionGroup]) -> bool:
    groups_a = _groups_of(a, groups)
    groups_b = _groups_of(b, groups)
    return any(_group_filters(x, groups_b, groups) for x in groups_a) or any(
        _group_filters(x, groups_a, groups) for x in groups_b
    )


def _groups_of(collider: Collider, groups: list[CollisionGroup]) -> list[CollisionGroup]:
    return [g for g in groups if any(name in g.members for name in _names_for(collider, g))]


def _names_for(collider: Collider, group: CollisionGroup) -> tuple[str | None, ...]:
    """What a group may call a collider by."""
    if group.between == "shapes":
        return (collider.shape.name,)
    return (collider.link,) if group.between == "links" else collider.names


def _group_filters(group: CollisionGroup, others: list[CollisionGroup], groups: list[CollisionGroup]) -> bool:
    """Whether the group forbids collision with something that is in all of `others`.

    Each of the groups merged into one filters for itself: none can allow again what another forbids.
    """
    merged = [g for g in groups if g is group or (group.merge and g.merge == group.merge)]
    return any(_names_any(g.filtered, others, groups) != g.invert for g in merged)


def _names_any(names: list[str], others: list[CollisionGroup], groups: list[CollisionGroup]) -> bool:
    """Whether one of the groups is named; a merged group is named by any of its parts."""
    parts = {g.merge for g in groups if g.merge and g.name in names}
    return any(g.name in names or g.merge in parts for g in others)
