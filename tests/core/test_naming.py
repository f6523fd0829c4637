"""Names that every format accepts."""

from __future__ import annotations

import re

from hypothesis import given, strategies as st

from kinema.core import TakenNames, to_identifier, unique_name


@given(st.text())
def test_clean_names_are_identifiers_and_stay_so(name: str) -> None:
    cleaned = to_identifier(name)
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", cleaned)
    assert to_identifier(cleaned) == cleaned


def test_clean_name_keeps_what_it_can() -> None:
    assert to_identifier("left arm/élbow-2") == "left_arm_elbow_2"
    assert to_identifier("2nd") == "_2nd"
    assert to_identifier("🤖") == "_"


@given(st.lists(st.sampled_from(["a", "b", "a_1"]), max_size=20))
def test_unique_names_are_unique(wanted: list[str]) -> None:
    taken: set[str] = set()
    given_names = [unique_name(w, taken) for w in wanted]
    assert len(set(given_names)) == len(given_names)


@given(st.lists(st.sampled_from(["a", "a_1", "a_2", "b", ""]), max_size=30), st.integers(0, 40))
def test_remembered_numbers_change_no_name(wanted: list[str], free: int) -> None:
    """`TakenNames` gives the names that a plain set gives, also after a name is available again."""
    plain, remembering = set[str](), TakenNames()
    for i, name in enumerate(wanted):
        assert unique_name(name, remembering) == unique_name(name, plain)
        if i == free:
            for taken in (plain, remembering):
                taken.discard(name)
    assert remembering == plain
