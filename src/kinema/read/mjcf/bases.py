"""Robots of which Kinema noted, when it wrote the file, that nothing says what holds their base."""

from __future__ import annotations

from kinema.description import Base, Joint, Link
from kinema.read.xml_text import XmlElement
from kinema.words import mjcf

from .reading import Reading


def loose_bodies(reading: Reading) -> set[str]:
    """The bodies that are fixed to the world only because MuJoCo takes them so."""
    documents = reading.compiled.prepared.document.all_documents()
    texts = [text for d in documents for section in d.root.find_all(mjcf.CUSTOM) for text in section.children]
    return {
        text.attributes["name"].removeprefix(mjcf.BASE_NOTE)
        for text in texts
        if is_note(text) and text.attributes.get("data") == Base.UNSPECIFIED.value
    }


def is_note(element: XmlElement) -> bool:
    """Whether an element is such a note."""
    return element.tag == "text" and element.attributes.get("name", "").startswith(mjcf.BASE_NOTE)


def let_go(links: list[Link], joints: list[Joint], loose: set[str]) -> list[Joint]:
    """The joints without those that hold a loose body to the world; the body then stands where it stood."""
    kept: list[Joint] = []
    by_name = {link.name: link for link in links}
    for joint in joints:
        if joint.implicit and joint.parent is None and joint.child in loose:
            by_name[joint.child].pose = joint.parent_pose
        else:
            kept.append(joint)
    return kept
