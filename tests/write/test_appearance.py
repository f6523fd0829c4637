"""Nothing that can be seen is lost without a word: made-up robots through every format and back."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

import kinema
from kinema.description import Mesh, Robot
from kinema.geometry import MapRole, read_image
from kit.dressed_meshes import BOX, face_normals, seamed_coordinates
from kit.dressed_robots import ROBOTS
from kit.seen import differences, seen, unexplained

mujoco: Any = importlib.import_module("mujoco")
usd: Any = importlib.import_module("pxr.Usd")
shade: Any = importlib.import_module("pxr.UsdShade")
geom: Any = importlib.import_module("pxr.UsdGeom")
images: Any = importlib.import_module("PIL.Image")

FILES = {"usd": "r.usda", "urdf": "r.urdf", "sdf": "r.sdf", "mjcf": "r.xml"}
_GLOW = {"emission"}
"""MuJoCo has one number for it."""
LOST = {
    ("mjcf", "rich"): {
        *("clearcoat", "clearcoat_roughness", "opacity_threshold", "double_sided", "wrap"),
        *("emission", "normal map", "occlusion map"),
    },
    ("urdf", "rich"): {"opacity_threshold", "double_sided", "reflectance", "wrap", "coordinates"},
    ("sdf", "rich"): {
        *("opacity_threshold", "reflectance", "clearcoat", "clearcoat_roughness", "wrap", "coordinates"),
        *(
            "normal map",
            "occlusion map",
        ),
    },
    ("urdf", "vertices_in_colors"): {"colors"},
    ("sdf", "vertices_in_colors"): {"colors"},
    ("mjcf", "vertices_in_colors"): {"colors"},
    **{("mjcf", name): _GLOW for name in ("parts", "colliding_parts", "mirrored", "obj_file")},
    ("mjcf", "dae_file"): {"emission", "wrap"},
}
"""What a format cannot say; of all others nothing is lost."""


def trip(name: str, format: str, folder: Path) -> tuple[set[str], Any, Robot]:
    """What differs after writing and reading, the loss report, and what came back."""
    robot = ROBOTS[name](folder / "source")
    before = seen(robot)
    report = kinema.write(robot, folder / FILES[format])
    again = kinema.read(folder / FILES[format])
    assert isinstance(again, Robot)
    return differences(before, seen(again)), report, again


@pytest.mark.parametrize("format", FILES)
@pytest.mark.parametrize("name", ROBOTS)
def test_there_and_back(name: str, format: str, tmp_path: Path) -> None:
    """The same is seen, or the report says what is not."""
    different, report, _ = trip(name, format, tmp_path)
    assert unexplained(different, report) == set()
    assert different == LOST.get((format, name), set())


def test_differences_are_found(tmp_path: Path) -> None:
    """The comparison is no rubber stamp."""
    one = seen(ROBOTS["parts"](tmp_path))
    other = seen(ROBOTS["painted_over"](tmp_path))
    assert {"color", "texture", "metallic"} <= differences(one, other)
    assert differences(one, {}) == {"triangles"}
    assert differences(one, one) == set()
    assert unexplained({"texture", "normals"}) == {"texture", "normals"}


@pytest.mark.parametrize("format", FILES)
def test_no_path_leads_out_of_the_folder(format: str, tmp_path: Path) -> None:
    """What is written can be moved elsewhere, and the source taken away."""
    home = tmp_path / "out"
    home.mkdir()
    robot = ROBOTS["rich"](tmp_path / "source")
    before = seen(robot)
    report = kinema.write(robot, home / FILES[format])
    (tmp_path / "source").rename(tmp_path / "gone")
    home.rename(tmp_path / "moved")
    again = kinema.read(tmp_path / "moved" / FILES[format])
    assert unexplained(differences(before, seen(again)), report) == set()
    texts = [
        p.read_text() for p in (tmp_path / "moved").rglob("*") if p.suffix in (".usda", ".urdf", ".sdf", ".xml", ".mtl")
    ]
    assert not any(str(tmp_path) in text for text in texts)


def test_images_are_stored_once(tmp_path: Path) -> None:
    """The content counts, not the name."""
    robot = ROBOTS["parts"](tmp_path / "source")
    other = ROBOTS["parts"](tmp_path / "copy")
    other.links[1].shapes[0].name = "second"
    robot.links[1].shapes += other.links[1].shapes
    for file in FILES.values():
        folder = tmp_path / file.replace(".", "_")
        folder.mkdir()
        kinema.write(robot, folder / file)
        assert [p.name for p in folder.rglob("*.png")] == ["paint.png"]


# -- foreign judges ----------------------------------------------------------------------------------------------------


def test_openusd_resolves_the_network(tmp_path: Path) -> None:
    """UsdShade finds the surface, its textures and what reads their coordinates; the subsets are a partition."""
    kinema.write(ROBOTS["parts"](tmp_path / "source"), tmp_path / "r.usda")
    stage = usd.Stage.Open(str(tmp_path / "r.usda"))
    (mesh,) = [p for p in stage.Traverse() if p.IsA(geom.Mesh)]
    subsets = shade.MaterialBindingAPI(mesh).GetMaterialBindSubsets()
    faces = sorted(i for s in subsets for i in s.GetIndicesAttr().Get())
    assert faces == list(range(12))
    assert geom.Subset.ValidateFamily(geom.Imageable(mesh), geom.Tokens.face, "materialBind")[0]
    bound = shade.MaterialBindingAPI.ComputeBoundMaterials([s.GetPrim() for s in subsets])[0]
    surfaces = [m.ComputeSurfaceSource()[0] for m in bound]
    assert [s.GetIdAttr().Get() for s in surfaces] == ["UsdPreviewSurface"] * 2
    source = surfaces[0].GetInput("diffuseColor").GetConnectedSources()[0][0].source.GetPrim()
    texture = shade.Shader(source)
    assert texture.GetIdAttr().Get() == "UsdUVTexture"
    assert (
        Path(texture.GetInput("file").Get().resolvedPath).read_bytes() == (tmp_path / "source/paint.png").read_bytes()
    )
    reader = shade.Shader(texture.GetInput("st").GetConnectedSources()[0][0].source.GetPrim())
    coordinates = geom.PrimvarsAPI(mesh).GetPrimvar(reader.GetInput("varname").Get())
    wanted = seamed_coordinates(BOX).expanded().reshape(-1, 2)
    np.testing.assert_allclose(coordinates.ComputeFlattened(), wanted, atol=1e-7)
    assert coordinates.GetInterpolation() == "faceVarying"
    normals = geom.Mesh(mesh)
    assert normals.GetNormalsInterpolation() == "uniform"
    np.testing.assert_allclose(np.array(normals.GetNormalsAttr().Get()), face_normals(BOX).values, atol=1e-7)


@pytest.mark.parametrize("name", ROBOTS)
def test_openusd_finds_no_fault(name: str, tmp_path: Path) -> None:
    """All of its validators, which are what `usdchecker` runs; and the older rules where OpenUSD still has them."""
    validation = importlib.import_module("pxr.UsdValidation")
    utilities = importlib.import_module("pxr.UsdUtils")
    kinema.write(ROBOTS[name](tmp_path / "source"), tmp_path / "r.usda")
    every = validation.ValidationRegistry().GetOrLoadAllValidators()
    stage = usd.Stage.Open(str(tmp_path / "r.usda"))
    errors = validation.ValidationContext(every).Validate(stage)
    assert [error.GetMessage() for error in errors] == []
    if hasattr(utilities, "ComplianceChecker"):  # until OpenUSD 26
        checker = utilities.ComplianceChecker(skipVariants=False)
        checker.CheckCompliance(str(tmp_path / "r.usda"))
        assert [*checker.GetErrors(), *checker.GetFailedChecks()] == []


@pytest.mark.parametrize("place", ["/etc/passwd", "../../../paint.png", "http://else.where/paint.png", "gone.png"])
def test_images_of_a_stage_stay_near_it(place: str, tmp_path: Path) -> None:
    """What may not be read, or is no image, is not named in the description, and a warning says so."""
    home = tmp_path / "1" / "2" / "3"
    home.mkdir(parents=True)
    robot = ROBOTS["parts"](tmp_path)
    kinema.write(robot, home / "r.usda")
    text = (home / "r.usda").read_text()
    assert "./textures/paint.png" in text
    (home / "r.usda").write_text(text.replace("./textures/paint.png", place))
    again = kinema.read(home / "r.usda")
    mesh = again.links[1].shapes[0].geometry
    assert isinstance(mesh, Mesh)
    assert mesh.appearance is not None
    assert [look.texture for look in mesh.appearance.materials] == ["", ""]
    assert "usd.missing-texture" in [d.code for d in again.diagnostics]


def test_a_package_holds_its_images(tmp_path: Path) -> None:
    """A usdz has them inside, and they are read from there."""
    robot = ROBOTS["parts"](tmp_path / "source")
    before = seen(robot)
    kinema.write(robot, tmp_path / "r.usdz")
    (tmp_path / "source").rename(tmp_path / "gone")
    assert not (tmp_path / "textures").exists()
    again = kinema.read(tmp_path / "r.usdz")
    assert differences(before, seen(again)) == set()


@pytest.mark.parametrize("options", [{"layered": True}, {"meshes": "reference"}])
def test_other_ways_to_lay_out_a_stage(options: dict[str, Any], tmp_path: Path) -> None:
    robot = ROBOTS["parts"](tmp_path / "source")
    kinema.write(robot, tmp_path / "r.usda", **options)
    assert differences(seen(robot), seen(kinema.read(tmp_path / "r.usda"))) == set()


def test_mujoco_has_the_same_materials_and_coordinates(tmp_path: Path) -> None:
    """The compiled model: a geom for each material, its texture's pixels, and the coordinates of each corner."""
    kinema.write(ROBOTS["parts"](tmp_path / "source"), tmp_path / "r.xml")
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "r.xml"))
    names = [mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_MATERIAL, int(m)) for m in model.geom_matid]
    assert names == ["paint", "steel"]
    np.testing.assert_allclose(model.mat_rgba, [(0.5, 0.75, 0.25, 1.0), (0.25, 0.25, 0.5, 0.5)])
    np.testing.assert_allclose(model.mat_metallic, [0.125, 1.0])
    np.testing.assert_allclose(model.mat_roughness, [0.25, 0.5])
    assert model.ntex == 1
    assert list(model.tex_data[:6]) == [200, 40, 30, 10, 60, 220]
    uv = seamed_coordinates(BOX).expanded()
    for geom_number, faces in enumerate((range(6), range(6, 12))):
        mesh = int(model.geom_dataid[geom_number])
        first, count = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
        start = int(model.mesh_texcoordadr[mesh])
        theirs = model.mesh_texcoord[start:][model.mesh_facetexcoord[first : first + count]]
        np.testing.assert_allclose(theirs * (1, -1) + (0, 1), uv[list(faces)], atol=1e-6)


