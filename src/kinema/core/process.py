"""Process-wide settings: requested thread count, pausing and running of the garbage collector."""

from __future__ import annotations

import gc
import os
import weakref
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


class CyclicObjects:
    """Registry of large objects in reference cycles, which are collected when their number has doubled.

    The cyclic garbage collector of Python alone runs rarely, as `pause_garbage_collection` moves objects to its oldest
    generation, and knows nothing of the size of arrays: memory of dropped objects would add up.
    """

    def __init__(self, max_dropped: int) -> None:
        """`max_dropped`: largest number of dropped objects that are kept beside as many as are in use."""
        self.max_dropped = max_dropped
        self._objects: weakref.WeakSet[object] = weakref.WeakSet()
        self._n_kept = 0
        """Number of objects after the last collection."""

    def __len__(self) -> int:
        """Number of objects that are not freed."""
        return len(self._objects)

    def register(self, new: object) -> None:
        """Add an object, after a collection if there are too many."""
        if len(self) >= 2 * self._n_kept + self.max_dropped:
            gc.collect()
            self._n_kept = len(self)
        self._objects.add(new)
