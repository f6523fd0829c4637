"""Program representation: symbolic scalars, structured programs of basic blocks and loops, and tracing.

Also optimisation passes, NumPy interpreters and reverse-mode differentiation.
"""

from typing import TYPE_CHECKING

from kinema.core import export_lazily

from .memory import (
    PRECOMPUTED as PRECOMPUTED,
    SCRATCH as SCRATCH,
    UNIFORM as UNIFORM,
    ArenaOffset as ArenaOffset,
    MemoryLocation as MemoryLocation,
)

if TYPE_CHECKING:
    from .exports import *  # noqa: F403
else:
    export_lazily(__name__, "exports")  # not needed to run programs loaded from the cache
