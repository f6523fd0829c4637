"""What the files look like, and that MuJoCo takes them whatever the description holds."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import mujoco
import numpy as np
import pytest
from hypothesis import given, strategies as st

import kinema
from kinema.core import Pose, WriteError, collect
from kinema.description import (
    Base,
    Box,
    Extra,
    Frame,
    HeightField,
    Inertial,
    Joint,
    JointKind,
    Link,
    Mesh,
    PhysicsMaterial,
    Plane,
    Robot,
    Shape,
    Sphere,
    VisualMaterial,
    World,
    rotation,
    translation,
)
from kinema.geometry import box
from kinema.read import read
from kinema.write.mjcf.attributes import degrees_text, direction_text, quaternion_text, valid_range
from kit.mujoco_models import load
from kit.written.mjcf import assert_masses, write

ARM = """\
<mujoco model="arm">
  <compiler angle="radian" autolimits="true"/>
  <default>
    <joint damping="0.5" armature="0.01"/>
    <default class="visual">
      <geom contype="0" conaffinity="0" group="2"/>
    </default>
    <default class="collision">
      <geom group="3" friction="0.8 0.005 0.0001"/>
    </default>
  </default>
  <asset>
    <material name="red" rgba="1 0 0 1"/>
  </asset>
  <worldbody>
    <body name="base">
      <inertial mass="2" pos="0 0 0.1" diaginertia="0.1 0.2 0.3"/>
      <geom name="base_seen" class="visual" type="box" size="0.1 0.2 0.05" material="red"/>
      <geom name="base_felt" class="collision" size="0.1"/>
      <body name="link" pos="0 0 0.2" quat="1 1 0 0">
        <inertial mass="1.25" pos="0 0 0" fullinertia="0.2 0.25 0.3 0.01 0.02 0.03"/>
        <joint name="turn" axis="0 1 0" range="-1.5 1.5" actuatorfrcrange="-20 20"/>
        <geom name="link_seen" class="visual" type="cylinder" size="0.05 0.2" pos="0 0 0.2"/>
        <geom name="link_felt" class="collision" type="capsule" size="0.05 0.2" pos="0 0 0.2"/>
        <site name="tip" pos="0 0 0.4"/>
        <body name="finger" pos="0 0 0.4">
          <inertial mass="0.1" pos="0 0 0" diaginertia="0.001 0.001 0.001"/>
          <joint name="grip" type="slide" axis="1 0 0" range="0 0.04"/>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def arm() -> Robot:
    """A small arm as a person would draw it."""
    rubber = PhysicsMaterial(static_friction=0.8, dynamic_friction=0.8)
    red = VisualMaterial(name="red", color=(1.0, 0.0, 0.0, 1.0))
    up = Pose.translation((0.0, 0.0, 0.2))
    base = Link(name="base", inertial=Inertial(2.0, np.array([0.0, 0.0, 0.1]), np.diag([0.1, 0.2, 0.3])))
    base.shapes = [
        Shape(name="base_seen", geometry=Box(np.array([0.2, 0.4, 0.1])), collision=False, material=red),
        Shape(name="base_felt", geometry=Sphere(0.1), visual=False, surface=rubber),
    ]
    tensor = np.array([[0.2, 0.01, 0.02], [0.01, 0.25, 0.03], [0.02, 0.03, 0.3]])
    link = Link(name="link", inertial=Inertial(1.25, np.zeros(3), tensor))
    link.shapes = [
        Shape(name="link_seen", geometry=kinema.description.Cylinder(0.05, 0.4), pose=up, collision=False),
        Shape(name="link_felt", geometry=kinema.description.Capsule(0.05, 0.4), pose=up, visual=False, surface=rubber),
    ]
    finger = Link(name="finger", inertial=Inertial(0.1, np.zeros(3), 0.001 * np.eye(3)))
    turn = rotation((0, 1, 0), lower=-1.5, upper=1.5, effort=20.0, damping=0.5, armature=0.01)
    grip = translation((1, 0, 0), lower=0.0, upper=0.04, damping=0.5, armature=0.01)
    quarter = Pose.from_rpy((0.0, 0.0, 0.2), (math.pi / 2, 0.0, 0.0))
    return Robot(
        name="arm",
        links=[base, link, finger],
        joints=[
            Joint(name="turn", kind=JointKind.REVOLUTE, parent="base", child="link", parent_pose=quarter, axes=[turn]),
            Joint(name="grip", kind=JointKind.PRISMATIC, parent="link", child="finger", axes=[grip]),
        ],
        base=Base.FIXED,
        frames=[Frame(name="tip", link="link", pose=Pose.translation((0.0, 0.0, 0.4)))],
    )


