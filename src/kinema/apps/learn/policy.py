"""Multilayer perceptron policy with ELU activations, evaluated with NumPy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from kinema.core import KinemaError


class Policy:
    """Multilayer perceptron with ELU activations between layers: maps observations, (n, k), to actions.

    Args:
        weights: weight matrices, (outputs, inputs) each.
        biases: bias vectors, (outputs,) each.
    """

    def __init__(self, weights: Sequence[Any], biases: Sequence[Any]) -> None:
        self.weights = [np.asarray(w, np.float32) for w in weights]
        self.biases = [np.asarray(b, np.float32) for b in biases]
        sizes = [w.shape for w in self.weights]
        fits = bool(sizes) and all(len(s) == 2 for s in sizes) and len(sizes) == len(self.biases)
        fits = fits and all(b.shape == (s[0],) for b, s in zip(self.biases, sizes, strict=True))
        if not fits or any(a[0] != b[1] for a, b in pairwise(sizes)):
            raise KinemaError(f"policy: layers of shapes {sizes} with {len(self.biases)} biases do not fit together")

    @property
    def n_observations(self) -> int:
        """Dimension of an observation."""
        return self.weights[0].shape[1]

    @property
    def n_actions(self) -> int:
        """Dimension of an action."""
        return self.weights[-1].shape[0]

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Actions, (n, n_actions), for observations, (n, n_observations)."""
        values = np.asarray(observations, np.float32)
        if values.ndim != 2 or values.shape[1] != self.n_observations:
            raise KinemaError(f"policy: expected observations of shape (n, {self.n_observations}), not {values.shape}")
        last = len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = values @ weight.T + bias
            if i < last:
                values = np.where(values > 0.0, values, np.expm1(np.minimum(values, 0.0)))
        return values

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write weights and biases to an `.npz` file: `weight_0`, `bias_0`, `weight_1`, ..."""
        named: dict[str, Any] = {f"weight_{i}": w for i, w in enumerate(self.weights)}
        named |= {f"bias_{i}": b for i, b in enumerate(self.biases)}
        np.savez_compressed(Path(path), **named)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """Read a policy written by `save`."""
        try:
            with np.load(Path(path), allow_pickle=False) as file:
                count = sum(name.startswith("weight_") for name in file.files)
                return cls(*([file[f"{kind}_{i}"] for i in range(count)] for kind in ("weight", "bias")))
        except (OSError, ValueError, KeyError, BadZipFile) as error:
            raise KinemaError(f"{path}: this is no policy that was saved: {error}") from None

    @classmethod
    def from_torch(cls, network: Any) -> Policy:
        """Policy from a `torch.nn.Sequential` of `Linear` and `ELU` layers, such as the `mlp` of rsl_rl actors."""
        layers = [layer for layer in network if hasattr(layer, "weight")]
        between = {type(layer).__name__ for layer in network if not hasattr(layer, "weight")}
        if between - {"ELU"}:
            raise KinemaError(f"policy: only ELU may stand between layers, not {', '.join(sorted(between))}")
        return cls(*([getattr(x, kind).detach().cpu().numpy() for x in layers] for kind in ("weight", "bias")))
