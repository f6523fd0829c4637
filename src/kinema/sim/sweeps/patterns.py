"""Where matrices over degrees of freedom have entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kinema.model import Motion

from .loops import Loops
from .tree import WORLD


def paths_of(loops: Loops) -> dict[int, list[int]]:
    """Of each degree of freedom those that move it, from the world on, and itself."""
    paths: dict[int, list[int]] = {}
    for node in loops.nodes:
        above = [] if node.parent == WORLD else paths[loops.tree.nodes[node.parent].dofs[-1]]
        for k, dof in enumerate(node.dofs):
            paths[dof] = [*above, *node.dofs[: k + 1]]
    return paths


def coupled(paths: Mapping[int, list[int]], groups: Sequence[Sequence[int]]) -> dict[int, list[int]]:
    """The same with an entry for each two of a group, and for what elimination fills in between others."""
    order = {dof: i for i, dof in enumerate(paths)}
    columns = {dof: set(path) for dof, path in paths.items()}
    for group in groups:
        for dof in group:
            columns[dof] |= {other for other in group if order[other] < order[dof]}
    for dof in reversed(list(paths)):
        for other in columns[dof] - {dof}:
            columns[other] |= {x for x in columns[dof] if order[x] < order[other]}
    return {dof: sorted(own, key=order.__getitem__) for dof, own in columns.items()}


def gimbals(loops: Loops) -> dict[int, list[int]]:
    """Of the last of hinges in a row with no link between them the degrees of freedom of those before it."""
    carrying = set(loops.model.links.frame_idx.tolist())
    hinges = {node.index: node for node in loops.nodes if node.motion == Motion.HINGE}
    children: dict[int, list[int]] = {}
    for node in loops.nodes:
        children.setdefault(node.parent, []).append(node.index)
    found: dict[int, list[int]] = {}
    for index, node in hinges.items():
        last = index
        while last not in carrying and len(children.get(last, ())) == 1 and children[last][0] in hinges:
            last = children[last][0]
        if last != index:
            found.setdefault(hinges[last].dofs[0], []).append(node.dofs[0])
    return found
