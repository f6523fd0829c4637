"""Sampling-based motion planning: RRT-Connect with batches of certified edges, and shortcutting."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kinema.core import Array, KinemaError

from .collision_checking import CollisionChecker
from .time_parameterization import BlendedPath

# -------------------------------------------------------------------------------------------------------------- options


class PlanningError(KinemaError):
    """No path: the start or the goal is in collision or beyond limits, or the search was not successful."""


@dataclass(frozen=True, slots=True)
class PlanningOptions:
    """Options of the search for a path."""

    timeout: float = 10.0
    """Time after which the search is given up [s]."""
    max_nodes: int = 20_000
    """Number of nodes of both trees after which the search is given up."""
    n_samples: int = 16
    """Configurations that a tree is extended to at the same time."""
    segment_length: float = 0.4
    """Length of the segments of an edge [rad or m], at whose ends a tree gets nodes."""
    extension_length: float = 1.6
    """Largest distance from a tree at which a sample is connected to it [rad or m]."""
    n_shortcuts: int = 24
    """Shortcuts that are tried at the same time."""
    max_shortcut_rounds: int = 12
    """Largest number of rounds of shortcuts."""
    seed: int = 0
    """Seed of the random numbers: equal problems have equal paths."""


# ---------------------------------------------------------------------------------------------------------- RRT-Connect


class _Tree:
    """RRT search tree: configurations with their parents; one or several roots."""

    def __init__(self, roots: Array) -> None:
        self.q = np.array(roots, np.float64)
        self.parent = np.full(len(roots), -1)
        self.size = len(roots)

    def add_chain(self, parent: int, configurations: Array) -> int:
        """Append a chain of configurations below node `parent` of the tree; returns the index of the last node."""
        needed = self.size + len(configurations)
        if needed > len(self.q):
            grown = np.zeros((2 * needed, self.q.shape[1]))
            grown[: self.size] = self.q[: self.size]
            self.q, parents = grown, np.full(2 * needed, -1)
            parents[: self.size] = self.parent[: self.size]
            self.parent = parents
        for q in configurations:
            self.q[self.size], self.parent[self.size] = q, parent
            parent = self.size
            self.size += 1
        return parent

    def nearest(self, q: Array) -> np.ndarray:
        """Index of the nearest node to each configuration."""
        nodes = self.q[: self.size]
        squared = (nodes**2).sum(axis=1)[None] - 2.0 * q @ nodes.T
        return squared.argmin(axis=1)

    def path_to_root(self, node: int) -> list[Array]:
        """Configurations from a node to its root."""
        path = []
        while node >= 0:
            path.append(self.q[node].copy())
            node = int(self.parent[node])
        return path


def plan_waypoints(
    checker: CollisionChecker, start: Array, goals: Array, lower: Array, upper: Array, options: PlanningOptions
) -> Array:
    """Configurations (k, n_dofs) from the start to one of the goals, connected by straight edges free of collisions.

    RRT-Connect (Kuffner and LaValle): a tree grows from the start and one from the goals; each is extended to random
    configurations, and the other tree is then extended to the new nodes. Batches of samples are extended at the same
    time. The path is shortened before it is returned. Raises `PlanningError` if there is no path in time.

    Args:
        checker: distances of all pairs of geoms.
        start: start configuration, (n_dofs,), free of collisions.
        goals: goal configurations, (n_goals, n_dofs), free of collisions.
        lower: lower limits of the coordinates, (n_dofs,); finite.
        upper: upper limits.
        options: options of the search.
    """
    rng = np.random.default_rng(options.seed)
    deadline = time.perf_counter() + options.timeout
    order = np.argsort(np.linalg.norm(goals - start, axis=1))
    goals = goals[order]
    direct = _extend(checker, np.repeat(start[None], len(goals), axis=0), goals, options)
    if direct.is_complete.any():
        return np.array([start, goals[int(direct.is_complete.argmax())]])
    trees = [_Tree(start[None]), _Tree(goals)]
    from_start = 0
    while time.perf_counter() < deadline and trees[0].size + trees[1].size < options.max_nodes:
        grown, other = trees[from_start], trees[1 - from_start]
        samples = rng.uniform(lower, upper, (options.n_samples, len(lower)))
        new = _grow(checker, grown, samples, options, limit=options.extension_length)
        targets = np.array([x for x in new if x >= 0], np.intp)
        if len(targets):
            reached, complete = _connect(checker, other, grown.q[targets], options)
            if complete.any():
                k = int(complete.argmax())
                halves = grown.path_to_root(int(targets[k]))[::-1], other.path_to_root(int(reached[k]))
                path = [*halves[0], *halves[1]]
                path = path if from_start == 0 else path[::-1]
                return shorten(checker, np.array(path), options, rng, deadline)
        from_start = int(trees[1].size < trees[0].size)  # the smaller tree grows next
    nodes = trees[0].size + trees[1].size
    raise PlanningError(
        f"no path was found in {options.timeout:g} s and {nodes:,} nodes; a larger timeout, another goal or a smaller "
        "padding may help"
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Extension:
    """Straight edges with their certified leading segments."""

    start: Array
    end: Array
    n_segments: np.ndarray
    n_free: np.ndarray

    @property
    def is_complete(self) -> np.ndarray:
        """Whether each edge is certified up to its end."""
        return self.n_free == self.n_segments

    def nodes(self, edge: int) -> Array:
        """Ends of the certified segments of an edge, (n_free, n_dofs)."""
        fraction = np.arange(1, self.n_free[edge] + 1)[:, None] / self.n_segments[edge]
        return self.start[edge] + fraction * (self.end[edge] - self.start[edge])


def _extend(checker: CollisionChecker, start: Array, end: Array, options: PlanningOptions) -> _Extension:
    """Certify straight edges from `start` to `end` in segments; returns the free leading segments of each edge."""
    length = np.linalg.norm(end - start, axis=1)
    n_segments = np.maximum(np.ceil(length / options.segment_length), 1).astype(np.intp)
    offset = end - start

    def curve(edge: np.ndarray, fraction: Array) -> Array:
        return start[edge] + fraction[:, None] * offset[edge]

    return _Extension(start, end, n_segments, checker.free_segments(curve, np.abs(offset), n_segments))


def _grow(checker: CollisionChecker, tree: _Tree, samples: Array, options: PlanningOptions, limit: float) -> list[int]:
    """RRT's `extend`: grow a tree from the nearest nodes towards samples, at most by `limit`, while free of collisions.

    Returns the index of the last new node for each sample, or -1.
    """
    nearest = tree.nearest(samples)
    start = tree.q[nearest]
    offset = samples - start
    length = np.maximum(np.linalg.norm(offset, axis=1, keepdims=True), 1e-12)
    extension = _extend(checker, start, start + offset * np.minimum(1.0, limit / length), options)
    return [
        tree.add_chain(int(nearest[i]), extension.nodes(i)) if extension.n_free[i] else -1 for i in range(len(samples))
    ]


def _connect(
    checker: CollisionChecker, tree: _Tree, targets: Array, options: PlanningOptions
) -> tuple[np.ndarray, np.ndarray]:
    """RRT-Connect's `connect`: extend a tree up to the targets; returns the last node and success for each target."""
    nearest = tree.nearest(targets)
    extension = _extend(checker, tree.q[nearest], targets, options)
    last = [
        tree.add_chain(int(nearest[i]), extension.nodes(i)) if extension.n_free[i] else int(nearest[i])
        for i in range(len(targets))
    ]
    return np.array(last), extension.is_complete


