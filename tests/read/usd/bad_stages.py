"""Small stages with something wrong, and what is expected of every read of them."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kinema.core import ReadError
from kinema.description import Robot, World
from kinema.read.usd import read_usd

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
