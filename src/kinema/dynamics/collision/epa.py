"""EPA (expanding polytope algorithm): penetration depth of two convex shapes, and the polytope that it expands.

A polytope of support points grows inside the Minkowski difference. The face closest to the origin is expanded by the
support point along its normal, until the face is on the surface of the Minkowski difference; its offset is the
penetration depth. The origin need not be inside, which cannot be guaranteed for shapes that barely touch: face offsets
are signed. The polytope is stored in local arrays as vertices and triangles with adjacency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kinema import ir
from kinema.ir import Tracer, Value

from ..vector_math import ZERO, Vector, add, cross, dot, scale, sub
from .depth_minimization import minimize_depth_by_bfgs
from .gjk import MinkowskiDifference, SignedDistance
from .vector_math import TINY, if_less, less_than, normalize_or_fallback, perpendicular_unit, select_vector

# ------------------------------------------------------------------------------------------------------------- polytope

VERTEX_SIZE = 6
"""Scalars of a vertex: a `SupportPoint`."""
FACE_SIZE, FACE_NEIGHBOURS, FACE_NORMAL, FACE_OFFSET, FACE_PRIORITY = 11, 3, 6, 9, 10
"""Scalars of a face, and offsets of its fields: three vertex indices, indices of the adjacent faces across the edges
that start at these vertices, unit normal, signed plane offset from the origin, and priority (the offset, or
`REMOVED_FACE_OFFSET` for a face in an excluded cone)."""
REMOVED_FACE_OFFSET = 1e15
"""Offset of a removed or degenerate face."""
FACES_PER_ITERATION = 4
"""Unrolling factor of the search for the closest face."""
HORIZON_EDGE_SIZE = 3
"""Scalars of a horizon edge: start vertex, end vertex, and the adjacent face that is not visible."""


ClosestFace = tuple[Value, Value]
"""Smallest priority of all faces, and the index of this face."""


@dataclass(frozen=True, slots=True)
class ExcludedCone:
    """Cone of directions around a known local minimum of the depth, whose faces need not be expanded.

    With an edge, the region is narrower along the edge.
    """

    direction: Vector
    """Unit direction of the local minimum."""
    min_cosine: float
    """Cosine of the cone's half angle."""
    edge: Vector
    """Unit vector of an edge perpendicular to the direction, or zero."""
    max_edge_sine: float
    """Sine of the maximum angle along the edge."""
    min_offset: Value
    """Minimum offset of excluded faces."""

    def contains_face(self, normal: Vector, offset: Value) -> Value:
        """1 if a face with this normal and offset is in the region, otherwise 0."""
        is_near = less_than(self.min_cosine, dot(normal, self.direction)) * less_than(self.min_offset, offset)
        return is_near * less_than(ir.absolute(dot(normal, self.edge)), self.max_edge_sine)


