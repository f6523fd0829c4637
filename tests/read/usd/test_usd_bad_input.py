"""Stages from strangers: one clear error or clear diagnostics, in little time and memory, and nothing else."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import textwrap
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support import ClaimedDiagnostics

from kinema.description import Mesh, Robot, World
from kinema.foundation import Diagnostics, ReadError
from kinema.read.resolve import Resolver
from kinema.read.usd import read_usd
from kinema.read.usd.layers import MAX_LAYER_BYTES

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(autouse=True)
def nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """OpenUSD prints from C++; none of it may reach the terminal."""
    yield
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


@pytest.fixture(autouse=True)
def nothing_takes_long() -> Iterator[None]:
    begin = time.process_time()
    yield
    assert time.process_time() - begin < 10.0


HEAD = '#usda 1.0\n(\n    defaultPrim = "World"\n    metersPerUnit = 1\n    upAxis = "Z"\n)\n'
BALL = """
def Sphere "ball" (
    prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"]
)
{
    double radius = 0.1
}
"""


def stage(tmp_path: Path, text: str, name: str = "stage.usda", head: str = HEAD) -> Path:
    """A text layer; `text` stands inside the default prim."""
    file = tmp_path / name
    file.write_text(f'{head}def Xform "World"\n{{\n{textwrap.dedent(text)}\n}}\n', encoding="utf-8")
    return file


def error_of(file: Path, **settings) -> str:
    """The one sentence that reading fails with."""
    with pytest.raises(ReadError) as caught:
        read_usd(file, **settings)
    message = str(caught.value)
    assert "\n" not in message
    assert file.name in message
    return message


def link_names(described: Robot | World) -> list[str]:
    return [link.name for link in described.links]


# -- files that are no stages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".usd", ".usda", ".usdc", ".usdz"])
@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 100, os.urandom(2000), b"#usda 1.0", b"#usda 1.0\ndef Xform {", b"PXR-USDC\0\0\0", b"PK\3\4", b"<robot/>"],
    ids=["empty", "zeros", "random", "header", "unclosed", "crate header", "zip header", "xml"],
)
def test_a_file_that_is_no_stage(tmp_path: Path, suffix: str, content: bytes) -> None:
    """One sentence, whatever the bytes and the suffix."""
    file = tmp_path / f"broken{suffix}"
    file.write_bytes(content)
    if content == b"#usda 1.0" and suffix in (".usd", ".usda"):
        assert link_names(read_usd(file)) == []  # it is an empty stage
    else:
        error_of(file)


def test_no_file_at_all(tmp_path: Path) -> None:
    """A missing file, a folder, a pipe and a name that cannot be are no stages."""
    assert "no such file" in error_of(tmp_path / "missing.usda")
    folder = tmp_path / "folder.usda"
    folder.mkdir()
    assert "not a file" in error_of(folder)
    pipe = tmp_path / "pipe.usda"
    os.mkfifo(pipe)
    assert "not a file" in error_of(pipe)
    with pytest.raises(ReadError):
        read_usd(tmp_path / ("x" * 300 + ".usda"))


@pytest.mark.parametrize("suffix", [".usda", ".usdc"])
def test_a_truncated_stage(tmp_path: Path, suffix: str) -> None:
    """Cut anywhere, a stage is an error or a smaller stage."""
    from pxr import Sdf

    whole = stage(tmp_path, "\n".join(BALL.replace("ball", f"ball{i}") for i in range(20)))
    layer = Sdf.Layer.OpenAsAnonymous(str(whole))
    source = tmp_path / f"whole{suffix}"
    layer.Export(str(source))
    data = source.read_bytes()
    for i, cut in enumerate(np.linspace(1, len(data) - 1, 23).astype(int)):
        file = tmp_path / f"cut{i}{suffix}"
        file.write_bytes(data[:cut])
        try:
            read_usd(file)
        except ReadError as error:
            assert "\n" not in str(error)


def test_a_layer_of_200_megabytes(tmp_path: Path) -> None:
    """Too large a layer is not opened, neither as the stage nor by reference."""
    huge = tmp_path / "huge.usda"
    with huge.open("wb") as f:
        f.write(b"#usda 1.0\n")
        f.truncate(200 * 2**20)
    assert str(MAX_LAYER_BYTES) in error_of(huge)
    file = stage(tmp_path, f'def "a" (\n    references = @./huge.usda@\n)\n{{\n}}\n{BALL}')
    diagnostics = ClaimedDiagnostics()
    assert link_names(read_usd(file, diagnostics=diagnostics)) == ["ball"]
    assert str(MAX_LAYER_BYTES) in diagnostics.claim("usd.reference-refused").message


# -- references -------------------------------------------------------------------------------------------------------


def reference(tmp_path: Path, to: str, diagnostics: Diagnostics, **settings) -> Robot | World:
    """Read a stage with a ball and a reference."""
    return read_usd(referring(tmp_path, to), diagnostics=diagnostics, **settings)


def referring(tmp_path: Path, to: str, name: str = "stage.usda") -> Path:
    return stage(tmp_path, f'def Xform "other" (\n    references = {to}\n)\n{{\n}}\n{BALL}', name)


def outside_stage(tmp_path: Path) -> Path:
    """A stage with a body, in a folder that the reading stage has nothing to do with."""
    folder = tmp_path / "elsewhere"
    folder.mkdir(exist_ok=True)
    return stage(folder, BALL.replace("ball", "secret"), "outside.usda")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "some" / "where" / "home"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("arc", ["references", "payload", "subLayers"])
def test_an_unresolved_reference(tmp_path: Path, arc: str, diagnostics: ClaimedDiagnostics) -> None:
    """It is named, and the rest is read."""
    if arc == "subLayers":
        head = HEAD.replace("upAxis", "subLayers = [@./gone.usda@]\n    upAxis")
        file = stage(tmp_path, BALL, head=head)
    else:
        file = stage(tmp_path, f'def "a" (\n    {arc} = @./gone.usda@</x>\n)\n{{\n}}\n{BALL}')
    assert link_names(read_usd(file, diagnostics=diagnostics)) == ["ball"]
    assert "./gone.usda" in diagnostics.claim("usd.reference-missing").message


def test_a_reference_to_a_prim_that_is_not_there(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """OpenUSD's own words are given, with the file and not an address in memory."""
    stage(tmp_path, "", "other.usda")
    reference(tmp_path, "@./other.usda@</nowhere>", diagnostics)
    message = diagnostics.claim("usd.composition").message
    assert "other.usda" in message
    assert "anon:" not in message
    diagnostics.claim_all("usd.openusd")


