"""Domain randomization: distributions, and physical parameters per environment set from samples of them.

Samples are applied to the nominal values, those at build time, so that repeated randomization does not accumulate.
Random streams depend on seed, environment index, entity and parameter only.
"""

from __future__ import annotations

import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from kinema.core import Diagnostics, KinemaError
from kinema.dynamics import PER_ENV_PARAMETERS, ControlMode

from .arguments import IndexArray, one_of, resolve_envs
from .built_scene import BuiltMixin, BuiltScene
from .console import ProgressBar, print_if_terminal
from .entity import Entity
from .state import snapshot_state, transfer_state

# ---------------------------------------------------------------------------------------------- distributions

OPERATIONS = ("scale", "add", "set")
"""Combination of sample and nominal value: product, sum, or the sample itself."""
SAMPLE_SCOPES = ("item", "env", "all")
"""One sample per item (link, dof or geom) and environment, per environment, or a single one for all."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A probability distribution, and how its samples change a parameter; see `uniform`, `loguniform`, `normal`."""

    kind: str
    """`uniform`, `loguniform` or `normal`."""
    a: float
    """Lower bound, or mean."""
    b: float
    """Upper bound, or standard deviation."""
    operation: str | None = None
    """One of `OPERATIONS`; None for the default of the parameter."""
    sample_per: str = "item"
    """One of `SAMPLE_SCOPES`."""

    def __post_init__(self) -> None:
        """Validate bounds, operation and sample scope; raises `KinemaError`."""
        one_of(self.sample_per, f"{self.kind}: sample_per", SAMPLE_SCOPES)
        if self.operation is not None:
            one_of(self.operation, f"{self.kind}: operation", OPERATIONS)
        numbers = (self.a, self.b)
        if any(isinstance(x, bool) or not isinstance(x, Real) or not math.isfinite(x) for x in numbers):
            raise KinemaError(f"{self.kind}: expected two finite numbers, not {self.a!r}, {self.b!r}")
        invalid = {"uniform": self.a > self.b, "loguniform": not 0.0 < self.a <= self.b, "normal": self.b < 0.0}
        if invalid[self.kind]:
            requirements = {"uniform": "a lower bound <= the upper bound", "normal": "a standard deviation >= 0"}
            requirement = requirements.get(self.kind, "positive bounds, the lower bound first")
            raise KinemaError(f"{self.kind}: expected {requirement}, not {self.a!r}, {self.b!r}")

    def sample(self, envs: np.ndarray, item_shape: tuple[int, ...], seed: int, stream: str) -> np.ndarray:
        """Samples for the given environments, (environments, *item_shape).

        The samples of an environment depend on its index, the seed and the stream name only, not on the number of
        environments.

        Args:
            envs: indices of the environments.
            item_shape: shape of the samples of one environment.
            seed: random seed.
            stream: name of the random stream, such as entity and parameter.
        """
        generator = np.random.default_rng([seed, zlib.crc32(stream.encode())])
        count = 1 if self.sample_per == "all" else int(envs.max(initial=-1)) + 1
        sample_shape = item_shape if self.sample_per == "item" else (1,) * len(item_shape)
        samples = self._sample(generator, (count, *sample_shape))
        selected = samples[np.zeros(len(envs), int) if self.sample_per == "all" else envs]
        return np.broadcast_to(selected, (len(envs), *item_shape))

    def _sample(self, generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Draw samples of the distribution, shape `shape`."""
        if self.kind == "normal":
            return generator.normal(self.a, self.b, shape)
        if self.kind == "loguniform":
            return np.exp(generator.uniform(math.log(self.a), math.log(self.b), shape))
        return generator.uniform(self.a, self.b, shape)

    def apply(self, nominal: Any, samples: np.ndarray, default_operation: str) -> np.ndarray:
        """Combine nominal values with samples by `operation`: product, sum, or the samples themselves.

        `default_operation` is used if the distribution has none.
        """
        match self.operation or default_operation:
            case "scale":
                return nominal * samples
            case "add":
                return nominal + samples
        return np.broadcast_to(samples, np.broadcast_shapes(np.shape(nominal), samples.shape)).copy()


def uniform(low: float, high: float, *, operation: str | None = None, sample_per: str = "item") -> Distribution:
    """Uniform distribution between two bounds.

    Args:
        low: lower bound.
        high: upper bound.
        operation: `scale` multiplies the nominal value, `add` is added to it, `set` replaces it; None for the default
            of the parameter: `add` for centres of mass and gravity, `scale` for all others.
        sample_per: `item` (default) draws one sample per link, dof or geom and environment, `env` one per environment,
            `all` a single one.
    """
    return Distribution("uniform", low, high, operation, sample_per)


def loguniform(low: float, high: float, *, operation: str | None = None, sample_per: str = "item") -> Distribution:
    """Log-uniform distribution between two positive bounds: the logarithm is uniformly distributed.

    Args:
        low: lower bound > 0.
        high: upper bound.
        operation: `scale`, `add` or `set`; see `uniform`.
        sample_per: `item` (default), `env` or `all`; see `uniform`.
    """
    return Distribution("loguniform", low, high, operation, sample_per)


def normal(mean: float, std: float, *, operation: str | None = None, sample_per: str = "item") -> Distribution:
    """Normal distribution.

    Args:
        mean: mean.
        std: standard deviation >= 0.
        operation: `scale`, `add` or `set`; see `uniform`.
        sample_per: `item` (default), `env` or `all`; see `uniform`.
    """
    return Distribution("normal", mean, std, operation, sample_per)


# ------------------------------------------------------------------------------------- randomizable parameters

GAIN_CONTROL_MODES = {"kp": ControlMode.POSITION, "kv": ControlMode.VELOCITY}
"""Control mode that each gain belongs to."""


@dataclass(frozen=True, slots=True)
class RandomizationTarget:
    """Entity, environments, links and dofs whose parameters are randomized."""

    entity: Entity
    envs: IndexArray
    """Indices of the environments."""
    links: Any
    """Selection of links within the entity; None for all."""
    dofs: Any
    """Selection of dofs within the entity; None for all."""


ParameterSetter = Callable[[RandomizationTarget, Distribution, Callable[[tuple[int, ...]], np.ndarray]], None]
"""Sets a parameter of a target from a distribution; the last argument draws samples of an item shape."""


def _randomize_mass(target: RandomizationTarget, distribution: Distribution, sample: Any) -> None:
    """Set link masses to nominal masses combined with samples (default: scale); negative masses are an error."""
    links = target.entity._link_indices(target.links, "randomize")
    nominal = target.entity._link_parameter_as_built("inertial_mass", target.envs)[:, links]
    masses = distribution.apply(nominal, sample((len(links),)), "scale")
    if (masses < 0.0).any():
        raise KinemaError("randomize: mass: the mass of a link would be negative")
    target.entity.set_mass_shift(masses - nominal, links, target.envs)


def _randomize_com(target: RandomizationTarget, distribution: Distribution, sample: Any) -> None:
    """Set centres of mass of links to nominal positions combined with samples (n, 3) (default: added) [m]."""
    links = target.entity._link_indices(target.links, "randomize")
    nominal = target.entity._link_parameter_as_built("inertial_pos", target.envs)[:, links]
    target.entity.set_com_shift(
        distribution.apply(nominal, sample((len(links), 3)), "add") - nominal, links, target.envs
    )


def _dof_parameter_setter(name: str) -> ParameterSetter:
    """Setter that randomizes a dof parameter: kp, kv, armature, damping or frictionloss (default operation: scale).

    Missing gains are first set to the default gains; dofs without dry friction stay without.
    """

    def randomize(target: RandomizationTarget, distribution: Distribution, sample: Any) -> None:
        dofs = target.entity._dof_indices(target.dofs, "randomize")
        if name in GAIN_CONTROL_MODES:
            _ensure_nominal_gains(target, name, dofs)
        _warn_zero_nominal_values(target, name, dofs, distribution)
        if name == "frictionloss":  # dofs without dry friction stay without
            dofs = dofs[_true_in_all_envs(_dof_values_as_built(target, name, dofs) > 0.0)]
        if len(dofs):
            values = distribution.apply(_dof_values_as_built(target, name, dofs), sample((len(dofs),)), "scale")
            getattr(target.entity, f"set_dofs_{name}")(values, dofs, target.envs)

    return randomize


def _ensure_nominal_gains(target: RandomizationTarget, name: str, dofs_idx: IndexArray) -> None:
    """Set default gains kp or kv of dofs that have none, and warn of dofs that are driven by actuators of the file.

    The gains of actuator-driven dofs take effect only once position or velocity control is used.
    """
    entity, controls = target.entity, target.entity._built_scene.controls
    dofs = entity.info.dof_start + dofs_idx
    controls.ensure_gains(GAIN_CONTROL_MODES[name], dofs)
    actuated = [
        entity.dof_names[i] for i in dofs_idx if controls.modes[entity.info.dof_start + i] == ControlMode.ACTUATOR
    ]
    if actuated:
        text = f"{name}: actuators of the file drive {_format_names(actuated)} and keep the gains of the file"
        hint = "the randomized gains take effect with control_dofs_position or control_dofs_velocity"
        _warn_once(target, "scene.gains-of-actuators", text, hint)


def _warn_zero_nominal_values(
    target: RandomizationTarget, name: str, dofs_idx: IndexArray, distribution: Distribution
) -> None:
    """Warn if all selected dofs have the nominal value 0, so that scaling by samples has no effect."""
    if (distribution.operation or "scale") != "scale":
        return
    zero = [
        target.entity.dof_names[i]
        for i in dofs_idx[_true_in_all_envs(_dof_values_as_built(target, name, dofs_idx) == 0.0)]
    ]
    if zero and name not in GAIN_CONTROL_MODES and len(zero) == len(dofs_idx):
        text = f"{name}: the nominal value of {_format_names(zero)} is zero: scaling has no effect"
        _warn_once(target, "scene.nothing-to-scale", text, 'use operation="add" or operation="set"')


def _format_names(names: list[str]) -> str:
    shown = ", ".join(f'"{name}"' for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _warn_once(target: RandomizationTarget, code: str, text: str, hint: str) -> None:
    """Report a warning unless the diagnostics of the scene already contain it."""
    diagnostics = target.entity.scene.diagnostics
    if not any(d.code == code and d.message == text for d in diagnostics):
        diagnostics.warning(code, text, hint=hint)


def _randomize_limits(target: RandomizationTarget, distribution: Distribution, sample: Any) -> None:
    """Randomize position limits: the range is scaled about its midpoint (default), or shifted with operation `add`.

    Only dofs with finite limits in all environments are changed; operation `set` raises `KinemaError`.
    """
    dofs = target.entity._dof_indices(target.dofs, "randomize")
    dofs = dofs[
        _true_in_all_envs(
            np.isfinite(_dof_values_as_built(target, "lower", dofs))
            & np.isfinite(_dof_values_as_built(target, "upper", dofs))
        )
    ]
    if not len(dofs):
        return
    lower, upper = _dof_values_as_built(target, "lower", dofs), _dof_values_as_built(target, "upper", dofs)
    midpoint, half_range, samples = (lower + upper) / 2, (upper - lower) / 2, sample((len(dofs),))
    if distribution.operation == "set":
        raise KinemaError(
            "randomize: limits can be scaled about their midpoint or shifted, not set: use set_dofs_limit"
        )
    if distribution.operation == "add":
        midpoint = midpoint + samples
    else:
        half_range = half_range * np.maximum(samples, 0.0)
    target.entity.set_dofs_limit(midpoint - half_range, midpoint + half_range, dofs, target.envs)


def _randomize_friction(target: RandomizationTarget, distribution: Distribution, sample: Any) -> None:
    _randomize_geoms(target, "friction", distribution, sample, columns=1)


def _randomize_geometry_scale(target: RandomizationTarget, distribution: Distribution, sample: Any) -> None:
    _randomize_geoms(target, "size", distribution, sample, columns=3)


def _randomize_geoms(
    target: RandomizationTarget, name: str, distribution: Distribution, sample: Any, columns: int
) -> None:
    """Randomize the sliding friction (columns 1) or the size (columns 3) of all geoms of an entity from nominal values.

    Args:
        target: entity and environments.
        name: `friction` or `size`.
        distribution: distribution; sizes can only be scaled, all axes by one factor.
        sample: draws samples of an item shape.
        columns: 1 for friction, 3 for size.
    """
    entity: Any = target.entity
    nominal = entity._geom_values_as_built(name)[target.envs][:, entity._all_geom_indices()]
    if columns > 1 and distribution.operation not in (None, "scale"):
        raise KinemaError(
            f"randomize: geometry_scale: sizes can only be scaled, not operation={distribution.operation!r}"
        )
    samples = sample((nominal.shape[1],))
    values = distribution.apply(nominal[..., 0], samples, "scale") if columns == 1 else nominal * samples[..., None]
    getattr(entity, f"set_geoms_{name}")(values, None, target.envs)


def _randomize_gravity(target: RandomizationTarget, distribution: Distribution, sample: Any) -> None:
    nominal = target.entity._built_scene.model.gravity
    target.entity.set_gravity(distribution.apply(nominal, sample((3,)), "add"), target.envs)


def _dof_values_as_built(target: RandomizationTarget, name: str, dofs_idx: IndexArray) -> np.ndarray:
    """Nominal values of a dof parameter, (n,) or (environments, n) with variants."""
    return target.entity._dof_parameter_as_built(name, target.envs)[..., dofs_idx]


def _true_in_all_envs(mask: np.ndarray) -> np.ndarray:
    """Whether a mask (n,) or (environments, n) is true in all environments, (n,)."""
    return np.asarray(mask.reshape(-1, mask.shape[-1]).all(axis=0))


@dataclass(frozen=True, slots=True)
class RandomizableParameter:
    """A parameter of `Scene.randomize`: its per-environment parameter and its setter."""

    per_env_name: str
    """Name in `build(per_env=...)`."""
    setter: ParameterSetter


RANDOMIZABLE_PARAMETERS = {
    "mass": RandomizableParameter("mass_shift", _randomize_mass),
    "com": RandomizableParameter("com_shift", _randomize_com),
    "friction": RandomizableParameter("geom_friction", _randomize_friction),
    "geometry_scale": RandomizableParameter("geom_size", _randomize_geometry_scale),
    **{
        name: RandomizableParameter(name, _dof_parameter_setter(name))
        for name in ("kp", "kv", "armature", "damping", "frictionloss")
    },
    "limits": RandomizableParameter("limit", _randomize_limits),
    "gravity": RandomizableParameter("gravity", _randomize_gravity),
}
"""Parameters of `Scene.randomize` by name."""


class RandomizationMixin(BuiltMixin, ABC):
    """Part of `Scene`: randomization of parameters per environment."""

    entities: list[Entity]
    diagnostics: Diagnostics
    progress: ProgressBar

    @abstractmethod
    def _rebuild(self, per_env: frozenset[str]) -> BuiltScene:
        """Build the scene again with other per-environment parameters."""

    def randomize(
        self,
        entity: Entity | None = None,
        *,
        links_idx: Any = None,
        dofs_idx: Any = None,
        envs_idx: Any = None,
        seed: int = 0,
        **distributions: Distribution,
    ) -> None:
        """Randomize physical parameters per environment; may be called any number of times.

        Samples are applied to the values at build time, not to earlier samples. Inertias scale with masses. A parameter
        that is not in `build(per_env=...)` requires one recompilation (`allow_per_env`).

        Args:
            entity: entity to randomize; None for all entities (gravity is common to the scene).
            links_idx: links by name, pattern or index; None for all.
            dofs_idx: dofs by name, pattern or index; None for all.
            envs_idx: environments by index, slice or mask; None for all.
            seed: random seed, default 0; an environment gets the same samples whatever the number of environments.
            **distributions: parameter name and distribution (`km.uniform`, `km.loguniform`, `km.normal`): `mass`, `com`
                [m], `friction`, `geometry_scale`, `kp`, `kv`, `armature`, `damping`, `frictionloss`, `limits`,
                `gravity` [m/s2].
        """
        for name, distribution in distributions.items():
            if name not in RANDOMIZABLE_PARAMETERS:
                raise KinemaError(
                    f"randomize: {name!r} cannot be randomized; parameters: {', '.join(RANDOMIZABLE_PARAMETERS)}"
                )
            if not isinstance(distribution, Distribution):
                raise KinemaError(
                    f"randomize: {name}: expected a distribution (km.uniform(low, high)), not {distribution!r}"
                )
        if entity is not None and not any(entity is item for item in self.entities):
            raise KinemaError(f"randomize: expected an entity of this scene, not {entity!r}")
        if not isinstance(seed, Integral) or isinstance(seed, bool) or seed < 0:
            raise KinemaError(f"randomize: seed: expected a whole number that is not negative, not {seed!r}")
        self.allow_per_env(*(RANDOMIZABLE_PARAMETERS[name].per_env_name for name in distributions))
        selected = resolve_envs(envs_idx, self.built.n_envs)
        envs = np.arange(self.built.n_envs) if selected is None else selected
        for target_entity in self.entities if entity is None else [entity]:
            target = RandomizationTarget(target_entity, envs, links_idx, dofs_idx)
            for name, distribution in distributions.items():
                if name == "gravity" and target_entity is not self.entities[0] and entity is None:
                    continue  # one gravity for all entities
                RANDOMIZABLE_PARAMETERS[name].setter(
                    target,
                    distribution,
                    lambda shape, d=distribution, n=name, e=target_entity.name: d.sample(
                        envs, shape, int(seed), f"{e} {n}"
                    ),
                )

    def allow_per_env(self, *parameters: str) -> None:
        """Let parameters differ between environments from now on.

        If a parameter was not in `build(per_env=...)`, the step is compiled once more, which is reported, and the state
        is kept. Arrays returned before with `out="view"` or `"torch"` are then no longer valid.

        Args:
            *parameters: names in `kinema.dynamics.PER_ENV_PARAMETERS`.
        """
        unknown = [p for p in parameters if p not in PER_ENV_PARAMETERS]
        if unknown:
            raise KinemaError(
                f"{unknown[0]!r} cannot differ between environments; these can: {', '.join(PER_ENV_PARAMETERS)}"
            )
        present = self.built.engine.settings.per_env
        missing = sorted(set(parameters) - present)
        if not missing:
            return
        listed = ", ".join(missing)
        text = f"{listed}: now per environment; the step is compiled once more"
        quoted = ", ".join(f'"{p}"' for p in sorted(present | set(missing)))
        self.diagnostics.note(
            "scene.recompiled", text, hint=f"use scene.build(per_env=({quoted},)) to avoid the recompilation"
        )
        print_if_terminal(text, self.progress)
        state = snapshot_state(self.built)
        transfer_state(self._rebuild(present | set(missing)), state)
