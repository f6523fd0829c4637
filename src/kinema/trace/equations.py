"""What many threads of a GPU do at once, as blocks: equations that a team solves, and numbers that threads draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from .slots import Slot


def whole(count: int) -> int:
    """Room for so many numbers, of which four are read at once."""
    return -(-count // 4) * 4


@dataclass(frozen=True, slots=True)
class Term:
    """Records that add J^T W J to a matrix: of each W and J by rows, and how many rows it has."""

    records: Slot
    """Where the first of them starts."""
    width: int
    """Numbers of a record."""
    count: Slot
    """How many there are."""
    dimension: int
    """Rows that there may be; where there are fewer the rest of J is zero."""
    rows: int
    """Where in a record it says how many of them matter; none do where W is zero."""
    curve: int
    """Where W starts; its rows are as far apart as `whole` says."""
    levers: int
    """Where J starts."""
    pitch: int
    """How far apart its rows are."""
    is_cone: bool = False
    """Whether W is that of a cone: of the first direction by itself, and of each other; of the first less a bound times
    the others along one direction; of that direction, to be taken away; then the bound, and that direction."""


def numbers_of_cone(dimension: int) -> int:
    """Of the W of a cone."""
    return 5 + dimension - 1


@dataclass(frozen=True, slots=True)
class Limbs:
    """Unknowns of which most have nothing to do with each other: limbs, each a few in a row, on a trunk."""

    parts: tuple[tuple[int, int], ...]
    """The first unknown of each limb, and how many it has."""
    trunk: tuple[int, ...]
    """All other unknowns."""
    apart: Slot | None
    """Above a half where no two limbs have to do with each other; None where they never have."""

    @property
    def n_limbs(self) -> int:
        """Unknowns of all limbs."""
        return sum(size for _, size in self.parts)

    @property
    def longest(self) -> int:
        """Unknowns of the largest limb."""
        return max(size for _, size in self.parts)

    def coupled(self, count: int) -> npt.NDArray[np.bool_]:
        """Which of so many unknowns have to do with each other while limbs are apart."""
        found = np.ones((count, count), bool)
        for first, size in self.parts:
            own = [*range(first, first + size), *self.trunk]
            found[first : first + size] = np.isin(range(count), own)
        return found

    def fit(self, threads: int) -> bool:
        """Whether each thread has at most one unknown of a limb, and one of the trunk."""
        return max(self.n_limbs, len(self.trunk)) <= threads and bool(self.parts) and bool(self.trunk)

    def columns(self, threads: int) -> tuple[int, int]:
        """How threads share what limbs make of the trunk: so many to a row of it, and columns of each of these."""
        n = len(self.trunk)
        share = min(threads // n, -(-(n + 1) // 4))
        columns = whole(-(-(n + 1) // share))
        return -(-(n + 1) // columns), columns

    def pitches(self, threads: int) -> tuple[int, int]:
        """How far apart rows of limbs and of the trunk are in memory."""
        share, columns = self.columns(threads)
        return whole(max(len(self.trunk) + 1 + self.longest, share * columns)), share * columns

    def n_work(self, threads: int) -> int:
        """Numbers to work in."""
        of_limb, of_trunk = self.pitches(threads)
        n = len(self.trunk)
        return self.n_limbs * of_limb + n * of_trunk + 2 * whole(n)


@dataclass(frozen=True, slots=True)
class Solve:
    """Solve (A + diagonal + terms) x = right for a symmetric positive A; the rows are shared by the threads of a team.

    It eliminates from the last unknown to the first, with no pivot below the inverse of what `most` says.
    """

    name: str
    size: int
    """Unknowns."""
    matrix: Slot
    """Where A starts, by rows."""
    pitch: int
    """How far apart its rows are."""
    diagonal: Slot
    """Numbers that are added to the diagonal."""
    most: Slot
    right: Slot
    result: Slot
    work: Slot
    """Room for two columns, or as much as limbs need."""
    terms: tuple[Term, ...] = ()
    lower: bool = False
    """Whether A is known only up to its diagonal."""
    limbs: Limbs | None = None
    """What has nothing to do with each other, where something has not."""
    n_work: int = 0
    """Numbers that it works in, if that is more than two columns."""

    @property
    def reads(self) -> list[Slot]:
        """Where what it looks at starts."""
        own = [self.matrix, self.diagonal, self.most, self.right]
        own += [] if self.limbs is None or self.limbs.apart is None else [self.limbs.apart]
        return own + [x for term in self.terms for x in (term.records, term.count)]

    def moved(self, slot: Callable[[Slot], Slot]) -> Solve:
        """The same with its memory elsewhere."""
        terms = tuple(replace(t, records=slot(t.records), count=slot(t.count)) for t in self.terms)
        names = ("matrix", "diagonal", "most", "right", "result", "work")
        limbs = self.limbs
        if limbs is not None and limbs.apart is not None:
            limbs = replace(limbs, apart=slot(limbs.apart))
        return replace(self, terms=terms, limbs=limbs, **{name: slot(getattr(self, name)) for name in names})


@dataclass(frozen=True, slots=True)
class Couplings:
    """Records that each couple two things, or one to itself."""

    records: Slot
    """Where the first of them starts."""
    width: int
    """Numbers of a record."""
    count: Slot
    """How many there are."""
    things: int
    """Where in a record the numbers of the two are."""


@dataclass(frozen=True, slots=True)
class Arrange:
    """In which order to eliminate blocks of unknowns, and which blocks of the matrix are filled then.

    Whatever is coupled with the fewest of those that are left goes first; what it was coupled with is coupled from then
    on. For each block of unknowns it tells which one it is whose turn that is, then of itself when its turn is, where
    its tiles start, and how many there are; for each tile its two blocks, the later one first; for each two blocks the
    tile between them; then how many tiles there are, and 1 if there was no room for some.
    """

    name: str
    size: int
    """Blocks of unknowns."""
    room: int
    """Tiles there is room for, beside those of blocks with themselves."""
    couplings: tuple[Couplings, ...]
    blocks: Slot
    """Four numbers for each block."""
    tiles: Slot
    """Two numbers for each tile."""
    between: Slot
    """A number for each two blocks."""
    told: Slot
    """How many tiles there are, and whether some are missing."""

    @property
    def reads(self) -> list[Slot]:
        """Where what it looks at starts."""
        return [x for one in self.couplings for x in (one.records, one.count)]

    @property
    def writes(self) -> list[Slot]:
        """Where what it tells starts."""
        return [self.blocks, self.tiles, self.between, self.told]

    def moved(self, slot: Callable[[Slot], Slot]) -> Arrange:
        """The same with its memory elsewhere."""
        couplings = tuple(replace(c, records=slot(c.records), count=slot(c.count)) for c in self.couplings)
        names = ("blocks", "tiles", "between", "told")
        return replace(self, couplings=couplings, **{name: slot(getattr(self, name)) for name in names})


@dataclass(frozen=True, slots=True)
class Choose:
    """From here on the beginning of a list is all that is used of it, where it says so: that may be near at hand."""

    name: str
    list: Slot
    length: int
    """Numbers of all of it."""
    width: int
    """Numbers of one of its items."""
    used: Slot
    """How many items are used, beside those that always are."""
    most: int
    """How many of these may be near at hand; where there are more, none is."""
    fewest: int | None = None
    """How many at least, where there is little room; None where they do not become fewer."""
    always: int = 0
    """Items that always are used."""
    near: int = -1
    """Where the beginning is then, in a team's memory near at hand."""

    @property
    def count(self) -> int:
        """Numbers of the beginning."""
        return (self.always + self.most) * self.width


@dataclass(frozen=True, slots=True)
class Next:
    """Take a number from a counter, which has one more from then on: no two take the same."""

    name: str
    counter: Slot
    to: Slot
    """Where the number goes."""