def test_a_broken_layer_behind_a_reference(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The rest is read."""
    (tmp_path / "other.usda").write_text("#usda 1.0\ndef {", encoding="utf-8")
    assert link_names(reference(tmp_path, "@./other.usda@", diagnostics)) == ["ball"]
    diagnostics.claim("usd.reference-unreadable")


@pytest.mark.parametrize(
    "to",
    [
        "{outside}",
        "../../../elsewhere/outside.usda",
        "{outside}:SDF_FORMAT_ARGS:x=1",
        "`\"{outside}\"`",
        "file://{outside}",
        "./link.usda",
    ],
)
def test_a_reference_outside_the_allowed_folders(home: Path, to: str, diagnostics: ClaimedDiagnostics) -> None:
    """Refused in every spelling: absolute, climbing, with arguments, as an expression, as a URI, through a link."""
    outside = outside_stage(home.parents[2])
    (home / "link.usda").symlink_to(outside)
    found = reference(home, f"@{to.format(outside=outside)}@", diagnostics)
    assert link_names(found) == ["ball"]
    diagnostics.claim("usd.reference-refused")


def test_a_refused_reference_two_layers_down(home: Path, diagnostics: ClaimedDiagnostics) -> None:
    """What a layer brings in is looked at like what the stage brings in."""
    outside = outside_stage(home.parents[2])
    stage(home, f'def Xform "deep" (\n    references = @{outside}@\n)\n{{\n}}', "middle.usda")
    assert link_names(reference(home, "@./middle.usda@", diagnostics)) == ["ball"]
    assert "middle.usda" in diagnostics.claim("usd.reference-refused").origin.file


def test_a_search_path_lets_a_reference_through(home: Path, diagnostics: ClaimedDiagnostics) -> None:
    """What is refused is read once its folder is given."""
    outside = outside_stage(home.parents[2])
    found = reference(home, f"@{outside}@", diagnostics, resolve=Resolver(search_paths=[outside.parent]))
    assert sorted(link_names(found)) == ["ball", "secret"]


def test_nothing_is_looked_up_in_the_working_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing layer is missing, even if the folder that the process happens to be in has one of its name."""
    outside = outside_stage(home.parents[2])
    monkeypatch.chdir(outside.parent)
    diagnostics = ClaimedDiagnostics()
    for to in ("@./outside.usda@", "@outside.usda@"):
        assert link_names(reference(home, to, diagnostics)) == ["ball"]
    assert len(diagnostics.claim_all("usd.reference-missing")) == 2


@pytest.mark.parametrize("to", ["https://example.com/robot.usda", "omniverse://host/x.usd", "anon:0x0:x.usda"])
def test_a_reference_to_another_machine(tmp_path: Path, to: str, diagnostics: ClaimedDiagnostics) -> None:
    """Nothing is fetched."""
    assert link_names(reference(tmp_path, f"@{to}@", diagnostics)) == ["ball"]
    diagnostics.claim("usd.reference-refused")


def test_a_file_that_is_no_layer_is_not_opened(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Only USD files are layers, whatever plugins OpenUSD has."""
    (tmp_path / "shader.mtlx").write_text('<materialx version="1.38"/>', encoding="utf-8")
    assert link_names(reference(tmp_path, "@./shader.mtlx@", diagnostics)) == ["ball"]
    diagnostics.claim("usd.reference-refused")


CYCLES = {
    "itself": {"stage.usda": "@./stage.usda@</World>"},
    "each other": {"stage.usda": "@./b.usda@</World/other>", "b.usda": "@./stage.usda@</World/other>"},
    "its parent": {"stage.usda": "</World>"},
    "three": {"stage.usda": "@./b.usda@", "b.usda": "@./c.usda@", "c.usda": "@./stage.usda@"},
}


@pytest.mark.parametrize("files", CYCLES.values(), ids=CYCLES.keys())
def test_cyclic_references(tmp_path: Path, files: dict[str, str]) -> None:
    """A circle of references is reported once it closes; what is outside the circle is read."""
    diagnostics = ClaimedDiagnostics()
    for name, to in files.items():
        referring(tmp_path, to, name)
    assert "ball" in link_names(read_usd(tmp_path / "stage.usda", diagnostics=diagnostics))
    assert "cycle" in diagnostics.claim_all("usd.composition")[0].message.lower()


def test_sublayer_cycles(tmp_path: Path) -> None:
    """Sublayers that bring each other in."""
    for name, other in (("a.usda", "b.usda"), ("b.usda", "a.usda")):
        stage(tmp_path, BALL, name, HEAD.replace("upAxis", f"subLayers = [@./{other}@]\n    upAxis"))
    diagnostics = ClaimedDiagnostics()
    assert link_names(read_usd(tmp_path / "a.usda", diagnostics=diagnostics)) == ["ball"]
    diagnostics.claim_all("usd.composition")


@pytest.mark.parametrize("instanceable", [False, True])
def test_references_that_unfold_without_end(tmp_path: Path, instanceable: bool) -> None:
    """Ten references in each of ten levels would be ten thousand million prims: refused before they are made."""
    flag = "instanceable = true\n        " if instanceable else ""
    text = "".join(
        f'def "L{level}"\n{{\n'
        + "".join(f'    def "c{i}" (\n        {flag}references = </World/L{level + 1}>\n    )\n    {{\n    }}\n' for i in range(10))
        + "}\n"
        for level in range(10)
    )
    assert "unfold" in error_of(stage(tmp_path, text + 'def "L10"\n{\n}'))


def test_variant_sets_without_their_variant(tmp_path: Path) -> None:
    """A selection that is not there, and one that is asked for but is not there."""
    text = """
    def Xform "robot" (
        variants = { string size = "huge" }
        prepend variantSets = "size"
    )
    {
        variantSet "size" = {
            "small" {
            }
        }
    }
    """
    file = stage(tmp_path, text + BALL)
    assert link_names(read_usd(file)) == ["ball"]
    assert "small" in error_of(file, variants={"/World/robot": {"size": "huge"}})
    assert "/World/nobody" in error_of(file, variants={"/World/nobody": {"size": "small"}})


# -- archives ---------------------------------------------------------------------------------------------------------


def archive(file: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    """A zip whose files begin at multiples of 64 bytes, as a usdz has to have them."""
    with zipfile.ZipFile(file, "w", compression) as out:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = compression
            header = out.fp.tell() + 30 + len(name.encode())  # type: ignore[union-attr]
            info.extra = b"\x86\x19" + (padding := (-header - 4) % 64).to_bytes(2, "little") + b"\0" * padding
            out.writestr(info, data)
    return file


ARCHIVED = f'{HEAD}def Xform "World"\n{{\n{BALL}\n}}\n'.encode()


def test_a_sound_archive_is_read(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The first file is the stage; it may refer to others in the archive."""
    main = ARCHIVED.replace(b"def Sphere", b'def Xform "more" (\n    references = @./sub/part.usda@\n)\n{\n}\ndef Sphere')
    part = ARCHIVED.replace(b'"ball"', b'"part"')
    file = archive(tmp_path / "a.usdz", {"main.usda": main, "sub/part.usda": part})
    assert sorted(link_names(read_usd(file, diagnostics=diagnostics))) == ["ball", "part"]
    found = reference(tmp_path, "@./a.usdz[sub/part.usda]@", diagnostics)
    assert sorted(link_names(found)) == ["ball", "part"]


@pytest.mark.parametrize("name", ["../evil.usda", "/etc/evil.usda", "a/../../evil.usda", "..\\evil.usda", "C:/evil.usda"])
def test_an_archive_with_paths_that_lead_out(tmp_path: Path, name: str) -> None:
    """It is refused as a whole, as a stage and behind a reference."""
    file = archive(tmp_path / "a.usdz", {"main.usda": ARCHIVED, name: ARCHIVED})
    assert "leads out" in error_of(file)
    diagnostics = ClaimedDiagnostics()
    assert link_names(reference(tmp_path, "@./a.usdz@", diagnostics)) == ["ball"]
    diagnostics.claim("usd.reference-unreadable")


def test_a_zip_bomb(tmp_path: Path) -> None:
    """Compressed files are not unpacked."""
    file = archive(tmp_path / "a.usdz", {"main.usda": b"#usda 1.0\n" + b" " * 50_000_000}, zipfile.ZIP_DEFLATED)
    assert file.stat().st_size < 100_000
    assert "compressed" in error_of(file)


@pytest.mark.parametrize("to", ["{outside}", "../outside.usda", "../../elsewhere/outside.usda", "/etc/passwd", "gone.usda"])
def test_a_layer_in_an_archive_stays_in_it(home: Path, to: str, diagnostics: ClaimedDiagnostics) -> None:
    """What an archived layer refers to is in the archive or is not read."""
    outside = outside_stage(home.parents[2])
    (home / "outside.usda").write_bytes(outside.read_bytes())
    extra = f'def Xform "more" (\n    references = @{to.format(outside=outside)}@\n)\n{{\n}}\ndef Sphere'
    file = archive(home / "a.usdz", {"main.usda": ARCHIVED.replace(b"def Sphere", extra.encode())})
    assert link_names(read_usd(file, diagnostics=diagnostics)) == ["ball"]
    diagnostics.claim("usd.reference-missing" if to == "gone.usda" else "usd.reference-refused")


@pytest.mark.parametrize("members", [{}, {"readme.txt": b"x"}, {"image.png": b"x", "main.usda": ARCHIVED}])
def test_an_archive_without_a_stage(tmp_path: Path, members: dict[str, bytes]) -> None:
    """The first file has to be a layer."""
    error_of(archive(tmp_path / "a.usdz", members))


def test_a_damaged_archive(tmp_path: Path) -> None:
    """Bytes that do not fit the archive's own checksum are not read."""
    file = archive(tmp_path / "a.usdz", {"main.usda": ARCHIVED})
    data = bytearray(file.read_bytes())
    data[data.index(b"radius")] = 0
    file.write_bytes(data)
    error_of(file)


# -- prims ------------------------------------------------------------------------------------------------------------


def test_a_joint_to_nowhere(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Missing, inactive and placeless targets, and properties: each joint is an error, none is silently the world's."""
    targets = ["</World/gone>", "</World/off>", "</World/Looks>", "</World/ball.radius>"]
    joints = "".join(
        f'def PhysicsFixedJoint "j{i}"\n{{\n    rel physics:body0 = {t}\n    rel physics:body1 = </World/ball>\n}}\n'
        for i, t in enumerate(targets)
    )
    extra = 'def Scope "Looks"\n{\n}\ndef Xform "off" (\n    active = false\n)\n{\n}\n'
    described = read_usd(stage(tmp_path, BALL + extra + joints), diagnostics=diagnostics)
    assert described.joints == []
    assert len(diagnostics.claim_all("usd.joint-target")) == len(targets)


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e308"])
@pytest.mark.parametrize("op", ["translate", "scale", "rotateXYZ"])
def test_numbers_in_transforms_that_are_none(tmp_path: Path, op: str, number: str) -> None:
    """A body with NaN or infinity in its transform is an error; the others are read."""
    text = f"""
    def Cube "bad" (
        prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"]
    )
    {{
        double3 xformOp:{op} = ({number}, 1, 1)
        uniform token[] xformOpOrder = ["xformOp:{op}"]
        def Cube "child" (
            prepend apiSchemas = ["PhysicsCollisionAPI"]
        )
        {{
        }}
    }}
    def PhysicsRevoluteJoint "joint"
    {{
        rel physics:body0 = </World/bad>
        rel physics:body1 = </World/ball>
    }}
    """
    diagnostics = ClaimedDiagnostics()
    described = read_usd(stage(tmp_path, text + BALL), diagnostics=diagnostics)
    assert "ball" in link_names(described)
    for link in described.links:
        assert link.pose is not None
        assert link.pose.is_finite
        assert all(shape.pose.is_finite for shape in link.shapes)
    if number != "1e308":
        diagnostics.claim_all("usd.transform-not-finite")


@pytest.mark.parametrize("scale", ["(0, 1, 1)", "(0, 0, 0)", "(1e-320, 1, 1)"])
def test_zero_scale(tmp_path: Path, scale: str, diagnostics: ClaimedDiagnostics) -> None:
    """A body, and a shape, scaled to nothing."""
    text = """
    def Cube "{name}" (
        prepend apiSchemas = [{body}"PhysicsCollisionAPI"]
    )
    {{
        double3 xformOp:scale = {scale}
        uniform token[] xformOpOrder = ["xformOp:scale"]
    }}
    """
    body = text.format(name="flat_body", body='"PhysicsRigidBodyAPI", ', scale=scale)
    shape = text.format(name="flat_shape", body="", scale=scale)
    described = read_usd(stage(tmp_path, body + shape + BALL), diagnostics=diagnostics)
    assert "ball" in link_names(described)
    assert len(diagnostics.claim_all("usd.zero-scale")) >= 2
    diagnostics.claim_all("usd.no-mass")


MESHES = {
    "an index too large": ("[3]", "[0, 1, 3]", "[(0, 0, 0), (1, 0, 0), (0, 1, 0)]"),
    "a negative index": ("[3]", "[0, 1, -1]", "[(0, 0, 0), (1, 0, 0), (0, 1, 0)]"),
    "a negative count": ("[3, -3]", "[0, 1, 2]", "[(0, 0, 0), (1, 0, 0), (0, 1, 0)]"),
    "too few indices": ("[3, 3]", "[0, 1, 2]", "[(0, 0, 0), (1, 0, 0), (0, 1, 0)]"),
    "counts that overflow": ("[2147483647, 2147483647, 5]", "[0, 1, 2]", "[(0, 0, 0), (1, 0, 0), (0, 1, 0)]"),
    "only edges": ("[2, 1]", "[0, 1, 2]", "[(0, 0, 0), (1, 0, 0), (0, 1, 0)]"),
    "no points": ("[3]", "[0, 1, 2]", "[]"),
    "no faces": ("[]", "[]", "[(0, 0, 0), (1, 0, 0), (0, 1, 0)]"),
    "not a number": ("[3]", "[0, 1, 2]", "[(0, 0, nan), (1, 0, 0), (0, 1, 0)]"),
    "infinity": ("[3]", "[0, 1, 2]", "[(0, 0, 0), (inf, 0, 0), (0, 1, 0)]"),
}


@pytest.mark.parametrize(("counts", "indices", "points"), MESHES.values(), ids=MESHES.keys())
def test_meshes_that_are_none(tmp_path: Path, counts: str, indices: str, points: str) -> None:
    """Each is an error that says why, and is left out."""
    text = f"""
    def Mesh "mesh" (
        prepend apiSchemas = ["PhysicsCollisionAPI"]
    )
    {{
        int[] faceVertexCounts = {counts}
        int[] faceVertexIndices = {indices}
        point3f[] points = {points}
    }}
    """
    diagnostics = ClaimedDiagnostics()
    described = read_usd(stage(tmp_path, text + BALL), diagnostics=diagnostics)
    assert link_names(described) == ["ball"]
    assert diagnostics.claim("usd.bad-geometry").origin.path == "/World/mesh"
    assert not any(isinstance(s.geometry, Mesh) for link in described.links for s in link.shapes)


WRONG_TYPES = {
    "physics:mass": 'string physics:mass = "heavy"',
    "physics:centerOfMass": "float physics:centerOfMass = 1",
    "physics:diagonalInertia": "float[] physics:diagonalInertia = [1, 2, 3]",
    "physics:principalAxes": 'token physics:principalAxes = "x"',
    "physics:velocity": "matrix4d physics:velocity = ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1))",
    "physics:rigidBodyEnabled": 'string physics:rigidBodyEnabled = "no"',
    "radius": "double[] radius = [1]",
    "purpose": "int purpose = 3",
    "visibility": "int visibility = 3",
    "primvars:displayColor": 'string[] primvars:displayColor = ["red"]',
    "xformOpOrder": "int xformOpOrder = 3",
    "xformOp:translate": 'string xformOp:translate = "here"\n    uniform token[] xformOpOrder = ["xformOp:translate"]',
}


@pytest.mark.parametrize("line", WRONG_TYPES.values(), ids=WRONG_TYPES.keys())
def test_attributes_of_the_wrong_type(tmp_path: Path, line: str) -> None:
    """A schema's attribute with another type's value is an error and means nothing; it never stops the reader."""
    text = f"""
    def Sphere "odd" (
        prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "PhysicsMassAPI"]
    )
    {{
        {line}
    }}
    """
    diagnostics = ClaimedDiagnostics()
    described = read_usd(stage(tmp_path, text + BALL), diagnostics=diagnostics)
    assert "ball" in link_names(described)
    if line.split()[1].startswith(("physics:", "radius")):
        diagnostics.claim("usd.wrong-type")


def test_another_precision_is_the_right_type(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Doubles where the schema has floats, and whole numbers, are read."""
    text = """
    def Sphere "odd" (
        prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "PhysicsMassAPI"]
    )
    {
        double physics:mass = 2.5
        double3 physics:centerOfMass = (0.5, 0, 0)
        int physics:density = 3
    }
    """
    described = read_usd(stage(tmp_path, text), diagnostics=diagnostics)
    inertial = described.links[0].inertial
    assert inertial is not None
    assert inertial.mass == 2.5
    np.testing.assert_array_equal(inertial.center, [0.5, 0, 0])


def test_a_million_instances(tmp_path: Path) -> None:
    """Instances beyond what can be meant are an error, and the first ones are read."""
    n = 1_000_000
    text = f"""
    def PointInstancer "many"
    {{
        rel prototypes = </World/many/ball>
        int[] protoIndices = [{("0, " * n)[:-2]}]
        point3f[] positions = [{("(0, 0, 1), " * n)[:-2]}]
        {BALL}
    }}
    """
    diagnostics = ClaimedDiagnostics()
    described = read_usd(stage(tmp_path, text), diagnostics=diagnostics)
    message = diagnostics.claim("usd.too-many-instances").message
    assert str(n) in message
    assert f"only {len(described.links)} are read" in message


def test_instancers_that_do_not_fit(tmp_path: Path) -> None:
    """Too few positions, prototypes that are missing, indices out of range, an instancer as its own prototype."""
    text = """
    def PointInstancer "short"
    {
        rel prototypes = [</World/ball>, </World/gone>]
        int[] protoIndices = [0, 0, 1, 7, -1]
        point3f[] positions = [(0, 0, 1)]
    }
    def PointInstancer "own"
    {
        rel prototypes = </World/own>
        int[] protoIndices = [0]
        point3f[] positions = [(0, 0, 1)]
    }
    def PointInstancer "numbers"
    {
        rel prototypes = </World/ball>
        int[] protoIndices = [0, 0]
        point3f[] positions = [(nan, 0, 1), (0, 0, 0)]
        float3[] scales = [(1, 1, 1), (0, 0, 0)]
    }
    """
    described = read_usd(stage(tmp_path, text + BALL))
    assert "ball" in link_names(described)
    for link in described.links:
        assert link.pose is not None
        assert link.pose.is_finite


def test_ten_thousand_nested_prims(tmp_path: Path) -> None:
    """Deeper than anybody nests is refused; a hundred levels are read."""
    for depth, fine in ((10_000, False), (100, True)):
        text = 'def Xform "p" (\n    prepend apiSchemas = ["PhysicsRigidBodyAPI"]\n)\n{\n' * depth + "}\n" * depth
        file = stage(tmp_path, text, f"deep{depth}.usda")
        if fine:
            assert len(read_usd(file).links) == depth
        else:
            assert "nested" in error_of(file)
    deep = tmp_path / "values.usda"
    deep.write_text("#usda 1.0\n(\n    customLayerData = {\n" + "dictionary a = {\n" * 100_000 + "}\n" * 100_000 + "}\n)\n")
    assert "nested" in error_of(deep)


def test_prims_with_names_from_everywhere(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Names in any script stay as they are, in links, joints, origins and messages."""
    text = BALL.replace('"ball"', '"球"') + BALL.replace('"ball"', '"шар_é"')
    text += 'def PhysicsFixedJoint "節"\n{\n    rel physics:body0 = </World/球>\n    rel physics:body1 = </World/шар_é>\n}\n'
    text += 'def PhysicsFixedJoint "ñ"\n{\n    rel physics:body0 = </World/ø>\n}\n'
    described = read_usd(stage(tmp_path, text, "ünï 球.usda"), diagnostics=diagnostics)
    assert link_names(described) == ["球", "шар_é"]
    assert [joint.name for joint in described.joints] == ["節"]
    assert "/World/ø" in diagnostics.claim("usd.joint-target").message


# -- reading twice ----------------------------------------------------------------------------------------------------


def test_a_changed_file_is_read_anew(tmp_path: Path) -> None:
    """What is on the disk counts, in the stage and behind references, even when nothing but the content changed."""
    for name in ("first", "other"):
        stage(tmp_path, BALL.replace("ball", name), "part.usda")
        file = referring(tmp_path, "@./part.usda@")
        os.utime(tmp_path / "part.usda", (1, 1))
        os.utime(file, (1, 1))
        assert sorted(link_names(read_usd(file))) == sorted(["ball", name])


def test_a_refused_reference_does_not_alter_the_next_read(home: Path) -> None:
    """The same stage, read first without, then with its search path, then without again."""
    outside = outside_stage(home.parents[2])
    stage(home, f'def Xform "deep" (\n    references = @{outside}@\n)\n{{\n}}', "middle.usda")
    file = referring(home, "@./middle.usda@")
    allowed = Resolver(search_paths=[outside.parent])
    for resolve, wanted in ((None, ["ball"]), (allowed, ["ball", "secret"]), (None, ["ball"])):
        assert sorted(link_names(read_usd(file, resolve=resolve))) == wanted


def test_a_variant_chosen_once_is_not_chosen_again(tmp_path: Path) -> None:
    """Choices are made in memory, for one read."""
    text = """
    def Xform "robot" (
        variants = { string size = "small" }
        prepend variantSets = "size"
    )
    {
        variantSet "size" = {
            "small" {
            }
            "large" {
                %s
            }
        }
    }
    """
    file = stage(tmp_path, text % BALL)
    assert link_names(read_usd(file)) == []
    assert link_names(read_usd(file, variants={"/World/robot": {"size": "large"}})) == ["ball"]
    assert link_names(read_usd(file)) == []


def test_a_stage_that_the_user_has_open_is_left_alone(tmp_path: Path) -> None:
    """Reading neither sees nor throws away what the user changed in memory."""
    from pxr import Usd

    file = referring(tmp_path, "@./gone.usda@")
    mine = Usd.Stage.CreateInMemory()
    layer = mine.GetRootLayer()
    opened = type(layer).FindOrOpen(str(file))
    opened.GetPrimAtPath("/World").customData = {"mine": 1}
    text = opened.ExportToString()
    assert link_names(read_usd(file)) == ["ball"]
    assert opened.ExportToString() == text
    assert opened.dirty


# -- memory -----------------------------------------------------------------------------------------------------------


def test_a_stage_of_nothing_but_size_stays_in_bounds(tmp_path: Path) -> None:
    """A mesh that says it is huge, in a process that may not have the memory it would take."""
    file = stage(tmp_path, f'def Mesh "m"\n{{\n    int[] faceVertexCounts = [2000000000, 2000000000]\n}}\n{BALL}')
    code = f"""
        import resource
        import mujoco, trimesh
        from pxr import Usd
        from kinema.read.usd import read_usd
        read_usd({str(file)!r})
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    scale = 1024 if sys.platform != "darwin" else 1
    assert int(done.stdout) * scale < 700 * 2**20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
