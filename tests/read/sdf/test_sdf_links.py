"""Links: inertia, shapes, surfaces, materials, sensors, lights."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema.core import Pose
from kinema.description import (
    Approximation,
    Box,
    Capsule,
    Cone,
    Cylinder,
    Ellipsoid,
    Mesh,
    Plane,
    Robot,
    Shape,
    Sphere,
    colliding_pairs,
    tessellate,
)
from kinema.geometry import signed_volume
from kit.diagnostics import ClaimedDiagnostics

from .sdf_support import assert_close, model, pose_text, random_pose, read_robot

_TETRAHEDRON = """solid t
facet normal 0 0 0 outer loop vertex 0 0 0 vertex 0 1 0 vertex 1 0 0 endloop endfacet
facet normal 0 0 0 outer loop vertex 0 0 0 vertex 1 0 0 vertex 0 0 1 endloop endfacet
facet normal 0 0 0 outer loop vertex 0 0 0 vertex 0 0 1 vertex 0 1 0 endloop endfacet
facet normal 0 0 0 outer loop vertex 1 0 0 vertex 0 1 0 vertex 0 0 1 endloop endfacet
endsolid t
"""


def _link(inside: str, version: str = "1.12") -> str:
    return model(f'<link name="a">{inside}</link>', version=version)


def _collision(geometry: str, more: str = "", name: str = "c") -> str:
    return f'<collision name="{name}"><geometry>{geometry}</geometry>{more}</collision>'


def _visual(geometry: str, more: str = "") -> str:
    return f'<visual name="v"><geometry>{geometry}</geometry>{more}</visual>'


def _shape(folder: Path, inside: str, diagnostics: ClaimedDiagnostics | None, version: str = "1.12") -> Shape:
    (shape,) = read_robot(folder, _link(inside, version), diagnostics).link("a").shapes
    return shape


# -- inertia -----------------------------------------------------------------------------------------------------------


def test_a_link_without_inertial_has_the_default(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """One kilogram and one kilogram square metre, with a note; a static model needs none."""
    inertial = read_robot(tmp_path, _link(""), diagnostics).link("a").inertial
    assert inertial is not None
    assert inertial.mass == 1
    assert_close(inertial.inertia, np.eye(3))
    assert diagnostics.codes() == ["sdf.default-inertial"]
    read_robot(tmp_path, model('<static>true</static><link name="a"/>'), diagnostics)
    assert diagnostics.codes() == ["sdf.default-inertial"]


@settings(max_examples=30)
@given(seed=st.integers(0, 10**9))
def test_a_turned_inertial_is_the_same_matter(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """The tensor is given in the axes of the inertial's pose; written in the link's axes it is the same."""
    rng = np.random.default_rng(seed)
    folder = tmp_path_factory.mktemp("sdf")
    pose = random_pose(rng)
    spread = rng.normal(size=(5, 3))
    tensor = sum((float(x @ x) * np.eye(3) - np.outer(x, x) for x in spread), np.zeros((3, 3)))
    local = pose.rotation.T @ tensor @ pose.rotation
    names = {"ixx": (0, 0), "iyy": (1, 1), "izz": (2, 2), "ixy": (0, 1), "ixz": (0, 2), "iyz": (1, 2)}
    numbers = "".join(f"<{n}>{float(local[i, j])!r}</{n}>" for n, (i, j) in names.items())
    text = _link(f"<inertial><mass>3</mass>{pose_text(pose, rng)}<inertia>{numbers}</inertia></inertial>")
    inertial = read_robot(folder, text).link("a").inertial
    assert inertial is not None
    assert_close(inertial.inertia, tensor)
    assert_close(inertial.center, pose.position)


def test_an_inertial_pose_cannot_be_relative(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """It belongs to its link; the name is ignored with a warning."""
    text = _link('<inertial><pose relative_to="__model__">1 0 0 0 0 0</pose><mass>2</mass></inertial>')
    inertial = read_robot(tmp_path, text, diagnostics).link("a").inertial
    diagnostics.claim("sdf.inertial-frame")
    assert inertial is not None
    assert_close(inertial.center, [1, 0, 0])


def test_an_inertia_from_densities(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A collision's density, else the link's, else that of water; poses are taken into account."""
    box = "<box><size>1 1 1</size></box>"
    inside = (
        '<inertial auto="true"><density>10</density></inertial>'
        + _collision(box, "<pose>1 0 0 0 0 0</pose>", "p")
        + _collision(box, "<pose>-1 0 0 0 0 0</pose><density>30</density>", "q")
    )
    link = read_robot(tmp_path, _link(inside), diagnostics).link("a")
    assert link.inertial_is_computed
    assert link.inertial is not None
    assert link.inertial.mass == pytest.approx(40)
    assert_close(link.inertial.center, [-0.5, 0, 0])
    own, far = 40 / 6, 10 * 1.5**2 + 30 * 0.5**2
    assert_close(link.inertial.inertia, np.diag([own, own + far, own + far]))
    water = read_robot(tmp_path, _link('<inertial auto="true"/>' + _collision(box)), diagnostics).link("a").inertial
    assert water is not None
    assert water.mass == pytest.approx(1000)


