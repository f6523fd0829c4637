"""Quantities computed from the state of an entity: dof and link fields, bounding boxes, mass matrix, Jacobians, poses.

Named frames are MuJoCo's sites. All vectors are along the world axes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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
from kinema.runtime import find_device

from .arguments import IndexArray, Selection, finite_vector, one_of, resolve_envs, resolve_indices
from .entity_index import EntityIndex

if TYPE_CHECKING:
    from kinema.kinematics import BatchedKinematics, IKSolver

LINK_REFERENCES = ("link_origin", "link_com")
"""Reference points of link positions: link origin, centre of mass."""
WORLD_LINK = -1
"""Link index of frames and geoms fixed in the world."""


class EntityQueries:
    """Reads quantities of an entity that the engine computes on demand, and poses of its named frames and geoms."""

    def __init__(self, index: EntityIndex) -> None:
        self._index = index

    # ------------------------------------------------------------------------------------------- dofs and links

    def dofs(self, name: str, dofs_idx: Selection, envs_idx: Selection, label: str) -> Any:
        """Field `name` of `dofs_state` for the selected dofs and environments in the output type, (n_envs, n)."""
        rows, built = self._index.dof_rows(dofs_idx, label), self._index.built
        envs = built.outputs.resolve_envs(envs_idx)
        if not built.model.n_dofs:
            return built.outputs.convert(np.zeros((built.n_envs if envs is None else len(envs), 0)))
        return built.outputs.select(getattr(built.engine.fields.dofs_state, name), rows, envs)

    def links(self, name: str, links_idx: Selection, envs_idx: Selection, label: str) -> Any:
        """Field `name` of `links_state` for the selected links and environments, (n_envs, n_links, ...)."""
        rows, built = self._index.link_rows(links_idx, label), self._index.built
        source = getattr(built.engine.fields.links_state, name)
        return built.outputs.select(source, rows, built.outputs.resolve_envs(envs_idx))

    def link_positions(self, links_idx: Selection, envs_idx: Selection, ref: str) -> Any:
        """World positions of link origins or centres of mass (`ref`), (n_envs, n_links, 3)."""
        ref = one_of(ref, "get_links_pos: ref", LINK_REFERENCES)
        return self.links("pos" if ref == "link_origin" else "i_pos", links_idx, envs_idx, "get_links_pos")

    def center_of_mass(self, envs_idx: Selection) -> np.ndarray:
        """World position of the centre of mass of the entity [m], (n_envs, 3)."""
        built, links = self._index.built, self._index.all_links
        envs, state = resolve_envs(envs_idx, built.n_envs), built.engine.fields.links_state
        mass, com = state.cinr_mass.numpy()[links], state.i_pos.numpy()[links]
        total_com = (mass[..., None] * com).sum(axis=0) / mass.sum(axis=0)[:, None]
        return np.array(total_com if envs is None else total_com[envs])

    def _link_poses(self, rows: Any, envs: IndexArray | None) -> tuple[np.ndarray, np.ndarray]:
        """World positions and quaternions of links in float64, (environments, n, 3) and (environments, n, 4)."""
        state = self._index.built.engine.fields.links_state
        pos, quat = (np.moveaxis(np.asarray(x.numpy(), np.float64)[rows], 1, 0) for x in (state.pos, state.quat))
        return (pos, quat) if envs is None else (pos[envs], quat[envs])

    def aabb(self, envs_idx: Selection) -> np.ndarray:
        """World axis-aligned bounding box of all collision shapes [m], (n_envs, 2, 3): minimum, then maximum."""
        index = self._index
        envs = resolve_envs(envs_idx, index.built.n_envs)
        positions, quats = self._link_poses(index.all_links, envs)
        variants = index.variant_of_env if envs is None else index.variant_of_env[envs]
        result = np.zeros((len(variants), 2, 3))
        for variant in np.unique(variants):
            members, boxes = np.flatnonzero(variants == variant), []
            for i, shapes in enumerate(self._link_shapes(int(variant))):
                rotation = np.stack([rotate_vectors(quats[members, i], axis) for axis in np.eye(3)], axis=2)
                boxes.append(shapes_aabb(shapes, positions[members, i], rotation))
            result[members, 0] = np.min([b[:, 0] for b in boxes], axis=0)
            result[members, 1] = np.max([b[:, 1] for b in boxes], axis=0)
        return result

    def _link_shapes(self, variant: int) -> list[list[Shape]]:
        """Shapes of each link of a variant, in the link order of the entity's model."""
        index = self._index
        if index.variants is not None:
            return [list(link.shapes) for link in index.variants.descriptions[variant].links]
        shapes_by_name = {name: link.shapes for name, _, link in _named_links(index.description)}
        return [shapes_by_name[name] for name in index.model.links.names]

    # ----------------------------------------------------------------------------------- mass matrix and Jacobians

    def mass_matrix(self, envs_idx: Selection, *, decompose: bool) -> Any:
        """Joint-space mass matrix, (n_envs, n_dofs, n_dofs); with `decompose` its factors L and D^-1 of M = LᵀDL."""
        built, dofs = self._index.built, self._index.all_dofs
        if not self._index.model.n_dofs:
            raise KinemaError(f'get_mass_mat: "{self._index.name}" has no degrees of freedom')
        fields, envs = built.engine.fields.constraints, built.outputs.resolve_envs(envs_idx)
        if decompose:
            lower = built.outputs.diagonal_block(fields.mass_mat_L, dofs, envs)
            return lower, built.outputs.select(fields.mass_mat_D_inv, dofs, envs)
        return built.outputs.diagonal_block(fields.mass_mat, dofs, envs)

    def jacobian(self, link: Any, local_point: Any, envs_idx: Selection) -> np.ndarray:
        """Geometric Jacobian of a point of a link, (n_envs, 6, n_dofs): linear, then angular rows, world axes."""
        index, built, label = self._index, self._index.built, "get_jacobian"
        idx = index.link(link, label)
        jacobian = built.engine.fields.jacobian(index.info.link_start + idx).numpy()[:, index.all_dofs]
        result = np.array(np.moveaxis(jacobian, 2, 0), order="C")
        if local_point is not None:
            point = finite_vector(local_point, f"{label}: local_point", "three")
            quat = built.engine.fields.links_state.quat.numpy()[index.info.link_start + idx]
            result[:, :3] += np.cross(result[:, 3:], rotate_vectors(quat, point)[:, :, None], axis=1)
        envs = resolve_envs(envs_idx, built.n_envs)
        return result if envs is None else result[envs]

    # ---------------------------------------------------------------------------------- poses of frames and geoms

    @property
    def frame_names(self) -> list[str]:
        """Names of the named frames of the description, in index order."""
        return [name for name, *_ in named_frames(self._index.description)]

    def frame_poses(self, frames_idx: Selection, envs_idx: Selection, label: str) -> tuple[np.ndarray, np.ndarray]:
        """World positions (environments, n, 3) and quaternions (environments, n, 4) of the selected named frames."""
        index = self._index
        frames = resolve_indices(frames_idx, self.frame_names, f"{label}: frames_idx", "frames")
        descriptions = index.descriptions
        frames_per_variant = [named_frames(description) for description in descriptions]
        links = [self._link_of_frame(descriptions[0], *frames_per_variant[0][i][1:]) for i in frames]
        poses = [[self._frame_pose_on_link(*named[i][1:]) for i in frames] for named in frames_per_variant]
        return self._world_poses(links, poses, index.variant_of_env, envs_idx)

    def _link_of_frame(self, description: Robot | World, owner: Robot | World, frame: Frame) -> int:
        """Scene index of the link that a named frame is attached to; `WORLD_LINK` if it is attached to no link.

        Args:
            description: description of the entity.
            owner: robot or world that contains the frame.
            frame: the frame.
        """
        if frame.link is None:
            return WORLD_LINK
        matches = (
            name
            for name, robot, link in _named_links(description)
            if frame.link in (link.name, name) and owner in (robot, description)
        )
        return self._index.info.link_start + self._index.model.links.names.index(next(matches))

    def _frame_pose_on_link(self, owner: Robot | World, frame: Frame) -> Pose:
        """Pose of a named frame in its link; in the world if it is fixed to no link."""
        if frame.link is not None:
            return frame.pose
        pose, base = owner.pose if isinstance(owner, Robot) else Pose(), self._index.base_pose
        if base is not None:
            pose = base if isinstance(self._index.description, Robot) else base @ pose
        return pose @ frame.pose

    def geom_poses(self, geoms_idx: Selection, envs_idx: Selection, label: str) -> tuple[np.ndarray, np.ndarray]:
        """World positions [m], (environments, n, 3), and quaternions, (environments, n, 4), of collision geoms."""
        rows, variants = self._index.geom_rows(geoms_idx, label), self._index.built.engine.variants
        links = variants.models[0].geoms.link_idx[rows].tolist()
        poses = []
        for model in variants.models:
            geoms, model_links = model.geoms, model.links
            link_poses = [Pose() if k < 0 else Pose(model_links.pos[k], model_links.rot[k]) for k in links]
            geom_poses = [Pose(geoms.pos[i], geoms.rot[i]) for i in rows]
            poses.append([link.inverse() @ geom for link, geom in zip(link_poses, geom_poses, strict=True)])
        return self._world_poses(links, poses, variants.variant_of_env, envs_idx)

    def _world_poses(
        self, links: list[int], local_poses: list[list[Pose]], variant_of_env: IndexArray, envs_idx: Selection
    ) -> tuple[np.ndarray, np.ndarray]:
        """World positions (environments, n, 3) and quaternions (environments, n, 4) of n poses fixed to links.

        Args:
            links: scene index of the link of each pose; `WORLD_LINK` for poses in the world.
            local_poses: poses in their links for each variant, (n_variants, n).
            variant_of_env: variant index of each environment, (n_envs,).
            envs_idx: environments; None for all.
        """
        built, n_variants = self._index.built, len(local_poses)
        envs = resolve_envs(envs_idx, built.n_envs)
        variants = variant_of_env if envs is None else variant_of_env[envs]
        pos = np.array([[p.position for p in row] for row in local_poses]).reshape(n_variants, -1, 3)[variants]
        quat = np.array([[p.quaternion for p in row] for row in local_poses]).reshape(n_variants, -1, 4)[variants]
        on_link = np.flatnonzero(np.array(links) != WORLD_LINK)
        if len(on_link):
            link_pos, link_quat = self._link_poses(np.array(links)[on_link], envs)
            pos[:, on_link] = link_pos + rotate_vectors(link_quat, pos[:, on_link])
            quat[:, on_link] = multiply_quaternions(link_quat, quat[:, on_link])
        return pos.astype(built.arrays.dtype), quat.astype(built.arrays.dtype)


