"""Text that is no XML, but that ROS, Gazebo and MuJoCo read: so do we, with a warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinema.core import collect
from kinema.description import Robot
from kinema.read import read

SPOILT = {
    "blank lines before the declaration": "\n\n<?xml version='1.0'?>\n<{root}>\n<link name='a'/></{end}>",
    "a comment before the declaration": "<!-- by hand -->\n<?xml version='1.0'?>\n\n<{root}>\n<link name='a'/></{end}>",
    "another encoding": "\n<?xml version='1.0' encoding='latin-1'?>\n<!-- \xf6 -->\n<{root}>\n<link name='a'/></{end}>",
    "dashes in a comment": "<?xml version='1.0'?>\n\n<!-- a -- b -->\n<{root}>\n<link name='a'/></{end}>",
    "glued attributes": "\n\n<{root}><!-- -->\n\n<link name='a'other='b'/></{end}>",
    "bare ampersands": "\n\n<{root}><!-- here & there -->\n\n<link name='a' other='b & c'/></{end}>",
}
ROOTS = {"urdf": ("robot name='r'", "robot"), "sdf": ("sdf version='1.9'><model name='r'", "model></sdf")}


@pytest.mark.parametrize("format", ROOTS)
@pytest.mark.parametrize("text", SPOILT.values(), ids=SPOILT)
def test_it_is_read_with_a_warning(tmp_path: Path, format: str, text: str) -> None:
    """What is in it is found, at the lines where it stands."""
    root, end = ROOTS[format]
    file = tmp_path / f"r.{format}"
    file.write_bytes(text.format(root=root, end=end).encode("latin-1"))
    robot = read(file, policy=collect)
    assert isinstance(robot, Robot)
    (said,) = [d for d in robot.diagnostics if d.code == f"{format}.not-well-formed"]
    assert said.hint
    assert [(link.name, link.origin.line) for link in robot.links] == [("a", 5)]
