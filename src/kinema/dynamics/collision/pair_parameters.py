"""Parameter tables of geom pairs for the narrow phase: contact parameters and specialization per pair.

The table is built by columns with NumPy; it is built one iteration after the other if parameters differ between
environments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kinema.core import Array
from kinema.ir import ArenaOffset, IterationTable, LoopIterations, OffsetColumn
from kinema.model import ABSENT_RADIUS, Model

from ..arrays import MAX_RADIUS, ElementKind
from ..constraints.impedance import valid_solref
from ..constraints.impedance_power import integer_power
from ..settings import Settings
from ..topology import dynamic_frames
from ..tree.node_constants import with_per_env_parameters
from ..tree.node_tables import NodeIteration
from ..tree.trace_context import TraceContext
from .contact_buffer_specs import ContactBufferSpec, core_sides, fast_pair_mask, is_fast_pair, surface_velocities
from .local_aabbs import geom_half_extents, mesh_local_aabb

# ---------------------------------------------------------------------- parameters of geoms, geom pairs and frame pairs

ALLOWED_DEPTH_SHARE = 0.25
"""Penetration up to which contacts of a fast pair are soft, relative to the smallest half extent of both geoms."""
MIN_ALLOWED_DEPTH_SHARE = 1e-3
"""Lower bound of the same, relative to the smallest bounding radius, for geoms without thickness."""
MAX_RELATIVE_STIFFNESS = 3e2
"""Limit of the constraint stiffness times invweight in single precision; contacts then yield by the inverse of this
fraction of their load."""
INVWEIGHT_COLUMNS = ("weight", "hardest")
"""Parameters of a pair that depend on masses (through invweight)."""
ParameterRow = dict[str, list[Any]]


def geom_local_pose(model: Model, geom: int) -> ParameterRow:
    """Pose of a geom in its frame: position (3) [m] and rotation matrix (9, row-major)."""
    return {"position": model.geoms.pos[geom].tolist(), "rotation": model.geoms.rot[geom].ravel().tolist()}


def allowed_depth(model: Model, pair: int) -> float:
    """Depth [m] of a fast pair of geoms up to which its contacts are soft, and which is the limit of their approach."""
    half_extents, radii = [], []
    for geom in (int(model.pairs.geom_a[pair]), int(model.pairs.geom_b[pair])):
        geom_type, size = model.geoms.types[geom], model.geoms.size[geom].tolist()
        if geom_type == "plane" or model.geoms.radius[geom] == ABSENT_RADIUS:
            continue
        radii.append(float(model.geoms.radius[geom]))
        if geom_type == "mesh":
            half_extents += mesh_local_aabb(model, geom)[3:]
        else:
            half_extents += [size[0]] if geom_type == "sphere" else geom_half_extents(geom_type, size)
    shortest, radius = min(half_extents, default=1.0), min(radii, default=1.0)
    return max(ALLOWED_DEPTH_SHARE * float(shortest), MIN_ALLOWED_DEPTH_SHARE * radius)  # type: ignore[arg-type]


FAST_PAIR_PARAMETERS = ("allowed depth", "a core", "b core")
"""Names of the parameters that pairs have in addition if any pair of the model is fast."""
CORE_SHARE = 0.9
"""Radius of the core of a fast geom, relative to its smallest half extent."""


def _fast_pair_parameters(model: Model, pair: int) -> ParameterRow:
    """Allowed depth [m] of a pair, and cores of both geoms: centre in the axes of the geom (3), and radius [m]."""
    cores = [_core_of_geom(model, int(geoms[pair])) for geoms in (model.pairs.geom_a, model.pairs.geom_b)]
    return dict(zip(FAST_PAIR_PARAMETERS, ([allowed_depth(model, pair)], *cores), strict=True))


def _core_of_geom(model: Model, geom: int) -> list[float]:
    """Core of a fast geom: sphere around its centre, a point for meshes and cones; centre (3) and radius [m]."""
    geom_type, size = model.geoms.types[geom], model.geoms.size[geom].tolist()
    radius = 0.0
    if geom_type in ("capsule", "cylinder", "ellipsoid", "box"):
        radius = CORE_SHARE * min(geom_half_extents(geom_type, size))  # type: ignore[type-var]
    return [*model.geoms.center[geom].tolist(), float(radius)]  # type: ignore[arg-type]


def pair_parameter_columns(
    model: Model,
    settings: Settings,
    specs: Sequence[ContactBufferSpec],
    buffer_index: npt.NDArray[np.intp],
    pair_indices: npt.NDArray[np.intp],
) -> dict[str, Any]:
    """Parameters of many geom pairs for the narrow phase, as arrays of shape (n_pairs, width) by parameter name.

    Contains sizes, packed-data indices, local AABBs and bounding spheres of both geoms (prefixes "a" and "b"), and the
    contact parameters of the pair: margins, friction, invweight, stiffness limit, solref, solimp, orientation sign,
    pair index (from 1), restitution and stiction, and the parameters of fast pairs. The sign is 1 if the first geom is
    on the first frame of the contact buffer, otherwise -1. `buffer_index` is the index into `specs` of each pair.
    """
    geoms, pairs, n = model.geoms, model.pairs, len(pair_indices)
    a, b = pairs.geom_a[pair_indices], pairs.geom_b[pair_indices]
    all_geoms = range(len(geoms.names))
    bounding_radii = np.array([geom_radius(model, g) for g in all_geoms])
    data_indices = np.column_stack([geoms.data_start, geoms.data_counts, bounding_radii]).astype(np.float64)
    aabbs = np.array([mesh_local_aabb(model, g) for g in all_geoms], np.float64)
    radii = np.minimum(geoms.radius, MAX_RADIUS)[:, None]
    invweights = model.derived.pair_invweight[pair_indices, 0]
    first_frames = np.array([spec.frames[0] for spec in specs])[buffer_index]
    is_limited = np.array([stiffness_limit(settings, spec, 1.0) != MAX_RADIUS for spec in specs])[buffer_index]
    fast = fast_pair_mask(model)[pair_indices]
    of_fast_pairs = [_fast_pair_parameters(model, pair) for pair in pair_indices] if fast.any() else []
    return {
        **{name: np.array([x[name] for x in of_fast_pairs]) for name in FAST_PAIR_PARAMETERS if of_fast_pairs},
        "a size": geoms.size[a],
        "b size": geoms.size[b],
        "a data": data_indices[a],
        "b data": data_indices[b],
        "a aabb": aabbs[a],
        "b aabb": aabbs[b],
        "a center": geoms.center[a],
        "b center": geoms.center[b],
        "a radius": radii[a],
        "b radius": radii[b],
        "margin": pairs.margin[pair_indices, None],
        "force margin": (pairs.margin - pairs.gap)[pair_indices, None],
        "friction": pairs.friction[pair_indices],
        "inverse sqrt impratio": np.full((n, 1), model.options.impratio**-0.5),
        "weight": invweights[:, None],
        "hardest": np.where(is_limited, MAX_RELATIVE_STIFFNESS / np.where(is_limited, invweights, 1.0), MAX_RADIUS)[
            :, None
        ],
        "solref": _valid_solrefs(pairs.solref[pair_indices]),
        "solref friction": _valid_solrefs(pairs.solref_friction[pair_indices]),
        "solimp": pairs.solimp[pair_indices],
        "sign": np.where(dynamic_frames(model, geoms.frame_idx[a]) == first_frames, 1.0, -1.0)[:, None],
        "pair": (pair_indices + 1.0)[:, None],
        "restitution and stiction": np.column_stack(
            [x[pair_indices] for x in (pairs.restitution, pairs.bounce_speed, pairs.stiction_ratio)]
        ),
    }


def buffer_pair_columns(
    model: Model, settings: Settings, specs: Sequence[ContactBufferSpec]
) -> tuple[npt.NDArray[np.intp], dict[str, Any]]:
    """Indices of the geom pairs of contact buffers, and their parameters by name (`pair_parameter_columns`)."""
    pairs = np.array([p for spec in specs for p in spec.pairs], np.intp)
    buffer_index = np.repeat(np.arange(len(specs)), [len(spec.pairs) for spec in specs])
    return pairs, pair_parameter_columns(model, settings, specs, buffer_index, pairs)


def pair_parameter_rows(
    model: Model, settings: Settings, specs: Sequence[ContactBufferSpec]
) -> dict[int, ParameterRow]:
    """Parameters of each geom pair of contact buffers by pair and name; those of fast pairs only for fast pairs."""
    if not specs:
        return {}
    (pairs, columns), fast = buffer_pair_columns(model, settings, specs), fast_pair_mask(model)
    values = {name: column.tolist() for name, column in columns.items()}
    return {
        pair: {name: x[i] for name, x in values.items() if fast[pair] or name not in FAST_PAIR_PARAMETERS}
        for i, pair in enumerate(pairs.tolist())
    }


def _valid_solrefs(solrefs: Array) -> Array:
    """`valid_solref` of many pairs, shape (n, 2), evaluated once per distinct value."""
    distinct, inverse = np.unique(solrefs, axis=0, return_inverse=True)
    return np.array([valid_solref(x.tolist()) for x in distinct], np.float64)[inverse.ravel()]


def geom_radius(model: Model, geom: int) -> float:
    """Radius [m] of a sphere around a geom's own origin that encloses the geom."""
    geoms = model.geoms
    return float(min(geoms.radius[geom] + (geoms.center[geom] ** 2).sum() ** 0.5, MAX_RADIUS))


