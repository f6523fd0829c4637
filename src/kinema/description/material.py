"""What surfaces look like and how they touch."""

from __future__ import annotations

from dataclasses import dataclass

from kinema.shapes import Look

from .node import Node


@dataclass(kw_only=True, slots=True, eq=False)
class VisualMaterial(Node, Look):
    """The look of a surface, as a part of a description."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SolverParameters:
    """MuJoCo's soft-constraint parameters; None where the file leaves the default."""

    solref: tuple[float, float] | None = None
    """Time constant [s] and damping ratio, or negative stiffness and damping."""
    solimp: tuple[float, float, float, float, float] | None = None
    """Impedance: dmin, dmax, width [m or rad], midpoint, power."""
    margin: float = 0.0
    """Distance [m or rad] at which the constraint becomes active."""


DEFAULT_SOLVER = SolverParameters()


@dataclass(kw_only=True, slots=True, eq=False)
class PhysicsMaterial(Node):
    """How a surface touches others; None where the file says nothing."""

    static_friction: float | None = None
    dynamic_friction: float | None = None
    dynamic_friction2: float | None = None
    """Friction in the second direction, where it differs (SDFormat `mu2`)."""
    torsional_friction: float | None = None
    """Torsional friction coefficient, as a length [m]."""
    rolling_friction: float | None = None
    """Rolling friction coefficient, as a length [m]."""
    restitution: float | None = None
    density: float | None = None
    """Density [kg/m3]."""
    contact_stiffness: float | None = None
    """Contact stiffness [N/m]."""
    contact_damping: float | None = None
    """Contact damping [N s/m]."""
    contact_dimension: int | None = None
    """MuJoCo's condim: 1 frictionless, 3 sliding, 4 torsional, 6 rolling."""
    gap: float = 0.0
    """How far beyond the solver's margin contacts are found without making a force [m]."""
    priority: int = 0
    """Where two surfaces differ, the one with the higher priority decides."""
    solmix: float = 1.0
    solver: SolverParameters = DEFAULT_SOLVER
