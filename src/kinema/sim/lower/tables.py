"""The driver that makes loops over tables: code that does not grow with the robot.

Every way through the parts of a robot is a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from kinema.trace import SCRATCH, RowCode, Value

from ..rigid.records import like, numbers
from ..rigid.straight import outward_links
from ..rigid.sweeps import Cord, Health, Pull, Quantity, Sweeps
from ..rigid.tree import WORLD, Forest, Inertia, Link, Node, frame_ref, inertia_about_origin, placed
from .table_cords import TableCords
from .table_loops import Scratch, TableLoops
from .table_matrix import TableMatrix, paths_of

R = TypeVar("R")


class Tables(TableLoops, Sweeps):
    """Some frames of a model, whole trees of it, and the links in them; with the world's, if these are all frames."""

    def add_up_masses(self) -> None:
        """Where masses differ between environments: the inertias of frames, from their links."""
        sums = self.quantity("inertia of links")
        nothing = Inertia(0.0, (0.0, 0.0, 0.0), ((0.0,) * 3,) * 3)
        self.each_frame("no masses", lambda node: sums.put(node.here, nothing))

        def body(link: Link) -> None:
            if link.moves:
                own = inertia_about_origin(link.mass, link.center, link.inertia)
                sums.add(link.frame, placed(own, link.rotation, link.position))

        self.each_link("masses of links", body)
        self.masses = sums

    def each_frame(
        self,
        name: str,
        body: Callable[[Node], None],
        only: Sequence[int] | None = None,
        beside: int | None = None,
    ) -> None:
        nodes = self.nodes if only is None else [self.tree.nodes[i] for i in only]
        self.loop(name, [self.frame_row(n, beside) for n in nodes], lambda code: body(self.node(code)))

    def each_link(self, name: str, body: Callable[[Link], None], only: Sequence[int] | None = None) -> None:
        links = self.links if only is None else only
        self.loop(name, [self.link_row(i) for i in links], lambda code: body(self.link(code)))

    def outward(self, name: str, at_world: R, body: Callable[[Node, R], R]) -> Scratch[R]:
        result: Scratch[R] = self.quantity(name)
        world = result.make_room(frame_ref(WORLD), at_world, fixed=True)
        for node in self.nodes:
            result.make_room(node.here, at_world)
        self.recorder.write(SCRATCH, numbers(at_world), world.row)
        self.each_frame(name, lambda node: result.put(node.here, body(node, result[node.above])))
        return result

    def inward(self, name: str, start: Callable[[Node], R], body: Callable[[Node, R], R]) -> Scratch[R]:
        total: Scratch[R] = self.quantity(name)
        self.each_frame(f"{name}, their own", lambda node: total.put(node.here, start(node)))

        def hand_on(code: RowCode) -> None:
            node = self.node(code)
            handed = body(node, total[node.here])
            if not code.kind.held_by_world:  # type: ignore[attr-defined]
                total.add(node.above, handed)

        self.loop(name, [self.frame_row(n) for n in reversed(self.nodes)], hand_on)
        return total

    def links_inward(self, name: str, start: Callable[[Link], R]) -> Scratch[R]:
        total: Scratch[R] = self.quantity(name)
        self.each_link(f"{name}, their own", lambda link: total.put(link.here, start(link)))

        def hand_on(link: Link) -> None:
            if link.above is not None:
                total.add(link.above, total[link.here])

        order = [i for i in reversed(outward_links(self.model)) if i in set(self.links)]
        self.each_link(name, hand_on, order)
        return total

    def links_by_root(self, name: str, start: Callable[[Link], R]) -> Scratch[R]:
        total: Scratch[R] = self.quantity(name)
        roots = [i for i in self.links if self.model.links.parent_idx[i] < 0]
        others = [i for i in self.links if self.model.links.parent_idx[i] >= 0]
        self.each_link(f"{name}, the roots", lambda link: total.put(link.here, start(link)), roots)
        self.each_link(name, lambda link: total.add(link.root, start(link)), others)
        return total

    def total(self, name: str, forest: Forest, nothing: R, body: Callable[[Any], R]) -> R:
        total: Scratch[R] = self.quantity(name)
        everything = frame_ref("everything ")
        place, count = total.make_room(everything, nothing, fixed=True), len(numbers(nothing))
        self.recorder.write(SCRATCH, numbers(nothing), place.row)
        of_frames = forest is Forest.FRAMES
        rows = [self.frame_row(n) for n in self.nodes] if of_frames else [self.link_row(i) for i in self.links]
        for row in rows:
            row.places[total.array(everything)] = place
        rows = [replace(row, targets={**row.targets, "everything ": everything}) for row in rows]

        def run(code: RowCode) -> None:
            total.add(everything, body(self.node(code) if of_frames else self.link(code)))

        self.loop(name, rows, run)
        return like(nothing, [self.recorder.read(SCRATCH, place.row + i) for i in range(count)])

    def cords(self, kind: str, which: Sequence[int], body: Callable[[Cord], Pull]) -> TableCords:
        made = TableCords(self, kind, which, body)
        self.found.append(made)
        return made

    def health(self) -> TableHealth:
        return TableHealth(self)

    def matrix(
        self,
        name: str,
        own: Callable[[Node], tuple[Any, list[list[Value]]]],
        up: Callable[[Node, Node, Any], tuple[Any, list[list[Value]]]],
    ) -> TableMatrix:
        made = TableMatrix(self, name, paths_of(self))
        self.found.append(made)
        made.fill(own, up)
        return made

    def repeat(
        self, name: str, carried: Quantity[list[Value]], step: Callable[[], tuple[Value, Value]], most: int
    ) -> None:
        def run(nothing: Sequence[Value]) -> tuple[Sequence[Value], Value, Value]:
            return (nothing, *step())

        self.recorder.repeat(name, run, [], most)  # what is carried lies in memory


class TableHealth(Health):
    """One sum over all frames."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.place = tables.take_fixed(1)
        tables.recorder.write(SCRATCH, [0.0], self.place.row)

    def note(self, node: Node, q: Sequence[Value], v: Sequence[Value]) -> None:
        code = self.tables.code
        for row in code.rows:
            row.places["health"] = self.place
        total = code.read("health")
        for x in (*q, *v):
            total = total + x
        code.write("health", [total])

    def totals(self) -> list[Value]:
        return [self.tables.recorder.read(SCRATCH, self.place.row)]
