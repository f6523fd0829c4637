"""How messages call things and write numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from kinema.description import (
    Actuator,
    Axis,
    AxisMotion,
    Camera,
    Constraint,
    Frame,
    Joint,
    Keyframe,
    Light,
    Link,
    Node,
    Robot,
    Sensor,
    Shape,
    Tendon,
    World,
)

_KINDS: list[tuple[type[Node], str]] = [
    (Link, "link"),
    (Joint, "joint"),
    (Shape, "shape"),
    (Robot, "robot"),
    (World, "world"),
    (Actuator, "actuator"),
    (Tendon, "tendon"),
    (Sensor, "sensor"),
    (Frame, "frame"),
    (Camera, "camera"),
    (Light, "light"),
    (Constraint, "constraint"),
    (Keyframe, "keyframe"),
]


def kind_of(node: Node) -> str:
    """What a node is, in a word: `link`, `joint`, ..."""
    return next((word for kind, word in _KINDS if isinstance(node, kind)), type(node).__name__)


def label(node: Node) -> str:
    """A node by kind and name: `joint "elbow"`."""
    return f'{kind_of(node)} "{node.name}"' if node.name else f"the nameless {kind_of(node)}"


def shape_label(shape: Shape, link: Link | None) -> str:
    """A shape by its name or, as most have none, by what it is and the link it is on."""
    role = "collision" if shape.collision else "visual"
    where = f" of {label(link)}" if link is not None else ""
    named = f' "{shape.name}"' if shape.name and not shape.name_is_generated else ""
    return f"{'' if named else 'the '}{role} {shape.kind}{named}{where}"


def axis_label(joint: Joint, axis: Axis) -> str:
    """A joint, or one axis of it where it has several."""
    if len(joint.axes) == 1:
        return label(joint)
    return f"axis {_index(joint.axes, axis) + 1} of {label(joint)}"


def _index(items: Sequence[object], item: object) -> int:
    return next(i for i, x in enumerate(items) if x is item)


def number(value: float) -> str:
    """A number with four digits, or all of a short one."""
    return f"{value:.4g}"


def numbers(values: Iterable[float]) -> str:
    """Numbers in brackets."""
    return f"({', '.join(number(float(v)) for v in values)})"


def length(metres: float) -> str:
    """A length in the unit that suits it."""
    if not math.isfinite(metres) or metres == 0 or abs(metres) >= 0.9995:
        return f"{metres:.4g} m"
    if abs(metres) >= 0.9995e-3:
        return f"{metres * 1e3:.3g} mm"
    return f"{metres * 1e6:.3g} um"


def angle(radians: float) -> str:
    """An angle in radians, with degrees beside them."""
    return f"{radians:.4g} rad ({math.degrees(radians):.4g} degrees)" if math.isfinite(radians) else f"{radians} rad"


def coordinate(axis: Axis, value: float) -> str:
    """A coordinate of an axis with its unit."""
    return angle(value) if axis.motion is AxisMotion.ROTATION else length(value)


def plural(count: int, one: str, many: str = "") -> str:
    """A count with its noun: `1 face`, `3 faces`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def listing(names: Sequence[str], most: int = 5) -> str:
    """Some names in quotes, and how many more there are."""
    shown = ", ".join(f'"{n}"' for n in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
