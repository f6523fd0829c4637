"""How long big models take to compile: run with `pytest -m benchmark`; `tools/compile_time.py` writes it down."""

from __future__ import annotations

import compile_time as tool
import pytest


@pytest.mark.parametrize("kind", ["chain", "tree", "arms", "bodies"])
def test_models_of_the_benchmark_are_sound(kind: str) -> None:
    """What the benchmark makes is well-formed, and has as many links as it says."""
    assert tool.world(kind, 3).count("<body") == (21 if kind == "arms" else 3)


@pytest.mark.benchmark
@pytest.mark.parametrize(("kind", "few", "many"), [("chain", 30, 200), ("tree", 31, 255), ("arms", 3, 30)])
def test_compile_time_does_not_grow(kind: str, few: int, many: int) -> None:
    """Seconds of the processor, from an empty cache: nearly the same for seven to ten times as many joints."""
    small, large = (tool.measure_apart(kind, n, "loops", 4) for n in (few, many))
    assert large.instructions <= 1.2 * small.instructions
    assert large.processor < 1.5 * small.processor + 0.5
