"""Traced writers of constraint and contact fields: equality errors, efc rows, Delassus matrix, contact records.

Each `write_..._fields` function traces the code of one field group: it evaluates quantities of the state in `data` and
writes output arrays of the array contract (`field_catalog.py`). Field names are MuJoCo's where MuJoCo has the quantity
(`efc_D`, `efc_aref`, `efc_AR`, ...).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace

from kinema import ir
from kinema.ir import SCRATCH, ArenaOffset, IterationContext, LoopIteration, Value
from kinema.model import Model

from ..arrays import ElementKind
from ..collision.contact_buffer_specs import ContactSpecialization
from ..collision.contact_buffers import ContactBuffers
from ..collision.contact_records import Contact, for_each_contact
from ..collision.contact_slots import ContactSlots, PairLoop
from ..constraints.constraint_kinds import blocks_by_kind
from ..constraints.contact_jacobian import contact_velocity, relative_twist, spatial_contact_jacobian
from ..constraints.couplings import coupling_blocks, fill_couplings, write_coupling_errors
from ..constraints.equalities import equality_blocks, fill_equalities, write_equality_errors
from ..constraints.friction_cone import TINY, ContactCost
from ..constraints.rows import BlockSpecialization, ConstraintBlock, ConstraintRows, RowType, row_costs
from ..pipeline import compute
from ..rigid.kinematics import shifted_world_origin
from ..sensors.force_torque_sensors import compute_row_forces
from ..settings import Settings
from ..solver.newton import NewtonSolver
from ..solver.objective import JointVector
from ..step import KINEMATIC_STATE_QUANTITIES, StepData
from ..tree.kinematic_tree import FrameNode, NodeType, build_tree
from ..tree.node_tables import NodeIteration
from ..tree.trace_context import TraceContext
from ..vector_math import Vector, add, dot, scale, sum_values

# ----------------------------------------------------------------------------------- equality constraints and couplings


def write_equality_fields(data: StepData) -> None:
    """Write `gap` and `turn` of each link equality constraint: translation [m] and rotation error.

    Traces the residuals of the equality rows of the current state (connect, weld, loop joints) and stores their norms
    in the output arrays.
    """
    compute(data, *KINEMATIC_STATE_QUANTITIES)
    rows = ConstraintRows(data.ctx, equality_blocks(data.ctx.model, data.ctx.nodes))
    fill_equalities(data.kinematic_state, rows)
    write_equality_errors(data.ctx, rows)


def write_equality_wrench_fields(data: StepData) -> None:
    """Write `wrench_a`, `wrench_b` and `wrench_point` of each link equality constraint at the current acceleration.

    The wrench on a link is the sum over the constraint rows of row force times unit wrench, in world axes.
    """
    ctx = data.ctx
    compute(data, "constrained_acceleration", *KINEMATIC_STATE_QUANTITIES)
    rows = ConstraintRows(ctx, equality_blocks(ctx.model, ctx.nodes))
    fill_equalities(data.kinematic_state, rows)
    rows.compute_stiffness_and_aref()
    rows.multiply_jacobian(data.constrained_acceleration, "residual")
    rows.for_each_block("equality forces", compute_row_forces)
    for block_index, block in enumerate(rows.blocks):
        equality = int(block.source["equality"])  # type: ignore[call-overload]
        rows.block_arrays[block_index] |= ctx.element_arrays(ElementKind.EQUALITY, equality)

    def body(iteration: IterationContext) -> None:
        specialization: BlockSpecialization = iteration.specialization  # type: ignore[assignment]
        forces = iteration.read_array("force", specialization.n_rows)
        for side in ("a", "b"):
            unit_wrenches = iteration.read_array(f"on {side}", 6 * specialization.n_rows)
            columns = [unit_wrenches[k::6] for k in range(6)]
            iteration.write(f"{ctx.output_prefix}wrench_{side}", [dot(forces, column) for column in columns])
        iteration.write(f"{ctx.output_prefix}wrench_point", iteration.read_array("about", 3))

    rows.for_each_block("equality wrenches", body)


def write_coupling_fields(data: StepData) -> None:
    """Write `error` of each coupling: follower coordinate minus the polynomial of its leader [rad or m]."""
    compute(data, *KINEMATIC_STATE_QUANTITIES)
    rows = ConstraintRows(data.ctx, coupling_blocks(data.ctx.model, data.ctx.nodes))
    fill_couplings(data.kinematic_state, rows)
    write_coupling_errors(data.ctx, rows)


# ------------------------------------------------------------------------------------------------------ constraint rows
#
# Every constraint row of the model has a fixed index, active or not, in MuJoCo's order: equalities, dry friction, then
# limits. Contacts are not among the rows; they have fields of their own.

ROW_ORDER = (RowType.EQUALITY, RowType.FRICTION, RowType.LIMIT)
"""Order of the row types in the constraint-row fields."""


def constraint_rows_info(model: Model, settings: Settings) -> SimpleNamespace:
    """Constraint kind, row type and name of the constrained element for each constraint row.

    Returns a namespace of three lists in the row order of `constraints.jac`: `kinds` (name of the constraint kind, such
    as `limits`), `laws` (`RowType` as text) and `names` (the dof, tendon, coupling or equality constraint).
    """
    kinds_and_blocks = [
        (kind.name, block)
        for kind, kind_blocks in blocks_by_kind(model, settings, build_tree(model).nodes)
        for block in kind_blocks
    ]
    blocks = [block for _, block in kinds_and_blocks]
    rows = [kinds_and_blocks[i] for i in _sorted_block_indices(blocks) for _ in range(blocks[i].n_rows)]
    return SimpleNamespace(
        kinds=[kind for kind, _ in rows],
        laws=[str(block.row_type) for _, block in rows],
        names=[_constrained_element_name(model, block) for _, block in rows],
    )


def _sorted_block_indices(blocks: Sequence[ConstraintBlock]) -> list[int]:
    return sorted(range(len(blocks)), key=lambda i: ROW_ORDER.index(blocks[i].row_type))


def _constrained_element_name(model: Model, block: ConstraintBlock) -> str:
    """Name of the equality constraint, coupling, tendon or dof to which a `ConstraintBlock` belongs."""
    names_by_source = {
        "equality": model.equalities.names,
        "coupling": model.couplings.names,
        "friction": model.dofs.names,
    }
    names_by_source |= dict.fromkeys(("tendon limit", "tendon friction"), model.tendons.names)
    for source_key, names in names_by_source.items():
        if source_key in block.source:
            return names[int(block.source[source_key])]  # type: ignore[call-overload]
    return model.dofs.names[block.dofs[0]]


def solve_unconditionally(data: StepData) -> NewtonSolver | None:
    """Run the constraint solver on the current state even if no constraint is active, and return the solver.

    Sets `data.always_solve` and traces the stages up to `qfrc_constraint`. Returns None if the model has neither
    constraints nor contacts.
    """
    data.always_solve = True
    compute(data, "qfrc_constraint")
    return data.solver


def write_constraint_row_fields(data: StepData) -> None:
    """Write the Jacobian and the efc fields of all constraint rows, evaluated at the solution of the solver.

    Writes `jac` (only the entries of the dofs of each constraint; all others stay zero), `efc_pos`, `efc_vel`, `efc_D`,
    `efc_aref`, `efc_b` = J qacc_smooth - aref, `efc_force` and `quad` (cost of each row). Writes nothing if the model
    has no constraints and no contacts.
    """
    solver = solve_unconditionally(data)
    if solver is None:
        return
    ctx, rows = data.ctx, solver.objective.rows
    for block_index, first_row in _block_row_offsets(rows):
        rows.block_arrays[block_index] |= ctx.element_arrays(ElementKind.CONSTRAINT_ROW, first_row)
    rows.multiply_jacobian(solver.objective.inputs.qacc_smooth, "residual derivative")

    def body(iteration: IterationContext) -> None:
        specialization: BlockSpecialization = iteration.specialization  # type: ignore[assignment]
        row_arrays = {
            name: iteration.read_array(name, specialization.n_rows)
            for name in ("position", "velocity", "stiffness", "aref", "force")
        }
        free_accelerations, residuals = (
            iteration.read_array(name, specialization.n_rows) for name in ("residual derivative", "residual")
        )
        for field, values in (
            ("efc_pos", row_arrays["position"]),
            ("efc_vel", row_arrays["velocity"]),
            ("efc_D", row_arrays["stiffness"]),
            ("efc_aref", row_arrays["aref"]),
            ("efc_b", [a - b for a, b in zip(free_accelerations, row_arrays["aref"], strict=True)]),
            ("efc_force", row_arrays["force"]),
            ("quad", row_costs(iteration, residuals)),
        ):
            iteration.write(ctx.output_prefix + field, values)

    rows.for_each_block("constraint row fields", body)
    table = [
        LoopIteration(
            "entry",
            {
                "entry": rows.jacobian_entry(block_index, r, dof),
                "out": _matrix_entry_offset(data, "jac", first_row + r, dof, ctx.model.n_dofs),
            },
        )
        for block_index, first_row in _block_row_offsets(rows)
        for r in range(rows.blocks[block_index].n_rows)
        for dof in rows.blocks[block_index].dofs
    ]
    ctx.for_each(
        "constraint Jacobian field", table, lambda iteration: iteration.write("out", [iteration.read("entry")])
    )


def _block_row_offsets(rows: ConstraintRows) -> list[tuple[int, int]]:
    """Index of each constraint in `rows.blocks` and its first row in the fields, in field order."""
    result, first_row = [], 0
    for block_index in _sorted_block_indices(rows.blocks):
        result.append((block_index, first_row))
        first_row += rows.blocks[block_index].n_rows
    return result


def _matrix_entry_offset(data: StepData, field: str, row: int, column: int, width: int) -> ArenaOffset:
    """Memory offset of entry (row, column) of a row-major matrix field with `width` columns."""
    start = data.ctx.array_offsets[data.ctx.output_prefix + field]
    return ArenaOffset(start.arena, start.row + row * width + column)


def write_delassus_fields(data: StepData) -> None:
    """Write the regularised Delassus matrix `efc_AR` = J M^-1 J^T + diag(1 / efc_D) of the constraint rows.

    For each row i, M^-1 J_i^T is solved and multiplied by the rows j <= i; both triangles are written. A row with efc_D
    = 0 (inactive) gets no regularisation term. Writes nothing if the model has no constraints and no contacts.
    """
    solver = solve_unconditionally(data)
    if solver is None:
        return
    ctx, rows = data.ctx, solver.objective.rows
    row_indices = [
        (block_index, r) for block_index, _ in _block_row_offsets(rows) for r in range(rows.blocks[block_index].n_rows)
    ]
    for i, row_i in enumerate(row_indices):
        accelerations = ctx.dof_offsets(_unit_force_acceleration(data, solver, *row_i))
        table: list[LoopIteration] = []
        for j, (block_index, r) in enumerate(row_indices[: i + 1]):
            out = {
                "out": _matrix_entry_offset(data, "efc_AR", i, j, len(row_indices)),
                "mirrored": _matrix_entry_offset(data, "efc_AR", j, i, len(row_indices)),
            }
            for k, dof in enumerate(rows.blocks[block_index].dofs):
                entry = {"entry": rows.jacobian_entry(block_index, r, dof), "of": accelerations[dof]}
                table.append(LoopIteration("next" if k else "first", {**out, **entry}))
        stiffness = ArenaOffset(SCRATCH, rows.block_arrays[row_i[0]]["stiffness"].row + row_i[1])
        table.append(
            LoopIteration(
                "regularizer",
                {"out": _matrix_entry_offset(data, "efc_AR", i, i, len(row_indices)), "stiffness": stiffness},
            )
        )
        ctx.for_each("Delassus matrix", table, _accumulate_delassus_entry)


def _unit_force_acceleration(data: StepData, solver: NewtonSolver, block_index: int, row: int) -> JointVector:
    """Joint acceleration M^-1 J_r^T caused by a unit force along row r of a constraint."""
    ctx, rows = data.ctx, solver.objective.rows
    jacobian_row: JointVector = ctx.new_values("Jacobian row")
    ctx.for_each_frame("clear Jacobian row", lambda node: jacobian_row.put(node.ref, [0.0] * len(node.dofs)))
    offsets = ctx.dof_offsets(jacobian_row)
    table = [
        LoopIteration("entry", {"entry": rows.jacobian_entry(block_index, row, dof), "to": offsets[dof]})
        for dof in rows.blocks[block_index].dofs
    ]
    ctx.for_each("copy Jacobian row", table, lambda iteration: iteration.write("to", [iteration.read("entry")]))
    return solver.objective.inputs.mass_factors.solve("acceleration of unit row force", jacobian_row)


def _accumulate_delassus_entry(iteration: IterationContext) -> None:
    """Traced loop body: add one product J_jk (M^-1 J_i^T)_k to entries (i, j) and (j, i) of the Delassus matrix.

    The specialization `first` overwrites the entries, `next` adds to them; `regularizer` adds 1 / efc_D to a diagonal
    entry of `efc_AR` if efc_D > 0.
    """
    if iteration.specialization == "regularizer":
        stiffness = iteration.read("stiffness")
        inverse = 1.0 / ir.select(0.0, stiffness, stiffness, 1.0)
        iteration.write("out", [iteration.read("out") + ir.select(0.0, stiffness, inverse, 0.0)])
        return
    term = iteration.read("entry") * iteration.read("of")
    total = term if iteration.specialization == "first" else iteration.read("out") + term
    iteration.write("out", [total])
    iteration.write("mirrored", [total])


# ------------------------------------------------------------------------------------------------------- solver results

SOLVER_STATISTIC_FIELDS = ("cost", "gauss", "gradient", "n_iterations", "n_rows")
"""Scalar fields of the solver, in the order of the values of `_solver_statistics`."""


def write_solution_fields(data: StepData) -> None:
    """Write the solution of the constraint solver: `qacc`, `qfrc_constraint`, `Ma`, `Mgrad` and statistics.

    `Ma` = M qacc and `Mgrad` = M^-1 times the gradient of the cost at the solution. The scalars are those of
    `SOLVER_STATISTIC_FIELDS`. Without constraints and contacts, forces, `Mgrad` and statistics are zero.
    """
    ctx, solver = data.ctx, solve_unconditionally(data)
    compute(data, "constrained_acceleration", *(["mass_matrix"] if solver is None else []))
    qfrc_constraint, qacc = data.qfrc_constraint, data.constrained_acceleration
    mass = data.mass_matrix if solver is None else solver.objective.inputs.mass_matrix
    mass_times_qacc = mass.multiply("M qacc", qacc)
    preconditioned: JointVector | None = None
    if solver is not None:
        gradient = solver.objective.state.negative_gradient
        preconditioned = solver.objective.inputs.mass_factors.solve("preconditioned gradient", gradient)

    def body(node: FrameNode) -> None:
        zeros: list[Value] = [0.0] * len(node.dofs)
        ctx.write("qacc", node, qacc[node.ref])
        ctx.write("qfrc_constraint", node, zeros if qfrc_constraint is None else qfrc_constraint[node.ref])
        ctx.write("Ma", node, mass_times_qacc[node.ref])
        ctx.write("Mgrad", node, zeros if preconditioned is None else [-x for x in preconditioned[node.ref]])

    ctx.for_each_frame("solution", body)
    statistics = [0.0] * len(SOLVER_STATISTIC_FIELDS) if solver is None else _solver_statistics(data, solver)
    for name, value in zip(SOLVER_STATISTIC_FIELDS, statistics, strict=True):
        ctx.write(name, None, [value])


def _solver_statistics(data: StepData, solver: NewtonSolver) -> list[Value]:
    """Total cost, Gauss cost 1/2 x^T M x, gradient norm, iteration count and number of active rows.

    x = qacc - qacc_smooth. The active rows include those of contacts as MuJoCo counts them.
    """
    compute(data, "contact_buffers")
    ctx, qacc = data.ctx, data.constrained_acceleration

    def norms(node: FrameNode) -> tuple[Value, Value]:
        change = [a - b for a, b in zip(qacc[node.ref], solver.objective.inputs.qacc_smooth[node.ref], strict=True)]
        gradient = solver.objective.state.negative_gradient[node.ref]
        return dot(change, solver.objective.state.mass_times_acceleration[node.ref]), dot(gradient, gradient)

    gauss, gradient = ctx.sum_over_nodes("Gauss cost and gradient norm", NodeType.FRAMES, (0.0, 0.0), norms)
    n_rows = solver.objective.rows.sum_over_blocks("active rows", _count_active_rows, {})[0]
    if data.contact_buffers is not None:
        n_rows = n_rows + _count_contact_rows(data.contact_buffers)
    n_iterations = ctx.tracer.read(SCRATCH, solver.objective.state.n_iterations.row)
    return [
        0.5 * gauss + solver.objective.constraint_cost_at(0.0, solver.objective.state.constraint_acceleration),
        0.5 * gauss,
        ir.sqrt(gradient),
        n_iterations,
        n_rows,
    ]


def _count_active_rows(iteration: IterationContext) -> list[Value]:
    """Traced loop body: number of rows of a constraint with efc_D > 0, as a pair with zero for `sum_over_blocks`."""
    stiffness = iteration.read_array("stiffness", iteration.specialization.n_rows)  # type: ignore[attr-defined]
    return [sum_values([ir.select(0.0, x, 1.0, 0.0) for x in stiffness]), 0.0]


def _count_contact_rows(contact_buffers: ContactBuffers | ContactSlots) -> Value:
    """Number of constraint rows that MuJoCo would create for the current contacts.

    Each contact counts condim rows with an elliptic cone or without friction, else 2 (condim - 1) pyramid edges.
    """
    ctx, total = contact_buffers.ctx, contact_buffers.ctx.allocate_fixed(1)
    if isinstance(contact_buffers, ContactSlots):
        counts = [
            float(_rows_per_contact(pool.specialization)) * ctx.tracer.read(SCRATCH, pool.n_contacts.row)
            for pool in contact_buffers.pools
        ]
        return sum_values(counts)
    ctx.tracer.write(SCRATCH, [0.0], total.row)
    rows = [
        LoopIteration(_rows_per_contact(x.specialization), {"count": x.count, "total": total})
        for x in contact_buffers.buffers
    ]

    def add(iteration: IterationContext) -> None:
        iteration.write("total", [iteration.read("total") + float(iteration.specialization) * iteration.read("count")])  # type: ignore[arg-type]

    with ctx.without_unrolling():
        ctx.for_each("count contact rows", rows, add)
    return ctx.tracer.read(SCRATCH, total.row)


def _rows_per_contact(specialization: ContactSpecialization) -> int:
    return (
        specialization.condim
        if specialization.elliptic or specialization.condim == 1
        else 2 * (specialization.condim - 1)
    )


# ------------------------------------------------------------------------------------------------------------- contacts
#
# A contact buffer has `capacity` entries in the output arrays; unused entries are zero, with pair index -1.

ContactFieldValues = dict[str, Vector]
"""Field name -> values of one contact."""

CONTACT_FIELD_WIDTHS = {"active": 1, "position": 3, "normal": 3, "penetration": 1, "force": 3, "pair": 1}
"""Values per contact of the fields of group `contacts`."""
CONTACT_LAW_FIELD_WIDTHS = {"frame": 9, "efc_D": 1, "efc_aref": 6, "efc_vel": 6, "row_scales": 6, "efc_force": 6}
"""Values per contact of the fields of group `laws of contacts`: contact frame and constraint parameters."""


def write_contact_fields(data: StepData) -> None:
    """Write `active`, `position`, `normal`, `penetration`, `force` and `pair` of each contact, in world axes.

    The solver runs first. Normal and force [N] are those on the second geom of the pair: contacts are stored relative
    to two frames, so that both are negated if the geoms of the pair are in the opposite order. Unused contact entries
    are zero, with `pair` = -1.
    """
    compute(data, "contact_buffers", "qfrc_constraint")
    ctx, buffers = data.ctx, data.contact_buffers
    if buffers is None:
        return
    cost_model = ContactCost() if data.contacts is None else data.contacts.cost_model
    origin = ctx.allocate_fixed(3)
    ctx.tracer.write(SCRATCH, shifted_world_origin(ctx), origin.row)

    def field_values(
        iteration: IterationContext, contact: Contact, specialization: ContactSpecialization
    ) -> ContactFieldValues:
        pair = contact.scalar("signed_pair")
        sign = ir.select(pair, 0.0, -1.0, 1.0)
        gradient = cost_model.derivatives(contact, contact.residual).gradient
        force = [-dot(gradient, column) for column in list(zip(*spatial_contact_jacobian(contact), strict=True))[3:]]
        geoms = [iteration.read(f"geom {x}") for x in "ab"] if iteration.has_array("geom a") else []
        return {
            **({"geoms": geoms} if geoms else {}),
            "active": [1.0],
            "position": add(contact.read("point"), iteration.read_array("origin", 3)),
            "normal": scale(sign, contact.read("axes", 0, 3)),
            "penetration": [-contact.scalar("distance")],
            "force": scale(sign, force),
            "pair": [ir.absolute(pair) - 1.0],
        }

    widths = {**CONTACT_FIELD_WIDTHS, **({"geoms": 2} if ctx.model.has_pair_rules else {})}
    _store_per_contact(ctx, buffers, widths, field_values, {"origin": origin})


def write_contact_law_fields(data: StepData) -> None:
    """Write the fields of `CONTACT_LAW_FIELD_WIDTHS` of each contact: axes, soft-constraint parameters and force.

    `frame` has the normal and the two tangents as rows (negated if the geoms of the pair are in the opposite order of
    the stored contact), `efc_D` is the stiffness along the normal (of pyramid edges with a pyramidal cone), `efc_aref`
    the reference acceleration in the condim contact directions, `efc_vel` the velocity and `efc_force` the contact
    force along them, `row_scales` the factors of their Jacobian rows, all padded with zeros to 6. Unused contact
    entries are zero.
    """
    solve_unconditionally(data)
    compute(data, "contact_buffers")
    buffers = data.contact_buffers
    if buffers is None or data.contacts is None:
        return
    twists, cost_model = data.contacts.frame_twists("contact velocities"), data.contacts.cost_model

    def field_values(
        _: IterationContext, contact: Contact, specialization: ContactSpecialization
    ) -> ContactFieldValues:
        sign = ir.select(contact.scalar("signed_pair"), 0.0, -1.0, 1.0)
        scales = contact.read("row_scales")
        velocity = contact_velocity(contact, relative_twist(twists, specialization))
        feedback = [contact.scalar("position_feedback"), *[0.0] * (specialization.condim - 1)]
        terms = zip(velocity, contact.damping, feedback, scales, strict=True)
        aref = [-(v * d + more) / ir.maximum(row_scale, TINY) for v, d, more, row_scale in terms]
        gradient = cost_model.derivatives(contact, contact.residual).gradient
        padding = [0.0] * (CONTACT_LAW_FIELD_WIDTHS["efc_aref"] - specialization.condim)
        return {
            "frame": scale(sign, contact.read("axes")),
            "efc_D": [contact.stiffness_and_mu[0] * scales[0] * scales[0]],
            "efc_aref": [*aref, *padding],
            "efc_vel": [*(v / ir.maximum(x, TINY) for v, x in zip(velocity, scales, strict=True)), *padding],
            "row_scales": [*scales, *padding],
            "efc_force": [*(-row_scale * x for row_scale, x in zip(scales, gradient, strict=True)), *padding],
        }

    _store_per_contact(data.ctx, buffers, CONTACT_LAW_FIELD_WIDTHS, field_values, {})


def _store_per_contact(
    ctx: TraceContext,
    contact_buffers: ContactBuffers | ContactSlots,
    widths: Mapping[str, int],
    field_values: Callable[[IterationContext, Contact, ContactSpecialization], ContactFieldValues],
    extra_offsets: Mapping[str, ArenaOffset],
) -> None:
    """Trace a loop that writes fields of every contact to its entry of the output arrays, and zeros to unused entries.

    There is one contact buffer of fixed `capacity` per pair of frames; the entries of all buffers are consecutive. All
    entries are cleared first (0, or -1 for `pair`), then the values of each contact are written.

    Args:
        ctx: the tracing context.
        contact_buffers: the contacts of the state.
        widths: field name -> values per contact.
        field_values: traced function that returns the values of one contact by field name.
        extra_offsets: further arrays that the traced code reads, by name.
    """
    if isinstance(contact_buffers, ContactSlots):
        _store_contacts_of_pools(ctx, contact_buffers, widths, field_values, extra_offsets)
        return
    rows, first_entry = [], 0
    for contact_buffer in contact_buffers.buffers:
        row = contact_buffers.loop_iteration(
            contact_buffer, {**ctx.element_arrays(ElementKind.CONTACT, first_entry), **extra_offsets}
        )
        rows.append(
            NodeIteration(
                contact_buffer.specialization,
                row.offsets,
                {"capacity": [float(contact_buffer.spec.capacity)]},
                bindings=row.bindings,
            )
        )
        first_entry += contact_buffer.spec.capacity

    def write(iteration: IterationContext, name: str, values: Vector, index: Value) -> None:
        iteration.tracer.write(ctx.output_prefix + name, values, 0, index * float(widths[name]))

    def body(iteration: IterationContext) -> None:
        specialization = iteration.specialization
        assert isinstance(specialization, ContactSpecialization)

        def clear(index: Value) -> None:
            for name, width in widths.items():
                write(iteration, name, [-1.0 if name == "pair" else 0.0] * width, index)

        def store(contact: Contact) -> None:
            for name, values in field_values(iteration, contact, specialization).items():
                write(iteration, name, values, contact.index)

        iteration.tracer.counted_loop("clear contact slots", iteration.constant("capacity"), clear, uniform=True)
        for_each_contact(iteration, specialization, store)

    with ctx.without_unrolling():
        ctx.for_each("contact fields", rows, body)


def _store_contacts_of_pools(
    ctx: TraceContext,
    slots: ContactSlots,
    widths: Mapping[str, int],
    field_values: Callable[[IterationContext, Contact, ContactSpecialization], ContactFieldValues],
    extra_offsets: Mapping[str, ArenaOffset],
) -> None:
    """Trace loops that write fields of the contacts of all pools; the entries of a pool are in the order of the pool.

    Arguments as of `_store_per_contact`.
    """
    tracer, n_entries = ctx.tracer, sum(pool.capacity for pool in slots.pools)

    def write(at: ir.Tracer, name: str, values: Vector, index: Value) -> None:
        at.write(ctx.output_prefix + name, values, 0, index * float(widths[name]))

    def clear(index: Value) -> None:
        for name, width in widths.items():
            write(tracer, name, [-1.0 if name == "pair" else 0.0] * width, index)

    tracer.counted_loop("clear contact entries", float(n_entries), clear)
    first_entry = 0
    for pool in slots.pools:

        def body(iteration: IterationContext, specialization: ContactSpecialization, start: int = first_entry) -> None:
            def store(contact: Contact) -> None:
                entry = iteration.read("first contact") + contact.index + float(start)
                for name, values in field_values(iteration, contact, specialization).items():
                    write(iteration.tracer, name, values, entry)

            slots.for_each_contact(iteration, specialization, store)

        loops = [PairLoop(pool, world, extra_offsets) for world in (True, False)]
        slots.for_each_active_buffer("contact fields", body, loops)
        first_entry += pool.capacity
