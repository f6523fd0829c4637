"""Domain randomization: distributions, and physical parameters per environment set from samples of them.

Samples are applied to the nominal values, those at build time, so that repeated randomization does not accumulate.
Random streams depend on seed, environment index, entity and parameter only.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any, Protocol

import numpy as np

from kinema.core import KinemaError
from kinema.dynamics import ControlMode

from .arguments import IndexArray, Selection, one_of, resolve_envs
from .entity import Entity

# ---------------------------------------------------------------------------------------------- distributions

OPERATIONS = ("scale", "add", "set")
"""Combination of sample and nominal value: product, sum, or the sample itself."""
SAMPLE_SCOPES = ("item", "env", "all")
"""One sample per item (link, dof or geom) and environment, per environment, or a single one for all."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A probability distribution, and how its samples change a parameter; made by `uniform`, `loguniform`, `normal`."""

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

    def sample(self, envs: np.ndarray, element_shape: tuple[int, ...], seed: int, stream: str) -> np.ndarray:
        """Samples for the given environments, (environments, *element_shape).

        The samples of an environment depend on its index, the seed and the stream name only, not on the number of
        environments.

        Args:
            envs: indices of the environments.
            element_shape: shape of the samples of one environment.
            seed: random seed.
            stream: name of the random stream, such as entity and parameter.
        """
        generator = np.random.default_rng([seed, zlib.crc32(stream.encode())])
        count = 1 if self.sample_per == "all" else int(envs.max(initial=-1)) + 1
        sample_shape = element_shape if self.sample_per == "item" else (1,) * len(element_shape)
        samples = self._sample(generator, (count, *sample_shape))
        selected = samples[np.zeros(len(envs), int) if self.sample_per == "all" else envs]
        return np.broadcast_to(selected, (len(envs), *element_shape))

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
    """Uniform distribution of the samples of a parameter, between the bounds `low` and `high`.

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
    """Log-uniform distribution between the bounds 0 < `low` <= `high`: the logarithm is uniformly distributed.

    `operation` and `sample_per`: see `uniform`.
    """
    return Distribution("loguniform", low, high, operation, sample_per)


def normal(mean: float, std: float, *, operation: str | None = None, sample_per: str = "item") -> Distribution:
    """Normal distribution with a mean and a standard deviation >= 0.

    `operation` and `sample_per`: see `uniform`.
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
    links = target.entity._index.links(target.links, "randomize")
    nominal = target.entity._parameters.links_as_built("inertial_mass", target.envs)[:, links]
    masses = distribution.apply(nominal, sample((len(links),)), "scale")
    if (masses < 0.0).any():
        raise KinemaError("randomize: mass: the mass of a link would be negative")
    target.entity.set_mass_shift(masses - nominal, links, target.envs)


def _randomize_com(target: RandomizationTarget, distribution: Distribution, sample: Any) -> None:
    """Set centres of mass of links to nominal positions combined with samples (n, 3) (default: added) [m]."""
    links = target.entity._index.links(target.links, "randomize")
    nominal = target.entity._parameters.links_as_built("inertial_pos", target.envs)[:, links]
    target.entity.set_com_shift(
        distribution.apply(nominal, sample((len(links), 3)), "add") - nominal, links, target.envs
    )


def _dof_parameter_setter(name: str) -> ParameterSetter:
    """Setter that randomizes a dof parameter: kp, kv, armature, damping or frictionloss (default operation: scale).

    Missing gains are first set to the default gains; dofs without dry friction stay without.
    """

    def randomize(target: RandomizationTarget, distribution: Distribution, sample: Any) -> None:
        dofs = target.entity._index.dofs(target.dofs, "randomize")
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
    entity, controls = target.entity, target.entity._index.built.controls
    dofs = entity.info.dof_start + dofs_idx
    controls.ensure_gains(GAIN_CONTROL_MODES[name], dofs)
    controls.keep_gains(dofs)
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
    """Warn if a parameter is scaled by random samples, but its nominal value is 0 in all selected dofs (no effect)."""
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
    dofs = target.entity._index.dofs(target.dofs, "randomize")
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
    """Set the sliding friction of all geoms of an entity to nominal values combined with samples (default: scale)."""
    nominal = _geom_values_as_built(target, "friction")[..., 0]
    values = distribution.apply(nominal, sample((nominal.shape[1],)), "scale")
    target.entity.set_geoms_friction(values, None, target.envs)


