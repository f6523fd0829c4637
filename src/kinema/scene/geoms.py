"""How the shapes of an entity touch: friction, hardness and sizes, which may differ between environments."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.foundation import KinemaError
from kinema.model import ABSENT

from .arguments import sol_params
from .batches import Index, as_array, batched, environments, items
from .memory import SOL_PARAMS
from .stops import Stops

LEAST_FRICTION = 1e-5
"""Directions without any friction would have no scale."""
SIZES = {"sphere": 1, "capsule": 2, "cylinder": 2, "cone": 2, "ellipsoid": 3, "box": 3}
"""How many numbers the size of each kind of shape is."""


class Geoms(Stops):
    """The part of an entity that touches: shapes that can touch anything at all, in the order of `geom_names`."""

    @property
    def geom_names(self) -> list[str]:
        """Shapes that can touch something in this scene; pieces of one shape have the same name."""
        geoms = self._running.model.geoms
        return [geoms.names[i] for i in self._own_geoms()]

    def get_geoms_friction(self, geoms_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Friction: sliding, spinning [m], rolling [m], (n_envs, n, 3)."""
        own = self._geoms(geoms_idx, "get_geoms_friction")
        return self._of_geoms("friction", envs_idx)[:, own][:, :, [0, 2, 3]]

    def set_geoms_friction(self, friction: Any, geoms_idx: Any = None, envs_idx: Any = None) -> None:
        """Friction of shapes, (n_envs, n) sliding or (n_envs, n, 3) with spinning and rolling [m] too.

        Needs `scene.build(per_env=("geom_friction",))`. Of two surfaces the rougher counts, or the one of higher
        priority; what an explicit pair of a file says stays.
        """
        what = "set_geoms_friction"
        own, envs = self._asked("geom_friction", geoms_idx, envs_idx, what)
        given = as_array(friction, np.float64, what)
        if not np.isfinite(given).all() or (given < 0.0).any():
            raise KinemaError(f"{what}: expected finite numbers that are not negative, not {friction!r}")
        values = self._of_geoms("friction", None)
        columns = [0, 2, 3] if given.ndim == 3 else [0]
        chosen = _shaped(given, len(envs), len(own), len(columns), what)
        for k, column in enumerate(columns):
            for twin in {0: (0, 1), 2: (2,), 3: (3, 4)}[column]:
                values[envs[:, None], own, twin] = np.maximum(chosen[..., k], LEAST_FRICTION)
        self._running.of_geoms["friction"] = values
        self._running.memory.write("pair_friction", slice(None), self._mixed_friction(values[envs]), envs)

    def set_friction(self, friction: Any, envs_idx: Any = None) -> None:
        """Sliding friction of all of its shapes, one number or (n_envs, 1); see `set_geoms_friction`."""
        self.set_geoms_friction(friction, None, envs_idx)

    def set_friction_ratio(self, ratio: Any, links_idx: Any = None, envs_idx: Any = None) -> None:
        """Sliding friction of links, as it was built, times this, (n_envs, n_links); see `set_geoms_friction`."""
        what = "set_friction_ratio"
        links, geoms = self._links(links_idx, what), self._own_geoms()
        envs = environments(envs_idx, self._running.n_envs)
        built = self._built_geoms("friction")[slice(None) if envs is None else envs][:, geoms, 0]
        given = batched(ratio, len(built), (len(links),), np.float64, what)
        of_link = self._running.model.geoms.link_idx[geoms] - self.info.link_start
        chosen = np.flatnonzero(np.isin(of_link, links))
        number = [int(np.flatnonzero(links == link)[-1]) for link in of_link[chosen]]
        self.set_geoms_friction(built[:, chosen] * given[:, number], chosen, envs_idx)

    def get_geoms_sol_params(self, geoms_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """How hard the surfaces of shapes are: MuJoCo's `solref` and `solimp`, (n_envs, n, 7)."""
        own = self._geoms(geoms_idx, "get_geoms_sol_params")
        return np.concatenate([self._of_geoms(name, envs_idx)[:, own] for name, _ in SOL_PARAMS], axis=-1)

    def set_geoms_sol_params(self, params: Any, geoms_idx: Any = None, envs_idx: Any = None) -> None:
        """How hard they are: seven numbers, (n_envs, n, 7); needs `scene.build(per_env=("geom_sol_params",))`.

        Two surfaces are mixed as files say. The power of the impedance, the last number, stays as it was built.
        """
        what = "set_geoms_sol_params"
        own, envs = self._asked("geom_sol_params", geoms_idx, envs_idx, what)
        values = np.broadcast_to(sol_params(params, len(envs), len(own), what), (len(envs), len(own), 7))
        start = 0
        for name, width in SOL_PARAMS:
            every = self._of_geoms(name, None)
            every[envs[:, None], own] = values[..., start : start + width]
            self._running.of_geoms[name] = every
            mixed = self._mixed_hardness(name, every[envs])
            self._running.memory.write(f"pair_{name}", slice(None), mixed, envs)
            start += width

    def get_geoms_size(self, geoms_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Sizes by kind [m], (n_envs, n, 3): radius; radius and half length; half extents; half axes; rest zero.

        Of variants of different kinds, shapes that an environment has not got tell those of others.
        """
        own = self._geoms(geoms_idx, "get_geoms_size")
        return self._of_geoms("size", envs_idx)[:, own]

    def set_geoms_size(self, size: Any, geoms_idx: Any = None, envs_idx: Any = None) -> None:
        """Sizes of shapes [m], as `get_geoms_size` has them; needs `scene.build(per_env=("geom_size",))`.

        Masses and inertias stay as they are.
        """
        what = "set_geoms_size"
        own, envs = self._asked("geom_size", geoms_idx, envs_idx, what)
        kinds = [self._running.model.geoms.kinds[i] for i in own]
        values = _shaped(as_array(size, np.float64, what), len(envs), len(own), 3, what).copy()
        for k, kind in enumerate(kinds):
            if kind not in SIZES:
                raise KinemaError(f"{what}: a {kind} has no size that could be set")
            count = SIZES[kind]
            if not np.isfinite(values[:, k, :count]).all() or (values[:, k, :count] <= 0.0).any():
                raise KinemaError(f"{what}: expected {count} positive numbers for a {kind}, not {values[0, k]}")
            values[:, k, count:] = 0.0
        memory = self._running.memory
        memory.write("geom_size", (3 * own[:, None] + np.arange(3)).ravel(), values.reshape(len(envs), -1), envs)
        radii = np.stack([_radius(kind, values[:, k]) for k, kind in enumerate(kinds)], axis=1)
        radii = np.where(self._built_geoms("radius")[envs][:, own] == ABSENT, ABSENT, radii)
        memory.write("geom_radius", own, radii, envs)
        every = self._of_geoms("size", None)
        every[envs[:, None], own] = values
        self._running.of_geoms["size"] = every

    # ------------------------------------------------------------------------------------------------------- inside

    def _own_geoms(self) -> Index:
        running = self._running
        mine = running.model.entities.index(self.info)
        return np.flatnonzero(running.model.geoms.entity_idx == mine)

    def _geoms(self, geoms_idx: Any, what: str) -> Index:
        names = self.geom_names
        return self._own_geoms()[items(geoms_idx, names, f"{what}: geoms_idx", "shapes")]

    def _asked(self, parameter: str, geoms_idx: Any, envs_idx: Any, what: str) -> tuple[Index, Index]:
        running = self._running
        if not running.engine.settings.contacts:
            raise KinemaError(f"{what}: nothing touches in this scene")
        if parameter not in running.engine.settings.per_env:
            raise KinemaError(
                f'{what}: this is compiled into the program: use scene.build(per_env=("{parameter}",)), or '
                f'scene.allow_per_env("{parameter}") now'
            )
        envs = environments(envs_idx, running.n_envs)
        return self._geoms(geoms_idx, what), np.arange(running.n_envs) if envs is None else envs

    def _of_geoms(self, name: str, envs_idx: Any) -> np.ndarray:
        """A parameter of all shapes of the scene, (n_envs, n_geoms, numbers): a copy."""
        running = self._running
        kept = running.of_geoms.get(name)
        kept = self._built_geoms(name) if kept is None else kept
        envs = environments(envs_idx, running.n_envs)
        return np.array(kept if envs is None else kept[envs])

    def _built_geoms(self, name: str) -> np.ndarray:
        """The same as environments were built, (n_envs, n_geoms, ...)."""
        variants = self._running.engine.variants
        return np.stack([getattr(model.geoms, name) for model in variants.models])[variants.which]

    def _mixed_friction(self, values: np.ndarray) -> np.ndarray:
        """Of all pairs, (n_envs, pairs of 5 numbers), from those of shapes."""
        pairs = self._running.model.pairs
        a, b = values[:, pairs.geom_a], values[:, pairs.geom_b]
        return _decided(pairs.decides, a, b, np.maximum(a, b), pairs.friction)

    def _mixed_hardness(self, name: str, values: np.ndarray) -> np.ndarray:
        pairs = self._running.model.pairs
        a, b, share = values[:, pairs.geom_a], values[:, pairs.geom_b], pairs.share[:, None]
        mean = share * a + (1.0 - share) * b
        if name == "solref":
            direct = (a[..., :1] <= 0.0) | (b[..., :1] <= 0.0)
            mean = np.where(direct, np.minimum(a, b), mean)
        return _decided(pairs.decides, a, b, mean, getattr(pairs, name))


def _decided(who: np.ndarray, a: np.ndarray, b: np.ndarray, both: np.ndarray, itself: np.ndarray) -> np.ndarray:
    """What counts of each pair, flat."""
    chosen = np.select([(who == k)[:, None] for k in (0, 1, 2)], [a, b, np.broadcast_to(itself, a.shape)], both)
    return chosen.reshape(len(a), -1)


def _shaped(given: np.ndarray, n_envs: int, count: int, width: int, what: str) -> np.ndarray:
    """Numbers for (environments, shapes, width), from any of the forms that are understood."""
    target = (n_envs, count, width)
    whole = given[..., None] if width == 1 and given.ndim < 3 else given
    try:
        return np.broadcast_to(whole, target)
    except ValueError:
        raise KinemaError(f"{what}: expected values of shape {target[:2]} or {target}, not {given.shape}") from None


def _radius(kind: str, size: np.ndarray) -> np.ndarray:
    """Of a sphere around shapes of these sizes."""
    if kind in ("cylinder", "cone"):
        return np.hypot(size[:, 0], size[:, 1])
    if kind == "ellipsoid":
        return size.max(axis=1)
    return np.linalg.norm(size, axis=1) if kind == "box" else size[:, 0] + size[:, 1]