# ----------------------------------------------------------------------------------------------------------- shortcuts

MIN_SAVING = 1e-3
"""Relative saving of length below which shortcutting ends."""


def shorten(
    checker: CollisionChecker, path: Array, options: PlanningOptions, rng: np.random.Generator, deadline: float
) -> Array:
    """Shorten a path by straight shortcuts between its points that are certified free of collisions.

    Each round tries all pairs of waypoints if these are few, then random pairs of points of the path, and applies the
    shortcuts that save the most.
    """
    idle = 0
    for round_index in range(options.max_shortcut_rounds):
        lengths = np.linalg.norm(np.diff(path, axis=0), axis=1)
        arc = np.concatenate([[0.0], np.cumsum(lengths)])
        if len(path) < 3 or idle == 2 or time.perf_counter() > deadline:
            break
        if round_index % 2 == 0:
            first, second = np.triu_indices(len(path), 2)
            chosen = np.argsort(-(arc[second] - arc[first]))[: 2 * options.n_shortcuts]
            s = np.column_stack([arc[first[chosen]], arc[second[chosen]]])
        else:
            s = np.sort(rng.uniform(0.0, arc[-1], (options.n_shortcuts, 2)), axis=1)
        a, b = (_point_at(path, arc, s[:, i]) for i in range(2))
        saving = (s[:, 1] - s[:, 0]) - np.linalg.norm(b - a, axis=1)
        useful = np.flatnonzero(saving > MIN_SAVING * arc[-1])
        useful = useful[np.argsort(-saving[useful])]
        extension = _extend(checker, a[useful], b[useful], options) if len(useful) else None
        applied = useful[extension.is_complete] if extension is not None else useful
        path = _apply_shortcuts(path, arc, s[applied], a[applied], b[applied])
        idle = 0 if len(applied) else idle + 1
    return path


