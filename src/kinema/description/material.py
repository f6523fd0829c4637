"""Visual materials, contact materials and MuJoCo soft-constraint parameters (solref, solimp)."""

from __future__ import annotations

from dataclasses import dataclass

from kinema.geometry import PbrMaterial

from .node import Node


@dataclass(kw_only=True, slots=True, eq=False)
class VisualMaterial(Node, PbrMaterial):
    """Visual material of a shape: a physically based material as an element of a description."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SolverParameters:
    """MuJoCo's soft-constraint parameters; None for the default."""

    solref: tuple[float, float] | None = None
    """Time constant [s] and damping ratio, or negative stiffness and damping."""
    solimp: tuple[float, float, float, float, float] | None = None
    """Impedance: dmin, dmax, width [m or rad], midpoint, power."""
    margin: float = 0.0
    """Distance [m or rad] at which the constraint becomes active."""


DEFAULT_SOLVER = SolverParameters()


@dataclass(kw_only=True, slots=True, eq=False)
class PhysicsMaterial(Node):
    """Contact material of a surface; None if the file gives no value."""

    static_friction: float | None = None
    dynamic_friction: float | None = None
    dynamic_friction2: float | None = None
    """Friction coefficient in the second tangential direction, if it differs (SDFormat `mu2`)."""
    torsional_friction: float | None = None
    """Torsional friction coefficient, as a length [m]."""
    rolling_friction: float | None = None
    """Rolling friction coefficient, as a length [m]."""
    restitution: float | None = None
    """Coefficient of restitution, 0 to 1."""
    density: float | None = None
    """Density [kg/m3]."""
    contact_stiffness: float | None = None
    """Contact stiffness [N/m]."""
    contact_damping: float | None = None
    """Contact damping [N s/m]."""
    contact_dimension: int | None = None
    """MuJoCo's condim: 1 frictionless, 3 sliding, 4 torsional, 6 rolling."""
    gap: float = 0.0
    """Distance beyond the solver's margin within which contacts are detected without force [m]."""
    priority: int = 0
    """Of two surfaces with different priorities, the parameters of the higher one are used."""
    solmix: float = 1.0
    """Weight of the parameters when those of two surfaces are averaged."""
    solver: SolverParameters = DEFAULT_SOLVER
