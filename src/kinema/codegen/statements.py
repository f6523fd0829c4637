"""Emission of statements as LLVM IR: basic blocks, loops and branches under a lane mask, calls of outlined functions.

A branch or loop with data-dependent trip count runs as long as any lane (environment) of the SIMD vector is active;
inactive lanes store nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from kinema.core import to_identifier, unique_name
from kinema.ir import (
    FIRST_ITERATION_PREFIX,
    ITERATION_COUNT_PREFIX,
    SCRATCH,
    UNIFORM,
    ArenaOffset,
    AtomicIncrement,
    BasicBlock,
    CountedLoop,
    ForEachLoop,
    If,
    Instruction,
    IntrinsicCall,
    LoopSpecialization,
    MemoryLocation,
    Operand,
    SharedMemoryStaging,
    Statement,
    Statements,
    Store,
    WarpRegion,
    WhileLoop,
    WorkQueueLoop,
)

from .abi import OUTLINED_PREFIX
from .ir_builder import float_literal
from .memory import MemoryEmitter, ValueNames
from .superwords import (
    WIDTHS,
    Extraction,
    Gather,
    Lanes,
    PackedBlock,
    PackedLoad,
    PackedOperation,
    Splat,
    pack_superwords,
)
from .target import Target, find_uniform_values

OUTLINED_POINTERS = ("state_e", "controls_e", "out_e", UNIFORM, SCRATCH, "ints", "floats")
"""Pointers passed to outlined functions, under the same names as in the caller."""


@dataclass(frozen=True, slots=True)
class OutlinedFunction:
    """Outlined function whose body has not been emitted yet."""

    signature: str
    """Return type, symbol and parameters."""
    emitter: StatementEmitter
    statements: Statements
    """Statements of the function, including those that are outlined themselves."""
    emit_body: Callable[[StatementEmitter], None]
    """Function that emits the body with an emitter."""


_FLOAT_INSTRUCTIONS = frozenset({"add", "sub", "mul"})
"""Operations that are one instruction of LLVM with the same operands, without the letter f."""


class StatementEmitter(MemoryEmitter):
    """Emits the statements of a program, with pointers `%state_e`, `%controls_e`, ... of the current environment."""

    def __init__(self, array_offsets: Mapping[str, ArenaOffset], target: Target) -> None:
        super().__init__(array_offsets, target)
        self.callees: list[str] = []
        """Signatures of the functions that this function calls."""
        self.pending_functions: list[OutlinedFunction] = []
        """Outlined functions of the program that have not been emitted yet."""
        self.block_pass: Callable[[BasicBlock], BasicBlock] | None = None
        """Optimisation pass applied to a basic block before it is emitted."""
        self.symbols: set[str] = set()
        """Symbols of outlined functions: unique within a program, and deterministic."""
        self.outlined_prefix = OUTLINED_PREFIX
        """Prefix of the symbols of outlined functions."""
        self.outlined_pointers: Sequence[str] = OUTLINED_POINTERS
        """Pointers passed to outlined functions, under the same names as in the caller."""

    # ------------------------------------------------------------------------------------------------------- statements

    def emit_statements(self, statements: Statements) -> None:
        """Emit statements one after the other, including nested ones; outlined ones become function calls.

        Warp regions (code that a warp executes cooperatively) are emitted inline. Intrinsic calls, shared-memory
        staging and work-queue loops raise TypeError, as they need several threads.
        """
        for block in statements:
            match block:
                case BasicBlock() if id(block) in self.program.outlined:
                    self._call_outlined(block, "block", partial(StatementEmitter._emit_basic_block, block=block))
                case BasicBlock():
                    self._emit_basic_block(block)
                case ForEachLoop() if id(block) in self.program.outlined:
                    self._call_outlined(block, block.name, partial(StatementEmitter._emit_for_each_loop, loop=block))
                case ForEachLoop():
                    self._emit_for_each_loop(block)
                case CountedLoop():
                    self._emit_counted_loop(block)
                case WhileLoop():
                    self._emit_while_loop(block)
                case If():
                    self.emit_if(block, self.emit_statements)
                case WarpRegion():
                    self.emit_statements(block.body)
                case AtomicIncrement():
                    self._emit_atomic_increment(block)
                case IntrinsicCall() | WorkQueueLoop() | SharedMemoryStaging():
                    raise TypeError("cooperative statements can be emitted in warp regions and work-queue kernels only")

    def _emit_for_each_loop(self, loop: ForEachLoop) -> None:
        """Emit a for-each loop, with a switch over the specializations of the iterations.

        Runs over all iterations, over the range given by the enclosing iteration (nested loop), or over the list of
        active iterations.
        """
        loop_number, header = self.address_resolver.loop_number(loop), self.address_resolver.header_offset(loop)
        if loop.joined_rows:
            self._emit_joined_loop(loop)
            return
        count, start, first = (self._load_int("ints", f"{header + i}") for i in range(3))
        if loop.range_name:
            outer, specialization = self.address_resolver.iteration_stack[-1]
            first_row, row_count = (
                self.column_values[outer, specialization.array_columns[prefix + loop.range_name][1]]
                for prefix in (FIRST_ITERATION_PREFIX, ITERATION_COUNT_PREFIX)
            )
            loop_handle, index = self.begin_loop("0", row_count)
            row = self.assign(f"add {self.index_type} {first_row}, {index}")
        else:
            loop_handle, row = self._begin_rows(loop, (count, start, first))
        self.set_iteration_pointers(loop, row, start, first)
        after = self.fresh_name("after")
        labels = [self.fresh_name("case") for _ in loop.specializations]
        if len(loop.specializations) > 1:
            specialization_index = self.assign(
                f"load i32, {self.arena_pointer_type} %row{loop_number}{self.invariant_load}"
            )
            targets = " ".join(f"i32 {i}, label %{label}" for i, label in enumerate(labels))
            self.emit(f"switch i32 {specialization_index}, label %{labels[-1]} [ {targets} ]")
        else:
            self.emit(f"br label %{labels[0]}")
        for i, (specialization, label) in enumerate(zip(loop.specializations, labels, strict=True)):
            self.start_block(label)
            if id(specialization) in self.program.outlined:
                emit_body = partial(
                    StatementEmitter.emit_specialization, loop_number=loop_number, specialization=specialization
                )
                self._call_outlined(specialization, f"{loop.name} {i}", emit_body, loop_number)
            else:
                self.emit_specialization(loop_number, specialization)
            self.emit(f"br label %{after}")
        self.start_block(after)
        self.end_loop(loop_handle)

    def _begin_rows(self, loop: ForEachLoop, starts: Sequence[str]) -> tuple[tuple[str, str, str, str], str]:
        """Begin a loop over all rows, or over the list of active iterations; returns its handle and the row.

        `starts` are the number of rows and the offsets of the first one in the packed tables.
        """
        if loop.active_iterations is None:
            return self.begin_loop("0", starts[0])
        loop_handle, index = self.begin_loop("0", self._load_active_iteration(loop.active_iterations, "0"))
        next_index = self.assign(f"add {self.index_type} {index}, 1")
        return loop_handle, self._load_active_iteration(loop.active_iterations, next_index)

    def _emit_joined_loop(self, loop: ForEachLoop) -> None:
        """Emit the body of a joined loop for the rows of its tables that memory locations hold (one environment)."""
        assert self.target.lanes == 1, "joined loops run for one environment at a time"
        loop_number, header = self.address_resolver.loop_number(loop), self.address_resolver.header_offset(loop)
        start, first = (self._load_int("ints", f"{header + i}") for i in (1, 2))
        suffix = self.name_suffix
        for table, location in enumerate(loop.joined_rows):
            row = self.to_int(self.load(location, {}), 0)
            self.name_suffix = f"{suffix}_of{table}"
            self.set_iteration_pointers(loop, row, start, first)
        specialization = loop.specializations[0]
        for _, column in specialization.array_columns.values():
            self.name_suffix = f"{suffix}_of{loop.joined_tables[0][column]}"
            self.load_column(loop_number, column, "", column)
        self.name_suffix = suffix
        self.constant_tables[loop_number] = [f"{suffix}_of{table}" for table in loop.joined_tables[1]]
        self.address_resolver.enter_iteration(loop_number, specialization)
        self.emit_statements(specialization.body)
        self.address_resolver.leave_iteration()

    def _call_outlined(
        self,
        statement: Statement | LoopSpecialization,
        name: str,
        emit_body: Callable[[StatementEmitter], None],
        loop_number: int | None = None,
    ) -> None:
        """Emit the call of an outlined function and queue the emission of the function itself.

        Parameters are the pointers to device buffers, row pointers of the loop `loop_number`, the shared stack frame
        and the lane masks.

        Args:
            statement: statement that the function executes.
            name: part of the symbol of the function.
            emit_body: emits the statement into the new function.
            loop_number: loop that encloses an outlined loop specialization; None for other statements.
        """
        callee, arrays = self.new_emitter(), self.program.outlined[id(statement)]
        callee.frame = {name: start for name, start in self.frame.items() if name in arrays}
        callee.local_layout, callee.block_pass = self.local_layout, self.block_pass
        callee.pending_functions, callee.symbols = self.pending_functions, self.symbols
        callee.outlined_prefix, callee.outlined_pointers = self.outlined_prefix, self.outlined_pointers
        callee.begin_program(self.program, callee.allocate_locals(self.program, arrays))
        parameters = [("ptr noalias", f"%{name}", f"%{name}") for name in self.outlined_pointers]
        parameters += [
            ("ptr noalias", f"%{name}{loop_number}", f"%{name}{loop_number}")
            for name in ("row", "constants")
            if loop_number is not None
        ]
        parameters += [("ptr noalias", "%frame", "%frame")] if callee.frame else []
        parameters += [] if self.target.has_contiguous_rows else [("i64", "%pitch", "%pitch")]
        if self.present_lanes is not None:
            parameters.append((self.mask_type, "%present", self.present_lanes))
            callee.present_lanes = "%present"
        if self.mask is not None:
            callee.mask = "%present" if self.mask == self.present_lanes else "%mask"
            parameters += [(self.mask_type, "%mask", self.mask)] if callee.mask == "%mask" else []
        symbol = unique_name(self.outlined_prefix + to_identifier(name), self.symbols)
        self.symbols.add(symbol)
        signature = (
            f"void @{symbol}({', '.join(f'{parameter_type} {inside}' for parameter_type, inside, _ in parameters)})"
        )
        self.callees.append(signature)
        statements = statement.body if isinstance(statement, LoopSpecialization) else (statement,)
        self.pending_functions.append(OutlinedFunction(signature, callee, statements, emit_body))
        arguments = ", ".join(f"{parameter_type} {outside}" for parameter_type, _, outside in parameters)
        self.emit(f"call void @{symbol}({arguments})")

    def new_emitter(self) -> StatementEmitter:
        """Emitter of the same kind for an outlined function."""
        return type(self)(self.array_offsets, self.target)

    def set_iteration_pointers(self, loop: ForEachLoop, row: str, ints_start: str, floats_start: str) -> None:
        """Emit pointers to the integers and constants of a loop iteration: `%row<n>` and `%constants<n>` for loop n.

        `iteration` is the iteration index; `ints_start` and `floats_start` are the offsets of the loop's first
        iteration in the packed tables.
        """
        loop_number = self.address_resolver.loop_number(loop)
        for name, start, width in (
            ("row", ints_start, loop.ints.shape[1]),
            ("constants", floats_start, loop.floats.shape[1]),
        ):
            offset = self.assign(f"mul {self.index_type} {row}, {width}")
            index = self.assign(f"add {self.index_type} {start}, {offset}")
            element_type, array = ("i32", "ints") if name == "row" else (self.scalar_type, "floats")
            self.emit(
                f"%{name}{loop_number}{self.name_suffix} = getelementptr {element_type}, "
                f"{self.arena_pointer_type} %{array}, {self.index_type} {index}"
            )

    def emit_specialization(self, loop_number: int, specialization: LoopSpecialization) -> None:
        """Emit the body of a loop specialization: loads of the array offsets of the iteration, then the statements."""
        for arena, column in specialization.array_columns.values():
            self.load_column(loop_number, column, arena, column)
        self.address_resolver.enter_iteration(loop_number, specialization)
        self.emit_statements(specialization.body)
        self.address_resolver.leave_iteration()

    def _emit_atomic_increment(self, increment: AtomicIncrement) -> None:
        count = self.load(increment.counter, {})
        self.store(increment.result, count, {})
        self.store(increment.counter, self.emit_op("add", [count, self.constant(1.0)]), {})

    def _load_active_iteration(self, offset: ArenaOffset, index: str) -> str:
        """Emit the load of an element of the list of active iterations, from the first lane, as all lanes agree."""
        row = self.assign(f"add {self.index_type} {index}, {offset.row}")
        if self.target.is_gpu:
            pointer = self.thread_scratch_pointer(row)
        else:
            pointer = f"ptr {self.assign(f'getelementptr {self.vector_type}, ptr %scratch, {self.index_type} {row}')}"
        value = self.assign(f"load {self.scalar_type}, {pointer}, align {self.scalar_bytes}")
        return self.assign(f"fptosi {self.scalar_type} {value} to {self.index_type}")

    def load_column(self, loop_number: int, column: int, _arena: str, position: int) -> None:
        """Emit the load of an array offset of the current iteration; `position` is the table column in memory."""
        self.column_values[loop_number, column] = self._load_int(f"row{loop_number}{self.name_suffix}", str(position))

    def _load_int(self, array: str, index: str) -> str:
        pointer = self.assign(f"getelementptr i32, {self.arena_pointer_type} %{array}, {self.index_type} {index}")
        value = self.assign(f"load i32, {self.arena_pointer_type} {pointer}{self.invariant_load}")
        return value if self.target.is_gpu else self.assign(f"sext i32 {value} to i64")

    def _body_mask(self, mask: str) -> str | None:
        """Mask of a body: None for scalar code, where the branch itself excludes inactive environments."""
        return mask if self.target.lanes > 1 else None

    def condition_mask(self, location: MemoryLocation) -> str:
        """Emit the mask of the lanes in which a condition memory location is above 0.5."""
        return self.assign(f"fcmp ogt {self.value_type} {self.load(location, {})}, {self.constant(0.5)}")

    def emit_if(self, branch: If, emit_body: Callable[[Statements], None]) -> None:
        """Emit a branch that is taken if the condition holds in any active lane; `emit_body` emits its body.

        The body runs under the mask of lanes whose condition holds, or lane by lane for scalarized branches.
        """
        outer_mask = self.mask
        mask = self.and_masks(self.condition_mask(branch.condition), outer_mask)
        body, done = self.fresh_name("then"), self.fresh_name("done")
        self.emit(f"br i1 {self.any_lane(mask)}, label %{body}, label %{done}")
        self.start_block(body)
        self.mask = self.present_lanes if branch.uniform else self._body_mask(mask)
        if branch.scalarize and self.target.lanes > 1:
            self._emit_scalarized(branch.body, mask)
        else:
            emit_body(branch.body)
        self.emit(f"br label %{done}")
        self.start_block(done)
        self.mask = outer_mask

    def _emit_scalarized(self, body: Statements, mask: str) -> None:
        """Emit a body that is executed for one SIMD lane (environment) at a time, in a loop over the lanes of a mask.

        The mask must not be empty. Values and masks are scalar inside, and `self.lane` is the current lane.
        """
        vector_target, outer_indices, bits = self.target, self.iteration_values, f"i{self.target.lanes}"
        pending = self.assign(f"zext {bits} {self.assign(f'bitcast {self.mask_type} {mask} to {bits}')} to i64")
        head, after, entry_label = self.fresh_name("one"), self.fresh_name("after"), self.current_label
        self.emit(f"br label %{head}")
        self.start_block(head)
        phi_position = len(self.output_lines)
        self.emit("")
        self.lane = self.assign(f"call i64 @llvm.cttz.i64(i64 %{head}.left, i1 true)")
        self.iteration_values = [
            self.assign(f"extractelement {self.value_type} {index}, i64 0") for index in outer_indices
        ]
        self.mask = None
        self.set_lanes(replace(vector_target, lanes=1))
        self.emit_statements(body)
        self.set_lanes(vector_target)
        self.lane, self.iteration_values = None, outer_indices
        decremented = self.assign(f"sub i64 %{head}.left, 1")
        remaining = self.assign(f"and i64 %{head}.left, {decremented}")
        self.output_lines[phi_position] = (
            f"  %{head}.left = phi i64 [ {pending}, %{entry_label} ], [ {remaining}, %{self.current_label} ]"
        )
        self.emit(f"br i1 {self.assign(f'icmp ne i64 {remaining}, 0')}, label %{head}, label %{after}")
        self.start_block(after)

    def _emit_while_loop(self, loop: WhileLoop) -> None:
        """Emit a do-while loop with a lane mask as loop-carried value.

        Lanes whose condition becomes false leave the mask. The loop ends when no lane is left or after
        `max_iterations`.
        """
        outer_mask, entry_label = self.mask, self.current_label
        head, done = self.fresh_name("repeat"), self.fresh_name("done")
        self.emit(f"br label %{head}")
        self.start_block(head)
        phi_position = len(self.output_lines)
        self.output_lines += ["", ""]
        self.mask = self._body_mask(f"%{head}.mask")
        self.emit_statements(loop.body)
        mask = self.and_masks(self.condition_mask(loop.condition), self.mask)
        next_index = self.assign(f"add {self.index_type} %{head}.i, 1")
        below_limit = self.assign(f"icmp ult {self.index_type} {next_index}, {loop.max_iterations}")
        continues = self.assign(f"and i1 {self.any_lane(mask)}, {below_limit}")
        self.emit(f"br i1 {continues}, label %{head}, label %{done}")
        self.output_lines[phi_position] = (
            f"  %{head}.i = phi {self.index_type} [ 0, %{entry_label} ], [ {next_index}, %{self.current_label} ]"
        )
        initial_mask = outer_mask or self.all_lanes_mask()
        self.output_lines[phi_position + 1] = (
            f"  %{head}.mask = phi {self.mask_type} [ {initial_mask}, %{entry_label} ], "
            f"[ {mask}, %{self.current_label} ]"
        )
        self.start_block(done)
        self.mask = outer_mask

    def _emit_counted_loop(self, loop: CountedLoop) -> None:
        """Emit a counted loop whose trip count may differ between lanes.

        The body runs under the mask of lanes whose count is not reached yet, until no lane is left.
        """
        if loop.uniform:
            self._emit_uniform_loop(loop)
            return
        outer_mask, entry_label = self.mask, self.current_label
        count = self.load(loop.count, {})
        if loop.reversed:
            self._emit_reversed_loop(loop, count)
            return
        head, body, done = self.fresh_name("count"), self.fresh_name("body"), self.fresh_name("done")
        self.emit(f"br label %{head}")
        self.start_block(head)
        phi_position = len(self.output_lines)
        self.emit("")
        index = self.splat(self.assign(f"sitofp {self.index_type} %{head}.i to {self.scalar_type}"))
        below = self.assign(f"fcmp olt {self.value_type} {index}, {count}")
        mask = self.and_masks(below, outer_mask)  # counts of inactive lanes are arbitrary
        self.emit(f"br i1 {self.any_lane(mask)}, label %{body}, label %{done}")
        self.start_block(body)
        self.mask = self._body_mask(mask)
        self._emit_iteration(loop.body, index, f"%{head}.i")
        next_index = self.assign(f"add {self.index_type} %{head}.i, 1")
        self.output_lines[phi_position] = (
            f"  %{head}.i = phi {self.index_type} [ 0, %{entry_label} ], [ {next_index}, %{self.current_label} ]"
        )
        self.emit(f"br label %{head}")
        self.start_block(done)
        self.mask = outer_mask

    def _emit_reversed_loop(self, loop: CountedLoop, count: str) -> None:
        """Emit a reversed counted loop, from the largest trip count of all active lanes down.

        The body runs under the mask of lanes whose count is above the index, which is the same in all lanes.
        """
        outer_mask = self.mask
        integers = [self.to_int(count, lane) for lane in range(self.target.lanes)]  # 0 in inactive lanes
        limit = integers[0]
        for integer in integers[1:]:
            is_more = self.assign(f"icmp sgt {self.index_type} {integer}, {limit}")
            limit = self.assign(f"select i1 {is_more}, {self.index_type} {integer}, {self.index_type} {limit}")
        loop_handle, counter = self.begin_loop("0", limit)
        last = self.assign(f"sub {self.index_type} {limit}, 1")
        index = self.assign(f"sub {self.index_type} {last}, {counter}")
        value = self.splat(self.assign(f"sitofp {self.index_type} {index} to {self.scalar_type}"))
        if self.target.lanes > 1:
            below = self.assign(f"fcmp olt {self.value_type} {value}, {count}")
            self.mask = self.and_masks(below, outer_mask)
        self._emit_iteration(loop.body, value, index)
        self.end_loop(loop_handle)
        self.mask = outer_mask

    def _emit_uniform_loop(self, counted_loop: CountedLoop) -> None:
        """Emit a counted loop with the same trip count in all environments, as an integer loop without lane masks."""
        limit = self.to_int(self.load(counted_loop.count, {}), 0, uniform=True)
        loop_handle, counter = self.begin_loop("0", limit)
        if counted_loop.reversed:
            last = self.assign(f"sub {self.index_type} {limit}, 1")
            counter = self.assign(f"sub {self.index_type} {last}, {counter}")
        self._emit_iteration(
            counted_loop.body,
            self.splat(self.assign(f"sitofp {self.index_type} {counter} to {self.scalar_type}")),
            counter,
        )
        self.end_loop(loop_handle)

    def _emit_iteration(self, body: Statements, index_value: str, index: str) -> None:
        self.iteration_values.append(index_value)
        self.iteration_indices.append(index)
        self.emit_statements(body)
        self.iteration_values.pop()
        self.iteration_indices.pop()

    # ----------------------------------------------------------------------------------------------------- basic blocks

    def _emit_basic_block(self, block: BasicBlock) -> None:
        """Emit the instructions of a basic block, then its stores.

        In scalar code, values for the frame of outlined functions are stored as soon as they are computed, as they
        would be spilled otherwise (3 % of a step of a G1 humanoid); in vector code this brings nothing.
        """
        block = block if self.block_pass is None else self.block_pass(block)
        if self.program.uses_superwords and self.target.lanes == 1 and self.lane is None:
            packed = pack_superwords(block, self._has_consecutive_addresses)
            if packed is not None:
                self._emit_packed(block, packed)
                return
        eager_stores = find_eager_stores(block, self.frame.keys()) if self.frame and self.target.lanes == 1 else {}
        names = self.emit_instructions(block, eager_stores)
        stored_locations = {store.location for stores in eager_stores.values() for store in stores}
        self.emit_stores([store for store in block.stores if store.location not in stored_locations], names)

    def _has_consecutive_addresses(self, location: MemoryLocation) -> bool:
        """Whether consecutive elements of an array are adjacent in memory, for scalar code."""
        address = self.address_resolver.resolve(location)
        return address.arena == SCRATCH or self.address_resolver.is_local(address)

    def _emit_packed(self, block: BasicBlock, packed: PackedBlock) -> None:
        """Emit a basic block whose instructions are partly packed into vectors."""
        self.definitions, self.uniform_values = {i.result: i for i in block.instructions}, set()
        scalar_target = self.target
        vector_targets = {width: replace(self.target, lanes=width) for width in WIDTHS}
        names: dict[int, str] = {}
        vectors: dict[Lanes, str] = {}
        scalars: list[Instruction] = []

        def emit_scalars() -> None:
            self._emit_sequence(scalars, {}, names)
            scalars.clear()

        for item in packed.items:
            if isinstance(item, Instruction):
                scalars.append(item)
                continue
            emit_scalars()
            pointer = self._pack_pointer(item.location, names) if isinstance(item, PackedLoad) else ""
            self.set_lanes(vector_targets[len(item.lanes)])
            if isinstance(item, Extraction):
                vector = vectors[item.lanes]
                names[item.result] = self.assign(f"extractelement {self.value_type} {vector}, i64 {item.lane}")
            elif isinstance(item, PackedLoad):
                vectors[item.lanes] = self.assign(f"load {self.value_type}, {pointer}, align {self.scalar_bytes}")
            else:
                vectors[item.lanes] = self._emit_pack(item, names, vectors)
            self.set_lanes(scalar_target)
        emit_scalars()
        self.emit_stores(packed.stores, names)
        for group in packed.packed_stores:
            pointer = self._pack_pointer(group.location, names)
            vector_type = f"<{len(group.lanes)} x {self.scalar_type}>"
            self.emit(f"store {vector_type} {vectors[group.lanes]}, {pointer}, align {self.scalar_bytes}")

    def _pack_pointer(self, location: MemoryLocation, names: ValueNames) -> str:
        """Emit the address of the first lane of a packed load or store; returns pointer type and name."""
        index = None if location.index is None else self._uniform_index(location.index, names[location.index])
        return self._pointer(location, index)

    def _emit_pack(
        self, pack: PackedOperation | Splat | Gather, names: ValueNames, vectors: Mapping[Lanes, str]
    ) -> str:
        """Emit a pack that loads nothing, with the vector types selected; returns the name of the vector."""
        if isinstance(pack, PackedOperation):
            return self.emit_op(pack.op, [vectors[operands] for operands in pack.operands])
        if isinstance(pack, Splat):
            first = pack.lanes[0]
            return self.splat(names[first]) if type(first) is int else self.constant(float(first))
        vector = "poison"
        for lane, x in enumerate(pack.lanes):
            value = names[x] if type(x) is int else float_literal(float(x), self.target.precision)
            vector = self.assign(f"insertelement {self.value_type} {vector}, {self.scalar_type} {value}, i64 {lane}")
        return vector

    def emit_instructions(
        self, block: BasicBlock, eager_stores: Mapping[int, Sequence[Store]] | None = None
    ) -> ValueNames:
        """Emit the instructions of a basic block; returns the LLVM name of each value.

        Sine and cosine of the same angle are computed together. Stores in `eager_stores` (by value number) are emitted
        as soon as their value is available.
        """
        self.definitions = {i.result: i for i in block.instructions}
        self.uniform_values = (
            set() if self.target.lanes == 1 else find_uniform_values(block.instructions, self.address_resolver)
        )
        names: dict[int, str] = {}
        self._emit_sequence(block.instructions, sincos_pairs(block), names, eager_stores)
        return names

    def _emit_sequence(
        self,
        instructions: Sequence[Instruction],
        pairs: Mapping[Operand, tuple[int, int]],
        names: dict[int, str],
        eager_stores: Mapping[int, Sequence[Store]] | None = None,
    ) -> None:
        """Emit instructions of a basic block in order, and add their names to `names`."""
        constant, assign, value_type = self.constant, self.assign, self.value_type
        for result, op, arguments, location in instructions:
            if result in names:
                continue
            defined = (result,)
            if location is not None:
                names[result] = self.load(location, names)
            elif op in _FLOAT_INSTRUCTIONS:  # most of them: faster than the general case
                a, b = arguments
                first = names[a] if type(a) is int else constant(a)
                second = names[b] if type(b) is int else constant(b)
                names[result] = assign(f"f{op} {value_type} {first}, {second}")
            elif op in ("sin", "cos"):
                sine_cosine = self.sincos(self._operand(arguments[0], names))
                defined = pairs.get(arguments[0], defined)
                names.update(
                    zip(defined, sine_cosine, strict=True)
                    if len(defined) == 2
                    else ((result, sine_cosine[op == "cos"]),)
                )
            else:
                operands = [names[a] if type(a) is int else constant(a) for a in arguments]
                names[result] = self.emit_op(op, operands)
            if eager_stores:
                self.emit_stores([store for value in defined for store in eager_stores.get(value, ())], names)
            self.split_long_block()

    def emit_stores(self, stores: Sequence[Store], value_names: ValueNames) -> None:
        """Emit stores of a basic block."""
        for store in stores:
            self.split_long_block()
            self.store(store.location, self._operand(store.value, value_names), value_names)

    def _operand(self, operand: Operand, value_names: ValueNames) -> str:
        return value_names[operand] if isinstance(operand, int) else self.constant(operand)


def sincos_pairs(block: BasicBlock) -> dict[Operand, tuple[int, int]]:
    """Angles whose sine and cosine are both computed -> (value of the sine, value of the cosine)."""
    sines = {i.args[0]: i.result for i in block.instructions if i.op == "sin"}
    cosines = {i.args[0]: i.result for i in block.instructions if i.op == "cos"}
    return {angle: (sines[angle], cosines[angle]) for angle in sines if angle in cosines}


def find_eager_stores(block: BasicBlock, arrays: Collection[str]) -> dict[int, list[Store]]:
    """Stores to `arrays` that may be moved up to where their value is computed, by value number.

    A store is eligible if the block does not load its memory location afterwards. None are if the block accesses any of
    the arrays at a dynamic index.
    """
    indexed = {location.array for location in block.locations() if location.index is not None}
    if not indexed.isdisjoint(arrays):
        return {}
    last_load = {i.location: position for position, i in enumerate(block.instructions) if i.location is not None}
    positions, eager_stores = definition_positions(block), dict[int, list[Store]]()
    for store in block.stores:
        value, location = store.value, store.location
        if location.array in arrays and isinstance(value, int) and last_load.get(location, -1) < positions[value]:
            eager_stores.setdefault(value, []).append(store)
    return eager_stores


def definition_positions(block: BasicBlock) -> dict[int, int]:
    """Position in a basic block at which each value is computed; sine and cosine of an angle share the first."""
    positions = {i.result: position for position, i in enumerate(block.instructions)}
    for pair in sincos_pairs(block).values():
        positions.update(dict.fromkeys(pair, min(positions[value] for value in pair)))
    return positions
