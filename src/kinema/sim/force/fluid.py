"""What the medium does to links: forces by their motion against it, and what makes a step implicit in that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from kinema.model import Model
from kinema.trace import Row, RowCode, Value

from ..arrays import Owner
from ..rigid.aba import Articulated, resistance, seen_from_parent
from ..rigid.crba import tree_matrix
from ..rigid.gyroscope import lone_bodies
from ..rigid.kinematics import Pose, Twist
from ..rigid.rnea import Wrench, power
from ..settings import Integrator
from ..sweeps.columns import PartRow
from ..sweeps.maths import IDENTITY, ZERO, Matrix, Vector, add, cross, rotate, sub, unrotate
from ..sweeps.matrix import TreeMatrix
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Node, frame_ref
from .fluid_box import box_force, box_numbers, box_slopes
from .fluid_ellipsoid import ellipsoid_force, ellipsoid_numbers, ellipsoid_slopes
from .rotors import HasMotion
from .slopes import NO_SLOPES, Slopes, moved, odd, response, symmetric

R = TypeVar("R")
Law = Callable[[RowCode, Value, Value, Twist], Wrench]
SlopeLaw = Callable[[RowCode, Value, Value, Twist], Slopes]
FLUID: dict[str, tuple[Law, SlopeLaw]] = {
    "box": (box_force, box_slopes),
    "ellipsoid": (ellipsoid_force, ellipsoid_slopes),
}
"""The force of each kind of what feels the medium, and how it changes: from density, viscosity and motion."""
FRAME = frame_ref("frame ")


def has_medium(model: Model) -> bool:
    """Whether anything feels a medium."""
    return bool(model.fluid.kinds)


def fluid_forces(step: HasMotion, wrenches: Quantity[Wrench]) -> None:
    """Add what the medium does to the wrenches on frames."""
    s = step.s
    if not has_medium(s.model):
        return
    frames, velocity = step.frames, step.velocity

    def body(code: RowCode) -> None:
        rotation, center, motion = _motion(s, code, frames, velocity)
        own = FLUID[code.kind[0]][0](code, *_medium(s), motion)  # type: ignore[index]
        force = rotate(rotation, own.force)
        wrenches.add(FRAME, Wrench(add(rotate(rotation, own.torque), cross(center, force)), force))

    s.loop("forces of the medium", _rows(s), body)


def _medium(s: Sweeps) -> tuple[Value, Value]:
    return s.read("density"), s.read("viscosity")


def _motion(
    s: Sweeps, code: RowCode, frames: Quantity[Pose], velocity: Quantity[Twist]
) -> tuple[Matrix, Vector, Twist]:
    """Where something is in its frame, and how it moves against the medium, in its own axes."""
    flat, center = code.numbers("rot"), code.numbers("pos")
    if code.holds("com_shift"):
        turn = code.numbers("rot of link")
        center = add(center, rotate([turn[3 * i : 3 * i + 3] for i in range(3)], code.array("com_shift", 3)))
    rotation, frame = [flat[3 * i : 3 * i + 3] for i in range(3)], velocity[FRAME]
    wind = unrotate(frames[FRAME].rotation, [s.read("wind", i) for i in range(3)])
    linear = sub(add(frame.linear, cross(frame.angular, center)), wind)
    return rotation, center, Twist(unrotate(rotation, frame.angular), unrotate(rotation, linear))


def _rows(s: Sweeps, only: set[int] | None = None) -> list[PartRow]:
    """A row for each that sits in the frames that are looked at, or in some of them."""
    info, links = s.model.fluid, s.model.links
    own = {node.index for node in s.nodes} if only is None else only
    rows: list[PartRow] = []
    for i, kind in enumerate(info.kinds):
        frame, link = int(info.frame_idx[i]), int(info.link_idx[i])
        if frame not in own:
            continue
        numbers = {"pos": info.pos[i].tolist(), "rot": info.rot[i].ravel().tolist()}
        places = {}
        size = info.size[i].tolist()
        if kind == "box":
            numbers |= box_numbers(size)
            if "com_shift" in s.settings.per_env:
                places["com_shift"] = s.arrays_of(Owner.LINK, link)["com_shift"]
                numbers["rot of link"] = links.rot[link].ravel().tolist()
        else:
            numbers |= ellipsoid_numbers(size, info.coefficients[i].tolist())
            numbers |= {name: getattr(info, name)[i].tolist() for name in ("added_mass", "added_inertia")}
        rows.append(s.row((kind, tuple(places)), {"frame ": frame_ref(frame)}, places, numbers))
    return rows


# ----------------------------------------------------------------------------------------------------- implicit steps


def add_drag(step: HasMotion, implicit: TreeMatrix) -> None:
    """Make a step's matrix implicit in the medium's forces: their slopes, symmetric as an inertia is."""
    s, where = step.s, step.where
    nothing = symmetric(NO_SLOPES)
    own = _slopes(step, "slopes of the medium", nothing, symmetric, lambda: _rows(s))

    def whole(node: Node, total: Articulated) -> Articulated:
        return seen_from_parent(total, where[node.here])

    composite = s.inward("slopes of the medium, of all that is carried", lambda node: own[node.here], whole)
    drag = tree_matrix(s, "drag", where, lambda node, motion: resistance(composite[node.here], motion))
    rows = [
        Row("entry", {"to": implicit.entry(dof, mover), "of": drag.entry(dof, mover), "dt": s.places["dt"]})
        for dof, path in drag.paths.items()
        for mover in path
    ]

    def subtract(code: RowCode) -> None:
        code.write("to", [code.read("to") - code.read("dt") * code.read("of")])

    s.loop("implicit, with drag", rows, subtract)


def lone_drag(step: HasMotion) -> Callable[[Node, Sequence[Vector]], list[list[Value]]] | None:
    """Of bodies that fly alone, whose matrix need not be symmetric: the rest of the slopes, over six coordinates.

    None where all slopes of such bodies are symmetric. What is returned takes the axes of a body's slides.
    """
    s, info = step.s, step.s.model.fluid
    if s.settings.integrator is not Integrator.IMPLICIT or "ellipsoid" not in info.kinds:
        return None
    alone = {ball.index for _, ball in lone_bodies(s.nodes)}
    if not any(k == "ellipsoid" and int(f) in alone for k, f in zip(info.kinds, info.frame_idx, strict=True)):
        return None
    rest = _slopes(step, "odd slopes of the medium", NO_SLOPES, odd, lambda: _rows(s, alone))

    def entries(ball: Node, axes: Sequence[Vector]) -> list[list[Value]]:
        motions = [Twist(ZERO, axis) for axis in axes] + [Twist(unit, ZERO) for unit in IDENTITY]
        wrenches = [response(rest[ball.here], motion) for motion in motions]
        return [[power(motion, wrench) for wrench in wrenches] for motion in motions]

    return entries


def _slopes(
    step: HasMotion, name: str, nothing: R, part: Callable[[Slopes], R], rows: Callable[[], list[PartRow]]
) -> Quantity[R]:
    """A part of the slopes of what sits in each frame, in the frame's axes and about its origin."""
    s, frames, velocity = step.s, step.frames, step.velocity
    total: Quantity[R] = s.quantity(name)
    s.each_frame(f"no {name}", lambda node: total.put(node.here, nothing))

    def body(code: RowCode) -> None:
        rotation, center, motion = _motion(s, code, frames, velocity)
        own = FLUID[code.kind[0]][1](code, *_medium(s), motion)  # type: ignore[index]
        total.add(FRAME, part(moved(own, rotation, center)))

    s.loop(name, rows(), body)
    return total
