"""Default gains of dofs for which neither file nor user gives gains, from inertias, loads, effort limits and damping.

Inertias and loads are upper bounds over all configurations. The load of a dof is the gravity torque of its subtree plus
dry friction; for robots with a floating base also the weight of the robot at the farthest point of the subtree, which
a standing leg or a driven wheel carries.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kinema.core import Array, reproducible_norm, reproducible_product, symmetric_eigen
from kinema.dynamics import Integrator, Settings
from kinema.model import Model, PrimitiveJointType

from .arguments import IndexArray

POSITION_ERROR = (0.01, 0.0005)
"""Deviation under the largest load in position mode: of rotations [rad] and translations [m]."""
VELOCITY_ERROR = (0.01, 0.0005)
"""Deviation under the largest load in velocity mode: of rotations [rad/s] and translations [m/s]."""
DAMPING_FRACTION = 0.01
"""Largest ratio of the file's damping to kv in velocity mode, so that it slows dofs by at most 1 %."""
MIN_NATURAL_FREQUENCY = 30.0
"""Lower bound of the natural frequency of position control, at the largest inertia [rad/s]."""
DESIGN_STEP = (math.pi / 2, 0.5)
"""Step of the target, of rotations [rad] and translations [m], that is followed without overshoot if the effort
saturates; at most the range of the dof."""
GRAVITY = 9.81
"""Gravity for the loads unless the model has more, up to 100 times [m/s2]; it may be changed after build."""
MAX_EXPLICIT_DAMPING_NUMBER = 0.5
"""Upper bound of kv dt / inertia if the integrator is explicit in the control forces; the inertia is that of the links
that a dof moves directly."""
WEIGHT_FRACTION = 0.5
"""Share of the weight of a robot with a floating base that one of its links carries on the ground."""
TINY = 1e-300
"""Lower bound of divisors."""
PARALLEL = 1.0 - 1e-9
"""Cosine above which two axes count as parallel."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class GainTable:
    """Default gains of all dofs of a model with the quantities from which they are computed, (n_dofs,) each.

    Inertia M, damping b and effort limit F are per unit of M for acceleration drives.
    """

    kp: Array
    velocity_kv: Array
    """Lower bound of kv in velocity mode."""
    largest_kv: Array
    """Upper bound of kv; infinite if the integrator is implicit in the control forces."""
    inertia: Array
    """Largest inertia with all other dofs locked [kg m2 or kg]."""
    damping: Array
    effort: Array
    braking_time: Array
    """Time constant with which the effort limit suffices to brake at the end of a step of `DESIGN_STEP` [s]."""
    step: Array
    """`DESIGN_STEP`, at most the range of the dof."""
    limited_deviation: Array
    """Deviation under the largest load of dofs whose kp the integrator limits [rad or m]; 0 for all others."""

    def kv(self, dofs: IndexArray, kp: Array, dt: float) -> Array:
        """Velocity gains of position mode for position gains kp of dofs, (n,) or (n, k): kv = kp (T + dt) - b.

        The time constant T = 2 sqrt(M / kp) is that of critical damping, or longer if the effort saturates. kp dt makes
        the position term implicit, so that the closed loop is stable for every dt.
        """

        def column(values: Array) -> Array:
            return values[dofs].reshape(-1, *([1] * (kp.ndim - 1)))

        braking = np.where(kp * column(self.step) > column(self.effort), kp * column(self.braking_time), 0.0)
        damping = np.maximum(2.0 * np.sqrt(kp * column(self.inertia)), braking) - column(self.damping)
        return np.minimum(np.maximum(damping, 0.0) + dt * kp, column(self.largest_kv))

    def kp_for(self, dofs: IndexArray, kv: Array) -> Array:
        """Largest kp, at most the default, that velocity gains kv of dofs damp critically, (n,)."""
        return np.minimum(self.kp[dofs], (kv + self.damping[dofs]) ** 2 / np.maximum(4.0 * self.inertia[dofs], TINY))


def derive_gains(model: Model, settings: Settings, pivots: Array) -> GainTable:
    """Default gains of position and velocity mode for all dofs.

    With inertia M, damping b, effort limit F and load tau of a dof, kp = max(tau / `POSITION_ERROR`, M w^2, b w / 2)
    with w = `MIN_NATURAL_FREQUENCY`, and kv in velocity mode is at least tau / `VELOCITY_ERROR` and b /
    `DAMPING_FRACTION`.

    Args:
        model: the model.
        settings: integrator and time step; if the integrator is explicit in the control forces, gains are limited.
        pivots: pivots of the mass matrix, smallest inertias of the dofs, (n_dofs,).
    """
    dofs = model.dofs
    inertia, load = joint_inertia_and_load(model)
    is_slide = (model.frames.joint_type[dofs.frame_idx] == PrimitiveJointType.SLIDE).astype(np.intp)
    position_error, velocity_error, step = (
        np.array(pair)[is_slide] for pair in (POSITION_ERROR, VELOCITY_ERROR, DESIGN_STEP)
    )
    for leader, follower, ratio in _coupled_pairs(model):
        position_error[leader] = min(position_error[leader], position_error[follower] / ratio)
        velocity_error[leader] = min(velocity_error[leader], velocity_error[follower] / ratio)
    step = np.minimum(step, dofs.upper - dofs.lower)
    effort = np.maximum(np.minimum(-dofs.force_lower, dofs.force_upper), 0.0)
    load = np.minimum(load, effort)
    kp = np.maximum(load / position_error, inertia * MIN_NATURAL_FREQUENCY**2)
    kp = np.maximum(kp, dofs.damping * MIN_NATURAL_FREQUENCY / 2.0)
    largest_kv, limited_deviation = np.full(model.n_dofs, math.inf), np.zeros(model.n_dofs)
    is_implicit = settings.integrator is Integrator.EULER and model.options.eulerdamp
    if not (is_implicit or settings.integrator.is_implicit_in_velocity):
        largest_kv = MAX_EXPLICIT_DAMPING_NUMBER * np.maximum(_own_inertia(model), 0.01 * pivots) / settings.dt
        kp = np.minimum(kp, ((np.sqrt(inertia + largest_kv * settings.dt) - np.sqrt(inertia)) / settings.dt) ** 2)
        deviation = load / np.maximum(kp, TINY)
        limited_deviation = np.where(deviation > 2.0 * position_error, deviation, 0.0)
    braking = np.maximum(effort - load, 0.5 * effort)
    mass = np.where(dofs.acceleration_drive, np.maximum(inertia, TINY), 1.0)
    return GainTable(
        kp=kp / mass,
        velocity_kv=np.minimum(np.maximum(load / velocity_error, dofs.damping / DAMPING_FRACTION), largest_kv) / mass,
        largest_kv=largest_kv / mass,
        inertia=inertia / mass,
        damping=dofs.damping / mass,
        effort=effort / mass,
        braking_time=0.5 * np.sqrt(inertia * step / np.maximum(braking, TINY)) * (braking > 0.0),
        step=step,
        limited_deviation=limited_deviation,
    )


# ------------------------------------------------------------------------------------------------- inertias and loads


def joint_inertia_and_load(model: Model) -> tuple[Array, Array]:
    """Upper bounds over all configurations of inertia and load of each dof, (n_dofs,) each.

    The inertia and load of the leader of coupled (mimic) dofs contain those of the follower.
    """
    dofs, links, geoms = model.dofs, model.links, model.geoms
    inertia, load = dofs.armature.copy(), dofs.frictionloss.copy()
    strength = float(np.clip(reproducible_norm(model.gravity), GRAVITY, 100.0 * GRAVITY))
    across_axis, along_axis = _gravity_components(model, strength)
    tree = _Tree(model)
    centers = links.pos + reproducible_product(links.rot, links.inertial_pos[:, :, None])[:, :, 0]
    rotational_of_tensor: dict[bytes, float] = {}
    for link in np.flatnonzero(links.frame_idx >= 0).tolist():
        mass, tensor = float(links.inertial_mass[link]), links.inertial_i[link]
        rotational = rotational_of_tensor.get(tensor.tobytes())
        if rotational is None:
            rotational = rotational_of_tensor[tensor.tobytes()] = float(symmetric_eigen(tensor)[0][-1])
        for dof, moment_arm in tree.moment_arm_bounds(int(links.frame_idx[link]), centers[link]):
            inertia[dof] += mass if moment_arm is None else mass * moment_arm * moment_arm + rotational
            load[dof] += mass * (along_axis[dof] if moment_arm is None else across_axis[dof] * moment_arm)
    reach = np.zeros(model.n_dofs)
    centers = geoms.pos + reproducible_product(geoms.rot, geoms.center[:, :, None])[:, :, 0]
    for geom in np.flatnonzero((geoms.frame_idx >= 0) & np.isfinite(geoms.radius) & (geoms.radius >= 0.0)):
        for dof, moment_arm in tree.moment_arm_bounds(int(geoms.frame_idx[geom]), centers[geom]):
            reach[dof] = max(reach[dof], 1.0 if moment_arm is None else moment_arm + float(geoms.radius[geom]))
    load += WEIGHT_FRACTION * strength * tree.floating_mass()[dofs.frame_idx] * reach
    for leader, follower, ratio in _coupled_pairs(model):
        inertia[leader] += ratio**2 * inertia[follower]
        load[leader] += ratio * load[follower]
    return inertia, load


def _coupled_pairs(model: Model) -> Iterator[tuple[int, int, float]]:
    """Leader, follower and ratio of their velocities, of each coupling of two dofs (mimic joints)."""
    couplings = model.couplings
    for row in np.flatnonzero((couplings.path_a < 0) & (couplings.path_b < 0) & couplings.active):
        followers, leaders = np.flatnonzero(couplings.moment_a[row]), np.flatnonzero(couplings.moment_b[row])
        ratio = abs(couplings.polynomial[row, 1])
        if len(followers) == len(leaders) == 1 and ratio > 0.0:
            yield int(leaders[0]), int(followers[0]), float(ratio)


def _own_inertia(model: Model) -> Array:
    """Inertia of each dof due to the links on its own frame, a lower bound over all configurations, (n_dofs,)."""
    frames, dofs, links = model.frames, model.dofs, model.links
    inertia = dofs.armature.copy()
    for dof, frame in enumerate(dofs.frame_idx):
        axis, is_slide = frames.axis[frame], frames.joint_type[frame] == PrimitiveJointType.SLIDE
        for link in np.flatnonzero(links.frame_idx == frame):
            mass, rotation = links.inertial_mass[link], links.rot[link]
            center = np.cross(axis, links.pos[link] + reproducible_product(rotation, links.inertial_pos[link]))
            turned = reproducible_product(rotation.T, axis)
            about_center = reproducible_product(turned, reproducible_product(links.inertial_i[link], turned))
            inertia[dof] += mass if is_slide else mass * reproducible_product(center, center) + about_center
    return inertia


class _Tree:
    """Kinematic tree with bounds of the moment arms of points about the joint axes over all configurations."""

    def __init__(self, model: Model) -> None:
        self.model = model
        frames, dofs = model.frames, model.dofs
        self.dofs_of_frame: list[list[int]] = [[] for _ in frames.parent_idx]
        for dof, frame in enumerate(dofs.frame_idx.tolist()):
            self.dofs_of_frame[frame].append(dof)
        self.parents, self.joint_types = frames.parent_idx.tolist(), frames.joint_type.tolist()
        self.positions, self.axes = frames.pos.tolist(), frames.axis.tolist()
        travel = np.abs(np.stack([dofs.lower, dofs.upper]) - frames.reference[dofs.frame_idx])
        self.travel = np.zeros(len(self.parents))
        """Largest displacement of a slide from its reference within finite limits [m], by frame."""
        np.maximum.at(self.travel, dofs.frame_idx, np.where(np.isfinite(travel), travel, 0.0).max(axis=0))

        self._structure = self._number_structures()
        self._moment_arms: dict[tuple[int, bytes], list[float | None]] = {}

    def _number_structures(self) -> list[int]:
        """Number of the kinematic chain from the world to each frame; equal for chains of equal frames."""
        numbers: dict[tuple, int] = {}
        result: list[int] = []
        travel = self.travel.tolist()
        for frame, parent in enumerate(self.parents):  # parents precede children
            above = result[parent] if parent >= 0 else -1
            n_dofs, joint_type = len(self.dofs_of_frame[frame]), self.joint_types[frame]
            values = (*self.positions[frame], *self.axes[frame], travel[frame])
            result.append(numbers.setdefault((above, n_dofs, joint_type, values), len(numbers)))
        return result

    def moment_arm_bounds(self, frame: int, point: Array) -> Iterator[tuple[int, float | None]]:
        """Dofs that move a point of a frame, each with a bound of the distance of the point from its axis [m].

        The distance is None for translations. Computed once for equal points of equal chains, as those of free bodies.
        """
        key = self._structure[frame], point.tobytes()
        if key not in self._moment_arms:
            self._moment_arms[key] = [moment_arm for _, moment_arm in self._compute_moment_arm_bounds(frame, point)]
        dofs = list[int]()
        while frame >= 0:
            dofs += self.dofs_of_frame[frame]
            frame = self.parents[frame]
        return zip(dofs, self._moment_arms[key], strict=True)

    def _compute_moment_arm_bounds(self, frame: int, point: Array) -> Iterator[tuple[int, float | None]]:
        beyond = 0.0
        """Bound of the distance from `point`, which is carried by `frame`, to the point itself."""
        place = point.tolist()
        while frame >= 0:
            axis, joint_type = self.axes[frame], self.joint_types[frame]
            distance = reproducible_norm(place)
            if joint_type == PrimitiveJointType.SLIDE:
                moment_arm = None
                distance += self.travel[frame]
            elif joint_type == PrimitiveJointType.BALL:
                moment_arm = distance + beyond
            else:
                along = place[0] * axis[0] + place[1] * axis[1] + place[2] * axis[2]
                moment_arm = reproducible_norm([x - along * a for x, a in zip(place, axis, strict=True)]) + beyond
            for dof in self.dofs_of_frame[frame]:
                yield dof, moment_arm
            beyond += distance
            place, frame = self.positions[frame], self.parents[frame]

    def floating_mass(self) -> Array:
        """Mass of the tree of each frame if its root is a free joint, else zero [kg], (n_frames,)."""
        frames, links, joints, dofs = self.model.frames, self.model.links, self.model.joints, self.model.dofs
        root = np.arange(len(frames.parent_idx))
        for frame, parent in enumerate(frames.parent_idx):  # parents precede children
            root[frame] = root[parent] if parent >= 0 else frame
        free = [
            int(dofs.frame_idx[d]) for kind, d in zip(joints.kinds, joints.dof_start, strict=True) if kind == "free"
        ]
        moving, mass = links.frame_idx >= 0, np.zeros(len(root))
        np.add.at(mass, root[links.frame_idx[moving]], links.inertial_mass[moving])
        return np.where(np.isin(root, free), mass[root], 0.0)


def _gravity_components(model: Model, strength: float) -> tuple[Array, Array]:
    """Bounds of gravity across and along the joint axis of each dof [m/s2], (n_dofs,) each.

    Exact if all rotations below the base are about parallel axes, as of a vertical pan joint; else both are `strength`.
    """
    frames, down = model.frames, np.array([0.0, 0.0, -1.0])
    down = model.gravity / reproducible_norm(model.gravity) if model.gravity.any() else down
    n_frames = len(frames.parent_idx)
    across, along = np.full(n_frames, strength), np.full(n_frames, strength)
    rotation = np.zeros((n_frames, 3, 3))
    common, is_common = np.zeros((n_frames, 3)), np.ones(n_frames, np.bool_)
    """Common axis of the rotations up to each frame in the world, zeros if none, and whether there are not several."""
    for level in _frames_by_depth(frames.parent_idx):
        parent, joint_type = frames.parent_idx[level], frames.joint_type[level]
        is_root = (parent < 0)[:, None]
        rotation[level] = reproducible_product(
            np.where(is_root[..., None], np.eye(3), rotation[parent]), frames.rot[level]
        )
        axis = reproducible_product(rotation[level], frames.axis[level][:, :, None])[:, :, 0]
        parent_axis = np.where(is_root, 0.0, common[parent])
        is_constant = is_root[:, 0] | is_common[parent]
        is_parallel = np.abs((parent_axis * axis).sum(axis=1)) > PARALLEL
        is_constant &= ~parent_axis.any(axis=1) | is_parallel
        is_exact = is_constant & (joint_type != PrimitiveJointType.BALL)
        cosine = reproducible_product(axis, down)
        along[level] = np.where(is_exact, strength * np.abs(cosine), strength)
        across[level] = np.where(is_exact, strength * np.sqrt(np.maximum(1.0 - cosine**2, 0.0)), strength)
        is_slide = joint_type == PrimitiveJointType.SLIDE
        common[level] = np.where(is_slide[:, None], parent_axis, axis)
        is_common[level] = np.where(is_slide, is_root[:, 0] | is_common[parent], is_exact)
    return across[model.dofs.frame_idx], along[model.dofs.frame_idx]


def _frames_by_depth(parents: IndexArray) -> Iterator[IndexArray]:
    """Indices of the frames of each depth of the tree, roots first."""
    depth: list[int] = []
    for parent in parents.tolist():  # parents precede children
        depth.append(depth[parent] + 1 if parent >= 0 else 0)
    order = np.argsort(depth, kind="stable")
    yield from np.split(order, np.cumsum(np.bincount(depth))[:-1]) if depth else ()
