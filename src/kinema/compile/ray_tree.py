"""A mesh as rays walk it: boxes around boxes, and in the last ones triangles, in the order in which they are met.

A ray that misses a box goes on at the first one that is not inside of it, so that nothing has to be remembered.
"""

from __future__ import annotations

import numpy as np

from kinema.foundation import Array
from kinema.model import RAY_BOX, RAY_LEAF


def pack_tree(corners: Array) -> tuple[Array, int]:
    """All boxes, then all triangles in their order, from (n, 3, 3) corners; and how many boxes there are.

    Of a box its lower and upper corner, where to go on past it, and the first and the number of its own triangles.
    """
    boxes: list[list[float]] = []
    order: list[np.ndarray] = []
    taken = 0
    waiting: list[tuple[np.ndarray, int]] = [(np.arange(len(corners)), -1)]
    open_until: list[int] = []
    while waiting:
        own, depth = waiting.pop()
        while len(open_until) > depth + 1:
            boxes[open_until.pop()][6] = float(len(boxes))
        at = corners[own]
        low, high = at.min(axis=(0, 1)), at.max(axis=(0, 1))
        is_leaf = len(own) <= RAY_LEAF
        open_until.append(len(boxes))
        boxes.append([*low, *high, 0.0, float(taken), float(len(own)) if is_leaf else 0.0])
        if is_leaf:
            order.append(own)
            taken += len(own)
            continue
        centers = at.mean(axis=1)
        ranks = np.argsort(centers[:, np.ptp(centers, axis=0).argmax()], kind="stable")
        middle = len(own) // 2
        waiting += [(own[ranks[middle:]], depth + 1), (own[ranks[:middle]], depth + 1)]
    for number in open_until:
        boxes[number][6] = float(len(boxes))
    table = np.array(boxes)
    assert table.shape[1] == RAY_BOX
    return np.concatenate([table.ravel(), corners[np.concatenate(order)].ravel()]), len(boxes)
