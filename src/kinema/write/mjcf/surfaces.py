"""How surfaces touch, as attributes of geoms and contact pairs."""

from __future__ import annotations

from kinema.description import Node, PhysicsMaterial
from kinema.words import mjcf

from ..text import numbers
from .joints import solver_attributes
from .numbers import text_or_none
from .writing import Writing

_DEFAULT_FRICTION = (1.0, 0.005, 0.0001)
"""MuJoCo's sliding, torsional and rolling friction."""


def surface_attributes(writing: Writing, owner: Node, surface: PhysicsMaterial | None) -> dict[str, str | None]:
    """The attributes of a geom with that surface; `owner` is whom a loss is reported of."""
    if surface is None:
        return {}
    friction = _friction(surface)
    condim = surface.contact_dimension
    given: dict[str, str | None] = {
        "condim": None if condim is None or condim == 3 else str(condim),
        "friction": None if friction == _DEFAULT_FRICTION else numbers(friction),
        "priority": str(surface.priority) if surface.priority else None,
        "solmix": text_or_none(surface.solmix, 1.0),
        **solver_attributes(surface.solver, margin=True),
        "gap": text_or_none(surface.gap),
    }
    report_surface(writing, owner, surface)
    if surface.dynamic_friction2 not in (None, friction[0]):
        how = "a geom of MuJoCo's has one sliding friction for all directions; that of the first is written"
        writing.approximate(owner, "friction in the second direction", how)
    return given


def pair_attributes(writing: Writing, owner: Node, surface: PhysicsMaterial | None) -> dict[str, str | None]:
    """The attributes of a contact pair with that surface."""
    if surface is None:
        return {}
    sliding, torsional, rolling = _friction(surface)
    second = sliding if surface.dynamic_friction2 is None else surface.dynamic_friction2
    friction = writing.take(surface, mjcf.FRICTION) or (sliding, second, torsional, rolling, rolling)
    one_each = (sliding, sliding, torsional, rolling, rolling)
    solref = writing.take(surface, mjcf.SOLREFFRICTION)
    condim = surface.contact_dimension
    report_surface(writing, owner, surface)
    return {
        "condim": None if condim is None else str(condim),
        "friction": numbers((sliding, sliding, torsional) if tuple(friction) == one_each and not rolling else friction),
        **_always(surface),
        "solreffriction": None if not solref else numbers(solref),
        "gap": text_or_none(surface.gap),
        "adhesion": text_or_none(writing.take(surface, mjcf.ADHESION, 0.0)),
    }


def _always(surface: PhysicsMaterial) -> dict[str, str | None]:
    """A pair that does not say these would have them from its geoms."""
    solver = surface.solver
    return {
        "solref": numbers(solver.solref or (0.02, 1.0)),
        "solimp": numbers(solver.solimp or (0.9, 0.95, 0.001, 0.5, 2.0)),
        "margin": numbers([solver.margin]),
    }


def _friction(surface: PhysicsMaterial) -> tuple[float, float, float]:
    sliding = surface.dynamic_friction if surface.dynamic_friction is not None else surface.static_friction
    given = (sliding, surface.torsional_friction, surface.rolling_friction)
    first, second, third = (d if g is None else g for g, d in zip(given, _DEFAULT_FRICTION, strict=True))
    return first, second, third


def report_surface(writing: Writing, owner: Node, surface: PhysicsMaterial) -> None:
    """What MuJoCo has no word for."""
    static, dynamic = surface.static_friction, surface.dynamic_friction
    if static is not None and dynamic is not None and static != dynamic:
        writing.approximate(owner, "static friction", f"MuJoCo has one for rest and motion; {dynamic:g} is written")
    if surface.restitution:
        writing.drop(owner, "restitution", "MuJoCo's contacts bounce by 'solref' only, which is not made from it")
    if surface.contact_stiffness is not None or surface.contact_damping is not None:
        how = "MuJoCo's contacts are soft by 'solref', in units of acceleration"
        writing.drop(owner, "contact stiffness and damping", how)
    if surface.name and not surface.name_is_generated:
        writing.drop(owner, f"the name of its surface, {surface.name!r}", "MuJoCo's surfaces have none")
