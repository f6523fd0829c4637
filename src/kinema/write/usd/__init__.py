"""USD writer: UsdPhysics stages in SI units with Z up, nested or flat, as text, crate or package."""

from __future__ import annotations

from pathlib import Path

from kinema.core import WriteError
from kinema.description import Robot, World
from kinema.tokens import WriteOptions

from ..files import stage_files
from ..loss_report import LossReport
from .export import save_stage
from .stage import compose_stage


def write_usd(description: Robot | World, path: Path, report: LossReport, options: WriteOptions) -> None:
    """Write a robot or a world as a USD stage; losses are added to the report.

    Raises:
        WriteError: a package is combined with layers or external meshes.
    """
    if path.suffix.lower() == ".usdz" and (options.layered or options.meshes == "reference"):
        raise WriteError(f"{path}: a .usdz is one file; write it without layers, with its meshes embedded")
    with stage_files(path) as folder:
        writing = compose_stage(description, path, report, options, folder)
        save_stage(writing, folder / path.name)
