"""Programs, compiled for a device and launched."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np

from kinema.foundation import no_collecting
from kinema.trace import (
    N_ENTRY,
    N_HEAD,
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
    n_ordered,
    optimise,
    roles_of_scratch,
    split,
    team_tables,
)

from .arrays import Arena
from .devices import Device, numpy_type
from .gpu_code import BLOCKS, WARP, GpuFunction
from .graphs import repeated, side_by_side
from .host_code import compile_host
from .pieces import BLOCK_DIM, Arguments, Lists, Piece, Roles, Share
from .processor import has_fused_multiply_add, is_x86, n_threads
from .spreading import ask_for_the_same, by_lists, n_emptied, shared_by_all, spread_pieces
from .team_room import SHARED_BYTES, room_of_team

WORK_PER_THREAD = 200_000
"""Operations below which a second thread costs more than it brings."""
MOST_VALUES = 120
"""That fit into half the registers."""


class Kernel:
    """A program, compiled for a device: with its tables, and memory to work in.

    Vectors of environments, and several threads to one, are matters of how it is compiled, not of the program.
    """

    @no_collecting()
    def __init__(
        self,
        program: Program,
        places: Mapping[str, Place],
        device: Device,
        precision: str,
        *,
        lanes: int | None = None,
        roles: Roles | None = None,
        runs_per_step: int = 1,
        n_envs: int | None = None,
    ) -> None:
        """`n_envs` is about how many environments it will run for; None for any number."""
        self.device = device
        self.lanes = lanes or device.lanes(precision, n_envs)
        self.n_scratch = program.n_scratch
        self._precision = precision
        self._scratch: dict[object, Any] = {}
        self._earlier: list[Any] = []
        """Narrower memory that earlier launches work in."""
        self._runs_per_step = runs_per_step
        self.roles = 1
        if device.is_cpu:
            program = optimise(program)
            self.n_operations = program.n_operations
            self._ints, self._floats = self._tables(program.tables())
            target = Target(precision, self.lanes, fused=has_fused_multiply_add(), flushes=is_x86())
            modules = emit_llvm(program, places, target, runs_per_step)
            self.source = "\n".join(modules)
            self._code: Any = compile_host(*modules)
            return
        parts = cut(program, WARP) if program.has_team else [Part(program)]
        if all(part.spread is None for part in parts):  # nobody finds out then how much there is to do
            parts = [replace(part, weights=()) for part in parts]
        self.n_scratch = max((part.program.n_scratch for part in parts if not part.is_team), default=0)
        self._n_given, self._n_kinds = max(part.given.end for part in parts), n_emptied(parts)
        with ThreadPoolExecutor() as pool:
            shared = roles if roles is None or len(parts) == 1 else _with_scratch(roles, parts)
            plain = self._plain(shared, n_envs or 1, whole=len(parts) == 1)
            waiting: list[Future[Piece]] = []
            for number, part in enumerate(parts):
                if part.spread is not None:
                    own = replace(part, program=optimise(part.program))
                    tables = self._tables(own.program.tables())
                    emission = own, places, self._gpu_target()
                    waiting += [
                        pool.submit(make) for make in spread_pieces(number, emission, self.device, tables, n_envs or 1)
                    ]
                else:
                    waiting.append(pool.submit(self._team if part.is_team else plain, part, places))
            self._pieces = [future.result() for future in waiting]
        ask_for_the_same(self._pieces)
        self.roles = self._pieces[0].roles
        self.source = "\n".join(piece.source for piece in self._pieces)
        self.n_operations = sum(piece.n_operations for piece in self._pieces)

    def bytes_per_env(self, n_envs: int) -> int:
        """What a run works in, for each of so many: on a CPU nothing, as each core works for a few at a time."""
        if self.device.is_cpu:
            return 0
        teams = sum(piece.n_memory * piece.n_teams(n_envs) for piece in self._pieces)
        teams += sum(n_ordered(n_envs) for piece in self._pieces if piece.order is not None)
        numbers = self.n_scratch + -(-teams // n_envs)
        listed = {piece.lists.part: piece.lists.n_rows for piece in self._pieces if piece.lists is not None}
        return numbers * numpy_type(self._precision)().itemsize + 4 * N_ENTRY * sum(listed.values())

    def _tables(self, tables: tuple[np.ndarray, np.ndarray]) -> tuple[Any, Any]:
        """Integers and numbers, there."""
        ints, floats = tables
        with np.errstate(over="ignore"):  # beyond the largest number is infinite
            return self.device.array(ints), self.device.array(floats.astype(numpy_type(self._precision)))

    def _plain(self, roles: Roles | None, n_envs: int, *, whole: bool) -> Callable[[Part, Mapping[str, Place]], Piece]:
        """How what a thread does by itself is compiled for a GPU; all steps in one launch, if it is the `whole`."""

        def make(part: Part, places: Mapping[str, Place]) -> Piece:
            programs = self._parts(part.program, roles)
            target = self._gpu_target()
            source = emit_gpu(programs, places, target, self._runs_per_step if whole else 1)
            block_dim = BLOCK_DIM if len(programs) == 1 else WARP * len(programs)
            code = GpuFunction(source, self.device, block_dim, self._n_blocks(programs, n_envs))
            tables = self._tables(part.program.tables())
            operations = sum(program.n_operations for program in programs)
            count = len(programs)
            return Piece(code, source, tables, operations, block_dim // count, count, beside=part.beside)

        return make

    def _team(self, part: Part, places: Mapping[str, Place]) -> Piece:
        """What a team does."""
        target = self._gpu_target()
        found = room_of_team(replace(part, program=optimise(part.program)), target.bytes)
        own, room = found.part, found.room
        source = emit_team(own, places, target, room, ordered=bool(own.weights))
        code = GpuFunction(source, self.device, WARP * room.teams, found.at_a_time)
        order = GpuFunction(emit_order(own, target, self._n_kinds), self.device, BLOCK_DIM) if own.weights else None
        tables = self._tables(team_tables(own, target, WARP))
        n_memory, operations = max(room.n_memory, 1), own.program.n_operations
        return Piece(code, source, tables, operations, room.teams, 1, n_memory, code.n_resident, order=order)

    def _gpu_target(self) -> Target:
        return Target(self._precision, gpu=True, n_scratch=self.n_scratch, n_given=self._n_given)

    def _parts(self, program: Program, roles: Roles | None) -> tuple[Program, ...]:
        """The program, or one for each role where it is a line that can be shared."""
        if roles is not None and roles.count > 1 and program.is_straight:
            divided = split(program.line, roles.of, roles.count)
            if n_exchanged(divided) * WARP * np.dtype(numpy_type(self._precision)).itemsize <= SHARED_BYTES:
                return divided
        return (optimise(program),)

    def _n_blocks(self, programs: tuple[Program, ...], n_envs: int) -> int | None:
        """How many blocks a multiprocessor of a GPU has to have room for; None leaves that to the assembler.

        Where there are so many environments that they would wait for each other, and a line with few values at a time,
        twice as many with half the registers each are a fifth faster; with fewer environments they are slower.
        """
        found = (line.max_live() for program in programs for line in lines(program.blocks))
        few_values = max(found, default=0) < MOST_VALUES
        crowded = n_envs * len(programs) > BLOCKS * BLOCK_DIM * self.device.n_multiprocessors
        return 2 * BLOCKS if crowded and few_values and self._precision == "single" else None

    def record(self, arguments: Arguments) -> Callable[[], None]:
        """A launch that can be repeated without looking at its arguments again; on a CPU it is done when it returns."""
        return self._on_host(arguments) if self.device.is_cpu else self._on_gpu(arguments)

    def _on_host(self, arguments: Arguments) -> Callable[[], None]:
        shares = self._shares(arguments)
        return shares[0] if len(shares) == 1 else lambda: _in_threads(shares)

    def in_turn(self, turns: Sequence[Arguments], seen: Callable[[int, slice], None]) -> Callable[[], None]:
        """Launches on a CPU, one after the other, as one: no thread waits for others between them.

        Args:
            turns: what each is launched with: arrays of the same environments.
            seen: called after each with its number and environments, by the thread that has these.
        """
        rows = list(zip(*(self._shares(arguments, len(turns)) for arguments in turns), strict=True))

        def run(own: Sequence[Share]) -> None:
            for turn, share in enumerate(own):
                share()
                seen(turn, share.envs)

        return lambda: _in_threads([partial(run, own) for own in rows])

    def _shares(self, arguments: Arguments, turns: int = 1) -> list[Share]:
        """What each thread does of a launch, of which there are several."""
        n_envs = arguments.state.n_envs
        vectors = -(-n_envs // self.lanes)
        work = vectors * self.lanes * self.n_operations * arguments.steps * turns
        shards = max(1, min(arguments.threads or n_threads(), work // WORK_PER_THREAD, vectors))
        bounds = [vectors * i // shards for i in range(shards + 1)]
        arrays = [arguments.state.data, arguments.told, arguments.out.data, arguments.uniform.data]
        steps = (arguments.state.stride, arguments.steps, arguments.advance, n_envs)
        shares = []
        for shard, (first, last) in enumerate(pairwise(bounds)):
            # a thread runs one vector of environments after the other, in memory that stays in its cache
            own = [*arrays, self._memory(shard, self.lanes), self._ints, self._floats]
            run = partial(self._code, *(a.ctypes.data for a in own), *steps, first, last)
            shares.append(Share(run, slice(first * self.lanes, min(last * self.lanes, n_envs)), tuple(own)))
        return shares

    def _on_gpu(self, arguments: Arguments) -> Callable[[], None]:
        if len(self._pieces) == 1 and not self._pieces[0].n_memory:
            return self._launch(self._pieces[0], arguments, arguments.told, arguments.steps)
        launches = []
        for step in range(arguments.steps if arguments.advance else 1):
            told = arguments.told
            if arguments.advance:
                told = told[step * arguments.advance : (step + 1) * arguments.advance]
            launches += self._in_order(arguments, told) * self._runs_per_step
        return repeated(self.device, launches, 1 if arguments.advance else arguments.steps)

    def _in_order(self, arguments: Arguments, told: Any) -> list[Callable[[], None]]:
        """Launches one after the other; what has nothing to do with each other goes side by side."""
        found: list[Callable[[], None]] = []
        for pieces in by_lists(self._pieces):
            launches = [self._launch(piece, arguments, told, 1) for piece in pieces]
            if pieces[0].lists is None:
                found += launches
            else:
                found.append(shared_by_all(self.device, pieces, launches, self._order(arguments)))
        # nobody waits for lists to be emptied, unless they are what comes first
        empty, is_list = self._emptied(arguments.state.stride), self._pieces[0].lists is not None
        return [*empty, *found] if is_list or not empty else [side_by_side(self.device, [found[0], *empty]), *found[1:]]

    def _emptied(self, stride: int) -> list[Callable[[], None]]:
        """The lists of all parts have nothing in them, unless what puts environments in order does that."""
        if self._n_kinds:
            return []
        parts = {piece.lists.part: piece.lists for piece in self._pieces if piece.lists is not None}
        return [self._lists(own, stride)[: own.n_kinds].zero_ for own in parts.values() if own.n_rows]

    def _order(self, arguments: Arguments) -> list[Callable[[], None]]:
        """What puts environments in order for teams, once all contacts are found."""
        state, teams = arguments.state, [piece for piece in self._pieces if piece.order is not None]
        told = (state.stride, 1, 0, state.n_envs)
        own = next((piece.lists for piece in self._pieces if piece.lists is not None), None)
        emptied = self._lists(own, state.stride) if own is not None and self._n_kinds else arguments.told
        found = []
        for piece in teams:
            assert piece.order is not None
            arrays = [state.data, emptied, arguments.out.data, arguments.uniform.data]
            arrays += [self._memory(0, state.stride), *piece.tables, self._memory_of_teams(piece, state)]
            found.append(piece.order.record(-(-state.n_envs // BLOCK_DIM), arrays, told))
        return found

    def _launch(self, piece: Piece, arguments: Arguments, told: Any, steps: int) -> Callable[[], None]:
        """A launch of one piece."""
        state = arguments.state
        arrays = [state.data, told, arguments.out.data, arguments.uniform.data]
        arrays += [self._memory(0, state.stride), *piece.tables]
        n_blocks = -(-state.n_envs // piece.envs_per_block)
        if piece.n_memory:
            steps = piece.n_teams(state.n_envs)
            n_blocks = steps // piece.envs_per_block
            arrays.append(self._memory_of_teams(piece, state))
        if piece.lists is None:
            return piece.code.record(n_blocks, arrays, (state.stride, steps, arguments.advance, state.n_envs))
        found = self._lists(piece.lists, state.stride)
        n_blocks = piece.lists.blocks or piece.lists.shares * n_blocks
        return piece.code.record(n_blocks, [*arrays, found], (state.stride, n_blocks, arguments.advance, state.n_envs))

    def _lists(self, lists: Lists, stride: int) -> Any:
        """The lists of a part, with room for all rows of all environments."""
        key, count = ("lists", lists.part), lists.n_kinds + N_ENTRY * lists.n_rows * stride
        if key not in self._scratch or len(self._scratch[key]) < count:
            self._earlier += [self._scratch[key]] if key in self._scratch else []
            # integers, of which there are as many to a number of single precision
            self._scratch[key] = self.device.zeros((count,), "single", f"{stride} environments, to work in")
        return self._scratch[key]

    def _memory_of_teams(self, piece: Piece, state: Arena) -> Any:
        """What the teams of a piece work in: behind what counts and orders environments, each in a row of its own."""
        count = piece.n_teams(state.n_envs)
        numbers = N_HEAD + (n_ordered(state.stride) if piece.order else 0) + count * piece.n_memory
        if piece not in self._scratch or len(self._scratch[piece]) < numbers:
            self._earlier += [self._scratch[piece]] if piece in self._scratch else []
            self._scratch[piece] = self.device.zeros((numbers,), self._precision, f"{count} teams, to work in")
        return self._scratch[piece]

    def _memory(self, shard: int, stride: int) -> Any:
        """What a thread works in on a CPU, or all threads on a GPU."""
        stride = stride if self.n_scratch else self.lanes
        if shard not in self._scratch or self._scratch[shard].shape[1] < stride:
            self._earlier += [self._scratch[shard]] if shard in self._scratch else []
            shape = (max(self.n_scratch, 1), stride)
            self._scratch[shard] = self.device.zeros(shape, self._precision, f"{stride} environments, to work in")
        return self._scratch[shard]


def _with_scratch(roles: Roles, parts: Sequence[Part]) -> Roles:
    """The roles with those of the scratch memory, by which parts speak to each other."""
    known: dict[int, int | None] = {}

    def of(slot: Slot) -> int | None:
        return known.get(slot.item) if slot.array == SCRATCH else roles.of(slot)

    for part in parts:
        for block in () if part.is_team else part.program.blocks:
            if isinstance(block, Line):
                known.update(roles_of_scratch(block, of))
    return replace(roles, of=of)


def _in_threads(work: Sequence[Callable[[], object]]) -> None:
    """The first here, the others in threads of their own; until all is done."""
    waiting = [_pool().submit(one) for one in work[1:]]
    work[0]()
    for future in waiting:
        future.result()


def _after_fork() -> None:
    """Threads do not survive a fork."""
    _pool.cache_clear()


@cache
def _pool() -> ThreadPoolExecutor:
    """The threads of all launches: as many as there are cores, whoever asks."""
    return ThreadPoolExecutor(n_threads(), thread_name_prefix="kinema")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
