"""A learnt policy on a page: layers of the network, and the terms of its task that the page evaluates.

The page has implementations of the observation functions in `OBSERVATIONS` and of the built-in actions, in JavaScript.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from kinema.core import KinemaError

from ..learn import Policy, TaskEnv, mdp
from ..learn.builtin_terms import (
    ActuatorAction,
    JointIncrementAction,
    JointPositionAction,
    RelativeJointPositionAction,
    UniformVelocityCommand,
)
from ..learn.terms import ActionTerm, CommandTerm, ObsTerm

OBSERVATIONS = (
    "joint_pos",
    "joint_pos_rel",
    "joint_vel",
    "joint_sin_cos",
    "link_pos",
    "base_lin_vel",
    "base_ang_vel",
    "projected_gravity",
    "last_action",
    "generated_commands",
)
"""Observation functions of `mdp` that pages know."""
ACTION_KINDS: tuple[tuple[type[ActionTerm], str], ...] = (
    (ActuatorAction, "actuators"),
    (JointIncrementAction, "increments"),
    (RelativeJointPositionAction, "relative"),
    (JointPositionAction, "positions"),
)
"""Actions that pages know, derived classes first."""
VELOCITY_LABELS = ("forwards [m/s]", "sideways [m/s]", "turn [rad/s]")


def page_policy(policy: Policy, env: TaskEnv) -> dict[str, Any]:
    """Policy and terms of its task as JSON values; KinemaError for terms that pages do not know."""
    group = env.task.observations.get("policy")
    if group is None:
        raise KinemaError(f'publish: task {env.task.name} has no group of observations "policy"')
    layers = [
        {"weights": _base64(weight), "bias": _base64(bias)}
        for weight, bias in zip(policy.weights, policy.biases, strict=True)
    ]
    if env.n_actions != policy.n_actions:
        raise KinemaError(f"publish: the policy has {policy.n_actions} actions, the task {env.n_actions}")
    n_observations = env.observe()["policy"].shape[1]
    if n_observations != policy.n_observations:
        raise KinemaError(f"publish: the policy has {policy.n_observations} observations, the task {n_observations}")
    return {
        "layers": layers,
        "decimation": env.task.decimation,
        "observations": [_observation(name, term, env) for name, term in group.terms.items()],
        "actions": [_action(name, term, env) for name, term in env.task.actions.items()],
        "commands": {name: _command(name, term) for name, term in env.task.commands.items()},
    }


def _base64(values: np.ndarray) -> str:
    """Single-precision values, row by row, little-endian, as base64."""
    return base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()


def _observation(name: str, term: ObsTerm, env: TaskEnv) -> dict[str, Any]:
    kind = next((kind for kind in OBSERVATIONS if getattr(mdp, kind) is term.func), None)
    if kind is None:
        raise KinemaError(f'publish: observation "{name}" is none that pages know ({", ".join(OBSERVATIONS)})')
    result: dict[str, Any] = {"kind": kind, "scale": np.asarray(term.scale, float).tolist()}
    if term.clip is not None:
        result["clip"] = [float(x) for x in term.clip]
    entity = env.entities[term.params.get("entity", "robot")]
    info = entity.info
    match kind:
        case "joint_pos" | "joint_pos_rel" | "joint_vel" | "joint_sin_cos":
            dofs = entity.find_dofs(term.params.get("dofs"))
            result |= _joint_indices(env, entity, dofs)
            default = np.asarray(term.params.get("default", 0.0), float)
            result["default"] = np.broadcast_to(default, (len(dofs),)).tolist()
        case "link_pos":
            result["link"] = info.link_start + entity.get_link(term.params["link"]).idx
        case "generated_commands":
            result["command"] = term.params["command_name"]
        case "last_action":
            pass
        case _:
            result |= {"link": info.link_start + entity.base_link.idx, "dof": info.dof_start, "q": info.q_start}
            if not entity.joints or entity.joints[0].kind != "free":
                raise KinemaError(f'publish: observation "{name}" needs a free base')
    return result


def _joint_indices(env: TaskEnv, entity: Any, dofs: np.ndarray) -> dict[str, list[int]]:
    """Indices of degrees of freedom in the scene, and of their coordinates; KinemaError for ball and free joints."""
    coordinate = {
        joint.dofs_idx[0]: joint.qs_idx[0] for joint in entity.joints if len(joint.dofs_idx) == len(joint.qs_idx) == 1
    }
    wanted = [int(dof) for dof in dofs]
    if any(dof not in coordinate for dof in wanted):
        raise KinemaError(f"publish: observations of joints with several degrees of freedom ({env.task.name})")
    info = entity.info
    return {
        "dofs": [info.dof_start + dof for dof in wanted],
        "qs": [info.q_start + coordinate[dof] for dof in wanted],
    }


def _action(name: str, term: ActionTerm, env: TaskEnv) -> dict[str, Any]:
    kind = next((kind for known, kind in ACTION_KINDS if isinstance(term, known)), None)
    if kind is None:
        raise KinemaError(f'publish: action "{name}" is none that pages know')
    assert isinstance(term, ActuatorAction | JointPositionAction)
    entity, count = env.entities[term.entity], term.action_dim
    offset = np.broadcast_to(np.asarray(term.offset, float), (count,)).tolist()
    result: dict[str, Any] = {"kind": kind, "count": count, "scale": float(term.scale), "offset": offset}
    if isinstance(term, ActuatorAction):
        names = entity.actuator_names
        chosen = names if term.actuators is None else list(term.actuators)
        return {**result, "actuators": [entity.info.actuator_start + names.index(actuator) for actuator in chosen]}
    dofs = entity.find_dofs(entity.dofs_of(*term.dofs))
    lower, upper = entity.get_dofs_limit(dofs)
    limits = {"lower": [_bounded(x) for x in lower], "upper": [_bounded(x) for x in upper]}
    return {**result, **_joint_indices(env, entity, dofs), **limits}


def _bounded(value: float) -> float:
    """Number that JSON can represent."""
    return float(np.clip(value, -1e30, 1e30))


def _command(name: str, term: CommandTerm) -> list[Mapping[str, Any]]:
    """Sliders of a command."""
    if not isinstance(term, UniformVelocityCommand):
        raise KinemaError(f'publish: command "{name}" is no velocity, the only kind of command that pages know')
    lower, upper = term.ranges
    return [
        {"label": label, "lower": float(low), "upper": float(high), "value": float(0.5 * high if i == 0 else 0.0)}
        for i, (label, low, high) in enumerate(zip(VELOCITY_LABELS, lower, upper, strict=True))
    ]
