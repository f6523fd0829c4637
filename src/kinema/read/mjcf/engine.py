"""MuJoCo, imported when it is first needed."""

from __future__ import annotations

from typing import Any

from kinema.foundation import require


def mujoco() -> Any:
    """The module; its type stubs do not know its enumerations."""
    return require("mujoco", extra="mjcf", purpose="reading MJCF")
