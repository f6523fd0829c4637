"""Equality constraints of a scene by name: active flags and solref/solimp per environment.

Link equalities (connect, weld, loop-closing joints) come first, then couplings (mimic joints, joint and tendon
equalities). Their arrays have the prefixes `tie` and `coupling`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.core import KinemaError

from .arguments import IndexArray, as_batch, parse_sol_params, resolve_envs, resolve_indices
from .built_scene import BuiltMixin

_PER_ENV_HINT = 'use scene.build(per_env=("{}",))'


class EqualitiesMixin(BuiltMixin):
    """Part of `Scene`: names, active flags and solver parameters of equality constraints."""

    @property
    def link_equalities(self) -> Any:
        """Fields of the equality constraints between links: `scene.link_equalities.gap`, `turn`.

        See `link_equality_names`.
        """
        return self.built.engine.fields.ties

    @property
    def link_equality_names(self) -> list[str]:
        """Names of the equality constraints between links (connect, weld) and of loop-closing joints."""
        return list(self.built.model.equalities.names)

    @property
    def couplings(self) -> Any:
        """Fields of the couplings of joints and tendons, such as `scene.couplings.error`; order of `coupling_names`."""
        return self.built.engine.fields.couplings

    @property
    def coupling_names(self) -> list[str]:
        """Names of the mimic joints and of the joint and tendon equality constraints."""
        return list(self.built.model.couplings.names)

    @property
    def equality_names(self) -> list[str]:
        """Names of all equality constraints in the order of `get_equality`: link equalities, then couplings."""
        model = self.built.model
        return [*model.equalities.names, *model.couplings.names]

    def get_equality(self, names: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Whether equality constraints are active, bool (n_envs, n): enabled and not broken.

        Args:
            names: constraints by index, name, pattern, slice or mask, in the order of `equality_names`; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        built, indices = self.built, self._equality_indices(names, "get_equality")
        envs = resolve_envs(envs_idx, built.n_envs)
        active = np.concatenate([self._active_mask("tie"), self._active_mask("coupling")])[indices]
        return np.array((active if envs is None else active[:, envs]).T)

    def set_equality(self, active: Any, names: Any = None, envs_idx: Any = None) -> None:
        """Enable or disable equality constraints; needs `scene.build(per_env=("equality",))`.

        Constraints that their file disables can be enabled too.

        Args:
            active: True to enable, (n_envs, n), or (n,) or a scalar for all environments.
            names: constraints by index, name, pattern, slice or mask, in the order of `equality_names`; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        built, label = self.built, "set_equality"
        self._require_per_env("equality", label)
        indices, envs = self._equality_indices(names, label), resolve_envs(envs_idx, built.n_envs)
        n_envs = built.n_envs if envs is None else len(envs)
        values = as_batch(active, n_envs, (len(indices),), np.float64, label)
        for prefix, mask, rows in self._split_by_kind(indices):
            if len(rows):
                built.arrays.write(f"{prefix}_on", rows, values[:, mask], envs)

    def get_equality_sol_params(self, names: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Soft-constraint parameters of equality constraints: MuJoCo's solref (2) and solimp (5), (n_envs, n, 7).

        Args:
            names: constraints by index, name, pattern, slice or mask, in the order of `equality_names`; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        built, indices = self.built, self._equality_indices(names, "get_equality_sol_params")
        envs = resolve_envs(envs_idx, built.n_envs)
        params = np.zeros((built.n_envs if envs is None else len(envs), len(indices), 7))
        for prefix, mask, rows in self._split_by_kind(indices):
            if "sol_params" in built.engine.settings.per_env:
                params[:, mask] = built.arrays.read_sol_params(prefix, rows, envs)
            else:
                table = built.model.equalities if prefix == "tie" else built.model.couplings
                params[:, mask] = np.concatenate([table.solref[rows], table.solimp[rows]], axis=-1)
        return params

    def set_equality_sol_params(self, params: Any, names: Any = None, envs_idx: Any = None) -> None:
        """Set solref (2) and solimp (5) of equality constraints; needs `scene.build(per_env=("sol_params",))`.

        Args:
            params: seven numbers, (n, 7) or (n_envs, n, 7).
            names: constraints by index, name, pattern, slice or mask, in the order of `equality_names`; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        built, label = self.built, "set_equality_sol_params"
        self._require_per_env("sol_params", label)
        indices, envs = self._equality_indices(names, label), resolve_envs(envs_idx, built.n_envs)
        values = parse_sol_params(params, built.n_envs if envs is None else len(envs), len(indices), label)
        for prefix, mask, rows in self._split_by_kind(indices):
            if len(rows):
                built.arrays.write_sol_params(prefix, rows, values[:, mask], envs)

    def _equality_indices(self, names: Any, label: str) -> IndexArray:
        return resolve_indices(names, self.equality_names, f"{label}: names", "equality constraints")

    def _require_per_env(self, parameter: str, label: str) -> None:
        """Raise `KinemaError` unless `parameter` is per environment and constraints are enabled."""
        built = self.built
        if parameter not in built.engine.settings.per_env or not built.engine.settings.constraints:
            raise KinemaError(f"{label}: the parameter is compiled into the program: {_PER_ENV_HINT.format(parameter)}")

    def _split_by_kind(self, indices: IndexArray) -> list[tuple[str, np.ndarray, IndexArray]]:
        """Split indices of equality constraints into link equalities (`tie`) and couplings.

        Returns:
            For each kind: prefix of its arrays, mask of the entries of `indices` that belong to it, and their rows in
                its arrays.
        """
        first = len(self.built.model.equalities.names)
        return [
            ("tie", indices < first, indices[indices < first]),
            ("coupling", indices >= first, indices[indices >= first] - first),
        ]

    def _active_mask(self, kind: str) -> np.ndarray:
        """Whether each constraint of a kind (`tie` or `coupling`) is active, bool (n, n_envs): enabled and not broken.

        A coupling that belongs to a breakable link equality breaks with it.
        """
        built = self.built
        table: Any = built.model.equalities if kind == "tie" else built.model.couplings
        settings, n = built.engine.settings, len(table.names)
        enabled = np.broadcast_to((table.active & settings.constraints)[:, None], (n, built.n_envs))
        if "equality" in settings.per_env and settings.constraints and n:
            enabled = built.arrays.get(f"{kind}_on")[:n] > 0.5
        if not built.model.equalities.breakable.any() or not settings.constraints:
            return enabled
        broken = built.arrays.get("broken") > 0.5
        breaking_equality = np.arange(n) if kind == "tie" else table.equality_idx
        return enabled & ~np.where(breaking_equality[:, None] >= 0, broken[breaking_equality], False)
