"""Occurrences of components: where they are, what they weigh, and the bodies in them."""

from __future__ import annotations

import numpy as np

from kinema.foundation import Array, Pose

from .elements import BodyElement, MeshElement, OccurrenceElement, PhysicalElement
from .json_text import JsonCursor
from .schema import LENGTH_UNITS, ROOT

_FRAMES = ("root", "component")


def parse_root(cursor: JsonCursor) -> OccurrenceElement:
    """The root component, which is where it is."""
    return OccurrenceElement(
        place=cursor.place(),
        path=ROOT,
        name=cursor.text("name"),
        component=cursor.text("component"),
        physical=_physical(cursor),
        box=_box(cursor),
        bodies=[_body(c) for c in cursor.objects("bodies")],
        extras=cursor.finish(),
    )


def parse_occurrence(cursor: JsonCursor) -> OccurrenceElement | None:
    """An occurrence; None, with an error, where it has no path."""
    path = cursor.text("path")
    if not path:
        cursor.missing("path")
        return None
    pose = cursor.pose("pose")
    if pose is None and cursor.value.get("pose") is None:
        cursor.missing("pose")
    parent, separator, last = path.rpartition("+")
    return OccurrenceElement(
        place=cursor.place(),
        path=path,
        name=cursor.text("name", last or path),
        # a name may itself hold a plus sign, so that the file should say it
        parent=cursor.text("parent") if "parent" in cursor.value else (parent if separator else ROOT),
        component=cursor.text("component"),
        pose=Pose() if pose is None else pose,
        grounded=cursor.flag("grounded"),
        grounded_to_parent=cursor.flag("grounded_to_parent"),
        visible=cursor.flag("visible", default=True),
        physical=_physical(cursor),
        box=_box(cursor),
        bodies=[_body(c) for c in cursor.objects("bodies")],
        extras=cursor.finish(),
    )


def _box(cursor: JsonCursor) -> tuple[Array, Array] | None:
    corners = cursor.numbers("box", 6, cursor.scale)
    return None if corners is None else (corners[:3], corners[3:])


def _physical(owner: JsonCursor) -> PhysicalElement | None:
    cursor = owner.object("physical")
    if cursor is None:
        return None
    mass = cursor.optional_number("mass")
    center = cursor.numbers("center", 3, cursor.scale)
    moments = cursor.numbers("inertia", 6, cursor.scale**2)
    for key, value in (("mass", mass), ("center", center), ("inertia", moments)):
        if value is None and cursor.value.get(key) is None:
            cursor.missing(key)
    principal = cursor.numbers("principal", 3, cursor.scale**2)
    frame = cursor.choice("frame", _FRAMES, "root")
    cursor.text("accuracy")
    cursor.finish()
    if mass is None or center is None or moments is None:
        return None
    if mass < 0:
        cursor.error("negative-mass", f"{cursor.place('mass').path} is {mass:g} kg; the mass is left out", "mass")
        return None
    xx, yy, zz, xy, yz, xz = moments.tolist()
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return PhysicalElement(
        place=cursor.place(), mass=mass, center=center, inertia=tensor, principal=principal, frame=frame
    )


def _body(cursor: JsonCursor) -> BodyElement:
    color = cursor.numbers("color", 4)
    if color is not None and not ((color >= 0) & (color <= 1)).all():
        message = f"{cursor.place('color').path} is not a colour: each of its numbers is from 0 to 1"
        cursor.error("not-a-color", message, "color")
        color = None
    return BodyElement(
        place=cursor.place(),
        name=cursor.text("name"),
        visible=cursor.flag("visible", default=True),
        color=None if color is None else (float(color[0]), float(color[1]), float(color[2]), float(color[3])),
        material=cursor.text("material"),
        physical=_physical(cursor),
        mesh=_mesh(cursor),
        extras=cursor.finish(),
    )


def _mesh(owner: JsonCursor) -> MeshElement | None:
    cursor = owner.object("mesh")
    if cursor is None:
        return None
    file = cursor.text("file")
    if not file:
        cursor.missing("file")
    unit = cursor.choice("unit", tuple(LENGTH_UNITS), "m")
    if "unit" not in cursor.value:
        cursor.missing("unit")
    frame = cursor.choice("frame", _FRAMES, "component")
    cursor.finish()
    return MeshElement(place=cursor.place(), file=file, scale=LENGTH_UNITS[unit], frame=frame) if file else None
