"""Which models and settings rules of collision are supported for; others need a table of geom pairs."""

from __future__ import annotations

from kinema.model import Model

from ..free_bodies import articulated_trees, n_geoms_of_free_bodies
from ..sensors.contact_weights import contact_dependent_outputs, supports_rules_of_collision
from ..settings import (
    MAX_ENVS_OF_MANY_TREES,
    MAX_FACTORIZED_TREES,
    MAX_WARP_TREES,
    BroadPhase,
    Integrator,
    Settings,
    Solver,
)
from ..topology import tree_index_of_frames


def supports_pair_rules(
    model: Model, settings: Settings, *, is_cpu: bool, n_envs: int = 1, min_free_geoms: int = 0
) -> bool:
    """Whether the step of a model can use rules of collision, and is faster with them.

    Supported are free bodies and, on a CPU, articulated trees with actuators, limits, dry friction and equality
    constraints; without kinematic bodies, attachments, suction cups, adhesion, tactile sensors, restitution and
    speculative contacts; solved by Newton's method, not with RK4, with equal parameters in all environments. Islands
    are always solved separately; free bodies may sleep if there are no articulated trees. On a GPU, one thread steps an
    environment, and scenes with sensors, or that a warp solves in less time, have a table of geom pairs.

    Beside articulated trees there must be at least `min_free_geoms` geoms on free bodies: a table is faster for robots.
    """
    if settings.broad_phase not in (BroadPhase.AUTO, BroadPhase.CELLS) or settings.solver is not Solver.NEWTON:
        return False
    if settings.per_env or settings.noslip_iterations or settings.integrator is Integrator.RK4:
        return False
    if settings.differentiable or settings.energy_limiter or model.kinematic_frames:
        return False
    if model.attachments.names or model.suction_cups.names or (model.actuators.link_idx >= 0).any():
        return False
    if not is_cpu and (model.sensors.names or _is_faster_on_warp(model, settings, n_envs)):
        return False
    rules, geoms = model.pair_rules.parameters, model.geoms
    if rules.restitution.any() or (rules.stiction_ratio > 1.0).any():
        return False
    if geoms.fast.any() or len(geoms.surface_velocity):
        return False
    if not all(supports_rules_of_collision(model, i) for i in contact_dependent_outputs(model)):
        return False
    if not articulated_trees(model).any():
        return True
    n_free = n_geoms_of_free_bodies(model)
    return is_cpu and settings.sleep_tolerance == 0.0 and n_free >= max(min_free_geoms, 1)


def _is_faster_on_warp(model: Model, settings: Settings, n_envs: int) -> bool:
    """Whether a warp of a GPU solves the constraints of a scene in less time than one thread per environment."""
    if settings.islands or settings.sleep_tolerance > 0.0:  # not supported by the warp solver
        return False
    n_trees = len(set(tree_index_of_frames(model)))
    return n_trees <= MAX_FACTORIZED_TREES or (n_trees <= MAX_WARP_TREES and n_envs <= MAX_ENVS_OF_MANY_TREES)