class Polytope:
    """EPA polytope in local arrays: vertices, triangles with adjacency, and work arrays for inserting a vertex."""

    def __init__(self, tracer: Tracer, max_iterations: int) -> None:
        self.tracer = tracer
        self.excluded_cones: list[ExcludedCone] = []
        """Regions whose faces are excluded from the search for the closest face."""
        max_faces = 4 + 2 * max_iterations
        self.max_faces = max_faces
        self.vertices = tracer.allocate_local((5 + max_iterations) * VERTEX_SIZE)
        self.faces = tracer.allocate_local(max_faces * FACE_SIZE)
        self._visit_marks = tracer.allocate_local(max_faces)
        """Per face, the mark of the last insertion in which the face was visible."""
        self._visible_faces = tracer.allocate_local(max_faces + 1)
        """Indices of the visible faces, followed by a dummy entry."""
        self._horizon_edges = tracer.allocate_local((max_faces + 1) * HORIZON_EDGE_SIZE)
        self._edge_from_vertex = tracer.allocate_local(5 + max_iterations)
        """Per vertex, the index of the horizon edge that starts there."""
        self._horizon_loop = tracer.allocate_local((max_faces + 1) * 2)
        """Start vertex and outer face of the horizon edges in cyclic order."""

    def vertex(self, index: Value) -> list[Value]:
        """Read a vertex (`SupportPoint`, 6 scalars)."""
        return [self.tracer.read(self.vertices, i, VERTEX_SIZE * index) for i in range(VERTEX_SIZE)]

    def write_face(
        self, face: Value, vertex_indices: Sequence[Value], neighbours: Sequence[Value], corners: Sequence[Vector]
    ) -> Value:
        """Write a polytope triangle with vertices, neighbours, normal, plane offset and priority; returns the priority.

        The priority is the plane offset from the origin, or a very large value in an excluded cone (of directions
        that needs no further search).

        Args:
            face: index of the face.
            vertex_indices: three vertex indices, counter-clockwise seen from outside.
            neighbours: indices of the faces across the edges that start at these vertices.
            corners: positions of the three vertices.
        """
        normal = cross(sub(corners[1], corners[0]), sub(corners[2], corners[0]))
        square = dot(normal, normal)
        normal = scale(1.0 / ir.sqrt(ir.maximum(square, TINY)), normal)
        offset = ir.select(square, 16.0 * TINY, REMOVED_FACE_OFFSET, dot(normal, corners[2]))
        priority = self._face_priority(normal, offset)
        self.tracer.write(self.faces, [*vertex_indices, *neighbours, *normal, offset, priority], 0, FACE_SIZE * face)
        self.tracer.write(self._visit_marks, [0.0], 0, face)
        return priority

    def _face_priority(self, normal: Vector, offset: Value) -> Value:
        """Priority of a face: its offset, or `REMOVED_FACE_OFFSET` in an excluded cone."""
        priority = offset
        for region in self.excluded_cones:
            priority = ir.select(0.5, region.contains_face(normal, offset), REMOVED_FACE_OFFSET, priority)
        return priority

    def update_priorities(self, n_faces: Value) -> ClosestFace:
        """Recompute all face priorities (plane offset, or very large in excluded cones); returns the closest face."""
        tracer = self.tracer

        def update(face: Value) -> None:
            *normal, offset = (tracer.read(self.faces, FACE_NORMAL + i, FACE_SIZE * face) for i in range(4))
            tracer.write(self.faces, [self._face_priority(normal, offset)], FACE_PRIORITY, FACE_SIZE * face)

        tracer.counted_loop("faces", n_faces, update)
        return self._find_closest_face(n_faces)

    def insert_vertex(
        self,
        new_vertex: Sequence[Value],
        closest_face: ClosestFace,
        n_vertices: Value,
        n_faces: Value,
        visibility_tolerance: Value,
        visit_mark: Value,
    ) -> tuple[Value, Value, ClosestFace, Value]:
        """Insert a support point into the polytope: replaces the faces visible from it by faces to the horizon edges.

        Nothing is changed if rounding makes the horizon of barely visible faces something else than a single closed
        loop.

        Args:
            new_vertex: the support point.
            closest_face: priority and index of the closest face, which is visible from the point.
            n_vertices: number of vertices.
            n_faces: number of faces.
            visibility_tolerance: height above a face from which on the face is visible.
            visit_mark: value that differs between insertions.

        Returns:
            The new number of vertices and faces, the new closest face, and 1 if the vertex was inserted, otherwise 0.
        """
        tracer = self.tracer
        n_visible, n_edges = self._find_visible_faces(new_vertex[:3], closest_face[1], visibility_tolerance, visit_mark)
        is_loop = self._order_horizon_edges(n_edges)

        def build() -> list[Value]:
            tracer.write(self.vertices, new_vertex, 0, VERTEX_SIZE * n_vertices)
            tracer.new_basic_block()
            self._create_faces(new_vertex[:3], n_vertices, n_edges, n_visible, n_faces)
            count = n_faces + ir.maximum(n_edges - n_visible, 0.0)
            return [n_vertices + 1.0, count, *self._find_closest_face(count), 1.0]

        n_vertices_after, n_faces_after, offset, face, is_inserted = tracer.if_less(
            "build", 0.5, is_loop, build, [n_vertices, n_faces, *closest_face, 0.0]
        )
        return n_vertices_after, n_faces_after, (offset, face), is_inserted

    def _find_visible_faces(
        self, new_vertex: Vector, first_face: Value, visibility_tolerance: Value, visit_mark: Value
    ) -> tuple[Value, Value]:
        """Flood fill of the faces visible from a new vertex, starting at one visible face; collects the horizon edges.

        Writes the indices of the visible faces, their visit marks, and the horizon edges between visible and invisible
        faces.

        Returns:
            The numbers of visible faces and horizon edges.
        """
        tracer = self.tracer
        tracer.write(self._visible_faces, [first_face])
        tracer.write(self._visit_marks, [visit_mark], 0, first_face)
        tracer.new_basic_block()

        def visit_face(state: Sequence[Value]) -> tuple[list[Value], Value, Value]:
            position, n_visible, n_edges = state
            face = tracer.read(self._visible_faces, 0, position)
            vertices = [tracer.read(self.faces, i, FACE_SIZE * face) for i in range(3)]
            for i in range(3):
                neighbour = tracer.read(self.faces, FACE_NEIGHBOURS + i, FACE_SIZE * face)
                mark = tracer.read(self._visit_marks, 0, neighbour)
                is_visible = self._is_visible(new_vertex, neighbour, visibility_tolerance)
                is_unmarked = 1.0 - less_than(ir.absolute(mark - visit_mark), 0.25)
                is_visible, is_edge = is_unmarked * is_visible, is_unmarked * (1.0 - is_visible)
                tracer.write(self._visit_marks, [ir.select(0.5, is_visible, visit_mark, mark)], 0, neighbour)
                entry = ir.minimum(n_visible, float(self.max_faces))
                tracer.write(
                    self._visible_faces, [neighbour], 0, ir.select(0.5, is_visible, entry, float(self.max_faces))
                )
                self._record_horizon_edge(n_edges, is_edge, vertices[i], vertices[(i + 1) % 3], neighbour)
                n_visible, n_edges = n_visible + is_visible, n_edges + is_edge
            return [position + 1.0, n_visible, n_edges], position + 1.0, n_visible

        _, n_visible, n_edges = tracer.while_loop("visible faces", visit_face, [0.0, 1.0, 0.0], self.max_faces)
        return n_visible, n_edges

    def _is_visible(self, new_vertex: Vector, face: Value, visibility_tolerance: Value) -> Value:
        """1 if a point is above a face by more than the tolerance, otherwise 0."""
        normal = [self.tracer.read(self.faces, FACE_NORMAL + i, FACE_SIZE * face) for i in range(3)]
        return less_than(
            visibility_tolerance, dot(normal, new_vertex) - self.tracer.read(self.faces, FACE_OFFSET, FACE_SIZE * face)
        )

    def _record_horizon_edge(
        self, edge_index: Value, is_edge: Value, start_vertex: Value, end_vertex: Value, outer_face: Value
    ) -> None:
        """Store a horizon edge at `edge_index`, and its index by start vertex, if `is_edge` is 1.

        If `is_edge` is 0, the stores go to dummy entries, so that no branch is needed.
        """
        tracer, dummy_vertex = self.tracer, float(self.tracer.locals[self._edge_from_vertex] - 1)
        entry = ir.select(0.5, is_edge, ir.minimum(edge_index, float(self.max_faces - 1)), float(self.max_faces))
        tracer.write(self._horizon_edges, [start_vertex, end_vertex, outer_face], 0, HORIZON_EDGE_SIZE * entry)
        tracer.write(self._edge_from_vertex, [entry], 0, ir.select(0.5, is_edge, start_vertex, dummy_vertex))

    def _find_closest_face(self, n_faces: Value) -> ClosestFace:
        """Face with the smallest priority: the closest face to the origin that is not in an excluded cone.

        The loop is unrolled by `FACES_PER_ITERATION`; the last face is repeated if the number of faces is no multiple.
        """
        tracer, best = self.tracer, self.tracer.allocate_local(2)
        tracer.new_basic_block()
        tracer.write(best, [2.0 * REMOVED_FACE_OFFSET, 0.0])

        def visit_faces(index: Value) -> None:
            min_priority, face = tracer.read(best), tracer.read(best, 1)
            for i in range(FACES_PER_ITERATION):
                candidate = ir.minimum(FACES_PER_ITERATION * index + float(i), n_faces - 1.0)
                priority = tracer.read(self.faces, FACE_PRIORITY, FACE_SIZE * candidate)
                face = ir.select(priority, min_priority, candidate, face)
                min_priority = ir.minimum(min_priority, priority)
            tracer.write(best, [min_priority, face])

        tracer.counted_loop(
            "faces", ir.floor((n_faces + (FACES_PER_ITERATION - 0.5)) * (1.0 / FACES_PER_ITERATION)), visit_faces
        )
        return tracer.read(best), tracer.read(best, 1)

    def _order_horizon_edges(self, n_edges: Value) -> Value:
        """Sort the horizon edges into cyclic order in `_horizon_loop`; returns 1 if all form a single closed loop.

        Follows the edges from end vertex to start vertex, beginning with edge 0.
        """
        tracer = self.tracer
        state = tracer.allocate_local(3)
        tracer.write(state, [0.0, 0.0, less_than(n_edges, float(self.max_faces))])

        def follow(position: Value) -> None:
            edge, n_returns, is_valid = (tracer.read(state, i) for i in range(3))
            start_vertex, end_vertex, outer_face = (
                tracer.read(self._horizon_edges, i, HORIZON_EDGE_SIZE * edge) for i in range(HORIZON_EDGE_SIZE)
            )
            next_edge = tracer.read(self._edge_from_vertex, 0, end_vertex)
            is_connected = less_than(
                ir.absolute(tracer.read(self._horizon_edges, 0, HORIZON_EDGE_SIZE * next_edge) - end_vertex), 0.5
            )
            is_connected = is_connected * less_than(next_edge, n_edges)
            tracer.write(self._horizon_loop, [start_vertex, outer_face], 0, 2.0 * position)
            tracer.write(state, [next_edge, n_returns + less_than(next_edge, 0.5), is_valid * is_connected])

        tracer.counted_loop("edges", ir.minimum(n_edges, float(self.max_faces)), follow)
        edge, n_returns, is_valid = (tracer.read(state, i) for i in range(3))
        return is_valid * less_than(edge, 0.5) * less_than(ir.absolute(n_returns - 1.0), 0.5)

    def _create_faces(
        self, new_vertex: Vector, vertex_index: Value, n_edges: Value, n_visible: Value, n_faces: Value
    ) -> None:
        """Create a face from each horizon edge to the new vertex, and mark surplus visible faces as removed.

        New faces reuse the entries of the visible faces, then new entries at the end. Updates the adjacency of the
        outer faces.

        Args:
            new_vertex: position of the new vertex.
            vertex_index: its index.
            n_edges: number of horizon edges in `_horizon_loop`.
            n_visible: number of visible faces.
            n_faces: number of faces before the insertion.
        """
        tracer = self.tracer

        def face_entry(i: Value) -> Value:
            visible_face = tracer.read(self._visible_faces, 0, ir.minimum(i, float(self.max_faces)))
            return ir.select(i, n_visible, visible_face, n_faces + (i - n_visible))

        def build(index: Value) -> None:
            last = n_edges - 1.0
            next_index = ir.select(index, last, index + 1.0, 0.0)
            previous_index = ir.select(index, 0.5, last, index - 1.0)
            face = face_entry(index)
            start_vertex, outer_face = (tracer.read(self._horizon_loop, i, 2.0 * index) for i in range(2))
            end_vertex = tracer.read(self._horizon_loop, 0, 2.0 * next_index)
            corners = [self.vertex(start_vertex)[:3], self.vertex(end_vertex)[:3], new_vertex]
            self.write_face(
                face,
                [start_vertex, end_vertex, vertex_index],
                [outer_face, face_entry(next_index), face_entry(previous_index)],
                corners,
            )
            outer_vertices = [tracer.read(self.faces, i, FACE_SIZE * outer_face) for i in range(2)]
            is_start = [less_than(ir.absolute(start - end_vertex), 0.5) for start in outer_vertices]
            edge_of_outer = ir.select(0.5, is_start[0], 0.0, ir.select(0.5, is_start[1], 1.0, 2.0))
            tracer.write(self.faces, [face], FACE_NEIGHBOURS, FACE_SIZE * outer_face + edge_of_outer)

        tracer.counted_loop("edges", n_edges, build)

        def remove_face(index: Value) -> None:
            removed = tracer.read(self._visible_faces, 0, n_edges + index)
            tracer.write(
                self.faces, [0.0, 0.0, 0.0, REMOVED_FACE_OFFSET, REMOVED_FACE_OFFSET], FACE_NORMAL, FACE_SIZE * removed
            )

        tracer.counted_loop("removed faces", n_visible - n_edges, remove_face)


