"""What a team solves as a whole, and how: with a full matrix, or by tiles."""

from __future__ import annotations

from kinema.model import Model

from ..constrain.kinds import kinds_and_blocks
from ..settings import Settings, Solver
from ..sweeps.tree import WORLD, Node, grow

MOST_DOFS = 64
"""Degrees of freedom of which a team keeps a full matrix: each thread has a row of it in registers, or two."""
FEWEST_TREES, MOST_TREES = 4, 64
"""That a heap has which a team solves: of fewer most of the matrix is full, for more there are no bits."""
WIDEST = 12
"""Degrees of freedom of a tree: all threads have its tile in registers."""


def may_have_team(model: Model, settings: Settings) -> bool:
    """Whether it is what a team solves at all."""
    pairs = model.pairs
    lively = bool(pairs.restitution.any() or (pairs.stick > 1.0).any())  # what touches changes by how it moves
    return settings.team and settings.solver is Solver.NEWTON and not lively


def fits_full(model: Model, settings: Settings, n_dofs: int) -> bool:
    """Whether a team keeps all of the matrix in its registers."""
    return may_have_team(model, settings) and n_dofs <= MOST_DOFS


def fits_heap(model: Model, settings: Settings, nodes: list[Node] | None = None) -> bool:
    """Whether a team solves many trees by tiles: none of them wide, and nothing but contacts couples any of them."""
    if not may_have_team(model, settings):
        return False
    nodes = grow(model).nodes if nodes is None else nodes
    widths: list[int] = []
    tree_of: dict[int, int] = {}
    for node in nodes:
        if node.parent == WORLD:
            widths.append(0)
        tree_of[node.index] = len(widths) - 1 if node.parent == WORLD else tree_of[node.parent]
        widths[tree_of[node.index]] += len(node.dofs)
    if sum(widths) <= MOST_DOFS or not FEWEST_TREES <= len(widths) <= MOST_TREES or max(widths) > WIDEST:
        return False
    blocks = [block for _, own in kinds_and_blocks(model, settings, nodes) for block in own]
    return all(b.n_rows == 1 and len(b.dofs) == 1 and not b.hard and b.holder < 0 for b in blocks)


def fits_team(model: Model, settings: Settings, nodes: list[Node] | None = None) -> bool:
    """Whether a team solves it as a whole: some trees of a model, or all of it."""
    n_dofs = model.n_dofs if nodes is None else sum(len(node.dofs) for node in nodes)
    return fits_full(model, settings, n_dofs) or fits_heap(model, settings, nodes)
