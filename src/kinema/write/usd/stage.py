"""Composition of a stage: metadata, robots, articulation roots and the order of elements."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

from kinema.description import Assembly, Base, JointKind, Link, Robot, World
from kinema.tokens import WriteOptions, kinema_usd, newton, usd, usd_physics

from ..loss_report import Action, LossReport
from ..validation import BASE_LOSS, unspecified_base_text
from . import pxr
from .collision_filters import CollisionFilters
from .collision_groups import author_collision_filters
from .context import UsdContext, write_preserved
from .joints import author_base_joint, author_joint, author_joint_without_prim
from .layer_builder import LayerBuilder
from .links import author_link
from .materials import UsdMaterials
from .meshes import StageMeshes
from .mujoco_prims import MujocoPrims
from .prim_paths import RobotPaths, StagePaths, assign_prim_paths, is_free_edge
from .records import author_constraints_and_records, preserve_assets
from .scene import author_cameras_and_lights, author_physics_scene
from .shapes import author_shape

# -------------------------------------------------------------------------------------------- order of links and joints


def author_element_order(ctx: UsdContext) -> None:
    """Store the order of links and joints where the traversal order of the stage differs from the description."""
    place = {path: i for i, path in enumerate(_stage_order(ctx))}
    robots = ctx.paths.robots
    links = [parts.links[link.name] for parts in robots for link in parts.robot.links]
    joints = [parts.joints.get(id(j), "") for parts in robots for j in parts.robot.joints]
    for paths in (links, joints):
        _author_order(ctx, paths, place)
    _author_free_joint_order(ctx, robots)


def _author_order(ctx: UsdContext, paths: list[str], stage_indices: dict[str, int]) -> None:
    """Store the index of all prims of a list if they are not in stage order."""
    prims = [(i, ctx.builder.prims[p]) for i, p in enumerate(paths) if p in stage_indices]
    # layers are put together in an order of their own
    if ctx.options.layered or any(stage_indices[a.path] > stage_indices[b.path] for (_, a), (_, b) in pairwise(prims)):
        for number, prim in prims:
            prim.set_custom(kinema_usd.ORDER, number)


def _author_free_joint_order(ctx: UsdContext, robots: list[RobotPaths]) -> None:
    """Store the index of free joints, which have no prim, on their bodies."""
    joints = [(parts, joint) for parts in robots for joint in parts.robot.joints]
    for number, (parts, joint) in enumerate(joints):
        body = ctx.builder.prims.get(parts.links.get(joint.child or joint.parent or "", ""))
        if joint.kind is JointKind.FREE and body is not None and number < len(joints) - 1:
            body.set_custom(kinema_usd.FREE_JOINT_ORDER, number)


def _stage_order(ctx: UsdContext) -> list[str]:
    """Paths of all prims in depth-first order."""
    children: dict[str, list[str]] = {}
    for path in ctx.builder.prims:  # in the order they were made, which is that of siblings
        children.setdefault(path.rpartition("/")[0], []).append(path)
    order: list[str] = []
    waiting = list(reversed(children.get("", [])))
    while waiting:
        path = waiting.pop()
        order.append(path)
        waiting.extend(reversed(children.get(path, [])))
    return order


# ---------------------------------------------------------------------------------------------------------------- stage

FORMAT_VERSION = 1
"""Version of the semantics of the `kinema:*` attributes."""


def compose_stage(
    description: Robot | World, target: Path, report: LossReport, options: WriteOptions, folder: Path
) -> UsdContext:
    """Compose the stage in memory; texture images are created in the folder."""
    plan = assign_prim_paths(description, options.layout)
    # a stage's own numbers are in single precision already: they stand for themselves
    decimals = description.format != usd.FORMAT
    draft = LayerBuilder(pxr.Sdf.Layer.CreateAnonymous(".usda"), report, options.exact, decimals)
    writing = UsdContext(
        description,
        plan,
        draft,
        options,
        CollisionFilters(description),
        UsdMaterials(draft, plan.names, plan.root, folder, is_package=target.suffix.lower() == ".usdz"),
        StageMeshes(draft, target, embed=options.meshes != "reference"),
        _duplicate_names(plan),
    )
    with pxr.Sdf.ChangeBlock():
        _author_stage_metadata(writing)
        _author_contents(writing)
        draft.write_schemas()
    return writing


def _duplicate_names(paths: StagePaths) -> frozenset[str]:
    """Names shared by several links, joints or shapes."""
    shapes = [*paths.static_shapes, *(s for parts in paths.robots for link in parts.robot.links for s in link.shapes)]
    result: set[str] = set()
    for names in (
        [p.rpartition("/")[2] for parts in paths.robots for p in parts.links.values()],
        [p.rpartition("/")[2] for parts in paths.robots for p in parts.joints.values()],
        [shape.name for shape in shapes],
    ):
        result |= {name for name, count in Counter(names).items() if count > 1}
    return frozenset(result)


def _author_stage_metadata(ctx: UsdContext) -> None:
    """Write units, up axis, default prim and Kinema's layer data."""
    layer, described = ctx.builder.layer, ctx.description
    prim = ctx.builder.define_prim(ctx.paths.root, usd.XFORM)
    prim.set_metadata(kind="assembly" if ctx.paths.is_world else "component")
    if described.name != prim.name:
        prim.set_custom(kinema_usd.NAME, described.name)
        if described.name:
            prim.set_metadata(displayName=described.name)
    layer.defaultPrim = prim.name
    root = layer.pseudoRoot
    root.SetInfo(usd.UP_AXIS, usd.Z_AXIS)
    root.SetInfo(usd.METERS_PER_UNIT, 1.0)
    root.SetInfo(usd.KILOGRAMS_PER_UNIT, 1.0)
    stamp: dict[str, object] = {
        "version": FORMAT_VERSION,
        "layout": ctx.options.layout,
        kinema_usd.CUSTOM_DATA_DECIMALS: ctx.builder.decimals,
    }
    if ctx.paths.is_world:
        stamp[kinema_usd.CUSTOM_DATA_WORLD] = True
    layer.customLayerData = {kinema_usd.CUSTOM_DATA_KEY: stamp}


