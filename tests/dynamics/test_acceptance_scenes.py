"""Scenes in closed form, stacks and grips within their bounds; all of them: `make scenes`, or `pytest -m benchmark`."""

from __future__ import annotations

import pytest

from kit.contact_scenes import SCENES
from kit.contact_scenes.balls import rest_depth

CHEAP = [name for name, case in SCENES.items() if case.cheap]
LONG = [(name, precision) for name, case in SCENES.items() for precision in case.precisions]


@pytest.mark.parametrize("name", CHEAP)
def test_cheap_scenes(name: str) -> None:
    """In single precision."""
    found = SCENES[name].run("single")
    assert found
    assert not [str(x) for x in found if not x.ok]


def test_how_deep_a_ball_rests() -> None:
    """After 20 s."""
    assert not [str(x) for x in rest_depth() if not x.ok]


@pytest.mark.benchmark
@pytest.mark.parametrize(("name", "precision"), LONG)
def test_scenes(name: str, precision: str) -> None:
    """All of them."""
    assert not [str(x) for x in SCENES[name].run(precision) if not x.ok]
