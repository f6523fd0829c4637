"""Joints, actuators, tendons, constraints, sensors and the rest: what each element becomes."""

from __future__ import annotations

import math
from pathlib import Path

import mujoco
import numpy as np
import pytest

from kinema.core import Pose
from kinema.description import (
    Approximation,
    Box,
    ConstraintKind,
    HeightField,
    JointKind,
    Mesh,
    Robot,
    Sphere,
    Transmission,
    World,
)
from kinema.read.mjcf import read_mjcf
from kit.diagnostics import ClaimedDiagnostics
from kit.mjcf_texts import BALL, FREE_AND_MOCAP, in_body, read_text, write
from kit.mujoco_models import load

TWO_BODIES = """
<mujoco model="two">
  <worldbody>
    <site name="ws" pos="0 0 1"/>
    <body name="a" pos="1 0 0" euler="10 20 30">
      <joint name="ja" axis="0 1 0"/><geom name="ga" size=".1"/><site name="sa" pos=".1 .2 .3" euler="30 0 0"/>
      <body name="b" pos="0 0 1" euler="0 40 0">
        <joint name="jb" type="slide" axis="1 0 0"/><geom name="gb" type="cylinder" size=".1 .2"/>
        <site name="sb" pos="0 .1 0"/><site name="side" pos=".5 0 0"/>
        <body name="c"><joint name="ball" type="ball"/><geom size=".1"/></body>
      </body>
    </body>
  </worldbody>
  %s
</mujoco>
"""


def _robot(tmp_path: Path, text: str, diagnostics: ClaimedDiagnostics) -> Robot:
    robot = read_text(tmp_path, text, diagnostics)
    assert isinstance(robot, Robot)
    return robot


# -- joints -----------------------------------------------------------------------------------------------------------


