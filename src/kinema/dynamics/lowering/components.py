"""Connected components of a model, operation-count estimates, and loops over identical components.

A component is a set of kinematic trees that are connected by actuators, tendons, couplings, constraints or possible
contacts. Components of equal signature (a hundred arms of one kind, a hundred free bodies) are stepped by a
loop over the unrolled step of the first: its state arrays are addressed relative to the component, constants in which
the components differ (such as masses) are read from a table, and all others stay folded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from kinema.core import Array
from kinema.ir import (
    ArenaOffset,
    ColumnarGroup,
    IterationContext,
    IterationTable,
    OffsetColumn,
    Tracer,
    Value,
    trace_for_each_loop,
    unroll,
)
from kinema.model import FluidInfo, Model, empty_pair_rules

from ..arrays import ARRAYS, ARRAYS_BY_NAME, ArrayUse, ElementKind
from ..constraints.constraint_kinds import CONSTRAINT_KINDS, blocks_beyond_tables
from ..constraints.joint_constraints import joint_limit_blocks
from ..forces.fluid import fluid_law
from ..pipeline import record_step
from ..settings import Settings
from ..step import StepData
from ..topology import dynamic_frames, dynamic_parents, tree_index_of_frames
from ..tree.kinematic_tree import WORLD, KinematicTree, build_tree
from ..tree.node_constants import FrameConstants, FrameSpecialization, link_constants, packed_inertia
from ..tree.trace_context import TraceContext
from .program_tracing import named_array_offsets

# ------------------------------------------------------------------------------------------------- connected components

MAX_UNROLLED_OPERATIONS = 20_000
"""Operation count above which unrolled code takes too long to compile: about one second per thousand operations."""
LOOP_OPERATIONS_PER_DOF = 520
"""Approximate operations per dof of a step by loops over joints (O(n) algorithms), independent of the tree depth."""


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """Connected component of a model: ascending indices of its frames, coordinates, dofs, links, actuators, ..."""

    frames: list[int]
    """Moving frames."""
    qs: list[int]
    """Coordinates."""
    dofs: list[int]
    links: list[int]
    actuators: list[int]
    tendons: list[int]
    control_samples: list[int]
    """Samples of the control history of delayed actuators."""
    trees: list[int]
    """Kinematic trees."""

    @property
    def is_contiguous(self) -> bool:
        """Whether its coordinates and its dofs are contiguous index ranges."""
        return all(x[-1] - x[0] == len(x) - 1 for x in (self.qs, self.dofs))


def connected_components(model: Model) -> list[Component]:
    """Connected components of a model: kinematic trees that do not interact, in the order of their first frames.

    Trees are connected by actuators, tendons, paths, couplings, constraints and collision pairs. Each component lists
    its frames, coordinates, dofs, links, actuators, tendons and control history samples.
    """
    labels, trees = _component_labels(model), tree_index_of_frames(model)
    components: dict[int, Component] = {}
    kinematic = set(model.kinematic_frames)
    for frame, root in enumerate(labels):
        if frame in kinematic:
            continue
        component = components.setdefault(root, Component([], [], [], [], [], [], [], []))
        component.frames.append(frame)
        component.qs.extend(model.frame_q_range(frame))
        component.dofs.extend(model.frame_dof_range(frame))
    for link, frame in enumerate(dynamic_frames(model, model.links.frame_idx).tolist()):
        if frame != WORLD:
            components[labels[frame]].links.append(link)
    force_rows = model.actuators.force_row.tolist()
    for actuator in range(model.n_actuators):
        moved_frames = _frames_of_actuator(model, force_rows[actuator])
        if moved_frames:
            component = components[labels[moved_frames[0]]]
            component.actuators.append(actuator)
            start = int(model.actuators.n_delay_samples[:actuator].sum())
            component.control_samples.extend(range(start, start + int(model.actuators.n_delay_samples[actuator])))
    for tendon in range(len(model.tendons.names)):
        tendon_frames = _frames_of_moment(model, model.tendons.moment[tendon])
        if tendon_frames:
            components[labels[tendon_frames[0]]].tendons.append(tendon)
    for component in components.values():
        component.qs.sort()
        component.dofs.sort()
        component.trees.extend(sorted({trees[frame] for frame in component.frames}))
    return list(components.values())


def _component_labels(model: Model) -> list[int]:
    """Label of each frame: the smallest frame index of its connected component (union-find)."""
    label = list(range(model.n_frames))

    def find(frame: int) -> int:
        while label[frame] != frame:
            label[frame] = label[label[frame]]
            frame = label[frame]
        return frame

    def join(frames: Sequence[int]) -> None:
        roots = sorted({find(f) for f in frames})
        for root in roots[1:]:
            label[root] = roots[0]

    for frame, parent in enumerate(dynamic_parents(model)):
        if parent != WORLD:
            join([frame, parent])
    for actuator in range(model.n_actuators):
        join(_frames_of_actuator(model, actuator))
    for moment in (*model.tendons.moment, *(model.couplings.moment_a != 0) + (model.couplings.moment_b != 0)):
        join(_frames_of_moment(model, moment))
    for path in set(model.path_segments.path_idx.tolist()):
        frames = dynamic_frames(model, model.path_segments.frame_idx[model.path_segments.path_idx == path])
        join([f for f in frames.ravel().tolist() if f != WORLD])
    ends = (dynamic_frames(model, x).tolist() for x in (model.equalities.frame_a, model.equalities.frame_b))
    for pair in (*zip(*ends, strict=True), *collision_frame_pairs(model)):
        join([f for f in pair if f != WORLD])
    for dofs in dofs_beyond_tables(model):
        join([int(model.dofs.frame_idx[dof]) for dof in dofs])
    return [find(f) for f in range(model.n_frames)]


def dofs_beyond_tables(model: Model) -> list[Sequence[int]]:
    """Dofs of each constraint that does not follow from the tables of the model."""
    if all(kind.follows_from_tables for kind in CONSTRAINT_KINDS):
        return []
    return [block.dofs for block in blocks_beyond_tables(model, build_tree(model).nodes)]


def collision_frame_pairs(model: Model) -> list[tuple[int, int]]:
    """Sorted pairs of frames with geoms that may collide; the world is -1, also for kinematic bodies.

    With rules of collision, a chain through all frames with geoms.
    """
    pairs, frames_of_geoms = model.pairs, dynamic_frames(model, model.geoms.frame_idx)
    if model.has_pair_rules:
        in_order = np.unique(frames_of_geoms).tolist()
        return list(pairwise(in_order)) or [(WORLD, x) for x in in_order]
    frames = (frames_of_geoms[geom].tolist() for geom in (pairs.geom_a, pairs.geom_b))
    return sorted(set(zip(*frames, strict=True)))


def _frames_of_moment(model: Model, moment: np.ndarray) -> list[int]:
    return [int(model.dofs.frame_idx[d]) for d in moment.nonzero()[0]]


def _frames_of_actuator(model: Model, actuator: int) -> list[int]:
    frame = int(dynamic_frames(model, model.actuators.frame_idx[[actuator]])[0])
    return _frames_of_moment(model, model.actuators.moment[actuator]) + ([] if frame == WORLD else [frame])


# ----------------------------------------------------------------------------------------------------- operation counts


def estimate_unrolled_operations(model: Model, frames: Sequence[int] | None = None) -> int:
    """Estimated number of arithmetic operations of the unrolled step of a model, or of some frames (parents first).

    Each dof costs a constant plus linear and quadratic terms in its number of ancestor dofs; fluid forces are added.
    """
    depth: dict[int, int] = {WORLD: 0}
    total = 0
    chosen = range(model.n_frames) if frames is None else frames
    total += sum(
        fluid_law(kind).n_operations
        for kind, f in zip(model.fluid.kinds, model.fluid.frame_idx, strict=True)
        if f in chosen
    )
    for frame in chosen:
        n_dofs = len(model.frame_dof_range(frame))
        n_ancestors = depth.get(int(model.frames.parent_idx[frame]), 0)
        depth[frame] = n_ancestors + n_dofs
        total += sum(120 + 22 * d + 2 * d * d // 5 for d in range(n_ancestors, n_ancestors + n_dofs))
    return total


def is_deep_tree(model: Model, component: Component) -> bool:
    """Whether unrolled code of a component needs more operations than loops over joints (over about 27 hinges)."""
    return estimate_unrolled_operations(model, component.frames) > LOOP_OPERATIONS_PER_DOF * len(component.dofs)


# -------------------------------------------------------------------------------------- loops over identical components

PER_COPY_PARAMETERS = ("position", "rotation", "inertia", "armature", "damping")
"""Frame constants that may differ between components of equal signature; read from a table if they differ."""
INPUT_ARRAYS = frozenset(info.name for info in ARRAYS if info.use is ArrayUse.PARAMETER)
"""Parameter arrays: read from memory, so that their values need not be equal."""


def trace_copies(
    tracer: Tracer,
    model: Model,
    settings: Settings,
    array_offsets: Mapping[str, ArenaOffset],
    copies: Sequence[Component],
    tree: KinematicTree,
) -> None:
    """Trace a loop over identical components (such as many equal robots) whose body is the unrolled step of the first.

    Args:
        tracer: traces the program.
        model: the model.
        settings: settings of the step; partitions, islands and warps are disabled.
        array_offsets: offset of each array in its arena.
        copies: the components, of equal `copy_signature`.
        tree: kinematic tree of the whole model.
    """
    settings = replace(settings, n_partitions=1, islands=False, use_warps=False)
    group = CopiedComponents(model, settings, array_offsets, copies, tree)
    name = f"copies of a component with {len(copies[0].dofs)} dofs"
    group.trace_loop(tracer, name, lambda ctx: record_step(StepData(ctx)))


class CopiedComponents:
    """Identical components that loops over the unrolled code of the first one process.

    Array accesses are relative to the start of the component; frame constants that differ between components
    (`PER_COPY_PARAMETERS`) are read per iteration.
    """

    def __init__(
        self,
        model: Model,
        settings: Settings,
        array_offsets: Mapping[str, ArenaOffset],
        copies: Sequence[Component],
        tree: KinematicTree,
        extra_offsets: Mapping[str, OffsetColumn] | None = None,
    ) -> None:
        """Args beyond those of `trace_copies`: offsets of further arrays of all components."""
        self.model, self.settings, self.copies, self.tree = model, settings, copies, tree
        self._parameters = _copy_parameters(model, settings, tree, copies)
        self._differing = [name for name, values in self._parameters.items() if (values != values[0]).any()]
        self._offsets = {**_copy_offsets(array_offsets, copies), **(extra_offsets or {})}

    def trace_loop(
        self,
        tracer: Tracer,
        name: str,
        trace_component: Callable[[TraceContext], None],
        outputs: Mapping[str, tuple[ElementKind, int]] | None = None,
        active: ArenaOffset | None = None,
    ) -> None:
        """Trace a loop over the components; `trace_component` traces the code of one, which writes `outputs` too.

        `active` is the list of the components that are visited; None for all.
        """
        first, model, settings = self.copies[0], self.model, self.settings
        starts = {array: _array_offset(array, first) for array in ARRAYS_BY_NAME}

        def body(iteration: IterationContext) -> None:
            overrides: dict[int, dict[str, Sequence[Value]]] = {}
            for frame, parameter in self._differing:
                known = self._parameters[frame, parameter]
                differs = (known != known[0]).any(axis=0).tolist()
                symbols = iteration.constants(f"{parameter} {frame}")
                columns = zip(symbols, known[0].tolist(), differs, strict=True)
                values = [symbol if varies else value for symbol, value, varies in columns]
                overrides.setdefault(first.frames[frame], {})[parameter] = values
            inner = Tracer()
            ctx = TraceContext(
                model,
                settings,
                named_array_offsets(settings, outputs),
                inner,
                self.tree,
                first.frames,
                frame_overrides=overrides,
                outputs=outputs,
            )
            trace_component(ctx)
            program = inner.build(n_scratch=ctx.n_scratch)
            values = unroll(
                program,
                lambda array, element: iteration.read(array, element - starts.get(array, 0)),
                iteration.tracer,
            )
            for array, element in sorted(values):
                iteration.write(array, [values[array, element]], element - starts.get(array, 0))

        constants = {f"{parameter} {frame}": self._parameters[frame, parameter] for frame, parameter in self._differing}
        group = ColumnarGroup("copy", np.arange(len(self.copies)), self._offsets, constants)
        trace_for_each_loop(tracer, name, IterationTable([group]), body, active_iterations=active)


def group_equal_trees(
    model: Model,
    settings: Settings,
    tree: KinematicTree,
    frame_constants: FrameConstants,
    is_selected: npt.NDArray[np.bool_],
) -> list[list[Component]]:
    """Kinematic trees as components, grouped by equal code (`copy_signature`), whatever they collide with.

    `is_selected` tells of each tree whether it is among them.
    """
    groups: dict[object, list[Component]] = {}
    components = connected_components(model.with_tables(pair_rules=empty_pair_rules()))
    components = [x for x in components if is_selected[x.trees].all()]
    table_rows, signatures = _TableRows(model, settings), dict[bytes, object]()
    for component in components:
        key = table_rows.of_component(component)
        signature = signatures.get(key) if key else None
        if signature is None:
            signature = copy_signature(model, tree, component, settings, frame_constants)
            if key:
                signatures[key] = signature
        groups.setdefault(signature, []).append(component)
    return list(groups.values())


LINK_PROPERTIES = ("pos", "rot", "inertial_mass", "inertial_pos", "inertial_i", "gravity_scale")
"""Columns of links that `link_constants` depends on."""


class _TableRows:
    """Table rows of components as bytes; components with equal bytes have equal copy signatures.

    Left out are the parameters that may differ between components of equal signature.
    """

    def __init__(self, model: Model, settings: Settings) -> None:
        frames, dofs, links = model.frames, model.dofs, model.links
        self._frames = _numeric_columns(frames, {"pos", "rot", "parent_idx", "q_start", "dof_start"})
        self._frame_indices = np.stack([frames.parent_idx, frames.q_start, frames.dof_start], axis=1)
        self._dofs = _numeric_columns(dofs, {*PER_COPY_PARAMETERS, "frame_idx", "q_idx"})
        has_link_properties = settings.external_forces or settings.per_env & {"mass_shift", "com_shift"}
        names = LINK_PROPERTIES if has_link_properties or (links.gravity_scale != 1.0).any() else ("gravity_scale",)
        self._links = _numeric_columns(links, {f.name for f in fields(links)}.difference(names))
        moments = (model.couplings.moment_a != 0.0) | (model.couplings.moment_b != 0.0)
        dofs_beyond = [dof for group in dofs_beyond_tables(model) for dof in group]
        self._beyond_tables = {
            *model.equalities.frame_a.tolist(),
            *model.equalities.frame_b.tolist(),
            *model.path_segments.frame_idx.ravel().tolist(),
            *np.asarray(model.fluid.frame_idx).tolist(),
            *dofs.frame_idx[moments.any(axis=0)].tolist(),
            *dofs.frame_idx[dofs_beyond].tolist(),
        }
        """Frames of components whose signature depends on other tables, besides those of actuators and tendons."""

    def of_component(self, component: Component) -> bytes:
        """Rows of a component; empty if its signature depends on other tables, or on more than one link."""
        frames = component.frames
        if component.actuators or component.tendons or component.control_samples or len(component.links) != 1:
            return b""
        if not component.is_contiguous or not self._beyond_tables.isdisjoint(frames):
            return b""
        starts = component.qs[0], component.dofs[0]
        indices = self._frame_indices[frames].tolist()
        if any(parent >= 0 and parent not in frames for parent, _, _ in indices):
            return b""  # on a kinematic body
        relative = [(WORLD if p < 0 else frames.index(p), q - starts[0], dof - starts[1]) for p, q, dof in indices]
        rows = (self._frames[frames], self._dofs[component.dofs], self._links[component.links], np.array(relative))
        return b"".join(x.tobytes() for x in rows)


def _numeric_columns(table: Any, excluded: Collection[str]) -> Array:
    """Numeric columns of a table side by side, (n_rows, n_columns)."""
    columns = [getattr(table, f.name) for f in fields(table) if f.name not in excluded]
    columns = [x.reshape(len(x), -1).astype(np.float64) for x in columns if isinstance(x, np.ndarray) and x.ndim]
    return np.concatenate(columns, axis=1)


def _copy_parameters(
    model: Model, settings: Settings, tree: KinematicTree, copies: Sequence[Component]
) -> dict[tuple[int, str], Array]:
    """Frame constants that may differ between identical components, (n_components, width) each.

    Keys are (index of the frame in the component, name). The inertia is left out if mass or centre of mass is a
    per-environment parameter.
    """
    fixed = {"inertia"} if settings.per_env & {"mass_shift", "com_shift"} else set()
    result: dict[tuple[int, str], Array] = {}
    for i in range(len(copies[0].frames)):
        frames = np.array([component.frames[i] for component in copies])
        nodes = [tree.nodes[frame] for frame in frames]
        dofs = np.array([[*node.dofs] for node in nodes], np.intp).reshape(len(copies), -1)
        columns = {
            "position": model.frames.pos[frames],
            "rotation": model.frames.rot[frames].reshape(-1, 9),
            "inertia": np.array([packed_inertia(node) for node in nodes], np.float64),
            "armature": model.dofs.armature[dofs],
            "damping": model.dofs.damping[dofs],
        }
        result |= {(i, name): columns[name] for name in PER_COPY_PARAMETERS if name not in fixed}
    return result


def _array_offset(array: str, component: Component) -> int:
    """Index of a component's first value in an array of state or inputs; 0 for shared arrays."""
    info = ARRAYS_BY_NAME[array]
    items = _element_indices(info.element_kind, component)
    return info.width * items[0] if items else 0


