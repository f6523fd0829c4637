"""The links and joints of an entity, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


class HasLinks(Protocol):
    """What links and joints know of their entity: its name, and where its links are."""

    name: str

    def get_links_pos(self, links_idx: Any = None, envs_idx: Any = None, ref: str = "link_origin") -> Any:
        """Positions of links' origins in the world [m], (n_envs, n_links, 3)."""
        ...

    def get_links_quat(self, links_idx: Any = None, envs_idx: Any = None) -> Any:
        """Orientations of links in the world (w, x, y, z), (n_envs, n_links, 4)."""
        ...

    def get_links_acc(self, links_idx: Any = None, envs_idx: Any = None) -> Any:
        """Accelerations of links' origins along the world's axes [m/s2], (n_envs, n_links, 3)."""
        ...

    def get_links_vel(self, links_idx: Any = None, envs_idx: Any = None) -> Any:
        """Velocities of links' origins along the world's axes [m/s], (n_envs, n_links, 3)."""
        ...

    def get_links_ang(self, links_idx: Any = None, envs_idx: Any = None) -> Any:
        """Angular velocities of links along the world's axes [rad/s], (n_envs, n_links, 3)."""
        ...

    def get_links_inertial_mass(self, links_idx: Any = None, envs_idx: Any = None) -> Any:
        """Masses of links [kg]."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class EntityLink:
    """One link."""

    entity: HasLinks
    name: str
    idx: int
    """Its number in the entity."""
    mass: float
    """As its file has it [kg]."""

    def get_pos(self, envs_idx: Any = None, ref: str = "link_origin") -> Any:
        """Position of its origin in the world, or of its centre of mass (`link_com`) [m], (n_envs, 3)."""
        return self.entity.get_links_pos([self.idx], envs_idx, ref)[:, 0]

    def get_quat(self, envs_idx: Any = None) -> Any:
        """Orientation in the world (w, x, y, z), (n_envs, 4)."""
        return self.entity.get_links_quat([self.idx], envs_idx)[:, 0]

    def get_vel(self, envs_idx: Any = None) -> Any:
        """Velocity of its origin along the world's axes [m/s], (n_envs, 3)."""
        return self.entity.get_links_vel([self.idx], envs_idx)[:, 0]

    def get_ang(self, envs_idx: Any = None) -> Any:
        """Angular velocity along the world's axes [rad/s], (n_envs, 3)."""
        return self.entity.get_links_ang([self.idx], envs_idx)[:, 0]

    def get_acc(self, envs_idx: Any = None) -> Any:
        """Acceleration of its origin along the world's axes [m/s2], (n_envs, 3)."""
        return self.entity.get_links_acc([self.idx], envs_idx)[:, 0]

    def get_mass(self, envs_idx: Any = None) -> Any:
        """Its mass as it is now [kg]: a number; where environments have their own, (n_envs,)."""
        return self.entity.get_links_inertial_mass([self.idx], envs_idx)[..., 0]

    @property
    def idx_local(self) -> int:
        """The same as `idx`, as Genesis calls it."""
        return self.idx


@dataclass(frozen=True, slots=True, eq=False)
class EntityJoint:
    """One joint that moves."""

    entity: HasLinks
    name: str
    kind: str
    """As `kinema.description.JointKind` calls it."""
    link: str
    """The link it moves."""
    dofs_idx: tuple[int, ...]
    """Its degrees of freedom, numbered in the entity."""
    qs_idx: tuple[int, ...]
    """Its coordinates, numbered in the entity."""

    @property
    def dof_idx(self) -> int:
        """Its first degree of freedom."""
        return self.dofs_idx[0]

    @property
    def dof_idx_local(self) -> int:
        """The same, as Genesis calls it."""
        return self.dofs_idx[0]

    @property
    def dofs_idx_local(self) -> tuple[int, ...]:
        """The same as `dofs_idx`, as Genesis calls it."""
        return self.dofs_idx

    @property
    def qs_idx_local(self) -> tuple[int, ...]:
        """The same as `qs_idx`, as Genesis calls it."""
        return self.qs_idx

    @property
    def n_dofs(self) -> int:
        """Degrees of freedom."""
        return len(self.dofs_idx)
