"""LLVM's text for the blocks and lines of a program.

Conditions and loops of unknown length run as long as any environment of a vector takes part; the others store nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from kinema.foundation import clean_name, unique_name

from .blocks import Block, Blocks, Case, Count, If, Line, Loop, Repeat, Spread, Store, Team
from .conventions import LOOP, UNIFORM
from .equations import Arrange, Choose, Next, Solve
from .llvm_memory import LlvmMemory, Names
from .lowering import Target, uniform_values
from .slots import FIRST, MANY, SCRATCH, Operand, Place, Slot

POINTERS_OF_LOOPS = ("state_e", "told_e", "out_e", UNIFORM, SCRATCH, "ints", "floats")
"""What such a function finds under the names that it has in the function around it."""


@dataclass(frozen=True, slots=True)
class OutlinedFunction:
    """A function that another one calls, and that has yet to be written."""

    head: str
    """Its type, symbol and parameters."""
    text: LlvmBlocks
    blocks: Blocks
    """What it does, those among it that are outlined themselves included."""
    write: Callable[[LlvmBlocks], None]


class LlvmBlocks(LlvmMemory):
    """A function that is being written, about the pointers `%state_e`, `%told_e`, ... of its environment."""

    def __init__(self, places: Mapping[str, Place], target: Target) -> None:
        super().__init__(places, target)
        self.outlined: Mapping[int, Collection[str]] = {}
        """Loops and cases that are functions of their own, by their identity, and their local arrays."""
        self.called: list[str] = []
        """The functions that this one calls, by their symbols and parameters."""
        self.pending: list[OutlinedFunction] = []
        """Outlined functions of the program that have yet to be written."""
        self.improve: Callable[[Line], Line] | None = None
        """What optimises a line before it is written."""
        self._symbols: set[str] = set()
        """Of outlined functions: unique within a program, and the same in every process."""

    # ---------------------------------------------------------------------------------------------------- blocks

    def blocks(self, blocks: Blocks) -> None:
        """Blocks, one after the other."""
        for block in blocks:
            match block:
                case Line() if id(block) in self.outlined:
                    self._call(block, "line", partial(LlvmBlocks._line, line=block))
                case Line():
                    self._line(block)
                case Loop() if id(block) in self.outlined:
                    self._call(block, block.name, partial(LlvmBlocks._loop, loop=block))
                case Loop():
                    self._loop(block)
                case Count():
                    self._counted(block)
                case Repeat():
                    self._repeat(block)
                case If():
                    self.condition(block, self.blocks)
                case Team():
                    self.blocks(block.body)
                case Next():
                    self._next(block)
                case Solve() | Arrange() | Spread() | Choose():
                    raise TypeError("that is for many threads")

    def _loop(self, loop: Loop) -> None:
        number, at = self.addresses.number_of(loop), self.addresses.header(loop)
        count, start, first = (self._int("ints", f"{at + i}") for i in range(3))
        if loop.within:
            outer, case = self.addresses.rows[-1]
            own, many = (self.columns[outer, case.arrays[word + loop.within][1]] for word in (FIRST, MANY))
            rows, turn = self.begin("0", many)
            row = self.set(f"add {self.i} {own}, {turn}")
        elif loop.chosen is not None and not self.target.gpu:
            rows, turn = self.begin("0", self._listed(loop.chosen, "0"))
            row = self._listed(loop.chosen, self.set(f"add {self.i} {turn}, 1"))
        else:
            rows, row = self.begin("0", count)
        self.row_of_table(loop, row, start, first)
        after = self.fresh("after")
        labels = [self.fresh("case") for _ in loop.cases]
        if len(loop.cases) > 1:
            kind = self.set(f"load i32, {self.pointer} %row{number}{self.fixed}")
            targets = " ".join(f"i32 {i}, label %{label}" for i, label in enumerate(labels))
            self.put(f"switch i32 {kind}, label %{labels[-1]} [ {targets} ]")
        else:
            self.put(f"br label %{labels[0]}")
        for i, (case, label) in enumerate(zip(loop.cases, labels, strict=True)):
            self.open(label)
            if id(case) in self.outlined:
                write = partial(LlvmBlocks.case_of_row, number=number, case=case)
                self._call(case, f"{loop.name} {i}", write, number)
            else:
                self.case_of_row(number, case)
            self.put(f"br label %{after}")
        self.open(after)
        self.end(rows)

    def _call(
        self, block: Block | Case, name: str, write: Callable[[LlvmBlocks], None], row: int | None = None
    ) -> None:
        """Call an outlined block, which is a function of its own; `row` is the loop whose row it is a case of."""
        own, arrays = type(self)(self.places, self.target), self.outlined[id(block)]
        own.frame = {name: start for name, start in self.frame.items() if name in arrays}
        own.owned, own.outlined, own.improve = self.owned, self.outlined, self.improve
        own.pending, own._symbols = self.pending, self._symbols
        own.enter(self.program, own.allocate(self.program, arrays))
        given = [("ptr noalias", f"%{name}", f"%{name}") for name in POINTERS_OF_LOOPS]
        given += [("ptr noalias", f"%{name}{row}", f"%{name}{row}") for name in ("row", "number") if row is not None]
        given += [("ptr noalias", "%frame", "%frame")] if own.frame else []
        given.append(("i64", "%pitch", "%pitch"))
        if self.present is not None:
            given.append((self.i1, "%present", self.present))
            own.present = "%present"
        if self.mask is not None:
            own.mask = "%present" if self.mask == self.present else "%mask"
            given += [(self.i1, "%mask", self.mask)] if own.mask == "%mask" else []
        symbol = unique_name(LOOP + clean_name(name), self._symbols)
        self._symbols.add(symbol)
        head = f"void @{symbol}({', '.join(f'{kind} {inside}' for kind, inside, _ in given)})"
        self.called.append(head)
        blocks = block.blocks if isinstance(block, Case) else (block,)
        self.pending.append(OutlinedFunction(head, own, blocks, write))
        self.put(f"call void @{symbol}({', '.join(f'{kind} {outside}' for kind, _, outside in given)})")

    def row_of_table(self, loop: Loop, row: str, start: str, first: str) -> None:
        """Where the integers and the numbers of a row are; those of the first are given."""
        number = self.addresses.number_of(loop)
        for name, begin, width in (("row", start, loop.ints.shape[1]), ("number", first, loop.floats.shape[1])):
            offset = self.set(f"mul {self.i} {row}, {width}")
            index = self.set(f"add {self.i} {begin}, {offset}")
            kind, array = ("i32", "ints") if name == "row" else (self.n, "floats")
            self.put(f"%{name}{number}{self.copy} = getelementptr {kind}, {self.pointer} %{array}, {self.i} {index}")

    def case_of_row(self, number: int, case: Case) -> None:
        """What a row does that is of this kind."""
        for arena, column in case.arrays.values():
            self.column(number, column, arena, column)
        self.addresses.rows.append((number, case))
        self.blocks(case.blocks)
        self.addresses.rows.pop()

    def _next(self, block: Next) -> None:
        number = self.load(block.counter, {})
        self.store(block.to, number, {})
        self.store(block.counter, self.operation("add", [number, self.constant(1.0)]), {})

    def _listed(self, place: Place, index: str) -> str:
        """A whole number of a list that all environments of a vector have in common: the first one's."""
        at = self.set(f"add {self.i} {index}, {place.row}")
        first = self.set(f"getelementptr {self.vector}, ptr %scratch, {self.i} {at}")
        return self.set(f"fptosi {self.n} {self.set(f'load {self.n}, ptr {first}, align {self.size}')} to {self.i}")

    def column(self, number: int, column: int, _arena: str, at: int) -> None:
        """Where an array of a row starts."""
        self.columns[number, column] = self._int(f"row{number}{self.copy}", str(at))

    def _int(self, array: str, index: str) -> str:
        at = self.set(f"getelementptr i32, {self.pointer} %{array}, {self.i} {index}")
        value = self.set(f"load i32, {self.pointer} {at}{self.fixed}")
        return value if self.target.gpu else self.set(f"sext i32 {value} to i64")

    def _narrowed(self, mask: str) -> str | None:
        """The mask of a body: one environment alone is only there if it takes part."""
        return mask if self.target.lanes > 1 else None

    def _above_half(self, slot: Slot) -> str:
        return self.set(f"fcmp ogt {self.kn} {self.load(slot, {})}, {self.constant(0.5)}")

    def condition(self, block: If, write: Callable[[Blocks], None]) -> None:
        """A condition, and what is written of its blocks where it holds for any environment."""
        outer = self.mask
        mask = self.both(self._above_half(block.flag), outer)
        body, done = self.fresh("then"), self.fresh("done")
        self.put(f"br i1 {self.any_of(mask)}, label %{body}, label %{done}")
        self.open(body)
        self.mask = self.present if block.together else self._narrowed(mask)
        if block.alone and self.target.lanes > 1:
            self._one_by_one(block.body, mask)
        else:
            write(block.body)
        self.put(f"br label %{done}")
        self.open(done)
        self.mask = outer

    def _one_by_one(self, body: Blocks, mask: str) -> None:
        """What environments do one after the other; there is one at least."""
        wide, turns, bits = self.target, self.turns, f"i{self.target.lanes}"
        those = self.set(f"zext {bits} {self.set(f'bitcast {self.i1} {mask} to {bits}')} to i64")
        head, after, before = self.fresh("one"), self.fresh("after"), self.label
        self.put(f"br label %{head}")
        self.open(head)
        place = len(self.lines)
        self.put("")
        self.lane = self.set(f"call i64 @llvm.cttz.i64(i64 %{head}.left, i1 true)")
        self.turns = [self.set(f"extractelement {self.kn} {turn}, i64 0") for turn in turns]
        self.mask = None
        self.be_wide(replace(wide, lanes=1))
        self.blocks(body)
        self.be_wide(wide)
        self.lane, self.turns = None, turns
        less = self.set(f"sub i64 %{head}.left, 1")
        left = self.set(f"and i64 %{head}.left, {less}")
        self.lines[place] = f"  %{head}.left = phi i64 [ {those}, %{before} ], [ {left}, %{self.label} ]"
        self.put(f"br i1 {self.set(f'icmp ne i64 {left}, 0')}, label %{head}, label %{after}")
        self.open(after)

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
        number = self.load(block.count, {})
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
        limit = self.whole_number(self.load(block.count, {}), 0, shared=True)
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
        """Instructions, then stores.

        What lies in a frame is stored as soon as it is computed, as it would be spilled until the end otherwise: 3 % of
        a G1's step. In vectors that is no gain.
        """
        line = line if self.improve is None else self.improve(line)
        soon = stored_soon(line, self.frame.keys()) if self.frame and self.target.lanes == 1 else {}
        names = self.instructions(line, soon)
        done = {store.slot for stores in soon.values() for store in stores}
        self.stores([store for store in line.stores if store.slot not in done], names)

    def instructions(self, line: Line, soon: Mapping[int, Sequence[Store]] | None = None) -> Names:
        """What the values of a line are called, once computed; sine and cosine of one angle are so together.

        What is to be stored `soon`, by its value, is stored at once.
        """
        self.made_by = {i.target: i for i in line.instructions}
        self.uniform = set() if self.target.lanes == 1 else uniform_values(line.instructions, self.addresses)
        names: dict[int, str] = {}
        pairs = sine_pairs(line)
        for target, op, arguments, slot in line.instructions:
            if target in names:
                continue
            new = (target,)
            if slot is not None:
                names[target] = self.load(slot, names)
            elif op in ("sin", "cos"):
                both = self.sine_and_cosine(self._operand(arguments[0], names))
                new = pairs.get(arguments[0], new)
                names.update(zip(new, both, strict=True) if len(new) == 2 else ((target, both[op == "cos"]),))
            else:
                known = [names[a] if type(a) is int else self.constant(a) for a in arguments]
                names[target] = self.operation(op, known)
            if soon:
                self.stores([store for value in new for store in soon.get(value, ())], names)
        return names

    def stores(self, stores: Sequence[Store], names: Names) -> None:
        """What a line stores."""
        for store in stores:
            self.store(store.slot, self._operand(store.value, names), names)

    def _operand(self, operand: Operand, names: Names) -> str:
        return names[operand] if isinstance(operand, int) else self.constant(operand)


