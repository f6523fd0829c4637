"""Velocity of surfaces in contacts (conveyor belts, tracks, turntables): set per environment while the scene runs.

The surface of a geom moves like a rigid body with a linear and an angular velocity relative to its link, while the geom
itself stays where it is. The engine has one such velocity per geom: at the origin of the geom, along the axes of the
moving frame (`GeomsInfo.surface_velocity`).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from kinema.core import Array, KinemaError, Pose, rpy_to_matrix, skew
from kinema.description import SCOPE, World
from kinema.model import Model
from kinema.tokens import sdf

from .arguments import IndexArray, Selection, indices_matching, resolve_envs, resolve_indices
from .arrays import component_rows
from .attachments import LinkSelector
from .built_scene import HasBuiltScene
from .entity import Entity
from .entity_index import EntityIndex
from .sleep import wake_all

PARAMETER = "surface_velocity"
"""Name of the array, and of the parameter in `build(per_env=...)`."""
_LABEL, _TRACK_LABEL = "set_surface_velocity", "set_track_velocity"


class SceneWithSurfaces(HasBuiltScene, Protocol):
    """Interface of `Scene` for its surface velocities."""

    entities: list[Entity]
    contacts: bool

    def allow_per_env(self, *parameters: str) -> None:
        """Make parameters per-environment."""
        ...


class SurfaceVelocities:
    """Surface velocities of the geoms of a scene; velocities set before `build` are stored until then."""

    def __init__(self, scene: SceneWithSurfaces) -> None:
        self._scene = scene
        self._pending: list[tuple[Entity, Any, Any, LinkSelector | None, str | int | None]] = []

    def required_parameters(self) -> frozenset[str]:
        """Per-environment parameters that velocities set before `build`, and tracks, need."""
        has_tracks = self._scene.contacts and any(find_tracks(entity._index) for entity in self._scene.entities)
        return frozenset([PARAMETER] if self._pending or has_tracks else [])

    def write_pending(self) -> None:
        """Write the velocities that were set before `build`."""
        for entity, linear, angular, link, geom in self._pending:
            write_surface_velocity(entity._index, linear, angular, link, geom, None)

    def set(
        self,
        entity: Entity,
        linear: Any,
        angular: Any,
        link: LinkSelector | None,
        geom: str | int | None,
        envs_idx: Selection,
    ) -> None:
        """Set the surface velocity of an entity, link or geom; arguments: see `Scene.set_surface_velocity`."""
        scene = self._scene
        if not any(entity is own for own in scene.entities):
            raise KinemaError(f"{_LABEL}: expected an entity of this scene, not {entity!r}")
        if not scene.is_built:
            if envs_idx is not None:
                raise KinemaError(f"{_LABEL}: environments can be selected after scene.build()")
            self._pending.append((entity, linear, angular, link, geom))
            return
        if scene.contacts and not scene.built.arrays.has(PARAMETER):
            scene.allow_per_env(PARAMETER)
        write_surface_velocity(entity._index, linear, angular, link, geom, envs_idx)

    def drive_tracks(self, entity: Entity, velocity: Any, tracks: Selection, envs_idx: Selection) -> None:
        """Drive tracks of an entity; arguments: see `Scene.set_track_velocity`.

        The surface of a track moves against the direction in which the track drives.
        """
        if not any(entity is own for own in self._scene.entities):
            raise KinemaError(f"{_TRACK_LABEL}: expected an entity of this scene, not {entity!r}")
        built, directions = self._scene.built, find_tracks(entity._index)
        if not directions:
            raise KinemaError(f'{_TRACK_LABEL}: "{entity.name}" has no tracks (TrackController plugins of SDFormat)')
        rows = resolve_indices(tracks, list(directions), f"{_TRACK_LABEL}: tracks", "tracks")
        values, envs = built.arrays.to_finite_batch(velocity, (len(rows),), envs_idx, _TRACK_LABEL)
        for row, speeds in zip(rows, values.T, strict=True):
            link, direction = list(directions.items())[row]
            write_surface_velocity(entity._index, -speeds[:, None] * direction, np.zeros(3), link, None, envs)


def find_tracks(index: EntityIndex) -> dict[str, Array]:
    """Direction on its link in which each track of an SDFormat model drives, (3,), by link name in file order."""
    tracks: dict[str, Any] = {}
    description = index.description
    for robot in description.robots if isinstance(description, World) else [description]:
        models = robot.attributes.get(sdf.attribute_key(sdf.MODELS), {}).values()
        for attributes in (robot.attributes, *models):
            tracks |= attributes.get(sdf.attribute_key(sdf.TRACKS), {})
    directions = {name: rpy_to_matrix(angles)[:, 0] for name, angles in tracks.items()}
    names = index.model.links.names
    return {
        name: directions[own]
        for name in names
        for own in [name if name in directions else name.rpartition(SCOPE)[2]]
        if own in directions
    }


def write_surface_velocity(
    index: EntityIndex, linear: Any, angular: Any, link: Any, geom: str | int | None, envs_idx: Selection
) -> None:
    """Set the surface velocity of the geoms of an entity, of a link or of one geom, and wake all sleeping bodies.

    Args:
        index: names and rows of the entity.
        linear: velocity of the surface at the origin of the link or geom [m/s], (3,) or (n_envs, 3), along its axes.
        angular: angular velocity of the surface [rad/s], same shapes.
        link: link whose geoms are set, by name or index; None for all links of the entity.
        geom: the geom, by name or index, whose axes and origin the velocities refer to; None for all of the links.
        envs_idx: environments; None for all.
    """
    built = index.built
    rows = _select_geoms(index, link, geom)
    if built.outputs.is_gpu_tensor(linear) or built.outputs.is_gpu_tensor(angular):
        _write_tensors(index, rows, linear, angular, envs_idx, is_geom=geom is not None)
        return
    batches = [built.arrays.to_finite_batch(x, (3,), envs_idx, _LABEL) for x in (linear, angular)]
    envs = batches[0][1]
    members = np.arange(built.n_envs) if envs is None else envs
    values = np.concatenate([np.broadcast_to(x, (len(members), 3)) for x, _ in batches], axis=1)
    variants = built.engine.variants
    velocities = np.zeros((len(members), 6 * len(rows)))
    for i, model in enumerate(variants.models):
        chosen = variants.variant_of_env[members] == i
        velocities[chosen] = values[chosen] @ _geom_velocities(index, model, rows, is_geom=geom is not None)
    built.arrays.write(PARAMETER, component_rows(rows, 6), velocities, envs)
    wake_all(built.arrays, envs)  # bodies at rest on a surface do not notice that it moves


def _write_tensors(
    index: EntityIndex, rows: IndexArray, linear: Any, angular: Any, envs_idx: Selection, *, is_geom: bool
) -> None:
    """Set the surface velocity of geoms from CUDA tensors on the device, and wake all sleeping bodies.

    Raises `KinemaError` for entities with variants.
    """
    built = index.built
    if len(built.engine.variants.models) > 1:
        raise KinemaError(f"{_LABEL}: an entity of this scene has variants: expected NumPy arrays instead of tensors")
    envs = built.outputs.resolve_envs(envs_idx)
    matrix = built.arrays.device_constant(_geom_velocities(index, built.model, rows, is_geom=is_geom))
    count = built.n_envs if envs is None else len(envs)
    parts = [
        (x if built.outputs.is_gpu_tensor(x) else built.arrays.device_constant(np.asarray(x, np.float64)))
        .to(matrix.dtype)
        .expand(count, 3)
        for x in (linear, angular)
    ]
    values = parts[0] @ matrix[:3] + parts[1] @ matrix[3:]
    built.arrays.write_tensor(PARAMETER, component_rows(rows, 6), values, envs)
    wake_all(built.arrays, None if envs is None else resolve_envs(envs.cpu().numpy(), built.n_envs))


def _select_geoms(index: EntityIndex, link: Any, geom: str | int | None) -> IndexArray:
    """Rows of the geoms of an entity, of one of its links or of one geom; `KinemaError` if there are none."""
    geoms = index.built.model.geoms
    if not index.built.engine.settings.contacts:
        raise KinemaError(f"{_LABEL}: contacts are disabled in this scene")
    if geom is not None and link is not None:
        raise KinemaError(f"{_LABEL}: expected a link or a geom, not both")
    rows = index.all_geoms
    if geom is not None:
        selected = indices_matching(geom, index.geom_names, _LABEL, "geoms") if isinstance(geom, str) else [geom]
        rows = index.geom_rows(selected, _LABEL)
        if len(rows) != 1:
            raise KinemaError(f"{_LABEL}: {len(rows)} geoms match {geom!r}: expected one")
    elif link is not None:
        rows = rows[np.isin(geoms.link_idx[rows], index.link_rows(link, _LABEL))]
    if not len(rows):
        owner = f'"{index.name}"' if link is None else f'link {link!r} of "{index.name}"'
        raise KinemaError(f"{_LABEL}: {owner} has no geoms that can collide")
    return rows


def _geom_velocities(index: EntityIndex, model: Model, rows: IndexArray, *, is_geom: bool) -> np.ndarray:
    """Matrix (6, 6 n_geoms) from (linear, angular) to the velocities that the engine has for geoms.

    The first are velocities at the origin and along the axes of the link of each geom (of the geom itself if `is_geom`,
    of the base of the entity for geoms in the world), the latter at the origin of the geom along the axes of its frame.
    """
    geoms, matrix = model.geoms, np.zeros((len(rows), 6, 6))
    for i, row in enumerate(rows.tolist()):
        link = int(geoms.link_idx[row])
        reference = index.base_pose or Pose() if link < 0 else Pose(model.links.pos[link], model.links.rot[link])
        position, rotation = geoms.pos[row] - reference.position, reference.rotation
        if is_geom:
            position, rotation = np.zeros(3), geoms.rot[row]
        matrix[i, :3, :3] = matrix[i, 3:, 3:] = rotation
        matrix[i, :3, 3:] = -skew(position) @ rotation
    return matrix.reshape(-1, 6).T.copy()
