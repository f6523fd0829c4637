"""Which pairs of shapes are worth a look: boxes along the world's axes, before anything else is read of a pair.

The row of a pair holds all that is known of it, hundreds of bytes. Here a pair is three whole numbers: where the boxes
of its shapes are, and which row it is. Of those whose boxes overlap in any environment of a vector a list is made, in
the order of the rows, so that contacts come out as if all pairs had been looked at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from kinema import trace
from kinema.model import Model
from kinema.trace import SCRATCH, Column, Columns, Place, Row, RowCode, Table

from ..gridded import ENDLESS, can_be_gridded, gridded, is_gridded, is_worth_cells
from ..settings import Broad, Settings
from ..sweeps.maths import add, dot, rotate
from ..sweeps.sweeps import Sweeps
from .boxes_around import half_extents, mesh_box
from .branches import where
from .cells import N_BOX, gap, list_by_cells
from .planned import PlannedSet

WORTH_LISTING = 64
"""Pairs from which on a list is made first. With 90 pairs of balls, capsules and boxes that lie in a heap a step is 4 %
faster by it, with 1,475 in a bin likewise, the solver included."""
SLACK = 1e-4
"""How much larger boxes are than what is in them, against its size: nothing that rounding lets touch is passed over."""


def wants_list(model: Model, settings: Settings, n_pairs: int) -> bool:
    """Whether a list of pairs is made first; not where environments have shapes, and so boxes, of their own."""
    if settings.team or settings.broad is Broad.ALL or settings.per_env & {"geom_size", "variants"}:
        return False
    return n_pairs > 0 and (settings.broad is not Broad.AUTO or n_pairs >= WORTH_LISTING)


def best_broad(model: Model, settings: Settings, *, alone: bool) -> Settings:
    """How pairs are passed over; `alone` are environments that are no vector, of which each has cells of its own."""
    broad = settings.broad
    if broad not in (Broad.AUTO, Broad.CELLS):
        return settings
    listed = wants_list(model, settings, len(model.pairs.geom_a))
    can = alone and settings.contacts and listed and can_be_gridded(model)
    if broad is Broad.CELLS:
        return settings if can else replace(settings, broad=Broad.LIST)
    return replace(settings, broad=Broad.CELLS) if can and is_worth_cells(model) else settings


def list_near(s: Sweeps, plans: Sequence[PlannedSet], shapes: Sequence[Place]) -> Place | None:
    """The list of the pairs, numbered as they come in the sets, whose boxes overlap; None where all are looked at.

    Args:
        s: where it is recorded.
        plans: the sets.
        shapes: where each shape is: its position and rotation.
    """
    numbers = [p for plan in plans for p in plan.pairs]
    if not wants_list(s.model, s.settings, len(numbers)):
        return None
    pairs = s.model.pairs
    ends = np.stack([pairs.geom_a[numbers], pairs.geom_b[numbers]])
    in_cells = _in_cells(s, numbers)
    first = s.take(N_BOX * len(in_cells))
    known = {geom: Place(SCRATCH, first.row + N_BOX * i) for i, geom in enumerate(in_cells)}
    boxes = _boxes(s, np.unique(ends).tolist(), shapes, known)
    found = s.take(len(numbers) + 1)
    s.loop("no pairs yet", [Row("list", {"list": found})], lambda code: code.write("list", [0.0]))
    rows = np.flatnonzero(~is_gridded(s.model)) if in_cells else np.arange(len(numbers))
    s.loop("pairs whose boxes overlap", _box_rows(found, ends, rows, boxes, len(s.model.geoms.names)), _note)
    if in_cells:
        reach = max(_reach(s.model, geom) for geom in in_cells)
        list_by_cells(s, found, first, len(in_cells), reach)
    return found


def _in_cells(s: Sweeps, numbers: Sequence[int]) -> list[int]:
    """The shapes that are found by cells; none unless these are for all pairs of the model, in its order."""
    if s.settings.broad is not Broad.CELLS or list(numbers) != list(range(len(s.model.pairs.geom_a))):
        return []
    return gridded(s.model)


def _box_rows(
    found: Place,
    every: npt.NDArray[np.int32],
    rows: npt.NDArray[np.intp],
    boxes: Mapping[int, Place],
    n_geoms: int,
) -> Table:
    """A row for each of some pairs, of a kind that says which of its shapes have boxes."""
    ends = every[:, rows]
    starts = np.full(n_geoms, -1, np.int64)
    starts[[*boxes]] = [place.row for place in boxes.values()]
    sides = starts[ends]
    groups = []
    for kind in (("a", "b"), ("a",), ("b",), ()):
        at = np.flatnonzero(((sides[0] >= 0) == ("a" in kind)) & ((sides[1] >= 0) == ("b" in kind)))
        if len(at):
            own = {word: Column(SCRATCH, side[at]) for word, side in zip("ab", sides, strict=True) if word in kind}
            places = {"list": Column.same(found, len(at)), **own}
            groups.append(Columns(kind, at, places, {"row": rows[at, None].astype(np.float64)}))
    return Table(groups)


def _reach(model: Model, geom: int) -> float:
    """Half the extent of a shape's box along any axis, however it is turned, at most [m]."""
    half = _own_box(model, geom)[1]
    return (half[0] if model.geoms.kinds[geom] == "sphere" else math.hypot(*half)) + _extra(model, geom)


