"""How shapes, meshes and materials become URDF."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinema
from kinema.core import Pose
from kinema.description import (
    Approximation,
    Box,
    Capsule,
    Cone,
    Ellipsoid,
    Geometry,
    HeightField,
    Link,
    Mesh,
    Plane,
    Robot,
    Shape,
    Sphere,
    VisualMaterial,
    mesh_data,
)
from kinema.geometry import box, measure_mesh_quality
from kit.written.urdf import Written, check_urdf

TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
TILTED = Pose.from_rpy((1, 2, 3), (0.4, 0.5, 0.6))


def _robot(*shapes: Shape, format: str = "") -> Robot:
    return Robot(name="r", format=format, links=[Link(name="l", shapes=list(shapes))])


def _shapes(written: Written) -> list[Shape]:
    return kinema.read(written.file).links[0].shapes


def _collision(geometry: Geometry) -> Shape:
    return Shape(name="s", geometry=geometry, pose=TILTED, visual=False)


def _inside(shape: Shape, points: np.ndarray) -> np.ndarray:
    """Which points a sphere or cylinder holds."""
    p = shape.pose.inverse().apply(points)
    geometry = shape.geometry
    if isinstance(geometry, Sphere):
        return np.linalg.norm(p, axis=1) <= geometry.radius
    assert shape.kind == "cylinder"
    return (np.hypot(p[:, 0], p[:, 1]) <= geometry.radius) & (np.abs(p[:, 2]) <= geometry.length / 2)  # type: ignore[union-attr]


def test_a_capsule_is_a_cylinder_with_two_spheres(tmp_path: Path) -> None:
    """Their union is exactly the capsule, so that nothing is lost."""
    written = Written.make(_robot(_collision(Capsule(0.3, 0.8))), tmp_path)
    shapes = _shapes(written)
    assert [(s.name, s.kind) for s in shapes] == [("s", "cylinder"), ("s_end_1", "sphere"), ("s_end_2", "sphere")]
    assert list(written.report) == []
    points = np.random.default_rng(0).uniform(-1, 1, (20000, 3))
    axis = np.clip(points[:, 2], -0.4, 0.4)
    capsule = np.linalg.norm(points - np.outer(axis, (0, 0, 1)), axis=1) <= 0.3
    union = np.any([_inside(s, TILTED.apply(points)) for s in shapes], axis=0)
    np.testing.assert_array_equal(union, capsule)
    check_urdf(written.file)


def test_a_round_ellipsoid_and_a_short_capsule_are_spheres(tmp_path: Path) -> None:
    """Where a shape is one that URDF has, it is written as that."""
    written = Written.make(_robot(_collision(Ellipsoid(np.full(3, 0.2))), _collision(Capsule(0.3, 0.0))), tmp_path)
    assert [s.kind for s in _shapes(written)] == ["sphere", "sphere"]
    assert list(written.report) == []


@pytest.mark.parametrize(
    "geometry",
    [
        Ellipsoid(np.array([0.1, 0.2, 0.3])),
        Cone(0.2, 0.5),
        HeightField(heights=np.array([[0.1, 0.2], [0.3, 0.4]]), size=(2.0, 2.0), base=0.5),
    ],
    ids=lambda g: type(g).__name__,
)
def test_other_shapes_become_closed_meshes(tmp_path: Path, geometry: Geometry) -> None:
    """The report says of how many triangles."""
    written = Written.make(_robot(_collision(geometry)), tmp_path)
    (shape,) = _shapes(written)
    assert isinstance(shape.geometry, Mesh)
    data = mesh_data(shape.geometry)
    assert data is not None
    assert measure_mesh_quality(data).is_closed
    assert any(f"a mesh of {len(data.faces)} triangles" in x for x in written.losses("s"))
    assert shape.pose.is_close(TILTED)


def test_a_plane_to_stand_on_is_the_top_of_a_box(tmp_path: Path) -> None:
    """Programs that read URDF refuse flat meshes for collision."""
    written = Written.make(_robot(_collision(Plane((2.0, 3.0))), _collision(Plane())), tmp_path)
    first, second = _shapes(written)
    assert isinstance(first.geometry, Box)
    assert isinstance(second.geometry, Box)
    np.testing.assert_allclose(first.geometry.size, (2, 3, 1))
    np.testing.assert_allclose(first.pose.apply((0, 0, 0.5)), TILTED.position)
    np.testing.assert_allclose(second.geometry.size, (100, 100, 1))
    assert written.losses("s")


def test_what_is_seen_and_collides_is_written_as_both(tmp_path: Path) -> None:
    """A visual and a collision of the same name."""
    written = Written.make(_robot(Shape(name="both", geometry=Sphere(1.0))), tmp_path)
    assert [(s.name, s.visual, s.collision) for s in _shapes(written)] == [("both", True, False), ("both", False, True)]
    assert list(written.report) == []


# -- meshes -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def mesh(tmp_path: Path) -> Mesh:
    """A mesh file."""
    file = tmp_path / "tetra hedron.obj"
    file.write_text(TETRAHEDRON)
    return Mesh(uri="tetra hedron.obj", path=str(file), scale=np.array([1.0, 2.0, -3.0]))


def _triangles(shape: Shape) -> np.ndarray:
    assert isinstance(shape.geometry, Mesh)
    data = mesh_data(shape.geometry)
    assert data is not None
    return data.vertices[data.faces]


@pytest.mark.parametrize("mode", ["copy", "bake", "reference"])
def test_mesh_files_are_copied_baked_or_left(tmp_path: Path, mesh: Mesh, mode: str) -> None:
    """The triangles are the same in all three cases."""
    robot = _robot(_collision(mesh))
    written = Written.make(robot, tmp_path / "out", meshes=mode)
    expected = {
        "copy": 'filename="meshes/tetra_hedron.obj" scale="1 2 -3"',
        "bake": 'filename="meshes/tetra_hedron.obj"/>',
        "reference": f'filename="{mesh.path}" scale="1 2 -3"',
    }
    assert expected[mode] in written.text
    (shape,) = kinema.read(written.file, search_paths=[tmp_path]).links[0].shapes
    np.testing.assert_allclose(_triangles(shape), _triangles(robot.links[0].shapes[0]))
    assert list(written.report) == []


def test_a_file_is_copied_once(tmp_path: Path, mesh: Mesh) -> None:
    """Two shapes, one file; meshes given in place are written with full precision."""
    data = box((0.1, 1 / 3, 0.3))
    in_place = Mesh(vertices=data.vertices, faces=data.faces)
    robot = _robot(_collision(mesh), _collision(mesh), _collision(in_place), _collision(in_place))
    written = Written.make(robot, tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out" / "meshes").iterdir()) == ["s.obj", "tetra_hedron.obj"]
    np.testing.assert_array_equal(_triangles(_shapes(written)[3]), data.vertices[data.faces])


def test_meshes_can_be_referred_to_in_a_package(tmp_path: Path, mesh: Mesh) -> None:
    """As ROS wants them."""
    written = Written.make(_robot(_collision(mesh)), tmp_path / "my_robot", package="my_robot")
    assert 'filename="package://my_robot/meshes/tetra_hedron.obj"' in written.text
    assert "mujoco" not in written.text
    assert len(_triangles(_shapes(written)[0])) == 4


def test_collada_is_for_seeing_only(tmp_path: Path) -> None:
    """Not every program can collide with it."""
    file = tmp_path / "part.dae"
    geometry = box((1.0, 1.0, 1.0))
    numbers = " ".join(str(x) for x in geometry.vertices.ravel())
    indices = " ".join(str(i) for i in geometry.faces.ravel())
    file.write_text(
        '<?xml version="1.0"?><COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1"><asset>'
        '<unit meter="1"/><up_axis>Z_UP</up_axis></asset><library_geometries><geometry id="g"><mesh><source id="p">'
        f'<float_array id="a" count="{geometry.vertices.size}">{numbers}</float_array><technique_common>'
        f'<accessor source="#a" count="{len(geometry.vertices)}" stride="3"><param name="X" type="float"/>'
        '<param name="Y" type="float"/><param name="Z" type="float"/></accessor></technique_common></source>'
        '<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>'
        f'<triangles count="{len(geometry.faces)}"><input semantic="VERTEX" source="#v" offset="0"/><p>{indices}</p>'
        '</triangles></mesh></geometry></library_geometries><library_visual_scenes><visual_scene id="s"><node>'
        '<instance_geometry url="#g"/></node></visual_scene></library_visual_scenes><scene>'
        '<instance_visual_scene url="#s"/></scene></COLLADA>'
    )
    written = Written.make(_robot(Shape(name="s", geometry=Mesh(uri="part.dae", path=str(file)))), tmp_path / "out")
    assert 'filename="meshes/part.dae"' in written.text
    assert 'filename="meshes/part_1.obj"' in written.text
    seen, collides = _shapes(written)
    assert len(_triangles(seen)) == len(_triangles(collides)) == 12


def test_material_libraries_and_textures_go_with_their_meshes(tmp_path: Path) -> None:
    """Under the names that the mesh calls them by; the report tells of two that share one."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{folder}.obj").write_text(f"mtllib look.mtl\nmtllib ../secret.mtl\n{TETRAHEDRON}")
        (tmp_path / folder / "look.mtl").write_text(f"newmtl a\nKd 1 0 0 # {folder}\nmap_Kd -s 1 wood.png\n")
        (tmp_path / folder / "wood.png").write_bytes(b"wood")
    (tmp_path / "secret.mtl").write_text("not to be copied")
    meshes = [Mesh(path=str(tmp_path / folder / f"{folder}.obj")) for folder in ("one", "two")]
    written = Written.make(_robot(*(_collision(m) for m in meshes)), tmp_path / "out")
    made = sorted(p.name for p in (tmp_path / "out" / "meshes").iterdir())
    assert made == ["look.mtl", "one.obj", "two.obj", "wood.png"]
    assert [(x.kind, x.name, x.what) for x in written.report] == [
        ("mesh", meshes[1].path, "the file 'look.mtl' that it refers to")
    ]


