"""Physical parameters of the dofs and links of an entity: gains, limits, damping, dry friction, solref/solimp, masses.

Before build, values are stored for `build_scene`. After build, a parameter is one array row shared by all environments,
a row per environment (`scene.build(per_env=...)`), or a constant of the compiled program, which cannot be set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinema.core import KinemaError
from kinema.dynamics import PER_ENV_PARAMETERS
from kinema.model import Model

from .arguments import (
    IndexArray,
    Selection,
    as_array,
    as_batch,
    check_parameter_values,
    link_vectors,
    one_of,
    parse_sol_params,
    resolve_envs,
)
from .arrays import component_rows
from .built_scene import BuiltScene
from .entity_index import EntityIndex


@dataclass(frozen=True, slots=True)
class DofParameter:
    """A parameter of dofs: names of its methods and of its per-environment option."""

    accessor: str
    """Suffix of the methods `get_dofs_...` and `set_dofs_...`."""
    per_env_name: str
    """Name in `build(per_env=...)`."""


DOF_PARAMETERS = {
    **{
        name: DofParameter(name, name)
        for name in ("kp", "kv", "armature", "damping", "stiffness", "frictionloss", "invweight")
    },
    **{name: DofParameter("force_range", name) for name in ("force_lower", "force_upper")},
    **{name: DofParameter("limit", "limit") for name in ("lower", "upper")},
}
"""Parameters of dofs by name of their array and of their field of `model.dofs`."""
SOL_PARAMS_KINDS = ("limit", "friction")
"""Constraints of a dof that have soft-constraint parameters: joint limit, dry friction."""


def write_parameter(
    built: BuiltScene,
    name: str,
    rows: slice | IndexArray,
    element_shape: tuple[int, ...],
    values: Any,
    envs_idx: Selection,
    label: str,
) -> None:
    """Validate and write a parameter, shared by all environments or per environment.

    Raises `KinemaError` if the parameter is a constant of the program, or if a shared parameter would differ between
    environments.

    Args:
        built: the built scene.
        name: name of the array.
        rows: rows of the array.
        element_shape: shape of the values of one environment.
        values: values, (n_envs, *element_shape), element_shape or a scalar.
        envs_idx: environments; None for all.
        label: name of the calling setter for error messages.
    """
    per_env_name = DOF_PARAMETERS[name].per_env_name if name in DOF_PARAMETERS else name
    shared = built.arrays.is_shared(name)
    if not shared and per_env_name not in built.engine.settings.per_env:
        alternatives = ["set it before building"] if name in DOF_PARAMETERS else []
        if per_env_name in PER_ENV_PARAMETERS:
            alternatives += [f'use scene.build(per_env=("{per_env_name}",))']
            alternatives += [f'scene.allow_per_env("{per_env_name}") now']
        raise KinemaError(
            f"{label}: the parameter is compiled into the program as a constant: {', or '.join(alternatives)}"
        )
    hint = f'use scene.build(per_env=("{per_env_name}",)) to let them differ'
    if shared and envs_idx is not None:
        envs = resolve_envs(envs_idx, built.n_envs)
        if len(np.unique(envs)) != built.n_envs:  # type: ignore[arg-type]  # ty: ignore[no-matching-overload]
            raise KinemaError(f"{label}: environments share this parameter: {hint}")
        envs_idx = None
    array, envs = built.arrays.to_batch(values, element_shape, envs_idx, label)
    check_parameter_values(name, array, label)
    if shared:
        if len(array) > 1 and (array != array[:1]).any():
            raise KinemaError(f"{label}: environments share this parameter: {hint}")
        array = array[:1]
        if name in ("kp", "kv"):
            built.arrays.dof_parameters[name][:, rows] = array[0]
    built.arrays.write(name, rows, array.reshape(len(array), -1), envs)
    built.controls.on_parameter_set(name, rows)


def write_medium_parameter(
    built: BuiltScene, name: str, element_shape: tuple[int, ...], values: Any, envs_idx: Selection
) -> None:
    """Write density, viscosity or wind of the medium; `KinemaError` if the scene was built without a medium."""
    if not built.model.fluid.kinds:
        raise KinemaError(
            f"set_{name}: the program was compiled without a medium; use Scene(density=...), which may be zero"
        )
    write_parameter(built, name, slice(None), element_shape, values, envs_idx, f"set_{name}")


def _dof_table(built: BuiltScene, name: str) -> np.ndarray:
    """Current values of `SceneArrays.dof_parameters`, or the values of the models, (n_variants, n_dofs)."""
    if name in built.arrays.dof_parameters:
        return built.arrays.dof_parameters[name]
    return np.stack([_dof_column(model, name) for model in built.engine.variants.models])


def _dof_column(model: Model, name: str) -> np.ndarray:
    """Column of the table of dofs, or `invweight`."""
    return model.derived.dof_invweight if name == "invweight" else getattr(model.dofs, name)


class EntityParameters:
    """Reads and writes the physical parameters of the dofs and links of an entity."""

    def __init__(self, index: EntityIndex) -> None:
        self._index = index
        self.before_build: dict[str, dict[int, float]] = {}
        """Dof parameters set before build: value by dof within the entity, by parameter name."""

    # ------------------------------------------------------------------------------------------------------ dofs

    def dofs_as_built(self, name: str, envs: IndexArray | None = None) -> np.ndarray:
        """Dof parameter at build time: (n_dofs,), or (environments, n_dofs) with variants.

        Before build: the value of the description with the user's settings applied. `envs` None selects all
        environments.
        """
        index = self._index
        if index.ranges is not None:
            variants = index.built.engine.variants
            table = _dof_table(index.built, name)[:, index.all_dofs]
            if index.variants is None:
                return table[0].copy()
            return table[variants.variant_of_env if envs is None else variants.variant_of_env[envs]]
        values = _dof_column(index.model, name).copy()
        for dof, value in self.before_build.get(name, {}).items():
            values[dof] = value
        return values

    def get_dofs(self, name: str, dofs_idx: Selection, envs_idx: Selection) -> np.ndarray:
        """Current value of a dof parameter: (n,), or (n_envs, n) if it is per environment.

        Before build: the value of the description with the user's settings applied.
        """
        dofs = self._index.dofs(dofs_idx, f"get_dofs_{DOF_PARAMETERS[name].accessor}")
        if self._index.ranges is None:
            return self.dofs_as_built(name)[dofs]
        built, rows = self._index.built, self._index.info.dof_start + dofs
        if not built.arrays.has(name):
            return np.array(_dof_table(built, name)[0, rows])
        if built.arrays.is_shared(name):
            return np.array(built.arrays.get(name)[rows, 0])
        return built.arrays.read(name, rows, resolve_envs(envs_idx, built.n_envs))

    def set_dofs(self, name: str, values: Any, dofs_idx: Selection, envs_idx: Selection) -> None:
        """Set a dof parameter, (n_envs, n), (n,) or a scalar.

        Before build the values are stored and applied by `build`; afterwards they are written to the engine's arrays.
        """
        label = f"set_dofs_{DOF_PARAMETERS[name].accessor}"
        dofs = self._index.dofs(dofs_idx, label)
        if self._index.ranges is not None:
            rows = self._index.info.dof_start + dofs
            write_parameter(self._index.built, name, rows, (len(dofs),), values, envs_idx, label)
            return
        if envs_idx is not None:
            raise KinemaError(f"{label}: there are no environments to select before the scene is built")
        array = check_parameter_values(name, as_batch(values, 1, (len(dofs),), np.float64, label), label)[0]
        self.before_build.setdefault(name, {}).update(zip(dofs.tolist(), array.tolist(), strict=True))

    def set_force_range(self, lower: Any, upper: Any, dofs_idx: Selection) -> None:
        """Set lower and upper bounds of the control forces of dofs; both are validated before either is set."""
        label = "set_dofs_force_range"
        dofs = self._index.dofs(dofs_idx, label)
        low, high = (as_batch(x, 1, (len(dofs),), np.float64, label) for x in (lower, upper))
        for name, bound in (("force_lower", low), ("force_upper", high)):
            check_parameter_values(name, bound, label)
        if (low > high).any():
            raise KinemaError(f"{label}: a lower bound is above its upper one")
        self.set_dofs("force_lower", low, dofs_idx, None)
        self.set_dofs("force_upper", high, dofs_idx, None)

    def limits(self, dofs_idx: Selection, envs_idx: Selection) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper position limits of dofs [m, rad], (n,) each; (n_envs, n) if per environment."""
        rows, built = self._index.dof_rows(dofs_idx, "get_dofs_limit"), self._index.built
        if "limit" in built.engine.settings.per_env and built.engine.settings.limits:
            envs = resolve_envs(envs_idx, built.n_envs)
            return built.arrays.read("lower", rows, envs), built.arrays.read("upper", rows, envs)
        parameters = built.arrays.dof_parameters
        return parameters["lower"][0, rows], parameters["upper"][0, rows]

    def set_limits(self, lower: Any, upper: Any, dofs_idx: Selection, envs_idx: Selection) -> None:
        """Set lower and upper position limits of dofs; after build only of dofs that had limits at build time."""
        label = "set_dofs_limit"
        dofs, is_built = self._index.dofs(dofs_idx, label), self._index.ranges is not None
        n_envs = self._n_envs(envs_idx) if is_built else 1
        low, high = (as_batch(x, n_envs, (len(dofs),), np.float64, label) for x in (lower, upper))
        if np.isnan(low).any() or np.isnan(high).any() or (low > high).any():
            raise KinemaError(f"{label}: expected lower limits <= upper limits, not {lower!r}, {upper!r}")
        if is_built:
            built, rows = self._index.built, self._index.info.dof_start + dofs
            info = built.model.dofs
            unlimited = np.isinf(info.lower[rows]) & np.isinf(info.upper[rows])
            if unlimited.any() or not built.engine.settings.limits:
                name = info.names[rows[int(np.argmax(unlimited))]]
                raise KinemaError(f'{label}: "{name}" was built without limits: set them before building')
            if "limit" not in built.engine.settings.per_env:
                parameters = built.arrays.dof_parameters
                parameters["lower"][0, rows], parameters["upper"][0, rows] = low[0], high[0]
        self.set_dofs("lower", low, dofs_idx, envs_idx)
        self.set_dofs("upper", high, dofs_idx, envs_idx)

    def set_frictionloss(self, frictionloss: Any, dofs_idx: Selection, envs_idx: Selection) -> None:
        """Set dry friction of dofs; after build only of dofs that had nonzero dry friction at build time."""
        label = "set_dofs_frictionloss"
        if self._index.ranges is not None:
            dofs, rows = self._index.built.model.dofs, self._index.dof_rows(dofs_idx, label)
            frictionless = dofs.frictionloss[rows] == 0.0
            if frictionless.any():
                name = dofs.names[rows[int(np.argmax(frictionless))]]
                raise KinemaError(f'{label}: "{name}" was built without dry friction: set some before building')
        self.set_dofs("frictionloss", frictionloss, dofs_idx, envs_idx)

    def sol_params(self, kind: str, dofs_idx: Selection, envs_idx: Selection) -> np.ndarray:
        """MuJoCo's solref and solimp of joint limits or dry friction (`kind`), (n, 7) or (n_envs, n, 7)."""
        kind = one_of(kind, "get_dofs_sol_params: kind", SOL_PARAMS_KINDS)
        rows, built = self._index.dof_rows(dofs_idx, "get_dofs_sol_params"), self._index.built
        if "sol_params" not in built.engine.settings.per_env:
            parts = [getattr(built.model.dofs, f"{kind}_{name}")[rows] for name in ("solref", "solimp")]
            return np.concatenate(parts, axis=-1)
        return built.arrays.read_sol_params(kind, rows, resolve_envs(envs_idx, built.n_envs))

    def set_sol_params(self, params: Any, kind: str, dofs_idx: Selection, envs_idx: Selection) -> None:
        """Set MuJoCo's solref (2) and solimp (5) of joint limits or dry friction of dofs, selected by `kind`.

        Shape (7,), (n, 7) or (n_envs, n, 7). Raises `KinemaError` if the parameters are not per-environment.
        """
        label = "set_dofs_sol_params"
        kind = one_of(kind, f"{label}: kind", SOL_PARAMS_KINDS)
        rows, built = self._index.dof_rows(dofs_idx, label), self._index.built
        if "sol_params" not in built.engine.settings.per_env:
            raise KinemaError(
                f'{label}: the parameter is compiled into the program: use scene.build(per_env=("sol_params",))'
            )
        values = parse_sol_params(params, self._n_envs(envs_idx), len(rows), label)
        built.arrays.write_sol_params(kind, rows, values, resolve_envs(envs_idx, built.n_envs))

    def invweight(self, dofs_idx: Selection, envs_idx: Selection) -> np.ndarray:
        """Inverse weight of dofs (MuJoCo's dof_invweight0), (n,); (n_envs, n) once inertias differ."""
        if self._index.ranges is not None:
            engine, rows = self._index.built.engine, self._index.dof_rows(dofs_idx, "get_dofs_invweight")
            engine.update_derived_parameters()
            if engine.dof_invweight is not None:
                envs = resolve_envs(envs_idx, engine.n_envs)
                return np.array(engine.dof_invweight[rows].T if envs is None else engine.dof_invweight[rows][:, envs].T)
        return self.get_dofs("invweight", dofs_idx, envs_idx)

    def _n_envs(self, envs_idx: Selection) -> int:
        envs = resolve_envs(envs_idx, self._index.built.n_envs)
        return self._index.built.n_envs if envs is None else len(envs)

    # ----------------------------------------------------------------------------------------------------- links

    def links_as_built(self, name: str, envs: IndexArray | None) -> np.ndarray:
        """Field `name` of `model.links` of the entity at build time, by variant, (environments, n_links, ...)."""
        variants = self._index.built.engine.variants
        table = np.stack([getattr(m.links, name)[self._index.all_links] for m in variants.models])
        return table[variants.variant_of_env if envs is None else variants.variant_of_env[envs]]

    def masses(self, links_idx: Selection, envs_idx: Selection) -> np.ndarray:
        """Masses of links [kg], (n_links,); (n_envs, n_links) if they may differ between environments."""
        index = self._index
        links = index.links(links_idx, "get_links_inertial_mass")
        if index.ranges is None or not (index.variants or index.built.arrays.has("mass_shift")):
            return index.model.links.inertial_mass[links].copy()
        arrays, envs = index.built.arrays, resolve_envs(envs_idx, index.built.n_envs)
        mass = self.links_as_built("inertial_mass", envs)[:, links]
        if not arrays.has("mass_shift"):
            return mass
        return mass + arrays.read("mass_shift", index.info.link_start + links, envs)

    def set_masses(self, mass: Any, links_idx: Selection, envs_idx: Selection) -> None:
        """Set masses of links, (n_envs, n_links), (n_links,) or a scalar, as mass shifts."""
        label = "set_links_inertial_mass"
        links = self._index.links(links_idx, label)
        masses, envs = self._index.built.arrays.to_batch(mass, (len(links),), envs_idx, label, np.float64)
        self.set_mass_shift(masses - self.links_as_built("inertial_mass", envs)[:, links], links, envs_idx, label)

    def set_total_mass(self, mass: Any, envs_idx: Selection) -> None:
        """Set the total mass, a scalar or (n_envs,), by scaling the masses at build time of all links."""
        nominal = self.links_as_built("inertial_mass", resolve_envs(envs_idx, self._index.built.n_envs))
        targets = as_array(mass, np.float64, "set_mass").reshape(-1, 1)
        shifts = nominal * (targets / nominal.sum(axis=1, keepdims=True) - 1.0)
        self.set_mass_shift(shifts, None, envs_idx, "set_mass")

    def set_mass_shift(
        self, shift: Any, links_idx: Selection, envs_idx: Selection, label: str = "set_mass_shift"
    ) -> None:
        """Set mass shifts, added to the masses of links at build time [kg]; raises if a mass would be negative."""
        index = self._index
        links = index.links(links_idx, label)
        shifts, envs = index.built.arrays.to_batch(shift, (len(links),), envs_idx, label, np.float64)
        negative = (self.links_as_built("inertial_mass", envs)[:, links] + shifts < 0.0).any(axis=0)
        if negative.any():
            name = index.model.links.names[links[negative][0]]
            raise KinemaError(f'{label}: the mass of link "{name}" would be negative')
        rows = index.info.link_start + links
        write_parameter(index.built, "mass_shift", rows, (len(links),), shifts, envs_idx, label)

    def set_com_shift(self, shift: Any, links_idx: Selection, envs_idx: Selection) -> None:
        """Set displacements of centres of mass of links, (n_envs, n_links, 3)."""
        label = "set_com_shift"
        links = self._index.link_rows(links_idx, label)
        rows, element_shape, shift = component_rows(links, 3), (len(links), 3), link_vectors(shift, len(links), label)
        write_parameter(self._index.built, "com_shift", rows, element_shape, shift, envs_idx, label)
