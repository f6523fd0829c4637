"""Which geoms collide: bit masks, excluded pairs of bodies and explicit pairs of geoms, just as the description says.

MuJoCo never lets geoms of one rigid body collide, nor those of a body and its parent. What the description says
beyond that is said by the shapes' own masks and by the description's own pairs, if that is all there is. Otherwise
masks are made from the rules, and what they leave wrong is put right pair by pair: an `<exclude>` forbids two bodies,
a `<pair>` allows two geoms whatever else forbids it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from itertools import combinations

from kinema.description import (
    Assembly,
    Collider,
    CollisionPair,
    Node,
    Shape,
    World,
    colliders,
    collision_rules,
    may_collide,
)

from ..text import Element
from .bodies import BodyPlan, body_name
from .masks import classes_of, collide, cover
from .surfaces import pair_attributes
from .writing import FORMAT, Writing

Masks = dict[int, tuple[int, int]]
"""`id` of a shape -> its `contype` and `conaffinity`."""
BodyPair = frozenset[int]
"""Two `id`s of bodies; 0 is the world."""
WORLD = 0


@dataclass(slots=True, eq=False)
class Geom:
    """A collision shape in the file."""

    shape: Shape
    collider: Collider
    body: BodyPlan | None
    number: int

    @property
    def body_id(self) -> int:
        """The body's identity; 0 for the world."""
        return WORLD if self.body is None else id(self.body)


@dataclass(slots=True, eq=False)
class Filter:
    """What is written: masks, excluded bodies, explicit pairs."""

    masks: Masks
    excluded: dict[BodyPair, CollisionPair | None] = field(default_factory=dict)
    pairs: dict[tuple[int, int], CollisionPair | None] = field(default_factory=dict)
    """Numbers of two geoms -> the rule that asks for them."""

    @property
    def cost(self) -> int:
        """Elements that it takes."""
        return len(self.excluded) + len(self.pairs)


def write_collisions(writing: Writing) -> None:
    """Fill in the geoms' masks and write the `<contact>` section."""
    geoms = _geoms(writing)
    own: Masks = {id(g.shape): (g.shape.contype, g.shape.conaffinity) for g in geoms}
    plain = Filter(own)
    _own_pairs(writing, geoms, plain)
    chosen = plain
    if not _is_native(writing):
        wanted = _wanted(writing, geoms)
        for key in [k for k in plain.pairs if k not in wanted]:
            rule = plain.pairs.pop(key)
            assert rule is not None  # so far there are only the description's own
            writing.drop(("pair", rule.name or f"{rule.a} {rule.b}"), "the pair", "its shapes never move apart")
        structure = _Structure(geoms, parents_collide=parents_collide(writing))
        chosen = _mended(plain, structure, wanted)
        made = None if chosen.cost == plain.cost else _made_masks(writing, structure, geoms, wanted, plain)
        if made is not None:
            other = _mended(Filter(made, plain.excluded, plain.pairs), structure, wanted)
            chosen = min(chosen, other, key=lambda f: f.cost)  # the shapes' own masks where they do as well
    _write(writing, geoms, chosen)


def parents_collide(writing: Writing) -> bool:
    """Whether MuJoCo's rule that a body does not touch its parent is to be switched off."""
    return any(home.collision.neighbours_collide for home in writing.homes)


def _geoms(writing: Writing) -> list[Geom]:
    """The collision shapes in the file."""
    body_of = {id(s): body for body in writing.body_of.values() if body.link is not None for s in body.link.shapes}
    found: list[Geom] = []
    for collider in colliders(writing.described)[0]:
        if id(collider.shape) in writing.geoms and collider.shape.enabled:
            found.append(Geom(collider.shape, collider, body_of.get(id(collider.shape)), len(found)))
    return found


def _is_native(writing: Writing) -> bool:
    """Whether the description's rules are MuJoCo's own, so that nothing needs to be worked out."""
    rules = [home.collision for home in writing.homes]
    if any(r.groups or not r.self_collide for r in rules) or len({r.neighbours_collide for r in rules}) > 1:
        return False
    if any(p.collide == (p.between == "links") for r in rules for p in r.pairs):
        return False
    for robot in writing.robots:
        tree = robot.tree()
        if robot.format != FORMAT or tree.roots or tree.loops or tree.dangling:
            return False
        if any(link.self_collide is False for link in robot.links):
            return False
        if any(j.collision_enabled is not None or not j.enabled for j in robot.joints):
            return False
    return True


