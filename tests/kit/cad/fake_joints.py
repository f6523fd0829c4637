"""The joints of the stand-in for the API of Fusion 360."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .fake_math import Matrix, Matrix3D, Parameter, Point3D, inverse, shift, turn

Path = tuple[str, ...]
X, Y, Z = np.eye(3)
TYPES = ["rigid", "revolute", "slider", "cylindrical", "pin_slot", "planar", "ball", "inferred"]
DIRECTIONS: dict[str, dict[str, np.ndarray]] = {
    "rigid": {},
    "revolute": {"rotation": Z},
    "slider": {"slide": Z},
    "cylindrical": {"rotation": Z, "slide": Z},
    "pin_slot": {"slide": X, "rotation": Z},
    "planar": {"primary_slide": X, "secondary_slide": Y, "rotation": Z},
    "ball": {"pitch": Z, "yaw": X, "roll": Y},
    "inferred": {},
}
"""The motions of each type in the order in which they act, and their directions in the joint's frame."""

_ATTRIBUTES = {
    "rotation": "rotation",
    "slide": "slide",
    "primary_slide": "primarySlide",
    "secondary_slide": "secondarySlide",
    "pitch": "pitch",
    "yaw": "yaw",
    "roll": "roll",
}
_VECTORS = {
    ("planar", "rotation"): "normalDirectionVector",
    "rotation": "rotationAxisVector",
    "slide": "slideDirectionVector",
    "primary_slide": "primarySlideDirectionVector",
    "secondary_slide": "secondarySlideDirectionVector",
    "pitch": "pitchDirectionVector",
    "yaw": "yawDirectionVector",
    "roll": "rollDirectionVector",
}


@dataclass(eq=False)
class JointData:
    """A joint in its component: pose of one = pose of two @ frame2 @ motion @ frame1^-1."""

    name: str
    type: str
    one: Path | None
    two: Path | None
    frame1: Matrix
    frame2: Matrix
    kind: str = "joint"
    values: dict[str, float] = field(default_factory=dict)
    limits: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)
    rest: dict[str, float] = field(default_factory=dict)
    directions: dict[str, np.ndarray] = field(default_factory=dict)
    """In the joint's frame, where they are not the usual ones."""
    flipped: bool = False
    offset: float = 0.0
    angle: float = 0.0
    origins: str = ""
    """Which geometries are joint origins: any of `1` and `2`."""
    order: tuple[str, ...] = ()
    """The order in which the motions act, where it is not the usual one."""
    locked: bool = False
    suppressed: bool = False
    message: str = ""

    def direction(self, motion: str) -> np.ndarray:
        """In the joint's frame."""
        if self.type == "cylindrical":
            motion = "rotation"  # it slides along the axis that it turns about
        return np.asarray(self.directions.get(motion, DIRECTIONS[self.type][motion]))

    def motion(self, values: dict[str, float]) -> Matrix:
        """Pose of the joint's frame on one in that on two."""
        m = np.eye(4)
        for name in self.order or DIRECTIONS[self.type]:
            axis = self.direction(name)
            m = m @ (shift(values[name] * axis) if "slide" in name else turn(axis, values[name]))
        return m

    def geometry_on_one(self) -> Matrix:
        """The CAD program's frame on one, seen from the joint's: turned over, turned, moved off."""
        over = turn(X, np.pi) if self.flipped else np.eye(4)
        return shift(self.offset * Z) @ turn(Z, self.angle) @ over


def make_joint(
    component: Any, name: str, type: str, one: Path | None, two: Path | None, at: Matrix | None = None, **settings: Any
) -> JointData:
    """A joint of a component whose parts stay where they are.

    `at` is the joint's frame on occurrence two, in the component's frame.
    """
    data = JointData(name, type, one, two, np.eye(4), np.eye(4), **settings)
    data.values = {m: data.values.get(m, 0.0) for m in DIRECTIONS[type]}
    frame = np.eye(4) if at is None else np.asarray(at, dtype=float)
    data.frame2 = inverse(component.pose_of(two or ())) @ frame
    data.frame1 = inverse(component.pose_of(one or ())) @ frame @ data.motion(data.values)
    component.joints.append(data)
    return data


# -- what the API hands out -------------------------------------------------------------------------------------------


