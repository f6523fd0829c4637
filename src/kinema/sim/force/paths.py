"""Paths in loops: lengths between places on links, and their moments over degrees of freedom.

The moment of a piece is the power of the forces with which it pulls on its ends, in the motion of each degree of
freedom that moves some of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from kinema.model import Model
from kinema.trace import SCRATCH, Place, Row, RowCode

from ..rigid.kinematics import Pose, twist_at, twists
from ..rigid.rnea import Wrench, power
from ..sweeps.cords import Lengths
from ..sweeps.loops import Loops
from ..sweeps.maths import Vector, add, cross, product, rotate, scale, sub
from ..sweeps.quantities import Quantity
from ..sweeps.rows import FrameKind
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import WORLD, frame_ref
from .pieces import PIECES

ENDS = ("a ", "b ", "c ", "d ")
PULLED = 3


class HasFrames(Protocol):
    """The step, as far as paths look at it."""

    s: Sweeps
    more: dict[str, Any]

    @cached_property
    def where(self) -> Quantity[Pose]:
        """Where frames are in their parents."""
        ...

    @cached_property
    def frames(self) -> Quantity[Pose]:
        """And in the world."""
        ...


def lengths_of(step: HasFrames) -> Lengths:
    """All paths of the frames that are looked at, measured once."""
    if "lengths of paths" not in step.more:
        step.more["lengths of paths"] = _measured(step)
    return step.more["lengths of paths"]


def frames_of_path(model: Model, path: int) -> set[int]:
    """The moving frames that a path's ends sit in."""
    return {int(f) for f in model.paths.frame_idx[model.paths.path_idx == path].ravel()} - {WORLD}


def _measured(step: HasFrames) -> Lengths:
    s, info = step.s, step.s.model.paths
    own = {node.index for node in s.nodes}
    paths = [p for p in sorted(set(info.path_idx.tolist())) if own.issuperset(frames_of_path(s.model, p))]
    lengths, moments = {}, {}
    for path in paths:
        dofs = np.flatnonzero(info.moves[info.path_idx == path].any(axis=0)).tolist()
        lengths[path] = s.take(1)
        start = s.take(len(dofs)).row
        moments[path] = {dof: Place(SCRATCH, start + k) for k, dof in enumerate(dofs)}
    if not paths:
        return Lengths(lengths, moments)
    where, frames = step.where, step.frames
    numbers = [*lengths.values(), *(x for moment in moments.values() for x in moment.values())]
    s.loop("no paths", [Row("number", {"number": x}) for x in numbers], lambda code: code.write("number", [0.0]))
    pieces = [i for i, path in enumerate(info.path_idx.tolist()) if path in lengths]
    pulls = {i: {end: s.take(6) for end in ENDS[:PULLED]} | {"about": s.take(3)} for i in pieces}
    table = [_row(s, i, {**pulls[i], "length": lengths[int(info.path_idx[i])]}) for i in pieces]
    s.loop("pieces of paths", table, lambda code: _measure(code, frames))
    columns = [row for i in pieces for row in _columns(s, i, moments[int(info.path_idx[i])], pulls[i])]
    s.loop("moments of paths", columns, lambda code: _add_moment(s, code, where, frames))
    return Lengths(lengths, moments, pulls)


def _row(s: Loops, piece: int, own: dict[str, Place]) -> Row:
    info, kind = s.model.paths, s.model.paths.kinds[piece]
    ends = range(PIECES[kind][0])
    targets = {ENDS[k]: frame_ref(int(info.frame_idx[piece, k])) for k in ends}
    numbers = {f"pos {k}": info.pos[piece, k].tolist() for k in ends}
    numbers |= {f"rot {k}": info.rot[piece, k].ravel().tolist() for k in ends}
    numbers |= {"factor": [float(info.factor[piece])], "numbers": info.numbers[piece].tolist()}
    return s.row(kind, targets, own, numbers)


def _measure(code: RowCode, frames: Quantity[Pose]) -> None:
    kind, factor = str(code.kind), code.number("factor")
    n_ends, measure = PIECES[kind]
    ends = []
    for k in range(n_ends):
        frame, flat = frames[frame_ref(ENDS[k])], code.numbers(f"rot {k}")
        axes = product(frame.rotation, [flat[3 * i : 3 * i + 3] for i in range(3)])
        ends.append(Pose(axes, add(frame.position, rotate(frame.rotation, code.numbers(f"pos {k}")))))
    found = measure(ends, code.numbers("numbers"), kind, code.recorder)
    about = ends[1].position
    code.write("about", about)
    code.write("length", [code.read("length") + factor * found.length])
    for word, end in zip(ENDS, found.ends, strict=False):
        torque, force = end.torque, (0.0, 0.0, 0.0)
        for push, at in end.forces:
            torque, force = add(torque, cross(sub(at, about), push)), add(force, push)
        code.write(word, scale(factor, [*torque, *force]))


def _columns(s: Sweeps, piece: int, moment: dict[int, Place], own: dict[str, Place]) -> Iterator[Row]:
    """A row for each frame on the way of each end that is pulled on."""
    info = s.model.paths
    for k in range(min(PULLED, PIECES[info.kinds[piece]][0])):
        frame = int(info.frame_idx[piece, k])
        while frame != WORLD:
            node = s.tree.nodes[frame]
            if info.moves[piece, node.dofs.start]:
                plain = s.frame_row(node)
                assert isinstance(plain.kind, FrameKind)
                entries = {f"entry {i}": moment[dof] for i, dof in enumerate(node.dofs)}
                places = {**plain.places, **entries, "pull": own[ENDS[k]], "about": own["about"]}
                yield s.row((("", plain.kind),), plain.targets, places, plain.numbers)
            frame = node.parent


def _add_moment(s: Sweeps, code: RowCode, where: Quantity[Pose], frames: Quantity[Pose]) -> None:
    node, about = s.node(code), code.array("about", 3)
    flat: Vector = code.array("pull", 6)
    for k, twist in enumerate(twists(node, where[node.here])):
        gain = power(twist_at(frames[node.here], twist, about), Wrench(flat[:3], flat[3:]))
        code.write(f"entry {k}", [code.read(f"entry {k}") + gain])
