"""Contact buffers (geom pairs between two bodies with one condim): maximum number of contacts and buffer capacities.

A contact buffer is planned from the model alone, before tracing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from kinema.model import GEOM_TYPES, Model

from ..topology import WORLD, dynamic_frames
from .analytic_pairs import ANALYTIC_COLLISION_TABLE, check_analytic_collision_table

# ----------------------------------------------------------------------------- maximum number of contacts per geom pair

MAX_MANIFOLD_CONTACTS = 8
"""Maximum number of contacts of a clipped manifold of two convex geoms, in addition to the deepest point."""
MAX_PLANE_MESH_CONTACTS = 4
MAX_HEIGHT_FIELD_CONTACTS = 50
"""Maximum number of contacts of a height field and a convex geom, as in MuJoCo."""
N_NORMAL_BINS = 6
"""Bins of SDF contact normals: the nearest of the six signed coordinate axes."""
CONTACTS_PER_NORMAL_BIN = 5
"""Contacts kept per normal bin: the deepest, and the extremal points in four tangential directions."""
MAX_SDF_CONTACTS = N_NORMAL_BINS * CONTACTS_PER_NORMAL_BIN
CONVEX_TYPES = ("sphere", "capsule", "ellipsoid", "cylinder", "cone", "box", "mesh")
MANIFOLD_TYPES = ("capsule", "cylinder", "cone", "box", "mesh")
"""Geom types with faces or edges, which can have several contacts; other convex geom types are strictly convex."""
SWEEPABLE_TYPES = ("plane", *CONVEX_TYPES)
"""Geom types whose contacts can be found along their motion in a step."""
SDF_TYPE = "distance field"


def max_contacts_by_types(*, multiccd: bool) -> dict[tuple[str, str], int]:
    """Maximum number of contacts of a geom pair, by its two geom types ordered as in `GEOM_TYPES`.

    Pairs of types that are missing do not collide.

    Args:
        multiccd: whether general convex pairs have a contact manifold instead of the deepest point only.
    """
    check_analytic_collision_table()
    analytic = {pair: entry.max_contacts for pair, entry in ANALYTIC_COLLISION_TABLE.items()}
    return {**_max_contacts_without_formula(multiccd=multiccd), **analytic}


@cache
def _max_contacts_without_formula(*, multiccd: bool) -> dict[tuple[str, str], int]:
    """Maximum number of contacts of pairs with a plane and a mesh, a height field, an SDF or two convex geoms."""
    table = {
        ("plane", "mesh"): MAX_PLANE_MESH_CONTACTS,
        **{("height field", geom_type): MAX_HEIGHT_FIELD_CONTACTS for geom_type in CONVEX_TYPES},
    }
    convex = [geom_type for geom_type in GEOM_TYPES if geom_type in CONVEX_TYPES]
    for i, first in enumerate(convex):
        for second in convex[i:]:
            table[first, second] = (
                MAX_MANIFOLD_CONTACTS + 1 if multiccd and {first, second} <= set(MANIFOLD_TYPES) else 1
            )
    table |= {
        (geom_type, SDF_TYPE): MAX_SDF_CONTACTS for geom_type in ("plane", "height field", *CONVEX_TYPES, SDF_TYPE)
    }
    return table


# --------------------------------------------------------------------------------------- contact buffers and capacities

CONTACTS_PER_GEOM = 16
"""Default capacity of a pool of contacts, per geom, of models with rules of collision."""
DEFAULT_CONTACTS_PER_FRAME_PAIR = 64
"""Default capacity of a contact buffer."""
MIN_WARP_CONTACTS, WARP_CONTACTS_PER_DOF = 48, 3
"""Capacity of a contact group of an environment that is simulated by a warp: minimum, and per degree of freedom. Larger
if the user requests a larger capacity per frame pair."""
MANY_DOFS, WARP_CONTACTS_PER_EXTRA_DOF = 64, 0.5
"""Number of degrees of freedom above which a scene counts as a pile of many bodies, and the capacity added per further
degree of freedom."""
WARP_CONTACTS_PER_BODY_DOF = 1.2
"""Least capacity per degree of freedom: boxes at rest in a bin have 0.9 contacts per degree of freedom."""


@dataclass(frozen=True, slots=True)
class ContactSpecialization:
    """Specialization key of a contact buffer: contact dimension, friction cone and optional features."""

    condim: int
    """Contact dimension: 1 frictionless, 3 sliding, 4 torsional, 6 rolling friction."""
    elliptic: bool
    """Whether the friction cone is elliptic; otherwise pyramidal or frictionless."""
    involves_world: bool
    """Whether the first frame is the world."""
    has_restitution_or_stiction: bool
    """Whether any pair has restitution, or static friction above kinetic friction."""
    has_surface_velocity: bool = False
    """Whether the surfaces of geoms move relative to their frames."""
    group_size: int = 1
    """Number of contacts of a pair whose records are interleaved, as lanes of SIMD code."""


@dataclass(frozen=True, slots=True)
class ContactBufferSpec:
    """Contact buffer before memory is allocated: the geom pairs between two bodies (moving frames) with one condim."""

    frames: tuple[int, int]
    """Indices of the two frames in ascending order; the world is -1."""
    specialization: ContactSpecialization
    pairs: list[int]
    """Indices of the geom pairs in the model."""
    max_contacts: int
    """Maximum number of contacts that the pairs can have."""
    capacity: int
    """Number of contacts that the buffer can hold."""


def plan_contact_buffers(model: Model, frames: Collection[int] | None = None) -> list[ContactBufferSpec]:
    """Contact buffers of a model: its geom pairs grouped by pair of bodies (moving frames) and condim, sorted by both.

    Geoms of kinematic bodies belong to the world. Pairs of geom types that do not collide are left out.

    Args:
        model: the model.
        frames: indices of the frames whose mutual and world contact buffers are returned; None for all frames.
    """
    geoms, pairs = model.geoms, model.pairs
    frames_of_geoms = dynamic_frames(model, geoms.frame_idx)
    pair_frames = np.sort(np.stack([frames_of_geoms[x] for x in (pairs.geom_a, pairs.geom_b)], axis=1), axis=1)
    selected_frames = np.array([WORLD, *(range(model.n_frames) if frames is None else frames)])
    max_contacts = _max_contacts_per_pair(model)
    pair_indices = np.flatnonzero((max_contacts > 0) & np.isin(pair_frames, selected_frames).all(axis=1))
    if not len(pair_indices):
        return []
    keys = np.column_stack([pair_frames[pair_indices], pairs.condim[pair_indices]])
    order = np.lexsort(keys.T[::-1])  # stable sort: pairs of a buffer keep their order
    keys, pair_indices = keys[order], pair_indices[order]
    starts = np.flatnonzero(np.append(True, (keys[1:] != keys[:-1]).any(axis=1)))
    has_restitution_or_stiction = (pairs.restitution != 0.0) | (pairs.stiction_ratio > 1.0)
    columns = (
        keys[starts].tolist(),
        np.logical_or.reduceat(has_restitution_or_stiction[pair_indices], starts).tolist(),
        np.add.reduceat(max_contacts[pair_indices], starts).tolist(),
        np.append(starts[1:], len(pair_indices)).tolist(),
    )
    buffers, all_pairs, start, capacity = [], pair_indices.tolist(), 0, frame_pair_capacity(model)
    specializations: dict[tuple[int, bool, bool], ContactSpecialization] = {}
    moves = has_surface_velocity(model)
    for (a, b, condim), has_extra, n_contacts, end in zip(*columns, strict=True):
        key = condim, a == WORLD, has_extra
        if key not in specializations:
            elliptic = model.options.elliptic and condim > 1
            specializations[key] = ContactSpecialization(condim, elliptic, a == WORLD, has_extra, moves)
        buffers.append(
            ContactBufferSpec((a, b), specializations[key], all_pairs[start:end], n_contacts, min(n_contacts, capacity))
        )
        start = end
    return buffers


def surface_velocities(model: Model) -> tuple[str, ...]:
    """Velocities of surfaces besides J v in a model: `own` (relative to the frame), `carried` (by a kinematic body)."""
    present = {"own": bool(len(model.geoms.surface_velocity)), "carried": bool(model.kinematic_frames)}
    return tuple(name for name in present if present[name])


def fast_pair_mask(model: Model) -> npt.NDArray[np.bool_]:
    """Whether contacts of each geom pair are speculative, (n_pairs,) (`is_fast_pair`)."""
    geoms, pairs = model.geoms, model.pairs
    if not geoms.fast.any():
        return np.zeros(len(pairs.geom_a), np.bool_)
    sweepable = np.isin(geoms.types, SWEEPABLE_TYPES)
    fast = geoms.fast[pairs.geom_a] | geoms.fast[pairs.geom_b]
    return fast & sweepable[pairs.geom_a] & sweepable[pairs.geom_b]


def is_fast_pair(model: Model, pair: int) -> bool:
    """Whether contacts of a geom pair are speculative: one of both geoms is fast, and both are convex or planes."""
    geoms = int(model.pairs.geom_a[pair]), int(model.pairs.geom_b[pair])
    if not model.geoms.fast.size or not model.geoms.fast[[*geoms]].any():
        return False
    return all(model.geoms.types[geom] in SWEEPABLE_TYPES for geom in geoms)


def core_sides(model: Model, pair: int) -> tuple[bool, bool]:
    """Whether the core of each geom of a pair has contacts of its own: fast geoms except spheres."""
    if not is_fast_pair(model, pair):
        return False, False
    a, b = int(model.pairs.geom_a[pair]), int(model.pairs.geom_b[pair])
    types = model.geoms.types
    fast_a, fast_b = (bool(model.geoms.fast[x]) and types[x] not in ("plane", "sphere") for x in (a, b))
    return fast_a, fast_b


def fast_types_without_sweep(model: Model) -> list[tuple[str, str]]:
    """Sorted pairs of geom types of pairs with a fast geom whose contacts are not speculative."""
    fast = {geom for geom, is_fast in enumerate(model.geoms.fast) if is_fast}
    pairs = zip(model.pairs.geom_a.tolist(), model.pairs.geom_b.tolist(), strict=True)
    names = list(model.geoms.types)
    types = {(names[int(a)], names[int(b)]) for a, b in pairs if a in fast or b in fast}
    return sorted(x for x in types if not set(x) <= set(SWEEPABLE_TYPES))


def has_surface_velocity(model: Model) -> bool:
    """Whether surfaces of geoms can have a velocity besides J v: of their own, or of a kinematic body."""
    return bool(surface_velocities(model))


def _max_contacts_per_pair(model: Model) -> npt.NDArray[np.int64]:
    """Maximum number of contacts of each geom pair of a model, shape (n_pairs,); 0 for types that do not collide."""
    type_names, by_types = sorted(set(model.geoms.types)), max_contacts_by_types(multiccd=model.options.multiccd)
    table = np.zeros((len(type_names), len(type_names)), np.int64)
    for i, a in enumerate(type_names):
        for j, b in enumerate(type_names):
            table[i, j] = by_types.get((a, b), 0)
    type_indices = np.array([type_names.index(geom_type) for geom_type in model.geoms.types], np.intp)
    max_contacts = table[type_indices[model.pairs.geom_a], type_indices[model.pairs.geom_b]]
    for pair in np.flatnonzero(fast_pair_mask(model)).tolist():
        max_contacts[pair] += sum(core_sides(model, pair))
    return max_contacts


def contact_buffer_name(spec: ContactBufferSpec) -> str:
    """Unique name of a contact buffer: its frames and condim."""
    return f"{spec.frames} {spec.specialization.condim}"


def may_lose_contacts(model: Model, *, use_warps: bool = False) -> bool:
    """Whether the geom pairs can have more contacts than the contact buffers can hold.

    Args:
        model: the model.
        use_warps: whether the capacity is that of an environment simulated by a warp, instead of one per contact
            buffer.
    """
    if model.has_pair_rules:
        return True
    specs = plan_contact_buffers(model)
    if use_warps:
        return sum(spec.max_contacts for spec in specs) > warp_contact_capacity(model, _n_colliding_dofs(model, specs))
    return any(spec.capacity < spec.max_contacts for spec in specs)


def contact_capacity(model: Model, *, use_warps: bool = False) -> int:
    """Number of contacts that can be stored: per contact buffer or, with `use_warps`, per contact group.

    Per geom, with rules of collision.
    """
    if model.has_pair_rules:
        return max(CONTACTS_PER_GEOM, model.derived.max_contacts_per_frame_pair or 0)
    if use_warps:
        return warp_contact_capacity(model, _n_colliding_dofs(model, plan_contact_buffers(model)))
    return frame_pair_capacity(model)


def frame_pair_capacity(model: Model) -> int:
    """Maximum number of contacts that can be stored between two frames."""
    return (
        DEFAULT_CONTACTS_PER_FRAME_PAIR
        if model.derived.max_contacts_per_frame_pair is None
        else model.derived.max_contacts_per_frame_pair
    )


def warp_contact_capacity(model: Model, n_dofs: int) -> int:
    """Capacity of a group of contact lists in an environment simulated by a warp, from its degrees of freedom.

    The capacity is 3 contacts per degree of freedom, 0.5 for degrees of freedom beyond 64, at least 1.2 for all of
    them, 48, and the capacity per frame pair requested by the user.
    """
    n_extra_dofs = max(n_dofs - MANY_DOFS, 0)
    return max(
        MIN_WARP_CONTACTS,
        WARP_CONTACTS_PER_DOF * (n_dofs - n_extra_dofs) + int(WARP_CONTACTS_PER_EXTRA_DOF * n_extra_dofs),
        int(WARP_CONTACTS_PER_BODY_DOF * n_dofs),
        model.derived.max_contacts_per_frame_pair or 0,
    )


def _n_colliding_dofs(model: Model, specs: Sequence[ContactBufferSpec]) -> int:
    """Number of degrees of freedom of the frames that are in any contact buffer."""
    frames = {frame for spec in specs for frame in spec.frames} - {WORLD}
    return sum(len(model.frame_dof_range(frame)) for frame in frames)


def pair_geom_types(model: Model, pair: int) -> tuple[str, str]:
    """Geom types of a geom pair."""
    types, pairs = model.geoms.types, model.pairs
    return types[int(pairs.geom_a[pair])], types[int(pairs.geom_b[pair])]


def unsupported_type_pairs(model: Model) -> list[tuple[str, str]]:
    """Sorted pairs of geom types in the model that have no contact function."""
    types, pairs = model.geoms.types, model.pairs
    return sorted(
        {(types[int(a)], types[int(b)]) for a, b in zip(pairs.geom_a.tolist(), pairs.geom_b.tolist(), strict=True)}
        - set(max_contacts_by_types(multiccd=True))
    )
