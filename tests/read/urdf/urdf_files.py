"""Small URDF files for the tests of the URDF reader."""

from __future__ import annotations

from pathlib import Path

from kinema.core import Diagnostics
from kinema.description import Robot
from kinema.read.resolve import Resolver
from kinema.read.urdf import read_urdf

LINKS = '<link name="a"/><link name="b"/>'


def write(folder: Path, inside: str, *, attributes: str = 'name="robot"', name: str = "robot.urdf") -> Path:
    """A file with a `<robot>` around the text."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"<robot {attributes}>\n{inside}\n</robot>\n", encoding="utf-8")
    return path


def read_text(
    folder: Path, inside: str, diagnostics: Diagnostics, *, attributes: str = 'name="robot"', **more: object
) -> Robot:
    """Read a robot with this inside."""
    path = write(folder, inside, attributes=attributes)
    return read_urdf(path, diagnostics=diagnostics, resolve=Resolver(use_environment=False), **more)  # type: ignore[arg-type]


def joint(inside: str = "", *, type: str = "revolute", name: str = "j", tag: str = "joint") -> str:
    """Two links and the joint between them."""
    ends = '<parent link="a"/><child link="b"/>'
    return f'{LINKS}<{tag} name="{name}" type="{type}">{ends}{inside}</{tag}>'


LIMIT = '<limit lower="-1" upper="2" effort="3" velocity="4"/>'