# ----------------------------------------------------------------------------------------- expanding polytope algorithm

EPA_MAX_ITERATIONS = 40
"""Maximum number of vertices inserted after the initial four."""
EPA_TOLERANCE = 1e-9
"""Convergence tolerance of the depth, in addition to rounding errors."""
UNKNOWN_DEPTH = 1e20
"""Stands for a depth that is not known yet."""
TETRAHEDRON_FACES = ((0, 1, 2), (0, 3, 1), (1, 3, 2), (2, 3, 0))
"""Vertex indices of the initial faces, counter-clockwise seen from outside."""
TETRAHEDRON_NEIGHBOURS = ((1, 2, 3), (3, 2, 0), (1, 3, 0), (2, 1, 0))
"""Indices of the faces across the edges of the initial faces."""


@dataclass(frozen=True, slots=True)
class EpaState:
    """Loop state of EPA: size of the polytope, closest face, and best direction so far."""

    n_vertices: Value
    n_faces: Value
    closest_face: ClosestFace
    best_direction: Vector
    """Of the directions tried, the direction with the smallest depth."""
    best_depth: Value
    """Smallest depth (support value) so far, an upper bound of the penetration depth."""
    replaces_one_face: Value
    """1 after a failed insertion: the next vertex replaces only the closest face, which cannot fail."""

    def flatten(self) -> list[Value]:
        """All fields as a list of 9 scalars."""
        return [
            self.n_vertices,
            self.n_faces,
            *self.closest_face,
            *self.best_direction,
            self.best_depth,
            self.replaces_one_face,
        ]

    @classmethod
    def unflatten(cls, values: Sequence[Value]) -> EpaState:
        """State from a list of 9 scalars."""
        return cls(values[0], values[1], (values[2], values[3]), values[4:7], values[7], values[8])