class FakeJoint:
    """A joint in its component (`context` is None), or a proxy of it at one place."""

    def __init__(self, design: Any, data: JointData, context: Path | None) -> None:
        self._design, self._data, self._context = design, data, context
        self.name = data.name
        self.isLocked = data.locked
        self.isSuppressed = data.suppressed
        self.healthState = 1 if data.message else 0
        self.errorOrWarningMessage = data.message
        if data.kind == "joint":
            self.isFlipped = data.flipped
            self.offset = None if data.type == "inferred" else Parameter(data.offset)
            self.angle = None if data.type == "inferred" else Parameter(data.angle)
        if data.type == "inferred":
            self.jointType = 7

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FakeJoint) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return ("joint", id(self._data), self._context)

    def _owner(self) -> tuple[Path, Any]:
        """The component that owns the joint, and where it stands (first)."""
        for path, component in self._design.contexts():
            if self._data in component.joints and (self._context is None or path == self._context):
                return path, component
        raise AssertionError(self._data.name)

    @property
    def nativeObject(self) -> FakeJoint | None:
        return None if self._context is None else FakeJoint(self._design, self._data, None)

    def createForAssemblyContext(self, occurrence: Any) -> FakeJoint:
        if "no_proxies" in self._design.quirks:
            raise RuntimeError("3 : no proxy")
        return FakeJoint(self._design, self._data, occurrence._path)

    # -- ends -----------------------------------------------------------------------------------------------------

    def _occurrence(self, path: Path | None) -> Any:
        from .fake_fusion import FakeOccurrence

        at, _ = self._owner()
        if path is None:
            if "root_raises" in self._design.quirks:
                raise RuntimeError("3 : InternalValidationError : occurrence")
            return None
        native = self._context is None or "native_paths" in self._design.quirks
        return FakeOccurrence(self._design, (*at, *path), at if native else ())

    @property
    def occurrenceOne(self) -> Any:
        return self._occurrence(self._data.one)

    @property
    def occurrenceTwo(self) -> Any:
        return self._occurrence(self._data.two)

    # -- geometry -------------------------------------------------------------------------------------------------

    def _home(self) -> Matrix:
        """What the API's numbers are expressed in."""
        at, _ = self._owner()
        lifted = self._context is not None and "proxies_not_lifted" not in self._design.quirks
        return np.eye(4) if lifted else self._design.pose(at)

    def _frame(self, number: str) -> Matrix:
        """The CAD program's frame on one or two, where that is now."""
        at, _ = self._owner()
        path, local = (self._data.one, self._data.frame1) if number == "1" else (self._data.two, self._data.frame2)
        here = self._design.pose((*at, *(path or ()))) @ local
        if number == "1":
            here = here @ self._data.geometry_on_one()
        return inverse(self._home()) @ here

    def _geometry(self, number: str) -> Any:
        if self._data.type == "inferred":
            return None
        if self._context is None and self._owner()[0] and "null_native_geometry" in self._design.quirks:
            return None
        frame = self._frame(number)
        if number in self._data.origins:
            return FakeJointOrigin(frame, "old_api" not in self._design.quirks)
        return FakeJointGeometry(frame)

    def __getattr__(self, name: str) -> Any:
        joint = self._data.kind == "joint"
        if joint and name in ("geometryOrOriginOne", "geometryOrOriginTwo"):
            return self._geometry("1" if name.endswith("One") else "2")
        if not joint and name == "geometry":
            number = "1" if "as_built_on_child" in self._design.quirks else "2"
            return None if self._data.type == "rigid" else self._geometry(number)
        raise AttributeError(name)

    # -- motion ---------------------------------------------------------------------------------------------------

    @property
    def jointMotion(self) -> FakeMotion | None:
        return None if self._data.type == "inferred" else FakeMotion(self)


class FakeJointGeometry:
    def __init__(self, frame: Matrix) -> None:
        self.origin = Point3D(frame[:3, 3])
        self.secondaryAxisVector = Point3D(frame[:3, 0])
        self.thirdAxisVector = Point3D(frame[:3, 1])
        self.primaryAxisVector = Point3D(frame[:3, 2])


class FakeJointOrigin:
    """Has no `origin`: it lies off its geometry's."""

    def __init__(self, frame: Matrix, new_api: bool) -> None:
        away = (0.3, -0.2, 0.7)
        self.geometry = FakeJointGeometry(frame @ shift([-v for v in away]))
        self.offsetX, self.offsetY, self.offsetZ = (Parameter(v) for v in away)
        self.secondaryAxisVector = Point3D(frame[:3, 0])
        self.thirdAxisVector = Point3D(frame[:3, 1])
        self.primaryAxisVector = Point3D(frame[:3, 2])
        if new_api:
            self.transform = Matrix3D(frame)


class FakeMotion:
    """Any JointMotion: only the properties of its type are there, and setting a value drives the joint."""

    _joint: FakeJoint

    def __init__(self, joint: FakeJoint) -> None:
        object.__setattr__(self, "_joint", joint)

    @property
    def jointType(self) -> int:
        return TYPES.index(self._joint._data.type)

    def _names(self) -> dict[str, tuple[str, str]]:
        """Property -> (what it is, which motion)."""
        data = self._joint._data
        names: dict[str, tuple[str, str]] = {}
        for motion in DIRECTIONS[data.type]:
            stem = _ATTRIBUTES[motion]
            names[f"{stem}Value"] = ("value", motion)
            names[f"{stem}Limits"] = ("limits", motion)
            if not (data.type == "cylindrical" and motion == "slide"):
                names[_VECTORS.get((data.type, motion), _VECTORS[motion])] = ("vector", motion)
        return names

    def __getattr__(self, name: str) -> Any:
        joint = self._joint
        if name not in self._names():
            raise AttributeError(name)
        what, motion = self._names()[name]
        at, _ = joint._owner()
        if what == "value":
            return joint._design.values_of(joint._data, at)[motion]
        if what == "limits":
            return FakeLimits(joint._data, motion)
        if joint._context is None and at and "null_native_geometry" in joint._design.quirks:
            return None
        frame = joint._frame("2")
        axis = frame[:3, :3] @ joint._data.direction(motion)
        return Point3D(-axis if "axis_sign" in joint._design.quirks else axis)

    def __setattr__(self, name: str, value: float) -> None:
        what, motion = self._names()[name]
        assert what == "value"
        at, _ = self._joint._owner()
        self._joint._design.drive(self._joint._data, at, motion, value)


class FakeLimits:
    def __init__(self, data: JointData, motion: str) -> None:
        lower, upper = data.limits.get(motion, (None, None))
        self.isMinimumValueEnabled, self.minimumValue = lower is not None, lower or 0.0
        self.isMaximumValueEnabled, self.maximumValue = upper is not None, upper or 0.0
        self.isRestValueEnabled, self.restValue = motion in data.rest, data.rest.get(motion, 0.0)


def unit(v: Sequence[float] | np.ndarray) -> np.ndarray:
    """Of length one."""
    return np.asarray(v, dtype=float) / np.linalg.norm(v)