def test_parts_that_collide_keep_their_mechanics(tmp_path: Path) -> None:
    """What collides is one geom with the whole mesh, unseen; the parts weigh nothing and touch nothing."""
    robot = ROBOTS["colliding_parts"](tmp_path / "source")
    kinema.write(robot, tmp_path / "r.xml")
    plain = ROBOTS["colliding_parts"](tmp_path / "source")
    mesh = plain.links[1].shapes[0].geometry
    assert isinstance(mesh, Mesh)
    plain.links[1].shapes[0].geometry = Mesh(vertices=mesh.vertices, faces=mesh.faces)
    kinema.write(plain, tmp_path / "plain.xml")
    dressed, bare = (mujoco.MjModel.from_xml_path(str(tmp_path / f)) for f in ("r.xml", "plain.xml"))
    np.testing.assert_allclose(dressed.body_inertia, bare.body_inertia)
    np.testing.assert_allclose(dressed.body_mass, bare.body_mass)
    collides = (dressed.geom_contype | dressed.geom_conaffinity) != 0
    assert list(collides) == [True, False, False]
    np.testing.assert_allclose(dressed.geom_rbound[0], bare.geom_rbound[0])


@pytest.mark.parametrize("format", ["urdf", "sdf"])
def test_trimesh_reads_the_meshes_of(format: str, tmp_path: Path) -> None:
    """The OBJ with its library: parts, coordinates, colours and the image."""
    kinema.write(ROBOTS["parts"](tmp_path / "source"), tmp_path / FILES[format])
    (path,) = tmp_path.rglob("meshes/*.obj")
    scene: Any = trimesh.load(path, process=False)
    parts = {str(g.visual.material.name): g for g in scene.geometry.values()}
    assert set(parts) == {"paint", "steel"}
    np.testing.assert_allclose(parts["paint"].visual.uv[parts["paint"].faces], seamed_coordinates(BOX).expanded()[:6])
    assert parts["paint"].visual.material.image.size == (2, 1)
    assert tuple(parts["steel"].visual.material.diffuse[:3]) == (64, 64, 128)


