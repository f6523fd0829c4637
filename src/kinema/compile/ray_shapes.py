"""What rays can hit: all shapes that can be seen or touched, meshes as their triangles."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kinema import shapes
from kinema.description import Mesh, Plane, Shape, World, mesh_data
from kinema.foundation import Array, Pose
from kinema.model import RayShapes, no_ray_shapes

from .draft import Body, Draft
from .labels import shape_label
from .pieces import Piece
from .ray_tree import pack_tree
from .solids import pieces_of

MOST_NUMBERS = 1 << 24
"""Of all meshes together: beyond, single precision cannot count them."""


@dataclass(slots=True, eq=False)
class _Hit:
    """A shape on its way into the model."""

    shape: Shape
    piece: Piece
    body: Body | None
    pose: Pose
    first: int = 0
    counts: tuple[int, int] = (0, 0)


@dataclass(slots=True, eq=False)
class _Numbers:
    """One array of them for all shapes; meshes that are used twice are in it once."""

    parts: list[Array]
    length: int
    known: dict[object, tuple[int, tuple[int, int]]] = field(default_factory=dict)

    def add(self, key: object, own: Array, counts: tuple[int, int]) -> tuple[int, tuple[int, int]]:
        if key not in self.known:
            self.known[key] = (self.length, counts)
            self.parts.append(own)
            self.length += len(own)
        return self.known[key]


def pack_ray_shapes(draft: Draft, directions: list[Array]) -> RayShapes:
    """All shapes of the scene, where anything casts rays; the directions of these come first among the numbers."""
    if not directions:
        return no_ray_shapes()
    first = np.concatenate(directions).ravel()
    numbers = _Numbers([first], len(first))
    hits = [hit for entity in range(len(draft.parts)) for hit in _of_part(draft, entity, numbers)]
    return RayShapes(
        kinds=[h.piece.kind for h in hits],
        visual=np.array([h.shape.visual for h in hits], np.bool_),
        collision=np.array([h.shape.collision for h in hits], np.bool_),
        link_idx=np.array([-1 if h.body is None else h.body.index for h in hits], np.int32),
        frame_idx=np.array([-1 if h.body is None else h.body.frame for h in hits], np.int32),
        pos=np.array([h.pose.position for h in hits], np.float64).reshape(-1, 3),
        rot=np.array([h.pose.rotation for h in hits], np.float64).reshape(-1, 3, 3),
        size=np.array([h.piece.size for h in hits], np.float64).reshape(-1, 3),
        center=np.array([h.piece.center for h in hits], np.float64).reshape(-1, 3),
        radius=np.array([h.piece.radius for h in hits], np.float64),
        first_number=np.array([h.first for h in hits], np.int32),
        counts=np.array([h.counts for h in hits], np.int32).reshape(-1, 2),
        numbers=np.concatenate(numbers.parts),
    )


def _of_part(draft: Draft, entity: int, numbers: _Numbers) -> list[_Hit]:
    part = draft.parts[entity]
    placed: list[tuple[Shape, Body | None, Pose]] = []
    if isinstance(part.description, World):
        base = part.pose or Pose()
        placed += [(shape, None, base @ shape.pose) for shape in part.description.shapes]
    for body in draft.bodies:
        if body.entity == entity:
            placed += [(shape, body, body.place @ shape.pose) for shape in body.link.shapes]
    return [
        hit
        for shape, body, pose in placed
        if is_there(shape) and (hit := _hit(draft, shape, body, pose, numbers)) is not None
    ]


def is_there(shape: Shape) -> bool:
    """Whether rays see it: not what is switched off, nor what is drawn without a trace."""
    color = None if shape.material is None else shape.material.color
    clear = color is not None and len(color) > 3 and color[3] == 0.0
    return shape.enabled and not clear and (shape.visual or shape.collision)


def _hit(draft: Draft, shape: Shape, body: Body | None, pose: Pose, numbers: _Numbers) -> _Hit | None:
    form = shape.geometry
    if isinstance(form, Mesh):
        return _mesh(draft, shape, form, body, pose, numbers)
    (piece,) = pieces_of(shape, shape_label(draft, shape, body), draft.diagnostics)
    hit = _Hit(shape, piece, body, pose)
    if isinstance(form, Plane):
        half = (np.inf, np.inf) if form.size is None else (form.size[0] / 2 or np.inf, form.size[1] / 2 or np.inf)
        hit.piece = Piece("plane", (*half, 0.0), np.inf)
    if piece.heights is not None:
        rows, columns = piece.heights.shape
        hit.first, hit.counts = numbers.add(id(form), piece.heights.ravel(), (rows, columns))
    return hit


def _mesh(draft: Draft, shape: Shape, mesh: Mesh, body: Body | None, pose: Pose, numbers: _Numbers) -> _Hit | None:
    try:
        data = mesh_data(mesh)
        if data is None:
            raise shapes.MeshError("Its file was not found.")
    except shapes.ShapeError as problem:
        message = f"rays pass through the mesh of {shape_label(draft, shape, body)}: {problem}"
        draft.diagnostics.warning("sim.no-rays", message, origin=shape.origin)
        return None
    corners = np.asarray(data.triangles(), np.float64)
    if not len(corners):
        return None
    center = (corners.min(axis=(0, 1)) + corners.max(axis=(0, 1))) / 2
    radius = float(np.linalg.norm(corners - center, axis=2).max())
    packed, n_boxes = pack_tree(corners)
    key = (mesh.path, mesh.submesh, mesh.center_submesh, tuple(mesh.scale)) if mesh.path else id(mesh)
    if key not in numbers.known and numbers.length + len(packed) > MOST_NUMBERS:
        message = f"rays pass through the mesh of {shape_label(draft, shape, body)}: the scene has too many triangles"
        draft.diagnostics.warning("sim.no-rays", message, origin=shape.origin)
        return None
    hit = _Hit(shape, Piece("mesh", (0.0, 0.0, 0.0), radius, center), body, pose)
    hit.first, hit.counts = numbers.add(key, packed, (n_boxes, len(corners)))
    return hit