def stiffness_limit(settings: Settings, spec: ContactBufferSpec, invweight: Any) -> Any:
    """Upper limit of the constraint stiffness D of a contact buffer's contacts.

    Pyramidal friction cones become stiffer the lower the friction is; in single precision, D is limited to
    `MAX_RELATIVE_STIFFNESS / invweight`, so that the Hessian can be factorized. Otherwise the limit is `MAX_RADIUS`
    (none).
    """
    is_limited = settings.is_single_precision and spec.specialization.condim > 1 and not spec.specialization.elliptic
    return MAX_RELATIVE_STIFFNESS / invweight if is_limited else MAX_RADIUS


def frame_pair_spheres(model: Model, spec: ContactBufferSpec) -> ParameterRow:
    """Bounding spheres of the colliding geoms of a contact buffer's two bodies (moving frames), and the margin.

    Returns:
        Parameters "a center", "a radius", "b center", "b radius" and "margin" [m]; empty for at most two geom pairs,
        where culling the frame pair does not pay off, and for pairs with geoms of kinematic bodies or with fast geoms.
    """
    geoms_of_pairs = np.concatenate([model.pairs.geom_a[spec.pairs], model.pairs.geom_b[spec.pairs]])
    if len(spec.pairs) <= 2 or np.isin(model.geoms.frame_idx[geoms_of_pairs], model.kinematic_frames).any():
        return {}
    if any(is_fast_pair(model, pair) for pair in spec.pairs):
        return {}
    parameters: ParameterRow = {"margin": [float(max(model.pairs.margin[spec.pairs]))]}
    for prefix, frame in zip(("a ", "b "), spec.frames, strict=True):
        center, radius = _frame_bounding_sphere(model, spec, frame)
        parameters |= {f"{prefix}center": center, f"{prefix}radius": [min(radius, MAX_RADIUS)]}
    return parameters


