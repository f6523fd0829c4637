"""Programs as functions in LLVM's text, for a CPU and for a GPU.

On a CPU the function goes through its share of the environments, several to a vector, or one, and for each vector
through all steps, so that the state stays near. On a GPU an environment is a thread, or several threads have roles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from .blocks import Block, Count, If, Line, Loop, Repeat, Spread, inner
from .conventions import ENTRY, UNIFORM
from .llvm_blocks import LlvmBlocks
from .llvm_clock import Clock, clock_declarations
from .llvm_lines import LlvmLines
from .llvm_memory import WARP
from .llvm_order import DECLARATIONS as ORDERING, LlvmOrder
from .llvm_queues import DECLARATIONS, LlvmQueues
from .llvm_solution import ROLLED
from .llvm_team import LlvmTeam
from .llvm_threads import ONES, PASS, TELL, WAIT, Room
from .lowering import Target
from .outline import frame_of, n_instructions, outlined
from .parts import Part
from .program import Program
from .slots import SCRATCH, Place
from .split import n_exchanged
from .team_tables import in_bytes, padded, padded_fours

POINTERS = ("state", "told_start", "out", UNIFORM, SCRATCH, "ints", "floats")
NUMBERS = ("stride", "steps", "advance", "n_envs", "first", "last")
"""The arguments of a function: pointers, then integers. On a CPU it runs the vectors from first to last."""
_THREAD, _REGISTERS = "llvm.nvvm.read.ptx.sreg", ("tid", "ctaid", "ntid")
_MEETING = "llvm.nvvm.barrier0"
_NOTES = f"""!0 = !{{}}
{ROLLED} = distinct !{{{ROLLED}, !3}}
!3 = !{{!"llvm.loop.unroll.disable"}}
"""
"""What a team's text refers to."""
_MODE = ("llvm.x86.sse.stmxcsr", "llvm.x86.sse.ldmxcsr")
"""Read and set how a core of an x86 processor rounds."""
_FLUSH = 0x8040
"""In that number: what is too small becomes zero, of results and of operands."""


def emit_llvm(
    program: Program,
    places: Mapping[str, Place],
    target: Target,
    runs_per_step: int = 1,
    *,
    improve: Callable[[Line], Line] | None = None,
    timed_on: str = "",
    on_module: Callable[[str], None] | None = None,
) -> tuple[str, ...]:
    """A module with the function `kinema_run`, which runs a program on a CPU for some environments and steps.

    The arena `told` moves on by `advance` rows from step to step, so that each step may be told something else. A step
    may take several runs of the program. Further modules have outlined functions; `on_module` is called with each
    module as soon as it is complete, while the others are still being emitted. Lines are optimised by `improve` when it
    is their turn, so that the first module does not wait for all of them. With `timed_on`, a kind of processor
    (`platform.machine()`), the arena `out` is the ticks that blocks take (`llvm_clock.py`).
    """
    text = LlvmBlocks(places, target)
    modules: list[str] = []

    def complete(function: LlvmBlocks, head: str, declared: Sequence[str] = ()) -> None:
        declarations = [f"declare {name}" for name in (*function.called, *declared)]
        modules.append(_module(function, [*declarations, f"define {head} {{"]))
        if on_module is not None:
            on_module(modules[-1])

    text.improve = improve
    text.outlined = outlined(program)
    text.frame = frame_of(program, text.outlined)
    text.allocate_frame(program)
    elsewhere = set[str]().union(*text.outlined.values()) - text.frame.keys()
    text.enter(program, text.allocate(program, program.locals.keys() - elsewhere))
    if target.flushes:
        _begin_flushing(text)
    vectors, vector = text.begin("%first", "%last")
    text.put(f"%e = mul i64 {vector}, {target.lanes}")
    if target.lanes > 1 and any(_depends(block) for block in program.blocks):
        text.mask = text.present = _present(text)
    body = Clock(text, program.blocks, timed_on).write if timed_on else partial(text.blocks, program.blocks)
    _runs(text, ("state", "out"), runs_per_step, body)
    text.end(vectors)
    if target.flushes:
        text.put(f"call void @{_MODE[1]}(ptr %mode)")  # as it was: the thread is not ours
    arguments = [f"ptr noalias %{name}" for name in POINTERS] + [f"i64 %{name}" for name in NUMBERS]
    declared = [f"void @{name}(ptr)" for name in _MODE] if target.flushes else []
    declared += clock_declarations(timed_on) if timed_on else []
    complete(text, f"void @{ENTRY}({', '.join(arguments)})", declared)
    while text.pending:  # the longest first: it takes longest to compile
        function = max(text.pending, key=lambda pending: n_instructions(pending.blocks))
        text.pending.remove(function)
        function.write(function.text)
        complete(function.text, function.head)
    return tuple(modules)


