"""Emission of work-queue loops: filter kernels with per-warp queues in shared memory, and queue kernels.

A warp filters iterations of one specialization for 32 environments. Iterations that pass a filter are compacted into a
queue in shared memory for the next stage (ballot and prefix popcount); a stage runs when its queue holds an entry for
each thread, or when no entry can be added any more. Divergence stays low, and warps do not communicate. Short work is
done in the same kernel. Long work is appended to a queue in global memory for its specialization, which a separate
kernel processes with as many threads as fit on the device. The order of queue entries varies between runs, the result
of an iteration does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from kinema.ir import (
    AtomicIncrement,
    BasicBlock,
    CountedLoop,
    ForEachLoop,
    LoopSpecialization,
    Statements,
    WhileLoop,
    WorkQueueLoop,
    nested_bodies,
)

from ..abi import QUEUE_ENTRY_SIZE
from ..memory import WARP_SIZE
from ..statements import StatementEmitter
from .warp import POPCOUNT, SHARED_POINTER, SHUFFLE_INDEX, WARP_SYNC

# ------------------------------------------------------------------------------------------- specializations and queues

LONG_WORK = 2000
"""Number of instructions above which work is queued for a separate kernel."""
ITERATION_OVERHEAD = 50
"""Estimated instructions per iteration besides its own code."""
STAGE_FREQUENCY = (1.0, 0.2, 0.03)
"""Estimated fraction of iterations that reach the first filter, later filters and the work."""
MIN_ACTIVE_LANES = 8
"""Minimum number of threads per warp that process queue entries, if there are fewer entries than threads."""


def queued_specializations(queue_loop: WorkQueueLoop) -> list[int]:
    """Indices of specializations with long or unbounded work, queued for a separate kernel to limit divergence."""
    return [
        i
        for i, specialization in enumerate(queue_loop.work.specializations)
        if _max_instructions(specialization.body) > LONG_WORK
    ]


def inline_specializations(queue_loop: WorkQueueLoop) -> list[int]:
    """Indices of specializations with short work, which is done in the filter kernel."""
    queued = queued_specializations(queue_loop)
    return [i for i in range(len(queue_loop.work.specializations)) if i not in queued]


def chunk_iterations(queue_loop: WorkQueueLoop, specialization_indices: Sequence[int], n_warps: int) -> list[list[int]]:
    """Load balancing of a filter kernel: distribute loop iterations among about `n_warps` warps by expected work.

    Each chunk has iterations of one specialization; every specialization gets at least one chunk. Returns the iteration
    indices of each chunk.
    """
    specialization_of = queue_loop.work.specialization_indices().tolist()
    iterations = {
        specialization: [i for i, other in enumerate(specialization_of) if other == specialization]
        for specialization in specialization_indices
    }
    work = {
        specialization: len(iterations[specialization]) * _expected_instructions(queue_loop, specialization)
        for specialization in specialization_indices
    }
    work_per_warp = sum(work.values()) / max(n_warps, 1)
    chunks = []
    for specialization in specialization_indices:
        n_chunks = max(1, min(round(work[specialization] / work_per_warp), len(iterations[specialization])))
        chunks += [iterations[specialization][i::n_chunks] for i in range(n_chunks)]
    return chunks


def max_queued_iterations(queue_loop: WorkQueueLoop) -> int:
    """Maximum number of queue entries per environment: iterations of all queued specializations."""
    return int(
        sum(
            (queue_loop.work.specialization_indices() == specialization_index).sum()
            for specialization_index in queued_specializations(queue_loop)
        )
    )


def _max_instructions(statements: Statements) -> float:
    """Upper bound of the instructions executed by statements; infinite for loops of unknown trip count."""
    total = 0.0
    for block in statements:
        iterations = (
            1
            if not isinstance(block, ForEachLoop | CountedLoop | WhileLoop)
            else getattr(block, "max_iterations", None) or inf
        )
        instructions = len(block.instructions) if isinstance(block, BasicBlock) else 0
        total += instructions + iterations * sum(map(_max_instructions, nested_bodies(block)))
    return total


def _expected_instructions(queue_loop: WorkQueueLoop, specialization_index: int) -> float:
    """Expected instructions per iteration of a specialization: stages weighted by their estimated frequency."""
    total = 0.0
    for i, loop in enumerate(queue_loop.stages):
        frequency = STAGE_FREQUENCY[-1] if loop is queue_loop.work else STAGE_FREQUENCY[min(i, 1)]
        total += frequency * (
            ITERATION_OVERHEAD + min(_max_instructions(loop.specializations[specialization_index].body), LONG_WORK)
        )
    return total


class QueueConsumerEmitter(StatementEmitter):
    """Emits the kernel that processes queued iterations; `%memory` holds the queue lengths, then the queues."""

    def _entry_pointer(self, queue_loop: WorkQueueLoop, specialization_index: int, position: str) -> str:
        """Emit the address of entry `position` in the global work queue of a specialization.

        The queues follow the counters in `%memory`, each with a capacity of (iterations of the specialization) *
        `%stride` entries.
        """
        specialization_indices, queued = queue_loop.work.specialization_indices(), queued_specializations(queue_loop)
        rows_before = int(
            sum(
                (specialization_indices == specialization).sum()
                for specialization in queued
                if specialization < specialization_index
            )
        )
        wide_position, stride = self.assign(f"sext i32 {position} to i64"), self.assign("sext i32 %stride to i64")
        size_before = self.assign(f"mul i64 {stride}, {QUEUE_ENTRY_SIZE * rows_before}")
        start = self.assign(f"add i64 {len(queue_loop.work.specializations)}, {size_before}")
        index = self.assign(f"add i64 {start}, {self.assign(f'mul i64 {wide_position}, {QUEUE_ENTRY_SIZE}')}")
        return self.assign(f"getelementptr i32, {self.arena_pointer_type} %memory, i64 {index}")

    def emit_queue_work(self, queue_loop: WorkQueueLoop, specialization_index: int) -> None:
        """Emit a loop over the work-queue entries of a thread; each entry (environment, loop iteration) is processed.

        The queue is that of one specialization. `%steps` is the number of thread blocks.
        """
        loop = queue_loop.work
        ints_start, floats_start = (
            self._load_int("ints", str(self.address_resolver.header_offset(loop) + i)) for i in (1, 2)
        )
        counter = self.assign(f"getelementptr i32, {self.arena_pointer_type} %memory, i32 {specialization_index}")
        count = self.assign(f"load i32, {self.arena_pointer_type} {counter}")
        first, entry_stride = self._assign_entries(count)
        entry_label = self.current_label
        head, body, done = self.fresh_name("entries"), self.fresh_name("entry"), self.fresh_name("done")
        self.emit(f"br label %{head}")
        self.start_block(head)
        phi_position = len(self.output_lines)
        self.emit("")
        self.emit(f"br i1 {self.assign(f'icmp slt i32 %{head}.i, {count}')}, label %{body}, label %{done}")
        self.start_block(body)
        entry = self._entry_pointer(queue_loop, specialization_index, f"%{head}.i")
        env, row = (
            self.assign(f"load i32, {self._element_pointer(self.arena_pointer_type, 'i32', entry, str(i))}")
            for i in range(QUEUE_ENTRY_SIZE)
        )
        self.set_env_pointers(env)
        self.set_iteration_pointers(loop, row, ints_start, floats_start)
        self.emit_specialization(self.address_resolver.loop_number(loop), loop.specializations[specialization_index])
        next_position = self.assign(f"add i32 %{head}.i, {entry_stride}")
        self.output_lines[phi_position] = (
            f"  %{head}.i = phi i32 [ {first}, %{entry_label} ], [ {next_position}, %{self.current_label} ]"
        )
        self.emit(f"br label %{head}")
        self.start_block(done)

    def _assign_entries(self, n_entries: str) -> tuple[str, str]:
        """Emit the index of a thread's first work-queue entry and the distance to its next entries.

        Entries are spread over all warps with as few active threads per warp as possible (at least `MIN_ACTIVE_LANES`),
        as divergent threads of a warp run one after the other and there are often fewer entries than warps. Idle
        threads start behind the last entry.
        """
        thread = self.assign(f"add i32 {self.assign('mul i32 %ctaid, %ntid')}, %tid")
        threads = self.assign("mul i32 %steps, %ntid")
        warps = self._maximum("1", self.assign(f"udiv i32 {threads}, {WARP_SIZE}"))
        warp, lane = self.assign(f"udiv i32 {thread}, {WARP_SIZE}"), self.assign(f"urem i32 {thread}, {WARP_SIZE}")
        rounded = self.assign(f"add i32 {n_entries}, {self.assign(f'sub i32 {warps}, 1')}")
        lanes_per_warp = self._minimum(
            self._maximum(str(MIN_ACTIVE_LANES), self.assign(f"udiv i32 {rounded}, {warps}")),
            self._minimum(str(WARP_SIZE), threads),
        )
        is_active = self.assign(
            f"and i1 {self.assign(f'icmp slt i32 {lane}, {lanes_per_warp}')}, "
            f"{self.assign(f'icmp slt i32 {warp}, {warps}')}"
        )
        first = self.assign(f"add i32 {self.assign(f'mul i32 {warp}, {lanes_per_warp}')}, {lane}")
        return self.assign(f"select i1 {is_active}, i32 {first}, i32 {n_entries}"), self.assign(
            f"mul i32 {warps}, {lanes_per_warp}"
        )

    def _maximum(self, a: str, b: str) -> str:
        return self.assign(f"select i1 {self.assign(f'icmp slt i32 {a}, {b}')}, i32 {b}, i32 {a}")

    def _minimum(self, a: str, b: str) -> str:
        return self.assign(f"select i1 {self.assign(f'icmp slt i32 {a}, {b}')}, i32 {a}, i32 {b}")

    def _emit_atomic_increment(self, increment: AtomicIncrement) -> None:
        """Emit an atomic add, as other threads may increment a counter of the same environment concurrently."""
        one = f"{self.scalar_type} {self.constant(1.0)}"
        count = self.assign(f"atomicrmw fadd {self._pointer(increment.counter, None)}, {one} monotonic")
        self.store(increment.result, count, {})


# ---------------------------------------------------------------------------------------------------- filter kernels

BALLOT, LANEMASK_LT = "llvm.nvvm.vote.ballot.sync", "llvm.nvvm.read.ptx.sreg.lanemask.lt"
ITERATIONS_PER_PASS = 8
"""Iterations that a thread tests with the first filter per pass, so that their loads overlap."""
QUEUE_CAPACITY = WARP_SIZE * (ITERATIONS_PER_PASS + 1)
"""Capacity of a queue in entries: it is filled only while it holds less than one entry per thread."""
WARPS_PER_BLOCK = 2
"""Warps per block, each with queues of its own."""
FULL_MASK = -1
QUEUE_DECLARATIONS = (
    f"declare i32 @{BALLOT}(i32, i1)",
    f"declare i32 @{LANEMASK_LT}()",
    f"declare i32 @{POPCOUNT}(i32)",
    f"declare i32 @{SHUFFLE_INDEX}(i32, i32, i32, i32)",
    f"declare void @{WARP_SYNC}(i32)",
)


class WorkQueueEmitter(QueueConsumerEmitter):
    """Emits the filter kernel of a work-queue loop, with queues between stages in shared memory."""

    table_starts: dict[int, tuple[str, str]]
    """Offsets of the integers and floats of each stage loop in the packed tables, by identity of the loop."""

    def emit_filters(
        self, queue_loop: WorkQueueLoop, iteration_chunks: Sequence[Sequence[int]], *, run_inline: bool
    ) -> list[str]:
        """Emit the filter kernel of a work-queue loop: each warp tests its chunk of iterations in 32 environments.

        In each iteration of the main loop, the warp selects a stage (filter or work), takes an entry (iteration,
        environment) per thread and executes the stage. Iterations that pass all filters are processed (`run_inline`) or
        appended to the global queue of their specialization. Returns the definitions of the arrays that the kernel
        uses: `@queues` in shared memory and the constant `@rows`.
        """
        work_stage = len(queue_loop.filters)  # the work stage
        for name in ("tested", *(f"queued{i}" for i in range(1, work_stage + 1))):
            self.emit(f"%{name} = alloca i32")
            self._store_variable(name, "0")
        row_specializations = queue_loop.work.specialization_indices()
        specialization_indices = sorted({int(row_specializations[rows[0]]) for rows in iteration_chunks})
        chunk_stride = 1 + max(map(len, iteration_chunks)) + ITERATIONS_PER_PASS
        self._assign_iterations(chunk_stride, work_stage)
        self.table_starts = {id(loop): self._load_table_start(loop) for loop in queue_loop.stages}
        self._select_stage(work_stage)
        self._take_entry(work_stage)
        self.set_env_pointers("%e")
        for loop in queue_loop.stages[1:]:
            self._set_iteration(loop, "%row")
        stages = " ".join(f"i32 {i}, label %stage{i}" for i in range(work_stage))
        self.emit(f"switch i32 %stage, label %stage{work_stage} [ {stages} ]")
        self.start_block("stage0")
        self._emit_first_filter(queue_loop, specialization_indices)
        for stage, loop in enumerate(queue_loop.filters[1:], 1):
            self.start_block(f"stage{stage}")
            self._emit_next_filter(stage, loop, queue_loop, specialization_indices)
        self.start_block(f"stage{work_stage}")
        self._emit_work(queue_loop, specialization_indices, run_inline=run_inline)
        self.start_block("turned")
        self.emit(f"call void @{WARP_SYNC}(i32 {FULL_MASK})")  # queue updates are visible to all threads
        self.emit("br label %turn")
        self.start_block("leave")
        padded = [
            x for chunk in iteration_chunks for x in (len(chunk), *chunk, *[chunk[0]] * (chunk_stride - 1 - len(chunk)))
        ]
        return [
            f"@queues = internal {SHARED_POINTER[4:]} global "
            f"[{WARPS_PER_BLOCK * work_stage * QUEUE_CAPACITY} x i32] poison, align 4",
            f"@rows = internal addrspace(1) constant [{len(padded)} x i32] [{', '.join(f'i32 {x}' for x in padded)}]",
        ]

    def _store_variable(self, name: str, value: str) -> None:
        self.emit(f"store i32 {value}, ptr %{name}")

    def _load_variable(self, name: str) -> str:
        return self.assign(f"load i32, ptr %{name}")

    def _load_table_start(self, loop: ForEachLoop) -> tuple[str, str]:
        """Emit loads of the offsets of the integers and floats of a loop in the packed tables."""
        ints_start, floats_start = (
            self._load_int("ints", str(self.address_resolver.header_offset(loop) + i)) for i in (1, 2)
        )
        return ints_start, floats_start

    def _set_iteration(self, loop: ForEachLoop, row: str) -> None:
        self.set_iteration_pointers(loop, row, *self.table_starts[id(loop)])

    def _assign_iterations(self, chunk_stride: int, work_stage: int) -> None:
        """Emit the work assignment of a thread: its environment `%own_env`, and the iterations `%own_rows` of its warp.

        Also emits the pointer to the queues of the warp in shared memory. Blocks are numbered by (chunk of iterations,
        group of environments).
        """
        block_minus_one = self.assign("sub i32 %ntid, 1")
        blocks = self.assign(f"udiv i32 {self.assign(f'add i32 %n_envs, {block_minus_one}')}, %ntid")
        chunk = self.assign(f"udiv i32 %ctaid, {blocks}")
        first = self.assign(f"mul i32 {self.assign(f'urem i32 %ctaid, {blocks}')}, %ntid")
        self.emit(f"%lane = urem i32 %tid, {WARP_SIZE}")
        self.emit(f"%first_env = add i32 {first}, {self.assign('sub i32 %tid, %lane')}")
        env, end = self.assign("add i32 %first_env, %lane"), self.assign("sub i32 %n_envs, 1")
        self.emit(f"%there = icmp slt i32 {env}, %n_envs")
        self.emit(f"%own_env = select i1 %there, i32 {env}, i32 {end}")
        chunk_start = self.assign(f"mul i32 {chunk}, {chunk_stride}")
        self.emit(f"%own_rows = getelementptr i32, {self.arena_pointer_type} @rows, i32 {chunk_start}")
        self.emit(f"%n_rows = load i32, {self.arena_pointer_type} %own_rows{self.invariant_load}")
        queue_offset = self.assign(
            f"mul i32 {self.assign(f'udiv i32 %tid, {WARP_SIZE}')}, {work_stage * QUEUE_CAPACITY}"
        )
        self.emit(f"%queues_of_warp = getelementptr i32, {SHARED_POINTER} @queues, i32 {queue_offset}")

    def _select_stage(self, work_stage: int) -> None:
        """Emit the choice of the stage (filter or work) that a warp executes next; it returns when no work is left.

        Sets `%stage`: the latest stage with a queued entry for every thread, else stage 0 (the first filter) if
        untested loop iterations are left, else the earliest stage with a nonempty queue.
        """
        self.emit("br label %turn")
        self.start_block("turn")
        stage, queued = "-1", [self._load_variable(f"queued{i}") for i in range(1, work_stage + 1)]
        for i in range(work_stage, 0, -1):
            is_nonempty = self.assign(f"icmp ne i32 {queued[i - 1]}, 0")
            stage = self.assign(f"select i1 {is_nonempty}, i32 {i}, i32 {stage}")
        has_untested = self.assign(f"icmp slt i32 {self._load_variable('tested')}, %n_rows")
        stage = self.assign(f"select i1 {has_untested}, i32 0, i32 {stage}")
        for i in range(1, work_stage + 1):
            is_full = self.assign(f"icmp sge i32 {queued[i - 1]}, {WARP_SIZE}")
            stage = self.assign(f"select i1 {is_full}, i32 {i}, i32 {stage}")
        self.emit(f"%stage = add i32 {stage}, 0")
        self.emit(f"br i1 {self.assign('icmp slt i32 %stage, 0')}, label %leave, label %go_on")
        self.start_block("go_on")

    def _take_entry(self, work_stage: int) -> None:
        """Emit the pop of the iteration `%row` and environment `%e` of each thread from the queue of the current stage.

        In stage 0, which has no queue, a thread works on its own environment. `%takes` is the number of popped entries,
        and `%has_entry` whether the thread got one.
        """
        entry_label, starts, counts = self.current_label, ["0"], ["0"]
        for stage in range(1, work_stage + 1):
            is_current, count = self.assign(f"icmp eq i32 %stage, {stage}"), self._load_variable(f"queued{stage}")
            takes = self.assign(f"select i1 {is_current}, i32 {self._minimum(count, str(WARP_SIZE))}, i32 0")
            remaining = self.assign(f"sub i32 {count}, {takes}")
            self._store_variable(f"queued{stage}", remaining)
            start = self.assign(f"add i32 {remaining}, {(stage - 1) * QUEUE_CAPACITY}")
            starts.append(self.assign(f"select i1 {is_current}, i32 {start}, i32 {starts[-1]}"))
            counts.append(self.assign(f"add i32 {counts[-1]}, {takes}"))
        self.emit(f"%takes = add i32 {counts[-1]}, 0")
        self.emit("%has_entry = icmp slt i32 %lane, %takes")
        self.emit(f"br i1 {self.assign('icmp eq i32 %stage, 0')}, label %known, label %from_queue")
        self.start_block("from_queue")
        count = self.assign(f"add i32 {starts[-1]}, {self._minimum('%lane', self.assign('sub i32 %takes, 1'))}")
        entry = self.assign(f"load i32, {self._element_pointer(SHARED_POINTER, 'i32', '%queues_of_warp', count)}")
        row, lane = self.assign(f"udiv i32 {entry}, {WARP_SIZE}"), self.assign(f"urem i32 {entry}, {WARP_SIZE}")
        env = self.assign(f"add i32 %first_env, {lane}")
        self.emit("br label %known")
        self.start_block("known")
        for name, first, queued in (("taken", "0", entry), ("row", "0", row), ("e", "%own_env", env)):
            self.emit(f"%{name} = phi i32 [ {first}, %{entry_label} ], [ {queued}, %from_queue ]")

    def _emit_first_filter(self, queue_loop: WorkQueueLoop, specialization_indices: Sequence[int]) -> None:
        """Emit the first filter for `ITERATIONS_PER_PASS` iterations per thread; the passing ones are queued."""
        loop, tested = queue_loop.filters[0], self._load_variable("tested")
        loop_number, rows, valid = self.address_resolver.loop_number(loop), list[str](), list[str]()
        for i in range(ITERATIONS_PER_PASS):
            position = self.assign(f"add i32 {tested}, {i}")
            is_valid = self.assign(f"and i1 {self.assign(f'icmp slt i32 {position}, %n_rows')}, %there")
            valid.append(is_valid)
            position = self.assign(f"add i32 {position}, 1")
            rows.append(
                self.assign(
                    f"load i32, {self._element_pointer(self.arena_pointer_type, 'i32', '%own_rows', position)}"
                    f"{self.invariant_load}"
                )
            )
            self.name_suffix = f"_{i}"
            self._set_iteration(loop, rows[-1])

        def emit_specializations(specialization: LoopSpecialization) -> list[str]:
            flags = []
            for i in range(ITERATIONS_PER_PASS):
                self.name_suffix = f"_{i}"
                self.emit_specialization(loop_number, specialization)
                flags.append(self.condition_mask(queue_loop.condition))
            return flags

        self.name_suffix = "_0"
        flags = self._dispatch_specializations(loop, specialization_indices, emit_specializations)
        self.name_suffix = ""
        self._store_variable("tested", self.assign(f"add i32 {tested}, {ITERATIONS_PER_PASS}"))
        candidates = []
        for flag, is_valid, row in zip(flags, valid, rows, strict=True):
            entry = self.assign(f"add i32 {self.assign(f'mul i32 {row}, {WARP_SIZE}')}, %lane")
            candidates.append((self.assign(f"and i1 {flag}, {is_valid}"), entry))
        self._enqueue(1, candidates)

    def _emit_next_filter(
        self, stage: int, loop: ForEachLoop, queue_loop: WorkQueueLoop, specialization_indices: Sequence[int]
    ) -> None:
        """Emit filter number `stage` for the current entry of each thread; passing entries go to the next queue."""

        def emit_body(specialization: LoopSpecialization) -> list[str]:
            self.emit_specialization(self.address_resolver.loop_number(loop), specialization)
            return [self.condition_mask(queue_loop.condition)]

        (flag,) = self._dispatch_specializations(loop, specialization_indices, emit_body)
        self._enqueue(stage + 1, [(self.assign(f"and i1 {flag}, %has_entry"), "%taken")])

    def _emit_work(self, queue_loop: WorkQueueLoop, specialization_indices: Sequence[int], *, run_inline: bool) -> None:
        """Emit the last stage: process the current entry of each thread, or append it to a queue in global memory.

        The queue is that of the specialization of the entry's loop iteration.
        """
        if not run_inline:
            self._reserve_places(queue_loop)
        self.emit("br i1 %has_entry, label %take, label %turned")
        self.start_block("take")

        def emit_body(specialization: LoopSpecialization) -> list[str]:
            self.emit_specialization(self.address_resolver.loop_number(queue_loop.work), specialization)
            return []

        if run_inline:
            self._dispatch_specializations(queue_loop.work, specialization_indices, emit_body)
        else:
            self._append_to_queue(queue_loop)
        self.emit("br label %turned")

    def _dispatch_specializations(
        self,
        loop: ForEachLoop,
        specialization_indices: Sequence[int],
        emit_body: Callable[[LoopSpecialization], list[str]],
    ) -> list[str]:
        """Emit a switch over the specialization of the current loop iteration, with `emit_body` for each case.

        `emit_body` returns conditions (i1); the result are phis that merge them behind the switch.
        """
        labels, after = [self.fresh_name("case") for _ in specialization_indices], self.fresh_name("after")
        if len(specialization_indices) > 1:
            row_pointer = f"%row{self.address_resolver.loop_number(loop)}{self.name_suffix}"
            specialization = self.assign(f"load i32, {self.arena_pointer_type} {row_pointer}{self.invariant_load}")
            targets = " ".join(
                f"i32 {i}, label %{label}" for i, label in zip(specialization_indices[:-1], labels[:-1], strict=True)
            )
            self.emit(f"switch i32 {specialization}, label %{labels[-1]} [ {targets} ]")
        else:
            self.emit(f"br label %{labels[0]}")
        results = []
        for specialization, label in zip(specialization_indices, labels, strict=True):
            self.start_block(label)
            values = emit_body(loop.specializations[specialization])
            results.append([(value, self.current_label) for value in values])
            self.emit(f"br label %{after}")
        self.start_block(after)
        incoming = (
            ", ".join(f"[ {value}, %{label} ]" for value, label in alternatives)
            for alternatives in zip(*results, strict=True)
        )
        return [self.assign(f"phi i1 {pairs}") for pairs in incoming]

    def _enqueue(self, stage: int, candidates: Sequence[tuple[str, str]]) -> None:
        """Emit stream compaction: append the entries of threads whose condition holds to the queue of a stage.

        `candidates` are (condition, entry) pairs. Positions follow from a ballot and a prefix popcount.
        """
        count, start = self._load_variable(f"queued{stage}"), (stage - 1) * QUEUE_CAPACITY
        below = self.assign(f"call i32 @{LANEMASK_LT}()")
        for passes, entry in candidates:
            votes = self.assign(f"call i32 @{BALLOT}(i32 {FULL_MASK}, i1 {passes})")
            rank = self.assign(f"call i32 @{POPCOUNT}(i32 {self.assign(f'and i32 {votes}, {below}')})")
            position = self.assign(f"add i32 {self.assign(f'add i32 {count}, {rank}')}, {start}")
            put, done = self.fresh_name("put"), self.fresh_name("done")
            self.emit(f"br i1 {passes}, label %{put}, label %{done}")
            self.start_block(put)
            self.emit(f"store i32 {entry}, {self._element_pointer(SHARED_POINTER, 'i32', '%queues_of_warp', position)}")
            self.emit(f"br label %{done}")
            self.start_block(done)
            count = self.assign(f"add i32 {count}, {self.assign(f'call i32 @{POPCOUNT}(i32 {votes})')}")
        self._store_variable(f"queued{stage}", count)
        self.emit("br label %turned")

    def _reserve_places(self, queue_loop: WorkQueueLoop) -> None:
        """Emit one atomic add per warp that reserves `%takes` entries of a global queue, one for each active thread.

        `%specialization` is the specialization of the warp's iterations, whose queue counter is incremented; `%place`
        is the entry reserved for a thread.
        """
        entry_label = self.current_label
        loop_number = self.address_resolver.loop_number(queue_loop.work)
        if len(queue_loop.work.specializations) > 1:
            self.emit(f"%specialization = load i32, {self.arena_pointer_type} %row{loop_number}{self.invariant_load}")
        else:  # rows have no column for it
            self.emit("%specialization = add i32 0, 0")
        self.emit(f"br i1 {self.assign('icmp eq i32 %lane, 0')}, label %ask, label %answered")
        self.start_block("ask")
        counter = self.assign(f"getelementptr i32, {self.arena_pointer_type} %memory, i32 %specialization")
        position = self.assign(f"atomicrmw add {self.arena_pointer_type} {counter}, i32 %takes monotonic")
        self.emit("br label %answered")
        self.start_block("answered")
        reserved = self.assign(f"phi i32 [ 0, %{entry_label} ], [ {position}, %ask ]")
        first = self.assign(f"call i32 @{SHUFFLE_INDEX}(i32 {FULL_MASK}, i32 {reserved}, i32 0, i32 31)")
        self.emit(f"%place = add i32 {first}, %lane")

    def _append_to_queue(self, queue_loop: WorkQueueLoop) -> None:
        """Emit stores of (environment, iteration) to the reserved entry of the specialization's global queue."""
        done = self.fresh_name("listed")
        for specialization in queued_specializations(queue_loop):
            own_label, other_label = self.fresh_name("own"), self.fresh_name("other")
            self.emit(
                f"br i1 {self.assign(f'icmp eq i32 %specialization, {specialization}')}, "
                f"label %{own_label}, label %{other_label}"
            )
            self.start_block(own_label)
            entry = self._entry_pointer(queue_loop, specialization, "%place")
            for i, value in enumerate(("%e", "%row")):
                self.emit(f"store i32 {value}, {self._element_pointer(self.arena_pointer_type, 'i32', entry, str(i))}")
            self.emit(f"br label %{done}")
            self.start_block(other_label)
        self.emit(f"br label %{done}")
        self.start_block(done)
