"""Arrays of `scene.sim.rigid_solver`: constant arrays, arrays computed on the host, groups of arrays, declarations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from kinema.dynamics import Engine
from kinema.runtime import torch_module

T = TypeVar("T")

# ------------------------------------------------------------------------------------------------------- array types


class ConstantArray(np.ndarray):
    """Read-only NumPy array with `numpy` and `to_torch`, as the arrays of the state have."""

    _device = "cpu"

    @classmethod
    def of(cls, values: Any, device: str) -> ConstantArray:
        """The values, not copied; `device` is the device of tensors returned by `to_torch`."""
        result = np.asarray(values).view(cls)
        result._device = device
        result.flags.writeable = False
        return result

    def __array_finalize__(self, source: Any) -> None:
        """Keep the device in views of the array."""
        self._device = getattr(source, "_device", "cpu")

    def numpy(self) -> np.ndarray:
        """The array as a plain NumPy array, a read-only view."""
        return np.asarray(self)

    def to_torch(self) -> Any:
        """Copy of the array as a PyTorch tensor on the device of the scene."""
        return torch_module().as_tensor(np.array(self), device=self._device)


class ComputedArray(np.lib.mixins.NDArrayOperatorsMixin):
    """Array that is computed on the host, from arrays of the engine, when its values are read.

    It behaves as a NumPy array of the current values: it can be indexed, has `shape` and `dtype`, and is an operand of
    NumPy functions and operators.
    """

    def __init__(self, compute: Callable[[], np.ndarray], device: str) -> None:
        """Array of the values that `compute` returns; `device` is the device of tensors returned by `to_torch`."""
        self._compute = compute
        self._device = device

    def numpy(self) -> np.ndarray:
        """Current values, which later steps do not change."""
        return self._compute()

    def to_torch(self) -> Any:
        """Current values as a PyTorch tensor on the device of the scene."""
        return torch_module().as_tensor(np.array(self._compute()), device=self._device)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The current values for NumPy functions."""
        return np.array(self._compute(), dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Apply a NumPy function to the current values."""
        values = [x.numpy() if isinstance(x, ComputedArray) else x for x in inputs]
        return getattr(ufunc, method)(*values, **options)

    def __getattr__(self, name: str) -> Any:
        """Attribute of the NumPy array of the current values, such as `shape`, `dtype` or `tolist`."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._compute(), name)

    def __getitem__(self, index: Any) -> Any:
        return self._compute()[index]

    def __len__(self) -> int:
        return len(self._compute())

    def __float__(self) -> float:
        return float(self._compute())

    def __dlpack__(self, **options: Any) -> Any:
        """Export of the current values by the DLPack protocol."""
        return self._compute().__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        """DLPack device: the host."""
        return self._compute().__dlpack_device__()

    def __repr__(self) -> str:
        return f"ComputedArray({self._compute()!r})"


def cached_by_version(engine: Engine, compute: Callable[[], T]) -> Callable[[], T]:
    """Function that calls `compute` again only if the state, inputs or parameters of the engine may have changed."""
    cached: list[Any] = [None, None]

    def evaluate() -> T:
        if cached[0] != engine.version:
            cached[1] = compute()
            cached[0] = engine.version
        return cached[1]

    return evaluate


# ------------------------------------------------------------------------------------------------------ declarations


@dataclass(frozen=True, slots=True)
class ArrayDeclaration:
    """Name, shape, type, unit and meaning of an array of the rigid solver."""

    name: str
    shape: tuple[str | int, ...]
    """Sizes of the axes: numbers, or names of dimensions such as `n_links`."""
    dtype: str
    """NumPy type; `float` for the precision of the scene."""
    unit: str
    meaning: str


def declare(dims: str, *specs: tuple[str, tuple[int | str, ...], str, str, str]) -> list[ArrayDeclaration]:
    """Declarations of arrays with common leading axes.

    Args:
        dims: names of the leading axes, separated by spaces.
        specs: name, shape of an element, NumPy type, unit and meaning of each array.
    """
    leading = tuple(dims.split())
    return [
        ArrayDeclaration(name, (*leading, *element), dtype, unit, text) for name, element, dtype, unit, text in specs
    ]


class ArrayGroup:
    """Arrays of one kind of object (links, geoms, contacts, ...) as attributes."""

    def __init__(self, name: str, names: Iterable[str], lookup: Callable[[str], Any]) -> None:
        """Group of the arrays `names`, each of which `lookup` returns when it is read."""
        self._name = name
        self._names = tuple(names)
        self._lookup = lookup

    def __getattr__(self, name: str) -> Any:
        """Array of the group by name; an unknown name raises `AttributeError` with all names."""
        if name.startswith("__") or name not in self._names:
            raise AttributeError(f"{self._name} has no array {name!r}; it has: {', '.join(self._names)}")
        return self._lookup(name)

    def __dir__(self) -> list[str]:
        return list(self._names)


def constant_group(
    name: str, compute: Callable[[], Mapping[str, Any]], names: Iterable[str], device: str
) -> ArrayGroup:
    """Group of constant arrays, computed together when one of them is first read; functions among them separately."""
    tables: list[Mapping[str, Any]] = []

    def lookup(array: str) -> Any:
        if not tables:
            tables.append(compute())
        value = tables[0][array]() if callable(tables[0][array]) else tables[0][array]
        return ConstantArray.of(value, device) if isinstance(value, np.ndarray) else value

    return ArrayGroup(name, names, lookup)
