"""Cost of one contact as a function of its residual, with gradient and Hessian: elliptic and pyramidal friction cones.

The residual r = J a - aref has condim components: normal, tangential, torsional and rolling. The Jacobian rows are
scaled by the friction coefficients so that all components have the same stiffness D (MuJoCo's efc_D). With N = r[0] and
T = |r[1:]|, an elliptic cone has three zones: no force where N >= mu T, sticking (cost D/2 |r|^2) where mu N + T < 0,
and sliding (cost D / (2 (1 + mu^2)) (N - mu T)^2) in between; mu is the regularised friction coefficient. A pyramidal
cone has the edges N + r[k] and N - r[k], each with cost D/2 min(edge, 0)^2. The contact force is the negative gradient
of the cost. `NoSlipFriction` is the augmented-Lagrangian cost of the no-slip solve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kinema import ir
from kinema.ir import Value

from ..collision.contact_records import Contact, noslip_record_size
from ..vector_math import dot

TINY = 1e-30
"""Lower bound of squared norms, so that square roots have finite derivatives."""


@dataclass(frozen=True, slots=True)
class CostDerivatives:
    """Gradient (condim) and Hessian (lower triangle by rows) of a contact's cost with respect to its residual."""

    gradient: list[Value]
    hessian: list[list[Value]]


def contact_cost_derivatives(
    residual: Sequence[Value], stiffness: Value, mu: Value, *, elliptic: bool
) -> CostDerivatives:
    """Return gradient and Hessian of the contact cost with respect to the residual.

    A residual with one component is a frictionless contact with cost D/2 min(r, 0)^2.

    Args:
        residual: J a - aref in scaled contact axes, normal first.
        stiffness: D, inverse of the regularised constraint inertia.
        mu: regularised friction coefficient of the elliptic cone.
        elliptic: elliptic friction cone instead of a pyramidal one.
    """
    if len(residual) == 1:
        d = ir.select(residual[0], 0.0, stiffness, 0.0)
        return CostDerivatives([d * residual[0]], [[d]])
    return _elliptic_derivatives(residual, stiffness, mu) if elliptic else _pyramidal_derivatives(residual, stiffness)


def _pyramidal_derivatives(residual: Sequence[Value], stiffness: Value) -> CostDerivatives:
    """Return gradient and Hessian of the pyramidal cone's cost D/2 sum over edges of min(N +- r[k], 0)^2.

    N is the normal component of the residual, r[k] one of its friction components and D the stiffness.
    """
    normal, *tangential = residual
    gradient: list[Value] = [0.0] * len(residual)
    hessian: list[list[Value]] = [[0.0] * (i + 1) for i in range(len(residual))]
    for k, x in enumerate(tangential, 1):
        plus, minus = normal + x, normal - x
        a, b = (ir.select(edge, 0.0, stiffness, 0.0) for edge in (plus, minus))
        gradient[0] = gradient[0] + (a * plus + b * minus)
        gradient[k] = a * plus - b * minus
        hessian[0][0] = hessian[0][0] + (a + b)
        hessian[k][0], hessian[k][k] = a - b, a + b
    return CostDerivatives(gradient, hessian)


def _pyramid_edges(residual: Sequence[Value]) -> list[Value]:
    """Return the residuals N + r[k] and N - r[k] along the edges of a pyramidal cone, or [N] without friction.

    Squares are taken edge by edge: sums of the squares of normal and tangential components would cancel for motions
    along an edge, with a result of either sign in single precision.
    """
    normal, *tangential = residual
    return [edge for x in tangential for edge in (normal + x, normal - x)] or [normal]


@dataclass(frozen=True, slots=True)
class _ConeZone:
    """Position of a residual relative to an elliptic friction cone."""

    inverse_norm: Value
    """1 / T."""
    cone_distance: Value
    """N - mu T; negative where the contact exerts a force."""
    sliding_stiffness: Value
    """D / (1 + mu^2), stiffness in the sliding zone."""
    is_active: Value
    """1 where the contact exerts a force (sticking or sliding), else 0."""
    is_sticking: Value
    """1 in the sticking zone (mu N + T < 0), else 0."""