def _author_contents(ctx: UsdContext) -> None:
    """Write scene, robots, static shapes, tendons, actuators, collision filters and order."""
    described = ctx.description
    author_physics_scene(ctx)
    pulling = [_author_robot(ctx, parts) for parts in ctx.paths.robots]
    if isinstance(described, World):
        _author_static_shapes(ctx, described)
        pulling.append(_author_other_elements(ctx, described, ctx.paths.robots))
    for prims in pulling:
        prims.author_tendons()
    for prims in pulling:
        prims.author_actuators()
    author_collision_filters(ctx)
    author_element_order(ctx)


def _author_other_elements(ctx: UsdContext, assembly: Assembly, robots: list[RobotPaths]) -> MujocoPrims:
    """Write cameras, lights, constraints, records and frames of a robot or world.

    Returns:
        The writer of its tendons and actuators, which must follow when all frames exist.
    """
    path = robots[0].path if isinstance(assembly, Robot) else ctx.paths.root
    author_cameras_and_lights(ctx, assembly)
    author_constraints_and_records(ctx, assembly, robots, path)
    prims = MujocoPrims(ctx, assembly, robots, path)
    prims.author_frames()
    home = ctx.builder.prims[path]
    # what a stage says of all its robots together was said on its scene
    prim = ctx.scene or home if assembly is ctx.description else home
    write_preserved(ctx, prim, assembly, already_written=preserve_assets(ctx, prim, assembly))
    return prims


def _author_static_shapes(ctx: UsdContext, world: World) -> None:
    if not world.shapes:
        return
    path = ctx.paths.names.child_path(ctx.paths.root, "Scenery", "Scenery")
    ctx.builder.define_prim(path, usd.XFORM)
    for shape in world.shapes:
        author_shape(ctx, path, shape, is_on_body=False)


# --------------------------------------------------------------------------------------------------------------- robots


def _author_robot(ctx: UsdContext, robot_paths: RobotPaths) -> MujocoPrims:
    """Write the prim of a robot with base, links, joints and other elements."""
    robot = robot_paths.robot
    prim = ctx.builder.prims.get(robot_paths.path) or ctx.builder.define_prim(robot_paths.path, usd.XFORM)
    prim.set_metadata(kind="component")
    prim.set_transform(robot.pose)
    prim.set_custom(kinema_usd.ROBOT, robot.name)
    if (
        robot.base is Base.UNSPECIFIED
        and robot_paths.tree.roots
        and not robot.static
        and not _has_fixed_base(ctx, robot)
    ):
        prim.set_custom(kinema_usd.BASE, Base.UNSPECIFIED.value)
        ctx.report_loss(
            Action.APPROXIMATED, robot, BASE_LOSS, unspecified_base_text("in USD nothing holds it, so that it falls")
        )
    if robot.static:
        how = "nothing of it moves, so that its links are plain shapes without joints"
        ctx.report_loss(Action.APPROXIMATED, robot, "that it has links", how)
    _author_links(ctx, robot_paths)
    return _author_other_elements(ctx, robot, [robot_paths])


