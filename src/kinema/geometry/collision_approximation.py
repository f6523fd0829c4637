"""Collision approximations of meshes, and contact sample points.

Approximations are those of `MeshCollisionAPI` of USD (convex hull, CoACD convex decomposition, bounding sphere and box,
simplification) and signed distance fields.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from kinema.core import KinemaError, content_digest, import_optional, load_or_compute

from .bounding_volumes import BoundingSphere, OrientedBoundingBox, bounding_sphere, oriented_bounding_box
from .convex import Polytope, convex_hull, convex_polytope
from .distance.signed_distance_field import DEFAULT_SDF_RESOLUTION, SignedDistanceField, build_signed_distance_field
from .mass_properties import signed_volume
from .mesh import (
    FloatArray,
    GeometryError,
    IntArray,
    MeshData,
    MeshError,
    ProgressCallback,
    validate_mesh,
    weld_vertices,
)
from .mesh_quality import PLANAR_MESH_THICKNESS, is_planar, thicken_planar_mesh
from .mesh_simplification import simplify_mesh

# Convex decomposition -------------------------------------------------------------------------------------------------

_COACD_WORKER = Path(__file__).with_name("coacd_worker.py")
_DECOMPOSITION_VERSION = 1
_COACD_ITERATION = re.compile(r"iter (\d+) ")
_COACD_PROGRESS = re.compile(r"Processing \[([\d.]+)%\]")
_NO_FACES = np.zeros((0, 3), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class DecompositionOptions:
    """Options of the CoACD convex decomposition."""

    threshold: float = 0.05
    """Concavity threshold relative to half of the mesh size: 0.01 is fine, 1 gives the convex hull."""
    max_parts: int | None = None
    """Maximum number of convex parts; None for no limit."""
    max_part_vertices: int = 64
    """Maximum number of vertices per part."""
    seed: int = 0
    """Random seed of the search; the result is deterministic for a given seed."""

    def __post_init__(self) -> None:
        """Raise `GeometryError` for options out of range."""
        if not 0.01 <= self.threshold <= 1.0:
            raise GeometryError(f"The threshold of a decomposition must be between 0.01 and 1, got {self.threshold}.")
        if self.max_parts is not None and self.max_parts < 1:
            raise GeometryError(f"The maximum number of parts must be at least 1, got {self.max_parts}.")
        if self.max_part_vertices < 4:
            raise GeometryError(
                f"The maximum number of vertices of a part must be at least 4, got {self.max_part_vertices}."
            )


def convex_decomposition(
    mesh: MeshData, options: DecompositionOptions | None = None, progress: ProgressCallback | None = None
) -> list[MeshData]:
    """Approximate convex decomposition of `mesh` by CoACD: convex meshes in its frame, cached on disk.

    `progress` is called with the completed fraction. Raises `MeshError` if the mesh cannot be decomposed and
    `KinemaError` if CoACD is not installed.
    """
    options = options or DecompositionOptions()
    welded = weld_vertices(validate_mesh(mesh))
    key = content_digest("convex parts", _DECOMPOSITION_VERSION, welded.vertices, welded.faces, options)
    arrays = load_or_compute("geometry", key, lambda: _compute_convex_parts(welded, options, progress))
    bounds = pairwise(arrays["start"].tolist())
    return [convex_hull(MeshData(arrays["points"][first:last], _NO_FACES)) for first, last in bounds]


def _compute_convex_parts(
    mesh: MeshData, options: DecompositionOptions, progress: ProgressCallback | None
) -> dict[str, np.ndarray]:
    """Run CoACD on the normalised mesh: vertices `points` [m] of the hulls of all parts, and `start` of each part."""
    convex_hull(mesh)  # raises for a planar mesh, to which CoACD would assign a thickness
    import_optional("coacd", purpose="Convex decomposition")
    # Centred and scaled to unit size to preserve precision.
    center = mesh.vertices.min(axis=0) / 2 + mesh.vertices.max(axis=0) / 2
    size = float(np.ptp(mesh.vertices, axis=0).max()) or 1.0
    arrays = _run_coacd(MeshData((mesh.vertices - center) / size, mesh.faces), options, progress)
    points, start = arrays["points"] * size + center, arrays["start"]
    hulls = [part for part in (_hull_or_none(points[a:b]) for a, b in pairwise(start)) if part]
    if not hulls:
        raise MeshError("CoACD finds no solid parts in the mesh.")
    sizes = [hull.n_vertices for hull in hulls]
    return {"points": np.concatenate([s.vertices for s in hulls]), "start": np.cumsum([0, *sizes])}


def _hull_or_none(points: np.ndarray) -> MeshData | None:
    """Convex hull of points (n, 3); None if they are coplanar."""
    try:
        return convex_hull(MeshData(points, _NO_FACES))
    except MeshError:
        return None


def _run_coacd(
    mesh: MeshData, decomposition: DecompositionOptions, progress: ProgressCallback | None
) -> dict[str, np.ndarray]:
    """Run CoACD in a worker process; returns `points` (n, 3) and `start` (n_parts + 1,) of the parts.

    Mesh and result are exchanged through .npz files in a temporary folder. Raises `MeshError` with the last output line
    or exit status if the worker fails.
    """
    options = {
        "threshold": decomposition.threshold,
        "max_convex_hull": decomposition.max_parts or -1,
        "decimate": True,
        "max_ch_vertex": decomposition.max_part_vertices,
        "seed": decomposition.seed,
    }
    with tempfile.TemporaryDirectory(prefix="kinema-parts-") as folder:
        np.savez(Path(folder) / "mesh.npz", vertices=mesh.vertices, faces=mesh.faces)
        status, last_line = _run_worker([folder, json.dumps(options)], progress)
        try:
            with np.load(Path(folder) / "parts.npz", allow_pickle=False) as parts:
                return {name: parts[name] for name in ("points", "start")}
        except (OSError, ValueError, KeyError):
            reason = (
                f"it crashed with signal {-status}" if status < 0 else last_line or f"it ended with status {status}"
            )
            raise MeshError(f"CoACD could not decompose the mesh: {reason}.") from None


def _run_worker(arguments: list[str], progress: ProgressCallback | None) -> tuple[int, str]:
    """Run the CoACD worker to completion: exit status and last output line. Any exception kills the worker."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    # -P: do not add the folder of the worker to sys.path, where its modules could shadow others
    command = [sys.executable, "-P", str(_COACD_WORKER), *arguments]
    try:
        worker = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, "PYTHONPATH": path},
        )
    except OSError as error:
        raise KinemaError(f"The process for a convex decomposition could not be started: {error.strerror}") from None
    with worker:
        try:
            last_line = _forward_progress(worker, progress)
        except BaseException:
            worker.kill()
            raise
    return worker.returncode, last_line


