"""Back to the start on a GPU, where a policy says which environments are done: nothing goes through the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kinema.backend import Arena, torch_module
from kinema.sim import ARRAYS, Use, start_of

from .keyframes import State
from .running import Running

Placed = tuple[Arena, int, int, str]
"""An array: where it lies, its first row, how many it has, and what it is called."""


def reset_on_device(running: Running, envs_idx: Any, state: State | None = None, keyframe: object = None) -> None:
    """State and commands of some environments as at the start, or in a keyframe; a mask is not even counted."""
    running.engine.touch()
    key = (keyframe, running.controls.version)
    if key not in running.starts:
        running.starts = {k: v for k, v in running.starts.items() if k[1] == running.controls.version}
        running.starts[key] = list(_blocks(running, _first(running, state)))
    for target, first in running.starts[key]:
        _put(target, first, envs_idx)


def _blocks(running: Running, first: Mapping[str, np.ndarray]) -> Iterator[tuple[Any, Any]]:
    """Memory and what it begins with, as tensors; arrays that lie side by side are one, which one launch resets."""
    memory, arenas = running.memory, (running.engine.state, running.engine.told)
    places = [
        (arena, *arena.layout.rows[name], name) for arena in arenas for name in first if name in arena.layout.rows
    ]
    places.sort(key=lambda place: (place[0].layout.name, place[1]))
    for parts in _runs(places, lambda name: first[name].shape[1]):
        arena, start = parts[0][:2]
        target = arena.rows(start, sum(count for _, _, count, _ in parts)).to_torch()
        yield target, memory.constant(np.concatenate([first[name] for *_, name in parts]))


def _runs(places: Sequence[Placed], columns: Callable[[str], int]) -> Iterator[list[Placed]]:
    """Arrays that follow each other in the same memory, and begin with as many columns."""
    run: list[Placed] = []
    for place in places:
        arena, start, _, name = place
        if run:
            last, before, count, other = run[-1]
            if last is not arena or before + count != start or columns(other) != columns(name):
                yield run
                run = []
        run.append(place)
    if run:
        yield run


def _first(running: Running, state: State | None) -> dict[str, np.ndarray]:
    """What everything begins with: arrays (items, 1), or (items, n_envs) where environments differ."""
    model, settings = running.model, running.engine.settings
    first = {info.name: start_of(info, model, settings) for info in ARRAYS if info.use is Use.STATE}
    if state is None:
        first |= running.controls.first_commands()
    else:
        first |= {"qpos": state.qpos[:, None], "vel": state.qvel[:, None], "act": state.act[:, None]}
        first |= running.controls.first_commands(None, state.qpos, state.ctrl)
    if settings.external_forces:
        first |= {name: np.zeros((3 * model.n_links, 1)) for name in ("cfrc_applied_ang", "cfrc_applied_vel")}
    return {name: values.astype(running.memory.dtype) for name, values in first.items() if running.memory.has(name)}


def _put(target: Any, first: Any, envs_idx: Any) -> None:
    torch = torch_module()
    if envs_idx.dtype == torch.bool:
        torch.where(envs_idx, first, target, out=target)
    elif first.shape[1] == 1:
        target[:, envs_idx] = first.expand(-1, len(envs_idx))
    else:
        target[:, envs_idx] = first[:, envs_idx]
