"""Libraries that a plain install does not bring, imported when they are needed and not before."""

from __future__ import annotations

import importlib
import types

from .diagnostics import KinemaError


def require(module: str, *, purpose: str, extra: str = "") -> types.ModuleType:
    """Import a library, or say in one sentence how to get it: with an extra of ours, else by its own name."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        wanted = f"'kinema[{extra}]'" if extra else module
        raise KinemaError(f"{purpose} needs the package {module!r}: pip install {wanted}") from error
