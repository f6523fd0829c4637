"""What is decided before a program is traced."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from kinema.foundation import KinemaError


class Integrator(enum.StrEnum):
    """How a step goes from one state to the next."""

    EULER = "euler"
    """Semi-implicit; joint damping implicitly."""
    IMPLICIT = "implicitfast"
    """Implicit in velocity: joint damping and the velocity gains of control, in one factorisation."""
    RK4 = "rk4"
    """Runge and Kutta's, of fourth order."""


class Solver(enum.StrEnum):
    """How the forces of constraints are found; all ways end at the same forces."""

    NEWTON = "newton"
    """With the curvature of their cost: few steps, each with a factorisation of its own."""
    CG = "cg"
    """By conjugate gradients: more steps, each with the factors of the inertia alone."""


class Broad(enum.StrEnum):
    """How pairs of shapes are passed over that are far apart; what touches is the same."""

    AUTO = "auto"
    """A list where there are enough pairs for it to pay, by cells where there are very many."""
    ALL = "all"
    """Each pair is looked at by itself."""
    LIST = "list"
    """A list is made first, by boxes along the world's axes; on a CPU, and unless environments have own shapes."""
    CELLS = "cells"
    """Likewise, by a grid of cells that says who is near whom; where environments run side by side, as LIST."""


class Control(enum.IntEnum):
    """What a degree of freedom is told."""

    FORCE = 0
    VELOCITY = 1
    POSITION = 2
    ACTUATOR = 3
    """Nothing: it is moved by the actuators that its file describes."""


class Drive(enum.Enum):
    """What a step listens to: the fewer, the faster."""

    ACTUATORS = "actuators"
    """To the files' actuators alone."""
    COMMANDS = "commands"
    """To commands as well; what they mean is in the gains, which can change at any time."""
    MIXED = "mixed"
    """Likewise, and environments differ in what commands mean, and in which actuators pull."""


PARAMETERS = (
    *("gravity", "mass_shift", "com_shift", "kp", "kv", "armature", "damping"),
    *("wind", "density", "viscosity"),
    *("limit", "frictionloss", "equality", "sol_params"),
    *("geom_friction", "geom_sol_params", "geom_size", "variants"),
)
"""What may differ between environments, if that is asked for before building."""


EMISSIONS = ("auto", "rolled", "unrolled")
"""Forms of a step: as suits the model, loops over tables, or straight lines."""
RUNS = 4
"""Runs of the program that make a Runge-Kutta step."""
COARSE_FROM = 1e-7
"""A solver of a larger tolerance is one of single precision."""
TRIALS_SINGLE, TRIALS_DOUBLE = 20, 40
"""Along a step of the solver. Hard cones bend so sharply that halving has to go far; what is rounded ends it sooner."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What a step program is made for."""

    dt: float = 0.002
    """The time of a step to begin with; it is an input of the program."""
    integrator: Integrator = Integrator.IMPLICIT
    drive: Drive = Drive.COMMANDS
    per_env: frozenset[str] = frozenset()
    """Which of `PARAMETERS` differ between environments."""
    limits: bool = False
    """Whether joints stop at their limits."""
    constraints: bool = False
    """Whether there is dry friction, and what is tied or coupled holds."""
    contacts: bool = False
    """Whether things touch."""
    broad: Broad = Broad.AUTO
    """How pairs of shapes are passed over that are far apart."""
    solver: Solver = Solver.NEWTON
    """How the forces of constraints and contacts are found."""
    iterations: int = 30
    """Steps at most, to the forces of constraints."""
    ls_iterations: int | None = None
    """Trials at most, along each of them; None for as many as the digits are good for."""
    tolerance: float = 1e-11
    """How small the slope of their cost has to be against the forces, where it has no other way to arrive."""
    noslip_iterations: int = 0
    """Steps at most towards friction that holds without slip, after the forces are found; 0 for none."""
    islands: bool = False
    """Whether the forces of each island, trees that touch or are tied, are found by itself; on a CPU."""
    sleep: float = 0.0
    """The speed [m/s] below which an island that stays below it falls asleep; 0 where nothing ever does."""
    calm: bool = False
    """Whether motion that is too fast for the step is held to the energy that there is."""
    freezes: bool = False
    """Whether an environment stays in its last state that was made of numbers, once the next one would not be."""
    external_forces: bool = False
    """Whether forces of the user, on links and joints, are inputs."""
    own: bool = False
    """Whether numbers that the model keeps apart (`Model.own`) are inputs."""
    roles: int = 1
    """How many threads share an environment."""
    team: bool = False
    """Whether a team of threads finds the contacts of an environment and the forces of its constraints."""

    @property
    def is_coarse(self) -> bool:
        """Whether numbers have the digits of single precision: the engine asks for no more of its solver then."""
        return self.tolerance > COARSE_FROM

    @property
    def trials(self) -> int:
        """Along each step of the solver, at most."""
        return self.ls_iterations or (TRIALS_SINGLE if self.is_coarse else TRIALS_DOUBLE)

    def __post_init__(self) -> None:
        unknown = sorted(self.per_env - set(PARAMETERS))
        if unknown:
            raise KinemaError(f"{unknown[0]!r} cannot differ between environments; these can: {', '.join(PARAMETERS)}")
        if self.islands and (obstacle := not_by_island(self.solver, self.noslip_iterations, self.integrator)):
            raise KinemaError(f"islands are solved, and put to sleep, one by one only without {obstacle}")


def not_by_island(solver: Solver, noslip_iterations: int, integrator: Integrator) -> str:
    """What keeps islands from being solved one by one; nothing if nothing does."""
    if solver is not Solver.NEWTON:
        return f"the solver {solver.value}"
    if integrator is Integrator.RK4:
        return f"the integrator {integrator.value}"
    return "noslip iterations" if noslip_iterations else ""
