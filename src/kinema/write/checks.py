"""What is refused before a file is written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from kinema.foundation import WriteError


def finite(value: float, owner: str, what: str, format: str) -> float:
    """The value, or a `WriteError` that names its owner: no reader of the format accepts NaN or infinity."""
    if not math.isfinite(value):
        raise WriteError(f"{owner}: its {what} is {value}, which {format} cannot say")
    return float(value)


def check_choices(options: object, allowed: Mapping[str, Sequence[str]], file: Path) -> None:
    """A `WriteError` that lists what is allowed where an option is not."""
    for name, values in allowed.items():
        given = getattr(options, name)
        if given not in values:
            known = ", ".join(repr(v) for v in values)
            raise WriteError(f"{file}: the option {name!r} is {given!r}; it can be {known}")
