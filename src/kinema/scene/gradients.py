"""Gradients of functions of simulated trajectories: `kinema.gradients`.

`rollout` simulates a scene with a sequence of controls and returns the trajectory and its pullback, which maps the
gradient of a function of the trajectory to gradients by initial state and controls. `torch_rollout` and `torch_step`
are functions of PyTorch's automatic differentiation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kinema.core import Array, KinemaError
from kinema.runtime import torch_module

from .arguments import as_array, check_finite, positive_int
from .linearization import CONTROL_KINDS

if TYPE_CHECKING:
    from .scene import Scene

STATE_PARTS = ("qpos", "qvel", "act")
"""Parts of the state: generalized coordinates, velocities and activations of actuators."""


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory:
    """State of all environments after each control."""

    qpos: Array
    """Generalized coordinates, (n_controls, n_envs, n_qs)."""
    qvel: Array
    """Velocities, (n_controls, n_envs, n_dofs)."""
    act: Array
    """Activations of the actuators, (n_controls, n_envs, n_actuators); without actuators with activation (..., 0)."""


Gradients = dict[str, Any]
"""`control` (n_controls, n_envs, n); `state`, a dictionary of `qpos`, `qvel` and `act`, (n_envs, n) each; and `valid`,
(n_envs,), whether the gradients of an environment are finite and complete."""


def rollout(
    scene: Scene,
    *,
    control: Any,
    state: Mapping[str, Any] | None = None,
    by: str = "ctrl",
    hold: int = 1,
) -> tuple[Trajectory, Callable[..., Gradients]]:
    """Simulate a scene with a sequence of controls; return the trajectory and its pullback.

    The scene is left in the final state. The pullback can be called several times until the scene is built again; it
    repeats the simulation from checkpoints, with the same bits, so that memory grows with the square root of the
    length.

    Args:
        scene: a built scene.
        control: controls of all entities, (n_controls, n_envs, n), or (n_controls, n) for all environments.
        state: initial state: `qpos`, `qvel` and `act` of all entities, (n_envs, n) or (n,); parts that are missing are
            those of the scene. None for the state of the scene.
        by: `ctrl`, controls of the actuators; `force`, forces on the dofs; `position`, targets of the dofs.
        hold: number of steps per control; default 1.

    Returns:
        The trajectory, and a function `pullback(qpos=None, qvel=None, act=None)` of the gradient of a scalar function
        by the trajectory, in its shapes, that returns the gradients by `control` and `state`, and which are `valid`.
    """
    from kinema.dynamics import Simulation

    if by not in CONTROL_KINDS:
        raise KinemaError(f"rollout: by={by!r} is not one of {', '.join(map(repr, CONTROL_KINDS))}")
    built, hold = scene.built, positive_int(hold, "rollout: hold", "step")
    engine, model = built.engine, built.model
    n = model.n_actuators if by == "ctrl" else model.n_dofs
    controls = _checked(control, "control", np.float64)
    if controls.ndim == 2:
        controls = np.repeat(controls[:, None], built.n_envs, axis=1)
    if controls.shape[1:] != (built.n_envs, n) or not len(controls):
        raise KinemaError(
            f"rollout: control must have shape (n_controls, {built.n_envs}, {n}) or (n_controls, {n}), with at least "
            f"one control, not {np.shape(control)}"
        )
    for name, values in (state or {}).items():
        _set_state(scene, name, values)
    simulation = Simulation(engine, by, hold * scene.substeps)
    trajectory = Trajectory(**{name: _as_float(values) for name, values in simulation.run(controls).items()})

    def pullback(qpos: Any = None, qvel: Any = None, act: Any = None) -> Gradients:
        given = {"qpos": qpos, "qvel": qvel, "act": act}
        cotangents = {}
        for name, values in given.items():
            if values is not None:
                array, shape = _checked(values, name, np.float64), getattr(trajectory, name).shape
                if array.shape != shape:
                    raise KinemaError(f"pullback: {name} must have the trajectory's shape {shape}, not {array.shape}")
                cotangents[name] = array
        state_gradients, control_gradient, is_valid = simulation.pullback(cotangents)
        return {"control": control_gradient, "state": state_gradients, "valid": is_valid}

    return trajectory, pullback


def _as_float(values: Array) -> Array:
    return np.asarray(values, np.float64)


def _checked(values: Any, name: str, dtype: Any) -> Array:
    return check_finite(as_array(values, dtype, f"rollout: {name}"), f"rollout: {name}")


def _set_state(scene: Scene, name: str, values: Any) -> None:
    """Set a part of the state of all entities."""
    if name not in STATE_PARTS:
        raise KinemaError(f"rollout: state has {', '.join(STATE_PARTS)}, not {name!r}")
    engine = scene.built.engine
    view = engine.array_view("vel" if name == "qvel" else name)
    array = _checked(values, f"state[{name!r}]", np.float64)
    if array.shape not in ((view.shape[0],), (engine.n_envs, view.shape[0])):
        raise KinemaError(
            f"rollout: state[{name!r}] must have shape ({engine.n_envs}, {view.shape[0]}) or ({view.shape[0]},), not "
            f"{array.shape}"
        )
    view.assign(np.broadcast_to(array, (engine.n_envs, view.shape[0])).T)


# ------------------------------------------------------------------------------------------------------------- PyTorch


def torch_rollout(
    scene: Scene, state: Mapping[str, Any], control: Any, *, by: str = "ctrl", hold: int = 1
) -> dict[str, Any]:
    """Simulate a scene in PyTorch's automatic differentiation.

    Args:
        scene: a built scene.
        state: tensors `qpos`, `qvel` and, with activations, `act` of the initial state, (n_envs, n).
        control: tensor of controls, (n_controls, n_envs, n).
        by: kind of controls, as for `rollout`.
        hold: number of steps per control.

    Returns:
        Tensors `qpos`, `qvel` and `act` after each control, (n_controls, n_envs, n), of the dtype and on the device of
        `control`.
    """
    torch = torch_module()

    class Rollout(torch.autograd.Function):  # type: ignore[misc, name-defined]
        """Trajectory as a function of initial state and controls."""

        @staticmethod
        def forward(ctx: Any, control: Any, *parts: Any) -> Any:
            values = {name: x.detach().cpu().numpy() for name, x in zip(state, parts, strict=True)}
            trajectory, ctx.pullback = rollout(
                scene, control=control.detach().cpu().numpy(), state=values, by=by, hold=hold
            )
            ctx.like = control
            return tuple(torch.as_tensor(getattr(trajectory, name)).to(control) for name in STATE_PARTS)

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            given = {name: x.cpu().numpy() for name, x in zip(STATE_PARTS, cotangents, strict=True)}
            gradients = ctx.pullback(**given)
            tensors = [gradients["control"], *(gradients["state"][name] for name in state)]
            return tuple(torch.as_tensor(x).to(ctx.like) for x in tensors)

    return dict(zip(STATE_PARTS, Rollout.apply(control, *state.values()), strict=True))


def torch_step(
    scene: Scene, state: Mapping[str, Any], control: Any, *, by: str = "ctrl", hold: int = 1
) -> dict[str, Any]:
    """One control of `torch_rollout`: next state from a state and a control (n_envs, n), as tensors by name."""
    after = torch_rollout(scene, state, control[None], by=by, hold=hold)
    return {name: after[name][0] for name in state}
