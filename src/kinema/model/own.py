"""Numbers of parts that are read from an array instead of being part of the program: environments have their own."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kinema.foundation import Array


@dataclass(frozen=True, slots=True)
class OwnWord:
    """The numbers of one part under one word."""

    start: int
    """Where they begin in the array."""
    known: tuple[float | None, ...]
    """Those that are nothing or one for everybody, and stay plain; None for what is read."""


@dataclass(kw_only=True, slots=True, eq=False)
class OwnNumbers:
    """All of them."""

    words: dict[tuple[str, int | str, str], OwnWord] = field(default_factory=dict)
    """By the kind of the part, the part, and the word."""
    values: Array = field(default_factory=lambda: np.zeros((0, 1)))
    """(numbers, variants of the model)"""
