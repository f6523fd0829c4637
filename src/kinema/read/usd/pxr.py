"""Lazy import of OpenUSD.

`pxr.UsdGeom` here is OpenUSD's module of that name. OpenUSD has no type information, so its objects are `Any`.
"""

from __future__ import annotations

import importlib
from typing import Any

Prim = Any
"""A `Usd.Prim`."""
Stage = Any
"""A `Usd.Stage`."""


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    module = importlib.import_module(f"pxr.{name}")
    globals()[name] = module
    return module