def test_it_reads_as_if_a_person_had_written_it(tmp_path: Path) -> None:
    """The whole text of a small robot."""
    robot = arm()
    robot.joints[1].parent_pose = Pose.translation((0.0, 0.0, 0.4))
    report = kinema.write(robot, tmp_path / "arm.xml")
    assert (tmp_path / "arm.xml").read_text() == ARM
    assert list(report) == []


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    """Order is stable, and what was written is read as it was."""
    kinema.write(arm(), tmp_path / "a.xml")
    kinema.write(arm(), tmp_path / "b.mjcf")
    kinema.write(read(tmp_path / "a.xml"), tmp_path / "c.xml")
    assert (tmp_path / "a.xml").read_bytes() == (tmp_path / "b.mjcf").read_bytes()
    assert (tmp_path / "a.xml").read_bytes() == (tmp_path / "c.xml").read_bytes()


# -- numbers ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-1, 1), min_size=4, max_size=4).filter(lambda q: np.linalg.norm(q) > 1e-3))
def test_quaternions_lose_no_digits(q: list[float]) -> None:
    """MuJoCo's normalised quaternion gives back the rotation."""
    rotation_of = Pose.from_quaternion((0, 0, 0), q).rotation
    text = f'<mujoco><worldbody><body quat="{quaternion_text(rotation_of)}"/></worldbody></mujoco>'
    back = mujoco.MjModel.from_xml_string(text).body_quat[1]
    assert np.abs(Pose.from_quaternion((0, 0, 0), back).rotation - rotation_of).max() < 2e-15


def test_directions_in_whole_numbers() -> None:
    """Where whole numbers say the same they are written."""
    assert direction_text(np.array([0.0, math.sqrt(0.5), -math.sqrt(0.5)])) == "0 1 -1"
    assert direction_text(np.array([0.0, 0.6, 0.8])) == "0 0.6 0.8"
    assert direction_text(np.array([1e-17, -1.0, 0.0])) == "0 -1 0"


@given(st.floats(-1e6, 1e6))
def test_degrees_give_back_radians(degrees: float) -> None:
    """The shortest decimal that gives back the very radians, where one exists."""
    radians = math.radians(degrees)
    assert math.isclose(math.radians(float(degrees_text(radians))), radians, rel_tol=1e-15)
    assert degrees_text(math.radians(45.0)) == "45"


def test_ranges_that_mujoco_takes() -> None:
    """One-sided ranges stay so; a single point becomes as narrow a range as there is; nonsense is none."""
    assert valid_range(-math.inf, math.inf) is None
    assert valid_range(2.0, 1.0) is None
    assert valid_range(math.nan, 1.0) is None
    assert valid_range(-math.inf, 1.0) == (-math.inf, 1.0)
    low, high = valid_range(0.3, 0.3) or (0.0, 0.0)
    assert low == 0.3 < high < 0.3 + 1e-15


# -- meshes -----------------------------------------------------------------------------------------------------------

SQUARE = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], float)
FLAT = Mesh(vertices=SQUARE, faces=np.array([[0, 1, 2], [0, 2, 3]]))
TRIANGLE = Mesh(vertices=np.array([[0, 0, 0], [1, 0, 0], [0, 1, 1]], float), faces=np.array([[0, 1, 2]]))
CUBE = box((0.1, 0.2, 0.3))


