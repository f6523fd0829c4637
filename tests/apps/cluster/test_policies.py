"""Policies of PyTorch's: by object and by name, on whatever device their weights are."""

from __future__ import annotations

import sys
import types
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from kinema.apps.cluster.env_spec import as_numpy_policy, function_name, resolve_function


class Tensor:
    """An array somewhere."""

    def __init__(self, values: np.ndarray, device: str = "cpu") -> None:
        self.values, self.device = values, device

    def to(self, device: str) -> Tensor:
        return Tensor(self.values, device)

    def cpu(self) -> Tensor:
        return self.to("cpu")

    def numpy(self) -> np.ndarray:
        assert self.device == "cpu"
        return self.values


class Module:
    """What networks are: here, one that doubles what it sees, on its own device."""

    def __init__(self, device: str = "cuda:1") -> None:
        self.device, self.is_trained = device, True

    def parameters(self) -> list[Tensor]:
        return [Tensor(np.zeros(1), self.device)]

    def eval(self) -> None:
        self.is_trained = False

    def __call__(self, obs: Tensor, gain: float = 2.0) -> Tensor:
        assert obs.device == self.device
        assert not self.is_trained
        return Tensor(gain * obs.values, obs.device)


def test_a_network_is_a_function_of_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """As PyTorch would have it: without gradients, where its weights are, with the controller's parameters by name."""
    torch: Any = types.ModuleType("torch")
    torch.nn = types.SimpleNamespace(Module=Module)
    torch.no_grad, torch.from_numpy = nullcontext, Tensor
    monkeypatch.setitem(sys.modules, "torch", torch)
    obs = np.ones((3, 2), np.float32)
    for policy in (Module(), Module("cpu"), resolve_function(Module, "policy")):
        np.testing.assert_array_equal(as_numpy_policy(policy)(obs), 2.0 * obs)
    np.testing.assert_array_equal(as_numpy_policy(Module())(obs, gain=3.0), 3.0 * obs)
    assert as_numpy_policy(np.negative) is np.negative


def test_networks_of_pytorch() -> None:
    """The same numbers as by NumPy; equal weights have equal names, in whatever process."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.manual_seed(0)
    net = torch.nn.Linear(2, 3)
    obs = np.array([[1.0, 2.0], [0.0, -1.0]], np.float32)
    weight, bias = (p.detach().numpy() for p in (net.weight, net.bias))
    np.testing.assert_allclose(as_numpy_policy(net)(obs), obs @ weight.T + bias, rtol=1e-6)
    np.testing.assert_array_equal(as_numpy_policy(resolve_function("torch.nn:Identity", "policy"))(obs), obs)
    name = function_name(net)
    assert name == function_name(net)
    with torch.no_grad():
        net.bias += 1.0
    assert function_name(net) != name
