"""Motion planning for an entity of a built scene: geoms and pairs of the problem, carried objects, goals and limits."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from kinema.core import Array, KinemaError, quaternion_to_matrix
from kinema.description import Robot
from kinema.dynamics import PairDistances, packed_data_headers
from kinema.model import Model, PrimitiveJointType
from kinema.runtime import find_device

from .arguments import (
    IndexArray,
    Selection,
    as_batch,
    check_finite,
    nonnegative_float,
    positive_duration,
    positive_int,
    resolve_envs,
)
from .built_scene import BuiltScene, HasBuiltScene
from .entity_index import EntityIndex, EntityLink
from .spatial_queries import geoms_in_envs, geoms_in_links

if TYPE_CHECKING:
    from kinema.kinematics import BatchedKinematics, CollisionGeoms, PlanningOptions, Trajectory

# ------------------------------------------------------------------------------------------------------------- defaults

DEFAULT_VELOCITY = 1.5
"""Velocity limit where the file has none [rad/s or m/s]."""
ACCELERATION_TIME, JERK_TIME = 0.25, 0.1
"""Times in which the velocity limit and the acceleration limit are reached [s], where the file has no acceleration and
no jerk limit."""
ALWAYS_TOUCHING = 0.95
"""Share of random configurations in which two geoms of the robot touch, from which on their pair is ignored."""
N_RANDOM_CONFIGURATIONS = 200
N_GOAL_SAMPLES = 32
"""Random initial configurations of the inverse kinematics of a goal pose."""
MAX_GOALS = 8
"""Number of configurations of a goal pose that the search starts from."""
LIMIT_TOLERANCE = 1e-5
"""Distance beyond a limit that is accepted [rad or m]."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PlanRequest:
    """Arguments of `Entity.plan_path`, as given by the user."""

    goal: Any
    link: Any
    pos: Any
    quat: Any
    start: Any
    dofs_idx: Selection
    attached: dict[Any, Any] | None
    ignore: Sequence[tuple[Any, Any]]
    padding: float
    max_velocity: Any
    max_acceleration: Any
    max_jerk: Any
    dt: float | None
    timeout: float
    seed: int
    envs_idx: Selection


@dataclass(frozen=True, slots=True, eq=False)
class MotionPlan:
    """Planned motion of all degrees of freedom of an entity in one environment."""

    waypoints: Array
    """Configurations that straight edges connect, (k, n_dofs)."""
    trajectory: Trajectory
    """Samples of the motion: `time`, `position`, `velocity`, `acceleration`."""
    planning_time: float
    """Time that the search took, with shortcuts and time parameterisation [s]."""
    n_configurations: int
    """Number of configurations whose collisions were checked."""


class PlannedScene(HasBuiltScene, Protocol):
    """Interface of `Scene` for motion planning."""

    entities: list[Any]
    dt: float
    _attachments: Any


# --------------------------------------------------------------------------------------------------- planning problems


def unbranched_chains(model: Model, changed: np.ndarray) -> list[int]:
    """Hinge, slide and screw dofs of the unbranched chains of frames that contain a changed dof, in order."""
    parents = model.frames.parent_idx
    n_children = np.bincount(parents[parents >= 0], minlength=model.n_frames)
    chain = np.arange(model.n_frames)  # representative of the chain of each frame
    for frame, parent in enumerate(parents):
        if parent >= 0 and n_children[parent] == 1:
            chain[frame] = chain[parent]
    wanted = set(chain[model.dofs.frame_idx[changed]].tolist())
    return [d for d in _scalar_dofs(model) if int(chain[model.dofs.frame_idx[d]]) in wanted]


def _scalar_dofs(model: Model) -> list[int]:
    """Dofs of hinge, slide and screw joints, without the dofs of a floating base."""
    types = model.frames.joint_type[model.dofs.frame_idx]
    floating = {
        dof
        for kind, start, end in zip(model.joints.kinds, model.joints.dof_start, model.joints.dof_end, strict=True)
        if kind == "free"
        for dof in range(start, end)
    }
    return [d for d in range(model.n_dofs) if types[d] != PrimitiveJointType.BALL and d not in floating]


