"""Features that kernels are specialized for, and launches over all pixels (chunked over threads on a CPU)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from kinema.core import process_lock
from kinema.runtime import Device, n_threads, warp


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelFeatures:
    """Scene features that kernels are specialized for; code for absent features is not compiled."""

    bvh: bool = False
    """Rays traverse a BVH over the bodies instead of a linear search."""
    meshes: bool = True
    primitives: bool = True
    """Primitives other than planes occur."""
    textures: bool = True
    """Some surface has a texture."""
    glass: bool = True
    clearcoat: bool = True
    emitters: bool = True
    """Some emissive triangles are sampled as light sources."""


_CHUNKS_PER_THREAD = 8
"""Chunks of work per CPU thread, for load balancing."""
_MIN_CHUNK = 2048
"""Minimum number of work items per chunk."""
_ITEMS_PER_THREAD = 32
"""Items per Warp thread on a CPU, where every call copies all arguments."""
_loaded_modules: WeakSet[Any] = WeakSet()


def launch_over_items(
    kernel: Any, n_items: int, inputs: Sequence[Any], device: Device, *, block_size: int = 256
) -> None:
    """Launch a Warp kernel over `n_items` work items; on a CPU in several Python threads, until completion.

    Warp uses a single thread on a CPU, so the work items are split into chunks for a thread pool.

    Args:
        kernel: Warp kernel whose first arguments are the first work item, the end of the range and the work items per
            thread.
        n_items: number of work items.
        inputs: other kernel arguments.
        device: device of the launch.
        block_size: threads per block on a GPU.
    """
    wp = warp()
    if not device.is_cpu:
        wp.launch(kernel, dim=n_items, inputs=[0, n_items, 1, *inputs], device=device.name, block_dim=block_size)
        return
    threads = n_threads()
    size = max(_MIN_CHUNK, -(-n_items // (threads * _CHUNKS_PER_THREAD)))
    starts = range(0, n_items, size)
    _load_module(kernel.module, wp.get_device("cpu"))  # before threads are started

    def launch_chunk(start: int) -> None:
        """Launch the kernel over the chunk of work items that begins at `start`."""
        end = min(start + size, n_items)
        wp.launch(
            kernel,
            dim=-(-(end - start) // _ITEMS_PER_THREAD),
            inputs=[start, end, _ITEMS_PER_THREAD, *inputs],
            device="cpu",
        )

    if threads == 1 or len(starts) == 1:
        for start in starts:
            launch_chunk(start)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(launch_chunk, starts))


def _load_module(module: Any, device: Any) -> None:
    """Compile a Warp module for a CPU, or load it from Warp's cache.

    Of several processes that need a module at the same time, one compiles it, which takes seconds.
    """
    if module in _loaded_modules:
        module.load(device, 1)
        return
    with process_lock(f"warp/{module.name}.lock"):
        module.load(device, 1)
    _loaded_modules.add(module)
