"""An arm of six hinges with all that dynamics knows of joints, for MuJoCo and for us."""

from __future__ import annotations

from typing import Any

import numpy as np

from kit.mujoco_models import quiet

ARM = """<mujoco><compiler autolimits="true"/><option gravity="0.3 -0.2 -9.7"><flag contact="disable"/></option>
<worldbody>
<body name="base" pos="0.1 -0.2 0.3" euler="0 0 20"><geom size=".1" mass="3"/>
<body name="a" pos="0 0 .2"><joint name="j1" axis="0 0 1" range="-170 170" armature=".1"/>
 <geom type="capsule" size=".04" fromto="0 0 0 0 0 .3" mass="2"/>
<body name="b" pos="0 .05 .3"><joint name="j2" axis="0 1 0" range="-110 110" damping="1.5"/>
 <geom type="capsule" size=".04" fromto="0 0 0 .05 0 .35" mass="1.5"/>
<body name="c" pos=".05 0 .35"><joint name="j3" axis="0 1 0" range="-150 30" stiffness="4" springref="-20"/>
 <geom type="capsule" size=".03" fromto="0 0 0 0 .02 .15" mass="1"/>
<body name="d" pos="0 .02 .15" gravcomp="0.6"><joint name="j4" axis="0 0 1" range="-175 175"/>
 <geom type="capsule" size=".03" fromto="0 0 0 0 0 .15" mass=".8"/>
<body name="e" pos="0 0 .15"><joint name="j5" axis="0 1 0" range="-115 115" armature=".02"/>
 <geom type="capsule" size=".02" fromto="0 0 0 0 0 .08" mass=".4"/>
<body name="hand" pos="0 0 .08" euler="10 20 30"><joint name="j6" axis="0 0 1" range="-180 180"/>
 <geom type="box" size=".03 .05 .02" mass=".3"/>
</body></body></body></body></body></body></body></worldbody></mujoco>"""


class Judge:
    """MuJoCo, for one set of coordinates after the other."""

    def __init__(self) -> None:
        import mujoco

        self.mujoco: Any = mujoco
        with quiet():
            self.model = mujoco.MjModel.from_xml_string(ARM)
        self.data = mujoco.MjData(self.model)
        self.lower, self.upper = self.model.jnt_range.T.copy()

    def at(self, q: np.ndarray, v: np.ndarray | None = None, a: np.ndarray | None = None) -> Any:
        """Everything about a state."""
        self.data.qpos[:], self.data.qvel[:] = q, 0.0 if v is None else v
        self.mujoco.mj_forward(self.model, self.data)
        if a is not None:
            self.data.qacc[:] = a
            self.mujoco.mj_inverse(self.model, self.data)
        return self.data

    def jacobian(self, body: str) -> np.ndarray:
        found = np.zeros((6, self.model.nv))
        self.mujoco.mj_jacBody(self.model, self.data, found[:3], found[3:], self.model.body(body).id)
        return found

    def pose(self, q: np.ndarray, body: str) -> tuple[np.ndarray, np.ndarray]:
        data = self.at(q)
        number = self.model.body(body).id
        return data.xpos[number].copy(), data.xquat[number].copy()

    def drawn(self, n: int, seed: int = 0) -> np.ndarray:
        """Coordinates within the limits."""
        return np.random.default_rng(seed).uniform(self.lower, self.upper, (n, self.model.nq))


def off(pos: np.ndarray, quat: np.ndarray, other_pos: np.ndarray, other_quat: np.ndarray) -> tuple[float, float]:
    """How far two poses are apart [m, rad]."""
    turn = 2.0 * np.arccos(np.clip(abs(quat @ other_quat), 0.0, 1.0))
    return float(np.linalg.norm(pos - other_pos)), float(turn)
