"""Gears: trains of them, from a file, turn as their ratios say, however often, and as heavily as they should."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kinema.builder import EntitySpec, build_model
from kinema.core import Diagnostics, collect
from kinema.read import read

from .constrained import constrained_engine

INERTIAS = (0.02, 0.05, 0.01)
RATIOS = (2.5, -0.4)
"""Of the second wheel to the first, of the third to the second."""

WHEEL = """<link name="{name}"><pose>{x} 0 0 0 0 0</pose><inertial><mass>1</mass>
<inertia><ixx>0.1</ixx><iyy>0.1</iyy><izz>{inertia}</izz></inertia></inertial></link>
<joint name="{name} axle" type="revolute"><parent>{parent}</parent><child>{name}</child><axis><xyz>0 0 {up}</xyz></axis>
</joint>"""
GEAR = """<joint name="gear {a}{b}" type="gearbox"><parent>{a}</parent><child>{b}</child>
<gearbox_ratio>{ratio}</gearbox_ratio><gearbox_reference_body>carrier</gearbox_reference_body>
<axis><xyz>0 0 1</xyz></axis><axis2><xyz>0 0 1</xyz></axis2></joint>"""


def train() -> str:
    """Three wheels on a carrier that turns itself; the second's axle points down, the third sits on the first."""
    parents, ups = ("carrier", "carrier", "a"), (1, -1, 1)
    wheels = "".join(
        WHEEL.format(name=name, x=0.3 * i, inertia=inertia, parent=parent, up=up)
        for i, (name, inertia, parent, up) in enumerate(zip("abc", INERTIAS, parents, ups, strict=True))
    )
    wheels = wheels.replace("0.6 0 0", "0 0 0.1")
    carrier = WHEEL.format(name="carrier", x=0, inertia=1.0, parent="world", up=1)
    gears = "".join(GEAR.format(a=a, b=b, ratio=r) for (a, b), r in zip(("ab", "bc"), RATIOS, strict=True))
    return f'<sdf version="1.11"><model name="train">{carrier}{wheels}{gears}</model></sdf>'


def test_gear_train(tmp_path: Path) -> None:
    """Wheels turn against their carrier by the ratios, over many turns, to 1e-4; a torque moves the sum of inertias."""
    file = tmp_path / "train.sdf"
    file.write_text(train(), encoding="utf-8")
    diagnostics = Diagnostics()
    model = build_model(
        [EntitySpec(name="train", description=read(file, policy=collect))], gravity=(0, 0, 0), diagnostics=diagnostics
    )
    assert not [d for d in diagnostics if d.code == "sim.constraint"]
    engine = constrained_engine(model, dt=1e-3, precision="single")
    command, torque = np.zeros((model.n_dofs, 1)), 10.0
    at = {name: int(model.joints.dof_start[i]) for i, name in enumerate(model.joints.names)}
    command[at["a axle"]] = torque
    engine.array_view("command").assign(command)
    engine.step(1500)
    q, v = (engine.array_view(x).numpy()[:, 0].astype(float) for x in ("qpos", "vel"))
    a, b = q[at["a axle"]], -q[at["b axle"]]
    c = a + q[at["c axle"]]
    assert a > 20.0
    assert b == pytest.approx(-RATIOS[0] * a, abs=1e-4 * abs(a))
    assert c == pytest.approx(-RATIOS[1] * b, abs=1e-4 * abs(a))
    turns = np.array([1.0, -RATIOS[0], RATIOS[0] * RATIOS[1]])
    inertias = np.array(INERTIAS)
    # the carrier turns freely: what is turned against it, and all of it together, share the torque
    off_center = 0.3**2  # of the wheel that is not in the middle
    whole, own = 1.0 + inertias.sum() + off_center, turns @ inertias
    expected = torque * 1.5 / (inertias @ turns**2 - own**2 / whole)
    assert v[at["a axle"]] == pytest.approx(expected, rel=1e-3)
