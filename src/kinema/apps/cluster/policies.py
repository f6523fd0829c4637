"""Policies: functions from what is seen to what is done, of NumPy or PyTorch, here or by name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kinema.foundation import KinemaError

Policy = Callable[..., Any] | str | None


def found(function: Callable[..., Any] | str, what: str) -> Callable[..., Any]:
    """A function, or the one of that name: `package.module:name`; a class is made into an object."""
    if isinstance(function, str):
        module, colon, name = function.partition(":")
        try:
            function = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise KinemaError(f"{what} {module}{colon}{name}: {error}") from None
    if isinstance(function, type):
        function = function()
    if not callable(function):
        raise KinemaError(f"{what}: expected a function or the name of one, not {function!r}")
    return function


def of_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """A policy as a function of NumPy arrays."""
    torch: Any = sys.modules.get("torch")  # a policy of PyTorch's has brought it along
    if torch is None or not isinstance(function, torch.nn.Module):
        return function
    net: Any = function
    net.eval()
    weights = next(iter(net.parameters()), None)

    def act(obs: np.ndarray, **controller: Any) -> np.ndarray:
        seen = torch.from_numpy(obs)
        with torch.no_grad():
            return net(seen if weights is None else seen.to(weights.device), **controller).cpu().numpy()

    return act


def episode_generators(seed: int, episodes: np.ndarray, purpose: int) -> list[np.random.Generator]:
    """Random numbers of each episode, for one purpose: they depend on nothing else."""
    return [np.random.default_rng([seed, purpose, int(episode)]) for episode in episodes]


def generators_in_turn(seed: int, episodes: np.ndarray, purpose: int) -> Iterator[np.random.Generator]:
    """Likewise, to draw from before the next is asked for.

    It is one generator, moved each time: making one takes longer than drawing from it.
    """
    bits = np.random.Philox(np.random.SeedSequence([seed, purpose]))
    generator, state = np.random.Generator(bits), bits.state
    for episode in episodes:
        state["state"]["counter"][:] = 0, int(episode), 0, 0  # 2^64 times four numbers from one to the next
        bits.state = state
        yield generator
