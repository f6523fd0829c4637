"""Table of tendons: fixed and spatial tendons, and the limits, springs and drives of loop-joint coordinates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kinema.core import Array
from kinema.description import SolverParameters, Tendon, TendonPathKind
from kinema.model import DofsInfo, TendonsInfo
from kinema.tokens import mjcf

from .context import BuildContext, all_elements, find_joint
from .kinematic_tables import (
    DEFAULT_SOLIMP,
    DEFAULT_SOLREF,
    ReflectedInertia,
    polynomial_coefficients,
    reflected_inertia_of_tendons,
    spring_yield_distance,
)
from .loop_joints import loop_tendons
from .options import OptionFlags, option_flags
from .paths import path_dof_mask, tendon_path_idx

NO_REFLECTED_INERTIA, ZERO_POLYNOMIAL = ReflectedInertia(), np.zeros(2)


@dataclass(frozen=True, slots=True, eq=False)
class _TendonRow:
    """One row of the table of tendons."""

    tendon: Tendon
    moment: Array
    """Moment arms of a fixed tendon, or mask of the dofs that change the path, (n_dofs,)."""
    path_idx: int
    rest: tuple[float, float]
    """Lower and upper rest length of the spring."""
    stiffness: float
    stiffness_poly: Array
    damping: float
    damping_poly: Array
    armature: float
    friction: float
    limits: tuple[float, float]
    equality_idx: int = -1
    target_vel: float = 0.0
    max_force: float = np.inf
    acceleration_drive: bool = False
    limit_spring: tuple[float, float] = (0.0, 0.0)
    """Stiffness and damping of the limits given by the file; zeros for none."""
    limits_correction_speed: bool = False
    """Whether the correction velocity of violated limits is bounded."""
    is_loop_joint: bool = False


def pack_tendons(ctx: BuildContext, dofs: DofsInfo) -> TendonsInfo:
    """Table of tendons with passive forces, limits or drives, and of the coordinates of loop joints that have any.

    Tendons of the files come first within an entity, then the coordinates of its loop joints. Also records the row
    indices in `ctx.tendon_idx`. `dofs` gives the spring references for default rest lengths.
    """
    rows: list[_TendonRow] = []
    for entity, spec in enumerate(ctx.entities):
        flags, reflected = option_flags(spec.description), reflected_inertia_of_tendons(ctx, entity)
        for tendon in all_elements(spec.description, "tendons"):
            row = _tendon_row(ctx, entity, tendon, flags, dofs, reflected.get(tendon.name, NO_REFLECTED_INERTIA))
            if row is not None:
                ctx.tendon_idx[entity, id(tendon)] = len(rows)
                rows.append(row)
        rows += _loop_tendon_rows(ctx, entity, flags)
    n = len(rows)

    def column(name: str) -> Array:
        return np.array([getattr(row, name) for row in rows], np.float64)

    def solvers(name: str) -> tuple[Array, Array]:
        parameters: list[SolverParameters] = [getattr(row.tendon, name) for row in rows]
        solref = np.array([p.solref or DEFAULT_SOLREF for p in parameters], np.float64).reshape(n, 2)
        return solref, np.array([p.solimp or DEFAULT_SOLIMP for p in parameters], np.float64).reshape(n, 5)

    (limit_solref, limit_solimp), (friction_solref, friction_solimp) = map(solvers, ("limit_solver", "friction_solver"))
    rest, limits = column("rest").reshape(n, 2), column("limits").reshape(n, 2)
    return TendonsInfo(
        names=[row.tendon.name for row in rows],
        kinds=[_tendon_kind(row) for row in rows],
        equality_idx=np.array([row.equality_idx for row in rows], np.int32),
        acceleration_drive=np.array([row.acceleration_drive for row in rows], np.bool_),
        target_vel=column("target_vel"),
        max_force=column("max_force"),
        moment=column("moment").reshape(n, ctx.n_dofs),
        stiffness=column("stiffness"),
        stiffness_poly=column("stiffness_poly").reshape(n, 2),
        damping=column("damping"),
        damping_poly=column("damping_poly").reshape(n, 2),
        spring_yield=np.array([spring_yield_distance(row.tendon) for row in rows], np.float64),
        rest_lower=rest[:, 0],
        rest_upper=rest[:, 1],
        path_idx=np.array([row.path_idx for row in rows], np.int32),
        armature=column("armature"),
        lower=limits[:, 0],
        upper=limits[:, 1],
        limit_margin=np.array([row.tendon.limit_solver.margin for row in rows], np.float64),
        limit_solref=limit_solref,
        limit_solimp=limit_solimp,
        limit_spring=column("limit_spring").reshape(n, 2),
        limits_correction_speed=np.array([row.limits_correction_speed for row in rows], np.bool_),
        frictionloss=column("friction"),
        friction_solref=friction_solref,
        friction_solimp=friction_solimp,
    )


def _tendon_row(
    ctx: BuildContext, entity: int, tendon: Tendon, flags: OptionFlags, dofs: DofsInfo, reflected: ReflectedInertia
) -> _TendonRow | None:
    """Row of the tendon table for a tendon of a file, without the forces and limits that flags of its entity disable.

    Armature and damping reflected by actuators are added. None if the tendon has no passive force and no limit, or,
    with a warning, if its path cannot be resolved.
    """
    stiffness, stiffness_poly = (
        tendon.stiffness * flags.spring,
        polynomial_coefficients(tendon, mjcf.STIFFNESSPOLY) * flags.spring,
    )
    damping = (tendon.damping + reflected.damping) * flags.damper
    damping_poly = (polynomial_coefficients(tendon, mjcf.DAMPINGPOLY) + reflected.damping_poly) * flags.damper
    friction, armature = tendon.friction * flags.frictionloss, tendon.armature + reflected.armature
    limits = (tendon.lower, tendon.upper) if flags.limit else (-np.inf, np.inf)
    is_passive = stiffness or damping or friction or armature or stiffness_poly.any() or damping_poly.any()
    if not (is_passive or np.isfinite(limits).any()):
        return None
    if tendon.is_fixed:
        path, moment = -1, fixed_tendon_moment(ctx, entity, tendon)
    else:
        path_idx = tendon_path_idx(ctx, entity, tendon)
        if path_idx is None:
            _warn(ctx, tendon, f'spatial tendon "{tendon.name}" is left out: its path cannot be resolved')
            return None
        path, moment = path_idx, path_dof_mask(ctx, path_idx)
    rest = tendon.spring_length or _default_rest_length(moment, dofs, path)
    armature = _supported_armature(ctx, tendon, armature)
    return _TendonRow(
        tendon, moment, path, rest, stiffness, stiffness_poly, damping, damping_poly, armature, friction, limits
    )


def _loop_tendon_rows(ctx: BuildContext, entity: int, flags: OptionFlags) -> Iterator[_TendonRow]:
    """Rows of the tendon table for limits, springs, friction and drives of an entity's loop joint coordinates."""
    for loop_tendon in loop_tendons(ctx, entity):
        tendon, moment = loop_tendon.tendon, path_dof_mask(ctx, loop_tendon.path_idx)
        if moment.any():
            yield _TendonRow(
                tendon,
                moment,
                loop_tendon.path_idx,
                rest=tendon.spring_length or (0.0, 0.0),
                stiffness=tendon.stiffness * flags.spring,
                stiffness_poly=ZERO_POLYNOMIAL,
                damping=tendon.damping * flags.damper,
                damping_poly=ZERO_POLYNOMIAL,
                armature=tendon.armature,
                friction=tendon.friction * flags.frictionloss,
                limits=(tendon.lower, tendon.upper) if flags.limit else (-np.inf, np.inf),
                equality_idx=loop_tendon.equality_idx,
                target_vel=loop_tendon.target_vel,
                max_force=tendon.force_range[1],
                acceleration_drive=loop_tendon.acceleration_drive,
                limit_spring=loop_tendon.limit_spring,
                limits_correction_speed=tendon.limit_solver.solref is None,
                is_loop_joint=True,
            )


