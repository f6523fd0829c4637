"""A small clean robot, and ways to spoil it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kinema.check import check
from kinema.core import Pose
from kinema.description import (
    Axis,
    Box,
    Inertial,
    Joint,
    JointKind,
    Link,
    Mesh,
    Robot,
    Shape,
    World,
    rotation,
    translation,
)
from kinema.geometry import MeshData, box, box_mass_properties

DENSITY = 1000.0


def codes(described: Robot | World) -> set[str]:
    """The codes of all diagnostics."""
    return {d.code for d in check(described)}


def box_link(name: str, size: Sequence[float] = (0.05, 0.05, 0.2), center: Sequence[float] = (0, 0, 0.1)) -> Link:
    """A solid box, its mass and inertia those of water."""
    matter = box_mass_properties(size, DENSITY)
    shape = Shape(name=f"{name}_box", geometry=Box(np.array(size, dtype=float)), pose=Pose.translation(center))
    inertial = Inertial(matter.mass, np.array(center, dtype=float), matter.inertia)
    return Link(name=name, inertial=inertial, shapes=[shape])


def hinge(
    name: str, parent: str | None, child: str | None, at: Sequence[float] = (0, 0, 0.2), **settings: float
) -> Joint:
    """A revolute joint about y with ordinary limits."""
    limits = {"lower": -1.5, "upper": 1.5, "effort": 10.0, "velocity": 2.0, **settings}
    axis = rotation((0, 1, 0), **limits)
    return Joint(
        name=name, kind=JointKind.REVOLUTE, parent=parent, child=child, parent_pose=Pose.translation(at), axes=[axis]
    )


def slider(name: str, parent: str, child: str, at: Sequence[float] = (0, 0, 0.2)) -> Joint:
    """A prismatic joint along z with ordinary limits."""
    axis = translation((0, 0, 1), lower=0.0, upper=0.1, effort=10.0, velocity=2.0)
    return Joint(
        name=name, kind=JointKind.PRISMATIC, parent=parent, child=child, parent_pose=Pose.translation(at), axes=[axis]
    )


def fixed(name: str, parent: str | None, child: str, at: Sequence[float] = (0, 0, 0.2)) -> Joint:
    """A fixed joint."""
    return Joint(name=name, kind=JointKind.FIXED, parent=parent, child=child, parent_pose=Pose.translation(at))


def arm(name: str = "arm", format: str = "") -> Robot:
    """Base, upper arm, forearm and a massless tool frame: nothing is wrong with it."""
    links = [box_link("base", (0.2, 0.2, 0.2)), box_link("upper"), box_link("fore"), Link(name="tool")]
    joints = [hinge("shoulder", "base", "upper"), slider("elbow", "upper", "fore"), fixed("flange", "fore", "tool")]
    return Robot(name=name, format=format, links=links, joints=joints)


def spoiled(*changes: Callable[[Robot], object], format: str = "") -> Robot:
    """The clean robot after some changes."""
    robot = arm(format=format)
    for change in changes:
        change(robot)
    return robot


def shoulder_axis(robot: Robot) -> Axis:
    """The axis of the hinge."""
    return robot.joint("shoulder").axes[0]


def elbow_axis(robot: Robot) -> Axis:
    """The axis of the slider."""
    return robot.joint("elbow").axes[0]


def with_axis(**settings: object) -> Robot:
    """The clean robot with its hinge's axis changed."""
    robot = arm()
    for field, value in settings.items():
        setattr(shoulder_axis(robot), field, value)
    return robot


def with_inertial(mass: float = 0.5, center: Sequence[float] = (0, 0, 0.1), inertia: object = None) -> Robot:
    """The clean robot with the upper arm's mass properties changed; a vector of moments stands for a diagonal."""
    robot = arm()
    own = robot.link("upper").inertial
    assert own is not None
    matrix = own.inertia if inertia is None else np.array(inertia, dtype=float)
    matrix = np.diag(matrix) if matrix.ndim == 1 else matrix
    robot.link("upper").inertial = Inertial(mass, np.array(center, dtype=float), matrix)
    return robot


def placed(robot: Robot) -> Robot:
    """The robot with every link's pose authored, as FK at zero gives it."""
    for name, pose in robot.link_poses().items():
        robot.link(name).pose = pose
    return robot


def mesh_of(data: MeshData, **settings: object) -> Mesh:
    """A mesh given in place."""
    return Mesh(vertices=np.array(data.vertices), faces=np.array(data.faces), **settings)  # type: ignore[arg-type]


def with_mesh(mesh: Mesh, **settings: bool) -> Robot:
    """The clean robot with the upper arm's box replaced by a mesh."""
    robot = arm()
    shape = robot.link("upper").shapes[0]
    robot.link("upper").shapes = [Shape(name="hull", geometry=mesh, pose=shape.pose, **settings)]  # type: ignore[arg-type]
    return robot


def box_mesh_data(size: Sequence[float] = (0.05, 0.05, 0.2)) -> MeshData:
    """The upper arm's box as triangles."""
    return box(size)
