"""Motion of kinematic bodies: constant velocity until a target pose is reached, then rest."""

from __future__ import annotations

from kinema import ir
from kinema.ir import Value

from ..settings import RK4_STAGES, Integrator
from ..tree.kinematic_tree import FrameNode
from ..tree.trace_context import TraceContext
from ..vector_math import add, normalize, quaternion_exp, quaternion_multiply, scale


def move_kinematic_bodies(ctx: TraceContext) -> None:
    """Trace the motion of all kinematic bodies by one step, at their linear and angular velocity in world axes.

    The last step ends exactly at the target pose and sets the velocity to zero. RK4 reads the poses at the beginning,
    twice at the middle, and at the end of a step.
    """

    def body(_: FrameNode) -> None:
        iteration = ctx.iteration
        pose, target = iteration.read_array("kinematic_pose", 7), iteration.read_array("kinematic_target", 7)
        velocity, steps = iteration.read_array("kinematic_velocity", 6), iteration.read("kinematic_steps")
        duration, is_last_stage = _stage_duration(ctx)
        position = add(pose[:3], scale(duration, velocity[:3]))
        rotation = quaternion_exp(scale(0.5 * duration, velocity[3:]))
        moved = [*position, *normalize(quaternion_multiply(rotation, pose[3:]))]
        is_moving = ir.select(0.5, steps, 1.0, 0.0)
        arrives = is_moving * is_last_stage * ir.select(steps, 1.5, 1.0, 0.0)
        next_pose = [
            ir.select(0.5, arrives, at_target, ir.select(0.5, is_moving, after, before))
            for at_target, after, before in zip(target, moved, pose, strict=True)
        ]
        iteration.write("kinematic_pose", next_pose)
        iteration.write("kinematic_velocity", [ir.select(0.5, arrives, 0.0, v) for v in velocity])
        iteration.write("kinematic_steps", [ir.maximum(steps - is_last_stage, 0.0)])

    ctx.for_each_kinematic_body("motion of kinematic bodies", body)


def _stage_duration(ctx: TraceContext) -> tuple[Value, Value]:
    """Time [s] by which poses advance in a run of the program, and 1 for the last run of a step, else 0."""
    if ctx.settings.integrator is not Integrator.RK4:
        return ctx.dt, 1.0
    phase = ctx.read("phase")
    is_last = ir.select(RK4_STAGES - 1.5, phase, 1.0, 0.0)
    advances = ir.select(ir.absolute(phase - 1.0), 0.5, 0.0, 1.0) * (1.0 - is_last)
    return 0.5 * advances * ctx.dt, is_last
