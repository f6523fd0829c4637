"""Every robot, whatever its format, as MJCF: MuJoCo compiles it and has the same robot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kinema.core import collect
from kinema.read import read
from kit.assets import EXAMPLES, all_assets, asset_id
from kit.written.mjcf import (
    Written,
    assert_collisions,
    assert_joints,
    assert_mass_matrix,
    assert_masses,
    assert_poses,
    assert_start,
    random_coordinates,
    write,
)

FILES = [
    *sorted(p for p in EXAMPLES.glob("**/*") if p.suffix in (".urdf", ".sdf", ".xml", ".usda") and p.stem != "package"),
    *all_assets("mjcf/**/*.xml", "urdf/**/*.urdf", "sdf/**/*.sdf", "usd/*/*.usd*", "usd/newton_tests/**/*.usda"),
]


@pytest.mark.wide
@pytest.mark.parametrize("file", FILES, ids=asset_id)
def test_mujoco_has_the_same_robot(file: Path, tmp_path: Path) -> None:
    """Poses at random configurations, masses, the mass matrix, limits and colliding pairs."""
    written = write(read(file, policy=collect), tmp_path)
    generator = np.random.default_rng(11)
    values = random_coordinates(written, generator)
    assert_poses(written, values)
    for _ in range(3):
        assert_poses(written, random_coordinates(written, generator))
    assert_masses(written)
    assert_joints(written)
    assert_start(written)
    assert_collisions(written)
    if n_entries(written) < 20_000:  # the mass matrix by differences takes long for more
        assert_mass_matrix(written, values)


def n_entries(written: Written) -> int:
    return written.model.nv**2 * len(written.bodies)
