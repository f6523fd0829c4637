"""Settings of vendors: every row of the tables with its unit, MuJoCo's prims, and what has no place kept as it is."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from kinema.description import Mesh, SolverParameters, TendonPathKind, Transmission, colliding_pairs
from kinema.read.usd.vendor_schemas import AXIS_ATTRIBUTES, MATERIAL_ATTRIBUTES
from kit.assets import assets
from kit.diagnostics import ClaimedDiagnostics
from kit.usd_conformance.case import agrees, read_text
from kit.usd_stages import COLLIDER, OTHER, SI, body, placed, prim

PER_DEGREE = 180 / math.pi
DEGREE = math.pi / 180
NEWTON_CM = 1e-5
"""g cm/s2 [N]"""
TORQUE_CM = 1e-7
"""g cm2/s2 [N m], and g cm2 [kg m2]"""

JOINT_ROWS = {
    # attribute -> what 2 of it is on a revolute joint, in SI and in other units, and on a prismatic joint likewise
    "newton:armature": (2, 2 * TORQUE_CM, 2, 2e-3),
    "newton:damping": (2 * PER_DEGREE, 2 * TORQUE_CM * PER_DEGREE, 2, 2e-3),
    "newton:friction": (2, 2 * TORQUE_CM, 2, 2 * NEWTON_CM),
    "newton:velocityLimit": (2 * DEGREE, 2 * DEGREE, 2, 2e-2),
    "newton:effortLimit": (2, 2 * TORQUE_CM, 2, 2 * NEWTON_CM),
    "physxJoint:armature": (2, 2 * TORQUE_CM, 2, 2e-3),
    "physxJoint:maxJointVelocity": (2 * DEGREE, 2 * DEGREE, 2, 2e-2),
    "mjc:armature": (2, 2 * TORQUE_CM, 2, 2e-3),
    "mjc:damping": (2, 2 * TORQUE_CM, 2, 2e-3),
    "mjc:frictionloss": (2, 2 * TORQUE_CM, 2, 2 * NEWTON_CM),
    "mjc:stiffness": (2, 2 * TORQUE_CM, 2, 2e-3),
    "mjc:springref": (2 * DEGREE, 2 * DEGREE, 2, 2e-2),
    "mjc:ref": (2 * DEGREE, 2 * DEGREE, 2, 2e-2),
    "urdf:limit:effort": (2, 2, 2, 2),
    "urdf:dynamics:damping": (2, 2, 2, 2),
    "urdf:dynamics:friction": (2, 2, 2, 2),
}
MATERIAL_ROWS = {
    "mjc:torsionalfriction": (2, 2e-2),
    "mjc:rollingfriction": (2, 2e-2),
    "newton:torsionalFriction": (2, 2e-2),
    "newton:rollingFriction": (2, 2e-2),
    "newton:contactStiffness": (2, 2e-3),
    "newton:contactDamping": (2, 2e-3),
}


def hinge(name: str, *lines: str, kind: str = "PhysicsRevoluteJoint", ends: str = "ab") -> str:
    bodies = (f"rel physics:body{i} = </{end}>" for i, end in enumerate(ends))
    return prim(f'{kind} "{name}"', *bodies, *lines)


def test_the_tables_are_covered() -> None:
    """Every row of the reader's tables has numbers here."""
    assert set(JOINT_ROWS) == set(AXIS_ATTRIBUTES)
    assert set(MATERIAL_ROWS) == set(MATERIAL_ATTRIBUTES)


