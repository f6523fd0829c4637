"""LLVM's text for the blocks and lines of a program, and for the memory that they work on.

Conditions and loops of unknown length run as long as any environment of a vector takes part; the others store nothing.
Item `i` of an array that starts at row `r` of an arena is the number `(r + i) * stride + e` there, for environment `e`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .blocks import FIRST, MANY, SCRATCH, Blocks, Count, If, Instruction, Line, Loop, Operand, Place, Repeat, Slot, inner
from .llvm_words import LlvmWords
from .lowering import UNIFORM, Addresses, Target, uniform_values
from .program import Program
from .split import EXCHANGE

WARP = 32
"""Threads of a GPU that run together."""
READ_ONLY = ("", "told", UNIFORM)
"""Where no program writes: constants of rows, and what all steps or this one are told."""
WIDE = 'asm "mad.wide.s32 $0, $1, $2, $3;", "=l,ri,r,l"'
"""A product of two counters, which may be too large for one, and a sum."""
Names = Mapping[int, str]
"""What the values of a line are called."""


class LlvmBlocks(LlvmWords):
    """A function that is being written, about the pointers `%state_e`, `%told_e`, ... of its environment."""

    addresses: Addresses
    locals: dict[str, str]
    shared_counts: set[str]
    """Local arrays that hold how often environments turn together: also those hold it that take no part."""

    def __init__(self, places: Mapping[str, Place], target: Target) -> None:
        super().__init__(target)
        self.places = {**places, EXCHANGE: Place(EXCHANGE, 0)}
        self.mask: str | None = None
        """The environments of a vector that take part; None for all."""
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
        self._columns: dict[tuple[int, int], str] = {}
        """Row numbers of the tables' rows that the text is in."""

    def allocate(self, program: Program) -> dict[str, str]:
        """Memory for the local arrays of a program: what they are called. It has to be at a function's start."""
        return {
            name: self.set(f"alloca [{max(count, 1)} x {self.kn}], align 16") for name, count in program.locals.items()
        }

    def enter(self, program: Program, local_arrays: dict[str, str]) -> None:
        """What is written from here on is of that program."""
        self.addresses = Addresses(program, self.places)
        self.locals = local_arrays
        self.shared_counts = {block.count.array for block in counted(program.blocks) if block.uniform}

    # ---------------------------------------------------------------------------------------------------- blocks

    def blocks(self, blocks: Blocks) -> None:
        """Blocks, one after the other."""
        for block in blocks:
            match block:
                case Line():
                    self._line(block)
                case Loop():
                    self._loop(block)
                case Count():
                    self._counted(block)
                case Repeat():
                    self._repeat(block)
                case If():
                    self._condition(block)

    def _loop(self, loop: Loop) -> None:
        number, at = self.addresses.number_of(loop), self.addresses.header(loop)
        count, start, first = (self._int("ints", f"{at + i}") for i in range(3))
        if loop.within:
            outer, case = self.addresses.rows[-1]
            own, many = (self._columns[outer, case.arrays[word + loop.within][1]] for word in (FIRST, MANY))
            rows, turn = self.begin("0", many)
            row = self.set(f"add {self.i} {own}, {turn}")
        else:
            rows, row = self.begin("0", count)
        for name, begin, width in (("row", start, loop.ints.shape[1]), ("number", first, loop.floats.shape[1])):
            offset = self.set(f"mul {self.i} {row}, {width}")
            index = self.set(f"add {self.i} {begin}, {offset}")
            kind, array = ("i32", "ints") if name == "row" else (self.n, "floats")
            self.put(f"%{name}{number} = getelementptr {kind}, {self.pointer} %{array}, {self.i} {index}")
        after = self.fresh("after")
        labels = [self.fresh("case") for _ in loop.cases]
        if len(loop.cases) > 1:
            kind = self.set(f"load i32, {self.pointer} %row{number}{self.fixed}")
            targets = " ".join(f"i32 {i}, label %{label}" for i, label in enumerate(labels))
            self.put(f"switch i32 {kind}, label %{labels[-1]} [ {targets} ]")
        else:
            self.put(f"br label %{labels[0]}")
        for case, label in zip(loop.cases, labels, strict=True):
            self.open(label)
            for _, column in case.arrays.values():
                self._columns[number, column] = self._int(f"row{number}", str(column))
            self.addresses.rows.append((number, case))
            self.blocks(case.blocks)
            self.addresses.rows.pop()
            self.put(f"br label %{after}")
        self.open(after)
        self.end(rows)

    def _int(self, array: str, index: str) -> str:
        at = self.set(f"getelementptr i32, {self.pointer} %{array}, {self.i} {index}")
        value = self.set(f"load i32, {self.pointer} {at}{self.fixed}")
        return value if self.target.gpu else self.set(f"sext i32 {value} to i64")

    def _narrowed(self, mask: str) -> str | None:
        """The mask of a body: one environment alone is only there if it takes part."""
        return mask if self.target.lanes > 1 else None

    def _above_half(self, slot: Slot) -> str:
        return self.set(f"fcmp ogt {self.kn} {self._load(slot, {})}, {self.constant(0.5)}")

    def _condition(self, block: If) -> None:
        outer = self.mask
        mask = self.both(self._above_half(block.flag), outer)
        body, done = self.fresh("then"), self.fresh("done")
        self.put(f"br i1 {self.any_of(mask)}, label %{body}, label %{done}")
        self.open(body)
        self.mask = self._narrowed(mask)
        self.blocks(block.body)
        self.put(f"br label %{done}")
        self.open(done)
        self.mask = outer

    def _repeat(self, block: Repeat) -> None:
        outer, before = self.mask, self.label
        head, done = self.fresh("repeat"), self.fresh("done")
        self.put(f"br label %{head}")
        self.open(head)
        place = len(self.lines)
        self.lines += ["", ""]
        self.mask = self._narrowed(f"%{head}.mask")
        self.blocks(block.body)
        mask = self.both(self._above_half(block.again), self.mask)
        turns = self.set(f"add {self.i} %{head}.i, 1")
        more = self.set(f"icmp ult {self.i} {turns}, {block.most}")
        go_on = self.set(f"and i1 {self.any_of(mask)}, {more}")
        self.put(f"br i1 {go_on}, label %{head}, label %{done}")
        self.lines[place] = f"  %{head}.i = phi {self.i} [ 0, %{before} ], [ {turns}, %{self.label} ]"
        first = outer or self.all_of()
        self.lines[place + 1] = f"  %{head}.mask = phi {self.i1} [ {first}, %{before} ], [ {mask}, %{self.label} ]"
        self.open(done)
        self.mask = outer

    def _counted(self, block: Count) -> None:
        if block.uniform:
            self._counted_together(block)
            return
        outer, before = self.mask, self.label
        number = self._load(block.count, {})
        head, body, done = self.fresh("count"), self.fresh("body"), self.fresh("done")
        self.put(f"br label %{head}")
        self.open(head)
        place = len(self.lines)
        self.put("")
        turn = self.splat(self.set(f"sitofp {self.i} %{head}.i to {self.n}"))
        below = self.set(f"fcmp olt {self.kn} {turn}, {number}")
        mask = self.both(below, outer)  # others may hold anything
        self.put(f"br i1 {self.any_of(mask)}, label %{body}, label %{done}")
        self.open(body)
        self.mask = self._narrowed(mask)
        self._turn(block.body, turn, f"%{head}.i")
        after = self.set(f"add {self.i} %{head}.i, 1")
        self.lines[place] = f"  %{head}.i = phi {self.i} [ 0, %{before} ], [ {after}, %{self.label} ]"
        self.put(f"br label %{head}")
        self.open(done)
        self.mask = outer

    def _counted_together(self, block: Count) -> None:
        """All environments turn as often."""
        limit = self._whole_number(self._load(block.count, {}), 0, shared=True)
        loop, counter = self.begin("0", limit)
        self._turn(block.body, self.splat(self.set(f"sitofp {self.i} {counter} to {self.n}")), counter)
        self.end(loop)

    def _turn(self, body: Blocks, turn: str, counter: str) -> None:
        self.turns.append(turn)
        self.counters.append(counter)
        self.blocks(body)
        self.turns.pop()
        self.counters.pop()

    # ----------------------------------------------------------------------------------------------------- lines

    def _line(self, line: Line) -> None:
        """Instructions, then stores; sine and cosine of one angle are computed together."""
        self.made_by = {i.target: i for i in line.instructions}
        self.uniform = uniform_values(line.instructions, self.addresses)
        names: dict[int, str] = {}
        pairs = _sine_pairs(line)
        for instruction in line.instructions:
            if instruction.target not in names:
                names.update(self._instruction(instruction, names, pairs))
        for store in line.stores:
            self._store(store.slot, self._operand(store.value, names), names)

    def _instruction(
        self, instruction: Instruction, names: Names, pairs: Mapping[Operand, tuple[int, int]]
    ) -> dict[int, str]:
        if instruction.slot is not None:
            return {instruction.target: self._load(instruction.slot, names)}
        args = [self._operand(a, names) for a in instruction.args]
        if instruction.op in ("sin", "cos"):
            both = self.sine_and_cosine(args[0])
            if instruction.args[0] in pairs:
                return dict(zip(pairs[instruction.args[0]], both, strict=True))
            return {instruction.target: both[instruction.op == "cos"]}
        return {instruction.target: self.operation(instruction.op, args)}

    def _operand(self, operand: Operand, names: Names) -> str:
        return names[operand] if isinstance(operand, int) else self.constant(operand)

    # ----------------------------------------------------------------------------------------------------- memory

    def _load(self, slot: Slot, names: Names) -> str:
        if slot.index is None:
            return self._load_at(slot, None)
        index = names[slot.index]
        if slot.index in self.uniform or self.target.lanes == 1:
            return self._load_at(slot, self._shared_index(slot.index, index))
        result = "poison"
        for lane in range(self.target.lanes):
            at = self._pointer(slot, self._whole_number(index, lane))
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
        return self.set(f"load {self.kn}, {at}, align {self.size}{fixed}")

    def _shared_index(self, value: int, name: str) -> str:
        """An index that is the same for all: of turns alone it is computed in whole numbers."""
        return self._of_turns(value) or self._whole_number(name, 0, shared=True)

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

    def _whole_number(self, index: str, lane: int, *, shared: bool = False) -> str:
        """The index of one environment, or of all; one that takes no part may have any, and gets none."""
        if self.target.lanes > 1:
            index = self.set(f"extractelement {self.kn} {index}, i64 {lane}")
        whole = self.set(f"fptosi {self.n} {index} to {self.i}")
        if self.mask is None or shared:
            return whole
        active = self.set(f"extractelement {self.i1} {self.mask}, i64 {lane}")
        return self.set(f"select i1 {active}, i64 {whole}, i64 0")

    def _store(self, slot: Slot, value: str, names: Names) -> None:
        if slot.index is not None and slot.index not in self.uniform and self.target.lanes > 1:
            for lane in range(self.target.lanes):
                at = self._pointer(slot, self._whole_number(names[slot.index], lane))
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
        if self.mask is not None and slot.array not in self.shared_counts:
            old = self.set(f"load {self.kn}, {at}, align {self.size}")
            value = self.set(f"select {self.i1} {self.mask}, {self.kn} {value}, {self.kn} {old}")
        self.put(f"store {self.kn} {value}, {at}, align {self.size}")

    def _pointer(self, slot: Slot, index: str | None) -> str:
        """Where an item is, of the first environment of the vector: the type of the pointer, and its name."""
        address = self.addresses.of(slot)
        if not address.arena:  # a constant of a row
            assert address.column is not None
            return self._at(self.pointer, self.n, f"%number{address.column[0]}", str(address.column[1]))
        terms = [str(address.row)] if address.row else []
        terms += [self._columns[address.column]] if address.column is not None else []
        terms += [index] if index is not None else []
        row = terms.pop(0) if terms else "0"
        for term in terms:
            row = self.set(f"add {self.i} {term}, {row}")
        if self.addresses.is_local(address):
            return self._at("ptr", self.kn, self.locals[address.arena], row)
        if address.arena == EXCHANGE:
            return self._at("ptr addrspace(3)", f"[{WARP} x {self.n}]", "%exchange_e", row)
        if address.arena == UNIFORM:
            return self._at(self.pointer, self.n, "%uniform", row)
        if address.arena == SCRATCH and not self.target.gpu:
            return self._at("ptr", self.kn, "%scratch", row)
        return f"{self.pointer} {self.below(f'%{address.arena}_e', row)}"

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


def _sine_pairs(line: Line) -> dict[Operand, tuple[int, int]]:
    """Angles of which both sine and cosine are wanted -> the two values."""
    sines = {i.args[0]: i.target for i in line.instructions if i.op == "sin"}
    cosines = {i.args[0]: i.target for i in line.instructions if i.op == "cos"}
    return {angle: (sines[angle], cosines[angle]) for angle in sines if angle in cosines}
