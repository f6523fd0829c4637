"""MuJoCo, imported when it is first needed."""

from __future__ import annotations

import importlib
import threading
from contextlib import suppress
from typing import Any


def mujoco() -> Any:
    """The module, untyped: its stubs do not know its enumerations."""
    return importlib.import_module("mujoco")


def begin_import() -> None:
    """Import it in another thread: much of that time it waits for a process that asks for the version of GLFW."""

    def work() -> None:
        with suppress(Exception):  # which whoever needs it sees as well
            mujoco()

    threading.Thread(target=work, name="kinema-mujoco", daemon=True).start()