def test_textures_that_mujoco_draws_are_drawn(tmp_path: Path) -> None:
    """A builtin texture is an image elsewhere, the same one that MuJoCo makes."""
    (tmp_path / "m.xml").write_text(
        """<mujoco><asset><texture name="t" type="2d" builtin="checker" rgb1="1 0 0" rgb2="0 0 1" width="8" height="8"/>
        <material name="m" texture="t" texrepeat="2 2"/>
        <mesh name="b" vertex="0 0 0 1 0 0 0 1 0 0 0 1" face="0 2 1 0 1 3 0 3 2 1 2 3" texcoord="0 0 1 0 0 1 1 1"/>
        </asset>
        <worldbody><body name="b"><geom type="mesh" mesh="b" material="m"/></body></worldbody></mujoco>"""
    )
    robot = kinema.read(tmp_path / "m.xml")
    report = kinema.write(robot, tmp_path / "r.usda")
    assert not any("texture" in str(loss) and "coordinates" in str(loss) for loss in report)
    assert differences(seen(robot), seen(kinema.read(tmp_path / "r.usda"))) == set()
    data, suffix = read_image(str(tmp_path / "textures" / "checker.png"))
    assert suffix == ".png"
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "m.xml"))
    image = images.open(tmp_path / "textures" / "checker.png")
    np.testing.assert_array_equal(np.array(image).reshape(-1), model.tex_data[: 8 * 8 * 3])
    assert data.startswith(b"\x89PNG")


