"""LLVM's text for threads of a warp that speak to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .llvm_blocks import LlvmBlocks
from .llvm_memory import WARP
from .slots import Slot

WAIT, PASS = "llvm.nvvm.bar.warp.sync", "llvm.nvvm.shfl.sync.bfly.i32"
"""A meeting of the threads of a warp, and how they pass each other numbers."""
TELL = "llvm.nvvm.shfl.sync.idx.i32"
"""How one thread of a warp tells all others a number."""
ONES = "llvm.ctpop.i32"
"""How many bits of a word are set."""
SHARED = "ptr addrspace(3)"
"""Pointers to memory that the threads of a block share."""


@dataclass(frozen=True, slots=True)
class Room:
    """A team, and the memory it works in."""

    size: int
    """Threads."""
    n_near: int
    n_far: int
    shared: bool = False
    """Whether what is near is memory that the threads of a block share; else it lies behind what is far."""
    teams: int = 1
    """To a block."""

    @property
    def n_memory(self) -> int:
        """Numbers that each team has in the memory of the device."""
        return self.n_far + (0 if self.shared else self.n_near)


class LlvmThreads(LlvmBlocks):
    """A kernel that is being written, for teams of threads."""

    room: Room
    team: str
    """The threads of a team, as bits of a word."""

    @property
    def threads(self) -> int:
        """Of a team."""
        return self.room.size

    @property
    def edge(self) -> int:
        """How a warp is cut into teams, for those that pass numbers."""
        return (WARP - self.room.size) << 8 | (WARP - 1)

    def start_of(self, slot: Slot) -> tuple[str, str]:
        """Where something starts in memory: the type of the pointer, and its name."""
        kind, name = self._pointer(slot, None).rsplit(" ", 1)
        return kind, name

    @property
    def near(self) -> str:
        """The type of pointers to what is near."""
        return SHARED if self.room.shared else self.pointer

    def wait(self) -> None:
        """All of a team are here, and see what the others have stored."""
        self.put(f"call void @{WAIT}(i32 {self.team})")

    def over_threads(self, values: Sequence[str]) -> list[str]:
        """Sums over all threads, the same in each of them: what two pass each other they add in either order."""
        offset = 1
        while offset < self.room.size:
            others = [self.passed(value, offset) for value in values]
            values = [self.set(f"fadd {self.n} {a}, {b}") for a, b in zip(values, others, strict=True)]
            offset *= 2
        return list(values)

    def passed(self, value: str, place: int | str, how: str = PASS) -> str:
        """The number of the thread whose place differs in one bit, or of the one at a place."""

        def word(bits: str) -> str:
            return self.set(f"call i32 @{how}(i32 {self.team}, i32 {bits}, i32 {place}, i32 {self.edge})")

        if self.size == 4:
            bits = self.set(f"bitcast float {value} to i32")
            return self.set(f"bitcast i32 {word(bits)} to float")
        bits = self.set(f"bitcast double {value} to <2 x i32>")
        halves = [word(self.set(f"extractelement <2 x i32> {bits}, i32 {i}")) for i in range(2)]
        low = self.set(f"insertelement <2 x i32> poison, i32 {halves[0]}, i32 0")
        both = self.set(f"insertelement <2 x i32> {low}, i32 {halves[1]}, i32 1")
        return self.set(f"bitcast <2 x i32> {both} to double")
