"""Fluid forces (MuJoCo's inertia-box and ellipsoid models) and their velocity derivatives for implicit integration."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kinema import ir
from kinema.ir import IterationContext, LoopIteration, Value
from kinema.model import FluidInfo, Model

from ..arrays import ElementKind
from ..extensions import look_up
from ..rigid.aba import ArticulatedInertia, apply_inertia, transform_inertia_to_parent
from ..rigid.crba import joint_space_matrix
from ..rigid.free_bodies import free_bodies
from ..rigid.kinematics import Pose, Twist
from ..rigid.rnea import Wrench, power
from ..rigid.wrench_derivatives import (
    ZERO_DERIVATIVE,
    ZERO_MATRIX,
    WrenchDerivative,
    antisymmetric_part,
    apply_derivative,
    symmetric_part,
    transform_derivative,
)
from ..settings import Integrator
from ..tree.kinematic_tree import FrameNode, frame_ref
from ..tree.node_tables import NodeIteration
from ..tree.node_values import NodeValues
from ..tree.sparse_matrix import JointSpaceMatrix
from ..tree.trace_context import TraceContext
from ..vector_math import (
    IDENTITY,
    ZERO,
    Matrix,
    Vector,
    add,
    cross,
    diagonal_matrix,
    dot,
    matmul,
    matrix_add,
    matrix_scale,
    outer,
    rotate,
    rotate_inverse,
    scale,
    skew,
    sub,
)
from .tendon_armature import HasMotionState

# ---------------------------------------------------------------------------------------------------- inertia-box model


def box_constants(sides: Sequence[float]) -> dict[str, list[float]]:
    """Drag constants of a box with given side lengths [m]: viscous of an equivalent sphere, quadratic per axis."""
    diameter = sum(sides) / 3.0
    fourth_powers = [x**4 for x in sides]
    return {
        "viscous": [math.pi * diameter**3, 3.0 * math.pi * diameter],
        "spin": [sides[i] * (fourth_powers[i - 2] + fourth_powers[i - 1]) / 64.0 for i in range(3)],
        "faces": [0.5 * sides[i - 2] * sides[i - 1] for i in range(3)],
    }


def box_force(iteration: IterationContext, density: Value, viscosity: Value, velocity: Twist) -> Wrench:
    """Fluid wrench on a box at its centre: viscous and quadratic drag.

    Wrench and `velocity` (relative to the fluid) are in box axes.
    """
    torque, force = (
        [-(viscosity * viscous + density * (c * ir.absolute(x))) * x for c, x in zip(quadratic, v, strict=True)]
        for viscous, quadratic, v in _box_drag_terms(iteration, velocity)
    )
    return Wrench(torque, force)


def box_force_derivative(
    iteration: IterationContext, density: Value, viscosity: Value, velocity: Twist
) -> WrenchDerivative:
    """Derivative of the fluid wrench on a box by its velocity relative to the fluid; diagonal."""
    angular, linear = (
        [-(viscosity * viscous + 2.0 * density * (c * ir.absolute(x))) for c, x in zip(quadratic, v, strict=True)]
        for viscous, quadratic, v in _box_drag_terms(iteration, velocity)
    )
    return WrenchDerivative(diagonal_matrix(angular), ZERO_MATRIX, ZERO_MATRIX, diagonal_matrix(linear))


def _box_drag_terms(
    iteration: IterationContext, velocity: Twist
) -> list[tuple[Value, Sequence[Value], Sequence[Value]]]:
    """Viscous coefficient, quadratic coefficients and velocity components of the angular and the linear motion."""
    angular, linear = iteration.constants("viscous")
    return [
        (angular, iteration.constants("spin"), velocity.angular),
        (linear, iteration.constants("faces"), velocity.linear),
    ]


# ------------------------------------------------------------------------------------------------------ ellipsoid model
#
# Added mass, viscous and quadratic drag, Magnus and Kutta lift. With v and w the velocity relative to the fluid in the
# ellipsoid's axes and Q the diagonal matrix of (r_j r_k)^2, the projected area in flow direction is
# A = pi sqrt(v^T Q^2 v / v^T Q v), and Q v is normal to the plane of the silhouette.

MIN_DIVISOR = 1e-15
"""Smallest divisor, as in MuJoCo (mjMINVAL)."""


def ellipsoid_constants(radii: Sequence[float], coefficients: Sequence[float]) -> dict[str, list[float]]:
    """Constant drag and lift factors of an ellipsoid from semi-axes [m] and MuJoCo's five fluid coefficients.

    The coefficients are blunt drag, slender drag, angular drag, Kutta lift and Magnus lift. Returns named
    constants of the loop iteration: squared axis products, viscous, angular drag, area and lift factors.
    """
    blunt, slender, angular, kutta, magnus = coefficients
    low, middle, high = sorted(radii)
    angular_areas = [8.0 / 15.0 * math.pi * radii[i] * max(radii[i - 2], radii[i - 1]) ** 4 for i in range(3)]
    max_angular_area = 8.0 / 15.0 * math.pi * middle * high**4
    diameter = 2.0 / 3.0 * sum(radii)
    return {
        "squares": [(radii[i - 2] * radii[i - 1]) ** 2 for i in range(3)],
        "viscous": [math.pi * diameter**3, 3.0 * math.pi * diameter],
        "spin": [angular * x + slender * (max_angular_area - x) for x in angular_areas],
        "surfaces": [(blunt - slender) * math.pi, slender * math.pi * high * middle],
        "lift": [kutta * math.pi, magnus * 4.0 / 3.0 * math.pi * low * middle * high],
    }


@dataclass(frozen=True, slots=True)
class _RelativeFlow:
    """Constants of an ellipsoid, its velocity relative to the fluid, and products of both, in its axes."""

    angular_velocity: Vector
    linear_velocity: Vector
    squared_areas: Vector
    viscous_coefficients: Sequence[Value]
    angular_drag_coefficients: Vector
    drag_areas: Sequence[Value]
    lift_coefficients: Sequence[Value]
    added_mass: Vector
    added_inertia: Vector
    """Added mass [kg] and added inertia [kg m2] of the fluid per axis."""
    q_velocity: Vector
    """Q v."""
    q2_velocity: Vector
    """Q^2 v."""
    velocity_q_velocity: Value
    """v^T Q v."""
    velocity_q2_velocity: Value
    """v^T Q^2 v."""
    speed: Value
    angular_drag: Vector
    """Angular drag coefficient times angular velocity about each axis."""
    angular_drag_norm: Value
    """Norm of `angular_drag`."""


def _relative_flow(iteration: IterationContext, density: Value, velocity: Twist) -> _RelativeFlow:
    """Intermediate quantities of the flow around an ellipsoid that forces and derivatives share.

    Q v, Q^2 v, v^T Q v, speed and angular drag moment, with the constants of the current ellipsoid; Q is the diagonal
    matrix of squared semi-axis products. `velocity` is relative to the fluid, in the ellipsoid's axes.
    """
    angular, linear, squares = velocity.angular, velocity.linear, iteration.constants("squares")
    q_velocity = [q * x for q, x in zip(squares, linear, strict=True)]
    q2_velocity = [q * x for q, x in zip(squares, q_velocity, strict=True)]
    angular_drag = iteration.constants("spin")
    drag_moment = [k * x for k, x in zip(angular_drag, angular, strict=True)]
    added = ([density * x for x in iteration.constants(name)] for name in ("added_mass", "added_inertia"))
    return _RelativeFlow(
        angular,
        linear,
        squares,
        iteration.constants("viscous"),
        angular_drag,
        iteration.constants("surfaces"),
        iteration.constants("lift"),
        *added,
        q_velocity=q_velocity,
        q2_velocity=q2_velocity,
        velocity_q_velocity=dot(linear, q_velocity),
        velocity_q2_velocity=dot(q_velocity, q_velocity),
        speed=ir.sqrt(dot(linear, linear)),
        angular_drag=drag_moment,
        angular_drag_norm=ir.sqrt(dot(drag_moment, drag_moment)),
    )


def ellipsoid_force(iteration: IterationContext, density: Value, viscosity: Value, velocity: Twist) -> Wrench:
    """Fluid wrench on an ellipsoid at its centre, in its axes, from its velocity relative to the fluid.

    Added mass, viscous and quadratic drag, Magnus and Kutta lift.
    """
    flow = _relative_flow(iteration, density, velocity)
    added_momentum, added_angular_momentum = (
        _elementwise_product(x, y)
        for x, y in ((flow.added_mass, flow.linear_velocity), (flow.added_inertia, flow.angular_velocity))
    )
    added = add(cross(added_momentum, flow.linear_velocity), cross(added_angular_momentum, flow.angular_velocity))
    viscous_angular, viscous_linear = flow.viscous_coefficients
    torque = sub(added, scale(viscosity * viscous_angular + density * flow.angular_drag_norm, flow.angular_velocity))
    area_root = ir.sqrt(flow.velocity_q2_velocity / ir.maximum(flow.velocity_q_velocity, MIN_DIVISOR))
    kutta, magnus = flow.lift_coefficients
    kutta_factor = (
        density
        * kutta
        * area_root
        * flow.velocity_q_velocity
        / ir.maximum(flow.speed * flow.velocity_q2_velocity, MIN_DIVISOR)
    )
    lift = add(
        scale(density * magnus, cross(flow.angular_velocity, flow.linear_velocity)),
        scale(kutta_factor, cross(cross(flow.q_velocity, flow.linear_velocity), flow.linear_velocity)),
    )
    drag = viscosity * viscous_linear + density * flow.speed * (flow.drag_areas[0] * area_root + flow.drag_areas[1])
    return Wrench(torque, add(cross(added_momentum, flow.angular_velocity), lift, scale(-drag, flow.linear_velocity)))


def ellipsoid_force_derivative(
    iteration: IterationContext, density: Value, viscosity: Value, velocity: Twist
) -> WrenchDerivative:
    """Derivative of the fluid wrench on an ellipsoid by its velocity relative to the fluid."""
    flow = _relative_flow(iteration, density, velocity)
    magnus = density * flow.lift_coefficients[1]
    added_momentum, added_angular_momentum = (
        _elementwise_product(x, y)
        for x, y in ((flow.added_mass, flow.linear_velocity), (flow.added_inertia, flow.angular_velocity))
    )
    return WrenchDerivative(
        matrix_add(
            matrix_add(
                skew(added_angular_momentum), _cross_product_derivative(flow.angular_velocity, flow.added_inertia)
            ),
            _angular_drag_derivative(flow, density, viscosity * flow.viscous_coefficients[0]),
        ),
        matrix_add(skew(added_momentum), _cross_product_derivative(flow.linear_velocity, flow.added_mass)),
        matrix_add(skew(added_momentum), skew(scale(-magnus, flow.linear_velocity))),
        matrix_add(
            matrix_add(
                _cross_product_derivative(flow.angular_velocity, flow.added_mass),
                skew(scale(magnus, flow.angular_velocity)),
            ),
            matrix_add(
                _kutta_lift_derivative(flow, density),
                _linear_drag_derivative(flow, density, viscosity * flow.viscous_coefficients[1]),
            ),
        ),
    )


def _elementwise_product(a: Vector, b: Vector) -> list[Value]:
    return [x * y for x, y in zip(a, b, strict=True)]


def _cross_product_derivative(a: Vector, factors: Vector) -> Matrix:
    """Derivative of (factors * b) x a by b, with elementwise factors."""
    return matmul(skew(scale(-1.0, a)), diagonal_matrix(factors))


def _angular_drag_derivative(flow: _RelativeFlow, density: Value, viscous_coefficient: Value) -> Matrix:
    """Derivative (3, 3) of an ellipsoid's viscous and quadratic drag torque by angular velocity."""
    factor = density / ir.maximum(flow.angular_drag_norm, MIN_DIVISOR)
    diagonal = -(viscous_coefficient + factor * (flow.angular_drag_norm * flow.angular_drag_norm))
    return matrix_add(
        diagonal_matrix([diagonal] * 3),
        outer(
            flow.angular_velocity,
            scale(-factor, _elementwise_product(flow.angular_drag_coefficients, flow.angular_drag)),
        ),
    )


