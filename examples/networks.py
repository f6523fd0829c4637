"""Small neural networks with reverse-mode differentiation in NumPy, Adam, and targets of critics."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import numpy as np

Array = np.ndarray


class Network:
    """Multilayer perceptron with exponential linear units."""

    def __init__(self, sizes: Sequence[int], rng: np.random.Generator, last: float = 1.0) -> None:
        """Draw weights; those of the last layer are scaled by `last`."""
        scales = [*np.ones(len(sizes) - 2), last]
        self.parameters = []
        for scale, n, m in zip(scales, sizes[:-1], sizes[1:], strict=True):
            self.parameters += [scale * rng.normal(size=(n, m)) / np.sqrt(n), np.zeros(m)]
        self.gradients = [np.zeros_like(p) for p in self.parameters]
        self.moments = [[np.zeros_like(p), np.zeros_like(p)] for p in self.parameters]
        self.n_updates = 0

    def copy(self) -> Network:
        """Network with the same parameters."""
        return deepcopy(self)

    def forward(self, x: Array) -> list[Array]:
        """Outputs of all layers, after the input."""
        layers, last = [x], len(self.parameters) - 2
        for i in range(0, last + 2, 2):
            y = layers[-1] @ self.parameters[i] + self.parameters[i + 1]
            layers.append(y if i == last else np.where(y > 0, y, np.expm1(np.minimum(y, 0))))
        return layers

    def __call__(self, x: Array) -> Array:
        """Outputs for inputs (n, size)."""
        return self.forward(x)[-1]

    def backward(self, layers: list[Array], gradient: Array) -> Array:
        """Gradient by the inputs of `forward` from that by its outputs; adds those by the parameters."""
        for i in reversed(range(0, len(self.parameters), 2)):
            if i < len(self.parameters) - 2:
                y = layers[i // 2 + 1]
                gradient = gradient * np.where(y > 0, 1.0, y + 1.0)
            self.gradients[i] += layers[i // 2].T @ gradient
            self.gradients[i + 1] += gradient.sum(axis=0)
            gradient = gradient @ self.parameters[i].T
        return gradient

    def update(self, rate: float, max_norm: float = 1.0, decays: tuple[float, float] = (0.7, 0.95)) -> None:
        """Step of Adam with the gradients, clipped to a norm, which are zero afterwards."""
        norm = np.sqrt(sum(float(np.square(g).sum()) for g in self.gradients))
        self.n_updates += 1
        for p, g, (m, v) in zip(self.parameters, self.gradients, self.moments, strict=True):
            g *= min(1.0, max_norm / (norm + 1e-12))
            m += (1 - decays[0]) * (g - m)
            v += (1 - decays[1]) * (g * g - v)
            corrected = m / (1 - decays[0] ** self.n_updates)
            p -= rate * corrected / (np.sqrt(v / (1 - decays[1] ** self.n_updates)) + 1e-8)
            g[:] = 0.0

    def fit(self, x: Array, y: Array, rate: float, rng: np.random.Generator, epochs: int = 4, parts: int = 4) -> None:
        """Regression of outputs y by inputs x, in minibatches."""
        for _ in range(epochs):
            for chosen in np.array_split(rng.permutation(len(x)), parts):
                layers = self.forward(x[chosen])
                self.backward(layers, 2.0 * (layers[-1] - y[chosen]) / len(chosen))
                self.update(rate)


def lambda_returns(rewards: Array, values: Array, ended: Array, discount: float, decay: float) -> Array:
    """TD(lambda) targets of the values of states, (n, n_envs).

    Args:
        rewards: of the steps from the states, (n, n_envs).
        values: of the states and of the last one, (n + 1, n_envs).
        ended: whether the episode ended with the step, (n, n_envs).
        discount: factor of later rewards.
        decay: lambda.
    """
    found, total = np.zeros_like(rewards), values[-1]
    for t in reversed(range(len(rewards))):
        mixed = (1.0 - decay) * values[t + 1] + decay * total
        found[t] = total = rewards[t] + discount * np.where(ended[t], 0.0, mixed)
    return found
