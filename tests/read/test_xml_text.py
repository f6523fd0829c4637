"""XML from strangers: lines, verbatim text, and everything that is refused."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, strategies as st

from kinema.core import MAX_XML_DEPTH, MAX_XML_ELEMENTS, ReadError, parse_xml
from kit.patience import HANG

DOCUMENT = b"""<?xml version="1.0"?>
<robot name="a">
  <!-- a comment with <tags> -->
  <link name="x"/>
  <gazebo reference="x"><mu1 a=">">0.3</mu1><k/></gazebo>
  <k><k x="a>b"/></k>
</robot>
"""


def test_elements_know_their_line_and_their_source_text() -> None:
    root = parse_xml(DOCUMENT, "f.urdf")
    found = [(e.tag, e.line, e.verbatim) for e in root.iterate() if e is not root]
    assert found == [
        ("link", 4, '<link name="x"/>'),
        ("gazebo", 5, '<gazebo reference="x"><mu1 a=">">0.3</mu1><k/></gazebo>'),
        ("mu1", 5, '<mu1 a=">">0.3</mu1>'),
        ("k", 5, "<k/>"),
        ("k", 6, '<k><k x="a>b"/></k>'),
        ("k", 6, '<k x="a>b"/>'),
    ]
    assert str(root.children[0].origin) == "f.urdf:4"
    assert root.verbatim == DOCUMENT.decode().split("\n", 1)[1].strip()


tags = st.sampled_from(["a", "b", "c:d"])
texts = st.sampled_from(["", "t", " 1 2 ", "/>", "é"])


@st.composite
def elements(draw: st.DrawFn, depth: int = 0) -> str:
    tag, text = draw(tags), draw(texts).replace(">", "&gt;")
    inside = "".join(draw(st.lists(elements(depth + 1), max_size=2))) if depth < 3 else ""
    attribute = draw(st.sampled_from(["", ' x="1"', " y='/>'"]))
    if not inside and not text and draw(st.booleans()):
        return f"<{tag}{attribute}/>"
    return f"<{tag}{attribute}>{text}{inside}</{tag}>"


@given(elements())
def test_verbatim_text_parses_to_the_same_element(document: str) -> None:
    for element in parse_xml(document.encode(), "f").iterate():
        again = parse_xml(element.verbatim.encode(), "f")
        assert (again.tag, again.attributes, again.text) == (element.tag, element.attributes, element.text)
        assert again.verbatim == element.verbatim


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1"])
def test_declared_encodings_are_read(encoding: str) -> None:
    declared = "utf-8" if encoding == "utf-8-sig" else encoding
    text = f'<?xml version="1.0" encoding="{declared}"?>\n<robot name="é"><link/></robot>'
    root = parse_xml(text.encode(encoding), "f")
    assert root.attributes["name"] == "é"
    assert root.children[0].verbatim == "<link/>"


def test_undeclared_prefixes_are_kept_as_written() -> None:
    assert parse_xml(b"<a><drake:x/></a>", "f").children[0].tag == "drake:x"


BOMB = b'<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><robot>&b;</robot>'
BAD = {
    "empty": (b"", "empty"),
    "blank": (b" \n ", "empty"),
    "binary": (bytes(range(256)), "binary"),
    "truncated": (b"<robot><link name='x'", "f:1: not well-formed"),
    "two roots": (b"<a/>\n<b/>", "f:2: not well-formed"),
    "text": (b"hello", "not well-formed"),
    "entity bomb": (BOMB, "entities are not accepted"),
    "external entity": (b'<!DOCTYPE r SYSTEM "file:///etc/passwd"><r/>', "entities are not accepted"),
    "undefined entity": (b"<r>&x;</r>", "not well-formed"),
    "deep": (b"<a>" * 10_000, f"more than {MAX_XML_DEPTH} deep"),
    "many": (b"<r>" + b"<a/>" * (MAX_XML_ELEMENTS + 1) + b"</r>", f"more than {MAX_XML_ELEMENTS} elements"),
    "encoding": (b'<?xml version="1.0" encoding="klingon"?><a/>', "encoding 'klingon'"),
    "not utf-8": (b"<a>\n\xff\xff</a>", "f:2: the text is not utf-8"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_documents_are_one_clear_error(name: str) -> None:
    data, message = BAD[name]
    begin = time.monotonic()
    with pytest.raises(ReadError, match=message):
        parse_xml(data, "f")
    assert time.monotonic() - begin < HANG


def test_callers_may_set_the_limits() -> None:
    document = b'<a x="1" y="2"><b><c/></b><b><c z="3"/></b></a>'
    assert parse_xml(document, "f", max_bytes=len(document), max_elements=5, max_items=8).get("y") == "2"
    for limit, message in (
        ({"max_bytes": len(document) - 1}, "bytes"),
        ({"max_elements": 4}, "f:1: the file has more than 4 elements"),
        ({"max_items": 7}, "f:1: the file has more than 7 elements and attributes"),
    ):
        with pytest.raises(ReadError, match=message):
            parse_xml(document, "f", **limit)


def test_paths_of_tags_find_descendants() -> None:
    root = parse_xml(b"<a><b><c>1</c></b><b><c>2</c><d/></b><c>3</c></a>", "f")
    assert [e.text for e in root.find_all("b/c")] == ["1", "2"]
    assert root.find("b/d") is root.children[1].children[1]
    assert (root.find_text("b/c"), root.find_text("c"), root.find_text("b/e")) == ("1", "3", "")
    assert root.find("d") is None


@given(st.binary(max_size=300))
def test_random_bytes_never_escape_as_another_error(data: bytes) -> None:
    try:
        parse_xml(data, "f")
    except ReadError as error:
        assert str(error).startswith("f")  # noqa: PT017