def _author_links(ctx: UsdContext, robot_paths: RobotPaths) -> None:
    """Write all links in tree order, each with its joints and shapes, then free joints and articulation roots."""
    by_name = {link.name: link for link in robot_paths.robot.links}
    if robot_paths.body_scope:
        ctx.builder.define_prim(robot_paths.body_scope, usd.SCOPE)
    names = [*robot_paths.tree.roots, *(e.child for e in robot_paths.tree.edges)]
    for name in list(by_name) if robot_paths.body_scope else names:
        _author_link_and_contents(ctx, robot_paths, by_name[name])
    if robot_paths.joint_scope and not robot_paths.robot.static:
        ctx.builder.define_prim(robot_paths.joint_scope, usd.SCOPE)
        for joint in robot_paths.robot.joints:
            if id(joint) in robot_paths.joints:
                author_joint(ctx, robot_paths, joint)
    if robot_paths.robot.static:
        return
    for joint in robot_paths.robot.joints:
        if id(joint) not in robot_paths.joints:
            author_joint_without_prim(ctx, robot_paths, joint)
    _author_articulation_roots(ctx, robot_paths)


def _author_link_and_contents(ctx: UsdContext, robot_paths: RobotPaths, link: Link) -> None:
    """Write a link with the joints and shapes below its prim."""
    prim = author_link(ctx, robot_paths, link)
    for joint in robot_paths.joints_by_link.get(link.name, ()):
        if not robot_paths.robot.static:
            author_joint(ctx, robot_paths, joint)
    for shape in link.shapes:
        made = author_shape(ctx, prim.path, shape, is_on_body=not robot_paths.robot.static)
        if made is not None and shape.collision:
            ctx.collider_paths.setdefault(prim.path, []).append(made.path)


def _author_articulation_roots(ctx: UsdContext, robot_paths: RobotPaths) -> None:
    """Write fixed base joints and apply the articulation root schema to the joint or body of every tree."""
    if robot_paths.tree.roots and any(is_free_edge(e) and e.parent is not None for e in robot_paths.tree.edges):
        # what hangs on the root by nothing else looks like another root
        ctx.builder.prims[robot_paths.path].set_relationship(
            kinema_usd.ROOT, [robot_paths.links[robot_paths.tree.roots[0]]], custom=True
        )
    carries = {e.parent for e in robot_paths.tree.edges if not is_free_edge(e)}
    articulated = ctx.is_articulated(robot_paths)
    for root in robot_paths.tree.roots:
        fixed = author_base_joint(ctx, robot_paths, root) if _has_fixed_base(ctx, robot_paths.robot) else ""
        if articulated and root in carries:
            _apply_articulation_root(ctx, robot_paths, fixed or robot_paths.links[root])
    for edge in robot_paths.tree.edges:
        free = is_free_edge(edge)
        if (edge.parent is None or free) and articulated and edge.child in carries:
            joint = next((j for j in edge.joints if id(j) in robot_paths.joints), None)
            body = robot_paths.links[edge.child]
            path = body if joint is None else robot_paths.joints[id(joint)]
            _apply_articulation_root(ctx, robot_paths, path, implied=edge.parent is not None)
    _mark_stacked_joints(ctx, robot_paths)


def _has_fixed_base(ctx: UsdContext, robot: Robot) -> bool:
    """Whether the base is fixed by the description or, if unspecified, by the options."""
    return robot.base is Base.FIXED or (robot.base is Base.UNSPECIFIED and ctx.options.fixes_base)


def _apply_articulation_root(ctx: UsdContext, robot_paths: RobotPaths, path: str, *, implied: bool = False) -> None:
    """Apply the articulation root schema, and Newton's flag for stacked joints, to a prim."""
    prim = ctx.builder.prims[path]
    prim.apply_schemas(usd_physics.ARTICULATION_ROOT_API)
    if implied or (robot_paths.robot.root is None and ctx.description.format == usd.FORMAT):
        prim.set_custom(kinema_usd.IMPLIED, [kinema_usd.IMPLIED_ARTICULATION_ROOT])
    if any(len(e.joints) > 1 for e in robot_paths.tree.edges):
        prim.apply_schemas(newton.ARTICULATION_ROOT_API)
        prim.set_attribute(newton.JOINTS_ADD_MOBILITY, "bool", True, uniform=True)


def _mark_stacked_joints(ctx: UsdContext, robot_paths: RobotPaths) -> None:
    """Mark links with stacked joints, also on the link because the articulation root may be a joint."""
    for edge in robot_paths.tree.edges:
        if len(edge.joints) > 1:
            prim = ctx.builder.prims[robot_paths.links[edge.child]]
            prim.set_attribute(newton.JOINTS_ADD_MOBILITY, "bool", True, uniform=True)
            how = "several joints between two links add their motion only for who knows newton:jointsAddMobility"
            ctx.report_loss(Action.EXTENSION, edge.joints[1], "that it is stacked on another joint", how)
