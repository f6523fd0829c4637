"""Entity: one robot, world file or body in a scene; its names, state, control, queries and physical parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from kinema.builder import EntitySpec
from kinema.description import Robot, World
from kinema.dynamics import ControlMode
from kinema.model import EntityInfo, Model

from .arguments import IndexArray, Selection, index_of_name
from .built_scene import HasBuiltScene
from .contacts import Contacts, collect_contacts, net_contact_forces
from .entity_control import EntityControl
from .entity_index import EntityIndex, EntityJoint, EntityLink
from .entity_parameters import EntityParameters, write_parameter
from .entity_queries import EntityKinematics, EntityQueries
from .entity_state import EntityState
from .geom_parameters import GeomParameters
from .kinematic_bodies import set_target_pose
from .motion_planning import EntityPlanner, PlanRequest, sample_plans
from .presence import is_present
from .sleep import links_asleep, wake_trees
from .variants import EntityVariants


class Entity:
    """A robot, the contents of a world file, or a single body, added to a scene by one call of `Scene.add`.

    Arguments ending in `_idx` select elements of the entity (`links_idx`, `dofs_idx`, `qs_idx`, `actuators_idx`,
    `geoms_idx` in the order of `geom_names`, `frames_idx` in the order of `frame_names`) or environments (`envs_idx`)
    by index, list, slice or mask; elements also by name or pattern of names (`find_dofs`). None selects all.

    Batched arrays have the environment axis first: (n_envs, n, ...) for n selected elements in n_envs selected
    environments. Setters also accept (n, ...) or a scalar for all selected environments.

    Setters of physical parameters may be called before build. After build, a parameter is either an input of the
    program (`kp`, `kv`, control force bounds, limits, gravity), shared by all environments, or a constant of the
    compiled program. If its name is listed in `scene.build(per_env=...)`, every environment has its own values.

    Generalized coordinates have the layout of MuJoCo: a free joint has the world position x, y, z and a quaternion (w,
    x, y, z), a spherical joint a quaternion. The velocity of a free joint is linear along the world axes, then angular
    along the axes of the link. All other vectors are along the world axes.

    Attributes:
        scene: the scene that contains the entity.
        name: unique name in the scene.
    """

    def __init__(
        self,
        scene: HasBuiltScene,
        spec: EntitySpec,
        entity_model: Model,
        variants: EntityVariants | None = None,
        make_posed_model: Callable[[], Model] | None = None,
    ) -> None:
        """Create an entity of a scene that is not built yet; arguments: see `EntityIndex`."""
        self.scene: Any = scene
        self.name = spec.name
        self._index = index = EntityIndex(scene, spec, entity_model, variants, make_posed_model)
        self._control = EntityControl(index)
        self._state = EntityState(index)
        self._queries = EntityQueries(index)
        self._kinematics = EntityKinematics(index)
        self._planner = EntityPlanner(index)
        self._parameters = EntityParameters(index)
        self._geom_parameters = GeomParameters(index)

    @cached_property
    def links(self) -> list[EntityLink]:
        """Handles of the links."""
        table = self._index.model.links
        masses = table.inertial_mass.tolist()
        return [EntityLink(self, name, i, masses[i]) for i, name in enumerate(table.names)]

    @cached_property
    def joints(self) -> list[EntityJoint]:
        """Handles of the joints with dofs."""
        index, joints, names = self._index, self._index.model.joints, self._index.model.links.names
        coordinates = zip(joints.q_start.tolist(), joints.q_end.tolist(), strict=True)
        return [
            EntityJoint(self, joint, kind, names[link], dofs, tuple(range(start, end)))
            for joint, kind, link, dofs, (start, end) in zip(
                index.joint_names, joints.kinds, joints.link_idx.tolist(), index.joint_dofs, coordinates, strict=True
            )
        ]

    @property
    def dof_names(self) -> list[str]:
        """Name of each dof, the name of the joint, or `name[i]` for joints with several dofs."""
        return self._index.dof_names

    def __repr__(self) -> str:
        return f"<Entity {self.name!r}: {self.n_links} links, {self.n_dofs} degrees of freedom>"

    # -------------------------------------------------------------------------------- names, sizes and selection

    @property
    def description(self) -> Robot | World:
        """The description; the first one if variants were added.

        It may be changed before build: entities that were added with equal arguments have descriptions of their own.
        """
        if self._index.shared_description is not None and not self.scene.is_built:
            self._index.description = self._index.shared_description.private_copy()
            self._index.shared_description = None
            self.scene._set_description(self, self._index.description)
        return self._index.description

    @property
    def n_links(self) -> int:
        """Number of links."""
        return self._index.model.n_links

    @property
    def n_joints(self) -> int:
        """Number of joints with at least one dof."""
        return len(self._index.model.joints.kinds)

    @property
    def n_dofs(self) -> int:
        """Number of degrees of freedom: the length of the velocity."""
        return self._index.model.n_dofs

    @property
    def n_qs(self) -> int:
        """Number of generalized coordinates: the length of the position."""
        return self._index.model.n_qs

    @property
    def n_actuators(self) -> int:
        """Number of simulated actuators of the file."""
        return self._index.model.n_actuators

    @property
    def n_variants(self) -> int:
        """Number of variants: 1 unless a list was added."""
        return len(self._index.descriptions)

    @property
    def actuator_names(self) -> list[str]:
        """Names of the actuators, in the order of `control`."""
        return list(self._index.model.actuators.names)

    @property
    def keyframe_names(self) -> list[str]:
        """Names of the keyframes of the file, in index order, for `Scene.reset(keyframe=...)`."""
        return list(self._index.model.keyframes.names)

    @property
    def frame_names(self) -> list[str]:
        """Names of the frames of the description (MJCF sites, SDFormat frames), in index order."""
        return self._queries.frame_names

    @property
    def geom_names(self) -> list[str]:
        """Names of the geoms that can collide in this scene; convex pieces of one shape have the same name."""
        return self._index.geom_names

    @property
    def info(self) -> EntityInfo:
        """Index ranges of the entity in the flat arrays of the scene; raises `KinemaError` before build."""
        return self._index.info

    @property
    def variant_idx(self) -> np.ndarray:
        """Index of the variant in each environment, (n_envs,)."""
        return self._index.variant_of_env

    def description_for_env(self, env: int = 0) -> Robot | World:
        """Description of the entity in environment `env` (default 0), of its variant if a list was added."""
        return self._index.descriptions[int(self.variant_idx[env]) if self.n_variants > 1 else 0]

    @property
    def base_link(self) -> EntityLink:
        """First link without a parent link."""
        return self.links[self._index.base_link]

    def get_link(self, name: str) -> EntityLink:
        """Link with this name; raises `KinemaError` listing the names if there is none."""
        return self.links[index_of_name(name, self._index.model.links.names, "get_link", "links")]

    def get_joint(self, name: str) -> EntityJoint:
        """Moving joint with this name; raises `KinemaError` listing the names if there is none."""
        return self.joints[index_of_name(name, self._index.joint_names, "get_joint", "moving joints")]

    def dofs_of(self, *joints: str) -> list[int]:
        """Indices of all dofs of the joints with these names."""
        return [dof for name in joints for dof in self.get_joint(name).dofs_idx]

    def find_dofs(self, *selections: Selection) -> IndexArray:
        """Indices of the selected dofs: `arm.find_dofs("joint[1-4]", "gripper_.*")`; without arguments all dofs.

        Args:
            *selections: names of joints (all their dofs) or of single dofs, patterns of names (regular expressions, or
                shell patterns with `*` and `?`), indices, slices or masks; every `dofs_idx` argument accepts the same.
        """
        return _concatenate_indices(selections, self._index.dofs, "find_dofs")

    def find_links(self, *selections: Selection) -> IndexArray:
        """Indices of the selected links: `arm.find_links(".*_finger")`; without arguments all links.

        Args:
            *selections: names, patterns of names, indices, slices or masks; every `links_idx` argument accepts the
                same.
        """
        return _concatenate_indices(selections, self._index.links, "find_links")

    # --------------------------------------------------------------------------------------------------- control

    def control_dofs_position(self, position: Any, dofs_idx: Selection = None, envs_idx: Selection = None) -> None:
        """Set position targets of dofs [m, rad]: from now on each is driven by the PD force kp (position - q) - kv v.

        Dofs without gains of file or user have default gains, derived from inertia, load and effort limits.
        """
        self._control.command_dofs(ControlMode.POSITION, position, dofs_idx, envs_idx, "control_dofs_position")

    def control_dofs_velocity(self, velocity: Any, dofs_idx: Selection = None, envs_idx: Selection = None) -> None:
        """Set velocity targets of dofs [m/s, rad/s]: from now on each is driven by the force kv (velocity - v).

        Dofs without gain of file or user have a default gain, larger than that of position control.
        """
        self._control.command_dofs(ControlMode.VELOCITY, velocity, dofs_idx, envs_idx, "control_dofs_velocity")

    def control_dofs_force(self, force: Any, dofs_idx: Selection = None, envs_idx: Selection = None) -> None:
        """Set joint forces: from now on the given force [N] or torque [N m] acts along each selected dof."""
        self._control.command_dofs(ControlMode.FORCE, force, dofs_idx, envs_idx, "control_dofs_force")

    def control_dofs_position_velocity(
        self, position: Any, velocity: Any, dofs_idx: Selection = None, envs_idx: Selection = None
    ) -> None:
        """Track a trajectory with the PD force kp (position - q) + kv (velocity - v) [m, rad; m/s, rad/s].

        Implemented as position control with the target position + kv / kp velocity and the current gains, so later
        changes of the gains need another call. Raises `KinemaError` if any kp is zero.
        """
        self._control.track_dofs(position, velocity, dofs_idx, envs_idx, "control_dofs_position_velocity")

    def control(self, ctrl: Any, actuators_idx: Selection = None, envs_idx: Selection = None) -> None:
        """Set the controls of the file's actuators (MuJoCo's `ctrl`), in the units of each actuator.

        Controls are clamped to the control range. The dofs that the actuators act on return to actuator mode.
        """
        self._control.control_actuators(ctrl, actuators_idx, envs_idx)

    def get_control(self, actuators_idx: Selection = None, envs_idx: Selection = None) -> Any:
        """Current controls of the actuators (MuJoCo's `ctrl`), (n_envs, n)."""
        return self._state.read("ctrl", self._index.actuator_rows(actuators_idx, "get_control"), envs_idx)

    def get_control_range(self, actuators_idx: Selection = None) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of actuator controls, (n,) each; controls are clamped to them."""
        actuators, info = self._index.actuators(actuators_idx, "get_control_range"), self._index.model.actuators
        return info.ctrl_lower[actuators].copy(), info.ctrl_upper[actuators].copy()

    def get_activations(self, actuators_idx: Selection = None, envs_idx: Selection = None) -> np.ndarray:
        """Activations of the actuators (MuJoCo's `act`), (n_envs, n); 0 for actuators without activation state."""
        return self._state.activations(actuators_idx, envs_idx)

    def set_activations(self, activations: Any, actuators_idx: Selection = None, envs_idx: Selection = None) -> None:
        """Set the activations of actuators (MuJoCo's `act`); actuators without activation state are ignored."""
        self._state.set_activations(activations, actuators_idx, envs_idx)

    def get_servo_states(self, actuators_idx: Selection = None, envs_idx: Selection = None) -> np.ndarray:
        """States of PID controllers and DC motors, (n_envs, n, 5); 0 for states that an actuator lacks.

        In this order (`kinema.model.SERVO_STATES`): setpoint behind the slew-rate limit, integral of the position
        error, winding temperature above ambient [K], bristle deflection of the friction model, current [A].
        """
        return self._state.servo_states(actuators_idx, envs_idx)

    def set_servo_states(self, states: Any, actuators_idx: Selection = None, envs_idx: Selection = None) -> None:
        """Set the states of PID controllers and DC motors (see `get_servo_states`); others are ignored."""
        self._state.set_servo_states(states, actuators_idx, envs_idx)

    def apply_links_external_force(self, force: Any, links_idx: Selection = None, envs_idx: Selection = None) -> None:
        """Set external forces at the centres of mass of links [N], (n_envs, n_links, 3); until changed or reset.

        Also one vector (3,) for all links, or (n_envs, 3) for a single one.

        Needs `scene.build(external_forces=True)`.
        """
        label = "apply_links_external_force"
        self._control.apply_to_links("cfrc_applied_vel", force, links_idx, envs_idx, label)

    def apply_links_external_torque(self, torque: Any, links_idx: Selection = None, envs_idx: Selection = None) -> None:
        """Set external torques on links [N m], (n_envs, n_links, 3); in effect until changed or reset.

        Also one vector (3,) for all links, or (n_envs, 3) for a single one.

        Needs `scene.build(external_forces=True)`.
        """
        label = "apply_links_external_torque"
        self._control.apply_to_links("cfrc_applied_ang", torque, links_idx, envs_idx, label)

    def apply_dofs_external_force(self, force: Any, dofs_idx: Selection = None, envs_idx: Selection = None) -> None:
        """Set external generalized forces on dofs (MuJoCo's `qfrc_applied`) [N, N m], added to actuators and control.

        In effect until changed. Needs `scene.build(external_forces=True)`.
        """
        self._control.apply_to_dofs(force, dofs_idx, envs_idx, "apply_dofs_external_force")

    # ----------------------------------------------------------------------------------------------------- state

    def is_present(self, envs_idx: Selection = None) -> np.ndarray:
        """Whether the entity is in each environment, bool (n_envs,): False after `Scene.remove`, until spawned."""
        return is_present(self._index, envs_idx)

    def get_qpos(self, envs_idx: Selection = None, qs_idx: Selection = None) -> Any:
        """Generalized coordinates [m, rad], quaternions (w, x, y, z), (n_envs, n_qs)."""
        return self._state.qpos(envs_idx, qs_idx)

    def set_qpos(
        self, qpos: Any, envs_idx: Selection = None, qs_idx: Selection = None, *, zero_velocity: bool = False
    ) -> None:
        """Set generalized coordinates [m, rad]; quaternions are normalised, and must be selected as a whole.

        NaN, infinity and a quaternion of length 0 raise `KinemaError`, in all setters of states and commands; of a CUDA
        tensor, which is not read by the host, the next step flags the environment as failed. With `zero_velocity` all
        velocities of the entity are set to zero.
        """
        self._state.set_qpos(qpos, envs_idx, qs_idx, zero_velocity=zero_velocity)

    def get_qvel(self, envs_idx: Selection = None) -> Any:
        """Generalized velocities [m/s, rad/s], (n_envs, n_dofs)."""
        return self._state.read("vel", self._index.all_dofs, envs_idx)

    def set_qvel(self, qvel: Any, envs_idx: Selection = None) -> None:
        """Set all generalized velocities [m/s, rad/s], (n_envs, n_dofs)."""
        self._state.set_velocity(qvel, None, envs_idx, "set_qvel")

    def get_dofs_position(self, dofs_idx: Selection = None, envs_idx: Selection = None) -> Any:
        """Joint position of dofs [m, rad], (n_envs, n).

        For a ball or free joint the rotation vector of its quaternion [rad].
        """
        return self._state.dof_positions(dofs_idx, envs_idx)

    def set_dofs_position(
        self, position: Any, dofs_idx: Selection = None, envs_idx: Selection = None, *, zero_velocity: bool = False
    ) -> None:
        """Set the joint positions of dofs in the state [m, rad], without control.

        The three dofs of a quaternion are set together, as a rotation vector [rad]. With `zero_velocity` all velocities
        of the entity are set to zero.
        """
        self._state.set_dof_positions(position, dofs_idx, envs_idx, zero_velocity=zero_velocity)

    def get_dofs_velocity(self, dofs_idx: Selection = None, envs_idx: Selection = None) -> Any:
        """Velocities of dofs [m/s, rad/s], (n_envs, n)."""
        return self._state.read("vel", self._index.dof_rows(dofs_idx, "get_dofs_velocity"), envs_idx)

    def set_dofs_velocity(self, velocity: Any, dofs_idx: Selection = None, envs_idx: Selection = None) -> None:
        """Set the velocities of dofs in the state [m/s, rad/s], without control."""
        self._state.set_velocity(velocity, dofs_idx, envs_idx, "set_dofs_velocity")

    def zero_all_dofs_velocity(self, envs_idx: Selection = None) -> None:
        """Set all velocities of the entity to zero."""
        self._state.set_velocity(0.0, None, envs_idx, "zero_all_dofs_velocity")

    def set_pos(
        self, pos: Any, envs_idx: Selection = None, *, zero_velocity: bool = False, relative: bool = False
    ) -> None:
        """Set the world position of a floating or kinematic base [m], (n_envs, 3).

        With `relative`, `pos` is added to the initial position of the base. With `zero_velocity` all velocities of the
        entity are set to zero.
        """
        self._state.set_base_pose(
            pos, slice(0, 3), envs_idx, zero_velocity=zero_velocity, relative=relative, label="set_pos"
        )

    def set_quat(
        self, quat: Any, envs_idx: Selection = None, *, zero_velocity: bool = False, relative: bool = False
    ) -> None:
        """Set the world orientation of a floating or kinematic base (w, x, y, z), (n_envs, 4); normalised.

        With `relative`, the initial orientation of the base is multiplied by `quat` from the left. With `zero_velocity`
        all velocities of the entity are set to zero.
        """
        self._state.set_base_pose(
            quat, slice(3, 7), envs_idx, zero_velocity=zero_velocity, relative=relative, label="set_quat"
        )

    def set_target_pose(
        self,
        pos: Any = None,
        quat: Any = None,
        duration: float = 0.0,
        *,
        link: EntityLink | str | int | None = None,
        envs_idx: Selection = None,
    ) -> None:
        """Move a kinematic body to a world pose at constant velocity; the velocity enters friction and contacts.

        `set_pos` and `set_quat` place it at once instead, without a velocity. A new target replaces the current one.

        Args:
            pos: position of the link [m], (3,) or (n_envs, 3); None for the current position.
            quat: orientation (w, x, y, z), (4,) or (n_envs, 4), reached by the shorter rotation; None for the current
                orientation.
            duration: time until the pose is reached [s], rounded to steps; 0 (default) for the next step.
            link: kinematic link by name, index or handle; None for the base.
            envs_idx: environments; None for all.
        """
        set_target_pose(self._index, pos, quat, duration, link, envs_idx)

    # ------------------------------------------------------------------------------------------ generalized forces

    def get_dofs_acceleration(self, dofs_idx: Selection = None, envs_idx: Selection = None) -> Any:
        """Generalized accelerations qacc in the current state [m/s2, rad/s2], (n_envs, n)."""
        return self._queries.dofs("acc", dofs_idx, envs_idx, "get_dofs_acceleration")

    def get_dofs_force(self, dofs_idx: Selection = None, envs_idx: Selection = None) -> Any:
        """Sum of all generalized forces in the current state, M qacc [N, N m], (n_envs, n)."""
        return self._queries.dofs("force", dofs_idx, envs_idx, "get_dofs_force")

    def get_dofs_control_force(self, dofs_idx: Selection = None, envs_idx: Selection = None) -> Any:
        """Generalized force of PD control and actuators [N, N m], (n_envs, n)."""
        return self._queries.dofs("qf_control", dofs_idx, envs_idx, "get_dofs_control_force")

    def get_dofs_constraint_force(self, dofs_idx: Selection = None, envs_idx: Selection = None) -> Any:
        """Generalized force of limits, dry friction, couplings, equalities and contacts [N, N m], (n_envs, n)."""
        return self._queries.dofs("qf_constraint", dofs_idx, envs_idx, "get_dofs_constraint_force")

    def get_dofs_passive_force(self, dofs_idx: Selection = None, envs_idx: Selection = None) -> Any:
        """Generalized force of joint springs, dampers and the fluid medium [N, N m], (n_envs, n)."""
        return self._queries.dofs("qf_passive", dofs_idx, envs_idx, "get_dofs_passive_force")

    def get_dofs_bias_force(self, dofs_idx: Selection = None, envs_idx: Selection = None) -> Any:
        """Bias force: gravity, Coriolis and centrifugal terms (MuJoCo's qfrc_bias) [N, N m], (n_envs, n)."""
        return self._queries.dofs("qf_bias", dofs_idx, envs_idx, "get_dofs_bias_force")

    # ------------------------------------------------------------------------------------- links, frames and geoms

    def get_pos(self, envs_idx: Selection = None) -> Any:
        """World position of the base link [m], (n_envs, 3)."""
        return self.base_link.get_pos(envs_idx)

    def get_quat(self, envs_idx: Selection = None) -> Any:
        """World orientation of the base link (w, x, y, z), (n_envs, 4)."""
        return self.base_link.get_quat(envs_idx)

    def get_vel(self, envs_idx: Selection = None) -> Any:
        """Linear velocity of the origin of the base link along the world axes [m/s], (n_envs, 3)."""
        return self.base_link.get_vel(envs_idx)

    def get_ang(self, envs_idx: Selection = None) -> Any:
        """Angular velocity of the base link along the world axes [rad/s], (n_envs, 3)."""
        return self.base_link.get_ang(envs_idx)

    def get_links_pos(self, links_idx: Selection = None, envs_idx: Selection = None, ref: str = "link_origin") -> Any:
        """World positions of link origins, or with ref="link_com" of centres of mass [m], (n_envs, n_links, 3)."""
        return self._queries.link_positions(links_idx, envs_idx, ref)

    def get_links_quat(self, links_idx: Selection = None, envs_idx: Selection = None) -> Any:
        """World orientations of links (w, x, y, z), (n_envs, n_links, 4)."""
        return self._queries.links("quat", links_idx, envs_idx, "get_links_quat")

    def get_links_vel(self, links_idx: Selection = None, envs_idx: Selection = None) -> Any:
        """Linear velocities of link origins along the world axes [m/s], (n_envs, n_links, 3)."""
        return self._queries.links("vel", links_idx, envs_idx, "get_links_vel")

    def get_links_ang(self, links_idx: Selection = None, envs_idx: Selection = None) -> Any:
        """Angular velocities of links along the world axes [rad/s], (n_envs, n_links, 3)."""
        return self._queries.links("ang", links_idx, envs_idx, "get_links_ang")

    def get_links_acc(self, links_idx: Selection = None, envs_idx: Selection = None) -> Any:
        """Linear accelerations of link origins [m/s2], (n_envs, n_links, 3): zero at rest, gravity in free fall."""
        return self._queries.links("acc", links_idx, envs_idx, "get_links_acc")

    def get_links_acc_ang(self, links_idx: Selection = None, envs_idx: Selection = None) -> Any:
        """Angular accelerations of links along the world axes [rad/s2], (n_envs, n_links, 3)."""
        return self._queries.links("cacc_ang", links_idx, envs_idx, "get_links_acc_ang")

    def get_com(self, envs_idx: Selection = None) -> np.ndarray:
        """World position of the centre of mass of the entity [m], (n_envs, 3)."""
        return self._queries.center_of_mass(envs_idx)

    def get_AABB(self, envs_idx: Selection = None) -> np.ndarray:
        """World axis-aligned bounding box of all collision shapes [m], (n_envs, 2, 3): minimum, then maximum."""
        return self._queries.aabb(envs_idx)

    def get_frames_pos(self, frames_idx: Selection = None, envs_idx: Selection = None) -> np.ndarray:
        """World positions of named frames [m], (n_envs, n, 3): MuJoCo's `site_xpos`."""
        return self._queries.frame_poses(frames_idx, envs_idx, "get_frames_pos")[0]

    def get_frames_quat(self, frames_idx: Selection = None, envs_idx: Selection = None) -> np.ndarray:
        """World orientations of named frames (w, x, y, z), (n_envs, n, 4)."""
        return self._queries.frame_poses(frames_idx, envs_idx, "get_frames_quat")[1]

    def get_geoms_pos(self, geoms_idx: Selection = None, envs_idx: Selection = None) -> np.ndarray:
        """World positions of collision geoms [m], (n_envs, n, 3): MuJoCo's `geom_xpos`."""
        return self._queries.geom_poses(geoms_idx, envs_idx, "get_geoms_pos")[0]

    def get_geoms_quat(self, geoms_idx: Selection = None, envs_idx: Selection = None) -> np.ndarray:
        """World orientations of collision geoms (w, x, y, z), (n_envs, n, 4)."""
        return self._queries.geom_poses(geoms_idx, envs_idx, "get_geoms_quat")[1]

    # ------------------------------------------------------------------------------- mass matrix and kinematics

    def get_mass_mat(self, envs_idx: Selection = None, *, decompose: bool = False) -> Any:
        """Joint-space mass matrix M, armature included [kg, kg m, kg m2], (n_envs, n_dofs, n_dofs).

        With `decompose` the factors of M = L^T D L: unit lower triangular L, (n_envs, n_dofs, n_dofs), and the diagonal
        of D^-1, (n_envs, n_dofs).
        """
        return self._queries.mass_matrix(envs_idx, decompose=decompose)

    def get_jacobian(self, link: Any, local_point: Any = None, envs_idx: Selection = None) -> np.ndarray:
        """Geometric Jacobian of a point of a link, (n_envs, 6, n_dofs): linear, then angular rows (world axes).

        Args:
            link: `EntityLink`, or name or index of a link.
            local_point: point in the link frame [m], (3,); None for the link origin.
            envs_idx: environments by index, slice or mask; None for all.
        """
        return self._queries.jacobian(link, local_point, envs_idx)

    def forward_kinematics(
        self, qpos: Any, links_idx: Selection = None, envs_idx: Selection = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """World poses of links at given coordinates (forward kinematics); the scene is not changed.

        Args:
            qpos: coordinates, (n, n_qs) or (n_qs,).
            links_idx: links by index, name, pattern, slice or mask; None for all.
            envs_idx: rows of `qpos` to use, if it has one row per environment; None for all.

        Returns:
            Positions of the link origins [m], (n, n_links, 3), and quaternions (w, x, y, z), (n, n_links, 4).
        """
        return self._kinematics.forward(qpos, links_idx, envs_idx)

    def inverse_kinematics(
        self, link: Any = None, pos: Any = None, quat: Any = None, *, return_error: bool = False, **options: Any
    ) -> Any:
        """Coordinates at which a link reaches a target pose, (n_envs, n_qs), by numerical inverse kinematics.

        The scene is not changed; pass the result to `set_qpos` or to position control.

        Args:
            link: `EntityLink`, or name or index of a link; None if only other objectives (`com`, `posture`) are given.
            pos: target world position of the link origin [m], (3,) or (n_envs, 3); None for any.
            quat: target world orientation (w, x, y, z), (4,) or (n_envs, 4); None for any.
            return_error: return an `IKSolutions` record (`qpos`, `solved`, `pos_error`, `rot_error`, ...) instead of
                the coordinates; default False.
            options: `init_qpos` (initial guess; default the current coordinates), `dofs_idx`, `envs_idx`, `point` of
                the link [m], and the options of `kinema.Kinematics.inverse_kinematics`: `pos_mask`, `rot_mask`,
                `look_at`, `com`, `posture`, `method`, `pos_tol`, `rot_tol`, `max_samples`, ...
        """
        point = options.pop("point", None)
        targets = ([], [], []) if link is None else ([link], [pos], [quat])
        options["points"] = None if point is None else [point]
        return self.inverse_kinematics_multilink(*targets, return_error=return_error, **options)

    def inverse_kinematics_multilink(
        self,
        links: Sequence[Any],
        poss: Sequence[Any] | None = None,
        quats: Sequence[Any] | None = None,
        *,
        return_error: bool = False,
        init_qpos: Any = None,
        envs_idx: Selection = None,
        **options: Any,
    ) -> Any:
        """Coordinates at which several links reach target poses, (n_envs, n_qs), by numerical inverse kinematics.

        Args:
            links: `EntityLink`, name or index of each link.
            poss: target world position of each link origin [m], (3,) or (n_envs, 3); None for any.
            quats: target world orientation of each link (w, x, y, z), (4,) or (n_envs, 4); None for any.
            return_error: return an `IKSolutions` record instead of the coordinates; default False.
            init_qpos: initial guess, (n_envs, n_qs); None for the current coordinates.
            envs_idx: environments whose current coordinates are the initial guess; None for all.
            options: see `inverse_kinematics`; `points` instead of `point`.
        """
        poss, quats = (x if x is not None else [None] * len(links) for x in (poss, quats))
        initial = self.get_qpos(envs_idx) if init_qpos is None else init_qpos
        return self._kinematics.inverse(
            list(links), list(poss), list(quats), initial, return_error=return_error, **options
        )

    def plan_path(  # noqa: PLR0913  public API
        self,
        goal: Any = None,
        *,
        link: Any = None,
        pos: Any = None,
        quat: Any = None,
        start: Any = None,
        dofs_idx: Selection = None,
        attached: dict[Any, Any] | None = None,
        ignore: Sequence[tuple[Any, Any]] = (),
        padding: float = 0.0,
        max_velocity: Any = None,
        max_acceleration: Any = None,
        max_jerk: Any = None,
        dt: float | None = None,
        num_waypoints: int | None = None,
        timeout: float = 10.0,
        seed: int = 0,
        envs_idx: Selection = None,
        return_plans: bool = False,
    ) -> Any:
        """Motion to a goal without collisions, by RRT-Connect, shortcutting and time parameterisation.

        The start is the current state; everything else in the scene stands still. The whole motion is certified free of
        collisions, not only samples of it. Pairs of geoms that cannot collide in the simulation, and pairs of geoms of
        the robot that touch in nearly all configurations, are ignored. The scene is not changed: pass one row after the
        other to `control_dofs_position`.

        Args:
            goal: goal coordinates, (n_qs,) or (n_envs, n_qs).
            link: instead of `goal`: link that reaches a target pose, as handle, name or index.
            pos: target position of the link [m], (3,) or (n_envs, 3); None for any.
            quat: target orientation of the link (w, x, y, z), (4,) or (n_envs, 4); None for any.
            start: coordinates at the start, (n_qs,) or (n_envs, n_qs); None for the current ones.
            dofs_idx: degrees of freedom that may move; None for those of the chains of joints that the goal changes, or
                that move the link.
            attached: carried entities, and for each the link that carries it: they move with it. None for the entities
                that are welded to the robot by `Scene.attach`.
            ignore: pairs of entities or links (`get_link`) that may collide.
            padding: distance that the robot and carried entities keep from everything else [m]; default 0.
            max_velocity: velocity limit, one for all or (n_dofs,) [rad/s, m/s]; None for that of the file, else 1.5.
            max_acceleration: acceleration limit; None for that of the file, else velocity limit / 0.25 s.
            max_jerk: jerk limit; None for that of the file, else acceleration limit / 0.1 s.
            dt: time between samples [s]; None for the time step of the scene.
            num_waypoints: number of samples, equally spaced in time; None for one every `dt`.
            timeout: time after which the search is given up, for each environment [s]; default 10.
            seed: random seed, default 0; equal problems have equal paths.
            envs_idx: environments by index, slice or mask; None for all.
            return_plans: return a list of `MotionPlan` (waypoints, trajectory with velocities) instead.

        Returns:
            Positions of all degrees of freedom, (steps, n_dofs) in a scene of one environment, else (steps, n_envs,
            n_dofs): shorter motions wait at their goal. Raises `kinema.kinematics.PlanningError` if start or goal are
            in collision, naming the geoms, or if no path was found.
        """
        request = PlanRequest(
            goal=goal,
            link=link,
            pos=pos,
            quat=quat,
            start=start,
            dofs_idx=dofs_idx,
            attached=attached,
            ignore=ignore,
            padding=padding,
            max_velocity=max_velocity,
            max_acceleration=max_acceleration,
            max_jerk=max_jerk,
            dt=dt,
            timeout=timeout,
            seed=seed,
            envs_idx=envs_idx,
        )
        plans = self._planner.plan(self, request)
        return plans if return_plans else sample_plans(plans, num_waypoints, self._index.built)

    # ---------------------------------------------------------------------------------------- contacts and sleeping

    def get_contacts(
        self, envs_idx: Selection = None, *, with_entity: Any = None, exclude_self_contact: bool = False
    ) -> Contacts:
        """Current contacts of the geoms of the entity, (n_envs, n, ...) by name; see `Scene.get_contacts`.

        Args:
            envs_idx: environments by index, slice or mask; None for all.
            with_entity: only contacts with this entity; None for any.
            exclude_self_contact: leave out contacts between two geoms of the entity.
        """
        built = self._index.built
        other = None if with_entity is None else built.model.entities.index(with_entity.info)
        return collect_contacts(built, envs_idx, self._index.number, other, exclude_self=exclude_self_contact)

    def get_links_net_contact_force(self, envs_idx: Selection = None) -> np.ndarray:
        """Sum of all contact forces on each link along the world axes [N], (n_envs, n_links, 3)."""
        return net_contact_forces(self._index.built, envs_idx)[:, self._index.all_links]

    def get_links_asleep(self, envs_idx: Selection = None) -> np.ndarray:
        """Whether each link of the entity is asleep, bool (n_envs, n_links); all False without `Scene(sleep=...)`."""
        return links_asleep(self._index.built.engine, self._index.all_links, envs_idx)

    def is_asleep(self, envs_idx: Selection = None) -> np.ndarray:
        """Whether all movable links of the entity are asleep, bool (n_envs,)."""
        movable = ~self._index.built.model.links.is_fixed[self._index.all_links]
        asleep = self.get_links_asleep(envs_idx)[:, movable]
        return np.logical_and(asleep.all(axis=1), movable.any())

    def wake(self, envs_idx: Selection = None) -> None:
        """Wake the entity and all bodies of its sleeping islands, in the selected environments (None for all)."""
        wake_trees(self._index.built.arrays, self._index.all_links, envs_idx)

    # ---------------------------------------------------------------------------------------- parameters of dofs

    def get_dofs_kp(self, dofs_idx: Selection = None, envs_idx: Selection = None) -> np.ndarray:
        """Proportional gain kp of position control [N/m, N m/rad], (n,); (n_envs, n) if per environment."""
        return self._parameters.get_dofs("kp", dofs_idx, envs_idx)

    def set_dofs_kp(self, kp: Any, dofs_idx: Selection = None, envs_idx: Selection = None) -> None:
        """Set the proportional gain kp >= 0 of position control [N/m, N m/rad], (n,) or a scalar.

        (n_envs, n) needs `per_env=("kp",)`.
        """
        self._parameters.set_dofs("kp", kp, dofs_idx, envs_idx)

    def get_dofs_kv(self, dofs_idx: Selection = None, envs_idx: Selection = None) -> np.ndarray:
        """Velocity gain kv of PD and velocity control [N s/m, N m s/rad], (n,); (n_envs, n) if per environment."""
        return self._parameters.get_dofs("kv", dofs_idx, envs_idx)

    def set_dofs_kv(self, kv: Any, dofs_idx: Selection = None, envs_idx: Selection = None) -> None:
        """Set the velocity gain kv >= 0 of position and velocity control [N s/m, N m s/rad], (n,) or a scalar.

        (n_envs, n) needs `per_env=("kv",)`.
        """
        self._parameters.set_dofs("kv", kv, dofs_idx, envs_idx)

    def get_dofs_force_range(
        self, dofs_idx: Selection = None, envs_idx: Selection = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Least and greatest control force [N, N m], (n,) each; (n_envs, n) if per environment."""
        get = self._parameters.get_dofs
        return get("force_lower", dofs_idx, envs_idx), get("force_upper", dofs_idx, envs_idx)

    def set_dofs_force_range(self, lower: Any, upper: Any, dofs_idx: Selection = None) -> None:
        """Set the range that control forces are clamped to [N, N m], (n,) or a scalar; -inf and inf for none."""
        self._parameters.set_force_range(lower, upper, dofs_idx)

    def get_dofs_armature(self, dofs_idx: Selection = None, envs_idx: Selection = None) -> np.ndarray:
        """Armature (rotor inertia) added to the diagonal of the mass matrix [kg, kg m2], (n,).

        (n_envs, n) if per environment.
        """
        return self._parameters.get_dofs("armature", dofs_idx, envs_idx)

    def set_dofs_armature(self, armature: Any, dofs_idx: Selection = None, envs_idx: Selection = None) -> None:
        """Set the armature (rotor inertia) >= 0 added to the diagonal of the mass matrix [kg, kg m2].

        Before build, or at any time with `per_env=("armature",)`.
        """
        self._parameters.set_dofs("armature", armature, dofs_idx, envs_idx)

    def get_dofs_damping(self, dofs_idx: Selection = None, envs_idx: Selection = None) -> np.ndarray:
        """Passive joint damping [N s/m, N m s/rad], (n,); (n_envs, n) if per environment."""
        return self._parameters.get_dofs("damping", dofs_idx, envs_idx)

    def set_dofs_damping(self, damping: Any, dofs_idx: Selection = None, envs_idx: Selection = None) -> None:
        """Set the passive joint damping >= 0 [N s/m, N m s/rad].

        Before build, or at any time with `per_env=("damping",)`.
        """
        self._parameters.set_dofs("damping", damping, dofs_idx, envs_idx)

    def get_dofs_stiffness(self, dofs_idx: Selection = None, envs_idx: Selection = None) -> np.ndarray:
        """Stiffness of passive joint springs [N/m, N m/rad], (n,); (n_envs, n) if per environment."""
        return self._parameters.get_dofs("stiffness", dofs_idx, envs_idx)

    def set_dofs_stiffness(self, stiffness: Any, dofs_idx: Selection = None) -> None:
        """Set the stiffness of passive joint springs [N/m, N m/rad], (n,) or a scalar; only before build."""
        self._parameters.set_dofs("stiffness", stiffness, dofs_idx, None)

    def get_dofs_limit(self, dofs_idx: Selection = None, envs_idx: Selection = None) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper position limits of dofs [m, rad], (n,) each; (n_envs, n) if per environment.

        Infinite if there is none; 0 and the greatest angle for a ball joint.
        """
        return self._parameters.limits(dofs_idx, envs_idx)

    def set_dofs_limit(self, lower: Any, upper: Any, dofs_idx: Selection = None, envs_idx: Selection = None) -> None:
        """Set the lower and upper position limits of dofs [m, rad], (n,) or a scalar; -inf and inf for none.

        After build only of dofs that had limits when the scene was built. (n_envs, n) needs `per_env=("limit",)`.
        """
        self._parameters.set_limits(lower, upper, dofs_idx, envs_idx)

    def get_dofs_frictionloss(self, dofs_idx: Selection = None, envs_idx: Selection = None) -> np.ndarray:
        """Dry friction (frictionloss) of dofs [N, N m], (n,); (n_envs, n) if per environment."""
        return self._parameters.get_dofs("frictionloss", dofs_idx, envs_idx)

    def set_dofs_frictionloss(self, frictionloss: Any, dofs_idx: Selection = None, envs_idx: Selection = None) -> None:
        """Set the dry friction (frictionloss) >= 0 of dofs [N, N m].

        Before build, or with `per_env=("frictionloss",)` of dofs that had dry friction when the scene was built.
        """
        self._parameters.set_frictionloss(frictionloss, dofs_idx, envs_idx)

    def get_dofs_sol_params(
        self, dofs_idx: Selection = None, envs_idx: Selection = None, kind: str = "limit"
    ) -> np.ndarray:
        """MuJoCo's solref (2) and solimp (5) of joint limits, or with kind="friction" of dry friction, (n, 7).

        (n_envs, n, 7) with `per_env=("sol_params",)`.
        """
        return self._parameters.sol_params(kind, dofs_idx, envs_idx)

    def set_dofs_sol_params(
        self, params: Any, dofs_idx: Selection = None, envs_idx: Selection = None, kind: str = "limit"
    ) -> None:
        """Set solref (2) and solimp (5) of joint limits, or with kind="friction" of dry friction.

        Seven numbers, (n, 7) or (n_envs, n, 7). Needs `per_env=("sol_params",)`. The last number, the power of the
        impedance, keeps its value at build.
        """
        self._parameters.set_sol_params(params, kind, dofs_idx, envs_idx)

    def get_dofs_invweight(self, dofs_idx: Selection = None, envs_idx: Selection = None) -> np.ndarray:
        """Inverse weight (inverse effective inertia) of dofs in the initial configuration [1/kg, 1/(kg m2)], (n,).

        (n_envs, n) after a change of masses, centres of mass or armatures per environment, for which it is recomputed.
        """
        return self._parameters.invweight(dofs_idx, envs_idx)

    # --------------------------------------------------------------------------- parameters of links, gravity

    def get_mass(self, envs_idx: Selection = None) -> Any:
        """Total mass of all links [kg]: a scalar; (n_envs,) if masses differ between environments."""
        return self.get_links_inertial_mass(None, envs_idx).sum(axis=-1)

    def set_mass(self, mass: Any, envs_idx: Selection = None) -> None:
        """Set the total mass [kg], a scalar or (n_envs,); masses and inertias of all links scale with the same factor.

        Needs `per_env=("mass_shift",)`.
        """
        self._parameters.set_total_mass(mass, envs_idx)

    def get_links_inertial_mass(self, links_idx: Selection = None, envs_idx: Selection = None) -> np.ndarray:
        """Masses of links [kg], (n_links,); (n_envs, n_links) with variants or `per_env=("mass_shift",)`."""
        return self._parameters.masses(links_idx, envs_idx)

    def set_links_inertial_mass(self, mass: Any, links_idx: Selection = None, envs_idx: Selection = None) -> None:
        """Set the masses of links >= 0 [kg]; the inertia of a link scales with its mass.

        Needs `per_env=("mass_shift",)`.
        """
        self._parameters.set_masses(mass, links_idx, envs_idx)

    def set_mass_shift(self, shift: Any, links_idx: Selection = None, envs_idx: Selection = None) -> None:
        """Set mass shifts, added to the masses of the description [kg], may be negative; inertias scale with the mass.

        Needs `per_env=("mass_shift",)`.
        """
        self._parameters.set_mass_shift(shift, links_idx, envs_idx)

    def set_com_shift(self, shift: Any, links_idx: Selection = None, envs_idx: Selection = None) -> None:
        """Set displacements of the centres of mass of links, along the axes of the link [m], (n_envs, n_links, 3).

        Needs `per_env=("com_shift",)`.
        """
        self._parameters.set_com_shift(shift, links_idx, envs_idx)

    def set_gravity(self, gravity: Any, envs_idx: Selection = None) -> None:
        """Set the gravitational acceleration of the whole scene [m/s2], (3,).

        (n_envs, 3) needs `per_env=("gravity",)`.
        """
        write_parameter(self._index.built, "gravity", slice(None), (3,), gravity, envs_idx, "set_gravity")

    # ---------------------------------------------------------------------------------------- parameters of geoms

    def get_geoms_friction(self, geoms_idx: Selection = None, envs_idx: Selection = None) -> np.ndarray:
        """Friction of geoms: sliding coefficient, torsional [m], rolling [m], (n_envs, n, 3)."""
        return self._geom_parameters.friction(geoms_idx, envs_idx)

    def set_geoms_friction(self, friction: Any, geoms_idx: Selection = None, envs_idx: Selection = None) -> None:
        """Set the sliding friction of geoms, (n_envs, n), or sliding, torsional [m] and rolling [m], (n_envs, n, 3).

        Needs `per_env=("geom_friction",)`. A contact uses the larger friction of its two geoms, or that of the geom
        with higher priority; explicit pairs of a file keep their own friction. Values are raised to at least 1e-5.
        """
        self._geom_parameters.set_friction(friction, geoms_idx, envs_idx, "set_geoms_friction")

    def set_friction(self, friction: Any, envs_idx: Selection = None) -> None:
        """Set the sliding friction of all geoms of the entity, a scalar or (n_envs, 1).

        Needs `per_env=("geom_friction",)`.
        """
        self._geom_parameters.set_friction(friction, None, envs_idx, "set_friction")

    def set_friction_ratio(self, ratio: Any, links_idx: Selection = None, envs_idx: Selection = None) -> None:
        """Set the sliding friction of the geoms of links to a multiple of its value at build time, (n_envs, n_links).

        Needs `per_env=("geom_friction",)`.
        """
        self._geom_parameters.set_friction_ratio(ratio, links_idx, envs_idx)

    def get_geoms_sol_params(self, geoms_idx: Selection = None, envs_idx: Selection = None) -> np.ndarray:
        """Contact parameters of geoms: MuJoCo's solref (2) and solimp (5), (n_envs, n, 7)."""
        return self._geom_parameters.sol_params(geoms_idx, envs_idx)

    def set_geoms_sol_params(self, params: Any, geoms_idx: Selection = None, envs_idx: Selection = None) -> None:
        """Set the contact parameters solref (2) and solimp (5) of geoms: seven numbers, (n, 7) or (n_envs, n, 7).

        Needs `per_env=("geom_sol_params",)`. The parameters of two geoms in contact are mixed as in MuJoCo (priority,
        solmix). The last number, the power of the impedance, keeps its value at build.
        """
        self._geom_parameters.set_sol_params(params, geoms_idx, envs_idx)

    def get_geoms_size(self, geoms_idx: Selection = None, envs_idx: Selection = None) -> np.ndarray:
        """Sizes of geoms [m], (n_envs, n, 3), by type; unused components are zero.

        Sphere: radius; capsule, cylinder, cone: radius, half length; box: half extents; ellipsoid: semi-axes. If
        variants have different geoms, those absent in an environment have the size of another variant.
        """
        return self._geom_parameters.size(geoms_idx, envs_idx)

    def set_geoms_size(self, size: Any, geoms_idx: Selection = None, envs_idx: Selection = None) -> None:
        """Set the sizes of geoms [m], in the layout of `get_geoms_size`; masses and inertias are not changed.

        Needs `per_env=("geom_size",)`. Raises `KinemaError` for planes, meshes and height fields.
        """
        self._geom_parameters.set_size(size, geoms_idx, envs_idx)


def _concatenate_indices(
    selections: tuple[Selection, ...], resolve: Callable[[Selection, str], IndexArray], label: str
) -> IndexArray:
    """Indices of several selections, one after the other; all indices without selections."""
    return np.concatenate([resolve(selection, label) for selection in selections or (None,)])
