"""What the worker hands over: a CAD snapshot, a file of triangles for each mesh, and what it had to report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from kinema.foundation import Diagnostic, Diagnostics, Origin, Pose, ReadError, Severity
from kinema.read.cad.elements import BodyElement, OccurrenceElement, PhysicalElement, Snapshot
from kinema.read.cad.parse import parse_snapshot
from kinema.read.cad.schema import MARKER, MARKER_KEY, VERSION
from kinema.shapes import MeshData, MeshError

LOG = "kernel.log"
_SNAPSHOT, _REPORTS = "snapshot.json", "reports.json"


def write_parts(folder: Path, name: str, occurrences: list[OccurrenceElement], diagnostics: Diagnostics) -> None:
    """Write occurrences whose meshes are in memory."""
    files: dict[int, str] = {}
    entries = [_occurrence(o, folder, files) for o in occurrences]
    head = {MARKER_KEY: MARKER, "version": VERSION, "units": "m,kg,rad", "name": name}
    (folder / _SNAPSHOT).write_text(json.dumps({**head, "occurrences": entries}), encoding="utf-8")
    reports = [[d.severity.value, d.code, d.message, d.hint] for d in diagnostics]
    (folder / _REPORTS).write_text(json.dumps(reports), encoding="utf-8")


def read_parts(folder: Path, file: Path, diagnostics: Diagnostics) -> Snapshot:
    """The snapshot of the STEP file's parts."""
    for severity, code, message, hint in json.loads((folder / _REPORTS).read_text(encoding="utf-8")):
        diagnostics.report(Diagnostic(Severity(severity), code, message, hint, Origin(str(file))))
    snapshot = parse_snapshot((folder / _SNAPSHOT).read_bytes(), str(file), diagnostics)
    meshes: dict[str, MeshData] = {}
    for occurrence in snapshot.occurrences:
        occurrence.place = Origin(str(file), path=occurrence.path)
        for body in occurrence.bodies:
            if body.mesh is not None:
                name = body.mesh.file
                if name not in meshes:
                    meshes[name] = _load_mesh(folder / name, file)
                body.mesh.file, body.mesh.triangles = "", meshes[name]
    return snapshot


def _load_mesh(path: Path, file: Path) -> MeshData:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return MeshData(arrays["vertices"], arrays["faces"])
    except (OSError, ValueError, KeyError, MeshError) as error:
        raise ReadError(f"{file}: the triangles that the CAD kernel made cannot be read: {error}") from None


def _occurrence(occurrence: OccurrenceElement, folder: Path, files: dict[int, str]) -> dict[str, Any]:
    return {
        "path": occurrence.path,
        "name": occurrence.name,
        "parent": occurrence.parent or None,
        "component": occurrence.component,
        "pose": _cells(occurrence.pose),
        "bodies": [_body(body, folder, files) for body in occurrence.bodies],
    }


def _body(body: BodyElement, folder: Path, files: dict[int, str]) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": body.name, "color": body.color, "material": body.material}
    if body.physical is not None:
        entry["physical"] = _physical(body.physical)
    if body.mesh is not None and body.mesh.triangles is not None:
        mesh = body.mesh.triangles
        if id(mesh) not in files:
            files[id(mesh)] = f"{len(files)}.npz"
            np.savez(folder / files[id(mesh)], vertices=mesh.vertices, faces=mesh.faces)
        entry["mesh"] = {"file": files[id(mesh)], "unit": "m", "frame": "component"}
    return entry


def _physical(physical: PhysicalElement) -> dict[str, Any]:
    i = physical.inertia
    principal = None if physical.principal is None else physical.principal.tolist()
    return {
        "mass": physical.mass,
        "center": physical.center.tolist(),
        "inertia": [float(i[at]) for at in ((0, 0), (1, 1), (2, 2), (0, 1), (1, 2), (0, 2))],
        "principal": principal,
        "frame": physical.frame,
    }


def _cells(pose: Pose) -> list[float]:
    return pose.matrix.ravel().tolist()
