"""Kinema's own settings on a stage are anybody's to write: wrong ones are ignored, never a crash."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from kinema.core import InternalError, ReadError, collect
from kinema.read import read
from kinema.write import write
from kit.robots.random_robots import random_robot
from kit.robots.variety import USD

_SETTING = re.compile(r"^(\s*)custom \S+ (kinema:[\w:]+) = .*$")
_NONSENSE = (
    'custom string {} = "nonsense"',
    "custom double {} = nan",
    "custom double {} = -inf",
    "custom int {} = -7",
    "custom bool {} = 1",
    "custom double[] {} = []",
    "custom double[] {} = [nan, 1, 2, 3, 4, 5]",
    'custom token[] {} = ["rotX", "nonsense"]',
    "custom double3 {} = (nan, inf, 1)",
    "custom quatd {} = (0, 0, 0, 0)",
    "custom quatd {} = (nan, 0, 0, 0)",
    "custom double3[] {} = [(0, 0, 0)]",
    "custom float3 {} = (1, 2, 3)",
    "custom double2 {} = (nan, inf)",
    "custom asset {} = @./nowhere.png@",
)


def spoiled(text: str, rng: np.random.Generator, share: float) -> str:
    """Some of the settings with another type and value."""
    lines = []
    for line in text.splitlines():
        found = _SETTING.match(line)
        if found and rng.random() < share:
            line = found.group(1) + str(rng.choice(_NONSENSE)).format(found.group(2))
        lines.append(line)
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(40))
def test_settings_with_wrong_types_and_values_are_ignored(tmp_path: Path, seed: int) -> None:
    """The stage is still read; whatever comes out, it is not a defect of ours."""
    rng = np.random.default_rng(seed)
    file = tmp_path / "robot.usda"
    write(random_robot(seed, USD), file, layout="flat" if seed % 2 else "nested")
    file.write_text(spoiled(file.read_text(), rng, share=0.3))
    try:
        described = read(file, policy=collect)
    except InternalError:
        raise
    except ReadError:
        return
    described.forward_kinematics({})


def test_a_stage_of_strangers_has_no_settings(tmp_path: Path) -> None:
    """Without the stamp the same attributes mean nothing."""
    file = tmp_path / "robot.usda"
    robot = random_robot(3, USD)
    write(robot, file)
    text = re.sub(r"dictionary kinema = \{.*?\}", "", file.read_text(), count=1, flags=re.DOTALL)
    file.write_text(text)
    assert read(file, policy=collect).name == "my_robot"
    assert robot.name == "my robot"
