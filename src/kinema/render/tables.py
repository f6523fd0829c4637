"""The arrays of a stage, side by side: geometries, surfaces, images, lights that are surfaces. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinema.foundation import Array

from .bodies import BodyTable
from .geometry import Kind, Triangles
from .stage import Instance, Stage
from .surfaces import MAPS, Surface
from .textures import load_images


@dataclass(frozen=True, eq=False, slots=True)
class MeshTable:
    """All triangles: the array contract's `vverts`, `vfaces`, `vnormals`, `uvs`, and where each mesh's are."""

    vverts: np.ndarray
    vfaces: np.ndarray
    vnormals: np.ndarray
    uvs: np.ndarray
    colors: np.ndarray
    face_surface: np.ndarray
    starts: dict[int, tuple[int, int]]
    """By the identity of triangles: their first vertex and face."""


@dataclass(frozen=True, eq=False, slots=True)
class SurfaceTable:
    """All surfaces, each once."""

    number: dict[int, int]
    """By identity."""
    color: np.ndarray
    finish: np.ndarray
    coat: np.ndarray
    emission: np.ndarray
    cutoff: np.ndarray
    maps: np.ndarray
    slot_image: np.ndarray
    slot_place: np.ndarray
    pixels: np.ndarray


@dataclass(frozen=True, eq=False, slots=True)
class GlowTable:
    """Triangles that give off light."""

    body: np.ndarray
    corner: np.ndarray
    first: np.ndarray
    second: np.ndarray
    emission: np.ndarray
    share: np.ndarray
    total: float
    glows: np.ndarray


def surface_table(stage: Stage) -> SurfaceTable:
    """Of all surfaces that instances and faces have; the first is what those without one have."""
    surfaces: list[Surface] = [Surface()]
    for instance in stage.instances:
        own = instance.geometry.triangles
        surfaces += [instance.surface] if instance.surface else (own.surfaces if own else [])
    surfaces = list({id(s): s for s in surfaces}.values())
    images = load_images((m.file for s in surfaces for m in s.maps.values()), stage.diagnostics)
    starts, pixels = {}, [np.zeros(1, np.uint32)]
    for file, image in images.items():
        starts[file] = sum(len(p) for p in pixels)
        pixels.append(np.ascontiguousarray(image).view(np.uint32).ravel())
    slot_image, slot_place = [], []
    maps = np.full((len(surfaces), len(MAPS)), -1, np.int32)
    for row, surface in enumerate(surfaces):
        for role, image in surface.maps.items():
            maps[row, MAPS.index(role)] = len(slot_image)
            height, width = images[image.file].shape[:2]
            slot_image.append([starts[image.file], width, height, *image.wrap, image.channel])
            slot_place.append([*image.place, image.strength])
    return SurfaceTable(
        {id(s): i for i, s in enumerate(surfaces)},
        np.array([s.color for s in surfaces], np.float32),
        np.array([[s.metallic, s.roughness, s.specular, s.glass] for s in surfaces], np.float32),
        np.array([[s.clearcoat, s.clearcoat_roughness] for s in surfaces], np.float32),
        np.array([s.emission for s in surfaces], np.float32),
        np.array([s.cutoff for s in surfaces], np.float32),
        maps,
        np.array(slot_image or np.zeros((1, 6)), np.int32),
        np.array(slot_place or np.zeros((1, 7)), np.float32),
        np.concatenate(pixels),
    )


def mesh_table(stage: Stage, surfaces: SurfaceTable) -> MeshTable:
    """Of all meshes, each once however many instances it has."""
    meshes = {id(t): t for i in stage.instances if (t := i.geometry.triangles) is not None}
    starts, n_vertices, n_faces = {}, 0, 0
    for key, mesh in meshes.items():
        starts[key] = (n_vertices, n_faces)
        n_vertices += len(mesh.vertices)
        n_faces += len(mesh.faces)
    parts = list(meshes.values())
    offsets = [starts[key][0] for key in meshes]
    return MeshTable(
        _joined([p.vertices for p in parts], 3),
        _joined([p.faces + o for p, o in zip(parts, offsets, strict=True)], 3, np.int32),
        _joined([p.normals for p in parts], 3),
        _joined([p.uvs for p in parts], 2),
        _joined([p.colors for p in parts], 4),
        np.concatenate([np.zeros(1, np.int32), *(_surfaces_of_faces(p, surfaces) for p in parts)])[1 if parts else 0 :],
        starts,
    )


def _joined(parts: list[np.ndarray], width: int, dtype: type = np.float32) -> np.ndarray:
    return np.concatenate(parts).astype(dtype) if parts else np.zeros((1, width), dtype)


def _surfaces_of_faces(mesh: Triangles, surfaces: SurfaceTable) -> np.ndarray:
    if mesh.surface_of_face is None:
        return np.zeros(len(mesh.faces), np.int32)
    own = [surfaces.number.get(id(s), 0) for s in mesh.surfaces]
    return np.array([*own, 0], np.int32)[mesh.surface_of_face]


def instance_surfaces(stage: Stage, surfaces: SurfaceTable) -> np.ndarray:
    """The number of each instance's surface, -1 where its faces have their own."""

    def number(instance: Instance) -> int:
        if instance.surface is not None:
            return surfaces.number[id(instance.surface)]
        return -1 if instance.geometry.kind is Kind.MESH else 0

    return np.array([number(i) for i in stage.instances] or [0], np.int32)


