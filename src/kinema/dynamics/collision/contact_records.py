"""Contact record: one table of fields, from which the layouts of all contact buffers, lists and warp records follow.

A contact is described by the same fields wherever it is stored; a layout selects fields and their order. There are
three layouts because the readers differ. Per-thread buffers hold the fields that forces and sensors need; their records
can be interleaved in groups, so that SIMD code processes a group at once. Lists, which GPU threads fill for the solver
kernel, are as short as possible. Records of the warp solver have the geometry replaced by the Jacobian, and aligned
fields: vector loads make steps on an H200 3 to 8 % faster. With fewer of these records in shared memory a Go2 is 4 %
slower (docs/internals/gpu.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kinema import ir
from kinema.ir import IterationContext, Tracer, Value, round_up_to_4

from ..vector_math import Vector, cross


@dataclass(frozen=True, slots=True)
class ContactField:
    """Field of a contact record."""

    size: int = 1
    """Number of scalars, or of scalars per row (condim rows)."""
    per_row: bool = False
    is_aligned: bool = False
    """Whether the field starts at a multiple of four, for vector loads."""
    overlaps: str = ""
    """Field whose memory this one uses before that field is written, or after it is last read; empty for none."""


CONTACT_FIELDS = {
    "point": ContactField(3),
    # contact frame, normal first; the normal points from the first to the second frame
    "axes": ContactField(9),
    "distance": ContactField(),
    # geom pair, from 1; negative if its first geom is on the second frame
    "signed_pair": ContactField(),
    "stiffness": ContactField(),  # constraint stiffness D
    "regularized_mu": ContactField(),
    "position_feedback": ContactField(),  # k d r of the reference acceleration
    "damping": ContactField(),
    "friction_damping": ContactField(),
    "row_scales": ContactField(per_row=True),
    # relative velocity of the two surfaces along each row besides J v [m/s, rad/s], if surfaces of geoms move
    "surface_velocity": ContactField(per_row=True),
    # maximum stiffness, restitution, bounce speed, stiction ratio; until the residual is computed
    "restitution": ContactField(4, overlaps="residual"),
    "frames": ContactField(2),  # preorder indices of the two frames
    "n_rows": ContactField(),
    "n_active_rows": ContactField(overlaps="frames"),
    "residual": ContactField(per_row=True),  # J a - aref
    "residual_derivative": ContactField(per_row=True),  # J p along the search direction p
    "gradient": ContactField(per_row=True),  # of the cost by the residual
    "hessian": ContactField(is_aligned=True),
    "spatial_jacobian": ContactField(6, per_row=True, overlaps="residual_derivative"),
    "jacobian": ContactField(per_row=True, is_aligned=True),
    "tree_indices": ContactField(2),
}
"""All fields of contact records; sizes of `hessian` and `jacobian` depend on the solver."""
DETECTED_FIELDS = (
    "point",
    "axes",
    "distance",
    "signed_pair",
    "stiffness",
    "regularized_mu",
    "position_feedback",
    "damping",
    "friction_damping",
    "row_scales",
)
"""Fields written by the narrow phase."""


class ContactLayout:
    """Offsets of the fields of a contact record with `condim` rows."""

    def __init__(
        self,
        condim: int,
        fields: Sequence[str],
        *,
        elliptic: bool,
        sizes: Mapping[str, int] | None = None,
        group_size: int = 1,
    ) -> None:
        self.condim, self.elliptic, self.group_size = condim, elliptic, group_size
        self.offsets: dict[str, int] = {}
        self.sizes: dict[str, int] = {}
        end = 0
        for name in fields:
            field = CONTACT_FIELDS[name]
            start = self.offsets[field.overlaps] if field.overlaps else round_up_to_4(end) if field.is_aligned else end
            self.offsets[name] = start
            self.sizes[name] = (sizes or {}).get(name, field.size * (condim if field.per_row else 1))
            end = max(end, start + self.sizes[name])
        self.record_size = end

    def pack(self, values: Mapping[str, Sequence[Value]]) -> list[Value]:
        """Return the scalars of the fields that the record has, in its order, each field cut to its size."""
        return [x for name in self.offsets if name in values for x in values[name][: self.sizes[name]]]


class ContactSpecialization(Protocol):
    """Specialization with a contact dimension and a type of friction cone."""

    @property
    def condim(self) -> int:
        """Contact dimension."""
        ...

    @property
    def elliptic(self) -> bool:
        """Whether the friction cone is elliptic."""
        ...

    @property
    def has_surface_velocity(self) -> bool:
        """Whether the contact surfaces move relative to their frames."""
        ...

    @property
    def group_size(self) -> int:
        """Number of interleaved contact records."""
        ...


def _detected_fields(specialization: ContactSpecialization) -> tuple[str, ...]:
    return (*DETECTED_FIELDS, *(["surface_velocity"] if specialization.has_surface_velocity else []))


def buffer_layout(specialization: ContactSpecialization) -> ContactLayout:
    """Layout of the records of contact buffers."""
    fields = (*_detected_fields(specialization), "residual", "residual_derivative", "restitution")
    return ContactLayout(
        specialization.condim, fields, elliptic=specialization.elliptic, group_size=specialization.group_size
    )


def list_layout(specialization: ContactSpecialization) -> ContactLayout:
    """Layout of the records of contact lists: without solver fields, with the frames.

    The second tangent is omitted, as it follows from the other axes, and without friction both tangents are omitted.
    """
    sizes = {"axes": 6 if specialization.condim > 1 else 3}
    return ContactLayout(
        specialization.condim,
        (*_detected_fields(specialization), "frames"),
        elliptic=specialization.elliptic,
        sizes=sizes,
    )


def noslip_record_size(condim: int) -> int:
    """Scalars per contact of the no-slip solve: normal force, friction bounds and friction forces."""
    return 2 * condim - 1


class Contact:
    """Accessor of one contact record in traced code.

    Scalar i of the record in lane k of a group of n records is at n i + k.
    """

    def __init__(
        self,
        tracer: Tracer,
        layout: ContactLayout,
        index: Value,
        array: str = "contacts",
        start: int = 0,
        offset: Value | None = None,
        lane: int = 0,
    ) -> None:
        """Accessor of record `index` of those in `array`, from offset `start` on.

        `offset` and `lane` are the offset of the record's group and its lane, if they do not follow from the index.
        """
        self.tracer, self.layout, self.index = tracer, layout, index
        self.array, self.start, self.lane = array, start, lane
        self.offset = record_offset(layout, index) if offset is None else offset

    @property
    def condim(self) -> int:
        """Number of rows."""
        return self.layout.condim

    @property
    def elliptic(self) -> bool:
        """Whether the friction cone is elliptic."""
        return self.layout.elliptic

    def read(self, field: str, first: int = 0, count: int | None = None) -> list[Value]:
        """Read a field, or `count` of its scalars from `first` on."""
        start, size = self.layout.offsets[field] + first, self.layout.sizes[field] - first
        elements = range(start, start + (size if count is None else count))
        return [self.tracer.read(self.array, self._element(i), self.offset) for i in elements]

    def scalar(self, field: str) -> Value:
        """Read a field of one scalar."""
        return self.read(field)[0]

    def write(self, field: str, values: Sequence[Value], first: int = 0) -> None:
        """Write scalars of a field from `first` on; may continue into the fields that follow."""
        self._write_from(self.layout.offsets[field] + first, values)

    def write_record(self, values: Sequence[Value]) -> None:
        """Write the first scalars of the record."""
        self._write_from(0, values)

    def _write_from(self, start: int, values: Sequence[Value]) -> None:
        if self.layout.group_size == 1:
            self.tracer.write(self.array, values, self._element(start), self.offset)
            return
        for i, value in enumerate(values, start):
            self.tracer.write(self.array, [value], self._element(i), self.offset)

    def _element(self, scalar: int) -> int:
        return self.start + self.layout.group_size * scalar + self.lane

    @property
    def axes(self) -> list[Vector]:
        """Axes of the contact frame: the normal and, with friction, two tangents."""
        count = self.layout.sizes["axes"] // 3 if self.condim > 1 else 1
        stored: list[Vector] = [self.read("axes", 3 * i, 3) for i in range(count)]
        return [*stored, cross(*stored)] if count == 2 else stored

    @property
    def residual(self) -> list[Value]:
        """Residual J a - aref of each row, shape (condim,)."""
        return self.read("residual")

    @property
    def residual_derivative(self) -> list[Value]:
        """Derivative J p of the residual along the search direction p, shape (condim,)."""
        return self.read("residual_derivative")

    def residual_at(self, step_length: Value) -> list[Value]:
        """Residual at a step length along the search direction."""
        return [x + step_length * v for x, v in zip(self.residual, self.residual_derivative, strict=True)]

    @property
    def stiffness_and_mu(self) -> tuple[Value, Value]:
        """Constraint stiffness D and regularized friction coefficient mu."""
        return self.scalar("stiffness"), self.scalar("regularized_mu")

    @property
    def surface_velocity(self) -> list[Value]:
        """Velocity of the second surface relative to the first along each row, without frame velocities; or zeros."""
        is_stored = "surface_velocity" in self.layout.offsets
        return self.read("surface_velocity") if is_stored else [0.0] * self.condim

    @property
    def damping(self) -> list[Value]:
        """Damping of each row, in normal direction and in friction directions."""
        return [self.scalar("damping"), *self.read("friction_damping") * (self.condim - 1)]


def record_offset(layout: ContactLayout, index: Value) -> Value:
    """Offset of a record of an array of records by its index, which is a run-time value."""
    if layout.group_size == 1:
        return index * float(layout.record_size)
    n = float(layout.group_size)
    first = n * ir.floor((index + 0.5) * (1.0 / n))
    return first * float(layout.record_size) + (index - first)


def contact_of_iteration(iteration: IterationContext, specialization: ContactSpecialization, index: Value) -> Contact:
    """Contact of a number, from 0, of the current iteration's contact buffer or pair in contact."""
    layout = buffer_layout(specialization)
    record = iteration.read("first record") + index if iteration.has_array("first record") else index
    return Contact(iteration.tracer, layout, index, offset=record_offset(layout, record))


