"""What cannot be simulated: refused with the place in the file, or said among the diagnostics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kinema.description import Joint, Link, Robot, World
from kinema.foundation import NOWHERE, Diagnostic, Diagnostics, KinemaError, Origin, Severity
from kinema.model import Model
from kinema.sim import Inertias, joint_inertias, kinds_without_contact

SINGLE_LEFT = 1e-6
"""A share of its inertia below which a degree of freedom is at the mercy of single precision."""

Descriptions = Sequence[Robot | World]


def refuse_impossible(
    model: Model, parts: Descriptions, diagnostics: Diagnostics, *, precision: str, adjustable: bool
) -> Inertias:
    """Raise for degrees of freedom without inertia, all of them named; otherwise the inertia at the start.

    Args:
        model: what is to be simulated.
        parts: the descriptions of its entities.
        diagnostics: where problems go.
        precision: `single` or `double`.
        adjustable: whether masses or armatures differ between environments and may still be set: then problems are
            warnings.
    """
    at_start, near_it = joint_inertias(model)
    found: dict[int, str] = {}
    for where, state in (("at its start", at_start), ("", near_it)):
        for dof in state.impossible():
            found[dof] = where if found.get(dof, where) else ""
    problems = [_without_inertia(model, parts, dof, where, adjustable) for dof, where in sorted(found.items())]
    for problem in problems:
        diagnostics.report(problem)
    if problems and not adjustable:
        more = f" (and {len(problems) - 1} more like this)" if len(problems) > 1 else ""
        raise KinemaError(f"{problems[0]}{more}", problems)
    if model.n_dofs and not problems and precision == "single":
        _warn_of_rounding(model, parts, at_start, diagnostics)
    return at_start


def _without_inertia(model: Model, parts: Descriptions, dof: int, where: str, adjustable: bool) -> Diagnostic:
    joint, link, origin = _owner(model, parts, dof)
    massless = not np.isfinite(model.links.inertial_mass).all() or _carries_nothing(model, dof)
    code = "sim.massless" if massless else "sim.singular"
    what = "has no mass or inertia to move" if massless else "moves nothing that other joints do not move as well"
    return Diagnostic(
        Severity.WARNING if adjustable else Severity.ERROR,
        code,
        f'joint "{joint}" of link "{link}" cannot be simulated: it {what}' + (f", {where}" if where else ""),
        f'give "{link}" a mass and inertia, or "{joint}" an armature, or fix the joint',
        origin,
    )


def _carries_nothing(model: Model, dof: int) -> bool:
    """Whether all links that a degree of freedom moves are without mass and inertia."""
    carried = {int(model.dofs.frame_idx[dof])}
    for frame, parent in enumerate(model.frames.parent_idx):  # parents come first
        if int(parent) in carried:
            carried.add(frame)
    links = [i for i, frame in enumerate(model.links.frame_idx) if int(frame) in carried]
    return not (model.links.inertial_mass[links].any() or model.links.inertial_i[links].any())


def _warn_of_rounding(model: Model, parts: Descriptions, state: Inertias, diagnostics: Diagnostics) -> None:
    dof, share = state.worst()
    if share < SINGLE_LEFT:
        joint, link, origin = _owner(model, parts, dof)
        diagnostics.warning(
            "sim.ill-conditioned",
            f'joint "{joint}" of link "{link}" has little inertia of its own ({share:.0e} of what it carries): single '
            "precision may lose it",
            hint='use precision="double", or give the joint an armature',
            origin=origin,
        )


def _owner(model: Model, parts: Descriptions, dof: int) -> tuple[str, str, Origin]:
    """The joint of a degree of freedom, the link it moves, and where the joint is in its file."""
    number = next(j for j in range(len(model.joints.names)) if dof < model.joints.dof_end[j])
    name, index = model.joints.names[number], int(model.joints.link_idx[number])
    link = model.links.names[index]
    joint, body = _described(parts[int(model.links.entity_idx[index])], name, link)
    origin = NOWHERE
    if joint is not None and str(joint.origin):
        origin = joint.origin
    elif body is not None:
        origin = body.origin
    return name, link, origin


def _described(description: Robot | World, joint: str, link: str) -> tuple[Joint | None, Link | None]:
    if isinstance(description, World):
        named = ((r, x) for n, r, x in description.named_links() if n == link)
    else:
        named = ((description, x) for x in description.links if x.name == link)
    robot, body = next(named, (None, None))
    return next((j for j in robot.joints if j.name == joint), None) if robot else None, body


def report_missing(model: Model, parts: Descriptions, diagnostics: Diagnostics, *, contacts: bool) -> None:
    """Say what the descriptions ask for and the simulation does not have yet."""
    through = kinds_without_contact(model) if contacts and model.options.contact else []
    if through:
        diagnostics.warning(
            "sim.contacts",
            f"shapes of these kinds pass through each other: {', '.join(f'{a} and {b}' for a, b in through)}",
            hint="Scene(contacts=False) to say that this is meant",
        )
    for description in parts:
        _report_joints(description, diagnostics)


def _report_joints(description: Robot | World, diagnostics: Diagnostics) -> None:
    for joint in description.joints:
        for axis in joint.axes:
            drive = axis.drive
            if drive is not None and drive.stiffness != 0.0 and drive.target_velocity != 0.0:
                diagnostics.warning(
                    "sim.drive-velocity",
                    f'the drive of joint "{joint.name}" wants a position and a velocity: the velocity is left out',
                    origin=joint.origin,
                )
    for link in (x for x in description.links if x.kinematic):
        diagnostics.note(
            "sim.kinematic",
            f'link "{link.name}" is moved by the user in its file (a mocap body): here it stays where it is',
            hint="a free body that touches nothing can be put anywhere by set_pos and set_quat",
            origin=link.origin,
        )
    for link in description.links:
        if link.linear_velocity.any() or link.angular_velocity.any():
            diagnostics.warning(
                "sim.first-velocity", f'link "{link.name}" starts at rest, not as its file says', origin=link.origin
            )
