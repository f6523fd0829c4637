"""Which geoms collide, just as the description says: their masks and the `<contact>` section.

What the description says is said by the shapes' own masks and by its own pairs, if that is all there is. Otherwise
masks are made from its rules, and what they leave wrong is put right pair by pair.
"""

from __future__ import annotations

from collections import defaultdict

from kinema.description import Assembly, CollisionPair, Node, Shape, World, colliders
from kinema.words import mjcf

from ..text import Element
from .bodies import body_name
from .body_plan import BodyPlan
from .filters import WORLD, BodyPair, Filter, Geom, Structure, made_masks, mended, wanted_pairs
from .surfaces import pair_attributes
from .writing import Writing

Repeated = dict[tuple[int, int], list[CollisionPair]]
"""Numbers of two geoms -> the rules that ask for them once more."""


def write_collisions(writing: Writing) -> None:
    """Fill in the geoms' masks and write the `<contact>` section."""
    geoms = _geoms(writing)
    chosen = Filter([(g.shape.contype, g.shape.conaffinity) for g in geoms])
    repeated = _own_pairs(writing, geoms, chosen)
    if not _is_native(writing):
        chosen = _worked_out(writing, geoms, chosen)
    _write(writing, geoms, chosen, repeated)
    for home in writing.homes:
        for group in home.collision.groups:
            writing.approximate(group, "a collision group", "who collides is said by the bit masks of geoms")


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
        if robot.format != mjcf.FORMAT or tree.roots or tree.loops or tree.dangling:
            return False
        if any(link.self_collide is False for link in robot.links):
            return False
        if any(j.collision_enabled is not None or not j.enabled for j in robot.joints):
            return False
    return True


def _worked_out(writing: Writing, geoms: list[Geom], plain: Filter) -> Filter:
    """The filter that takes the fewest elements: with the shapes' own masks, or with ones made from the rules."""
    wanted = wanted_pairs(writing.described, geoms)
    for i, j in [pair for pair in plain.pairs if not wanted[pair]]:
        rule = plain.pairs.pop((i, j))
        assert rule is not None  # so far there are only the description's own
        writing.drop(_named(rule), "the pair", "its shapes never move apart")
    structure = Structure(geoms, parents_collide=parents_collide(writing))
    own = mended(plain, structure, wanted)
    if own.cost == plain.cost:
        return own
    masks = made_masks([home.collision for home in writing.homes], structure, wanted, plain)
    if masks is None:
        return own
    made = mended(Filter(masks, plain.excluded, plain.pairs), structure, wanted)
    return min(own, made, key=lambda f: f.cost)  # the shapes' own masks where they do as well


# -- the description's own pairs --------------------------------------------------------------------------------------


def _own_pairs(writing: Writing, geoms: list[Geom], into: Filter) -> Repeated:
    """The pairs that the description names, as far as MuJoCo has a word for them; the others are worked out.

    What is given back are those that name the same shapes once more: MuJoCo lets them touch as often.
    """
    repeated: Repeated = defaultdict(list)
    by_shape: dict[str, list[Geom]] = defaultdict(list)
    for geom in geoms:
        by_shape[geom.shape.name].append(geom)
    for home in writing.homes:
        for pair in home.collision.pairs:
            if pair.collide and pair.between == "shapes":
                _explicit(writing, home, pair, by_shape, into, repeated)
            elif not pair.collide and pair.between == "links":
                ends = [_body_id(writing, name, home) for name in (pair.a, pair.b)]
                if None in ends:
                    writing.drop(_named(pair), "the pair", "it names no link")
                else:
                    into.excluded.setdefault(frozenset(e for e in ends if e is not None), pair)
            elif pair.surface is not None:
                writing.drop(_named(pair), "how they touch", "MuJoCo has that for pairs of shapes that collide")
    return repeated


def _explicit(
    writing: Writing,
    home: Assembly,
    pair: CollisionPair,
    by_shape: dict[str, list[Geom]],
    into: Filter,
    repeated: Repeated,
) -> None:
    both = [(a, b) for a in by_shape.get(pair.a, ()) for b in by_shape.get(pair.b, ()) if a is not b]
    own = [(a, b) for a, b in both if _has(home, a) and _has(home, b)]
    for a, b in own:
        ends = min(a.number, b.number), max(a.number, b.number)
        if into.pairs.setdefault(ends, pair) is not pair:
            repeated[ends].append(pair)
    if not own:
        writing.drop(_named(pair), "the pair", "it names no shapes that collide")


def _named(pair: CollisionPair) -> tuple[str, str]:
    """What the report calls a pair."""
    return "pair", pair.name or f"{pair.a} {pair.b}"


def _body_id(writing: Writing, name: str, home: Assembly) -> int | None:
    """The body of a link that a pair names; None where there is none."""
    entry = writing.names.find(mjcf.BODY, name, home)
    if entry is not None:
        body = writing.body_of.get(id(entry.node))
        return None if body is None else id(body)
    return WORLD if name == "world" else None


def _has(home: Assembly, geom: Geom) -> bool:
    """Whether the rules of a robot or of the world have a say about a geom."""
    return isinstance(home, World) or geom.body is None or geom.body.robot is home


# -- into the file ----------------------------------------------------------------------------------------------------


def _write(writing: Writing, geoms: list[Geom], chosen: Filter, repeated: Repeated) -> None:
    masks = {id(g.shape): m for g, m in zip(geoms, chosen.masks, strict=True)}
    for key, element in writing.geoms.items():
        for name, mask in zip(("contype", "conaffinity"), masks.get(key, (0, 0)), strict=True):
            if mask == 1:
                element.attributes.pop(name, None)
            else:
                element.attributes[name] = str(signed(mask))
    section = writing.section(mjcf.CONTACT)
    bodies = {id(body): body for body in writing.body_of.values()}
    for ends, rule in chosen.excluded.items():
        first, second = _names_of(writing, ends, bodies, rule)
        section.child(mjcf.EXCLUDE, name=(rule.name or None) if rule else None, body1=first, body2=second)
    for (i, j), rule in sorted(chosen.pairs.items(), key=lambda item: item[1] is None):
        for each in (rule, *repeated.get((i, j), ())):
            section.children.append(_pair(writing, geoms[i].shape, geoms[j].shape, each))


def signed(mask: int) -> int:
    """A bit mask as the 32-bit number that MuJoCo reads."""
    mask &= 0xFFFFFFFF
    return mask - 2**32 if mask >= 2**31 else mask


def _names_of(
    writing: Writing, ends: BodyPair, bodies: dict[int, BodyPlan], rule: CollisionPair | None
) -> tuple[str, str]:
    order = {key: i for i, key in enumerate(bodies)}
    in_order = sorted(ends, key=lambda end: order.get(end, -1))
    names = ["world" if end == WORLD else body_name(writing, bodies[end]) for end in in_order]
    names *= 3 - len(names)  # a body and itself
    if rule is not None and names[0] == rule.b:
        names.reverse()
    return names[0], names[1]


def _pair(writing: Writing, a: Shape, b: Shape, rule: CollisionPair | None) -> Element:
    if rule is not None and a.name == rule.b:
        a, b = b, a
    element = Element(mjcf.PAIR)
    element.set({"name": (rule.name or None) if rule else None})
    element.set({"geom1": writing.names.of(mjcf.GEOM, a), "geom2": writing.names.of(mjcf.GEOM, b)})
    if rule is not None and rule.surface is not None:
        owner = Node(name=_named(rule)[1], origin=rule.origin)
        element.set(pair_attributes(writing, owner, rule.surface))
    return element
