"""Kinematic chains to selected links: traced forward kinematics, Jacobian columns, joint limits and mimic joints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from kinema import ir
from kinema.core import Array, KinemaError
from kinema.dynamics.rigid.kinematics import IDENTITY_POSE, JOINT_MODELS, Pose, Twist, motion_subspace, twist_at_point
from kinema.dynamics.tree.kinematic_tree import WORLD, FrameNode, KinematicTree, build_tree
from kinema.dynamics.vector_math import Vector, add, matmul, rotate
from kinema.ir import Value
from kinema.model import Model, PrimitiveJointType

NO_LIMIT = 1e30
"""Finite replacement of an infinite limit: arithmetic with infinities may give NaN."""


@dataclass(frozen=True, slots=True)
class MimicDof:
    """A mimic dof: its coordinate is a polynomial of the coordinate of its leader."""

    leader: int
    """Dof index of the leader."""
    offset: float
    """Reference coordinate of the follower."""
    leader_offset: float
    """Reference coordinate of the leader."""
    polynomial: tuple[float, ...]
    """Coefficients in ascending powers of the leader's coordinate minus `leader_offset`."""

    def position_and_slope(self, leader_position: Value) -> tuple[Value, Value]:
        """Coordinate of the follower and its derivative by the leader's coordinate (Horner's scheme)."""
        x, value, slope = leader_position - self.leader_offset, 0.0, 0.0
        for term in reversed(self.polynomial):
            value, slope = value * x + term, slope * x + value
        return value + self.offset, slope


def mimic_dofs(model: Model) -> dict[int, MimicDof]:
    """Mimic dofs by dof index: active couplings of two coordinates, q_follower = polynomial of q_leader.

    Followers whose leader is itself a follower are left out.
    """
    couplings, mimics = model.couplings, dict[int, MimicDof]()
    for i in range(len(couplings.names)):
        ends = [np.flatnonzero(moment[i]) for moment in (couplings.moment_a, couplings.moment_b)]
        is_simple = couplings.path_a[i] < 0 and couplings.path_b[i] < 0 and all(len(end) == 1 for end in ends)
        if not is_simple or not couplings.active[i] or couplings.moment_a[i, ends[0][0]] != 1.0:
            continue
        follower, leader = (int(end[0]) for end in ends)
        ratio = float(couplings.moment_b[i, leader])
        coefficients = tuple(float(x) * ratio**k for k, x in enumerate(couplings.polynomial[i]))
        derived = model.derived
        references = float(derived.coupling_reference_a[i]), float(derived.coupling_reference_b[i]) / ratio
        mimics[follower] = MimicDof(leader, *references, coefficients)
    return {dof: x for dof, x in mimics.items() if x.leader not in mimics}


def apply_mimic_dofs(model: Model, qpos: Array) -> Array:
    """Configurations (n, n_qs) in which the coordinates of mimic dofs are recomputed from their leaders."""
    mimics = mimic_dofs(model)
    if not mimics:
        return qpos
    result = np.array(qpos)
    for dof, mimic in mimics.items():
        q_index, leader_q = int(model.dofs.q_idx[dof]), int(model.dofs.q_idx[mimic.leader])
        result[:, q_index] = mimic.position_and_slope(result[:, leader_q])[0]  # type: ignore[arg-type]
    return result