def _randomize_geometry_scale(target: RandomizationTarget, distribution: Distribution, sample: Any) -> None:
    """Scale the size of each geom of an entity, all axes by one sampled factor; other operations are an error."""
    if distribution.operation not in (None, "scale"):
        raise KinemaError(
            f"randomize: geometry_scale: sizes can only be scaled, not operation={distribution.operation!r}"
        )
    nominal = _geom_values_as_built(target, "size")
    target.entity.set_geoms_size(nominal * sample((nominal.shape[1],))[..., None], None, target.envs)


def _geom_values_as_built(target: RandomizationTarget, name: str) -> np.ndarray:
    """Nominal values of a parameter of all geoms of an entity, (environments, n_geoms, components)."""
    return target.entity._geom_parameters.as_built(name)[target.envs][:, target.entity._index.all_geoms]


def _randomize_gravity(target: RandomizationTarget, distribution: Distribution, sample: Any) -> None:
    nominal = target.entity._index.built.model.gravity
    target.entity.set_gravity(distribution.apply(nominal, sample((3,)), "add"), target.envs)


def _dof_values_as_built(target: RandomizationTarget, name: str, dofs_idx: IndexArray) -> np.ndarray:
    """Nominal values of a dof parameter, (n,) or (environments, n) with variants."""
    return target.entity._parameters.dofs_as_built(name, target.envs)[..., dofs_idx]


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


def check_distributions(distributions: Mapping[str, Any], seed: Any) -> None:
    """Raise `KinemaError` unless names and distributions of parameters and the random seed are valid."""
    for name, distribution in distributions.items():
        if name not in RANDOMIZABLE_PARAMETERS:
            raise KinemaError(
                f"randomize: {name!r} cannot be randomized; parameters: {', '.join(RANDOMIZABLE_PARAMETERS)}"
            )
        if not isinstance(distribution, Distribution):
            raise KinemaError(
                f"randomize: {name}: expected a distribution (km.uniform(low, high)), not {distribution!r}"
            )
    if not isinstance(seed, Integral) or isinstance(seed, bool) or seed < 0:
        raise KinemaError(f"randomize: seed: expected a whole number that is not negative, not {seed!r}")


class RandomizedScene(Protocol):
    """Interface of `Scene` for randomization."""

    entities: list[Entity]

    def allow_per_env(self, *parameters: str) -> None:
        """Make parameters per-environment."""
        ...


def randomize_entities(
    scene: RandomizedScene,
    entity: Entity | None,
    distributions: Mapping[str, Distribution],
    seed: int,
    **selections: Selection,
) -> None:
    """Randomize parameters of an entity, or of all entities of a scene; arguments: see `Scene.randomize`."""
    check_distributions(distributions, seed)
    if entity is not None and not any(entity is own for own in scene.entities):
        raise KinemaError(f"randomize: expected an entity of this scene, not {entity!r}")
    scene.allow_per_env(*(RANDOMIZABLE_PARAMETERS[name].per_env_name for name in distributions))
    remaining = dict(distributions)
    for target in scene.entities if entity is None else [entity]:
        randomize_entity(target, remaining, seed, **selections)
        if entity is None:  # one gravity for all entities
            remaining.pop("gravity", None)


def randomize_entity(
    entity: Entity,
    distributions: Mapping[str, Distribution],
    seed: int,
    *,
    links_idx: Selection,
    dofs_idx: Selection,
    envs_idx: Selection,
) -> None:
    """Set parameters of an entity from random samples, which scale, shift or replace the values at build time.

    Args:
        entity: the entity.
        distributions: distribution by parameter name; the parameters are per-environment.
        seed: random seed, a non-negative integer.
        links_idx: links; None for all.
        dofs_idx: dofs; None for all.
        envs_idx: environments; None for all.
    """
    n_envs = entity._index.built.n_envs
    selected = resolve_envs(envs_idx, n_envs)
    envs = np.arange(n_envs) if selected is None else selected
    target = RandomizationTarget(entity, envs, links_idx, dofs_idx)
    for name, distribution in distributions.items():
        sample = partial(distribution.sample, envs, seed=int(seed), stream=f"{entity.name} {name}")
        RANDOMIZABLE_PARAMETERS[name].setter(target, distribution, sample)
