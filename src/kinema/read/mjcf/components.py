"""Which bodies are one robot: they hang on each other, or constraints, tendons or actuators tie them together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .actuators import bodies_of_actuator
from .constraints import bodies_of_equality, bodies_of_flex
from .reading import n_actuators
from .tendons import bodies_of_tendon

WORLD_BODY = 0


@dataclass(frozen=True, slots=True)
class Components:
    """The robots of a model, as sets of bodies."""

    bodies: list[list[int]]
    """Robot -> its bodies in the order of the file; the robot with the first body comes first."""
    robot_of: dict[int, int]
    """Body -> its robot; the world's body is in none."""

    def owner(self, bodies: Iterable[int]) -> int | None:
        """The one robot that bodies belong to; None where they belong to several, or to the world alone."""
        robots = {self.robot_of[b] for b in bodies if b != WORLD_BODY}
        return robots.pop() if len(robots) == 1 else None


def components(model: Any) -> Components:
    """The connected components of the graph of bodies; the world connects nothing."""
    leader = list(range(model.nbody))

    def find(body: int) -> int:
        while leader[body] != body:
            leader[body] = leader[leader[body]]
            body = leader[body]
        return body

    for group in _groups(model):
        members = sorted(b for b in group if b != WORLD_BODY)
        for other in members[1:]:
            first, second = sorted((find(members[0]), find(other)))
            leader[second] = first
    robots: dict[int, list[int]] = {}
    for body in range(1, model.nbody):
        robots.setdefault(find(body), []).append(body)
    bodies = list(robots.values())
    return Components(bodies, {body: i for i, members in enumerate(bodies) for body in members})


def _groups(model: Any) -> Iterable[set[int]]:
    """Sets of bodies that belong together."""
    for body in range(1, model.nbody):
        yield {body, int(model.body_parentid[body])}
    for tendon in range(model.ntendon):
        yield bodies_of_tendon(model, tendon)
    for actuator in range(n_actuators(model)):
        yield bodies_of_actuator(model, actuator)
    for equality in range(model.neq):
        yield bodies_of_equality(model, equality)
    for flex in range(model.nflex):
        yield bodies_of_flex(model, flex)
