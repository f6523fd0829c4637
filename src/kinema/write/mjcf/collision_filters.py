"""Collision filtering: contype and conaffinity masks by a greedy biclique cover, body excludes, explicit geom pairs.

Bit k lets every geom class with bit k in `contype` collide with every class with bit k in `conaffinity`, so a bit is a
biclique of the graph of colliding classes, and the masks are a cover of its edges by bicliques, found greedily.

MuJoCo never lets geoms of one rigid body collide, nor geoms of a body and its parent. Beyond that the masks decide, an
`exclude` forbids all contacts of two bodies, and a `pair` enables contacts of two geoms unconditionally. Any masks can
therefore be corrected by excludes and pairs; good masks need few. Masks and pairs of the description are written as
they are if they are its only collision rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kinema.description import (
    Assembly,
    Collider,
    CollisionGroup,
    CollisionPair,
    CollisionRules,
    Node,
    Robot,
    Shape,
    World,
    colliders,
    collision_rules,
    may_collide,
)
from kinema.tokens import mjcf

from ..xml_document import Element
from .bodies import body_name
from .context import MjcfBody, MjcfContext
from .geoms import pair_attributes

# --------------------------------------------------------------------------------- bit masks by a greedy biclique cover

MAX_BITS = 31
"""Number of usable bits of MuJoCo's signed 32-bit masks."""

DesiredCollision = Callable[[int, int], bool | None]
"""Whether two classes must collide; None if irrelevant."""


def masks_by_biclique_cover(n_classes: int, desired: DesiredCollision) -> list[tuple[int, int]] | None:
    """Masks (contype, conaffinity) of geom classes by a greedy biclique cover of the desired pairs.

    Returns:
        Masks per class; None if more than `MAX_BITS` bits are needed.
    """
    open_pairs = {(i, j) for i in range(n_classes) for j in range(i, n_classes) if desired(i, j)}
    bits: list[tuple[set[int], set[int]]] = []
    while open_pairs:
        if len(bits) == MAX_BITS:
            return None
        one, other = _grow_biclique(min(open_pairs), n_classes, desired, open_pairs)
        bits.append((one, other))
        open_pairs -= {_ordered_pair(i, j) for i in one for j in other}
    masks = [
        (
            sum(1 << k for k, (one, _) in enumerate(bits) if c in one),
            sum(1 << k for k, (_, other) in enumerate(bits) if c in other),
        )
        for c in range(n_classes)
    ]
    return _with_bit_for_isolated_classes(masks, len(bits))


def _grow_biclique(
    start: tuple[int, int], n_classes: int, desired: DesiredCollision, open_pairs: set[tuple[int, int]]
) -> tuple[set[int], set[int]]:
    """Greedily grow a biclique of allowed pairs around a pair, adding the class that covers the most open pairs."""
    one, other = {start[0]}, {start[1]}
    while True:
        best: tuple[int, int, int] | None = None
        for c in range(n_classes):
            for side, own, opposite in ((0, one, other), (1, other, one)):
                if c in own or any(desired(c, o) is False for o in opposite):
                    continue
                gain = sum(
                    1 for o in opposite if _ordered_pair(c, o) in open_pairs and not _is_covered(c, o, one, other)
                )
                if gain and (best is None or gain > best[0]):
                    best = (gain, c, side)
        if best is not None:
            (one if best[2] == 0 else other).add(best[1])
            continue
        both = _find_extension(one, other, desired, open_pairs)
        if both is None:
            return one, other
        one.add(both[0])
        other.add(both[1])


def _find_extension(
    contype_classes: set[int],
    conaffinity_classes: set[int],
    desired: DesiredCollision,
    open_pairs: set[tuple[int, int]],
) -> tuple[int, int] | None:
    """Uncovered pair whose classes can be added to the two sides of a biclique; None if there is none."""
    for pair in sorted(open_pairs):
        if _is_covered(*pair, contype_classes, conaffinity_classes):
            continue
        for i, j in (pair, pair[::-1]):
            fits = all(desired(i, o) is not False for o in conaffinity_classes) and all(
                desired(j, o) is not False for o in contype_classes
            )
            if fits:
                return i, j
    return None


