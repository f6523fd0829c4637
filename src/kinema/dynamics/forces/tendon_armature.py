"""Tendon armature: its contribution to the mass matrix, bias force and kinetic energy.

An armature a adds a r^T r to the mass matrix, with r the moment arms of the tendon, and a r^T (dr/dt v) to the bias
force.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kinema import ir
from kinema.ir import ArenaOffset, IterationContext, LoopIteration, Value
from kinema.model import PathSegmentsInfo

from ..rigid.crba import mass_matrix
from ..rigid.kinematics import FrameAcceleration, Pose, Twist, twist_at_point
from ..rigid.link_dynamics import acceleration_at_point
from ..rigid.rnea import bias_forces
from ..tree.kinematic_tree import FrameNode, frame_ref
from ..tree.node_values import NodeValues
from ..tree.sparse_matrix import JointSpaceMatrix
from ..tree.trace_context import TraceContext
from ..tree.transmissions import ForceTerm, PathLengths, Transmission
from ..vector_math import Vector, add, cross, dot, rotate, sub
from .transmission_paths import AXIS_LETTERS, HasPoses

MIN_LENGTH = 1e-15
LABEL = "tendon armature"
ARMATURE_JOINTS = ("hinge", "slide")
"""Kinds of loop-closing joint coordinates that can have armature."""


@dataclass(frozen=True, slots=True)
class _EndMotion:
    """Motion of an end point of a transmission path segment in world axes: position, velocity and bias acceleration."""

    point: Vector
    velocity: Twist
    bias_acceleration: Twist


class HasMotionState(HasPoses, Protocol):
    """A state with poses, velocities and bias accelerations of frames."""

    @property
    def velocities(self) -> NodeValues[Twist]:
        """Spatial velocities of frames."""
        ...

    @property
    def bias_accelerations(self) -> NodeValues[FrameAcceleration]:
        """Accelerations of frames at zero joint accelerations."""
        ...


def tendons_with_armature(ctx: TraceContext) -> list[int]:
    """Indices of the tendons with armature that act on frames of the context."""
    tendons, dofs = ctx.model.tendons, [d for node in ctx.nodes for d in node.dofs]
    return [i for i in tendons.armature.nonzero()[0].tolist() if tendons.moment[i, dofs].any()]


def mass_matrix_with_tendon_armature(step: HasPoses) -> JointSpaceMatrix:
    """Trace the joint-space mass matrix of links, joint armature and tendon armature.

    Tendon armature couples only dofs that are ancestor and descendant; other pairs have no entry.
    """
    mass = mass_matrix(step.ctx, step.local_poses)
    indices = tendons_with_armature(step.ctx)
    if not indices:
        return mass

    def body(tendon: Transmission) -> ForceTerm:
        return ForceTerm(0.0, tendon.read("armature")[0])

    armature = step.ctx.transmissions("tendons", indices, body, step.path_lengths, name=LABEL)
    total = mass.plus_diagonal(
        "mass matrix with tendons",
        lambda node: [p.dforce_dvel for p in armature.forces_on_joint(node)],
        [armature],
        lambda: 1.0,
    )
    total.may_overwrite = False
    return total


def bias_forces_with_tendon_armature(step: HasMotionState) -> NodeValues[list[Value]]:
    """Trace the bias force c(q, v) of links and of tendon armature with varying moment arms."""
    ctx, bias = step.ctx, bias_forces(step.ctx, step.local_poses, step.bias_accelerations)
    on_paths = [i for i in tendons_with_armature(step.ctx) if ctx.model.tendons.path_idx[i] >= 0]
    if not on_paths:
        return bias
    accelerations = _path_bias_accelerations(step, {int(ctx.model.tendons.path_idx[i]) for i in on_paths})

    def body(tendon: Transmission) -> ForceTerm:
        # the path "lengths" passed below are bias accelerations
        return ForceTerm(tendon.read("armature")[0] * tendon.length, 0.0)

    lengths = step.path_lengths
    armature = ctx.transmissions(
        "tendons", on_paths, body, PathLengths(accelerations, lengths.moments), f"bias of {LABEL}"
    )
    total: NodeValues[list[Value]] = ctx.new_values("bias with tendons")

    def add_terms(node: FrameNode) -> None:
        pairs = zip(bias[node.ref], armature.forces_on_joint(node), strict=True)
        total.put(node.ref, [a + term.force for a, term in pairs])

    ctx.for_each_frame("bias with tendons", add_terms)
    return total


def tendon_armature_energy(step: HasPoses) -> Value:
    """Trace the kinetic energy of tendon armature, the sum of a l'^2 / 2 [J]."""

    def body(tendon: Transmission) -> ForceTerm:
        return ForceTerm(0.5 * tendon.read("armature")[0] * (tendon.velocity * tendon.velocity), 0.0)

    indices = tendons_with_armature(step.ctx)
    if not indices:
        return 0.0
    return step.ctx.transmissions("tendons", indices, body, step.path_lengths, name=f"energy of {LABEL}").total_force()


