"""USD stages with UsdPhysics: SI, Z up, nested or flat, as text, as crate, or packed."""

from __future__ import annotations

from pathlib import Path

from kinema.description import Robot, World
from kinema.foundation import WriteError

from ..files import staging
from ..report import LossReport
from .export import export
from .stage import compose
from .writing import UsdOptions as UsdOptions


def write_usd(described: Robot | World, path: Path, report: LossReport, options: UsdOptions) -> None:
    """Write a stage; what USD cannot say goes into the report."""
    if options.layout not in ("nested", "flat"):
        raise WriteError(f"{path}: the layout is 'nested' or 'flat', not {options.layout!r}")
    if options.meshes not in ("embed", "reference"):
        raise WriteError(f"{path}: meshes are to 'embed' or to 'reference', not to {options.meshes!r}")
    if path.suffix.lower() == ".usdz" and (options.layered or options.meshes != "embed"):
        raise WriteError(f"{path}: a .usdz is one file; write it without layers, with its meshes embedded")
    with staging(path) as folder:
        writing = compose(described, path, report, options, folder)
        export(writing, folder / path.name)
