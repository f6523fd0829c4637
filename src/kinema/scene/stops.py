"""What stops and brakes the joints of an entity: limits, dry friction, and how soft both are."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.foundation import KinemaError

from .arguments import choice, sol_params
from .batches import batched, environments
from .commands import Commands


class Stops(Commands):
    """The part of an entity that holds back."""

    def get_dofs_limit(self, dofs_idx: Any = None, envs_idx: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper limits, infinite where there are none; of a ball, 0 and its greatest angle; (n,) each.

        With `scene.build(per_env=("limit",))` those of each environment, (n_envs, n).
        """
        own, running = self.info.dof_start + self._dofs(dofs_idx, "get_dofs_limit"), self._running
        if "limit" in running.engine.settings.per_env and running.engine.settings.limits:
            envs = environments(envs_idx, running.n_envs)
            return running.memory.read("lower", own, envs), running.memory.read("upper", own, envs)
        dofs = running.model.dofs
        return dofs.lower[own].copy(), dofs.upper[own].copy()

    def set_dofs_limit(self, lower: Any, upper: Any, dofs_idx: Any = None, envs_idx: Any = None) -> None:
        """Where joints stop [m, rad]; after building only of joints that had limits then.

        For all environments, or with `scene.build(per_env=("limit",))` for each, (n_envs, n).
        """
        what = "set_dofs_limit"
        dofs = self._dofs(dofs_idx, what)
        n_envs = 1 if self._info is None else self._count(envs_idx)
        low, high = (batched(x, n_envs, (len(dofs),), np.float64, what) for x in (lower, upper))
        if np.isnan(low).any() or np.isnan(high).any() or (low > high).any():
            raise KinemaError(
                f"{what}: expected lower limits that are not above their upper ones, not {lower!r}, {upper!r}"
            )
        if self._info is not None:
            info, rows = self._running.model.dofs, self._info.dof_start + dofs
            free = np.isinf(info.lower[rows]) & np.isinf(info.upper[rows])
            if free.any() or not self._running.engine.settings.limits:
                name = info.names[rows[int(np.argmax(free))]]
                raise KinemaError(f'{what}: "{name}" was built without limits: set them before building')
            if "limit" not in self._running.engine.settings.per_env:
                info.lower[rows], info.upper[rows] = low[0], high[0]
        self._set_dofs("lower", low, dofs_idx, envs_idx)
        self._set_dofs("upper", high, dofs_idx, envs_idx)

    def get_dofs_frictionloss(self, dofs_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Dry friction [N, N m], (n,); with `scene.build(per_env=("frictionloss",))` (n_envs, n)."""
        own, running = self.info.dof_start + self._dofs(dofs_idx, "get_dofs_frictionloss"), self._running
        if "frictionloss" in running.engine.settings.per_env and running.engine.settings.constraints:
            return running.memory.read("frictionloss", own, environments(envs_idx, running.n_envs))
        return running.model.dofs.frictionloss[own].copy()

    def set_dofs_frictionloss(self, frictionloss: Any, dofs_idx: Any = None, envs_idx: Any = None) -> None:
        """Dry friction [N, N m]; before building, or with `per_env=("frictionloss",)` of joints that had some then."""
        what = "set_dofs_frictionloss"
        if self._info is not None:
            dofs = self._running.model.dofs
            rows = self._info.dof_start + self._dofs(dofs_idx, what)
            smooth = dofs.frictionloss[rows] == 0.0
            if smooth.any():
                name = dofs.names[rows[int(np.argmax(smooth))]]
                raise KinemaError(f'{what}: "{name}" was built without dry friction: set some before building')
        self._set_dofs("frictionloss", frictionloss, dofs_idx, envs_idx)

    def get_dofs_sol_params(self, dofs_idx: Any = None, envs_idx: Any = None, kind: str = "limit") -> np.ndarray:
        """How soft limits are, or dry friction (`kind="friction"`): MuJoCo's `solref` and `solimp`, (n, 7).

        With `scene.build(per_env=("sol_params",))` those of each environment, (n_envs, n, 7).
        """
        kind = choice(kind, "get_dofs_sol_params: kind", ("limit", "friction"))
        own, running = self.info.dof_start + self._dofs(dofs_idx, "get_dofs_sol_params"), self._running
        if "sol_params" not in running.engine.settings.per_env:
            pair = (getattr(running.model.dofs, f"{kind}_{x}")[own] for x in ("solref", "solimp"))
            return np.concatenate(list(pair), axis=-1)
        return running.memory.read_sol_params(kind, own, environments(envs_idx, running.n_envs))

    def set_dofs_sol_params(self, params: Any, dofs_idx: Any = None, envs_idx: Any = None, kind: str = "limit") -> None:
        """How soft limits are, or dry friction: seven numbers, (n_envs, n, 7). Needs `per_env=("sol_params",)`.

        The power of the impedance, the last of them, stays as it was built.
        """
        what = "set_dofs_sol_params"
        kind = choice(kind, f"{what}: kind", ("limit", "friction"))
        own, running = self.info.dof_start + self._dofs(dofs_idx, what), self._running
        if "sol_params" not in running.engine.settings.per_env:
            raise KinemaError(f'{what}: this is compiled into the program: use scene.build(per_env=("sol_params",))')
        values = sol_params(params, self._count(envs_idx), len(own), what)
        running.memory.write_sol_params(kind, own, values, environments(envs_idx, running.n_envs))

    def _count(self, envs_idx: Any) -> int:
        envs = environments(envs_idx, self._running.n_envs)
        return self._running.n_envs if envs is None else len(envs)
