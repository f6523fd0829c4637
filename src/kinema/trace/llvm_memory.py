"""LLVM's text for the memory that programs work on: arenas, local arrays, constants of rows.

Item `i` of an array that starts at row `r` of an arena is the number `(r + i) * stride + e` there, for environment `e`;
in the scratch memory, that of a vector of a CPU or of the 32 threads of a warp lies together, row by row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from math import gcd

from .alone import Owned, any_alone, owned
from .blocks import Blocks, Count, Instruction, inner
from .conventions import UNIFORM
from .given import GROUP, offset
from .llvm_words import LlvmWords
from .lowering import Address, Addresses, Target
from .program import Program
from .slots import SCRATCH, Operand, Place, Slot
from .split import EXCHANGE

WARP = 32
"""Threads of a GPU that run together."""
READ_ONLY = ("", "told", UNIFORM)
"""Where no program writes: constants of rows, and what all steps or this one are told."""
NOTHING_LESS = 1 << 20
"""Zero is a multiple of everything."""
WIDE = 'asm "mad.wide.s32 $0, $1, $2, $3;", "=l,ri,r,l"'
"""A product of two counters, which may be too large for one, and a sum."""
Names = Mapping[int, str]
"""What the values of a line are called."""


class LlvmMemory(LlvmWords):
    """The memory of a function that is being written."""

    n_given = 0
    """Rows of the scratch memory, the first, that lie in groups; 0 where none of these is named."""

    program: Program
    addresses: Addresses
    locals: dict[str, str]
    shared_counts: set[str]
    """Local arrays that hold how often environments turn together: also those hold it that take no part."""

    def __init__(self, places: Mapping[str, Place], target: Target) -> None:
        super().__init__(target)
        self.places = {**places, EXCHANGE: Place(EXCHANGE, 0)}
        self.mask: str | None = None
        """The environments of a vector that take part; None for all."""
        self.present: str | None = None
        """Those that there are: the last vector may be wider. The others may compute what they like for themselves."""
        self.uniform: set[int] = set()
        """The values of a line that environments share."""
        self.made_by: dict[int, Instruction] = {}
        """The instructions of a line."""
        self.counters: list[str] = []
        """Whole numbers of the turns that the text is in."""
        self.pointer = "ptr addrspace(1)" if target.gpu else "ptr"
        """The type of pointers to arenas: a GPU has several kinds of memory."""
        self.fixed = ", !invariant.load !0" if target.gpu else ""
        """What is read only has a cache of its own on a GPU."""
        self.columns: dict[tuple[int, int], str] = {}
        """Row numbers of the tables' rows that the text is in."""
        self.copy = ""
        """Of the text that is written, where the same is written for several rows: a part of their names."""
        self.pitches: dict[int, int] = {}
        """Of tables that are laid out by columns: how far apart these are."""
        self.lane: str | None = None
        """Which environment of a vector the text is about; None for all of them."""
        self.items: dict[tuple[str, int], str] = {}
        """Numbers of local arrays that lie by themselves."""
        self.narrow: frozenset[str | tuple[str, int]] = frozenset()
        """Local arrays, and such numbers, of one environment at a time."""
        self.frame: Mapping[str, int] = {}
        """Where local arrays start that functions share (`outline.py`)."""
        self.owned: Owned | None = None
        """Which local arrays of the program are whose, once that is known."""

    def allocate(self, program: Program, names: Collection[str] | None = None) -> dict[str, str]:
        """Memory for the local arrays of a program: what they are called. It has to be at a function's start.

        For all of them, or those with some names.
        """
        own = {name: count for name, count in program.locals.items() if names is None or name in names}
        if self.target.lanes == 1 or not any_alone(program.blocks):
            return {name: self._room(name, count, self.kn) for name, count in own.items()}
        if self.owned is None:
            self.owned = owned(program)
        self.narrow = self.owned.narrow | self.owned.narrow_items
        for name in sorted(self.owned.apart & own.keys()):
            keys = [(name, i) for i in range(own[name])]
            self.items |= {key: self._room(name, 1, self.n if key in self.narrow else self.kn, key[1]) for key in keys}
        return {
            name: self._room(name, count, self.n if name in self.narrow else self.kn)
            for name, count in own.items()
            if name not in self.owned.apart
        }

    def allocate_frame(self, program: Program) -> None:
        """Memory for the local arrays that functions which this one calls share with it."""
        if self.frame:
            count = sum(program.locals[name] for name in self.frame)
            self.put(f"%frame = alloca [{max(count, 1)} x {self.vector}], align 16")

    def _room(self, name: str, count: int, kind: str, item: int = 0) -> str:
        if name in self.frame:
            return self.set(f"getelementptr {self.vector}, ptr %frame, i64 {self.frame[name] + item}")
        return self.set(f"alloca [{max(count, 1)} x {kind}], align 16")

    def enter(self, program: Program, local_arrays: dict[str, str]) -> None:
        """What is written from here on is of that program."""
        self.program = program
        self.addresses = Addresses(program, self.places)
        self.locals = local_arrays
        self.shared_counts = {block.count.array for block in counted(program.blocks) if block.uniform}

    # ------------------------------------------------------------------------------------------ numbers in memory

    def load(self, slot: Slot, names: Names) -> str:
        """A number of each environment."""
        if slot.index is None:
            return self._load_at(slot, None)
        index = names[slot.index]
        if slot.index in self.uniform or self.target.lanes == 1:
            return self._load_at(slot, self._shared_index(slot.index, index))
        result = "poison"
        for lane in range(self.target.lanes):
            at = self._pointer(slot, self.whole_number(index, lane))
            own = 0 if self.addresses.of(slot).arena == UNIFORM else lane
            one = self.set(f"getelementptr {self.n}, {at}, i64 {own}")
            value = self.set(f"load {self.n}, ptr {one}, align {self.size}")
            result = self.set(f"insertelement {self.kn} {result}, {self.n} {value}, i64 {lane}")
        return result

    def _load_at(self, slot: Slot, index: str | None) -> str:
        arena, at = self.addresses.of(slot).arena, self._pointer(slot, index)
        fixed = self.fixed if arena in READ_ONLY else ""
        if arena in ("", UNIFORM):
            return self.splat(self.set(f"load {self.n}, {at}{fixed}"))
        return self.set(f"load {self.kn}, {at}, align {self.alignment(slot)}{fixed}")

    def _shared_index(self, value: int, name: str) -> str:
        """An index that is the same for all: of turns alone it is computed in whole numbers."""
        return self._of_turns(value) or self.whole_number(name, 0, shared=True)

    def _of_turns(self, value: Operand) -> str | None:
        """A whole number that is made of turns and constants; None for others."""
        if isinstance(value, float):
            return str(int(value)) if value.is_integer() else None
        maker = self.made_by[value]
        if maker.op == "turn":
            return self.counters[-1]
        if maker.op not in ("add", "sub", "mul"):
            return None
        a, b = (self._of_turns(x) for x in maker.args)
        return None if a is None or b is None else self.set(f"{maker.op} {self.i} {a}, {b}")

    def whole_number(self, index: str, lane: int, *, shared: bool = False) -> str:
        """The index of one environment, or of all; one that takes no part may have any, and gets none."""
        if self.target.lanes > 1:
            index = self.set(f"extractelement {self.kn} {index}, i64 {lane}")
        whole = self.set(f"fptosi {self.n} {index} to {self.i}")
        if self.mask is None or shared:
            return whole
        active = self.set(f"extractelement {self.i1} {self.mask}, i64 {lane}")
        return self.set(f"select i1 {active}, i64 {whole}, i64 0")

    def store(self, slot: Slot, value: str, names: Names) -> None:
        """Set a number of each environment that takes part."""
        if slot.index is not None and slot.index not in self.uniform and self.target.lanes > 1:
            for lane in range(self.target.lanes):
                at = self._pointer(slot, self.whole_number(names[slot.index], lane))
                one = "ptr " + self.set(f"getelementptr {self.n}, {at}, i64 {lane}")
                new = self.set(f"extractelement {self.kn} {value}, i64 {lane}")
                if self.mask is not None:
                    old = self.set(f"load {self.n}, {one}, align {self.size}")
                    active = self.set(f"extractelement {self.i1} {self.mask}, i64 {lane}")
                    new = self.set(f"select i1 {active}, {self.n} {new}, {self.n} {old}")
                self.put(f"store {self.n} {new}, {one}, align {self.size}")
            return
        index = None if slot.index is None else self._shared_index(slot.index, names[slot.index])
        at = self._pointer(slot, index)
        if self._is_masked(slot):
            old = self.set(f"load {self.kn}, {at}, align {self.size}")
            value = self.set(f"select {self.i1} {self.mask}, {self.kn} {value}, {self.kn} {old}")
        self.put(f"store {self.kn} {value}, {at}, align {self.alignment(slot)}")

    def alignment(self, _slot: Slot) -> int:
        """Bytes of which the place of a number is a multiple: what is known of it may be read together with others."""
        return self.size

    def multiple(self, index: int) -> int:
        """A whole number of which an index is a multiple; what was read to make it is taken for whole."""
        return self._multiple(index) or 1

    def _multiple(self, value: Operand) -> int | None:
        """Likewise of a value; None for one that may not be whole."""
        if isinstance(value, float):
            return abs(int(value)) or NOTHING_LESS if value.is_integer() else None
        maker = self.made_by.get(value)
        if maker is None or maker.slot is not None or maker.op == "turn":
            return 1
        if maker.op == "floor":
            return 1
        own = [self._multiple(x) for x in (maker.args[2:] if maker.op == "select" else maker.args)]
        known = [x for x in own if x is not None]
        if len(known) < len(own):
            return None
        match maker.op:
            case "add" | "sub" | "min" | "max" | "select":
                return gcd(*known)
            case "mul" | "fma" | "fms" | "fnma":
                return gcd(known[0] * known[1], *known[2:])
        return None

    def _is_masked(self, slot: Slot) -> bool:
        """Whether something of environments that take no part is kept from a store."""
        if self.mask is None or slot.array in self.shared_counts:
            return False
        address = self.addresses.of(slot)
        return not (self.mask == self.present and (address.arena == SCRATCH or self.addresses.is_local(address)))

    def _pointer(self, slot: Slot, index: str | None) -> str:
        """Where an item is, of the first environment of the vector: the type of the pointer, and its name."""
        address = self.addresses.of(slot)
        if not address.arena:  # a constant of a row
            assert address.column is not None
            return self._at(self.pointer, self.n, f"%number{address.column[0]}{self.copy}", str(address.column[1]))
        row = self.row_of(address, index)
        if self.addresses.is_local(address):
            return self._local(address, row)
        if address.arena == EXCHANGE:
            return self._at("ptr addrspace(3)", f"[{WARP} x {self.n}]", "%exchange_e", row)
        if address.arena == UNIFORM:
            return self._at(self.pointer, self.n, "%uniform", row)
        if address.arena == SCRATCH:
            if index is None and address.column is None and address.row < self.n_given:
                return self._at(self.pointer, self.n, "%given_e", str(offset(address.row, WARP)))
            return self.common(row) if self.target.gpu else self._own(self._at("ptr", self.vector, "%scratch", row))
        return self._own(f"{self.pointer} {self.below(f'%{address.arena}_e', row)}")

    def point(self, env: str) -> None:
        """Where the numbers of an environment start on a GPU, in all arenas."""
        for name, arena in (("state", "state"), ("out", "out"), ("told", "told_start")):
            self.put(f"%{name}_e = getelementptr {self.n}, {self.pointer} %{arena}, i32 {env}")
        self.point_scratch(env)

    def point_scratch(self, env: str) -> None:
        """Likewise, in the scratch memory."""
        patch = self.set(f"zext i32 {self.set(f'udiv i32 {env}, {WARP}')} to i64")
        start = self.set(f"mul i64 {patch}, {WARP * max(self.target.n_scratch, 1)}")
        lane = self.set(f"zext i32 {self.set(f'urem i32 {env}, {WARP}')} to i64")
        for name, width in (("scratch_e", 1), *([("given_e", GROUP)] if self.target.n_given else [])):
            at = self.set(f"add i64 {start}, {self.set(f'mul i64 {lane}, {width}')}")
            self.put(f"%{name} = getelementptr {self.n}, {self.pointer} %scratch, i64 {at}")

    def common(self, row: str) -> str:
        """A number of the scratch memory of a GPU, that of 32 environments row by row: a distance that is known.

        As far apart as those of all environments, each would be an instruction or two to be found, a fifth of a line.
        """
        return self._at(self.pointer, f"[{WARP} x {self.n}]", "%scratch_e", row)

    def _local(self, address: Address, row: str) -> str:
        item = address.arena, address.row
        if item in self.items:
            base, row, narrow = self.items[item], "0", item in self.narrow
        else:
            base, narrow = self.locals[address.arena], address.arena in self.narrow
        return self._at("ptr", self.n, base, row) if narrow else self._own(self._at("ptr", self.vector, base, row))

    def _own(self, pointer: str) -> str:
        """Where the number of the one environment is that the text is about."""
        return pointer if self.lane is None else self._at("ptr", self.n, pointer.removeprefix("ptr "), self.lane)

    def row_of(self, address: Address, index: str | None) -> str:
        """Which row of its arena an item is in."""
        terms = [str(address.row)] if address.row else []
        terms += [self.columns[address.column]] if address.column is not None else []
        terms += [index] if index is not None else []
        row = terms.pop(0) if terms else "0"
        for term in terms:
            row = self.set(f"add {self.i} {term}, {row}")
        return row

    def _at(self, pointer: str, kind: str, base: str, index: str) -> str:
        return f"{pointer} {self.set(f'getelementptr {kind}, {pointer} {base}, {self.i} {index}')}"

    def below(self, base: str, rows: str) -> str:
        """What is so many rows further on in an arena.

        On a GPU an instruction that LLVM does not see through: it would compute each address once, and keep those of
        what is read first and written last all the while, in registers that the numbers need.
        """
        if self.target.gpu:
            return self.set(f"call {self.pointer} {WIDE}(i32 {rows}, i32 %pitch, {self.pointer} {base})")
        return self.set(f"getelementptr i8, ptr {base}, i64 {self.set(f'mul i64 %pitch, {rows}')}")


def counted(blocks: Blocks) -> Iterator[Count]:
    """All counted loops."""
    for block in blocks:
        if isinstance(block, Count):
            yield block
        for body in inner(block):
            yield from counted(body)
