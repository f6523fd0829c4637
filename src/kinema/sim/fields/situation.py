"""A state, and what several fields and sensors want to know of it beside what a step needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..rigid import links
from ..rigid.kinematics import Moving, Twist, accelerations, twist_at
from ..rigid.rnea import Wrench
from ..step import Step
from ..sweeps.maths import Vector, sub
from ..sweeps.quantities import Quantity
from ..sweeps.tree import Link, Ref


@dataclass(eq=False)
class Situation(Step):
    """One state, and what several fields need of it beside what a step needs."""

    @cached_property
    def bodies(self) -> Quantity[links.LinkBody]:
        """The links."""
        return links.link_bodies(self.s, self.frames)

    @cached_property
    def centers(self) -> Quantity[Vector]:
        """The point of com-based quantities, by root link."""
        return links.tree_centers(self.s, self.bodies)

    @cached_property
    def felt(self) -> Quantity[Moving]:
        """How each frame accelerates, as felt."""
        return accelerations(self.s, self.where, self.acceleration)

    def twist(self, frame: Ref, point: Vector) -> Twist:
        """The velocity of a frame at a point of the world."""
        return twist_at(self.frames[frame], self.velocity[frame], point)

    def load(self, link: Link) -> Wrench:
        """What moves a link as it moves, about the centre of its tree, less what the user applies to it."""
        s, body, center = self.s, self.bodies[link.here], self.centers[link.root]
        of_mass = links.acceleration_at(self.frames[link.frame], self.felt[link.frame], body.center)
        wrench = links.newton_euler(body, of_mass, self.twist(link.frame, body.center).angular, center)
        if s.settings.external_forces:
            given = (s.of(f"cfrc_applied_{x}", link) for x in ("ang", "vel"))
            moved = links.moved_wrench(sub(body.center, center), *given)
            wrench = Wrench(sub(wrench.torque, moved.torque), sub(wrench.force, moved.force))
        return wrench
