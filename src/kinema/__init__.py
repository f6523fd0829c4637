"""Kinema, the robot compiler: read, check, convert and simulate robots from USD, URDF, SDFormat, MJCF and CAD.

Everything here is imported when it is first used, so that `import kinema` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from kinema.check import check as check
    from kinema.description import Robot as Robot, World as World
    from kinema.foundation import (
        Diagnostic as Diagnostic,
        Diagnostics as Diagnostics,
        KinemaError as KinemaError,
        ReadError as ReadError,
        Severity as Severity,
        WriteError as WriteError,
    )
    from kinema.plan import Kinematics as Kinematics, ik as ik
    from kinema.read import read as read
    from kinema.scene import Entity as Entity, Scene as Scene
    from kinema.write import Loss as Loss, LossReport as LossReport, write as write

_HOME = {
    "Diagnostic": "kinema.foundation",
    "Diagnostics": "kinema.foundation",
    "Entity": "kinema.scene",
    "KinemaError": "kinema.foundation",
    "Kinematics": "kinema.plan",
    "Loss": "kinema.write",
    "LossReport": "kinema.write",
    "ReadError": "kinema.foundation",
    "Robot": "kinema.description",
    "Scene": "kinema.scene",
    "Severity": "kinema.foundation",
    "World": "kinema.description",
    "WriteError": "kinema.foundation",
    "ik": "kinema.plan",
}
_VERBS = ("check", "read", "write")
"""Packages that are also functions: see `kinema.foundation.make_callable`."""
SHOWN_BY = "kinema.apps.viewer"
"""What `Scene.show` opens."""
_PACKAGES = ("plan",)

__all__ = [
    "Diagnostic",
    "Diagnostics",
    "Entity",
    "KinemaError",
    "Kinematics",
    "Loss",
    "LossReport",
    "ReadError",
    "Robot",
    "Scene",
    "Severity",
    "World",
    "WriteError",
    "check",
    "ik",
    "plan",
    "read",
    "write",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _VERBS or name in _PACKAGES:
        return importlib.import_module(f"kinema.{name}")
    raise AttributeError(f"module 'kinema' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
