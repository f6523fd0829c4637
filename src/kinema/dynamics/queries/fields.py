"""Lazily computed fields of an engine: one compiled program per field group, rerun when read after the state changed.

A group is traced and compiled when one of its fields is first read. The program uses loops over tables or unrolled code
like the step of the engine. Fields that are never read cost nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from kinema.core import KinemaError, matrix_to_quaternion, to_identifier
from kinema.ir import ArenaOffset
from kinema.model import Model
from kinema.runtime import (
    Arena,
    ArenaLayout,
    ArrayView,
    Device,
    Kernel,
    LaunchArguments,
    ProgramSource,
    synchronise_unless_shared,
    torch_module,
)

from ..arrays import ElementKind
from ..extensions import program_key
from ..settings import InputMode, Settings
from .field_catalog import (
    JACOBIAN_ARRAYS,
    NAMESPACE_ELEMENT_KINDS,
    NAMESPACES,
    PER_DOF_SHAPE,
    PER_ROW_SHAPE,
    FieldInfo,
    group_outputs,
    n_elements,
    resolve_element_shape,
)

if TYPE_CHECKING:
    from kinema.ir import Program

    from ..lowering.program_tracing import OutputSpecs
    from ..step import StepData

# --------------------------------------------------------------------------------------------------------- field arrays


class FieldArray:
    """A field of all environments, for example (n_links, n_envs, 3); reading it recomputes it if the state changed."""

    def __init__(
        self,
        storage: ArrayView,
        storage_shape: tuple[int, ...],
        env_axis: int,
        refresh: Callable[[], None],
        dtype: str = "float",
    ) -> None:
        """Wrap the memory of a field.

        Args:
            storage: rows of the field, (values, environments).
            storage_shape: shape of the memory: elements, element shape, environments.
            env_axis: axis of the environments in `shape`.
            refresh: called before each read; recomputes the field if the state changed.
            dtype: NumPy type of the values that are returned; `float` for the type of the memory, without a copy.
        """
        self._dtype = None if dtype == "float" else np.dtype(dtype)
        self._storage = storage
        self._storage_shape = storage_shape
        """Shape in memory: (elements, element shape, environments)."""
        self._env_axis = env_axis
        """Axis of the environments in `shape`."""
        self._refresh = refresh

    @property
    def env_axis(self) -> int:
        """Axis of the environments in `shape`."""
        return self._env_axis

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array, for example (n_links, n_envs, 3)."""
        inner = self._storage_shape[:-1]
        return (*inner[: self._env_axis], self._storage_shape[-1], *inner[self._env_axis :])

    @property
    def dtype(self) -> np.dtype:
        """NumPy type of the values."""
        return self._storage.dtype if self._dtype is None else self._dtype

    def numpy(self) -> np.ndarray:
        """The field as a NumPy array: a view of the memory on a CPU, a copy from a GPU, or if it is of integers."""
        self._refresh()
        values = np.moveaxis(self._storage.numpy().reshape(self._storage_shape), -1, self._env_axis)
        return values if self._dtype is None else values.astype(self._dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The field for NumPy functions, as `numpy`."""
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __getitem__(self, index: Any) -> Any:
        """Elements of the field as NumPy values."""
        return self.numpy()[index]

    def to_torch(self) -> Any:
        """The field as a PyTorch tensor that shares memory; reading the field again after a step updates the tensor.

        Fields of integers are copied.
        """
        self._refresh()
        values = self._storage.to_torch().unflatten(0, (*self._storage_shape[:-1], 1)).squeeze(-2)
        values = values.movedim(-1, self._env_axis)
        return values if self._dtype is None else values.to(getattr(torch_module(), str(self._dtype)))

    @property
    def warp(self) -> Any:
        """The storage rows as a Warp array (values, environments) that shares memory."""
        self._refresh()
        return self._storage.warp

    def __dlpack__(self, **options: Any) -> Any:
        """Export by the DLPack protocol; from a GPU through PyTorch."""
        return self._dlpack_source().__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        """DLPack device of the memory."""
        return self._dlpack_source().__dlpack_device__()

    def _dlpack_source(self) -> Any:
        return self.numpy() if self._storage.is_on_host else self.to_torch()

    def __repr__(self) -> str:
        return f"FieldArray{self.shape}"


# ------------------------------------------------------------------------------------------------------ model constants


def links_info(model: Model) -> SimpleNamespace:
    """Constant arrays of all links, and `inertial_quat`: principal axes of inertia in the link, (n_links, 4)."""
    from ..tree.kinematic_tree import principal_axes

    arrays = {f.name: getattr(model.links, f.name) for f in dataclasses.fields(model.links)}
    axes = [matrix_to_quaternion(principal_axes(i)) for i in model.links.inertial_i]
    return SimpleNamespace(**arrays, inertial_quat=np.array(axes).reshape(-1, 4))


def dofs_info(model: Model) -> SimpleNamespace:
    """Constant arrays of all degrees of freedom, and `invweight`."""
    columns = {f.name: getattr(model.dofs, f.name) for f in dataclasses.fields(model.dofs)}
    return SimpleNamespace(**columns, **model.derived.columns("dof"))


# ----------------------------------------------------------------------------------------------------- fields on demand

TraceFunction = Callable[["StepData"], None]
"""Traces the code that writes the fields of a group."""

OUTPUT_PREFIX = "new "
"""Prefix of output array names in programs: state arrays may have the same names as fields."""
DRIVE_DEPENDENT_GROUPS = {
    "loads",
    "forces",
    "smooth forces",
    "contacts",
    "laws of contacts",
    "equality wrenches",
    "sensors",
    "solution",
    "rows",
    "rows against rows",
}
"""Groups whose programs depend on the input mode of the engine (`Settings.input_mode`)."""


class FieldHost(Protocol):
    """Interface of the engine whose fields are computed."""

    model: Model
    settings: Settings
    n_envs: int
    device: Device
    precision: str
    lanes: int
    threads: int | None
    uses_loops: bool
    digest: str
    wait_for_optimised: bool
    state: Arena
    controls: Arena
    uniform: Arena
    array_offsets: dict[str, ArenaOffset]

    @property
    def name(self) -> str:
        """Name of the programs in profilers."""
        ...

    @property
    def version(self) -> object:
        """Value that changes whenever state, inputs or parameters may have changed."""
        ...

    def update_derived_parameters(self) -> None:
        """Recompute parameters that depend on modified masses, such as invweights."""
        ...

    def new_arena(self, layout: ArenaLayout, n_envs: int) -> Arena:
        """Arena for a number of environments, in the strides of the engine's programs."""
        ...

    @property
    def progress(self) -> Callable[[str], AbstractContextManager[None]]:
        """Callback that reports the current activity as a context manager."""
        ...


class FieldNamespace:
    """The fields of one kind of object (links, dofs, constraints, ...) as attributes."""

    def __init__(self, fields: Fields, name: str) -> None:
        self._fields = fields
        self._name = name
        self._known = {info.name: info for info in NAMESPACES[name]}

    def __getattr__(self, name: str) -> FieldArray:
        """Field of the namespace by name; an unknown name raises `AttributeError` with all names."""
        info = self.__dict__["_known"].get(name)
        if info is None:
            raise AttributeError(f"{self._name} has no field {name!r}; it has: {', '.join(self._known)}")
        return self._fields.field_array(self._name, info)

    def __dir__(self) -> list[str]:
        return list(self._known)


def output_layout(engine: FieldHost, outputs: OutputSpecs) -> ArenaLayout:
    """Layout of the output arena of a field group."""
    sizes = {
        array: n_elements(engine.model, element_kind, engine.settings) * width
        for array, (element_kind, width) in outputs.items()
    }
    return ArenaLayout.from_sizes("out", [(f"{OUTPUT_PREFIX}{array}", size) for array, size in sizes.items()])


def group_source(
    engine: FieldHost, name: str, trace_function: Callable[[], TraceFunction], outputs: OutputSpecs
) -> ProgramSource:
    """Program of a field group for the current input mode of an engine, not traced yet.

    The cache key contains the input mode (actuators, commands or mixed) only for the groups of
    `DRIVE_DEPENDENT_GROUPS`.
    """
    prefixed = {f"{OUTPUT_PREFIX}{array}": spec for array, spec in outputs.items()}
    array_offsets = {**engine.array_offsets, **output_layout(engine, outputs).offsets()}

    def trace() -> Program:
        from ..lowering.free_body_step import trace_free_body_contacts
        from ..lowering.step_program import trace_field_program
        from ..step import StepData

        trace_fields = trace_function()
        if engine.model.has_pair_rules and name == "contacts":
            settings = replace(engine.settings, use_warps=False)
            return trace_free_body_contacts(
                engine.model, settings, array_offsets, trace_fields, prefixed, OUTPUT_PREFIX
            )
        return trace_field_program(
            engine.model,
            engine.settings,
            array_offsets,
            lambda ctx, use_aba: trace_fields(StepData(ctx, use_aba)),
            prefixed,
            loops=engine.uses_loops,
            output_prefix=OUTPUT_PREFIX,
        )

    settings = (
        engine.settings if name in DRIVE_DEPENDENT_GROUPS else replace(engine.settings, input_mode=InputMode.COMMANDS)
    )
    key = program_key("fields", engine.digest, settings, engine.uses_loops, name, outputs)
    return ProgramSource(trace, key, f"{engine.name}_{to_identifier(name)}")


class _FieldGroup:
    """Compiled program of one field group, its output arena, and the state version of its last run."""

    def __init__(
        self, engine: FieldHost, name: str, trace_function: Callable[[], TraceFunction], outputs: OutputSpecs
    ) -> None:
        """Allocate the output arena of a group and compile its program for the current input mode.

        Args:
            engine: the engine.
            name: name of the group.
            trace_function: returns the function that traces the fields.
            outputs: output array -> kind of elements and values per element.
        """
        self._engine = engine
        self._name = name
        self._trace_function = trace_function
        """Returns the trace function; its module is imported only if the program is not in the cache."""
        self._outputs = outputs
        """Output array -> kind of elements and values per element."""
        self._version: object = None
        self._launches: dict[object, Callable[[], None]] = {}
        layout = output_layout(engine, outputs)
        self.arena = engine.new_arena(layout, engine.n_envs)
        self._current_launch()

    def _current_launch(self) -> Callable[[], None]:
        """Prepared launch for the current input mode of the engine; compiles the program on first use."""
        engine = self._engine
        key = engine.settings.input_mode if self._name in DRIVE_DEPENDENT_GROUPS else None
        if key not in self._launches:
            with engine.progress(f"compiling the fields of group {self._name}"):
                self._launches[key] = self._compile()
        return self._launches[key]

    def _compile(self) -> Callable[[], None]:
        """Trace and compile the program of the field group, or load it from the cache; returns the kernel launch."""
        engine = self._engine
        source = group_source(engine, self._name, self._trace_function, self._outputs)
        array_offsets = {**engine.array_offsets, **self.arena.layout.offsets()}
        kernel = Kernel(
            source, array_offsets, engine.device, engine.precision, lanes=engine.lanes, wait=engine.wait_for_optimised
        )
        arguments = LaunchArguments(
            engine.state, engine.controls.data, self.arena, engine.uniform, max_threads=engine.threads
        )
        return kernel.prepare_launch(arguments)

    def storage_of(self, name: str, n_fields: int = 1) -> ArrayView:
        """View of the rows of `n_fields` consecutive output fields, starting with `name`."""
        start, size = self.arena.layout.rows[f"{OUTPUT_PREFIX}{name}"]
        return ArrayView(self.arena.data[start : start + n_fields * size], self.arena.n_envs)

    def refresh_if_stale(self) -> None:
        """Run the program if the state changed since its last run."""
        self._engine.update_derived_parameters()
        if self._version != self._engine.version:
            self.compute()

    def compute(self) -> None:
        """Run the program: compute all fields of the group from the current state."""
        self._current_launch()()
        synchronise_unless_shared(self._engine.device)
        self._version = self._engine.version


class Fields:
    """All fields of an engine, by namespace."""

    def __init__(self, engine: FieldHost) -> None:
        """Create the namespaces of an engine; programs are compiled when a field is first read."""
        self._engine = engine
        self._groups: dict[object, _FieldGroup] = {}
        self._zeros: Arena | None = None
        self._previous_velocity: _FieldGroup | None = None
        self.links_state = self.links = FieldNamespace(self, "links_state")
        self.dofs_state = self.dofs = FieldNamespace(self, "dofs_state")
        self.constraints = FieldNamespace(self, "constraints")
        self.equalities = FieldNamespace(self, "equalities")
        self.couplings = FieldNamespace(self, "couplings")
        self.contacts = FieldNamespace(self, "contacts")
        self.sensors = FieldNamespace(self, "sensors")
        self.system = FieldNamespace(self, "system")

    @property
    def links_info(self) -> SimpleNamespace:
        """Constant NumPy arrays of the links."""
        return links_info(self._engine.model)

    @property
    def dofs_info(self) -> SimpleNamespace:
        """Constant NumPy arrays of the degrees of freedom."""
        return dofs_info(self._engine.model)

    @property
    def constraints_info(self) -> SimpleNamespace:
        """Lists `kinds`, `laws` (row types) and `names` of the constraint rows, in the order of `constraints.jac`."""
        from .constraint_fields import constraint_rows_info

        return constraint_rows_info(self._engine.model, self._engine.settings)

    def group_program(self, group: str) -> tuple[ProgramSource, ArenaLayout]:
        """Program of a field group and the layout of its output arena, which it accesses by name with a prefix."""
        outputs = group_outputs(group, self._engine.model, self._engine.settings)
        source = group_source(self._engine, group, lambda: _group_trace_function(group), outputs)
        return source, output_layout(self._engine, outputs)

    def discard_compiled(self) -> None:
        """Discard all compiled field programs: the layout of their inputs has changed."""
        self._groups.clear()

    def jacobian(self, link: int) -> FieldArray:
        """Jacobian of a link at its origin, (6, n_dofs, n_envs): linear, then angular velocity rows."""
        engine = self._engine
        n = engine.model.n_dofs
        if not 0 <= link < engine.model.n_links:
            raise KinemaError(f"there is no link {link}; the model has {engine.model.n_links} links")
        if n == 0:
            raise KinemaError("the model has no degrees of freedom, so there is no Jacobian")
        key = ("jacobian", link)
        if key not in self._groups:
            outputs = dict.fromkeys(JACOBIAN_ARRAYS, (ElementKind.DOF, 1))
            name = f"jacobian of link {link}"
            self._groups[key] = _FieldGroup(engine, name, lambda: _jacobian_trace_function(link), outputs)
        group = self._groups[key]
        return FieldArray(
            group.storage_of(JACOBIAN_ARRAYS[0], len(JACOBIAN_ARRAYS)), (6, n, engine.n_envs), 2, group.refresh_if_stale
        )

    def field_array(self, namespace: str, info: FieldInfo) -> FieldArray:
        """Return a field of a namespace as a `FieldArray`; its group is compiled on first use.

        Raises `KinemaError` if the model has none of the objects of the field.
        """
        engine = self._engine
        element_kind = info.element_kind or NAMESPACE_ELEMENT_KINDS[namespace]
        n_objects = self._n_elements(element_kind)
        if n_objects == 0 or (namespace == "constraints" and engine.model.n_dofs == 0):
            lacking = {
                ElementKind.EQUALITY: "equality constraints",
                ElementKind.COUPLING: "couplings",
                ElementKind.CONTACT: "contacts",
                ElementKind.CONSTRAINT_ROW: "constraint rows",
            }
            lacking |= {ElementKind.SENSOR_VALUE: "sensors"}
            missing = lacking.get(element_kind, "degrees of freedom")
            raise KinemaError(f"the model has no {missing}, so there is no {namespace}.{info.name}")
        rows, refresh = self._storage(namespace, info)
        if element_kind is ElementKind.ENVIRONMENT:
            return FieldArray(rows, (*info.element_shape, engine.n_envs), 0 if not info.element_shape else 1, refresh)
        inner = resolve_element_shape(info.element_shape, engine.model, engine.settings)
        return FieldArray(
            rows,
            (n_objects, *inner, engine.n_envs),
            2 if info.element_shape in (PER_DOF_SHAPE, PER_ROW_SHAPE) else 1,
            refresh,
            info.dtype,
        )

    def _n_elements(self, element_kind: ElementKind) -> int:
        return n_elements(self._engine.model, element_kind, self._engine.settings)

    def _storage(self, namespace: str, info: FieldInfo) -> tuple[ArrayView, Callable[[], None]]:
        """Memory of a field and the function that brings it up to date.

        Fields of group `state` are views of the engine's state arrays; fields that are not simulated share an arena of
        zeros; all others are outputs of their group's program.
        """
        engine = self._engine
        name = "vel" if info.name == "vel_next" else info.name
        if info.group == "state" and engine.state.layout.rows.get(name, (0, 0))[1]:
            return engine.state.view(name), _no_refresh
        if info.group in ("state", "zeros") or (info.group == "sleep" and not engine.settings.sleep_tolerance):
            return self._zero_storage(namespace, info), _no_refresh
        if info.group == "previous":
            return self._previous_velocity_group().storage_of("vel_prev"), _no_refresh
        if info.group not in self._groups:
            self._groups[info.group] = _FieldGroup(
                engine,
                info.group,
                lambda: _group_trace_function(info.group),
                group_outputs(info.group, engine.model, engine.settings),
            )
        group = self._groups[info.group]
        return group.storage_of(info.name), group.refresh_if_stale

    def _zero_storage(self, namespace: str, info: FieldInfo) -> ArrayView:
        """View of an arena filled with zeros for a field that is not simulated, or whose state array is disabled."""
        if self._zeros is None:
            engine = self._engine
            arrays = [
                (
                    f"{name} {field_info.name}",
                    self._n_elements(NAMESPACE_ELEMENT_KINDS[name]) * int(np.prod(field_info.element_shape)),
                )
                for name in ("links_state", "dofs_state", "equalities")
                for field_info in NAMESPACES[name]
                if field_info.group in ("zeros", "state", "sleep")
            ]
            self._zeros = engine.new_arena(ArenaLayout.from_sizes("zeros", arrays), engine.n_envs)
        return self._zeros.view(f"{namespace} {info.name}")

    def _previous_velocity_group(self) -> _FieldGroup:
        """The program that copies `vel` to `vel_prev`, created and run once on first access."""
        if self._previous_velocity is None:
            self._previous_velocity = _FieldGroup(
                self._engine, "previous", lambda: _write_previous_velocity, {"vel_prev": (ElementKind.DOF, 1)}
            )
            self._previous_velocity.compute()
        return self._previous_velocity

    @property
    def tracks_previous_velocity(self) -> bool:
        """Whether `vel_prev` has been accessed, so that velocities are recorded before each step."""
        return self._previous_velocity is not None

    def store_previous_velocity(self) -> None:
        """Copy `vel` to `vel_prev` if `vel_prev` has been accessed; called before a step."""
        if self._previous_velocity is not None:
            self._previous_velocity.compute()


def _no_refresh() -> None:
    pass


def _group_trace_function(group: str) -> TraceFunction:
    from .field_groups import FIELD_GROUPS

    return FIELD_GROUPS[group]


def _jacobian_trace_function(link: int) -> TraceFunction:
    from .field_groups import link_jacobian_writer

    return link_jacobian_writer(link)


def _write_previous_velocity(data: StepData) -> None:
    ctx = data.ctx
    ctx.for_each_frame("previous velocities", lambda node: ctx.write("vel_prev", node, ctx.read_node("vel", node)))
