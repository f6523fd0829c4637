"""Equality constraints: points and frames that stay together, joints and tendons that follow others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.polynomial import Polynomial

from kinema.description import (
    Assembly,
    Constraint,
    ConstraintKind,
    Frame,
    Joint,
    Robot,
    Tendon,
    TreeEdge,
)
from kinema.foundation import Pose
from kinema.words import mjcf

from ..report import Action
from ..text import Element, numbers
from .bodies import body_name, part_name
from .body_plan import BodyPlan
from .joint_parts import JointPart
from .joints import solver_attributes
from .numbers import pose_attributes, quaternion_text, text_or_none, vector_text
from .tendons import distance_tendon, joint_part
from .writing import Writing

_CLOSED = 1e-9
"""How far apart [m, rad] two frames may be at the reference configuration and still be taken for one."""


def write_constraints(writing: Writing) -> None:
    """All constraints of the description, then mimicry and screws."""
    for home, constraint in writing.parts("constraints"):
        _constraint(writing, home, constraint)
    for robot in writing.robots:
        for joint in robot.joints:
            _follow(writing, robot, joint)


def _constraint(writing: Writing, home: Assembly, constraint: Constraint) -> None:
    match constraint.kind:
        case ConstraintKind.CONNECT | ConstraintKind.WELD:
            _between_bodies(writing, home, constraint)
        case ConstraintKind.JOINT:
            _between_joints(writing, home, constraint)
        case ConstraintKind.TENDON:
            _between_tendons(writing, home, constraint)
        case ConstraintKind.DISTANCE:
            _distance(writing, home, constraint)
        case ConstraintKind.GEAR:
            _gear(writing, home, constraint)
        case ConstraintKind.OTHER:
            _other(writing, constraint)


def _add(writing: Writing, home: Assembly, constraint: Constraint, element: Element) -> None:
    entry = writing.names.add(mjcf.EQUALITY, constraint, home, shown=not constraint.name_is_generated)
    entry.element = element
    element.set({"active": None if constraint.active else "false", **solver_attributes(constraint.solver)})
    if constraint.solver.margin:
        writing.drop(constraint, "its margin", "equality constraints of MuJoCo's have none")
    writing.section(mjcf.EQUALITY).children.append(element)


# -- points and frames ------------------------------------------------------------------------------------------------


def _between_bodies(writing: Writing, home: Assembly, constraint: Constraint) -> None:
    ends = [_body(writing, home, name) for name in (constraint.a, constraint.b)]
    if any(missing for _, missing in ends) or ends[0][0] is ends[1][0]:
        writing.drop(constraint, "the constraint", "it does not name two links")
        return
    element = Element(constraint.kind.value)
    sites = _own_sites(writing, home, constraint)
    if sites is not None:
        element.set({"site1": sites[0], "site2": sites[1]})
    else:
        poses = constraint.pose_a, constraint.pose_b
        join(writing, element, [body for body, _ in ends], poses, constraint.name)
    if constraint.kind is ConstraintKind.WELD:
        element.set({"torquescale": text_or_none(constraint.torque_scale, 1.0)})
    _add(writing, home, constraint, element)


def _own_sites(writing: Writing, home: Assembly, constraint: Constraint) -> tuple[str, str] | None:
    """The sites that the file named for a constraint, where they are still its frames."""
    found = [writing.names.find(mjcf.SITE, s, home) for s in writing.take(constraint, mjcf.SITES) or ()]
    frames = [e.node for e in found if e is not None and isinstance(e.node, Frame) and e.element is not None]
    if len(frames) != 2:
        return None
    ends = ((constraint.a, constraint.pose_a), (constraint.b, constraint.pose_b))
    for frame, (link, pose) in zip(frames, ends, strict=True):
        if frame.link != link or max(frame.pose.distance(pose)) > 1e-12:
            return None
    first, second = (writing.names.of(mjcf.SITE, frame) for frame in frames)
    return first, second


def _body(writing: Writing, home: Assembly, name: str | None) -> tuple[BodyPlan | None, bool]:
    """The body of a link, and whether there is no such link; no body is the world."""
    entry = None if name is None else writing.names.find(mjcf.BODY, name, home)
    return (None, name is not None) if entry is None else (writing.body_of[id(entry.node)], False)


def join(
    writing: Writing, element: Element, bodies: Sequence[BodyPlan | None], poses: Sequence[Pose], name: str
) -> None:
    """Say which frames on two bodies a `connect` or `weld` holds together; no body is the world."""
    if bodies[0] is None:
        # MuJoCo wants a body first; for a weld, too, it is the same which side comes first
        bodies, poses = bodies[::-1], poses[::-1]
    frames = [_in_world(body) @ pose for body, pose in zip(bodies, poses, strict=True)]
    gap, turn = frames[0].distance(frames[1])
    is_weld = element.tag == "weld"
    closed = gap <= _CLOSED and (not is_weld or turn <= _CLOSED)
    first, second = bodies
    assert first is not None  # one of the two is a body
    if is_weld or closed:
        element.set({"body1": body_name(writing, first)})
        element.set({"body2": None if second is None else body_name(writing, second)})
    if is_weld:
        _weld(element, poses, closed)
    elif closed:
        element.set({"anchor": vector_text(poses[0].position)})
    else:
        # MuJoCo would take the points that are together at the reference configuration
        for number, (body, pose) in enumerate(zip(bodies, poses, strict=True), start=1):
            point = Pose.translation(pose.position)
            element.set({f"site{number}": new_site(writing, body, point, f"{name or 'point'}_{number}")})


def _weld(element: Element, poses: Sequence[Pose], closed: bool) -> None:
    """MuJoCo has the point in body 2, its place in body 1, and how body 2 is turned against body 1."""
    anchor = pose_attributes(Pose.translation(poses[1].position))["pos"]
    element.set({"anchor": anchor})
    if not closed:
        turn = poses[0].rotation @ poses[1].rotation.T
        element.set({"relpose": f"{vector_text(poses[0].position)} {quaternion_text(turn)}"})


def _in_world(body: BodyPlan | None) -> Pose:
    return Pose() if body is None else body.world_pose


def new_site(writing: Writing, body: BodyPlan | None, pose: Pose, name: str) -> str:
    """A site that the description does not have; its name."""
    own = writing.names.new(mjcf.SITE, name)
    holder = writing.section(mjcf.WORLDBODY) if body is None else body.element
    assert holder is not None  # bodies are written before constraints
    site = Element(mjcf.SITE, {"name": own})
    site.set(pose_attributes(pose))
    first_body = next((i for i, child in enumerate(holder.children) if getattr(child, "tag", "") == mjcf.BODY), None)
    holder.children.insert(len(holder.children) if first_body is None else first_body, site)
    return own


# -- joints and tendons -----------------------------------------------------------------------------------------------


def _between_joints(writing: Writing, home: Assembly, constraint: Constraint) -> None:
    first = joint_part(writing, constraint.a or "", home, constraint.axis_a)
    second = None if constraint.b is None else joint_part(writing, constraint.b, home, constraint.axis_b)
    if not _is_simple(first) or (constraint.b is not None and not _is_simple(second)):
        writing.drop(constraint, "the constraint", "MuJoCo couples hinges and slides of the tree only")
        return
    if first is second:
        writing.drop(constraint, "the constraint", "it does not name two joints")
        return
    assert first is not None  # it is simple
    element = Element(mjcf.JOINT, {"joint1": part_name(writing, first)})
    element.set({"joint2": None if second is None else part_name(writing, second)})
    moved = _moved(constraint.polynomial, 0.0 if second is None else second.shift, first.shift)
    element.set({"polycoef": _polynomial_text(moved)})
    _add(writing, home, constraint, element)


def _moved(polynomial: Sequence[float], leader: float, follower: float) -> tuple[float, ...]:
    """A polynomial between coordinates that are counted from further along: p(x + leader) - follower."""
    if not (leader or follower):
        return tuple(polynomial)
    shifted = Polynomial(list(polynomial))(Polynomial([leader, 1.0])).coef
    shifted[0] -= follower
    return tuple(float(c) for c in (*shifted, *[0.0] * (len(polynomial) - len(shifted))))


def _is_simple(part: JointPart | None) -> bool:
    return part is not None and part.kind in ("hinge", "slide")


def _polynomial_text(polynomial: Sequence[float]) -> str | None:
    return None if tuple(polynomial) == (0.0, 1.0, 0.0, 0.0, 0.0) else numbers(polynomial)


def _between_tendons(writing: Writing, home: Assembly, constraint: Constraint) -> None:
    first = writing.names.refer(mjcf.TENDON, constraint.a or "", home)
    second = None if constraint.b is None else writing.names.refer(mjcf.TENDON, constraint.b, home)
    if first is None or (constraint.b is not None and second is None):
        writing.drop(constraint, "the constraint", "a tendon that it names is not written")
        return
    shifts = [0.0 if name is None else _lengthened(writing, home, name) for name in (constraint.a, constraint.b)]
    if None in shifts:
        how = "MuJoCo counts it from where the robot starts"
        writing.approximate(constraint, "from where the length of its tendons counts", how)
    moved = _moved(constraint.polynomial, shifts[1] or 0.0, shifts[0] or 0.0)
    element = Element(mjcf.TENDON, {"tendon1": first})
    element.set({"tendon2": second, "polycoef": _polynomial_text(moved)})
    _add(writing, home, constraint, element)


def _lengthened(writing: Writing, home: Assembly, name: str) -> float | None:
    """How much longer a tendon is where the joints start than where their frames coincide; None where that is open."""
    entry = writing.names.find(mjcf.TENDON, name, home)
    tendon = None if entry is None else entry.node
    if not isinstance(tendon, Tendon) or not tendon.is_fixed:
        moved = any(part.shift for parts in writing.parts_of.values() for part in parts)
        return None if moved else 0.0
    parts = [(item.coefficient, joint_part(writing, item.target, home)) for item in tendon.path]
    return sum(coefficient * part.shift for coefficient, part in parts if part is not None)


def _distance(writing: Writing, home: Assembly, constraint: Constraint) -> None:
    """A tendon between the two points that keeps its length."""
    ends = [_body(writing, home, name) for name in (constraint.a, constraint.b)]
    if any(missing for _, missing in ends):
        writing.drop(constraint, "the constraint", "it does not name two links")
        return
    poses = constraint.pose_a, constraint.pose_b
    name = constraint.name or "distance"
    sites = [
        new_site(writing, body, Pose.translation(pose.position), f"{name}_{number}")
        for number, ((body, _), pose) in enumerate(zip(ends, poses, strict=True), start=1)
    ]
    points = [(_in_world(body) @ pose).position for (body, _), pose in zip(ends, poses, strict=True)]
    tendon = distance_tendon(writing, name, (sites[0], sites[1]), None)
    element = Element(mjcf.TENDON, {"tendon1": tendon})
    # MuJoCo counts from the length at the reference configuration
    off = constraint.distance - float(np.linalg.norm(points[0] - points[1]))
    element.set({"polycoef": numbers([off, 0, 0, 0, 0])})
    _add(writing, home, constraint, element)
    writing.approximate(constraint, "a distance constraint", f"the tendon {tendon!r} keeps its length")


def _other(writing: Writing, constraint: Constraint) -> None:
    for name in (mjcf.TYPE, mjcf.DATA, mjcf.FLEX):
        writing.take(constraint, name)
    writing.drop(constraint, "the constraint", "it holds a deformable body, which is not written")


# -- gears ------------------------------------------------------------------------------------------------------------


def _gear(writing: Writing, home: Assembly, constraint: Constraint) -> None:
    """Two hinges on the reference link that turn about the gear's axes."""
    robot = next((r for r in writing.robots if r is home), None)
    turns = (
        []
        if robot is None
        else [
            _turn(writing, robot, link, constraint.reference, axis)
            for link, axis in ((constraint.a, constraint.gear_axis_a), (constraint.b, constraint.gear_axis_b))
        ]
    )
    if len(turns) != 2 or None in turns:
        writing.drop(constraint, "the gear", "its links do not hang on its reference link by hinges along its axes")
        return
    (first, sign_a), (second, sign_b) = (t for t in turns if t is not None)
    element = Element(mjcf.JOINT, {"joint1": part_name(writing, second), "joint2": part_name(writing, first)})
    ratio = -constraint.ratio * sign_a * sign_b
    element.set({"polycoef": numbers(_moved((0.0, ratio, 0.0, 0.0, 0.0), first.shift, second.shift))})
    _add(writing, home, constraint, element)
    how = f"the joint {part_name(writing, second)!r} follows {part_name(writing, first)!r}"
    writing.approximate(constraint, "a gear", how)


