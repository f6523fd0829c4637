"""How constraints are solved: as the scene was asked to, else as its files say, else in our own way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kinema as km
from kinema.core import KinemaError
from kinema.dynamics import Settings, Solver
from kit.robots.small_robots import from_text

TEXT = """<mujoco model="{name}"><option {option}/><worldbody><body><joint axis="0 1 0" range="-5 5" limited="true"/>
<geom size=".1" pos=".3 0 0"/></body></worldbody></mujoco>"""
SAID = (
    'solver="CG" iterations="7" ls_iterations="5" tolerance="1e-6" cone="elliptic" impratio="4" noslip_iterations="3"'
)
ASKED = {
    "solver": "newton",
    "iterations": 9,
    "ls_iterations": 8,
    "tolerance": 1e-7,
    "cone": "pyramidal",
    "impratio": 2.0,
    "noslip_iterations": 0,
}


def built(folder: Path, *options: str, **asked: Any) -> km.Scene:
    """A scene with a file for each of the options."""
    scene = km.Scene(precision="double", quiet=True, **asked)
    for i, option in enumerate(options):
        scene.add(from_text(folder, TEXT.format(name=f"r{i}", option=option), f"{i}.xml"))
    scene.build()
    return scene


def solving(scene: km.Scene) -> dict[str, Any]:
    """What its programs are made for."""
    settings, options = scene.built.engine.settings, scene.built.model.options
    names = ("solver", "iterations", "ls_iterations", "tolerance", "noslip_iterations")
    own = {name: getattr(settings, name) for name in names}
    return {**own, "cone": "elliptic" if options.elliptic else "pyramidal", "impratio": options.impratio}


def test_files_decide(tmp_path: Path) -> None:
    """All of it is as the file says, and nothing is noted."""
    scene = built(tmp_path, SAID)
    said = {"solver": Solver.CG, "iterations": 7, "ls_iterations": 5, "tolerance": 1e-6, "noslip_iterations": 3}
    assert solving(scene) == {**said, "cone": "elliptic", "impratio": 4.0}
    assert "sim.solver-options" not in scene.diagnostics.codes()


def test_the_scene_decides_over_files(tmp_path: Path) -> None:
    """Whatever it was asked for."""
    assert solving(built(tmp_path, SAID, **ASKED)) == ASKED


def test_nobody_decides(tmp_path: Path) -> None:
    """What equals MuJoCo's defaults is as good as not said; conjugate gradients take more steps."""
    plain = Settings()
    found = solving(built(tmp_path, 'iterations="100" tolerance="1e-8"'))
    assert found["iterations"] == plain.iterations
    assert found["tolerance"] == plain.tolerance
    assert found["solver"] is Solver.NEWTON
    assert solving(built(tmp_path, "", solver="cg"))["iterations"] == 100


def test_files_that_disagree(tmp_path: Path) -> None:
    """The first one counts; the other is warned of."""
    scene = built(tmp_path, 'iterations="7"', 'iterations="8"')
    assert solving(scene)["iterations"] == 7
    (found,) = [d for d in scene.diagnostics if d.code == "sim.options-differ"]
    assert 'the file of "r1"' in found.message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("solver", x) for x in ("pgs", 3)),
        *((name, x) for name in ("iterations", "ls_iterations") for x in (0, 1.5, True)),
        *(("tolerance", x) for x in (-1.0, "small")),
        *(("cone", x) for x in ("round", 2)),
        *(("impratio", x) for x in (0.0, -1.0)),
        *(("noslip_iterations", x) for x in (-1, 0.5, False)),
    ],
)
def test_what_cannot_be_meant(name: str, value: Any) -> None:
    """One sentence that names the argument."""
    with pytest.raises(KinemaError, match=rf"^{name}: "):
        km.Scene(**{name: value})