def _cone_zone(residual: Sequence[Value], stiffness: Value, mu: Value) -> _ConeZone:
    """Compute the zone of an elliptic friction cone (separated, sliding or sticking) that contains a residual."""
    normal, *tangential = residual
    norm = ir.sqrt(ir.maximum(dot(tangential, tangential), TINY))
    cone_distance = normal - mu * norm
    return _ConeZone(
        1.0 / norm,
        cone_distance,
        stiffness / (1.0 + mu * mu),
        ir.select(cone_distance, 0.0, 1.0, 0.0),
        ir.select(mu * normal + norm, 0.0, 1.0, 0.0),
    )


def _elliptic_derivatives(residual: Sequence[Value], stiffness: Value, mu: Value) -> CostDerivatives:
    """Return gradient and Hessian, with respect to the residual, of the elliptic cone's cost in its current zone.

    The zone is separated (zero), sliding (cone surface) or sticking (quadratic).
    """
    zone = _cone_zone(residual, stiffness, mu)
    normal_gradient = zone.sliding_stiffness * zone.cone_distance
    tangent = [0.0, *(zone.inverse_norm * x for x in residual[1:])]
    cone_direction = [1.0, *(-mu * x for x in tangent[1:])]
    tangential_curvature = -mu * zone.inverse_norm * normal_gradient

    def select_zone(sticking: Value, sliding: Value) -> Value:  # sliding terms may be NaN elsewhere
        return ir.select(0.5, zone.is_active, ir.select(0.5, zone.is_sticking, sticking, sliding), 0.0)

    gradient = [select_zone(stiffness * x, normal_gradient * u) for x, u in zip(residual, cone_direction, strict=True)]
    hessian: list[list[Value]] = []
    for i, a in enumerate(cone_direction):
        row: list[Value] = []
        for j, b in enumerate(cone_direction[: i + 1]):
            sliding = zone.sliding_stiffness * a * b
            if j > 0:
                sliding = sliding + tangential_curvature * ((1.0 if i == j else 0.0) - tangent[i] * tangent[j])
            row.append(select_zone(stiffness if i == j else 0.0, sliding))
        hessian.append(row)
    return CostDerivatives(gradient, hessian)


@dataclass(frozen=True, slots=True)
class ConeHessian:
    """Compact Hessian diag(d) + w u u^T - s t t^T of an elliptic cone; t = (0, tangent), u = (1, -mu tangent)."""

    diagonal: list[Value]
    """d, one entry per residual component."""
    tangent: list[Value]
    """Unit vector of the tangential residual, condim - 1 components."""
    cone_weight: Value
    """w, weight of the dyad of the cone direction u."""
    tangent_weight: Value
    """s, weight of the dyad of the tangent t, which is subtracted."""


def cone_gradient_and_hessian(
    residual: Sequence[Value], stiffness: Value, mu: Value
) -> tuple[list[Value], ConeHessian]:
    """Return the gradient and the compact Hessian of an elliptic cone's cost."""
    return _elliptic_derivatives(residual, stiffness, mu).gradient, cone_hessian(residual, stiffness, mu)


def cone_hessian(residual: Sequence[Value], stiffness: Value, mu: Value) -> ConeHessian:
    """Return the Hessian of an elliptic cone's cost in compact form (diagonal plus two dyads)."""
    zone = _cone_zone(residual, stiffness, mu)
    tangential_curvature = -mu * zone.inverse_norm * (zone.sliding_stiffness * zone.cone_distance)

    def select_zone(sticking: Value, sliding: Value) -> Value:
        return ir.select(0.5, zone.is_active, ir.select(0.5, zone.is_sticking, sticking, sliding), 0.0)

    tangential = select_zone(stiffness, tangential_curvature)
    return ConeHessian(
        [select_zone(stiffness, 0.0), *[tangential] * (len(residual) - 1)],
        [zone.inverse_norm * x for x in residual[1:]],
        select_zone(0.0, zone.sliding_stiffness),
        select_zone(0.0, tangential_curvature),
    )


