"""The forces of constraints and contacts: Newton's method on a convex cost, with an exact search along each step.

With x = a - a0, the change of the accelerations from those without constraints, the cost is 1/2 x^T M x and, of each
row, half its stiffness times the square of what is missing where it pushes. That is quadratic as long as no row starts
or stops to push: once a step leaves all of them as they were, it has arrived. Along the cones of contacts it is not,
and where rows are as hard as can be, a step is not exact; there it has arrived when the slope is small against the
forces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinema import trace
from kinema.trace import SCRATCH, Place, RowCode, Value

from ..constrain.contacts import Contacts
from ..constrain.tiled import fill_tiles, tiles_for
from ..sweeps.factors import factorised
from ..sweeps.idle import trees_of_frames
from ..sweeps.maths import dot
from ..sweeps.patterns import coupled
from ..sweeps.sweeps import Sweeps
from ..sweeps.tiled_factors import TiledFactors
from ..sweeps.tiles import TiledMatrix
from ..sweeps.tree import Forest, Node
from ..sweeps.trees import PerTree, places_in
from .arriving import ROUGH, gains, note_work
from .by_tree import OWN, tree_by_tree
from .noslip import TRIALS, may_slip, stop_slipping
from .of_rows import advance_rows, along_direction, changed_rows, costs_of_rows, miss_rows, row_force
from .ready import OfDofs, Ready
from .search import LONGEST, NEAR, closer

LARGE = 1e30


class Newton:
    """One solution."""

    exact = True
    """Whether a step that leaves all rows as they were has arrived."""

    def __init__(self, s: Sweeps, start: Ready, contacts: Contacts | None) -> None:
        self.s = s
        self.rows = start.rows
        self.contacts = contacts
        self.mass = start.inertia
        self.factors = start.factors
        self.free = start.free
        self.pattern = coupled(self.mass.paths, [block.dofs for block in self.rows.blocks])
        self.length = s.take_fixed(1)
        """How far along a direction."""
        self.lengths: Place | PerTree = self.length
        """Likewise, for each row: the same for all, unless each island goes its own way."""
        self.sums = s.take_fixed(2)
        self.taken = s.take_fixed(1)
        """Steps that were taken."""
        self.gain = s.take_fixed(2)
        """Twice what the last step was to gain of the cost, and the one before."""
        self.work = s.take_fixed(1)
        """That of what accelerates joints anyway."""
        self.between = s.take_fixed(1)
        """How many contacts there are between moving frames."""
        self.x = self._vector("x")
        self.weight = self._vector("inertia times x")
        self.downhill = self._vector("downhill")
        self.trees = None if contacts is None else tree_by_tree(s)
        self.tiles: TiledMatrix | None = None
        """Where the curvature goes, where many trees may touch."""

    def solve(self) -> OfDofs:
        """What constraints and contacts do to joints: forces that move them by what was found."""
        s, contacts = self.s, self.contacts
        s.recorder.write(SCRATCH, [0.0], self.taken.row)
        s.recorder.write(SCRATCH, [LARGE], self.gain.row)
        for quantity in (self.x, self.weight):
            self._clear(quantity)
        self._look_at_rows()
        self._look_at_contacts()
        if contacts is not None and s.model.options.elliptic:  # in pyramids it arrives as soon from nothing
            self._start_as_before()
        if contacts is not None and self.exact and not s.recorder.in_team:
            self.tiles = tiles_for(contacts, self.rows, self.mass)
        self._look_downhill()
        s.repeat("Newton's method", self._step, s.settings.iterations)
        self._arrived()
        if s.keeps("push"):
            s.each_frame("to begin with next time", lambda node: s.write("push", node, self.x[node.here]))
            s.write("n_iterations", None, [s.recorder.read(SCRATCH, self.taken.row)])
        if s.settings.noslip_iterations and may_slip(self.rows, contacts):
            stop_slipping(s, self.rows, contacts, self._look_downhill, self._step, self._far_off)
        # of what contacts push, stiff as they are, digits are lost that the inertia times what was found still has
        return self._forces() if self.contacts is None else self.weight

    def _look_at_rows(self) -> None:
        """What rows miss while nothing pushes."""
        self.rows.product(self.free, "residual")
        self.rows.each("what is missing", miss_rows)

    def _look_at_contacts(self) -> None:
        """What contacts miss while nothing pushes, and how much moves then."""
        contacts = self.contacts
        if contacts is not None:
            note_work(self.s, self.factors, self.free, self.work)
            self.s.recorder.write(SCRATCH, [contacts.touches.number(between_frames=True)], self.between.row)
            contacts.set_targets(contacts.moved("velocities of frames"), contacts.moved("free frames", self.free))

    def _arrived(self) -> None:
        """Nothing more is to be done to find the forces."""

    def added(self, node: Node) -> list[Value]:
        """What constraints and contacts add to a frame's accelerations, as solved."""
        return self.x[node.here]

    def _start_as_before(self) -> None:
        """Begin with what was added to the accelerations last time, where that costs less than nothing."""
        s = self.s
        before = self._vector("what was added before")
        s.each_frame("what was added before", lambda node: before.put(node.here, s.of("push", node)))
        heavy = self._go_along(before)
        (square,) = self._products("cost of what was added before", [(before, heavy)])
        costs = [self.costs_at(length, before) for length in (0.0, 1.0)]
        self._set_length(trace.select(costs[1] + 0.5 * square, costs[0], 1.0, 0.0))
        self._go(before, heavy)

    def costs_at(self, length: float, _along: OfDofs | None = None) -> Value:
        """What all that pushes costs so far along the direction."""
        self._set_length(length)
        own = self._of_rows(f"costs at {length:g}", costs_of_rows)[0]
        return own if self.contacts is None else own + self._of_contacts(self.contacts.costs, 1)[0]

    def _go_along(self, along: OfDofs) -> OfDofs:
        """What a direction changes; with the inertia times it."""
        heavy = self._heavy("inertia times the direction", along)
        self.rows.product(along, "change")
        self._see_along(along)
        return heavy

    def _see_along(self, along: OfDofs) -> None:
        """What a direction changes of what contacts miss."""
        if self.contacts is not None:
            self.contacts.product(self.contacts.moved("along the direction", along))

    def _go(self, along: OfDofs, heavy: OfDofs) -> None:
        """Go as far as was found best."""
        self.rows.each("what is missing then", advance_rows, {"length": self.lengths})
        if self.contacts is not None:
            self.contacts.advance(self.lengths)
        self._advance(self.weight, heavy)
        if self.contacts is not None or self.s.settings.calm:
            self._advance(self.x, along)

    def _forces(self) -> OfDofs:
        """What all that pushes does to joints."""
        if self.contacts is not None and not self.rows.blocks:
            return self.contacts.joint_forces("what pushes")
        self.rows.each("what pushes, of rows", row_force)
        result = self.rows.joint_forces("what pushes, by rows")
        if self.contacts is None:
            return result
        more = self.contacts.joint_forces("what pushes, by contacts")
        total = self._vector("what pushes")
        self._set_sum(total, result, more, 1.0)
        return total

    def _look_downhill(self) -> None:
        """The negative slope of the cost."""
        self._set_sum(self.downhill, self._forces(), self.weight, -1.0)

    def _step(self) -> tuple[Value, Value]:
        along = self._direction()
        heavy, known = self._look_along(along)
        self._search(along, known)
        hard = any(block.hard for block in self.rows.blocks)  # of which single precision loses much in one step
        changed = self._move(along, heavy, looks=self.exact and not hard)
        self._look_downhill()
        recorder = self.s.recorder
        recorder.write(SCRATCH, [recorder.read(SCRATCH, self.taken.row) + 1.0], self.taken.row)
        if changed is None:
            return 0.5, self._far_off()
        last = [] if self.contacts is None else [recorder.read(SCRATCH, self.gain.row + i) for i in range(2)]
        far = self._far_off(0.0, trace.select(0.5, changed, 0.0, ROUGH), last)
        if self.trees is not None and not self.rows.held:
            share = trace.select(0.5, changed, OWN, ROUGH)
            far = trace.maximum(far, self.trees.far_off(self.downhill, self.weight, share))
        return 0.5, far

    def _look_along(self, along: OfDofs) -> tuple[OfDofs, list[Value]]:
        """What a direction changes: the inertia times it, and its products with what is moved, with that, and downhill.

        All of these are there at the start of a search.
        """
        heavy = self._go_along(along)
        return heavy, self._products("the search", [(along, x) for x in (self.weight, heavy, self.downhill)])

    def _move(self, along: OfDofs, heavy: OfDofs, *, looks: bool) -> Value | None:
        """Go as far as was found best; how many rows and contacts that changes, if anybody looks."""
        changed = self._changed(along) if looks else None
        self._go(along, heavy)
        return changed

    def _far_off(self, tolerance: float = 0.0, rough: Value = 0.0, last: Sequence[Value] = ()) -> Value:
        """1 unless the slope of the cost is nothing against the forces, or no more than a rough share of them.

        Nor where the last step gained nothing, if it is known what it did.
        """
        tolerance = max(self.s.settings.tolerance, tolerance)
        left, forces, *moved = self._squares(moved=bool(last))
        most = trace.maximum(tolerance**2, rough * rough)
        far = trace.select(most * forces, left, 1.0, 0.0)
        if not last:
            return far
        return far * gains(last, moved[0] + self.s.recorder.read(SCRATCH, self.work.row), tolerance)

    def _squares(self, *, moved: bool) -> list[Value]:
        """Of the slope, and of the forces; the work of what is moved."""
        pairs = [(self.downhill, self.downhill), (self.weight, self.weight), (self.x, self.weight)]
        return self._products("what is left", pairs if moved else pairs[:2])

    # ------------------------------------------------------------------------------------------------- the direction

    def _direction(self) -> OfDofs:
        """From the slope and the curvature; what touches couples branches only where it does."""
        s, contacts = self.s, self.contacts
        if self.tiles is not None and contacts is not None:
            fill_tiles(self.tiles, self.mass, self.rows, contacts)
            with s.staying():
                return TiledFactors(self.tiles, self.factors).solve("direction", self.downhill)
        coupled_by_touch = contacts.couplings() if contacts is not None else []
        wide = coupled(self.pattern, coupled_by_touch) if coupled_by_touch else self.pattern
        matrix = self.mass.widened("inertia with constraints", wide)
        self.rows.add_stiffness(matrix)
        if contacts is None:
            return factorised(matrix, self.factors).solve("direction", self.downhill)
        contacts.add_stiffness_on_world(matrix)
        if not coupled_by_touch:
            return factorised(matrix, self.factors).solve("direction", self.downhill)
        along: OfDofs = s.quantity("direction")
        s.each_frame("no direction", lambda node: along.put(node.here, [0.0] * len(node.dofs)))
        touching = s.recorder.read(SCRATCH, self.between.row)

        def apart() -> None:
            found = factorised(matrix.seen(self.pattern), self.factors).solve("direction, apart", self.downhill)
            s.each_frame("direction, apart, found", lambda node: along.put(node.here, found[node.here]))

        def together() -> None:
            with s.staying():
                contacts.add_stiffness_between(matrix)
                found = factorised(matrix, self.factors).solve("direction, together", self.downhill)
                s.each_frame("direction, together, found", lambda node: along.put(node.here, found[node.here]))

        s.where("branches are apart", trace.select(touching, 0.5, 1.0, 0.0), apart)
        s.where("branches touch", touching, together)
        return along

    # ---------------------------------------------------------------------------------------------------- the search

    def _search(self, along: OfDofs, known: Sequence[Value]) -> None:
        """Where along the direction the cost is least. Most often that is at 1."""
        s, (linear, square, start) = self.s, known
        linear = -start if self.rows.held else linear
        near = NEAR * trace.absolute(start)
        s.recorder.write(SCRATCH, [start, s.recorder.read(SCRATCH, self.gain.row)], self.gain.row)

        def trial(state: Sequence[Value]) -> tuple[list[Value], Value, Value]:
            length, low, high = state
            self._set_length(length)
            slope, curve = self._slopes(along)
            slope, curve = slope + linear + length * square, curve + square
            inside, low, high = closer(length, low, high, slope, curve)
            missing = trace.absolute(slope)
            return [trace.select(near, missing, inside, length), low, high], near, missing

        most = max(s.settings.trials, TRIALS) if self.rows.held else s.settings.trials
        length, _, _ = s.recorder.repeat("search", trial, [1.0, 0.0, LONGEST], most)
        self._set_length(length)

    def _set_length(self, length: Value) -> None:
        self.s.recorder.write(SCRATCH, [length], self.length.row)
        self.s.recorder.new_line()  # whoever reads it, reads it now

    def _slopes(self, _along: OfDofs) -> tuple[Value, Value]:
        """Of all that pushes, along the direction."""
        slope, curve = self._of_rows("slope along the direction", along_direction)
        if self.contacts is None:
            return slope, curve
        more = self._of_contacts(self.contacts.slopes, 2)
        return slope + more[0], curve + more[1]

    def _changed(self, _along: OfDofs) -> Value:
        """How many rows and contacts start or stop to push, or slide."""
        changed = self._of_rows("rows that start or stop to push", changed_rows)[0]
        return changed if self.contacts is None else changed + self._of_contacts(self.contacts.changed, 1)[0]

    def _of_rows(self, name: str, body: Callable[[RowCode], Sequence[Value]]) -> list[Value]:
        return self.rows.total(name, body, {"length": self.length}) if self.rows.blocks else [0.0, 0.0]

    def _of_contacts(self, add_up: Callable[[Place, Place], None], count: int) -> list[Value]:
        recorder = self.s.recorder
        recorder.write(SCRATCH, [0.0] * count, self.sums.row)
        add_up(self.length, self.sums)
        return [recorder.read(SCRATCH, self.sums.row + i) for i in range(count)]

    # ----------------------------------------------------------------------------------------------------- of vectors

    def _vector(self, name: str) -> OfDofs:
        """A number for each degree of freedom."""
        return self.s.quantity(name)

    def _clear(self, vector: OfDofs) -> None:
        """Zero."""
        self.s.each_frame("nothing yet", lambda node: vector.put(node.here, [0.0] * len(node.dofs)))

    def _set_sum(self, to: OfDofs, a: OfDofs, b: OfDofs, sign: float) -> None:
        """A sum, or a difference."""

        def body(node: Node) -> None:
            to.put(node.here, [x + sign * y for x, y in zip(a[node.here], b[node.here], strict=True)])

        self.s.each_frame(to.name, body)

    def _products(self, name: str, pairs: Sequence[tuple[OfDofs, OfDofs]]) -> list[Value]:
        """Scalar products."""

        def body(node: Node) -> list[Value]:
            return [dot(a[node.here], b[node.here]) for a, b in pairs]

        return self.s.total(name, Forest.FRAMES, [0.0] * len(pairs), body)

    def _heavy(self, name: str, x: OfDofs) -> OfDofs:
        """The inertia times a vector."""
        return self.mass.times(name, x)

    def _advance(self, quantity: OfDofs, direction: OfDofs) -> None:
        """Go along a direction."""
        s, rows, trees = self.s, [], trees_of_frames(self.s.model)
        for node in s.nodes:
            rows.append(s.frame_row(node))
            rows[-1].places.update(places_in(trees[node.index], {"length": self.lengths}))

        def body(code: RowCode) -> None:
            here = s.node(code).here
            moved = zip(quantity[here], direction[here], strict=True)
            quantity.put(here, [x + code.read("length") * d for x, d in moved])

        s.loop("along the direction", rows, body)