def _turn(
    writing: Writing, robot: Robot, link: str | None, reference: str | None, axis: np.ndarray
) -> tuple[JointPart, float] | None:
    """The hinge by which a link turns against the reference link about an axis (in the link), and in which sense."""
    for edge in robot.tree().edges:
        turned = edge.child == link and edge.parent == reference
        carries = edge.child == reference and edge.parent == link and link is not None
        if not (turned or carries) or len(edge.joints) != 1:
            continue
        parts = writing.parts_of.get(id(edge.joints[0]), [])
        if len(parts) != 1 or parts[0].kind != "hinge" or parts[0].direction is None:
            return None
        direction = parts[0].direction if turned else _seen_from_parent(edge, parts[0])
        along = float(direction @ axis)
        return None if abs(abs(along) - 1) > 1e-9 else (parts[0], (1.0 if turned else -1.0) * np.sign(along))
    return None


def _seen_from_parent(edge: TreeEdge, part: JointPart) -> np.ndarray:
    """The axis of an edge's hinge in the frame of the edge's parent link, which a turn about it does not change."""
    joint = edge.joints[0]
    own = joint.child_pose if edge.reversed else joint.parent_pose
    sign = -1.0 if edge.reversed else 1.0
    assert part.axis is not None  # it is a hinge
    return sign * own.rotation @ part.axis.direction


