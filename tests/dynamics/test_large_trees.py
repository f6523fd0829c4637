"""Memory of large kinematic trees, which only tracing needs."""

from __future__ import annotations

import pytest

import kinema as km
from kinema.dynamics.tree import kinematic_tree


@pytest.mark.parametrize(("limit", "is_kept"), [(4, False), (100, True)])
def test_trees_above_a_limit_are_released(limit: int, is_kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree that is asked for again is equal."""
    monkeypatch.setattr(kinematic_tree, "MAX_KEPT_NODES", limit)
    scene = km.Scene()
    for i in range(3):
        scene.add(km.Box((1, 1, 1)), pos=(2 * i, 0, 0))
    scene.build()
    model = scene.built.model
    tree = kinematic_tree.build_tree(model)
    masses = [node.inertia.mass for node in tree.nodes]
    kinematic_tree.forget_large_trees()
    again = kinematic_tree.build_tree(model)
    assert (again.nodes[0] is tree.nodes[0]) is is_kept
    assert [node.inertia.mass for node in again.nodes] == masses
    kinematic_tree.forget_large_trees()
    assert any(tables[0] is model.frames for tables, _ in kinematic_tree._recent_nodes) is is_kept
