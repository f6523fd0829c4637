"""OpenUSD (`pxr`), imported when it is first needed.

`pxr.Sdf` here is OpenUSD's module of that name. It has no type information, so that everything of it is `Any`.
"""

from __future__ import annotations

import importlib
from typing import Any

Layer = Any
"""Type of `Sdf.Layer`."""
PrimSpec = Any
"""Type of `Sdf.PrimSpec`."""


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    module = importlib.import_module(f"pxr.{name}")
    globals()[name] = module
    return module
