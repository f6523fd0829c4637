"""Reading and compiling do not look for garbage, and leave what others set as it was."""

from __future__ import annotations

import gc

from kinema.core import pause_garbage_collection


def test_what_others_froze_stays_frozen() -> None:
    gc.freeze()
    with pause_garbage_collection():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0  # not their exact number: frozen objects may still be freed by reference counting
