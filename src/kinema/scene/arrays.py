"""Named access to the arrays of an engine; output of arrays as NumPy copies, NumPy views or PyTorch tensors.

The engine stores arrays as (elements, environments); users see (environments, elements). Arrays that all environments
share have one column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kinema.core import KinemaError
from kinema.dynamics import INVWEIGHT_PARAMETERS, Engine
from kinema.runtime import share_torch_stream, torch_module

from .arguments import IndexArray, Selection, as_batch, check_finite, one_of, resolve_envs

# ----------------------------------------------------------------------------------------------- arrays by name

SOL_PARAMS = (("solref", 2), ("solimp", 5))
"""Names and lengths of the parts of the seven parameters of a soft constraint."""


class SceneArrays:
    """Read and write access to the arrays of an engine (state, controls, shared parameters) by name.

    On a CPU the arrays are NumPy views of the engine's memory, so reads and writes need no copy of the whole array; on
    a GPU `get` copies to the host and `write` uploads the whole array. `tensor` and `write_tensor` work on GPU memory
    without a copy to the host.
    """

    def __init__(self, engine: Engine) -> None:
        """Index the arrays of the engine's arenas (state, controls, shared parameters) by name; caches start empty."""
        self.engine = engine
        self.n_envs = engine.n_envs
        self.dtype = np.dtype(np.float32 if engine.precision == "single" else np.float64)
        self._views: dict[str, np.ndarray] = {}
        self._tensors: dict[str, Any] = {}
        self._device_constants: dict[object, Any] = {}
        arenas = (engine.state, engine.controls, engine.uniform)
        self._rows_by_name = {name: rows for arena in arenas for name, rows in arena.layout.rows.items()}
        self.dof_parameters: dict[str, np.ndarray] = {
            name: np.stack([getattr(model.dofs, name) for model in engine.variants.models])
            for name in ("kp", "kv", "lower", "upper")
        }
        """Current gains and limits of each model variant in double precision, (n_variants, n_dofs) each."""

    def to_batch(
        self, values: Any, element_shape: tuple[int, ...], envs_idx: Selection, label: str, dtype: Any = None
    ) -> tuple[np.ndarray, IndexArray | None]:
        """User values as an array (environments or 1, *element_shape), and indices of the environments (None for all).

        Raises `KinemaError`, prefixed with `label`, for another shape. `dtype` None selects the engine's precision.
        """
        envs = resolve_envs(envs_idx, self.n_envs)
        n_envs = self.n_envs if envs is None else len(envs)
        return as_batch(values, n_envs, element_shape, self.dtype if dtype is None else dtype, label), envs

    def to_finite_batch(
        self, values: Any, element_shape: tuple[int, ...], envs_idx: Selection, label: str, dtype: Any = None
    ) -> tuple[np.ndarray, IndexArray | None]:
        """As `to_batch` for states and commands; raises `KinemaError` for NaN and infinity."""
        batch, envs = self.to_batch(values, element_shape, envs_idx, label, dtype)
        return check_finite(batch, label), envs

    def get(self, name: str) -> np.ndarray:
        """Whole array: a view on a CPU, a host copy from a GPU.

        Shape (elements, n_envs), or (elements, 1) if all environments share the values.
        """
        view = self._views.get(name)
        if view is not None:
            return view
        if self._rows_by_name[name][1] == 0:
            return np.zeros((0, self.n_envs), self.dtype)
        array = self.engine.array_view(name).numpy()
        if self.engine.device.is_cpu:
            self._views[name] = array
        return array

    def read(self, name: str, elements: slice | IndexArray, envs: IndexArray | None = None) -> np.ndarray:
        """Copy of the selected elements (rows) in the selected environments, shape (environments, elements).

        `envs` None selects all environments; values shared by all environments are repeated.
        """
        array = self.get(name)[elements]
        if array.shape[1] != self.n_envs:
            array = np.broadcast_to(array, (len(array), self.n_envs))
        return np.array(array.T if envs is None else array[:, envs].T, order="C")

    def read_sol_params(self, kind: str, elements: IndexArray, envs: IndexArray | None) -> np.ndarray:
        """Copy of `solref` and `solimp` of the selected constraints, shape (environments, elements, 7).

        Args:
            kind: prefix of the array names: `limit`, `friction`, `equality` (link equalities) or `coupling`.
            elements: indices of the constraints.
            envs: indices of the environments; None for all.
        """
        parts = []
        for name, width in SOL_PARAMS:
            rows = component_rows(elements, width)
            values = self.read(f"{kind}_{name}", rows, envs)
            parts.append(values.reshape(len(values), len(elements), width))
        return np.concatenate(parts, axis=-1)

    def write_sol_params(self, kind: str, elements: IndexArray, values: np.ndarray, envs: IndexArray | None) -> None:
        """Set `solref` and `solimp` of the selected constraints.

        Args:
            kind: prefix of the array names: `limit`, `friction`, `equality` (link equalities) or `coupling`.
            elements: indices of the constraints.
            values: solref (2) and solimp (5), (environments or 1, elements, 7).
            envs: indices of the environments; None for all.
        """
        start = 0
        for name, width in SOL_PARAMS:
            rows = component_rows(elements, width)
            block = values[..., start : start + width]
            self.write(f"{kind}_{name}", rows, block.reshape(len(block), -1), envs)
            start += width

    def has(self, name: str) -> bool:
        """Whether the name is an array with at least one row.

        Parameters compiled into the program as constants are none.
        """
        return bool(self._rows_by_name.get(name, (0, 0))[1])

    def is_shared(self, name: str) -> bool:
        """Whether all environments share one set of values of the array."""
        return name in self.engine.uniform.layout.rows

    def write(
        self, name: str, elements: slice | IndexArray, values: np.ndarray, envs: IndexArray | None = None
    ) -> None:
        """Set the selected elements in the selected environments (None for all).

        Marks the engine's state as modified, and its inverse weights as outdated if the array is one of
        `INVWEIGHT_PARAMETERS`. On a GPU the whole array is copied to the host, changed and uploaded.

        Args:
            name: name of the array.
            elements: rows to set.
            values: new values, (environments or 1, elements).
            envs: indices of the environments; None for all.
        """
        self.engine.mark_modified()
        self.engine.masses_changed |= name in INVWEIGHT_PARAMETERS
        if self.engine.device.is_cpu:
            self._assign(self.get(name), elements, values, envs)
            if envs is None:
                self.engine.array_view(name).pad_last_vector()
            return
        array = self.get(name).copy()
        self._assign(array, elements, values, envs)
        if array.size:
            self.engine.array_view(name).assign(array)

    @staticmethod
    def _assign(array: np.ndarray, elements: slice | IndexArray, values: np.ndarray, envs: IndexArray | None) -> None:
        """Assign values (environments or 1, elements) to rows and columns of a host array (elements, environments)."""
        if envs is None:
            array[elements] = values.T
        else:
            rows = np.arange(len(array))[elements]
            array[rows[:, None], envs] = values.T

    def source(self, name: str) -> NamedArray:
        """Handle of a named array for `OutputConverter.select`."""
        return NamedArray(self, name)

    def device_index(self, index: Any) -> Any:
        """Index array as a slice if it is contiguous, else as a cached PyTorch tensor on the engine's device."""
        index = contiguous_slice(index)
        if not isinstance(index, np.ndarray):
            return index
        return self.device_constant(index)

    def device_constant(self, values: np.ndarray) -> Any:
        """NumPy array as a PyTorch tensor on the engine's device.

        Cached by content, so that equal arrays are uploaded once.
        """
        key = (values.dtype.str, values.shape, values.tobytes())
        if key not in self._device_constants:
            self._device_constants[key] = torch_module().as_tensor(values.copy(), device=self.engine.device.name)
        return self._device_constants[key]

    def tensor(self, name: str) -> Any:
        """Whole array as a writable PyTorch tensor on the engine's memory, (elements, n_envs).

        Marks the state as modified, because the caller may write to the tensor.
        """
        self.engine.mark_modified()
        if name not in self._tensors:
            self._tensors[name] = self.engine.array_view(name).to_torch()
        return self._tensors[name]

    def write_tensor(self, name: str, elements: slice | IndexArray, values: Any, envs: Any) -> None:
        """Set the selected elements from a PyTorch tensor on the engine's GPU, without a copy through the host.

        Nothing is checked: NaN, which no range clamps, makes the next step flag the environment; infinity acts as the
        limit of a control or force range, and flags the environment where there is none.

        Args:
            name: name of the array.
            elements: rows to set.
            values: tensor (environments, elements), or (elements,) for all environments.
            envs: environment indices as array or tensor; None for all.
        """
        self.engine.masses_changed |= name in INVWEIGHT_PARAMETERS
        target = self.tensor(name)
        values = values.detach().to(target.dtype)
        values = (values[None] if values.ndim < 2 else values).movedim(0, 1)
        if envs is None:
            target[self.device_index(elements)] = values
            return
        rows, columns = self.device_index(np.arange(len(target))[elements]), self.device_index(envs)
        if isinstance(rows, slice):
            target[rows][:, columns] = values
        else:
            target[rows[:, None], columns] = values


