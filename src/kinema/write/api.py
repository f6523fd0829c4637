"""The public function `write`: option checks, choice of the format, and dispatch to the writer of the format."""

from __future__ import annotations

import importlib
import inspect
import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Unpack

from kinema.core import KinemaError, WriteError
from kinema.description import Robot, World
from kinema.tokens import WriteKeywords, WriteOptions

from .files import protect_files, source_files
from .generated_actuators import add_actuators
from .loss_report import LossReport, unnamed_shape_labels
from .validation import check_options, with_base_option

FORMATS = {"usd": (".usda", ".usdc", ".usd", ".usdz"), "mjcf": (".xml", ".mjcf"), "urdf": (".urdf",), "sdf": (".sdf",)}
"""Output formats and the file suffixes of each."""


def resolve_format(path: str | os.PathLike[str], format: str | None = None) -> str:
    """Output format of a file: the given format, or the format of the path's suffix.

    Raises:
        WriteError: the format or the suffix is unknown; the message lists the formats.
    """
    file = Path(path)
    if format is None:
        format = next((f for f, suffixes in FORMATS.items() if file.suffix.lower() in suffixes), None)
        if format is None:
            raise WriteError(
                f"{file}: files with the suffix {file.suffix!r} cannot be written; {_supported_formats_text()}"
            )
    if format not in FORMATS:
        raise WriteError(f"{file}: {format!r} cannot be written; {_supported_formats_text()}")
    return format


def _supported_formats_text() -> str:
    return "these can: " + ", ".join(f"{f} ({' '.join(suffixes)})" for f, suffixes in FORMATS.items())


def write(
    description: Robot | World,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    options: WriteOptions | None = None,
    **changes: Unpack[WriteKeywords],
) -> LossReport:
    """Write a robot or a world to a USD, MJCF, URDF or SDFormat file and report the losses.

    Writing is atomic: the file appears complete or not at all, and replaces an existing file.

    Args:
        description: the robot or world.
        path: the output file; its folder is created if necessary.
        format: `usd`, `mjcf`, `urdf` or `sdf`; by default selected by the suffix.
        options: options of the writer.
        **changes: fields of `WriteOptions` that replace those of `options`.

    Returns:
        Loss report: everything that the format cannot represent, element by element; empty if nothing was lost.

    Raises:
        WriteError: nothing was written because the folder is not writable, the format is unknown, an option has no
            allowed value, or the argument is not a description.
        TypeError: there is no option of that name.
    """
    file = Path(path)
    if not isinstance(description, Robot | World):
        raise WriteError(f"{file}: a Robot or a World can be written, not {type(description).__name__}")
    options = replace(options or WriteOptions(), **changes)
    check_options(options, file)
    chosen = resolve_format(file, format)
    report = LossReport(chosen, str(file))
    description = with_base_option(description, options.base)
    if options.actuators:
        description = add_actuators(description, options.actuators, report)
    report.unnamed_elements = unnamed_shape_labels(description)
    try:
        with protect_files(frozenset() if options.force else source_files(description)):
            writer = importlib.import_module(f".{chosen}", __package__)
            getattr(writer, f"write_{chosen}")(description, file, report, options)
        report.unnamed_elements = {}  # identities mean nothing later
    except KinemaError:
        raise
    except Exception as error:  # a defect of ours must still not be a traceback in a user's face
        raise WriteError(
            f"{file}: Kinema failed to write this description ({type(error).__name__}: {error}); this is a defect of "
            "Kinema, please report it with the file it was read from"
        ) from error
    return report


def _document_options() -> None:
    """Show the options in the signature and the documentation of `write`."""
    signature = inspect.signature(write)
    declared = {f.name: f for f in fields(WriteOptions)}
    keywords = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=f.type)
        for name, f in declared.items()
    ]
    fixed = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    vars(write)["__signature__"] = signature.replace(parameters=[*fixed, *keywords])
    lines = [f"        {name}: {f.metadata['help']}" for name, f in declared.items()]
    write.__doc__ = (write.__doc__ or "") + "\n    Options:\n" + "\n".join(lines) + "\n"


_document_options()
