"""The simulation settings that `Assembly.options` may hold, under MuJoCo's names, and what counts without them."""

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
"""What MuJoCo takes where a file says nothing. `disableactuator` (a bit for each group of actuators) is 0."""

_ON = (
    *("constraint", "equality", "frictionloss", "limit", "contact", "spring", "damper", "gravity", "clampctrl"),
    *("warmstart", "filterparent", "actuation", "refsafe", "sensor", "midphase", "eulerdamp", "autoreset"),
    *("nativeccd", "island", "multiccd"),
)
_OFF = ("override", "energy", "fwdinv", "invdiscrete", "sleep", "diagexact", "ipc", "speculative")
FLAG_DEFAULTS: dict[str, bool] = {**dict.fromkeys(_ON, True), **dict.fromkeys(_OFF, False)}
"""The switches in `options["flags"]`, by their names in MJCF, and whether they are on where a file says nothing."""


def is_switched_on(options: dict[str, Any], name: str) -> bool:
    """Whether one of the switches is on."""
    return bool(options.get("flags", {}).get(name, FLAG_DEFAULTS[name]))