def for_each_contact(
    iteration: IterationContext,
    specialization: ContactSpecialization,
    body: Callable[[Contact], None],
    capacity: int | None = None,
) -> None:
    """Trace a loop over the contacts of the current iteration's contact buffer, at most `capacity`."""
    iteration.tracer.counted_loop(
        "contacts",
        iteration.read("count"),
        lambda index: body(contact_of_iteration(iteration, specialization, index)),
        max_iterations=capacity,
    )


def for_each_lane_of_contacts(
    iteration: IterationContext, specialization: ContactSpecialization, body: Callable[[Contact], None]
) -> None:
    """Trace a loop over the groups of contacts of the current pair, with `body` for each lane of a group.

    Lanes after the last contact are inactive contacts (`inactive_record`). The code of all lanes is one basic block, so
    that it is packed into SIMD vectors (`codegen/superwords.py`).
    """
    layout = buffer_layout(specialization)
    if layout.group_size == 1:
        for_each_contact(iteration, specialization, body)
        return
    n = float(layout.group_size)

    def visit(group: Value) -> None:
        offset = (iteration.read("first record") + n * group) * float(layout.record_size)
        for lane in range(layout.group_size):
            body(Contact(iteration.tracer, layout, n * group + float(lane), offset=offset, lane=lane))

    n_groups = ir.floor((iteration.read("count") + (n - 0.5)) * (1.0 / n))
    iteration.tracer.counted_loop("contacts", n_groups, visit)