def _begin_flushing(text: LlvmBlocks) -> None:
    """From here on what is too small becomes zero."""
    for name in ("mode", "own_mode"):
        text.put(f"%{name} = alloca i32")
    text.put(f"call void @{_MODE[0]}(ptr %mode)")
    before = text.set("load i32, ptr %mode")
    text.put(f"store i32 {text.set(f'or i32 {before}, {_FLUSH}')}, ptr %own_mode")
    text.put(f"call void @{_MODE[1]}(ptr %own_mode)")


def emit_gpu(roles: Sequence[Program], places: Mapping[str, Place], target: Target, runs_per_step: int = 1) -> str:
    """The same for a GPU, as a kernel: of one role, or of the roles of one line.

    A block has as many environments as threads; where there are several roles, one warp of environments, and as many
    warps as roles. The last of these has more threads than environments: they work on the rest of the padded rows, as
    all of a block have to meet.
    """
    text = LlvmLines(places, target)
    text.n_given = target.n_given
    local_arrays = [text.allocate(role) for role in roles]
    for register in _REGISTERS:
        text.put(f"%{register} = call i32 @{_THREAD}.{register}.x()")
    if len(roles) == 1:
        _own_environment(text)
    else:
        _shared_environment(text)
    text.point_scratch("%e")
    _runs(text, ("state", "out"), runs_per_step, lambda: _all_roles(text, roles, local_arrays))
    return _module(text, _gpu_head(text, roles)) + "!0 = !{}\n"


def emit_team(part: Part, places: Mapping[str, Place], target: Target, room: Room, *, ordered: bool = False) -> str:
    """One run of what teams do, as a kernel; its loops have their rounds. `%steps` is how many teams there are.

    Environments may be `ordered` before (`emit_order`).
    """
    text = LlvmTeam(places, target)
    program = in_bytes(part.program, text.size)
    text.enter(program, text.allocate(program))
    for register in _REGISTERS:
        text.put(f"%{register} = call i32 @{_THREAD}.{register}.x()")
    text.begin_team(room, ordered=ordered)
    text.put(f"%pitch = mul i32 %stride, {text.size}")
    text.point("%e")
    ints, _ = program.tables()
    at = len(ints)
    text.take(at, part.given)
    at += len(padded_fours(part.given, room.size))
    text.copies(at, part.into, into=True)
    text.blocks(program.blocks)
    text.wait()
    text.copies(at + len(padded(part.into, room.size)), part.back, into=False)
    text.end_team()
    near = f"[{room.n_near * room.teams} x {text.n}]"
    head = [
        'target triple = "nvptx64-nvidia-cuda"',
        *([f"@near = internal addrspace(3) global {near} poison, align 16"] if room.shared else []),
        f"declare void @{WAIT}(i32)",
        *(f"declare i32 @{how}(i32, i32, i32, i32)" for how in (PASS, TELL)),
        f"declare i32 @{ONES}(i32)",
        *(f"declare i32 @{_THREAD}.{register}.x()" for register in _REGISTERS),
        _entry_of(text),
    ]
    return _module(text, head) + _NOTES


