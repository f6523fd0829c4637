"""Names, sizes and index ranges of an entity, selection of its elements, and handles of its links and joints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from kinema.builder import EntitySpec
from kinema.core import KinemaError
from kinema.description import Robot, World, qualified_name
from kinema.model import EntityInfo, Model

from .arguments import IndexArray, Selection, indices_matching, matches_any, resolve_indices
from .built_scene import BuiltScene, HasBuiltScene, not_built_error
from .shared_descriptions import SharedDescription
from .variants import EntityVariants

# ------------------------------------------------------------------------------------- link and joint handles


@dataclass(frozen=True, slots=True, eq=False)
class EntityLink:
    """Handle of one link of an entity."""

    entity: Any
    """The `Entity`."""
    name: str
    idx: int
    """Index in the entity."""
    mass: float
    """Mass in the description [kg]."""

    def get_pos(self, envs_idx: Selection = None, ref: str = "link_origin") -> Any:
        """World position of the link origin, or with ref="link_com" of the centre of mass [m], (n_envs, 3)."""
        return self.entity.get_links_pos([self.idx], envs_idx, ref)[:, 0]

    def get_quat(self, envs_idx: Selection = None) -> Any:
        """World orientation (w, x, y, z), (n_envs, 4)."""
        return self.entity.get_links_quat([self.idx], envs_idx)[:, 0]

    def get_vel(self, envs_idx: Selection = None) -> Any:
        """Linear velocity of the link origin along the world axes [m/s], (n_envs, 3)."""
        return self.entity.get_links_vel([self.idx], envs_idx)[:, 0]

    def get_ang(self, envs_idx: Selection = None) -> Any:
        """Angular velocity along the world axes [rad/s], (n_envs, 3)."""
        return self.entity.get_links_ang([self.idx], envs_idx)[:, 0]

    def get_acc(self, envs_idx: Selection = None) -> Any:
        """Linear acceleration of the link origin along the world axes [m/s2], (n_envs, 3)."""
        return self.entity.get_links_acc([self.idx], envs_idx)[:, 0]

    def get_mass(self, envs_idx: Selection = None) -> Any:
        """Current mass [kg]: a scalar; (n_envs,) if masses differ between environments."""
        return self.entity.get_links_inertial_mass([self.idx], envs_idx)[..., 0]

    @property
    def idx_local(self) -> int:
        """Alias of `idx`, for compatibility with Genesis."""
        return self.idx


@dataclass(frozen=True, slots=True, eq=False)
class EntityJoint:
    """Handle of one moving joint of an entity."""

    entity: Any
    """The `Entity`."""
    name: str
    kind: str
    """Value of `kinema.description.JointKind`."""
    link: str
    """Name of the child link."""
    dofs_idx: tuple[int, ...]
    """Indices of the dofs in the entity."""
    qs_idx: tuple[int, ...]
    """Indices of the generalized coordinates in the entity."""

    @property
    def dof_idx(self) -> int:
        """Index of the first dof in the entity."""
        return self.dofs_idx[0]

    @property
    def dof_idx_local(self) -> int:
        """Alias of `dof_idx`, for compatibility with Genesis."""
        return self.dofs_idx[0]

    @property
    def dofs_idx_local(self) -> tuple[int, ...]:
        """Alias of `dofs_idx`, for compatibility with Genesis."""
        return self.dofs_idx

    @property
    def qs_idx_local(self) -> tuple[int, ...]:
        """Alias of `qs_idx`, for compatibility with Genesis."""
        return self.qs_idx

    @property
    def n_dofs(self) -> int:
        """Number of dofs."""
        return len(self.dofs_idx)


Handle = TypeVar("Handle", EntityLink, EntityJoint)


# ------------------------------------------------------------------------------------------- index selection


def geom_index_in_entity(model: Model) -> IndexArray:
    """Index of each geom of the scene among the geoms of its entity, (n_geoms,)."""
    result = np.zeros(len(model.geoms.names), np.int64)
    for entity in range(len(model.entities)):
        own = model.geoms.entity_idx == entity
        result[own] = np.arange(np.count_nonzero(own))
    return result


class EntityIndex:
    """Names of the elements of an entity, their index ranges in the scene, and resolution of selections to indices.

    `links`, `dofs`, `coordinates` and `actuators` return indices within the entity; `link_rows`, `dof_rows`,
    `actuator_rows` and `geom_rows` return rows of the scene's arrays. `label` is the prefix of error messages.

    Args:
        scene: the scene of the entity.
        spec: unique name, description and base pose; those of the first variant if there are several.
        model: model of this entity alone, for names, sizes and values before the scene is built.
        variants: variants of the entity; None if there is one description.
        make_posed_model: function that makes the model at the base pose of the entity, if `model` is that of an entity
            that differs by name and base pose.
    """

    def __init__(
        self,
        scene: HasBuiltScene,
        spec: EntitySpec,
        model: Model,
        variants: EntityVariants | None,
        make_posed_model: Callable[[], Model] | None = None,
    ) -> None:
        self.scene, self.model, self.variants = scene, model, variants
        self._make_posed_model = make_posed_model
        self.name, self.description = spec.name, spec.description
        self.shared_description: SharedDescription | None = None
        """The description, if other entities have it too."""
        self.base_pose = spec.pose
        """World pose at which the entity was added; None for the authored pose."""
        self.ranges: EntityInfo | None = None
        """Index ranges in the arrays of the scene; None before build."""
        self._number = -1
        self._named_dofs: dict[tuple[str, ...], list[int]] = {}

    @cached_property
    def posed_model(self) -> Model:
        """Model of the entity alone at its base pose."""
        return self.model if self._make_posed_model is None else self._make_posed_model()

    @cached_property
    def joint_names(self) -> list[str]:
        """Names of the joints, unique within the entity."""
        return _joint_names(self.description, self.model)

    @cached_property
    def joint_dofs(self) -> list[tuple[int, ...]]:
        """Dofs of each joint."""
        ends = zip(self.model.joints.dof_start.tolist(), self.model.joints.dof_end.tolist(), strict=True)
        return [tuple(range(start, end)) for start, end in ends]

    @cached_property
    def dof_names(self) -> list[str]:
        """Name of each dof: of its joint, or `name[i]` for joints with several dofs."""
        return [
            name if len(dofs) == 1 else f"{name}[{i}]"
            for name, dofs in zip(self.joint_names, self.joint_dofs, strict=True)
            for i in range(len(dofs))
        ]

    @cached_property
    def _all_dofs(self) -> IndexArray:
        return np.arange(self.model.n_dofs)

    @property
    def built(self) -> BuiltScene:
        """The built scene; raises `KinemaError` before build."""
        return self.scene.built

    @property
    def info(self) -> EntityInfo:
        """Index ranges in the arrays of the scene; raises `KinemaError` before build."""
        if self.ranges is None:
            raise not_built_error()
        return self.ranges

    @property
    def variant_of_env(self) -> np.ndarray:
        """Index of the variant in each environment, (n_envs,)."""
        n_envs = self.built.n_envs
        return np.zeros(n_envs, np.intp) if self.variants is None else self.variants.variant_of_env(n_envs)

    @property
    def descriptions(self) -> list[Robot | World]:
        """Description of each variant."""
        return [self.description] if self.variants is None else self.variants.descriptions

    @property
    def all_links(self) -> slice:
        """Rows of all links of the entity in the scene's arrays."""
        return slice(self.info.link_start, self.info.link_end)

    @property
    def all_dofs(self) -> slice:
        """Rows of all dofs of the entity in the scene's arrays."""
        return slice(self.info.dof_start, self.info.dof_end)

    @property
    def base_link(self) -> int:
        """Index in the entity of the first link without a parent link."""
        return int(np.flatnonzero(self.model.links.parent_idx < 0)[0])

    @property
    def number(self) -> int:
        """Index of the entity in the scene; raises `KinemaError` before build."""
        if self.ranges is None:
            raise not_built_error()
        return self._number

    def set_built(self, number: int, ranges: EntityInfo) -> None:
        """Set the index of the entity in the built scene, and its index ranges in the arrays."""
        self._number, self.ranges = number, ranges

    @property
    def all_geoms(self) -> IndexArray:
        """Rows of all geoms of the entity in the scene's arrays."""
        return np.flatnonzero(self.built.model.geoms.entity_idx == self.number)

    @property
    def geom_names(self) -> list[str]:
        """Names of all geoms of the entity that can collide in the scene."""
        names = self.built.model.geoms.names
        return [names[int(i)] for i in self.all_geoms]

    def links(self, links_idx: Any, label: str) -> IndexArray:
        """Indices of the selected links within the entity; handles of links count as their indices."""
        if isinstance(links_idx, EntityLink):
            links_idx = [links_idx]
        if isinstance(links_idx, list | tuple):
            links_idx = [self._checked(x, label).idx if isinstance(x, EntityLink) else x for x in links_idx]
        return resolve_indices(links_idx, self.model.links.names, f"{label}: links_idx", "links")

    def link(self, link: Any, label: str) -> int:
        """Index within the entity of one link, given by handle, name or index; None for the base link."""
        if link is None:
            return self.base_link
        if isinstance(link, EntityLink):
            return self._checked(link, label).idx
        rows = resolve_indices(link, self.model.links.names, f"{label}: link", "links")
        if len(rows) != 1:
            raise KinemaError(f"{label}: expected one link, not {link!r}")
        return int(rows[0])

    def _checked(self, handle: Handle, label: str) -> Handle:
        """The handle; raises `KinemaError` if it belongs to another entity."""
        if handle.entity._index is not self:
            raise KinemaError(f'{label}: "{handle.name}" is of the entity "{handle.entity.name}", not of "{self.name}"')
        return handle

    def link_rows(self, links_idx: Selection, label: str) -> IndexArray:
        """Indices of the selected links in the scene."""
        return self.info.link_start + self.links(links_idx, label)

    def dofs(self, dofs_idx: Any, label: str) -> IndexArray:
        """Indices of the selected dofs within the entity; the name or handle of a joint selects all its dofs.

        Selections by name are cached, because controllers repeat them before every step.
        """
        if dofs_idx is None:
            return self._all_dofs
        if isinstance(dofs_idx, str | EntityJoint):
            dofs_idx = [dofs_idx]
        if isinstance(dofs_idx, list | tuple) and any(isinstance(x, EntityJoint) for x in dofs_idx):
            groups = [self._checked(x, label).dofs_idx if isinstance(x, EntityJoint) else [x] for x in dofs_idx]
            dofs_idx = [dof for group in groups for dof in group]
        if isinstance(dofs_idx, list | tuple) and any(isinstance(x, str) for x in dofs_idx):
            key = tuple(map(repr, dofs_idx))
            if key not in self._named_dofs:
                groups = [self._dofs_matching(x, label) if isinstance(x, str) else [x] for x in dofs_idx]
                self._named_dofs[key] = [dof for group in groups for dof in group]
            dofs_idx = self._named_dofs[key]
        return resolve_indices(dofs_idx, self.dof_names, f"{label}: dofs_idx", "degrees of freedom")

    def _dofs_matching(self, pattern: str, label: str) -> list[int]:
        """Indices of the dofs of all joints that match a name or pattern, else of the dofs whose own name matches."""
        names = self.joint_names
        is_joint_pattern = pattern not in self.dof_names and (pattern in names or matches_any(pattern, names))
        if not is_joint_pattern:
            return indices_matching(pattern, self.dof_names, f"{label}: dofs_idx", "degrees of freedom")
        return [dof for i in indices_matching(pattern, names, label, "joints") for dof in self.joint_dofs[i]]

    def dof_rows(self, dofs_idx: Selection, label: str) -> IndexArray:
        """Indices of the selected dofs in the scene."""
        return self.info.dof_start + self.dofs(dofs_idx, label)

    def coordinates(self, qs_idx: Selection, label: str) -> IndexArray:
        """Indices of the selected generalized coordinates within the entity."""
        names = [str(i) for i in range(self.model.n_qs)]
        return resolve_indices(qs_idx, names, f"{label}: qs_idx", "coordinates")

    def actuators(self, actuators_idx: Selection, label: str) -> IndexArray:
        """Indices of the selected actuators within the entity."""
        return resolve_indices(actuators_idx, self.model.actuators.names, f"{label}: actuators_idx", "actuators")

    def actuator_rows(self, actuators_idx: Selection, label: str) -> IndexArray:
        """Indices of the selected actuators in the scene."""
        return self.info.actuator_start + self.actuators(actuators_idx, label)

    def geom_rows(self, geoms_idx: Selection, label: str) -> IndexArray:
        """Indices of the selected geoms in the scene."""
        return self.all_geoms[resolve_indices(geoms_idx, self.geom_names, f"{label}: geoms_idx", "shapes")]


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
