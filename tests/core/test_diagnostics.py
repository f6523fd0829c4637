"""Diagnostics are values; the policy decides what raises."""

from __future__ import annotations

import logging

import pytest

from kinema.core import Diagnostics, KinemaError, Origin, log_errors, raise_on_error
from kit.diagnostics import ClaimedDiagnostics


def test_a_diagnostic_says_where_what_and_how_to_repair() -> None:
    collector = Diagnostics()
    collector.warning("urdf.x", "joint 'a' is odd", hint="make it even", origin=Origin("arm.urdf", 12))
    assert str(collector.items[0]) == "arm.urdf:12: warning: joint 'a' is odd (make it even) [urdf.x]"
    assert collector.items[0].to_json()["line"] == 12


def test_origin_of_a_prim_shows_its_path() -> None:
    assert str(Origin("a.usda", path="/World/arm")) == "a.usda </World/arm>"
    assert str(Origin(path="/World/arm")) == "</World/arm>"


def test_collecting_goes_on_after_an_error() -> None:
    collector = Diagnostics()
    collector.error("a.b", "one")
    collector.note("a.c", "two")
    assert collector.codes() == ["a.b", "a.c"]
    assert [d.code for d in collector.errors()] == ["a.b"]


def test_raising_policy_raises_on_the_first_error_only() -> None:
    collector = Diagnostics(policy=raise_on_error)
    collector.warning("a.a", "fine")
    with pytest.raises(KinemaError, match="broken") as caught:
        collector.error("a.b", "broken")
    assert caught.value.diagnostics[0].code == "a.b"


def test_logging_policy_shows_errors_to_who_does_not_look(caplog: pytest.LogCaptureFixture) -> None:
    collector = Diagnostics(policy=log_errors)
    with caplog.at_level(logging.WARNING, logger="kinema"):
        collector.warning("a.a", "quiet")
        collector.error("a.b", "loud")
    assert "loud" in caplog.text
    assert "quiet" not in caplog.text


def test_severities_compare_with_their_words() -> None:
    collector = Diagnostics()
    collector.error("a.b", "one")
    assert collector.items[0].severity == "error"


def test_the_fixture_finds_what_a_test_did_not_claim() -> None:
    """The check behind the `diagnostics` fixture can fail."""
    collector = ClaimedDiagnostics()
    collector.warning("a.a", "expected")
    collector.warning("a.b", "not expected")
    collector.note("a.c", "notes need no claim")
    assert collector.claim("a.a").message == "expected"
    assert [d.code for d in collector.unclaimed()] == ["a.b"]
    with pytest.raises(AssertionError, match=r"no unclaimed diagnostic 'a\.a'"):
        collector.claim("a.a")