# -- the description's own pairs --------------------------------------------------------------------------------------


def _own_pairs(writing: Writing, geoms: list[Geom], into: Filter) -> None:
    """The pairs that the description names; whom it does not name well is left to `_mended`."""
    by_shape: dict[str, list[Geom]] = defaultdict(list)
    for geom in geoms:
        by_shape[geom.shape.name].append(geom)
    for home in writing.homes:
        for pair in home.collision.pairs:
            if pair.collide and pair.between == "shapes":
                both = [(a, b) for a in by_shape.get(pair.a, ()) for b in by_shape.get(pair.b, ()) if a is not b]
                own = [(a, b) for a, b in both if _has(home, a) and _has(home, b)]
                into.pairs |= {_ordered(a, b): pair for a, b in own if _ordered(a, b) not in into.pairs}
                if not own:
                    writing.drop(("pair", pair.name or f"{pair.a} {pair.b}"), "the pair", "it names no shapes")
            elif not pair.collide and pair.between == "links":
                ends = [_body_id(writing, name, home) for name in (pair.a, pair.b)]
                if None in ends:
                    writing.drop(("pair", pair.name or f"{pair.a} {pair.b}"), "the pair", "it names no link")
                else:
                    into.excluded.setdefault(frozenset(e for e in ends if e is not None), pair)


def _body_id(writing: Writing, name: str, home: Assembly) -> int | None:
    """The body of a link that a pair names; None where there is none."""
    entry = writing.names.find("body", name, home)
    if entry is not None:
        body = writing.body_of.get(id(entry.node))
        return None if body is None else id(body)
    return WORLD if name == "world" else None


def _has(home: Assembly, geom: Geom) -> bool:
    """Whether the rules of a robot or of the world have a say about a geom."""
    return isinstance(home, World) or geom.body is None or geom.body.robot is home


def _ordered(a: Geom, b: Geom) -> tuple[int, int]:
    return (a.number, b.number) if a.number < b.number else (b.number, a.number)


# -- what is wanted, and what MuJoCo allows ---------------------------------------------------------------------------


def _wanted(writing: Writing, geoms: list[Geom]) -> set[tuple[int, int]]:
    """The pairs of geoms that may collide by the description."""
    neighbours = colliders(writing.described)[1]
    rules = collision_rules(writing.described)
    return {
        (a.number, b.number)
        for a, b in combinations(geoms, 2)
        if may_collide(a.collider, b.collider, rules, neighbours)
    }


class _Structure:
    """Which pairs MuJoCo allows by the tree of bodies alone."""

    def __init__(self, geoms: list[Geom], *, parents_collide: bool) -> None:
        self.parents_collide = parents_collide
        self.weld = {g.body_id: None if g.body is None else g.body.weld for g in geoms}
        self.above = {id(w): None if w.parent is None else w.parent.weld for w in self.weld.values() if w is not None}
        self.possible = {(a.number, b.number): (a, b) for a, b in combinations(geoms, 2) if self._can_meet(a, b)}
        """Pairs of which one can move against the other."""
        self.allowed = {key for key, (a, b) in self.possible.items() if not self._parent_and_child(a, b)}

    def _can_meet(self, a: Geom, b: Geom) -> bool:
        one, other = self.weld[a.body_id], self.weld[b.body_id]
        return one is not other and any(w is not None and not w.mocap for w in (one, other))

    def _parent_and_child(self, a: Geom, b: Geom) -> bool:
        one, other = self.weld[a.body_id], self.weld[b.body_id]
        if self.parents_collide or one is None or other is None:
            return False
        return self.above[id(one)] is other or self.above[id(other)] is one


def _mended(start: Filter, structure: _Structure, wanted: set[tuple[int, int]]) -> Filter:
    """The filter with pairs added until it is right."""
    result = Filter(start.masks, dict(start.excluded), dict(start.pairs))
    wrong_bodies: dict[BodyPair, None] = {}
    for key in structure.allowed:
        a, b = structure.possible[key]
        bodies = frozenset((a.body_id, b.body_id))
        if key in wanted or key in result.pairs or bodies in result.excluded:
            continue
        if collide(result.masks[id(a.shape)], result.masks[id(b.shape)]):
            wrong_bodies.setdefault(bodies)
    result.excluded |= dict.fromkeys(wrong_bodies)
    for key, (a, b) in structure.possible.items():
        if key not in wanted or key in result.pairs:
            continue
        excluded = frozenset((a.body_id, b.body_id)) in result.excluded
        by_masks = key in structure.allowed and collide(result.masks[id(a.shape)], result.masks[id(b.shape)])
        if excluded or not by_masks:
            result.pairs[key] = None
    return result


