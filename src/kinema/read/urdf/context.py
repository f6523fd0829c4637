"""What parsing an element needs to know beside the element itself, and the small things that many elements have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kinema.description import Extra
from kinema.foundation import Array, Diagnostics, vector
from kinema.words import urdf

from ..cursor import Cursor, parse_float
from ..xml_text import XmlElement
from .elements import GeometryElement, InertialElement, MaterialElement, PlacementElement

_VENDOR = {"gazebo", "transmission", "ros2_control", "mujoco", "contact", "verbose", "self_collision_checking"}
"""Extensions that other programs read; they are kept without a warning. So is everything called `drake:...`."""


@dataclass(slots=True, eq=False)
class Context:
    """The file that is parsed."""

    diagnostics: Diagnostics
    version: tuple[int, int] = (1, 0)
    """The version of URDF that it declares."""
    kept: dict[str, list[XmlElement]] = field(default_factory=dict)
    """Vendor elements that were kept, by tag."""

    def leftovers(self, cursor: Cursor, path: str = "") -> list[Extra]:
        """What was not asked for, with the path to it; vendor elements are only counted."""
        if not cursor.element.attributes and not cursor.element.children:
            return []
        vendor = [e for e in cursor.element.children if _is_vendor(e.tag) and e.tag not in cursor.seen]
        for element in vendor:
            self.kept.setdefault(element.tag, []).append(element)
        extras = cursor.finish(quiet=[e.tag for e in vendor])
        return [replace(e, tag=f"{path}/{e.tag}") for e in extras] if path else extras

    def report_kept(self) -> None:
        """One note for each kind of vendor element."""
        for tag, elements in self.kept.items():
            many = f"{len(elements)} <{tag}> elements are" if len(elements) > 1 else f"<{tag}> is"
            message = f"{many} kept as written, without any effect here"
            self.diagnostics.note(f"{urdf.FORMAT}.kept-element", message, origin=elements[0].origin)

    def needs_version(self, cursor: Cursor, what: str, version: tuple[int, int]) -> None:
        """Warn of a feature that the declared version does not have; other readers ignore it then."""
        if self.version < version:
            number = "{}.{}".format(*version)
            message = f"{what} is URDF {number}, which this file does not declare; it is read all the same"
            cursor.warning("needs-version", message, f'say version="{number}" in <robot>, or other programs ignore it')


def _is_vendor(tag: str) -> bool:
    return tag in _VENDOR or tag.startswith("drake:")


# -- extras -----------------------------------------------------------------------------------------------------------


def extra_of(element: XmlElement) -> Extra:
    """The element, verbatim."""
    return Extra(urdf.FORMAT, element.tag, element.verbatim, element.origin)


def under(path: str, element: PlacementElement | InertialElement | GeometryElement | MaterialElement) -> list[Extra]:
    """The extras of a part, with the path to it."""
    return [replace(e, tag=f"{path}/{e.tag}") for e in element.extras]


# -- numbers ----------------------------------------------------------------------------------------------------------


def finite(cursor: Cursor, attribute: str, default: Sequence[float]) -> Array:
    """As many finite numbers as the default has."""
    values = cursor.numbers(attribute, default)
    if np.isfinite(values).all():
        return values
    hint = f"{' '.join(f'{d:g}' for d in default)} is assumed"
    cursor.error("not-finite", f"{attribute!r} of <{cursor.tag}> is not finite", hint)
    return vector(default)


def numbers_of(cursor: Cursor, attributes: Sequence[str]) -> dict[str, float]:
    """Those of the attributes that are there and are numbers; infinity is one, NaN is not."""
    result: dict[str, float] = {}
    for attribute in attributes:
        text = cursor.text_of(attribute)
        if text is None:
            continue
        value = parse_float(text)
        if value is None or math.isnan(value):
            message = f"{attribute!r} of <{cursor.tag}>: {text.strip()[:60]!r} is not a number"
            cursor.error("not-a-number", message, "it is read as if it were not there")
        else:
            result[attribute] = value
    return result


# -- places -----------------------------------------------------------------------------------------------------------


def parse_placement(cursor: Cursor, context: Context) -> PlacementElement:
    """The `<origin>` in an element, or the identity."""
    origin = cursor.child("origin")
    if origin is None:
        return PlacementElement(place=cursor.origin)
    result = PlacementElement(
        place=origin.origin, xyz=finite(origin, "xyz", (0, 0, 0)), rpy=finite(origin, "rpy", (0, 0, 0))
    )
    if origin.text_of("quat_xyzw") is not None:
        context.needs_version(origin, "quat_xyzw", (1, 1))
        if origin.text_of("rpy") is not None:
            origin.error("two-rotations", "<origin> has both 'rpy' and 'quat_xyzw'; the quaternion counts")
        result.quat_xyzw = finite(origin, "quat_xyzw", (0, 0, 0, 1))
        length = float(np.linalg.norm(result.quat_xyzw))
        if length < 1e-9:
            origin.error("zero-quaternion", "'quat_xyzw' of <origin> is zero", "no rotation is assumed")
            result.quat_xyzw = vector((0, 0, 0, 1))
        elif abs(length - 1) > 1e-3:
            origin.warning("quaternion-not-unit", f"'quat_xyzw' of <origin> has length {length:g}; it is normalised")
    result.extras = context.leftovers(origin)
    return result
