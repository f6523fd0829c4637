"""Real stages: all read, counts and masses agree with OpenUSD, and converted robots with the files they come from."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinema.apps.cli.batch import find_robots
from kinema.core import Array, Diagnostics, Pose, collect
from kinema.description import AxisState, Joint, JointKind, Link, Robot, World
from kinema.read import read
from kinema.read.usd import read_usd
from kit.assets import all_assets, asset_id, assets

from .stage_masses import openusd_mass

FOLDER = all_assets("usd")
STAGES = find_robots(FOLDER[0]) if FOLDER else []
every_stage = pytest.mark.parametrize("file", STAGES, ids=asset_id)

REAL_DEFECTS = {
    "gz_usd_tests/double_pendulum.usda": (
        {"usd.joint-to-itself"},
        "its links have masses and joints but no PhysicsRigidBodyAPI: every joint is from the world to the world",
    ),
}
"""Stage -> the errors that reading it must report, and why they are the file's fault."""


def key(file: Path) -> str:
    return str(file.relative_to(FOLDER[0]))


@cache
def read_collecting(file: Path) -> tuple[Robot | World, Diagnostics]:
    diagnostics = Diagnostics()
    return read_usd(file, diagnostics=diagnostics), diagnostics


# -- every stage ------------------------------------------------------------------------------------------------------


@every_stage
def test_every_stage_reads_without_errors(file: Path) -> None:
    """No error that is not a defect of the file, each with its reason."""
    _, diagnostics = read_collecting(file)
    wanted, _ = REAL_DEFECTS.get(key(file), (set(), ""))
    assert {d.code for d in diagnostics.errors()} == wanted


@every_stage
def test_counts_agree_with_openusd(file: Path) -> None:
    """As many links as enabled bodies, as many joints as joint prims, as many colliders as collision prims."""
    from pxr import Usd, UsdGeom, UsdPhysics

    described, diagnostics = read_collecting(file)
    stage = Usd.Stage.Open(str(file))
    prims = list(Usd.PrimRange(stage.GetPseudoRoot(), Usd.TraverseInstanceProxies()))
    bodies = {
        str(p.GetPath())
        for p in prims
        if p.HasAPI(UsdPhysics.RigidBodyAPI) and UsdPhysics.RigidBodyAPI(p).GetRigidBodyEnabledAttr().Get()
    }
    joints = {str(p.GetPath()) for p in prims if p.IsA(UsdPhysics.Joint)}
    colliders = {str(p.GetPath()) for p in prims if p.HasAPI(UsdPhysics.CollisionAPI) and p.IsA(UsdGeom.Gprim)}
    left_out = {d.origin.path for d in diagnostics if d.code in ("usd.joint-to-itself", "usd.joint-target")}
    shapes = [s for link in described.links for s in link.shapes]
    shapes += described.shapes if isinstance(described, World) else []
    assert {link.origin.path for link in described.links} == bodies
    assert {joint.origin.path for joint in described.joints} == joints - left_out
    assert {s.origin.path for s in shapes if s.collision} == colliders


@pytest.mark.wide
@every_stage
def test_masses_agree_with_openusd(file: Path) -> None:
    """Mass, centre and inertia of every body that OpenUSD has a valid answer for, to single precision."""
    described, _ = read_collecting(file)
    for link in described.links:
        wanted = openusd_mass(file, link.origin.path)
        if wanted is None:
            continue
        inertial = link.inertial
        assert inertial is not None, link.name
        assert math.isclose(inertial.mass, wanted.mass, rel_tol=1e-5), link.name
        size = max(1e-3, float(np.abs(wanted.center).max()))
        np.testing.assert_allclose(inertial.center, wanted.center, rtol=0, atol=1e-5 * size, err_msg=link.name)
        if wanted.inertia is not None:
            scale = float(np.abs(wanted.inertia).max())
            np.testing.assert_allclose(inertial.inertia, wanted.inertia, rtol=0, atol=1e-4 * scale, err_msg=link.name)


