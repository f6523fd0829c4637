"""Parameters of the collision geoms of an entity per environment: friction, solref/solimp, sizes.

The engine has the contact parameters of geom pairs, which are combined from those of the two geoms when they are set,
as in MuJoCo. Values of geoms are kept in `BuiltScene.geom_overrides`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.core import KinemaError
from kinema.dynamics import MIN_FRICTION, N_SIZE_VALUES, bounding_sphere_radius, combined_pair_values
from kinema.model import ABSENT_RADIUS

from .arguments import IndexArray, Selection, as_array, parse_sol_params, resolve_envs
from .arrays import SOL_PARAMS, component_rows
from .entity_index import EntityIndex

FRICTION_COMPONENTS = {0: (0, 1), 2: (2,), 3: (3, 4)}
"""Components of a pair's friction (two sliding, torsional, two rolling) by the first one: both of a kind are equal."""


class GeomParameters:
    """Reads and writes friction, solref/solimp and sizes of the geoms of an entity per environment."""

    def __init__(self, index: EntityIndex) -> None:
        self._index = index

    def as_built(self, name: str) -> np.ndarray:
        """Parameter `name` of all geoms of the scene at build time, by variant, (n_envs, n_geoms, ...)."""
        variants = self._index.built.engine.variants
        return np.stack([getattr(model.geoms, name) for model in variants.models])[variants.variant_of_env]

    def _current(self, name: str, envs_idx: Selection) -> np.ndarray:
        """Current values of parameter `name` of all geoms of the scene, a copy, (environments, n_geoms, components)."""
        built = self._index.built
        values = built.geom_overrides.get(name)
        values = self.as_built(name) if values is None else values
        envs = resolve_envs(envs_idx, built.n_envs)
        return np.array(values if envs is None else values[envs])

    # -------------------------------------------------------------------------------------------------- friction

    def friction(self, geoms_idx: Selection, envs_idx: Selection) -> np.ndarray:
        """Sliding, torsional and rolling friction of geoms, (n_envs, n, 3)."""
        geoms = self._index.geom_rows(geoms_idx, "get_geoms_friction")
        return self._current("friction", envs_idx)[:, geoms][:, :, [*FRICTION_COMPONENTS]]

    def set_friction(self, friction: Any, geoms_idx: Selection, envs_idx: Selection, label: str) -> None:
        """Set the friction of geoms: sliding (n_envs, n), or sliding, torsional and rolling (n_envs, n, 3).

        At least `MIN_FRICTION`. The friction of all geom pairs is recomputed.
        """
        geoms, envs = self._geoms_and_envs_to_set("geom_friction", geoms_idx, envs_idx, label)
        array = as_array(friction, np.float64, label)
        if not np.isfinite(array).all() or (array < 0.0).any():
            raise KinemaError(f"{label}: expected finite numbers that are not negative, not {friction!r}")
        values = self._current("friction", None)
        components = [*FRICTION_COMPONENTS.values()] if array.ndim == 3 else [FRICTION_COMPONENTS[0]]
        new_values = _broadcast_geom_values(array, len(envs), len(geoms), len(components), label)
        for k, component in ((k, component) for k, equal in enumerate(components) for component in equal):
            values[envs[:, None], geoms, component] = np.maximum(new_values[..., k], MIN_FRICTION)
        self._index.built.geom_overrides["friction"] = values
        self._index.built.arrays.write("pair_friction", slice(None), self._pair_values("friction", values[envs]), envs)

    def set_friction_ratio(self, ratio: Any, links_idx: Selection, envs_idx: Selection) -> None:
        """Set the sliding friction of the geoms of links to a multiple of their sliding friction at build time."""
        index, label = self._index, "set_friction_ratio"
        links, geoms = index.links(links_idx, label), index.all_geoms
        ratios, envs = index.built.arrays.to_batch(ratio, (len(links),), envs_idx, label, np.float64)
        nominal = self.as_built("friction")[slice(None) if envs is None else envs][:, geoms, 0]
        link_of_geom = index.built.model.geoms.link_idx[geoms] - index.info.link_start
        geoms_idx = np.flatnonzero(np.isin(link_of_geom, links))
        columns = [int(np.flatnonzero(links == link)[-1]) for link in link_of_geom[geoms_idx]]
        self.set_friction(nominal[:, geoms_idx] * ratios[:, columns], geoms_idx, envs_idx, label)

    # --------------------------------------------------------------------------------------------- solref, solimp

    def sol_params(self, geoms_idx: Selection, envs_idx: Selection) -> np.ndarray:
        """MuJoCo's solref (2) and solimp (5) of geoms, (n_envs, n, 7)."""
        geoms = self._index.geom_rows(geoms_idx, "get_geoms_sol_params")
        return np.concatenate([self._current(name, envs_idx)[:, geoms] for name, _ in SOL_PARAMS], axis=-1)

    def set_sol_params(self, params: Any, geoms_idx: Selection, envs_idx: Selection) -> None:
        """Set the contact parameters solref and solimp of geoms, (7,), (n, 7) or (n_envs, n, 7).

        The contact parameters of all geom pairs are recomputed.
        """
        label, built = "set_geoms_sol_params", self._index.built
        geoms, envs = self._geoms_and_envs_to_set("geom_sol_params", geoms_idx, envs_idx, label)
        values = np.broadcast_to(parse_sol_params(params, len(envs), len(geoms), label), (len(envs), len(geoms), 7))
        start = 0
        for name, width in SOL_PARAMS:
            all_values = self._current(name, None)
            all_values[envs[:, None], geoms] = values[..., start : start + width]
            built.geom_overrides[name] = all_values
            built.arrays.write(f"pair_{name}", slice(None), self._pair_values(name, all_values[envs]), envs)
            start += width

    def _pair_values(self, name: str, geom_values: np.ndarray) -> np.ndarray:
        """Contact parameter of all geom pairs, (environments, n_pairs * k), from geoms, (environments, n_geoms, k)."""
        values = combined_pair_values(self._index.built.model.pairs, name, geom_values)
        return values.reshape(len(values), -1)

    # ------------------------------------------------------------------------------------------------------ size

    def size(self, geoms_idx: Selection, envs_idx: Selection) -> np.ndarray:
        """Sizes of geoms by type, (n_envs, n, 3)."""
        return self._current("size", envs_idx)[:, self._index.geom_rows(geoms_idx, "get_geoms_size")]

    def set_size(self, size: Any, geoms_idx: Selection, envs_idx: Selection) -> None:
        """Set the sizes of geoms, (n_envs, n, 3) or broadcastable, and update their bounding sphere radii."""
        label, built = "set_geoms_size", self._index.built
        geoms, envs = self._geoms_and_envs_to_set("geom_size", geoms_idx, envs_idx, label)
        types = [built.model.geoms.types[int(i)] for i in geoms]
        values = _broadcast_geom_values(as_array(size, np.float64, label), len(envs), len(geoms), 3, label).copy()
        for k, geom_type in enumerate(types):
            if geom_type not in N_SIZE_VALUES:
                raise KinemaError(f"{label}: the size of a {geom_type} cannot be set")
            count = N_SIZE_VALUES[geom_type]
            if not np.isfinite(values[:, k, :count]).all() or (values[:, k, :count] <= 0.0).any():
                raise KinemaError(f"{label}: expected {count} positive numbers for a {geom_type}, not {values[0, k]}")
            values[:, k, count:] = 0.0
        built.arrays.write("geom_size", component_rows(geoms, 3), values.reshape(len(envs), -1), envs)
        radii = np.stack([bounding_sphere_radius(kind, values[:, k]) for k, kind in enumerate(types)], axis=1)
        radii = np.where(self.as_built("radius")[envs][:, geoms] == ABSENT_RADIUS, ABSENT_RADIUS, radii)
        built.arrays.write("geom_radius", geoms, radii, envs)
        all_values = self._current("size", None)
        all_values[envs[:, None], geoms] = values
        built.geom_overrides["size"] = all_values

    def _geoms_and_envs_to_set(
        self, parameter: str, geoms_idx: Selection, envs_idx: Selection, label: str
    ) -> tuple[IndexArray, IndexArray]:
        """Scene indices of the geoms and environments of a setter call; error if the parameter is not per-environment.

        Args:
            parameter: name in `build(per_env=...)`.
            geoms_idx: geoms within the entity; None for all.
            envs_idx: environments; None for all.
            label: name of the calling setter for error messages.
        """
        built = self._index.built
        if not built.engine.settings.contacts:
            raise KinemaError(f"{label}: contacts are disabled in this scene")
        if parameter not in built.engine.settings.per_env:
            raise KinemaError(
                f'{label}: the parameter is compiled into the program: use scene.build(per_env=("{parameter}",)), or '
                f'scene.allow_per_env("{parameter}") now'
            )
        envs = resolve_envs(envs_idx, built.n_envs)
        return self._index.geom_rows(geoms_idx, label), np.arange(built.n_envs) if envs is None else envs


def _broadcast_geom_values(values: np.ndarray, n_envs: int, n_geoms: int, width: int, label: str) -> np.ndarray:
    """Broadcast user values to (n_envs, n_geoms, width); for width 1 also from (n_envs, n_geoms) or (n_geoms,)."""
    target = (n_envs, n_geoms, width)
    array = values[..., None] if width == 1 and values.ndim < 3 else values
    try:
        return np.broadcast_to(array, target)
    except ValueError:
        raise KinemaError(f"{label}: expected values of shape {target[:2]} or {target}, not {values.shape}") from None