def _is_covered(i: int, j: int, contype_classes: set[int], conaffinity_classes: set[int]) -> bool:
    return (i in contype_classes and j in conaffinity_classes) or (j in contype_classes and i in conaffinity_classes)


def _ordered_pair(i: int, j: int) -> tuple[int, int]:
    return (i, j) if i <= j else (j, i)


def _with_bit_for_isolated_classes(masks: list[tuple[int, int]], n_bits: int) -> list[tuple[int, int]] | None:
    """Masks with a spare contype bit for classes that collide with no other class.

    Without any bit such geoms would be visual only; with a contype bit they still collide with geoms of other models.
    Returns None if there is no spare bit.
    """
    if all(a or b for a, b in masks):
        return masks
    affinities = 0
    for _, conaffinity in masks:
        affinities |= conaffinity
    spare = next((k for k in range(MAX_BITS) if not affinities >> k & 1), None)
    return None if spare is None else [m if any(m) else (1 << spare, 0) for m in masks]


def classify(keys: Sequence[Hashable]) -> tuple[list[int], int]:
    """Class index of each item, equal keys sharing a class, and the number of classes."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys], len(numbers)


# -------------------------------------------------------------------------- filters: masks, excludes and explicit pairs

GeomTable = NDArray[np.bool_]
"""Symmetric boolean matrix (n_geoms, n_geoms)."""
BodyIdPair = frozenset[int]
"""`id`s of two bodies (one for a body and itself); 0 is the world."""
WORLD_ID = 0


@dataclass(slots=True, eq=False)
class FilterGeom:
    """Collision geom of the file with its shape, collider and body."""

    shape: Shape
    collider: Collider
    body: MjcfBody | None
    index: int

    @property
    def body_id(self) -> int:
        """`id` of the body; 0 for the world."""
        return WORLD_ID if self.body is None else id(self.body)


@dataclass(slots=True, eq=False)
class CollisionFilter:
    """Collision filter of a file: masks, body excludes and explicit pairs."""

    masks: list[tuple[int, int]]
    """(contype, conaffinity) of each geom."""
    excluded: dict[BodyIdPair, CollisionPair | None] = field(default_factory=dict)
    """Excluded bodies -> rule of the description, or None if generated."""
    pairs: dict[tuple[int, int], CollisionPair | None] = field(default_factory=dict)
    """Indices of two geoms -> rule of the description, or None if generated."""

    @property
    def cost(self) -> int:
        """Number of exclude and pair elements."""
        return len(self.excluded) + len(self.pairs)


class BodyStructure:
    """Geom pairs that MuJoCo allows by the body tree alone."""

    possible: GeomTable
    """Pairs of geoms that can move relative to each other."""
    allowed: GeomTable
    """Possible pairs without parent-child pairs (unless `parents_collide`)."""

    def __init__(self, geoms: Sequence[FilterGeom], *, parents_collide: bool) -> None:
        self.geoms = geoms
        welds = [None if g.body is None else g.body.weld_body for g in geoms]
        above = [None if w is None or w.parent is None else w.parent.weld_body for w in welds]
        number: dict[int, int] = {}
        weld = np.array([_body_number(w, number) for w in welds], dtype=np.int64)
        parent = np.array([_body_number(w, number) for w in above], dtype=np.int64)
        moved = np.array([w is not None and not w.mocap for w in welds], dtype=bool)
        self.possible = (weld[:, None] != weld[None, :]) & (moved[:, None] | moved[None, :])
        inside = (parent[:, None] == weld[None, :]) & (weld[None, :] > 0) & (weld[:, None] > 0)
        self.allowed = self.possible if parents_collide else self.possible & ~(inside | inside.T)

    def body_pairs(self, pairs: GeomTable) -> dict[BodyIdPair, None]:
        """Body pairs of the geom pairs in a table, in the order of the geoms."""
        return {self.body_pair(i, j): None for i, j in upper_triangle_pairs(pairs)}

    def body_pair(self, i: int, j: int) -> BodyIdPair:
        """Bodies of two geoms."""
        return frozenset((self.geoms[i].body_id, self.geoms[j].body_id))


def _body_number(body: MjcfBody | None, known: dict[int, int]) -> int:
    """Index of a body, assigned on first use; 0 for the world."""
    return 0 if body is None else known.setdefault(id(body), len(known) + 1)


def upper_triangle_pairs(table: GeomTable) -> list[tuple[int, int]]:
    """Index pairs (i < j) of the true entries of a symmetric table."""
    return [(int(i), int(j)) for i, j in np.argwhere(np.triu(table, 1))]


def desired_collisions(description: Robot | World, geoms: Sequence[FilterGeom]) -> GeomTable:
    """Table of geom pairs that may collide according to the rules of the description, evaluated per geom class."""
    neighbours = colliders(description)[1]
    rules = collision_rules(description)
    named = _names_in_rules([r.rules for r in rules])
    numbers, count = classify([_collision_key(g, named) for g in geoms])
    first = {number: geom for geom, number in reversed(list(zip(geoms, numbers, strict=True)))}
    verdicts = np.zeros((count, count), dtype=bool)
    for i in range(count):
        for j in range(i, count):
            verdicts[i, j] = may_collide(first[i].collider, first[j].collider, rules, neighbours)
    verdicts |= verdicts.T
    index = np.array(numbers, dtype=np.int64)
    return verdicts[np.ix_(index, index)] & ~np.eye(len(geoms), dtype=bool)


def _names_in_rules(rules: Iterable[CollisionRules]) -> set[str]:
    """Names that occur in pairs or groups of collision rules."""
    found: set[str] = set()
    for rule in rules:
        found.update(name for pair in rule.pairs for name in (pair.a, pair.b))
        found.update(name for group in rule.groups for name in group.members)
    return found


def _collision_key(geom: FilterGeom, names_in_rules: set[str]) -> Hashable:
    """Key of a geom; geoms with equal keys have equal collision behaviour."""
    shape, collider = geom.shape, geom.collider
    name = shape.name if shape.name in names_in_rules else None
    place = (collider.link, collider.robot, collider.body, collider.self_collide, collider.movable)
    return (*place, shape.contype, shape.conaffinity, name)


# ------------------------------------------------------------------------- correction of a filter by excludes and pairs


def correct_filter(initial: CollisionFilter, structure: BodyStructure, desired: GeomTable) -> CollisionFilter:
    """Filter with excludes and pairs added so that exactly the desired geom pairs collide."""
    result = CollisionFilter(initial.masks, dict(initial.excluded), dict(initial.pairs))
    by_masks = structure.allowed & _masks_collide_table(result.masks)
    asked = np.zeros_like(desired)
    for i, j in result.pairs:
        asked[i, j] = asked[j, i] = True
    excluded = _excluded_table(structure, result.excluded)
    wrong = by_masks & ~desired & ~asked & ~excluded
    result.excluded |= {bodies: None for bodies in structure.body_pairs(wrong) if bodies not in result.excluded}
    excluded = _excluded_table(structure, result.excluded)
    missing = structure.possible & desired & ~asked & (excluded | ~by_masks)
    result.pairs |= dict.fromkeys(upper_triangle_pairs(missing))
    return result


def _masks_collide_table(masks: Sequence[tuple[int, int]]) -> GeomTable:
    contype, conaffinity = (np.array([m[side] & 0xFFFFFFFF for m in masks], dtype=np.int64) for side in (0, 1))
    one_way = (contype[:, None] & conaffinity[None, :]) != 0
    return one_way | one_way.T


def _excluded_table(structure: BodyStructure, excluded: Iterable[BodyIdPair]) -> GeomTable:
    """Table of geom pairs whose bodies are excluded."""
    table = np.zeros_like(structure.possible)
    on_body: dict[int, list[int]] = defaultdict(list)
    for geom in structure.geoms:
        on_body[geom.body_id].append(geom.index)
    for bodies in excluded:
        first, *rest = bodies
        second = rest[0] if rest else first
        if on_body[first] and on_body[second]:
            table[np.ix_(on_body[first], on_body[second])] = True
            table[np.ix_(on_body[second], on_body[first])] = True
    return table


# ---------------------------------------------------------------------------------------------------------------- masks


def masks_from_rules(
    rules: Sequence[CollisionRules], structure: BodyStructure, desired: GeomTable, base_filter: CollisionFilter
) -> list[tuple[int, int]] | None:
    """Masks of the geoms from classes that the rules treat alike; None if too many bits are needed."""
    numbers, count = classify(_rule_class_keys(rules, structure.geoms))
    free = structure.allowed & ~_excluded_table(structure, base_filter.excluded)
    for i, j in base_filter.pairs:
        free[i, j] = free[j, i] = False
    member = np.zeros((count, len(numbers)), dtype=np.int64)
    member[numbers, range(len(numbers))] = 1
    some = member @ free.astype(np.int64) @ member.T
    some_wanted = member @ (free & desired).astype(np.int64) @ member.T

    def decided(i: int, j: int) -> bool | None:
        return None if not some[i, j] else bool(some_wanted[i, j])

    masks = masks_by_biclique_cover(count, decided)
    return None if masks is None else [masks[n] for n in numbers]


def _rule_class_keys(rules: Sequence[CollisionRules], geoms: Sequence[FilterGeom]) -> list[Hashable]:
    """Key of each geom by masks, groups, self-collision and named shape pairs; equal keys form a class."""
    groups = [group for r in rules for group in r.groups]
    apart = {name for r in rules for p in r.pairs if p.between == "shapes" and not p.collide for name in (p.a, p.b)}
    keys: list[Hashable] = []
    for geom in geoms:
        collider, shape = geom.collider, geom.shape
        member = tuple(i for i, group in enumerate(groups) if _is_group_member(geom, group))
        alone = None if collider.self_collide or collider.link is None else collider.robot
        by_name = shape.name if shape.name in apart else None
        keys.append((shape.contype, shape.conaffinity, collider.self_collide, alone, member, by_name))
    return keys


def _is_group_member(geom: FilterGeom, group: CollisionGroup) -> bool:
    by_shape = group.between != "links" and geom.shape.name in group.members
    return by_shape or (group.between != "shapes" and geom.collider.link in group.members)


# ----------------------------------------------------------------------------------- collision rules of the description

RepeatedPairs = dict[tuple[int, int], list[CollisionPair]]
"""Indices of two geoms -> further rules for the same pair."""


def write_collision_filters(ctx: MjcfContext) -> None:
    """Set the masks of all geoms and write the `<contact>` section."""
    geoms = _collision_geoms(ctx)
    chosen = CollisionFilter([(g.shape.contype, g.shape.conaffinity) for g in geoms])
    repeated = _apply_explicit_pairs(ctx, geoms, chosen)
    if not _rules_match_mujoco(ctx):
        chosen = _optimized_filter(ctx, geoms, chosen)
    _write_filter(ctx, geoms, chosen, repeated)
    for home in ctx.assemblies:
        for group in home.collision.groups:
            ctx.report_approximated(group, "a collision group", "who collides is said by the bit masks of geoms")


def parents_collide(ctx: MjcfContext) -> bool:
    """Whether MuJoCo's parent-child filter must be disabled."""
    return any(home.collision.neighbours_collide for home in ctx.assemblies)


