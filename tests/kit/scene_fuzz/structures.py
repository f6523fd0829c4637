"""What random scenes are made of: a few structures, each built once, and who of them may be of another size."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import kinema as km
from kinema import geometry

from ..hollow_meshes import bolt, cup, nut

FLOOR = '<geom name="floor" type="plane" size="50 50 1"/>'
HULLS = find_spec("scipy") is not None
"""Whether there are convex hulls and distance fields: they take SciPy. Without it heaps are without a mesh."""
MESHES = ("hollow",)
"""Structures that are nothing without them."""
PER_ENV = ("gravity", "geom_friction", "geom_sol_params", "geom_size")


@dataclass(slots=True)
class Structure:
    """A scene that is not built yet."""

    scene: km.Scene
    entities: list[Any]
    """All that have surfaces."""
    sized: dict[str, float] = field(default_factory=dict)
    """Shapes of the first entity that may be of another size, and their usual one [m]."""
    reach: float = 0.15
    """How large free bodies are that keep their sizes [m]."""
    spread: bool = True
    """Whether free bodies begin anywhere above the floor, anyhow turned; else about where they are."""
    speed: float = 1.0
    """How fast all begins [m/s, rad/s]."""


def _from_text(bodies: str, scene: km.Scene, rest: str = "") -> Any:
    text = f"<mujoco>{rest}<worldbody>{FLOOR}{bodies}</worldbody></mujoco>"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scene.xml"
        file.write_text(text, encoding="utf-8")
        return scene.add(file)


def _free(name: str, shape: str, mass: float, more: str = "", at: str = "0 0 1") -> str:
    return f'<body pos="{at}"><freejoint/><geom name="{name}" {shape} mass="{mass}" {more}/></body>'


def apart(scene: km.Scene) -> Structure:
    """A ball, a bar and a box that fall far from each other."""
    bodies = _free("ball", 'size=".1"', 1.0) + _free("bar", 'type="capsule" size=".05 .1"', 0.3, 'condim="4"')
    bodies += _free("box", 'type="box" size=".1 .1 .1"', 3.0)
    return Structure(scene, [_from_text(bodies, scene)], dict.fromkeys(("ball", "bar", "box"), 0.1))


def heap(scene: km.Scene) -> Structure:
    """One of each kind, which fall onto each other."""
    bodies = _free("ball", 'size=".06"', 0.5) + _free("box", 'type="box" size=".08 .06 .05"', 1.0, 'condim="4"')
    bodies += _free("bar", 'type="capsule" size=".04 .08"', 0.4) + _free("can", 'type="cylinder" size=".06 .05"', 0.7)
    bodies += _free("egg", 'type="ellipsoid" size=".06 .05 .08"', 0.4, 'condim="6"')
    rest = ""
    if HULLS:
        bodies += '<body pos="0 0 1"><freejoint/><geom name="rock" type="mesh" mesh="rock" mass=".8"/></body>'
        corners = " ".join(f"{x:.4f}" for x in (0.08 * _corners()).ravel())
        rest = f'<asset><mesh name="rock" vertex="{corners}"/></asset>'
    sized: dict[str, float] = dict.fromkeys(("ball", "box", "bar", "can", "egg"), 0.06)
    return Structure(scene, [_from_text(bodies, scene, rest)], sized, reach=0.1)


def _corners() -> np.ndarray:
    points = np.random.default_rng(0).normal(size=(12, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def tower(scene: km.Scene) -> Structure:
    """Boxes on top of each other, which are pushed."""
    bodies = "".join(
        _free(f"box{i}", 'type="box" size=".1 .1 .1"', mass, at=f"0 0 {0.101 + 0.202 * i}")
        for i, mass in enumerate((1.0, 0.1, 5.0, 0.5))
    )
    return Structure(scene, [_from_text(bodies, scene)], spread=False, speed=0.3)


def crawler(scene: km.Scene) -> Structure:
    """A body with four legs of two joints each, with limits and dry friction, that falls over; a ball beside it."""
    joint = '<joint axis="0 1 0" range="-60 60" frictionloss=".05" damping=".02" armature=".002"/>'
    bone = '<geom type="capsule" size=".02" fromto="0 0 0 0 0 -.15" mass=".15"/>'
    shin = f'<body pos="0 0 -.15">{joint}{bone}</body>'
    places = [f"{x} {y} 0" for x in (-0.15, 0.15) for y in (-0.1, 0.1)]
    legs = "".join(f'<body pos="{place}">{joint}{bone}{shin}</body>' for place in places)
    trunk = f'<body pos="0 0 .6"><freejoint/><geom type="box" size=".2 .1 .05" mass="2"/>{legs}</body>'
    bodies = trunk + _free("ball", 'size=".1"', 1.0, 'condim="6"')
    return Structure(scene, [_from_text(bodies, scene)], {"ball": 0.1}, reach=0.5)


def flail(scene: km.Scene) -> Structure:
    """A chain that hangs from the world, the end of which is tied to a box; a marble on a plank."""
    bone = '<geom type="capsule" size=".03" fromto="0 0 0 0 0 -.2" mass=".3"/>'
    link = f'<body pos="0 0 -.2"><joint type="ball" damping=".01"/>{bone}'
    end = '<body name="end" pos="0 0 -.2"><geom size=".03" mass=".2"/></body>'
    chain = f'<body pos="0 0 .9">{link}{link}{end}</body></body></body>'
    box = '<body name="box" pos="0 0 .2"><freejoint/><geom type="box" size=".1 .1 .05" mass="1"/></body>'
    plank = _free("plank", 'type="box" size=".4 .1 .01"', 2.0, at="1 0 .02")
    marble = _free("marble", 'size=".04"', 0.05, 'condim="4"', at="1.1 0 .08")
    tie = '<equality><connect body1="end" body2="box" anchor="0 0 0"/></equality>'
    return Structure(scene, [_from_text(chain + box + plank + marble, scene, tie)], spread=False)


def ground(scene: km.Scene) -> Structure:
    """Rough ground, with a ball, a bar and a box."""
    scene.add(geometry.rough_terrain((6.0, 6.0), 0.3, 0.15, seed=0))
    bodies = _free("ball", 'size=".1"', 1.0) + _free("bar", 'type="capsule" size=".05 .1"', 0.3)
    bodies += _free("box", 'type="box" size=".1 .08 .06"', 2.0)
    text = f"<mujoco><worldbody>{bodies}</worldbody></mujoco>"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scene.xml"
        file.write_text(text, encoding="utf-8")
        things = scene.add(file)
    return Structure(scene, [things], dict.fromkeys(("ball", "bar", "box"), 0.1))


def hollow(scene: km.Scene) -> Structure:
    """A cup with balls, and a nut on its bolt: distance fields."""
    scene.add(km.Plane())
    holder = scene.add(_field(cup(), 24), mass=0.2)
    balls = [scene.add(km.Sphere(radius=0.012), pos=(0.01 * i, 0.0, 0.03 + 0.026 * i)) for i in range(2)]
    screw = scene.add(_field(bolt(0.01, 0.003, 0.012, 4), 40), pos=(0.0, 0.5, 0.1), fixed=True)
    ring = scene.add(_field(nut(0.0108, 0.003, 0.012, 1, 0.018), 24), pos=(0.0, 0.5, 0.112))
    return Structure(scene, [holder, *balls, screw, ring], spread=False, speed=0.1)


def _field(triangles: tuple[np.ndarray, np.ndarray], resolution: int) -> km.Mesh:
    vertices, faces = triangles
    return km.Mesh(vertices=vertices, faces=faces, approximation="sdf", resolution=resolution)


STRUCTURES: dict[str, Callable[[km.Scene], Structure]] = {
    build.__name__: build for build in (apart, heap, tower, crawler, flail, ground, hollow)
}