def _path_bias_accelerations(step: HasMotionState, paths: set[int]) -> dict[int, ArenaOffset]:
    """Trace the second time derivative of the lengths of tendon paths at zero joint accelerations.

    Covers straight segments and the hinge and slide coordinates of loop-closing joints. Returns path index -> offset in
    scratch memory.
    """
    ctx, info = step.ctx, step.ctx.model.path_segments
    motions = (step.world_poses, step.velocities, step.bias_accelerations)
    accelerations = {path: ctx.allocate(1) for path in paths}
    ctx.for_each(
        "clear path bias accelerations",
        [LoopIteration("path", {"to": x}) for x in accelerations.values()],
        lambda iteration: iteration.write("to", [0.0]),
    )
    table = []
    for i, path in enumerate(info.path_idx.tolist()):
        if path in accelerations and info.dof_mask[i].any():
            bindings = {prefix: frame_ref(int(info.frame_idx[i, k])) for k, prefix in enumerate(("a ", "b "))}
            constants = {f"pos {k}": info.pos[i, k].tolist() for k in range(2)}
            constants |= {"scale": [float(info.scale[i])], "axis": _axis_in_parent(info, i)}
            table.append(
                ctx.node_iteration(info.kinds[i].partition(" ")[0], bindings, {"to": accelerations[path]}, constants)
            )
    ctx.for_each("path bias accelerations", table, lambda iteration: _segment_bias_acceleration(iteration, motions))
    return accelerations


def _axis_in_parent(info: PathSegmentsInfo, segment: int) -> list[float]:
    """Axis of a loop-closing joint's coordinate in the parent frame; zeros for other segments."""
    kind, _, letter = info.kinds[segment].partition(" ")
    if kind not in ARMATURE_JOINTS:
        return [0.0] * 3
    axis = info.params[segment, :3] if kind == "slide" else np.eye(3)[AXIS_LETTERS.index(letter)]
    return (info.rot[segment, 1] @ axis).tolist()


def _segment_bias_acceleration(
    iteration: IterationContext,
    kinematic_values: tuple[NodeValues[Pose], NodeValues[Twist], NodeValues[FrameAcceleration]],
) -> None:
    """Traced loop body: add the second time derivative of a path segment's length at zero joint acceleration.

    `kinematic_values` are world poses, velocities and bias accelerations of frames.
    """
    poses, velocities, accelerations = kinematic_values
    ends = []
    for k, prefix in enumerate(("a ", "b ")):
        pose = poses[frame_ref(prefix)]
        point = add(pose.position, rotate(pose.rotation, iteration.constants(f"pos {k}")))
        velocity = twist_at_point(pose, velocities[frame_ref(prefix)], point)
        ends.append(_EndMotion(point, velocity, acceleration_at_point(pose, accelerations[frame_ref(prefix)], point)))
    if iteration.specialization in ARMATURE_JOINTS:
        axis = rotate(poses[frame_ref("b ")].rotation, iteration.constants("axis"))
        acceleration = (
            _hinge_bias_acceleration(axis, *ends)
            if iteration.specialization == "hinge"
            else _slide_bias_acceleration(axis, *ends)
        )
    else:
        acceleration = _distance_bias_acceleration(*ends)
    iteration.write("to", [iteration.read("to") + iteration.constant("scale") * acceleration])


def _distance_bias_acceleration(a: _EndMotion, b: _EndMotion) -> Value:
    """Second time derivative of the distance between two points, from their velocities and bias accelerations."""
    gap, velocity = sub(b.point, a.point), sub(b.velocity.linear, a.velocity.linear)
    acceleration = sub(b.bias_acceleration.linear, a.bias_acceleration.linear)
    square = dot(gap, gap)
    inverse = 1.0 / ir.sqrt(ir.maximum(square, MIN_LENGTH * MIN_LENGTH))
    rate = dot(gap, velocity) * inverse
    return inverse * (dot(gap, acceleration) + dot(velocity, velocity) - rate * rate)


def _hinge_bias_acceleration(axis: Vector, child: _EndMotion, parent: _EndMotion) -> Value:
    """Second time derivative of the rotation angle of a child about an axis fixed to its parent."""
    axis_rate = cross(parent.velocity.angular, axis)
    acceleration = sub(child.bias_acceleration.angular, parent.bias_acceleration.angular)
    return dot(axis, acceleration) + dot(axis_rate, sub(child.velocity.angular, parent.velocity.angular))


def _slide_bias_acceleration(axis: Vector, child: _EndMotion, parent: _EndMotion) -> Value:
    """Second time derivative of the displacement of a child along an axis fixed to its rotating parent.

    At zero joint accelerations, including the rotation of the axis.
    """
    gap = sub(child.point, parent.point)
    velocity, acceleration = (
        sub(child.velocity.linear, parent.velocity.linear),
        sub(child.bias_acceleration.linear, parent.bias_acceleration.linear),
    )
    omega = parent.velocity.angular
    axis_rate = cross(omega, axis)
    axis_acceleration = add(cross(parent.bias_acceleration.angular, axis), cross(omega, axis_rate))
    return dot(axis, acceleration) + 2.0 * dot(axis_rate, velocity) + dot(axis_acceleration, gap)
