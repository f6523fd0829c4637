"""Assembly of the Jacobian of a step from the adjoints of next velocities and activations, as a program.

The rows of next positions follow from those of next velocities by the rule of semi-implicit integration.
"""

from __future__ import annotations

from dataclasses import dataclass

from kinema import ir
from kinema.ir import UNIFORM, ArenaOffset, Program, Tracer, Value

JACOBIAN, ADJOINTS, CONTROL_ADJOINTS = "jacobian", "adjoints", "control adjoints"
"""Arrays of the program: results, memory of the adjoints, and memory of the adjoints of the controls."""
ASSEMBLY_OFFSETS = {
    JACOBIAN: ArenaOffset("state", 0),
    ADJOINTS: ArenaOffset(UNIFORM, 0),
    CONTROL_ADJOINTS: ArenaOffset("controls", 0),
}
"""Offsets of the arrays in the arenas that the program is launched with."""

MAX_UNROLLED_ROWS = 64
"""Number of rows of the Jacobian up to which there is a loop for each."""
N_SUMS = 8
"""Number of sums that are accumulated independently of each other."""


@dataclass(frozen=True, slots=True)
class AssemblyLayout:
    """Sizes and offsets of the program; offsets are in scalars."""

    n_dofs: int
    n_results: int
    """Number of directions: next velocities and activations."""
    n_controls: int
    ball_dofs: tuple[int, ...]
    """First dof of each ball joint."""
    dt: float
    """Time step [s]."""
    row_stride: int
    """Distance between the adjoints of two variables; those of the directions lie side by side."""
    first_adjoint: int
    """Offset of the adjoints of the state."""
    first_control_adjoint: int
    """Offset of the adjoints of the controls."""
    first_velocity: int
    """Offset of the next velocities in the memory of the adjoints."""

    @property
    def n_state(self) -> int:
        """Dimension of the state."""
        return self.n_dofs + self.n_results

    @property
    def size(self) -> int:
        """Number of results: the matrices A (n_state, n_state) and B (n_state, n_controls), and the sum of both."""
        return self.n_state * (self.n_state + self.n_controls) + 1


def trace_jacobian_assembly(layout: AssemblyLayout) -> Program:
    """Trace the program that writes A, B and their sum to `JACOBIAN`."""
    return _Assembly(layout).trace()


