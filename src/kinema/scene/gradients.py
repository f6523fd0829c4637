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

from kinema.core import KinemaError
from kinema.runtime import ArraySeries, share_torch_stream, synchronise_unless_shared, torch_module

from .arguments import as_array, boolean, check_finite, nonnegative_float, positive_float, positive_int
from .linearization import CONTROL_KINDS

if TYPE_CHECKING:
    from .built_scene import BuiltScene
    from .scene import Scene

STATE_PARTS = ("qpos", "qvel", "act")
"""Parts of the state: generalized coordinates, velocities and activations of actuators."""


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory:
    """State of all environments, and sensor values, after each control: NumPy arrays, or tensors like the controls."""

    qpos: Any
    """Generalized coordinates, (n_controls, n_envs, n_qs)."""
    qvel: Any
    """Velocities, (n_controls, n_envs, n_dofs)."""
    act: Any
    """Activations of the actuators, (n_controls, n_envs, n_actuators); without actuators with activation (..., 0)."""
    sensors: Any = None
    """Values of all sensors in the order of `scene.sensors`, without noise and delay, (n_controls, n_envs, n_values);
    None unless requested."""


Gradients = dict[str, Any]
"""`control` (n_controls, n_envs, n); `state`, a dictionary of `qpos`, `qvel` and `act`, (n_envs, n) each; `params`, if
any are given, by name, in the shape of the values, or (n_envs, ...) for present values; and `valid`, (n_envs,), whether
the gradients of an environment are finite, complete, and those of a converged simulation."""


class _Exchange:
    """Conversion between series of an engine and arrays of the user, (times, environments, values).

    Arrays are tensors of the dtype and on the device of the controls if these are a tensor, else NumPy arrays. Tensors
    on the GPU of the scene are never copied to the host.
    """

    def __init__(self, built: BuiltScene, control: Any) -> None:
        self.engine = built.engine
        self.like = control.detach() if hasattr(control, "detach") else None
        """The controls, if they are a tensor."""
        self.on_gpu = self.like is not None and built.outputs.is_gpu_tensor(self.like)
        """Whether arrays are tensors on the GPU of the scene."""
        self.use_current_stream()

    def use_current_stream(self) -> None:
        """Launch on PyTorch's current stream from now on, if arrays are tensors on the GPU of the scene."""
        if self.on_gpu:
            share_torch_stream(self.engine.device)

    def checked(self, values: Any, label: str) -> Any:
        """Finite values as NumPy array in double precision; tensors on the GPU of the scene as they are, unchecked."""
        if self.on_gpu and getattr(values, "is_cuda", False):
            return values.detach()
        return check_finite(as_array(values, np.float64, label), label)

    def on_host(self, values: Any, label: str) -> Any:
        """Values as NumPy array in double precision, finite except for absent limits."""
        array = as_array(values, np.float64, label)
        return array if np.isinf(array).any() and not np.isnan(array).any() else check_finite(array, label)

    def from_host(self, values: Any) -> Any:
        """NumPy array as an array of the user."""
        return values if self.like is None else torch_module().from_numpy(values).to(self.like)

    def output(self, series: ArraySeries) -> Any:
        """Series as an array of the user."""
        if self.on_gpu and self.like is not None:
            synchronise_unless_shared(self.engine.device)
            return series.to_torch().movedim(-1, 1).to(self.like.dtype).contiguous()
        values = np.array(series.numpy().transpose(0, 2, 1), np.float64)
        return values if self.like is None else torch_module().from_numpy(values).to(self.like)

    def mask(self, failures: ArraySeries, gradients: list[Any]) -> Any:
        """Mask of the environments without failures, and with finite gradients (times, environments, values)."""
        if self.on_gpu:
            is_valid = (failures.to_torch()[0] == 0.0).all(0)
            for values in gradients:
                is_valid = is_valid & values.isfinite().all(-1).all(0)
            return is_valid
        is_valid = (failures.numpy()[0] == 0.0).all(0)
        for values in gradients:
            is_valid &= np.isfinite(np.asarray(values.cpu() if self.like is not None else values)).all((0, 2))
        return is_valid if self.like is None else torch_module().from_numpy(is_valid).to(self.like.device)


