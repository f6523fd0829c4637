"""OpenUSD, imported when it is first needed.

`pxr.Sdf` here is OpenUSD's module of that name. It has no type information, so that everything of it is `Any`.
"""

from __future__ import annotations

import importlib
from typing import Any

from kinema.foundation import KinemaError

Layer = Any
"""An `Sdf.Layer`."""
PrimSpec = Any
"""An `Sdf.PrimSpec`."""


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        module = importlib.import_module(f"pxr.{name}")
    except ImportError as error:
        raise KinemaError(
            "reading and writing USD needs the package usd-core, which has no build for this Python and machine"
        ) from error
    globals()[name] = module
    return module
