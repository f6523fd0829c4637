"""Contacts of a signed distance field (SDF) with a plane, height field, primitive, convex mesh or another SDF.

Sample points of each geom are evaluated in the other geom: samples of a primitive or vertices of a mesh in the SDF, and
surface sample points of the SDF in the other geom; a primitive is evaluated by its contact function with a sphere of
radius zero. The candidate contacts are reduced to a few per normal direction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from kinema import ir
from kinema.ir import Value

from ..vector_math import Vector, add, dot, matmul, rotate, rotate_inverse, scale, sub, transpose
from .collision_types import CollisionFunction, CollisionGeom, CollisionTableEntry, ContactQuery, PackedHull
from .contact_buffer_specs import CONTACTS_PER_NORMAL_BIN, MAX_SDF_CONTACTS, N_NORMAL_BINS, SDF_TYPE
from .height_field import cells_in_interval
from .sdf import SURFACE_SAMPLES, SdfGrid, SurfaceSamples
from .sphere_capsule_pairs import (
    collide_sphere_box,
    collide_sphere_capsule,
    collide_sphere_cone,
    collide_sphere_cylinder,
    collide_sphere_ellipsoid,
    collide_sphere_sphere,
)
from .support_mapping import CONVEX_CORES, face_normal, face_vertex_list, hull_vertex
from .vector_math import floor_by_rounding, if_less, normalize_or_fallback, select_vector

# ---------------------------------------------------------------------------------------------------- contact reduction

EXTREMAL_DIRECTIONS = ((0.8, 0.6), (-0.6, 0.8), (-0.8, -0.6), (0.6, -0.8))
"""Tangential directions in which the farthest contact is kept; at angles at which geoms are rarely aligned."""
DEPTH_WEIGHT = 10.0
"""Weight of the depth relative to the tangential extent in the score of a contact."""
REPLACEMENT_TOLERANCE = 1e-3
"""Improvement of the score, relative to the smaller geom, that a later contact needs, so that rounding does not
decide."""
ENTRY_POINT_ID, ENTRY_DISTANCE, ENTRY_POINT, ENTRY_NORMAL, ENTRY_SCORE, ENTRY_SIZE = 0, 1, 2, 5, 8, 9
"""Offsets of the fields of an entry, and its size: point id, distance, point (3), normal (3), score."""
UNSET_SCORE = 1e30
"""Negated score of an empty entry."""


class ContactReducer:
    """Reduction of many candidate contacts of a geom pair to a few, in the axes of the second geom.

    Candidates are binned by the signed coordinate axis closest to their normal. Each bin keeps the deepest candidate
    and the candidates that are farthest in four tangential directions. The entries are in a local array.
    """

    def __init__(self, query: ContactQuery, geom_radius: Value) -> None:
        self._query = query
        self._tolerance = REPLACEMENT_TOLERANCE * geom_radius
        self._entries = query.tracer.allocate_local(ENTRY_SIZE * MAX_SDF_CONTACTS)
        tracer = query.tracer

        def clear_entry(entry: Value) -> None:
            tracer.write(self._entries, [-1.0], ENTRY_POINT_ID, float(ENTRY_SIZE) * entry)
            tracer.write(self._entries, [-UNSET_SCORE], ENTRY_SCORE, float(ENTRY_SIZE) * entry)

        tracer.counted_loop("clear slots", float(MAX_SDF_CONTACTS), clear_entry, uniform=True)

    def add_candidate(self, point_id: Value, distance: Value, point: Vector, normal: Vector) -> None:
        """Add a candidate contact to the reduction (deepest and extremal contacts per normal bin) if below the margin.

        Args:
            point_id: unique id of the sample point, used to remove duplicates.
            distance: signed distance [m].
            point: point midway between the surfaces, in the axes of the second geom [m].
            normal: unit normal from the first to the second geom, in the axes of the second geom.
        """
        if_less(
            self._query.tracer,
            "within margin",
            distance,
            self._query.margin,
            lambda: self._update_entries(point_id, distance, point, normal),
        )

    def _update_entries(self, point_id: Value, distance: Value, point: Vector, normal: Vector) -> None:
        """Store a candidate contact in every entry of its normal bin in which its score is higher.

        The scores of the five entries are the depth, and the extent in four tangential directions plus the weighted
        depth.
        """
        tracer = self._query.tracer
        x, y, z = (ir.absolute(n) for n in normal)
        is_x = ir.select(x, ir.maximum(y, z), 0.0, 1.0)
        is_y = (1.0 - is_x) * ir.select(y, z, 0.0, 1.0)
        tangential = select_vector(0.5, is_x, point[1:], select_vector(0.5, is_y, [point[2], point[0]], point[:2]))
        normal_component = select_vector(0.5, is_x, [normal[0]], select_vector(0.5, is_y, [normal[1]], [normal[2]]))[0]
        bin_index = 2.0 * (2.0 - 2.0 * is_x - is_y) + ir.select(normal_component, 0.0, 0.0, 1.0)
        scores = [-distance]
        scores += [a * tangential[0] + b * tangential[1] - DEPTH_WEIGHT * distance for a, b in EXTREMAL_DIRECTIONS]
        offset = float(ENTRY_SIZE * CONTACTS_PER_NORMAL_BIN) * bin_index
        for entry, score in enumerate(scores):
            entry_start = ENTRY_SIZE * entry
            old = [tracer.read(self._entries, entry_start + i, offset) for i in range(ENTRY_SIZE)]
            new = [point_id, distance, *point, *normal, score]
            tracer.write(
                self._entries, select_vector(old[ENTRY_SCORE] + self._tolerance, score, new, old), entry_start, offset
            )

    def emit_contacts(self, sdf_geom: CollisionGeom) -> None:
        """Emit the contacts kept in all entries, transformed to world coordinates, each sample point once per bin.

        The order does not depend on the depth of the contacts. Contacts are in the axes of `sdf_geom`.
        """
        tracer, entries = self._query.tracer, self._entries

        def emit_bin(bin_index: Value) -> None:
            bin_offset = float(ENTRY_SIZE * CONTACTS_PER_NORMAL_BIN) * bin_index

            def emit_entry(entry: Value) -> None:
                offset = bin_offset + float(ENTRY_SIZE) * entry
                point_id, distance, *point_and_normal = (tracer.read(entries, i, offset) for i in range(ENTRY_SCORE))
                is_new = ir.select(point_id, -0.5, 0.0, 1.0)
                for earlier in range(CONTACTS_PER_NORMAL_BIN - 1):
                    id_difference = ir.absolute(tracer.read(entries, ENTRY_SIZE * earlier, bin_offset) - point_id)
                    is_distinct = ir.select(float(earlier), entry - 0.5, ir.select(id_difference, 0.5, 0.0, 1.0), 1.0)
                    is_new = is_new * is_distinct
                point = add(sdf_geom.position, rotate(sdf_geom.rotation, point_and_normal[:3]))
                normal = rotate(sdf_geom.rotation, point_and_normal[3:])
                if_less(tracer, "unique point", 0.5, is_new, lambda: self._query.emit_contact(distance, point, normal))

            tracer.counted_loop("slots", float(CONTACTS_PER_NORMAL_BIN), emit_entry, uniform=True)

        tracer.counted_loop("normal bins", float(N_NORMAL_BINS), emit_bin, uniform=True)


# ------------------------------------------------------------------------------------------------- height field and SDF

NODE_ID_OFFSET = 1e6
"""First point id of the nodes of a height field."""


def collide_height_field_sdf(query: ContactQuery, height_field: CollisionGeom, sdf_geom: CollisionGeom) -> None:
    """Contacts of a height field and an SDF geom: SDF sample points on the field, and height-field nodes in the SDF.

    The nodes are those within the square in x and y around the SDF geom's bounding sphere, enlarged by the margin.
    Contacts are reduced before they are emitted.
    """
    assert sdf_geom.sdf is not None
    pair = _HeightFieldSdfPair(query, height_field, sdf_geom)
    query.tracer.counted_loop("SDF sample points", pair.sdf.n_points, pair.add_sdf_point)
    columns, rows = (
        cells_in_interval(
            pair.relative_position[i] + height_field.size[i] - sdf_geom.sdf.bounding_radius - query.margin,
            pair.relative_position[i] + height_field.size[i] + sdf_geom.sdf.bounding_radius + query.margin,
            pair.cell_sizes[i],
            pair.n_nodes[i],
        )
        for i in range(2)
    )

    def visit_row(row: Value) -> None:
        def visit_column(column: Value) -> None:
            pair.add_height_field_node(rows.first + row, columns.first + column)

        query.tracer.counted_loop("columns", columns.count + 1.0, visit_column)

    query.tracer.counted_loop("rows", rows.count + 1.0, visit_row)
    pair.reducer.emit_contacts(sdf_geom)


class _HeightFieldSdfPair:
    """Height field and SDF geom, with the pose of the SDF geom in the axes of the height field."""

    def __init__(self, query: ContactQuery, height_field: CollisionGeom, sdf_geom: CollisionGeom) -> None:
        assert height_field.height_field is not None
        assert sdf_geom.sdf is not None
        self.query, self.height_field, self.height_data = query, height_field, height_field.height_field
        self.sdf = SdfGrid(sdf_geom.sdf)
        self.relative_rotation = matmul(transpose(height_field.rotation), sdf_geom.rotation)
        self.relative_position = rotate_inverse(height_field.rotation, sub(sdf_geom.position, height_field.position))
        self.n_nodes = (self.height_data.n_columns, self.height_data.n_rows)
        self.cell_sizes = [2.0 * half / (n - 1.0) for half, n in zip(height_field.size, self.n_nodes, strict=False)]
        self.reducer = ContactReducer(query, sdf_geom.sdf.bounding_radius)

    def add_sdf_point(self, index: Value) -> None:
        """Add the candidate contact of an SDF sample point and the height-field triangle below it.

        The distance is the height above the triangle times the vertical component of the triangle's normal. Points
        outside the height field are skipped.
        """
        point = self.sdf.sample_point(index)
        field_point = add(self.relative_position, rotate(self.relative_rotation, point))
        cells = [(field_point[i] + self.height_field.size[i]) / self.cell_sizes[i] for i in range(2)]
        cell = [ir.clamp(floor_by_rounding(c), 0.0, n - 2.0) for c, n in zip(cells, self.n_nodes, strict=True)]
        fraction_x, fraction_y = (c - base for c, base in zip(cells, cell, strict=True))
        first_height, last_height = self._node_height(cell[1], cell[0]), self._node_height(cell[1] + 1.0, cell[0] + 1.0)
        # cells are divided along the diagonal from the first to the last node
        is_right = ir.select(fraction_x, fraction_y, 0.0, 1.0)
        third_height = self._node_height(cell[1] + 1.0 - is_right, cell[0] + is_right)
        slope_x, slope_y = select_vector(
            0.5,
            is_right,
            [third_height - first_height, last_height - third_height],
            [last_height - third_height, third_height - first_height],
        )
        triangle_normal = normalize_or_fallback([-slope_x / self.cell_sizes[0], -slope_y / self.cell_sizes[1], 1.0])
        distance = (field_point[2] - (first_height + slope_x * fraction_x + slope_y * fraction_y)) * triangle_normal[2]
        normal = rotate_inverse(self.relative_rotation, triangle_normal)
        outside_distance = ir.maximum(
            ir.maximum(-fraction_x, fraction_x - 1.0), ir.maximum(-fraction_y, fraction_y - 1.0)
        )
        midpoint = add(point, scale(-0.5 * distance, normal))
        add_candidate = self.reducer.add_candidate
        if_less(
            self.query.tracer,
            "above height field",
            outside_distance,
            1e-9,
            lambda: add_candidate(index, distance, midpoint, normal),
        )

    def add_height_field_node(self, row: Value, column: Value) -> None:
        """Add the candidate contact of a height-field node and the SDF geom, from the signed distance at the node."""
        x, y = (
            index * cell_size - half_extent
            for index, cell_size, half_extent in zip(
                (column, row), self.cell_sizes, self.height_field.size, strict=False
            )
        )
        point = self._to_sdf_frame([x, y, self._node_height(row, column)])
        distance, outward = self.sdf.distance_and_normal(point)
        point_id = NODE_ID_OFFSET + row * self.height_data.n_columns + column
        self.reducer.add_candidate(
            point_id, distance, add(point, scale(-0.5 * distance, outward)), scale(-1.0, outward)
        )

    def _to_sdf_frame(self, point: Vector) -> Vector:
        return rotate_inverse(self.relative_rotation, sub(point, self.relative_position))

    def _node_height(self, row: Value, column: Value) -> Value:
        return self.height_data.read(self.height_data.start + row * self.height_data.n_columns + column)


# -------------------------------------------------------------------------------------------------- other geoms and SDF

MAX_DESCENT_STEPS = 4
"""Maximum number of descent steps of a sample."""
DESCENT_RANGE = 0.25
"""Distance from the SDF surface, relative to the geom size, above which a sample does not descend; other samples are
closer."""
MIN_DESCENT_GAIN = 1e-4
"""Minimum decrease of the distance per descent step, relative to the geom size."""

SPHERE_COLLISION_FUNCTIONS: dict[str, CollisionFunction] = {
    "sphere": collide_sphere_sphere,
    "capsule": collide_sphere_capsule,
    "ellipsoid": collide_sphere_ellipsoid,
    "cylinder": collide_sphere_cylinder,
    "cone": collide_sphere_cone,
    "box": collide_sphere_box,
}
"""Contact function of a sphere with each primitive geom type."""


class _GeomSdfPair:
    """Geom and SDF geom, with the pose of the geom in the axes of the SDF."""

    def __init__(self, query: ContactQuery, geom: CollisionGeom, sdf_geom: CollisionGeom, geom_radius: Value) -> None:
        assert sdf_geom.sdf is not None
        self.query, self.tracer, self.geom_radius = query, query.tracer, geom_radius
        self.sdf = SdfGrid(sdf_geom.sdf)
        rotation = matmul(transpose(sdf_geom.rotation), geom.rotation)
        position = rotate_inverse(sdf_geom.rotation, sub(geom.position, sdf_geom.position))
        self.local_geom = replace(geom, position=position, rotation=rotation)
        self.reducer = ContactReducer(query, ir.minimum(geom_radius, sdf_geom.sdf.bounding_radius))

    def to_sdf_frame(self, point: Vector) -> Vector:
        return add(self.local_geom.position, rotate(self.local_geom.rotation, point))

    def add_geom_point(self, point_id: Value, point: Vector, distance: Value, sdf_normal: Vector) -> None:
        """Add the candidate contact of a surface point of the geom, evaluated in the SDF.

        Args:
            point_id: unique id of the point.
            point: surface point of the geom in the axes of the SDF [m].
            distance: signed distance of the SDF at the point [m].
            sdf_normal: outward normal of the SDF at the point.
        """
        self.reducer.add_candidate(
            point_id, distance, add(point, scale(-0.5 * distance, sdf_normal)), scale(-1.0, sdf_normal)
        )

    def for_each_sdf_point(self, first_id: float, visit: Callable[[Value, Vector], None]) -> None:
        """Trace a loop over the SDF sample points within the bounding sphere of the geom plus the margin.

        Args:
            first_id: id of the first sample point.
            visit: called with the id and the position of each point.
        """
        max_distance = self.geom_radius + self.query.margin

        def visit_if_near(index: Value) -> None:
            point = self.sdf.sample_point(index)
            offset = sub(point, self.local_geom.position)
            if_less(
                self.tracer,
                "near",
                dot(offset, offset),
                max_distance * max_distance,
                lambda: visit(index + first_id, point),
            )

        self.tracer.counted_loop("SDF sample points", self.sdf.n_points, visit_if_near)


def collide_primitive_sdf(query: ContactQuery, geom: CollisionGeom, sdf_geom: CollisionGeom, *, geom_type: str) -> None:
    """Contacts of a primitive geom and an SDF geom: sample points of each surface in the signed distance of the other.

    Sample points of the primitive first descend to a local minimum of the SDF. The contacts are reduced before they are
    emitted through `query.emit_contact`.
    """
    if geom_type == "sphere":  # the rotation of spheres is not computed
        geom = replace(geom, rotation=sdf_geom.rotation)
    pair = _GeomSdfPair(query, geom, sdf_geom, CONVEX_CORES[geom_type](query.tracer, geom).bounding_radius)

    def add_points() -> None:
        _add_surface_samples(pair, SURFACE_SAMPLES[geom_type])
        pair.for_each_sdf_point(
            float(len(SURFACE_SAMPLES[geom_type].samples)),
            partial(_add_sdf_point_in_primitive, pair, SPHERE_COLLISION_FUNCTIONS[geom_type]),
        )

    _branch_if_near_sdf(pair, add_points)
    pair.reducer.emit_contacts(sdf_geom)


def _branch_if_near_sdf(sdf_pair: _GeomSdfPair, body: Callable[[], None]) -> None:
    lower_bound = sdf_pair.sdf.distance_lower_bound(sdf_pair.local_geom.position)
    if_less(sdf_pair.tracer, "near SDF", lower_bound, sdf_pair.geom_radius + sdf_pair.query.margin, body)


def _add_surface_samples(sdf_pair: _GeomSdfPair, surface_samples: SurfaceSamples) -> None:
    """Add the candidate contacts of a primitive geom's surface sample points, each moved to a local minimum of the SDF.

    Distance and normal of samples that have passed the middle of a thin wall are corrected.
    """
    tracer, geom, sdf = sdf_pair.tracer, sdf_pair.local_geom, sdf_pair.sdf
    table = tracer.allocate_local(4 * len(surface_samples.samples))
    tracer.write(table, [x for row in surface_samples.samples for x in row])

    def add_sample(index: Value) -> None:
        sample = [tracer.read(table, i, 4.0 * index) for i in range(4)]
        surface_point = surface_samples.surface_point(geom.size, sample)
        distance, outward = sdf.distance_and_normal(sdf_pair.to_sdf_frame(surface_point))
        if surface_samples.descend is not None:
            surface_point, distance, outward = _descend_sample(
                sdf_pair, surface_samples, sample, [*surface_point, distance, *outward]
            )
        point = sdf_pair.to_sdf_frame(surface_point)
        interior = sdf_pair.to_sdf_frame(surface_samples.interior_point(geom.size, sample))
        distance, outward = _correct_thin_wall(sdf_pair, interior, point, distance, outward)
        sdf_pair.add_geom_point(index, point, distance, outward)

    tracer.counted_loop("surface samples", float(len(surface_samples.samples)), add_sample, uniform=True)


def _correct_thin_wall(
    sdf_pair: _GeomSdfPair, interior_point: Vector, point: Vector, distance: Value, sdf_normal: Vector
) -> tuple[Value, Vector]:
    """Correct distance and normal of a sample point that has penetrated a thin wall of the SDF beyond its middle.

    The SDF normal there points towards the far side of the wall. If an interior point of the geom is outside the wall,
    distance and normal are extrapolated linearly from this point.

    Args:
        sdf_pair: the geom pair.
        interior_point: point well inside the geom, in the axes of the SDF.
        point: sample point in the axes of the SDF.
        distance: signed distance at the sample point [m].
        sdf_normal: outward normal at the sample point.
    """
    tracer, ray = sdf_pair.tracer, sub(point, interior_point)
    exits_forward = ir.select(distance, 0.0, dot(sdf_normal, ray), -1.0)

    def extrapolate() -> list[Value]:
        interior_distance, interior_normal = sdf_pair.sdf.distance_and_normal(interior_point)
        return select_vector(
            0.0,
            interior_distance,
            [interior_distance + dot(interior_normal, ray), *interior_normal],
            [distance, *sdf_normal],
        )

    corrected = tracer.if_less("past thin wall", 0.0, exits_forward, extrapolate, [distance, *sdf_normal])
    return corrected[0], corrected[1:]


def _descend_sample(
    sdf_pair: _GeomSdfPair, surface_samples: SurfaceSamples, sample: Sequence[Value], initial_state: Sequence[Value]
) -> tuple[Vector, Value, Vector]:
    """Move a sample point on a primitive's surface to a local minimum of the SDF, by repeated steps against its normal.

    At most `MAX_DESCENT_STEPS` steps, while a step decreases the distance noticeably; none if the sample point is far
    from the SDF.

    Args:
        sdf_pair: the geom pair.
        surface_samples: sample points of the geom's type, with their descent function.
        sample: the sample point, in units of the geom's sizes.
        initial_state: surface point (3), signed distance, SDF normal (3).

    Returns:
        The surface point in the geom's axes, the signed distance [m] and the SDF normal.
    """
    geom, descend = sdf_pair.local_geom, surface_samples.descend
    assert descend is not None
    min_gain = MIN_DESCENT_GAIN * sdf_pair.geom_radius

    def step(flat: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        old_point, old_distance, outward = list(flat[:3]), flat[3], flat[4:7]
        new_point = descend(geom.size, sample, old_point, rotate_inverse(geom.rotation, outward))
        distance, new_normal = sdf_pair.sdf.distance_and_normal(sdf_pair.to_sdf_frame(new_point))
        state = select_vector(distance + min_gain, old_distance, [*new_point, distance, *new_normal], list(flat))
        return state, distance + min_gain, old_distance

    def iterate() -> list[Value]:
        return sdf_pair.tracer.while_loop("descend", step, list(initial_state), MAX_DESCENT_STEPS)

    max_distance = sdf_pair.query.margin + DESCENT_RANGE * sdf_pair.geom_radius
    end = sdf_pair.tracer.if_less("near surface", initial_state[3], max_distance, iterate, list(initial_state))
    return end[:3], end[3], end[4:7]


def _add_sdf_point_in_primitive(
    sdf_pair: _GeomSdfPair, collide: CollisionFunction, point_id: Value, point: Vector
) -> None:
    """Add the candidate contact of an SDF sample point, as a sphere of radius zero, and a primitive geom.

    Args:
        sdf_pair: the geom pair.
        collide: contact function of a sphere and the primitive.
        point_id: unique id of the point.
        point: sample point in the axes of the SDF [m].
    """

    def add_contact(distance: Value, midpoint: Vector, normal: Vector, tangent: Vector | None = None) -> None:
        sdf_pair.reducer.add_candidate(point_id, distance, midpoint, scale(-1.0, normal))

    sphere = CollisionGeom(point, sdf_pair.local_geom.rotation, (0.0, 0.0, 0.0))
    collide(replace(sdf_pair.query, emit_contact=add_contact), sphere, sdf_pair.local_geom)


def collide_hull_sdf(query: ContactQuery, mesh: CollisionGeom, sdf_geom: CollisionGeom) -> None:
    """Contacts of a convex mesh and an SDF geom: hull vertices in the SDF, and SDF sample points in the hull.

    The contacts are reduced before they are emitted.
    """
    hull = mesh.hull
    assert hull is not None
    pair = _GeomSdfPair(query, mesh, sdf_geom, hull.bounding_radius)

    def add_vertex(index: Value) -> None:
        point = pair.to_sdf_frame(hull_vertex(hull, index))
        pair.add_geom_point(index, point, *pair.sdf.distance_and_normal(point))

    def add_points() -> None:
        query.tracer.counted_loop("hull vertices", hull.n_vertices, add_vertex)
        pair.for_each_sdf_point(1e6, partial(_add_sdf_point_in_hull, pair, hull))

    _branch_if_near_sdf(pair, add_points)
    pair.reducer.emit_contacts(sdf_geom)


def _add_sdf_point_in_hull(sdf_pair: _GeomSdfPair, hull: PackedHull, point_id: Value, point: Vector) -> None:
    """Add the candidate contact of an SDF sample point and a convex hull, at the hull face of largest signed distance.

    Args:
        sdf_pair: the geom pair.
        hull: packed hull of the mesh.
        point_id: unique id of the point.
        point: sample point in the axes of the SDF [m].
    """
    tracer, geom = sdf_pair.tracer, sdf_pair.local_geom
    local_point = rotate_inverse(geom.rotation, sub(point, geom.position))
    best = tracer.allocate_local(4)
    tracer.write(best, [0.0, 0.0, 1.0, -UNSET_SCORE])

    def visit_face(face: Value) -> None:
        normal = face_normal(hull, face)
        _, vertex_list = face_vertex_list(hull, face)
        face_distance = dot(normal, sub(local_point, hull_vertex(hull, hull.read(vertex_list))))
        best_so_far = [tracer.read(best, i) for i in range(4)]
        tracer.write(best, select_vector(best_so_far[3], face_distance, [*normal, face_distance], best_so_far))

    tracer.counted_loop("faces", hull.n_faces, visit_face)
    outward, distance = [tracer.read(best, i) for i in range(3)], tracer.read(best, 3)
    normal = rotate(geom.rotation, outward)
    sdf_pair.reducer.add_candidate(point_id, distance, add(point, scale(-0.5 * distance, normal)), normal)


def collide_sdf_sdf(query: ContactQuery, first: CollisionGeom, second: CollisionGeom) -> None:
    """Contacts of two SDF geoms: the sample points of each in the field of the other.

    The contacts are reduced before they are emitted.
    """
    assert first.sdf is not None
    pair = _GeomSdfPair(query, first, second, first.sdf.bounding_radius)
    first_sdf, geom = SdfGrid(first.sdf), pair.local_geom

    def add_first_point(index: Value) -> None:
        point = pair.to_sdf_frame(first_sdf.sample_point(index))
        pair.add_geom_point(index, point, *pair.sdf.distance_and_normal(point))

    def add_second_point(point_id: Value, point: Vector) -> None:
        distance, outward = first_sdf.distance_and_normal(rotate_inverse(geom.rotation, sub(point, geom.position)))
        normal = rotate(geom.rotation, outward)
        pair.reducer.add_candidate(point_id, distance, add(point, scale(-0.5 * distance, normal)), normal)

    def add_points() -> None:
        query.tracer.counted_loop("sample points of first SDF", first_sdf.n_points, add_first_point)
        pair.for_each_sdf_point(1e6, add_second_point)

    _branch_if_near_sdf(pair, add_points)
    pair.reducer.emit_contacts(second)


def collide_plane_sdf(query: ContactQuery, plane: CollisionGeom, sdf_geom: CollisionGeom) -> None:
    """Contacts of a plane and an SDF geom, at the surface sample points of the SDF.

    The contacts are reduced before they are emitted.
    """
    assert sdf_geom.sdf is not None
    sdf = SdfGrid(sdf_geom.sdf)
    plane_normal = [row[2] for row in plane.rotation]
    normal = rotate_inverse(sdf_geom.rotation, plane_normal)
    height = dot(plane_normal, sub(sdf_geom.position, plane.position))
    reducer = ContactReducer(query, sdf_geom.sdf.bounding_radius)

    def add_point(index: Value) -> None:
        point = sdf.sample_point(index)
        distance = height + dot(normal, point)
        reducer.add_candidate(index, distance, add(point, scale(-0.5 * distance, normal)), normal)

    query.tracer.counted_loop("SDF sample points", sdf.n_points, add_point)
    reducer.emit_contacts(sdf_geom)


SDF_COLLISION_TABLE: dict[tuple[str, str], CollisionTableEntry] = {
    ("plane", SDF_TYPE): CollisionTableEntry(collide_plane_sdf, MAX_SDF_CONTACTS),
    ("height field", SDF_TYPE): CollisionTableEntry(collide_height_field_sdf, MAX_SDF_CONTACTS),
    **{
        (geom_type, SDF_TYPE): CollisionTableEntry(
            partial(collide_primitive_sdf, geom_type=geom_type), MAX_SDF_CONTACTS
        )
        for geom_type in SURFACE_SAMPLES
    },
    ("mesh", SDF_TYPE): CollisionTableEntry(collide_hull_sdf, MAX_SDF_CONTACTS),
    (SDF_TYPE, SDF_TYPE): CollisionTableEntry(collide_sdf_sdf, MAX_SDF_CONTACTS),
}
"""Contact functions of SDF pairs, keyed by two geom types ordered as in `GEOM_TYPES`."""
