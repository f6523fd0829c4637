"""Rules about names that lead nowhere; for joints see `graph.unknown-link`, for mimics `mimic.unknown-joint`."""

from __future__ import annotations

from collections.abc import Iterable

from kinema.description import Constraint, ConstraintKind, Node, TendonPathKind, Transmission
from kinema.foundation import Severity

from .context import Context
from .rule import Finding, rule
from .words import label

_TARGET_OF_TRANSMISSION = {
    Transmission.JOINT: "joint",
    Transmission.JOINT_IN_PARENT: "joint",
    Transmission.TENDON: "tendon",
    Transmission.SITE: "frame",
    Transmission.SLIDER_CRANK: "frame",
    Transmission.BODY: "link",
}
_TARGET_OF_PATH = {TendonPathKind.JOINT: "joint", TendonPathKind.SITE: "frame", TendonPathKind.WRAP: "shape"}
_ENDS_OF_CONSTRAINT = {
    ConstraintKind.CONNECT: "link",
    ConstraintKind.WELD: "link",
    ConstraintKind.DISTANCE: "link",
    ConstraintKind.GEAR: "link",
    ConstraintKind.JOINT: "joint",
    ConstraintKind.TENDON: "tendon",
}


def _missing(context: Context, node: Node, references: Iterable[tuple[str, str | None]]) -> Iterable[Finding]:
    """A finding for each (kind, name) that does not exist."""
    for kind, name in references:
        known = context.names.of_kind(kind)
        if name and known is not None and name not in known:
            message = f'{label(node)} refers to the {kind} "{name}", which does not exist'
            yield Finding(node, message, f"correct the name, or add the {kind}")


@rule("references.actuator", Severity.ERROR)
def actuator(context: Context) -> Iterable[Finding]:
    """An actuator pulls on a joint, tendon, frame or link that does not exist."""
    for node in context.assembly.actuators:
        target = (_TARGET_OF_TRANSMISSION.get(node.transmission, ""), node.target)
        yield from _missing(context, node, [target, ("frame", node.reference)])


@rule("references.tendon", Severity.ERROR)
def tendon(context: Context) -> Iterable[Finding]:
    """A tendon runs over a joint, frame or shape that does not exist."""
    for node in context.assembly.tendons:
        for item in node.path:
            target = (_TARGET_OF_PATH.get(item.kind, ""), item.target)
            yield from _missing(context, node, [target, ("frame", item.side)])


@rule("references.constraint", Severity.ERROR)
def constraint(context: Context) -> Iterable[Finding]:
    """A constraint holds a link, joint or tendon that does not exist."""
    for node in context.assembly.constraints:
        yield from _missing(context, node, _ends(node))


def _ends(node: Constraint) -> list[tuple[str, str | None]]:
    kind = _ENDS_OF_CONSTRAINT.get(node.kind, "")
    return [(kind, node.a), (kind, node.b), ("link", node.reference)]


@rule("references.frame", Severity.ERROR)
def frame(context: Context) -> Iterable[Finding]:
    """A frame, camera or light is on a link that does not exist."""
    assembly = context.assembly
    for node in (*assembly.frames, *assembly.cameras, *assembly.lights):
        yield from _missing(context, node, [("link", node.link)])


@rule("references.sensor", Severity.WARNING)
def sensor(context: Context) -> Iterable[Finding]:
    """A sensor measures something that does not exist."""
    for node in context.assembly.sensors:
        references = [(node.target_kind, node.target), (node.reference_kind, node.reference)]
        yield from _missing(context, node, references)


@rule("references.keyframe", Severity.WARNING)
def keyframe(context: Context) -> Iterable[Finding]:
    """A keyframe gives values for joints, actuators or links that do not exist."""
    for node in context.assembly.keyframes:
        joints = {**node.positions, **node.velocities}
        actuators = {**node.controls, **node.activations}
        references = [("joint", n) for n in joints] + [("actuator", n) for n in actuators]
        yield from _missing(context, node, references + [("link", n) for n in node.kinematic_poses])


@rule("references.collision-rule", Severity.WARNING)
def collision_rule(context: Context) -> Iterable[Finding]:
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
def root(context: Context) -> Iterable[Finding]:
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
