"""Quantities derived from the state of an entity: link, site and geom poses, forces, mass matrix, Jacobians, contacts.

Also the handles `EntityLink` and `EntityJoint`, and axis-aligned bounding boxes. All vectors are along the world axes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kinema.core import KinemaError, Pose, multiply_quaternions, rotate_vectors
from kinema.description import (
    Box,
    Capsule,
    Cone,
    Cylinder,
    Ellipsoid,
    Frame,
    Geometry,
    HeightField,
    Mesh,
    Plane,
    Robot,
    Shape,
    Sphere,
    World,
    mesh_data,
    qualified_name,
    tessellate,
)

from .arguments import IndexArray, finite_vector, index_of_name, one_of, resolve_envs, resolve_indices
from .contacts import collect_contacts, net_contact_forces
from .entity_state import EntityStateMixin

# ------------------------------------------------------------------------------------- link and joint handles


class HasLinkQueries(Protocol):
    """Interface of an entity that link and joint handles use."""

    name: str

    def get_links_pos(self, links_idx: Any = None, envs_idx: Any = None, ref: str = "link_origin") -> Any:
        """World positions of link origins or centres of mass (`ref`) [m], (n_envs, n_links, 3)."""
        ...

    def get_links_quat(self, links_idx: Any = None, envs_idx: Any = None) -> Any:
        """World orientations of links (w, x, y, z), (n_envs, n_links, 4)."""
        ...

    def get_links_acc(self, links_idx: Any = None, envs_idx: Any = None) -> Any:
        """Linear accelerations of link origins along the world axes [m/s2], (n_envs, n_links, 3)."""
        ...

    def get_links_vel(self, links_idx: Any = None, envs_idx: Any = None) -> Any:
        """Linear velocities of link origins along the world axes [m/s], (n_envs, n_links, 3)."""
        ...

    def get_links_ang(self, links_idx: Any = None, envs_idx: Any = None) -> Any:
        """Angular velocities of links along the world axes [rad/s], (n_envs, n_links, 3)."""
        ...

    def get_links_inertial_mass(self, links_idx: Any = None, envs_idx: Any = None) -> Any:
        """Masses of links [kg], (n_links,) or (n_envs, n_links)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class EntityLink:
    """Handle of one link of an entity."""

    entity: HasLinkQueries
    name: str
    idx: int
    """Index in the entity."""
    mass: float
    """Mass in the description [kg]."""

    def get_pos(self, envs_idx: Any = None, ref: str = "link_origin") -> Any:
        """World position of the link origin, or with ref="link_com" of the centre of mass [m], (n_envs, 3)."""
        return self.entity.get_links_pos([self.idx], envs_idx, ref)[:, 0]

    def get_quat(self, envs_idx: Any = None) -> Any:
        """World orientation (w, x, y, z), (n_envs, 4)."""
        return self.entity.get_links_quat([self.idx], envs_idx)[:, 0]

    def get_vel(self, envs_idx: Any = None) -> Any:
        """Linear velocity of the link origin along the world axes [m/s], (n_envs, 3)."""
        return self.entity.get_links_vel([self.idx], envs_idx)[:, 0]

    def get_ang(self, envs_idx: Any = None) -> Any:
        """Angular velocity along the world axes [rad/s], (n_envs, 3)."""
        return self.entity.get_links_ang([self.idx], envs_idx)[:, 0]

    def get_acc(self, envs_idx: Any = None) -> Any:
        """Linear acceleration of the link origin along the world axes [m/s2], (n_envs, 3)."""
        return self.entity.get_links_acc([self.idx], envs_idx)[:, 0]

    def get_mass(self, envs_idx: Any = None) -> Any:
        """Current mass [kg]: a scalar; (n_envs,) if masses differ between environments."""
        return self.entity.get_links_inertial_mass([self.idx], envs_idx)[..., 0]

    @property
    def idx_local(self) -> int:
        """Alias of `idx`, for compatibility with Genesis."""
        return self.idx


