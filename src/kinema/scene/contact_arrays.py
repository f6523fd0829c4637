"""Arrays of contacts, compacted per environment, and of constraint rows, those of contacts included.

Contact rows follow MuJoCo: one row of a frictionless contact, condim rows of an elliptic cone, 2 (condim - 1) edges of
a pyramid. They are computed on the host from the contact fields and motion subspaces of the engine.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kinema.dynamics import Engine, tree_index_of_frames
from kinema.model import Model, PairsInfo

from .arrays import SOL_PARAMS
from .built_scene import BuiltScene
from .flat_arrays import declare

CONTACTS = [
    *declare(
        "max_contacts n_envs",
        ("geom_a", (), "int32", "1", "first geom, in `geoms_info`; -1 in rows without contact"),
        ("geom_b", (), "int32", "1", "second geom"),
        ("link_a", (), "int32", "1", "link of the first geom; -1 for the world and in rows without contact"),
        ("link_b", (), "int32", "1", "link of the second geom"),
        ("normal", (3,), "float", "1", "contact normal from the first geom to the second"),
        ("pos", (3,), "float", "m", "contact point, midway between the surfaces"),
        ("penetration", (), "float", "m", "penetration depth; negative if the geoms are separated (within the margin)"),
        ("friction", (), "float", "1", "sliding friction coefficient of the pair of geoms"),
        (
            "sol_params",
            (7,),
            "float",
            "mixed",
            "solref (time constant [s], damping ratio) and solimp of the pair of geoms",
        ),
        ("force", (3,), "float", "N", "contact force on the second geom; the first gets the opposite force"),
    ),
    *declare("n_envs", ("n_contacts", (), "int32", "1", "number of contacts: the first rows of the environment")),
    *declare(
        "max_contacts n_envs",
        ("active", (), "bool", "1", "whether the row has a contact"),
        ("pair", (), "int32", "1", "pair of geoms, row of `pairs`; -1 in rows without contact"),
        (
            "frame",
            (3, 3),
            "float",
            "1",
            "contact frame: normal from the first geom to the second and two tangents, as rows",
        ),
        ("efc_D", (), "float", "1", "constraint stiffness along the normal; of a pyramidal cone along each edge"),
        (
            "efc_aref",
            (6,),
            "float",
            "m/s2",
            "reference acceleration in each direction, rotations last; 0 beyond condim",
        ),
        (
            "row_scales",
            (6,),
            "float",
            "1 or m",
            "friction coefficients of the directions; of the normal 1, or regularised",
        ),
        (
            "efc_vel",
            (6,),
            "float",
            "m/s or rad/s",
            "velocity of b relative to a along the axes of the frame, then about them, with surface velocities",
        ),
        ("efc_force", (6,), "float", "N or N m", "contact force along the axes of the frame, then torque about them"),
    ),
]
"""Rows of an environment with contacts come first, in the order in which the contacts are stored; others are zero."""
CONSTRAINT_ROWS = [
    *declare(
        "n_constraints",
        ("jac", ("n_dofs", "n_envs"), "float", "1 or m", "constraint Jacobian J"),
    ),
    *declare(
        "n_constraints n_envs",
        ("efc_pos", (), "float", "rad or m", "constraint residual; of limits and contacts the distance"),
        ("efc_vel", (), "float", "rad/s or m/s", "constraint velocity J vel; of contacts with surface velocities"),
        ("efc_D", (), "float", "kg m2 or kg", "constraint stiffness D; 0 for inactive rows"),
        ("efc_aref", (), "float", "rad/s2 or m/s2", "reference acceleration"),
        ("efc_b", (), "float", "rad/s2 or m/s2", "J qacc_smooth - efc_aref"),
        ("efc_force", (), "float", "N m or N", "constraint force along the row (Lagrange multiplier)"),
        ("quad", (), "float", "N2/kg", "cost of the row at the solution; of an elliptic cone in its first row"),
    ),
    *declare(
        "n_constraints",
        (
            "efc_AR",
            ("n_constraints", "n_envs"),
            "float",
            "1/(kg m2) or 1/kg",
            "regularised Delassus matrix J M^-1 J^T + diag(1 / efc_D)",
        ),
    ),
]
"""Rows of equalities, dry friction and limits have fixed indices; those of contacts follow, and zeros after the last
contact of an environment."""
ROW_ARRAYS = tuple(x.name for x in CONSTRAINT_ROWS)
_ENGINE_NAMES = {"pos": "position"}


class ContactArrays:
    """Contacts of all environments in the current state, compacted, and their constraint rows."""

    def __init__(self, built: BuiltScene, geom_of_model_geom: Callable[[], np.ndarray]) -> None:
        """Contacts of a built scene; `geom_of_model_geom` returns the geom in `geoms_info` of each model geom."""
        self._built = built
        self._geom_of_model_geom = geom_of_model_geom

    @property
    def _engine(self) -> Engine:
        return self._built.engine

    @property
    def _model(self) -> Model:
        return self._built.engine.model

    @property
    def exist(self) -> bool:
        """Whether contacts are simulated and any pair of geoms can collide."""
        return self._engine.settings.contacts and self._model.may_collide and self._model.n_dofs > 0

    def entries(self) -> tuple[np.ndarray, np.ndarray]:
        """Entries of the contact buffers, active contacts first, and the active mask, (max_contacts, n_envs)."""
        active = np.asarray(self._engine.fields.contacts.active.numpy()) > 0.5
        order = np.argsort(~active, axis=0, kind="stable")
        return order, np.take_along_axis(active, order, axis=0)

    def compacted(self, name: str, order: np.ndarray, active: np.ndarray) -> np.ndarray:
        """Engine field of the contacts in the order of `entries`; zeros in rows without contact."""
        values = np.asarray(getattr(self._engine.fields.contacts, name).numpy())
        trailing = (1,) * (values.ndim - 2)
        values = np.take_along_axis(values, order.reshape(*order.shape, *trailing), axis=0)
        return np.where(active.reshape(*active.shape, *trailing), values, values.dtype.type(0))

    def read(self, name: str) -> np.ndarray:
        """One array of `CONTACTS` for the current state."""
        info = next(x for x in CONTACTS if x.name == name)
        dtype = self._built.arrays.dtype if info.dtype == "float" else np.dtype(info.dtype)
        n_envs = self._built.n_envs
        if not self.exist:
            element = tuple(int(n) for n in info.shape[2:])
            return np.zeros((n_envs,), dtype) if name == "n_contacts" else np.zeros((0, n_envs, *element), dtype)
        order, active = self.entries()
        if name == "active":
            return active
        if name == "n_contacts":
            return active.sum(axis=0, dtype=np.int32)
        if name not in ("geom_a", "geom_b", "link_a", "link_b", "friction", "sol_params", "pair"):
            return self.compacted(_ENGINE_NAMES.get(name, name), order, active).astype(dtype)
        pair = self._pairs(order, active)
        if name == "pair":
            return pair
        geoms = self._model.geoms
        if name in ("friction", "sol_params"):
            values = self.pair_parameters(name)[pair, np.arange(n_envs)]
            return np.where(active.reshape(*active.shape, *(1,) * (values.ndim - 2)), values, 0.0).astype(dtype)
        rows = self._geoms(order, active)[0 if name.endswith("a") else 1]
        values = self._geom_of_model_geom()[rows] if name.startswith("geom") else geoms.link_idx[rows]
        return np.where(active, values, -1).astype(np.int32)

    @property
    def _pair_table(self) -> PairsInfo:
        """Table of the contact parameters of pairs of geoms, or of the rows of rules of collision."""
        return self._model.pair_rules.parameters if self._model.has_pair_rules else self._model.pairs

    def _geoms(self, order: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First and second geom of the model of each contact in the order of `entries`; of other rows any."""
        if self._model.has_pair_rules:
            both = self.compacted("geoms", order, active).astype(np.int64)
            return both[..., 0], both[..., 1]
        pair = self._pairs(order, active)
        return self._model.pairs.geom_a[pair], self._model.pairs.geom_b[pair]

    def _pairs(self, order: np.ndarray, active: np.ndarray) -> np.ndarray:
        """Row of `_pair_table` of each contact in the order of `entries`; -1 in rows without contact."""
        if not self._model.has_pair_rules:
            return np.where(active, self.compacted("pair", order, active), -1.0).astype(np.int32)
        rules, (a, b) = self._model.pair_rules, self._geoms(order, active)
        rows = rules.row_of_classes[rules.class_of_geom[a], rules.class_of_geom[b]]
        for first, second, row in rules.explicit.tolist():
            rows[(np.minimum(a, b) == first) & (np.maximum(a, b) == second)] = row
        return np.where(active, rows, -1).astype(np.int32)

    def pair_parameters(self, name: str) -> np.ndarray:
        """Sliding friction (n_pairs, n_envs) or solref and solimp (n_pairs, n_envs, 7) of all pairs of geoms."""
        parts = [self._pair_values(*part) for part in ([("friction", 5)] if name == "friction" else SOL_PARAMS)]
        return parts[0][..., 0] if name == "friction" else np.concatenate(parts, axis=-1)

    def _pair_values(self, name: str, width: int) -> np.ndarray:
        """Parameter of all pairs of geoms, (n_pairs, n_envs, width), with values set per environment."""
        arrays, n_envs = self._built.arrays, self._built.n_envs
        if arrays.has(f"pair_{name}"):
            return np.moveaxis(arrays.get(f"pair_{name}").reshape(-1, width, n_envs), 1, 2)
        values = getattr(self._pair_table, name)
        return np.broadcast_to(values[:, None], (len(values), n_envs, width))

    def link_forces(self) -> np.ndarray:
        """Sum of the contact forces on each link [N], (n_links, n_envs, 3)."""
        return self._link_wrenches()[..., 3:]

    def _link_wrenches(self) -> np.ndarray:
        """Sum of the contact wrenches on each link about `root_COM`: torque [N m], force [N], (n_links, n_envs, 6)."""
        total = np.zeros((self._model.n_links, self._built.n_envs, 6), self._built.arrays.dtype)
        if not self.exist:
            return total
        force, pos = self.read("force"), self.read("pos")
        torque = np.einsum("ceij,cei->cej", self.read("frame"), self.read("efc_force")[..., 3:])
        root_com = self._engine.fields.links_state.root_COM.numpy()
        for side, sign in (("link_a", -1.0), ("link_b", 1.0)):
            links = self.read(side)
            row, env = np.nonzero(links >= 0)
            link = links[row, env]
            about_com = torque[row, env] + np.cross(pos[row, env] - root_com[link, env], force[row, env])
            np.add.at(total, (link, env), sign * np.concatenate([about_com, force[row, env]], axis=1))
        return total

    def parent_wrenches(self) -> np.ndarray:
        """Wrench that the parent exerts on each link about `root_COM`: torque [N m], force [N], (n_links, n_envs, 6).

        The wrench that the subtree of the link needs for its motion, minus the wrenches of contacts and equality
        constraints on the subtree.
        """
        state, parents = self._engine.fields.links_state, self._model.links.parent_idx
        external, depth = self._link_wrenches() + self._equality_wrenches(), np.zeros(len(parents), np.int64)
        ancestors = parents.copy()
        while (ancestors >= 0).any():
            depth += ancestors >= 0
            ancestors = np.where(ancestors >= 0, parents[ancestors], -1)
        for link in np.argsort(-depth, kind="stable"):
            if parents[link] >= 0:
                external[parents[link]] += external[link]
        return np.concatenate([state.cfrc_ang.numpy(), state.cfrc_vel.numpy()], axis=2) - external

    def _equality_wrenches(self) -> np.ndarray:
        """Sum of the wrenches of equality constraints on each link about `root_COM`, (n_links, n_envs, 6)."""
        fields, equalities = self._engine.fields, self._model.equalities
        total = np.zeros((self._model.n_links, self._built.n_envs, 6), self._built.arrays.dtype)
        if not (self._engine.settings.constraints and len(equalities.names)):
            return total
        root_com, point = fields.links_state.root_COM.numpy(), fields.equalities.wrench_point.numpy()
        for links, wrenches in (
            (equalities.link_a, fields.equalities.wrench_a),
            (equalities.link_b, fields.equalities.wrench_b),
        ):
            rows = np.flatnonzero(links >= 0)
            torque, force = np.split(wrenches.numpy()[rows], 2, axis=2)
            torque = torque + np.cross(point[rows] - root_com[links[rows]], force)
            np.add.at(total, links[rows], np.concatenate([torque, force], axis=2))
        return total

    # -------------------------------------------------------------------------------------------- constraint rows

    def constraint_rows(self) -> dict[str, np.ndarray]:
        """Arrays of all constraint rows (Jacobian, aref, D, force ...) by name but `efc_AR`; contact rows last."""
        fixed = self._fixed_rows()
        order, active = self.entries()
        contact, env = np.nonzero(active)
        condim = self._pair_table.condim[self.read("pair")[contact, env]]
        n_rows = np.where((condim == 1) | self._model.options.elliptic, condim, 2 * (condim - 1))
        counts = np.zeros(active.shape, np.int64)
        counts[contact, env] = n_rows
        first = len(fixed["efc_D"]) + (np.cumsum(counts, axis=0) - counts)[contact, env]
        padding = int(counts.sum(axis=0).max(initial=0))
        result = {
            name: np.concatenate([values, np.zeros((padding, *values.shape[1:]), values.dtype)])
            for name, values in fixed.items()
        }
        spatial = self._contact_jacobians(order, active)
        for dim in np.unique(condim):
            chosen = np.flatnonzero(condim == dim)
            for j, row in enumerate(self._rows_of_contacts(spatial, order, active, chosen, int(dim))):
                for name, values in row.items():
                    if name == "jac":
                        result[name][first[chosen] + j, :, env[chosen]] = values
                    else:
                        result[name][first[chosen] + j, env[chosen]] = values
        return result

    def _fixed_rows(self) -> dict[str, np.ndarray]:
        """Arrays of the constraint rows of the engine, without contacts; none if the model has no such rows."""
        names, n_envs, fields = (
            [name for name in ROW_ARRAYS if name != "efc_AR"],
            self._built.n_envs,
            self._engine.fields,
        )
        if fields.constraints_info.kinds:
            return {name: np.asarray(getattr(fields.constraints, name).numpy()) for name in names}
        shapes = {name: (0, self._model.n_dofs, n_envs) if name == "jac" else (0, n_envs) for name in names}
        return {name: np.zeros(shape, self._built.arrays.dtype) for name, shape in shapes.items()}

    def _contact_jacobians(self, order: np.ndarray, active: np.ndarray) -> np.ndarray:
        """Jacobians of all contacts, (n, 6, n_dofs): velocity of b relative to a along the axes of the contact frame.

        Rows are the linear velocity along normal and tangents, then the angular velocity about them.
        """
        model, fields = self._model, self._engine.fields
        contact, env = np.nonzero(active)
        frame_a, frame_b = (model.geoms.frame_idx[x[contact, env]] for x in self._geoms(order, active))
        moves = _dofs_that_move_frames(model)
        sign = moves[frame_b].astype(np.float64) - moves[frame_a]
        root_com = np.asarray(fields.links_state.root_COM.numpy(), np.float64)[_link_of_dof_tree(model)]
        angular, linear = (
            np.asarray(x.numpy(), np.float64) for x in (fields.dofs_state.cdof_ang, fields.dofs_state.cdof_vel)
        )
        point = self.compacted("position", order, active)[contact, env].astype(np.float64)
        angular, linear, root_com = (np.moveaxis(x[:, env], 1, 0) for x in (angular, linear, root_com))
        linear = linear + np.cross(angular, point[:, None] - root_com)
        frame = self.compacted("frame", order, active)[contact, env].astype(np.float64)
        return np.concatenate([np.einsum("nij,ndj,nd->nid", frame, axes, sign) for axes in (linear, angular)], axis=1)

    def _rows_of_contacts(
        self, spatial: np.ndarray, order: np.ndarray, active: np.ndarray, chosen: np.ndarray, condim: int
    ) -> list[dict[str, np.ndarray]]:
        """Constraint rows of some contacts of equal contact dimension: for each row, arrays over the contacts by name.

        Args:
            spatial: Jacobians of all contacts, (n, 6, n_dofs).
            order: entries of the contacts (`entries`).
            active: mask of the contacts.
            chosen: indices of the contacts among all n.
            condim: their contact dimension.
        """
        contact, env = (x[chosen] for x in np.nonzero(active))
        stiffness, depth, *vectors = (
            self.compacted(name, order, active)[contact, env].astype(np.float64)
            for name in ("efc_D", "penetration", "efc_aref", "efc_vel", "row_scales", "efc_force")
        )
        arefs, velocities, factors, axis_forces = (list(x.T[:condim]) for x in vectors)
        jacobians = [spatial[chosen, k] for k in range(condim)]
        elliptic = self._model.options.elliptic and condim > 1
        distances = [-depth, *[np.zeros_like(depth)] * (condim - 1)]
        if condim > 1 and not elliptic:
            edges = [(k, edge * factors[k]) for k in range(1, condim) for edge in (1.0, -1.0)]
            arefs, velocities = ([x[0] + factor * x[k] for k, factor in edges] for x in (arefs, velocities))
            jacobians = [jacobians[0] + factor[:, None] * jacobians[k] for k, factor in edges]
            distances = [-depth] * len(edges)
        qacc, qacc_smooth = (x[:, env].T for x in self._accelerations())
        residuals = [(jac * qacc).sum(axis=1) - a for jac, a in zip(jacobians, arefs, strict=True)]
        if elliptic:
            weights = [stiffness * (factor / factors[0]) ** 2 for factor in factors]
            forces, costs = axis_forces, _elliptic_costs(residuals, stiffness, factors)
        else:
            weights = [stiffness] * len(residuals)
            forces = [-stiffness * np.minimum(residual, 0.0) for residual in residuals]
            if self._engine.settings.noslip_iterations:
                forces = _edge_forces(axis_forces, factors)
            costs = [0.5 * stiffness * np.minimum(residual, 0.0) ** 2 for residual in residuals]
        return [
            {
                "jac": jac,
                "efc_pos": distance,
                "efc_vel": velocity,
                "efc_D": weight,
                "efc_aref": reference,
                "efc_b": (jac * qacc_smooth).sum(axis=1) - reference,
                "efc_force": force,
                "quad": cost,
            }
            for jac, distance, velocity, weight, reference, force, cost in zip(
                jacobians, distances, velocities, weights, arefs, forces, costs, strict=True
            )
        ]

    def _accelerations(self) -> tuple[np.ndarray, np.ndarray]:
        """Acceleration, and acceleration without constraints, of all dofs, (n_dofs, n_envs) each."""
        fields = self._engine.fields.constraints
        qacc, inertial, constraint = (
            np.asarray(x.numpy(), np.float64) for x in (fields.qacc, fields.Ma, fields.qfrc_constraint)
        )
        return qacc, np.linalg.solve(self._mass_matrices(), (inertial - constraint).T[..., None])[..., 0].T

    def _mass_matrices(self) -> np.ndarray:
        """Mass matrices, (n_envs, n_dofs, n_dofs)."""
        return np.moveaxis(np.asarray(self._engine.fields.constraints.mass_mat.numpy(), np.float64), 2, 0)

    def delassus(self, rows: dict[str, np.ndarray]) -> np.ndarray:
        """Regularised Delassus matrix `efc_AR` of constraint rows, (n_constraints, n_constraints, n_envs)."""
        jac = np.moveaxis(rows["jac"].astype(np.float64), 2, 0)
        result = jac @ np.linalg.solve(self._mass_matrices(), np.swapaxes(jac, 1, 2))
        stiffness = rows["efc_D"].T.astype(np.float64)
        index = np.arange(stiffness.shape[1])
        result[:, index, index] += np.where(stiffness > 0.0, 1.0 / np.where(stiffness > 0.0, stiffness, 1.0), 0.0)
        return np.moveaxis(result, 0, 2).astype(rows["jac"].dtype)


