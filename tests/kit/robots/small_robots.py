"""Small robots for the tests of scenes, made in memory; none needs more than a few hundred operations a step."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

import kinema as km
from kinema.core import Origin, Pose
from kinema.description import Axis, Drive, Inertial, Joint, JointKind, Link, Robot, free_axes, rotation, translation
from kinema.read import read


def body(name: str, mass: float = 1.0, center: Iterable[float] = (0.0, 0.0, 0.0), inertia: float = 0.0) -> Link:
    """A link with a point mass, or a little ball."""
    return Link(
        name=name,
        inertial=Inertial(mass, np.array(list(center), dtype=float), inertia * np.eye(3)),
        origin=Origin("made.up", 1),
    )


def joint(name: str, parent: str | None, child: str, axis: Axis, at: Iterable[float] = (0.0, 0.0, 0.0)) -> Joint:
    """A joint with one axis."""
    kind = JointKind.CONTINUOUS if axis.motion.value == "rotation" else JointKind.PRISMATIC
    place = Pose.translation(np.array(list(at), dtype=float))
    return Joint(
        name=name, kind=kind, parent=parent, child=child, parent_pose=place, axes=[axis], origin=Origin("made.up", 2)
    )


def lift(mass: float = 2.0) -> Robot:
    """A mass on a vertical slide."""
    return Robot(
        name="lift", links=[body("box", mass)], joints=[joint("up", None, "box", translation((0.0, 0.0, 1.0)))]
    )


def pendulum(mass: float = 1.0, length: float = 0.5) -> Robot:
    """A point mass that swings about y; straight down at zero, towards -x at positive angles."""
    return Robot(
        name="pendulum",
        links=[body("bob", mass, (0.0, 0.0, -length))],
        joints=[joint("hinge", None, "bob", rotation((0.0, 1.0, 0.0)))],
    )


def reacher() -> Robot:
    """Two hinges and a slide on a base that stands still."""
    return Robot(
        name="reacher",
        links=[Link(name="base"), body("upper", 2.0, (0.2, 0.0, 0.0), 0.02), body("lower", 1.0, (0.2, 0.0, 0.0), 0.01),
               body("tip", 0.5, (0.0, 0.0, 0.0), 0.001)],
        joints=[
            joint("shoulder", "base", "upper", rotation((0.0, 1.0, 0.0))),
            joint("elbow", "upper", "lower", rotation((0.0, 1.0, 0.0)), (0.4, 0.0, 0.0)),
            joint("push", "lower", "tip", translation((1.0, 0.0, 0.0)), (0.4, 0.0, 0.0)),
        ],
    )  # fmt: skip


def ball() -> Robot:
    """A free body."""
    return Robot(
        name="ball",
        links=[body("ball", 2.0, inertia=0.1)],
        joints=[Joint(name="free", kind=JointKind.FREE, parent=None, child="ball", axes=free_axes())],
    )


def driven(**drive: float) -> Robot:
    """A lift with a drive of its own."""
    robot = lift()
    robot.joints[0].axes[0].drive = Drive(**drive)  # type: ignore[arg-type]
    return robot


SERVO = """<mujoco><option timestep="0.002" integrator="implicitfast"/><worldbody>
<body name="arm"><joint name="turn" axis="0 1 0" damping="0.1"/><geom size=".05" pos="0.3 0 0" mass="1"/>
<body name="hand" pos=".3 0 0"><joint name="wrist" axis="0 1 0"/><geom size=".03" pos="0.1 0 0" mass="0.5"/></body>
</body></worldbody><actuator><position name="servo" joint="turn" kp="20" kv="2"/>
<motor name="motor" joint="wrist" gear="0.5"/></actuator></mujoco>"""


def from_text(folder: Path, text: str, name: str = "robot.xml") -> Robot | km.World:
    """A robot from the text of a file."""
    file = folder / name
    file.write_text(text)
    return read(file)
