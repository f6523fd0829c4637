"""Scenes in closed form, stacks and grips within their bounds; all of them: `make scenes`, or `pytest -m benchmark`."""

from __future__ import annotations

import pytest

from kit.choosing import representatives
from kit.contact_scenes import SCENES
from kit.contact_scenes.balls import rest_depth
from kit.contact_scenes.stacks import heap_at_rest, tall_tower

CHEAP = [name for name, case in SCENES.items() if case.cheap]
LONG = [(name, precision) for name, case in SCENES.items() for precision in case.precisions]


@pytest.mark.parametrize("name", representatives(CHEAP, lambda name: name != "slopes"))
def test_cheap_scenes(name: str) -> None:
    """In single precision."""
    found = SCENES[name].run("single")
    assert found
    assert not [str(x) for x in found if not x.ok]


def test_how_deep_a_ball_rests() -> None:
    """After 20 s."""
    assert not [str(x) for x in rest_depth() if not x.ok]


def test_a_tall_tower_stands() -> None:
    """For 4 s, in single precision."""
    assert not [str(x) for x in tall_tower(seconds=4.0) if not x.ok]


def test_a_heap_stays_where_it_is() -> None:
    """In 5,000 steps."""
    assert not [str(x) for x in heap_at_rest(n_steps=5_000) if not x.ok]


@pytest.mark.benchmark
@pytest.mark.parametrize(("name", "precision"), LONG)
def test_scenes(name: str, precision: str) -> None:
    """All of them."""
    assert not [str(x) for x in SCENES[name].run(precision) if not x.ok]