def _collision_geoms(ctx: MjcfContext) -> list[FilterGeom]:
    """Collision geoms of the file."""
    body_of = {id(s): body for body in ctx.bodies_by_link.values() if body.link is not None for s in body.link.shapes}
    found: list[FilterGeom] = []
    for collider in colliders(ctx.description)[0]:
        if id(collider.shape) in ctx.geoms and collider.shape.enabled:
            found.append(FilterGeom(collider.shape, collider, body_of.get(id(collider.shape)), len(found)))
    return found


def _rules_match_mujoco(ctx: MjcfContext) -> bool:
    """Whether the rules of the description are those of MuJoCo, so that masks and pairs can be written unchanged."""
    rules = [home.collision for home in ctx.assemblies]
    if any(r.groups or not r.self_collide for r in rules) or len({r.neighbours_collide for r in rules}) > 1:
        return False
    if any(p.collide == (p.between == "links") for r in rules for p in r.pairs):
        return False
    for robot in ctx.robots:
        tree = robot.tree()
        if robot.format != mjcf.FORMAT or tree.roots or tree.loops or tree.dangling:
            return False
        if any(link.self_collide is False for link in robot.links):
            return False
        if any(j.collision_enabled is not None or not j.enabled for j in robot.joints):
            return False
    return True


