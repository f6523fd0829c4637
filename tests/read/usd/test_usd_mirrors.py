"""Joints between a mirrored body and one that is not: the frame that is meant is the one that the stage shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kinema.description import Robot
from kinema.read.usd import read_usd
from kit.diagnostics import ClaimedDiagnostics
from kit.usd_stages import placed, prim, write_stage

MIRRORS = {"X": (-1, 1, 1), "Y": (1, -1, 1), "Z": (1, 1, -1)}
KINDS = {
    "fixed": ("PhysicsFixedJoint", ""),
    "six axes": ("PhysicsJoint", ""),
    "hinge": ("PhysicsRevoluteJoint", 'uniform token physics:axis = "X"'),
    "slide": ("PhysicsPrismaticJoint", 'uniform token physics:axis = "X"'),
    "ball": ("PhysicsSphericalJoint", 'uniform token physics:axis = "X"'),
}


def robot(folder: Path, diagnostics: ClaimedDiagnostics, kind: str, mirror: str, mirrored: int) -> Robot:
    """Two bodies one metre apart, one of them mirrored, with a joint at the second one's origin."""
    scales: list[tuple[int, int, int] | None] = [None, None]
    scales[mirrored] = MIRRORS[mirror]
    cube = prim('Cube "c"', "double size = 0.2", apis=["PhysicsCollisionAPI"])
    bodies = [
        prim(f'Xform "{name}"', placed((x, 0, 0), scale=scale), cube, apis=["PhysicsRigidBodyAPI"])
        for name, x, scale in (("a", 0, scales[0]), ("b", 1, scales[1]))
    ]
    name, axis = KINDS[kind]
    x = -1 if (mirrored, mirror) == (0, "X") else 1
    limits = ("float physics:lowerLimit = -30", "float physics:upperLimit = 30") if kind == "hinge" else ()
    joint = prim(
        f'{name} "j"',
        "rel physics:body0 = </a>",
        "rel physics:body1 = </b>",
        f"point3f physics:localPos0 = ({x}, 0, 0)",
        axis,
        *limits,
    )
    found = read_usd(write_stage(folder, *bodies, joint), diagnostics=diagnostics)
    assert isinstance(found, Robot)
    return found


@pytest.mark.parametrize("mirrored", [0, 1])
@pytest.mark.parametrize("mirror", MIRRORS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_mirrored_body_stays_where_it_is(
    kind: str, mirror: str, mirrored: int, tmp_path: Path, diagnostics: ClaimedDiagnostics
) -> None:
    """At rest every body is where the stage shows it, not turned around by half a turn that nobody authored."""
    found = robot(tmp_path, diagnostics, kind, mirror, mirrored)
    if kind in ("hinge", "slide", "ball") and mirror == "X":
        # the mirror turns the joint's own axis around: the two sides do disagree, and that is said
        if kind != "ball":
            assert "180 degrees apart" in diagnostics.claim("usd.joint-frames-apart").message
        return
    poses = found.link_poses()
    for link in found.links:
        assert link.pose is not None
        np.testing.assert_allclose(poses[link.name].matrix, link.pose.matrix, atol=1e-12)


@pytest.mark.parametrize("mirrored", [0, 1])
@pytest.mark.parametrize("mirror", MIRRORS)
def test_a_mirrored_axis_is_where_the_stage_takes_it(
    mirror: str, mirrored: int, tmp_path: Path, diagnostics: ClaimedDiagnostics
) -> None:
    """Whichever frame stands for a mirrored one, the axis is the image of the authored axis, through either body."""
    found = robot(tmp_path, diagnostics, "hinge", mirror, mirrored)
    joint = found.joints[0]
    for side, (name, frame) in enumerate((("a", joint.parent_pose), ("b", joint.child_pose))):
        link = found.link(name)
        assert link.pose is not None
        true = MIRRORS[mirror][0] if side == mirrored else 1
        np.testing.assert_allclose((link.pose @ frame).rotation @ joint.axes[0].direction, (true, 0, 0), atol=1e-12)
    if mirror == "X":
        diagnostics.claim("usd.joint-frames-apart")
