"""Launching a kernel over all pixels: on a CPU by several threads, because Warp uses only one there."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kinema.backend import Device, n_threads, warp

_PIECES = 8
"""Shares of the work for each thread: some take longer than others."""
_SMALL = 2048
"""Pixels that are not worth a thread of their own."""
_EACH = 32
"""Pixels that are done at a time on a CPU, where each call copies all arguments."""


def launch(kernel: Any, n: int, inputs: Sequence[Any], device: Device, *, block: int = 256) -> None:
    """Run a kernel for n items; on a CPU until it is done.

    Args:
        kernel: of Warp. Its first arguments are the first item, the one after the last, and how many each thread does.
        n: items.
        inputs: its other arguments.
        device: where it runs.
        block: threads that a GPU starts together.
    """
    wp = warp()
    if not device.is_cpu:
        wp.launch(kernel, dim=n, inputs=[0, n, 1, *inputs], device=device.name, block_dim=block)
        return
    threads = n_threads()
    size = max(_SMALL, -(-n // (threads * _PIECES)))
    starts = range(0, n, size)
    kernel.module.load(wp.get_device("cpu"), 1)  # by one thread; not in several threads at a time

    def piece(start: int) -> None:
        end = min(start + size, n)
        wp.launch(kernel, dim=-(-(end - start) // _EACH), inputs=[start, end, _EACH, *inputs], device="cpu")

    if threads == 1 or len(starts) == 1:
        for start in starts:
            piece(start)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(piece, starts))
