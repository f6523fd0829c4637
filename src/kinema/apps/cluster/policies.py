"""Policies: functions from what is seen to what is done, of NumPy or PyTorch, here or by name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
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
