"""Scenes of things that touch, whose environments differ in gravity and surfaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import kinema as km

GRAVITY = 9.81
PER_ENV = ("gravity", "geom_friction", "geom_sol_params")


def scene_of(folder: Path, bodies: str, n_envs: int, option: str = "", **how: Any) -> tuple[km.Scene, Any]:
    """A floor, and some bodies on it."""
    per_env = how.pop("per_env", ())
    floor = how.pop("floor", '<geom name="floor" type="plane" size="50 50 1" condim="6"/>')
    file = folder / "scene.xml"
    text = f"<mujoco><option {option}/><worldbody>{floor}{bodies}</worldbody></mujoco>"
    file.write_text(text, encoding="utf-8")
    scene = km.Scene(quiet=True, emission="rolled", **how)
    things = scene.add(file)
    scene.build(n_envs=n_envs, per_env=per_env)
    return scene, things


def tilted(angle: Any, direction: Any = 0.0) -> np.ndarray:
    """Gravity as on a slope, (n, 3)."""
    angle, direction = np.broadcast_arrays(np.asarray(angle, float), np.asarray(direction, float))
    across = GRAVITY * np.sin(angle)
    return np.stack([across * np.cos(direction), across * np.sin(direction), -GRAVITY * np.cos(angle)], axis=-1)
