"""Poses, joint axes and sizes of the elements of an MJCF model, computed from the numbers in the file.

MuJoCo's compiler computes them too, but its builds for different processors round differently, and constants of
compiled programs must not depend on the machine. Every value is compared with MuJoCo's, which is taken where they
disagree: the compiler has features that are not computed here, such as primitives fitted to meshes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kinema.core import Array, Pose, XmlElement, matrix_to_quaternion, sine_cosine

from ..cursor import parse_float
from .mujoco_compiler import CompiledModel, mujoco

_TOLERANCE = 1e-9
"""Largest difference from MuJoCo's value, relative to the largest component (of positions, to a metre at least)."""

_DEGREE = math.pi / 180.0
_IDENTITY = (1.0, 0.0, 0.0, 0.0)


class Placement(NamedTuple):
    """Rigid transform as MJCF states it."""

    position: tuple[float, float, float]
    """[m]"""
    quaternion: tuple[float, float, float, float] = _IDENTITY
    """Unit quaternion (w, x, y, z)."""

    def __matmul__(self, other: Placement) -> Placement:  # type: ignore[override]
        x, y, z = rotate(self.quaternion, other.position)
        a, b, c = self.position
        return Placement((a + x, b + y, c + z), multiply(self.quaternion, other.quaternion))

    def inverse(self) -> Placement:
        """The inverse transform."""
        w, x, y, z = self.quaternion
        back = (w, -x, -y, -z)
        a, b, c = rotate(back, self.position)
        return Placement((-a, -b, -c), back)

    @property
    def pose(self) -> Pose:
        """The transform as `Pose`."""
        return Pose.from_quaternion(self.position, self.quaternion)


# -- quaternions -------------------------------------------------------------------------------------------------------


def multiply(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, float, float]:
    """Normalised product of two quaternions."""
    if b == _IDENTITY:
        w, x, y, z = a
        return (w, x, y, z)
    (aw, ax, ay, az), (bw, bx, by, bz) = a, b
    return normalize(
        (
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        )
    )


def normalize(quaternion: Sequence[float]) -> tuple[float, float, float, float]:
    """Unit quaternion; the identity for the zero quaternion."""
    w, x, y, z = quaternion
    norm = math.sqrt(w * w + x * x + y * y + z * z)
    if norm == 1.0:
        return (w, x, y, z)
    return (w / norm, x / norm, y / norm, z / norm) if norm > 0.0 else _IDENTITY


def rotate(quaternion: Sequence[float], vector: Sequence[float]) -> tuple[float, float, float]:
    """Vector rotated by a unit quaternion."""
    (w, x, y, z), (a, b, c) = quaternion, vector
    if x == y == z == 0.0:
        return (a, b, c)
    p, q, r = 2.0 * (y * c - z * b), 2.0 * (z * a - x * c), 2.0 * (x * b - y * a)
    return (a + w * p + (y * r - z * q), b + w * q + (z * p - x * r), c + w * r + (x * q - y * p))


def quaternion_of_axis_angle(axis: Sequence[float], angle: float) -> tuple[float, float, float, float]:
    """Unit quaternion of a rotation by an angle [rad] about an axis of any length."""
    x, y, z = axis
    sine, cosine = sine_cosine(0.5 * angle) if math.isfinite(angle) else (math.nan, math.nan)
    norm = math.sqrt(x * x + y * y + z * z)
    return normalize((cosine, sine * (x / norm), sine * (y / norm), sine * (z / norm))) if norm > 0.0 else _IDENTITY


def quaternion_of_euler_angles(angles: Sequence[float], sequence: Sequence[str]) -> tuple[float, float, float, float]:
    """Unit quaternion of three rotations [rad] about the axes of a sequence: small letters move with the frame."""
    result = _IDENTITY
    for angle, letter in zip(angles, sequence, strict=True):
        turn = quaternion_of_axis_angle([float(letter.lower() == axis) for axis in "xyz"], angle)
        result = multiply(result, turn) if letter.islower() else multiply(turn, result)
    return result


