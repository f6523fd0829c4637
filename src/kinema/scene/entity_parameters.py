"""Physical parameters of an entity: joint limits, dry friction, solref/solimp, geom friction and size, gains, masses.

Getters return the current values. Setters after build need the parameter in `scene.build(per_env=...)`, except for
parameters that are inputs of the program.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.core import KinemaError
from kinema.model import ABSENT_RADIUS

from .arguments import IndexArray, as_array, as_batch, one_of, parse_sol_params, resolve_envs, resolve_indices
from .arrays import SOL_PARAMS
from .entity_control import EntityControlMixin

# ------------------------------------------------------------------------------------ joint limits and dry friction


class EntityLimitsMixin(EntityControlMixin):
    """Part of `Entity`: joint limits, dry friction, and the soft-constraint parameters of both."""

    def get_dofs_limit(self, dofs_idx: Any = None, envs_idx: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper position limits of dofs [m, rad], infinite if there is none.

        0 and the greatest angle for a ball joint.

        Args:
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.

        Returns:
            Two arrays (n,); with `scene.build(per_env=("limit",))` (n_envs, n).
        """
        rows, built = self.info.dof_start + self._dof_indices(dofs_idx, "get_dofs_limit"), self._built_scene
        if "limit" in built.engine.settings.per_env and built.engine.settings.limits:
            envs = resolve_envs(envs_idx, built.n_envs)
            return built.arrays.read("lower", rows, envs), built.arrays.read("upper", rows, envs)
        dofs = built.model.dofs
        return dofs.lower[rows].copy(), dofs.upper[rows].copy()

    def set_dofs_limit(self, lower: Any, upper: Any, dofs_idx: Any = None, envs_idx: Any = None) -> None:
        """Set the position limits of dofs [m, rad]; after build only of dofs that had limits when the scene was built.

        After build needs `scene.build(per_env=("limit",))` unless the limits are inputs of the program, which all
        environments share.

        Args:
            lower: lower limits, (n,) or a scalar; with per_env also (n_envs, n); -inf for none.
            upper: upper limits, same shapes; inf for none.
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        label = "set_dofs_limit"
        dofs = self._dof_indices(dofs_idx, label)
        n_envs = 1 if self._info is None else self._n_selected_envs(envs_idx)
        low, high = (as_batch(x, n_envs, (len(dofs),), np.float64, label) for x in (lower, upper))
        if np.isnan(low).any() or np.isnan(high).any() or (low > high).any():
            raise KinemaError(f"{label}: expected lower limits <= upper limits, not {lower!r}, {upper!r}")
        if self._info is not None:
            info, rows = self._built_scene.model.dofs, self._info.dof_start + dofs
            unlimited = np.isinf(info.lower[rows]) & np.isinf(info.upper[rows])
            if unlimited.any() or not self._built_scene.engine.settings.limits:
                name = info.names[rows[int(np.argmax(unlimited))]]
                raise KinemaError(f'{label}: "{name}" was built without limits: set them before building')
            if "limit" not in self._built_scene.engine.settings.per_env:
                info.lower[rows], info.upper[rows] = low[0], high[0]
        self._set_dof_parameter("lower", low, dofs_idx, envs_idx)
        self._set_dof_parameter("upper", high, dofs_idx, envs_idx)

    def get_dofs_frictionloss(self, dofs_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Dry friction (frictionloss) of dofs [N, N m].

        Args:
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.

        Returns:
            Array (n,); with `scene.build(per_env=("frictionloss",))` (n_envs, n).
        """
        rows, built = self.info.dof_start + self._dof_indices(dofs_idx, "get_dofs_frictionloss"), self._built_scene
        if "frictionloss" in built.engine.settings.per_env and built.engine.settings.constraints:
            return built.arrays.read("frictionloss", rows, resolve_envs(envs_idx, built.n_envs))
        return built.model.dofs.frictionloss[rows].copy()

    def set_dofs_frictionloss(self, frictionloss: Any, dofs_idx: Any = None, envs_idx: Any = None) -> None:
        """Set the dry friction (frictionloss) of dofs [N, N m].

        Before build, or with `per_env=("frictionloss",)` of dofs that had nonzero dry friction when the scene was
        built.

        Args:
            frictionloss: friction >= 0, (n,) or a scalar; with per_env also (n_envs, n).
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        label = "set_dofs_frictionloss"
        if self._info is not None:
            dofs = self._built_scene.model.dofs
            rows = self._info.dof_start + self._dof_indices(dofs_idx, label)
            frictionless = dofs.frictionloss[rows] == 0.0
            if frictionless.any():
                name = dofs.names[rows[int(np.argmax(frictionless))]]
                raise KinemaError(f'{label}: "{name}" was built without dry friction: set some before building')
        self._set_dof_parameter("frictionloss", frictionloss, dofs_idx, envs_idx)

    def get_dofs_sol_params(self, dofs_idx: Any = None, envs_idx: Any = None, kind: str = "limit") -> np.ndarray:
        """Soft-constraint parameters of joint limits or dry friction: MuJoCo's solref (2) and solimp (5).

        Args:
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
            kind: `limit` (default) or `friction`.

        Returns:
            Array (n, 7); with `scene.build(per_env=("sol_params",))` (n_envs, n, 7).
        """
        kind = one_of(kind, "get_dofs_sol_params: kind", ("limit", "friction"))
        rows, built = self.info.dof_start + self._dof_indices(dofs_idx, "get_dofs_sol_params"), self._built_scene
        if "sol_params" not in built.engine.settings.per_env:
            parts = (getattr(built.model.dofs, f"{kind}_{name}")[rows] for name in ("solref", "solimp"))
            return np.concatenate(list(parts), axis=-1)
        return built.arrays.read_sol_params(kind, rows, resolve_envs(envs_idx, built.n_envs))

    def set_dofs_sol_params(self, params: Any, dofs_idx: Any = None, envs_idx: Any = None, kind: str = "limit") -> None:
        """Set the soft-constraint parameters solref (2) and solimp (5) of joint limits or dry friction.

        Needs `scene.build(per_env=("sol_params",))`. The last number, the power of the impedance, keeps its value at
        build.

        Args:
            params: seven numbers, (n, 7) or (n_envs, n, 7).
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
            kind: `limit` (default) or `friction`.
        """
        label = "set_dofs_sol_params"
        kind = one_of(kind, f"{label}: kind", ("limit", "friction"))
        rows, built = self.info.dof_start + self._dof_indices(dofs_idx, label), self._built_scene
        if "sol_params" not in built.engine.settings.per_env:
            raise KinemaError(
                f'{label}: the parameter is compiled into the program: use scene.build(per_env=("sol_params",))'
            )
        values = parse_sol_params(params, self._n_selected_envs(envs_idx), len(rows), label)
        built.arrays.write_sol_params(kind, rows, values, resolve_envs(envs_idx, built.n_envs))

    def _n_selected_envs(self, envs_idx: Any) -> int:
        envs = resolve_envs(envs_idx, self._built_scene.n_envs)
        return self._built_scene.n_envs if envs is None else len(envs)


# --------------------------------------------------------------------------------------------- geom parameters

MIN_FRICTION = 1e-5
"""Lower bound of friction coefficients set per environment: the solver divides by them."""
N_SIZE_VALUES = {"sphere": 1, "capsule": 2, "cylinder": 2, "cone": 2, "ellipsoid": 3, "box": 3}
"""Number of size values of each geom type."""


class EntityGeomsMixin(EntityLimitsMixin):
    """Part of `Entity`: friction, solref/solimp and sizes of collision geoms, in the order of `geom_names`."""

    @property
    def geom_names(self) -> list[str]:
        """Names of the geoms that can collide in this scene; convex pieces of one shape have the same name."""
        geoms = self._built_scene.model.geoms
        return [geoms.names[i] for i in self._all_geom_indices()]

    def get_geoms_friction(self, geoms_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Friction of geoms: sliding coefficient, torsional [m], rolling [m], (n_envs, n, 3).

        Args:
            geoms_idx: geoms by index, name, pattern, slice or mask, in the order of `geom_names`; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        geoms = self._geom_indices(geoms_idx, "get_geoms_friction")
        return self._geom_values("friction", envs_idx)[:, geoms][:, :, [0, 2, 3]]

    def set_geoms_friction(self, friction: Any, geoms_idx: Any = None, envs_idx: Any = None) -> None:
        """Set the friction of geoms, and recompute the friction of all geom pairs.

        Needs `build(per_env=("geom_friction",))`. A contact uses the larger friction of its two geoms, or that of the
        geom with higher priority; explicit pairs of a file keep their own friction. Values are raised to at least 1e-5.

        Args:
            friction: sliding coefficients (n_envs, n), or sliding, torsional [m] and rolling [m] (n_envs, n, 3);
                broadcast.
            geoms_idx: geoms by index, name, pattern, slice or mask, in the order of `geom_names`; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        label = "set_geoms_friction"
        geoms, envs = self._geoms_and_envs_to_set("geom_friction", geoms_idx, envs_idx, label)
        array = as_array(friction, np.float64, label)
        if not np.isfinite(array).all() or (array < 0.0).any():
            raise KinemaError(f"{label}: expected finite numbers that are not negative, not {friction!r}")
        values = self._geom_values("friction", None)
        columns = [0, 2, 3] if array.ndim == 3 else [0]
        new_values = _broadcast_geom_values(array, len(envs), len(geoms), len(columns), label)
        for k, column in enumerate(columns):
            for component in {0: (0, 1), 2: (2,), 3: (3, 4)}[column]:
                values[envs[:, None], geoms, component] = np.maximum(new_values[..., k], MIN_FRICTION)
        self._built_scene.geom_overrides["friction"] = values
        self._built_scene.arrays.write("pair_friction", slice(None), self._pair_friction(values[envs]), envs)

    def set_friction(self, friction: Any, envs_idx: Any = None) -> None:
        """Set the sliding friction of all geoms of the entity. Needs `scene.build(per_env=("geom_friction",))`.

        Args:
            friction: coefficient, a scalar or (n_envs, 1).
            envs_idx: environments by index, slice or mask; None for all.
        """
        self.set_geoms_friction(friction, None, envs_idx)

    def set_friction_ratio(self, ratio: Any, links_idx: Any = None, envs_idx: Any = None) -> None:
        """Set the sliding friction of the geoms of links to a multiple of its value at build time.

        Needs `scene.build(per_env=("geom_friction",))`.

        Args:
            ratio: factors, (n_envs, n_links), (n_links,) or a scalar.
            links_idx: links by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        label = "set_friction_ratio"
        links, geoms = self._link_indices(links_idx, label), self._all_geom_indices()
        envs = resolve_envs(envs_idx, self._built_scene.n_envs)
        nominal = self._geom_values_as_built("friction")[slice(None) if envs is None else envs][:, geoms, 0]
        ratios = as_batch(ratio, len(nominal), (len(links),), np.float64, label)
        link_of_geom = self._built_scene.model.geoms.link_idx[geoms] - self.info.link_start
        geoms_idx = np.flatnonzero(np.isin(link_of_geom, links))
        columns = [int(np.flatnonzero(links == link)[-1]) for link in link_of_geom[geoms_idx]]
        self.set_geoms_friction(nominal[:, geoms_idx] * ratios[:, columns], geoms_idx, envs_idx)

    def get_geoms_sol_params(self, geoms_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Contact parameters of geoms: MuJoCo's solref (2) and solimp (5), (n_envs, n, 7).

        Args:
            geoms_idx: geoms by index, name, pattern, slice or mask, in the order of `geom_names`; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        geoms = self._geom_indices(geoms_idx, "get_geoms_sol_params")
        return np.concatenate([self._geom_values(name, envs_idx)[:, geoms] for name, _ in SOL_PARAMS], axis=-1)

    def set_geoms_sol_params(self, params: Any, geoms_idx: Any = None, envs_idx: Any = None) -> None:
        """Set the contact parameters solref (2) and solimp (5) of geoms, and recompute those of all geom pairs.

        Needs `scene.build(per_env=("geom_sol_params",))`. The parameters of two geoms in contact are mixed as in MuJoCo
        (priority, solmix). The last number, the power of the impedance, keeps its value at build.

        Args:
            params: seven numbers, (n, 7) or (n_envs, n, 7).
            geoms_idx: geoms by index, name, pattern, slice or mask, in the order of `geom_names`; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        label = "set_geoms_sol_params"
        geoms, envs = self._geoms_and_envs_to_set("geom_sol_params", geoms_idx, envs_idx, label)
        values = np.broadcast_to(parse_sol_params(params, len(envs), len(geoms), label), (len(envs), len(geoms), 7))
        start = 0
        for name, width in SOL_PARAMS:
            all_values = self._geom_values(name, None)
            all_values[envs[:, None], geoms] = values[..., start : start + width]
            self._built_scene.geom_overrides[name] = all_values
            mixed = self._pair_sol_params(name, all_values[envs])
            self._built_scene.arrays.write(f"pair_{name}", slice(None), mixed, envs)
            start += width

    def get_geoms_size(self, geoms_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Sizes of geoms [m], (n_envs, n, 3), by type; unused components are zero.

        Sphere: radius; capsule, cylinder, cone: radius, half length; box: half extents; ellipsoid: semi-axes. If
        variants have different geoms, those absent in an environment have the size of another variant.

        Args:
            geoms_idx: geoms by index, name, pattern, slice or mask, in the order of `geom_names`; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        geoms = self._geom_indices(geoms_idx, "get_geoms_size")
        return self._geom_values("size", envs_idx)[:, geoms]

    def set_geoms_size(self, size: Any, geoms_idx: Any = None, envs_idx: Any = None) -> None:
        """Set the sizes of geoms [m] and their bounding sphere radii; masses and inertias are not changed.

        Needs `scene.build(per_env=("geom_size",))`. Raises `KinemaError` for planes, meshes and height fields.

        Args:
            size: sizes in the layout of `get_geoms_size`, (n_envs, n, 3) or broadcastable.
            geoms_idx: geoms by index, name, pattern, slice or mask, in the order of `geom_names`; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        label = "set_geoms_size"
        geoms, envs = self._geoms_and_envs_to_set("geom_size", geoms_idx, envs_idx, label)
        types = [self._built_scene.model.geoms.types[i] for i in geoms]
        values = _broadcast_geom_values(as_array(size, np.float64, label), len(envs), len(geoms), 3, label).copy()
        for k, geom_type in enumerate(types):
            if geom_type not in N_SIZE_VALUES:
                raise KinemaError(f"{label}: the size of a {geom_type} cannot be set")
            count = N_SIZE_VALUES[geom_type]
            if not np.isfinite(values[:, k, :count]).all() or (values[:, k, :count] <= 0.0).any():
                raise KinemaError(f"{label}: expected {count} positive numbers for a {geom_type}, not {values[0, k]}")
            values[:, k, count:] = 0.0
        arrays = self._built_scene.arrays
        arrays.write("geom_size", (3 * geoms[:, None] + np.arange(3)).ravel(), values.reshape(len(envs), -1), envs)
        radii = np.stack(
            [_bounding_sphere_radius(geom_type, values[:, k]) for k, geom_type in enumerate(types)], axis=1
        )
        radii = np.where(self._geom_values_as_built("radius")[envs][:, geoms] == ABSENT_RADIUS, ABSENT_RADIUS, radii)
        arrays.write("geom_radius", geoms, radii, envs)
        all_values = self._geom_values("size", None)
        all_values[envs[:, None], geoms] = values
        self._built_scene.geom_overrides["size"] = all_values

    # --------------------------------------------------------------------------------------------- geom helpers

    def _all_geom_indices(self) -> IndexArray:
        built = self._built_scene
        entity_idx = built.model.entities.index(self.info)
        return np.flatnonzero(built.model.geoms.entity_idx == entity_idx)

    def _geom_indices(self, geoms_idx: Any, label: str) -> IndexArray:
        names = self.geom_names
        return self._all_geom_indices()[resolve_indices(geoms_idx, names, f"{label}: geoms_idx", "shapes")]

    def _geoms_and_envs_to_set(
        self, parameter: str, geoms_idx: Any, envs_idx: Any, label: str
    ) -> tuple[IndexArray, IndexArray]:
        """Scene indices of the geoms and environments of a setter call; error if the parameter is not per-environment.

        Args:
            parameter: name in `build(per_env=...)`.
            geoms_idx: geoms within the entity; None for all.
            envs_idx: environments; None for all.
            label: name of the calling setter for error messages.
        """
        built = self._built_scene
        if not built.engine.settings.contacts:
            raise KinemaError(f"{label}: contacts are disabled in this scene")
        if parameter not in built.engine.settings.per_env:
            raise KinemaError(
                f'{label}: the parameter is compiled into the program: use scene.build(per_env=("{parameter}",)), or '
                f'scene.allow_per_env("{parameter}") now'
            )
        envs = resolve_envs(envs_idx, built.n_envs)
        return self._geom_indices(geoms_idx, label), np.arange(built.n_envs) if envs is None else envs

    def _geom_values(self, name: str, envs_idx: Any) -> np.ndarray:
        """Current values of parameter `name` of all geoms of the scene, a copy, (environments, n_geoms, components)."""
        built = self._built_scene
        values = built.geom_overrides.get(name)
        values = self._geom_values_as_built(name) if values is None else values
        envs = resolve_envs(envs_idx, built.n_envs)
        return np.array(values if envs is None else values[envs])

    def _geom_values_as_built(self, name: str) -> np.ndarray:
        """Parameter `name` of all geoms of the scene at build time, (n_envs, n_geoms, ...), by variant."""
        variants = self._built_scene.engine.variants
        return np.stack([getattr(model.geoms, name) for model in variants.models])[variants.variant_of_env]

    def _pair_friction(self, geom_friction: np.ndarray) -> np.ndarray:
        """Friction of all geom pairs, (environments, 5 n_pairs), from that of the geoms, (environments, n_geoms, 5).

        The larger friction of both geoms, that of the geom with higher priority, or the value of an explicit pair.
        """
        pairs = self._built_scene.model.pairs
        a, b = geom_friction[:, pairs.geom_a], geom_friction[:, pairs.geom_b]
        return _combine_pair_values(pairs.surface_source, a, b, np.maximum(a, b), pairs.friction)

    def _pair_sol_params(self, name: str, geom_values: np.ndarray) -> np.ndarray:
        """Contact parameter solref or solimp of all geom pairs, (environments, n_pairs * components), from geoms.

        Mean weighted by solmix, that of the geom with higher priority, or the value of an explicit pair. If a solref
        has the direct (non-positive) format, the componentwise minimum is used instead of the mean, as in MuJoCo.

        Args:
            name: `solref` or `solimp`.
            geom_values: values of geoms, (environments, n_geoms, components).
        """
        pairs = self._built_scene.model.pairs
        a, b, share = geom_values[:, pairs.geom_a], geom_values[:, pairs.geom_b], pairs.solmix_share[:, None]
        mean = share * a + (1.0 - share) * b
        if name == "solref":
            direct = (a[..., :1] <= 0.0) | (b[..., :1] <= 0.0)
            mean = np.where(direct, np.minimum(a, b), mean)
        return _combine_pair_values(pairs.surface_source, a, b, mean, getattr(pairs, name))


def _combine_pair_values(
    rule: np.ndarray, a: np.ndarray, b: np.ndarray, combined: np.ndarray, explicit: np.ndarray
) -> np.ndarray:
    """Select the value of each geom pair by its combination rule; flattened to (environments, n_pairs * components).

    Args:
        rule: source per pair, (n_pairs,): 0 geom a, 1 geom b, 2 explicit pair, other values the combination.
        a: values of the first geom, (environments, n_pairs, components).
        b: values of the second geom, same shape.
        combined: combination of both, same shape.
        explicit: values of the model's pairs, (n_pairs, components).
    """
    selected = np.select(
        [(rule == k)[:, None] for k in (0, 1, 2)], [a, b, np.broadcast_to(explicit, a.shape)], combined
    )
    return selected.reshape(len(a), -1)


def _broadcast_geom_values(values: np.ndarray, n_envs: int, n_geoms: int, width: int, label: str) -> np.ndarray:
    """Broadcast user values to (n_envs, n_geoms, width); for width 1 also from (n_envs, n_geoms) or (n_geoms,)."""
    target = (n_envs, n_geoms, width)
    array = values[..., None] if width == 1 and values.ndim < 3 else values
    try:
        return np.broadcast_to(array, target)
    except ValueError:
        raise KinemaError(f"{label}: expected values of shape {target[:2]} or {target}, not {values.shape}") from None


def _bounding_sphere_radius(geom_type: str, size: np.ndarray) -> np.ndarray:
    """Bounding sphere radius [m], (environments,), of a geom type for sizes (environments, 3)."""
    if geom_type in ("cylinder", "cone"):
        return np.hypot(size[:, 0], size[:, 1])
    if geom_type == "ellipsoid":
        return size.max(axis=1)
    return np.linalg.norm(size, axis=1) if geom_type == "box" else size[:, 0] + size[:, 1]


# ------------------------------------------------------------------------------- current dof and link parameters


class EntityParametersMixin(EntityGeomsMixin):
    """Part of `Entity`: getters of dof and link parameters.

    (n,), or (n_envs, n) if they differ between environments.
    """

    def get_dofs_kp(self, dofs_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Proportional gain kp of position control [N/m, N m/rad].

        Args:
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.

        Returns:
            Array (n,); (n_envs, n) if the parameter is per environment.
        """
        return self._get_dof_parameter("kp", dofs_idx, envs_idx)

    def get_dofs_kv(self, dofs_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Velocity gain kv of position and velocity control [N s/m, N m s/rad].

        Args:
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.

        Returns:
            Array (n,); (n_envs, n) if the parameter is per environment.
        """
        return self._get_dof_parameter("kv", dofs_idx, envs_idx)

    def get_dofs_force_range(self, dofs_idx: Any = None, envs_idx: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Least and greatest control force [N, N m].

        Args:
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.

        Returns:
            Lower and upper bounds, (n,) each; (n_envs, n) if they are per environment.
        """
        lower, upper = (self._get_dof_parameter(name, dofs_idx, envs_idx) for name in ("force_lower", "force_upper"))
        return lower, upper

    def get_dofs_armature(self, dofs_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Armature (rotor inertia) added to the diagonal of the mass matrix [kg, kg m2].

        Args:
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.

        Returns:
            Array (n,); (n_envs, n) if the parameter is per environment.
        """
        return self._get_dof_parameter("armature", dofs_idx, envs_idx)

    def get_dofs_damping(self, dofs_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Passive joint damping [N s/m, N m s/rad].

        Args:
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.

        Returns:
            Array (n,); (n_envs, n) if the parameter is per environment.
        """
        return self._get_dof_parameter("damping", dofs_idx, envs_idx)

    def get_dofs_stiffness(self, dofs_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Stiffness of passive joint springs [N/m, N m/rad].

        Args:
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.

        Returns:
            Array (n,); (n_envs, n) if the parameter is per environment.
        """
        return self._get_dof_parameter("stiffness", dofs_idx, envs_idx)

    def get_dofs_invweight(self, dofs_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Inverse weight of dofs in the initial configuration: inverse of the effective inertia [1/kg, 1/(kg m2)].

        Recomputed after masses, centres of mass or armatures were changed.

        Args:
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.

        Returns:
            Array (n,); (n_envs, n) after a change of masses, centres of mass or armatures per environment.
        """
        if self._info is not None:
            engine, rows = (
                self._built_scene.engine,
                self._info.dof_start + self._dof_indices(dofs_idx, "get_dofs_invweight"),
            )
            engine.update_derived_parameters()
            if engine.dof_invweight is not None:
                envs = resolve_envs(envs_idx, engine.n_envs)
                return np.array(engine.dof_invweight[rows].T if envs is None else engine.dof_invweight[rows][:, envs].T)
        return self._get_dof_parameter("invweight", dofs_idx, envs_idx)

    def set_dofs_stiffness(self, stiffness: Any, dofs_idx: Any = None) -> None:
        """Set the stiffness of passive joint springs [N/m, N m/rad]; only before build.

        Args:
            stiffness: (n,) or a scalar.
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
        """
        self._set_dof_parameter("stiffness", stiffness, dofs_idx, None)

    def _dof_parameter_as_built(self, name: str, envs: IndexArray | None = None) -> np.ndarray:
        """Dof parameter `name` of the entity at build time: (n_dofs,), or (environments, n_dofs) with variants.

        Before build: the value of the description with user settings applied. `envs` selects environments, None for
        all.
        """
        if self._info is not None:
            rows, variants = slice(self._info.dof_start, self._info.dof_end), self._built_scene.engine.variants
            if self._variants is None:
                return getattr(self._built_scene.model.dofs, name)[rows].copy()
            table = np.stack([getattr(model.dofs, name)[rows] for model in variants.models])
            return table[variants.variant_of_env if envs is None else variants.variant_of_env[envs]]
        values = getattr(self._entity_model.dofs, name).copy()
        for dof, value in self._dof_parameters.get(name, {}).items():
            values[dof] = value
        return values

    def _get_dof_parameter(self, name: str, dofs_idx: Any, envs_idx: Any) -> np.ndarray:
        """Current value of a dof parameter: of the description before build, of the model or the arrays after build.

        Args:
            name: field of `model.dofs` and name of the array.
            dofs_idx: dofs within the entity; None for all.
            envs_idx: environments; None for all.

        Returns:
            Array (n,); (environments, n) if the parameter is per environment.
        """
        dofs = self._dof_indices(dofs_idx, f"get_dofs_{name}")
        if self._info is None:
            return self._dof_parameter_as_built(name)[dofs]
        built, rows = self._built_scene, self._info.dof_start + dofs
        if not built.arrays.has(name):
            return np.array(getattr(built.model.dofs, name)[rows])
        if built.arrays.is_shared(name):
            return np.array(built.arrays.get(name)[rows, 0])
        return built.arrays.read(name, rows, resolve_envs(envs_idx, built.n_envs))

    def get_links_inertial_mass(self, links_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Masses of links [kg].

        Args:
            links_idx: links by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.

        Returns:
            Array (n_links,); (n_envs, n_links) with variants or `per_env=("mass_shift",)`.
        """
        links = self._link_indices(links_idx, "get_links_inertial_mass")
        if self._info is None or not (self._variants or self._built_scene.arrays.has("mass_shift")):
            return self._entity_model.links.inertial_mass[links].copy()
        built = self._built_scene
        envs = resolve_envs(envs_idx, built.n_envs)
        mass = self._link_parameter_as_built("inertial_mass", envs)[:, links]
        if not built.arrays.has("mass_shift"):
            return mass
        return mass + built.arrays.read("mass_shift", self._info.link_start + links, envs)

    def get_mass(self, envs_idx: Any = None) -> Any:
        """Total mass of all links [kg]: a scalar; (n_envs,) if masses differ between environments."""
        return self.get_links_inertial_mass(None, envs_idx).sum(axis=-1)

    def set_mass(self, mass: Any, envs_idx: Any = None) -> None:
        """Set the total mass [kg]; the masses and inertias of all links scale with the same factor.

        Needs `per_env=("mass_shift",)`.

        Args:
            mass: total mass [kg], a scalar or (n_envs,).
            envs_idx: environments by index, slice or mask; None for all.
        """
        nominal = self._link_parameter_as_built("inertial_mass", resolve_envs(envs_idx, self._built_scene.n_envs))
        targets = np.asarray(mass, np.float64).reshape(-1, 1)
        self.set_mass_shift(nominal * (targets / nominal.sum(axis=1, keepdims=True) - 1.0), None, envs_idx)
