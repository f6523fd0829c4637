"""Stages from strangers: one clear error or clear diagnostics, in little time and memory, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from kinema.core import ReadError
from kinema.description import Mesh
from kinema.read.usd import read_usd
from kinema.read.usd.layers import MAX_LAYER_BYTES
from kit.diagnostics import ClaimedDiagnostics

from .bad_stages import (
    BALL,
    error_of,
    link_names,
    nothing_is_printed,  # noqa: F401 (a fixture for every test here)
    nothing_takes_long,  # noqa: F401
    stage,
)

# -- files that are no stages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".usd", ".usda", ".usdc", ".usdz"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 100,
        np.random.default_rng(1).bytes(2000),
        b"#usda 1.0",
        b"#usda 1.0\ndef Xform {",
        b"PXR-USDC\0\0\0",
        b"PK\3\4",
        b"<robot/>",
    ],
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
        said = ""
        try:
            read_usd(file)
        except ReadError as error:
            said = str(error)
        assert "\n" not in said


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


def test_too_many_instances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instances beyond what can be meant are an error, and the first ones are read."""
    monkeypatch.setattr("kinema.read.usd.point_instancers.MAX_INSTANCES", 500)
    n = 2_000
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
    deep.write_text(
        "#usda 1.0\n(\n    customLayerData = {\n" + "dictionary a = {\n" * 100_000 + "}\n" * 100_000 + "}\n)\n"
    )
    assert "nested" in error_of(deep)


def test_prims_with_names_from_everywhere(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Names in any script stay as they are, in links, joints, origins and messages."""
    text = BALL.replace('"ball"', '"球"') + BALL.replace('"ball"', '"шар_é"')
    text += 'def PhysicsFixedJoint "節"\n{\nrel physics:body0 = </World/球>\nrel physics:body1 = </World/шар_é>\n}\n'
    text += 'def PhysicsFixedJoint "ñ"\n{\n    rel physics:body0 = </World/ø>\n}\n'
    described = read_usd(stage(tmp_path, text, "ünï 球.usda"), diagnostics=diagnostics)
    assert link_names(described) == ["球", "шар_é"]
    assert [joint.name for joint in described.joints] == ["節"]
    assert "/World/ø" in diagnostics.claim("usd.joint-target").message


# -- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of a process is looked up in /proc")
def test_a_stage_of_nothing_but_size_stays_in_bounds(tmp_path: Path) -> None:
    """Files that stand for far more than they hold, read by a process whose memory is looked at."""
    mesh = stage(
        tmp_path, f'def Mesh "m"\n{{\n    int[] faceVertexCounts = [2000000000, 2000000000]\n}}\n{BALL}', "mesh.usda"
    )
    huge = tmp_path / "huge.usda"
    with huge.open("wb") as f:
        f.truncate(200 * 2**20)
    deep = stage(tmp_path, 'def Xform "p"\n{\n' * 10_000 + "}\n" * 10_000, "deep.usda")
    wide = stage(tmp_path, "".join(f'def Xform "p{i}"\n{{\n}}\n' for i in range(20_000)), "wide.usda")
    code = f"""
        from kinema.core import ReadError
        from kinema.read.usd import read_usd
        for file in {[str(f) for f in (mesh, huge, deep, wide)]}:
            try:
                read_usd(file)
            except ReadError:
                pass
        print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert int(done.stdout) < 500 * 1024  # kB
