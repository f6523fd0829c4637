"""Keyframes of the entities' files: which are meant by a name or number, and the state that they make together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from kinema.foundation import Array, KinemaError
from kinema.model import KeyframesInfo, Model


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """Coordinates, velocities, controls and activations of everything in one environment."""

    qpos: Array
    qvel: Array
    ctrl: Array
    act: Array
    left_out: list[str]
    """What of the keyframes is not simulated, a sentence for each."""


def state_of(model: Model, wanted: Any) -> State:
    """Entities that have such a keyframe at it, all others at their start."""
    keyframes = model.keyframes
    chosen = _chosen(keyframes, wanted, [e.name for e in model.entities])
    qpos, qvel = model.qpos0.copy(), np.zeros(model.n_dofs)
    ctrl, act = np.zeros(model.n_actuators), np.zeros(model.n_actuators)
    left_out: list[str] = []
    for row in chosen:
        entity = model.entities[int(keyframes.entity_idx[row])]
        for values, rows, (start, end) in (
            (qpos, keyframes.qpos, (entity.q_start, entity.q_end)),
            (qvel, keyframes.qvel, (entity.dof_start, entity.dof_end)),
            (ctrl, keyframes.ctrl, (entity.actuator_start, entity.actuator_end)),
            (act, keyframes.act, (entity.actuator_start, entity.actuator_end)),
        ):
            values[start:end] = rows[row, start:end]
        if keyframes.left_out[row]:
            left_out.append(f'keyframe "{keyframes.names[row]}" of "{entity.name}": {keyframes.left_out[row]}')
    return State(qpos, qvel, ctrl, act, left_out)


def _chosen(keyframes: KeyframesInfo, wanted: Any, entities: Sequence[str]) -> list[int]:
    """The rows that are meant, at most one for each entity."""
    if isinstance(wanted, bool | np.bool_) or not isinstance(wanted, str | Integral):
        raise KinemaError(f"reset: a keyframe is called by its name or number, not {wanted!r}")
    found: dict[int, int] = {}
    seen = dict.fromkeys(range(len(entities)), 0)
    for row, (name, entity) in enumerate(zip(keyframes.names, keyframes.entity_idx.tolist(), strict=True)):
        if name == wanted if isinstance(wanted, str) else seen[entity] == wanted:
            found.setdefault(entity, row)
        seen[entity] += 1
    if not found:
        listed = [
            f"{', '.join(n for n, e in zip(keyframes.names, keyframes.entity_idx, strict=True) if e == i)} ({name!r})"
            for i, name in enumerate(entities)
            if seen[i]
        ]
        raise KinemaError(f"reset: there is no keyframe {wanted!r}; the keyframes are: {'; '.join(listed) or 'none'}")
    return list(found.values())
