"""Settings fixed before a step program is traced: integrator, constraint solver, broad phase and inputs."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from kinema.core import KinemaError


class Integrator(enum.StrEnum):
    """Time integration method."""

    EULER = "euler"
    """Semi-implicit Euler, implicit in joint damping and in control with default gains."""
    IMPLICITFAST = "implicitfast"
    """Implicit in velocity for damping and velocity feedback of actuators, with one symmetric factorisation."""
    IMPLICIT = "implicit"
    """Implicit in velocity for all smooth forces, Coriolis and centrifugal ones included, with an LU factorisation."""
    RK4 = "rk4"
    """Fourth-order Runge-Kutta."""

    @property
    def is_implicit_in_velocity(self) -> bool:
        """Whether a step contains the velocity derivatives of all damping, actuator and fluid forces."""
        return self in (Integrator.IMPLICITFAST, Integrator.IMPLICIT)


class Solver(enum.StrEnum):
    """Constraint solver; all minimise the same cost and converge to the same forces."""

    NEWTON = "newton"
    """Newton's method with the exact Hessian: few iterations, each with a factorisation."""
    CG = "cg"
    """Conjugate gradients preconditioned by the mass matrix: more iterations, without new factorisations."""


class BroadPhase(enum.StrEnum):
    """Method by which distant geom pairs are skipped; contacts are the same for all."""

    AUTO = "auto"
    """CELLS for models with rules of collision, LIST for many pairs, else ALL."""
    ALL = "all"
    """Every pair is tested individually."""
    LIST = "list"
    """A list of candidate pairs from axis-aligned bounding boxes; on a CPU, and only if geoms do not differ between
    environments."""
    CELLS = "cells"
    """Candidate pairs from a grid, and rules of collision instead of a table of geom pairs; same as LIST for models
    with a table."""


class ControlMode(enum.IntEnum):
    """Meaning of the command of a degree of freedom."""

    FORCE = 0
    VELOCITY = 1
    POSITION = 2
    ACTUATOR = 3
    """No command: the dof is driven by the actuators of the description."""


class InputMode(enum.Enum):
    """Inputs that a step reads; fewer inputs make a faster step."""

    ACTUATORS = "actuators"
    """Actuator controls only."""
    COMMANDS = "commands"
    """Actuator controls and joint commands; control modes are encoded in the gains, which can change at any time."""
    MIXED = "mixed"
    """Actuator controls and joint commands, with control modes and enabled actuators that differ between
    environments."""


PER_ENV_PARAMETERS = (
    *("gravity", "mass_shift", "com_shift", "kp", "kv", "armature", "damping"),
    *("wind", "density", "viscosity"),
    *("limit", "frictionloss", "equality", "sol_params"),
    *("geom_friction", "geom_sol_params", "geom_size", "surface_velocity", "variants"),
)
"""Parameters that may differ between environments if declared before building."""


