"""L4: forward and inverse kinematics, inverse dynamics, operational space, motion planning and trajectories."""

from .arguments import validate_rows as validate_rows
from .batched_kinematics import (
    LINK_POSES as LINK_POSES,
    QACC_INPUT as QACC_INPUT,
    BatchedKinematics as BatchedKinematics,
    KinematicQuery as KinematicQuery,
    jacobian_query as jacobian_query,
    link_query as link_query,
    mass_matrix_query as mass_matrix_query,
)
from .collision_checking import (
    CollisionChecker as CollisionChecker,
    CollisionGeoms as CollisionGeoms,
    oriented_boxes as oriented_boxes,
)
from .dynamics_queries import (
    ACCELERATION as ACCELERATION,
    JOINT_FORCE as JOINT_FORCE,
    aba_query as aba_query,
    rnea_query as rnea_query,
)
from .goals import (
    AxisGoal as AxisGoal,
    CenterOfMassGoal as CenterOfMassGoal,
    Goal as Goal,
    LookAtGoal as LookAtGoal,
    OrientationGoal as OrientationGoal,
    PositionGoal as PositionGoal,
)
from .ik_program import (
    IK_METHODS as IK_METHODS,
    CompiledIK as CompiledIK,
    IKOptions as IKOptions,
    IKSolutions as IKSolutions,
    trace_single_task_ik as trace_single_task_ik,
)
from .inverse_kinematics import ROTATION_WEIGHT as ROTATION_WEIGHT, IKSolver as IKSolver
from .path_planning import (
    PlanningError as PlanningError,
    PlanningOptions as PlanningOptions,
    certify_blends as certify_blends,
    name_pairs as name_pairs,
    plan_waypoints as plan_waypoints,
)
from .robot_kinematics import Kinematics as Kinematics, ik as ik
from .time_parameterization import time_parameterize as time_parameterize
from .trajectories import (
    Trajectory as Trajectory,
    interpolate_pose as interpolate_pose,
    linear_trajectory as linear_trajectory,
    min_jerk_trajectory as min_jerk_trajectory,
)