def rollout(
    scene: Scene,
    *,
    control: Any,
    state: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    by: str = "ctrl",
    hold: int = 1,
    sensors: bool = False,
    smoothing: float = 0.0,
) -> tuple[Trajectory, Callable[..., Gradients]]:
    """Simulate a scene with a sequence of controls; return the trajectory and its pullback.

    The scene is left in the final state. The pullback can be called several times, also after other rollouts. It
    repeats the simulation of long trajectories from checkpoints, with the same bits, so that memory grows with the
    square root of the length. Compiled programs are kept with the scene.

    Args:
        scene: a built scene.
        control: controls of all entities, (n_controls, n_envs, n), or (n_controls, n) for all environments. If it is a
            PyTorch tensor, trajectory and gradients are tensors of its dtype and on its device; on the GPU of the scene
            nothing is copied to the host.
        state: initial state: `qpos`, `qvel` and `act` of all entities, (n_envs, n) or (n,); parts that are missing are
            those of the scene. None for the state of the scene.
        params: parameters of the model by name, with which the scene is simulated: values of all entities for all
            environments, or per environment, (n_envs, ...); None for the present values. The scene keeps its own.
        by: `ctrl`, controls of the actuators; `force`, forces on the dofs; `position`, targets of the dofs.
        hold: number of steps per control; default 1.
        sensors: whether the trajectory contains the sensor values; default False.
        smoothing: distance [m] over which contacts begin gradually in the pullback, whose gradients then see contacts
            before they begin; the trajectory is that of `step` (docs/gradients.md). Default 0 for exact gradients.

    Returns:
        The trajectory, and a function `pullback(qpos=None, qvel=None, act=None, sensors=None, max_norm=None)` of the
        gradient of a scalar function by the trajectory, in its shapes, that returns the gradients by `control`,
        `state` and `params`, and which are `valid`. With `max_norm` the gradient by the state before each step is
        scaled down to this norm, in each environment.
    """
    from kinema.dynamics import ParameterValues, Simulation

    if by not in CONTROL_KINDS:
        raise KinemaError(f"rollout: by={by!r} is not one of {', '.join(map(repr, CONTROL_KINDS))}")
    hold = positive_int(hold, "rollout: hold", "step")
    if scene.built.motions:
        raise KinemaError("rollout: there is no derivative of motions of kinematic bodies that a file gives")
    built = scene._linearization.built_to_differentiate()
    n_values, with_sensors = built.model.sensors.n_values, boolean(sensors, "rollout: sensors")
    smoothing = nonnegative_float(smoothing, "rollout: smoothing")
    exchange = _Exchange(built, control)
    controls = _controls(
        exchange, control, built.n_envs, built.model.n_actuators if by == "ctrl" else built.model.n_dofs
    )
    for name, values in (state or {}).items():
        _set_state(built, exchange, name, values)
    programs = scene._linearization.adjoint_programs(built.engine, by, smoothing, list(params or {}))
    parameters = None
    if params:
        given = {name: None if x is None else exchange.on_host(x, f"params[{name!r}]") for name, x in params.items()}
        parameters = ParameterValues(built.engine, programs.parameters, given)
    simulation = Simulation(
        programs, controls, hold * scene.substeps, sensors=with_sensors and n_values > 0, parameters=parameters
    )
    scene._linearization.store_state(built)
    trajectory = Trajectory(**{name: exchange.output(series) for name, series in simulation.trajectory.items()})
    shape = (len(controls), built.n_envs, n_values)
    if with_sensors and not n_values:
        empty = np.zeros(shape) if exchange.like is None else exchange.like.new_zeros(shape)
        trajectory = Trajectory(trajectory.qpos, trajectory.qvel, trajectory.act, empty)

    def pullback(
        qpos: Any = None, qvel: Any = None, act: Any = None, sensors: Any = None, max_norm: float | None = None
    ) -> Gradients:
        given = {"qpos": qpos, "qvel": qvel, "act": act, "sensors": sensors}
        if max_norm is not None:
            max_norm = positive_float(max_norm, "pullback: max_norm")
        exchange.use_current_stream()
        cotangents = {}
        for name, values in given.items():
            if values is None:
                continue
            array = exchange.checked(values, f"pullback: {name}")
            expected = shape if name == "sensors" else tuple(getattr(trajectory, name).shape)
            if tuple(array.shape) != expected:
                raise KinemaError(
                    f"pullback: {name} must have the trajectory's shape {expected}, not {tuple(array.shape)}"
                )
            if array.shape[2]:
                cotangents[name] = ArraySeries(len(array), array.shape[2], built.engine.state, "the gradients")
                cotangents[name].assign(array)
        found = simulation.pullback(cotangents, max_norm)
        by_control, by_state = exchange.output(found.control), {x: exchange.output(y) for x, y in found.state.items()}
        by_array = [exchange.from_host(np.ascontiguousarray(x.T[None])) for x in found.parameters.values()]
        is_valid = exchange.mask(found.failures, [by_control, *by_state.values(), *by_array])
        result = {"control": by_control, "state": {name: x[0] for name, x in by_state.items()}, "valid": is_valid}
        if parameters is not None:
            by_parameter = parameters.pull_back(found.parameters)
            result["params"] = {name: exchange.from_host(x) for name, x in by_parameter.items()}
        return result

    return trajectory, pullback


