"""Joint frames and axes in the root component's frame, whatever the API gives them in.

What the root component owns is in its frame. For what a nested component owns a proxy should give the same; where it is
null, or still in the nested component's own frame, it is lifted here.
"""

from __future__ import annotations

from typing import Any

from .api import attribute, difference, frame, matrix, multiply, place, point, turn

_SAME = 1e-9


def geometry_frame(geometry: Any) -> list[float] | None:
    """The matrix of a JointGeometry or JointOrigin: z is the primary axis, x the secondary, y the third."""
    if geometry is None:
        return None
    transform = attribute(geometry, "transform")
    if transform is not None:
        return matrix(transform)
    axes = [attribute(geometry, f"{n}AxisVector") for n in ("secondary", "third", "primary")]
    if any(a is None for a in axes):
        return None
    x, y, z = (point(a) for a in axes)
    origin = attribute(geometry, "origin")
    if origin is not None:
        return frame(point(origin), x, y, z)
    # a JointOrigin has no origin of its own: it is offset from its geometry's along its axes
    inside = attribute(geometry, "geometry")
    start = attribute(inside, "origin")
    if start is None:
        return None
    at = point(start)
    for name, axis in (("offsetX", x), ("offsetY", y), ("offsetZ", z)):
        offset = parameter(geometry, name)
        at = [a + offset * d for a, d in zip(at, axis)]
    return frame(at, x, y, z)


def parameter(thing: Any, name: str) -> float:
    """The value of a ModelParameter; zero where there is none."""
    return float(attribute(attribute(thing, name), "value", 0.0))


def joint_frames(joint: Any, kind: str) -> tuple[list[float] | None, list[float] | None]:
    """The frames on occurrence one and two, in whatever context the joint is; an as-built joint has only the second."""
    if kind == "as_built":
        geometry = geometry_frame(attribute(joint, "geometry"))
        return None, geometry if geometry is not None else _transform(joint, "transform")
    both = []
    for number in ("One", "Two"):
        geometry = geometry_frame(attribute(joint, f"geometryOrOrigin{number}"))
        both.append(geometry if geometry is not None else _transform(joint, f"geometry{number}Transform"))
    return both[0], both[1]


def _transform(joint: Any, name: str) -> list[float] | None:
    """A property of newer versions of Fusion."""
    found = attribute(joint, name)
    return None if found is None else matrix(found)


def lift_frame(proxy: list[float] | None, native: list[float] | None, context: list[float]) -> list[float] | None:
    """A frame in the root component's frame."""
    if native is None:
        return proxy
    if proxy is None or difference(proxy, native) < _SAME:
        return multiply(context, native)
    return proxy


def lift_axis(proxy: list[float] | None, native: list[float] | None, context: list[float]) -> list[float] | None:
    """A direction in the root component's frame."""
    if native is None:
        return proxy
    if proxy is None or difference(proxy, native) < _SAME:
        return turn(context, native)
    return proxy


def box_around(low: list[float], high: list[float], pose: list[float]) -> list[float]:
    """The box along the root's axes around a box along a component's: its least, then its greatest corner."""
    corners = [
        place(pose, [(low, high)[i][0], (low, high)[j][1], (low, high)[k][2]])
        for i in range(2)
        for j in range(2)
        for k in range(2)
    ]
    return [min(c[i] for c in corners) for i in range(3)] + [max(c[i] for c in corners) for i in range(3)]