def emit_order(part: Part, target: Target, n_kinds: int = 0) -> str:
    """What puts environments in the order in which teams take them, as a kernel; it empties so many lists."""
    text = LlvmOrder({}, target)
    for register in _REGISTERS:
        text.put(f"%{register} = call i32 @{_THREAD}.{register}.x()")
    text.put("%first = mul i32 %ctaid, %ntid")
    text.sort(part.weights, n_kinds)
    registers = [f"declare i32 @{_THREAD}.{register}.x()" for register in _REGISTERS]
    return _module(text, ['target triple = "nvptx64-nvidia-cuda"', *ORDERING, *registers, _entry_of(text)])


def emit_tests(
    part: Part, places: Mapping[str, Place], target: Target, found: Sequence[Sequence[int]], *, at_once: bool
) -> str:
    """What all threads share, as a kernel: rows are tested, in `shares`; what is found is done `at_once`, or listed."""
    text, block = _spread_text(part, places, target)
    arrays = text.tests(block, found, at_once=at_once)
    return _module(text, [*_spread_head(arrays), _entry_of(text)]) + "!0 = !{}\n"


def emit_listed(part: Part, places: Mapping[str, Place], target: Target, kind: int) -> str:
    """What all threads share, as a kernel: what was listed of one kind of rows."""
    text, block = _spread_text(part, places, target)
    text.work(block, kind)
    return _module(text, [*_spread_head([]), _entry_of(text)]) + "!0 = !{}\n"


def _spread_text(part: Part, places: Mapping[str, Place], target: Target) -> tuple[LlvmQueues, Spread]:
    text, block = LlvmQueues(places, target), part.spread
    assert block is not None
    text.enter(part.program, text.allocate(part.program))
    for register in _REGISTERS:
        text.put(f"%{register} = call i32 @{_THREAD}.{register}.x()")
    text.put(f"%pitch = mul i32 %stride, {text.size}")
    return text, block


def _spread_head(arrays: Sequence[str]) -> list[str]:
    registers = [f"declare i32 @{_THREAD}.{register}.x()" for register in _REGISTERS]
    return ['target triple = "nvptx64-nvidia-cuda"', *arrays, *DECLARATIONS, *registers]


def _entry_of(text: LlvmBlocks) -> str:
    """The head of a kernel whose threads have memory in common."""
    arguments = [f"{text.pointer} %{name}" for name in (*POINTERS, "memory")]
    arguments += [f"i32 %{name}" for name in NUMBERS[:4]]
    return f'define ptx_kernel void @{ENTRY}({", ".join(arguments)}) "no-jump-tables"="true" {{'


