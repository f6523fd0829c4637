"""How many cores a process is to use, if anybody has said."""

from __future__ import annotations

import os

from .diagnostics import KinemaError

THREADS_VARIABLE = "KINEMA_THREADS"


def threads_asked() -> int | None:
    """As many as `KINEMA_THREADS` says; None where it says nothing."""
    said = os.environ.get(THREADS_VARIABLE, "")
    if not said:
        return None
    if not said.isdecimal() or int(said) < 1:
        raise KinemaError(f"{THREADS_VARIABLE}: expected a whole number of at least 1, not {said!r}")
    return int(said)
