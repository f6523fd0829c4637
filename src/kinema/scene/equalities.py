"""What ties and couples the things of a scene, by name: which of it holds in which environment, and how hard it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.foundation import KinemaError

from .arguments import sol_params
from .batches import Index, batched, environments, items
from .running import Built

_ASK = 'use scene.build(per_env=("{}",))'


class Equalities(Built):
    """The part of a scene that knows its equality constraints: ties between links first, then what follows what."""

    @property
    def ties(self) -> Any:
        """What holds links together beside joints, loops among them: `scene.ties.gap`, `turn`; see `tie_names`."""
        return self.running.engine.fields.ties

    @property
    def tie_names(self) -> list[str]:
        """The constraints and loop-closing joints that `ties` are."""
        return list(self.running.model.ties.names)

    @property
    def couplings(self) -> Any:
        """Joints and tendons that follow others: `scene.couplings.error`; see `coupling_names`."""
        return self.running.engine.fields.couplings

    @property
    def coupling_names(self) -> list[str]:
        """The mimic joints and constraints that `couplings` are."""
        return list(self.running.model.couplings.names)

    @property
    def equality_names(self) -> list[str]:
        """Constraints of the files, joints that close loops, mimic joints, in the order of `get_equality`."""
        model = self.running.model
        return [*model.ties.names, *model.couplings.names]

    def get_equality(self, names: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Which of them hold, (n_envs, n): switched on, and not broken."""
        running, own = self.running, self._equalities(names, "get_equality")
        envs = environments(envs_idx, running.n_envs)
        holds = np.concatenate([self._holds("tie"), self._holds("coupling")])[own]
        return np.array((holds if envs is None else holds[:, envs]).T)

    def set_equality(self, active: Any, names: Any = None, envs_idx: Any = None) -> None:
        """Let some hold or not, (n_envs, n); needs `scene.build(per_env=("equality",))`.

        Those that their file switches off are among them then.
        """
        running, what = self.running, "set_equality"
        self._asked("equality", what)
        own, envs = self._equalities(names, what), environments(envs_idx, running.n_envs)
        n_envs = running.n_envs if envs is None else len(envs)
        values = batched(active, n_envs, (len(own),), np.float64, what)
        for array, chosen, rows in self._split(own):
            if len(rows):
                running.memory.write(f"{array}_on", rows, values[:, chosen], envs)

    def get_equality_sol_params(self, names: Any = None, envs_idx: Any = None) -> np.ndarray:
        """How hard they are: MuJoCo's `solref` and `solimp`, (n_envs, n, 7)."""
        running, own = self.running, self._equalities(names, "get_equality_sol_params")
        envs = environments(envs_idx, running.n_envs)
        found = np.zeros((running.n_envs if envs is None else len(envs), len(own), 7))
        for array, chosen, rows in self._split(own):
            if "sol_params" in running.engine.settings.per_env:
                found[:, chosen] = running.memory.read_sol_params(array, rows, envs)
            else:
                table = running.model.ties if array == "tie" else running.model.couplings
                found[:, chosen] = np.concatenate([table.solref[rows], table.solimp[rows]], axis=-1)
        return found

    def set_equality_sol_params(self, params: Any, names: Any = None, envs_idx: Any = None) -> None:
        """How hard they are, (n_envs, n, 7); needs `scene.build(per_env=("sol_params",))`."""
        running, what = self.running, "set_equality_sol_params"
        self._asked("sol_params", what)
        own, envs = self._equalities(names, what), environments(envs_idx, running.n_envs)
        values = sol_params(params, running.n_envs if envs is None else len(envs), len(own), what)
        for array, chosen, rows in self._split(own):
            if len(rows):
                running.memory.write_sol_params(array, rows, values[:, chosen], envs)

    def _equalities(self, names: Any, what: str) -> Index:
        return items(names, self.equality_names, f"{what}: names", "equality constraints")

    def _asked(self, parameter: str, what: str) -> None:
        running = self.running
        if parameter not in running.engine.settings.per_env or not running.engine.settings.constraints:
            raise KinemaError(f"{what}: this is compiled into the program: {_ASK.format(parameter)}")

    def _split(self, own: Index) -> list[tuple[str, np.ndarray, Index]]:
        """Those that are ties and those that are couplings: which of the asked they are, and their rows."""
        first = len(self.running.model.ties.names)
        return [("tie", own < first, own[own < first]), ("coupling", own >= first, own[own >= first] - first)]

    def _holds(self, array: str) -> np.ndarray:
        """Of all of one kind whether they hold, (n, n_envs)."""
        running = self.running
        table: Any = running.model.ties if array == "tie" else running.model.couplings
        settings, n = running.engine.settings, len(table.names)
        on = np.broadcast_to((table.active & settings.constraints)[:, None], (n, running.n_envs))
        if "equality" in settings.per_env and settings.constraints and n:
            on = running.memory.all(f"{array}_on")[:n] > 0.5
        if not running.model.ties.breakable.any() or not settings.constraints:
            return on
        broken = running.memory.all("broken") > 0.5
        holder = np.arange(n) if array == "tie" else table.tie_idx
        return on & ~np.where(holder[:, None] >= 0, broken[holder], False)
