"""Topology of the kinematic forest without symbolic scalars: world, kinematic bodies, trees and ancestors of frames.

Kinematic bodies (`Model.kinematic_frames`) have no degrees of freedom: for the equations of motion they are parts of
the world, whose pose and velocity vary. Frames attached to them are roots of trees.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from kinema.model import Model

WORLD = -1
"""Index of the world, the parent of all root frames."""


def dynamic_frames(model: Model, frames: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Frame indices, with the indices of kinematic bodies replaced by `WORLD`."""
    kinematic = model.kinematic_frames
    return np.where(np.isin(frames, kinematic), np.int32(WORLD), frames) if kinematic else frames


def dynamic_parents(model: Model) -> list[int]:
    """Parent of each frame; `WORLD` for frames attached to kinematic bodies."""
    return dynamic_frames(model, model.frames.parent_idx).tolist()


def kinematic_carriers(model: Model) -> list[int]:
    """Frame of the kinematic body that each frame is attached to, directly or by joints; `WORLD` for none."""
    carriers: list[int] = []
    kinematic = set(model.kinematic_frames)
    for frame, parent in enumerate(model.frames.parent_idx.tolist()):
        carriers.append(frame if frame in kinematic else WORLD if parent == WORLD else carriers[parent])
    return carriers


def ancestor_frames(model: Model, frame: int) -> list[int]:
    """A frame and its ancestors up to the root, without the world and kinematic bodies."""
    path, kinematic = [], set(model.kinematic_frames)
    while frame != WORLD and frame not in kinematic:
        path.append(frame)
        frame = int(model.frames.parent_idx[frame])
    return path


def tree_index_of_frames(model: Model) -> list[int]:
    """Tree index of each frame, -1 for kinematic bodies; trees are numbered in the order of their root frames."""
    for known, found in tuple(_recent_tree_indices):
        if known is model.frames:
            return list(found)
    trees = _find_tree_indices(model)
    _recent_tree_indices.append((model.frames, trees))
    return list(trees)


_recent_tree_indices: deque[tuple[object, list[int]]] = deque(maxlen=4)
"""Tables of frames, and the tree index of each frame: one start asks for the same ones many times."""


def trees_of_entity(model: Model, entity: int) -> list[int]:
    """Trees that the links of an entity belong to, ascending."""
    info, trees = model.entities[entity], tree_index_of_frames(model)
    frames = model.links.frame_idx[info.link_start : info.link_end].tolist()
    return sorted({trees[frame] for frame in frames if frame != WORLD and trees[frame] >= 0})


def _find_tree_indices(model: Model) -> list[int]:
    trees: list[int] = []
    count, kinematic = 0, set(model.kinematic_frames)
    for frame, parent in enumerate(dynamic_parents(model)):
        is_root = parent == WORLD and frame not in kinematic
        trees.append(-1 if frame in kinematic else count if is_root else trees[parent])
        count += is_root
    return trees