def _element_indices(kind: ElementKind, component: Component) -> list[int]:
    """Indices of the coordinates, dofs, links, ... of a component; empty for other kinds of elements."""
    match kind:
        case ElementKind.COORDINATE:
            return component.qs
        case ElementKind.DOF:
            return component.dofs
        case ElementKind.LINK:
            return component.links
        case ElementKind.ACTUATOR:
            return component.actuators
        case ElementKind.TENDON:
            return component.tendons
        case ElementKind.DELAY_SAMPLE:
            return component.control_samples
        case ElementKind.TREE:
            return component.trees
    return []


def _copy_offsets(array_offsets: Mapping[str, ArenaOffset], copies: Sequence[Component]) -> dict[str, OffsetColumn]:
    """Offsets of each array for all components: the array's offset plus the first value of the component."""
    columns: dict[str, OffsetColumn] = {}
    firsts: dict[ElementKind, np.ndarray] = {}
    for array, offset in array_offsets.items():
        info = ARRAYS_BY_NAME.get(array)
        if info is None:
            continue
        kind = info.element_kind
        if kind not in firsts:
            firsts[kind] = np.array([next(iter(_element_indices(kind, x)), 0) for x in copies], np.int64)
        columns[array] = OffsetColumn(offset.arena, offset.row + info.width * firsts[kind])
    return columns


