"""The surface of a polytope that grows: points, and triangles that know their neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from kinema import trace
from kinema.trace import Recorder, Value

from ..sweeps.maths import Vector, cross, dot, scale, sub
from .directions import TINY, below

POINT = 6
"""Numbers of a point."""
FACE, BESIDE, NORMAL, OFFSET = 10, 3, 6, 9
"""Numbers of a face: three points, the faces across the edges that start there, a unit normal, and its offset from the
origin."""
GONE = 1e15
"""The offset of a face that is there no more, or that has no area."""
EDGE = 3
"""Numbers of an edge of what a new point sees: its two points, and the face beyond."""


Lowest = tuple[Value, Value]
"""The smallest offset of all faces, and the face that has it."""


class Surface:
    """In local arrays of a program."""

    def __init__(self, recorder: Recorder, steps: int) -> None:
        self.recorder = recorder
        most = 4 + 2 * steps
        self.most = most
        self.points = recorder.local((5 + steps) * POINT)
        self.faces = recorder.local(most * FACE)
        self._is_seen = recorder.local(most)
        """Of each face, whether the new point sees it."""
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
        """A face; its offset."""
        normal = cross(sub(corners[1], corners[0]), sub(corners[2], corners[0]))
        square = dot(normal, normal)
        normal = scale(1.0 / trace.sqrt(trace.maximum(square, TINY)), normal)
        offset = trace.select(square, 16.0 * TINY, GONE, dot(normal, corners[2]))
        self.recorder.write(self.faces, [*points, *beside, *normal, offset], 0, FACE * number)
        return offset

    def grow(
        self, new: Sequence[Value], lowest: Lowest, n_points: Value, n_faces: Value, above: Value
    ) -> tuple[Value, Value, Lowest, Value]:
        """Take a point in that the lowest face sees.

        How many points and faces there are then, the lowest, and whether that went well: what rounding makes of faces
        that the point hardly sees need not be a surface, and then nothing is done.
        """
        recorder = self.recorder
        n_seen, best = self._see(new[:3], lowest[1], n_faces, above)
        n_edges = self._find_edges(n_seen)
        is_ring = self._find_ring(n_edges)

        def build() -> list[Value]:
            recorder.write(self.points, new, 0, POINT * n_points)
            recorder.new_line()
            self._build(new[:3], n_points, n_edges, n_seen, n_faces, best)
            found = recorder.read(best), recorder.read(best, 1)
            return [n_points + 1.0, n_faces + trace.maximum(n_edges - n_seen, 0.0), *found, 1.0]

        points, faces, offset, face, grown = recorder.where(
            "build", 0.5, is_ring, build, [n_points, n_faces, *lowest, 0.0]
        )
        return points, faces, (offset, face), grown

    def _see(self, new: Vector, face: Value, n_faces: Value, above: Value) -> tuple[Value, str]:
        """Note which faces are seen, at least the one given: how many; and the lowest of the others."""
        recorder = self.recorder
        count, best = recorder.local(1), recorder.local(2)
        recorder.write(count, [0.0])
        recorder.write(best, [2.0 * GONE, 0.0])

        def look(turn: Value) -> None:
            normal = [recorder.read(self.faces, NORMAL + i, FACE * turn) for i in range(3)]
            offset = recorder.read(self.faces, OFFSET, FACE * turn)
            is_face = below(trace.absolute(turn - face), 0.5)
            seen = trace.maximum(below(above, dot(normal, new) - offset), is_face)
            number = recorder.read(count)
            recorder.write(self._is_seen, [seen], 0, turn)
            recorder.write(self._seen, [turn], 0, trace.select(0.5, seen, number, float(self.most)))
            recorder.write(count, [number + seen])
            self._compare(best, trace.select(0.5, seen, 2.0 * GONE, offset), turn)

        recorder.count("faces", n_faces, look)
        return recorder.read(count), best

    def _compare(self, best: str, offset: Value, face: Value) -> None:
        """Keep a face that is lower than the lowest so far."""
        old, other = self.recorder.read(best), self.recorder.read(best, 1)
        self.recorder.write(best, [trace.minimum(old, offset), trace.select(offset, old, face, other)])

    def _find_edges(self, n_seen: Value) -> Value:
        """Note the edges between what is seen and what is not: how many."""
        recorder = self.recorder
        count = recorder.local(1)
        recorder.write(count, [0.0])

        def look(turn: Value) -> None:
            number, face = recorder.read(count), recorder.read(self._seen, 0, turn)
            points = [recorder.read(self.faces, i, FACE * face) for i in range(3)]
            for i in range(3):
                beyond = recorder.read(self.faces, BESIDE + i, FACE * face)
                is_edge = below(recorder.read(self._is_seen, 0, beyond), 0.5)
                place = trace.select(0.5, is_edge, trace.minimum(number, float(self.most - 1)), float(self.most))
                recorder.write(self._edges, [points[i], points[(i + 1) % 3], beyond], 0, EDGE * place)
                spare = float(recorder.locals[self._start] - 1)
                recorder.write(self._start, [place], 0, trace.select(0.5, is_edge, points[i], spare))
                number = number + is_edge
            recorder.write(count, [number])

        recorder.count("faces that are seen", n_seen, look)
        return recorder.read(count)

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

    def _build(self, new: Vector, number: Value, n_edges: Value, n_seen: Value, n_faces: Value, best: str) -> None:
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
            offset = self.put(own, [a, b, number], [beyond, place(following), place(previous)], corners)
            self._compare(best, offset, own)
            starts = [recorder.read(self.faces, i, FACE * beyond) for i in range(2)]
            side = [below(trace.absolute(start - b), 0.5) for start in starts]
            which = trace.select(0.5, side[0], 0.0, trace.select(0.5, side[1], 1.0, 2.0))
            recorder.write(self.faces, [own], BESIDE, FACE * beyond + which)

        recorder.count("edges", n_edges, build)

        def forget(turn: Value) -> None:
            gone = recorder.read(self._seen, 0, n_edges + turn)
            recorder.write(self.faces, [0.0, 0.0, 0.0, GONE], NORMAL, FACE * gone)

        recorder.count("gone", n_seen - n_edges, forget)
