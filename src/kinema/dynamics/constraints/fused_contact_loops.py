"""Fused loops over contacts for scenes of many bodies: each visits a contact record once for several quantities.

`ContactConstraints` has a loop per quantity. With many bodies, most of the time of such a loop is spent on loading
records and twists of a pair in contact; the solver of free bodies (`solver/body_objective.py`) uses these loops.
"""

from __future__ import annotations

from collections.abc import Sequence

from kinema.ir import ArenaOffset, IterationContext, Value

from ..collision.contact_buffer_specs import ContactSpecialization
from ..collision.contact_records import Contact, ContactSums
from ..rigid.kinematics import Twist
from ..rigid.rnea import Wrench
from ..tree.kinematic_tree import frame_ref
from ..tree.node_values import NodeValues
from ..vector_math import dot
from .contact_jacobian import project_twist, relative_twist, spatial_contact_jacobian
from .contacts import ContactConstraints


def _add_to_total(iteration: IterationContext, sums: Sequence[Value]) -> None:
    """Add values to the array `total`."""
    total = iteration.read_array("total", len(sums))
    iteration.write("total", [a + b for a, b in zip(total, sums, strict=True)])


def begin_residuals(
    contacts: ContactConstraints,
    velocities: NodeValues[Twist],
    smooth_accelerations: NodeValues[Twist],
    directions: NodeValues[Twist],
    costs: ArenaOffset,
) -> None:
    """Write the initial residuals r of all contacts and derivatives J d; add the costs at r and r + J d to `costs`.

    Args:
        contacts: the contacts.
        velocities: twists of the bodies.
        smooth_accelerations: spatial accelerations of the bodies without constraints.
        directions: twists of the bodies along the direction d.
        costs: two sums over the contacts.
    """
    model = contacts.cost_model

    def body(iteration: IterationContext, specialization: ContactSpecialization) -> None:
        velocity, acceleration, direction = (
            relative_twist(x, specialization) for x in (velocities, smooth_accelerations, directions)
        )
        sums = ContactSums(iteration, specialization, 2)

        def begin(contact: Contact) -> None:
            residual = contacts.initial_residual(contact, iteration, specialization, velocity, acceleration)
            derivative = project_twist(contact, direction)
            contact.write("residual", residual)
            contact.write("residual_derivative", derivative)
            moved = [r + d for r, d in zip(residual, derivative, strict=True)]
            for i, x in enumerate((residual, moved)):
                sums.add(contact, i, model.cost(contact, x))

        contacts.buffers.for_each_lane_of_contacts(iteration, specialization, begin)
        _add_to_total(iteration, sums.read())

    contacts.for_each_buffer("contact residuals", body, {"total": costs})


def begin_line_search(contacts: ContactConstraints, directions: NodeValues[Twist], derivatives: ArenaOffset) -> None:
    """Write the residual derivatives J d of all contacts; add the line derivatives at step length 1 to `derivatives`.

    Args:
        contacts: the contacts.
        directions: twists of the bodies along the search direction d.
        derivatives: sums over the contacts of the first and second derivative of the cost.
    """
    model = contacts.cost_model

    def body(iteration: IterationContext, specialization: ContactSpecialization) -> None:
        direction, sums = relative_twist(directions, specialization), ContactSums(iteration, specialization, 2)

        def begin(contact: Contact) -> None:
            derivative = project_twist(contact, direction)
            contact.write("residual_derivative", derivative)
            moved = [r + d for r, d in zip(contact.residual, derivative, strict=True)]
            for i, x in enumerate(model.line_derivatives(contact, moved, derivative)):
                sums.add(contact, i, x)

        contacts.buffers.for_each_lane_of_contacts(iteration, specialization, begin)
        _add_to_total(iteration, sums.read())

    contacts.for_each_buffer("residual derivatives of contacts", body, {"total": derivatives})


def take_contact_steps(
    contacts: ContactConstraints, step_length: ArenaOffset, n_changes: ArenaOffset, wrenches: NodeValues[Wrench]
) -> None:
    """Advance the residuals of all contacts by a step; count active-set changes and add the contact wrenches to bodies.

    Args:
        contacts: the contacts.
        step_length: step length along the search direction.
        n_changes: sum of the active-set changes.
        wrenches: wrench on each body about the shifted world origin, at the new residuals.
    """
    model = contacts.cost_model

    def body(iteration: IterationContext, specialization: ContactSpecialization) -> None:
        sums, length = ContactSums(iteration, specialization, 7), iteration.read("length")

        def step(contact: Contact) -> None:
            old, new = contact.residual, contact.residual_at(length)
            contact.write("residual", new)
            sums.add(contact, 6, model.active_set_changes(contact, old, new))
            gradient = model.derivatives(contact, new).gradient
            for i, column in enumerate(zip(*spatial_contact_jacobian(contact), strict=True)):
                sums.subtract(contact, i, dot(gradient, column))

        contacts.buffers.for_each_lane_of_contacts(iteration, specialization, step)
        *wrench, changes = sums.read()
        _add_to_total(iteration, [changes])
        wrenches.add(frame_ref("b "), Wrench(wrench[:3], wrench[3:]))
        if not specialization.involves_world:
            wrenches.add(frame_ref("a "), Wrench([-x for x in wrench[:3]], [-x for x in wrench[3:]]))

    contacts.for_each_buffer("steps of contacts", body, {"length": step_length, "total": n_changes})
