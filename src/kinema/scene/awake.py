"""Lists of what is awake, under the names of the array contract."""

from __future__ import annotations

import numpy as np

from kinema.sim import Engine, trees_of_frames

OF = ("dofs", "links", "entities")
AWAKE = tuple(f"{word}awake_{of}" for of in OF for word in ("", "n_"))
"""`awake_dofs` (n_dofs, n_envs) are the numbers of those that are awake, in order, and -1 after the last of them;
`n_awake_dofs` (n_envs,) says how many there are; likewise of links and entities. What never moves is awake."""


def awake_list(engine: Engine, name: str) -> np.ndarray:
    """One of these arrays, as things are now."""
    awake = _awake(engine, name.rpartition("_")[2])
    if name.startswith("n_"):
        return awake.sum(axis=0)
    order = np.argsort(~awake, axis=0, kind="stable")
    return np.where(np.take_along_axis(awake, order, axis=0), order, -1)


def _awake(engine: Engine, of: str) -> np.ndarray:
    """Which of them are awake, (n, n_envs)."""
    model, trees = engine.model, np.array([*trees_of_frames(engine.model), -1])
    if of == "entities":
        links = _awake(engine, "links")
        return np.array([links[info.link_start : info.link_end].any(axis=0) for info in model.entities])
    frames = model.dofs.frame_idx if of == "dofs" else model.links.frame_idx
    if not engine.settings.sleep:
        return np.ones((len(frames), engine.n_envs), np.bool_)
    asleep = np.asarray(engine.field("asleep").numpy()) > 0.0
    asleep = np.concatenate([asleep, np.zeros((1, engine.n_envs), np.bool_)])
    return ~asleep[trees[frames]]
