"""Validation of numbers and options before writing, and the `base` option (fixed, free or unspecified robot base).

A file states the base of a robot as the description does. If the description leaves it unspecified, so does the file,
by a note that only Kinema reads; the loss report then states what the target format assumes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from kinema.core import WriteError
from kinema.description import Base, Robot, World, with_base
from kinema.tokens import WriteOptions

# ---------------------------------------------------------------------------------------------------------- base option

BASE_LOSS = "what holds its base"


def with_base_option(description: Robot | World, base: str) -> Robot | World:
    """The description with the base selected by the `base` option; unchanged for `auto` and `world`."""
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


def check_options(options: WriteOptions, file: Path, versions: Sequence[str] = ()) -> None:
    """Raise a `WriteError` that lists the allowed values if an option has a value that is not allowed.

    `versions` are those of the format, if it has several.
    """
    allowed = {f.name: f.metadata["choices"] for f in fields(options) if "choices" in f.metadata}
    if versions:
        allowed["version"] = ("", *versions)
    for name, values in allowed.items():
        given = getattr(options, name)
        if given not in values:
            known = ", ".join(repr(v) for v in values if v)
            raise WriteError(f"{file}: the option {name!r} is {given!r}; it can be {known}")
