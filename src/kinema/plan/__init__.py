"""L4: kinematics and planning of robots without a scene: where links are, how to get them somewhere, how fast."""

from kinema.sim import Solutions as Solutions

from .arguments import rows as rows
from .kinematics import Kinematics as Kinematics, ik as ik
from .solving import Solving as Solving
from .trajectories import (
    Trajectory as Trajectory,
    linear as linear,
    min_jerk as min_jerk,
    straight_pose as straight_pose,
)
