"""The table that memory is planned by says the same as the code of the pairs."""

from __future__ import annotations

import pytest

from kinema.sim.collide.features import FEATURES
from kinema.sim.collide.most_points import CONVEX, FACETED, SLOTS, most_points
from kinema.sim.collide.pairs import pairs_of
from kinema.sim.collide.spread import CORNERS
from kinema.sim.collide.support import CORES


@pytest.mark.parametrize("several", [True, False])
def test_planned_contacts_are_those_of_the_pairs(several: bool) -> None:
    assert most_points(several=several) == {kinds: pair.most for kinds, pair in pairs_of(several=several).items()}


def test_kinds_are_those_that_there_is_code_for() -> None:
    assert set(CONVEX) == set(CORES)
    assert set(FACETED) == set(FEATURES)
    assert len(CORNERS) + 1 == SLOTS
