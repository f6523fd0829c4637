"""What the browser is given to draw: triangles, looks, inertia boxes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from hypothesis import given, settings, strategies as st
from PIL import Image

from kinema.apps.viewer.displayed_model import DisplayedModel, bounding_box
from kinema.apps.viewer.gltf_meshes import GltfPrimitive, encode_glb, merge_primitives, shape_primitives
from kinema.apps.viewer.layers import inertia_box
from kinema.apps.viewer.panels.display_panels import encode_png, encode_video
from kinema.apps.viewer.scene_view import add_floor, frame_beside_panel
from kinema.core import Pose, rpy_to_matrix
from kinema.description import Base, Box, Cylinder, Link, Mesh, Robot, Shape, Sphere, VisualMaterial, tessellate
from kinema.geometry import Appearance, CornerAttribute, box_mass_properties
from kinema.read import read
from kit.assets import EXAMPLES
from kit.shown import needs_viser

POSE = Pose.from_rpy([0.1, -0.2, 0.3], [0.4, 0.5, 0.6])


def _loaded(parts: list[GltfPrimitive]) -> Any:
    scene = trimesh.load(io.BytesIO(encode_glb(parts)), file_type="glb")
    assert isinstance(scene, trimesh.Scene)
    return scene.to_geometry()


@pytest.mark.parametrize("geometry", [Box(np.array([0.1, 0.2, 0.3])), Cylinder(0.1, 0.4), Sphere(0.2)])
def test_triangles_arrive_where_the_shape_is(geometry: Box | Cylinder | Sphere) -> None:
    """Another reader of glTF has the surface that we meant, in the link's frame."""
    shape = Shape(geometry=geometry, pose=POSE)
    ours = tessellate(geometry)
    assert ours is not None
    expected = trimesh.Trimesh(POSE.apply(ours.vertices), ours.faces)
    found = _loaded(shape_primitives(shape))
    assert found.area == pytest.approx(expected.area, rel=1e-5)
    np.testing.assert_allclose(found.bounds, expected.bounds, atol=1e-6)


def test_normals_are_smooth_on_round_sides_and_sharp_at_edges() -> None:
    """A cylinder's side shines as if it were round, its caps are flat: normals are those of the true surface."""
    (part,) = shape_primitives(Shape(geometry=Cylinder(0.1, 0.4)))
    on_side = np.abs(part.normals[:, 2]) < 0.5
    around = part.positions[on_side] * [1.0, 1.0, 0.0]
    np.testing.assert_allclose(part.normals[on_side], around / np.linalg.norm(around, axis=1, keepdims=True), atol=1e-5)
    np.testing.assert_allclose(np.abs(part.normals[~on_side]), [[0.0, 0.0, 1.0]] * int((~on_side).sum()), atol=1e-6)


def test_links_whose_meshes_are_missing_are_drawn_by_what_touches() -> None:
    """A robot whose meshes were left at home is still seen; links that can be seen stay as they are."""
    lost, ball = Shape(geometry=Mesh(), collision=False), Shape(geometry=Sphere(0.1), visual=False)
    links = [Link(name="lost", shapes=[lost, ball]), Link(name="whole", shapes=[Shape(geometry=Sphere(0.2)), ball])]
    drawn = DisplayedModel(0, "robot", Robot(name="robot", links=links)).drawn_shapes()
    assert {link: [i for i, _ in shapes] for link, shapes in drawn.items()} == {"lost": [0, 1], "whole": [0]}


def test_parts_of_one_look_become_one() -> None:
    """The same surface in fewer pieces; what has another look stays apart, and is drawn from behind only where seen."""
    red, glass = (VisualMaterial(name="", color=(1.0, 0.0, 0.0, alpha)) for alpha in (1.0, 0.5))
    shapes = [Shape(geometry=Sphere(0.1), pose=Pose.translation([x, 0, 0]), material=red) for x in (0.0, 1.0)]
    parts = [part for shape in shapes for part in shape_primitives(shape, 8)]
    veil = shape_primitives(Shape(geometry=Box(np.ones(3)), material=glass))
    together = merge_primitives([*parts, *veil])
    assert len(together) == 2
    assert _loaded(together).area == pytest.approx(_loaded([*parts, *veil]).area)
    assert [b'"doubleSided":true' in encode_glb([part]) for part in together] == [False, True]