def with_shapes(*shapes: Shape) -> Robot:
    link = Link(name="a", inertial=Inertial(1.0, np.zeros(3), np.eye(3)), shapes=list(shapes))
    return Robot(name="r", links=[link], base=Base.FREE)


def stl(ascii_text: bool) -> bytes:
    if ascii_text:
        lines = ["solid s"]
        for triangle in CUBE.triangles().tolist():
            lines += ["facet normal 0 0 0", "outer loop", *(f"vertex {x} {y} {z}" for x, y, z in triangle)]
            lines += ["endloop", "endfacet"]
        return "\n".join([*lines, "endsolid s\n"]).encode()
    records = b"".join(
        np.zeros(3, "<f4").tobytes() + np.asarray(t, "<f4").tobytes() + b"\0\0" for t in CUBE.triangles()
    )
    return bytes(80) + CUBE.n_faces.to_bytes(4, "little") + records


@pytest.mark.parametrize("mode", ["copy", "bake", "reference"])
@pytest.mark.parametrize("ascii_text", [False, True])
def test_mesh_files(mode: str, ascii_text: bool, tmp_path: Path) -> None:
    """Files that MuJoCo reads are copied once, with their scale left to it; others become OBJ."""
    source = tmp_path / "part.stl"
    source.write_bytes(stl(ascii_text))
    mesh = Mesh(path=str(source), scale=np.array([2.0, -1.0, 0.5]))
    robot = with_shapes(*(Shape(name=n, geometry=mesh, pose=Pose.translation((1, 2, 3))) for n in ("one", "two")))
    written = write(robot, tmp_path / "out", meshes=mode)
    made = sorted(p.name for p in (tmp_path / "out").glob("meshes/*"))
    suffix = "obj" if ascii_text or mode == "bake" else "stl"
    assert made == ([] if mode == "reference" and not ascii_text else [f"part.{suffix}"])
    assert written.model.nmesh == 1
    ours, theirs = (described.posed_meshes() for described in (robot, read(written.path)))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(np.sort(a.vertices, axis=0), np.sort(b.vertices, axis=0), atol=1e-6)


@pytest.mark.parametrize("mesh", [FLAT, TRIANGLE], ids=["flat", "triangle"])
@pytest.mark.parametrize("collision", [True, False])
def test_meshes_without_a_volume(mesh: Mesh, collision: bool, tmp_path: Path) -> None:
    """MuJoCo refuses them as they are: a shell's inertia will do for the eye, a thickness is reported."""
    written = write(with_shapes(Shape(name="sheet", geometry=mesh, collision=collision)), tmp_path)
    assert written.model.nmesh == 1
    assert (written.lost("its mesh") == ["sheet"]) == (collision or mesh is TRIANGLE)


def test_meshes_that_cannot_be_had(tmp_path: Path) -> None:
    """A missing file, a damaged one, a line: the shape is left out and named."""
    (tmp_path / "bad.stl").write_bytes(b"nothing")
    line = Mesh(vertices=np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0]], float), faces=np.array([[0, 1, 2]]))
    meshes = {"lost": Mesh(uri="lost.stl"), "bad": Mesh(path=str(tmp_path / "bad.stl")), "line": line}
    written = write(with_shapes(*(Shape(name=n, geometry=m) for n, m in meshes.items())), tmp_path / "out")
    assert written.model.ngeom == 0
    assert written.lost("the shape") == list(meshes)


def test_a_terrain_keeps_its_heights(tmp_path: Path) -> None:
    """MuJoCo counts from the lowest point; the geom is moved there, and rows stay in order."""
    heights = np.array([[1.0, 2.0, 1.5], [0.5, 3.0, 2.5]])
    terrain = HeightField(heights=heights, size=(4.0, 2.0), base=0.25)
    world = World(name="w", shapes=[Shape(name="hill", geometry=terrain)])
    written = write(world, tmp_path)
    again = read(written.path)
    for described in (world, again):
        (mesh,) = described.posed_meshes({}, kind="collision")
        assert mesh.vertices[:, 2].max() == pytest.approx(3.0)
    np.testing.assert_allclose(
        np.sort(world.posed_meshes()[0].vertices, axis=0), np.sort(again.posed_meshes()[0].vertices, axis=0), atol=1e-6
    )