def _point_at(path: Array, arc: Array, s: Array) -> Array:
    """Points of a polyline at arc lengths."""
    return np.column_stack([np.interp(s, arc, column) for column in path.T])


def _apply_shortcuts(path: Array, arc: Array, s: Array, a: Array, b: Array) -> Array:
    """Apply shortcuts in the given order, without shortcuts that overlap an earlier one."""
    taken: list[tuple[float, float]] = []
    points = [(float(x), path[i]) for i, x in enumerate(arc)]
    for (low, high), first, last in zip(s.tolist(), a, b, strict=True):
        if any(low < y and x < high for x, y in taken):
            continue
        taken.append((low, high))
        points = [p for p in points if not low < p[0] < high]
        points += [(low, first), (high, last)]
    ordered = [q for _, q in sorted(points, key=lambda p: p[0])]
    result = [ordered[0]]
    for q in ordered[1:]:
        if np.linalg.norm(q - result[-1]) > 1e-9:
            result.append(q)
    return np.array(result) if len(result) > 1 else np.array([ordered[0], ordered[-1]])


def certify_blends(checker: CollisionChecker, path: BlendedPath, corners: np.ndarray) -> np.ndarray:
    """Whether the blends at some corners of a path are certified free of collisions, bool (n_corners,)."""
    u = path.directions
    # the direction changes monotonically along a blend, whose length is twice its half length
    largest = np.maximum(np.abs(u[corners - 1]), np.abs(u[corners]))
    travel = 2.0 * path.blends[corners][:, None] * largest

    def curve(rows: np.ndarray, x: Array) -> Array:
        return path.on_blend(corners[rows], x)[0]

    return checker.free_segments(curve, travel, np.ones(len(corners), np.intp)) == 1


def name_pairs(checker: CollisionChecker, rows: Sequence[int]) -> str:
    """Names of some pairs of geoms in a message."""
    names = checker.geoms.names
    pairs = [f"{names[a]} and {names[b]}" for a, b in checker.pairs[list(rows)]]
    more = f" and {len(pairs) - MAX_NAMED_PAIRS} more pairs" if len(pairs) > MAX_NAMED_PAIRS else ""
    return "; ".join(pairs[:MAX_NAMED_PAIRS]) + more


MAX_NAMED_PAIRS = 4
"""Number of pairs that a message names."""
