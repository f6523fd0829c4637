"""Random robots that are held by more than can be held: loops, welds and couplings that contradict each other."""

from __future__ import annotations

import math

import numpy as np

from kinema.description import Base, Constraint, ConstraintKind, Inertial, JointKind, Robot, SolverParameters

from .parts import Generator, random_pose
from .random_robots import random_robot
from .variety import EVERY_KIND, HELD_KINDS, Variety

TIED = Variety(
    names=tuple("abcdefg"),
    n_links=(2, 4),
    massless=0.0,
    n_shapes=0,
    in_motion=0.0,
    stacked=(),  # two balls in one place move nothing against each other
    to_world=HELD_KINDS,
    loops=EVERY_KIND,
    open_loops=0.5,
    actuators=0.0,
    sensors=0.0,
    tendons=0.5,
)
SOFT = (
    SolverParameters(),
    SolverParameters(solref=(1e-9, 1.0), solimp=(0.99, 0.99, 0.001, 0.5, 2.0)),
    SolverParameters(solref=(-1e3, -50.0)),
    SolverParameters(solref=(0.01, 0.0), solimp=(0.0, 1.0, 0.0, 1.0, 3.0)),
    SolverParameters(solref=(0.05, 0.2), solimp=(0.1, 0.9, 0.5, 0.2, 4.0), margin=0.3),
)
"""From sane to what nobody would write."""


def tied_robot(seed: int) -> Robot:
    """Joints of all kinds, with loops; absurd limits; ties and couplings of any two; some a million times heavier."""
    rng = np.random.default_rng(seed)
    robot = random_robot(seed, TIED)
    if rng.random() < 0.7:
        robot.base = Base.FIXED
    for joint in robot.joints:
        for axis in joint.moving_axes:
            _limit(rng, axis)
    if rng.random() < 0.3:
        _make_heavy(robot)
    for i in range(rng.integers(5)):
        constraint = _tie(rng, robot, f"tie {i}") if rng.random() < 0.5 else _coupling(rng, robot, f"coupling {i}")
        if constraint is not None:
            robot.constraints.append(constraint)
    return robot


def _solver(rng: Generator) -> SolverParameters:
    return SOFT[rng.integers(len(SOFT))]


def _limit(rng: Generator, axis: object) -> None:
    """Often absurd: reversed, without width, tiny, or none on one side."""
    first, second = sorted(rng.normal(size=2).tolist())
    kinds = [(second, first), (first, first), (first, first + 1e-6), (-math.inf, first), (first, second)]
    if rng.random() < 0.6:
        axis.lower, axis.upper = kinds[rng.integers(len(kinds))]  # type: ignore[attr-defined]
    axis.limit_solver, axis.friction_solver = SOFT[0] if rng.random() < 0.7 else _solver(rng), _solver(rng)  # type: ignore[attr-defined]
    if rng.random() < 0.3:
        axis.friction = float(rng.choice([0.1, 10.0, 1e5]))  # type: ignore[attr-defined]


def _make_heavy(robot: Robot) -> None:
    """All links are a million times as heavy."""
    for link in robot.links:
        if link.inertial is not None:
            own = link.inertial
            link.inertial = Inertial(1e6 * own.mass, own.center, 1e6 * own.inertia)


def _tie(rng: Generator, robot: Robot, name: str) -> Constraint:
    a = robot.links[rng.integers(len(robot.links))].name
    b = [None, *(link.name for link in robot.links if link.name != a)][rng.integers(len(robot.links))]
    kind = (ConstraintKind.CONNECT, ConstraintKind.WELD)[rng.integers(2)]
    scale = float(rng.choice([1.0, 0.1, 50.0]))
    poses = random_pose(rng), random_pose(rng)
    return Constraint(
        name=name, kind=kind, a=a, b=b, pose_a=poses[0], pose_b=poses[1], torque_scale=scale, solver=_solver(rng)
    )


def _coupling(rng: Generator, robot: Robot, name: str) -> Constraint | None:
    """Of any two axes, or of one with nothing; any polynomial."""
    able = [j for j in robot.joints if j.kind not in (JointKind.SPHERICAL, JointKind.FREE) and not j.closes_loop]
    able = [j for j in able if any(not axis.locked for axis in j.axes)]
    if not able:
        return None
    ends = [able[i] for i in rng.integers(len(able), size=2)]
    axes = [int(rng.choice([i for i, axis in enumerate(j.axes) if not axis.locked])) for j in ends]
    polynomial = rng.normal(size=5) * (rng.random(5) < 0.6) * (1.0, 1.0, 0.3, 0.1, 0.03)
    alone = rng.random() < 0.3
    return Constraint(
        name=name,
        kind=ConstraintKind.JOINT,
        a=ends[0].name,
        b=None if alone else ends[1].name,
        axis_a=axes[0],
        axis_b=0 if alone else axes[1],
        polynomial=tuple(polynomial.tolist()),
        solver=_solver(rng),
    )
