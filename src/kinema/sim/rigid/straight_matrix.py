"""Matrices along the tree, entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kinema.trace import Scalar, Value

from .sweeps import Cords, Factors, Quantity, TreeMatrix
from .tree import Node, Ref, Tree

Outputs = dict[str, dict[int, Value]]
"""What was written, by array and item."""


class Known(Quantity[list[Value]]):
    """Numbers of frames' degrees of freedom, in a dictionary."""

    def __init__(self, records: Mapping[Ref, list[Value]]) -> None:
        self.records = dict(records)

    def __getitem__(self, ref: Ref) -> list[Value]:
        return self.records[ref]

    def put(self, ref: Ref, record: list[Value]) -> None:
        self.records[ref] = record

    def add(self, ref: Ref, more: list[Value]) -> None:
        self.records[ref] = [a + b for a, b in zip(self.records[ref], more, strict=True)]


class StraightMatrix(TreeMatrix):
    """Entries by a degree of freedom and itself or one that moves it."""

    def __init__(self, tree: Tree, outputs: Outputs, entries: dict[tuple[int, int], Value]) -> None:
        self.tree = tree
        self.outputs = outputs
        self.entries = entries

    def diagonal(self, node: Node) -> list[Value]:
        return [self.entries[dof, dof] for dof in node.dofs]

    def plus(
        self,
        name: str,
        more: Callable[[Node], list[Value]],
        cords: Sequence[Cords] = (),
        times: Callable[[], Value] = float,
    ) -> StraightMatrix:
        entries = dict(self.entries)
        for node in self.tree.nodes:
            for dof, value in zip(node.dofs, more(node), strict=True):
                entries[dof, dof] = entries[dof, dof] + value
        for known in cords:
            for (i, j), slope in known.couplings().items():  # type: ignore[attr-defined]
                for pair in ((i, j), (j, i)):
                    if pair in entries:
                        entries[pair] = entries[pair] + times() * slope
        return StraightMatrix(self.tree, self.outputs, entries)

    def factorised(self) -> StraightFactors:
        """Eliminate from the tips inwards: a degree of freedom only ever fills entries between those that move it."""
        tree = self.tree
        rest = LimbSums(tree, dict(self.entries))
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
        return StraightFactors(self.tree, self.outputs, lower, inverse)

    def store(self, array: str) -> None:
        n = self.tree.model.n_dofs
        rows = self.outputs.setdefault(array, {})
        for (i, j), value in self.entries.items():
            rows[i * n + j] = rows[j * n + i] = value


class StraightFactors(Factors):
    """L by a degree of freedom and one that moves it."""

    def __init__(
        self, tree: Tree, outputs: Outputs, lower: dict[tuple[int, int], Value], inverse: dict[int, Value]
    ) -> None:
        self.tree = tree
        self.outputs = outputs
        self.lower = lower
        self.inverse = inverse

    def solve(self, name: str, right: Quantity[list[Value]]) -> Known:
        tree = self.tree
        order = tree.dofs_outward()
        x = {dof: value for node in tree.nodes for dof, value in zip(node.dofs, right[node.here], strict=True)}
        gathered = LimbSums(tree, {(d,): x[d] for d in order})
        for dof in reversed(order):
            x[dof] = gathered.total((dof,))
            for mover in tree.ancestors(dof):
                if not _is_zero(self.lower[dof, mover]):
                    gathered.subtract((mover,), dof, self.lower[dof, mover], x[dof])
        for dof in order:
            x[dof] = x[dof] * self.inverse[dof]
        for dof in order:
            for mover in tree.ancestors(dof):
                if not _is_zero(self.lower[dof, mover]):
                    x[dof] = x[dof] - self.lower[dof, mover] * x[mover]
        return Known({node.here: [x[dof] for dof in node.dofs] for node in tree.nodes})

    def store(self, lower: str, inverse: str) -> None:
        n = self.tree.model.n_dofs
        rows: dict[int, Value] = {i * n + i: 1.0 for i in range(n)}
        self.outputs[lower] = rows | {i * n + j: value for (i, j), value in self.lower.items()}
        self.outputs[inverse] = dict(self.inverse)


def _is_zero(value: Value) -> bool:
    return not isinstance(value, Scalar) and value == 0.0


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