def _optimized_filter(ctx: MjcfContext, geoms: list[FilterGeom], base_filter: CollisionFilter) -> CollisionFilter:
    """Corrected filter with the fewest elements: with the masks of the shapes, or with masks from the rules."""
    wanted = desired_collisions(ctx.description, geoms)
    for i, j in [pair for pair in base_filter.pairs if not wanted[pair]]:
        rule = base_filter.pairs.pop((i, j))
        assert rule is not None  # so far there are only the description's own
        ctx.report_dropped(_pair_label(rule), "the pair", "its shapes never move apart")
    structure = BodyStructure(geoms, parents_collide=parents_collide(ctx))
    own = correct_filter(base_filter, structure, wanted)
    if own.cost == base_filter.cost:
        return own
    masks = masks_from_rules([home.collision for home in ctx.assemblies], structure, wanted, base_filter)
    if masks is None:
        return own
    made = correct_filter(CollisionFilter(masks, base_filter.excluded, base_filter.pairs), structure, wanted)
    return min(own, made, key=lambda f: f.cost)  # the shapes' own masks where they do as well


# ---------------------------------------------------------------------------- explicit contact pairs of the description


def _apply_explicit_pairs(
    ctx: MjcfContext, geoms: list[FilterGeom], collision_filter: CollisionFilter
) -> RepeatedPairs:
    """Enter the explicit shape pairs and link excludes of the description into a filter.

    Returns:
        Rules that name a shape pair again: MuJoCo creates contacts for each of them.
    """
    repeated: RepeatedPairs = defaultdict(list)
    by_shape: dict[str, list[FilterGeom]] = defaultdict(list)
    for geom in geoms:
        by_shape[geom.shape.name].append(geom)
    for home in ctx.assemblies:
        for pair in home.collision.pairs:
            if pair.collide and pair.between == "shapes":
                _add_explicit_pair(ctx, home, pair, by_shape, collision_filter, repeated)
            elif not pair.collide and pair.between == "links":
                ends = [_find_body_id(ctx, name, home) for name in (pair.a, pair.b)]
                if None in ends:
                    ctx.report_dropped(_pair_label(pair), "the pair", "it names no link")
                else:
                    collision_filter.excluded.setdefault(frozenset(e for e in ends if e is not None), pair)
            elif pair.surface is not None:
                ctx.report_dropped(
                    _pair_label(pair), "how they touch", "MuJoCo has that for pairs of shapes that collide"
                )
    return repeated


