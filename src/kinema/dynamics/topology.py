"""Topology of the kinematic forest without symbolic scalars: index of the world and tree index of each frame."""

from __future__ import annotations

from kinema.model import Model

WORLD = -1
"""Index of the world, the parent of all root frames."""


def tree_index_of_frames(model: Model) -> list[int]:
    """Tree index of each frame; trees are numbered in the order of their root frames."""
    trees: list[int] = []
    count = 0
    for parent in model.frames.parent_idx.tolist():
        trees.append(count if parent == WORLD else trees[parent])
        count += parent == WORLD
    return trees