def contact_line_derivatives(
    residual: Sequence[Value], residual_derivative: Sequence[Value], stiffness: Value, mu: Value, *, elliptic: bool
) -> tuple[Value, Value]:
    """Return first and second derivative of the contact cost along a line r + s * residual_derivative at s = 0.

    Args:
        residual: residual at the trial point.
        residual_derivative: J d for the search direction d.
        stiffness: D, inverse of the regularised constraint inertia.
        mu: regularised friction coefficient of the elliptic cone.
        elliptic: elliptic friction cone instead of a pyramidal one.
    """
    if not elliptic or len(residual) == 1:
        derivative, curvature = 0.0, 0.0
        for edge, edge_derivative in zip(_pyramid_edges(residual), _pyramid_edges(residual_derivative), strict=True):
            weighted = ir.select(edge, 0.0, stiffness * edge_derivative, 0.0)
            derivative, curvature = derivative + weighted * edge, curvature + weighted * edge_derivative
        return derivative, curvature
    zone = _cone_zone(residual, stiffness, mu)
    tangential, tangential_derivative = residual[1:], residual_derivative[1:]
    norm_derivative = zone.inverse_norm * dot(tangential, tangential_derivative)
    cone_derivative = residual_derivative[0] - mu * norm_derivative
    normal_gradient = zone.sliding_stiffness * zone.cone_distance
    tangential_term = (
        mu
        * zone.inverse_norm
        * normal_gradient
        * (dot(tangential_derivative, tangential_derivative) - norm_derivative * norm_derivative)
    )
    derivative = ir.select(
        0.5, zone.is_sticking, stiffness * dot(residual, residual_derivative), normal_gradient * cone_derivative
    )
    second_derivative = ir.select(
        0.5,
        zone.is_sticking,
        stiffness * dot(residual_derivative, residual_derivative),
        zone.sliding_stiffness * cone_derivative * cone_derivative - tangential_term,
    )
    return ir.select(0.5, zone.is_active, derivative, 0.0), ir.select(0.5, zone.is_active, second_derivative, 0.0)


def contact_cost(residual: Sequence[Value], stiffness: Value, mu: Value, *, elliptic: bool) -> Value:
    """Return the cost of a contact at a residual, for an elliptic cone, a pyramidal cone or a frictionless contact."""
    if not elliptic or len(residual) == 1:
        active = [ir.minimum(edge, 0.0) for edge in _pyramid_edges(residual)]
        return 0.5 * stiffness * dot(active, active)
    zone = _cone_zone(residual, stiffness, mu)
    sliding = zone.sliding_stiffness * zone.cone_distance * zone.cone_distance
    cost = ir.select(0.5, zone.is_sticking, stiffness * dot(residual, residual), sliding)
    return ir.select(0.5, zone.is_active, 0.5 * cost, 0.0)


def contact_active_set_changes(
    old_residual: Sequence[Value], new_residual: Sequence[Value], stiffness: Value, mu: Value, *, elliptic: bool
) -> Value:
    """Return 0 if the contact cost is the same quadratic function at two residuals, else a positive value.

    Pyramidal and frictionless contacts: number of edges that become active or inactive. Elliptic contacts: 0 if both
    residuals are separated or both sticking, else 1; a sliding contact always counts, as its cost is not quadratic.
    """
    if elliptic and len(old_residual) > 1:
        a, b = (_cone_zone(x, stiffness, mu) for x in (old_residual, new_residual))
        unchanged = a.is_active * b.is_active * a.is_sticking * b.is_sticking + (1.0 - a.is_active) * (
            1.0 - b.is_active
        )
        return 1.0 - unchanged
    if len(old_residual) == 1:
        a, b = (ir.select(x[0], 0.0, 1.0, 0.0) for x in (old_residual, new_residual))
        return ir.absolute(a - b)
    total: Value = 0.0
    for k in range(1, len(old_residual)):
        for sign in (1.0, -1.0):
            a, b = (ir.select(x[0] + sign * x[k], 0.0, 1.0, 0.0) for x in (old_residual, new_residual))
            total = total + ir.absolute(a - b)
    return total


