"""Sleeping bodies: which dofs, links and entities are asleep, and waking kinematic trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kinema.core import KinemaError
from kinema.dynamics import Engine, tree_index_of_frames

from .arguments import IndexArray, Selection, resolve_envs
from .arrays import SceneArrays

AWAKE_ELEMENT_KINDS = ("dofs", "links", "entities")
AWAKE_ARRAYS = tuple(f"{word}awake_{of}" for of in AWAKE_ELEMENT_KINDS for word in ("", "n_"))
"""`awake_dofs` (n_dofs, n_envs): indices of the awake dofs in ascending order, then -1; `n_awake_dofs` (n_envs,): their
number. `awake_links` and `awake_entities` have the same layout. Items that are fixed in the world count as awake."""


def awake_array(engine: Engine, name: str) -> np.ndarray:
    """One of the arrays `AWAKE_ARRAYS` for the current state.

    Names with `n_` give counts, (n_envs,); the others the awake indices in ascending order padded with -1, (n, n_envs).
    """
    awake = _awake_mask(engine, name.rpartition("_")[2])
    if name.startswith("n_"):
        return awake.sum(axis=0, dtype=np.int32)
    order = np.argsort(~awake, axis=0, kind="stable")
    return np.where(np.take_along_axis(awake, order, axis=0), order, -1).astype(np.int32)


def _awake_mask(engine: Engine, item_kind: str) -> np.ndarray:
    """Mask of the awake dofs, links or entities, bool (n, n_envs); an entity is awake if any of its links is."""
    model = engine.model
    if item_kind == "entities":
        links = _awake_mask(engine, "links")
        return np.array([links[info.link_start : info.link_end].any(axis=0) for info in model.entities])
    return ~_asleep(engine, model.dofs.frame_idx if item_kind == "dofs" else model.links.frame_idx)


def _asleep(engine: Engine, frames: npt.NDArray[np.integer[Any]]) -> np.ndarray:
    """Whether the kinematic tree of each frame is asleep, bool (n, n_envs); False for the world (frame -1)."""
    if not engine.settings.sleep_tolerance:
        return np.zeros((len(frames), engine.n_envs), np.bool_)
    asleep = engine.read_array("asleep") > 0.0
    return np.concatenate([asleep, np.zeros((1, engine.n_envs), np.bool_)])[_tree_of_frame(engine)[frames]]


def _tree_of_frame(engine: Engine) -> np.ndarray:
    """Index of the kinematic tree of each frame, (n_frames + 1,); -1 for the last entry, the world."""
    return np.array([*tree_index_of_frames(engine.model), -1])


def links_asleep(engine: Engine, links: slice, envs_idx: Selection) -> np.ndarray:
    """Whether each of the links is asleep, bool (environments, n); links fixed in the world never are."""
    asleep = _asleep(engine, engine.model.links.frame_idx[links]).T
    envs = resolve_envs(envs_idx, engine.n_envs)
    return asleep if envs is None else asleep[envs]


def wake_trees(arrays: SceneArrays, links: slice, envs_idx: Selection) -> None:
    """Wake the kinematic trees of the given links, and all trees of the same sleeping islands.

    Clears the entries of these trees in the state arrays `asleep` and `still`. Raises `KinemaError` if sleeping is
    disabled.

    Args:
        arrays: arrays of the engine.
        links: slice of scene link indices.
        envs_idx: environments; None for all.
    """
    engine = arrays.engine
    if not engine.settings.sleep_tolerance:
        raise KinemaError("wake: sleeping is disabled in this scene: use Scene(sleep=True)")
    envs = resolve_envs(envs_idx, engine.n_envs)
    columns = np.arange(engine.n_envs) if envs is None else np.asarray(envs)
    trees = np.unique(_tree_of_frame(engine)[engine.model.links.frame_idx[links]])
    trees = trees[trees >= 0]
    asleep = np.array(arrays.get("asleep"))[:, columns]
    still = np.array(arrays.get("still"))[:, columns]
    wakes = (asleep[:, None] == asleep[None, trees]).any(axis=1)
    wakes[trees] = True
    for name, values in (("asleep", asleep), ("still", still)):
        arrays.write(name, slice(None), np.where(wakes, 0.0, values).T, columns)


def wake_all(arrays: SceneArrays, envs: IndexArray | None) -> None:
    """Wake all sleeping bodies of the selected environments (None for all); without sleep nothing happens."""
    if arrays.engine.settings.sleep_tolerance:
        for name in ("asleep", "still"):
            arrays.write(name, slice(None), np.zeros((1, len(arrays.get(name)))), envs)