@dataclass(frozen=True, slots=True)
class NamedArray:
    """Handle of one named array of `SceneArrays`; an `ArraySource`."""

    arrays: SceneArrays
    name: str

    def numpy(self) -> np.ndarray:
        """NumPy array (elements, n_envs): a view on a CPU, a host copy from a GPU."""
        return self.arrays.get(self.name)

    def to_torch(self) -> Any:
        """PyTorch tensor (elements, n_envs) that shares the engine's memory."""
        return self.arrays.tensor(self.name)


def component_rows(elements: IndexArray, width: int) -> IndexArray:
    """Rows of all components of the given vectors of `width` components in an array of flattened vectors."""
    return (width * elements[:, None] + np.arange(width)).ravel()


def contiguous_slice(index: Any) -> Any:
    """Replace an array of consecutive indices by a slice, so that indexing gives a view; others are returned as is."""
    if isinstance(index, np.ndarray) and index.ndim == 1 and len(index) and index.dtype != np.bool_:
        first, count = int(index[0]), len(index)
        if (index == np.arange(first, first + count)).all():
            return slice(first, first + count)
    return index


# ------------------------------------------------------------------------------------------ output of arrays

OUTPUT_KINDS = ("numpy", "view", "torch")
"""Return types of getters: NumPy copies, NumPy views of the engine's memory, PyTorch tensors that share the engine's
memory."""