# ---------------------------------------------------------------------------------------------------------- cost models

Values = Sequence[Value]
NOSLIP_STIFFNESS_FACTOR = 10.0
"""Penalty stiffness of no-slip friction relative to D: each multiplier update reduces the slip by about this factor."""


class ContactCost:
    """Cost model of soft contacts with elliptic or pyramidal friction cones."""

    def derivatives(self, contact: Contact, residual: Values) -> CostDerivatives:
        """Return gradient and Hessian of the contact cost at `residual`."""
        return contact_cost_derivatives(residual, *contact.stiffness_and_mu, elliptic=contact.elliptic)

    def compact_hessian(self, contact: Contact) -> ConeHessian | None:
        """Return the compact Hessian at the contact's current residual; None for pyramidal or frictionless contacts."""
        has_cone = contact.elliptic and contact.condim > 1
        return cone_hessian(contact.residual, *contact.stiffness_and_mu) if has_cone else None

    def line_derivatives(self, contact: Contact, residual: Values, residual_derivative: Values) -> tuple[Value, Value]:
        """Return first and second derivative of the contact cost at `residual` along the search direction."""
        return contact_line_derivatives(
            residual, residual_derivative, *contact.stiffness_and_mu, elliptic=contact.elliptic
        )

    def active_set_changes(self, contact: Contact, old_residual: Values, new_residual: Values) -> Value:
        """Return 0 if the cost is the same quadratic function at both residuals, else a positive value."""
        return contact_active_set_changes(
            old_residual, new_residual, *contact.stiffness_and_mu, elliptic=contact.elliptic
        )

    def cost(self, contact: Contact, residual: Values) -> Value:
        """Return the contact cost at `residual`."""
        return contact_cost(residual, *contact.stiffness_and_mu, elliptic=contact.elliptic)


