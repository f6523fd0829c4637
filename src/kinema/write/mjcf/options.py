"""Gravity and simulation settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kinema.description import FLAG_DEFAULTS, OPTION_DEFAULTS
from kinema.words import mjcf

from ..text import Element, number, numbers
from .collisions import parents_collide
from .writing import Writing

_EARTH = (0.0, 0.0, -9.81)
_WORDS = {
    "integrator": {"euler": "Euler", "rk4": "RK4"},
    "jacobian": {},
    "cone": {},
    "solver": {"pgs": "PGS", "cg": "CG", "newton": "Newton"},
}


def write_options(writing: Writing) -> None:
    """The `<option>` element, if there is anything to say."""
    element = writing.section(mjcf.OPTION)
    whole = writing.described
    table = whole.options
    flags: Mapping[str, bool] = writing.take_from(table, mjcf.FLAGS, {})
    for name, default in OPTION_DEFAULTS.items():
        if name in table:
            value = writing.take_from(table, name)
            if name in _WORDS:
                value = str(value).lower()
            if value != default:
                element.set({name: _text(name, value)})
    if whole.gravity is not None and not (flags.get("gravity") is False and not whole.gravity.any()):
        gravity = np.asarray(whole.gravity, dtype=np.float64)
        if tuple(gravity.tolist()) != _EARTH:
            element.set({"gravity": numbers(gravity.tolist())})
    _disabled_groups(writing, table, element)
    _flags(writing, flags, element)
    for name in writing.left_over(table):
        writing.drop(("option", name), f"the option {name!r}", "MuJoCo has none of that name")
    for robot in writing.robots:
        if robot is not whole and (robot.options or robot.gravity is not None):
            writing.drop(robot, "its gravity and options", "MuJoCo has one set for all; the world's are written")


def _text(name: str, value: Any) -> str:
    if name in _WORDS:
        return _WORDS[name].get(value, value)
    if isinstance(value, tuple | list):
        return numbers(value)
    return str(value) if isinstance(value, int) else number(float(value))


def _disabled_groups(writing: Writing, table: Mapping[str, Any], element: Element) -> None:
    bits = int(writing.take_from(table, mjcf.DISABLEACTUATOR, 0))
    if bits:
        element.set({"actuatorgroupdisable": " ".join(str(i) for i in range(31) if bits >> i & 1)})


def _flags(writing: Writing, flags: Mapping[str, bool], element: Element) -> None:
    given = dict(flags)
    given["filterparent"] = not parents_collide(writing)
    changed = {name: on for name, on in given.items() if on != FLAG_DEFAULTS.get(name, True)}
    if changed:
        flag = element.child("flag")
        flag.set({name: "enable" if on else "disable" for name, on in changed.items()})
