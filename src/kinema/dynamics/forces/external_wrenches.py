"""Wrenches on frames from gravity compensation and user-applied forces on links."""

from __future__ import annotations

from kinema.model import Model

from ..rigid.kinematics import Pose
from ..rigid.rnea import ZERO_WRENCH, Wrench, wrench_in_frame
from ..settings import Settings
from ..tree.kinematic_tree import LinkNode
from ..tree.node_values import NodeValues
from ..tree.trace_context import TraceContext
from ..vector_math import ZERO, Vector, add, rotate, scale


def has_external_wrenches(model: Model, settings: Settings) -> bool:
    """Whether any wrench can act on frames: gravity compensation, applied forces, fluid or actuators on frames."""
    compensated = has_gravcomp(model) and not has_actuator_gravcomp(model)
    applied = settings.external_forces or bool(model.fluid.kinds)
    return compensated or applied or bool((model.actuators.frame_idx >= 0).any())


def has_gravcomp(model: Model) -> bool:
    """Whether any link has gravity compensation (a gravity scale other than 1)."""
    return bool((model.links.gravity_scale != 1.0).any())


def has_actuator_gravcomp(model: Model) -> bool:
    """Whether gravity compensation acts as clamped actuator force on joints, instead of as wrenches on frames."""
    return has_gravcomp(model) and bool(model.dofs.actuator_gravcomp.any())


def zero_wrenches(ctx: TraceContext, name: str) -> NodeValues[Wrench]:
    """Trace zero wrenches on all frames, to be added to."""
    wrenches: NodeValues[Wrench] = ctx.new_values(name)
    ctx.for_each_frame(f"clear {name}", lambda node: wrenches.put(node.ref, ZERO_WRENCH))
    return wrenches


def com_in_frame(link: LinkNode) -> Vector:
    """Centre of mass of a link in the coordinates of its moving frame [m]."""
    return add(link.position, rotate(link.rotation, link.com))


def add_gravcomp_wrenches(ctx: TraceContext, world_poses: NodeValues[Pose], wrenches: NodeValues[Wrench]) -> None:
    """Trace a loop that adds gravity compensation, (gravity_scale - 1) m g at centres of mass, to `wrenches`."""
    if not has_gravcomp(ctx.model):
        return

    def body(link: LinkNode) -> None:
        if link.has_gravcomp and link.in_moving_frame:
            force = scale((link.gravity_scale - 1.0) * link.mass, ctx.gravity)
            wrenches.add(link.frame_ref, wrench_in_frame(world_poses[link.frame_ref], com_in_frame(link), ZERO, force))

    ctx.for_each_link("gravity compensation", body)


def add_applied_wrenches(ctx: TraceContext, world_poses: NodeValues[Pose], wrenches: NodeValues[Wrench]) -> None:
    """Trace a loop that adds user-applied forces and torques on links to `wrenches`.

    They act at the centres of mass, in world axes (arrays `cfrc_applied_vel` and `cfrc_applied_ang`).
    """
    if not ctx.settings.external_forces:
        return

    def body(link: LinkNode) -> None:
        if link.in_moving_frame:
            torque, force = ctx.read_node("cfrc_applied_ang", link), ctx.read_node("cfrc_applied_vel", link)
            wrenches.add(
                link.frame_ref, wrench_in_frame(world_poses[link.frame_ref], com_in_frame(link), torque, force)
            )

    ctx.for_each_link("applied forces on links", body)
