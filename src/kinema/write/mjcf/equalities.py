"""Equality constraints: connect, weld, joint and tendon couplings, gears, mimic joints and loop-closing joints.

Loop-closing joints: a fixed joint becomes a weld, a ball joint a connect, a plain hinge two connects on its axis, a
distance joint a limited tendon. Any other joint, and any joint with limits, drive or friction, becomes a joint of an
auxiliary body with negligible mass that is welded to the child link.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.polynomial import Polynomial

from kinema.core import Pose
from kinema.description import Assembly, Constraint, ConstraintKind, Frame, Joint, JointKind, Robot, Tendon, TreeEdge
from kinema.tokens import mjcf

from ..loss_report import Action
from ..xml_document import Element, format_numbers
from .actuation import add_distance_tendon, find_mjcf_joint
from .attributes import pose_attributes, quaternion_text, text_unless_default, vector_text
from .bodies import add_carrier_body, body_name, joint_name
from .context import MjcfBody, MjcfContext
from .joint_decomposition import MjcfJoint
from .joints import solver_attributes

# ------------------------------------------------------------------------------------------------- equality constraints

_CLOSURE_TOLERANCE = 1e-9
"""Distance [m] and angle [rad] up to which two frames coincide at the reference configuration."""


def write_constraints(ctx: MjcfContext) -> None:
    """Write all constraints of the description, then the couplings of mimic and screw joints."""
    for home, constraint in ctx.ordered_items("constraints"):
        _write_constraint(ctx, home, constraint)
    for robot in ctx.robots:
        for joint in robot.joints:
            _write_mimic_and_screw(ctx, robot, joint)


def _write_constraint(ctx: MjcfContext, assembly: Assembly, constraint: Constraint) -> None:
    match constraint.kind:
        case ConstraintKind.CONNECT | ConstraintKind.WELD:
            _write_body_constraint(ctx, assembly, constraint)
        case ConstraintKind.JOINT:
            _write_joint_coupling(ctx, assembly, constraint)
        case ConstraintKind.TENDON:
            _write_tendon_coupling(ctx, assembly, constraint)
        case ConstraintKind.DISTANCE:
            _write_distance_constraint(ctx, assembly, constraint)
        case ConstraintKind.GEAR:
            _write_gear(ctx, assembly, constraint)
        case ConstraintKind.OTHER:
            _report_flex_constraint(ctx, constraint)


def _add_equality(ctx: MjcfContext, assembly: Assembly, constraint: Constraint, element: Element) -> None:
    """Append the equality element of a constraint with its name, activity and solver parameters."""
    entry = ctx.names.register(mjcf.EQUALITY, constraint, assembly, always_named=not constraint.name_is_generated)
    entry.element = element
    element.set_attributes({"active": None if constraint.active else "false", **solver_attributes(constraint.solver)})
    if constraint.solver.margin:
        ctx.report_dropped(constraint, "its margin", "equality constraints of MuJoCo's have none")
    ctx.section(mjcf.EQUALITY).children.append(element)


# ----------------------------------------------------------------------------------------------------- connect and weld


def _write_body_constraint(ctx: MjcfContext, assembly: Assembly, constraint: Constraint) -> None:
    """Write a connect or weld constraint between two links, or a link and the world."""
    ends = [_find_body(ctx, assembly, name) for name in (constraint.a, constraint.b)]
    if any(missing for _, missing in ends) or ends[0][0] is ends[1][0]:
        ctx.report_dropped(constraint, "the constraint", "it does not name two links")
        return
    element = Element(constraint.kind.value)
    sites = _original_sites(ctx, assembly, constraint)
    if sites is not None:
        element.set_attributes({"site1": sites[0], "site2": sites[1]})
    else:
        poses = constraint.pose_a, constraint.pose_b
        set_connected_frames(ctx, element, [body for body, _ in ends], poses, constraint.name)
    if constraint.kind is ConstraintKind.WELD:
        element.set_attributes({"torquescale": text_unless_default(constraint.torque_scale, 1.0)})
    _add_equality(ctx, assembly, constraint, element)


def _original_sites(ctx: MjcfContext, assembly: Assembly, constraint: Constraint) -> tuple[str, str] | None:
    """Names of the two sites by which the MJCF source defined a constraint, if they still coincide with its frames."""
    found = [ctx.names.find(mjcf.SITE, s, assembly) for s in ctx.use_attribute(constraint, mjcf.SITES) or ()]
    frames = [e.node for e in found if e is not None and isinstance(e.node, Frame) and e.element is not None]
    if len(frames) != 2:
        return None
    ends = ((constraint.a, constraint.pose_a), (constraint.b, constraint.pose_b))
    for frame, (link, pose) in zip(frames, ends, strict=True):
        if frame.link != link or max(frame.pose.distance(pose)) > 1e-12:
            return None
    first, second = (ctx.names.name_of(mjcf.SITE, frame) for frame in frames)
    return first, second


def _find_body(ctx: MjcfContext, assembly: Assembly, name: str | None) -> tuple[MjcfBody | None, bool]:
    """Body of a link (None for the world), and whether a link of this name is missing."""
    entry = None if name is None else ctx.names.find(mjcf.BODY, name, assembly)
    return (None, name is not None) if entry is None else (ctx.bodies_by_link[id(entry.node)], False)


def set_connected_frames(
    ctx: MjcfContext, element: Element, bodies: Sequence[MjcfBody | None], poses: Sequence[Pose], name: str
) -> None:
    """Set the attributes of a `connect` or `weld` that holds frames on two bodies together; None is the world.

    Frames that coincide at the reference configuration use bodies and anchor; for an open `connect` sites are added.
    """
    if bodies[0] is None:
        # MuJoCo wants a body first; for a weld, too, it is the same which side comes first
        bodies, poses = bodies[::-1], poses[::-1]
    frames = [_world_pose(body) @ pose for body, pose in zip(bodies, poses, strict=True)]
    gap, turn = frames[0].distance(frames[1])
    is_weld = element.tag == "weld"
    closed = gap <= _CLOSURE_TOLERANCE and (not is_weld or turn <= _CLOSURE_TOLERANCE)
    first, second = bodies
    assert first is not None  # one of the two is a body
    if is_weld or closed:
        element.set_attributes({"body1": body_name(ctx, first)})
        element.set_attributes({"body2": None if second is None else body_name(ctx, second)})
    if is_weld:
        _set_weld_pose(element, poses, closed)
    elif closed:
        element.set_attributes({"anchor": vector_text(poses[0].position)})
    else:
        # MuJoCo would take the points that are together at the reference configuration
        for number, (body, pose) in enumerate(zip(bodies, poses, strict=True), start=1):
            point = Pose.translation(pose.position)
            element.set_attributes({f"site{number}": add_site(ctx, body, point, f"{name or 'point'}_{number}")})


def _set_weld_pose(element: Element, poses: Sequence[Pose], closed: bool) -> None:
    """Set the anchor in body 2 and, unless the frames coincide, the relative pose of a weld."""
    anchor = pose_attributes(Pose.translation(poses[1].position))["pos"]
    element.set_attributes({"anchor": anchor})
    if not closed:
        turn = poses[0].rotation @ poses[1].rotation.T
        element.set_attributes({"relpose": f"{vector_text(poses[0].position)} {quaternion_text(turn)}"})


def _world_pose(body: MjcfBody | None) -> Pose:
    return Pose() if body is None else body.world_pose


def add_site(ctx: MjcfContext, body: MjcfBody | None, pose: Pose, name: str) -> str:
    """Add an auxiliary site to a body or the world and return its name."""
    own = ctx.names.new_name(mjcf.SITE, name)
    holder = ctx.section(mjcf.WORLDBODY) if body is None else body.element
    assert holder is not None  # bodies are written before constraints
    site = Element(mjcf.SITE, {"name": own})
    site.set_attributes(pose_attributes(pose))
    first_body = next((i for i, child in enumerate(holder.children) if getattr(child, "tag", "") == mjcf.BODY), None)
    holder.children.insert(len(holder.children) if first_body is None else first_body, site)
    return own


# ------------------------------------------------------------------------------------------- joint and tendon couplings


def _write_joint_coupling(ctx: MjcfContext, assembly: Assembly, constraint: Constraint) -> None:
    """Write a polynomial coupling of two hinge or slide joints, or of one joint to a constant."""
    first = find_mjcf_joint(ctx, constraint.a or "", assembly, constraint.axis_a)
    second = None if constraint.b is None else find_mjcf_joint(ctx, constraint.b, assembly, constraint.axis_b)
    if not _is_hinge_or_slide(first) or (constraint.b is not None and not _is_hinge_or_slide(second)):
        ctx.report_dropped(constraint, "the constraint", "MuJoCo couples hinges and slides of the tree only")
        return
    if first is second:
        ctx.report_dropped(constraint, "the constraint", "it does not name two joints")
        return
    assert first is not None  # it is simple
    element = Element(mjcf.JOINT, {"joint1": joint_name(ctx, first)})
    element.set_attributes({"joint2": None if second is None else joint_name(ctx, second)})
    moved = _shift_polynomial(
        constraint.polynomial, 0.0 if second is None else second.reference_offset, first.reference_offset
    )
    element.set_attributes({"polycoef": _polynomial_text(moved)})
    _add_equality(ctx, assembly, constraint, element)


def _shift_polynomial(polynomial: Sequence[float], leader_offset: float, follower_offset: float) -> tuple[float, ...]:
    """Polynomial coefficients after a shift of both coordinates: p(x + leader_offset) - follower_offset."""
    if not (leader_offset or follower_offset):
        return tuple(polynomial)
    shifted = Polynomial(list(polynomial))(Polynomial([leader_offset, 1.0])).coef
    shifted[0] -= follower_offset
    return tuple(float(c) for c in (*shifted, *[0.0] * (len(polynomial) - len(shifted))))


def _is_hinge_or_slide(mjcf_joint: MjcfJoint | None) -> bool:
    return mjcf_joint is not None and mjcf_joint.kind in ("hinge", "slide")


def _polynomial_text(polynomial: Sequence[float]) -> str | None:
    return None if tuple(polynomial) == (0.0, 1.0, 0.0, 0.0, 0.0) else format_numbers(polynomial)


def _write_tendon_coupling(ctx: MjcfContext, assembly: Assembly, constraint: Constraint) -> None:
    """Write a polynomial coupling of two tendon lengths, counted from the reference configuration."""
    first = ctx.names.resolve_reference(mjcf.TENDON, constraint.a or "", assembly)
    second = None if constraint.b is None else ctx.names.resolve_reference(mjcf.TENDON, constraint.b, assembly)
    if first is None or (constraint.b is not None and second is None):
        ctx.report_dropped(constraint, "the constraint", "a tendon that it names is not written")
        return
    shifts = [
        0.0 if name is None else _tendon_reference_offset(ctx, assembly, name) for name in (constraint.a, constraint.b)
    ]
    if None in shifts:
        how = "MuJoCo counts it from where the robot starts"
        ctx.report_approximated(constraint, "from where the length of its tendons counts", how)
    moved = _shift_polynomial(constraint.polynomial, shifts[1] or 0.0, shifts[0] or 0.0)
    element = Element(mjcf.TENDON, {"tendon1": first})
    element.set_attributes({"tendon2": second, "polycoef": _polynomial_text(moved)})
    _add_equality(ctx, assembly, constraint, element)


def _tendon_reference_offset(ctx: MjcfContext, assembly: Assembly, name: str) -> float | None:
    """Tendon length at the reference configuration relative to coinciding joint frames; None if unknown."""
    entry = ctx.names.find(mjcf.TENDON, name, assembly)
    tendon = None if entry is None else entry.node
    if not isinstance(tendon, Tendon) or not tendon.is_fixed:
        moved = any(part.reference_offset for parts in ctx.joints_by_source.values() for part in parts)
        return None if moved else 0.0
    parts = [(item.coefficient, find_mjcf_joint(ctx, item.target, assembly)) for item in tendon.path]
    return sum(coefficient * part.reference_offset for coefficient, part in parts if part is not None)


def _write_distance_constraint(ctx: MjcfContext, assembly: Assembly, constraint: Constraint) -> None:
    """Write a distance constraint as an equality constraint on the length of a tendon between two sites."""
    ends = [_find_body(ctx, assembly, name) for name in (constraint.a, constraint.b)]
    if any(missing for _, missing in ends):
        ctx.report_dropped(constraint, "the constraint", "it does not name two links")
        return
    poses = constraint.pose_a, constraint.pose_b
    name = constraint.name or "distance"
    sites = [
        add_site(ctx, body, Pose.translation(pose.position), f"{name}_{number}")
        for number, ((body, _), pose) in enumerate(zip(ends, poses, strict=True), start=1)
    ]
    points = [(_world_pose(body) @ pose).position for (body, _), pose in zip(ends, poses, strict=True)]
    tendon = add_distance_tendon(ctx, name, (sites[0], sites[1]), None)
    element = Element(mjcf.TENDON, {"tendon1": tendon})
    # MuJoCo counts from the length at the reference configuration
    off = constraint.distance - float(np.linalg.norm(points[0] - points[1]))
    element.set_attributes({"polycoef": format_numbers([off, 0, 0, 0, 0])})
    _add_equality(ctx, assembly, constraint, element)
    ctx.report_approximated(constraint, "a distance constraint", f"the tendon {tendon!r} keeps its length")


def _report_flex_constraint(ctx: MjcfContext, constraint: Constraint) -> None:
    for name in (mjcf.TYPE, mjcf.DATA, mjcf.FLEX):
        ctx.use_attribute(constraint, name)
    ctx.report_dropped(constraint, "the constraint", "it holds a deformable body, which is not written")


# ---------------------------------------------------------------------------------------------------------------- gears


def _write_gear(ctx: MjcfContext, assembly: Assembly, constraint: Constraint) -> None:
    """Write a gear as a joint coupling of two hinges on the reference link; dropped if there are no such hinges."""
    robot = next((r for r in ctx.robots if r is assembly), None)
    turns = (
        []
        if robot is None
        else [
            _gear_hinge(ctx, robot, link, constraint.reference, axis)
            for link, axis in ((constraint.a, constraint.gear_axis_a), (constraint.b, constraint.gear_axis_b))
        ]
    )
    if len(turns) != 2 or None in turns:
        ctx.report_dropped(
            constraint, "the gear", "its links do not hang on its reference link by hinges along its axes"
        )
        return
    (first, sign_a), (second, sign_b) = (t for t in turns if t is not None)
    element = Element(mjcf.JOINT, {"joint1": joint_name(ctx, second), "joint2": joint_name(ctx, first)})
    ratio = -constraint.ratio * sign_a * sign_b
    element.set_attributes(
        {
            "polycoef": format_numbers(
                _shift_polynomial((0.0, ratio, 0.0, 0.0, 0.0), first.reference_offset, second.reference_offset)
            )
        }
    )
    _add_equality(ctx, assembly, constraint, element)
    how = f"the joint {joint_name(ctx, second)!r} follows {joint_name(ctx, first)!r}"
    ctx.report_approximated(constraint, "a gear", how)


def _gear_hinge(
    ctx: MjcfContext, robot: Robot, link: str | None, reference: str | None, axis: np.ndarray
) -> tuple[MjcfJoint, float] | None:
    """Hinge between a link and the gear's reference link along an axis in the link, and its sign; None if absent."""
    for edge in robot.tree().edges:
        turned = edge.child == link and edge.parent == reference
        carries = edge.child == reference and edge.parent == link and link is not None
        if not (turned or carries) or len(edge.joints) != 1:
            continue
        parts = ctx.joints_by_source.get(id(edge.joints[0]), [])
        if len(parts) != 1 or parts[0].kind != "hinge" or parts[0].direction is None:
            return None
        direction = parts[0].direction if turned else _axis_in_parent(edge, parts[0])
        along = float(direction @ axis)
        return None if abs(abs(along) - 1) > 1e-9 else (parts[0], (1.0 if turned else -1.0) * np.sign(along))
    return None


