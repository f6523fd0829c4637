"""In which order blocks of unknowns are eliminated, on plain numbers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

Pair = tuple[int, int]


def arranged(size: int, room: int, pairs: Iterable[Pair]) -> tuple[np.ndarray, list[Pair], dict[Pair, int], bool]:
    """As `Arrange` says: what it tells of blocks, of tiles, of pairs of blocks, and whether tiles are missing."""
    coupled = {i: set[int]() for i in range(size)}
    for a, b in pairs:
        coupled[a].add(b)
        coupled[b].add(a)
    left = set(range(size))
    blocks = np.zeros((size, 4))
    tiles: list[Pair] = []
    between: dict[Pair, int] = {}
    missing = False
    for turn in range(size):
        own = min(left, key=lambda i: (len((coupled[i] & left) - {i}), i))
        left.remove(own)
        others = sorted(coupled[own] & left)
        if len(tiles) + len(others) > room:
            others, missing = [], True
        blocks[turn, 0] = own
        blocks[own, 1:] = turn, len(tiles), len(others)
        for other in others:
            coupled[other] |= set(others)
            between[other, own] = len(tiles)
            tiles.append((other, own))
    return blocks, tiles, between, missing
