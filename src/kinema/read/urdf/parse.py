"""From XML to the objects of `elements`: what the file says, and complaints about how it says it."""

from __future__ import annotations

from kinema.foundation import Diagnostics, ReadError
from kinema.words import urdf

from ..cursor import Cursor
from ..xml_text import XmlElement
from .context import Context, extra_of
from .elements import KNOWN_VERSIONS, ReferringElement, RobotElement, version_number
from .parse_joint import parse_joint
from .parse_link import parse_link, parse_material


def parse_robot(root: XmlElement, diagnostics: Diagnostics) -> RobotElement:
    """The objects of a file whose root element is given."""
    if root.tag != "robot":
        raise ReadError(f"{root.origin}: this is not a URDF file: its root element is <{root.tag}>, not <robot>")
    return _robot(Cursor(root, urdf.FORMAT, diagnostics), Context(diagnostics))


def _robot(cursor: Cursor, context: Context) -> RobotElement:
    version = cursor.text_of("version")
    context.version = version_number(version)
    if version is not None and version not in KNOWN_VERSIONS:
        message = f"URDF version {version!r} is unknown; the file is read as version {_read_as(context.version)}"
        cursor.warning("unknown-version", message, f"known are {', '.join(KNOWN_VERSIONS)}")
    robot = RobotElement(place=cursor.origin, name=cursor.required("name"), version=version)
    for child in cursor.children("link"):
        robot.links.append(parse_link(child, context))
    for child in cursor.children("joint", "drake:joint"):
        robot.joints.append(parse_joint(child, context))
    for child in cursor.children("material"):
        robot.materials.append(parse_material(child, context))
    for child in cursor.children("gazebo", "transmission", "ros2_control", "mujoco", "sensor"):
        robot.referring.append(_referring(child, context))
    robot.extras = context.leftovers(cursor)
    context.report_kept()
    return robot


def _read_as(version: tuple[int, int]) -> str:
    return KNOWN_VERSIONS[-1] if version > (1, 2) else "{}.{}".format(*version)


def _referring(cursor: Cursor, context: Context) -> ReferringElement:
    element = cursor.element
    if cursor.tag == "sensor":
        cursor.warning("sensor", f"sensor {_quoted(element)} is kept as written, but measures nothing here")
    else:
        context.kept.setdefault(cursor.tag, []).append(element)
    reference = element.attributes.get("reference", "") if cursor.tag == "gazebo" else ""
    return ReferringElement(place=cursor.origin, content=extra_of(element), reference=reference)


def _quoted(element: XmlElement) -> str:
    return f'"{element.attributes.get("name", "")}"'
