"""Which shapes may touch is what MuJoCo decides: welds, parents, bit masks, excluded bodies, explicit pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import pytest

from kinema.description import World, colliding_pairs
from kinema.read.mjcf import read_mjcf
from kit.assets import all_assets, asset_id
from kit.diagnostics import ClaimedDiagnostics
from kit.mjcf_texts import BALL, INLINE, read_text, write
from kit.mujoco_models import load, mujoco_pairs

FILTERS = f"""
<mujoco>
  <option><flag filterparent="%s"/></option>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body name="still"><geom name="still" size=".1"/>
      <body name="on_still"><joint/><geom name="on_still" size=".1"/></body>
    </body>
    <body name="a"><freejoint/><geom name="a" size=".1" contype="2" conaffinity="4"/><geom name="a2" size=".2"/>
      <body name="welded"><geom name="welded" size=".1"/>
        <body name="child"><joint/><geom name="child" size=".1"/>
          <body name="grandchild"><joint/><geom name="grandchild" size=".1" contype="4"/></body>
        </body>
      </body>
    </body>
    <body name="hand" mocap="true"><geom name="hand" size=".1"/>
      <body name="glove"><geom name="glove" size=".1"/></body>
      <body name="finger"><joint/><geom name="finger" size=".1"/></body>
    </body>
    <body name="hand2" mocap="true"><geom name="hand2" size=".1"/></body>
    <body name="ghost"><joint/><geom name="ghost" size=".1" contype="0" conaffinity="0"/>{BALL}</body>
  </worldbody>
  <contact>
    <exclude name="none" body1="child" body2="finger"/>
    <exclude body1="world" body2="grandchild"/>
    <pair name="forced" geom1="ghost" geom2="floor" condim="6" friction="1 2 3 4 5" margin=".1" gap=".02"
          solref=".01 2" solimp=".8 .9 .01 .4 3"/>
    <pair geom1="child" geom2="finger"/>
    <pair geom1="child" geom2="a2"/>
  </contact>
</mujoco>
"""


def _kinema_pairs(path: Path, model: Any) -> set[frozenset[int]]:
    described = read_mjcf(path)
    scenery = described.shapes if isinstance(described, World) else []
    names = {mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_BODY, b) or f"body_{b}": b for b in range(model.nbody)}
    numbers = {id(s): i for i, s in enumerate(scenery)}
    for link in described.links:
        first = int(model.body_geomadr[names[link.name]])
        numbers |= {id(s): first + i for i, s in enumerate(link.shapes)}
    return {frozenset((numbers[id(a.shape)], numbers[id(b.shape)])) for a, b in colliding_pairs(described)}


@pytest.mark.wide
@pytest.mark.parametrize("path", all_assets("mjcf/**/*.xml"), ids=asset_id)
def test_colliding_pairs_of_real_robots(path: Path) -> None:
    """The same pairs of geoms as MuJoCo's on every robot."""
    model = load(path)
    assert _kinema_pairs(path, model) == mujoco_pairs(model)


@pytest.mark.parametrize("text", [FILTERS % "enable", FILTERS % "disable", *INLINE.values()])
def test_colliding_pairs_of_each_filter(tmp_path: Path, text: str) -> None:
    """Every filter by itself, with mocap bodies, welds and explicit pairs."""
    path = write(tmp_path, text)
    model = load(path)
    assert _kinema_pairs(path, model) == mujoco_pairs(model)


def test_mujoco_finds_those_contacts(tmp_path: Path) -> None:
    """The oracle above is MuJoCo's own filter: with all geoms in one place, these are its contacts."""
    model = load(write(tmp_path, FILTERS % "enable"))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    assert {frozenset(int(g) for g in pair) for pair in data.contact.geom} == mujoco_pairs(model)


def test_explicit_pairs_have_their_own_surface(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A pair says how its two geoms touch; it lives in the world where it spans robot and scenery."""
    world = read_text(tmp_path, FILTERS % "enable", diagnostics)
    forced = next(p for p in world.collision.pairs if p.name == "forced")
    assert {forced.a, forced.b} == {"ghost", "floor"}
    assert (forced.between, forced.collide) == ("shapes", True)
    assert forced.surface is not None
    surface = forced.surface
    assert (surface.contact_dimension, surface.static_friction, surface.dynamic_friction2) == (6, 1.0, 2.0)
    assert (surface.torsional_friction, surface.rolling_friction, surface.gap) == (3.0, 4.0, 0.02)
    assert surface.attributes["mjcf:friction"] == (1, 2, 3, 4, 5)
    assert surface.solver.solref == (0.01, 2.0)
    assert surface.solver.solimp == (0.8, 0.9, 0.01, 0.4, 3.0)
    assert surface.solver.margin == pytest.approx(0.1)
    assert forced.origin.line == 26


def test_excluded_bodies(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """An exclude within one robot lives there, one with the world or between robots in the world."""
    world = read_text(tmp_path, FILTERS % "enable", diagnostics)
    excluded = [p for p in world.collision.pairs if not p.collide]
    assert {(p.name, p.a, p.b) for p in excluded} == {("none", "child", "finger"), ("", "world", "grandchild")}
    robot = read_text(
        tmp_path,
        f'<mujoco><worldbody><body name="a"><joint/>{BALL}<body name="b"><joint/>{BALL}</body></body></worldbody>'
        '<contact><exclude body1="a" body2="b"/></contact></mujoco>',
        diagnostics,
    )
    assert [(p.a, p.b, p.between) for p in robot.collision.pairs] == [("a", "b", "links")]


def test_surfaces(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Friction, condim and soft-contact parameters; MuJoCo's defaults are not written down as if the file said them."""
    robot = read_text(
        tmp_path,
        '<mujoco><worldbody><body name="b"><geom size=".1" friction=".5 .02 .003" condim="4" priority="2" solmix="3"'
        ' margin=".04" gap=".01" solref="-100 -5"/><geom size=".2"/><geom size=".1" contype="0" conaffinity="0"/>'
        "</body></worldbody></mujoco>",
        diagnostics,
    )
    given, default, ghost = (s.surface for s in robot.links[0].shapes)
    assert given is not None
    assert (given.dynamic_friction, given.torsional_friction, given.rolling_friction) == (0.5, 0.02, 0.003)
    assert (given.contact_dimension, given.priority, given.solmix, given.gap) == (4, 2, 3.0, 0.01)
    assert given.solver.solref == (-100.0, -5.0)
    assert given.solver.margin == pytest.approx(0.04)
    assert default is not None
    assert default.solver.solref is None
    assert default.solver.solimp is None
    assert default.dynamic_friction == 1.0
    assert ghost is None
