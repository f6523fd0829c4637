"""How a scene solves its constraints and contacts: as it was asked to, else as its files say, else in our own way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kinema.compile import Part, all_options
from kinema.description import OPTION_DEFAULTS, is_switched_on
from kinema.foundation import Diagnostics, KinemaError
from kinema.model import ModelOptions
from kinema.sim import Broad, Integrator, Solver, not_by_island

from .arguments import amount, choice, flag, whole

CONES = ("pyramidal", "elliptic")
OF_SETTINGS = ("solver", "iterations", "ls_iterations", "tolerance", "noslip_iterations")
"""What files and scenes say of the solver under one name."""
STEPS_OF_CG = 100
"""Conjugate gradients take at most, where nobody says how many."""
INSTEAD = {"pgs": "newton"}
"""Solvers of files that we do not have, and those that end at the same forces."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Solving:
    """What a scene was asked for; None where the files decide."""

    solver: str | None
    iterations: int | None
    ls_iterations: int | None
    tolerance: float | None
    noslip_iterations: int | None
    cone: str | None
    impratio: float | None
    sleep: float | bool | None
    islands: bool | None
    broad_phase: str | None
    multiccd: bool | None

    @classmethod
    def asked(cls, **given: Any) -> Solving:
        """From what the user said, if that can be meant."""
        checks = {
            "solver": lambda x, what: choice(str(x).lower(), what, [s.value for s in Solver]),
            "iterations": lambda x, what: whole(x, what, "iteration"),
            "ls_iterations": lambda x, what: whole(x, what, "trial"),
            "tolerance": amount,
            "noslip_iterations": lambda x, what: 0 if x == 0 and x is not False else whole(x, what, "sweep, or 0"),
            "cone": lambda x, what: choice(x, what, CONES),
            "impratio": _positive,
            "sleep": lambda x, what: x if isinstance(x, bool) else _positive(x, what),
            "islands": flag,
            "broad_phase": lambda x, what: choice(x, what, [b.value for b in Broad]),
            "multiccd": flag,
        }
        return cls(
            **{name: None if given[name] is None else check(given[name], name) for name, check in checks.items()}
        )

    def settings(self, parts: Sequence[Part], diagnostics: Diagnostics, integrator: Integrator) -> dict[str, Any]:
        """Those of the step; what files ask for that cannot be had, or do not agree on, is among the diagnostics."""
        chosen: dict[str, Any] = {}
        for name in OF_SETTINGS:
            given = getattr(self, name)
            given = _said(name, parts, diagnostics) if given is None else given
            if given is not None:
                chosen[name] = given
        chosen["solver"] = Solver(chosen.get("solver", Solver.NEWTON))
        if chosen["solver"] is Solver.CG:
            chosen.setdefault("iterations", STEPS_OF_CG)
        obstacle = not_by_island(chosen["solver"], chosen.get("noslip_iterations", 0), integrator)
        chosen["sleep"] = self._sleep(parts, diagnostics, obstacle)
        chosen["broad"] = Broad(self.broad_phase or Broad.AUTO)
        chosen["islands"] = bool(self.islands or chosen["sleep"])
        return chosen

    def _sleep(self, parts: Sequence[Part], diagnostics: Diagnostics, obstacle: str) -> float:
        """Below which speed things fall asleep [m/s]: as asked, else as the files say; 0 where they do not."""
        if self.sleep is False or isinstance(self.sleep, float):
            return float(self.sleep)
        asking = [part for part in parts if is_switched_on(all_options(part.description), "sleep")]
        if self.sleep is None and not asking:
            return 0.0
        if self.sleep is None and obstacle:
            message = f'nothing falls asleep with {obstacle}, though the file of "{asking[0].name}" switches sleep on'
            diagnostics.warning("sim.sleep", message, origin=asking[0].description.origin)
            return 0.0
        tolerance = _said("sleep_tolerance", parts, diagnostics)
        return float(OPTION_DEFAULTS["sleep_tolerance"] if tolerance is None else tolerance)  # type: ignore[arg-type]

    def over(self, options: ModelOptions) -> ModelOptions:
        """What the files say of friction and points, unless the scene was asked for something else."""
        elliptic = options.elliptic if self.cone is None else self.cone == "elliptic"
        several = options.multiccd if self.multiccd is None else self.multiccd
        return replace(options, elliptic=elliptic, impratio=self.impratio or options.impratio, multiccd=several)


def _said(name: str, parts: Sequence[Part], diagnostics: Diagnostics) -> Any:
    """By the first file that asks for anything but MuJoCo's default; None by none of them."""
    found = None
    for part in parts:
        value = all_options(part.description).get(name)
        value = value.lower() if isinstance(value, str) else value
        if value is None or value == OPTION_DEFAULTS[name] or not _can_be(name, value):
            continue
        if value in INSTEAD:
            message = f'the file of "{part.name}" asks for the solver {value}: {INSTEAD[value]} ends at the same forces'
            diagnostics.note("sim.solver-options", message, origin=part.description.origin)
            value = INSTEAD[value]
        if found is None:
            found = value
        elif value != found:
            message = f'{name} is {found}, as an earlier file says, also for "{part.name}", whose file says {value}'
            hint = f"Scene({name}=...) to choose"
            diagnostics.warning("sim.options-differ", message, hint=hint, origin=part.description.origin)
    return found


def _can_be(name: str, value: Any) -> bool:
    """Whether a solver can do that: none can take no steps."""
    return value > 0 if name in ("iterations", "ls_iterations") else True


def _positive(value: Any, what: str) -> float:
    number = amount(value, what)
    if number == 0.0:
        raise KinemaError(f"{what}: expected a number above zero, not {value!r}")
    return number