def _add_explicit_pair(
    ctx: MjcfContext,
    assembly: Assembly,
    pair: CollisionPair,
    geoms_by_name: dict[str, list[FilterGeom]],
    collision_filter: CollisionFilter,
    repeated: RepeatedPairs,
) -> None:
    """Enter one shape pair into a filter, or into the repeated pairs; reports pairs without collision geoms."""
    both = [(a, b) for a in geoms_by_name.get(pair.a, ()) for b in geoms_by_name.get(pair.b, ()) if a is not b]
    own = [(a, b) for a, b in both if _rules_apply_to(assembly, a) and _rules_apply_to(assembly, b)]
    for a, b in own:
        ends = min(a.index, b.index), max(a.index, b.index)
        if collision_filter.pairs.setdefault(ends, pair) is not pair:
            repeated[ends].append(pair)
    if not own:
        ctx.report_dropped(_pair_label(pair), "the pair", "it names no shapes that collide")


def _pair_label(pair: CollisionPair) -> tuple[str, str]:
    """Kind and name of a pair for loss reports."""
    return "pair", pair.name or f"{pair.a} {pair.b}"


def _find_body_id(ctx: MjcfContext, name: str, assembly: Assembly) -> int | None:
    """`id` of the body of a link named by a pair, 0 for the world; None if missing."""
    entry = ctx.names.find(mjcf.BODY, name, assembly)
    if entry is not None:
        body = ctx.bodies_by_link.get(id(entry.node))
        return None if body is None else id(body)
    return WORLD_ID if name == "world" else None


