"""Collision checking of configurations and of whole straight edges between them, for batches of edges.

The signed distance of two geoms changes by at most the distance that their points travel. An interval between two
configurations is certified free of collisions if, for each pair of geoms, the sum of its distances at both ends exceeds
a bound of the relative motion in between; other intervals are bisected. A certified edge is free of collisions at every
point, not only at samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kinema.core import Array
from kinema.dynamics import PairDistances, PosedGeoms
from kinema.dynamics.collision.local_aabbs import geom_half_extents, mesh_local_aabb
from kinema.model import GEOM_TYPES, Model, PrimitiveJointType

from .batched_kinematics import BatchedKinematics, LinkOutputs, link_query

# ------------------------------------------------------------------------------------------------------ geoms and pairs


@dataclass(frozen=True, slots=True, eq=False)
class CollisionGeoms:
    """Geoms of a planning problem: carried by links of the robot, or static; one row per geom."""

    names: Sequence[str]
    """Names in messages."""
    link: np.ndarray
    """Link of the robot that carries the geom; -1 for static geoms, (n,)."""
    types: np.ndarray
    """Index in `GEOM_TYPES`, (n,)."""
    size: Array
    """Size as in `GeomsInfo.size` [m], (n, 3)."""
    data: Array
    """Packed data headers (`packed_data_headers`), (n, 4)."""
    position: Array
    """Position in the carrying link, or in the world [m], (n, 3)."""
    rotation: Array
    """Orientation in the carrying link, or in the world, (n, 3, 3)."""
    center: Array
    """Centre of the bounding sphere in geom coordinates [m], (n, 3)."""
    radius: Array
    """Radius of the bounding sphere [m]; infinite for planes, (n,)."""
    box_center: Array
    """Centre of the oriented bounding box in geom coordinates [m], (n, 3)."""
    box_half: Array
    """Half extents of the oriented bounding box [m]; of a plane the half space z < 0, (n, 3)."""


def motion_weights(model: Model, geoms: CollisionGeoms, pairs: np.ndarray, dofs: Sequence[int]) -> Array:
    """Bounds of the relative motion of pairs of geoms, (n_pairs, n_dofs): travel [m] per unit of each coordinate.

    The weight of a hinge is the largest distance of a point of the geom from its axis in any configuration, bounded by
    the lengths of the frames in between; that of a slide is 1. Joints that move both geoms alike have weight 0.
    """
    sides = []
    for geom in range(len(geoms.names)):
        weights = np.zeros(len(dofs))
        link = int(geoms.link[geom])
        if link >= 0:
            in_frame = model.links.rot[link] @ geoms.position[geom] + model.links.pos[link]
            rotation = model.links.rot[link] @ geoms.rotation[geom]
            center = in_frame + rotation @ geoms.center[geom]
            _add_frame_weights(
                model, int(model.links.frame_idx[link]), center, float(geoms.radius[geom]), dofs, weights
            )
        sides.append(weights)
    result = np.array([_relative_weights(sides[a], sides[b], geoms, model, a, b, dofs) for a, b in pairs])
    return result.reshape(len(pairs), len(dofs))


def _add_frame_weights(
    model: Model, frame: int, center: Array, radius: float, dofs: Sequence[int], weights: Array
) -> None:
    """Write into `weights` the motion bounds of all joints from a frame to the root for a sphere on the frame."""
    frames, nearest = model.frames, center
    reach = radius
    while frame >= 0:
        dof, axis = int(frames.dof_start[frame]), frames.axis[frame]
        kind = frames.joint_type[frame]
        if dof in dofs:
            perpendicular = nearest - (nearest @ axis) * axis
            turning = float(np.linalg.norm(perpendicular)) + reach
            column = list(dofs).index(dof)
            weights[column] = {
                int(PrimitiveJointType.HINGE): turning,
                int(PrimitiveJointType.SLIDE): 1.0,
                int(PrimitiveJointType.SCREW): turning + abs(float(frames.pitch[frame])),
            }[int(kind)]
        reach += float(np.linalg.norm(nearest))
        if kind != PrimitiveJointType.HINGE and dof >= 0:  # translation along the axis changes the distances
            reach += _largest_translation(model, frame)
        nearest = frames.pos[frame]
        frame = int(frames.parent_idx[frame])


def _largest_translation(model: Model, frame: int) -> float:
    """Largest distance [m] by which a slide or screw joint can move its frame; 0 for ball joints."""
    if model.frames.joint_type[frame] == PrimitiveJointType.BALL:
        return 0.0
    dof = int(model.frames.dof_start[frame])
    per_unit = 1.0 if model.frames.joint_type[frame] == PrimitiveJointType.SLIDE else abs(model.frames.pitch[frame])
    bounds = np.abs([model.dofs.lower[dof], model.dofs.upper[dof]]) + abs(float(model.frames.reference[frame]))
    return float(per_unit * bounds.max()) if np.isfinite(bounds).all() else UNLIMITED_TRANSLATION


UNLIMITED_TRANSLATION = 10.0
"""Largest translation of a slide joint without limits [m]."""


def _relative_weights(
    of_a: Array, of_b: Array, geoms: CollisionGeoms, model: Model, a: int, b: int, dofs: Sequence[int]
) -> Array:
    """Sum of the weights of two geoms over the joints that move only one of them."""
    moving = [_moving_dofs(model, int(geoms.link[x])) for x in (a, b)]
    common = np.array([dof in moving[0] and dof in moving[1] for dof in dofs])
    return np.where(common, 0.0, of_a + of_b)


def _moving_dofs(model: Model, link: int) -> set[int]:
    """Degrees of freedom of the frames from the frame of a link to the root."""
    result: set[int] = set()
    frame = -1 if link < 0 else int(model.links.frame_idx[link])
    while frame >= 0:
        result.add(int(model.frames.dof_start[frame]))
        frame = int(model.frames.parent_idx[frame])
    return result


# ------------------------------------------------------------------------------------------------------------ distances

MAX_BATCH = 256
"""Largest number of configurations that are evaluated at once."""
DISTANCE_ERROR = 1e-5
"""Error bound of the distances in single precision [m], subtracted from each."""


LINK_FRAMES: LinkOutputs = {
    "link frame": (12, lambda pose: [*pose.position, *(x for row in pose.rotation for x in row)])
}
"""World position and rotation matrix of all links."""
MAX_SPHERE_RATIO = 2.0
"""Largest ratio of the radii of two geoms at which the sphere of the first is tested against the box of the second: a
much larger sphere encloses the box."""


Curve = Callable[[np.ndarray, Array], Array]
"""Configurations on some curves at parameters from 0 to 1."""


RESOLUTION = 1e-3
"""Motion below which an interval that cannot be certified counts as in collision [m]."""


class CollisionChecker:
    """Distances of the geom pairs of a robot and its surroundings, as functions of some coordinates of the robot.

    Args:
        kinematics: forward kinematics of the robot.
        geoms: geoms of the robot, of objects that it carries, and of its surroundings.
        pairs: pairs of rows of `geoms` that must not collide, (n_pairs, 2).
        distances: distances of pairs of geoms.
        qpos: coordinates of the robot, of which those of `dofs` vary, (n_qs,).
        dofs: degrees of freedom that vary; hinges, slides and screws.
        padding: distance that geoms of the robot and carried objects must keep from static geoms [m].
    """

    def __init__(
        self,
        kinematics: BatchedKinematics,
        geoms: CollisionGeoms,
        pairs: np.ndarray,
        distances: PairDistances,
        qpos: Array,
        dofs: Sequence[int],
        *,
        padding: float,
    ) -> None:
        self.kinematics = kinematics
        self.geoms = geoms
        self.pairs = pairs
        self.padding = np.where((geoms.link[pairs] < 0).any(axis=1), padding, 0.0)
        """Distance that each pair must keep [m], (n_pairs,); 0 for pairs of the robot and carried objects."""
        self._qpos = np.array(qpos, np.float64)
        self._q_idx = kinematics.model.dofs.q_idx[list(dofs)]
        self.weights = motion_weights(kinematics.model, geoms, pairs, list(dofs))
        self._distances = distances
        self._moving = np.flatnonzero(geoms.link >= 0)
        self._radius, self._box_half = geoms.radius.astype(np.float32), geoms.box_half.astype(np.float32)
        self.keep_pairs(np.asarray(self.weights.any(axis=1)))  # other pairs do not move against each other
        self.n_configurations = 0
        """Number of configurations that were evaluated."""

    # ---------------------------------------------------------------------------------------------------- single states

    def distances(self, q: Array, cutoff: Array) -> Array:
        """Lower bounds of the distances of all pairs [m], (m, n_pairs), for configurations q (m, n_dofs).

        Bounds below `cutoff` (m, n_pairs) are the distances themselves, up to `cutoff`; of pairs in collision some
        value <= 0.
        """
        if len(q) > MAX_BATCH:
            parts = range(0, len(q), MAX_BATCH)
            return np.concatenate([self.distances(q[i : i + MAX_BATCH], cutoff[i : i + MAX_BATCH]) for i in parts])
        self.n_configurations += len(q)
        position, rotation = self._geom_poses(q)
        bound = self._bounds(position, rotation)
        configs, pairs = np.nonzero(bound < cutoff)
        if len(configs):
            first, second = (self._posed(position, rotation, configs, self.pairs[pairs, i]) for i in range(2))
            limits = cutoff[configs, pairs] + 2.0 * DISTANCE_ERROR
            exact = self._distances.closest_points(first, second, limits).distance - DISTANCE_ERROR
            bound[configs, pairs] = exact
        return bound

    def are_free(self, q: Array) -> np.ndarray:
        """Whether all pairs keep the padding, bool (m,), for configurations q (m, n_dofs)."""
        cutoff = np.tile(self.padding + DISTANCE_ERROR, (len(q), 1))
        return np.all(self.distances(q, cutoff) > self.padding, axis=1)

    def colliding_pairs(self, q: Array) -> np.ndarray:
        """Rows of `pairs` that do not keep the padding at one configuration (n_dofs,)."""
        cutoff = self.padding[None] + DISTANCE_ERROR
        return np.flatnonzero(self.distances(q[None], cutoff)[0] <= self.padding)

    def keep_pairs(self, keep: np.ndarray) -> None:
        """Restrict the pairs by a mask, and list the spheres and boxes that bound their distances."""
        self.pairs, self.weights, self.padding = self.pairs[keep], self.weights[keep], self.padding[keep]
        self._sides = []
        for spheres, boxes in (self.pairs.T, self.pairs.T[::-1]):
            radius = self.geoms.radius
            use = np.flatnonzero((radius[spheres] <= MAX_SPHERE_RATIO * radius[boxes]) & np.isfinite(radius[spheres]))
            self._sides.append((spheres[use], boxes[use], use))

    def _geom_poses(self, q: Array) -> tuple[Array, Array]:
        """World positions (m, n_geoms, 3) and rotation matrices (m, n_geoms, 3, 3) of all geoms at configurations q."""
        m, geoms, moving = len(q), self.geoms, self._moving
        batch = 8
        while batch < m:
            batch *= 2
        qpos = np.tile(self._qpos, (batch, 1))
        qpos[:m, self._q_idx] = q
        model = self.kinematics.model
        frames = self.kinematics.evaluate("link frames", lambda: link_query("link frames", LINK_FRAMES), qpos=qpos)[
            "link frame"
        ]
        frames = frames[:m].reshape(m, model.n_links, 12)[:, geoms.link[moving]]
        link_rotation = frames[..., 3:].reshape(m, len(moving), 3, 3)
        position = np.broadcast_to(geoms.position, (m, *geoms.position.shape)).copy()
        rotation = np.broadcast_to(geoms.rotation, (m, *geoms.rotation.shape)).copy()
        position[:, moving] = frames[..., :3] + (link_rotation @ geoms.position[moving][..., None])[..., 0]
        rotation[:, moving] = link_rotation @ geoms.rotation[moving]
        return position, rotation

    def _bounds(self, position: Array, rotation: Array) -> Array:
        """Lower bounds of all pair distances (m, n_pairs): bounding sphere of one geom against OBB of the other."""
        geoms = self.geoms
        centers = position + (rotation @ geoms.center[..., None])[..., 0]
        boxes = position + (rotation @ geoms.box_center[..., None])[..., 0]
        # arrays (component, geom or pair, configuration): long inner loops
        centers, boxes = (np.ascontiguousarray(x.transpose(2, 1, 0), np.float32) for x in (centers, boxes))
        axes = np.ascontiguousarray(rotation.transpose(2, 3, 1, 0), np.float32)
        result = np.full((len(self.pairs), len(position)), -np.inf, np.float32)
        for first, second, use in self._sides:
            offset = centers[:, first] - boxes[:, second]
            squared = np.zeros(offset.shape[1:], np.float32)
            for i in range(3):
                along = offset[0] * axes[0, i, second]
                along += offset[1] * axes[1, i, second]
                along += offset[2] * axes[2, i, second]
                outside = np.maximum(np.abs(along, out=along) - self._box_half[second, i, None], 0.0, out=along)
                squared += np.square(outside, out=outside)
            gap = np.sqrt(squared, out=squared) - self._radius[first, None]
            result[use] = np.maximum(result[use], gap)
        return result.T.astype(np.float64) - DISTANCE_ERROR

    def _posed(self, position: Array, rotation: Array, configs: np.ndarray, rows: np.ndarray) -> PosedGeoms:
        geoms = self.geoms
        return PosedGeoms(
            geoms.types[rows], geoms.size[rows], geoms.data[rows], position[configs, rows], rotation[configs, rows]
        )

    # ------------------------------------------------------------------------------------------------------------ edges

    def free_segments(self, curve: Curve, travel: Array, n_segments: np.ndarray) -> np.ndarray:
        """Number of leading segments of curves that are certified free of collisions, (n_curves,).

        Intervals of all curves are bisected together. Of a curve with a collision, segments after it are not examined.

        Args:
            curve: configurations (m, n_dofs) on curves (m,) at parameters (m,) in [0, 1].
            travel: bound of the derivative of each coordinate by the parameter, (n_curves, n_dofs).
            n_segments: number of segments of each curve, equal in the parameter, (n_curves,).
        """
        n_segments = np.asarray(n_segments, np.intp)
        free = n_segments.copy()  # leading segments without known collision
        n_edges = len(n_segments)
        edge: np.ndarray = np.repeat(np.arange(n_edges), n_segments)
        segment: np.ndarray = np.arange(len(edge)) - np.repeat(np.cumsum(n_segments) - n_segments, n_segments)
        counts = n_segments[edge]
        left, right = segment / counts, (segment + 1) / counts
        motion = travel[edge] / counts[:, None] @ self.weights.T
        # ends of segments: the start of each curve, then the end of each segment
        known = self.distances(
            curve(np.concatenate([np.arange(n_edges), edge]), np.concatenate([np.zeros(n_edges), right])),
            0.5 * np.concatenate([motion[np.cumsum(n_segments) - n_segments], motion]) + self.padding,
        )
        blocked = np.any(known <= self.padding, axis=1)
        free[blocked[:n_edges]] = 0
        np.minimum.at(free, edge[blocked[n_edges:]], segment[blocked[n_edges:]])
        at_right = n_edges + np.arange(len(edge))
        at_left = np.where(segment == 0, edge, at_right - 1)
        distance_left, distance_right = known[at_left], known[at_right]
        is_open: np.ndarray = np.ones(motion.shape, np.bool_)
        while True:
            is_open &= distance_left + distance_right <= motion + 2.0 * self.padding
            active = is_open.any(axis=1) & (segment < free[edge])
            too_short = active & (np.where(is_open, motion, 0.0).max(axis=1, initial=0.0) < RESOLUTION)
            np.minimum.at(free, edge[too_short], segment[too_short])
            rows = np.flatnonzero(active & (segment < free[edge]))
            if not len(rows):
                return free
            edge, segment, left, right = edge[rows], segment[rows], left[rows], right[rows]
            motion, is_open = 0.5 * motion[rows], is_open[rows]
            middle = 0.5 * (left + right)
            distance = self.distances(curve(edge, middle), np.where(is_open, motion + self.padding, -np.inf))
            blocked = np.any(is_open & (distance <= self.padding), axis=1)
            np.minimum.at(free, edge[blocked], segment[blocked])
            distance_left, distance_right = (
                np.concatenate([distance_left[rows], distance]),
                np.concatenate([distance, distance_right[rows]]),
            )
            left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
            edge, segment, motion, is_open = (np.concatenate([x, x]) for x in (edge, segment, motion, is_open))


def oriented_boxes(model: Model, types: np.ndarray, size: Array) -> tuple[Array, Array]:
    """Centres and half extents [m] of oriented bounding boxes of geoms in geom coordinates, (n, 3) each.

    The box of a plane covers the half space below it; height fields and signed distance fields have the box of their
    bounding sphere.
    """
    centers, half = np.zeros((len(types), 3)), np.zeros((len(types), 3))
    for i, kind in enumerate(types):
        name = GEOM_TYPES[kind]
        if name == "plane":
            half[i], centers[i] = (np.inf, np.inf, PLANE_DEPTH), (0.0, 0.0, -PLANE_DEPTH)
        elif name == "mesh":
            box = mesh_local_aabb(model, i)
            centers[i], half[i] = box[:3], box[3:]
        elif name in ("height field", "distance field"):
            centers[i], half[i] = model.geoms.center[i], model.geoms.radius[i]
        else:
            half[i] = np.asarray(size[i, 0] if name == "sphere" else geom_half_extents(name, size[i]), np.float64)
    return centers, half


PLANE_DEPTH = 1e3
"""Half thickness of the box that stands for the half space below a plane [m]."""
