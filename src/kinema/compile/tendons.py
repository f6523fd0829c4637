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

LEFT_OUT = (mjcf.STIFFNESSPOLY, mjcf.DAMPINGPOLY, mjcf.SPRINGYIELD)
"""What MuJoCo has of springs and dampers beyond the linear."""


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    tendon: Tendon
    moment: Array
    path: int
    rest: tuple[float, float]
    stiffness: float
    damping: float
    armature: float
    friction: float
    limits: tuple[float, float]
    holder: int = -1
    speed: float = 0.0
    most: float = np.inf
    per_inertia: bool = False
    spring: tuple[float, float] = (0.0, 0.0)
    patient: bool = False


def pack_tendons(draft: Draft, dofs: DofsInfo) -> TendonsInfo:
    """One row for each tendon that does anything by itself."""
    rows: list[_Row] = []
    for entity, part in enumerate(draft.parts):
        switches = switches_of(part.description)
        for tendon in all_of(part.description, "tendons"):
            row = _row(draft, entity, tendon, switches, dofs)
            if row is not None:
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
        kinds=["fixed" if r.path < 0 else "drive" if r.most < np.inf or r.speed else "spatial" for r in rows],
        tie_idx=np.array([r.holder for r in rows], np.int32),
        per_inertia=np.array([r.per_inertia for r in rows], np.bool_),
        target_speed=column("speed"),
        most_force=column("most"),
        moment=column("moment").reshape(n, draft.n_dofs),
        stiffness=column("stiffness"),
        damping=column("damping"),
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


def _row(draft: Draft, entity: int, tendon: Tendon, switches: Switches, dofs: DofsInfo) -> _Row | None:
    stiffness, damping = tendon.stiffness * switches.spring, tendon.damping * switches.damper
    friction = tendon.friction * switches.frictionloss
    limits = (tendon.lower, tendon.upper) if switches.limit else (-np.inf, np.inf)
    if not (stiffness or damping or friction or tendon.armature or np.isfinite(limits).any()):
        return None
    _report(draft, tendon)
    if tendon.is_fixed:
        path, moment = -1, tendon_moment(draft, entity, tendon)
    else:
        found = tendon_path(draft, entity, tendon)
        if found is None:
            _warn(draft, tendon, f'spatial tendon "{tendon.name}" is left out: its path cannot be followed')
            return None
        path, moment = found, path_pattern(draft, found)
    rest = tendon.spring_length or _rest(moment, dofs, path)
    return _Row(tendon, moment, path, rest, stiffness, damping, _armature(draft, tendon), friction, limits)


def _of_loops(draft: Draft, entity: int, switches: Switches) -> Iterator[_Row]:
    """What acts along the coordinates of joints that close loops."""
    for length in loop_lengths(draft, entity):
        tendon, moment = length.tendon, path_pattern(draft, length.path)
        if moment.any():
            yield _Row(
                tendon,
                moment,
                length.path,
                tendon.spring_length or (0.0, 0.0),
                tendon.stiffness * switches.spring,
                tendon.damping * switches.damper,
                0.0,
                tendon.friction * switches.frictionloss,
                (tendon.lower, tendon.upper) if switches.limit else (-np.inf, np.inf),
                length.holder,
                length.speed,
                tendon.force_range[1],
                length.per_inertia,
                length.spring,
                tendon.limit_solver.solref is None,
            )


def _armature(draft: Draft, tendon: Tendon) -> float:
    """Its inertia, which nobody has for ways around shapes: MuJoCo refuses it there."""
    if tendon.armature and any(item.kind is TendonPathKind.WRAP for item in tendon.path):
        _warn(draft, tendon, f'the armature of tendon "{tendon.name}" is left out: it goes around shapes')
        return 0.0
    return tendon.armature


def _report(draft: Draft, tendon: Tendon) -> None:
    if any(tendon.attributes.get(mjcf.key(name)) for name in LEFT_OUT):
        _warn(draft, tendon, f'tendon "{tendon.name}" is simulated with a linear spring and damper alone')
    if np.isfinite(tendon.force_range).any():
        _warn(draft, tendon, f'the bounds of what actuators do to tendon "{tendon.name}" are not simulated yet')


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
