"""Timing of statements on a CPU: clock readings emitted between statements and accumulated per statement.

After each timed statement, the ticks since the last reading are added to its counter. Statements of branches are timed
one by one, those of loops together. The clock is a constant-rate counter that all cores share; reading it is serialised
with the surrounding instructions.
"""

from __future__ import annotations

from collections.abc import Iterator

from kinema.ir import BasicBlock, If, Statement, Statements

from ..statements import StatementEmitter

ARM_MACHINES, X86_MACHINES = ("aarch64", "arm64"), ("x86_64", "amd64")
TICK_POINTER = "out"
"""Pointer to the counters: a 64-bit integer for each timed statement, then the last reading."""


def timed_statements(statements: Statements) -> Iterator[Statement]:
    """Timed statements in order of their counters; the statements of a branch come before the branch."""
    for block in statements:
        if isinstance(block, If) and not block.scalarize:
            yield from timed_statements(block.body)
        yield block


def timed_statement_names(statements: Statements) -> list[str]:
    """Names of the timed statements; basic blocks have an empty name."""
    return [
        "" if isinstance(block, BasicBlock) else str(getattr(block, "name", ""))
        for block in timed_statements(statements)
    ]


def timer_declarations(machine: str) -> list[str]:
    """LLVM declarations needed to read the clock on a processor (`platform.machine()`)."""
    if machine.lower() in ARM_MACHINES:
        return []
    fence = ["void @llvm.x86.sse2.lfence()"] if machine.lower() in X86_MACHINES else []
    return [*fence, "i64 @llvm.readcyclecounter()"]


class StatementTimer:
    """Emits statements with clock readings in between."""

    def __init__(self, emitter: StatementEmitter, statements: Statements, machine: str) -> None:
        self._emitter = emitter
        self._statements = statements
        self._machine = machine.lower()
        self._counter_index = {id(block): number for number, block in enumerate(timed_statements(statements))}

    def emit(self) -> None:
        """Emit all statements of a run, after a first clock reading."""
        self._emitter.emit(f"store i64 {self._read_clock()}, ptr {self._counter_pointer(len(self._counter_index))}")
        self._emit_statements(self._statements)

    def _emit_statements(self, statements: Statements) -> None:
        """Emit statements, each followed by the update of its counter; branches that are not scalarized recursively."""
        for block in statements:
            if isinstance(block, If) and not block.scalarize:
                self._emitter.emit_if(block, self._emit_statements)
            else:
                self._emitter.emit_statements((block,))
            self._add_elapsed(self._counter_index[id(block)])

    def _add_elapsed(self, index: int) -> None:
        """Emit code that adds the ticks since the last reading to a counter and updates the last reading."""
        emitter, last_pointer = self._emitter, self._counter_pointer(len(self._counter_index))
        now = self._read_clock()
        elapsed = emitter.assign(f"sub i64 {now}, {emitter.assign(f'load i64, ptr {last_pointer}')}")
        emitter.emit(f"store i64 {now}, ptr {last_pointer}")
        counter = self._counter_pointer(index)
        before = emitter.assign(f"load i64, ptr {counter}")
        emitter.emit(f"store i64 {emitter.assign(f'add i64 {before}, {elapsed}')}, ptr {counter}")

    def _counter_pointer(self, index: int) -> str:
        return self._emitter.assign(f"getelementptr i64, ptr %{TICK_POINTER}, i64 {index}")

    def _read_clock(self) -> str:
        """Emit a serialised clock reading: CNTVCT_EL0 on Arm, the time-stamp counter after LFENCE on x86."""
        if self._machine in ARM_MACHINES:  # the cycle counter is not accessible in user mode
            return self._emitter.assign('call i64 asm sideeffect "isb\\0Amrs $0, cntvct_el0", "=r,~{memory}"()')
        if self._machine in X86_MACHINES:
            self._emitter.emit("call void @llvm.x86.sse2.lfence()")
        return self._emitter.assign("call i64 @llvm.readcyclecounter()")
