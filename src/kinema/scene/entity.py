"""One robot, or one file with several, in a scene: its state, in the order of its description's joints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from kinema.description import Robot, World, qualified
from kinema.model import EntityInfo, Model

from .batches import Index, any_like, by_name, by_pattern, items
from .marks import Marks
from .mixing import Mixed
from .parts import EntityJoint, EntityLink
from .reaching import Reaching
from .running import HasRunning, Running
from .sleeping import Resting
from .views import not_built


class Entity(Marks, Resting, Reaching):
    """What was added to a scene in one go.

    Arrays have environments first, `(n_envs, n)`; a setter takes one row for all environments as well. `envs_idx`
    selects environments by number or mask. Links, joints and degrees of freedom are numbered within the entity, and may
    be called by name or pattern (`dofs`, `links_like`). Coordinates are laid out as MuJoCo's: x, y, z and a quaternion
    (w, x, y, z) of a free joint, in the world; a quaternion of a spherical one; its velocity is linear along the
    world's axes, angular along the link's.
    """

    def __init__(
        self, scene: HasRunning, name: str, description: Robot | World, alone: Model, mixed: Mixed | None = None
    ) -> None:
        self.scene: Any = scene
        """The scene that it is in."""
        self.name = name
        self.description = description
        self._alone = alone
        """The model of this entity only: what its names and sizes are read from."""
        self._constants: dict[str, dict[int, float]] = {}
        self._info: EntityInfo | None = None
        self._mixed = mixed
        self._all_dofs = np.arange(alone.n_dofs)
        self._named: dict[tuple[str, ...], list[int]] = {}
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
    def keyframe_names(self) -> list[str]:
        """The states that its file names, in the order of their numbers, for `Scene.reset(keyframe=...)`."""
        return list(self._alone.keyframes.names)

    @property
    def n_variants(self) -> int:
        """How many different things environments have of it: 1 unless a list was added."""
        return 1 if self._mixed is None else len(self._mixed.parts)

    @property
    def variant_idx(self) -> np.ndarray:
        """Which of the list that was added each environment has, (n_envs,)."""
        n_envs = self._running.n_envs
        return np.zeros(n_envs, np.intp) if self._mixed is None else self._mixed.which(n_envs)

    def description_in(self, env: int = 0) -> Robot | World:
        """What an environment has of it: the description, or the one of those added that is its variant."""
        return self.description if self._mixed is None else self._mixed.shown[int(self.variant_idx[env])]

    def get_link(self, name: str) -> EntityLink:
        """The link of that name."""
        return self.links[by_name(name, self._alone.links.names, "get_link", "links")]

    def get_joint(self, name: str) -> EntityJoint:
        """The joint of that name."""
        return self.joints[by_name(name, [j.name for j in self.joints], "get_joint", "moving joints")]

    def dofs_of(self, *joints: str) -> list[int]:
        """The numbers of all degrees of freedom of some joints."""
        return [dof for name in joints for dof in self.get_joint(name).dofs_idx]

    def dofs(self, *wanted: Any) -> Index:
        """The numbers of degrees of freedom: `arm.dofs("joint[1-4]", "gripper_.*")`; none given means all.

        Names of joints or of single degrees of freedom, patterns of them (regular expressions, or `*` and `?` as shells
        have them), numbers, slices and masks: what every `dofs_idx` takes as well.
        """
        return self._many(wanted, self._dofs, self.n_dofs, "dofs")

    def links_like(self, *wanted: Any) -> Index:
        """The numbers of links, likewise: `arm.links_like(".*_finger")`; what every `links_idx` takes as well."""
        return self._many(wanted, self._links, self.n_links, "links_like")

    def _many(self, wanted: tuple[Any, ...], find: Callable[[Any, str], Index], count: int, what: str) -> Index:
        found = [find(one, what) for one in wanted] or [np.arange(count)]
        return np.concatenate(found)

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
            key = tuple(map(repr, dofs_idx))
            if key not in self._named:  # whoever names them does so before every step
                groups = [self._dofs_named(x, what) if isinstance(x, str) else [x] for x in dofs_idx]
                self._named[key] = [dof for group in groups for dof in group]
            dofs_idx = self._named[key]
        return items(dofs_idx, self.dof_names, f"{what}: dofs_idx", "degrees of freedom")

    def _dofs_named(self, pattern: str, what: str) -> list[int]:
        """A pattern of joints, or else of degrees of freedom."""
        names = [j.name for j in self.joints]
        known = pattern not in self.dof_names and (pattern in names or any_like(pattern, names))
        if not known:
            return by_pattern(pattern, self.dof_names, f"{what}: dofs_idx", "degrees of freedom")
        return [dof for i in by_pattern(pattern, names, what, "joints") for dof in self.joints[i].dofs_idx]

    def _links(self, links_idx: Any, what: str) -> Index:
        return items(links_idx, self._alone.links.names, f"{what}: links_idx", "links")


def _joint_names(description: Robot | World, model: Model) -> list[str]:
    """The joints' names, with their robot's before them where several robots of a file have one of that name."""
    names = model.joints.names
    shared = {name for name, count in Counter(names).items() if count > 1}
    if not shared or isinstance(description, Robot):
        return list(names)
    robots = {name: robot for name, robot, _ in description.named_links()}
    moved = [model.links.names[int(i)] for i in model.joints.link_idx]
    return [qualified(robots[link], name, shared) for name, link in zip(names, moved, strict=True)]