def _tendon_kind(row: _TendonRow) -> str:
    """Kind of a row: `drive`, `brake` (loop coordinate without spring), `fixed` or `spatial`.

    `fixed` and `spatial` are followed by ` yielding` if the spring can yield.
    """
    if row.max_force < np.inf or row.target_vel:
        return "drive"
    if row.is_loop_joint and not row.stiffness:
        return "brake"
    kind = "fixed" if row.path_idx < 0 else "spatial"
    return f"{kind} yielding" if np.isfinite(spring_yield_distance(row.tendon)) else kind


def _supported_armature(ctx: BuildContext, tendon: Tendon, armature: float) -> float:
    """Armature of a tendon; 0, with a warning, if it wraps around geoms, which MuJoCo does not support either."""
    if armature and any(item.kind is TendonPathKind.WRAP for item in tendon.path):
        _warn(ctx, tendon, f'the armature of tendon "{tendon.name}" is ignored: it wraps around geoms')
        return 0.0
    return armature


def _warn(ctx: BuildContext, tendon: Tendon, message: str) -> None:
    ctx.diagnostics.warning("sim.tendon", message, origin=tendon.origin)


def fixed_tendon_moment(ctx: BuildContext, entity: int, tendon: Tendon) -> Array:
    """Moment arms of a fixed tendon, shape (n_dofs,): the sum of its joint coefficients per dof."""
    moment = np.zeros(ctx.n_dofs)
    for item in tendon.path:
        joint = find_joint(ctx, entity, item.target)
        if joint is not None and joint.description.n_qs == 1:
            moment[joint.dof_start] += item.coefficient
    return moment


def _default_rest_length(moment: Array, dofs: DofsInfo, path_idx: int) -> tuple[float, float]:
    """Rest length (lower, upper) at the spring references of the joints.

    NaN for a path, resolved at the initial state.
    """
    length = float((moment * dofs.spring_ref).sum()) if path_idx < 0 else np.nan
    return length, length
