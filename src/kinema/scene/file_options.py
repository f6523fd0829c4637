"""Simulation settings of files that the scene decides itself, or that nothing follows: said among the diagnostics.

What the arrays of a model can say, `kinema.compile` has done: gravity, springs, dampers, limits, friction, controls.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kinema.compile import Part, all_options
from kinema.description import FLAG_DEFAULTS, OPTION_DEFAULTS, is_switched_on
from kinema.foundation import Diagnostics

from .bases import report_bases

OF_CONSTRAINTS = (
    *("jacobian", "ls_tolerance", "noslip_tolerance"),
    *("ccd_iterations", "ccd_tolerance", "sdf_iterations", "sdf_initpoints"),
)
"""How contacts are found and constraints solved."""
OVERRIDES = ("o_margin", "o_solref", "o_solimp", "o_friction")
"""Of all contacts, where the flag `override` is on."""
FLAGS_OF_CONSTRAINTS = (
    *("warmstart", "filterparent", "midphase", "nativeccd", "island"),
    *("override", "diagexact", "ipc", "speculative"),
)
WITHOUT_MOTION = ("magnetic", "energy", "fwdinv", "invdiscrete", "sensor", "autoreset")
"""What changes only what is measured, or what becomes of a simulation that has failed."""


def report_options(part: Part, diagnostics: Diagnostics, *, dt: float, integrator: str) -> None:
    """Say which settings of a file the scene does not follow, and what it takes for granted that no file says.

    Args:
        part: what was added.
        diagnostics: where to say it.
        dt: the time of one step of the scene [s].
        integrator: the scene's.
    """
    report_bases(part, diagnostics)
    options, origin = all_options(part.description), part.description.origin
    step = options.get("timestep")
    if isinstance(step, float) and not math.isclose(step, dt, rel_tol=1e-6):
        message = f'the file of "{part.name}" steps by {step:g} s, the scene by {dt:g} s'
        diagnostics.note("scene.timestep", message, hint=f"Scene(dt={step:g}) to step as the file", origin=origin)
    asked = str(options.get("integrator", integrator)).lower()
    if asked != integrator:
        message = f'the file of "{part.name}" asks for the integrator {asked}, the scene uses {integrator}'
        known = asked in ("euler", "implicitfast", "rk4")
        hint = f'Scene(integrator="{asked}") to step as the file' if known else "which is the nearest that there is"
        diagnostics.note("scene.integrator", message, hint=hint, origin=origin)
    concerned = [n for n in OF_CONSTRAINTS if n in options and not _is_default(n, options[n])]
    if is_switched_on(options, "override"):
        concerned += [n for n in OVERRIDES if n in options and not _is_default(n, options[n])]
    flags = [n for n in FLAGS_OF_CONSTRAINTS if is_switched_on(options, n) != FLAG_DEFAULTS[n]]
    if concerned or flags:
        listed = ", ".join(filter(None, [_shown(options, concerned), *(f"the flag {n}" for n in flags)]))
        message = f"{listed}: the scene finds and solves contacts and constraints in its own way"
        diagnostics.note("sim.solver-options", message, origin=origin)


def _is_default(name: str, value: Any) -> bool:
    default = OPTION_DEFAULTS[name]
    if isinstance(default, str):
        return str(value).lower() == default
    return bool(np.array_equal(value, default))


def _shown(options: dict[str, Any], names: list[str]) -> str:
    return ", ".join(f"{name} {_text(options[name])}" for name in names)


def _text(value: Any) -> str:
    return " ".join(f"{v:g}" for v in value) if isinstance(value, tuple | list) else str(value)