@dataclass(frozen=True, slots=True, eq=False)
class EntityJoint:
    """Handle of one moving joint of an entity."""

    entity: HasLinkQueries
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


# ---------------------------------------------------------------------------------- axis-aligned bounding boxes


def shapes_aabb(shapes: Sequence[Shape], position: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """Exact world AABB of the enabled collision shapes of a link, (n_envs, 2, 3): minimum, maximum [m].

    Without collision shapes the minimum is +inf and the maximum -inf.

    Args:
        shapes: shapes of the link.
        position: world position of the link [m], (n_envs, 3).
        rotation: rotation matrix of the link, (n_envs, 3, 3).
    """
    bounds = np.full((len(position), 2, 3), np.inf)
    bounds[:, 1] = -np.inf
    for shape in shapes:
        if shape.collision and shape.enabled:
            low, high = _geometry_aabb(shape.geometry, shape.pose, position, rotation)
            bounds[:, 0] = np.minimum(bounds[:, 0], low)
            bounds[:, 1] = np.maximum(bounds[:, 1], high)
    return bounds


def _geometry_aabb(
    geometry: Geometry, pose: Pose, position: np.ndarray, rotation: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Exact world AABB of one geometry: minimum and maximum [m], (n_envs, 3) each.

    Closed forms for primitives, vertices for meshes and height fields; planes are infinite, an empty mesh gives (inf,
    -inf).

    Args:
        geometry: the geometry.
        pose: pose of the shape in the link.
        position: world position of the link [m], (n_envs, 3).
        rotation: rotation matrix of the link, (n_envs, 3, 3).
    """
    shape_rotation = rotation @ pose.rotation
    center = position + rotation @ pose.position
    match geometry:
        case Sphere():
            half = np.full(3, geometry.radius)
        case Box():
            half = np.abs(shape_rotation) @ (geometry.size / 2)
        case Ellipsoid():
            half = np.sqrt(shape_rotation**2 @ geometry.radii**2)
        case Capsule():
            half = np.abs(shape_rotation[:, :, 2]) * (geometry.length / 2) + geometry.radius
        case Cylinder():
            half = np.abs(shape_rotation[:, :, 2]) * (geometry.length / 2) + _circle_half_extents(
                shape_rotation, geometry.radius
            )
        case Cone():
            apex = center + shape_rotation[:, :, 2] * (geometry.length / 2)
            base, rim = (
                center - shape_rotation[:, :, 2] * (geometry.length / 2),
                _circle_half_extents(shape_rotation, geometry.radius),
            )
            return np.minimum(apex, base - rim), np.maximum(apex, base + rim)
        case Plane():
            half = np.full(3, np.inf)
        case Mesh() | HeightField():
            data = mesh_data(geometry) if isinstance(geometry, Mesh) else tessellate(geometry)
            if data is None or not len(data.vertices):
                return np.full_like(center, np.inf), np.full_like(center, -np.inf)
            points = np.einsum("nij,kj->nki", shape_rotation, data.vertices) + center[:, None]
            return points.min(axis=1), points.max(axis=1)
    return center - half, center + half


def _circle_half_extents(rotation: np.ndarray, radius: float) -> np.ndarray:
    """Half extents along the world axes [m], (n_envs, 3), of a circle of given radius about the z axis of the shape."""
    return radius * np.sqrt(np.maximum(1.0 - rotation[:, :, 2] ** 2, 0.0))


# ------------------------------------------------------------- forces, links, mass matrix, Jacobians, contacts

LINK_REFERENCES = ("link_origin", "link_com")
"""Reference points of `get_links_pos`: link origin, centre of mass."""


class EntityQueriesMixin(EntityStateMixin):
    """Part of `Entity`: forces, link states, mass matrix, Jacobians and contacts.

    All vectors are along the world axes.
    """

    links: list[EntityLink]
    description: Robot | World

    @property
    @abstractmethod
    def variant_idx(self) -> np.ndarray:
        """Index of the variant in each environment, (n_envs,)."""

    @property
    def base_link(self) -> EntityLink:
        """First link without a parent link."""
        return next(x for x in self.links if self._entity_model.links.parent_idx[x.idx] < 0)

    # ---------------------------------------------------------------------------------------------------- forces

    def get_dofs_acceleration(self, dofs_idx: Any = None, envs_idx: Any = None) -> Any:
        """Generalized accelerations qacc in the current state [m/s2, rad/s2], (n_envs, n).

        Args:
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        return self._dofs_field("acc", dofs_idx, envs_idx, "get_dofs_acceleration")

    def get_dofs_force(self, dofs_idx: Any = None, envs_idx: Any = None) -> Any:
        """Sum of all generalized forces in the current state, M qacc [N, N m], (n_envs, n).

        Args:
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        return self._dofs_field("force", dofs_idx, envs_idx, "get_dofs_force")

    def get_dofs_control_force(self, dofs_idx: Any = None, envs_idx: Any = None) -> Any:
        """Generalized force of PD control and actuators [N, N m], (n_envs, n).

        Args:
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        return self._dofs_field("qf_control", dofs_idx, envs_idx, "get_dofs_control_force")

    def get_dofs_constraint_force(self, dofs_idx: Any = None, envs_idx: Any = None) -> Any:
        """Generalized force of limits, dry friction, couplings, equalities and contacts [N, N m], (n_envs, n).

        Args:
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        return self._dofs_field("qf_constraint", dofs_idx, envs_idx, "get_dofs_constraint_force")

    def get_dofs_passive_force(self, dofs_idx: Any = None, envs_idx: Any = None) -> Any:
        """Generalized force of joint springs, dampers and the fluid medium [N, N m], (n_envs, n).

        Args:
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        return self._dofs_field("qf_passive", dofs_idx, envs_idx, "get_dofs_passive_force")

    def get_dofs_bias_force(self, dofs_idx: Any = None, envs_idx: Any = None) -> Any:
        """Bias force: gravity, Coriolis and centrifugal terms (MuJoCo's qfrc_bias) [N, N m], (n_envs, n).

        Args:
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        return self._dofs_field("qf_bias", dofs_idx, envs_idx, "get_dofs_bias_force")

    def _dofs_field(self, name: str, dofs_idx: Any, envs_idx: Any, label: str) -> Any:
        """Field `name` of `dofs_state` for the selected dofs and environments in the output type, (environments, n)."""
        dofs = self._dof_indices(dofs_idx, label)
        built = self._built_scene
        envs = built.outputs.resolve_envs(envs_idx)
        if not built.model.n_dofs:
            return built.outputs.convert(np.zeros((built.n_envs if envs is None else len(envs), 0)))
        source = getattr(built.engine.fields.dofs_state, name)
        return built.outputs.select(source, self.info.dof_start + dofs, envs)

    # ----------------------------------------------------------------------------------------------------- links

    def get_pos(self, envs_idx: Any = None) -> Any:
        """World position of the base link [m], (n_envs, 3)."""
        return self.base_link.get_pos(envs_idx)

    def get_quat(self, envs_idx: Any = None) -> Any:
        """World orientation of the base link (w, x, y, z), (n_envs, 4)."""
        return self.base_link.get_quat(envs_idx)

    def get_vel(self, envs_idx: Any = None) -> Any:
        """Linear velocity of the origin of the base link along the world axes [m/s], (n_envs, 3)."""
        return self.base_link.get_vel(envs_idx)

    def get_ang(self, envs_idx: Any = None) -> Any:
        """Angular velocity of the base link along the world axes [rad/s], (n_envs, 3)."""
        return self.base_link.get_ang(envs_idx)

    def get_links_pos(self, links_idx: Any = None, envs_idx: Any = None, ref: str = "link_origin") -> Any:
        """World positions of link origins or centres of mass [m], (n_envs, n_links, 3).

        Args:
            links_idx: links by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
            ref: `link_origin` (default) or `link_com`.
        """
        ref = one_of(ref, "get_links_pos: ref", LINK_REFERENCES)
        return self._links_field("pos" if ref == "link_origin" else "i_pos", links_idx, envs_idx, "get_links_pos")

    def get_links_quat(self, links_idx: Any = None, envs_idx: Any = None) -> Any:
        """World orientations of links (w, x, y, z), (n_envs, n_links, 4).

        Args:
            links_idx: links by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        return self._links_field("quat", links_idx, envs_idx, "get_links_quat")

    def get_links_vel(self, links_idx: Any = None, envs_idx: Any = None) -> Any:
        """Linear velocities of link origins along the world axes [m/s], (n_envs, n_links, 3).

        Args:
            links_idx: links by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        return self._links_field("vel", links_idx, envs_idx, "get_links_vel")

    def get_links_ang(self, links_idx: Any = None, envs_idx: Any = None) -> Any:
        """Angular velocities of links along the world axes [rad/s], (n_envs, n_links, 3).

        Args:
            links_idx: links by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        return self._links_field("ang", links_idx, envs_idx, "get_links_ang")

    def get_links_acc(self, links_idx: Any = None, envs_idx: Any = None) -> Any:
        """Linear accelerations of link origins [m/s2], (n_envs, n_links, 3): zero at rest, gravity in free fall.

        Args:
            links_idx: links by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        return self._links_field("acc", links_idx, envs_idx, "get_links_acc")

    def get_links_acc_ang(self, links_idx: Any = None, envs_idx: Any = None) -> Any:
        """Angular accelerations of links along the world axes [rad/s2], (n_envs, n_links, 3).

        Args:
            links_idx: links by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        return self._links_field("cacc_ang", links_idx, envs_idx, "get_links_acc_ang")

    def get_com(self, envs_idx: Any = None) -> np.ndarray:
        """World position of the centre of mass of the entity [m], (n_envs, 3)."""
        built = self._built_scene
        links, envs = slice(self.info.link_start, self.info.link_end), resolve_envs(envs_idx, built.n_envs)
        state = built.engine.fields.links_state
        mass, com = state.cinr_mass.numpy()[links], state.i_pos.numpy()[links]
        total_com = (mass[..., None] * com).sum(axis=0) / mass.sum(axis=0)[:, None]
        return np.array(total_com if envs is None else total_com[envs])

    def get_AABB(self, envs_idx: Any = None) -> np.ndarray:
        """World axis-aligned bounding box of all collision shapes [m], (n_envs, 2, 3): minimum, then maximum."""
        built = self._built_scene
        envs = resolve_envs(envs_idx, built.n_envs)
        state, first = built.engine.fields.links_state, self.info.link_start
        positions, quats = (
            np.asarray(x.numpy(), np.float64)[first : self.info.link_end] for x in (state.pos, state.quat)
        )
        if envs is not None:
            positions, quats = positions[:, envs], quats[:, envs]
        variants = self.variant_idx if envs is None else self.variant_idx[envs]
        result = np.zeros((len(variants), 2, 3))
        for variant in np.unique(variants):
            members, boxes = np.flatnonzero(variants == variant), []
            for shapes, position, quat in zip(
                self._link_shapes(int(variant)), positions[:, members], quats[:, members], strict=True
            ):
                rotation = np.stack([_rotate(quat, axis) for axis in np.eye(3)], axis=2)
                boxes.append(shapes_aabb(shapes, position, rotation))
            result[members, 0] = np.min([b[:, 0] for b in boxes], axis=0)
            result[members, 1] = np.max([b[:, 1] for b in boxes], axis=0)
        return result

    def _link_shapes(self, variant: int) -> list[list[Shape]]:
        """Shapes of each link of a variant, in the link order of the entity's model."""
        if self._variants is not None:
            return [list(link.shapes) for link in self._variants.descriptions[variant].links]
        description = self.description
        named = (
            description.named_links()
            if isinstance(description, World)
            else ((item.name, description, item) for item in description.links)
        )
        shapes_by_name = {name: link.shapes for name, _, link in named}
        return [shapes_by_name[name] for name in self._entity_model.links.names]

    def _links_field(self, name: str, links_idx: Any, envs_idx: Any, label: str) -> Any:
        """Field `name` of `links_state` for the selected links and environments, (environments, n_links, ...)."""
        built = self._built_scene
        rows = self.info.link_start + self._link_indices(links_idx, label)
        source = getattr(built.engine.fields.links_state, name)
        return built.outputs.select(source, rows, built.outputs.resolve_envs(envs_idx))

    # ----------------------------------------------------------------------------------- mass matrix and Jacobians

    def get_mass_mat(self, envs_idx: Any = None, *, decompose: bool = False) -> Any:
        """Joint-space mass matrix M, armature included [kg, kg m, kg m2], (n_envs, n_dofs, n_dofs).

        Args:
            envs_idx: environments by index, slice or mask; None for all.
            decompose: return the factors of M = L^T D L instead: unit lower triangular L, (n_envs, n_dofs, n_dofs), and
                the diagonal of D^-1, (n_envs, n_dofs).
        """
        built, dofs = self._built_scene, slice(self.info.dof_start, self.info.dof_end)
        if not self._entity_model.n_dofs:
            raise KinemaError(f'get_mass_mat: "{self.name}" has no degrees of freedom')
        fields, envs = built.engine.fields.constraints, built.outputs.resolve_envs(envs_idx)
        if decompose:
            lower = built.outputs.diagonal_block(fields.mass_mat_L, dofs, envs)
            return lower, built.outputs.select(fields.mass_mat_D_inv, dofs, envs)
        return built.outputs.diagonal_block(fields.mass_mat, dofs, envs)

    def get_jacobian(self, link: Any, local_point: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Geometric Jacobian of a point of a link, (n_envs, 6, n_dofs): linear, then angular rows (world axes).

        Args:
            link: `EntityLink`, or name or index of a link.
            local_point: point in the link frame [m], (3,); None for the link origin.
            envs_idx: environments by index, slice or mask; None for all.
        """
        built, label = self._built_scene, "get_jacobian"
        if isinstance(link, EntityLink):
            idx = link.idx
        else:
            by_name = isinstance(link, str)
            idx = (
                index_of_name(link, self._entity_model.links.names, label, "links")
                if by_name
                else int(self._link_indices(link, label)[0])
            )
        columns = slice(self.info.dof_start, self.info.dof_end)
        jacobian = built.engine.fields.jacobian(self.info.link_start + idx).numpy()[:, columns]
        result = np.array(np.moveaxis(jacobian, 2, 0), order="C")
        if local_point is not None:
            arm = finite_vector(local_point, f"{label}: local_point", "three")
            quat = built.engine.fields.links_state.quat.numpy()[self.info.link_start + idx]
            offset = _rotate(quat, arm)
            result[:, :3] += np.cross(result[:, 3:], offset[:, :, None], axis=1)
        envs = resolve_envs(envs_idx, built.n_envs)
        return result if envs is None else result[envs]

    # -------------------------------------------------------------------------------------------------- contacts

    def get_contacts(
        self, envs_idx: Any = None, *, with_entity: Any = None, exclude_self_contact: bool = False
    ) -> dict[str, np.ndarray]:
        """Current contacts that involve a link of the entity.

        Arrays (n_envs, n, ...) by name, see `Scene.get_contacts`.

        Args:
            envs_idx: environments by index, slice or mask; None for all.
            with_entity: only contacts with this entity; None for any.
            exclude_self_contact: leave out contacts between two links of the entity.
        """
        links = range(self.info.link_start, self.info.link_end)
        other_links = None
        if with_entity is not None:
            other_links = range(with_entity.info.link_start, with_entity.info.link_end)
        return collect_contacts(self._built_scene, envs_idx, links, other_links, exclude_self=exclude_self_contact)

    def get_links_net_contact_force(self, envs_idx: Any = None) -> np.ndarray:
        """Sum of all contact forces on each link along the world axes [N], (n_envs, n_links, 3)."""
        forces = net_contact_forces(self._built_scene, envs_idx)
        return forces[:, self.info.link_start : self.info.link_end]


def _rotate(quaternion: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Rotate a vector (3,) or vectors (n_envs, 3) by quaternions (w, x, y, z), (n_envs, 4); (n_envs, 3)."""
    w, v = quaternion[:, :1], quaternion[:, 1:]
    cross = np.cross(v, vector)
    return vector + 2.0 * (w * cross + np.cross(v, cross))


# --------------------------------------------------------------------------- poses of named frames (sites) and geoms

WORLD_LINK = -1
"""Link index of frames and geoms fixed in the world."""


class EntityFramesMixin(EntityQueriesMixin):
    """Part of `Entity`: world poses of named frames (sites) and of collision geoms, as NumPy arrays."""

    scene: Any

    @property
    def frame_names(self) -> list[str]:
        """Names of the frames of the description (MJCF sites, SDFormat frames), in index order."""
        return [name for name, *_ in named_frames(self.description)]

    def get_frames_pos(self, frames_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """World positions of named frames [m], (n_envs, n, 3): MuJoCo's `site_xpos`.

        Args:
            frames_idx: frames by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        return self._frame_poses(frames_idx, envs_idx, "get_frames_pos")[0]

    def get_frames_quat(self, frames_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """World orientations of named frames (w, x, y, z), (n_envs, n, 4).

        Args:
            frames_idx: frames by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        return self._frame_poses(frames_idx, envs_idx, "get_frames_quat")[1]

    def get_geoms_pos(self, geoms_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """World positions of collision geoms [m], (n_envs, n, 3): MuJoCo's `geom_xpos`.

        Args:
            geoms_idx: geoms by index, name, pattern, slice or mask, in the order of `geom_names`; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        return self._geom_poses(geoms_idx, envs_idx, "get_geoms_pos")[0]

    def get_geoms_quat(self, geoms_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """World orientations of collision geoms (w, x, y, z), (n_envs, n, 4).

        Args:
            geoms_idx: geoms by index, name, pattern, slice or mask, in the order of `geom_names`; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        return self._geom_poses(geoms_idx, envs_idx, "get_geoms_quat")[1]

    def _frame_poses(self, frames_idx: Any, envs_idx: Any, label: str) -> tuple[np.ndarray, np.ndarray]:
        """World positions (environments, n, 3) and quaternions (environments, n, 4) of the selected named frames."""
        frames = resolve_indices(frames_idx, self.frame_names, f"{label}: frames_idx", "frames")
        descriptions = [self.description] if self._variants is None else self._variants.descriptions
        frames_per_variant = [named_frames(description) for description in descriptions]
        links = [self._link_of_frame(descriptions[0], *frames_per_variant[0][i][1:]) for i in frames]
        poses = [[self._frame_pose_on_link(*named[i][1:]) for i in frames] for named in frames_per_variant]
        return self._world_poses(links, poses, self.variant_idx, envs_idx)

    def _link_of_frame(self, description: Robot | World, owner: Robot | World, frame: Frame) -> int:
        """Scene index of the link that a named frame is fixed to; `WORLD_LINK` if it has no link.

        Args:
            description: description of the entity.
            owner: robot or world that lists the frame.
            frame: the frame.
        """
        if frame.link is None:
            return WORLD_LINK
        named_links = (
            description.named_links()
            if isinstance(description, World)
            else ((link.name, description, link) for link in description.links)
        )
        matches = (
            name
            for name, robot, link in named_links
            if frame.link in (link.name, name) and owner in (robot, description)
        )
        return self.info.link_start + self._entity_model.links.names.index(next(matches))

    def _frame_pose_on_link(self, owner: Robot | World, frame: Frame) -> Pose:
        """Pose of a named frame in its link; in the world if it is fixed to no link."""
        if frame.link is not None:
            return frame.pose
        spec = self.scene._entity_specs[self.scene.entities.index(self)]
        base = owner.pose if isinstance(owner, Robot) else Pose()
        if spec.pose is not None:
            base = spec.pose if isinstance(self.description, Robot) else spec.pose @ base
        return base @ frame.pose

    def _geom_poses(self, geoms_idx: Any, envs_idx: Any, label: str) -> tuple[np.ndarray, np.ndarray]:
        """World positions (environments, n, 3) and quaternions (environments, n, 4) of the selected collision geoms."""
        rows = self._geom_indices(geoms_idx, label)
        variants = self._built_scene.engine.variants
        links = variants.models[0].geoms.link_idx[rows].tolist()
        poses = []
        for model in variants.models:
            geoms, model_links = model.geoms, model.links
            link_poses = [Pose() if k < 0 else Pose(model_links.pos[k], model_links.rot[k]) for k in links]
            geom_poses = [Pose(geoms.pos[i], geoms.rot[i]) for i in rows]
            poses.append(
                [link_pose.inverse() @ geom_pose for link_pose, geom_pose in zip(link_poses, geom_poses, strict=True)]
            )
        return self._world_poses(links, poses, variants.variant_of_env, envs_idx)

    def _world_poses(
        self, links: list[int], local_poses: list[list[Pose]], variant_of_env: IndexArray, envs_idx: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """World positions (environments, n, 3) and quaternions (environments, n, 4) of n poses fixed to links.

        Args:
            links: scene index of the link of each pose; `WORLD_LINK` for poses in the world.
            local_poses: poses in their links for each variant, (n_variants, n).
            variant_of_env: variant index of each environment, (n_envs,).
            envs_idx: environments; None for all.
        """
        envs = resolve_envs(envs_idx, self._built_scene.n_envs)
        variants = variant_of_env if envs is None else variant_of_env[envs]
        pos = np.array([[pose.position for pose in poses] for poses in local_poses]).reshape(len(local_poses), -1, 3)[
            variants
        ]
        quat = np.array([[pose.quaternion for pose in poses] for poses in local_poses]).reshape(
            len(local_poses), -1, 4
        )[variants]
        state = self._built_scene.engine.fields.links_state
        on_link = np.flatnonzero(np.array(links) != WORLD_LINK)
        if len(on_link):
            rows = np.array(links)[on_link]
            link_pos, link_quat = (
                np.moveaxis(np.asarray(x.numpy(), np.float64)[rows], 1, 0) for x in (state.pos, state.quat)
            )
            link_pos, link_quat = (link_pos, link_quat) if envs is None else (link_pos[envs], link_quat[envs])
            pos[:, on_link] = link_pos + rotate_vectors(link_quat, pos[:, on_link])
            quat[:, on_link] = multiply_quaternions(link_quat, quat[:, on_link])
        dtype = self._built_scene.arrays.dtype
        return pos.astype(dtype), quat.astype(dtype)


def named_frames(description: Robot | World) -> list[tuple[str, Robot | World, Frame]]:
    """Named frames of a robot or world: unique name, robot or world that lists the frame, and the frame.

    The name is prefixed with the robot's name (`robot::frame`) if several frames of the description share it.
    """
    owners = [description, *(description.robots if isinstance(description, World) else [])]
    frames = [(owner, frame) for owner in owners for frame in owner.frames]
    duplicates = {name for name, count in Counter(frame.name for _, frame in frames).items() if count > 1}
    return [
        (qualified_name(owner, frame.name, duplicates) if isinstance(owner, Robot) else frame.name, owner, frame)
        for owner, frame in frames
    ]
