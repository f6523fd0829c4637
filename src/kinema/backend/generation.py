"""From a traced program to machine code: optimised, divided into launches, emitted and compiled."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from kinema.foundation import no_collecting, stage
from kinema.trace import (
    SCRATCH,
    Line,
    Part,
    Place,
    Program,
    Slot,
    Target,
    cut,
    emit_gpu,
    emit_llvm,
    emit_order,
    emit_team,
    lines,
    n_exchanged,
    optimise,
    optimise_line,
    roles_of_scratch,
    split,
    team_tables,
)

from .compilers import FOREGROUND, Level, compile_ahead, compiling_ahead, forget_ahead, module_digest
from .cubins import assemble_ahead, first_level, start_assemblers
from .devices import numpy_type
from .dump import dump_folder, dump_modules, dump_program
from .gpu_code import BLOCKS, WARP, named, ptx
from .host_code import Tiers, host_code, tiers
from .images import CompileOptions, GpuImage, GpuModule, HostExecutable, Source, Tables
from .pieces import BLOCK_DIM, Lists, Roles
from .processor import has_fused_multiply_add, is_x86, n_threads
from .spread_code import n_emptied, spread_pieces
from .team_room import SHARED_BYTES, room_of_team

MOST_VALUES = 120
"""That fit into half the registers."""


@no_collecting()
def compile_for_host(
    source: Source, places: Mapping[str, Place], options: CompileOptions, *, wait: bool
) -> tuple[HostExecutable, list[str], Sequence[str]]:
    """Trace a program and compile it for the CPU; with the digests of its modules, and their texts."""
    FOREGROUND.start(min(2, n_threads()))  # while the program is traced
    with stage("trace"):
        program = source.trace()
    n_instructions = program.n_instructions
    timed_on = platform.machine() if options.timed else ""
    with stage("emit"), compiling_ahead():
        ints, floats = _tables(program.tables(), options.precision)
        target = Target(options.precision, options.lanes, fused=has_fused_multiply_add(), flushes=is_x86())
        level = Level.OPTIMISED if wait or tiers() is Tiers.OPTIMISED else Level.BASELINE
        texts = emit_llvm(
            program,
            places,
            target,
            options.runs_per_step,
            improve=optimise_line,
            timed_on=timed_on,
            on_module=lambda text: compile_ahead(text, level),
        )
        digests = [module_digest(text) for text in texts]
    if dump_folder() is not None:
        dump_program(source.name, digests[0], str(optimise(program)))
        dump_modules(source.name, digests[0], texts)
    code = host_code(digests, source.name, lambda: texts)
    code.load(wait=wait)
    forget_ahead(digests)
    made = HostExecutable(code, ints, floats, program.n_scratch, program.n_operations, n_instructions)
    return made, digests, texts


class GpuCompiler:
    """From a program to the kernels of a GPU."""

    def __init__(
        self, places: Mapping[str, Place], options: CompileOptions, roles: Roles | None, *, wait: bool
    ) -> None:
        """With `wait`, kernels are optimised from the start."""
        self._wait = wait
        self._places = places
        self._options = options
        self._roles = roles
        self._n_envs = options.n_envs or 1
        self._tables: list[Tables] = []
        self._name = ""

    @no_collecting()
    def compile(self, source: Source) -> GpuImage:
        """Trace a program, divide it into launches and compile each of them."""
        FOREGROUND.start(min(4, n_threads()))
        start_assemblers(self._options.device, 4)
        program = source.trace()
        self._name = source.name
        parts = cut(program, WARP) if program.has_team else [Part(program)]
        if all(part.spread is None for part in parts):  # nobody finds out then how much there is to do
            parts = [replace(part, weights=()) for part in parts]
        n_scratch = max((part.program.n_scratch for part in parts if not part.is_team), default=0)
        self._n_kinds = n_emptied(parts)
        n_given = max(part.given.end for part in parts)
        self._target = Target(self._options.precision, gpu=True, n_scratch=n_scratch, n_given=n_given)
        self._is_whole = len(parts) == 1
        roles = self._roles
        self._shared = roles if roles is None or self._is_whole else _with_scratch(roles, parts)
        made: list[list[Callable[[], GpuModule]]] = [[] for _ in parts]
        # the longest first: it takes longest to assemble, which starts as soon as its PTX is there
        order = sorted(range(len(parts)), key=lambda number: -parts[number].program.n_instructions)
        with ThreadPoolExecutor() as self._pool, compiling_ahead():  # an interrupt ends what threads wait for
            for number in order:
                part = parts[number]
                if part.spread is not None:
                    own = replace(part, program=optimise(part.program))
                    about = own, self._places, self._target
                    pieces = spread_pieces(number, about, self._options.device, self._n_envs)
                    table = self._table(own.program.tables())
                    made[number] = [self._spread(table, *piece) for piece in pieces]
                else:
                    made[number] = [self._team(part) if part.is_team else self._line(part)]
            modules = [finish() for own in made for finish in own]
        return GpuImage(modules, self._tables, n_scratch, self._n_kinds, program.n_instructions)

    def _table(self, tables: tuple[np.ndarray, np.ndarray]) -> int:
        self._tables.append(_tables(tables, self._options.precision))
        return len(self._tables) - 1

    def _ptx(self, text: str, block_dim: int, n_blocks: int | None, role: str) -> Future[bytes]:
        """Start to compile a module to PTX, and then to assemble that, while others are emitted."""

        def run() -> bytes:
            found = ptx(text, block_dim, n_blocks)
            code = named(found, f"{self._name}_{role}")
            assemble_ahead(code, self._options.device, first_level(code, wait=self._wait))
            if dump_folder() is not None:
                dump_modules(f"{self._name}_{role}", module_digest(text), [text], found)
            return found

        return self._pool.submit(run)

    def _spread(
        self, table: int, role: str, lists: Lists, n_operations: int, emit: Callable[[], str]
    ) -> Callable[[], GpuModule]:
        """Emit what all threads share; the module is there once its PTX is."""
        code = self._ptx(emit(), BLOCK_DIM, None, role)
        return lambda: GpuModule(code.result(), BLOCK_DIM, table, n_operations, BLOCK_DIM, lists=lists, role=role)

    def _line(self, part: Part) -> Callable[[], GpuModule]:
        """Emit the kernel of a straight line: a thread per environment or role; one launch if that is all."""
        programs = self._divided(part.program)
        runs = self._options.runs_per_step if self._is_whole else 1
        source = emit_gpu(programs, self._places, self._target, runs)
        count = len(programs)
        block_dim = BLOCK_DIM if count == 1 else WARP * count
        options = self._options
        n_blocks = least_blocks(programs, self._n_envs, options.device.n_multiprocessors, options.precision)
        code = self._ptx(source, block_dim, n_blocks, "line")
        table = self._table(part.program.tables())
        sizes = table, sum(program.n_operations for program in programs), block_dim // count, count
        return lambda: GpuModule(code.result(), block_dim, *sizes, beside=part.beside, role="line")

    def _team(self, part: Part) -> Callable[[], GpuModule]:
        """Emit the kernel in which a warp works on one environment, and the one that orders environments for it."""
        target = self._target
        found = room_of_team(replace(part, program=optimise(part.program)), target.bytes)
        own, room = found.part, found.room
        source = emit_team(own, self._places, target, room, ordered=bool(own.weights))
        code = self._ptx(source, WARP * room.teams, found.at_a_time, "team")
        order = None
        if own.weights:
            order = self._ptx(emit_order(own, target, self._n_kinds), BLOCK_DIM, None, "team_order")
        table = self._table(team_tables(own, target, WARP))
        sizes = table, own.program.n_operations, room.teams, 1, max(room.n_memory, 1)

        def finish() -> GpuModule:
            ordering = None if order is None else order.result()
            return GpuModule(code.result(), WARP * room.teams, *sizes, order=ordering, role="team")

        return finish

    def _divided(self, program: Program) -> tuple[Program, ...]:
        """The program, or one for each role where it is a line that can be shared."""
        roles = self._shared
        if roles is not None and roles.count > 1 and program.is_straight:
            divided = split(program.line, roles.of, roles.count)
            if n_exchanged(divided) * WARP * np.dtype(numpy_type(self._options.precision)).itemsize <= SHARED_BYTES:
                return divided
        return (optimise(program),)


def least_blocks(programs: tuple[Program, ...], n_envs: int, n_multiprocessors: int, precision: str) -> int | None:
    """How many blocks a multiprocessor of a GPU has to have room for; None leaves that to the assembler.

    Where there are so many environments that they would wait for each other, and a line with few values at a time,
    twice as many with half the registers each are a fifth faster; with fewer environments they are slower.
    """
    found = (line.max_live() for program in programs for line in lines(program.blocks))
    few_values = max(found, default=0) < MOST_VALUES
    crowded = n_envs * len(programs) > BLOCKS * BLOCK_DIM * n_multiprocessors
    return 2 * BLOCKS if crowded and few_values and precision == "single" else None


def _with_scratch(roles: Roles, parts: list[Part]) -> Roles:
    """The roles with those of the scratch memory, by which parts speak to each other."""
    known: dict[int, int | None] = {}

    def of(slot: Slot) -> int | None:
        return known.get(slot.item) if slot.array == SCRATCH else roles.of(slot)

    for part in parts:
        for block in () if part.is_team else part.program.blocks:
            if isinstance(block, Line):
                known.update(roles_of_scratch(block, of))
    return replace(roles, of=of)


def _tables(tables: tuple[np.ndarray, np.ndarray], precision: str) -> Tables:
    ints, floats = tables
    with np.errstate(over="ignore"):  # beyond the largest number is infinite
        return np.ascontiguousarray(ints), np.ascontiguousarray(floats.astype(numpy_type(precision)))
