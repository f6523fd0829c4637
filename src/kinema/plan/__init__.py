"""L4: kinematics and planning of robots without a scene: where links are, how to get them somewhere, and in what time."""

from .arguments import rows as rows
from .kinematics import Kinematics as Kinematics, ik as ik
from .solving import Solutions as Solutions, Solving as Solving
from .trajectories import Trajectory as Trajectory, linear as linear, min_jerk as min_jerk, straight_pose as straight_pose