# -- joints that follow others ----------------------------------------------------------------------------------------


def _follow(writing: Writing, robot: Robot, joint: Joint) -> None:
    """Mimicry, and the travel of a screw."""
    parts = writing.parts_of.get(id(joint), [])
    for part in parts:
        if part.travel is not None:
            leader = next(p for p in parts if p.travel is None)
            _couple(writing, part, leader, (0.0, part.travel))
        elif part.axis is not None and part.axis.mimic is not None:
            mimic = part.axis.mimic
            leader = joint_part(writing, mimic.joint, robot, mimic.axis)
            if leader is None or leader.axis is None or leader is part:
                writing.drop(joint, "that it follows another joint", f"the joint {mimic.joint!r} cannot be followed")
                continue
            # MuJoCo counts both coordinates from their references
            start = leader.reference - mimic.reference
            offset = mimic.multiplier * start + mimic.offset - part.reference
            element = _couple(writing, part, leader, (offset, mimic.multiplier))
            element.attributes = {
                "name": writing.names.new(mjcf.EQUALITY, mjcf.MIMIC + joint.name),
                **element.attributes,
            }
            how = "it is an equality constraint, which MuJoCo holds softly"
            writing.lose(Action.EXTENSION, joint, f'that it follows "{mimic.joint}" exactly', how)
    if not parts and any(a.mimic is not None for a in joint.moving_axes):
        writing.drop(joint, "that it follows another joint", "it is not written as a joint")


def _couple(writing: Writing, part: JointPart, leader: JointPart, line: tuple[float, float]) -> Element:
    element = writing.section(mjcf.EQUALITY).child(mjcf.JOINT)
    element.set({"joint1": part_name(writing, part), "joint2": part_name(writing, leader)})
    element.set({"polycoef": _polynomial_text((*line, 0.0, 0.0, 0.0))})
    return element


def plain_equality(writing: Writing, tag: str) -> Element:
    """An equality constraint that the description does not have."""
    return writing.section(mjcf.EQUALITY).child(tag)
