"""Which parts of a model are stepped how: in a straight line, in one that copies share, or in loops over tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kinema.foundation import KinemaError
from kinema.model import Model
from kinema.trace import Place, Program, Recorder

from ..rigid.gyroscope import lone_bodies
from ..settings import EMISSIONS, Integrator, Settings
from ..solve.fitting import MOST_DOFS, fits_heap, fits_team
from ..stages import count_stages, take
from ..step import Step
from ..sweeps.idle import trees_of_frames
from ..sweeps.rows import FrameNumbers
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import WORLD, Tree, grow
from .components import LARGEST_UNROLLED, Component, components, estimated_operations, is_deep, touching
from .copies import record_copies, signature
from .programs import Outputs, step_program, straight_program, table_program


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Which parts are stepped how."""

    copied: list[list[Component]]
    """Groups of parts that one straight line steps."""
    by_joint: list[Component]


MANY_TIES, MANY_DOFS = 2, 16
"""Closed loops, and degrees of freedom, from which on a team is sooner done with them than a thread."""
MANY_TREES = 4
"""That touch each other, from which on most pairs of them do not: a heap."""
LARGEST_TOUCHING = 10_000
"""Operations beyond which straight lines take too long where things touch: the solver comes on top of them, unless it
is the work of a team."""
WORTH_COPYING = 1_000
"""Operations that loops over copies have to save, where nothing else asks for loops."""


def wants_team(model: Model, settings: Settings) -> bool:
    """Whether on a GPU teams of threads find the forces of constraints: where things touch, or loops are closed.

    A few rows that are known beforehand are solved sooner by one thread, in a straight line.
    """
    if settings.noslip_iterations or settings.islands or (model.actuators.link_idx >= 0).any():
        return False  # not tried
    closed = settings.constraints and len(model.ties.names) >= MANY_TIES and model.n_dofs >= MANY_DOFS
    settings = replace(settings, team=True)
    touches = settings.contacts and bool(len(model.pairs.geom_a))
    touches = touches and (not is_heap(model) or fits_heap(model, settings))
    return touches or (closed and fits_team(model, settings))


def wants_rolling(model: Model, settings: Settings, emission: str = "auto", *, copies: bool = True) -> bool:
    """Whether the step is to be rolled: as asked, else if its straight line would be too long, or take more operations.

    With `copies` also if it would say the same several times: a loop over copies is as fast and compiles in a fraction
    of the time. All that is decided before anything is traced.
    """
    if emission not in EMISSIONS:
        raise KinemaError(f"there is no emission {emission!r}; there are: {', '.join(EMISSIONS)}")
    if settings.islands:  # which are known only when it runs
        return True
    if emission != "auto":
        return emission == "rolled"
    solves = settings.contacts and touching(model) and not fits_team(model, settings)
    most = LARGEST_TOUCHING if solves else LARGEST_UNROLLED
    if estimated_operations(model) > most or any(is_deep(model, part) for part in components(model)):
        return True
    return copies and _saved_by_copying(model, settings) > WORTH_COPYING


def is_heap(model: Model) -> bool:
    """Whether many trees may touch, with more degrees of freedom than a team keeps: most of their matrix is empty.

    A team would go through all of it; a thread for each environment passes over what is.
    """
    trees = trees_of_frames(model)
    own = {trees[f] for pair in touching(model) if WORLD not in pair for f in pair}
    return len(own) >= MANY_TREES and model.n_dofs > MOST_DOFS


def _saved_by_copying(model: Model, settings: Settings) -> int:
    """Operations that need not be compiled if equal parts share their code."""
    groups, _ = _groups(model, settings)
    return sum((len(parts) - 1) * estimated_operations(model, parts[0].frames) for parts in groups)


def _groups(model: Model, settings: Settings) -> tuple[list[list[Component]], list[Component]]:
    """Parts by their signature, and those that cannot be copied: their numbers are scattered, or they may touch."""
    groups: dict[object, list[Component]] = {}
    scattered: list[Component] = []
    tree, numbers = grow(model), FrameNumbers(model)
    may_touch = {frame for pair in touching(model) for frame in pair}
    for part in components(model):
        if part.is_contiguous and may_touch.isdisjoint(part.frames) and not _keeps_apart(model, part):
            groups.setdefault(signature(model, tree, part, settings, numbers), []).append(part)
        else:
            scattered.append(part)
    return list(groups.values()), scattered