def test_text_stl_is_for_seeing_only(tmp_path: Path) -> None:
    """MuJoCo cannot collide with it."""
    corners = ["0 0 0", "1 0 0", "0 1 0", "0 0 1"]
    triangles = [(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]
    facets = "".join(
        f"facet normal 0 0 0 outer loop {' '.join(f'vertex {corners[i]}' for i in t)} endloop endfacet\n"
        for t in triangles
    )
    file = tmp_path / "text.stl"
    file.write_text(f"solid t\n{facets}endsolid t\n")
    written = Written.make(_robot(Shape(name="s", geometry=Mesh(path=str(file)))), tmp_path / "out")
    assert [Path(m.path).name for s in _shapes(written) if isinstance(m := s.geometry, Mesh)] == [
        "text.stl",
        "text_1.obj",
    ]


def test_a_missing_mesh_keeps_its_reference(tmp_path: Path) -> None:
    """So that it is found where the file is used; the report tells. Without one it is left out."""
    written = Written.make(_robot(_collision(Mesh(uri="package://p/m.stl")), _collision(Mesh())), tmp_path)
    assert 'filename="package://p/m.stl"' in written.text
    assert [x.action.value for x in written.report] == ["approximated", "dropped"]


def test_a_convex_mesh_says_so(tmp_path: Path, mesh: Mesh) -> None:
    """In Drake's element, which the report names as an extension."""
    hull = Mesh(path=mesh.path, approximation=Approximation.CONVEX_HULL)
    written = Written.make(_robot(_collision(hull)), tmp_path / "out")
    (shape,) = _shapes(written)
    assert isinstance(shape.geometry, Mesh)
    assert shape.geometry.approximation is Approximation.CONVEX_HULL
    assert [x.action.value for x in written.report] == ["extension"]
    check_urdf(written.file)


# -- materials --------------------------------------------------------------------------------------------------------


def _seen(material: VisualMaterial | None) -> Shape:
    return Shape(geometry=Sphere(1.0), collision=False, material=material)


def test_materials_are_defined_once(tmp_path: Path) -> None:
    """Alike ones share a definition, unlike ones of one name do not, nameless ones get a name."""
    looks = [
        VisualMaterial(name="red", color=(1, 0, 0, 1)),
        VisualMaterial(name="red", color=(1, 0, 0, 1)),
        VisualMaterial(name="red", color=(0.5, 0, 0, 1)),
        VisualMaterial(color=(0, 1, 0, 1)),
        VisualMaterial(color=(0, 0, 1, 1)),
    ]
    written = Written.make(_robot(*(_seen(m) for m in looks)), tmp_path)
    assert written.text.count("<color") == 4
    materials = [s.material for s in _shapes(written)]
    assert [m.name for m in materials if m] == ["red", "red", "red_1", "material", "material_1"]
    assert [m.color for m in materials if m] == [m.color for m in looks]
    assert [x.what for x in written.report] == ["its name"]
    check_urdf(written.file)


def test_a_colour_that_none_is_is_clamped(tmp_path: Path) -> None:
    """ROS refuses it otherwise."""
    written = Written.make(_robot(_seen(VisualMaterial(name="hot", color=(2, 0, -1, 1)))), tmp_path)
    material = _shapes(written)[0].material
    assert material is not None
    assert material.color == (1, 0, 0, 1)
    assert written.losses("hot")
    check_urdf(written.file)


def test_a_material_of_nothing_is_dropped_and_reported(tmp_path: Path) -> None:
    """ROS warns of it otherwise."""
    written = Written.make(_robot(_seen(VisualMaterial(name="nothing"))), tmp_path)
    assert _shapes(written)[0].material is None
    assert written.losses("nothing")
