"""The table that memory is planned by says the same as the code of the pairs."""

from __future__ import annotations

import pytest

from kinema.dynamics.collision.collision_table import get_collision_table
from kinema.dynamics.collision.contact_buffer_specs import (
    CONTACTS_PER_NORMAL_BIN,
    CONVEX_TYPES,
    MANIFOLD_TYPES,
    max_contacts_by_types,
)
from kinema.dynamics.collision.sdf_pairs import EXTREMAL_DIRECTIONS
from kinema.dynamics.collision.support_mapping import CONVEX_CORES, SUPPORT_FEATURES


@pytest.mark.parametrize("several", [True, False])
def test_planned_contacts_are_those_of_the_pairs(several: bool) -> None:
    assert max_contacts_by_types(multiccd=several) == {
        kinds: pair.max_contacts for kinds, pair in get_collision_table(multiccd=several).items()
    }


def test_kinds_are_those_that_there_is_code_for() -> None:
    assert set(CONVEX_TYPES) == set(CONVEX_CORES)
    assert set(MANIFOLD_TYPES) == set(SUPPORT_FEATURES)
    assert len(EXTREMAL_DIRECTIONS) + 1 == CONTACTS_PER_NORMAL_BIN
