"""Several files: includes, attached models, meshes, textures, height maps, and which line everything comes from."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from kinema.core import Diagnostics, ReadError, Severity
from kinema.description import HeightField, Mesh, Robot, World
from kinema.read.mjcf import read_mjcf
from kinema.read.resolve import Resolver
from kit.diagnostics import ClaimedDiagnostics
from kit.mjcf_texts import BALL, STL, VERTICES, in_body, read_text, write
from kit.mujoco_models import load

MESH_BODY = '<worldbody><body name="b"><joint/><geom name="g" type="mesh" mesh="a"/></body></worldbody>'


def _mesh_model(file: str = "a.stl", compiler: str = "", mesh: str = "") -> str:
    return f'<mujoco>\n<compiler {compiler}/>\n<asset>\n<mesh file="{file}" {mesh}/>\n</asset>\n{MESH_BODY}\n</mujoco>'


def _tree(folder: Path, files: dict[str, str | bytes]) -> Path:
    """Files in a folder; the first is the main one."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder / next(iter(files))


# -- includes ---------------------------------------------------------------------------------------------------------


def test_includes_keep_their_places(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Elements of an included file know that file and its line, several on one line and nested includes too."""
    main = _tree(
        tmp_path,
        {
            "main.xml": '<mujoco model="m">\n<worldbody>\n<include file="parts/arm.xml"/>\n</worldbody>\n</mujoco>',
            "parts/arm.xml": f'<mujocoinclude>\n\n<body name="a"><joint name="j"/>{BALL}\n'
            '<include file="parts/hand.xml"/></body></mujocoinclude>',
            "parts/hand.xml": f'<mujoco>\n\n\n<body name="h">\n{BALL}</body>\n</mujoco>',
        },
    )
    robot = read_mjcf(main, diagnostics=diagnostics)
    assert isinstance(robot, Robot)
    assert str(robot.link("a").origin) == f"{tmp_path}/parts/arm.xml:3"
    assert str(robot.joint("j").origin) == f"{tmp_path}/parts/arm.xml:3"
    assert str(robot.link("h").origin) == f"{tmp_path}/parts/hand.xml:4"
    assert str(robot.link("h").shapes[0].origin) == f"{tmp_path}/parts/hand.xml:5"


@pytest.mark.parametrize("place", ["b.xml", "sub/b.xml"])
def test_nested_includes_are_found_as_mujoco_finds_them(tmp_path: Path, place: str) -> None:
    """Beside the main file, or beside the including file."""
    include = '<mujoco><include file="{}"/></mujoco>'
    files: dict[str, str | bytes] = {
        "main.xml": include.format("sub/a.xml"),
        "sub/a.xml": include.format("b.xml"),
        place: in_body(""),
    }
    main = _tree(tmp_path, files)
    assert load(main).nbody == 2
    assert len(read_mjcf(main).links) == 1


def test_missing_include_is_reported_and_the_rest_read(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """One file that is not there does not hide the others' problems."""
    robot = read_text(tmp_path, in_body("", '\n<include file="gone.xml"/>'), diagnostics)
    assert len(robot.links) == 1
    found = diagnostics.claim("mjcf.missing-include")
    assert (found.severity, found.origin.line) == (Severity.ERROR, 2)
    assert "gone.xml" in found.message


def test_what_a_missing_include_would_have_held(tmp_path: Path) -> None:
    """Where the rest cannot be read without it, the file that is missing is named, not only what it would have said."""
    with pytest.raises(ReadError, match=r"'robot_class'.*gone\.xml"):
        read_text(tmp_path, in_body('<geom class="robot_class" size="1"/>', '<include file="gone.xml"/>'))


def test_a_file_is_included_once(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """As MuJoCo has it."""
    files: dict[str, str | bytes] = {
        "main.xml": '<mujoco><include file="b.xml"/>\n<include file="b.xml"/></mujoco>',
        "b.xml": in_body(""),
    }
    assert len(read_mjcf(_tree(tmp_path, files), diagnostics=diagnostics).links) == 1
    assert diagnostics.claim("mjcf.repeated-include").origin.line == 2


# -- attached models --------------------------------------------------------------------------------------------------


def test_attached_models(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A sub-model has its own folders and units, and its elements keep their lines."""
    files: dict[str, str | bytes] = {
        "main.xml": '<mujoco model="pair">\n<compiler angle="radian"/>'
        '<asset><model name="s" file="sub/arm.xml"/></asset>'
        f'<worldbody><body name="base">{BALL}<attach model="s" body="b" prefix="left_"/>'
        '<attach model="s" body="b" prefix="right_"/></body></worldbody></mujoco>',
        "sub/arm.xml": _mesh_model(compiler='meshdir="meshes"').replace("<joint/>", '<joint name="j" range="0 90"/>'),
        "sub/meshes/a.stl": STL,
    }
    main = _tree(tmp_path, files)
    robot = read_mjcf(main, diagnostics=diagnostics)
    assert isinstance(robot, Robot)
    assert [x.name for x in robot.links] == ["base", "left_b", "right_b"]
    assert robot.joint("right_j").axes[0].upper == pytest.approx(np.pi / 2)
    assert str(robot.link("left_b").origin) == f"{tmp_path}/sub/arm.xml:6"
    mesh = robot.link("left_b").shapes[0].geometry
    assert isinstance(mesh, Mesh)
    assert (mesh.uri, mesh.path) == ("a.stl", str(tmp_path / "sub/meshes/a.stl"))
    np.testing.assert_allclose(load(main).body_mass[1:], [x.inertial.mass for x in robot.links if x.inertial])


def test_missing_attached_model(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The model without what it attaches."""
    text = in_body('\n<attach model="s" body="b" prefix="p"/>', '<asset><model name="s" file="gone.xml"/></asset>')
    assert len(read_text(tmp_path, text, diagnostics).links) == 1
    diagnostics.claim("mjcf.missing-model")
    assert diagnostics.claim("mjcf.left-out").origin.line == 2


def test_attached_urdf_is_refused(tmp_path: Path) -> None:
    """MuJoCo would read it; the references in it are not ours to guess."""
    files: dict[str, str | bytes] = {
        "main.xml": '<mujoco><asset><model name="s" file="r.urdf"/></asset></mujoco>',
        "r.urdf": '<robot name="r"><link name="a"/></robot>',
    }
    with pytest.raises(ReadError, match=r"r\.urdf:1: this is a URDF file"):
        read_mjcf(_tree(tmp_path, files))


# -- meshes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("main", "place"),
    [
        (_mesh_model(), "a.stl"),
        (_mesh_model("x/a.stl"), "x/a.stl"),
        (_mesh_model("x\\a.stl"), "x/a.stl"),
        (_mesh_model(compiler='meshdir="m"'), "m/a.stl"),
        (_mesh_model(compiler='assetdir="m"'), "m/a.stl"),
        (_mesh_model(compiler='assetdir="n" meshdir="m/"'), "m/a.stl"),
        (_mesh_model("far/away/a.stl", compiler='meshdir="m" strippath="true"'), "m/a.stl"),
        (_mesh_model().replace("</mujoco>", '<compiler meshdir="m"/></mujoco>'), "m/a.stl"),
        (_mesh_model("a.STL"), "a.STL"),
    ],
)
def test_mesh_files_are_found_as_mujoco_finds_them(tmp_path: Path, main: str, place: str) -> None:
    """Folders of the compiler, stripped paths, backslashes."""
    path = _tree(tmp_path, {"main.xml": main, place: STL})
    assert load(path).nmesh == 1
    robot = read_mjcf(path)
    mesh = robot.links[0].shapes[0].geometry
    assert isinstance(mesh, Mesh)
    assert mesh.path == str(tmp_path / place)
    assert not robot.diagnostics.items


def test_mesh_beside_the_included_file(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Where it is not beside the main file."""
    files: dict[str, str | bytes] = {
        "main.xml": '<mujoco><include file="sub/a.xml"/></mujoco>',
        "sub/a.xml": _mesh_model(),
        "sub/a.stl": STL,
    }
    main = _tree(tmp_path, files)
    assert load(main).nmesh == 1
    mesh = read_mjcf(main, diagnostics=diagnostics).links[0].shapes[0].geometry
    assert isinstance(mesh, Mesh)
    assert mesh.path == str(tmp_path / "sub/a.stl")


def test_shape_pose_is_that_of_the_file(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """MuJoCo centres the mesh and turns the geom; the description has the geom where the file puts it."""
    text = _mesh_model(mesh='scale="2 3 -4"').replace('mesh="a"/>', 'mesh="a" pos="1 2 3" euler="90 0 0"/>')
    robot = read_mjcf(_tree(tmp_path, {"main.xml": text, "a.stl": STL}), diagnostics=diagnostics)
    shape = robot.links[0].shapes[0]
    np.testing.assert_allclose(shape.pose.position, [1, 2, 3], atol=1e-9)
    np.testing.assert_allclose(shape.pose.rotation, [[1, 0, 0], [0, 0, -1], [0, 1, 0]], atol=1e-9)
    assert isinstance(shape.geometry, Mesh)
    np.testing.assert_array_equal(shape.geometry.scale, [2, 3, -4])


def test_missing_mesh_is_reported_and_the_rest_read(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The shape keeps its reference and place; nothing is made up: no path, no inertia."""
    text = _mesh_model(mesh='scale="2 3 4"').replace('mesh="a"/>', 'mesh="a" pos="1 2 3"/>')
    robot = read_text(tmp_path, text, diagnostics)
    found = diagnostics.claim("mjcf.missing-mesh")
    assert (found.severity, found.origin.line) == (Severity.ERROR, 4)
    diagnostics.claim("mjcf.no-inertia")
    shape = robot.links[0].shapes[0]
    assert isinstance(shape.geometry, Mesh)
    assert (shape.geometry.uri, shape.geometry.path) == ("a.stl", "")
    np.testing.assert_array_equal(shape.geometry.scale, [2, 3, 4])
    np.testing.assert_allclose(shape.pose.position, [1, 2, 3], atol=1e-9)
    np.testing.assert_allclose(shape.pose.rotation, np.eye(3), atol=1e-9)
    assert robot.links[0].inertial is None


def test_primitive_fitted_to_a_missing_mesh(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """There is nothing to fit to, so there is no box either."""
    robot = read_text(tmp_path, _mesh_model().replace('type="mesh"', 'type="box"'), diagnostics)
    diagnostics.claim("mjcf.missing-mesh")
    diagnostics.claim("mjcf.no-inertia")
    assert isinstance(robot.links[0].shapes[0].geometry, Mesh)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "mjcf.corrupt-mesh"),
        (b"nonsense", "mjcf.corrupt-mesh"),
        (STL[:-7], "mjcf.corrupt-mesh"),
        (STL[:84] + struct.pack("<12f", *[float("nan")] * 12) + STL[132:], "mjcf.corrupt-mesh"),
        (bytes(80) + struct.pack("<I", 1) + STL[84:134], "mjcf.unusable-mesh"),
    ],
    ids=["empty", "text", "cut off", "nan", "flat"],
)
def test_damaged_meshes(tmp_path: Path, diagnostics: ClaimedDiagnostics, data: bytes, code: str) -> None:
    """What we or MuJoCo cannot use is reported in plain words, and the rest is read."""
    path = _tree(tmp_path, {"main.xml": _mesh_model(), "a.stl": data})
    robot = read_mjcf(path, diagnostics=diagnostics)
    assert diagnostics.claim(code).origin.line == 4
    diagnostics.claim("mjcf.no-inertia")
    assert isinstance(robot.links[0].shapes[0].geometry, Mesh)


def test_mesh_formats_that_mujoco_does_not_read(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A text STL is read, with a word of warning."""
    facets = "".join(
        "facet normal 0 0 0\nouter loop\n"
        + "".join("vertex {} {} {}\n".format(*VERTICES[i]) for i in face)
        + "endloop\nendfacet\n"
        for face in [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]
    )
    path = _tree(tmp_path, {"main.xml": _mesh_model(), "a.stl": f"solid a\n{facets}endsolid a\n"})
    robot = read_mjcf(path, diagnostics=diagnostics)
    diagnostics.claim("mjcf.mesh-format")
    assert robot.links[0].inertial is not None
    assert robot.links[0].inertial.mass == pytest.approx(1000 / 6, rel=1e-6)


# -- textures and height maps -----------------------------------------------------------------------------------------


def test_textures_are_never_opened(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A hostile picture does no harm; one that is missing is a warning; cube maps and skyboxes are fine."""
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\xff" * 100)
    text = in_body(
        '<geom size=".1" material="m"/>',
        """
<asset><texture name="t" type="2d" file="bad.png"/><material name="m" texture="t"/>
<texture type="cube" name="c" fileright="bad.png" fileup="bad.png"/>
<texture type="skybox" file="bad.png" gridsize="3 4" gridlayout=".U..LFRB.D.."/>
<texture type="skybox" builtin="gradient" rgb1="1 1 1" rgb2="0 0 0" width="512" height="3072"/>
<texture name="gone" type="2d" file="gone.png"/></asset>""",
    )
    robot = read_text(tmp_path, text, diagnostics)
    assert diagnostics.claim("mjcf.missing-texture").origin.line == 6
    material = robot.links[0].shapes[1].material
    assert material is not None
    assert material.texture == str(tmp_path / "bad.png")


def _png(heights: np.ndarray) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows, columns = heights.shape
    header = struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0)
    pixels = b"".join(b"\0" + row.tobytes() for row in heights.astype(np.uint8))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")


HFIELD = (
    '<mujoco><asset>\n<hfield {} size="1 2 3 .5"/></asset>'
    '<worldbody><geom type="hfield" hfield="h"/></worldbody></mujoco>'
)


@pytest.mark.parametrize("kind", ["png", "bin"])
def test_height_maps(tmp_path: Path, diagnostics: ClaimedDiagnostics, kind: str) -> None:
    """Pictures and MuJoCo's own format, the same as MuJoCo reads."""
    heights = np.array([[0, 10, 20], [30, 40, 250]])
    binary = struct.pack("<ii", 2, 3) + heights.astype("<f4").tobytes()
    data = _png(heights) if kind == "png" else binary
    path = _tree(tmp_path, {"main.xml": HFIELD.format(f'file="h.{kind}"'), f"h.{kind}": data})
    world = read_mjcf(path, diagnostics=diagnostics)
    assert isinstance(world, World)
    field = world.shapes[0].geometry
    assert isinstance(field, HeightField)
    model = load(path)
    np.testing.assert_allclose(field.heights, 3 * model.hfield_data.reshape(2, 3), atol=1e-9)
    assert field.path == str(tmp_path / f"h.{kind}")


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense",
        _png(np.zeros((2, 2)))[:40],
        _png(np.zeros((2, 2))).replace(struct.pack(">II", 2, 2), struct.pack(">II", 60000, 60000)),
        _png(np.zeros((200, 200))).replace(struct.pack(">II", 200, 200), struct.pack(">II", 2, 2)),
    ],
    ids=["text", "cut off", "huge", "bomb"],
)
def test_damaged_height_maps(tmp_path: Path, diagnostics: ClaimedDiagnostics, data: bytes) -> None:
    """They are taken for flat, and said so."""
    path = _tree(tmp_path, {"main.xml": HFIELD.format('file="h.png"'), "h.png": data})
    world = read_mjcf(path, diagnostics=diagnostics)
    assert diagnostics.claim("mjcf.corrupt-hfield").origin.line == 2
    assert isinstance(world, World)
    assert world.shapes[0].attributes["mjcf:unreadable"]


