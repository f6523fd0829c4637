"""Reading an element loses nothing silently."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.core import parse_xml
from kinema.read.cursor import Cursor, parse_float
from kit.diagnostics import ClaimedDiagnostics


def cursor(text: str, diagnostics: ClaimedDiagnostics) -> Cursor:
    return Cursor(parse_xml(text.encode(), "f"), "urdf", diagnostics)


def test_what_was_not_asked_for_is_kept_and_said(diagnostics: ClaimedDiagnostics) -> None:
    c = cursor('<a x="1" y="2">\n<b/>\n<c>t</c>\n</a>', diagnostics)
    assert c.attribute_text("x") == "1"
    assert c.child("b") is not None
    kept = c.collect_unread()
    assert [(e.tag, e.text, e.origin.line) for e in kept] == [("@y", "2", 1), ("c", "<c>t</c>", 3)]
    assert "'y'" in diagnostics.claim("urdf.unknown-attribute").message
    assert diagnostics.claim("urdf.unknown-element").origin.line == 3


def test_quiet_tags_are_kept_without_a_warning(diagnostics: ClaimedDiagnostics) -> None:
    assert [e.tag for e in cursor("<a><gazebo/></a>", diagnostics).collect_unread(without_warning=["gazebo"])] == [
        "gazebo"
    ]


def test_numbers_that_are_none_are_errors_and_reading_goes_on(diagnostics: ClaimedDiagnostics) -> None:
    c = cursor('<a v="1 2" w="1 2 3">1.5m</a>', diagnostics)
    assert c.text_as_float(7.0) == 7.0
    np.testing.assert_array_equal(c.attribute_floats("v", (0, 0, 1)), [0, 0, 1])
    np.testing.assert_array_equal(c.attribute_floats("w", (0, 0, 1)), [1, 2, 3])
    assert "'1.5m' is not a number" in diagnostics.claim("urdf.not-a-number").message
    assert "is not 3 numbers" in diagnostics.claim("urdf.not-a-number").message


def test_commas_between_numbers_are_said_and_read_over(diagnostics: ClaimedDiagnostics) -> None:
    """Bullet takes them, ROS does not; a comma inside a number could mean anything."""
    c = cursor('<a v="0.07, 0, -0.69" w="0,5 0 1" x="0,5, 0, 1"/>', diagnostics)
    np.testing.assert_array_equal(c.attribute_floats("v", (0, 0, 1)), [0.07, 0, -0.69])
    assert diagnostics.claim("urdf.commas").hint
    for attribute in "wx":
        np.testing.assert_array_equal(c.attribute_floats(attribute, (0, 0, 1)), [0, 0, 1])
        diagnostics.claim("urdf.not-a-number")


def test_missing_attributes_repeated_elements_and_flags(diagnostics: ClaimedDiagnostics) -> None:
    c = cursor("<a><b>1</b><b>2</b><f>true</f><g>maybe</g></a>", diagnostics)
    assert c.required_attribute("name") == ""
    assert c.child_text("b") == "1"
    assert c.child_flag("f", False) is True
    assert c.child_flag("g", True) is True
    for code in ("missing-attribute", "repeated-element", "not-a-flag"):
        diagnostics.claim(f"urdf.{code}")


@pytest.mark.parametrize(
    ("text", "value"), [("1e3", 1000.0), (" -.5 ", -0.5), ("1_000", None), ("٣", None), ("", None)]
)
def test_numbers_are_plain_decimal_numbers(text: str, value: float | None) -> None:
    assert parse_float(text) == value
