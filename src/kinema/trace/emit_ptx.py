"""Programs for a GPU, as PTX inside of a CUDA function: one environment to a thread, or several threads to one.

The text is PTX, not C: a compiler of C spends most of its time on looking for what is not there to be found in a
straight line. Arrays live in arenas: item `i` of an array that starts at row `r` of an arena is
`arena[(r + i) * stride + e]` for environment `e`. Every operation is one instruction that rounds as it says.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from .blocks import SCRATCH, Count, If, Line, Loop, Place, Repeat, Slot, lines
from .emitter import Emitter, Names
from .lowering import UNIFORM, Addresses, Target
from .program import Program
from .split import EXCHANGE, n_exchanged

WARP = 32
_POINTERS = ("state", "told_start", "out", UNIFORM, SCRATCH, "ints", "floats")
_NUMBERS = ("e", "stride", "steps", "advance", "role", "lane", "exchange")


def emit_ptx(roles: Sequence[Program], places: Mapping[str, Place], target: Target, runs_per_step: int = 1) -> str:
    """The body of a CUDA function that runs a program for some steps: of one role, or of the roles of one line.

    It expects `e` (the environment), `stride`, `steps`, a pointer for each arena, `ints` and `floats` (the tables), and
    `told_start`: the arena `told` moves on by `advance` rows from step to step. A step may take several runs.
    """
    n, size = target.scalar, 4 if target.precision == "single" else 8
    text = _Text(places, target)
    text.program(roles, runs_per_step)
    shared = [
        f"__shared__ {n} exchange_[{max(n_exchanged(tuple(roles)), 1)} * {WARP}];" if len(roles) > 1 else "",
        f"const int role = threadIdx.x / {WARP}, lane = threadIdx.x % {WARP} * {size};",
        f"const unsigned exchange = {'__cvta_generic_to_shared(exchange_)' if len(roles) > 1 else '0'};",
    ]
    operands = [f'"l"({name})' for name in _POINTERS] + [f'"r"({name})' for name in _NUMBERS]
    asm = "\n".join(f'"{line}\\n"' for line in text.lines)
    return "\n".join([*filter(None, shared), "asm volatile(", asm, f': : {", ".join(operands)} : "memory");']) + "\n"


class _Text(Emitter):
    def __init__(self, places: Mapping[str, Place], target: Target) -> None:
        super().__init__()
        self.places = {**places, EXCHANGE: Place(EXCHANGE, 0)}
        self.target = target
        self.single = target.precision == "single"
        self.f = "f32" if self.single else "f64"
        self.size = 4 if self.single else 8
        self._names = 0
        self.in_memory: set[str] = set()
        """Local arrays with computed indices."""

    # -------------------------------------------------------------------------------------------------- the function

    def put(self, *texts: str) -> None:
        self.lines += texts

    def fresh(self, what: str) -> str:
        self._names += 1
        return f"{what}{self._names}"

    def register(self, kind: str, what: str = "x") -> str:
        """A new register."""
        name = self.fresh(what)
        self.put(f".reg .{kind} {name};")
        return name

    def program(self, roles: Sequence[Program], runs_per_step: int) -> None:
        self.put("{", ".reg .u64 state, told, told0, out, uniform, scratch, ints, floats, stride8, told8;")
        self.put(".reg .s32 e, stride, run, runs, advance, role, lane, exchange, bytes;", ".reg .pred more;")
        for i, name in enumerate(("state", "told0", "out", UNIFORM, SCRATCH, "ints", "floats")):
            self.put(f"cvta.to.global.u64 {name}, %{i};")
        for i, name in enumerate(("e", "stride", "runs", "advance", "role", "lane", "exchange")):
            self.put(f"mov.b32 {name}, %{len(_POINTERS) + i};")
        self.put(f"mul.lo.s32 bytes, stride, {self.size};", f"mul.lo.s32 runs, runs, {runs_per_step};")
        for name in ("state", "told0", "out", SCRATCH):
            self.put(f"mad.wide.s32 {name}, e, {self.size}, {name};")
        self.put("mul.wide.s32 told8, advance, bytes;", "mov.u64 told, told0;", "mov.s32 run, 0;")
        self.put("next_run:", "setp.ge.s32 more, run, runs;", "@more bra all_done;")
        if runs_per_step > 1:
            step = self.register("s32")
            self.put(f"div.s32 {step}, run, {runs_per_step};")
            offset = self.register("u64")
            self.put(f"cvt.s64.s32 {offset}, {step};", f"mad.lo.s64 told, {offset}, told8, told0;")
        if len(roles) == 1:
            self.role(roles[0], "")
        else:
            self.meeting(roles)
        self.put("add.s32 run, run, 1;", *([] if runs_per_step > 1 else ["add.u64 told, told, told8;"]))
        self.put("bra next_run;", "all_done:", "}")

    def meeting(self, roles: Sequence[Program]) -> None:
        """Each warp of a block has one role for the same 32 environments; they meet twice in a run.

        The first meeting is for the exchange, the second so that none reads a state that another has yet to write.
        """
        end, chosen = self.fresh("roles_done"), self.register("pred", "p")
        for number, role in enumerate(roles):
            after = self.fresh("role")
            self.put(f"setp.ne.s32 {chosen}, role, {number};", f"@{chosen} bra {after};")
            self.role(role, "bar.sync 0;")
            self.put(f"bra {end};", f"{after}:")
        self.put(f"{end}:")

    def role(self, program: Program, after_each: str) -> None:
        self.addresses = Addresses(program, self.places)
        self.local_names = {name: self.fresh("local") + "_" for name in program.locals}
        slots = [slot for line in lines(program.blocks) for slot in line.slots()]
        indexed = {s.array for s in slots if s.index is not None}
        of_rows = {arena for loop in program.loops for case in loop.cases for arena, _ in case.arrays.values()}
        self.in_memory = (indexed | of_rows) & set(program.locals)
        self.put("{")
        for name, count in program.locals.items():
            if name in self.in_memory:
                self.put(f".local .align {self.size} .{self.f} {self.local_names[name]}[{max(count, 1)}];")
            else:
                self.put(f".reg .{self.f} {self.local_names[name]}<{max(count, 1)}>;")
        for block in program.blocks:
            self.blocks((block,))
            if after_each:
                self.put(after_each)
        self.put("}")

    # ---------------------------------------------------------------------------------------------------- blocks

    def line(self, line: Line) -> None:
        self.put("{")
        super().line(line)
        self.put("}")

    def condition(self, block: If) -> None:
        after = self.fresh("after")
        self.put(f"@!{self.above_half(block.flag)} bra {after};")
        self.blocks(block.body)
        self.put(f"{after}:")

    def above_half(self, slot: Slot) -> str:
        p = self.register("pred", "p")
        self.put(f"setp.gt.{self.f} {p}, {self.load(slot, {})}, {self.constant(0.5)};")
        return p

    def repeat(self, block: Repeat) -> None:
        turn, p, again, done = self.register("s32"), self.register("pred", "p"), self.fresh("again"), self.fresh("done")
        self.put(f"mov.s32 {turn}, 0;", f"{again}:")
        self.blocks(block.body)
        self.put(f"add.s32 {turn}, {turn}, 1;", f"setp.ge.s32 {p}, {turn}, {block.most};", f"@{p} bra {done};")
        self.put(f"@{self.above_half(block.again)} bra {again};", f"{done}:")

    def count(self, block: Count) -> None:
        turn, number, p = self.register("s32"), self.register(self.f), self.register("pred", "p")
        head, done = self.fresh("turn"), self.fresh("done")
        self.put(f"mov.s32 {turn}, 0;", f"{head}:", f"cvt.rn.{self.f}.s32 {number}, {turn};")
        self.put(f"setp.lt.{self.f} {p}, {number}, {self.load(block.count, {})};", f"@!{p} bra {done};")
        self.turns.append(number)
        self.blocks(block.body)
        self.turns.pop()
        self.put(f"add.s32 {turn}, {turn}, 1;", f"bra {head};", f"{done}:")

    def loop(self, loop: Loop) -> None:
        own, at = self.addresses.number_of(loop), self.addresses.header(loop)
        i, count, start, first = (self.register("s32") for _ in range(4))
        p, head, done = self.register("pred", "p"), self.fresh("row"), self.fresh("done")
        self.put(f".reg .u64 row_{own}, number_{own};")
        for k, name in enumerate((count, start, first)):
            self.put(f"ld.global.s32 {name}, [ints+{4 * (at + k)}];")
        self.put(
            f"mad.wide.s32 row_{own}, {start}, 4, ints;", f"mad.wide.s32 number_{own}, {first}, {self.size}, floats;"
        )
        self.put(f"mov.s32 {i}, 0;", f"{head}:", f"setp.ge.s32 {p}, {i}, {count};", f"@{p} bra {done};")
        after, kind = self.fresh("next"), self.register("s32")
        if len(loop.cases) > 1:
            self.put(f"ld.global.s32 {kind}, [row_{own}];")
        for place, case in enumerate(loop.cases):
            other = self.fresh("case")
            if len(loop.cases) > 1:
                self.put(f"setp.ne.s32 {p}, {kind}, {place};", f"@{p} bra {other};")
            self.put("{")
            for _, column in case.arrays.values():
                self.put(f".reg .s32 r{own}_{column};", f"ld.global.s32 r{own}_{column}, [row_{own}+{4 * column}];")
            self.addresses.rows.append((own, case))
            self.blocks(case.blocks)
            self.addresses.rows.pop()
            self.put("}", f"bra {after};", f"{other}:")
        self.put(f"{after}:", f"add.u64 row_{own}, row_{own}, {4 * loop.ints.shape[1]};")
        self.put(f"add.u64 number_{own}, number_{own}, {self.size * loop.floats.shape[1]};")
        self.put(f"add.s32 {i}, {i}, 1;", f"bra {head};", f"{done}:")

    # ----------------------------------------------------------------------------------------------------- lines

    def constant(self, value: float) -> str:
        code, letter = (">f", "0f") if self.single else (">d", "0d")
        return letter + struct.pack(code, self.target.rounded(value)).hex().upper()

    def binary(self, op: str, a: str, b: str) -> str:
        return self.set(f"{op}.rn", a, b)

    def negative(self, a: str) -> str:
        return self.set("neg", a)

    def absolute(self, a: str) -> str:
        return self.set("abs", a)

    def root(self, a: str) -> str:
        return self.set("sqrt.rn", a)

    def fma(self, a: str, b: str, c: str) -> str:
        return self.set("fma.rn", a, b, c)

    def reciprocal(self, a: str) -> str:
        """In single precision the processor's estimate and one step of Newton's: exact but for the last bit."""
        if not self.single:
            return self.set("rcp.rn", a)
        guess = self.set("rcp.approx.ftz", a)
        return self.fma(guess, self.fma(self.negative(a), guess, self.constant(1.0)), guess)

    def below(self, a: str, b: str) -> str:
        p = self.register("pred", "p")
        self.put(f"setp.lt.{self.f} {p}, {a}, {b};")
        return p

    def either(self, condition: str, then: str, otherwise: str) -> str:
        return self.set("selp", then, otherwise, condition)

    def quadrant(self, shifted: str) -> tuple[str, str, str]:
        bits, low, after = self.register(f"b{8 * self.size}", "q"), self.register("b32", "q"), self.register("b32", "q")
        self.put(f"mov.b{8 * self.size} {bits}, {shifted};")
        self.put(f"mov.b32 {low}, {bits};" if self.single else f"cvt.u32.u64 {low}, {bits};")
        self.put(f"add.s32 {after}, {low}, 1;")
        return self._bit(low, 1), self._bit(low, 2), self._bit(after, 2)

    def _bit(self, word: str, bit: int) -> str:
        masked, p = self.register("b32", "q"), self.register("pred", "p")
        self.put(f"and.b32 {masked}, {word}, {bit};", f"setp.ne.s32 {p}, {masked}, 0;")
        return p

    def set(self, operation: str, *args: str) -> str:
        """A new register for what an operation gives."""
        name = self.register(self.f, "v")
        self.put(f"{operation}.{self.f} {name}, {', '.join(args)};")
        return name

    # ----------------------------------------------------------------------------------------------------- memory

    def load(self, slot: Slot, names: Names) -> str:
        address = self.addresses.of(slot)
        if self.addresses.is_local(address) and address.arena not in self.in_memory:
            return self.set("mov", f"{self.local_names[address.arena]}{address.row}")
        if not address.arena:  # a constant of a row
            assert address.column is not None
            return self.set("ld.global.nc", f"[number_{address.column[0]}+{self.size * address.column[1]}]")
        space, pointer = self.pointer(slot, names)
        return self.set(f"ld.{space}{'.nc' if address.arena == UNIFORM else ''}", f"[{pointer}]")

    def store(self, slot: Slot, value: str, names: Names) -> None:
        address = self.addresses.of(slot)
        if self.addresses.is_local(address) and address.arena not in self.in_memory:
            self.put(f"mov.{self.f} {self.local_names[address.arena]}{address.row}, {value};")
            return
        space, pointer = self.pointer(slot, names)
        self.put(f"st.{space}.{self.f} [{pointer}], {value};")

    def pointer(self, slot: Slot, names: Names) -> tuple[str, str]:
        """The state space of an item, and its address."""
        address = self.addresses.of(slot)
        row = str(address.row)
        if address.column is not None:
            own = f"r{address.column[0]}_{address.column[1]}"
            row = self.sum(own, address.row) if address.row else own
        if slot.index is not None:
            index = self.register("s32")
            self.put(f"cvt.rzi.s32.{self.f} {index}, {names[slot.index]};")
            row = self.sum(index, row)
        if address.arena == EXCHANGE:
            return "shared", f"{self.sum(self.sum('exchange', 'lane'), int(row) * WARP * self.size)}"
        at = self.register("u64", "a")
        if self.addresses.is_local(address):
            base = self.register("u64", "a")
            self.put(f"mov.u64 {base}, {self.local_names[address.arena]};")
            self.put(f"mad.wide.s32 {at}, {row}, {self.size}, {base};")
            return "local", at
        if address.arena == UNIFORM:
            self.put(f"mad.wide.s32 {at}, {row}, {self.size}, uniform;")
        else:
            self.put(f"mad.wide.s32 {at}, {row}, bytes, {address.arena};")
        return "global", at

    def sum(self, a: str, b: str | int) -> str:
        total = self.register("s32")
        self.put(f"add.s32 {total}, {a}, {b};")
        return total