def _forward_progress(worker: subprocess.Popen[str], progress: ProgressCallback | None) -> str:
    """Parse the log output of CoACD and report progress; returns the last non-empty line."""
    last, iteration, fraction = "", 0, 0.0
    for line in worker.stdout or ():
        last = line.strip() or last
        iteration_match, progress_match = _COACD_ITERATION.search(line), _COACD_PROGRESS.search(line)
        if iteration_match:
            iteration, fraction = int(iteration_match[1]) + 1, 0.0
        if progress_match:
            fraction = max(fraction, float(progress_match[1]) / 100)  # reports of threads are unordered
        if progress is not None and (iteration_match or progress_match):
            progress(f"decomposing, iteration {iteration}", fraction)
    return last


# Approximation --------------------------------------------------------------------------------------------------------

CollisionGeometry = MeshData | Polytope | BoundingSphere | OrientedBoundingBox | SignedDistanceField


@dataclass(frozen=True, kw_only=True)
class ApproximationOptions:
    """Accuracy options of collision approximations."""

    max_hull_vertices: int | None = None
    """Maximum number of vertices of the convex hull (`maxhullvert` of MJCF); None for no limit."""
    decomposition: DecompositionOptions = field(default_factory=DecompositionOptions)
    max_simplified_faces: int = 500
    """Target number of triangles of a simplified mesh."""
    sdf_resolution: int = DEFAULT_SDF_RESOLUTION
    """Cells of a signed distance field along its longest side."""