def _named_links(description: Robot | World) -> list[tuple[str, Robot | World, Any]]:
    """Links of a robot or world: name unique in the description, robot, and link."""
    if isinstance(description, World):
        return list(description.named_links())
    return [(link.name, description, link) for link in description.links]


def named_frames(description: Robot | World) -> list[tuple[str, Robot | World, Frame]]:
    """Named frames of a robot or world: unique name, robot or world that contains the frame, and the frame.

    The name is prefixed with the robot's name (`robot::frame`) if several frames of the description share it.
    """
    owners = [description, *(description.robots if isinstance(description, World) else [])]
    frames = [(owner, frame) for owner in owners for frame in owner.frames]
    duplicates = {name for name, count in Counter(frame.name for _, frame in frames).items() if count > 1}
    return [
        (qualified_name(owner, frame.name, duplicates) if isinstance(owner, Robot) else frame.name, owner, frame)
        for owner, frame in frames
    ]


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
            center = position + rotation @ shape.pose.position
            low, high = geometry_aabb(shape.geometry, center, rotation @ shape.pose.rotation)
            bounds[:, 0] = np.minimum(bounds[:, 0], low)
            bounds[:, 1] = np.maximum(bounds[:, 1], high)
    return bounds


def geometry_aabb(geometry: Geometry, center: np.ndarray, shape_rotation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exact world AABB of one geometry: minimum and maximum [m], (n_envs, 3) each.

    Closed forms for primitives, vertices for meshes and height fields; planes are infinite, an empty mesh gives (inf,
    -inf).

    Args:
        geometry: the geometry.
        center: world position of its frame [m], (n_envs, 3).
        shape_rotation: rotation matrix of its frame, (n_envs, 3, 3).
    """
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


# ------------------------------------------------------------------------------- forward and inverse kinematics


class EntityKinematics:
    """Forward and inverse kinematics of an entity with separate programs, compiled on first use."""

    def __init__(self, index: EntityIndex) -> None:
        self._index = index
        self._ik_solver: IKSolver | None = None
        self._fk_solver: BatchedKinematics | None = None

    def inverse(
        self,
        links: list[Any],
        positions: list[Any],
        quaternions: list[Any],
        initial: Any,
        *,
        return_error: bool,
        dofs_idx: Selection = None,
        **options: Any,
    ) -> Any:
        """Inverse kinematics: coordinates at which links reach target poses, (n_envs, n_qs), or `IKSolutions`.

        Args:
            links: `EntityLink`, name or index of each target link.
            positions: target position of each link [m]; None for any.
            quaternions: target orientation of each link (w, x, y, z); None for any.
            initial: initial guess, (n_envs, n_qs).
            return_error: return the whole record instead of its coordinates.
            dofs_idx: dofs that may move; None for all.
            options: further options of `IKSolver.solve`.
        """
        built = self._index.built
        dofs = None if dofs_idx is None else [int(d) for d in self._index.dofs(dofs_idx, "inverse_kinematics")]
        if self._ik_solver is None:
            from kinema.kinematics import IKSolver

            engine = built.engine
            self._ik_solver = IKSolver(self._index.posed_model, engine.device.name, engine.precision, engine.threads)
        solutions = self._ik_solver.solve(links, positions, quaternions, initial, dofs=dofs, **options)
        return solutions if return_error else solutions.qpos.astype(built.arrays.dtype)

    def forward(self, qpos: Any, links_idx: Selection, envs_idx: Selection) -> tuple[np.ndarray, np.ndarray]:
        """Forward kinematics: positions (n, n_links, 3) and quaternions (n, n_links, 4) at coordinates (n, n_qs)."""
        from kinema.kinematics import BatchedKinematics, validate_rows

        coordinates = validate_rows(qpos, self._index.model.n_qs, "forward_kinematics: qpos")
        envs = resolve_envs(envs_idx, self._index.built.n_envs)
        coordinates = coordinates if envs is None or len(coordinates) == 1 else coordinates[envs]
        if self._fk_solver is None:
            engine = self._index.built.engine
            device = find_device(engine.device.name)
            self._fk_solver = BatchedKinematics(self._index.posed_model, device, engine.precision, engine.threads)
        links = self._index.links(links_idx, "forward_kinematics")
        pos, quat = self._fk_solver.link_poses(coordinates)
        return pos[:, links], quat[:, links]
