"""An articulation whose root is a joint to the world: what is said there is said of all its links."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinema.description import colliding_pairs
from kinema.read.usd import read_usd
from kit.diagnostics import ClaimedDiagnostics
from kit.usd_stages import BODY, COLLIDER, ROOT, placed, prim, write_stage


def stage(folder: Path, *on_root: str, apis: tuple[str, ...] = (), twice: bool = False) -> Path:
    """The chain a - b - c, held by a joint that is its root, and a body d beside it."""
    bodies = [
        prim(f'Xform "{name}"', placed((x, 0, 0)), prim(f'Cube "{name}_box"', apis=[COLLIDER]), apis=[BODY])
        for x, name in enumerate("abcd")
    ]
    joints = [
        prim(
            f'PhysicsRevoluteJoint "{name}"',
            f"rel physics:body0 = </{a}>",
            f"rel physics:body1 = </{b}>",
            "point3f physics:localPos0 = (1, 0, 0)",
            f'uniform token physics:axis = "{axis}"',
        )
        for name, a, b, axis in (("ab", "a", "b", "X"), ("bc", "b", "c", "X"), *([("ab2", "a", "b", "Y")] * twice))
    ]
    held = prim('PhysicsFixedJoint "held"', "rel physics:body1 = </a>", *on_root, apis=[ROOT, *apis])
    return write_stage(folder, *bodies, *joints, held)


def pairs(file: Path, diagnostics: ClaimedDiagnostics) -> set[str]:
    world = read_usd(file, diagnostics=diagnostics)
    return {"".join(sorted(c.shape.name[0] for c in pair)) for pair in colliding_pairs(world)}


def test_filtered_pairs(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """No link of the articulation touches what its root filters."""
    assert pairs(stage(tmp_path), diagnostics) == {"ac", "ad", "bd", "cd"}
    filtered = stage(tmp_path, "rel physics:filteredPairs = </d>", apis=("PhysicsFilteredPairsAPI",))
    assert pairs(filtered, diagnostics) == {"ac"}


@pytest.mark.parametrize("attribute", ["newton:selfCollisionEnabled", "physxArticulation:enabledSelfCollisions"])
def test_self_collision(attribute: str, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The links of the articulation do not touch each other, but what is beside it."""
    assert pairs(stage(tmp_path, f"bool {attribute} = 0"), diagnostics) == {"ad", "bd", "cd"}


@pytest.mark.parametrize("adds", [True, False])
def test_joints_that_add_their_motion(adds: bool, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Two joints between two bodies have the meaning that the root says."""
    file = stage(tmp_path, f"bool newton:jointsAddMobility = {int(adds)}", twice=True)
    world = read_usd(file, diagnostics=diagnostics)
    assert {j.name: j.stacked for j in world.joints}["ab2"] is adds
