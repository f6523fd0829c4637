"""One robot, or one file with several, in a scene: its state, in the order of its description's joints."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from kinema.description import Robot, World, qualified
from kinema.foundation import KinemaError
from kinema.model import EntityInfo, Model, Motion

from .batches import Index, batched, environments, items
from .contacts import contacts_of
from .geoms import Geoms
from .parts import EntityJoint, EntityLink
from .reaching import Reaching
from .running import HasRunning, Running
from .views import not_built


class Entity(Geoms, Reaching):
    """What was added to a scene in one go.

    Arrays have environments first, `(n_envs, n)`; a setter takes one row for all environments as well. `envs_idx`
    selects environments by number or mask. Links, joints and degrees of freedom are numbered within the entity, and may
    be called by name. Coordinates are laid out as MuJoCo's: x, y, z and a quaternion (w, x, y, z) of a free joint, in
    the world; a quaternion of a spherical one; its velocity is linear along the world's axes, angular along the link's.
    """

    def __init__(self, scene: HasRunning, name: str, description: Robot | World, alone: Model) -> None:
        self.scene = scene
        self.name = name
        self.description = description
        self._alone = alone
        """The model of this entity only: what its names and sizes are read from."""
        self._constants: dict[str, dict[int, float]] = {}
        self._info: EntityInfo | None = None
        self._all_dofs = np.arange(alone.n_dofs)
        self.links = [
            EntityLink(self, link, i, float(alone.links.inertial_mass[i])) for i, link in enumerate(alone.links.names)
        ]
        self.joints = [self._joint(i, called) for i, called in enumerate(_joint_names(description, alone))]
        self.dof_names = [
            joint.name if joint.n_dofs == 1 else f"{joint.name}[{i}]"
            for joint in self.joints
            for i in range(joint.n_dofs)
        ]
        """A joint's name, or `name[i]` where it has several degrees of freedom."""

    def __repr__(self) -> str:
        return f"<Entity {self.name!r}: {self.n_links} links, {self.n_dofs} degrees of freedom>"

    def _joint(self, i: int, name: str) -> EntityJoint:
        joints = self._alone.joints
        return EntityJoint(
            self,
            name,
            joints.kinds[i],
            self._alone.links.names[int(joints.link_idx[i])],
            tuple(range(int(joints.dof_start[i]), int(joints.dof_end[i]))),
            tuple(range(int(joints.q_start[i]), int(joints.q_end[i]))),
        )

    # ------------------------------------------------------------------------------------------- names and sizes

    @property
    def n_links(self) -> int:
        """Links."""
        return self._alone.n_links

    @property
    def n_joints(self) -> int:
        """Joints that move."""
        return len(self.joints)

    @property
    def n_dofs(self) -> int:
        """Degrees of freedom: the length of a velocity."""
        return self._alone.n_dofs

    @property
    def n_qs(self) -> int:
        """Coordinates: the length of a position."""
        return self._alone.n_qs

    @property
    def n_actuators(self) -> int:
        """Actuators of the file that are simulated."""
        return self._alone.n_actuators

    @property
    def actuator_names(self) -> list[str]:
        """In the order of `control`."""
        return list(self._alone.actuators.names)

    @property
    def keyframe_names(self) -> list[str]:
        """The states that its file names, in the order of their numbers, for `Scene.reset(keyframe=...)`."""
        return list(self._alone.keyframes.names)

    @property
    def base_link(self) -> EntityLink:
        """The first link that hangs on no other."""
        return next(x for x in self.links if self._alone.links.parent_idx[x.idx] < 0)

    def get_link(self, name: str) -> EntityLink:
        """The link of that name."""
        return self.links[int(items(name, self._alone.links.names, "get_link", "links")[0])]

    def get_joint(self, name: str) -> EntityJoint:
        """The joint of that name."""
        return self.joints[int(items(name, [j.name for j in self.joints], "get_joint", "moving joints")[0])]

    def dofs_of(self, *joints: str) -> list[int]:
        """The numbers of all degrees of freedom of some joints."""
        return [dof for name in joints for dof in self.get_joint(name).dofs_idx]

    # --------------------------------------------------------------------------------------- what the others need

    @property
    def info(self) -> EntityInfo:
        """Its place in the scene's arrays; only once the scene is built."""
        if self._info is None:
            raise not_built()
        return self._info

    @property
    def _running(self) -> Running:
        return self.scene.running

    def _dofs(self, dofs_idx: Any, what: str) -> Index:
        """Degrees of freedom, numbered within the entity; a joint's name stands for all of its own."""
        if dofs_idx is None:
            return self._all_dofs
        if isinstance(dofs_idx, str):
            dofs_idx = [dofs_idx]
        if isinstance(dofs_idx, list | tuple) and any(isinstance(x, str) for x in dofs_idx):
            joints = {j.name: j.dofs_idx for j in self.joints}
            named = [joints.get(x, (x,)) if isinstance(x, str) else (x,) for x in dofs_idx]
            dofs_idx = [dof for group in named for dof in group]
        return items(dofs_idx, self.dof_names, f"{what}: dofs_idx", "degrees of freedom")

    def _links(self, links_idx: Any, what: str) -> Index:
        return items(links_idx, self._alone.links.names, f"{what}: links_idx", "links")

    # --------------------------------------------------------------------------------------------------- state

    def get_qpos(self, envs_idx: Any = None) -> np.ndarray:
        """Coordinates [m, rad], (n_envs, n_qs)."""
        info = self.info
        return self._get("qpos", slice(info.q_start, info.q_end), envs_idx)

    def get_qvel(self, envs_idx: Any = None) -> np.ndarray:
        """Velocities [m/s, rad/s], (n_envs, n_dofs)."""
        info = self.info
        return self._get("vel", slice(info.dof_start, info.dof_end), envs_idx)

    def set_qpos(self, qpos: Any, envs_idx: Any = None) -> None:
        """Put it there; quaternions are normalised. Numbers that are none are taken, and flagged by the next step."""
        info = self.info
        q, envs = self._batch(qpos, self.n_qs, envs_idx, "set_qpos")
        self._running.memory.write("qpos", slice(info.q_start, info.q_end), self._normalised(q), envs)

    def set_qvel(self, qvel: Any, envs_idx: Any = None) -> None:
        """Move it so fast."""
        info = self.info
        v, envs = self._batch(qvel, self.n_dofs, envs_idx, "set_qvel")
        self._running.memory.write("vel", slice(info.dof_start, info.dof_end), v, envs)

    def get_activations(self, actuators_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Activations of the file's actuators, in the order of `control`, (n_envs, n); 0 for those that have none."""
        own = self._actuators(actuators_idx, "get_activations")
        running = self._running
        if not running.model.actuators.has_activation.any():
            envs = environments(envs_idx, running.n_envs)
            return np.zeros((running.n_envs if envs is None else len(envs), len(own)), running.memory.dtype)
        return self._get("act", self.info.actuator_start + own, envs_idx)

    def set_activations(self, activations: Any, actuators_idx: Any = None, envs_idx: Any = None) -> None:
        """Let actuators be so active now, whatever they are told; those that have no activation stay without."""
        own = self._actuators(actuators_idx, "set_activations")
        values, envs = self._batch(activations, len(own), envs_idx, "set_activations")
        has = self._alone.actuators.has_activation[own]
        if has.any():
            rows = self.info.actuator_start + own[has]
            self._running.memory.write("act", rows, values[:, has], envs)

    def _actuators(self, actuators_idx: Any, what: str) -> Index:
        return items(actuators_idx, self.actuator_names, f"{what}: actuators_idx", "actuators")

    def _get(self, name: str, rows: slice | Index, envs_idx: Any) -> np.ndarray:
        running = self._running
        return running.memory.read(name, rows, environments(envs_idx, running.n_envs))

    def _batch(self, values: Any, count: int, envs_idx: Any, what: str) -> tuple[np.ndarray, Index | None]:
        running = self._running
        envs = environments(envs_idx, running.n_envs)
        n_envs = running.n_envs if envs is None else len(envs)
        return batched(values, n_envs, (count,), running.memory.dtype, what), envs

    def _quaternions(self) -> list[slice]:
        frames = self._alone.frames
        starts = frames.q_start[frames.motion == Motion.BALL]
        return [slice(int(s), int(s) + 4) for s in starts]

    def _normalised(self, q: np.ndarray) -> np.ndarray:
        places = self._quaternions()
        if not places:
            return q
        q = np.array(q)
        for place in places:
            with np.errstate(all="ignore"):  # numbers that are none are taken
                length = np.linalg.norm(q[:, place].astype(np.float64), axis=1, keepdims=True)
            if (length == 0.0).any():
                raise KinemaError(
                    f"set_qpos: coordinates {place.start} to {place.stop - 1} are a quaternion of length 0"
                )
            with np.errstate(all="ignore"):
                q[:, place] = q[:, place] / length
        return q

    def get_dofs_position(self, dofs_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Position of each degree of freedom, (n_envs, n); those of a quaternion are its rotation vector [rad]."""
        return _positions(self._alone, self.get_qpos(envs_idx))[:, self._dofs(dofs_idx, "get_dofs_position")]

    def get_dofs_velocity(self, dofs_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Velocity of each degree of freedom, (n_envs, n)."""
        return self.get_qvel(envs_idx)[:, self._dofs(dofs_idx, "get_dofs_velocity")]

    def get_dofs_force(self, dofs_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """All that accelerates each degree of freedom now: weight, gyration, springs, control [N, N m], (n_envs, n)."""
        return self._dofs_field("force", dofs_idx, envs_idx, "get_dofs_force")

    def get_dofs_control_force(self, dofs_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """What control and actuators do of it [N, N m], (n_envs, n)."""
        return self._dofs_field("qf_control", dofs_idx, envs_idx, "get_dofs_control_force")

    def get_dofs_constraint_force(self, dofs_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """What limits, dry friction, couplings, ties and contacts do of it [N, N m], (n_envs, n)."""
        return self._dofs_field("qf_constraint", dofs_idx, envs_idx, "get_dofs_constraint_force")

    def get_contacts(self, envs_idx: Any = None) -> dict[str, np.ndarray]:
        """What touches any of its links now; see `Scene.get_contacts`."""
        return contacts_of(self._running, envs_idx, range(self.info.link_start, self.info.link_end))

    def _dofs_field(self, name: str, dofs_idx: Any, envs_idx: Any, what: str) -> np.ndarray:
        own = self._dofs(dofs_idx, what)
        running = self._running
        envs = environments(envs_idx, running.n_envs)
        if not running.model.n_dofs:
            return np.zeros((running.n_envs if envs is None else len(envs), 0), running.memory.dtype)
        rows = getattr(running.engine.fields.dofs_state, name).numpy()[self.info.dof_start + own]
        return _chosen(rows.T, envs)

    # --------------------------------------------------------------------------------------------------- links

    def get_pos(self, envs_idx: Any = None) -> np.ndarray:
        """Position of the base link in the world [m], (n_envs, 3)."""
        return self.base_link.get_pos(envs_idx)

    def get_quat(self, envs_idx: Any = None) -> np.ndarray:
        """Orientation of the base link in the world (w, x, y, z), (n_envs, 4)."""
        return self.base_link.get_quat(envs_idx)

    def get_vel(self, envs_idx: Any = None) -> np.ndarray:
        """Velocity of the base link's origin along the world's axes [m/s], (n_envs, 3)."""
        return self.base_link.get_vel(envs_idx)

    def get_ang(self, envs_idx: Any = None) -> np.ndarray:
        """Angular velocity of the base link along the world's axes [rad/s], (n_envs, 3)."""
        return self.base_link.get_ang(envs_idx)

    def get_links_pos(self, links_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Positions of links' origins in the world [m], (n_envs, n_links, 3)."""
        return self._links_field("pos", links_idx, envs_idx)

    def get_links_quat(self, links_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Orientations of links in the world (w, x, y, z), (n_envs, n_links, 4)."""
        return self._links_field("quat", links_idx, envs_idx)

    def get_links_vel(self, links_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Velocities of links' origins along the world's axes [m/s], (n_envs, n_links, 3)."""
        return self._links_field("vel", links_idx, envs_idx)

    def get_links_ang(self, links_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Angular velocities of links along the world's axes [rad/s], (n_envs, n_links, 3)."""
        return self._links_field("ang", links_idx, envs_idx)

    def _links_field(self, name: str, links_idx: Any, envs_idx: Any) -> np.ndarray:
        """A field of links, (n_envs, n_links, numbers): the one that `links_state` has, from the same place."""
        running = self._running
        own = self.info.link_start + self._links(links_idx, f"get_links_{name}")
        values = getattr(running.engine.fields.links_state, name).numpy()[own]
        return _chosen(np.moveaxis(values, 1, 0), environments(envs_idx, running.n_envs))


def _joint_names(description: Robot | World, model: Model) -> list[str]:
    """The joints' names, with their robot's before them where several robots of a file have one of that name."""
    names = model.joints.names
    shared = {name for name, count in Counter(names).items() if count > 1}
    if not shared or isinstance(description, Robot):
        return list(names)
    robots = {name: robot for name, robot, _ in description.named_links()}
    moved = [model.links.names[int(i)] for i in model.joints.link_idx]
    return [qualified(robots[link], name, shared) for name, link in zip(names, moved, strict=True)]


def _chosen(values: np.ndarray, envs: Index | None) -> np.ndarray:
    return np.array(values if envs is None else values[envs], order="C")


@np.errstate(all="ignore")
def _positions(model: Model, qpos: np.ndarray) -> np.ndarray:
    """Coordinates by degree of freedom, quaternions as rotation vectors."""
    frames, dofs = model.frames, model.dofs
    result = np.zeros((len(qpos), model.n_dofs), qpos.dtype)
    plain = dofs.q_idx >= 0
    result[:, plain] = qpos[:, dofs.q_idx[plain]]
    for frame in np.flatnonzero(frames.motion == Motion.BALL):
        q, dof = int(frames.q_start[frame]), int(frames.dof_start[frame])
        quaternion = qpos[:, q : q + 4] * np.where(qpos[:, q : q + 1] < 0, -1.0, 1.0)  # the shorter way round
        sine = np.linalg.norm(quaternion[:, 1:], axis=1)
        angle = 2.0 * np.arctan2(sine, quaternion[:, 0])
        scale = np.where(sine > 1e-12, angle / np.where(sine > 1e-12, sine, 1.0), 2.0)
        result[:, dof : dof + 3] = quaternion[:, 1:] * scale[:, None]
    return result
