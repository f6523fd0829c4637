"""The surface of a polytope that grows: points, and triangles that know their neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from kinema import trace
from kinema.trace import Recorder, Value

from ..sweeps.maths import Vector, cross, dot, scale, sub
from .directions import TINY, below

POINT = 6
"""Numbers of a point."""
FACE, BESIDE, NORMAL, OFFSET, SEEN = 11, 3, 6, 9, 10
"""Numbers of a face: three points, the faces across the edges that start there, a unit normal, its offset from the
origin, and whether the new point sees it."""
GONE = 1e15
"""The offset of a face that is there no more, or that has no area."""
EDGE = 3
"""Numbers of an edge of what a new point sees: its two points, and the face beyond."""


class Surface:
    """In local arrays of a program."""

    def __init__(self, recorder: Recorder, steps: int) -> None:
        self.recorder = recorder
        most = 4 + 2 * steps
        self.most = most
        self.points = recorder.local((5 + steps) * POINT)
        self.faces = recorder.local(most * FACE)
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

    def put(self, number: Value, points: Sequence[Value], beside: Sequence[Value], corners: Sequence[Vector]) -> None:
        """A face."""
        normal = cross(sub(corners[1], corners[0]), sub(corners[2], corners[0]))
        square = dot(normal, normal)
        normal = scale(1.0 / trace.sqrt(trace.maximum(square, TINY)), normal)
        offset = trace.select(square, 16.0 * TINY, GONE, dot(normal, corners[2]))
        self.recorder.write(self.faces, [*points, *beside, *normal, offset, 0.0], 0, FACE * number)

    def lowest(self, n_faces: Value) -> tuple[Value, Value]:
        """The smallest offset of all faces, and the face that has it."""
        recorder = self.recorder
        best = recorder.local(2)
        recorder.write(best, [2.0 * GONE, 0.0])

        def look(turn: Value) -> None:
            offset, old = recorder.read(self.faces, OFFSET, FACE * turn), recorder.read(best)
            face = trace.select(offset, old, turn, recorder.read(best, 1))
            recorder.write(best, [trace.minimum(old, offset), face])

        recorder.count("faces", n_faces, look)
        return recorder.read(best), recorder.read(best, 1)

    def grow(self, new: Sequence[Value], face: Value, n_points: Value, n_faces: Value, above: Value) -> list[Value]:
        """Take a point in that a face sees: how many points and faces there are then, and whether that went well.

        What rounding makes of faces that the point hardly sees need not be a surface: then nothing is done.
        """
        recorder = self.recorder
        n_seen = self._see(new[:3], face, n_faces, above)
        n_edges = self._find_edges(n_faces)
        is_ring = self._find_ring(n_edges)

        def build() -> list[Value]:
            recorder.write(self.points, new, 0, POINT * n_points)
            recorder.new_line()
            self._build(new[:3], n_points, n_edges, n_seen, n_faces)
            return [n_points + 1.0, n_faces + trace.maximum(n_edges - n_seen, 0.0), 1.0]

        return recorder.where("build", 0.5, is_ring, build, [n_points, n_faces, 0.0])

    def _see(self, new: Vector, face: Value, n_faces: Value, above: Value) -> Value:
        """Note which faces are seen, at least the one given: how many."""
        recorder = self.recorder
        count = recorder.local(1)
        recorder.write(count, [0.0])

        def look(turn: Value) -> None:
            normal = [recorder.read(self.faces, NORMAL + i, FACE * turn) for i in range(3)]
            height = dot(normal, new) - recorder.read(self.faces, OFFSET, FACE * turn)
            is_face = below(trace.absolute(turn - face), 0.5)
            seen = trace.maximum(below(above, height), is_face)
            number = recorder.read(count)
            recorder.write(self.faces, [seen], SEEN, FACE * turn)
            recorder.write(self._seen, [turn], 0, trace.select(0.5, seen, number, float(self.most)))
            recorder.write(count, [number + seen])

        recorder.count("faces", n_faces, look)
        return recorder.read(count)

    def _find_edges(self, n_faces: Value) -> Value:
        """Note the edges between what is seen and what is not: how many."""
        recorder = self.recorder
        count = recorder.local(1)
        recorder.write(count, [0.0])

        def look(turn: Value) -> None:
            def edges() -> list[Value]:
                number = recorder.read(count)
                points = [recorder.read(self.faces, i, FACE * turn) for i in range(3)]
                for i in range(3):
                    beyond = recorder.read(self.faces, BESIDE + i, FACE * turn)
                    is_edge = below(recorder.read(self.faces, SEEN, FACE * beyond), 0.5)
                    place = trace.select(0.5, is_edge, trace.minimum(number, float(self.most - 1)), float(self.most))
                    recorder.write(self._edges, [points[i], points[(i + 1) % 3], beyond], 0, EDGE * place)
                    spare = float(recorder.locals[self._start] - 1)
                    recorder.write(self._start, [place], 0, trace.select(0.5, is_edge, points[i], spare))
                    number = number + is_edge
                recorder.write(count, [number])
                return []

            recorder.where("seen", 0.5, recorder.read(self.faces, SEEN, FACE * turn), edges, [])

        recorder.count("faces", n_faces, look)
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
            recorder.write(self.faces, [0.0, 0.0, 0.0, GONE, 0.0], NORMAL, FACE * gone)

        recorder.count("gone", n_seen - n_edges, forget)
