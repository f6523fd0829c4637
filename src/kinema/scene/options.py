"""Solver and simulation options: arguments of the scene take precedence over options of the files.

Options of files that have no effect, or on which files disagree, are reported in the diagnostics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinema.builder import EntitySpec, Medium, merged_options
from kinema.core import Diagnostics, KinemaError
from kinema.description import FLAG_DEFAULTS, OPTION_DEFAULTS, is_flag_enabled
from kinema.dynamics import BroadPhase, Integrator, Solver, unsupported_with_islands
from kinema.model import ModelOptions
from kinema.tokens import mjcf

from .arguments import boolean, finite_vector, nonnegative_float, one_of, positive_int
from .model_checks import report_unspecified_bases

# -------------------------------------------------------------------------------------------- solver options

FRICTION_CONES = ("pyramidal", "elliptic")
SOLVER_SETTINGS = ("solver", "iterations", "ls_iterations", "tolerance", "noslip_iterations")
"""Solver settings that have the same name in files and in `Scene`."""
DEFAULT_CG_ITERATIONS = 100
"""Maximum number of iterations of the conjugate gradient solver if neither scene nor files set it."""
SUBSTITUTE_SOLVERS = {"pgs": "newton"}
"""Solvers of files that are not available, and the solver used instead, which converges to the same forces."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SolverOptions:
    """Solver options given to `Scene`; None if the files decide."""

    solver: str | None
    """`newton` or `cg`."""
    iterations: int | None
    """Maximum number of solver iterations."""
    ls_iterations: int | None
    """Maximum number of line search iterations."""
    tolerance: float | None
    """Convergence tolerance of the solver."""
    noslip_iterations: int | None
    """Maximum number of iterations of the no-slip solver."""
    cone: str | None
    """Friction cone: `pyramidal` or `elliptic`."""
    impratio: float | None
    """Ratio of frictional to normal constraint impedance."""
    sleep: float | bool | None
    """Whether bodies may sleep, or the velocity tolerance [m/s]."""
    islands: bool | None
    """Whether constraints are solved per island."""
    broad_phase: str | None
    """Value of `BroadPhase`."""
    multiccd: bool | None
    """Whether convex geoms give several contact points."""

    @classmethod
    def from_arguments(cls, **arguments: Any) -> SolverOptions:
        """Validate the keyword arguments of `Scene` (None for unset) and build the options; raises `KinemaError`."""
        checks = {
            "solver": lambda x, label: one_of(str(x).lower(), label, [s.value for s in Solver]),
            "iterations": lambda x, label: positive_int(x, label, "iteration"),
            "ls_iterations": lambda x, label: positive_int(x, label, "iteration"),
            "tolerance": nonnegative_float,
            "noslip_iterations": lambda x, label: (
                0 if x == 0 and x is not False else positive_int(x, label, "iteration, or 0")
            ),
            "cone": lambda x, label: one_of(x, label, FRICTION_CONES),
            "impratio": _positive_float,
            "sleep": lambda x, label: x if isinstance(x, bool) else _positive_float(x, label),
            "islands": boolean,
            "broad_phase": lambda x, label: one_of(x, label, [b.value for b in BroadPhase]),
            "multiccd": boolean,
        }
        return cls(
            **{
                name: None if arguments[name] is None else check(arguments[name], name)
                for name, check in checks.items()
            }
        )

    def resolve(self, specs: Sequence[EntitySpec], diagnostics: Diagnostics, integrator: Integrator) -> dict[str, Any]:
        """Solver fields of `Settings`: values given to the scene take precedence over the files', then defaults.

        Reports in the diagnostics options of files that disagree or are not available.

        Args:
            specs: entities of the scene.
            diagnostics: receives the messages.
            integrator: integrator of the scene; some combinations do not support sleeping.

        Returns:
            Keyword arguments of `Settings`: solver, iterations, ls_iterations, tolerance, noslip_iterations,
                sleep_tolerance, broad_phase, islands.
        """
        settings: dict[str, Any] = {}
        for name in SOLVER_SETTINGS:
            value = getattr(self, name)
            value = _option_from_files(name, specs, diagnostics) if value is None else value
            if value is not None:
                settings[name] = value
        settings["solver"] = Solver(settings.get("solver", Solver.NEWTON))
        if settings["solver"] is Solver.CG:
            settings.setdefault("iterations", DEFAULT_CG_ITERATIONS)
        obstacle = unsupported_with_islands(settings["solver"], settings.get("noslip_iterations", 0), integrator)
        settings["sleep_tolerance"] = self._sleep_tolerance(specs, diagnostics, obstacle)
        settings["broad_phase"] = BroadPhase(self.broad_phase or BroadPhase.AUTO)
        settings["islands"] = bool(self.islands or settings["sleep_tolerance"])
        return settings

    def _sleep_tolerance(self, specs: Sequence[EntitySpec], diagnostics: Diagnostics, obstacle: str) -> float:
        """Velocity tolerance below which bodies fall asleep [m/s]; 0 if sleeping is disabled.

        Args:
            specs: entities of the scene; their files may enable sleeping and set the tolerance.
            diagnostics: receives a warning if a file enables sleeping but `obstacle` prevents it.
            obstacle: setting that is incompatible with sleeping; empty if there is none.
        """
        if self.sleep is False or isinstance(self.sleep, float):
            return float(self.sleep)
        enabling = [spec for spec in specs if is_flag_enabled(merged_options(spec.description), "sleep")]
        if self.sleep is None and not enabling:
            return 0.0
        if self.sleep is None and obstacle:
            message = f'sleeping is not supported with {obstacle}, although the file of "{enabling[0].name}" enables it'
            diagnostics.warning("sim.sleep", message, origin=enabling[0].description.origin)
            return 0.0
        tolerance = _option_from_files("sleep_tolerance", specs, diagnostics)
        return float(OPTION_DEFAULTS["sleep_tolerance"] if tolerance is None else tolerance)  # type: ignore[arg-type]

    def apply_to(self, options: ModelOptions) -> ModelOptions:
        """Model options of the files with friction cone, impratio and multiccd of the scene applied."""
        elliptic = options.elliptic if self.cone is None else self.cone == "elliptic"
        multiccd = options.multiccd if self.multiccd is None else self.multiccd
        return replace(options, elliptic=elliptic, impratio=self.impratio or options.impratio, multiccd=multiccd)