def quaternion_of_z_axis(axis: Sequence[float]) -> tuple[float, float, float, float]:
    """Unit quaternion of the smallest rotation that maps z to an axis of any length; about x if they are opposite."""
    x, y, z = axis
    norm = math.sqrt(x * x + y * y + z * z)
    if not norm > 0.0:
        return _IDENTITY
    x, y, z = x / norm, y / norm, z / norm
    sine = math.sqrt(x * x + y * y)
    if sine < 1e-10:
        return _IDENTITY if z > 0.0 else (0.0, 1.0, 0.0, 0.0)
    # cosine and sine of half the angle, the larger one from its square
    if z >= 0.0:
        c = math.sqrt(0.5 * (1.0 + z))
        s = sine / (2.0 * c)
    else:
        s = math.sqrt(0.5 * (1.0 - z))
        c = sine / (2.0 * s)
    return normalize((c, s * (-y / sine), s * (x / sine), 0.0))


def quaternion_of_xy_axes(axes: Sequence[float]) -> tuple[float, float, float, float]:
    """Unit quaternion of a frame whose x and y axes are given, y up to its part along x."""
    x, y = _unit(axes[:3]), axes[3:]
    along = x[0] * y[0] + x[1] * y[1] + x[2] * y[2]
    y = _unit([b - along * a for a, b in zip(x, y, strict=True)])
    z = (x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0])
    return normalize(matrix_to_quaternion(np.array([x, y, z]).T).tolist())


def _unit(vector: Sequence[float]) -> list[float]:
    norm = math.sqrt(sum([a * a for a in vector][1:], vector[0] * vector[0]))
    return [a / norm for a in vector] if norm > 0.0 else list(vector)


def resolve_orientation(quaternion: Any, alternative: Any, compiler: Any) -> tuple[float, float, float, float]:
    """Unit quaternion of an orientation: the quaternion, or the alternative that was given instead."""
    kinds = mujoco().mjtOrientation
    unit = _DEGREE if compiler.degree else 1.0
    match alternative.type:
        case kinds.mjORIENTATION_QUAT:
            return normalize(quaternion.tolist())
        case kinds.mjORIENTATION_AXISANGLE:
            *axis, angle = alternative.axisangle.tolist()
            return quaternion_of_axis_angle(axis, angle * unit)
        case kinds.mjORIENTATION_XYAXES:
            return quaternion_of_xy_axes(alternative.xyaxes.tolist())
        case kinds.mjORIENTATION_ZAXIS:
            return quaternion_of_z_axis(alternative.zaxis.tolist())
    return quaternion_of_euler_angles([a * unit for a in alternative.euler.tolist()], list(compiler.eulerseq))


# -- elements ----------------------------------------------------------------------------------------------------------

_COMPILED_ARRAYS = {
    "bodies": ("body_pos", "body_quat"),
    "geoms": ("geom_pos", "geom_quat"),
    "sites": ("site_pos", "site_quat"),
    "cameras": ("cam_pos", "cam_quat"),
}


