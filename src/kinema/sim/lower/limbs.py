"""Which parts of a robot can be computed side by side: its limbs, and the trunk they meet in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kinema.model import Model
from kinema.trace import Slot

from ..arrays import BY_NAME, Owner
from ..sweeps.tree import WORLD, Tree

WORTH_DIVIDING = 2_000
"""Operations below which one thread is soon done by itself."""
LONGEST_HALF = 0.8
"""What the busier of two may have of the whole."""


@dataclass(frozen=True, slots=True, eq=False)
class Limbs:
    """The role of each moving frame; None for the trunk."""

    n_roles: int
    role_of_frame: dict[int, int | None]
    longest: int
    """About how many operations the busiest role has, the trunk's among them."""

    def role_of(self, model: Model) -> Callable[[Slot], int | None]:
        """The role of each input and output of a program."""
        dofs = {i: self.role_of_frame[int(f)] for i, f in enumerate(model.dofs.frame_idx)}
        coordinates = {q: owner for frame, owner in self.role_of_frame.items() for q in model.qs_of_frame(frame)}
        actuators = {a: self._common(dofs, model, a) for a in range(model.n_actuators)}
        roles = {Owner.COORDINATE: coordinates, Owner.DOF: dofs, Owner.ACTUATOR: actuators}

        def role(slot: Slot) -> int | None:
            info = BY_NAME.get(slot.array)
            if info is None:  # a local array
                return None
            if info.owner is Owner.ROLE:
                return slot.item
            own = roles.get(info.owner)
            return None if own is None else own[slot.item // info.width]

        return role

    @staticmethod
    def _common(dofs: dict[int, int | None], model: Model, actuator: int) -> int | None:
        """The role that an actuator pulls on, if it is one."""
        roles = {dofs[int(d)] for d in model.actuators.moment[actuator].nonzero()[0]}
        return roles.pop() if len(roles) == 1 else None


def best_roles(tree: Tree) -> int:
    """How many threads of a GPU should share an environment: two, where that shortens the work of each enough.

    More than two halve the number of environments that run at a time, which costs more than it brings. What searches
    for something is not a straight line, and cannot be divided.
    """
    if any(kind.endswith(("inside", "either")) for kind in tree.model.paths.kinds):
        return 1
    whole, halved = find_limbs(tree, 1).longest, find_limbs(tree, 2).longest
    return 2 if whole > WORTH_DIVIDING and halved < LONGEST_HALF * whole else 1


def find_limbs(tree: Tree, n_roles: int) -> Limbs:
    """Divide the frames: the heaviest subtree is opened again and again, and the best division on the way is taken."""
    children: dict[int, list[int]] = {WORLD: []}
    for node in tree.nodes:
        children.setdefault(node.parent, []).append(node.index)
        children.setdefault(node.index, [])
    weight = _weights(tree, children)
    limbs = list(children[WORLD])
    trunk: list[int] = []
    best = (sum(weight[x] for x in limbs), list(limbs), list(trunk))
    while limbs:
        longest = max(sum(weight[x] for x in share) for share in _shared_out(limbs, weight, n_roles))
        best = min(best, (longest + sum(_own(tree, x) for x in trunk), list(limbs), list(trunk)))
        heaviest = max(limbs, key=lambda x: weight[x])
        opened, branches = _open(heaviest, children)
        if not branches:
            break
        limbs.remove(heaviest)
        limbs += branches
        trunk += opened
    role_of: dict[int, int | None] = dict.fromkeys(best[2], None)
    for role, share in enumerate(_shared_out(best[1], weight, n_roles)):
        for limb in share:
            role_of.update(dict.fromkeys(_subtree(limb, children), role))
    return Limbs(n_roles, role_of, best[0])


def _own(tree: Tree, frame: int) -> int:
    """About how many operations a frame takes: more, the more frames move it (its row of the factorisation)."""
    depth = len(list(tree.ancestors(tree.nodes[frame].dofs.start)))
    return 150 + 12 * depth + depth * depth // 2


def _weights(tree: Tree, children: dict[int, list[int]]) -> dict[int, int]:
    weight: dict[int, int] = {}
    for node in reversed(tree.nodes):
        weight[node.index] = _own(tree, node.index) + sum(weight[c] for c in children[node.index])
    return weight


def _open(frame: int, children: dict[int, list[int]]) -> tuple[list[int], list[int]]:
    """The frames down to where a subtree branches, and the branches."""
    opened = [frame]
    while len(children[opened[-1]]) == 1:
        opened.append(children[opened[-1]][0])
    return opened, list(children[opened[-1]])


def _subtree(frame: int, children: dict[int, list[int]]) -> list[int]:
    found = [frame]
    for x in found:
        found.extend(children[x])
    return found


def _shared_out(limbs: list[int], weight: dict[int, int], n_roles: int) -> list[list[int]]:
    """The heaviest first, each to whoever has least."""
    shares: list[list[int]] = [[] for _ in range(n_roles)]
    for limb in sorted(limbs, key=lambda x: (-weight[x], x)):
        min(shares, key=lambda s: sum(weight[x] for x in s)).append(limb)
    return shares
