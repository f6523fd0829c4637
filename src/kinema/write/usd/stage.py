"""From the description to a layer: the story."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from kinema.description import Assembly, Base, Link, Robot, World
from kinema.words import newton, ours, physics, usd

from ..bases import WHAT, assumed
from ..report import Action, LossReport
from . import pxr
from .collisions import author_collisions
from .draft import Draft
from .filters import Filters
from .joints import author_joint, hold_base, say_without_prim
from .kept_assets import keep_assets
from .leftovers import author_leftovers
from .links import author_link
from .materials import Materials
from .meshes import Meshes
from .mujoco_prims import MujocoPrims
from .names import give_back
from .order import keep_order
from .plan import Plan, RobotPlan, is_free, make_plan
from .scenery import author_onlookers, author_scene
from .shapes import author_shape
from .writing import UsdOptions, Writing

FORMAT_VERSION = 1
"""Of what the attributes `kinema:*` mean."""


def compose(described: Robot | World, target: Path, report: LossReport, options: UsdOptions, folder: Path) -> Writing:
    """The whole stage in memory; the images of its textures are put into a folder."""
    plan = make_plan(described, options.layout)
    # a stage's own numbers are in single precision already: they stand for themselves
    decimals = described.format != usd.FORMAT
    draft = Draft(pxr.Sdf.Layer.CreateAnonymous(".usda"), report, options.exact, decimals)
    writing = Writing(
        described,
        plan,
        draft,
        options,
        Filters(described),
        Materials(draft, plan.names, plan.root, folder, is_package=target.suffix.lower() == ".usdz"),
        Meshes(draft, target, embed=options.meshes == "embed"),
        _repeated(plan),
    )
    with pxr.Sdf.ChangeBlock():
        _declare(writing)
        _author(writing)
        draft.finish()
    return writing


def _repeated(plan: Plan) -> frozenset[str]:
    """Names that several links, several joints or several shapes share."""
    shapes = [*plan.scenery, *(s for parts in plan.robots for link in parts.robot.links for s in link.shapes)]
    result: set[str] = set()
    for names in (
        [p.rpartition("/")[2] for parts in plan.robots for p in parts.links.values()],
        [p.rpartition("/")[2] for parts in plan.robots for p in parts.joints.values()],
        [shape.name for shape in shapes],
    ):
        result |= {name for name, count in Counter(names).items() if count > 1}
    return frozenset(result)


def _declare(writing: Writing) -> None:
    """What the stage as a whole says: units, up axis, what to show and to reference."""
    layer, described = writing.draft.layer, writing.described
    prim = writing.draft.prim(writing.plan.root, usd.XFORM)
    prim.tell(kind="assembly" if writing.plan.is_world else "component")
    if described.name != prim.name:
        prim.keep(ours.NAME, described.name)
        if described.name:
            prim.tell(displayName=described.name)
    layer.defaultPrim = prim.name
    root = layer.pseudoRoot
    root.SetInfo(usd.UP_AXIS, usd.Z)
    root.SetInfo(usd.METERS_PER_UNIT, 1.0)
    root.SetInfo(usd.KILOGRAMS_PER_UNIT, 1.0)
    stamp: dict[str, object] = {
        "version": FORMAT_VERSION,
        "layout": writing.options.layout,
        ours.STAMP_DECIMALS: writing.draft.decimals,
    }
    if writing.plan.is_world:
        stamp[ours.STAMP_WORLD] = True
    layer.customLayerData = {ours.STAMP: stamp}


def _author(writing: Writing) -> None:
    described = writing.described
    author_scene(writing)
    pulling = [_robot(writing, parts) for parts in writing.plan.robots]
    if isinstance(described, World):
        _scenery(writing, described)
        pulling.append(_rest(writing, described, writing.plan.robots))
    for prims in pulling:
        prims.author_tendons()
    for prims in pulling:
        prims.author_actuators()
    author_collisions(writing)
    keep_order(writing)


def _rest(writing: Writing, assembly: Assembly, robots: list[RobotPlan]) -> MujocoPrims:
    """What a robot or world has beside links and joints; what pulls on them comes when all of it is there."""
    path = robots[0].path if isinstance(assembly, Robot) else writing.plan.root
    author_onlookers(writing, assembly)
    author_leftovers(writing, assembly, robots, path)
    prims = MujocoPrims(writing, assembly, robots, path)
    prims.author_frames()
    home = writing.draft.prims[path]
    # what a stage says of all its robots together was said on its scene
    prim = writing.scene or home if assembly is writing.described else home
    give_back(writing, prim, assembly, said=keep_assets(writing, prim, assembly))
    return prims


def _scenery(writing: Writing, world: World) -> None:
    if not world.shapes:
        return
    path = writing.plan.names.child(writing.plan.root, "Scenery", "Scenery")
    writing.draft.prim(path, usd.XFORM)
    for shape in world.shapes:
        author_shape(writing, path, shape, moves=False)


# -- robots -----------------------------------------------------------------------------------------------------------


def _robot(writing: Writing, parts: RobotPlan) -> MujocoPrims:
    robot = parts.robot
    prim = writing.draft.prims.get(parts.path) or writing.draft.prim(parts.path, usd.XFORM)
    prim.tell(kind="component")
    prim.place(robot.pose)
    prim.keep(ours.ROBOT, robot.name)
    if robot.base is Base.UNSPECIFIED and parts.tree.roots and not robot.static and not _is_fixed(writing, robot):
        prim.keep(ours.BASE, Base.UNSPECIFIED.value)
        writing.lose(Action.APPROXIMATED, robot, WHAT, assumed("in USD nothing holds it, so that it falls"))
    if robot.static:
        how = "nothing of it moves, so that its links are plain shapes without joints"
        writing.lose(Action.APPROXIMATED, robot, "that it has links", how)
    _links(writing, parts)
    return _rest(writing, robot, [parts])


def _links(writing: Writing, parts: RobotPlan) -> None:
    """Links in the order of the tree, each with its joints and shapes before the links inside it."""
    by_name = {link.name: link for link in parts.robot.links}
    if parts.body_scope:
        writing.draft.prim(parts.body_scope, usd.SCOPE)
    names = [*parts.tree.roots, *(e.child for e in parts.tree.edges)]
    for name in list(by_name) if parts.body_scope else names:
        _link(writing, parts, by_name[name])
    if parts.joint_scope and not parts.robot.static:
        writing.draft.prim(parts.joint_scope, usd.SCOPE)
        for joint in parts.robot.joints:
            if id(joint) in parts.joints:
                author_joint(writing, parts, joint)
    if parts.robot.static:
        return
    for joint in parts.robot.joints:
        if id(joint) not in parts.joints:
            say_without_prim(writing, parts, joint)
    _articulate(writing, parts)


def _link(writing: Writing, parts: RobotPlan, link: Link) -> None:
    prim = author_link(writing, parts, link)
    for joint in parts.held.get(link.name, ()):
        if not parts.robot.static:
            author_joint(writing, parts, joint)
    for shape in link.shapes:
        made = author_shape(writing, prim.path, shape, moves=not parts.robot.static)
        if made is not None and shape.collision:
            writing.shapes_of_link.setdefault(prim.path, []).append(made.path)


def _articulate(writing: Writing, parts: RobotPlan) -> None:
    """Fix bases that are to be fixed, and mark the root of every tree: the joint to the world, or the body."""
    if parts.tree.roots and any(is_free(e) and e.parent is not None for e in parts.tree.edges):
        # what hangs on the root by nothing else looks like another root
        writing.draft.prims[parts.path].relate(ours.ROOT, [parts.links[parts.tree.roots[0]]], custom=True)
    carries = {e.parent for e in parts.tree.edges if not is_free(e)}
    articulated = writing.is_articulated(parts)
    for root in parts.tree.roots:
        fixed = hold_base(writing, parts, root) if _is_fixed(writing, parts.robot) else ""
        if articulated and root in carries:
            _mark(writing, parts, fixed or parts.links[root])
    for edge in parts.tree.edges:
        free = is_free(edge)
        if (edge.parent is None or free) and articulated and edge.child in carries:
            joint = next((j for j in edge.joints if id(j) in parts.joints), None)
            body = parts.links[edge.child]
            path = body if joint is None else parts.joints[id(joint)]
            _mark(writing, parts, path, implied=edge.parent is not None)
    _stack(writing, parts)


def _is_fixed(writing: Writing, robot: Robot) -> bool:
    """Whether the base is fixed, by the description or, where that leaves it open, by who writes."""
    return robot.base is Base.FIXED or (robot.base is Base.UNSPECIFIED and writing.options.base == "world")


def _mark(writing: Writing, parts: RobotPlan, path: str, *, implied: bool = False) -> None:
    prim = writing.draft.prims[path]
    prim.apply(physics.ARTICULATION_ROOT_API)
    if implied or (parts.robot.root is None and writing.described.format == usd.FORMAT):
        prim.keep(ours.IMPLIED, [ours.IMPLIED_ARTICULATION_ROOT])
    if any(len(e.joints) > 1 for e in parts.tree.edges):
        prim.apply(newton.ARTICULATION_ROOT_API)
        prim.set(newton.JOINTS_ADD_MOBILITY, "bool", True, uniform=True)


def _stack(writing: Writing, parts: RobotPlan) -> None:
    """Say that joints between two links add their motion, on the links too: the articulation may be on a joint."""
    for edge in parts.tree.edges:
        if len(edge.joints) > 1:
            prim = writing.draft.prims[parts.links[edge.child]]
            prim.set(newton.JOINTS_ADD_MOBILITY, "bool", True, uniform=True)
            how = "several joints between two links add their motion only for who knows newton:jointsAddMobility"
            writing.lose(Action.EXTENSION, edge.joints[1], "that it is stacked on another joint", how)