def glow_table(stage: Stage, table: BodyTable) -> GlowTable:
    """Of rectangles and meshes whose surface is one that shines evenly; others are found by chance alone."""
    rows: list[tuple[int, Array, Array]] = []
    glows = np.zeros(max(len(stage.instances), 1), np.int32)
    for number, instance in enumerate(stage.instances):
        surface = _even_glow(instance)
        corners = None if surface is None else _corners(instance)
        if surface is not None and corners is not None:
            glows[number] = 1
            body = int(table.body_of_instance[number])
            corners = table.instance_poses[number].apply(corners.reshape(-1, 3)).reshape(-1, 3, 3)
            rows += [(body, triangle, np.array(surface.emission)) for triangle in corners]
    if not rows:
        none = np.zeros((1, 3), np.float32)
        return GlowTable(np.zeros(1, np.int32), none, none, none, none, np.ones(1, np.float32), 0.0, glows)
    triangles = np.array([t for _, t, _ in rows])
    emission = np.array([e for _, _, e in rows])
    first, second = triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]
    power = 0.5 * np.linalg.norm(np.cross(first, second), axis=1) * (emission @ [0.2126, 0.7152, 0.0722])
    return GlowTable(
        np.array([n for n, _, _ in rows], np.int32),
        triangles[:, 0].astype(np.float32),
        first.astype(np.float32),
        second.astype(np.float32),
        emission.astype(np.float32),
        (np.cumsum(power) / power.sum()).astype(np.float32),
        float(power.sum()),
        glows,
    )


def glass_bodies(stage: Stage, table: BodyTable) -> list[int]:
    """The bodies that have an end and are of glass, all or in part."""

    def is_glass(instance: Instance) -> bool:
        own = instance.geometry.triangles
        return any(s.glass > 0.0 for s in ([instance.surface] if instance.surface else (own.surfaces if own else [])))

    found = {int(table.body_of_instance[n]) for n, instance in enumerate(stage.instances) if is_glass(instance)}
    return sorted(body for body in found if body < table.n_bounded)


def _even_glow(instance: Instance) -> Surface | None:
    """The one surface of an instance, if it gives off the same light everywhere."""
    own = instance.geometry.triangles
    surface = instance.surface or (own.surfaces[0] if own and len(own.surfaces) == 1 else None)
    if surface is None or not any(surface.emission) or "emission" in surface.maps:
        return None
    mixed = own is not None and own.surface_of_face is not None and (own.surface_of_face != 0).any()
    return None if mixed and instance.surface is None else surface


def _corners(instance: Instance) -> Array | None:
    geometry = instance.geometry
    if geometry.triangles is not None:
        return geometry.triangles.vertices[geometry.triangles.faces]
    if geometry.kind is Kind.PLANE and not geometry.is_endless:
        x, y, _ = geometry.size
        a, b, c, d = (np.array([u * x, v * y, 0.0]) for u, v in ((-1, -1), (1, -1), (1, 1), (-1, 1)))
        return np.array([[a, b, c], [a, c, d]])
    return None
