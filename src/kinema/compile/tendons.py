"""Tendons: sums of coordinates, and paths along links; what else there is, is reported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kinema.description import SolverParameters, Tendon, TendonPathKind
from kinema.foundation import Array
from kinema.model import DofsInfo, TendonsInfo
from kinema.words import mjcf

from .draft import Draft
from .find import all_of, find_joint
from .loops import loop_lengths
from .options import Switches, switches_of
from .pack import DEFAULT_SOLIMP, DEFAULT_SOLREF
from .paths import path_pattern, tendon_path
from .reflected import Reflected, on_tendons
from .springs import polynomial, yield_of

NOTHING_ADDED, LINEAR = Reflected(), np.zeros(2)


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    tendon: Tendon
    moment: Array
    path: int
    rest: tuple[float, float]
    stiffness: float
    stiffness_poly: Array
    damping: float
    damping_poly: Array
    armature: float
    friction: float
    limits: tuple[float, float]
    holder: int = -1
    speed: float = 0.0
    most: float = np.inf
    per_inertia: bool = False
    spring: tuple[float, float] = (0.0, 0.0)
    patient: bool = False
    loop: bool = False


def pack_tendons(draft: Draft, dofs: DofsInfo) -> TendonsInfo:
    """One row for each tendon that does anything by itself."""
    rows: list[_Row] = []
    for entity, part in enumerate(draft.parts):
        switches, added = switches_of(part.description), on_tendons(draft, entity)
        for tendon in all_of(part.description, "tendons"):
            row = _row(draft, entity, tendon, switches, dofs, added.get(tendon.name, NOTHING_ADDED))
            if row is not None:
                draft.rows_of_tendons[entity, id(tendon)] = len(rows)
                rows.append(row)
        rows += _of_loops(draft, entity, switches)
    n = len(rows)

    def column(name: str) -> Array:
        return np.array([getattr(r, name) for r in rows], np.float64)

    def solvers(name: str) -> tuple[Array, Array]:
        own: list[SolverParameters] = [getattr(r.tendon, name) for r in rows]
        solref = np.array([s.solref or DEFAULT_SOLREF for s in own], np.float64).reshape(n, 2)
        return solref, np.array([s.solimp or DEFAULT_SOLIMP for s in own], np.float64).reshape(n, 5)

    (limit_solref, limit_solimp), (friction_solref, friction_solimp) = map(solvers, ("limit_solver", "friction_solver"))
    rest, limits = column("rest").reshape(n, 2), column("limits").reshape(n, 2)
    return TendonsInfo(
        names=[r.tendon.name for r in rows],
        kinds=[_kind(r) for r in rows],
        tie_idx=np.array([r.holder for r in rows], np.int32),
        per_inertia=np.array([r.per_inertia for r in rows], np.bool_),
        target_speed=column("speed"),
        most_force=column("most"),
        moment=column("moment").reshape(n, draft.n_dofs),
        stiffness=column("stiffness"),
        stiffness_poly=column("stiffness_poly").reshape(n, 2),
        damping=column("damping"),
        damping_poly=column("damping_poly").reshape(n, 2),
        spring_yield=np.array([yield_of(r.tendon) for r in rows], np.float64),
        rest_lower=rest[:, 0],
        rest_upper=rest[:, 1],
        path_idx=np.array([r.path for r in rows], np.int32),
        armature=column("armature"),
        lower=limits[:, 0],
        upper=limits[:, 1],
        limit_margin=np.array([r.tendon.limit_solver.margin for r in rows], np.float64),
        limit_solref=limit_solref,
        limit_solimp=limit_solimp,
        limit_spring=column("spring").reshape(n, 2),
        patient=np.array([r.patient for r in rows], np.bool_),
        frictionloss=column("friction"),
        friction_solref=friction_solref,
        friction_solimp=friction_solimp,
        weight=np.ones(n),
    )


def _row(
    draft: Draft, entity: int, tendon: Tendon, switches: Switches, dofs: DofsInfo, added: Reflected
) -> _Row | None:
    stiffness, spring = tendon.stiffness * switches.spring, polynomial(tendon, mjcf.STIFFNESSPOLY) * switches.spring
    damping = (tendon.damping + added.damping) * switches.damper
    damper = (polynomial(tendon, mjcf.DAMPINGPOLY) + added.damping_poly) * switches.damper
    friction, armature = tendon.friction * switches.frictionloss, tendon.armature + added.armature
    limits = (tendon.lower, tendon.upper) if switches.limit else (-np.inf, np.inf)
    acts = stiffness or damping or friction or armature or spring.any() or damper.any()
    if not (acts or np.isfinite(limits).any()):
        return None
    if tendon.is_fixed:
        path, moment = -1, tendon_moment(draft, entity, tendon)
    else:
        found = tendon_path(draft, entity, tendon)
        if found is None:
            _warn(draft, tendon, f'spatial tendon "{tendon.name}" is left out: its path cannot be followed')
            return None
        path, moment = found, path_pattern(draft, found)
    rest = tendon.spring_length or _rest(moment, dofs, path)
    armature = _armature(draft, tendon, armature)
    return _Row(tendon, moment, path, rest, stiffness, spring, damping, damper, armature, friction, limits)


def _of_loops(draft: Draft, entity: int, switches: Switches) -> Iterator[_Row]:
    """What acts along the coordinates of joints that close loops."""
    for length in loop_lengths(draft, entity):
        tendon, moment = length.tendon, path_pattern(draft, length.path)
        if moment.any():
            yield _Row(
                tendon,
                moment,
                length.path,
                rest=tendon.spring_length or (0.0, 0.0),
                stiffness=tendon.stiffness * switches.spring,
                stiffness_poly=LINEAR,
                damping=tendon.damping * switches.damper,
                damping_poly=LINEAR,
                armature=tendon.armature,
                friction=tendon.friction * switches.frictionloss,
                limits=(tendon.lower, tendon.upper) if switches.limit else (-np.inf, np.inf),
                holder=length.holder,
                speed=length.speed,
                most=tendon.force_range[1],
                per_inertia=length.per_inertia,
                spring=length.spring,
                patient=tendon.limit_solver.solref is None,
                loop=True,
            )


def _kind(row: _Row) -> str:
    if row.most < np.inf or row.speed:
        return "drive"
    if row.loop and not row.stiffness:
        return "brake"
    kind = "fixed" if row.path < 0 else "spatial"
    return f"{kind} yielding" if np.isfinite(yield_of(row.tendon)) else kind


def _armature(draft: Draft, tendon: Tendon, armature: float) -> float:
    """Its inertia, which nobody has for ways around shapes: MuJoCo refuses it there."""
    if armature and any(item.kind is TendonPathKind.WRAP for item in tendon.path):
        _warn(draft, tendon, f'the armature of tendon "{tendon.name}" is left out: it goes around shapes')
        return 0.0
    return armature


def _warn(draft: Draft, tendon: Tendon, message: str) -> None:
    draft.diagnostics.warning("sim.tendon", message, origin=tendon.origin)


def tendon_moment(draft: Draft, entity: int, tendon: Tendon) -> Array:
    """How a fixed tendon's length changes with each coordinate."""
    moment = np.zeros(draft.n_dofs)
    for item in tendon.path:
        joint = find_joint(draft, entity, item.target)
        if joint is not None and joint.joint.n_qs == 1:
            moment[joint.dof_start] += item.coefficient
    return moment


def _rest(moment: Array, dofs: DofsInfo, path: int) -> tuple[float, float]:
    """The length at which the joints' own springs are at rest; of a path that is found when it is first followed."""
    length = float(moment @ dofs.spring_ref) if path < 0 else np.nan
    return length, length
