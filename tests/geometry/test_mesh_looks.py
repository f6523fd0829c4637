"""What is laid on triangles is read as other programs read it: trimesh, pycollada and MuJoCo are asked."""

from __future__ import annotations

import importlib
import io
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh as trimesh_module
from scipy.spatial.transform import Rotation

from kinema.geometry import (
    Appearance,
    CornerAttribute,
    LoadedMesh,
    MapRole,
    MeshError,
    PbrMaterial,
    WrapMode,
    apply_affine,
    builtin_texture_reference,
    load_mesh_with_metadata,
    parse_mesh,
    phong_exponent_from_roughness,
    read_image,
    roughness_from_phong_exponent,
)
from kit.dressed_meshes import (
    BLUE,
    BOX,
    RED,
    dae_with_effects,
    dressed_box,
    face_normals,
    obj_with_library,
    picture,
    two_materials,
)

from . import mesh_writers as write

trimesh: Any = trimesh_module  # its types know less than it does

mujoco: Any = importlib.import_module("mujoco")
collada: Any = importlib.import_module("collada")
images: Any = pytest.importorskip("PIL.Image")


def looks_of(path: Path) -> tuple[LoadedMesh, Appearance]:
    loaded = load_mesh_with_metadata(path, with_appearance=True)
    assert loaded.appearance is not None
    return loaded, loaded.appearance


def pixels(reference: str) -> np.ndarray:
    data, _ = read_image(reference)
    return np.array(images.open(io.BytesIO(data)).convert("RGB"))


# -- OBJ ---------------------------------------------------------------------------------------------------------------


def test_an_obj_with_its_library(tmp_path: Path) -> None:
    """Corners, parts and materials are those that were written, and trimesh finds the same corners."""
    path = obj_with_library(tmp_path)
    loaded, found = looks_of(path)
    _, wanted = dressed_box(*two_materials(tmp_path))
    assert wanted.normals is not None
    assert found.normals is not None
    np.testing.assert_array_equal(found.texture_coordinates[0].expanded(), wanted.texture_coordinates[0].expanded())
    np.testing.assert_allclose(found.normals.expanded(), wanted.normals.expanded(), atol=1e-15)
    np.testing.assert_array_equal(found.face_material_indices, wanted.face_material_indices)
    for look, other in zip(found.materials, wanted.materials, strict=True):
        for field in ("name", "color", "texture", "emission", "metallic", "roughness"):
            assert getattr(look, field) == getattr(other, field), field
    assert loaded.appearance_notes == ()
    scene: Any = trimesh.load(path, process=False)
    parts = {str(g.visual.material.name): g for g in scene.geometry.values()}
    for number, name in enumerate(("paint", "steel")):
        mine = np.flatnonzero(found.face_material_indices == number)
        theirs = parts[name]
        np.testing.assert_allclose(theirs.triangles, loaded.mesh.triangles()[mine], atol=1e-12)
        np.testing.assert_allclose(
            theirs.visual.uv[theirs.faces], found.texture_coordinates[0].expanded()[mine], atol=1e-12
        )


def test_words_of_a_library(tmp_path: Path) -> None:
    """Phong's model is taken into ours, and images lie as they say."""
    picture(tmp_path / "a b.png", RED)
    (tmp_path / "m.mtl").write_text(
        "newmtl m\nKd 0.5 0.5 0.5\nTr 0.25\nKs 0.25 0.5 0.75\nNs 30\nPc 0.5\nPcr 0.125\n"
        "map_Kd -s 2 3 1 -o 0.5 -clamp on a b.png\nnorm -bm 0.5 a b.png\nmap_d -imfchan m a b.png\nmap_Pr gone.png\n"
    )
    (tmp_path / "m.obj").write_bytes(
        write.obj(BOX).replace(b"missing.mtl", b"m.mtl").replace(b"\nf ", b"\nusemtl m\nf ", 1)
    )
    loaded, found = looks_of(tmp_path / "m.obj")
    (look,) = found.materials
    assert look.color == (0.5, 0.5, 0.5, 0.75)
    assert look.specular == pytest.approx(0.5)
    assert look.roughness == pytest.approx(roughness_from_phong_exponent(30.0))
    assert (look.clearcoat, look.clearcoat_roughness) == (0.5, 0.125)
    assert Path(look.texture).name == "a b.png"
    assert (look.texture_mapping.scale, look.texture_mapping.offset) == ((2.0, 3.0), (0.5, 0.0))
    assert look.texture_mapping.wrap == (WrapMode.CLAMP, WrapMode.CLAMP)
    assert look.maps[MapRole.NORMAL].strength == 0.5
    assert look.maps[MapRole.OPACITY].channel == "a"
    assert ["gone.png" in sentence for sentence in loaded.appearance_notes] == [True]
    # corners of several kinds have no coordinates that could be given to all
    assert (found.texture_coordinates, found.normals) == ((), None)


