"""Spatial queries on the collision geoms of a built scene: rays, distances between entities, overlaps with a shape.

World poses of geoms follow from the link poses of the current state. Pairs whose bounding spheres are too far apart are
skipped; the signed distances of the others are computed in batches over all environments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np

from kinema.builder import EntitySpec, pack_geom_table
from kinema.core import Array, KinemaError, quaternion_to_matrix, rotate_vectors
from kinema.description import Box, Capsule, Cylinder, Ellipsoid, Sphere
from kinema.dynamics import PairDistances, PosedGeoms, RayIntersections, geom_type_indices, packed_data_headers
from kinema.model import ABSENT_RADIUS, GEOM_TYPES, GeomsInfo, Model

from .arguments import IndexArray, Selection, as_array, as_batch, check_finite, resolve_envs, resolve_indices
from .built_scene import BuiltScene, HasBuiltScene
from .entity_index import EntityIndex, EntityLink, geom_index_in_entity
from .geom_arrays import GeomTables
from .morphs import Morph
from .presence import presence_of_links

# -------------------------------------------------------------------------------------------------------- geom indices


class GeomIndices:
    """Geoms found by a query, by entity: index arrays of any shape, -1 where there is none, and their names."""

    def __init__(self, rows: IndexArray, model: Model) -> None:
        self._rows, self._model = rows, model
        self._is_valid = rows >= 0
        self._safe_rows = np.maximum(rows, 0)

    @property
    def entity(self) -> IndexArray:
        """Index of the entity of each geom in the scene."""
        return np.where(self._is_valid, self._model.geoms.entity_idx[self._safe_rows], -1)

    @property
    def geom(self) -> IndexArray:
        """Index of each geom among the geoms of its entity (`geom_names`)."""
        return np.where(self._is_valid, geom_index_in_entity(self._model)[self._safe_rows], -1)

    @property
    def link(self) -> IndexArray:
        """Index of the link of each geom in its entity; -1 also for geoms fixed in the world."""
        links = self._model.geoms.link_idx[self._safe_rows]
        starts = np.array([entity.link_start for entity in self._model.entities], np.int64)
        return np.where(self._is_valid & (links >= 0), links - starts[self.entity], -1)

    @property
    def entity_name(self) -> np.ndarray:
        """Name of the entity of each geom; "" where there is none."""
        return self._named([entity.name for entity in self._model.entities], self.entity)

    @property
    def geom_name(self) -> np.ndarray:
        """Name of each geom; "" where there is none."""
        return self._named(self._model.geoms.names, self._rows)

    @property
    def link_name(self) -> np.ndarray:
        """Name of the link of each geom; "" where there is none and for geoms fixed in the world."""
        links = self._model.geoms.link_idx[self._safe_rows]
        return self._named(self._model.links.names, np.where(self._is_valid, links, -1))

    @staticmethod
    def _named(names: Any, rows: IndexArray) -> np.ndarray:
        return np.array([*names, ""], dtype=object)[rows]


# --------------------------------------------------------------------------------------------------------- posed geoms

PLANE = GEOM_TYPES.index("plane")
MAX_QUERY_DISTANCE = 1e6
"""Largest distance that a query resolves [m]; stands for an infinite one."""


@dataclass(frozen=True, slots=True, eq=False)
class GeomsInEnvs:
    """Collision geoms with their world poses in some environments; arrays are (n_envs, n_geoms, ...)."""

    types: IndexArray
    """Index in `GEOM_TYPES`, (n_geoms,)."""
    size: Array
    data: Array
    """Packed data headers (`packed_data_headers`)."""
    position: Array
    rotation: Array
    center: Array
    """World position of the centre of the bounding sphere [m]."""
    radius: Array
    """Radius of the bounding sphere [m]; infinite for planes, negative for geoms that an environment does not have."""

    def select(self, envs: IndexArray, geoms: IndexArray) -> PosedGeoms:
        """One geom of one environment per row."""
        return PosedGeoms(
            self.types[geoms],
            self.size[envs, geoms],
            self.data[envs, geoms],
            self.position[envs, geoms],
            self.rotation[envs, geoms],
        )


def geoms_in_links(model: Model, rows: IndexArray) -> tuple[Array, Array]:
    """Positions (n, 3) and rotation matrices (n, 3, 3) of geoms in their links; in the world without a link."""
    geoms, links = model.geoms, model.links
    position, rotation = geoms.pos[rows], geoms.rot[rows]
    link = geoms.link_idx[rows]
    on_link, safe = (link >= 0)[:, None], np.maximum(link, 0)
    if not len(links.names):
        return position, rotation
    inverse = np.swapaxes(links.rot[safe], 1, 2)
    local = np.einsum("nij,nj->ni", inverse, position - links.pos[safe])
    return np.where(on_link, local, position), np.where(on_link[..., None], inverse @ rotation, rotation)


def models_with_all_geoms(built: BuiltScene, specs: Sequence[EntitySpec], *, has_variants: bool) -> list[Model]:
    """Models of all variants for spatial queries; geoms without collision pairs are appended to the table of geoms.

    With entity variants the models are returned unchanged.
    """
    models = list(built.engine.variants.models)
    if has_variants:
        return models
    tables = GeomTables(built.model, specs)
    paired = set(tables.row_of_model_geom.tolist())
    unpaired = pack_geom_table([record for i, record in enumerate(tables.records) if i not in paired])
    if not unpaired.names:
        return models
    geoms = models[0].geoms
    columns: dict[str, Any] = {}
    for field in fields(geoms):
        first, second = getattr(geoms, field.name), getattr(unpaired, field.name)
        columns[field.name] = np.concatenate([first, second]) if isinstance(first, np.ndarray) else [*first, *second]
    columns["data_start"] = np.concatenate([geoms.data_start, unpaired.data_start + len(geoms.data)])
    columns |= {"surface_velocity": np.zeros((0, 6)), "sdfs": []}  # queries do not read them
    return [models[0].with_tables(geoms=GeomsInfo(**columns))]


def geoms_in_envs(
    built: BuiltScene, rows: IndexArray, envs_idx: Selection = None, models: Sequence[Model] | None = None
) -> GeomsInEnvs:
    """World poses, sizes and bounding spheres of geoms in the current state of the selected environments.

    `models` are the models of all variants with the geoms; None for those of the engine.
    """
    selected = resolve_envs(envs_idx, built.n_envs)
    envs = np.arange(built.n_envs) if selected is None else np.arange(built.n_envs)[selected]
    variants = built.engine.variants
    of_env = np.broadcast_to(variants.variant_of_env, built.n_envs)[envs]
    models = variants.models if models is None else models
    local = [geoms_in_links(model, rows) for model in models]
    position, rotation = (np.array([x[i] for x in local])[of_env] for i in range(2))
    link = models[0].geoms.link_idx[rows]
    moving = np.flatnonzero(link >= 0)
    if len(moving):
        state = built.engine.fields.links_state
        pos, quat = (
            np.moveaxis(np.asarray(x.numpy(), np.float64)[link[moving]][:, envs], 1, 0) for x in (state.pos, state.quat)
        )
        position[:, moving] = pos + rotate_vectors(quat, position[:, moving])
        columns = [rotate_vectors(quat, rotation[:, moving][..., i]) for i in range(3)]
        rotation[:, moving] = np.stack(columns, axis=-1)
    geoms = [model.geoms for model in models]
    size, center, radius = (
        np.array([getattr(g, x)[rows] for g in geoms])[of_env] for x in ("size", "center", "radius")
    )
    present = presence_of_links(built.engine)
    if present is not None and len(moving):
        radius[:, moving] = np.where(present[link[moving]][:, envs].T, radius[:, moving], ABSENT_RADIUS)
    types = geom_type_indices(geoms[0].types)[rows]
    data = np.array([packed_data_headers(g)[rows] for g in geoms])[of_env]
    if "size" in built.geom_overrides:
        overrides = built.geom_overrides["size"][envs]
        own = np.flatnonzero(rows < overrides.shape[1])
        size[:, own] = overrides[:, rows[own]]
    size[:, types == PLANE] = MAX_QUERY_DISTANCE  # planes have no edges
    center = position + np.einsum("enij,enj->eni", rotation, center)
    return GeomsInEnvs(types, size, data, position, rotation, center, radius)


def center_distance(centers: tuple[Array, Array], radii: tuple[Array, Array]) -> Array:
    """Lower bound of the distances of geoms by their bounding spheres [m].

    -inf with an infinite radius, inf if an environment does not have a geom (negative radius).
    """
    bound = np.linalg.norm(centers[0] - centers[1], axis=-1) - radii[0] - radii[1]
    return np.where((radii[0] < 0.0) | (radii[1] < 0.0), np.inf, bound)


# ------------------------------------------------------------------------------------------------------------- queries


@dataclass(frozen=True, slots=True, eq=False)
class Distances:
    """Distance of two entities or links in each environment: of their closest collision geoms."""

    distance: Any
    """Signed distance [m], negative for penetration, (n_envs,); infinite if it exceeds `max_distance`."""
    point_a: Any
    point_b: Any
    """World positions of the closest points on both [m], (n_envs, 3); NaN where the distance is infinite."""
    a: GeomIndices
    b: GeomIndices
    """The closest geoms: index arrays `geom`, `link` and `entity` and their names, (n_envs,)."""


class Overlaps(GeomIndices):
    """Geoms that overlap a query shape in each environment: index arrays (n_envs, n), sorted by distance.

    n is the largest number of geoms in one environment; rows that an environment does not use are -1.
    """

    def __init__(self, rows: IndexArray, model: Model, distance: Any) -> None:
        super().__init__(rows, model)
        self.distance = distance
        """Signed distance of geom and shape [m], (n_envs, n), negative for penetration; infinite in unused rows."""
        self.valid_mask = rows >= 0
        """Rows in use, bool (n_envs, n)."""
        self.n = self.valid_mask.sum(axis=1)
        """Number of geoms that overlap the shape, (n_envs,)."""


class RayHits(GeomIndices):
    """Nearest hits of rays in each environment: indices `geom`, `link`, `entity` (n_envs, n_rays), -1 for a miss."""

    def __init__(self, rows: IndexArray, model: Model, distance: Any, position: Any, normal: Any) -> None:
        super().__init__(rows, model)
        self.distance = distance
        """Distance along each ray [m], (n_envs, n_rays); infinite for a miss."""
        self.position = position
        """World position of each hit [m], (n_envs, n_rays, 3); NaN for a miss."""
        self.normal = normal
        """Outward unit normal of the surface in the world, (n_envs, n_rays, 3); NaN for a miss."""


class QueriedScene(HasBuiltScene, Protocol):
    """Interface of `Scene` for spatial queries."""

    entities: list[Any]
    _entity_specs: list[EntitySpec]


class SpatialQueries:
    """Spatial queries on the collision geoms of a built scene."""

    def __init__(self, scene: QueriedScene) -> None:
        self._scene = scene
        self._compiled: tuple[BuiltScene, list[Model], PairDistances, RayIntersections] | None = None

    def distance(
        self,
        a: Any,
        b: Any,
        link_a: Selection = None,
        link_b: Selection = None,
        geom_a: Selection = None,
        geom_b: Selection = None,
        max_distance: float = np.inf,
        envs_idx: Selection = None,
    ) -> Distances:
        """Signed distance and closest points of two entities or links; arguments: see `Scene.distance`."""
        built = self._scene.built
        limit = min(_nonnegative(max_distance, "distance: max_distance"), MAX_QUERY_DISTANCE)
        rows = [
            self._geom_rows(entity, link, geom, f"distance: {side}")
            for side, entity, link, geom in (("a", a, link_a, geom_a), ("b", b, link_b, geom_b))
        ]
        pairs = np.array([(i, j) for i in range(len(rows[0])) for j in range(len(rows[1])) if rows[0][i] != rows[1][j]])
        if not len(pairs):
            raise KinemaError("distance: expected collision geoms on both sides")
        posed = geoms_in_envs(built, np.concatenate(rows), envs_idx, self._prepared[0])
        first, second = pairs[:, 0], len(rows[0]) + pairs[:, 1]
        bound = center_distance(
            (posed.center[:, first], posed.center[:, second]), (posed.radius[:, first], posed.radius[:, second])
        )
        n = len(bound)
        best, closest = np.full(n, limit), np.full(n, -1)
        points = np.full((2, n, 3), np.nan)
        # the pair with the smallest bound first: its distance rules out most of the others
        candidates = np.zeros(bound.shape, np.bool_)
        candidates[np.arange(n), bound.argmin(axis=1)] = True
        for mask in (candidates, ~candidates):
            envs, chosen = np.nonzero(mask & (bound <= best[:, None]) & np.isfinite(np.maximum(bound, 0.0)))
            if not len(envs):
                continue
            result = self._prepared[1].closest_points(
                posed.select(envs, first[chosen]), posed.select(envs, second[chosen]), limit
            )
            order = np.lexsort((result.distance, envs))
            order = order[np.unique(envs[order], return_index=True)[1]]  # the closest pair of each environment
            order = order[result.distance[order] < best[envs[order]]]
            env = envs[order]
            best[env], closest[env] = result.distance[order], chosen[order]
            points[0, env], points[1, env] = result.point_a[order], result.point_b[order]
        best[closest < 0] = np.inf
        found = np.maximum(closest, 0)
        a_rows, b_rows = (np.where(closest < 0, -1, x[pairs[found, i]]) for i, x in enumerate(rows))
        convert, dtype = built.outputs.convert_owned, built.arrays.dtype
        return Distances(
            convert(best.astype(dtype)),
            convert(points[0].astype(dtype)),
            convert(points[1].astype(dtype)),
            GeomIndices(a_rows, self._prepared[0][0]),
            GeomIndices(b_rows, self._prepared[0][0]),
        )

    def overlaps(self, shape: Morph, pos: Any, quat: Any, margin: float, exclude: Any, envs_idx: Selection) -> Overlaps:
        """Collision geoms that overlap a shape at a pose; arguments: see `Scene.overlaps`."""
        built = self._scene.built
        margin = _nonnegative(margin, "overlaps: margin")
        geom_type, size, radius = _query_shape(shape)
        models = self._prepared[0]
        rows = np.setdiff1d(np.arange(len(models[0].geoms.names)), self._excluded_rows(exclude, "overlaps"))
        posed = geoms_in_envs(built, rows, envs_idx, models)
        n = len(posed.position)
        position = np.broadcast_to(check_finite(as_batch(pos, n, (3,), np.float64, "overlaps: pos"), "pos"), (n, 3))
        quats = as_batch((1.0, 0.0, 0.0, 0.0) if quat is None else quat, n, (4,), np.float64, "overlaps: quat")
        if not np.linalg.norm(check_finite(quats, "overlaps: quat"), axis=1).all():
            raise KinemaError("overlaps: quat: expected four values that are not all zero")
        rotation = np.broadcast_to(np.array([quaternion_to_matrix(q) for q in quats]), (n, 3, 3))
        bound = center_distance((posed.center, position[:, None]), (posed.radius, np.array(radius)))
        envs, geoms = np.nonzero(bound <= margin)
        distance = np.full(bound.shape, np.inf)
        if len(envs):
            query = PosedGeoms(
                np.full(len(envs), geom_type_indices([geom_type])[0]),
                np.broadcast_to(size, (len(envs), 3)),
                np.zeros((len(envs), 4)),
                position[envs],
                rotation[envs],
            )
            result = self._prepared[1].closest_points(posed.select(envs, geoms), query, margin + 1e-6)
            distance[envs, geoms] = np.where(result.distance <= margin, result.distance, np.inf)
        order = np.argsort(distance, axis=1, kind="stable")
        order = order[:, : int(np.isfinite(distance).sum(axis=1).max(initial=0))]
        distance = np.take_along_axis(distance, order, axis=1)
        found = np.where(np.isfinite(distance), rows[order], -1)
        return Overlaps(found, models[0], built.outputs.convert_owned(distance.astype(built.arrays.dtype)))

    def cast_rays(
        self, origins: Any, directions: Any, max_distance: float, exclude: Any, envs_idx: Selection
    ) -> RayHits:
        """Nearest hits of rays; arguments: see `Scene.cast_rays`."""
        built, label = self._scene.built, "cast_rays"
        limit = min(_nonnegative(max_distance, f"{label}: max_distance"), MAX_QUERY_DISTANCE)
        models = self._prepared[0]
        rows = np.setdiff1d(np.arange(len(models[0].geoms.names)), self._excluded_rows(exclude, label))
        posed = geoms_in_envs(built, rows, envs_idx, models)
        n_envs, n_geoms = posed.radius.shape
        start, direction = (
            _ray_vectors(x, n_envs, f"{label}: {name}")
            for x, name in ((origins, "origins"), (directions, "directions"))
        )
        n_rays = max(start.shape[1], direction.shape[1])
        if {start.shape[1], direction.shape[1]} - {1, n_rays}:
            raise KinemaError(
                f"{label}: {start.shape[1]} origins and {direction.shape[1]} directions do not go together"
            )
        length = np.linalg.norm(direction, axis=2, keepdims=True)
        if not length.all():
            raise KinemaError(f"{label}: directions: expected vectors that are not all zero")
        start, direction = (np.broadcast_to(x, (n_envs, n_rays, 3)) for x in (start, direction / length))
        distance, normal = np.full((n_envs, n_rays), limit), np.full((n_envs, n_rays, 3), np.nan)
        hit = np.full((n_envs, n_rays), -1)
        chunk = max(MAX_RAY_TESTS // max(n_envs * n_geoms, 1), 1)
        for first in range(0, n_rays, chunk):
            part = slice(first, first + chunk)
            envs, rays, geoms = np.nonzero(_may_hit(start[:, part], direction[:, part], posed, limit))
            if not len(envs):
                continue
            rays += first
            found = self._prepared[2].cast(start[envs, rays], direction[envs, rays], posed.select(envs, geoms))
            order = np.lexsort((found.distance, rays, envs))
            ray_of = (envs * n_rays + rays)[order]
            order = order[np.unique(ray_of, return_index=True)[1]]  # the nearest hit of each ray
            order = order[found.distance[order] < distance[envs[order], rays[order]]]
            at = envs[order], rays[order]
            distance[at], normal[at], hit[at] = found.distance[order], found.normal[order], geoms[order]
        distance[hit < 0] = np.inf
        position = np.where(hit[..., None] < 0, np.nan, start + np.where(hit < 0, 0.0, distance)[..., None] * direction)
        convert, dtype = built.outputs.convert_owned, built.arrays.dtype
        values = [convert(x.astype(dtype)) for x in (distance, position, normal)]
        return RayHits(np.where(hit < 0, -1, rows[hit]) if n_geoms else hit, models[0], *values)

    @property
    def _prepared(self) -> tuple[list[Model], PairDistances, RayIntersections]:
        """Models of all variants with all geoms, distance and ray programs; made when first used after a build."""
        built = self._scene.built
        if self._compiled is None or self._compiled[0] is not built:
            has_variants = any(entity.n_variants > 1 for entity in self._scene.entities)
            models = models_with_all_geoms(built, self._scene._entity_specs, has_variants=has_variants)
            options = models[0].geoms.data, built.engine.device, built.engine.precision, built.engine.threads
            self._compiled = built, models, PairDistances(*options), RayIntersections(*options)
        return self._compiled[1:]

    def _geom_rows(self, entity: Any, link: Selection, geom: Selection, label: str) -> IndexArray:
        """Rows of the geoms of an entity or link handle, restricted to selected links or geoms."""
        if isinstance(entity, EntityLink):
            entity, link = entity.entity, [entity.idx]
        index = getattr(entity, "_index", None)
        if not isinstance(index, EntityIndex):
            raise KinemaError(f"{label}: expected an entity or a link of the scene, not {entity!r}")
        geoms = self._prepared[0][0].geoms
        rows = np.flatnonzero(geoms.entity_idx == index.number)
        if geom is not None:
            rows = rows[resolve_indices(geom, [geoms.names[i] for i in rows.tolist()], f"{label}: geom", "geoms")]
        if link is not None:
            links = index.info.link_start + resolve_indices(link, index.model.links.names, f"{label}: link", "links")
            rows = rows[np.isin(geoms.link_idx[rows], links)]
        if not len(rows):
            raise KinemaError(f'{label}: "{index.name}" has no collision geoms there')
        return rows

    def _excluded_rows(self, exclude: Any, label: str) -> IndexArray:
        """Rows of the geoms of excluded entities or links: one, a list, or None."""
        items = [] if exclude is None else exclude if isinstance(exclude, list | tuple) else [exclude]
        rows = (self._geom_rows(item, None, None, f"{label}: exclude") for item in items)
        return np.concatenate([np.zeros(0, np.intp), *rows])


MAX_RAY_TESTS = 4_000_000
"""Largest number of rays times geoms whose bounding spheres are tested at once."""


def _may_hit(start: Array, direction: Array, posed: GeomsInEnvs, limit: float) -> np.ndarray:
    """Whether rays may hit the bounding spheres of geoms within a distance, bool (n_envs, n_rays, n_geoms)."""
    to_center = posed.center[:, None] - start[:, :, None]
    along = np.einsum("ergi,eri->erg", to_center, direction)
    squared = np.einsum("ergi,ergi->erg", to_center, to_center) - along**2
    radius = posed.radius[:, None]
    tolerance = 1e-6 * (1.0 + np.abs(along))
    is_near = (squared <= (radius + tolerance) ** 2) & (along >= -radius) & (along - radius <= limit)
    return is_near & (radius >= 0.0)


def _ray_vectors(values: Any, n_envs: int, label: str) -> Array:
    """Vectors of rays (n_envs or 1, n_rays, 3): given as (3,), (n_rays, 3) or (n_envs, n_rays, 3)."""
    array = check_finite(as_array(values, np.float64, label), label)
    array = array[None] if array.ndim == 1 else array
    array = array[None] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[2] != 3 or array.shape[0] not in (1, n_envs):
        raise KinemaError(f"{label}: expected values of shape (n_rays, 3) or ({n_envs}, n_rays, 3), not {array.shape}")
    return array


def _query_shape(shape: Any) -> tuple[str, Array, float]:
    """Geom type, size as in `GeomsInfo.size` and bounding radius of a query shape."""
    geometry = shape.geometry(np.ones(3)) if isinstance(shape, Morph) else shape
    match geometry:
        case Sphere():
            return "sphere", np.array([geometry.radius, 0.0, 0.0]), geometry.radius
        case Box():
            half = np.asarray(geometry.size) / 2
            return "box", half, float(np.linalg.norm(half))
        case Ellipsoid():
            return "ellipsoid", np.asarray(geometry.radii), float(np.max(geometry.radii))
        case Capsule():
            half = geometry.length / 2
            return "capsule", np.array([geometry.radius, half, 0.0]), geometry.radius + half
        case Cylinder():
            half = geometry.length / 2
            return "cylinder", np.array([geometry.radius, half, 0.0]), float(np.hypot(geometry.radius, half))
    raise KinemaError(f"overlaps: expected a box, sphere, ellipsoid, capsule or cylinder, not {shape!r}")


def _nonnegative(value: Any, label: str) -> float:
    """Number >= 0, possibly infinite; otherwise `KinemaError`."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not value >= 0.0:
        raise KinemaError(f"{label}: expected a number that is not negative, not {value!r}")
    return float(value)
