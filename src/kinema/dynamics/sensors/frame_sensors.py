"""Sensors of frames: position, orientation, velocity, IMU accelerations, camera projection, point-in-site tests."""

from __future__ import annotations

from collections.abc import Callable

from kinema import ir
from kinema.ir import IterationContext, Value
from kinema.model import PrimitiveJointType

from ..pipeline import compute
from ..queries.body_quantities import frame_twist
from ..rigid.kinematics import Pose, Twist
from ..rigid.link_dynamics import acceleration_at_point
from ..step import StepData
from ..tree.kinematic_tree import FrameNode
from ..tree.node_values import NodeValues
from ..tree.trace_context import TraceContext
from ..vector_math import Vector, dot, matrix_to_quaternion, quaternion_multiply, rotate_inverse, scale, sub
from .ray_intersection import contains_point
from .sensor_outputs import (
    OBJECT_FRAME,
    REFERENCE_FRAME,
    SensorOutputs,
    SensorOutputSpecialization,
    attachment_pose,
    write_sensor_output,
)

AXIS_INDEX = {"framexaxis": 0, "frameyaxis": 1, "framezaxis": 2}
POSITION_KINDS = ("framepos", *AXIS_INDEX, "height", "camprojection")
VELOCITY_KINDS = ("framelinvel", "frameangvel", "speed of height")
ACCELERATION_KINDS = ("framelinacc", "frameangacc")
ORIENTATION_KINDS = ("framequat",)
"""Kinds of outputs of each family besides those of `SENSOR_KINDS`, by MuJoCo's sensor types where it has the sensor."""


def _rotation_column(pose: Pose, axis: int) -> Vector:
    return [row[axis] for row in pose.rotation]


def _half_angle_cos_sin(angle: Value) -> tuple[Value, Value]:
    return ir.cos(0.5 * angle), ir.sin(0.5 * angle)


def frame_quaternions(ctx: TraceContext) -> NodeValues[Vector]:
    """World orientation of each frame as a quaternion (w, x, y, z), continuous in the joint angles.

    Composed joint by joint in a forward pass instead of converted from rotation matrices, so that it does not jump at
    half turns.
    """

    def body(node: FrameNode, parent: Vector) -> Vector:
        rest = quaternion_multiply(parent, matrix_to_quaternion(node.rotation))
        q = ctx.read_node("qpos", node)
        if node.joint_type == PrimitiveJointType.SLIDE:
            return rest
        if node.joint_type == PrimitiveJointType.BALL:
            joint_quaternion = [q[0], *scale(-1.0, q[1:])] if node.inverted else q
            return quaternion_multiply(rest, joint_quaternion)
        cosine, sine = _half_angle_cos_sin(q[0] - node.reference)
        return quaternion_multiply(rest, [cosine, *scale(sine, node.axis)])

    def kinematic_body(_node: FrameNode, _world: Vector) -> Vector:
        return ctx.iteration.read_array("kinematic_pose", 7)[3:]

    return ctx.forward_pass("frame quaternions", (1.0, 0.0, 0.0, 0.0), body, kinematic_body)


def measure_positions(data: StepData, outputs: SensorOutputs, output_indices: list[int]) -> None:
    """Trace position-type sensors: `framepos`, frame axes, `magnetometer`, `height` (world z) and `camprojection`.

    `framepos` [m] and axes are relative to the reference frame if the output has one, else in world axes. The
    magnetometer is the magnetic field [T] in mounting axes. The camera projection is the pixel position of the object
    in the image of the reference camera.
    """
    compute(data, "world_poses")
    ctx, poses = data.ctx, data.world_poses
    field = {"field": ctx.model.sensors.magnetic_field.tolist()}

    def body(iteration: IterationContext) -> None:
        specialization = iteration.specialization
        assert isinstance(specialization, SensorOutputSpecialization)
        mounting = attachment_pose(iteration, poses, OBJECT_FRAME)
        if specialization.name == "magnetometer":
            write_sensor_output(iteration, rotate_inverse(mounting.rotation, iteration.constants("field")))
        elif specialization.name == "height":
            write_sensor_output(iteration, [mounting.position[2]])
        elif specialization.name == "camprojection":
            write_sensor_output(
                iteration,
                _project_to_pixels(
                    iteration, to_local_point(attachment_pose(iteration, poses, REFERENCE_FRAME), mounting.position)
                ),
            )
        elif specialization.name == "framepos":
            write_sensor_output(
                iteration,
                to_local_point(attachment_pose(iteration, poses, REFERENCE_FRAME), mounting.position)
                if specialization.has_reference
                else mounting.position,
            )
        else:
            axis = _rotation_column(mounting, AXIS_INDEX[specialization.name])
            write_sensor_output(
                iteration,
                rotate_inverse(attachment_pose(iteration, poses, REFERENCE_FRAME).rotation, axis)
                if specialization.has_reference
                else axis,
            )

    ctx.for_each("position sensors", [outputs.frame_iteration(i, constants=field) for i in output_indices], body)


def to_local_point(pose: Pose, point: Vector) -> Vector:
    """Coordinates in the frame `pose` of a point given in world coordinates."""
    return rotate_inverse(pose.rotation, sub(point, pose.position))


def _project_to_pixels(iteration: IterationContext, camera_point: Vector) -> Vector:
    """Pixel coordinates (x right, y down) of a point in camera coordinates; the camera looks along its -z axis.

    The parameters are focal lengths and principal point offsets [pixels], image width and height.
    """
    focal_x, focal_y, shift_x, shift_y, width, height = iteration.constants("params")
    x = 0.5 * width + (shift_x - focal_x * (camera_point[0] / camera_point[2]))
    y = 0.5 * height + (shift_y + focal_y * (camera_point[1] / camera_point[2]))
    return [x, y]


