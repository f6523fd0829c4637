"""Kernels: programs, compiled for a device and launched."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from kinema.trace import N_ENTRY, N_HEAD, Place, n_ordered

from .arrays import Arena
from .compilers import Level
from .devices import Device, numpy_type
from .executables import gpu_executable, host_executable
from .gpu_code import is_capturing
from .graphs import repeated, side_by_side
from .images import CompileOptions, Source
from .pieces import BLOCK_DIM, Arguments, Lists, Piece, Roles, Share
from .processor import n_threads
from .spreading import by_lists, shared_by_all

if TYPE_CHECKING:
    from kinema.trace import Program

WORK_PER_THREAD = 200_000
"""Operations below which a second thread costs more than it brings."""


class Kernel:
    """A program, compiled for a device: its executable, which equal kernels share, and memory to work in.

    Vectors of environments, and several threads to one, are matters of how it is compiled, not of the program.
    """

    def __init__(  # noqa: PLR0913  one for each choice there is
        self,
        program: Program | Source,
        places: Mapping[str, Place],
        device: Device,
        precision: str,
        *,
        lanes: int | None = None,
        roles: Roles | None = None,
        runs_per_step: int = 1,
        n_envs: int | None = None,
        wait: bool = False,
        timed: bool = False,
    ) -> None:
        """Compile a program, or take it from the cache.

        Args:
            program: what to run; a `Source` is traced only if the cache does not have its program.
            places: where arrays are in their arenas.
            device: what it runs on.
            precision: `single` or `double`.
            lanes: environments of a vector on a CPU; None for what suits the processor.
            roles: how several threads of a GPU share an environment.
            runs_per_step: how often the program is run for a step.
            n_envs: about how many environments it will run for; None for any number.
            wait: whether to wait for the optimised tier.
            timed: whether the arena `out` is the ticks that its blocks take (`kinema.trace.block_names`), on a CPU.
        """
        self._asked = time.perf_counter()
        self.device = device
        self.lanes = lanes or device.lanes(precision, n_envs)
        self._precision = precision
        self._scratch: dict[object, Any] = {}
        self._earlier: list[Any] = []
        """Narrower memory that earlier launches work in."""
        self._runs_per_step = runs_per_step
        self.roles = 1
        source = program if isinstance(program, Source) else Source(lambda: program)
        options = CompileOptions(device, precision, self.lanes, runs_per_step, n_envs, timed)
        if device.is_cpu:
            host = self._executable = host_executable(source, places, options, wait=wait)
            self._code, self._ints, self._floats = host.code, host.ints, host.floats
        else:
            gpu = self._executable = self._gpu = gpu_executable(source, places, options, roles, wait=wait)
            self._pieces, self._n_kinds = gpu.pieces, gpu.n_kinds
            self.roles = self._pieces[0].roles
        self.n_scratch = self._executable.n_scratch
        self.n_operations = self._executable.n_operations
        self.n_instructions = self._executable.n_instructions

    @property
    def tier(self) -> str:
        """Which code runs: `baseline`, until the background compilation is done, or `optimised`."""
        level = self._code.level if self.device.is_cpu else self._gpu.level
        return (Level.OPTIMISED if level is None else level).name.lower()

    @property
    def tier_seconds(self) -> dict[str, float]:
        """Seconds from when the kernel was asked for until each of its tiers was active; not those that are not yet."""
        since = self._code.active_since if self.device.is_cpu else {}
        return {level.name.lower(): max(at - self._asked, 0.0) for level, at in since.items()}

    def wait(self) -> None:
        """Until the optimised tier is active."""
        if self.device.is_cpu:
            self._code.load(wait=True)
        elif self._gpu.level is Level.BASELINE:
            self._gpu.optimised.wait()

    def bytes_per_env(self, n_envs: int) -> int:
        """What a run works in, for each of so many: on a CPU nothing, as each core works for a few at a time."""
        if self.device.is_cpu:
            return 0
        teams = sum(piece.n_memory * piece.n_teams(n_envs) for piece in self._pieces)
        teams += sum(n_ordered(n_envs) for piece in self._pieces if piece.order is not None)
        numbers = self.n_scratch + -(-teams // n_envs)
        listed = {piece.lists.part: piece.lists.n_rows for piece in self._pieces if piece.lists is not None}
        return numbers * numpy_type(self._precision)().itemsize + 4 * N_ENTRY * sum(listed.values())

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
            told = (*(a.ctypes.data for a in own), *steps, first, last)
            envs = slice(first * self.lanes, min(last * self.lanes, n_envs))
            shares.append(Share(self._code, told, envs, tuple(own)))
        return shares

    def _on_gpu(self, arguments: Arguments) -> Callable[[], None]:
        """A launch that begins with the tier that is active now, and goes on with the optimised one."""
        is_final = self._gpu.level is Level.OPTIMISED
        pieces = self._pieces = self._gpu.pieces
        launch = self._recorded(arguments)
        if is_final:
            return launch

        def run() -> None:
            nonlocal pieces, launch
            if pieces is not self._gpu.pieces and not is_capturing(self.device):
                pieces = self._pieces = self._gpu.pieces
                launch = self._recorded(arguments)
            launch()

        return run

    def _recorded(self, arguments: Arguments) -> Callable[[], None]:
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
