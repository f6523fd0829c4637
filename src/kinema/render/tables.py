"""NumPy tables of a render scene: ray-traced bodies with bounds, meshes, surfaces, textures, emissive triangles.

All meshes of a link are merged into one body. They often overlap (files have one mesh per material), so that a ray near
the link would traverse the BVH of each; with one BVH the closest face is found in a single traversal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kinema.core import Array, Pose

from .geometry import Geometry, GeometryKind, TriangleMesh
from .render_scene import Instance, RenderScene
from .surfaces import TEXTURE_ROLES, Surface, load_texture_images

# Bodies ---------------------------------------------------------------------------------------------------------------

MAX_MERGED_FACES = 200_000
"""Number of faces from which a mesh is not merged with others but stays a separate body."""
_BOUND_SLACK = 1.0e-4
"""Relative enlargement of bounding spheres for single precision."""


@dataclass(frozen=True, eq=False, slots=True)
class TriangleSoup:
    """Triangles of one or several meshes in the frame of a body."""

    vertices: Array
    faces: np.ndarray


@dataclass(frozen=True, eq=False, slots=True)
class RenderBody:
    """A ray-traced body: one primitive, or the merged meshes of a link."""

    instances: tuple[int, ...]
    """Indices of its instances; several only for merged meshes."""
    geometry: Geometry
    """Geometry of the first instance."""
    link: int
    pose: Pose
    """Pose in the link frame."""
    soup: TriangleSoup | None
    """Merged triangles; None for primitives."""
    center: Array
    """Centre of the bounding box in the body frame [m]."""
    half_extent: Array
    """Half extents of the bounding box [m]."""
    bounding_radius: float
    """Radius of the bounding sphere about the centre [m]."""


@dataclass(frozen=True, eq=False, slots=True)
class BodyTable:
    """All bodies of a scene, bounded ones first, and the mapping of their faces to instances."""

    bodies: list[RenderBody]
    n_bounded: int
    """Number of bodies of finite extent."""
    body_of_instance: np.ndarray
    """Body index of each instance."""
    instance_poses: list[Pose]
    """Pose of each instance in the frame of its body."""
    face_start: np.ndarray
    """Start of the faces of each body in `face_instance` and `face_index`."""
    face_instance: np.ndarray
    """Instance of each body face."""
    face_index: np.ndarray
    """Index of each body face in the mesh table."""


def body_table(render_scene: RenderScene, face_starts: dict[int, tuple[int, int]]) -> BodyTable:
    """Group the mesh and primitive instances of a scene into ray-traced bodies, the leaves of the scene BVH.

    Args:
        render_scene: the scene.
        face_starts: by id of a triangle mesh, its first vertex and face in the mesh table.
    """
    soups: dict[tuple[object, ...], TriangleSoup] = {}
    unsorted = [_make_body(render_scene, group, soups) for group in _group_instances(render_scene)]
    bodies = sorted(unsorted, key=lambda body: body.geometry.is_infinite)
    body_of_instance = np.zeros(max(len(render_scene.instances), 1), np.int32)
    poses = [Pose()] * max(len(render_scene.instances), 1)
    starts, instances, faces = [], [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    for index, body in enumerate(bodies):
        starts.append(sum(len(part) for part in faces))
        body_of_instance[list(body.instances)] = index
        for member in body.instances:
            instance = render_scene.instances[member]
            poses[member] = body.pose.inverse() @ instance.pose
            mesh = instance.geometry.triangles
            if mesh is not None:
                faces.append(face_starts[id(mesh)][1] + np.arange(len(mesh.faces), dtype=np.int32))
                instances.append(np.full(len(mesh.faces), member, np.int32))
    return BodyTable(
        bodies,
        sum(not body.geometry.is_infinite for body in bodies),
        body_of_instance,
        poses,
        np.array(starts or [0], np.int32),
        np.concatenate(instances) if len(instances) > 1 else np.zeros(1, np.int32),
        np.concatenate(faces) if len(faces) > 1 else np.zeros(1, np.int32),
    )


def _group_instances(render_scene: RenderScene) -> list[list[int]]:
    """Instance indices grouped into bodies: meshes of a link together, primitives and large meshes separately."""
    merged: dict[int, list[int]] = {}
    separate: list[list[int]] = []
    for index, instance in enumerate(render_scene.instances):
        mesh = instance.geometry.triangles
        if mesh is not None and len(mesh.faces) < MAX_MERGED_FACES:
            merged.setdefault(instance.link, []).append(index)
        else:
            separate.append([index])
    return [*merged.values(), *separate]


def _make_body(
    render_scene: RenderScene, instances: Sequence[int], soups: dict[tuple[object, ...], TriangleSoup]
) -> RenderBody:
    """Ray-traced body of a group of instances, with its bounding box and sphere.

    Merged triangles are cached in `soups`, so that links with equal meshes share one BVH.
    """
    members = [render_scene.instances[index] for index in instances]
    first = members[0]
    pose = first.pose if len(members) == 1 else Pose()
    soup = None
    if first.geometry.triangles is not None:
        key = _mesh_group_key(members) if len(members) > 1 else (id(first.geometry.triangles),)
        if key not in soups:
            soups[key] = _merge_meshes(members, pose)
        soup = soups[key]
    lower, upper = (
        (np.zeros(3), np.zeros(3))
        if first.geometry.is_infinite
        else first.geometry.bounds()
        if soup is None
        else (soup.vertices.min(axis=0), soup.vertices.max(axis=0))
    )
    center, half_extent = 0.5 * (lower + upper), 0.5 * (upper - lower)
    radius = (
        _primitive_bounding_radius(first.geometry, half_extent) if soup is None else _max_length(soup.vertices - center)
    )
    return RenderBody(
        tuple(instances),
        first.geometry,
        first.link,
        pose,
        soup,
        center,
        half_extent,
        radius * (1.0 + _BOUND_SLACK) + 1.0e-5,
    )


def _mesh_group_key(members: Sequence[Instance]) -> tuple[object, ...]:
    """Cache key of merged meshes: meshes and poses of the members."""
    return tuple((id(m.geometry.triangles), m.pose.matrix.tobytes()) for m in members)


def _merge_meshes(members: Sequence[Instance], pose: Pose) -> TriangleSoup:
    """Merge the meshes of instances into one triangle soup in the frame of the body at `pose`."""
    vertices, faces, count = [], [], 0
    for member in members:
        mesh = member.geometry.triangles
        assert mesh is not None
        vertices.append((pose.inverse() @ member.pose).apply(mesh.vertices) if len(members) > 1 else mesh.vertices)
        faces.append(mesh.faces + count)
        count += len(mesh.vertices)
    return TriangleSoup(np.concatenate(vertices), np.concatenate(faces))


def _primitive_bounding_radius(geometry: Geometry, half_extent: Array) -> float:
    """Radius of the bounding sphere of a primitive about its centre [m]."""
    if geometry.kind in (GeometryKind.SPHERE, GeometryKind.CAPSULE, GeometryKind.ELLIPSOID):
        return float(half_extent.max())
    if geometry.kind in (GeometryKind.CYLINDER, GeometryKind.CONE):
        return float(np.hypot(half_extent[0], half_extent[2]))
    return float(np.linalg.norm(half_extent))


def _max_length(offsets: Array) -> float:
    return float(np.sqrt((offsets**2).sum(axis=1).max()))


# Meshes and surfaces --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class MeshTable:
    """Concatenated meshes, with the names of the array contract (`vverts`, `vfaces`, `vnormals`, `uvs`)."""

    vverts: np.ndarray
    vfaces: np.ndarray
    vnormals: np.ndarray
    uvs: np.ndarray
    colors: np.ndarray
    face_surface: np.ndarray
    starts: dict[int, tuple[int, int]]
    """First vertex and face of each mesh, by id of its `TriangleMesh`."""


@dataclass(frozen=True, eq=False, slots=True)
class SurfaceTable:
    """Distinct surfaces with their parameters, texture slots and texels (see `kernels.structs.Surfaces`)."""

    index: dict[int, int]
    """Row of each surface, by id of its `Surface`."""
    color: np.ndarray
    finish: np.ndarray
    clearcoat: np.ndarray
    emission: np.ndarray
    alpha_cutoff: np.ndarray
    texture_slots: np.ndarray
    slot_layout: np.ndarray
    slot_transform: np.ndarray
    texels: np.ndarray


@dataclass(frozen=True, eq=False, slots=True)
class EmitterTable:
    """Emissive triangles that are sampled as light sources (see `kernels.structs.Lights`)."""

    body: np.ndarray
    corner: np.ndarray
    edge1: np.ndarray
    edge2: np.ndarray
    emission: np.ndarray
    cdf: np.ndarray
    power: float
    is_emitter: np.ndarray


def surface_table(render_scene: RenderScene) -> SurfaceTable:
    """Table of all surfaces of instances and faces; row 0 is the default surface. Loads the texture images."""
    surfaces: list[Surface] = [Surface()]
    for instance in render_scene.instances:
        mesh = instance.geometry.triangles
        surfaces += [instance.surface] if instance.surface else (mesh.surfaces if mesh else [])
    surfaces = list({id(item): item for item in surfaces}.values())
    images = load_texture_images(
        (texture_map.file for item in surfaces for texture_map in item.maps.values()), render_scene.diagnostics
    )
    starts, texels = {}, [np.zeros(1, np.uint32)]
    for file, image in images.items():
        starts[file] = sum(len(block) for block in texels)
        texels.append(np.ascontiguousarray(image).view(np.uint32).ravel())
    slot_layout, slot_transform = [], []
    texture_slots = np.full((len(surfaces), len(TEXTURE_ROLES)), -1, np.int32)
    for row, surface in enumerate(surfaces):
        for role, image in surface.maps.items():
            texture_slots[row, TEXTURE_ROLES.index(role)] = len(slot_layout)
            height, width = images[image.file].shape[:2]
            slot_layout.append([starts[image.file], width, height, *image.wrap, image.channel])
            slot_transform.append([*image.uv_transform, image.strength])
    return SurfaceTable(
        {id(item): i for i, item in enumerate(surfaces)},
        np.array([item.color for item in surfaces], np.float32),
        np.array([[item.metallic, item.roughness, item.specular, item.ior] for item in surfaces], np.float32),
        np.array([[item.clearcoat, item.clearcoat_roughness] for item in surfaces], np.float32),
        np.array([item.emission for item in surfaces], np.float32),
        np.array([item.alpha_cutoff for item in surfaces], np.float32),
        texture_slots,
        np.array(slot_layout or np.zeros((1, 6)), np.int32),
        np.array(slot_transform or np.zeros((1, 7)), np.float32),
        np.concatenate(texels),
    )


def mesh_table(render_scene: RenderScene, surfaces: SurfaceTable) -> MeshTable:
    """Concatenated arrays of all distinct meshes, shared by their instances."""
    meshes = {id(t): t for i in render_scene.instances if (t := i.geometry.triangles) is not None}
    starts, n_vertices, n_faces = {}, 0, 0
    for key, mesh in meshes.items():
        starts[key] = (n_vertices, n_faces)
        n_vertices += len(mesh.vertices)
        n_faces += len(mesh.faces)
    parts = list(meshes.values())
    offsets = [starts[key][0] for key in meshes]
    return MeshTable(
        _concatenate([p.vertices for p in parts], 3),
        _concatenate([p.faces + o for p, o in zip(parts, offsets, strict=True)], 3, np.int32),
        _concatenate([p.normals for p in parts], 3),
        _concatenate([p.uvs for p in parts], 2),
        _concatenate([p.colors for p in parts], 4),
        np.concatenate([np.zeros(1, np.int32), *(_face_surface_indices(p, surfaces) for p in parts)])[
            1 if parts else 0 :
        ],
        starts,
    )


def _concatenate(parts: list[np.ndarray], width: int, dtype: type = np.float32) -> np.ndarray:
    return np.concatenate(parts).astype(dtype) if parts else np.zeros((1, width), dtype)


def _face_surface_indices(mesh: TriangleMesh, surfaces: SurfaceTable) -> np.ndarray:
    """Surface row of each face of a mesh; 0 (default) for faces without surface."""
    if mesh.surface_of_face is None:
        return np.zeros(len(mesh.faces), np.int32)
    rows = [surfaces.index.get(id(s), 0) for s in mesh.surfaces]
    return np.array([*rows, 0], np.int32)[mesh.surface_of_face]


def instance_surfaces(render_scene: RenderScene, surfaces: SurfaceTable) -> np.ndarray:
    """Surface row of each instance; -1 for per-face surfaces."""

    def surface_row(instance: Instance) -> int:
        if instance.surface is not None:
            return surfaces.index[id(instance.surface)]
        return -1 if instance.geometry.kind is GeometryKind.MESH else 0

    return np.array([surface_row(i) for i in render_scene.instances] or [0], np.int32)


def emitter_table(render_scene: RenderScene, bodies: BodyTable) -> EmitterTable:
    """Emissive triangles of rectangles and meshes with a single, uniformly emitting surface.

    Sampled with probability proportional to luminance times area. Other emissive surfaces are found by BSDF sampling
    only. Without emitters, the table has one row and a power of 0.
    """
    rows: list[tuple[int, Array, Array]] = []
    is_emitter = np.zeros(max(len(render_scene.instances), 1), np.int32)
    for index, instance in enumerate(render_scene.instances):
        surface = _uniform_emitter_surface(instance)
        corners = None if surface is None else _emitter_triangles(instance)
        if surface is not None and corners is not None:
            is_emitter[index] = 1
            body = int(bodies.body_of_instance[index])
            corners = bodies.instance_poses[index].apply(corners.reshape(-1, 3)).reshape(-1, 3, 3)
            rows += [(body, triangle, np.array(surface.emission)) for triangle in corners]
    if not rows:
        zero = np.zeros((1, 3), np.float32)
        return EmitterTable(np.zeros(1, np.int32), zero, zero, zero, zero, np.ones(1, np.float32), 0.0, is_emitter)
    triangles = np.array([t for _, t, _ in rows])
    emission = np.array([e for _, _, e in rows])
    edge1, edge2 = triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]
    power = 0.5 * np.linalg.norm(np.cross(edge1, edge2), axis=1) * (emission @ [0.2126, 0.7152, 0.0722])
    return EmitterTable(
        np.array([n for n, _, _ in rows], np.int32),
        triangles[:, 0].astype(np.float32),
        edge1.astype(np.float32),
        edge2.astype(np.float32),
        emission.astype(np.float32),
        (np.cumsum(power) / power.sum()).astype(np.float32),
        float(power.sum()),
        is_emitter,
    )


def glass_bodies(render_scene: RenderScene, bodies: BodyTable) -> list[int]:
    """Indices of bounded bodies with a glass surface."""

    def is_glass(instance: Instance) -> bool:
        mesh = instance.geometry.triangles
        return any(s.ior > 0.0 for s in ([instance.surface] if instance.surface else (mesh.surfaces if mesh else [])))

    bodies_with_glass = {
        int(bodies.body_of_instance[n]) for n, instance in enumerate(render_scene.instances) if is_glass(instance)
    }
    return sorted(body for body in bodies_with_glass if body < bodies.n_bounded)


def _uniform_emitter_surface(instance: Instance) -> Surface | None:
    """The only surface of an instance if it emits uniformly; else None."""
    mesh = instance.geometry.triangles
    surface = instance.surface or (mesh.surfaces[0] if mesh and len(mesh.surfaces) == 1 else None)
    if surface is None or not any(surface.emission) or "emission" in surface.maps:
        return None
    mixed = mesh is not None and mesh.surface_of_face is not None and (mesh.surface_of_face != 0).any()
    return None if mixed and instance.surface is None else surface


def _emitter_triangles(instance: Instance) -> Array | None:
    """Triangles (n, 3, 3) of a mesh or rectangle in its frame [m]; None for other geometries."""
    geometry = instance.geometry
    if geometry.triangles is not None:
        return geometry.triangles.vertices[geometry.triangles.faces]
    if geometry.kind is GeometryKind.PLANE and not geometry.is_infinite:
        x, y, _ = geometry.size
        a, b, c, d = (np.array([u * x, v * y, 0.0]) for u, v in ((-1, -1), (1, -1), (1, 1), (-1, 1)))
        return np.array([[a, b, c], [a, c, d]])
    return None
