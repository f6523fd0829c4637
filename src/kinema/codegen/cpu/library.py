"""Emission of the LLVM module of a compiled library: programs of one environment as functions, with their constants.

Each program becomes an internal function of pointers to its arenas, to scratch memory, and a number of steps; outlined
functions of a program are internal, too. Exported functions with C linkage call them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kinema.ir import (
    SCRATCH,
    UNIFORM,
    ArenaOffset,
    Program,
    optimise_basic_block,
)

from ..emit import begin_cpu_function, enable_flush_to_zero, flush_to_zero_declarations, restore_float_mode
from ..ir_builder import float_literal
from ..statements import StatementEmitter
from ..target import Target

TABLE_POINTERS = (UNIFORM, "ints", "floats")
"""Pointers of a program function to constants: values of the model, integer and float table."""
FUNCTION_ATTRIBUTES = 'nounwind "no-builtins" "warn-stack-size"="0"'
"""Attributes of all functions: no unwind tables, no loops replaced by calls of the C library, and a report of the stack
size of each by the code generator."""


class LibraryModule:
    """LLVM module of a compiled library, as text."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._declarations: dict[str, None] = {}
        self._globals: list[str] = []
        self._definitions: list[str] = []

    def add_constants(self, symbol: str, values: np.ndarray, *, exported: bool = False) -> None:
        """Add a read-only array of characters, int32 integers or scalars of the target; at least one element."""
        is_int = values.dtype.kind in "iu"
        element = ("i8" if values.itemsize == 1 else "i32") if is_int else self.target.scalar_type
        flat = values.ravel().tolist() or [0]
        if any(flat):
            literals = (str(x) if is_int else float_literal(x, self.target.precision) for x in flat)
            content = f"[{', '.join(f'{element} {x}' for x in literals)}]"
        else:
            content = "zeroinitializer"
        linkage = "" if exported else "internal "
        self._globals.append(f"@{symbol} = {linkage}constant [{len(flat)} x {element}] {content}, align 16")

    def add_program(
        self,
        symbol: str,
        program: Program,
        array_offsets: Mapping[str, ArenaOffset],
        arenas: Sequence[str],
        *,
        uniform_symbol: str,
        runs_per_step: int = 0,
    ) -> None:
        """Add the function of a program: `void symbol(ptr arena..., ptr scratch)`, or with a last argument `i64 steps`.

        Args:
            symbol: name of the internal function; its tables and outlined functions start with it.
            program: program, after `CPU_PASSES`.
            array_offsets: array -> arena and first row.
            arenas: arenas that the function gets pointers to, in this order.
            uniform_symbol: constants that hold the arena of values shared by all environments.
            runs_per_step: runs of the program per step; 0 for a function that runs it once, without steps.
        """
        ints, floats = program.pack_tables()
        self.add_constants(f"{symbol}.ints", np.asarray(ints, np.int32))
        self.add_constants(f"{symbol}.floats", np.asarray(floats, np.float64))
        emitter = StatementEmitter(array_offsets, self.target)
        emitter.outlined_prefix = f"{symbol}."
        emitter.outlined_pointers = [*(f"{arena}_e" for arena in arenas), UNIFORM, SCRATCH, "ints", "floats"]
        emitter.block_pass = optimise_basic_block
        begin_cpu_function(emitter, program)
        for name, constants in zip(TABLE_POINTERS, (uniform_symbol, f"{symbol}.ints", f"{symbol}.floats"), strict=True):
            emitter.emit(f"%{name} = getelementptr i8, ptr @{constants}, i64 0")
        if self.target.flush_subnormals:
            enable_flush_to_zero(emitter)
        if runs_per_step:
            loop, _ = emitter.begin_loop("0", emitter.assign(f"mul i64 %steps, {runs_per_step}"))
            emitter.emit_statements(program.body)
            emitter.end_loop(loop)
        else:
            emitter.emit_statements(program.body)
        if self.target.flush_subnormals:
            restore_float_mode(emitter)
            self._declare(*flush_to_zero_declarations())
        pointers = [*(f"{arena}_e" for arena in arenas), SCRATCH]
        parameters = [*(f"ptr noalias %{pointer}" for pointer in pointers), *(["i64 %steps"] if runs_per_step else [])]
        self._add_definition(f"void @{symbol}({', '.join(parameters)})", emitter)
        while emitter.pending_functions:
            pending = emitter.pending_functions.pop(0)
            pending.emit_body(pending.emitter)
            self._add_definition(pending.signature, pending.emitter)

    def _add_definition(self, signature: str, emitter: StatementEmitter) -> None:
        self._declare(*(line.removeprefix("declare ") for line in emitter.declarations()))
        body = "\n".join([*emitter.output_lines, "  ret void"])
        self._definitions.append(f"define internal {signature} {FUNCTION_ATTRIBUTES} {{\nentry:\n{body}\n}}")

    def _declare(self, *declarations: str) -> None:
        self._declarations.update(dict.fromkeys(declarations))

    def add_function(self, signature: str, lines: Sequence[str]) -> None:
        """Add an exported function with C linkage from its signature and the lines of its body."""
        body = "\n".join(f"  {line}" if not line.endswith(":") else line for line in lines)
        self._definitions.append(f"define {signature} {FUNCTION_ATTRIBUTES} {{\nentry:\n{body}\n}}")

    @property
    def text(self) -> str:
        """Text of the module, without target triple and data layout."""
        declarations = (f"declare {declaration}" for declaration in self._declarations)
        return "\n".join([*self._globals, *declarations, *self._definitions]) + "\n"


def call_program(symbol: str, pointers: Sequence[str], scratch: str, steps: str = "") -> str:
    """LLVM instruction that calls a program function with names of pointers and, if it takes steps, their number."""
    arguments = [*(f"ptr {pointer}" for pointer in pointers), f"ptr {scratch}", *([f"i64 {steps}"] if steps else [])]
    return f"call void @{symbol}({', '.join(arguments)})"