def test_a_texture_and_its_material_arrive(tmp_path: Path) -> None:
    """The image is the same to the last pixel, and lies the right way up."""
    pixels = np.arange(4 * 4 * 3, dtype=np.uint8).reshape(4, 4, 3)
    Image.fromarray(pixels).save(tmp_path / "paint.png")
    corners = np.array([[0, 1, 2]])
    look = VisualMaterial(name="paint", texture=str(tmp_path / "paint.png"), metallic=0.25, roughness=0.75)
    coordinates = (CornerAttribute(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), corners),)
    mesh = Mesh(
        vertices=np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]),
        faces=corners,
        appearance=Appearance(texture_coordinates=coordinates, materials=(look,)),
    )
    found = _loaded(shape_primitives(Shape(geometry=mesh)))
    visual = found.visual
    np.testing.assert_array_equal(np.asarray(visual.material.baseColorTexture.convert("RGB")), pixels)
    assert visual.material.metallicFactor == 0.25
    assert visual.material.roughnessFactor == 0.75
    order = np.argsort(found.vertices @ [1.0, 2.0, 0.0])
    np.testing.assert_allclose(visual.uv[order], [[0, 0], [1, 0], [0, 1]], atol=1e-6)


_CHECKER = """<mujoco><asset>
<texture name="checker" type="2d" builtin="checker" rgb1="1 0 0" rgb2="0 0 1" width="64" height="64"/>
<material name="floor" texture="checker" texrepeat="4 3" texuniform="UNIFORM"/></asset><worldbody>
<geom type="plane" size="SIZE 0.1" material="floor"/><geom type="box" size="40 40 0.1" pos="0 0 -0.1"/>
<geom type="box" size="0.2 0.2 0.1" pos="0.5 0 0.1"/>
<body pos="0 0 0.2"><freejoint/><geom size="0.2"/></body></worldbody></mujoco>"""


def _floor(folder: Path, size: str, uniform: str, kind: str = "plane") -> DisplayedModel:
    file = folder / "floor.xml"
    file.write_text(_CHECKER.replace("SIZE", size).replace("UNIFORM", uniform).replace('"plane"', f'"{kind}"'))
    return DisplayedModel(0, "floor", read(file))


@pytest.mark.parametrize("kind", ["plane", "box"])
@pytest.mark.parametrize(("size", "uniform", "period"), [("3 3", "false", (1.5, 2.0)), ("3 3", "true", (0.5, 2 / 3))])
def test_the_texture_of_a_floor_is_repeated_as_in_mujoco(
    tmp_path: Path, kind: str, size: str, uniform: str, period: tuple[float, float]
) -> None:
    """Over its size, or per 2 m if it is uniform, projected along z; the middle of an image lies at the origin."""
    (part,) = shape_primitives(_floor(tmp_path, size, uniform, kind).static_shapes[0])
    assert part.texture_coordinates is not None
    np.testing.assert_allclose(part.texture_coordinates, part.positions[:, :2] / period + 0.5, atol=1e-6)


def test_an_infinite_floor_has_the_texture_of_its_file(tmp_path: Path) -> None:
    """A disc under the robot that fades out, with and without light; without a texture, there is a grid."""
    plane = _floor(tmp_path, "0 0", "true").static_shapes[0]
    files = []

    class Page:
        def add_glb(self, name: str, data: bytes, **_: Any) -> None:
            files.append(data)

        def add_grid(self, name: str, **_: Any) -> None:
            files.append(b"")

    for simple in (False, True):
        add_floor(Page(), Pose(), 0.5, np.array([7.0, 0.0, 1.0]), simple_shading=simple, plane=plane)
    assert [b"KHR_materials_unlit" in file for file in files] == [False, True]
    assert all(b'"BLEND"' in file for file in files)
    disc: Any = trimesh.load(io.BytesIO(files[0]), file_type="glb")
    disc = disc.to_geometry()
    np.testing.assert_allclose(disc.bounds, [[1.0, -6.0, 0.0], [13.0, 6.0, 0.0]], atol=0.02)
    np.testing.assert_allclose(disc.visual.uv, disc.vertices[:, :2] * (2.0, 1.5) + 0.5, atol=1e-4)
    assert disc.visual.material.baseColorTexture is not None
    plane.material = None
    add_floor(Page(), Pose(), 0.5, np.zeros(3), simple_shading=False, plane=plane)
    assert files[2] == b""