def _keeps_apart(model: Model, part: Component) -> bool:
    """Whether environments have their own numbers of a part."""
    words = () if model.own is None else model.own.words
    return any(
        (table == "frame" and own in part.frames) or (table == "link" and own in part.links) for table, own, _ in words
    )


def plan(model: Model, settings: Settings, tree: Tree, budget: int = LARGEST_UNROLLED, least: int = 1) -> Plan:
    """Copy the groups of parts with the shortest code, as far as the budget goes; but none of less than `least` parts.

    Bodies that fly alone are always copied: their gyroscopic forces take a matrix, which others can do without.
    """
    alone = {ball.index for _, ball in lone_bodies(tree.nodes)}
    groups, by_joint = _groups(model, settings)
    copied: list[list[Component]] = []
    for parts in sorted(groups, key=lambda parts: estimated_operations(model, parts[0].frames)):
        cost = estimated_operations(model, parts[0].frames)
        worth_it = cost <= budget and len(parts) >= least and not is_deep(model, parts[0])
        if worth_it or not alone.isdisjoint(parts[0].frames):
            budget -= cost
            copied.append(parts)
        else:
            by_joint += parts
    return Plan(copied, by_joint)


def rolled_step(
    model: Model, settings: Settings, places: Mapping[str, Place], budget: int = LARGEST_UNROLLED, least: int = 1
) -> Program:
    """The step as loops over tables; `places` says where the arrays of the state and the commands are.

    `budget` and `least` limit the parts that are stepped by a straight line, in operations and in copies of a part.
    """
    tree = grow(model)
    chosen = plan(model, settings, tree, budget, least)
    recorder, sweeps = Recorder(), None
    for parts in chosen.copied:
        record_copies(recorder, model, settings, places, parts, tree)
    if chosen.by_joint:
        frames = sorted(f for part in chosen.by_joint for f in part.frames)
        sweeps = Sweeps(model, settings, places, recorder, tree, frames)
        matrix = needs_matrix(model, tree, settings) or fits_team(model, settings, sweeps.nodes)
        take(Step(sweeps, articulated=not matrix))
    if settings.integrator is Integrator.RK4:
        count_stages(recorder)
    if sweeps is None:
        return recorder.finish()
    return recorder.finish(n_scratch=sweeps.n_scratch, taken=sweeps.taken, distant=sweeps.distant)


def needs_matrix(model: Model, tree: Tree, settings: Settings) -> bool:
    """Whether the step is implicit in what a tendon or actuator does between two joints that move each other.

    Or in what a medium does or holds joints to each other, or in how a body tumbles alone (unless there are deep trees,
    whose matrix is dear); or whether tendons have inertia, which is between joints.
    """
    held = settings.constraints and settings.integrator is not Integrator.RK4 and model.couplings.hard.any()
    if model.tendons.armature.any() or held:
        return True
    if settings.integrator is not Integrator.IMPLICIT:
        return False
    if model.fluid.kinds or (lone_bodies(tree.nodes) and not any(is_deep(model, part) for part in components(model))):
        return True
    for moment in (*model.tendons.moment, *model.actuators.moment):
        dofs = [int(d) for d in moment.nonzero()[0]]
        if any(not set(dofs).isdisjoint(tree.ancestors(dof)) for dof in dofs):
            return True
    return False


def make_step(
    model: Model, settings: Settings, places: Mapping[str, Place], *, rolled: bool, least: int = 1
) -> Program:
    """The program of a step, in the form that was decided on."""
    return rolled_step(model, settings, places, least=least) if rolled else step_program(model, settings)


def field_program(
    model: Model,
    settings: Settings,
    places: Mapping[str, Place],
    run: Callable[[Sweeps, bool], None],
    outputs: Outputs,
    *,
    rolled: bool,
    prefix: str,
) -> Program:
    """The program of what a function writes, in the form that the step has; its arrays are called so with a prefix.

    The function is told whether accelerations come by articulated bodies.
    """
    settings = replace(settings, roles=1, team=False, islands=False)
    articulated = rolled and not needs_matrix(model, grow(model), settings)

    def write(sweeps: Sweeps) -> None:
        sweeps.prefix = prefix
        run(sweeps, articulated)

    if rolled:
        return table_program(model, settings, write, places, outputs)
    return straight_program(model, settings, write, outputs)
