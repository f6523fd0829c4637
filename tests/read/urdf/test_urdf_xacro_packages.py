"""Packages that xacro files ask for, where nothing but a folder's place says which it is."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from kinema.core import ReadError
from kinema.read.resolve import Resolver
from kinema.read.urdf import read_urdf
from kit.diagnostics import ClaimedDiagnostics

from .urdf_files import write

pytestmark = pytest.mark.skipif(importlib.util.find_spec("xacro") is None, reason="xacro is not installed")
XMLNS = 'name="bot" xmlns:xacro="http://www.ros.org/wiki/xacro"'


def _bot(folder: Path, package: str, part: str = "part.xacro") -> Path:
    """A file that includes another by the name of its package, and a mesh beside both."""
    write(folder / "urdf", '<link name="b"/>', attributes=XMLNS, name="part.xacro")
    (folder / "meshes").mkdir()
    (folder / "meshes" / "a.stl").write_text("x")
    mesh = f'<visual><geometry><mesh filename="package://{package}/meshes/a.stl"/></geometry></visual>'
    joint = '<joint name="j" type="fixed"><parent link="a"/><child link="b"/></joint>'
    inside = f'<xacro:include filename="$(find {package})/urdf/{part}"/><link name="a">{mesh}</link>{joint}'
    return write(folder / "urdf", inside, attributes=XMLNS, name="bot.xacro")


def test_a_folder_of_the_right_name_is_the_package(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """It needs no manifest: the file lies in it."""
    file = _bot(tmp_path / "arm", "arm")
    robot = read_urdf(file, diagnostics=diagnostics, resolve=Resolver(use_environment=False))
    assert {link.name for link in robot.links} == {"a", "b"}


def test_a_folder_stands_in_for_its_former_name(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """What is asked of the missing package is looked for around the file, which is said once."""
    file = _bot(tmp_path / "arm", "former")
    robot = read_urdf(file, diagnostics=diagnostics, resolve=Resolver(use_environment=False))
    assert {link.name for link in robot.links} == {"a", "b"}
    assert "'former' was not found; the folder 'arm'" in diagnostics.claim("urdf.package-stand-in").message


def test_what_is_not_there_is_of_the_missing_package(tmp_path: Path) -> None:
    """The message names the package, not only a path that nobody wrote."""
    with pytest.raises(ReadError, match=r"no such file, and package 'former' was not found; give its folder"):
        read_urdf(_bot(tmp_path / "arm", "former", "other.xacro"), resolve=Resolver(use_environment=False))


def test_such_a_folder_gives_no_right_to_read(tmp_path: Path) -> None:
    """Settings in it stay unread, as they would be anywhere else."""
    (tmp_path / "arm").mkdir()
    (tmp_path / "arm" / "secret.yaml").write_text("a: 1")
    inside = "<link name=\"${xacro.load_yaml('$(find arm)/secret.yaml')}\"/>"
    file = write(tmp_path / "arm" / "urdf", inside, attributes=XMLNS, name="bot.xacro")
    with pytest.raises(ReadError, match="outside the folders"):
        read_urdf(file, resolve=Resolver(use_environment=False))
