"""Bit masks for classes of geoms, so that exactly those classes collide which should.

A bit k lets every class with it in `contype` collide with every class with it in `conaffinity`: it covers all pairs
between two sets. The masks are a cover of the wanted pairs by such sets, found greedily.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

MAX_BITS = 31
"""MuJoCo's masks are signed 32-bit numbers."""

Wanted = Callable[[int, int], bool | None]
"""Whether two classes are to collide; None where it does not matter."""


def cover(n_classes: int, wanted: Wanted) -> list[tuple[int, int]] | None:
    """`contype` and `conaffinity` of every class; None where that takes more bits than there are."""
    open_pairs = {(i, j) for i in range(n_classes) for j in range(i, n_classes) if wanted(i, j)}
    bits: list[tuple[set[int], set[int]]] = []
    while open_pairs:
        if len(bits) == MAX_BITS:
            return None
        one, other = _grow(min(open_pairs), n_classes, wanted, open_pairs)
        bits.append((one, other))
        open_pairs -= {_pair(i, j) for i in one for j in other}
    masks = [
        (
            sum(1 << k for k, (one, _) in enumerate(bits) if c in one),
            sum(1 << k for k, (_, other) in enumerate(bits) if c in other),
        )
        for c in range(n_classes)
    ]
    return _without_strangers(masks, len(bits))


def _grow(
    start: tuple[int, int], n_classes: int, wanted: Wanted, open_pairs: set[tuple[int, int]]
) -> tuple[set[int], set[int]]:
    """Two sets around a pair, all of whose pairs may collide, each class added where it covers the most."""
    one, other = {start[0]}, {start[1]}
    while True:
        best: tuple[int, int, int] | None = None
        for c in range(n_classes):
            for side, own, opposite in ((0, one, other), (1, other, one)):
                if c in own or any(wanted(c, o) is False for o in opposite):
                    continue
                gain = sum(1 for o in opposite if _pair(c, o) in open_pairs and not _covered(c, o, one, other))
                if gain and (best is None or gain > best[0]):
                    best = (gain, c, side)
        if best is not None:
            (one if best[2] == 0 else other).add(best[1])
            continue
        both = _another(one, other, wanted, open_pairs)
        if both is None:
            return one, other
        one.add(both[0])
        other.add(both[1])


def _another(
    one: set[int], other: set[int], wanted: Wanted, open_pairs: set[tuple[int, int]]
) -> tuple[int, int] | None:
    """A pair that is not covered and of which a class can go to each side."""
    for pair in sorted(open_pairs):
        if _covered(*pair, one, other):
            continue
        for i, j in (pair, pair[::-1]):
            fits = all(wanted(i, o) is not False for o in other) and all(wanted(j, o) is not False for o in one)
            if fits:
                return i, j
    return None


def _covered(i: int, j: int, one: set[int], other: set[int]) -> bool:
    return (i in one and j in other) or (j in one and i in other)


def _pair(i: int, j: int) -> tuple[int, int]:
    return (i, j) if i <= j else (j, i)


def _without_strangers(masks: list[tuple[int, int]], n_bits: int) -> list[tuple[int, int]] | None:
    """A class that collides with none still needs a bit, or it would be for the eye only.

    In `contype` alone: then it touches other models' geoms, which have bit 0 in both, if no class here does.
    """
    if all(a or b for a, b in masks):
        return masks
    affinities = 0
    for _, conaffinity in masks:
        affinities |= conaffinity
    spare = next((k for k in range(MAX_BITS) if not affinities >> k & 1), None)
    return None if spare is None else [m if any(m) else (1 << spare, 0) for m in masks]


def classes_of(keys: Sequence[Hashable]) -> tuple[list[int], int]:
    """The number of the class of each item, and how many there are; items with equal keys are one class."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys], len(numbers)


def collide(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """MuJoCo's rule for the masks of two geoms."""
    return bool(a[0] & b[1] or b[0] & a[1])
