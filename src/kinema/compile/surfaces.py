"""How two surfaces touch: what each says, and what becomes of two that differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from kinema.description import Collider, PhysicsMaterial, Robot, Shape, SolverParameters, World
from kinema.words import mjcf, sdf

from .pack import DEFAULT_SOLIMP, DEFAULT_SOLREF

FRICTION, SPIN, ROLL = 1.0, 0.005, 0.0001
"""Coefficients where a file gives none; of spinning and rolling as lengths [m]."""
LEAST_FRICTION = 1e-5
"""What counts as no friction at all: directions without any would have no scale."""
SMALLEST = 1e-15


@dataclass(frozen=True, slots=True)
class Surface:
    """All that decides a contact force."""

    dimension: int = 3
    friction: tuple[float, ...] = (FRICTION, FRICTION, SPIN, ROLL, ROLL)
    solref: tuple[float, ...] = DEFAULT_SOLREF
    solref_friction: tuple[float, ...] = (0.0, 0.0)
    solimp: tuple[float, ...] = DEFAULT_SOLIMP
    margin: float = 0.0
    gap: float = 0.0
    priority: int = 0
    mix: float = 1.0
    static_friction: float = 0.0
    """Of what does not slide, where that is more than `friction`."""
    restitution: float = 0.0
    bounce_speed: float = 0.0

    @property
    def stick(self) -> float:
        """How much more friction there is while nothing slides."""
        return max(1.0, self.static_friction / self.friction[0])


def of_shape(shape: Shape) -> Surface:
    """What a shape says."""
    if shape.surface is None:
        return Surface()
    slowest = shape.attributes.get(sdf.key(sdf.THRESHOLD)) or 0.0
    return replace(_surface(shape.surface), bounce_speed=max(float(slowest), 0.0))


def _surface(said: PhysicsMaterial) -> Surface:
    sliding = said.dynamic_friction if said.dynamic_friction is not None else said.static_friction
    first = FRICTION if sliding is None else sliding
    second = first if said.dynamic_friction2 is None else said.dynamic_friction2
    spin = SPIN if said.torsional_friction is None else said.torsional_friction
    roll = ROLL if said.rolling_friction is None else said.rolling_friction
    friction = said.attributes.get(mjcf.key(mjcf.FRICTION)) or (first, second, spin, roll, roll)
    solver: SolverParameters = said.solver
    return Surface(
        dimension=said.contact_dimension or 3,
        friction=tuple(max(float(x), LEAST_FRICTION) for x in friction),
        solref=solver.solref or DEFAULT_SOLREF,
        solref_friction=tuple(said.attributes.get(mjcf.key(mjcf.SOLREFFRICTION)) or (0.0, 0.0)),
        solimp=solver.solimp or DEFAULT_SOLIMP,
        margin=solver.margin,
        gap=said.gap,
        priority=said.priority,
        mix=said.solmix,
        static_friction=0.0 if said.dynamic_friction is None else said.static_friction or 0.0,
        restitution=min(max(said.restitution or 0.0, 0.0), 1.0),
    )


def of_pairs(description: Robot | World, a: Collider, b: Collider) -> list[Surface]:
    """What explicit pairs of two shapes say, which then needs no mixing: they touch once for each, as in MuJoCo."""
    names = {a.shape.name, b.shape.name}
    owners = [description, *(description.robots if isinstance(description, World) else ())]
    return [
        _surface(pair.surface)
        for owner in owners
        for pair in owner.collision.pairs
        if pair.collide and pair.surface is not None and pair.between == "shapes" and {pair.a, pair.b} == names
    ]


@lru_cache(4096)
def mixed(a: Surface, b: Surface) -> Surface:
    """Two surfaces that touch: the one of higher priority decides; else the rougher one, and a mean of hardness."""
    margin, gap = a.margin + b.margin, a.gap + b.gap
    if a.priority != b.priority:
        return replace(a if a.priority > b.priority else b, margin=margin, gap=gap)
    share = share_of(a, b)
    direct = a.solref[0] <= 0.0 or b.solref[0] <= 0.0
    return Surface(
        dimension=max(a.dimension, b.dimension),
        friction=tuple(max(x, y) for x, y in zip(a.friction, b.friction, strict=True)),
        solref=tuple(map(min, a.solref, b.solref)) if direct else _mean(share, a.solref, b.solref),
        solimp=_mean(share, a.solimp, b.solimp),
        margin=margin,
        gap=gap,
        static_friction=max(a.static_friction, b.static_friction),
        restitution=max(a.restitution, b.restitution),
        bounce_speed=max(a.bounce_speed, b.bounce_speed),
    )


def who_decides(a: Surface, b: Surface) -> int:
    """Whose surface counts: 0 or 1 for the first or the second, -1 for both."""
    return -1 if a.priority == b.priority else int(b.priority > a.priority)


def share_of(a: Surface, b: Surface) -> float:
    """How much the first one counts where they are mixed."""
    if a.mix >= SMALLEST and b.mix >= SMALLEST:
        return a.mix / (a.mix + b.mix)
    if a.mix < SMALLEST and b.mix < SMALLEST:
        return 0.5
    return 0.0 if a.mix < SMALLEST else 1.0


def _mean(share: float, a: Sequence[float], b: Sequence[float]) -> tuple[float, ...]:
    return tuple(share * x + (1.0 - share) * y for x, y in zip(a, b, strict=True))
