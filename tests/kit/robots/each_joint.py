"""Small robots in memory: one for each kind of joint, forwards and backwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kinema.builder import EntitySpec, build_model
from kinema.core import Diagnostics, Pose, axis_angle_to_matrix
from kinema.description import Base, Inertial, Joint, JointKind, Link, Robot, free_axes, rotation, translation
from kinema.model import Model

Builder = Callable[[], list[Joint]]


def oblique_pose(generator: np.random.Generator, reach: float = 0.3) -> Pose:
    """A pose that is nowhere special."""
    axis = generator.normal(size=3)
    turn = axis_angle_to_matrix(axis / np.linalg.norm(axis), generator.uniform(-3, 3))
    return Pose(generator.uniform(-reach, reach, 3), turn)


def lumpy_link(name: str, generator: np.random.Generator) -> Link:
    """A link with a full inertia tensor: that of some points."""
    points = generator.normal(size=(6, 3)) * 0.2
    masses = generator.uniform(0.2, 0.6, 6)
    center = masses @ points / masses.sum()
    arms = points - center
    inertia = sum(m * (a @ a * np.eye(3) - np.outer(a, a)) for m, a in zip(masses, arms, strict=True))
    return Link(name=name, inertial=Inertial(float(masses.sum()), center, np.asarray(inertia)))


def joint(kind: JointKind, name: str = "j", **settings: object) -> Joint:
    """A joint from `base` to `arm` with frames that are nowhere special."""
    generator = np.random.default_rng(len(name) + 17)
    ends: dict[str, object] = {"parent": "base", "child": "arm"}
    ends |= {"parent_pose": oblique_pose(generator), "child_pose": oblique_pose(generator)}
    return Joint(name=name, kind=kind, **{**ends, **settings})  # type: ignore[arg-type]


OBLIQUE = (1.0, 2.0, -2.0)
PASSIVE = {"damping": 0.3, "stiffness": 0.7, "spring_reference": 0.1, "armature": 0.05}


def _balls() -> list[Joint]:
    axes = [rotation(e, damping=0.2, armature=0.01) for e in np.eye(3)]
    return [joint(JointKind.SPHERICAL, axes=axes)]


def _stacked() -> list[Joint]:
    first = joint(JointKind.REVOLUTE, axes=[rotation(OBLIQUE, **PASSIVE)])
    second = joint(JointKind.PRISMATIC, "next", axes=[translation((0, 1, 1))], stacked=True)
    third = joint(JointKind.SPHERICAL, "last", axes=[rotation(e) for e in np.eye(3)], stacked=True)
    return [first, second, third]


def _six(*locked: int) -> list[Joint]:
    axes = [translation(e) for e in np.eye(3)] + [rotation(e) for e in np.eye(3)]
    for i in locked:
        axes[i].locked = True
    return [joint(JointKind.SIX_AXIS, axes=axes)]


BUILDERS: dict[str, Builder] = {
    "revolute": lambda: [joint(JointKind.REVOLUTE, axes=[rotation(OBLIQUE, reference=0.4, **PASSIVE)])],
    "continuous": lambda: [joint(JointKind.CONTINUOUS, axes=[rotation((0, 0, -1))])],
    "prismatic": lambda: [joint(JointKind.PRISMATIC, axes=[translation(OBLIQUE, reference=-0.2, **PASSIVE)])],
    "spherical": _balls,
    "cylindrical": lambda: [joint(JointKind.CYLINDRICAL, axes=[rotation(OBLIQUE), translation(OBLIQUE)])],
    "planar": lambda: [
        joint(JointKind.PLANAR, axes=[translation((1, 0, 0)), translation((0, 1, 0)), rotation((0, 0, 1), **PASSIVE)])
    ],
    "universal": lambda: [joint(JointKind.UNIVERSAL, axes=[rotation((1, 0, 0)), rotation((0, 1, 0), damping=0.1)])],
    "screw": lambda: [joint(JointKind.SCREW, axes=[rotation(OBLIQUE, reference=0.3, **PASSIVE)], pitch=0.5)],
    "six_axis": _six,
    "six_axis_locked": lambda: _six(1, 3),
    "free": lambda: [
        joint(JointKind.FREE, parent=None, parent_pose=Pose(), child_pose=Pose(), axes=free_axes()),
    ],
    "free_between_links": lambda: [joint(JointKind.FREE, axes=free_axes())],
    "stacked": _stacked,
}
NOT_REVERSED = {"free"}


@dataclass(frozen=True)
class Case:
    """A kind of joint, and whether it runs from the child to the parent."""

    kind: str
    backwards: bool

    def __str__(self) -> str:
        return f"{self.kind}_reversed" if self.backwards else self.kind


CASES = [Case(k, b) for k in BUILDERS for b in (False, True) if not (b and k in NOT_REVERSED)]


def robot(case: Case, base: Base = Base.FIXED) -> Robot:
    """A base, an arm on the joint of that kind, and a tip on a hinge of its own."""
    generator = np.random.default_rng(5)
    joints = BUILDERS[case.kind]()
    if case.backwards:
        for one in joints:
            one.parent, one.child = one.child, one.parent
    hinge = joint(JointKind.REVOLUTE, "hinge", parent="arm", child="tip", axes=[rotation((1, 1, 0), damping=0.02)])
    links = [lumpy_link(name, generator) for name in ("base", "arm", "tip")]
    links[0].pose = oblique_pose(generator)
    return Robot(name=str(case), links=links, joints=[*joints, hinge], root="base", base=base)


def model_of(described: Robot, **settings: object) -> Model:
    """The robot alone, as a model."""
    return build_model([EntitySpec(name="it", description=described)], diagnostics=Diagnostics(), **settings)  # type: ignore[arg-type]


def simple_body(
    mass: float, moments: tuple[float, float, float], center: tuple[float, float, float] = (0, 0, 0)
) -> Link:
    """A link with principal moments along its axes."""
    return Link(name="body", inertial=Inertial(mass, np.array(center, dtype=float), np.diag(moments)))


def one_joint(kind: JointKind, link: Link, **settings: object) -> Robot:
    """A body on one joint to the world."""
    own = Joint(name="j", kind=kind, parent=None, child=link.name, **settings)  # type: ignore[arg-type]
    return Robot(name="one", links=[link], joints=[own])


def ball_of(radius: float = 0.1, mass: float = 1.0) -> Link:
    """A solid sphere."""
    moment = 0.4 * mass * radius * radius
    return simple_body(mass, (moment, moment, moment))
