"""Labels of nodes and formatting of numbers with units in diagnostic messages."""

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

_KIND_NAMES: list[tuple[type[Node], str]] = [
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


def node_kind(node: Node) -> str:
    """Kind of a node in one word: `link`, `joint`, ..."""
    return next((word for kind, word in _KIND_NAMES if isinstance(node, kind)), type(node).__name__)


def label(node: Node) -> str:
    """Label of a node by kind and name: `joint "elbow"`."""
    return f'{node_kind(node)} "{node.name}"' if node.name else f"the nameless {node_kind(node)}"


def shape_label(shape: Shape, link: Link | None) -> str:
    """Label of a shape by its name, or by geometry type and link."""
    role = "collision" if shape.collision else "visual"
    where = f" of {label(link)}" if link is not None else ""
    named = f' "{shape.name}"' if shape.name and not shape.name_is_generated else ""
    return f"{'' if named else 'the '}{role} {shape.kind}{named}{where}"


def axis_label(joint: Joint, axis: Axis) -> str:
    """Label of a joint, or of one axis of a joint with several."""
    if len(joint.axes) == 1:
        return label(joint)
    return f"axis {_identity_index(joint.axes, axis) + 1} of {label(joint)}"


def _identity_index(items: Sequence[object], item: object) -> int:
    return next(i for i, x in enumerate(items) if x is item)


def format_number(value: float) -> str:
    """Number with four significant digits, or exact if short."""
    return f"{value:.4g}"


def format_vector(values: Iterable[float]) -> str:
    """Numbers in brackets."""
    return f"({', '.join(format_number(float(v)) for v in values)})"


def format_length(metres: float) -> str:
    """Length in a suitable unit."""
    if not math.isfinite(metres) or metres == 0 or abs(metres) >= 0.9995:
        return f"{metres:.4g} m"
    if abs(metres) >= 0.9995e-3:
        return f"{metres * 1e3:.3g} mm"
    return f"{metres * 1e6:.3g} um"


def format_angle(radians: float) -> str:
    """Angle in radians and degrees."""
    return f"{radians:.4g} rad ({math.degrees(radians):.4g} degrees)" if math.isfinite(radians) else f"{radians} rad"


def format_coordinate(axis: Axis, value: float) -> str:
    """Coordinate of an axis with its unit."""
    return format_angle(value) if axis.motion is AxisMotion.ROTATION else format_length(value)


def pluralize(count: int, singular: str, plural_form: str = "") -> str:
    """A count with its noun: `1 face`, `3 faces`."""
    return f"{count} {singular if count == 1 else plural_form or singular + 's'}"


def format_names(names: Sequence[str], max_names: int = 5) -> str:
    """Quoted names, and the number of names omitted."""
    shown = ", ".join(f'"{n}"' for n in names[:max_names])
    return shown + (f" and {len(names) - max_names} more" if len(names) > max_names else "")
