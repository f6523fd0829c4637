"""Emission of memory access: loads, stores and addresses in arenas and local arrays, on CPU vectors and GPU threads.

Item i of an array that starts at row r of an arena is at element (r + i) * stride + e for environment e. Scratch memory
is interleaved per SIMD vector of a CPU or per 32 threads of a warp, row by row. In a branch that is executed lane by
lane (`If.scalarize`), a local array used nowhere else holds a single scalar per element; of a local array that is also
used outside, elements without dynamic index are allocated one by one, so that the others can become registers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import gcd

from kinema.ir import (
    EXCHANGE,
    PRECOMPUTED,
    ROW_GROUP,
    SCRATCH,
    UNIFORM,
    ArenaOffset,
    CountedLoop,
    If,
    Instruction,
    MemoryLocation,
    Operand,
    Program,
    Statements,
    handoff_offset,
    memory_accesses,
    nested_bodies,
)

from .ir_builder import IRBuilder
from .target import Address, AddressResolver, Target

# --------------------------------------------------------------------------------- local arrays of scalarized branches

BranchId = int | None
"""Identity of a scalarized branch; None for code outside of such branches."""


@dataclass(frozen=True, slots=True)
class LocalArrayLayout:
    """Storage of local arrays in a program with scalarized branches."""

    scalar_arrays: frozenset[str]
    """Arrays used in one scalarized branch only: one scalar per element."""
    split_arrays: frozenset[str]
    """Arrays whose elements are allocated one by one."""
    scalar_elements: frozenset[tuple[str, int]]
    """Elements of split arrays that are used in one scalarized branch only: a single scalar."""


def classify_local_arrays(program: Program) -> LocalArrayLayout:
    """Choose the storage of local arrays in a program with scalarized branches (executed one SIMD lane at a time).

    Arrays used in one scalarized branch only hold a scalar per element. Arrays used in several branches without dynamic
    index are split into single elements, so that these can become registers.
    """
    owners: dict[str, set[BranchId]] = {}
    items: dict[tuple[str, int], set[BranchId]] = {}
    indexed: set[str] = set()
    for location, owner in _locations_by_branch(program.body, None):
        owners.setdefault(location.array, set()).add(owner)
        items.setdefault((location.array, location.element), set()).add(owner)
        if location.index is not None:
            indexed.add(location.array)
    for loop in program.for_each_loops:  # arrays of iterations have offsets from a table
        indexed |= {
            arena for specialization in loop.specializations for arena, _ in specialization.array_columns.values()
        }
    local_branches = {array: branches for array, branches in owners.items() if array in program.locals}
    scalar_arrays = {array for array, branches in local_branches.items() if _is_single_branch(branches)}
    split_arrays = {a for a, branches in local_branches.items() if len(branches) > 1 and a not in indexed}
    scalar_elements = {key for key, branches in items.items() if key[0] in split_arrays and _is_single_branch(branches)}
    return LocalArrayLayout(frozenset(scalar_arrays), frozenset(split_arrays), frozenset(scalar_elements))


def _is_single_branch(branches: set[BranchId]) -> bool:
    return len(branches) == 1 and None not in branches


def _locations_by_branch(statements: Statements, branch: BranchId) -> Iterator[tuple[MemoryLocation, BranchId]]:
    """Iterate over all locations that statements access, with the outermost scalarized branch around each (or None)."""
    for block in statements:
        yield from ((location, branch) for location, _ in memory_accesses(block))
        is_outermost = isinstance(block, If) and block.scalarize and branch is None
        for body in nested_bodies(block):
            yield from _locations_by_branch(body, id(block) if is_outermost else branch)


def has_scalarized_branches(statements: Statements) -> bool:
    """Whether any branch, including nested ones, is executed lane by lane."""
    return any(
        (isinstance(b, If) and b.scalarize) or any(has_scalarized_branches(x) for x in nested_bodies(b))
        for b in statements
    )


# ---------------------------------------------------------------------------------------------------- loads and stores

WARP_SIZE = 32
"""Threads per warp of a GPU."""
READ_ONLY_ARENAS = ("", "controls", UNIFORM)
"""Arenas that no program writes: table constants (empty name), control inputs and uniform values."""
MULTIPLE_OF_ZERO = 1 << 20
"""Value returned as divisor of zero, which is a multiple of every integer."""
MAD_WIDE_ASM = 'asm "mad.wide.s32 $0, $1, $2, $3;", "=l,ri,r,l"'
"""PTX instruction a * b + c with 32-bit factors and a 64-bit sum."""
ValueNames = Mapping[int, str]
"""Value number -> name in the LLVM text."""


class MemoryEmitter(IRBuilder):
    """Emits loads and stores of memory locations, and the addresses of array elements."""

    local_alignment = 16
    """Alignment of local arrays [bytes]."""
    n_handoff_rows = 0
    """Number of leading scratch offsets in the hand-off layout; 0 if the code does not access them."""

    program: Program
    address_resolver: AddressResolver
    local_arrays: dict[str, str]
    uniform_count_arrays: set[str]
    """Local arrays that hold trip counts of uniform loops; stores to them are not masked."""

    def __init__(self, array_offsets: Mapping[str, ArenaOffset], target: Target) -> None:
        super().__init__(target)
        self.array_offsets = {**array_offsets, EXCHANGE: ArenaOffset(EXCHANGE, 0)}
        self.mask: str | None = None
        """Mask of the lanes (environments) that execute the current code; None for all."""
        self.present_lanes: str | None = None
        """Mask of the lanes that are environments, as the last vector may be partial; other lanes may compute
        garbage."""
        self.uniform_values: set[int] = set()
        """Values of the current basic block that are the same in all environments."""
        self.definitions: dict[int, Instruction] = {}
        """Instructions of the current basic block, by value number."""
        self.iteration_indices: list[str] = []
        """Indices of the enclosing counted loops as integers, outermost first."""
        self.arena_pointer_type = "ptr addrspace(1)" if target.is_gpu else "ptr"
        """LLVM type of pointers to arenas: the global address space on a GPU."""
        self.invariant_load = ", !invariant.load !0" if target.is_gpu else ""
        """Metadata of loads from read-only memory, which use the read-only cache of a GPU."""
        self.column_values: dict[tuple[int, int], str] = {}
        """Array offsets of the enclosing loop iterations, by (loop number, column)."""
        self.name_suffix = ""
        """Suffix of row pointers if the same code is emitted for several iterations."""
        self.constant_tables: dict[int, list[str]] = {}
        """Suffix of the pointer to the constants of each column, by loop number of a joined loop."""
        self.table_strides: dict[int, int] = {}
        """Column stride of tables that are stored column by column, by loop number."""
        self.lane: str | None = None
        """Lane of a vector that scalarized code works on; None for all lanes."""
        self.split_elements: dict[tuple[str, int], str] = {}
        """Pointers to elements of split local arrays."""
        self.scalar_storage: frozenset[str | tuple[str, int]] = frozenset()
        """Local arrays and split elements that hold a single scalar instead of a vector."""
        self.frame: Mapping[str, int] = {}
        """Offsets of local arrays in the frame shared with outlined functions (see `ir/outline.py`)."""
        self._lane_offsets: dict[tuple[str, str, str], str] = {}
        """Offsets [bytes] of an index that differs between lanes, by label of the code, index and bytes of a row."""
        self._lane_integers: dict[tuple[str, str, int, str | None], str] = {}
        """Integer of an index in a lane, by label of the code, index, lane and mask."""
        self.local_layout: LocalArrayLayout | None = None
        """Storage of the local arrays of the program, once computed."""

    def allocate_locals(self, program: Program, names: Collection[str] | None = None) -> dict[str, str]:
        """Emit stack allocations (alloca) of the local arrays of a program, at the start of a function.

        `names` restricts them to some arrays. In programs with scalarized branches, the storage follows
        `classify_local_arrays`. Returns array -> pointer, without arrays that are split into single elements.
        """
        sizes = {name: count for name, count in program.locals.items() if names is None or name in names}
        if self.target.lanes == 1 or not has_scalarized_branches(program.body):
            return {name: self._allocate(name, count, self.value_type) for name, count in sizes.items()}
        if self.local_layout is None:
            self.local_layout = classify_local_arrays(program)
        self.scalar_storage = self.local_layout.scalar_arrays | self.local_layout.scalar_elements
        for name in sorted(self.local_layout.split_arrays & sizes.keys()):
            keys = [(name, i) for i in range(sizes[name])]
            self.split_elements |= {
                key: self._allocate(
                    name, 1, self.scalar_type if key in self.scalar_storage else self.value_type, key[1]
                )
                for key in keys
            }
        return {
            name: self._allocate(name, count, self.scalar_type if name in self.scalar_storage else self.value_type)
            for name, count in sizes.items()
            if name not in self.local_layout.split_arrays
        }

    def allocate_frame(self, program: Program) -> None:
        """Emit the stack allocation of the frame that outlined functions share with this function."""
        if self.frame:
            count = sum(program.locals[name] for name in self.frame)
            self.emit(f"%frame = alloca [{max(count, 1)} x {self.vector_type}], align {self.local_alignment}")

    def _allocate(self, name: str, count: int, element_type: str, element: int = 0) -> str:
        if name in self.frame:
            return self.assign(f"getelementptr {self.vector_type}, ptr %frame, i64 {self.frame[name] + element}")
        return self.assign(f"alloca [{max(count, 1)} x {element_type}], align {self.local_alignment}")

    def begin_program(self, program: Program, local_arrays: dict[str, str]) -> None:
        """Start emission of the code of a program with the given pointers to its local arrays."""
        self.program, self.uses_superwords = program, program.uses_superwords
        self.has_short_blocks = program.has_short_blocks and not self.target.is_gpu
        self.address_resolver = AddressResolver(program, self.array_offsets)
        self.local_arrays = local_arrays
        self.uniform_count_arrays = {block.count.array for block in counted_loops(program.body) if block.uniform}

    # ------------------------------------------------------------------------------------------------- loads and stores

    def load(self, location: MemoryLocation, value_names: ValueNames) -> str:
        """Emit the load of a memory location for all lanes.

        A dynamic index that differs between lanes is a gather: an instruction, or one scalar load per lane.
        """
        if location.index is None:
            return self._load_at(location, None)
        index = value_names[location.index]
        if location.index in self.uniform_values or self.target.lanes == 1:
            return self._load_at(location, self._uniform_index(location.index, index))
        if self.target.has_scatter:
            return self._gather(location, index)
        result, is_uniform = "poison", self.address_resolver.resolve(location).arena == UNIFORM
        for lane in range(self.target.lanes):
            pointer = self._pointer(location, self.to_int(index, lane))
            element = 0 if is_uniform else lane
            element_pointer = self.assign(f"getelementptr {self.scalar_type}, {pointer}, i64 {element}")
            value = self.assign(f"load {self.scalar_type}, ptr {element_pointer}, align {self.scalar_bytes}")
            result = self.assign(f"insertelement {self.value_type} {result}, {self.scalar_type} {value}, i64 {lane}")
        return result

    def _load_at(self, location: MemoryLocation, index: str | None) -> str:
        """Emit the load of a location at a uniform index or none; table constants and uniform values are broadcast."""
        arena, pointer = self.address_resolver.resolve(location).arena, self._pointer(location, index)
        metadata = self.invariant_load if arena in READ_ONLY_ARENAS else ""
        if arena in ("", UNIFORM):
            return self.splat(self.assign(f"load {self.scalar_type}, {pointer}{metadata}"))
        return self.assign(f"load {self.value_type}, {pointer}, align {self.alignment(location)}{metadata}")

    def _uniform_index(self, value: int, name: str) -> str:
        """Integer of an index that is equal in all lanes; in integer arithmetic if made of loop indices only."""
        return self._integer_expression(value) or self.to_int(name, 0, uniform=True)

    def _integer_expression(self, value: Operand) -> str | None:
        """Emit an index as integer arithmetic if it consists of loop indices, integers, +, - and *; None otherwise."""
        if isinstance(value, float):
            return str(int(value)) if value.is_integer() else None
        definition = self.definitions[value]
        if definition.op == "loop_index":
            return self.iteration_indices[-1]
        if definition.op not in ("add", "sub", "mul"):
            return None
        a, b = (self._integer_expression(x) for x in definition.args)
        return None if a is None or b is None else self.assign(f"{definition.op} {self.index_type} {a}, {b}")

    def to_int(self, index: str, lane: int, *, uniform: bool = False) -> str:
        """Convert the index of one lane to an integer; 0 for inactive lanes (may hold any value) unless `uniform`."""
        if self.target.lanes == 1:
            return self.assign(f"fptosi {self.scalar_type} {index} to {self.index_type}")
        mask = None if uniform else self.mask
        key = self.current_label, index, lane, mask
        if key not in self._lane_integers:
            value = self.assign(f"extractelement {self.value_type} {index}, i64 {lane}")
            integer = self.assign(f"fptosi {self.scalar_type} {value} to {self.index_type}")
            if mask is not None:
                active = self.assign(f"extractelement {self.mask_type} {mask}, i64 {lane}")
                integer = self.assign(f"select i1 {active}, i64 {integer}, i64 0")
            self._lane_integers[key] = integer
        return self._lane_integers[key]

    def store(self, location: MemoryLocation, value: str, value_names: ValueNames) -> None:
        """Emit the store of a value to a memory location for the active lanes.

        A dynamic index that differs between lanes is a scatter: an instruction, or one scalar store per lane. Inactive
        lanes keep the old value.
        """
        if location.index is not None and location.index not in self.uniform_values and self.target.lanes > 1:
            if self.target.has_scatter:
                self._scatter(location, value, value_names[location.index])
                return
            for lane in range(self.target.lanes):
                pointer = self._pointer(location, self.to_int(value_names[location.index], lane))
                element_pointer = "ptr " + self.assign(f"getelementptr {self.scalar_type}, {pointer}, i64 {lane}")
                new = self.assign(f"extractelement {self.value_type} {value}, i64 {lane}")
                if self.mask is not None:
                    old = self.assign(f"load {self.scalar_type}, {element_pointer}, align {self.scalar_bytes}")
                    active = self.assign(f"extractelement {self.mask_type} {self.mask}, i64 {lane}")
                    new = self.assign(f"select i1 {active}, {self.scalar_type} {new}, {self.scalar_type} {old}")
                self.emit(f"store {self.scalar_type} {new}, {element_pointer}, align {self.scalar_bytes}")
            return
        index = None if location.index is None else self._uniform_index(location.index, value_names[location.index])
        pointer = self._pointer(location, index)
        if self._is_masked(location):
            old = self.assign(f"load {self.value_type}, {pointer}, align {self.scalar_bytes}")
            value = self.assign(
                f"select {self.mask_type} {self.mask}, {self.value_type} {value}, {self.value_type} {old}"
            )
        self.emit(f"store {self.value_type} {value}, {pointer}, align {self.alignment(location)}")

    def _gather(self, location: MemoryLocation, index: str) -> str:
        """Emit the load of a location at an index that differs between lanes; 0 in inactive lanes."""
        n, values = self.target.lanes, self.value_type
        return self.assign(
            f"call {values} @llvm.masked.gather.{self.type_suffix}.v{n}p0"
            f"(<{n} x ptr> {self._lane_pointers(location, index)}, i32 {self.scalar_bytes}, "
            f"{self.mask_type} {self.mask or self.all_lanes_mask()}, {values} zeroinitializer)"
        )

    def _scatter(self, location: MemoryLocation, value: str, index: str) -> None:
        """Emit the store of a value to a location at an index that differs between lanes, in active lanes."""
        n = self.target.lanes
        self.emit(
            f"call void @llvm.masked.scatter.{self.type_suffix}.v{n}p0({self.value_type} {value}, "
            f"<{n} x ptr> {self._lane_pointers(location, index)}, i32 {self.scalar_bytes}, "
            f"{self.mask_type} {self.mask or self.all_lanes_mask()})"
        )

    def _lane_pointers(self, location: MemoryLocation, index: str) -> str:
        """Emit the addresses of a location at an index that differs between lanes, as a vector."""
        address, n = self.address_resolver.resolve(location), self.target.lanes
        if address.arena == UNIFORM:
            row_bytes, lane_bytes = str(self.scalar_bytes), 0
        elif address.arena == SCRATCH or self.address_resolver.is_local(address):
            row_bytes, lane_bytes = str(n * self.scalar_bytes), self.scalar_bytes
        else:
            row_bytes, lane_bytes = "%pitch", self.scalar_bytes
        key = self.current_label, index, row_bytes
        if key not in self._lane_offsets:
            integers = self.assign(f"fptosi {self.value_type} {index} to <{n} x i64>")
            if row_bytes == "%pitch":
                first = self.assign(f"insertelement <{n} x i64> poison, i64 %pitch, i64 0")
                factor = self.assign(
                    f"shufflevector <{n} x i64> {first}, <{n} x i64> poison, <{n} x i32> zeroinitializer"
                )
            else:
                factor = f"splat (i64 {row_bytes})"
            rows = self.assign(f"mul <{n} x i64> {integers}, {factor}")
            lanes = ", ".join(f"i64 {lane_bytes * lane}" for lane in range(n))
            self._lane_offsets[key] = self.assign(f"add <{n} x i64> {rows}, <{lanes}>") if lane_bytes else rows
        base = self._pointer(location, None)
        return self.assign(f"getelementptr i8, {base}, <{n} x i64> {self._lane_offsets[key]}")

    def alignment(self, _location: MemoryLocation) -> int:
        """Alignment in bytes of the address of a memory location, which allows the compiler to combine accesses."""
        return self.scalar_bytes

    def index_multiple(self, index: int) -> int:
        """Integer that a dynamic index is known to be a multiple of; loaded values count as integers."""
        return self._value_multiple(index) or 1

    def _value_multiple(self, value: Operand) -> int | None:
        """Alignment analysis: an integer that a value is a multiple of; None if the value may not be an integer.

        Derived from the defining instructions by greatest common divisors.
        """
        if isinstance(value, float):
            return abs(int(value)) or MULTIPLE_OF_ZERO if value.is_integer() else None
        definition = self.definitions.get(value)
        if definition is None or definition.location is not None or definition.op == "loop_index":
            return 1
        if definition.op == "floor":
            return 1
        multiples = [
            self._value_multiple(x) for x in (definition.args[2:] if definition.op == "select" else definition.args)
        ]
        known_multiples = [x for x in multiples if x is not None]
        if len(known_multiples) < len(multiples):
            return None
        match definition.op:
            case "add" | "sub" | "min" | "max" | "select":
                return gcd(*known_multiples)
            case "mul" | "fma" | "fms" | "fnma":
                return gcd(known_multiples[0] * known_multiples[1], *known_multiples[2:])
        return None

    def _is_masked(self, location: MemoryLocation) -> bool:
        """Whether a store must keep the old value in inactive lanes; not needed in local memory of absent lanes."""
        if self.mask is None or location.array in self.uniform_count_arrays:
            return False
        address = self.address_resolver.resolve(location)
        return not (
            self.mask == self.present_lanes and (address.arena == SCRATCH or self.address_resolver.is_local(address))
        )

    def _pointer(self, location: MemoryLocation, index: str | None) -> str:
        """Emit the address of a memory location, for the first lane of the vector; returns pointer type and name.

        Table constants, local arrays, the exchange array, uniform values, scratch memory (with the hand-off area) and
        device buffers each have an addressing scheme of their own. `index` is the dynamic index as an integer, or None.
        """
        address = self.address_resolver.resolve(location)
        if not address.arena:  # a table constant
            assert address.column is not None
            return self._element_pointer(
                self.arena_pointer_type,
                self.scalar_type,
                f"%constants{address.column[0]}{self._constants_suffix(*address.column)}",
                str(address.column[1]),
            )
        if not self.target.is_gpu:
            return self._host_pointer(address, index)
        row = self.row_expression(address, index)
        if self.address_resolver.is_local(address):
            return self._element_pointer("ptr", self.vector_type, self.local_arrays[address.arena], row)
        if address.arena == EXCHANGE:
            return self._element_pointer("ptr addrspace(3)", f"[{WARP_SIZE} x {self.scalar_type}]", "%exchange_e", row)
        if address.arena in (UNIFORM, PRECOMPUTED):
            base = "%uniform" if address.arena == UNIFORM else "%out"
            return self._element_pointer(self.arena_pointer_type, self.scalar_type, base, row)
        if address.arena == SCRATCH:
            if index is None and address.column is None and address.row < self.n_handoff_rows:
                return self._element_pointer(
                    self.arena_pointer_type, self.scalar_type, "%handoff_e", str(handoff_offset(address.row, WARP_SIZE))
                )
            return self.thread_scratch_pointer(row)
        return f"{self.arena_pointer_type} {self.row_pointer(f'%{address.arena}_e', row)}"

    def _host_pointer(self, address: Address, index: str | None) -> str:
        """Emit the address of an array element on a CPU; returns pointer type and name.

        The dynamic part of an address is computed once per basic block; constant rows are added to it, which is part of
        the addressing mode of the access.
        """
        base, element_type, is_scalar = f"%{address.arena}_e", "", False
        element = address.arena, address.row
        if element in self.split_elements:
            return self._lane_pointer(self.split_elements[element], is_scalar=element in self.scalar_storage)
        if self.address_resolver.is_local(address):
            base, is_scalar = self.local_arrays[address.arena], address.arena in self.scalar_storage
            element_type = self.scalar_type if is_scalar else self.vector_type
        elif address.arena in (UNIFORM, PRECOMPUTED):
            base, element_type, is_scalar = "%uniform" if address.arena == UNIFORM else "%out", self.scalar_type, True
        elif address.arena == SCRATCH:
            base, element_type = "%scratch", self.vector_type
        elif self.target.has_contiguous_rows:
            element_type = self.scalar_type
        column = None if address.column is None else self.column_values[address.column]
        for term in (column, index, str(address.row) if address.row else None):
            if term is not None:
                base = self._row_pointer_in_block(base, element_type, term)
        return self._lane_pointer(base, is_scalar=is_scalar)

    def _row_pointer_in_block(self, base: str, element_type: str, row: str) -> str:
        """Pointer `row` rows behind `base`, computed once per basic block: rows of a type, or of an arena if empty."""
        key = base, element_type, row
        pointer = self._block_pointers.get(key)
        if pointer is None:
            pointer = self._block_pointers[key] = (
                self.assign(f"getelementptr {element_type}, ptr {base}, i64 {row}")
                if element_type
                else self.row_pointer(base, row)
            )
        return pointer

    def _lane_pointer(self, pointer: str, *, is_scalar: bool) -> str:
        """Address of the current lane's scalar in scalarized code, else the pointer itself."""
        if self.lane is None or is_scalar:
            return f"ptr {pointer}"
        return self._element_pointer("ptr", self.scalar_type, pointer, self.lane)

    def _constants_suffix(self, loop_number: int, column: int) -> str:
        """Suffix of the pointer to the constants of a loop iteration that has a column."""
        tables = self.constant_tables.get(loop_number)
        return self.name_suffix if tables is None else tables[column]

    # -------------------------------------------------------------------------------------------------------- addresses

    def set_env_pointers(self, env: str) -> None:
        """Emit pointers to the data of an environment in all arenas of a GPU kernel."""
        for name, arena in (("state", "state"), ("out", "out"), ("controls", "controls_start")):
            self.emit(f"%{name}_e = getelementptr {self.scalar_type}, {self.arena_pointer_type} %{arena}, i32 {env}")
        self.set_scratch_pointers(env)

    def set_scratch_pointers(self, env: str) -> None:
        """Emit pointers to the scratch memory of an environment: `%scratch_e`, and `%handoff_e` for the hand-off area.

        The scratch memory of the 32 environments of a warp is contiguous.
        """
        group = self.assign(f"zext i32 {self.assign(f'udiv i32 {env}, {WARP_SIZE}')} to i64")
        start = self.assign(f"mul i64 {group}, {WARP_SIZE * max(self.target.n_scratch, 1)}")
        lane = self.assign(f"zext i32 {self.assign(f'urem i32 {env}, {WARP_SIZE}')} to i64")
        for name, width in (("scratch_e", 1), *([("handoff_e", ROW_GROUP)] if self.target.n_handoff_rows else [])):
            offset = self.assign(f"add i64 {start}, {self.assign(f'mul i64 {lane}, {width}')}")
            self.emit(f"%{name} = getelementptr {self.scalar_type}, {self.arena_pointer_type} %scratch, i64 {offset}")

    def thread_scratch_pointer(self, row: str) -> str:
        """Address of a scratch offset of the current environment on a GPU, at a constant distance.

        As the 32 environments of a warp are interleaved, no multiplication by the number of environments is needed,
        which would be a fifth of the instructions of straight-line code.
        """
        return self._element_pointer(self.arena_pointer_type, f"[{WARP_SIZE} x {self.scalar_type}]", "%scratch_e", row)

    def row_expression(self, address: Address, index: str | None) -> str:
        """Integer row of an address in its arena: constant row, offset from a table column and dynamic index."""
        terms = [str(address.row)] if address.row else []
        terms += [self.column_values[address.column]] if address.column is not None else []
        terms += [index] if index is not None else []
        row = terms.pop(0) if terms else "0"
        for term in terms:
            row = self.assign(f"add {self.index_type} {term}, {row}")
        return row

    def _element_pointer(self, pointer: str, element_type: str, base: str, index: str) -> str:
        return f"{pointer} {self.assign(f'getelementptr {element_type}, {pointer} {base}, {self.index_type} {index}')}"

    def row_pointer(self, base: str, row: str) -> str:
        """Pointer `row` rows behind `base` in an arena.

        On a GPU an inline assembly instruction, opaque to LLVM: it would hoist address computations and keep the
        addresses live in registers.
        """
        if self.target.is_gpu:
            return self.assign(
                f"call {self.arena_pointer_type} {MAD_WIDE_ASM}"
                f"(i32 {row}, i32 %pitch, {self.arena_pointer_type} {base})"
            )
        if self.target.has_contiguous_rows:
            return self.assign(f"getelementptr {self.scalar_type}, ptr {base}, i64 {row}")
        return self.assign(f"getelementptr i8, ptr {base}, i64 {self.assign(f'mul i64 %pitch, {row}')}")


def counted_loops(statements: Statements) -> Iterator[CountedLoop]:
    """Iterate over all counted loops, including nested ones."""
    for block in statements:
        if isinstance(block, CountedLoop):
            yield block
        for body in nested_bodies(block):
            yield from counted_loops(body)