@pytest.mark.parametrize("attribute", JOINT_ROWS)
def test_joint_setting(attribute: str, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The attribute's field in SI, for a joint that turns and one that slides, in two systems of units."""
    found = []
    for kind in ("PhysicsRevoluteJoint", "PhysicsPrismaticJoint"):
        for units in (SI, OTHER):
            text = "\n".join([body("a"), body("b"), hinge("joint", f"double {attribute} = 2", kind=kind)])
            joint = read_text(text, tmp_path, diagnostics, units).joint()
            found.append(getattr(joint.axes[0], AXIS_ATTRIBUTES[attribute][0]))
            assert not joint.extras
    np.testing.assert_allclose(found, JOINT_ROWS[attribute], rtol=1e-12)


@pytest.mark.parametrize(("unit", "expected"), [("radian", 2.0), ("degree", 2 * DEGREE)])
def test_the_unit_of_mujoco_angles(unit: str, expected: float, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The scene's compiler setting says it."""
    scene = prim('PhysicsScene "scene"', f'uniform token mjc:compiler:angle = "{unit}"')
    text = "\n".join([scene, body("a"), body("b"), hinge("joint", "double mjc:springref = 2")])
    assert read_text(text, tmp_path, diagnostics).joint().axes[0].spring_reference == pytest.approx(expected)


@pytest.mark.parametrize("attribute", MATERIAL_ROWS)
def test_material_setting(attribute: str, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The attribute's field in SI; an infinity leaves it unset."""
    field, (plain, other) = MATERIAL_ATTRIBUTES[attribute][0], MATERIAL_ROWS[attribute]
    for value, units, expected in (("2", SI, plain), ("2", OTHER, other), ("-inf", SI, None)):
        material = prim('Material "m"', f"float {attribute} = {value}", apis=["PhysicsMaterialAPI"])
        cube = prim('Cube "collider"', "rel material:binding = </m>", apis=[COLLIDER, "MaterialBindingAPI"])
        surface = read_text(f"{material}\n{body('a', cube)}", tmp_path, diagnostics, units).shape().surface
        assert agrees(getattr(surface, field), expected)


def test_mujoco_on_joints_and_colliders(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Soft limits, the joint's range of forces, and contact parameters without any material."""
    joint = [
        "uniform double[] mjc:solreflimit = [0.01, 1]",
        "uniform double[] mjc:solimplimit = [0.9, 0.95, 0.001, 0.5, 2]",
        "uniform double mjc:actuatorfrcrange:min = -3",
        "uniform double mjc:actuatorfrcrange:max = 5",
    ]
    cube = prim(
        'Cube "collider"',
        "uniform double[] mjc:solref = [0.02, 1]",
        "uniform int mjc:condim = 4",
        "uniform int mjc:priority = 2",
        "uniform double mjc:solmix = 3",
        "uniform double mjc:gap = 0.5",
        "uniform double mjc:margin = 0.25",
        "uniform int mjc:group = 3",
        "uniform token mjc:unheard = 'of'",
        apis=[COLLIDER],
    )
    described = read_text("\n".join([body("a", cube), body("b"), hinge("joint", *joint)]), tmp_path, diagnostics)
    axis = described.joint().axes[0]
    assert axis.limit_solver == SolverParameters(solref=(0.01, 1), solimp=(0.9, 0.95, 0.001, 0.5, 2))
    assert axis.effort == 5.0
    shape = described.shape()
    surface = shape.surface
    assert surface is not None
    assert surface.solver == SolverParameters(solref=(0.02, 1), margin=0.25)
    assert (surface.contact_dimension, surface.priority, surface.solmix, surface.gap) == (4, 2, 3.0, 0.5)
    assert shape.group == 3
    assert [(e.tag, e.text) for e in shape.extras] == [("mjc:unheard", "of")]


def test_hull_vertices(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """How many vertices a convex hull may have."""
    mesh = prim(
        'Mesh "collider"',
        "int[] faceVertexCounts = [3, 3, 3, 3]",
        "int[] faceVertexIndices = [0, 2, 1, 0, 1, 3, 1, 2, 3, 2, 0, 3]",
        "point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]",
        "uniform int newton:maxHullVertices = 32",
        apis=["NewtonMeshCollisionAPI"],  # which brings PhysicsCollisionAPI and PhysicsMeshCollisionAPI along
    )
    shape = read_text(body("a", mesh), tmp_path, diagnostics).shape()
    assert shape.collision
    assert isinstance(shape.geometry, Mesh)
    assert shape.geometry.max_hull_vertices == 32


def test_gravity_switches(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A scene without gravity, and a body that does not feel it."""
    for line in ("bool newton:gravityEnabled = false", "uniform bool mjc:flag:gravity = false"):
        gravity = read_text(prim('PhysicsScene "s"', line), tmp_path, diagnostics).described.gravity
        assert gravity is not None
        assert not gravity.any()
    floating = body("a", "bool physxRigidBody:disableGravity = true")
    assert read_text(floating, tmp_path, diagnostics).link("a").gravity_scale == 0.0


@pytest.mark.parametrize("attribute", ["physxRigidBody:enableCCD", "physxRigidBody:enableSpeculativeCCD"])
def test_continuous_collision(attribute: str, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Either switch of PhysX says that contacts are found along the motion of a body."""
    for value in (True, False):
        text = body("a", f"bool {attribute} = {str(value).lower()}")
        assert read_text(text, tmp_path, diagnostics).link("a").continuous_collision == value


@pytest.mark.parametrize("attribute", ["newton:selfCollisionEnabled", "physxArticulation:enabledSelfCollisions"])
def test_self_collision(attribute: str, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """An articulation that does not collide with itself still collides with others."""
    balls = [
        body(n, placed((i, 0, 0)), prim(f'Sphere "{n}_shape"', "double radius = 0.1", apis=[COLLIDER]),
             apis=("PhysicsArticulationRootAPI",) if n == "a" else ())
        for i, n in enumerate("abcd")
    ]  # fmt: skip
    joints = [hinge(f"j{i}", "point3f physics:localPos0 = (1, 0, 0)", ends=ends) for i, ends in enumerate(("ab", "bc"))]
    text = "\n".join([*balls, *joints])
    place = text.index("{") + 1
    text = f"{text[:place]}\nbool {attribute} = false{text[place:]}"
    described = read_text(text, tmp_path, diagnostics).described
    pairs = {"".join(sorted(x.shape.name[0] for x in pair)) for pair in colliding_pairs(described)}
    assert pairs == {"ad", "bd", "cd"}


# -- MuJoCo's prims ---------------------------------------------------------------------------------------------------

SITE = prim('Sphere "site"', "double radius = 0.01", placed((0, 0, 1)), apis=["MjcSiteAPI"])
WRAPPED = prim('Sphere "pulley"', "double radius = 0.1", apis=[COLLIDER])
TWO = [body("a", SITE, WRAPPED), body("b", prim('Sphere "end"', apis=["MjcSiteAPI"])), hinge("joint")]


def test_sites_are_frames(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A site is a frame on its link, neither seen nor touched."""
    described = read_text("\n".join(TWO), tmp_path, diagnostics).described
    assert [(f.name, f.link) for f in described.frames] == [("site", "a"), ("end", "b")]
    np.testing.assert_allclose(described.frames[0].pose.position, (0, 0, 1))
    assert [s.name for link in described.links for s in link.shapes] == ["pulley"]


def test_tendons(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A sum of joints, and a path by sites, around a shape and over a pulley."""
    fixed = prim(
        'MjcTendon "fixed"',
        'uniform token mjc:type = "fixed"',
        "rel mjc:path = </joint>",
        "uniform double[] mjc:path:coef = [0.5]",
        "uniform double mjc:range:min = -1",
        "uniform double mjc:range:max = 2",
    )
    spatial = prim(
        'MjcTendon "spatial"',
        "rel mjc:path = [</a/site>, </a/pulley>, </b/end>]",
        "uniform int[] mjc:path:indices = [0, 1, 2, 0, 2]",
        "uniform int[] mjc:path:segments = [0, 0, 0, 1, 1]",
        "uniform double[] mjc:path:divisors = [1, 2]",
        "rel mjc:sideSites = </a/site>",
        "uniform int[] mjc:sideSites:indices = [-1, 0, -1]",
        "uniform double[] mjc:springlength = [0.5]",
        "uniform double mjc:stiffness = 7",
    )
    described = read_text("\n".join([*TWO, fixed, spatial]), tmp_path, diagnostics).described
    one, other = described.tendons
    assert [(i.kind, i.target, i.coefficient) for i in one.path] == [(TendonPathKind.JOINT, "joint", 0.5)]
    assert (one.lower, one.upper, one.is_fixed, one.spring_length) == (-1, 2, True, None)
    assert [(i.kind.value, i.target or i.coefficient, i.side) for i in other.path] == [
        ("site", "site", ""),
        ("wrap", "pulley", "site"),
        ("site", "end", ""),
        ("pulley", 2.0, ""),
        ("site", "site", ""),
        ("site", "end", ""),
    ]
    assert (other.lower, other.upper, other.stiffness, other.spring_length) == (-math.inf, math.inf, 7, (0.5, 0.5))


def test_actuators(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A motor on a joint, a servo on a tendon, a force on a site, and one that pulls on nothing."""
    motor = prim(
        'MjcActuator "motor"',
        "rel mjc:target = </joint>",
        "uniform double[] mjc:gear = [40, 0, 0, 0, 0, 0]",
        "uniform double mjc:ctrlRange:min = -1",
        "uniform double mjc:ctrlRange:max = 1",
        'uniform token mjc:forceLimited = "false"',
        "uniform double mjc:forceRange:max = 9",
    )
    tendon = prim('MjcTendon "cord"', "rel mjc:path = </joint>", "uniform double[] mjc:path:coef = [1]")
    servo = prim(
        'MjcActuator "servo"',
        "rel mjc:target = </cord>",
        "uniform double[] mjc:gainPrm = [50, 0, 0]",
        'uniform token mjc:biasType = "affine"',
        "uniform double[] mjc:biasPrm = [0, -50, -1]",
        "uniform int mjc:group = 2",
    )
    thruster = prim('MjcActuator "thruster"', "rel mjc:target = </a/site>", "rel mjc:refSite = </b/end>")
    lost = prim('MjcActuator "lost"', "rel mjc:target = </nowhere>")
    text = "\n".join([*TWO, motor, tendon, servo, thruster, lost])
    described = read_text(text, tmp_path, diagnostics).described
    assert "'lost'" in diagnostics.claim("usd.actuator-target").message
    actuators = {a.name: a for a in described.actuators}
    assert {n: (a.transmission, a.target, a.reference) for n, a in actuators.items()} == {
        "motor": (Transmission.JOINT, "joint", ""),
        "servo": (Transmission.TENDON, "cord", ""),
        "thruster": (Transmission.SITE, "site", "end"),
    }
    assert actuators["motor"].gear[0] == 40
    assert actuators["motor"].control_range == (-1, 1)
    assert actuators["motor"].force_range == (-math.inf, math.inf)
    assert actuators["motor"].gain == (1.0, *(0.0,) * 9)
    assert (actuators["servo"].bias_type, actuators["servo"].bias) == ("affine", (0, -50, -1))
    assert actuators["servo"].settings == {"group": 2}


def test_other_prims_are_kept(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """What has no place in the description stays as text, with a note."""
    text = "\n".join([*TWO, prim('MjcKeyframe "home"', "double[] mjc:qpos = [0.5]")])
    described = read_text(text, tmp_path, diagnostics).described
    assert [(e.tag, e.text) for e in described.extras] == [("MjcKeyframe", "mjc:qpos = [0.5]")]
    assert "usd.kept-prim" in diagnostics.codes()


def test_a_humanoid_for_mujoco(diagnostics: ClaimedDiagnostics) -> None:
    """A stage of MuJoCo's schema without any word on mobility: 21 joints are 21 degrees of freedom, all actuated."""
    from kinema.read.usd import read_usd

    described = read_usd(assets("usd/newton_tests/humanoid_mjc.usda"), diagnostics=diagnostics)
    assert (len(described.joints), described.n_dofs, len(described.actuators)) == (21, 21, 21)
    assert {a.target for a in described.actuators} == {j.name for j in described.joints}
    assert "usd.stacked-joints" in diagnostics.codes()
