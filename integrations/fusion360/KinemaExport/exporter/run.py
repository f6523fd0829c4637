"""The whole export, step by step."""

from __future__ import annotations

import datetime
from typing import Any

from .api import attribute
from .assembly import Assembly
from .errors import ExportError
from .joints import describe_joint, describe_motion_links, describe_rigid_groups, find_joints
from .meshes import MeshFiles
from .output import MARKER, OutputFolder, write_json
from .parts import Parts
from .probe import probe_joint

EXPORTER = "KinemaExport 1.0.0"
VERSION = 1


class Options:
    """What the user chose."""

    def __init__(
        self, quality: int = 11, probe: bool = True, up: str = "z", program_version: str = "", time: str = ""
    ) -> None:
        self.quality = quality
        self.probe = probe
        self.up = up
        self.program_version = program_version
        self.time = time or datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


class Progress:
    """Is told how far the export is; it may raise Cancelled."""

    def begin(self, title: str, steps: int) -> None:
        """A stage of the work begins."""

    def step(self, done: int) -> None:
        """So many steps of the stage are done."""


class Result:
    """What was written."""

    def __init__(self, folder: str, snapshot: dict[str, Any], n_meshes: int) -> None:
        self.folder = folder
        self.n_occurrences = len(snapshot["occurrences"])
        self.n_joints = len(snapshot["joints"])
        self.n_meshes = n_meshes
        self.notes: list[str] = snapshot["notes"]


def export(design: Any, parent: str, options: Options, progress: Progress) -> Result:
    """Write a design's snapshot and meshes into a new folder in `parent`."""
    if design is None:
        raise ExportError("Open a design first.")
    name = design.rootComponent.name
    with OutputFolder(parent, name) as output:
        notes: list[str] = []
        meshes = MeshFiles(output.path, options.quality, notes)
        snapshot = build_snapshot(design, meshes, options, progress, notes)
        write_json(output.path, snapshot)
        return Result(output.commit(), snapshot, meshes.count)


def build_snapshot(
    design: Any, meshes: MeshFiles, options: Options, progress: Progress, notes: list[str]
) -> dict[str, Any]:
    """The snapshot's content; the meshes are written on the way."""
    assembly = Assembly(design)
    parts = Parts(assembly, meshes, notes)
    progress.begin("Part", len(assembly.occurrences) + 1)
    root = parts.root()
    occurrences = []
    for done, occurrence in enumerate(assembly.occurrences.values()):
        progress.step(done + 1)
        occurrences.append(parts.occurrence(occurrence))
    records = find_joints(assembly)
    joints = [describe_joint(record) for record in records]
    if options.probe:
        add_probes(design, assembly, records, joints, progress, notes)
    return {
        "kinema": MARKER,
        "version": VERSION,
        "units": "cm,kg,rad",
        "name": design.rootComponent.name,
        "up": options.up,
        "source": {
            "program": "Autodesk Fusion",
            "program_version": options.program_version,
            "exporter": EXPORTER,
            "time": options.time,
        },
        "root": root,
        "occurrences": occurrences,
        "joints": joints,
        "rigid_groups": describe_rigid_groups(assembly),
        "motion_links": describe_motion_links(assembly, records, notes),
        "notes": notes,
    }


def add_probes(
    design: Any,
    assembly: Assembly,
    records: list[Any],
    joints: list[dict[str, Any]],
    progress: Progress,
    notes: list[str],
) -> None:
    """Drive every joint; the design is left as it was."""
    snapshots = attribute(design, "snapshots")
    was_pending = bool(attribute(snapshots, "hasPendingSnapshot", True))
    progress.begin("Checking joint", len(records))
    try:
        for done, record in enumerate(records):
            progress.step(done)
            joints[done]["probe"] = probe_joint(record, assembly, notes)
    finally:
        # moves that the user has not captured must not be reverted along with ours
        if not was_pending and attribute(snapshots, "hasPendingSnapshot", False):
            snapshots.revertPendingSnapshot()
