"""Variants of one entity: different robots or bodies in different environments, unified to one model structure.

All variants get the same links and collision shapes (the union over all variants, matched by geometry type); shapes
that a variant does not have are disabled by a special bounding radius.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kinema.builder import EntitySpec
from kinema.core import KinemaError
from kinema.description import Link, Robot, Shape, World
from kinema.model import ABSENT_RADIUS, Model

VariantIndices = npt.NDArray[np.intp]
"""Index of the variant, or variant combination, of each environment."""
ShapeKind = tuple[str, str]
"""Geometry class name of a shape, and collision approximation of a mesh."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class EntityVariants:
    """The variants of an entity."""

    specs: list[EntitySpec]
    """Entity of each variant with the unified structure, from which models are built."""
    descriptions: list[Robot | World]
    """Description of each variant with its own shapes, for rendering and bounding boxes."""
    absent_shapes: list[set[tuple[str, str]]]
    """Shapes that each variant does not have, as (link name, shape name)."""
    seed: int | None
    """Random seed of the assignment to environments; None for one after the other."""

    def variant_of_env(self, n_envs: int) -> VariantIndices:
        """Variant index of each environment, (n_envs,): cyclic, or random by seed.

        The variant of an environment does not depend on the number of environments.
        """
        count = len(self.specs)
        if self.seed is None:
            return np.arange(n_envs) % count
        generator = np.random.default_rng([self.seed, zlib.crc32(self.specs[0].name.encode())])
        return generator.integers(0, count, n_envs)

    def without_absent_geoms(self, model: Model, entity_idx: int, variant: int) -> Model:
        """Model whose geoms that a variant does not have are disabled by the bounding radius `ABSENT_RADIUS`.

        Args:
            model: model of the variant.
            entity_idx: index of the entity in the model.
            variant: index of the variant.
        """
        geoms, radius = model.geoms, model.geoms.radius.copy()
        for i, (name, link) in enumerate(zip(geoms.names, geoms.link_idx.tolist(), strict=True)):
            link_name = "" if link < 0 else model.links.names[link]
            if geoms.entity_idx[i] == entity_idx and (link_name, name) in self.absent_shapes[variant]:
                radius[i] = ABSENT_RADIUS
        return model.with_columns("geoms", radius=radius)


def variant_combinations(
    variants_by_entity: Mapping[int, EntityVariants], n_envs: int
) -> tuple[list[dict[int, int]], VariantIndices]:
    """Distinct combinations of entity variants over all environments.

    Args:
        variants_by_entity: variants of each entity that has any, by entity index.
        n_envs: number of environments.

    Returns:
        Variant index by entity index for each combination, in order of first occurrence; and the index of the
            combination of each environment, (n_envs,).
    """
    if not variants_by_entity:
        return [{}], np.broadcast_to(np.zeros(1, np.intp), (n_envs,))  # a broadcast view without memory
    assignments = np.stack([variants.variant_of_env(n_envs) for variants in variants_by_entity.values()], axis=1)
    _, first, inverse = np.unique(assignments, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)  # order of first occurrence
    rank = np.argsort(order)
    combinations = [dict(zip(variants_by_entity, assignments[i].tolist(), strict=True)) for i in first[order]]
    return combinations, rank[inverse.reshape(-1)]


def with_shared_geometry_data(models: Sequence[Model]) -> list[Model]:
    """Deduplicate the mesh and height field data of several models: all get one array, with start offsets into it."""
    offsets: dict[bytes, int] = {}
    blocks: list[np.ndarray] = []
    starts_of_models: list[list[int]] = []
    length = 0
    for model in models:
        geoms, starts = model.geoms, []
        bounds = [*sorted(set(geoms.data_start.tolist())), len(geoms.data)]
        end_of_start = dict(pairwise(bounds))  # geoms of equal shape have the same block
        for start in geoms.data_start.tolist():
            end = end_of_start[start]
            block = geoms.data[start:end]
            if block.tobytes() not in offsets:
                offsets[block.tobytes()] = length
                blocks.append(block)
                length += len(block)
            starts.append(offsets[block.tobytes()])
        starts_of_models.append(starts)
    data = np.concatenate([np.zeros(0), *blocks])
    return [
        model.with_columns("geoms", data=data, data_start=np.array(starts, np.int32))
        for model, starts in zip(models, starts_of_models, strict=True)
    ]