def _extra(model: Model, geom: int) -> float:
    """How much larger the box of a shape is than it [m]."""
    return 0.5 * float(model.pairs.margin.max(initial=0.0)) + SLACK * max(_own_box(model, geom)[1])


def _boxes(s: Sweeps, geoms: Sequence[int], shapes: Sequence[Place], known: Mapping[int, Place]) -> dict[int, Place]:
    """Boxes along the world's axes around shapes: their middles and half extents; none of what has no end.

    Those of some shapes have places already.
    """
    model = s.model
    boxes: dict[int, Place] = {}
    rows = []
    for geom in geoms:
        kind = model.geoms.kinds[geom]
        middle, half = _own_box(model, geom)
        if kind in ENDLESS or not math.isfinite(sum(half)):
            continue
        boxes[geom] = known[geom] if geom in known else s.take(N_BOX)
        is_round, is_centered = kind == "sphere", not any(middle)
        numbers = {"middle": middle, "half": half, "extra": [_extra(model, geom)]}
        rows.append(Row((is_round, is_centered), {"shape": shapes[geom], "box": boxes[geom]}, numbers))

    def body(code: RowCode) -> None:
        is_round, is_centered = code.kind  # type: ignore[misc]
        at, half, extra = code.array("shape", 3), code.numbers("half"), code.number("extra")
        if not (is_round and is_centered):
            rotation = [code.array("shape", 12)[3 * i : 3 * i + 3] for i in range(1, 4)]
            at = at if is_centered else add(at, rotate(rotation, code.numbers("middle")))
            half = half if is_round else [dot([trace.absolute(x) for x in row], half) for row in rotation]
        code.write("box", [*at, *(x + extra for x in half)])

    if rows:
        s.loop("boxes around shapes", rows, body)
    return boxes


def _own_box(model: Model, geom: int) -> tuple[list[float], list[float]]:
    """Around a shape, in its own axes: the middle and half extents; of a field the sphere's around it [m]."""
    geoms = model.geoms
    kind = geoms.kinds[geom]
    if kind == "mesh":
        box = mesh_box(model, geom)
        return box[:3], box[3:]
    if kind == "sphere":
        return [0.0, 0.0, 0.0], [float(geoms.size[geom][0])] * 3
    if kind in ("box", "capsule", "cylinder", "cone", "ellipsoid"):
        half = half_extents(kind, geoms.size[geom].tolist())
        return [0.0, 0.0, 0.0], [float(x) for x in half]  # type: ignore[arg-type]
    return geoms.center[geom].tolist(), [float(geoms.radius[geom])] * 3


def _note(code: RowCode) -> None:
    """A pair, if its boxes overlap, onto the list."""
    recorder = code.recorder

    def append() -> None:
        number = code.read("list") + 1.0
        recorder.write("list", [code.number("row")], 0, number)
        code.write("list", [number])

    if len(code.kind) < 2:  # type: ignore[arg-type]
        append()
        return
    apart = gap(code.array("a", N_BOX), code.array("b", N_BOX))
    where(recorder, "overlapping", 0.5, trace.any_of(trace.select(apart, 0.0, 1.0, 0.0)), append)
