"""Collision group prims and filtered pairs."""

from __future__ import annotations

from kinema.description import Collider
from kinema.tokens import kinema_usd, usd, usd_physics

from ..loss_report import Action
from .collision_filters import ColliderClass
from .context import UsdContext
from .prim_paths import RobotPaths


def author_collision_filters(ctx: UsdContext) -> None:
    """Write collision groups and filtered pairs for all filtering beyond that of joints."""
    _author_described_groups(ctx)
    _author_class_groups(ctx)
    _author_excluded_pairs(ctx)
    for a, b in ctx.free_joint_filters:
        _filter_bodies(ctx, a, b)
    if ctx.description.format != usd.FORMAT:  # a stage says by itself who is kept apart
        for parts in ctx.paths.robots:
            if not parts.robot.static:
                _author_rigid_neighbours(ctx, parts)
    _report_forced_pairs(ctx)


# ----------------------------------------------------------------------------------------------------- collision groups


def _groups_scope(ctx: UsdContext) -> str:
    return ctx.builder.define_scope(f"{ctx.paths.root}/CollisionGroups")


def _collider_paths(ctx: UsdContext, members: list[Collider]) -> list[str]:
    """Prim paths of colliders that were written."""
    return [ctx.paths.shapes[id(c.shape)] for c in members if id(c.shape) in ctx.paths.shapes]


def _author_described_groups(ctx: UsdContext) -> None:
    """Write the collision groups of the description."""
    groups = ctx.collision_filters.groups()
    if not groups:
        return
    paths = {g.name: ctx.paths.names.child_path(_groups_scope(ctx), g.name, "group") for g, _ in groups}
    for group, members in groups:
        prim = ctx.builder.define_prim(paths[group.name], usd_physics.COLLISION_GROUP)
        prim.apply_schemas(usd.COLLIDERS_API)
        prim.set_relationship(usd.COLLIDERS, _collider_paths(ctx, members))
        filtered = [paths[n] for n in group.filtered if n in paths]
        if filtered:
            prim.set_relationship(usd_physics.FILTERED_GROUPS, filtered)
        if group.invert:
            prim.set_attribute(usd_physics.INVERT_FILTERED_GROUPS, "bool", True)
        if group.merge:
            prim.set_attribute(usd_physics.MERGE_GROUP, "string", group.merge)
        prim.set_custom(kinema_usd.NAME, group.name)


def _author_class_groups(ctx: UsdContext) -> None:
    """Write one collision group per collider class that must not collide with some class."""
    classes = ctx.collision_filters.collider_classes()
    grouped = [c for c in classes if not all(c.collides_with)]
    if not grouped:
        return
    scope = _groups_scope(ctx)
    path_of = {id(c): ctx.paths.names.child_path(scope, _class_name(c), "class") for c in grouped}
    for number, one in enumerate(classes):
        if id(one) not in path_of:
            continue
        prim = ctx.builder.define_prim(path_of[id(one)], usd_physics.COLLISION_GROUP)
        prim.apply_schemas(usd.COLLIDERS_API)
        prim.set_relationship(usd.COLLIDERS, _collider_paths(ctx, one.members))
        # filtering works both ways, so that each pair of groups is said once
        apart = [path_of[id(other)] for k, other in enumerate(classes) if k >= number and not one.collides_with[k]]
        if apart:
            prim.set_relationship(usd_physics.FILTERED_GROUPS, apart)
        if apart == [prim.path] and one.collides_with.count(False) == 1 and _is_whole_robot(ctx, one):
            prim.set_custom(kinema_usd.IS_SELF_COLLISION, True)


def _is_whole_robot(ctx: UsdContext, collider_class: ColliderClass) -> bool:
    """Whether a class consists of all colliders of a robot without self-collision."""
    robots = {c.robot for c in collider_class.members}
    every = [
        c
        for c in ctx.collision_filters.colliders
        if c.robot in robots and not ctx.collision_filters.is_disabled(c.shape)
    ]
    plain = all(c.shape.contype == c.shape.conaffinity == 1 and not c.self_collide for c in collider_class.members)
    return (
        len(robots) == 1
        and len(every) == len(collider_class.members)
        and plain
        and collider_class.members[0].link is not None
    )


