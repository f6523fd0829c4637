"""Sleep policy of each kinematic tree, initial sleep state, and length scales of the sleep velocity threshold."""

from __future__ import annotations

import numpy as np

from kinema.core import Array
from kinema.model import Model, PrimitiveJointType

from ..topology import WORLD, dynamic_frames, tree_index_of_frames

NEVER, ALLOWED, INIT = "never", "allowed", "init"
"""Sleep policies, as in MuJoCo: never sleeps, may sleep, sleeps initially."""


def n_trees(model: Model) -> int:
    """Return the number of kinematic trees of a model."""
    return max(tree_index_of_frames(model), default=-1) + 1


def sleep_policies(model: Model) -> list[str]:
    """Return the sleep policy of each tree: "never", "allowed" or "init".

    Policies of the links are combined: "never" of any link wins over "init", which wins over "allowed". Trees that
    tendons or paths act on never sleep. Without a policy in the file, trees without actuators may sleep, others never
    do.
    """
    trees = tree_index_of_frames(model)
    link_policies: list[set[str]] = [set() for _ in range(n_trees(model))]
    frames = dynamic_frames(model, model.links.frame_idx).tolist()
    for policy, frame in zip(model.links.sleep, frames, strict=True):
        if frame != WORLD:
            link_policies[trees[frame]].add(policy)
    actuated, with_tendons = _actuated_trees(model, trees), _tendon_trees(model, trees)
    result = []
    for tree, policies in enumerate(link_policies):
        if tree in with_tendons or NEVER in policies:
            result.append(NEVER)
        elif INIT in policies:
            result.append(INIT)
        else:
            result.append(ALLOWED if ALLOWED in policies or tree not in actuated else NEVER)
    return result


def _actuated_trees(model: Model, frame_trees: list[int]) -> set[int]:
    """Return the indices of the trees that actuators act on."""
    tree_of_dof = [frame_trees[frame] for frame in model.dofs.frame_idx.tolist()]
    trees = {tree_of_dof[dof] for moment in model.actuators.moment for dof in moment.nonzero()[0]}
    return trees | {frame_trees[f] for f in dynamic_frames(model, model.actuators.frame_idx).tolist() if f != WORLD}


def _tendon_trees(model: Model, frame_trees: list[int]) -> set[int]:
    """Return the indices of the trees that tendons or transmission paths act on."""
    tree_of_dof = [frame_trees[frame] for frame in model.dofs.frame_idx.tolist()]
    trees = {tree_of_dof[dof] for moment in model.tendons.moment for dof in moment.nonzero()[0]}
    return trees | {
        frame_trees[f] for f in dynamic_frames(model, model.path_segments.frame_idx).ravel().tolist() if f != WORLD
    }


def initially_asleep(model: Model) -> Array:
    """Return for each tree 0 if initially awake, else the tree index + 1 (float array)."""
    return np.array([tree + 1.0 if policy == INIT else 0.0 for tree, policy in enumerate(sleep_policies(model))])


def dof_lengths(model: Model) -> Array:
    """Return the length [m] by which each dof velocity is multiplied before it is compared with the sleep threshold.

    1 for sliding dofs. For rotational dofs it is an upper bound of the distance from the joint to the surface of the
    geoms moved by it, or 1 if there are none.
    """
    reach = np.zeros(model.n_frames)
    geoms = model.geoms
    for geom, frame in enumerate(geoms.frame_idx.tolist()):
        if frame != WORLD and np.isfinite(geoms.radius[geom]):
            center = geoms.pos[geom] + geoms.rot[geom] @ geoms.center[geom]
            reach[frame] = max(reach[frame], float(geoms.radius[geom] + np.linalg.norm(center)))
    for frame in reversed(range(model.n_frames)):
        parent = int(model.frames.parent_idx[frame])
        if parent != WORLD:
            reach[parent] = max(reach[parent], reach[frame] + float(np.linalg.norm(model.frames.pos[frame])))
    lengths = np.ones(model.n_dofs)
    for dof, frame in enumerate(model.dofs.frame_idx.tolist()):
        if model.frames.joint_type[frame] != PrimitiveJointType.SLIDE and reach[frame] > 0.0:
            lengths[dof] = reach[frame]
    return lengths