def _frame_bounding_sphere(model: Model, spec: ContactBufferSpec, frame: int) -> tuple[list[float], float]:
    """Bounding sphere (centre in body axes, radius [m]) of a body's geoms that are in pairs of a contact buffer.

    The radius is `ABSENT_RADIUS` if no geom is present in this model variant.
    """
    geoms, pairs = model.geoms, model.pairs
    frame_geoms = {
        int(g) for p in spec.pairs for g in (pairs.geom_a[p], pairs.geom_b[p]) if geoms.frame_idx[g] == frame
    }
    centers = {
        g: geoms.pos[g] + geoms.rot[g] @ geoms.center[g] for g in frame_geoms if geoms.radius[g] != ABSENT_RADIUS
    }
    if not centers:
        return [0.0, 0.0, 0.0], ABSENT_RADIUS
    center = np.mean(list(centers.values()), axis=0)
    radius = max(float(geoms.radius[g]) + float(((centers[g] - center) ** 2).sum() ** 0.5) for g in centers)
    return center.tolist(), radius


# ---------------------------------------------------------------------------------------- loop iterations of geom pairs


@dataclass(frozen=True, slots=True)
class NarrowPhaseSpecialization:
    """Specialization key of the narrow-phase code of a geom pair."""

    geom_types: tuple[str, str]
    condim: int
    elliptic: bool
    solimp_power: int
    """Integer power of the impedance function, or 0 for a non-integer power."""
    has_solref_friction: bool
    """Whether friction rows have their own solref (`solreffriction`)."""
    may_overflow: bool
    """Whether the contact buffer may receive more contacts than its capacity. Set for all pairs of otherwise equal
    specializations if set for any, so that the contact function is traced and compiled once."""
    refsafe: bool
    """Whether the solref time constant is limited to at least two time steps (MuJoCo's `refsafe`)."""
    has_restitution_or_stiction: bool
    """Whether any pair has restitution, or static friction above kinetic friction."""
    per_env_parameters: tuple[str, ...]
    """Names of the parameters that differ between environments."""
    uses_lists: bool
    """Whether contacts are appended to unordered lists by concurrent threads."""
    multiccd: bool
    """Whether convex pairs emit a contact manifold instead of one point."""
    has_surface_velocity: bool
    """Whether surfaces have a velocity besides J v: of their own, or of a kinematic body."""
    surface_velocities: tuple[str, ...]
    """Velocities of surfaces that follow the poses of geoms (`surface_velocities`)."""
    is_fast: bool = False
    """Whether contacts are speculative: found along the motion of both geoms in a step."""
    cores: tuple[str, ...] = ()
    """Geoms of a fast pair ("a", "b") whose core has contacts of its own."""
    refines: bool = False
    """Whether contacts are made exact up to rounding, for the derivative of the step."""
    smoothing: float = 0.0
    """Distance [m] over which contacts begin gradually (`Settings.contact_smoothing`)."""
    uses_pool: bool = False
    """Whether contacts are appended to a pool for all pairs of geoms."""
    group_size: int = 1
    """Number of contacts of a pair whose records are interleaved (`ContactSpecialization.group_size`)."""
    directions: str = ""
    """Whether directions of the last step are read and stored ("update"), only read ("read"), or neither ("")."""