class NoSlipFriction(ContactCost):
    """Augmented-Lagrangian cost model of the no-slip solve: fixed normal forces, friction bounded by them (noslip).

    Friction is the multiplier plus a penalty spring on the tangential residual, clamped to its bound: for elliptic
    cones the norm of all friction components, for pyramidal cones each component. Replacing the multipliers by the
    forces found (method of multipliers) drives the slip to zero. Per contact, the array `noslip data` stores the
    gradient in normal direction, condim - 1 bounds and condim - 1 multipliers.
    """

    def __init__(self) -> None:
        self.assume_sticking = False
        """Use the Hessian of sticking friction even for contacts at their friction bound."""

    def freeze_normal_forces(self, contact: Contact) -> None:
        """Store normal force, friction bounds (mu times normal force) and, as multipliers, the current friction."""
        residual, (stiffness, mu) = contact.residual, contact.stiffness_and_mu
        gradient = contact_cost_derivatives(residual, stiffness, mu, elliptic=contact.elliptic).gradient
        bounds: list[Value] = []
        if contact.elliptic:
            bounds = [-(mu * gradient[0])] * (contact.condim - 1)
        else:
            for x in residual[1:]:
                edges = [ir.minimum(residual[0] + sign * x, 0.0) for sign in (1.0, -1.0)]
                bounds.append(-(stiffness * (edges[0] + edges[1])))
        self._store(contact, [gradient[0], *bounds, *gradient[1:]], 0)

    def update_multipliers(self, contact: Contact) -> None:
        """Replace the friction multipliers by the current, clamped friction forces (method of multipliers)."""
        self._store(contact, self.derivatives(contact, contact.residual).gradient[1:], contact.condim)

    def derivatives(self, contact: Contact, residual: Values) -> CostDerivatives:
        """Return gradient and Hessian of the augmented-Lagrangian cost; the Hessian is zero in normal direction.

        With `assume_sticking`, the Hessian is that of sticking friction also where the friction is clamped to its
        bound.
        """
        normal, bounds, penalty, trial = self._trial_friction(contact, residual)
        hessian: list[list[Value]] = [[0.0] * (i + 1) for i in range(contact.condim)]
        if contact.elliptic:
            norm, sticks = _norm_and_sticking(trial, bounds[0])
            scale = ir.select(0.5, sticks, 1.0, bounds[0] / norm)
            rotation_weight = ir.select(0.5, sticks, 0.0, penalty * scale / (norm * norm))
            for i, x in enumerate(trial, 1):
                for j, y in enumerate(trial[:i], 1):
                    sliding = (penalty * scale if i == j else 0.0) - rotation_weight * x * y
                    hessian[i][j] = (penalty if i == j else 0.0) if self.assume_sticking else sliding
            return CostDerivatives([normal, *(scale * x for x in trial)], hessian)
        for k, (x, bound) in enumerate(zip(trial, bounds, strict=True), 1):
            hessian[k][k] = penalty if self.assume_sticking else ir.select(ir.absolute(x), bound, penalty, 0.0)
        return CostDerivatives([normal, *(ir.clamp(x, -b, b) for x, b in zip(trial, bounds, strict=True))], hessian)

    def compact_hessian(self, contact: Contact) -> ConeHessian | None:
        """Return None: the augmented-Lagrangian cost has no compact Hessian."""
        return None

    def line_derivatives(self, contact: Contact, residual: Values, residual_derivative: Values) -> tuple[Value, Value]:
        """Return the change of the directional derivative from its value at step length 0, and the second derivative.

        Only the difference is accurate in single precision, as the large constant normal forces cancel.
        """
        start, current = (self.derivatives(contact, x) for x in (contact.residual, residual))
        curvature: Value = 0.0
        for i, row in enumerate(current.hessian):
            for j, x in enumerate(row):
                curvature = curvature + (1.0 if i == j else 2.0) * (
                    x * (residual_derivative[i] * residual_derivative[j])
                )
        pairs = zip(current.gradient[1:], start.gradient[1:], strict=True)
        return dot([a - b for a, b in pairs], residual_derivative[1:]), curvature

    def active_set_changes(self, contact: Contact, old_residual: Values, new_residual: Values) -> Value:
        """Return 1: convergence is decided by the multiplier updates, never by an unchanged active set."""
        return 1.0

    def _trial_friction(self, contact: Contact, residual: Values) -> tuple[Value, list[Value], Value, list[Value]]:
        """Return normal gradient, friction bounds, penalty stiffness k and trial friction (multiplier + k residual).

        Quantities of the augmented Lagrangian of the no-slip solve; the friction is not yet clamped to its bounds.
        """
        n, offset = contact.condim, contact.index * float(noslip_record_size(contact.condim))
        normal, *bounds_and_multipliers = [
            contact.tracer.read("noslip data", i, offset) for i in range(noslip_record_size(contact.condim))
        ]
        penalty = (
            NOSLIP_STIFFNESS_FACTOR if contact.elliptic else 2.0 * NOSLIP_STIFFNESS_FACTOR
        ) * contact.stiffness_and_mu[0]
        trial = [p + penalty * x for p, x in zip(bounds_and_multipliers[n - 1 :], residual[1:], strict=True)]
        return normal, bounds_and_multipliers[: n - 1], penalty, trial

    def _store(self, contact: Contact, values: Values, offset: int) -> None:
        contact.tracer.write("noslip data", values, offset, contact.index * float(noslip_record_size(contact.condim)))


def _norm_and_sticking(trial_friction: Values, friction_bound: Value) -> tuple[Value, Value]:
    """Return the norm of the trial friction, and 1 if the norm is below the bound, else 0."""
    norm = ir.sqrt(ir.maximum(dot(trial_friction, trial_friction), TINY))
    return norm, ir.select(norm, friction_bound, 1.0, 0.0)
