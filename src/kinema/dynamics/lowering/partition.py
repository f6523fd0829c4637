"""Partition of the kinematic tree into branches computed by different threads of a warp (warp specialization).

Each partition has some subtrees; the frames above them (the trunk) belong to no single partition, and their cost counts
for every partition. The partitions balance estimated operation counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kinema.ir import ADJOINT_PREFIX, MemoryLocation
from kinema.model import Model

from ..arrays import ARRAYS_BY_NAME, ElementKind
from ..tree.kinematic_tree import WORLD, KinematicTree

MIN_PARTITION_OPERATIONS = 2_000
"""Operation count below which an environment is not shared between threads."""
MAX_PARTITION_FRACTION = 0.8
"""Largest fraction of all operations that the busier of two partitions may have."""


@dataclass(frozen=True, slots=True, eq=False)
class TreePartition:
    """Assignment of moving frames to partitions."""

    n_partitions: int
    partition_of_frame: dict[int, int | None]
    """Frame -> partition; None for frames of the trunk."""
    max_operations: int
    """Estimated operations of the busiest partition, those of the trunk included."""

    def location_partition(self, model: Model) -> Callable[[MemoryLocation], int | None]:
        """Return a function from an input or output scalar of a program to its partition, None for shared scalars.

        A partition is the part of the step that one thread computes. A scalar of a coordinate, dof or actuator belongs
        to the partition of its frame (of the moved dofs), a scalar of the error flags to the partition of its index.
        """
        dofs = {i: self.partition_of_frame[int(f)] for i, f in enumerate(model.dofs.frame_idx)}
        coordinates = {
            q: partition for frame, partition in self.partition_of_frame.items() for q in model.frame_q_range(frame)
        }
        force_rows = model.actuators.force_row.tolist()
        actuators = {a: self._actuator_partition(dofs, model, row) for a, row in enumerate(force_rows)}
        by_kind = {ElementKind.COORDINATE: coordinates, ElementKind.DOF: dofs, ElementKind.ACTUATOR: actuators}

        def partition_of_location(location: MemoryLocation) -> int | None:
            info = ARRAYS_BY_NAME.get(location.array.removeprefix(ADJOINT_PREFIX))
            if info is None:  # a local array
                return None
            if info.element_kind is ElementKind.PARTITION:
                return location.element
            partitions = by_kind.get(info.element_kind)
            return None if partitions is None else partitions[location.element // info.width]

        return partition_of_location

    @staticmethod
    def _actuator_partition(dofs: dict[int, int | None], model: Model, actuator: int) -> int | None:
        """Partition of the dofs that an actuator moves; None if they belong to several partitions."""
        partitions = {dofs[int(d)] for d in model.actuators.moment[actuator].nonzero()[0]}
        return partitions.pop() if len(partitions) == 1 else None


def choose_partition_count(tree: KinematicTree) -> int:
    """Number of GPU threads that group an environment: 2 if partitioning shortens the work of each enough, else 1.

    More than two threads would reduce the number of concurrent environments too much. Models with tendon paths that
    need an iterative search (inside wrapping) cannot be partitioned, because their code is not straight-line; models
    with kinematic bodies are not partitioned either.
    """
    if (
        any(kind.endswith(("inside", "either")) for kind in tree.model.path_segments.kinds)
        or tree.model.kinematic_frames
    ):
        return 1
    whole, halved = partition_tree(tree, 1).max_operations, partition_tree(tree, 2).max_operations
    return 2 if whole > MIN_PARTITION_OPERATIONS and halved < MAX_PARTITION_FRACTION * whole else 1


def partition_tree(tree: KinematicTree, n_partitions: int) -> TreePartition:
    """Partition the kinematic tree among threads, minimising the estimated operations of the busiest thread.

    Frames near the root (trunk) are computed by all threads. Greedy search: starting with the subtrees of the root
    frames, the subtree with most operations is repeatedly split at its first branching point, whose upper frames join
    the trunk; the division with the smallest maximum is kept.
    """
    children: dict[int, list[int]] = {WORLD: []}
    for node in (x for x in tree.nodes if x.dofs):
        children.setdefault(node.parent, []).append(node.index)
        children.setdefault(node.index, [])
    operations = _subtree_operations(tree, children)
    branches = list(children[WORLD])
    trunk: list[int] = []
    best = (sum(operations[x] for x in branches), list(branches), list(trunk))
    while branches:
        busiest = max(
            sum(operations[x] for x in group) for group in _balance_greedily(branches, operations, n_partitions)
        )
        best = min(best, (busiest + sum(_frame_operations(tree, x) for x in trunk), list(branches), list(trunk)))
        largest = max(branches, key=lambda x: operations[x])
        chain, new_branches = _split_at_branch(largest, children)
        if not new_branches:
            break
        branches.remove(largest)
        branches += new_branches
        trunk += chain
    partition_of_frame: dict[int, int | None] = dict.fromkeys(best[2], None)
    for partition, group in enumerate(_balance_greedily(best[1], operations, n_partitions)):
        for branch in group:
            partition_of_frame.update(dict.fromkeys(_subtree_frames(branch, children), partition))
    return TreePartition(n_partitions, partition_of_frame, best[0])


def _frame_operations(tree: KinematicTree, frame: int) -> int:
    """Estimated operations of a frame: grows quadratically with its number of ancestor dofs (factorisation row)."""
    depth = len(list(tree.ancestor_dofs(tree.nodes[frame].dofs.start)))
    return 150 + 12 * depth + depth * depth // 2


def _subtree_operations(tree: KinematicTree, children: dict[int, list[int]]) -> dict[int, int]:
    operations: dict[int, int] = {}
    for node in (x for x in reversed(tree.nodes) if x.dofs):
        operations[node.index] = _frame_operations(tree, node.index) + sum(operations[c] for c in children[node.index])
    return operations


def _split_at_branch(frame: int, children: dict[int, list[int]]) -> tuple[list[int], list[int]]:
    """Chain of frames from `frame` to the first branching point of its subtree, and the branches there."""
    chain = [frame]
    while len(children[chain[-1]]) == 1:
        chain.append(children[chain[-1]][0])
    return chain, list(children[chain[-1]])


def _subtree_frames(frame: int, children: dict[int, list[int]]) -> list[int]:
    frames = [frame]
    for node in frames:
        frames.extend(children[node])
    return frames


def _balance_greedily(branches: list[int], operations: dict[int, int], n_partitions: int) -> list[list[int]]:
    """Distribute branches over partitions, largest first, each to the partition with fewest operations (LPT rule)."""
    groups: list[list[int]] = [[] for _ in range(n_partitions)]
    for branch in sorted(branches, key=lambda x: (-operations[x], x)):
        min(groups, key=lambda group: sum(operations[x] for x in group)).append(branch)
    return groups
