"""Units, gravity, transforms and targets that cannot be meant: a diagnostic, and something sane in their place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kinema.read.usd import read_usd
from kit.diagnostics import ClaimedDiagnostics
from kit.usd_stages import prim, write_stage

BOX = prim('Cube "box"', "double size = 1", apis=["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"])


@pytest.mark.parametrize(
    ("units", "mass"),
    [
        ('metersPerUnit = 0\n    upAxis = "Z"', 1e-3),
        ('metersPerUnit = -1\n    upAxis = "Z"', 1e-3),
        ('metersPerUnit = nan\n    upAxis = "Z"', 1e-3),
        ('metersPerUnit = 1\n    kilogramsPerUnit = 0\n    upAxis = "Z"', 1000.0),
        ('metersPerUnit = 1\n    kilogramsPerUnit = -1\n    upAxis = "Z"', 1000.0),
        ('metersPerUnit = 1\n    kilogramsPerUnit = inf\n    upAxis = "Z"', 1000.0),
        ('metersPerUnit = 1\n    upAxis = "X"', 1000.0),
    ],
)
def test_units(units: str, mass: float, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """What is wrong is named, and USD's fallback counts: centimetres, kilograms."""
    described = read_usd(write_stage(tmp_path, BOX, units=units), diagnostics=diagnostics)
    diagnostics.claim("usd.bad-units")
    inertial = described.links[0].inertial
    assert inertial is not None
    assert inertial.mass == pytest.approx(mass)


@pytest.mark.parametrize(
    "line",
    [
        "float physics:gravityMagnitude = nan",
        "float physics:gravityMagnitude = inf",
        "vector3f physics:gravityDirection = (nan, 0, 1)",
        "vector3f physics:gravityDirection = (0, inf, 1)",
    ],
)
def test_gravity(line: str, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The fallback counts; that -infinity means the fallback is no error."""
    scene = prim('PhysicsScene "scene"', line)
    gravity = read_usd(write_stage(tmp_path, BOX, scene), diagnostics=diagnostics).gravity
    diagnostics.claim("usd.gravity-not-finite")
    assert gravity is not None
    assert gravity.tolist() == [0, 0, -9.81]
    unset = prim('PhysicsScene "scene"', "float physics:gravityMagnitude = -inf")
    gravity = read_usd(write_stage(tmp_path, BOX, unset), diagnostics=diagnostics).gravity
    assert gravity is not None
    assert gravity.tolist() == [0, 0, -9.81]


def test_a_perspective_is_no_place(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A transform with a last column that is not (0, 0, 0, 1) is no affine map."""
    matrix = "matrix4d xformOp:transform = ((1, 0, 0, 0.5), (0, 1, 0, 0), (0, 0, 1, 0), (3, 0, 0, 1))"
    order = 'uniform token[] xformOpOrder = ["xformOp:transform"]'
    box = prim(
        'Xform "body"', matrix, order, prim('Cube "box"', apis=["PhysicsCollisionAPI"]), apis=["PhysicsRigidBodyAPI"]
    )
    described = read_usd(write_stage(tmp_path, box), diagnostics=diagnostics)
    assert {d.origin.path for d in diagnostics.claim_all("usd.perspective")} == {"/body", "/body/box"}
    assert described.links[0].pose is not None
    np.testing.assert_allclose(described.links[0].pose.position, (3, 0, 0))


@pytest.mark.parametrize("target", ["/off", "/off/part"])
def test_a_joint_to_a_disabled_body_or_a_part_of_it(
    target: str, tmp_path: Path, diagnostics: ClaimedDiagnostics
) -> None:
    """It is held by the world there, and that is more than a note."""
    off = prim('Xform "off"', "bool physics:rigidBodyEnabled = 0", prim('Xform "part"'), apis=["PhysicsRigidBodyAPI"])
    joint = prim('PhysicsFixedJoint "j"', f"rel physics:body0 = <{target}>", "rel physics:body1 = </box>")
    described = read_usd(write_stage(tmp_path, BOX, off, joint), diagnostics=diagnostics)
    assert "/off" in diagnostics.claim("usd.joint-to-disabled-body").message
    assert [(j.parent, j.child) for j in described.joints] == [(None, "box")]


@pytest.mark.parametrize("relationship", ["material:binding", "material:binding:physics"])
def test_a_material_that_is_not_there(relationship: str, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A binding that leads nowhere is said, on whichever prim above the collider it is."""
    box = prim('Cube "box"', apis=["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"])
    above = prim('Xform "above"', f"rel {relationship} = </gone>", box, apis=["MaterialBindingAPI"])
    described = read_usd(write_stage(tmp_path, above), diagnostics=diagnostics)
    found = diagnostics.claim("usd.material-missing")
    assert found.origin.path == "/above"
    assert "/gone" in found.message
    assert described.links[0].shapes[0].surface is None
