"""Which models and settings rules of collision are supported for; others need a table of geom pairs."""

from __future__ import annotations

from kinema.model import Model

from ..settings import MAX_BLOCK_SPARSE_TREES, BroadPhase, Settings, Solver
from ..topology import dynamic_frames, tree_index_of_frames

BODY_DOFS = 6
"""Degrees of freedom of a free body."""


def supports_pair_rules(model: Model, settings: Settings, *, is_cpu: bool) -> bool:
    """Whether the step of a model can use rules of collision: free bodies with contacts and nothing else.

    Without equality constraints, couplings, dry friction, limits, actuators, sensors of contacts, kinematic bodies,
    restitution and speculative contacts; solved by Newton's method with equal parameters in all environments. Islands
    are always solved separately, and may sleep. On a GPU, one thread steps an environment, and scenes that a warp can
    solve have a table of geom pairs.
    """
    if settings.broad_phase not in (BroadPhase.AUTO, BroadPhase.CELLS) or settings.solver is not Solver.NEWTON:
        return False
    if settings.per_env or settings.noslip_iterations:
        return False
    if settings.differentiable or settings.energy_limiter or model.kinematic_frames or model.n_actuators:
        return False
    tables = (model.equalities, model.couplings, model.tendons, model.attachments)
    if any(table.names for table in tables) or model.sensors.names or model.suction_cups.names:
        return False
    if not is_cpu and len(set(tree_index_of_frames(model))) <= MAX_BLOCK_SPARSE_TREES:
        return False
    rules, geoms, dofs = model.pair_rules.parameters, model.geoms, model.dofs
    if rules.restitution.any() or (rules.stiction_ratio > 1.0).any():
        return False
    if geoms.fast.any() or len(geoms.surface_velocity) or dofs.frictionloss.any():
        return False
    return _has_free_bodies_only(model)


def _has_free_bodies_only(model: Model) -> bool:
    """Whether each tree has the dofs of a free body, without limits, and geoms on its last frame only."""
    trees, n_dofs, last = tree_index_of_frames(model), dict[int, int](), dict[int, int]()
    for frame, tree in enumerate(trees):
        n_dofs[tree] = n_dofs.get(tree, 0) + len(model.frame_dof_range(frame))
        last[tree] = frame
    is_free = set(n_dofs.values()) == {BODY_DOFS} and all(kind == "free" for kind in model.joints.kinds)
    frames = dynamic_frames(model, model.geoms.frame_idx).tolist()
    return is_free and all(frame < 0 or last[trees[frame]] == frame for frame in frames)