def test_planes_do_not_move(tmp_path: Path) -> None:
    """MuJoCo has none on a body that moves; on a fixed one it has."""
    robot = with_shapes(Shape(name="plane", geometry=Plane()))
    assert write(robot, tmp_path).lost("the shape") == ["plane"]
    robot.base = Base.FIXED
    assert write(robot, tmp_path).lost("the shape") == []


# -- masses -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-1.0, 1.0), min_size=3, max_size=3), st.booleans())
def test_any_inertia_compiles(moments: list[float], turned: bool) -> None:
    """Whatever the principal moments, MuJoCo takes what is written; those of a real body are not touched."""
    axes = Pose.from_rpy((0, 0, 0), (0.3, 0.4, 0.5)).rotation if turned else np.eye(3)
    tensor = axes @ np.diag(moments) @ axes.T
    joint = Joint(name="j", kind=JointKind.CONTINUOUS, parent=None, child="a", axes=[rotation((0, 0, 1))])
    robot = Robot(name="r", links=[Link(name="a", inertial=Inertial(1.0, np.zeros(3), tensor))], joints=[joint])
    with tempfile.TemporaryDirectory() as folder:
        written = write(robot, Path(folder))
        low, middle, high = sorted(moments)
        if low > 1e-3 and low + middle > high * 1.000001:
            assert_masses(written)
            assert written.lost("inertia") == []


def test_links_without_a_mass_stay_so(tmp_path: Path) -> None:
    """Their geoms give them none, unless they move: then a little, which is reported."""
    ghost = Link(name="ghost", shapes=[Shape(name="s", geometry=Sphere(0.1))])
    base = Link(name="base", inertial=Inertial(1.0, np.zeros(3), np.eye(3)))
    fixed = Joint(name="j", kind=JointKind.FIXED, parent="base", child="ghost")
    robot = Robot(name="r", links=[base, ghost], joints=[fixed], base=Base.FREE)
    written = write(robot, tmp_path)
    assert written.model.body_mass.tolist() == [0.0, 1.0, 0.0]
    fixed.kind, fixed.axes = JointKind.CONTINUOUS, [rotation((0, 0, 1))]
    written = write(robot, tmp_path)
    assert written.model.body_mass[2] == 1e-6
    assert written.lost("no mass") == ["ghost"]


def test_inertia_that_mujoco_finds_itself_is_left_to_it(tmp_path: Path) -> None:
    """A file that gives densities gives them again."""
    text = '<mujoco><worldbody><body name="a"><freejoint/><geom type="box" size=".1 .2 .3" density="50"/></body>'
    source = tmp_path / "in.xml"
    source.write_text(text + "</worldbody></mujoco>")
    written = write(read(source), tmp_path / "out")
    assert "inertial" not in written.path.read_text()
    assert 'density="50"' in written.path.read_text()
    assert list(written.report) == []
    np.testing.assert_allclose(written.model.body_mass, load(source).body_mass, rtol=1e-15)


# -- names and what else may be odd -----------------------------------------------------------------------------------


def test_names_are_unique_and_reported_where_they_change(tmp_path: Path) -> None:
    """MuJoCo's names are one set for the file; `world` is its own; robots in a world may repeat names."""
    robots = []
    for i in range(2):
        robot = arm()
        robot.name = f"arm {i}"
        robots.append(robot)
    robots[0].links[2].name = "world"
    robots[0].joints[1].child = "world"
    robots[1].links[2].name = "tab\tbell\x07"
    robots[1].joints[1].child = "tab\tbell\x07"
    written = write(World(name="w", robots=robots), tmp_path)
    names = [written.model.body(i).name for i in range(1, written.model.nbody)]
    assert names == ["base", "link", "arm 0_world", "arm 1_base", "arm 1_link", "tab_bell_"]
    assert {"world", "base", "link", "turn", "tab\tbell\x07"} <= set(written.lost("its name"))


