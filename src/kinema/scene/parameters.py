"""What an entity is built with, as it is now: gains, rotors, dampers, springs, masses."""

from __future__ import annotations

from typing import Any

import numpy as np

from .batches import Index, environments
from .geoms import Geoms


class Parameters(Geoms):
    """The part of an entity that tells them. All are (n,), or (n_envs, n) where environments have their own."""

    def get_dofs_kp(self, dofs_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Stiffness of position control [N/m, N m/rad]."""
        return self._get_dofs("kp", dofs_idx, envs_idx)

    def get_dofs_kv(self, dofs_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Damping of position and velocity control [N s/m, N m s/rad]."""
        return self._get_dofs("kv", dofs_idx, envs_idx)

    def get_dofs_force_range(self, dofs_idx: Any = None, envs_idx: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """The least and greatest force of control [N, N m]."""
        lower, upper = (self._get_dofs(name, dofs_idx, envs_idx) for name in ("force_lower", "force_upper"))
        return lower, upper

    def get_dofs_armature(self, dofs_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Rotor inertia [kg, kg m2]."""
        return self._get_dofs("armature", dofs_idx, envs_idx)

    def get_dofs_damping(self, dofs_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Damping of the joints themselves [N s/m, N m s/rad]."""
        return self._get_dofs("damping", dofs_idx, envs_idx)

    def get_dofs_stiffness(self, dofs_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Stiffness of the springs in joints [N/m, N m/rad]."""
        return self._get_dofs("stiffness", dofs_idx, envs_idx)

    def get_dofs_invweight(self, dofs_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """The inverse of the inertia that moves each degree of freedom at the start [1/kg, 1/(kg m2)].

        Once masses, centres of mass or rotors were set for environments, (n_envs, n).
        """
        if self._info is not None:
            engine, own = self._running.engine, self._info.dof_start + self._dofs(dofs_idx, "get_dofs_invweight")
            engine.settle()
            if engine.invweight is not None:
                envs = environments(envs_idx, engine.n_envs)
                return np.array(engine.invweight[own].T if envs is None else engine.invweight[own][:, envs].T)
        return self._get_dofs("invweight", dofs_idx, envs_idx)

    def set_dofs_stiffness(self, stiffness: Any, dofs_idx: Any = None) -> None:
        """Stiffness of the springs in joints [N/m, N m/rad]; before building only."""
        self._set_dofs("stiffness", stiffness, dofs_idx, None)

    def _built(self, name: str, envs: Index | None = None) -> np.ndarray:
        """A parameter of its degrees of freedom as it was given: (n_dofs,), of variants (n_envs, n_dofs)."""
        if self._info is not None:
            own, variants = slice(self._info.dof_start, self._info.dof_end), self._running.engine.variants
            if self._mixed is None:
                return getattr(self._running.model.dofs, name)[own].copy()
            table = np.stack([getattr(model.dofs, name)[own] for model in variants.models])
            return table[variants.which if envs is None else variants.which[envs]]
        values = getattr(self._alone.dofs, name).copy()
        for dof, value in self._constants.get(name, {}).items():
            values[dof] = value
        return values

    def _get_dofs(self, name: str, dofs_idx: Any, envs_idx: Any) -> np.ndarray:
        own = self._dofs(dofs_idx, f"get_dofs_{name}")
        if self._info is None:
            return self._built(name)[own]
        running, rows = self._running, self._info.dof_start + own
        if not running.memory.has(name):
            return np.array(getattr(running.model.dofs, name)[rows])
        if running.memory.is_shared(name):
            return np.array(running.memory.all(name)[rows, 0])
        return running.memory.read(name, rows, environments(envs_idx, running.n_envs))

    def get_links_inertial_mass(self, links_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Masses of links [kg], (n_links,); where environments have their own, (n_envs, n_links)."""
        own = self._links(links_idx, "get_links_inertial_mass")
        if self._info is None or not (self._mixed or self._running.memory.has("mass_shift")):
            return self._alone.links.inertial_mass[own].copy()
        running = self._running
        envs = environments(envs_idx, running.n_envs)
        mass = self._built_links("inertial_mass", envs)[:, own]
        if not running.memory.has("mass_shift"):
            return mass
        return mass + running.memory.read("mass_shift", self._info.link_start + own, envs)

    def get_mass(self, envs_idx: Any = None) -> Any:
        """The mass of all links together [kg]: a number; where environments have their own, (n_envs,)."""
        return self.get_links_inertial_mass(None, envs_idx).sum(axis=-1)

    def set_mass(self, mass: Any, envs_idx: Any = None) -> None:
        """Make it so heavy as a whole [kg], all links in proportion; needs `per_env=("mass_shift",)`."""
        own = self._built_links("inertial_mass", environments(envs_idx, self._running.n_envs))
        given = np.asarray(mass, np.float64).reshape(-1, 1)
        self.set_mass_shift(own * (given / own.sum(axis=1, keepdims=True) - 1.0), None, envs_idx)
