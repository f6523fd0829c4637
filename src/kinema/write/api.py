"""The one function most people need: a description to any file."""

from __future__ import annotations

import os
from pathlib import Path

from kinema.description import Robot, World
from kinema.foundation import KinemaError, WriteError

from .report import LossReport

FORMATS = {"usd": (".usda", ".usdc", ".usd", ".usdz")}
"""What can be written, and the suffixes of its files."""


def format_of(path: str | os.PathLike[str], format: str | None = None) -> str:
    """The format to write, given or by the suffix; a `WriteError` that lists them where there is none."""
    file = Path(path)
    if format is None:
        format = next((f for f, suffixes in FORMATS.items() if file.suffix.lower() in suffixes), None)
        if format is None:
            raise WriteError(f"{file}: files with the suffix {file.suffix!r} cannot be written; {_can_be()}")
    if format not in FORMATS:
        raise WriteError(f"{file}: {format!r} cannot be written; {_can_be()}")
    return format


def _can_be() -> str:
    return "these can: " + ", ".join(f"{f} ({' '.join(suffixes)})" for f, suffixes in FORMATS.items())


def write(
    described: Robot | World,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    layout: str = "nested",
    meshes: str = "embed",
    layered: bool = False,
    exact: bool = True,
) -> LossReport:
    """Write a robot or a world to a file.

    The file appears whole or not at all, and replaces an older one of its name.

    Args:
        described: what to write.
        path: the file; its folder must exist.
        format: `usd`; found out from the suffix when not given.
        layout: `nested` puts every link inside the link that carries it, `flat` puts links side by side.
        meshes: `embed` puts triangles into the file, `reference` into a file of their own beside it.
        layered: make a small main file that loads geometry and physics from files of their own (USD).
        exact: also keep in double precision what the format stores in single precision.

    Returns:
        What the format cannot say, element by element; empty where nothing was lost.

    Raises:
        WriteError: nothing was written: no such folder, not a format that is written, not a description.
    """
    file = Path(path)
    if not isinstance(described, Robot | World):
        raise WriteError(f"{file}: a Robot or a World can be written, not {type(described).__name__}")
    chosen = format_of(file, format)
    report = LossReport(chosen, str(file))
    try:
        if chosen == "usd":
            from .usd import UsdOptions, write_usd

            write_usd(described, file, report, UsdOptions(layout, meshes, layered, exact))
    except KinemaError:
        raise
    except Exception as error:  # a defect of ours must still not be a traceback in a user's face
        raise WriteError(
            f"{file}: Kinema failed to write this description ({type(error).__name__}: {error}); this is a defect of "
            "Kinema, please report it with the file it was read from"
        ) from error
    return report