@dataclass(frozen=True, eq=False)
class CollisionApproximation:
    """Geometries that replace a mesh in collision, in the frame of the mesh."""

    geometries: tuple[CollisionGeometry, ...]
    notes: tuple[str, ...] = ()
    """Deviations from the requested approximation, one sentence each."""


def approximate_for_collision(
    mesh: MeshData,
    approximation: str,
    options: ApproximationOptions | None = None,
    progress: ProgressCallback | None = None,
) -> CollisionApproximation:
    """Approximate `mesh` by collision geometries.

    For convex approximations and boxes, a planar mesh is given a small thickness first; its convex decomposition is
    replaced by its convex hull. Both are reported in `notes`.

    Args:
        mesh: triangles [m].
        approximation: `none`, `convexHull`, `convexDecomposition`, `boundingSphere`, `boundingCube` (oriented bounding
            box), `meshSimplification` or `sdf`.
        options: accuracy options.
        progress: called with the completed fraction of long computations.

    Raises:
        GeometryError: unknown approximation.
        MeshError: the mesh is invalid or cannot be approximated.
    """
    if approximation not in _APPROXIMATORS:
        raise GeometryError(f"Unknown approximation {approximation!r}; supported are {', '.join(_APPROXIMATORS)}.")
    validate_mesh(mesh)
    notes: tuple[str, ...] = ()
    if approximation in _NEEDS_VOLUME and is_planar(mesh):
        thickened = thicken_planar_mesh(mesh)
        if thickened is None:
            raise MeshError("The vertices of the mesh are collinear, so it has no collision geometry.")
        mesh = thickened
        notes = (f"The mesh is planar; it is given a thickness of {PLANAR_MESH_THICKNESS:g} times its size.",)
        if approximation == "convexDecomposition":
            approximation, notes = (
                "convexHull",
                (*notes, "A planar mesh is not decomposed; its convex hull is used."),
            )
    return CollisionApproximation(
        _APPROXIMATORS[approximation](mesh, options or ApproximationOptions(), progress), notes
    )


_NEEDS_VOLUME = ("convexHull", "convexDecomposition", "boundingCube")
"""Approximations for which a planar mesh is thickened."""

_APPROXIMATORS: dict[
    str, Callable[[MeshData, ApproximationOptions, ProgressCallback | None], tuple[CollisionGeometry, ...]]
] = {
    "none": lambda mesh, options, progress: (mesh,),
    "convexHull": lambda mesh, options, progress: (convex_polytope(mesh, options.max_hull_vertices),),
    "convexDecomposition": lambda mesh, options, progress: tuple(
        convex_polytope(part) for part in convex_decomposition(mesh, options.decomposition, progress)
    ),
    "boundingSphere": lambda mesh, options, progress: (bounding_sphere(mesh),),
    "boundingCube": lambda mesh, options, progress: (oriented_bounding_box(mesh),),
    "meshSimplification": lambda mesh, options, progress: (simplify_mesh(mesh, options.max_simplified_faces),),
    "sdf": lambda mesh, options, progress: (
        build_signed_distance_field(mesh, resolution=options.sdf_resolution, progress=progress),
    ),
}

APPROXIMATIONS = tuple(_APPROXIMATORS)
"""Names accepted by `approximate_for_collision`."""


# Contact sample points ------------------------------------------------------------------------------------------------

MAX_CONTACT_SAMPLES = 800
MIN_RELATIVE_SPACING = 1.0 / 48.0
"""Minimum spacing of points along an edge, relative to the mesh size."""
_FLAT_EDGE_TOLERANCE = 1e-6
"""Height of an edge over the adjacent face, relative to the mesh size, below which the edge is flat."""


