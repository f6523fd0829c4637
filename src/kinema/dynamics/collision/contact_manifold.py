"""Contact manifold of two convex geoms: clipping of support features (faces or edges), point reduction.

The support features of both geoms along the contact normal are projected on the tangent plane. One feature (the
subject) is clipped by the edges of the other (Sutherland-Hodgman). At each remaining corner the distance of the two
surfaces is evaluated; close points are merged, and their number is reduced. No point is deeper than the penetration
depth of the geoms. For resting face contacts the points are the same from step to step.
"""

from __future__ import annotations

from dataclasses import dataclass

from kinema import ir
from kinema.ir import Tracer, Value

from ..vector_math import Vector, add, cross, rotate, rotate_inverse, scale
from .collision_types import CollisionGeom, ContactQuery
from .contact_buffer_specs import MAX_MANIFOLD_CONTACTS
from .convex_distance import ConvexPairDistance, emit_closest_point, emit_local_point
from .support_mapping import SUPPORT_FEATURES
from .vector_math import TINY, less_than, norm, perpendicular_unit, select_vector, sign

# ------------------------------------------------------------------------------------------ reduction of contact points


def reduce_polygon(tracer: Tracer, point_buffer: str, count: Value, deepest_index: Value, max_points: int) -> Value:
    """Reduce a polygon of contact points to `max_points`, repeatedly removing the vertex of smallest triangle area.

    The triangle of a vertex is formed with its two neighbours. The deepest point is never removed. Modifies
    `point_buffer` in place.

    Args:
        tracer: tracer.
        point_buffer: name of the local array with 4 scalars per point, the first two being tangential coordinates.
        count: number of points.
        deepest_index: index of the deepest point.
        max_points: maximum number of points that remain.

    Returns:
        The number of remaining points.
    """
    state = tracer.allocate_local(4)
    # number of points, index of the deepest point, smallest area, index of its vertex
    tracer.write(state, [count, deepest_index, 0.0, 0.0])

    def tangential(index: Value) -> list[Value]:
        return [tracer.read(point_buffer, i, 4.0 * index) for i in range(2)]

    def remove_vertex(_: Value) -> None:
        n_left, deepest = tracer.read(state), tracer.read(state, 1)
        tracer.write(state, [1.0 / TINY, 0.0], 2)

        def measure_area(vertex: Value) -> None:
            previous = ir.select(vertex, 0.5, n_left - 1.0, vertex - 1.0)
            following_vertex = ir.select(vertex, n_left - 1.5, vertex + 1.0, 0.0)
            p, q, r = (tangential(index) for index in (previous, vertex, following_vertex))
            area = ir.absolute((q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]))
            area = ir.select(ir.absolute(vertex - deepest), 0.5, 1.0 / TINY, area)
            min_area = tracer.read(state, 2)
            tracer.write(
                state, [ir.minimum(min_area, area), ir.select(area, min_area, vertex, tracer.read(state, 3))], 2
            )

        tracer.counted_loop("triangle areas", n_left, measure_area)
        removed = tracer.read(state, 3)

        def shift(index: Value) -> None:
            next_point = [tracer.read(point_buffer, i, 4.0 * (removed + index + 1.0)) for i in range(4)]
            tracer.write(point_buffer, next_point, 0, 4.0 * (removed + index))

        tracer.counted_loop("shift", n_left - 1.0 - removed, shift)
        tracer.write(state, [n_left - 1.0, deepest - less_than(removed, deepest)])

    tracer.counted_loop("remove vertices", count - float(max_points), remove_vertex)
    return ir.minimum(count, float(max_points))


# ----------------------------------------------------------------------------------------- clipping of support features

CLIP_TOLERANCE = 1e-5
"""Distance outside a clipping edge, relative to the geom size, up to which a corner is kept."""
DEPTH_TOLERANCES = (0.01, 2e-5)
"""Allowed difference between the deepest corner and the penetration depth: relative, and relative to the geom size."""
MERGE_DISTANCE = 1e-3
"""Distance, relative to the size of the smaller geom, below which two points are merged, as both together would be
twice as stiff. In single precision, the normal between smooth geoms and therefore the corners are known to this
accuracy."""
NEAREST_POINT_TOLERANCE = 2e-3
"""Tangential distance, relative to the larger geom, below which the deepest corner is identified with the closest
point."""
PARALLEL_EDGES_SINE = 0.05
"""Sine of the angle between two edges below which they have more than one contact."""
CORNER_SIZE = 3
"""Scalars of a corner: two tangential coordinates and the height along the normal."""
MIN_NORMAL_COMPONENT = 0.05
"""Lower bound of the normal component of a feature's normal, to limit the slope."""


