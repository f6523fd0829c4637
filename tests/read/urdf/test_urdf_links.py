"""Links: inertias, shapes, meshes, materials."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kinema.core import Severity
from kinema.description import Approximation, Base, Box, Capsule, Cylinder, Ellipsoid, Mesh, Shape, Sphere
from kinema.read.resolve import Resolver
from kinema.read.urdf import read_urdf
from kit.diagnostics import ClaimedDiagnostics

from .urdf_files import read_text, write

INERTIA = '<inertia ixx="1" ixy="0.1" ixz="0.2" iyy="2" iyz="0.3" izz="3"/>'


def _shape(tmp_path: Path, geometry: str, diagnostics: ClaimedDiagnostics, tag: str = "visual") -> Shape | None:
    inside = f'<link name="a"><{tag}><geometry>{geometry}</geometry></{tag}></link>'
    shapes = read_text(tmp_path, inside, diagnostics).links[0].shapes
    return shapes[0] if shapes else None


def _stl(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\0" * 84)
    return path


# -- robots and links -------------------------------------------------------------------------------------------------


def test_a_plain_robot(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Name, format, source, base, and no more root than the graph gives."""
    robot = read_text(tmp_path, '<link name="a"/>', diagnostics)
    assert (robot.name, robot.format, robot.base, robot.root) == ("robot", "urdf", Base.UNSPECIFIED, None)
    assert robot.source == str(tmp_path / "robot.urdf")
    assert robot.diagnostics is diagnostics
    assert robot.links[0].origin.line == 2
    assert robot.links[0].inertial is None


