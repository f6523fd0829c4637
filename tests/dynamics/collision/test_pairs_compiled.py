"""The same points from compiled code, in which several poses are looked at side by side."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.dynamics.collision.analytic_pairs import ANALYTIC_COLLISION_TABLE

from ...ir.arenas import Memory, compiled
from .driver import INPUTS, SPARE, WIDTH, ours, points_of, program
from .poses import on_a_grid, somewhere


@pytest.mark.parametrize(
    "kinds", [("plane", "box"), ("sphere", "ellipsoid"), ("capsule", "box"), ("box", "box")], ids="-".join
)
def test_four_at_a_time(kinds: tuple[str, str]) -> None:
    """What has loops and conditions: each pose goes its own way through them."""
    inputs = [(f"{solid} {part}", count) for solid in "ab" for part, count in INPUTS.items()]
    memory = Memory(
        state=[*inputs, ("reach", 1)],
        out=[("count", 1), ("points", WIDTH * (ANALYTIC_COLLISION_TABLE[kinds].max_contacts + SPARE))],
    )
    both = (somewhere(21, 203), on_a_grid(22, 203))
    rows = [poses.rows() for poses in both]
    state = np.concatenate([np.concatenate([r[name] for r in rows], axis=1) for name, _ in memory.state])
    out = compiled(program(kinds), memory, {"state": state}, state.shape[1], lanes=4)["out"]
    plain = [points for poses in both for points in ours(kinds, poses)]
    for own, other in zip(points_of(out[0], out[1:]), plain, strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=1e-12)
