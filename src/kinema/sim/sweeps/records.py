"""Records of scalars (dataclasses, lists, tuples) as flat lists of numbers, and back; their sums."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

from kinema.trace import Scalar, Value

R = TypeVar("R")


_SCALARS = (Scalar, float, int)


@cache
def _field_names(kind: type) -> tuple[str, ...] | None:
    """The fields of a dataclass; None for lists and tuples."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else None


def numbers(record: Any) -> list[Value]:
    """All scalars of a record, in the order of its fields."""
    found: list[Value] = []
    _gather(record, found)
    return found


def _gather(record: Any, found: list[Value]) -> None:
    if isinstance(record, _SCALARS):
        found.append(record)
    else:
        for part in _parts(record):
            _gather(part, found)


def like(record: R, values: Sequence[Value]) -> R:
    """A record of the same form with other scalars."""
    rest = iter(values)
    return _mapped(lambda _: next(rest), record)


def plus(a: R, b: R) -> R:
    """The sum of two records of the same form, scalar by scalar."""
    return _mapped(lambda x, y: x + y, a, b)


def _mapped(change: Callable[..., Value], first: R, *others: R) -> R:
    if isinstance(first, _SCALARS):
        return change(first, *others)  # type: ignore[return-value]  # ty: ignore[invalid-explicit-return]
    if others:
        made = [_mapped(change, *parts) for parts in zip(*(_parts(r) for r in (first, *others)), strict=True)]
    else:
        made = [_mapped(change, part) for part in _parts(first)]
    if isinstance(first, list):
        return made  # type: ignore[return-value]  # ty: ignore[invalid-explicit-return]
    return tuple(made) if isinstance(first, tuple) else type(first)(*made)  # type: ignore[return-value]  # ty: ignore[invalid-explicit-return]


def _parts(record: Any) -> Iterable[Any]:
    names = _field_names(type(record))
    return record if names is None else [getattr(record, name) for name in names]