class ArraySource(Protocol):
    """Array of the engine: axes elements, environments, then vector or matrix components."""

    def numpy(self) -> np.ndarray:
        """NumPy array: a view on a CPU, a host copy from a GPU."""
        ...

    def to_torch(self) -> Any:
        """PyTorch tensor that shares the engine's memory."""
        ...


class OutputConverter:
    """Conversion of engine arrays to the return type of the scene's getters (`kind`: numpy, view or torch)."""

    def __init__(self, arrays: SceneArrays, kind: str = "numpy") -> None:
        self.arrays = arrays
        self.engine = arrays.engine
        self.kind = "numpy"
        self.set_kind(kind)

    def set_kind(self, kind: str) -> None:
        """Set the return type of getters: `numpy`, `view` or `torch`.

        `numpy` returns copies, `view` NumPy views of the engine's memory (CPU only), `torch` PyTorch tensors that share
        the engine's memory. `torch` also makes Warp use PyTorch's current CUDA stream on the engine's device.
        """
        kind = one_of(kind, "out", OUTPUT_KINDS)
        if kind == "view" and not self.engine.device.is_cpu:
            raise KinemaError('out: NumPy cannot view the memory of a GPU; use "torch"')
        if kind == "torch":
            torch_module()
            share_torch_stream(self.engine.device)
        self.kind = kind

    @property
    def returns_copies(self) -> bool:
        """Whether getters return copies, which later steps do not change."""
        return self.kind == "numpy"

    @property
    def on_gpu(self) -> bool:
        """Whether getters return PyTorch tensors in GPU memory."""
        return self.kind == "torch" and not self.engine.device.is_cpu

    def is_gpu_tensor(self, values: Any) -> bool:
        """Whether the values are a CUDA tensor and the scene runs on a GPU."""
        return self._is_cuda(values) and (self.on_gpu or not self.engine.device.is_cpu)

    @staticmethod
    def _is_cuda(values: Any) -> bool:
        return bool(getattr(values, "is_cuda", False))

    def resolve_envs(self, envs_idx: Any) -> Any:
        """Environment indices of a selection (index, list, slice, mask); None for all.

        With GPU output, a CUDA tensor of indices or a boolean mask stays on the GPU and is returned as an index tensor.
        """
        if self.on_gpu and self.is_gpu_tensor(envs_idx):
            return envs_idx.nonzero().flatten() if str(envs_idx.dtype) == "torch.bool" else envs_idx
        return resolve_envs(envs_idx, self.engine.n_envs)

    def select(self, source: ArraySource, elements: slice | IndexArray, envs: Any = None) -> Any:
        """Selected elements of the selected environments in the output type, shape (environments, elements, ...).

        The source has shape (elements, n_envs, ...); a source of one column, shared by all environments, is broadcast.
        `envs` None selects all environments.
        """
        if self.on_gpu:
            values = source.to_torch()[self.arrays.device_index(elements)].movedim(1, 0)
            return values if envs is None else values[self.arrays.device_index(envs)]
        values = np.moveaxis(source.numpy()[contiguous_slice(elements)], 1, 0)
        if len(values) != self.engine.n_envs:  # shared by all environments
            values = np.broadcast_to(values, (self.engine.n_envs, *values.shape[1:]))
        return self.convert(values if envs is None else values[envs])

    def convert(self, values: np.ndarray) -> Any:
        """Convert a NumPy view to the output type: contiguous copy, the view itself, or PyTorch tensor."""
        if self.kind == "numpy":
            return np.array(values, order="C")
        if self.kind == "view":
            return values
        return torch_module().from_numpy(values if values.flags.writeable else values.copy())

    def convert_owned(self, values: np.ndarray) -> Any:
        """Convert a NumPy array that nobody else refers to, to the output type without a copy."""
        return torch_module().from_numpy(values) if self.kind == "torch" else values

    def diagonal_block(self, source: ArraySource, elements: slice, envs: Any = None) -> Any:
        """Diagonal block of square matrices, (environments, n, n), for a slice of n elements.

        The source has shape (elements, elements, n_envs); `envs` None selects all environments.
        """
        if self.on_gpu:
            values = source.to_torch()[elements, elements].movedim(2, 0)
            return values if envs is None else values[self.arrays.device_index(envs)]
        values = np.moveaxis(source.numpy()[elements, elements], 2, 0)
        return self.convert(values if envs is None else values[envs])


def stack(arrays: Sequence[Any]) -> Any:
    """Stack arrays of equal shape along a new first axis; all NumPy or all PyTorch."""
    return np.stack(arrays) if isinstance(arrays[0], np.ndarray) else torch_module().stack(list(arrays))
