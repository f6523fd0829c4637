"""Convex parts that together look like a mesh, by CoACD."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from kinema.foundation import KinemaError, content_digest, load_or_make, require
from kinema.shapes.affine import weld
from kinema.shapes.hull import convex_hull
from kinema.shapes.mesh_data import MeshData, MeshError, ShapeError, check_mesh
from kinema.shapes.report import Report

_WORKER = Path(__file__).with_name("coacd_worker.py")
_VERSION = 1
_ROUND = re.compile(r"iter (\d+) ")
_SHARE = re.compile(r"Processing \[([\d.]+)%\]")
_NO_FACES = np.zeros((0, 3), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class Decomposition:
    """How finely a mesh is taken apart."""

    threshold: float = 0.05
    """How far the parts may stand off the mesh, against half of its size: 0.01 is fine, 1 is the convex hull."""
    max_parts: int | None = None
    """Most parts; None for as many as it takes."""
    max_part_vertices: int = 64
    """Most vertices of a part."""
    seed: int = 0
    """Of the search; the same seed gives the same parts."""

    def __post_init__(self) -> None:
        if not 0.01 <= self.threshold <= 1.0:
            raise ShapeError(f"The threshold of a decomposition is between 0.01 and 1, not {self.threshold}.")
        if self.max_parts is not None and self.max_parts < 1:
            raise ShapeError(f"A decomposition has at least one part, {self.max_parts} are asked for.")
        if self.max_part_vertices < 4:
            raise ShapeError(f"A part has at least 4 vertices, {self.max_part_vertices} are asked for.")


def convex_parts(mesh: MeshData, how: Decomposition | None = None, report: Report | None = None) -> list[MeshData]:
    """Convex solids whose union is close to `mesh`, in its frame; kept on disk from then on.

    `report` is told how far it is. Raises `MeshError` where the mesh cannot be decomposed, and `KinemaError` where
    CoACD is not installed.
    """
    how = how or Decomposition()
    welded = weld(check_mesh(mesh))
    key = content_digest("convex parts", _VERSION, welded.vertices, welded.faces, how)
    arrays = load_or_make("geometry", key, lambda: _parts(welded, how, report))
    bounds = pairwise(arrays["start"].tolist())
    return [convex_hull(MeshData(arrays["points"][first:last], _NO_FACES)) for first, last in bounds]


def _parts(mesh: MeshData, how: Decomposition, report: Report | None) -> dict[str, np.ndarray]:
    """Vertices of all parts [m], and where each part's start."""
    convex_hull(mesh)  # a flat mesh has none, and says so; the library would make up a thickness
    require("coacd", purpose="Convex decomposition")
    # The library works on metres as on any unit; around the origin and of size one it loses no digits.
    middle = mesh.vertices.min(axis=0) / 2 + mesh.vertices.max(axis=0) / 2
    size = float(np.ptp(mesh.vertices, axis=0).max()) or 1.0
    found = _run(MeshData((mesh.vertices - middle) / size, mesh.faces), how, report)
    points, start = found["points"] * size + middle, found["start"]
    solids = [part for part in (_solid(points[a:b]) for a, b in pairwise(start)) if part]
    if not solids:
        raise MeshError("CoACD finds no solid parts in the mesh.")
    sizes = [solid.n_vertices for solid in solids]
    return {"points": np.concatenate([s.vertices for s in solids]), "start": np.cumsum([0, *sizes])}


def _solid(points: np.ndarray) -> MeshData | None:
    """The hull of a part; None for one that is flat."""
    try:
        return convex_hull(MeshData(points, _NO_FACES))
    except MeshError:
        return None


def _run(mesh: MeshData, how: Decomposition, report: Report | None) -> dict[str, np.ndarray]:
    options = {
        "threshold": how.threshold,
        "max_convex_hull": how.max_parts or -1,
        "decimate": True,
        "max_ch_vertex": how.max_part_vertices,
        "seed": how.seed,
    }
    with tempfile.TemporaryDirectory(prefix="kinema-parts-") as folder:
        np.savez(Path(folder) / "mesh.npz", vertices=mesh.vertices, faces=mesh.faces)
        status, said = _work([folder, json.dumps(options)], report)
        try:
            with np.load(Path(folder) / "parts.npz", allow_pickle=False) as parts:
                return {name: parts[name] for name in ("points", "start")}
        except (OSError, ValueError, KeyError):
            reason = f"it crashed with signal {-status}" if status < 0 else said or f"it ended with status {status}"
            raise MeshError(f"CoACD could not decompose the mesh: {reason}.") from None


def _work(arguments: list[str], report: Report | None) -> tuple[int, str]:
    """Run the worker to its end: its exit status, and the last line it wrote. An interrupt ends it."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    # -P, so that no module beside the worker poses as one that a library imports
    command = [sys.executable, "-P", str(_WORKER), *arguments]
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
            said = _listen(worker, report)
        except BaseException:
            worker.kill()
            raise
    return worker.returncode, said


def _listen(worker: subprocess.Popen[str], report: Report | None) -> str:
    """Pass on how far the library is; the last line that was said."""
    last, turn, share = "", 0, 0.0
    for line in worker.stdout or ():
        last = line.strip() or last
        found_turn, found_share = _ROUND.search(line), _SHARE.search(line)
        if found_turn:
            turn, share = int(found_turn[1]) + 1, 0.0
        if found_share:
            share = max(share, float(found_share[1]) / 100)  # threads report out of order
        if report is not None and (found_turn or found_share):
            report(f"decomposing, round {turn}", share)
    return last
