"""The step as a structured program: for models whose unrolled step would be too long to compile.

A model falls into parts that do not touch each other. Parts that are copies of one another are stepped by one straight
line in a loop (`rolled_copies`), as long as all of these lines together stay short; parts that are too big for that
are stepped joint by joint (`rolled_nodes`), in code that does not depend on how many joints there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kinema.foundation import KinemaError
from kinema.model import Model
from kinema.trace import Loop, Place, Rolled, Row, Turn, make_loop

from .components import LARGEST_UNROLLED, Component, components, estimated_operations, is_deep, signature, submodel
from .gyroscope import lone_bodies
from .programs import next_phase
from .rolled_copies import copies_loop
from .rolled_nodes import NodeLoops
from .settings import Integrator, Settings
from .tree import Tree, grow


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Which parts are stepped how."""

    copied: list[list[Component]]
    """Groups of parts that one straight line steps."""
    by_joint: list[Component]


EMISSIONS = ("auto", "rolled", "unrolled")
WORTH_COPYING = 1_000
"""Operations that loops over copies have to save, where nothing else asks for loops."""


def wants_rolling(model: Model, settings: Settings, emission: str = "auto", *, copies: bool = True) -> bool:
    """Whether the step is to be rolled: as asked, else if its straight line would be too long, or take more operations.

    With `copies` also if it would say the same several times: a loop over copies is as fast and compiles in a fraction
    of the time. All that is decided before anything is traced.
    """
    if emission not in EMISSIONS:
        raise KinemaError(f"there is no emission {emission!r}; there are: {', '.join(EMISSIONS)}")
    if emission != "auto":
        return emission == "rolled"
    if estimated_operations(model) > LARGEST_UNROLLED or any(is_deep(model, part) for part in components(model)):
        return True
    return copies and _saved_by_copying(model, settings) > WORTH_COPYING


def _saved_by_copying(model: Model, settings: Settings) -> int:
    """Operations that need not be compiled if equal parts share their code."""
    groups, _ = _groups(model, settings)
    return sum((len(parts) - 1) * estimated_operations(model, parts[0].frames) for parts in groups)


def _groups(model: Model, settings: Settings) -> tuple[list[list[Component]], list[Component]]:
    """Parts by their signature, and those that cannot be copied because their numbers are scattered."""
    groups: dict[object, list[Component]] = {}
    scattered: list[Component] = []
    for part in components(model):
        if part.is_contiguous:
            groups.setdefault(signature(model, part, submodel(model, part), settings), []).append(part)
        else:
            scattered.append(part)
    return list(groups.values()), scattered


def plan(model: Model, settings: Settings, tree: Tree, budget: int = LARGEST_UNROLLED, least: int = 1) -> Plan:
    """Copy the groups of parts with the shortest code, as far as the budget goes; but none of less than `least` parts.

    Bodies that fly alone are always copied: their gyroscopic forces are taken implicitly, which the joint-by-joint
    step does not do.
    """
    alone = {ball.index for _, ball in lone_bodies(tree)}
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
) -> Rolled:
    """The step as loops over tables; `places` says where the arrays of the state and the commands are.

    `budget` and `least` limit the parts that are stepped by a straight line, in operations and in copies of a part.
    """
    tree = grow(model)
    chosen = plan(model, settings, tree, budget, least)
    loops = [copies_loop(model, settings, places, parts, tree) for parts in chosen.copied]
    n_scratch = 0
    if chosen.by_joint:
        frames = sorted(f for part in chosen.by_joint for f in part.frames)
        nodes = NodeLoops(model, settings, places, tree, frames)
        loops += nodes.loops()
        n_scratch = nodes.scratch.n_rows
    if settings.integrator is Integrator.RK4:
        loops.append(_count_stages(places))
    return Rolled(tuple(loops), n_scratch)


def _count_stages(places: Mapping[str, Place]) -> Loop:
    def body(turn: Turn) -> None:
        turn.write("phase", [next_phase(turn.read("phase"))])

    return make_loop("next stage", [Row("phase", {"phase": places["phase"]})], body)
