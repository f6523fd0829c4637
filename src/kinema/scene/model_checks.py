"""Checks at build time: dofs without inertia, unsupported features of descriptions, robots with unspecified base."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from kinema.builder import EntitySpec
from kinema.core import UNKNOWN_ORIGIN, Diagnostic, Diagnostics, KinemaError, Origin, Severity
from kinema.description import Base, Joint, JointKind, Link, Robot, TreeEdge, World
from kinema.dynamics import (
    Integrator,
    MassMatrixConditioning,
    Settings,
    fast_types_without_sweep,
    mass_matrix_conditioning,
    unsupported_type_pairs,
)
from kinema.model import Model

# -------------------------------------------------------------------------------------------- unspecified bases

_MOBILE_LINK_NAMES = re.compile(r"wheel|caster|leg|foot|feet|ankle|thigh|calf|track|rotor|propeller", re.IGNORECASE)
_FOOT_HEIGHT_TOLERANCE = 0.1
"""Tolerance of the heights of feet, relative to the extent of the robot; feet are at least twice as far below the
base."""


def robots_with_unspecified_base(spec: EntitySpec) -> list[Robot]:
    """Robots of an entity whose base neither file nor user declares fixed or floating; the simulation fixes them."""
    if spec.fixed is not None:
        return []
    description = spec.description
    robots = description.robots if isinstance(description, World) else [description]
    return [r for r in robots if r.base is Base.UNSPECIFIED and not r.static and r.tree().roots]


def report_unspecified_bases(spec: EntitySpec, diagnostics: Diagnostics) -> None:
    """Report robots whose base is fixed by default, because their file does not specify fixed or floating.

    A note, or a warning if names or kinematics suggest a mobile robot.

    Args:
        spec: the added entity.
        diagnostics: receives the messages (code `sim.base-held`).
    """
    for robot in robots_with_unspecified_base(spec):
        message = f'the file does not say how the base of robot "{robot.name}" is attached: it is fixed'
        hint = "use fixed=False (--base free) for a floating base, fixed=True (--base fixed) to confirm a fixed one"
        evidence = mobility_evidence(robot)
        if evidence:
            message = f"{message}, although it looks mobile: {evidence}"
            diagnostics.warning("sim.base-held", message, hint=hint, origin=robot.origin)
        else:
            diagnostics.note("sim.base-held", message, hint=hint, origin=robot.origin)


def mobility_evidence(robot: Robot) -> str:
    """Reason why a robot probably has a floating base (it drives, walks or flies), as text; empty if there is none.

    Heuristics: names of moving links or joints (wheel, leg, foot, rotor, ...), at least two wheels (unlimited leaf
    joints with horizontal axes), or at least two feet (leaf links of equal, lowest height below the base).
    """
    edges = [edge for edge in robot.tree().edges if any(joint.n_dofs for joint in edge.joints)]
    named = [
        edge.child
        for edge in edges
        if _MOBILE_LINK_NAMES.search(edge.child) or any(_MOBILE_LINK_NAMES.search(joint.name) for joint in edge.joints)
    ]
    if len(named) > 1:
        return f'it has "{named[0]}" and "{named[1]}"'
    leaves = list(_leaf_edges(robot, edges))
    wheels = [edge.child for edge in leaves if _is_wheel(robot, edge)]
    if len(wheels) > 1:
        return f'"{wheels[0]}" and "{wheels[1]}" rotate without limits about horizontal axes'
    feet = _find_feet(robot, leaves)
    return f'it stands on "{feet[0]}" and "{feet[1]}"' if len(feet) > 1 else ""


def _leaf_edges(robot: Robot, moving_edges: Sequence[TreeEdge]) -> Iterator[TreeEdge]:
    """Moving edges (joints with dofs between two links) of the kinematic tree without other moving edges below."""
    parent_of = {e.child: e.parent for e in robot.tree().edges}
    ancestors: set[str | None] = set()
    for edge in moving_edges:
        link = edge.parent
        while link is not None and link not in ancestors:
            ancestors.add(link)
            link = parent_of.get(link)
    return (e for e in moving_edges if e.child not in ancestors)


def _is_wheel(robot: Robot, edge: TreeEdge) -> bool:
    """Whether a leaf edge is a wheel: continuous joint without mimic whose axis is nearly horizontal."""
    joint = edge.joints[-1]
    if joint.kind is not JointKind.CONTINUOUS or joint.axes[0].mimic is not None or edge.parent is None:
        return False
    axis = (robot.link_poses()[edge.parent] @ joint.parent_pose).rotation @ joint.axes[0].direction
    return bool(abs(axis[2]) < 0.3)


def _find_feet(robot: Robot, leaf_edges: Sequence[TreeEdge]) -> list[str]:
    """Names of probable feet: the lowest leaf links, at about equal height and well below the base; may be empty."""
    poses = robot.link_poses()
    heights = {e.child: float(poses[e.child].position[2]) for e in leaf_edges}
    base = float(np.mean([poses[root].position[2] for root in robot.tree().roots]))
    positions = np.array([pose.position for pose in poses.values()])
    extent = float(np.ptp(positions, axis=0).max()) if len(positions) else 0.0
    lowest = min(heights.values(), default=base)
    if base - lowest < 2 * _FOOT_HEIGHT_TOLERANCE * extent:
        return []
    return [name for name, height in heights.items() if height - lowest <= _FOOT_HEIGHT_TOLERANCE * extent]


# ---------------------------------------------------------------- dofs without inertia, unsupported features

MIN_INERTIA_RATIO_SINGLE = 1e-6
"""Ratio of the inertia of a dof alone to the inertia it carries below which single precision loses accuracy."""

Descriptions = Sequence[Robot | World]


def check_dof_inertia(
    model: Model, descriptions: Descriptions, diagnostics: Diagnostics, *, precision: str, adjustable: bool
) -> MassMatrixConditioning:
    """Check that the mass matrix is positive definite; returns its pivots and diagonal in the initial configuration.

    Reports every dof with a singular pivot of the mass matrix in the initial configuration or in a perturbed one.
    Raises `KinemaError` for them unless `adjustable`. In single precision, ill-conditioned dofs give a warning.

    Args:
        model: the model to simulate.
        descriptions: descriptions of its entities, for the origin of messages.
        diagnostics: receives the messages.
        precision: `single` or `double`.
        adjustable: whether masses or armatures are per-environment parameters, which may still be set: then problems
            are warnings.
    """
    initial, perturbed = mass_matrix_conditioning(model)
    conditions: dict[int, str] = {}
    for condition, inertias in (("in the initial configuration", initial), ("", perturbed)):
        for dof in inertias.singular_dofs():
            conditions[dof] = condition if conditions.get(dof, condition) else ""
    problems = [
        _inertia_diagnostic(model, descriptions, dof, condition, adjustable)
        for dof, condition in sorted(conditions.items())
    ]
    for problem in problems:
        diagnostics.report(problem)
    if problems and not adjustable:
        more = f" (and {len(problems) - 1} more like this)" if len(problems) > 1 else ""
        raise KinemaError(f"{problems[0]}{more}", problems)
    if model.n_dofs and not problems and precision == "single":
        _warn_ill_conditioned(model, descriptions, initial, diagnostics)
    return initial


def _inertia_diagnostic(model: Model, descriptions: Descriptions, dof: int, where: str, adjustable: bool) -> Diagnostic:
    """Diagnostic of a dof whose pivot of the mass matrix is singular: `sim.massless` or `sim.singular`.

    The code is `sim.massless` if the dof moves no mass.

    Args:
        model: the model.
        descriptions: descriptions of the entities.
        dof: index of the dof.
        where: configuration in which the mass matrix is singular; empty for any.
        adjustable: whether the severity is a warning instead of an error.
    """
    joint, link, origin = _joint_of_dof(model, descriptions, dof)
    massless = not np.isfinite(model.links.inertial_mass).all() or _moves_no_mass(model, dof)
    code = "sim.massless" if massless else "sim.singular"
    reason = (
        "has no mass or inertia to move"
        if massless
        else "moves nothing that other joints do not move as well (singular mass matrix)"
    )
    return Diagnostic(
        Severity.WARNING if adjustable else Severity.ERROR,
        code,
        f'joint "{joint}" of link "{link}" cannot be simulated: it {reason}' + (f", {where}" if where else ""),
        f'give "{link}" a mass and inertia, or "{joint}" an armature, or fix the joint',
        origin,
    )


def _moves_no_mass(model: Model, dof: int) -> bool:
    """Whether all links moved by a dof (descendants of its frame) have zero mass and inertia."""
    descendants = {int(model.dofs.frame_idx[dof])}
    for frame, parent in enumerate(model.frames.parent_idx):  # parents precede children
        if int(parent) in descendants:
            descendants.add(frame)
    links = [i for i, frame in enumerate(model.links.frame_idx) if int(frame) in descendants]
    return not (model.links.inertial_mass[links].any() or model.links.inertial_i[links].any())


def _warn_ill_conditioned(
    model: Model, descriptions: Descriptions, inertias: MassMatrixConditioning, diagnostics: Diagnostics
) -> None:
    """Warn of the worst conditioned dof: the smallest ratio of pivot to diagonal of the mass matrix.

    No warning if the ratio is at least `MIN_INERTIA_RATIO_SINGLE`.
    """
    dof, ratio = inertias.worst_conditioned_dof()
    if ratio < MIN_INERTIA_RATIO_SINGLE:
        joint, link, origin = _joint_of_dof(model, descriptions, dof)
        diagnostics.warning(
            "sim.ill-conditioned",
            f'joint "{joint}" of link "{link}" has little inertia of its own ({ratio:.0e} of the inertia it carries): '
            "single precision may be too coarse",
            hint='use precision="double", or give the joint an armature',
            origin=origin,
        )


def _joint_of_dof(model: Model, descriptions: Descriptions, dof: int) -> tuple[str, str, Origin]:
    """Name of the joint of a dof, name of its child link, and origin of the joint (else of the link) in the file."""
    joint_idx = next(j for j in range(len(model.joints.names)) if dof < model.joints.dof_end[j])
    name, link_idx = model.joints.names[joint_idx], int(model.joints.link_idx[joint_idx])
    link = model.links.names[link_idx]
    joint, body = _find_joint_and_link(descriptions[int(model.links.entity_idx[link_idx])], name, link)
    origin = UNKNOWN_ORIGIN
    if joint is not None and str(joint.origin):
        origin = joint.origin
    elif body is not None:
        origin = body.origin
    return name, link, origin


def _find_joint_and_link(
    description: Robot | World, joint_name: str, link_name: str
) -> tuple[Joint | None, Link | None]:
    """Link of a description by name, and joint by name in the same robot; None for each that is not found."""
    if isinstance(description, World):
        candidates = ((r, x) for n, r, x in description.named_links() if n == link_name)
    else:
        candidates = ((description, x) for x in description.links if x.name == link_name)
    robot, body = next(candidates, (None, None))
    return next((j for j in robot.joints if j.name == joint_name), None) if robot else None, body


def report_unsupported(model: Model, descriptions: Descriptions, diagnostics: Diagnostics, *, contacts: bool) -> None:
    """Report features of the descriptions that the simulation does not support.

    Pairs of geom types without a collision algorithm, drives with position and velocity target, initial velocities of
    links, and effort limits of zero.

    Args:
        model: the model to simulate.
        descriptions: descriptions of its entities.
        diagnostics: receives warnings and notes.
        contacts: whether contacts are enabled.
    """
    type_pairs = unsupported_type_pairs(model) if contacts and model.options.contact else []
    if type_pairs:
        diagnostics.warning(
            "sim.contacts",
            f"geoms of these types do not collide: {', '.join(f'{a} and {b}' for a, b in type_pairs)}",
            hint="use Scene(contacts=False) if contacts are not needed",
        )
    for description in descriptions:
        _report_unsupported_joints(description, diagnostics)
        _report_zero_efforts(description, diagnostics)


def without_unsupported_sweeps(model: Model, settings: Settings, diagnostics: Diagnostics) -> Model:
    """Model without fast geoms where their motion cannot be swept: warns of the integrator RK4 and of shape types."""
    if not model.geoms.fast.any():
        return model
    if settings.integrator is Integrator.RK4:
        message = "contacts of fast bodies are found at the start of each step only: the integrator is rk4"
        hint = 'use Scene(integrator="euler"), "implicitfast" or "implicit"'
        diagnostics.warning("sim.fast", message, hint=hint)
        return model.with_columns("geoms", fast=np.zeros(0, np.bool_))
    type_pairs = fast_types_without_sweep(model)
    if type_pairs:
        listed = ", ".join(f"{a} and {b}" for a, b in type_pairs)
        message = f"contacts of fast bodies are found at the start of each step only for these types of geoms: {listed}"
        diagnostics.warning("sim.fast", message, hint="use convex shapes where bodies are fast")
    return model


def _report_unsupported_joints(description: Robot | World, diagnostics: Diagnostics) -> None:
    """Report velocity targets and initial velocities of a description, which the simulation ignores.

    Velocity targets are ignored in drives that also have a position target.
    """
    for joint in description.joints:
        for axis in joint.axes:
            drive = axis.drive
            if drive is not None and drive.stiffness != 0.0 and drive.target_velocity != 0.0:
                diagnostics.warning(
                    "sim.drive-velocity",
                    f'the drive of joint "{joint.name}" has position and velocity targets: the velocity is ignored',
                    origin=joint.origin,
                )
    for link in description.links:
        if link.linear_velocity.any() or link.angular_velocity.any():
            diagnostics.warning(
                "sim.first-velocity",
                f'link "{link.name}" starts at rest: the initial velocity of the file is ignored',
                origin=link.origin,
            )


def _report_zero_efforts(description: Robot | World, diagnostics: Diagnostics) -> None:
    """Warn of the joints of a description with an effort limit of zero, a frequent placeholder in URDF files."""
    joints = [j for j in description.joints if any(a.effort == 0.0 and a.mimic is None for a in j.moving_axes)]
    if not joints:
        return
    listed = ", ".join(f'"{joint.name}"' for joint in joints[:3])
    more = f" and {len(joints) - 3} more" if len(joints) > 3 else ""
    noun, verb = ("joint", "has") if len(joints) == 1 else ("joints", "have")
    diagnostics.warning(
        "sim.no-effort",
        f"{noun} {listed}{more} of {description.name} {verb} an effort limit of 0: commands have no effect",
        hint="give the file effort limits, or call entity.set_dofs_force_range",
        origin=joints[0].origin,
    )
