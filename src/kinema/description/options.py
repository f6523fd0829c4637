"""Simulation options and flags under their MuJoCo names, with defaults."""

from __future__ import annotations

from typing import Any

OPTION_DEFAULTS: dict[str, Any] = {
    "timestep": 0.002,
    "integrator": "euler",
    "cone": "pyramidal",
    "jacobian": "auto",
    "solver": "newton",
    "iterations": 100,
    "tolerance": 1e-8,
    "ls_iterations": 50,
    "ls_tolerance": 0.01,
    "noslip_iterations": 0,
    "noslip_tolerance": 1e-6,
    "ccd_iterations": 35,
    "ccd_tolerance": 1e-6,
    "sdf_iterations": 10,
    "sdf_initpoints": 40,
    "sleep_tolerance": 1e-3,
    "impratio": 1.0,
    "wind": (0.0, 0.0, 0.0),
    "magnetic": (0.0, -0.5, 0.0),
    "density": 0.0,
    "viscosity": 0.0,
    "o_margin": 0.0,
    "o_solref": (0.02, 1.0),
    "o_solimp": (0.9, 0.95, 0.001, 0.5, 2.0),
    "o_friction": (1.0, 1.0, 0.005, 0.0001, 0.0001),
}
"""Default values of MuJoCo. The default of `disableactuator` (a bit mask of actuator groups) is 0."""

OPTIONS_WITHOUT_DEFAULT = ("timestep", "integrator")
"""Options that a description has only if its file gives them: a scene adopts them, whatever their values."""

_ENABLED_FLAGS = (
    *("constraint", "equality", "frictionloss", "limit", "contact", "spring", "damper", "gravity", "clampctrl"),
    *("warmstart", "filterparent", "actuation", "refsafe", "sensor", "midphase", "eulerdamp", "autoreset"),
    *("nativeccd", "island", "multiccd"),
)
_DISABLED_FLAGS = ("override", "energy", "fwdinv", "invdiscrete", "sleep", "diagexact", "ipc", "speculative")
FLAG_DEFAULTS: dict[str, bool] = {**dict.fromkeys(_ENABLED_FLAGS, True), **dict.fromkeys(_DISABLED_FLAGS, False)}
"""Default values of the flags in `options["flags"]`, by their MJCF names."""


def is_flag_enabled(options: dict[str, Any], name: str) -> bool:
    """Whether a flag of the options is enabled, by its MJCF name; the default if it is not set."""
    return bool(options.get("flags", {}).get(name, FLAG_DEFAULTS[name]))
