"""The curves of muscles at the points that define them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kinema.dynamics.forces import muscle
from kinema.dynamics.tree.transmissions import Transmission
from kinema.model import ActuatorsInfo
from kit.robots.each_joint import model_of
from kit.robots.small_robots import from_text

PEAK, LEAST, MOST, FASTEST, LENGTHENING, PASSIVE = 30.0, 0.4, 1.7, 2.0, 1.3, 0.6
RANGE = (-0.7, 1.1)
"""Lengths that count as 0.75 and 1.05 of the optimum."""
TEXT = f"""<mujoco><worldbody><body><joint name="j" axis="0 1 0"/><geom size=".1" pos=".3 0 0"/></body></worldbody>
<actuator><muscle joint="j" lengthrange="{RANGE[0]} {RANGE[1]}" force="{PEAK}" lmin="{LEAST}" lmax="{MOST}"
vmax="{FASTEST}" fvmax="{LENGTHENING}" fpmax="{PASSIVE}"/></actuator></mujoco>"""


@pytest.fixture(scope="module")
def actuators(tmp_path_factory: pytest.TempPathFactory) -> ActuatorsInfo:
    folder: Path = tmp_path_factory.mktemp("muscle")
    return model_of(from_text(folder, TEXT)).actuators  # type: ignore[arg-type]


def at(actuators: ActuatorsInfo, length: float, speed: float) -> Transmission:
    """The muscle at a length, in optimal lengths, and a speed, in greatest speeds."""
    optimum = (RANGE[1] - RANGE[0]) / (1.05 - 0.75)
    own, v = RANGE[0] + (length - 0.75) * optimum, speed * FASTEST * optimum
    return Transmission("muscle", own, v, lambda name: np.atleast_1d(getattr(actuators, name)[0]).tolist())


@pytest.mark.parametrize(
    ("length", "speed", "share"),
    [
        (1.0, 0.0, 1.0),
        (LEAST, 0.0, 0.0),
        (0.2, 0.0, 0.0),
        (MOST, 0.0, 0.0),
        (0.5 * (LEAST + 1.0), 0.0, 0.5),
        (0.5 * (MOST + 1.0), 0.0, 0.5),
        (1.0, -1.0, 0.0),
        (1.0, -2.0, 0.0),
        (1.0, -0.5, 0.25),
        (1.0, LENGTHENING - 1.0, LENGTHENING),
        (1.0, 3.0, LENGTHENING),
    ],
)
def test_active(actuators: ActuatorsInfo, length: float, speed: float, share: float) -> None:
    """All of its strength at its optimum and at rest, none where it is too short, too long or too fast."""
    force, _ = muscle.active_force(at(actuators, length, speed))
    assert force == pytest.approx(-PEAK * share, abs=1e-9)


@pytest.mark.parametrize(("length", "share"), [(0.9, 0.0), (1.0, 0.0), (0.5 * (MOST + 1.0), 0.5), (MOST, 1.5)])
def test_passive(actuators: ActuatorsInfo, length: float, share: float) -> None:
    """Nothing up to its optimum, then half a parabola, then a line."""
    assert muscle.passive_force(at(actuators, length, 0.0)) == pytest.approx(-PEAK * PASSIVE * share, abs=1e-9)