def test_joint_kinds(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A hinge is continuous unless it is limited, a ball's limit bounds the whole angle, a free joint has no parent."""
    robot = _robot(
        tmp_path,
        f"""<mujoco><worldbody><body name="a"><freejoint name="free"/>{BALL}
        <body name="b"><joint name="endless"/>{BALL}<body name="c"><joint name="bounded" range="-90 45"/>{BALL}
        <body name="d"><joint name="slide" type="slide" range="-1 2" axis="0 0 3"/>{BALL}
        <body name="e"><joint name="ball" type="ball" range="0 30"/>{BALL}<body name="f">{BALL}</body></body></body>
        </body></body></body></worldbody></mujoco>""",
        diagnostics,
    )
    assert [j.kind for j in robot.joints] == [
        JointKind.FREE,
        JointKind.CONTINUOUS,
        JointKind.REVOLUTE,
        JointKind.PRISMATIC,
        JointKind.SPHERICAL,
        JointKind.FIXED,
    ]
    assert robot.joint("free").parent is None
    assert robot.joint("bounded").axes[0].lower == pytest.approx(-math.pi / 2)
    assert robot.joint("slide").axes[0].upper == 2.0
    np.testing.assert_array_equal(robot.joint("slide").axes[0].direction, [0, 0, 1])
    cone = robot.joint("ball").cone
    assert cone is not None
    assert cone.total
    assert cone.angle_y == pytest.approx(math.pi / 6)
    fixed = robot.joints[-1]
    assert fixed.implicit
    assert fixed.name_is_generated
    assert (fixed.name, fixed.parent, fixed.child) == ("f_fixed", "e", "f")


def test_joint_dynamics(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Springs, dampers, friction, rotor inertia, force limits and soft limits, in SI."""
    robot = _robot(
        tmp_path,
        in_body("").replace(
            '<joint name="j" axis="0 0 1"/>',
            '<joint name="j" ref="20" springref="10" stiffness="3" damping="4" armature=".5" frictionloss=".6" '
            'range="-90 90" actuatorfrcrange="-2 7" margin=".1" solreflimit=".01 2" solimpfriction=".8 .9 .01 .5 2" '
            'group="3" actuatorgravcomp="true" user="1 2"/>',
        ),
        diagnostics,
    )
    joint = robot.joint("j")
    axis = joint.axes[0]
    assert axis.reference == pytest.approx(math.radians(20))
    assert joint.state is not None
    np.testing.assert_allclose(joint.state, [math.radians(20)])
    assert joint.initial is None
    assert axis.spring_reference == pytest.approx(math.radians(10))
    assert (axis.stiffness, axis.damping, axis.armature, axis.friction, axis.effort) == (3, 4, 0.5, 0.6, 7)
    assert (axis.limit_solver.solref, axis.limit_solver.solimp, axis.limit_solver.margin) == ((0.01, 2), None, 0.1)
    assert axis.friction_solver.solimp == (0.8, 0.9, 0.01, 0.5, 2)
    assert joint.attributes == {
        "mjcf:group": 3,
        "mjcf:actuatorfrcrange": (-2.0, 7.0),
        "mjcf:actuatorgravcomp": True,
        "mjcf:user": (1.0, 2.0),
    }


def test_polynomial_springs(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Higher powers of springs and dampers (MuJoCo 3.6) are kept."""
    if not hasattr(mujoco.MjModel, "jnt_stiffnesspoly"):
        pytest.skip("this MuJoCo has no polynomial springs")
    text = in_body("").replace('axis="0 0 1"', 'stiffness="1 2 3" damping="4 5 6"')
    joint = _robot(tmp_path, text, diagnostics).joint("j")
    assert (joint.axes[0].stiffness, joint.axes[0].damping) == (1.0, 4.0)
    assert joint.attributes["mjcf:stiffnesspoly"] == (2.0, 3.0)
    assert joint.attributes["mjcf:dampingpoly"] == (5.0, 6.0)


# -- links and shapes -------------------------------------------------------------------------------------------------


def test_link_settings(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Gravity compensation, mocap, and whether the inertia is MuJoCo's own work."""
    world = read_text(tmp_path, FREE_AND_MOCAP, diagnostics)
    assert isinstance(world, World)
    assert [r.name for r in world.robots] == ["drone", "hand", "table"]
    assert [r.static for r in world.robots] == [False, False, True]
    assert world.robots[1].link("hand").kinematic
    assert world.robots[0].link("drone").inertial_is_computed
    robot = _robot(
        tmp_path,
        '<mujoco><worldbody><body name="b" gravcomp=".75"><joint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
        '<body name="massless"/></body></worldbody></mujoco>',
        diagnostics,
    )
    assert robot.link("b").gravity_scale == 0.25
    assert not robot.link("b").inertial_is_computed
    assert robot.link("massless").inertial is None


def test_visible_and_colliding(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Shapes are for the eye unless transparent, and for collision if a mask or a pair says so."""
    robot = _robot(
        tmp_path,
        """<mujoco><worldbody><body name="a"><joint/><geom name="both" size=".1" group="2"/>
        <geom name="seen" size=".1" contype="0" conaffinity="0"/><geom name="felt" size=".1" rgba="1 1 1 0"/>
        <geom name="paired" size=".1" contype="0" conaffinity="0"/>
        <body name="b"><joint/><geom name="other" size=".1"/></body></body></worldbody>
        <contact><pair geom1="paired" geom2="other"/></contact></mujoco>""",
        diagnostics,
    )
    assert {s.name: (s.visual, s.collision, s.group) for s in robot.link("a").shapes} == {
        "both": (True, True, 2),
        "seen": (True, False, 0),
        "felt": (False, True, 0),
        "paired": (True, True, 0),
    }


def test_materials(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A geom has its material's colour, or its own where it has one; textures keep their file."""
    (tmp_path / "wood.png").write_bytes(b"not looked at")
    robot = _robot(
        tmp_path,
        '<mujoco><asset><material name="m" rgba="1 0 0 .5" emission=".5" specular=".2" shininess=".9" reflectance=".3"'
        ' metallic=".4" roughness=".6"/><texture name="t" type="2d" file="wood.png"/>'
        '<material name="wood" texture="t"/>'
        "</asset>"
        + in_body(
            '<geom size=".1" material="m"/><geom size=".1" material="m" rgba="0 1 0 1"/>'
            '<geom size=".1" material="wood"/>'
        ).removeprefix('<mujoco model="m">'),
        diagnostics,
    )
    _, red, green, wood = (s.material for s in robot.link("b").shapes)
    assert red is not None
    assert (red.name, red.color, red.emission) == ("m", (1, 0, 0, 0.5), (0.5, 0, 0))
    assert (red.specular, red.reflectance, red.metallic, red.roughness) == (0.2, 0.3, 0.4, 0.6)
    assert green is not None
    assert green.color == (0, 1, 0, 1)
    assert wood is not None
    assert wood.texture == str(tmp_path / "wood.png")


def test_meshes_in_place(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Vertices as written with their scale, the convex hull for collision, height fields in metres."""
    world = read_text(
        tmp_path,
        """<mujoco><asset><mesh name="m" vertex="0 0 0 1 0 0 0 1 0 0 0 1" scale="2 2 2" maxhullvert="7"/>
        <hfield name="h" nrow="2" ncol="3" size="1 2 3 .5" elevation="0 1 2 3 4 5"/></asset>
        <worldbody><geom type="hfield" hfield="h"/><body><geom type="mesh" mesh="m"/></body></worldbody></mujoco>""",
        diagnostics,
    )
    assert isinstance(world, World)
    mesh = world.links[0].shapes[0].geometry
    assert isinstance(mesh, Mesh)
    assert mesh.vertices is not None
    np.testing.assert_array_equal(mesh.vertices, [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    np.testing.assert_array_equal(mesh.scale, [2, 2, 2])
    assert (mesh.approximation, mesh.max_hull_vertices) == (Approximation.CONVEX_HULL, 7)
    field = world.shapes[0].geometry
    assert isinstance(field, HeightField)
    assert (field.size, field.base) == ((2, 4), 0.5)
    # the elevation's first row is the far one (+y); ours is the near one
    np.testing.assert_allclose(field.heights, 3 * np.array([[3, 4, 5], [0, 1, 2]]) / 5, atol=1e-6)


# -- actuators --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("element", "transmission", "target", "reference"),
    [
        ('<motor name="x" joint="ja"/>', Transmission.JOINT, "ja", ""),
        ('<motor name="x" jointinparent="ja"/>', Transmission.JOINT_IN_PARENT, "ja", ""),
        ('<motor name="x" tendon="t"/>', Transmission.TENDON, "t", ""),
        ('<motor name="x" site="sa"/>', Transmission.SITE, "sa", ""),
        ('<motor name="x" site="sa" refsite="sb"/>', Transmission.SITE, "sa", "sb"),
        ('<motor name="x" cranksite="sa" slidersite="sb" cranklength="2"/>', Transmission.SLIDER_CRANK, "sa", "sb"),
        ('<adhesion name="x" body="b" ctrlrange="0 1"/>', Transmission.BODY, "b", ""),
    ],
)
def test_transmissions(
    tmp_path: Path,
    diagnostics: ClaimedDiagnostics,
    element: str,
    transmission: Transmission,
    target: str,
    reference: str,
) -> None:
    """What an actuator pulls on."""
    tendon = '<tendon><fixed name="t"><joint joint="ja" coef="1"/></fixed></tendon>'
    robot = _robot(tmp_path, TWO_BODIES % f"{tendon}<actuator>{element}</actuator>", diagnostics)
    actuator = robot.actuators[0]
    assert (actuator.transmission, actuator.target, actuator.reference) == (transmission, target, reference)
    assert actuator.crank_length == (2 if transmission is Transmission.SLIDER_CRANK else 0)


def test_actuator_shortcuts(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Shortcuts come down to gain, bias and dynamics; the word is kept."""
    robot = _robot(
        tmp_path,
        TWO_BODIES
        % """<actuator>
        <motor name="m" joint="ja" gear="5" ctrlrange="-1 1" forcerange="-2 2"/>
        <position name="p" joint="ja" kp="10" kv="2"/>
        <velocity name="v" joint="ja" kv="3"/>
        <intvelocity name="i" joint="ja" kp="4" actrange="-1 1"/>
        <muscle name="u" joint="jb" lengthrange=".1 2"/>
        <general joint="ja" dyntype="filter" dynprm="2" gaintype="affine" gainprm="1 2 3" biastype="affine"
                 biasprm="4 5 6" group="3"/>
        </actuator>""",
        diagnostics,
    )
    by_name = {a.name: a for a in robot.actuators}
    motor, position = by_name["m"], by_name["p"]
    assert (motor.gear[0], motor.control_range, motor.force_range) == (5, (-1, 1), (-2, 2))
    assert (motor.gain_type, motor.gain[0], motor.bias_type) == ("fixed", 1, "none")
    assert (position.gain[0], position.bias_type, position.bias[:3]) == (10, "affine", (0, -10, -2))
    assert position.control_range == (-math.inf, math.inf)
    assert by_name["v"].bias[:3] == (0, 0, -3)
    assert (by_name["i"].dynamics_type, by_name["i"].activation_range) == ("integrator", (-1, 1))
    assert (by_name["u"].gain_type, by_name["u"].length_range) == ("muscle", (0.1, 2))
    general = robot.actuators[-1]
    assert general.name_is_generated
    assert (general.dynamics_type, general.dynamics[0]) == ("filter", 2)
    assert (general.gain[:3], general.bias[:3]) == ((1, 2, 3), (4, 5, 6))
    assert general.settings["group"] == 3
    assert [a.settings["shortcut"] for a in robot.actuators] == [
        "motor", "position", "velocity", "intvelocity", "muscle", "general"
    ]  # fmt: skip


@pytest.mark.skipif(not hasattr(mujoco.mjtTrn, "mjTRN_SO3"), reason="this MuJoCo has no orientation servos")
def test_orientation_servos(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """An actuator with several controls: its values in a keyframe are kept together."""
    robot = _robot(
        tmp_path,
        TWO_BODIES
        % """<actuator><motor name="m" joint="ja"/><orientation name="o" joint="ball" kp="3"/>
        <orientation name="s" site="sa" refsite="sb" kp="3"/></actuator>
        <keyframe><key ctrl="1 2 3 4 5 6 7"/></keyframe>""",
        diagnostics,
    )
    _, ball, site = robot.actuators
    assert (ball.transmission, ball.target) == (Transmission.ORIENTATION, "ball")
    assert (site.transmission, site.target, site.reference) == (Transmission.ORIENTATION, "sa", "sb")
    assert robot.keyframes[0].controls == {"m": 1.0}
    assert robot.keyframes[0].attributes["mjcf:controls"] == {"o": (2.0, 3.0, 4.0), "s": (5.0, 6.0, 7.0)}


# -- tendons and constraints ------------------------------------------------------------------------------------------


def test_tendons(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Fixed sums and spatial paths with pulleys and wrapped geoms."""
    robot = _robot(
        tmp_path,
        TWO_BODIES
        % """<tendon><fixed name="f" range="-1 2" stiffness="3" damping="4"><joint joint="ja" coef="2"/>
        <joint joint="jb" coef="-1"/></fixed>
        <spatial name="s" springlength=".1 .2" width=".01" rgba="1 0 0 1" frictionloss=".3"><site site="ws"/>
        <geom geom="gb" sidesite="side"/><site site="sb"/><pulley divisor="2"/><site site="sa"/><site site="side"/>
        </spatial></tendon>""",
        diagnostics,
    )
    fixed, spatial = robot.tendons
    assert fixed.is_fixed
    assert [(i.target, i.coefficient) for i in fixed.path] == [("ja", 2), ("jb", -1)]
    assert (fixed.lower, fixed.upper, fixed.stiffness, fixed.damping) == (-1, 2, 3, 4)
    assert fixed.spring_length is None
    assert [(i.kind.value, i.target, i.side) for i in spatial.path] == [
        ("site", "ws", ""),
        ("wrap", "gb", "side"),
        ("site", "sb", ""),
        ("pulley", "", ""),
        ("site", "sa", ""),
        ("site", "side", ""),
    ]
    assert spatial.path[3].coefficient == 2
    assert (spatial.spring_length, spatial.width, spatial.friction) == ((0.1, 0.2), 0.01, 0.3)
    assert spatial.color == (1, 0, 0, 1)


def test_frames_that_constraints_hold_together(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """At the reference configuration the two frames of a weld coincide, and so do the points of a connect."""
    text = TWO_BODIES % (
        '<equality><connect name="c" body1="a" body2="b" anchor=".1 .2 .3"/><weld name="w" body1="a" body2="c"/>'
        '<weld name="anchored" body1="a" body2="b" anchor=".3 .2 .1" torquescale="4"/><weld name="world" body1="b"/>'
        '<connect name="sites" site1="sa" site2="sb" active="false" solref=".1 1"/></equality>'
    )
    robot = _robot(tmp_path, text, diagnostics)
    model = load(write(tmp_path, text))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    poses: dict[str | None, Pose] = {None: Pose(), **robot.link_poses()}
    for constraint in robot.constraints[:4]:
        one, other = poses[constraint.a] @ constraint.pose_a, poses[constraint.b] @ constraint.pose_b
        distance, angle = one.distance(other)
        assert distance < 1e-12
        assert constraint.kind is ConstraintKind.CONNECT or angle < 1e-12
    assert robot.constraints[2].torque_scale == 4
    sites = robot.constraints[4]
    assert (sites.a, sites.b, sites.active, sites.solver.solref) == ("a", "b", False, (0.1, 1))
    for name, link, pose in (("sa", sites.a, sites.pose_a), ("sb", sites.b, sites.pose_b)):
        np.testing.assert_allclose((poses[link] @ pose).position, data.site(name).xpos, atol=1e-12)


def test_joint_and_tendon_constraints(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Polynomials between joints or tendons, or a constant."""
    robot = _robot(
        tmp_path,
        TWO_BODIES
        % """<tendon><fixed name="s"><joint joint="ja" coef="2"/></fixed><fixed name="t"><joint joint="jb" coef="2"/>
        </fixed></tendon><equality><joint joint1="ja" joint2="jb" polycoef="1 2 3 4 5"/><joint joint1="ja"/>
        <tendon tendon1="s" tendon2="t"/></equality>""",
        diagnostics,
    )
    both, constant, tendons = robot.constraints
    assert (both.kind, both.a, both.b, both.polynomial) == (ConstraintKind.JOINT, "ja", "jb", (1, 2, 3, 4, 5))
    assert (constant.a, constant.b) == ("ja", None)
    assert (tendons.kind, tendons.a, tendons.b) == (ConstraintKind.TENDON, "s", "t")


# -- sensors, frames, cameras, lights, keyframes, settings ------------------------------------------------------------


@pytest.mark.parametrize(
    ("element", "target", "reference"),
    [
        ('<gyro site="sa" noise=".1" cutoff="5"/>', ("frame", "sa"), ("", "")),
        ('<jointpos joint="ja"/>', ("joint", "ja"), ("", "")),
        ('<ballquat joint="ball"/>', ("joint", "ball"), ("", "")),
        ('<actuatorfrc actuator="m"/>', ("actuator", "m"), ("", "")),
        ('<framepos objtype="body" objname="b" reftype="site" refname="sa"/>', ("link", "b"), ("frame", "sa")),
        ('<framequat objtype="geom" objname="ga"/>', ("shape", "ga"), ("", "")),
        ('<subtreecom body="a"/>', ("link", "a"), ("", "")),
        ("<clock/>", ("", ""), ("", "")),
        ('<user dim="3" objtype="body" objname="a" datatype="axis" needstage="vel"/>', ("link", "a"), ("", "")),
    ],
)
def test_sensors(
    tmp_path: Path, diagnostics: ClaimedDiagnostics, element: str, target: tuple[str, str], reference: tuple[str, str]
) -> None:
    """Sensors keep MuJoCo's word and point at the description's parts."""
    rest = f'<actuator><motor name="m" joint="ja"/></actuator><sensor>{element}</sensor>'
    sensor = _robot(tmp_path, TWO_BODIES % rest, diagnostics).sensors[0]
    assert element.startswith(f"<{sensor.kind}")
    assert ((sensor.target_kind, sensor.target), (sensor.reference_kind, sensor.reference)) == (target, reference)
    if sensor.kind == "gyro":
        assert (sensor.noise, sensor.cutoff) == (0.1, 5.0)
    if sensor.kind == "user":
        assert (sensor.settings["dim"], sensor.settings["datatype"], sensor.settings["needstage"]) == (3, "axis", "vel")


def test_sites_are_frames(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A site has a link, a pose, a marker and a colour; without a name it gets one that says so."""
    robot = _robot(
        tmp_path,
        in_body(
            '<site name="s" pos="1 2 3" euler="90 0 0" type="box" size=".1 .2 .3" rgba="0 1 0 1" group="4"/><site/>'
        ),
        diagnostics,
    )
    named, nameless = robot.frames
    assert (named.link, named.color, named.attributes) == ("b", (0, 1, 0, 1), {"mjcf:group": 4})
    np.testing.assert_allclose(named.pose.rotation, [[1, 0, 0], [0, 0, -1], [0, 1, 0]], atol=1e-12)
    assert isinstance(named.marker, Box)
    np.testing.assert_allclose(named.marker.size, [0.2, 0.4, 0.6])
    assert isinstance(nameless.marker, Sphere)
    assert (nameless.name, nameless.name_is_generated) == ("b_site", True)


def test_cameras_and_lights(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Cameras look along -z, lights shine along -z; both may stand in the world of a lone robot."""
    text = in_body('<camera name="eye" fovy="30" pos="0 0 1" resolution="640 480" mode="targetbody" target="b"/>')
    text = text.replace(
        "<worldbody>",
        '<worldbody><light name="sun" type="directional" dir="1 0 -1" diffuse=".1 .2 .3"'
        ' castshadow="false"/><camera name="ortho" orthographic="true" fovy="2"/>',
    )
    if hasattr(mujoco, "mjtProjection"):
        text = text.replace('orthographic="true"', 'projection="orthographic"')
    robot = _robot(tmp_path, text, diagnostics)
    diagnostics.claim("mjcf.orthographic-camera")
    eye = next(c for c in robot.cameras if c.name == "eye")
    assert (eye.link, eye.resolution, eye.settings["target"]) == ("b", (640, 480), "b")
    assert eye.vertical_fov == pytest.approx(math.pi / 6)
    assert next(c for c in robot.cameras if c.name == "ortho").settings["height"] == 2.0
    sun = robot.lights[0]
    assert (sun.kind, sun.link, sun.casts_shadow, sun.color) == ("directional", None, False, (0.1, 0.2, 0.3))
    np.testing.assert_allclose(-sun.pose.rotation[:, 2], np.array([1, 0, -1]) / math.sqrt(2), atol=1e-12)


def test_keyframes_are_split_by_joint(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Coordinates and velocities by joint, poses of mocap bodies; a keyframe over several robots is the world's."""
    world = read_text(tmp_path, FREE_AND_MOCAP, diagnostics)
    home = world.keyframes[0]
    assert (home.name, home.time) == ("home", 3.0)
    np.testing.assert_array_equal(home.positions["free"], [1, 2, 3, 0, 1, 0, 0])
    np.testing.assert_array_equal(home.positions["j"], [0.5])
    np.testing.assert_array_equal(home.positions["f"], [0.25])
    assert {name: list(v) for name, v in home.velocities.items()} == {"j": [2.0]}
    np.testing.assert_array_equal(home.kinematic_poses["hand"].position, [4, 5, 6])
    assert home.origin.line == 13
    robot = _robot(tmp_path, in_body("", '<keyframe><key name="k" qpos=".5"/></keyframe>'), diagnostics)
    assert robot.keyframes[0].positions["j"] == [0.5]


def test_settings_of_the_file(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Everything of <option>; gravity is what acts."""
    option = (
        '<option timestep=".003" integrator="RK4" cone="elliptic" gravity="0 0 -3" iterations="2000000">%s</option>'
    )
    robot = _robot(tmp_path, in_body("", option % '<flag contact="disable" energy="enable"/>'), diagnostics)
    assert robot.gravity is not None
    np.testing.assert_array_equal(robot.gravity, [0, 0, -3])
    options = robot.options
    assert (options["timestep"], options["integrator"], options["cone"]) == (0.003, "rk4", "elliptic")
    assert options["iterations"] == 2_000_000
    assert options["flags"]["contact"] is False
    assert options["flags"]["energy"] is True
    assert options["flags"]["equality"] is True
    robot = _robot(tmp_path, in_body("", option % '<flag gravity="disable"/>'), diagnostics)
    assert robot.gravity is not None
    np.testing.assert_array_equal(robot.gravity, [0, 0, 0])


# -- robots and worlds ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rest", "robots"),
    [
        ("", ["a", "b", "c"]),
        ('<equality><connect body1="a" body2="b" anchor="0 0 0"/></equality>', ["a", "c"]),
        ('<equality><weld site1="sa" site2="sc"/></equality>', ["a", "b"]),
        ('<equality><joint joint1="ja" joint2="jc"/></equality>', ["a", "b"]),
        ('<tendon><fixed><joint joint="ja" coef="1"/><joint joint="jb" coef="1"/></fixed></tendon>', ["a", "c"]),
        ('<tendon><spatial><site site="sa"/><site site="sb"/></spatial></tendon>', ["a", "c"]),
        ('<actuator><motor site="sa" refsite="sb"/></actuator>', ["a", "c"]),
        ('<equality><connect body1="a" anchor="0 0 0"/></equality>', ["a", "b", "c"]),
        ('<equality><joint joint1="ja" joint2="jb"/><joint joint1="jb" joint2="jc"/></equality>', None),
    ],
)
def test_what_belongs_together(
    tmp_path: Path, diagnostics: ClaimedDiagnostics, rest: str, robots: list[str] | None
) -> None:
    """Constraints, tendons and actuators make one robot of several bodies; the world joins nothing."""
    bodies = "".join(f'<body name="{n}"><joint name="j{n}"/>{BALL}<site name="s{n}"/></body>' for n in "abc")
    found = read_text(tmp_path, f'<mujoco model="m"><worldbody>{bodies}</worldbody>{rest}</mujoco>', diagnostics)
    if robots is None:
        assert isinstance(found, Robot)
        assert found.name == "m"
    else:
        assert isinstance(found, World)
        assert [r.name for r in found.robots] == robots


def test_items_live_with_their_robot(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """What one robot owns is in it; what spans robots, or belongs to none, is the world's."""
    bodies = "".join(f'<body name="{n}"><joint name="j{n}"/>{BALL}<site name="s{n}"/></body>' for n in "ab")
    world = read_text(
        tmp_path,
        f'<mujoco model="m"><worldbody><site name="w"/><light name="sun"/>{bodies}</worldbody>'
        '<actuator><motor name="mb" joint="jb"/></actuator>'
        '<sensor><gyro name="ga" site="sa"/><clock name="time"/>'
        '<framepos name="both" objtype="site" objname="sa" reftype="site" refname="sb"/></sensor></mujoco>',
        diagnostics,
    )
    assert isinstance(world, World)
    a, b = world.robots
    assert ([x.name for x in a.sensors], [x.name for x in b.actuators]) == (["ga"], ["mb"])
    assert [x.name for x in world.sensors] == ["time", "both"]
    assert ([x.name for x in world.frames], [x.name for x in a.frames]) == (["w"], ["sa"])
    assert [x.name for x in world.lights] == ["sun"]
    assert (world.gravity is not None, a.gravity) == (True, None)
    assert (world.format, a.format) == ("mjcf", "mjcf")


def test_a_floor_makes_a_world(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The lone robot of a world has the model's name; without a name the file's."""
    text = in_body("").replace("<worldbody>", '<worldbody><geom name="floor" type="plane" size="0 0 1"/>')
    world = read_text(tmp_path, text, diagnostics)
    assert isinstance(world, World)
    assert [s.name for s in world.shapes] == ["floor"]
    assert (world.name, world.robots[0].name) == ("m", "m")
    nameless = read_mjcf(write(tmp_path, in_body("").replace(' model="m"', ""), "some_robot.xml"))
    assert (nameless.name, nameless.name_is_generated) == ("some_robot", True)
    empty = read_text(tmp_path, "<mujoco/>", diagnostics)
    assert isinstance(empty, World)
    assert not empty.robots


# -- what has no place ------------------------------------------------------------------------------------------------


def test_kept_as_text(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Viewer settings, custom data, textures and unused assets are kept verbatim without a word."""
    rest = (
        '<visual><global fovy="30"/></visual><custom><numeric name="n" data="1 2"/></custom><size nuserdata="3"/>'
        '<asset><material name="unused"/><texture name="t" builtin="checker" width="9" height="9"/></asset>'
    )
    robot = _robot(tmp_path, in_body("", rest), diagnostics)
    assert {e.tag: e.text for e in robot.extras} == {
        "visual": '<visual><global fovy="30"/></visual>',
        "custom": '<custom><numeric name="n" data="1 2"/></custom>',
        "size": '<size nuserdata="3"/>',
        "material": '<material name="unused"/>',
        "texture": '<texture name="t" builtin="checker" width="9" height="9"/>',
    }
    assert all(e.format == "mjcf" and e.origin.line == 1 for e in robot.extras)


def test_deformables_and_skins_are_said_aloud(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Deformable bodies are more than the description knows; the bodies that carry them are links."""
    text = (
        '<mujoco><worldbody><flexcomp name="cloth" type="grid" count="3 3 1" spacing=".1 .1 .1" radius=".01" mass="1"'
        ' dim="2"/></worldbody><deformable><skin name="s" file="nowhere.skn"/></deformable></mujoco>'
    )
    world = read_text(tmp_path, text, diagnostics)
    assert diagnostics.claim("mjcf.deformable").origin.line == 1
    assert "passive forces" in diagnostics.claim("mjcf.mujoco-warning").message
    assert "skin" in diagnostics.claim("mjcf.skin").message
    assert len(world.links) == 9
    assert {e.tag for e in world.extras} >= {"flexcomp", "deformable"}
    assert isinstance(world, Robot)


def test_plugins_are_said_aloud(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A plugin is a program of MuJoCo's; its element stays with the node it belongs to."""
    text = in_body(
        "",
        '<extension><plugin plugin="mujoco.pid"/></extension><actuator><plugin name="p" joint="j" plugin="mujoco.pid"'
        ' actdim="1"><config key="ki" value="1"/></plugin></actuator>',
    )
    robot = read_text(tmp_path, text, diagnostics)
    diagnostics.claim("mjcf.plugin")
    assert robot.actuators[0].extras[0].tag == "plugin"
    assert "mujoco.pid" in robot.actuators[0].extras[0].text
