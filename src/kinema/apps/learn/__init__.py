"""Reinforcement-learning tasks composed of terms, with adapters for gymnasium, stable-baselines3 and rsl_rl.

Tasks run in many environments at once. Learning algorithms are left to those libraries.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kinema.core import KinemaError

from . import mdp as mdp
from .builtin_terms import (
    ActuatorAction as ActuatorAction,
    JointIncrementAction as JointIncrementAction,
    JointPositionAction as JointPositionAction,
    ReachableCommand as ReachableCommand,
    RelativeJointPositionAction as RelativeJointPositionAction,
    UniformVelocityCommand as UniformVelocityCommand,
)
from .bundled_robots import robot_file as robot_file
from .policy import Policy as Policy
from .task_env import StepResult as StepResult, TaskEnv as TaskEnv
from .tasks import TASKS as TASKS
from .terms import (
    ActionTerm as ActionTerm,
    CommandTerm as CommandTerm,
    CurrTerm as CurrTerm,
    DoneTerm as DoneTerm,
    EventTerm as EventTerm,
    ObsGroup as ObsGroup,
    ObsTerm as ObsTerm,
    RewTerm as RewTerm,
    Task as Task,
)

if TYPE_CHECKING:
    from .gymnasium_adapter import VectorTask as VectorTask

_ADAPTERS = {
    "VectorTask": (".gymnasium_adapter", "gymnasium"),
    "Sb3Task": (".sb3_adapter", "stable-baselines3"),
    "RslTask": (".rsl_rl_adapter", "rsl-rl-lib"),
}
"""What needs a library: where it is, and what to install."""


def make_env(
    task: str | Task, n_envs: int = 1, device: str = "cpu", seed: int = 0, arrays: str | None = None
) -> TaskEnv:
    """A task, by name or of one's own, running; see `TaskEnv`."""
    if isinstance(task, str):
        if task not in TASKS:
            raise KinemaError(f"there is no task {task!r}; there are: {', '.join(TASKS)}")
        task = TASKS[task]()
    return TaskEnv(task, n_envs, device, seed, arrays)


def make_vec(
    task: str | Task, num_envs: int = 1, device: str = "cpu", seed: int = 0, arrays: str | None = None
) -> VectorTask:
    """A task as a vector environment of gymnasium; see `TaskEnv`."""
    return __getattr__("VectorTask")(make_env(task, num_envs, device, seed, arrays))


def __getattr__(name: str) -> Any:
    if name not in _ADAPTERS:
        raise AttributeError(f"module 'kinema.apps.learn' has no attribute {name!r}")
    module, library = _ADAPTERS[name]
    try:
        return getattr(importlib.import_module(module, __name__), name)
    except ImportError as error:
        raise KinemaError(f"{name} needs {library}: pip install {library} ({error})") from None
