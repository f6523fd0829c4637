"""What constraints and contacts do to joints: what that begins with, and whether anything acts at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from kinema.trace import Value

from ..collide.counting import count_contacts, counted
from ..collide.listing import Lists
from ..collide.touches import Touches
from ..constrain.contacts import Contacts
from ..constrain.kinds import ConstraintKind, kinds_and_blocks
from ..constrain.rows import Block, Known, Rows
from ..sweeps.maths import sum_of
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.trees import PerTree
from .by_island import ByIsland
from .fitting import fits_heap
from .heaped import Heaped
from .methods import METHODS
from .newton import Newton
from .ready import Ready
from .together import Together

Kinds = Sequence[tuple[ConstraintKind, list[Block]]]


@dataclass(slots=True, eq=False)
class Held:
    """The forces on joints, and where they come from."""

    force: Quantity[list[Value]]
    contacts: Contacts | None = None
    always: Ready | None = None
    """What the solution began with, where there always is one."""
    solver: Newton | None = None
    """What found the forces."""


def kinds_of(s: Sweeps) -> Kinds:
    """The constraints of a model, as far as they are asked for."""
    return [(kind, own) for kind, own in kinds_and_blocks(s.model, s.settings, s.nodes) if own]


def filled(s: Sweeps, kinds: Kinds, known: Known) -> Rows:
    """The constraints as rows."""
    rows = Rows(s, [block for _, own in kinds for block in own])
    for kind, _ in kinds:
        kind.fill(known, rows)
    rows.set_targets()
    return rows


def hold(  # noqa: PLR0913  one for each thing that the forces come from
    s: Sweeps,
    kinds: Kinds,
    known: Known,
    touches: Touches | Lists | None,
    ready: Callable[[], Ready],
    then: Callable[[Newton], None],
    *,
    always: bool = False,
    by_team: bool = False,
    islands: PerTree | None = None,
) -> Held:
    """What all of them do; where they are far from acting nothing more is computed than that, unless asked for.

    Args:
        s: the frames.
        kinds: the constraints.
        known: what they may look at.
        touches: what touches, if anything may.
        ready: makes what the solution begins with.
        then: looks at the solution.
        always: whether it is computed where nothing acts, too.
        by_team: whether a team does it together.
        islands: the numbers of the islands that trees belong to, where each is solved by itself.
    """
    held = Held(s.quantity("constraint forces"))
    s.each_frame("no constraint forces", lambda node: held.force.put(node.here, [0.0] * len(node.dofs)))
    found = None
    if touches is not None:
        counts = counted(s, touches)
        found = counts.found
        count_contacts(s, counts)

    def solve() -> Ready:  # what is computed in here is known elsewhere only where it is always computed
        start = ready()
        if by_team:
            how = Heaped if fits_heap(s.model, s.settings, s.nodes) else Together
            team = how(s, start, None)
            team.take_contacts(touches if isinstance(touches, Lists) else None, start.axes)
            held.solver = team
        else:
            if isinstance(touches, Touches) and start.axes is not None and start.frames is not None:
                held.contacts = Contacts(s, touches, start.axes, start.frames)
            method = METHODS[s.settings.solver] if islands is None else partial(ByIsland, islands=islands)
            held.solver = method(s, start, held.contacts)
        pushed = held.solver.solve()
        s.each_frame("constraint forces found", lambda node: held.force.put(node.here, pushed[node.here]))
        then(held.solver)
        return start

    counts = [found] if found is not None else []
    glances = [(kind.near, own) for kind, own in kinds]
    breaks = any(block.holder >= 0 for _, own in kinds for block in own)
    if always or breaks or any(near is None for near, _ in glances):
        held.always = solve()
        return held
    counts = [near(known, own) for near, own in glances if near is not None] + counts
    s.where("constraints", sum_of(counts), solve)
    return held
