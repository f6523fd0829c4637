"""Tasks to be learnt: made of terms, run in many environments, for gymnasium, stable-baselines3 and rsl_rl.

No learning algorithm is in here: the libraries have them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kinema.foundation import KinemaError

from . import mdp as mdp
from .actions import (
    ActuatorAction as ActuatorAction,
    JointIncrementAction as JointIncrementAction,
    JointPositionAction as JointPositionAction,
    RelativeJointPositionAction as RelativeJointPositionAction,
)
from .commands import ReachableCommand as ReachableCommand, UniformVelocityCommand as UniformVelocityCommand
from .policy import Policy as Policy
from .robots import robot_file as robot_file
from .running import Outcome as Outcome, TaskEnv as TaskEnv
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
    from .vector import VectorTask as VectorTask

_ADAPTERS = {
    "VectorTask": (".vector", "gymnasium"),
    "Sb3Task": (".sb3", "stable-baselines3"),
    "RslTask": (".rsl_rl", "rsl-rl-lib"),
}
"""What needs a library: where it is, and what to install."""


def run(task: str | Task, n_envs: int = 1, device: str = "cpu", seed: int = 0, arrays: str | None = None) -> TaskEnv:
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
    return __getattr__("VectorTask")(run(task, num_envs, device, seed, arrays))


def __getattr__(name: str) -> Any:
    if name not in _ADAPTERS:
        raise AttributeError(f"module 'kinema.apps.learn' has no attribute {name!r}")
    module, library = _ADAPTERS[name]
    try:
        return getattr(importlib.import_module(module, __name__), name)
    except ImportError as error:
        raise KinemaError(f"{name} needs {library}: pip install {library} ({error})") from None
