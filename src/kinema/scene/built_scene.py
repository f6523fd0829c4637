"""The built scene (model, engine, arrays, controls) and `scene.sim.rigid_solver`, the flat arrays of the simulation.

`RigidSolver` exposes the arrays under the names of the array contract (`links_state.pos`, `dofs_info`, `awake_dofs`,
`sdf_info`); they have shape (items, n_envs, ...).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np

from kinema.core import KinemaError
from kinema.dynamics import Engine, contact_capacity, may_lose_contacts
from kinema.model import GeomsInfo, Model

from .arrays import OutputConverter, SceneArrays
from .control import DofControl
from .sleep import AWAKE_ARRAYS, awake_array

# ------------------------------------------------------------------------------------- signed distance fields


def sdf_arrays(geoms: GeomsInfo) -> SimpleNamespace:
    """Signed distance fields of all geoms as flat arrays: one row per geom (zeros if none), grid nodes concatenated.

    Returns:
        A namespace with per-geom arrays `T_mesh_to_sdf` (n, 4, 4), transform from the geom frame [m] to grid indices;
            `sdf_res` (n, 3), number of grid nodes along each axis; `sdf_cell_size` (n,) and `sdf_max` (n,), largest
            absolute distance [m]; `sdf_cell_start` (n,), first node of the geom in the node arrays; and per-node arrays
            `geoms_sdf_val` (nodes,) [m], `geoms_sdf_grad` (nodes, 3) and `geoms_sdf_closest_vert` (nodes,).
    """
    count = len(geoms.names)
    sdfs = geoms.sdfs or [None] * count
    present = [f for f in sdfs if f is not None]
    sizes = [0 if f is None else len(f.values) for f in sdfs]
    maps = np.zeros((count, 4, 4))
    for i, sdf in enumerate(sdfs):
        if sdf is not None:
            maps[i] = np.eye(4)
            maps[i, :3, :3] /= sdf.cell_size
            maps[i, :3, 3] = -sdf.origin / sdf.cell_size
    return SimpleNamespace(
        T_mesh_to_sdf=maps,
        sdf_res=np.array([(0, 0, 0) if f is None else f.n_nodes for f in sdfs], np.int32).reshape(count, 3),
        sdf_cell_size=np.array([0.0 if f is None else f.cell_size for f in sdfs]),
        sdf_max=np.array([0.0 if f is None else np.abs(f.values).max() for f in sdfs]),
        sdf_cell_start=(np.cumsum(sizes) - sizes).astype(np.int32),
        geoms_sdf_val=np.concatenate([np.zeros(0), *(f.values for f in present)]),
        geoms_sdf_grad=np.concatenate([np.zeros((0, 3)), *(f.gradients for f in present)]),
        geoms_sdf_closest_vert=np.concatenate([np.zeros(0, np.int64), *(f.closest_vertices for f in present)]),
    )


# ---------------------------------------------------------------------------------------------- flat arrays

_MODEL_TABLES = {"links_info": "links", "dofs_info": "dofs", "joints_info": "joints", "frames_info": "frames"}


class RigidSolver:
    """Flat arrays of all links and dofs of a scene, `scene.sim.rigid_solver`.

    Attributes are looked up in the query fields of the engine (`links_state`, `dofs_state`, ...), the arrays of awake
    items (`AWAKE_ARRAYS`), the model tables (`links_info`, `dofs_info`, `joints_info`, `frames_info`) and the model, in
    this order.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def n_envs(self) -> int:
        """Number of environments."""
        return self._engine.n_envs

    @property
    def qpos(self) -> Any:
        """Generalized coordinates of all entities, (n_qs, n_envs)."""
        return self._engine.array_view("qpos")

    @property
    def qvel(self) -> Any:
        """Generalized velocities of all entities, (n_dofs, n_envs)."""
        return self._engine.array_view("vel")

    @property
    def sdf_info(self) -> Any:
        """Signed distance fields of all geoms: `T_mesh_to_sdf`, `sdf_res`, ..., `geoms_sdf_val` (docs/contacts.md)."""
        return sdf_arrays(self._engine.model.geoms)

    def __getattr__(self, name: str) -> Any:
        """Array by name from the query fields, the arrays of awake items, the model tables or the model."""
        if name.startswith("_"):
            raise AttributeError(name)
        fields = getattr(self._engine, "fields", None)
        if fields is not None and hasattr(fields, name):
            return getattr(fields, name)
        if name in AWAKE_ARRAYS:
            return awake_array(self._engine, name)
        if name in _MODEL_TABLES:
            return getattr(self._engine.model, _MODEL_TABLES[name])
        if hasattr(self._engine.model, name):
            return getattr(self._engine.model, name)
        raise AttributeError(f"there is no array {name!r} in the rigid solver")

    def __dir__(self) -> list[str]:
        """Attribute names including those resolved by `__getattr__`, for tab completion."""
        fields, model = getattr(self._engine, "fields", None), self._engine.model
        names = {*dir(fields)} if fields is not None else set[str]()
        names |= {name for name in dir(model) if getattr(model, name) is not None}
        public = {name for name in names if not name.startswith("_")}
        return sorted({*super().__dir__(), *_MODEL_TABLES, *AWAKE_ARRAYS, *public})


