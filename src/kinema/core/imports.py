"""Optional dependencies, lazy package exports and callable modules."""

from __future__ import annotations

import importlib
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

from .diagnostics import KinemaError


def import_optional(module: str, *, purpose: str, extra: str = "") -> types.ModuleType:
    """Import an optional dependency; KinemaError with the pip command if it is not installed.

    The message starts with `purpose`; `extra` is the extra of Kinema that installs the dependency.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        requirement = f"'kinema[{extra}]'" if extra else module
        raise KinemaError(f"{purpose} needs the package {module!r}: pip install {requirement}") from error


def export_lazily(package: str, module: str) -> None:
    """Export all public names of a submodule from its package, importing the submodule on first use of a name.

    Programs that start from the cache need neither tracing nor code generation, whose import would take most of their
    start-up time. A package imports in its `__init__` the names that are always needed, and exports the others lazily:

        if TYPE_CHECKING:
            from .exports import *
        else:
            export_lazily(__name__, "exports")

    A name that is both a function of the submodule and another submodule of the package refers to the function,
    regardless of the import order.
    """
    module_name = f"{package}.{module}"

    class LazyPackage(types.ModuleType):
        """Module class that imports the submodule on access to a missing attribute."""

        def __getattr__(self, name: str) -> Any:
            """Import the submodule, bind all its public names in the package, and return the requested one."""
            if name.startswith("__"):
                raise AttributeError(f"module {package!r} has no attribute {name!r}")
            try:
                loaded = importlib.import_module(module_name)
            except AttributeError as error:  # must not look like a missing name
                raise ImportError(f"{module_name} cannot be imported: {error}") from error
            exports = {key: v for key, v in vars(loaded).items() if not key.startswith("_")}
            vars(self).update({key: v for key, v in exports.items() if key not in vars(self)})
            if name in exports:
                return exports[name]
            if f"{package}.{name}" in sys.modules:
                return sys.modules[f"{package}.{name}"]
            raise AttributeError(f"module {package!r} has no attribute {name!r}")

        def __setattr__(self, name: str, value: Any) -> None:
            if value is not sys.modules.get(f"{package}.{name}"):  # the import system binds submodules
                super().__setattr__(name, value)

        def __dir__(self) -> list[str]:
            return sorted({*super().__dir__(), *vars(importlib.import_module(module_name))})

    sys.modules[package].__class__ = LazyPackage


def make_module_callable(module_name: str, function: Callable[..., Any]) -> None:
    """Make a module callable: calling it calls `function`, whose docstring and signature are shown by `help`.

    Lets `kinema.read` be both a package and the function `kinema.read(file)`.
    """

    class CallableModule(types.ModuleType):
        """Module class whose call operator is the function."""

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        @property
        def __signature__(self) -> inspect.Signature:
            return inspect.signature(function)

    CallableModule.__call__.__doc__ = function.__doc__
    CallableModule.__call__.__wrapped__ = function  # type: ignore[attr-defined]  # ty: ignore[missing-attribute]
    sys.modules[module_name].__class__ = CallableModule