@dataclass(slots=True, eq=False)
class Placements:
    """Poses, axes and sizes of the elements of one model, by kind (`bodies`, `geoms`, ...) and MuJoCo's index."""

    compiled: CompiledModel
    element: Callable[[str, int], Any]
    """(kind, index) -> element of the `MjSpec`, or None."""
    n_differences: int = 0
    """Number of values for which MuJoCo's were taken because the computed ones differ."""
    _copies: dict[int, list[Placement]] = field(default_factory=dict)
    """`id` of a `<replicate>` -> frames of its copies."""
    _world: list[Placement] = field(default_factory=list)

    def placement(self, kind: str, index: int) -> Placement:
        """Placement of a body in its parent, or of a geom without mesh, site or camera in its body."""
        compiled = self.compiled_placement(kind, index)
        return self._checked(self.from_file(kind, index), compiled)

    def pose(self, kind: str, index: int) -> Pose:
        """`placement` as `Pose`."""
        return self.placement(kind, index).pose

    def mesh_geom(self, geom: int, mesh_frame: Placement) -> Placement:
        """Placement of a geom with a mesh in the coordinates of its file; given MuJoCo's mesh frame in these."""
        return self._checked(
            self.from_file("geoms", geom), self.compiled_placement("geoms", geom) @ mesh_frame.inverse()
        )

    def compiled_placement(self, kind: str, index: int) -> Placement:
        """Placement of an element in the compiled model."""
        position, quaternion = _COMPILED_ARRAYS[kind]
        model = self.compiled.model
        x, y, z = getattr(model, position)[index].tolist()
        w, *imaginary = getattr(model, quaternion)[index].tolist()
        return Placement((x, y, z), (w, imaginary[0], imaginary[1], imaginary[2]))

    def from_file(self, kind: str, index: int) -> Placement | None:
        """Placement of an element as the file gives it, with all frames around it; None if it is not in the file."""
        element = self.element(kind, index)
        if element is None:
            return None
        ends = element.fromto.tolist() if kind in ("geoms", "sites") else [math.nan]
        if math.isnan(ends[0]):
            x, y, z = element.pos.tolist()
            own = Placement((x, y, z), resolve_orientation(element.quat, element.alt, element.compiler))
        else:
            a, b, c, p, q, r = ends
            own = Placement((0.5 * (a + p), 0.5 * (b + q), 0.5 * (c + r)), quaternion_of_z_axis((a - p, b - q, c - r)))
        return self._in_frames(element, own)

    def joint_anchor_and_axis(self, index: int) -> tuple[Array, Array]:
        """Anchor [m] and unit axis of a joint in its body, (3,) each; the axis means nothing for a ball joint."""
        model = self.compiled.model
        anchor, axis = np.array(model.jnt_pos[index]), np.array(model.jnt_axis[index])
        element = self.element("joints", index)
        if element is None:
            return anchor, axis
        x, y, z = element.pos.tolist()
        frame = self._in_frames(element, Placement((x, y, z)))
        if _agree(frame.position, anchor, metres=True):
            anchor = np.array(frame.position)
        else:
            self.n_differences += 1
        direction = np.array(_unit(rotate(frame.quaternion, element.axis.tolist())))
        if _agree(direction, axis):
            return anchor, direction
        self.n_differences += int(model.jnt_type[index]) != int(mujoco().mjtJoint.mjJNT_BALL)
        return anchor, axis

    def sizes(self, kind: str, index: int) -> list[float]:
        """The three sizes of a geom or site [m]; the length of one that is given by its ends follows from these."""
        model, kinds = self.compiled.model, mujoco().mjtGeom
        sizes: list[float] = (model.geom_size if kind == "geoms" else model.site_size)[index].tolist()
        element = self.element(kind, index)
        ends = [math.nan] if element is None else element.fromto.tolist()
        if not math.isnan(ends[0]):
            shape = int((model.geom_type if kind == "geoms" else model.site_type)[index])
            along = 1 if shape in (kinds.mjGEOM_CAPSULE, kinds.mjGEOM_CYLINDER) else 2
            a, b, c = (ends[i] - ends[i + 3] for i in range(3))
            half = 0.5 * math.sqrt(a * a + b * b + c * c)
            if abs(sizes[along] - half) <= _TOLERANCE * half:
                sizes[along] = half
            else:
                self.n_differences += 1
        return sizes

    def body_in_world(self, body: int) -> Placement:
        """Placement of a body in the world in the reference configuration."""
        parents = self.compiled.model.body_parentid
        while len(self._world) <= body:
            i = len(self._world)
            self._world.append(
                self._world[int(parents[i])] @ self.placement("bodies", i) if i else Placement((0.0, 0.0, 0.0))
            )
        return self._world[body]

    def anchor_on_second(
        self, first: int, second: int, anchor: Sequence[float], compiled: Sequence[float]
    ) -> Sequence[float]:
        """Anchor of a connect constraint in the second body, given in the first, in the reference configuration [m]."""
        x, y, z = anchor
        relative = self.body_in_world(second).inverse() @ self.body_in_world(first)
        found = (relative @ Placement((x, y, z))).position
        return found if _agree(found, compiled, metres=True) else compiled

    def weld_frame(self, index: int, bodies: tuple[int, int], data: Sequence[float]) -> Placement:
        """Pose in the first body at which a weld constraint holds the anchor of the second body.

        As given in the file, or that of the reference configuration.
        """
        x, y, z, a, b, c, *quaternion = data[:10]
        compiled = Placement((a, b, c), (quaternion[0], quaternion[1], quaternion[2], quaternion[3]))
        element = self.element("equalities", index)
        written = [0.0] * 10 if element is None else element.data[:10].tolist()
        if any(written[6:]):
            a, b, c = written[3:6]
            return self._checked(Placement((a, b, c), normalize(written[6:])), compiled)
        first, second = (self.body_in_world(body) for body in bodies)
        return self._checked(first.inverse() @ second @ Placement((x, y, z)), compiled)

    def _checked(self, own: Placement | None, compiled: Placement) -> Placement:
        """The placement if it agrees with MuJoCo's, with the same sign of the quaternion; else MuJoCo's."""
        if own is None:
            return compiled
        q = own.quaternion
        if sum(a * b for a, b in zip(q, compiled.quaternion, strict=True)) < 0.0:
            q = (-q[0], -q[1], -q[2], -q[3])
        if _agree(own.position, compiled.position, metres=True) and _agree(q, compiled.quaternion):
            return Placement(own.position, q)
        self.n_differences += 1
        return compiled

    # -- frames -----------------------------------------------------------------------------------------------------

    def _in_frames(self, element: Any, inner: Placement) -> Placement:
        """A placement in the innermost frame around an element, in the coordinates of the body."""
        frame = element.frame
        while frame is not None:
            x, y, z = frame.pos.tolist()
            around = Placement((x, y, z), resolve_orientation(frame.quat, frame.alt, frame.compiler))
            inner = self._copy(frame, around) @ inner
            frame = frame.frame
        return inner

    def _copy(self, frame: Any, given: Placement) -> Placement:
        """Placement of a frame; of a copy of `<replicate>`, for which MuJoCo computes it, from the attributes."""
        element = self.compiled.text.element_at(frame.info)
        if element is None or element.tag != "replicate" or given == Placement((0.0, 0.0, 0.0)):
            return given
        if id(element) not in self._copies:
            self._copies[id(element)] = _replicated(element, frame.compiler)
        for copy in self._copies[id(element)]:
            if _agree(copy.position, given.position, metres=True) and _agree(copy.quaternion, given.quaternion):
                return copy
        return given


def _replicated(element: XmlElement, compiler: Any) -> list[Placement]:
    """Frames of the copies of a `<replicate>` element, each offset and turned from the one before."""

    def numbers(name: str) -> list[float]:
        values = [parse_float(word) or 0.0 for word in element.attributes.get(name, "0 0 0").split()]
        return values if len(values) == 3 else [0.0] * 3

    unit = _DEGREE if compiler.degree else 1.0
    turn = quaternion_of_euler_angles([a * unit for a in numbers("euler")], list(compiler.eulerseq))
    x, y, z = numbers("offset")
    step, result = Placement((x, y, z), turn), [Placement((0.0, 0.0, 0.0))]
    for _ in range(1, int(parse_float(element.attributes.get("count", "1")) or 1)):
        result.append(result[-1] @ step)
    return result


def _agree(a: Sequence[float] | Array, b: Sequence[float] | Array, *, metres: bool = False) -> bool:
    size = max(map(abs, b))
    bound = _TOLERANCE * (max(1.0, size) if metres else size)
    return all(abs(x - y) <= bound for x, y in zip(a, b, strict=True))
