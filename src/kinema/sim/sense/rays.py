"""Distances along rays: rangefinders and lidars, to whatever shape is first, but for those of the sensor's own link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinema import trace
from kinema.trace import Place, Row, RowCode, Value

from ..fields.situation import Situation
from ..rigid.kinematics import Pose
from ..sweeps.columns import PartRow
from ..sweeps.maths import add, dot, product, rotate, scale, sub
from ..sweeps.quantities import Quantity
from ..sweeps.tree import frame_ref
from .ray_ground import Ground
from .ray_meshes import meet_mesh
from .ray_solids import FAR, HIT, RAYS, Ray
from .readings import HERE, ReadingKind, Readings, cut_off, pose_of

KINDS = ("rays",)
NUMBERS = "ray_numbers"


@dataclass(frozen=True, slots=True)
class HitKind:
    """What decides how a shape is looked at."""

    shape: str


def cast(now: Situation, readings: Readings, which: list[int]) -> None:
    """All rays of all sensors."""
    s, near = now.s, now.near_frames
    with s.staying():
        places = _place_shapes(now, near)
        rows = []
        for i in which:
            seen = _seen_by(now, readings, i)
            inside = [_shape_row(now, shape, places[shape]) for shape in seen]
            own = {NUMBERS: s.places[NUMBERS]}
            row = readings.row(i, own, None, None, bool(inside))
            rows.append(PartRow(row.kind, row.places, row.numbers, {"shapes": inside}, row.targets))
        s.loop("rays", rows, lambda code: _cast(code, near))


def _seen_by(now: Situation, readings: Readings, i: int) -> list[int]:
    """The shapes that a sensor's rays can hit."""
    shapes, info = now.s.model.sensors.rays, readings.info
    link, words = int(info.item[i]), info.words[i]
    kept = shapes.visual | shapes.collision
    if len(words) > 1:
        kept = shapes.visual if words[1] == "visual" else shapes.collision
    own = (shapes.link_idx == link) & (link >= 0)
    return [int(x) for x in np.flatnonzero(kept & ~own)]


def _place_shapes(now: Situation, near: Quantity[Pose]) -> list[Place]:
    """Where all shapes are: position and rotation of each."""
    s, shapes = now.s, now.s.model.sensors.rays
    places = [s.take(12) for _ in shapes.kinds]
    rows = []
    for i, place in enumerate(places):
        numbers = {"position": shapes.pos[i].tolist(), "rotation": shapes.rot[i].ravel().tolist()}
        rows.append(s.row("shape", {"frame ": frame_ref(int(shapes.frame_idx[i]))}, {"shape": place}, numbers))

    def body(code: RowCode) -> None:
        at, flat = near[frame_ref("frame ")], code.numbers("rotation")
        rotation = product(at.rotation, [flat[3 * i : 3 * i + 3] for i in range(3)])
        code.write("shape", add(at.position, rotate(at.rotation, code.numbers("position"))))
        code.write("shape", [x for row in rotation for x in row], 3)

    s.loop("where shapes are that rays hit", rows, body)
    return places


def _shape_row(now: Situation, shape: int, place: Place) -> Row:
    shapes = now.s.model.sensors.rays
    numbers = {
        "size": np.minimum(shapes.size[shape], FAR).tolist(),
        "center": shapes.center[shape].tolist(),
        "radius": [min(float(shapes.radius[shape]), FAR)],
        "numbers": [float(shapes.first_number[shape]), *(float(x) for x in shapes.counts[shape])],
    }
    return Row(HitKind(shapes.kinds[shape]), {"shape": place, NUMBERS: now.s.places[NUMBERS]}, numbers)


def _cast(code: RowCode, near: Quantity[Pose]) -> None:
    """The rays of one sensor, one after the other."""
    kind, recorder = code.kind, code.recorder
    assert isinstance(kind, ReadingKind)
    at = pose_of(code, near, HERE)
    first, count, *bounds = code.numbers("numbers")
    best, ray = recorder.local(1), recorder.local(6)
    has_shapes = bool(kind.words[-1])

    def one(turn: Value) -> None:
        own = [recorder.read(NUMBERS, i, first + 3.0 * turn) for i in range(3)]
        recorder.write(ray, [*at.position, *rotate(at.rotation, own)])
        recorder.write(best, [FAR])
        recorder.new_line()
        if has_shapes:
            code.each("shapes", lambda inner: _meet(inner, ray, best))
        recorder.write("reading", [_told(code, kind, recorder.read(best), bounds)], 0, turn)

    recorder.count("rays", count, one, uniform=True)


def _told(code: RowCode, kind: ReadingKind, distance: Value, bounds: list[Value]) -> Value:
    """A distance, or what stands for none; cut off where that is asked for."""
    if kind.words[0] == "inf":
        low, high = bounds
        told = trace.select(distance, low, -np.inf, trace.select(high, distance, np.inf, distance))
    else:
        told = trace.select(HIT, distance, -1.0, distance)
    (cut,) = cut_off(code, kind, [told])
    return cut


def _meet(code: RowCode, ray: str, best: str) -> None:
    """A ray and a shape: by the sphere around it, then closely."""
    kind, recorder = code.kind, code.recorder
    assert isinstance(kind, HitKind)
    flat, place = [recorder.read(ray, i) for i in range(6)], code.array("shape", 12)
    pose = Pose([place[3 * i : 3 * i + 3] for i in range(1, 4)], place[:3])

    def closely() -> list[Value]:
        own = Ray.seen(pose, flat[:3], flat[3:])
        size, numbers = code.numbers("size"), code.numbers("numbers")

        def read(index: Value) -> Value:
            return recorder.read(NUMBERS, 0, index)

        if kind.shape == "mesh":
            meet_mesh(recorder, read, numbers, own, best)
        elif kind.shape == "height field":
            Ground(recorder, read, numbers, size, own, best).meet()
        else:
            recorder.write(best, [trace.minimum(recorder.read(best), RAYS[kind.shape](own, size))])
        return []

    if kind.shape == "plane":
        closely()
        return
    radius = code.number("radius")
    apart = sub(add(pose.position, rotate(pose.rotation, code.numbers("center"))), flat[:3])
    along = dot(apart, flat[3:])
    across = sub(apart, scale(along, flat[3:]))
    off = trace.maximum(trace.maximum(dot(across, across) - radius * radius, -along - radius), 0.0)
    nearer = trace.select(recorder.read(best), along - radius, 1.0, 0.0)
    recorder.where("near the ray", off + nearer, 1e-9, closely, [])
