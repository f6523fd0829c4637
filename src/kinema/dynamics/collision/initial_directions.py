"""Directions from which the narrow phase starts: separating or penetration directions of pairs in the previous step.

Contacts persist for many steps, in which the direction between two convex geoms hardly changes in the axes of the
second geom. Starting from it, one support point proves that a pair is still apart, and EPA needs one or two vertices
more. A direction is a starting point only: distances and normals are exact to the same tolerance without it.

Each geom has a list of its partners, as long as `MAX_PARTNERS`; a pair is in the list of its second geom if the first
one belongs to the world, as many bodies may lie on it, else in that of its first geom. Entries hold the number of the
step in which they were written. Those of the previous step are valid, and the oldest entry is replaced.
"""

from __future__ import annotations

from dataclasses import dataclass

from kinema import ir
from kinema.ir import IterationContext, Tracer, Value
from kinema.model import Model

from ..arrays import DIRECTION_ARRAY, DIRECTION_STEP_ARRAY, DIRECTIONS_PER_GEOM
from ..vector_math import Vector
from .analytic_pairs import ANALYTIC_COLLISION_TABLE
from .support_mapping import CONVEX_CORES
from .vector_math import less_than

MAX_PARTNERS = 8
"""Partners of a geom whose directions are kept."""
STAMP, DIRECTION = 1 + MAX_PARTNERS, 1 + 2 * MAX_PARTNERS
"""Positions of the numbers of steps and of the directions in the list of a geom, after the next entry to be replaced
and the partners."""
assert DIRECTIONS_PER_GEOM == 1 + 5 * MAX_PARTNERS
N_STAMPS = 4096.0
"""Numbers of steps are modulo this."""


def keeps_directions(model: Model, geom_types: tuple[str, str]) -> bool:
    """Whether the directions of pairs of these types are kept: those of iterative searches."""
    convex = all(geom_type in CONVEX_CORES for geom_type in geom_types)
    return model.has_pair_rules and convex and geom_types not in ANALYTIC_COLLISION_TABLE


def count_step(tracer: Tracer) -> None:
    """Trace the increment of the number of the step, from 1 to `N_STAMPS`."""
    before = tracer.read(DIRECTION_STEP_ARRAY)
    tracer.write(DIRECTION_STEP_ARRAY, [ir.select(before, N_STAMPS - 0.5, before + 1.0, 1.0)])
    tracer.new_basic_block()


@dataclass(frozen=True, slots=True)
class PairDirection:
    """Entry of a pair of geoms: direction from the first to the second geom, in the axes of the second one."""

    tracer: Tracer
    is_updated: bool
    """Whether the program stores directions; otherwise it reads those of the last step."""
    partner: Value
    """Index of the other geom of the list, plus one."""
    list_start: Value
    """Start of the list in the array."""
    direction: Vector
    is_known: Value
    """1 if the direction is from the previous step, else 0."""
    entry: Value
    """Entry of the list that belongs to the pair, or is to be replaced."""
    is_new: Value
    """1 if the entry is to be replaced."""

    @classmethod
    def find(cls, iteration: IterationContext, mode: str) -> PairDirection:
        """Look up the pair of the current iteration; `mode` is "update" or "read"."""
        tracer, is_updated = iteration.tracer, mode == "update"
        is_on_world = iteration.constant("a is on world")
        a, b = iteration.read("geom a"), iteration.read("geom b")
        owner, partner = ir.select(0.5, is_on_world, b, a), ir.select(0.5, is_on_world, a, b) + 1.0
        start = float(DIRECTIONS_PER_GEOM) * owner
        step = tracer.read(DIRECTION_STEP_ARRAY)
        previous = ir.select(1.5, step, step - 1.0, N_STAMPS) if is_updated else step
        next_entry = tracer.read(DIRECTION_ARRAY, 0, start)
        entry, is_found, is_known = next_entry, 0.0, 0.0
        for i in range(MAX_PARTNERS):
            is_same = less_than(ir.absolute(tracer.read(DIRECTION_ARRAY, 1 + i, start) - partner), 0.5)
            is_recent = less_than(ir.absolute(tracer.read(DIRECTION_ARRAY, STAMP + i, start) - previous), 0.5)
            entry = ir.select(0.5, is_same, float(i), entry)
            is_found = ir.maximum(is_found, is_same)
            is_known = ir.maximum(is_known, is_same * is_recent)
        direction = [tracer.read(DIRECTION_ARRAY, DIRECTION + i, start + 3.0 * entry) for i in range(3)]
        return cls(tracer, is_updated, partner, start, direction, is_known, entry, 1.0 - is_found)

    def store(self, direction: Vector) -> None:
        """Store the direction of the current step."""
        if not self.is_updated:
            return
        tracer, start = self.tracer, self.list_start
        following = ir.select(self.entry, MAX_PARTNERS - 1.5, self.entry + 1.0, 0.0)
        next_entry = ir.select(0.5, self.is_new, following, tracer.read(DIRECTION_ARRAY, 0, start))
        step = tracer.read(DIRECTION_STEP_ARRAY)
        tracer.write(DIRECTION_ARRAY, [next_entry], 0, start)
        tracer.write(DIRECTION_ARRAY, [self.partner], 1, start + self.entry)
        tracer.write(DIRECTION_ARRAY, [step], STAMP, start + self.entry)
        tracer.write(DIRECTION_ARRAY, direction, DIRECTION, start + 3.0 * self.entry)
        tracer.new_basic_block()