def _made_masks(
    writing: Writing, structure: _Structure, geoms: list[Geom], wanted: set[tuple[int, int]], plain: Filter
) -> Masks | None:
    """Masks for classes of geoms that the rules treat alike."""
    numbers, count = classes_of(_rule_keys(writing, geoms))
    seen: dict[tuple[int, int], set[bool]] = defaultdict(set)
    for key in structure.allowed:
        a, b = structure.possible[key]
        if key in plain.pairs or frozenset((a.body_id, b.body_id)) in plain.excluded:
            continue
        one, other = sorted((numbers[a.number], numbers[b.number]))
        seen[one, other].add(key in wanted)

    def decided(i: int, j: int) -> bool | None:
        verdicts = seen.get((i, j) if i <= j else (j, i))
        return None if not verdicts else True in verdicts

    masks = cover(count, decided)
    return None if masks is None else {id(g.shape): masks[numbers[g.number]] for g in geoms}


def _rule_keys(writing: Writing, geoms: list[Geom]) -> list[Hashable]:
    """Geoms that are equal by this are alike to masks, groups, self-collision and pairs of shapes."""
    rules = [home.collision for home in writing.homes]
    groups = [(i, group) for i, group in enumerate(g for r in rules for g in r.groups)]
    apart = {name for r in rules for p in r.pairs if p.between == "shapes" and not p.collide for name in (p.a, p.b)}
    keys: list[Hashable] = []
    for geom in geoms:
        collider = geom.collider
        names = {"shapes": {geom.shape.name}, "links": {collider.link}}
        member = tuple(
            i for i, g in groups if names.get(g.between, {geom.shape.name, collider.link}).intersection(g.members)
        )
        alone = None if collider.self_collide or collider.link is None else collider.robot
        by_name = geom.shape.name if geom.shape.name in apart else None
        keys.append((geom.shape.contype, geom.shape.conaffinity, collider.self_collide, alone, member, by_name))
    return keys


# -- into the file ----------------------------------------------------------------------------------------------------


def _write(writing: Writing, geoms: list[Geom], chosen: Filter) -> None:
    for key, element in writing.geoms.items():
        masks = chosen.masks.get(key, (0, 0))
        for name, mask in zip(("contype", "conaffinity"), masks, strict=True):
            if mask == 1:
                element.attributes.pop(name, None)
            else:
                element.attributes[name] = str(signed(mask))
    section = writing.section("contact")
    bodies = {id(body): body for body in writing.body_of.values()}
    for ends, rule in chosen.excluded.items():
        first, second = _names_of(writing, ends, bodies, rule)
        section.child("exclude", name=(rule.name or None) if rule else None, body1=first, body2=second)
    for (i, j), rule in sorted(chosen.pairs.items(), key=lambda item: item[1] is None):
        section.children.append(_pair(writing, geoms[i].shape, geoms[j].shape, rule))


def signed(mask: int) -> int:
    """A bit mask as the 32-bit number that MuJoCo reads."""
    mask &= 0xFFFFFFFF
    return mask - 2**32 if mask >= 2**31 else mask


def _names_of(
    writing: Writing, ends: BodyPair, bodies: dict[int, BodyPlan], rule: CollisionPair | None
) -> tuple[str, str]:
    names = ["world" if end == WORLD else body_name(writing, bodies[end]) for end in _in_order(ends, bodies)]
    names *= 3 - len(names)  # a body and itself
    if rule is not None and names[0] == rule.b:
        names.reverse()
    return names[0], names[1]


def _in_order(ends: BodyPair, bodies: dict[int, BodyPlan]) -> Iterator[int]:
    order = {key: i for i, key in enumerate(bodies)}
    yield from sorted(ends, key=lambda end: order.get(end, -1))


def _pair(writing: Writing, a: Shape, b: Shape, rule: CollisionPair | None) -> Element:
    if rule is not None and a.name == rule.b:
        a, b = b, a
    element = Element("pair")
    element.set({"name": (rule.name or None) if rule else None})
    element.set({"geom1": writing.names.of("geom", a), "geom2": writing.names.of("geom", b)})
    if rule is not None and rule.surface is not None:
        owner = Node(name=rule.name or f"{rule.a} {rule.b}", origin=rule.origin)
        element.set(pair_attributes(writing, owner, rule.surface))
    return element
