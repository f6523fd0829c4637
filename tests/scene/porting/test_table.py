"""The table of docs/porting.md: what it says to type is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kinema as km
from kinema.kinematics import Kinematics
from kinema.scene import EntityJoint, EntityLink
from kinema.scene.sensors import Sensor

TABLE = (Path(__file__).parents[3] / "docs" / "porting.md").read_text(encoding="utf-8")
ROWS = [tuple(cell.strip() for cell in line.split(" | ")) for line in TABLE.splitlines() if line.startswith("| `")]
HOLDERS = (km.Entity, km.Scene, EntityLink, EntityJoint, Kinematics, Sensor)
NAME = re.compile(r"\b((?:get|set|control|apply|zero|allow)_[A-Za-z_]*[A-Za-z])\b(?!=)")
ONLY_THERE = {"set_dofs_invweight", "get_links_invweight", "get_verts", "get_vAABB", "set_COM_shift"}
"""Of rows that say what to do instead."""


def named(cell: str) -> set[str]:
    return {name for code in re.findall(r"`([^`]*)`", cell) for name in NAME.findall(code)}


def missing(names: set[str]) -> list[str]:
    return sorted(name for name in names if not any(hasattr(holder, name) for holder in HOLDERS))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_what_the_table_names_is_there(row: tuple[str, ...]) -> None:
    there, here = row[0], row[1]
    assert not missing(named(here))
    if "the same" in here:
        assert not missing(named(there) - ONLY_THERE)


def test_the_table_is_read() -> None:
    assert len(ROWS) > 60
    assert len(set().union(*(named(row[1]) for row in ROWS))) > 40
