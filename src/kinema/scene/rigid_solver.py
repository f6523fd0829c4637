"""`scene.sim.rigid_solver`: the flat arrays of a scene by name, of shape (elements, n_envs, ...); docs/arrays.md.

Arrays of the engine are views of its memory, fields are computed by programs on the device, and all others on the host
from these. An array is computed, and its program compiled, when it is read. `declared_arrays` lists all arrays with
shape, type, unit and meaning.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from kinema.builder import EntitySpec
from kinema.core import quaternion_to_matrix
from kinema.dynamics import NAMESPACES, Engine, axis_names

from . import geom_arrays, visual_geom_arrays
from .built_scene import BuiltScene
from .contact_arrays import CONSTRAINT_ROWS, CONTACTS, ROW_ARRAYS, ContactArrays
from .flat_arrays import (
    ArrayDeclaration,
    ArrayGroup,
    ComputedArray,
    ConstantArray,
    cached_by_version,
    constant_group,
    declare,
)
from .geom_arrays import GeomTables, world_poses
from .sleep import AWAKE_ARRAYS, awake_array, links_asleep
from .visual_geom_arrays import VisualGeomTables

# ------------------------------------------------------------------------------------------------------ declarations

LINKS_INFO = declare(
    "n_links",
    ("parent_idx", (), "int32", "1", "parent link; -1 for the world"),
    ("q_start", (), "int32", "1", "first coordinate of the joints of the link in `qpos`"),
    ("q_end", (), "int32", "1", "end of the coordinates"),
    ("dof_start", (), "int32", "1", "first dof of the joints of the link"),
    ("dof_end", (), "int32", "1", "end of the dofs"),
    ("inertial_pos", (3,), "float64", "m", "centre of mass in the link"),
    ("inertial_quat", (4,), "float64", "1", "principal axes of inertia in the link"),
    ("inertial_mass", (), "float64", "kg", "mass, as built"),
    ("is_fixed", (), "bool", "1", "whether the link is fixed in the world"),
    ("entity_idx", (), "int32", "1", "entity of the link"),
    ("geom_start", (), "int32", "1", "first collision geom of the link in `geoms_info`"),
    ("geom_end", (), "int32", "1", "end of the geoms"),
)
SOLVER_ARRAYS = [
    *declare("n_qs", ("qpos", ("n_envs",), "float", "rad or m", "generalized coordinates of all entities")),
    *declare("n_dofs", ("qvel", ("n_envs",), "float", "rad/s or m/s", "generalized velocities of all entities")),
    *declare("n_qs", ("qpos0", ("n_envs",), "float64", "rad or m", "coordinates of the reference configuration")),
    *declare(
        "n_links", ("links_T", (4, 4), "float64", "m", "transforms from links to the world in that configuration")
    ),
    *declare("n_envs", ("gravity", (3,), "float", "m/s2", "acceleration of gravity")),
    *declare(
        "",
        ("substep_dt", (), "float64", "s", "time step"),
        ("iterations", (), "int32", "1", "maximum number of solver iterations"),
        ("tolerance", (), "float64", "1", "convergence tolerance of the solver"),
        ("noslip_iterations", (), "int32", "1", "maximum number of no-slip iterations; 0 for none"),
        ("noslip_tolerance", (), "float64", "1", "convergence tolerance of these: that of the solver"),
    ),
    *(
        array
        for item in ("dofs", "entities", "links")
        for array in (
            *declare("n_envs", (f"n_awake_{item}", (), "int32", "1", f"number of {item} that are awake")),
            *declare(
                f"n_{item} n_envs", (f"awake_{item}", (), "int32", "1", f"{item} that are awake, ascending; then -1")
            ),
        )
    ),
]
LINKS_STATE_ON_HOST = declare(
    "n_links n_envs",
    (
        "cfrc_ang",
        (3,),
        "float",
        "N m",
        "torque about root_COM that the parent, or a spatial tendon, exerts on the link (com-based; MuJoCo's cfrc_int)",
    ),
    ("cfrc_vel", (3,), "float", "N", "force that the parent, or a spatial tendon, exerts on the link"),
    ("contact_force", (3,), "float", "N", "sum of the contact forces on the link"),
)
"""Arrays of links that depend on the wrenches of contacts and equality constraints."""
HOST_ARRAYS = {"links_state": LINKS_STATE_ON_HOST, "constraints": CONSTRAINT_ROWS}
"""Arrays that are computed on the host, in groups whose other arrays are fields of the engine."""
HOST_GROUPS = {
    "geoms_state": geom_arrays.GEOMS_STATE,
    "verts_state": geom_arrays.VERTS_STATE,
    "broad_phase": geom_arrays.BROAD_PHASE,
    "vgeoms_state": visual_geom_arrays.VGEOMS_STATE,
    "contacts": CONTACTS,
}
"""Groups of arrays that are computed on the host when they are read."""
COLLISION_GROUPS = {
    "geoms_info": geom_arrays.GEOMS_INFO,
    "verts_info": geom_arrays.VERTS_INFO,
    "faces_info": geom_arrays.FACES_INFO,
    "edges_info": geom_arrays.EDGES_INFO,
    "sdf_info": geom_arrays.SDF_INFO,
    "support_info": geom_arrays.SUPPORT_INFO,
}
"""Groups of constant arrays of collision geoms: methods of `GeomTables`."""
VISUAL_GROUPS = {
    "vgeoms_info": visual_geom_arrays.VGEOMS_INFO,
    "vverts_info": visual_geom_arrays.VVERTS_INFO,
    "vfaces_info": visual_geom_arrays.VFACES_INFO,
}
"""Groups of constant arrays of visual geoms: methods of `VisualGeomTables`."""
GROUP_ORDER = (
    *("", "links_state", "links_info", "dofs_state", "geoms_state", "geoms_info", "verts_state", "verts_info"),
    *("faces_info", "edges_info", "sdf_info", "support_info", "contacts", "broad_phase", "constraints", "equalities"),
    *("couplings", "sensors", "system", "vgeoms_state", "vgeoms_info", "vverts_info", "vfaces_info"),
)
"""Groups in the order of docs/arrays.md."""


@cache
def declared_arrays() -> dict[str, list[tuple[ArrayDeclaration, str]]]:
    """All arrays by group ("" for arrays of the solver itself), each with its source.

    `view` is memory of the engine, `device` is computed by a program on the device of the scene, `host` is computed on
    the host from arrays of the device, and `constant` is a read-only array on the host.
    """
    result = {"": [(x, _source_of_solver_array(x)) for x in SOLVER_ARRAYS]}
    result |= {group: [(x, "host") for x in arrays] for group, arrays in HOST_GROUPS.items()}
    result |= {
        group: [(x, "constant") for x in arrays] for group, arrays in {**COLLISION_GROUPS, **VISUAL_GROUPS}.items()
    }
    result["links_info"] = [(x, "constant") for x in LINKS_INFO]
    for group, fields in NAMESPACES.items():
        if group in HOST_GROUPS:
            continue
        on_host = {x.name: x for x in HOST_ARRAYS.get(group, [])}
        for info in fields:
            declaration = ArrayDeclaration(info.name, axis_names(group, info), info.dtype, info.unit, info.meaning)
            source = "view" if info.group in ("state", "zeros") else "device"
            row = (on_host.pop(info.name), "host") if info.name in on_host else (declaration, source)
            result.setdefault(group, []).append(row)
        result[group] += [(x, "host") for x in on_host.values()]
    return {group: result[group] for group in GROUP_ORDER}


def _source_of_solver_array(info: ArrayDeclaration) -> str:
    if info.name in ("qpos", "qvel"):
        return "view"
    return "host" if "n_envs" in info.shape and info.name != "qpos0" else "constant"


def array_tables() -> list[str]:
    """Lines of the tables of all declared arrays in Markdown, one table for each group."""
    lines = list[str]()
    for group, arrays in declared_arrays().items():
        title = f"`{group}`" if group else "`rigid_solver`"
        lines += [
            f"### {title}",
            "",
            "| array | shape | type | unit | read from | meaning |",
            "|---|---|---|---|---|---|",
        ]
        for x, source in arrays:
            shape = f"({', '.join(map(str, x.shape))}{',' if len(x.shape) == 1 else ''})"
            cells = (f"`{x.name}`", shape, x.dtype, x.unit, source, x.meaning.replace("|", "\\|"))
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return lines


# ------------------------------------------------------------------------------------------------------ rigid solver

_MODEL_TABLES = {"links_info", "dofs_info", "joints_info", "frames_info"}


class RigidSolver:
    """Flat arrays of a scene, `scene.sim.rigid_solver`.

    Groups of arrays (`links_state`, `geoms_info`, ...) and the arrays of `SOLVER_ARRAYS` are attributes; other names
    are looked up in the model.
    """

    def __init__(self, built: BuiltScene, specs: Sequence[EntitySpec]) -> None:
        """Arrays of a built scene; `specs` are its entities, with the variant of the first environment."""
        self._set_built(built, specs)

    def _set_built(self, built: BuiltScene, specs: Sequence[EntitySpec]) -> None:
        """Use a newly built scene; the groups of arrays are created again when they are read."""
        self._built, self._specs = built, specs
        self._groups: dict[str, ArrayGroup] = {}
        self._geom_tables: GeomTables | None = None
        self._visual_tables: VisualGeomTables | None = None
        self._reference_transforms: np.ndarray | None = None
        engine = built.engine
        self._contacts = ContactArrays(built, lambda: self._geoms.row_of_model_geom)
        self._geoms_state = cached_by_version(engine, self._compute_geoms_state)
        self._broad_phase = cached_by_version(engine, self._compute_broad_phase)
        self._constraint_rows = cached_by_version(engine, self._contacts.constraint_rows)

    @property
    def _engine(self) -> Engine:
        return self._built.engine

    @property
    def n_envs(self) -> int:
        """Number of environments."""
        return self._engine.n_envs

    def __getattr__(self, name: str) -> Any:
        """Group of arrays, array of `SOLVER_ARRAYS`, table or value of the model, by name."""
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._groups:
            return self._groups[name]
        if name in _GROUPS:
            return self._groups.setdefault(name, self._make_group(name))
        if name in _SOLVER_NAMES:
            return self._solver_array(name)
        for owner in (self._engine.fields, self._engine.model):
            if hasattr(owner, name):
                return getattr(owner, name)
        raise AttributeError(f"there is no array {name!r} in the rigid solver")

    def __dir__(self) -> list[str]:
        """Attribute names including those resolved by `__getattr__`, for tab completion."""
        model = self._engine.model
        names = {*dir(self._engine.fields), *(name for name in dir(model) if getattr(model, name) is not None)}
        public = {name for name in names if not name.startswith("_")}
        return sorted({*super().__dir__(), *_GROUPS, *_SOLVER_NAMES, *public})

    # ---------------------------------------------------------------------------------------------------- groups

    def _make_group(self, name: str) -> ArrayGroup:
        """Make the array group `name` (such as `links_state`); its arrays are computed when they are read."""
        device = self._engine.device.name
        declarations = {**COLLISION_GROUPS, **VISUAL_GROUPS}.get(name)
        if declarations is not None:
            names = [*(["names"] if name.endswith("geoms_info") else []), *(x.name for x in declarations)]
            return constant_group(name, partial(self._geom_table, name), names, device)
        if name in _MODEL_TABLES:
            return constant_group(name, partial(self._model_table, name), self._model_table(name), device)
        names = [x.name for x, _ in declared_arrays()[name]]
        return ArrayGroup(name, names, lambda array: self._state_array(name, array))

    def _state_array(self, group: str, name: str) -> Any:
        """Array of a group that depends on the state: engine memory, a field, or a host array computed when read."""
        host: dict[str, Callable[[], np.ndarray]] = {
            "geoms_state": lambda: self._geoms_state()[name],
            "verts_state": lambda: self._geoms.verts_state(*(self._geoms_state()[x] for x in ("pos", "quat"))),
            "broad_phase": lambda: self._broad_phase()[name],
            "vgeoms_state": lambda: self._compute_vgeoms_state(name),
            "contacts": lambda: self._contacts.read(name),
        }
        if group in host:
            return self._computed(host[group])
        if group == "links_state" and name == "contact_force":
            return self._computed(self._contacts.link_forces)
        if self._engine.model.n_dofs and group == "links_state" and name in ("cfrc_ang", "cfrc_vel"):
            part = slice(0, 3) if name == "cfrc_ang" else slice(3, 6)
            return self._computed(lambda: self._contacts.parent_wrenches()[..., part])
        if self._contacts.exist and group == "constraints" and name in ROW_ARRAYS:
            return self._computed(lambda: self._read_rows(name))
        empty = self._empty_field(group, name)
        return getattr(getattr(self._engine.fields, group), name) if empty is None else self._computed(lambda: empty)

    def _computed(self, compute: Callable[[], np.ndarray]) -> ComputedArray:
        return ComputedArray(compute, self._engine.device.name)

    def _empty_field(self, group: str, name: str) -> np.ndarray | None:
        """Empty array for a field without elements in the scene, such as dofs; None for other fields."""
        model = self._engine.model
        sizes = {
            "links_state": model.n_links,
            "dofs_state": model.n_dofs,
            "constraints": model.n_dofs,
            "equalities": len(model.equalities.names),
            "couplings": len(model.couplings.names),
            "sensors": model.sensors.n_values,
        }
        of_rows = group == "constraints" and name in ROW_ARRAYS
        if sizes.get(group, 1) and (not of_rows or self._engine.fields.constraints_info.kinds):
            return None
        declaration = next(x for x, _ in declared_arrays()[group] if x.name == name)
        lengths = {"n_envs": self.n_envs, "n_dofs": model.n_dofs}
        shape = tuple(x if isinstance(x, int) else lengths.get(x, 0) for x in declaration.shape)
        return np.zeros(shape, self._built.arrays.dtype if declaration.dtype == "float" else declaration.dtype)

    # ----------------------------------------------------------------------------------------------------- arrays

    def _solver_array(self, name: str) -> Any:
        """Array of the solver itself (of no group), by its name in `SOLVER_ARRAYS`."""
        engine = self._engine
        settings = engine.settings
        if name in AWAKE_ARRAYS:
            return self._computed(lambda: awake_array(engine, name))
        if name in ("qpos", "qvel"):
            return engine.array_view("vel" if name == "qvel" else name)
        if name == "gravity":
            return self._computed(lambda: np.broadcast_to(engine.read_array("gravity").T, (engine.n_envs, 3)).copy())
        if name == "links_T":
            if self._reference_transforms is None:
                self._reference_transforms = _reference_transforms(engine)
            return ConstantArray.of(self._reference_transforms, engine.device.name)
        if name == "qpos0":
            columns = np.stack([variant.qpos0 for variant in engine.variants.models], axis=1)
            return ConstantArray.of(columns[:, engine.variants.variant_of_env], engine.device.name)
        scalars = {
            "substep_dt": np.float64(engine.dt),
            "iterations": np.int32(settings.iterations),
            "tolerance": np.float64(settings.tolerance),
            "noslip_iterations": np.int32(settings.noslip_iterations),
            "noslip_tolerance": np.float64(settings.tolerance),
        }
        return ConstantArray.of(scalars[name], engine.device.name)

    @property
    def _geoms(self) -> GeomTables:
        if self._geom_tables is None:
            self._geom_tables = GeomTables(self._engine.model, self._specs)
        return self._geom_tables

    @property
    def _visuals(self) -> VisualGeomTables:
        if self._visual_tables is None:
            self._visual_tables = VisualGeomTables(self._engine.model, self._specs)
        return self._visual_tables

    def _geom_range(self, side: int) -> np.ndarray:
        """First geom (`side` 0) or end of the geoms (1) of each link."""
        return self._geoms.link_ranges(self._engine.model.n_links)[side]

    def _geom_table(self, name: str) -> Mapping[str, Any]:
        """Arrays of a group of constants of collision geoms or visual geoms."""
        return getattr(self._visuals if name in VISUAL_GROUPS else self._geoms, name)()

    def _model_table(self, name: str) -> Mapping[str, Any]:
        """Columns of a model table by name (`dofs`, `links`, ...); ranges of geoms are computed when they are read."""
        fields, model = self._engine.fields, self._engine.model
        if name == "links_info":
            ranges = {x: partial(self._geom_range, i) for i, x in enumerate(("geom_start", "geom_end"))}
            return {**vars(fields.links_info), **ranges}
        if name == "dofs_info":
            return vars(fields.dofs_info)
        table = model.joints if name == "joints_info" else model.frames
        return {x.name: getattr(table, x.name) for x in dataclasses.fields(table)}

    def _link_poses(self) -> tuple[np.ndarray, np.ndarray]:
        """World positions and quaternions of all links, (n_links, n_envs, 3) and (n_links, n_envs, 4)."""
        n_links, n_envs, dtype = self._engine.model.n_links, self.n_envs, self._built.arrays.dtype
        if not n_links:
            return np.zeros((0, n_envs, 3), dtype), np.zeros((0, n_envs, 4), dtype)
        state = self._engine.fields.links_state
        return state.pos.numpy(), state.quat.numpy()

    def _compute_geoms_state(self) -> dict[str, np.ndarray]:
        return self._geoms.geoms_state(*self._link_poses(), links_asleep(self._engine, slice(None), None).T)

    def _compute_broad_phase(self) -> dict[str, np.ndarray]:
        state = self._geoms_state()
        return self._geoms.broad_phase(self._engine.model, state["aabb_min"], state["aabb_max"])

    def _compute_vgeoms_state(self, name: str) -> np.ndarray:
        visuals = self._visuals
        poses = world_poses(*self._link_poses(), visuals.link_idx, visuals.pos, visuals.quat)
        return poses[("pos", "quat").index(name)].astype(self._built.arrays.dtype)

    def _read_rows(self, name: str) -> np.ndarray:
        rows = self._constraint_rows()
        return self._contacts.delassus(rows) if name == "efc_AR" else rows[name]


_GROUPS = {*GROUP_ORDER[1:], *_MODEL_TABLES}
_SOLVER_NAMES = {x.name for x in SOLVER_ARRAYS}


def _reference_transforms(engine: Engine) -> np.ndarray:
    """Transforms from all links to the world at qpos0, (n_links, 4, 4)."""
    from kinema.dynamics import reference_link_poses  # imports what traces programs

    pos, quat = reference_link_poses(engine.model)
    result = np.zeros((len(pos), 4, 4))
    result[:, :3, :3] = [quaternion_to_matrix(q) for q in quat] if len(quat) else result[:, :3, :3]
    result[:, :3, 3], result[:, 3, 3] = pos, 1.0
    return result


class Sim:
    """Simulator of a scene: the engine and its flat arrays."""

    def __init__(self, built: BuiltScene, specs: Sequence[EntitySpec]) -> None:
        """Simulator of a built scene; `specs` as of `RigidSolver`."""
        self.engine = built.engine
        self.rigid_solver = RigidSolver(built, specs)

    def set_built(self, built: BuiltScene, specs: Sequence[EntitySpec]) -> None:
        """Replace the built scene after the scene was built again; references to `rigid_solver` stay valid."""
        self.engine = built.engine
        self.rigid_solver._set_built(built, specs)

    @property
    def time(self) -> float:
        """Simulated time since the scene was built, or all environments together were reset [s]."""
        return self.engine.sim_time
