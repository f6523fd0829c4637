"""How long large stages take: run with `pytest -m benchmark`; `tools/usd_speed.py` writes the figures down."""

from __future__ import annotations

from pathlib import Path

import pytest
import usd_speed as speed


@pytest.mark.parametrize("layout", speed.LAYOUTS)
def test_small_stages_of_the_benchmark_are_read_whole(tmp_path: Path, layout: str) -> None:
    """The stages that the benchmark makes are sound: nothing is lost and nothing is warned of."""
    speed.measure(tmp_path, layout, ".usda", 3 * speed.CHAIN, 1)


@pytest.mark.benchmark
@pytest.mark.parametrize("suffix", [".usda", ".usdc"])
@pytest.mark.parametrize("layout", speed.LAYOUTS)
def test_ten_thousand_bodies_and_joints(tmp_path: Path, layout: str, suffix: str) -> None:
    """They are read in under ten seconds, in a time that grows with their number and not with its square."""
    speed.measure(tmp_path, layout, suffix, speed.CHAIN, 1)  # loads the libraries
    figures = [speed.measure(tmp_path, layout, suffix, n, 2) for n in (1_000, 10_000)]
    assert figures[-1].cpu < speed.BUDGET
    assert speed.growth(figures) < 1.5