@dataclass(slots=True, eq=False)
class KinematicChain:
    """The frames that move selected links, and the degrees of freedom that may move."""

    model: Model
    tree: KinematicTree
    frames: list[int]
    """Frame indices, parents first."""
    free_dofs: list[int]
    """Dofs that may move: neither fixed by the user nor mimic dofs."""
    mimics: dict[int, MimicDof]
    """Mimic dofs of the chain."""
    q_indices: list[int] = field(default_factory=list)
    """Coordinates of the frames, in their order."""

    def __post_init__(self) -> None:
        self.q_indices = [q for frame in self.frames for q in self.model.frame_q_range(frame)]

    def nodes(self) -> Iterator[FrameNode]:
        """Frame nodes of the chain, parents first."""
        return (self.tree.nodes[i] for i in self.frames)

    def frames_to(self, frame: int) -> list[int]:
        """Frames on the path from the world to a frame, the frame included."""
        path = []
        while frame != WORLD:
            path.append(frame)
            frame = int(self.model.frames.parent_idx[frame])
        return path[::-1]

    def free_dof_limits(self) -> tuple[Array, Array]:
        """Lower and upper limits of the free dofs, (n_free,) each, tightened by the limits of their linear mimic dofs.

        Dofs of ball joints have no limits here. Infinite limits are replaced by +-`NO_LIMIT`.
        """
        dofs = self.model.dofs
        lower, upper = (np.array(x[self.free_dofs], np.float64) for x in (dofs.lower, dofs.upper))
        is_ball = dofs.q_idx[self.free_dofs] < 0
        lower[is_ball], upper[is_ball] = (
            -np.inf,
            np.inf,
        )  # the limit of a ball joint is an angle, which is not enforced here
        for dof, mimic in self.mimics.items():
            slope = mimic.polynomial[1]
            if mimic.leader not in self.free_dofs or slope == 0.0 or any(mimic.polynomial[2:]):
                continue
            index = self.free_dofs.index(mimic.leader)
            leader_limits = [
                (float(x[dof]) - mimic.offset - mimic.polynomial[0]) / slope + mimic.leader_offset
                for x in (dofs.lower, dofs.upper)
            ]
            lower[index], upper[index] = max(lower[index], min(leader_limits)), min(upper[index], max(leader_limits))
        return np.clip(lower, -NO_LIMIT, None), np.clip(upper, None, NO_LIMIT)


def build_chain(
    model: Model, links: Sequence[int], dofs: Sequence[int] | None = None, *, whole_model: bool = False
) -> KinematicChain:
    """Kinematic chain for inverse kinematics: frames that move the given links (or all), and dofs that may move.

    The chain includes the leaders of mimic dofs in it.

    Args:
        model: the model.
        links: link indices.
        dofs: dofs that may move; None for all.
        whole_model: whether the chain contains all frames.

    Raises:
        KinemaError: if no free dof moves the links, or only some dofs of a ball joint are free.
    """
    tree, mimics = build_tree(model), mimic_dofs(model)
    frame_set = set(range(model.n_frames)) if whole_model else set[int]()
    for link in links:
        frame = int(model.links.frame_idx[link])
        while frame != WORLD:
            frame_set.add(frame)
            frame = int(model.frames.parent_idx[frame])
    for dof, mimic in mimics.items():
        if int(model.dofs.frame_idx[dof]) in frame_set:
            frame_set.add(int(model.dofs.frame_idx[mimic.leader]))
    frames = sorted(frame_set)
    chain_dofs = [dof for frame in frames for dof in model.frame_dof_range(frame)]
    free = [d for d in chain_dofs if d not in mimics and (dofs is None or d in dofs)]
    if not free:
        names = ", ".join(model.links.names[i] for i in links)
        raise KinemaError(f"inverse kinematics: no free degree of freedom moves {names or 'the robot'}")
    for frame in frames:
        frame_dofs = set(model.frame_dof_range(frame))
        if (
            model.frames.joint_type[frame] == PrimitiveJointType.BALL
            and frame_dofs & set(free)
            and not frame_dofs <= set(free)
        ):
            raise KinemaError(
                "inverse kinematics: either all or none of the three degrees of freedom of a ball joint may be free"
            )
    return KinematicChain(model, tree, frames, free, {d: m for d, m in mimics.items() if d in set(chain_dofs)})


