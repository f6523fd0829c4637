"""Sensor readings as table rows: object and reference frames, output offsets, cutoffs.

A reading is one measured quantity with one or more values; a sensor has one or several readings. The functions of a
sensor family trace a table loop with one row per reading, whose code writes the values to the array `reading`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kinema import ir
from kinema.ir import ArenaOffset, RowContext, Value
from kinema.model import ReadingsInfo

from ..rigid.kinematics import Pose
from ..tree.kinematic_tree import NodeRef, frame_ref
from ..tree.node_tables import NodeRow
from ..tree.node_values import NodeValues
from ..tree.trace_context import TraceContext
from ..vector_math import add, matmul, rotate

READING_ARRAY = "reading"
"""Array of the values of all readings."""
OBJECT_FRAME, REFERENCE_FRAME = frame_ref("object "), frame_ref("reference ")
"""Symbolic references to the object frame and the reference frame (MuJoCo obj, ref) in the code of a reading."""


@dataclass(frozen=True, slots=True)
class ReadingVariant:
    """Hashable specialisation key: readings of equal variant share traced code."""

    name: str
    """Kind of the reading, such as `framepos`."""
    cutoff_mode: str
    """`both` clamps values to [-cutoff, cutoff], `above` to at most cutoff; empty for no cutoff."""
    has_reference: bool = False
    """Whether the quantity is expressed in the reference frame instead of the world."""
    options: tuple[object, ...] = ()
    """Options of the kind that select code (`ReadingsInfo.options`), followed by those of the caller."""
    n_params: int = 0
    """Number of values in `ReadingsInfo.params`."""


class Readings:
    """The readings table of a model, and table rows made from it."""

    def __init__(self, ctx: TraceContext) -> None:
        self.ctx = ctx
        self.info: ReadingsInfo = ctx.model.sensors.readings

    def indices_of(self, *kinds: str) -> list[int]:
        """Indices of all readings of the given kinds."""
        return [i for i, kind in enumerate(self.info.kinds) if kind in kinds]

    def output_offset(self, reading: int) -> ArenaOffset:
        """Memory offset of the first value of a reading in the output array `reading`."""
        first = self.ctx.array_offsets[self.ctx.output_prefix + READING_ARRAY]
        return ArenaOffset(first.arena, first.row + int(self.info.start[reading]))

    def variant_of(self, reading: int, *options: object) -> ReadingVariant:
        """Specialisation key of a reading; `options` are appended to the options of the table."""
        info = self.info
        cutoff_mode = "" if info.cutoff[reading] <= 0 else "above" if info.positive[reading] else "both"
        return ReadingVariant(
            info.kinds[reading],
            cutoff_mode,
            bool(info.has_reference[reading]),
            (*info.options[reading], *options),
            len(info.params[reading]),
        )

    def frame_row(
        self,
        reading: int,
        offsets: Mapping[str, ArenaOffset] | None = None,
        bindings: Mapping[str, NodeRef] | None = None,
        constants: Mapping[str, Sequence[float]] | None = None,
        *options: object,
    ) -> NodeRow:
        """Table row of a reading with its object frame and reference frame, mounting poses, cutoff and parameters.

        Args:
            reading: index of the reading.
            offsets: further arrays of the row, by name.
            bindings: further nodes (frames or links) of the row, by the name of their symbolic reference.
            constants: further constants of the row, by name.
            options: appended to the options of the variant.
        """
        info = self.info
        frames = {
            str(ref.index): frame_ref(int(info.frame_idx[reading, k]))
            for k, ref in enumerate((OBJECT_FRAME, REFERENCE_FRAME))
        }
        parameters = {f"{name} pos": info.pos[reading, k].tolist() for k, name in enumerate(("object", "reference"))}
        parameters |= {
            f"{name} rot": info.rot[reading, k].ravel().tolist() for k, name in enumerate(("object", "reference"))
        }
        parameters |= {"cutoff": [float(info.cutoff[reading])], "params": list(info.params[reading])}
        return self.ctx.node_row(
            self.variant_of(reading, *options),
            {**frames, **(bindings or {})},
            {READING_ARRAY: self.output_offset(reading), **(offsets or {})},
            {**parameters, **(constants or {})},
        )

    def value_row(self, reading: int, offsets: Mapping[str, ArenaOffset]) -> NodeRow:
        """Table row of a reading without frames: output offset, cutoff and the given array offsets."""
        cutoff = {"cutoff": [float(self.info.cutoff[reading])]}
        return self.ctx.node_row(
            self.variant_of(reading), {}, {READING_ARRAY: self.output_offset(reading), **offsets}, cutoff
        )


def attachment_pose(code: RowContext, frame_poses: NodeValues[Pose], frame: NodeRef) -> Pose:
    """World pose of the sensor mounting (object or reference attachment) in one of the row's two frames.

    `frame_poses` gives the pose of the frame; the mounting pose in the frame is a constant of the row.
    """
    prefix, pose = str(frame.index).strip(), frame_poses[frame]
    flat = code.constants(f"{prefix} rot")
    rotation = [flat[3 * i : 3 * i + 3] for i in range(3)]
    return Pose(
        matmul(pose.rotation, rotation), add(pose.position, rotate(pose.rotation, code.constants(f"{prefix} pos")))
    )


def write_reading(code: RowContext, values: Sequence[Value], variant: ReadingVariant | None = None) -> None:
    """Write the values of a reading, clamped to its cutoff; `variant` defaults to the variant of the row."""
    variant = variant or code.variant  # type: ignore[assignment]
    assert isinstance(variant, ReadingVariant)
    code.write(READING_ARRAY, apply_cutoff(code, variant, values))


def apply_cutoff(code: RowContext, variant: ReadingVariant, values: Sequence[Value]) -> Sequence[Value]:
    """Clamp values to at most the cutoff, and to at least its negative if the cutoff mode is `both`."""
    if not variant.cutoff_mode:
        return values
    cutoff = code.constant("cutoff")
    values = [ir.minimum(x, cutoff) for x in values]
    return [ir.maximum(x, -cutoff) for x in values] if variant.cutoff_mode == "both" else values