def _linear_drag_derivative(flow: _RelativeFlow, density: Value, viscous_coefficient: Value) -> Matrix:
    """Derivative (3, 3) of an ellipsoid's viscous and quadratic drag force by linear velocity."""
    area_root = ir.sqrt(flow.velocity_q2_velocity / ir.maximum(flow.velocity_q_velocity, MIN_DIVISOR))
    drag_area = density * (flow.drag_areas[0] * area_root + flow.drag_areas[1])
    factor = drag_area / ir.maximum(flow.speed, MIN_DIVISOR)
    divisor = ir.sqrt(flow.velocity_q_velocity) * flow.velocity_q_velocity * ir.sqrt(flow.velocity_q2_velocity)
    area_gradient = scale(
        1.0 / ir.maximum(divisor, MIN_DIVISOR),
        sub(scale(flow.velocity_q_velocity, flow.q2_velocity), scale(flow.velocity_q2_velocity, flow.q_velocity)),
    )
    gradient = add(scale(factor, flow.linear_velocity), scale(density * flow.speed * flow.drag_areas[0], area_gradient))
    return matrix_add(
        diagonal_matrix([-(viscous_coefficient + drag_area * flow.speed)] * 3),
        outer(scale(-1.0, flow.linear_velocity), gradient),
    )


