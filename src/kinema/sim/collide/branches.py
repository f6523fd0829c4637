"""Conditions without a result."""

from __future__ import annotations

from collections.abc import Callable

from kinema.trace import Recorder, Value


def where(
    recorder: Recorder, name: str, a: Value, b: Value, then: Callable[[], object], *, alone: bool = False
) -> None:
    """Do something where a < b; with `alone` environments of a vector one after the other."""

    def run() -> list[Value]:
        then()
        return []

    recorder.where(name, a, b, run, [], alone=alone)
