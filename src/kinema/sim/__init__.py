"""L3: the algorithms, once, over scalars; the programs traced from them; and what runs those."""

from .arrays import ARRAYS as ARRAYS, Use as Use, start_of as start_of
from .collide.planned import (
    ROOM as ROOM,
    kinds_without_contact as kinds_without_contact,
    may_lose_contacts as may_lose_contacts,
    room_for_contacts as room_for_contacts,
)
from .fields.fields import Fields as Fields, Quantity as Quantity
from .fields.names import describe_fields as describe_fields
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
from .lower.condition import Inertias as Inertias, dof_inertias as dof_inertias, perturbed as perturbed
from .lower.derived import joint_inertias as joint_inertias
from .lower.plan import EMISSIONS as EMISSIONS
from .lower.programs import step_program as step_program
from .lower.variants import WEIGHING as WEIGHING, Variants as Variants
from .run.engine import Engine as Engine
from .run.in_turn import InTurn as InTurn
from .run.step_times import BlockTime as BlockTime, StepTimes as StepTimes, on_one_thread as on_one_thread
from .settings import (
    PARAMETERS as PARAMETERS,
    Broad as Broad,
    Control as Control,
    Drive as Drive,
    Integrator as Integrator,
    Settings as Settings,
    Solver as Solver,
    not_by_island as not_by_island,
)
from .sweeps.idle import trees_of_frames as trees_of_frames
