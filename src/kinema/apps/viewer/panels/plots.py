"""Live plots of joints, forces and energy."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from ..exhibit import Part
from ..player import Player

QUANTITIES = ("off", "positions", "velocities", "control forces", "constraint forces", "energy")
_UNITS = {"positions": "rad, m", "velocities": "rad/s, m/s", "energy": "J"}
_MOST = 8
"""Lines at once."""
_KEPT = 400
"""Points of each."""
_COLORS = ("#2662a0", "#e8590c", "#2b8a3e", "#c2255c", "#5f3dc4", "#0b7285", "#846a00", "#868e96")


class PlotPanel:
    """One plot: of the selected joint, or of the first joints there are."""

    def __init__(self, gui: Any, player: Player, compiling: Callable[[], None]) -> None:
        self._gui, self._player = gui, player
        self._lock = threading.Lock()
        """Held by whoever draws the plot or takes it away: visitors choose while it plays."""
        self._what = QUANTITIES[0]
        choice = gui.add_dropdown("Plot", QUANTITIES)

        def chosen(_: Any) -> None:
            if choice.value.endswith("forces"):
                compiling()  # what tells of forces, when it is asked for the first time
            self._begin(choice.value, self._joint)

        choice.on_update(chosen)
        self._joint = ""
        self._plot: Any = None
        self._rows: deque[list[float]] = deque(maxlen=_KEPT)
        self._labels: list[str] = []
        self._folder = gui.add_folder(None)

    def select(self, part: Part | None) -> None:
        """Plot this joint alone; all again for anything else."""
        joint = part.name if part is not None and part.kind == "joint" else ""
        if joint != self._joint:
            self._begin(self._what, joint)

    def _begin(self, what: str, joint: str) -> None:
        """An empty plot."""
        with self._lock:
            self._what, self._joint = what, joint
            self._rows.clear()
            self._labels = []
            if self._plot is not None:
                self._plot.remove()
                self._plot = None

    def sample(self, env: int) -> None:
        """Take one point, and draw."""
        with self._lock:
            self._sample(self._what, env)

    def _sample(self, what: str, env: int) -> None:
        if what == "off" or self._player.scene is None:
            return
        labels, values = self._energy(env) if what == "energy" else self._joints(what, env)
        if not labels or not np.isfinite(values).all():
            return
        time = self._player.scene.time
        if self._rows and time < self._rows[-1][0]:  # it was reset
            self._rows.clear()
        self._rows.append([time, *map(float, values)])
        self._labels = labels
        if len(self._rows) > 1:
            self._draw(what)

    def _energy(self, env: int) -> tuple[list[str], list[float]]:
        assert self._player.scene is not None
        kinetic, potential = (float(x[env]) for x in self._player.scene.get_energy())
        return ["kinetic", "potential", "both"], [kinetic, potential, kinetic + potential]

    def _joints(self, what: str, env: int) -> tuple[list[str], list[float]]:
        labels, values = [], []
        for entity in self._player.commands.entities:
            wanted = [
                dof for j in entity.joints for dof in j.dofs_idx if j.name == self._joint or not self._joint
            ] or list(range(entity.n_dofs))
            if not wanted:
                continue
            read = {
                "positions": entity.get_dofs_position,
                "velocities": entity.get_dofs_velocity,
                "control forces": entity.get_dofs_control_force,
                "constraint forces": entity.get_dofs_constraint_force,
            }[what]
            labels += [entity.dof_names[dof] for dof in wanted]
            values += read(wanted, [env])[0].tolist()
        return labels[:_MOST], values[:_MOST]

    def _draw(self, what: str) -> None:
        data = tuple(np.array(self._rows, dtype=np.float64).T.copy())
        if self._plot is not None:
            self._plot.data = data
            return
        series: list[dict[str, Any]] = [{"label": "time [s]"}]
        series += [{"label": x, "stroke": c, "width": 1.5} for x, c in zip(self._labels, _COLORS, strict=False)]
        with self._folder:
            self._plot = self._gui.add_uplot(
                data,
                tuple(series),
                scales={"x": {"time": False}},
                title=f"{what} [{_UNITS.get(what, 'N, N m')}]",
                aspect=1.2,
            )
