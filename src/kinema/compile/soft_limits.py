"""Limits that give way: what formats say of springs, dampers and bounces at the ends of an axis.

The simulator has one model of softness; springs with a stiffness of their own it takes as they are.
"""

from __future__ import annotations

import math

from kinema.description import Axis, AxisMotion, Joint, JointKind, SolverParameters
from kinema.foundation import Diagnostics
from kinema.words import newton, physics, physx, sdf, usd

BOUNCE_TIME = 0.02
"""How long a bounce takes, divided by pi [s]: MuJoCo's default time constant."""
BOUNCE_IMPEDANCE = (0.95, 0.95, 0.001, 0.5, 2.0)
LEAST_DAMPING = 1e-3
"""Of a bounce that loses nothing."""


def range_of(joint: Joint, axis: Axis, diagnostics: Diagnostics) -> tuple[float, float]:
    """Between which coordinates an axis moves: without an end where its range ends before it begins, which is said."""
    if axis.lower <= axis.upper:
        return axis.lower, axis.upper
    problem = (
        f'the limits of joint "{joint.name}" are left out: the lower one, {axis.lower:g}, is above the upper one, '
    )
    diagnostics.warning(
        "sim.reversed-limits", f"{problem}{axis.upper:g}", hint="swap them, or leave them out", origin=joint.origin
    )
    return -math.inf, math.inf


def limit_spring(joint: Joint, axis: Axis) -> tuple[float, float]:
    """Stiffness and damping beyond its limits [N/m or N m/rad, per second]; zeros where nobody gives a stiffness."""
    if axis.limit_solver.solref is not None:
        return 0.0, 0.0
    degree = math.pi / 180.0 if axis.motion is AxisMotion.ROTATION else 1.0
    for names in _names(joint, axis):
        stiffness, damping = (_kept(joint, name) for name in names[:2])
        if stiffness is not None and 0.0 < stiffness < math.inf:
            return stiffness / degree, (damping or 0.0) / degree
    number = next((i for i, a in enumerate(joint.axes) if a is axis), 0)
    if number < len(sdf.AXES):
        own = [joint.attributes.get(sdf.key(sdf.of_axis(sdf.AXES[number], sdf.limit(x)))) for x in sdf.LIMIT_SETTINGS]
        if own[0] is not None and 0.0 < own[0] < math.inf:
            return float(own[0]), float(own[1] or 0.0)
    return 0.0, 0.0


def limit_softness(joint: Joint, axis: Axis) -> SolverParameters:
    """MuJoCo's parameters of its limits: as its file says, or so that it bounces as its file says."""
    own = axis.limit_solver
    if own.solref is not None or own.solimp is not None:
        return own
    for names in _names(joint, axis):
        bounce = _kept(joint, names[2])
        if bounce is not None and bounce > 0.0:
            ratio = damping_ratio(min(bounce, 1.0))
            return SolverParameters(solref=(BOUNCE_TIME / ratio, ratio), solimp=BOUNCE_IMPEDANCE, margin=own.margin)
    return own


def damping_ratio(bounce: float) -> float:
    """That of a stop which gives back that share of a speed: exp(-z / sqrt(1 - z^2) (pi - 2 asin z)), inverted."""
    low, high = LEAST_DAMPING, 1.0
    for _ in range(60):
        z = 0.5 * (low + high)
        back = math.exp(-z / math.sqrt(1.0 - z * z) * (math.pi - 2.0 * math.asin(z)))
        low, high = (z, high) if back > bounce else (low, z)
    return 0.5 * (low + high)


def _names(joint: Joint, axis: Axis) -> list[tuple[str, str, str]]:
    """What the vendors of USD call the stiffness, damping and restitution of an axis's limits."""
    number = next((i for i, a in enumerate(joint.axes) if a is axis), 0)
    tokens = {
        JointKind.REVOLUTE: [physics.ANGULAR],
        JointKind.CONTINUOUS: [physics.ANGULAR],
        JointKind.PRISMATIC: [physics.LINEAR],
        JointKind.SPHERICAL: [physx.CONE],
        JointKind.SIX_AXIS: [physics.SIX[number % len(physics.SIX)]],
    }.get(joint.kind, [])
    words = (physx.LIMIT_STIFFNESS, physx.LIMIT_DAMPING, physx.LIMIT_RESTITUTION)
    by_physx = [tuple(physx.limit(token, word) for word in words) for token in tokens]
    return [(newton.LIMIT_STIFFNESS, newton.LIMIT_DAMPING, ""), *by_physx]  # type: ignore[list-item]  # ty: ignore[invalid-explicit-return]


def _kept(joint: Joint, name: str) -> float | None:
    _, value = joint.attributes.get(usd.KEPT + name, ("", None))
    return float(value) if isinstance(value, int | float) else None