def _kutta_lift_derivative(flow: _RelativeFlow, density: Value) -> Matrix:
    """Derivative (3, 3) of an ellipsoid's Kutta lift, a factor times (v^T Q v) v - (v^T v) Q v, by velocity v."""
    squared_speed = flow.speed * flow.speed
    factor = (
        density
        * flow.lift_coefficients[0]
        / ir.maximum(ir.sqrt(flow.velocity_q2_velocity) * ir.sqrt(flow.velocity_q_velocity) * flow.speed, MIN_DIVISOR)
    )
    lift_direction = sub(scale(flow.velocity_q_velocity, flow.linear_velocity), scale(squared_speed, flow.q_velocity))
    factor_gradient = sub(
        sub(
            flow.q_velocity,
            scale(flow.velocity_q_velocity / ir.maximum(flow.velocity_q2_velocity, MIN_DIVISOR), flow.q2_velocity),
        ),
        scale(flow.velocity_q_velocity / ir.maximum(squared_speed, MIN_DIVISOR), flow.linear_velocity),
    )
    direction_derivative = matrix_add(
        matrix_scale(
            2.0,
            matrix_add(
                outer(flow.linear_velocity, flow.q_velocity), outer(scale(-1.0, flow.q_velocity), flow.linear_velocity)
            ),
        ),
        diagonal_matrix([flow.velocity_q_velocity - squared_speed * q for q in flow.squared_areas]),
    )
    return matrix_scale(
        factor,
        matrix_add(
            outer(lift_direction, factor_gradient), matrix_scale(flow.velocity_q_velocity, direction_derivative)
        ),
    )


