"""Entity: one robot, world file or body in a scene; names, sizes and index selection of its links, joints and dofs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from kinema.description import Robot, World, qualified_name
from kinema.model import EntityInfo, Model

from .arguments import IndexArray, index_of_name, indices_matching, matches_any, resolve_indices
from .built_scene import BuiltScene, HasBuiltScene, not_built_error
from .entity_queries import EntityFramesMixin, EntityJoint, EntityLink
from .entity_state import EntityKinematicsMixin
from .sleep import EntitySleepMixin
from .variants import EntityVariants


class Entity(EntityFramesMixin, EntitySleepMixin, EntityKinematicsMixin):
    """A robot, the contents of a world file, or a single body, added to a scene by one call of `Scene.add`.

    Batched arrays have the environment axis first, (n_envs, n); setters also accept one row (n,) or a scalar for all
    environments. Links, joints and dofs are indexed within the entity and may be selected by index, name, pattern,
    list, slice or mask (`find_dofs`, `find_links`). `envs_idx` selects environments by index, list, slice or mask; None
    selects all.

    Generalized coordinates have the layout of MuJoCo: a free joint has the world position x, y, z and a quaternion (w,
    x, y, z), a spherical joint a quaternion. The velocity of a free joint is linear along the world axes, then angular
    along the axes of the link.

    Attributes:
        scene: the scene that contains the entity.
        name: unique name in the scene.
        description: the description; the first one if variants were added.
        links: list of `EntityLink`.
        joints: list of `EntityJoint`; only joints with dofs.
        dof_names: name of each dof, the name of the joint, or `name[i]` for joints with several dofs.
    """

    def __init__(
        self,
        scene: HasBuiltScene,
        name: str,
        description: Robot | World,
        entity_model: Model,
        variants: EntityVariants | None = None,
    ) -> None:
        """Create an entity of a scene that is not built yet, with handles of its links and moving joints.

        Args:
            scene: the scene.
            name: unique name in the scene.
            description: the description; that of the first variant if there are several.
            entity_model: model of this entity alone.
            variants: variants of the entity; None if there is one description.
        """
        self.scene: Any = scene
        self.name = name
        self.description = description
        self._entity_model = entity_model
        """Model of this entity alone, for names, sizes and values before the scene is built."""
        self._dof_parameters: dict[str, dict[int, float]] = {}
        self._info: EntityInfo | None = None
        self._variants = variants
        self._all_dofs = np.arange(entity_model.n_dofs)
        self._named_dofs_cache: dict[tuple[str, ...], list[int]] = {}
        self.links = [
            EntityLink(self, link, i, float(entity_model.links.inertial_mass[i]))
            for i, link in enumerate(entity_model.links.names)
        ]
        self.joints = [
            self._make_joint(i, joint_name) for i, joint_name in enumerate(_joint_names(description, entity_model))
        ]
        self.dof_names = [
            joint.name if joint.n_dofs == 1 else f"{joint.name}[{i}]"
            for joint in self.joints
            for i in range(joint.n_dofs)
        ]

    def __repr__(self) -> str:
        return f"<Entity {self.name!r}: {self.n_links} links, {self.n_dofs} degrees of freedom>"

    def _make_joint(self, index: int, name: str) -> EntityJoint:
        """Handle of the joint with an index in the entity's model, under the given name."""
        joints = self._entity_model.joints
        return EntityJoint(
            self,
            name,
            joints.kinds[index],
            self._entity_model.links.names[int(joints.link_idx[index])],
            tuple(range(int(joints.dof_start[index]), int(joints.dof_end[index]))),
            tuple(range(int(joints.q_start[index]), int(joints.q_end[index]))),
        )

    # ------------------------------------------------------------------------------------------- names and sizes

    @property
    def n_links(self) -> int:
        """Number of links."""
        return self._entity_model.n_links

    @property
    def n_joints(self) -> int:
        """Number of joints with at least one dof."""
        return len(self.joints)

    @property
    def n_dofs(self) -> int:
        """Number of degrees of freedom: the length of the velocity."""
        return self._entity_model.n_dofs

    @property
    def n_qs(self) -> int:
        """Number of generalized coordinates: the length of the position."""
        return self._entity_model.n_qs

    @property
    def n_actuators(self) -> int:
        """Number of simulated actuators of the file."""
        return self._entity_model.n_actuators

    @property
    def keyframe_names(self) -> list[str]:
        """Names of the keyframes of the file, in index order, for `Scene.reset(keyframe=...)`."""
        return list(self._entity_model.keyframes.names)

    @property
    def n_variants(self) -> int:
        """Number of variants: 1 unless a list was added."""
        return 1 if self._variants is None else len(self._variants.specs)

    @property
    def variant_idx(self) -> np.ndarray:
        """Index of the variant in each environment, (n_envs,)."""
        n_envs = self._built_scene.n_envs
        return np.zeros(n_envs, np.intp) if self._variants is None else self._variants.variant_of_env(n_envs)

    def description_for_env(self, env: int = 0) -> Robot | World:
        """Description of the entity in environment `env` (default 0): that of its variant if a list was added."""
        return self.description if self._variants is None else self._variants.descriptions[int(self.variant_idx[env])]

    def get_link(self, name: str) -> EntityLink:
        """Link with this name; raises `KinemaError` listing the names if there is none."""
        return self.links[index_of_name(name, self._entity_model.links.names, "get_link", "links")]

    def get_joint(self, name: str) -> EntityJoint:
        """Moving joint with this name; raises `KinemaError` listing the names if there is none."""
        return self.joints[index_of_name(name, [j.name for j in self.joints], "get_joint", "moving joints")]

    def dofs_of(self, *joints: str) -> list[int]:
        """Indices of all dofs of the joints with these names."""
        return [dof for name in joints for dof in self.get_joint(name).dofs_idx]

    def find_dofs(self, *selections: Any) -> IndexArray:
        """Indices of the selected dofs: `arm.find_dofs("joint[1-4]", "gripper_.*")`; without arguments all dofs.

        Args:
            *selections: names of joints (all their dofs) or of single dofs, patterns of names (regular expressions, or
                shell patterns with `*` and `?`), indices, slices or masks; every `dofs_idx` argument accepts the same.
        """
        return self._concatenate_indices(selections, self._dof_indices, self.n_dofs, "find_dofs")

    def find_links(self, *selections: Any) -> IndexArray:
        """Indices of the selected links: `arm.find_links(".*_finger")`; without arguments all links.

        Args:
            *selections: names, patterns of names, indices, slices or masks; every `links_idx` argument accepts the
                same.
        """
        return self._concatenate_indices(selections, self._link_indices, self.n_links, "find_links")

    def _concatenate_indices(
        self, selections: tuple[Any, ...], resolve: Callable[[Any, str], IndexArray], count: int, label: str
    ) -> IndexArray:
        groups = [resolve(selection, label) for selection in selections] or [np.arange(count)]
        return np.concatenate(groups)

    # ----------------------------------------------------------------------------------------------- index selection

    @property
    def info(self) -> EntityInfo:
        """Index ranges of the entity in the flat arrays of the scene; raises `KinemaError` before build."""
        if self._info is None:
            raise not_built_error()
        return self._info

    @property
    def _built_scene(self) -> BuiltScene:
        return self.scene.built

    def _dof_indices(self, dofs_idx: Any, label: str) -> IndexArray:
        """Indices within the entity of the selected dofs (None for all); the name of a joint selects all its dofs.

        Selections by name are cached, because controllers repeat them before every step.
        """
        if dofs_idx is None:
            return self._all_dofs
        if isinstance(dofs_idx, str):
            dofs_idx = [dofs_idx]
        if isinstance(dofs_idx, list | tuple) and any(isinstance(x, str) for x in dofs_idx):
            key = tuple(map(repr, dofs_idx))
            if key not in self._named_dofs_cache:
                groups = [self._dofs_matching(x, label) if isinstance(x, str) else [x] for x in dofs_idx]
                self._named_dofs_cache[key] = [dof for group in groups for dof in group]
            dofs_idx = self._named_dofs_cache[key]
        return resolve_indices(dofs_idx, self.dof_names, f"{label}: dofs_idx", "degrees of freedom")

    def _dofs_matching(self, pattern: str, label: str) -> list[int]:
        """Indices of the dofs of all joints that match a name or pattern, else of the dofs whose own name matches."""
        names = [j.name for j in self.joints]
        is_joint_pattern = pattern not in self.dof_names and (pattern in names or matches_any(pattern, names))
        if not is_joint_pattern:
            return indices_matching(pattern, self.dof_names, f"{label}: dofs_idx", "degrees of freedom")
        return [dof for i in indices_matching(pattern, names, label, "joints") for dof in self.joints[i].dofs_idx]

    def _link_indices(self, links_idx: Any, label: str) -> IndexArray:
        return resolve_indices(links_idx, self._entity_model.links.names, f"{label}: links_idx", "links")


def _joint_names(description: Robot | World, model: Model) -> list[str]:
    """Names of the joints, prefixed with the robot's name (`robot::joint`) if several robots of a world share it."""
    names = model.joints.names
    duplicates = {name for name, count in Counter(names).items() if count > 1}
    if not duplicates or isinstance(description, Robot):
        return list(names)
    robot_of_link = {name: robot for name, robot, _ in description.named_links()}
    child_links = [model.links.names[int(i)] for i in model.joints.link_idx]
    return [
        qualified_name(robot_of_link[link], name, duplicates) for name, link in zip(names, child_links, strict=True)
    ]
