"""Sums over everything: energies, momenta, the centre of mass."""

from __future__ import annotations

from dataclasses import dataclass

from kinema.trace import Value

from ..force import cords, joints
from ..force.rotors import rotor_energy
from ..rigid.rnea import momentum
from ..sweeps.maths import ZERO, Vector, add, cross, dot, rotate, scale
from ..sweeps.tree import Forest, Link, Node
from .situation import Situation


@dataclass(frozen=True, slots=True)
class Sums:
    """What is conserved where nothing acts."""

    mass: Value
    moment: Vector
    kinetic: Value
    springs: Value
    linear: Vector
    angular: Vector


def sums_of(now: Situation) -> Sums:
    """Of everything that moves."""
    s, frames, velocity = now.s, now.frames, now.velocity

    def own(node: Node) -> Sums:
        at, motion, inertia = frames[node.here], velocity[node.here], node.inertia
        carried = momentum(inertia, motion)
        kinetic = 0.5 * (dot(motion.angular, carried.torque) + dot(motion.linear, carried.force))
        for speed, rotor in zip(s.of("vel", node), s.of("armature", node), strict=True):
            kinetic = kinetic + (0.5 * rotor) * (speed * speed)
        linear = rotate(at.rotation, carried.force)
        return Sums(
            inertia.mass,
            add(scale(inertia.mass, at.position), rotate(at.rotation, inertia.moment)),
            kinetic,
            joints.spring_energy(s, node),
            linear,
            add(rotate(at.rotation, carried.torque), cross(at.position, linear)),
        )

    return s.total("what moves", Forest.FRAMES, Sums(0.0, ZERO, 0.0, 0.0, ZERO, ZERO), own)


def kinetic_energy(now: Situation, sums: Sums) -> Value:
    """Of all links, and of the rotors in joints."""
    return sums.kinetic + rotor_energy(now)


def potential_energy(now: Situation, sums: Sums, *, spared: bool = True) -> Value:
    """Of weight and springs; with `spared` without the weight that links are spared."""
    s, bodies = now.s, now.bodies

    def weight(link: Link) -> Value:
        height = dot(s.gravity, bodies[link.here].center)
        return -((link.gravity_scale if spared else 1.0) * link.mass) * height

    lifted = s.total("weight", Forest.LINKS, 0.0, weight)
    stretched = cords.tendons(now, cords.tendon_energy).total_force()
    return lifted + (sums.springs + stretched)