@dataclass(frozen=True, slots=True)
class _ProjectedFeature:
    """Support feature of a geom in contact coordinates (two tangential axes and the normal)."""

    buffer_start: int
    """Start of its corners in the corner buffer."""
    n_corners: Value
    slope: tuple[Value, Value]
    """Gradient of the surface height along the normal with respect to the tangential coordinates."""


@dataclass(frozen=True, slots=True)
class _SelectedFeature:
    """One of the two projected features, selected per environment."""

    buffer_start: Value
    n_corners: Value
    slope: list[Value]
    is_first: Value
    """1 if the feature belongs to the first geom."""


def emit_manifold(
    query: ContactQuery,
    geom_types: tuple[str, str],
    pair_distance: ConvexPairDistance,
    a: CollisionGeom,
    b: CollisionGeom,
) -> None:
    """Emit the contact manifold of two convex geoms by clipping their support features, or else the closest point.

    The closest point of `pair_distance` (GJK and EPA) is emitted if the features have no common area or the deepest
    manifold point is less deep than the penetration depth.
    """
    tracer = query.tracer

    def emit_features() -> list[Value]:
        return [_emit_clipped_features(query, geom_types, pair_distance, a, b)]

    distance = pair_distance.signed_distance.distance
    (is_sufficient,) = tracer.if_less(
        "manifold", distance, query.margin / pair_distance.length_scale, emit_features, [0.0]
    )

    def emit_closest() -> list[Value]:
        emit_closest_point(query, pair_distance, b)
        return []

    tracer.if_less("closest point", is_sufficient, 0.5, emit_closest, [])


def _emit_clipped_features(
    query: ContactQuery,
    geom_types: tuple[str, str],
    pair_distance: ConvexPairDistance,
    a: CollisionGeom,
    b: CollisionGeom,
) -> Value:
    """Project the support features of both geoms on the tangent plane, clip one by the other and emit the points.

    Returns:
        1 if points were emitted and the deepest of them has the penetration depth of the pair, otherwise 0.
    """
    tracer = query.tracer
    max_corners = [SUPPORT_FEATURES[geom_type].max_vertices for geom_type in geom_types]
    corner_buffer = tracer.allocate_local(CORNER_SIZE * sum(max_corners))
    normal = pair_distance.signed_distance.direction
    tangent = perpendicular_unit(normal)
    contact_axes = [tangent, cross(normal, tangent), normal]
    inverse_scale = 1.0 / pair_distance.length_scale

    def to_contact_a(point: Vector) -> Vector:
        scaled_point = add(
            pair_distance.relative_position, scale(inverse_scale, rotate(pair_distance.relative_rotation, point))
        )
        return rotate(contact_axes, add(scaled_point, scale(inverse_scale * pair_distance.cores[0].radius, normal)))

    def to_contact_b(point: Vector) -> Vector:
        return rotate(contact_axes, scale(inverse_scale, add(point, scale(-pair_distance.cores[1].radius, normal))))

    def project_feature(
        geom_index: int, geom: CollisionGeom, to_contact: object, direction: Vector, to_local_axes: object
    ) -> _ProjectedFeature:
        start = CORNER_SIZE * sum(max_corners[:geom_index])
        find_feature = SUPPORT_FEATURES[geom_types[geom_index]].find
        count, feature_normal = find_feature(
            tracer,
            geom,
            direction,
            lambda i, point: tracer.write(corner_buffer, to_contact(point), start, CORNER_SIZE * i),  # type: ignore[operator]  # ty: ignore[not-callable]
        )
        normal_components = rotate(contact_axes, to_local_axes(feature_normal))  # type: ignore[operator]  # ty: ignore[not-callable]
        normal_height = sign(normal_components[2]) * ir.maximum(ir.absolute(normal_components[2]), MIN_NORMAL_COMPONENT)
        return _ProjectedFeature(
            start, count, (-normal_components[0] / normal_height, -normal_components[1] / normal_height)
        )

    feature_a = project_feature(
        0,
        a,
        to_contact_a,
        rotate_inverse(pair_distance.relative_rotation, normal),
        lambda v: rotate(pair_distance.relative_rotation, v),
    )
    feature_b = project_feature(1, b, to_contact_b, scale(-1.0, normal), lambda v: v)
    tracer.new_basic_block()
    return _FeatureClipper(query, pair_distance, b, corner_buffer, contact_axes).emit_clipped(
        feature_a, feature_b, sum(max_corners)
    )


