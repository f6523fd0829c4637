"""`scene.sim.rigid_solver.links_state.pos`: the flat arrays, under the names of the array contract."""

from __future__ import annotations

from typing import Any

from kinema.foundation import KinemaError
from kinema.sim import Engine

from .awake import AWAKE, awake_list
from .field_arrays import field_arrays

_INFO = {"links_info": "links", "dofs_info": "dofs", "joints_info": "joints", "frames_info": "frames"}


class RigidSolver:
    """The arrays of all links and degrees of freedom: what the engine offers, and the model's tables."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def n_envs(self) -> int:
        """Environments."""
        return self._engine.n_envs

    @property
    def qpos(self) -> Any:
        """The coordinates of everything, (n_qs, n_envs)."""
        return self._engine.field("qpos")

    @property
    def qvel(self) -> Any:
        """The velocities of everything, (n_dofs, n_envs)."""
        return self._engine.field("vel")

    @property
    def sdf_info(self) -> Any:
        """The distance fields of all shapes: `T_mesh_to_sdf`, `sdf_res`, ..., `geoms_sdf_val` (docs/contacts.md)."""
        return field_arrays(self._engine.model.geoms)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        fields = getattr(self._engine, "fields", None)
        if fields is not None and hasattr(fields, name):
            return getattr(fields, name)
        if name in AWAKE:
            return awake_list(self._engine, name)
        if name in _INFO:
            return getattr(self._engine.model, _INFO[name])
        if hasattr(self._engine.model, name):
            return getattr(self._engine.model, name)
        raise AttributeError(f"there is no array {name!r} in the rigid solver")

    def __dir__(self) -> list[str]:
        """Also what is looked up on demand, for those who press the tab key."""
        fields, model = getattr(self._engine, "fields", None), self._engine.model
        found = {*dir(fields)} if fields is not None else set[str]()
        found |= {name for name in dir(model) if getattr(model, name) is not None}
        shown = {name for name in found if not name.startswith("_")}
        return sorted({*super().__dir__(), *_INFO, *AWAKE, *shown})


class Sim:
    """What runs the scene."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.rigid_solver = RigidSolver(engine)

    def now_run_by(self, engine: Engine) -> None:
        """Let another engine go on with the same scene."""
        self.engine = self.rigid_solver._engine = engine

    @property
    def time(self) -> float:
        """Simulated time since the scene was built [s]."""
        return self.engine.seconds


def not_built() -> KinemaError:
    """What to say to those who look too early."""
    return KinemaError("the scene is not built yet: call scene.build() first")