def test_odd_numbers_do_not_spoil_the_file(tmp_path: Path) -> None:
    """Axes without direction, poses that are none, empty sizes: named in the report, and MuJoCo takes the rest."""
    nan = Pose.translation((math.nan, 0.0, 0.0))
    robot = with_shapes(
        Shape(name="nowhere", geometry=Sphere(0.1), pose=nan), Shape(name="nothing", geometry=Box(np.zeros(3)))
    )
    robot.links.append(Link(name="b", inertial=Inertial(math.nan, np.zeros(3), np.eye(3))))
    robot.links.append(Link(name="c", inertial=Inertial(1.0, np.zeros(3), np.eye(3))))
    axis = rotation((0, 0, 1), lower=math.nan, damping=math.nan)
    axis.direction = np.zeros(3)
    robot.joints = [
        Joint(name="j", kind=JointKind.REVOLUTE, parent="a", child="b", axes=[axis]),
        Joint(name="k", kind=JointKind.FIXED, parent="a", child="c", parent_pose=nan),
    ]
    written = write(robot, tmp_path)
    assert written.model.ngeom == 0
    assert set(written.lost("the shape")) == {"nowhere", "nothing"}
    assert written.lost("its axis") == ["j"]
    assert "b" in written.lost("its inertia")
    assert written.lost("its pose") == ["c"]


def test_a_chain_that_is_too_long_is_refused(tmp_path: Path) -> None:
    """MuJoCo's parser has a limit of depth; nothing is written beyond it."""
    links = [Link(name=f"l{i}") for i in range(600)]
    joints = [
        Joint(name=f"j{i}", kind=JointKind.FIXED, parent=f"l{i}", child=f"l{i + 1}", implicit=True) for i in range(599)
    ]
    robot = Robot(name="r", links=links, joints=joints)
    with pytest.raises(WriteError, match="480"):
        kinema.write(robot, tmp_path / "r.xml")
    assert list(tmp_path.iterdir()) == []
    robot.links, robot.joints = links[:480], joints[:479]
    kinema.write(robot, tmp_path / "r.xml")
    assert load(tmp_path / "r.xml").nbody == 481


def test_kept_texts_are_given_back(tmp_path: Path) -> None:
    """Sections, plugins and textures of an MJCF file, with the files they name; broken text is reported."""
    picture = bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108020000009077 53de0000000c49444154789c63f8cfc0"
        "000003010100c9fe92ef0000000049454e44ae426082".replace(" ", "")
    )
    (tmp_path / "wood.png").write_bytes(picture)
    robot = with_shapes(
        Shape(name="s", geometry=Sphere(0.1), material=VisualMaterial(name="wood", texture=str(tmp_path / "wood.png")))
    )
    robot.extras = [
        Extra("mjcf", "statistic", '<statistic extent="3"/>'),
        Extra("mjcf", "custom", '<custom><numeric name="n" data="1 2"/></custom>'),
        Extra("mjcf", "visual", "<visual><broken"),
    ]
    written = write(robot, tmp_path / "out")
    assert written.model.stat.extent == 3.0
    assert written.model.nnumeric == 1
    assert written.model.ntex == 1
    assert (tmp_path / "out" / "textures" / "wood.png").read_bytes() == picture
    assert [x.what for x in written.report] == ["<visual>"]


def test_the_suffix_tells_the_format(tmp_path: Path) -> None:
    """`.xml` and `.mjcf`; a folder that is not there is made."""
    for file in (tmp_path / "arm.mjcf", tmp_path / "new" / "folder" / "arm.xml"):
        assert kinema.write(arm(), file).format == "mjcf"
        assert file.is_file()


def test_a_collision_shape_is_one_again(tmp_path: Path) -> None:
    """What is only seen and what only collides stays apart."""
    kinema.write(arm(), tmp_path / "arm.xml")
    again = read(tmp_path / "arm.xml", policy=collect)
    roles = {s.name: (s.visual, s.collision) for link in again.links for s in link.shapes}
    assert roles["base_seen"] == roles["link_seen"] == (True, False)
    assert roles["base_felt"] == roles["link_felt"] == (False, True)