class EntityPlanner:
    """Motion planning for one entity; programs are compiled on first use."""

    def __init__(self, index: EntityIndex) -> None:
        self._index = index
        self._compiled: tuple[BuiltScene, BatchedKinematics, PairDistances] | None = None
        self._always_touching: dict[int, set[tuple[int, int]]] = {}

    @property
    def _scene(self) -> PlannedScene:
        scene: Any = self._index.scene
        return scene

    def plan(self, entity: Any, request: PlanRequest) -> list[MotionPlan]:
        """Plan a collision-free motion from start to goal in each selected environment; returns the plans.

        Raises `KinemaError` for invalid arguments and `PlanningError` if no motion is found.
        """
        from kinema.kinematics import PlanningOptions

        built, model, label = self._index.built, self._index.posed_model, "plan_path"
        if not len(built.model.geoms.names):
            raise KinemaError(f"{label}: the scene has no collision geoms; it was created with contacts=False")
        selected = resolve_envs(request.envs_idx, built.n_envs)
        envs = np.arange(built.n_envs) if selected is None else np.arange(built.n_envs)[selected]
        options = PlanningOptions(positive_duration(request.timeout, f"{label}: timeout"), seed=request.seed)
        start = entity.get_qpos(envs) if request.start is None else request.start
        if (request.goal is None) == (request.pos is None and request.quat is None):
            raise KinemaError(f"{label}: expected a goal configuration, or the target pose of a link")
        starts, goals, pos, quat = (
            None if x is None else _finite_batch(x, len(envs), width, f"{label}: {name}")
            for x, width, name in (
                (start, model.n_qs, "start"),
                (request.goal, model.n_qs, "goal"),
                (request.pos, 3, "pos"),
                (request.quat, 4, "quat"),
            )
        )
        assert starts is not None
        chosen = None if request.dofs_idx is None else [int(d) for d in self._index.dofs(request.dofs_idx, label)]
        plans = []
        for i, env in enumerate(envs.tolist()):
            start_time = time.perf_counter()
            problem = _Problem(self, entity, env, starts[i], request)
            if goals is not None:
                problem.set_dofs(chosen or unbranched_chains(model, self._changed_dofs(starts[i], goals[i])))
                candidates = goals[i : i + 1]
            else:
                problem.set_dofs(chosen or self._dofs_moving(request.link))
                position, orientation = (None if x is None else x[i] for x in (pos, quat))
                candidates = problem.goals_of_pose(request.link, position, orientation, options.seed)
            limits = request.max_velocity, request.max_acceleration, request.max_jerk
            plans.append(problem.solve(candidates, limits, request.dt or self._scene.dt, options, start_time))
        return plans

    def _changed_dofs(self, start: Array, goal: Array) -> np.ndarray:
        """Indices of the hinge, slide and screw dofs whose coordinates differ between start and goal."""
        model = self._index.posed_model
        scalar = _scalar_dofs(model)
        q_idx = model.dofs.q_idx[scalar]
        others = np.setdiff1d(np.arange(model.n_qs), q_idx)
        if np.abs(goal[others] - start[others]).max(initial=0.0) > 1e-6:
            raise KinemaError("plan_path: goal: only hinge, slide and screw joints can be planned, not a floating base")
        changed = np.array(scalar, np.intp)[np.abs(goal[q_idx] - start[q_idx]) > 1e-9]
        return changed if len(changed) else np.array(scalar, np.intp)

    def _dofs_moving(self, link: Any) -> list[int]:
        """Scalar dofs that move a link."""
        model = self._index.posed_model
        frame = int(model.links.frame_idx[self.link_index(link)])
        moving = set()
        while frame >= 0:
            moving.add(frame)
            frame = int(model.frames.parent_idx[frame])
        return [d for d in _scalar_dofs(model) if int(model.dofs.frame_idx[d]) in moving]

    def link_index(self, link: Any) -> int:
        """Index of a link of the entity, given as handle, name or index."""
        if link is None:
            raise KinemaError("plan_path: link: expected the link of the target pose")
        return self._index.link(link, "plan_path")

    def compiled(self) -> tuple[BatchedKinematics, PairDistances]:
        """Programs for forward kinematics and geom-pair distances (without depths), compiled on first use."""
        built = self._index.built
        if self._compiled is None or self._compiled[0] is not built:
            from kinema.kinematics import BatchedKinematics

            engine = built.engine
            options = find_device(engine.device.name), engine.precision, engine.threads
            kinematics = BatchedKinematics(self._index.posed_model, *options)
            self._compiled = built, kinematics, PairDistances(built.model.geoms.data, *options, needs_depth=False)
            self._always_touching.clear()
        return self._compiled[1:]

    def geoms_and_pairs(self, env: int, carried: Sequence[tuple[Any, int]]) -> tuple[CollisionGeoms, np.ndarray]:
        """Geoms of the scene in one environment, and the pairs that may collide and move against each other.

        Geoms of the entity are carried by its links, geoms of carried entities by the link that carries them. All
        others are static.

        Args:
            env: index of the environment.
            carried: entities, and the links (indices in the entity) that carry them.
        """
        from kinema.kinematics import CollisionGeoms, oriented_boxes

        index, built = self._index, self._index.built
        variants = built.engine.variants
        model = variants.models[int(np.broadcast_to(variants.variant_of_env, built.n_envs)[env])]
        geoms, n = model.geoms, len(model.geoms.names)
        posed = geoms_in_envs(built, np.arange(n), [env])
        link, position, rotation = np.full(n, -1), posed.position[0], posed.rotation[0]
        own = index.all_geoms
        on_links = own[geoms.link_idx[own] >= 0]
        link[on_links] = geoms.link_idx[on_links] - index.info.link_start
        position[on_links], rotation[on_links] = geoms_in_links(model, on_links)
        state = built.engine.fields.links_state
        for entity, carrier in carried:
            rows = entity._index.all_geoms
            pos, quat = (
                np.asarray(x.numpy(), np.float64)[index.info.link_start + carrier, env] for x in (state.pos, state.quat)
            )
            to_link = quaternion_to_matrix(quat).T
            position[rows], rotation[rows] = (position[rows] - pos) @ to_link.T, to_link @ rotation[rows]
            link[rows] = carrier
        owners = [model.entities[int(e)].name for e in geoms.entity_idx]
        names = [f'"{name}" of {owner}' for owner, name in zip(owners, geoms.names, strict=True)]
        boxes = oriented_boxes(model, posed.types, posed.size[0])
        data, size = packed_data_headers(geoms), posed.size[0]
        center, radius = np.array(geoms.center), np.array(geoms.radius)
        result = CollisionGeoms(names, link, posed.types, size, data, position, rotation, center, radius, *boxes)
        pairs = model.geom_pairs()
        a, b = pairs.T
        return result, pairs[(link[a] != link[b]) & (radius[a] >= 0.0) & (radius[b] >= 0.0)]

    def always_touching(self, env: int) -> set[tuple[int, int]]:
        """Pairs of geoms of the entity that touch in nearly all random configurations; computed once per variant."""
        from kinema.kinematics import CollisionChecker

        built, model = self._index.built, self._index.posed_model
        variant = int(np.broadcast_to(built.engine.variants.variant_of_env, built.n_envs)[env])
        kinematics, distances = self.compiled()
        if variant not in self._always_touching:
            geoms, pairs = self.geoms_and_pairs(env, [])
            own, dofs = pairs[np.isin(pairs, self._index.all_geoms).all(axis=1)], _scalar_dofs(model)
            checker = CollisionChecker(kinematics, geoms, own, distances, model.qpos0, dofs, padding=0.0)
            lower, upper = (np.clip(x[dofs], -np.pi, np.pi) for x in (model.dofs.lower, model.dofs.upper))
            q = np.random.default_rng(0).uniform(lower, upper, (N_RANDOM_CONFIGURATIONS, len(dofs)))
            touching = checker.distances(q, np.full((len(q), len(checker.pairs)), 1e-4)) <= 0.0
            always = np.mean(touching, axis=0) > ALWAYS_TOUCHING
            self._always_touching[variant] = {(int(a), int(b)) for a, b in checker.pairs[always]}
        return self._always_touching[variant]


