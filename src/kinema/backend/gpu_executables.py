"""Programs compiled for a GPU: their kernels and how these are launched; cached on disk as those for a CPU are."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from kinema.foundation import load_entry, no_collecting, stage, store_entry
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
    emit_order,
    emit_team,
    lines,
    n_exchanged,
    optimise,
    roles_of_scratch,
    split,
    team_tables,
)

from .compilers import FOREGROUND, module_digest
from .devices import Device, numpy_type
from .dump import dump_folder, dump_modules
from .executables import CompileOptions, Source, Tables, in_precision, program_key
from .gpu_code import BLOCKS, WARP, GpuFunction, ptx
from .pieces import BLOCK_DIM, Lists, Piece, Roles
from .processor import n_threads
from .spreading import ask_for_the_same, n_emptied, spread_pieces
from .team_room import SHARED_BYTES, room_of_team

MOST_VALUES = 120
"""That fit into half the registers."""


@dataclass(frozen=True, slots=True, eq=False)
class GpuModule:
    """A kernel of a GPU before it is loaded, and how it is launched: what a `Piece` is made from."""

    ptx: bytes
    block_dim: int
    table: int
    """Which of the tables of the executable it has."""
    n_operations: int
    envs_per_block: int
    roles: int = 1
    n_memory: int = 0
    lists: Lists | None = None
    beside: bool = False
    order: bytes | None = None
    """PTX of what puts environments in the order in which teams take them."""
    role: str = ""
    """What it does, for profilers."""


@dataclass(frozen=True, slots=True, eq=False)
class GpuImage:
    """All kernels of a program before they are loaded."""

    modules: list[GpuModule]
    tables: list[Tables]
    n_scratch: int
    n_kinds: int
    """Lists that the kernel which orders environments empties."""
    n_instructions: int

    def values(self) -> dict[str, Any]:
        """As an entry of the cache."""
        values: dict[str, Any] = {word: getattr(self, word) for word in ("n_scratch", "n_kinds", "n_instructions")}
        values["modules"] = about = []
        for i, module in enumerate(self.modules):
            lists = None if module.lists is None else asdict(module.lists)
            words = ("block_dim", "table", "n_operations", "envs_per_block", "roles", "n_memory", "beside", "role")
            about.append({word: getattr(module, word) for word in words} | {"lists": lists})
            values[f"ptx {i}"] = module.ptx
            if module.order is not None:
                values[f"order {i}"] = module.order
        for i, (ints, floats) in enumerate(self.tables):
            values |= {f"ints {i}": ints, f"floats {i}": floats}
        values["n_tables"] = len(self.tables)
        return values

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> GpuImage:
        """From an entry of the cache."""
        modules = []
        for i, about in enumerate(values["modules"]):
            lists = None if about["lists"] is None else Lists(**about.pop("lists"))
            about = {word: x for word, x in about.items() if word != "lists"}
            modules.append(GpuModule(values[f"ptx {i}"], lists=lists, order=values.get(f"order {i}"), **about))
        tables = [(values[f"ints {i}"], values[f"floats {i}"]) for i in range(values["n_tables"])]
        return cls(modules, tables, *(values[word] for word in ("n_scratch", "n_kinds", "n_instructions")))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class GpuExecutable:
    """A program compiled for a GPU and loaded on it."""

    pieces: list[Piece]
    """Its launches, in order."""
    n_scratch: int
    n_kinds: int
    n_instructions: int

    @property
    def n_operations(self) -> int:
        """Floating-point operations of a run, roughly."""
        return sum(piece.n_operations for piece in self.pieces)


_gpu: weakref.WeakValueDictionary[tuple[str, str], GpuExecutable] = weakref.WeakValueDictionary()
_sharing = threading.Lock()


def gpu_executable(
    source: Source, places: Mapping[str, Place], options: CompileOptions, roles: Roles | None
) -> GpuExecutable:
    """A program for a GPU: one that is loaded already, from the cache, or compiled now."""
    key = program_key(source, options, None if roles is None else roles.count)
    with _sharing:
        found = None if key is None else _gpu.get((options.device.name, key))
    if found is not None:
        return found
    with stage("look up"):
        entry = None if key is None else load_entry("programs", key)
    with stage("compile"):
        image = GpuImage.of(entry) if entry is not None else _GpuCompiler(places, options, roles).compile(source)
    if entry is None and key is not None:
        store_entry("programs", key, image.values())
    with stage("load"):
        found = _loaded_gpu(image, source.name, options.device)
    if key is not None:
        with _sharing:
            found = _gpu.setdefault((options.device.name, key), found)
    return found


def _loaded_gpu(image: GpuImage, name: str, device: Device) -> GpuExecutable:
    tables = [(device.array(ints), device.array(floats)) for ints, floats in image.tables]

    def load(module: GpuModule) -> Piece:
        code = GpuFunction(module.ptx, device, module.block_dim, f"{name}_{module.role}")
        order = None
        if module.order is not None:
            order = GpuFunction(module.order, device, BLOCK_DIM, f"{name}_{module.role}_order")
        return Piece(
            code,
            module.role,
            tables[module.table],
            module.n_operations,
            module.envs_per_block,
            module.roles,
            module.n_memory,
            code.n_resident if module.n_memory else 0,
            module.lists,
            module.beside,
            order,
        )

    with ThreadPoolExecutor() as pool:
        pieces = list(pool.map(load, image.modules))
    ask_for_the_same(pieces)
    return GpuExecutable(pieces, image.n_scratch, image.n_kinds, image.n_instructions)


class _GpuCompiler:
    """From a program to the kernels of a GPU."""

    def __init__(self, places: Mapping[str, Place], options: CompileOptions, roles: Roles | None) -> None:
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
        with stage("trace"):
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
        with ThreadPoolExecutor() as pool:
            waiting: list[Future[GpuModule]] = []
            for number, part in enumerate(parts):
                if part.spread is not None:
                    own = replace(part, program=optimise(part.program))
                    made = spread_pieces(number, (own, self._places, self._target), self._options.device, self._n_envs)
                    table = self._table(own.program.tables())
                    waiting += [pool.submit(self._spread, table, *one) for one in made]
                else:
                    waiting.append(pool.submit(self._team if part.is_team else self._line, part))
            modules = [future.result() for future in waiting]
        return GpuImage(modules, self._tables, n_scratch, self._n_kinds, program.n_instructions)

    def _table(self, tables: tuple[np.ndarray, np.ndarray]) -> int:
        self._tables.append(in_precision(tables, self._options.precision))
        return len(self._tables) - 1

    def _ptx(self, text: str, block_dim: int, n_blocks: int | None, role: str) -> bytes:
        found = ptx(text, block_dim, n_blocks)
        if dump_folder() is not None:
            dump_modules(f"{self._name}_{role}", module_digest(text), [text], found)
        return found

    def _spread(self, table: int, role: str, lists: Lists, n_operations: int, emit: Callable[[], str]) -> GpuModule:
        """What all threads share."""
        code = self._ptx(emit(), BLOCK_DIM, None, role)
        return GpuModule(code, BLOCK_DIM, table, n_operations, BLOCK_DIM, lists=lists, role=role)

    def _line(self, part: Part) -> GpuModule:
        """What a thread does by itself; all steps in one launch, if it is the whole program."""
        programs = self._divided(part.program)
        runs = self._options.runs_per_step if self._is_whole else 1
        source = emit_gpu(programs, self._places, self._target, runs)
        count = len(programs)
        block_dim = BLOCK_DIM if count == 1 else WARP * count
        table = self._table(part.program.tables())
        operations = sum(program.n_operations for program in programs)
        options = self._options
        n_blocks = least_blocks(programs, self._n_envs, options.device.n_multiprocessors, options.precision)
        code = self._ptx(source, block_dim, n_blocks, "line")
        return GpuModule(code, block_dim, table, operations, block_dim // count, count, beside=part.beside, role="line")

    def _team(self, part: Part) -> GpuModule:
        """What a team does."""
        target = self._target
        found = room_of_team(replace(part, program=optimise(part.program)), target.bytes)
        own, room = found.part, found.room
        source = emit_team(own, self._places, target, room, ordered=bool(own.weights))
        code = self._ptx(source, WARP * room.teams, found.at_a_time, "team")
        order = self._ptx(emit_order(own, target, self._n_kinds), BLOCK_DIM, None, "order") if own.weights else None
        table = self._table(team_tables(own, target, WARP))
        n_memory, operations = max(room.n_memory, 1), own.program.n_operations
        return GpuModule(code, WARP * room.teams, table, operations, room.teams, 1, n_memory, order=order, role="team")

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
