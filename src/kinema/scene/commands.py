"""What an entity is told: targets, forces, and the parameters that it is built with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from kinema.foundation import KinemaError
from kinema.model import EntityInfo, Model
from kinema.sim import PARAMETERS, Control

from .arguments import parameter
from .batches import Index, batched, environments, items
from .mixing import Mixed
from .running import Running

_CONSTANTS = (
    "kp",
    "kv",
    "armature",
    "damping",
    "force_lower",
    "force_upper",
    "lower",
    "upper",
    "frictionloss",
    "stiffness",
)
"""Parameters of degrees of freedom that may be set before building."""


_CALLED = {"force_lower": "force_range", "force_upper": "force_range", "lower": "limit", "upper": "limit"}
"""What sets them, where that is called otherwise."""
ASKED_AS = {"lower": "limit", "upper": "limit"}
"""What makes them differ between environments, where that is called otherwise."""


class Commands(ABC):
    """The half of an entity that acts."""

    name: str
    _alone: Model
    _mixed: Mixed | None
    _constants: dict[str, dict[int, float]]
    _info: EntityInfo | None
    _all_pulled: tuple[Index, Index] | None = None

    @property
    @abstractmethod
    def info(self) -> EntityInfo:
        """Its place in the scene's arrays."""

    @property
    @abstractmethod
    def _running(self) -> Running: ...

    @abstractmethod
    def _dofs(self, dofs_idx: Any, what: str) -> Index: ...

    @abstractmethod
    def _links(self, links_idx: Any, what: str) -> Index: ...

    # ------------------------------------------------------------------------------------------------- control

    def control_dofs_position(self, position: Any, dofs_idx: Any = None, envs_idx: Any = None) -> None:
        """Pull degrees of freedom to a position [m, rad] with the gains kp and kv, from now on."""
        self._tell(Control.POSITION, position, dofs_idx, envs_idx, "control_dofs_position")

    def control_dofs_velocity(self, velocity: Any, dofs_idx: Any = None, envs_idx: Any = None) -> None:
        """Keep degrees of freedom at a velocity [m/s, rad/s] with the gain kv, from now on."""
        self._tell(Control.VELOCITY, velocity, dofs_idx, envs_idx, "control_dofs_velocity")

    def control_dofs_force(self, force: Any, dofs_idx: Any = None, envs_idx: Any = None) -> None:
        """Push degrees of freedom with a force [N, N m], from now on."""
        self._tell(Control.FORCE, force, dofs_idx, envs_idx, "control_dofs_force")

    def _tell(self, mode: Control, values: Any, dofs_idx: Any, envs_idx: Any, what: str) -> None:
        dofs = self.info.dof_start + self._dofs(dofs_idx, what)
        running = self._running
        if running.outputs.is_there(values):
            running.controls.tell(mode, dofs, values, running.outputs.envs(envs_idx))
        else:
            envs = environments(envs_idx, running.n_envs)
            n_envs = running.n_envs if envs is None else len(envs)
            array = batched(values, n_envs, (len(dofs),), running.memory.dtype, what)
            running.controls.tell(mode, dofs, array, envs)

    def control_dofs_position_velocity(
        self, position: Any, velocity: Any, dofs_idx: Any = None, envs_idx: Any = None
    ) -> None:
        """Follow a trajectory: kp (position - q) + kv (velocity - v), with the gains as they are now."""
        what = "control_dofs_position_velocity"
        own, running = self.info.dof_start + self._dofs(dofs_idx, what), self._running
        envs = environments(envs_idx, running.n_envs)
        n_envs = running.n_envs if envs is None else len(envs)
        place, speed = (batched(x, n_envs, (len(own),), np.float64, what) for x in (position, velocity))
        self._tell(Control.POSITION, place, dofs_idx, envs_idx, what)  # gives gains to those that have none
        kp, kv = (running.memory.read(name, own, envs) for name in ("kp", "kv"))
        if (kp == 0.0).any():
            raise KinemaError(f"{what}: without a stiffness (set_dofs_kp) there is nothing that holds a position")
        self._tell(Control.POSITION, place + kv / kp * speed, dofs_idx, envs_idx, what)

    def control(self, ctrl: Any, actuators_idx: Any = None, envs_idx: Any = None) -> None:
        """Tell the file's actuators; what they pull on is theirs again, if the user had taken it over."""
        info, running = self.info, self._running
        names = self._alone.actuators.names
        if not names:
            raise KinemaError(
                f'"{self.name}" has no actuators that are simulated: use control_dofs_position, _velocity or _force'
            )
        own, moved = self._pulled(actuators_idx)
        if running.outputs.is_there(ctrl):
            running.controls.to_actuators(info.dof_start + moved, running.outputs.envs(envs_idx))
            rows = slice(info.actuator_start, info.actuator_end) if actuators_idx is None else info.actuator_start + own
            running.memory.on_device("ctrl", rows, ctrl, running.outputs.envs(envs_idx))
            return
        envs = environments(envs_idx, running.n_envs)
        n_envs = running.n_envs if envs is None else len(envs)
        array = batched(ctrl, n_envs, (len(own),), running.memory.dtype, "control")
        running.controls.to_actuators(info.dof_start + moved, envs)
        running.memory.write("ctrl", info.actuator_start + own, array, envs)

    def _pulled(self, actuators_idx: Any) -> tuple[Index, Index]:
        """Actuators, and the degrees of freedom that they move; of all of them this is found once."""
        if actuators_idx is None and self._all_pulled is not None:
            return self._all_pulled
        info = self._alone.actuators
        own = items(actuators_idx, info.names, "control: actuators_idx", "actuators")
        found = own, np.flatnonzero(info.moment[own].any(axis=0))
        if actuators_idx is None:
            self._all_pulled = found
        return found

    # ---------------------------------------------------------------------------------------------- parameters

    def set_dofs_kp(self, kp: Any, dofs_idx: Any = None, envs_idx: Any = None) -> None:
        """Stiffness of position control [N/m, N m/rad], for all environments; with `per_env=("kp",)` for each."""
        self._set_dofs("kp", kp, dofs_idx, envs_idx)

    def set_dofs_kv(self, kv: Any, dofs_idx: Any = None, envs_idx: Any = None) -> None:
        """Damping of position and velocity control [N s/m, N m s/rad]; see `set_dofs_kp`."""
        self._set_dofs("kv", kv, dofs_idx, envs_idx)

    def set_dofs_armature(self, armature: Any, dofs_idx: Any = None, envs_idx: Any = None) -> None:
        """Rotor inertia [kg, kg m2]; before building, or with `per_env=("armature",)` at any time."""
        self._set_dofs("armature", armature, dofs_idx, envs_idx)

    def set_dofs_damping(self, damping: Any, dofs_idx: Any = None, envs_idx: Any = None) -> None:
        """Damping of the joints themselves [N s/m, N m s/rad]; see `set_dofs_armature`."""
        self._set_dofs("damping", damping, dofs_idx, envs_idx)

    def set_dofs_force_range(self, lower: Any, upper: Any, dofs_idx: Any = None) -> None:
        """The least and greatest force of control [N, N m], for all environments."""
        dofs = self._dofs(dofs_idx, "set_dofs_force_range")
        low, high = (batched(x, 1, (len(dofs),), np.float64, "set_dofs_force_range") for x in (lower, upper))
        for name, bound in (("force_lower", low), ("force_upper", high)):
            parameter(name, bound, "set_dofs_force_range")  # both, before either is set
        if (low > high).any():
            raise KinemaError("set_dofs_force_range: a lower bound is above its upper one")
        self._set_dofs("force_lower", low, dofs_idx, None)
        self._set_dofs("force_upper", high, dofs_idx, None)

    def _set_dofs(self, name: str, values: Any, dofs_idx: Any, envs_idx: Any) -> None:
        what = f"set_dofs_{_CALLED.get(name, name)}"
        dofs = self._dofs(dofs_idx, what)
        if self._info is None:
            if envs_idx is not None:
                raise KinemaError(f"{what}: there are no environments to choose from before the scene is built")
            array = parameter(name, batched(values, 1, (len(dofs),), np.float64, what), what)[0]
            self._constants.setdefault(name, {}).update(zip(dofs.tolist(), array.tolist(), strict=True))
            return
        self._set_parameter(name, self._info.dof_start + dofs, (len(dofs),), values, envs_idx, what)

    def _set_parameter(
        self, name: str, rows: slice | Index, shape: tuple[int, ...], values: Any, envs_idx: Any, what: str
    ) -> None:
        """One of the parameters that are inputs, or differ between environments because that was asked for."""
        running = self._running
        if running.memory.is_shared(name):
            self._set_shared(name, rows, shape, values, envs_idx, what)
            return
        asked = ASKED_AS.get(name, name)
        if asked not in running.engine.settings.per_env:
            ways = ["set it before building"] if name in _CONSTANTS else []
            ways += [f'use scene.build(per_env=("{asked}",))'] if asked in PARAMETERS else []
            ways += [f'scene.allow_per_env("{asked}") now'] if asked in PARAMETERS else []
            raise KinemaError(f"{what}: this is compiled into the program as a constant: {', or '.join(ways)}")
        envs = environments(envs_idx, running.n_envs)
        n_envs = running.n_envs if envs is None else len(envs)
        array = parameter(name, batched(values, n_envs, shape, running.memory.dtype, what), what)
        running.memory.write(name, rows, array.reshape(len(array), -1), envs)
        running.controls.was_set(name, rows)

    def _set_shared(
        self, name: str, rows: slice | Index, shape: tuple[int, ...], values: Any, envs_idx: Any, what: str
    ) -> None:
        """A parameter that all environments have in common."""
        running, asked = self._running, ASKED_AS.get(name, name)
        if envs_idx is not None and len(np.unique(environments(envs_idx, running.n_envs))) != running.n_envs:  # type: ignore[arg-type]  # ty: ignore[no-matching-overload]
            raise KinemaError(
                f'{what}: environments share this: use scene.build(per_env=("{asked}",)) for some of them'
            )
        array = parameter(name, batched(values, running.n_envs, shape, running.memory.dtype, what), what)
        if len(array) > 1 and (array != array[:1]).any():
            raise KinemaError(f'{what}: environments share this: scene.build(per_env=("{asked}",)) lets them differ')
        running.memory.write(name, rows, array[:1].reshape(1, -1))
        if name in ("kp", "kv"):
            for model in running.engine.variants.models:
                getattr(model.dofs, name)[rows] = array[0]
        running.controls.was_set(name, rows)

    def _built_links(self, name: str, envs: Index | None) -> np.ndarray:
        """What of its links environments were built with, (n_envs, n_links, ...)."""
        info, variants = self.info, self._running.engine.variants
        table = np.stack([getattr(m.links, name)[info.link_start : info.link_end] for m in variants.models])
        return table[variants.which if envs is None else variants.which[envs]]

    def set_mass_shift(self, shift: Any, links_idx: Any = None, envs_idx: Any = None) -> None:
        """Make links heavier [kg], (n_envs, n_links); their inertia grows in proportion. Needs per_env."""
        own = self._links(links_idx, "set_mass_shift")
        envs = environments(envs_idx, self._running.n_envs)
        n_envs = self._running.n_envs if envs is None else len(envs)
        more = batched(shift, n_envs, (len(own),), np.float64, "set_mass_shift")
        lacking = (self._built_links("inertial_mass", envs)[:, own] + more < 0.0).any(axis=0)
        if lacking.any():
            name = self._alone.links.names[own[lacking][0]]
            raise KinemaError(f'set_mass_shift: link "{name}" has no more than its mass to lose')
        self._set_parameter("mass_shift", self.info.link_start + own, (len(own),), more, envs_idx, "set_mass_shift")

    def set_links_inertial_mass(self, mass: Any, links_idx: Any = None, envs_idx: Any = None) -> None:
        """Make links so heavy [kg], (n_envs, n_links); their inertia follows in proportion. Needs per_env."""
        what = "set_links_inertial_mass"
        own = self._links(links_idx, what)
        built = self._built_links("inertial_mass", environments(envs_idx, self._running.n_envs))[:, own]
        self.set_mass_shift(batched(mass, len(built), (len(own),), np.float64, what) - built, own, envs_idx)

    def set_com_shift(self, shift: Any, links_idx: Any = None, envs_idx: Any = None) -> None:
        """Move links' centres of mass along their axes [m], (n_envs, n_links, 3). Needs per_env."""
        links = self.info.link_start + self._links(links_idx, "set_com_shift")
        self._set_parameter("com_shift", _triples(links), (len(links), 3), shift, envs_idx, "set_com_shift")

    def set_gravity(self, gravity: Any, envs_idx: Any = None) -> None:
        """Gravity [m/s2] for everything; three numbers, or with `per_env=("gravity",)` (n_envs, 3)."""
        self._set_parameter("gravity", slice(None), (3,), gravity, envs_idx, "set_gravity")

    # ------------------------------------------------------------------------------------------------- forces

    def apply_links_external_force(self, force: Any, links_idx: Any = None, envs_idx: Any = None) -> None:
        """Push links at their centres of mass, along the world's axes [N], (n_envs, n_links, 3), until told otherwise.

        Needs `scene.build(external_forces=True)`.
        """
        self._apply("cfrc_applied_vel", force, links_idx, envs_idx, "apply_links_external_force")

    def apply_links_external_torque(self, torque: Any, links_idx: Any = None, envs_idx: Any = None) -> None:
        """Twist links about the world's axes [N m], (n_envs, n_links, 3); see `apply_links_external_force`."""
        self._apply("cfrc_applied_ang", torque, links_idx, envs_idx, "apply_links_external_torque")

    def apply_dofs_external_force(self, force: Any, dofs_idx: Any = None, envs_idx: Any = None) -> None:
        """Push degrees of freedom beside whatever moves them [N, N m], (n_envs, n), until told otherwise.

        MuJoCo's `qfrc_applied`: actuators and control go on. Needs `scene.build(external_forces=True)`.
        """
        what = "apply_dofs_external_force"
        dofs, running = self.info.dof_start + self._dofs(dofs_idx, what), self._pushable(what)
        envs = environments(envs_idx, running.n_envs)
        n_envs = running.n_envs if envs is None else len(envs)
        array = batched(force, n_envs, (len(dofs),), running.memory.dtype, what)
        running.memory.write("dof_force_applied", dofs, array, envs)

    def _apply(self, name: str, values: Any, links_idx: Any, envs_idx: Any, what: str) -> None:
        links = self.info.link_start + self._links(links_idx, what)
        running = self._pushable(what)
        envs = environments(envs_idx, running.n_envs)
        n_envs = running.n_envs if envs is None else len(envs)
        array = batched(values, n_envs, (len(links), 3), running.memory.dtype, what)
        running.memory.write(name, _triples(links), array.reshape(len(array), -1), envs)

    def _pushable(self, what: str) -> Running:
        """What runs, if it heeds forces of the user."""
        if not self._running.engine.settings.external_forces:
            raise KinemaError(
                f"{what}: the program has no place for the user's forces; use scene.build(external_forces=True)"
            )
        return self._running


def _triples(links: Index) -> Index:
    return (3 * links[:, None] + np.arange(3)).ravel()
