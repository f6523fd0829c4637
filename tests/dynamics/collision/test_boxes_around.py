"""Boxes around shapes: they say apart only of what is apart, and mostly where it is."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from kinema.dynamics.collision.collision_types import CollisionGeom
from kinema.dynamics.collision.local_aabbs import geom_half_extents
from kinema.dynamics.collision.obb import obb_separation

SIZES = {
    "capsule": [0.05, 0.3, 0.0],
    "ellipsoid": [0.3, 0.1, 0.05],
    "cylinder": [0.2, 0.03, 0.0],
    "box": [0.4, 0.02, 0.1],
}


def _distance(kinds: tuple[str, str], poses: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """MuJoCo's, of two shapes."""
    bodies = ""
    for kind, (position, quaternion) in zip(kinds, poses, strict=True):
        numbers = [" ".join(map(repr, x)) for x in (SIZES[kind], position.tolist(), quaternion.tolist())]
        bodies += f'<geom type="{kind}" size="{numbers[0]}" pos="{numbers[1]}" quat="{numbers[2]}"/>'
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return mujoco.mj_geomDistance(model, data, 0, 1, 10.0, None)


@pytest.mark.parametrize("kinds", [("capsule", "box"), ("ellipsoid", "cylinder"), ("cylinder", "box"), ("box", "box")])
def test_no_farther_than_the_shapes(kinds: tuple[str, str]) -> None:
    rng = np.random.default_rng(3)
    separated = apart = 0
    for _ in range(60):
        turns = rng.normal(size=(2, 4))
        turns /= np.linalg.norm(turns, axis=1, keepdims=True)
        poses = [(rng.uniform(-0.3, 0.3, 3), turn) for turn in turns]
        solids = []
        for kind, (position, quaternion) in zip(kinds, poses, strict=True):
            matrix = Rotation.from_quat(quaternion, scalar_first=True).as_matrix()
            solids.append(CollisionGeom(position.tolist(), matrix.tolist(), geom_half_extents(kind, SIZES[kind])))
        found, distance = float(obb_separation(solids[0], solids[1])), _distance(kinds, poses)  # type: ignore[arg-type]
        assert found <= max(distance, 0.0) + 1e-6
        separated, apart = separated + (found > 0.0), apart + (distance > 1e-3)
    assert separated > 0.6 * apart > 0
