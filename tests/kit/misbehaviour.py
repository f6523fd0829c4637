"""A task that does not end well, for those who have others do their work: processes must be able to import it."""

from __future__ import annotations

import os
import time


def misbehave(how: str) -> str:
    """Crash, hang or raise; anything else is given back."""
    if how == "crash":
        os._exit(3)
    if how == "hang":
        time.sleep(600)
    if how == "raise":
        raise ValueError("no")
    return how