@pytest.mark.parametrize("size", ["0 0", "3 3"])
def test_ground_does_not_count_for_the_view(tmp_path: Path, size: str) -> None:
    """Planes and what is much wider than the robot are ground; a table beside it is looked at too."""
    box = bounding_box(_floor(tmp_path, size, "true"))
    assert box is not None
    np.testing.assert_allclose(box, [[-0.2, -0.2, 0.0], [0.7, 0.2, 0.4]], atol=1e-6)


def test_wide_ground_of_another_model_does_not_count_for_the_view() -> None:
    """A scene's fixed 40 m box, and a static robot of SDFormat, are ground: the view is that of what can move."""
    ball = DisplayedModel(0, "ball", Robot(name="ball", links=[Link(name="b", shapes=[Shape(geometry=Sphere(0.2))])]))
    ground = Robot(name="ground", links=[Link(name="g", shapes=[Shape(geometry=Box(np.array([40.0, 40.0, 0.1])))])])
    for ground.static, ground.base in ((True, Base.UNSPECIFIED), (False, Base.FIXED)):
        box = bounding_box(ball, DisplayedModel(1, "ground", ground))
        assert box is not None
        np.testing.assert_allclose(box, [[-0.2] * 3, [0.2] * 3], atol=1e-6)
    ground.base = Base.FREE
    found = bounding_box(ball, DisplayedModel(1, "ground", ground))
    assert found is not None
    assert found[1][0] == pytest.approx(20.0), "a free box is looked at"


@pytest.mark.parametrize(("width", "height"), [(1920, 1080), (900, 560), (720, 1280), (400, 800)])
def test_a_robot_fits_beside_the_panel(width: int, height: int) -> None:
    """The edges of its sphere lie within the page, left of the panel, which pages of phones do not have."""
    distance, shift = frame_beside_panel(0.3, width, height)
    slope = np.tan(np.radians(20.0))
    left, right = (
        width / 2 + height / 2 / slope * np.tan(np.arctan(-shift / distance) + turn * np.arcsin(0.3 / distance))
        for turn in (-1, 1)
    )
    assert left >= -0.02 * width
    assert right <= (width - 400 if width > 700 else width) * 1.02
    assert np.arcsin(0.3 / distance) < np.radians(20.0)


def test_pictures_and_videos_are_files_that_others_read() -> None:
    needs_viser()
    frames = [np.full((32, 48, 3), 40 * i, dtype=np.uint8) for i in range(4)]
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(encode_png(frames[2])))), frames[2])
    seen_through = np.zeros((4, 4, 4), dtype=np.uint8)
    assert (np.asarray(Image.open(io.BytesIO(encode_png(seen_through)))) == 255).all()
    name, data = encode_video(frames, 10.0)
    assert {"kinema.mp4": data[4:8], "kinema.gif": data[:4]}[name] in (b"ftyp", b"GIF8")


def test_a_mesh_that_is_not_there_is_not_drawn() -> None:
    assert shape_primitives(Shape(geometry=Mesh(uri="gone.stl"))) == []


def test_all_that_is_seen_of_an_example_is_drawn() -> None:
    robot = read(EXAMPLES / "arm" / "arm.urdf")
    assert all(shape_primitives(shape) for link in robot.links for shape in link.visuals)


sizes = st.tuples(*[st.floats(0.01, 2.0)] * 3)


@settings(max_examples=40)
@given(size=sizes, mass=st.floats(0.01, 100.0), turn=st.tuples(*[st.floats(-3.0, 3.0)] * 3))
def test_the_inertia_box_of_a_box_is_that_box(size: tuple[float, ...], mass: float, turn: tuple[float, ...]) -> None:
    rotation = rpy_to_matrix(turn)
    inertia = box_mass_properties(size, density=1.0)
    scaled = rotation @ inertia.inertia @ rotation.T * (mass / inertia.mass)
    found = inertia_box(mass, scaled)
    assert found is not None
    edges, axes = found
    np.testing.assert_allclose(np.sort(edges), np.sort(size), rtol=1e-5, atol=1e-5)
    assert np.linalg.det(axes) == pytest.approx(1.0)
    np.testing.assert_allclose(
        axes @ np.diag(edges**2) @ axes.T, rotation @ np.diag(np.square(size)) @ rotation.T, atol=1e-5
    )


def test_an_impossible_inertia_has_no_box() -> None:
    assert inertia_box(1.0, np.diag([1.0, 0.1, 0.1])) is None
