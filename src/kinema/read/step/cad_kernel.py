"""Runs the CAD kernel on a STEP file in a subprocess, which returns the parts as a snapshot and mesh files.

A STEP file with invalid entity references can crash the kernel or exhaust the memory; the subprocess turns both into an
error message. Only JSON and arrays are transferred back.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from kinema.core import Diagnostic, Diagnostics, Origin, Pose, ReadError, Severity
from kinema.geometry import MeshData, MeshError

from ..cad.build123d_assembly import SolidOptions
from ..cad.elements import (
    SNAPSHOT_MARKER,
    SNAPSHOT_MARKER_KEY,
    SNAPSHOT_VERSION,
    BodyElement,
    OccurrenceElement,
    PhysicalElement,
    Snapshot,
)
from ..cad.parse import parse_snapshot

# -- transfer of the results -------------------------------------------------------------------------------------------

LOG_FILE = "kernel.log"
_SNAPSHOT_FILE, _REPORTS_FILE = "snapshot.json", "reports.json"


def write_parts(folder: Path, name: str, occurrences: list[OccurrenceElement], diagnostics: Diagnostics) -> None:
    """Write occurrences, meshes (npz) and diagnostics to a folder; called in the subprocess."""
    files: dict[int, str] = {}
    entries = [_occurrence_to_json(o, folder, files) for o in occurrences]
    head = {SNAPSHOT_MARKER_KEY: SNAPSHOT_MARKER, "version": SNAPSHOT_VERSION, "units": "m,kg,rad", "name": name}
    (folder / _SNAPSHOT_FILE).write_text(json.dumps({**head, "occurrences": entries}), encoding="utf-8")
    reports = [[d.severity.value, d.code, d.message, d.hint] for d in diagnostics]
    (folder / _REPORTS_FILE).write_text(json.dumps(reports), encoding="utf-8")


def read_parts(folder: Path, file: Path, diagnostics: Diagnostics) -> Snapshot:
    """Read the snapshot, meshes and diagnostics that `write_parts` wrote to a folder."""
    for severity, code, message, hint in json.loads((folder / _REPORTS_FILE).read_text(encoding="utf-8")):
        diagnostics.report(Diagnostic(Severity(severity), code, message, hint, Origin(str(file))))
    snapshot = parse_snapshot((folder / _SNAPSHOT_FILE).read_bytes(), str(file), diagnostics)
    meshes: dict[str, MeshData] = {}
    for occurrence in snapshot.occurrences:
        occurrence.origin = Origin(str(file), path=occurrence.path)
        for body in occurrence.bodies:
            if body.mesh is not None:
                name = body.mesh.file
                if name not in meshes:
                    meshes[name] = _load_mesh(folder / name, file)
                body.mesh.file, body.mesh.triangles = "", meshes[name]
    return snapshot


def _load_mesh(path: Path, file: Path) -> MeshData:
    """Load a mesh from an npz file, without pickles."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return MeshData(arrays["vertices"], arrays["faces"])
    except (OSError, ValueError, KeyError, MeshError) as error:
        raise ReadError(f"{file}: the triangles that the CAD kernel made cannot be read: {error}") from None


def _occurrence_to_json(occurrence: OccurrenceElement, folder: Path, files: dict[int, str]) -> dict[str, Any]:
    return {
        "path": occurrence.path,
        "name": occurrence.name,
        "parent": occurrence.parent or None,
        "component": occurrence.component,
        "pose": _matrix_rows(occurrence.pose),
        "bodies": [_body_to_json(body, folder, files) for body in occurrence.bodies],
    }


def _body_to_json(body: BodyElement, folder: Path, files: dict[int, str]) -> dict[str, Any]:
    """JSON entry of a body; writes its mesh to an npz file unless already in `files`."""
    entry: dict[str, Any] = {"name": body.name, "color": body.color, "material": body.material}
    if body.physical is not None:
        entry["physical"] = _physical_to_json(body.physical)
    if body.mesh is not None and body.mesh.triangles is not None:
        mesh = body.mesh.triangles
        if id(mesh) not in files:
            files[id(mesh)] = f"{len(files)}.npz"
            np.savez(folder / files[id(mesh)], vertices=mesh.vertices, faces=mesh.faces)
        entry["mesh"] = {"file": files[id(mesh)], "unit": "m", "frame": "component"}
    return entry


def _physical_to_json(physical: PhysicalElement) -> dict[str, Any]:
    i = physical.inertia
    principal = None if physical.principal is None else physical.principal.tolist()
    return {
        "mass": physical.mass,
        "center": physical.center.tolist(),
        "inertia": [float(i[at]) for at in ((0, 0), (1, 1), (2, 2), (0, 1), (1, 2), (0, 2))],
        "principal": principal,
        "frame": physical.frame,
    }


def _matrix_rows(pose: Pose) -> list[float]:
    return pose.matrix.ravel().tolist()


# -- subprocess --------------------------------------------------------------------------------------------------------

TIMEOUT = 600.0
"""Time limit of the subprocess [s]."""
_MAX_LOG = 65536
_SYNTAX_ERROR = re.compile(r"Line (\d+): (?:Incorrect syntax: )?(.*?)\s*\*{4}")
_ERROR_MESSAGE = re.compile(r"\*{4} ERR (.*?)\s*\*{4}")
# isolated mode (-I), so that no file in the working directory is imported as a module
_WORKER_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from kinema.read.step.worker import main; main()"
)


def load_parts(file: Path, options: SolidOptions, diagnostics: Diagnostics) -> Snapshot:
    """Parts of a STEP file as a snapshot; raises `ReadError` if the CAD kernel fails."""
    with tempfile.TemporaryDirectory(prefix="kinema-step-") as name:
        folder = Path(name)
        status = _run_worker(file, folder, options)
        log = (folder / LOG_FILE).read_bytes()[:_MAX_LOG].decode("utf-8", "replace")
        if status != 0:
            raise ReadError(_failure_reason(file, status, log))
        error = _ERROR_MESSAGE.search(log)
        if error is not None:
            message = f"the CAD kernel says: {error[1]:.200}; parts may be missing"
            diagnostics.warning("step.kernel-says", message, origin=Origin(str(file)))
        return read_parts(folder, file, diagnostics)


def _run_worker(file: Path, folder: Path, options: SolidOptions) -> int:
    """Run the CAD kernel subprocess until it ends; returns the exit status."""
    path = [entry for entry in sys.path if entry]
    arguments = [json.dumps(path), str(file.resolve()), str(folder), json.dumps(asdict(options))]
    with (folder / LOG_FILE).open("wb") as log:
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-c", _WORKER_PROGRAM, *arguments],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            raise ReadError(f"{file}: the CAD kernel did not finish with this file in {TIMEOUT:.0f} s") from None
        except OSError as error:
            raise ReadError(f"{file}: the CAD kernel could not be started: {error.strerror}") from None
    return done.returncode


def _failure_reason(file: Path, status: int, log: str) -> str:
    """Error message for a failed subprocess, from its exit status and log."""
    syntax = _SYNTAX_ERROR.search(log)
    if syntax is not None:
        return f"{file}:{syntax[1]}: this is not valid STEP: {syntax[2]}"
    if status < 0:
        return f"{file}: the CAD kernel crashed on this file (signal {-status}); its entities are probably damaged"
    lines = [line for line in log.splitlines() if line.strip()]
    return f"{file}: the CAD kernel could not read this file: {lines[-1] if lines else 'it gave no reason':.300}"