def test_primitives_say_why_their_texture_is_not_shown(tmp_path: Path) -> None:
    """A box has no texture coordinates in USD; the file goes along all the same."""
    from kinema.description import Box, Link, Shape, VisualMaterial

    image = ROBOTS["parts"](tmp_path / "source") and str(tmp_path / "source" / "paint.png")
    shape = Shape(geometry=Box(np.ones(3)), material=VisualMaterial(name="m", texture=image))
    report = kinema.write(Robot(name="r", links=[Link(name="a", shapes=[shape])]), tmp_path / "r.usda")
    assert any("no texture coordinates" in str(loss) for loss in report)
    (link,) = kinema.read(tmp_path / "r.usda").links
    assert link.shapes[0].material is not None
    assert Path(link.shapes[0].material.texture) == tmp_path / "textures" / "paint.png"


def test_maps_keep_their_channels(tmp_path: Path) -> None:
    """One image for occlusion, roughness and metalness is MuJoCo's `orm`."""
    _, _, again = trip("rich", "mjcf", tmp_path)
    material = again.links[1].shapes[0].material
    assert material is not None
    channels = {role: material.maps[role].channel for role in material.maps}
    assert channels[MapRole.OCCLUSION] == "r"
    assert channels[MapRole.ROUGHNESS] == "g"
    assert channels[MapRole.METALLIC] == "b"


def test_images_that_mujoco_cannot_read_become_png(tmp_path: Path) -> None:
    """A JPEG is converted; what is no image at all is named in the report."""
    robot = ROBOTS["parts"](tmp_path / "source")
    mesh = robot.links[1].shapes[0].geometry
    assert isinstance(mesh, Mesh)
    assert mesh.appearance is not None
    paint = mesh.appearance.materials[0]
    images.new("RGB", (4, 2), (200, 40, 30)).save(tmp_path / "photo.jpg")
    paint.texture = str(tmp_path / "photo.jpg")
    kinema.write(robot, tmp_path / "r.xml")
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "r.xml"))
    assert (int(model.tex_width[0]), int(model.tex_height[0])) == (4, 2)
    assert np.abs(np.array(model.tex_data[:3], dtype=int) - (200, 40, 30)).max() <= 3
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8\xff nothing")
    paint.texture = str(tmp_path / "bad.jpg")
    report = kinema.write(robot, tmp_path / "r.xml")
    assert any("cannot be converted" in str(loss) for loss in report)
