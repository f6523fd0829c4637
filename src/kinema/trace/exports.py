"""All that the package offers beyond what `__init__` imports itself: for tracing, optimising and emitting programs."""

from .beginnings import shortened as shortened
from .blocks import (
    Count as Count,
    If as If,
    Instruction as Instruction,
    Line as Line,
    Loop as Loop,
    Repeat as Repeat,
    Spread as Spread,
    Store as Store,
    lines as lines,
)
from .differentiate import ADJOINT as ADJOINT, gradient as gradient
from .emit_llvm import (
    emit_gpu as emit_gpu,
    emit_listed as emit_listed,
    emit_llvm as emit_llvm,
    emit_order as emit_order,
    emit_team as emit_team,
    emit_tests as emit_tests,
    team_tables as team_tables,
)
from .equations import (
    Arrange as Arrange,
    Choose as Choose,
    Couplings as Couplings,
    Limbs as Limbs,
    Solve as Solve,
    Term as Term,
    numbers_of_cone as numbers_of_cone,
    whole as whole,
)
from .functions import (
    absolute as absolute,
    any_of as any_of,
    clamp as clamp,
    cos as cos,
    floor as floor,
    maximum as maximum,
    minimum as minimum,
    select as select,
    sin as sin,
    sqrt as sqrt,
    square as square,
)
from .interpret import interpret as interpret, interpret_in as interpret_in
from .llvm_clock import block_names as block_names
from .llvm_spread import (
    long_kinds as long_kinds,
    n_listed as n_listed,
    shares as shares,
    short_kinds as short_kinds,
)
from .llvm_threads import Room as Room
from .loops import (
    RowCode as RowCode,
    Rows as Rows,
    record_loop as record_loop,
    record_spread as record_spread,
)
from .lowering import Target as Target
from .parts import Part as Part, cut as cut
from .passes import (
    fuse_multiply_add as fuse_multiply_add,
    optimise as optimise,
    optimise_line as optimise_line,
    schedule as schedule,
)
from .program import Program as Program
from .record import Recorder as Recorder, finish as finish, repeat as repeat
from .side_by_side import can_run as can_run, run_side_by_side as run_side_by_side
from .split import (
    EXCHANGE as EXCHANGE,
    KEPT as KEPT,
    n_exchanged as n_exchanged,
    roles_of_scratch as roles_of_scratch,
    split as split,
)
from .tables import (
    Column as Column,
    Columns as Columns,
    Group as Group,
    Inside as Inside,
    Own as Own,
    OwnColumn as OwnColumn,
    Row as Row,
    RowGroup as RowGroup,
    Table as Table,
)
from .tape import Scalar as Scalar, Tape as Tape, Value as Value
from .unroll import unroll as unroll
