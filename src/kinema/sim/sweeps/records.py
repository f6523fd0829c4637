"""Records of scalars (dataclasses, lists, tuples) as flat lists of numbers, and back; their sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from kinema.trace import Scalar, Value

R = TypeVar("R")


def numbers(record: Any) -> list[Value]:
    """All scalars of a record, in the order of its fields."""
    if isinstance(record, Scalar | float | int):
        return [record]
    return [x for part in _parts(record) for x in numbers(part)]


def like(record: R, values: Sequence[Value]) -> R:
    """A record of the same form with other scalars."""
    rest = iter(values)
    return _mapped(lambda _: next(rest), record)


def plus(a: R, b: R) -> R:
    """The sum of two records of the same form, scalar by scalar."""
    return _mapped(lambda x, y: x + y, a, b)


def _mapped(change: Callable[..., Value], first: R, *others: R) -> R:
    if isinstance(first, Scalar | float | int):
        return change(first, *others)  # type: ignore[return-value]
    made = [_mapped(change, *parts) for parts in zip(*(_parts(r) for r in (first, *others)), strict=True)]
    if is_dataclass(first):
        return type(first)(*made)  # type: ignore[return-value]
    return made if isinstance(first, list) else tuple(made)  # type: ignore[return-value]


def _parts(record: Any) -> Iterator[Any]:
    if is_dataclass(record):
        return (getattr(record, f.name) for f in fields(record))
    return iter(record)
