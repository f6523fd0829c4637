"""Equality constraints of a scene by name: active flags and solref/solimp per environment.

Link equalities (connect, weld, loop-closing joints) come first, then couplings (mimic joints, joint and tendon
equalities). Their arrays have the prefixes `equality` and `coupling`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinema.core import KinemaError, rotate_vectors
from kinema.model import Model

from .arguments import IndexArray, Selection, one_of, parse_sol_params, resolve_envs, resolve_indices
from .built_scene import BuiltScene

_PER_ENV_HINT = 'use scene.build(per_env=("{}",))'


class Equalities:
    """Equality constraints of a built scene in the order of `names`: link equalities, then couplings."""

    def __init__(self, built: BuiltScene) -> None:
        self._built = built

    @property
    def names(self) -> list[str]:
        """Names of all equality constraints: link equalities, couplings, then constraints that the program leaves out.

        The program leaves out constraints that their file disables, unless they can be enabled per environment.
        """
        model = self._built.model
        return [
            *self._link_equality_names,
            *model.couplings.names,
            *(name for name, _ in self._built.disabled_equalities),
        ]

    @property
    def _link_equality_names(self) -> Sequence[str]:
        """Names of the link equalities without attachments, which are the last rows of their table."""
        model = self._built.model
        return model.equalities.names[: len(model.equalities.names) - len(model.attachments.names)]

    def are_active(self, names: Selection, envs_idx: Selection) -> np.ndarray:
        """Whether equality constraints are active, bool (n_envs, n): enabled and not broken."""
        indices, envs = self._indices(names, "get_equality"), resolve_envs(envs_idx, self._built.n_envs)
        disabled = np.zeros((len(self._built.disabled_equalities), self._built.n_envs), np.bool_)
        active = np.concatenate([self._active_mask("equality"), self._active_mask("coupling"), disabled])[indices]
        return np.array((active if envs is None else active[:, envs]).T)

    def set_enabled(self, active: Any, names: Selection, envs_idx: Selection, at: str) -> None:
        """Enable or disable equality constraints, (n_envs, n), (n,) or a scalar.

        `at` is the relative pose that enabled connects and welds hold: `now` for the current one, `file` for that of
        the file.
        """
        at = one_of(at, "set_equality: at", ("now", "file"))
        arrays, label = self._built.arrays, "set_equality"
        self._require_per_env("equality", label)
        indices = self._indices(names, label)
        values, envs = arrays.to_batch(active, (len(indices),), envs_idx, label, np.float64)
        for prefix, mask, rows in self._split_by_kind(indices):
            if len(rows):
                if prefix == "equality":
                    self._set_poses(rows, values[:, mask] != 0.0, envs, at)
                arrays.write(f"{prefix}_on", rows, values[:, mask], envs)

    def _set_poses(self, rows: IndexArray, enabled: np.ndarray, envs: IndexArray | None, at: str) -> None:
        """Set the constrained relative poses of the connects and welds that are enabled.

        Args:
            rows: rows of the link equalities.
            enabled: which of them are enabled, bool (environments or 1, rows).
            envs: environments; None for all.
            at: `now` for the current relative pose where a constraint was disabled, `file` for that of the file.
        """
        built = self._built
        members = np.arange(built.n_envs) if envs is None else envs
        enabled = np.broadcast_to(enabled, (len(members), len(rows)))
        was_active = self._active_mask("equality")[rows][:, members].T
        poses = built.arrays.read("equality_pose", slice(None), members).reshape(len(members), -1, 12)
        variants = built.engine.variants
        for column, row in enumerate(rows.tolist()):
            if not {*built.model.equalities.components[row]} <= {"point", "rotation"}:
                continue  # closes a loop of joints
            changed = enabled[:, column] & ((at == "file") | ~was_active[:, column])
            for i, model in enumerate(variants.models):
                chosen = np.flatnonzero(changed & (variants.variant_of_env[members] == i))
                info = model.equalities
                position, rotation = info.pos_b[row], info.rot_b[row]
                if at == "now" and len(chosen):
                    pos_a, rot_a = self._frame_poses(model, int(info.link_a[row]), members[chosen])
                    pos_b, rot_b = self._frame_poses(model, int(info.link_b[row]), members[chosen])
                    to_b = np.swapaxes(rot_b, 1, 2)
                    position = (to_b @ (pos_a + rot_a @ info.pos_a[row] - pos_b)[:, :, None])[:, :, 0]
                    rotation = to_b @ rot_a @ info.rot_a[row]
                poses[chosen, row, :3] = position
                poses[chosen, row, 3:] = rotation.reshape(*rotation.shape[:-2], 9)
        built.arrays.write("equality_pose", slice(None), poses.reshape(len(members), -1), envs)

    def _frame_poses(self, model: Model, link: int, envs: IndexArray) -> tuple[np.ndarray, np.ndarray]:
        """World positions (n, 3) and rotation matrices (n, 3, 3) of the moving frame of a link in n environments."""
        if link < 0:
            return np.zeros((len(envs), 3)), np.broadcast_to(np.eye(3), (len(envs), 3, 3))
        state = self._built.engine.fields.links_state
        pos, quat = (np.asarray(x.numpy()[link], np.float64)[envs] for x in (state.pos, state.quat))
        link_rotation = np.stack([rotate_vectors(quat, axis) for axis in np.eye(3)], axis=2)
        rotation = link_rotation @ model.links.rot[link].T
        return pos - rotation @ model.links.pos[link], rotation

    def sol_params(self, names: Selection, envs_idx: Selection) -> np.ndarray:
        """Constraint parameters solref (2) and solimp (5) of equality constraints, as in MuJoCo, (n_envs, n, 7)."""
        built, indices = self._built, self._indices(names, "get_equality_sol_params")
        envs = resolve_envs(envs_idx, built.n_envs)
        params = np.zeros((built.n_envs if envs is None else len(envs), len(indices), 7))
        n_built = len(self.names) - len(built.disabled_equalities)
        for column in np.flatnonzero(indices >= n_built):
            params[:, column] = built.disabled_equalities[indices[column] - n_built][1]
        for prefix, mask, rows in self._split_by_kind(indices):
            if "sol_params" in built.engine.settings.per_env:
                params[:, mask] = built.arrays.read_sol_params(prefix, rows, envs)
            else:
                table = built.model.equalities if prefix == "equality" else built.model.couplings
                params[:, mask] = np.concatenate([table.solref[rows], table.solimp[rows]], axis=-1)
        return params

    def set_sol_params(self, params: Any, names: Selection, envs_idx: Selection) -> None:
        """Set solref (2) and solimp (5) of equality constraints: seven numbers, (n, 7) or (n_envs, n, 7).

        Constraints that the program leaves out are ignored.
        """
        built, label = self._built, "set_equality_sol_params"
        self._require_per_env("sol_params", label)
        indices, envs = self._indices(names, label), resolve_envs(envs_idx, built.n_envs)
        values = parse_sol_params(params, built.n_envs if envs is None else len(envs), len(indices), label)
        for prefix, mask, rows in self._split_by_kind(indices):
            if len(rows):
                built.arrays.write_sol_params(prefix, rows, values[:, mask], envs)

    def _indices(self, names: Selection, label: str) -> IndexArray:
        return resolve_indices(names, self.names, f"{label}: names", "equality constraints")

    def _require_per_env(self, parameter: str, label: str) -> None:
        """Raise `KinemaError` unless `parameter` is per environment and constraints are enabled."""
        settings = self._built.engine.settings
        if parameter not in settings.per_env or not settings.constraints:
            raise KinemaError(f"{label}: the parameter is compiled into the program: {_PER_ENV_HINT.format(parameter)}")

    def _split_by_kind(self, indices: IndexArray) -> list[tuple[str, np.ndarray, IndexArray]]:
        """Split indices of equality constraints into link equalities (`equality`) and couplings.

        Returns:
            For each kind: prefix of its arrays, mask of the entries of `indices` that belong to it, and their rows in
                its arrays.
        """
        first = len(self._link_equality_names)
        is_coupling = (indices >= first) & (indices < first + len(self._built.model.couplings.names))
        return [
            ("equality", indices < first, indices[indices < first]),
            ("coupling", is_coupling, indices[is_coupling] - first),
        ]

    def _active_mask(self, kind: str) -> np.ndarray:
        """Whether each constraint of a kind (`equality` or `coupling`) is enabled and not broken, bool (n, n_envs).

        A coupling that belongs to a breakable link equality breaks with it.
        """
        built = self._built
        table: Any = built.model.equalities if kind == "equality" else built.model.couplings
        settings = built.engine.settings
        n = len(self._link_equality_names if kind == "equality" else table.names)
        enabled = np.broadcast_to((table.active[:n] & settings.constraints)[:, None], (n, built.n_envs))
        if "equality" in settings.per_env and settings.constraints and n:
            enabled = built.arrays.get(f"{kind}_on")[:n] > 0.5
        if not built.model.equalities.breakable.any() or not settings.constraints:
            return enabled
        broken = built.arrays.get("broken") > 0.5
        breaking_equality = np.arange(n) if kind == "equality" else table.equality_idx
        return enabled & ~np.where(breaking_equality[:, None] >= 0, broken[breaking_equality], False)
