"""References lead to files, and never outside the allowed folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinema.core import UNKNOWN_ORIGIN
from kinema.read import Resolver
from kinema.read.resolve import warn_about_substitute_package
from kit.diagnostics import ClaimedDiagnostics


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH", "GZ_SIM_RESOURCE_PATH", "GAZEBO_MODEL_PATH", "SDF_PATH"):
        monkeypatch.delenv(name, raising=False)


def make(root: Path, *files: str) -> None:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("<package><name>declared</name></package>" if name.endswith(".xml") else "x")


def found(resolver: Resolver, uri: str, from_file: Path) -> str | None:
    """Path relative to the temporary folder, or None."""
    path = resolver.resolve(uri, from_file).path
    return None if path is None else str(path)


def test_relative_references_start_at_the_file(tmp_path: Path) -> None:
    make(tmp_path, "r/robot.urdf", "r/meshes/a b.stl")
    assert found(Resolver(), "meshes/a b.stl", tmp_path / "r/robot.urdf") == str(tmp_path / "r/meshes/a b.stl")
    assert found(Resolver(), f"file://{tmp_path}/r/meshes/a%20b.stl", tmp_path / "r/robot.urdf") is not None


def test_meshes_and_descriptions_may_lie_a_little_above(tmp_path: Path) -> None:
    make(tmp_path, "c/d/r/urdf/robot.urdf", "c/d/r/meshes/a.stl", "c/d/r/secret.txt", "c/d/r/hands/left.xml")
    make(tmp_path, "c/d/other/a.stl", "c/d/other/b.xml", "c/far/a.stl")
    robot = tmp_path / "c/d/r/urdf/robot.urdf"
    assert found(Resolver(), "../meshes/a.stl", robot) is not None
    assert found(Resolver(), "../../other/a.stl", robot) is not None
    assert found(Resolver(), "../hands/left.xml", robot) is not None
    assert found(Resolver(), "../secret.txt", robot) is None
    assert found(Resolver(), "../../other/b.xml", robot) is None
    assert found(Resolver(), "../../../far/a.stl", robot) is None


def test_anywhere_in_a_python_package(tmp_path: Path) -> None:
    """Meshes and descriptions, in the outermost package; not in what merely lies around it."""
    make(tmp_path, "site/p/__init__.py", "site/p/q/__init__.py", "site/p/q/a/b/c/d/robot.xml")
    make(tmp_path, "site/p/meshes/a.stl", "site/p/parts/hand.xml", "site/p/key.txt", "site/other/a.stl")
    robot = tmp_path / "site/p/q/a/b/c/d/robot.xml"
    assert found(Resolver(), "../../../../../meshes/a.stl", robot) is not None
    assert found(Resolver(), "../../../../../parts/hand.xml", robot) is not None
    assert found(Resolver(), "../../../../../key.txt", robot) is None
    assert found(Resolver(), "../../../../../../other/a.stl", robot) is None


def test_packages_are_found_around_the_file(tmp_path: Path) -> None:
    make(tmp_path, "ws/arm/package.xml", "ws/arm/urdf/robot.urdf", "ws/arm/meshes/a.stl", "ws/arm/data/x.txt")
    make(
        tmp_path,
        "ws/hand/package.xml",
        "ws/hand/a.stl",
        "ws/unmarked/a.stl",
        "ws/unmarked/x.txt",
        "ws/arm/urdf/inner/a.stl",
    )
    robot = tmp_path / "ws/arm/urdf/robot.urdf"
    assert found(Resolver(), "package://arm/meshes/a.stl", robot) is not None
    assert found(Resolver(), "package://declared/meshes/a.stl", robot) is not None  # the name in package.xml
    assert found(Resolver(), "package://hand/a.stl", robot) is not None
    assert found(Resolver(), "package://inner/a.stl", robot) is not None
    assert found(Resolver(), "../data/x.txt", robot) is not None  # inside its own package
    assert "the folder 'unmarked'" in Resolver().resolve("package://unmarked/a.stl", robot).reason
    assert found(Resolver(), "package://unmarked/x.txt", robot) is None
    assert found(Resolver(search_paths=[tmp_path / "ws"]), "package://unmarked/a.stl", robot) is not None
    assert found(Resolver(search_paths=[tmp_path / "ws/unmarked"]), "package://unmarked/a.stl", robot) is not None


def test_a_package_under_another_name_is_the_folder_around_the_file(tmp_path: Path) -> None:
    """Its meshes are taken from there, which is said; anything else of it is not."""
    make(tmp_path, "far.stl", "ws/renamed/urdf/arm/robot.urdf", "ws/renamed/meshes/a.stl", "ws/renamed/meshes/x.txt")
    robot = tmp_path / "ws/renamed/urdf/arm/robot.urdf"
    taken = Resolver().resolve("package://former/meshes/a.stl", robot)
    assert taken.path == (tmp_path / "ws/renamed/meshes/a.stl").resolve()
    assert "'former' was not found" in taken.reason
    assert "'renamed'" in taken.reason
    without = Resolver().resolve("package://meshes/a.stl", robot)  # somebody forgot the package
    assert without.path == taken.path
    assert without.reason
    for absent in ("meshes/b.stl", "meshes/x.txt", "../../far.stl"):
        assert Resolver().resolve(f"package://former/{absent}", robot).path is None


def test_a_stand_in_is_said_once(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    make(tmp_path, "robot.urdf", "a.stl", "b.stl")
    for name in ("a.stl", "b.stl"):
        found = Resolver().resolve(f"package://arm/{name}", tmp_path / "robot.urdf")
        warn_about_substitute_package(found, diagnostics, "urdf", UNKNOWN_ORIGIN)
    assert diagnostics.claim("urdf.package-stand-in").hint


def test_model_references_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "models/box/model.sdf", "w/world.sdf")
    world = tmp_path / "w/world.sdf"
    assert found(Resolver(), "model://box/model.sdf", world) is None
    monkeypatch.setenv("GZ_SIM_RESOURCE_PATH", str(tmp_path / "models"))
    assert found(Resolver(), "model://box/model.sdf", world) is not None
    assert found(Resolver(), "model://box", world) == str(tmp_path / "models/box")
    assert found(Resolver(use_environment=False), "model://box/model.sdf", world) is None


ESCAPES = [
    "/etc/passwd",
    "file:///etc/passwd",
    "../../../../../../../../etc/passwd",
    "package://etc/passwd",
    "package://../etc/passwd",
    "package://arm/../../../../../../../../etc/passwd",
    "package://arm/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "link/passwd",
    "http://example.org/a.stl",
    "https://example.org/a.stl",
    "ftp://x/a.stl",
    "\x00",
    "",
    "a" * 5000,
    "package://",
    "package:///etc/passwd",
]


@pytest.mark.parametrize("uri", ESCAPES)
def test_nothing_outside_is_read(tmp_path: Path, uri: str) -> None:
    make(tmp_path, "arm/package.xml", "arm/urdf/robot.urdf")
    (tmp_path / "arm/urdf/link").symlink_to("/etc")
    result = Resolver().resolve(uri, tmp_path / "arm/urdf/robot.urdf")
    assert result.path is None
    assert result.reason


def test_the_reason_says_what_to_do(tmp_path: Path) -> None:
    make(tmp_path, "r/robot.urdf", "a.txt")
    resolver = Resolver()
    assert "no such file" in resolver.resolve("b.stl", tmp_path / "r/robot.urdf").reason
    assert "search path" in resolver.resolve("../a.txt", tmp_path / "r/robot.urdf").reason
    assert "'p' was not found" in resolver.resolve("package://p/b.stl", tmp_path / "r/robot.urdf").reason
    assert "not fetched" in resolver.resolve("https://x/b.stl", tmp_path / "r/robot.urdf").reason
