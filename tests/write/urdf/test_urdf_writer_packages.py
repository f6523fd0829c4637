"""References to packages: as they are from URDF to URDF, unless something else is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinema.core import collect
from kinema.read import read
from kinema.write import write

TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n"
REFERENCE = "package://my_robot/meshes/part.obj"
ROBOT = f"""
<robot name="r"><link name="a">
  <visual><geometry><mesh filename="{REFERENCE}" scale="2 2 2"/></geometry></visual>
  <collision><geometry><mesh filename="{REFERENCE}"/></geometry></collision>
</link></robot>
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    package = tmp_path / "my_robot"
    (package / "meshes").mkdir(parents=True)
    (package / "package.xml").write_text("<package><name>my_robot</name></package>", encoding="utf-8")
    (package / "meshes" / "part.obj").write_text(TETRAHEDRON, encoding="utf-8")
    (package / "r.urdf").write_text(ROBOT, encoding="utf-8")
    (tmp_path / "out").mkdir()
    return package / "r.urdf"


def test_they_stay(source: Path, tmp_path: Path) -> None:
    """Nothing is copied, and who has the package finds the meshes."""
    out = tmp_path / "out" / "r.urdf"
    assert list(write(read(source, policy=collect), out)) == []
    assert out.read_text(encoding="utf-8").count(REFERENCE) == 2
    assert [p.name for p in out.parent.iterdir()] == ["r.urdf"]
    again = read(out, search_paths=[source.parent], policy=collect)
    assert [len(m.vertices) for m in again.posed_meshes()] == [4]


@pytest.mark.parametrize(
    ("asked", "reference"),
    [
        ({"meshes": "copy"}, '"meshes/part.obj"'),
        ({"meshes": "bake"}, '"meshes/part.obj"'),
        ({"package": "other"}, '"package://other/meshes/part.obj"'),
    ],
)
def test_unless_something_else_is_asked_for(
    asked: dict[str, str], reference: str, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out" / "r.urdf"
    write(read(source, policy=collect), out, **asked)  # type: ignore[arg-type]
    text = out.read_text(encoding="utf-8")
    assert reference in text
    assert "my_robot" not in text
    assert (out.parent / "meshes" / "part.obj").is_file()


def test_other_formats_have_the_mesh_beside_them(source: Path, tmp_path: Path) -> None:
    write(read(source, policy=collect), tmp_path / "out" / "r.sdf")
    assert (tmp_path / "out" / "meshes" / "part.obj").is_file()
