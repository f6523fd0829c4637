"""Ray intersection tests against primitives, triangle meshes (BVH) and height fields, and point-in-primitive tests.

Rays are given in the geom's local frame, centred at the geom's origin. Tests return the distance along the ray, or
`NO_HIT`. `size` is the geom's size as in `GeomsInfo.size`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kinema import ir
from kinema.ir import Tracer, Value
from kinema.model import BVH_NODE_SIZE

from ..collision.vector_math import machine_epsilon, norm, normalize_or_fallback, select_vector, sign as sign_of
from ..rigid.kinematics import Pose
from ..vector_math import Vector, add, cross, dot, rotate_inverse, scale, sub

# ----------------------------------------------------------------------------------------------------------- primitives

NO_HIT = 1e15
"""Distance returned if a ray hits nothing."""
HIT_THRESHOLD = 0.5 * NO_HIT
"""Distances below are hits."""
EPSILON = 1e-15
"""Threshold below which direction components and quadratic coefficients count as zero."""


@dataclass(frozen=True, slots=True)
class Ray:
    """Ray with an origin and a direction of (nearly) unit length."""

    origin: Vector
    direction: Vector

    @classmethod
    def in_frame(cls, pose: Pose, origin: Vector, direction: Vector) -> Ray:
        """Transform a ray from world coordinates to the frame `pose`."""
        return cls(rotate_inverse(pose.rotation, sub(origin, pose.position)), rotate_inverse(pose.rotation, direction))

    def point_at(self, distance: Value) -> Vector:
        """Point at a distance along the ray."""
        return add(self.origin, scale(distance, self.direction))


def _valid_distance(distance: Value, *conditions: tuple[Value, Value]) -> Value:
    """The distance if it is nonnegative and `value <= bound` holds for all pairs (value, bound), else `NO_HIT`."""
    result = ir.select(distance, 0.0, NO_HIT, distance)
    for value, bound in conditions:
        result = ir.select(bound, value, NO_HIT, result)
    return result


def _min_of(distances: Sequence[Value]) -> Value:
    result = distances[0]
    for x in distances[1:]:
        result = ir.minimum(result, x)
    return result


def _quadratic_roots(a: Value, b: Value, c: Value) -> tuple[Value, Value]:
    """Roots of a x^2 + 2 b x + c = 0 in ascending order for a > 0; -`NO_HIT` if there are none or a is about zero."""
    discriminant = b * b - a * c
    square_root = ir.sqrt(ir.maximum(discriminant, 0.0))
    safe_a = ir.maximum(a, EPSILON)
    is_valid = ir.minimum(discriminant, a)
    return tuple(ir.select(EPSILON, is_valid, (x - b) / safe_a, -NO_HIT) for x in (-square_root, square_root))  # type: ignore[return-value]  # ty: ignore[invalid-explicit-return]


def _axis_plane_distance(ray: Ray, axis: int, offset: Value) -> Value:
    """Distance along a ray to the plane x[axis] = offset; -1 if the ray is parallel to the plane."""
    direction = ray.direction[axis]
    is_parallel = ir.select(ir.absolute(direction), EPSILON, 1.0, 0.0)
    return ir.select(0.5, is_parallel, -1.0, (offset - ray.origin[axis]) / ir.select(0.5, is_parallel, 1.0, direction))


def intersect_plane(ray: Ray, size: Vector) -> Value:
    """Distance to a plane geom z = 0 hit from above (direction with negative z), within its half extents size[:2]."""
    distance = _axis_plane_distance(ray, 2, 0.0)
    point = ray.point_at(distance)
    from_above = ir.select(ray.direction[2], 0.0, distance, -1.0)
    return _valid_distance(from_above, *((ir.absolute(point[i]), ir.minimum(size[i], NO_HIT)) for i in range(2)))


def intersect_sphere(ray: Ray, size: Vector) -> Value:
    """Distance to the first intersection ahead with a sphere of radius size[0]."""
    return _min_of([_valid_distance(x) for x in _sphere_distances(ray, ray.origin, size[0])])


def _sphere_distances(ray: Ray, origin: Vector, radius: Value) -> tuple[Value, Value]:
    return _quadratic_roots(
        dot(ray.direction, ray.direction), dot(ray.direction, origin), dot(origin, origin) - radius * radius
    )


def _infinite_cylinder_distances(ray: Ray, radius: Value) -> tuple[Value, Value]:
    """Distances to the two intersections with an infinite cylinder about the z axis."""
    start, direction = ray.origin[:2], ray.direction[:2]
    return _quadratic_roots(dot(direction, direction), dot(direction, start), dot(start, start) - radius * radius)


def intersect_capsule(ray: Ray, size: Vector) -> Value:
    """Distance to a capsule about the z axis with radius size[0] and half length size[1]; `NO_HIT` for a miss."""
    radius, half_length = size[0], size[1]
    distances = [
        _valid_distance(x, (ir.absolute(ray.point_at(x)[2]), half_length))
        for x in _infinite_cylinder_distances(ray, radius)
    ]
    for sign in (1.0, -1.0):
        start = [ray.origin[0], ray.origin[1], ray.origin[2] - sign * half_length]
        distances += [
            _valid_distance(x, (half_length, sign * ray.point_at(x)[2])) for x in _sphere_distances(ray, start, radius)
        ]
    return _min_of(distances)


def intersect_cylinder(ray: Ray, size: Vector) -> Value:
    """Distance to a cylinder about the z axis with radius size[0] and half length size[1]: side and both end discs."""
    radius, half_length = size[0], size[1]
    distances = [
        _valid_distance(x, (ir.absolute(ray.point_at(x)[2]), half_length))
        for x in _infinite_cylinder_distances(ray, radius)
    ]
    return _min_of([*distances, *(_intersect_disc(ray, sign * half_length, radius) for sign in (1.0, -1.0))])


def _intersect_disc(ray: Ray, height: Value, radius: Value) -> Value:
    distance = _axis_plane_distance(ray, 2, height)
    point = ray.point_at(distance)
    return _valid_distance(distance, (dot(point[:2], point[:2]), radius * radius))


def intersect_cone(ray: Ray, size: Vector) -> Value:
    """Distance to a cone with base radius size[0] at z = -size[1] and apex at z = size[1]; `NO_HIT` for a miss.

    The side and the base disc are tested.
    """
    radius, half_height = size[0], size[1]
    slope = radius / (2.0 * half_height)
    (px, py, pz), (dx, dy, dz) = ray.origin, ray.direction
    apex_depth, slope_squared = half_height - pz, slope * slope
    a, b = dx * dx + dy * dy - slope_squared * (dz * dz), dx * px + dy * py + slope_squared * (dz * apex_depth)
    c = px * px + py * py - slope_squared * (apex_depth * apex_depth)
    # for a < 0 (ray steeper than the side) the roots are swapped, and one of them lies on the mirrored cone
    root = ir.sqrt(ir.maximum(b * b - a * c, 0.0))
    safe_a = ir.select(ir.absolute(a), EPSILON, EPSILON, a)
    roots = [ir.select(b * b, a * c, -NO_HIT, (x - b) / safe_a) for x in (-root, root)]
    sides = [_valid_distance(x, (ir.absolute(ray.point_at(x)[2]), half_height)) for x in roots]
    return _min_of([*sides, _intersect_disc(ray, -half_height, radius)])


def intersect_ellipsoid(ray: Ray, size: Vector) -> Value:
    """Distance to an ellipsoid with half axes `size`, as a unit sphere in scaled coordinates."""
    start, direction = ([x / r for x, r in zip(v, size, strict=True)] for v in (ray.origin, ray.direction))
    roots = _quadratic_roots(dot(direction, direction), dot(direction, start), dot(start, start) - 1.0)
    return _min_of([_valid_distance(x) for x in roots])


def intersect_box(ray: Ray, size: Vector) -> Value:
    """Distance along a ray to a box with half extents `size`, the smallest over its six faces; `NO_HIT` for a miss."""
    distances = []
    for axis in range(3):
        for sign in (1.0, -1.0):
            distance = _axis_plane_distance(ray, axis, sign * size[axis])
            point = ray.point_at(distance)
            distances.append(
                _valid_distance(distance, *((ir.absolute(point[i]), size[i]) for i in range(3) if i != axis))
            )
    return _min_of(distances)


PRIMITIVE_INTERSECTIONS: dict[str, Callable[[Ray, Vector], Value]] = {
    "plane": intersect_plane,
    "sphere": intersect_sphere,
    "capsule": intersect_capsule,
    "cylinder": intersect_cylinder,
    "cone": intersect_cone,
    "ellipsoid": intersect_ellipsoid,
    "box": intersect_box,
}
"""Geom type -> intersection test (ray, size) that returns the distance along the ray, or `NO_HIT`."""


def contains_point(kind: str, point: Vector, size: Vector) -> Value:
    """1 if a point in local coordinates is inside a sphere, capsule, cylinder, ellipsoid or box, else 0."""
    x, y, z = point
    match kind:
        case "sphere":
            measure, bound = dot(point, point), size[0] * size[0]
        case "capsule":
            excess = ir.maximum(ir.absolute(z) - size[1], 0.0)
            measure, bound = x * x + y * y + excess * excess, size[0] * size[0]
        case "cylinder":
            measure = ir.maximum((x * x + y * y) / (size[0] * size[0]), (z / size[1]) * (z / size[1]))
            bound = 1.0
        case "ellipsoid":
            measure, bound = dot(*([a / r for a, r in zip(point, size, strict=True)],) * 2), 1.0
        case _:
            measure = _max_of([ir.absolute(a) / r for a, r in zip(point, size, strict=True)])
            bound = 1.0
    return ir.select(bound, measure, 0.0, 1.0)


def _max_of(values: Sequence[Value]) -> Value:
    result = values[0]
    for x in values[1:]:
        result = ir.maximum(result, x)
    return result


def primitive_normal(geom_type: str, point: Vector, size: Vector) -> Vector:
    """Outward unit normal of a primitive at a point of its surface, both in its axes."""
    x, y, z = point
    match geom_type:
        case "plane":
            return [0.0, 0.0, 1.0]
        case "sphere":
            return normalize_or_fallback(point)
        case "capsule":
            return normalize_or_fallback([x, y, z - ir.clamp(z, -size[1], size[1])])
        case "ellipsoid":
            return normalize_or_fallback([c / (r * r) for c, r in zip(point, size, strict=True)])
        case "box":
            depth = [ir.absolute(c) - half for c, half in zip(point, size, strict=True)]
            largest = ir.maximum(depth[0], ir.maximum(depth[1], depth[2]))
            is_x = ir.select(depth[0], largest, 0.0, 1.0)
            is_y = (1.0 - is_x) * ir.select(depth[1], largest, 0.0, 1.0)
            axes = (is_x, is_y, 1.0 - is_x - is_y)
            return [axis * sign_of(c) for axis, c in zip(axes, point, strict=True)]
    radial = normalize_or_fallback([x, y, 0.0])
    if geom_type == "cylinder":
        on_cap = ir.absolute(z) - size[1] - (norm([x, y]) - size[0])
        return select_vector(0.0, on_cap, [0.0, 0.0, sign_of(z)], radial)
    side = normalize_or_fallback([2.0 * size[1] * radial[0], 2.0 * size[1] * radial[1], size[0]])  # of a cone
    from_side = side[2] * (z - size[1]) + norm(side[:2]) * norm([x, y])
    return select_vector(ir.absolute(z + size[1]), ir.absolute(from_side), [0.0, 0.0, -1.0], side)


# ------------------------------------------------------------------------------------------------------ triangle meshes

ReadValue = Callable[[Value], Value]
"""Reads the value at an index of the array of ray data."""
MAX_TRAVERSAL_STEPS = 1 << 28
"""Iteration bound of traversal loops."""
TRIANGLE_WIDTH = 9
"""Values per triangle: three vertices."""
EDGE_TOLERANCE = 1e-10
"""Tolerance of barycentric coordinates, so that no ray passes between adjacent triangles."""


def intersect_triangle(ray: Ray, a: Vector, b: Vector, c: Vector) -> Value:
    """Distance along a ray to a triangle, hit from either side (Moeller-Trumbore).

    `NO_HIT` for a miss, a hit behind the origin or a degenerate triangle.
    """
    edge_ab, edge_ac = sub(b, a), sub(c, a)
    p = cross(ray.direction, edge_ac)
    determinant = dot(edge_ab, p)
    is_degenerate = ir.select(ir.absolute(determinant), 1e-30, 1.0, 0.0)
    inverse = 1.0 / ir.select(0.5, is_degenerate, 1.0, determinant)
    from_a = sub(ray.origin, a)
    u = inverse * dot(from_a, p)
    q = cross(from_a, edge_ab)
    v = inverse * dot(ray.direction, q)
    distance = inverse * dot(edge_ac, q)
    min_barycentric = ir.minimum(ir.minimum(u, v), 1.0 - u - v)
    hit = ir.select(min_barycentric, -EDGE_TOLERANCE, NO_HIT, ir.select(distance, 0.0, NO_HIT, distance))
    return ir.select(0.5, is_degenerate, NO_HIT, hit)


def intersect_mesh(
    tracer: Tracer, read: ReadValue, header: Sequence[Value], ray: Ray, best_distance: str, normal: str = ""
) -> None:
    """Trace the intersection of a ray with a triangle mesh by stackless traversal of its BVH.

    Nodes are stored in depth-first order with a skip index: a node whose box is missed, or farther than the best hit,
    continues at the skip index. The nearest distance is written to the local array `best_distance` if it is smaller
    than the value there.

    Args:
        tracer: traces the program.
        read: reads a value of the ray data by index.
        header: index of the first node in the ray data and the number of nodes; triangles follow the nodes.
        ray: ray in the frame of the mesh.
        best_distance: local array with the smallest distance so far, updated.
        normal: local array of the unit normal of the nearest triangle in the frame of the mesh, updated; none if empty.
    """
    first, n_nodes = header[0], header[1]
    triangles = first + n_nodes * float(BVH_NODE_SIZE)
    inverse = [1.0 / ir.select(ir.absolute(x), EPSILON, EPSILON, x) for x in ray.direction]

    def test_triangle(index: Value, start: Value) -> None:
        at = triangles + (start + index) * float(TRIANGLE_WIDTH)
        corners = [[read(at + float(3 * k + i)) for i in range(3)] for k in range(3)]
        distance, previous = intersect_triangle(ray, *corners), tracer.read(best_distance)
        tracer.write(best_distance, [ir.minimum(previous, distance)])
        if normal:
            own = normalize_or_fallback(cross(sub(corners[1], corners[0]), sub(corners[2], corners[0])))
            kept = [tracer.read(normal, i) for i in range(3)]
            tracer.write(normal, select_vector(distance, previous, own, kept))

    def step(state: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        (node,) = state
        at = first + node * float(BVH_NODE_SIZE)
        low, high = ([read(at + float(k + i)) for i in range(3)] for k in (0, 3))
        skip, start, count = (read(at + float(k)) for k in (6, 7, 8))
        slabs = [[(x[i] - ray.origin[i]) * inverse[i] for i in range(3)] for x in (low, high)]
        enter, leave = 0.0, tracer.read(best_distance)
        for near, far in zip(*slabs, strict=True):
            enter = ir.maximum(enter, ir.minimum(near, far))
            leave = ir.minimum(leave, ir.maximum(near, far))
        tolerance = 1e-6 * leave  # tolerance for flat boxes, whose slab interval may be empty by rounding
        is_hit = ir.select(leave + tolerance, enter, 0.0, 1.0)
        tracer.counted_loop("triangles", is_hit * count, lambda index: test_triangle(index, start))
        next_node = ir.select(0.5, is_hit, node + 1.0, skip)
        return [next_node], next_node, n_nodes

    tracer.while_loop("BVH nodes", step, [0.0], MAX_TRAVERSAL_STEPS)


# -------------------------------------------------------------------------------------------------------- height fields

BASE_TOP_TOLERANCE = 1e-5
"""Distance by which the surface of a height field takes precedence over the top of its base [m]."""
MAX_CELL_INDEX = 1e6
"""Bound of the cell indices of a height field."""


class HeightFieldIntersection:
    """Intersection of a ray with a height field in its local frame: surface cells, side walls and base box.

    The nearest distance is written to the local array `best_distance` if it is smaller than the value there.
    """

    def __init__(
        self,
        tracer: Tracer,
        read: Callable[[Value], Value],
        header: Sequence[Value],
        size: Vector,
        ray: Ray,
        best_distance: str,
    ) -> None:
        """Prepare cell counts, cell sizes and the inverse ray direction.

        Args:
            tracer: traces the program.
            read: reads a value of the ray data by index.
            header: index of the first height in the ray data, number of rows, number of columns.
            size: half extents in x and y, and depth of the base box [m].
            ray: ray in the frame of the height field.
            best_distance: local array with the smallest distance so far, updated.
        """
        self.tracer, self.read, self.size, self.ray, self.best_distance = tracer, read, size, ray, best_distance
        self.first_index, n_rows, self.n_columns = header
        self.cell_counts = (self.n_columns - 1.0, n_rows - 1.0)
        self.cell_sizes = [2.0 * size[i] / self.cell_counts[i] for i in range(2)]
        self.inverse_direction = [1.0 / ir.select(ir.absolute(x), EPSILON, EPSILON, x) for x in ray.direction]

    def height(self, row: Value, column: Value) -> Value:
        """Height [m] at a grid node."""
        return self.read(self.first_index + row * self.n_columns + column)

    def intersect(self) -> None:
        """Trace the intersection of the ray with the height field solid; lowers `best_distance` if the hit is nearer.

        Tests the side walls, the base, and the surface triangles of the cells between entry and exit of the grid's xy
        extent.
        """
        self._intersect_walls()
        self._intersect_base()
        enter, leave = 0.0, self.tracer.read(self.best_distance)
        for i in range(2):
            ends = [(side * self.size[i] - self.ray.origin[i]) * self.inverse_direction[i] for side in (-1.0, 1.0)]
            enter = ir.maximum(enter, ir.minimum(*ends))
            leave = ir.minimum(leave, ir.maximum(*ends))

        def traverse() -> list[Value]:
            self._traverse_cells(enter)
            return []

        self.tracer.if_less("over the height field", enter, leave, traverse, [])

    def normal_at(self, point: Vector) -> Vector:
        """Outward unit normal of the solid at a point of its surface, side walls or base."""
        coordinates = [(point[i] + self.size[i]) / self.cell_sizes[i] for i in range(2)]
        cell = [
            ir.clamp(approximate_floor(x), 0.0, count - 1.0)
            for x, count in zip(coordinates, self.cell_counts, strict=True)
        ]
        fraction = [x - c for x, c in zip(coordinates, cell, strict=True)]
        heights = [[self.height(cell[1] + y, cell[0] + x) for x in (0.0, 1.0)] for y in (0.0, 1.0)]
        # the cell is divided along the diagonal from its first to its last node
        upper = ir.select(fraction[0], fraction[1], 1.0, 0.0)
        along_x = ir.select(0.5, upper, heights[1][1] - heights[1][0], heights[0][1] - heights[0][0])
        along_y = ir.select(0.5, upper, heights[1][0] - heights[0][0], heights[1][1] - heights[0][1])
        surface = cross((self.cell_sizes[0], 0.0, along_x), (0.0, self.cell_sizes[1], along_y))
        height = heights[0][0] + fraction[0] * along_x + fraction[1] * along_y
        # of surface, base, walls and the top of the base (hit from inside only), the nearest to the point
        sides: list[tuple[Value, Sequence[Value]]] = [(ir.absolute(point[2] - height), normalize_or_fallback(surface))]
        sides.append((ir.absolute(point[2] + self.size[2]), (0.0, 0.0, -1.0)))
        sides.append((ir.absolute(point[2]) + BASE_TOP_TOLERANCE, (0.0, 0.0, 1.0)))
        for i in range(2):
            normal = [ir.select(point[i], 0.0, -1.0, 1.0) if k == i else 0.0 for k in range(3)]
            sides.append((ir.absolute(ir.absolute(point[i]) - self.size[i]), normal))
        distance, normal = sides[0]
        for other, other_normal in sides[1:]:
            distance, normal = (
                ir.minimum(distance, other),
                select_vector(other, distance, other_normal, normal),
            )
        return normal

    def _keep_nearest(self, distance: Value) -> Value:
        nearest = ir.minimum(self.tracer.read(self.best_distance), distance)
        self.tracer.write(self.best_distance, [nearest])
        return nearest

    def _intersect_base(self) -> None:
        """Intersect the box below the surface, from z = -size[2] to z = 0, if size[2] > 0."""
        x, y, z = self.ray.origin
        half_height = 0.5 * self.size[2]
        distance = intersect_box(
            Ray([x, y, z + half_height], self.ray.direction), [self.size[0], self.size[1], half_height]
        )
        self._keep_nearest(ir.select(0.0, half_height, distance, NO_HIT))
        self.tracer.new_basic_block()

    def _intersect_walls(self) -> None:
        """Trace the intersection with the four vertical side walls below the surface; lowers `best_distance`.

        Walls begin at z = 0; their top is interpolated linearly between the two grid nodes of the cell that contains
        the hit point.
        """
        size, nearest = self.size, NO_HIT
        for axis, side in ((0, -1.0), (0, 1.0), (1, -1.0), (1, 1.0)):
            other = 1 - axis
            distance = (side * size[axis] - self.ray.origin[axis]) * self.inverse_direction[axis]
            point = self.ray.point_at(distance)
            coordinate = (point[other] + size[other]) / self.cell_sizes[other]
            cell = self._cell_index(other, coordinate)
            fraction, end = coordinate - cell, 0.0 if side < 0 else self.cell_counts[axis]
            nodes = [(cell, end), (cell + 1.0, end)] if axis == 0 else [(end, cell), (end, cell + 1.0)]
            top = (1.0 - fraction) * self.height(*nodes[0]) + fraction * self.height(*nodes[1])
            violation = ir.maximum(ir.absolute(point[other]) - size[other], ir.maximum(point[2] - top, -point[2]))
            hit = ir.select(0.0, violation, NO_HIT, ir.select(distance, 0.0, NO_HIT, distance))
            nearest = ir.minimum(nearest, hit)
        self._keep_nearest(nearest)
        self.tracer.new_basic_block()

    def _cell_index(self, axis: int, coordinate: Value) -> Value:
        """Index of the cell that contains a grid coordinate, clamped to the valid range."""
        return ir.clamp(approximate_floor(coordinate), 0.0, self.cell_counts[axis] - 1.0)

    def _traverse_cells(self, entry_distance: Value) -> None:
        """Trace a 2D grid traversal (DDA) along the ray, starting at the cell at `entry_distance`.

        Each cell's two triangles are intersected; the traversal ends when the ray leaves the grid or the nearest hit
        lies before the next cell boundary.
        """
        steps, size, ray = self.cell_sizes, self.size, self.ray
        signs = [ir.select(x, 0.0, -1.0, 1.0) for x in ray.direction[:2]]
        point = ray.point_at(entry_distance)
        start = [self._cell_index(i, (point[i] + size[i]) / steps[i]) for i in range(2)]

        def boundary_distance(i: int, index: Value) -> Value:
            return ((index + 0.5 + 0.5 * signs[i]) * steps[i] - size[i] - ray.origin[i]) * self.inverse_direction[i]

        def step(state: Sequence[Value]) -> tuple[list[Value], Value, Value]:
            column, row = state
            nearest = self._keep_nearest(self._intersect_cell(column, row))
            boundaries = [boundary_distance(0, column), boundary_distance(1, row)]
            cross_column = ir.select(boundaries[0], boundaries[1], 1.0, 0.0)
            next_cell = [column + cross_column * signs[0], row + (1.0 - cross_column) * signs[1]]
            is_outside: Value = ir.select(nearest, ir.minimum(*boundaries), 1.0, 0.0)
            for x, count in zip(next_cell, self.cell_counts, strict=True):
                is_outside = is_outside + ir.select(x, -0.5, 1.0, 0.0) + ir.select(count - 0.5, x, 1.0, 0.0)
            inside = ir.select(is_outside, 0.5, 1.0, 0.0)
            kept = [ir.select(0.5, inside, new, old) for new, old in zip(next_cell, state, strict=True)]
            return kept, 0.5, inside

        self.tracer.while_loop("height field cells", step, start, MAX_TRAVERSAL_STEPS)

    def _intersect_cell(self, column: Value, row: Value) -> Value:
        """Distance to the two triangles of a cell, split along the diagonal from its first to its last corner."""

        def corner(x: float, y: float) -> Vector:
            xy = [(column + x) * self.cell_sizes[0] - self.size[0], (row + y) * self.cell_sizes[1] - self.size[1]]
            return [*xy, self.height(row + y, column + x)]

        low, high = corner(0.0, 0.0), corner(1.0, 1.0)
        first = intersect_triangle(self.ray, low, corner(1.0, 0.0), high)
        return ir.minimum(first, intersect_triangle(self.ray, low, high, corner(0.0, 1.0)))


def approximate_floor(x: Value) -> Value:
    """floor(x) by rounding to nearest; an integer x may also give x - 1. |x| is clamped to `MAX_CELL_INDEX`."""
    whole = 1.5 / machine_epsilon(x)  # values of this magnitude have no fractional digits
    return ir.without_derivative((ir.clamp(x, -MAX_CELL_INDEX, MAX_CELL_INDEX) - 0.5 + whole) - whole)
