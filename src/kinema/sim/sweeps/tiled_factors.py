"""Matrices of tiles, factorised: as G^T G, tile by tile from the last to the first."""

from __future__ import annotations

from dataclasses import replace

from kinema import trace
from kinema.trace import SCRATCH, Place, Row, RowCode, Value

from .factors import Factors
from .quantities import Quantity
from .tiles import N_TILE, SIDE, TiledMatrix

Tile = list[list[Value]]


class TiledFactors:
    """G in the place of the matrix, with inverses on its diagonal; none larger than those of `least` allow."""

    def __init__(self, matrix: TiledMatrix, least: Factors) -> None:
        self.matrix = matrix
        self.loops = matrix.loops
        self.x = self.loops.take(SIDE * matrix.tiling.count)
        """What is solved for, by tiles."""
        own = matrix.rows()
        rows: list[Row] = []
        for k in reversed(range(matrix.tiling.count)):
            dofs = matrix.tiling.dofs[k]
            bounds = {f"most {i}": least.inverses[dof] for i, dof in enumerate(dofs)}
            rows.append(replace(own[k], kind=("pivot", len(dofs)), places={**own[k].places, **bounds}))
            rows.append(replace(own[k], kind="divide"))
            for i in reversed(range(k)):
                places = {"mark": matrix.mark(k, i), "mine": matrix.tile(k, i), "its": matrix.tile(i, 0)}
                rows.append(Row("take", {**own[k].places, **places}, {"whole": [i + 1.0]}))
        self.loops.loop(f"{matrix.name}, factorised", rows, lambda code: _eliminate(matrix, code))

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
        own = []
        for k, row in enumerate(self.matrix.rows()):
            places = {"x": self.x, "own x": Place(SCRATCH, self.x.row + SIDE * k)}
            own.append(replace(row, places={**row.places, **places}))
        loops.loop(f"{name}, inwards", list(reversed(own)), lambda code: _inwards(self.matrix, code))
        loops.loop(f"{name}, outwards", own, lambda code: _outwards(self.matrix, code))
        back = [Row("dof", {"from": place, "to": of_dof[dof]}) for dof, place in inside.items()]
        loops.loop(f"{name}, out of tiles", back, move)
        return result


def _tile(code: RowCode, array: str, turn: Value | None = None) -> Tile:
    at = None if turn is None else turn * float(N_TILE)
    return [[code.recorder.read(array, SIDE * i + j, at) for j in range(SIDE)] for i in range(SIDE)]


def _tile_row(code: RowCode, array: str, row: int, at: Value) -> list[Value]:
    return [code.recorder.read(array, SIDE * row + j, at) for j in range(SIDE)]


def _eliminate(matrix: TiledMatrix, code: RowCode) -> None:
    """A tile on the diagonal; those of its row by that; and those, times each other, from the rows of others."""
    if isinstance(code.kind, tuple):
        _pivot(code, code.kind[1])
    elif code.kind == "divide":

        matrix.each_marked(code, lambda _: _divide(code))
    else:

        matrix.if_marked(code, code.read("mark"), lambda: matrix.each_marked(code, lambda _: _take(code), whole=True))


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
        at = recorder.turn() * float(N_TILE)
        row = _tile_row(code, "tiles", p, at)
        for r in range(p + 1, SIDE):
            factor = code.read("own", SIDE * r + p)
            row = [x - factor * y for x, y in zip(row, _tile_row(code, "tiles", r, at), strict=True)]
        last = code.read("own", (SIDE + 1) * p)
        recorder.write("tiles", [last * x for x in row], SIDE * p, at)
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


def _inwards(matrix: TiledMatrix, code: RowCode) -> None:
    recorder, pivot = code.recorder, _tile(code, "own")
    x = code.array("own x", SIDE)
    for p in reversed(range(SIDE)):
        for r in range(p + 1, SIDE):
            x[p] = x[p] - pivot[r][p] * x[r]
        x[p] = x[p] * pivot[p][p]
    code.write("own x", x)

    def pass_on(turn: Value) -> None:
        mine, known, at = _tile(code, "tiles", turn), code.array("own x", SIDE), turn * float(SIDE)
        others = [recorder.read("x", i, at) for i in range(SIDE)]
        for j in range(SIDE):
            for k in range(SIDE):
                others[j] = others[j] - mine[k][j] * known[k]
        recorder.write("x", others, 0, at)

    matrix.each_marked(code, pass_on)


def _outwards(matrix: TiledMatrix, code: RowCode) -> None:
    recorder = code.recorder

    def gather(turn: Value) -> None:
        mine, x, at = _tile(code, "tiles", turn), code.array("own x", SIDE), turn * float(SIDE)
        others = [recorder.read("x", i, at) for i in range(SIDE)]
        for k in range(SIDE):
            for j in range(SIDE):
                x[k] = x[k] - mine[k][j] * others[j]
        code.write("own x", x)

    matrix.each_marked(code, gather)
    pivot, x = _tile(code, "own"), code.array("own x", SIDE)
    for p in range(SIDE):
        for q in range(p):
            x[p] = x[p] - pivot[p][q] * x[q]
        x[p] = x[p] * pivot[p][p]
    code.write("own x", x)
