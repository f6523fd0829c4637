"""Rules about duplicate, missing and unresolved names.

Unresolved links of joints are `graph.unknown-link`, unresolved joints of mimics `mimic.unknown-joint`, in other
modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kinema.core import Severity, to_identifier
from kinema.description import Constraint, ConstraintKind, Node, TendonPathKind, Transmission, World

from .context import CheckContext
from .messages import label, node_kind
from .rule import Finding, rule

# ----------------------------------------------------------------------------------------------------------- references

_TRANSMISSION_TARGET_KIND = {
    Transmission.JOINT: "joint",
    Transmission.JOINT_IN_PARENT: "joint",
    Transmission.TENDON: "tendon",
    Transmission.SITE: "frame",
    Transmission.SLIDER_CRANK: "frame",
    Transmission.BODY: "link",
}
_PATH_TARGET_KIND = {TendonPathKind.JOINT: "joint", TendonPathKind.SITE: "frame", TendonPathKind.WRAP: "shape"}
_CONSTRAINT_TARGET_KIND = {
    ConstraintKind.CONNECT: "link",
    ConstraintKind.WELD: "link",
    ConstraintKind.DISTANCE: "link",
    ConstraintKind.GEAR: "link",
    ConstraintKind.JOINT: "joint",
    ConstraintKind.TENDON: "tendon",
}


def _unresolved_references(
    context: CheckContext, node: Node, references: Iterable[tuple[str, str | None]]
) -> Iterable[Finding]:
    """A finding for each reference (kind, name) that does not exist."""
    for kind, name in references:
        known = context.names.names_of_kind(kind)
        if name and known is not None and name not in known:
            message = f'{label(node)} refers to the {kind} "{name}", which does not exist'
            yield Finding(node, message, f"correct the name, or add the {kind}")


@rule("references.actuator", Severity.ERROR)
def unresolved_actuator_target(context: CheckContext) -> Iterable[Finding]:
    """An actuator pulls on a joint, tendon, frame or link that does not exist."""
    for node in context.assembly.actuators:
        target = (_TRANSMISSION_TARGET_KIND.get(node.transmission, ""), node.target)
        yield from _unresolved_references(context, node, [target, ("frame", node.reference)])


@rule("references.tendon", Severity.ERROR)
def unresolved_tendon_path(context: CheckContext) -> Iterable[Finding]:
    """A tendon runs over a joint, frame or shape that does not exist."""
    for node in context.assembly.tendons:
        for item in node.path:
            target = (_PATH_TARGET_KIND.get(item.kind, ""), item.target)
            yield from _unresolved_references(context, node, [target, ("frame", item.side)])


@rule("references.constraint", Severity.ERROR)
def unresolved_constraint(context: CheckContext) -> Iterable[Finding]:
    """A constraint holds a link, joint or tendon that does not exist."""
    for node in context.assembly.constraints:
        yield from _unresolved_references(context, node, _constraint_references(node))


def _constraint_references(node: Constraint) -> list[tuple[str, str | None]]:
    kind = _CONSTRAINT_TARGET_KIND.get(node.kind, "")
    return [(kind, node.a), (kind, node.b), ("link", node.reference)]


@rule("references.frame", Severity.ERROR)
def unresolved_frame_link(context: CheckContext) -> Iterable[Finding]:
    """A frame, camera or light is on a link that does not exist."""
    assembly = context.assembly
    for node in (*assembly.frames, *assembly.cameras, *assembly.lights):
        yield from _unresolved_references(context, node, [("link", node.link)])


@rule("references.sensor", Severity.WARNING)
def unresolved_sensor_target(context: CheckContext) -> Iterable[Finding]:
    """A sensor measures something that does not exist."""
    for node in context.assembly.sensors:
        references = [(node.target_kind, node.target), (node.reference_kind, node.reference)]
        yield from _unresolved_references(context, node, references)


@rule("references.keyframe", Severity.WARNING)
def unresolved_keyframe(context: CheckContext) -> Iterable[Finding]:
    """A keyframe gives values for joints, actuators or links that do not exist."""
    for node in context.assembly.keyframes:
        joints = {**node.positions, **node.velocities}
        actuators = {**node.controls, **node.activations}
        references = [("joint", n) for n in joints] + [("actuator", n) for n in actuators]
        yield from _unresolved_references(context, node, references + [("link", n) for n in node.kinematic_poses])


@rule("references.collision-rule", Severity.WARNING)
def unresolved_collision_rule(context: CheckContext) -> Iterable[Finding]:
    """A collision pair or group names something that does not exist, and so has no effect."""
    rules, names = context.assembly.collision, context.names
    for pair in rules.pairs:
        known = names.shapes if pair.between == "shapes" else names.links
        for name in (pair.a, pair.b):
            if name not in known:
                message = f'the collision pair "{pair.a}", "{pair.b}" names "{name}", which does not exist'
                yield Finding(pair.origin, message, "correct the name, or remove the pair")
    for group in rules.groups:
        for name in group.members:
            if name not in names.links and name not in names.shapes:
                message = f'collision group "{group.name}" holds "{name}", which does not exist'
                yield Finding(group, message, "correct the name, or take it out of the group")
        for name in group.filtered:
            if name not in names.groups:
                message = f'collision group "{group.name}" filters the group "{name}", which does not exist'
                yield Finding(group, message, "correct the name, or take it out")


@rule("references.root", Severity.WARNING)
def unresolved_root(context: CheckContext) -> Iterable[Finding]:
    """The declared root, or the link that another is nested in, does not exist."""
    robot = context.robot
    if robot is None:
        return
    if robot.root is not None and robot.root not in context.link_by_name:
        message = f'{label(robot)} declares the root link "{robot.root}", which does not exist'
        yield Finding(robot, message, "name one of its links")
    for link in context.links:
        if link.nested_in is not None and link.nested_in not in context.names.links:
            message = f'{label(link)} is nested in link "{link.nested_in}", which does not exist'
            yield Finding(link, message, "name one of its links")


# ---------------------------------------------------------------------------------------------------------------- names


def _repeated_names(nodes: Sequence[Node], key: Callable[[str], str] = str) -> Iterable[tuple[Node, Node]]:
    """Each named node whose name occurred before, with the first node of that name."""
    first: dict[str, Node] = {}
    for node in nodes:
        if node.name and first.setdefault(key(node.name), node) is not node:
            yield node, first[key(node.name)]


def _duplicate_findings(nodes: Sequence[Node]) -> Iterable[Finding]:
    for node, _ in _repeated_names(nodes):
        message = f'more than one {node_kind(node)} is called "{node.name}"'
        yield Finding(node, message, "give each a name of its own")


@rule("names.empty", Severity.ERROR)
def missing_name(context: CheckContext) -> Iterable[Finding]:
    """A link or joint has no name, so nothing can refer to it."""
    for node in (*context.links, *context.joints):
        if not node.name:
            yield Finding(node, f"a {node_kind(node)} has no name", "give it one")


@rule("names.duplicate-link", Severity.ERROR)
def duplicate_link(context: CheckContext) -> Iterable[Finding]:
    """Two links of a robot have the same name: joints that name it could mean either."""
    yield from _duplicate_findings(context.links)


@rule("names.duplicate-joint", Severity.ERROR)
def duplicate_joint(context: CheckContext) -> Iterable[Finding]:
    """Two joints of a robot have the same name: a command for it could mean either."""
    yield from _duplicate_findings(context.joints)


@rule("names.duplicate-robot", Severity.ERROR)
def duplicate_robot(context: CheckContext) -> Iterable[Finding]:
    """Two robots of a world have the same name."""
    if isinstance(context.assembly, World):
        yield from _duplicate_findings(context.assembly.robots)


@rule("names.duplicate-part", Severity.WARNING)
def duplicate_element(context: CheckContext) -> Iterable[Finding]:
    """Two actuators, tendons, sensors, frames, cameras, keyframes or constraints have the same name."""
    a = context.assembly
    for nodes in (a.actuators, a.tendons, a.sensors, a.frames, a.cameras, a.keyframes, a.constraints):
        yield from _duplicate_findings(nodes)


@rule("names.duplicate-shape", Severity.NOTE)
def duplicate_shape(context: CheckContext) -> Iterable[Finding]:
    """Two collision shapes of one link have the same name: a collision rule that names it means both."""
    groups = [link.collisions for link in context.links]
    if isinstance(context.assembly, World):
        groups.append([s for s in context.assembly.shapes if s.collision])
    for shapes in groups:
        yield from _duplicate_findings(shapes)


@rule("names.differ-in-case", Severity.NOTE)
def names_differing_in_case(context: CheckContext) -> Iterable[Finding]:
    """Two names differ only in upper and lower case: easily confused, and the same file on some systems."""
    for nodes in (context.links, context.joints):
        for node, other in _repeated_names(nodes, str.casefold):
            if node.name != other.name:
                message = f"{label(node)} and {label(other)} differ only in upper and lower case"
                yield Finding(node, message, "rename one")


@rule("names.clash-when-cleaned", Severity.NOTE)
def names_clashing_as_identifiers(context: CheckContext) -> Iterable[Finding]:
    """Two names are the same once spaces and special characters are replaced.

    USD and some other formats accept only letters, digits and underscores. When the robot is written to one, a
    number is added to the second name.
    """
    for nodes in (context.links, context.joints):
        for node, other in _repeated_names(nodes, to_identifier):
            if node.name != other.name:
                message = f'{label(node)} and {label(other)} both become "{to_identifier(node.name)}" in strict formats'
                yield Finding(node, message, "rename one, with letters, digits and underscores only")
