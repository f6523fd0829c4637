"""Poses of collision geoms in the world, velocities of their surfaces, and their motion if contacts are speculative."""

from __future__ import annotations

from dataclasses import dataclass

from kinema.ir import ArenaOffset, IterationContext, Value

from ..arrays import ElementKind
from ..rigid.kinematics import Pose, Twist
from ..topology import kinematic_carriers
from ..tree.kinematic_tree import WORLD, frame_ref
from ..tree.node_constants import with_per_env_parameters
from ..tree.node_values import NodeValues
from ..tree.trace_context import TraceContext
from ..vector_math import Vector, add, cross, matmul, rotate, sub
from .contact_buffer_specs import surface_velocities
from .pair_geoms import GEOM_MOTION_SIZE, GEOM_POSE_SIZE, motion_offset
from .pair_parameters import geom_local_pose, geom_radius
from .vector_math import norm


@dataclass(frozen=True, slots=True)
class GeomPoseSpecialization:
    """Specialization of the pose computation of a geom."""

    is_on_world: bool
    is_sphere: bool
    """Whether the rotation is not needed."""
    has_surface_velocity: bool
    """Whether the surface can move relative to the frame."""
    is_on_kinematic_body: bool
    """Whether a kinematic body carries the frame."""
    has_carrier_velocity: bool
    """Whether the velocity of such a body is written."""


def compute_geom_poses(
    ctx: TraceContext, frame_poses: NodeValues[Pose], frame_velocities: NodeValues[Twist] | None
) -> list[ArenaOffset]:
    """Trace the computation of all geom poses from the poses of their frames.

    Writes position (3) and rotation matrix (9, row-major; not for spheres) of each geom to scratch memory, the
    velocities of its surface (6 each) if there are any, and its own motion (`GEOM_MOTION_SIZE`) if any geom is fast.

    Returns:
        Offset of each geom's pose (`GEOM_POSE_SIZE` scalars) and velocities.
    """
    geoms, velocities, carriers = ctx.model.geoms, surface_velocities(ctx.model), kinematic_carriers(ctx.model)
    moves, n_motion = "own" in velocities, 0 if frame_velocities is None else GEOM_MOTION_SIZE
    offsets = [ctx.allocate(GEOM_POSE_SIZE + 6 * len(velocities) + n_motion) for _ in geoms.names]
    rows = []
    for i, geom_type in enumerate(geoms.types):
        frame = int(geoms.frame_idx[i])
        carrier = WORLD if frame == WORLD else carriers[frame]
        specialization = GeomPoseSpecialization(
            frame == WORLD, geom_type == "sphere", moves, carrier != WORLD, "carried" in velocities
        )
        constants = with_per_env_parameters(ctx, "geom", i, geom_local_pose(ctx.model, i))
        if frame_velocities is not None:
            constants["turning radius"] = [0.0 if geom_type in ("sphere", "plane") else geom_radius(ctx.model, i)]
        arrays, bindings = {"geom": offsets[i]}, {"frame ": frame_ref(frame)}
        if moves:
            arrays["surface velocity"] = ctx.element_arrays(ElementKind.GEOM, i)["surface_velocity"]
        if carrier != WORLD:
            bindings["carrier "] = frame_ref(carrier)
            body_index = ctx.model.kinematic_frames.index(carrier)
            arrays |= ctx.element_arrays(ElementKind.KINEMATIC_BODY, body_index)
        rows.append(ctx.node_iteration(specialization, bindings, arrays, constants))

    def body(iteration: IterationContext) -> None:
        specialization = iteration.specialization
        assert isinstance(specialization, GeomPoseSpecialization)
        frame_pose = frame_poses[frame_ref("frame ")]
        local_rotation_values = iteration.constants("rotation")
        local_rotation = [local_rotation_values[3 * i : 3 * i + 3] for i in range(3)]
        offset = (
            iteration.constants("position")
            if specialization.is_on_world
            else rotate(frame_pose.rotation, iteration.constants("position"))
        )
        rotation = local_rotation if specialization.is_on_world else matmul(frame_pose.rotation, local_rotation)
        position = add(frame_pose.position, offset)
        iteration.write("geom", position)
        if not specialization.is_sphere:
            iteration.write("geom", [x for row in rotation for x in row], 3)
        for k, velocity in enumerate(_surface_velocities_of_geom(iteration, specialization, frame_poses, position)):
            iteration.write("geom", velocity, GEOM_POSE_SIZE + 6 * k)
        if frame_velocities is not None:
            motion = _motion_of_geom(iteration, specialization, frame_poses, frame_velocities)
            iteration.write("geom", motion, motion_offset(ctx.model))

    ctx.for_each("geom poses", rows, body)
    return offsets


def _surface_velocities_of_geom(
    iteration: IterationContext,
    specialization: GeomPoseSpecialization,
    frame_poses: NodeValues[Pose],
    position: Vector,
) -> list[list[Value]]:
    """Velocities of the surface of the current iteration's geom: its own, that of the kinematic body that carries it.

    Both along world axes, linear at the geom's origin, then angular; those that the model has (`surface_velocities`).
    """
    result, frame_pose = [], frame_poses[frame_ref("frame ")]
    if specialization.has_surface_velocity:
        own = iteration.read_array("surface velocity", 6)
        if not specialization.is_on_world:
            own = [*rotate(frame_pose.rotation, own[:3]), *rotate(frame_pose.rotation, own[3:])]
        result.append(own)
    if specialization.has_carrier_velocity:
        carried = [0.0] * 6
        if specialization.is_on_kinematic_body:
            carried = iteration.read_array("kinematic_velocity", 6)
            arm = sub(position, frame_poses[frame_ref("carrier ")].position)
            carried = [*add(carried[:3], cross(carried[3:], arm)), *carried[3:]]
        result.append(carried)
    return result


def _motion_of_geom(
    iteration: IterationContext,
    specialization: GeomPoseSpecialization,
    frame_poses: NodeValues[Pose],
    frame_velocities: NodeValues[Twist],
) -> list[Value]:
    """Velocity of the current geom along world axes, and the distance [m] that it travels in a step at most.

    The velocity is linear at the geom's origin (3), then angular (3).
    """
    if specialization.is_on_world:
        return [0.0] * GEOM_MOTION_SIZE
    rotation, twist = frame_poses[frame_ref("frame ")].rotation, frame_velocities[frame_ref("frame ")]
    at_geom = add(twist.linear, cross(twist.angular, iteration.constants("position")))
    linear, angular = rotate(rotation, at_geom), rotate(rotation, twist.angular)
    speed = norm(linear) + iteration.constant("turning radius") * norm(angular)
    return [*linear, *angular, iteration.read("dt") * speed]
