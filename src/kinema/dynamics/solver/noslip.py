"""No-slip friction (MuJoCo's noslip): friction forces are refined at fixed normal forces until contacts do not creep.

Soft friction creeps under load. After the constraint solve, normal forces and the forces of all other rows are frozen,
and friction is computed by the method of multipliers: a penalty spring about the friction force found before, with the
force of each inner solve as the next multiplier. The result agrees with MuJoCo's `noslip` sweeps, in a few Newton
iterations.
"""

from __future__ import annotations

from collections.abc import Callable

from kinema.ir import IterationContext, Value

from ..collision.contact_buffer_specs import ContactSpecialization
from ..collision.contact_records import Contact, for_each_contact
from ..constraints.contacts import ContactConstraints
from ..constraints.friction_cone import NOSLIP_STIFFNESS_FACTOR, NoSlipFriction
from ..constraints.rows import BlockSpecialization, RowType, row_forces_and_stiffness
from .objective import ThreadObjective

INNER_TOLERANCE = 1e-4
"""Relative gradient norm of the inner solve at which the multipliers are updated."""


MIN_LINE_SEARCH_TRIALS = 50
"""Line-search trials per no-slip step at least: with much sliding, the cost has kinks that take many trials to find."""


def has_friction(objective: ThreadObjective) -> bool:
    """Return whether any contact buffer (condim > 1) or constraint row has friction."""
    contact_buffer_specs = () if objective.contacts is None else objective.contacts.listed_buffers.buffers
    return any(contact_buffer.specialization.condim > 1 for contact_buffer in contact_buffer_specs) or any(
        block.row_type is RowType.FRICTION for block in objective.rows.blocks
    )


def solve_noslip(
    objective: ThreadObjective, iterate: Callable[[], tuple[Value, Value]], is_unconverged: Callable[[float], Value]
) -> None:
    """Refine friction by the method of multipliers: Newton iterations with multiplier updates until converged.

    Switches rows and contacts to the augmented-Lagrangian cost with frozen non-friction forces. Each outer iteration
    takes one Newton step that assumes sticking friction and one with the exact Hessian, then updates the multipliers if
    the inner problem has converged.

    Args:
        objective: constraint cost; its rows get a further array with the stored forces, and stiffer friction, its
            contacts another cost model.
        iterate: takes one Newton step.
        is_unconverged: returns 1 while the relative gradient norm exceeds the given tolerance.
    """
    ctx, rows, contacts = objective.ctx, objective.rows, objective.contacts
    for block, arrays in zip(rows.blocks, rows.block_arrays, strict=True):
        arrays["stored force"] = ctx.allocate(block.n_rows)
    cost_model = NoSlipFriction()
    rows.for_each_block("store constraint forces", _store_forces)
    rows.is_noslip = True
    if contacts is not None:
        _for_each_contact(contacts, "freeze normal forces", cost_model.freeze_normal_forces)
        contacts.cost_model = cost_model
    rows.for_each_block("stiffen joint friction", _stiffen_friction)
    objective.update_gradient()

    def update_multipliers() -> None:
        rows.for_each_block("store constraint forces", _store_forces)
        if contacts is not None:
            _for_each_contact(contacts, "update friction multipliers", cost_model.update_multipliers)
        objective.update_gradient()

    def outer_iteration() -> tuple[Value, Value]:
        for assume_sticking in (True, False):
            rows.assume_sticking = cost_model.assume_sticking = assume_sticking
            iterate()
        ctx.if_nonzero("inner solve converged", 1.0 - is_unconverged(INNER_TOLERANCE), update_multipliers)
        return 0.5, is_unconverged(0.0)

    ctx.while_loop("no slip", outer_iteration, ctx.settings.noslip_iterations)


def _for_each_contact(contacts: ContactConstraints, name: str, action: Callable[[Contact], None]) -> None:
    """Apply `action` to each contact of all active contact buffers."""

    def body(iteration: IterationContext, specialization: ContactSpecialization) -> None:
        for_each_contact(iteration, specialization, action)

    contacts.buffers.for_each_active_buffer(name, body)


def _store_forces(iteration: IterationContext) -> None:
    """Trace a store of the current forces of a constraint's rows, as frozen forces or as friction multipliers."""
    specialization: BlockSpecialization = iteration.specialization  # type: ignore[assignment]
    iteration.write(
        "stored force",
        [
            force
            for force, _ in row_forces_and_stiffness(iteration, iteration.read_array("residual", specialization.n_rows))
        ],
    )


def _stiffen_friction(iteration: IterationContext) -> None:
    """Multiply the stiffness of friction rows by `NOSLIP_STIFFNESS_FACTOR`."""
    specialization: BlockSpecialization = iteration.specialization  # type: ignore[assignment]
    if specialization.row_type is RowType.FRICTION:
        iteration.write(
            "stiffness", [NOSLIP_STIFFNESS_FACTOR * x for x in iteration.read_array("stiffness", specialization.n_rows)]
        )