def inactive_record(specialization: ContactSpecialization) -> list[Value]:
    """Record of a contact without effect on costs, forces and Hessians: separated, of zero stiffness and Jacobian."""
    layout = buffer_layout(specialization)
    sizes = {name: layout.sizes[name] for name in _detected_fields(specialization)}
    values = {name: [1.0 if name == "position_feedback" else 0.0] * size for name, size in sizes.items()}
    return layout.pack(values)


class ContactSums:
    """Sums over the contacts of a pair in local memory, one per lane of a group until they are read."""

    def __init__(self, iteration: IterationContext, specialization: ContactSpecialization, n_values: int) -> None:
        """Allocate sums of `n_values` values and set them to zero."""
        self.tracer, self._size, self._n_lanes = iteration.tracer, n_values, specialization.group_size
        self._array = self.tracer.allocate_local(n_values * self._n_lanes)
        self.tracer.write(self._array, [0.0] * (n_values * self._n_lanes))

    def add(self, contact: Contact, index: int, value: Value) -> None:
        """Add a term of a contact to sum `index`; once per contact."""
        element = self._n_lanes * index + contact.lane
        self.tracer.write(self._array, [self.tracer.read(self._array, element) + value], element)

    def subtract(self, contact: Contact, index: int, value: Value) -> None:
        """Subtract a term of a contact from sum `index`; once per contact."""
        element = self._n_lanes * index + contact.lane
        self.tracer.write(self._array, [self.tracer.read(self._array, element) - value], element)

    def local_array(self) -> str:
        """Local array of the sums."""
        if self._n_lanes == 1:
            return self._array
        totals = self.tracer.allocate_local(self._size)
        self.tracer.write(totals, self.read())
        self.tracer.new_basic_block()
        return totals

    def read(self) -> list[Value]:
        """Read the sums."""
        sums = []
        for i in range(self._size):
            total = self.tracer.read(self._array, self._n_lanes * i)
            for lane in range(1, self._n_lanes):
                total = total + self.tracer.read(self._array, self._n_lanes * i + lane)
            sums.append(total)
        return sums
