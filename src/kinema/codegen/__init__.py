"""Emission of LLVM IR from programs: CPU functions vectorised over environments, and CUDA kernels."""

from typing import TYPE_CHECKING

from kinema.core import export_lazily

from .abi import (
    ENTRY_FUNCTION as ENTRY_FUNCTION,
    OUTLINED_PREFIX as OUTLINED_PREFIX,
    QUEUE_ENTRY_SIZE as QUEUE_ENTRY_SIZE,
    WARP_MEMORY_HEADER as WARP_MEMORY_HEADER,
    env_bins_size as env_bins_size,
)

if TYPE_CHECKING:
    from .exports import *  # noqa: F403
else:
    export_lazily(__name__, "exports")  # programs loaded from the cache are not emitted
