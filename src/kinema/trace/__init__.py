"""L1: symbolic scalars, straight-line programs, their optimisation, interpretation and differentiation."""

from .differentiate import ADJOINT as ADJOINT, gradient as gradient
from .emit import Place as Place, Target as Target, emit as emit
from .functions import (
    absolute as absolute,
    clamp as clamp,
    cos as cos,
    maximum as maximum,
    minimum as minimum,
    select as select,
    sin as sin,
    sqrt as sqrt,
    square as square,
)
from .interpret import interpret as interpret
from .passes import fuse_multiply_add as fuse_multiply_add, optimise as optimise, schedule as schedule
from .program import Instruction as Instruction, Program as Program, Store as Store, finish as finish
from .tape import Scalar as Scalar, Slot as Slot, Tape as Tape, Value as Value