# --------------------------------------------------------------------------------------------- fluid wrenches on frames

R = TypeVar("R")
FluidForceLaw = Callable[[IterationContext, Value, Value, Twist], Wrench]
FluidDerivativeLaw = Callable[[IterationContext, Value, Value, Twist], WrenchDerivative]


@dataclass(frozen=True, slots=True)
class FluidLaw:
    """Fluid force law: wrench on a body, its velocity derivative, and the constants of a row of `FluidInfo`."""

    force: FluidForceLaw
    """Wrench from the constants of the body, density, viscosity and velocity relative to the fluid, in body axes."""
    derivative: FluidDerivativeLaw
    """Derivative of the wrench by the velocity, from the same arguments."""
    constants: Callable[[FluidInfo, int], dict[str, list[float]]]
    """Constants that the two functions read, from a row of the table."""
    n_operations: int = 1_200
    """Approximate number of operations, for the choice between unrolled code and loops."""
    is_derivative_symmetric: bool = False
    """Whether the derivative is a symmetric matrix for all velocities."""
    is_at_com: bool = False
    """Whether the wrench acts at the centre of mass of the link, also where that differs between environments."""


def _box_row_constants(info: FluidInfo, row: int) -> dict[str, list[float]]:
    return box_constants(info.size[row].tolist())


def _ellipsoid_row_constants(info: FluidInfo, row: int) -> dict[str, list[float]]:
    added = {name: getattr(info, name)[row].tolist() for name in ("added_mass", "added_inertia")}
    return ellipsoid_constants(info.size[row].tolist(), info.coefficients[row].tolist()) | added


FLUID_LAWS: dict[str, FluidLaw] = {
    "box": FluidLaw(
        box_force, box_force_derivative, _box_row_constants, 400, is_derivative_symmetric=True, is_at_com=True
    ),
    "ellipsoid": FluidLaw(ellipsoid_force, ellipsoid_force_derivative, _ellipsoid_row_constants),
}
"""Fluid force laws by name (`FluidInfo.kinds`)."""


