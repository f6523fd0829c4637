"""The add-in under test, and a shortcut from a fake design to a robot."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from kinema.core import Diagnostics
from kinema.description import Robot
from kinema.read.cad import read_cad


def module(name: str) -> Any:
    """A module of the add-in, whose folder is on pytest's path."""
    return importlib.import_module(f"KinemaExport.{name}")


def export(design: Any, folder: Path, **options: Any) -> Path:
    """Run the add-in's export; the snapshot file."""
    run = module("exporter.run")
    result = run.export(design, str(folder), run.Options(**options), run.Progress())
    return Path(result.folder) / "snapshot.json"


def exported_robot(design: Any, folder: Path, diagnostics: Diagnostics, **options: Any) -> Robot:
    """From a design to a robot by way of the snapshot."""
    return read_cad(export(design, folder, **options), diagnostics=diagnostics)


def assembly_state(robot: Robot) -> dict[str, Any]:
    """The coordinates at which the CAD program shows the robot."""
    return {j.name: j.state for j in robot.joints if j.state is not None}
