"""The tree of moving frames, as far as arrays and settings depend on it."""

from __future__ import annotations

from kinema.model import Model

WORLD = -1
"""The frame that all others hang on."""


def trees_of_frames(model: Model) -> list[int]:
    """Of each frame the number of its tree; trees are in the order of their first frames."""
    trees: list[int] = []
    count = 0
    for parent in model.frames.parent_idx.tolist():
        trees.append(count if parent == WORLD else trees[parent])
        count += parent == WORLD
    return trees
