"""Forces and inertia: the inward sweeps, and the sparse factorisation along the tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kinema.trace import Scalar, Value

from .kinematics import Moving, Offset, Subspace
from .maths import ZERO, Vector, add, cross, dot, rotate, unrotate
from .tree import WORLD, Inertia, Tree, placed, together


@dataclass(frozen=True, slots=True)
class Force:
    """A torque about a frame's origin and a force, in its axes."""

    torque: Vector
    force: Vector


NO_FORCE = Force(ZERO, ZERO)


def inertial_force(inertia: Inertia, motion: Moving, spin: Vector) -> Force:
    """What it takes to accelerate a body like that: Newton and Euler about the frame's origin."""
    force = add(
        [inertia.mass * x for x in motion.linear],
        cross(motion.angular, inertia.moment),
        cross(spin, cross(spin, inertia.moment)),
    )
    torque = add(
        rotate(inertia.matrix, motion.angular),
        cross(spin, rotate(inertia.matrix, spin)),
        cross(inertia.moment, motion.linear),
    )
    return Force(torque, force)


def joint_forces(
    tree: Tree, where: dict[int, Offset], subspace: dict[int, Subspace], forces: Mapping[int, Force]
) -> list[Value]:
    """The generalised force of a force on each frame, each in its frame: what the joints would have to bear."""
    total = dict(forces)
    result: list[Value] = [0.0] * tree.model.n_dofs
    for node in tree.inward():
        own = total.get(node.index, NO_FORCE)
        for dof in node.dofs:
            result[dof] = dot(subspace[dof].angular, own.torque) + dot(subspace[dof].linear, own.force)
        if node.parent != WORLD:
            place = where[node.index]
            force = rotate(place.rotation, own.force)
            torque = add(rotate(place.rotation, own.torque), cross(place.position, force))
            parent = total.get(node.parent, NO_FORCE)
            total[node.parent] = Force(add(parent.torque, torque), add(parent.force, force))
    return result


def bias_forces(
    tree: Tree,
    where: dict[int, Offset],
    subspace: dict[int, Subspace],
    accelerations: tuple[dict[int, Moving], dict[int, Vector]],
) -> list[Value]:
    """Inverse dynamics (recursive Newton-Euler): the joint forces that these accelerations take."""
    acceleration, spin = accelerations
    forces = {n.index: inertial_force(n.inertia, acceleration[n.index], spin[n.index]) for n in tree.outward()}
    return joint_forces(tree, where, subspace, forces)


@dataclass(slots=True, eq=False)
class TreeMatrix:
    """A symmetric matrix over degrees of freedom that is zero where neither moves the other."""

    tree: Tree
    entries: dict[tuple[int, int], Value] = field(default_factory=dict)
    """By a degree of freedom and itself or one that moves it."""

    def at(self, dof: int, mover: int) -> Value:
        """An entry of the stored half."""
        return self.entries.get((dof, mover), 0.0)

    def dense(self) -> list[list[Value]]:
        """All of it."""
        n = self.tree.model.n_dofs
        rows: list[list[Value]] = [[0.0] * n for _ in range(n)]
        for (i, j), value in self.entries.items():
            rows[i][j] = rows[j][i] = value
        return rows


def composite_inertias(tree: Tree, where: dict[int, Offset]) -> dict[int, Inertia]:
    """Each frame with all that it carries, as one body."""
    result = {node.index: node.inertia for node in tree.outward()}
    for node in tree.inward():
        if node.parent != WORLD:
            place = where[node.index]
            seen = placed(result[node.index], place.rotation, place.position)
            result[node.parent] = together(result[node.parent], seen)
    return result


def mass_matrix(
    tree: Tree, where: dict[int, Offset], subspace: dict[int, Subspace], armature: Sequence[Value]
) -> TreeMatrix:
    """The joint-space inertia (composite rigid bodies), rotor inertias on its diagonal."""
    composite = composite_inertias(tree, where)
    matrix = TreeMatrix(tree)
    for node in tree.inward():
        for dof in node.dofs:
            force = _momentum(composite[node.index], subspace[dof])
            for other in reversed(range(node.dofs.start, dof + 1)):
                matrix.entries[dof, other] = _along(subspace[other], force)
            matrix.entries[dof, dof] = matrix.entries[dof, dof] + armature[dof]
            below = node
            while below.parent != WORLD:
                place = where[below.index]
                linear = rotate(place.rotation, force.force)
                force = Force(add(rotate(place.rotation, force.torque), cross(place.position, linear)), linear)
                below = tree.nodes[below.parent]
                for other in reversed(below.dofs):
                    matrix.entries[dof, other] = _along(subspace[other], force)
    return matrix


def _momentum(inertia: Inertia, motion: Subspace) -> Force:
    """The momentum of a body in that motion, which is also the force that starts it in unit time."""
    return Force(
        add(rotate(inertia.matrix, motion.angular), cross(inertia.moment, motion.linear)),
        add([inertia.mass * x for x in motion.linear], cross(motion.angular, inertia.moment)),
    )


