"""Rules about the kinematic graph (links, joints, loops, roots) and USD articulations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kinema.core import Severity
from kinema.description import Base, Joint, JointKind, Link, World
from kinema.tokens import usd

from .context import CheckContext
from .messages import format_names, label
from .rule import Finding, rule

# ------------------------------------------------------------------------------------------------------ kinematic graph


@rule("graph.empty", Severity.ERROR)
def empty_description(context: CheckContext) -> Iterable[Finding]:
    """There are no links, or there is nothing at all in a world."""
    assembly = context.assembly
    if isinstance(assembly, World):
        if not assembly.robots and not assembly.shapes:
            yield Finding(assembly, f"{label(assembly)} has neither robots nor shapes", "", Severity.WARNING)
    elif not assembly.links:
        yield Finding(assembly, f"{label(assembly)} has no links", "describe at least one link")


@rule("graph.unknown-link", Severity.ERROR)
def joint_to_unknown_link(context: CheckContext) -> Iterable[Finding]:
    """A joint names a parent or child link that does not exist.

    The joint is left out of everything, and what should hang on it stands alone.
    """
    for joint in context.joints:
        for end, role in ((joint.parent, "parent"), (joint.child, "child")):
            if end is not None and end not in context.link_by_name:
                hint = _suggest_link_name(end, context) or "correct the name, or add the link"
                yield Finding(joint, f'{label(joint)} names the {role} link "{end}", which does not exist', hint)


def _suggest_link_name(name: str, context: CheckContext) -> str:
    import difflib

    close = difflib.get_close_matches(name, list(context.link_by_name)[:2000], n=1)
    return f'did you mean "{close[0]}"?' if close else ""


@rule("graph.self-joint", Severity.ERROR)
def joint_to_itself(context: CheckContext) -> Iterable[Finding]:
    """A joint connects a link with itself."""
    for joint in context.joints:
        if joint.parent == joint.child:
            ends = "the world" if joint.parent is None else f'link "{joint.parent}"'
            yield Finding(joint, f"{label(joint)} connects {ends} with itself", "name another link as parent or child")


@rule("graph.several-roots", Severity.NOTE)
def multiple_roots(context: CheckContext) -> Iterable[Finding]:
    """The robot falls into parts that no joint connects.

    A URDF must be one tree: ROS refuses it otherwise, and so this is an error there. In an SDFormat model, an MJCF file
    or a USD stage several free bodies are common, and this is a note. In a CAD assembly, or a robot built by a program,
    it mostly means that a joint was forgotten: a warning.
    """
    robot, roots = context.robot, context.tree.roots
    if robot is None or robot.static or len(roots) < 2:
        return
    severity = {"urdf": Severity.ERROR, "cad": Severity.WARNING, "": Severity.WARNING}.get(context.format)
    if severity is Severity.WARNING and robot.base is Base.FREE:
        severity = Severity.NOTE
    message = f"{label(robot)} is in {len(roots)} parts that no joint connects, with the roots {format_names(roots)}"
    place = context.link_by_name[roots[1]]
    yield Finding(place, message, "connect them with joints, or describe them as robots of their own", severity)


@rule("graph.two-parents", Severity.ERROR)
def multiple_parents(context: CheckContext) -> Iterable[Finding]:
    """A link of a URDF is the child of more than one joint.

    URDF describes trees only. Some parsers accept such a file and then quietly drop a joint, or make two links of one.
    """
    if context.format != "urdf":
        return
    for name, joints in _joints_by_child(context).items():
        if len(joints) > 1:
            message = f'link "{name}" is the child of {len(joints)} joints: {format_names([j.name for j in joints])}'
            hint = "keep one; describe the closed loop in SDFormat, MJCF or USD, which have them"
            yield Finding(joints[1], message, hint)


def _joints_by_child(context: CheckContext) -> dict[str, list[Joint]]:
    lost = {id(j) for j in context.tree.dangling}
    result: dict[str, list[Joint]] = {}
    for joint in context.joints:
        if joint.child is not None and joint.enabled and not joint.closes_loop and id(joint) not in lost:
            result.setdefault(joint.child, []).append(joint)
    return result


@rule("graph.loop", Severity.NOTE)
def undeclared_loop(context: CheckContext) -> Iterable[Finding]:
    """A joint closes a loop without being declared to.

    The joints form a circle; one of them had to be taken out of the tree, and a simulator holds it by force. Which
    one, the description decides by a fixed rule: declare it, if another should be. In a URDF, which cannot say such a
    thing, this is an error.
    """
    reported = {name for name, joints in _joints_by_child(context).items() if len(joints) > 1}
    for joint in context.tree.loops:
        if joint.closes_loop or joint.kind is JointKind.DISTANCE:
            continue
        if context.format == "urdf" and joint.child in reported:
            continue  # graph.two-parents says it
        severity = Severity.ERROR if context.format == "urdf" else None
        ends = " and ".join("the world" if e is None else f'"{e}"' for e in (joint.parent, joint.child))
        message = f"{label(joint)} closes a loop between {ends}"
        yield Finding(joint, message, "declare the joint that should close the loop, if it is another", severity)


@rule("graph.isolated-frame", Severity.NOTE)
def isolated_link(context: CheckContext) -> Iterable[Finding]:
    """A link has no joint, no mass and no shape: nothing would change without it."""
    used = Counter(end for joint in context.joints for end in (joint.parent, joint.child))
    for link in context.links:
        if len(context.links) > 1 and not used[link.name] and link.inertial is None and not link.shapes:
            yield Finding(link, f"{label(link)} has no joint, no mass and no shape", "connect it, or leave it out")


# --------------------------------------------------------------------------------- nested links and articulations (USD)


@rule("articulation.nesting", Severity.ERROR)
def nested_rigid_body(context: CheckContext) -> Iterable[Finding]:
    """A link of a USD stage is inside another one, and the two are not of one articulation.

    UsdPhysics allows a rigid body inside another within an articulation only, or with `!resetXformStack!`. Elsewhere a
    simulator moves the inner body twice: once by itself, and once with the body around it.
    """
    if context.format != usd.FORMAT:
        return
    for link in context.links:
        outer = context.link_by_name.get(link.nested_in or "")
        if link.nested_in is None or link.attributes.get(usd.PRESERVED_RESET_XFORM_STACK):
            continue
        if outer is None or not _in_same_articulation(outer, link):
            message = f'{label(link)} is inside link "{link.nested_in}", outside of any articulation'
            hint = "connect the two by joints under one PhysicsArticulationRootAPI, or put them side by side"
            yield Finding(link, message, hint)


def _in_same_articulation(outer: Link, inner: Link) -> bool:
    root = inner.attributes.get(usd.PRESERVED_ARTICULATION)
    return root is not None and outer.attributes.get(usd.PRESERVED_ARTICULATION) == root


@rule("articulation.kinematic", Severity.ERROR)
def kinematic_below_dynamic_link(context: CheckContext) -> Iterable[Finding]:
    """A kinematic link hangs on one that is simulated, in an articulation.

    Links that the user moves must form an unbroken run from the articulation's root downward: below a simulated link,
    nothing can both follow its joint and be somewhere else.
    """
    if context.format != usd.FORMAT:
        return
    for edge in context.tree.edges:
        child, parent = context.link_by_name[edge.child], context.link_by_name.get(edge.parent or "")
        if parent is not None and child.kinematic and not parent.kinematic and _in_same_articulation(parent, child):
            message = f"{label(child)} is kinematic, but hangs on {label(parent)}, which is simulated"
            hint = "make every link between it and the articulation's root kinematic, or none below it"
            yield Finding(child, message, hint)