def test_a_given_mass_scales_a_computed_inertia(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The mass that the file gives is kept."""
    inside = '<inertial auto="true"><mass>6</mass></inertial>' + _collision("<box><size>1 1 1</size></box>")
    inertial = read_robot(tmp_path, _link(inside), diagnostics).link("a").inertial
    assert inertial is not None
    assert inertial.mass == pytest.approx(6)
    assert_close(inertial.inertia, np.eye(3))


def test_an_inertia_from_a_mesh(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A mesh is filled; a polyline is one too."""
    (tmp_path / "t.stl").write_text(_TETRAHEDRON)
    mesh = '<inertial auto="true"/>' + _collision("<mesh><uri>t.stl</uri><scale>1 2 3</scale></mesh>")
    inertial = read_robot(tmp_path, _link(mesh), diagnostics).link("a").inertial
    assert inertial is not None
    assert inertial.mass == pytest.approx(1000)
    assert_close(inertial.center, [0.25, 0.5, 0.75])


@pytest.mark.parametrize("inside", ["", _collision("<plane/>")])
def test_nothing_to_compute_an_inertia_from(tmp_path: Path, diagnostics: ClaimedDiagnostics, inside: str) -> None:
    """An error, and the default stands in."""
    link = read_robot(tmp_path, _link('<inertial auto="true"/>' + inside), diagnostics).link("a")
    diagnostics.claim_all("sdf.auto-inertia")
    assert link.inertial is not None
    assert link.inertial.mass == 1


# -- geometry ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [
        ("<box><size>1 2 3</size></box>", Box, {"size": [1, 2, 3]}),
        ("<sphere><radius>2</radius></sphere>", Sphere, {"radius": 2}),
        ("<cylinder><radius>2</radius><length>3</length></cylinder>", Cylinder, {"radius": 2, "length": 3}),
        ("<capsule><radius>2</radius><length>3</length></capsule>", Capsule, {"radius": 2, "length": 3}),
        ("<ellipsoid><radii>1 2 3</radii></ellipsoid>", Ellipsoid, {"radii": [1, 2, 3]}),
        ("<cone><radius>2</radius><length>3</length></cone>", Cone, {"radius": 2, "length": 3}),
        ("<plane><size>2 3</size></plane>", Plane, {"size": (2, 3)}),
        ("<box/>", Box, {"size": [1, 1, 1]}),
        ("<capsule/>", Capsule, {"radius": 0.5, "length": 1}),
        ("<cylinder/>", Cylinder, {"radius": 1, "length": 1}),
        ("<plane/>", Plane, {"size": (1, 1)}),
    ],
)
def test_every_shape(
    tmp_path: Path, diagnostics: ClaimedDiagnostics, text: str, kind: type, values: dict[str, object]
) -> None:
    """With its numbers or the format's defaults, as a collision and as a visual."""
    for inside in (_collision(text), _visual(text)):
        shape = _shape(tmp_path, inside, diagnostics)
        assert isinstance(shape.geometry, kind)
        for name, value in values.items():
            assert_close(getattr(shape.geometry, name), value)
    assert (shape.visual, shape.collision) == (True, False)


@pytest.mark.parametrize("normal", [(0, 0, 1), (0, 0, -2), (1, 0, 0), (1, 2, -3)])
def test_a_plane_is_turned_to_its_normal(tmp_path: Path, diagnostics: ClaimedDiagnostics, normal: tuple) -> None:
    """The description's planes face z."""
    text = _collision(f"<plane><normal>{' '.join(map(str, normal))}</normal></plane>", "<pose>0 0 1 0.5 0 0</pose>")
    shape = _shape(tmp_path, text, diagnostics)
    expected = Pose.from_rpy((0, 0, 0), (0.5, 0, 0)).rotation @ (np.array(normal) / np.linalg.norm(normal))
    assert_close(shape.pose.rotation[:, 2], expected)
    assert_close(shape.pose.position, [0, 0, 1])