def _option_from_files(name: str, specs: Sequence[EntitySpec], diagnostics: Diagnostics) -> Any:
    """Value of an option from the first file that sets it to something else than MuJoCo's default.

    None if no file does. Reports files that disagree with the first one, and solvers that are replaced by another one
    (`SUBSTITUTE_SOLVERS`).
    """
    result = None
    for spec in specs:
        value = merged_options(spec.description).get(name)
        value = value.lower() if isinstance(value, str) else value
        if value is None or value == OPTION_DEFAULTS[name] or not _is_valid_option(name, value):
            continue
        if value in SUBSTITUTE_SOLVERS:
            message = (
                f'the file of "{spec.name}" uses the solver {value}: '
                f"{SUBSTITUTE_SOLVERS[value]} is used, which converges to the same forces"
            )
            diagnostics.note("sim.solver-options", message, origin=spec.description.origin)
            value = SUBSTITUTE_SOLVERS[value]
        if result is None:
            result = value
        elif value != result:
            message = f'{name} is {result} for all entities, but the file of "{spec.name}" sets {value}'
            hint = f"Scene({name}=...) to choose"
            diagnostics.warning("sim.options-differ", message, hint=hint, origin=spec.description.origin)
    return result


def _is_valid_option(name: str, value: Any) -> bool:
    """Whether a solver accepts the value: iteration counts must be positive."""
    return value > 0 if name in ("iterations", "ls_iterations") else True


def _positive_float(value: Any, label: str) -> float:
    """Validate a finite number > 0 and return it as float."""
    number = nonnegative_float(value, label)
    if number == 0.0:
        raise KinemaError(f"{label}: expected a number above zero, not {value!r}")
    return number


# ---------------------------------------------------------------------------------- time step and integrator

DEFAULT_DT, DEFAULT_INTEGRATOR = 0.002, Integrator.IMPLICITFAST


@dataclass(frozen=True, slots=True)
class TimeStepping:
    """Time step [s] and integrator of a scene, and the names of the entities whose MJCF files they are adopted from."""

    dt: float
    integrator: Integrator
    dt_source: str = ""
    integrator_source: str = ""

    def describe_sources(self) -> str:
        """Entities whose files give the time step or integrator, as text for a summary; empty if none do."""
        if self.dt_source and self.dt_source == self.integrator_source:
            return f'both as in the file of "{self.dt_source}"'
        sources = (("time step", self.dt_source), ("integrator", self.integrator_source))
        return ", ".join(f'{what} as in the file of "{name}"' for what, name in sources if name)


def resolve_time_stepping(dt: float | None, integrator: Integrator | None, specs: Sequence[EntitySpec]) -> TimeStepping:
    """Time step and integrator: chosen by the user, else given by the MJCF files, else the defaults.

    Raises `KinemaError` if files give different values for one that the user has not chosen.
    """
    file_dt, dt_source = (None, "") if dt is not None else _mjcf_option("timestep", "dt", specs)
    file_integrator, integrator_source = (
        (None, "") if integrator is not None else _mjcf_option("integrator", "integrator", specs)
    )
    return TimeStepping(
        dt or file_dt or DEFAULT_DT,
        integrator or (DEFAULT_INTEGRATOR if file_integrator is None else Integrator(file_integrator)),
        dt_source,
        integrator_source,
    )


