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
from .loops import (
    SCRATCH as SCRATCH,
    Loop as Loop,
    Rolled as Rolled,
    Row as Row,
    Turn as Turn,
    emit_rolled as emit_rolled,
    interpret_rolled as interpret_rolled,
    make_loop as make_loop,
)
from .passes import fuse_multiply_add as fuse_multiply_add, optimise as optimise, schedule as schedule
from .program import Instruction as Instruction, Program as Program, Store as Store, finish as finish
from .split import Role as Role, Split as Split, interpret_split as interpret_split, split as split
from .tape import Scalar as Scalar, Slot as Slot, Tape as Tape, Value as Value
