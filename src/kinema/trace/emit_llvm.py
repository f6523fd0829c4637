"""Programs for a CPU, as LLVM's text: several environments to a vector, or one.

The function goes through its share of the environments, and for each vector of them through all steps, so that the
state stays near. No operation may be reordered or contracted by the compiler: every width gives the same bits.
Conditions and loops of unknown length run as long as any environment of a vector takes part; the others store nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from .blocks import SCRATCH, Block, Count, If, Line, Loop, Place, Repeat, Slot, inner
from .emitter import Names
from .llvm_words import LlvmWords
from .lowering import UNIFORM, Addresses, Target, uniform_values
from .program import Program

ARENAS = ("state", "told", "out", UNIFORM, SCRATCH)
POINTERS = ("state", "told_start", "out", UNIFORM, SCRATCH, "ints", "floats")
NUMBERS = ("stride", "steps", "advance", "first", "last", "n_envs")
"""The arguments of the function: pointers, then integers. It runs the vectors from first to last."""
ENTRY = "kinema_run"


def emit_llvm(program: Program, places: Mapping[str, Place], target: Target, runs_per_step: int = 1) -> str:
    """A module with the function `kinema_run`, which runs a program for some environments and steps.

    The arena `told` moves on by `advance` rows from step to step, so that each step may be told something else. A step
    may take several runs of the program.
    """
    return _Module(program, places, target).text(runs_per_step)


class _Module(LlvmWords):
    def __init__(self, program: Program, places: Mapping[str, Place], target: Target) -> None:
        super().__init__(target)
        self.program = program
        self.addresses = Addresses(program, places)
        self.mask: str | None = None
        """The environments of a vector that take part; None for all."""
        self.uniform: set[int] = set()
        """The values of a line that environments share."""
        self.locals = {name: f"%local{i}" for i, name in enumerate(program.locals)}
        self._columns: dict[tuple[int, int], str] = {}
        """Row numbers of the tables' rows that the text is in."""

    # -------------------------------------------------------------------------------------------------- the function

    def text(self, runs_per_step: int) -> str:
        arguments = [f"ptr noalias %{name}" for name in POINTERS] + [f"i64 %{name}" for name in NUMBERS]
        self.lines = [f"define void @{ENTRY}({', '.join(arguments)}) {{", "entry:"]
        for name, count in self.program.locals.items():
            self.put(f"{self.locals[name]} = alloca [{max(count, 1)} x {self.kn}], align 16")
        self.put(f"%runs = mul i64 %steps, {runs_per_step}")
        vectors, vector = self.begin("%first", "%last")
        self.put(f"%e = mul i64 {vector}, {self.target.lanes}")
        if self.target.lanes > 1 and any(_depends(block) for block in self.program.blocks):
            self.mask = self._present()
        runs, run = self.begin("0", "%runs")
        step = run if runs_per_step == 1 else self.set(f"udiv i64 {run}, {runs_per_step}")
        rows = self.set(f"mul i64 {step}, %advance")
        told = self.set(f"mul i64 {rows}, %stride")
        self.put(f"%told = getelementptr {self.n}, ptr %told_start, i64 {told}")
        for arena in ("state", "told", "out"):
            self.put(f"%{arena}_e = getelementptr {self.n}, ptr %{arena}, i64 %e")
        self.blocks(self.program.blocks)
        self.end(runs)
        self.end(vectors)
        self.put("ret void")
        declared = [
            f"declare {self.kn} @llvm.{name}.{self.suffix}({', '.join([self.kn] * count)})"
            for name, count in (("fma", 3), ("sqrt", 1), ("fabs", 1))
        ]
        return "\n".join([*declared, *self.lines, "}"]) + "\n"

    # ---------------------------------------------------------------------------------------------------- blocks

    def _present(self) -> str:
        """The mask of lanes that are environments: the last vector may be wider than there are any left."""
        n = self.target.lanes
        first = self.set(f"insertelement <{n} x i64> poison, i64 %e, i64 0")
        every = self.set(f"shufflevector <{n} x i64> {first}, <{n} x i64> poison, <{n} x i32> zeroinitializer")
        own = self.set(f"add <{n} x i64> {every}, <{', '.join(f'i64 {i}' for i in range(n))}>")
        most = self.set(f"insertelement <{n} x i64> poison, i64 %n_envs, i64 0")
        end = self.set(f"shufflevector <{n} x i64> {most}, <{n} x i64> poison, <{n} x i32> zeroinitializer")
        return self.set(f"icmp slt <{n} x i64> {own}, {end}")

    def loop(self, loop: Loop) -> None:
        number, at = self.addresses.number_of(loop), self.addresses.header(loop)
        count, start, first = (self._int("ints", f"{at + i}") for i in range(3))
        rows, row = self.begin("0", count)
        for name, begin, width in (("row", start, loop.ints.shape[1]), ("number", first, loop.floats.shape[1])):
            offset = self.set(f"mul i64 {row}, {width}")
            index = self.set(f"add i64 {begin}, {offset}")
            kind, array = ("i32", "ints") if name == "row" else (self.n, "floats")
            self.put(f"%{name}{number} = getelementptr {kind}, ptr %{array}, i64 {index}")
        after = self.fresh("after")
        labels = [self.fresh("case") for _ in loop.cases]
        if len(loop.cases) > 1:
            kind = self.set(f"load i32, ptr %row{number}")
            targets = " ".join(f"i32 {i}, label %{label}" for i, label in enumerate(labels))
            self.put(f"switch i32 {kind}, label %{labels[-1]} [ {targets} ]")
        else:
            self.put(f"br label %{labels[0]}")
        for case, label in zip(loop.cases, labels, strict=True):
            self.open(label)
            for _, column in case.arrays.values():
                value = self._int(f"row{number}", str(column))
                self._columns[number, column] = value
            self.addresses.rows.append((number, case))
            self.blocks(case.blocks)
            self.addresses.rows.pop()
            self.put(f"br label %{after}")
        self.open(after)
        self.end(rows)

    def _int(self, pointer: str, index: str) -> str:
        at = self.set(f"getelementptr i32, ptr %{pointer}, i64 {index}")
        return self.set(f"sext i32 {self.set(f'load i32, ptr {at}')} to i64")

    def _narrowed(self, mask: str) -> str | None:
        """The mask of a body: one environment alone is only there if it takes part."""
        return mask if self.target.lanes > 1 else None

    def _above_half(self, slot: Slot) -> str:
        return self.set(f"fcmp ogt {self.kn} {self.load(slot, {})}, {self.constant(0.5)}")

    def condition(self, block: If) -> None:
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

    def repeat(self, block: Repeat) -> None:
        outer, before = self.mask, self.label
        head, done = self.fresh("repeat"), self.fresh("done")
        self.put(f"br label %{head}")
        self.open(head)
        place = len(self.lines)
        self.lines += ["", ""]
        self.mask = self._narrowed(f"%{head}.mask")
        self.blocks(block.body)
        mask = self.both(self._above_half(block.again), self.mask)
        turns = self.set(f"add i64 %{head}.i, 1")
        more = self.set(f"icmp ult i64 {turns}, {block.most}")
        go_on = self.set(f"and i1 {self.any_of(mask)}, {more}")
        self.put(f"br i1 {go_on}, label %{head}, label %{done}")
        self.lines[place] = f"  %{head}.i = phi i64 [ 0, %{before} ], [ {turns}, %{self.label} ]"
        first = outer or self.all_of()
        self.lines[place + 1] = f"  %{head}.mask = phi {self.i1} [ {first}, %{before} ], [ {mask}, %{self.label} ]"
        self.open(done)
        self.mask = outer

    def count(self, block: Count) -> None:
        outer, before = self.mask, self.label
        number = self.load(block.count, {})
        head, body, done = self.fresh("count"), self.fresh("body"), self.fresh("done")
        self.put(f"br label %{head}")
        self.open(head)
        place = len(self.lines)
        self.put("")
        turn = self.splat(self.set(f"sitofp i64 %{head}.i to {self.n}"))
        below = self.set(f"fcmp olt {self.kn} {turn}, {number}")
        if block.uniform:
            more = self.any_of(self.both(below, outer))  # others may hold anything
        else:
            mask = self.both(below, outer)
            more = self.any_of(mask)
            self.mask = self._narrowed(mask)
        self.put(f"br i1 {more}, label %{body}, label %{done}")
        self.open(body)
        self.turns.append(turn)
        self.blocks(block.body)
        self.turns.pop()
        after = self.set(f"add i64 %{head}.i, 1")
        self.lines[place] = f"  %{head}.i = phi i64 [ 0, %{before} ], [ {after}, %{self.label} ]"
        self.put(f"br label %{head}")
        self.open(done)
        self.mask = outer

    def line(self, line: Line) -> None:
        self.uniform = uniform_values(line.instructions, self.addresses)
        super().line(line)

    # ----------------------------------------------------------------------------------------------------- memory

    def load(self, slot: Slot, names: Names) -> str:
        address = self.addresses.of(slot)
        if not address.arena:  # a constant of a row
            assert address.column is not None
            number, column = address.column
            at = self.set(f"getelementptr {self.n}, ptr %number{number}, i64 {column}")
            return self.splat(self.set(f"load {self.n}, ptr {at}"))
        if slot.index is None:
            return self._load_at(slot, None)
        index = names[slot.index]
        if slot.index in self.uniform or self.target.lanes == 1:
            return self._load_at(slot, self._whole_number(index, 0, shared=True))
        result = "poison"
        for lane in range(self.target.lanes):
            at = self._pointer(slot, self._whole_number(index, lane))
            own = 0 if address.arena == UNIFORM else lane
            one = self.set(f"getelementptr {self.n}, ptr {at}, i64 {own}")
            value = self.set(f"load {self.n}, ptr {one}, align {self.size}")
            result = self.set(f"insertelement {self.kn} {result}, {self.n} {value}, i64 {lane}")
        return result

    def _whole_number(self, index: str, lane: int, *, shared: bool = False) -> str:
        """The index of one environment, or of all; one that takes no part may have any, and gets none."""
        if self.target.lanes > 1:
            index = self.set(f"extractelement {self.kn} {index}, i64 {lane}")
        whole = self.set(f"fptosi {self.n} {index} to i64")
        if self.mask is None or shared:
            return whole
        active = self.set(f"extractelement {self.i1} {self.mask}, i64 {lane}")
        return self.set(f"select i1 {active}, i64 {whole}, i64 0")

    def _load_at(self, slot: Slot, index: str | None) -> str:
        at = self._pointer(slot, index)
        if self.addresses.of(slot).arena == UNIFORM:
            return self.splat(self.set(f"load {self.n}, ptr {at}"))
        return self.set(f"load {self.kn}, ptr {at}, align {self.size}")

    def store(self, slot: Slot, value: str, names: Names) -> None:
        each = slot.index is not None and slot.index not in self.uniform and self.target.lanes > 1
        if each:
            assert slot.index is not None
            for lane in range(self.target.lanes):
                at = self._pointer(slot, self._whole_number(names[slot.index], lane))
                one = self.set(f"getelementptr {self.n}, ptr {at}, i64 {lane}")
                new = self.set(f"extractelement {self.kn} {value}, i64 {lane}")
                if self.mask is not None:
                    old = self.set(f"load {self.n}, ptr {one}, align {self.size}")
                    active = self.set(f"extractelement {self.i1} {self.mask}, i64 {lane}")
                    new = self.set(f"select i1 {active}, {self.n} {new}, {self.n} {old}")
                self.put(f"store {self.n} {new}, ptr {one}, align {self.size}")
            return
        index = None if slot.index is None else self._whole_number(names[slot.index], 0, shared=True)
        at = self._pointer(slot, index)
        if self.mask is not None:
            old = self.set(f"load {self.kn}, ptr {at}, align {self.size}")
            value = self.set(f"select {self.i1} {self.mask}, {self.kn} {value}, {self.kn} {old}")
        self.put(f"store {self.kn} {value}, ptr {at}, align {self.size}")

    def _pointer(self, slot: Slot, index: str | None) -> str:
        """Where an item is, of the first environment of the vector."""
        address = self.addresses.of(slot)
        row = str(address.row)
        if address.column is not None:
            row = (
                self.set(f"add i64 {self._columns[address.column]}, {row}")
                if address.row
                else self._columns[address.column]
            )
        if index is not None:
            row = self.set(f"add i64 {index}, {row}")
        if self.addresses.is_local(address):
            return self.set(f"getelementptr {self.kn}, ptr {self.locals[address.arena]}, i64 {row}")
        if address.arena == SCRATCH:
            return self.set(f"getelementptr {self.kn}, ptr %scratch, i64 {row}")
        if address.arena == UNIFORM:
            return self.set(f"getelementptr {self.n}, ptr %uniform, i64 {row}")
        offset = self.set(f"mul i64 %stride, {row}")
        return self.set(f"getelementptr {self.n}, ptr %{address.arena}_e, i64 {offset}")


def _depends(block: Block) -> bool:
    """Whether what a block does for how long, or where, depends on the numbers of an environment."""
    if isinstance(block, Line):
        return any(slot.index is not None for slot in block.slots())
    own = isinstance(block, Repeat | If) or (isinstance(block, Count) and not block.uniform)
    nested = isinstance(block, Loop) or own
    return own or (nested and any(_depends(x) for body in inner(block) for x in body))