def test_names_may_be_anything(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Spaces, slashes, colons and emoji are names."""
    names = ["left arm", "a/b", "a::b", "🦾", "-", "a&amp;b"]
    robot = read_text(tmp_path, "".join(f'<link name="{n}"/>' for n in names), diagnostics)
    assert [link.name for link in robot.links] == [*names[:-1], "a&b"]


def test_a_robot_without_a_name_is_named_after_its_file(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """And that is an error."""
    robot = read_text(tmp_path, '<link name="a"/>', diagnostics, attributes="")
    diagnostics.claim("urdf.missing-attribute")
    assert (robot.name, robot.name_is_generated) == ("robot", True)


def test_links_without_names_get_new_ones(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Names that no other link has."""
    robot = read_text(tmp_path, '<link/><link name="link_1"/><link name=""/>', diagnostics)
    assert len(diagnostics.claim_all("urdf.missing-attribute")) == 2
    assert [(x.name, x.name_is_generated) for x in robot.links] == [
        ("link_2", True),
        ("link_1", False),
        ("link_3", True),
    ]


def test_a_second_link_of_the_same_name_is_set_aside(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Joints mean the first; the second is kept verbatim."""
    second = '<link name="a"><inertial><mass value="1"/></inertial></link>'
    robot = read_text(tmp_path, f'<link name="a"/>{second}', diagnostics)
    assert '"a"' in diagnostics.claim("urdf.duplicate-name").message
    diagnostics.claim("urdf.missing-element")
    assert len(robot.links) == 1
    assert robot.extras[0].text == second


def test_a_robot_without_links(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Is an error, and an empty robot."""
    assert not read_text(tmp_path, "", diagnostics).links
    diagnostics.claim("urdf.no-links")


# -- inertias ---------------------------------------------------------------------------------------------------------


def test_inertia_is_turned_into_the_links_axes(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A quarter turn about z exchanges x and y."""
    origin = '<origin xyz="1 2 3" rpy="0 0 1.5707963267948966"/>'
    inside = f'<link name="a"><inertial>{origin}<mass value="4"/>{INERTIA}</inertial></link>'
    inertial = read_text(tmp_path, inside, diagnostics).links[0].inertial
    assert inertial is not None
    assert inertial.mass == 4
    np.testing.assert_array_equal(inertial.center, [1, 2, 3])
    np.testing.assert_allclose(inertial.inertia, [[2, -0.1, -0.3], [-0.1, 1, 0.2], [-0.3, 0.2, 3]], atol=1e-12)


@pytest.mark.parametrize(
    ("inside", "code"),
    [
        (f"<inertial>{INERTIA}</inertial>", "missing-element"),
        ('<inertial><mass value="1"/></inertial>', "missing-element"),
        (f"<inertial><mass/>{INERTIA}</inertial>", "missing-attribute"),
        (f'<inertial><mass value="heavy"/>{INERTIA}</inertial>', "not-a-number"),
        (f'<inertial><mass value="nan"/>{INERTIA}</inertial>', "not-finite"),
        (f'<inertial><mass value="inf"/>{INERTIA}</inertial>', "not-finite"),
        ('<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>', "missing-attribute"),
        (f'<inertial><mass value="1"/>{INERTIA}<origin xyz="0 0"/></inertial>', "not-a-number"),
        (f'<inertial><mass value="1"/>{INERTIA}<origin xyz="0 0 nan"/></inertial>', "not-finite"),
        (f'<inertial><mass value="1"/>{INERTIA}</inertial><inertial/>', "repeated-element"),
    ],
)
def test_broken_inertias(tmp_path: Path, diagnostics: ClaimedDiagnostics, inside: str, code: str) -> None:
    """Each is an error, zero is assumed, and reading goes on."""
    robot = read_text(tmp_path, f'<link name="a">{inside}</link><link name="b"/>', diagnostics)
    found = diagnostics.claim(f"urdf.{code}")
    assert found.severity is Severity.ERROR
    assert found.origin.line is not None
    inertial = robot.links[0].inertial
    assert inertial is not None
    assert np.isfinite(inertial.mass)
    assert np.isfinite(inertial.inertia).all()
    assert len(robot.links) == 2


# -- shapes -----------------------------------------------------------------------------------------------------------


def test_visuals_are_seen_and_collisions_collide(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Several of each, in file order, with or without names."""
    box = '<geometry><box size="1 2 3"/></geometry>'
    ball = '<geometry><sphere radius="0.5"/></geometry>'
    inside = f'<visual name="v">{box}</visual><collision>{ball}</collision><visual>{ball}</visual>'
    link = read_text(tmp_path, f'<link name="a">{inside}</link>', diagnostics).links[0]
    assert [(s.name, s.visual, s.collision) for s in link.shapes] == [
        ("v", True, False),
        ("", False, True),
        ("", True, False),
    ]
    assert [s.kind for s in link.visuals] == ["box", "sphere"]


def test_geometries(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Every primitive, with Drake's spellings."""
    shapes = [
        '<box size="1 2 3"/>',
        '<sphere radius="2"/>',
        '<cylinder radius="1" length="4"/>',
        '<capsule radius="1" length="4"/>',
        '<drake:capsule radius="1" length="4"/>',
        '<ellipsoid a="1" b="2" c="3"/>',
        '<drake:ellipsoid a="1" b="2" c="3"/>',
    ]
    visuals = "".join(f"<visual><geometry>{s}</geometry></visual>" for s in shapes)
    attributes = 'name="r" version="1.1" xmlns:drake="http://drake.mit.edu"'
    found = read_text(tmp_path, f'<link name="a">{visuals}</link>', diagnostics, attributes=attributes).links[0].shapes
    box, ball, cylinder, capsule, drake_capsule, ellipsoid, drake_ellipsoid = (s.geometry for s in found)
    assert isinstance(box, Box)
    np.testing.assert_array_equal(box.size, [1, 2, 3])
    assert isinstance(ball, Sphere)
    assert ball.radius == 2
    assert isinstance(cylinder, Cylinder)
    assert (cylinder.radius, cylinder.length) == (1, 4)
    for shape in (capsule, drake_capsule):
        assert isinstance(shape, Capsule)
        assert (shape.radius, shape.length) == (1, 4)
    for shape in (ellipsoid, drake_ellipsoid):
        assert isinstance(shape, Ellipsoid)
        np.testing.assert_array_equal(shape.radii, [1, 2, 3])


@pytest.mark.parametrize(
    ("geometry", "code"),
    [
        ("<torus/>", "unknown-geometry"),
        ("", "missing-element"),
        ("<box/>", "missing-attribute"),
        ('<box size="1 2"/>', "geometry-size"),
        ('<box size="1 2 -3"/>', "geometry-size"),
        ('<box size="1 2 inf"/>', "geometry-size"),
        ('<sphere radius="big"/>', "geometry-size"),
        ('<cylinder radius="1"/>', "missing-attribute"),
        ("<mesh/>", "missing-attribute"),
        ('<mesh filename="m.stl" scale="1 0 1"/>', "zero-scale"),
    ],
)
@pytest.mark.parametrize("tag", ["visual", "collision"])
def test_broken_geometries(tmp_path: Path, diagnostics: ClaimedDiagnostics, geometry: str, code: str, tag: str) -> None:
    """The shape is left out, with an error, and kept verbatim."""
    shape = f"<{tag}><geometry>{geometry}</geometry></{tag}>"
    link = read_text(tmp_path, f'<link name="a">{shape}</link>', diagnostics).links[0]
    assert diagnostics.claim(f"urdf.{code}").severity is Severity.ERROR
    assert not link.shapes
    assert [e.text for e in link.extras] == [shape]


def test_a_shape_without_geometry(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Likewise."""
    assert not read_text(tmp_path, '<link name="a"><visual/></link>', diagnostics).links[0].shapes
    diagnostics.claim("urdf.missing-element")


def test_two_geometries_in_one_shape(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The first counts."""
    shape = _shape(tmp_path, '<box size="1 1 1"/><sphere radius="1"/>', diagnostics)
    diagnostics.claim("urdf.repeated-element")
    assert shape is not None
    assert shape.kind == "box"


def test_flat_shapes_are_suspicious(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """They are kept; a capsule without a cylinder is just a ball."""
    assert _shape(tmp_path, '<box size="1 1 0"/>', diagnostics) is not None
    assert diagnostics.claim("urdf.zero-size").severity is Severity.WARNING
    assert _shape(tmp_path, '<drake:capsule radius="1" length="0"/>', diagnostics) is not None


def test_capsules_need_a_version(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """They are read, but other programs leave them out."""
    assert _shape(tmp_path, '<capsule radius="1" length="1"/>', diagnostics) is not None
    assert "1.1" in diagnostics.claim("urdf.needs-version").message


# -- meshes -----------------------------------------------------------------------------------------------------------


def test_meshes_are_found_but_not_loaded(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """By package, by relative and by absolute path; the file is not opened (it is no real STL file)."""
    file = _stl(tmp_path / "bot" / "meshes" / "m.stl")
    (tmp_path / "bot" / "package.xml").write_text("<package><name>bot</name></package>")
    uris = ["package://bot/meshes/m.stl", "../meshes/m.stl", str(file), f"file://{file}"]
    visuals = "".join(f'<visual><geometry><mesh filename="{u}"/></geometry></visual>' for u in uris)
    robot = read_text(tmp_path / "bot" / "urdf", f'<link name="a">{visuals}</link>', diagnostics)
    for shape, uri in zip(robot.links[0].shapes, uris, strict=True):
        assert isinstance(shape.geometry, Mesh)
        assert (shape.geometry.uri, shape.geometry.path) == (uri, str(file.resolve()))
        np.testing.assert_array_equal(shape.geometry.scale, [1, 1, 1])
        assert shape.geometry.approximation is None


def test_meshes_may_be_mirrored(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Scale is per axis and may be negative."""
    _stl(tmp_path / "m.stl")
    shape = _shape(tmp_path, '<mesh filename="m.stl" scale="0.001 -0.001 2"/>', diagnostics)
    assert shape is not None
    assert isinstance(shape.geometry, Mesh)
    np.testing.assert_array_equal(shape.geometry.scale, [0.001, -0.001, 2])


def test_drake_declares_meshes_convex(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """That asks for the convex hull."""
    _stl(tmp_path / "m.stl")
    shape = _shape(tmp_path, '<mesh filename="m.stl"><drake:declare_convex/></mesh>', diagnostics)
    assert shape is not None
    assert isinstance(shape.geometry, Mesh)
    assert shape.geometry.approximation is Approximation.CONVEX_HULL


@pytest.mark.parametrize(("tag", "severity"), [("visual", Severity.WARNING), ("collision", Severity.ERROR)])
@pytest.mark.parametrize(
    "uri", ["m.stl", "package://nowhere/m.stl", "https://host/m.stl", "/etc/passwd", "file:///etc/passwd", "."]
)
def test_missing_meshes(
    tmp_path: Path, diagnostics: ClaimedDiagnostics, tag: str, severity: Severity, uri: str
) -> None:
    """Nothing is fetched, and nothing outside the allowed folders is touched; the shape stays."""
    shape = _shape(tmp_path / "deep" / "er", f'<mesh filename="{uri}"/>', diagnostics, tag)
    found = diagnostics.claim("urdf.missing-mesh")
    assert found.severity is severity
    assert 'link "a"' in found.message
    assert shape is not None
    assert isinstance(shape.geometry, Mesh)
    assert (shape.geometry.uri, shape.geometry.path) == (uri, "")


def test_search_paths_find_packages(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A package elsewhere is found when its folder is given."""
    file = _stl(tmp_path / "elsewhere" / "pack" / "m.stl")
    inside = '<link name="a"><visual><geometry><mesh filename="package://pack/m.stl"/></geometry></visual></link>'
    path = write(tmp_path / "robots", inside)
    robot = read_urdf(path, diagnostics=diagnostics, resolve=Resolver([tmp_path / "elsewhere"]))
    geometry = robot.links[0].shapes[0].geometry
    assert isinstance(geometry, Mesh)
    assert geometry.path == str(file.resolve())


# -- materials --------------------------------------------------------------------------------------------------------


def _visual(material: str) -> str:
    return f'<visual><geometry><sphere radius="1"/></geometry>{material}</visual>'


def _material(name: str, rgba: str = "") -> str:
    return f'<material name="{name}">' + (f'<color rgba="{rgba}"/>' if rgba else "") + "</material>"


def test_materials_by_reference(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Defined at the robot or in a visual, before or after; visuals of one material share it."""
    links = f'<link name="a">{_visual(_material("red"))}{_visual(_material("blue"))}{_visual(_material("red"))}</link>'
    later = f'<link name="b">{_visual(_material("blue", "0 0 1 0.5"))}</link>'
    robot = read_text(tmp_path, f"{links}{later}{_material('red', '1 0 0 1')}", diagnostics)
    red, blue, again = (s.material for s in robot.links[0].shapes)
    assert red is not None
    assert blue is not None
    assert (red.name, red.color, blue.color) == ("red", (1, 0, 0, 1), (0, 0, 1, 0.5))
    assert again is red
    assert robot.links[1].shapes[0].material is blue


def test_conflicting_materials(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """One name with two colours is an error; each visual keeps its own."""
    visuals = _visual(_material("m", "1 0 0 1")) + _visual(_material("m", "0 1 0 1"))
    link = read_text(tmp_path, f'<link name="a">{visuals}</link>', diagnostics).links[0]
    assert diagnostics.claim("urdf.material-conflict").severity is Severity.ERROR
    assert [s.material.color for s in link.shapes if s.material] == [(1, 0, 0, 1), (0, 1, 0, 1)]


def test_repeating_a_material_is_fine_in_visuals_only(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Many exporters write the definition into every visual; twice at the robot is refused by ROS."""
    visuals = _visual(_material("m", "1 0 0 1")) * 2
    read_text(tmp_path, f'<link name="a">{visuals}</link>', diagnostics)
    read_text(tmp_path, f'<link name="a">{visuals}</link>' + _material("m", "1 0 0 1") * 2, diagnostics)
    diagnostics.claim("urdf.repeated-material")


def test_undefined_and_nameless_materials(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A reference into nowhere is a warning; an empty name is what exporters write for none."""
    visuals = _visual(_material("ghost")) + _visual(_material("", "1 0 0 1")) + _visual(_material("", "0 1 0 1"))
    link = read_text(tmp_path, f'<link name="a">{visuals}</link>', diagnostics).links[0]
    assert '"ghost"' in diagnostics.claim("urdf.undefined-material").message
    ghost, red, green = (s.material for s in link.shapes)
    assert ghost is not None
    assert ghost.color is None
    assert red is not None
    assert green is not None
    assert (red.color, green.color) == ((1, 0, 0, 1), (0, 1, 0, 1))


@pytest.mark.parametrize(
    ("material", "code"),
    [
        ('<material><color rgba="1 0 0 1"/></material>', "missing-attribute"),
        ('<material name="m"><color rgba="1 0 0"/></material>', "not-a-number"),
        ('<material name="m"><color/></material>', "missing-attribute"),
        ('<material name="m"><color rgba="255 0 0 1"/></material>', "color-range"),
        ('<material name="m"><texture filename="none.png"/></material>', "missing-texture"),
        ('<material name="m"><texture/></material>', "empty-texture"),
    ],
)
def test_broken_materials(tmp_path: Path, diagnostics: ClaimedDiagnostics, material: str, code: str) -> None:
    """Each is reported, and the visual stays."""
    link = read_text(tmp_path, f'<link name="a">{_visual(material)}</link>', diagnostics).links[0]
    diagnostics.claim(f"urdf.{code}")
    diagnostics.claimed.update(id(d) for d in diagnostics if d.code == "urdf.undefined-material")
    assert len(link.shapes) == 1


def test_textures_are_found(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The file, and the reference as it was written."""
    image = tmp_path / "wood.png"
    image.write_bytes(b"")
    material = '<material name="m"><texture filename="wood.png"/></material>'
    found = read_text(tmp_path, f'<link name="a">{_visual(material)}</link>', diagnostics).links[0].shapes[0].material
    assert found is not None
    assert (found.texture, found.attributes["urdf:texture"]) == (str(image.resolve()), "wood.png")


def test_unused_materials_are_kept(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """And an empty one is suspicious."""
    robot = read_text(tmp_path, f'<link name="a"/>{_material("m", "1 1 1 1")}{_material("n")}', diagnostics)
    diagnostics.claim("urdf.empty-material")
    assert [e.tag for e in robot.extras] == ["material", "material"]