def unify_variants(
    descriptions: Sequence[Robot | World], specs: Sequence[EntitySpec], seed: int | None
) -> EntityVariants:
    """Give all variants of an entity the same structure: equal links, and the union of their collision shapes.

    Shapes that a variant lacks are recorded in `absent_shapes`, to be disabled. Variants with equal structure are used
    as they are. Raises `KinemaError` if they differ in the number of links or joints, or if worlds differ in structure.

    Args:
        descriptions: description of each variant.
        specs: entity of each variant.
        seed: random seed of the assignment to environments; None for one after the other.
    """
    if len({_collision_structure(v) for v in descriptions}) == 1:
        return EntityVariants(
            specs=list(specs), descriptions=list(descriptions), absent_shapes=[set() for _ in descriptions], seed=seed
        )
    robots = [v for v in descriptions if isinstance(v, Robot)]
    same_topology = len(robots) == len(descriptions) and len({(len(r.links), len(r.joints)) for r in robots}) == 1
    if not same_topology:
        raise KinemaError(
            "variants: all variants must have the same number of links and joints; use separate scenes for worlds and "
            "for robots that differ in these"
        )
    renamed = [_with_link_names_of(robot, robots[0]) for robot in robots]
    unified = [replace(robot, links=list(robot.links)) for robot in renamed]
    absent: list[set[tuple[str, str]]] = [set() for _ in robots]
    for link_idx in range(len(robots[0].links)):
        union = _union_of_shapes([robot.links[link_idx] for robot in unified])
        for robot, missing in zip(unified, absent, strict=True):
            link = robot.links[link_idx]
            shapes, absent_names = _match_to_union(link, union)
            robot.links[link_idx] = replace(link, shapes=shapes)
            missing |= {(link.name, name) for name in absent_names}
    unified_specs = [replace(spec, description=robot) for spec, robot in zip(specs, unified, strict=True)]
    return EntityVariants(specs=unified_specs, descriptions=list(renamed), absent_shapes=absent, seed=seed)


def _collision_structure(description: Robot | World) -> object:
    """Hashable key of a description: link names, joints and collision shapes; variants with equal keys can be mixed."""
    links = description.links
    world_shapes = description.shapes if isinstance(description, World) else []
    shapes = [[(s.name, _shape_kind(s)) for s in _collision_shapes(link.shapes)] for link in links]
    joints = [(j.name, j.kind) for j in description.joints]
    return str(
        (
            [link.name for link in links],
            joints,
            shapes,
            [(s.name, _shape_kind(s)) for s in _collision_shapes(world_shapes)],
        )
    )


def _collision_shapes(shapes: Sequence[Shape]) -> list[Shape]:
    return [s for s in shapes if s.collision and s.enabled]


def _shape_kind(shape: Shape) -> ShapeKind:
    geometry = shape.geometry
    return type(geometry).__name__, str(getattr(geometry, "approximation", ""))


def _with_link_names_of(robot: Robot, reference: Robot) -> Robot:
    """Robot with the link name of the reference if it has a single link.

    Several links must have equal names and order.
    """
    if len(robot.links) == 1 and not robot.joints:
        return replace(robot, name=reference.name, links=[replace(robot.links[0], name=reference.links[0].name)])
    if [x.name for x in robot.links] != [x.name for x in reference.links]:
        raise KinemaError("variants: robots of one entity must have the same link names in the same order")
    return robot


def _union_of_shapes(links: Sequence[Link]) -> dict[tuple[ShapeKind, int], Shape]:
    """Union of the collision shapes of corresponding links by key (kind, index within the kind), sorted."""
    union: dict[tuple[ShapeKind, int], Shape] = {}
    for link in links:
        for key, shape in _numbered_shapes(link):
            union.setdefault(key, shape)
    return dict(sorted(union.items(), key=lambda item: item[0]))


def _numbered_shapes(link: Link) -> list[tuple[tuple[ShapeKind, int], Shape]]:
    """Collision shapes of a link with their keys: kind, and index within the kind."""
    last_index: dict[ShapeKind, int] = {}
    result = []
    for shape in _collision_shapes(link.shapes):
        kind = _shape_kind(shape)
        last_index[kind] = last_index.get(kind, -1) + 1
        result.append(((kind, last_index[kind]), shape))
    return result


def _match_to_union(link: Link, union: Mapping[tuple[ShapeKind, int], Shape]) -> tuple[list[Shape], set[str]]:
    """Collision shapes of a link, one for each key of the union of all variants, and the names of substituted shapes.

    A shape of the union that the link lacks is substituted by that of another variant. Shapes are named by key.
    """
    own_shapes = dict(_numbered_shapes(link))
    shapes, absent = [], set()
    for key, substitute in union.items():
        (geometry_type, approximation), index = key
        name = " ".join(
            [geometry_type.lower(), *([approximation] if approximation else []), *([str(index + 1)] if index else [])]
        )
        shapes.append(replace(own_shapes.get(key, substitute), name=name))
        if key not in own_shapes:
            absent.add(name)
    return shapes, absent
