"""Loop iterations over sensor outputs: object and reference frames, output offsets, cutoffs.

An output is one measured quantity with one or more values; a sensor has one or several outputs. The functions of a
sensor family trace a for-each loop with one iteration per output, whose body writes the values to the array
`sensordata`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kinema import ir
from kinema.ir import ArenaOffset, IterationContext, Value
from kinema.model import SensorOutputsInfo

from ..rigid.kinematics import Pose
from ..tree.kinematic_tree import NodeRef, frame_ref
from ..tree.node_tables import NodeIteration
from ..tree.node_values import NodeValues
from ..tree.trace_context import TraceContext
from ..vector_math import add, matmul, rotate

SENSOR_OUTPUT_ARRAY = "sensordata"
"""Array of the values of all outputs."""
OBJECT_FRAME, REFERENCE_FRAME = frame_ref("object "), frame_ref("reference ")
"""Symbolic references to the object frame and the reference frame (MuJoCo obj, ref) in the code of an output."""


@dataclass(frozen=True, slots=True)
class SensorOutputSpecialization:
    """Hashable specialization key: outputs of equal specialization share traced code."""

    name: str
    """Kind of the output, such as `framepos`."""
    cutoff_mode: str
    """`both` clamps values to [-cutoff, cutoff], `above` to at most cutoff; empty for no cutoff."""
    has_reference: bool = False
    """Whether the quantity is expressed in the reference frame instead of the world."""
    options: tuple[object, ...] = ()
    """Options of the kind that select code (`SensorOutputsInfo.options`), followed by those of the caller."""
    n_params: int = 0
    """Number of values in `SensorOutputsInfo.params`."""


class SensorOutputs:
    """All sensor outputs of a model, and loop iterations over them."""

    def __init__(self, ctx: TraceContext) -> None:
        self.ctx = ctx
        self.info: SensorOutputsInfo = ctx.model.sensors.outputs

    def indices_of(self, *kinds: str) -> list[int]:
        """Indices of all outputs of the given kinds."""
        return [i for i, kind in enumerate(self.info.kinds) if kind in kinds]

    def output_offset(self, output: int) -> ArenaOffset:
        """Memory offset of the first value of an output in the output array `sensordata`."""
        first = self.ctx.array_offsets[self.ctx.output_prefix + SENSOR_OUTPUT_ARRAY]
        return ArenaOffset(first.arena, first.row + int(self.info.start[output]))

    def specialization_of(self, output: int, *options: object) -> SensorOutputSpecialization:
        """Specialization key of a sensor output: outputs of equal key share traced code.

        Kind, cutoff mode, whether there is a reference frame, options of the model followed by `options`, and number of
        parameters.
        """
        info = self.info
        cutoff_mode = "" if info.cutoff[output] <= 0 else "above" if info.positive[output] else "both"
        return SensorOutputSpecialization(
            info.kinds[output],
            cutoff_mode,
            bool(info.has_reference[output]),
            (*info.options[output], *options),
            len(info.params[output]),
        )

    def frame_iteration(
        self,
        output: int,
        offsets: Mapping[str, ArenaOffset] | None = None,
        bindings: Mapping[str, NodeRef] | None = None,
        constants: Mapping[str, Sequence[float]] | None = None,
        *options: object,
    ) -> NodeIteration:
        """Loop iteration of a sensor output: frames, mounting poses, cutoff, parameters and memory offset.

        Args:
            output: index of the sensor output.
            offsets: further arrays of the iteration, by name.
            bindings: further nodes (frames or links), by the name of their symbolic reference.
            constants: further constants, by name.
            options: appended to the options of the specialization key.
        """
        info = self.info
        frames = {
            str(ref.index): frame_ref(int(info.frame_idx[output, k]))
            for k, ref in enumerate((OBJECT_FRAME, REFERENCE_FRAME))
        }
        parameters = {f"{name} pos": info.pos[output, k].tolist() for k, name in enumerate(("object", "reference"))}
        parameters |= {
            f"{name} rot": info.rot[output, k].ravel().tolist() for k, name in enumerate(("object", "reference"))
        }
        parameters |= {"cutoff": [float(info.cutoff[output])], "params": list(info.params[output])}
        return self.ctx.node_iteration(
            self.specialization_of(output, *options),
            {**frames, **(bindings or {})},
            {SENSOR_OUTPUT_ARRAY: self.output_offset(output), **(offsets or {})},
            {**parameters, **(constants or {})},
        )

    def value_iteration(self, output: int, offsets: Mapping[str, ArenaOffset]) -> NodeIteration:
        """Loop iteration data of an output without frames: memory offset, cutoff and the given array offsets."""
        cutoff = {"cutoff": [float(self.info.cutoff[output])]}
        return self.ctx.node_iteration(
            self.specialization_of(output), {}, {SENSOR_OUTPUT_ARRAY: self.output_offset(output), **offsets}, cutoff
        )


def attachment_pose(iteration: IterationContext, frame_poses: NodeValues[Pose], frame: NodeRef) -> Pose:
    """World pose of the sensor mounting (object or reference attachment) in one of the iteration's two frames.

    `frame_poses` gives the pose of the frame; the mounting pose in the frame is a constant of the iteration.
    """
    prefix, pose = str(frame.index).strip(), frame_poses[frame]
    flat = iteration.constants(f"{prefix} rot")
    rotation = [flat[3 * i : 3 * i + 3] for i in range(3)]
    return Pose(
        matmul(pose.rotation, rotation), add(pose.position, rotate(pose.rotation, iteration.constants(f"{prefix} pos")))
    )


def write_sensor_output(
    iteration: IterationContext, values: Sequence[Value], specialization: SensorOutputSpecialization | None = None
) -> None:
    """Write the values of an output, clamped to its cutoff; `specialization` is by default the iteration's key."""
    specialization = specialization or iteration.specialization  # type: ignore[assignment]
    assert isinstance(specialization, SensorOutputSpecialization)
    iteration.write(SENSOR_OUTPUT_ARRAY, apply_cutoff(iteration, specialization, values))


def apply_cutoff(
    iteration: IterationContext, specialization: SensorOutputSpecialization, values: Sequence[Value]
) -> Sequence[Value]:
    """Clamp values to at most the cutoff, and to at least its negative if the cutoff mode is `both`."""
    if not specialization.cutoff_mode:
        return values
    cutoff = iteration.constant("cutoff")
    values = [ir.minimum(x, cutoff) for x in values]
    return [ir.maximum(x, -cutoff) for x in values] if specialization.cutoff_mode == "both" else values
