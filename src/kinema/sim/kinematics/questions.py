"""Questions about coordinates, each a program: where links are, what moves them, and what motions take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kinema.model import Model

from ..arrays import Owner
from ..fields.groups import JACOBIAN, Situation, write_jacobian
from ..force.fluid import fluid_forces
from ..force.links import no_wrenches, spare_weight
from ..lower.programs import Outputs
from ..rigid.kinematics import Moving, accelerations, link_pose
from ..rigid.links import acceleration_at
from ..rigid.rnea import joint_forces
from ..sweeps.maths import Vector, add, matrix_quaternion
from ..sweeps.quantities import Quantity
from ..sweeps.tree import Link, Node

ASKED = "asked acceleration"
"""The array of accelerations that a question is about."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: the arrays of its answers, and what writes them."""

    outputs: Outputs
    run: Callable[[Situation], None]


def poses(model: Model) -> Question:
    """Where all links are."""

    def run(now: Situation) -> None:
        s, frames = now.s, now.frames

        def body(link: Link) -> None:
            own = link_pose(link, frames)
            s.write("link position", link, own.position)
            s.write("link quaternion", link, matrix_quaternion(own.rotation))

        s.each_link("poses of links", body)

    return Question({"link position": (Owner.LINK, 3), "link quaternion": (Owner.LINK, 4)}, run)


DRIFT = "drift"
"""The array of how a link accelerates while no coordinate does: linear, then angular."""


def jacobian(link: int) -> Question:
    """What each degree of freedom does to a link's origin, and how that accelerates while none of them does."""

    def run(now: Situation) -> None:
        s, frames, where = now.s, now.frames, now.where
        places: Quantity[Vector] = s.quantity("origins of links")
        s.each_link("origins of links", lambda x: places.put(x.here, link_pose(x, frames).position))
        write_jacobian(s, where, frames, [link], lambda ref: places[ref])
        felt: Quantity[Moving] = accelerations(s, where)

        def drift(own: Link) -> None:
            there = acceleration_at(frames[own.frame], felt[own.frame], link_pose(own, frames).position)
            s.write(DRIFT, own, [*add(there.linear, s.gravity), *there.angular])

        s.each_link("drift", drift, [link])

    return Question({**dict.fromkeys(JACOBIAN, (Owner.DOF, 1)), DRIFT: (Owner.LINK, 6)}, run)


def mass(model: Model) -> Question:
    """The joint-space inertia, with what rotors and tendons add."""
    return Question({"inertia of joints": (Owner.DOF, model.n_dofs)}, lambda now: now.mass.store("inertia of joints"))


def center(model: Model) -> Question:
    """The centre of mass of everything."""

    def run(now: Situation) -> None:
        s, bodies = now.s, now.bodies
        s.each_link("centres of links", lambda link: s.write("link center", link, bodies[link.here].center))

    return Question({"link center": (Owner.LINK, 3)}, run)


def forces(model: Model) -> Question:
    """What accelerations take of the actuators, and what holding still does."""

    def run(now: Situation) -> None:
        s, bias, parts, weight = now.s, now.bias, now.forces, now.borne_weight
        asked: Quantity[list] = s.quantity("asked")
        s.each_frame("asked", lambda node: asked.put(node.here, s.code.array(ASKED, len(node.dofs))))
        heavy = now.mass.times("inertia times what is asked", asked)
        spared, passively = no_wrenches(s, "spared weight"), no_wrenches(s, "passive wrenches")
        if weight is None:
            spare_weight(s, now.frames, spared)
        fluid_forces(now, passively)
        lifted, moved = (
            joint_forces(s, name, now.where, lambda node, of=of: of[node.here])
            for name, of in (("weight that is spared", spared), ("what is passive", passively))
        )

        def body(node: Node) -> None:
            passive, tendons, _, _ = parts[node.here]
            spare = lifted[node.here] if weight is None else weight[node.here]
            own = [p.force + t.force + m for p, t, m in zip(passive, tendons, moved[node.here], strict=True)]
            if weight is None:  # otherwise it is among what is passive, or the actuators bear it
                own = [x + y for x, y in zip(own, spare, strict=True)]
            needed = zip(heavy[node.here], bias[node.here], own, strict=True)
            s.write("force that it takes", node, [m + b - p for m, b, p in needed])
            holding = zip(bias[node.here], spare, strict=True)
            s.write("force that holds", node, [b - x for b, x in holding])

        s.each_frame("what it takes", body)

    return Question(
        {"force that it takes": (Owner.DOF, 1), "force that holds": (Owner.DOF, 1), ASKED: (Owner.DOF, 1)}, run
    )