def _along(subspace: Subspace, force: Force) -> Value:
    return dot(subspace.angular, force.torque) + dot(subspace.linear, force.force)


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """A tree matrix as L^T D L, with ones on L's diagonal and L as sparse as the matrix."""

    tree: Tree
    lower: dict[tuple[int, int], Value]
    inverse_diagonal: dict[int, Value]

    def solve(self, right: Sequence[Value]) -> list[Value]:
        """The x of (L^T D L) x = right."""
        order = self.tree.dofs_outward()
        gathered = LimbSums(self.tree, {(d,): right[d] for d in order})
        x = list(right)
        for dof in reversed(order):
            x[dof] = gathered.total((dof,))
            for mover in self.tree.ancestors(dof):
                if not _is_zero(self.lower[dof, mover]):
                    gathered.subtract((mover,), dof, self.lower[dof, mover], x[dof])
        for dof in order:
            x[dof] = x[dof] * self.inverse_diagonal[dof]
        for dof in order:
            for mover in self.tree.ancestors(dof):
                if not _is_zero(self.lower[dof, mover]):
                    x[dof] = x[dof] - self.lower[dof, mover] * x[mover]
        return x


@dataclass(slots=True, eq=False)
class LimbSums:
    """Numbers from which products are taken away, what each limb takes from the trunk's by itself.

    What one limb takes away then depends on that limb alone, so that limbs can be computed side by side.
    """

    tree: Tree
    left: dict[tuple[int, ...], Value]
    taken: dict[tuple[int, ...], dict[int | None, Value]] = field(default_factory=dict)

    def subtract(self, key: tuple[int, ...], dof: int, a: Value, b: Value) -> None:
        """Take a product away from a number of degree of freedom `key[0]`, on behalf of another one."""
        limb = self.tree.limb_of(dof)
        if limb == self.tree.limb_of(key[0]):
            self.left[key] = self.left[key] - a * b
        else:
            own = self.taken.setdefault(key, {})
            own[limb] = own.get(limb, 0.0) + a * b

    def total(self, key: tuple[int, ...]) -> Value:
        """What is left of a number."""
        result = self.left[key]
        for part in self.taken.get(key, {}).values():
            result = result - part
        return result


def factorise(matrix: TreeMatrix) -> Factors:
    """Eliminate from the tips inwards: a degree of freedom only ever fills entries between those that move it."""
    tree = matrix.tree
    rest = LimbSums(tree, dict(matrix.entries))
    lower: dict[tuple[int, int], Value] = {}
    inverse: dict[int, Value] = {}
    for dof in reversed(tree.dofs_outward()):
        inverse[dof] = 1.0 / rest.total((dof, dof))
        movers = list(tree.ancestors(dof))
        row = {mover: rest.total((dof, mover)) for mover in movers}
        for place, mover in enumerate(movers):
            factor = row[mover] * inverse[dof]
            lower[dof, mover] = factor
            if _is_zero(factor):
                continue
            for other in movers[place:]:
                if not _is_zero(row[other]):
                    rest.subtract((mover, other), dof, factor, row[other])
    return Factors(tree, lower, inverse)


def _is_zero(value: Value) -> bool:
    return not isinstance(value, Scalar) and value == 0.0


def kinetic_energy(tree: Tree, velocity: dict[int, Moving], armature: Sequence[Value], v: Sequence[Value]) -> Value:
    """Of all frames, and of the rotors in the joints."""
    energy: Value = 0.0
    for node in tree.outward():
        motion = velocity[node.index]
        momentum = _momentum(node.inertia, Subspace(motion.angular, motion.linear))
        energy = energy + 0.5 * (dot(motion.angular, momentum.torque) + dot(motion.linear, momentum.force))
    for speed, rotor in zip(v, armature, strict=True):
        energy = energy + (0.5 * rotor) * (speed * speed)
    return energy


def momentum(tree: Tree, frames: dict[int, Offset], velocity: dict[int, Moving]) -> tuple[Vector, Vector]:
    """Angular momentum about the world's origin, and linear momentum, along the world's axes."""
    angular, linear = ZERO, ZERO
    for node in tree.outward():
        motion, at = velocity[node.index], frames[node.index]
        own = _momentum(node.inertia, Subspace(motion.angular, motion.linear))
        force = rotate(at.rotation, own.force)
        linear = add(linear, force)
        angular = add(angular, rotate(at.rotation, own.torque), cross(at.position, force))
    return angular, linear


def world_force(at: Offset, point: Vector, torque: Vector, force: Vector) -> Force:
    """A torque, and a force on a point of a frame (the point in the frame), both along the world's axes."""
    own = unrotate(at.rotation, force)
    return Force(add(unrotate(at.rotation, torque), cross(point, own)), own)


def add_forces(a: Mapping[int, Force], b: Mapping[int, Force]) -> dict[int, Force]:
    """Forces on frames, added up."""
    result = dict(a)
    for frame, force in b.items():
        own = result.get(frame, NO_FORCE)
        result[frame] = Force(add(own.torque, force.torque), add(own.force, force.force))
    return result
