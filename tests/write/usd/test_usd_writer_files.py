"""Files appear whole or not at all; stages are readable, by people and by OpenUSD."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from kinema.core import Pose, WriteError, collect
from kinema.description import Base, Box, Inertial, Joint, JointKind, Link, Mesh, Robot, Shape, World, rotation
from kinema.geometry import box
from kinema.read import read
from kinema.write import LossReport, WriteOptions, write
from kit.robots.random_robots import random_robot
from kit.robots.variety import USD

from .usd_same_robot import assert_same_robot


def arm() -> Robot:
    """Two links, a hinge, a box and the same mesh twice."""
    data = box([0.1, 0.2, 0.3])
    mesh = Mesh(vertices=data.vertices, faces=data.faces)
    links = [
        Link(
            name=name,
            inertial=Inertial(1.0, np.zeros(3), np.eye(3) * 0.01),
            shapes=[
                Shape(name=f"{name} body", geometry=Box(np.array([0.1, 0.1, 0.2])), visual=False),
                Shape(name=f"{name} look", geometry=mesh, collision=False),
            ],
        )
        for name in ("base", "arm")
    ]
    hinge = Joint(
        name="hinge",
        kind=JointKind.REVOLUTE,
        parent="base",
        child="arm",
        parent_pose=Pose.translation([0, 0, 0.2]),
        axes=[rotation([0, 1, 0], lower=-1.0, upper=1.0)],
    )
    return Robot(name="robot", links=links, joints=[hinge], base=Base.FREE, gravity=np.array([0.0, 0.0, -9.81]))


def files(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


# -- whole or not at all ----------------------------------------------------------------------------------------------


def test_missing_folders_are_made(tmp_path: Path) -> None:
    """Also several; a file in the place of one is an error."""
    write(arm(), tmp_path / "some" / "where" / "arm.usda")
    assert files(tmp_path) >= {"some/where/arm.usda"}
    with pytest.raises(WriteError, match=r"the folder .*arm.usda cannot be made: it is a file"):
        write(arm(), tmp_path / "some" / "where" / "arm.usda" / "again.usda")


def test_a_folder_is_not_overwritten(tmp_path: Path) -> None:
    """A target that is a folder is refused."""
    (tmp_path / "arm.usda").mkdir()
    with pytest.raises(WriteError, match="this is a folder"):
        write(arm(), tmp_path / "arm.usda")


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left behind, and what was there stays, when writing fails half way."""
    file = tmp_path / "arm.usda"
    file.write_text("old")

    def broken(*_: object) -> None:
        raise RuntimeError("the disk is gone")

    monkeypatch.setattr("kinema.write.usd.save_stage", broken)
    with pytest.raises(WriteError, match="the disk is gone"):
        write(arm(), file)
    assert file.read_text() == "old"
    assert files(tmp_path) == {"arm.usda"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_an_error(tmp_path: Path) -> None:
    """The reason is said in one sentence."""
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(WriteError, match="denied"):
            write(arm(), tmp_path / "arm.usda")
    finally:
        tmp_path.chmod(0o700)


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    """Unknown suffixes, formats, layouts and things list what is possible."""
    with pytest.raises(WriteError, match=r"\.usda"):
        write(arm(), tmp_path / "arm.step")
    with pytest.raises(WriteError, match="usd"):
        write(arm(), tmp_path / "arm.usda", format="step")
    with pytest.raises(WriteError, match="'nested', 'flat'"):
        write(arm(), tmp_path / "arm.usda", layout="round")
    with pytest.raises(TypeError, match="arrangement"):
        write(arm(), tmp_path / "arm.usda", arrangement="flat")  # type: ignore[call-arg]
    with pytest.raises(WriteError, match="'embed', 'copy', 'bake', 'reference'"):
        write(arm(), tmp_path / "arm.usda", options=WriteOptions(meshes="all"), layout="flat")
    with pytest.raises(WriteError, match="a Robot or a World"):
        write("arm", tmp_path / "arm.usda")  # type: ignore[arg-type]
    assert files(tmp_path) == set()


def test_an_empty_robot_is_written(tmp_path: Path) -> None:
    """A robot without links, and a world without robots, are stages with nothing in them."""
    for described in (Robot(), World()):
        write(described, tmp_path / "empty.usda")
        assert (tmp_path / "empty.usda").read_text().startswith("#usda")


# -- all kinds of files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["usda", "usdc", "usd", "usdz"])
def test_every_kind_of_file_comes_back(tmp_path: Path, suffix: str) -> None:
    """Text, crate, either, and a package; one file each."""
    robot = random_robot(7, USD)
    file = tmp_path / f"robot.{suffix}"
    report = write(robot, file)
    assert isinstance(report, LossReport)
    assert files(tmp_path) == {file.name}
    back = read(file, policy=collect)
    assert isinstance(back, Robot)
    assert_same_robot(robot, back)


def test_a_package_is_one_plain_archive(tmp_path: Path) -> None:
    """A .usdz is a zip of stored files, the stage first."""
    write(arm(), tmp_path / "arm.usdz")
    with zipfile.ZipFile(tmp_path / "arm.usdz") as archive:
        assert archive.namelist() == ["arm.usdc"]
        assert all(e.compress_type == zipfile.ZIP_STORED for e in archive.infolist())
    with pytest.raises(WriteError, match="one file"):
        write(arm(), tmp_path / "arm.usdz", layered=True)


def test_meshes_beside_the_stage_are_stored_once(tmp_path: Path) -> None:
    """With referenced meshes the stage is small, and the same triangles are in the file beside it once."""
    from pxr import Sdf

    file = tmp_path / "arm.usda"
    write(arm(), file, meshes="reference")
    assert files(tmp_path) == {"arm.usda", "arm_meshes.usdc"}
    assert "point3f[] points" not in file.read_text()
    library = Sdf.Layer.FindOrOpen(str(tmp_path / "arm_meshes.usdc"))
    assert len(list(library.rootPrims)) == 1
    back = read(file, policy=collect)
    assert isinstance(back, Robot)
    assert_same_robot(arm(), back)


@pytest.mark.parametrize("meshes", ["embed", "reference"])
def test_layers_compose_to_the_same_robot(tmp_path: Path, meshes: str) -> None:
    """The interface loads geometry and physics as a payload; neither has what belongs to the other."""
    file = tmp_path / "arm.usda"
    write(arm(), file, layered=True, meshes=meshes)
    folder = tmp_path / "arm_payload"
    expected = {"arm.usda", *(f"arm_payload/{n}" for n in ("contents.usda", "geometry.usdc", "physics.usda"))}
    assert files(tmp_path) == expected | ({"arm_meshes.usdc"} if meshes == "reference" else set())
    assert "payload = @./arm_payload/contents.usda@" in file.read_text()
    physics = (folder / "physics.usda").read_text()
    assert "points" not in physics
    assert "xformOp" not in physics
    geometry = read_layer(folder / "geometry.usdc")
    assert "Physics" not in geometry
    assert "physics:" not in geometry
    back = read(file, policy=collect)
    assert isinstance(back, Robot)
    assert_same_robot(arm(), back)


def read_layer(path: Path) -> str:
    from pxr import Sdf

    return Sdf.Layer.FindOrOpen(str(path)).ExportToString()


# -- readable ---------------------------------------------------------------------------------------------------------


def test_a_nested_stage_reads_as_in_the_proposal(tmp_path: Path) -> None:
    """Links inside links, joints inside the link they carry, targets relative to the joint."""
    write(arm(), tmp_path / "arm.usda")
    text = (tmp_path / "arm.usda").read_text()
    assert "rel physics:body0 = <../..>" in text
    assert "rel physics:body1 = <..>" in text
    order = [text.index(s) for s in ('def Xform "base"', 'def Xform "arm"', 'def PhysicsRevoluteJoint "hinge"')]
    assert order == sorted(order)
    for said in ('upAxis = "Z"', "metersPerUnit = 1", "kilogramsPerUnit = 1", 'defaultPrim = "robot"'):
        assert said in text
    assert 'kind = "component"' in text
    assert "def PhysicsScene" in text


def test_a_flat_stage_has_links_and_joints_side_by_side(tmp_path: Path) -> None:
    """Two scopes, world poses, absolute targets."""
    write(arm(), tmp_path / "arm.usda", layout="flat")
    text = (tmp_path / "arm.usda").read_text()
    assert 'def Scope "PhysicsBodies"' in text
    assert 'def Scope "PhysicsJoints"' in text
    assert "rel physics:body1 = </robot/PhysicsBodies/arm>" in text


def test_plain_numbers_need_no_second_one(tmp_path: Path) -> None:
    """Numbers that people write, such as 0.1, are exact as they are."""
    robot = arm()
    robot.joints[0].axes = [rotation([0, 1, 0])]
    write(robot, tmp_path / "arm.usda")
    assert "kinema:exact" not in (tmp_path / "arm.usda").read_text()


@pytest.mark.parametrize("layout", ["nested", "flat"])
def test_all_of_openusds_validators_are_content(tmp_path: Path, layout: str) -> None:
    """Not only those of physics: types, metadata, shading, packages."""
    from pxr import Usd, UsdValidation

    registry = UsdValidation.ValidationRegistry()
    validators = [registry.GetOrLoadValidatorByName(m.name) for m in registry.GetAllValidatorMetadata()]
    context = UsdValidation.ValidationContext([v for v in validators if v])
    for seed in range(6):
        file = tmp_path / f"{seed}.usda"
        write(random_robot(seed, USD), file, layout=layout)
        errors = context.Validate(Usd.Stage.Open(str(file)))
        assert [(e.GetName(), e.GetMessage()) for e in errors] == []


def test_a_referenced_robot_can_be_put_elsewhere(tmp_path: Path) -> None:
    """A fixed robot that a scene references and moves is fixed where it was moved to."""
    robot = arm()
    robot.base = Base.FIXED
    write(robot, tmp_path / "arm.usda")
    (tmp_path / "scene.usda").write_text(
        """#usda 1.0
(
    defaultPrim = "scene"
    upAxis = "Z"
    metersPerUnit = 1
    kilogramsPerUnit = 1
)
def Xform "scene"
{
    def "arm" (references = @./arm.usda@)
    {
        double3 xformOp:translate = (1, 2, 3)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }
}
"""
    )
    back = read(tmp_path / "scene.usda", policy=collect)
    assert not [d for d in back.diagnostics if d.severity.value == "error"]
    moved, still = back.forward_kinematics({"hinge": 0.3}), robot.forward_kinematics({"hinge": 0.3})
    for name, pose in still.items():
        np.testing.assert_allclose(moved[name][:3, 3], pose[:3, 3] + (1, 2, 3), atol=1e-9)
