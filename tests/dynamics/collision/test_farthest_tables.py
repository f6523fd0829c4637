"""Tables of directions: who is the farthest where."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

from kinema.dynamics.collision.collision_types import PackedHull
from kinema.dynamics.collision.support_mapping import _lookup_cell
from kinema.ir import Value
from kinema.model import SUPPORT_ENTRY_SIZE, pack_hulls

from .convex_driver import box_corners, polyhedron, stone

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=12, deadline=None)
@given(SEEDS, st.sampled_from(("stone", "box", "prism")))
def test_the_farthest_is_in_the_list_of_its_cell(seed: int, kind: str) -> None:
    """Of corners and of normals, in any direction, along axes and edges of cells among them."""
    rng = np.random.default_rng(seed)
    around = np.linspace(0.0, 2.0 * np.pi, 40, endpoint=False)
    rim = np.column_stack([np.cos(around), np.sin(around)])
    corners = {
        "stone": stone(seed, int(rng.integers(8, 120))),
        "box": box_corners((0.1, 0.2, 0.3)),
        "prism": np.vstack([np.column_stack([rim, np.full(40, z)]) for z in (-0.5, 0.5)]),
    }[kind]
    made = polyhedron(corners)
    packed = pack_hulls([made])
    numbers = packed.data

    def read(index: Value) -> Value:
        assert isinstance(index, float)
        return float(numbers[int(index)])

    hull = PackedHull(read, 0.0, float(len(corners)), float(len(made.faces)))
    directions = np.vstack(
        [rng.normal(size=(30, 3)), rng.integers(-2, 3, size=(20, 3)), rng.normal(size=(5, 3)) * 1e-9]
    )
    for table, points in enumerate((made.vertices, made.normals)):
        for direction in directions[np.abs(directions).max(axis=1) > 0.0]:
            start, head = (int(x) for x in _lookup_cell(hull, direction.tolist(), table))  # type: ignore[call-overload]
            first, count = (int(x) for x in numbers[head : head + 2])
            entries = numbers[start + first : start + first + SUPPORT_ENTRY_SIZE * count].reshape(
                -1, SUPPORT_ENTRY_SIZE
            )
            np.testing.assert_array_equal(points[entries[:, 3].astype(int)], entries[:, :3])
            reach = points @ direction
            assert (entries[:, :3] @ direction).max() >= reach.max() - 1e-12 * np.abs(reach).max()
