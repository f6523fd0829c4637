"""A clock in LLVM's text: how long the blocks of a program take, added up as it runs.

After each block that counts as one the ticks since the last reading are added to a number of its own. Blocks of
conditions are timed one by one, those of loops together. The clock is a counter of the processor that all cores share
and that ticks evenly; instructions wait for each other where it is read.
"""

from __future__ import annotations

from collections.abc import Iterator

from .blocks import Block, Blocks, If, Line
from .llvm_blocks import LlvmBlocks

ARM, X86 = ("aarch64", "arm64"), ("x86_64", "amd64")
TICKS = "out"
"""The pointer to the numbers: 64-bit integers, one for each block, then the last reading."""


def timed_blocks(blocks: Blocks) -> Iterator[Block]:
    """The blocks that are timed, in the order of their numbers."""
    for block in blocks:
        if isinstance(block, If) and not block.alone:
            yield from timed_blocks(block.body)
        yield block


def block_names(blocks: Blocks) -> list[str]:
    """What they are called; lines are called after nothing."""
    return ["" if isinstance(block, Line) else str(getattr(block, "name", "")) for block in timed_blocks(blocks)]


def clock_declarations(machine: str) -> list[str]:
    """The functions that reading the clock takes on a processor of this kind (`platform.machine()`)."""
    if machine.lower() in ARM:
        return []
    fence = ["void @llvm.x86.sse2.lfence()"] if machine.lower() in X86 else []
    return [*fence, "i64 @llvm.readcyclecounter()"]


class Clock:
    """Writes blocks with readings of the clock between them."""

    def __init__(self, text: LlvmBlocks, blocks: Blocks, machine: str) -> None:
        self._text = text
        self._blocks = blocks
        self._machine = machine.lower()
        self._numbers = {id(block): number for number, block in enumerate(timed_blocks(blocks))}

    def write(self) -> None:
        """All blocks of a run."""
        self._text.put(f"store i64 {self._read()}, ptr {self._at(len(self._numbers))}")
        self._write(self._blocks)

    def _write(self, blocks: Blocks) -> None:
        for block in blocks:
            if isinstance(block, If) and not block.alone:
                self._text.condition(block, self._write)
            else:
                self._text.blocks((block,))
            self._note(self._numbers[id(block)])

    def _note(self, number: int) -> None:
        text, last = self._text, self._at(len(self._numbers))
        now = self._read()
        spent = text.set(f"sub i64 {now}, {text.set(f'load i64, ptr {last}')}")
        text.put(f"store i64 {now}, ptr {last}")
        at = self._at(number)
        before = text.set(f"load i64, ptr {at}")
        text.put(f"store i64 {text.set(f'add i64 {before}, {spent}')}, ptr {at}")

    def _at(self, number: int) -> str:
        return self._text.set(f"getelementptr i64, ptr %{TICKS}, i64 {number}")

    def _read(self) -> str:
        if self._machine in ARM:  # its cycle counter is not for users
            return self._text.set('call i64 asm sideeffect "isb\\0Amrs $0, cntvct_el0", "=r,~{memory}"()')
        if self._machine in X86:
            self._text.put("call void @llvm.x86.sse2.lfence()")
        return self._text.set("call i64 @llvm.readcyclecounter()")