def _axis_in_parent(edge: TreeEdge, mjcf_joint: MjcfJoint) -> np.ndarray:
    """Hinge axis of an edge in the frame of the edge's parent link; invariant under the hinge's rotation."""
    joint = edge.joints[0]
    own = joint.child_pose if edge.reversed else joint.parent_pose
    sign = -1.0 if edge.reversed else 1.0
    assert mjcf_joint.axis is not None  # it is a hinge
    return sign * own.rotation @ mjcf_joint.axis.direction


# --------------------------------------------------------------------------------------------------------- mimic joints


def _write_mimic_and_screw(ctx: MjcfContext, robot: Robot, joint: Joint) -> None:
    """Write the couplings of mimic axes to their leaders and of a screw's slide to its hinge."""
    parts = ctx.joints_by_source.get(id(joint), [])
    for part in parts:
        if part.travel_per_radian is not None:
            leader = next(p for p in parts if p.travel_per_radian is None)
            _add_joint_coupling(ctx, part, leader, (0.0, part.travel_per_radian))
        elif part.axis is not None and part.axis.mimic is not None:
            mimic = part.axis.mimic
            leader = find_mjcf_joint(ctx, mimic.joint, robot, mimic.axis)
            if leader is None or leader.axis is None or leader is part:
                ctx.report_dropped(
                    joint, "that it follows another joint", f"the joint {mimic.joint!r} cannot be followed"
                )
                continue
            # MuJoCo counts both coordinates from their references
            start = leader.reference - mimic.reference
            offset = mimic.multiplier * start + mimic.offset - part.reference
            element = _add_joint_coupling(ctx, part, leader, (offset, mimic.multiplier))
            element.attributes = {
                "name": ctx.names.new_name(mjcf.EQUALITY, mjcf.MIMIC_PREFIX + joint.name),
                **element.attributes,
            }
            how = "it is an equality constraint, which MuJoCo holds softly"
            ctx.report_loss(Action.EXTENSION, joint, f'that it follows "{mimic.joint}" exactly', how)
    if not parts and any(a.mimic is not None for a in joint.moving_axes):
        ctx.report_dropped(joint, "that it follows another joint", "it is not written as a joint")