@pytest.mark.skipif(not STAGES, reason="the shared robots are not beside this checkout")
def test_openusd_has_an_answer_for_most_bodies() -> None:
    """The comparison above does not pass for want of anything to compare."""
    links = [(file, link) for file in STAGES[::3] for link in read_collecting(file)[0].links]
    answers = [openusd_mass(file, link.origin.path) for file, link in links]
    assert sum(a is not None for a in answers) > 0.9 * len(links)
    assert sum(a is not None and a.inertia is not None for a in answers) > 0.4 * len(links)


# -- converted robots -------------------------------------------------------------------------------------------------

CONVERTED = {
    "usd/conv_mjcf_barkour_vb/barkour_vb.usdc": "mjcf/google_barkour_vb/barkour_vb_mjx.xml",
    "usd/conv_mjcf_cassie/cassie.usda": "mjcf/agility_cassie/cassie.xml",
    "usd/conv_mjcf_humanoid/Humanoid.usda": "mjcf/mujoco_humanoid/humanoid.xml",
    "usd/conv_mjcf_panda/panda.usdc": "mjcf/franka_emika_panda/panda.xml",
    "usd/conv_urdf_minitaur/quadruped.usda": "urdf/minitaur/quadruped/minitaur.urdf",
    "usd/conv_urdf_pr2/pr2.usdc": "urdf/pr2/example-robot-data/robots/pr2_description/urdf/pr2.urdf",
    "usd/conv_urdf_r2d2/physics.usda": "urdf/r2d2/r2d2.urdf",
}
CENTRES, GHOSTS = "centres", "ghosts"
LOST = {
    "usd/conv_urdf_minitaur/quadruped.usda": {CENTRES},
    "usd/conv_urdf_r2d2/physics.usda": {CENTRES},
    "usd/conv_urdf_pr2/pr2.usdc": {GHOSTS},
}
"""What the converter lost on the way.

centres: a URDF inertial without an origin has its centre at the link's. The converter does not author that, and a USD
    body without a centre of mass has that of its colliders (OpenUSD's own computation says so too).
ghosts: links without mass and shapes become plain transforms, which are no bodies.
"""
SINGLE = 2e-6
"""Single precision, with room for the arithmetic behind a number."""
converted = pytest.mark.parametrize(("stage", "source"), CONVERTED.items(), ids=lambda p: Path(p).parent.name)


def pair(stage: str, source: str) -> tuple[Robot, Robot, dict[str, str]]:
    """The robot of the stage and that of its source, and what each prim of the stage was called before."""
    first, second = (only_robot(read(assets(path), policy=collect)) for path in (stage, source))
    return first, second, display_names(assets(stage))


def only_robot(described: Robot | World) -> Robot:
    if isinstance(described, World):
        (described,) = described.robots
    return described


def display_names(file: Path) -> dict[str, str]:
    """Prim path -> the name that the converter could not use as a prim's name, or the prim's name."""
    from pxr import Usd

    stage = Usd.Stage.Open(str(file))
    prims = Usd.PrimRange(stage.GetPseudoRoot(), Usd.TraverseInstanceProxies())
    return {str(p.GetPath()): str(p.GetMetadata("displayName") or p.GetName()) for p in prims}


def links_by_source(found: Robot, wanted: Robot, names: dict[str, str]) -> dict[str, Link]:
    """Name in the source -> link of the stage; a link that the source does not name is the one that is left over."""
    links = {names[link.origin.path]: link for link in found.links}
    unnamed = [link.name for link in wanted.links if link.name_is_generated]
    left = [name for name in links if name not in {link.name for link in wanted.links}]
    for name, other in zip(unnamed, left, strict=True):
        links[name] = links.pop(other)
    return links