class _Problem:
    """Motion planning problem of an entity in one environment."""

    def __init__(self, planner: EntityPlanner, entity: Any, env: int, start: Array, request: PlanRequest) -> None:
        self.planner, self.entity, self.env, self.start = planner, entity, env, start
        self.padding = nonnegative_float(request.padding, "plan_path: padding")
        self.model, self.index = planner._index.posed_model, planner._index
        self.carried = self._carried(request.attached)
        self.geoms, self.pairs = planner.geoms_and_pairs(env, self.carried)
        for a, b in request.ignore:
            rows = [_geoms_of(x) for x in (a, b)]
            first, second = ([np.isin(side, r) for r in rows] for side in self.pairs.T)
            self.pairs = self.pairs[~((first[0] & second[1]) | (first[1] & second[0]))]

    def _carried(self, attached: Any) -> list[tuple[Any, int]]:
        """Carried entities with the links that carry them: given, or attached in the scene by welds."""
        if attached is None:
            return list(self.planner._scene._attachments.welded_entities(self.index.number, self.env))
        if not isinstance(attached, dict):
            raise KinemaError("plan_path: attached: expected a dictionary of entities and the links that carry them")
        return [(body, self.planner.link_index(link)) for body, link in attached.items()]

    def set_dofs(self, dofs: Sequence[int]) -> None:
        """Set the planned dofs, and create the collision checker of the problem."""
        from kinema.kinematics import CollisionChecker

        model = self.model
        unsupported = [model.dofs.names[d] for d in dofs if d not in _scalar_dofs(model)]
        if unsupported:
            raise KinemaError(f"plan_path: {', '.join(unsupported)}: only hinge, slide and screw joints can be planned")
        self.dofs = list(dofs)
        self.q_idx = model.dofs.q_idx[self.dofs]
        lower, upper = model.dofs.lower[self.dofs], model.dofs.upper[self.dofs]
        at_start = self.start[self.q_idx]
        unlimited = ~np.isfinite(upper - lower)
        self.lower = np.where(unlimited, at_start - np.pi, lower)
        self.upper = np.where(unlimited, at_start + np.pi, upper)
        self.unlimited = unlimited
        kinematics, distances = self.planner.compiled()
        self.checker = CollisionChecker(
            kinematics, self.geoms, self.pairs, distances, self.start, self.dofs, padding=self.padding
        )
        touching = self.planner.always_touching(self.env)
        holding = self._carrier_pairs()
        keep = [(int(a), int(b)) not in touching and i not in holding for i, (a, b) in enumerate(self.checker.pairs)]
        self.checker.keep_pairs(np.array(keep, np.bool_))

    def _carrier_pairs(self) -> set[int]:
        """Pairs of a carried object and a robot link in contact at the start: the links that carry the object."""
        own = self.index.all_geoms
        carried = [entity._index.all_geoms for entity, _ in self.carried]
        rows = np.concatenate([np.zeros(0, np.intp), *carried])
        pairs = self.checker.pairs
        mixed = np.isin(pairs, own).any(axis=1) & np.isin(pairs, rows).any(axis=1)
        return set(self.checker.colliding_pairs(self.start[self.q_idx]).tolist()) & set(np.flatnonzero(mixed).tolist())

    def goals_of_pose(self, link: Any, pos: Array | None, quat: Array | None, seed: int) -> Array:
        """Configurations free of collisions at which a link has a pose, (n, n_qs), by IK from many configurations."""
        from kinema.kinematics import PlanningError

        rng = np.random.default_rng(seed)
        initial = np.tile(self.start, (N_GOAL_SAMPLES, 1))
        initial[1:, self.q_idx] = rng.uniform(self.lower, self.upper, (N_GOAL_SAMPLES - 1, len(self.dofs)))
        poses = [None if x is None else np.tile(x, (N_GOAL_SAMPLES, 1)) for x in (pos, quat)]
        solutions = self.entity._kinematics.inverse(
            [self.planner.link_index(link)], [poses[0]], [poses[1]], initial, return_error=True, dofs_idx=self.dofs
        )
        reached = np.asarray(solutions.qpos, np.float64)[np.asarray(solutions.solved)]
        if not len(reached):
            raise PlanningError(f"plan_path: the link cannot reach the target pose{self._where}")
        free = reached[self.checker.are_free(reached[:, self.q_idx])]
        if not len(free):
            names = self._names(self.checker.colliding_pairs(reached[0, self.q_idx]))
            raise PlanningError(
                f"plan_path: all {len(reached)} configurations of the target pose{self._where} are in collision, the "
                f"first with {names}"
            )
        order = np.argsort(np.linalg.norm(free[:, self.q_idx] - self.start[self.q_idx], axis=1), kind="stable")
        return free[order[:MAX_GOALS]]

    def solve(
        self, goals: Array, limits: tuple[Any, Any, Any], dt: float, options: PlanningOptions, start_time: float
    ) -> MotionPlan:
        """Motion from the start to one of the goals, (n_goals, n_qs), by RRT-Connect and time parameterisation."""
        from kinema.kinematics import certify_blends, plan_waypoints, time_parameterize

        start = self.start[self.q_idx]
        self._check_configuration(start, "start")
        for goal in goals[:1] if len(goals) == 1 else []:
            self._check_configuration(goal[self.q_idx], "goal")
        checker, ends = self.checker, goals[:, self.q_idx]
        lower = np.minimum(self.lower, np.minimum(start, ends.min(axis=0)))
        upper = np.maximum(self.upper, np.maximum(start, ends.max(axis=0)))
        waypoints = plan_waypoints(checker, start, ends, lower, upper, options)
        velocity, acceleration, jerk = self._motion_limits(limits)
        trajectory = time_parameterize(
            waypoints, velocity, acceleration, jerk, dt, is_free=lambda path, c: certify_blends(checker, path, c)
        )
        elapsed = time.perf_counter() - start_time
        return MotionPlan(
            self._all_dofs(waypoints), self._all_dofs_trajectory(trajectory), elapsed, checker.n_configurations
        )

    def _check_configuration(self, q: Array, noun: str) -> None:
        """Raise `PlanningError` if a configuration is in collision, or a goal beyond joint limits."""
        from kinema.kinematics import PlanningError

        beyond = np.flatnonzero((q < self.lower - LIMIT_TOLERANCE) | (q > self.upper + LIMIT_TOLERANCE))
        beyond = beyond[~self.unlimited[beyond]]
        if len(beyond) and noun == "goal":
            k = int(beyond[0])
            raise PlanningError(
                f"plan_path: the goal{self._where} is beyond the limits of {self.model.dofs.names[self.dofs[k]]}: "
                f"{q[k]:g} is not between {self.lower[k]:g} and {self.upper[k]:g}"
            )
        pairs = self.checker.colliding_pairs(q)
        if len(pairs):
            within = f" or nearer than the padding of {self.padding:g} m" if self.padding else ""
            raise PlanningError(f"plan_path: the {noun}{self._where} is in collision{within}: {self._names(pairs)}")

    def _names(self, pairs: np.ndarray) -> str:
        from kinema.kinematics import name_pairs

        return name_pairs(self.checker, pairs.tolist())

    @property
    def _where(self) -> str:
        return "" if self.index.built.n_envs == 1 else f" of environment {self.env}"

    def _motion_limits(self, limits: tuple[Any, Any, Any]) -> list[Array]:
        """Velocity, acceleration and jerk limits of the planned dofs: given, else of the file, else defaults."""
        of_file = _limits_of_file(self.index)[:, self.dofs]
        result: list[Array] = []
        for given, values, name in zip(limits, of_file, ("velocity", "acceleration", "jerk"), strict=True):
            if given is not None:
                array = np.asarray(given, np.float64)
                array = array[self.dofs] if array.shape == (self.model.n_dofs,) != (len(self.dofs),) else array
                if array.shape not in ((), (len(self.dofs),)):
                    raise KinemaError(f"plan_path: max_{name}: expected one value or one for each degree of freedom")
                result.append(np.broadcast_to(array, (len(self.dofs),)))
                continue
            default = (
                np.full(len(self.dofs), DEFAULT_VELOCITY)
                if not result
                else result[-1] / (ACCELERATION_TIME if len(result) == 1 else JERK_TIME)
            )
            result.append(np.where(np.isfinite(values) & (values > 0.0), values, default))
        return result

    def _all_dofs(self, values: Array, rest: Array | float | None = None) -> Array:
        """Values of all dofs, (k, n_dofs), from values of the planned dofs (k, n)."""
        model = self.model
        if rest is None:
            rest = np.where(model.dofs.q_idx >= 0, self.start[np.maximum(model.dofs.q_idx, 0)], 0.0)
        result = np.tile(np.broadcast_to(rest, model.n_dofs), (len(values), 1))
        result[:, self.dofs] = values
        return result

    def _all_dofs_trajectory(self, planned: Trajectory) -> Trajectory:
        from kinema.kinematics import Trajectory

        rates = (self._all_dofs(x, 0.0) for x in (planned.velocity, planned.acceleration))
        return Trajectory(planned.time, self._all_dofs(planned.position), *rates)


