"""All that the package offers beyond what `__init__` imports itself: what is traced, or traces."""

from .kinematics.answers import Answers as Answers
from .kinematics.goals import (
    AxisGoal as AxisGoal,
    CenterGoal as CenterGoal,
    Goal as Goal,
    LookGoal as LookGoal,
    OrientationGoal as OrientationGoal,
    PositionGoal as PositionGoal,
)
from .kinematics.solver import (
    METHODS as METHODS,
    InverseKinematics as InverseKinematics,
    Search as Search,
    Solutions as Solutions,
)
from .lower.condition import dof_inertias as dof_inertias, perturbed as perturbed
from .lower.programs import step_program as step_program
from .run.step_times import BlockTime as BlockTime, StepTimes as StepTimes, on_one_thread as on_one_thread
