"""Experiments for identification: an arm driven by torques, and a cube that is tossed and pushed."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import kinema as km

Array = np.ndarray
ARM = Path(__file__).parent / "robots" / "arm" / "arm.urdf"
CUBE = """<mujoco><option timestep="0.0025" cone="elliptic"/><default><geom solref="0.04 1"/></default>
<worldbody><geom type="plane" size="9 9 1" friction="0.3"/>
<body name="cube" pos="0 0 0.3"><joint name="free" type="free" damping="1.5"/>
<geom name="cube" type="box" size="0.05 0.05 0.05" mass="0.6" friction="0.5"/></body></worldbody></mujoco>"""


@dataclass
class Experiments:
    """Experiments with a system, an environment each, and what is unknown of it."""

    scene: km.Scene
    state: dict[str, Array]
    """Initial `qpos` and `qvel`, known."""
    forces: Array
    """Known forces on the dofs, (n_controls, n_envs, n_dofs), for 10 ms each."""
    hold: int
    """Steps for which each force acts."""
    values: dict[str, Array]
    """Guesses of the parameters, as `kinema.gradients.rollout` takes them."""
    unknown: list[tuple[str, str, list[int]]]
    """Name of a factor, parameter, and indices of the values that it multiplies, in the flat array."""


def arm_experiments(n_envs: int = 16, n_controls: int = 25) -> Experiments:
    """An arm in different postures, with random torques: masses of three links, damping and friction of the joints."""
    scene = km.Scene(dt=0.005, precision="double", contacts=False, quiet=True)
    arm = scene.add(ARM, fixed=True)
    scene.build(n_envs)
    rng = np.random.default_rng(1)
    q, v = np.full((n_envs, 8), 0.02), np.zeros((n_envs, 8))
    q[:, :6], v[:, :6] = rng.uniform(-1.0, 1.0, (n_envs, 6)), rng.uniform(-1.5, 1.5, (n_envs, 6))
    arm.set_qpos(q)
    torques = rng.normal(size=(4, n_envs, 6)) * [10.0, 15.0, 8.0, 2.0, 1.5, 0.7]
    knots = np.linspace(0.0, 3.0, n_controls)
    k = np.minimum(knots.astype(int), 2)
    share = (knots - k)[:, None, None]
    forces = np.repeat(arm.get_dofs_bias_force()[None], n_controls, axis=0)
    forces[:, :, :6] += (1.0 - share) * torques[k] + share * torques[k + 1]
    values = {
        "mass": arm.get_links_inertial_mass(),
        "damping": arm.get_dofs_damping(),
        "frictionloss": arm.get_dofs_frictionloss(),
    }
    names = [link.name for link in arm.links]
    unknown = [(f"mass {x}", "mass", [names.index(x)]) for x in ("upper_arm_link", "forearm_link", "hand_link")]
    unknown += [(f"{name} {i + 1}", name, [i]) for name in ("damping", "frictionloss") for i in range(6)]
    return Experiments(scene, {"qpos": q, "qvel": v}, forces, 2, values, unknown)


def cube_experiments(n_envs: int = 16, n_controls: int = 80) -> Experiments:
    """A cube that is tossed onto a floor and pushed while it slides: mass, friction and damping by the air."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cube.xml"
        path.write_text(CUBE)
        scene = km.Scene(precision="double", quiet=True)
        scene.add(path)
    scene.build(n_envs)
    rng = np.random.default_rng(2)
    q, v = np.tile([0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0], (n_envs, 1)), rng.uniform(-4.0, 4.0, (n_envs, 6))
    v[:, 2], v[:, 3:] = 0.3, 0.15 * v[:, 3:]
    forces = np.zeros((n_controls, n_envs, 6))
    forces[30:60, :, :2] = rng.uniform(-8.0, 8.0, (n_envs, 2))
    friction = np.array([[0.3, 0.005, 1e-4], [0.5, 0.005, 1e-4]])
    values = {"mass": np.array([0.6]), "damping": np.full(6, 1.5), "geom_friction": friction}
    unknown = [("mass", "mass", [0]), ("friction", "geom_friction", [3]), ("damping", "damping", [0, 1, 2])]
    return Experiments(scene, {"qpos": q, "qvel": v}, forces, 4, values, unknown)
