"""What OpenUSD's physics validators complain of, `kinema check` complains of as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinema.check import check
from kinema.core import collect
from kinema.read import openusd_validation, read
from kit.usd_stages import BODY, COLLIDER, EIGHTH_Z, MASS, ROOT, placed, prim, write_stage

CUBE = prim('Cube "cube"', apis=[COLLIDER])


def body(*lines: str, name: str = "body", kind: str = "Xform", apis: tuple[str, ...] = ()) -> str:
    return prim(f'{kind} "{name}"', *lines, apis=[BODY, *apis])


def shape(kind: str, *lines: str) -> str:
    return body(prim(f'{kind} "shape"', *lines, apis=[COLLIDER]))


def joint(*lines: str) -> str:
    return prim('PhysicsFixedJoint "joint"', *lines)


INSTANCE = 'def "copy" (\n    instanceable = true\n    references = </proto>\n)\n{\n}'
CASES: dict[str, list[tuple[str, list[str]]]] = {
    "ArticulationOnStaticBody": [
        ("usd.articulation-on-disabled-body", [body("bool physics:rigidBodyEnabled = 0", apis=(ROOT,))])
    ],
    "NestedArticulation": [("usd.nested-articulation", [prim('Xform "top"', body(CUBE, apis=(ROOT,)), apis=[ROOT])])],
    "RigidBodyOrientationScale": [
        ("usd.sheared-body", [prim('Xform "top"', placed(scale=(1, 3, 1)), body(placed(orient=EIGHTH_Z), CUBE))])
    ],
    "RigidBodyNonXformable": [("usd.body-not-xformable", [body(kind="Scope")])],
    "RigidBodyNonInstanceable": [("usd.body-in-instance", [prim('Xform "proto"', body(CUBE)), INSTANCE])],
    "JointInvalidPrimRel": [
        ("usd.joint-target", [body(CUBE), joint("rel physics:body0 = </body>", "rel physics:body1 = </gone>")])
    ],
    "JointMultiplePrimsRel": [
        (
            "usd.joint-several-targets",
            [body(CUBE), body(CUBE, name="other"), joint("rel physics:body1 = [</body>, </other>]")],
        )
    ],
    "JointRelNotXformable": [
        (
            "usd.joint-target",
            [body(CUBE), prim('Scope "none"'), joint("rel physics:body0 = </none>", "rel physics:body1 = </body>")],
        )
    ],
    "JointNoEnabledRigidBody": [
        ("usd.joint-to-itself", [prim('Xform "still"'), joint("rel physics:body1 = </still>")])
    ],
    "ColliderNonUniformScale": [
        ("usd.uneven-collider", [shape(kind, placed(scale=(1, 2, 3)))])
        for kind in ("Sphere", "Capsule", "Cylinder", "Cone")
    ],
    "ColliderPlaneDynamic": [("usd.plane-on-body", [shape("Plane")])],
    "ColliderSpherePointsDataMissing": [
        ("usd.unsupported-geometry", [shape("Points", "point3f[] points = [(0, 0, 0)]")])
    ],
    "MassInvalidValues": [("usd.bad-mass", [body("float physics:mass = -1", CUBE, apis=(MASS,))])],
    "DensityInvalidValues": [("usd.bad-mass", [body("float physics:density = -1", CUBE, apis=(MASS,))])],
    "InertiaInvalidValues": [
        (
            "usd.inertia-without-axes",
            [body("float physics:mass = 1", "float3 physics:diagonalInertia = (1, 1, 1)", CUBE, apis=(MASS,))],
        ),
        (
            "inertia.not-positive",
            [
                body(
                    "float physics:mass = 1",
                    "float3 physics:diagonalInertia = (1, -1, 1)",
                    "quatf physics:principalAxes = (1, 0, 0, 0)",
                    CUBE,
                    apis=(MASS,),
                )
            ],
        ),
    ],
}
"""Error of OpenUSD's -> for each way to it, our code and a stage."""


@pytest.mark.parametrize(
    ("error", "code", "prims"), [(error, *case) for error, cases in CASES.items() for case in cases]
)
def test_every_error_of_openusd_is_found(error: str, code: str, prims: list[str], tmp_path: Path) -> None:
    """Both lists name it."""
    file = write_stage(tmp_path, *prims)
    theirs = {d.code for d in openusd_validation(file)}
    assert f"openusd.{error}" in theirs
    described = read(file, policy=collect)
    assert code in {d.code for d in [*described.diagnostics, *check(described)]}


def test_a_sound_stage_has_nothing_of_this(tmp_path: Path) -> None:
    """Even scale, no shear, axes with the inertia: neither says a word."""
    ball = prim('Sphere "ball"', placed(scale=(2, 2, 2)), apis=[COLLIDER])
    mass = (
        "float physics:mass = 1",
        "float3 physics:diagonalInertia = (1, 1, 1)",
        "quatf physics:principalAxes = (1, 0, 0, 0)",
    )
    top = prim('Xform "top"', placed(orient=EIGHTH_Z), body(placed(orient=EIGHTH_Z), *mass, ball, apis=(MASS,)))
    file = write_stage(tmp_path, top)
    assert not openusd_validation(file)
    assert not list(read(file, policy=collect).diagnostics)
