"""The gripper with closed loops, on something that moves it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

import kinema as km
from kinema.core import Pose
from kinema.description import Joint, JointKind, Link, PhysicsMaterial, Robot, Shape, SolverParameters, translation

ROBOTS = Path(__file__).parent / "robots"
ARM, GRIPPER = ROBOTS / "arm" / "arm.urdf", ROBOTS / "gripper" / "gripper.sdf"
ARM_JOINTS = (
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "elbow_joint",
    "forearm_roll_joint",
    "wrist_pitch_joint",
    "wrist_roll_joint",
)
HARD = PhysicsMaterial(
    static_friction=1.2,
    dynamic_friction=1.2,
    solver=SolverParameters(solref=(0.004, 1.0), solimp=(0.95, 0.99, 0.001, 0.5, 2.0)),
)
"""Rubber on steel, as surfaces that are held have it as well."""
GRASP = 0.15
"""How far in front of the palm things are held [m]."""


def on_arm() -> Robot:
    """The example arm with the gripper in place of its hand; only the pads touch."""
    arm, gripper = km.read(ARM), _gripper()
    last = next(i for i, link in enumerate(arm.links) if link.name == "hand_link")
    links = [_untouchable(link) for link in arm.links[:last]]
    joints = [j for j in arm.joints if j.name in ARM_JOINTS]
    flange = Joint(
        name="flange", kind=JointKind.FIXED, parent="wrist_3_link", child="palm", parent_pose=_at(0.0, 0.0, 0.03)
    )
    return replace(
        arm, name="arm with gripper", links=[*links, *gripper.links], joints=[*joints, flange, *gripper.joints]
    )


def on_slides() -> Robot:
    """The gripper head down on a slide along x, and one up and down."""
    gripper = _gripper()
    across = Joint(
        name="across", kind=JointKind.PRISMATIC, parent=None, child="carriage", axes=[translation((1.0, 0.0, 0.0))]
    )
    turned = Pose(np.zeros(3), np.diag([1.0, -1.0, -1.0]))
    up = Joint(
        name="up", kind=JointKind.PRISMATIC, parent="carriage", child="palm", axes=[translation((0.0, 0.0, 1.0))]
    )
    up.child_pose = turned
    carriage = Link(name="carriage", inertial=replace(gripper.links[0].inertial))
    return replace(
        gripper, name="gripper on slides", links=[carriage, *gripper.links], joints=[across, up, *gripper.joints]
    )


def close(scene: km.Scene, gripper: km.Entity) -> None:
    """Bring the fingers together slowly, until their drive pushes as hard as it is told to."""
    driver = gripper.dofs_of("left_driver_joint")
    gripper.set_dofs_kp(12.0, driver)
    gripper.set_dofs_kv(0.3, driver)
    for target in np.linspace(0.0, 0.8, 20):
        gripper.control_dofs_position(np.full((scene.n_envs, 1), target), driver)
        scene.step(20)


def _gripper() -> Robot:
    gripper = km.read(GRIPPER)
    pads = [replace(link, shapes=[_pad(s) for s in link.shapes]) for link in gripper.links]
    return replace(gripper, links=pads)


def _pad(shape: Shape) -> Shape:
    """Only pads touch, and they are hard: fingers are light, and soft contacts give way by what they weigh."""
    if not shape.name.endswith("pad"):
        return replace(shape, collision=False)
    return replace(shape, surface=HARD)


def _untouchable(link: Link) -> Link:
    """A link that is seen and not felt."""
    return replace(link, shapes=[replace(s, collision=False) for s in link.shapes])


def _at(x: float, y: float, z: float) -> Pose:
    return Pose.translation(np.array([x, y, z]))