def copy_signature(
    model: Model, tree: KinematicTree, component: Component, settings: Settings, frame_parameters: FrameConstants
) -> tuple[object, ...]:
    """Hashable key that is equal for components that can be stepped by the same unrolled code (`trace_copies`).

    Compares tree structure, joint types, constants that are folded into the code, limits, links (if link properties are
    read), actuators, tendons and fluid forces, with indices relative to the component. Components with equality
    constraints, couplings, paths or constraints beyond the tables of the model are never equal.
    """
    local_frame = {WORLD: WORLD, **{frame: i for i, frame in enumerate(component.frames)}}
    links = model.links
    links_matter = bool(
        settings.external_forces
        or settings.per_env & {"mass_shift", "com_shift"}
        or (links.gravity_scale[component.links] != 1.0).any()
    )
    key: list[object] = [tuple(link - component.links[0] for link in component.links), links_matter]
    key += [
        tuple(x - indices[0] for x in indices)
        for indices in (component.actuators, component.tendons, component.control_samples, component.trees)
    ]
    for frame in component.frames:
        node = tree.nodes[frame]
        constants = {
            k: v
            for k, v in frame_parameters.of_frame(node).items()
            if k not in PER_COPY_PARAMETERS and k not in INPUT_ARRAYS
        }
        ranges = (node.qs.start - component.qs[0], node.dofs.start - component.dofs[0])
        key += [local_frame[node.parent], FrameSpecialization.from_node(node), ranges, str(constants)]
        key += [block.source["side"] for block in joint_limit_blocks(model, [node])] if settings.limits else []
    if links_matter:
        key += [(local_frame[int(links.frame_idx[link])], str(link_constants(model, link))) for link in component.links]
    key += [_iteration_signature(model.actuators, a, component, local_frame) for a in component.actuators]
    key += [_iteration_signature(model.tendons, t, component, local_frame) for t in component.tendons]
    key += [
        _fluid_signature(model.fluid, i, component, local_frame)
        for i, f in enumerate(model.fluid.frame_idx)
        if f in component.frames
    ]
    if has_equality_or_path(model, component):  # equality constraints, couplings and paths are not compared
        key.append(component.frames[0])
    if not set(component.dofs).isdisjoint(dof for dofs in dofs_beyond_tables(model) for dof in dofs):
        key.append(component.frames[0])
    return tuple(key)