class _FeatureClipper:
    """Clipping of the projected support features of two convex geoms, and emission of the contact points."""

    def __init__(
        self,
        query: ContactQuery,
        pair_distance: ConvexPairDistance,
        b: CollisionGeom,
        corner_buffer: str,
        contact_axes: list[Vector],
    ) -> None:
        self.query, self.pair_distance, self.b = query, pair_distance, b
        self.tracer: Tracer = query.tracer
        self.corner_buffer, self.contact_axes = corner_buffer, contact_axes
        self.merge_distance = (
            MERGE_DISTANCE
            * ir.minimum(*(core.bounding_radius for core in pair_distance.cores))
            / pair_distance.length_scale
        )

    def emit_clipped(self, first: _ProjectedFeature, second: _ProjectedFeature, max_corners: int) -> Value:
        """Clip one feature (face, edge) by the other and emit the contact points; 1 if deep enough, else 0.

        The subject (clipped feature) is an edge if there is one. Nothing is emitted if a feature is a single vertex, or
        if both are edges that are not parallel. Together the features have at most `max_corners` corners.
        """
        is_first = ir.select(second.n_corners, 2.5, less_than(first.n_corners, 2.5), 1.0)
        subject, clip = (
            self._select_feature(is_first, first, second),
            self._select_feature(1.0 - is_first, first, second),
        )
        min_corners = ir.minimum(first.n_corners, second.n_corners)
        is_clippable = less_than(1.5, min_corners) * ir.maximum(
            self._are_parallel(subject, clip), less_than(2.5, clip.n_corners)
        )

        def clip_and_emit() -> list[Value]:
            clipped_buffer, count = self._clip_subject(subject, clip, max_corners)
            return [self._emit_clipped_points(clipped_buffer, count, subject, clip, max_corners)]

        return self.tracer.if_less("clip features", 0.5, is_clippable, clip_and_emit, [0.0])[0]

    def _select_feature(self, is_first: Value, first: _ProjectedFeature, second: _ProjectedFeature) -> _SelectedFeature:
        flattened = [[float(feature.buffer_start), feature.n_corners, *feature.slope] for feature in (first, second)]
        start, count, *slope = select_vector(0.5, is_first, flattened[0], flattened[1])
        return _SelectedFeature(start, count, slope, is_first)

    def _read_corner(self, buffer_start: Value, index: Value) -> list[Value]:
        return [self.tracer.read(self.corner_buffer, i, buffer_start + CORNER_SIZE * index) for i in range(CORNER_SIZE)]

    def _are_parallel(self, subject: _SelectedFeature, clip: _SelectedFeature) -> Value:
        """1 if the first edges of two features are parallel in the tangent plane, otherwise 0."""
        edges = []
        for feature in (subject, clip):
            start, end = (self._read_corner(feature.buffer_start, float(i)) for i in range(2))
            edges.append([start[0] - end[0], start[1] - end[1]])
        sine = ir.absolute(edges[0][0] * edges[1][1] - edges[0][1] * edges[1][0])
        return less_than(sine, PARALLEL_EDGES_SINE * norm(edges[0]) * norm(edges[1]))

    def _clip_subject(self, subject: _SelectedFeature, clip: _SelectedFeature, max_corners: int) -> tuple[str, Value]:
        """Clip the subject feature by all edges of the clip feature (Sutherland-Hodgman), up to `max_corners` corners.

        A clip feature with two corners (an edge) clips the subject at its ends. A subject edge stays an open polyline.

        Returns:
            Name of the local array with the clipped corners (3 scalars each), and their number.
        """
        tracer = self.tracer
        half_size = CORNER_SIZE * (max_corners + 1)
        clipped_buffer = tracer.allocate_local(2 * half_size)
        state = tracer.allocate_local(3)
        # start of the current polygon, its number of corners, number of corners of the next polygon so far
        tracer.write(state, [0.0, subject.n_corners, 0.0])

        def copy(index: Value) -> None:
            tracer.write(clipped_buffer, self._read_corner(subject.buffer_start, index), 0, CORNER_SIZE * index)

        tracer.counted_loop("copy", subject.n_corners, copy)
        is_closed = less_than(2.5, subject.n_corners)

        def clip_by_edge(edge: Value) -> None:
            next_index = ir.select(edge, clip.n_corners - 1.5, edge + 1.0, 0.0)
            p, q = self._read_corner(clip.buffer_start, edge), self._read_corner(clip.buffer_start, next_index)
            inward_normal = self._inward_normal(p, q, clip)
            start, count = tracer.read(state), tracer.read(state, 1)
            tracer.write(state, [0.0], 2)
            tracer.counted_loop("corners", count, lambda index: clip_corner(index, p, inward_normal, start, count))
            tracer.write(state, [float(half_size) - start, ir.minimum(tracer.read(state, 2), float(max_corners))])

        def clip_corner(index: Value, p: Vector, inward_normal: Vector, start: Value, count: Value) -> None:
            last_index = ir.select(0.5, is_closed, 0.0, index)  # an edge is not closed
            next_index = ir.select(index, count - 1.5, index + 1.0, last_index)
            x, y = (
                [tracer.read(clipped_buffer, i, start + CORNER_SIZE * k) for i in range(CORNER_SIZE)]
                for k in (index, next_index)
            )
            heights = [inward_normal[0] * (z[0] - p[0]) + inward_normal[1] * (z[1] - p[1]) for z in (x, y)]
            is_inside, is_outside = ([test(h) for h in heights] for test in (lambda h: less_than(0.0, h), _is_clipped))
            keeps_corner, crosses = 1.0 - is_outside[0], is_inside[0] * is_outside[1] + is_outside[0] * is_inside[1]
            fraction = heights[0] / ir.select(0.5, crosses, heights[0] - heights[1], 1.0)
            crossing = [u + fraction * (v - u) for u, v in zip(x, y, strict=True)]
            n_kept, dummy_entry = tracer.read(state, 2), float(max_corners)
            for is_kept, corner in ((keeps_corner, x), (crosses, crossing)):
                entry = ir.select(0.5, is_kept, ir.minimum(n_kept, dummy_entry), dummy_entry)
                tracer.write(clipped_buffer, corner, 0, (float(half_size) - start) + CORNER_SIZE * entry)
                n_kept = n_kept + is_kept
            tracer.write(state, [n_kept], 2)

        tracer.counted_loop("edges", clip.n_corners, clip_by_edge)
        # which half of the buffer holds the result is known only at run time
        return clipped_buffer, self._compact(clipped_buffer, tracer.read(state), tracer.read(state, 1))

    def _compact(self, clipped_buffer: str, buffer_start: Value, count: Value) -> Value:
        """Copy `count` consecutive corners from offset `buffer_start` of a buffer to its start; returns `count`."""
        tracer = self.tracer

        def copy(index: Value) -> None:
            tracer.write(
                clipped_buffer,
                [tracer.read(clipped_buffer, i, buffer_start + CORNER_SIZE * index) for i in range(CORNER_SIZE)],
                0,
                CORNER_SIZE * index,
            )

        tracer.counted_loop("compact", ir.select(0.5, buffer_start, count, 0.0), copy)
        return count

    def _inward_normal(self, edge_start: Vector, edge_end: Vector, clip: _SelectedFeature) -> list[Value]:
        """Inward unit normal of a clip edge in the tangent plane; the edge direction if the clip feature is an edge."""
        x, y = edge_end[0] - edge_start[0], edge_end[1] - edge_start[1]
        inverse_length = 1.0 / ir.maximum(norm([x, y]), TINY)
        signed_inverse = ir.select(0.5, clip.is_first, inverse_length, -inverse_length)
        return select_vector(
            clip.n_corners, 2.5, [inverse_length * x, inverse_length * y], [-signed_inverse * y, signed_inverse * x]
        )

    def _emit_clipped_points(
        self, clipped_buffer: str, count: Value, subject: _SelectedFeature, clip: _SelectedFeature, max_corners: int
    ) -> Value:
        """Emit the clipped corners as contacts: evaluates distances, merges close points, reduces their number.

        The distance at a corner is the height difference between the subject and the plane of the clip feature, at
        least the signed distance of the geoms. Corners beyond the margin are dropped. `clipped_buffer` has `count`
        corners.

        Returns:
            1 if the deepest point has the penetration depth of the geoms up to a tolerance, otherwise 0.
        """
        tracer, pair_distance = self.tracer, self.pair_distance
        points, state = tracer.allocate_local(4 * (max_corners + 1)), tracer.allocate_local(3)
        # points: two tangential coordinates, height of the midpoint, gap
        # state: number of points, index and gap of the deepest point
        tracer.write(state, [0.0, 0.0, 1.0 / TINY])
        tracer.write(points, [0.0] * 4)
        base = self._read_corner(clip.buffer_start, 0.0)
        margin = self.query.margin / pair_distance.length_scale

        def visit_corner(index: Value) -> None:
            x, y, z = (tracer.read(clipped_buffer, i, CORNER_SIZE * index) for i in range(CORNER_SIZE))
            clip_height = base[2] + clip.slope[0] * (x - base[0]) + clip.slope[1] * (y - base[1])
            # corners slightly outside a face and degenerate faces must not be deeper than the geoms
            gap = ir.maximum(
                ir.select(0.5, subject.is_first, clip_height - z, z - clip_height),
                pair_distance.signed_distance.distance,
            )
            n_stored, deepest, min_gap = (tracer.read(state, i) for i in range(3))
            is_near = less_than(gap, margin)
            entry, is_deeper_than_merged = self._find_merge_entry(points, n_stored, [x, y], gap)
            tracer.write(
                points,
                [x, y, 0.5 * (z + clip_height), gap],
                0,
                4.0 * ir.select(0.5, is_near * is_deeper_than_merged, entry, float(max_corners)),
            )
            is_new = is_near * less_than(n_stored - 0.5, entry)
            is_deepest = is_near * less_than(gap, min_gap)
            tracer.write(
                state,
                [
                    n_stored + is_new,
                    ir.select(0.5, is_deepest, entry, deepest),
                    ir.select(0.5, is_deepest, gap, min_gap),
                ],
            )

        tracer.counted_loop("distances", count, visit_corner)
        n_points, deepest, min_gap = (tracer.read(state, i) for i in range(3))
        min_gap = self._snap_deepest_to_nearest(points, deepest, min_gap)
        if max_corners > MAX_MANIFOLD_CONTACTS:
            n_points = reduce_polygon(tracer, points, n_points, deepest, MAX_MANIFOLD_CONTACTS)
        relative_tolerance, absolute_tolerance = DEPTH_TOLERANCES
        distance = pair_distance.signed_distance.distance
        is_sufficient = less_than(min_gap, distance + relative_tolerance * ir.absolute(distance) + absolute_tolerance)

        def emit_point(index: Value) -> None:
            *position, gap = (tracer.read(points, i, 4.0 * index) for i in range(4))
            emit_local_point(self.query, pair_distance, self.b, gap, rotate_inverse(self.contact_axes, position))

        tracer.counted_loop("points", n_points, emit_point)
        return is_sufficient

    def _find_merge_entry(
        self, point_buffer: str, n_points: Value, position: list[Value], gap: Value
    ) -> tuple[Value, Value]:
        """Entry of a new contact point: the entry of a close existing point to merge with, or the end of the list.

        As corners are visited in cyclic order, only the first and the last existing points are compared.

        Args:
            point_buffer: local array with 4 scalars per point (tangential coordinates, height, gap).
            n_points: number of existing points.
            position: tangential coordinates of the new point.
            gap: distance of the surfaces at the new point.

        Returns:
            The entry, and 1 if the new point is to be stored there: unless it is merged with a deeper point.
        """
        entry, is_stored = n_points, 1.0
        for other in (0.0, ir.maximum(n_points - 1.0, 0.0)):
            x, y, _, other_gap = (self.tracer.read(point_buffer, i, 4.0 * other) for i in range(4))
            is_close = less_than(0.5, n_points) * less_than(
                norm([position[0] - x, position[1] - y]), self.merge_distance
            )
            entry = ir.select(0.5, is_close, other, entry)
            is_stored = ir.select(0.5, is_close, less_than(gap, other_gap), is_stored)
        return entry, is_stored

    def _snap_deepest_to_nearest(self, point_buffer: str, deepest_index: Value, deepest_distance: Value) -> Value:
        """Set the distance of the deepest point to the signed distance of the geoms if it is their closest point.

        The deepest corner and the closest point are identified if their tangential distance is within the rounding
        tolerance. Writes the distance to `point_buffer`.

        Returns:
            The distance of the deepest point.
        """
        tracer, signed_distance = self.tracer, self.pair_distance.signed_distance
        nearest = rotate(self.contact_axes, signed_distance.point)
        tangential_offset = [tracer.read(point_buffer, i, 4.0 * deepest_index) - nearest[i] for i in range(2)]
        is_nearest = less_than(norm(tangential_offset), NEAREST_POINT_TOLERANCE) * less_than(
            deepest_distance, 0.5 / TINY
        )
        deepest_distance = ir.select(0.5, is_nearest, signed_distance.distance, deepest_distance)
        tracer.write(point_buffer, [deepest_distance], 3, 4.0 * deepest_index)
        return deepest_distance


def _is_clipped(height: Value) -> Value:
    return less_than(height, -CLIP_TOLERANCE)