def test_a_mesh_with_everything(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """File, scale, approximation; a part of a mesh is not singled out, with a warning."""
    (tmp_path / "t.stl").write_text(_TETRAHEDRON)
    text = (
        '<mesh optimization="convex_decomposition"><convex_decomposition><max_convex_hulls>4</max_convex_hulls>'
        "</convex_decomposition><uri>t.stl</uri><scale>1 1 -2</scale>"
        "<submesh><name>part</name><center>true</center></submesh></mesh>"
    )
    shape = _shape(tmp_path, _collision(text), diagnostics)
    mesh = shape.geometry
    assert isinstance(mesh, Mesh)
    assert Path(mesh.path) == (tmp_path / "t.stl").resolve()
    assert_close(mesh.scale, [1, 1, -2])
    assert mesh.approximation is Approximation.CONVEX_DECOMPOSITION
    assert (mesh.submesh, mesh.center_submesh) == ("part", True)
    assert shape.attributes["sdf:max_convex_hulls"] == 4
    diagnostics.claim("sdf.submesh")


@pytest.mark.parametrize(
    "uri", ["gone.stl", "model://nobody/x.dae", "https://example.org/x.dae", "../../etc/passwd", ""]
)
def test_a_mesh_that_is_not_there(tmp_path: Path, diagnostics: ClaimedDiagnostics, uri: str) -> None:
    """A pity for a visual, an error for a collision; nothing is fetched."""
    mesh = f"<mesh><uri>{uri}</uri></mesh>"
    robot = read_robot(tmp_path, _link(_visual(mesh) + _collision(mesh)), diagnostics)
    collision, visual = diagnostics.claim("sdf.missing-mesh"), diagnostics.claim("sdf.missing-mesh")
    assert (visual.severity.value, collision.severity.value) == ("warning", "error")
    assert all(isinstance(s.geometry, Mesh) and not s.geometry.path for s in robot.link("a").shapes)


def _polyline(points: list[tuple[float, float]], height: float = 2.0) -> str:
    corners = "".join(f"<point>{x} {y}</point>" for x, y in points)
    return f"<polyline>{corners}<height>{height}</height></polyline>"


@pytest.mark.parametrize(
    ("points", "area"),
    [
        ([(0, 0), (1, 0), (0, 1)], 0.5),
        ([(0, 0), (0, 1), (1, 0)], 0.5),
        ([(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)], 3.0),
        ([(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)], 1.0),
        ([(0, 0), (4, 0), (4, 4), (3, 1), (1, 1), (0, 4)], 7.0),
    ],
)
def test_a_polyline_is_extruded(
    tmp_path: Path, diagnostics: ClaimedDiagnostics, points: list[tuple[float, float]], area: float
) -> None:
    """A simple polygon, whichever way round and however bent, becomes a closed mesh of exactly its volume."""
    shape = _shape(tmp_path, _collision(_polyline(points)), diagnostics)
    mesh = tessellate(shape.geometry)
    assert mesh is not None
    assert signed_volume(mesh) == pytest.approx(2 * area)
    assert_close(mesh.vertices[:, 2].min(), 0)
    assert_close(mesh.vertices[:, 2].max(), 2)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**9), n=st.integers(3, 40))
def test_a_star_shaped_polygon_keeps_its_area(tmp_path_factory: pytest.TempPathFactory, seed: int, n: int) -> None:
    """Random stars, which have many corners that point inward."""
    rng = np.random.default_rng(seed)
    angles = np.sort(rng.uniform(0, 2 * math.pi, n))
    if np.diff(np.append(angles, angles[0] + 2 * math.pi)).max() > 3.0:
        return  # the middle is not inside
    radii = rng.uniform(0.2, 1.0, n)
    points = np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1)
    x, y = points.T
    area = 0.5 * abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1)))
    text = _collision(_polyline([(float(a), float(b)) for a, b in points], 1.0))
    mesh = tessellate(_shape(tmp_path_factory.mktemp("sdf"), text, None).geometry)
    assert mesh is not None
    assert signed_volume(mesh) == pytest.approx(area)


