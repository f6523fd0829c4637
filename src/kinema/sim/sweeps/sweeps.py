"""Ways through a robot: from the world to the tips, from the tips to the world, or each part by itself.

What is done to a part is a pure function of that part, traced once for each kind of part; every way through is a loop
over a table. Where a straight line is wanted, the loops are unrolled afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, TypeVar

from kinema.model import Model, Motion
from kinema.trace import SCRATCH, Column, Place, RowCode, Slot, Value

from .columns import PartColumns
from .cords import NO_LENGTHS, Cord, Cords, Lengths, Pull
from .loops import Loops
from .maths import Vector
from .matrix import TreeMatrix
from .patterns import paths_of
from .quantities import Quantity, part_rows
from .records import like, numbers
from .tree import WORLD, Forest, Inertia, Link, Node, frame_ref, inertia_about_origin, placed

R = TypeVar("R")


class Sweeps(Loops):
    """Some frames of a model, whole trees of it, and the links in them; with the world's, if these are all frames."""

    def __init__(self, *where: Any, **how: Any) -> None:
        super().__init__(*where, **how)
        if self.settings.per_env & {"mass_shift", "com_shift"}:
            with self.everybody():  # nobody knows yet who is idle
                self._add_up_masses()

    @property
    def gravity(self) -> Vector:
        """In the world [m/s2]."""
        return [self.read("gravity", i) for i in range(3)]

    @property
    def dt(self) -> Value:
        """The time of a step [s]."""
        return self.read("dt")

    def _add_up_masses(self) -> None:
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
        """Each moving frame by itself, or only some, parents first; a link may be looked at beside each."""
        nodes = self.nodes if only is None else [self.tree.nodes[i] for i in only]
        self.loop(name, self.frame_rows(nodes, beside), lambda code: body(self.node(code)))

    def each_link(self, name: str, body: Callable[[Link], None], only: Sequence[int] | None = None) -> None:
        """Each link by itself."""
        links = self.links if only is None else only
        self.loop(name, [self.link_row(i) for i in links], lambda code: body(self.link(code)))

    def outward(self, name: str, at_world: R, body: Callable[[Node, R], R]) -> Quantity[R]:
        """Each frame from what its parent has."""
        result: Quantity[R] = self.quantity(name)
        world = result.make_room(frame_ref(WORLD), at_world, fixed=True)
        for node in self.nodes:
            result.make_room(node.here, at_world)
        self.recorder.write(SCRATCH, numbers(at_world), world.row)
        self.each_frame(name, lambda node: result.put(node.here, body(node, result[node.above])))
        return result

    def inward(self, name: str, start: Callable[[Node], R], body: Callable[[Node, R], R]) -> Quantity[R]:
        """Of each frame the sum of its own start and of what its children's bodies hand on."""
        total: Quantity[R] = self.quantity(name)
        self.each_frame(f"{name}, their own", lambda node: total.put(node.here, start(node)))
        self.add_up(name, total, body)
        return total

    def add_up(self, name: str, total: Quantity[R], body: Callable[[Node, R], R] = lambda _, handed: handed) -> None:
        """Add to what each frame has what its children's bodies hand on: without one, all that they have."""

        def hand_on(code: RowCode) -> None:
            node = self.node(code)
            handed = body(node, total[node.here])
            if not code.kind.held_by_world:  # type: ignore[attr-defined]
                total.add(node.above, handed)

        self.loop(name, self.frame_rows(self.nodes[::-1]), hand_on)

    def links_inward(self, name: str, start: Callable[[Link], R]) -> Quantity[R]:
        """Of each link its own and that of all links that hang on it."""
        total: Quantity[R] = self.quantity(name)
        self.each_link(f"{name}, their own", lambda link: total.put(link.here, start(link)))

        def hand_on(link: Link) -> None:
            if link.above is not None:
                total.add(link.above, total[link.here])

        order = [i for i in reversed(outward_links(self.model)) if i in set(self.links)]
        self.each_link(name, hand_on, order)
        return total

    def links_by_root(self, name: str, start: Callable[[Link], R]) -> Quantity[R]:
        """Of each root the sum over all links of its tree."""
        total: Quantity[R] = self.quantity(name)
        roots = [i for i in self.links if self.model.links.parent_idx[i] < 0]
        others = [i for i in self.links if self.model.links.parent_idx[i] >= 0]
        self.each_link(f"{name}, the roots", lambda link: total.put(link.here, start(link)), roots)
        self.each_link(name, lambda link: total.add(link.root, start(link)), others)
        return total

    def total(self, name: str, forest: Forest, nothing: R, body: Callable[[Any], R]) -> R:
        """The sum over all parts; `nothing` where there are none."""
        total: Quantity[R] = self.quantity(name)
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

    def cords(
        self,
        kind: str,
        which: Sequence[int],
        body: Callable[[Cord], Pull],
        along: Lengths = NO_LENGTHS,
        name: str = "",
        together: Callable[[Cords], None] | None = None,
    ) -> Cords:
        """Some actuators or tendons: the pull of each along its length, and what that does to degrees of freedom."""
        made = Cords(self, kind, which, body, along, name, together)
        self.found.append(made)
        return made

    def health(self, role_of_frame: Mapping[int, int | None]) -> Health:
        """Sums over the new state, one for each role."""
        return Health(self, role_of_frame)

    def matrix(
        self,
        name: str,
        own: Callable[[Node], tuple[Any, list[list[Value]]]],
        up: Callable[[Node, Node, Any], tuple[Any, list[list[Value]]]],
    ) -> TreeMatrix:
        """A symmetric matrix over degrees of freedom that is zero where neither moves the other.

        `own(node)` gives something for the way up, and the rows of the frame's degrees of freedom against its own up to
        the diagonal; `up(below, above, carried)` the same on the way to the world, against those of `above`.
        """
        made = TreeMatrix(self, name, paths_of(self))
        self.found.append(made)
        made.fill(own, up)
        return made

    def repeat(self, name: str, step: Callable[[], tuple[Value, Value]], most: int) -> None:
        """Do something to quantities, and again while the first of two numbers is below the second."""

        def run(nothing: Sequence[Value]) -> tuple[Sequence[Value], Value, Value]:
            return (nothing, *step())

        self.recorder.repeat(name, run, [], most)  # what is carried lies in memory

    @property
    def sleeps(self) -> bool:
        """Whether what sleeps is left out; programs that only look at a state see everything."""
        return self.idle is not None and self.settings.sleep > 0.0

    def everybody(self) -> AbstractContextManager[None]:
        """What is recorded meanwhile is computed for all trees, also for those with nothing to do."""
        return nullcontext() if self.idle is None else self.idle.everybody()

    def team(self, name: str, weights: Sequence[Place] = ()) -> AbstractContextManager[None]:
        """What is recorded meanwhile is work for a team of threads, where there are any.

        Numbers in the scratch memory say how much it has to do.
        """
        slots = [Slot(SCRATCH, place.row) for place in weights]
        return self.recorder.team(name, slots) if self.settings.team else nullcontext()

    def where(self, name: str, count: Value, body: Callable[[], object]) -> None:
        """Do something to quantities where a count is not zero."""

        def then() -> list[Value]:
            body()
            return []

        self.recorder.where(name, 0.5, count, then, [])


