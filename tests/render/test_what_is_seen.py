"""What of a description is seen, and what is told about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinema.core import collect
from kinema.read import read
from kinema.scene import VisualEntity, build_render_scene

BOX = "<collision><geometry><box size='1 1 1'/></geometry></collision>"
BALL = "<visual><geometry><sphere radius='1'/></geometry></visual>"
GONE = "<visual><geometry><mesh filename='package://nowhere/gone.stl'/></geometry></visual>"


@pytest.mark.parametrize(
    ("first", "second", "seen"),
    [(BOX, BOX, 2), (GONE + BOX, BOX, 2), (BALL + BOX, BOX, 1), (BALL + BOX, GONE + BOX, 2)],
    ids=["nothing to render", "nothing left to be seen", "one to be seen", "one missing"],
)
def test_a_robot_without_visuals_is_shown_by_what_touches(tmp_path: Path, first: str, second: str, seen: int) -> None:
    file = tmp_path / "robot.urdf"
    joint = "<joint name='j' type='fixed'><parent link='a'/><child link='b'/></joint>"
    links = f"<link name='a'>{first}</link><link name='b'>{second}</link>"
    file.write_text(f"<robot name='r'>{links}{joint}</robot>", encoding="utf-8")
    robot = read(file, policy=collect)
    stage = build_render_scene([VisualEntity(description=robot, link_rows={"a": 0, "b": 1})])
    assert len(stage.instances) == seen
    messages = [d.message for d in (*robot.diagnostics, *stage.diagnostics) if "gone.stl" in d.message]
    assert len(messages) == (GONE in first + second), "a missing mesh is told once"