class _Assembly:
    """Recording of the program."""

    def __init__(self, layout: AssemblyLayout) -> None:
        self.layout, self.tracer = layout, Tracer()

    def trace(self) -> Program:
        """Record the program."""
        layout, tracer = self.layout, self.tracer
        n, start_of_b = layout.n_state, layout.n_state * layout.n_state
        blocks = [(0, n, ADJOINTS, layout.first_adjoint)]
        if layout.n_controls:
            blocks.append((start_of_b, layout.n_controls, CONTROL_ADJOINTS, layout.first_control_adjoint))
        for start, width, array, first in blocks:
            self._copy_rows(start, width, array, first)
        for start, width, _, _ in blocks:
            self._integrate(start, width)
        self._sum(start_of_b + n * layout.n_controls)
        return tracer.build()

    def _sum(self, n: int) -> None:
        """Store the sum of the first n results behind them: of `N_SUMS` sums, each has every `N_SUMS`th term."""
        tracer, rest = self.tracer, n % N_SUMS
        sums = tracer.allocate_local(N_SUMS)
        tracer.write(sums, [tracer.read(JACOBIAN, n - 1 - k) if k < rest else 0.0 for k in range(N_SUMS)])

        def add(k: Value) -> None:
            tracer.write(sums, [tracer.read(sums, i) + tracer.read(JACOBIAN, i, N_SUMS * k) for i in range(N_SUMS)])

        tracer.counted_loop("sum", float(n // N_SUMS), add, uniform=True)
        total: Value = 0.0
        for i in range(N_SUMS):
            total = total + tracer.read(sums, i)
        tracer.write(JACOBIAN, [total], n)

    def _copy_rows(self, start: int, width: int, array: str, first: int) -> None:
        """Copy the rows of next velocities and activations of a matrix, which are columns of the adjoints."""
        layout, tracer = self.layout, self.tracer

        def copy_row(i: Value) -> None:
            def copy_entry(j: Value) -> None:
                value = tracer.read(array, first, layout.row_stride * j + i)
                tracer.write(JACOBIAN, [value], start + layout.n_dofs * width, width * i + j)

            tracer.counted_loop("entries", float(width), copy_entry, uniform=True)

        if layout.n_results > MAX_UNROLLED_ROWS:
            tracer.counted_loop("rows", float(layout.n_results), copy_row, uniform=True)
            return
        for i in range(layout.n_results):  # addresses are integer arithmetic then
            copy_row(float(i))

    def _integrate(self, start: int, width: int) -> None:
        """Compute the rows of next positions of a matrix: q' = q + dt v'."""
        layout, tracer = self.layout, self.tracer
        n = layout.n_dofs * width

        def scale(k: Value) -> None:
            tracer.write(JACOBIAN, [layout.dt * tracer.read(JACOBIAN, start + n, k)], start, k)

        tracer.counted_loop("positions", float(n), scale, uniform=True)
        for dof in layout.ball_dofs:
            rotation, right_jacobian = self._rotation_and_right_jacobian(dof)
            first = start + dof * width

            def multiply(j: Value, first: int = first, matrix: list[list[Value]] = right_jacobian) -> None:
                values = [tracer.read(JACOBIAN, first + k * width, j) for k in range(3)]
                for k, row in enumerate(matrix):
                    product = row[0] * values[0] + row[1] * values[1] + row[2] * values[2]
                    tracer.write(JACOBIAN, [product], first + k * width, j)

            tracer.counted_loop("rotations", float(width), multiply, uniform=True)
            if not start:  # in the matrix A
                for k, row in enumerate(rotation):
                    for j, value in enumerate(row):
                        place = first + k * width + dof + j
                        tracer.write(JACOBIAN, [tracer.read(JACOBIAN, place) + value], place)
                tracer.new_basic_block()
        if not start:

            def add_identity(i: Value) -> None:
                place = (width + 1.0) * i
                tracer.write(JACOBIAN, [tracer.read(JACOBIAN, 0, place) + 1.0], 0, place)

            tracer.counted_loop("identity", float(layout.n_dofs), add_identity, uniform=True)

    def _rotation_and_right_jacobian(self, dof: int) -> tuple[list[list[Value]], list[list[Value]]]:
        """Matrices exp([v]x)^T - 1 and the right Jacobian of SO(3) of the rotation v of a ball joint in a time step."""
        layout, tracer = self.layout, self.tracer
        x, y, z = (layout.dt * tracer.read(ADJOINTS, layout.first_velocity + dof + k) for k in range(3))
        squared_angle = x * x + y * y + z * z
        angle = ir.maximum(ir.sqrt(squared_angle), 1e-30)
        sine, half_sine = ir.sin(angle) / angle, ir.sin(0.5 * angle) / angle
        cosine = 2.0 * half_sine * half_sine  # (1 - cos(angle)) / angle^2
        series = (1.0 - 0.05 * squared_angle) / 6.0
        cubic = ir.select(angle, 1e-3, series, (1.0 - sine) / ir.maximum(squared_angle, 1e-30))
        rotation = _polynomial_of_cross_product((-x, -y, -z), 0.0, sine, cosine)
        return rotation, _polynomial_of_cross_product((x, y, z), 1.0, -cosine, cubic)


def _polynomial_of_cross_product(
    vector: tuple[Value, Value, Value], constant: float, a: Value, b: Value
) -> list[list[Value]]:
    """Matrix c + a [v]x + b [v]x^2 of a vector v and a constant c."""
    x, y, z = vector
    xx, yy, zz, xy, xz, yz = (b * p * q for p, q in ((x, x), (y, y), (z, z), (x, y), (x, z), (y, z)))
    x, y, z = a * x, a * y, a * z
    return [
        [constant - yy - zz, xy - z, xz + y],
        [xy + z, constant - xx - zz, yz - x],
        [xz - y, yz + x, constant - xx - yy],
    ]
