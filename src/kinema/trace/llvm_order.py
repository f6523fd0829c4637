"""LLVM's text for the order in which teams take environments: those with most to do first.

Else the last to be taken may be one that takes four times as long as others, while nearly all threads have nothing to
do. How much there is to do is seen by how many contacts there are: environments go into a few lists by that, at places
that they draw, and teams go through these lists one after the other. It matters only to the time.
"""

from __future__ import annotations

from collections.abc import Sequence

from .conventions import N_HEAD, N_LISTS, STEPS
from .llvm_blocks import LlvmBlocks
from .llvm_memory import WARP
from .llvm_queues import ALL, BALLOT, BELOW
from .llvm_threads import ONES, TELL

FIRST = "llvm.cttz.i32"
"""The lowest bit of a word that is set."""
DECLARATIONS = (
    f"declare i32 @{BALLOT}(i32, i1)",
    f"declare i32 @{FIRST}(i32, i1)",
    f"declare i32 @{BELOW}()",
    f"declare i32 @{ONES}(i32)",
    f"declare i32 @{TELL}(i32, i32, i32, i32)",
)


class LlvmOrder(LlvmBlocks):
    """A kernel that is being written: a thread to each environment."""

    def sort(self, weights: Sequence[int], n_kinds: int) -> None:
        """Put each environment into the list for the sum of some rows of the common memory.

        By then what was to be done is done: so many lists of that, which `%told_start` points to here, are emptied.
        """
        self._empty(n_kinds)
        env, last = self.set("add i32 %first, %tid"), self.set("sub i32 %n_envs, 1")
        there = self.set(f"icmp slt i32 {env}, %n_envs")
        self.put(f"%e = select i1 {there}, i32 {env}, i32 {last}")
        self.point_scratch("%e")
        total = self.constant(0.0)
        for row in weights:
            value = self.set(f"load {self.n}, {self.common(str(row))}, align {self.size}")
            total = self.set(f"fadd {self.n} {total}, {value}")
        own = "0"
        for step in STEPS:
            above = self.set(f"fcmp oge {self.n} {total}, {self.constant(float(step))}")
            own = self.set(f"add i32 {own}, {self.set(f'zext i1 {above} to i32')}")
        place = self._draw(own, there)
        self.put(f"br i1 {there}, label %put, label %leave")
        self.open("put")
        at = self.set(f"add i32 {self.set(f'mul i32 {own}, %stride')}, {place}")
        at = self.set(f"add i32 {at}, {N_HEAD + N_LISTS}")
        self.put(f"store i32 {env}, {self._at(self.pointer, 'i32', '%memory', at)}")
        self.put("br label %leave")
        self.open("leave")

    def _empty(self, n_kinds: int) -> None:
        """The first thread of all sets how long lists are."""
        if not n_kinds:
            return
        first = self.set(f"icmp eq i32 {self.set('add i32 %first, %tid')}, 0")
        self.put(f"br i1 {first}, label %empty, label %sort")
        self.open("empty")
        for kind in range(n_kinds):
            self.put(f"store i32 0, {self._at(self.pointer, 'i32', '%told_start', str(kind))}")
        self.put("br label %sort")
        self.open("sort")

    def _draw(self, own: str, there: str) -> str:
        """A place in a list: of the threads of a warp that ask for the same list one asks for all."""
        same = self.set(f"call i32 @{BALLOT}(i32 {ALL}, i1 {there})")
        for bit in range((N_LISTS - 1).bit_length()):
            is_set = self.set(f"icmp ne i32 {self.set(f'and i32 {own}, {1 << bit}')}, 0")
            votes = self.set(f"call i32 @{BALLOT}(i32 {ALL}, i1 {is_set})")
            like = self.set(f"select i1 {is_set}, i32 {votes}, i32 {self.set(f'xor i32 {votes}, -1')}")
            same = self.set(f"and i32 {same}, {like}")
        below = self.set(f"call i32 @{BELOW}()")
        before = self.set(f"call i32 @{ONES}(i32 {self.set(f'and i32 {same}, {below}')})")
        asks = self.set(f"and i1 {self.set(f'icmp eq i32 {before}, 0')}, {there}")
        start = self.label
        self.put(f"br i1 {asks}, label %ask, label %told")
        self.open("ask")
        counter = self._at(self.pointer, "i32", "%memory", self.set(f"add i32 {own}, {N_HEAD}"))
        count = self.set(f"call i32 @{ONES}(i32 {same})")
        first = self.set(f"atomicrmw add {counter}, i32 {count} monotonic")
        self.put("br label %told")
        self.open("told")
        known = self.set(f"phi i32 [ 0, %{start} ], [ {first}, %ask ]")
        leader = self.set(f"urem i32 {self.set(f'call i32 @{FIRST}(i32 {same}, i1 false)')}, {WARP}")
        known = self.set(f"call i32 @{TELL}(i32 {ALL}, i32 {known}, i32 {leader}, i32 31)")
        return self.set(f"add i32 {known}, {before}")


def of_order(text: LlvmBlocks, number: str) -> str:
    """The environment that is so many places from the beginning, that of the longest work."""
    place, left = "0", number
    for own in reversed(range(N_LISTS)):
        count = text.set(f"load i32, {text._at(text.pointer, 'i32', '%memory', str(N_HEAD + own))}")
        start = text.set(f"add i32 {text.set(f'mul i32 %stride, {own}')}, {left}")
        place = text.set(f"select i1 {text.set(f'icmp ult i32 {left}, {count}')}, i32 {start}, i32 {place}")
        left = text.set(f"sub i32 {left}, {count}")  # below zero, and so above all counts, once it is found
    at = text.set(f"add i32 {place}, {N_HEAD + N_LISTS}")
    return text.set(f"load i32, {text._at(text.pointer, 'i32', '%memory', at)}")


def forget_order(text: LlvmBlocks) -> None:
    """All lists are empty."""
    for own in range(N_LISTS):
        text.put(f"store i32 0, {text._at(text.pointer, 'i32', '%memory', str(N_HEAD + own))}")
