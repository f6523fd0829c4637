"""Calling convention between emitted code and the runtime: symbol names and headers of queues and bins."""

from __future__ import annotations

ENTRY_FUNCTION = "kinema_run"
"""Symbol of the entry function of a module."""
OUTLINED_PREFIX = "kinema_loop_"
"""Prefix of the symbols of outlined functions, followed by the name of the outlined statement."""
WARP_MEMORY_HEADER = 4
"""32-bit words at the start of the global memory of warp kernels; the first counts the environments taken so far."""
QUEUE_ENTRY_SIZE = 2
"""Integers of a queue entry: environment and iteration."""
BIN_THRESHOLDS = (1, 2, 3, 5, 8, 12, 18)
"""Workloads (numbers of contacts) at which an environment falls into the next bin."""
N_BINS = len(BIN_THRESHOLDS) + 1


def env_bins_size(stride: int) -> int:
    """32-bit words of the environment bins: a counter and `stride` entries per bin."""
    return N_BINS * (1 + stride)