@pytest.mark.parametrize(
    ("geometry", "code"),
    [
        (_polyline([(0, 0), (1, 1), (1, 0), (0, 1)]), "sdf.polyline"),
        (_polyline([(0, 0), (1, 0)]), "sdf.polyline"),
        (_polyline([]), "sdf.polyline"),
        (_polyline([(0, 0), (1, 0), (0, 1)]) * 2, "sdf.polyline"),
        ("<heightmap><uri>h.png</uri></heightmap>", "sdf.heightmap"),
        ("<image><uri>i.png</uri></image>", "sdf.image"),
        ("<torus/>", "sdf.unknown-element"),
    ],
)
def test_a_shape_that_cannot_be_made_is_kept_as_text(
    tmp_path: Path, diagnostics: ClaimedDiagnostics, geometry: str, code: str
) -> None:
    """With a diagnostic; the link keeps what the file said."""
    link = read_robot(tmp_path, _link(_collision(geometry)), diagnostics).link("a")
    diagnostics.claim_all(code)
    if code == "sdf.unknown-element":
        diagnostics.claim("sdf.missing-geometry")
    assert link.shapes == []
    assert [e.tag for e in link.extras] == ["collision"]


def test_an_empty_geometry_is_fine(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """It is empty on purpose."""
    assert read_robot(tmp_path, _link(_visual("<empty/>")), diagnostics).link("a").shapes == []
    assert "sdf.empty-geometry" in diagnostics.codes()


def test_shapes_may_stand_in_other_frames(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The pose of a collision may be relative to any frame of the model; it is kept in its link."""
    body = (
        '<frame name="f"><pose>0 0 5 0 0 0</pose></frame>'
        '<link name="a"><pose>1 0 0 0 0 0</pose><collision name="c"><pose relative_to="f">0 1 0 0 0 0</pose>'
        "<geometry><box/></geometry></collision></link>"
    )
    (shape,) = read_robot(tmp_path, model(body), diagnostics).link("a").shapes
    assert_close(shape.pose.position, [-1, 1, 5])


# -- surfaces and masks ------------------------------------------------------------------------------------------------


def test_a_surface_with_everything(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Friction, restitution and contact; ODE's numbers before Bullet's, and nothing is lost."""
    surface = """<surface><friction>
        <ode><mu>0.7</mu><mu2>0.6</mu2><fdir1>1 0 0</fdir1><slip1>0.1</slip1><slip2>0.2</slip2></ode>
        <bullet><friction>0.5</friction><friction2>0.4</friction2><rolling_friction>0.3</rolling_friction></bullet>
        <torsional><coefficient>0.8</coefficient><patch_radius>0.1</patch_radius></torsional></friction>
        <bounce><restitution_coefficient>0.9</restitution_coefficient><threshold>0.01</threshold></bounce>
        <contact><ode><kp>1e5</kp><kd>10</kd><min_depth>0.001</min_depth><soft_erp>0.3</soft_erp></ode>
        <poissons_ratio>0.35</poissons_ratio></contact></surface>"""
    shape = _shape(tmp_path, _collision("<box/>", surface), diagnostics)
    material = shape.surface
    assert material is not None
    assert (material.static_friction, material.dynamic_friction, material.dynamic_friction2) == (0.7, 0.7, 0.6)
    assert material.torsional_friction == pytest.approx(3 * math.pi / 16 * 0.8 * 0.1)
    assert material.restitution == 0.9
    assert (material.contact_stiffness, material.contact_damping) == (1e5, 10)
    said = {
        "fdir1": (1, 0, 0),
        "slip1": 0.1,
        "slip2": 0.2,
        "bullet_friction": 0.5,
        "bullet_rolling_friction": 0.3,
        "threshold": 0.01,
        "ode_min_depth": 0.001,
        "ode_soft_erp": 0.3,
        "poissons_ratio": 0.35,
    }
    assert {name: shape.attributes[f"sdf:{name}"] for name in said} == said


def _masked(*masks: str) -> str:
    links = "".join(
        f'<link name="l{i}">{_collision("<box/>", f"<surface><contact>{m}</contact></surface>")}</link>'
        for i, m in enumerate(masks)
    )
    return model(f"<self_collide>true</self_collide>{links}")


def test_bit_masks(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Two collide if the category of one meets the mask of the other; what is not said is all ones."""
    robot = read_robot(
        tmp_path,
        _masked(
            "<collide_bitmask>0x01</collide_bitmask>",
            "<collide_bitmask>2</collide_bitmask>",
            "",
            "<collide_bitmask>4</collide_bitmask><category_bitmask>2</category_bitmask>",
        ),
        diagnostics,
    )
    pairs = {(str(x.link), str(y.link)) for x, y in colliding_pairs(robot)}
    assert pairs == {("l0", "l2"), ("l1", "l2"), ("l2", "l3"), ("l1", "l3")}


def test_without_bit_masks_nothing_is_filtered(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The plain masks are left where no collision has one."""
    robot = read_robot(tmp_path, _masked("", ""), diagnostics)
    assert {(s.contype, s.conaffinity) for link in robot.links for s in link.shapes} == {(1, 1)}
    assert len(list(colliding_pairs(robot))) == 1


# -- look --------------------------------------------------------------------------------------------------------------


def test_a_material_with_everything(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Colours, a metal workflow with its texture, and what is kept beside."""
    (tmp_path / "t.png").write_bytes(b"png")
    material = """<transparency>0.5</transparency><cast_shadows>false</cast_shadows><material>
        <ambient>0.1 0.2 0.3 1</ambient><diffuse>0.4 0.5 0.6 0.8</diffuse><specular>0.3 0.6 0.9 1</specular>
        <emissive>0.01 0.02 0.03</emissive><script><uri>file://x</uri><name>Gazebo/Red</name></script>
        <pbr><metal><albedo_map>t.png</albedo_map><metalness>0.2</metalness><roughness>0.7</roughness>
        <normal_map>n.png</normal_map></metal></pbr></material>"""
    shape = _shape(tmp_path, _visual("<box/>", material), diagnostics)
    look = shape.material
    assert look is not None
    assert look.color == (0.4, 0.5, 0.6, 0.4)
    assert look.emission == (0.01, 0.02, 0.03)
    assert look.specular == pytest.approx(0.6)
    assert (look.metallic, look.roughness) == (0.2, 0.7)
    assert Path(look.texture) == (tmp_path / "t.png").resolve()
    assert look.attributes["sdf:ambient"] == (0.1, 0.2, 0.3, 1)
    assert look.attributes["sdf:pbr"]["metal"]["normal_map"] == "n.png"
    assert [e.tag for e in look.extras] == ["script", "pbr"]
    assert shape.attributes["sdf:cast_shadows"] is False
    assert "sdf.material-script" in diagnostics.codes()
    assert "n.png" in diagnostics.claim("sdf.missing-texture").message


# -- what a link carries -----------------------------------------------------------------------------------------------


def test_settings_of_a_link(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Gravity, kinematic, wind, decay."""
    inside = (
        "<gravity>false</gravity><kinematic>1</kinematic><enable_wind>true</enable_wind>"
        "<must_be_base_link>true</must_be_base_link>"
        "<velocity_decay><linear>0.1</linear><angular>0.2</angular></velocity_decay>"
    )
    link = read_robot(tmp_path, _link(inside), diagnostics).link("a")
    assert (link.gravity_scale, link.kinematic) == (0.0, True)
    assert link.attributes["sdf:velocity_decay"] == (0.1, 0.2)
    assert link.attributes["sdf:enable_wind"] is True
    assert link.attributes["sdf:must_be_base_link"] is True


def test_self_collision(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Off unless a model asks for it; a link of another opinion is pointed out."""
    two = '<link name="a"/><link name="b">{}</link>'
    assert not read_robot(tmp_path, model(two.format("")), diagnostics).collision.self_collide
    on = "<self_collide>true</self_collide>"
    assert read_robot(tmp_path, model(on + two.format("")), diagnostics).collision.self_collide
    mixed = read_robot(tmp_path, model(two.format(on)), diagnostics)
    assert mixed.link("b").self_collide is True


def test_sensors(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Where they sit, how often they measure, and everything else as plain values and as text."""
    body = (
        '<link name="a"><sensor name="s" type="imu"><pose>1 0 0 0 0 0</pose><update_rate>50</update_rate>'
        "<always_on>true</always_on><topic>/imu</topic><imu><angular_velocity><x><noise type='gaussian'>"
        "<stddev>0.2</stddev></noise></x></angular_velocity></imu></sensor></link><link name='b'/>"
        '<joint name="j" type="fixed"><parent>a</parent><child>b</child>'
        '<sensor name="f" type="force_torque"><force_torque><frame>child</frame></force_torque></sensor></joint>'
    )
    imu, force = read_robot(tmp_path, model(body), diagnostics).sensors
    assert (imu.kind, imu.target_kind, imu.target, imu.update_rate) == ("imu", "link", "a", 50)
    assert_close(imu.pose.position, [1, 0, 0])
    noise = imu.settings["imu"]["angular_velocity"]["x"]["noise"]
    assert noise == {"@type": "gaussian", "stddev": "0.2"}
    assert (imu.settings["always_on"], imu.settings["topic"]) == (True, "/imu")
    assert imu.extras[0].text.startswith("<imu>")
    assert (force.kind, force.target_kind, force.target) == ("force_torque", "joint", "j")
    assert force.settings["force_torque"] == {"frame": "child"}


def test_a_camera_looks_along_x(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """SDFormat's cameras look along x with z up; the description's along -z with y up."""
    inside = (
        '<sensor name="s" type="camera"><pose>0 0 1 0 0 0.5</pose><camera name="eye"><pose>0.1 0 0 0 0 0</pose>'
        "<horizontal_fov>1.2</horizontal_fov><image><width>640</width><height>480</height></image>"
        "<clip><near>0.2</near><far>50</far></clip></camera></sensor>"
    )
    robot = read_robot(tmp_path, _link(inside), diagnostics)
    (camera,) = robot.cameras
    place = Pose.from_rpy((0, 0, 1), (0, 0, 0.5)) @ Pose.translation((0.1, 0, 0))
    assert_close(camera.pose.position, place.position)
    assert_close(-camera.pose.rotation[:, 2], place.rotation[:, 0])
    assert_close(camera.pose.rotation[:, 1], [0, 0, 1])
    assert camera.vertical_fov == pytest.approx(2 * math.atan(math.tan(0.6) * 0.75))
    assert (camera.name, camera.link, camera.resolution, camera.clip) == ("eye", "a", (640, 480), (0.2, 50))
    assert [s.name for s in robot.sensors] == ["s"]


def test_several_cameras_in_one_sensor(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A multicamera has as many as it likes."""
    inside = '<sensor name="s" type="multicamera"><camera name="l"/><camera name="r"/></sensor>'
    robot = read_robot(tmp_path, _link(inside), diagnostics)
    assert [c.name for c in robot.cameras] == ["l", "r"]
    assert [c["@name"] for c in robot.sensors[0].settings["camera"]] == ["l", "r"]


def test_lights_shine_along_their_direction(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The direction becomes -z of the light's frame; colour and the rest are kept."""
    inside = (
        '<light name="l" type="spot"><pose>0 0 1 0 0 0</pose><direction>1 0 -1</direction><diffuse>1 0.5 0 1</diffuse>'
        "<cast_shadows>true</cast_shadows><spot><inner_angle>0.1</inner_angle></spot><intensity>2</intensity></light>"
    )
    (light,) = read_robot(tmp_path, _link(inside), diagnostics).lights
    assert_close(-light.pose.rotation[:, 2], np.array([1, 0, -1]) / math.sqrt(2))
    assert (light.kind, light.link, light.color, light.casts_shadow) == ("spot", "a", (1, 0.5, 0), True)
    assert light.settings["spot"] == {"inner_angle": 0.1}
    assert light.settings["intensity"] == 2


@pytest.mark.parametrize("tag", ["projector", "audio_source", "battery", "particle_emitter", "plugin"])
def test_what_has_no_place_is_kept(tmp_path: Path, diagnostics: ClaimedDiagnostics, tag: str) -> None:
    """Word for word, on the link it belongs to, with a note."""
    text = f'<{tag} name="x"><inside>1</inside></{tag}>'
    link = read_robot(tmp_path, _link(text), diagnostics).link("a")
    assert [(e.tag, e.text) for e in link.extras] == [(tag, text)]
    assert "sdf.kept" in diagnostics.codes()


def test_custom_and_unknown_elements(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """An extension of some program is noted, a word that nobody knows is a warning; both are kept."""
    robot: Robot = read_robot(
        tmp_path, _link('<gz:thing x="1"/><thing/><pose who="me">0 0 0 0 0 0</pose>'), diagnostics
    )
    assert "sdf.custom-element" in diagnostics.codes()
    assert "<thing>" in diagnostics.claim("sdf.unknown-element").message
    diagnostics.claim("sdf.unknown-attribute")
    assert sorted(e.tag for e in robot.link("a").extras) == ["@who", "gz:thing", "thing"]