def _add_joint_coupling(
    ctx: MjcfContext, mjcf_joint: MjcfJoint, leader: MjcfJoint, coefficients: tuple[float, float]
) -> Element:
    """Append a linear coupling mjcf_joint = c0 + c1 * leader and return its element."""
    element = ctx.section(mjcf.EQUALITY).add_child(mjcf.JOINT)
    element.set_attributes({"joint1": joint_name(ctx, mjcf_joint), "joint2": joint_name(ctx, leader)})
    element.set_attributes({"polycoef": _polynomial_text((*coefficients, 0.0, 0.0, 0.0))})
    return element


def add_equality_element(ctx: MjcfContext, tag: str) -> Element:
    """Append an equality element that has no counterpart in the description."""
    return ctx.section(mjcf.EQUALITY).add_child(tag)


# -------------------------------------------------------------------------------------------------- loop-closing joints

_AXIS_POINT_DISTANCE = 0.1
"""Distance [m] between the two connected points on a hinge axis."""
_HINGE_KINDS = {JointKind.REVOLUTE, JointKind.CONTINUOUS}


def add_loop_bodies(ctx: MjcfContext) -> None:
    """Add the auxiliary bodies of loop-closing joints; must run before the bodies are written."""
    for robot in ctx.robots:
        for joint in robot.tree().loops:
            if robot.static or joint.kind is JointKind.FREE:
                ctx.report_dropped(joint, "the joint", "it holds nothing together that could move apart")
        for joint in _loop_joints(robot):
            if _needs_carrier_body(joint):
                body = add_carrier_body(ctx, robot, joint)
                how = f"it moves the body {body.name!r}, of hardly any mass, which is welded to its child"
                ctx.report_approximated(joint, "a joint that closes a loop", how)


