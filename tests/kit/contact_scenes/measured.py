"""What is measured of a scene beside its bound, and how scenes of things that touch are made."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import kinema as km

GRAVITY = 9.81
PER_ENV = ("gravity", "geom_friction", "geom_sol_params")
FLOOR = '<geom name="floor" type="plane" size="50 50 1"/>'
ROLLING_FLOOR = '<geom name="floor" type="plane" size="50 50 1" condim="6"/>'


@dataclass(frozen=True, slots=True)
class Measured:
    """A number of a scene, and how large, or how small, it may be."""

    what: str
    found: float
    bound: float
    at_least: bool = False
    unit: str = ""

    @property
    def ok(self) -> bool:
        """Whether it is; what is no number is not."""
        return self.found >= self.bound if self.at_least else self.found <= self.bound

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        return f"{self.what}: {self.found:.3g} {self.unit} ({sign} {self.bound:.3g})"


def largest(numbers: Any) -> float:
    """The largest magnitude; not a number where one is none."""
    return float(np.abs(numbers).max())


def scene_of(bodies: str, n_envs: int, option: str = "", **how: Any) -> tuple[km.Scene, Any]:
    """A floor, and some bodies on it."""
    per_env, rest = how.pop("per_env", ()), how.pop("rest", "")
    floor = how.pop("floor", ROLLING_FLOOR)
    text = f"<mujoco><option {option}/><worldbody>{floor}{bodies}</worldbody>{rest}</mujoco>"
    scene = km.Scene(quiet=True, codegen="loops", **how)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scene.xml"
        file.write_text(text, encoding="utf-8")
        things = scene.add(file)
        scene.build(n_envs=n_envs, per_env=per_env)
    return scene, things


def tilted(angle: Any, direction: Any = 0.0) -> np.ndarray:
    """Gravity as on a slope, (n, 3)."""
    angle, direction = np.broadcast_arrays(np.asarray(angle, float), np.asarray(direction, float))
    across = GRAVITY * np.sin(angle)
    return np.stack([across * np.cos(direction), across * np.sin(direction), -GRAVITY * np.cos(angle)], axis=-1)


def boxes(places: list[tuple[float, float, float]], half: str = ".1 .1 .1", mass: float = 1.0) -> str:
    """Free boxes."""
    shape = f'<geom type="box" size="{half}" mass="{mass}"/>'
    return "".join(f'<body pos="{x} {y} {z}"><freejoint/>{shape}</body>' for x, y, z in places)
