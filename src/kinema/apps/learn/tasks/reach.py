"""Reach task: move the tool of an arm to a random reachable position."""

from __future__ import annotations

from kinema.scene import Entity, Scene

from .. import mdp
from ..builtin_terms import JointIncrementAction, ReachableCommand
from ..bundled_robots import robot_file
from ..task_env import Array, TaskEnv
from ..terms import DoneTerm, EventTerm, ObsGroup, ObsTerm, RewTerm, Task

JOINTS = ["shoulder_pan", "shoulder_lift", "elbow", "forearm_roll", "wrist_pitch", "wrist_roll"]
ARM = [f"{name}_joint" for name in JOINTS]
FINGERS = ["left_finger_joint", "right_finger_joint"]
KP = [250.0, 250.0, 150.0, 20.0, 15.0, 8.0]
KV = [40.0, 40.0, 20.0, 1.5, 1.0, 0.4]
"""Gains of the arm's joints [N m/rad, N m s/rad]."""
TOOL = "tool_frame"
SUCCESS_DISTANCE = 0.03
"""[m]"""


def reach() -> Task:
    """25 actions a second move the set points of six joints; the place is another one in each episode of 3 s."""
    target = {"command_name": "target", "link": TOOL}
    return Task(
        name="reach",
        build=_build_scene,
        scene={"dt": 0.01, "contacts": False, "limits": False, "constraints": False},
        decimation=4,
        episode_length_s=3.0,
        actions={"joints": JointIncrementAction(ARM, scale=0.2)},
        commands={"target": ReachableCommand(TOOL, ARM, limit_fraction=0.5)},
        observations={
            "policy": ObsGroup(
                terms={
                    "joints": ObsTerm(func=mdp.joint_sin_cos, params={"dofs": ARM}),
                    "speeds": ObsTerm(func=mdp.joint_vel, params={"dofs": ARM}, scale=0.2),
                    "tool": ObsTerm(func=mdp.link_pos, params={"link": TOOL}, scale=2.0),
                    "to target": ObsTerm(func=mdp.position_to_command, params=target, scale=5.0),
                }
            )
        },
        rewards={
            "distance": RewTerm(func=mdp.position_error, weight=-1.0, params=target),
            "near": RewTerm(func=mdp.position_error_tanh, weight=2.0, params={**target, "std": 0.1}),
            "nearer": RewTerm(func=mdp.position_error_tanh, weight=2.0, params={**target, "std": 0.02}),
            "smooth": RewTerm(func=mdp.action_rate_l2, weight=-0.01),
            "slow": RewTerm(func=mdp.joint_vel_l2, weight=-0.002, params={"dofs": ARM}),
        },
        terminations={"time_out": DoneTerm(func=mdp.time_out, time_out=True)},
        events={
            "gains": EventTerm(func=mdp.set_gains, mode="startup", params={"kp": KP, "kv": KV, "dofs": ARM}),
            "gripper": EventTerm(func=mdp.hold_joint_positions, mode="startup", params={"dofs": FINGERS}),
            "start": EventTerm(func=mdp.reset_joints_by_offset, params={"position_range": (-0.5, 0.5), "dofs": ARM}),
        },
        success=has_arrived,
    )


def has_arrived(env: TaskEnv) -> Array:
    """Whether the tool is within 3 cm of its place."""
    return mdp.position_error(env, "target", TOOL) < SUCCESS_DISTANCE


def _build_scene(scene: Scene) -> dict[str, Entity]:
    return {"robot": scene.add(robot_file("arm/arm.urdf"), fixed=True)}