def team_tables(part: Part, target: Target, size: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """Its tables, and behind them what is copied before and after."""
    ints, floats = in_bytes(part.program, target.bytes).tables()
    copied = padded_fours(part.given, size) + padded(part.into, size) + padded(part.back, size)
    spare = [0] * WARP  # threads without a row read whatever comes behind
    return np.concatenate([ints, np.array([*copied, *spare], np.int32)]), floats


def _own_environment(text: LlvmBlocks) -> None:
    """The environment of a thread, which leaves if there is none."""
    text.put("%first = mul i32 %ctaid, %ntid")
    text.put("%e = add i32 %first, %tid")
    text.put("%there = icmp slt i32 %e, %n_envs")
    text.put("br i1 %there, label %begin, label %leave")
    text.open("leave")
    text.put("ret void")
    text.open("begin")


def _shared_environment(text: LlvmBlocks) -> None:
    """The environment and the role of a thread, and where it gives values to the others."""
    text.put(f"%role = udiv i32 %tid, {WARP}")
    text.put(f"%lane = urem i32 %tid, {WARP}")
    text.put(f"%first = mul i32 %ctaid, {WARP}")
    text.put("%e = add i32 %first, %lane")
    text.put(f"%exchange_e = getelementptr {text.n}, ptr addrspace(3) @exchange, i32 %lane")


def _gpu_head(text: LlvmBlocks, roles: Sequence[Program]) -> list[str]:
    # what one role writes another one reads: none may take the state for its own
    shared = {"state"} if len(roles) > 1 else set()
    arguments = [f"{text.pointer} {'' if name in shared else 'noalias '}%{name}" for name in POINTERS]
    arguments += [f"i32 %{name}" for name in NUMBERS[:4]]
    room = f"[{max(n_exchanged(tuple(roles)), 1) * WARP} x {text.n}]"
    return [
        'target triple = "nvptx64-nvidia-cuda"',
        *([f"@exchange = internal addrspace(3) global {room} poison, align 16"] if shared else []),
        f"declare void @{_MEETING}()",
        *(f"declare i32 @{_THREAD}.{register}.x()" for register in _REGISTERS),
        f'define ptx_kernel void @{ENTRY}({", ".join(arguments)}) "no-jump-tables"="true" {{',
    ]


def _module(text: LlvmBlocks, head: Sequence[str]) -> str:
    *above, function = head
    return "\n".join([*above, *text.declarations(), function, "entry:", *text.lines, "  ret void", "}"]) + "\n"


def _runs(text: LlvmBlocks, arenas: Sequence[str], runs_per_step: int, body: Callable[[], None]) -> None:
    """All runs of all steps, for the environment `%e` or those that start there."""
    text.put(f"%pitch = mul {text.i} %stride, {text.size}")
    for arena in arenas:
        text.put(f"%{arena}_e = getelementptr {text.n}, {text.pointer} %{arena}, {text.i} %e")
    text.put(f"%told_0 = getelementptr {text.n}, {text.pointer} %told_start, {text.i} %e")
    total = text.set(f"mul {text.i} %steps, {runs_per_step}")
    runs, run = text.begin("0", total)
    step = run if runs_per_step == 1 else text.set(f"udiv {text.i} {run}, {runs_per_step}")
    told = text.below("%told_0", text.set(f"mul {text.i} {step}, %advance"))
    text.put(f"%told_e = getelementptr i8, {text.pointer} {told}, i64 0")
    body()
    text.end(runs)


def _all_roles(text: LlvmBlocks, roles: Sequence[Program], local_arrays: Sequence[dict[str, str]]) -> None:
    """Each warp of a block has one role for the same 32 environments; they meet twice in a run.

    The first meeting is for the exchange, the second so that none reads a state that another has yet to write.
    """
    if len(roles) == 1:
        text.enter(roles[0], local_arrays[0])
        text.blocks(roles[0].blocks)
        return
    labels, done = [text.fresh("role") for _ in roles], text.fresh("done")
    cases = " ".join(f"i32 {i}, label %{label}" for i, label in enumerate(labels))
    text.put(f"switch i32 %role, label %{done} [ {cases} ]")
    for role, label, own in zip(roles, labels, local_arrays, strict=True):
        text.open(label)
        text.enter(role, own)
        for block in role.blocks:
            text.blocks((block,))
            text.put(f"call void @{_MEETING}()")
        text.put(f"br label %{done}")
    text.open(done)


def _present(text: LlvmBlocks) -> str:
    """The mask of lanes that are environments: the last vector may be wider than there are any left."""
    n = text.target.lanes
    first = text.set(f"insertelement <{n} x i64> poison, i64 %e, i64 0")
    every = text.set(f"shufflevector <{n} x i64> {first}, <{n} x i64> poison, <{n} x i32> zeroinitializer")
    own = text.set(f"add <{n} x i64> {every}, <{', '.join(f'i64 {i}' for i in range(n))}>")
    most = text.set(f"insertelement <{n} x i64> poison, i64 %n_envs, i64 0")
    end = text.set(f"shufflevector <{n} x i64> {most}, <{n} x i64> poison, <{n} x i32> zeroinitializer")
    return text.set(f"icmp slt <{n} x i64> {own}, {end}")


def _depends(block: Block) -> bool:
    """Whether what a block does for how long, or where, depends on the numbers of an environment."""
    if isinstance(block, Line):
        return any(slot.index is not None for slot in block.slots())
    own = isinstance(block, Repeat | If) or (isinstance(block, Count) and not block.uniform)
    nested = isinstance(block, Loop) or own
    return own or (nested and any(_depends(x) for body in inner(block) for x in body))
