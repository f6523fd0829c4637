"""Warp primitives for emitted kernels: barrier, shuffles and sums over a thread group, and its memory configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kinema.ir import MemoryLocation

from ..memory import WARP_SIZE
from ..statements import StatementEmitter

WARP_SYNC, SHUFFLE_XOR = "llvm.nvvm.bar.warp.sync", "llvm.nvvm.shfl.sync.bfly.i32"
"""Intrinsics: barrier of the threads of a warp, and exchange of a word with the lane whose index differs by an XOR
mask."""
SHUFFLE_INDEX = "llvm.nvvm.shfl.sync.idx.i32"
"""Intrinsic: read a word from a given lane of the warp."""
POPCOUNT = "llvm.ctpop.i32"
"""Intrinsic: number of set bits of a word."""
SHARED_POINTER = "ptr addrspace(3)"
"""LLVM type of pointers to shared memory."""
NO_UNROLL_METADATA = "!2"
"""Metadata that disables unrolling of a loop, as the code of a warp kernel exceeds the instruction cache."""


@dataclass(frozen=True, slots=True)
class WarpRegionConfig:
    """Thread group of a warp region (a warp or a power-of-two fraction of it) and its memory."""

    group_size: int
    """Threads per group."""
    n_shared: int
    """Scalars of the scratch arena, preferably in shared memory."""
    n_global: int
    """Scalars of the arena in global memory."""
    uses_shared_memory: bool = False
    """Whether the scratch arena is in shared memory; else it follows the arena in global memory."""
    groups_per_block: int = 1
    """Thread groups per block."""

    @property
    def n_device_memory(self) -> int:
        """Scalars of global memory per group."""
        return self.n_global + (0 if self.uses_shared_memory else self.n_shared)


class WarpEmitter(StatementEmitter):
    """Emits kernels in which a group of threads works on one environment."""

    config: WarpRegionConfig
    member_mask: str
    """Mask of the threads of the group within the warp."""

    @property
    def group_size(self) -> int:
        """Threads per group."""
        return self.config.group_size

    @property
    def shuffle_segment(self) -> int:
        """Segment operand of shuffle instructions, which confines them to the group."""
        return (WARP_SIZE - self.config.group_size) << 8 | (WARP_SIZE - 1)

    def location_pointer(self, location: MemoryLocation) -> tuple[str, str]:
        """Type and name of the pointer to a memory location."""
        pointer_type, name = self._pointer(location, None).rsplit(" ", 1)
        return pointer_type, name

    @property
    def shared_pointer_type(self) -> str:
        """LLVM type of pointers to the scratch arena of the group."""
        return SHARED_POINTER if self.config.uses_shared_memory else self.arena_pointer_type

    def emit_barrier(self) -> None:
        """Emit a barrier of the group, which also makes stores visible to all of its threads."""
        self.emit(f"call void @{WARP_SYNC}(i32 {self.member_mask})")

    def reduce_sum(self, values: Sequence[str]) -> list[str]:
        """Emit a butterfly (XOR shuffle) reduction: sums of each value over the threads of the group.

        All threads get bitwise equal results, as each exchange adds the same two operands.
        """
        offset = 1
        while offset < self.config.group_size:
            others = [self.shuffle(value, offset) for value in values]
            values = [self.assign(f"fadd {self.scalar_type} {a}, {b}") for a, b in zip(values, others, strict=True)]
            offset *= 2
        return list(values)

    def shuffle(self, value: str, lane: int | str, intrinsic: str = SHUFFLE_XOR) -> str:
        """Emit a warp shuffle of a scalar; doubles are exchanged as two words.

        `lane` is the XOR mask of the partner lane, or the source lane for `SHUFFLE_INDEX`.
        """

        def word(bits: str) -> str:
            return self.assign(
                f"call i32 @{intrinsic}(i32 {self.member_mask}, i32 {bits}, i32 {lane}, i32 {self.shuffle_segment})"
            )

        if self.scalar_bytes == 4:
            bits = self.assign(f"bitcast float {value} to i32")
            return self.assign(f"bitcast i32 {word(bits)} to float")
        bits = self.assign(f"bitcast double {value} to <2 x i32>")
        halves = [word(self.assign(f"extractelement <2 x i32> {bits}, i32 {i}")) for i in range(2)]
        low = self.assign(f"insertelement <2 x i32> poison, i32 {halves[0]}, i32 0")
        both = self.assign(f"insertelement <2 x i32> {low}, i32 {halves[1]}, i32 1")
        return self.assign(f"bitcast <2 x i32> {both} to double")