def _rules_apply_to(assembly: Assembly, geom: FilterGeom) -> bool:
    """Whether the collision rules of an assembly apply to a geom."""
    return isinstance(assembly, World) or geom.body is None or geom.body.robot is assembly


# -------------------------------------------------------------------------------------- elements of the contact section


def _write_filter(
    ctx: MjcfContext, geoms: list[FilterGeom], collision_filter: CollisionFilter, repeated: RepeatedPairs
) -> None:
    """Write masks to the geoms, and exclude and pair elements to the contact section."""
    masks = {id(g.shape): m for g, m in zip(geoms, collision_filter.masks, strict=True)}
    for key, element in ctx.geoms.items():
        for name, mask in zip(("contype", "conaffinity"), masks.get(key, (0, 0)), strict=True):
            if mask == 1:
                element.attributes.pop(name, None)
            else:
                element.attributes[name] = str(signed_mask(mask))
    section = ctx.section(mjcf.CONTACT)
    bodies = {id(body): body for body in ctx.bodies_by_link.values()}
    for ends, rule in collision_filter.excluded.items():
        first, second = _body_names(ctx, ends, bodies, rule)
        section.add_child(mjcf.EXCLUDE, name=(rule.name or None) if rule else None, body1=first, body2=second)
    for (i, j), rule in sorted(collision_filter.pairs.items(), key=lambda item: item[1] is None):
        for each in (rule, *repeated.get((i, j), ())):
            section.children.append(_pair_element(ctx, geoms[i].shape, geoms[j].shape, each))


def signed_mask(mask: int) -> int:
    """Bit mask as signed 32-bit integer."""
    mask &= 0xFFFFFFFF
    return mask - 2**32 if mask >= 2**31 else mask


def _body_names(
    ctx: MjcfContext, ends: BodyIdPair, bodies: dict[int, MjcfBody], rule: CollisionPair | None
) -> tuple[str, str]:
    """Names of two excluded bodies in the order of the rule, else in file order."""
    order = {key: i for i, key in enumerate(bodies)}
    in_order = sorted(ends, key=lambda end: order.get(end, -1))
    names = ["world" if end == WORLD_ID else body_name(ctx, bodies[end]) for end in in_order]
    names *= 3 - len(names)  # a body and itself
    if rule is not None and names[0] == rule.b:
        names.reverse()
    return names[0], names[1]


def _pair_element(ctx: MjcfContext, a: Shape, b: Shape, rule: CollisionPair | None) -> Element:
    """Element of an explicit contact pair with the contact parameters of its rule."""
    if rule is not None and a.name == rule.b:
        a, b = b, a
    element = Element(mjcf.PAIR)
    element.set_attributes({"name": (rule.name or None) if rule else None})
    element.set_attributes({"geom1": ctx.names.name_of(mjcf.GEOM, a), "geom2": ctx.names.name_of(mjcf.GEOM, b)})
    if rule is not None and rule.surface is not None:
        owner = Node(name=_pair_label(rule)[1], origin=rule.origin)
        element.set_attributes(pair_attributes(ctx, owner, rule.surface))
    return element
