"""Python's search for garbage, left out where it would find none."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collecting() -> Iterator[None]:
    """Reading and compiling make many objects and drop few: looking for garbage meanwhile takes a tenth or more.

    Where several threads do so at once, the first to end lets it be looked for again.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        # Into the oldest generation at once: they are looked at with all others, and not now because they are many.
        if not gc.get_freeze_count():  # or what others have frozen would be looked at again
            gc.freeze()
            gc.unfreeze()
        gc.enable()