class Sim:
    """Simulator of a scene: the engine and its flat arrays."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.rigid_solver = RigidSolver(engine)

    def set_engine(self, engine: Engine) -> None:
        """Replace the engine after the scene was built again; references to `rigid_solver` stay valid."""
        self.engine = self.rigid_solver._engine = engine

    @property
    def time(self) -> float:
        """Simulated time since the scene was built, or all environments together were reset [s]."""
        return self.engine.sim_time


def not_built_error() -> KinemaError:
    """Exception for access to a scene that is not built yet."""
    return KinemaError("the scene is not built yet: call scene.build() first")


# ---------------------------------------------------------------------------------------------- built scene


@dataclass(slots=True, eq=False)
class BuiltScene:
    """Everything that exists once a scene is built: model, engine, arrays, dof control and output conversion."""

    engine: Engine
    arrays: SceneArrays
    controls: DofControl
    outputs: OutputConverter
    model_key: str
    """Digest of models, precision and settings; states are compatible if it is equal."""
    disabled_equalities: list[tuple[str, np.ndarray]]
    """Names and parameters (7,) of the equality constraints that their file disables and the program leaves out."""
    geom_overrides: dict[str, np.ndarray] = field(default_factory=dict)
    """Geom parameters set per environment by parameter name (friction, solref, solimp, size), (n_envs, n_geoms,
    components)."""
    reset_tensors: dict[tuple[object, int], list[tuple[Any, Any]]] = field(default_factory=dict)
    """Cache of `reset_on_gpu`: pairs of target tensor and initial values, by keyframe and version of the control
    modes."""
    _contact_capacities: dict[int | None, tuple[int, bool]] = field(default_factory=dict)

    @property
    def model(self) -> Model:
        """Model of the first variant combination, with derived constants."""
        return self.engine.model

    @property
    def n_envs(self) -> int:
        """Number of environments."""
        return self.engine.n_envs

    @property
    def contacts_may_overflow(self) -> bool:
        """Whether the number of contacts can exceed the capacity of the contact buffers."""
        return self._contact_capacity[1]

    @property
    def contact_capacity(self) -> int:
        """Contact capacity per pair of bodies, or per environment if each is solved by one warp (GPU)."""
        return self._contact_capacity[0]

    @property
    def _contact_capacity(self) -> tuple[int, bool]:
        requested, settings = self.model.derived.max_contacts_per_frame_pair, self.engine.settings
        if requested not in self._contact_capacities:
            loses = settings.contacts and may_lose_contacts(self.model, use_warps=settings.use_warps)
            self._contact_capacities[requested] = contact_capacity(self.model, use_warps=settings.use_warps), loses
        return self._contact_capacities[requested]


class HasBuiltScene(Protocol):
    """Interface of `Scene` for its components, which look up the built scene at each use: it may be built again."""

    @property
    def built(self) -> BuiltScene:
        """The built scene; raises `KinemaError` before `build`."""
        ...

    @property
    def is_built(self) -> bool:
        """Whether `build` was called."""
        ...
