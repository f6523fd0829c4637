"""Process-wide settings: requested thread count and pausing of the garbage collector."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from .diagnostics import KinemaError

THREADS_ENV_VARIABLE = "KINEMA_THREADS"
_frozen_by_others = Event()
"""Set once `gc.freeze` was found to be in use: counting frozen objects takes tens of milliseconds."""


def requested_thread_count() -> int | None:
    """Number of threads requested by `KINEMA_THREADS`; None if unset, KinemaError if it is not a positive integer."""
    value = os.environ.get(THREADS_ENV_VARIABLE, "")
    if not value:
        return None
    if not value.isdecimal() or int(value) < 1:
        raise KinemaError(f"{THREADS_ENV_VARIABLE}: expected a whole number of at least 1, not {value!r}")
    return int(value)


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Context manager or decorator: disable Python's cyclic garbage collector, which saves 10 % or more of build time.

    Reading and compiling create many objects and drop few. On exit, surviving objects are moved to the oldest
    generation, and collection is enabled again; if several threads overlap, by the first to leave.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        # moves all objects to the oldest generation, so that their number does not trigger a collection now
        if _frozen_by_others.is_set() or gc.get_freeze_count():
            _frozen_by_others.set()  # these objects stay frozen
        else:
            gc.freeze()
            gc.unfreeze()
        gc.enable()
