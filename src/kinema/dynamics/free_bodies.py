"""Which kinematic trees are free bodies that only contacts and forces act on, and which are articulated trees (robots).

The solver of scenes of many bodies treats a free body as one node of six degrees of freedom (`tree/body_context.py`).
All other trees are articulated: trees with joints or limits, with dry friction, actuators or equality constraints.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kinema.model import Model

from .topology import WORLD, dynamic_frames, tree_index_of_frames

BODY_DOFS = 6
"""Degrees of freedom of a free body."""


def articulated_trees(model: Model) -> npt.NDArray[np.bool_]:
    """Whether each tree is articulated, (n_trees,): not a free body without constraints other than contacts.

    A free body has one free joint, and geoms on its last frame only.
    """
    trees = np.array(tree_index_of_frames(model), np.intp)
    n_trees = int(trees.max(initial=-1)) + 1
    dofs, geoms = model.dofs, model.geoms
    tree_of_dof = trees[dofs.frame_idx]
    result = np.bincount(tree_of_dof, minlength=n_trees) != BODY_DOFS
    joints = model.joints
    first_dofs = joints.dof_start[(joints.dof_end > joints.dof_start) & (np.array(joints.kinds) != "free")]
    result[tree_of_dof[first_dofs]] = True
    last = np.full(n_trees, WORLD)
    last[trees[trees >= 0]] = np.flatnonzero(trees >= 0)
    frames = dynamic_frames(model, geoms.frame_idx)
    frames = frames[frames != WORLD]
    result[trees[frames[last[trees[frames]] != frames]]] = True
    is_limited = np.isfinite(dofs.lower) | np.isfinite(dofs.upper)
    result[tree_of_dof[is_limited | (dofs.frictionloss > 0.0)]] = True
    for moments in (model.tendons.moment, model.actuators.moment, model.couplings.moment_a, model.couplings.moment_b):
        result[tree_of_dof[(moments != 0.0).any(axis=0)]] = True
    for ends in (
        model.equalities.frame_a,
        model.equalities.frame_b,
        model.actuators.frame_idx,
        model.path_segments.frame_idx.ravel(),
    ):
        ends = dynamic_frames(model, ends)
        result[trees[ends[ends != WORLD]]] = True
    return result


def articulated_frames(model: Model) -> list[int]:
    """Frames of the articulated trees of a model, ascending."""
    trees = np.array(tree_index_of_frames(model), np.intp)
    return np.flatnonzero((trees >= 0) & articulated_trees(model)[trees]).tolist()


def n_geoms_of_free_bodies(model: Model) -> int:
    """Number of geoms of free bodies."""
    trees, frames = np.array(tree_index_of_frames(model), np.intp), dynamic_frames(model, model.geoms.frame_idx)
    return int(np.count_nonzero(~articulated_trees(model)[trees[frames[frames != WORLD]]]))