@dataclass(frozen=True, slots=True, eq=False)
class ContactBufferInputs:
    """Contact buffer with additional arrays and constants for the loop iterations of its geom pairs."""

    spec: ContactBufferSpec
    """The contact buffer."""
    offsets: Mapping[str, ArenaOffset]
    """Offset of each additional array, by name."""
    constants: Mapping[str, list[float]]
    """Values of each additional constant, by name."""


def build_pair_iterations(
    ctx: TraceContext,
    buffer_inputs: Sequence[ContactBufferInputs],
    geom_pose_offsets: Sequence[ArenaOffset],
    *,
    uses_lists: bool = False,
) -> LoopIterations:
    """Iterations of the narrow-phase loop, one per geom pair: geom poses, contact buffer and contact parameters.

    Built by columns, or one by one if parameters differ between environments.

    Args:
        ctx: tracing context.
        buffer_inputs: contact buffers with additional arrays and constants of their iterations, in this order.
        geom_pose_offsets: offset of each geom's world pose (12 scalars).
        uses_lists: whether contacts are appended to unordered lists.
    """
    if not buffer_inputs or _has_per_env_parameters(ctx):
        parameters = pair_parameter_rows(ctx.model, ctx.settings, [inputs.spec for inputs in buffer_inputs])
        rows = [
            row
            for inputs in buffer_inputs
            for row in _pair_iterations_of_buffer(ctx, inputs, geom_pose_offsets, parameters, uses_lists=uses_lists)
        ]
        specializations = [
            row.specialization for row in rows if isinstance(row.specialization, NarrowPhaseSpecialization)
        ]
        merged = _merge_overflow_specializations(specializations)
        return [
            replace(row, specialization=merged[specialization])
            for row, specialization in zip(rows, specializations, strict=True)
        ]
    specs = [inputs.spec for inputs in buffer_inputs]
    pairs = np.array([p for spec in specs for p in spec.pairs])
    buffer_index = np.repeat(np.arange(len(specs)), [len(spec.pairs) for spec in specs])
    buffer_columns = {
        name: OffsetColumn.from_offsets([inputs.offsets[name] for inputs in buffer_inputs]).select(buffer_index)
        for name in buffer_inputs[0].offsets
    }
    offset_columns = _pair_offset_columns(ctx, geom_pose_offsets, pairs, buffer_columns)
    constants = pair_parameter_columns(ctx.model, ctx.settings, specs, buffer_index, pairs)
    for name in buffer_inputs[0].constants:
        constants[name] = np.array([inputs.constants[name] for inputs in buffer_inputs])[buffer_index]
    groups = []
    for specialization, group in _group_by_specialization(
        ctx, specs, buffer_index, pairs, uses_lists=uses_lists
    ).items():
        group_columns = {name: column.select(group) for name, column in offset_columns.items()}
        groups.append(
            ctx.node_columns(
                specialization,
                group,
                {},
                group_columns,
                constants={name: values[group] for name, values in constants.items()},
            )
        )
    return IterationTable(groups)


