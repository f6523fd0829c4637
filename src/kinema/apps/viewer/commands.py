"""What joints and actuators are told while the simulation runs: by sliders, at random, or nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kinema.scene import Entity

from .coordinates import REACH

SLIDERS, RANDOM, NOTHING = "sliders", "random", "let go"
WAYS = (SLIDERS, RANDOM, NOTHING)
REDRAW = 0.5
"""Simulated seconds between random commands."""


@dataclass(slots=True, eq=False)
class Command:
    """One number that somebody is told."""

    entity: Entity
    label: str
    index: int
    """Of the actuator, or of the degree of freedom."""
    is_actuator: bool
    lower: float
    upper: float
    value: float


class Commands:
    """All commands of some entities."""

    def __init__(self, entities: list[Entity], way: str = SLIDERS, seed: int = 0) -> None:
        self.entities = entities
        self.rng = np.random.default_rng(seed)
        self.commands = [c for entity in entities for c in (_actuators(entity) or _targets(entity))]
        self.way = way
        self._next_draw = -math.inf

    def tell(self, time: float, *, changed: bool) -> None:
        """Tell everybody, where there is something new: the user has moved a slider, or it is time for a new draw.

        Args:
            time: simulated [s].
            changed: whether the user has changed anything since the last call.
        """
        drawn = self.way == RANDOM and (changed or not self._next_draw - REDRAW <= time < self._next_draw)
        if not (changed or drawn):
            return
        self._next_draw = time + REDRAW
        for entity in self.entities:
            own = [c for c in self.commands if c.entity is entity]
            if self.way == NOTHING and entity.n_dofs:
                self._let_go(entity)
            elif own:
                self._tell(entity, own)

    def _tell(self, entity: Entity, own: list[Command]) -> None:
        values = np.array([c.value for c in own])
        if self.way == RANDOM:
            lower, upper = np.array([[c.lower, c.upper] for c in own]).T
            values = self.rng.uniform(lower, upper, size=(entity.scene.n_envs, len(own)))
        indices = [c.index for c in own]
        if own[0].is_actuator:
            entity.control(values, indices)
        else:
            entity.control_dofs_position(values, indices)

    def _let_go(self, entity: Entity) -> None:
        if entity.n_actuators:
            entity.control(np.zeros(entity.n_actuators))
        else:
            entity.control_dofs_force(np.zeros(entity.n_dofs))


def _actuators(entity: Entity) -> list[Command]:
    ranges = {a.name: a.control_range for a in entity.description.actuators}
    for robot in getattr(entity.description, "robots", []):
        ranges |= {a.name: a.control_range for a in robot.actuators}
    result = []
    for i, name in enumerate(entity.actuator_names):
        lower, upper = ranges.get(name, (-1.0, 1.0))
        lower, upper = (b if math.isfinite(b) else s for b, s in ((lower, -1.0), (upper, 1.0)))
        result.append(Command(entity, name, i, True, lower, upper, min(max(0.0, lower), upper)))
    return result


def _targets(entity: Entity) -> list[Command]:
    """Position targets, for robots whose file has no actuators; of all but floating bases and ball joints."""
    if not entity.n_dofs:
        return []
    lower, upper = entity.get_dofs_limit()
    now = entity.get_dofs_position(envs_idx=[0])[0]
    by_joint = [(joint.kind, dof) for joint in entity.joints for dof in joint.dofs_idx]
    result = []
    for dof in sorted(dof for kind, dof in by_joint if kind not in ("free", "spherical")):
        reach = max(REACH.values())
        low = float(lower[dof]) if math.isfinite(lower[dof]) else float(now[dof]) - reach
        high = float(upper[dof]) if math.isfinite(upper[dof]) else float(now[dof]) + reach
        value = min(max(float(now[dof]), low), high)
        result.append(Command(entity, entity.dof_names[dof], dof, False, low, high, value))
    return result