def fluid_law(kind: str) -> FluidLaw:
    """Fluid force law by name."""
    return look_up(FLUID_LAWS, kind, "fluid force law (`FLUID_LAWS`)")


FRAME_REF = frame_ref("frame ")


def has_fluid(model: Model) -> bool:
    """Whether fluid forces act on any link or geom."""
    return bool(model.fluid.kinds)


def add_fluid_wrenches(step: HasMotionState, wrenches: NodeValues[Wrench]) -> None:
    """Trace a loop that adds the fluid forces on links and geoms (MuJoCo's box and ellipsoid models) to frame wrenches.

    Wrenches are about the frame origin in frame axes. Nothing is traced for a model without fluid.
    """
    ctx = step.ctx
    if not has_fluid(ctx.model):
        return
    poses, velocities = step.world_poses, step.velocities

    def body(iteration: IterationContext) -> None:
        rotation, center, relative_velocity = _velocity_in_fluid(ctx, iteration, poses, velocities)
        wrench = fluid_law(iteration.specialization[0]).force(
            iteration, *_density_and_viscosity(ctx), relative_velocity
        )  # type: ignore[index]
        force = rotate(rotation, wrench.force)
        wrenches.add(FRAME_REF, Wrench(add(rotate(rotation, wrench.torque), cross(center, force)), force))

    ctx.for_each("fluid forces", _fluid_iterations(ctx), body)


def _density_and_viscosity(ctx: TraceContext) -> tuple[Value, Value]:
    return ctx.read("density"), ctx.read("viscosity")


def _velocity_in_fluid(
    ctx: TraceContext, iteration: IterationContext, world_poses: NodeValues[Pose], velocities: NodeValues[Twist]
) -> tuple[Matrix, Vector, Twist]:
    """Rotation and centre of a body in its frame, and its velocity relative to the fluid in its own axes."""
    flat, center = iteration.constants("rot"), iteration.constants("pos")
    if iteration.has_array("com_shift"):
        flat_link = iteration.constants("link rot")
        center = add(
            center, rotate([flat_link[3 * i : 3 * i + 3] for i in range(3)], iteration.read_array("com_shift", 3))
        )
    rotation, frame = [flat[3 * i : 3 * i + 3] for i in range(3)], velocities[FRAME_REF]
    wind = rotate_inverse(world_poses[FRAME_REF].rotation, [ctx.read("wind", i) for i in range(3)])
    linear = sub(add(frame.linear, cross(frame.angular, center)), wind)
    return rotation, center, Twist(rotate_inverse(rotation, frame.angular), rotate_inverse(rotation, linear))


def _fluid_iterations(ctx: TraceContext, only: set[int] | None = None) -> list[NodeIteration]:
    """Loop iterations over all bodies with fluid forces (inertia boxes of links, ellipsoids of geoms).

    Only bodies fixed to frames of the context, or to the frames in `only`. Iterations have the pose in the frame and
    the constants of the fluid model.
    """
    info, links = ctx.model.fluid, ctx.model.links
    frames = {node.index for node in ctx.nodes} if only is None else only
    rows: list[NodeIteration] = []
    for i, kind in enumerate(info.kinds):
        frame, link = int(info.frame_idx[i]), int(info.link_idx[i])
        if frame not in frames:
            continue
        law, offsets = fluid_law(kind), {}
        constants = {"pos": info.pos[i].tolist(), "rot": info.rot[i].ravel().tolist(), **law.constants(info, i)}
        if law.is_at_com and "com_shift" in ctx.settings.per_env:
            offsets["com_shift"] = ctx.element_arrays(ElementKind.LINK, link)["com_shift"]
            constants["link rot"] = links.rot[link].ravel().tolist()
        rows.append(ctx.node_iteration((kind, tuple(offsets)), {"frame ": frame_ref(frame)}, offsets, constants))
    return rows


# ------------------------------------------------------------------------------------------------- implicit integration


