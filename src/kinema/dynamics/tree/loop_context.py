"""Context for tracing for-each loops over frames and links: scratch memory, loop iterations, array access, idle flags.

The body of a loop is traced once per specialization, with symbols for the constants of the node
and for the values of the nodes it is bound to; the table gives constants and memory offsets. Values of nodes
lie in the scratch memory of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from kinema.ir import (
    SCRATCH,
    ArenaOffset,
    IterationContext,
    IterationTable,
    LoopIterations,
    OffsetColumn,
    Tracer,
    Value,
    trace_for_each_loop,
    trace_work_queue_loop,
)
from kinema.model import Model

from ..arrays import ARRAYS_BY_NAME, PRESENT_ARRAY, ElementKind
from ..settings import Settings
from ..topology import WORLD, tree_index_of_frames
from ..vector_math import add
from .kinematic_tree import (
    FrameNode,
    Ints,
    KinematicTree,
    LinkNode,
    NodeRefs,
    SpatialInertia,
    frame_ref,
    link_ref,
    root_link,
)
from .node_constants import (
    FrameConstants,
    FrameSpecialization,
    LinkSpecialization,
    link_constants,
    with_per_env_parameters,
)
from .node_tables import (
    IterationOffsets,
    NodeBindings,
    NodeColumns,
    NodeIteration,
    OffsetRegistry,
    iterations_to_columns,
)
from .node_values import NodeValues

# ------------------------------------------------------------------------------------------------------- scratch memory

N_FIXED_ROWS = 128
"""Scalars at the start of scratch memory reserved for values accessed outside of loops."""


class ScratchAllocator:
    """Bump allocator of scratch memory; memory is never freed."""

    def __init__(self) -> None:
        self._root = self
        """The allocator whose memory this one allocates: itself, or the one that it shares memory with."""
        self.n_scratch = N_FIXED_ROWS
        self._n_fixed_allocated = 0
        self.allocation_starts = [0]
        """Start offsets of all allocations."""
        self.oversized_lists: set[int] = set()
        """Start offsets of lists whose capacity is larger than they usually need."""

    def allocate(self, count: int, *, oversized: bool = False) -> ArenaOffset:
        """Allocate `count` scalars of scratch memory; `oversized` marks a list that is seldom full."""
        root = self._root
        offset = ArenaOffset(SCRATCH, root.n_scratch)
        if oversized:
            root.oversized_lists.add(offset.row)
        root.allocation_starts.append(root.n_scratch)
        root.n_scratch += count
        return offset

    def allocate_many(self, counts: Sequence[int]) -> list[ArenaOffset]:
        """Allocate consecutive pieces of scratch memory of the given sizes and return their offsets."""
        root = self._root
        ends = np.cumsum([root.n_scratch, *counts]).tolist()
        root.allocation_starts += ends[:-1]
        root.n_scratch = ends[-1]
        return [ArenaOffset(SCRATCH, row) for row in ends[:-1]]

    def allocate_fixed(self, count: int) -> ArenaOffset:
        """Allocate scalars at offsets that are the same for all models, for code outside of loops.

        Models then share compiled code. If the reserved scalars are used up, ordinary ones are allocated.
        """
        root = self._root
        if root._n_fixed_allocated + count > N_FIXED_ROWS:
            return root.allocate(count)
        root._n_fixed_allocated += count
        return ArenaOffset(SCRATCH, root._n_fixed_allocated - count)


# ----------------------------------------------------------------------------------------------------------- idle trees

IDLE_FLAG = "idle"
"""Name under which a loop iteration binds the idle flag of its tree."""


class IdleFlags:
    """Idle flags of all trees, contiguous: 1 for trees that are asleep or whose constraints are already solved.

    Loop iterations that belong to a tree are skipped if its flag is set. Only the poses, which other trees may need,
    are computed for idle trees too (`including_idle_trees`).
    """

    def __init__(self, model: Model, first_flag: ArenaOffset) -> None:
        self._tree_of = tree_index_of_frames(model)
        self._first_flag = first_flag
        self.paused = False
        """Whether loop iterations ignore the flags for now."""

    def of_tree(self, tree: int) -> ArenaOffset:
        """Arena offset of the idle flag of a tree."""
        return ArenaOffset(self._first_flag.arena, self._first_flag.row + tree)

    def of_trees(self, trees: Ints) -> OffsetColumn:
        """Arena offsets of the idle flags of many trees as a table column."""
        return OffsetColumn(self._first_flag.arena, self._first_flag.row + trees)

    def of_frame(self, frame: int) -> dict[str, ArenaOffset]:
        """Array of the idle flag for the iterations of a frame; empty for frames without a tree or while paused."""
        return (
            {}
            if self.paused or frame == WORLD or self._tree_of[frame] < 0
            else {IDLE_FLAG: self.of_tree(self._tree_of[frame])}
        )

    @contextmanager
    def including_idle_trees(self) -> Iterator[None]:
        """Context manager: loops traced inside run for all trees, idle or not."""
        self.paused = True
        yield
        self.paused = False


def run_unless_idle(iteration: IterationContext, body: Callable[[IterationContext], None]) -> None:
    """Trace a loop body under a run-time branch that skips iterations whose tree is idle (asleep or converged).

    Iterations without an idle flag are never skipped.
    """
    if not iteration.has_array(IDLE_FLAG):
        body(iteration)
        return

    def run() -> list[Value]:
        body(iteration)
        return []

    iteration.tracer.if_less("not idle", iteration.read(IDLE_FLAG), 0.5, run, [])


# --------------------------------------------------------------------------------------------------------- loop context


class FrameIterationExtension(Protocol):
    """Provider of additional arrays in the loop iterations of frames, such as transmissions or matrices."""

    name: str

    def acts_on(self, node: FrameNode) -> bool:
        """Whether the extension changes the specialization of a frame."""
        ...

    def frame_offsets(self, node: FrameNode) -> Mapping[str, ArenaOffset]:
        """Arena offsets of the additional arrays that the loop iteration of a frame binds, by name."""
        ...


R = TypeVar("R")
TreeNode = FrameNode | LinkNode


class LoopContext(ScratchAllocator):
    """Tracing context for loops over the frames and links of whole trees of a model.

    Covers all frames or a subset of trees; links fixed to the world are included if all frames are.
    """

    def __init__(
        self,
        model: Model,
        settings: Settings,
        array_offsets: Mapping[str, ArenaOffset],
        tracer: Tracer,
        tree: KinematicTree,
        frames: Sequence[int] | None = None,
        *,
        outputs: Mapping[str, tuple[ElementKind, int]] | None = None,
        frame_overrides: Mapping[int, Mapping[str, Sequence[Value]]] | None = None,
    ) -> None:
        """Args beyond the model: `outputs` declares arrays to write, `frame_overrides` replaces constants of frames."""
        self.model = model
        self.settings = settings
        self.array_offsets = array_offsets
        self.tracer = tracer
        self.tree = tree
        self.covers_model = frames is None
        """Whether the program covers all frames of the model."""
        kinematic = model.kinematic_frames
        all_frames = [f for f in range(model.n_frames) if f not in kinematic] if kinematic else range(model.n_frames)
        frames = all_frames if frames is None else frames
        self.nodes = [tree.nodes[f] for f in frames]
        self.kinematic_nodes = [tree.nodes[f] for f in kinematic]
        """Frames of kinematic bodies, which are not among `nodes`: passes over the tree give them a value."""
        link_frames = {WORLD, *frames, *kinematic} if len(frames) == len(all_frames) else set(frames)
        self.links = [i for i, f in enumerate(model.links.frame_idx.tolist()) if f in link_frames]
        self.array_element_kinds = {
            name: (info.element_kind, info.width) for name, info in ARRAYS_BY_NAME.items()
        } | dict(outputs or {})
        """For each array the kind of its elements and the number of scalars per element."""
        self._frame_overrides = frame_overrides or {}
        self.active_nodes: ArenaOffset | None = None
        """List of the nodes that loops over all nodes visit (length, then indices); None for all of them."""
        self.active_bodies: ArenaOffset | None = None
        """List of the free bodies among them, where nodes are free bodies, then frames of articulated trees."""
        self.output_prefix = ""
        """Prefix of the names of output arrays."""
        super().__init__()
        self._disables_unrolling = False
        self.node_values: list[NodeValues[Any]] = []
        self.registry = OffsetRegistry()
        self._arrays_of_kind: dict[ElementKind, list[tuple[str, ArenaOffset, int]]] = {}
        self._arrays_of_element: dict[tuple[ElementKind, int], dict[str, ArenaOffset]] = {}
        self._constants_of_frame: dict[tuple[int, str], dict[str, Any]] = {}
        self._frame_constants = FrameConstants(model)
        self._frame_iterations: dict[Any, list[NodeColumns]] = {}
        self.make_frame_table: Callable[[Sequence[FrameNode]], IterationTable] | None = None
        """Makes the iterations over nodes that stand for whole bodies, and frames after them; None for frames only."""
        self.frame_extensions: list[FrameIterationExtension] = []
        self._current_iteration: IterationContext | None = None
        self.run_condition: ArenaOffset | None = None
        """Scratch offset of a value; loops traced while it is set are skipped at run time unless the value is 1."""
        self.articulated: Any = None
        """Context of the articulated trees among the nodes, if the other nodes are free bodies; else None."""
        self._tree_of_frame = tree_of_frame = tree_index_of_frames(model)
        self.trees = sorted({tree_of_frame[f] for f in frames})
        """Indices of the trees of this context."""
        self.idle_flags = IdleFlags(model, self.allocate(len(set(tree_of_frame)))) if settings.islands else None
        self.frame_inertias: NodeValues[SpatialInertia] | None = None
        """Spatial inertias of the frames in scratch memory where masses differ between environments."""

    def share_memory(self, other: LoopContext) -> None:
        """Allocate memory from another context of the same program, and share node values and loop iterations with it.

        To be called before anything is allocated.
        """
        self._root = other._root
        self.registry, self.node_values = other.registry, other.node_values

    @property
    def _iteration(self) -> IterationContext | None:
        root = self._root
        assert isinstance(root, LoopContext)
        return root._current_iteration

    @_iteration.setter
    def _iteration(self, iteration: IterationContext | None) -> None:
        root = self._root
        assert isinstance(root, LoopContext)
        root._current_iteration = iteration

    @property
    def iteration(self) -> IterationContext:
        """Code of the loop specialization being traced; only available inside a loop body."""
        assert self._iteration is not None, "values of nodes are available only inside a loop body"
        return self._iteration

    # ------------------------------------------------------------------------------------------------------------ loops

    def for_each(
        self,
        name: str,
        iterations: LoopIterations,
        body: Callable[[IterationContext], None],
        active_iterations: ArenaOffset | None = None,
    ) -> None:
        """Trace a for-each loop; each iteration has array offsets and constants of its own.

        Iterations of idle trees are skipped. With `active_iterations` (scratch offset of a list: length, then iteration
        indices) only the listed iterations run.
        """

        def run(iteration: IterationContext) -> None:
            self._iteration = iteration
            run_unless_idle(iteration, body)
            self._iteration = None

        def trace_loop() -> list[Value]:
            is_kept = self._disables_unrolling
            trace_for_each_loop(
                self.tracer, name, iterations, run, no_unroll=is_kept, active_iterations=active_iterations
            )
            return []

        if self.run_condition is None:
            trace_loop()
        else:
            self.tracer.if_less(name, 0.5, self.tracer.read(SCRATCH, self.run_condition.row), trace_loop, [])

    def work_queue_loop(
        self,
        name: str,
        iterations: LoopIterations,
        filters: Sequence[Callable[[IterationContext], tuple[Value, Value]]],
        work: Callable[[IterationContext], None],
    ) -> None:
        """Trace a compacted loop: `work` runs for the iterations (elements with array offsets) that pass all filters.

        Each filter returns a pair of values; an iteration passes if the first is less than the second. On a GPU the
        passing iterations are queued, so that threads work only on them.
        """

        def run(iteration: IterationContext, body: Callable[[IterationContext], Any]) -> Any:
            self._iteration = iteration
            result = body(iteration)
            self._iteration = None
            return result

        traced_filters = [partial(run, body=test) for test in filters]
        trace_work_queue_loop(self.tracer, name, iterations, traced_filters, partial(run, body=work))

    @property
    def disables_unrolling(self) -> bool:
        """Whether loops traced now are never unrolled."""
        return self._disables_unrolling

    @contextmanager
    def without_unrolling(self, keep: bool = True) -> Iterator[None]:
        """Context manager: loops traced inside are kept as loops even if the program is unrolled otherwise."""
        before, self._disables_unrolling = self._disables_unrolling, keep or self._disables_unrolling
        yield
        self._disables_unrolling = before

    def for_each_joint(self, name: str, body: Callable[[FrameNode], None]) -> None:
        """Trace a loop over the frames of the context (one joint each); `body` traces the code of a frame node."""
        self.for_each(
            name, self.frame_iterations(self.nodes), lambda iteration: body(self.frame_of_iteration(iteration))
        )

    def dof_offsets(self, values: NodeValues[Any]) -> dict[int, ArenaOffset]:
        """Scratch offset of each degree of freedom in a joint vector."""
        starts = {node.index: values.offset_of(node.ref).row for node in self.nodes}
        return {
            dof: ArenaOffset(SCRATCH, starts[node.index] + k) for node in self.nodes for k, dof in enumerate(node.dofs)
        }

    def joint_vector(self, name: str) -> NodeValues[list[Value]]:
        """Allocate a joint vector, one value per degree of freedom, in contiguous scratch memory."""
        values: NodeValues[list[Value]] = self.new_values(name)
        articulated = [] if self.articulated is None else self.articulated.nodes
        for nodes in (self.nodes[: len(self.nodes) - len(articulated)], articulated):
            if nodes:
                values.allocate_contiguous({node.ref: [0.0] * len(node.dofs) for node in nodes})
        return values

    def start_offset(self, values: NodeValues[Any]) -> int:
        """First scratch offset of contiguous node values."""
        return values.offset_of(self.nodes[0].ref).row

    def node_iteration(
        self,
        specialization: Any,
        bindings: NodeBindings,
        iteration_offsets: Mapping[str, ArenaOffset],
        constants: Mapping[str, Any],
    ) -> NodeIteration:
        """Iteration of a for-each loop, with array offsets of the frames and links in `bindings`.

        The loop body reads an array of a bound node by the prefix of the node followed by the array's name.
        `iteration_offsets` and `constants` are the iteration's own arrays and constants; arrays of the environment are
        included.
        """
        offsets = IterationOffsets(
            iteration_offsets, bindings, self.registry, self._cached_element_arrays(ElementKind.ENVIRONMENT, 0)
        )
        return NodeIteration(specialization, offsets, constants, bindings=bindings)

    def frame_iteration(self, node: FrameNode, target_link: int | None = None) -> NodeIteration:
        """Loop iteration of one frame: constants, and offsets of its coordinates, dofs, extensions and idle flag.

        The loop body also reads arrays of the parent frame, root link and target link with the name prefixes "parent ",
        "root " and "target ".
        """
        specialization = FrameSpecialization.from_node(
            node, tuple(x.name for x in self.frame_extensions if x.acts_on(node))
        )
        bindings = {"": node.ref, "parent ": node.parent_ref, "root ": node.root_ref}
        if target_link is not None:
            bindings["target "] = link_ref(target_link)
        offsets = self.element_arrays(ElementKind.COORDINATE, node.qs.start) | self.element_arrays(
            ElementKind.DOF, node.dofs.start
        )
        if node in self.kinematic_nodes:
            offsets = self.element_arrays(ElementKind.KINEMATIC_BODY, self.kinematic_nodes.index(node))
            return self.node_iteration(specialization, bindings, offsets, self.frame_constants(node))
        for extension in self.frame_extensions:
            offsets |= extension.frame_offsets(node)
        offsets |= self.idle_flag_of_frame(node.index) | self.presence_of_frame(node.index)
        return self.node_iteration(specialization, bindings, offsets, self.frame_constants(node))

    def frame_iterations(self, nodes: Sequence[FrameNode], target_link: int | None = None) -> LoopIterations:
        """Iterations of a for-each loop over frames in columnar form (struct of arrays), cached; see `frame_iteration`.

        Cached iterations see arrays registered since. With frame overrides the iterations are built one by one.
        """
        if self.make_frame_table is not None:
            return self.make_frame_table(nodes)
        if self._frame_overrides:
            return [self.frame_iteration(node, target_link) for node in nodes]
        has_idle_flags = self.idle_flags is not None and not self.idle_flags.paused
        key = tuple(node.index for node in nodes), target_link, len(self.frame_extensions), has_idle_flags
        if key not in self._frame_iterations:
            self._frame_iterations[key] = self.iterations_to_columns(
                [self.frame_iteration(node, target_link) for node in nodes]
            )
        return IterationTable([group.with_current_offsets() for group in self._frame_iterations[key]])

    def node_columns(
        self,
        specialization: Any,
        iteration_indices: Any,
        bindings: Mapping[str, NodeRefs],
        offset_columns: Mapping[str, OffsetColumn],
        **options: Any,
    ) -> NodeColumns:
        """Loop iterations in columnar form, with array offsets of the nodes in `bindings` (`node_iteration`).

        Options are `constants` (columns of constants by name) and `nested_tables`.
        """
        constants = options.pop("constants", {})
        return NodeColumns(
            specialization,
            iteration_indices,
            offset_columns,
            constants,
            bindings,
            self.registry,
            self._cached_element_arrays(ElementKind.ENVIRONMENT, 0),
            **options,
        )

    def iterations_to_columns(self, rows: Sequence[NodeIteration]) -> list[NodeColumns]:
        """Convert iterations over nodes to columnar groups that can be reused in several loops."""
        return iterations_to_columns(rows, self.registry, self._cached_element_arrays(ElementKind.ENVIRONMENT, 0))

    def idle_flag_of_frame(self, frame: int) -> dict[str, ArenaOffset]:
        """Array of the idle flag for iterations of a frame; empty without idle flags."""
        return {} if self.idle_flags is None else self.idle_flags.of_frame(frame)

    def presence_offset(self, tree: int) -> ArenaOffset:
        """Arena offset of the presence of a tree; only with `Settings.presence`."""
        return self._cached_element_arrays(ElementKind.TREE, tree)[PRESENT_ARRAY]

    def presence_of_frame(self, frame: int) -> dict[str, ArenaOffset]:
        """Array of the presence of a frame's tree for iterations of the frame; empty if all are always present."""
        return {PRESENT_ARRAY: self.presence_offset(self._tree_of_frame[frame])} if self.settings.presence else {}

    def idle_flags_of_dofs(self) -> dict[int, dict[str, ArenaOffset]]:
        """For each degree of freedom, the idle flag of its tree as an array to be bound by a loop iteration."""
        return {dof: self.idle_flag_of_frame(node.index) for node in self.nodes for dof in node.dofs}

    def frame_constants(self, node: FrameNode, prefix: str = "") -> dict[str, Any]:
        """Constants of a frame's loop iteration (pose in parent, inertia, limits ...), with names prefixed.

        A nonempty prefix restricts them to the pose parameters. Per-environment parameters and frame overrides are
        applied. Cached.
        """
        if (node.index, prefix) not in self._constants_of_frame:
            constants: dict[str, Any] = self._frame_constants.of_frame(node, pose_only=bool(prefix))
            constants = {
                **with_per_env_parameters(self, "frame", node.index, constants),
                **self._frame_overrides.get(node.index, {}),
            }
            self._constants_of_frame[node.index, prefix] = {prefix + name: values for name, values in constants.items()}
        return self._constants_of_frame[node.index, prefix]

    def link_iteration(self, link: int) -> NodeIteration:
        """Loop iteration of one link: offsets of its arrays, constants (mass, inertia, pose) and specialization.

        The loop body also reads arrays of the link's frame, parent link, parent frame and root link with name prefixes.
        """
        links, parent = self.model.links, int(self.model.links.parent_idx[link])
        frames = {"frame ": int(links.frame_idx[link]), "parent frame ": _frame_of_link(self.model, parent)}
        bindings = {"": link_ref(link), "root ": link_ref(root_link(self.model, link))}
        bindings |= {prefix: frame_ref(frame) for prefix, frame in frames.items()}
        if parent >= 0:
            bindings["parent "] = link_ref(parent)
        specialization = LinkSpecialization(
            in_moving_frame=frames["frame "] != WORLD and frames["frame "] not in self.model.kinematic_frames,
            has_gravcomp=bool(links.gravity_scale[link] != 1.0),
            has_mass=bool(links.inertial_mass[link]),
            has_parent=parent >= 0,
            has_joint=frames["frame "] != frames["parent frame "],
        )
        constants = with_per_env_parameters(self, "link", link, link_constants(self.model, link))
        offsets = self.element_arrays(ElementKind.LINK, link)
        if specialization.in_moving_frame:
            offsets |= self.presence_of_frame(frames["frame "])
        return self.node_iteration(specialization, bindings, offsets, constants)

    def dof_arrays(self, dof: int) -> dict[str, ArenaOffset]:
        """Arena offsets of all arrays of a degree of freedom and, for joints with one coordinate, of the coordinate."""
        q = int(self.model.dofs.q_idx[dof])
        arrays = {} if q < 0 else self.element_arrays(ElementKind.COORDINATE, q)
        return arrays | self.element_arrays(ElementKind.DOF, dof)

    def element_arrays(self, element_kind: ElementKind, element: int) -> dict[str, ArenaOffset]:
        """Arena offsets of all arrays with values for one element of a kind, by array name."""
        return dict(self._cached_element_arrays(element_kind, element))

    def _cached_element_arrays(self, element_kind: ElementKind, element: int) -> Mapping[str, ArenaOffset]:
        """Arena offsets, by array name, of one element (dof, link, tendon, ...) in all arrays of its element type.

        The mapping is cached and must not be modified.
        """
        if (element_kind, element) not in self._arrays_of_element:
            self._arrays_of_element[element_kind, element] = {
                name: ArenaOffset(offset.arena, offset.row + element * width)
                for name, offset, width in self.arrays_of_kind(element_kind)
            }
        return self._arrays_of_element[element_kind, element]

    def arrays_of_kind(self, element_kind: ElementKind) -> list[tuple[str, ArenaOffset, int]]:
        """Name, offset and number of scalars per element of all arrays of a kind of elements."""
        if element_kind not in self._arrays_of_kind:
            arrays = (
                (name, offset, *self.array_element_kinds[name])
                for name, offset in self.array_offsets.items()
                if name in self.array_element_kinds
            )
            self._arrays_of_kind[element_kind] = [
                (name, offset, width) for name, offset, x, width in arrays if x is element_kind
            ]  # ty: ignore[invalid-assignment]
        return self._arrays_of_kind[element_kind]

    def frame_of_iteration(self, iteration: IterationContext, prefix: str = "") -> FrameNode:
        """Symbolic frame node of the loop iteration being traced: parameters are reads of constants.

        `prefix` selects another frame that the iteration is bound to, such as "parent ". The structure comes from the
        code specialization.
        """
        specialization: FrameSpecialization = (
            iteration.specialization
            if isinstance(iteration.specialization, FrameSpecialization)
            else dict(iteration.specialization)[prefix]
        )  # type: ignore[call-overload]
        flat = iteration.constants(f"{prefix}rotation")
        node = FrameNode(
            ref=frame_ref(prefix),
            parent_ref=frame_ref("parent "),
            joint_type=specialization.joint_type,
            position=iteration.constants(f"{prefix}position"),
            rotation=[flat[3 * i : 3 * i + 3] for i in range(3)],
            axis=specialization.axis,
            pitch=iteration.constant(f"{prefix}pitch"),
            reference=iteration.constant(f"{prefix}reference"),
            inverted=specialization.inverted,
            qs=range(specialization.n_qs),
            dofs=range(specialization.n_dofs),
            has_spring=specialization.has_spring,
            has_acceleration_drive=specialization.has_acceleration_drive,
            has_actuator_gravcomp=specialization.has_actuator_gravcomp,
            limit_power=specialization.limit_power,
            root_ref=link_ref("root "),
            target_link_ref=link_ref("target "),
        )
        if not specialization.has_inertia:
            return node
        if self.frame_inertias is not None and not prefix:
            node.inertia = self.frame_inertias[node.ref]
            return node
        mass, x, y, z, xx, xy, xz, yy, yz, zz = iteration.constants(f"{prefix}inertia")
        node.inertia = SpatialInertia(mass, (x, y, z), ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz)))
        return node

    def link_of_iteration(self, iteration: IterationContext) -> LinkNode:
        """Symbolic link node of the iteration being traced: mass, centre of mass, inertia, pose and frame references.

        Mass and centre of mass include their per-environment shifts; the rotational inertia scales with the mass.
        """
        specialization = iteration.specialization
        assert isinstance(specialization, LinkSpecialization)
        mass, center = iteration.constant("mass"), iteration.constants("center")
        mass_ratio: Value = 1.0
        if "mass_shift" in self.settings.per_env:
            mass = mass + iteration.read("mass_shift")
            mass_ratio = mass * iteration.constant("per mass") if specialization.has_mass else 1.0
        if "com_shift" in self.settings.per_env:
            center = add(center, iteration.read_array("com_shift", 3))
        flat, inertia, axes = (iteration.constants(name) for name in ("rotation", "inertia", "principal"))
        return LinkNode(
            ref=link_ref(""),
            frame_ref=frame_ref("frame "),
            parent_ref=link_ref("parent ") if specialization.has_parent else None,
            parent_frame_ref=frame_ref("parent frame "),
            root_ref=link_ref("root "),
            joint_frame_ref=frame_ref("frame ") if specialization.has_joint else None,
            position=iteration.constants("position"),
            rotation=[flat[3 * i : 3 * i + 3] for i in range(3)],
            mass=mass,
            com=center,
            inertia=[[mass_ratio * x for x in inertia[3 * i : 3 * i + 3]] for i in range(3)],
            principal_axes=[axes[3 * i : 3 * i + 3] for i in range(3)],
            gravity_scale=iteration.constant("gravity_scale"),
            in_moving_frame=specialization.in_moving_frame,
            has_gravcomp=specialization.has_gravcomp,
        )

    # ----------------------------------------------------------------------------------------------------------- arrays

    def read(self, array: str, element: int = 0) -> Value:
        """Read a scalar of an array of the environment, inside or outside of a loop body."""
        return self.tracer.read(array, element) if self._iteration is None else self._iteration.read(array, element)

    def read_node(self, array: str, node: TreeNode) -> list[Value]:
        """Read the values of an array for the frame or link of the current loop iteration.

        The iteration being traced always supplies the array; `node` only gives the number of values to read (by its
        dofs or coordinates). Arrays that are compiled in as constants are taken from the constants of the iteration.
        """
        info = ARRAYS_BY_NAME.get(array)
        if info is None or info.arena(self.settings) is None:
            return self.iteration.constants(array)
        if isinstance(node, LinkNode):
            return self.iteration.read_array(array, info.width)
        items = node.qs if info.element_kind is ElementKind.COORDINATE else node.dofs
        return self.iteration.read_array(array, info.width * len(items))

    def has_output(self, array: str) -> bool:
        """Whether an output array of that name (with the output prefix) exists."""
        return self.output_prefix + array in self.array_offsets

    def write(self, array: str, node: TreeNode | None, values: Sequence[Value]) -> None:
        """Write the values of an array that belong to a frame or link, or to the environment if `node` is None."""
        if node is None:
            self.tracer.write(self.output_prefix + array, values)
        else:
            self.iteration.write(self.output_prefix + array, values)

    def new_values(self, name: str) -> NodeValues[Any]:
        """Create node values of a unique name, with no memory allocated yet."""
        values: NodeValues[Any] = NodeValues(self, f"{name} {len(self.node_values)}")
        self.node_values.append(values)
        return values


def _frame_of_link(model: Model, link: int) -> int:
    return WORLD if link < 0 else int(model.links.frame_idx[link])