def _loop_joints(robot: Robot) -> list[Joint]:
    return [] if robot.static else [j for j in robot.tree().loops if j.kind is not JointKind.FREE]


def _needs_carrier_body(joint: Joint) -> bool:
    """Whether a loop-closing joint must be written as a joint of an auxiliary body welded to its child."""
    if joint.kind in (JointKind.FIXED, JointKind.DISTANCE) or not joint.moving_axes:
        return False
    if joint.kind not in _HINGE_KINDS and joint.kind is not JointKind.SPHERICAL:
        return True
    return joint.cone is not None or any(
        math.isfinite(a.lower)
        or math.isfinite(a.upper)
        or a.drive is not None
        or a.mimic is not None
        or any((a.stiffness, a.damping, a.friction, a.armature))
        for a in joint.axes
    )


def write_loop_constraints(ctx: MjcfContext) -> None:
    """Write the constraints of loop-closing joints and the distance limits of tree joints."""
    for robot in ctx.robots:
        for joint in _loop_joints(robot):
            _write_loop_constraint(ctx, robot, joint)
        tree_joints = [j for edge in robot.tree().edges for j in edge.joints]
        for joint in tree_joints:
            if joint.distance != (0.0, math.inf) and not robot.static:
                _write_joint_distance(ctx, robot, joint)


