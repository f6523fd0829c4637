"""Constraint rows J a = aref (MuJoCo's efc rows) of equalities, limits and dry friction, without contacts.

Rows are grouped by constraint, for example the three rows of a connect constraint or the single row of a joint limit.
The dofs of a constraint are known before tracing, so its Jacobian is stored densely over these dofs. The constraint
kinds write position error and Jacobian; impedance, stiffness D and reference acceleration aref follow from MuJoCo's
soft-constraint model, in the same way for all kinds. This module also computes J x, J^T f and J^T D J.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kinema import ir
from kinema.core import InternalError
from kinema.ir import SCRATCH, ArenaOffset, IterationContext, LoopIteration, Value

from ..arrays import PRESENT_ARRAY, ElementKind
from ..rigid.kinematics import FrameAcceleration, Pose, Twist
from ..tree.loop_context import tree_index_of_frames
from ..tree.node_constants import with_per_env_parameters
from ..tree.node_values import NodeValues
from ..tree.per_tree import OffsetsPerTree, offsets_of_tree
from ..tree.sparse_matrix import SymmetricEntries
from ..tree.trace_context import TraceContext
from ..tree.transmissions import PathLengths
from ..vector_math import dot, sum_values
from .impedance import (
    MAX_CORRECTION_SPEED,
    MAX_IMPEDANCE,
    RIGID_TIME_CONSTANT,
    correction_acceleration_bound,
    impedance,
    reference_stiffness_and_damping,
    valid_solref,
)
from .impedance_power import integer_power


class RowType(enum.StrEnum):
    """Admissible forces of a constraint row."""

    EQUALITY = "equality"
    """Bilateral: force of either sign."""
    LIMIT = "limit"
    """Unilateral: nonnegative force."""
    FRICTION = "friction"
    """Dry friction: force of either sign with bounded magnitude."""


@dataclass(frozen=True, slots=True, eq=False)
class ConstraintBlock:
    """Rows of one constraint, such as a joint limit or a weld, with all their properties known before tracing."""

    row_type: RowType
    dofs: Sequence[int]
    """Degrees of freedom that the rows act on (columns of its Jacobian)."""
    n_rows: int
    invweights: Sequence[float]
    """Approximate inverse inertia of each row (MuJoCo's diagApprox)."""
    solref: Sequence[float]
    solimp: Sequence[float]
    margin: float = 0.0
    """Distance [m or rad] from which on the constraint is active."""
    spring_damper: Sequence[float] = (0.0, 0.0)
    """Stiffness [N/m or N m/rad] and damping [N s/m or N m s/rad] of a limit that is a physical spring and damper
    instead of a soft constraint; (0, 0) for none."""
    friction_bound: float = 0.0
    """Maximum friction force [N or N m] of a friction row."""
    is_rigid: bool = False
    """Whether the constraint is to be satisfied exactly at the end of a step, within the accuracy of the solver."""
    limits_correction_speed: bool = False
    """Whether position errors are corrected at `MAX_CORRECTION_SPEED` at most, as rigid constraints are."""
    has_bias_acceleration: bool = False
    """Whether the rows have a bias acceleration (dJ/dt v), written by the constraint kind."""
    element: tuple[ElementKind, int] | None = None
    """Kind and index of the model element (dof, coupling, ...) with per-environment parameters; None if there are
    none."""
    parameter_group: str = ""
    """Key of `PER_ENV_ARRAYS`."""
    equality_idx: int = -1
    """Index of the breakable equality constraint that this constraint is removed with; -1 for none."""
    attachment_idx: int = -1
    """Index of the attachment of this constraint; -1 for none."""
    source: Mapping[str, object] = field(default_factory=dict)
    """Data by which the constraint kind recognises its constraints, such as the index of the joint or tendon."""

    def __post_init__(self) -> None:
        sizes = {"invweights": (len(self.invweights), self.n_rows), "solref": (len(self.solref), 2)}
        sizes |= {"solimp": (len(self.solimp), 5), "spring_damper": (len(self.spring_damper), 2)}
        wrong = [
            f"{name} has {n} values instead of {expected}" for name, (n, expected) in sizes.items() if n != expected
        ]
        if self.parameter_group and self.parameter_group not in PER_ENV_ARRAYS:
            wrong.append(f"there is no parameter group {self.parameter_group!r} in `PER_ENV_ARRAYS`")
        if not self.dofs or len(set(self.dofs)) != len(self.dofs):
            wrong.append(f"dofs are {list(self.dofs)}, and must be distinct and at least one")
        if wrong:
            raise InternalError(f"constraint block {block_key(self)}: {'; '.join(wrong)}")


def block_key(block: ConstraintBlock) -> str:
    """Return a string that identifies a constraint among all constraints of a model."""
    return f"{block.row_type} {sorted(block.source.items())}"


def block_parameters(block: ConstraintBlock) -> dict[str, list[Any]]:
    """Numeric parameters of a constraint by name, as constants of its loop iteration.

    Inverse weights have one value per row; solref, solimp, margin, friction bound and spring-damper are per
    constraint.
    """
    return {
        "weights": list(block.invweights),
        "solref": list(valid_solref(block.solref)),
        "solimp": list(block.solimp),
        "margin": [block.margin],
        "bound": [block.friction_bound],
        "spring": list(block.spring_damper),
    }


# ------------------------------------------------------------------------------------------------------ constraint rows


@dataclass(frozen=True, slots=True, eq=False)
class KinematicState:
    """Kinematic quantities from which constraint kinds compute their rows."""

    ctx: TraceContext
    local_poses: NodeValues[Pose]
    """Pose of each frame in its parent."""
    world_poses: NodeValues[Pose]
    """Pose of each frame in the world."""
    velocities: NodeValues[Twist]
    """Spatial velocity of each frame."""
    bias_accelerations: NodeValues[FrameAcceleration]
    """Acceleration of each frame at zero joint accelerations."""
    path_lengths: PathLengths
    """Lengths and moments of tendon and transmission paths."""


PER_ENV_ARRAYS = {
    "limit": {"solref": "limit_solref", "solimp": "limit_solimp"},
    "friction": {"solref": "friction_solref", "solimp": "friction_solimp", "bound": "frictionloss"},
    "equality": {"solref": "equality_solref", "solimp": "equality_solimp", "on": "equality_on"},
    "coupling": {"solref": "coupling_solref", "solimp": "coupling_solimp", "on": "coupling_on"},
    "attachment": {"on": "attachment_on"},
}
"""By parameter group: constraint parameter -> array with its value per environment."""


@dataclass(frozen=True, slots=True)
class BlockSpecialization:
    """Properties of a constraint that select the code specialized for it."""

    row_type: RowType
    n_rows: int
    impedance_power: int
    """Exponent of the impedance function if it is an integer, else 0."""
    has_bias_acceleration: bool
    is_spring_damper: bool
    """Whether the constraint is a physical spring and damper."""
    per_env: tuple[str, ...]
    """Names of the parameters that differ between environments."""
    limits_correction_speed: bool
    """Whether position errors are corrected at `MAX_CORRECTION_SPEED` at most."""
    is_noslip: bool
    """Whether forces are frozen, except for friction, which is a penalty spring about its multiplier (no-slip
    solve)."""
    assume_sticking: bool
    """Whether the Hessian treats all friction as sticking."""


ForceAndStiffness = tuple[Value, Value]
"""Force of a row and its active stiffness -df/dr: D, or 0 where the force is zero or at its bound."""
ROW_ARRAYS = ("position", "velocity", "aref", "stiffness", "residual", "residual derivative", "force")
"""Arrays with one value per row: position error, velocity J v (`velocity`), reference acceleration aref (`aref`),
stiffness D; and at the current solver iterate the residual J a - aref, its derivative along the search direction
(`residual derivative`), and the constraint force."""


class ConstraintRows:
    """Constraints with the arrays of their rows and Jacobians in scratch memory."""

    def __init__(
        self,
        ctx: TraceContext,
        blocks: Sequence[ConstraintBlock],
        block_arrays: list[dict[str, ArenaOffset]] | None = None,
    ) -> None:
        self.ctx = ctx
        self.blocks = blocks
        self.is_noslip = False
        """Whether the no-slip solve is active: all forces but friction are frozen (`solver/noslip.py`)."""
        self.assume_sticking = False
        """Use the Hessian of sticking friction even for rows at their friction bound."""
        self.block_arrays: list[dict[str, ArenaOffset]] = block_arrays or []
        """Per constraint: offsets of the arrays of its rows, of `jacobian <row>` and of arrays added by the constraint
        kind."""
        for block in blocks[len(self.block_arrays) :]:
            arrays = {name: ctx.allocate(block.n_rows) for name in ROW_ARRAYS}
            arrays |= {"bias acceleration": ctx.allocate(block.n_rows)} if block.has_bias_acceleration else {}
            arrays |= {f"jacobian {r}": ctx.allocate(len(block.dofs)) for r in range(block.n_rows)}
            self.block_arrays.append(arrays)

    def split(self, is_selected: Callable[[ConstraintBlock], bool]) -> tuple[ConstraintRows, ConstraintRows]:
        """Return the selected and the other constraints, sharing their memory."""
        pairs = list(zip(self.blocks, self.block_arrays, strict=True))
        parts = ([pair for pair in pairs if is_selected(pair[0]) is selected] for selected in (True, False))
        selected, others = (ConstraintRows(self.ctx, [b for b, _ in part], [a for _, a in part]) for part in parts)
        return selected, others

    def rigid_rows(self) -> ConstraintRows | None:
        """Return the rigid constraints, sharing their memory; None if there are none."""
        rigid, _ = self.split(lambda block: block.is_rigid)
        return rigid if rigid.blocks else None

    def jacobian_entry(self, block_index: int, row: int, dof: int) -> ArenaOffset:
        """Return the scratch offset of the Jacobian entry of one row of a constraint and one of its dofs."""
        column = list(self.blocks[block_index].dofs).index(dof)
        return ArenaOffset(SCRATCH, self.block_arrays[block_index][f"jacobian {row}"].row + column)

    def for_each_block(
        self, name: str, body: Callable[[IterationContext], None], extra_arrays: OffsetsPerTree | None = None
    ) -> None:
        """Trace a loop over the constraints (all rows of one limit, friction or equality constraint per iteration).

        `body` reads the constraint's arrays and parameters by name. Constraints of idle trees (asleep or converged) are
        skipped. `extra_arrays` are further arrays, common to all constraints or one per tree.
        """
        rows, trees, idle_flags = [], tree_index_of_frames(self.ctx.model), self.ctx.idle_flags_of_dofs()
        for block, arrays in zip(self.blocks, self.block_arrays, strict=True):
            per_env = self.per_env_arrays(block)
            limits_speed = block.limits_correction_speed or 0.0 < block.solref[0] < RIGID_TIME_CONSTANT
            specialization = BlockSpecialization(
                row_type=block.row_type,
                n_rows=block.n_rows,
                impedance_power=integer_power(block.solimp),
                has_bias_acceleration=block.has_bias_acceleration,
                is_spring_damper=block.spring_damper[0] > 0.0,
                per_env=tuple(sorted(per_env)),
                limits_correction_speed=limits_speed,
                is_noslip=self.is_noslip,
                assume_sticking=self.assume_sticking,
            )
            parameters = with_per_env_parameters(self.ctx, "block", block_key(block), block_parameters(block))
            tree = trees[int(self.ctx.model.dofs.frame_idx[block.dofs[0]])]
            extra = {**offsets_of_tree(tree, extra_arrays or {}), **idle_flags[block.dofs[0]]}
            rows.append(self.ctx.node_iteration(specialization, {}, {**arrays, **per_env, **extra}, parameters))
        self.ctx.for_each(name, rows, body)

    def per_env_arrays(self, block: ConstraintBlock) -> dict[str, ArenaOffset]:
        """Return the offsets of a constraint's per-environment parameter arrays by name, and of its `broken` flag."""
        arrays = {} if block.element is None else self.ctx.element_arrays(*block.element)
        offsets = {
            name: arrays[array]
            for name, array in PER_ENV_ARRAYS.get(block.parameter_group, {}).items()
            if array in arrays
        }
        if block.equality_idx >= 0 and "broken" in self.ctx.array_offsets:
            offsets["broken"] = self.ctx.element_arrays(ElementKind.EQUALITY, block.equality_idx)["broken"]
        return offsets

    def sum_over_blocks(
        self, name: str, body: Callable[[IterationContext], Sequence[Value]], extra_arrays: Mapping[str, ArenaOffset]
    ) -> list[Value]:
        """Trace the run-time sum of two values per constraint, over all constraints; return both sums.

        `body` returns the two values of a constraint; `extra_arrays` are further arrays that it can read by name.
        """
        total = self.ctx.allocate_fixed(2)
        self.ctx.tracer.write(SCRATCH, [0.0, 0.0], total.row)

        def add(iteration: IterationContext) -> None:
            values = body(iteration)
            iteration.write("total", [a + b for a, b in zip(iteration.read_array("total", 2), values, strict=True)])

        self.for_each_block(name, add, {**extra_arrays, "total": total})
        return [self.ctx.tracer.read(SCRATCH, total.row + i) for i in range(2)]

    def compute_stiffness_and_aref(self) -> None:
        """Write velocity J v, stiffness D and reference acceleration aref of all rows.

        D = d / ((1 - d) invweight) with impedance d(r), aref = -b v - k d r - bias with k, b from solref. D is zero for
        limits out of reach and for disabled or broken constraints. Position error and Jacobian must have been written
        before.
        """
        velocities = {dof: self.ctx.dof_arrays(dof)["vel"] for block in self.blocks for dof in block.dofs}
        self._multiply_jacobian_at("velocities of constraints", velocities, "velocity")

        def body(iteration: IterationContext) -> None:
            specialization: BlockSpecialization = iteration.specialization  # type: ignore[assignment]
            if specialization.is_spring_damper:
                _write_spring_damper(iteration)
                return
            n, margin = specialization.n_rows, iteration.constant("margin")
            solimp = [*_parameters(iteration, "solimp", 5)[:4], iteration.constants("solimp")[4]]
            positions = [x - margin for x in iteration.read_array("position", n)]
            violation = positions[0] if n == 1 else ir.sqrt(dot(positions, positions))
            d = impedance(solimp, specialization.impedance_power, violation)
            refsafe = specialization.limits_correction_speed or self.ctx.model.options.refsafe
            k, b = reference_stiffness_and_damping(
                valid_solref(_parameters(iteration, "solref", 2)), solimp[1], iteration.read("dt"), refsafe=refsafe
            )
            stiffness = [d / ((1.0 - d) * invweight) for invweight in iteration.constants("weights")]
            if specialization.row_type is RowType.LIMIT:
                stiffness = [ir.select(x, 0.0, y, 0.0) for x, y in zip(positions, stiffness, strict=True)]
            if "on" in specialization.per_env:
                stiffness = [ir.select(0.5, iteration.read("on"), x, 0.0) for x in stiffness]
            if "broken" in specialization.per_env:
                stiffness = [ir.select(iteration.read("broken"), 0.5, x, 0.0) for x in stiffness]
            bias: list[Value] = (
                iteration.read_array("bias acceleration", n) if specialization.has_bias_acceleration else [0.0] * n
            )
            feedback = [k * d * x for x in positions]
            if specialization.limits_correction_speed or "solref" in specialization.per_env:
                bound = (
                    b * MAX_CORRECTION_SPEED
                    if specialization.limits_correction_speed
                    else correction_acceleration_bound(iteration.read("solref"), b)
                )
                feedback = [ir.clamp(x, -bound, bound) for x in feedback]
            terms = zip(iteration.read_array("velocity", n), feedback, bias, strict=True)
            iteration.write("stiffness", stiffness)
            iteration.write("aref", [-(b * v) - x - acceleration for v, x, acceleration in terms])

        self.for_each_block("stiffness and aref of constraints", body)
        if self.ctx.settings.presence:
            self._clear_stiffness_of_absent_trees()

    def _clear_stiffness_of_absent_trees(self) -> None:
        """Trace a loop that makes the stiffness of constraints zero if one of their trees is absent."""
        trees, rows, idle_flags = tree_index_of_frames(self.ctx.model), [], self.ctx.idle_flags_of_dofs()
        for block, arrays in zip(self.blocks, self.block_arrays, strict=True):
            for tree in sorted({trees[int(self.ctx.model.dofs.frame_idx[dof])] for dof in block.dofs}):
                offsets = {"stiffness": arrays["stiffness"], PRESENT_ARRAY: self.ctx.presence_offset(tree)}
                rows.append(LoopIteration(block.n_rows, {**offsets, **idle_flags[block.dofs[0]]}))

        def body(iteration: IterationContext) -> None:
            count: int = iteration.specialization  # type: ignore[assignment]
            stiffness, present = iteration.read_array("stiffness", count), iteration.read(PRESENT_ARRAY)
            iteration.write("stiffness", [ir.select(0.5, present, x, 0.0) for x in stiffness])

        self.ctx.for_each("constraints of absent trees", rows, body)

    def multiply_jacobian(self, vector: NodeValues[list[Value]], array: str) -> None:
        """Trace the product J x of constraint Jacobian and joint-space vector x, stored in `array` of the rows."""
        self._multiply_jacobian_at(f"constraints, {array}", self.ctx.dof_offsets(vector), array)

    def _multiply_jacobian_at(self, name: str, vector_offsets: Mapping[int, ArenaOffset], array: str) -> None:
        """Trace the product J x, stored in `array` of the rows; `vector_offsets` are scratch offsets of x by dof."""
        idle_flags, rows = self.ctx.idle_flags_of_dofs(), []
        for block_index, block in enumerate(self.blocks):
            for r in range(block.n_rows):
                for k, dof in enumerate(block.dofs):
                    offsets = {
                        "to": self._row_offset(block_index, array, r),
                        "entry": self.jacobian_entry(block_index, r, dof),
                        "of": vector_offsets[dof],
                    }
                    offsets |= idle_flags[block.dofs[0]]
                    rows.append(LoopIteration("next" if k else "first", offsets))
        self.ctx.for_each(name, rows, _accumulate_product)

    def joint_forces(self, name: str) -> NodeValues[list[Value]]:
        """Trace the joint forces J^T f of the constraint forces f in the array `force` of the rows, and return them."""
        result = self.ctx.joint_vector(name)
        self.ctx.for_each_frame(f"{name}, zero", lambda node: result.put(node.ref, [0.0] * len(node.dofs)))
        targets, idle_flags, rows = self.ctx.dof_offsets(result), self.ctx.idle_flags_of_dofs(), []
        for block_index, block in enumerate(self.blocks):
            for r in range(block.n_rows):
                for dof in block.dofs:
                    offsets = {
                        "to": targets[dof],
                        "entry": self.jacobian_entry(block_index, r, dof),
                        **idle_flags[block.dofs[0]],
                    }
                    rows.append(LoopIteration("next", {**offsets, "of": self._row_offset(block_index, "force", r)}))
        self.ctx.for_each(name, rows, _accumulate_product)
        return result

    def implicit_spring_forces(self, name: str) -> NodeValues[list[Value]]:
        """Return J^T (D aref - f): joint forces of the rows as implicit springs minus their current forces f.

        Overwrites the array `force` of the rows with D aref - f.
        """

        def body(iteration: IterationContext) -> None:
            n = iteration.specialization.n_rows  # type: ignore[attr-defined]
            terms = zip(*(iteration.read_array(name, n) for name in ("stiffness", "aref", "force")), strict=True)
            iteration.write("force", [d * aref - force for d, aref, force in terms])

        self.for_each_block(name, body)
        return self.joint_forces(name)

    def remaining_spring_forces(self, name: str, acceleration: NodeValues[list[Value]]) -> NodeValues[list[Value]]:
        """Return J^T D (aref - J a): correction of the joint forces of implicit springs (method of multipliers).

        Adding this force to the applied forces reduces the deflection of the springs under load to zero. Overwrites the
        arrays `residual` and `force` of the rows.
        """
        self.multiply_jacobian(acceleration, "residual")

        def body(iteration: IterationContext) -> None:
            n = iteration.specialization.n_rows  # type: ignore[attr-defined]
            terms = zip(*(iteration.read_array(name, n) for name in ("stiffness", "aref", "residual")), strict=True)
            iteration.write("force", [d * (aref - acceleration_of_row) for d, aref, acceleration_of_row in terms])

        self.for_each_block(name, body)
        return self.joint_forces(name)

    def add_hessian(self, matrix: SymmetricEntries) -> None:
        """Add J^T D J of the active rows at the current residuals to a joint-space matrix.

        Overwrites the array `residual derivative` of the rows with their active stiffness. Inactive attachments are
        skipped.
        """
        self.for_each_block("active stiffness of constraints", _write_active_stiffness)
        rows: list[LoopIteration] = []
        attachments, idle_flags = [], self.ctx.idle_flags_of_dofs()
        for block_index, block in enumerate(self.blocks):
            entries = rows
            if block.attachment_idx >= 0:
                entries = []
                attachments.append((block, entries))
            for r in range(block.n_rows):
                for i, a in enumerate(block.dofs):
                    for b in block.dofs[: i + 1]:
                        offsets = {
                            "a": self.jacobian_entry(block_index, r, a),
                            "b": self.jacobian_entry(block_index, r, b),
                        }
                        offsets |= {
                            "to": matrix.symmetric_entry(a, b),
                            "active stiffness": self._row_offset(block_index, "residual derivative", r),
                        }
                        offsets |= idle_flags[block.dofs[0]]
                        entries.append(LoopIteration("entry", offsets))

        def body(iteration: IterationContext) -> None:
            iteration.write(
                "to",
                [iteration.read("to") + iteration.read("a") * iteration.read("b") * iteration.read("active stiffness")],
            )

        self.ctx.for_each("Hessian of constraints", rows, body)
        self.for_each_active_attachment("Hessian of attachments", attachments, body)

    def for_each_active_attachment(
        self,
        name: str,
        attachments: Sequence[tuple[ConstraintBlock, Sequence[LoopIteration]]],
        body: Callable[[IterationContext], None],
    ) -> None:
        """Trace loops over the given iterations of each attachment, skipped at run time for inactive attachments."""

        def run_if_on(iteration: IterationContext) -> None:
            def run() -> list[Value]:
                iteration.nested_loop("entries", body)
                return []

            iteration.tracer.if_less("attached", 0.5, iteration.read("on"), run, [])

        rows = [
            LoopIteration("attachment", {"on": self.per_env_arrays(block)["on"]}, {}, {"entries": list(entries)})
            for block, entries in attachments
        ]
        self.ctx.for_each(name, rows, run_if_on)

    def _row_offset(self, block_index: int, array: str, row: int) -> ArenaOffset:
        return ArenaOffset(SCRATCH, self.block_arrays[block_index][array].row + row)


def _parameters(iteration: IterationContext, name: str, count: int) -> Sequence[Value]:
    """Read parameters of a constraint from their per-environment array if any, else from the iteration's constants."""
    specialization: BlockSpecialization = iteration.specialization  # type: ignore[assignment]
    return iteration.read_array(name, count) if name in specialization.per_env else iteration.constants(name)


def _write_spring_damper(iteration: IterationContext) -> None:
    """Write stiffness and aref of a limit that is a spring and a damper, evaluated at the end of the step (implicit).

    From f = -k (x + dt v') - c v' with v' = v + dt a follow D = dt (k dt + c) and aref; stable for any stiffness k.
    """
    specialization: BlockSpecialization = iteration.specialization  # type: ignore[assignment]
    position, dt = iteration.read("position") - iteration.constant("margin"), iteration.read("dt")
    stiffness, damping = iteration.constants("spring")
    (invweight,) = iteration.constants("weights")
    implicit_stiffness = dt * (stiffness * dt + damping)
    bounded_stiffness = ir.minimum(implicit_stiffness, MAX_IMPEDANCE / ((1.0 - MAX_IMPEDANCE) * invweight))
    if "broken" in specialization.per_env:
        bounded_stiffness = ir.select(iteration.read("broken"), 0.5, bounded_stiffness, 0.0)
    iteration.write("stiffness", [ir.select(position, 0.0, bounded_stiffness, 0.0)])
    iteration.write("aref", [-(iteration.read("velocity") / dt) - stiffness * position / implicit_stiffness])


def _accumulate_product(iteration: IterationContext) -> None:
    term = iteration.read("entry") * iteration.read("of")
    iteration.write("to", [term if iteration.specialization == "first" else iteration.read("to") + term])


def _write_active_stiffness(iteration: IterationContext) -> None:
    """Write the active stiffness of each row (0 without force or at a bound) into the array `residual derivative`."""
    specialization: BlockSpecialization = iteration.specialization  # type: ignore[assignment]
    iteration.write(
        "residual derivative",
        [
            stiffness
            for _, stiffness in row_forces_and_stiffness(
                iteration, iteration.read_array("residual", specialization.n_rows)
            )
        ],
    )


def row_forces_and_stiffness(iteration: IterationContext, residuals: Sequence[Value]) -> list[ForceAndStiffness]:
    """Return force and active stiffness -df/dr of each row of a constraint at the given residuals r = J a - aref.

    The force is -D r: for limits only where r < 0, for dry friction clamped to its bound. In the no-slip solve, frozen
    rows return their stored force with stiffness 0, and friction rows are springs about their stored force.
    """
    specialization: BlockSpecialization = iteration.specialization  # type: ignore[assignment]
    stored: list[Value] = (
        iteration.read_array("stored force", specialization.n_rows)
        if specialization.is_noslip
        else [0.0] * specialization.n_rows
    )
    if specialization.is_noslip and specialization.row_type is not RowType.FRICTION:
        return [(force, 0.0) for force in stored]
    result: list[ForceAndStiffness] = []
    for residual, d, stored_force in zip(
        residuals, iteration.read_array("stiffness", specialization.n_rows), stored, strict=True
    ):
        force: Value = stored_force - d * residual
        active_stiffness: Value = d
        if specialization.row_type is RowType.LIMIT:
            force, active_stiffness = ir.select(residual, 0.0, force, 0.0), ir.select(residual, 0.0, d, 0.0)
        elif specialization.row_type is RowType.FRICTION:
            (bound,) = _parameters(iteration, "bound", 1)
            active_stiffness = d if specialization.assume_sticking else ir.select(ir.absolute(force), bound, d, 0.0)
            force = ir.clamp(force, -bound, bound)
        result.append((force, active_stiffness))
    return result


# --------------------------------------------------------------------------- residuals, forces and costs of constraints


MIN_STIFFNESS = 1e-30
"""Lower bound of the stiffness as a denominator."""


def subtract_aref(iteration: IterationContext) -> None:
    """Trace a store that turns J a into the residual J a - aref, in the array `residual` of a constraint's rows."""
    specialization: BlockSpecialization = iteration.specialization  # type: ignore[assignment]
    pairs = zip(
        iteration.read_array("residual", specialization.n_rows),
        iteration.read_array("aref", specialization.n_rows),
        strict=True,
    )
    iteration.write("residual", [a - b for a, b in pairs])


def write_row_forces(iteration: IterationContext) -> None:
    """Trace a store of a constraint's row forces, computed from the current residuals J a - aref, to the array `force`.

    Body of a loop over constraints; the loop iteration binds the arrays `residual`, `stiffness` and `force`.
    """
    specialization: BlockSpecialization = iteration.specialization  # type: ignore[assignment]
    iteration.write(
        "force",
        [
            force
            for force, _ in row_forces_and_stiffness(iteration, iteration.read_array("residual", specialization.n_rows))
        ],
    )


def _residuals_at_step(iteration: IterationContext) -> list[Value]:
    """Return the residuals of a constraint's rows at step length `length` along the search direction."""
    specialization: BlockSpecialization = iteration.specialization  # type: ignore[assignment]
    pairs = zip(
        iteration.read_array("residual", specialization.n_rows),
        iteration.read_array("residual derivative", specialization.n_rows),
        strict=True,
    )
    return [x + iteration.read("length") * v for x, v in pairs]


def advance_row_residuals(iteration: IterationContext) -> None:
    """Update the residuals of a constraint's rows by the step along the search direction."""
    iteration.write("residual", _residuals_at_step(iteration))


def block_active_set_changes(iteration: IterationContext) -> list[Value]:
    """Return the number of a constraint's rows whose active set changes within the step, and a zero.

    A row counts if it becomes active or inactive, or if its friction switches to the opposite bound.
    """
    specialization: BlockSpecialization = iteration.specialization  # type: ignore[assignment]
    before, after = (
        row_forces_and_stiffness(iteration, x)
        for x in (iteration.read_array("residual", specialization.n_rows), _residuals_at_step(iteration))
    )
    return [sum_values([active_set_change(a, b) for a, b in zip(before, after, strict=True)]), 0.0]


def active_set_change(before: ForceAndStiffness, after: ForceAndStiffness) -> Value:
    """Return 1 if a row becomes active or inactive, or if its friction switches to the opposite bound, else 0."""
    (force, stiffness), (new_force, new_stiffness) = before, after
    bound_change = ir.select(0.0, stiffness + new_stiffness, 0.0, ir.absolute(force - new_force))
    return ir.select(0.0, ir.absolute(stiffness - new_stiffness) + bound_change, 1.0, 0.0)


def block_cost(iteration: IterationContext) -> list[Value]:
    """Return the summed cost of a constraint's rows at step length `length`, and a zero."""
    return [sum_values(row_costs(iteration, _residuals_at_step(iteration))), 0.0]


def row_costs(iteration: IterationContext, residuals: Sequence[Value]) -> list[Value]:
    """Return the cost of each row of a constraint: D/2 r^2 where active, linear beyond a friction bound, else 0."""
    stiffness, forces = (
        iteration.read_array("stiffness", len(residuals)),
        row_forces_and_stiffness(iteration, residuals),
    )
    rows = zip(residuals, stiffness, forces, strict=True)
    return [row_cost(residual, d, force) for residual, d, (force, _) in rows]


def row_cost(residual: Value, stiffness: Value, force: Value) -> Value:
    """Return the cost of a row (Huber-like): D/2 r^2 where the force is -D r, and linear beyond a force bound."""
    return -(force * (residual + 0.5 * (force / ir.maximum(stiffness, MIN_STIFFNESS))))


def block_line_derivatives(iteration: IterationContext) -> list[Value]:
    """Return first and second derivative of a constraint's cost along the search direction at step length `length`.

    Line search of the Newton solver. In the no-slip solve, the first derivative is relative to its value at step length
    0.
    """
    specialization: BlockSpecialization = iteration.specialization  # type: ignore[assignment]
    first: Value = 0.0
    second: Value = 0.0
    start_forces: list[Value] = [0.0] * specialization.n_rows
    if specialization.is_noslip:  # relative to the start of the line search
        start_forces = [
            force
            for force, _ in row_forces_and_stiffness(iteration, iteration.read_array("residual", specialization.n_rows))
        ]
    rows = zip(
        row_forces_and_stiffness(iteration, _residuals_at_step(iteration)),
        start_forces,
        iteration.read_array("residual derivative", specialization.n_rows),
        strict=True,
    )
    for (force, stiffness), start_force, derivative in rows:
        first, second = first - (force - start_force) * derivative, second + stiffness * (derivative * derivative)
    return [first, second]
