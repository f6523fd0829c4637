"""Emission of the kernel that bins environments by workload, so that warps process the most expensive ones first.

Otherwise an environment that takes four times as long as others may be started last, while nearly all threads are idle.
The workload is estimated by the number of contacts. Environments are appended to bins in arbitrary order, and warps
process the bins from the most to the least expensive. The order affects the run time only.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..abi import BIN_THRESHOLDS, N_BINS, WARP_MEMORY_HEADER
from ..memory import WARP_SIZE
from ..statements import StatementEmitter
from .warp import POPCOUNT, SHUFFLE_INDEX
from .work_queue import BALLOT, FULL_MASK, LANEMASK_LT

CTTZ = "llvm.cttz.i32"
"""Intrinsic: index of the lowest set bit."""
BINNING_DECLARATIONS = (
    f"declare i32 @{BALLOT}(i32, i1)",
    f"declare i32 @{CTTZ}(i32, i1)",
    f"declare i32 @{LANEMASK_LT}()",
    f"declare i32 @{POPCOUNT}(i32)",
    f"declare i32 @{SHUFFLE_INDEX}(i32, i32, i32, i32)",
)


class EnvBinningEmitter(StatementEmitter):
    """Emits the binning kernel, with one thread per environment."""

    def emit_binning(self, workload_offsets: Sequence[int], n_queues: int) -> None:
        """Emit code that appends each environment to one of the bins in global memory, by its workload.

        The workload is the sum of some scratch offsets; `BIN_THRESHOLDS` separate the bins. Also sets the lengths of
        `n_queues` work queues to zero, as they have been processed (`%controls_start` points to them in this kernel).
        """
        self._reset_queues(n_queues)
        env, last = self.assign("add i32 %first, %tid"), self.assign("sub i32 %n_envs, 1")
        is_valid = self.assign(f"icmp slt i32 {env}, %n_envs")
        self.emit(f"%e = select i1 {is_valid}, i32 {env}, i32 {last}")
        self.set_scratch_pointers("%e")
        total = self.constant(0.0)
        for row in workload_offsets:
            value = self.assign(
                f"load {self.scalar_type}, {self.thread_scratch_pointer(str(row))}, align {self.scalar_bytes}"
            )
            total = self.assign(f"fadd {self.scalar_type} {total}, {value}")
        bin_index = "0"
        for threshold in BIN_THRESHOLDS:
            above = self.assign(f"fcmp oge {self.scalar_type} {total}, {self.constant(float(threshold))}")
            bin_index = self.assign(f"add i32 {bin_index}, {self.assign(f'zext i1 {above} to i32')}")
        position = self._reserve_place(bin_index, is_valid)
        self.emit(f"br i1 {is_valid}, label %put, label %leave")
        self.start_block("put")
        index = self.assign(f"add i32 {self.assign(f'mul i32 {bin_index}, %stride')}, {position}")
        index = self.assign(f"add i32 {index}, {WARP_MEMORY_HEADER + N_BINS}")
        self.emit(f"store i32 {env}, {self._element_pointer(self.arena_pointer_type, 'i32', '%memory', index)}")
        self.emit("br label %leave")
        self.start_block("leave")

    def _reset_queues(self, n_queues: int) -> None:
        """Emit code by which the first thread of the grid sets the lengths of all work queues in memory to zero."""
        if not n_queues:
            return
        is_first = self.assign(f"icmp eq i32 {self.assign('add i32 %first, %tid')}, 0")
        self.emit(f"br i1 {is_first}, label %empty, label %sort")
        self.start_block("empty")
        for queue in range(n_queues):
            self.emit(
                f"store i32 0, {self._element_pointer(self.arena_pointer_type, 'i32', '%controls_start', str(queue))}"
            )
        self.emit("br label %sort")
        self.start_block("sort")

    def _reserve_place(self, bin_index: str, is_valid: str) -> str:
        """Emit the reservation of a position in a bin for each thread, with one atomic add per warp and bin.

        Threads of a warp with the same bin are found by ballots over the bits of the bin index; the lowest of them adds
        their number to the counter of the bin and broadcasts the previous value. Returns the name of the position.
        """
        peers = self.assign(f"call i32 @{BALLOT}(i32 {FULL_MASK}, i1 {is_valid})")
        for bit in range((N_BINS - 1).bit_length()):
            is_set = self.assign(f"icmp ne i32 {self.assign(f'and i32 {bin_index}, {1 << bit}')}, 0")
            votes = self.assign(f"call i32 @{BALLOT}(i32 {FULL_MASK}, i1 {is_set})")
            matching = self.assign(f"select i1 {is_set}, i32 {votes}, i32 {self.assign(f'xor i32 {votes}, -1')}")
            peers = self.assign(f"and i32 {peers}, {matching}")
        below = self.assign(f"call i32 @{LANEMASK_LT}()")
        rank = self.assign(f"call i32 @{POPCOUNT}(i32 {self.assign(f'and i32 {peers}, {below}')})")
        is_leader = self.assign(f"and i1 {self.assign(f'icmp eq i32 {rank}, 0')}, {is_valid}")
        entry_label = self.current_label
        self.emit(f"br i1 {is_leader}, label %ask, label %received")
        self.start_block("ask")
        counter = self._element_pointer(
            self.arena_pointer_type, "i32", "%memory", self.assign(f"add i32 {bin_index}, {WARP_MEMORY_HEADER}")
        )
        count = self.assign(f"call i32 @{POPCOUNT}(i32 {peers})")
        first = self.assign(f"atomicrmw add {counter}, i32 {count} monotonic")
        self.emit("br label %received")
        self.start_block("received")
        start = self.assign(f"phi i32 [ 0, %{entry_label} ], [ {first}, %ask ]")
        leader = self.assign(f"urem i32 {self.assign(f'call i32 @{CTTZ}(i32 {peers}, i1 false)')}, {WARP_SIZE}")
        start = self.assign(f"call i32 @{SHUFFLE_INDEX}(i32 {FULL_MASK}, i32 {start}, i32 {leader}, i32 31)")
        return self.assign(f"add i32 {start}, {rank}")


def load_binned_env(emitter: StatementEmitter, rank: str) -> str:
    """Emit the load of the environment at position `rank` in the order of decreasing workload (bin by bin)."""
    position, remaining = "0", rank
    for bin_index in reversed(range(N_BINS)):
        count = emitter.assign(f"load i32, {_counter_pointer(emitter, bin_index)}")
        start = emitter.assign(f"add i32 {emitter.assign(f'mul i32 %stride, {bin_index}')}, {remaining}")
        position = emitter.assign(
            f"select i1 {emitter.assign(f'icmp ult i32 {remaining}, {count}')}, i32 {start}, i32 {position}"
        )
        remaining = emitter.assign(
            f"sub i32 {remaining}, {count}"
        )  # negative once found, i.e. above all counts as unsigned
    index = emitter.assign(f"add i32 {position}, {WARP_MEMORY_HEADER + N_BINS}")
    return emitter.assign(f"load i32, {emitter._element_pointer(emitter.arena_pointer_type, 'i32', '%memory', index)}")


def reset_bins(emitter: StatementEmitter) -> None:
    """Emit code that empties all bins."""
    for bin_index in range(N_BINS):
        emitter.emit(f"store i32 0, {_counter_pointer(emitter, bin_index)}")


def _counter_pointer(emitter: StatementEmitter, bin_index: int) -> str:
    return emitter._element_pointer(emitter.arena_pointer_type, "i32", "%memory", str(WARP_MEMORY_HEADER + bin_index))