def _class_name(collider_class: ColliderClass) -> str:
    shape, robot = collider_class.members[0].shape, collider_class.members[0].robot
    if all((c.shape.contype, c.shape.conaffinity) == (1, 1) for c in collider_class.members) and robot:
        return f"{robot}_colliders"
    return f"contype_{shape.contype}_conaffinity_{shape.conaffinity}"


# ------------------------------------------------------------------------------------------------------- filtered pairs


def _author_excluded_pairs(ctx: UsdContext) -> None:
    """Write excluded pairs as filtered pairs of bodies or colliders; reports pairs of missing shapes."""
    for scoped in ctx.collision_filters.excluded_pairs:
        pair = scoped.pair
        links = _body_paths(ctx, pair.a, scoped.robot), _body_paths(ctx, pair.b, scoped.robot)
        if pair.between == "links" and all(len(paths) == 1 for paths in links):
            _filter_bodies(ctx, links[0][0], links[1][0])
            continue
        a, b = (_collider_paths(ctx, side) for side in ctx.collision_filters.colliders_of_pair(scoped))
        for path in a:
            _add_filtered_pairs(ctx, path, [other for other in b if other != path])
        if not a or not b:
            how = "it is about shapes that are not there"
            ctx.report_loss(Action.DROPPED, ("pair", pair.name or f"{pair.a}, {pair.b}"), "a pair kept apart", how)


def _body_paths(ctx: UsdContext, name: str, robot_name: str | None) -> list[str]:
    """Prim paths of the bodies of a link name; several if robots share names."""
    return [
        parts.links[name]
        for parts in ctx.paths.robots
        if name in parts.links and robot_name in (None, parts.robot.name) and not parts.robot.static
    ]


def _author_rigid_neighbours(ctx: UsdContext, robot_paths: RobotPaths) -> None:
    for a, b in ctx.collision_filters.rigid_neighbours(robot_paths):
        _filter_bodies(ctx, robot_paths.links[a], robot_paths.links[b])


def _filter_bodies(ctx: UsdContext, a: str, b: str) -> None:
    """Filter the collision of two bodies.

    If one is an articulation root, their colliders are filtered instead: a pair on a root applies to the articulation.
    """
    roots = {path for path in (a, b) if usd_physics.ARTICULATION_ROOT_API in ctx.builder.prims[path].schemas}
    if not roots:
        _add_filtered_pairs(ctx, a, [b])
        return
    shapes = ctx.collider_paths
    for path in shapes.get(a, ()):
        _add_filtered_pairs(ctx, path, shapes.get(b, ()))


def _add_filtered_pairs(ctx: UsdContext, path: str, others: list[str] | tuple[str, ...]) -> None:
    """Add prims to the filtered pairs of a prim, each pair once."""
    if not others:
        return
    prim = ctx.builder.prims[path]
    prim.apply_schemas(usd_physics.FILTERED_PAIRS_API)
    known = ctx.filtered_pairs.setdefault(path, [])
    known += [o for o in others if o not in known and path not in ctx.filtered_pairs.get(o, ())]
    if known:
        prim.set_relationship(usd_physics.FILTERED_PAIRS, known)


def _report_forced_pairs(ctx: UsdContext) -> None:
    """Report forced pairs that the stage excludes, and contact parameters of pairs, which USD lacks."""
    apart = {id(p.pair) for p in ctx.collision_filters.blocked_forced_pairs()}
    for scoped in ctx.collision_filters.forced_pairs:
        pair = scoped.pair
        name = pair.name or f"{pair.a}, {pair.b}"
        if id(pair) in apart:
            how = "joints, groups or other pairs keep it apart, and USD has no pair that collides in spite of them"
            ctx.report_loss(Action.DROPPED, ("pair", name), "that it collides in any case", how)
        if pair.surface is not None:
            how = "the surfaces of the two shapes decide"
            ctx.report_loss(Action.DROPPED, ("pair", name), "contact settings of its own", how)