def _limits_of_file(index: EntityIndex) -> Array:
    """Velocity, acceleration and jerk limits of all dofs in the description, infinite where there are none, (3, n)."""
    result = np.full((3, index.model.n_dofs), np.inf)
    if isinstance(index.description, Robot):
        axes = {joint.name: joint.axes for joint in index.description.joints}
        for name, dofs in zip(index.joint_names, index.joint_dofs, strict=True):
            for dof, axis in zip(dofs, axes.get(name, ()), strict=False):
                result[:, dof] = axis.velocity, axis.acceleration, axis.jerk
    return result


def _geoms_of(item: Any) -> IndexArray:
    """Rows of the geoms of an entity or link handle."""
    entity, links = (item.entity, [item.idx]) if isinstance(item, EntityLink) else (item, None)
    index = getattr(entity, "_index", None)
    if not isinstance(index, EntityIndex):
        raise KinemaError(f"plan_path: ignore: expected pairs of entities or links, not {item!r}")
    rows = index.all_geoms
    if links is None:
        return rows
    return rows[index.built.model.geoms.link_idx[rows] == index.info.link_start + links[0]]


def _finite_batch(values: Any, n_envs: int, width: int, label: str) -> Array:
    batch = check_finite(as_batch(values, n_envs, (width,), np.float64, label), label)
    return np.broadcast_to(batch, (n_envs, width))


def sample_plans(plans: Sequence[MotionPlan], num_waypoints: int | None, built: BuiltScene) -> Array:
    """Positions of all plans at common times, (steps, n_dofs) in a scene of one environment, else (steps, n, n_dofs).

    Plans that end sooner stay at their goal.

    Args:
        plans: plans of some environments, sampled at equal intervals.
        num_waypoints: number of samples, equally spaced in the time of each plan; None for the samples of the plans.
        built: the scene.
    """
    paths = [plan.trajectory for plan in plans]
    if num_waypoints is None:
        steps = max(len(path) for path in paths)
        samples = [path.position[np.minimum(np.arange(steps), len(path) - 1)] for path in paths]
    else:
        count = positive_int(num_waypoints, "plan_path: num_waypoints", "waypoint")
        samples = [
            np.column_stack([np.interp(np.linspace(0.0, path.time[-1], count), path.time, x) for x in path.position.T])
            for path in paths
        ]
    stacked = np.stack(samples, axis=1).astype(built.arrays.dtype)
    return built.outputs.convert_owned(stacked[:, 0].copy() if built.n_envs == 1 else stacked)
