"""Real robots: no false alarms, known defects found, and the overlaps that MuJoCo sees."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import kinema as km
from kinema.check import check
from kinema.core import Severity, collect
from kit.assets import EXAMPLES, all_assets, asset_id, assets

KNOWN_ERRORS = {"sdf/gz_simple_arm/simple_arm/model.sdf": {"inertia.triangle"}}
"""Defects that other programs also complain of; every other shared robot is usable."""


def read(path: Path) -> km.Robot | km.World:
    return km.read(path, policy=collect)  # type: ignore[operator]


@pytest.mark.wide
@pytest.mark.parametrize("path", all_assets("urdf/**/*.urdf", "sdf/**/*.sdf"), ids=asset_id)
def test_real_robots_have_no_errors_but_the_known_ones(path: Path) -> None:
    """Robots that people use are not called unusable, and no rule fails on one."""
    found = check(read(path))
    assert "check.failed" not in {d.code for d in found}
    assert {d.code for d in found if d.severity is Severity.ERROR} == KNOWN_ERRORS.get(asset_id(path), set())


@pytest.mark.parametrize("file", ["arm/arm.urdf", "gripper/gripper.sdf", "quadruped/quadruped.xml"])
def test_our_own_robots_are_clean(file: str) -> None:
    """The examples show how it should be done."""
    assert check(read(EXAMPLES / file)) == []


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("urdf/minitaur/quadruped/minitaur.urdf", "limits.frozen"),
        ("urdf/minitaur/quadruped/minitaur.urdf", "inertia.placeholder"),
        ("urdf/pr2/example-robot-data/robots/pr2_description/urdf/pr2.urdf", "inertia.triangle"),
        ("urdf/fanuc_m10ia/moveit_resources_fanuc_description/urdf/fanuc.urdf", "inertia.massless-robot"),
        ("urdf/aliengo/aliengo_description/urdf/aliengo.urdf", "meshes.missing"),
        ("urdf/panda/panda.urdf", "inertia.implausible"),
        ("sdf/cassie_v2/example-robot-data/robots/cassie_description/robots/cassie_v2.sdf", "graph.loop"),
    ],
)
def test_known_defects_of_real_robots_are_found(file: str, code: str) -> None:
    """What is known to be wrong or special about these files is said."""
    assert code in {d.code for d in check(read(assets(file)))}


@pytest.mark.parametrize(
    "file",
    [
        "mjcf/franka_emika_panda/panda.xml",
        "mjcf/trossen_wx250s/wx250s.xml",
        "mjcf/wonik_allegro/right_hand.xml",
        "mjcf/unitree_go2/go2_scene.xml",
        "mjcf/mujoco_humanoid/humanoid.xml",
    ],
)
def test_overlaps_at_rest_are_the_contacts_of_mujoco(file: str) -> None:
    """The same pairs of bodies as MuJoCo's contacts deeper than 1 mm at qpos0, and about as deep."""
    mujoco = pytest.importorskip("mujoco")
    path = assets(file)
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    expected: dict[frozenset[str], float] = {}
    for contact in data.contact:
        pair = frozenset(model.body(model.geom_bodyid[g]).name for g in contact.geom)
        expected[pair] = max(expected.get(pair, 0.0), -contact.dist)
    expected = {pair: depth for pair, depth in expected.items() if depth > 1e-3}
    # below a floor only the deepest link of a robot is named
    floor = {pair: depth for pair, depth in expected.items() if "world" in pair}
    expected = {pair: depth for pair, depth in expected.items() if "world" not in pair}
    if floor:
        deepest = max(floor, key=lambda pair: floor[pair])
        expected[deepest] = floor[deepest]
    found: dict[frozenset[str], float] = {}
    for diagnostic in check(read(path)):
        if diagnostic.code == "overlap.at-rest":
            names = re.findall(r'link "([^"]*)"', diagnostic.message)
            depth = re.search(r"(?:about|reaches) ([\d.]+) mm", diagnostic.message)
            assert depth is not None
            found[frozenset([*names, *["world"] * (2 - len(names))])] = float(depth[1]) / 1e3
    assert len(found) == len(expected)
    np.testing.assert_allclose(sorted(found.values()), sorted(expected.values()), rtol=0.05, atol=1e-3)
    assert {p for p in found if "world" not in p} == {p for p in expected if "world" not in p}