def measure_orientations(data: StepData, outputs: SensorOutputs, output_indices: list[int]) -> None:
    """Trace the sensor `framequat`: unit quaternion (w, x, y, z) of the object, in the reference frame if any."""
    ctx, frame_quats = data.ctx, frame_quaternions(data.ctx)

    def mounting_quaternion(iteration: IterationContext, prefix: str) -> Vector:
        flat = iteration.constants(f"{prefix} rot")
        mounting = matrix_to_quaternion([flat[3 * i : 3 * i + 3] for i in range(3)])
        return quaternion_multiply(frame_quats[OBJECT_FRAME if prefix == "object" else REFERENCE_FRAME], mounting)

    def body(iteration: IterationContext) -> None:
        quaternion = mounting_quaternion(iteration, "object")
        specialization = iteration.specialization
        assert isinstance(specialization, SensorOutputSpecialization)
        if specialization.has_reference:
            w, *xyz = mounting_quaternion(iteration, "reference")
            quaternion = quaternion_multiply([w, *scale(-1.0, xyz)], quaternion)
        write_sensor_output(iteration, scale(1.0 / _quaternion_norm(quaternion), quaternion))

    ctx.for_each("orientation sensors", [outputs.frame_iteration(i) for i in output_indices], body)


def _quaternion_norm(q: Vector) -> Value:
    return ir.sqrt(dot(q, q))


def measure_velocities(data: StepData, outputs: SensorOutputs, output_indices: list[int]) -> None:
    """Trace velocity sensors: `gyro`, `velocimeter` (mounting axes), `framelinvel`, `frameangvel`, vertical velocity.

    Frame velocities [m/s, rad/s] are in world axes, or relative to the moving reference frame and in its axes.
    """
    compute(data, "world_poses", "velocities")
    ctx, poses = data.ctx, data.world_poses

    def body(iteration: IterationContext) -> None:
        specialization = iteration.specialization
        assert isinstance(specialization, SensorOutputSpecialization)
        mounting = attachment_pose(iteration, poses, OBJECT_FRAME)
        twist = frame_twist(data, OBJECT_FRAME, mounting.position)
        if specialization.has_reference:
            reference = attachment_pose(iteration, poses, REFERENCE_FRAME)
            reference_twist = frame_twist(data, REFERENCE_FRAME, mounting.position)
            twist = _twist_in_frame(
                reference, Twist(*map(sub, _twist_components(twist), _twist_components(reference_twist)))
            )
        write_sensor_output(iteration, MOTION_OUTPUTS[specialization.name](mounting, twist))

    ctx.for_each("velocity sensors", [outputs.frame_iteration(i) for i in output_indices], body)


def _twist_components(twist: Twist) -> tuple[Vector, Vector]:
    return twist.angular, twist.linear


def _twist_in_frame(pose: Pose, twist: Twist) -> Twist:
    return Twist(rotate_inverse(pose.rotation, twist.angular), rotate_inverse(pose.rotation, twist.linear))


MOTION_OUTPUTS: dict[str, Callable[[Pose, Twist], Vector]] = {
    "gyro": lambda at, motion: rotate_inverse(at.rotation, motion.angular),
    "velocimeter": lambda at, motion: rotate_inverse(at.rotation, motion.linear),
    "framelinvel": lambda at, motion: motion.linear,
    "frameangvel": lambda at, motion: motion.angular,
    "speed of height": lambda at, motion: [motion.linear[2]],
    "accelerometer": lambda at, motion: rotate_inverse(at.rotation, motion.linear),
    "framelinacc": lambda at, motion: motion.linear,
    "frameangacc": lambda at, motion: motion.angular,
}
"""Kind -> values from the mounting pose and its twist or proper acceleration in world axes."""


def measure_accelerations(data: StepData, outputs: SensorOutputs, output_indices: list[int]) -> None:
    """Trace acceleration sensors: `accelerometer` (proper acceleration, mounting axes), `framelinacc`, `frameangacc`.

    Linear accelerations are proper accelerations [m/s2], -gravity at rest. Frame accelerations are in world axes.
    """
    compute(data, "world_poses", "proper_accelerations")
    ctx, poses, accelerations = data.ctx, data.world_poses, data.proper_accelerations

    def body(iteration: IterationContext) -> None:
        specialization = iteration.specialization
        assert isinstance(specialization, SensorOutputSpecialization)
        mounting = attachment_pose(iteration, poses, OBJECT_FRAME)
        write_sensor_output(
            iteration,
            MOTION_OUTPUTS[specialization.name](
                mounting, acceleration_at_point(poses[OBJECT_FRAME], accelerations[OBJECT_FRAME], mounting.position)
            ),
        )

    ctx.for_each("acceleration sensors", [outputs.frame_iteration(i) for i in output_indices], body)


def measure_inside_site(data: StepData, outputs: SensorOutputs, output_indices: list[int]) -> None:
    """Trace the sensor `insidesite`: 1 if the object's position is inside the volume of the reference site, else 0."""
    compute(data, "world_poses")
    poses = data.world_poses

    def body(iteration: IterationContext) -> None:
        specialization = iteration.specialization
        assert isinstance(specialization, SensorOutputSpecialization)
        point = to_local_point(
            attachment_pose(iteration, poses, REFERENCE_FRAME), attachment_pose(iteration, poses, OBJECT_FRAME).position
        )
        write_sensor_output(
            iteration, [contains_point(str(specialization.options[0]), point, iteration.constants("params"))]
        )

    data.ctx.for_each("inside-site sensors", [outputs.frame_iteration(i) for i in output_indices], body)
