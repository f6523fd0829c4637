"""Results that are kept in memory for as long as there is room for them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """The most recently used results by their keys, up to a number of bytes; threads may share it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._kept: OrderedDict[str, tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get_or_make(self, key: str, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """What is kept under a key, or what `make` computes, which takes `size` bytes."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
        made = make()
        n_bytes = size(made)
        with self._lock:
            if key not in self._kept and n_bytes <= self._limit:
                self._kept[key] = made, n_bytes
                self._size += n_bytes
                while self._size > self._limit:
                    self._size -= self._kept.popitem(last=False)[1][1]
        return made

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
            self._size = 0
