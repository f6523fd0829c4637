"""Lets `kinema.read` be both a package (`from kinema.read import read_urdf`) and the verb `kinema.read(file)`."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any


def make_callable(module_name: str, function: Callable[..., Any]) -> None:
    """Make the module call the function; `help` and `inspect` show the function's own text."""

    class CallableModule(types.ModuleType):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

    CallableModule.__call__.__doc__ = function.__doc__
    CallableModule.__call__.__wrapped__ = function  # type: ignore[attr-defined]  # ty: ignore[missing-attribute]
    sys.modules[module_name].__class__ = CallableModule