def _fluid_signature(
    fluid: FluidInfo, row: int, component: Component, local_frame: Mapping[int, int]
) -> tuple[object, ...]:
    """All properties of a row of the fluid table, with frame and link relative to the component."""
    location = (fluid.kinds[row], local_frame[int(fluid.frame_idx[row])], int(fluid.link_idx[row]) - component.links[0])
    arrays = (fluid.pos, fluid.rot, fluid.size, fluid.coefficients, fluid.added_mass, fluid.added_inertia)
    return (*location, *(array[row].tobytes() for array in arrays))


def has_equality_or_path(model: Model, component: Component) -> bool:
    """Whether a component has an equality constraint, a coupling or a transmission path segment."""
    tied = {
        *model.equalities.frame_a.tolist(),
        *model.equalities.frame_b.tolist(),
        *model.path_segments.frame_idx.ravel().tolist(),
    }
    coupled = (model.couplings.moment_a != 0.0) | (model.couplings.moment_b != 0.0)
    return not tied.isdisjoint(component.frames) or bool(coupled[:, component.dofs].any())


def _iteration_signature(
    table: Any, row: int, component: Component, local_frame: Mapping[int, int]
) -> tuple[object, ...]:
    """Hashable key of all properties of an actuator or tendon except its name, with component-relative indices."""
    result: list[object] = []
    for f in fields(table):
        values = getattr(table, f.name)[row]
        if f.name == "moment":
            values = values[component.dofs]
        elif f.name == "frame_idx":
            values = local_frame[int(values)]
        elif f.name == "force_group_idx":  # indices are relative to the component
            values = next((i for i, a in enumerate(component.actuators) if table.force_group_idx[a] == values >= 0), -1)
        if f.name != "names":
            result.append(values.tobytes() if isinstance(values, np.ndarray) else values)
    return tuple(result)