def _controls(exchange: _Exchange, control: Any, n_envs: int, n: int) -> Any:
    """Controls (n_controls, n_envs, n) from those of the user; KinemaError for other shapes."""
    controls = exchange.checked(control, "rollout: control")
    if controls.ndim == 2:
        controls = controls[:, None] + np.zeros((n_envs, 1)) if isinstance(controls, np.ndarray) else controls[:, None]
        controls = controls if isinstance(controls, np.ndarray) else controls.expand(-1, n_envs, -1)
    if tuple(controls.shape[1:]) != (n_envs, n) or not len(controls):
        raise KinemaError(
            f"rollout: control must have shape (n_controls, {n_envs}, {n}) or (n_controls, {n}), with at least "
            f"one control, not {tuple(np.shape(control))}"
        )
    return controls


def _set_state(built: BuiltScene, exchange: _Exchange, name: str, values: Any) -> None:
    """Set a part of the state of all entities."""
    if name not in STATE_PARTS:
        raise KinemaError(f"rollout: state has {', '.join(STATE_PARTS)}, not {name!r}")
    name_of_array = "vel" if name == "qvel" else name
    array = exchange.checked(values, f"rollout: state[{name!r}]")
    n = built.engine.state.layout.rows[name_of_array][1]
    if tuple(array.shape) not in ((n,), (built.n_envs, n)):
        raise KinemaError(
            f"rollout: state[{name!r}] must have shape ({built.n_envs}, {n}) or ({n},), not {tuple(array.shape)}"
        )
    if not n:
        return
    if isinstance(array, np.ndarray):
        built.engine.array_view(name_of_array).assign(np.broadcast_to(array, (built.n_envs, n)).T)
    else:
        built.arrays.write_tensor(name_of_array, slice(None), array, None)


# ------------------------------------------------------------------------------------------------------------- PyTorch


def torch_rollout(  # noqa: PLR0913  one parameter per option
    scene: Scene,
    state: Mapping[str, Any],
    control: Any,
    params: Mapping[str, Any] | None = None,
    *,
    by: str = "ctrl",
    hold: int = 1,
    sensors: bool = False,
    max_norm: float | None = None,
    smoothing: float = 0.0,
) -> dict[str, Any]:
    """Simulate a scene in PyTorch's automatic differentiation; tensors on the scene's GPU stay there.

    Args:
        scene: a built scene.
        state: tensors `qpos`, `qvel` and, with activations, `act` of the initial state, (n_envs, n).
        control: tensor of controls, (n_controls, n_envs, n).
        params: tensors of model parameters by name, as for `rollout`.
        by: kind of controls, as for `rollout`.
        hold: number of steps per control.
        sensors: whether the sensor values are among the results.
        max_norm: largest norm of the gradient by the state before each step, as in the pullback of `rollout`.
        smoothing: distance over which contacts begin gradually in the gradients, as for `rollout`.

    Returns:
        Tensors `qpos`, `qvel` and `act`, and with `sensors` also `sensors`, after each control, (n_controls, n_envs,
        n), of the dtype and on the device of `control`.
    """
    torch = torch_module()
    names = (*STATE_PARTS, "sensors") if sensors else STATE_PARTS
    parameters: dict[str, Any] = dict(params or {})

    class Rollout(torch.autograd.Function):  # type: ignore[misc, name-defined]
        """Trajectory as a function of controls, initial state and parameters."""

        @staticmethod
        def forward(ctx: Any, control: Any, *parts: Any) -> Any:
            values = dict(zip(state, parts[: len(state)], strict=True))
            given = dict(zip(parameters, parts[len(state) :], strict=True))
            options = {"by": by, "hold": hold, "sensors": sensors, "smoothing": smoothing}
            trajectory, ctx.pullback = rollout(scene, control=control, state=values, params=given, **options)
            ctx.set_materialize_grads(False)
            return tuple(getattr(trajectory, name) for name in names)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, *cotangents: Any) -> Any:
            gradients = ctx.pullback(**dict(zip(names, cotangents, strict=True)), max_norm=max_norm)
            by_params = (
                None if x is None else gradients["params"][name].to(x.device) for name, x in parameters.items()
            )
            return gradients["control"], *(gradients["state"][name] for name in state), *by_params

    return dict(zip(names, Rollout.apply(control, *state.values(), *parameters.values()), strict=True))


def torch_step(  # noqa: PLR0913  one parameter per option
    scene: Scene,
    state: Mapping[str, Any],
    control: Any,
    params: Mapping[str, Any] | None = None,
    *,
    by: str = "ctrl",
    hold: int = 1,
    sensors: bool = False,
    max_norm: float | None = None,
    smoothing: float = 0.0,
) -> dict[str, Any]:
    """One control of `torch_rollout`: next state from a state, a control (n_envs, n) and parameters, as tensors."""
    options = {"by": by, "hold": hold, "sensors": sensors, "max_norm": max_norm, "smoothing": smoothing}
    after = torch_rollout(scene, state, control[None], params, **options)
    return {name: after[name][0] for name in (*state, *(["sensors"] if sensors else []))}
