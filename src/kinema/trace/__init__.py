"""L1: symbolic scalars, programs made of blocks, their optimisation, interpretation, differentiation and emission."""

from typing import TYPE_CHECKING

from kinema.foundation import export_lazily

from .conventions import (
    ENTRY as ENTRY,
    LOOP as LOOP,
    N_ENTRY as N_ENTRY,
    N_HEAD as N_HEAD,
    UNIFORM as UNIFORM,
    n_ordered as n_ordered,
)
from .slots import SCRATCH as SCRATCH, Place as Place, Slot as Slot

if TYPE_CHECKING:
    from .exports import *  # noqa: F403
else:
    export_lazily(__name__, "exports")  # programs from the cache are neither traced nor emitted