def sine_pairs(line: Line) -> dict[Operand, tuple[int, int]]:
    """Angles of which both sine and cosine are wanted -> the two values."""
    sines = {i.args[0]: i.target for i in line.instructions if i.op == "sin"}
    cosines = {i.args[0]: i.target for i in line.instructions if i.op == "cos"}
    return {angle: (sines[angle], cosines[angle]) for angle in sines if angle in cosines}


def stored_soon(line: Line, arrays: Collection[str]) -> dict[int, list[Store]]:
    """Of what a line stores into some arrays, by value, what it may store as soon as that is computed.

    It must not read the place later, nor look up any of these arrays at a computed index.
    """
    looked_up = {slot.array for slot in line.slots() if slot.index is not None}
    if not looked_up.isdisjoint(arrays):
        return {}
    read = {i.slot: position for position, i in enumerate(line.instructions) if i.slot is not None}
    made, found = positions(line), dict[int, list[Store]]()
    for store in line.stores:
        value, slot = store.value, store.slot
        if slot.array in arrays and isinstance(value, int) and read.get(slot, -1) < made[value]:
            found.setdefault(value, []).append(store)
    return found


def positions(line: Line) -> dict[int, int]:
    """Where in a line each value is computed: sine and cosine of an angle at once."""
    made = {i.target: position for position, i in enumerate(line.instructions)}
    for pair in sine_pairs(line).values():
        made.update(dict.fromkeys(pair, min(made[value] for value in pair)))
    return made
