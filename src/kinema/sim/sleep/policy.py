"""Who may sleep, who does from the start, and how fast is still."""

from __future__ import annotations

import numpy as np

from kinema.foundation import Array
from kinema.model import Model, Motion

from ..frames import WORLD, trees_of_frames

NEVER, ALLOWED, INIT = "never", "allowed", "init"


def n_trees(model: Model) -> int:
    """How many trees there are."""
    return int((model.frames.parent_idx == WORLD).sum())


def policies(model: Model) -> list[str]:
    """Of each tree whether it may sleep, and does from the start: as files say, or if nothing drives it.

    What tendons and paths run along never sleeps: they would have to be looked at all the same.
    """
    trees = trees_of_frames(model)
    told: list[set[str]] = [set() for _ in range(n_trees(model))]
    for word, frame in zip(model.links.sleep, model.links.frame_idx.tolist(), strict=True):
        if frame != WORLD:
            told[trees[frame]].add(word)
    driven, tied = _driven(model, trees), _tied(model, trees)
    result = []
    for tree, words in enumerate(told):
        if tree in tied or NEVER in words:
            result.append(NEVER)
        elif INIT in words:
            result.append(INIT)
        else:
            result.append(ALLOWED if ALLOWED in words or tree not in driven else NEVER)
    return result


def _driven(model: Model, trees: list[int]) -> set[int]:
    """Trees that actuators act on."""
    of_dofs = [trees[frame] for frame in model.dofs.frame_idx.tolist()]
    found = {of_dofs[dof] for moment in model.actuators.moment for dof in moment.nonzero()[0]}
    return found | {trees[f] for f in model.actuators.frame_idx.tolist() if f != WORLD}


def _tied(model: Model, trees: list[int]) -> set[int]:
    """Trees that tendons and paths run along."""
    of_dofs = [trees[frame] for frame in model.dofs.frame_idx.tolist()]
    found = {of_dofs[dof] for moment in model.tendons.moment for dof in moment.nonzero()[0]}
    return found | {trees[f] for f in model.paths.frame_idx.ravel().tolist() if f != WORLD}


def asleep_at_start(model: Model) -> Array:
    """Of each tree 0, or its own number from 1 where it sleeps from the start."""
    return np.array([tree + 1.0 if policy == INIT else 0.0 for tree, policy in enumerate(policies(model))])


def lengths(model: Model) -> Array:
    """What the speed of each degree of freedom is taken by: 1, or for those that turn how far what they carry reaches.

    Nothing that has no shape reaches anywhere: there it is 1 as well [m].
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
    result = np.ones(model.n_dofs)
    for dof, frame in enumerate(model.dofs.frame_idx.tolist()):
        if model.frames.motion[frame] != Motion.SLIDE and reach[frame] > 0.0:
            result[dof] = reach[frame]
    return result