class Health:
    """Sums over the new state, which show where it is no longer made of numbers."""

    def __init__(self, sweeps: Sweeps, role_of_frame: Mapping[int, int | None]) -> None:
        self.sweeps = sweeps
        self.role_of_frame = role_of_frame
        self.places = [sweeps.take_fixed(1) for _ in range(sweeps.settings.roles)]
        for place in self.places:
            sweeps.recorder.write(SCRATCH, [0.0], place.row)

    def note(self, node: Node, q: Sequence[Value], v: Sequence[Value]) -> None:
        """Take a frame's new state into account."""
        code = self.sweeps.code
        if isinstance(code.group, PartColumns):
            roles = [self._role(frame) for frame in code.group.targets[""].index.tolist()]
            code.group.put("health", Column.of([self.places[role] for role in roles]))
            code.group.put("flag", Column.of([self._flag(role) for role in roles]))
        else:
            for row in part_rows(code):
                role = self._role(int(row.targets[""].index))
                row.places["health"], row.places["flag"] = self.places[role], self._flag(role)
        total = code.read("health")
        # a turn that is not a number spoils all velocities; a slide, or the first turn of all, may leave them alone
        unseen = node.motion == Motion.SLIDE or code.kind.held_by_world  # type: ignore[attr-defined]
        for x in (*(q if unseen else ()), *v):
            total = total + x
        code.write("health", [total])

    def flagged(self) -> Value:
        """1 where the environment was flagged before this step, as far as the thread of this frame knows."""
        return self.sweeps.code.read("flag")

    def _role(self, frame: int) -> int:
        return self.role_of_frame.get(frame) or 0

    def _flag(self, role: int) -> Place:
        place = self.sweeps.places[self.sweeps.prefix + "error"]
        return Place(place.arena, place.row + role)

    def totals(self) -> list[Value]:
        """The sums: one for each role."""
        return [self.sweeps.recorder.read(SCRATCH, place.row) for place in self.places]


def outward_links(model: Model) -> list[int]:
    """Links, those that others hang on first."""
    depth: dict[int, int] = {}

    def of(link: int) -> int:
        parent = int(model.links.parent_idx[link])
        if link not in depth:
            depth[link] = 0 if parent < 0 else of(parent) + 1
        return depth[link]

    return sorted(range(model.n_links), key=of)
