"""Model parameters that differ between environments and are read from memory instead of being folded as constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinema.core import Array, KinemaError
from kinema.model import Model, PerEnvParameterEntry, PerEnvParameterTable

from ..arrays import ARRAYS, ArrayUse, initial_values
from ..collision.contact_buffer_specs import contact_buffer_name, pair_geom_types, plan_contact_buffers
from ..collision.pair_parameters import (
    INVWEIGHT_COLUMNS,
    buffer_pair_columns,
    frame_pair_spheres,
    geom_local_pose,
    pair_parameter_rows,
)
from ..constraints.constraint_kinds import blocks_by_kind
from ..constraints.equalities import EQUALITY, equality_constants
from ..constraints.rows import block_key, block_parameters
from ..forces.transmission_paths import PATH_SEGMENT, segment_constants
from ..model_variants import INVWEIGHT_PARAMETERS, structure_mismatch_message
from ..rigid.free_bodies import free_bodies
from ..sensors.contact_weights import TACTILE_GEOM, TACTILE_KINDS, tactile_geom_constants, tactile_geoms
from ..sensors.ray_casting import RAY_GEOM, ray_geom_constants
from ..settings import Settings
from ..tree.kinematic_tree import build_tree
from ..tree.node_constants import FrameConstants, FrameSpecialization, link_constants
from ..tree.transmissions import TRANSMISSION_TABLES, transmission_constants, transmission_element_kinds

FOLDABLE_CONSTANTS = (0.0, 1.0, -1.0)
"""Values that stay folded into the code if all variants have them: folding is exact for these values."""
ParameterSource = tuple[str, int | str]
"""Element with constants: frame, link, transmission, geom, pair or ray geom with its index; moment arm, contact buffer
or constraint with its name."""


def select_per_env_parameters(
    models: Sequence[Model], settings: Settings
) -> tuple[Settings, PerEnvParameterTable | None]:
    """Settings with all parameters in which model variants differ, and the table of constants read from memory."""
    if len(models) > 1:
        required = differing_inputs(models, settings) | {"variants"}
        settings = replace(settings, per_env=settings.per_env | required)
    table = find_per_env_parameters(models, settings)
    return replace(settings, per_env_parameters=table is not None), table


def element_constants(
    model: Model, settings: Settings, only: Set[str] | None = None
) -> Iterator[tuple[ParameterSource, str, Mapping[str, Sequence[Any]]]]:
    """Yield the constants of every frame, link, transmission, geom, contact buffer, geom pair, ray geom and constraint.

    Each element is (kind and index, code specialization, constants by name); constants may differ between model
    variants. `only` restricts the kinds of elements.
    """

    def is_wanted(*kinds: str) -> bool:
        return only is None or not only.isdisjoint(kinds)

    nodes = build_tree(model).nodes if is_wanted("frame", "block") else []
    if is_wanted("frame"):
        frame_constants = FrameConstants(model)
        for node in nodes:
            yield ("frame", node.index), str(FrameSpecialization.from_node(node)), frame_constants.of_frame(node)
    for link in range(model.n_links if is_wanted("link") else 0):
        has_gravcomp, has_mass = bool(model.links.gravity_scale[link] != 1.0), bool(model.links.inertial_mass[link])
        yield ("link", link), f"{has_gravcomp} {has_mass}", dict(link_constants(model, link))
    for table in TRANSMISSION_TABLES:
        if is_wanted(table, *transmission_element_kinds(table)):
            for kind, element, constants in transmission_constants(model, table):
                yield (kind, element), "", constants
    if settings.contacts:
        yield from _contact_constants(model, settings, is_wanted)
    if is_wanted(RAY_GEOM):
        for geom, geom_type in enumerate(model.sensors.ray_geoms.types):
            yield (RAY_GEOM, geom), geom_type, ray_geom_constants(model, geom)
    if is_wanted(TACTILE_GEOM):
        tactile = [i for i, kind in enumerate(model.sensors.outputs.kinds) if kind in TACTILE_KINDS]
        for geom in sorted({geom for output in tactile for geom in tactile_geoms(model, output)}):
            yield (TACTILE_GEOM, geom), model.geoms.types[geom], tactile_geom_constants(model, geom)
    for segment in range(len(model.path_segments.kinds) if is_wanted(PATH_SEGMENT) else 0):
        yield (PATH_SEGMENT, segment), model.path_segments.kinds[segment], segment_constants(model, segment)
    for equality in range(len(model.equalities.names) if is_wanted(EQUALITY) else 0):
        yield (EQUALITY, equality), "", equality_constants(model, equality)
    if is_wanted("block"):
        for kind, blocks in blocks_by_kind(model, settings, nodes):
            for block in blocks:
                yield ("block", block_key(block)), kind.name, block_parameters(block)


def _contact_constants(
    model: Model, settings: Settings, is_wanted: Callable[[str], bool]
) -> Iterator[tuple[ParameterSource, str, Mapping[str, Sequence[Any]]]]:
    """Yield the constants of geoms, contact buffers and geom pairs, as `element_constants`."""
    if is_wanted("geom"):
        for geom in range(len(model.geoms.names)):
            yield ("geom", geom), "", geom_local_pose(model, geom)
    if not (is_wanted("buffer") or is_wanted("pair")):
        return
    specs = plan_contact_buffers(model)
    rows = pair_parameter_rows(model, settings, specs) if is_wanted("pair") else {}
    for spec in specs:
        if is_wanted("buffer"):
            yield ("buffer", contact_buffer_name(spec)), str(spec.specialization), frame_pair_spheres(model, spec)
        for p in spec.pairs if rows else ():
            yield ("pair", p), str(pair_geom_types(model, p)), rows[p]


def find_per_env_parameters(models: Sequence[Model], settings: Settings) -> PerEnvParameterTable | None:
    """Table of the model constants that programs read from memory, per environment, instead of folding them.

    These are constants in which the model variants differ; inertias of free bodies with collision geoms, so that all
    free bodies share one program; and invweights of constraints, if masses are per-environment parameters. None if
    there are none. Raises `KinemaError` if the models differ in structure.
    """
    first = models[0]
    free_frames = {("frame", ball.index) for _, ball in free_bodies(build_tree(first).nodes) if settings.contacts}
    collision_frames = {int(x) for x in first.geoms.frame_idx}
    needs_invweights = bool(settings.per_env & INVWEIGHT_PARAMETERS)
    groups: dict[tuple[str, str], list[_ParameterValues]] = {}
    is_uniform = len(models) == 1 and not needs_invweights
    for variants in zip(*(element_constants(model, settings) for model in models), strict=True):
        source, specialization, constants = variants[0]
        if is_uniform and source[0] != "frame":  # frames come first; of a single model nothing else is read from memory
            break
        if any(other[:2] != (source, specialization) for other in variants):
            raise KinemaError(structure_mismatch_message(f"{source[0]} {source[1]}"))
        for name in constants:
            model_values = np.array([np.asarray(other[2][name], np.float64) for other in variants]).T
            is_free_inertia = source in free_frames and source[1] in collision_frames and name == "inertia"
            is_invweight = needs_invweights and (
                (source[0] == "pair" and name in INVWEIGHT_COLUMNS) or (source[0], name) == ("block", "weights")
            )
            is_per_env = is_free_inertia or is_invweight or _differ(model_values)
            code = f"pair {specialization}" if source[0] == "pair" else f"{source}"
            groups.setdefault((code, name), []).append(
                _ParameterValues((*source, name), model_values, is_per_env, is_free_inertia)
            )
    entries, values = dict[tuple[str, int | str, str], PerEnvParameterEntry](), list[Array]()
    for (
        group
    ) in groups.values():  # iterations that share code read the same parameters, so that no further code is needed
        if any(parameter.is_per_env for parameter in group):
            folded = _foldable_constants(group)
            for parameter in group:
                entries[parameter.key] = PerEnvParameterEntry(len(values), folded)
                values += list(parameter.values)
    if not values:
        return None
    return PerEnvParameterTable(entries=entries, values=np.array(values).reshape(-1, len(models)))


class TableValues:
    """Values of models for a table of per-environment parameters."""

    def __init__(self, table: PerEnvParameterTable, settings: Settings) -> None:
        """Values for a table, of programs with some settings."""
        self.table, self._settings = table, settings
        self.kinds = frozenset(kind for kind, _, _ in table.entries)
        """Kinds of elements with values in the table."""
        by_name: dict[str, list[tuple[int, PerEnvParameterEntry]]] = {}
        for (kind, pair, name), entry in table.entries.items():
            if kind == "pair":
                by_name.setdefault(name, []).append((int(pair), entry))
        self._pair_rows = {
            name: (
                np.array([pair for pair, _ in entries]),
                np.array([entry.start for _, entry in entries])[:, None] + np.arange(len(entries[0][1].folded)),
            )
            for name, entries in by_name.items()
        }
        """Parameter of geom pairs -> pairs, and rows of the table, (n_pairs, width)."""

    def of_model(self, model: Model, kinds: Set[str] | None = None) -> Array:
        """Values of a model, (n_values,); zero for kinds of elements that are not among `kinds`, if given."""
        values = np.zeros(len(self.table.values))
        kinds = self.kinds if kinds is None else self.kinds & kinds
        if "pair" in kinds:
            specs = plan_contact_buffers(model)
            pairs, columns = buffer_pair_columns(model, self._settings, specs)
            position = np.zeros(len(model.pairs.geom_a), np.intp)
            position[pairs] = np.arange(len(pairs))
            for name, (selected, rows) in self._pair_rows.items():
                values[rows] = columns[name][position[selected]]
        if kinds - {"pair"}:
            for source, _, constants in element_constants(model, self._settings, kinds - {"pair"}):
                for name in constants:
                    entry = self.table.entries.get((*source, name))
                    if entry is not None:
                        values[entry.start : entry.start + len(entry.folded)] = constants[name]
        return values


def _differ(values: Array) -> bool:
    """Whether columns differ; NaN equals NaN."""
    first = values[:, :1]
    return bool(((values != first) & ~(np.isnan(values) & np.isnan(first))).any())


@dataclass(frozen=True, slots=True, eq=False)
class _ParameterValues:
    """Values of one parameter of one element in all model variants."""

    key: tuple[str, int | str, str]
    """Table, element and parameter name."""
    values: Array
    """(n_values, n_models)"""
    is_per_env: bool
    """Whether the values have to be read from memory."""
    never_folded: bool
    """Whether even zeros and ones are read from memory, so that rounding does not depend on the values."""


def _foldable_constants(parameters: Sequence[_ParameterValues]) -> tuple[float | None, ...]:
    """Constant at each position if all elements and variants have the same foldable value (0, 1, -1), else None."""
    rows = zip(*(parameter.values for parameter in parameters), strict=True)
    value_sets = [{float(x) for row in position_rows for x in row} for position_rows in rows]
    never_folded = any(parameter.never_folded for parameter in parameters)
    return tuple(
        next(iter(x)) if len(x) == 1 and not never_folded and x <= set(FOLDABLE_CONSTANTS) else None for x in value_sets
    )


def differing_inputs(models: Sequence[Model], settings: Settings) -> set[str]:
    """Names of the parameters that must be per environment because their values differ between model variants.

    Raises `KinemaError` if the initial state differs.
    """
    required: set[str] = set()
    for info in ARRAYS:
        if info.use is ArrayUse.CONSTANT or info.arena(settings) is None or info.name == "per_env_parameters":
            continue
        initial = [initial_values(info, model, settings) for model in models]
        if any(not np.array_equal(values, initial[0]) for values in initial):
            if info.use is not ArrayUse.PARAMETER:
                raise KinemaError(
                    f"variants: the initial values of {info.name} differ; all variants have to start in the same state"
                )
            required |= set(info.per_env_names or (info.name,))
    return required
