"""Validation of numbers and options before writing, and the `base` option (fixed, free or unspecified robot base).

A file states the base of a robot as the description does. If the description leaves it unspecified, so does the file,
by a note that only Kinema reads; the loss report then states what the target format assumes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from kinema.core import WriteError
from kinema.description import Base, Robot, World, with_base

# ---------------------------------------------------------------------------------------------------------- base option

BASE_OPTIONS = ("auto", "fixed", "free", "unspecified", "world")
"""Values of the `base` option of `kinema.write`."""
BASE_LOSS = "what holds its base"


def with_base_option(description: Robot | World, base: str) -> Robot | World:
    """The description with the base selected by the `base` option; unchanged for `auto` and `world`."""
    if base not in BASE_OPTIONS:
        raise WriteError(f"base is {base!r}; it can be {', '.join(map(repr, BASE_OPTIONS))}")
    return description if base in ("auto", "world") else with_base(description, Base(base))


def unspecified_base_text(assumption: str) -> str:
    """Report text for an unspecified base, with the assumption of the target format."""
    return f"its file does not say; {assumption}; base= (--base fixed or free) decides"


# --------------------------------------------------------------------------------------------------------------- checks


def require_finite(value: float, owner: str, quantity: str, format: str) -> float:
    """The value as float; raises a `WriteError` naming the owner if it is NaN or infinite, which no reader accepts."""
    if not math.isfinite(value):
        raise WriteError(f"{owner}: its {quantity} is {value}, which {format} cannot say")
    return float(value)


def check_option_values(options: object, allowed: Mapping[str, Sequence[str]], file: Path) -> None:
    """Raise a `WriteError` that lists the allowed values if an option has a value that is not allowed."""
    for name, values in allowed.items():
        given = getattr(options, name)
        if given not in values:
            known = ", ".join(repr(v) for v in values)
            raise WriteError(f"{file}: the option {name!r} is {given!r}; it can be {known}")
