"""Packages that import their larger part when one of its names is first used.

What starts from the cache neither traces nor compiles nor renders anything, and importing what does would take most of
its time. A package of that kind imports in its `__init__` what everyone needs; the other names are re-exported by one
of its modules, which is imported when any of them is asked for:

    if TYPE_CHECKING:
        from .exports import *  # noqa: F403
    else:
        export_lazily(__name__, "exports")
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any


def export_lazily(package: str, module: str) -> None:
    """Offer all public names of a module of a package as the package's own, without importing the module yet.

    A name that is both a function of the module and a submodule of the package stands for the function, whichever is
    imported first.
    """
    home = f"{package}.{module}"

    class LazyPackage(types.ModuleType):
        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(f"module {package!r} has no attribute {name!r}")
            try:
                found = importlib.import_module(home)
            except AttributeError as error:  # not that there is no such name
                raise ImportError(f"{home} cannot be imported: {error}") from error
            offered = {k: v for k, v in vars(found).items() if not k.startswith("_")}
            vars(self).update({k: v for k, v in offered.items() if k not in vars(self)})
            if name in offered:
                return offered[name]
            if f"{package}.{name}" in sys.modules:
                return sys.modules[f"{package}.{name}"]
            raise AttributeError(f"module {package!r} has no attribute {name!r}")

        def __setattr__(self, name: str, value: Any) -> None:
            if value is not sys.modules.get(f"{package}.{name}"):  # which the import system binds
                super().__setattr__(name, value)

        def __dir__(self) -> list[str]:
            return sorted({*super().__dir__(), *vars(importlib.import_module(home))})

    sys.modules[package].__class__ = LazyPackage
