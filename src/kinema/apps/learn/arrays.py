"""The arrays that tasks compute with: NumPy's, or PyTorch's, which stay on the GPU that the environments are on."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from kinema.foundation import KinemaError

KINDS = ("numpy", "torch")


class Arrays(Protocol):
    """What the two libraries call differently. What they call alike is in `xp`: `cos`, `where`, `stack`, ..."""

    xp: Any
    """The library itself."""

    def seed(self, seed: int) -> None:
        """Draw anew from here."""

    def floats(self, values: Any) -> Any:
        """As an array of 32-bit numbers; constants are taken to a GPU once."""

    def bools(self, values: Any) -> Any:
        """As an array of yes and no."""

    def uniform(self, lower: Any, upper: Any, shape: tuple[int, ...]) -> Any:
        """Numbers drawn between two bounds."""

    def integers(self, count: int, shape: tuple[int, ...]) -> Any:
        """Whole numbers drawn from 0 to one less than a count."""

    def maybe(self, mask: Any) -> bool:
        """Whether any is meant. On a GPU it is not looked at, since everything would have to wait for the answer."""
        ...


class NumpyArrays:
    """NumPy's."""

    xp: Any = np

    def __init__(self, seed: int) -> None:
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Draw anew from here."""
        self.rng = np.random.default_rng(seed)

    def floats(self, values: Any) -> np.ndarray:
        """As 32-bit numbers."""
        return np.asarray(values, np.float32)

    def bools(self, values: Any) -> np.ndarray:
        """As yes and no."""
        return np.asarray(values, np.bool_)

    def uniform(self, lower: Any, upper: Any, shape: tuple[int, ...]) -> np.ndarray:
        """Drawn between two bounds."""
        return self.rng.uniform(lower, upper, shape).astype(np.float32)

    def integers(self, count: int, shape: tuple[int, ...]) -> np.ndarray:
        """Drawn from 0 to one less than a count."""
        return self.rng.integers(count, size=shape)

    def maybe(self, mask: Any) -> bool:
        """Whether any is meant."""
        return bool(mask.any())


class TorchArrays:
    """PyTorch's, on one device."""

    def __init__(self, seed: int, device: str) -> None:
        import torch  # pyright: ignore[reportMissingImports]

        self.xp: Any = torch
        self.device = device
        self._generator = torch.Generator(device)
        self._constants: dict[Any, Any] = {}
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Draw anew from here."""
        self._generator.manual_seed(seed)

    def floats(self, values: Any) -> Any:
        """As 32-bit numbers."""
        return self._there(values, self.xp.float32)

    def bools(self, values: Any) -> Any:
        """As yes and no."""
        return self._there(values, self.xp.bool)

    def uniform(self, lower: Any, upper: Any, shape: tuple[int, ...]) -> Any:
        """Drawn between two bounds."""
        share = self.xp.rand(shape, generator=self._generator, device=self.device)
        return lower + (upper - lower) * share

    def integers(self, count: int, shape: tuple[int, ...]) -> Any:
        """Drawn from 0 to one less than a count."""
        return self.xp.randint(count, shape, generator=self._generator, device=self.device)

    def maybe(self, mask: Any) -> bool:
        """Whether any is meant."""
        return True

    def _there(self, values: Any, dtype: Any) -> Any:
        if self.xp.is_tensor(values):
            return values.detach().to(self.device, dtype)
        array = np.asarray(values)
        key = (dtype, array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            if len(self._constants) == MOST:  # what comes from the host anew in every step is no constant
                self._constants.clear()
            self._constants[key] = self.xp.as_tensor(array, dtype=dtype, device=self.device)
        return self._constants[key]


MOST = 256
"""Constants that are kept on a device."""


def arrays_of(kind: str, seed: int, device: str) -> Arrays:
    """Those of a kind, for environments on a device."""
    if kind not in KINDS:
        raise KinemaError(f"arrays: {kind!r} is none of {', '.join(KINDS)}")
    if kind == "numpy":
        return NumpyArrays(seed)
    try:
        return TorchArrays(seed, device)
    except ImportError:
        raise KinemaError('arrays: PyTorch is not installed: pip install torch, or arrays="numpy"') from None