@converted
def test_converted_links_are_those_of_the_source(stage: str, source: str) -> None:
    """The same links with the same masses, centres and inertias."""
    found, wanted, names = pair(stage, source)
    links = links_by_source(found, wanted, names)
    lost = LOST.get(stage, set())
    ghosts = {
        link.name for link in wanted.links if link.inertial is None and not link.shapes and link.name not in links
    }
    assert bool(ghosts) == (GHOSTS in lost)
    assert set(links) == {link.name for link in wanted.links} - ghosts
    moved: set[str] = set()
    for link in wanted.links:
        ours, theirs = (links[link.name].inertial if link.name in links else None), link.inertial
        assert (ours is None) == (theirs is None), link.name
        if ours is None or theirs is None:
            continue
        assert math.isclose(ours.mass, theirs.mass, rel_tol=SINGLE), link.name
        scale = float(np.abs(theirs.inertia).max())
        np.testing.assert_allclose(ours.inertia, theirs.inertia, atol=5 * SINGLE * scale, err_msg=link.name)
        size = max(1e-3, float(np.abs(theirs.center).max()))
        if not np.allclose(ours.center, theirs.center, rtol=0, atol=SINGLE * size):
            assert not theirs.center.any(), link.name
            assert not says_center(assets(stage), links[link.name].origin.path), link.name
            moved.add(link.name)
    assert bool(moved) == (CENTRES in lost)


def says_center(file: Path, path: str) -> bool:
    """Whether a body's centre of mass is authored."""
    from pxr import Usd

    stage = Usd.Stage.Open(str(file))
    return bool(stage.GetPrimAtPath(path).GetAttribute("physics:centerOfMass").HasAuthoredValue())


@converted
def test_converted_joints_are_those_of_the_source(stage: str, source: str) -> None:
    """The same joints that move, between the same links, of the same kind, with the same limits."""
    found, wanted, names = pair(stage, source)
    joints = {names[joint.origin.path]: joint for joint in found.joints}
    called = {link.name: name for name, link in links_by_source(found, wanted, names).items()}
    for joint in moving(wanted):
        ours = joints[joint.name]
        ends = [called[end] if end else None for end in (ours.parent, ours.child)]
        assert ends == [joint.parent, joint.child], joint.name
        assert ours.kind is joint.kind, joint.name
        for one, other in zip(ours.axes, joint.axes, strict=True):
            assert one.state is other.state, joint.name
            if one.state is AxisState.LIMITED:
                np.testing.assert_allclose([one.lower, one.upper], [other.lower, other.upper], atol=1e-6, rtol=1e-6)


def moving(robot: Robot) -> list[Joint]:
    """The joints with freedom, but for the one that only says that the base is free."""
    return [joint for joint in robot.joints if joint.n_dofs and joint.kind is not JointKind.FREE]


@converted
def test_converted_robots_move_like_the_source(stage: str, source: str) -> None:
    """Every link is in the same place at random configurations, seen from the first."""
    found, wanted, names = pair(stage, source)
    links = links_by_source(found, wanted, names)
    joints = {names[joint.origin.path]: joint for joint in found.joints}
    rng = np.random.default_rng(0)
    for _ in range(5):
        configuration = {joint.name: random_coordinates(joint, rng) for joint in moving(wanted)}
        ours = found.link_poses({joints[name].name: q for name, q in configuration.items()})
        theirs = wanted.link_poses(configuration)
        base = next(link.name for link in wanted.links if link.name in links)
        for name, link in links.items():
            a = relative(ours, links[base].name, link.name)
            b = relative(theirs, base, name)
            metres, radians = a.distance(b)
            assert metres < 1e-5, name
            assert radians < 1e-5, name


def random_coordinates(joint: Joint, rng: np.random.Generator) -> Array:
    if joint.kind is JointKind.SPHERICAL:
        q = rng.normal(size=4)
        return q / np.linalg.norm(q)
    low, high = (np.array([getattr(a, side) for a in joint.moving_axes]) for side in ("lower", "upper"))
    return rng.uniform(np.maximum(low, -1.0), np.minimum(high, 1.0))


def relative(poses: dict[str, Pose], base: str, link: str) -> Pose:
    return poses[base].inverse() @ poses[link]


def test_the_tables_name_real_stages() -> None:
    """Nothing in the tables of this test is out of date."""
    known: set[Any] = {key(file) for file in STAGES}
    if known:
        assert known >= set(REAL_DEFECTS)
        assert {f"usd/{name}" for name in known} >= set(CONVERTED)
        assert set(CONVERTED) >= set(LOST)