class ChainState:
    """Traced forward kinematics of a chain: frame poses and joint motion subspaces for symbolic coordinates."""

    def __init__(self, chain: KinematicChain, q: Sequence[Value]) -> None:
        """Trace forward kinematics: apply mimic dofs, then compute the world pose and motion subspace of each frame.

        Args:
            chain: the kinematic chain.
            q: coordinates of the chain, in the order of `chain.q_indices`.
        """
        self.chain = chain
        self.q = dict(zip(chain.q_indices, q, strict=True))
        self.mimic_slopes: dict[int, Value] = {}
        for dof, mimic in chain.mimics.items():
            leader = self.q[int(chain.model.dofs.q_idx[mimic.leader])]
            self.q[int(chain.model.dofs.q_idx[dof])], self.mimic_slopes[dof] = mimic.position_and_slope(leader)
        self.frame_poses: dict[int, Pose] = {WORLD: IDENTITY_POSE}
        self.joint_twists: dict[int, list[Twist]] = {}
        for node in chain.nodes():
            joint_pose = JOINT_MODELS[node.joint_type].pose(node, [self.q[i] for i in node.qs])
            parent = self.frame_poses.get(node.parent, IDENTITY_POSE)
            position = add(parent.position, rotate(parent.rotation, joint_pose.position))
            self.frame_poses[node.index] = Pose(matmul(parent.rotation, joint_pose.rotation), position)
            self.joint_twists[node.index] = motion_subspace(node, joint_pose)

    def link_pose(self, link: int) -> Pose:
        """World pose of a link."""
        links = self.chain.model.links
        frame = self.frame_poses[int(links.frame_idx[link])]
        position = add(frame.position, rotate(frame.rotation, links.pos[link].tolist()))
        return Pose(matmul(frame.rotation, links.rot[link].tolist()), position)

    def point_position(self, link: int, offset: Sequence[float]) -> Vector:
        """World position of a point given in link coordinates."""
        pose = self.link_pose(link)
        return add(pose.position, rotate(pose.rotation, offset)) if any(offset) else pose.position

    def jacobian_columns(self, frame: int, point: Vector) -> dict[int, Twist]:
        """Jacobian at a point fixed to a frame: twist per unit velocity of each free dof, in world axes."""
        columns: dict[int, Twist] = {}
        for index in self.chain.frames_to(frame):
            node = self.chain.tree.nodes[index]
            for dof, twist in zip(node.dofs, self.joint_twists[index], strict=True):
                self.add_jacobian_column(columns, dof, twist_at_point(self.frame_poses[index], twist, point))
        return columns

    def add_jacobian_column(self, jacobian: dict[int, Twist], dof: int, column: Twist) -> None:
        """Add the Jacobian column of a dof to `jacobian`, in place; ignored if the dof is not free.

        The column of a mimic dof is multiplied by dq_follower / dq_leader and added to the column of its leader.
        """
        mimic = self.chain.mimics.get(dof)
        if mimic is not None:
            slope = self.mimic_slopes[dof]
            column = Twist([slope * x for x in column.angular], [slope * x for x in column.linear])
            dof = mimic.leader
        if dof not in self.chain.free_dofs:
            return
        if dof in jacobian:
            other = jacobian[dof]
            column = Twist(add(other.angular, column.angular), add(other.linear, column.linear))
        jacobian[dof] = column

    def stepped_coordinates(
        self, step: dict[int, Value], lower: dict[int, Value], upper: dict[int, Value]
    ) -> list[Value]:
        """Coordinates of the chain after a displacement of the free dofs; quaternions of ball joints are integrated.

        Other coordinates are clamped to `lower` and `upper`.
        """
        result: dict[int, Value] = dict(self.q)
        for node in self.chain.nodes():
            if not any(d in step for d in node.dofs):
                continue
            new_q = JOINT_MODELS[node.joint_type].integrate([self.q[i] for i in node.qs], [step[d] for d in node.dofs])
            if node.joint_type != PrimitiveJointType.BALL:
                dof = node.dofs[0]
                new_q = [ir.clamp(new_q[0], lower[dof], upper[dof])]
            result.update(zip(node.qs, new_q, strict=True))
        return [result[i] for i in self.chain.q_indices]
