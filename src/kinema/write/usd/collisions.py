"""Collision groups and filtered pairs as prims and relationships."""

from __future__ import annotations

from kinema.description import Collider
from kinema.words import ours, physics, usd

from ..report import Action
from .filters import ColliderClass
from .plan import RobotPlan
from .writing import Writing


def author_collisions(writing: Writing) -> None:
    """Everything that keeps shapes apart beyond what joints say."""
    _user_groups(writing)
    _class_groups(writing)
    _excluded_pairs(writing)
    for a, b in writing.loose:
        _filter_links(writing, a, b)
    if writing.described.format != usd.FORMAT:  # a stage says by itself who is kept apart
        for parts in writing.plan.robots:
            if not parts.robot.static:
                _held_together(writing, parts)
    _forced_pairs(writing)


# -- groups -----------------------------------------------------------------------------------------------------------


def _scope(writing: Writing) -> str:
    return writing.draft.scope(f"{writing.plan.root}/CollisionGroups")


def _paths(writing: Writing, members: list[Collider]) -> list[str]:
    """The prims of colliders; those that could not be written have none."""
    return [writing.plan.shapes[id(c.shape)] for c in members if id(c.shape) in writing.plan.shapes]


def _user_groups(writing: Writing) -> None:
    groups = writing.filters.groups()
    if not groups:
        return
    paths = {g.name: writing.plan.names.child(_scope(writing), g.name, "group") for g, _ in groups}
    for group, members in groups:
        prim = writing.draft.prim(paths[group.name], physics.COLLISION_GROUP)
        prim.apply(usd.COLLIDERS_API)
        prim.relate(usd.COLLIDERS, _paths(writing, members))
        filtered = [paths[n] for n in group.filtered if n in paths]
        if filtered:
            prim.relate(physics.FILTERED_GROUPS, filtered)
        if group.invert:
            prim.set(physics.INVERT_FILTERED_GROUPS, "bool", True)
        if group.merge:
            prim.set(physics.MERGE_GROUP, "string", group.merge)
        prim.keep(ours.NAME, group.name)


def _class_groups(writing: Writing) -> None:
    """One group for each class of colliders that must not meet some other, or itself."""
    classes = writing.filters.classes()
    grouped = [c for c in classes if not all(c.row)]
    if not grouped:
        return
    scope = _scope(writing)
    path_of = {id(c): writing.plan.names.child(scope, _class_name(c), "class") for c in grouped}
    for number, one in enumerate(classes):
        if id(one) not in path_of:
            continue
        prim = writing.draft.prim(path_of[id(one)], physics.COLLISION_GROUP)
        prim.apply(usd.COLLIDERS_API)
        prim.relate(usd.COLLIDERS, _paths(writing, one.members))
        # filtering works both ways, so that each pair of groups is said once
        apart = [path_of[id(other)] for k, other in enumerate(classes) if k >= number and not one.row[k]]
        if apart:
            prim.relate(physics.FILTERED_GROUPS, apart)
        if apart == [prim.path] and one.row.count(False) == 1 and _is_a_robot(writing, one):
            prim.keep(ours.IS_SELF_COLLISION, True)


def _is_a_robot(writing: Writing, one: ColliderClass) -> bool:
    """Whether a class is all colliders of a robot whose links do not collide with each other."""
    robots = {c.robot for c in one.members}
    every = [c for c in writing.filters.colliders if c.robot in robots and not writing.filters.is_off(c.shape)]
    plain = all(c.shape.contype == c.shape.conaffinity == 1 and not c.self_collide for c in one.members)
    return len(robots) == 1 and len(every) == len(one.members) and plain and one.members[0].link is not None


def _class_name(one: ColliderClass) -> str:
    shape, robot = one.members[0].shape, one.members[0].robot
    if all((c.shape.contype, c.shape.conaffinity) == (1, 1) for c in one.members) and robot:
        return f"{robot}_colliders"
    return f"contype_{shape.contype}_conaffinity_{shape.conaffinity}"


# -- pairs ------------------------------------------------------------------------------------------------------------


def _excluded_pairs(writing: Writing) -> None:
    for scoped in writing.filters.excluded:
        pair = scoped.pair
        links = _link_paths(writing, pair.a, scoped.robot), _link_paths(writing, pair.b, scoped.robot)
        if pair.between == "links" and all(len(paths) == 1 for paths in links):
            _filter_links(writing, links[0][0], links[1][0])
            continue
        a, b = (_paths(writing, side) for side in writing.filters.sides(scoped))
        for path in a:
            _filter(writing, path, [other for other in b if other != path])
        if not a or not b:
            how = "it is about shapes that are not there"
            writing.lose(Action.DROPPED, ("pair", pair.name or f"{pair.a}, {pair.b}"), "a pair kept apart", how)


def _link_paths(writing: Writing, name: str, robot: str | None) -> list[str]:
    """The bodies of that name: one, unless robots of a world share names."""
    return [
        parts.links[name]
        for parts in writing.plan.robots
        if name in parts.links and robot in (None, parts.robot.name) and not parts.robot.static
    ]


def _held_together(writing: Writing, parts: RobotPlan) -> None:
    for a, b in writing.filters.held_together(parts):
        _filter_links(writing, parts.links[a], parts.links[b])


def _filter_links(writing: Writing, a: str, b: str) -> None:
    """Keep two bodies apart. On an articulation's root it would be read as about the whole articulation."""
    roots = {path for path in (a, b) if physics.ARTICULATION_ROOT_API in writing.draft.prims[path].schemas}
    if not roots:
        _filter(writing, a, [b])
        return
    shapes = writing.shapes_of_link
    for path in shapes.get(a, ()):
        _filter(writing, path, shapes.get(b, ()))


def _filter(writing: Writing, path: str, others: list[str] | tuple[str, ...]) -> None:
    if not others:
        return
    prim = writing.draft.prims[path]
    prim.apply(physics.FILTERED_PAIRS_API)
    known = writing.filtered.setdefault(path, [])
    known += [o for o in others if o not in known and path not in writing.filtered.get(o, ())]
    if known:
        prim.relate(physics.FILTERED_PAIRS, known)


def _forced_pairs(writing: Writing) -> None:
    """Pairs that collide against other rules have no word in USD; the groups leave them room where that is possible."""
    apart = {id(p.pair) for p in writing.filters.kept_apart()}
    for scoped in writing.filters.forced:
        pair = scoped.pair
        name = pair.name or f"{pair.a}, {pair.b}"
        if id(pair) in apart:
            how = "joints, groups or other pairs keep it apart, and USD has no pair that collides in spite of them"
            writing.lose(Action.DROPPED, ("pair", name), "that it collides in any case", how)
        if pair.surface is not None:
            how = "the surfaces of the two shapes decide"
            writing.lose(Action.DROPPED, ("pair", name), "contact settings of its own", how)
