"""Stages that move: the value at the start is read, and it is noted only where something that is read does move."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kinema.core import Diagnostics
from kinema.read.usd import read_usd
from kit.diagnostics import ClaimedDiagnostics

from .bad_stages import BALL, stage

HEAD = '#usda 1.0\n(\n    defaultPrim = "World"\n    metersPerUnit = 1\n    upAxis = "Z"{range}\n)\n'
RANGE = "\n    startTimeCode = 10\n    endTimeCode = 20"
MOVING = BALL.replace(
    "double radius = 0.1",
    """double radius.timeSamples = {
        0: 1,
        10: 2,
        20: 3,
    }
    double3 xformOp:translate.timeSamples = {
        0: (0, 0, 0),
        10: (0, 0, 1),
        20: (0, 0, 5),
    }
    uniform token[] xformOpOrder = ["xformOp:translate"]""",
)


def notes(file: Path) -> list[str]:
    diagnostics = Diagnostics()
    read_usd(file, diagnostics=diagnostics)
    return [d.message for d in diagnostics if d.code == "usd.time-samples"]


@pytest.mark.parametrize(("time_range", "height", "radius"), [(RANGE, 1.0, 2.0), ("", 0.0, 1.0)])
def test_the_start_is_read(
    tmp_path: Path, time_range: str, height: float, radius: float, diagnostics: ClaimedDiagnostics
) -> None:
    """At the start time where the stage says one, at the first sample else."""
    file = stage(tmp_path, MOVING, head=HEAD.format(range=time_range))
    link = read_usd(file, diagnostics=diagnostics).links[0]
    assert link.pose is not None
    np.testing.assert_allclose(link.pose.position, [0, 0, height])
    assert link.shapes[0].geometry.radius == radius  # type: ignore[union-attr]
    (message,) = notes(file)
    assert ("10" in message) == bool(time_range)


def test_a_time_range_alone_is_no_animation(tmp_path: Path) -> None:
    """Many exporters write one on stages in which nothing moves."""
    assert notes(stage(tmp_path, BALL, head=HEAD.format(range=RANGE))) == []


def test_one_sample_is_no_animation(tmp_path: Path) -> None:
    """A single sample is a constant."""
    text = BALL.replace("double radius = 0.1", "double radius.timeSamples = {\n        0: 1,\n    }")
    assert notes(stage(tmp_path, text, head=HEAD.format(range=RANGE))) == []


def test_what_is_not_read_may_move(tmp_path: Path) -> None:
    """Attributes that mean nothing here, and transforms below which nothing is read."""
    lonely = MOVING.replace("Sphere", "Xform").replace(
        'prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"]', ""
    )
    lonely = lonely.replace("ball", "lonely")
    other = BALL.replace(
        "double radius = 0.1", "double radius = 0.1\n    double odd.timeSamples = {\n 0: 1,\n 5: 2,\n}"
    )
    assert notes(stage(tmp_path, lonely + other, head=HEAD.format(range=RANGE))) == []


def test_a_parent_that_moves_is_named(tmp_path: Path) -> None:
    """The transform that is animated, not each of those that inherit it."""
    text = f"""
    def Xform "carrier"
    {{
        double xformOp:rotateZ.timeSamples = {{
            0: 0,
            10: 90,
        }}
        uniform token[] xformOpOrder = ["xformOp:rotateZ"]
        {BALL}
    }}
    """
    (message,) = notes(stage(tmp_path, text, head=HEAD.format(range=RANGE)))
    assert message.startswith("/World/carrier is animated")
