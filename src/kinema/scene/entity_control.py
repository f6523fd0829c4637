"""Control of an entity: position, velocity and force commands, actuator controls, external forces, parameters.

Commands, forces and controls stay in effect until they are changed or the scene is reset.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from kinema.core import KinemaError
from kinema.dynamics import PER_ENV_PARAMETERS, ControlMode
from kinema.model import EntityInfo, Model

from .arguments import IndexArray, as_batch, check_parameter_values, resolve_envs, resolve_indices
from .built_scene import BuiltScene
from .variants import EntityVariants

_PARAMETERS_BEFORE_BUILD = (
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
"""Dof parameters that may be set before the scene is built."""


_SETTER_SUFFIX = {"force_lower": "force_range", "force_upper": "force_range", "lower": "limit", "upper": "limit"}
"""Suffix of the setter `set_dofs_...` of parameters whose setter has another name."""
PER_ENV_PARAMETER_NAME = {"lower": "limit", "upper": "limit"}
"""Name in `build(per_env=...)` of parameters that have another name there."""


class EntityControlMixin(ABC):
    """Part of `Entity`: commands, actuator controls, external forces, and setters of dof and link parameters."""

    name: str
    _entity_model: Model
    _variants: EntityVariants | None
    _dof_parameters: dict[str, dict[int, float]]
    _info: EntityInfo | None
    _actuated_dofs_cache: tuple[IndexArray, IndexArray] | None = None

    @property
    @abstractmethod
    def info(self) -> EntityInfo:
        """Index ranges of the entity in the flat arrays of the scene."""

    @property
    @abstractmethod
    def _built_scene(self) -> BuiltScene: ...

    @abstractmethod
    def _dof_indices(self, dofs_idx: Any, label: str) -> IndexArray: ...

    @abstractmethod
    def _link_indices(self, links_idx: Any, label: str) -> IndexArray: ...

    # ------------------------------------------------------------------------------------------------- control

    def control_dofs_position(self, position: Any, dofs_idx: Any = None, envs_idx: Any = None) -> None:
        """Set position targets of dofs: from now on each dof is driven by the PD force kp (position - q) - kv v.

        Dofs without gains of file or user get default gains (critically damped, 2 Hz).

        Args:
            position: targets [m, rad], (n_envs, n), or (n,) or a scalar for all environments.
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        self._command_dofs(ControlMode.POSITION, position, dofs_idx, envs_idx, "control_dofs_position")

    def control_dofs_velocity(self, velocity: Any, dofs_idx: Any = None, envs_idx: Any = None) -> None:
        """Set velocity targets of dofs: from now on each dof is driven by the force kv (velocity - v).

        Dofs without gain of file or user get a default gain (critically damped, 2 Hz).

        Args:
            velocity: targets [m/s, rad/s], (n_envs, n), or (n,) or a scalar for all environments.
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        self._command_dofs(ControlMode.VELOCITY, velocity, dofs_idx, envs_idx, "control_dofs_velocity")

    def control_dofs_force(self, force: Any, dofs_idx: Any = None, envs_idx: Any = None) -> None:
        """Set joint forces: from now on the given force or torque acts along each dof.

        Args:
            force: forces [N, N m], (n_envs, n), or (n,) or a scalar for all environments.
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        self._command_dofs(ControlMode.FORCE, force, dofs_idx, envs_idx, "control_dofs_force")

    def _command_dofs(self, mode: ControlMode, values: Any, dofs_idx: Any, envs_idx: Any, label: str) -> None:
        """Set the control mode of the selected dofs and their commands, from host values or a CUDA tensor."""
        dofs = self.info.dof_start + self._dof_indices(dofs_idx, label)
        built = self._built_scene
        if built.outputs.is_gpu_tensor(values):
            built.controls.command(mode, dofs, values, built.outputs.resolve_envs(envs_idx))
        else:
            envs = resolve_envs(envs_idx, built.n_envs)
            n_envs = built.n_envs if envs is None else len(envs)
            array = as_batch(values, n_envs, (len(dofs),), built.arrays.dtype, label)
            built.controls.command(mode, dofs, array, envs)

    def control_dofs_position_velocity(
        self, position: Any, velocity: Any, dofs_idx: Any = None, envs_idx: Any = None
    ) -> None:
        """Track a trajectory with the PD force kp (position - q) + kv (velocity - v).

        Implemented as position control with the target position + kv / kp velocity and the present gains, so later
        changes of the gains need another call. Raises `KinemaError` if any kp is zero.

        Args:
            position: target positions [m, rad], (n_envs, n), or (n,) or a scalar for all environments.
            velocity: target velocities [m/s, rad/s], same shapes.
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        label = "control_dofs_position_velocity"
        dofs, built = self.info.dof_start + self._dof_indices(dofs_idx, label), self._built_scene
        envs = resolve_envs(envs_idx, built.n_envs)
        n_envs = built.n_envs if envs is None else len(envs)
        targets, velocities = (as_batch(x, n_envs, (len(dofs),), np.float64, label) for x in (position, velocity))
        self._command_dofs(ControlMode.POSITION, targets, dofs_idx, envs_idx, label)  # sets missing gains
        kp, kv = (built.arrays.read(name, dofs, envs) for name in ("kp", "kv"))
        if (kp == 0.0).any():
            raise KinemaError(f"{label}: position control needs a stiffness: kp is zero; use set_dofs_kp")
        self._command_dofs(ControlMode.POSITION, targets + kv / kp * velocities, dofs_idx, envs_idx, label)

    def control(self, ctrl: Any, actuators_idx: Any = None, envs_idx: Any = None) -> None:
        """Set the controls of the file's actuators (MuJoCo's `ctrl`); the dofs they act on return to actuator mode.

        Args:
            ctrl: controls in the units of each actuator, (n_envs, n), or (n,) or a scalar for all environments; clamped
                to the control range.
            actuators_idx: actuators by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        info, built = self.info, self._built_scene
        names = self._entity_model.actuators.names
        if not names:
            raise KinemaError(
                f'"{self.name}" has no simulated actuators: use control_dofs_position, _velocity or _force'
            )
        actuators, dofs = self._actuators_and_dofs(actuators_idx)
        if built.outputs.is_gpu_tensor(ctrl):
            built.controls.return_to_actuators(info.dof_start + dofs, built.outputs.resolve_envs(envs_idx))
            rows = (
                slice(info.actuator_start, info.actuator_end)
                if actuators_idx is None
                else info.actuator_start + actuators
            )
            built.arrays.write_tensor("ctrl", rows, ctrl, built.outputs.resolve_envs(envs_idx))
            return
        envs = resolve_envs(envs_idx, built.n_envs)
        n_envs = built.n_envs if envs is None else len(envs)
        array = as_batch(ctrl, n_envs, (len(actuators),), built.arrays.dtype, "control")
        built.controls.return_to_actuators(info.dof_start + dofs, envs)
        built.arrays.write("ctrl", info.actuator_start + actuators, array, envs)

    def _actuators_and_dofs(self, actuators_idx: Any) -> tuple[IndexArray, IndexArray]:
        """Indices of the selected actuators, and of the dofs on which they have a moment arm.

        Both are indices within the entity; the result for all actuators (None) is cached.
        """
        if actuators_idx is None and self._actuated_dofs_cache is not None:
            return self._actuated_dofs_cache
        info = self._entity_model.actuators
        actuators = resolve_indices(actuators_idx, info.names, "control: actuators_idx", "actuators")
        result = actuators, np.flatnonzero(info.moment[actuators].any(axis=0))
        if actuators_idx is None:
            self._actuated_dofs_cache = result
        return result

    # ---------------------------------------------------------------------------------------------- parameters

    def set_dofs_kp(self, kp: Any, dofs_idx: Any = None, envs_idx: Any = None) -> None:
        """Set the proportional gain kp of position control [N/m, N m/rad].

        Shared by all environments unless the scene was built with `per_env=("kp",)`; may be called before or after
        build.

        Args:
            kp: gains >= 0, (n,) or a scalar; with per_env also (n_envs, n).
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        self._set_dof_parameter("kp", kp, dofs_idx, envs_idx)

    def set_dofs_kv(self, kv: Any, dofs_idx: Any = None, envs_idx: Any = None) -> None:
        """Set the velocity gain kv of position and velocity control [N s/m, N m s/rad].

        Shared by all environments unless the scene was built with `per_env=("kv",)`; may be called before or after
        build.

        Args:
            kv: gains >= 0, (n,) or a scalar; with per_env also (n_envs, n).
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        self._set_dof_parameter("kv", kv, dofs_idx, envs_idx)

    def set_dofs_armature(self, armature: Any, dofs_idx: Any = None, envs_idx: Any = None) -> None:
        """Set the armature (rotor inertia) added to the diagonal of the mass matrix [kg, kg m2].

        Before build, or at any time if the scene was built with `per_env=("armature",)`.

        Args:
            armature: inertias >= 0, (n,) or a scalar; with per_env also (n_envs, n).
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        self._set_dof_parameter("armature", armature, dofs_idx, envs_idx)

    def set_dofs_damping(self, damping: Any, dofs_idx: Any = None, envs_idx: Any = None) -> None:
        """Set the passive joint damping [N s/m, N m s/rad].

        Before build, or at any time if the scene was built with `per_env=("damping",)`.

        Args:
            damping: coefficients >= 0, (n,) or a scalar; with per_env also (n_envs, n).
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        self._set_dof_parameter("damping", damping, dofs_idx, envs_idx)

    def set_dofs_force_range(self, lower: Any, upper: Any, dofs_idx: Any = None) -> None:
        """Set the range that control forces are clamped to [N, N m], for all environments.

        Args:
            lower: least force, (n,) or a scalar; -inf for none.
            upper: greatest force, (n,) or a scalar; inf for none.
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
        """
        dofs = self._dof_indices(dofs_idx, "set_dofs_force_range")
        low, high = (as_batch(x, 1, (len(dofs),), np.float64, "set_dofs_force_range") for x in (lower, upper))
        for name, bound in (("force_lower", low), ("force_upper", high)):
            check_parameter_values(name, bound, "set_dofs_force_range")  # validate both before setting either
        if (low > high).any():
            raise KinemaError("set_dofs_force_range: a lower bound is above its upper one")
        self._set_dof_parameter("force_lower", low, dofs_idx, None)
        self._set_dof_parameter("force_upper", high, dofs_idx, None)

    def _set_dof_parameter(self, name: str, values: Any, dofs_idx: Any, envs_idx: Any) -> None:
        """Set a dof parameter: store it for `build` if the scene is not built yet, else write it to the arrays.

        Args:
            name: name of the array, such as `kp`, `armature` or `lower`.
            values: values, (n_envs, n), (n,) or a scalar.
            dofs_idx: dofs within the entity; None for all.
            envs_idx: environments; must be None before build.
        """
        label = f"set_dofs_{_SETTER_SUFFIX.get(name, name)}"
        dofs = self._dof_indices(dofs_idx, label)
        if self._info is None:
            if envs_idx is not None:
                raise KinemaError(f"{label}: there are no environments to select before the scene is built")
            array = check_parameter_values(name, as_batch(values, 1, (len(dofs),), np.float64, label), label)[0]
            self._dof_parameters.setdefault(name, {}).update(zip(dofs.tolist(), array.tolist(), strict=True))
            return
        self._set_parameter(name, self._info.dof_start + dofs, (len(dofs),), values, envs_idx, label)

    def _set_parameter(
        self, name: str, rows: slice | IndexArray, item_shape: tuple[int, ...], values: Any, envs_idx: Any, label: str
    ) -> None:
        """Write a parameter to the engine's arrays, shared or per environment.

        Error if it is compiled into the program.

        Args:
            name: name of the array.
            rows: rows of the array.
            item_shape: shape of the values of one environment.
            values: values, (n_envs, *item_shape), item_shape or a scalar.
            envs_idx: environments; None for all.
            label: name of the calling setter for error messages.
        """
        built = self._built_scene
        if built.arrays.is_shared(name):
            self._set_shared_parameter(name, rows, item_shape, values, envs_idx, label)
            return
        per_env_name = PER_ENV_PARAMETER_NAME.get(name, name)
        if per_env_name not in built.engine.settings.per_env:
            alternatives = ["set it before building"] if name in _PARAMETERS_BEFORE_BUILD else []
            alternatives += (
                [f'use scene.build(per_env=("{per_env_name}",))'] if per_env_name in PER_ENV_PARAMETERS else []
            )
            alternatives += [f'scene.allow_per_env("{per_env_name}") now'] if per_env_name in PER_ENV_PARAMETERS else []
            raise KinemaError(
                f"{label}: the parameter is compiled into the program as a constant: {', or '.join(alternatives)}"
            )
        envs = resolve_envs(envs_idx, built.n_envs)
        n_envs = built.n_envs if envs is None else len(envs)
        array = check_parameter_values(name, as_batch(values, n_envs, item_shape, built.arrays.dtype, label), label)
        built.arrays.write(name, rows, array.reshape(len(array), -1), envs)
        built.controls.on_parameter_set(name, rows)

    def _set_shared_parameter(
        self, name: str, rows: slice | IndexArray, item_shape: tuple[int, ...], values: Any, envs_idx: Any, label: str
    ) -> None:
        """Write a parameter that all environments share; error if the values or the selection distinguish environments.

        kp and kv are also written to the models of all variants, which later control modes read.

        Args:
            name: name of the array.
            rows: rows of the array.
            item_shape: shape of the values.
            values: values, item_shape or a scalar, or equal rows (n_envs, *item_shape).
            envs_idx: None or a selection of all environments.
            label: name of the calling setter for error messages.
        """
        built, per_env_name = self._built_scene, PER_ENV_PARAMETER_NAME.get(name, name)
        if envs_idx is not None and len(np.unique(resolve_envs(envs_idx, built.n_envs))) != built.n_envs:  # type: ignore[arg-type]  # ty: ignore[no-matching-overload]
            raise KinemaError(
                f'{label}: environments share this parameter: use scene.build(per_env=("{per_env_name}",)) to set some'
            )
        array = check_parameter_values(
            name, as_batch(values, built.n_envs, item_shape, built.arrays.dtype, label), label
        )
        if len(array) > 1 and (array != array[:1]).any():
            raise KinemaError(
                f'{label}: environments share this parameter: scene.build(per_env=("{per_env_name}",)) lets them differ'
            )
        built.arrays.write(name, rows, array[:1].reshape(1, -1))
        if name in ("kp", "kv"):
            for model in built.engine.variants.models:
                getattr(model.dofs, name)[rows] = array[0]
        built.controls.on_parameter_set(name, rows)

    def _link_parameter_as_built(self, name: str, envs: IndexArray | None) -> np.ndarray:
        """Link parameter of the entity's links at build time, by the variant of each environment.

        Args:
            name: field of `model.links`, such as `inertial_mass`.
            envs: indices of the environments; None for all.

        Returns:
            Array (environments, n_links, ...).
        """
        info, variants = self.info, self._built_scene.engine.variants
        table = np.stack([getattr(m.links, name)[info.link_start : info.link_end] for m in variants.models])
        return table[variants.variant_of_env if envs is None else variants.variant_of_env[envs]]

    def set_mass_shift(self, shift: Any, links_idx: Any = None, envs_idx: Any = None) -> None:
        """Set masses added to links [kg]; the inertia of a link scales with its total mass.

        Needs `per_env=("mass_shift",)`.

        Args:
            shift: added mass [kg], may be negative down to minus the mass, (n_envs, n_links), or (n_links,) or a
                scalar.
            links_idx: links by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        links = self._link_indices(links_idx, "set_mass_shift")
        envs = resolve_envs(envs_idx, self._built_scene.n_envs)
        n_envs = self._built_scene.n_envs if envs is None else len(envs)
        shifts = as_batch(shift, n_envs, (len(links),), np.float64, "set_mass_shift")
        negative = (self._link_parameter_as_built("inertial_mass", envs)[:, links] + shifts < 0.0).any(axis=0)
        if negative.any():
            name = self._entity_model.links.names[links[negative][0]]
            raise KinemaError(f'set_mass_shift: the mass of link "{name}" would be negative')
        self._set_parameter(
            "mass_shift", self.info.link_start + links, (len(links),), shifts, envs_idx, "set_mass_shift"
        )

    def set_links_inertial_mass(self, mass: Any, links_idx: Any = None, envs_idx: Any = None) -> None:
        """Set the masses of links [kg]; the inertia of a link scales with its mass. Needs `per_env=("mass_shift",)`.

        Args:
            mass: masses >= 0 [kg], (n_envs, n_links), or (n_links,) or a scalar.
            links_idx: links by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        label = "set_links_inertial_mass"
        links = self._link_indices(links_idx, label)
        nominal = self._link_parameter_as_built("inertial_mass", resolve_envs(envs_idx, self._built_scene.n_envs))[
            :, links
        ]
        self.set_mass_shift(as_batch(mass, len(nominal), (len(links),), np.float64, label) - nominal, links, envs_idx)

    def set_com_shift(self, shift: Any, links_idx: Any = None, envs_idx: Any = None) -> None:
        """Set displacements of the centres of mass of links, along the axes of the link [m].

        Needs `per_env=("com_shift",)`.

        Args:
            shift: displacements [m], (n_envs, n_links, 3), or (n_links, 3).
            links_idx: links by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        links = self.info.link_start + self._link_indices(links_idx, "set_com_shift")
        self._set_parameter("com_shift", _vector_rows(links), (len(links), 3), shift, envs_idx, "set_com_shift")

    def set_gravity(self, gravity: Any, envs_idx: Any = None) -> None:
        """Set the gravitational acceleration of the whole scene [m/s2].

        Args:
            gravity: (3,); with `per_env=("gravity",)` also (n_envs, 3).
            envs_idx: environments by index, slice or mask; None for all.
        """
        self._set_parameter("gravity", slice(None), (3,), gravity, envs_idx, "set_gravity")

    # ------------------------------------------------------------------------------------------- external forces

    def apply_links_external_force(self, force: Any, links_idx: Any = None, envs_idx: Any = None) -> None:
        """Set external forces at the centres of mass of links, along the world axes; in effect until changed or reset.

        Needs `scene.build(external_forces=True)`.

        Args:
            force: forces [N], (n_envs, n_links, 3), or (n_links, 3).
            links_idx: links by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        self._apply_links_external("cfrc_applied_vel", force, links_idx, envs_idx, "apply_links_external_force")

    def apply_links_external_torque(self, torque: Any, links_idx: Any = None, envs_idx: Any = None) -> None:
        """Set external torques on links, along the world axes; in effect until changed or reset.

        Needs `scene.build(external_forces=True)`.

        Args:
            torque: torques [N m], (n_envs, n_links, 3), or (n_links, 3).
            links_idx: links by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        self._apply_links_external("cfrc_applied_ang", torque, links_idx, envs_idx, "apply_links_external_torque")

    def apply_dofs_external_force(self, force: Any, dofs_idx: Any = None, envs_idx: Any = None) -> None:
        """Set external generalized forces on dofs (MuJoCo's `qfrc_applied`), in addition to actuators and control.

        In effect until changed. Needs `scene.build(external_forces=True)`.

        Args:
            force: forces [N, N m], (n_envs, n), or (n,) or a scalar for all environments.
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        label = "apply_dofs_external_force"
        dofs, built = self.info.dof_start + self._dof_indices(dofs_idx, label), self._require_external_forces(label)
        envs = resolve_envs(envs_idx, built.n_envs)
        n_envs = built.n_envs if envs is None else len(envs)
        array = as_batch(force, n_envs, (len(dofs),), built.arrays.dtype, label)
        built.arrays.write("dof_force_applied", dofs, array, envs)

    def _apply_links_external(self, array_name: str, values: Any, links_idx: Any, envs_idx: Any, label: str) -> None:
        """Write external forces or torques of the selected links to the engine.

        Args:
            array_name: `cfrc_applied_vel` (forces) or `cfrc_applied_ang` (torques).
            values: vectors along the world axes, (n_envs, n_links, 3), or (n_links, 3).
            links_idx: links within the entity; None for all.
            envs_idx: environments; None for all.
            label: name of the calling method for error messages.
        """
        links = self.info.link_start + self._link_indices(links_idx, label)
        built = self._require_external_forces(label)
        envs = resolve_envs(envs_idx, built.n_envs)
        n_envs = built.n_envs if envs is None else len(envs)
        array = as_batch(values, n_envs, (len(links), 3), built.arrays.dtype, label)
        built.arrays.write(array_name, _vector_rows(links), array.reshape(len(array), -1), envs)

    def _require_external_forces(self, label: str) -> BuiltScene:
        """The built scene; raises `KinemaError` if it was built without external forces."""
        if not self._built_scene.engine.settings.external_forces:
            raise KinemaError(
                f"{label}: the program was compiled without external forces; use scene.build(external_forces=True)"
            )
        return self._built_scene


def _vector_rows(indices: IndexArray) -> IndexArray:
    """Rows of the three components of vectors with the given indices, in an array of flattened 3-vectors."""
    return (3 * indices[:, None] + np.arange(3)).ravel()
