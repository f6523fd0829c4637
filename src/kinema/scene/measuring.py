"""What can be asked about an entity: forces, links, inertia, Jacobians, contacts."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from kinema.description import Robot, Shape, World
from kinema.foundation import KinemaError

from .arguments import choice, numbers
from .batches import by_name, environments
from .contacts import contacts_of, net_forces
from .extents import reach
from .parts import EntityLink
from .placing import Placing

REFERENCES = ("link_origin", "link_com")


class Measuring(Placing):
    """The part of an entity that is looked at. All vectors are along the world's axes."""

    links: list[EntityLink]
    description: Robot | World

    @property
    @abstractmethod
    def variant_idx(self) -> np.ndarray:
        """Which variant each environment has."""

    @property
    def base_link(self) -> EntityLink:
        """The first link that hangs on no other."""
        return next(x for x in self.links if self._alone.links.parent_idx[x.idx] < 0)

    # ---------------------------------------------------------------------------------------------------- forces

    def get_dofs_acceleration(self, dofs_idx: Any = None, envs_idx: Any = None) -> Any:
        """The acceleration that the forces cause now [m/s2, rad/s2], (n_envs, n)."""
        return self._dofs_field("acc", dofs_idx, envs_idx, "get_dofs_acceleration")

    def get_dofs_force(self, dofs_idx: Any = None, envs_idx: Any = None) -> Any:
        """All that accelerates each degree of freedom now: weight, gyration, springs, control [N, N m], (n_envs, n)."""
        return self._dofs_field("force", dofs_idx, envs_idx, "get_dofs_force")

    def get_dofs_control_force(self, dofs_idx: Any = None, envs_idx: Any = None) -> Any:
        """What control and actuators do of it [N, N m], (n_envs, n)."""
        return self._dofs_field("qf_control", dofs_idx, envs_idx, "get_dofs_control_force")

    def get_dofs_constraint_force(self, dofs_idx: Any = None, envs_idx: Any = None) -> Any:
        """What limits, dry friction, couplings, ties and contacts do of it [N, N m], (n_envs, n)."""
        return self._dofs_field("qf_constraint", dofs_idx, envs_idx, "get_dofs_constraint_force")

    def get_dofs_passive_force(self, dofs_idx: Any = None, envs_idx: Any = None) -> Any:
        """What springs, dampers and the medium do of it [N, N m], (n_envs, n)."""
        return self._dofs_field("qf_passive", dofs_idx, envs_idx, "get_dofs_passive_force")

    def get_dofs_bias_force(self, dofs_idx: Any = None, envs_idx: Any = None) -> Any:
        """What would keep it from accelerating: against weight, Coriolis, centrifugal forces [N, N m], (n_envs, n)."""
        return self._dofs_field("qf_bias", dofs_idx, envs_idx, "get_dofs_bias_force")

    def _dofs_field(self, name: str, dofs_idx: Any, envs_idx: Any, what: str) -> Any:
        own = self._dofs(dofs_idx, what)
        running = self._running
        envs = running.outputs.envs(envs_idx)
        if not running.model.n_dofs:
            return running.outputs.hand(np.zeros((running.n_envs if envs is None else len(envs), 0)))
        source = getattr(running.engine.fields.dofs_state, name)
        return running.outputs.pick(source, self.info.dof_start + own, envs)

    # ----------------------------------------------------------------------------------------------------- links

    def get_pos(self, envs_idx: Any = None) -> Any:
        """Position of the base link in the world [m], (n_envs, 3)."""
        return self.base_link.get_pos(envs_idx)

    def get_quat(self, envs_idx: Any = None) -> Any:
        """Orientation of the base link in the world (w, x, y, z), (n_envs, 4)."""
        return self.base_link.get_quat(envs_idx)

    def get_vel(self, envs_idx: Any = None) -> Any:
        """Velocity of the base link's origin along the world's axes [m/s], (n_envs, 3)."""
        return self.base_link.get_vel(envs_idx)

    def get_ang(self, envs_idx: Any = None) -> Any:
        """Angular velocity of the base link along the world's axes [rad/s], (n_envs, 3)."""
        return self.base_link.get_ang(envs_idx)

    def get_links_pos(self, links_idx: Any = None, envs_idx: Any = None, ref: str = "link_origin") -> Any:
        """Positions of links' origins, or of their centres of mass (`link_com`) [m], (n_envs, n_links, 3)."""
        ref = choice(ref, "get_links_pos: ref", REFERENCES)
        return self._links_field("pos" if ref == "link_origin" else "i_pos", links_idx, envs_idx, "get_links_pos")

    def get_links_quat(self, links_idx: Any = None, envs_idx: Any = None) -> Any:
        """Orientations of links in the world (w, x, y, z), (n_envs, n_links, 4)."""
        return self._links_field("quat", links_idx, envs_idx, "get_links_quat")

    def get_links_vel(self, links_idx: Any = None, envs_idx: Any = None) -> Any:
        """Velocities of links' origins along the world's axes [m/s], (n_envs, n_links, 3)."""
        return self._links_field("vel", links_idx, envs_idx, "get_links_vel")

    def get_links_ang(self, links_idx: Any = None, envs_idx: Any = None) -> Any:
        """Angular velocities of links along the world's axes [rad/s], (n_envs, n_links, 3)."""
        return self._links_field("ang", links_idx, envs_idx, "get_links_ang")

    def get_links_acc(self, links_idx: Any = None, envs_idx: Any = None) -> Any:
        """Accelerations of links' origins [m/s2], (n_envs, n_links, 3): nothing at rest, gravity in free fall."""
        return self._links_field("acc", links_idx, envs_idx, "get_links_acc")

    def get_links_acc_ang(self, links_idx: Any = None, envs_idx: Any = None) -> Any:
        """Angular accelerations of links [rad/s2], (n_envs, n_links, 3)."""
        return self._links_field("cacc_ang", links_idx, envs_idx, "get_links_acc_ang")

    def get_com(self, envs_idx: Any = None) -> np.ndarray:
        """The centre of mass of all its links [m], (n_envs, 3)."""
        running = self._running
        own, envs = slice(self.info.link_start, self.info.link_end), environments(envs_idx, running.n_envs)
        state = running.engine.fields.links_state
        mass, place = state.cinr_mass.numpy()[own], state.i_pos.numpy()[own]
        center = (mass[..., None] * place).sum(axis=0) / mass.sum(axis=0)[:, None]
        return np.array(center if envs is None else center[envs])

    def get_AABB(self, envs_idx: Any = None) -> np.ndarray:
        """The box around all its shapes that touch, in the world [m], (n_envs, 2, 3): least, then greatest."""
        running = self._running
        envs = environments(envs_idx, running.n_envs)
        state, first = running.engine.fields.links_state, self.info.link_start
        places, turns = (np.asarray(x.numpy(), np.float64)[first : self.info.link_end] for x in (state.pos, state.quat))
        if envs is not None:
            places, turns = places[:, envs], turns[:, envs]
        chosen = self.variant_idx if envs is None else self.variant_idx[envs]
        result = np.zeros((len(chosen), 2, 3))
        for variant in np.unique(chosen):
            here, boxes = np.flatnonzero(chosen == variant), []
            for shapes, place, turn in zip(self._shapes(int(variant)), places[:, here], turns[:, here], strict=True):
                axes = np.stack([_rotated(turn, axis) for axis in np.eye(3)], axis=2)
                boxes.append(reach(shapes, place, axes))
            result[here, 0] = np.min([b[:, 0] for b in boxes], axis=0)
            result[here, 1] = np.max([b[:, 1] for b in boxes], axis=0)
        return result

    def _shapes(self, variant: int) -> list[list[Shape]]:
        """Of each link, in their order."""
        if self._mixed is not None:
            return [list(link.shapes) for link in self._mixed.shown[variant].links]
        whole = self.description
        named = whole.named_links() if isinstance(whole, World) else ((x.name, whole, x) for x in whole.links)
        by_name_ = {name: link.shapes for name, _, link in named}
        return [by_name_[name] for name in self._alone.links.names]

    def _links_field(self, name: str, links_idx: Any, envs_idx: Any, what: str) -> Any:
        """A field of links, (n_envs, n_links, numbers): the one that `links_state` has, from the same place."""
        running = self._running
        own = self.info.link_start + self._links(links_idx, what)
        source = getattr(running.engine.fields.links_state, name)
        return running.outputs.pick(source, own, running.outputs.envs(envs_idx))

    # --------------------------------------------------------------------------------------- inertia and Jacobians

    def get_mass_mat(self, envs_idx: Any = None, *, decompose: bool = False) -> Any:
        """The joint-space inertia M, rotors included [kg, kg m, kg m2], (n_envs, n_dofs, n_dofs).

        With `decompose` instead the L and 1 / D of M = L^T D L, the latter (n_envs, n_dofs).
        """
        running, own = self._running, slice(self.info.dof_start, self.info.dof_end)
        if not self._alone.n_dofs:
            raise KinemaError(f'get_mass_mat: nothing of "{self.name}" moves')
        held, envs = running.engine.fields.constraints, running.outputs.envs(envs_idx)
        if decompose:
            lower = running.outputs.square(held.mass_mat_L, own, envs)
            return lower, running.outputs.pick(held.mass_mat_D_inv, own, envs)
        return running.outputs.square(held.mass_mat, own, envs)

    def get_jacobian(self, link: Any, local_point: Any = None, envs_idx: Any = None) -> np.ndarray:
        """How a link's point moves with each degree of freedom, (n_envs, 6, n_dofs): linear, then angular rows.

        Args:
            link: an `EntityLink`, or the name or number of one.
            local_point: the point, along the link's axes from its origin [m]; None for the origin.
            envs_idx: which environments; None for all.
        """
        running, what = self._running, "get_jacobian"
        if isinstance(link, EntityLink):
            number = link.idx
        else:
            named = isinstance(link, str)
            number = by_name(link, self._alone.links.names, what, "links") if named else int(self._links(link, what)[0])
        columns = slice(self.info.dof_start, self.info.dof_end)
        found = running.engine.fields.jacobian(self.info.link_start + number).numpy()[:, columns]
        result = np.array(np.moveaxis(found, 2, 0), order="C")
        if local_point is not None:
            arm = numbers(local_point, f"{what}: local_point", "three")
            place = running.engine.fields.links_state.quat.numpy()[self.info.link_start + number]
            turned = _rotated(place, arm)
            result[:, :3] += np.cross(result[:, 3:], turned[:, :, None], axis=1)
        envs = environments(envs_idx, running.n_envs)
        return result if envs is None else result[envs]

    # -------------------------------------------------------------------------------------------------- contacts

    def get_contacts(
        self, envs_idx: Any = None, *, with_entity: Any = None, exclude_self_contact: bool = False
    ) -> dict[str, np.ndarray]:
        """What touches any of its links now; see `Scene.get_contacts`.

        Args:
            envs_idx: which environments; None for all.
            with_entity: only contacts with this one.
            exclude_self_contact: only contacts with others.
        """
        own = range(self.info.link_start, self.info.link_end)
        other = None
        if with_entity is not None:
            other = range(with_entity.info.link_start, with_entity.info.link_end)
        return contacts_of(self._running, envs_idx, own, other, alone=exclude_self_contact)

    def get_links_net_contact_force(self, envs_idx: Any = None) -> np.ndarray:
        """The sum of all contact forces on each link [N], (n_envs, n_links, 3)."""
        every = net_forces(self._running, envs_idx)
        return every[:, self.info.link_start : self.info.link_end]


def _rotated(quaternion: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """A vector of the link in the world, (n_envs, 3)."""
    w, v = quaternion[:, :1], quaternion[:, 1:]
    once = np.cross(v, vector)
    return vector + 2.0 * (w * once + np.cross(v, once))