def _write_loop_constraint(ctx: MjcfContext, robot: Robot, joint: Joint) -> None:
    """Write the weld, connects or tendon of one loop-closing joint."""
    bodies = [_link_body(ctx, robot, name) for name in (joint.parent, joint.child)]
    poses = [_frame_on_link(robot, name, pose) for name, pose in _joint_ends(joint)]
    parts = ctx.joints_by_source.get(id(joint))
    if parts:
        held = next(b for b in _all_bodies(ctx) if b.joints and b.joints[0].joint is joint)
        # the carrier is in the child's place: the two frames are one
        weld = add_equality_element(ctx, "weld")
        own = Pose.translation(joint.child_pose.position)
        set_connected_frames(ctx, weld, [held, bodies[1]], [own, _frame_on_link(robot, joint.child, own)], joint.name)
        return
    if joint.kind is JointKind.DISTANCE:
        _write_joint_distance(ctx, robot, joint)
        return
    if joint.kind is JointKind.FIXED or not joint.moving_axes:
        set_connected_frames(ctx, add_equality_element(ctx, "weld"), bodies, poses, joint.name)
        ctx.report_approximated(joint, "a joint that closes a loop", "it is a weld constraint")
        return
    set_connected_frames(ctx, add_equality_element(ctx, "connect"), bodies, poses, joint.name)
    how = "it is a constraint that holds its centre together"
    if joint.kind is not JointKind.SPHERICAL:
        along = Pose.translation(_AXIS_POINT_DISTANCE * joint.moving_axes[0].direction)
        set_connected_frames(
            ctx, add_equality_element(ctx, "connect"), bodies, [p @ along for p in poses], f"{joint.name}_axis"
        )
        how = "it is two constraints that hold points of its axis together"
    ctx.report_approximated(joint, "a joint that closes a loop", how)


