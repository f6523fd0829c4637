"""Pairs of shapes whose boxes overlap, by a grid of cells: who is in the cells beside one's own, not who there is.

A cell is as wide as two of the largest shapes reach, so that what overlaps is in cells beside each other. There is no
end to space: cells that are a whole number of grids apart share a list, and what is in it without being near is passed
over as boxes do not overlap. Pairs come out in the order of the table, the same as if all had been looked at: each is
put into its place in the list, which is near its end, as shapes are taken in order.

Each environment has lists of its own: for programs whose environments are no vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt

from kinema import trace
from kinema.trace import SCRATCH, Column, Columns, Place, Row, RowCode, Table, Value

from ..sweeps.maths import Vector
from ..sweeps.sweeps import Sweeps
from .branches import where

SIDE = 16
"""Cells of the grid along each axis: a power of two, and more than three, so that cells beside one another differ."""
FARTHEST = 3.0e4
"""Cells from the origin beyond which all are in the last one: from there on single precision cannot tell them apart."""
WIDER = 1.01
"""How much wider cells are than they must be: nothing that rounding moves over a border is missed."""
N_BOX = 6
PAIRS = "pair_numbers"
"""The array of which two shapes are which pair."""


def list_by_cells(s: Sweeps, found: Place, boxes: Place, count: int, reach: float) -> None:
    """Add to a list the pairs whose boxes overlap.

    Args:
        s: where it is recorded.
        found: the list: how many there are, and then their numbers, in order.
        boxes: the first of the boxes, one behind the other: where their middles are, and half extents.
        count: how many boxes there are.
        reach: half the extent of any box, at most [m].
    """
    heads, nexts, cells = s.take(SIDE**3), s.take(count), s.take(3 * count)
    s.loop("no cells yet", [Row("grid", {"heads": heads})], _clear)
    own = np.arange(count)
    places = {"box": Column(SCRATCH, boxes.row + N_BOX * own), "cell": Column(SCRATCH, cells.row + 3 * own)}
    places["next"] = Column(SCRATCH, nexts.row + own)
    shared = {"heads": heads, "nexts": nexts, "boxes": boxes, "list": found, PAIRS: s.places[PAIRS]}
    places |= {name: Column.same(place, count) for name, place in shared.items()}
    numbers = {
        "number": own[:, None] + np.float64(1.0),
        "first": (count * own)[:, None].astype(np.float64),
        "per width": np.full((count, 1), 0.5 / (reach * WIDER)),
    }

    def rows(at: npt.NDArray[np.intp]) -> Table:
        return Table([Columns("shape", at, places, numbers)])

    s.loop("cells of shapes", rows(own[::-1]), _put)  # whoever comes last is the first in a cell
    s.loop("shapes in cells near by", rows(own), lambda code: _look_around(code, count))


def gap(a: Vector, b: Vector) -> Value:
    """How far two boxes are apart along the axis that parts them best; negative where they overlap."""
    axes = zip(a[:3], b[:3], a[3:], b[3:], strict=True)
    return reduce(trace.maximum, (trace.absolute(x - y) - (h + k) for x, y, h, k in axes))


def put_in_place(code: RowCode, number: Value, most: int) -> None:
    """A number into the list, which is in order and stays so."""
    recorder = code.recorder
    count = code.read("list")

    def back(state: Sequence[Value]) -> tuple[Sequence[Value], Value, Value]:
        before = recorder.read("list", 0, state[0])
        moves = trace.select(state[0], 0.5, 0.0, trace.select(number, before, 1.0, 0.0))
        recorder.write("list", [trace.select(0.5, moves, before, number)], 0, state[0] + 1.0)
        return [state[0] - moves], 0.5, moves

    recorder.repeat("place in the list", back, [count], most)
    recorder.write("list", [count + 1.0])


def _clear(code: RowCode) -> None:
    code.recorder.count(
        "cells", float(SIDE**3), lambda turn: code.recorder.write("heads", [0.0], 0, turn), uniform=True
    )


def _wrapped(x: Value) -> Value:
    """A whole number, less as many whole grids as it is beyond the first."""
    return x - float(SIDE) * trace.floor(x * (1.0 / SIDE))


def _list_of(cell: Sequence[Value]) -> Value:
    """Which list a cell's shapes are in."""
    return cell[0] + float(SIDE) * (cell[1] + float(SIDE) * cell[2])


def _put(code: RowCode) -> None:
    """A shape into the list of its cell, before those that are there; what is not a number is anywhere."""
    recorder, per_width = code.recorder, code.number("per width")
    far = [trace.maximum(-FARTHEST, trace.minimum(FARTHEST, x * per_width)) for x in code.array("box", 3)]
    cell = [_wrapped(trace.floor(x)) for x in far]
    code.write("cell", cell)
    code.write("next", [recorder.read("heads", 0, _list_of(cell))])
    recorder.write("heads", [code.number("number")], 0, _list_of(cell))


def _look_around(code: RowCode, count: int) -> None:
    """The pairs of a shape with later ones in the cells beside its own, and in that."""
    recorder = code.recorder
    beside, row = recorder.local(9), recorder.local(1)
    for axis, own in enumerate(code.array("cell", 3)):
        steps = [_wrapped(own + step) * float(SIDE**axis) for step in (-1.0, 0.0, 1.0)]
        recorder.write(beside, steps, 3 * axis)

    def line_of_cells(turn: Value) -> None:
        z = trace.floor((turn + 0.5) * (1.0 / 3.0))
        y = turn - 3.0 * z
        recorder.write(row, [recorder.read(beside, 3, y) + recorder.read(beside, 6, z)])
        recorder.count("cells", 3.0, cell, uniform=True)

    def cell(x: Value) -> None:
        first = recorder.read("heads", 0, recorder.read(row) + recorder.read(beside, 0, x))
        where(recorder, "anyone there", 0.5, first, lambda: through(first))

    def through(first: Value) -> None:
        recorder.repeat("shapes of a cell", one, [first], count)

    def one(state: Sequence[Value]) -> tuple[Sequence[Value], Value, Value]:
        other = state[0]
        at = float(N_BOX) * (other - 1.0)
        apart = gap(code.array("box", N_BOX), [recorder.read("boxes", i, at) for i in range(N_BOX)])
        later = trace.select(code.number("number"), other, apart, 1.0)
        where(recorder, "overlapping", later, 0.0, lambda: note(other))
        following = recorder.read("nexts", 0, other - 1.0)
        return [following], 0.5, following

    def note(other: Value) -> None:
        pair = recorder.read(PAIRS, 0, code.number("first") + (other - 1.0))
        where(recorder, "a pair", -0.5, pair, lambda: put_in_place(code, pair, count * count))

    recorder.count("lines of cells beside", 9.0, line_of_cells, uniform=True)
