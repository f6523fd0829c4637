"""Commands of an entity: dof targets and forces, actuator controls, external forces.

Commands, forces and controls stay in effect until they are changed or the scene is reset.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.core import KinemaError
from kinema.dynamics import ControlMode

from .arguments import IndexArray, Selection, link_vectors
from .arrays import component_rows, contiguous_slice
from .built_scene import BuiltScene
from .entity_index import EntityIndex


class EntityControl:
    """Writes commands, actuator controls and external forces of an entity to the arrays of the scene."""

    def __init__(self, index: EntityIndex) -> None:
        self._index = index
        self._all_actuators: tuple[int, slice | IndexArray, IndexArray] | None = None

    def command_dofs(
        self, mode: ControlMode, values: Any, dofs_idx: Selection, envs_idx: Selection, label: str
    ) -> None:
        """Set the control mode of the selected dofs and their commands, from host values or a CUDA tensor."""
        dofs, built = self._index.dof_rows(dofs_idx, label), self._index.built
        if built.outputs.is_gpu_tensor(values):
            built.controls.command(mode, dofs, values, built.outputs.resolve_envs(envs_idx))
        else:
            built.controls.command(mode, dofs, *built.arrays.to_finite_batch(values, (len(dofs),), envs_idx, label))

    def track_dofs(self, position: Any, velocity: Any, dofs_idx: Selection, envs_idx: Selection, label: str) -> None:
        """PD tracking of position and velocity targets: position control with target position + kv / kp * velocity.

        Raises `KinemaError` if kp is zero.
        """
        dofs, arrays = self._index.dof_rows(dofs_idx, label), self._index.built.arrays
        targets, envs = arrays.to_finite_batch(position, (len(dofs),), envs_idx, label, np.float64)
        velocities, _ = arrays.to_finite_batch(velocity, (len(dofs),), envs_idx, label, np.float64)
        self.command_dofs(ControlMode.POSITION, targets, dofs_idx, envs_idx, label)  # sets missing gains
        kp, kv = (arrays.read(name, dofs, envs) for name in ("kp", "kv"))
        if (kp == 0.0).any():
            raise KinemaError(f"{label}: position control needs a stiffness: kp is zero; use set_dofs_kp")
        self.command_dofs(ControlMode.POSITION, targets + kv / kp * velocities, dofs_idx, envs_idx, label)

    def control_actuators(self, ctrl: Any, actuators_idx: Selection, envs_idx: Selection) -> None:
        """Set actuator controls (MuJoCo's ctrl), and switch the dofs that the actuators act on to actuator mode."""
        index, built = self._index, self._index.built
        if not index.model.actuators.names:
            raise KinemaError(
                f'"{index.name}" has no simulated actuators: use control_dofs_position, _velocity or _force'
            )
        count, rows, dofs = self._actuator_rows(actuators_idx)
        if built.outputs.is_gpu_tensor(ctrl):
            envs = built.outputs.resolve_envs(envs_idx)
            built.controls.return_to_actuators(dofs, envs)
            built.arrays.write_tensor("ctrl", rows, ctrl, envs)
        else:
            values, envs = built.arrays.to_finite_batch(ctrl, (count,), envs_idx, "control")
            built.controls.return_to_actuators(dofs, envs)
            built.arrays.write("ctrl", rows, values, envs)

    def _actuator_rows(self, actuators_idx: Selection) -> tuple[int, slice | IndexArray, IndexArray]:
        """Number of the selected actuators, their rows in the scene, and the dofs on which they have a moment arm.

        The rows of all actuators (None) are a slice; they are resolved once, as commands may precede every step.
        """
        if actuators_idx is None and self._all_actuators is not None:
            return self._all_actuators
        index = self._index
        actuators = index.actuators(actuators_idx, "control")
        rows = contiguous_slice(index.info.actuator_start + actuators)
        dofs = np.flatnonzero(index.model.actuators.control_moment[actuators].any(axis=0))
        result = len(actuators), rows, index.info.dof_start + dofs
        if actuators_idx is None:
            self._all_actuators = result
        return result

    def apply_to_links(
        self, array_name: str, vectors: Any, links_idx: Selection, envs_idx: Selection, label: str
    ) -> None:
        """Set external forces (`cfrc_applied_vel`) or torques (`cfrc_applied_ang`) on links, (n_envs, n_links, 3)."""
        links, built = self._index.link_rows(links_idx, label), self._require_external_forces(label)
        vectors = link_vectors(vectors, len(links), label)
        values, envs = built.arrays.to_finite_batch(vectors, (len(links), 3), envs_idx, label)
        built.arrays.write(array_name, component_rows(links, 3), values.reshape(len(values), -1), envs)

    def apply_to_dofs(self, force: Any, dofs_idx: Selection, envs_idx: Selection, label: str) -> None:
        """Set external generalized forces on dofs, (n_envs, n)."""
        dofs, built = self._index.dof_rows(dofs_idx, label), self._require_external_forces(label)
        values, envs = built.arrays.to_finite_batch(force, (len(dofs),), envs_idx, label)
        built.arrays.write("dof_force_applied", dofs, values, envs)

    def _require_external_forces(self, label: str) -> BuiltScene:
        """The built scene; raises `KinemaError` if it was built without external forces."""
        if not self._index.built.engine.settings.external_forces:
            raise KinemaError(
                f"{label}: the program was compiled without external forces; use scene.build(external_forces=True)"
            )
        return self._index.built
