"""The surface of a polytope that grows: points, and triangles that know their neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kinema import trace
from kinema.trace import Recorder, Value

from ..sweeps.maths import Vector, cross, dot, scale, sub
from .directions import TINY, below

POINT = 6
"""Numbers of a point."""
FACE, BESIDE, NORMAL, OFFSET, RANK = 11, 3, 6, 9, 10
"""Numbers of a face: three points, the faces across the edges that start there, a unit normal, its offset from the
origin, and by what it is found: the same, or none of a face that is trusted."""
GONE = 1e15
"""The offset of a face that is there no more, or that has no area."""
TOGETHER = 4
"""Faces that are looked at one after the other without a test whether there are any more."""
EDGE = 3
"""Numbers of an edge of what a new point sees: its two points, and the face beyond."""


Lowest = tuple[Value, Value]
"""The smallest offset of all faces, and the face that has it."""


@dataclass(frozen=True, slots=True)
class Known:
    """Faces that need not be found, as what is low there is known: they look nearly in a direction."""

    direction: Vector
    cosine: float
    """Of the largest angle to it."""
    edge: Vector
    """Across the direction, or zero."""
    slant: float
    """The sine of the largest angle along the edge."""
    least: Value
    """Their offset at least."""

    def holds(self, normal: Vector, offset: Value) -> Value:
        """1 of a face that is one of these."""
        near = below(self.cosine, dot(normal, self.direction)) * below(self.least, offset)
        return near * below(trace.absolute(dot(normal, self.edge)), self.slant)


class Surface:
    """In local arrays of a program."""

    def __init__(self, recorder: Recorder, steps: int) -> None:
        self.recorder = recorder
        self.known: list[Known] = []
        """Faces that are not to be found."""
        most = 4 + 2 * steps
        self.most = most
        self.points = recorder.local((5 + steps) * POINT)
        self.faces = recorder.local(most * FACE)
        self._noted = recorder.local(most)
        """Of each face, in which step it was last seen by the new point."""
        self._seen = recorder.local(most + 1)
        """Numbers of the faces that are seen, then room for one that is not."""
        self._edges = recorder.local((most + 1) * EDGE)
        self._start = recorder.local(5 + steps)
        """The edge that starts at a point."""
        self._ring = recorder.local((most + 1) * 2)
        """Point and face beyond of the edges, once around."""

    def point(self, number: Value) -> list[Value]:
        """A point."""
        return [self.recorder.read(self.points, i, POINT * number) for i in range(POINT)]

    def put(self, number: Value, points: Sequence[Value], beside: Sequence[Value], corners: Sequence[Vector]) -> Value:
        """A face; by what it is found."""
        normal = cross(sub(corners[1], corners[0]), sub(corners[2], corners[0]))
        square = dot(normal, normal)
        normal = scale(1.0 / trace.sqrt(trace.maximum(square, TINY)), normal)
        offset = trace.select(square, 16.0 * TINY, GONE, dot(normal, corners[2]))
        rank = self._rank(normal, offset)
        self.recorder.write(self.faces, [*points, *beside, *normal, offset, rank], 0, FACE * number)
        self.recorder.write(self._noted, [0.0], 0, number)
        return rank

    def _rank(self, normal: Vector, offset: Value) -> Value:
        """By what a face is found."""
        rank = offset
        for known in self.known:
            rank = trace.select(0.5, known.holds(normal, offset), GONE, rank)
        return rank

    def rank(self, n_faces: Value) -> Lowest:
        """Have faces found by what is trusted now; the lowest."""
        recorder = self.recorder

        def again(turn: Value) -> None:
            *normal, offset = (recorder.read(self.faces, NORMAL + i, FACE * turn) for i in range(4))
            recorder.write(self.faces, [self._rank(normal, offset)], RANK, FACE * turn)

        recorder.count("faces", n_faces, again)
        return self._find_lowest(n_faces)

    def grow(
        self, new: Sequence[Value], lowest: Lowest, n_points: Value, n_faces: Value, above: Value, step: Value
    ) -> tuple[Value, Value, Lowest, Value]:
        """Take a point in that the lowest face sees; steps have different numbers.

        How many points and faces there are then, the lowest, and whether that went well: what rounding makes of faces
        that the point hardly sees need not be a surface, and then nothing is done.
        """
        recorder = self.recorder
        n_seen, n_edges = self._see(new[:3], lowest[1], above, step)
        is_ring = self._find_ring(n_edges)

        def build() -> list[Value]:
            recorder.write(self.points, new, 0, POINT * n_points)
            recorder.new_line()
            self._build(new[:3], n_points, n_edges, n_seen, n_faces)
            more = n_faces + trace.maximum(n_edges - n_seen, 0.0)
            return [n_points + 1.0, more, *self._find_lowest(more), 1.0]

        points, faces, offset, face, grown = recorder.where(
            "build", 0.5, is_ring, build, [n_points, n_faces, *lowest, 0.0]
        )
        return points, faces, (offset, face), grown

    def _see(self, new: Vector, face: Value, above: Value, step: Value) -> tuple[Value, Value]:
        """Note which faces are seen, from one to those beside it, and the edges between them and what is not seen."""
        recorder = self.recorder
        recorder.write(self._seen, [face])
        recorder.write(self._noted, [step], 0, face)
        recorder.new_line()

        def look(state: Sequence[Value]) -> tuple[list[Value], Value, Value]:
            turn, n_seen, n_edges = state
            own = recorder.read(self._seen, 0, turn)
            points = [recorder.read(self.faces, i, FACE * own) for i in range(3)]
            for i in range(3):
                beyond = recorder.read(self.faces, BESIDE + i, FACE * own)
                before = recorder.read(self._noted, 0, beyond)
                sees = self._sees(new, beyond, above)
                unknown = 1.0 - below(trace.absolute(before - step), 0.25)
                sees, is_edge = unknown * sees, unknown * (1.0 - sees)
                recorder.write(self._noted, [trace.select(0.5, sees, step, before)], 0, beyond)
                room = trace.minimum(n_seen, float(self.most))
                recorder.write(self._seen, [beyond], 0, trace.select(0.5, sees, room, float(self.most)))
                self._note_edge(n_edges, is_edge, points[i], points[(i + 1) % 3], beyond)
                n_seen, n_edges = n_seen + sees, n_edges + is_edge
            return [turn + 1.0, n_seen, n_edges], turn + 1.0, n_seen

        _, n_seen, n_edges = recorder.repeat("faces that are seen", look, [0.0, 1.0, 0.0], self.most)
        return n_seen, n_edges

    def _sees(self, new: Vector, face: Value, above: Value) -> Value:
        """1 where a point is above a face, else 0."""
        normal = [self.recorder.read(self.faces, NORMAL + i, FACE * face) for i in range(3)]
        return below(above, dot(normal, new) - self.recorder.read(self.faces, OFFSET, FACE * face))

    def _note_edge(self, number: Value, is_edge: Value, a: Value, b: Value, beyond: Value) -> None:
        """Where it is one: the edges in a list, and where in it that is that starts at a point."""
        recorder, spare = self.recorder, float(self.recorder.locals[self._start] - 1)
        place = trace.select(0.5, is_edge, trace.minimum(number, float(self.most - 1)), float(self.most))
        recorder.write(self._edges, [a, b, beyond], 0, EDGE * place)
        recorder.write(self._start, [place], 0, trace.select(0.5, is_edge, a, spare))

    def _find_lowest(self, n_faces: Value) -> Lowest:
        """The face of the smallest offset; some at a time, the last of them again where there are no more."""
        recorder, best = self.recorder, self.recorder.local(2)
        recorder.new_line()
        recorder.write(best, [2.0 * GONE, 0.0])

        def look(turn: Value) -> None:
            offset, face = recorder.read(best), recorder.read(best, 1)
            for i in range(TOGETHER):
                number = trace.minimum(TOGETHER * turn + float(i), n_faces - 1.0)
                own = recorder.read(self.faces, RANK, FACE * number)
                face = trace.select(own, offset, number, face)
                offset = trace.minimum(offset, own)
            recorder.write(best, [offset, face])

        recorder.count("faces", trace.floor((n_faces + (TOGETHER - 0.5)) * (1.0 / TOGETHER)), look)
        return recorder.read(best), recorder.read(best, 1)

    def _find_ring(self, n_edges: Value) -> Value:
        """Put the edges in the order in which they follow each other: 1 where that is one ring of all of them."""
        recorder = self.recorder
        state = recorder.local(3)
        recorder.write(state, [0.0, 0.0, below(n_edges, float(self.most))])

        def follow(turn: Value) -> None:
            edge, rounds, good = (recorder.read(state, i) for i in range(3))
            a, b, beyond = (recorder.read(self._edges, i, EDGE * edge) for i in range(EDGE))
            following = recorder.read(self._start, 0, b)
            joined = below(trace.absolute(recorder.read(self._edges, 0, EDGE * following) - b), 0.5)
            joined = joined * below(following, n_edges)
            recorder.write(self._ring, [a, beyond], 0, 2.0 * turn)
            recorder.write(state, [following, rounds + below(following, 0.5), good * joined])

        recorder.count("edges", trace.minimum(n_edges, float(self.most)), follow)
        edge, rounds, good = (recorder.read(state, i) for i in range(3))
        return good * below(edge, 0.5) * below(trace.absolute(rounds - 1.0), 0.5)

    def _build(self, new: Vector, number: Value, n_edges: Value, n_seen: Value, n_faces: Value) -> None:
        """A face from each edge to the new point, where faces were that were seen; then at the end."""
        recorder = self.recorder

        def place(i: Value) -> Value:
            seen = recorder.read(self._seen, 0, trace.minimum(i, float(self.most)))
            return trace.select(i, n_seen, seen, n_faces + (i - n_seen))

        def build(turn: Value) -> None:
            last = n_edges - 1.0
            following = trace.select(turn, last, turn + 1.0, 0.0)
            previous = trace.select(turn, 0.5, last, turn - 1.0)
            own = place(turn)
            a, beyond = (recorder.read(self._ring, i, 2.0 * turn) for i in range(2))
            b = recorder.read(self._ring, 0, 2.0 * following)
            corners = [self.point(a)[:3], self.point(b)[:3], new]
            self.put(own, [a, b, number], [beyond, place(following), place(previous)], corners)
            starts = [recorder.read(self.faces, i, FACE * beyond) for i in range(2)]
            side = [below(trace.absolute(start - b), 0.5) for start in starts]
            which = trace.select(0.5, side[0], 0.0, trace.select(0.5, side[1], 1.0, 2.0))
            recorder.write(self.faces, [own], BESIDE, FACE * beyond + which)

        recorder.count("edges", n_edges, build)

        def forget(turn: Value) -> None:
            gone = recorder.read(self._seen, 0, n_edges + turn)
            recorder.write(self.faces, [0.0, 0.0, 0.0, GONE, GONE], NORMAL, FACE * gone)

        recorder.count("gone", n_seen - n_edges, forget)