# -- where files may lie ----------------------------------------------------------------------------------------------


def test_files_outside_the_roots_are_not_read(tmp_path: Path) -> None:
    """An absolute path, or one that climbs out, is refused unless the user allows its folder."""
    inside, outside = tmp_path / "a/b/c/d/e/f/model", tmp_path / "secret"
    _tree(outside, {"a.stl": STL, "part.xml": in_body("")})
    _tree(inside, {"main.xml": _mesh_model(str(outside / "a.stl"))})
    refused = Diagnostics()
    mesh = read_mjcf(inside / "main.xml", diagnostics=refused).links[0].shapes[0].geometry
    assert isinstance(mesh, Mesh)
    assert not mesh.path
    assert "outside the folders" in refused.items[0].message
    allowed = read_mjcf(inside / "main.xml", resolve=Resolver(search_paths=[outside]))
    assert not allowed.diagnostics.items
    write(inside, f'<mujoco><include file="{outside}/part.xml"/></mujoco>', "include.xml")
    world = read_mjcf(inside / "include.xml")
    assert world.diagnostics.codes() == ["mjcf.missing-include"]


def test_mujoco_opens_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the wanted name in the working folder is not taken for one beside the model."""
    elsewhere = tmp_path / "elsewhere"
    _tree(elsewhere, {"a.stl": STL, "part.xml": in_body("")})
    monkeypatch.chdir(elsewhere)
    text = _mesh_model().replace("</mujoco>", '<include file="part.xml"/></mujoco>')
    found = read_mjcf(write(tmp_path / "model", text))
    assert set(found.diagnostics.codes()) == {"mjcf.missing-mesh", "mjcf.missing-include", "mjcf.no-inertia"}
    assert not (elsewhere / "MUJOCO_LOG.TXT").exists()