CODEGEN_MODES = ("auto", "loops", "unrolled")
"""Forms of a step program: chosen by model, loops over tables, or unrolled straight-line code."""
RK4_STAGES = 4
"""Runs of the program per Runge-Kutta step."""
MAX_FACTORIZED_TREES, MAX_WARP_TREES = 64, 256
"""Largest number of trees whose constraints a warp of a GPU solves by a block-sparse factorisation, whose elimination
ordering has bit masks, and by conjugate gradients."""
MAX_ENVS_OF_MANY_TREES = 1024
"""Number of environments up to which a warp solves more trees than are factorised: for more, a thread each is faster
(100 boxes in a bin on an H200: 256 environments 3.0 instead of 6.3 ms per step, 1,024: 8.1 and 10.2, 4,096: 24, 11)."""
SINGLE_PRECISION_THRESHOLD = 1e-7
"""A solver tolerance above this value indicates single precision."""
LINE_SEARCH_TRIALS_SINGLE, LINE_SEARCH_TRIALS_DOUBLE = 20, 40
"""Maximum line search evaluations per solver iteration. Stiff friction cones need many bisections; rounding ends the
search earlier in single precision."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Settings that a step program is traced for."""

    dt: float = 0.002
    """Initial time step [s]; the program reads it as an input."""
    integrator: Integrator = Integrator.IMPLICITFAST
    input_mode: InputMode = InputMode.COMMANDS
    per_env: frozenset[str] = frozenset()
    """The `PER_ENV_PARAMETERS` that differ between environments."""
    limits: bool = False
    """Whether joint limits are enforced."""
    constraints: bool = False
    """Whether dry friction, equality constraints and couplings are enabled."""
    contacts: bool = False
    """Whether contacts are enabled."""
    broad_phase: BroadPhase = BroadPhase.AUTO
    """Method of the broad phase."""
    solver: Solver = Solver.NEWTON
    """Constraint solver."""
    iterations: int = 30
    """Maximum number of solver iterations."""
    ls_iterations: int | None = None
    """Maximum number of line search evaluations per iteration; None for a default by precision."""
    tolerance: float = 1e-11
    """Convergence tolerance: norm of the cost gradient relative to the forces."""
    noslip_iterations: int = 0
    """Maximum number of no-slip iterations after the solver; 0 for none."""
    islands: bool = False
    """Whether the constraints of each island (trees connected by contacts or constraints) are solved separately; on a
    CPU."""
    sleep_tolerance: float = 0.0
    """Speed [m/s] below which an island falls asleep after some time; 0 disables sleeping."""
    energy_limiter: bool = False
    """Whether the kinetic energy of steps with too fast motion is limited."""
    freeze_on_error: bool = False
    """Whether an environment keeps its last valid state once the next state would not be finite."""
    presence: bool = False
    """Whether trees can be absent in some environments: removed from the simulation, until they are placed again."""
    reserved: tuple[int, ...] = ()
    """Entities that are absent initially, with `presence`."""
    external_forces: bool = False
    """Whether user-applied forces on links and joints are inputs."""
    per_env_parameters: bool = False
    """Whether the parameters in `DerivedConstants.per_env_parameters` are read from an array."""
    stores_solution: bool = False
    """Whether the constraint accelerations found by the solver are stored in the array `warm_start`, as they always are
    with contacts."""
    differentiable: bool = False
    """Whether the program is traced to be differentiated: with the solution of the constraint solver in the array
    `warm_start`, and solutions of linear systems that carry the derivative of the implicit function theorem."""
    contact_smoothing: float = 0.0
    """Distance [m] over which contacts begin gradually in a program to be differentiated; 0 for as in the step."""
    always_solve: bool = False
    """Whether a program to be differentiated has code for steps with active constraints only: it needs no branch, which
    threads of a GPU could not share."""
    uses_superwords: bool = False
    """Whether the program is scalar code of a CPU that packs the components of free bodies into SIMD vectors."""
    n_partitions: int = 1
    """Number of threads that share an environment."""
    use_warps: bool = False
    """Whether a warp per environment detects contacts and solves constraints."""

    @property
    def is_single_precision(self) -> bool:
        """Whether the program runs in single precision, as indicated by the solver tolerance."""
        return self.tolerance > SINGLE_PRECISION_THRESHOLD

    @property
    def line_search_trials(self) -> int:
        """Maximum number of line search evaluations per solver iteration."""
        return self.ls_iterations or (
            LINE_SEARCH_TRIALS_SINGLE if self.is_single_precision else LINE_SEARCH_TRIALS_DOUBLE
        )

    def __post_init__(self) -> None:
        unknown = sorted(self.per_env - set(PER_ENV_PARAMETERS))
        if unknown:
            raise KinemaError(
                f"{unknown[0]!r} cannot differ between environments; these can: {', '.join(PER_ENV_PARAMETERS)}"
            )
        if self.islands and (feature := unsupported_with_islands(self.solver, self.noslip_iterations, self.integrator)):
            raise KinemaError(f"islands are solved separately, and put to sleep, only without {feature}")


def unsupported_with_islands(solver: Solver, noslip_iterations: int, integrator: Integrator) -> str:
    """The setting that prevents a separate solution of islands, as text for a message; empty if none does."""
    if solver is not Solver.NEWTON:
        return f"the solver {solver.value}"
    if integrator is Integrator.RK4:
        return f"the integrator {integrator.value}"
    return "noslip iterations" if noslip_iterations else ""