def _mjcf_option(name: str, argument: str, specs: Sequence[EntitySpec]) -> tuple[Any, str]:
    """Value of an option that MJCF files give, and the name of the first entity with it; (None, "") for none."""
    given = [
        (value.lower() if isinstance(value, str) else value, spec.name)
        for spec in specs
        if spec.description.format == mjcf.FORMAT and (value := merged_options(spec.description).get(name)) is not None
    ]
    for value, source in given[1:]:
        if value != given[0][0]:
            message = f'the files of "{given[0][1]}" and "{source}" differ in {name}, {given[0][0]} and {value}'
            raise KinemaError(f"{message}: choose one by Scene({argument}=...)")
    return given[0] if given else (None, "")


# ------------------------------------------------------------------------------- options of files without effect

UNUSED_SOLVER_OPTIONS = (
    *("jacobian", "ls_tolerance", "noslip_tolerance"),
    *("ccd_iterations", "ccd_tolerance", "sdf_iterations", "sdf_initpoints"),
)
"""Options of collision detection and of the constraint solver that have no effect."""
CONTACT_OVERRIDE_OPTIONS = ("o_margin", "o_solref", "o_solimp", "o_friction")
"""Contact parameters for all contacts if the flag `override` is enabled; not supported."""
UNUSED_CONSTRAINT_FLAGS = (
    *("warmstart", "filterparent", "midphase", "nativeccd", "island"),
    *("override", "diagexact", "ipc"),
)
"""Flags of collision detection and of the constraint solver that have no effect."""
FLAGS_WITHOUT_EFFECT_ON_MOTION = ("magnetic", "energy", "fwdinv", "invdiscrete", "sensor", "autoreset")
"""Flags that only change measurements or the handling of failed simulations; not reported."""


def report_unused_options(
    spec: EntitySpec, diagnostics: Diagnostics, *, dt: float, substep: float, integrator: str
) -> None:
    """Report options of a file that the scene does not follow, and robots whose base is fixed by default.

    Options: time step, integrator, options and flags of collision detection and of the constraint solver.

    Args:
        spec: the added entity.
        diagnostics: receives the notes.
        dt: time step of the scene [s].
        substep: time step of the engine [s].
        integrator: integrator of the scene.
    """
    report_unspecified_bases(spec, diagnostics)
    options, origin = merged_options(spec.description), spec.description.origin
    timestep = options.get("timestep")
    if isinstance(timestep, float) and not any(math.isclose(timestep, x, rel_tol=1e-6) for x in (dt, substep)):
        message = f'the file of "{spec.name}" has a time step of {timestep:g} s, the scene of {dt:g} s'
        diagnostics.note(
            "scene.timestep", message, hint=f"use Scene(dt={timestep:g}) for the time step of the file", origin=origin
        )
    file_integrator = str(options.get("integrator", integrator)).lower()
    if file_integrator != integrator:
        message = f'the file of "{spec.name}" uses the integrator {file_integrator}, the scene {integrator}'
        hint = f'use Scene(integrator="{file_integrator}") for that of the file'
        diagnostics.note("scene.integrator", message, hint=hint, origin=origin)
    unused = [n for n in UNUSED_SOLVER_OPTIONS if n in options and not _is_default(n, options[n])]
    if is_flag_enabled(options, "override"):
        unused += [n for n in CONTACT_OVERRIDE_OPTIONS if n in options and not _is_default(n, options[n])]
    flags = [n for n in UNUSED_CONSTRAINT_FLAGS if is_flag_enabled(options, n) != FLAG_DEFAULTS[n]]
    if unused or flags:
        listed = ", ".join(filter(None, [_format_options(options, unused), *(f"the flag {n}" for n in flags)]))
        message = f"{listed}: no effect, the scene uses its own collision detection and constraint solver"
        diagnostics.note("sim.solver-options", message, origin=origin)


def _is_default(name: str, value: Any) -> bool:
    default = OPTION_DEFAULTS[name]
    if isinstance(default, str):
        return str(value).lower() == default
    return bool(np.array_equal(value, default))


def _format_options(options: dict[str, Any], names: list[str]) -> str:
    return ", ".join(f"{name} {_format_value(options[name])}" for name in names)


def _format_value(value: Any) -> str:
    return " ".join(f"{v:g}" for v in value) if isinstance(value, tuple | list) else str(value)


def make_medium(density: Any, viscosity: Any, wind: Any) -> Medium:
    """Validate density [kg/m3], viscosity [Pa s] and wind [m/s] of the medium; None for the values of the files."""
    return Medium(
        density=None if density is None else nonnegative_float(density, "density"),
        viscosity=None if viscosity is None else nonnegative_float(viscosity, "viscosity"),
        wind=None if wind is None else finite_vector(wind, "wind", "three"),
    )
