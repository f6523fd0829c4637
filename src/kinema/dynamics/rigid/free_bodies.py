"""Implicit integration of gyroscopic forces of free-floating single bodies: a dense 6x6 solve per body.

A freely tumbling body gains energy if its gyroscopic forces are those at the start of the step. For a single body on a
free joint (three slides and a ball) the matrix with the derivatives of these forces is a separate nonsymmetric 6x6
block, which is solved directly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from kinema.ir import IterationContext, Value
from kinema.model import PrimitiveJointType

from ..tree.kinematic_tree import WORLD, FrameNode, frame_ref
from ..tree.node_tables import NodeIteration
from ..tree.node_values import NodeValues
from ..tree.sparse_matrix import JointSpaceMatrix
from ..tree.trace_context import TraceContext
from ..vector_math import IDENTITY, Vector, add, cross, dot, rotate, rotate_inverse
from .kinematics import Pose


def implicit_free_body_accelerations(
    ctx: TraceContext,
    implicit_matrix: JointSpaceMatrix,
    local_poses: NodeValues[Pose],
    force: NodeValues[list[Value]],
    coupled_dofs: Collection[int] = (),
    nonsymmetric_derivatives: Callable[[FrameNode, Sequence[Vector]], list[list[Value]]] | None = None,
) -> NodeValues[list[Value]] | None:
    """Trace accelerations of free single bodies, implicit in their gyroscopic forces; None without such bodies.

    Solves a dense 6x6 system per body: its block of `implicit_matrix` plus dt times the derivative of its bias forces.

    Args:
        ctx: tracing context.
        implicit_matrix: matrix of the implicit step, from which the 6x6 blocks are read.
        local_poses: poses of frames in their parents.
        force: joint forces, the right-hand side.
        coupled_dofs: dofs coupled with other bodies; such bodies are left out.
        nonsymmetric_derivatives: further 6x6 derivatives of forces by velocity for a body, from the axes of its slides.
    """
    accelerations: NodeValues[list[Value]] = ctx.new_values("free-body accelerations")
    rows = [
        _free_body_iteration(ctx, implicit_matrix, slides, ball)
        for slides, ball in free_bodies(ctx.nodes, coupled_dofs)
    ]

    def body(iteration: IterationContext) -> None:
        ball = ctx.frame_of_iteration(iteration)
        matrix = [[iteration.read(f"entry {max(i, j)} {min(i, j)}") for j in range(6)] for i in range(6)]
        axes = [rotate_inverse(local_poses[ball.ref].rotation, iteration.constants(f"axis {k}")) for k in range(3)]
        derivatives = _bias_force_derivatives(ball, axes, ctx.read_node("vel", ball))
        for row, terms in zip(matrix, derivatives, strict=True):
            row[3:] = [a + ctx.dt * b for a, b in zip(row[3:], terms, strict=True)]
        for row, extra in zip(
            matrix,
            [] if nonsymmetric_derivatives is None else nonsymmetric_derivatives(ball, axes),
            strict=nonsymmetric_derivatives is not None,
        ):
            row[:] = [a - ctx.dt * b for a, b in zip(row, extra, strict=True)]
        rhs = [x for ref in (*SLIDE_REFS, ball.ref) for x in force[ref]]
        solution = solve_dense(matrix, rhs)
        for ref, x in zip(SLIDE_REFS, solution, strict=False):
            accelerations.put(ref, [x])
        accelerations.put(ball.ref, solution[3:])

    ctx.for_each("free bodies", rows, body)
    return accelerations if rows else None


def replace_free_body_accelerations(
    ctx: TraceContext,
    free_body_accelerations: NodeValues[list[Value]],
    accelerations: NodeValues[list[Value]],
    coupled_dofs: Collection[int] = (),
) -> None:
    """Trace a loop that replaces the joint accelerations of free single bodies by the results of the implicit solve."""
    frames = [node.index for slides, ball in free_bodies(ctx.nodes, coupled_dofs) for node in (*slides, ball)]
    ctx.for_each_frame(
        "replace free-body accelerations",
        lambda node: accelerations.put(node.ref, free_body_accelerations[node.ref]),
        only=frames,
    )


SLIDE_REFS = [frame_ref(f"slide {k} ") for k in range(3)]
"""The three slide frames above the ball, as bound in the loop iteration of a free body."""


def _free_body_iteration(
    ctx: TraceContext, implicit_matrix: JointSpaceMatrix, slides: list[FrameNode], ball: FrameNode
) -> NodeIteration:
    """Loop iteration of a free body: ball and slide frames, slide axes, and entries of its 6x6 matrix block."""
    row = ctx.frame_iteration(ball)
    dofs = [*(node.dofs[0] for node in slides), *ball.dofs]
    entries = {f"entry {i} {j}": implicit_matrix.entry(dofs[i], dofs[j]) for i in range(6) for j in range(i + 1)}
    bindings = {**row.bindings, **{str(ref.index): node.ref for ref, node in zip(SLIDE_REFS, slides, strict=True)}}
    axes = {f"axis {k}": [float(x) for x in node.axis] for k, node in enumerate(slides)}
    return ctx.node_iteration(row.specialization, bindings, {**row.offsets, **entries}, {**row.constants, **axes})


def free_bodies(
    nodes: Sequence[FrameNode], coupled_dofs: Collection[int] = ()
) -> list[tuple[list[FrameNode], FrameNode]]:
    """Free single bodies of a tree: the three slide frames and the ball frame of each free joint whose body is a leaf.

    Bodies with dofs in `coupled_dofs`, inverted balls or slides rotated against each other are left out.
    """
    children = Counter(node.parent for node in nodes)
    node_of_index = {node.index: node for node in nodes}
    result = []
    for ball in nodes:
        slides: list[FrameNode] = []
        parent = ball.parent
        while parent != WORLD and node_of_index[parent].joint_type == PrimitiveJointType.SLIDE:
            slides.insert(0, node_of_index[parent])
            parent = node_of_index[parent].parent
        is_single = children[ball.index] == 0 and all(children[slide.index] == 1 for slide in slides)
        is_single = is_single and not any(dof in coupled_dofs for node in (*slides, ball) for dof in node.dofs)
        if (
            ball.joint_type == PrimitiveJointType.BALL
            and not ball.inverted
            and len(slides) == 3
            and parent == WORLD
            and is_single
        ):
            is_aligned = all(list(map(list, slide.rotation)) == list(map(list, IDENTITY)) for slide in slides[1:])
            if is_aligned:
                result.append((slides, ball))
    return result


def _bias_force_derivatives(
    ball: FrameNode, slide_axes: Sequence[Vector], angular_velocity: Vector
) -> list[list[Value]]:
    """Derivative (6, 3) of the bias forces of slides and ball by the angular velocity.

    Rows are the three slide axes (in ball axes) and the three rotations; columns the components of angular velocity.
    """
    moment, matrix = ball.inertia.first_moment, ball.inertia.rotational
    columns: list[list[Value]] = []
    for unit in IDENTITY:
        force = add(cross(unit, cross(angular_velocity, moment)), cross(angular_velocity, cross(unit, moment)))
        torque = add(cross(unit, rotate(matrix, angular_velocity)), cross(angular_velocity, rotate(matrix, unit)))
        columns.append([*(dot(axis, force) for axis in slide_axes), *torque])
    return [[column[row] for column in columns] for row in range(6)]


def solve_dense(matrix: Sequence[Sequence[Value]], rhs: Sequence[Value]) -> list[Value]:
    """Solution of A x = b by Gaussian elimination without pivoting; requires a positive definite symmetric part."""
    n = len(rhs)
    a = [list(row) for row in matrix]
    x = list(rhs)
    for k in range(n):
        inverse = 1.0 / a[k][k]
        for i in range(k + 1, n):
            factor = a[i][k] * inverse
            for j in range(k + 1, n):
                a[i][j] = a[i][j] - factor * a[k][j]
            x[i] = x[i] - factor * x[k]
    for k in reversed(range(n)):
        for j in range(k + 1, n):
            x[k] = x[k] - a[k][j] * x[j]
        x[k] = x[k] * (1.0 / a[k][k])
    return x
