"""Random shelf-and-table planning problems of a 7-dof arm; verification of solutions by Pinocchio and coal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import kinema as km

ARM_DOFS = 7
HAND = "panda_hand"
HOME = np.array([0.0, -0.6, 0.0, -2.2, 0.0, 1.6, 0.8, 0.02, 0.02])
BOARD = 0.02
"""Thickness of the boards of the shelf [m]."""


@dataclass(frozen=True)
class ShelfProblem:
    """Boxes (size, position, yaw) around the arm, and two poses of its hand (position, quaternion)."""

    boxes: list[tuple[np.ndarray, np.ndarray, float]]
    targets: list[tuple[np.ndarray, np.ndarray]]


def random_problem(rng: np.random.Generator) -> ShelfProblem:
    """A table with three boxes before the arm and a shelf of two compartments at its side.

    One target is a grasp above the table, the other in a compartment.
    """
    top = rng.uniform(0.0, 0.25)
    table = np.array([0.6, rng.uniform(-0.1, 0.1)])
    boxes = [(np.array([0.5, 0.9, 0.04]), np.array([*table, top - 0.02]), 0.0)]
    places = table + rng.uniform(-1.0, 1.0, (4, 2)) * (0.18, 0.38)
    for place in places[1:]:
        size = rng.uniform((0.04, 0.04, 0.08), (0.12, 0.12, 0.3))
        boxes.append((size, np.array([*place, top + size[2] / 2]), float(rng.uniform(-np.pi, np.pi))))
    angle = float(rng.choice([-1.0, 1.0]) * rng.uniform(0.9, 1.7))
    forward, side = np.array([np.cos(angle), np.sin(angle), 0.0]), np.array([-np.sin(angle), np.cos(angle), 0.0])
    up = np.array([0.0, 0.0, 1.0])
    depth, width, opening = 0.3, rng.uniform(0.5, 0.8), rng.uniform(0.28, 0.38)
    bottom, distance = rng.uniform(0.05, 0.25), rng.uniform(0.45, 0.6)
    middle = (distance + depth / 2) * forward + (bottom + opening) * up
    boxes += [(np.array([depth, width, BOARD]), middle + i * opening * up, angle) for i in (-1, 0, 1)]
    boxes += [(np.array([depth, BOARD, 2 * opening]), middle + s * width / 2 * side, angle) for s in (-1.0, 1.0)]
    boxes.append((np.array([BOARD, width, 2 * opening]), middle + depth / 2 * forward, angle))
    yaw = rng.uniform(-np.pi, np.pi)
    grasp = np.array([*places[0], top + rng.uniform(0.13, 0.2)]), np.array([0, np.cos(yaw / 2), np.sin(yaw / 2), 0])
    inside = (distance - rng.uniform(0.02, 0.08)) * forward + rng.uniform(-0.3, 0.3) * width * side
    inside = inside + (bottom + (rng.integers(2) + 0.5) * opening + rng.uniform(-0.03, 0.03)) * up
    cosine, sine = np.sqrt(0.5) * np.array([np.cos(angle / 2), np.sin(angle / 2)])
    targets = [grasp, (inside, np.array([cosine, -sine, cosine, sine]))]  # the hand points into the shelf
    return ShelfProblem(boxes, targets if rng.random() < 0.5 else targets[::-1])


def build_scene(robot: km.Robot, problem: ShelfProblem) -> tuple[km.Scene, km.Entity]:
    """Scene of a problem, with the arm at home."""
    scene = km.Scene(quiet=True)
    arm = scene.add(robot, fixed=True, name="arm")
    for i, (size, pos, yaw) in enumerate(problem.boxes):
        scene.add(km.Box(size), fixed=True, pos=pos, euler=(0.0, 0.0, yaw), name=f"box{i}")
    scene.build()
    arm.set_qpos(HOME)
    return scene, arm


def random_configurations(arm: km.Entity, problem: ShelfProblem, rng: np.random.Generator) -> np.ndarray | None:
    """A random configuration without collisions for each target, (2, n_qs); None if one has none in a few attempts."""
    lower, upper = arm._index.model.dofs.lower[:ARM_DOFS], arm._index.model.dofs.upper[:ARM_DOFS]
    result = []
    for pos, quat in problem.targets:
        initial = np.tile(HOME, (8, 1))
        initial[1:, :ARM_DOFS] = rng.uniform(lower, upper, (7, ARM_DOFS))
        targets = [np.tile(pos, (8, 1))], [np.tile(quat, (8, 1))]
        dofs = list(range(ARM_DOFS))
        found = arm._kinematics.inverse([HAND], *targets, initial, return_error=True, dofs_idx=dofs)
        for q in np.asarray(found.qpos, np.float64)[found.solved]:
            try:
                arm.plan_path(q, start=q, dofs_idx=dofs)  # raises if it is in collision
            except km.kinematics.PlanningError:
                continue
            result.append(q)
            break
    return np.array(result) if len(result) == 2 else None


class CoalVerifier:
    """Distances of the arm's convex hulls from each other and from boxes, by Pinocchio's kinematics and coal."""

    def __init__(self, path: Path, robot: km.Robot, pairs: Sequence[tuple[str, str]]) -> None:
        """Make the convex hull of each collision mesh; `pairs` are the links of the arm that may collide."""
        import coal  # pyright: ignore[reportMissingImports]
        import pinocchio

        self._coal, self._pinocchio = coal, pinocchio
        self._model = pinocchio.buildModelFromUrdf(str(path))
        self._data = self._model.createData()
        self._pairs = pairs
        self._hulls: dict[str, list[Any]] = {}
        for link, _, vertices, _ in robot.posed_meshes({}, kind="collision"):
            pose = robot.forward_kinematics({})[link]
            local = (np.asarray(vertices) - pose[:3, 3]) @ pose[:3, :3]
            points = coal.StdVec_Vec3s()
            points.extend(list(local))
            self._hulls.setdefault(link, []).append(coal.ConvexBase.convexHull(points, False, "Qt"))

    def smallest_distance(self, problem: ShelfProblem, path: np.ndarray) -> float:
        """Smallest distance along a path (steps, n_qs), negative for a collision."""
        coal = self._coal
        boxes = []
        for size, pos, yaw in problem.boxes:
            rotation = np.array([[np.cos(yaw), -np.sin(yaw), 0], [np.sin(yaw), np.cos(yaw), 0], [0, 0, 1]])
            boxes.append((coal.Box(*size), coal.Transform3s(rotation, pos)))
        smallest, request = np.inf, coal.DistanceRequest()
        for q in path:
            self._pinocchio.framesForwardKinematics(self._model, self._data, q)
            poses = {}
            for link in self._hulls:
                pose = self._data.oMf[self._model.getFrameId(link)]
                poses[link] = coal.Transform3s(pose.rotation, pose.translation)
            bodies = {link: [(hull, poses[link]) for hull in hulls] for link, hulls in self._hulls.items()}
            tests = [(x, box) for link in list(self._hulls)[1:] for x in bodies[link] for box in boxes]
            tests += [(x, y) for a, b in self._pairs for x in bodies[a] for y in bodies[b]]
            for (first, first_pose), (second, second_pose) in tests:
                result = coal.DistanceResult()
                coal.distance(first, first_pose, second, second_pose, request, result)
                smallest = min(smallest, result.min_distance)
        return float(smallest)


def link_pairs(arm: km.Entity) -> list[tuple[str, str]]:
    """Pairs of links of the arm that may collide in the simulation."""
    model = arm._index.built.model
    links = [int(link) for link in model.geoms.link_idx]
    pairs = [
        (links[a], links[b]) for a, b in zip(model.pairs.geom_a.tolist(), model.pairs.geom_b.tolist(), strict=True)
    ]
    names = arm._index.model.links.names
    own = [(a, b) for a, b in pairs if a < len(names) and b < len(names)]
    return sorted({(names[int(a)], names[int(b)]) for a, b in own})