@pytest.mark.parametrize("roughness", [0.1, 0.3, 0.5, 0.9, 1.0])
def test_phong_and_back(roughness: float) -> None:
    """The mapping between exponent and roughness is its own inverse."""
    assert roughness_from_phong_exponent(phong_exponent_from_roughness(roughness)) == pytest.approx(roughness)


@pytest.mark.parametrize("library", ["../out.mtl", "/etc/passwd", "sub/../../out.mtl", "box.txt"])
def test_libraries_elsewhere_are_not_opened(tmp_path: Path, library: str) -> None:
    (tmp_path / "out.mtl").write_text("newmtl m\nKd 1 0 0\n")
    home = tmp_path / "home"
    (home / "sub").mkdir(parents=True)
    (home / "m.obj").write_text(f"mtllib {library}\nusemtl m\nv 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    loaded, found = looks_of(home / "m.obj")
    assert found.materials == ()
    assert any("is not a file in the folder" in sentence for sentence in loaded.appearance_notes)


@pytest.mark.parametrize(("place", "is_found"), [("../../a.png", True), ("../../../a.png", False), ("../a.txt", False)])
def test_images_may_lie_a_little_above(tmp_path: Path, place: str, is_found: bool) -> None:
    """Two folders up, as everywhere; and nothing that is no image."""
    home = tmp_path / "1" / "2" / "3" / "4"
    home.mkdir(parents=True)
    picture((home / place).resolve(), RED)
    (home / "m.mtl").write_text(f"newmtl m\nmap_Kd {place}\n")
    (home / "m.obj").write_text("mtllib m.mtl\nusemtl m\nv 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    _, found = looks_of(home / "m.obj")
    assert bool(found.materials[0].texture) == is_found


# -- COLLADA -----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_a_dae_as_pycollada_reads_it(tmp_path: Path) -> None:
    """Corners in their places, and the materials that are bound to symbols."""
    path = dae_with_effects(tmp_path)
    loaded, found = looks_of(path)
    assert found.normals is not None
    document = collada.Collada(str(path))
    corners, normals, uv = [], [], []
    for geometry in document.scene.objects("geometry"):
        for primitive in geometry.primitives():
            corners.append(primitive.vertex[primitive.vertex_index])
            normals.append(primitive.normal[primitive.normal_index])
            uv.append(primitive.texcoordset[0][primitive.texcoord_indexset[0]])
    np.testing.assert_allclose(loaded.mesh.triangles(), 0.5 * np.concatenate(corners), atol=1e-6)
    np.testing.assert_allclose(found.normals.expanded(), np.concatenate(normals), atol=1e-6)
    np.testing.assert_allclose(found.texture_coordinates[0].expanded(), np.concatenate(uv), atol=1e-6)
    paint, steel = found.materials
    assert (paint.name, Path(paint.texture).name) == ("paint", "paint.png")
    assert paint.texture_mapping.wrap == (WrapMode.CLAMP, WrapMode.REPEAT)
    assert (paint.emission, paint.specular) == ((0.0, 0.5, 0.25), 0.25)
    assert paint.roughness == pytest.approx(roughness_from_phong_exponent(30))
    effect = document.materials["m2"].effect
    assert steel.color == (*effect.diffuse[:3], effect.transparency)
    np.testing.assert_array_equal(found.face_material_indices, [0] * 6 + [1] * 6)


# -- glTF --------------------------------------------------------------------------------------------------------------


def gltf_scene() -> Any:
    """Two boxes by trimesh: one with textures, one with plain values and colours of vertices."""
    pair = images.fromarray(np.array([[RED, BLUE]], dtype=np.uint8))
    metal = trimesh.visual.material.PBRMaterial(
        name="paint",
        baseColorFactor=[128, 255, 64, 255],
        baseColorTexture=pair,
        metallicRoughnessTexture=pair,
        normalTexture=pair,
        occlusionTexture=pair,
        emissiveTexture=pair,
        emissiveFactor=[0.5, 0.25, 0.125],
        metallicFactor=0.5,
        roughnessFactor=0.25,
        doubleSided=True,
        alphaMode="MASK",
        alphaCutoff=0.75,
    )
    first = trimesh.creation.box((1, 2, 3))
    uv = np.random.default_rng(1).random((len(first.vertices), 2))
    first.visual = trimesh.visual.TextureVisuals(uv=uv, material=metal)
    second = trimesh.creation.box((1, 1, 1))
    second.visual.vertex_colors = np.random.default_rng(2).integers(0, 255, (8, 4), dtype=np.uint8)
    return trimesh.Scene({"a": first, "b": second})


def test_a_glb_of_trimesh(tmp_path: Path) -> None:
    scene = gltf_scene()
    path = tmp_path / "scene.glb"
    scene.export(path)
    loaded, found = looks_of(path)
    paint = next(look for look in found.materials if look.name == "paint")
    np.testing.assert_allclose(paint.color or (), (128 / 255, 1.0, 64 / 255, 1.0), atol=1e-6)
    assert (paint.metallic, paint.roughness, paint.double_sided) == (0.5, 0.25, True)
    assert (paint.opacity_threshold, paint.emission) == (0.75, (0.5, 0.25, 0.125))
    channels = {role: paint.maps[role].channel for role in paint.maps}
    assert channels == {
        "opacity": "a",
        "metallic": "b",
        "roughness": "g",
        "normal": "",
        "occlusion": "r",
        "emission": "",
    }
    for image in paint.image_references:
        np.testing.assert_array_equal(pixels(image), [[RED, BLUE]])
    for name, material in (("a", "paint"), ("b", None)):
        mesh = scene.geometry[name]
        mine = _faces_at(loaded, mesh.triangles)
        if material:
            wanted = mesh.visual.uv[mesh.faces]
            np.testing.assert_allclose(found.texture_coordinates[0].expanded()[mine], wanted, atol=1e-6)
            assert {found.materials[i].name for i in _numbers(found)[mine]} == {material}
        else:
            assert found.colors is not None
            wanted = mesh.visual.vertex_colors[mesh.faces] / 255.0
            np.testing.assert_allclose(found.colors.expanded()[mine], wanted, atol=1e-6)


def _numbers(appearance: Appearance) -> np.ndarray:
    assert appearance.face_material_indices is not None
    return appearance.face_material_indices


def _faces_at(loaded: LoadedMesh, triangles: np.ndarray) -> list[int]:
    """The faces with these corners, whatever their order."""
    mine = {np.round(t, 4).tobytes(): i for i, t in enumerate(loaded.mesh.triangles() + 0.0)}
    return [mine[np.round(t.astype(np.float64), 4).tobytes()] for t in triangles + 0.0]


def test_images_beside_a_gltf(tmp_path: Path) -> None:
    """The same as several files: buffers and images beside the text."""
    for name, data in trimesh.exchange.gltf.export_gltf(gltf_scene()).items():
        (tmp_path / name).write_bytes(data)
    _, found = looks_of(tmp_path / "model.gltf")
    paint = next(look for look in found.materials if look.name == "paint")
    np.testing.assert_array_equal(pixels(paint.texture), [[RED, BLUE]])


def test_a_transform_of_a_texture(tmp_path: Path) -> None:
    """KHR_texture_transform counts v downwards: what comes out is where it says, seen from the other edge."""
    from kinema.geometry.formats.gltf import _texture_mapping

    turn, scale, offset = 0.3, np.array([2.0, 0.5]), np.array([0.1, 0.2])
    given = {"scale": scale.tolist(), "offset": offset.tolist(), "rotation": turn}
    placement = _texture_mapping({"extensions": {"KHR_texture_transform": given}}, {"wrapS": 33071})
    for u, v in np.random.default_rng(3).random((5, 2)):
        down = np.array([u, 1 - v]) * scale
        c, s = math.cos(turn), math.sin(turn)
        wanted = np.array([[c, s], [-s, c]]) @ down + offset
        up = np.array([[c, -s], [s, c]]) @ (np.array([u, v]) * placement.scale) + placement.offset
        np.testing.assert_allclose([up[0], 1 - up[1]], wanted, atol=1e-12)
    assert placement.wrap == (WrapMode.CLAMP, WrapMode.REPEAT)


# -- PLY and STL -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["ascii", "binary"])
def test_colors_of_a_ply(tmp_path: Path, encoding: str) -> None:
    mesh = trimesh.creation.box((1, 2, 3))
    mesh.visual.vertex_colors = np.random.default_rng(4).integers(0, 255, (8, 4), dtype=np.uint8)
    path = tmp_path / "c.ply"
    path.write_bytes(trimesh.exchange.ply.export_ply(mesh, encoding=encoding, vertex_normal=True))
    loaded, found = looks_of(path)
    assert found.colors is not None
    assert found.normals is not None
    np.testing.assert_allclose(found.colors.expanded(), mesh.visual.vertex_colors[mesh.faces] / 255.0, atol=1e-9)
    np.testing.assert_allclose(found.normals.expanded(), mesh.vertex_normals[mesh.faces], atol=1e-5)
    assert loaded.mesh.n_faces == 12


@pytest.mark.parametrize("encoding", ["ascii", "binary"])
def test_colors_of_faces_of_a_ply(tmp_path: Path, encoding: str) -> None:
    """As trimesh writes them."""
    mesh = trimesh.creation.box((1, 2, 3))
    mesh.visual.face_colors = np.random.default_rng(5).integers(0, 255, (12, 4), dtype=np.uint8)
    path = tmp_path / "f.ply"
    path.write_bytes(trimesh.exchange.ply.export_ply(mesh, encoding=encoding))
    loaded, found = looks_of(path)
    assert found.colors is not None
    wanted = np.repeat(mesh.visual.face_colors[:, None], 3, axis=1) / 255.0
    np.testing.assert_allclose(found.colors.expanded(), wanted, atol=1e-9)
    assert not loaded.appearance_notes


@pytest.mark.parametrize("encoding", ["ascii", "binary_big_endian"])
def test_colors_of_polygons_of_a_ply(tmp_path: Path, encoding: str) -> None:
    """A square and a triangle: rows of several lengths; a comment that names an image is reported."""
    kinds = "".join(f"property {kind}\n" for kind in ("uchar red", "list uchar int vertex_indices", "uchar green"))
    head = (
        f"ply\nformat {encoding} 1.0\ncomment TextureFile a b.png\nelement vertex 4\n"
        f"property float x\nproperty float y\nproperty float z\n"
        f"element face 2\n{kinds}property uchar blue\nend_header\n"
    )
    corners = ((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 1))
    faces = ((255, (0, 1, 2, 3), 51, 0), (0, (0, 1, 3), 102, 255))
    if encoding == "ascii":
        rows = [*corners, *((red, len(at), *at, *rest) for red, at, *rest in faces)]
        body = "\n".join(" ".join(map(str, row)) for row in rows).encode()
    else:
        body = b"".join(struct.pack(">3f", *corner) for corner in corners)
        body += b"".join(struct.pack(f">BB{len(at)}i2B", red, len(at), *at, *rest) for red, at, *rest in faces)
    (tmp_path / "p.ply").write_bytes(head.encode() + body)
    loaded, found = looks_of(tmp_path / "p.ply")
    assert found.colors is not None
    wanted = np.array([(1, 0.2, 0, 1), (1, 0.2, 0, 1), (0, 0.4, 1, 1)])
    np.testing.assert_allclose(found.colors.expanded(), np.repeat(wanted[:, None], 3, axis=1))
    assert loaded.appearance_notes == ("The image 'a b.png' was skipped.",)


def test_colors_of_an_stl(tmp_path: Path) -> None:
    """Both ways of putting them into the two bytes that nobody else uses."""
    plain = bytearray(write.stl_binary(BOX))
    assert load_mesh_with_metadata(_file(tmp_path, plain), with_appearance=True).appearance is None
    red, green, blue = 31, 10, 3
    plain[84 + 48 : 84 + 50] = (1 << 15 | red << 10 | green << 5 | blue).to_bytes(2, "little")
    found = looks_of(_file(tmp_path, plain))[1].colors
    assert found is not None
    np.testing.assert_allclose(found.expanded()[0, 0], (1.0, 10 / 31, 3 / 31, 1.0))
    np.testing.assert_allclose(found.expanded()[1:], 1.0)
    plain[:16] = b"COLOR=" + bytes([255, 0, 51, 255]) + b"      "
    plain[84 + 48 : 84 + 50] = (blue << 10 | green << 5 | red).to_bytes(2, "little")
    for at in range(84 + 50, len(plain), 50):
        plain[at + 48 : at + 50] = b"\x00\x80"
    found = looks_of(_file(tmp_path, plain))[1].colors
    assert found is not None
    np.testing.assert_allclose(found.expanded()[0, 0], (1.0, 10 / 31, 3 / 31, 1.0))
    np.testing.assert_allclose(found.expanded()[1:], np.broadcast_to((1.0, 0.0, 0.2, 1.0), (11, 3, 4)))


def _file(folder: Path, data: bytes | bytearray) -> Path:
    (folder / "m.stl").write_bytes(data)
    return folder / "m.stl"


# -- maps and faults ---------------------------------------------------------------------------------------------------


def test_normals_stay_normal() -> None:
    """Under scale, shear and mirrors they are those of the mapped faces."""
    appearance = Appearance(normals=face_normals(BOX))
    for seed in range(6):
        linear = np.random.default_rng(seed).normal(size=(3, 3))
        assert appearance.normals is not None
        mapped = appearance.transformed(linear).normals
        assert mapped is not None
        wanted = face_normals(apply_affine(BOX, linear))
        np.testing.assert_allclose(mapped.expanded(), wanted.expanded(), atol=1e-9)
    turned = appearance.transformed(Rotation.from_rotvec([0, 0, 1]).as_matrix())
    assert turned.normals is not None


def test_parts_alone() -> None:
    """Faces taken out keep what is on them."""
    look, other = PbrMaterial(name="a"), PbrMaterial(name="b")
    mesh, whole = dressed_box(look, other)
    for found, faces in whole.faces_by_material(mesh.n_faces):
        part = whole.select_faces(faces)
        np.testing.assert_array_equal(
            part.texture_coordinates[0].expanded(), whole.texture_coordinates[0].expanded()[faces]
        )
        assert found is (look if faces[0] == 0 else other)


@pytest.mark.parametrize("kind", ["obj", "dae", "glb"])
def test_damaged_looks_never_cost_a_mesh(tmp_path: Path, kind: str) -> None:
    """What is wrong with colours and the like leaves the triangles as they are without them."""
    if kind == "glb":
        path = tmp_path / "scene.glb"
        gltf_scene().export(path)
    else:
        path = obj_with_library(tmp_path) if kind == "obj" else dae_with_effects(tmp_path)
    data, generator = path.read_bytes(), np.random.default_rng(7)
    for _ in range(60):
        damaged = bytearray(data)
        for at in generator.integers(0, len(data), 3):
            damaged[at] = generator.choice([0, 32, 48, 57, 255, 46])
        plain, dressed = _outcome(bytes(damaged), path, looks=False), _outcome(bytes(damaged), path, looks=True)
        if isinstance(plain, str) or isinstance(dressed, str):
            assert isinstance(plain, str) == isinstance(dressed, str), (plain, dressed)
        else:
            np.testing.assert_array_equal(dressed.mesh.vertices, plain.mesh.vertices)
            np.testing.assert_array_equal(dressed.mesh.faces, plain.mesh.faces)


def _outcome(data: bytes, path: Path, *, looks: bool) -> LoadedMesh | str:
    try:
        return parse_mesh(data, path.suffix, file=path, with_appearance=looks)
    except MeshError as error:
        return error.reason


def test_layers_that_do_not_fit_are_left_out() -> None:
    """Numbers that are none, and corners that point nowhere."""
    from kinema.geometry import normalize_normals, validated_corner_attribute

    assert validated_corner_attribute(np.ones((2, 2)), np.array([[0, 1, 2]]), 2) is None
    assert validated_corner_attribute(np.array([[0.0, np.nan]]), np.array([[0, 0, 0]]), 2) is None
    assert normalize_normals(CornerAttribute(np.zeros((1, 3)), np.array([[0, 0, 0]]))) is None
    kept = validated_corner_attribute(np.ones((2, 3)), np.array([[0, 1, 1]]), 2)
    assert isinstance(kept, CornerAttribute)
    assert kept.values.shape == (2, 2)


# -- images that MuJoCo draws ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", ["none", "edge", "cross"])
@pytest.mark.parametrize("kind", ["checker", "gradient", "flat"])
def test_builtin_images_are_those_of_mujoco(kind: str, mark: str) -> None:
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><asset><texture name="t" type="2d" builtin="{kind}" mark="{mark}" markrgb="0 .5 1" rgb1="1 .2 .1"
        rgb2=".1 .9 .3" width="9" height="6"/></asset><worldbody/></mujoco>"""
    )
    reference = builtin_texture_reference(kind, (9, 6), (1, 0.2, 0.1), (0.1, 0.9, 0.3), mark, (0, 0.5, 1))
    theirs = np.array(model.tex_data[: 9 * 6 * 3], dtype=int).reshape(6, 9, 3)
    assert np.abs(pixels(reference).astype(int) - theirs).max() <= 1
