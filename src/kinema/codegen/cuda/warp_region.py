"""Emission of warp regions: a group of threads works on one environment, with level-scheduled for-each loops.

All threads of the group execute basic blocks and branches redundantly, with the same values, and share the iterations
of for-each loops, one iteration per thread and batch, and the iterations of parallel loops. Barriers follow each batch
and surround the stores of basic blocks. The scratch memory of the group is in shared memory; exchanged data is copied
from and to the scratch memory of the thread kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from math import gcd

from kinema.ir import (
    HALF_WORD_BITS,
    MAX_ACCESS_BYTES,
    ROW_GROUP,
    SCRATCH,
    THREAD_SCRATCH,
    VECTOR_WIDTH,
    WARP_GLOBAL,
    BasicBlock,
    CountedLoop,
    ForEachLoop,
    HandoffLayout,
    IntrinsicCall,
    LevelBatch,
    LoopSpecialization,
    MemoryLocation,
    Program,
    SharedMemoryStaging,
    Statements,
    fits_half_words,
    handoff_offset,
    map_bodies,
    pack_int_table,
)

from ..abi import N_BINS, WARP_MEMORY_HEADER
from ..memory import MAD_WIDE_ASM, READ_ONLY_ARENAS, WARP_SIZE, ValueNames
from .environment_binning import load_binned_env, reset_bins
from .warp import SHARED_POINTER, SHUFFLE_INDEX, WarpEmitter, WarpRegionConfig

# ------------------------------------------------------------------------------------------------------------- tables


def pad_copy_pairs(pairs: Sequence[tuple[int, int]], group_size: int) -> list[int]:
    """Table of (source offset, target offset) pairs to copy, in batches of one pair per thread of the group.

    Each batch holds all sources, then all targets. The last batch is padded with copies of the last pair.
    """
    padded = [*pairs, *[pairs[-1]] * (-len(pairs) % group_size)] if pairs else []
    return [
        x
        for i in range(0, len(padded), group_size)
        for side in (0, 1)
        for x in (pair[side] for pair in padded[i : i + group_size])
    ]


def pad_vector_targets(handoff: HandoffLayout, group_size: int) -> list[int]:
    """Table of hand-off vector targets, padded with copies of the last one to a multiple of `group_size`."""
    targets = list(handoff.vector_targets)
    return targets + targets[-1:] * (-len(targets) % group_size)


def scale_offsets_to_bytes(program: Program, scalar_bytes: int) -> Program:
    """Return a program with array offsets in its loop tables in bytes instead of scalars.

    Only for scratch and global memory of the thread group. A thread then adds an offset to an address without a
    multiplication.
    """

    def scale(statements: Statements) -> Statements:
        return tuple(
            map_bodies(scale_table(block) if isinstance(block, ForEachLoop) else block, scale) for block in statements
        )

    def scale_table(loop: ForEachLoop) -> ForEachLoop:
        ints, specialization_indices = loop.ints.copy(), loop.specialization_indices()
        for specialization_index, specialization in enumerate(loop.specializations):
            for arena, column in specialization.array_columns.values():
                if arena in (SCRATCH, WARP_GLOBAL):
                    ints[specialization_indices == specialization_index, column] *= scalar_bytes
        return replace(loop, ints=ints)

    return replace(program, body=scale(program.body))


# -------------------------------------------------------------------------------------------------------- level loops

MAX_VARIANT_RUNS = 8
"""Maximum number of runs of batches of one specialization for which each run gets code of its own."""
BATCHES_IN_FLIGHT = 8
"""Batches whose loads a thread issues before it waits for the first."""
MAX_BATCHED_INSTRUCTIONS = 12
"""Maximum number of instructions of an iteration for which several batches are emitted together."""


class LevelLoopEmitter(WarpEmitter):
    """Emits level-scheduled for-each loops: one loop iteration per thread, batch by batch."""

    constant_pointers: dict[int, str]
    """Pointers to the constants of the current iterations, by loop number (stored column by column)."""
    array_pointers: dict[tuple[int, int], str]
    """Pointers to the arrays of the current iterations, by (loop number, column)."""

    def _emit_for_each_loop(self, loop: ForEachLoop) -> None:
        """Emit a loop over loop iterations; with a level schedule, batch by batch with one iteration per thread.

        Consecutive batches of one specialization form a run. Up to `MAX_VARIANT_RUNS` runs get code of their own;
        otherwise a loop over all batches switches over the specializations. Per-thread accumulators are cleared before
        the loop and reduced after it.
        """
        if not loop.schedule:
            super()._emit_for_each_loop(loop)
            return
        loop_number, header = self.address_resolver.loop_number(loop), self.address_resolver.header_offset(loop)
        for accumulator, _ in loop.reductions:
            self.store(accumulator, self.constant(0.0), {})
        self.table_strides[loop_number] = len(loop.ints)
        starts = [self._load_int("ints", f"{header + i}") for i in (1, 2)]
        runs = [
            (specialization_index, list(batches))
            for specialization_index, batches in groupby(loop.schedule, key=lambda batch: batch.specialization_index)
        ]
        if len(runs) <= MAX_VARIANT_RUNS:
            for specialization_index, batches in runs:
                self._emit_specialization_run(loop, starts, batches, loop.specializations[specialization_index])
        else:
            self._emit_batch_loop(loop, starts, 0, len(loop.schedule), None)
        self._emit_reductions(loop.reductions)

    def _load_table_words(self, loop: ForEachLoop, ints_start: str, row: str) -> list[str]:
        """Emit loads of the packed integers of a loop iteration, from a table stored column by column; one per word."""
        index = self.assign(f"add i32 {ints_start}, {row}")
        pointer = self.assign(f"getelementptr i32, {self.arena_pointer_type} %ints, i32 {index}")
        count, stride = len(pack_int_table(loop)), len(loop.ints)
        pointers = [
            self.assign(f"getelementptr i32, {self.arena_pointer_type} {pointer}, i32 {i * stride}")
            for i in range(count)
        ]
        return [
            self.assign(f"load i32, {self.arena_pointer_type} {word_pointer}{self.invariant_load}")
            for word_pointer in pointers
        ]

    def _unpack_columns(self, loop: ForEachLoop, words: Sequence[str]) -> list[str]:
        """Emit the integer columns of an iteration from its packed words (two 16-bit columns per word, if packed)."""
        if not fits_half_words(loop):
            return list(words)
        halves = []
        for word in words:
            halves += [
                self.assign(f"and i32 {word}, {(1 << HALF_WORD_BITS) - 1}"),
                self.assign(f"lshr i32 {word}, {HALF_WORD_BITS}"),
            ]
        return halves

    def _emit_specialization_run(
        self,
        loop: ForEachLoop,
        table_starts: Sequence[str],
        batches: Sequence[LevelBatch],
        specialization: LoopSpecialization,
    ) -> None:
        """Emit consecutive batches of loop iterations with the same specialization, one iteration per thread.

        Batches of short code and one dependency level are interleaved, up to `BATCHES_IN_FLIGHT`, to hide memory
        latency; other batches run in a loop with a barrier after each.
        """
        first, count = batches[0].first_row, len(batches)
        (block, *others) = specialization.body
        is_short = isinstance(block, BasicBlock) and not others and len(block.instructions) <= MAX_BATCHED_INSTRUCTIONS
        if count == 1 or loop.predicated or not is_short or len({batch.level for batch in batches}) > 1:
            self._emit_batch_loop(loop, table_starts, first, count, specialization)
            return
        row = self.assign(f"add i32 {first}, %lane")
        if count >= BATCHES_IN_FLIGHT:
            entry_label, head = self.current_label, self.fresh_name("batches")
            self.emit(f"br label %{head}")
            self.start_block(head)
            phi_position = len(self.output_lines)
            self.emit("")
            self._emit_batches_at_once(loop, table_starts, f"%{head}.i", BATCHES_IN_FLIGHT, specialization)
            next_row = self.assign(f"add i32 %{head}.i, {BATCHES_IN_FLIGHT * self.config.group_size}")
            self.output_lines[phi_position] = (
                f"  %{head}.i = phi i32 [ {row}, %{entry_label} ], [ {next_row}, %{self.current_label} ]"
            )
            done = self.fresh_name("done")
            end_row = first + count // BATCHES_IN_FLIGHT * BATCHES_IN_FLIGHT * self.config.group_size
            continues = self.assign(f"icmp slt i32 {next_row}, {end_row}")
            self.emit(f"br i1 {continues}, label %{head}, label %{done}")
            self.start_block(done)
            row = next_row
        if count % BATCHES_IN_FLIGHT:
            self._emit_batches_at_once(loop, table_starts, row, count % BATCHES_IN_FLIGHT, specialization)
        self.emit_barrier()

    def _emit_batches_at_once(
        self,
        loop: ForEachLoop,
        table_starts: Sequence[str],
        first_row: str,
        n_batches: int,
        specialization: LoopSpecialization,
    ) -> None:
        """Emit several independent batches of loop iterations together: all loads and instructions, then all stores."""
        loop_number, (block,) = self.address_resolver.loop_number(loop), specialization.body
        assert isinstance(block, BasicBlock)
        rows = [
            first_row,
            *(self.assign(f"add i32 {first_row}, {i * self.config.group_size}") for i in range(1, n_batches)),
        ]
        words = [self._load_table_words(loop, table_starts[0], row) for row in rows]
        self.address_resolver.enter_iteration(loop_number, specialization)
        batches = []
        for row, row_words in zip(rows, words, strict=True):
            self._set_constant_pointer(loop, table_starts[1], row)
            self._set_columns(specialization, loop_number, self._unpack_columns(loop, row_words))
            batches.append((dict(self.column_values), dict(self.array_pointers), self.emit_instructions(block)))
        for columns, pointers, names in batches:
            self.column_values.update(columns)
            self.array_pointers.update(pointers)
            self.emit_stores(block.stores, names)
        self.address_resolver.leave_iteration()

    def _set_columns(self, specialization: LoopSpecialization, loop_number: int, columns: Sequence[str]) -> None:
        """Make the array offsets of an iteration current: column values and array pointers."""
        for arena, column in specialization.array_columns.values():
            self.column_values[loop_number, column] = columns[column]
            self._set_array_pointer(loop_number, column, arena)

    def _set_constant_pointer(self, loop: ForEachLoop, floats_start: str, row: str) -> None:
        if loop.floats.shape[1]:
            index = self.assign(f"add i32 {floats_start}, {row}")
            pointer = self.assign(f"getelementptr {self.scalar_type}, {self.arena_pointer_type} %floats, i32 {index}")
            self.constant_pointers[self.address_resolver.loop_number(loop)] = pointer

    def load_column(self, loop_number: int, column: int, arena: str, position: int) -> None:  # ty: ignore[lost-keyword-for-regular-parameter]
        """Emit the load of an array offset and the pointer to the first element of the array."""
        super().load_column(loop_number, column, arena, position)
        self._set_array_pointer(loop_number, column, arena)

    def _set_array_pointer(self, loop_number: int, column: int, arena: str) -> None:
        if arena in (SCRATCH, WARP_GLOBAL):
            pointer_type, base = self._arena_base(arena)
            address = f"getelementptr i8, {pointer_type} {base}, i32 {self.column_values[loop_number, column]}"
            self.array_pointers[loop_number, column] = self.assign(address)

    def _arena_base(self, arena: str) -> tuple[str, str]:
        return (self.shared_pointer_type, "%shared_e") if arena == SCRATCH else (self.arena_pointer_type, "%global_e")

    def _emit_batch_loop(
        self,
        loop: ForEachLoop,
        table_starts: Sequence[str],
        first_row: int,
        n_batches: int,
        specialization: LoopSpecialization | None,
    ) -> None:
        """Emit a loop over consecutive batches of iterations of `specialization`, or of any specialization if None.

        Software-pipelined: the table words of the next batch are loaded during the current one and carried by phis.
        """
        first = self.assign(f"add i32 {first_row}, %lane")
        words = self._load_table_words(loop, table_starts[0], first)
        if n_batches == 1:
            self._emit_batch(loop, table_starts[1], first, words, specialization)
            return
        entry_label, head, done = self.current_label, self.fresh_name("rounds"), self.fresh_name("done")
        self.emit(f"br label %{head}")
        self.start_block(head)
        names = [f"%{head}.{i}" for i in range(len(words))]
        row, phi_position = f"%{head}.i", len(self.output_lines)
        self.output_lines += [""] * (len(words) + 1)
        next_row = self.assign(f"add i32 {row}, {self.config.group_size}")
        next_words = self._load_table_words(loop, table_starts[0], next_row)
        self._emit_batch(loop, table_starts[1], row, names, specialization)
        continues = self.assign(f"icmp slt i32 {next_row}, {first_row + n_batches * self.config.group_size}")
        self.emit(f"br i1 {continues}, label %{head}, label %{done}")
        self.output_lines[phi_position] = (
            f"  {row} = phi i32 [ {first}, %{entry_label} ], [ {next_row}, %{self.current_label} ]"
        )
        for i, (name, initial, prefetched) in enumerate(zip(names, words, next_words, strict=True)):
            self.output_lines[phi_position + 1 + i] = (
                f"  {name} = phi i32 [ {initial}, %{entry_label} ], [ {prefetched}, %{self.current_label} ]"
            )
        self.start_block(done)

    def _emit_batch(
        self,
        loop: ForEachLoop,
        floats_start: str,
        row: str,
        words: Sequence[str],
        specialization: LoopSpecialization | None,
    ) -> None:
        """Emit the execution of one batch of loop iterations, one iteration per thread, followed by a barrier.

        Padding iterations are skipped by their flag if the loop is predicated. If `specialization` is None, a switch
        selects the code. `words` are the packed integers of the thread's iteration.
        """
        loop_number = self.address_resolver.loop_number(loop)
        columns = self._unpack_columns(loop, words)
        self._set_constant_pointer(loop, floats_start, row)
        after = self.fresh_name("after")
        if loop.predicated:
            body = self.fresh_name("body")
            is_real = self.assign(f"icmp ne i32 {columns[loop.ints.shape[1] - 1]}, 0")
            self.emit(f"br i1 {is_real}, label %{body}, label %{after}")
            self.start_block(body)
        if specialization is not None:
            self._emit_specialization_body(specialization, loop_number, columns)
            self.emit(f"br label %{after}")
        else:
            labels = [self.fresh_name("case") for _ in loop.specializations]
            targets = " ".join(f"i32 {i}, label %{label}" for i, label in enumerate(labels[:-1]))
            self.emit(f"switch i32 {columns[0]}, label %{labels[-1]} [ {targets} ]")
            for loop_specialization, label in zip(loop.specializations, labels, strict=True):
                self.start_block(label)
                self._emit_specialization_body(loop_specialization, loop_number, columns)
                self.emit(f"br label %{after}")
        self.start_block(after)
        self.emit_barrier()

    def _emit_specialization_body(
        self, specialization: LoopSpecialization, loop_number: int, columns: Sequence[str]
    ) -> None:
        self._set_columns(specialization, loop_number, columns)
        self.address_resolver.enter_iteration(loop_number, specialization)
        self.emit_statements(specialization.body)
        self.address_resolver.leave_iteration()

    def _emit_reductions(self, reductions: Sequence[tuple[MemoryLocation, MemoryLocation]]) -> None:
        """Emit the sum reductions at the end of a loop: per-thread accumulators are summed and added to totals.

        `reductions` are (accumulator, total in memory) pairs.
        """
        if not reductions:
            return
        sums = self.reduce_sum([self.load(accumulator, {}) for accumulator, _ in reductions])
        old_totals = [self.load(total, {}) for _, total in reductions]
        values = [self.assign(f"fadd {self.scalar_type} {a}, {b}") for a, b in zip(old_totals, sums, strict=True)]
        self.emit_barrier()
        for (_, total), value in zip(reductions, values, strict=True):
            self.store(total, value, {})
        self.emit_barrier()


# ------------------------------------------------------------------------------------------------------- warp regions

_ALL_LANES = (1 << WARP_SIZE) - 1


class WarpRegionEmitter(LevelLoopEmitter):
    """Emits the kernel of a warp region; `%lane` is the index of a thread in its group."""

    def begin_region(self, config: WarpRegionConfig, *, binned: bool = False) -> None:
        """Emit the prologue of a warp kernel: thread index in the group, member mask, memory pointers, loop head.

        The loop is over environments; with `binned`, these are taken in the order of the bins, most expensive first.
        """
        self.config, size = config, config.group_size
        self.in_basic_block = False
        self.in_parallel_loop = False
        """Whether each thread executes an iteration of its own."""
        self.staged_lists: list[tuple[int, int, str]] = []
        """Staged lists: start and end offset in global memory, and the pointer to the current copy."""
        self.constant_pointers, self.array_pointers = {}, {}
        self.emit("%first = mul i32 %ctaid, %ntid")
        self.emit("%thread = add i32 %first, %tid")
        self.emit(f"%lane = urem i32 %tid, {size}")
        self.member_mask = str(_ALL_LANES - (1 << WARP_SIZE))
        if size < WARP_SIZE:
            warp_lane = self.assign(f"urem i32 %tid, {WARP_SIZE}")
            start = self.assign(f"sub i32 {warp_lane}, %lane")
            self.member_mask = self.assign(f"shl i32 {_ALL_LANES >> (WARP_SIZE - size)}, {start}")
        group = self.assign(f"udiv i32 %thread, {size}")
        start = str(WARP_MEMORY_HEADER)
        if binned:
            bins_size = self.assign(f"mul i32 {N_BINS}, {self.assign('add i32 %stride, 1')}")
            start = self.assign(f"add i32 {bins_size}, {WARP_MEMORY_HEADER}")
        memory_start = self.assign(f"getelementptr {self.scalar_type}, {self.arena_pointer_type} %memory, i32 {start}")
        mad_arguments = (
            f"i32 {group}, i32 {config.n_device_memory * self.scalar_bytes}, {self.arena_pointer_type} {memory_start}"
        )
        self.emit(f"%global_e = call {self.arena_pointer_type} {MAD_WIDE_ASM}({mad_arguments})")
        if config.uses_shared_memory:
            block_group = self.assign(f"udiv i32 %tid, {size}")
            shared_start = self.assign(f"mul i32 {block_group}, {config.n_shared}")
            self.emit(f"%shared_e = getelementptr {self.scalar_type}, {SHARED_POINTER} @shared, i32 {shared_start}")
        else:
            base = f"{self.arena_pointer_type} %global_e"
            self.emit(f"%shared_e = getelementptr {self.scalar_type}, {base}, i32 {config.n_global}")
        self._emit_next_env(binned=binned)

    def _emit_next_env(self, *, binned: bool) -> None:
        """Emit the loop head in which a thread group takes the next environment from an atomic counter.

        The grid has only as many groups as run concurrently, which limits their memory. The counter wraps to 0 when
        every group has found that no environment is left, so that the next launch starts at 0; bins are reset then too.
        """
        self.emit("%asked = add i32 %n_envs, %steps")
        self.emit("%last = sub i32 %asked, 1")
        self.emit("%is_leader = icmp eq i32 %lane, 0")
        self.emit("br label %next")
        self.start_block("next")
        self.emit("br i1 %is_leader, label %ask, label %received")
        self.start_block("ask")
        self.emit(f"%taken = atomicrmw uinc_wrap {self.arena_pointer_type} %memory, i32 %last monotonic")
        if binned:
            self.emit(f"br i1 {self.assign('icmp eq i32 %taken, %last')}, label %forget, label %answered")
            self.start_block("forget")
            reset_bins(self)
            self.emit("br label %answered")
            self.start_block("answered")
        asked_label = self.current_label
        self.emit("br label %received")
        self.start_block("received")
        self.emit(f"%answer = phi i32 [ 0, %next ], [ %taken, %{asked_label} ]")
        self.emit(
            f"%rank = call i32 @{SHUFFLE_INDEX}(i32 {self.member_mask}, i32 %answer, i32 0, i32 {self.shuffle_segment})"
        )
        self.emit("%there = icmp slt i32 %rank, %n_envs")
        self.emit("br i1 %there, label %begin, label %leave")
        self.start_block("begin")
        self.emit(f"%e = add i32 {load_binned_env(self, '%rank') if binned else '%rank'}, 0")

    def end_region(self) -> None:
        """Emit the branch to the next environment; code emitted afterwards runs when none is left."""
        self.emit("br label %next")
        self.start_block("leave")

    def emit_copies(self, start: int, pairs: Sequence[tuple[int, int]], *, copy_in: bool) -> None:
        """Emit copies of data between the scratch memory of thread kernels and the memory of the thread group.

        `copy_in` copies to the group, otherwise from it. The (source, target) pairs are read from the integer table at
        `start`, padded to whole batches of one pair per thread. Several batches are in flight, to hide memory latency.
        """
        n_batches, size = -(-len(pairs) // self.config.group_size), self.config.group_size
        for first in range(0, n_batches, BATCHES_IN_FLIGHT):
            batches = range(first, min(first + BATCHES_IN_FLIGHT, n_batches))
            table_indices = [self.assign(f"add i32 %lane, {start + 2 * size * i}") for i in batches]
            sources = [self._load_int("ints", index) for index in table_indices]
            targets = [self._load_int("ints", self.assign(f"add i32 {index}, {size}")) for index in table_indices]
            values = []
            for source in sources:
                pointer = self.thread_scratch_pointer(source) if copy_in else self._shared_pointer(source)
                values.append(self.assign(f"load {self.scalar_type}, {pointer}, align {self.scalar_bytes}"))
            for value, target in zip(values, targets, strict=True):
                pointer = self._shared_pointer(target) if copy_in else self.thread_scratch_pointer(target)
                self.emit(f"store {self.scalar_type} {value}, {pointer}, align {self.scalar_bytes}")
        self.emit_barrier()

    def emit_handoff_load(self, start: int, handoff: HandoffLayout) -> None:
        """Emit vector loads, four scalars at a time, of data that thread kernels stored for this warp kernel.

        The data goes to the memory of the thread group, at offsets read from the integer table at `start`, padded to
        whole batches; surplus threads repeat the last vector.
        """
        vector_type, align = (
            f"<{VECTOR_WIDTH} x {self.scalar_type}>",
            min(VECTOR_WIDTH * self.scalar_bytes, MAX_ACCESS_BYTES),
        )
        vectors, targets = [], []
        for first in range(0, len(handoff.vector_targets), self.config.group_size):
            vector_index = self.assign(f"add i32 %lane, {first}")
            targets.append(self._load_int("ints", self.assign(f"add i32 {vector_index}, {start}")))
            if first + self.config.group_size > len(handoff.vector_targets):
                last = len(handoff.vector_targets) - 1
                vector_index = self.assign(
                    f"select i1 {self.assign(f'icmp slt i32 {vector_index}, {last}')}, i32 {vector_index}, i32 {last}"
                )
            group, vector_in_group = (
                self.assign(f"{op} i32 {vector_index}, {ROW_GROUP // VECTOR_WIDTH}") for op in ("udiv", "urem")
            )
            group_offset = self.assign(
                f"add i32 {self.assign(f'mul i32 {vector_in_group}, {VECTOR_WIDTH}')}, "
                f"{handoff_offset(handoff.first_row, WARP_SIZE)}"
            )
            offset = self.assign(f"add i32 {self.assign(f'mul i32 {group}, {ROW_GROUP * WARP_SIZE}')}, {group_offset}")
            pointer = self._element_pointer(self.arena_pointer_type, self.scalar_type, "%handoff_e", offset)
            vectors.append(self.assign(f"load {vector_type}, {pointer}, align {align}"))
        for vector, target in zip(vectors, targets, strict=True):
            self.emit(f"store {vector_type} {vector}, {self._shared_pointer(target)}, align {align}")
        self.emit_barrier()  # copies may go to locations in between

    def _shared_pointer(self, row: str) -> str:
        return self._element_pointer(self.shared_pointer_type, self.scalar_type, "%shared_e", row)

    def _pointer(self, location: MemoryLocation, index: str | None) -> str:
        """Emit the address of a memory location: in the memory of the thread group, else as in thread kernels.

        Handles constants of column-wise tables, the scratch memory of thread kernels, arrays of loop iterations, and
        staged lists. `index` is the dynamic index as an integer, or None. Returns pointer type and name.
        """
        address = self.address_resolver.resolve(location)
        if not address.arena and address.column is not None and address.column[0] in self.table_strides:
            loop_number, column = address.column
            return self._element_pointer(
                self.arena_pointer_type,
                self.scalar_type,
                self.constant_pointers[loop_number],
                str(column * self.table_strides[loop_number]),
            )
        if address.arena == THREAD_SCRATCH:
            return self.thread_scratch_pointer(self.row_expression(address, index))
        if address.arena not in (SCRATCH, WARP_GLOBAL):
            return super()._pointer(location, index)
        pointer_type, base = self._arena_base(address.arena)
        row = address.row
        if address.column is not None:
            base = self.array_pointers[address.column]
        elif address.arena == WARP_GLOBAL:
            staged = [(first, pointer) for first, end, pointer in self.staged_lists if first <= row < end]
            for first, pointer in staged:
                pointer_type, base, row = "ptr", pointer, row - first
        if index is not None:
            base = self.assign(f"getelementptr {self.scalar_type}, {pointer_type} {base}, i32 {index}")
        return self._element_pointer(pointer_type, self.scalar_type, base, str(row))

    def alignment(self, location: MemoryLocation) -> int:  # ty: ignore[lost-keyword-for-regular-parameter]
        """Alignment in bytes of a memory location in the memory of the group, up to a vector of four scalars.

        Known alignment lets the compiler load contact records as vectors, a third of the load instructions for a Go2.
        """
        address = self.address_resolver.resolve(location)
        if address.arena not in (SCRATCH, WARP_GLOBAL) or address.column is not None:
            return self.scalar_bytes
        starts = [
            first for first, end, _ in self.staged_lists if address.arena == WARP_GLOBAL and first <= address.row < end
        ]
        row = address.row - (starts[0] if starts else 0)
        multiple = gcd(
            row, VECTOR_WIDTH if location.index is None else self.index_multiple(location.index), VECTOR_WIDTH
        )
        return min(multiple * self.scalar_bytes, MAX_ACCESS_BYTES)

    # ------------------------------------------------------------------------------------------------------- statements

    def emit_statements(self, statements: Statements) -> None:
        """Emit statements, including intrinsic calls and shared-memory staging."""
        for block in statements:
            if isinstance(block, IntrinsicCall):
                block.intrinsic.emit(self)
            elif isinstance(block, SharedMemoryStaging):
                self._emit_staging(block)
            else:
                super().emit_statements((block,))

    def _emit_staging(self, staging: SharedMemoryStaging) -> None:
        """Emit the choice of the memory of a list: shared memory if its used records fit there, else global memory.

        The selected generic pointer is used by later accesses to the list; nothing is copied.
        """
        used = self.load(staging.used_count, {})
        alignment = gcd(staging.shared_offset, staging.records.element, VECTOR_WIDTH)
        assert alignment == VECTOR_WIDTH, "staged lists must be aligned to vectors of four scalars"
        fits = self.assign(f"fcmp olt {self.value_type} {used}, {self.constant(staging.max_staged + 0.5)}")
        pointers = []
        for arena, row in ((SCRATCH, staging.shared_offset), (WARP_GLOBAL, staging.records.element)):
            pointer_type, base = self._arena_base(arena)
            pointer = self.assign(f"getelementptr {self.scalar_type}, {pointer_type} {base}, i32 {row}")
            pointers.append(
                self.assign(f"addrspacecast {pointer_type} {pointer} to ptr") if " " in pointer_type else pointer
            )
        selected = self.assign(f"select i1 {fits}, ptr {pointers[0]}, ptr {pointers[1]}")
        self.staged_lists.append((staging.records.element, staging.records.element + staging.total_size, selected))

    def _emit_counted_loop(self, loop: CountedLoop) -> None:
        """Emit a counted loop; a parallel loop is distributed over the threads of the group, with a sum reduction.

        All threads get the sums. Parallel loops inside loop iterations or other parallel loops run sequentially in each
        thread.
        """
        if not loop.parallel or self.address_resolver.iteration_stack or self.in_parallel_loop:
            super()._emit_counted_loop(loop)
            return
        if loop.max_iterations is not None and loop.max_iterations <= self.config.group_size:
            self._emit_one_iteration_per_lane(loop)
        else:
            self._emit_strided_loop(loop)
        self.emit_barrier()
        sums = self.reduce_sum([self.load(accumulator, {}) for accumulator in loop.reductions])
        for accumulator, total in zip(loop.reductions, sums, strict=True):
            self.store(accumulator, total, {})

    def _emit_one_iteration_per_lane(self, loop: CountedLoop) -> None:
        """Emit a parallel loop with at most one iteration per thread: thread `%lane` executes iteration `%lane`."""
        body, done = self.fresh_name("turn"), self.fresh_name("done")
        self.emit(f"br i1 {self.assign(f'icmp slt i32 %lane, {loop.max_iterations}')}, label %{body}, label %{done}")
        self.start_block(body)
        self.in_parallel_loop = True
        self._emit_iteration(loop.body, self.assign(f"sitofp i32 %lane to {self.scalar_type}"), "%lane")
        self.in_parallel_loop = False
        self.emit(f"br label %{done}")
        self.start_block(done)

    def _emit_strided_loop(self, loop: CountedLoop) -> None:
        """Emit a parallel loop with a stride: thread t of the group executes iterations t, t + `group_size`, ..."""
        limit = self.to_int(self.load(loop.count, {}), 0, uniform=True)
        entry_label, head, body, done = (
            self.current_label,
            self.fresh_name("shared"),
            self.fresh_name("turn"),
            self.fresh_name("done"),
        )
        self.emit(f"br label %{head}")
        self.start_block(head)
        phi_position = len(self.output_lines)
        self.emit("")
        continues = self.assign(f"icmp slt i32 %{head}.i, {limit}")
        self.emit(f"br i1 {continues}, label %{body}, label %{done}")
        self.start_block(body)
        self.in_parallel_loop = True
        self._emit_iteration(loop.body, self.assign(f"sitofp i32 %{head}.i to {self.scalar_type}"), f"%{head}.i")
        self.in_parallel_loop = False
        next_index = self.assign(f"add i32 %{head}.i, {self.config.group_size}")
        self.output_lines[phi_position] = (
            f"  %{head}.i = phi i32 [ %lane, %{entry_label} ], [ {next_index}, %{self.current_label} ]"
        )
        self.emit(f"br label %{head}")
        self.start_block(done)

    def _emit_basic_block(self, block: BasicBlock) -> None:
        """Emit a basic block that all threads of the group execute redundantly, with barriers around its stores.

        Inside loop iterations and parallel loops, where each thread has data of its own, no barriers are emitted.
        """
        if self.address_resolver.iteration_stack or self.in_parallel_loop:
            super()._emit_basic_block(block)
            return
        self.in_basic_block = True
        names = self.emit_instructions(block)
        self.in_basic_block = False
        local_stores = [
            store
            for store in block.stores
            if self.address_resolver.is_local(self.address_resolver.resolve(store.location))
        ]
        memory_stores = [store for store in block.stores if store not in local_stores]
        if memory_stores or any(i.location is not None and self._is_writable(i.location) for i in block.instructions):
            self.emit_barrier()  # other threads may still read the old values
        self.emit_stores((*local_stores, *memory_stores), names)
        if memory_stores:
            self.emit_barrier()

    def load(self, location: MemoryLocation, value_names: ValueNames) -> str:
        """Emit the load of a location; outside basic blocks, as for loop and branch conditions, a barrier follows.

        The barrier keeps faster threads from changing the value before all have read it.
        """
        value = super().load(location, value_names)
        if (
            not self.in_basic_block
            and not self.in_parallel_loop
            and not self.address_resolver.iteration_stack
            and self._is_writable(location)
        ):
            self.emit_barrier()
        return value

    def _is_writable(self, location: MemoryLocation) -> bool:
        """Whether a memory location is in memory that threads of the group may write."""
        address = self.address_resolver.resolve(location)
        return address.arena not in READ_ONLY_ARENAS and not self.address_resolver.is_local(address)