def contact_sample_points(mesh: MeshData, max_points: int = MAX_CONTACT_SAMPLES) -> FloatArray:
    """Deterministic sample points for contacts on the convex edges of `mesh` [m], shape (n, 3), n <= `max_points`.

    First contact between polyhedra occurs at a vertex or an edge crossing, never in a concave region. Samples are
    therefore all end points of convex edges and points along these edges, spaced by 1/48 of the mesh size or, if there
    would be too many, more. If the end points alone exceed `max_points`, they are thinned to one per cell of a grid.
    """
    welded = weld_vertices(mesh)
    if len(welded.faces) == 0:
        return np.zeros((0, 3))
    size = float(np.ptp(welded.vertices, axis=0).max()) or 1.0
    edges = _convex_edges(welded, size)
    corners = welded.vertices[np.unique(edges)]
    if len(corners) > max_points:
        return _thin_by_grid(corners, size, max_points)
    spacing = MIN_RELATIVE_SPACING * size
    while True:
        points = np.concatenate([corners, _points_along_edges(welded.vertices, edges, spacing)])
        if len(points) <= max_points or spacing > size:
            return points if len(points) <= max_points else corners
        spacing *= 1.25


def _convex_edges(mesh: MeshData, size: float) -> IntArray:
    """Vertex pairs of convex, boundary and non-manifold edges of a welded mesh, shape (n, 2).

    An edge of two faces is convex if the opposite vertex of one face lies below the plane of the other by more than a
    tolerance relative to `size` [m].
    """
    faces = mesh.faces
    corners = mesh.vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    normals = normals / np.where(lengths > 0.0, lengths, 1.0) * (-1.0 if signed_volume(mesh) < 0.0 else 1.0)
    ends = np.stack([faces, np.roll(faces, -1, axis=1)], axis=-1).reshape(-1, 2)
    opposite = np.roll(faces, -2, axis=1).reshape(-1)
    face = np.repeat(np.arange(len(faces)), 3)
    keys = ends.min(axis=1) * len(mesh.vertices) + ends.max(axis=1)
    order = np.argsort(keys, kind="stable")
    first = np.flatnonzero(np.diff(keys[order], prepend=-1))
    uses = np.diff(first, append=len(keys))
    first_use = order[first]
    second_use = order[np.where(uses == 2, first + 1, first)]
    offset = mesh.vertices[opposite[second_use]] - mesh.vertices[ends[first_use, 0]]
    height = (normals[face[first_use]] * offset).sum(axis=1)
    return ends[first_use[(uses != 2) | (height < -_FLAT_EDGE_TOLERANCE * size)]]


def _points_along_edges(vertices: FloatArray, edges: IntArray, spacing: float) -> FloatArray:
    """Evenly spaced interior points of edges with a spacing of at most `spacing` [m], shape (n, 3)."""
    starts, vectors = vertices[edges[:, 0]], vertices[edges[:, 1]] - vertices[edges[:, 0]]
    counts = np.maximum(np.ceil(np.linalg.norm(vectors, axis=1) / spacing - 1e-9).astype(np.int64) - 1, 0)
    edge = np.repeat(np.arange(len(edges)), counts)
    position = np.arange(len(edge)) - np.repeat(np.cumsum(counts) - counts, counts)
    t = (position + 1.0) / (counts[edge] + 1.0)
    return starts[edge] + t[:, None] * vectors[edge]


def _thin_by_grid(points: FloatArray, size: float, max_points: int) -> FloatArray:
    """Thin a point set: keep the first point of each cell of a regular grid, shape (n, 3), n <= `max_points`.

    The cell size starts at `size` / 64 [m] and grows until few enough points remain.
    """
    low, cell = points.min(axis=0), size / 64.0
    while True:
        cells = np.floor((points - low) / cell).astype(np.int64)
        kept = np.sort(np.unique(cells, axis=0, return_index=True)[1])
        if len(kept) <= max_points:
            return points[kept]
        cell *= 1.1
