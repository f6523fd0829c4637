"""Linearisation of the step of a scene, and comparison of its derivatives with finite differences."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kinema.core import Array, KinemaError
from kinema.dynamics import Engine

from .arguments import IndexArray, Selection, resolve_envs
from .built_scene import BuiltScene, HasBuiltScene
from .state import snapshot_state, transfer_state

CONTROL_KINDS = ("ctrl", "force", "position")
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Linearization:
    """Jacobians of one step: x' = A x + B u and sensor values y = C x + D u, for small changes of state and controls.

    The state x is (positions, velocities, activations) of dimension 2 n_dofs + n_activations, in the order of the dofs
    of the scene; changes of orientations are rotation vectors in body axes, as in MuJoCo's `mjd_transitionFD`.
    """

    A: Any
    """Next state by state, (n_envs, n_state, n_state)."""
    B: Any
    """Next state by controls, (n_envs, n_state, n_controls)."""
    C: Any
    """Sensor values before the step by state, (n_envs, n_values, n_state)."""
    D: Any
    """Sensor values before the step by controls, (n_envs, n_values, n_controls)."""
    valid: Any
    """Whether the matrices are finite, and the constraint solver converged in fewer than its maximum of iterations,
    (n_envs,)."""


@dataclass(frozen=True, slots=True, eq=False)
class GradientCheck:
    """Comparison of the derivatives A and B of a step with finite differences."""

    n_entries: int
    """Number of entries of A and B in all environments."""
    n_smooth: int
    """Entries whose forward and backward differences agree: the step is differentiable there."""
    n_one_sided: int
    """Other entries that agree with the forward or the backward difference: the step has a kink."""
    max_error: float
    """Largest error of the smooth entries, relative to the largest entry of their row."""
    errors: Array
    """Error of each entry, (n_envs, n_state, n_state + n_controls), NaN where the step is not smooth."""

    def __str__(self) -> str:
        return (
            f"{self.n_smooth:,} of {self.n_entries:,} entries smooth, largest relative error {self.max_error:.1e}; "
            f"{self.n_one_sided:,} one-sided, {self.n_entries - self.n_smooth - self.n_one_sided:,} undetermined"
        )


@dataclass(frozen=True, slots=True, eq=False)
class DifferenceComparison:
    """Comparison of derivatives with finite differences."""

    errors: Array
    """Relative errors of the derivatives, NaN where the function is not smooth within the smallest perturbation."""
    is_one_sided: BoolArray
    """Other derivatives that agree with the extrapolated forward or backward difference, or with the mean of both, as
    where two values are equal of which the larger one counts: the function has a kink."""


def compare_with_differences(
    exact: Array, scale: Array, differences: Callable[[float], tuple[Array, Array]], step: float, tolerance: float
) -> DifferenceComparison:
    """Compare derivatives with differences over distances h and h / 2, and where there is a kink a tenth of both.

    Differences are extrapolated (Richardson): central ones where the function is smooth, one-sided ones where it has a
    kink, which is where extrapolated forward and backward differences disagree.

    Args:
        exact: derivatives.
        scale: magnitudes to which errors are relative, in a shape that broadcasts with the derivatives.
        differences: function of h that returns the forward and backward differences of the derivatives' shape.
        step: distance h.
        tolerance: relative difference of forward and backward differences from which on there is a kink.
    """
    errors, is_one_sided = np.full(exact.shape, np.nan), np.zeros(exact.shape, np.bool_)
    for h in (step, 0.1 * step):
        (forward, backward), (forward_half, backward_half) = differences(h), differences(0.5 * h)
        ahead, behind = 2.0 * forward_half - forward, 2.0 * backward_half - backward
        # of a smooth function one-sided differences differ by the second derivative: half as much at half the step
        jump, jump_half = (np.abs(x) / scale for x in (forward - backward, forward_half - backward_half))
        is_linear = np.abs(ahead - behind) < tolerance * scale
        is_smooth = (jump_half < tolerance) | is_linear
        central, central_half = 0.5 * (forward + backward), 0.5 * (forward_half + backward_half)
        # a kink beyond half the step is no part of the derivative
        is_reached = (jump >= tolerance) & ~is_linear
        expected = np.where(is_reached, central_half, (4.0 * central_half - central) / 3.0)
        is_new = np.isnan(errors) & is_smooth
        errors[is_new] = (np.abs(exact - expected) / scale)[is_new]
        sides = [np.abs(exact - x) for x in (ahead, behind, forward_half, backward_half, 0.5 * (ahead + behind))]
        is_one_sided |= np.min(sides, axis=0) < np.sqrt(tolerance) * scale
        if is_smooth.all():
            break
    return DifferenceComparison(errors, is_one_sided & np.isnan(errors))


class SubsteppedScene(HasBuiltScene, Protocol):
    """Interface of `Scene` for its linearisation."""

    substeps: int
    _builder: PairTableBuilder


class PairTableBuilder(Protocol):
    """Interface of `SceneBuilder` for derivatives."""

    def build_with_pair_table(self) -> BuiltScene:
        """The scene with a table of all pairs of geoms, beside the present build."""
        ...


class SceneLinearization:
    """Derivatives of the step of a scene, with compiled programs that are kept between calls."""

    def __init__(self, scene: SubsteppedScene) -> None:
        self._scene = scene
        self._linearizers: dict[object, tuple[object, Any]] = {}
        """Kind of control -> version of the programs, and the linearizer."""
        self._adjoints: dict[object, tuple[object, Any]] = {}
        """Kind of control and smoothing -> version of the programs, and the adjoint programs."""
        self._all_envs = np.arange(0)
        self._pair_table: tuple[BuiltScene, BuiltScene] | None = None
        """A build of the scene with rules of collision, and the same scene with a table of pairs."""

    def built_to_differentiate(self) -> BuiltScene:
        """The built scene whose step has a derivative, at the present state.

        This is the scene itself, unless it has rules of collision: these say which pairs of many geoms may collide only
        while the step runs, and derivatives are those of the same scene with a table of pairs.
        """
        built = self._scene.built
        if built.engine.settings.presence:
            raise KinemaError("gradients: entities of the scene can be spawned and removed: build it without room")
        if not built.model.has_pair_rules:
            return built
        if self._pair_table is None or self._pair_table[0] is not built:
            self._pair_table = built, self._scene._builder.build_with_pair_table()
        twin = self._pair_table[1]
        transfer_state(twin, snapshot_state(built))
        return twin

    def store_state(self, differentiated: BuiltScene) -> None:
        """Copy the state from the built scene that was differentiated to the scene, unless they are the same."""
        if differentiated is not self._scene.built:
            transfer_state(self._scene.built, snapshot_state(differentiated))

    def linearize(self, envs_idx: Selection, by: str) -> Linearization:
        """Jacobians of one step at the current state of the selected environments."""
        a, b, c, d, converged, finite = self._linearizer(by, "linearize").compute(self._selected(envs_idx))
        outputs = self._scene.built.outputs
        matrices = [x if x.flags.c_contiguous else np.ascontiguousarray(x) for x in (a, b, c, d)]
        return Linearization(*map(outputs.convert_owned, (*matrices, converged & finite)))

    def check(self, envs_idx: Selection, by: str, step: float, tolerance: float) -> GradientCheck:
        """Compare the Jacobians A and B of the step with finite differences; returns relative errors and counts."""
        envs = self._selected(envs_idx)
        linearizer = self._linearizer(by, "check_gradients")
        jacobians = linearizer.compute(envs)
        exact = np.concatenate([jacobians.A, jacobians.B], axis=2)
        scale = np.maximum(np.abs(exact).max(axis=2, keepdims=True, initial=0.0), 1e-9)
        found = compare_with_differences(exact, scale, lambda h: linearizer.differences(envs, h), step, tolerance)
        is_smooth = ~np.isnan(found.errors)
        max_error = float(np.nanmax(found.errors)) if is_smooth.any() else 0.0
        return GradientCheck(exact.size, int(is_smooth.sum()), int(found.is_one_sided.sum()), max_error, found.errors)

    def _selected(self, envs_idx: Selection) -> IndexArray:
        """Indices of the selected environments."""
        n_envs = self._scene.built.n_envs
        envs = resolve_envs(envs_idx, n_envs)
        if envs is not None:
            return envs
        if len(self._all_envs) != n_envs:
            self._all_envs = np.arange(n_envs)
        return self._all_envs

    def _linearizer(self, by: str, label: str) -> Any:
        """Compiled derivatives by one kind of controls, kept until the scene is built again."""
        if by not in CONTROL_KINDS:
            raise KinemaError(f"{label}: by={by!r} is not one of {', '.join(map(repr, CONTROL_KINDS))}")

        return self._kept(
            self._linearizers, by, self.built_to_differentiate().engine, partial(self._new_linearizer, by)
        )

    def _new_linearizer(self, by: str, engine: Engine) -> Any:
        """Derivatives by one kind of controls."""
        from kinema.dynamics import Linearizer

        return Linearizer(engine, by, self._scene.substeps)

    def adjoint_programs(self, engine: Engine, by: str, smoothing: float, parameters: Collection[str] = ()) -> Any:
        """Compiled programs of rollouts and their adjoint by one kind of controls, kept as the linearizers.

        Args:
            engine: engine of the scene that is differentiated.
            by: kind of controls.
            smoothing: distance [m] over which contacts begin gradually in the adjoint.
            parameters: names of the model parameters that are inputs.
        """
        from kinema.dynamics import AdjointPrograms

        make = partial(AdjointPrograms, by=by, smoothing=smoothing, parameters=parameters)
        return self._kept(self._adjoints, (by, smoothing, *sorted(parameters)), engine, make)

    @staticmethod
    def _kept(
        kept: dict[object, tuple[object, Any]], key: object, engine: Engine, make: Callable[[Engine], Any]
    ) -> Any:
        """Programs by key for an engine, made anew if the engine or its step has changed."""
        version = id(engine), engine.settings, engine.digest
        if key not in kept or kept[key][0] != version:
            kept[key] = version, make(engine)
        return kept[key][1]