def _has_per_env_parameters(ctx: TraceContext) -> bool:
    """Whether any geom-pair parameter differs between environments."""
    parameters = ctx.model.derived.per_env_parameters
    if ctx.settings.per_env & {"geom_friction", "geom_sol_params", "geom_size"}:
        return True
    return parameters is not None and any(table == "pair" for table, *_ in parameters.entries)


def _pair_offset_columns(
    ctx: TraceContext,
    geom_pose_offsets: Sequence[ArenaOffset],
    pairs: npt.NDArray[np.intp],
    buffer_offset_columns: Mapping[str, OffsetColumn],
) -> dict[str, OffsetColumn]:
    """Array offsets of geom pairs for their iterations, by array name: poses of both geoms ("a", "b") and geom data.

    Also the arrays of the contact buffer of each pair (`buffer_offset_columns`).

    Args:
        ctx: tracing context.
        geom_pose_offsets: offset of each geom's world pose.
        pairs: pair indices, shape (n,).
        buffer_offset_columns: offsets of the contact buffer arrays of each pair.
    """
    poses = OffsetColumn.from_offsets(geom_pose_offsets)
    sides = {"a": poses.select(ctx.model.pairs.geom_a[pairs]), "b": poses.select(ctx.model.pairs.geom_b[pairs])}
    data = (
        {"geom_data": OffsetColumn.repeated(ctx.array_offsets["geom_data"], len(pairs))}
        if ctx.model.geoms.data.size
        else {}
    )
    return {**sides, **buffer_offset_columns, **data}


def _group_by_specialization(
    ctx: TraceContext,
    specs: Sequence[ContactBufferSpec],
    buffer_index: npt.NDArray[np.intp],
    pairs: npt.NDArray[np.intp],
    *,
    uses_lists: bool,
) -> dict[NarrowPhaseSpecialization, npt.NDArray[np.intp]]:
    """Group geom pairs by the specialization key of their narrow-phase code.

    Pairs are first grouped by the distinct combinations of geom types, contact buffer specialization, overflow flag,
    solimp power and solref friction, so that the key is built once per combination. `buffer_index` is the index into
    `specs` of each pair.

    Returns:
        For each key the sorted positions in `pairs`.
    """
    pair_info, geoms = ctx.model.pairs, ctx.model.geoms
    type_ids = {name: i for i, name in enumerate(dict.fromkeys(geoms.types))}
    geom_type_ids = np.array([type_ids[name] for name in geoms.types])
    specialization_ids = {
        specialization: i for i, specialization in enumerate(dict.fromkeys(spec.specialization for spec in specs))
    }
    set_keys = np.array(
        [[specialization_ids[spec.specialization], spec.capacity < spec.max_contacts] for spec in specs]
    )
    _, power = np.unique(pair_info.solimp[pairs, 4], return_inverse=True)
    keys = [geom_type_ids[pair_info.geom_a[pairs]], geom_type_ids[pair_info.geom_b[pairs]], *set_keys[buffer_index].T]
    keys += [power.ravel(), pair_info.solref_friction[pairs].any(axis=1), fast_pair_mask(ctx.model)[pairs]]
    if geoms.fast.any():
        keys += [geoms.fast[pair_info.geom_a[pairs]], geoms.fast[pair_info.geom_b[pairs]]]
    _, first_positions, group_of_pair = np.unique(np.column_stack(keys), axis=0, return_index=True, return_inverse=True)
    result: dict[NarrowPhaseSpecialization, list[npt.NDArray[np.intp]]] = {}
    for i, first in enumerate(first_positions.tolist()):
        specialization = _specialization_of(
            ctx, specs[int(buffer_index[first])], int(pairs[first]), (), uses_lists=uses_lists
        )
        result.setdefault(specialization, []).append(np.flatnonzero(group_of_pair.ravel() == i))
    merged: dict[NarrowPhaseSpecialization, list[npt.NDArray[np.intp]]] = {}
    for specialization, merged_specialization in _merge_overflow_specializations(result).items():
        merged.setdefault(merged_specialization, []).extend(result[specialization])
    return {specialization: np.sort(np.concatenate(positions)) for specialization, positions in merged.items()}


