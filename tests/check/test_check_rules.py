"""Every rule finds what it is for, and leaves alone what is just not it."""

from __future__ import annotations

import pytest

from kinema.check import RULES, check
from kinema.check.rule import _RULES_BY_CODE
from kinema.core import Severity

from . import (
    articulation_cases,  # noqa: F401  registers its cases
    shape_cases,  # noqa: F401  registers its cases
)
from .robots_to_check import arm, codes, placed
from .rule_cases import CASES, make


def test_a_clean_robot_has_no_findings() -> None:
    """Nothing is said of a robot that has no fault, with and without authored poses."""
    assert check(arm()) == []
    assert check(placed(arm())) == []


def test_every_rule_has_a_case() -> None:
    """No rule goes untested."""
    assert {r.code for r in RULES} == set(CASES)


@pytest.mark.parametrize("code", CASES)
def test_a_rule_finds_its_fault_and_only_that(code: str) -> None:
    """The spoiled robot has exactly the code of its rule."""
    found = check(make(code).bad)
    assert {d.code for d in found} - make(code).also == {code}, "\n".join(map(str, found))


@pytest.mark.parametrize("code", CASES)
def test_a_rule_leaves_the_near_miss_alone(code: str) -> None:
    """What just escapes the rule is not reported by it."""
    assert code not in codes(make(code).near_miss)


@pytest.mark.parametrize("code", CASES)
def test_findings_say_what_and_how_to_repair(code: str) -> None:
    """A message is a sentence without a full stop, of one line; an error or warning comes with a hint."""
    for found in check(make(code).bad):
        assert "\n" not in found.message
        assert found.message
        assert not found.message.endswith(".")
        assert "<" not in found.message, "a repr has slipped in"
        if found.severity is not Severity.NOTE:
            assert found.hint


def test_rules_are_explained_and_none_is_left_out() -> None:
    """Each rule has a docstring that starts with a sentence, and every registered rule is applied."""
    for rule in RULES:
        assert rule.summary.rstrip().endswith("."), rule.code
    assert {rule.code for rule in RULES} == set(_RULES_BY_CODE)
