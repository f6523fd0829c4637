"""Libraries that a plain install does not bring, imported when they are needed and not before."""

from __future__ import annotations

import importlib
import types

from .diagnostics import KinemaError


def require(module: str, *, extra: str, purpose: str) -> types.ModuleType:
    """Import an optional library, or say in one sentence how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise KinemaError(f"{purpose} needs the package {module!r}: pip install 'kinema[{extra}]'") from error