def _edge_forces(axis_forces: list[np.ndarray], factors: list[np.ndarray]) -> list[np.ndarray]:
    """Forces along the edges of pyramids that sum up to given contact forces; the normal force without friction.

    The edges N + s t and N - s t of each friction direction differ by its force; the normal force that this leaves is
    divided equally among all directions. No-slip iterations determine only the sums.

    Args:
        axis_forces: force along the normal and in the friction directions, (condim, n).
        factors: friction coefficient of each direction, after a 1 for the normal.
    """
    normal, *friction = axis_forces
    if not friction:
        return [normal]
    differences = [force / factor for force, factor in zip(friction, factors[1:], strict=True)]
    remainder = (normal - sum(np.abs(x) for x in differences)) / len(differences)
    return [0.5 * (remainder + np.abs(x) + edge * x) for x in differences for edge in (1.0, -1.0)]


def _elliptic_costs(residuals: list[np.ndarray], stiffness: np.ndarray, factors: list[np.ndarray]) -> list[np.ndarray]:
    """Constraint costs of elliptic contacts, by row: the cost of a contact is in its first row, all others are zero.

    Args:
        residuals: J qacc - aref of each row.
        stiffness: constraint stiffness along the normal.
        factors: scales of the rows, by which all rows get equal stiffness; the scale of the normal is the regularised
            friction coefficient mu.
    """
    mu, scaled = factors[0], [factor * residual for factor, residual in zip(factors, residuals, strict=True)]
    common = stiffness / mu**2
    slip = np.sqrt(sum(x * x for x in scaled[1:]))
    distance = np.minimum(scaled[0] - mu * slip, 0.0)  # negative where the contact exerts a force
    sticking, sliding = common * sum(x * x for x in scaled), common / (1.0 + mu**2) * distance**2
    cost = 0.5 * np.where(mu * scaled[0] + slip < 0.0, sticking, sliding)
    return [cost, *[np.zeros_like(cost)] * (len(residuals) - 1)]


def _dofs_that_move_frames(model: Model) -> np.ndarray:
    """Whether each dof moves each frame, bool (n_frames + 1, n_dofs); the last row is the world."""
    result = np.zeros((model.n_frames + 1, model.n_dofs), np.bool_)
    for frame, parent in enumerate(model.frames.parent_idx):
        result[frame] = result[parent]
        result[frame, model.frame_dof_range(frame)] = True
    return result


def _link_of_dof_tree(model: Model) -> np.ndarray:
    """A link in the kinematic tree of each dof, (n_dofs,)."""
    trees = np.array([*tree_index_of_frames(model), -1])
    link_of_tree = {int(trees[frame]): link for link, frame in enumerate(model.links.frame_idx)}
    return np.array([link_of_tree[int(trees[frame])] for frame in model.dofs.frame_idx], np.int64)