def epa_penetration(
    difference: MinkowskiDifference, initial_direction: Vector, starts_at_face: Value = 0.0
) -> SignedDistance:
    """Penetration depth, direction and witness point of two overlapping convex shapes by EPA.

    The Minkowski difference should have volume; if it is only a line, a perpendicular direction is returned. For smooth
    shapes that have not converged, the direction is refined by BFGS. The initial tetrahedron starts in
    `initial_direction`. If `starts_at_face` is 1, this is about the normal of the closest face, which is then a face of
    the tetrahedron.

    Returns:
        Signed distance, the negative penetration depth, with its direction and the point on the first shape. With
        `starts_at_face`, the distance is `UNKNOWN_DEPTH` if the depth is not proven: the initial tetrahedron has no
        volume, or EPA has not converged.
    """
    tracer = difference.tracer
    polytope = Polytope(tracer, EPA_MAX_ITERATIONS)
    has_volume: Value = 1.0
    if isinstance(starts_at_face, float):
        _find_initial_vertices(difference, polytope, initial_direction)
    else:
        far_apart = lambda: _find_initial_vertices(difference, polytope, initial_direction)  # noqa: E731
        at_face = lambda: _find_vertices_of_face(difference, polytope, initial_direction)  # noqa: E731
        if_less(tracer, "vertices far apart", starts_at_face, 0.5, far_apart)
        if_less(tracer, "vertices of a face", 0.5, starts_at_face, at_face)
        has_volume = _has_volume([polytope.vertex(float(i))[:3] for i in range(4)])
    closest_face: ClosestFace = (2.0 * REMOVED_FACE_OFFSET, 0.0)
    for face_index, (face, neighbours) in enumerate(zip(TETRAHEDRON_FACES, TETRAHEDRON_NEIGHBOURS, strict=True)):
        corners = [polytope.vertex(float(i))[:3] for i in face]
        priority = polytope.write_face(
            float(face_index), [float(i) for i in face], [float(i) for i in neighbours], corners
        )
        closest_face = (
            ir.minimum(closest_face[0], priority),
            ir.select(priority, closest_face[0], float(face_index), closest_face[1]),
        )
    tracer.new_basic_block()
    tolerance = 8.0 * difference.epsilon + EPA_TOLERANCE

    def step(flat: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        return expand_polytope(difference, polytope, EpaState.unflatten(flat), tolerance)

    first_vertex, *other_vertices = (polytope.vertex(float(i)) for i in range(4))
    longest: Vector = ZERO
    for other in other_vertices:
        edge = sub(other[:3], first_vertex[:3])
        longest = select_vector(dot(longest, longest), dot(edge, edge), edge, longest)
    perpendicular = perpendicular_unit(normalize_or_fallback(longest))
    start = EpaState(4.0, 4.0, closest_face, perpendicular, UNKNOWN_DEPTH, 0.0)
    end = EpaState.unflatten(tracer.while_loop("deepest", step, start.flatten(), EPA_MAX_ITERATIONS))
    # a line has no face; its depth in a perpendicular direction is that of any of its points
    end = replace(
        end,
        best_depth=ir.select(end.best_depth, 0.5 * UNKNOWN_DEPTH, end.best_depth, dot(first_vertex[:3], perpendicular)),
    )
    if not isinstance(starts_at_face, float):
        is_proven = has_volume * less_than(end.best_depth - end.closest_face[0], 2.0 * tolerance)
        is_unknown = starts_at_face * (1.0 - is_proven)
        end = replace(end, best_depth=ir.select(0.5, is_unknown, -UNKNOWN_DEPTH, end.best_depth))
    point = _find_witness_point(tracer, polytope, end.n_faces, end.closest_face[0] + 2.0 * tolerance, first_vertex[3:])
    if not difference.is_smooth:
        return SignedDistance(end.best_direction, -end.best_depth, point)

    def refine() -> list[Value]:
        direction, depth = minimize_depth_by_bfgs(difference, end.best_direction, ZERO, tolerance)
        return [*direction, depth]

    depth_gap = end.best_depth - end.closest_face[0]
    *direction, depth = tracer.if_less("slide", tolerance, depth_gap, refine, [*end.best_direction, end.best_depth])
    return SignedDistance(direction, -depth, point)


def _find_initial_vertices(difference: MinkowskiDifference, polytope: Polytope, initial_direction: Vector) -> None:
    """Write the four vertices of EPA's initial tetrahedron, far apart from each other.

    Two support points along `initial_direction` and its opposite, the farther support point perpendicular to their
    line, and the farther support point along the normal of the three. The order is such that the first face points away
    from the fourth vertex.
    """
    tracer = difference.tracer

    def find_vertex(index: Value) -> None:
        p = [polytope.vertex(float(i))[:3] for i in range(3)]
        along = normalize_or_fallback(sub(p[1], p[0]))
        beside = perpendicular_unit(along)
        plane_normal = normalize_or_fallback(cross(sub(p[1], p[0]), sub(p[2], p[0])), cross(along, beside))
        direction = select_vector(index, 0.5, initial_direction, select_vector(index, 1.5, beside, plane_normal))
        support_a, support_b = difference.support(direction), difference.support(scale(-1.0, direction))
        height = [ir.absolute(dot(direction, sub(x[:3], p[0]))) for x in (support_a, support_b)]
        uses_first = ir.select(index, 0.5, 1.0, less_than(height[1], height[0]))
        tracer.write(
            polytope.vertices,
            select_vector(0.5, uses_first, support_a, support_b),
            0,
            VERTEX_SIZE * ir.select(index, 0.5, 0.0, index + 1.0),
        )
        tracer.write(polytope.vertices, support_b, 0, VERTEX_SIZE * ir.select(index, 0.5, 1.0, 4.0))

    tracer.write(polytope.vertices, [0.0] * (5 * VERTEX_SIZE))
    tracer.counted_loop("initial vertices", 3.0, find_vertex, uniform=True)
    _orient_first_face(polytope)


def _orient_first_face(polytope: Polytope) -> None:
    """Swap two of the first four vertices unless the first face points away from the fourth vertex."""
    tracer = polytope.tracer
    p = [polytope.vertex(float(i)) for i in range(4)]
    normal = cross(sub(p[1][:3], p[0][:3]), sub(p[2][:3], p[0][:3]))
    orientation = dot(normal, sub(p[3][:3], p[0][:3]))
    tracer.write(polytope.vertices, select_vector(0.0, orientation, p[2], p[1]), VERTEX_SIZE)
    tracer.write(polytope.vertices, select_vector(0.0, orientation, p[1], p[2]), 2 * VERTEX_SIZE)
    tracer.new_basic_block()


FACE_TILT = 0.2
"""Tangent of the angle between the normal of a face and the directions of the initial support points."""
FACE_TRIANGLE = ((0.9, -0.5), (0.0, 1.0), (-0.9, -0.5))
"""Tangential directions of the three initial support points around the normal of a face."""
MIN_VOLUME = 1e-4
"""Volume of the initial tetrahedron, relative to the product of the lengths of its edges at a vertex, from which on it
is used."""


def _find_vertices_of_face(difference: MinkowskiDifference, polytope: Polytope, normal: Vector) -> None:
    """Write the vertices of an initial tetrahedron: three of the face with about the given normal, one opposite.

    The three are support points in directions around the normal. The order is such that the first face points away
    from the fourth vertex.
    """
    tracer = difference.tracer
    tangent = perpendicular_unit(normal)
    bitangent = cross(normal, tangent)
    directions = tracer.allocate_local(12)
    for i, (x, y) in enumerate(FACE_TRIANGLE):
        tilted = add(normal, add(scale(FACE_TILT * x, tangent), scale(FACE_TILT * y, bitangent)))
        tracer.write(directions, normalize_or_fallback(tilted), 3 * i)
    tracer.write(directions, scale(-1.0, normal), 9)
    tracer.new_basic_block()

    def find_vertex(index: Value) -> None:
        point = difference.support([tracer.read(directions, i, 3.0 * index) for i in range(3)])
        tracer.write(polytope.vertices, point, 0, VERTEX_SIZE * index)

    tracer.counted_loop("vertices of a face", 4.0, find_vertex, uniform=True)
    _orient_first_face(polytope)


def _has_volume(points: Sequence[Vector]) -> Value:
    """1 if a tetrahedron is not flat, else 0."""
    edges = [sub(p, points[0]) for p in points[1:]]
    volume, scale_squared = dot(edges[0], cross(edges[1], edges[2])), MIN_VOLUME**2
    lengths_squared = dot(edges[0], edges[0]) * dot(edges[1], edges[1]) * dot(edges[2], edges[2])
    return less_than(scale_squared * lengths_squared, volume * volume)


def expand_polytope(
    difference: MinkowskiDifference,
    polytope: Polytope,
    state: EpaState,
    tolerance: Value,
    sufficient_depth: Value = UNKNOWN_DEPTH,
) -> tuple[list[Value], Value, Value]:
    """One EPA iteration: insert the support point along the normal of the closest face into the polytope.

    Converged if the depth is known to `tolerance`, or the closest face is farther than `sufficient_depth`.

    Returns:
        The flattened new state, and two values a and b; iterations continue while a < b.
    """
    tracer = difference.tracer
    offset, face = state.closest_face
    direction = [tracer.read(polytope.faces, FACE_NORMAL + i, FACE_SIZE * face) for i in range(3)]
    support_point = difference.support(direction)
    depth = ir.select(offset, 0.5 * REMOVED_FACE_OFFSET, dot(support_point[:3], direction), UNKNOWN_DEPTH)
    best = [
        *select_vector(depth, state.best_depth, direction, state.best_direction),
        ir.minimum(state.best_depth, depth),
    ]

    def insert() -> list[Value]:
        visibility_tolerance = ir.select(0.5, state.replaces_one_face, 1.0 / TINY, 4.0 * difference.epsilon)
        # a failed insertion is repeated with the same number of vertices
        visit_mark = state.n_vertices + 0.5 * state.replaces_one_face
        n_points, n_faces, closest_face, is_inserted = polytope.insert_vertex(
            support_point, state.closest_face, state.n_vertices, state.n_faces, visibility_tolerance, visit_mark
        )
        return [
            n_points,
            n_faces,
            *closest_face,
            1.0 - is_inserted,
            ir.maximum(is_inserted, 1.0 - state.replaces_one_face),
        ]

    gap = ir.minimum(depth, sufficient_depth) - offset
    *sizes, replaces_one_face, continues = tracer.if_less(
        "expand", tolerance, gap, insert, [state.n_vertices, state.n_faces, *state.closest_face, 0.0, 0.0]
    )
    return [*sizes, *best, replaces_one_face], 0.5, continues


def _find_witness_point(
    tracer: Tracer, polytope: Polytope, n_faces: Value, max_offset: Value, fallback: Vector
) -> Vector:
    """Witness point on the first shape: projection of the origin on a closest face of the polytope.

    Of the faces with an offset below `max_offset` (coplanar faces are equally close), the face whose smallest
    barycentric coordinate of the projected origin is largest is used; negative coordinates are clamped to zero.

    Args:
        tracer: tracer.
        polytope: expanded polytope.
        n_faces: number of faces.
        max_offset: maximum offset of the faces considered.
        fallback: point returned if there is no such face.
    """
    best = tracer.allocate_local(4)
    tracer.write(best, [-1.0 / TINY, *fallback])

    def visit_face(face: Value) -> None:
        offset = tracer.read(polytope.faces, FACE_OFFSET, FACE_SIZE * face)

        def compare() -> list[Value]:
            corners = [polytope.vertex(tracer.read(polytope.faces, i, FACE_SIZE * face)) for i in range(3)]
            barycentric = _barycentric_of_origin(*(c[:3] for c in corners))
            min_barycentric = ir.minimum(barycentric[0], ir.minimum(barycentric[1], barycentric[2]))
            best_barycentric = tracer.read(best)
            positive = [ir.maximum(x, 0.0) for x in barycentric]
            inverse_sum = 1.0 / ir.maximum(positive[0] + positive[1] + positive[2], TINY)
            point = [dot(scale(inverse_sum, positive), [c[3 + i] for c in corners]) for i in range(3)]
            best_point = [tracer.read(best, 1 + i) for i in range(3)]
            tracer.write(
                best,
                [
                    ir.maximum(best_barycentric, min_barycentric),
                    *select_vector(best_barycentric, min_barycentric, point, best_point),
                ],
            )
            return []

        tracer.if_less("near", offset, ir.minimum(max_offset, 0.5 * REMOVED_FACE_OFFSET), compare, [])

    tracer.counted_loop("faces", n_faces, visit_face)
    return [tracer.read(best, 1 + i) for i in range(3)]


def _barycentric_of_origin(a: Vector, b: Vector, c: Vector) -> list[Value]:
    """Barycentric coordinates of the origin's projection on the plane of a triangle."""
    edge_ab, edge_ac, origin = sub(b, a), sub(c, a), scale(-1.0, a)
    normal = cross(edge_ab, edge_ac)
    inverse = 1.0 / ir.maximum(dot(normal, normal), TINY)
    barycentric = [dot(normal, cross(origin, edge_ac)) * inverse, dot(normal, cross(edge_ab, origin)) * inverse]
    return [1.0 - barycentric[0] - barycentric[1], *barycentric]
