"""MuJoCo, imported when it is first needed."""

from __future__ import annotations

import importlib
from typing import Any


def mujoco() -> Any:
    """The module, untyped: its stubs do not know its enumerations."""
    return importlib.import_module("mujoco")
