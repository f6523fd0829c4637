"""Matrices of tiles, factorised: as G^T G, tile by tile from the last to the first."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kinema import trace
from kinema.trace import SCRATCH, Column, Place, Row, RowCode, Value

from .factors import Factors
from .quantities import Quantity
from .tiles import N_TILE, SIDE, TiledMatrix, TileRows
from .tree import Ints

Tile = list[list[Value]]


class TiledFactors:
    """G in the place of the matrix, with inverses on its diagonal; none larger than those of `least` allow."""

    def __init__(self, matrix: TiledMatrix, least: Factors) -> None:
        self.matrix = matrix
        self.loops = matrix.loops
        self.x = self.loops.take(SIDE * matrix.tiling.count)
        """What is solved for, by tiles."""

        counts = np.array([len(dofs) for dofs in matrix.tiling.dofs])

        def bounds(k: Ints, _: Ints) -> dict[str, Column]:
            dofs = [matrix.tiling.dofs[tile] for tile in k.tolist()]
            return {f"most {n}": Column.of([least.inverses[own[n]] for own in dofs]) for n in range(len(dofs[0]))}

        def places(k: Ints, i: Ints) -> dict[str, Column]:
            return {"tiles": matrix.tiles(k, 0 * k), "marks": matrix.marks(k, 0 * k), "its": matrix.tiles(i, 0 * i)}

        def more(k: Ints, i: Ints) -> Iterator[TileRows]:
            for n in np.unique(counts).tolist():
                yield TileRows(("pivot", n), (i == k) & (counts[k] == n), bounds)
            if len(counts) > 1:
                yield TileRows("tile", i < k, places, lambda _, i: {"count": (i[:, None] + 1).astype(np.float64)})

        matrix.each_tile(f"{matrix.name}, factorised", more, lambda code: _eliminate(matrix, code))

    def _x_of(self, tiles: Ints) -> Column:
        return Column(SCRATCH, self.x.row + SIDE * tiles)

    def solve(self, name: str, right: Quantity[list[Value]]) -> Quantity[list[Value]]:
        """The x of (G^T G) x = right."""
        loops, tiling = self.loops, self.matrix.tiling
        result: Quantity[list[Value]] = loops.quantity(name)
        loops.each_dofs(f"{name}, the right-hand side", lambda node: result.put(node.here, right[node.here]))
        of_dof = loops.places_of_dofs(result)
        inside = {
            dof: Place(SCRATCH, self.x.row + SIDE * k + i)
            for k, own in enumerate(tiling.dofs)
            for i, dof in enumerate(own)
        }
        rest = [
            Row("none", {"to": Place(SCRATCH, self.x.row + SIDE * k + i)})
            for k, own in enumerate(tiling.dofs)
            for i in range(len(own), SIDE)
        ]
        rows = [Row("dof", {"from": of_dof[dof], "to": place}) for dof, place in inside.items()]

        def move(code: RowCode) -> None:
            code.write("to", [code.read("from") if code.kind == "dof" else 0.0])

        loops.loop(f"{name}, into tiles", [*rows, *rest], move)

        def own(k: Ints, _: Ints) -> dict[str, Column]:
            return {"own x": self._x_of(k)}

        def others(k: Ints, i: Ints) -> dict[str, Column]:
            return {"own x": self._x_of(k), "x": self._x_of(i)}

        def more(k: Ints, i: Ints) -> list[TileRows]:
            return [TileRows("own", i == k, own), *([TileRows("tile", i < k, others)] if tiling.count > 1 else [])]

        self.matrix.each_tile(f"{name}, inwards", more, _inwards)
        self.matrix.each_tile(f"{name}, outwards", more, _outwards, outwards=True)
        back = [Row("dof", {"from": place, "to": of_dof[dof]}) for dof, place in inside.items()]
        loops.loop(f"{name}, out of tiles", back, move)
        return result


def _tile(code: RowCode, array: str) -> Tile:
    return [code.array(array, N_TILE)[SIDE * i : SIDE * (i + 1)] for i in range(SIDE)]


def _tile_row(code: RowCode, array: str, row: int, at: Value | None = None) -> list[Value]:
    return [code.recorder.read(array, SIDE * row + j, at) for j in range(SIDE)]


def _eliminate(matrix: TiledMatrix, code: RowCode) -> None:
    """A tile on the diagonal; others by that, and then, times those before it and itself, from the rows of others."""
    if isinstance(code.kind, tuple):
        _pivot(code, code.kind[1])
    else:
        _divide(code)
        matrix.each_marked(code, lambda: _take(code))


def _pivot(code: RowCode, n: int) -> None:
    """Factorise a tile on the diagonal: rows of G, and the inverses of its diagonal."""
    a = [[code.read("own", SIDE * i + j) for j in range(i + 1)] for i in range(n)]
    for p in reversed(range(n)):
        most = code.read(f"most {p}")
        inverse = trace.sqrt(trace.select(1.0, most * a[p][p], 1.0 / a[p][p], most))
        a[p] = [*(x * inverse for x in a[p][:p]), inverse]
        for i in range(p):
            for j in range(i + 1):
                a[i][j] = a[i][j] - a[p][i] * a[p][j]
    for i, row in enumerate(a):
        code.write("own", row, SIDE * i)


def _divide(code: RowCode) -> None:
    """The rows of G that a tile becomes; a line each, so that what it works on fits into registers."""
    recorder = code.recorder
    for p in reversed(range(SIDE)):
        row = _tile_row(code, "mine", p)
        for r in range(p + 1, SIDE):
            factor = code.read("own", SIDE * r + p)
            row = [x - factor * y for x, y in zip(row, _tile_row(code, "mine", r), strict=True)]
        last = code.read("own", (SIDE + 1) * p)
        recorder.write("mine", [last * x for x in row], SIDE * p)
        recorder.new_line()


def _take(code: RowCode) -> None:
    """A tile, less the product of two others; a line for each of its rows likewise."""
    recorder = code.recorder
    for i in range(SIDE):
        at = recorder.turn() * float(N_TILE)
        row = _tile_row(code, "its", i, at)
        for k in range(SIDE):
            factor = code.read("mine", SIDE * k + i)
            row = [x - factor * y for x, y in zip(row, _tile_row(code, "tiles", k, at), strict=True)]
        recorder.write("its", row, SIDE * i, at)
        recorder.new_line()


def _inwards(code: RowCode) -> None:
    x = code.array("own x", SIDE)
    if code.kind == "own":
        pivot = _tile(code, "own")
        for p in reversed(range(SIDE)):
            for r in range(p + 1, SIDE):
                x[p] = x[p] - pivot[r][p] * x[r]
            x[p] = x[p] * pivot[p][p]
        code.write("own x", x)
        return
    mine, others = _tile(code, "mine"), code.array("x", SIDE)
    for j in range(SIDE):
        for k in range(SIDE):
            others[j] = others[j] - mine[k][j] * x[k]
    code.write("x", others)


def _outwards(code: RowCode) -> None:
    x = code.array("own x", SIDE)
    if code.kind == "own":
        pivot = _tile(code, "own")
        for p in range(SIDE):
            for q in range(p):
                x[p] = x[p] - pivot[p][q] * x[q]
            x[p] = x[p] * pivot[p][p]
    else:
        mine, others = _tile(code, "mine"), code.array("x", SIDE)
        for k in range(SIDE):
            for j in range(SIDE):
                x[k] = x[k] - mine[k][j] * others[j]
    code.write("own x", x)