def subtract_drag_derivatives(step: HasMotionState, implicit_matrix: JointSpaceMatrix) -> None:
    """Trace loops that subtract dt times the symmetric fluid force derivatives from the matrix of an implicit step.

    The derivatives are accumulated over subtrees like composite inertias and projected to joint space, J^T K J.
    """
    ctx, local_poses = step.ctx, step.local_poses
    zero = symmetric_part(ZERO_DERIVATIVE)
    derivatives = _sum_drag_derivatives(step, "fluid derivatives", zero, symmetric_part, lambda: _fluid_iterations(ctx))

    def to_parent(node: FrameNode, total: ArticulatedInertia) -> ArticulatedInertia:
        return transform_inertia_to_parent(total, local_poses[node.ref])

    composite = ctx.backward_pass("composite fluid derivatives", lambda node: derivatives[node.ref], to_parent)
    drag = joint_space_matrix(ctx, "drag", local_poses, lambda node, motion: apply_inertia(composite[node.ref], motion))
    rows = [
        LoopIteration(
            "entry",
            {
                "to": implicit_matrix.entry(dof, ancestor),
                "of": drag.entry(dof, ancestor),
                "dt": ctx.array_offsets["dt"],
            },
        )
        for dof, columns in drag.sparsity.items()
        for ancestor in columns
    ]

    def subtract(iteration: IterationContext) -> None:
        iteration.write("to", [iteration.read("to") - iteration.read("dt") * iteration.read("of")])

    ctx.for_each("subtract fluid derivatives", rows, subtract)


def drag_derivatives(step: HasMotionState) -> NodeValues[WrenchDerivative] | None:
    """Trace the derivatives of the fluid wrenches on frames by their twists; None for a model without fluid."""
    if not has_fluid(step.ctx.model):
        return None
    return _sum_drag_derivatives(
        step, "fluid derivatives", ZERO_DERIVATIVE, lambda derivative: derivative, lambda: _fluid_iterations(step.ctx)
    )


def free_body_drag_derivatives(
    step: HasMotionState,
) -> Callable[[FrameNode, Sequence[Vector]], list[list[Value]]] | None:
    """Antisymmetric part of the fluid force derivatives of free single bodies, which are solved separately.

    Returns a function from the ball frame of a body and the axes of its slides to a 6x6 matrix; None if no such body
    has a fluid force with such a part (box derivatives are symmetric) or the integrator is not implicit.
    """
    ctx, info = step.ctx, step.ctx.model.fluid
    rows = zip(info.kinds, info.frame_idx.tolist(), strict=True)
    frames = {frame for kind, frame in rows if not fluid_law(kind).is_derivative_symmetric}
    if ctx.settings.integrator is not Integrator.IMPLICITFAST or not frames:
        return None
    free_frames = {ball.index for _, ball in free_bodies(ctx.nodes)}
    if free_frames.isdisjoint(frames):
        return None
    derivatives = _sum_drag_derivatives(
        step,
        "antisymmetric fluid derivatives",
        ZERO_DERIVATIVE,
        antisymmetric_part,
        lambda: _fluid_iterations(ctx, free_frames),
    )

    def entries(ball: FrameNode, axes: Sequence[Vector]) -> list[list[Value]]:
        motions = [Twist(ZERO, axis) for axis in axes] + [Twist(unit, ZERO) for unit in IDENTITY]
        wrenches = [apply_derivative(derivatives[ball.ref], motion) for motion in motions]
        return [[power(motion, wrench) for wrench in wrenches] for motion in motions]

    return entries


def _sum_drag_derivatives(
    step: HasMotionState,
    name: str,
    zero: R,
    project: Callable[[WrenchDerivative], R],
    make_rows: Callable[[], list[NodeIteration]],
) -> NodeValues[R]:
    """Trace the sum of the fluid force derivatives on each frame, in frame axes about the frame origin.

    `project` selects a part of each derivative (symmetric or antisymmetric) before summation; `zero` is its zero value.
    """
    ctx, poses, velocities = step.ctx, step.world_poses, step.velocities
    total: NodeValues[R] = ctx.new_values(name)
    ctx.for_each_frame(f"clear {name}", lambda node: total.put(node.ref, zero))

    def body(iteration: IterationContext) -> None:
        rotation, center, relative_velocity = _velocity_in_fluid(ctx, iteration, poses, velocities)
        derivative = fluid_law(iteration.specialization[0]).derivative(
            iteration, *_density_and_viscosity(ctx), relative_velocity
        )  # type: ignore[index]
        total.add(FRAME_REF, project(transform_derivative(derivative, rotation, center)))

    ctx.for_each(name, make_rows(), body)
    return total