def _merge_overflow_specializations(
    specializations: Collection[NarrowPhaseSpecialization],
) -> dict[NarrowPhaseSpecialization, NarrowPhaseSpecialization]:
    """Merge specializations that differ only in `may_overflow`: map each one to the specialization used for tracing.

    The merged specialization has `may_overflow` set if any of its members has.
    """
    overflowing = {
        replace(specialization, may_overflow=False) for specialization in specializations if specialization.may_overflow
    }
    return {
        specialization: replace(specialization, may_overflow=replace(specialization, may_overflow=False) in overflowing)
        for specialization in specializations
    }


def _specialization_of(
    ctx: TraceContext, spec: ContactBufferSpec, pair: int, per_env_parameters: tuple[str, ...], *, uses_lists: bool
) -> NarrowPhaseSpecialization:
    """Specialization key of a geom pair's narrow-phase code: geom types, contact type, overflow handling, options."""
    geoms, pairs = ctx.model.geoms, ctx.model.pairs
    return NarrowPhaseSpecialization(
        (geoms.types[int(pairs.geom_a[pair])], geoms.types[int(pairs.geom_b[pair])]),
        spec.specialization.condim,
        spec.specialization.elliptic,
        integer_power(pairs.solimp[pair].tolist()),
        bool(pairs.solref_friction[pair].any() and spec.specialization.elliptic),
        not uses_lists and spec.capacity < spec.max_contacts,
        ctx.model.options.refsafe,
        spec.specialization.has_restitution_or_stiction,
        per_env_parameters,
        uses_lists,
        ctx.model.options.multiccd,
        spec.specialization.has_surface_velocity,
        surface_velocities(ctx.model),
        is_fast_pair(ctx.model, pair),
        tuple(side for side, has_core in zip("ab", core_sides(ctx.model, pair), strict=True) if has_core),
        ctx.settings.stores_solution,
        ctx.settings.contact_smoothing,
    )


def _pair_iterations_of_buffer(
    ctx: TraceContext,
    buffer_inputs: ContactBufferInputs,
    geom_pose_offsets: Sequence[ArenaOffset],
    parameters: Mapping[int, ParameterRow],
    *,
    uses_lists: bool,
) -> list[NodeIteration]:
    """Narrow-phase iterations of a contact buffer's geom pairs, one by one, with per-environment parameters if any."""
    geoms, pairs, spec = ctx.model.geoms, ctx.model.pairs, buffer_inputs.spec
    rows = []
    for p in spec.pairs:
        a, b, per_env_offsets = int(pairs.geom_a[p]), int(pairs.geom_b[p]), _per_env_offsets(ctx, p)
        specialization = _specialization_of(ctx, spec, p, tuple(sorted(per_env_offsets)), uses_lists=uses_lists)
        constants = {
            **with_per_env_parameters(ctx, "pair", p, parameters[p]),
            **buffer_inputs.constants,
        }
        offsets = {"a": geom_pose_offsets[a], "b": geom_pose_offsets[b], **buffer_inputs.offsets, **per_env_offsets}
        if geoms.data.size:
            offsets["geom_data"] = ctx.array_offsets["geom_data"]
        rows.append(ctx.node_iteration(specialization, {}, offsets, constants))
    return rows


def _per_env_offsets(ctx: TraceContext, pair: int) -> dict[str, ArenaOffset]:
    """Offsets of the per-environment parameter arrays of a geom pair, by parameter name.

    Names are "friction", "solref" and "solimp" of the pair, and "a size", "b radius" and so on of its geoms. Empty
    unless such parameters differ between environments.
    """
    if not ctx.settings.per_env & {"geom_friction", "geom_sol_params", "geom_size"}:
        return {}
    arrays = ctx.element_arrays(ElementKind.PAIR, pair)
    offsets = {
        parameter: arrays[f"pair_{parameter}"]
        for parameter in ("friction", "solref", "solimp")
        if f"pair_{parameter}" in arrays
    }
    for side, geoms in (("a", ctx.model.pairs.geom_a), ("b", ctx.model.pairs.geom_b)):
        arrays = ctx.element_arrays(ElementKind.GEOM, int(geoms[pair]))
        for parameter in ("size", "radius"):
            if f"geom_{parameter}" in arrays:
                offsets[f"{side} {parameter}"] = arrays[f"geom_{parameter}"]
    return offsets