def _write_joint_distance(ctx: MjcfContext, robot: Robot, joint: Joint) -> None:
    """Write the distance limits of a joint as the length range of a tendon between the joint frames' origins."""
    sites = [
        add_site(ctx, _link_body(ctx, robot, name), Pose.translation(_frame_on_link(robot, name, pose).position), label)
        for (name, pose), label in zip(_joint_ends(joint), (f"{joint.name}_1", f"{joint.name}_2"), strict=True)
    ]
    tendon = add_distance_tendon(ctx, joint.name, (sites[0], sites[1]), joint.distance)
    ctx.report_approximated(joint, "the distance that it keeps", f"it is the range of the tendon {tendon!r}")


def _joint_ends(joint: Joint) -> tuple[tuple[str | None, Pose], tuple[str | None, Pose]]:
    return (joint.parent, joint.parent_pose), (joint.child, joint.child_pose)


def _frame_on_link(robot: Robot, link: str | None, pose: Pose) -> Pose:
    """Pose on a link, or in the world for the robot base (link None)."""
    return robot.pose @ pose if link is None else pose


def _link_body(ctx: MjcfContext, robot: Robot, name: str | None) -> MjcfBody | None:
    return None if name is None else ctx.bodies_by_link[id(robot.link(name))]


def _all_bodies(ctx: MjcfContext) -> list[MjcfBody]:
    return [body for top in ctx.root_bodies for body in top.iterate_subtree()]
